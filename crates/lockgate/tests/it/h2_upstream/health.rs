//! Active checks of endpoints that speak HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use lockgate_testkit::Lockgate;
use lockgate_testkit::h2::frame::code;
use lockgate_testkit::h2::{Origin, ScriptedResponse};

use super::{ask, get, pooled};
use crate::scene::{NAME, Site, lockgate, text};

fn wait_until_up(gate: &Lockgate, endpoint: &str, up: f64) {
    gate.wait_for_sample(
        "lockgate_upstream_up",
        &[&format!("endpoint=\"{endpoint}\"")],
        up,
    );
}

#[test]
fn health_checks_run_over_http2() {
    let well = Arc::new(AtomicU8::new(1));
    let is_well = Arc::clone(&well);
    let origin =
        Origin::plain(
            move |asked| match (asked.path.as_str(), is_well.load(Ordering::SeqCst)) {
                ("/health?q", 1) => ScriptedResponse::ok("all is fine"),
                ("/health?q", 2) => ScriptedResponse::ok("all is lost"),
                ("/health?q", _) => ScriptedResponse::new(500),
                _ => ScriptedResponse::ok("app"),
            },
        );
    let gate = lockgate().start(&pooled(
        &[&origin.address()],
        "health = { path = \"/health?q\", body = \"fine\", every = \"10ms\", fall = 1, rise = 1 }",
    ));
    let asked = origin.next();
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("GET", "/health?q")
    );
    assert_eq!(asked.authority, origin.address());
    assert!(
        asked
            .field("user-agent")
            .is_some_and(|agent| agent.ends_with("(health check)"))
    );
    for bad in [0, 2] {
        well.store(bad, Ordering::SeqCst);
        wait_until_up(&gate, &origin.address(), 0.0);
        assert_eq!(ask(&gate, get("/")).status(), 503);
        well.store(1, Ordering::SeqCst);
        wait_until_up(&gate, &origin.address(), 1.0);
        assert_eq!(ask(&gate, get("/")).text(), "app");
    }
}

#[test]
fn health_checks_mark_a_resetting_http2_endpoint_down() {
    let (good, bad) = (
        Origin::plain(|_| ScriptedResponse::ok("good")),
        Origin::plain(|_| ScriptedResponse::refuse(code::INTERNAL_ERROR)),
    );
    let keys = "health = { path = \"/\", every = \"10ms\", fall = 1, rise = 1 }";
    let gate = lockgate().start(&pooled(&[&good.address(), &bad.address()], keys));
    wait_until_up(&gate, &bad.address(), 0.0);
    for _ in 0..4 {
        assert_eq!(ask(&gate, get("/")).text(), "good");
    }
}

/// The response of an origin to `grpc.health.v1.Health/Check`.
fn health(status: u8) -> ScriptedResponse {
    let head = ScriptedResponse::new(200).field("content-type", "application/grpc");
    match status {
        0 => head.field("grpc-status", "12"),
        status => head
            .piece(vec![0, 0, 0, 0, 2, 8, status])
            .trailer("grpc-status", "0"),
    }
}

#[test]
fn health_checks_use_the_grpc_health_protocol() {
    let status = Arc::new(AtomicU8::new(1));
    let now = Arc::clone(&status);
    let origin = Origin::plain(move |_| health(now.load(Ordering::SeqCst)));
    let gate = lockgate().start(&pooled(
        &[&origin.address()],
        "health = { grpc = \"a.B\", every = \"10ms\", fall = 1, rise = 1 }",
    ));
    let asked = origin.next();
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/grpc.health.v1.Health/Check")
    );
    assert_eq!(
        (asked.field("content-type"), asked.field("te")),
        (Some("application/grpc"), Some("trailers"))
    );
    assert_eq!(asked.body, b"\0\0\0\0\x05\x0a\x03a.B");
    // NOT_SERVING, UNIMPLEMENTED.
    for (bad, why) in [(2, "NOT_SERVING"), (0, "grpc-status 12")] {
        status.store(bad, Ordering::SeqCst);
        wait_until_up(&gate, &origin.address(), 0.0);
        gate.stderr().find_json(why, |line| {
            line["why"].as_str().is_some_and(|said| said.contains(why))
        });
        status.store(1, Ordering::SeqCst);
        wait_until_up(&gate, &origin.address(), 1.0);
    }
}

#[test]
fn grpc_health_checks_the_whole_server_over_tls() {
    let site = Site::new();
    let origin = Origin::tls(&site.issued, |_| health(1));
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let _gate = lockgate().start(&format!(
        "[pool.app]\nprotocol = \"h2\"\nendpoints = [\"{}\"]\ntls = {{ ca = \"{ca}\", name = \"{NAME}\" }}\n\
         health = {{ grpc = true, every = \"10ms\" }}\n\
         [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:app\"\n",
        origin.address()
    ));
    for _ in 0..3 {
        let asked = origin.next();
        assert_eq!(
            (asked.scheme.as_str(), asked.body.as_slice()),
            ("https", &[0; 5][..])
        );
    }
}
