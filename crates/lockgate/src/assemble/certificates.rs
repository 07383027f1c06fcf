//! The certificates that the program obtains: which names lack one in the operator's files, and how
//! each can be had.
//!
//! Orders none: see `lockgate_certs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_certs::{CertFolder, CertId, ChallengeKind, WantedCert};
use lockgate_config as config;
use lockgate_config::{Config, ListenAddr};
use lockgate_net::tls::{CertFiles, ManagedCert};
use lockgate_rules::{AcmeSettings, CertIssuer, HostPattern};

/// The certificates that are wanted, while listeners are assembled.
pub(super) struct WantedCerts {
    folder: Option<CertFolder>,
    /// The challenges that listeners can answer.
    ways: Vec<ChallengeKind>,
    wanted: BTreeMap<CertId, Arc<AcmeSettings>>,
}

impl WantedCerts {
    /// None so far.
    pub(super) fn of(config: &Config) -> Self {
        Self {
            folder: config.state.as_deref().map(CertFolder::of_state),
            ways: listener_challenges(config),
            wanted: BTreeMap::new(),
        }
    }

    /// The certificates of a name, which are wanted from now on; none where they cannot be kept.
    pub(super) fn add(&mut self, name: &str, source: &config::ManagedCerts) -> Vec<ManagedCert> {
        let Some(folder) = &self.folder else {
            return Vec::new();
        };
        let CertIssuer::Acme(settings) = &source.issuer else {
            return Vec::new();
        };
        let mut certs = Vec::new();
        for key in &settings.keys {
            let id = CertId {
                name: name.to_owned(),
                key: *key,
            };
            certs.push(ManagedCert {
                files: CertFiles::of(folder.cert_file(&id)),
                names: vec![name.to_owned()],
                fallback: false,
            });
            self.wanted
                .entry(id)
                .or_insert_with(|| Arc::clone(settings));
        }
        certs
    }

    /// All of them.
    pub(super) fn finish(self) -> Arc<[WantedCert]> {
        let ways = &self.ways;
        let wanted = self.wanted.into_iter().map(|(id, settings)| WantedCert {
            ways: ways_of(&id, ways),
            id,
            settings,
        });
        wanted.collect()
    }
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
fn ways_of(id: &CertId, listeners: &[ChallengeKind]) -> Vec<ChallengeKind> {
    // Only DNS proves all names below one (RFC 8555 §7.1.3).
    match id.name.starts_with("*.") {
        true => Vec::new(),
        false => listeners.to_vec(),
    }
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
