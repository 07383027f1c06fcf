//! The prober against origins that are scripted check by check: that the next check has come says
//! that the last one was taken into account.

use std::time::Duration;

use lockgate_limits::member_set::MemberSet;
use lockgate_net::millis::Millis;
use lockgate_testkit::{DEADLINE, Origin, Wire};
use lockgate_upstream::{Endpoint, EndpointAddress, EndpointFailure, Preference, Settings};

use super::*;

fn check(kind: CheckKind) -> Check {
    let every = Duration::from_millis(1);
    Check {
        kind,
        port: None,
        tls: None,
        proxy_header: Vec::new(),
        every,
        timeout: DEADLINE,
        fall: 2,
        rise: 2,
    }
}

fn request() -> CheckKind {
    CheckKind::Http(HttpCheck {
        method: "GET".into(),
        path: "/".into(),
        statuses: vec![200..=299],
        body: None,
    })
}

fn endpoint(origin: &Origin) -> Arc<Endpoint> {
    let address = EndpointAddress::Ip(origin.socket_address());
    Arc::new(Endpoint::new(
        origin.address(),
        "127.0.0.1".into(),
        address,
        None,
    ))
}

fn pool(name: &str, endpoint: &Arc<Endpoint>) -> Arc<Pool> {
    let settings = Settings {
        name: name.to_owned(),
        ..Settings::default()
    };
    Arc::new(Pool::new(
        vec![Member::new(Arc::clone(endpoint), 1)],
        None,
        None,
        settings,
    ))
}

/// Reads the request of a check, and answers it when it is asked to.
fn next(origin: &Origin) -> Wire {
    let mut wire = origin.accept();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(wire.exactly(1));
    }
    wire
}

fn answer(mut wire: Wire, status: u16) {
    wire.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
    wire.rest();
}

#[test]
fn an_endpoint_falls_and_rises_by_what_it_answers() {
    let origin = Origin::tcp();
    let endpoint = endpoint(&origin);
    let pool = pool("app", &endpoint);
    let mut prober = Prober::default();
    prober.watch(&pool, check(request()));
    let statuses = prober.statuses();
    let before = statuses.now().remove(0);
    assert_eq!(
        (before.pool.as_str(), before.endpoint),
        ("app", origin.address())
    );
    assert_eq!((before.up, before.took, before.why), (true, None, None));
    let probing = prober.start().unwrap();
    let mut wire = next(&origin);
    endpoint.failed(EndpointFailure::Unreachable, Millis::ZERO, None, || false);
    for (status, up, why) in [
        (200, true, None),
        (500, true, Some("status 500")),
        (200, true, None),
        (500, true, Some("status 500")),
        (503, false, Some("status 503")),
        (200, false, None),
        (200, true, None),
    ] {
        assert!(
            endpoint.is_avoided(Millis::ZERO),
            "what requests met is forgiven when it rises, not before"
        );
        answer(wire, status);
        wire = next(&origin);
        let now = statuses.now().remove(0);
        assert_eq!(
            (now.up, now.why.as_ref().map(|why| why.as_str())),
            (up, why),
            "after {status}"
        );
        assert!(now.took.is_some());
        assert_eq!(
            pool.choose(Preference::Any, MemberSet::default(), 0, Millis::ZERO)
                .is_some(),
            up
        );
    }
    assert!(!endpoint.is_avoided(Millis::ZERO));
    drop(probing);
    // The check that was under way ends with the thread.
    wire.rest();
}

#[test]
fn one_endpoint_in_two_pools_is_checked_for_each() {
    let origin = Origin::tcp();
    let endpoint = endpoint(&origin);
    let (strict, lenient) = (pool("strict", &endpoint), pool("lenient", &endpoint));
    let mut prober = Prober::default();
    prober.watch(&strict, check(request()));
    prober.watch(&lenient, check(CheckKind::Tcp(TcpCheck::default())));
    let statuses = prober.statuses();
    let _probing = prober.start().unwrap();
    let answering = origin.serve(|wire| {
        let mut byte = [0];
        // Those that only connect send nothing.
        if matches!(io::Read::read(wire, &mut byte), Ok(1)) {
            wire.send("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n");
            wire.rest();
        }
    });
    lockgate_testkit::eventually("both were checked", || {
        let now = statuses.now();
        (now.iter().all(|status| status.took.is_some()) && answering.accepted() > 6).then_some(())
    });
    assert_eq!(
        statuses
            .now()
            .iter()
            .map(|status| status.up)
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert!(
        strict
            .choose(Preference::Any, MemberSet::default(), 0, Millis::ZERO)
            .is_none()
            && lenient
                .choose(Preference::Any, MemberSet::default(), 0, Millis::ZERO)
                .is_some()
    );
}

#[test]
fn nothing_to_check_takes_no_thread() {
    assert!(Prober::default().start().unwrap().is_none());
}
