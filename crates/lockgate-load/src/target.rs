//! Targets: their peers, and the requests to them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use lockgate_http::head::Method;
use lockgate_http::target::Authority;
use lockgate_net::dial;
use lockgate_net::proxy_protocol::HeaderVersion;
use lockgate_net::tls::Connector;

use crate::expect::{Expect, ObservedResponse};
use crate::result::FailureKind;

/// A target of the run.
#[derive(Debug)]
pub struct LoadTarget {
    /// URL of the target, as written.
    pub written: String,
    /// Weight of the target in the choice of the next request.
    pub weight: u32,
    /// Peer: targets with the same peer share connections.
    pub peer: Arc<RemotePeer>,
    /// The request to the target, by protocol.
    pub request: TargetRequest,
    /// Expectations that its responses must meet.
    pub expect: Expect,
    /// The first success of all threads, which later responses are compared with.
    pub(crate) first: OnceLock<ObservedResponse>,
}

impl LoadTarget {
    /// Judges a response by the expectations and by the first success.
    pub(crate) fn judge(&self, response: &ObservedResponse) -> Result<(), (FailureKind, String)> {
        if self.first.get().is_none() {
            // A failure is not compared with.
            self.expect.judge(response, None)?;
        }
        // Another thread may have set it meanwhile.
        self.expect
            .judge(response, Some(self.first.get_or_init(|| *response)))
    }
}

/// Peer of connections: its addresses, and the settings of connections to it.
#[derive(Debug)]
pub struct RemotePeer {
    /// Addresses, in the order of tries; at least one.
    pub addresses: Vec<dial::DialTarget>,
    /// Host name for the certificate, and for a CONNECT proxy.
    pub host: String,
    /// Port for a CONNECT proxy.
    pub port: u16,
    /// TLS connector, where the scheme has TLS.
    pub tls: Option<Arc<Connector>>,
    /// CONNECT proxy in between: `addresses` are then the proxy's.
    pub proxy: Option<ConnectProxy>,
    /// Version of the PROXY header that connections begin with.
    pub proxy_protocol: Option<HeaderVersion>,
    /// Index of the address that answered.
    pub chosen: OnceLock<usize>,
    /// The limit of concurrent streams that the first HTTP/2 connection was told.
    pub max_streams: OnceLock<usize>,
    /// Source addresses of its connections, which take turns; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Number of connections that had a source address.
    pub bound: AtomicUsize,
}

impl RemotePeer {
    /// The address that answered; before that, the first.
    pub(crate) fn address(&self) -> &dial::DialTarget {
        &self.addresses[self.chosen.get().copied().unwrap_or(0)]
    }

    /// Source addresses for connections to `address`: those of its family.
    pub(crate) fn sources(&self, address: &dial::DialTarget) -> impl Iterator<Item = IpAddr> {
        let is_ipv4 = match address {
            dial::DialTarget::Tcp(address) => Some(address.is_ipv4()),
            dial::DialTarget::Unix(_) => None,
        };
        let sources = self.sources.iter().copied();
        sources.filter(move |source| Some(source.is_ipv4()) == is_ipv4)
    }

    /// The source address of the next connection to `address`.
    pub(crate) fn next_source(&self, address: &dial::DialTarget) -> Option<IpAddr> {
        let number = self.sources(address).count();
        let nth = self
            .bound
            .fetch_add(1, Ordering::Relaxed)
            .checked_rem(number)?;
        self.sources(address).nth(nth)
    }

    pub(crate) fn choose(&self, index: usize) {
        // The first choice stays.
        let _ = self.chosen.set(index);
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.address(), dial::DialTarget::Tcp(_))
    }
}

/// CONNECT proxy of a peer.
#[derive(Debug)]
pub struct ConnectProxy {
    /// URL of the proxy, as written.
    pub written: String,
    /// Value of `Proxy-Authorization`, if there is one.
    pub authorization: Option<String>,
}

/// Request to a target, by protocol.
#[derive(Debug)]
pub enum TargetRequest {
    /// An HTTP/1.1 request, encoded before the run.
    Http1(Http1Request),
    /// An HTTP/2 request, or a gRPC call.
    Http2(Http2Request),
    /// A WebSocket message, which comes back.
    WebSocket(WebSocket),
    /// Bytes, which come back or are answered by others.
    Bytes(RequestBody),
}

impl TargetRequest {
    /// Name of the protocol, for reports.
    pub(crate) fn protocol(&self) -> &'static str {
        match self {
            Self::Http1(_) => "HTTP/1.1",
            Self::Http2(Http2Request { is_grpc: true, .. }) => "gRPC",
            Self::Http2(_) => "HTTP/2",
            Self::WebSocket(_) => "WebSocket",
            Self::Bytes(_) => "bytes",
        }
    }
}

/// An HTTP/1.1 request, encoded as far as it is constant.
#[derive(Debug)]
pub struct Http1Request {
    /// Method, which decides on the response's body.
    pub method: Method,
    /// The head without the varying fields; with its empty line where there are none.
    pub head: Vec<u8>,
    /// Fields with another value in each request.
    pub varying: Vec<Varying>,
    /// Bytes behind the head.
    pub body: RequestBody,
}

/// An HTTP/2 request, as far as it is constant.
#[derive(Debug)]
pub struct Http2Request {
    /// Method, which decides on the response's body.
    pub method: Method,
    /// Pseudo-fields, then fields, with names in lower case (RFC 9113 §8.2).
    pub fields: Vec<(String, String)>,
    /// Varying fields, with names in lower case.
    pub varying: Vec<Varying>,
    /// Bytes behind the head.
    pub body: RequestBody,
    /// Whether it is a gRPC call, which has its own status.
    pub is_grpc: bool,
}

/// A header field with one value out of several in each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varying {
    /// Name of the field, as it is sent.
    pub name: String,
    /// Values, of which each request has a random one.
    pub values: Vec<String>,
}

/// Body of a request, or a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBody {
    /// The same bytes for each request, maybe none.
    Fixed(Arc<[u8]>),
    /// A number of random bytes, new for each request.
    Random(usize),
}

impl RequestBody {
    /// Length of the body in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Fixed(bytes) => bytes.len(),
            Self::Random(length) => *length,
        }
    }

    /// The fixed bytes, or `made`.
    pub(crate) fn or<'a>(&'a self, made: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Random(_) => made,
        }
    }

    /// Whether its length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// WebSocket exchange: the upgrade request and the messages.
#[derive(Debug)]
pub struct WebSocket {
    /// The upgrade request without its key and its empty line.
    pub head: Vec<u8>,
    /// The message of each exchange.
    pub message: RequestBody,
}

/// A parsed URL of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Scheme, which names the protocol.
    pub scheme: UrlScheme,
    /// Host name or address; IPv6 in brackets.
    pub host: String,
    /// Port, by default that of the scheme.
    pub port: u16,
    /// Request target: path and query.
    pub target: String,
}

/// Scheme of a URL, which names protocol and TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlScheme {
    /// `http`: HTTP/1.1 or HTTP/2 without TLS.
    Http,
    /// `https`: HTTP/1.1 or HTTP/2 over TLS.
    Https,
    /// `ws`: WebSocket without TLS (RFC 6455 §3).
    Ws,
    /// `wss`: WebSocket over TLS (RFC 6455 §3).
    Wss,
    /// `tcp`: bytes without a protocol.
    Tcp,
    /// `tls`: bytes without a protocol over TLS.
    Tls,
}

impl UrlScheme {
    const ALL: [(&str, Self); 6] = [
        ("http", Self::Http),
        ("https", Self::Https),
        ("ws", Self::Ws),
        ("wss", Self::Wss),
        ("tcp", Self::Tcp),
        ("tls", Self::Tls),
    ];

    fn default_port(self) -> Option<u16> {
        match self {
            Self::Http | Self::Ws => Some(80),
            Self::Https | Self::Wss => Some(443),
            Self::Tcp | Self::Tls => None,
        }
    }
}

/// Error of a text that is no URL of a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text has no scheme in front.
    #[error("`{0}` has no scheme: write http://{0}, or https, ws, wss, tcp, tls")]
    NoScheme(String),
    /// The scheme is none of the known ones.
    #[error("`{0}` has the unknown scheme `{1}`: write http, https, ws, wss, tcp or tls")]
    Scheme(String, String),
    /// The host or port is invalid.
    #[error("`{0}` has no proper host and port after `://`")]
    Authority(String),
    /// There are credentials in it.
    #[error("`{0}` has a user in it: use -H 'Authorization: …' instead")]
    User(String),
    /// The scheme has no default port.
    #[error("`{0}` has no port, and its scheme has no default port")]
    NoPort(String),
    /// It has characters that must be escaped.
    #[error("`{0}` has a character that must be percent-encoded, as a space is %20")]
    Character(String),
    /// It has a fragment, which is never sent.
    #[error("`{0}` has a fragment, which is never sent: leave out `#` and what follows")]
    Fragment(String),
    /// It has a path, and the scheme has none.
    #[error("`{0}` has a path, which tcp and tls do not use")]
    Path(String),
}

impl Url {
    /// Parses a URL (RFC 3986 §3); IDNs are written as `xn--`.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(written: &str) -> Result<Self, UrlError> {
        let whole = || written.to_owned();
        let Some((scheme, rest)) = written.split_once("://") else {
            return Err(UrlError::NoScheme(whole()));
        };
        let scheme = UrlScheme::ALL
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(scheme))
            .ok_or_else(|| UrlError::Scheme(whole(), scheme.to_owned()))?
            .1;
        if rest.contains('#') {
            return Err(UrlError::Fragment(whole()));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::User(whole()));
        }
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Character(whole()));
        }
        if matches!(scheme, UrlScheme::Tcp | UrlScheme::Tls) && !matches!(target, "" | "/") {
            return Err(UrlError::Path(whole()));
        }
        let Authority { host, port } =
            Authority::parse(authority.as_bytes()).map_err(|_| UrlError::Authority(whole()))?;
        let port = port
            .or(scheme.default_port())
            .ok_or_else(|| UrlError::NoPort(whole()))?;
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port,
            target: format!("{slash}{target}"),
        })
    }

    /// Host and port as in the Host field: without the default port (RFC 9110 §7.2).
    pub fn authority(&self) -> String {
        if self.scheme.default_port() == Some(self.port) {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parts = |text: &str| {
            let url = Url::parse(text).unwrap();
            (
                url.scheme,
                url.host.clone(),
                url.port,
                url.target.clone(),
                url.authority(),
            )
        };
        let expected = |scheme, host: &str, port, target: &str, authority: &str| {
            (
                scheme,
                host.to_owned(),
                port,
                target.to_owned(),
                authority.to_owned(),
            )
        };
        assert_eq!(
            parts("http://a"),
            expected(UrlScheme::Http, "a", 80, "/", "a")
        );
        assert_eq!(
            parts("http://a?q"),
            expected(UrlScheme::Http, "a", 80, "/?q", "a")
        );
        assert_eq!(
            parts("HTTPS://a:443/b?c=//"),
            expected(UrlScheme::Https, "a", 443, "/b?c=//", "a")
        );
        assert_eq!(
            parts("ws://[::1]:8080/x"),
            expected(UrlScheme::Ws, "[::1]", 8080, "/x", "[::1]:8080")
        );
        assert_eq!(
            parts("tcp://127.0.0.1:7"),
            expected(UrlScheme::Tcp, "127.0.0.1", 7, "/", "127.0.0.1:7")
        );
    }

    #[test]
    fn an_invalid_url_is_refused_with_the_syntax() {
        for (text, says) in [
            ("localhost:8080", "write http://localhost:8080"),
            ("ftp://a/", "write http"),
            ("http:///x", "no proper host"),
            ("http://a:99999/", "no proper host"),
            ("http://a b/", "no proper host"),
            ("http://u:p@a/", "Authorization"),
            ("http://a/b c", "%20"),
            ("http://a/#x", "fragment"),
            ("tcp://a", "no port"),
            ("tls://a:1/x", "do not use"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
