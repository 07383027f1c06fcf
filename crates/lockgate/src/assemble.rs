//! The configuration as it runs, made from the configuration as it was written: the only module
//! that knows both.
//!
//! Reads certificates, keys, authorities, users and pages, and finds every mistake in them at once.
//! Binds nothing and starts nothing.

mod changes;
mod pools;
mod relays;
mod rules;
mod sites;
mod tls;
mod tunnels;
mod values;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockgate_config as config;
use lockgate_config::{Code, Config, Protocol, Report, SourceSpan};
use lockgate_net::listen::{self, BoundListener, ListenAddress};
use lockgate_net::tls::{Connector, TicketRing};
use lockgate_proxy::admit::basic_auth::PasswordFile;
use lockgate_proxy::downstream::{ListenerService, ListenerSettings};
use lockgate_proxy::metrics::http::SiteIndex;
use lockgate_proxy::metrics::relay::RelayName;
use lockgate_proxy::site::{Action, Route};
use lockgate_upstream::Pool;

use crate::fetcher::Fetcher;
use crate::prober::Prober;
use crate::resolver::EndpointResolver;

use pools::AssembledPools;
use sites::AssembledSites;
use tls::TicketRings;

/// Everything that a configuration runs, not yet running.
pub(crate) struct Assembly {
    /// The listeners of relays in the order of the configuration, then those of tunnels, then those
    /// of sites.
    pub(crate) listeners: Vec<PlannedListener>,
    /// Every pool, of relays and of sites; one without a name is called like the first table that
    /// has it.
    pub(crate) pools: Vec<Arc<Pool>>,
    /// The pools that sites use, in the order of the workers' counters.
    pub(crate) upstreams: Vec<Arc<Pool>>,
    /// The relays by their listeners and pools, in the order of the workers' counters.
    pub(crate) relays: Vec<RelayName>,
    /// The names that requests are counted by: those of sites in the order of the configuration,
    /// then those of tunnels.
    pub(crate) sites: Vec<String>,
    /// TLS to endpoints, with the name of the pool that it is for.
    pub(crate) connectors: Vec<(String, Arc<Connector>)>,
    /// The keys of session tickets.
    pub(crate) rings: Vec<Arc<TicketRing>>,
    /// Every host name that must be resolved.
    pub(crate) resolver: EndpointResolver,
    /// Every endpoint that is to be checked.
    pub(crate) prober: Prober,
    /// Every value that is to be fetched.
    pub(crate) fetcher: Fetcher,
    /// The files of users, each once.
    pub(crate) checkers: Vec<Arc<PasswordFile>>,
}

impl Assembly {
    /// With `ports.https = 0`, lets redirects lead to the port that the system has chosen on their
    /// address; `bound` is in the order of the listeners.
    pub(crate) fn redirect_to(&mut self, bound: &[BoundListener]) {
        let is_secure = |planned: &PlannedListener| planned.listener.tls_of_sites().is_some();
        let secure = self
            .listeners
            .iter()
            .zip(bound)
            .filter(|(planned, _)| is_secure(planned));
        let chosen: Vec<_> = secure
            .map(|(planned, bound)| (planned.address.clone(), port(&bound.address)))
            .collect();
        for PlannedListener {
            listener, address, ..
        } in &mut self.listeners
        {
            let asked_for = with_port(address, 0);
            let Some(real) = chosen
                .iter()
                .find(|(known, _)| *known == asked_for)
                .and_then(|(_, port)| *port)
            else {
                continue;
            };
            // It is not shared yet.
            let Some(ListenerSettings {
                service: ListenerService::Http(sites),
                ..
            }) = Arc::get_mut(listener)
            else {
                continue;
            };
            for route in &mut sites.routes {
                if let Action::Secure(port @ 0) = &mut route.action {
                    *port = real;
                }
            }
        }
    }

    /// Descriptors that each worker holds besides those of connections: its listeners, a connection
    /// at each that waits for a place, the alarm of its rates, and twice as many as it keeps of
    /// the `files` that it serves.
    pub(crate) fn held_by_worker(&self, files: usize) -> usize {
        let is_files = |route: &Route| matches!(route.action, Action::Files(_));
        let serves = |planned: &PlannedListener| {
            planned
                .listener
                .sites()
                .is_some_and(|sites| sites.routes.iter().any(is_files))
        };
        let files = if self.listeners.iter().any(serves) {
            2 * files
        } else {
            0
        };
        2 * self.listeners.len() + 1 + files
    }

    /// The files that are read again when they change.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let certificates = self
            .listeners
            .iter()
            .flat_map(|planned| planned.listener.acceptors());
        let authorities = self
            .connectors
            .iter()
            .filter_map(|(_, connector)| connector.file());
        let keys = self.rings.iter().filter_map(|ring| ring.file());
        let users = self.checkers.iter().map(|checker| checker.path());
        let others = authorities.chain(keys).chain(users).map(PathBuf::from);
        certificates
            .flat_map(|acceptor| acceptor.files())
            .chain(others)
            .collect()
    }
}

/// A listener and how to bind it.
pub(crate) struct PlannedListener {
    pub(crate) listener: Arc<ListenerSettings>,
    pub(crate) address: ListenAddress,
    pub(crate) options: listen::ListenOptions,
    /// The protocols that its TLS can choose, for metrics.
    pub(crate) alpn: Vec<String>,
    /// The protocols of sites there without TLS; empty for all other listeners.
    pub(crate) plain: Vec<Protocol>,
    /// Its place in the configuration.
    pub(crate) at: SourceSpan,
}

/// The files that this process may read, beside those that the start may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    /// As the start does.
    AsStart,
    /// Fewer: a file that it may not read may still be in order, which is a warning.
    Less,
}

/// Assembles `config`; mistakes and warnings are added to `report`. `None` when there is a mistake,
/// or a file that this process may not read.
pub(crate) fn assemble(
    config: &Config,
    access: ReadAccess,
    report: &mut Report,
) -> Option<Assembly> {
    let mistakes = MistakeLog {
        report,
        access,
        failed: false,
    };
    let (rings, mut pools) = (TicketRings::default(), AssembledPools::default());
    pools.resolver.set_name_servers(&config.name_servers);
    let fetcher = values::fetcher(&config.values, &mut pools.resolver);
    let (sites, tunnels, relays) = (
        AssembledSites::default(),
        tunnels::TunnelLookups::default(),
        Vec::new(),
    );
    let mut assembler = Assembler {
        config,
        mistakes,
        rings,
        pools,
        fetcher,
        sites,
        tunnels,
        relays,
    };
    let mut listeners: Vec<PlannedListener> = config
        .tcp
        .iter()
        .filter_map(|tcp| assembler.listener(tcp))
        .collect();
    let indexes = (config.sites.len()..).map(SiteIndex::new);
    let tunnels = config.tunnels.iter().zip(indexes);
    listeners.extend(tunnels.filter_map(|(tunnel, index)| assembler.tunnel(tunnel, index)));
    listeners.extend(assembler.site_listeners());
    let Assembler {
        relays,
        mistakes,
        rings,
        pools,
        fetcher,
        sites,
        ..
    } = assembler;
    let AssembledPools {
        all,
        connectors,
        resolver,
        prober,
        ..
    } = pools;
    let (upstreams, checkers) = sites.shared();
    (!mistakes.failed).then(|| Assembly {
        listeners,
        pools: all,
        upstreams,
        relays,
        sites: counted(config).cloned().collect(),
        connectors,
        rings: rings.all(),
        resolver,
        prober,
        fetcher,
        checkers,
    })
}

struct Assembler<'a> {
    config: &'a Config,
    mistakes: MistakeLog<'a>,
    rings: TicketRings,
    pools: AssembledPools,
    fetcher: Fetcher,
    sites: AssembledSites,
    tunnels: tunnels::TunnelLookups,
    relays: Vec<RelayName>,
}

/// The names of the sites and tunnels, which requests are counted by.
fn counted(config: &Config) -> impl Iterator<Item = &String> {
    let sites = config.sites.iter().map(|site| &site.name);
    sites.chain(config.tunnels.iter().map(|tunnel| &tunnel.name))
}

/// The mistakes that are found, and whether any of them forbids to start.
struct MistakeLog<'a> {
    report: &'a mut Report,
    access: ReadAccess,
    failed: bool,
}

impl MistakeLog<'_> {
    fn error(&mut self, code: Code, at: &SourceSpan, message: impl Into<String>, cure: &str) {
        self.failed = true;
        self.push(code, at, message.into(), "", cure);
    }

    /// A mistake of the file at `path`.
    fn file(
        &mut self,
        path: &Path,
        code: Code,
        at: &SourceSpan,
        message: impl Into<String>,
        cure: &str,
    ) {
        let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        if self.access == ReadAccess::Less && File::open(path).is_err_and(is_denied) {
            self.failed = true;
            let cure = "run `check` as root, as the service starts";
            return self.push(
                Code::NotExamined,
                at,
                message.into(),
                "this user is not allowed to read it",
                cure,
            );
        }
        self.error(code, at, message, cure);
    }

    fn warn(
        &mut self,
        code: Code,
        at: &SourceSpan,
        message: impl Into<String>,
        why: &str,
        cure: &str,
    ) {
        self.push(code, at, message.into(), why, cure);
    }

    /// A mistake that two places of the configuration make together.
    fn pair(
        &mut self,
        code: Code,
        at: &SourceSpan,
        texts: (&str, &str, &str),
        other: (&SourceSpan, &str),
    ) {
        self.failed = true;
        if !self.is_reported(code, at, texts.0) {
            self.report.push_pair(code, at, texts, other);
        }
    }

    fn push(&mut self, code: Code, at: &SourceSpan, message: String, why: &str, cure: &str) {
        if !self.is_reported(code, at, &message) {
            self.report.push_at(code, at, message, why, cure);
        }
    }

    /// Whether it was reported before: several listeners may share what is wrong.
    fn is_reported(&self, code: Code, at: &SourceSpan, message: &str) -> bool {
        let same = |other: &SourceSpan| other.to_string() == at.to_string();
        self.report.iter().any(|found| {
            found.code() == code && found.message() == message && found.at().is_some_and(same)
        })
    }
}

/// How long the kernel keeps back a client that has sent nothing, where clients send first.
/// Deadlines begin afterwards, so this must be short beside them.
const DEFERRED: Duration = Duration::from_secs(1);

fn options(
    socket: &config::SocketOptions,
    defer_accept: Option<Duration>,
) -> listen::ListenOptions {
    listen::ListenOptions {
        backlog: socket.backlog,
        fast_open: socket.fast_open,
        defer_accept,
    }
}

/// The address of a listener as sockets have it.
pub(crate) fn address(written: &config::ListenAddr) -> ListenAddress {
    match written {
        config::ListenAddr::All(port) => ListenAddress::All(*port),
        config::ListenAddr::Ip(address) => ListenAddress::Ip(*address),
        config::ListenAddr::Unix(path) => ListenAddress::Unix(path.clone()),
    }
}

fn port(address: &ListenAddress) -> Option<u16> {
    match address {
        ListenAddress::All(port) => Some(*port),
        ListenAddress::Ip(address) => Some(address.port()),
        ListenAddress::Unix(_) => None,
    }
}

fn with_port(address: &ListenAddress, port: u16) -> ListenAddress {
    match address {
        ListenAddress::All(_) => ListenAddress::All(port),
        ListenAddress::Ip(address) => ListenAddress::Ip(SocketAddr::new(address.ip(), port)),
        ListenAddress::Unix(path) => ListenAddress::Unix(path.clone()),
    }
}
