//! Cancelled requests, on a connection to an endpoint that others share.

use http::Method;
use lockgate_testkit::Origin as Scripted;
use lockgate_testkit::h2::frame::kind;
use lockgate_testkit::h2::{Client, Origin, Peer, ScriptedResponse};

use super::failures::{accept, request};
use super::{ask, client, get, in_front_of, pooled};
use crate::scene::lockgate;

/// A client with so many requests in flight.
fn client_with_requests(to: std::net::SocketAddr, requests: u32) -> Peer {
    let mut peer = Peer::connect(to);
    for number in 0..requests {
        peer.get(2 * number + 1, "/");
    }
    peer
}

/// CVE-2023-44487: endpoints end the connection of all clients when many requests are cancelled
/// before they are looked at. The h2 crate tolerates 20 of them.
#[test]
fn many_cancelled_requests_do_not_end_the_shared_connection() {
    let origin = Origin::plain(|_| ScriptedResponse::ok("ok"));
    let gate = in_front_of(&origin);
    assert_eq!(ask(&gate, get("/")).status(), 200);
    // An endpoint that is busy with something else.
    origin.freeze();
    let client = client(&gate);
    let wanted = client.begin(Client::request(Method::POST, "/"), true);
    let leaving = client_with_requests(gate.address(), 80);
    let in_flight = "lockgate_upstream_requests_in_flight";
    gate.wait_for_sample(in_flight, &[], 81.0);
    drop(leaving);
    gate.wait_for_sample(in_flight, &[], 1.0);
    origin.serve();
    assert_eq!(wanted.answer().status, 200);
    assert_eq!(origin.accepted(), 1);
}

/// An application gets a reset for each client that is gone, however many these are.
#[test]
fn cancelled_requests_send_rst_stream_as_the_endpoint_reads() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let leaving = client_with_requests(gate.address(), 80);
    let mut endpoint = accept(&origin, 100);
    for _ in 0..80 {
        request(&mut endpoint);
    }
    drop(leaving);
    // It acknowledges SETTINGS as it reads them.
    let (mut resets, mut at_once) = (0, 0);
    while resets < 80 {
        match endpoint.read().kind {
            kind::RST_STREAM => (resets, at_once) = (resets + 1, at_once + 1),
            kind::SETTINGS => at_once = 0,
            _ => {}
        }
        assert!(at_once <= 8, "{at_once} of {resets}");
    }
}
