//! One check of one endpoint: whether it can be reached, and whether it answers as it should. Has
//! no deadline and draws no conclusion.

mod h2;

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use lockgate_http::fields::Fields;
use lockgate_http::h1::body::{BodyDecoder, BodyError, BodyPart};
use lockgate_http::h1::framing::{self, FramingError};
use lockgate_http::h1::{HeadError, HeadLimits, encode, parse};
use lockgate_http::head::{Method, ResponseHead};
use lockgate_net::dial::{DialTarget, dial};
use lockgate_net::socket::Socket;
use lockgate_net::stream::Stream;
use lockgate_net::tls::Connector;
use lockgate_net::tls::handshake::{self, HandshakeError};
use lockgate_net::tls::session::TlsSession;
use lockgate_upstream::{Endpoint, EndpointAddress};
use rustix::io::Errno;
use tokio::time::timeout;

use super::channel::Channel;

/// Bytes of a body that are looked through for what is expected.
const BODY_MAX: usize = 64 * 1024;
/// The same of what is said on a connection without HTTP.
const SAID_MAX: usize = 64 * 1024;
/// Bytes that an answer may have in all: interim answers, its head, and a body in small chunks.
const ANSWER_MAX: usize = 512 * 1024;

/// The value of `User-Agent`.
const AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"), " (health check)");

/// How the endpoints of a pool are checked.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    /// What is asked.
    pub(crate) ask: Ask,
    /// The port to ask at, if it is not the one that serves; a Unix socket has none.
    pub(crate) port: Option<u16>,
    /// TLS to the endpoint, if it wants it.
    pub(crate) tls: Option<Arc<Connector>>,
    /// What goes before everything else, in plain: a PROXY header that says that we speak for
    /// ourselves.
    pub(crate) preface: Vec<u8>,
    /// From the beginning of a check to the beginning of the next, plus or minus a tenth.
    pub(crate) every: Duration,
    /// For the whole of one check.
    pub(crate) timeout: Duration,
    /// Failures in a row that take an endpoint down.
    pub(crate) fall: u32,
    /// Successes in a row that bring it back.
    pub(crate) rise: u32,
}

/// What is asked of an endpoint.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// That it can be connected to, TLS made where it has it, and what is said then.
    Connection(Script),
    /// A request of HTTP/1.1.
    Http(Request),
    /// The same over HTTP/2.
    Http2(Request),
    /// That the service of this name is served, by the health protocol of gRPC; the empty one is
    /// all of them.
    Grpc(String),
}

/// What is said on a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// By us; empty is nothing.
    pub(crate) send: Vec<u8>,
    /// What the first 64 KB that come must have somewhere; never empty, and without it nothing is
    /// waited for.
    pub(crate) expect: Option<Vec<u8>>,
}

/// A request, and what the answer must be.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// `GET`, mostly. A token.
    pub(crate) method: String,
    /// With its query: what goes on the request line.
    pub(crate) path: String,
    /// Statuses that are well.
    pub(crate) statuses: Vec<RangeInclusive<u16>>,
    /// What the first 64 KB of the body must have somewhere.
    pub(crate) body: Option<Vec<u8>>,
}

/// What is wrong with an endpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("its name does not resolve")]
    Unresolved,
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    #[error("TLS: {0}")]
    Tls(#[from] HandshakeError),
    #[error("the connection broke: {0}")]
    Broke(#[from] io::Error),
    #[error("no response before the connection ended")]
    Ended,
    #[error("the response is malformed: {0}")]
    Head(#[from] HeadError),
    #[error("the response is malformed: {0}")]
    Framing(#[from] FramingError),
    #[error("the response is malformed: {0}")]
    Body(#[from] BodyError),
    #[error("the response is too long")]
    TooLong,
    #[error("status {0}")]
    Status(u16),
    #[error("the body of the response lacks the expected text")]
    Lacking,
    #[error("the received bytes lack the expected text")]
    Unexpected,
    #[error("HTTP/2: {0}")]
    H2(String),
    #[error("the request cannot be sent over HTTP/2")]
    Unsayable,
    #[error("the response does not follow the gRPC health protocol")]
    NoGrpc,
    #[error("grpc-status {0}")]
    Grpc(String),
    #[error("the service is {0}")]
    NotServing(&'static str),
    #[error("no response within {0:?}")]
    Late(Duration),
}

impl Wrong {
    /// Whether it says nothing of the endpoint: we have no descriptor, port or memory left. If that
    /// took endpoints down, a shortage of ours would be an outage of everything.
    pub(super) fn is_ours(&self) -> bool {
        let Self::Unreachable(error) = self else {
            return false;
        };
        matches!(
            Errno::from_io_error(error),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL)
        )
    }
}

impl Check {
    /// Checks `endpoint` once.
    ///
    /// Of a name's addresses the first that can be connected to is asked, as requests go to it too;
    /// each has its share of the time.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) async fn run(&self, endpoint: &Endpoint) -> Result<(), Wrong> {
        let whole = async {
            let (socket, target) = connect(endpoint.address(), self.port, self.timeout).await?;
            let host = host(endpoint.address(), &target, self.tls.is_some());
            let session = self.secure(endpoint, &socket).await?;
            let stream = |socket, session| Stream::new(socket, session, Vec::new());
            match &self.ask {
                Ask::Connection(script) => {
                    let mut channel = self.begin(socket, session).await?;
                    script.run(&mut channel).await?;
                    channel.close().await;
                    Ok(())
                }
                Ask::Http(request) => {
                    let mut channel = self.begin(socket, session).await?;
                    channel
                        .send(&encode(&request.method, &request.path, &host, AGENT))
                        .await?;
                    request.read_answer(&mut channel).await?;
                    channel.close().await;
                    Ok(())
                }
                Ask::Http2(request) => h2::request(request, stream(socket, session), &host).await,
                Ask::Grpc(service) => h2::grpc(service, stream(socket, session), &host).await,
            }
        };
        timeout(self.timeout, whole)
            .await
            .unwrap_or(Err(Wrong::Late(self.timeout)))
    }

    /// The TLS of a connection, if it has any; what goes before everything else goes before that.
    async fn secure(
        &self,
        endpoint: &Endpoint,
        socket: &Socket,
    ) -> Result<Option<Box<TlsSession>>, Wrong> {
        let Some(connector) = &self.tls else {
            return Ok(None);
        };
        let made =
            handshake::connect(socket, connector, &endpoint.host, self.preface.clone()).await?;
        Ok(Some(made.session))
    }

    /// A connection on which what goes before everything else has gone: under TLS it went before
    /// that.
    async fn begin(
        &self,
        socket: Socket,
        session: Option<Box<TlsSession>>,
    ) -> Result<Channel, Wrong> {
        let mut channel = Channel::new(socket, session);
        if self.tls.is_none() {
            channel.send(&self.preface).await?;
        }
        Ok(channel)
    }
}

/// Connects to the first of its addresses that can be, at `port` if it is another; each has its
/// share of the time.
pub(crate) async fn connect(
    place: &EndpointAddress,
    port: Option<u16>,
    within: Duration,
) -> Result<(Socket, DialTarget), Wrong> {
    let targets = place.targets();
    let share = within / u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
    let mut wrong = Wrong::Unresolved;
    for target in targets {
        let target = match (target, port) {
            (DialTarget::Tcp(mut address), Some(port)) => {
                address.set_port(port);
                DialTarget::Tcp(address)
            }
            (target, _) => target,
        };
        match timeout(share, dial(&target)).await {
            Ok(Ok(socket)) => return Ok((socket, target)),
            Ok(Err(error)) => wrong = Wrong::Unreachable(error),
            Err(_) => wrong = Wrong::Unreachable(io::ErrorKind::TimedOut.into()),
        }
    }
    if let EndpointAddress::Name(name) = place {
        // Perhaps it has moved.
        name.failed();
    }
    Err(wrong)
}

/// RFC 9110 §7.2: the host as it was written, with a port that is not the scheme's own.
fn host(place: &EndpointAddress, target: &DialTarget, tls: bool) -> String {
    let (host, port) = match (place, target) {
        // The name of a service is none of a host.
        (EndpointAddress::Name(name), DialTarget::Tcp(address)) if name.port() != 0 => {
            (name.host().to_owned(), address.port())
        }
        (_, DialTarget::Tcp(address)) if address.is_ipv6() => {
            (format!("[{}]", address.ip()), address.port())
        }
        (_, DialTarget::Tcp(address)) => (address.ip().to_string(), address.port()),
        // A Unix socket has no name, and HTTP/1.1 no request without one.
        (_, DialTarget::Unix(_)) => return "localhost".to_owned(),
    };
    let usual = if tls { 443 } else { 80 };
    if port == usual {
        host
    } else {
        format!("{host}:{port}")
    }
}

impl Script {
    async fn run(&self, channel: &mut Channel) -> Result<(), Wrong> {
        if !self.send.is_empty() {
            channel.send(&self.send).await?;
        }
        let Some(expected) = &self.expect else {
            return Ok(());
        };
        let mut received = Vec::new();
        loop {
            // What was looked through before cannot have it, but for an end that is its beginning.
            let from = received.len().saturating_sub(expected.len());
            let more = received.len() < SAID_MAX && channel.receive(&mut received).await?;
            received.truncate(SAID_MAX);
            if contains(received.get(from..).unwrap_or_default(), expected) {
                return Ok(());
            }
            if !more {
                return Err(if received.is_empty() {
                    Wrong::Ended
                } else {
                    Wrong::Unexpected
                });
            }
        }
    }
}

impl Request {
    async fn read_answer(&self, channel: &mut Channel) -> Result<(), Wrong> {
        let (head, received) = read_head(channel).await?;
        if !self
            .statuses
            .iter()
            .any(|range| range.contains(&head.status))
        {
            return Err(Wrong::Status(head.status));
        }
        let length = framing::response(Method::of(self.method.as_bytes()), &head)?;
        let Some(expected) = self.body.as_ref().filter(|expected| !expected.is_empty()) else {
            return Ok(());
        };
        let body = read_body(
            BodyDecoder::new(length),
            received,
            channel,
            BODY_MAX,
            |body, new| {
                // What was looked through before cannot have it, but for an end that is its
                // beginning.
                let from = new.saturating_sub(expected.len());
                contains(body.get(from..).unwrap_or_default(), expected)
            },
        );
        if contains(&body.await?, expected) {
            Ok(())
        } else {
            Err(Wrong::Lacking)
        }
    }
}

/// A request without a body, which is the only one of its connection.
pub(crate) fn encode(method: &str, path: &str, host: &str, agent: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    encode::request_line(&mut out, method.as_bytes(), path.as_bytes(), None);
    for (name, value) in [
        ("Host", host),
        ("User-Agent", agent),
        ("Accept", "*/*"),
        ("Connection", "close"),
    ] {
        encode::field(&mut out, name.as_bytes(), value.as_bytes());
    }
    encode::end(&mut out);
    out
}

/// Reads the head of the answer, and what came behind it.
pub(crate) async fn read_head(channel: &mut Channel) -> Result<(ResponseHead, Vec<u8>), Wrong> {
    let (mut received, mut head, mut progress) = (
        Vec::new(),
        ResponseHead::default(),
        parse::HeadProgress::default(),
    );
    let mut interim = 0;
    loop {
        let parsed = parse::response(&received, &mut progress, &HeadLimits::default(), &mut head)?;
        if let Some(used) = parsed {
            received.drain(..used);
            if !head.is_interim() {
                return Ok((head, received));
            }
            interim += used;
            if interim > ANSWER_MAX {
                return Err(Wrong::TooLong);
            }
        } else if !channel.receive(&mut received).await? {
            return Err(Wrong::Ended);
        }
    }
}

/// Reads the body of which `received` is the beginning: all of it, or its first `most` bytes, or
/// until it is enough. That is asked with what there is and where the new part of it begins.
pub(crate) async fn read_body(
    mut decoder: BodyDecoder,
    mut received: Vec<u8>,
    channel: &mut Channel,
    most: usize,
    enough: impl Fn(&[u8], usize) -> bool,
) -> Result<Vec<u8>, Wrong> {
    let (mut body, mut trailers, mut all, mut at) =
        (Vec::new(), Fields::default(), received.len(), 0);
    loop {
        let rest = received.get(at..).unwrap_or_default();
        match decoder.decode(rest, &HeadLimits::default(), &mut trailers)? {
            BodyPart::Data(range) => {
                let new = body.len();
                body.extend_from_slice(rest.get(range.clone()).unwrap_or_default());
                body.truncate(most);
                if body.len() == most || enough(&body, new) {
                    return Ok(body);
                }
                at += range.end;
            }
            BodyPart::End(_) => return Ok(body),
            BodyPart::More(used) => {
                received.drain(..at + used);
                at = 0;
                let before = received.len();
                if !channel.receive(&mut received).await? {
                    return if decoder.may_close() {
                        Ok(body)
                    } else {
                        Err(Wrong::Ended)
                    };
                }
                all += received.len() - before;
                if all > ANSWER_MAX {
                    return Err(Wrong::TooLong);
                }
            }
        }
    }
}

fn contains(text: &[u8], expected: &[u8]) -> bool {
    text.windows(expected.len()).any(|part| part == expected)
}

#[cfg(test)]
mod tests;
