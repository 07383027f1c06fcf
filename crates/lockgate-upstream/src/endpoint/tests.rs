//! Counts and limits of an endpoint.

use std::pin::{Pin, pin};
use std::sync::atomic::AtomicBool;
use std::task::{Context, Waker};

use super::*;

fn endpoint(max: Option<usize>) -> Arc<Endpoint> {
    let address = EndpointAddress::Ip("127.0.0.1:1".parse().unwrap());
    Arc::new(Endpoint::new(
        "127.0.0.1:1".into(),
        "127.0.0.1".into(),
        address,
        max,
    ))
}

#[test]
fn endpoint_connection_and_exchange_counts_are_given_back() {
    let endpoint = endpoint(Some(1));
    let (permit, exchange) = (endpoint.try_take(), endpoint.begin_request());
    assert!(permit.is_some() && endpoint.try_take().is_none());
    assert_eq!((endpoint.connections(), endpoint.in_flight()), (1, 1));
    drop((permit, exchange));
    assert_eq!((endpoint.connections(), endpoint.in_flight()), (0, 0));
    assert!(endpoint.try_take().is_some());
}

#[test]
fn a_changed_max_counts_all_requests_in_flight() {
    let endpoint = endpoint(None);
    let begin = || {
        let permit = endpoint.try_take()?;
        let request = permit.begin_request();
        Some((request, permit))
    };
    // Without a max, with a smaller one, a larger one, and again without.
    let mut before: Vec<_> = (0..3).filter_map(|_| begin()).collect();
    endpoint.set_max(Some(2));
    assert!(endpoint.is_full() && begin().is_none());
    before.pop();
    assert!(endpoint.is_full() && begin().is_none());
    endpoint.set_max(Some(4));
    let mut limited: Vec<_> = std::iter::from_fn(begin).collect();
    assert_eq!((limited.len(), endpoint.in_flight()), (2, 4));
    before.pop();
    limited.extend(begin());
    assert_eq!((limited.len(), endpoint.in_flight()), (3, 4));
    endpoint.set_max(None);
    before.extend((0..5).filter_map(|_| begin()));
    assert_eq!((endpoint.is_full(), endpoint.in_flight()), (false, 9));
    // Permits that were taken before count as well.
    endpoint.set_max(Some(10));
    limited.extend(std::iter::from_fn(begin));
    assert_eq!((limited.len(), endpoint.in_flight()), (4, 10));
    drop(before);
    limited.extend(std::iter::from_fn(begin));
    assert_eq!((limited.len(), endpoint.in_flight()), (10, 10));
    drop(limited);
    assert_eq!((endpoint.in_flight(), endpoint.connections()), (0, 0));
}

#[test]
fn waits_for_a_permit_end_where_max_grows_or_goes() {
    let endpoint = endpoint(Some(1));
    let poll = |wait: Pin<&mut dyn Future<Output = EndpointPermit>>| {
        wait.poll(&mut Context::from_waker(Waker::noop()))
    };
    let taken = endpoint.try_take();
    let (mut first, mut second) = (pin!(endpoint.take()), pin!(endpoint.take()));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    endpoint.set_max(Some(2));
    assert!(poll(second.as_mut()).is_pending());
    let first = poll(first.as_mut());
    assert!(first.is_ready());
    endpoint.set_max(Some(1));
    assert!(poll(second.as_mut()).is_pending());
    endpoint.set_max(None);
    assert!(poll(second.as_mut()).is_ready() && !endpoint.is_full());
    drop((taken, first));
}

#[test]
fn a_max_holds_after_it_was_changed_beside_requests() {
    let endpoint = endpoint(None);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let taken: Vec<_> = std::iter::from_fn(|| endpoint.try_take())
                        .take(3)
                        .map(|permit| (permit.begin_request(), permit))
                        .collect();
                    drop(taken);
                }
            });
        }
        for turn in 0..5_000 {
            endpoint.set_max([None, Some(2), Some(5)][turn % 3]);
        }
        done.store(true, Ordering::Relaxed);
    });
    endpoint.set_max(Some(4));
    assert_eq!(
        std::iter::from_fn(|| endpoint.try_take())
            .take(9)
            .collect::<Vec<_>>()
            .len(),
        4
    );
}

#[test]
fn a_reset_raises_endpoint_latency_and_unreachability_forgets_it() {
    let (endpoint, tenth) = (endpoint(None), Duration::from_millis(100));
    endpoint.record_response(tenth, Millis::ZERO);
    endpoint.failed(EndpointFailure::Reset, Millis::ZERO, None, || false);
    assert_eq!(endpoint.latency().now(Millis::ZERO), Some(5e5));
    endpoint.failed(EndpointFailure::Reset, Millis::ZERO, None, || false);
    assert_eq!(endpoint.latency().now(Millis::ZERO), Some(1e6));
    for _ in 0..100 {
        endpoint.failed(EndpointFailure::Reset, Millis::ZERO, None, || false);
    }
    assert_eq!(
        endpoint.latency().now(Millis::ZERO),
        Some(5e6),
        "it is no worse for failing more often"
    );
    endpoint.failed(EndpointFailure::Unreachable, Millis::ZERO, None, || false);
    assert_eq!(endpoint.latency().now(Millis::ZERO), None);
    endpoint.record_wait(tenth, Millis::ZERO);
    assert_eq!(endpoint.latency().now(Millis::ZERO), Some(1e5));
    endpoint.reset_history();
    assert!(endpoint.latency().now(Millis::ZERO).is_none() && !endpoint.is_avoided(Millis::ZERO));
}

#[test]
fn an_ejected_endpoint_returns_without_history() {
    let (endpoint, eject) = (
        endpoint(None),
        Some(Eject {
            errors: 2,
            time: Duration::from_millis(500),
            ..Eject::default()
        }),
    );
    endpoint.record_response(Duration::from_millis(1), Millis::ZERO);
    assert!(!endpoint.failed(EndpointFailure::Unserved, Millis::ZERO, eject, || true));
    assert!(endpoint.ejections() == 0 && endpoint.latency().now(Millis::ZERO).is_some());
    assert!(
        endpoint.failed(EndpointFailure::Unserved, Millis::new(7), eject, || true)
            && endpoint.is_ejected(Millis::new(7))
    );
    assert_eq!(
        (
            endpoint.ejections(),
            endpoint.ejection_end(),
            endpoint.latency().now(Millis::new(7))
        ),
        (1, Millis::new(507), None)
    );
    // After an early end of an ejection the caller decides how slowly the endpoint returns.
    endpoint.reset_history();
    assert_eq!(
        (
            endpoint.ejections(),
            endpoint.ejection_end(),
            endpoint.is_ejected(Millis::new(7))
        ),
        (1, Millis::ZERO, false)
    );
}
