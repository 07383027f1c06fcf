//! What sites serve: hosts, listeners, routes, and the rules that every request of a route is held
//! to.
//!
//! Every modifier of a site is merged into its routes already.

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
    /// Where plain HTTP is redirected from, or served where `tls = false`.
    pub http: u16,
    /// Where sites with TLS are served.
    pub https: u16,
}

/// What is spoken over a connection.
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
    /// As it is written: `http1`, `h2`, `h2c`.
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
    /// The key of the table as it was written.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// That of the key, then those of `alias`; never empty. On one address no two sites have the
    /// same host, but for listeners that redirect.
    pub hosts: Vec<HostPattern>,
    /// Where it is served; at least one. Sites with the same `addr` and the same `secure` share a
    /// listener.
    pub listen: Vec<SiteListener>,
    /// TLS of its secure listeners, with `[tls]` merged in; `None` when there are none.
    pub tls: Option<DownstreamTls>,
    /// What is spoken where it is served, never empty, each once: over TLS `H2` and `Http1`, best
    /// first; without TLS `Http1` and `H2c`, in this order, the same for all sites that are
    /// served on one address. A listener that redirects speaks what those do, and HTTP/1.1
    /// where there are none.
    pub protocols: Vec<Protocol>,
    /// Whether a PROXY header is expected from the client; the same for all sites on one address.
    pub accept_proxy: AcceptProxy,
    /// Where its requests are logged.
    pub access_log: SiteLog,
    /// Files that stand for our own pages of errors where no route has the request; one for each
    /// status.
    pub error_pages: Vec<(u16, PathBuf, SourceSpan)>,
    /// One for each `path` table, by the text of their keys, then that of the site itself if it
    /// has a verb.
    pub routes: Vec<SiteRoute>,
}

/// One address of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteListener {
    /// The address that is bound.
    pub addr: ListenAddr,
    /// Whether TLS is spoken there; the same for all sites on one address, unless its port is 0.
    pub secure: bool,
    /// Whether it only redirects to the secure one, with 308. Where another site serves the same
    /// host on the same address itself, that site answers.
    pub redirects: bool,
}

/// What happens to the requests that a pattern matches.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteRoute {
    /// The key as written, `"POST /x"`; empty for the site itself.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// The only method; `None` is any.
    pub method: Option<String>,
    /// The paths that the route answers.
    pub pattern: Pattern,
    /// What answers the requests of the route.
    pub action: RouteAction,
    /// What every request and answer is held to.
    pub rules: RouteModifiers,
}

/// The action of a route: what answers its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteAction {
    /// A pool: an index into `Config::pools`.
    Proxy(usize),
    /// The files of a folder.
    Files(Box<StaticFiles>),
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

/// A fixed answer without placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, from 200 to 599.
    pub status: u16,
    /// The text of the body.
    pub body: String,
    /// The media type of the body.
    pub media_type: String,
}

/// What every request of a route and its answer are held to.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteModifiers {
    /// The change of the path that is sent on, or looked for.
    pub target: TargetRewrite,
    /// Changes to the fields of an answer.
    pub headers: HeaderRules,
    /// Changes to the fields of a request.
    pub request_headers: HeaderRules,
    /// The longest request body in bytes; `None` is no limit.
    pub body_max: Option<u64>,
    /// Minimum rates; `min_in` is that of `body`.
    pub rates: MinRates,
    /// How often requests may come.
    pub limit: Option<SharedSetting<RateLimit>>,
    /// The rates that bodies are held to, and what upgrades carry.
    pub shape: Option<SharedSetting<ShapeRates>>,
    /// How clients must authenticate; `None` lets every client in.
    pub auth: Option<AuthMethod>,
    /// Whether requests that are of no trace begin one: so many of a hundred, from 1 to 100, are
    /// to be recorded.
    pub trace: Option<u8>,
    /// The only clients that are served; empty is every client.
    pub allow: Vec<Cidr>,
    /// Clients that are not served, also when `allow` has them.
    pub deny: Vec<Cidr>,
    /// Deadlines, with the global ones merged in.
    pub timeouts: Timeouts,
    /// Whether `Location` and cookie paths of an answer are put back to what the client sees.
    pub rewrite_location: bool,
    /// Files that stand for our own pages of errors; one for each status from 400 to 599.
    pub error_pages: Vec<(u16, PathBuf, SourceSpan)>,
    /// Whether paths that an origin could read otherwise are let through.
    pub raw_paths: bool,
    /// What is redirected before the action; shared by the routes that have the same.
    pub redirects: Option<Arc<RedirectFile>>,
    /// How long answers may be kept; `None` is as the application says.
    pub cache: Option<Caching>,
    /// How answers are encoded; `None` is as they are.
    pub compress: Option<Compression>,
    /// What is changed in bodies; `None` is nothing.
    pub rewrite_body: Option<BodyRewrite>,
    /// The pages of other sites that may read answers; `None` leaves it to the application.
    pub cors: Option<Cors>,
}

/// A file of redirects.
#[derive(Debug, Clone, PartialEq)]
pub struct RedirectFile {
    /// The path of the file.
    pub file: PathBuf,
    /// The redirects that it names.
    pub map: Arc<RedirectMap>,
}

/// A setting with the place where it was written: routes that inherit it share its counts.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedSetting<T> {
    /// The setting.
    pub value: T,
    /// Where it was written.
    pub at: SourceSpan,
}

/// How the clients of a route must authenticate.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthMethod {
    /// By a user and a password.
    Basic(BasicAuth),
    /// By a service that is asked about each request.
    Forward(AuthService),
}

/// A service that is asked about every request.
#[derive(Debug, Clone, PartialEq)]
pub struct AuthService {
    /// The pool of the service: an index into `Config::pools`.
    pub pool: usize,
    /// The path, and perhaps the query, that the service is asked for.
    pub path: String,
    /// Names of fields that the request gets from its answer, and never from the client; none is
    /// of framing, hop-by-hop or made by us.
    pub copy: Vec<String>,
    /// Where the service was written.
    pub at: SourceSpan,
}

/// A password that every request must bring (RFC 7617).
#[derive(Debug, Clone, PartialEq)]
pub struct BasicAuth {
    /// The file of users, not opened yet.
    pub file: PathBuf,
    /// The realm that browsers show when they ask for the password.
    pub realm: String,
    /// Where the file was written.
    pub at: SourceSpan,
}
