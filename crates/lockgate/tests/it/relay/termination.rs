//! Ends of connections: by resets, timeouts and truncated TLS, each with its cause in the log.

use std::io::Write;
use std::time::Duration;

use lockgate_testkit::{Origin, Tls, Wire, bytes, eventually, server_config};

use super::{MEGABYTE, echo_once, plain2, write_until_blocked};
use crate::scene::{NAME, Site, VERSIONS, lockgate, plain, text};

#[test]
fn a_client_reset_reaches_origin_and_log() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain(&origin.address()));
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    echo_once(&mut client, &mut upstream);
    client.reset();
    upstream.expect_reset();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"client_reset".into(), &"downstream".into())
    );

    // In the middle of a response that it does not read.
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    client.send("question");
    upstream.expect("question");
    upstream.limit(Duration::from_millis(500));
    let taken = write_until_blocked(&bytes(9, 64 * MEGABYTE), |part| upstream.write(part));
    assert!(taken > 0);
    client.reset();
    upstream.expect_reset();
    assert_eq!(gate.next_line()["cause"], "client_reset");

    // After its half-close.
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    client.send("question");
    client.finish();
    assert_eq!(upstream.rest(), b"question");
    client.reset();
    // A write may still be taken; it is answered by the reset, which the next one meets.
    eventually("the reset is met", || upstream.write_all(b"answer").err());
    let line = gate.next_line();
    assert_eq!(line["cause"], "client_reset");
}

#[test]
fn an_origin_reset_reaches_client_and_log() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&(site.tls(&origin.address(), "") + &plain2(&origin)));
    // Before a byte: perhaps before the connection was seen to be there.
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    origin.accept().reset();
    client.wait_closed();
    let line = gate.next_line();
    assert_eq!(line["side"], "upstream");
    assert!(
        ["upstream_reset", "connect_failed"].contains(&line["cause"].as_str().unwrap()),
        "{line}"
    );
    // In the middle.
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    let mut upstream = origin.accept();
    echo_once(&mut client, &mut upstream);
    upstream.send("half an ans");
    client.expect("half an ans");
    upstream.reset();
    client.expect_reset();
    assert_eq!(gate.next_line()["cause"], "upstream_reset");
    // Under TLS there must be no close_notify.
    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        let mut upstream = origin.accept();
        upstream.send("half an ans");
        client.expect("half an ans");
        upstream.reset();
        let (rest, end) = client.end();
        assert!(rest.is_empty());
        end.expect_err("an answer that was cut is no whole one");
        assert_eq!(gate.next_line()["cause"], "upstream_reset");
    }
}

#[test]
fn a_reset_during_the_handshake_is_a_client_reset() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&site.tls(&origin.address(), ""));
    let hello = lockgate_testkit::client_hello(&site.client().build(), NAME);
    for len in [1, 5, 100, hello.len() - 1] {
        let mut client = Wire::connect(gate.address());
        client.send(&hello[..len]);
        client.reset();
        assert_eq!(
            gate.next_line()["cause"],
            "client_reset",
            "after {len} bytes"
        );
    }
    // After the whole of it: the server's flight is on its way.
    let mut client = Wire::connect(gate.address());
    client.send(&hello);
    client.exactly(5);
    client.reset();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"handshake_failed".into(), &"downstream".into())
    );
    assert!(
        !origin.has_one(Duration::ZERO),
        "no endpoint is bothered before the handshake is over"
    );
}

#[test]
fn an_idle_relay_ends_by_tunnel_idle() {
    let site = Site::new();
    let origin = Origin::tcp();
    let toml = "timeouts = { tunnel_idle = \"1s\" }\n".to_owned()
        + &site.tls(&origin.address(), "")
        + &plain2(&origin);
    let mut gate = lockgate().start(&toml);
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    let mut upstream = origin.accept();
    echo_once(&mut client, &mut upstream);
    let mut secure = site.connect(&gate);
    secure.send("ping");
    let mut behind = origin.accept();
    behind.expect("ping");
    client.wait_closed();
    // By close_notify.
    secure.rest();
    for _ in 0..2 {
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"idle".into(), &"lockgate".into())
        );
        assert_eq!(line["received_bytes"], 4);
    }
}

#[test]
fn max_lifetime_ends_a_busy_relay() {
    let origin = Origin::tcp().echo();
    let toml = plain(origin.address()) + "max_lifetime = \"1s\"\n";
    let mut gate = lockgate().start(&toml);
    let mut client = Wire::connect(gate.address());
    let mut rounds = 0;
    while client.write_all(b"ping").is_ok()
        && std::io::Read::read_exact(&mut client, &mut [0; 4]).is_ok()
    {
        rounds += 1;
    }
    assert!(rounds > 0);
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"lifetime".into(), &"lockgate".into())
    );
}

#[test]
fn upstream_tls_without_close_notify_is_upstream_reset() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let served = server_config(&site.issued, None);
    let origin = Origin::tcp();
    let to = format!(
        "{{ to = \"{}\", tls = {{ name = \"{NAME}\", ca = \"{}\" }} }}",
        origin.address(),
        text(&ca)
    );
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = {to}\n[tcp.\"127.0.0.2:0\"]\ntls = \"{}\"\nproxy = {to}\n",
        site.cert
    );
    let mut gate = lockgate().start(&toml);

    let mut client = Wire::connect(gate.at("127.0.0.1:0"));
    let mut upstream = Tls::accept(&served, origin.accept()).unwrap();
    upstream.send("half an ans");
    client.expect("half an ans");
    drop(upstream); // closes TCP without close_notify
    // TCP can express it only by a reset, which would discard data under way: the log has it.
    assert_eq!(client.rest(), b"");
    drop(client);
    assert_eq!(gate.next_line()["cause"], "upstream_reset");

    let mut client = site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap();
    let mut upstream = Tls::accept(&served, origin.accept()).unwrap();
    upstream.send("half an ans");
    client.expect("half an ans");
    drop(upstream);
    client
        .end()
        .1
        .expect_err("an answer that was cut is no whole one");
    drop(client);
    assert_eq!(gate.next_line()["cause"], "upstream_reset");
}

#[test]
fn a_client_without_close_notify_may_still_get_data() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&site.tls(&origin.address(), ""));
    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        let mut upstream = origin.accept();
        client.send("question");
        upstream.expect("question");
        client.wire.finish(); // closes its half of TCP, and says nothing by TLS
        upstream.wait_closed();
        upstream.write_all(b"answer").ok();
        drop(upstream);
        client.wait_closed();
        assert_eq!(gate.next_line()["side"], "downstream");
    }
}
