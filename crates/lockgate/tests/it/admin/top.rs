//! `top` without a terminal, and the resources that it asks for.

use lockgate_testkit::eventually;
use serde_json::{Value, json};

use super::AdminScene;

#[test]
fn sites_show_requests_responses_and_latency() {
    let scene = AdminScene::new("");
    scene.get("/v1/sites");
    for _ in 0..3 {
        scene.exchange();
    }
    let sites = eventually("the last request has ended", || {
        let sites = scene.get("/v1/sites");
        (sites["sites"][0]["requests"] == 3).then_some(sites)
    });
    let [site, other] = [&sites["sites"][0], &sites["sites"][1]];
    assert_eq!(
        (&site["site"], &other["site"]),
        (&json!(":0"), &json!("other"))
    );
    assert_eq!(site["responses"], json!({ "2xx": 3 }));
    assert_eq!(
        (&site["sent_bytes"], &site["errors"]),
        (&json!(6), &json!({}))
    );
    let [p50, p99] = ["p50_seconds", "p99_seconds"].map(|name| site[name].as_f64().unwrap());
    assert!(p50 > 0.0 && p50 <= p99, "{site}");
    let metric = scene
        .gate
        .sample("lockgate_requests_total", &["site=\":0\"", "code=\"2xx\""]);
    assert_eq!(metric, 3.0);
}

#[test]
fn clients_are_those_of_top() {
    let scene = AdminScene::new("");
    scene.exchange();
    let clients = eventually("the client is published", || {
        let clients = scene.get("/v1/clients");
        (clients["clients"][0]["client"] == "127.0.0.1").then_some(clients)
    });
    let top = scene.gate.top();
    assert_eq!(
        clients["clients"][0]["sent_bytes"],
        top["clients"][0]["sent_bytes"]
    );
    assert!(clients["hosts"].is_null() && !top["hosts"].is_null());
}

#[test]
fn top_prints_plain_rows_without_a_terminal() {
    let scene = AdminScene::new("");
    scene.exchange();
    for words in [&["top"][..], &["top", "--once"]] {
        let shown = scene.command(words);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        for text in [
            "requests",
            "connections",
            "SITE",
            "ENDPOINT",
            "LISTENER",
            "up",
            "app",
        ] {
            assert!(shown.stdout.contains(text), "{text}: {}", shown.stdout);
        }
        assert!(!shown.stdout.contains('\u{1b}'), "{:?}", shown.stdout);
    }
    let json = scene.command(&["top", "--json"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(value["sites"][0]["requests"], 1);
    assert_eq!(value["pools"][0]["pool"], "app");
}
