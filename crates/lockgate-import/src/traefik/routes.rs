//! What routers become, and a router that is being read into it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::node::TraefikNode;
use super::rows::RouteRow;
use super::rule::RuleHost;
use super::services::TraefikServices;
use super::source::{TraefikItem, TraefikSource};
use super::statics::TraefikStatics;
use crate::{ConversionReport, Draft, Verdict};

/// An address that requests come to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RouteListener {
    /// The port.
    pub(super) port: u16,
    /// The address, if it is not every one.
    pub(super) address: Option<std::net::IpAddr>,
    /// Whether it has TLS.
    pub(super) tls: bool,
    /// Whether clients may send a PROXY header.
    pub(super) accept_proxy: bool,
}

/// How a router has TLS.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RouterTls {
    /// The resolver of certificates.
    pub(super) resolver: Option<String>,
    /// The options, with their provider.
    pub(super) options: Option<(String, &'static str)>,
}

/// What routers became.
#[derive(Debug, Default)]
pub(super) struct TraefikRoutes {
    /// The routes of each host of each listener.
    pub(super) hosts: BTreeMap<RouteListener, Vec<(RuleHost, Vec<RouteRow>)>>,
    index: HashMap<(RouteListener, RuleHost), usize>,
    /// Plain listeners of which every request goes to TLS, from routers for every host.
    pub(super) redirected: BTreeSet<RouteListener>,
    /// TLS of each router.
    pub(super) tls: HashMap<usize, (RouterTls, Option<TraefikNode>)>,
    /// Hosts that Lockgate's own page is for.
    pub(super) page_hosts: Vec<String>,
}

impl TraefikRoutes {
    pub(super) fn add(&mut self, listener: &RouteListener, host: &RuleHost, row: RouteRow) {
        let hosts = self.hosts.entry(listener.clone()).or_default();
        let key = (listener.clone(), host.clone());
        let at = *self.index.entry(key).or_insert_with(|| {
            hosts.push((host.clone(), Vec::new()));
            hosts.len() - 1
        });
        if let Some((_, rows)) = hosts.get_mut(at) {
            rows.push(row);
        }
    }
}

/// A router that is being read.
pub(super) struct RouterReader<'a> {
    pub(super) number: usize,
    pub(super) item: &'a TraefikItem,
    pub(super) source: &'a TraefikSource,
    pub(super) statics: &'a mut TraefikStatics,
    pub(super) services: &'a mut TraefikServices,
    pub(super) draft: &'a mut Draft,
    pub(super) report: &'a mut ConversionReport,
    pub(super) routes: &'a mut TraefikRoutes,
}

impl RouterReader<'_> {
    pub(super) fn set(&mut self, key: &str, verdict: Verdict) {
        if let Some(node) = self.item.node.field(key) {
            node.set(self.report, verdict);
        }
    }
}
