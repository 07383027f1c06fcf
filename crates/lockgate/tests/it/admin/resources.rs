//! What each resource shows and does, and the examples of its documentation.

use lockgate_testkit::{Folder, Http, Origin, Wire, eventually};
use serde_json::{Value, json};

use super::{AdminScene, ask, exchange};
use crate::docs::{blocks, root};
use crate::http::plain_site;
use crate::scene::{NAME, Site, deserted, echoes, lockgate, plain, text};
use crate::upgrade::Successor;

#[test]
fn status_shows_the_process_its_listeners_and_its_limits() {
    let scene = AdminScene::new("");
    scene.exchange();
    let status = scene.get("/v1/status");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["pid"], scene.gate.pid());
    assert_eq!(
        (&status["phase"], &status["workers"]),
        (&json!("ready"), &json!(1))
    );
    let listener = &status["listeners"][0];
    assert_eq!(listener["kind"], "http");
    assert_eq!(listener["accepted"], 1);
    assert_eq!(listener["address"], scene.gate.address().to_string());
    let limits = &status["limits"];
    let limit = scene.gate.sample("lockgate_connections_limit", &[]);
    assert_eq!(limits["connections"]["size"].as_f64(), Some(limit));
    for name in ["connections", "sockets", "handshakes", "memory"] {
        let [used, size] = ["used", "size"].map(|one| limits[name][one].as_u64());
        assert!(used.unwrap() < size.unwrap(), "{name}: {limits}");
    }
    let configuration = &status["configuration"];
    assert_eq!(configuration["file"], text(&scene.gate.configuration()));
    assert_eq!(configuration["hash"].as_str().unwrap().len(), 64);
    assert_eq!(configuration["differs"], false);
    let open = Wire::connect(scene.gate.address());
    eventually("the connection is counted", || {
        let now = scene.get("/v1/status");
        (now["listeners"][0]["connections"] == 1).then_some(())
    });
    drop(open);
}

#[test]
fn pools_show_requests_latency_and_errors_of_each_endpoint() {
    let scene = AdminScene::new("");
    let first = scene.get("/v1/pools");
    assert_eq!(first["pools"][0]["pool"], "app");
    assert_eq!(first["pools"][0]["endpoints"][0]["requests"], 0);
    for _ in 0..5 {
        scene.exchange();
    }
    let pools = scene.get("/v1/pools");
    let endpoint = &pools["pools"][0]["endpoints"][0];
    assert_eq!(endpoint["state"], "up");
    assert_eq!(endpoint["why"], Value::Null);
    assert_eq!(
        (&endpoint["requests"], &endpoint["weight"]),
        (&json!(5), &json!(1))
    );
    assert_eq!(endpoint["errors"], json!({}));
    assert!(
        endpoint["requests_per_second"].as_f64().unwrap() > 0.0,
        "{endpoint}"
    );
    let [p50, p99] = ["p50_seconds", "p99_seconds"].map(|name| endpoint[name].as_f64().unwrap());
    assert!(p50 > 0.0 && p50 <= p99, "{endpoint}");
}

#[test]
fn pools_say_why_an_endpoint_is_not_chosen() {
    let scene = AdminScene::new("");
    let folder = &scene.folder;
    let socket = folder.path("second.sock");
    let dead = deserted();
    let gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\n{}[pool.checked]\nendpoints = [\"{dead}\", {{ addr = \"{}\", backup = true, weight = 3 }}]\n\
         health = {{ tcp = true }}\n[tcp.\"127.0.0.3:0\"]\nproxy = \"{dead}\"\n",
        text(&socket),
        plain_site("pool:checked"),
        scene.gate.address(),
    ));
    let pools = || ask(&socket, "GET", "/v1/pools", "").1;
    let of = |pools: &Value, name: &str| {
        let all = pools["pools"].as_array().unwrap();
        all.iter()
            .find(|pool| pool["pool"] == name)
            .cloned()
            .unwrap()
    };
    let down = eventually("the checks have ended", || {
        let pool = of(&pools(), "checked");
        let is_checked = |at: usize| !pool["endpoints"][at]["check"].is_null();
        let is_down = pool["endpoints"][0]["state"] == "down";
        (is_down && is_checked(0) && is_checked(1)).then_some(pool)
    });
    let [first, backup] = [0, 1].map(|at| &down["endpoints"][at]);
    assert!(
        first["why"].as_str().unwrap().contains("refused"),
        "{first}"
    );
    assert!(
        first["check"]["error"]
            .as_str()
            .unwrap()
            .contains("refused"),
        "{first}"
    );
    assert_eq!(
        (&backup["state"], &backup["backup"]),
        (&json!("up"), &json!(true))
    );
    assert_eq!(
        (&backup["weight"], &backup["check"]["error"]),
        (&json!(3), &Value::Null)
    );
    // A relay learns by its own failures, and has no requests.
    let mut client = Wire::connect(gate.at("127.0.0.3:0"));
    client.wait_closed();
    let relay = of(&pools(), "127.0.0.3:0");
    assert_eq!(relay["endpoints"][0]["state"], "avoided", "{relay}");
    assert_eq!(relay["endpoints"][0]["why"], "it could not be reached");
    assert_eq!(relay["endpoints"][0]["requests"], Value::Null);
}

#[test]
fn certs_are_listed_by_expiry() {
    let site = Site::new();
    let scene = AdminScene::new("");
    let expired = site
        .folder
        .certificate("expired.pem", &site.authority.issue_expired(&["old.test"]));
    let socket = scene.folder.path("tls.sock");
    let _gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\n{}[tcp.\"127.0.0.2:0\"]\ntls = \"{expired}\"\nproxy = \"127.0.0.1:9\"\n",
        text(&socket),
        site.tls("127.0.0.1:9", ""),
    ));
    let (_, certs) = ask(&socket, "GET", "/v1/certs", "");
    let [first, second] = [0, 1].map(|at| &certs["certs"][at]);
    assert_eq!(first["names"], json!(["old.test"]));
    assert!(first["days_left"].as_i64().unwrap() < 0, "{first}");
    assert_eq!(second["names"], json!([NAME]));
    assert_eq!(second["file"], site.cert);
    assert!(second["days_left"].as_i64().unwrap() > 0, "{second}");
}

#[test]
fn the_log_level_changes_while_running() {
    let scene = AdminScene::new("");
    assert_eq!(scene.get("/v1/log-level")["level"], "info");
    let set = scene.post("/v1/log-level", r#"{ "level": "debug" }"#);
    assert_eq!(set, (200, json!({ "level": "debug" })));
    // A message of this level: the client ends before the response.
    let mut client = Wire::connect_unix(&scene.socket);
    client.send("GET /v1/status HTTP/1.1\r\nbroken head\r\n\r\n");
    client.wait_closed();
    scene.gate.says("a connection to the admin socket failed");
    let set = scene.post("/v1/log-level", r#"{ "level": "error" }"#);
    assert_eq!(set, (200, json!({ "level": "error" })));
    for body in ["", "{}", r#"{ "level": "loud" }"#, r#"{ "level": 3 }"#] {
        let (status, answer) = scene.post("/v1/log-level", body);
        assert_eq!(
            (status, &answer["error"]["code"]),
            (422, &json!("unknown_level")),
            "{body}"
        );
    }
    assert_eq!(scene.get("/v1/log-level")["level"], "error");
}

#[test]
fn reload_takes_the_file_over_and_reports_its_mistakes() {
    let scene = AdminScene::new("");
    assert_eq!(
        scene.post("/v1/reload", ""),
        (200, json!({ "generation": 2, "warnings": [] }))
    );
    let file = scene.gate.configuration();
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{good}# another text\n")).unwrap();
    let before = scene.get("/v1/status")["configuration"]["hash"].clone();
    assert_eq!(scene.post("/v1/reload", "{}").0, 200);
    let status = scene.get("/v1/status");
    assert_eq!(status["generation"], 3);
    assert_eq!(status["configuration"]["differs"], false);
    assert_ne!(status["configuration"]["hash"], before);
    std::fs::write(&file, format!("workerz = 2\n{good}")).unwrap();
    let (status, wrong) = scene.post("/v1/reload", "");
    assert_eq!((status, &wrong["error"]["code"]), (422, &json!("mistakes")));
    let mistake = &wrong["mistakes"][0];
    assert_eq!(
        (&mistake["code"], &mistake["line"]),
        (&json!("E0010"), &json!(1))
    );
    let configuration = &scene.get("/v1/status")["configuration"];
    assert_eq!(configuration["mistakes"], 1);
    assert_eq!(
        configuration["reloads"],
        json!({ "succeeded": 2, "failed": 1 })
    );
    // The process serves on.
    scene.exchange();
}

#[test]
fn a_configuration_that_is_not_confirmed_is_rolled_back() {
    let scene = AdminScene::new("");
    let good = std::fs::read_to_string(scene.gate.configuration()).unwrap();
    let other = format!("{good}\n[site.\":0\".path.\"/new\"]\nrespond = {{ body = \"new\" }}\n");
    let asks_for = |path: &str| {
        let mut client = Http::connect(scene.gate.at("127.0.0.1:0"));
        client.send(format!("GET {path} HTTP/1.1\r\nhost: a.test\r\n\r\n"));
        client.answer().body
    };
    let reload = |confirm: u32| {
        let body = json!({ "text": other, "confirm_seconds": confirm });
        scene.post("/v1/reload", &body.to_string())
    };
    assert_eq!(scene.post("/v1/confirm", "").0, 409, "nothing waits");
    assert_eq!(scene.post("/v1/rollback", "").0, 409, "nothing ran before");

    assert_eq!(reload(1).0, 200);
    assert_eq!(asks_for("/new"), b"new");
    eventually("the configuration before", || {
        (asks_for("/new") == b"ok").then_some(())
    });

    assert_eq!(reload(3_600).0, 200);
    let (status, refused) = scene.post("/v1/reload", "");
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("reload_refused"))
    );
    assert_eq!(scene.post("/v1/confirm", "").0, 200);
    assert_eq!(asks_for("/new"), b"new");
    assert_eq!(scene.post("/v1/rollback", "").0, 200);
    assert_eq!(asks_for("/new"), b"ok");
    assert_eq!(scene.post("/v1/rollback", "").0, 200);
    assert_eq!(asks_for("/new"), b"new");
}

#[test]
fn a_member_without_a_meaning_is_refused_and_changes_nothing() {
    let scene = AdminScene::new("");
    let endpoint = format!(
        "\"pool\": \"app\", \"endpoint\": \"{}\"",
        scene.origin.address()
    );
    for (path, body) in [
        (
            "endpoints/drain",
            format!("{{ {endpoint}, \"force\": true, \"wait\": 30 }}"),
        ),
        (
            "endpoints/maintenance",
            format!("{{ {endpoint}, \"force\": true, \"wait_seconds\": 30 }}"),
        ),
        (
            "endpoints/ready",
            format!("{{ {endpoint}, \"kept\": true }}"),
        ),
        ("endpoints/weight", format!("{{ {endpoint}, \"wait\": 0 }}")),
        (
            "sites/maintenance",
            r#"{ "site": ":0", "off": true }"#.to_owned(),
        ),
        (
            "clients/ban",
            r#"{ "client": "192.0.2.1", "for_seconds": 60, "dry_run": true }"#.to_owned(),
        ),
        (
            "clients/unban",
            r#"{ "client": "192.0.2.1", "for_seconds": 60 }"#.to_owned(),
        ),
        (
            "limits/clear",
            r#"{ "client": "192.0.2.1", "limit": "a" }"#.to_owned(),
        ),
        (
            "limits/clear",
            r#"{ "client": "192.0.2.1", "name": "a" }"#.to_owned(),
        ),
        ("log-level", r#"{ "level": "debug", "for": 60 }"#.to_owned()),
        ("reload", r#"{ "confirm": 300 }"#.to_owned()),
        ("rollback", r#"{ "dry_run": true }"#.to_owned()),
        ("confirm", r#"{ "dry_run": true }"#.to_owned()),
        ("upgrade", r#"{ "binary": "/usr/bin/true" }"#.to_owned()),
        ("logs/reopen", r#"{ "file": "a" }"#.to_owned()),
        ("drain", r#"{ "pool": "app" }"#.to_owned()),
        ("stop", r#"{ "pool": "app" }"#.to_owned()),
    ] {
        let (status, refused) = scene.post(&format!("/v1/{path}"), &body);
        let code = &refused["error"]["code"];
        assert_eq!((status, code), (422, &json!("unusable")), "{path}: {body}");
    }
    let shown = scene.get("/v1/pools");
    assert_eq!(shown["pools"][0]["endpoints"][0]["admin"], Value::Null);
    let status = scene.get("/v1/status");
    assert_eq!(
        (&status["phase"], &status["generation"]),
        (&json!("ready"), &json!(1))
    );
    assert_eq!(scene.get("/v1/log-level")["level"], "info");
    // null is no member.
    let empty = r#"{ "text": null, "confirm_seconds": null, "dry_run": null }"#;
    assert_eq!(scene.post("/v1/reload", empty).0, 200);
}

#[test]
fn a_reload_with_an_unusable_body_is_refused() {
    let scene = AdminScene::new("");
    for body in [
        r#"{ "text": 3 }"#,
        r#"{ "dry_run": "true" }"#,
        r#"{ "dryrun": true }"#,
        r#"{ "confirm_seconds": 0 }"#,
        r#"{ "confirm_seconds": "5m" }"#,
    ] {
        let (status, refused) = scene.post("/v1/reload", body);
        assert_eq!(
            (status, &refused["error"]["code"]),
            (422, &json!("unusable")),
            "{body}"
        );
    }
}

#[test]
fn reloads_at_once_are_all_answered() {
    let scene = AdminScene::new("");
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| scene.post("/v1/reload", "").0))
            .collect();
        assert!(asked.into_iter().all(|one| one.join().unwrap() == 200));
    });
}

#[test]
fn logs_are_opened_again_on_request() {
    let scene = AdminScene::new("");
    let log = scene.folder.path("access.log");
    let socket = scene.folder.path("logs.sock");
    let gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\naccess_log = \"{}\"\n{}",
        text(&socket),
        text(&log),
        plain_site(scene.gate.address())
    ));
    std::fs::rename(&log, scene.folder.path("access.log.1")).unwrap();
    let reopened = ask(&socket, "POST", "/v1/logs/reopen", "");
    assert_eq!(reopened, (200, json!({ "reopened": 1 })));
    let mut client = Http::connect(gate.address());
    client.send("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    client.answer();
    eventually("a line in the new file", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("a.test").then_some(())
    });
}

#[test]
fn a_drain_goes_on_and_a_stop_cuts_it() {
    let (folder, echo) = (Folder::new(), Origin::tcp().echo());
    let socket = folder.path("drain.sock");
    let gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\ndrain = {{ deadline = \"1h\" }}\n{}",
        text(&socket),
        plain(echo.address())
    ));
    let mut open = Wire::connect(gate.address());
    echoes(&mut open, "before");
    let post = |path| ask(&socket, "POST", path, "");
    assert_eq!(post("/v1/drain"), (200, json!({ "drain": "begins" })));
    gate.says("draining");
    assert_eq!(ask(&socket, "GET", "/v1/status", "").1["phase"], "draining");
    assert_eq!(post("/v1/drain"), (200, json!({ "drain": "goes_on" })));
    let (status, refused) = post("/v1/reload");
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("reload_refused"))
    );
    echoes(&mut open, "still served");
    assert_eq!(post("/v1/stop"), (200, json!({ "drain": "cut" })));
    open.wait_closed();
    assert_eq!(gate.ended().code, Some(3));
}

#[test]
fn a_stop_without_connections_is_answered_and_ends() {
    let scene = AdminScene::new("");
    assert_eq!(
        scene.post("/v1/stop", ""),
        (200, json!({ "drain": "begins" }))
    );
    let AdminScene { gate, socket, .. } = scene;
    assert_eq!(gate.ended().code, Some(0));
    assert!(!socket.exists());
}

#[test]
fn several_requests_share_a_connection() {
    let scene = AdminScene::new("");
    let mut client = Http::over(Wire::connect_unix(&scene.socket));
    for path in ["/v1/status", "/v1/pools", "/v1/nothing", "/v1/certs"] {
        client.send(format!("GET {path} HTTP/1.1\r\nhost: lockgate\r\n\r\n"));
        let expected = if path == "/v1/nothing" { 404 } else { 200 };
        assert_eq!(client.answer().status(), expected, "{path}");
    }
}

#[test]
fn unknown_paths_methods_and_bodies_are_refused_with_a_code() {
    let scene = AdminScene::new("");
    let long = "x".repeat(70_000);
    for (method, path, body, status, code) in [
        ("GET", "/", "", 404, "unknown_path"),
        ("GET", "/v2/status", "", 404, "unknown_path"),
        ("GET", "/v1/status/", "", 404, "unknown_path"),
        ("POST", "/v1/status", "", 405, "wrong_method"),
        ("GET", "/v1/stop", "", 405, "wrong_method"),
        ("DELETE", "/v1/pools", "", 405, "wrong_method"),
        ("POST", "/v1/log-level", "level=debug", 400, "bad_json"),
        ("POST", "/v1/log-level", "[1]", 400, "bad_json"),
        ("POST", "/v1/log-level", &long, 413, "too_large"),
    ] {
        let (got, answer) = ask(&scene.socket, method, path, body);
        let error = &answer["error"];
        assert_eq!(
            (got, &error["code"]),
            (status, &json!(code)),
            "{method} {path}"
        );
        assert!(!error["message"].as_str().unwrap().is_empty(), "{answer}");
    }
    let wire = Wire::connect_unix(&scene.socket);
    let refused = exchange(wire, "PUT", "/v1/log-level", "");
    assert_eq!(refused.field("allow"), Some("GET, POST"));
}

/// The same keys, and values of the same types; nothing and something are alike.
fn same_form(documented: &Value, found: &Value, path: &str) {
    match (documented, found) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(documented), Value::Object(found)) => {
            // Their members are what has occurred.
            let occurred = [".errors", ".responses", ".happened"];
            if occurred.iter().any(|end| path.ends_with(end)) {
                return;
            }
            let keys = |object: &serde_json::Map<String, Value>| {
                object.keys().cloned().collect::<Vec<_>>()
            };
            assert_eq!(keys(documented), keys(found), "{path}");
            for (key, value) in documented {
                same_form(value, &found[key], &format!("{path}.{key}"));
            }
        }
        (Value::Array(documented), Value::Array(found)) => {
            if let (Some(documented), Some(found)) = (documented.first(), found.first()) {
                same_form(documented, found, &format!("{path}[]"));
            }
        }
        (documented, found) => assert_eq!(
            std::mem::discriminant(documented),
            std::mem::discriminant(found),
            "{path}: {documented} and {found}"
        ),
    }
}

/// A site whose certificate is obtained, from an authority that does not answer.
fn obtained_certs(site: &Site) -> String {
    let state = site.folder.path("state");
    std::fs::create_dir(&state).unwrap();
    format!(
        "state = \"{}\"\nports = {{ http = 0, https = 0 }}\n[acme]\ndirectory = \"https://{}/dir\"\n\
         [site.\"app.example.com\"]\nlisten = [\"127.0.0.3\"]\nrespond = \"ok\"\n",
        text(&state),
        deserted()
    )
}

#[test]
fn every_documented_example_has_the_form_of_its_response() {
    let site = Site::new();
    let tls = format!(
        "[tcp.\"127.0.0.2:0\"]\ntls = \"{}\"\nproxy = \"127.0.0.1:9\"\n",
        site.cert
    );
    let obtained = obtained_certs(&site);
    let page = std::fs::read_to_string(root().join("docs/admin.md")).unwrap();
    let responses = blocks(&page, "json");
    let mut asked = Vec::new();
    for (line, block) in blocks(&page, "sh") {
        let Some((_, path)) = block.trim().split_once("http://lockgate") else {
            continue;
        };
        // There is no certificate, since there is no authority: see the tests of `lockgate cert`.
        if path == "/v1/certs/revoke" {
            asked.push(path.to_owned());
            continue;
        }
        let body = block.split('\'').nth(1).unwrap_or_default();
        let method = if block.contains("-X POST") || !body.is_empty() {
            "POST"
        } else {
            "GET"
        };
        let (_, response) = responses.iter().find(|(at, _)| *at > line).unwrap();
        let documented: Value = serde_json::from_str(response).expect(response);
        // Each has a process of its own: some end it.
        let more = match path.starts_with("/v1/certs") || path == "/v1/status" {
            true => format!("{obtained}{tls}"),
            false => tls.clone(),
        };
        let scene = AdminScene::new(&more);
        scene.exchange();
        if ["/v1/rollback", "/v1/confirm"].contains(&path) {
            let reload = scene.post("/v1/reload", r#"{ "confirm_seconds": 300 }"#);
            assert_eq!(reload.0, 200, "{}", reload.1);
        }
        if path == "/v1/clients/unban" {
            let ban = r#"{ "client": "192.0.2.1", "for_seconds": 600 }"#;
            assert_eq!(scene.post("/v1/clients/ban", ban).0, 200);
        }
        let endpoint = scene.origin.address();
        let body = body.replace("10.0.0.1:8080", endpoint);
        let mut body = body.replace("127.0.0.1:80\"", "127.0.0.1:0\"");
        if path == "/v1/traces/wait" {
            let (_, begun) = scene.post("/v1/traces", "");
            let mut client = Http::connect(scene.gate.at("127.0.0.1:0"));
            let field = begun["field"].as_str().unwrap();
            client.send(format!("GET / HTTP/1.1\r\nhost: a.test\r\n{field}\r\n\r\n"));
            assert_eq!(client.answer().status(), 200);
            body = json!({ "token": begun["token"] }).to_string();
        }
        let (status, found) = ask(&scene.socket, method, path, &body);
        assert_eq!(status, 200, "{path}");
        let _successor = (path == "/v1/upgrade").then(|| Successor::of(&found));
        same_form(&documented, &found, path);
        asked.push(format!("{method} {path}"));
    }
    // The list of resources in an error is that of the program.
    let scene = AdminScene::new("");
    let (_, unknown) = ask(&scene.socket, "GET", "/v1/unknown", "");
    let cure = unknown["error"]["cure"].as_str().unwrap();
    for path in cure.trim_start_matches("there are ").split(", ") {
        // The response of one goes on, and the other one's passes a descriptor.
        if ["/v1/tail", "/v1/takeover"].contains(&path) {
            continue;
        }
        assert!(
            asked.iter().any(|one| one.ends_with(path)),
            "{path} has no example: {asked:?}"
        );
    }
}
