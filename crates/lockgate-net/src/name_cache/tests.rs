//! Names and their addresses, with a scripted resolver.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(test)
}

fn addresses(list: &[&str]) -> Vec<IpAddr> {
    list.iter()
        .map(|address| address.parse().unwrap())
        .collect()
}

/// Answers 192.0.2.1, 192.0.2.2 and so on, one after the other; returns the number of queries.
fn counting() -> (Arc<NameCache>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let names = NameCache::asking(Box::new(move |_| {
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(vec![IpAddr::from([
            192,
            0,
            2,
            u8::try_from(number).unwrap(),
        ])])
    }));
    (names, asked)
}

#[test]
fn a_resolved_name_is_cached_up_to_the_requested_age() {
    block_on(async {
        let (names, asked) = counting();
        let first = names.look_up("a.test", HOUR, ()).await.unwrap();
        assert_eq!(*first, addresses(&["192.0.2.1"])[..]);
        assert_eq!(names.look_up("a.test", HOUR, ()).await.unwrap(), first);
        assert_eq!(names.known("a.test", HOUR), Some(Ok(first)));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let second = names.look_up("a.test", Duration::ZERO, ()).await.unwrap();
        assert_eq!(*second, addresses(&["192.0.2.2"])[..]);
    });
}

#[test]
fn an_abandoned_lookup_keeps_its_slot_until_the_resolver_answers() {
    block_on(async {
        let (go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let names = NameCache::asking(Box::new(move |_| {
            wait.lock().unwrap().recv().unwrap();
            Ok(addresses(&["192.0.2.1"]))
        }));
        let place = Arc::new(());
        drop(names.begin("a.test", HOUR, Arc::clone(&place)));
        assert_eq!(Arc::strong_count(&place), 2);
        go.send(()).unwrap();
        names.look_up("a.test", HOUR, ()).await.unwrap();
        assert_eq!(Arc::strong_count(&place), 1);
    });
}

#[test]
fn concurrent_lookups_of_a_name_share_one_query() {
    block_on(async {
        let (go, wait) = mpsc::channel::<()>();
        let (wait, asked) = (Mutex::new(wait), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&asked);
        let names = NameCache::asking(Box::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            wait.lock().unwrap().recv().unwrap();
            Ok(addresses(&["192.0.2.1"]))
        }));
        let begun: Vec<_> = (0..3).map(|_| names.begin("a.test", HOUR, ())).collect();
        go.send(()).unwrap();
        for one in begun {
            let StartedLookup::Asked(mut answer) = one else {
                panic!("nothing is known yet")
            };
            assert!(
                answer
                    .wait_for(Option::is_some)
                    .await
                    .unwrap()
                    .as_ref()
                    .unwrap()
                    .is_ok()
            );
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn failed_and_empty_lookups_are_cached_for_a_moment() {
    block_on(async {
        let names = NameCache::asking(Box::new(|host| match host {
            "empty.test" => Ok(Vec::new()),
            _ => Err(io::Error::other("no such host")),
        }));
        for (host, says) in [
            ("a.test", "no such host"),
            ("empty.test", "the name has no address"),
        ] {
            let error = names.look_up(host, HOUR, ()).await.unwrap_err();
            assert_eq!(error.to_string(), says);
            assert_eq!(names.known(host, HOUR), Some(Err(error)));
            assert_eq!(names.known(host, Duration::ZERO), None);
        }
    });
}

#[test]
fn an_unreachable_name_is_looked_up_again() {
    block_on(async {
        let (names, asked) = counting();
        let first = names.look_up("a.test", HOUR, ()).await.unwrap();
        // A fresh answer is not doubted: a client that retries again and again would otherwise send
        // as many queries to the name server.
        names.mark_unreachable("a.test");
        assert_eq!(names.known("a.test", HOUR), Some(Ok(first)));
        if let Some(NameEntry::Known { at, .. }) = names.kept().young.get_mut("a.test") {
            *at = at.checked_sub(AGAIN).expect("the host was started before");
        }
        names.mark_unreachable("a.test");
        assert_eq!(names.known("a.test", HOUR), None);
        names.look_up("a.test", HOUR, ()).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn the_name_cache_is_bounded() {
    let mut kept = NameGenerations::default();
    let known = || NameEntry::Known {
        found: Ok(distinct(addresses(&["192.0.2.1"]))),
        at: Instant::now(),
    };
    for number in 0..10 * KEPT {
        kept.keep(number.to_string().into(), known());
        assert!(kept.young.len() <= KEPT && kept.old.len() <= KEPT);
    }
    assert!(kept.known(&(10 * KEPT - 1).to_string(), HOUR).is_some());
    assert!(kept.known("0", HOUR).is_none());
}

#[test]
fn a_pending_lookup_is_not_evicted_from_the_cache() {
    let mut kept = NameGenerations::default();
    let (_tell, answer) = watch::channel(None);
    let (_done, job) = oneshot::channel();
    kept.keep("slow.test".into(), NameEntry::Asked { answer, _job: job });
    for number in 0..10 * KEPT {
        kept.keep(
            number.to_string().into(),
            NameEntry::Known {
                found: Err(NameError::Busy),
                at: Instant::now(),
            },
        );
    }
    assert!(matches!(
        kept.find("slow.test"),
        Some(NameEntry::Asked { .. })
    ));
}

#[test]
fn resolved_addresses_are_deduplicated_and_bounded() {
    let many: Vec<IpAddr> = (0..=255)
        .flat_map(|last| [IpAddr::from([192, 0, 2, last]); 2])
        .collect();
    let distinct = distinct(many);
    assert_eq!(distinct.len(), ADDRESSES);
    assert_eq!(distinct[1], IpAddr::from([192, 0, 2, 1]));
}

#[test]
fn the_system_resolver_knows_localhost() {
    block_on(async {
        let found = NameCache::new()
            .look_up("localhost", HOUR, ())
            .await
            .unwrap();
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    });
}
