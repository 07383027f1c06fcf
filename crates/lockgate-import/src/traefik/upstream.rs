//! The endpoints of a service, with their settings.

use crate::DraftValue;

/// An endpoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TraefikEndpoint {
    /// Its address, with the port.
    pub(super) address: String,
    /// Its weight, compared with those of the other endpoints.
    pub(super) weight: i64,
    /// Whether it is of the fallback of a failover.
    pub(super) backup: bool,
}

/// Endpoints with their settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TraefikUpstream {
    /// Where its service is defined.
    pub(super) place: String,
    /// The endpoints.
    pub(super) endpoints: Vec<TraefikEndpoint>,
    /// Keys of a pool, besides `tls` and `protocol`.
    pub(super) pool: Vec<(String, DraftValue)>,
    /// TLS to the endpoints.
    pub(super) tls: Option<Vec<(String, DraftValue)>>,
    /// The protocol of the endpoints, if it must be named.
    pub(super) protocol: Option<&'static str>,
    /// Timeouts of the routes to it.
    pub(super) timeouts: Vec<(String, DraftValue)>,
    /// The `Host` that it gets, if it is not the client's.
    pub(super) host: Option<String>,
}
