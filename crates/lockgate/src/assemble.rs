//! From what was written to what will run: the only place that knows both.
//!
//! Reads certificates, keys and authorities, and finds every mistake in them at once. Binds nothing and starts nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_config as config;
use lockgate_config::{At, Code, Config, Report};
use lockgate_net::listen::{self, Address};
use lockgate_net::proxy_protocol::Version as ProxyVersion;
use lockgate_net::tls::{
    self, Acceptor, CertError, Connector, ConnectorError, Policy, TicketRing, TlsSetupError, Warning,
};
use lockgate_proxy::downstream::{AcceptProxy, Http, Listener, Relaying, Service};
use lockgate_proxy::upstream::{Balance, Endpoint, Keeping, Member, Place, Pool};

use crate::resolver::Resolver;

/// Everything that will run, not yet running.
pub(crate) struct Assembly {
    /// In the order of the configuration.
    pub(crate) listeners: Vec<Planned>,
    /// Every pool, of relays and of sites, by the name of the table that has it.
    pub(crate) pools: Vec<(String, Arc<Pool>)>,
    /// The pools that sites use, by the number that they have there, and how connections to them are kept.
    pub(crate) upstreams: Vec<(Arc<Pool>, Keeping)>,
    /// Where tickets get their keys.
    pub(crate) rings: Vec<Arc<TicketRing>>,
    /// Every host name that must be resolved.
    pub(crate) resolver: Resolver,
}

impl Assembly {
    /// Every file that is read again when it changes.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let listeners = self.listeners.iter().map(|planned| &planned.listener);
        let certificates = listeners.filter_map(|listener| listener.tls.as_ref());
        let authorities = self.pools.iter().filter_map(|(_, pool)| pool.tls.as_ref()?.file());
        let keys = self.rings.iter().filter_map(|ring| ring.file());
        let others = authorities.chain(keys).map(PathBuf::from);
        certificates.flat_map(|acceptor| acceptor.files()).chain(others).collect()
    }
}

/// A listener and how to bind it.
pub(crate) struct Planned {
    /// What it does.
    pub(crate) listener: Arc<Listener>,
    /// Where it listens.
    pub(crate) address: Address,
    /// How.
    pub(crate) options: listen::Options,
    /// The protocols that its TLS can choose, for metrics.
    pub(crate) alpn: Vec<String>,
    /// Where it was written.
    pub(crate) at: At,
}

/// Assembles `config`; what is wrong or doubtful is added to `report`. `None` when something is wrong.
pub(crate) fn assemble(config: &Config, report: &mut Report) -> Option<Assembly> {
    let mut assembler = Assembler {
        report,
        rings: Vec::new(),
        endpoints: HashMap::new(),
        resolver: Resolver::default(),
        failed: false,
        upstreams: Vec::new(),
        pools: Vec::new(),
    };
    let named = config.pools.iter().filter(|pool| pool.name.is_some()).map(|pool| &pool.at);
    for at in config.sites.iter().map(|site| &site.at).chain(named) {
        let message = "sites and pools are checked, but not served by this build".to_owned();
        assembler.error(Code::NotYet, at, message, "relay to addresses with a [tcp] table");
    }
    let listeners: Vec<Planned> =
        config.tcp.iter().filter_map(|tcp| assembler.listener(config, tcp)).collect();
    let Assembler { rings, resolver, failed, pools, upstreams, .. } = assembler;
    let rings = rings.into_iter().map(|(_, ring)| ring).collect();
    (!failed).then_some(Assembly { listeners, pools, upstreams, rings, resolver })
}

struct Assembler<'a> {
    report: &'a mut Report,
    /// Listeners with the same settings share their keys.
    rings: Vec<(config::Tickets, Arc<TicketRing>)>,
    /// Listeners with the same endpoint share its count and its `max`.
    endpoints: HashMap<config::EndpointAddr, Arc<Endpoint>>,
    resolver: Resolver,
    pools: Vec<(String, Arc<Pool>)>,
    upstreams: Vec<(Arc<Pool>, Keeping)>,
    failed: bool,
}

impl Assembler<'_> {
    fn listener(&mut self, config: &Config, tcp: &config::Tcp) -> Option<Planned> {
        let tls = tcp.tls.as_ref().map(|tls| self.acceptor(tcp, tls));
        let pool = self.pool(config.pools.get(tcp.pool)?);
        let (tls, pool) = match (tls, pool) {
            (None, Some(pool)) => (None, pool),
            (Some(Some(tls)), Some(pool)) => (Some(tls), pool),
            _ => return None,
        };
        let accept_proxy = match tcp.accept_proxy {
            config::AcceptProxy::Never => AcceptProxy::Never,
            config::AcceptProxy::Optional => AcceptProxy::Optional,
            config::AcceptProxy::Require => AcceptProxy::Require,
        };
        // Only where the client must speak first: elsewhere a server's greeting would be held up.
        let client_first = tls.is_some() || accept_proxy == AcceptProxy::Require;
        let options = listen::Options {
            backlog: config.socket.backlog,
            fast_open: config.socket.fast_open,
            defer_accept: client_first.then_some(tcp.timeouts.handshake),
        };
        let pool = Arc::new(pool);
        self.pools.push((tcp.name.clone(), Arc::clone(&pool)));
        let service = if std::env::var_os("LOCKGATE_HTTP").is_some() {
            self.upstreams.push((pool, Keeping { max: 256, lifetime: 60_000, requests: 10_000 }));
            Service::Http(Http { action: lockgate_proxy::action::proxy::Proxy { upstream: self.upstreams.len() - 1, connect: tcp.timeouts.connect, response: Duration::from_secs(60), retries: 1 }, limits: Default::default(), head: Duration::from_secs(10), idle: Duration::from_secs(75) })
        } else { Service::Relay(Relaying {
            pool,
            proxy_protocol: tcp.proxy_protocol.map(|version| match version {
                config::ProxyVersion::V1 => ProxyVersion::V1,
                config::ProxyVersion::V2 => ProxyVersion::V2,
            }),
            connect: tcp.timeouts.connect,
            idle: tcp.timeouts.tunnel_idle,
            keepalive: config.socket.keepalive,
            max_lifetime: tcp.max_lifetime,
        }) };
        let listener = Listener {
            name: tcp.name.clone(),
            tls,
            accept_proxy,
            handshake: tcp.timeouts.handshake,
            service,
        };
        Some(Planned {
            listener: Arc::new(listener),
            address: address(&tcp.listen),
            options,
            alpn: tcp.tls.iter().flat_map(|tls| tls.alpn.iter().cloned()).collect(),
            at: tcp.at.clone(),
        })
    }

    fn acceptor(&mut self, tcp: &config::Tcp, written: &config::Tls) -> Option<Arc<Acceptor>> {
        let versions: Vec<_> = written.versions.iter().map(|version| version.name()).collect();
        let suites: Vec<_> = written.suites.iter().map(|suite| suite.name()).collect();
        let groups: Vec<_> = written.groups.iter().map(|group| group.name()).collect();
        let policy = Policy::from_names(&versions, &suites, &groups);
        let policy = match policy {
            Ok(policy) => Some(policy),
            Err(error) => {
                self.error(Code::TlsUnusable, &tcp.at, error.to_string(), "");
                None
            }
        };
        let tickets = self.ring(tcp, &written.tickets);
        let settings = tls::ServerSettings {
            certs: written.certs.iter().map(files).collect(),
            default: written.default.as_ref().map(files),
            policy: policy?,
            alpn: written.alpn.iter().map(|name| name.clone().into_bytes()).collect(),
            client_auth: written.client_auth.as_ref().map(|auth| tls::ClientAuthSettings {
                mode: match auth.mode {
                    config::ClientAuthMode::Require => tls::ClientAuthMode::Require,
                    config::ClientAuthMode::Request => tls::ClientAuthMode::Request,
                },
                ca: auth.ca.clone(),
            }),
            tickets: tickets?,
        };
        match Acceptor::new(settings) {
            Ok((acceptor, warnings)) => {
                warnings.iter().for_each(|warning| self.doubt(tcp, written, warning));
                Some(Arc::new(acceptor))
            }
            Err(errors) => {
                errors.iter().for_each(|error| self.refuse(tcp, written, error));
                None
            }
        }
    }

    /// The ticket keys for these settings; the inner `None` is no tickets.
    fn ring(&mut self, tcp: &config::Tcp, written: &config::Tickets) -> Option<Option<Arc<TicketRing>>> {
        if let Some((_, ring)) = self.rings.iter().find(|(known, _)| known == written) {
            return Some(Some(Arc::clone(ring)));
        }
        let now = Instant::now();
        let made = match written {
            config::Tickets::Off => return Some(None),
            config::Tickets::Rotating { rotate, keep } => {
                TicketRing::rotating(*rotate, usize::from(*keep), now)
            }
            config::Tickets::Keys(path) => TicketRing::from_file(path, now).map(|(ring, warnings)| {
                for warning in warnings {
                    self.report.push_at(Code::CertificateDoubtful, &tcp.at, warning.to_string(), "", "");
                }
                ring
            }),
        };
        match made {
            Ok(ring) => {
                self.rings.push((written.clone(), Arc::clone(&ring)));
                Some(Some(ring))
            }
            Err(error) => {
                let cure =
                    "one key a line: 48 or 80 random bytes in base64, as `openssl rand -base64 48` makes";
                self.error(Code::TicketKeysUnreadable, &tcp.at, error.to_string(), cure);
                None
            }
        }
    }

    fn pool(&mut self, pool: &config::Pool) -> Option<Pool> {
        let connector = match &pool.tls {
            None => None,
            Some(written) => Some(self.connector(written)?),
        };
        let endpoints = tcp.upstream.endpoints.iter();
        let members = endpoints.map(|endpoint| Member::new(self.endpoint(endpoint), 1)).collect();
        Some(Pool::new(members, Balance::Least, connector))
        let endpoints = pool.endpoints.iter().map(|endpoint| self.endpoint(endpoint)).collect();
        Some(Pool::new(endpoints, connector))
    }

    fn connector(&mut self, written: &config::UpstreamTls) -> Option<Arc<Connector>> {
        let settings = tls::ClientSettings {
            ca: match &written.ca {
                config::CaSource::System => tls::CaSource::System,
                config::CaSource::File(path) => tls::CaSource::File(path.clone()),
            },
            alpn: written.alpn.iter().map(|name| name.clone().into_bytes()).collect(),
            name: written.name.clone(),
        };
        match Connector::new(settings) {
            Ok(connector) => Some(Arc::new(connector)),
            Err(error) => {
                let code = match error {
                    ConnectorError::Ca(_) => Code::AuthorityUnreadable,
                    _ => Code::TlsUnusable,
                };
                self.error(code, &written.at, error.to_string(), "");
                None
            }
        }
    }

    fn endpoint(&mut self, written: &config::Endpoint) -> Arc<Endpoint> {
        if let Some(known) = self.endpoints.get(&written.addr) {
            return Arc::clone(known);
        }
        let (host, place) = match &written.addr {
            config::EndpointAddr::Ip(address) => (address.ip().to_string(), Place::Ip(*address)),
            config::EndpointAddr::Unix(path) => (String::new(), Place::Unix(path.clone())),
            config::EndpointAddr::Name { host, port } => {
                (host.clone(), Place::Name(self.resolver.register(host, *port)))
            }
        };
        let endpoint = Arc::new(Endpoint::new(written.addr.to_string(), host, place, written.max));
        self.endpoints.insert(written.addr.clone(), Arc::clone(&endpoint));
        endpoint
    }

    fn refuse(&mut self, tcp: &config::Tcp, written: &config::Tls, error: &TlsSetupError) {
        let (code, at, cure) = match error {
            TlsSetupError::Certificate { files, error } => {
                let at = place_of(written, &files.cert).unwrap_or(&tcp.at);
                let (code, cure) = certificate_code(files, error);
                (code, at, cure)
            }
            TlsSetupError::ClientCa { .. } => {
                let at = written.client_auth.as_ref().map_or(&tcp.at, |auth| &auth.at);
                (
                    Code::AuthorityUnreadable,
                    at,
                    "a PEM file with the certificates of the authorities; never served open",
                )
            }
            TlsSetupError::NoCertificates => {
                (Code::NoCertificate, &tcp.at, "`tls = { cert = \"…\", key = \"…\" }`")
            }
            TlsSetupError::AlpnLength { .. } | TlsSetupError::Refused { .. } => {
                (Code::TlsUnusable, &tcp.at, "")
            }
        };
        self.error(code, at, error.to_string(), cure);
    }

    fn doubt(&mut self, tcp: &config::Tcp, written: &config::Tls, warning: &Warning) {
        let (code, cert) = match warning {
            Warning::Expired { cert, .. } | Warning::NotYetValid { cert, .. } => {
                (Code::CertificateExpired, Some(cert))
            }
            Warning::ExpiresSoon { cert, .. } => (Code::CertificateExpiresSoon, Some(cert)),
            Warning::ChainOrder { cert, .. }
            | Warning::NoIntermediate { cert, .. }
            | Warning::Unreachable { cert } => (Code::CertificateDoubtful, Some(cert)),
            _ => (Code::CertificateDoubtful, None),
        };
        let at = cert.and_then(|cert| place_of(written, cert)).unwrap_or(&tcp.at);
        self.report.push_at(code, at, warning.to_string(), "", "");
    }

    fn error(&mut self, code: Code, at: &At, message: String, cure: &str) {
        self.failed = true;
        self.report.push_at(code, at, message, "", cure);
    }
}

fn certificate_code(files: &tls::CertFiles, error: &CertError) -> (Code, &'static str) {
    const CHAIN: &str = "a PEM file: the certificate first, then its intermediates";
    const KEY: &str = "a PEM file with the key: named by `key`, beside the certificate, or in its file";
    const OCSP: &str = "a response in DER, as `openssl ocsp -respout` writes it";
    match error {
        CertError::Missing { path }
        | CertError::Unreadable { path, .. }
        | CertError::Empty { path }
        | CertError::BrokenPem { path, .. }
        | CertError::UnsupportedKey { path, .. } => match path {
            path if path == &files.cert => (Code::CertificateUnreadable, CHAIN),
            path if Some(path) == files.ocsp.as_ref() => (Code::OcspUnreadable, OCSP),
            _ => (Code::KeyUnreadable, KEY),
        },
        CertError::NoCertificate { .. }
        | CertError::BadCertificate { .. }
        | CertError::LeafNotFirst { .. } => (Code::CertificateUnreadable, CHAIN),
        CertError::NoKey { .. } | CertError::EncryptedKey { .. } => (Code::KeyUnreadable, KEY),
        CertError::Mismatch { .. } => (Code::KeyMismatch, "name the key that was made for this certificate"),
        CertError::BadOcsp { .. } => (Code::OcspUnreadable, OCSP),
    }
}

fn place_of<'a>(written: &'a config::Tls, cert: &Path) -> Option<&'a At> {
    written.certs.iter().chain(&written.default).find(|files| files.cert == cert).map(|files| &files.at)
}

fn files(written: &config::CertFiles) -> tls::CertFiles {
    tls::CertFiles { cert: written.cert.clone(), key: written.key.clone(), ocsp: written.ocsp.clone() }
}

/// The address of a listener as the wire knows it.
pub(crate) fn address(written: &config::ListenAddr) -> Address {
    match written {
        config::ListenAddr::All(port) => Address::All(*port),
        config::ListenAddr::Ip(address) => Address::Ip(*address),
        config::ListenAddr::Unix(path) => Address::Unix(path.clone()),
    }
}

/// How long the first answers of the resolver are waited for: a name server that is down must not hold up the start.
pub(crate) const FIRST_ANSWERS: Duration = Duration::from_millis(500);
