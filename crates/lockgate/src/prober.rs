//! Active checks of endpoints: one thread for the process. Its findings take members out of their
//! pools and back.
//!
//! Does not resolve names: it uses what the resolver has published. A worker never waits for it; it
//! reads one flag.

pub(crate) mod check;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use lockgate_limits::MemberIndex;
use lockgate_limits::clock;
use lockgate_net::millis::Millis;
use lockgate_upstream::{AdminMode, Endpoint, Health, Member, Pool, Random, Transition};
use tokio::time::{Instant, sleep_until};

use crate::background::{Background, OwnedTask};

use check::CheckError;
pub(crate) use check::{Check, CheckKind, HttpCheck, TcpCheck};

/// The members of pools that a configuration checks, to be checked by [`Probing`].
#[derive(Default)]
pub(crate) struct Prober {
    probes: Vec<Probe>,
    /// The probes that run already by their pools' names, whether this configuration has them or
    /// not.
    running: HashMap<String, Vec<Probe>>,
}

/// The checks of one member of one pool: the same endpoint may be checked otherwise in another
/// pool.
#[derive(Clone)]
struct Probe {
    member: PoolMember,
    state: Arc<ProbeState>,
    /// The task that checks, once there is one.
    task: Option<Arc<OwnedTask>>,
}

/// A member of a pool.
#[derive(Clone)]
struct PoolMember {
    pool: Arc<Pool>,
    index: MemberIndex,
}

/// The state of a probe, which outlives the pool: the next configuration may have another pool of
/// this name with the same endpoint.
struct ProbeState {
    endpoint: Arc<Endpoint>,
    check: Arc<Check>,
    last_check: LastCheck,
    checked: Mutex<CheckedMember>,
}

/// The member that the results are for, and its health.
struct CheckedMember {
    member: PoolMember,
    health: Health,
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
pub(crate) struct EndpointStatuses(Arc<[(PoolMember, Arc<ProbeState>)]>);

impl EndpointStatuses {
    /// All as they are now, in the order in which they were given to the prober.
    pub(crate) fn now(&self) -> Vec<EndpointStatus> {
        let probes = self.0.iter();
        probes
            .filter_map(|(member, state)| state.status(member))
            .collect()
    }
}

/// The checks of the running configuration. Dropping this ends them.
#[derive(Default)]
pub(crate) struct Probing {
    thread: Option<Arc<Background>>,
    running: Vec<Probe>,
}

/// The checks of a configuration that does not run yet. Dropping this changes nothing.
pub(crate) struct PreparedProbes {
    thread: Option<Arc<Background>>,
    probes: Vec<Probe>,
}

impl Prober {
    /// Checks for a configuration that may take the place of the running one: an endpoint that has
    /// the same check in a pool of the same name keeps its health.
    pub(crate) fn continuing(running: &Probing) -> Self {
        let mut prober = Self::default();
        for probe in &running.running {
            let name = probe.member.pool.settings.name.clone();
            prober.running.entry(name).or_default().push(probe.clone());
        }
        prober
    }

    /// Checks every member of `pool` as `check` says.
    pub(crate) fn watch(&mut self, pool: &Arc<Pool>, check: Check) {
        let check = Arc::new(check);
        let mut running = self.running.remove(&pool.settings.name).unwrap_or_default();
        for (index, member) in MemberIndex::enumerate(pool.members()) {
            let member = (PoolMember::new(pool, index), member.endpoint());
            let known = running
                .iter()
                .position(|probe| probe.state.is_for(member.1, &check));
            let probe = match known {
                Some(at) => Probe {
                    member: member.0,
                    ..running.swap_remove(at)
                },
                None => Probe::new(member.0, member.1, &check),
            };
            self.probes.push(probe);
        }
    }

    /// Where the results can be looked up while the checks go on.
    pub(crate) fn statuses(&self) -> EndpointStatuses {
        let probes = self.probes.iter();
        EndpointStatuses(
            probes
                .map(|probe| (probe.member.clone(), Arc::clone(&probe.state)))
                .collect(),
        )
    }
}

impl Probing {
    /// Starts the thread that checks where there is none, and something to check. Changes nothing
    /// that runs.
    ///
    /// # Errors
    /// When there can be no thread or no runtime.
    pub(crate) fn prepare(&self, prober: Prober) -> io::Result<PreparedProbes> {
        let probes = prober.probes;
        let thread = Background::continued(self.thread.as_ref(), probes.len(), "prober")?;
        Ok(PreparedProbes { thread, probes })
    }

    /// Lets the prepared probes take the place of the running ones: new ones begin with their first
    /// check at once, those that are gone end, and the thread with the last of them. A member of a
    /// new pool is up or down as that of the old one was.
    ///
    /// To be called before the new pools are used, and after the resolver has brought up the
    /// members of services.
    pub(crate) fn commit(&mut self, prepared: PreparedProbes) {
        let PreparedProbes { thread, mut probes } = prepared;
        for probe in &mut probes {
            if probe.task.is_some() {
                probe.state.move_to(&probe.member);
            } else if let Some(thread) = &thread {
                probe.state.begin();
                let state = Arc::clone(&probe.state);
                let task = thread.spawn(move || keep_checking(state));
                probe.task = Some(Arc::new(task));
            }
        }
        (self.thread, self.running) = (thread, probes);
    }
}

impl Probe {
    fn new(member: PoolMember, endpoint: &Arc<Endpoint>, check: &Arc<Check>) -> Self {
        let health = Health::new(check.fall, check.rise);
        let last_check = LastCheck {
            took: AtomicU64::new(NOT_YET),
            ended: AtomicU64::new(0),
            why: ArcSwapOption::empty(),
        };
        let state = ProbeState {
            endpoint: Arc::clone(endpoint),
            check: Arc::clone(check),
            last_check,
            checked: Mutex::new(CheckedMember {
                member: member.clone(),
                health,
            }),
        };
        Self {
            member,
            state: Arc::new(state),
            task: None,
        }
    }
}

impl PoolMember {
    fn new(pool: &Arc<Pool>, index: MemberIndex) -> Self {
        Self {
            pool: Arc::clone(pool),
            index,
        }
    }

    fn member(&self) -> Option<&Member> {
        self.pool.member(self.index)
    }

    fn is_up(&self) -> bool {
        self.member().is_some_and(Member::is_up)
    }

    fn mark_up(&self) {
        if let Some(member) = self.member() {
            member.mark_up(clock::now());
        }
    }

    fn mark_down(&self) {
        if let Some(member) = self.member() {
            member.mark_down();
        }
    }
}

async fn keep_checking(state: Arc<ProbeState>) {
    let random = Random::new();
    loop {
        let began = Instant::now();
        if !state.is_paused() {
            state.check_once().await;
        }
        // A check that took longer than that is followed by the next at once.
        sleep_until(began + random.about(state.check.every)).await;
    }
}

impl ProbeState {
    fn is_for(&self, endpoint: &Arc<Endpoint>, check: &Check) -> bool {
        Arc::ptr_eq(&self.endpoint, endpoint) && *self.check == *check
    }

    /// The member, for a look at it without a wait.
    fn checked(&self) -> MutexGuard<'_, CheckedMember> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the results be for this member, which is then up or down as the one before.
    fn move_to(&self, member: &PoolMember) {
        let mut checked = self.checked();
        if !Arc::ptr_eq(&checked.member.pool, &member.pool) {
            match (checked.member.is_up(), member.is_up()) {
                (true, false) => member.mark_up(),
                (false, true) => member.mark_down(),
                _ => {}
            }
        }
        checked.member = member.clone();
    }

    /// A member that is down already, by other checks, comes up with the first success.
    fn begin(&self) {
        let CheckedMember { member, health } = &mut *self.checked();
        if !self.endpoint.is_vacant() && !member.is_up() {
            health.observe(false);
        }
    }

    /// Whether an operator has taken the endpoint out of its pool, and its checks with it.
    fn is_paused(&self) -> bool {
        let checked = self.checked();
        let member = checked.member.member();
        member.is_some_and(|member| member.mode() == AdminMode::Maintenance)
    }

    async fn check_once(&self) {
        let is_vacant = self.endpoint.is_vacant();
        {
            let CheckedMember { member, health } = &mut *self.checked();
            // A member that joins later, or that the resolver has marked up, is a new endpoint.
            if is_vacant || !health.is_up() && member.is_up() {
                *health = Health::new(self.check.fall, self.check.rise);
            }
        }
        if is_vacant {
            self.last_check.why.store(None);
            return self.last_check.took.store(NOT_YET, Ordering::Release);
        }
        let began = Instant::now();
        let found = self.check.run(&self.endpoint).await;
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(NOT_YET);
        self.observe(found);
        let ended = clock::now().as_u64();
        self.last_check.ended.store(ended, Ordering::Relaxed);
        self.last_check.took.store(took, Ordering::Release);
    }

    /// Draws the conclusion of a check.
    fn observe(&self, found: Result<(), CheckError>) {
        let CheckedMember { member, health } = &mut *self.checked();
        let (pool, endpoint) = (&*member.pool.settings.name, &*self.endpoint.label);
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
                self.endpoint.reset_history();
                member.mark_up();
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
                if !member.pool.members().iter().any(Member::is_up) {
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
    }

    fn status(&self, member: &PoolMember) -> Option<EndpointStatus> {
        if self.endpoint.is_vacant() {
            return None;
        }
        let took = self.last_check.took.load(Ordering::Acquire);
        let ended = Millis::new(self.last_check.ended.load(Ordering::Relaxed));
        Some(EndpointStatus {
            pool: member.pool.settings.name.clone(),
            endpoint: self.endpoint.label.clone(),
            up: member.is_up(),
            ejected: self.endpoint.is_ejected(clock::now()),
            took: (took != NOT_YET).then(|| Duration::from_micros(took)),
            age: (took != NOT_YET).then(|| (clock::now() - ended).into()),
            why: self.last_check.why.load_full(),
        })
    }
}

#[cfg(test)]
mod tests;
