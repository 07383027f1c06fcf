//! Names with a scripted resolver.

use super::refresh::{pause, publish_if_changed};
use super::*;
use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;

use lockgate_upstream::Random;
use tokio::sync::mpsc;

const QUICK: RefreshIntervals = RefreshIntervals {
    refresh: Duration::from_millis(2),
    least: Duration::from_millis(1),
};
const ONLY_WHEN_WOKEN: RefreshIntervals = RefreshIntervals {
    refresh: Duration::from_secs(3_600),
    least: Duration::from_millis(1),
};

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        timeout(Duration::from_secs(60), test)
            .await
            .expect("the test hangs")
    })
}

fn addresses(list: &[&str]) -> Vec<SocketAddr> {
    list.iter()
        .map(|address| address.parse().unwrap())
        .collect()
}

/// Answers as scripted (the last one again and again; an empty list is a failure) and says each
/// time that it did.
fn scripted(answers: &[&[&str]]) -> (LookupFn, mpsc::UnboundedReceiver<()>) {
    let script: VecDeque<Vec<SocketAddr>> =
        answers.iter().map(|answer| addresses(answer)).collect();
    let script = Mutex::new(script);
    let (asked, asks) = mpsc::unbounded_channel();
    let lookup: LookupFn = Arc::new(move |_| {
        let mut script = script.lock().unwrap();
        let answer = if script.len() > 1 {
            script.pop_front()
        } else {
            script.front().cloned()
        };
        let _ = asked.send(());
        Box::pin(async move {
            match answer.unwrap() {
                answer if answer.is_empty() => Err(io::Error::other("no such host")),
                answer => Ok(answer),
            }
        })
    });
    (lookup, asks)
}

/// Resolves the names of a first configuration.
fn start(
    resolver: EndpointResolver,
    lookup: LookupFn,
    intervals: RefreshIntervals,
) -> (Resolving, PreparedNames) {
    let resolving = Resolving {
        running: NameTable::default(),
        lookup,
        intervals,
    };
    let prepared = resolving.prepare(resolver);
    (resolving, prepared)
}

fn started(resolver: EndpointResolver, lookup: LookupFn, intervals: RefreshIntervals) -> Resolving {
    let (mut resolving, prepared) = start(resolver, lookup, intervals);
    resolving.commit(prepared);
    resolving
}

#[test]
fn a_name_is_resolved_before_the_start_goes_on() {
    block_on(async {
        let mut resolver = EndpointResolver::default();
        let name = resolver.register("app.internal", 8080);
        let (lookup, _asks) = scripted(&[&["10.0.0.1:8080"]]);
        let (_resolving, prepared) = start(resolver, lookup, ONLY_WHEN_WOKEN);
        prepared.first_answers(Duration::from_secs(60)).await;
        assert_eq!(**name.addresses(), addresses(&["10.0.0.1:8080"]));
    });
}

#[test]
fn a_name_that_fails_keeps_its_last_addresses_until_it_resolves_again() {
    block_on(async {
        let mut resolver = EndpointResolver::default();
        let name = resolver.register("app.internal", 1);
        let (lookup, mut asks) = scripted(&[&["10.0.0.1:1"], &[], &[], &["10.0.0.2:1"]]);
        let _resolving = started(resolver, lookup, QUICK);
        for expected in ["10.0.0.1:1", "10.0.0.1:1", "10.0.0.1:1", "10.0.0.2:1"] {
            asks.recv().await.unwrap();
            assert_eq!(**name.addresses(), addresses(&[expected]));
        }
    });
}

#[test]
fn a_worker_that_cannot_connect_has_the_name_resolved_at_once() {
    block_on(async {
        let mut resolver = EndpointResolver::default();
        let name = resolver.register("app.internal", 1);
        let (lookup, mut asks) = scripted(&[&["10.0.0.1:1"], &["10.0.0.2:1"]]);
        let _resolving = started(resolver, lookup, ONLY_WHEN_WOKEN);
        asks.recv().await.unwrap();
        let worker = Arc::clone(&name);
        std::thread::spawn(move || (0..100).for_each(|_| worker.failed()))
            .join()
            .unwrap();
        asks.recv().await.unwrap();
        assert_eq!(**name.addresses(), addresses(&["10.0.0.2:1"]));
        assert!(
            asks.try_recv().is_err(),
            "a hundred failures are one reason to look"
        );
    });
}

#[test]
fn one_name_that_hangs_holds_up_neither_the_others_nor_the_start() {
    block_on(async {
        let mut resolver = EndpointResolver::default();
        let (good, bad) = (resolver.register("good", 1), resolver.register("bad", 1));
        let (answer, mut asks) = scripted(&[&["10.0.0.1:1"]]);
        let lookup: LookupFn = Arc::new(move |name| match name.host() {
            "bad" => Box::pin(std::future::pending()),
            _ => answer(name),
        });
        let (_resolving, prepared) = start(resolver, lookup, QUICK);
        prepared.first_answers(Duration::from_millis(1)).await;
        asks.recv().await.unwrap();
        assert_eq!(good.addresses().len(), 1);
        assert!(bad.addresses().is_empty());
    });
}

#[test]
fn the_same_host_and_port_are_one_name() {
    let mut resolver = EndpointResolver::default();
    let one = resolver.register("app.internal", 1);
    assert!(Arc::ptr_eq(&one, &resolver.register("app.internal", 1)));
    assert!(!Arc::ptr_eq(&one, &resolver.register("app.internal", 2)));
}

#[test]
fn nothing_to_resolve_starts_at_once() {
    block_on(async {
        Resolving::default()
            .prepare(EndpointResolver::default())
            .first_answers(Duration::from_secs(3_600))
            .await
    });
}

#[test]
fn the_system_knows_localhost() {
    block_on(async {
        let mut resolver = EndpointResolver::default();
        let name = resolver.register("localhost", 80);
        let prepared = Resolving::default().prepare(resolver);
        prepared.first_answers(Duration::from_secs(60)).await;
        let found = name.addresses();
        assert!(!found.is_empty());
        assert!(
            found
                .iter()
                .all(|address| address.ip().is_loopback() && address.port() == 80),
            "{found:?}"
        );
    });
}

#[test]
fn another_order_is_not_another_answer() {
    let name = EndpointName::new("app.internal", 1, || {});
    publish_if_changed(&name, addresses(&["10.0.0.1:1", "10.0.0.2:1"]));
    let first = Arc::clone(&name.addresses());
    publish_if_changed(
        &name,
        addresses(&["10.0.0.2:1", "10.0.0.1:1", "10.0.0.2:1"]),
    );
    assert!(Arc::ptr_eq(&first, &name.addresses()));
    publish_if_changed(&name, addresses(&["10.0.0.2:1"]));
    assert_eq!(**name.addresses(), addresses(&["10.0.0.2:1"]));
}

#[test]
fn failures_back_off_up_to_the_refresh() {
    let random = Random::seeded(1);
    let seconds = |failures| pause(&random, failures, INTERVALS).as_secs();
    assert_eq!(
        [1, 2, 3, 4, 5, 6, 7, 32, 33, u32::MAX].map(seconds),
        [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]
    );
    assert_ne!(pause(&random, 0, INTERVALS), pause(&random, 0, INTERVALS));
}

mod reloads;
