//! Failed responses: each is a failure of its kind, and the others are none.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_load::expect::{BodyCheck, Length};
use lockgate_load::profile::{Profile, RequestRates};
use lockgate_load::result::FailureKind;
use lockgate_load::schedule::RequestRate;
use lockgate_testkit::{Authority, Http, Origin, Serving, Tls, bytes, server_config};

use super::{PAGE, asks, at, counts, every_other, example, failures};
use crate::scene::deserted;

/// Two of four requests get a bad response: two failures.
fn assert_two_are(kind: FailureKind, bad: impl Fn(&mut Http) + Send + Sync + 'static) -> String {
    let server = every_other(bad);
    let mut options = asks(&[&at("http", &server)], 4);
    options.expect.body = BodyCheck::First;
    let counts = counts(&options);
    assert_eq!(
        failures(&counts),
        [(kind.name(), 2)],
        "{:?}",
        counts.examples
    );
    assert_eq!((counts.succeeded(), counts.failed.len()), (2, 2));
    // Nothing more was asked for on a connection on which something went wrong.
    assert_eq!((counts.opened, counts.reused), (3, 1));
    assert_eq!(server.accepted(), 4, "with that of the first answer");
    example(&counts, kind).to_owned()
}

/// The same, of a response behind which the server waits for the client to close.
fn assert_answer_is(kind: FailureKind, answer: impl AsRef<[u8]> + Send + Sync + 'static) -> String {
    assert_two_are(kind, move |http| {
        http.send(answer.as_ref());
        http.wait_closed();
    })
}

#[test]
fn a_malformed_response_is_garbage() {
    for answer in [
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH_9.6\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 11\r\n\r\n0123456789",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n0123456789",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n0123456789",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234567",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno field\r\n\r\n",
    ] {
        assert_answer_is(FailureKind::Garbage, answer);
    }
    assert_answer_is(FailureKind::Garbage, bytes(7, 4000));
}

#[test]
fn an_endless_head_or_chunk_is_garbage() {
    for (begin, again) in [
        ("", "x"),
        ("HTTP/1.1 200 OK\r\n", "Field: value\r\n"),
        ("HTTP/1.1 200 OK\r\nField: ", "x"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;",
            "x",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            "Field: value\r\n",
        ),
    ] {
        let more = again.repeat(1000);
        assert_two_are(FailureKind::Garbage, move |http| {
            http.send(begin);
            while http.stream.write_all(more.as_bytes()).is_ok() {}
        });
    }
}

#[test]
fn bytes_behind_a_response_are_a_length_failure() {
    let says = assert_answer_is(FailureKind::Length, format!("{PAGE}more"));
    assert!(says.contains("4 unexpected bytes"), "{says}");
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n";
    assert_answer_is(FailureKind::Length, format!("{chunked}{PAGE}"));
}

/// Bytes that come with the response or a moment later.
#[test]
fn late_bytes_behind_a_response_are_a_length_failure() {
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        while http.next_request().is_some() {
            http.send(PAGE);
            if place.fetch_add(1, Ordering::SeqCst) == 1 {
                http.send("more");
            }
        }
    });
    let mut options = asks(&[&at("http", &server)], 3);
    let rates = RequestRates::One(RequestRate::new(5.0).unwrap());
    options.timing.profile = Some(Profile {
        rates,
        step: None,
        every: None,
        hold: None,
        spike: None,
        duration: None,
    });
    let counts = counts(&options);
    assert_eq!(failures(&counts), [("length", 1)], "{:?}", counts.examples);
    assert!(example(&counts, FailureKind::Length).contains("4 unexpected bytes"));
}

/// The server may have closed it before the request came, or have dropped the request: nothing
/// tells which, so that it is a failure.
#[test]
fn a_request_on_a_connection_that_closes_counts_as_closed() {
    let server = Origin::tcp().serve(|wire| {
        let mut http = Http::over(wire.another());
        if http.next_request().is_some() {
            http.send(PAGE);
            http.next_request();
        }
    });
    let counts = counts(&asks(&[&at("http", &server)], 4));
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (2, vec![("closed", 2)])
    );
    let says = example(&counts, FailureKind::Closed);
    assert!(says.ends_with("that had carried 1 before"), "{says}");
}

#[test]
fn a_truncated_response_counts_as_closed() {
    for half in [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n012345678",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n01234",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n",
    ] {
        assert_two_are(FailureKind::Closed, move |http| http.send(half));
    }
    assert_two_are(FailureKind::Closed, |http| {
        http.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
        http.stream.another().reset();
    });
}

#[test]
fn a_different_page_is_a_failure() {
    let answered = |kind, answer: &str| {
        let closing = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        assert_two_are(kind, move |http| http.send(&closing))
    };
    let says = answered(
        FailureKind::Status,
        &PAGE.replace("200 OK", "404 Not Found"),
    );
    assert!(says.contains("404"), "{says}");
    let redirect = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 170\r\n\r\n{}",
        "x".repeat(170)
    );
    let says = answered(FailureKind::Length, &redirect);
    assert!(says.contains("170 bytes instead of 10"), "{says}");
    answered(FailureKind::Length, "HTTP/1.1 204 No Content\r\n\r\n");
    answered(FailureKind::Body, &PAGE.replace("0123", "4567"));
}

/// To open a connection for each of them would be another load than the configured one.
#[test]
fn a_connection_survives_an_unexpected_response() {
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().answering(move |_| match place.fetch_add(1, Ordering::SeqCst) {
        0 | 2 => PAGE.into(),
        1 => b"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\n0123456789".to_vec(),
        3 => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => PAGE.replace("01", "xx").into(),
    });
    let mut options = asks(&[&at("http", &server)], 4);
    options.expect.body = BodyCheck::First;
    let counts = counts(&options);
    assert_eq!(
        failures(&counts),
        [("status", 1), ("length", 1), ("body", 1)]
    );
    assert_eq!((counts.opened, counts.reused, server.accepted()), (1, 3, 2));
}

#[test]
fn a_response_is_checked_against_expect_options() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let mut options = asks(&[&at("http", &server)], 3);
    options.anyway = true;
    // That of "0123456789".
    let hash: [u8; 32] = [
        0x84, 0xd8, 0x98, 0x77, 0xf0, 0xd4, 0x04, 0x1e, 0xfb, 0x6b, 0xf9, 0x1a, 0x16, 0xf0, 0x24,
        0x8f, 0x2f, 0xd5, 0x73, 0xe6, 0xaf, 0x05, 0xc1, 0x9f, 0x96, 0xbe, 0xdb, 0x9f, 0x88, 0x2f,
        0x78, 0x82,
    ];
    for (length, body, status, expected) in [
        (
            Length::Exactly(10),
            BodyCheck::Sha256(hash),
            200..=200,
            None,
        ),
        (Length::Any, BodyCheck::Sha256(hash), 200..=200, None),
        (Length::First, BodyCheck::First, 100..=999, None),
        (
            Length::Exactly(9),
            BodyCheck::Any,
            200..=200,
            Some("length"),
        ),
        (
            Length::Exactly(10),
            BodyCheck::Sha256([0; 32]),
            200..=200,
            Some("body"),
        ),
        (Length::Any, BodyCheck::Any, 201..=299, Some("status")),
    ] {
        options.expect.length = length;
        options.expect.body = body;
        options.expect.status = vec![status];
        let counts = counts(&options);
        assert_eq!(
            failures(&counts),
            expected
                .map(|kind| (kind, 3))
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(counts.succeeded(), if expected.is_some() { 0 } else { 3 });
        assert_eq!(counts.statuses.get(&200), Some(&3));
    }
}

#[test]
fn a_stalled_server_costs_one_request() {
    for stalled in [
        "",
        "HTTP/1.1 200 O",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
    ] {
        let server = every_other(move |http| {
            http.send(stalled);
            http.wait_closed();
        });
        let mut options = asks(&[&at("http", &server)], 2);
        options.timing.timeout = Duration::from_secs(1);
        let counts = counts(&options);
        assert_eq!(
            (failures(&counts), counts.succeeded()),
            (vec![("timeout", 1)], 1),
            "{stalled}"
        );
        assert_eq!(counts.opened, 2);
    }
}

/// Bytes that never stop coming must not keep the others from their turn, nor the deadline from
/// being seen.
#[test]
fn an_endless_response_is_a_timeout() {
    for (head, again) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "body"),
        ("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1\r\nx\r\n",
        ),
    ] {
        let more = again.repeat(10_000);
        let server = every_other(move |http| {
            http.send(head);
            while http.stream.write_all(more.as_bytes()).is_ok() {}
        });
        let mut options = asks(&[&at("http", &server)], 2);
        options.timing.timeout = Duration::from_secs(1);
        let counts = counts(&options);
        assert_eq!(
            (failures(&counts), counts.succeeded()),
            (vec![("timeout", 1)], 1),
            "{again}"
        );
    }
}

/// After the first connection, every other one is not accepted as it should be.
fn every_other_connection(
    good: impl Fn(&mut lockgate_testkit::Wire) + Send + Sync + 'static,
    bad: impl Fn(&mut lockgate_testkit::Wire) + Send + Sync + 'static,
) -> Serving {
    let place = AtomicUsize::new(0);
    Origin::tcp().serve(move |wire| match place.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => good(wire),
        _ => bad(wire),
    })
}

#[test]
fn handshake_errors_are_tls_failures() {
    let authority = Authority::new("Test Authority");
    let served = server_config(&authority.issue(&["127.0.0.1"]), None);
    let page = move |wire: &mut lockgate_testkit::Wire| {
        let mut http = Http::over(Tls::accept(&served, wire.another()).unwrap());
        while http.next_request().is_some() {
            http.send(PAGE);
        }
    };
    let (good, plain) = (page.clone(), page);
    for (place, bad) in [
        // Not TLS at all; closed within; reset within.
        (|wire: &mut lockgate_testkit::Wire| {
            wire.send(PAGE);
            wire.wait_closed();
        }) as fn(&mut lockgate_testkit::Wire),
        |wire| {
            wire.exactly(100);
        },
        |wire| {
            wire.exactly(100);
            wire.another().reset();
        },
        |wire| {
            wire.send(b"\x15\x03\x03\x00\x02\x02\x28");
            wire.wait_closed();
        },
    ]
    .into_iter()
    .enumerate()
    {
        let server = every_other_connection(good.clone(), bad);
        let mut options = asks(&[&at("https", &server)], 4);
        options.connections.max_requests = Some(1);
        let counts = counts(&options);
        assert_eq!(
            (failures(&counts), counts.succeeded()),
            (vec![("tls", 2)], 2),
            "{place}: {:?}",
            counts.examples
        );
        // What was never ready is not counted as opened.
        assert_eq!(counts.opened, 2);
    }
    let server = every_other_connection(plain, |wire| wire.wait_closed());
    let mut options = asks(&[&at("https", &server)], 2);
    options.connections.max_requests = Some(1);
    options.timing.timeout = Duration::from_secs(1);
    let counts = counts(&options);
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![("timeout", 1)], 1)
    );
    assert!(example(&counts, FailureKind::Timeout).contains("connected"));
}

#[test]
fn a_tls_response_without_close_notify_is_truncated() {
    let authority = Authority::new("Test Authority");
    let served = server_config(&authority.issue(&["127.0.0.1"]), None);
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(Tls::accept(&served, wire.another()).unwrap());
        http.request();
        http.send("HTTP/1.1 200 OK\r\n\r\n0123456789");
        if place.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            http.stream.finish();
            http.wait_closed();
        }
    });
    let counts = counts(&asks(&[&at("https", &server)], 4));
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![("closed", 2)], 2),
        "{:?}",
        counts.examples
    );
}

#[test]
fn an_unreachable_server_counts_each_attempt() {
    let mut options = asks(&[&format!("http://{}", deserted())], 3);
    options.anyway = true;
    options.connections.number = 3;
    let counts = counts(&options);
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![("connect", 3)], 0)
    );
    assert_eq!((counts.opened, counts.sent, counts.received), (0, 0, 0));
    let says = example(&counts, FailureKind::Connect);
    assert!(says.contains("cannot connect"), "{says}");
}

/// The expectation from a server that was away at first is not its error response.
#[test]
fn a_failed_first_response_is_not_the_expectation() {
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().answering(move |_| match place.fetch_add(1, Ordering::SeqCst) {
        0 => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nlate".to_vec(),
        1 | 2 => PAGE.into(),
        // Held against the first that was right.
        3 => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate".to_vec(),
        _ => PAGE.replace("01", "xx").into(),
    });
    let mut options = asks(&[&at("http", &server)], 4);
    options.anyway = true;
    options.expect.body = BodyCheck::First;
    let counts = counts(&options);
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![("length", 1), ("body", 1)], 2)
    );
}
