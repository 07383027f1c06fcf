//! Load balancing: the choice of a pool's next endpoint, for a request or a relay. Dials nothing
//! and counts nothing: it reads the state of each endpoint.
//!
//! An endpoint that is down is never chosen, one that has failed lately only without another, and a
//! backup only while no other endpoint is up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use lockgate_limits::MemberIndex;
use lockgate_net::millis::Millis;

use super::administration::{AdminMode, Administration};
use super::affinity::hash;
use super::endpoint::Endpoint;
use super::outlier_detection::Condition;
use super::random::mix;

/// The load balancing method of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// Of two random endpoints, the one with the lower cost: latency (peak EWMA) × requests in
    /// flight. "The power of two choices in randomized load balancing" (Mitzenmacher, 2001) is
    /// nearly as good as comparing all, and does not send every worker to the same endpoint.
    #[default]
    LatencyAware,
    /// The endpoint with the fewest requests in flight.
    Least,
    /// One endpoint after the other.
    RoundRobin,
    /// The endpoint of a hash: weighted rendezvous hashing. "Using name-based mappings to increase
    /// hit rates" (Thaler, Ravishankar, 1998) with the weights of "Weighted distributed hash
    /// tables" (Schindelhauer, Schomaker, 2005). An endpoint that goes down moves only its own
    /// clients, and shares are as exact as weights are. Figures and rivals:
    /// `docs/notes/010-choosing.md`.
    Hash,
}

/// Whether a pool and its successor have the same health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckChange {
    /// The same: their findings stay valid.
    Same,
    /// Others, or none any more.
    Other,
}

/// An endpoint as a member of a pool: in another pool, its weight and its checks may differ.
#[derive(Debug)]
pub struct Member {
    endpoint: Arc<Endpoint>,
    weight: AtomicU32,
    /// The hash of its label, or of its alias.
    hash: AtomicU64,
    backup: AtomicBool,
    down: AtomicBool,
    /// When it last came up; 0 if it was never down.
    risen: AtomicU64,
    administration: Administration,
}

impl Member {
    /// A member that is up; its share is in proportion to `weight`, which is at least 1.
    pub fn new(endpoint: Arc<Endpoint>, weight: u32) -> Self {
        Self {
            hash: AtomicU64::new(hash(endpoint.label.as_bytes())),
            endpoint,
            weight: AtomicU32::new(weight.max(1)),
            backup: AtomicBool::new(false),
            down: AtomicBool::new(false),
            risen: AtomicU64::new(0),
            administration: Administration::default(),
        }
    }

    /// The same with the administrative state of `earlier`, the same endpoint's member in the pool
    /// that had its pool's name before.
    pub fn administered_as(self, earlier: &Self) -> Self {
        Self {
            administration: earlier.administration.successor(),
            ..self
        }
    }

    /// The same as a backup, for when no other is up.
    pub fn as_backup(self) -> Self {
        Self {
            backup: AtomicBool::new(true),
            ..self
        }
    }

    /// Sets its weight, at least 1, and whether it is a backup. Effective with
    /// [`Pool::reweigh`](super::Pool::reweigh).
    pub fn set_weight(&self, weight: u32, backup: bool) {
        self.weight.store(weight.max(1), Ordering::Relaxed);
        self.backup.store(backup, Ordering::Relaxed);
    }

    /// See [`Pool::set_alias`](super::Pool::set_alias). What an operator has set was for another
    /// record.
    pub(super) fn set_alias(&self, alias: &str) {
        let hash = hash(alias.as_bytes());
        if self.hash.swap(hash, Ordering::Relaxed) != hash {
            self.administration.set_mode(AdminMode::Ready);
            self.administration.set_weight(None);
        }
    }

    /// Whether it is a backup, for when no other is up.
    pub fn is_backup(&self) -> bool {
        self.backup.load(Ordering::Relaxed)
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// The weight that holds: the one that an operator has set, else the configured one.
    pub fn weight(&self) -> u32 {
        let set = self.administration.weight();
        set.unwrap_or_else(|| self.configured_weight())
    }

    /// The weight of the configuration, or of its SRV record.
    pub fn configured_weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// The weight that an operator has set, if one was set.
    pub fn weight_override(&self) -> Option<u32> {
        self.administration.weight()
    }

    /// Sets a weight in place of the configured one, or the configured one again. With 0 only
    /// requests of its sticky clients begin there. Effective with
    /// [`Pool::reweigh`](super::Pool::reweigh).
    pub fn override_weight(&self, weight: Option<u32>) {
        self.administration.set_weight(weight);
    }

    /// Its administrative mode.
    pub fn mode(&self) -> AdminMode {
        self.administration.mode()
    }

    /// Sets its administrative mode; back in the pool its share grows as after a failure. `now` is
    /// [`lockgate_limits::clock::Clock::now`].
    pub fn set_mode(&self, mode: AdminMode, now: Millis) {
        if mode == AdminMode::Ready && !self.is_ready() {
            self.risen.store(now.as_u64().max(1), Ordering::Relaxed);
        }
        self.administration.set_mode(mode);
    }

    /// Whether no operator has taken it out of the pool.
    pub fn is_ready(&self) -> bool {
        self.administration.is_ready()
    }

    /// Whether requests of its own clients may begin there.
    pub fn is_usable(&self) -> bool {
        self.is_up() && self.is_ready()
    }

    /// Whether requests of any client may begin there.
    pub fn takes_any_client(&self) -> bool {
        self.is_usable() && self.weight() > 0
    }

    /// Whether it is up, by its checks; without checks it is.
    pub fn is_up(&self) -> bool {
        // A reader that sees one member down sees also another that came up before: it is never
        // without an endpoint.
        !self.down.load(Ordering::Acquire)
    }

    /// Takes it out of the pool.
    pub fn mark_down(&self) {
        self.down.store(true, Ordering::Release);
    }

    /// Takes it back into the pool. `now` is [`lockgate_limits::clock::Clock::now`].
    pub fn mark_up(&self, now: Millis) {
        self.risen.store(now.as_u64().max(1), Ordering::Relaxed);
        self.down.store(false, Ordering::Release);
    }

    /// Takes over the state of the same endpoint's member in an earlier pool. Without an earlier
    /// member it joins the pool, and rises now. `now` is as above.
    pub(super) fn succeed(&self, earlier: Option<&Self>, checks: CheckChange, now: Millis) {
        let Some(earlier) = earlier else {
            if self.is_up() {
                self.mark_up(now);
            }
            return;
        };
        let endpoint = &self.endpoint;
        self.administration.succeed(&earlier.administration);
        self.hash
            .store(earlier.hash.load(Ordering::Relaxed), Ordering::Relaxed);
        if endpoint.is_of_record() {
            // Its record has set them.
            self.set_weight(earlier.configured_weight(), earlier.is_backup());
        }
        // What other checks have found says nothing; a member without checks is up.
        let is_up = earlier.is_up() || checks == CheckChange::Other && !endpoint.is_vacant();
        let was_out = !earlier.is_up() || !earlier.is_ready() && self.is_ready();
        if is_up && was_out {
            self.mark_up(now);
        } else {
            self.risen
                .store(earlier.risen.load(Ordering::Relaxed), Ordering::Relaxed);
            self.down.store(!is_up, Ordering::Release);
        }
    }

    /// The part of its weight that counts: it grows to the whole in `slow_start` after
    /// the member came up, or back from an ejection.
    fn weight_share(&self, slow_start: Millis, now: Millis) -> f32 {
        if slow_start == Millis::ZERO {
            return 1.0;
        }
        let risen = Millis::new(self.risen.load(Ordering::Relaxed));
        let since = risen.max(self.endpoint.ejection_end());
        let passed = now - since;
        if since == Millis::ZERO || passed >= slow_start {
            return 1.0;
        }
        (passed.as_u64() as f32 / slow_start.as_u64() as f32).max(SMALLEST)
    }
}

/// What is compared of the members of a pool: the least wins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// The expected latency of the next request, in microseconds. Two random members are compared,
    /// and costs that differ by less than a quarter count as equal.
    Latency(f32),
    /// Requests and relays in flight for the weight.
    InFlight(f32),
    /// The number drawn by the client's hash for the weight.
    Hash(f32),
}

/// The load balancer of a pool, shared by the workers.
///
/// Turns are counted for the process: if each worker counted its own, all would begin with the same
/// member, and an endpoint would get its turns in bursts, as many as there are workers.
#[derive(Debug)]
pub(crate) struct Balancer {
    /// Every member as often as its weight, well mixed: the order of round robin, and the urn of
    /// random draws. Without backups, unless all are.
    turns: Box<[u32]>,
    /// The same with changed weights, if some have changed: most pools need not load it.
    reweighed: ArcSwapOption<Box<[u32]>>,
    has_changed: AtomicBool,
    next: AtomicUsize,
    /// The time in which the share of a returning member grows to the whole; 0 is at once.
    slow_start: Millis,
}

/// The first share of a member that returns slowly, as in Envoy (`min_weight_percent`).
const SMALLEST: f32 = 0.1;
/// The most turns in one round: beyond that weights are scaled down.
const MAX_TURNS: u64 = 4096;
/// Random draws before all members are compared: enough for most pools of which half is down.
const DRAWS: u32 = 6;
/// Turns of unusable members before all members are compared.
const PASSED_OVER: usize = 32;
/// The least latency that counts, in microseconds. Smaller differences are noise, by which one
/// endpoint must not get all requests.
const FLOOR: f32 = 1_000.0;
/// The latency of an endpoint that has its first request in flight, in microseconds: it gets one
/// request, not all.
const UNKNOWN: f32 = 1_000_000.0;
/// The factor by which costs may differ and count as equal, so that the choice among equals stays
/// random, by weight.
const MARGIN: f32 = 1.25;

impl Balancer {
    /// A balancer for `members`, always as many; the share of a returning one grows to the whole in
    /// `slow_start`.
    pub(crate) fn new(members: &[Member], slow_start: Millis) -> Self {
        let (reweighed, has_changed) = (ArcSwapOption::empty(), AtomicBool::new(false));
        Self {
            turns: turns_of(members),
            reweighed,
            has_changed,
            next: AtomicUsize::new(0),
            slow_start,
        }
    }

    /// Takes over the [weights](Member::set_weight) of the members.
    pub(crate) fn reweigh(&self, members: &[Member]) {
        self.reweighed.store(Some(Arc::new(turns_of(members))));
        self.has_changed.store(true, Ordering::Release);
    }

    /// The same balancer at the same turn, for choices that nothing follows from: they take no turn
    /// of this one.
    pub(crate) fn fork(&self) -> Self {
        Self {
            turns: self.turns.clone(),
            reweighed: ArcSwapOption::new(self.reweighed.load_full()),
            has_changed: AtomicBool::new(self.has_changed.load(Ordering::Acquire)),
            next: AtomicUsize::new(self.next.load(Ordering::Relaxed)),
            slow_start: self.slow_start,
        }
    }

    /// Takes the turn of another balancer of the same members.
    pub(crate) fn set_turn(&self, of: &Self) {
        let turn = of.next.load(Ordering::Relaxed);
        self.next.store(turn, Ordering::Relaxed);
    }

    /// What [`choose`](Self::choose) compares of a member: none where turns or a single member
    /// decide. `random` and `now` are as there.
    pub(crate) fn score(
        &self,
        balance: Balance,
        member: &Member,
        random: u64,
        now: Millis,
    ) -> Option<Score> {
        if !member.takes_any_client() {
            return None;
        }
        let weight = self.weight(member, now);
        match balance {
            Balance::LatencyAware => Some(Score::Latency(cost(member, weight, now))),
            Balance::Least => Some(Score::InFlight(busyness(member, weight))),
            Balance::RoundRobin => None,
            Balance::Hash => Some(Score::Hash(distance(member, weight, random))),
        }
    }

    /// The weight of a member, for as much as it has of it after it came up.
    fn weight(&self, member: &Member, now: Millis) -> f32 {
        member.weight() as f32 * member.weight_share(self.slow_start, now)
    }

    fn with_turns<T>(&self, see: impl FnOnce(&[u32]) -> T) -> T {
        if !self.has_changed.load(Ordering::Acquire) {
            return see(&self.turns);
        }
        see(self.reweighed.load().as_deref().unwrap_or(&self.turns))
    }

    /// The next member, among those that were not `tried` and have room; `None` when there is none,
    /// or when healthy ones are only full: the caller waits for these. `random` is a fresh number,
    /// or the hash of [`Balance::Hash`]; `now` is [`lockgate_limits::clock::Clock::now`].
    pub(crate) fn choose(
        &self,
        balance: Balance,
        members: &[Member],
        tried: impl Fn(MemberIndex) -> bool,
        random: u64,
        now: Millis,
    ) -> Option<MemberIndex> {
        let tried = |at| tried(MemberIndex::new(at));
        let standing = |at: usize| match members.get(at) {
            // Hashing needs no chance: a lower weight gives a member fewer hashes.
            Some(member) if balance == Balance::Hash && !tried(at) => Availability::of(member, now),
            Some(member) if !tried(at) => match Availability::of(member, now) {
                Availability::Good
                    if self.is_held_back(member, random.wrapping_add(at as u64), now) =>
                {
                    Availability::Suspect
                }
                standing => standing,
            },
            _ => Availability::Out,
        };
        let weight = |member: &Member| self.weight(member, now);
        if let [_] = members {
            return (standing(0) < Availability::Full).then_some(MemberIndex::new(0));
        }
        let chosen = match balance {
            Balance::LatencyAware => {
                self.power_of_two_choices(members, standing, weight, random, now)
            }
            Balance::Least => least_in_flight(
                self.next.fetch_add(1, Ordering::Relaxed),
                members,
                standing,
                weight,
            ),
            Balance::RoundRobin => self.round_robin(members, standing, random),
            Balance::Hash => rendezvous(members, standing, weight, random),
        };
        chosen.map(MemberIndex::new)
    }

    /// Whether a member that returns slowly is left out of this choice.
    fn is_held_back(&self, member: &Member, random: u64, now: Millis) -> bool {
        let share = member.weight_share(self.slow_start, now);
        share < 1.0 && (mix(random) >> 40) as f32 >= share * (1 << 24) as f32
    }

    fn power_of_two_choices(
        &self,
        members: &[Member],
        standing: impl Fn(usize) -> Availability,
        weight: impl Fn(&Member) -> f32,
        random: u64,
        now: Millis,
    ) -> Option<usize> {
        let cheaper = |first: usize, second: usize| {
            let cost = |at: usize| {
                members
                    .get(at)
                    .map_or(f32::MAX, |member| cost(member, weight(member), now))
            };
            if cost(second) * MARGIN < cost(first) {
                second
            } else {
                first
            }
        };
        let mut first = None;
        for draw in 0..DRAWS {
            let Some(at) = self.draw(random, draw) else {
                break;
            };
            if first == Some(at) || standing(at) != Availability::Good {
                continue;
            }
            match first {
                None => first = Some(at),
                Some(first) => return Some(cheaper(first, at)),
            }
        }
        // Few are usable, or one outweighs all others.
        let first = first.or_else(|| weighted_random(members, &standing, random))?;
        let equal = standing(first);
        let other = |at| {
            if at != first && standing(at) == equal {
                equal
            } else {
                Availability::Out
            }
        };
        let second = weighted_random(members, other, mix(random));
        Some(second.map_or(first, |second| cheaper(first, second)))
    }

    /// A random member, by weight; another for each `draw`.
    fn draw(&self, random: u64, draw: u32) -> Option<usize> {
        let random = if draw == 0 {
            random
        } else {
            mix(random.wrapping_add(draw.into()))
        };
        // The upper bits scaled to the range, which is as even as a remainder and needs no division
        // (Lemire, 2016).
        self.with_turns(|turns| {
            let at = ((random >> 32) * turns.len() as u64) >> 32;
            turns.get(at as usize).map(|at| *at as usize)
        })
    }

    fn round_robin(
        &self,
        members: &[Member],
        standing: impl Fn(usize) -> Availability,
        random: u64,
    ) -> Option<usize> {
        // A skipped turn is lost: the others keep their order and share, and no member has two.
        for _ in 0..PASSED_OVER {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            let of_turn =
                self.with_turns(|turns| turns.get(turn.checked_rem(turns.len())?).copied());
            let Some(at) = of_turn.map(|at| at as usize) else {
                break;
            };
            if standing(at) == Availability::Good {
                return Some(at);
            }
        }
        weighted_random(members, standing, random)
    }
}

/// Whether a member may be chosen; the order is that of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Availability {
    Good,
    /// Has failed lately, or returns slowly: for when no other is good.
    Suspect,
    Backup,
    /// Could not be reached lately, or was ejected: for when there is no other.
    Unavailable,
    /// Good, but full: waited for rather than replaced by a worse one.
    Full,
    Out,
}

impl Availability {
    pub(super) fn of(member: &Member, now: Millis) -> Self {
        let endpoint = &member.endpoint;
        if !member.takes_any_client() {
            return Self::Out;
        }
        match (
            endpoint.condition(now),
            endpoint.is_full(),
            member.is_backup(),
        ) {
            (Condition::Unavailable, false, _) => Self::Unavailable,
            (Condition::Unavailable, true, _) | (_, true, true) => Self::Out,
            (_, true, false) => Self::Full,
            (_, false, true) => Self::Backup,
            (Condition::Healthy, false, false) => Self::Good,
            (Condition::Suspect, false, false) => Self::Suspect,
        }
    }
}

/// A random member, by weight, among the best available: each replaces the one before with the
/// probability of its weight among all so far.
fn weighted_random(
    members: &[Member],
    standing: impl Fn(usize) -> Availability,
    random: u64,
) -> Option<usize> {
    let (mut best, mut total, mut chosen, mut full) = (Availability::Unavailable, 0, None, false);
    for (at, member) in members.iter().enumerate() {
        let found = standing(at);
        full |= found == Availability::Full;
        if found > best {
            continue;
        }
        if found < best {
            (best, total) = (found, 0);
        }
        // An operator may have set it to 0 since.
        let weight = u64::from(member.weight().max(1));
        total += weight;
        if mix(random.wrapping_add(at as u64)) % total < weight {
            chosen = Some(at);
        }
    }
    chosen.filter(|_| !full || best <= Availability::Suspect)
}

/// The member with the fewest requests in flight for its weight, among the best available; equals
/// take turns.
fn least_in_flight(
    turn: usize,
    members: &[Member],
    standing: impl Fn(usize) -> Availability,
    weight: impl Fn(&Member) -> f32,
) -> Option<usize> {
    let busy = |(at, member): (usize, &Member)| (standing(at), busyness(member, weight(member)));
    let mut best: Option<((Availability, f32), usize)> = None;
    let (mut equals, mut full) = (0, false);
    for found in members.iter().enumerate() {
        let busy = busy(found);
        full |= busy.0 == Availability::Full;
        if busy.0 >= Availability::Full {
            continue;
        }
        if best.is_none_or(|(least, _)| busy < least) {
            (best, equals) = (Some((busy, found.0)), 0);
        }
        equals += usize::from(best.is_some_and(|(least, _)| busy == least));
    }
    let (least, first) = best.filter(|((best, _), _)| !full || *best <= Availability::Suspect)?;
    let equal = members
        .iter()
        .enumerate()
        .filter(|found| busy(*found) == least);
    // Counts change meanwhile: a member that another worker has just chosen is none of them any
    // more.
    Some(
        equal
            .take(turn % equals.max(1) + 1)
            .last()
            .map_or(first, |(at, _)| at),
    )
}

/// The member of a hash, suspect ones included: a single reset does not move all its clients. Each
/// member draws a number by the hash; the one with the least weighted logarithm wins, as often as
/// its weight is part of all weights.
fn rendezvous(
    members: &[Member],
    standing: impl Fn(usize) -> Availability,
    weight: impl Fn(&Member) -> f32,
    hash: u64,
) -> Option<usize> {
    let mut best: Option<((Availability, f32), usize)> = None;
    let mut full = false;
    for (at, member) in members.iter().enumerate() {
        let standing = match standing(at) {
            Availability::Suspect => Availability::Good,
            standing => standing,
        };
        full |= standing == Availability::Full;
        let found = (standing, distance(member, weight(member), hash));
        if standing < Availability::Full && best.is_none_or(|(best, _)| found < best) {
            best = Some((found, at));
        }
    }
    best.filter(|((best, _), _)| !full || *best == Availability::Good)
        .map(|(_, at)| at)
}

/// The number that a member draws by a hash.
fn distance(member: &Member, weight: f32, hash: u64) -> f32 {
    // From above 0 to below 1.
    let drawn = ((mix(hash ^ member.hash.load(Ordering::Relaxed)) >> 41) as f32 + 0.5)
        / (1_u32 << 23) as f32;
    -drawn.ln() / weight
}

/// The requests and relays in flight for the weight.
fn busyness(member: &Member, weight: f32) -> f32 {
    member.endpoint.in_flight() as f32 / weight
}

/// The expected latency of the next request, in microseconds. The weight divides only requests in flight: an idle
/// endpoint is not quicker for a larger weight.
fn cost(member: &Member, weight: f32, now: Millis) -> f32 {
    let in_flight = member.endpoint.in_flight();
    let latency = match member.endpoint.latency().now(now) {
        Some(latency) => latency.max(FLOOR),
        None if in_flight > 0 => UNKNOWN,
        None => 0.0,
    };
    latency * (in_flight as f32 / weight + 1.0)
}

/// One round of turns, without backups unless all members are.
fn turns_of(members: &[Member]) -> Box<[u32]> {
    let only_backups = members.iter().all(Member::is_backup);
    let share = |member: &Member| {
        if member.is_backup() && !only_backups {
            0
        } else {
            member.weight()
        }
    };
    turns(
        &members
            .iter()
            .map(|member| u64::from(share(member)))
            .collect::<Vec<_>>(),
    )
}

/// One round in which every member has as many turns as its weight, spread evenly: the smooth
/// weighted round robin of nginx. Each turn adds every member's weight to its credit; the member
/// with the most credit has the turn, and pays the whole round.
fn turns(weights: &[u64]) -> Box<[u32]> {
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    let total: u64 = weights.iter().map(|weight| weight / divisor).sum();
    let most = MAX_TURNS.max(weights.len() as u64);
    let scaled = |weight: &u64| match weight / divisor {
        weight if total <= most || weight == 0 => weight,
        weight => (weight.saturating_mul(most) / total).max(1),
    };
    let weights: Vec<i64> = weights
        .iter()
        .map(|weight| scaled(weight).cast_signed())
        .collect();
    let total: i64 = weights.iter().sum();
    let mut owed = vec![0_i64; weights.len()];
    let turn = |_| {
        owed.iter_mut()
            .zip(&weights)
            .for_each(|(owed, weight)| *owed += weight);
        // The first of those with the most credit.
        let at = (0..owed.len())
            .rev()
            .max_by_key(|at| owed[*at])
            .unwrap_or_default();
        if let Some(owed) = owed.get_mut(at) {
            *owed -= total;
        }
        u32::try_from(at).unwrap_or_default()
    };
    (0..total).map(turn).collect()
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 {
        one
    } else {
        gcd(other, one % other)
    }
}

#[cfg(test)]
mod tests;
