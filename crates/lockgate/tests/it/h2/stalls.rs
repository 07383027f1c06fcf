//! Clients that begin much and let it lie: what they hold is little, and it ends.

use lockgate_testkit::h2::Peer;
use lockgate_testkit::h2::frame::{kind, setting};
use lockgate_testkit::{Lockgate, Origin, Serving, eventually};

use serde_json::Value;

use super::floods::Probe;
use super::plain_site;
use crate::scene::lockgate;

/// Requests that one connection begins.
const STREAMS: u32 = 100;
/// What they may hold together.
const MEMORY: usize = 24 * 1024 * 1024;

/// An application whose `/big` is too much for any buffer.
fn application() -> Serving {
    let big = "x".repeat(8 * 1024 * 1024);
    Origin::tcp().answering(move |request| match request.first_line() {
        "GET /probe HTTP/1.1" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
        _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{big}", big.len()).into_bytes(),
    })
}

fn start(origin: &Serving) -> Lockgate {
    let toml = "rates = { min_in = \"1KB/s\", min_out = \"1KB/s\", grace = \"1s\" }\n";
    lockgate().start(&(toml.to_owned() + &plain_site(origin.address())))
}

fn post(peer: &mut Peer, stream: u32) {
    let head = [(":method", "POST"), (":scheme", "http"), (":authority", "app.test"), (":path", "/probe")];
    peer.headers(stream, &head, false);
}

/// Waits until every stream has ended, each in whatever way, while others are served; checks what they cost.
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
    println!("{more} bytes");
    assert!(more < MEMORY, "{more} bytes");
    probe.stop();
    drop(peer);
    eventually("the application is let go", || {
        let requests = gate.sample("lockgate_requests_in_flight", &[]);
        (requests < 0.5).then_some(())
    });
}

/// CVE-2019-9517 and its kind: answers that nobody lets come.
#[test]
fn windows_that_never_open_hold_little_and_end() {
    let origin = application();
    let gate = start(&origin);
    for windows in
        [&[(setting::INITIAL_WINDOW_SIZE, 0)][..], &[(setting::INITIAL_WINDOW_SIZE, u32::MAX >> 1)]]
    {
        let probe = Probe::start(gate.address());
        let before = gate.resident();
        let mut peer = Peer::connect(gate.address());
        peer.settings(windows);
        for at in 0..STREAMS {
            peer.get(2 * at + 1, "/big");
        }
        ends(&gate, peer, before, probe);
    }
}

/// "Slowloris" by streams: heads whose bodies never come.
#[test]
fn bodies_that_never_come_hold_little_and_end() {
    let origin = application();
    let gate = start(&origin);
    let probe = Probe::start(gate.address());
    let before = gate.resident();
    let mut peer = Peer::connect(gate.address());
    for at in 0..STREAMS {
        post(&mut peer, 2 * at + 1);
    }
    ends(&gate, peer, before, probe);
}
