//! Limits that threads use while they are resized.

use std::pin::{Pin, pin};
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::thread;

use super::*;

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// All permits that are free now.
fn take_all(limit: &ProcessLimit) -> Vec<Permit> {
    std::iter::from_fn(|| limit.try_take()).collect()
}

#[test]
fn a_limit_is_used_until_its_permit_is_dropped() {
    let limit = ProcessLimit::new(1);
    let taken = limit.try_take();
    assert!(taken.is_some());
    assert_eq!(limit.used(), 1);
    assert!(limit.try_take().is_none());
    drop(taken);
    assert!(limit.try_take().is_some());
}

#[test]
fn a_client_is_refused_with_as_many_waiting_as_served() {
    let table = PerClient::new(1);
    let ip = IpAddr::from([192, 0, 2, 1]);
    let (served, waiting) = (table.enter(ip), table.enter(ip));
    assert!(served.is_some() && waiting.is_some());
    assert!(table.enter(ip).is_none());
    assert!(table.enter(IpAddr::from([192, 0, 2, 2])).is_some());
    drop(waiting);
    assert!(table.enter(ip).is_some());
}

#[test]
fn the_connection_limit_of_ipv6_counts_its_64_prefix() {
    let table = PerClient::new(1);
    let held = [
        table.enter("2001:db8::1".parse().unwrap()),
        table.enter("2001:db8::2".parse().unwrap()),
    ];
    assert!(held.iter().all(Option::is_some));
    assert!(table.enter("2001:db8::3".parse().unwrap()).is_none());
    assert!(table.enter("2001:db8:0:1::1".parse().unwrap()).is_some());
}

#[test]
fn concurrent_permits_are_limited_per_key_and_forgotten_when_empty() {
    let table = KeyedLimit::new(2);
    let (one, other) = (Arc::<str>::from("one"), Arc::<str>::from("other"));
    let permits = [table.take(&one), table.take(&one)];
    assert!(permits.iter().all(Option::is_some));
    assert!(table.take(&one).is_none());
    assert!(table.take(&other).is_some());
    drop(permits);
    assert!(table.take(&one).is_some());
    assert_eq!(table.counts.len(), 0);
}

#[test]
fn a_client_without_connections_is_forgotten() {
    let table = PerClient::new(1);
    drop(table.enter("192.0.2.1".parse().unwrap()));
    assert_eq!(table.clients.len(), 0);
}

#[test]
fn a_larger_limit_serves_waits_at_once_and_in_order() {
    let limit = ProcessLimit::new(1);
    let taken = limit.try_take();
    let mut waits = [(); 3].map(|()| Box::pin(limit.take()));
    assert!(
        waits
            .iter_mut()
            .all(|wait| poll(wait.as_mut()).is_pending())
    );
    limit.resize(3);
    let [first, second, third] = waits.each_mut().map(|wait| poll(wait.as_mut()));
    assert!(first.is_ready() && second.is_ready() && third.is_pending());
    assert_eq!((limit.used(), limit.size(), limit.free()), (3, 3, 0));
    limit.resize(6);
    assert!(poll(waits[2].as_mut()).is_ready());
    drop((taken, first, second));
    assert_eq!((limit.used(), limit.free()), (0, 6));
}

#[test]
fn a_smaller_limit_takes_free_permits_now_and_others_when_dropped() {
    let limit = ProcessLimit::new(5);
    let mut taken: Vec<_> = std::iter::from_fn(|| limit.try_take()).take(3).collect();
    limit.resize(2);
    assert_eq!(
        (limit.used(), limit.size(), limit.free(), limit.debt()),
        (3, 2, 0, 1)
    );
    assert!(limit.try_take().is_none());
    taken.pop();
    assert_eq!((limit.used(), limit.free(), limit.debt()), (2, 0, 0));
    assert!(limit.try_take().is_none(), "as many are in use as may be");
    taken.pop();
    assert_eq!((limit.used(), limit.free()), (1, 1));
    drop(taken);
    assert_eq!(take_all(&limit).len(), 2);
}

#[test]
fn waits_keep_their_order_behind_the_permits_of_a_smaller_limit() {
    let limit = ProcessLimit::new(3);
    let mut taken = take_all(&limit);
    let mut waits = [(); 2].map(|()| Box::pin(limit.take()));
    assert!(
        waits
            .iter_mut()
            .all(|wait| poll(wait.as_mut()).is_pending())
    );
    limit.resize(1);
    for _ in 0..2 {
        taken.pop();
        assert!(
            waits
                .iter_mut()
                .all(|wait| poll(wait.as_mut()).is_pending())
        );
    }
    taken.pop();
    let [first, second] = waits.each_mut().map(|wait| poll(wait.as_mut()));
    assert!(first.is_ready() && second.is_pending());
    assert_eq!(limit.used(), 1);
    drop(first);
    assert!(poll(waits[1].as_mut()).is_ready());
}

#[test]
fn a_limit_that_grows_again_owes_less() {
    let limit = ProcessLimit::new(4);
    let taken = take_all(&limit);
    limit.resize(0);
    assert_eq!((limit.used(), limit.debt()), (4, 4));
    limit.resize(3);
    assert_eq!((limit.used(), limit.debt(), limit.free()), (4, 1, 0));
    limit.resize(usize::MAX);
    assert_eq!((limit.used(), limit.debt()), (4, 0));
    assert_eq!(limit.free(), limit.size() - 4);
    limit.resize(4);
    drop(taken);
    assert_eq!((limit.used(), take_all(&limit).len()), (0, 4));
}

#[test]
fn a_permit_freed_beside_a_resize_ends_before_it_is_taken() {
    let limit = ProcessLimit::new(1);
    // As if it had been dropped before the debt was there, and added after that had been paid from
    // the free ones.
    limit.0.debt.store(1, Ordering::Relaxed);
    limit.0.free.add_permits(1);
    assert_eq!((limit.used(), limit.free()), (0, 1));
    assert_eq!((take_all(&limit).len(), limit.debt()), (1, 0));
}

/// Ends the threads of a test, also when the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes and drops permits of `limit` in four threads while `run` runs; `held` is told before a
/// permit is dropped and after it was taken, so that it never counts more than there are.
fn with_users(limit: &ProcessLimit, held: &AtomicUsize, run: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..4 {
            let done = &done;
            scope.spawn(move || {
                let mut kept = Vec::new();
                for turn in thread.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    // A wait that ends before it has its permit gives it back.
                    let _ = poll(pin!(limit.take())).map(drop);
                    kept.extend(limit.try_take().inspect(|_| {
                        held.fetch_add(1, Ordering::SeqCst);
                    }));
                    if kept.len() > turn % 5 {
                        held.fetch_sub(1, Ordering::SeqCst);
                        kept.swap_remove(0);
                    }
                }
                held.fetch_sub(kept.len(), Ordering::SeqCst);
            });
        }
        let _end = EndOnDrop(&done);
        run();
    });
}

#[test]
fn no_permit_beyond_a_smaller_limit_is_given_once_few_are_used() {
    let (limit, held) = (ProcessLimit::new(12), AtomicUsize::new(0));
    with_users(&limit, &held, || {
        for _ in 0..300 {
            for size in [7, 2, 5, 1] {
                limit.resize(size);
                while limit.used() > size {
                    thread::yield_now();
                }
                for _ in 0..100 {
                    let held = held.load(Ordering::SeqCst);
                    assert!(held <= size, "{held} of {size}");
                }
            }
            limit.resize(12);
        }
    });
    assert_eq!((limit.used(), take_all(&limit).len()), (0, 12));
}

#[test]
fn permits_are_exact_after_any_number_of_resizes() {
    let (limit, held) = (ProcessLimit::new(3), AtomicUsize::new(0));
    with_users(&limit, &held, || {
        thread::scope(|scope| {
            for thread in 0..2 {
                let limit = &limit;
                scope.spawn(move || {
                    for turn in 0..20_000 {
                        limit.resize((turn * 7 + thread * 5) % 11);
                    }
                });
            }
        });
    });
    limit.resize(9);
    assert_eq!((limit.used(), held.into_inner()), (0, 0));
    assert_eq!(take_all(&limit).len(), 9);
}

#[test]
fn a_changed_connection_limit_holds_for_clients_that_are_connected() {
    let (table, ip) = (PerClient::new(1), IpAddr::from([192, 0, 2, 1]));
    let enter = || table.enter(ip);
    let mut connections: Vec<_> = std::iter::from_fn(enter).collect();
    assert_eq!(connections.len(), 2, "one is served, and one waits");
    let served = |connections: &mut [PerClientPermit]| {
        let waits = connections
            .iter_mut()
            .filter(|permit| permit.permit.is_none());
        for permit in waits {
            let _ = poll(pin!(permit.wait()));
        }
        connections
            .iter()
            .filter(|permit| permit.permit.is_some())
            .count()
    };
    assert_eq!(served(&mut connections), 1);
    table.resize(3);
    connections.extend(std::iter::from_fn(enter));
    assert_eq!((connections.len(), served(&mut connections)), (6, 3));
    table.resize(1);
    connections.retain(|permit| permit.permit.is_some());
    connections.truncate(2);
    assert!(table.enter(ip).is_none());
    connections.truncate(1);
    connections.extend(table.enter(ip));
    assert_eq!((connections.len(), served(&mut connections)), (2, 1));
}

#[test]
fn a_changed_keyed_limit_holds_for_keys_with_permits() {
    let table = KeyedLimit::new(1);
    let mut permits: Vec<_> = table.take(&"key").into_iter().collect();
    table.resize(2);
    permits.extend(table.take(&"key"));
    assert!(permits.len() == 2 && table.take(&"key").is_none());
    table.resize(1);
    permits.pop();
    assert!(table.take(&"key").is_none());
    permits.pop();
    assert!(table.take(&"key").is_some());
}

#[test]
fn resizes_beside_each_other_leave_the_size_of_the_last_one() {
    let limit = ProcessLimit::new(2);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300_000 {
                    limit.resize(usize::MAX);
                    limit.resize(2);
                }
            });
        }
    });
    limit.resize(3);
    assert_eq!((limit.free(), limit.used(), limit.debt()), (3, 0, 0));
}
