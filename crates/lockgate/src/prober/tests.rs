//! The prober against origins that are scripted check by check: that the next check has come says
//! that the last one was taken into account.

use std::time::Duration;

use lockgate_limits::member_set::MemberSet;
use lockgate_net::millis::Millis;
use lockgate_net::tls::{CaSource, ClientSettings, Connector};
use lockgate_testkit::{Authority, DEADLINE, Folder, Origin, Wire};
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

/// Begins with the checks of a first configuration.
fn start(prober: Prober) -> Probing {
    let mut probing = Probing::default();
    take_over(&mut probing, prober);
    probing
}

fn take_over(probing: &mut Probing, prober: Prober) {
    let prepared = probing.prepare(prober).unwrap();
    probing.commit(prepared);
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
    let probing = start(prober);
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
    let _probing = start(prober);
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
    let origin = Origin::tcp();
    let mut probing = start(Prober::default());
    assert!(probing.thread.is_none());
    // The first probe may come with a reload, and the last one leave with one.
    let mut prober = Prober::continuing(&probing);
    prober.watch(&pool("app", &endpoint(&origin)), check(request()));
    take_over(&mut probing, prober);
    assert!(probing.thread.is_some());
    let mut wire = next(&origin);
    let none = Prober::continuing(&probing);
    take_over(&mut probing, none);
    assert!(probing.thread.is_none());
    wire.rest();
}

/// The state of a member by its pool.
fn is_up(pool: &Pool) -> bool {
    pool.members()[0].is_up()
}

#[test]
fn an_endpoint_keeps_its_health_in_the_next_pool_of_the_same_name() {
    let origin = Origin::tcp();
    let endpoint = endpoint(&origin);
    let old = pool("app", &endpoint);
    let mut prober = Prober::default();
    prober.watch(&old, check(request()));
    let mut probing = start(prober);
    answer(next(&origin), 200);
    answer(next(&origin), 500);
    let wire = next(&origin);

    let new = pool("app", &endpoint);
    let mut prober = Prober::continuing(&probing);
    prober.watch(&new, check(request()));
    let statuses = prober.statuses();
    let prepared = probing.prepare(prober).unwrap();
    // The second failure in a row comes between the assembly and the commit.
    answer(wire, 500);
    let wire = next(&origin);
    assert!(!is_up(&old) && is_up(&new), "nothing is taken over so far");
    probing.commit(prepared);
    assert!(!is_up(&new));
    let gone = Arc::downgrade(&old);
    drop(old);
    assert!(gone.upgrade().is_none(), "the old pool is freed");
    let now = statuses.now().remove(0);
    assert_eq!(
        (now.up, now.why.as_ref().map(|why| why.as_str())),
        (false, Some("status 500"))
    );
    // The check that was under way counts: with the next one two have succeeded.
    answer(wire, 200);
    let wire = next(&origin);
    assert!(!is_up(&new));
    answer(wire, 200);
    let _wire = next(&origin);
    assert!(is_up(&new) && statuses.now().remove(0).up);
}

#[test]
fn a_pool_that_stays_is_checked_as_before() {
    let origin = Origin::tcp();
    let pool = pool("app", &endpoint(&origin));
    let mut prober = Prober::default();
    prober.watch(&pool, check(request()));
    let mut probing = start(prober);
    answer(next(&origin), 500);
    let wire = next(&origin);
    assert!(!is_up(&pool));
    let mut prober = Prober::continuing(&probing);
    prober.watch(&pool, check(request()));
    take_over(&mut probing, prober);
    answer(wire, 200);
    let _wire = next(&origin);
    assert!(is_up(&pool));
}

#[test]
fn another_check_begins_anew_and_the_old_one_ends() {
    let origin = Origin::tcp();
    let endpoint = endpoint(&origin);
    let old = pool("app", &endpoint);
    let mut prober = Prober::default();
    prober.watch(&old, check(request()));
    let mut probing = start(prober);
    answer(next(&origin), 500);
    let mut wire = next(&origin);
    let new = pool("app", &endpoint);
    let mut prober = Prober::continuing(&probing);
    let other = Check {
        rise: 3,
        ..check(request())
    };
    prober.watch(&new, other.clone());
    let statuses = prober.statuses();
    take_over(&mut probing, prober);
    wire.rest();
    let now = statuses.now().remove(0);
    assert_eq!((now.up, now.took), (true, None));
    answer(next(&origin), 500);
    let _wire = next(&origin);
    assert!(!is_up(&new));

    // A member that is assembled as down comes up with its first success.
    let down = pool("other", &endpoint);
    down.members()[0].mark_down();
    let mut prober = Prober::continuing(&probing);
    prober.watch(&down, other);
    take_over(&mut probing, prober);
    answer(next(&origin), 200);
    let _wire = next(&origin);
    assert!(is_up(&down));
}

#[test]
fn prepared_probes_that_are_dropped_change_nothing() {
    let origin = Origin::tcp();
    let endpoint = endpoint(&origin);
    let old = pool("app", &endpoint);
    let mut prober = Prober::default();
    prober.watch(&old, check(request()));
    let probing = start(prober);
    let wire = next(&origin);
    let new = pool("app", &endpoint);
    let mut prober = Prober::continuing(&probing);
    prober.watch(&new, check(request()));
    prober.watch(&pool("more", &endpoint), check(request()));
    drop(probing.prepare(prober).unwrap());
    answer(wire, 500);
    let wire = next(&origin);
    assert!(!is_up(&old) && is_up(&new));
    answer(wire, 200);
    let _wire = next(&origin);
    assert!(is_up(&old));
}

#[test]
fn checks_are_equal_by_their_settings_and_their_connector() {
    let (authority, folder) = (Authority::new("ours"), Folder::new());
    let file = folder.write("ca.pem", authority.pem());
    let connector = || {
        let settings = ClientSettings::new(CaSource::File(file.clone()));
        Some(Arc::new(Connector::new(settings).unwrap()))
    };
    let base = check(request());
    assert!(base == base.clone());
    let tls = Check {
        tls: connector(),
        ..base.clone()
    };
    assert!(tls == tls.clone());
    let others = [
        tls.clone(),
        Check {
            tls: connector(),
            ..base.clone()
        },
        check(CheckKind::Tcp(TcpCheck::default())),
        Check {
            port: Some(1),
            ..base.clone()
        },
        Check {
            proxy_header: b"PROXY".to_vec(),
            ..base.clone()
        },
        Check {
            every: DEADLINE,
            ..base.clone()
        },
        Check {
            timeout: Duration::ZERO,
            ..base.clone()
        },
        Check {
            fall: 9,
            ..base.clone()
        },
        Check {
            rise: 9,
            ..base.clone()
        },
    ];
    for other in &others {
        assert!(base != *other, "{other:?}");
    }
    assert!(others[0] != others[1], "each has a connector of its own");
}
