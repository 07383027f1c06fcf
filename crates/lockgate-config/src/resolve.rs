//! From checked tables to what will run: defaults, inheritance and what keys mean together.
//!
//! Does not look at the form of values: `check` has.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use crate::check::{Checked, Keyed, Table, Value};
use crate::codes::Code;
use crate::document::Syntax;
use crate::environment::Environment;
use crate::include::Written;
use crate::keys;
use crate::model::{
    AcceptProxy, AccessFormat, AccessLog, Cidr, Config, Drain, Endpoint, EndpointAddr, Level,
    Limits, Log, LogFormat, LogTarget, Memory, Metrics, Ports, Protocol, Rates, RedirectMap,
    Rotate, Site, SiteLog, Socket, Tcp, Timeouts, Workers,
};
use crate::place::At;
use crate::report::Report;

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

/// What resolving needs at every step.
struct Resolver<'a> {
    env: &'a Environment,
    report: &'a mut Report,
    root: &'a Table,
    pools: Pools,
    /// Where services that are asked about requests were written, and their pools.
    forwards: Vec<((usize, usize, usize), Option<usize>)>,
    /// Files of redirects that were read; `None` where they have mistakes.
    redirect_maps: HashMap<PathBuf, Option<Arc<RedirectMap>>>,
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
    rates: Rates,
    ports: Ports,
}

/// Turns the top table into a configuration. It means something only when the report has no errors.
pub(crate) fn resolve(
    root: &Table,
    written: &Written,
    env: &Environment,
    report: &mut Report,
) -> Config {
    let top = View {
        keys: keys::ROOT,
        layers: vec![root],
    };
    let shared = Shared {
        trusted: top.networks("trusted"),
        timeouts: timeouts(&top.section("timeouts")),
        rates: rates(&top.section("rates")),
        ports: ports(&top.section("ports")),
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
    let access_log = resolver.access_log(&top);
    resolver.shared_log = access_log.clone();
    let tcp = resolver.tcp();
    let tunnels = resolver.tunnels();
    let sites = resolver.sites();
    let mut config = Config {
        workers: workers(&top),
        user: top.text("user"),
        state: top.path("state"),
        metrics: metrics(&top),
        access_log,
        site_logs: std::mem::take(&mut resolver.site_logs),
        log: log(&top),
        drain: drain(&top.section("drain")),
        limits: limits(&top.section("limits")),
        name_servers: resolver.name_servers(&top.section("dns")),
        socket: socket(&top.section("socket")),
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

impl Resolver<'_> {
    /// The tables of a section.
    fn tables(&self, section: &str) -> Vec<Keyed> {
        match self.root.entries.get(section) {
            Some(Checked {
                value: Value::Tables(tables),
                ..
            }) => tables.clone(),
            _ => Vec::new(),
        }
    }

    fn access_log(&mut self, top: &View<'_>) -> Option<AccessLog> {
        let short = top.value("access_log");
        if matches!(short, Value::Bool(false)) {
            return None;
        }
        let long = top.section("access_log");
        let (format, to) = match short {
            Value::Table(_) => (long.word("format"), log_target(long.value("to"))),
            Value::Log(format, to) => (format, log_target(*to)),
            short => ("json", log_target(short)),
        };
        let format = match format {
            "combined" => AccessFormat::Combined,
            "logfmt" => AccessFormat::Logfmt,
            _ => AccessFormat::Json,
        };
        let rotate = match long.value("rotate") {
            Value::Table(_) => {
                let rotate = long.section("rotate");
                Some(Rotate {
                    size: rotate.size("size"),
                    keep: rotate.number("keep"),
                })
            }
            _ => None,
        };
        if let (Some(_), LogTarget::Stdout | LogTarget::Stderr, Some(written)) =
            (rotate, &to, long.written("rotate"))
        {
            let message = "there is no file to rotate";
            let cure = "give `to` a file, or remove `rotate`";
            self.report.push_at(
                Code::NothingToRotate,
                &written.at,
                message,
                "the log goes to a stream",
                cure,
            );
        }
        Some(AccessLog {
            to,
            format,
            sample: long.number("sample"),
            mask_ip: long.on("mask_ip"),
            rotate,
        })
    }

    /// That of a site: the same as another's is the same log.
    fn site_log(&mut self, view: &View<'_>) -> SiteLog {
        let Some(written) = view.written("access_log") else {
            return SiteLog::Shared;
        };
        let Some(log) = self.access_log(view) else {
            return SiteLog::Off;
        };
        if self.shared_log.as_ref() == Some(&log) {
            return SiteLog::Shared;
        }
        if let Some(same) = self.site_logs.iter().position(|(known, _)| *known == log) {
            return SiteLog::Own(same);
        }
        let places = self.root.key_places.get("access_log");
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
                        .push_pair(Code::Disagree, &written.at, texts, (&at, "that one"));
                }
                None => self
                    .report
                    .push_at(Code::Disagree, &written.at, texts.0, texts.1, texts.2),
            }
            return SiteLog::Off;
        }
        self.site_logs.push((log, written.at));
        SiteLog::Own(self.site_logs.len() - 1)
    }

    fn name_servers(&mut self, dns: &View<'_>) -> Vec<SocketAddr> {
        let mut servers = Vec::new();
        for item in dns.list("servers") {
            match item.value {
                Value::Endpoint(EndpointAddr::Ip(address)) => servers.push(address),
                Value::Endpoint(_) => {
                    let message = "a name server is not called by its name";
                    let why = "nobody could be asked for it";
                    self.report.push_at(
                        Code::BadAddress,
                        &item.at,
                        message,
                        why,
                        "write \"10.0.0.53:53\"",
                    );
                }
                _ => {}
            }
        }
        servers
    }

    fn no_listener(&mut self, written: &Written) {
        let has = |section: &str| self.root.entries.contains_key(section);
        const SECTIONS: [&str; 3] = ["site", "tcp", "tunnel"];
        let some = SECTIONS
            .iter()
            .any(|section| !self.tables(section).is_empty());
        // A section of another name was meant to serve something.
        let meant = SECTIONS.into_iter().any(has) || self.root.strange.tables;
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
        let places = &self.root.key_places;
        let plain = |site: &Site| site.tls.is_none();
        let mut relays = config.tcp.iter().flat_map(|tcp| tcp.relays());
        let no_tls = relays.all(|relay| relay.tls.is_none())
            && config.tunnels.iter().all(|tunnel| tunnel.tls.is_none())
            && config.sites.iter().all(plain);
        if let (Some(at), true) = (places.get("tls"), no_tls) {
            warn(
                self.report,
                at,
                "tls",
                "write tls = {} in a [site] or [tcp] table, or remove [tls]",
            );
        }
        let no_http = config.sites.is_empty() && config.tunnels.is_empty();
        for (name, unused) in [
            ("ports", config.sites.is_empty()),
            ("rates", no_http),
            ("http2", no_http),
        ] {
            if let (Some(at), true) = (places.get(name), unused) {
                warn(self.report, at, name, "it is for [site] tables; remove it");
            }
        }
        let sites = config.sites.iter().map(|site| &site.protocols);
        let mut protocols = sites
            .chain(config.tunnels.iter().map(|tunnel| &tunnel.protocols))
            .flatten();
        if let (Some(at), false, true) = (
            places.get("http2"),
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
            places.get("dns"),
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
        if let (Some(at), true) = (places.get("trusted"), nobody) {
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
    let long = top.section("metrics");
    let at = match top.value("metrics") {
        Value::Listener(at) => at,
        Value::Table(_) => long.listener("at")?,
        _ => return None,
    };
    Some(Metrics {
        at,
        hosts: long.texts("hosts"),
    })
}

fn workers(top: &View<'_>) -> Workers {
    match top.value("workers") {
        Value::Integer(count) => {
            let count = usize::try_from(count).ok().and_then(NonZeroUsize::new);
            count.map_or(Workers::Auto, Workers::Count)
        }
        _ => Workers::Auto,
    }
}

fn rates(rates: &View<'_>) -> Rates {
    Rates {
        min_in: rates.rate("min_in"),
        min_out: rates.rate("min_out"),
        grace: rates.duration("grace"),
    }
}

fn ports(ports: &View<'_>) -> Ports {
    Ports {
        http: ports.number("http"),
        https: ports.number("https"),
    }
}

fn log(top: &View<'_>) -> Log {
    let long = top.section("log");
    let level = match top.written("log").map(|checked| checked.value) {
        Some(short @ Value::Word(_)) => short,
        _ => long.value("level"),
    };
    let level = match level {
        Value::Word("error") => Level::Error,
        Value::Word("warn") => Level::Warn,
        Value::Word("debug") => Level::Debug,
        _ => Level::Info,
    };
    Log {
        level,
        format: if long.word("format") == "json" {
            LogFormat::Json
        } else {
            LogFormat::Text
        },
    }
}

fn log_target(value: Value) -> LogTarget {
    match value {
        Value::Path(path) => LogTarget::File(path),
        Value::Word("stderr") => LogTarget::Stderr,
        _ => LogTarget::Stdout,
    }
}

fn drain(drain: &View<'_>) -> Drain {
    Drain {
        delay: drain.duration("delay"),
        deadline: drain.duration("deadline"),
    }
}

fn limits(limits: &View<'_>) -> Limits {
    Limits {
        connections: limits.count("connections"),
        per_client: limits.count("per_client"),
        handshakes: limits.number("handshakes"),
        memory: match limits.value("memory") {
            Value::Size(bytes) => Memory::Bytes(bytes),
            Value::Word("off") => Memory::Off,
            _ => Memory::Auto,
        },
        head: limits.size("head"),
        fields: limits.number("fields"),
        requests: limits
            .count("requests")
            .and_then(|count| u64::try_from(count).ok()),
    }
}

fn timeouts(timeouts: &View<'_>) -> Timeouts {
    Timeouts {
        handshake: timeouts.duration("handshake"),
        head: timeouts.duration("head"),
        idle: timeouts.duration("idle"),
        connect: timeouts.duration("connect"),
        response: timeouts.limit("response"),
        tunnel_idle: timeouts.duration("tunnel_idle"),
    }
}

fn socket(socket: &View<'_>) -> Socket {
    Socket {
        backlog: socket.number("backlog"),
        fast_open: socket.on("fast_open"),
        keepalive: socket.limit("keepalive"),
    }
}

#[cfg(test)]
mod tests;
