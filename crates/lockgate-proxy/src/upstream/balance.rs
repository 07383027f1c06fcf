//! Which endpoint of a pool is next, for a request or a relay. Dials nothing and counts nothing: it
//! reads what the process knows of each.
//!
//! One that is down is never chosen, one that has failed lately only when there is no other, and a
//! backup only when of the others none is up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;

use super::affinity::hash;
use super::outlier_detection::Condition;
use super::endpoint::Endpoint;
use super::random::mix;

/// How a pool's endpoints are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// Of two at random, the one that costs less: latency (peak EWMA) × requests in flight. "The
    /// power of two choices in randomized load balancing" (Mitzenmacher, 2001) is nearly as
    /// good as looking at all, and unlike it does not send every worker to the same one.
    #[default]
    LatencyAware,
    /// The one with the least in flight.
    Least,
    /// One after the other.
    RoundRobin,
    /// The one that a hash leads to: weighted rendezvous hashing. "Using name-based mappings to
    /// increase hit rates" (Thaler, Ravishankar, 1998) with the weights of "Weighted
    /// distributed hash tables" (Schindelhauer, Schomaker, 2005). Who falls takes along only
    /// those who belonged to it, and shares are as exact as weights are. Figures and rivals:
    /// `docs/notes/010-choosing.md`.
    Hash,
}

/// An endpoint as one pool has it: the same endpoint may weigh more and be checked otherwise in
/// another.
#[derive(Debug)]
pub struct Member {
    endpoint: Arc<Endpoint>,
    weight: AtomicU32,
    /// Of its label, or of what it stands for.
    hash: AtomicU64,
    backup: AtomicBool,
    down: AtomicBool,
    /// When it has come up; 0 for one that was never down.
    risen: AtomicU64,
}

impl Member {
    /// A member that is up; the others' share is to its own as their weight to `weight`, which is
    /// at least 1.
    pub fn new(endpoint: Arc<Endpoint>, weight: u32) -> Self {
        Self {
            hash: AtomicU64::new(hash(endpoint.label.as_bytes())),
            endpoint,
            weight: AtomicU32::new(weight.max(1)),
            backup: AtomicBool::new(false),
            down: AtomicBool::new(false),
            risen: AtomicU64::new(0),
        }
    }

    /// The same, for when no other is up.
    pub fn as_backup(self) -> Self {
        Self {
            backup: AtomicBool::new(true),
            ..self
        }
    }

    /// Gives it another weight, at least 1, and says whether it is a backup from now on. The pool's
    /// choice knows of it with [`Pool::reweigh`](super::Pool::reweigh).
    pub fn set_weight(&self, weight: u32, backup: bool) {
        self.weight.store(weight.max(1), Ordering::Relaxed);
        self.backup.store(backup, Ordering::Relaxed);
    }

    /// See [`Pool::stand_for`](super::Pool::stand_for).
    pub(super) fn set_alias(&self, whom: &str) {
        self.hash.store(hash(whom.as_bytes()), Ordering::Relaxed);
    }

    /// Whether it is for when no other is up.
    pub fn is_backup(&self) -> bool {
        self.backup.load(Ordering::Relaxed)
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Its weight.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Whether it is up, by what checks say; without checks it is.
    pub fn is_up(&self) -> bool {
        // Who sees that one has fallen sees who has risen before: between the two of them nobody is
        // without an endpoint.
        !self.down.load(Ordering::Acquire)
    }

    /// Takes it out of the pool.
    pub fn mark_down(&self) {
        self.down.store(true, Ordering::Release);
    }

    /// Takes it back into the pool. `now` is [`crate::clock::Clock::now`].
    pub fn mark_up(&self, now: u64) {
        self.risen.store(now.max(1), Ordering::Relaxed);
        self.down.store(false, Ordering::Release);
    }

    /// How much of its weight counts, of which all does `slow_start` milliseconds after it has come
    /// up, or back from an ejection.
    fn weight_share(&self, slow_start: u64, now: u64) -> f32 {
        if slow_start == 0 {
            return 1.0;
        }
        match self.risen.load(Ordering::Relaxed).max(self.endpoint.ejection_end()) {
            0 => 1.0,
            since if now.saturating_sub(since) >= slow_start => 1.0,
            since => (now.saturating_sub(since) as f32 / slow_start as f32).max(SMALLEST),
        }
    }
}

/// Chooses among a pool's members; shared by the workers.
///
/// Turns are counted for the process: if each worker counted its own, all would begin with the same
/// member and an endpoint would get its turns in bursts, as many as there are workers.
#[derive(Debug)]
pub struct Balancer {
    /// Every member as often as it weighs, well mixed: the order of round robin, and the urn of
    /// random draws. Without backups, unless there is nothing else.
    turns: Box<[u32]>,
    /// The same with weights that have changed since, if some have: most pools are spared the
    /// look.
    reweighed: ArcSwapOption<Box<[u32]>>,
    has_changed: AtomicBool,
    next: AtomicUsize,
    /// Milliseconds in which the share of one that comes back grows to the whole; 0 is at once.
    slow_start: u64,
}

/// The share of its weight that one begins with which comes back slowly, as Envoy has it
/// (`min_weight_percent`).
const SMALLEST: f32 = 0.1;
/// Turns in one round: beyond that weights are scaled down.
const MAX_TURNS: u64 = 4096;
/// Draws before all members are looked at: enough for most pools of which half is down.
const DRAWS: u32 = 6;
/// Turns that may belong to somebody who is down before all members are looked at.
const PASSED_OVER: usize = 32;
/// Microseconds that no endpoint is quicker than. Differences below are noise, which must not
/// decide who gets all.
const FLOOR: f32 = 1_000.0;
/// Microseconds that an endpoint costs that was asked and has not answered yet, ever: it gets one
/// request, not all.
const UNKNOWN: f32 = 1_000_000.0;
/// What another one may cost more and still be as good, so that the choice among equals stays
/// random, by weight.
const MARGIN: f32 = 1.25;

impl Balancer {
    /// For `members`, whose number does not change; the share of one that comes back grows in
    /// `slow_start` milliseconds to the whole.
    pub fn new(members: &[Member], slow_start: u64) -> Self {
        let (reweighed, has_changed) = (ArcSwapOption::empty(), AtomicBool::new(false));
        Self {
            turns: turns_of(members),
            reweighed,
            has_changed,
            next: AtomicUsize::new(0),
            slow_start,
        }
    }

    /// Takes up the weights that members have [assumed](Member::assume).
    pub fn reweigh(&self, members: &[Member]) {
        self.reweighed.store(Some(Arc::new(turns_of(members))));
        self.has_changed.store(true, Ordering::Release);
    }

    fn with_turns<T>(&self, see: impl FnOnce(&[u32]) -> T) -> T {
        if !self.has_changed.load(Ordering::Acquire) {
            return see(&self.turns);
        }
        see(self.reweighed.load().as_deref().unwrap_or(&self.turns))
    }

    /// The place of the member that is next, of those that were not `tried` and have room; `None`
    /// when there is none, or when those that are well are only full: these are to be waited
    /// for. `random` is a fresh number, or the hash that leads to somebody; `now` is
    /// [`crate::clock::Clock::now`].
    pub fn choose(
        &self,
        balance: Balance,
        members: &[Member],
        tried: impl Fn(usize) -> bool,
        random: u64,
        now: u64,
    ) -> Option<usize> {
        let standing = |at: usize| match members.get(at) {
            // A hash is no chance, and finds less of a member that weighs less.
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
        let weight = |member: &Member| member.weight() as f32 * member.weight_share(self.slow_start, now);
        if let [_] = members {
            return (standing(0) < Availability::Full).then_some(0);
        }
        match balance {
            Balance::LatencyAware => self.power_of_two_choices(members, standing, weight, random, now),
            Balance::Least => least(
                self.next.fetch_add(1, Ordering::Relaxed),
                members,
                standing,
                weight,
            ),
            Balance::RoundRobin => self.round_robin(members, standing, random),
            Balance::Hash => rendezvous(members, standing, weight, random),
        }
    }

    /// Whether a member that comes back slowly is left out of this choice.
    fn is_held_back(&self, member: &Member, random: u64, now: u64) -> bool {
        let share = member.weight_share(self.slow_start, now);
        share < 1.0 && (mix(random) >> 40) as f32 >= share * (1 << 24) as f32
    }

    fn power_of_two_choices(
        &self,
        members: &[Member],
        standing: impl Fn(usize) -> Availability,
        weight: impl Fn(&Member) -> f32,
        random: u64,
        now: u64,
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
            let at = self.draw(random, draw)?;
            if first == Some(at) || standing(at) != Availability::Good {
                continue;
            }
            match first {
                None => first = Some(at),
                Some(first) => return Some(cheaper(first, at)),
            }
        }
        // Few are left, or one outweighs all others.
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

    /// A member at random, by weight; each `draw` another.
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
        // A turn that is passed over is over: the others keep their order and share, and nobody
        // gets it twice.
        for _ in 0..PASSED_OVER {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            let at = self.with_turns(|turns| turns.get(turn.checked_rem(turns.len())?).copied())?
                as usize;
            if standing(at) == Availability::Good {
                return Some(at);
            }
        }
        weighted_random(members, standing, random)
    }
}

/// Whether somebody may be chosen; the order is that of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Availability {
    Good,
    /// Has failed lately, or comes back slowly: when no other is good.
    Suspect,
    /// A backup.
    Backup,
    /// Could not be reached lately, or was ejected: better than nobody.
    Unavailable,
    /// As good as any, but full: waited for rather than replaced by a worse one.
    Full,
    Out,
}

impl Availability {
    pub(super) fn of(member: &Member, now: u64) -> Self {
        let endpoint = &member.endpoint;
        if !member.is_up() {
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

/// One at random, by weight, of those in the best standing: each takes the place of the one before
/// with the chance that its weight has among all so far.
fn weighted_random(members: &[Member], standing: impl Fn(usize) -> Availability, random: u64) -> Option<usize> {
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
        let weight = u64::from(member.weight());
        total += weight;
        if mix(random.wrapping_add(at as u64)) % total < weight {
            chosen = Some(at);
        }
    }
    chosen.filter(|_| !full || best <= Availability::Suspect)
}

/// The one with the least in flight for its weight, of those in the best standing; equals take
/// turns.
fn least_in_flight(
    turn: usize,
    members: &[Member],
    standing: impl Fn(usize) -> Availability,
    weight: impl Fn(&Member) -> f32,
) -> Option<usize> {
    let busy = |(at, member): (usize, &Member)| {
        (
            standing(at),
            member.endpoint.in_flight() as f32 / weight(member),
        )
    };
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
    // They change while we look: whoever has just been chosen is none of them any more.
    Some(
        equal
            .take(turn % equals.max(1) + 1)
            .last()
            .map_or(first, |(at, _)| at),
    )
}

/// The one that a hash leads to, of those who are not left alone: what broke off once does not lose
/// all who belong to it. Each draws a number by the hash, whose logarithm is as often the least of
/// all as its weight is part of all weights.
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
        // From above 0 to below 1.
        let drawn = ((mix(hash ^ member.hash.load(Ordering::Relaxed)) >> 41) as f32 + 0.5)
            / (1_u32 << 23) as f32;
        let found = (standing, -drawn.ln() / weight(member));
        if standing < Availability::Full && best.is_none_or(|(best, _)| found < best) {
            best = Some((found, at));
        }
    }
    best.filter(|((best, _), _)| !full || *best == Availability::Good)
        .map(|(_, at)| at)
}

/// What the next request would wait for, by experience. The weight counts only for what is in
/// flight: it is a share among equals, and an idle endpoint is not quicker for weighing more.
fn cost(member: &Member, weight: f32, now: u64) -> f32 {
    let in_flight = member.endpoint.in_flight();
    let latency = match member.endpoint.latency().now(now) {
        Some(latency) => latency.max(FLOOR),
        None if in_flight > 0 => UNKNOWN,
        None => 0.0,
    };
    latency * (in_flight as f32 / weight + 1.0)
}

/// Those of members, without backups where there is anybody else.
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

/// One round in which every member has as many turns as it weighs, spread as evenly as they go:
/// smooth weighted round robin, which nginx has made known. With each turn everybody is owed their
/// weight; whoever is owed most has it, and owes the others the whole round.
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
        // The first of those that are owed most.
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
