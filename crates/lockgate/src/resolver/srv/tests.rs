//! Records that come and go, and the members of a pool that follow them.

use std::sync::atomic::{AtomicBool, Ordering};

use lockgate_limits::member_set::MemberSet;
use lockgate_net::millis::Millis;
use lockgate_upstream::{Balance, Preference, Settings};

use super::*;

/// A service with a pool of its own, in which connections are kept for a minute.
fn service() -> (SrvService, Arc<Pool>) {
    let mut service = SrvService::new("_app._tcp.test", None);
    let members = service.endpoints().into_iter().map(|endpoint| {
        let member = Member::new(endpoint, 1).as_backup();
        member.mark_down();
        member
    });
    let pool = Pool::new(
        members.collect(),
        Some(Balance::RoundRobin),
        None,
        Settings::default(),
    );
    let pool = Arc::new(pool);
    service.set_pools(vec![ServicePool::new(&pool, MemberIndex::new(0), false)]);
    (service, pool)
}

fn record(priority: u16, weight: u16, port: u16) -> ResolvedRecord {
    let srv = Srv {
        priority,
        weight,
        port,
        target: "a.test".into(),
    };
    (srv, vec![SocketAddr::from(([10, 0, 0, 1], port))])
}

/// The ports of members that are up, with a mark behind backups, in the order of their slots.
fn up(pool: &Pool) -> Vec<String> {
    let members = pool.members().iter().filter(|member| member.is_up());
    let shown = members.map(|member| {
        let targets = member.endpoint().address().targets();
        let port = match &targets[..] {
            [lockgate_net::dial::DialTarget::Tcp(address)] => address.port(),
            other => panic!("{other:?}"),
        };
        format!("{port}{}", if member.is_backup() { "b" } else { "" })
    });
    shown.collect()
}

/// The indexes of members in the order in which the pool chooses them.
fn chosen(pool: &Pool, count: usize) -> Vec<usize> {
    (0..count)
        .map(|_| {
            pool.choose(Preference::Any, MemberSet::default(), 0, Millis::ZERO)
                .unwrap()
                .0
                .get()
        })
        .collect()
}

#[test]
fn those_of_the_best_priority_serve_by_their_weights_and_others_are_backups() {
    let (mut service, pool) = service();
    assert!(
        up(&pool).is_empty()
            && pool
                .choose(Preference::Any, MemberSet::default(), 0, Millis::ZERO)
                .is_none()
    );
    service.publish(
        vec![record(5, 9, 3), record(1, 1, 1), record(1, 3, 2)],
        Instant::now(),
    );
    assert_eq!(up(&pool), ["1", "2", "3b"]);
    let turns = chosen(&pool, 40);
    let count = |place| turns.iter().filter(|chosen| **chosen == place).count();
    assert_eq!([0, 1, 2].map(count), [10, 30, 0]);
    // RFC 2782: of two with weight 0 each has its share, and beside others nearly none.
    service.publish(vec![record(1, 0, 1), record(1, 0, 2)], Instant::now());
    let turns = chosen(&pool, 10);
    assert_eq!(turns.iter().filter(|chosen| **chosen == 0).count(), 5);
    // The remaining best priority serves; the order is no change.
    service.publish(vec![record(5, 9, 3), record(7, 1, 2)], Instant::now());
    assert_eq!(up(&pool), ["2b", "3"]);
}

#[test]
fn a_pool_always_has_a_member_while_records_replace_each_other() {
    let (mut service, pool) = service();
    let start = Instant::now();
    service.publish(vec![record(0, 1, 1)], start);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let looks = threads.spawn(|| {
            let has_member = || {
                pool.choose(Preference::Any, MemberSet::default(), 0, Millis::ZERO)
                    .is_some()
            };
            // A member that comes up behind the search is found by the next one: requests
            // search again.
            while !done.load(Ordering::Relaxed) {
                assert!(has_member() || has_member());
            }
        });
        for turn in 1..2_000_u16 {
            let now = start + Duration::from_secs(100) * turn.into();
            service.publish(
                vec![record(turn % 3, 1, turn % 2), record(2, 1, turn % 2 + 2)],
                now,
            );
        }
        done.store(true, Ordering::Relaxed);
        looks.join().unwrap();
    });
}

#[test]
fn a_slot_gets_another_record_only_when_no_connection_can_be_kept() {
    let (mut service, pool) = service();
    let start = Instant::now();
    let all = |from: u16| {
        (from..from + 32)
            .map(|port| record(0, 1, port))
            .collect::<Vec<_>>()
    };
    service.publish(all(100), start);
    assert_eq!(up(&pool).len(), 32);
    let busy = pool.members()[0].endpoint().begin_request();
    // All old records are gone; no slot is free yet.
    let later = |seconds| start + Duration::from_secs(seconds);
    service.publish(all(200), later(1));
    assert!(up(&pool).is_empty());
    service.publish(all(200), later(62));
    assert!(up(&pool).is_empty());
    service.publish(all(200), later(64));
    let there = up(&pool);
    assert_eq!(
        (there.len(), there[0].as_str(), pool.members()[0].is_up()),
        (31, "200", false)
    );
    // The first slot had an exchange: the time counts from its end.
    drop(busy);
    service.publish(all(200), later(70));
    service.publish(all(200), later(131));
    assert_eq!(up(&pool).len(), 31);
    service.publish(all(200), later(133));
    assert_eq!((up(&pool).len(), up(&pool)[0].as_str()), (32, "231"));
}

#[test]
fn a_record_whose_host_does_not_resolve_stays_where_it_was_and_is_nowhere_if_it_is_new() {
    let (mut service, pool) = service();
    let lost = |port| (record(0, 1, port).0, Vec::new());
    service.publish(vec![record(0, 1, 1), lost(2)], Instant::now());
    assert_eq!(up(&pool), ["1"]);
    service.publish(vec![lost(1), record(0, 1, 2)], Instant::now());
    assert_eq!(up(&pool), ["1", "2"]);
    // RFC 2782: decidedly not available.
    service.publish(Vec::new(), Instant::now());
    assert!(
        up(&pool).is_empty()
            && pool
                .members()
                .iter()
                .all(|member| member.endpoint().is_vacant())
    );
}

#[test]
fn what_was_taken_down_by_checks_stays_down_while_its_record_stays() {
    let (mut service, pool) = service();
    service.publish(vec![record(0, 1, 1), record(0, 1, 2)], Instant::now());
    pool.members()[0].mark_down();
    service.publish(vec![record(0, 2, 1), record(0, 1, 2)], Instant::now());
    assert_eq!(up(&pool), ["2"]);
}

#[test]
fn whom_a_client_belongs_to_does_not_hang_on_the_place_that_a_record_has() {
    let ((mut one, first), (mut other, second)) = (service(), service());
    one.publish(
        (1..=8).map(|port| record(0, 1, port)).collect(),
        Instant::now(),
    );
    other.publish(vec![record(0, 1, 8), record(0, 1, 7)], Instant::now());
    other.publish(
        (1..=8).map(|port| record(0, 1, port)).collect(),
        Instant::now(),
    );
    let whose = |pool: &Pool, hash: u64| {
        let (place, _) = pool
            .choose(
                Preference::Hashed(hash),
                MemberSet::default(),
                0,
                Millis::ZERO,
            )
            .unwrap();
        format!(
            "{:?}",
            pool.member(place).unwrap().endpoint().address().targets()
        )
    };
    for hash in (0..64_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        assert_eq!(whose(&first, hash), whose(&second, hash));
    }
}
