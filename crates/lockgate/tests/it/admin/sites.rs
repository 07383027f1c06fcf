//! Sites in maintenance.

use lockgate_testkit::{Http, Lockgate, Message};
use serde_json::{Value, json};

use super::{AdminScene, ask};
use crate::reload::reload;

fn answer(gate: &Lockgate, path: &str) -> Message {
    let mut client = Http::connect(gate.at("127.0.0.1:0"));
    client.send(format!("GET {path} HTTP/1.1\r\nhost: a.test\r\n\r\n"));
    client.answer()
}

#[test]
fn requests_of_a_site_in_maintenance_get_its_error_page() {
    let scene = AdminScene::new("");
    let page = scene.folder.write("503.html", "<p>back soon\n");
    let file = scene.gate.configuration();
    let before = std::fs::read_to_string(&file).unwrap();
    let site = "[site.\":0\"]\n";
    let with_page = format!("{site}error_pages = {{ 503 = {page:?} }}\n");
    let written = before.replace(site, &with_page);
    reload(&scene.gate, &written);
    let mut kept = Http::connect(scene.gate.at("127.0.0.1:0"));
    let mut status = || {
        kept.send("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
        kept.answer().status()
    };
    assert_eq!(status(), 200);
    let body = r#"{ "site": ":0", "retry_after_seconds": 600 }"#;
    let shown = json!({ "site": ":0", "status": 503, "retry_after_seconds": 600 });
    assert_eq!(
        scene.post("/v1/sites/maintenance", body),
        (200, shown.clone())
    );
    assert_eq!(status(), 503);
    let refused = answer(&scene.gate, "/");
    assert_eq!(refused.field("retry-after"), Some("600"));
    assert_eq!(refused.text(), "<p>back soon\n");
    assert!(
        refused
            .field("proxy-status")
            .unwrap()
            .contains("destination_unavailable")
    );
    // It holds after a reload.
    reload(&scene.gate, &before);
    assert_eq!(answer(&scene.gate, "/").status(), 503);
    assert_eq!(
        scene.get("/v1/sites/maintenance"),
        json!({ "sites": [shown] })
    );
    let off = scene.post("/v1/sites/maintenance", r#"{ "site": ":0", "on": false }"#);
    assert_eq!((off.0, &off.1["status"]), (200, &Value::Null));
    assert_eq!(status(), 200);
    assert_eq!(scene.get("/v1/sites/maintenance"), json!({ "sites": [] }));
}

#[test]
fn maintenance_of_an_unknown_site_or_with_another_status_is_refused() {
    let scene = AdminScene::new("");
    for (body, status, code) in [
        (r#"{ "site": "a.test" }"#, 404, "unknown_name"),
        (r#"{ "site": ":0", "status": 200 }"#, 422, "out_of_range"),
        (r#"{ "site": ":0", "on": "no" }"#, 422, "unusable"),
        ("{}", 422, "unusable"),
    ] {
        let (found, answer) = ask(&scene.socket, "POST", "/v1/sites/maintenance", body);
        assert_eq!(
            (found, &answer["error"]["code"]),
            (status, &json!(code)),
            "{body}"
        );
    }
    assert_eq!(answer(&scene.gate, "/").status(), 200);
}

#[test]
fn the_command_line_begins_and_ends_a_maintenance() {
    let scene = AdminScene::new("");
    let run = |words: &[&str]| {
        let ended = scene.command(&[&["site", "maintenance"], words].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    let on = run(&["on", ":0", "--status", "502", "--retry-after", "90s"]);
    assert!(on.contains("is in maintenance"), "{on}");
    let refused = answer(&scene.gate, "/any");
    assert_eq!(
        (refused.status(), refused.field("retry-after")),
        (502, Some("90"))
    );
    let listed = run(&["list"]);
    assert!(
        listed.contains("502") && listed.contains("1m 30s"),
        "{listed}"
    );
    assert!(run(&["off", ":0"]).contains("is not in maintenance"));
    assert_eq!(answer(&scene.gate, "/").status(), 200);
}
