//! `[pool.NAME]` tables, and the pools that are made of addresses written inline.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::check::{Checked, Keyed, Table, Value};
use crate::codes::Code;
use crate::keys::{self, Key};
use crate::model::{
    Action, Answer, Auth, Balance, CaSource, Config, Eject, Endpoint, EndpointAddr, Idle, Pool,
    Protocol, ProxyVersion, Queue, Retry, Route, UpstreamTls,
};
use crate::newcomers;
use crate::place::At;

use super::{Resolver, View, health};

/// All pools, while tables still add theirs.
#[derive(Default)]
pub(super) struct Pools {
    pub(super) all: Vec<Pool>,
    /// Where a name leads; nowhere when there was a mistake in the pool.
    names: BTreeMap<String, Option<usize>>,
}

impl Resolver<'_> {
    /// Every named pool, before those of tables.
    pub(super) fn named_pools(&mut self) {
        for one in self.tables("pool") {
            let pool = self.named_pool(&one);
            let index = pool.map(|pool| {
                self.pools.all.push(pool);
                self.pools.all.len() - 1
            });
            self.pools.names.insert(one.name, index);
        }
    }

    fn named_pool(&mut self, one: &Keyed) -> Option<Pool> {
        let view = View {
            keys: pool_keys(),
            layers: vec![&one.table],
        };
        let endpoints = self.endpoints(&view.written("endpoints")?)?;
        let protocol = self.protocol(&view);
        let tls = self.tls_to(&view, &endpoints, protocol);
        let health = self.health(&view, &endpoints, protocol, tls.as_ref());
        let balance = match view.value("balance") {
            Value::Table(_) => self.affinity(&view),
            Value::Word("p2c") => Some(Balance::P2c),
            Value::Word("least") => Some(Balance::Least),
            Value::Word("round-robin") => Some(Balance::RoundRobin),
            _ => None,
        };
        Some(Pool {
            name: Some(one.name.clone()),
            balance,
            health,
            tls,
            proxy_protocol: view.proxy_version("proxy_protocol"),
            maintenance: match view.written("maintenance") {
                Some(written) => self.answer(&view.section("maintenance"), &written.at),
                None => None,
            },
            protocol: protocol?,
            ..unnamed(&view, endpoints, &one.at)
        })
    }

    /// How clients come to belong to an endpoint; nothing when that is not certain.
    fn affinity(&mut self, view: &View<'_>) -> Option<Balance> {
        let (long, at) = (view.section("balance"), view.written("balance")?.at);
        match (long.written("hash"), long.written("sticky")) {
            (Some(hash), Some(sticky)) => {
                let texts = (
                    "both `hash` and `sticky`",
                    "one of them says where a client belongs",
                    "keep one",
                );
                self.report
                    .push_pair(Code::Excluded, &sticky.at, texts, (&hash.at, "here"));
                None
            }
            (
                Some(Checked {
                    value: Value::HashKey(key),
                    ..
                }),
                None,
            ) => Some(Balance::Hash(key)),
            (
                None,
                Some(Checked {
                    value: Value::Text(cookie),
                    ..
                }),
            ) => Some(Balance::Sticky(cookie)),
            (
                None,
                Some(Checked {
                    value: Value::Word(_),
                    ..
                }),
            ) => Some(Balance::Session),
            (None, None) if !long.broken(&["hash", "sticky"]) => {
                let cure = "add hash = \"client\" or sticky = \"cookie:lg\"";
                let message = "neither `hash` nor `sticky`";
                self.report.push_at(
                    Code::MissingKey,
                    &at,
                    message,
                    "the table says nothing",
                    cure,
                );
                None
            }
            _ => None,
        }
    }

    /// The pool of the `proxy` in a table; nothing when it was a mistake.
    pub(super) fn proxy(&mut self, view: &View<'_>) -> Option<usize> {
        let written = view.written("proxy")?;
        match &written.value {
            Value::Table(_) => {
                let long = view.section("proxy");
                let to = long.written("to")?;
                if let Value::Pool(name) = &to.value {
                    self.beside_a_pool(&long, name);
                    return self.pool_called(name, &to.at);
                }
                let endpoints = self.endpoints(&to)?;
                let protocol = self.protocol(&long);
                let tls = self.tls_to(&long, &endpoints, protocol);
                let proxy_protocol = long.proxy_version("proxy_protocol");
                let pool = Pool {
                    protocol: protocol?,
                    tls,
                    proxy_protocol,
                    ..anonymous(endpoints, &to.at)
                };
                Some(self.add(pool))
            }
            _ => self.leads_to(&written),
        }
    }

    /// The pool that a name, an address or a list of addresses stands for; nothing when it was a
    /// mistake.
    pub(super) fn leads_to(&mut self, written: &Checked) -> Option<usize> {
        if let Value::Pool(name) = &written.value {
            return self.pool_called(name, &written.at);
        }
        let pool = anonymous(self.endpoints(written)?, &written.at);
        Some(self.add(pool))
    }

    /// One endpoint or a list; nothing when one of them was a mistake.
    fn endpoints(&mut self, written: &Checked) -> Option<Vec<Endpoint>> {
        let endpoints: Vec<Endpoint> = match &written.value {
            Value::List(items) => items.iter().map(endpoint).collect::<Option<_>>()?,
            _ => vec![endpoint(written)?],
        };
        let mut known: HashMap<&EndpointAddr, &At> = HashMap::new();
        for Endpoint { addr, at, .. } in &endpoints {
            if let Some(first) = known.insert(addr, at) {
                let message = format!("{addr} is in this pool already");
                let why = "another endpoint would be no other one";
                let cure = format!(
                    "remove it; for a larger share write {{ addr = \"{addr}\", weight = 2 }}"
                );
                self.report.push_pair(
                    Code::SameEndpoint,
                    at,
                    (&message, why, &cure),
                    (first, "here"),
                );
            }
        }
        for one in endpoints
            .iter()
            .filter(|one| matches!(one.addr, EndpointAddr::Srv(_)) && one.weight != 1)
        {
            let message = "`weight` has no effect";
            let why = "each record of the service has a weight of its own";
            self.report
                .push_at(Code::NoEffect, &one.at, message, why, "remove it");
        }
        if let (Some(first), true) = (endpoints.first(), endpoints.iter().all(|one| one.backup)) {
            let message = "`backup` has no effect";
            let why = "every endpoint is one, so there is nobody to wait for";
            let cure = "remove it from those that are to be used first";
            self.report
                .push_at(Code::NoEffect, &first.at, message, why, cure);
        }
        Some(endpoints)
    }

    fn add(&mut self, pool: Pool) -> usize {
        self.pools.all.push(pool);
        self.pools.all.len() - 1
    }

    fn pool_called(&mut self, name: &str, at: &At) -> Option<usize> {
        if let Some(found) = self.pools.names.get(name) {
            return *found;
        }
        // A pool whose name was a mistake has been reported.
        if matches!(
            self.root.entries.get("pool"),
            Some(Checked {
                value: Value::Invalid,
                ..
            })
        ) {
            return None;
        }
        let names = || self.pools.names.keys().map(String::as_str);
        let cure = match newcomers::nearest(name, names()) {
            Some(near) => format!("did you mean \"pool:{near}\"?"),
            None => format!(
                "write [pool.{}]\nendpoints = [\"10.0.0.1:8080\"]",
                header(name)
            ),
        };
        let message = format!("there is no pool `{name}`");
        self.report.push_at(
            Code::UnknownPool,
            at,
            message,
            "no [pool] table has this name",
            cure,
        );
        None
    }

    /// What a named pool says itself cannot be said again where it is used.
    fn beside_a_pool(&mut self, long: &View<'_>, name: &str) {
        for other in ["tls", "protocol", "proxy_protocol"] {
            let Some(written) = long.written(other) else {
                continue;
            };
            let message = format!("`{other}` beside a pool");
            let cure = format!("write it in [pool.{}]", header(name));
            self.report.push_at(
                Code::Excluded,
                &written.at,
                message,
                "the pool says it for all its users",
                cure,
            );
        }
    }

    /// TLS of a table that has endpoints.
    pub(super) fn tls_to(
        &mut self,
        view: &View<'_>,
        endpoints: &[Endpoint],
        protocol: Option<Protocol>,
    ) -> Option<UpstreamTls> {
        let written = view.written("tls")?;
        if !matches!(written.value, Value::Table(_)) {
            return None;
        }
        let (view, at) = (view.section("tls"), &written.at);
        let name = view.text("name");
        let nameless = endpoints.iter().find_map(|endpoint| match endpoint.addr {
            EndpointAddr::Unix(_) => Some((endpoint, "a Unix socket has no name")),
            // RFC 6186 §6 and its like: who answers for the records may name anybody.
            EndpointAddr::Srv(_) => Some((endpoint, "the records of a service may name anybody")),
            EndpointAddr::Ip(_) | EndpointAddr::Name { .. } => None,
        });
        if let (None, Some((endpoint, why))) = (&name, nameless) {
            let message = "there is no name to verify";
            let cure = "write tls = { name = \"app.internal\" }: the name in its certificate";
            let texts = (message, "TLS to an upstream is always verified", cure);
            self.report
                .push_pair(Code::NoName, at, texts, (&endpoint.at, why));
        }
        let ca = match view.value("ca") {
            Value::Path(path) => CaSource::File(path),
            _ => CaSource::System,
        };
        Some(UpstreamTls {
            name,
            ca,
            alpn: self.offered(&view, protocol),
            at: at.clone(),
        })
    }

    /// A fixed answer; nothing when it contradicts itself.
    pub(super) fn answer(&mut self, view: &View<'_>, at: &At) -> Option<Answer> {
        let answer = Answer {
            status: view.number("status"),
            body: view.text("body").unwrap_or_default(),
            media_type: view.text("type").unwrap_or_default(),
        };
        if matches!(answer.status, 204 | 205 | 304) && !answer.body.is_empty() {
            let message = format!("an answer with {} has no body", answer.status);
            let at = view
                .written("body")
                .map_or(at.clone(), |written| written.at);
            self.report.push_at(
                Code::Excluded,
                &at,
                message,
                "",
                "remove the body, or take another status",
            );
            return None;
        }
        Some(answer)
    }

    /// An endpoint's `max` holds for the process: whatever table it was written in, it holds in all
    /// of them.
    pub(super) fn one_max(&mut self, pools: &mut [Pool]) {
        let mut first: HashMap<EndpointAddr, (usize, At)> = HashMap::new();
        let mut written: Vec<&Endpoint> = pools.iter().flat_map(|pool| &pool.endpoints).collect();
        written.sort_by_key(|endpoint| endpoint.at.rank());
        for endpoint in written {
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
                    self.report
                        .push_pair(Code::OtherMax, &endpoint.at, texts, (at, "here"));
                }
            }
        }
        for endpoint in pools.iter_mut().flat_map(|pool| &mut pool.endpoints) {
            endpoint.max = first.get(&endpoint.addr).map(|(max, _)| *max);
        }
    }

    /// A pool that no table leads to.
    pub(super) fn unused_pools(&mut self, config: &Config) {
        if self.report.has_errors() {
            return;
        }
        let routes = config.sites.iter().flat_map(|site| &site.routes);
        let used_by = |route: &Route| {
            let proxied = if let Action::Proxy(pool) = route.action {
                Some(pool)
            } else {
                None
            };
            let asked = if let Some(Auth::Forward(auth)) = &route.rules.auth {
                Some(auth.pool)
            } else {
                None
            };
            proxied.into_iter().chain(asked)
        };
        let relays = config.tcp.iter().flat_map(|tcp| tcp.relays());
        let used: BTreeSet<usize> = routes
            .flat_map(used_by)
            .chain(relays.map(|relay| relay.pool))
            .collect();
        for (index, pool) in config.pools.iter().enumerate() {
            let (Some(name), false) = (&pool.name, used.contains(&index)) else {
                continue;
            };
            let message = format!("nothing uses the pool `{name}`");
            let cure =
                format!("write proxy = \"pool:{name}\" in a [site] or [tcp] table, or remove it");
            self.report.push_at(
                Code::UnusedPool,
                &pool.at,
                message,
                "its endpoints get no traffic",
                cure,
            );
        }
    }
}

impl View<'_> {
    pub(super) fn proxy_version(&self, name: &str) -> Option<ProxyVersion> {
        match self.value(name) {
            Value::Word("v1") => Some(ProxyVersion::V1),
            Value::Word("v2") => Some(ProxyVersion::V2),
            _ => None,
        }
    }
}

fn pool_keys() -> &'static [Key] {
    keys::find(keys::ROOT, "pool")
        .and_then(|key| key.kind.table())
        .unwrap_or(&[])
}

/// A pool of nothing but defaults.
fn anonymous(endpoints: Vec<Endpoint>, at: &At) -> Pool {
    unnamed(
        &View {
            keys: pool_keys(),
            layers: Vec::new(),
        },
        endpoints,
        at,
    )
}

/// What every pool has, with or without a table.
fn unnamed(view: &View<'_>, endpoints: Vec<Endpoint>, at: &At) -> Pool {
    let (queue, idle, retry) = (
        view.section("queue"),
        view.section("idle"),
        view.section("retry"),
    );
    let eject = view.section("eject");
    Pool {
        name: None,
        at: at.clone(),
        endpoints,
        protocol: Protocol::Http1,
        balance: None,
        health: None,
        eject: match view.value("eject") {
            Value::Bool(false) => None,
            _ => Some(Eject {
                errors: eject.number("errors"),
                time: eject.duration("for"),
                statuses: eject
                    .list("statuses")
                    .iter()
                    .filter_map(|item| health::range(&item.value))
                    .collect(),
            }),
        },
        slow_start: view.duration("slow_start"),
        queue: Queue {
            max: queue.number("max"),
            wait: queue.duration("wait"),
        },
        idle: Idle {
            max: idle.number("max"),
            age: idle.duration("for"),
            requests: idle.number("requests"),
        },
        retry: match view.value("retry") {
            Value::Bool(false) => None,
            _ => Some(Retry {
                times: retry.number("times"),
                budget: retry.number("budget"),
            }),
        },
        tls: None,
        proxy_protocol: None,
        maintenance: None,
    }
}

/// A name as it stands in a header.
fn header(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

fn endpoint(item: &Checked) -> Option<Endpoint> {
    match &item.value {
        Value::Endpoint(addr) => Some(Endpoint {
            addr: addr.clone(),
            weight: 1,
            max: None,
            backup: false,
            at: item.at.clone(),
        }),
        Value::Table(table) => {
            let addr = table.entries.get("addr")?;
            let Value::Endpoint(found) = &addr.value else {
                return None;
            };
            let max = number(table, "max").and_then(|max| usize::try_from(max).ok());
            let weight = number(table, "weight").and_then(|weight| u16::try_from(weight).ok());
            let backup = matches!(
                table.entries.get("backup"),
                Some(Checked {
                    value: Value::Bool(true),
                    ..
                })
            );
            let (addr, at) = (found.clone(), addr.at.clone());
            Some(Endpoint {
                addr,
                weight: weight.unwrap_or(1),
                max,
                backup,
                at,
            })
        }
        _ => None,
    }
}

fn number(table: &Table, name: &str) -> Option<u64> {
    match table.entries.get(name) {
        Some(Checked {
            value: Value::Integer(number),
            ..
        }) => Some(*number),
        _ => None,
    }
}
