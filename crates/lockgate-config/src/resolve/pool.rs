//! `[pool.NAME]` tables, and the pools that are made of addresses written inline.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use lockgate_rules::{Eject, IdleSettings, Queue, Retry};

use crate::codes::Code;
use crate::keys::pool::{self, BalanceMethod, balance, eject, idle, queue, retry};
use crate::keys::route::proxy;
use crate::keys::tcp::{Destination, endpoint};
use crate::keys::{ConfigKey, tls, top};
use crate::model::{
    Answer, AuthMethod, Config, EndpointAddr, EndpointChoice, EndpointPool, Protocol, RouteAction,
    SiteRoute, UpstreamTls, WeightedEndpoint,
};
use crate::source::SourceSpan;
use crate::spelling::nearest;
use crate::table::{CheckedTable, PlacedValue};
use crate::values::{Items, Keyed, PoolOrEndpoint, ShortOrLong, StickyKey, TableName};

use super::{Resolver, View};

/// All pools, while tables still add theirs.
#[derive(Default)]
pub(super) struct Pools {
    pub(super) all: Vec<Arc<EndpointPool>>,
    /// The pools by name; `None` for one with a mistake.
    names: BTreeMap<String, Option<usize>>,
    /// A pool of nothing but defaults, once there is one: it is the same for thousands.
    plain: Option<EndpointPool>,
}

impl Resolver<'_> {
    /// Every named pool, before those of tables.
    pub(super) fn named_pools(&mut self) {
        for one in self.root.value(&top::POOL).into_iter().flatten() {
            let pool = self.named_pool(one);
            let index = pool.map(|pool| {
                self.pools.all.push(Arc::new(pool));
                self.pools.all.len() - 1
            });
            self.pools.names.insert(one.name.clone(), index);
        }
    }

    fn named_pool(&mut self, one: &Keyed<TableName>) -> Option<EndpointPool> {
        let view = View::of(&one.table);
        let endpoints = self.endpoints(view.written(&pool::ENDPOINTS)?.value)?;
        let protocol = self.protocol(&view);
        let tls = view.written(&pool::TLS).map(|written| {
            let long = view.section(&pool::TLS);
            self.tls_to(&long, written.at, &endpoints, protocol)
        });
        let health = self.health(&view, &endpoints, protocol, tls.as_ref());
        let balance = match view.get(&pool::BALANCE) {
            Some(ShortOrLong::Long(_)) => self.affinity(&view),
            Some(ShortOrLong::Short(BalanceMethod::P2c)) => Some(EndpointChoice::P2c),
            Some(ShortOrLong::Short(BalanceMethod::Least)) => Some(EndpointChoice::Least),
            Some(ShortOrLong::Short(BalanceMethod::RoundRobin)) => Some(EndpointChoice::RoundRobin),
            None => None,
        };
        Some(EndpointPool {
            name: Some(one.name.clone()),
            balance,
            health: health.map(Box::new),
            tls,
            proxy_protocol: view.get(&pool::PROXY_PROTOCOL),
            maintenance: match view.written(&pool::MAINTENANCE) {
                Some(written) => self.maintenance(&view, written.at).map(Box::new),
                None => None,
            },
            protocol: protocol?,
            endpoints,
            ..unnamed(&view, &one.at)
        })
    }

    /// The choice of an endpoint by a property of clients; `None` if it is unclear.
    fn affinity(&mut self, view: &View<'_>) -> Option<EndpointChoice> {
        let (long, at) = (
            view.section(&pool::BALANCE),
            view.written(&pool::BALANCE)?.at,
        );
        match (long.written(&balance::HASH), long.written(&balance::STICKY)) {
            (Some(hash), Some(sticky)) => {
                let texts = (
                    "both `hash` and `sticky`",
                    "only one of them can choose a client's endpoint",
                    "keep one",
                );
                self.report
                    .push_pair(Code::Excluded, sticky.at, texts, (hash.at, "here"));
                None
            }
            (Some(hash), None) => Some(EndpointChoice::Hash(hash.value.clone())),
            (None, Some(sticky)) => Some(match sticky.value {
                StickyKey::Cookie(name) => EndpointChoice::Sticky(name.clone()),
                StickyKey::TlsSession => EndpointChoice::Session,
            }),
            (None, None) if !long.broken(&[balance::HASH.row(), balance::STICKY.row()]) => {
                let message = "neither `hash` nor `sticky`";
                let why = "one of them chooses a client's endpoint";
                let cure = "add hash = \"client\" or sticky = \"cookie:lg\"";
                self.report
                    .push_at(Code::MissingKey, at, message, why, cure);
                None
            }
            (None, None) => None,
        }
    }

    /// The pool of a `proxy`, of which `long` is the table; nothing when it was a mistake.
    pub(super) fn proxy(
        &mut self,
        written: PlacedValue<'_, ShortOrLong<Destination>>,
        long: &View<'_>,
    ) -> Option<usize> {
        let to = match written.value {
            ShortOrLong::Short(destination) => {
                return self.destination_pool(destination, written.at);
            }
            ShortOrLong::Long(_) => long.written(&proxy::TO)?,
        };
        if let Destination::One(PoolOrEndpoint::Pool(name)) = to.value {
            self.beside_a_pool(long, name);
            return self.named_pool_index(name, to.at);
        }
        let endpoints = self.destination(to.value, to.at)?;
        let protocol = self.protocol(long);
        let tls = long.written(&proxy::TLS).map(|written| {
            let tls = long.section(&proxy::TLS);
            self.tls_to(&tls, written.at, &endpoints, protocol)
        });
        let pool = EndpointPool {
            protocol: protocol?,
            tls,
            proxy_protocol: long.get(&proxy::PROXY_PROTOCOL),
            ..self.unnamed_pool(endpoints, to.at)
        };
        Some(self.add(pool))
    }

    /// The pool for a name, an address or a list of addresses; `None` for a mistake.
    pub(super) fn destination_pool(
        &mut self,
        destination: &Destination,
        at: &SourceSpan,
    ) -> Option<usize> {
        if let Destination::One(PoolOrEndpoint::Pool(name)) = destination {
            return self.named_pool_index(name, at);
        }
        let endpoints = self.destination(destination, at)?;
        let pool = self.unnamed_pool(endpoints, at);
        Some(self.add(pool))
    }

    /// The endpoints that are written in the place of a pool.
    fn destination(
        &mut self,
        destination: &Destination,
        at: &SourceSpan,
    ) -> Option<Vec<WeightedEndpoint>> {
        match destination {
            Destination::One(PoolOrEndpoint::Pool(_)) => None,
            Destination::One(PoolOrEndpoint::Endpoint(addr)) => Some(vec![plain(addr, at)]),
            Destination::Many(items) => self.endpoints(items),
        }
    }

    /// A list of endpoints; nothing when one of them was a mistake.
    fn endpoints(
        &mut self,
        items: &Items<ShortOrLong<EndpointAddr>>,
    ) -> Option<Vec<WeightedEndpoint>> {
        let each = items.iter().map(|item| match item.value.as_ref()? {
            ShortOrLong::Short(addr) => Some(plain(addr, &item.at)),
            ShortOrLong::Long(table) => long_endpoint(table),
        });
        let endpoints = each.collect::<Option<Vec<_>>>()?;
        let mut known: HashMap<&EndpointAddr, &SourceSpan> = HashMap::new();
        for WeightedEndpoint { addr, at, .. } in &endpoints {
            if let Some(first) = known.insert(addr, at) {
                let message = format!("{addr} is in this pool already");
                let why = "it would be the same endpoint";
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
            let why = "each record of the service has a weight of its own";
            self.no_effect("weight", &one.at, why, "remove it");
        }
        if let (Some(first), true) = (endpoints.first(), endpoints.iter().all(|one| one.backup)) {
            let why = "every endpoint is a backup, so that none is preferred";
            let cure = "remove it from the endpoints that are to be used first";
            self.no_effect("backup", &first.at, why, cure);
        }
        Some(endpoints)
    }

    /// A pool of nothing but defaults.
    fn unnamed_pool(&mut self, endpoints: Vec<WeightedEndpoint>, at: &SourceSpan) -> EndpointPool {
        let plain = self
            .pools
            .plain
            .get_or_insert_with(|| unnamed(&View::default(), at));
        EndpointPool {
            at: at.clone(),
            endpoints,
            ..plain.clone()
        }
    }

    fn add(&mut self, pool: EndpointPool) -> usize {
        self.pools.all.push(Arc::new(pool));
        self.pools.all.len() - 1
    }

    fn named_pool_index(&mut self, name: &str, at: &SourceSpan) -> Option<usize> {
        if let Some(found) = self.pools.names.get(name) {
            return *found;
        }
        // A pool with a wrong name has been reported.
        if self.root.is_invalid(&top::POOL) {
            return None;
        }
        let names = || self.pools.names.keys().map(String::as_str);
        let cure = match nearest(name, names()) {
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

    /// Reports settings of a named pool that are repeated where the pool is used.
    fn beside_a_pool(&mut self, long: &View<'_>, name: &str) {
        for key in [
            proxy::TLS.row(),
            proxy::PROTOCOL.row(),
            proxy::PROXY_PROTOCOL.row(),
        ] {
            let (other, Some(at)) = (key.name, long.value_at(key)) else {
                continue;
            };
            let message = format!("`{other}` beside a pool");
            let cure = format!("write it in [pool.{}]", header(name));
            self.report.push_at(
                Code::Excluded,
                at,
                message,
                "the pool sets it for all tables that use the pool",
                cure,
            );
        }
    }

    /// TLS to endpoints, as the table `view` has it, which stands at `at`.
    pub(super) fn tls_to(
        &mut self,
        view: &View<'_>,
        at: &SourceSpan,
        endpoints: &[WeightedEndpoint],
        protocol: Option<Protocol>,
    ) -> UpstreamTls {
        let name = view.get(&tls::upstream::NAME);
        let nameless = endpoints
            .iter()
            .find_map(|endpoint| Some((endpoint, endpoint.addr.has_no_name()?)));
        if let (None, Some((endpoint, why))) = (&name, nameless) {
            let message = "there is no name to verify";
            let cure = "write tls = { name = \"app.internal\" }: the name in its certificate";
            let texts = (message, "TLS to an upstream is always verified", cure);
            self.report
                .push_pair(Code::NoName, at, texts, (&endpoint.at, why));
        }
        UpstreamTls {
            name,
            ca: view.get(&tls::upstream::CA),
            alpn: self.offered(view, protocol),
            at: at.clone(),
        }
    }

    fn maintenance(&mut self, view: &View<'_>, at: &SourceSpan) -> Option<Answer> {
        let long = view.section(&pool::MAINTENANCE);
        let answer = Answer {
            status: long.get(&pool::maintenance::STATUS),
            body: long.get(&pool::maintenance::BODY),
            media_type: long.get(&pool::maintenance::TYPE),
        };
        let body = long.written(&pool::maintenance::BODY);
        self.answer(answer, body.map_or(at, |body| body.at))
    }

    /// A fixed answer with its body at `at`; nothing when it contradicts itself.
    pub(super) fn answer(&mut self, answer: Answer, at: &SourceSpan) -> Option<Answer> {
        if matches!(answer.status, 204 | 205 | 304) && !answer.body.is_empty() {
            let message = format!("an answer with {} has no body", answer.status);
            self.report.push_at(
                Code::Excluded,
                at,
                message,
                "",
                "remove the body, or take another status",
            );
            return None;
        }
        Some(answer)
    }

    /// An endpoint's `max` holds for the process: written in one table, it holds in all of them.
    pub(super) fn share_max(&mut self, pools: &mut [Arc<EndpointPool>]) {
        let mut first: HashMap<EndpointAddr, (usize, SourceSpan)> = HashMap::new();
        let mut written: Vec<&WeightedEndpoint> =
            pools.iter().flat_map(|pool| &pool.endpoints).collect();
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
        for endpoint in pools
            .iter_mut()
            .flat_map(|pool| &mut Arc::make_mut(pool).endpoints)
        {
            endpoint.max = first.get(&endpoint.addr).map(|(max, _)| *max);
        }
    }

    /// Warns about pools that no table uses.
    pub(super) fn unused_pools(&mut self, config: &Config) {
        if self.report.has_errors() {
            return;
        }
        let routes = config.sites.iter().flat_map(|site| &site.routes);
        let used_by = |route: &SiteRoute| {
            let proxied = if let RouteAction::Proxy(pool) = route.action {
                Some(pool)
            } else {
                None
            };
            let asked = if let Some(AuthMethod::Forward(auth)) = &route.rules.auth {
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

/// A pool without endpoints, with the default settings of every pool.
fn unnamed(view: &View<'_>, at: &SourceSpan) -> EndpointPool {
    EndpointPool {
        name: None,
        at: at.clone(),
        endpoints: Vec::new(),
        protocol: Protocol::Http1,
        balance: None,
        health: None,
        eject: unless_false(view, &pool::EJECT).map(|eject| Eject {
            errors: eject.get(&eject::ERRORS),
            time: eject.get(&eject::FOR),
            statuses: eject.list(&eject::STATUSES).into_iter().flatten().collect(),
        }),
        slow_start: view.get(&pool::SLOW_START),
        queue: queue_of(&view.section(&pool::QUEUE)),
        idle: idle_of(&view.section(&pool::IDLE)),
        retry: unless_false(view, &pool::RETRY).map_or(Retry::NEVER, |retry| Retry {
            times: retry.get(&retry::TIMES),
            budget: retry.get(&retry::BUDGET),
        }),
        tls: None,
        proxy_protocol: None,
        maintenance: None,
    }
}

/// The table of a key that is on unless it is `false`.
fn unless_false<'a>(view: &View<'a>, key: &ConfigKey<ShortOrLong<()>>) -> Option<View<'a>> {
    let off = matches!(view.get(key), Some(ShortOrLong::Short(())));
    (!off).then(|| view.section(key))
}

fn queue_of(queue: &View<'_>) -> Queue {
    Queue {
        max: queue.get(&queue::MAX),
        wait: queue.get(&queue::WAIT),
    }
}

fn idle_of(idle: &View<'_>) -> IdleSettings {
    IdleSettings {
        max: idle.get(&idle::MAX),
        age: idle.get(&idle::FOR),
        requests: idle.get(&idle::REQUESTS),
        lifetime: idle.get(&idle::LIFETIME),
    }
}

/// A name in the notation of headers.
fn header(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

fn plain(addr: &EndpointAddr, at: &SourceSpan) -> WeightedEndpoint {
    WeightedEndpoint {
        addr: addr.clone(),
        weight: 1,
        max: None,
        backup: false,
        at: at.clone(),
    }
}

fn long_endpoint(table: &CheckedTable) -> Option<WeightedEndpoint> {
    let view = View::of(table);
    let addr = view.written(&endpoint::ADDR)?;
    Some(WeightedEndpoint {
        weight: view.get(&endpoint::WEIGHT),
        max: view.get(&endpoint::MAX),
        backup: view.get(&endpoint::BACKUP),
        ..plain(addr.value, addr.at)
    })
}
