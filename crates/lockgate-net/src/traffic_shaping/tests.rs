//! Buckets on simulated time, with one taker and with many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::reactor::testing;

const MS: Nanos = Nanos::from_millis(1);
const SECOND: Nanos = Nanos::from_secs(1);
const BEGIN: Nanos = Nanos::from_secs(1_000);

fn rate(bytes: u64) -> NonZeroU64 {
    NonZeroU64::new(bytes).unwrap()
}

/// A piece, and the time when it is earned.
fn reserve(bucket: &Arc<SharedRate>, now: Nanos) -> (u64, Nanos) {
    let piece = bucket.piece(now);
    (piece, bucket.reserve(piece, now))
}

/// The bytes that takers have moved within `time`, each by its chain of buckets. They wake only at
/// multiples of 4 ms, some of them later than that, and always want more.
fn moved(chains: &[Vec<Arc<SharedRate>>], time: Nanos) -> Vec<u64> {
    let mut moved = vec![0; chains.len()];
    let mut late = (1..).map(|n: u64| Nanos::new(n * 7_919 % 5_000_000));
    // (when it wakes, which taker, what it waits for, of how many buckets that is earned then)
    let mut events: BinaryHeap<Reverse<(Nanos, usize, u64, usize)>> = (0..chains.len())
        .map(|who| Reverse((BEGIN, who, 0, chains[who].len())))
        .collect();
    while let Some(Reverse((now, who, mut bytes, mut next))) = events.pop() {
        if now > BEGIN + time {
            break;
        }
        let chain = &chains[who];
        if next == chain.len() {
            moved[who] += bytes;
            (bytes, next) = (piece(chain, now), 0);
        }
        let mut earned = now;
        while next < chain.len() && earned <= now {
            earned = chain[next].reserve(bytes, now);
            next += 1;
        }
        let wakes = if earned <= now {
            now
        } else {
            earned.next_multiple_of(4 * MS) + late.next().unwrap()
        };
        events.push(Reverse((wakes, who, bytes, next)));
    }
    moved
}

fn within(moved: u64, expected: u64, percent: u64) {
    let off = moved.abs_diff(expected);
    assert!(off * 100 <= expected * percent, "{moved} of {expected}");
}

#[test]
fn a_rate_holds_for_any_number_of_takers() {
    for bytes in [
        10_000,
        1_000_000,
        10_000_000,
        100_000_000,
        1_000_000_000,
        10_000_000_000,
    ] {
        for takers in [1, 2, 7, 100] {
            let bucket = SharedRate::new(rate(bytes));
            let chains = vec![vec![Arc::clone(&bucket)]; takers];
            within(moved(&chains, 10 * SECOND).iter().sum(), 10 * bytes, 2);
        }
    }
}

#[test]
fn a_token_bucket_is_shared_fairly() {
    for bytes in [1_000_000, 100_000_000] {
        for takers in [2, 10, 100] {
            let bucket = SharedRate::new(rate(bytes));
            let chains = vec![vec![bucket]; takers];
            let moved = moved(&chains, 20 * SECOND);
            let fair = 20 * bytes / takers as u64;
            // The burst that was saved at the beginning goes to the first takers.
            let most = fair * 11 / 10 + bytes / 20;
            assert!(
                moved
                    .iter()
                    .all(|&one| (fair * 9 / 10..most).contains(&one)),
                "{fair}: {moved:?}"
            );
        }
    }
}

#[test]
fn a_chain_of_buckets_runs_at_its_slowest() {
    let total = SharedRate::new(rate(10_000_000));
    let chain = |own: u64| vec![SharedRate::new(rate(own)), Arc::clone(&total)];
    // The first three may have 1 MB/s each, and the fourth the rest of ten.
    let chains: Vec<_> = [1_000_000, 1_000_000, 1_000_000, 50_000_000]
        .map(chain)
        .into();
    let moved = moved(&chains, 10 * SECOND);
    for one in &moved[..3] {
        assert!((7_500_000..10_100_000).contains(one), "{moved:?}");
    }
    within(moved.iter().sum(), 100_000_000, 2);
}

#[test]
fn the_burst_is_a_twentieth_of_a_second() {
    let bucket = SharedRate::new(rate(1_000_000));
    let mut now = Nanos::ZERO;
    for _ in 0..2 {
        now += 3_600 * SECOND;
        assert!(bucket.is_full(now));
        let at_once = (0..).take_while(|_| reserve(&bucket, now).1 <= now).count() as u64;
        assert_eq!(at_once, 2, "of 20 KB each, and 50 KB are saved");
        assert!(!bucket.is_full(now + BURST));
    }
}

#[test]
fn a_slow_rate_grants_one_packet_at_a_time() {
    let bucket = SharedRate::new(rate(1_000));
    assert_eq!(reserve(&bucket, BEGIN), (LEAST, BEGIN));
    assert_eq!(reserve(&bucket, BEGIN), (LEAST, BEGIN + 1_500 * MS));
}

#[test]
fn with_many_waiting_connections_grants_are_smaller() {
    let bucket = SharedRate::new(rate(100_000_000));
    let pieces: Vec<_> = (0..1_000).map(|_| reserve(&bucket, BEGIN)).collect();
    assert_eq!(pieces[0].0, 2_000_000);
    let (last, earned) = pieces[999];
    assert!(last < 100_000, "{last}");
    assert!(earned - BEGIN < SECOND, "{earned:?}");
}

#[test]
fn two_workers_taking_tokens_at_once_both_pay() {
    let bucket = SharedRate::new(rate(1_000_000));
    let take = || {
        for _ in 0..10_000 {
            bucket.reserve(100, BEGIN);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(take);
        scope.spawn(take);
    });
    assert_eq!(bucket.reserve(0, BEGIN), BEGIN - BURST + 2 * SECOND);
}

#[test]
fn extreme_rates_and_times_do_not_overflow() {
    // A bucket saves a packet, which takes that long at a byte a second.
    let depth = LEAST * SECOND;
    for bytes in [1, u64::MAX] {
        let bucket = SharedRate::new(rate(bytes));
        for now in [Nanos::ZERO, BEGIN, Nanos::MAX] {
            let (piece, earned) = reserve(&bucket, now);
            assert!(piece >= LEAST && earned >= now - depth);
            bucket.give_back(piece);
        }
        bucket.reserve(u64::MAX, Nanos::MAX);
        bucket.give_back(u64::MAX);
    }
}

/// A reactor, since a line has an alarm.
fn with_line(test: impl FnOnce(Rc<ShapingQueue>)) {
    testing::run(async { test(ShapingQueue::stopped()) });
}

fn poll(shaper: &mut Shaper) -> Option<usize> {
    match shaper.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(bytes) => Some(bytes),
        Poll::Pending => None,
    }
}

#[test]
fn an_exhausted_bucket_makes_the_shaper_wait() {
    with_line(|line| {
        let mut one = Shaper::new([SharedRate::new(rate(1_000_000))], &line);
        assert!(!one.is_asked());
        assert_eq!(one.piece(), 20_000);
        for _ in 0..2 {
            assert_eq!(poll(&mut one), Some(20_000));
            one.spend(15_000);
            assert_eq!(poll(&mut one), Some(5_000));
            one.spend(5_000);
        }
        assert_eq!((poll(&mut one), line.len()), (None, 1));
        assert!(one.is_waited_for() && one.is_asked());
        line.pass(9 * MS);
        assert_eq!(poll(&mut one), None);
        line.pass(MS);
        assert_eq!((poll(&mut one), line.len()), (Some(20_000), 0));
        assert_eq!(
            (one.take_waited(), one.take_waited()),
            (10 * MS, Nanos::ZERO)
        );
    });
}

#[test]
fn unspent_tokens_are_given_back() {
    with_line(|line| {
        let bucket = SharedRate::new(rate(1_000_000));
        let chain = [Arc::clone(&bucket)];
        for _ in 0..100 {
            let mut one = Shaper::new(chain.clone(), &line);
            assert_eq!(poll(&mut one), Some(20_000));
            one.spend(1);
            one.give_back();
            assert!(!one.is_asked());
            assert_eq!(poll(&mut one), Some(20_000));
        }
        assert_eq!(
            bucket.reserve(0, line.now()),
            line.now() - BURST + Nanos::new(100_000)
        );
    });
}

#[test]
fn a_dropped_waiter_gives_its_reservation_back() {
    with_line(|line| {
        let bucket = SharedRate::new(rate(1_000_000));
        bucket.reserve(50_000, line.now());
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let mut one = Shaper::new([Arc::clone(&bucket)], &line);
                assert_eq!(poll(&mut one), None);
                one
            })
            .collect();
        assert_eq!(line.len(), 10);
        drop(waiting);
        assert!(line.is_empty());
        // Each has been rounded up to a nanosecond at the most.
        let (earned, now) = (bucket.reserve(0, line.now()), line.now());
        assert!(earned.max(now) - earned.min(now) <= Nanos::new(10));
    });
}

#[test]
fn bytes_moved_beyond_the_grant_are_owed() {
    with_line(|line| {
        let mut one = Shaper::new([SharedRate::new(rate(1_000_000))], &line);
        assert_eq!(poll(&mut one), Some(20_000));
        one.spend(80_000);
        assert_eq!(poll(&mut one), None);
        // 30 KB are owed beyond the burst: a whole piece would wait longer, so the piece is
        // smaller.
        line.pass(37 * MS);
        assert_eq!(poll(&mut one), None);
        line.pass(MS);
        assert_eq!(poll(&mut one), Some(8_000));
    });
}

#[test]
fn the_timer_wakes_waiting_shapers_in_turn() {
    testing::run(async {
        let line = ShapingQueue::new().unwrap();
        let running = Rc::clone(&line);
        testing::spawn(async move { running.run().await });
        let bucket = SharedRate::new(rate(100_000_000));
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let mut one = Shaper::new([Arc::clone(&bucket)], &line);
                testing::spawn(async move {
                    for _ in 0..20 {
                        let bytes = std::future::poll_fn(|cx| one.poll(cx)).await;
                        one.spend(bytes);
                    }
                })
            })
            .collect();
        for taker in takers {
            taker.await.unwrap();
        }
        assert!(line.is_empty());
    });
}

#[test]
fn waiting_on_an_own_rate_takes_no_shared_tokens() {
    with_line(|line| {
        let (own, total) = (SharedRate::new(rate(2_000)), SharedRate::new(rate(100_000)));
        let mut waiting: Vec<_> = (0..1_000)
            .map(|_| Shaper::new([Arc::clone(&own), Arc::clone(&total)], &line))
            .collect();
        assert_eq!(waiting.iter_mut().filter_map(poll).count(), 1);
        let mut other = Shaper::new([Arc::clone(&total)], &line);
        assert!(poll(&mut other).is_some());
        // They do not give back what they have not taken.
        let before = total.reserve(0, line.now());
        drop(waiting.split_off(1));
        assert_eq!(total.reserve(0, line.now()), before);
    });
}
