//! Mistakes of a table of hosts and paths: what a request could mean alike, and what none can
//! reach.

use super::index::{ListenerSiteIndex, RouteIndex};

/// Two that a request could mean alike. The table is not made then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Clash {
    /// One host is in two sites, or twice in one.
    #[error("a request for the host {host} matches both")]
    Host {
        /// The sites.
        sites: (ListenerSiteIndex, ListenerSiteIndex),
        /// A host that both match.
        host: String,
    },
    /// Two routes of a site are for the same requests, or neither is more specific.
    #[error("{method} {path} matches both, and neither is more specific")]
    Route {
        /// The site.
        site: ListenerSiteIndex,
        /// The routes.
        routes: (RouteIndex, RouteIndex),
        /// The method of a request that matches both.
        method: String,
        /// And its path, decoded.
        path: String,
    },
}

/// A part of the table that no request can reach; worth a warning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// A site without a host.
    #[error("the site has no host")]
    Site {
        /// The site.
        site: ListenerSiteIndex,
    },
    /// A host with a port, with letters that hosts have not, or with empty labels.
    #[error("no request can name the host {host:?}")]
    Host {
        /// The site.
        site: ListenerSiteIndex,
        /// The host as it was given.
        host: String,
    },
    /// CONNECT is for a host and port.
    #[error("CONNECT has no path")]
    Connect {
        /// The site.
        site: ListenerSiteIndex,
        /// The route.
        route: RouteIndex,
    },
}
