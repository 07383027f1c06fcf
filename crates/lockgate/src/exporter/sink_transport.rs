//! How a server of HTTP is reached: in plain, or over TLS.

use std::sync::Arc;

use lockgate_config::AuthoritySource;
use lockgate_net::tls::Connector;

use crate::assemble::SinkConnectors;

/// How a server is reached. Two are equal if requests over both are the same.
#[derive(Debug, Clone)]
pub(crate) enum SinkTransport {
    /// Over TCP alone.
    Plain,
    /// Over TLS.
    Tls(Arc<Connector>),
}

impl SinkTransport {
    /// That of a sink with these authorities, or without TLS. None where TLS is wanted and cannot be
    /// had: such a sink gets nothing, since what it is sent may be secret.
    pub(crate) fn of(
        authorities: Option<&AuthoritySource>,
        connectors: &SinkConnectors,
    ) -> Option<Self> {
        let Some(authorities) = authorities else {
            return Some(Self::Plain);
        };
        connectors.get(authorities).map(Arc::clone).map(Self::Tls)
    }

    pub(super) fn connector(&self) -> Option<&Connector> {
        match self {
            Self::Plain => None,
            Self::Tls(connector) => Some(connector),
        }
    }
}

impl PartialEq for SinkTransport {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain, Self::Plain) => true,
            // A file of authorities that has changed is read by the connector itself.
            (Self::Tls(one), Self::Tls(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}
