//! What sites serve: hosts, listeners, routes, and the rules that every request of a route is held
//! to.
//!
//! Every modifier of a site is merged into its routes already.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{
    AcceptProxy, BodyRewrite, Caching, Cidr, Compression, Cors, DownstreamTls, Host, ListenAddr,
    Pattern, Shape, StaticFiles, Timeouts,
};
use crate::redirect_map::Moved;
use crate::source::SourceSpan;

/// The ports of sites without a port in their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// Where plain HTTP is redirected from, or served where `tls = false`.
    pub http: u16,
    /// Where sites with TLS are served.
    pub https: u16,
}

/// Minimum rates, measured only while that peer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Bytes a second of a request body that is due; `None` is none.
    pub min_in: Option<u64>,
    /// Bytes a second that a client takes of what is held for it; `None` is none.
    pub min_out: Option<u64>,
    /// How long a peer may stay below.
    pub grace: Duration,
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

/// What one client connection may ask for over HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    /// Requests at once, from 1 to 10,000 (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams: u32,
    /// Bytes of one request body that may come before its endpoint has taken them, from 64 KiB to
    /// 2 GB (SETTINGS_INITIAL_WINDOW_SIZE). Never more than `connection_window`.
    pub window: u32,
    /// The same for all bodies of the connection together, from 64 KiB to 2 GB.
    pub connection_window: u32,
    /// Requests that are taken back or broken. More end the connection with ENHANCE_YOUR_CALM.
    pub resets: Allowance,
    /// Frames that carry nothing for a request. More end the connection with ENHANCE_YOUR_CALM.
    pub control: Allowance,
}

/// How often something may happen on one connection: a bucket of `burst` that is filled with
/// `count` in each `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// So often, at least 1, …
    pub count: u32,
    /// The time in which `count` requests may come.
    pub every: Duration,
    /// How often at once, at least 1.
    pub burst: u32,
}

/// One `[site."KEY"]` table: hosts, listeners and routes.
#[derive(Debug, Clone, PartialEq)]
pub struct HostedSite {
    /// The key of the table as it was written.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// That of the key, then those of `alias`; never empty. On one address no two sites have the
    /// same host, but for listeners that redirect.
    pub hosts: Vec<Host>,
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

/// Where the requests of a site are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteLog {
    /// In `Config::access_log`, if there is one.
    Shared,
    /// No line is written.
    Off,
    /// The log at this index of `Config::site_logs`.
    Own(usize),
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
        /// The target with its placeholders: `{*}` (only where the pattern has a tail or is
        /// `Any`), `{host}`, `{path}`, `{query}` and the parameters of the pattern.
        to: String,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// An answer that is the same for every request.
    Respond(Answer),
}

/// A fixed answer: its body is a text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, from 200 to 599.
    pub status: u16,
    /// Its body; of a route with the placeholders of a redirect and `{client}`. Other braces are
    /// text.
    pub body: String,
    /// The media type of the body.
    pub media_type: String,
}

/// What every request of a route and its answer are held to.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteModifiers {
    /// Whether what stands before the tail of the pattern is taken off the path that is sent on,
    /// or looked for.
    pub strip_prefix: bool,
    /// The path that is sent on instead, with the placeholders of a redirect. Never beside
    /// `strip_prefix`.
    pub rewrite: Option<String>,
    /// Changes to the fields of an answer; one for each name.
    pub headers: Vec<HeaderRule>,
    /// Changes to the fields of a request; one for each name.
    pub request_headers: Vec<HeaderRule>,
    /// The longest request body in bytes; `None` is no limit.
    pub body_max: Option<u64>,
    /// Minimum rates; `min_in` is that of `body`.
    pub rates: Rates,
    /// How often requests may come.
    pub limit: Option<RateLimit>,
    /// The rates that bodies are held to, and what upgrades carry.
    pub shape: Option<Shape>,
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
    pub redirects: Option<Arc<RedirectMap>>,
    /// How long answers may be kept; `None` is as the application says.
    pub cache: Option<Caching>,
    /// How answers are encoded; `None` is as they are.
    pub compress: Option<Compression>,
    /// What is changed in bodies; `None` is nothing.
    pub rewrite_body: Option<BodyRewrite>,
    /// The pages of other sites that may read answers; `None` leaves it to the application.
    pub cors: Option<Cors>,
}

/// A file of redirects. Of its paths the exact one holds, else the longest.
#[derive(Debug, Clone, PartialEq)]
pub struct RedirectMap {
    /// The file, absolute, already read.
    pub file: PathBuf,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// What it says, each path once.
    pub entries: Vec<Moved>,
}

/// A change to the fields of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRule {
    /// The name as written, a token (RFC 9110 §5.6.2) that is neither framing nor hop-by-hop.
    pub name: String,
    /// The change to the fields of that name.
    pub change: HeaderChange,
}

/// What becomes of the fields of one name. Values hold no control characters; their placeholders
/// are those of a fixed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderChange {
    /// These lines instead of those that are there; at least one.
    Set(Vec<String>),
    /// These lines beside those that are there; at least one.
    Add(Vec<String>),
    /// This line, where there is none.
    Default(String),
    /// The fields are removed.
    Remove,
}

/// How often requests may come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// The number of requests that may come in `every`, at least 1.
    pub count: u32,
    /// The time in which `count` requests may come.
    pub every: Duration,
    /// The clients or requests that are counted apart.
    pub per: LimitKey,
    /// How many may come at once, at least 1.
    pub burst: u32,
    /// The status of a refusal, from 400 to 599.
    pub status: u16,
    /// Where it was written; a route that inherits it has that of its site, and shares its counts.
    pub at: SourceSpan,
}

/// What requests are counted by: each has a count of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitKey {
    /// Each client address (IPv6: each /64).
    Client,
    /// Each value of this field of the request.
    Header(String),
    /// The route: all its requests together.
    Route,
}

/// How the clients of a route must authenticate.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthMethod {
    /// By a user and a password.
    Basic(BasicAuth),
    /// By a service that is asked about each request.
    Forward(ForwardAuth),
}

/// A service that is asked about every request.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardAuth {
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
