//! Sites as they run: whose request it is, what is done with it, and the rules that it is held to.
//!
//! Made once, shared by the workers. Does not serve: the loop of a connection asks here.

use std::sync::Arc;
use std::time::Duration;

use lockgate_http::h1::HeadLimits;
use lockgate_rules::{FixedResponse, Http2, LimitScope, MinRates, SiteLog, Template};

use crate::action::connect::Connect;
use crate::action::forward_auth::ForwardAuth;
use crate::action::proxy::Proxy;
use crate::admit::basic_auth::Checker;
use crate::admit::networks::Networks;
use crate::admit::rate_limit::RateLimiter;
use crate::answer::Pages;
use crate::files::Files;
use crate::route::Router;
use crate::rules::Rules;

/// The sites of one listener.
#[derive(Debug)]
pub struct Sites {
    /// Hosts to places in `sites`, methods and paths to places in `routes`.
    pub router: Router,
    /// In the order of the router.
    pub sites: Vec<Site>,
    /// The routes of all of them.
    pub routes: Vec<Route>,
    /// Limits of the heads of requests.
    pub limits: HeadLimits,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// From an answer to the next request.
    pub idle: Duration,
    /// Requests that one connection may have.
    pub requests: u64,
    /// Minimum rates of clients whose request has no route.
    pub rates: MinRates,
    /// What one connection may ask for over HTTP/2.
    pub http2: Http2,
    /// Whether what is asked for is the target of a tunnel, which one route answers whatever its
    /// path.
    pub tunnels: bool,
    /// Whether clients may speak HTTP/1: over TLS ALPN says so, without it whatever comes first.
    pub http1: bool,
    /// Whether clients may speak HTTP/2 without TLS, by prior knowledge (RFC 9113 §3.3).
    pub h2c: bool,
}

/// One site.
#[derive(Debug)]
pub struct Site {
    /// Its key as configured.
    pub name: String,
    /// Its place among the process's sites, for counters.
    pub place: usize,
    /// Where its requests are logged.
    pub log: SiteLog,
    /// What is shown instead of our own pages where no route has the request.
    pub pages: Arc<Pages>,
    /// Which of the listener's rules of TLS its connections are made by: a request over others is
    /// misdirected (421).
    pub tls_rules: usize,
}

/// What is done with the requests of one route.
#[derive(Debug)]
pub struct Route {
    /// Its key as configured; empty for that of the site itself.
    pub name: String,
    /// What answers.
    pub action: Action,
    /// Who may use it, and how often.
    pub admission: Admission,
    /// What requests and answers are held to.
    pub rules: Rules,
}

/// What answers a request.
#[derive(Debug)]
pub enum Action {
    /// An endpoint.
    Proxy(Proxy),
    /// Whomever the client names, by a tunnel.
    Connect(Box<Connect>),
    /// A file.
    Files(Arc<Files>),
    /// We do: look elsewhere.
    Redirect {
        /// Where.
        to: Template,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// We do: this.
    Respond(FixedResponse),
    /// We do: the same over TLS, at this port.
    Secure(u16),
}

/// Who may use a route, and how often.
#[derive(Debug, Default)]
pub struct Admission {
    /// Who is served.
    pub networks: Networks,
    /// How often.
    pub limit: Option<Limited>,
    /// Who may come.
    pub auth: Option<Auth>,
}

/// How often requests of a route may come.
#[derive(Debug)]
pub struct Limited {
    /// The table's share.
    pub limit: RateLimiter,
    /// Who is counted apart.
    pub by: LimitScope,
    /// What is answered past it.
    pub status: u16,
}

/// Who may come.
#[derive(Debug)]
pub enum Auth {
    /// Whoever knows a password.
    Basic(Basic),
    /// Whom a service lets in.
    Forward(Box<ForwardAuth>),
}

/// A password that every request must bring.
#[derive(Debug)]
pub struct Basic {
    /// Who may come.
    pub checker: Arc<Checker>,
    /// What the browser shows.
    pub realm: String,
    /// To whom it is brought.
    pub to: Gatekeeper,
}

/// Who asks for a password (RFC 9110 §11.6, §11.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gatekeeper {
    /// The site: 401.
    Site,
    /// A proxy that the client knows of: 407.
    Proxy,
}
