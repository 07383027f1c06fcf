//! From checked tables to what will run: defaults, inheritance and what keys mean together.
//!
//! Does not look at the form of values: `check` has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use lockgate_rules::{AcceptProxy, AcmeSettings, CertIssuer, Cidr, MinRates};
use logs::log;
use pool::Pools;
use view::View;

use crate::codes::Code;
use crate::document::Integrity;
use crate::environment::Environment;
use crate::include::SourceTree;
use crate::keys::{ports as port_keys, rates as rate_keys, timeouts as timeout_keys, top};
use crate::model::{
    AccessLog, AdminSocket, CertPaths, Config, Drain, EndpointAddr, HostedSite, ManagedCerts,
    Metrics, Ports, ProcessLimits, Protocol, RedirectFile, SocketOptions, Tcp, Timeouts, Workers,
};
use crate::report::Report;
use crate::source::SourceSpan;
use crate::table::CheckedTable;
use crate::values::ShortOrLong;

mod answers;
mod auth;
mod bindings;
mod certificates;
mod content;
mod dns_provider;
mod export;
mod files;
mod health;
mod logs;
mod placeholders;
mod pool;
mod protocol;
mod redirects;
mod request_tests;
mod route;
mod shape;
mod site;
mod tcp;
mod tls;
mod tunnel;
mod view;

/// The state of resolving.
struct Resolver<'a> {
    env: &'a Environment,
    report: &'a mut Report,
    root: &'a CheckedTable,
    pools: Pools,
    /// Places of auth services, and their pools.
    forwards: Vec<((usize, usize, usize), Option<usize>)>,
    /// Files of redirects that were read; `None` where they have mistakes.
    redirect_maps: HashMap<PathBuf, Option<Arc<RedirectFile>>>,
    /// The certificates of each `certs` by its place: sites that inherit one share it.
    cert_lists: HashMap<(usize, usize), Arc<[CertPaths]>>,
    /// Settings of ACME: tables with equal ones share them.
    acme: HashSet<Arc<AcmeSettings>>,
    /// Values by name, and whether something puts them in.
    value_names: BTreeMap<String, bool>,
    /// The access log of all, and those of sites.
    shared_log: Option<AccessLog>,
    site_logs: Vec<(AccessLog, SourceSpan)>,
    /// Settings at the top that every listener inherits.
    shared: GlobalSettings,
}

/// The globals that tables inherit.
struct GlobalSettings {
    trusted: Vec<Cidr>,
    timeouts: Timeouts,
    rates: MinRates,
    ports: Ports,
}

/// Turns the top table into a configuration. It means something only when the report has no errors.
pub(crate) fn resolve(
    root: &CheckedTable,
    written: &SourceTree,
    env: &Environment,
    report: &mut Report,
) -> Config {
    let top = View::of(root);
    let shared = GlobalSettings {
        trusted: top.list(&top::TRUSTED),
        timeouts: timeouts(&top.section(&top::TIMEOUTS)),
        rates: rates(&top.section(&top::RATES)),
        ports: ports(&top.section(&top::PORTS)),
    };
    let mut resolver = Resolver {
        env,
        report,
        root,
        pools: Pools::default(),
        forwards: Vec::new(),
        redirect_maps: HashMap::new(),
        cert_lists: HashMap::new(),
        acme: HashSet::new(),
        value_names: BTreeMap::new(),
        shared_log: None,
        site_logs: Vec::new(),
        shared,
    };
    resolver.named_pools();
    let values = resolver.values();
    let access_log = resolver.access_log(top.get(&top::ACCESS_LOG), &top.section(&top::ACCESS_LOG));
    resolver.shared_log = access_log.clone();
    let tcp = resolver.tcp();
    let tunnels = resolver.tunnels();
    let sites = resolver.sites();
    let tests = resolver.request_tests();
    let state = resolver.state(managed(&tcp, &sites).next());
    let mut config = Config {
        workers: workers(&top),
        user: top.get(&top::USER),
        state,
        reload: top.get(&top::RELOAD),
        metrics: metrics(&top),
        admin: admin(&top),
        export: resolver.export(),
        access_log,
        site_logs: std::mem::take(&mut resolver.site_logs),
        log: log(&top),
        drain: drain(&top.section(&top::DRAIN)),
        limits: limits(&top.section(&top::LIMITS)),
        name_servers: resolver.name_servers(&top.section(&top::DNS)),
        socket: socket(&top.section(&top::SOCKET)),
        values,
        trusted: resolver.shared.trusted.clone(),
        timeouts: resolver.shared.timeouts,
        rates: resolver.shared.rates,
        http2: resolver.http2(),
        ports: resolver.shared.ports,
        pools: std::mem::take(&mut resolver.pools.all),
        tcp,
        tunnels,
        sites,
        tests,
    };
    resolver.share_max(&mut config.pools);
    if written.syntax == Integrity::Whole {
        resolver.no_listener(written);
        resolver.same_port();
        resolver.same_address(&config);
        resolver.unused_pools(&config);
        resolver.unused_values(&config.values);
        resolver.without_effect(&config);
        resolver.unreached_limit(&config.limits);
    }
    config
}

impl<'a> Resolver<'a> {
    /// The top of the file.
    fn top(&self) -> View<'a> {
        View::of(self.root)
    }

    /// Whether a mistake has been reported at a place: what several tables inherit is resolved for
    /// each of them.
    fn was_reported(&self, code: Code, at: &SourceSpan) -> bool {
        self.report.iter().any(|found| {
            found.code() == code && found.at().map(SourceSpan::rank) == Some(at.rank())
        })
    }

    /// Reports a mistake, but once at a place.
    fn push_once(
        &mut self,
        code: Code,
        at: &SourceSpan,
        message: impl Into<String>,
        why: impl Into<String>,
        cure: impl Into<String>,
    ) {
        if !self.was_reported(code, at) {
            self.report.push_at(code, at, message, why, cure);
        }
    }

    /// Warns, once at a place, that a key does nothing there.
    fn no_effect(&mut self, key: &str, at: &SourceSpan, why: &str, cure: &str) {
        let message = format!("`{key}` has no effect");
        self.push_once(Code::NoEffect, at, message, why, cure);
    }

    fn name_servers(&mut self, dns: &View<'_>) -> Vec<SocketAddr> {
        self.addresses_of_name_servers(&dns.items(&top::dns::SERVERS))
    }

    fn no_listener(&mut self, written: &SourceTree) {
        let top = self.top();
        let some = top
            .written(&top::SITE)
            .is_some_and(|sites| !sites.value.is_empty())
            || [top.written(&top::TCP), top.written(&top::TUNNEL)]
                .into_iter()
                .flatten()
                .any(|tables| !tables.value.is_empty());
        // A section of another name was meant to serve something.
        let has = top.has(&top::SITE) || top.has(&top::TCP) || top.has(&top::TUNNEL);
        let meant = has || self.root.strange.tables;
        if some || self.report.has_errors() && meant {
            return;
        }
        let message = "nothing would be served";
        let why = format!(
            "{} has neither a [site] nor a [tcp] table",
            written.main.name.display()
        );
        self.report
            .push(Code::NoListener, message, why, FIRST_LINES);
    }

    /// Warns of a share of each client that is not less than what all have together.
    fn unreached_limit(&mut self, limits: &ProcessLimits) {
        let section = self.top().section(&top::LIMITS);
        let per_client = section.key_at(&top::limits::PER_CLIENT);
        if let (Some(all), Some(one), Some(at)) =
            (limits.connections, limits.per_client, per_client)
            && one >= all
        {
            let why = "`connections` lets no more in, of all clients together";
            self.no_effect(
                "per_client",
                at,
                why,
                "write a smaller number, or remove it",
            );
        }
    }

    /// Warns of keys at the top that no table uses.
    fn without_effect(&mut self, config: &Config) {
        if self.report.has_errors() {
            return;
        }
        let (sites, tunnels) = (&config.sites, &config.tunnels);
        let no_http = sites.is_empty() && tunnels.is_empty();
        let mut relays = config.tcp.iter().flat_map(Tcp::relays);
        let no_tls = relays.all(|relay| relay.tls.is_none())
            && tunnels.iter().all(|tunnel| tunnel.tls.is_none())
            && sites.iter().all(|site| site.tls.is_none());
        let no_acme = managed(&config.tcp, sites)
            .all(|managed| !matches!(managed.issuer, CertIssuer::Acme(_)));
        let protocols = sites.iter().map(|site| &site.protocols);
        let protocols = protocols.chain(tunnels.iter().map(|tunnel| &tunnel.protocols));
        let no_http2 = protocols
            .flatten()
            .all(|protocol| *protocol == Protocol::Http1);
        let mut endpoints = config.pools.iter().flat_map(|pool| &pool.endpoints);
        let services = endpoints.any(|endpoint| matches!(endpoint.addr, EndpointAddr::Srv(_)));
        // Sites believe the forwarding fields of trusted proxies.
        let mut headers = config.tcp.iter().map(|tcp| tcp.accept_proxy);
        let none_trusted = no_http && headers.all(|accept| accept == AcceptProxy::Never);
        let unused = "no listener uses it";
        let for_sites = "it is for [site] tables; remove it";
        let keys = [
            (
                top::TLS.row(),
                no_tls,
                unused,
                "write tls = {} in a [site] or [tcp] table, or remove [tls]",
            ),
            (
                top::ACME.row(),
                no_acme,
                "no table on TLS takes its certificates from it",
                "write a host: [site.\"app.example.com\"], or remove it",
            ),
            (top::PORTS.row(), sites.is_empty(), unused, for_sites),
            (top::RATES.row(), no_http, unused, for_sites),
            (top::HTTP2.row(), no_http, unused, for_sites),
            (
                top::HTTP2.row(),
                !no_http && no_http2,
                "no site speaks HTTP/2",
                "write protocols = [\"http1\", \"h2c\"] in a [site] table without TLS, or remove it",
            ),
            (
                top::DNS.row(),
                !services,
                "no endpoint is a service",
                "it is for endpoints such as \"srv:_app._tcp.example.internal\"; remove it",
            ),
            (
                top::TRUSTED.row(),
                none_trusted,
                unused,
                "write accept_proxy = \"optional\" in a [tcp] table, or remove it",
            ),
        ];
        for (key, is_unused, why, cure) in keys {
            if let (Some(at), true) = (self.top().place_of(key), is_unused) {
                self.no_effect(key.name, at, why, cure);
            }
        }
    }
}

/// The first lines to write, for a file that listens nowhere.
pub(crate) const FIRST_LINES: &str = "begin with\n\
    [acme]\n\
    [site.\"app.example.com\"]\n\
    proxy = \"127.0.0.1:3000\"";

/// What the tables say about certificates that come by themselves.
fn managed<'a>(tcp: &'a [Tcp], sites: &'a [HostedSite]) -> impl Iterator<Item = &'a ManagedCerts> {
    let relays = tcp.iter().flat_map(Tcp::relays);
    let tls = relays.map(|relay| &relay.tls);
    let all = tls.chain(sites.iter().map(|site| &site.tls));
    all.flatten().filter_map(|tls| tls.managed.as_ref())
}

fn metrics(top: &View<'_>) -> Option<Metrics> {
    let long = top.section(&top::METRICS);
    let at = match top.get(&top::METRICS) {
        ShortOrLong::Short(at) => at?,
        ShortOrLong::Long(_) => long.get(&top::metrics::AT)?,
    };
    Some(Metrics {
        at,
        hosts: long.list(&top::metrics::HOSTS),
    })
}

fn admin(top: &View<'_>) -> Option<AdminSocket> {
    let long = top.section(&top::ADMIN);
    let at = match top.get(&top::ADMIN) {
        Some(ShortOrLong::Short(at)) => Some(at?),
        Some(ShortOrLong::Long(_)) => long.get(&top::admin::AT),
        None => None,
    };
    Some(AdminSocket {
        at,
        group: long.get(&top::admin::GROUP),
        mode: long.get(&top::admin::MODE),
    })
}

fn workers(top: &View<'_>) -> Workers {
    let count = top.get(&top::WORKERS).and_then(NonZeroUsize::new);
    count.map_or(Workers::Auto, Workers::Count)
}

fn rates(rates: &View<'_>) -> MinRates {
    MinRates {
        min_in: rates.get(&rate_keys::MIN_IN),
        min_out: rates.get(&rate_keys::MIN_OUT),
        grace: rates.get(&rate_keys::GRACE),
    }
}

fn ports(ports: &View<'_>) -> Ports {
    Ports {
        http: ports.get(&port_keys::HTTP),
        https: ports.get(&port_keys::HTTPS),
    }
}

fn drain(drain: &View<'_>) -> Drain {
    Drain {
        delay: drain.get(&top::drain::DELAY),
        deadline: drain.get(&top::drain::DEADLINE),
        change: drain.get(&top::drain::CHANGE),
    }
}

fn limits(limits: &View<'_>) -> ProcessLimits {
    ProcessLimits {
        connections: limits.get(&top::limits::CONNECTIONS),
        per_client: limits.get(&top::limits::PER_CLIENT),
        handshakes: limits.get(&top::limits::HANDSHAKES),
        memory: limits.get(&top::limits::MEMORY),
        head: limits.get(&top::limits::HEAD),
        fields: limits.get(&top::limits::FIELDS),
        requests: limits.get(&top::limits::REQUESTS),
    }
}

fn timeouts(timeouts: &View<'_>) -> Timeouts {
    Timeouts {
        handshake: timeouts.get(&timeout_keys::HANDSHAKE),
        head: timeouts.get(&timeout_keys::HEAD),
        idle: timeouts.get(&timeout_keys::IDLE),
        connect: timeouts.get(&timeout_keys::CONNECT),
        response: timeouts.get(&timeout_keys::RESPONSE),
        tunnel_idle: timeouts.get(&timeout_keys::TUNNEL_IDLE),
    }
}

fn socket(socket: &View<'_>) -> SocketOptions {
    SocketOptions {
        backlog: socket.get(&top::socket::BACKLOG),
        fast_open: socket.get(&top::socket::FAST_OPEN),
        keepalive: socket.get(&top::socket::KEEPALIVE),
    }
}

#[cfg(test)]
mod tests;
