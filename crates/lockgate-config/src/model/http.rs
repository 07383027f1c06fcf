//! Sites: hosts, listeners, routes, and the settings of each route.
//!
//! The settings of a site are already merged into its routes.

use std::path::PathBuf;
use std::sync::Arc;

use lockgate_rules::{
    AcceptProxy, Caching, Cidr, Compression, Cors, FixedResponse, HeaderRules, HostPattern,
    MinRates, Pattern, RateLimit, RedirectMap, ShapeRates, SiteLog, TargetRewrite, Template,
};

use super::{BodyRewrite, DownstreamTls, ListenAddr, StaticFiles, Timeouts};
use crate::source::SourceSpan;

/// The ports of sites without a port in their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The port of the redirect from plain HTTP, and of sites with `tls = false`.
    pub http: u16,
    /// The port of sites with TLS.
    pub https: u16,
}

/// An application protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1, over TLS or not.
    Http1,
    /// HTTP/2 over TLS, agreed on by ALPN (RFC 9113 §3.2).
    H2,
    /// HTTP/2 without TLS, by prior knowledge (RFC 9113 §3.3).
    H2c,
}

impl Protocol {
    /// The word in the configuration: `http1`, `h2`, `h2c`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::H2 => "h2",
            Self::H2c => "h2c",
        }
    }
}

/// One `[site."KEY"]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct HostedSite {
    /// The key of the table.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// The host of the key, then those of `alias`; never empty. On one address no two sites have
    /// the same host, except for listeners that redirect.
    pub hosts: Vec<HostPattern>,
    /// The listeners; at least one. Sites with the same `addr` and the same `secure` share one.
    pub listen: Vec<SiteListener>,
    /// TLS of the secure listeners, with `[tls]` merged in; `None` if there are none.
    pub tls: Option<DownstreamTls>,
    /// The protocols for clients, never empty, each once: over TLS `H2` and `Http1`, in order of
    /// preference; without TLS `Http1` and `H2c`, in this order, the same for all sites on one
    /// address. A listener that redirects has the protocols of the sites on its address, or
    /// HTTP/1.1 if there are none.
    pub protocols: Vec<Protocol>,
    /// Whether a PROXY header is expected from the client; the same for all sites on one address.
    pub accept_proxy: AcceptProxy,
    /// The access log of its requests.
    pub access_log: SiteLog,
    /// Files that replace Lockgate's error pages for requests without a route; one for each status.
    pub error_pages: Vec<(u16, PathBuf, SourceSpan)>,
    /// One route for each `path` table, by the text of their keys, then that of the site itself if
    /// it has an action.
    pub routes: Vec<SiteRoute>,
}

/// One address of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteListener {
    /// The address that is bound.
    pub addr: ListenAddr,
    /// Whether the listener uses TLS; the same for all sites on one address, unless its port is 0.
    pub secure: bool,
    /// Whether it only redirects to the secure listener, with 308. A site that serves the same host
    /// on the same address wins over the redirect.
    pub redirects: bool,
}

/// A route: a pattern of requests, its action and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteRoute {
    /// The key in the configuration, `"POST /x"`; empty for the site itself.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// The only method; `None` is every method.
    pub method: Option<String>,
    /// The paths of the route.
    pub pattern: Pattern,
    /// The action for its requests.
    pub action: RouteAction,
    /// The settings of its requests and responses.
    pub rules: RouteModifiers,
}

/// The action of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteAction {
    /// Proxies to a pool, by its index in `Config::pools`.
    Proxy(usize),
    /// The files of a folder.
    Files(Arc<StaticFiles>),
    /// A redirect to another URL.
    Redirect {
        /// The target of the redirect.
        to: Template,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// A fixed response.
    Respond(FixedResponse),
}

/// A fixed response without placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, from 200 to 599.
    pub status: u16,
    /// The text of the body.
    pub body: String,
    /// The media type of the body.
    pub media_type: String,
}

/// The settings of a route's requests and responses. Large ones that few routes have are boxed: there
/// may be many thousands of routes.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteModifiers {
    /// The change of the path that is sent on, or looked up.
    pub target: TargetRewrite,
    /// Changes to the fields of responses.
    pub headers: HeaderRules,
    /// Changes to the fields of requests.
    pub request_headers: HeaderRules,
    /// The maximum length of a request body in bytes; `None` is no limit.
    pub body_max: Option<u64>,
    /// Minimum rates; `min_in` comes from `body`.
    pub rates: MinRates,
    /// The rate limit.
    pub limit: Option<Box<SharedSetting<RateLimit>>>,
    /// The bandwidth limits of bodies and upgraded connections.
    pub shape: Option<Box<SharedSetting<ShapeRates>>>,
    /// The authentication of clients; `None` is no authentication.
    pub auth: Option<AuthMethod>,
    /// The percentage, from 1 to 100, of new traces to record; `None` starts no trace for a request
    /// without one.
    pub trace: Option<u8>,
    /// The only clients that are served; empty is every client.
    pub allow: Vec<Cidr>,
    /// Clients that are refused, even if `allow` has them.
    pub deny: Vec<Cidr>,
    /// Deadlines, with the global ones merged in.
    pub timeouts: Timeouts,
    /// Whether `Location` and cookie paths of a response are changed back to the client's view.
    pub rewrite_location: bool,
    /// Files that replace Lockgate's error pages; one for each status from 400 to 599.
    pub error_pages: Vec<(u16, PathBuf, SourceSpan)>,
    /// Whether paths are accepted that an origin could read differently.
    pub raw_paths: bool,
    /// Redirects before the action; shared by the routes with the same file.
    pub redirects: Option<Arc<RedirectFile>>,
    /// Rules of Cache-Control; `None` leaves it to the application.
    pub cache: Option<Caching>,
    /// Compression of responses; `None` is none.
    pub compress: Option<Compression>,
    /// Changes to bodies; `None` is none.
    pub rewrite_body: Option<BodyRewrite>,
    /// Rules of cross-origin requests; `None` leaves them to the application.
    pub cors: Option<Cors>,
}

/// A file of redirects.
#[derive(Debug, Clone, PartialEq)]
pub struct RedirectFile {
    /// The path of the file.
    pub file: PathBuf,
    /// The redirects in the file.
    pub map: Arc<RedirectMap>,
}

/// A setting with its place in the configuration file: routes that inherit it share its counts.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedSetting<T> {
    /// The setting.
    pub value: T,
    /// The place in the configuration file.
    pub at: SourceSpan,
}

/// The authentication of a route's clients.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthMethod {
    /// By user and password.
    Basic(Box<BasicAuth>),
    /// By the response of an auth service.
    Forward(Box<AuthService>),
}

/// An auth service, which decides about every request.
#[derive(Debug, Clone, PartialEq)]
pub struct AuthService {
    /// The pool of the service: an index into `Config::pools`.
    pub pool: usize,
    /// The path of the auth request, optionally with a query.
    pub path: String,
    /// Names of fields that the request gets from the service's response, and never from the
    /// client; none belongs to framing, is hop-by-hop or set by Lockgate.
    pub copy: Vec<String>,
    /// The place of the service in the configuration file.
    pub at: SourceSpan,
}

/// HTTP Basic authentication (RFC 7617).
#[derive(Debug, Clone, PartialEq)]
pub struct BasicAuth {
    /// The file of users, not opened yet.
    pub file: PathBuf,
    /// The realm that browsers show in the password prompt.
    pub realm: String,
    /// The place of the file in the configuration file.
    pub at: SourceSpan,
}
