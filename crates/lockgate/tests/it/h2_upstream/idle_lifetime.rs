//! The lifetime of shared HTTP/2 connections to endpoints: `idle.lifetime`.

use ::http::Method;
use lockgate_testkit::h2::frame::{code, setting};
use lockgate_testkit::h2::{Client, Origin, Peer};
use lockgate_testkit::{Http, Origin as Scripted, eventually};

use super::failures::{accept, answer, request};
use super::{client, get, pooled};
use crate::scene::lockgate;

/// A pool of this origin with this lifetime.
fn pool(origin: &str, lifetime: &str) -> String {
    let idle = format!("idle = {{ lifetime = \"{lifetime}\", for = \"1d\" }}");
    pooled(&[origin], idle)
}

#[test]
fn idle_lifetime_closes_an_old_http2_connection() {
    for workers in [1, 2] {
        let origin = Scripted::tcp();
        let toml = pool(&origin.address(), "300ms");
        let gate = lockgate().workers(workers).start(&toml);
        let mut http = Http::connect(gate.address());
        for _ in 0..2 {
            http.send(get("/"));
            let mut peer = accept(&origin, 100);
            let stream = request(&mut peer);
            answer(&mut peer, stream);
            assert_eq!(http.answer().status(), 200);
            assert_eq!(peer.goodbye().code, code::NO_ERROR);
        }
    }
}

#[test]
fn idle_lifetime_never_cuts_an_open_http2_stream() {
    let origin = Origin::echo();
    let gate = lockgate().start(&pool(&origin.address(), "1s"));
    let client = client(&gate);
    let mut open = client.begin(Client::request(Method::POST, "/open"), false);
    open.send("before ", false);
    assert_eq!(open.piece().unwrap().unwrap(), "before ");
    // Further streams share its connection until it is too old for them.
    eventually("a request on another connection", || {
        assert_eq!(client.get("/").status, 200);
        (origin.next().connection > 0).then_some(())
    });
    for _ in 0..10 {
        assert_eq!(client.get("/").status, 200);
        assert!(origin.next().connection > 0);
    }
    open.send("and after", true);
    let answer = open.answer();
    assert_eq!((answer.text(), answer.reset), ("before and after", None));
    assert_eq!(origin.next().connection, 0);
    gate.wait_for_sample("lockgate_upstream_connections", &[], 0.0);
}

/// Otherwise a request would make connections without end.
#[test]
fn past_idle_lifetime_a_new_http2_connection_serves_one_request() {
    let origin = Scripted::tcp();
    let toml = pool(&origin.address(), "1ms");
    let gate = lockgate().start(&format!("timeouts = {{ idle = \"100ms\" }}\n{toml}"));
    let mut http = Http::connect(gate.address());
    http.send(get("/"));
    let wire = origin.accept();
    // Another client's timeout shows that the time has passed.
    Http::connect(gate.address()).expect_end();
    let mut peer = Peer::accept(wire, &[(setting::MAX_CONCURRENT_STREAMS, 100)]);
    let stream = request(&mut peer);
    answer(&mut peer, stream);
    assert_eq!(http.answer().status(), 200);
    assert_eq!(peer.goodbye().code, code::NO_ERROR);
}
