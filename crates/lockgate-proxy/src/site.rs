//! Sites as they run: their routes, the actions of these, and the rules that requests are held to.
//!
//! Made once, shared by the workers. Does not serve: the loop of a connection asks here.

mod maintenance;

use std::sync::Arc;
use std::time::Duration;

use lockgate_http::h1::HeadLimits;
use lockgate_net::tls::AcceptorIndex;
use lockgate_rules::{FixedResponse, Http2, LimitScope, MinRates, SiteLog, Template};

use crate::action::forward_auth::ForwardAuth;
use crate::action::forward_proxy::Connect;
use crate::action::proxy::Proxy;
use crate::admit::basic_auth::PasswordFile;
use crate::admit::networks::Networks;
use crate::admit::rate_limit::RateLimiter;
use crate::error_response::ErrorPages;
use crate::files::Files;
use crate::metrics::http::SiteIndex;
use crate::route::{ListenerSiteIndex, RouteIndex, Router};
use crate::rules::RouteRules;

pub use maintenance::{MaintenanceResponse, SiteMaintenance};

/// The sites of one listener.
#[derive(Debug)]
pub struct ListenerSites {
    /// Hosts to indexes in `sites`, methods and paths to indexes in `routes`.
    pub router: Router,
    /// In the order of the router.
    pub sites: Vec<Site>,
    /// The routes of all of them.
    pub routes: Vec<Route>,
    /// Limits of the heads of requests.
    pub limits: HeadLimits,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// From a response to the next request.
    pub idle: Duration,
    /// Requests that one connection may have.
    pub max_requests: u64,
    /// Minimum rates of a client until its request has a route.
    pub rates: MinRates,
    /// The limits of one connection over HTTP/2.
    pub http2: Http2,
    /// Whether a request's target is that of a tunnel, which one route serves for every path.
    pub tunnels: bool,
    /// Whether clients may speak HTTP/1: over TLS ALPN decides, without it the client's first
    /// bytes.
    pub http1: bool,
    /// Whether clients may speak HTTP/2 without TLS, by prior knowledge (RFC 9113 §3.3).
    pub h2c: bool,
}

impl ListenerSites {
    /// The site with this index.
    pub fn site(&self, site: ListenerSiteIndex) -> &Site {
        &self.sites[site.get()]
    }

    /// The route with this index.
    pub fn route(&self, route: RouteIndex) -> &Route {
        &self.routes[route.get()]
    }
}

/// One site.
#[derive(Debug)]
pub struct Site {
    /// The site's key as configured.
    pub name: String,
    /// The site's index for counters.
    pub index: SiteIndex,
    /// The log of its requests.
    pub log: SiteLog,
    /// The error pages for requests without a route.
    pub pages: Arc<ErrorPages>,
    /// The index of the listener's acceptor for its connections: a request over another one is
    /// misdirected (421).
    pub acceptor_index: AcceptorIndex,
    /// Whether it is in maintenance.
    pub maintenance: SiteMaintenance,
}

/// One route: the action for its requests, their admission and their rules.
#[derive(Debug)]
pub struct Route {
    /// The route's key as configured; empty for that of the site itself.
    pub name: String,
    /// The action for a request.
    pub action: Action,
    /// The admission of its requests.
    pub admission: Admission,
    /// The rules for requests and responses.
    pub rules: RouteRules,
}

/// The action for a request.
#[derive(Debug)]
pub enum Action {
    /// An endpoint.
    Proxy(Proxy),
    /// The target that the client names, by a tunnel.
    Connect(Box<Connect>),
    /// A file.
    Files(Arc<Files>),
    /// A redirect to another URL.
    Redirect {
        /// Where.
        to: Template,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// A fixed response.
    Respond(FixedResponse),
    /// A redirect to the same URL over TLS, at this port.
    Secure(u16),
}

/// The admission of a route's requests.
#[derive(Debug, Default)]
pub struct Admission {
    /// The networks that are served.
    pub networks: Networks,
    /// The rate limit.
    pub limit: Option<Box<RequestLimit>>,
    /// The authentication.
    pub auth: Option<Auth>,
}

/// A rate limit of a route.
#[derive(Debug)]
pub struct RequestLimit {
    /// The table's share.
    pub limit: RateLimiter,
    /// The scope of one bucket.
    pub by: LimitScope,
    /// The status past the limit.
    pub status: u16,
}

/// The authentication of a route's requests.
#[derive(Debug)]
pub enum Auth {
    /// By a password.
    Basic(BasicAuthCheck),
    /// By an auth service.
    Forward(Box<ForwardAuth>),
}

/// A password that every request must bring.
#[derive(Debug)]
pub struct BasicAuthCheck {
    /// The file of users.
    pub checker: Arc<PasswordFile>,
    /// The realm that the browser shows.
    pub realm: String,
    /// The authenticator.
    pub to: Gatekeeper,
}

/// The authenticator of a client: it asks for the password (RFC 9110 §11.6, §11.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gatekeeper {
    /// The site: 401.
    Site,
    /// A proxy that the client knows of: 407.
    Proxy,
}
