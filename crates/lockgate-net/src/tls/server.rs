//! TLS towards clients: everything a handshake needs, built once and kept current.
//!
//! Does not drive handshakes: see `handshake`.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};

use super::certs::CertFiles;
use super::error::{TlsSetupError, Warning};
use super::policy::Policy;
use super::stamp::{Stamp, stamp};
use super::store::{ReloadReport, Store};
use super::tickets::{self, Scope, TicketRing};
use super::verify::{ClientAuthSettings, ClientRules};

/// What TLS is like on one listener.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Certificates, chosen by SNI.
    pub certs: Vec<CertFiles>,
    /// Shown to clients that name nobody or somebody unknown; without it they are refused.
    pub default: Option<CertFiles>,
    /// Versions, suites and groups.
    pub policy: Policy,
    /// Protocol names, the preferred one first. A client that offers only others is refused
    /// (RFC 7301 §3.2); if this is empty, offers are ignored.
    pub alpn: Vec<Vec<u8>>,
    /// Certificates of clients; `None`: none is asked for.
    pub client_auth: Option<ClientAuthSettings>,
    /// Resumption; `None`: every handshake is a full one.
    pub tickets: Option<Arc<TicketRing>>,
}

/// TLS of one listener, shared by the workers.
#[derive(Debug)]
pub struct Acceptor {
    fixed: Fixed,
    client_auth: Option<ClientAuthSettings>,
    running: ArcSwap<Running>,
}

/// What no reload replaces.
#[derive(Debug)]
struct Fixed {
    store: Arc<Store>,
    policy: Policy,
    alpn: Vec<Vec<u8>>,
    tickets: Option<Arc<TicketRing>>,
}

/// What new handshakes take. The scope says whether a reload has changed more than certificates.
#[derive(Debug)]
struct Running {
    config: Arc<ServerConfig>,
    rules: Option<ClientRules>,
    /// The CA list that the rules were read from, as it was then.
    read: Option<Stamp>,
    scope: Scope,
}

impl Acceptor {
    /// Reads all files and checks all settings.
    ///
    /// # Errors
    /// All of them at once.
    pub fn new(settings: ServerSettings) -> Result<(Self, Vec<Warning>), Vec<TlsSetupError>> {
        let ServerSettings {
            certs,
            default,
            policy,
            alpn,
            client_auth,
            tickets,
        } = settings;
        let mut errors = alpn_errors(&alpn);
        let store = Store::open(certs, default)
            .map_err(|found| errors.extend(found))
            .ok();
        let read = stamp_of(client_auth.as_ref());
        let rules = load_rules(client_auth.as_ref())
            .map_err(|error| errors.push(*error))
            .ok();
        let (Some((store, warnings)), Some(rules), true) = (store, rules, errors.is_empty()) else {
            return Err(errors);
        };
        let fixed = Fixed {
            store: Arc::new(store),
            policy,
            alpn,
            tickets,
        };
        let scope = scope_of(&fixed.store, rules.as_ref());
        let running = fixed
            .run(rules, scope, read)
            .map_err(|reason| vec![TlsSetupError::Refused { reason }])?;
        Ok((
            Self {
                fixed,
                client_auth,
                running: ArcSwap::from_pointee(running),
            },
            warnings,
        ))
    }

    /// What the next handshake takes.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.running.load().config.clone()
    }

    /// The certificates.
    pub fn store(&self) -> &Arc<Store> {
        &self.fixed.store
    }

    /// See [`Store::serves`].
    pub fn serves(&self, sni: Option<&str>) -> bool {
        self.fixed.store.serves(sni)
    }

    /// Every file read, for whoever watches them: certificates, keys, OCSP responses, the CA list.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = self.fixed.store.files();
        files.extend(self.client_auth.iter().map(|settings| settings.ca.clone()));
        files
    }

    /// Reads again what has changed on disk, and swaps it in; connections go on as they are.
    ///
    /// Reads files: not for a worker thread. Calls must not overlap.
    pub fn reload(&self) -> ReloadReport {
        let mut report = self.fixed.store.reload();
        let before = self.running.load_full();
        let read = stamp_of(self.client_auth.as_ref());
        let rules = if read == before.read {
            before.rules.clone()
        } else {
            load_rules(self.client_auth.as_ref()).unwrap_or_else(|error| {
                report.failed.push(*error);
                before.rules.clone()
            })
        };
        // The set of names is part of the tickets' scope, too.
        let scope = scope_of(&self.fixed.store, rules.as_ref());
        if scope == before.scope {
            return report;
        }
        match self.fixed.run(rules, scope, read) {
            Ok(after) => {
                if after.rules != before.rules {
                    report
                        .changed
                        .extend(self.client_auth.iter().map(|settings| settings.ca.clone()));
                }
                self.running.store(Arc::new(after));
            }
            Err(reason) => report.failed.push(TlsSetupError::Refused { reason }),
        }
        report
    }
}

fn alpn_errors(alpn: &[Vec<u8>]) -> Vec<TlsSetupError> {
    let lengths = alpn
        .iter()
        .map(Vec::len)
        .filter(|length| !(1..=255).contains(length));
    lengths
        .map(|length| TlsSetupError::AlpnLength { length })
        .collect()
}

/// The rules in force: none, where none are set.
fn load_rules(
    settings: Option<&ClientAuthSettings>,
) -> Result<Option<ClientRules>, Box<TlsSetupError>> {
    let load = |settings: &ClientAuthSettings| {
        let failed = |error| TlsSetupError::ClientCa {
            path: settings.ca.clone(),
            error,
        };
        ClientRules::load(settings).map_err(|error| Box::new(failed(error)))
    };
    settings.map(load).transpose()
}

/// The CA list as it is now; taken before it is read, so that a change in between is seen later.
fn stamp_of(settings: Option<&ClientAuthSettings>) -> Option<Stamp> {
    settings.and_then(|settings| stamp(&settings.ca).ok())
}

/// What tickets of this listener are bound to: the rules for certificates of clients, for a resumed
/// client is not asked for one again; and the names, for a resuming client does not look at the
/// server's certificate again, so that a listener with other certificates could pose as this one
/// (Delignat-Lavaud and Bhargavan, "Network-based origin confusion attacks against HTTPS virtual
/// hosting", 2015). The certificates themselves are not in it: a renewal keeps tickets good.
fn scope_of(store: &Store, rules: Option<&ClientRules>) -> Scope {
    let names = store.identity();
    let rules: Vec<&[u8]> = rules
        .map(|rules| rules.parts().collect())
        .unwrap_or_default();
    let names = names.iter().map(|name| name.as_bytes());
    tickets::scope(rules.into_iter().chain([&b"names"[..]]).chain(names))
}

impl Fixed {
    fn run(
        &self,
        rules: Option<ClientRules>,
        scope: Scope,
        read: Option<Stamp>,
    ) -> Result<Running, String> {
        let provider = Arc::new(self.policy.provider());
        let verifier = match &rules {
            Some(rules) => rules.verifier(&provider)?,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.policy.protocol_versions())
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(self.store.clone());
        config.ignore_client_order = true;
        config.alpn_protocols.clone_from(&self.alpn);
        // The record layer is our own: see `record`.
        config.enable_secret_extraction = true;
        // 0-RTT can be replayed, and a blind relay cannot tell what may be.
        config.max_early_data_size = 0;
        // Clients of TLS 1.2 without RFC 7627 still exist.
        config.require_ems = false;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        if let Some(ring) = &self.tickets {
            config.ticketer = ring.for_scope(scope);
            config.send_tls13_tickets = 2;
        }
        Ok(Running {
            config: Arc::new(config),
            rules,
            read,
            scope,
        })
    }
}
