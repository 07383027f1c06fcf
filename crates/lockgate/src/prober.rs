//! Active checks of endpoints: one thread for the process. Its findings take members out of their
//! pools and back.
//!
//! Does not resolve names: it uses what the resolver has published. A worker never waits for it; it
//! reads one flag.

pub(crate) mod check;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use lockgate_limits::MemberIndex;
use lockgate_limits::clock;
use lockgate_net::millis::Millis;
use lockgate_upstream::{Health, Member, Pool, Random, Transition};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

use crate::background::Background;

use check::CheckError;
pub(crate) use check::{Check, CheckKind, HttpCheck, TcpCheck};

/// The members of pools that are to be checked; [`Prober::start`] begins with it.
#[derive(Default)]
pub(crate) struct Prober {
    probes: Vec<Probe>,
}

/// One member of one pool: the same endpoint may be checked otherwise in another pool.
#[derive(Clone)]
struct Probe {
    pool: Arc<Pool>,
    /// The member.
    member: MemberIndex,
    check: Arc<Check>,
    last_check: Arc<LastCheck>,
}

/// The result of the last check, for the metrics.
struct LastCheck {
    /// Microseconds, and [`NOT_YET`] before the first.
    took: AtomicU64,
    /// The milliseconds of [`clock::now`] at its end.
    ended: AtomicU64,
    /// What was wrong; nothing when it was well.
    why: ArcSwapOption<String>,
}

const NOT_YET: u64 = u64::MAX;

/// What is known of one member of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointStatus {
    /// The pool's name.
    pub(crate) pool: String,
    /// The endpoint's label.
    pub(crate) endpoint: String,
    /// Whether it is in the pool.
    pub(crate) up: bool,
    /// Whether it is left alone for a while because it kept failing.
    pub(crate) ejected: bool,
    /// How long the last check took, if there was one.
    pub(crate) took: Option<Duration>,
    /// The time since the last check, if there was one.
    pub(crate) age: Option<Duration>,
    /// What the last check found wrong, if anything.
    pub(crate) why: Option<Arc<String>>,
}

/// Where every member that is checked can be looked up.
#[derive(Clone)]
pub(crate) struct EndpointStatuses(Arc<[Probe]>);

impl EndpointStatuses {
    /// All as they are now, in the order in which they were given to the prober.
    pub(crate) fn now(&self) -> Vec<EndpointStatus> {
        self.0.iter().filter_map(Probe::status).collect()
    }
}

impl Prober {
    /// Checks every member of `pool` as `check` says.
    pub(crate) fn watch(&mut self, pool: &Arc<Pool>, check: Check) {
        let check = Arc::new(check);
        for member in (0..pool.members().len()).map(MemberIndex::new) {
            let last_check = LastCheck {
                took: AtomicU64::new(NOT_YET),
                ended: AtomicU64::new(0),
                why: ArcSwapOption::empty(),
            };
            let (pool, check, last_check) =
                (Arc::clone(pool), Arc::clone(&check), Arc::new(last_check));
            self.probes.push(Probe {
                pool,
                member,
                check,
                last_check,
            });
        }
    }

    /// Where the results can be looked up while the checks go on.
    pub(crate) fn statuses(&self) -> EndpointStatuses {
        EndpointStatuses(self.probes.clone().into())
    }

    /// Starts the thread that checks, with the first check of each member at once; `None` when
    /// there is nothing to check.
    ///
    /// # Errors
    /// When there can be no thread or no runtime.
    pub(crate) fn start(self) -> io::Result<Option<Background>> {
        if self.probes.is_empty() {
            return Ok(None);
        }
        let begin = |tasks: &LocalSet| {
            for probe in self.probes {
                tasks.spawn_local(probe.keep_checking());
            }
        };
        Background::start("prober", begin).map(Some)
    }
}

impl Probe {
    async fn keep_checking(self) {
        let Some(member) = self.pool.member(self.member) else {
            return;
        };
        let mut health = Health::new(self.check.fall, self.check.rise);
        let random = Random::new();
        loop {
            let began = Instant::now();
            self.check_once(member, &mut health).await;
            // A check that took longer than that is followed by the next at once.
            sleep_until(began + random.about(self.check.every)).await;
        }
    }

    async fn check_once(&self, member: &Member, health: &mut Health) {
        let is_vacant = member.endpoint().is_vacant();
        // A member that joins later, or that the resolver has marked up, is a new endpoint.
        if is_vacant || !health.is_up() && member.is_up() {
            *health = Health::new(self.check.fall, self.check.rise);
        }
        if is_vacant {
            self.last_check.why.store(None);
            return self.last_check.took.store(NOT_YET, Ordering::Release);
        }
        let began = Instant::now();
        let found = self.check.run(member.endpoint()).await;
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(NOT_YET);
        let (pool, endpoint) = (&*self.pool.settings.name, &*member.endpoint().label);
        let ours = found.as_ref().is_err_and(CheckError::is_ours);
        let changed = if ours {
            None
        } else {
            health.observe(found.is_ok())
        };
        let error = found.err().map(|error| error.to_string());
        match changed {
            None => {}
            Some(Transition::Up) => {
                // What it did before it fell says nothing of what it does now.
                member.endpoint().reset_history();
                member.mark_up(clock::now());
                tracing::info!(endpoint, pool, "the endpoint is up");
            }
            Some(Transition::Down) => {
                member.mark_down();
                tracing::warn!(
                    endpoint,
                    pool,
                    why = error.as_deref(),
                    "the endpoint is down"
                );
                if !self.pool.members().iter().any(Member::is_up) {
                    tracing::error!(pool, "every endpoint of the pool is down");
                }
            }
        }
        if ours && self.last_check.why.load().as_deref() != error.as_ref() {
            tracing::warn!(
                endpoint,
                pool,
                why = error.as_deref(),
                "the endpoint cannot be checked"
            );
        }
        self.last_check.why.store(error.map(Arc::new));
        let ended = clock::now().as_u64();
        self.last_check.ended.store(ended, Ordering::Relaxed);
        self.last_check.took.store(took, Ordering::Release);
    }

    fn status(&self) -> Option<EndpointStatus> {
        let member = self
            .pool
            .member(self.member)
            .filter(|member| !member.endpoint().is_vacant())?;
        let took = self.last_check.took.load(Ordering::Acquire);
        let ended = Millis::new(self.last_check.ended.load(Ordering::Relaxed));
        Some(EndpointStatus {
            pool: self.pool.settings.name.clone(),
            endpoint: member.endpoint().label.clone(),
            up: member.is_up(),
            ejected: member.endpoint().is_ejected(clock::now()),
            took: (took != NOT_YET).then(|| Duration::from_micros(took)),
            age: (took != NOT_YET).then(|| (clock::now() - ended).into()),
            why: self.last_check.why.load_full(),
        })
    }
}

#[cfg(test)]
mod tests;
