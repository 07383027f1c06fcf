//! Targets: where they are, and what is sent to them.

use std::sync::{Arc, OnceLock};

use lockgate_http::head::Method;
use lockgate_http::target::Authority;
use lockgate_net::dial;
use lockgate_net::proxy_protocol::Version;
use lockgate_net::tls::Connector;

use crate::expect::{Expect, ObservedResponse};
use crate::result::Failure;

/// A target of requests.
#[derive(Debug)]
pub struct Target {
    /// As it was written.
    pub written: String,
    /// Its share of the requests, beside the weights of the others.
    pub weight: u32,
    /// Peer: targets with the same peer share connections.
    pub peer: Arc<Peer>,
    /// Exchange with the target.
    pub exchange: Exchange,
    /// What its response must be.
    pub expect: Expect,
    /// The first response that was so, of all threads: what the others are held against.
    pub(crate) first: OnceLock<ObservedResponse>,
}

impl Target {
    /// What is wrong with a response, if something is.
    pub(crate) fn judge(&self, response: &ObservedResponse) -> Result<(), (Failure, String)> {
        if self.first.get().is_none() {
            // What went wrong is nothing to hold others against.
            self.expect.judge(response, None)?;
        }
        // Another thread may have been first meanwhile.
        self.expect
            .judge(response, Some(self.first.get_or_init(|| *response)))
    }
}

/// Peer of connections, and how they are made.
#[derive(Debug)]
pub struct Peer {
    /// Addresses in the order in which they are tried; at least one.
    pub addresses: Vec<dial::Target>,
    /// The name that certificates are held against, and that a proxy between is told.
    pub host: String,
    /// And the port.
    pub port: u16,
    /// TLS, where it is spoken.
    pub tls: Option<Arc<Connector>>,
    /// A proxy between, which is asked to connect: `addresses` are its own.
    pub proxy: Option<ConnectProxy>,
    /// A header of the PROXY protocol goes before everything else.
    pub proxy_protocol: Option<Version>,
    /// Which of the addresses answered.
    pub chosen: OnceLock<usize>,
}

impl Peer {
    /// The address that answered; the first before one was asked.
    pub(crate) fn address(&self) -> &dial::Target {
        &self.addresses[self.chosen.get().copied().unwrap_or(0)]
    }

    pub(crate) fn choose(&self, place: usize) {
        // Whoever was first keeps it.
        let _ = self.chosen.set(place);
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.address(), dial::Target::Tcp(_))
    }
}

/// A CONNECT proxy.
#[derive(Debug)]
pub struct ConnectProxy {
    /// As it was written.
    pub written: String,
    /// `Proxy-Authorization`, if it wants one.
    pub authorization: Option<String>,
}

/// Exchange with a target, by protocol.
#[derive(Debug)]
pub enum Exchange {
    /// A request of HTTP/1.1.
    Http1(Http1Request),
    /// A request of HTTP/2.
    Http2(Http2Request),
    /// A message over WebSocket, which comes back.
    WebSocket(WebSocket),
    /// Bytes that come back, or others that come instead.
    Bytes(Body),
}

impl Exchange {
    /// What is spoken, for reports.
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

/// A request, as far as it is always the same.
#[derive(Debug)]
pub struct Http1Request {
    /// Its method, which says whether the response has a body.
    pub method: Method,
    /// The head up to what changes from request to request; with its empty line where nothing
    /// does.
    pub head: Vec<u8>,
    /// Fields of which each request has one value out of several.
    pub varying: Vec<Varying>,
    /// What follows the head.
    pub body: Body,
}

/// A request of HTTP/2, as far as it is always the same.
#[derive(Debug)]
pub struct Http2Request {
    /// Its method, which says whether the response has a body.
    pub method: Method,
    /// Pseudo-fields, and fields behind them; names without capital letters (RFC 9113 §8.2).
    pub fields: Vec<(String, String)>,
    /// Fields of which each request has one value out of several, likewise.
    pub varying: Vec<Varying>,
    /// What follows the head.
    pub body: Body,
    /// Whether it is a call of gRPC, which has a status of its own.
    pub is_grpc: bool,
}

/// A field with one value out of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varying {
    /// Its name.
    pub name: String,
    /// What it may be.
    pub values: Vec<String>,
}

/// What is sent behind a head, or as a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// These bytes, maybe none.
    Fixed(Arc<[u8]>),
    /// So many random bytes, others for each request.
    Random(usize),
}

impl Body {
    /// How many bytes it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Fixed(bytes) => bytes.len(),
            Self::Random(length) => *length,
        }
    }

    /// Its bytes, or those that were made for this exchange.
    pub(crate) fn or<'a>(&'a self, made: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Random(_) => made,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Messages over a WebSocket.
#[derive(Debug)]
pub struct WebSocket {
    /// The request that asks for it, but for its key and its empty line.
    pub head: Vec<u8>,
    /// One message.
    pub message: Body,
}

/// A URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// What is spoken.
    pub scheme: Scheme,
    /// A name or an address; IPv6 with its brackets.
    pub host: String,
    /// Written, or that of its scheme.
    pub port: u16,
    /// Path and query, as they are sent.
    pub target: String,
}

/// What a URL says is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
    /// `ws` (RFC 6455 §3)
    Ws,
    /// `wss`
    Wss,
    /// `tcp`: bytes
    Tcp,
    /// `tls`: bytes under TLS
    Tls,
}

impl Scheme {
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

/// Why a text is no URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It does not begin with a scheme.
    #[error("`{0}` has no scheme: write http://{0}, or https, ws, wss, tcp, tls")]
    NoScheme(String),
    /// It begins with another.
    #[error("`{0}` has the unknown scheme `{1}`: write http, https, ws, wss, tcp or tls")]
    Scheme(String, String),
    /// Its host or port is none.
    #[error("`{0}` has no proper host and port after `://`")]
    Authority(String),
    /// It has a user.
    #[error("`{0}` has a user in it: use -H 'Authorization: …' instead")]
    User(String),
    /// The port must be there.
    #[error("`{0}` has no port, and its scheme has no default port")]
    NoPort(String),
    /// Characters that no URL has.
    #[error("`{0}` has a character that must be percent-encoded, as a space is %20")]
    Character(String),
    /// A part that is never sent.
    #[error("`{0}` has a fragment, which is never sent: leave out `#` and what follows")]
    Fragment(String),
    /// A path where none is spoken of.
    #[error("`{0}` has a path, which tcp and tls do not use")]
    Path(String),
}

impl Url {
    /// Reads a URL (RFC 3986 §3); IDNs are written as `xn--`.
    ///
    /// # Errors
    /// When it is none that can be asked for.
    pub fn parse(written: &str) -> Result<Self, UrlError> {
        let whole = || written.to_owned();
        let Some((scheme, rest)) = written.split_once("://") else {
            return Err(UrlError::NoScheme(whole()));
        };
        let scheme = Scheme::ALL
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
        if matches!(scheme, Scheme::Tcp | Scheme::Tls) && !matches!(target, "" | "/") {
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

    /// Host and port as `Host` has them: without the port that goes without saying (RFC 9110 §7.2).
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
        assert_eq!(parts("http://a"), expected(Scheme::Http, "a", 80, "/", "a"));
        assert_eq!(
            parts("http://a?q"),
            expected(Scheme::Http, "a", 80, "/?q", "a")
        );
        assert_eq!(
            parts("HTTPS://a:443/b?c=//"),
            expected(Scheme::Https, "a", 443, "/b?c=//", "a")
        );
        assert_eq!(
            parts("ws://[::1]:8080/x"),
            expected(Scheme::Ws, "[::1]", 8080, "/x", "[::1]:8080")
        );
        assert_eq!(
            parts("tcp://127.0.0.1:7"),
            expected(Scheme::Tcp, "127.0.0.1", 7, "/", "127.0.0.1:7")
        );
    }

    #[test]
    fn what_is_no_url_is_told_how_to_become_one() {
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
