//! The head of a request as an endpoint gets it over HTTP/2 (RFC 9113 §8.3.1).

use std::borrow::Cow;

use lockgate_http::fields::{Field, Fields, Known};
use lockgate_http::h2::{self as layer, FieldBlock, SectionError};
use lockgate_http::head::Method;
use lockgate_http::hpack::Indexing;
use lockgate_http::target::Authority;

use crate::message::{FieldWriter, OutgoingRequest};

/// The longest `:path` that servers on the http crate take, as those of hyper are.
const LONGEST_PATH: usize = u16::MAX as usize - 1;
/// The authority of a request without a host to an endpoint without a name, as behind a Unix
/// socket.
const NO_HOST: &str = "localhost";

/// What of a request's pseudo-fields is made before an endpoint is chosen, since the client is at fault
/// where HTTP/2 has none.
#[derive(Debug)]
pub struct RequestPseudoFields {
    path: Vec<u8>,
}

/// The pseudo-fields of a request to one endpoint.
#[derive(Debug, Clone, Copy)]
pub struct EndpointPseudoFields<'a> {
    request: &'a RequestPseudoFields,
    /// The host and port of the endpoint, if it has any.
    endpoint: Option<(&'a str, u16)>,
}

impl RequestPseudoFields {
    /// Those of a request, as its route rewrites it.
    ///
    /// # Errors
    /// When HTTP/2 has no such path or host.
    pub fn of(request: &OutgoingRequest<'_>) -> Result<Self, SectionError> {
        let host = request.host();
        if !host.is_empty() {
            Authority::parse(host).map_err(|_| SectionError::Authority)?;
        }
        let path = path(request.path_and_query())?;
        Ok(Self { path })
    }

    /// The same for an endpoint with this host and port, which replace a missing host (RFC 9113
    /// §8.3.1).
    pub fn at<'a>(&'a self, endpoint: Option<(&'a str, u16)>) -> EndpointPseudoFields<'a> {
        EndpointPseudoFields {
            request: self,
            endpoint,
        }
    }
}

impl EndpointPseudoFields<'_> {
    fn authority<'a>(&self, host: &'a [u8]) -> Cow<'a, [u8]> {
        if !host.is_empty() {
            return host.into();
        }
        let named = match self.endpoint {
            None => NO_HOST.to_owned(),
            Some((host, port)) if host.contains(':') => {
                format!("[{}]:{port}", host.trim_matches(['[', ']']))
            }
            Some((host, port)) => format!("{host}:{port}"),
        };
        named.into_bytes().into()
    }
}

/// The method of a request on its stream: a WebSocket's handshake is an extended CONNECT (RFC 8441
/// §5).
pub(super) fn method(request: &OutgoingRequest<'_>, websocket: bool) -> Method {
    if websocket {
        Method::Connect
    } else {
        request.received.method
    }
}

/// Writes the head of a request; `secure` over TLS, `websocket` as an extended CONNECT.
pub(super) fn request(
    request: &OutgoingRequest<'_>,
    pseudo_fields: EndpointPseudoFields<'_>,
    (secure, websocket): (bool, bool),
    block: &mut FieldBlock<'_>,
) {
    let method: &[u8] = if websocket {
        b"CONNECT"
    } else {
        request.received.method_name()
    };
    let scheme: &[u8] = if secure { b"https" } else { b"http" };
    let authority = pseudo_fields.authority(request.host());
    let is_known = websocket || request.received.method != Method::Other;
    block.field(
        b":method",
        method,
        FieldBlock::shared_indexing(is_known, method),
    );
    block.field(b":scheme", scheme, Indexing::Keep);
    let of_authority = FieldBlock::shared_indexing(true, &authority);
    block.field(b":authority", &authority, of_authority);
    // Few requests have the same, and entries of the table stay.
    block.field(b":path", &pseudo_fields.request.path, Indexing::Plain);
    if websocket {
        block.field(b":protocol", b"websocket", Indexing::Keep);
    }
    let mut fields = RequestBlock { block, websocket };
    request.write_fields(&mut fields);
    // Data behind an extended CONNECT is the tunnel's, and no content (RFC 9110 §9.3.6).
    if let Some(length) = request.content_length().filter(|_| !websocket) {
        let mut digits = itoa::Buffer::new();
        let length = digits.format(length).as_bytes();
        fields
            .block
            .field(b"content-length", length, Indexing::Plain);
    }
}

/// A block as an encoder of a request's fields.
struct RequestBlock<'b, 'e> {
    block: &'b mut FieldBlock<'e>,
    websocket: bool,
}

impl FieldWriter for RequestBlock<'_, '_> {
    fn copy(&mut self, fields: &Fields, mut passes: impl FnMut(&Field<'_>) -> bool) {
        for field in fields.iter() {
            // Only HTTP/1 has the key.
            let key = self.websocket && field.name.eq_ignore_ascii_case(b"sec-websocket-key");
            if passes(&field) && layer::response::passes(&field) && !key {
                self.block.request_field(&field);
            }
        }
    }

    fn add(&mut self, name: &'static str, parts: &[&[u8]]) {
        let joined;
        let value = match parts {
            [value] => value,
            parts => {
                joined = parts.concat();
                &joined[..]
            }
        };
        let name = name.as_bytes();
        let known = Known::of(name);
        self.block.request_field(&Field { name, value, known });
    }
}

/// The `:path` of a request. What is no character of a target (RFC 3986 §2) is percent-encoded, since
/// many servers take no others.
fn path((path, query): (&[u8], Option<&[u8]>)) -> Result<Vec<u8>, SectionError> {
    let query = query.map(|query| [&b"?"[..], query]);
    let parts = [path].into_iter().chain(query.into_iter().flatten());
    let mut out = Vec::with_capacity(path.len() + 64);
    for byte in parts.flatten() {
        match byte {
            b'"' | b'<' | b'>' | b'`' | b'#' | 0x80.. => {
                out.push(b'%');
                out.extend([byte >> 4, byte & 15].map(hex));
            }
            b'!'..=b'~' => out.push(*byte),
            _ => return Err(SectionError::Path),
        }
    }
    match out.first() {
        Some(b'/') => {}
        Some(b'*') if out.len() == 1 => {}
        _ => return Err(SectionError::Path),
    }
    if out.len() > LONGEST_PATH {
        return Err(SectionError::TargetTooLong);
    }
    Ok(out)
}

/// A digit below 16 as a character.
fn hex(digit: u8) -> u8 {
    match digit {
        0..10 => b'0' + digit,
        _ => b'A' + digit - 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §8.3.1, RFC 3986 §3.3.
    #[test]
    fn a_path_of_http1_becomes_one_of_http2() {
        for (target, query, expected) in [
            ("/", None, Ok("/")),
            ("/a%20b", Some("c=d"), Ok("/a%20b?c=d")),
            ("/a", Some(""), Ok("/a?")),
            ("/<\"`>#", Some("{|}^'"), Ok("/%3C%22%60%3E%23?{|}^'")),
            ("/\u{fc}", None, Ok("/%C3%BC")),
            ("*", None, Ok("*")),
            ("*", Some("a"), Err(SectionError::Path)),
            ("", None, Err(SectionError::Path)),
            ("a", None, Err(SectionError::Path)),
            ("/a b", None, Err(SectionError::Path)),
            ("/a\r\n", None, Err(SectionError::Path)),
        ] {
            let made = path((target.as_bytes(), query.map(str::as_bytes)));
            let expected = expected.map(|text| text.as_bytes().to_vec());
            assert_eq!(made, expected, "{target:?} {query:?}");
        }
        let long = [&b"/"[..], &b"<".repeat(21_845)].concat();
        assert_eq!(path((&long, None)), Err(SectionError::TargetTooLong));
        assert!(path((&long[1..20_000], None)).is_err(), "it has no slash");
        assert!(path((&long[..20_000], None)).is_ok());
    }

    /// RFC 9113 §8.3.1: a client of HTTP/1.0 names no host.
    #[test]
    fn an_endpoint_is_the_authority_without_a_host() {
        let request = RequestPseudoFields {
            path: b"/".to_vec(),
        };
        for (endpoint, expected) in [
            (None, "localhost"),
            (Some(("a.test", 80)), "a.test:80"),
            (Some(("2001:db8::1", 80)), "[2001:db8::1]:80"),
            (Some(("[2001:db8::1]", 80)), "[2001:db8::1]:80"),
        ] {
            let at = request.at(endpoint);
            assert_eq!(*at.authority(b""), *expected.as_bytes());
            assert_eq!(*at.authority(b"b.test:8"), *b"b.test:8");
        }
    }
}
