//! Limits of the process: with two workers each of these limits still holds once, not twice.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixListener;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use lockgate_testkit::{Lockgate, Origin, Serving, Wire, client_hello, eventually};

use crate::scene::{NAME, Site, echoes, lockgate, plain};

/// An origin that answers one question a connection and then lets the client close.
fn answering() -> Serving {
    Origin::tcp().serve(|wire| {
        wire.expect("ping");
        wire.send("pong");
        wire.rest();
    })
}

/// Connects `count` clients at once; each sends a request, reads its response and leaves. All must
/// be served.
fn crowd(gate: &Lockgate, count: usize) {
    let together = Barrier::new(count);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let mut client = Wire::connect(gate.address());
                together.wait();
                client.send("ping");
                client.expect("pong");
            });
        }
    });
}

#[test]
fn connections_beyond_the_limit_wait() {
    let origin = answering();
    let toml = "limits = { connections = 4 }\n".to_owned() + &plain(origin.address());
    let gate = lockgate().workers(2).start(&toml);
    crowd(&gate, 20);
    assert_eq!(origin.accepted(), 20);
    assert!(
        origin.most_at_once() <= 4,
        "{} at once",
        origin.most_at_once()
    );
}

#[test]
fn a_freed_connection_slot_serves_a_waiting_client_across_workers() {
    let origin = Origin::tcp();
    let toml = "limits = { connections = 1 }\n".to_owned() + &plain(&origin.address());
    let gate = lockgate().workers(2).start(&toml);
    let mut clients: Vec<Wire> = (0..8).map(|_| Wire::connect(gate.address())).collect();
    for client in &mut clients {
        client.send("ping");
        client.finish();
    }
    for _ in 0..8 {
        let mut upstream = origin.accept();
        assert_eq!(upstream.rest(), b"ping");
        assert!(!origin.has_one(Duration::from_millis(20)), "one at a time");
        upstream.send("pong");
    }
    for client in &mut clients {
        assert_eq!(client.rest(), b"pong");
    }
}

#[test]
fn beyond_per_client_connections_wait_then_are_closed() {
    let origin = Origin::tcp().echo();
    let toml = "limits = { per_client = 2 }\n".to_owned() + &plain(origin.address());
    let gate = lockgate().workers(2).start(&toml);
    let mut served: Vec<Wire> = (0..2).map(|_| Wire::connect(gate.address())).collect();
    for client in &mut served {
        echoes(client, "one of two");
    }
    // Two may wait: they are not served, and not closed either. How many have come is counted when
    // they are.
    let mut waiting: Vec<Wire> = (0..2).map(|_| Wire::connect(gate.address())).collect();
    for client in &mut waiting {
        client.send("patience");
    }
    gate.wait_for_sample("lockgate_connections", &["listener="], 4.0);
    let mut fifth = Wire::connect(gate.address());
    fifth.wait_closed();
    let line = gate.line("the fifth", |line| line["cause"] == "limit");
    assert_eq!(line["side"], "lockgate");
    assert_eq!(line["client_port"], fifth.local_address().port());
    // Another client is not concerned.
    let other: IpAddr = [127, 0, 0, 77].into();
    echoes(
        &mut Wire::connect_from(other, gate.address()),
        "somebody else",
    );
    assert_eq!(origin.accepted(), 3);
    drop(served);
    for client in &mut waiting {
        client.expect("patience");
    }
    assert_eq!(origin.accepted(), 5);
}

#[test]
fn waiting_too_long_for_per_client_ends_as_limit() {
    let origin = Origin::tcp().echo();
    let toml = "limits = { per_client = 1 }\ntimeouts = { handshake = \"300ms\" }\n".to_owned()
        + &plain(origin.address());
    let mut gate = lockgate().start(&toml);
    let mut first = Wire::connect(gate.address());
    echoes(&mut first, "here");
    let mut second = Wire::connect(gate.address());
    second.wait_closed();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"limit".into(), &"lockgate".into())
    );
    echoes(&mut first, "still here");
}

#[test]
fn per_client_counts_the_proxy_protocol_client() {
    let origin = Origin::tcp().echo();
    let toml = "limits = { per_client = 1 }\ntrusted = [\"127.0.0.1/32\"]\n".to_owned()
        + &plain(origin.address())
        + "accept_proxy = \"require\"\n";
    let gate = lockgate().workers(2).start(&toml);
    // All from one balancer: its address must not count.
    let mut clients: Vec<Wire> = (0..8).map(|_| Wire::connect(gate.address())).collect();
    for (host, client) in clients.iter_mut().enumerate() {
        client.send(format!("PROXY TCP4 192.0.2.{host} 192.0.2.99 4711 443\r\n"));
        echoes(client, "hello");
    }
}

#[test]
fn concurrent_handshakes_are_limited_and_all_succeed() {
    let site = Site::new();
    let origin = answering();
    let toml = "limits = { handshakes = 1 }\n".to_owned() + &site.tls(origin.address(), "");
    let gate = lockgate().workers(2).start(&toml);
    let config = site.client().build();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let wire = Wire::connect(gate.address());
                let mut tls = lockgate_testkit::Tls::connect(&config, wire, NAME).unwrap();
                tls.send("ping");
                tls.expect("pong");
            });
        }
    });
    assert_eq!(origin.accepted(), 16);
}

#[test]
fn a_partial_client_hello_takes_no_handshake_slot() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let toml = "limits = { handshakes = 1 }\n".to_owned() + &site.tls(origin.address(), "");
    let gate = lockgate().workers(2).start(&toml);
    let hello = client_hello(&site.client().build(), NAME);
    let slow: Vec<Wire> = (0..8)
        .map(|_| {
            let mut client = Wire::connect(gate.address());
            client.send(&hello[..hello.len() / 2]);
            client
        })
        .collect();
    let mut client = site.connect(&gate);
    client.send("ping");
    client.expect("ping");
    drop(slow);
}

#[test]
fn three_hundred_descriptors_serve_four_hundred_clients_in_turn() {
    let origin = answering();
    let gate = lockgate()
        .workers(2)
        .through(&["prlimit", "--nofile=300:300"])
        .start(&plain(origin.address()));
    crowd(&gate, 400);
    assert_eq!(origin.accepted(), 400);
    let said = gate.stderr().text();
    assert!(said.lines().count() < 20, "the log stays short: {said}");
}

/// Requests until a client is served; a client that is turned away for want of descriptors tries
/// again.
fn service_comes_back(gate: &Lockgate, opening: &str) {
    eventually("service comes back", || {
        let mut client = Wire::connect(gate.address());
        client.write_all(opening.as_bytes()).ok()?;
        client.write_all(b"ping").ok()?;
        client.read_exact(&mut [0; 4]).ok()
    });
}

/// Two workers that have logged it, each every ten seconds, beside the lines of every start.
fn the_log_is_short(gate: &Lockgate, since: Instant) {
    let said = gate.stderr().text();
    let most = 10 + 2 * (1 + since.elapsed().as_secs() / 10);
    assert!(
        (said.lines().count() as u64) < most,
        "the log stays short: {said}"
    );
}

#[test]
fn descriptor_exhaustion_keeps_the_log_short_and_recovers() {
    let (since, origin) = (Instant::now(), Origin::tcp().echo());
    let toml = "trusted = [\"127.0.0.1/32\"]\n".to_owned()
        + &plain(origin.address())
        + "accept_proxy = \"require\"\n";
    let gate = lockgate()
        .workers(2)
        .through(&["prlimit", "--nofile=300:300"])
        .start(&toml);
    // The descriptor limit falls: nothing can be accepted with the rest.
    let open = std::fs::read_dir(format!("/proc/{}/fd", gate.pid()))
        .unwrap()
        .count();
    let (pid, limit) = (gate.pid().to_string(), format!("--nofile={}:300", open + 4));
    let lowered = std::process::Command::new("prlimit")
        .args(["--pid", &pid, &limit])
        .status()
        .unwrap();
    assert!(lowered.success());
    // An unfinished PROXY header costs one descriptor until it is complete. None is completed.
    let clients: Vec<Wire> = (0..200)
        .map(|_| {
            let mut client = Wire::connect(gate.address());
            client.send("PROXY");
            client
        })
        .collect();
    gate.says("cannot accept");
    drop(clients);
    service_comes_back(&gate, "PROXY TCP4 192.0.2.1 192.0.2.99 4711 443\r\n");
    the_log_is_short(&gate, since);
}

#[test]
fn descriptor_exhaustion_is_not_blamed_on_endpoints() {
    let (since, origin) = (Instant::now(), Origin::tcp().echo());
    let toml = "limits = { connections = 1000 }\n".to_owned() + &plain(origin.address());
    let gate = lockgate()
        .workers(2)
        .through(&["prlimit", "--nofile=60:60"])
        .start(&toml);
    // All of them are connected to the endpoint at once, if possible. Clients that are served stay.
    let mut clients: Vec<Wire> = (0..200).map(|_| Wire::connect(gate.address())).collect();
    eventually("somebody is not served", || {
        let mut client = Wire::connect(gate.address());
        client.limit(Duration::from_millis(50));
        let asked = client
            .write_all(b"ping")
            .and_then(|()| client.read_exact(&mut [0; 4]));
        clients.push(client);
        asked.err()
    });
    drop(clients);
    service_comes_back(&gate, "");
    the_log_is_short(&gate, since);
    for line in gate.lines() {
        let fault = (line["cause"].as_str(), line["side"].as_str());
        assert!(
            fault.0 != Some("connect_failed") && fault.1 != Some("upstream"),
            "{line}"
        );
    }
}

#[test]
fn unix_listener_clients_count_as_connections() {
    let folder = lockgate_testkit::Folder::new();
    let front = folder.path("front.sock");
    let app = folder.path("app.sock");
    let origin = Origin::unix(&app);
    let toml = format!(
        "limits = {{ connections = 1 }}\n[tcp.\"unix:{}\"]\nproxy = \"{}\"\n",
        front.display(),
        origin.address()
    );
    let gate = lockgate().workers(2).start(&toml);
    let mut first = Wire::connect_unix(&front);
    first.send("first");
    let mut upstream = origin.accept();
    upstream.expect("first");
    let mut second = Wire::connect_unix(&front);
    second.send("second");
    assert!(
        !origin.has_one(Duration::from_millis(100)),
        "the second waits"
    );
    drop((first, upstream));
    origin.accept().expect("second");
    drop(gate);
    assert!(
        UnixListener::bind(&front).is_err(),
        "killed, it leaves its file behind"
    );
}
