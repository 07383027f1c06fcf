//! One check of one endpoint, within its timeout: whether it can be reached, and whether it answers
//! as it should. Draws no conclusion.

mod grpc;

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_client::{
    ClientError, ClientRequest, ExchangeLimits, HttpConnection, RemoteServer, ServerStream,
};
use lockgate_net::dial::DialTarget;
use lockgate_net::tls::Connector;
use lockgate_upstream::{Endpoint, EndpointAddress};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of a body that are looked through for what is expected.
const BODY_MAX: usize = 64 * 1024;
/// The same of what is said on a connection without HTTP.
const SAID_MAX: usize = 64 * 1024;
/// Bytes that the heads of a response may have, interim ones included.
const HEADS_MAX: usize = 512 * 1024;

/// The value of `User-Agent`.
const AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"), " (health check)");

/// How the endpoints of a pool are checked.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    /// What is checked, and how.
    pub(crate) kind: CheckKind,
    /// The port to ask at, if it is not the one that serves; a Unix socket has none.
    pub(crate) port: Option<u16>,
    /// TLS to the endpoint, if it wants it.
    pub(crate) tls: Option<Arc<Connector>>,
    /// The PROXY header that goes first, in plain, if any: it says that we speak for ourselves.
    pub(crate) proxy_header: Vec<u8>,
    /// From the beginning of a check to the beginning of the next, plus or minus a tenth.
    pub(crate) every: Duration,
    /// For the whole of one check.
    pub(crate) timeout: Duration,
    /// Failures in a row that take an endpoint down.
    pub(crate) fall: u32,
    /// Successes in a row that bring it back.
    pub(crate) rise: u32,
}

/// The same check: with TLS, by the same connector.
impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            kind,
            port,
            tls,
            proxy_header,
            every,
            timeout,
            fall,
            rise,
        } = self;
        tls.as_ref().map(Arc::as_ptr) == other.tls.as_ref().map(Arc::as_ptr)
            && (kind, port, proxy_header) == (&other.kind, &other.port, &other.proxy_header)
            && (every, timeout) == (&other.every, &other.timeout)
            && (fall, rise) == (&other.fall, &other.rise)
    }
}

/// What an endpoint is checked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckKind {
    /// That it can be connected to, TLS made where it has it, and what is said then.
    Tcp(TcpCheck),
    /// A request of HTTP/1.1.
    Http(HttpCheck),
    /// The same over HTTP/2.
    Http2(HttpCheck),
    /// That the service of this name is served, by the health protocol of gRPC; the empty one is
    /// all of them.
    Grpc(String),
}

/// A check of a connection: the bytes that we send, and those that are expected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TcpCheck {
    /// The bytes that we send; empty for none.
    pub(crate) send: Vec<u8>,
    /// What the first 64 KB that come must have somewhere; never empty, and without it nothing is
    /// waited for.
    pub(crate) expect: Option<Vec<u8>>,
}

/// A check by a request, and what the response must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpCheck {
    /// `GET`, mostly. A token.
    pub(crate) method: String,
    /// With its query: what goes on the request line.
    pub(crate) path: String,
    /// Statuses that are well.
    pub(crate) statuses: Vec<RangeInclusive<u16>>,
    /// What the first 64 KB of the body must have somewhere.
    pub(crate) body: Option<Vec<u8>>,
}

/// Why a check has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("status {0}")]
    Status(u16),
    #[error("the connection broke: {0}")]
    Broke(#[from] io::Error),
    #[error("the body of the response lacks the expected text")]
    Lacking,
    #[error("the received bytes lack the expected text")]
    Unexpected,
    #[error("the response does not follow the gRPC health protocol")]
    NoGrpc,
    #[error("grpc-status {0}")]
    Grpc(String),
    #[error("the service is {0}")]
    NotServing(&'static str),
}

impl CheckError {
    /// Whether it says nothing of the endpoint: we have no descriptor, port or memory left. If that
    /// took endpoints down, a shortage of ours would be an outage of everything.
    pub(super) fn is_ours(&self) -> bool {
        let Self::Client(ClientError::Unreachable(error)) = self else {
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
    pub(super) async fn run(&self, endpoint: &Endpoint) -> Result<(), CheckError> {
        let limits = ExchangeLimits {
            time: self.timeout,
            head_bytes: HEADS_MAX,
            body_bytes: BODY_MAX,
        };
        let whole = async {
            let (address, tls) = (endpoint.address(), self.tls.as_deref());
            let tls = tls.map(|connector| (connector, &*endpoint.host));
            let mut stream = connect(address, self.port, tls, &self.proxy_header, limits).await?;
            let host = host(address, stream.address(), tls.is_some());
            let (mut connection, request) = match &self.kind {
                CheckKind::Tcp(check) => return check.run(&mut stream).await,
                CheckKind::Http(request) => (HttpConnection::http1(stream).await?, request),
                CheckKind::Http2(request) => (HttpConnection::http2(stream), request),
                CheckKind::Grpc(service) => return grpc::check(service, stream, &host).await,
            };
            request.run(&mut connection, &host).await?;
            connection.close().await;
            Ok(())
        };
        limits.bound(whole).await
    }
}

/// Connects to `address`, at `port` if that is another.
///
/// # Errors
/// As [`RemoteServer::connect`].
pub(crate) async fn connect(
    address: &EndpointAddress,
    port: Option<u16>,
    tls: Option<(&Connector, &str)>,
    proxy_header: &[u8],
    limits: ExchangeLimits,
) -> Result<ServerStream, ClientError> {
    let mut addresses = address.targets();
    for address in &mut addresses {
        if let (DialTarget::Tcp(address), Some(port)) = (address, port) {
            address.set_port(port);
        }
    }
    let server = RemoteServer {
        addresses,
        tls,
        proxy_header,
    };
    let connected = server.connect(limits).await;
    if let EndpointAddress::Name(name) = address
        && let Err(ClientError::Unresolved | ClientError::Unreachable(_)) = connected
    {
        // Perhaps it has moved.
        name.failed();
    }
    connected
}

/// RFC 9110 §7.2: the host as it was written, with a port that is not the scheme's own.
fn host(address: &EndpointAddress, target: &DialTarget, tls: bool) -> String {
    let (host, port) = match (address, target) {
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

impl TcpCheck {
    async fn run(&self, stream: &mut ServerStream) -> Result<(), CheckError> {
        stream.write_all(&self.send).await?;
        stream.flush().await?;
        if let Some(expected) = &self.expect {
            find(expected, stream).await?;
        }
        // The answer is there: that the peer has gone already is no news.
        let _ = stream.shutdown().await;
        Ok(())
    }
}

/// Looks for `expected` in the first bytes that come.
async fn find(expected: &[u8], stream: &mut ServerStream) -> Result<(), CheckError> {
    let mut received = Vec::with_capacity(SAID_MAX);
    let mut first = stream.take(SAID_MAX as u64);
    loop {
        let new = received.len();
        let read = first.read_buf(&mut received).await?;
        if has(&received, new, expected) {
            return Ok(());
        }
        if read == 0 {
            return Err(match new {
                0 => ClientError::Ended.into(),
                _ => CheckError::Unexpected,
            });
        }
    }
}

impl HttpCheck {
    async fn run(&self, connection: &mut HttpConnection, host: &str) -> Result<(), CheckError> {
        let request = ClientRequest {
            method: &self.method,
            host,
            path: &self.path,
            fields: &[
                ("user-agent", AGENT),
                ("accept", "*/*"),
                ("connection", "close"),
            ],
            body: Bytes::new(),
        };
        let mut response = connection.exchange(&request).await?;
        let mut statuses = self.statuses.iter();
        if !statuses.any(|range| range.contains(&response.status)) {
            return Err(CheckError::Status(response.status));
        }
        let Some(expected) = self.body.as_ref().filter(|expected| !expected.is_empty()) else {
            return Ok(());
        };
        let body = response.read(|body, new| has(body, new, expected)).await?;
        if has(&body, 0, expected) {
            Ok(())
        } else {
            Err(CheckError::Lacking)
        }
    }
}

/// Whether `text` has `expected`. Up to `new` it was looked through before: only an end of that can
/// be its beginning.
fn has(text: &[u8], new: usize, expected: &[u8]) -> bool {
    let from = new.saturating_sub(expected.len());
    let rest = text.get(from..).unwrap_or_default();
    rest.windows(expected.len()).any(|part| part == expected)
}

#[cfg(test)]
mod tests;
