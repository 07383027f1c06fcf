//! TLS to the programs that figures and spans are pushed to.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use lockgate_config as config;
use lockgate_config::AuthoritySource;
use lockgate_net::tls::Connector;

use super::mistakes::MistakeLog;
use super::tls;

/// TLS to sinks, by their authorities.
pub(crate) type SinkConnectors = HashMap<AuthoritySource, Arc<Connector>>;

/// TLS to the sinks of a configuration: sinks with the same authorities share it, those of `previous`
/// included. A file of authorities that cannot be used is a mistake.
pub(super) fn connectors(
    mistakes: &mut MistakeLog<'_>,
    export: &config::Export,
    previous: &SinkConnectors,
) -> SinkConnectors {
    let mut connectors = SinkConnectors::new();
    for (authorities, at) in &export.authorities {
        if connectors.contains_key(authorities) {
            continue;
        }
        let running = previous.get(authorities).map(Arc::clone);
        let connector = match (running, authorities) {
            (Some(running), AuthoritySource::System) => Some(running),
            (running, _) => {
                let made = tls::connector(
                    mistakes,
                    &config::UpstreamTls {
                        name: None,
                        ca: authorities.clone(),
                        alpn: Vec::new(),
                        at: at.clone(),
                    },
                );
                // The running one reads the file again with the change of the configuration.
                made.map(|made| running.unwrap_or(made))
            }
        };
        connectors.extend(connector.map(|connector| (authorities.clone(), connector)));
    }
    connectors
}
