//! Endpoints that cannot be reached or break off, without checks: the operator log,
//! `lockgate_upstream_up`, `tried`.

use std::net::SocketAddr;

use lockgate_testkit::{Http, Lockgate, Origin, Wire};

use super::{OK, ask, ok, pooled, with_body};
use crate::scene::{deserted, lockgate, plain};

fn pool(endpoints: &[String], more: &str) -> String {
    pooled(format!(
        "endpoints = {endpoints:?}\nbalance = \"round-robin\"\n{more}"
    ))
}

fn endpoint_up(gate: &Lockgate, endpoint: &str) -> f64 {
    gate.sample(
        "lockgate_upstream_up",
        &["pool=\"app\"", &format!("endpoint=\"{endpoint}\"")],
    )
}

/// Lines of the operator log with this text, once the program has ended.
fn count(stderr: &str, text: &str) -> usize {
    stderr.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn a_dead_endpoint_is_logged_once_and_shown_as_down() {
    let (dead, alive) = (
        deserted().to_string(),
        Origin::tcp().answering(|_| OK.into()),
    );
    let gate = lockgate()
        .workers(2)
        .start(&pool(&[dead.clone(), alive.address().to_owned()], ""));
    assert_eq!(
        (
            endpoint_up(&gate, &dead),
            endpoint_up(&gate, alive.address())
        ),
        (1.0, 1.0)
    );
    for _ in 0..20 {
        assert_eq!(ask(&gate).status(), 200);
    }
    assert_eq!(
        (
            endpoint_up(&gate, &dead),
            endpoint_up(&gate, alive.address())
        ),
        (0.0, 1.0)
    );
    let line = gate.line("the request that went there first", |line| {
        line["tried"].is_string()
    });
    assert_eq!(
        (&line["tried"], &line["endpoint"]),
        (&dead.as_str().into(), &alive.address().into()),
        "{line}"
    );
    let said = gate.says("cannot be reached: others are preferred for");
    assert_eq!(
        (&said["endpoint"], &said["pool"]),
        (&dead.as_str().into(), &"app".into()),
        "{said}"
    );
    assert!(said["why"].as_str().unwrap().contains("refused"), "{said}");
    let ended = gate.stop();
    assert_eq!(
        count(&ended.stderr, "cannot be reached"),
        1,
        "{}",
        ended.stderr
    );
    assert_eq!(
        count(&ended.stderr, "no endpoint of the pool"),
        0,
        "{}",
        ended.stderr
    );
}

#[test]
fn a_pool_without_a_reachable_endpoint_is_logged_once() {
    let dead = [deserted().to_string(), deserted().to_string()];
    let gate = lockgate().workers(2).start(&pool(&dead, ""));
    for _ in 0..30 {
        assert_eq!(ask(&gate).status(), 502);
    }
    assert_eq!(
        dead.each_ref().map(|endpoint| endpoint_up(&gate, endpoint)),
        [0.0, 0.0]
    );
    let line = gate.line("a request", |line| line["status"] == 502);
    assert_eq!(line["tried"], dead.join(","), "{line}");
    assert_eq!(gate.says("no endpoint of the pool responds")["pool"], "app");
    let ended = gate.stop();
    assert_eq!(
        count(&ended.stderr, "cannot be reached"),
        2,
        "{}",
        ended.stderr
    );
    assert_eq!(
        count(&ended.stderr, "no endpoint of the pool responds"),
        1,
        "{}",
        ended.stderr
    );
}

#[test]
fn a_recovered_endpoint_is_logged_and_up() {
    let address: SocketAddr = deserted();
    let gate = lockgate().start(&pool(&[address.to_string()], ""));
    assert_eq!(ask(&gate).status(), 502);
    gate.says("cannot be reached");
    gate.says("no endpoint of the pool responds");
    assert_eq!(endpoint_up(&gate, &address.to_string()), 0.0);
    let origin = Origin::tcp_at(address).answering(|_| OK.into());
    assert_eq!(ask(&gate).status(), 200);
    let said = gate.says("the endpoint serves again");
    assert_eq!(
        (&said["endpoint"], &said["pool"]),
        (&origin.address().into(), &"app".into()),
        "{said}"
    );
    gate.says("the pool responds again");
    assert_eq!(endpoint_up(&gate, origin.address()), 1.0);
    assert_eq!(ask(&gate).status(), 200);
    let ended = gate.stop();
    assert_eq!(count(&ended.stderr, "again"), 2, "{}", ended.stderr);
}

#[test]
fn an_endpoint_that_resets_is_logged_and_passed_over() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let addresses = origins.each_ref().map(Origin::address);
    let gate = lockgate().start(&pool(&addresses, ""));
    let mut client = Http::connect(gate.address());
    client.send(with_body("POST", b"pay"));
    origins[0].http().request();
    assert_eq!(client.answer().status(), 502);
    let said = gate.says("the endpoint failed");
    assert_eq!(said["endpoint"], addresses[0], "{said}");
    assert!(
        said["why"]
            .as_str()
            .unwrap()
            .contains("closed before the response"),
        "{said}"
    );
    // Others are preferred for a second, which may be over.
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut upstream = origins[1].http();
    upstream.request();
    upstream.send(ok("other"));
    assert_eq!(client.answer().text(), "other");
}

#[test]
fn a_relay_without_a_reachable_endpoint_is_logged_once() {
    let dead = deserted().to_string();
    let gate = lockgate().start(&plain(&dead));
    for _ in 0..10 {
        Wire::connect(gate.address()).wait_closed();
    }
    assert_eq!(
        gate.sample("lockgate_upstream_up", &[&format!("endpoint=\"{dead}\"")]),
        0.0
    );
    assert_eq!(gate.says("cannot be reached")["endpoint"], dead);
    let ended = gate.stop();
    assert_eq!(
        count(&ended.stderr, "cannot be reached"),
        1,
        "{}",
        ended.stderr
    );
    assert_eq!(
        count(&ended.stderr, "no endpoint of the pool responds"),
        1,
        "{}",
        ended.stderr
    );
}

/// A client chooses the target of a tunnel: no line of the operator log.
#[test]
fn tunnel_targets_are_not_logged_as_dead_endpoints() {
    let dead = deserted();
    let toml = format!(
        "[tunnel.\"127.0.0.1:0\"]\nallow = [\"{}/32:*\"]\nforward = true\n",
        dead.ip()
    );
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET http://{dead}/ HTTP/1.1\r\nHost: {dead}\r\n\r\n"
    ));
    assert_eq!(client.answer().status(), 502);
    let ended = gate.stop();
    assert_eq!(count(&ended.stderr, "endpoint"), 0, "{}", ended.stderr);
}
