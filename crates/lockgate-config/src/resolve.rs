//! From checked tables to what will run: defaults, inheritance and what keys mean together.
//!
//! Does not look at the form of values: `check` has.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use lockgate_rules::{AcceptProxy, Cidr, MinRates, SiteLog};

use crate::codes::Code;
use crate::document::Syntax;
use crate::environment::Environment;
use crate::include::Written;
use crate::keys::top::{self, access_log};
use crate::keys::{
    ports as port_keys, rates as rate_keys, site as site_keys, timeouts as timeout_keys,
};
use crate::model::{AccessFormat, AccessLog, Config, Drain, Endpoint, EndpointAddr, Limits, Log, LogTarget, Metrics, Ports, Protocol, RedirectFile, Rotate, Site, Socket, Tcp, Timeouts, Workers};
use crate::place::At;
use crate::report::Report;
use crate::values::{Form, Table};

use pool::Pools;
use view::View;

mod answers;
mod auth;
mod bindings;
mod content;
mod files;
mod health;
mod placeholders;
mod pool;
mod protocol;
mod redirects;
mod route;
mod shape;
mod site;
mod tcp;
mod tls;
mod tunnel;
mod view;

/// The form of a line and its place; nothing is no log.
type LogPlace = Option<(AccessFormat, LogTarget)>;

/// What resolving needs at every step.
struct Resolver<'a> {
    env: &'a Environment,
    report: &'a mut Report,
    root: &'a Table,
    pools: Pools,
    /// Where services that are asked about requests were written, and their pools.
    forwards: Vec<((usize, usize, usize), Option<usize>)>,
    /// Files of redirects that were read; `None` where they have mistakes.
    redirect_maps: HashMap<PathBuf, Option<Arc<RedirectFile>>>,
    /// Values by name, and whether something puts them in.
    value_names: BTreeMap<String, bool>,
    /// The access log of all, and those of sites.
    shared_log: Option<AccessLog>,
    site_logs: Vec<(AccessLog, At)>,
    /// What holds for every listener that says nothing else.
    shared: Shared,
}

/// The globals that tables inherit.
struct Shared {
    trusted: Vec<Cidr>,
    timeouts: Timeouts,
    rates: MinRates,
    ports: Ports,
}

/// Turns the top table into a configuration. It means something only when the report has no errors.
pub(crate) fn resolve(
    root: &Table,
    written: &Written,
    env: &Environment,
    report: &mut Report,
) -> Config {
    let top = View::of(root);
    let shared = Shared {
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
    let mut config = Config {
        workers: workers(&top),
        user: top.get(&top::USER),
        state: top.get(&top::STATE),
        metrics: metrics(&top),
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
    };
    resolver.one_max(&mut config.pools);
    if written.syntax == Syntax::Whole {
        resolver.no_listener(written);
        resolver.same_port();
        resolver.same_address(&config);
        resolver.unused_pools(&config);
        resolver.unused_values(&config.values);
        resolver.without_effect(&config);
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
    fn warned(&self, code: Code, at: &At) -> bool {
        self.report
            .iter()
            .any(|found| found.code() == code && found.at().map(At::rank) == Some(at.rank()))
    }

    /// Reports a mistake, but once at a place.
    fn push_once(
        &mut self,
        code: Code,
        at: &At,
        message: impl Into<String>,
        why: impl Into<String>,
        cure: impl Into<String>,
    ) {
        if !self.warned(code, at) {
            self.report.push_at(code, at, message, why, cure);
        }
    }

    fn access_log(&mut self, written: Form<LogPlace>, long: &View<'_>) -> Option<AccessLog> {
        let (format, to) = match written {
            Form::Short(None) => return None,
            Form::Short(Some(place)) => place,
            Form::Long(_) => (long.get(&access_log::FORMAT), long.get(&access_log::TO)),
        };
        let rotate = long.section(&access_log::ROTATE);
        let rotate = long.get(&access_log::ROTATE).is_long().then(|| Rotate {
            size: rotate.get(&top::rotate::SIZE),
            keep: rotate.get(&top::rotate::KEEP),
        });
        if let (Some(_), LogTarget::Stdout | LogTarget::Stderr, Some(written)) =
            (rotate, &to, long.written(&access_log::ROTATE))
        {
            let message = "there is no file to rotate";
            let why = "the log goes to a stream";
            let cure = "give `to` a file, or remove `rotate`";
            self.report
                .push_at(Code::NothingToRotate, written.at, message, why, cure);
        }
        Some(AccessLog {
            to,
            format,
            sample: long.get(&access_log::SAMPLE),
            mask_ip: long.get(&access_log::MASK_IP),
            rotate,
        })
    }

    /// That of a site: the same as another's is the same log.
    fn site_log(&mut self, view: &View<'_>) -> SiteLog {
        let Some(written) = view.written(&site_keys::ACCESS_LOG) else {
            return SiteLog::Shared;
        };
        let long = view.section(&site_keys::ACCESS_LOG);
        let Some(log) = self.access_log(written.value.clone(), &long) else {
            return SiteLog::Off;
        };
        if self.shared_log.as_ref() == Some(&log) {
            return SiteLog::Shared;
        }
        if let Some(same) = self.site_logs.iter().position(|(known, _)| *known == log) {
            return SiteLog::Own(same);
        }
        let places = self.root.key_at(&top::ACCESS_LOG);
        let shared = self.shared_log.as_ref().map(|shared| (shared, places));
        let others = self.site_logs.iter().map(|(known, at)| (known, Some(at)));
        let file = |to: &LogTarget| matches!(to, LogTarget::File(_));
        let rival = shared
            .into_iter()
            .chain(others)
            .find(|(known, _)| file(&log.to) && known.to == log.to);
        if let Some((_, at)) = rival {
            let texts = (
                "this file is written by another access log",
                "it has another format, sample, mask or rotation",
                "write the same in both, or give it a file of its own",
            );
            match at.cloned() {
                Some(at) => {
                    self.report
                        .push_pair(Code::Disagree, written.at, texts, (&at, "that one"));
                }
                None => self
                    .report
                    .push_at(Code::Disagree, written.at, texts.0, texts.1, texts.2),
            }
            return SiteLog::Off;
        }
        self.site_logs.push((log, written.at.clone()));
        SiteLog::Own(self.site_logs.len() - 1)
    }

    fn name_servers(&mut self, dns: &View<'_>) -> Vec<SocketAddr> {
        let mut servers = Vec::new();
        for (server, at) in dns.items(&top::dns::SERVERS).placed() {
            match server {
                EndpointAddr::Ip(address) => servers.push(*address),
                _ => {
                    let message = "a name server is not called by its name";
                    let why = "nobody could be asked for it";
                    self.report.push_at(
                        Code::BadAddress,
                        at,
                        message,
                        why,
                        "write \"10.0.0.53:53\"",
                    );
                }
            }
        }
        servers
    }

    fn no_listener(&mut self, written: &Written) {
        let top = self.top();
        let some = top
            .written(&top::SITE)
            .is_some_and(|sites| !sites.value.is_empty())
            || [top.written(&top::TCP), top.written(&top::TUNNEL)]
                .into_iter()
                .flatten()
                .any(|tables| !tables.value.is_empty());
        // A section of another name was meant to serve something.
        let has = top.mentions(&top::SITE) || top.mentions(&top::TCP) || top.mentions(&top::TUNNEL);
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

    fn without_effect(&mut self, config: &Config) {
        let warn = |report: &mut Report, at: &At, name: &str, cure: &str| {
            let message = format!("`{name}` has no effect");
            report.push_at(Code::NoEffect, at, message, "no listener uses it", cure);
        };
        if self.report.has_errors() {
            return;
        }
        let top = self.top();
        let plain = |site: &Site| site.tls.is_none();
        let mut relays = config.tcp.iter().flat_map(|tcp| tcp.relays());
        let no_tls = relays.all(|relay| relay.tls.is_none())
            && config.tunnels.iter().all(|tunnel| tunnel.tls.is_none())
            && config.sites.iter().all(plain);
        if let (Some(at), true) = (top.key_at(&top::TLS), no_tls) {
            warn(
                self.report,
                at,
                "tls",
                "write tls = {} in a [site] or [tcp] table, or remove [tls]",
            );
        }
        let no_http = config.sites.is_empty() && config.tunnels.is_empty();
        for (key, unused) in [
            (top::PORTS, config.sites.is_empty()),
            (top::RATES, no_http),
            (top::HTTP2, no_http),
        ] {
            if let (Some(at), true) = (top.key_at(&key), unused) {
                let cure = "it is for [site] tables; remove it";
                warn(self.report, at, key.row().name, cure);
            }
        }
        let sites = config.sites.iter().map(|site| &site.protocols);
        let mut protocols = sites
            .chain(config.tunnels.iter().map(|tunnel| &tunnel.protocols))
            .flatten();
        if let (Some(at), false, true) = (
            top.key_at(&top::HTTP2),
            no_http,
            protocols.all(|protocol| *protocol == Protocol::Http1),
        ) {
            let message = "`http2` has no effect";
            let cure = "write protocols = [\"http1\", \"h2c\"] in a [site] table without TLS, or remove it";
            self.report
                .push_at(Code::NoEffect, at, message, "no site speaks HTTP/2", cure);
        }
        let is_service = |endpoint: &Endpoint| matches!(endpoint.addr, EndpointAddr::Srv(_));
        if let (Some(at), false) = (
            top.key_at(&top::DNS),
            config
                .pools
                .iter()
                .flat_map(|pool| &pool.endpoints)
                .any(is_service),
        ) {
            let message = "`dns` has no effect";
            let cure = "it is for endpoints such as \"srv:_app._tcp.example.internal\"; remove it";
            self.report.push_at(
                Code::NoEffect,
                at,
                message,
                "no endpoint is a service",
                cure,
            );
        }
        // Sites believe the forwarding fields of whoever is trusted.
        let never = |tcp: &Tcp| tcp.accept_proxy == AcceptProxy::Never;
        let nobody = no_http && config.tcp.iter().all(never);
        if let (Some(at), true) = (top.key_at(&top::TRUSTED), nobody) {
            warn(
                self.report,
                at,
                "trusted",
                "write accept_proxy = \"optional\" in a [tcp] table, or remove it",
            );
        }
    }
}

/// What is shown to somebody whose file listens nowhere.
pub(crate) const FIRST_LINES: &str = "begin with\n\
    [site.\"app.example.com\"]\n\
    tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }\n\
    proxy = \"127.0.0.1:3000\"";

fn metrics(top: &View<'_>) -> Option<Metrics> {
    let long = top.section(&top::METRICS);
    let at = match top.get(&top::METRICS) {
        Form::Short(at) => at?,
        Form::Long(_) => long.get(&top::metrics::AT)?,
    };
    Some(Metrics {
        at,
        hosts: long.list(&top::metrics::HOSTS),
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

fn log(top: &View<'_>) -> Log {
    let long = top.section(&top::LOG);
    let short = top.get(&top::LOG);
    let level = short.as_ref().and_then(Form::short).copied();
    Log {
        level: level.unwrap_or_else(|| long.get(&top::log::LEVEL)),
        format: long.get(&top::log::FORMAT),
    }
}

fn drain(drain: &View<'_>) -> Drain {
    Drain {
        delay: drain.get(&top::drain::DELAY),
        deadline: drain.get(&top::drain::DEADLINE),
    }
}

fn limits(limits: &View<'_>) -> Limits {
    Limits {
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

fn socket(socket: &View<'_>) -> Socket {
    Socket {
        backlog: socket.get(&top::socket::BACKLOG),
        fast_open: socket.get(&top::socket::FAST_OPEN),
        keepalive: socket.get(&top::socket::KEEPALIVE),
    }
}

#[cfg(test)]
mod tests;
