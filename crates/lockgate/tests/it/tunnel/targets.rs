//! Targets that tunnels may reach, and clients that may have them.

use lockgate_testkit::{Http, Lockgate, Origin, Wire};

use super::{ask, connect, opened, ping_pong, tunnels};
use crate::scene::{deserted, lockgate};

/// Status, type of error and cause that a target is refused by.
fn refused(gate: &Lockgate, target: &str) -> (u16, String, String) {
    let answer = ask(gate, connect(target));
    let error = answer.field("proxy-status").unwrap_or_default();
    let error = error
        .split("error=")
        .nth(1)
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    let cause = answer
        .text()
        .split("cause: ")
        .nth(1)
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default();
    (answer.status(), error.to_owned(), cause.to_owned())
}

fn listener(keys: &str) -> String {
    format!("[tunnel.\"127.0.0.1:0\"]\n{keys}\n")
}

const DENIED: (u16, &str) = (403, "http_request_denied");
const PRIVATE: (u16, &str) = (403, "destination_ip_prohibited");

#[test]
fn by_default_tunnels_reach_only_public_https_targets() {
    let gate = lockgate().start(&listener(""));
    for (target, expected) in [
        ("1.1.1.1:22", DENIED),
        ("1.1.1.1:80", DENIED),
        ("example.com:25", DENIED),
        ("127.0.0.1:443", PRIVATE),
        ("10.0.0.1:443", PRIVATE),
        ("169.254.169.254:443", PRIVATE),
        ("[::1]:443", PRIVATE),
        ("[::ffff:127.0.0.1]:443", PRIVATE),
        ("[64:ff9b::7f00:1]:443", PRIVATE),
        ("0.0.0.0:443", PRIVATE),
        ("localhost:443", PRIVATE),
    ] {
        let (status, error, cause) = refused(&gate, target);
        assert_eq!((status, error.as_str()), expected, "{target}");
        assert_eq!(cause, "refused_by_rule", "{target}");
    }
    let line = gate.line("why", |line| line["host"] == "localhost:443");
    assert!(
        line["detail"].as_str().unwrap().contains("loopback"),
        "{line}"
    );
}

#[test]
fn a_connect_target_name_is_checked_by_its_addresses() {
    let origin = Origin::tcp();
    let port = origin.socket_address().port();
    // A name that is allowed leads to no private address, unless that is allowed as well.
    let gate = lockgate().start(&listener(&format!("allow = [\"localhost:{port}\"]")));
    let (status, error, _) = refused(&gate, &format!("localhost:{port}"));
    assert_eq!((status, error.as_str()), PRIVATE);
    for keys in [
        format!("allow = [\"localhost:{port}\"]\nprivate = true"),
        format!("allow = [\"localhost:{port}\", \"127.0.0.0/8:{port}\"]"),
        format!("allow = [\"127.0.0.0/8:{port}\"]"),
    ] {
        let gate = lockgate().start(&listener(&keys));
        let mut client = Http::connect(gate.address());
        // In any spelling.
        client.send(connect(&format!("LocalHost.:{port}")));
        client.head();
        ping_pong(&mut client, &mut Http::over(origin.accept()));
    }
    let gate = lockgate().start(&listener(&format!(
        "private = true\nallow = [\"*:*\"]\ndeny = [\"127.0.0.1:{port}\"]"
    )));
    let (status, error, _) = refused(&gate, &format!("localhost:{port}"));
    // It may have ::1 as well, without a listener there.
    assert!(
        (status, error.as_str()) == DENIED || status == 502,
        "{status} {error}"
    );
}

#[test]
fn deny_overrides_allow_for_connect_targets() {
    let (origin, other) = (Origin::tcp(), deserted());
    let (port, other) = (origin.socket_address().port(), other.port());
    let keys = format!(
        "private = true\nallow = [\"*:{port}\"]\ndeny = [\"localhost\", \"127.0.0.2:{port}\"]"
    );
    let gate = lockgate().start(&listener(&keys));
    for target in [
        format!("localhost:{port}"),
        format!("127.0.0.2:{port}"),
        format!("[::ffff:127.0.0.2]:{port}"),
        format!("127.0.0.1:{other}"),
    ] {
        let (status, error, _) = refused(&gate, &target);
        assert_eq!((status, error.as_str()), DENIED, "{target}");
    }
    let (mut client, mut upstream) = opened(&gate, &origin);
    ping_pong(&mut client, &mut upstream);
}

#[test]
fn an_unresolvable_connect_target_is_a_502() {
    let gate = lockgate().start(&listener("allow = [\"*.invalid:443\"]"));
    // RFC 6761 §6.4. Without a name server the answer takes too long.
    let (status, error, _) = refused(&gate, "no.such.host.invalid:443");
    assert!(
        matches!(
            (status, error.as_str()),
            (502, "dns_error") | (504, "dns_timeout")
        ),
        "{status} {error}"
    );
}

#[test]
fn tunnel_clients_must_be_private_or_listed() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels("clients = [\"127.0.0.2\"]"));
    let (status, error, _) = refused(&gate, &origin.address());
    assert_eq!((status, error.as_str()), DENIED);
    let mut client = Http::over(Wire::connect_from([127, 0, 0, 2].into(), gate.address()));
    client.send(connect(&origin.address()));
    client.head();
    ping_pong(&mut client, &mut Http::over(origin.accept()));
    // By default private networks may: a PROXY header brings a client from outside.
    let gate = lockgate().start(
        &("trusted = [\"127.0.0.1\"]\n".to_owned() + &tunnels("accept_proxy = \"require\"")),
    );
    for (from, status) in [
        ("203.0.113.7", 403),
        ("100.64.0.1", 403),
        ("192.168.1.7", 200),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(
            format!("PROXY TCP4 {from} 192.0.2.1 4000 3128\r\n") + &connect(&origin.address()),
        );
        let head = client.head();
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{from}: {head}"
        );
    }
}

/// A forwarding field of a proxy in between is not for a forward proxy: it is meant for targets.
#[test]
fn x_forwarded_for_is_ignored_for_tunnel_clients() {
    let gate = lockgate().start(
        &("trusted = [\"127.0.0.1\"]\n".to_owned() + &tunnels("clients = [\"192.0.2.0/24\"]")),
    );
    let mut client = Http::connect(gate.address());
    client.send("CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
    assert_eq!(client.answer().status(), 403);
}
