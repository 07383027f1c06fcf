//! Limits of tunnels, and the PROXY header to their targets.

use std::time::Duration;

use lockgate_testkit::{Http, Origin};

use super::{connect, opened, ping_pong, tunnels};
use crate::scene::lockgate;

#[test]
fn an_idle_connect_tunnel_is_closed() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels("timeouts = { tunnel_idle = \"300ms\" }"));
    let (mut client, mut upstream) = opened(&gate, &origin);
    ping_pong(&mut client, &mut upstream);
    client.stream.wait_closed();
    upstream.stream.wait_closed();
    gate.line("the end", |line| line["cause"] == "idle");
}

#[test]
fn max_lifetime_ends_a_busy_connect_tunnel() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels("max_lifetime = \"300ms\""));
    let (client, upstream) = opened(&gate, &origin);
    let (mut up, mut down) = (client.stream.another(), upstream.stream.another());
    std::thread::scope(|scope| {
        scope.spawn(|| while std::io::Write::write_all(&mut up, b"word").is_ok() {});
        down.wait_closed();
        drop((client, upstream));
    });
    gate.line("the end", |line| line["cause"] == "lifetime");
}

#[test]
fn max_bytes_ends_a_connect_tunnel() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels("max_bytes = \"100KB\""));
    let (mut client, mut upstream) = opened(&gate, &origin);
    // Both directions together.
    client.send([0; 60_000]);
    upstream.exactly(60_000);
    ping_pong(&mut client, &mut upstream);
    upstream.send([0; 60_000]);
    client.exactly(39_992);
    client.stream.wait_closed();
    upstream.stream.wait_closed();
    let line = gate.line("the end", |line| line["cause"] == "limit");
    assert_eq!(
        (&line["received_bytes"], &line["sent_bytes"]),
        (&60_004.into(), &39_996.into()),
        "{line}"
    );
    assert_eq!(line["side"], "lockgate", "{line}");
}

#[test]
fn a_fast_connect_tunnel_moves_at_most_max_bytes() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels("max_bytes = \"10MB\""));
    let (client, upstream) = opened(&gate, &origin);
    let (mut up, mut down) = (client.stream.another(), upstream.stream.another());
    std::thread::scope(|scope| {
        scope.spawn(|| while std::io::Write::write_all(&mut up, &[0; 65_536]).is_ok() {});
        down.wait_closed();
        drop((client, upstream));
    });
    let line = gate.line("the end", |line| line["cause"] == "limit");
    assert_eq!(
        (&line["received_bytes"], &line["sent_bytes"]),
        (&10_000_000.into(), &0.into()),
        "{line}"
    );
}

#[test]
fn a_connect_target_gets_the_proxy_protocol_header_first() {
    for early in ["", "early"] {
        let origin = Origin::tcp();
        let gate = lockgate().start(&tunnels("proxy_protocol = \"v1\""));
        let mut client = Http::connect(gate.address());
        client.send(connect(&origin.address()) + early);
        let mut upstream = Http::over(origin.accept());
        let (from, to) = (client.stream.local_address(), gate.address());
        upstream.expect(format!(
            "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
            from.port(),
            to.port()
        ));
        upstream.expect(early);
        client.head();
        ping_pong(&mut client, &mut upstream);
    }
}

#[test]
fn an_unanswering_connect_target_is_a_504() {
    let origin = Origin::tcp();
    // Its queue is full (listen(2)): further SYNs are not answered.
    let full: Vec<_> = std::iter::from_fn(|| {
        std::net::TcpStream::connect_timeout(&origin.socket_address(), Duration::from_millis(200))
            .ok()
    })
    .take(10_000)
    .collect();
    assert!(full.len() < 10_000, "the queue has no end");
    let gate = lockgate().start(&tunnels("timeouts = { connect = \"300ms\" }"));
    let mut client = Http::connect(gate.address());
    client.send(connect(&origin.address()));
    let answer = client.answer();
    assert_eq!(answer.status(), 504);
    let status = answer.field("proxy-status").unwrap();
    assert!(
        status.starts_with("lockgate; error=connection_timeout"),
        "{status}"
    );
}

#[test]
fn a_client_leaving_cancels_the_connect_attempt() {
    let origin = Origin::tcp();
    let full: Vec<_> = std::iter::from_fn(|| {
        std::net::TcpStream::connect_timeout(&origin.socket_address(), Duration::from_millis(200))
            .ok()
    })
    .take(10_000)
    .collect();
    let gate = lockgate().start(&tunnels("timeouts = { connect = \"1h\" }"));
    let mut client = Http::connect(gate.address());
    client.send(connect(&origin.address()));
    gate.wait_for_sample(
        "lockgate_requests_in_flight",
        &["site=\"127.0.0.1:0\""],
        1.0,
    );
    client.stream.reset();
    let line = gate.line("its end", |line| line["cause"] == "client_reset");
    assert_eq!(line["status"], 499, "{line}");
    drop(full);
}
