//! Rate limits: how full their buckets are, and buckets that are forgotten.

use lockgate_testkit::Http;
use serde_json::{Value, json};

use super::AdminScene;

impl AdminScene {
    /// The status of a request to the limited site.
    fn limited(&self) -> u16 {
        let mut client = Http::connect(self.gate.at("127.0.0.3:0"));
        client.send("GET / HTTP/1.1\r\nhost: b.test\r\n\r\n");
        client.answer().status()
    }
}

const LIMITED: &str =
    "[site.\"b.test:0\"]\nlisten = [\"127.0.0.3\"]\nrespond = 200\nlimit = \"2/h\"\n";

#[test]
fn limits_are_shown_and_forgotten_by_client_or_name() {
    let scene = AdminScene::new(LIMITED);
    let exhaust = || [scene.limited(), scene.limited(), scene.limited()];
    assert_eq!(exhaust(), [200, 200, 429]);
    let shown = scene.get("/v1/limits");
    let limit = &shown["limits"][0];
    assert_eq!(limit["names"], json!(["b.test:0"]));
    let figures = ["buckets", "limited", "refused"].map(|name| limit[name].as_u64().unwrap());
    assert_eq!(figures, [1, 1, 1]);
    assert_eq!(shown["buckets"]["used"], 1);
    for body in [
        json!({ "client": "127.0.0.1" }),
        json!({ "name": "b.test:0" }),
    ] {
        let (status, cleared) = scene.post("/v1/limits/clear", &body.to_string());
        assert_eq!((status, &cleared["cleared"]), (200, &json!(1)), "{body}");
        assert_eq!(exhaust(), [200, 200, 429]);
    }
    for (body, status) in [
        (json!({ "name": "b.tset:0" }), 404),
        (json!({ "client": "b.test" }), 422),
        (json!({}), 422),
    ] {
        assert_eq!(
            scene.post("/v1/limits/clear", &body.to_string()).0,
            status,
            "{body}"
        );
    }
}

#[test]
fn the_command_line_shows_and_clears_limits() {
    let scene = AdminScene::new(LIMITED);
    assert_eq!(scene.limited(), 200);
    let shown = scene.command(&["limits"]);
    assert!(shown.stdout.contains("b.test:0"), "{shown:?}");
    let json = scene.command(&["limits", "--json"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(value["limits"][0]["buckets"], 1);
    for (of, count) in [("127.0.0.1", "1"), ("b.test:0", "0")] {
        let cleared = scene.command(&["limits", "clear", of]);
        assert_eq!(
            cleared.stdout.trim(),
            format!("buckets that were forgotten: {count}")
        );
    }
}
