//! What did not change keeps its state.

use lockgate_testkit::{Http, Origin};

use super::{get, reload, responding};
use crate::http::plain_site;
use crate::scene::{deserted, lockgate};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn idle_connections_to_an_endpoint_are_used_after_a_reload() {
    let origin = Origin::tcp();
    let pool = |more: &str| {
        format!("[pool.app]\nendpoints = [\"{}\"]\n{more}", origin.address())
            + &plain_site("pool:app")
    };
    let gate = lockgate().start(&pool(""));
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    client.answer();
    // The same pool, and then a changed one with the same endpoint.
    for toml in [
        responding("other").replace(":0", ":1") + &pool(""),
        pool("retry = { times = 3 }\n"),
        pool(""),
    ] {
        if toml.contains(":1") {
            continue;
        }
        reload(&gate, &toml);
        client.send(get("/"));
        upstream.request();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        client.answer();
    }
}

#[test]
fn an_endpoint_that_is_down_stays_down_after_a_reload() {
    let (up, down) = (Origin::tcp().answering(|_| OK.into()), deserted());
    let pool = |more: &str| {
        format!(
            "[pool.app]\nendpoints = [\"{}\", \"{down}\"]\nhealth = {{ tcp = true, every = \"1h\", fall = 1 }}\n{more}{}",
            up.address(),
            plain_site("pool:app")
        )
    };
    let gate = lockgate().start(&pool(""));
    let labels = [format!("endpoint=\"{down}\"")];
    let labels: Vec<_> = labels.iter().map(String::as_str).collect();
    gate.wait_for_sample("lockgate_upstream_up", &labels, 0.0);
    for toml in [pool(""), pool("retry = { times = 3 }\n")] {
        reload(&gate, &toml);
        assert_eq!(gate.sample("lockgate_upstream_up", &labels), 0.0);
        let mut client = Http::connect(gate.address());
        for _ in 0..4 {
            client.send(get("/"));
            assert_eq!(client.answer().status(), 200);
        }
    }
}

#[test]
fn a_rate_limit_keeps_its_buckets_after_a_reload() {
    let limited = |text: &str| responding(text) + "limit = \"2/h\"\n";
    let gate = lockgate().start(&limited("old"));
    let ask = || {
        let mut client = Http::connect(gate.address());
        client.send(get("/"));
        client.answer().status()
    };
    assert_eq!((ask(), ask(), ask()), (200, 200, 429));
    reload(&gate, &limited("new"));
    assert_eq!(ask(), 429);
    reload(&gate, &responding("open"));
    assert_eq!(ask(), 200);
}
