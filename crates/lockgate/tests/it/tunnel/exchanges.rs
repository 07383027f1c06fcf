//! Tunnels over HTTP/1.1: the request, the bytes, the end.

use lockgate_testkit::{Http, Origin, Signal, bytes};
use serde_json::Value;

use super::{ask, connect, opened, ping_pong, tunnels};
use crate::scene::{deserted, lockgate};

#[test]
fn a_connect_tunnel_passes_bytes_and_logs_two_lines() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&tunnels(""));
    let (mut client, mut upstream) = opened(&gate, &origin);
    let line = gate.next_line();
    for (field, expected) in [
        ("method", Value::from("CONNECT")),
        ("host", origin.address().into()),
        ("status", 200.into()),
        ("site", "127.0.0.1:0".into()),
        ("endpoint", origin.address().into()),
    ] {
        assert_eq!(line[field], expected, "{field} in {line}");
    }
    assert!(line["connect_seconds"].as_f64().unwrap() > 0.0, "{line}");
    assert_eq!(
        gate.sample("lockgate_upgrades_total", &["site=\"127.0.0.1:0\""]),
        1.0
    );
    // Enough for the kernel to move them by itself.
    let (going, coming) = (bytes(1, 3_000_000), bytes(2, 2_000_000));
    let (mut up, mut down) = (client.stream.another(), upstream.stream.another());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            up.send(&going);
            up.finish();
        });
        scope.spawn(|| down.send(&coming));
        scope.spawn(|| assert!(client.exactly(coming.len()) == coming));
        assert!(upstream.exactly(going.len()) == going);
    });
    upstream.expect_end();
    upstream.send("last");
    drop((upstream, down));
    client.expect("last");
    client.expect_end();
    let opened = line;
    let line = gate.next_line();
    for (field, expected) in [
        ("id", opened["connection"].clone()),
        ("request", opened["id"].clone()),
        ("host", origin.address().into()),
        ("received_bytes", Value::from(3_000_000)),
        ("sent_bytes", 2_000_004.into()),
        ("endpoint", origin.address().into()),
        ("cause", "client_closed".into()),
    ] {
        assert_eq!(line[field], expected, "{field} in {line}");
    }
}

#[test]
fn bytes_behind_the_connect_head_are_forwarded() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels(""));
    let early = bytes(3, 100_000);
    let mut client = Http::connect(gate.address());
    client.send([connect(&origin.address()).as_bytes(), &early].concat());
    let mut upstream = Http::over(origin.accept());
    assert!(upstream.exactly(early.len()) == early);
    upstream.send("heard");
    client.head();
    client.expect("heard");
    ping_pong(&mut client, &mut upstream);
    // In any pieces.
    let mut client = Http::connect(gate.address());
    client.send_in(1, connect(&origin.address()) + "early");
    let mut upstream = Http::over(origin.accept());
    upstream.expect("early");
    client.head();
    ping_pong(&mut client, &mut upstream);
}

#[test]
fn connect_over_http_1_0_needs_no_host() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels(""));
    let mut client = Http::connect(gate.address());
    client.send(format!("CONNECT {} HTTP/1.0\r\n\r\n", origin.address()));
    client.head();
    ping_pong(&mut client, &mut Http::over(origin.accept()));
}

#[test]
fn a_reset_of_a_connect_tunnel_is_passed_on() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels(""));
    let (mut client, mut upstream) = opened(&gate, &origin);
    ping_pong(&mut client, &mut upstream);
    client.stream.another().reset();
    drop(client);
    upstream.stream.expect_reset();
    let (mut client, mut upstream) = opened(&gate, &origin);
    ping_pong(&mut client, &mut upstream);
    upstream.stream.another().reset();
    drop(upstream);
    client.stream.expect_reset();
    gate.line("the endpoint's reset", |line| {
        line["cause"] == "upstream_reset"
    });
}

#[test]
fn a_reset_during_bulk_in_a_tunnel_is_passed_on() {
    const MUCH: usize = 2_000_000;
    for by_client in [true, false] {
        let origin = Origin::tcp();
        let gate = lockgate().start(&tunnels(""));
        let (client, upstream) = opened(&gate, &origin);
        let (mut from, mut to) = if by_client {
            (upstream.stream, client.stream)
        } else {
            (client.stream, upstream.stream)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                to.exactly(MUCH);
                to.reset();
            });
            // Much more than fits into all buffers on the way.
            while std::io::Write::write_all(&mut from, &[7; 65_536]).is_ok() {}
        });
        let side = if by_client { "downstream" } else { "upstream" };
        let line = gate.line("the reset", |line| line["side"] == side);
        let moved = line["received_bytes"]
            .as_u64()
            .max(line["sent_bytes"].as_u64());
        assert!(moved >= Some(MUCH as u64), "{line}");
    }
}

/// RFC 9110 §9.3.6, §7.2; RFC 9112 §3.2.3; RFC 3986 §3.2.
#[test]
fn malformed_connect_targets_are_a_400() {
    let gate = lockgate().start(&tunnels(""));
    for target in [
        "a.test",
        "a.test:",
        "a.test:0",
        "a.test:65536",
        "a.test:-1",
        "a.test:443x",
        ":443",
        "user@a.test:443",
        "user:secret@a.test:443",
        "[fe80::1%25eth0]:443",
        "[fe80::1%eth0]:443",
        "[::1:443",
        "::1:443",
        "a..test:443",
        "127.1:443",
        "0x7f.1:443",
        "a%2etest:443",
        "http://a.test:443/",
        "/",
        "*",
    ] {
        let answer = ask(
            &gate,
            format!("CONNECT {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"),
        );
        assert_eq!(answer.status(), 400, "{target}");
        assert_eq!(answer.field("connection"), Some("close"), "{target}");
        // A password in the target stays secret.
        let shown = if target.contains('@') {
            "***@a.test:443"
        } else {
            target
        };
        gate.line("the target", |line| line["target"] == shown);
    }
    let long = "a".repeat(100_000);
    let answer = ask(
        &gate,
        format!("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nX-Long: {long}\r\n\r\n"),
    );
    assert_eq!(answer.status(), 431);
    for fields in [
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: a\r\n",
    ] {
        let request = format!("CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        assert_eq!(ask(&gate, request).status(), 400, "{fields}");
    }
    assert_eq!(
        ask(&gate, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").status(),
        400
    );
}

/// RFC 9110 §9.3.6: "A CONNECT request message does not have content." A length of 0 means that,
/// and WinINET sends it.
#[test]
fn connect_with_content_length_zero_is_accepted() {
    let (gate, origin) = (lockgate().start(&tunnels("")), Origin::tcp());
    for version in ["1.0", "1.1"] {
        let mut client = Http::connect(gate.address());
        client.send(format!(
            "CONNECT {} HTTP/{version}\r\nHost: a.test\r\nContent-Length: 0\r\n\r\nearly",
            origin.address()
        ));
        let mut upstream = Http::over(origin.accept());
        upstream.expect("early");
        assert!(client.head().starts_with("HTTP/1.1 200 "), "{version}");
        ping_pong(&mut client, &mut upstream);
    }
}

#[test]
fn other_methods_than_connect_are_405_with_allow() {
    let gate = lockgate().start(&tunnels(""));
    let mut client = Http::connect(gate.address());
    for request in [
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET http://a.test/%2f HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "POST https://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "TRACE / HTTP/1.1\r\nHost: a.test\r\n\r\n",
    ] {
        client.send(request);
        let answer = client.answer();
        assert_eq!(
            (answer.status(), answer.field("allow")),
            (405, Some("CONNECT")),
            "{request}"
        );
    }
}

#[test]
fn an_unreachable_connect_target_is_a_502() {
    let mut gate = lockgate().start(&tunnels(""));
    let mut client = Http::connect(gate.address());
    client.send(connect(&deserted().to_string()));
    let answer = client.answer();
    assert_eq!(answer.status(), 502);
    let status = answer.field("proxy-status").unwrap();
    assert!(
        status.starts_with("lockgate; error=connection_refused"),
        "{status}"
    );
    assert!(
        answer.text().contains("connect_failed"),
        "{}",
        answer.text()
    );
    // The bytes behind it may not be HTTP.
    client.expect_end();
    let line = gate.next_line();
    assert_eq!(
        (&line["status"], &line["cause"]),
        (&502.into(), &"connect_failed".into()),
        "{line}"
    );
}

#[test]
fn a_drain_keeps_tunnels_and_accepts_no_new_ones() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels(""));
    let (mut client, mut upstream) = opened(&gate, &origin);
    let mut idle = Http::connect(gate.address());
    idle.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    idle.answer();
    gate.signal(Signal::TERM);
    idle.expect_end();
    ping_pong(&mut client, &mut upstream);
    drop(client);
    upstream.expect_end();
    drop(upstream);
    assert_eq!(gate.ended().code, Some(0));
}

#[test]
fn the_drain_deadline_cuts_tunnels() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&("drain = { deadline = \"200ms\" }\n".to_owned() + &tunnels("")));
    let (mut client, mut upstream) = opened(&gate, &origin);
    ping_pong(&mut client, &mut upstream);
    gate.signal(Signal::TERM);
    client.stream.wait_closed();
    upstream.stream.wait_closed();
    gate.line("the cut", |line| line["cause"] == "drain");
}

#[test]
fn curl_works_through_a_connect_tunnel() {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let gate = lockgate().start(&tunnels(""));
    let proxy = format!("http://{}", gate.address());
    let target = format!("http://{}/", origin.address());
    let curl = std::process::Command::new("curl")
        .args([
            "-sS",
            "--max-time",
            "20",
            "--proxytunnel",
            "--proxy",
            &proxy,
            &target,
        ])
        .output()
        .expect("curl is there");
    assert_eq!(
        String::from_utf8_lossy(&curl.stdout),
        "ok",
        "{}",
        String::from_utf8_lossy(&curl.stderr)
    );
}

#[test]
fn a_server_first_target_is_forwarded_at_once() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels(""));
    let (mut client, mut upstream) = opened(&gate, &origin);
    upstream.send("220 ready\r\n");
    client.expect("220 ready\r\n");
}
