//! Clients that open many streams and then stall: they hold little, and they time out.

use std::time::Duration;

use lockgate_testkit::h2::frame::{self, code, kind, setting};
use lockgate_testkit::h2::{GoAway, Peer};
use lockgate_testkit::{Lockgate, Origin, Serving, Wire, eventually};

use serde_json::Value;

use super::floods::{Probe, application, site, site_for};
use crate::scene::lockgate;

/// Requests that one connection begins.
const STREAMS: u32 = 100;
/// The memory that they may hold together.
const MEMORY: usize = 24 * 1024 * 1024;

/// An application with responses that are too large for any buffer.
fn large() -> Serving {
    let big = "x".repeat(8 * 1024 * 1024);
    Origin::tcp().answering(move |_| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{big}",
            big.len()
        )
        .into_bytes()
    })
}

fn start(attacked: &Serving, probed: &Serving) -> Lockgate {
    let rates = "rates = { min_in = \"1KB/s\", min_out = \"1KB/s\", grace = \"1s\" }\n";
    lockgate().start(&(rates.to_owned() + &site(attacked, probed)))
}

/// Waits until every stream has ended in some way, while others are served; checks what they cost.
fn ends(gate: &Lockgate, mut peer: Peer, before: usize, probe: Probe) {
    let mut ended = 0;
    while let Ok(Some(frame)) = peer.try_next() {
        if frame.kind == kind::RST_STREAM || frame.ends_stream() {
            ended += 1;
        }
        if ended == STREAMS {
            break;
        }
    }
    assert_eq!(ended, STREAMS);
    let port = peer.stream.local_address().port();
    eventually("every stream is told to be too slow", || {
        let slow = |line: &Value| line["client_port"] == port && line["cause"] == "too_slow";
        let count = gate.lines().iter().filter(|line| slow(line)).count();
        (count == STREAMS as usize).then_some(())
    });
    let more = gate.most_resident().saturating_sub(before);
    assert!(more < MEMORY, "{more} bytes");
    probe.stop();
    drop(peer);
    eventually("the application is let go", || {
        let requests = gate.sample("lockgate_requests_in_flight", &[]);
        (requests < 0.5).then_some(())
    });
}

/// CVE-2019-9511, CVE-2019-9517: responses held up by a closed window of each stream or of the
/// connection.
#[test]
fn closed_flow_control_windows_hold_little_memory_and_time_out() {
    let (attacked, probed) = (large(), application());
    let gate = start(&attacked, &probed);
    for window in [0, u32::MAX >> 1] {
        let probe = Probe::start(gate.address());
        let before = gate.resident();
        let mut peer = Peer::connect(gate.address());
        peer.settings(&[(setting::INITIAL_WINDOW_SIZE, window)]);
        for at in 0..STREAMS {
            peer.get(2 * at + 1, "/");
        }
        ends(&gate, peer, before, probe);
    }
}

/// "Slowloris" by streams: heads without their bodies.
#[test]
fn stalled_request_bodies_hold_little_memory_and_time_out() {
    let (attacked, probed) = (application(), application());
    let gate = start(&attacked, &probed);
    let probe = Probe::start(gate.address());
    let before = gate.resident();
    let mut peer = Peer::connect(gate.address());
    for at in 0..STREAMS {
        let head = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", "/"),
        ];
        peer.headers(2 * at + 1, &head, false);
    }
    ends(&gate, peer, before, probe);
}

/// Slow read (Shekyan 2012) with open windows: the memory is bounded by us, not by the client's
/// windows.
#[test]
fn slow_read_responses_hold_little_memory_and_time_out() {
    let (attacked, probed) = (large(), application());
    let gate = start(&attacked, &probed);
    let probe = Probe::start(gate.address());
    let before = gate.resident();
    let mut peer = Peer::connect(gate.address());
    peer.settings(&[(setting::INITIAL_WINDOW_SIZE, u32::MAX >> 1)]);
    peer.window_update(0, (u32::MAX >> 1) - 65_535);
    for at in 0..STREAMS {
        peer.get(2 * at + 1, "/");
    }
    let port = peer.stream.local_address().port();
    eventually("nothing goes on", || {
        (gate.sample("lockgate_requests_in_flight", &[]) < 1.5).then_some(())
    });
    let line = gate.line("a slow reader", |line| {
        line["client_port"] == port && line["cause"] == "too_slow"
    });
    assert_eq!(line["side"], "downstream", "{line}");
    eventually("its requests are logged with the same cause", || {
        let slow = |line: &&Value| {
            line["client_port"] == port && line["method"] == "GET" && line["cause"] == "too_slow"
        };
        let count = gate.lines().iter().filter(slow).count();
        (count == STREAMS as usize).then_some(())
    });
    let more = gate.most_resident().saturating_sub(before);
    assert!(more < MEMORY, "{more} bytes");
    probe.stop();
}

/// CVE-2019-9517: bodies for an application that reads none of them are held up to the window of
/// the connection, which is 8 MB.
#[test]
fn stalled_uploads_hold_no_more_than_the_connection_window() {
    // Its connections wait to be accepted for ever.
    let (deaf, probed) = (Origin::tcp(), application());
    let gate = lockgate().start(&site_for(&deaf.address(), &probed));
    let probe = Probe::start(gate.address());
    let before = gate.resident();
    let mut peer = Peer::connect(gate.address());
    // When nothing more is allowed, nothing comes any more.
    peer.stream.limit(Duration::from_secs(1));
    let settings = peer.read_until(kind::SETTINGS);
    let window = settings
        .settings()
        .find(|(id, _)| *id == setting::INITIAL_WINDOW_SIZE)
        .unwrap()
        .1;
    // Windows: of the connection, then of each stream.
    let mut allowed = [65_535, window, window, window, window];
    for stream in [1, 3, 5, 7] {
        let head = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", "/"),
        ];
        peer.headers(stream, &head, false);
    }
    loop {
        let open = (1..5).find(|at| allowed[*at].min(allowed[0]) >= 16_384);
        if let Some(at) = open {
            peer.data(2 * at as u32 - 1, [b'x'; 16_384], false);
            allowed[0] -= 16_384;
            allowed[at] -= 16_384;
            continue;
        }
        match peer.try_next() {
            Ok(Some(frame)) if frame.kind == kind::WINDOW_UPDATE => {
                allowed[frame.stream.div_ceil(2) as usize] += frame.number(0);
            }
            Ok(Some(frame)) => assert_ne!(frame.kind, kind::GOAWAY, "{frame:?}"),
            Ok(None) => panic!("the connection ends"),
            Err(_) => break,
        }
    }
    let more = gate.most_resident().saturating_sub(before);
    assert!(more < MEMORY, "{more} bytes");
    probe.stop();
}

/// RFC 7541 §4.2: our encoder decides how much it remembers for a client.
#[test]
fn a_huge_header_table_size_does_not_grow_our_encoder() {
    let (probed, reflecting) = (
        application(),
        Origin::tcp().answering(|request| {
            let path = request.first_line().split(' ').nth(1).unwrap_or_default();
            format!("HTTP/1.1 200 OK\r\nX-Path: {path}\r\nContent-Length: 0\r\n\r\n").into_bytes()
        }),
    );
    let gate = start(&reflecting, &probed);
    let mut peer = Peer::over(Wire::connect(gate.address()));
    peer.hello(&[(setting::HEADER_TABLE_SIZE, u32::MAX)]);
    let before = gate.resident();
    let long = "x".repeat(6_000);
    for at in 0..4_000 {
        peer.get(2 * at + 1, &format!("/{at}{long}"));
        // The response is not decoded here: only its arrival counts.
        while !peer.read().ends_stream() {}
    }
    let more = gate.most_resident().saturating_sub(before);
    assert!(more < 8 * 1024 * 1024, "{more} bytes");
}

/// RFC 9113 §5.1: frames for a closed stream are accepted for a while, since they may have been
/// under way. A client that goes on beyond that is an attacker, though each byte is within the
/// window of the connection.
#[test]
fn data_for_closed_streams_ends_the_connection() {
    const MOST: u32 = 512 * 1024 * 1024;
    let (attacked, probed) = (application(), application());
    let gate = lockgate().start(&site(&attacked, &probed));
    let probe = Probe::start(gate.address());
    let mut peer = Peer::connect(gate.address());
    // One stream keeps the connection from being idle, and one breaks the rules until it is reset.
    for stream in [1, 3] {
        let head = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", "/"),
        ];
        peer.headers(stream, &head, false);
    }
    peer.window_update(3, u32::MAX >> 1);
    let (mut allowed, mut sent, mut goaway) = (65_535, 0, None);
    while sent < MOST && goaway.is_none() {
        while allowed < 16_384 && goaway.is_none() {
            match peer.try_next() {
                Ok(Some(frame)) if frame.kind == kind::GOAWAY => goaway = Some(GoAway::of(&frame)),
                Ok(Some(frame)) if frame.kind == kind::WINDOW_UPDATE && frame.stream == 0 => {
                    allowed += frame.number(0);
                }
                Ok(Some(_)) => {}
                end => panic!("no goodbye: {end:?} behind {sent} bytes"),
            }
        }
        // A peer that has closed has sent its reason.
        let _ = peer.try_send(frame::frame(kind::DATA, 0, 3, [b'x'; 16_384]));
        allowed = allowed.saturating_sub(16_384);
        sent += 16_384;
    }
    let goaway = goaway.unwrap_or_else(|| panic!("{sent} bytes are taken"));
    assert_eq!(goaway.code, code::ENHANCE_YOUR_CALM, "{goaway:?}");
    probe.stop();
}
