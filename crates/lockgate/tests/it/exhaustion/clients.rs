//! Slots for clients: idle connections are evicted, and handshakes that wait for their clients hold
//! none.

use std::io::Write as _;

use http::Method;
use lockgate_testkit::h2::Client;
use lockgate_testkit::{Http, Lockgate, Origin, Wire, client_hello};

use super::{GET, OK, assert_served, other_client, relay};
use crate::http::{plain_site, secure_site};
use crate::scene::{NAME, Site, echoes, lockgate};

/// Connections that were closed for others.
const EVICTED: &str = "lockgate_connections_evicted_total";

/// Two workers, so many connections, and clients that may be idle for an hour.
fn crowded(connections: usize, more: &str) -> Lockgate {
    let toml = format!(
        "limits = {{ connections = {connections} }}\ntimeouts = {{ idle = \"1h\", handshake = \"1h\", head = \"1h\" }}\n"
    );
    lockgate().workers(2).start(&(toml + more))
}

#[test]
fn idle_connections_are_evicted_for_new_clients() {
    let origin = Origin::tcp().answering(|_| OK.into());
    let gate = crowded(8, &plain_site(origin.address()));
    let mut idle: Vec<_> = (0..8)
        .map(|_| Http::connect(gate.at("127.0.0.1:0")))
        .collect();
    idle.iter_mut().for_each(assert_served);
    for last in 1..=20 {
        assert_served(&mut other_client(&gate, "127.0.0.1:0", last));
    }
    assert!(gate.sample(EVICTED, &[]) > 0.0);
}

#[test]
fn with_300_descriptors_101_idle_connections_are_evicted() {
    let origin = Origin::tcp().answering(|_| OK.into());
    let toml = "timeouts = { idle = \"1h\" }\n".to_owned() + &plain_site(origin.address());
    let gate = lockgate()
        .workers(2)
        .through(&["prlimit", "--nofile=300:300"])
        .start(&toml);
    let mut idle: Vec<_> = (0..101)
        .map(|_| {
            let mut client = Http::connect(gate.at("127.0.0.1:0"));
            assert_served(&mut client);
            client
        })
        .collect();
    assert_served(&mut other_client(&gate, "127.0.0.1:0", 9));
    assert!(gate.sample(EVICTED, &[]) > 0.0);
    idle.clear();
}

#[test]
fn silent_clients_are_evicted_for_new_ones() {
    let site = Site::new();
    let origin = Origin::tcp().answering(|_| OK.into());
    let toml = "trusted = [\"127.0.0.1/32\"]\n".to_owned()
        + &plain_site(origin.address())
        + "accept_proxy = \"require\"\n"
        + &secure_site(&site.cert, origin.address());
    let gate = crowded(4, &toml);
    for listener in ["127.0.0.1:0", "127.0.0.2:0"] {
        let silent: Vec<_> = (0..4).map(|_| Wire::connect(gate.at(listener))).collect();
        // The kernel keeps them back for a moment, independent of their deadline.
        gate.wait_for_sample("lockgate_connections", &[], 4.0);
        let mut tls = site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap();
        tls.send("GET / HTTP/1.1\r\nHost: app.test\r\n\r\n");
        tls.expect("HTTP/1.1 200 OK");
        drop((tls, silent));
        gate.wait_for_sample("lockgate_connections", &[], 0.0);
    }
    let line = gate.line("one that gave way", |line| line["cause"] == "limit");
    assert_eq!(line["side"], "lockgate", "{line}");
}

#[test]
fn a_lingering_connection_is_evicted_though_its_client_still_sends() {
    let origin = Origin::tcp().answering(|_| OK.into());
    let gate = crowded(
        1,
        &(plain_site(origin.address()) + "body = { max = \"10B\" }\n"),
    );
    let mut over = Wire::connect(gate.at("127.0.0.1:0"));
    over.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    over.expect("HTTP/1.1 413 ");
    std::thread::scope(|scope| {
        scope.spawn(|| while over.write_all(b"x").is_ok() {});
        assert_served(&mut other_client(&gate, "127.0.0.1:0", 9));
    });
    assert!(gate.sample(EVICTED, &[]) > 0.0);
}

#[test]
fn connections_abandoned_in_the_backlog_evict_none() {
    let site = Site::new();
    let origin = Origin::tcp().answering(|_| OK.into());
    let gate = crowded(
        4,
        &(plain_site(origin.address()) + &secure_site(&site.cert, origin.address())),
    );
    let mut idle: Vec<_> = (0..4)
        .map(|_| Http::connect(gate.at("127.0.0.1:0")))
        .collect();
    idle.iter_mut().for_each(assert_served);
    let hello = client_hello(&site.client().build(), NAME);
    gate.paused(|| (0..20).for_each(|_| Wire::connect(gate.at("127.0.0.2:0")).send(&hello)));
    gate.wait_for_sample("lockgate_connections_abandoned_total", &[], 20.0);
    assert_eq!(gate.sample(EVICTED, &[]), 0.0);
    idle.iter_mut().for_each(assert_served);
}

#[test]
fn an_idle_http2_connection_is_evicted_by_goaway() {
    let origin = Origin::tcp().answering(|_| OK.into());
    let toml = plain_site(origin.address()) + "protocols = [\"h2c\", \"http1\"]\n";
    let gate = crowded(1, &toml);
    let idle = Client::connect(gate.at("127.0.0.1:0"));
    assert_eq!(idle.get("/").status, 200);
    assert_served(&mut other_client(&gate, "127.0.0.1:0", 9));
    // An end without GOAWAY would be an error.
    idle.ended().unwrap();
}

#[test]
fn active_exchanges_are_not_evicted() {
    let (origin, echo) = (Origin::tcp(), Origin::tcp().echo());
    // Stalled exchanges of a trusted client are not evicted either, however long this test takes.
    let toml = "trusted = [\"127.0.0.1/32\"]\n".to_owned()
        + &plain_site(origin.address())
        + "protocols = [\"h2c\", \"http1\"]\n"
        + &relay("127.0.0.3", echo.address());
    let gate = crowded(3, &toml);
    let mut asking = Http::connect(gate.at("127.0.0.1:0"));
    asking.send(GET);
    let mut upstream = origin.http();
    upstream.request();
    let client = Client::connect(gate.at("127.0.0.1:0"));
    let stream = client.begin(Client::request(Method::GET, "/"), true);
    let mut shared = origin.http();
    shared.request();
    let mut relayed = Wire::connect(gate.at("127.0.0.3:0"));
    echoes(&mut relayed, "quiet from now on");
    let mut next = other_client(&gate, "127.0.0.3:0", 9);
    next.send("next");
    // The tick looks for idle ones again and again, and finds none.
    gate.wait_for_sample("lockgate_connections", &[], 3.0);
    echoes(&mut relayed, "still here");
    shared.send(OK);
    assert_eq!(stream.answer().status, 200);
    // The first that waits for nothing.
    next.expect("next");
    upstream.send(OK);
    assert_eq!(asking.answer().status(), 200);
    echoes(&mut relayed, "to the end");
}

#[test]
fn stalled_requests_beyond_a_clients_share_are_evicted() {
    let (slow, echo) = (Origin::tcp(), Origin::tcp().echo());
    let gate = crowded(
        4,
        &(plain_site(slow.address()) + &relay("127.0.0.3", echo.address())),
    );
    let still: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Http::connect(gate.at("127.0.0.1:0"));
            client.send(GET);
            let mut upstream = slow.http();
            upstream.request();
            (client, upstream)
        })
        .collect();
    let mut next = other_client(&gate, "127.0.0.3:0", 9);
    next.send("next");
    next.expect("next");
    assert!(gate.sample(EVICTED, &[]) > 0.0);
    let line = gate.line("why", |line| line["cause"] == "limit");
    assert_eq!(line["detail"], "stalled while others waited", "{line}");
    drop(still);
}

/// A regression test: an honest connection that waited for its next request was evicted before
/// handshakes of the client with most slots.
#[test]
fn connections_of_clients_with_few_are_evicted_last() {
    let origin = Origin::tcp().answering(|_| OK.into());
    let gate = crowded(6, &plain_site(origin.address()));
    let mut honest = other_client(&gate, "127.0.0.1:0", 8);
    assert_served(&mut honest);
    let slow: Vec<_> = (0..5)
        .map(|_| {
            let mut client = Wire::connect(gate.at("127.0.0.1:0"));
            client.send("GET / HTTP/1.1\r\n");
            client
        })
        .collect();
    gate.wait_for_sample("lockgate_connections", &[], 6.0);
    assert_served(&mut other_client(&gate, "127.0.0.1:0", 9));
    assert_served(&mut honest);
    drop(slow);
}

#[test]
fn slowloris_heads_beyond_a_clients_share_are_evicted() {
    let origin = Origin::tcp().answering(|_| OK.into());
    let gate = crowded(4, &plain_site(origin.address()));
    let slow: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Wire::connect(gate.at("127.0.0.1:0"));
            client.send("GET / HTTP/1.1\r\n");
            client
        })
        .collect();
    gate.wait_for_sample("lockgate_connections", &[], 4.0);
    assert_served(&mut other_client(&gate, "127.0.0.1:0", 9));
    drop(slow);
}

#[test]
fn stalled_handshakes_delay_no_other_client() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let toml = "limits = { handshakes = 4 }\ntimeouts = { handshake = \"1h\" }\n".to_owned()
        + &site.tls(origin.address(), "");
    let gate = lockgate().workers(2).start(&toml);
    let hello = client_hello(&site.client().build(), NAME);
    let stalled: Vec<_> = (0..12)
        .map(|_| {
            let mut client = Wire::connect(gate.at("127.0.0.1:0"));
            client.send(&hello);
            // It has got our flight, and sends no more.
            client.exactly(1);
            client
        })
        .collect();
    gate.wait_for_sample("lockgate_tls_handshakes_in_flight", &[], 12.0);
    let mut client = site.connect(&gate);
    client.send("ping");
    client.expect("ping");
    assert_eq!(gate.sample("lockgate_tls_handshakes_limit", &[]), 4.0);
    gate.wait_for_sample("lockgate_tls_handshakes_waiting", &[], 0.0);
    drop(stalled);
    gate.wait_for_sample("lockgate_tls_handshakes_in_flight", &[], 0.0);
}

#[test]
fn a_silent_client_is_accepted_before_its_handshake_timeout() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let toml = "timeouts = { handshake = \"1h\" }\n".to_owned() + &site.tls(origin.address(), "");
    let gate = lockgate().start(&toml);
    let _silent = Wire::connect(gate.at("127.0.0.1:0"));
    gate.wait_for_sample("lockgate_connections", &[], 1.0);
}
