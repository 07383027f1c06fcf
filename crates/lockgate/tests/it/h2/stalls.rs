//! Clients that begin much and let it lie: what they hold is little, and it ends.

use lockgate_testkit::h2::Peer;
use lockgate_testkit::h2::frame::{kind, setting};
use lockgate_testkit::{Lockgate, Origin, Serving, eventually};

use serde_json::Value;

use super::floods::{Probe, application, site};
use crate::scene::lockgate;

/// Requests that one connection begins.
const STREAMS: u32 = 100;
/// What they may hold together.
const MEMORY: usize = 24 * 1024 * 1024;

/// An application whose answers are too much for any buffer.
fn large() -> Serving {
    let big = "x".repeat(8 * 1024 * 1024);
    Origin::tcp().answering(move |_| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{big}", big.len()).into_bytes()
    })
}

fn start(attacked: &Serving, probed: &Serving) -> Lockgate {
    let rates = "rates = { min_in = \"1KB/s\", min_out = \"1KB/s\", grace = \"1s\" }\n";
    lockgate().start(&(rates.to_owned() + &site(attacked, probed)))
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
    assert!(more < MEMORY, "{more} bytes");
    probe.stop();
    drop(peer);
    eventually("the application is let go", || {
        let requests = gate.sample("lockgate_requests_in_flight", &[]);
        (requests < 0.5).then_some(())
    });
}

/// CVE-2019-9511, CVE-2019-9517: answers that nobody lets come, by the window of each stream or by the connection's.
#[test]
fn windows_that_never_open_hold_little_and_end() {
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

/// "Slowloris" by streams: heads whose bodies never come.
#[test]
fn bodies_that_never_come_hold_little_and_end() {
    let (attacked, probed) = (application(), application());
    let gate = start(&attacked, &probed);
    let probe = Probe::start(gate.address());
    let before = gate.resident();
    let mut peer = Peer::connect(gate.address());
    for at in 0..STREAMS {
        let head = [(":method", "POST"), (":scheme", "http"), (":authority", "app.test"), (":path", "/")];
        peer.headers(2 * at + 1, &head, false);
    }
    ends(&gate, peer, before, probe);
}
