//! The configuration as it runs, made from the configuration as it was written: the only module
//! that knows both.
//!
//! Reads certificates, keys, authorities, users and pages, and finds every mistake in them at once.
//! Binds nothing and starts nothing.

mod certificates;
mod changes;
mod files;
mod mistakes;
mod pools;
mod relays;
mod rules;
mod shared_states;
mod sinks;
mod sites;
mod tls;
mod tunnels;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use lockgate_certs::WantedSet;
use lockgate_config as config;
use lockgate_config::{Config, Protocol, Report, SourceSpan};
use lockgate_limits::{ListenerIndex, RelayIndex};
use lockgate_net::listen::{self, ListenAddress};
use lockgate_net::tls::{Connector, TicketRing};
use lockgate_proxy::admit::basic_auth::PasswordFile;
use lockgate_proxy::downstream::{ListenerService, ListenerSettings};
use lockgate_proxy::metrics::http::SiteIndex;
use lockgate_proxy::metrics::relay::RelayName;
use lockgate_proxy::site::{Action, Route, SiteMaintenance};
use lockgate_upstream::{Endpoint, Pool};

use crate::endpoint_changes::{ChangedPools, EndedChange, EndpointChanges, PlacedChanges};
use crate::fetcher::Fetcher;
use crate::prober::Prober;
use crate::resolver::EndpointResolver;

use certificates::WantedCerts;
use files::ReusableFiles;
use mistakes::MistakeLog;
use pools::{AssembledPools, PoolSuccession, ReusablePools};
pub(crate) use rules::NamedLimit;
use rules::ReusableRules;
pub(crate) use sinks::SinkConnectors;
use sites::AssembledSites;
use tls::{ReusableRings, TicketRings};
use tunnels::{AssembledTunnels, ReusableTunnels};

/// Everything that a configuration runs, not yet running.
pub(crate) struct Assembly {
    /// The listeners of relays in the order of the configuration, then those of tunnels, then those
    /// of sites.
    pub(crate) listeners: Vec<PlannedListener>,
    /// Every pool, of relays and of sites; one without a name is called like the first table that
    /// has it.
    pub(crate) pools: Vec<Arc<Pool>>,
    /// Their settings, in the same order, with what operators have changed.
    pub(crate) written: Vec<Arc<config::EndpointPool>>,
    /// The endpoints that operators have added and removed.
    pub(crate) changes: Arc<EndpointChanges>,
    /// Those of them that this configuration leaves no place.
    pub(crate) ended: EndpointChanges,
    /// The pools that sites use, in the order of the workers' counters.
    pub(crate) upstreams: Vec<Arc<Pool>>,
    /// The relays by their listeners and pools, in the order of the workers' counters.
    pub(crate) relays: Vec<RelayName>,
    /// The names that requests are counted by: those of sites in the order of the configuration,
    /// then those of tunnels.
    pub(crate) sites: Vec<String>,
    /// TLS to endpoints, with the name of the pool that it is for.
    pub(crate) connectors: Vec<(String, Arc<Connector>)>,
    /// TLS to the programs that figures and spans are pushed to.
    pub(crate) sink_connectors: SinkConnectors,
    /// The keys of session tickets.
    pub(crate) rings: Vec<Arc<TicketRing>>,
    /// Every host name that must be resolved.
    pub(crate) resolver: EndpointResolver,
    /// Every endpoint that is to be checked.
    pub(crate) prober: Prober,
    /// Every value that is to be fetched.
    pub(crate) fetcher: Fetcher,
    /// Every certificate that is to be obtained.
    pub(crate) wanted_certs: WantedSet,
    /// The files of users, each once.
    pub(crate) checkers: Vec<Arc<PasswordFile>>,
    /// The maintenance of each of `sites`.
    pub(crate) maintenance: Vec<SiteMaintenance>,
    /// The rate limits.
    pub(crate) limits: Vec<NamedLimit>,
    reusable: Reusable,
    /// The pools that take over the state of running ones.
    successions: Vec<PoolSuccession>,
    /// The limits of endpoints that are in use.
    maxima: Vec<(Arc<Endpoint>, Option<usize>)>,
}

impl Assembly {
    /// Completes the change from the previous assembly: moves the state that the two cannot share.
    /// To be called once, right before the first worker takes this assembly; what was taken over
    /// from files must be read again afterwards, as when they change.
    pub(crate) fn commit(&mut self) {
        std::mem::take(&mut self.successions)
            .into_iter()
            .for_each(PoolSuccession::complete);
        self.reusable.tunnels.set_sizes();
        for (endpoint, max) in self.maxima.drain(..) {
            endpoint.set_max(max);
        }
    }

    /// For each listener, the one of `previous` on the same address, so that its sockets stay. Of
    /// several on one address (port 0) those with the same name belong together, then the others in
    /// their order.
    pub(crate) fn same_addresses(&self, previous: &Self) -> Vec<Option<ListenerIndex>> {
        let name = |planned: &PlannedListener| planned.listener.name.clone();
        let mut free: HashMap<&ListenAddress, Vec<(String, ListenerIndex)>> = HashMap::new();
        for (index, planned) in ListenerIndex::enumerate(&previous.listeners) {
            let there = free.entry(&planned.address).or_default();
            there.push((name(planned), index));
        }
        let mut take = |planned: &PlannedListener, is_wanted: &dyn Fn(&str) -> bool| {
            let there = free.get_mut(&planned.address)?;
            let at = there.iter().position(|(name, _)| is_wanted(name))?;
            Some(there.remove(at).1)
        };
        let listeners = self.listeners.iter();
        let by_name: Vec<_> = listeners
            .map(|planned| take(planned, &|known| *known == planned.listener.name))
            .collect();
        self.listeners
            .iter()
            .zip(by_name)
            .map(|(planned, by_name)| by_name.or_else(|| take(planned, &|_| true)))
            .collect()
    }

    /// With `ports.https = 0`, lets redirects lead to the port that the system has chosen on their
    /// address; `bound` is in the order of the listeners.
    pub(crate) fn redirect_to(&mut self, bound: &[&ListenAddress]) {
        let is_secure = |planned: &PlannedListener| planned.listener.tls_of_sites().is_some();
        let secure = self
            .listeners
            .iter()
            .zip(bound)
            .filter(|(planned, _)| is_secure(planned));
        let chosen: Vec<_> = secure
            .map(|(planned, bound)| (planned.address.clone(), port(bound)))
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
        // Two for each listener, and the supervisor's duplicate.
        3 * self.listeners.len() + 1 + files
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
            .map(|(_, connector)| connector)
            .chain(self.sink_connectors.values())
            .filter_map(|connector| connector.file());
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

/// The configuration that runs, for the assembly of the next one; by default there is none.
#[derive(Default)]
pub(crate) struct Previous<'a> {
    /// Its assembly.
    pub(crate) assembly: Option<&'a Assembly>,
    /// The work beside the workers, to go on.
    pub(crate) background: BackgroundWork,
    /// The endpoints that operators have added and removed, to be put on top of the next one.
    pub(crate) changes: EndpointChanges,
}

/// The work beside the workers: look-ups of names, health checks, fetched values.
#[derive(Default)]
pub(crate) struct BackgroundWork {
    pub(crate) resolver: EndpointResolver,
    pub(crate) prober: Prober,
    pub(crate) fetcher: Fetcher,
}

/// Assembles `config`; mistakes and warnings are added to `report`. `None` when there is a mistake,
/// or a file that this process may not read.
///
/// What is the same in `previous` is shared with it. Nothing of `previous` changes before
/// [`Assembly::commit`].
pub(crate) fn assemble(
    config: &Config,
    access: ReadAccess,
    previous: Previous<'_>,
    report: &mut Report,
) -> Option<Assembly> {
    let mut mistakes = MistakeLog::new(report, access);
    let nothing = Reusable::default();
    let BackgroundWork {
        resolver,
        prober,
        fetcher,
    } = previous.background;
    let previous_changes = previous.changes;
    let previous = previous
        .assembly
        .map_or(&nothing, |previous| &previous.reusable);
    let mut pools = AssembledPools::after(&previous.pools, config);
    (pools.resolver, pools.prober) = (resolver, prober);
    pools.changes = ChangedPools::new(previous_changes);
    pools.resolver.set_name_servers(&config.name_servers);
    let fetcher = values::fetcher(fetcher, &config.values, &mut pools.resolver);
    let sinks = sinks::connectors(&mut mistakes, &config.export, &previous.sinks);
    let mut assembler = Assembler {
        config,
        mistakes,
        rings: TicketRings::after(&previous.rings),
        pools,
        fetcher,
        wanted: WantedCerts::of(config),
        sites: AssembledSites::after(previous, config),
        tunnels: AssembledTunnels::after(&previous.tunnels),
        sinks,
        relays: Vec::new(),
        relay_indexes: HashMap::new(),
    };
    let listeners = assembler.listeners();
    let whole = !assembler.mistakes.failed();
    whole.then(|| assembler.finish(listeners))
}

/// The state of an assembly that the next one may take over.
#[derive(Default)]
struct Reusable {
    rings: ReusableRings,
    pools: ReusablePools,
    rules: ReusableRules,
    files: ReusableFiles,
    tunnels: ReusableTunnels,
    maintenance: HashMap<String, SiteMaintenance>,
    sinks: SinkConnectors,
}

struct Assembler<'a> {
    config: &'a Config,
    mistakes: MistakeLog<'a>,
    rings: TicketRings<'a>,
    pools: AssembledPools<'a>,
    fetcher: Fetcher,
    wanted: WantedCerts,
    sites: AssembledSites<'a>,
    tunnels: AssembledTunnels<'a>,
    sinks: SinkConnectors,
    relays: Vec<RelayName>,
    relay_indexes: HashMap<RelayName, RelayIndex>,
}

impl Assembler<'_> {
    fn listeners(&mut self) -> Vec<PlannedListener> {
        let config = self.config;
        let relays = config.tcp.iter();
        let mut listeners: Vec<_> = relays.filter_map(|tcp| self.listener(tcp)).collect();
        let indexes = (config.sites.len()..).map(SiteIndex::new);
        let tunnels = config.tunnels.iter().zip(indexes);
        listeners.extend(tunnels.filter_map(|(tunnel, index)| self.tunnel(tunnel, index)));
        listeners.extend(self.site_listeners());
        listeners
    }

    fn finish(mut self, listeners: Vec<PlannedListener>) -> Assembly {
        let PlacedChanges { hold, ended, said } = std::mem::take(&mut self.pools.changes).finish();
        for EndedChange { what, why } in said {
            self.mistakes.ended(&what, &why);
        }
        let made = self.pools.all.iter();
        let written = made.filter_map(|pool| self.pools.written(pool)).collect();
        let AssembledSites {
            upstreams,
            guards,
            files,
            maintenance,
            ..
        } = self.sites;
        let (pools, parts) = self.pools.into_parts();
        let reusable = Reusable {
            rings: self.rings.into_reusable(),
            pools,
            rules: guards.into_reusable(),
            files: files.into_reusable(),
            tunnels: self.tunnels.into_reusable(),
            maintenance,
            sinks: self.sinks.clone(),
        };
        let maintenance =
            |site: &String| reusable.maintenance.get(site).cloned().unwrap_or_default();
        let rings = reusable.rings.iter();
        Assembly {
            listeners,
            pools: parts.all,
            written,
            changes: Arc::new(hold),
            ended,
            upstreams,
            relays: self.relays,
            sites: counted(self.config).cloned().collect(),
            maintenance: counted(self.config).map(maintenance).collect(),
            connectors: parts.connectors,
            sink_connectors: self.sinks,
            rings: rings.map(|(_, ring)| Arc::clone(ring)).collect(),
            resolver: parts.resolver,
            prober: parts.prober,
            fetcher: self.fetcher,
            wanted_certs: self.wanted.finish(),
            checkers: reusable.rules.checkers().cloned().collect(),
            limits: reusable.rules.limits(),
            reusable,
            successions: parts.successions,
            maxima: parts.maxima,
        }
    }
}

/// The names of the sites and tunnels, which requests are counted by.
fn counted(config: &Config) -> impl Iterator<Item = &String> {
    let sites = config.sites.iter().map(|site| &site.name);
    sites.chain(config.tunnels.iter().map(|tunnel| &tunnel.name))
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

/// The port of an address that has one.
pub(crate) fn port(address: &ListenAddress) -> Option<u16> {
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

#[cfg(test)]
mod tests;
