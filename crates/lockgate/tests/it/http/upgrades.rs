//! Upgrades, to WebSocket and to other protocols (RFC 9110 §7.8).

use std::io::{Read, Write};
use std::time::Duration;

use lockgate_testkit::{Http, Lockgate, Origin, Tls, bytes, server_config};

use super::{normalized_text, plain_site, secure_site};
use crate::scene::{NAME, Site, lockgate, text};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: x\r\n\r\n";

fn upgrade(to: &str) -> String {
    format!(
        "GET /chat HTTP/1.1\r\nHost: {NAME}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: {to}\r\n\
         Sec-WebSocket-Key: k\r\n\r\n"
    )
}

/// Requests an upgrade and accepts it; both ends of the new protocol.
fn switched(gate: &Lockgate, origin: &Origin) -> (Http, Http) {
    let mut client = Http::connect(gate.address());
    client.send(upgrade("websocket"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(SWITCH);
    client.head();
    (client, upstream)
}

/// Each side sends a word and gets the other's.
fn ping_pong(client: &mut Http<impl Read + Write>, upstream: &mut Http<impl Read + Write>) {
    client.send("ping");
    upstream.expect("ping");
    upstream.send("pong");
    client.expect("pong");
}

#[test]
fn a_websocket_upgrade_passes_bytes_both_ways() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(upgrade("WebSocket"));
    let mut upstream = origin.http();
    let request = normalized_text(upstream.head());
    assert!(
        request.starts_with(&format!(
            "GET /chat HTTP/1.1\r\nHost: {NAME}\r\nSec-WebSocket-Key: k\r\n"
        )),
        "{request}"
    );
    assert!(
        request.ends_with("Upgrade: WebSocket\r\nConnection: Upgrade\r\n\r\n"),
        "{request}"
    );
    upstream.send_in(1, SWITCH);
    client.expect(
        "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    );
    let line = gate.next_line();
    assert_eq!(line["status"], 101);
    for round in 0..20 {
        let word = bytes(round, 3000);
        client.send(&word);
        upstream.expect(&word);
        upstream.send(&word);
        client.expect(&word);
    }
    gate.wait_for_sample("lockgate_upgraded_connections", &[], 1.0);
    // Each end in its own time.
    client.stream.finish();
    upstream.expect_end();
    upstream.send("the last word");
    upstream.stream.finish();
    client.expect("the last word");
    client.expect_end();
    assert_eq!(gate.next_line()["cause"], "client_closed");
}

/// RFC 9110 §7.8: bytes right behind the heads belong to the new protocol. They must neither be
/// lost nor come too early: an origin that refuses would parse them as a request.
#[test]
fn bytes_behind_the_upgrade_heads_reach_the_new_protocol() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let served = server_config(&site.issued, None);
    let (plain, secure) = (Origin::tcp(), Origin::tcp());
    let to = format!(
        "{{ to = \"{}\", tls = {{ name = \"{NAME}\", ca = \"{}\" }} }}",
        secure.address(),
        text(&ca)
    );
    let sites = plain_site(plain.address()) + &secure_site(&site.cert, "x").replace("\"x\"", &to);
    let gate = lockgate().workers(2).start(&sites);
    let evil = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for len in [0, 1, 5_000, 40_000] {
        let (asks, says) = (bytes(1, len), bytes(2, len));
        let mut early = upgrade("websocket").into_bytes();
        early.extend_from_slice(evil.as_bytes());
        early.extend_from_slice(&asks);
        let mut answer = SWITCH.as_bytes().to_vec();
        answer.extend_from_slice(&says);

        let mut client = Http::connect(gate.address());
        client.send(&early);
        let mut upstream = plain.http();
        upstream.request();
        // Nothing before it has agreed.
        assert!(
            upstream.stream.is_quiet(Duration::ZERO),
            "what is behind an offer is not sent before it is taken"
        );
        upstream.send(&answer);
        upstream.expect(evil);
        upstream.expect(&asks);
        client.head();
        client.expect(&says);
        ping_pong(&mut client, &mut upstream);

        let mut client = Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap());
        client.send(&early);
        let mut upstream = Http::over(Tls::accept(&served, secure.accept()).unwrap());
        upstream.request();
        upstream.send(&answer);
        upstream.expect(evil);
        upstream.expect(&asks);
        client.head();
        client.expect(&says);
        ping_pong(&mut client, &mut upstream);
        client.stream.finish();
        upstream.expect_end();
    }
}

/// RFC 9110 §7.8: a server ignores it.
#[test]
fn an_upgrade_over_http_1_0_is_ignored() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(upgrade("websocket").replace("HTTP/1.1", "HTTP/1.0"));
    let mut upstream = origin.http();
    let request = upstream.request();
    assert_eq!(
        (request.field("upgrade"), request.field("connection")),
        (None, None),
        "{}",
        request.head
    );
    upstream.send(SWITCH);
    assert_eq!(client.answer().status(), 502);
    assert_eq!(upstream.end().0, b"");
}

/// RFC 9110 §7.8: the request's own body goes first, whole and in its framing. An origin that
/// switches before has not read it.
#[test]
fn a_101_before_the_request_ended_is_a_502() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    for (framing, half, rest) in [
        ("Content-Length: 8", "half", "rest"),
        (
            "Transfer-Encoding: chunked",
            "4\r\nhalf\r\n",
            "4\r\nrest\r\n0\r\n\r\n",
        ),
    ] {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n{framing}\r\n\r\n"
        );
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
        let mut client = Http::connect(gate.address());
        client.send(head.clone() + half);
        let mut upstream = origin.http();
        upstream.head();
        upstream.expect(half);
        upstream.send(switch);
        assert_eq!(client.answer().status(), 502, "{framing}");
        client.send(rest);
        client.expect_end();
        upstream.wait_closed();

        let mut client = Http::connect(gate.address());
        client.send(head + half + rest + "behind");
        let mut upstream = origin.http();
        assert_eq!(upstream.request().text(), "halfrest");
        upstream.send(switch);
        upstream.expect("behind");
        client.head();
        upstream.send("answer");
        client.expect("answer");
    }
}

#[test]
fn an_idle_upgraded_connection_ends_by_tunnel_idle() {
    let origin = Origin::tcp();
    let toml = "timeouts = { tunnel_idle = \"1s\", idle = \"1h\" }\n".to_owned()
        + &plain_site(origin.address());
    let mut gate = lockgate().start(&toml);
    let (mut client, mut upstream) = switched(&gate, &origin);
    client.send("ping");
    upstream.expect("ping");
    client.wait_closed();
    upstream.wait_closed();
    assert_eq!(gate.next_line()["status"], 101);
    assert_eq!(gate.next_line()["cause"], "idle");
}

#[test]
fn a_reset_of_an_upgraded_connection_is_passed_on() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain_site(origin.address()));
    let (client, mut upstream) = switched(&gate, &origin);
    client.stream.reset();
    upstream.stream.expect_reset();
    assert_eq!(gate.next_line()["status"], 101);
    assert_eq!(gate.next_line()["cause"], "client_reset");
    let (mut client, upstream) = switched(&gate, &origin);
    upstream.stream.reset();
    client.stream.expect_reset();
    assert_eq!(gate.next_line()["status"], 101);
    assert_eq!(gate.next_line()["cause"], "upstream_reset");
    gate.wait_for_sample("lockgate_upgraded_connections", &[], 0.0);
}
