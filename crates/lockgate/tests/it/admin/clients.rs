//! Banned clients.

use std::io::Write as _;
use std::net::IpAddr;

use lockgate_testkit::{Http, Wire, eventually};
use serde_json::{Value, json};

use super::{AdminScene, ask};
use crate::reload::reload;

const GET: &str = "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";

impl AdminScene {
    fn ban(&self, client: &str, seconds: u64) -> Value {
        let body = json!({ "client": client, "for_seconds": seconds, "reason": "a test" });
        let (status, value) = self.post("/v1/clients/ban", &body.to_string());
        assert_eq!(status, 200, "{value}");
        value
    }

    fn unban(&self, client: &str) -> u16 {
        let body = json!({ "client": client }).to_string();
        self.post("/v1/clients/unban", &body).0
    }

    fn connect_from(&self, address: &str) -> Wire {
        let from: IpAddr = address.parse().unwrap();
        Wire::connect_from(from, self.gate.at("127.0.0.1:0"))
    }

    /// The status of a request from this address; `None` where its connection is closed.
    fn status_from(&self, address: &str, fields: &str) -> Option<u16> {
        let mut wire = self.connect_from(address);
        // A closed connection does not take it.
        let _ = wire.write_all(
            format!("GET / HTTP/1.1\r\nhost: a.test\r\n{fields}connection: close\r\n\r\n")
                .as_bytes(),
        );
        let (answer, _) = wire.end();
        let text = String::from_utf8(answer).unwrap();
        let status = text.split(' ').nth(1)?;
        Some(status.parse().unwrap())
    }
}

#[test]
fn connections_of_a_banned_client_are_closed() {
    let scene = AdminScene::new("");
    let mut kept = Http::over(scene.connect_from("127.0.0.7"));
    let mut status = || {
        kept.send(GET);
        kept.answer().status()
    };
    assert_eq!(status(), 200);
    let banned = scene.ban("127.0.0.7", 3_600);
    assert_eq!(banned["client"], "127.0.0.7/32");
    assert_eq!(scene.status_from("127.0.0.7", ""), None);
    assert_eq!(scene.status_from("127.0.0.8", ""), Some(200));
    // A connection from before gets one more response.
    assert_eq!(status(), 403);
    kept.wait_closed();
    scene
        .gate
        .wait_for_sample("lockgate_clients_banned_total", &[], 2.0);
    // It holds after a reload.
    let written = std::fs::read_to_string(scene.gate.configuration()).unwrap();
    reload(&scene.gate, &written);
    assert_eq!(scene.status_from("127.0.0.7", ""), None);
    let listed = scene.get("/v1/clients/bans");
    assert_eq!(listed["bans"][0]["client"], "127.0.0.7/32");
    assert_eq!(listed["bans"][0]["reason"], "a test");
    assert_eq!(scene.unban("127.0.0.7"), 200);
    assert_eq!(scene.unban("127.0.0.7"), 404);
    assert_eq!(scene.status_from("127.0.0.7", ""), Some(200));
}

#[test]
fn a_ban_comes_before_malformed_requests_and_unknown_hosts() {
    let scene = AdminScene::new("[site.\"b.test:0\"]\nlisten = [\"127.0.0.3\"]\nrespond = 200\n");
    let from: IpAddr = "127.0.0.7".parse().unwrap();
    let connect = || Http::over(Wire::connect_from(from, scene.gate.at("127.0.0.3:0")));
    let requests = [
        "GET / HTTP/1.1\r\nhost: other.test\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: b.test\r\nhost: b.test\r\n\r\n",
    ];
    let mut kept = requests.map(|request| {
        let mut client = connect();
        client.send("GET / HTTP/1.1\r\nhost: b.test\r\n\r\n");
        assert_eq!(client.answer().status(), 200);
        (client, request)
    });
    scene.ban("127.0.0.7", 3_600);
    for (client, request) in &mut kept {
        client.send(*request);
        assert_eq!(client.answer().status(), 403, "{request}");
        client.wait_closed();
    }
    scene
        .gate
        .wait_for_sample("lockgate_clients_banned_total", &[], 2.0);
}

#[test]
fn a_ban_of_a_network_ends_by_itself() {
    let scene = AdminScene::new("");
    scene.ban("127.0.1.0/24", 1);
    assert_eq!(scene.status_from("127.0.1.77", ""), None);
    assert_eq!(scene.status_from("127.0.2.77", ""), Some(200));
    eventually("the end of the ban", || scene.status_from("127.0.1.77", ""));
    assert_eq!(scene.get("/v1/clients/bans"), json!({ "bans": [] }));
}

#[test]
fn a_banned_client_behind_a_trusted_proxy_gets_403() {
    let scene = AdminScene::new("trusted = [\"127.0.0.9\"]\n");
    scene.ban("2001:db8::1", 3_600);
    let status = |client: &str| {
        let fields = format!("x-forwarded-for: {client}\r\n");
        scene.status_from("127.0.0.9", &fields)
    };
    // Its /64 is one client.
    assert_eq!(status("2001:db8::2"), Some(403));
    assert_eq!(status("2001:db8:0:1::2"), Some(200));
    assert_eq!(scene.status_from("127.0.0.9", ""), Some(200));
}

#[test]
fn a_banned_client_of_a_proxy_header_is_closed() {
    let scene = AdminScene::new(
        "trusted = [\"127.0.0.9\"]\n[site.\"b.test:0\"]\nlisten = [\"127.0.0.3\"]\nrespond = 200\naccept_proxy = \"require\"\n",
    );
    scene.ban("192.0.2.0/24", 3_600);
    let ask = |client: &str| {
        let from = "127.0.0.9".parse().unwrap();
        let mut wire = Wire::connect_from(from, scene.gate.at("127.0.0.3:0"));
        let header = format!(
            "PROXY TCP4 {client} 127.0.0.3 1 80\r\nGET / HTTP/1.1\r\nhost: b.test\r\nconnection: close\r\n\r\n"
        );
        wire.send(header);
        String::from_utf8(wire.end().0).unwrap()
    };
    assert_eq!(ask("192.0.2.1"), "");
    assert!(ask("198.51.100.1").starts_with("HTTP/1.1 200"));
}

#[test]
fn unusable_bans_are_refused() {
    let scene = AdminScene::new("");
    for (body, code) in [
        (json!({ "for_seconds": 60 }), "unusable"),
        (json!({ "client": "127.0.0.1" }), "unusable"),
        (json!({ "client": "a.test", "for_seconds": 60 }), "unusable"),
        (
            json!({ "client": "10.0.0.1/8", "for_seconds": 60 }),
            "unusable",
        ),
        (
            json!({ "client": "10.0.0.1", "for_seconds": 0 }),
            "out_of_range",
        ),
        (
            json!({ "client": "10.0.0.1", "for_seconds": 60, "reason": "x".repeat(300) }),
            "unusable",
        ),
        (
            json!({ "client": "10.0.0.1", "for_seconds": 60, "reason": "\u{1b}[2J" }),
            "unusable",
        ),
        (
            json!({ "client": "10.0.0.1", "for_seconds": 60, "reason": "a\nb" }),
            "unusable",
        ),
        (
            json!({ "client": "10.0.0.1", "for_seconds": 60, "reason": ["scans"] }),
            "unusable",
        ),
    ] {
        let (status, answer) = ask(&scene.socket, "POST", "/v1/clients/ban", &body.to_string());
        assert_eq!(
            (status, &answer["error"]["code"]),
            (422, &json!(code)),
            "{body}"
        );
    }
}

#[test]
fn the_command_line_bans_clients() {
    let scene = AdminScene::new("");
    let run = |words: &[&str]| {
        let ended = scene.command(&[&["client"], words].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    let banned = run(&["ban", "127.0.0.7", "--for", "10m", "--reason", "scans"]);
    assert_eq!(banned.trim(), "127.0.0.7/32 is banned for 10m");
    assert_eq!(scene.status_from("127.0.0.7", ""), None);
    assert!(run(&["list"]).contains("scans"));
    // Marks of direction are no control characters.
    run(&["ban", "127.0.0.9", "--for", "1m", "--reason", "a\u{202e}b"]);
    assert!(run(&["list"]).contains("a\\u{202e}b"));
    run(&["unban", "127.0.0.7"]);
    assert_eq!(scene.status_from("127.0.0.7", ""), Some(200));
}
