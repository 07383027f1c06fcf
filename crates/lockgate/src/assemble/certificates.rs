//! The certificates that the program obtains: which names lack one in the operator's files, and how
//! each can be had.
//!
//! Orders none: see `lockgate_certs`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use lockgate_certs::{
    CertFolder, CertId, ChallengeKind, OnDemandHosts, WantedCert, WantedLeaf, WantedSet,
};
use lockgate_config as config;
use lockgate_config::{Config, ListenAddr};
use lockgate_net::tls::{CertFiles, ManagedCert, SniPattern};
use lockgate_rules::{AcmeSettings, CertFallback, CertIssuer, CertKeyKind, HostPattern, OnDemand};

use crate::self_signed;

/// The certificates that are wanted, while listeners are assembled.
pub(super) struct WantedCerts {
    folder: Option<CertFolder>,
    /// The challenges that listeners can answer.
    ways: Vec<ChallengeKind>,
    orders: BTreeMap<CertId, Arc<AcmeSettings>>,
    leaves: BTreeSet<WantedLeaf>,
    on_demand: Vec<OnDemandHosts>,
    /// Orders on demand of before, with their permission.
    renewed: BTreeMap<CertId, (Arc<AcmeSettings>, Arc<OnDemand>)>,
}

/// The certificates of one acceptor that the program obtains.
#[derive(Default)]
pub(super) struct ObtainedCerts {
    pub(super) managed: Vec<ManagedCert>,
    /// The hosts that clients may ask for.
    pub(super) on_demand: Vec<SniPattern>,
}

impl ObtainedCerts {
    pub(super) fn is_empty(&self) -> bool {
        self.managed.is_empty() && self.on_demand.is_empty()
    }
}

/// The names of one acceptor that get certificates of our own authority, which clients without SNI
/// see, too: addresses are never in SNI (RFC 6066 §3).
#[derive(Default)]
struct NamelessHosts {
    addresses: Vec<IpAddr>,
    /// Whether there is a site for every host.
    any: bool,
}

impl WantedCerts {
    /// None so far.
    pub(super) fn of(config: &Config) -> Self {
        Self {
            folder: config.state.as_deref().map(CertFolder::of_state),
            ways: listener_challenges(config),
            orders: BTreeMap::new(),
            leaves: BTreeSet::new(),
            on_demand: Vec::new(),
            renewed: BTreeMap::new(),
        }
    }

    /// The certificates of the hosts of one acceptor that no file covers, each with its source; they
    /// are wanted from now on. Hosts that get none are told to `without`.
    pub(super) fn of_hosts<'h>(
        &mut self,
        hosts: impl IntoIterator<Item = (&'h HostPattern, &'h config::ManagedCerts)>,
        mut without: impl FnMut(&HostPattern),
    ) -> ObtainedCerts {
        let Some(folder) = self.folder.clone() else {
            return ObtainedCerts::default();
        };
        let (mut certs, mut nameless) = (Vec::new(), NamelessHosts::default());
        let mut on_demand = Vec::new();
        for (host, source) in hosts {
            if let (CertIssuer::Acme(settings), Some(rules)) = (&source.issuer, &source.on_demand)
                && settings.refuses(host).is_some()
                && let Some(pattern) = on_demand_pattern(host)
            {
                on_demand.push(pattern);
                certs.extend(self.on_demand(&folder, host, settings, rules));
                continue;
            }
            match (&source.issuer, cert_name(host)) {
                (CertIssuer::Acme(settings), Some(name)) if settings.refuses(host).is_none() => {
                    certs.extend(self.order(&folder, &name, settings));
                    if source.fallback == CertFallback::Internal {
                        certs.push(self.leaf(&folder, &name, true));
                    }
                }
                (CertIssuer::Acme(_), _) => without(host),
                (CertIssuer::Internal, None) => nameless.any = true,
                (CertIssuer::Internal, Some(name)) => match address_of(&name) {
                    Some(address) => nameless.addresses.push(address),
                    None => certs.push(self.leaf(&folder, &name, false)),
                },
            }
        }
        if let Some(leaf) = nameless.leaf() {
            certs.push(ManagedCert {
                files: CertFiles::of(folder.leaf_file(&leaf.file())),
                names: leaf.names.clone(),
                fallback: false,
                on_demand: false,
                default: true,
            });
            self.leaves.insert(leaf);
        }
        ObtainedCerts {
            managed: certs,
            on_demand,
        }
    }

    /// The certificates that clients have asked for before, of hosts that they may ask for.
    fn on_demand(
        &mut self,
        folder: &CertFolder,
        host: &HostPattern,
        settings: &Arc<AcmeSettings>,
        rules: &Arc<OnDemand>,
    ) -> Vec<ManagedCert> {
        let hosts = OnDemandHosts {
            hosts: vec![host.clone()],
            rules: Arc::clone(rules),
            settings: Arc::clone(settings),
            ways: self.ways.clone(),
        };
        let key = settings.keys.first().copied();
        let key = key.unwrap_or(CertKeyKind::EcdsaP256);
        let mut certs = Vec::new();
        for id in folder.on_demand_certs() {
            // One with another key is obtained when a client asks for it.
            if id.key != key || !hosts.has(&id.name) || !rules.lists(&id.name) {
                continue;
            }
            certs.push(ManagedCert {
                on_demand: true,
                ..managed(folder.cert_file(&id), &id.name, false)
            });
            let source = (Arc::clone(settings), Arc::clone(rules));
            self.renewed.entry(id).or_insert(source);
        }
        self.on_demand.push(hosts);
        certs
    }

    /// The certificates of a name that are ordered, one for each kind of key.
    fn order(
        &mut self,
        folder: &CertFolder,
        name: &str,
        settings: &Arc<AcmeSettings>,
    ) -> Vec<ManagedCert> {
        let mut certs = Vec::new();
        for key in &settings.keys {
            let id = CertId {
                name: name.to_owned(),
                key: *key,
                on_demand: false,
            };
            certs.push(managed(folder.cert_file(&id), name, false));
            self.orders
                .entry(id)
                .or_insert_with(|| Arc::clone(settings));
        }
        certs
    }

    /// The certificate of our own authority for a name.
    fn leaf(&mut self, folder: &CertFolder, name: &str, fallback: bool) -> ManagedCert {
        let leaf = WantedLeaf {
            names: vec![name.to_owned()],
            addresses: Vec::new(),
        };
        let cert = managed(folder.leaf_file(&leaf.file()), name, fallback);
        self.leaves.insert(leaf);
        cert
    }

    /// All of them.
    pub(super) fn finish(self) -> WantedSet {
        let ways = &self.ways;
        let orders = self.orders.into_iter().map(|(id, settings)| WantedCert {
            ways: ways_of(&id, ways, settings.dns.is_some()),
            id,
            settings,
            permission: None,
        });
        let renewed = self.renewed.into_iter();
        let renewed = renewed.map(|(id, (settings, rules))| WantedCert {
            ways: ways.clone(),
            id,
            settings,
            permission: Some(rules),
        });
        WantedSet {
            orders: orders.chain(renewed).collect(),
            leaves: self.leaves.into_iter().collect(),
            on_demand: self.on_demand.into(),
        }
    }
}

impl NamelessHosts {
    /// The certificate for all of them; for every host it has the names of this machine.
    fn leaf(self) -> Option<WantedLeaf> {
        let (mut names, mut addresses) = (Vec::new(), self.addresses);
        if self.any {
            for name in self_signed::local_names() {
                match name.parse() {
                    Ok(address) => addresses.push(address),
                    Err(_) => names.push(name.to_ascii_lowercase()),
                }
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        let is_empty = names.is_empty() && addresses.is_empty();
        (!is_empty).then_some(WantedLeaf { names, addresses })
    }
}

fn managed(file: PathBuf, name: &str, fallback: bool) -> ManagedCert {
    ManagedCert {
        files: CertFiles::of(file),
        names: vec![name.to_owned()],
        fallback,
        on_demand: false,
        default: false,
    }
}

/// The names of hosts for which clients may ask; none for a single name, which is ordered at once.
fn on_demand_pattern(host: &HostPattern) -> Option<SniPattern> {
    match host {
        HostPattern::Any => Some(SniPattern::Any),
        HostPattern::Under(parent) => Some(SniPattern::Under(parent.clone())),
        HostPattern::Exact(_) => None,
    }
}

/// The address that a host is, if it is one.
fn address_of(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// The name of a certificate for a host; none for a site of every host.
pub(super) fn cert_name(host: &HostPattern) -> Option<String> {
    match host {
        HostPattern::Any => None,
        HostPattern::Exact(name) => Some(name.clone()),
        HostPattern::Under(parent) => Some(format!("*.{parent}")),
    }
}

/// The challenges that can work for a certificate.
fn ways_of(id: &CertId, listeners: &[ChallengeKind], dns: bool) -> Vec<ChallengeKind> {
    // Only DNS proves all names below one (RFC 8555 §7.1.3).
    let listeners = match id.name.starts_with("*.") {
        true => &[],
        false => listeners,
    };
    // It is the slowest one: the others come first.
    let by_dns = dns.then_some(ChallengeKind::Dns01);
    listeners.iter().copied().chain(by_dns).collect()
}

/// The challenges that listeners can answer. Authorities connect to the ports 80 and 443 alone; the
/// listeners of sites without a port stand for these, also where `ports` has moved them.
fn listener_challenges(config: &Config) -> Vec<ChallengeKind> {
    let has_port = |addr: &ListenAddr, wanted: u16| match addr {
        ListenAddr::All(port) => *port == wanted,
        ListenAddr::Ip(address) => address.port() == wanted,
        ListenAddr::Unix(_) => false,
    };
    let mut http = false;
    let mut tls = config.tcp.iter().any(|tcp| {
        let ends_tls = tcp.relays().iter().any(|relay| relay.tls.is_some());
        ends_tls && has_port(&tcp.listen, 443)
    });
    for site in &config.sites {
        // A site without a port has a redirect, unless it was turned off.
        let is_implied = site.listen.iter().any(|listener| listener.redirects);
        for listener in &site.listen {
            let addr = &listener.addr;
            http |= !listener.secure && (listener.redirects || has_port(addr, 80));
            tls |= listener.secure && (is_implied || has_port(addr, 443));
        }
    }
    let kinds = [
        (http, ChallengeKind::Http01),
        (tls, ChallengeKind::TlsAlpn01),
    ];
    let kinds = kinds.into_iter().filter(|(can_work, _)| *can_work);
    kinds.map(|(_, kind)| kind).collect()
}

#[cfg(test)]
mod tests {
    use lockgate_rules::CertKeyKind;

    use super::*;

    #[test]
    fn wildcards_take_dns_01_alone_and_other_names_take_it_last() {
        use ChallengeKind::{Dns01, Http01, TlsAlpn01};
        let id = |name: &str| CertId {
            name: name.to_owned(),
            key: CertKeyKind::EcdsaP256,
            on_demand: false,
        };
        let both = [Http01, TlsAlpn01];
        let name = id("a.example.com");
        assert_eq!(ways_of(&name, &both, false), both);
        assert_eq!(ways_of(&name, &both, true), [Http01, TlsAlpn01, Dns01]);
        assert_eq!(ways_of(&name, &[], true), [Dns01]);
        assert!(ways_of(&name, &[], false).is_empty());
        let wildcard = id("*.example.com");
        assert_eq!(ways_of(&wildcard, &both, true), [Dns01]);
        assert!(ways_of(&wildcard, &both, false).is_empty());
    }
}
