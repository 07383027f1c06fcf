//! Clients of the admin socket that are many, slow, silent or malformed.

use lockgate_testkit::Wire;
use serde_json::Value;

use super::{AdminScene, exchange};

/// More than the server serves at once.
const MANY: usize = 100;

#[test]
fn a_flood_of_silent_clients_locks_no_other_out() {
    let scene = AdminScene::new("");
    let mut silent = Vec::new();
    for _ in 0..MANY {
        silent.push(Wire::connect_unix(&scene.socket));
    }
    assert_eq!(scene.get("/v1/status")["phase"], "ready");
    scene.exchange();
    // Half a request is as silent.
    for wire in silent.iter_mut().rev().take(20) {
        wire.send("POST /v1/stop HTTP/1.1\r\nhost: lock");
    }
    for _ in 0..MANY {
        silent.push(Wire::connect_unix(&scene.socket));
    }
    assert_eq!(scene.get("/v1/status")["phase"], "ready");
}

#[test]
fn a_client_that_reads_nothing_holds_up_no_other() {
    let scene = AdminScene::new("");
    let mut greedy: Vec<Wire> = Vec::new();
    let requests = "GET /v1/status HTTP/1.1\r\nhost: lockgate\r\n\r\n".repeat(2_000);
    for _ in 0..8 {
        let wire = Wire::connect_unix(&scene.socket);
        rustix::io::ioctl_fionbio(&wire, true).unwrap();
        // The server stops to read once its responses are not read: the rest does not go.
        let sent = rustix::io::write(&wire, requests.as_bytes()).unwrap();
        assert!(sent > 0);
        greedy.push(wire);
    }
    let status = scene.get("/v1/status");
    assert_eq!(status["phase"], "ready");
    // Nor is the memory of the process theirs.
    let used = status["limits"]["memory"]["used"].as_u64().unwrap();
    assert!(used < 64 << 20, "{used} bytes");
    scene.exchange();
    assert!(scene.gate.metrics().contains("lockgate_build_info"));
}

#[test]
fn a_malformed_request_ends_its_connection_only() {
    let scene = AdminScene::new("");
    let long = format!(
        "GET /v1/status HTTP/1.1\r\nx: {}\r\n\r\n",
        "y".repeat(100_000)
    );
    for request in ["\x16\x03\x01\x02\x00\x01", "GET\r\n\r\n", &long] {
        let mut wire = Wire::connect_unix(&scene.socket);
        // The server may close before it has read everything.
        let _ = std::io::Write::write_all(&mut wire, request.as_bytes());
        wire.wait_closed();
        assert_eq!(scene.get("/v1/status")["phase"], "ready");
    }
}

#[test]
fn a_client_that_leaves_before_its_answer_harms_nothing() {
    let scene = AdminScene::new("");
    for _ in 0..50 {
        let mut wire = Wire::connect_unix(&scene.socket);
        wire.send("POST /v1/reload HTTP/1.1\r\nhost: lockgate\r\ncontent-length: 0\r\n\r\n");
    }
    let answer = exchange(Wire::connect_unix(&scene.socket), "POST", "/v1/reload", "");
    let value: Value = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(
        (answer.status(), &value["warnings"]),
        (200, &serde_json::json!([]))
    );
}
