//! The figures of the process as values, for the admin socket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockgate_certs::{CertId, CertKeeper, CertStatus};
use lockgate_limits::clock;
use lockgate_net::memory::{self, MemoryKind, MemoryLevel};
use lockgate_net::millis::Millis;
use lockgate_net::tls::{Acceptor, CertSummary};
use lockgate_proxy::access_log::Tails;
use lockgate_proxy::metrics::http::{EndpointCounts, OTHER, SiteCounts, SiteIndex};
use lockgate_upstream::{AdminMode, Condition, EndpointIndex, Member, Pool};

use super::Exposition;
use crate::configuration::Configuration;
use crate::prober::EndpointStatus;
use crate::views;

/// The counters of a listener.
#[derive(Debug)]
pub(crate) struct ListenerFigures {
    pub(crate) name: String,
    pub(crate) open: i64,
    pub(crate) accepted: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// A limit, and how much of it is used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) used: usize,
    pub(crate) size: usize,
}

/// The limits of the process.
#[derive(Debug)]
pub(crate) struct LimitFigures {
    pub(crate) connections: Usage,
    pub(crate) sockets: Usage,
    pub(crate) sockets_idle: usize,
    pub(crate) sockets_waiting: usize,
    pub(crate) handshakes: Usage,
    pub(crate) handshakes_waiting: usize,
    pub(crate) memory_used: usize,
    /// `None` without a limit.
    pub(crate) memory_size: Option<usize>,
    /// `enough`, `scarce` or `full`.
    pub(crate) memory_level: &'static str,
    /// Connected clients.
    pub(crate) clients: usize,
}

/// A site, or all requests without one.
#[derive(Debug)]
pub(crate) struct SiteFigures {
    pub(crate) name: String,
    pub(crate) counts: SiteCounts,
}

/// A pool.
#[derive(Debug)]
pub(crate) struct PoolFigures {
    pub(crate) name: String,
    /// The endpoints that operators have added.
    pub(crate) added: Vec<String>,
    /// The endpoints that operators have removed.
    pub(crate) removed: Vec<String>,
    pub(crate) endpoints: Vec<EndpointFigures>,
}

/// Whether an endpoint may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndpointCondition {
    Up,
    /// Its health checks fail.
    Down,
    /// It kept failing.
    Ejected,
    /// Others are preferred after a failure.
    Avoided,
}

impl EndpointCondition {
    /// The condition of a member at this time of the process's clock.
    pub(crate) fn of(member: &Member, now: Millis) -> Self {
        let endpoint = member.endpoint();
        if !member.is_up() {
            Self::Down
        } else if endpoint.is_ejected(now) {
            Self::Ejected
        } else if endpoint.is_out(now) {
            Self::Avoided
        } else {
            Self::Up
        }
    }
}

/// An endpoint of a pool.
#[derive(Debug)]
pub(crate) struct EndpointFigures {
    pub(crate) endpoint: String,
    pub(crate) condition: EndpointCondition,
    /// The reason, unless it is up.
    pub(crate) why: Option<String>,
    /// What an operator has set.
    pub(crate) mode: AdminMode,
    /// The weight that holds.
    pub(crate) weight: u32,
    pub(crate) weight_configured: u32,
    pub(crate) backup: bool,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    /// The moving average, once there is one.
    pub(crate) latency: Option<Duration>,
    pub(crate) ejections: u64,
    /// Of requests: endpoints of relays have none.
    pub(crate) counts: Option<EndpointCounts>,
    pub(crate) check: Option<CheckFigures>,
}

/// The last health check of an endpoint.
#[derive(Debug)]
pub(crate) struct CheckFigures {
    pub(crate) took: Duration,
    pub(crate) age: Duration,
    pub(crate) error: Option<String>,
}

impl Exposition {
    /// When the process started.
    pub(crate) fn started(&self) -> SystemTime {
        self.state.started
    }

    /// The time since the process started.
    pub(crate) fn uptime(&self) -> Duration {
        self.state.started.elapsed().unwrap_or_default()
    }

    /// The file of the configuration, if it has one.
    pub(crate) fn configuration_file(&self) -> Option<&Configuration> {
        self.state.file.as_deref()
    }

    /// The readers of the access log.
    pub(crate) fn tails(&self) -> &Arc<Tails> {
        &self.state.shared.tails
    }

    /// The names of the sites, in the order of their numbers.
    pub(crate) fn site_names(&self) -> &[String] {
        &self.sites
    }

    /// The listeners, in their order.
    pub(crate) fn listeners(&self) -> Vec<ListenerFigures> {
        let shards = &self.state.shards;
        let figures = |(index, name): (usize, &String)| ListenerFigures {
            name: name.clone(),
            open: shards.gauge(|cells| &cells.listeners[index].open),
            accepted: shards.counter(|cells| &cells.listeners[index].accepted),
            received: shards.counter(|cells| &cells.listeners[index].received),
            sent: shards.counter(|cells| &cells.listeners[index].sent),
        };
        self.names.iter().enumerate().map(figures).collect()
    }

    /// The limits.
    pub(crate) fn limits(&self) -> LimitFigures {
        let shared = &self.state.shared;
        let (sockets, handshakes) = (&shared.sockets, &shared.handshakes);
        let memory = memory::process();
        let kinds = MemoryKind::ALL.iter();
        let kinds: usize = kinds.map(|(kind, _)| memory.used(*kind)).sum();
        LimitFigures {
            connections: Usage {
                used: shared.connections.used(),
                size: shared.connections.size(),
            },
            sockets: Usage {
                used: sockets.open(),
                size: sockets.size(),
            },
            sockets_idle: sockets.idle(),
            sockets_waiting: sockets.waiting(),
            handshakes: Usage {
                used: handshakes.begun(),
                size: handshakes.size(),
            },
            handshakes_waiting: handshakes.waiting(),
            memory_used: kinds + memory.surplus(),
            memory_size: memory.limit(),
            memory_level: match memory.level() {
                MemoryLevel::Easy => "enough",
                MemoryLevel::Lean => "scarce",
                MemoryLevel::Full => "full",
            },
            clients: shared.clients.count(),
        }
    }

    /// The certificates of all listeners, each with the name of its listener.
    pub(crate) fn summaries(&self) -> Vec<(String, CertSummary)> {
        let of = |(listener, acceptor): &(String, Arc<Acceptor>)| {
            let all = acceptor.store().describe().into_iter();
            all.map(|one| (listener.clone(), one)).collect::<Vec<_>>()
        };
        self.acceptors.iter().flat_map(of).collect()
    }

    /// The certificates that the program obtains, by name, and how each stands.
    pub(crate) fn managed_certs(&self) -> Vec<(CertId, CertStatus)> {
        self.state.certificates.statuses()
    }

    /// The names without a valid certificate, though the program obtains one.
    pub(crate) fn awaited_certs(&self) -> Vec<String> {
        views::awaited_certs(&self.managed_certs(), SystemTime::now())
    }

    /// What obtains certificates.
    pub(crate) fn cert_keeper(&self) -> &CertKeeper {
        &self.state.certificates
    }

    /// The sites, and at the end what has none.
    pub(crate) fn site_figures(&self) -> Vec<SiteFigures> {
        let sites = SiteIndex::enumerate(&self.sites);
        let sites = sites.map(|(index, name)| (Some(index), name.as_str()));
        let figures = sites
            .chain([(None, OTHER)])
            .map(|(index, name)| SiteFigures {
                name: name.to_owned(),
                counts: SiteCounts::of(&self.state.shards, index),
            });
        figures.collect()
    }

    /// The lines of the last errors, each an object of JSON, in no order.
    pub(crate) fn recent_errors(&self) -> Vec<Vec<u8>> {
        self.state.shared.errors.lines()
    }

    /// The pools that have a name, with at most so many of their endpoints.
    pub(crate) fn pool_figures(&self, mut most: usize) -> Vec<PoolFigures> {
        let statuses = self.statuses.now();
        let by_name = statuses.iter();
        let by_name: HashMap<(&str, &str), _> = by_name
            .map(|status| ((&*status.pool, &*status.endpoint), status))
            .collect();
        let named = self
            .pools
            .iter()
            .filter(|pool| !pool.settings.name.is_empty());
        let figures = named.map(|pool| {
            let first = self.first_cells(pool);
            let name = &*pool.settings.name;
            let status = |member: &Member| by_name.get(&(name, &*member.endpoint().label)).copied();
            let members = pool.members().iter().enumerate();
            let present = members.filter(|(_, member)| !member.endpoint().is_vacant());
            let endpoints = present.take(most).map(|(at, member)| {
                let index = first.map(|first| EndpointIndex::new(first + at));
                self.endpoint_figures(member, index, status(member))
            });
            let endpoints: Vec<_> = endpoints.collect();
            most -= endpoints.len();
            PoolFigures {
                name: pool.settings.name.clone(),
                added: self.changes.added_to(&pool.settings.name).collect(),
                removed: self.changes.removed_from(&pool.settings.name).collect(),
                endpoints,
            }
        });
        figures.collect()
    }

    /// The number of the cells of a pool's first member; relays have none.
    fn first_cells(&self, pool: &Arc<Pool>) -> Option<usize> {
        let at = self
            .upstreams
            .iter()
            .position(|one| Arc::ptr_eq(one, pool))?;
        let before = self.upstreams.iter().take(at);
        Some(before.map(|pool| pool.members().len()).sum())
    }

    fn endpoint_figures(
        &self,
        member: &Member,
        index: Option<EndpointIndex>,
        status: Option<&EndpointStatus>,
    ) -> EndpointFigures {
        let (endpoint, now) = (member.endpoint(), clock::now());
        let error = status.and_then(|status| status.why.as_deref().cloned());
        let condition = EndpointCondition::of(member, now);
        let why = match condition {
            EndpointCondition::Up => None,
            EndpointCondition::Down => Some(
                error
                    .clone()
                    .unwrap_or_else(|| "its health checks fail".to_owned()),
            ),
            EndpointCondition::Ejected => Some("it kept failing".to_owned()),
            EndpointCondition::Avoided => Some(
                match endpoint.condition(now) {
                    Condition::Suspect => "it has failed lately",
                    Condition::Healthy | Condition::Unavailable => "it could not be reached",
                }
                .to_owned(),
            ),
        };
        EndpointFigures {
            endpoint: endpoint.label.clone(),
            condition,
            why,
            mode: member.mode(),
            weight: member.weight(),
            weight_configured: member.configured_weight(),
            backup: member.is_backup(),
            connections: endpoint.connections(),
            in_flight: endpoint.in_flight(),
            latency: endpoint
                .latency()
                .now(now)
                .map(|micros| Duration::from_secs_f32(micros / 1e6)),
            ejections: endpoint.ejections(),
            counts: index.map(|index| EndpointCounts::of(&self.state.shards, index)),
            check: status.and_then(|status| {
                Some(CheckFigures {
                    took: status.took?,
                    age: status.age?,
                    error,
                })
            }),
        }
    }
}

#[cfg(test)]
impl PoolFigures {
    /// The pool `app` with one endpoint, `10.0.0.1:80`, that is up and idle, and has these counts.
    pub(crate) fn of_one(counts: EndpointCounts) -> Self {
        let endpoint = EndpointFigures {
            endpoint: "10.0.0.1:80".to_owned(),
            condition: EndpointCondition::Up,
            why: None,
            mode: AdminMode::Ready,
            weight: 1,
            weight_configured: 1,
            backup: false,
            connections: 0,
            in_flight: 0,
            latency: None,
            ejections: 0,
            counts: Some(counts),
            check: None,
        };
        Self {
            name: "app".to_owned(),
            added: Vec::new(),
            removed: Vec::new(),
            endpoints: vec![endpoint],
        }
    }
}
