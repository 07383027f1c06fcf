//! One live request that brings a token: it is explained, with what happened to it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use lockgate_testkit::{Folder, Http, Lockgate, Message, Origin, Serving};
use serde_json::{Value, json};

use crate::admin::ask;
use crate::scene::{lockgate, text};

/// A Lockgate in front of an origin that answers with the head that it got.
struct TraceScene {
    folder: Folder,
    gate: Lockgate,
    origin: Serving,
}

impl TraceScene {
    fn new() -> Self {
        let folder = Folder::new();
        let origin = Origin::tcp().answering(|request| {
            let head = request.head.clone();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}",
                head.len()
            )
            .into_bytes()
        });
        let gate = lockgate().workers(2).start(&format!(
            "admin = \"unix:{}\"\n[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = 404\n\
             [site.\":0\".path.\"/api/*\"]\nproxy = \"{}\"\nstrip_prefix = true\n",
            text(&folder.path("admin.sock")),
            origin.address()
        ));
        Self {
            folder,
            gate,
            origin,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path("admin.sock")
    }

    fn token(&self) -> String {
        let (status, begun) = ask(&self.socket(), "POST", "/v1/traces", "");
        assert_eq!(status, 200, "{begun}");
        let token = begun["token"].as_str().unwrap().to_owned();
        assert_eq!(begun["field"], format!("Lockgate-Trace: {token}"));
        token
    }

    fn trace(&self, token: &str) -> (u16, Value) {
        let body = json!({ "token": token }).to_string();
        ask(&self.socket(), "POST", "/v1/traces/wait", &body)
    }

    fn send(&self, path: &str, fields: &str) -> Message {
        let mut client = Http::connect(self.gate.at("127.0.0.1:0"));
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"
        ));
        client.answer()
    }
}

#[test]
fn a_request_with_a_trace_token_is_explained_with_what_happened() {
    let scene = TraceScene::new();
    let token = scene.token();
    let answer = scene.send(
        "/api/7",
        &format!("Lockgate-Trace: {token}\r\nCookie: id=secret\r\nX-A: 1\r\n"),
    );
    assert_eq!(answer.status(), 200);
    assert!(
        answer.text().contains("X-A: 1") && !answer.text().to_lowercase().contains("trace"),
        "{}",
        answer.text()
    );
    let (status, trace) = scene.trace(&token);
    assert_eq!(status, 200, "{trace}");
    assert_eq!(
        (&trace["route"]["path"], &trace["outcome"]["kind"]),
        (&json!("/api/*"), &json!("proxied"))
    );
    assert_eq!(trace["lost_routes"][0]["because"], "less specific");
    assert_eq!(trace["outcome"]["sent"]["target"], "/7");
    let happened = &trace["happened"];
    assert_eq!(
        (&happened["status"], &happened["endpoint"]),
        (&json!(200), &json!(scene.origin.address()))
    );
    assert!(
        happened["duration_seconds"].as_f64().is_some(),
        "{happened}"
    );
    let sent = trace["outcome"]["sent"]["fields"].as_array().unwrap();
    let id = format!("X-Request-Id: {}", happened["id"].as_str().unwrap());
    assert!(sent.contains(&json!(id)), "{sent:?}");
    // Logs have no cookies.
    let logged = scene.gate.says("traced a request");
    let logged = logged["trace"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(logged).unwrap(), trace);
    assert!(logged.contains("Cookie: …") && !logged.contains("secret"));
}

#[test]
fn a_trace_token_serves_one_request_and_wrong_ones_change_nothing() {
    let scene = TraceScene::new();
    let (token, other) = (scene.token(), scene.token());
    let plain = scene.send("/api/7", "");
    let with = |field: &str| {
        let answer = scene.send("/api/7", &format!("Lockgate-Trace: {field}\r\n"));
        assert_eq!(answer.status(), 200);
        answer
    };
    let id_of = |answer: &Message| {
        let mut lines = answer.text().lines();
        let id = lines.find_map(|line| line.strip_prefix("X-Request-Id: "));
        id.unwrap().to_owned()
    };
    let wrong = "0".repeat(32);
    let first = with(&token);
    let all = [
        with(&wrong),
        with(""),
        with(&format!("{other}0")),
        with(&format!("{other}\r\nLockgate-Trace: {other}")),
        with(&token),
    ];
    for answer in all.iter().chain([&first]) {
        let without_id = |answer: &Message| answer.text().replace(&id_of(answer), "");
        assert_eq!(without_id(answer), without_id(&plain));
    }
    let (_, trace) = scene.trace(&token);
    assert_eq!(trace["happened"]["id"], id_of(&first));
    assert_eq!(scene.trace(&wrong).0, 404);
    // The other one is still of use.
    let last = with(&other);
    let (_, trace) = scene.trace(&other);
    assert_eq!(trace["happened"]["id"], id_of(&last));
    let ended = scene.gate.stop();
    assert_eq!(ended.stderr.matches("traced a request").count(), 2);
}

#[test]
fn an_auth_service_never_gets_the_trace_token() {
    let seen = Arc::new(Mutex::new(String::new()));
    let heads = Arc::clone(&seen);
    let auth = Origin::tcp().answering(move |request| {
        heads.lock().unwrap().push_str(&request.head);
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec()
    });
    let gate = lockgate().start(&format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"ok\"\nauth = {{ forward = \"{}\" }}\n",
        auth.address()
    ));
    let mut client = Http::connect(gate.at("127.0.0.1:0"));
    client.send("GET / HTTP/1.1\r\nHost: a\r\nLockgate-Trace: x\r\nX-Seen: 1\r\n\r\n");
    assert_eq!(client.answer().status(), 200);
    let seen = seen.lock().unwrap().to_lowercase();
    assert!(
        seen.contains("x-seen") && !seen.contains("lockgate-trace"),
        "{seen}"
    );
}

#[test]
fn a_refused_request_is_traced_too() {
    let scene = TraceScene::new();
    let token = scene.token();
    let answer = scene.send("/other", &format!("Lockgate-Trace: {token}\r\n"));
    assert_eq!(answer.status(), 404);
    let (_, trace) = scene.trace(&token);
    assert_eq!(
        (&trace["outcome"]["status"], &trace["happened"]["status"]),
        (&json!(404), &json!(404))
    );
}

#[test]
fn only_a_few_requests_are_followed_at_once() {
    let scene = TraceScene::new();
    let tokens: Vec<_> = (0..16).map(|_| scene.token()).collect();
    let (status, refused) = ask(&scene.socket(), "POST", "/v1/traces", "");
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("too_many_traces"))
    );
    scene.send("/other", &format!("Lockgate-Trace: {}\r\n", tokens[3]));
    assert_eq!(scene.trace(&tokens[3]).0, 200);
    scene.token();
}

#[test]
fn explain_trace_prints_the_field_and_then_the_trace() {
    let scene = TraceScene::new();
    let admin = format!("unix:{}", text(&scene.socket()));
    let mut words = vec!["explain", "--trace", "--admin", &admin];
    words.push("http://a.test/other");
    let command = lockgate().command(&words);
    let token = command.stderr().find("the field", |line| {
        let (_, field) = line.split_once("'Lockgate-Trace: ")?;
        let (token, url) = field.split_once("' ")?;
        assert_eq!(url, "http://a.test/other");
        Some(token.to_owned())
    });
    scene.send("/other", &format!("Lockgate-Trace: {token}\r\n"));
    let ended = command.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for part in [
        "GET http://a.test/other from 127.0.0.1\n",
        "outcome      status 404\n",
        "happened     status 404\n",
    ] {
        assert!(ended.stdout.contains(part), "{part:?} in {}", ended.stdout);
    }
}
