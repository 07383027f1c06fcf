//! The protocol of a client, from its first bytes.

use super::peek;

/// The methods that identify a plain HTTP client: RFC 9110, RFC 5789, WebDAV (RFC 4918), and `PRI`
/// of HTTP/2 (RFC 9113 §3.4). A list, because any word in capitals would take SMTP and FTP for
/// HTTP.
const METHODS: [&[u8]; 16] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
    b"TRACE ",
    b"PATCH ",
    b"PRI ",
    b"PROPFIND ",
    b"PROPPATCH ",
    b"MKCOL ",
    b"COPY ",
    b"MOVE ",
    b"LOCK ",
];

/// The protocol that the first bytes of a connection show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstProtocol {
    /// Too few bytes to decide; 10 always suffice.
    Undecided,
    /// A TLS handshake, or the hello of SSL 2.0: ask [`peek`](super::peek), which has an alert for
    /// it.
    Tls,
    /// Plain HTTP: respond in plain HTTP.
    Http,
    /// Neither TLS nor HTTP.
    Other,
}

/// Tells TLS from plain HTTP and from the rest. One byte is enough for TLS.
pub fn first_protocol(bytes: &[u8]) -> FirstProtocol {
    match bytes {
        [peek::HANDSHAKE, ..] => FirstProtocol::Tls,
        [0x80..=0xFF, ..] if bytes.len() < peek::RECORD_HEADER => FirstProtocol::Undecided,
        [0x80..=0xFF, ..] if peek::is_ssl2(bytes) => FirstProtocol::Tls,
        _ if METHODS.iter().any(|method| bytes.starts_with(method)) => FirstProtocol::Http,
        _ if METHODS.iter().any(|method| method.starts_with(bytes)) => FirstProtocol::Undecided,
        _ => FirstProtocol::Other,
    }
}
