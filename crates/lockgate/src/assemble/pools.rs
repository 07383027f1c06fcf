//! Pools as they run: endpoints that all tables share, members, TLS to endpoints, and health
//! checks.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use lockgate_config as config;
use lockgate_config::Config;
use lockgate_limits::{MemberIndex, clock};
use lockgate_net::proxy_protocol::{ProxiedAddresses, Tlvs, encode_v1, encode_v2};
use lockgate_net::tls::Connector;
use lockgate_proxy::error_response::ErrorPage;
use lockgate_rules::ProxyVersion;
use lockgate_upstream::{
    Affinity, Balance, CheckChange, Endpoint, EndpointAddress, Member, Pool, Sessions, Settings,
    Sticky,
};

use super::{MistakeLog, tls};
use crate::endpoint_changes::ChangedPools;
use crate::prober::{Check, CheckKind, HttpCheck, Prober, TcpCheck};
use crate::resolver::EndpointResolver;

/// The pools that a table uses, made when the first table names them.
pub(super) struct AssembledPools<'a> {
    previous: &'a ReusablePools,
    reusable: ReusablePools,
    /// Each pool by its number in the configuration; `None` for one with a mistake.
    made: HashMap<usize, Option<Arc<Pool>>>,
    pub(super) all: Vec<Arc<Pool>>,
    pub(super) successions: Vec<PoolSuccession>,
    /// The limits of endpoints that may be in use.
    maxima: Vec<(Arc<Endpoint>, Option<usize>)>,
    /// What operators have changed.
    pub(super) changes: ChangedPools,
    /// TLS to endpoints, with the name of the first pool that it is for.
    pub(super) connectors: Vec<(String, Arc<Connector>)>,
    pub(super) resolver: EndpointResolver,
    pub(super) prober: Prober,
}

/// The pools that the next assembly may take over, and what they are made of.
#[derive(Default)]
pub(super) struct ReusablePools {
    /// Tables with the same endpoint share its counts and its `max`.
    endpoints: HashMap<config::EndpointAddr, Arc<Endpoint>>,
    connectors: HashMap<ConnectorSettings, Arc<Connector>>,
    /// The pools with their settings, by name.
    pools: HashMap<String, ReusablePool>,
}

/// A pool and its settings.
type ReusablePool = (Arc<config::EndpointPool>, Arc<Pool>);

/// The settings of TLS to endpoints: name, authorities and protocols.
type ConnectorSettings = (Option<String>, config::AuthoritySource, Vec<String>);

/// A pool that takes the place of a running one of the same name with other settings.
pub(super) struct PoolSuccession {
    earlier: Arc<Pool>,
    pool: Arc<Pool>,
    checks: CheckChange,
}

impl PoolSuccession {
    /// Takes over the state of the running pool, as it is now.
    pub(super) fn complete(self) {
        self.pool.succeed(&self.earlier, self.checks, clock::now());
    }
}

impl<'a> AssembledPools<'a> {
    /// The pools of `config`, which may be those of `previous`.
    pub(super) fn after(previous: &'a ReusablePools, config: &Config) -> Self {
        let count = config.pools.len();
        let reusable = ReusablePools {
            endpoints: HashMap::with_capacity(count),
            connectors: HashMap::new(),
            pools: HashMap::with_capacity(count),
        };
        Self {
            previous,
            reusable,
            made: HashMap::with_capacity(count),
            all: Vec::with_capacity(count),
            successions: Vec::new(),
            maxima: Vec::new(),
            changes: ChangedPools::default(),
            connectors: Vec::new(),
            resolver: EndpointResolver::default(),
            prober: Prober::default(),
        }
    }

    /// The settings of a pool that was made, as it runs.
    pub(super) fn written(&self, pool: &Pool) -> Option<Arc<config::EndpointPool>> {
        let made = self.reusable.pools.get(&pool.settings.name);
        made.map(|(written, _)| Arc::clone(written))
    }

    /// What the next assembly may take over, and everything else.
    pub(super) fn into_parts(self) -> (ReusablePools, PoolParts) {
        let parts = PoolParts {
            all: self.all,
            successions: self.successions,
            maxima: self.maxima,
            connectors: self.connectors,
            resolver: self.resolver,
            prober: self.prober,
        };
        (self.reusable, parts)
    }

    /// The pool with this number, which is called `user` if it has no name of its own.
    pub(super) fn pool(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        config: &Config,
        number: usize,
        user: &str,
    ) -> Option<Arc<Pool>> {
        if let Some(made) = self.made.get(&number) {
            return made.clone();
        }
        let made = config
            .pools
            .get(number)
            .and_then(|written| self.make(mistakes, (config, written), user));
        self.made.insert(number, made.clone());
        made
    }

    fn make(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        (config, written): (&Config, &Arc<config::EndpointPool>),
        user: &str,
    ) -> Option<Arc<Pool>> {
        let name = self.name(written, user);
        let max = |addr: &config::EndpointAddr| max(config, addr);
        let written = &self.changes.change(&name, written, max);
        let connector = match &written.tls {
            None => None,
            Some(tls) => Some(self.connector(mistakes, &name, tls)?),
        };
        let check = match &written.health {
            None => None,
            Some(health) => Some(self.check(mistakes, &name, written, health)?),
        };
        let running = self.previous.pools.get(&name);
        let (members, services) = self.members(written, running);
        let same = running.filter(|(settings, pool)| {
            let has_member =
                |(own, theirs): (&Member, &Member)| Arc::ptr_eq(own.endpoint(), theirs.endpoint());
            let tls = |connector: &Option<Arc<Connector>>| connector.as_ref().map(Arc::as_ptr);
            settings == written
                && tls(&pool.tls) == tls(&connector)
                && pool.members().len() == members.len()
                && pool.members().iter().zip(&members).all(has_member)
        });
        let pool = match same {
            Some((_, pool)) => Arc::clone(pool),
            None => self.new_pool(&name, written, members, connector),
        };
        for (name, first, backup) in services {
            self.resolver.add_pool(name, &pool, first, backup);
        }
        if let Some(check) = check {
            self.prober.watch(&pool, check);
        }
        let kept = (Arc::clone(written), Arc::clone(&pool));
        self.reusable.pools.insert(name, kept);
        self.all.push(Arc::clone(&pool));
        Some(pool)
    }

    /// The members of a pool, and its services with the index of the first member of each.
    /// `running` is the pool that runs with its name.
    fn members<'w>(
        &mut self,
        written: &'w config::EndpointPool,
        running: Option<&ReusablePool>,
    ) -> (Vec<Member>, Vec<(&'w str, MemberIndex, bool)>) {
        let (mut members, mut services) = (Vec::new(), Vec::new());
        for one in &written.endpoints {
            let address = match &one.addr {
                config::EndpointAddr::Ip(address) => EndpointAddress::Ip(*address),
                config::EndpointAddr::Unix(path) => EndpointAddress::Unix(path.clone()),
                config::EndpointAddr::Name { host, port } => {
                    EndpointAddress::Name(self.resolver.register(host, *port))
                }
                config::EndpointAddr::Srv(name) => {
                    services.push((name.as_str(), MemberIndex::new(members.len()), one.backup));
                    let slots = self.resolver.service(name, one.max);
                    self.set_max(&slots, one.max);
                    let slots = slots.into_iter().map(vacant_member);
                    members.extend(slots.map(|slot| administered(slot, one, running)));
                    continue;
                }
            };
            let member = Member::new(self.endpoint(one, address), u32::from(one.weight));
            let member = if one.backup {
                member.as_backup()
            } else {
                member
            };
            members.push(administered(member, one, running));
        }
        (members, services)
    }

    /// A pool with these settings, which takes over the state of the running one of its name later.
    fn new_pool(
        &mut self,
        name: &str,
        written: &config::EndpointPool,
        members: Vec<Member>,
        connector: Option<Arc<Connector>>,
    ) -> Arc<Pool> {
        let balance = match written.balance {
            Some(config::EndpointChoice::P2c) => Some(Balance::LatencyAware),
            Some(config::EndpointChoice::Least) => Some(Balance::Least),
            Some(config::EndpointChoice::RoundRobin) => Some(Balance::RoundRobin),
            // For requests without an affinity to a member.
            None
            | Some(
                config::EndpointChoice::Hash(_)
                | config::EndpointChoice::Sticky(_)
                | config::EndpointChoice::Session,
            ) => None,
        };
        let running = self.previous.pools.get(name);
        let sessions = running.and_then(|(_, pool)| pool.settings.sessions());
        let settings = settings(name, written, &members, sessions);
        let pool = Arc::new(Pool::new(members, balance, connector, settings));
        if let Some((settings, earlier)) = running {
            let checks = if settings.health == written.health {
                CheckChange::Same
            } else {
                CheckChange::Other
            };
            self.successions.push(PoolSuccession {
                earlier: Arc::clone(earlier),
                pool: Arc::clone(&pool),
                checks,
            });
        }
        pool
    }

    /// Its own name, or that of the first table that uses it: no two pools have the same name,
    /// since metrics tell pools apart by it.
    fn name(&self, written: &config::EndpointPool, user: &str) -> String {
        let taken = |name: &str| self.reusable.pools.contains_key(name);
        let name = written.name.as_deref().unwrap_or(user);
        if !taken(name) {
            return name.to_owned();
        }
        (2..)
            .map(|number| format!("{name} {number}"))
            .find(|name| !taken(name))
            .unwrap_or_default()
    }

    /// TLS to endpoints; pools with the same settings share it.
    fn connector(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        pool: &str,
        written: &config::UpstreamTls,
    ) -> Option<Arc<Connector>> {
        let config::UpstreamTls {
            name,
            ca,
            alpn,
            at: _,
        } = written;
        let settings = (name.clone(), ca.clone(), alpn.clone());
        if let Some(known) = self.reusable.connectors.get(&settings) {
            return Some(Arc::clone(known));
        }
        let connector = match (self.previous.connectors.get(&settings), ca) {
            (Some(running), config::AuthoritySource::System) => Arc::clone(running),
            (running, _) => {
                // The running one reads the file again with the change of the configuration.
                let made = tls::connector(mistakes, written)?;
                running.map_or(made, Arc::clone)
            }
        };
        self.connectors
            .push((pool.to_owned(), Arc::clone(&connector)));
        self.reusable
            .connectors
            .insert(settings, Arc::clone(&connector));
        Some(connector)
    }

    fn check(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        name: &str,
        pool: &config::EndpointPool,
        written: &config::HealthSettings,
    ) -> Option<Check> {
        let tls = match &written.tls {
            None => None,
            Some(tls) => Some(self.connector(mistakes, name, tls)?),
        };
        let kind = match &written.probe {
            config::Probe::Grpc { service } => CheckKind::Grpc(service.clone()),
            config::Probe::Tcp { send, expect } => CheckKind::Tcp(TcpCheck {
                send: send.clone().into_bytes(),
                expect: expect.as_ref().map(|expect| expect.clone().into_bytes()),
            }),
            config::Probe::Http {
                path,
                method,
                expect,
                body,
            } => {
                let request = HttpCheck {
                    method: method.clone(),
                    path: path.clone(),
                    statuses: expect.clone(),
                    body: body.as_ref().map(|body| body.clone().into_bytes()),
                };
                match pool.protocol {
                    config::Protocol::Http1 => CheckKind::Http(request),
                    config::Protocol::H2 | config::Protocol::H2c => CheckKind::Http2(request),
                }
            }
        };
        let mut proxy_header = Vec::new();
        match pool.proxy_protocol {
            None => {}
            Some(ProxyVersion::V1) => encode_v1(&mut proxy_header, &ProxiedAddresses::Local),
            Some(ProxyVersion::V2) => encode_v2(
                &mut proxy_header,
                &ProxiedAddresses::Local,
                &Tlvs::default(),
            ),
        }
        Some(Check {
            kind,
            port: written.port,
            tls,
            proxy_header,
            every: written.every,
            timeout: written.timeout,
            fall: written.fall,
            rise: written.rise,
        })
    }

    /// Sets the limit of the endpoints of a service, unless another pool has set it.
    fn set_max(&mut self, slots: &[Arc<Endpoint>], max: Option<usize>) {
        let is_known = |slot: &Arc<Endpoint>| {
            let mut known = self.maxima.iter();
            known.any(|(known, _)| Arc::ptr_eq(known, slot))
        };
        if !slots.first().is_some_and(is_known) {
            let slots = slots.iter().map(|slot| (Arc::clone(slot), max));
            self.maxima.extend(slots);
        }
    }

    fn endpoint(
        &mut self,
        written: &config::WeightedEndpoint,
        address: EndpointAddress,
    ) -> Arc<Endpoint> {
        let addr = &written.addr;
        if let Some(known) = self.reusable.endpoints.get(addr) {
            return Arc::clone(known);
        }
        let running = self.previous.endpoints.get(addr);
        let endpoint = match running {
            Some(running) => {
                self.maxima.push((Arc::clone(running), written.max));
                Arc::clone(running)
            }
            None => {
                let host = match addr {
                    config::EndpointAddr::Ip(address) => address.ip().to_string(),
                    config::EndpointAddr::Name { host, .. } => host.clone(),
                    config::EndpointAddr::Unix(_) | config::EndpointAddr::Srv(_) => String::new(),
                };
                Arc::new(Endpoint::new(addr.to_string(), host, address, written.max))
            }
        };
        self.reusable
            .endpoints
            .insert(addr.clone(), Arc::clone(&endpoint));
        endpoint
    }
}

/// The pools of an assembly and all that belongs to them.
pub(super) struct PoolParts {
    pub(super) all: Vec<Arc<Pool>>,
    pub(super) successions: Vec<PoolSuccession>,
    pub(super) maxima: Vec<(Arc<Endpoint>, Option<usize>)>,
    pub(super) connectors: Vec<(String, Arc<Connector>)>,
    pub(super) resolver: EndpointResolver,
    pub(super) prober: Prober,
}

/// The member with the administrative state that the same endpoint has in the running pool, where its
/// settings there are the same.
fn administered(
    member: Member,
    written: &config::WeightedEndpoint,
    running: Option<&ReusablePool>,
) -> Member {
    let known = running.filter(|(settings, _)| settings.endpoints.contains(written));
    let known = known.and_then(|(_, pool)| {
        let mut members = pool.members().iter();
        members.find(|known| Arc::ptr_eq(known.endpoint(), member.endpoint()))
    });
    match known {
        Some(known) => member.administered_as(known),
        None => member,
    }
}

/// The limit of an endpoint, which holds in all pools.
fn max(config: &Config, addr: &config::EndpointAddr) -> Option<usize> {
    let mut endpoints = config.pools.iter().flat_map(|pool| &pool.endpoints);
    endpoints.find(|one| one.addr.is_same(addr))?.max
}

/// A member without a record so far, which is never chosen until it has one.
fn vacant_member(endpoint: Arc<Endpoint>) -> Member {
    let member = Member::new(endpoint, 1).as_backup();
    member.mark_down();
    member
}

/// The settings of a pool; `sessions` are those of the running pool of its name.
fn settings(
    name: &str,
    written: &config::EndpointPool,
    members: &[Member],
    sessions: Option<&Sessions>,
) -> Settings {
    let maintenance = written.maintenance.as_ref().map(|answer| {
        let body = answer.body.clone().into_bytes();
        (
            answer.status,
            ErrorPage {
                body,
                media_type: answer.media_type.clone(),
            },
        )
    });
    Settings {
        name: name.to_owned(),
        http2: written.protocol != config::Protocol::Http1,
        idle_settings: written.idle,
        retry: written.retry,
        affinity: match &written.balance {
            Some(config::EndpointChoice::Hash(key)) => Some(Affinity::Hash(key.clone())),
            Some(config::EndpointChoice::Session) => {
                let sessions = sessions.map_or_else(Sessions::default, Sessions::successor);
                Some(Affinity::Session(sessions))
            }
            Some(config::EndpointChoice::Sticky(cookie)) => {
                let labels = members
                    .iter()
                    .map(|member| member.endpoint().label.as_str());
                let pool = written.name.as_deref().unwrap_or(name);
                Some(Affinity::Sticky(Sticky::new(cookie, pool, labels)))
            }
            _ => None,
        },
        eject: written.eject,
        slow_start: written.slow_start.into(),
        queue: written.queue,
        proxy_protocol: written.proxy_protocol,
        maintenance,
    }
}
