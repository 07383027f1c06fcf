//! From checked tables to what will run: defaults, inheritance and what keys mean together.
//!
//! Does not look at the form of values: `check` has.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::address::EndpointAddr;
use crate::check::{Absolute, Checked, Checker, Listening, Table, Value};
use crate::codes::Code;
use crate::document::{self, Syntax};
use crate::environment::Environment;
use crate::include::Written;
use crate::keys::{self, Key, Unset};
use crate::model::{
    AccessLog, Cidr, Config, Drain, Level, Limits, ListenAddr, Log, LogFormat, LogTarget, Rotate, Socket,
    Tcp, Timeouts, Workers,
};
use crate::place::{At, Source};
use crate::report::Report;

mod tcp;
mod tls;

/// A table with the tables that it is merged over, key by key, and the defaults beneath them.
#[derive(Clone)]
struct View<'a> {
    keys: &'static [Key],
    layers: Vec<&'a Table>,
}

/// What resolving needs at every step.
struct Resolver<'a> {
    env: &'a Environment,
    report: &'a mut Report,
    root: &'a Table,
}

/// Turns the top table into a configuration. It means something only when the report has no errors.
pub(crate) fn resolve(root: &Table, written: &Written, env: &Environment, report: &mut Report) -> Config {
    let mut resolver = Resolver { env, report, root };
    let top = View { keys: keys::ROOT, layers: vec![root] };
    let trusted = resolver.trusted(&top);
    let timeouts = timeouts(&top.section("timeouts"));
    let mut config = Config {
        workers: workers(&top),
        user: top.text("user"),
        state: top.path("state"),
        metrics: top.listener("metrics"),
        access_log: resolver.access_log(&top),
        log: log(&top),
        drain: drain(&top.section("drain")),
        limits: limits(&top.section("limits")),
        socket: socket(&top.section("socket")),
        tcp: resolver.tcp(&trusted, timeouts),
        trusted,
        timeouts,
    };
    resolver.one_max(&mut config.tcp);
    if written.syntax == Syntax::Whole {
        resolver.no_listener(written);
        resolver.same_address(config.metrics.as_ref());
        resolver.without_effect(&config);
    }
    config
}

impl Resolver<'_> {
    fn listening(&self) -> &[Listening] {
        match self.root.entries.get("tcp") {
            Some(Checked { value: Value::ByAddress(listening), .. }) => listening,
            _ => &[],
        }
    }

    fn trusted(&self, top: &View<'_>) -> Vec<Cidr> {
        let network = |item: Checked| if let Value::Network(cidr) = item.value { Some(cidr) } else { None };
        top.list("trusted").into_iter().filter_map(network).collect()
    }

    fn access_log(&mut self, top: &View<'_>) -> Option<AccessLog> {
        let short = top.value("access_log");
        if matches!(short, Value::Bool(false)) {
            return None;
        }
        let long = top.section("access_log");
        let to = match short {
            Value::Table(_) => log_target(long.value("to")),
            short => log_target(short),
        };
        let rotate = match long.value("rotate") {
            Value::Table(_) => {
                let rotate = long.section("rotate");
                Some(Rotate { size: rotate.size("size"), keep: rotate.number("keep") })
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
        Some(AccessLog { to, mask_ip: long.on("mask_ip"), rotate })
    }

    fn no_listener(&mut self, written: &Written) {
        if !self.listening().is_empty() || self.report.has_errors() && self.root.entries.contains_key("tcp") {
            return;
        }
        let message = "nothing would be served";
        let why = format!("{} has no [tcp] table", written.main.name.display());
        self.report.push(Code::NoListener, message, why, FIRST_LINES);
    }

    /// An endpoint's `max` holds for the process: whatever table it was written in, it holds in all of them.
    fn one_max(&mut self, tables: &mut [Tcp]) {
        let mut first: HashMap<EndpointAddr, (usize, At)> = HashMap::new();
        for endpoint in tables.iter().flat_map(|tcp| &tcp.upstream.endpoints) {
            let Some(max) = endpoint.max else { continue };
            match first.get(&endpoint.addr) {
                None => {
                    first.insert(endpoint.addr.clone(), (max, endpoint.at.clone()));
                }
                Some((other, _)) if *other == max => {}
                Some((other, at)) => {
                    let message = format!("{} has another `max` already", endpoint.addr);
                    let why = "it is counted for the process";
                    let cure = format!("write one of {other} and {max}, in one place or in both");
                    let texts = (message, why, cure);
                    self.report.push_pair(Code::OtherMax, &endpoint.at, texts, (at, "here"));
                }
            }
        }
        for endpoint in tables.iter_mut().flat_map(|tcp| &mut tcp.upstream.endpoints) {
            endpoint.max = first.get(&endpoint.addr).map(|(max, _)| *max);
        }
    }

    /// Two tables, or a table and the metrics, that cannot both be bound; the later one is marked.
    fn same_address(&mut self, metrics: Option<&ListenAddr>) {
        let mut bound: Vec<(ListenAddr, At)> = Vec::new();
        if let (Some(metrics), Some(at)) = (metrics, self.root.key_places.get("metrics")) {
            bound.push((metrics.clone(), at.clone()));
        }
        let mut tables: Vec<_> =
            self.listening().iter().map(|one| (one.addr.clone(), one.at.clone())).collect();
        tables.sort_by_key(|(_, at)| at.rank());
        // A conflict needs the same port or path, so only those are compared.
        let mut by_port: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        bound.extend(tables);
        for (index, (addr, at)) in bound.iter().enumerate() {
            let rivals = by_port.entry(port_or_path(addr)).or_default();
            let first =
                rivals.iter().find_map(|rival| bound.get(*rival).filter(|first| first.0.conflicts(addr)));
            if let Some((_, first)) = first {
                let (first, second) = if first.rank() > at.rank() { (at, first) } else { (first, at) };
                let message = "two listeners have the same address";
                let cure = "give one of them another port, or merge the two tables";
                let texts = (message, "it is bound already", cure);
                self.report.push_pair(Code::SameAddress, second, texts, (first, "by this one"));
            }
            rivals.push(index);
        }
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
        if let (Some(at), true) = (places.get("tls"), config.tcp.iter().all(|tcp| tcp.tls.is_none())) {
            warn(self.report, at, "tls", "write tls = {} in a [tcp] table, or remove [tls]");
        }
        let never = |tcp: &Tcp| tcp.accept_proxy == crate::model::AcceptProxy::Never;
        if let (Some(at), true) = (places.get("trusted"), config.tcp.iter().all(never)) {
            warn(
                self.report,
                at,
                "trusted",
                "write accept_proxy = \"optional\" in a [tcp] table, or remove it",
            );
        }
    }
}

fn port_or_path(addr: &ListenAddr) -> String {
    match addr {
        ListenAddr::All(port) => port.to_string(),
        ListenAddr::Ip(addr) => addr.port().to_string(),
        ListenAddr::Unix(path) => path.to_string_lossy().into_owned(),
    }
}

/// What is shown to somebody whose file listens nowhere.
pub(crate) const FIRST_LINES: &str = "begin with\n\
    [tcp.\":8443\"]\n\
    tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }\n\
    proxy = \"127.0.0.1:3000\"\n\
    proxy_protocol = \"v2\"   # if the application reads it";

fn workers(top: &View<'_>) -> Workers {
    match top.value("workers") {
        Value::Integer(count) => {
            let count = usize::try_from(count).ok().and_then(NonZeroUsize::new);
            count.map_or(Workers::Auto, Workers::Count)
        }
        _ => Workers::Auto,
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
    Log { level, format: if long.word("format") == "json" { LogFormat::Json } else { LogFormat::Text } }
}

fn log_target(value: Value) -> LogTarget {
    match value {
        Value::Path(path) => LogTarget::File(path),
        Value::Word("stderr") => LogTarget::Stderr,
        _ => LogTarget::Stdout,
    }
}

fn drain(drain: &View<'_>) -> Drain {
    Drain { delay: drain.duration("delay"), deadline: drain.duration("deadline") }
}

fn limits(limits: &View<'_>) -> Limits {
    Limits {
        connections: limits.count("connections"),
        per_client: limits.count("per_client"),
        handshakes: limits.number("handshakes"),
    }
}

fn timeouts(timeouts: &View<'_>) -> Timeouts {
    Timeouts {
        handshake: timeouts.duration("handshake"),
        connect: timeouts.duration("connect"),
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

impl<'a> View<'a> {
    /// What was written, in the first layer that has the key; nothing when it was a mistake.
    fn written(&self, name: &str) -> Option<Checked> {
        let found = self.layers.iter().find_map(|layer| layer.entries.get(name))?;
        if matches!(found.value, Value::Invalid) { None } else { Some(found.clone()) }
    }

    /// What was written, or the default.
    fn value(&self, name: &str) -> Value {
        self.written(name).map_or_else(|| default(self.keys, name), |checked| checked.value)
    }

    /// The table under a key, every layer merged: `timeouts` of a listener over the global ones.
    fn section(&self, name: &str) -> View<'a> {
        let keys = keys::find(self.keys, name).and_then(|key| key.kind.table()).unwrap_or(&[]);
        let inner = |layer: &&'a Table| match layer.entries.get(name) {
            Some(Checked { value: Value::Table(table), .. }) => Some(table),
            _ => None,
        };
        View { keys, layers: self.layers.iter().filter_map(inner).collect() }
    }

    fn duration(&self, name: &str) -> Duration {
        self.limit(name).unwrap_or_default()
    }

    /// A duration that may be off.
    fn limit(&self, name: &str) -> Option<Duration> {
        if let Value::Duration(duration) = self.value(name) { Some(duration) } else { None }
    }

    /// A number that may be a word instead.
    fn count(&self, name: &str) -> Option<usize> {
        if let Value::Integer(count) = self.value(name) { usize::try_from(count).ok() } else { None }
    }

    /// A number; `keys` keeps it within the range of the type.
    fn number<N: TryFrom<u64> + Default>(&self, name: &str) -> N {
        match self.value(name) {
            Value::Integer(number) => N::try_from(number).unwrap_or_default(),
            _ => N::default(),
        }
    }

    fn size(&self, name: &str) -> u64 {
        if let Value::Size(size) = self.value(name) { size } else { 0 }
    }

    fn on(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Bool(true))
    }

    fn word(&self, name: &str) -> &'static str {
        if let Value::Word(word) = self.value(name) { word } else { "" }
    }

    fn text(&self, name: &str) -> Option<String> {
        if let Value::Text(text) = self.value(name) { Some(text) } else { None }
    }

    fn path(&self, name: &str) -> Option<std::path::PathBuf> {
        if let Value::Path(path) = self.value(name) { Some(path) } else { None }
    }

    fn listener(&self, name: &str) -> Option<ListenAddr> {
        if let Value::Listener(addr) = self.value(name) { Some(addr) } else { None }
    }

    fn list(&self, name: &str) -> Vec<Checked> {
        if let Value::List(items) = self.value(name) { items } else { Vec::new() }
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let text = |item: Checked| if let Value::Text(text) = item.value { Some(text) } else { None };
        self.list(name).into_iter().filter_map(text).collect()
    }
}

/// The default in the table of keys, read by the same checker as what users write.
fn default(keys: &'static [Key], name: &str) -> Value {
    let mut report = Report::new();
    keys::find(keys, name).map_or(Value::Invalid, |key| default_of(key, &mut report))
}

/// The same, with what is wrong with it: nothing, as a test makes sure.
fn default_of(key: &Key, report: &mut Report) -> Value {
    let Unset::Is(toml) = key.default else { return Value::Invalid };
    let text = format!("value = {toml}");
    let source = Arc::new(Source { name: key.name.into(), dir: "/".into(), order: 0, text });
    let (branch, syntax) = document::parse(&source, &Environment::none(), report);
    let mut checker = Checker { report, syntax, absolute: Absolute::default() };
    branch
        .entries
        .get("value")
        .map_or(Value::Invalid, |entry| checker.value(&key.kind, &entry.item, key.name))
}

#[cfg(test)]
mod tests;
