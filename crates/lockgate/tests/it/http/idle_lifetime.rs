//! The lifetime of kept HTTP/1 connections to endpoints: `idle.lifetime`.

use lockgate_testkit::{Http, Origin, eventually};

use super::{get, ok, pooled};
use crate::scene::lockgate;

/// A pool of this origin with this lifetime, and more keys.
fn pool(origin: &str, lifetime: &str, more: &str) -> String {
    pooled(format!(
        "endpoints = [\"{origin}\"]\nidle = {{ lifetime = \"{lifetime}\", for = \"1d\" }}\n{more}"
    ))
}

#[test]
fn idle_lifetime_closes_an_old_connection() {
    for workers in [1, 2] {
        let origin = Origin::tcp();
        let toml = pool(&origin.address(), "300ms", "");
        let gate = lockgate().workers(workers).start(&toml);
        let mut clients: Vec<_> = (0..8).map(|_| Http::connect(gate.address())).collect();
        // The second round would get the connections of the first if they were still there.
        for _ in 0..2 {
            clients.iter_mut().for_each(|client| client.send(get("/")));
            let mut upstreams: Vec<_> = clients.iter().map(|_| origin.http()).collect();
            for upstream in &mut upstreams {
                upstream.request();
                upstream.send(ok("app"));
            }
            for client in &mut clients {
                assert_eq!(client.answer().text(), "app");
            }
            upstreams.iter_mut().for_each(Http::expect_end);
        }
    }
}

#[test]
fn idle_lifetime_never_cuts_a_request_in_flight() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&pool(&origin.address(), "300ms", ""));
    let (mut slow, mut quick) = (Http::connect(gate.address()), Http::connect(gate.address()));
    slow.send(get("/"));
    let mut old = origin.http();
    old.request();
    old.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na");
    // When a later connection has ended by its lifetime, the first one is past its own.
    quick.send(get("/"));
    let mut later = origin.http();
    later.request();
    later.send(ok("app"));
    assert_eq!(quick.answer().text(), "app");
    later.expect_end();
    old.send("pp");
    assert_eq!(slow.answer().text(), "app");
    slow.send(get("/"));
    let mut new = origin.http();
    new.request();
    new.send(ok("new"));
    assert_eq!(slow.answer().text(), "new");
    old.expect_end();
}

#[test]
fn idle_lifetime_lets_a_young_connection_be_reused() {
    for lifetime in ["1h", "off"] {
        let origin = Origin::tcp().answering(|_| ok("app"));
        let gate = lockgate().start(&pool(origin.address(), lifetime, ""));
        for _ in 0..10 {
            let mut client = Http::connect(gate.address());
            client.send(get("/"));
            assert_eq!(client.answer().text(), "app");
        }
        assert_eq!(origin.accepted(), 1, "{lifetime}");
    }
}

/// Each is looked at with every request, long before the next check of idle ones.
#[test]
fn idle_lifetime_bounds_shared_and_private_connections() {
    for header in [false, true] {
        let origin = Origin::tcp().serve(move |wire| {
            let mut http = Http::over(wire.another());
            if header {
                http.line();
            }
            while http.next_request().is_some() {
                http.send(ok("app"));
            }
        });
        let more = if header {
            "proxy_protocol = \"v1\""
        } else {
            ""
        };
        let gate = lockgate().start(&pool(origin.address(), "1ms", more));
        let mut client = Http::connect(gate.address());
        eventually("five connections", || {
            client.send(get("/"));
            assert_eq!(client.answer().text(), "app");
            (origin.accepted() >= 5).then_some(())
        });
    }
}
