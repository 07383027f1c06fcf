//! TLS to clients: the settings of handshakes, built once and reloaded.
//!
//! Does not drive handshakes: see `handshake`.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};

use super::cert_files::{CertFiles, ManagedCert};
use super::cert_store::{CertStore, ReloadReport};
use super::error::{TlsSetupError, Warning};
use super::file_stamp::{FileStamp, stamp};
use super::policy::Policy;
use super::sni_pattern::SniPattern;
use super::tickets::{self, TicketRing, TicketScope};
use super::verify::{ClientAuthSettings, ClientRules};

/// The TLS settings of one listener.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The certificates, chosen by SNI.
    pub certs: Vec<CertFiles>,
    /// The certificate for clients without SNI or with an unknown name; without it they are
    /// refused.
    pub default: Option<CertFiles>,
    /// Certificates that the program obtains.
    pub managed: Vec<ManagedCert>,
    /// The hosts with certificates that are obtained when a client first asks for them.
    pub on_demand: Vec<SniPattern>,
    /// The versions, suites and groups.
    pub policy: Policy,
    /// The protocol names, the preferred one first. A client that offers only others is refused
    /// (RFC 7301 §3.2); if this is empty, offers are ignored.
    pub alpn: Vec<Vec<u8>>,
    /// Client certificates; `None`: none is requested.
    pub client_auth: Option<ClientAuthSettings>,
    /// Resumption; `None`: every handshake is a full one.
    pub tickets: Option<Arc<TicketRing>>,
}

/// TLS of one listener, shared by the workers.
#[derive(Debug)]
pub struct Acceptor {
    fixed: FixedSettings,
    client_auth: Option<ClientAuthSettings>,
    running: ArcSwap<ActiveServerConfig>,
}

/// The settings of one handshake with a client.
#[derive(Debug, Clone)]
pub struct HandshakeSettings(pub(super) Arc<ServerConfig>);

/// The part that no reload replaces.
#[derive(Debug)]
struct FixedSettings {
    store: Arc<CertStore>,
    on_demand: Vec<SniPattern>,
    policy: Policy,
    alpn: Vec<Vec<u8>>,
    tickets: Option<Arc<TicketRing>>,
}

/// The settings of new handshakes. The scope shows whether a reload has changed more than
/// certificates.
#[derive(Debug)]
struct ActiveServerConfig {
    config: Arc<ServerConfig>,
    rules: Option<ClientRules>,
    /// The stamp of the CA list when the rules were read.
    read: Option<FileStamp>,
    scope: TicketScope,
}

impl Acceptor {
    /// Reads all files and checks all settings.
    ///
    /// # Errors
    /// All errors at once.
    pub fn new(settings: ServerSettings) -> Result<(Self, Vec<Warning>), Vec<TlsSetupError>> {
        let ServerSettings {
            certs,
            default,
            managed,
            on_demand,
            policy,
            alpn,
            client_auth,
            tickets,
        } = settings;
        let mut errors = alpn_errors(&alpn);
        let store = CertStore::open(certs, default, managed, !on_demand.is_empty())
            .map_err(|found| errors.extend(found))
            .ok();
        let read = stamp_of(client_auth.as_ref());
        let rules = load_rules(client_auth.as_ref())
            .map_err(|error| errors.push(*error))
            .ok();
        let (Some((store, warnings)), Some(rules), true) = (store, rules, errors.is_empty()) else {
            return Err(errors);
        };
        let fixed = FixedSettings {
            store: Arc::new(store),
            on_demand,
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

    /// The settings of the next handshake.
    pub fn handshake(&self) -> HandshakeSettings {
        HandshakeSettings(self.running.load().config.clone())
    }

    /// The certificates that it chooses from.
    pub fn store(&self) -> &Arc<CertStore> {
        &self.fixed.store
    }

    /// Whether a handshake with `other` has given all that one with this would give: versions,
    /// suites, groups, protocols, and the proof of the client. Certificates may differ.
    pub(super) fn has_rules_of(&self, other: &Self) -> bool {
        self.fixed.policy == other.fixed.policy
            && self.fixed.alpn == other.fixed.alpn
            && self.client_auth == other.client_auth
    }

    /// As [`CertStore::serves`], with its own certificates.
    pub fn serves(&self, sni: Option<&str>) -> bool {
        self.fixed.store.serves(sni)
    }

    /// As [`CertStore::awaits`].
    pub fn awaits(&self, sni: Option<&str>) -> bool {
        self.fixed.store.awaits(sni)
    }

    /// Whether a certificate for a name in lower case may be obtained on demand. Whether it is, others
    /// decide.
    pub fn obtains(&self, name: &str) -> bool {
        let of = &self.fixed.on_demand;
        of.iter().any(|pattern| pattern.matches(name))
    }

    /// All files, for watching: certificates, keys, OCSP responses, the CA list.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = self.fixed.store.files();
        files.extend(self.client_auth.iter().map(|settings| settings.ca.clone()));
        files
    }

    /// Reloads changed files; connections continue unchanged.
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

/// The rules for client certificates, if configured.
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

/// The stamp of the CA list, taken before reading, so that a change in between is noticed later.
fn stamp_of(settings: Option<&ClientAuthSettings>) -> Option<FileStamp> {
    settings.and_then(|settings| stamp(&settings.ca).ok())
}

/// The scope of this listener's tickets: the rules for client certificates, because a resumed
/// client is not asked for one again; and the names, because a resuming client does not check the
/// server's certificate again, so that a listener with other certificates could pose as this one
/// (Delignat-Lavaud and Bhargavan, "Network-based origin confusion attacks against HTTPS virtual
/// hosting", 2015). The certificates themselves are not in it: a renewal keeps tickets valid.
fn scope_of(store: &CertStore, rules: Option<&ClientRules>) -> TicketScope {
    let names = store.identity();
    let rules: Vec<&[u8]> = rules
        .map(|rules| rules.parts().collect())
        .unwrap_or_default();
    let names = names.iter().map(|name| name.as_bytes());
    tickets::scope(rules.into_iter().chain([&b"names"[..]]).chain(names))
}

impl FixedSettings {
    fn run(
        &self,
        rules: Option<ClientRules>,
        scope: TicketScope,
        read: Option<FileStamp>,
    ) -> Result<ActiveServerConfig, String> {
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
        // 0-RTT can be replayed, and a blind relay cannot tell which data is safe.
        config.max_early_data_size = 0;
        // Clients of TLS 1.2 without RFC 7627 still exist.
        config.require_ems = false;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        if let Some(ring) = &self.tickets {
            config.ticketer = ring.for_scope(scope);
            config.send_tls13_tickets = 2;
        }
        Ok(ActiveServerConfig {
            config: Arc::new(config),
            rules,
            read,
            scope,
        })
    }
}
