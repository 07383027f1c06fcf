//! Endpoints that close or reset an HTTP/2 connection before they answer.

use lockgate_testkit::{Http, Origin};

use super::failures::{accept, request};
use super::{pooled, post};
use crate::scene::lockgate;

#[test]
fn closed_and_reset_http2_connections_have_their_own_causes() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&pooled(
        &[&origin.address()],
        "retry = false\neject = false",
    ));
    for (reset, cause) in [(false, "upstream_closed"), (true, "upstream_reset")] {
        let mut http = Http::connect(gate.address());
        http.send(post(b"once"));
        let mut peer = accept(&origin, 100);
        request(&mut peer);
        peer.settle();
        if reset {
            peer.stream.reset();
        } else {
            drop(peer);
        }
        let got = http.answer();
        assert_eq!(got.status(), 502, "{}", got.head);
        assert!(
            got.head.contains("error=connection_terminated"),
            "{}",
            got.head
        );
        let line = gate.next_line();
        assert_eq!(line["cause"], cause, "{line}");
    }
}
