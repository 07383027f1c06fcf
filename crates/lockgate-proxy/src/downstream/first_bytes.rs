//! The bytes before those of the application: a PROXY header where one is expected, a ClientHello
//! where TLS is.
//!
//! Bytes are read once into one buffer, in pieces of any size, and handed on. Has no deadline of
//! its own.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

use lockgate_net::client_hello::{self, ClientHello, FirstProtocol, HelloError, Peek};
use lockgate_net::proxy_protocol::{self, PrefixMatch, ProxiedAddresses, ProxyError};
use lockgate_net::socket::Socket;
use lockgate_rules::AcceptProxy;

/// Bytes that one read asks for: a ClientHello with a post-quantum key share has 1.7 KB.
const READ: usize = 4096;
/// The connection preface of an HTTP/2 client (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The fatal alert for a name that we have no certificate for (RFC 6066 §3).
const UNRECOGNIZED_NAME: u8 = 112;

/// The response to plain HTTP on a port that speaks TLS.
pub(super) const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
Content-Type: text/plain; charset=utf-8\r\n\
Content-Length: 68\r\n\
Connection: close\r\n\
\r\n\
This port speaks TLS, and you spoke plain HTTP to it. Try https://.\n";

/// Why a connection was not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpeningError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("closed before the connection was set up")]
    Closed,
    #[error("PROXY header: {0}")]
    Proxy(#[from] ProxyError),
    #[error("PROXY header from an address that is not trusted")]
    UntrustedProxy,
    #[error("{0}")]
    Hello(#[from] HelloError),
    #[error("plain HTTP on a TLS port")]
    PlainHttp,
    #[error("neither TLS nor HTTP")]
    NotTls,
    #[error("no certificate for the name {0:?}")]
    UnknownName(Box<str>),
    #[error("the certificate for the name {0:?} is not obtained yet")]
    AwaitedCert(Box<str>),
    #[error("the client sent no server name, and there is no default certificate")]
    NoName,
    #[error("no entry for this server name, and no default")]
    NoRoute,
}

impl OpeningError {
    /// The last bytes to the client before the close.
    pub(super) fn last_bytes(&self) -> Vec<u8> {
        match self {
            Self::Hello(error) => client_hello::fatal_alert(error.alert()).to_vec(),
            Self::UnknownName(_) | Self::AwaitedCert(_) | Self::NoName | Self::NoRoute => {
                client_hello::fatal_alert(UNRECOGNIZED_NAME).to_vec()
            }
            Self::PlainHttp => PLAIN_HTTP.to_vec(),
            Self::Io(_) | Self::Closed | Self::Proxy(_) | Self::UntrustedProxy | Self::NotTls => {
                Vec::new()
            }
        }
    }

    /// The reason as a metric's label, where it is that of a handshake.
    pub(super) fn handshake_reason(&self) -> Option<&'static str> {
        match self {
            Self::Hello(_) => Some("malformed"),
            Self::UnknownName(_) | Self::NoName | Self::NoRoute => Some("unknown_name"),
            Self::AwaitedCert(_) => Some("no_certificate_yet"),
            Self::PlainHttp => Some("plain_http"),
            Self::NotTls => Some("not_tls"),
            Self::Io(_) | Self::Closed | Self::Proxy(_) | Self::UntrustedProxy => None,
        }
    }
}

/// The name that a client asked for, if it did.
pub(super) type ServerName = Option<Box<str>>;

/// The first bytes of a connection, as far as they were read.
pub(super) struct FirstBytes<'c> {
    pub(super) socket: &'c Socket,
    /// The bytes that have come and were not taken.
    pub(super) received: &'c mut Vec<u8>,
}

impl FirstBytes<'_> {
    /// Reads more; `received` grows by these bytes, and by none when the wait is cut short.
    async fn receive(&mut self) -> Result<(), OpeningError> {
        let Self { socket, received } = self;
        let start = received.len();
        let read = poll_fn(|cx| {
            received.resize(start + READ, 0);
            let read = socket.poll_recv(cx, &mut received[start..]);
            let count = if let Poll::Ready(Ok(count)) = read {
                count
            } else {
                0
            };
            received.truncate(start + count);
            read
        });
        if read.await? == 0 {
            Err(OpeningError::Closed)
        } else {
            Ok(())
        }
    }

    /// Takes the PROXY header off the front of the received bytes, into `header` if that is given;
    /// `None` where there is none or it is the proxy's own (LOCAL). `begins` is called when bytes
    /// have come.
    pub(super) async fn proxy_header(
        &mut self,
        expected: AcceptProxy,
        trusted: bool,
        header: Option<&mut Vec<u8>>,
        begins: impl Fn(),
    ) -> Result<Option<(SocketAddr, SocketAddr)>, OpeningError> {
        match (expected, trusted) {
            (AcceptProxy::Never, _) | (AcceptProxy::Optional, false) => return Ok(None),
            (AcceptProxy::Require, false) => return Err(OpeningError::UntrustedProxy),
            (AcceptProxy::Optional | AcceptProxy::Require, true) => {}
        }
        loop {
            self.receive().await?;
            begins();
            if expected == AcceptProxy::Optional {
                match proxy_protocol::may_begin(self.received) {
                    PrefixMatch::No => return Ok(None),
                    PrefixMatch::Undecided => continue,
                    PrefixMatch::Yes => {}
                }
            }
            if let Some(parsed) = proxy_protocol::parse(self.received)? {
                let taken = self.received.drain(..parsed.len);
                if let Some(header) = header {
                    header.extend(taken);
                }
                return Ok(match parsed.header.addresses {
                    ProxiedAddresses::Inet {
                        source,
                        destination,
                    } => Some((source, destination)),
                    ProxiedAddresses::Local
                    | ProxiedAddresses::Unknown
                    | ProxiedAddresses::Unix { .. } => None,
                });
            }
        }
    }

    /// Whether the client speaks HTTP/2, by prior knowledge. `begins` is called when bytes have
    /// come.
    pub(super) async fn prior_knowledge(
        &mut self,
        mut begins: impl FnMut(),
    ) -> Result<bool, OpeningError> {
        loop {
            let here = self.received.len().min(PREFACE.len());
            if self.received[..here] != PREFACE[..here] {
                return Ok(false);
            }
            if here == PREFACE.len() {
                return Ok(true);
            }
            self.receive().await?;
            if here == 0 {
                begins();
            }
        }
    }

    /// Reads a whole ClientHello: its server name, and the result of `look`. The bytes stay, for
    /// the handshake. `begins` is called when bytes have come.
    pub(super) async fn client_hello<T>(
        &mut self,
        begins: impl Fn(),
        look: impl FnOnce(&ClientHello<'_>) -> T,
    ) -> Result<(ServerName, T), OpeningError> {
        let mut at_least = 1;
        loop {
            while self.received.len() < at_least {
                self.receive().await?;
                begins();
            }
            match client_hello::first_protocol(self.received) {
                FirstProtocol::Tls => {}
                FirstProtocol::Undecided => {
                    at_least = self.received.len() + 1;
                    continue;
                }
                FirstProtocol::Http => return Err(OpeningError::PlainHttp),
                FirstProtocol::Other => return Err(OpeningError::NotTls),
            }
            match client_hello::peek(self.received)? {
                Peek::NeedMore { at_least: more } => at_least = more,
                Peek::Hello(hello) => {
                    let seen = look(&hello);
                    return Ok((hello.server_name, seen));
                }
            }
        }
    }
}
