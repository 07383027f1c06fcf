//! What operators have set while a process ran, and their connections to the admin socket, across
//! an upgrade.

use lockgate_testkit::{Folder, Http, Origin, Wire, eventually};
use serde_json::{Value, json};

use super::{UpgradeScene, get, wait_for_end};
use crate::admin::ask;
use crate::scene::{lockgate, text};

/// A site with a pool of two endpoints.
fn pair(endpoints: [&str; 2], more: &str) -> String {
    let [first, second] = endpoints;
    format!(
        "{more}[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:app\"\n\
         [pool.app]\nendpoints = [\"{first}\", \"{second}\"]\n"
    )
}

const NOWHERE: [&str; 2] = ["127.0.0.1:1", "127.0.0.1:2"];

/// Requests that change what an upgrade hands over.
const CHANGES: [(&str, &str); 9] = [
    (
        "/v1/endpoints/drain",
        r#"{ "pool": "app", "endpoint": "127.0.0.1:1" }"#,
    ),
    (
        "/v1/endpoints/ready",
        r#"{ "pool": "app", "endpoint": "127.0.0.1:1" }"#,
    ),
    (
        "/v1/endpoints/weight",
        r#"{ "pool": "app", "endpoint": "127.0.0.1:2", "weight": 7 }"#,
    ),
    (
        "/v1/sites/maintenance",
        r#"{ "site": ":0", "status": 500, "retry_after_seconds": 5 }"#,
    ),
    (
        "/v1/clients/ban",
        r#"{ "client": "192.0.2.0/24", "for_seconds": 86400, "reason": "a \"test\"" }"#,
    ),
    ("/v1/clients/unban", r#"{ "client": "192.0.2.0/24" }"#),
    ("/v1/log-level", r#"{ "level": "debug" }"#),
    (
        "/v1/endpoints/add",
        r#"{ "pool": "app", "endpoint": "127.0.0.1:3", "weight": 5, "backup": true }"#,
    ),
    (
        "/v1/endpoints/remove",
        r#"{ "pool": "app", "endpoint": "127.0.0.1:1" }"#,
    ),
];

impl UpgradeScene {
    fn post(&self, path: &str, body: &str) -> (u16, Value) {
        ask(&self.socket, "POST", path, body)
    }

    fn set(&self, path: &str, body: &str) {
        let (status, answer) = self.post(path, body);
        assert_eq!(status, 200, "{path}: {answer}");
    }

    fn shown(&self, path: &str) -> Value {
        let (status, answer) = ask(&self.socket, "GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// What was set for the two endpoints.
    fn endpoints(&self) -> Vec<(Value, Value)> {
        let pools = self.shown("/v1/pools");
        let all = pools["pools"][0]["endpoints"].as_array().unwrap().iter();
        all.map(|one| (one["admin"].clone(), one["weight"].clone()))
            .collect()
    }

    /// A kept connection to the admin socket.
    fn kept(&self) -> Http {
        let mut kept = Http::over(Wire::connect_unix(&self.socket));
        kept.send("GET /v1/status HTTP/1.1\r\nhost: lockgate\r\n\r\n");
        assert_eq!(kept.answer().status(), 200);
        kept
    }
}

#[test]
fn run_time_changes_hold_after_an_upgrade() {
    let mut scene = UpgradeScene::new(&lockgate().workers(2), &pair(NOWHERE, ""));
    for (path, body) in CHANGES {
        let is_taken_back = ["ready", "unban", "add", "remove"];
        if !is_taken_back.iter().any(|end| path.ends_with(end)) {
            scene.set(path, body);
        }
    }
    for _ in 0..2 {
        let before = scene.upgrade();
        let endpoints = [(json!("drain"), json!(1)), (Value::Null, json!(7))];
        assert_eq!(scene.endpoints(), endpoints);
        let sites = scene.shown("/v1/sites/maintenance");
        let site = json!({ "site": ":0", "status": 500, "retry_after_seconds": 5 });
        assert_eq!(sites, json!({ "sites": [site] }));
        let mut client = Http::connect(scene.gate.address());
        client.send(get());
        assert_eq!(client.answer().status(), 500);
        let bans = scene.shown("/v1/clients/bans");
        let [ban] = bans["bans"].as_array().unwrap().as_slice() else {
            panic!("{bans}");
        };
        assert_eq!(
            (&ban["client"], &ban["reason"]),
            (&json!("192.0.2.0/24"), &json!("a \"test\""))
        );
        assert!((1..=86_400).contains(&ban["seconds_left"].as_u64().unwrap()));
        assert_eq!(scene.shown("/v1/log-level"), json!({ "level": "debug" }));
        wait_for_end(before);
    }
}

#[test]
fn added_and_removed_endpoints_are_so_after_an_upgrade() {
    let mut scene = UpgradeScene::new(&lockgate().workers(2), &pair(NOWHERE, ""));
    for (path, body) in &CHANGES[7..] {
        scene.set(path, body);
    }
    let drain = r#"{ "pool": "app", "endpoint": "127.0.0.1:3" }"#;
    scene.set("/v1/endpoints/drain", drain);
    for _ in 0..2 {
        let before = scene.upgrade();
        let pool = &scene.shown("/v1/pools")["pools"][0];
        assert_eq!(pool["added"], json!(["127.0.0.1:3"]));
        assert_eq!(pool["removed"], json!(["127.0.0.1:1"]));
        let added = &pool["endpoints"][1];
        assert_eq!(
            (&added["endpoint"], &added["weight"], &added["backup"]),
            (&json!("127.0.0.1:3"), &json!(5), &json!(true))
        );
        assert_eq!(added["admin"], "drain");
        wait_for_end(before);
    }
}

#[test]
fn a_kept_change_taken_back_stays_so_after_an_upgrade() {
    let state = Folder::new();
    let more = format!("state = \"{}\"\n", text(state.dir()));
    let mut scene = UpgradeScene::new(&lockgate(), &pair(NOWHERE, &more));
    let body = r#"{ "pool": "app", "endpoint": "127.0.0.1:1", "keep": true }"#;
    scene.set("/v1/endpoints/drain", body);
    let (ready, body) = CHANGES[1];
    scene.set(ready, body);
    scene.upgrade();
    let both = [(Value::Null, json!(1)), (Value::Null, json!(1))];
    assert_eq!(scene.endpoints(), both);
}

#[test]
fn changes_are_refused_while_an_upgrade_is_under_way() {
    let mut scene = UpgradeScene::new(&lockgate(), &pair(NOWHERE, ""));
    let waiting = scene.waiting_program();
    let pid = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| scene.ask(&waiting.body()));
        waiting.wait();
        for (path, body) in CHANGES {
            let (status, answer) = scene.post(path, body);
            let code = &answer["error"]["code"];
            assert_eq!((status, code), (409, &json!("upgrade_under_way")), "{path}");
        }
        assert_eq!(scene.shown("/v1/clients/bans"), json!({ "bans": [] }));
        scene.set("/v1/limits/clear", r#"{ "client": "192.0.2.1" }"#);
        waiting.go_on();
        let (status, answer) = upgrade.join().unwrap();
        assert_eq!(status, 200, "{answer}");
        answer["pid"].as_u64().unwrap()
    });
    scene.served_by(u32::try_from(pid).unwrap());
    for (path, body) in CHANGES {
        scene.set(path, body);
    }
    scene.failed("/bin/false".as_ref(), 60);
    let (ban, body) = CHANGES[4];
    scene.set(ban, body);
}

#[test]
fn kept_admin_connections_end_with_an_upgrade() {
    let mut scene = UpgradeScene::new(&lockgate(), &pair(NOWHERE, ""));
    let (mut idle, mut begun) = (scene.kept(), scene.kept());
    let (path, body) = CHANGES[4];
    begun.send(format!(
        "POST {path} HTTP/1.1\r\nhost: lockgate\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    ));
    assert!(begun.head().starts_with("HTTP/1.1 100"));
    let mut tail = Http::over(Wire::connect_unix(&scene.socket));
    tail.send("GET /v1/tail HTTP/1.1\r\nhost: lockgate\r\n\r\n");
    assert!(tail.head().starts_with("HTTP/1.1 200"));
    scene.upgrade();
    idle.expect_end();
    assert_eq!(tail.chunk(), None);
    begun.send(body);
    let answer = begun.answer();
    let said: Value = serde_json::from_str(answer.text()).unwrap();
    let code = &said["error"]["code"];
    assert_eq!((answer.status(), code), (503, &json!("stopping")));
    begun.expect_end();
}

#[test]
fn a_wait_for_a_drain_ends_with_an_upgrade() {
    let origin = Origin::tcp();
    let address = origin.address();
    let mut scene = UpgradeScene::new(&lockgate(), &pair([&address, NOWHERE[0]], ""));
    // It is the first endpoint, or the second one refuses first.
    let mut client = Http::connect(scene.gate.address());
    client.send(get());
    let mut client_at = origin.http();
    client_at.request();
    let body = json!({ "pool": "app", "endpoint": address, "wait_seconds": 3_600, "force": true });
    let mut waiting = Http::over(Wire::connect_unix(&scene.socket));
    let body = body.to_string();
    waiting.send(format!(
        "POST /v1/endpoints/drain HTTP/1.1\r\nhost: lockgate\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    eventually("the drain", || {
        (scene.endpoints()[0].0 == "drain").then_some(())
    });
    let before = scene.upgrade();
    let answer = waiting.answer();
    let said: Value = serde_json::from_str(answer.text()).unwrap();
    let code = &said["error"]["code"];
    assert_eq!((answer.status(), code), (503, &json!("stopping")));
    assert_eq!(scene.endpoints()[0].0, "drain");
    // The request has its answer.
    client_at.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.answer().text(), "ok");
    wait_for_end(before);
}
