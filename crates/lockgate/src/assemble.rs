//! From what was written to what will run: the only place that knows both.
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
use lockgate_proxy::admit::basic_auth::Checker;
use lockgate_proxy::downstream::{Listener, Service};
use lockgate_proxy::metrics::relay::RelayName;
use lockgate_proxy::site::{Action, Route};
use lockgate_proxy::upstream::Pool;

use crate::fetcher::Fetcher;
use crate::prober::Prober;
use crate::resolver::Resolver;

use pools::Pools;
use sites::Sites;
use tls::Rings;

/// Everything that will run, not yet running.
pub(crate) struct Assembly {
    /// Those of relays in the order of the configuration, then those of tunnels, then those of
    /// sites.
    pub(crate) listeners: Vec<Planned>,
    /// Every pool, of relays and of sites; one without a name is called like the first table that
    /// has it.
    pub(crate) pools: Vec<Arc<Pool>>,
    /// The pools that sites use, by the number that they have there: the order of the workers'
    /// counters.
    pub(crate) upstreams: Vec<Arc<Pool>>,
    /// The relays by their listeners and pools, in the order of the workers' counters.
    pub(crate) relays: Vec<RelayName>,
    /// The names of the sites, by the place that each has there, then those of tunnels: what is
    /// counted apart.
    pub(crate) sites: Vec<String>,
    /// TLS to endpoints, with the name of the pool that it is for.
    pub(crate) connectors: Vec<(String, Arc<Connector>)>,
    /// Where tickets get their keys.
    pub(crate) rings: Vec<Arc<TicketRing>>,
    /// Every host name that must be resolved.
    pub(crate) resolver: Resolver,
    /// Every endpoint that is to be checked.
    pub(crate) prober: Prober,
    /// Every value that is to be fetched.
    pub(crate) fetcher: Fetcher,
    /// Files of users, each once.
    pub(crate) checkers: Vec<Arc<Checker>>,
}

impl Assembly {
    /// With `ports.https = 0`, lets redirects lead to the port that the system has chosen on their
    /// address; `bound` is in the order of the listeners.
    pub(crate) fn redirect_to(&mut self, bound: &[BoundListener]) {
        let is_secure = |planned: &Planned| planned.listener.tls_of_sites().is_some();
        let secure = self
            .listeners
            .iter()
            .zip(bound)
            .filter(|(planned, _)| is_secure(planned));
        let chosen: Vec<_> = secure
            .map(|(planned, bound)| (planned.address.clone(), port(&bound.address)))
            .collect();
        for Planned {
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
            // Nobody has it yet but we.
            let Some(Listener {
                service: Service::Http(sites),
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
        let serves = |planned: &Planned| {
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

    /// Every file that is read again when it changes.
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
pub(crate) struct Planned {
    /// What it does.
    pub(crate) listener: Arc<Listener>,
    /// Where it listens.
    pub(crate) address: ListenAddress,
    /// How.
    pub(crate) options: listen::ListenOptions,
    /// The protocols that its TLS can choose, for metrics.
    pub(crate) alpn: Vec<String>,
    /// What sites speak there without TLS; empty for all others.
    pub(crate) plain: Vec<Protocol>,
    /// Where it was written.
    pub(crate) at: SourceSpan,
}

/// What this process may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// What the start reads.
    AsStart,
    /// Less: what it may not read may still be in order, and is a warning.
    Less,
}

/// Assembles `config`; what is wrong or doubtful is added to `report`. `None` when something is
/// wrong, or could not be read for want of permission.
pub(crate) fn assemble(config: &Config, sight: Sight, report: &mut Report) -> Option<Assembly> {
    let mistakes = Mistakes {
        report,
        sight,
        failed: false,
    };
    let (rings, mut pools) = (Rings::default(), Pools::default());
    pools.resolver.ask(&config.name_servers);
    let fetcher = values::fetcher(&config.values, &mut pools.resolver);
    let (sites, tunnels, relays) = (Sites::default(), tunnels::Shared::default(), Vec::new());
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
    let mut listeners: Vec<Planned> = config
        .tcp
        .iter()
        .filter_map(|tcp| assembler.listener(tcp))
        .collect();
    let tunnels = config.tunnels.iter().zip(config.sites.len()..);
    listeners.extend(tunnels.filter_map(|(tunnel, place)| assembler.tunnel(tunnel, place)));
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
    let Pools {
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
    mistakes: Mistakes<'a>,
    rings: Rings,
    pools: Pools,
    fetcher: Fetcher,
    sites: Sites,
    tunnels: tunnels::Shared,
    relays: Vec<RelayName>,
}

/// The names of what requests are counted by.
fn counted(config: &Config) -> impl Iterator<Item = &String> {
    let sites = config.sites.iter().map(|site| &site.name);
    sites.chain(config.tunnels.iter().map(|tunnel| &tunnel.name))
}

/// What is wrong, and whether anything that is found forbids to start.
struct Mistakes<'a> {
    report: &'a mut Report,
    sight: Sight,
    failed: bool,
}

impl Mistakes<'_> {
    fn error(&mut self, code: Code, at: &SourceSpan, message: impl Into<String>, cure: &str) {
        self.failed = true;
        self.tell(code, at, message.into(), "", cure);
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
        if self.sight == Sight::Less && File::open(path).is_err_and(is_denied) {
            self.failed = true;
            let cure = "run `check` as root, as the start is";
            return self.tell(
                Code::NotExamined,
                at,
                message.into(),
                "this user may not read it",
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
        self.tell(code, at, message.into(), why, cure);
    }

    /// What lies in two places.
    fn pair(
        &mut self,
        code: Code,
        at: &SourceSpan,
        texts: (&str, &str, &str),
        other: (&SourceSpan, &str),
    ) {
        self.failed = true;
        if !self.is_told(code, at, texts.0) {
            self.report.push_pair(code, at, texts, other);
        }
    }

    fn tell(&mut self, code: Code, at: &SourceSpan, message: String, why: &str, cure: &str) {
        if !self.is_told(code, at, &message) {
            self.report.push_at(code, at, message, why, cure);
        }
    }

    /// What several listeners share is wrong in each of them, and said once.
    fn is_told(&self, code: Code, at: &SourceSpan, message: &str) -> bool {
        let same = |other: &SourceSpan| other.to_string() == at.to_string();
        self.report.iter().any(|found| {
            found.code() == code && found.message() == message && found.at().is_some_and(same)
        })
    }
}

/// For how long the kernel keeps back a client that has said nothing, where clients speak first.
/// Deadlines begin afterwards: it must be short beside them.
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

/// The address of a listener as the wire knows it.
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
