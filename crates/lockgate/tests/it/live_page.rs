//! The live page of the metrics address, read as a browser reads it.

use std::net::SocketAddr;

use lockgate_testkit::{Http, Lockgate, Origin, Serving, eventually};
use serde_json::{Value, json};

use crate::http::plain_site;
use crate::scene::{deserted, lockgate};

/// As many pages as may be open at once.
const MOST: usize = 16;

/// A site with a pool that responds, and one without an endpoint that does.
struct PageScene {
    gate: Lockgate,
    _origin: Serving,
}

/// An open page.
pub(crate) struct Page(Http);

impl PageScene {
    fn new() -> Self {
        let origin =
            Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec());
        let toml = format!(
            "access_log = false\n{}[pool.app]\nendpoints = [\"{}\"]\n\
             [pool.broken]\nendpoints = [\"{}\"]\n[site.\"b.test:0\"]\nlisten = [\"127.0.0.3\"]\nproxy = \"pool:broken\"\n",
            plain_site("pool:app"),
            origin.address(),
            deserted(),
        );
        Self {
            gate: lockgate().workers(2).start(&toml),
            _origin: origin,
        }
    }

    fn get(&self, listener: &str, target: &str) -> u16 {
        let mut client = Http::connect(self.gate.at(listener));
        client.send(format!("GET {target} HTTP/1.1\r\nhost: b.test\r\n\r\n"));
        client.answer().status()
    }

    fn ask(&self, request: &str) -> String {
        Http::ask(self.gate.metrics_address(), request)
    }

    fn open(&self) -> Page {
        Page::open(self.gate.metrics_address())
    }
}

impl Page {
    /// Opens the page of a server.
    pub(crate) fn open(gate: SocketAddr) -> Self {
        let mut client = Http::connect(gate);
        client.send("GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Self(client)
    }

    /// Reads until the server ends the events.
    pub(crate) fn ends(mut self) {
        // An event comes every two seconds.
        let ends = (0..20).any(|_| self.0.chunk().is_none());
        assert!(ends, "the events go on");
    }

    /// The next event, by its name.
    fn event(&mut self) -> (String, Value) {
        let chunk = self.0.chunk().expect("the stream goes on");
        let text = String::from_utf8(chunk).unwrap();
        let (name, data) = text
            .strip_prefix("event: ")
            .and_then(|text| text.split_once("\ndata: "))
            .expect("an event");
        assert!(data.ends_with("\n\n"), "{data}");
        (name.to_owned(), serde_json::from_str(data).unwrap())
    }

    fn now(&mut self) -> Value {
        loop {
            if let (name, value) = self.event()
                && name == "now"
            {
                return value;
            }
        }
    }
}

#[test]
fn the_live_page_loads_nothing_from_elsewhere() {
    let scene = PageScene::new();
    for (path, kind) in [
        ("/", "text/html"),
        ("/live.css", "text/css"),
        ("/live.js", "text/javascript"),
    ] {
        let answer = scene.ask(&format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200"), "{head}");
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
        for field in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(field), "{field} in {head}");
        }
        for word in [
            "https:",
            "//cdn",
            "innerHTML",
            "eval(",
            "style=",
            "onclick=\"",
        ] {
            assert!(!body.contains(word), "{word} in {path}");
        }
    }
}

#[test]
fn the_live_page_is_refused_to_other_hosts_and_origins_and_only_read() {
    let scene = PageScene::new();
    for (request, status) in [
        ("GET /live HTTP/1.0\r\nhost: evil.test\r\n\r\n", "421"),
        (
            "GET /live HTTP/1.0\r\nhost: localhost\r\norigin: https://evil.test\r\n\r\n",
            "421",
        ),
        ("POST / HTTP/1.0\r\nhost: localhost\r\n\r\n", "405"),
        ("POST /live HTTP/1.0\r\nhost: localhost\r\n\r\n", "405"),
        ("HEAD /live HTTP/1.0\r\nhost: localhost\r\n\r\n", "200"),
    ] {
        let answer = scene.ask(request);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{request} {answer}");
    }
}

#[test]
fn the_events_of_the_live_page_have_the_figures_of_the_metrics() {
    let scene = PageScene::new();
    assert_eq!(scene.get("127.0.0.1:0", "/"), 200);
    let mut page = scene.open();
    let (name, history) = page.event();
    assert_eq!((&*name, &history["seconds"]), ("history", &json!(10)));
    let first = page.now();
    assert_eq!(first["status"]["phase"], "ready");
    assert_eq!(first["status"]["workers"], 2);
    for _ in 0..4 {
        assert_eq!(scene.get("127.0.0.1:0", "/"), 200);
    }
    let site = |now: &Value| now["sites"]["sites"][0].clone();
    let now = eventually("the requests are counted", || {
        let now = page.now();
        (site(&now)["requests"] == 5).then_some(now)
    });
    let site = site(&now);
    let sample = |name, labels: &[&str]| json!(scene.gate.sample(name, labels) as u64);
    let label = format!("site={}", site["site"]);
    let sent = "direction=\"sent\"";
    assert_eq!(
        site["responses"]["2xx"],
        sample("lockgate_requests_total", &[&label, "code=\"2xx\""])
    );
    assert_eq!(
        site["sent_bytes"],
        sample("lockgate_request_bytes_total", &[&label, sent])
    );
    let pool = &now["pools"]["pools"][0];
    assert_eq!(
        (&pool["pool"], &pool["endpoints"][0]["state"]),
        (&json!("app"), &json!("up"))
    );
    eventually("the requests are those of a second", || {
        let rate = |of: &Value| {
            of["requests_per_second"]
                .as_f64()
                .is_some_and(|rate| rate > 0.0)
        };
        let now = page.now();
        (rate(&now["totals"]) && rate(&now["sites"]["sites"][0])).then_some(())
    });
    assert_eq!(now["certs"]["certs"], json!([]));
}

#[test]
fn the_live_page_shows_the_last_errors_without_queries_although_the_access_log_is_off() {
    let scene = PageScene::new();
    let mut page = scene.open();
    assert_eq!(page.now()["errors"], json!([]));
    assert_eq!(scene.get("127.0.0.3:0", "/reset?token=secret"), 502);
    let error = eventually("the error is shown", || {
        let now = page.now();
        assert!(!now.to_string().contains("secret"), "{now}");
        now["errors"].get(0).cloned()
    });
    assert_eq!(
        (&error["status"], &error["cause"], &error["path"]),
        (&json!(502), &json!("connect_failed"), &json!("/reset"))
    );
    assert_eq!(error["side"], "upstream");
}

#[test]
fn the_live_page_shows_errors_of_ours_and_none_that_clients_cause() {
    let cut = Origin::tcp().serve(|wire| {
        let mut http = Http::over(wire.another());
        if http.next_request().is_some() {
            http.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok");
        }
    });
    let toml = format!(
        "[pool.cut]\nendpoints = [\"{}\"]\n[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:cut\"\n\
         body = {{ max = \"10B\" }}\n",
        cut.address(),
    );
    let gate = lockgate().workers(1).start(&toml);
    let mut page = Page::open(gate.metrics_address());
    for (request, status) in [
        ("GET / HTTP/9.9\r\nhost: a.test\r\n\r\n", "505"),
        (
            "POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 99\r\n\r\n",
            "413",
        ),
        (
            "GET /cut HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n",
            "200",
        ),
    ] {
        let answer = Http::ask(gate.at("127.0.0.1:0"), request);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
    }
    let errors = eventually("an error is shown", || {
        let errors = page.now()["errors"].clone();
        (errors != json!([])).then_some(errors)
    });
    let shown = |error: &Value| (error["path"].clone(), error["cause"].clone());
    let shown: Vec<_> = errors.as_array().unwrap().iter().map(shown).collect();
    assert_eq!(shown, [(json!("/cut"), json!("upstream_closed"))]);
}

#[test]
fn further_live_pages_are_refused_until_one_is_closed() {
    let scene = PageScene::new();
    let mut pages: Vec<_> = (0..MOST).map(|_| scene.open()).collect();
    let refused = || {
        let answer = scene.ask("GET /live HTTP/1.0\r\nhost: localhost\r\n\r\n");
        answer.contains(" 503 ")
    };
    assert!(refused());
    assert!(scene.gate.metrics().contains("lockgate_"));
    pages.pop();
    eventually("a place is free", || {
        let mut client = Http::connect(scene.gate.metrics_address());
        client.send("GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n");
        client.head().starts_with("HTTP/1.1 200").then_some(())
    });
}
