//! Clients that flood: each is disconnected and the cause is logged, memory stays bounded, and
//! others are served meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use lockgate_testkit::h2::{self, Client, Peer, ScriptedResponse};
use lockgate_testkit::{Http, Lockgate, Origin, Serving};

use super::attacks::{self, Attack, Outcome, flood, flood_unread};
use super::{VIOLATIONS, plain_site};
use crate::http::secure_site;
use crate::scene::{NAME, Site, lockgate};

/// As many steps as an attacker takes that is not stopped.
const STEPS: u32 = 100_000;
/// The memory that all attacks of a test together may cost.
const MEMORY: usize = 16 * 1024 * 1024;

/// A client that sends request after request, over HTTP/1 and HTTP/2 in turn.
pub(super) struct Probe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Probe {
    pub(super) fn start(to: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let kept = Client::connect(to);
            // Once at least: an attack may be over before this thread begins.
            loop {
                let mut fresh = Http::connect(to);
                fresh.send("GET /probe HTTP/1.1\r\nHost: app.test\r\n\r\n");
                assert_eq!(fresh.answer().status(), 200);
                assert_eq!(kept.get("/probe").status, 200);
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        Self { stop, thread }
    }

    /// Checks that every request of the probe was answered. None waits longer than the deadline of
    /// the testkit's sockets; the time of each depends on the machine as much as on us, so it is
    /// measured by a benchmark and not asserted here.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread
            .join()
            .expect("every request of the probe is answered");
    }
}

/// An application that reads and answers everything.
pub(super) fn application() -> Serving {
    Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
}

/// A site in front of an application that is attacked. The probe requests another application: the
/// number of connections that wait for an application to accept them is not ours to limit, and a
/// connection that finds no place is a second late.
pub(super) fn site(attacked: &Serving, probed: &Serving) -> String {
    site_for(attacked.address(), probed)
}

/// The same with the address of the attacked one.
pub(super) fn site_for(attacked: &str, probed: &Serving) -> String {
    let path = format!(
        "[site.\":0\".path.\"/probe\"]\nproxy = \"{}\"\n",
        probed.address()
    );
    plain_site(attacked) + &path
}

/// Runs the attacks one after the other, and checks that each ends as it should, that an operator
/// can see why, and that no other client is affected.
fn repelled(attacks: &[Attack]) {
    let attacked = application();
    repelled_before(attacked.address(), attacks);
}

/// The same before an application at this address.
fn repelled_before(attacked: &str, attacks: &[Attack]) {
    let probed = application();
    let gate = lockgate().start(&site_for(attacked, &probed));
    let address = gate.address();
    // Memory that every connection needs is there before.
    let mut peer = Peer::connect(address);
    peer.get(1, "/probe");
    assert_eq!(peer.answer(1).status, 200);
    drop(peer);
    let probe = Probe::start(address);
    let before = gate.resident();
    let mut wrong = Vec::new();
    for attack in attacks {
        let violations = gate.sample(VIOLATIONS, &[]);
        let outcome = flood(attack, address, STEPS);
        println!("{}: {outcome:?}", attack.name);
        let ended = ended_as_it_should(&gate, attack, &outcome, violations);
        wrong.extend(
            ended
                .err()
                .map(|why| format!("{}: {why}: {outcome:?}", attack.name)),
        );
        let more = gate.most_resident().saturating_sub(before);
        if more > MEMORY {
            wrong.push(format!("{}: costs {more} bytes", attack.name));
        }
    }
    probe.stop();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn ended_as_it_should(
    gate: &Lockgate,
    attack: &Attack,
    outcome: &Outcome,
    before: f64,
) -> Result<(), String> {
    let check = |right: bool, why: &str| if right { Ok(()) } else { Err(why.to_owned()) };
    check(!outcome.stalled, "it is not read to its end")?;
    if attack.ends.is_empty() {
        return Ok(());
    }
    check(outcome.closed, "goes on")?;
    let goaway = outcome.goaway.as_ref().ok_or("no goodbye")?;
    check(attack.ends.contains(&goaway.code), "another goodbye")?;
    let port = outcome.port;
    // That of the connection, not of one of its requests.
    let line = gate.line(attack.name, |line| {
        line["client_port"] == port && line["method"].is_null() && line["status"].is_null()
    });
    let caused = line["cause"] == "limit" || line["cause"] == "refused_by_rule";
    check(
        caused && line["side"] == "downstream" && line["detail"].is_string(),
        &format!("told as {line}"),
    )?;
    check(gate.sample(VIOLATIONS, &[]) > before, "is not counted")
}

/// CVE-2023-44487.
#[test]
fn rapid_reset_ends_the_connection() {
    repelled(&[attacks::RAPID_RESET, attacks::RAPID_RESET_OF_UPLOADS]);
}

/// CVE-2025-8671, "MadeYouReset".
#[test]
fn made_you_reset_ends_the_connection() {
    repelled(&attacks::MADE_YOU_RESET);
}

/// CVE-2024-27316 (httpd) and its kind in others.
#[test]
fn continuation_floods_end_the_connection() {
    repelled(&attacks::CONTINUATIONS);
}

/// CVE-2016-6581 (hpack): few bytes that stand for many.
#[test]
fn hpack_bombs_end_the_connection() {
    repelled(&attacks::BOMBS);
}

/// CVE-2019-9512, CVE-2019-9515, CVE-2019-9517.
#[test]
fn ping_and_settings_floods_end_the_connection() {
    repelled(&attacks::ANSWERED);
}

/// CVE-2019-9513, CVE-2019-9518.
#[test]
fn empty_frame_floods_end_the_connection() {
    repelled(&attacks::IDLE);
}

/// CVE-2019-9511, from the client's side.
#[test]
fn one_byte_data_frame_floods_harm_no_other_client() {
    repelled(&attacks::SMALL);
}

#[test]
fn closed_and_stalled_stream_floods_harm_no_other_client() {
    repelled(&attacks::STREAMS);
}

/// A stream that still waits for its response does not keep the connection.
#[test]
fn floods_before_a_silent_application_end_too() {
    let deaf = Origin::tcp();
    repelled_before(
        &deaf.address(),
        &[attacks::RAPID_RESET, attacks::RAPID_RESET_OF_UPLOADS],
    );
    repelled_before(&deaf.address(), &attacks::MADE_YOU_RESET);
    repelled_before(&deaf.address(), &attacks::STREAMS);
    repelled_before(&deaf.address(), &attacks::IDLE[2..5]);
}

#[test]
fn floods_over_tls_end_too() {
    let (tls, attacked, probed) = (Site::new(), application(), application());
    let gate =
        lockgate().start(&(site(&attacked, &probed) + &secure_site(&tls.cert, attacked.address())));
    let probe = Probe::start(gate.address());
    for attack in [
        &attacks::RAPID_RESET,
        &attacks::CONTINUATIONS[1],
        &attacks::ANSWERED[4],
        &attacks::IDLE[2],
    ] {
        let mut peer = Peer::connect_tls(&tls.client(), gate.at("127.0.0.2:0"), NAME);
        peer.send((attack.begin)());
        let goaway = flood_unread(attack, &mut peer, STEPS);
        let goaway = goaway.unwrap_or_else(|| panic!("no goodbye to {}", attack.name));
        assert!(
            attack.ends.contains(&goaway.code),
            "{}: {goaway:?}",
            attack.name
        );
    }
    probe.stop();
}

/// A disconnected attacker comes again, and is not alone.
#[test]
fn reconnecting_attackers_do_not_delay_other_clients() {
    let (attacked, probed) = (application(), application());
    let gate = lockgate().workers(2).start(&site(&attacked, &probed));
    let address = gate.address();
    let probe = Probe::start(address);
    let before = gate.resident();
    std::thread::scope(|scope| {
        for attack in [
            &attacks::RAPID_RESET,
            &attacks::RAPID_RESET_OF_UPLOADS,
            &attacks::MADE_YOU_RESET[4],
            &attacks::CONTINUATIONS[1],
            &attacks::BOMBS[0],
            &attacks::ANSWERED[4],
        ] {
            scope.spawn(move || {
                for _ in 0..20 {
                    let outcome = flood(attack, address, STEPS);
                    assert!(outcome.closed, "{}: {outcome:?}", attack.name);
                }
            });
        }
    });
    let more = gate.most_resident().saturating_sub(before);
    assert!(more < 2 * MEMORY, "{more} bytes");
    probe.stop();
    gate.wait_for_sample(VIOLATIONS, &[], 120.0);
}

/// Requests of all clients share connections to an endpoint that speaks HTTP/2: cancelled requests
/// of one client must not make the endpoint disconnect the others.
#[test]
fn floods_do_not_cross_shared_upstream_connections() {
    let endpoint = h2::Origin::plain(|_| ScriptedResponse::ok("ok"));
    let gate = lockgate().start(&format!(
        "[pool.app]\nprotocol = \"h2c\"\nendpoints = [\"{}\"]\n{}",
        endpoint.address(),
        plain_site("pool:app")
    ));
    let address = gate.address();
    let probe = Probe::start(address);
    let before = gate.resident();
    std::thread::scope(|scope| {
        for attack in [
            &attacks::RAPID_RESET,
            &attacks::RAPID_RESET_OF_UPLOADS,
            &attacks::MADE_YOU_RESET[1],
            &attacks::STREAMS[3],
        ] {
            scope.spawn(move || {
                for _ in 0..20 {
                    let outcome = flood(attack, address, STEPS);
                    assert!(outcome.closed, "{}: {outcome:?}", attack.name);
                }
            });
        }
    });
    let more = gate.most_resident().saturating_sub(before);
    assert!(more < 2 * MEMORY, "{more} bytes");
    probe.stop();
}
