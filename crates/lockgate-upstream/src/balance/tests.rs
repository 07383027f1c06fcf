//! Exact sequences where the choice is exact, shares where it is random; the seeds are fixed.

use std::time::Duration;

use lockgate_rules::Eject;

use super::*;
use crate::affinity::hash;
use crate::endpoint::{EndpointAddress, InFlight};
use crate::outlier_detection::EndpointFailure;
use crate::random::Random;

fn members(weights: &[u32]) -> Vec<Member> {
    let endpoint = |at: usize| {
        let address = EndpointAddress::Ip("127.0.0.1:1".parse().unwrap());
        Arc::new(Endpoint::new(
            format!("{at}"),
            "127.0.0.1".into(),
            address,
            None,
        ))
    };
    weights
        .iter()
        .enumerate()
        .map(|(at, weight)| Member::new(endpoint(at), *weight))
        .collect()
}

/// A pool with one choice after the other.
struct Script {
    balance: Balance,
    members: Vec<Member>,
    balancer: Balancer,
    random: Random,
    now: u64,
}

impl Script {
    fn new(balance: Balance, weights: &[u32]) -> Self {
        Self::of(balance, members(weights))
    }

    fn of(balance: Balance, members: Vec<Member>) -> Self {
        Self {
            balance,
            balancer: Balancer::new(&members, Millis::ZERO),
            members,
            random: Random::seeded(3),
            now: 0,
        }
    }

    /// The same with a slow start of so many milliseconds.
    fn slowly(balance: Balance, weights: &[u32], slow_start: u64) -> Self {
        let pool = Self::new(balance, weights);
        Self {
            balancer: Balancer::new(&pool.members, Millis::new(slow_start)),
            ..pool
        }
    }

    fn choose(&self, usable: impl Fn(usize) -> bool) -> Option<usize> {
        let tried = |at: MemberIndex| !usable(at.get());
        let chosen = self.balancer.choose(
            self.balance,
            &self.members,
            tried,
            self.random.next(),
            Millis::new(self.now),
        );
        chosen.map(MemberIndex::get)
    }

    fn fail(&self, at: usize, failure: EndpointFailure) {
        self.endpoint(at)
            .failed(failure, Millis::new(self.now), None, || false);
    }

    fn next(&self) -> usize {
        self.choose(|_| true).unwrap()
    }

    fn sequence(&self, turns: usize) -> String {
        (0..turns)
            .map(|_| char::from(b'a' + self.next() as u8))
            .collect()
    }

    fn endpoint(&self, at: usize) -> &Arc<Endpoint> {
        self.members[at].endpoint()
    }

    /// How many of a thousand choices each member gets when nothing changes meanwhile.
    fn shares(&self) -> Vec<usize> {
        let mut shares = vec![0; self.members.len()];
        (0..1000).for_each(|_| shares[self.next()] += 1);
        shares
    }

    /// The same of so many choices at one moment.
    fn shares_of(&mut self, choices: usize, now: u64) -> Vec<usize> {
        self.now = now;
        let mut shares = vec![0; self.members.len()];
        (0..choices).for_each(|_| shares[self.next()] += 1);
        shares
    }

    /// Requests from `clients` that each send the next as soon as the last is answered, for so many
    /// milliseconds; a response of a member takes as long as `latencies` say. Returns how many each
    /// member got.
    fn load(&mut self, clients: usize, latencies: &[u64], millis: u64) -> Vec<usize> {
        let mut shares = vec![0; self.members.len()];
        let mut under_way: Vec<Option<(u64, usize, InFlight)>> =
            (0..clients).map(|_| None).collect();
        for now in self.now..self.now + millis {
            self.now = now;
            for client in &mut under_way {
                if let Some((began, at, _)) = client {
                    let took = now - *began;
                    if took < latencies[*at] {
                        continue;
                    }
                    self.members[*at]
                        .endpoint()
                        .record_response(Duration::from_millis(took), Millis::new(now));
                    *client = None;
                }
                let at = self.next();
                shares[at] += 1;
                *client = Some((now, at, self.endpoint(at).begin_request()));
            }
        }
        shares
    }
}

fn about(share: usize, of: usize, expected: f64) -> bool {
    (share as f64 / of as f64 - expected).abs() < 0.05
}

#[test]
fn round_robin_is_smooth_by_weight() {
    for (weights, expected) in [
        (&[1][..], "aaaaaa"),
        (&[1, 1, 1], "abcabc"),
        (&[7, 7], "ababab"),
        (&[1, 2], "babbab"),
        (&[5, 1, 1], "aabacaaaabacaa"),
        (&[0, 2], "babbab"),
    ] {
        assert_eq!(
            Script::new(Balance::RoundRobin, weights).sequence(expected.len()),
            expected
        );
    }
}

#[test]
fn round_robin_spreads_the_turns_of_a_down_endpoint() {
    let pool = Script::new(Balance::RoundRobin, &[1, 1, 1]);
    pool.members[1].mark_down();
    assert_eq!(
        pool.sequence(8),
        "acacacac",
        "not twice as many to c, whose turn follows"
    );
    pool.members[1].mark_up(Millis::ZERO);
    pool.fail(0, EndpointFailure::Unreachable);
    assert_eq!(pool.sequence(6), "bcbcbc");
}

#[test]
fn huge_round_robin_weights_are_scaled() {
    for weights in [&[1, 1_000_000][..], &[u32::MAX; 3], &[3, 1_000_003]] {
        let turns = turns(
            &weights
                .iter()
                .map(|weight| u64::from(*weight))
                .collect::<Vec<_>>(),
        );
        assert!(turns.len() <= 2 * MAX_TURNS as usize);
        assert!((0..weights.len()).all(|at| turns.contains(&(at as u32))));
    }
    // The endpoint with nearly all turns is down: the others are found, and in turn.
    let pool = Script::new(Balance::RoundRobin, &[1, 1000, 1]);
    pool.members[1].mark_down();
    let sequence = pool.sequence(40);
    assert!(
        !sequence.contains('b') && sequence.contains('a') && sequence.contains('c'),
        "{sequence}"
    );
}

#[test]
fn least_conn_takes_the_least_busy_and_alternates_equals() {
    let pool = Script::new(Balance::Least, &[1, 1, 1]);
    assert_eq!(pool.sequence(6), "abcabc");
    let held = [
        pool.endpoint(0).begin_request(),
        pool.endpoint(1).begin_request(),
    ];
    assert_eq!(pool.sequence(3), "ccc");
    drop(held);
    let weighted = Script::new(Balance::Least, &[1, 2]);
    let mut held = Vec::new();
    for _ in 0..9 {
        held.push(weighted.endpoint(weighted.next()).begin_request());
    }
    assert_eq!(
        (
            weighted.endpoint(0).in_flight(),
            weighted.endpoint(1).in_flight()
        ),
        (3, 6)
    );
}

#[test]
fn equal_endpoints_get_equal_shares_and_weights_proportional_ones() {
    for (weights, expected) in [
        (&[1, 1][..], &[0.5, 0.5][..]),
        (&[1, 1, 1, 1, 1], &[0.2; 5]),
        (&[1, 2], &[1.0 / 3.0, 2.0 / 3.0]),
        (&[100, 100, 200], &[0.25, 0.25, 0.5]),
    ] {
        let mut pool = Script::new(Balance::LatencyAware, weights);
        for (share, expected) in pool.shares().into_iter().zip(expected) {
            assert!(about(share, 1000, *expected), "idle, {weights:?}: {share}");
        }
        let shares = pool.load(20, &[10; 5], 5_000);
        let total = shares.iter().sum();
        for (share, expected) in shares.iter().zip(expected) {
            assert!(
                about(*share, total, *expected),
                "busy, {weights:?}: {shares:?}"
            );
        }
    }
}

#[test]
fn small_latency_differences_do_not_decide() {
    let pool = Script::new(Balance::LatencyAware, &[1, 1]);
    pool.endpoint(0)
        .record_response(Duration::from_micros(80), Millis::ZERO);
    pool.endpoint(1)
        .record_response(Duration::from_micros(800), Millis::ZERO);
    assert!(about(pool.shares()[0], 1000, 0.5));
}

#[test]
fn a_slow_endpoint_gets_under_a_twentieth_of_requests() {
    for (clients, weights) in [
        (1, &[1, 1][..]),
        (10, &[1, 1]),
        (100, &[1, 1, 1]),
        (100, &[2, 1, 1]),
    ] {
        let mut pool = Script::new(Balance::LatencyAware, weights);
        let shares = pool.load(clients, &[205, 5, 5], 60_000);
        let total: usize = shares.iter().sum();
        assert!(shares[0] * 20 < total, "{clients} clients: {shares:?}");
        assert!(
            shares[0] > 1,
            "its latency fades, so it was tried again: {shares:?}"
        );
    }
}

#[test]
fn an_endpoint_without_responses_gets_one_request_until_it_responds() {
    let mut pool = Script::new(Balance::LatencyAware, &[1, 1]);
    pool.endpoint(1)
        .record_response(Duration::from_millis(5), Millis::ZERO);
    let shares = pool.load(10, &[u64::MAX, 5], 1_000);
    assert_eq!(shares[0], 1, "{shares:?}");
}

#[test]
fn a_hanging_endpoint_gets_no_further_requests() {
    let pool = Script::new(Balance::LatencyAware, &[1, 1]);
    for at in [0, 1] {
        pool.endpoint(at)
            .record_response(Duration::from_millis(5), Millis::ZERO);
    }
    pool.endpoint(0)
        .record_wait(Duration::from_millis(100), Millis::ZERO);
    assert_eq!(pool.shares(), [0, 1000]);
}

#[test]
fn a_down_or_tried_endpoint_is_never_chosen() {
    for balance in [Balance::LatencyAware, Balance::Least, Balance::RoundRobin] {
        let pool = Script::new(balance, &[1; 100]);
        for at in (0..100).filter(|at| *at != 71 && *at != 72) {
            pool.members[at].mark_down();
        }
        let shares = pool.shares();
        assert_eq!(shares[71] + shares[72], 1000, "{balance:?}");
        assert!(about(shares[71], 1000, 0.5), "{balance:?}: {}", shares[71]);
        assert!(
            (0..100).all(|_| pool.choose(|at| at != 71) == Some(72)),
            "{balance:?}"
        );
        assert_eq!(pool.choose(|at| at != 71 && at != 72), None);
        pool.members[71].mark_down();
        pool.members[72].mark_down();
        assert_eq!(pool.choose(|_| true), None, "{balance:?}");
        let empty = Script::new(balance, &[]);
        assert_eq!(empty.choose(|_| true), None);
    }
}

#[test]
fn a_recently_failed_endpoint_is_used_only_without_others() {
    for balance in [Balance::LatencyAware, Balance::Least, Balance::RoundRobin] {
        let mut pool = Script::new(balance, &[1, 1]);
        pool.fail(0, EndpointFailure::Unreachable);
        assert_eq!(pool.shares(), [0, 1000], "{balance:?}");
        assert_eq!(pool.choose(|at| at != 1), Some(0), "{balance:?}");
        pool.fail(1, EndpointFailure::Reset);
        assert_eq!(pool.shares(), [0, 1000], "{balance:?}: it could be reached");
        pool.fail(1, EndpointFailure::Reset);
        pool.members[1].mark_down();
        assert_eq!(pool.next(), 0, "{balance:?}: a mark alone fails no request");
        pool.now = 1_000;
        pool.members[1].mark_up(Millis::ZERO);
        assert!(
            (0..100).any(|_| pool.next() == 0),
            "{balance:?}: its time is over"
        );
    }
}

#[test]
fn a_backup_is_used_only_when_no_other_is_up() {
    for balance in [Balance::LatencyAware, Balance::Least, Balance::RoundRobin] {
        let both = members(&[1, 1])
            .into_iter()
            .chain(members(&[1, 3]).into_iter().map(Member::as_backup));
        let mut pool = Script::of(balance, both.collect());
        let shares = pool.shares();
        assert!(
            shares[0] > 0 && shares[1] > 0 && shares[2..] == [0, 0],
            "{balance:?}: {shares:?}"
        );
        pool.members[0].mark_down();
        assert_eq!(pool.shares(), [0, 1000, 0, 0], "{balance:?}");
        // It was tried for this request, and no other is left.
        assert!(
            pool.choose(|at| at != 1).is_some_and(|at| at > 1),
            "{balance:?}"
        );
        pool.members[1].mark_down();
        let shares = pool.shares();
        assert!(
            shares[..2] == [0, 0] && shares[2] > 0 && shares[3] > 0,
            "{balance:?}: {shares:?}"
        );
        pool.members[1].mark_up(Millis::ZERO);
        pool.fail(1, EndpointFailure::Unreachable);
        assert!(pool.next() > 1, "{balance:?}");
        [2, 3]
            .into_iter()
            .for_each(|at| pool.members[at].mark_down());
        assert_eq!(pool.next(), 1, "{balance:?}: better than nobody");
        [2, 3]
            .into_iter()
            .for_each(|at| pool.members[at].mark_up(Millis::ZERO));
        pool.now = 1_000;
        assert_eq!(pool.shares(), [0, 1000, 0, 0], "{balance:?}");
    }
}

#[test]
fn a_full_healthy_endpoint_is_not_replaced_by_a_backup() {
    let address = || EndpointAddress::Ip("127.0.0.1:1".parse().unwrap());
    let limited = |max| {
        Arc::new(Endpoint::new(
            String::new(),
            String::new(),
            address(),
            Some(max),
        ))
    };
    for balance in [Balance::LatencyAware, Balance::Least, Balance::RoundRobin] {
        let both = vec![
            Member::new(limited(1), 1),
            Member::new(limited(1), 1).as_backup(),
        ];
        let pool = Script::of(balance, both);
        let held = pool.endpoint(0).try_take();
        assert_eq!(pool.choose(|_| true), None, "{balance:?}");
        pool.members[0].mark_down();
        assert_eq!(pool.next(), 1, "{balance:?}");
        drop(held);
    }
}

#[test]
fn a_pool_of_backups_balances_like_any_other() {
    for balance in [Balance::LatencyAware, Balance::Least, Balance::RoundRobin] {
        let pool = Script::of(
            balance,
            members(&[1, 1])
                .into_iter()
                .map(Member::as_backup)
                .collect(),
        );
        assert!(about(pool.shares()[0], 1000, 0.5), "{balance:?}");
    }
}

#[test]
fn slow_start_grows_a_returning_endpoint_to_full_weight() {
    const RETURN: u64 = 100_000;
    for balance in [Balance::LatencyAware, Balance::Least, Balance::RoundRobin] {
        for ejected in [false, true] {
            let mut pool = Script::slowly(balance, &[2, 2, 4], 30_000);
            assert!(
                pool.shares().iter().all(|share| *share > 200),
                "{balance:?}: not at the start"
            );
            pool.now = RETURN;
            if ejected {
                let eject = Some(Eject {
                    errors: 1,
                    time: Duration::from_millis(1_000),
                    ..Eject::default()
                });
                pool.endpoint(1).failed(
                    EndpointFailure::Unserved,
                    Millis::new(RETURN - 1_000),
                    eject,
                    || true,
                );
                pool.endpoint(1).succeeded(Millis::new(RETURN));
            } else {
                pool.members[1].mark_down();
                pool.members[1].mark_up(Millis::new(RETURN));
            }
            let mut last = 0;
            let whole = pool.shares_of(10_000, RETURN + 30_000)[1];
            for (after, part) in [
                (0, 0.1),
                (3_000, 0.1),
                (9_000, 0.3),
                (15_000, 0.5),
                (24_000, 0.8),
                (30_000, 1.0),
            ] {
                let share = pool.shares_of(10_000, RETURN + after)[1];
                let expected = part * whole as f64;
                // The others' choices that it is left out of are theirs, so that it gets a little
                // more of the rest.
                let near = expected * 0.75 - 50.0..expected * 1.35 + 50.0;
                assert!(
                    near.contains(&(share as f64)),
                    "{balance:?} {after}: {share} of {whole}"
                );
                assert!(
                    share + 150 > last,
                    "{balance:?} {after}: {share} after {last}"
                );
                last = share;
            }
        }
    }
}

#[test]
fn slow_start_also_spares_an_endpoint_under_load() {
    for balance in [Balance::LatencyAware, Balance::Least] {
        let mut pool = Script::slowly(balance, &[1, 1], 60_000);
        pool.load(40, &[10, 10], 1_000);
        pool.members[0].mark_down();
        pool.load(40, &[10, 10], 1_000);
        pool.members[0].mark_up(Millis::new(pool.now));
        let parts: Vec<f64> = (0..6)
            .map(|_| pool.load(40, &[10, 10], 10_000))
            .map(|shares| shares[0] as f64 / shares.iter().sum::<usize>() as f64)
            .collect();
        assert!(parts[0] < 0.2 && parts[5] > 0.4, "{balance:?}: {parts:?}");
        assert!(parts.is_sorted(), "{balance:?}: {parts:?}");
    }
}

/// The part of a member's weight that counts at 1,500 ms, with a slow start of a second.
fn share(member: &Member) -> f32 {
    member.weight_share(Millis::from_secs(1), Millis::new(1_500))
}

#[test]
fn a_pool_successor_keeps_health_and_slow_start_of_its_members() {
    let now = Millis::new(1_500);
    let earlier = members(&[1; 3]);
    earlier[1].mark_down();
    earlier[2].mark_up(Millis::from_secs(1));
    for (checks, up, shares) in [
        (CheckChange::Same, [true, false, true], [1.0, 1.0, 0.5]),
        // A member that only other checks have found down returns.
        (CheckChange::Other, [true; 3], [1.0, SMALLEST, 0.5]),
    ] {
        let successors = earlier.iter().map(|before| {
            let member = Member::new(Arc::clone(before.endpoint()), 7);
            member.succeed(Some(before), checks, now);
            member
        });
        let successors: Vec<_> = successors.collect();
        let is_up: Vec<_> = successors.iter().map(Member::is_up).collect();
        assert_eq!(is_up, up, "{checks:?}");
        assert_eq!(successors.iter().map(share).collect::<Vec<_>>(), shares);
        assert!(successors.iter().all(|member| member.weight() == 7));
    }
}

#[test]
fn a_member_that_is_taken_out_is_not_chosen_and_returns_slowly() {
    for balance in [
        Balance::LatencyAware,
        Balance::Least,
        Balance::RoundRobin,
        Balance::Hash,
    ] {
        for mode in [AdminMode::Drain, AdminMode::Maintenance] {
            let pool = Script::new(balance, &[1; 3]);
            pool.members[1].set_mode(mode, Millis::ZERO);
            assert!(pool.members[1].is_up() && !pool.members[1].is_usable());
            assert_eq!(pool.shares()[1], 0, "{balance:?} {mode:?}");
            pool.members[1].set_mode(AdminMode::Ready, Millis::new(1_000));
            assert!(pool.shares()[1] > 200, "{balance:?}");
            assert_eq!(share(&pool.members[1]), 0.5);
        }
        let pool = Script::new(balance, &[1; 3]);
        pool.members[1].override_weight(Some(0));
        pool.balancer.reweigh(&pool.members);
        assert_eq!(pool.shares()[1], 0, "{balance:?}");
    }
}

#[test]
fn a_pool_successor_shares_the_mode_and_takes_over_the_weight() {
    let now = Millis::new(1_500);
    let earlier = members(&[1]).remove(0);
    let successor = || Member::new(Arc::clone(earlier.endpoint()), 1);
    let same = successor().administered_as(&earlier);
    // After the successor was made, and before it is used.
    earlier.set_mode(AdminMode::Drain, now);
    earlier.override_weight(Some(5));
    same.succeed(Some(&earlier), CheckChange::Same, now);
    assert_eq!((same.mode(), same.weight()), (AdminMode::Drain, 5));
    // Requests of the earlier pool find what is set later.
    same.set_mode(AdminMode::Maintenance, now);
    assert_eq!(earlier.mode(), AdminMode::Maintenance);
    let other = successor();
    other.succeed(Some(&earlier), CheckChange::Same, now);
    assert_eq!((other.mode(), other.weight()), (AdminMode::Ready, 1));
    assert_eq!(share(&other), SMALLEST);
    // Another record of a service is another endpoint.
    same.set_alias("other.test:80");
    assert_eq!(
        (same.mode(), same.weight_override()),
        (AdminMode::Ready, None)
    );
}

#[test]
fn slow_start_holds_for_a_member_that_joins_a_running_pool() {
    let joined = members(&[1]).remove(0);
    joined.succeed(None, CheckChange::Same, Millis::new(1_500));
    assert_eq!((joined.is_up(), share(&joined)), (true, SMALLEST));
    let later = joined.weight_share(Millis::from_secs(1), Millis::new(2_500));
    assert_eq!(later, 1.0);
    // One without a record still waits for it.
    let vacant = members(&[1]).remove(0);
    vacant.mark_down();
    vacant.succeed(None, CheckChange::Other, Millis::new(1_500));
    assert!(!vacant.is_up());
}

#[test]
fn slow_start_is_skipped_when_all_endpoints_return_together() {
    for balance in [Balance::LatencyAware, Balance::Least, Balance::RoundRobin] {
        let mut pool = Script::slowly(balance, &[1, 1], 30_000);
        pool.now = 5_000;
        pool.members.iter().for_each(Member::mark_down);
        assert_eq!(pool.choose(|_| true), None);
        pool.members
            .iter()
            .for_each(|member| member.mark_up(Millis::new(5_000)));
        assert!(about(pool.shares()[0], 1000, 0.5), "{balance:?}");
    }
}

/// Where so many clients belong.
fn homes(pool: &Script, clients: u64) -> Vec<usize> {
    let home = |client: u64| {
        let hash = hash(&client.to_be_bytes());
        pool.balancer
            .choose(
                Balance::Hash,
                &pool.members,
                |_| false,
                hash,
                Millis::new(pool.now),
            )
            .unwrap()
            .get()
    };
    (0..clients).map(home).collect()
}

fn counts(homes: &[usize]) -> [usize; 10] {
    let mut counts = [0; 10];
    homes.iter().for_each(|at| counts[*at] += 1);
    counts
}

#[test]
fn consistent_hashing_moves_only_clients_of_the_fallen_endpoint() {
    let pool = Script::new(Balance::Hash, &[1; 10]);
    let before = homes(&pool, 100_000);
    for fallen in 0..10 {
        pool.members[fallen].mark_down();
        let after = homes(&pool, 100_000);
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after)
            .count();
        assert!(moved <= 11_000, "{moved}");
        assert_eq!(moved, counts(&before)[fallen], "nobody else");
        // The remaining members share them alike.
        for (at, count) in counts(&after)
            .into_iter()
            .enumerate()
            .filter(|(at, _)| *at != fallen)
        {
            assert!((10_700..11_600).contains(&count), "{at}: {count}");
        }
        pool.members[fallen].mark_up(Millis::ZERO);
    }
    assert_eq!(homes(&pool, 100_000), before, "all are back");
}

#[test]
fn consistent_hashing_spreads_clients_by_weight() {
    for weights in [
        &[1; 10][..],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        &[1, 256],
        &[100, 100],
    ] {
        let pool = Script::new(Balance::Hash, weights);
        let counts = counts(&homes(&pool, 500_000));
        let total: u32 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(weights) {
            let expected = 5e5 * f64::from(*weight) / f64::from(total);
            assert!(
                (*count as f64 / expected - 1.0).abs() < 0.06,
                "{weights:?}: {counts:?}"
            );
        }
    }
}

#[test]
fn consistent_hashing_moves_clients_only_to_the_added_endpoint() {
    let before = homes(&Script::new(Balance::Hash, &[1; 9]), 100_000);
    for (weights, least, most) in [
        (&[1; 10][..], 9_700, 10_300),
        (&[1, 1, 1, 1, 1, 1, 1, 1, 1, 3], 24_500, 25_500),
    ] {
        let after = homes(&Script::new(Balance::Hash, weights), 100_000);
        let moved: Vec<_> = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after)
            .collect();
        assert!((least..most).contains(&moved.len()), "{}", moved.len());
        assert!(moved.iter().all(|(_, after)| **after == 9));
    }
}

#[test]
fn consistent_hashing_has_a_stable_second_choice() {
    let mut pool = Script::new(Balance::Hash, &[1; 3]);
    let choose = |pool: &Script, tried: &[usize]| {
        let tried = |at: MemberIndex| tried.contains(&at.get());
        let chosen = (pool.balancer).choose(
            Balance::Hash,
            &pool.members,
            tried,
            7,
            Millis::new(pool.now),
        );
        chosen.map(MemberIndex::get)
    };
    let first = choose(&pool, &[]).unwrap();
    let second = choose(&pool, &[first]).unwrap();
    pool.fail(first, EndpointFailure::Reset);
    assert_eq!(
        choose(&pool, &[]),
        Some(first),
        "it broke off once, and its sessions are there"
    );
    pool.now = 1_000;
    pool.fail(first, EndpointFailure::Unreachable);
    assert_eq!(choose(&pool, &[]), Some(second));
    pool.fail(second, EndpointFailure::Unreachable);
    let third = choose(&pool, &[]).unwrap();
    assert!(third != first && third != second);
    pool.members[third].mark_down();
    assert_eq!(choose(&pool, &[]), Some(first), "better than nobody");
    pool.members.iter().for_each(Member::mark_down);
    assert_eq!(choose(&pool, &[]), None);
}

#[test]
fn slow_start_returns_hashed_clients_gradually() {
    let mut pool = Script::slowly(Balance::Hash, &[1; 4], 10_000);
    let whole = homes(&pool, 10_000);
    pool.members[0].mark_down();
    pool.members[0].mark_up(Millis::new(1));
    let mut last = Vec::new();
    for (after, part) in [(0, 0.1), (2_500, 0.25), (5_000, 0.5), (10_000, 1.0)] {
        pool.now = 1 + after;
        let homes = homes(&pool, 10_000);
        let there: Vec<usize> = (0..10_000).filter(|client| homes[*client] == 0).collect();
        // Beside three whole ones.
        let expected = 10_000.0 * part / (3.0 + part);
        assert!(
            (there.len() as f64 / expected - 1.0).abs() < 0.12,
            "{after}: {}",
            there.len()
        );
        assert!(
            last.iter().all(|client| there.contains(client)),
            "who has returned stays"
        );
        assert!(there.iter().all(|client| whole[*client] == 0));
        last = there;
    }
}
