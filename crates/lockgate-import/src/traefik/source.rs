//! All files of a configuration together: routers, services and middlewares of each provider.

use std::collections::HashMap;
use std::rc::Rc;

use super::compose::TraefikContainer;
use super::node::TraefikNode;
use crate::{ConversionReport, Verdict};

/// A router, service or middleware.
#[derive(Debug, Clone)]
pub(super) struct TraefikItem {
    /// Its name.
    pub(super) name: String,
    /// `file` or `docker`.
    pub(super) provider: &'static str,
    /// What it says.
    pub(super) node: TraefikNode,
    /// The container with its labels.
    pub(super) container: Option<Rc<TraefikContainer>>,
}

/// Items by name.
#[derive(Debug, Default)]
pub(super) struct TraefikTable {
    /// The items, in the order of the source.
    pub(super) items: Vec<TraefikItem>,
    index: HashMap<(String, &'static str), usize>,
}

impl TraefikTable {
    fn add(&mut self, item: TraefikItem, report: &mut ConversionReport) {
        let key = (item.name.clone(), item.provider);
        if self.index.contains_key(&key) {
            item.node.mark(
                report,
                &Verdict::not_supported(
                    format!(
                        "{} is defined before, and that definition counts",
                        item.name
                    ),
                    None,
                ),
            );
            return;
        }
        self.index.insert(key, self.items.len());
        self.items.push(item);
    }

    /// The item that a reference of a provider means.
    pub(super) fn find(&self, reference: &str, provider: &str) -> Option<&TraefikItem> {
        let (name, provider) = match reference.rsplit_once('@') {
            Some((name, provider)) => (name, provider),
            None => (reference, provider),
        };
        let provider = match provider {
            "file" => "file",
            "docker" | "swarm" => "docker",
            _ => return None,
        };
        let at = self.index.get(&(name.trim().to_owned(), provider))?;
        self.items.get(*at)
    }
}

/// All files of a configuration.
#[derive(Debug, Default)]
pub(super) struct TraefikSource {
    /// Routers for HTTP.
    pub(super) routers: TraefikTable,
    /// Services for HTTP.
    pub(super) services: TraefikTable,
    /// Middlewares for HTTP.
    pub(super) middlewares: TraefikTable,
    /// Transports for HTTP.
    pub(super) transports: TraefikTable,
    /// Routers for TCP.
    pub(super) tcp_routers: TraefikTable,
    /// Services for TCP.
    pub(super) tcp_services: TraefikTable,
    /// Transports for TCP.
    pub(super) tcp_transports: TraefikTable,
    /// Options of TLS.
    pub(super) tls_options: TraefikTable,
    /// Certificates.
    pub(super) certificates: Vec<TraefikNode>,
    /// Stores of certificates.
    pub(super) stores: Vec<TraefikNode>,
    /// How many services each container defines, by its name.
    pub(super) service_names: HashMap<String, Vec<String>>,
}

impl TraefikSource {
    /// Adds what a dynamic file, or the labels of a container, define.
    pub(super) fn add(
        &mut self,
        root: &TraefikNode,
        provider: &'static str,
        container: Option<&Rc<TraefikContainer>>,
        report: &mut ConversionReport,
    ) {
        let tables = [
            (["http", "routers"], &mut self.routers),
            (["http", "services"], &mut self.services),
            (["http", "middlewares"], &mut self.middlewares),
            (["http", "serversTransports"], &mut self.transports),
            (["tcp", "routers"], &mut self.tcp_routers),
            (["tcp", "services"], &mut self.tcp_services),
            (["tcp", "serversTransports"], &mut self.tcp_transports),
            (["tls", "options"], &mut self.tls_options),
        ];
        for (path, table) in tables {
            for (name, node) in root.at(&path).iter().flat_map(|node| node.fields()) {
                let item = TraefikItem {
                    name: name.to_owned(),
                    provider,
                    node: node.clone(),
                    container: container.cloned(),
                };
                if let (["http", "services"], Some(container)) = (path, container) {
                    let names = self
                        .service_names
                        .entry(container.name.clone())
                        .or_default();
                    names.push(name.to_owned());
                }
                table.add(item, report);
            }
        }
        let tls = root.field("tls");
        let certificates = tls.and_then(|tls| tls.field("certificates"));
        self.certificates
            .extend(certificates.iter().flat_map(|node| node.nodes()).cloned());
        self.stores
            .extend(tls.and_then(|tls| tls.field("stores")).cloned());
        if let Some(udp) = root.field("udp") {
            udp.mark(
                report,
                &Verdict::not_supported("Lockgate does not relay UDP", None),
            );
        }
    }
}
