//! The entry points, and what else later steps need of the static configuration.

use std::net::IpAddr;

use super::node::TraefikNode;

/// Where Lockgate's page and metrics are, if no entry point says otherwise.
pub(super) const PAGE: &str = "127.0.0.1:9090";

/// A listener of Traefik.
#[derive(Debug, Clone)]
pub(super) struct TraefikEntryPoint {
    /// Its name, in lower case.
    pub(super) name: String,
    /// Its port.
    pub(super) port: u16,
    /// Its address, if it is not every one.
    pub(super) address: Option<IpAddr>,
    /// Whether a router without entry points is on it.
    pub(super) standard: bool,
    /// The port of TLS that it redirects everything to.
    pub(super) redirect: Option<u16>,
    /// TLS of all its routers.
    pub(super) tls: Option<TraefikNode>,
    /// Middlewares of all its routers.
    pub(super) middlewares: Vec<String>,
    /// Whether clients may send a PROXY header.
    pub(super) accept_proxy: bool,
    /// Where it is defined.
    pub(super) node: Option<TraefikNode>,
}

/// What later steps need of the static configuration.
#[derive(Debug, Default)]
pub(super) struct TraefikStatics {
    /// The entry points.
    pub(super) entry_points: Vec<TraefikEntryPoint>,
    /// Whether every container with labels counts.
    pub(super) exposed_by_default: bool,
    /// The address of metrics, once something needs it.
    pub(super) metrics: Option<String>,
    /// Whether proxies in front are trusted.
    pub(super) trusted: bool,
    /// `ports` that are not 80 and 443.
    pub(super) http_port: u16,
    /// Likewise, for TLS.
    pub(super) https_port: u16,
}

impl TraefikStatics {
    /// The entry point of this name.
    pub(super) fn entry_point(&self, name: &str) -> Option<&TraefikEntryPoint> {
        let name = name.to_ascii_lowercase();
        self.entry_points.iter().find(|entry| entry.name == name)
    }
}
