//! Pools as they run: endpoints that all tables share, members, TLS to endpoints, and health
//! checks.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_config as config;
use lockgate_config::Config;
use lockgate_limits::MemberIndex;
use lockgate_net::proxy_protocol::{ProxiedAddresses, Tlvs, encode_v1, encode_v2};
use lockgate_net::tls::Connector;
use lockgate_proxy::error_response::ErrorPage;
use lockgate_rules::ProxyVersion;
use lockgate_upstream::{
    Affinity, Balance, Endpoint, EndpointAddress, Member, Pool, Sessions, Settings, Sticky,
};

use super::{MistakeLog, tls};
use crate::prober::{Check, CheckKind, HttpCheck, Prober, TcpCheck};
use crate::resolver::EndpointResolver;

/// The pools that a table uses, made when the first table names them.
#[derive(Default)]
pub(super) struct AssembledPools {
    /// Each pool by its number in the configuration; `None` for one with a mistake.
    made: HashMap<usize, Option<Arc<Pool>>>,
    /// Tables with the same endpoint share its counts and its `max`.
    endpoints: HashMap<config::EndpointAddr, Arc<Endpoint>>,
    pub(super) all: Vec<Arc<Pool>>,
    /// TLS to endpoints, with the name of the pool that it is for.
    pub(super) connectors: Vec<(String, Arc<Connector>)>,
    pub(super) resolver: EndpointResolver,
    pub(super) prober: Prober,
}

impl AssembledPools {
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
            .and_then(|written| self.make(mistakes, written, user));
        self.made.insert(number, made.clone());
        made
    }

    fn make(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        written: &config::EndpointPool,
        user: &str,
    ) -> Option<Arc<Pool>> {
        let name = self.name(written, user);
        let connector = match &written.tls {
            None => None,
            Some(tls) => Some(self.connector(mistakes, &name, tls)?),
        };
        let check = match &written.health {
            None => None,
            Some(health) => {
                Some(self.check(mistakes, &name, written, health, connector.as_ref())?)
            }
        };
        let (mut members, mut services) = (Vec::new(), Vec::new());
        for one in &written.endpoints {
            let address = match &one.addr {
                config::EndpointAddr::Ip(address) => {
                    (address.ip().to_string(), EndpointAddress::Ip(*address))
                }
                config::EndpointAddr::Unix(path) => {
                    (String::new(), EndpointAddress::Unix(path.clone()))
                }
                config::EndpointAddr::Name { host, port } => (
                    host.clone(),
                    EndpointAddress::Name(self.resolver.register(host, *port)),
                ),
                config::EndpointAddr::Srv(name) => {
                    services.push((name, MemberIndex::new(members.len()), one.backup));
                    members.extend(
                        self.resolver
                            .service(name, one.max)
                            .into_iter()
                            .map(vacant_member),
                    );
                    continue;
                }
            };
            let member = Member::new(self.endpoint(one, address), u32::from(one.weight));
            members.push(if one.backup {
                member.as_backup()
            } else {
                member
            });
        }
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
        let settings = settings(&name, written, &members);
        let pool = Arc::new(Pool::new(members, balance, connector, settings));
        for (name, first, backup) in services {
            self.resolver.add_pool(name, &pool, first, backup);
        }
        if let Some(check) = check {
            self.prober.watch(&pool, check);
        }
        self.all.push(Arc::clone(&pool));
        Some(pool)
    }

    /// Its own name, or that of the first table that uses it: no two pools have the same name,
    /// since metrics tell pools apart by it.
    fn name(&self, written: &config::EndpointPool, user: &str) -> String {
        let taken = |name: &str| self.all.iter().any(|known| known.settings.name == name);
        let name = written.name.as_deref().unwrap_or(user);
        if !taken(name) {
            return name.to_owned();
        }
        (2..)
            .map(|number| format!("{name} {number}"))
            .find(|name| !taken(name))
            .unwrap_or_default()
    }

    fn connector(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        pool: &str,
        written: &config::UpstreamTls,
    ) -> Option<Arc<Connector>> {
        let connector = tls::connector(mistakes, written)?;
        self.connectors
            .push((pool.to_owned(), Arc::clone(&connector)));
        Some(connector)
    }

    fn check(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        name: &str,
        pool: &config::EndpointPool,
        written: &config::HealthSettings,
        own: Option<&Arc<Connector>>,
    ) -> Option<Check> {
        let tls = match &written.tls {
            None => None,
            Some(tls) if pool.tls.as_ref() == Some(tls) => own.cloned(),
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

    fn endpoint(
        &mut self,
        written: &config::WeightedEndpoint,
        (host, address): (String, EndpointAddress),
    ) -> Arc<Endpoint> {
        if let Some(known) = self.endpoints.get(&written.addr) {
            return Arc::clone(known);
        }
        let endpoint = Arc::new(Endpoint::new(
            written.addr.to_string(),
            host,
            address,
            written.max,
        ));
        self.endpoints
            .insert(written.addr.clone(), Arc::clone(&endpoint));
        endpoint
    }
}

/// A member without a record so far, which is never chosen until it has one.
fn vacant_member(endpoint: Arc<Endpoint>) -> Member {
    let member = Member::new(endpoint, 1).as_backup();
    member.mark_down();
    member
}

fn settings(name: &str, written: &config::EndpointPool, members: &[Member]) -> Settings {
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
            Some(config::EndpointChoice::Session) => Some(Affinity::Session(Sessions::default())),
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
