//! Connections of clients, listed and closed.

use lockgate_testkit::h2::Client;
use lockgate_testkit::{Folder, Http, Lockgate, Origin, Serving, Wire, eventually};
use serde_json::{Value, json};

use super::ask;
use crate::http::plain_site;
use crate::reload::reload;
use crate::scene::{echoes, lockgate, text};

const SITE: &str = "127.0.0.1:0";
const RELAY: &str = "127.0.0.2:0";
const UPGRADE: &str =
    "GET / HTTP/1.1\r\nhost: a.test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

/// A site over HTTP/1 and HTTP/2 with a scripted origin, and a relay to an echo.
struct ConnectionScene {
    folder: Folder,
    gate: Lockgate,
    origin: Origin,
    echo: Serving,
}

impl ConnectionScene {
    fn new() -> Self {
        let (folder, origin, echo) = (Folder::new(), Origin::tcp(), Origin::tcp().echo());
        let toml = Self::toml(&folder, &origin, &echo);
        Self {
            gate: lockgate().workers(2).start(&toml),
            folder,
            origin,
            echo,
        }
    }

    fn toml(folder: &Folder, origin: &Origin, echo: &Serving) -> String {
        format!(
            "admin = \"unix:{}\"\naccess_log = \"{}\"\n{}protocols = [\"h2c\", \"http1\"]\n\
             [tcp.\"{RELAY}\"]\nproxy = \"{}\"\n",
            text(&folder.path("admin.sock")),
            text(&folder.path("access.log")),
            plain_site(origin.address()),
            echo.address()
        )
    }

    fn list(&self, query: &str) -> Vec<Value> {
        let path = format!("/v1/connections{query}");
        let (status, value) = ask(&self.folder.path("admin.sock"), "GET", &path, "");
        assert_eq!(status, 200, "{value}");
        value["connections"].as_array().unwrap().clone()
    }

    /// The one connection at a listener, once it is in this state.
    fn one(&self, listener: &str, state: &str) -> Value {
        let query = format!("?listener={listener}");
        eventually(state, || {
            let found = self.list(&query);
            assert!(found.len() < 2, "{found:?}");
            found.into_iter().find(|one| one["state"] == state)
        })
    }

    fn close(&self, body: Value) -> (u16, Value) {
        let socket = self.folder.path("admin.sock");
        ask(&socket, "POST", "/v1/connections/close", &body.to_string())
    }

    /// A line of the access log with this text.
    fn logged(&self, text: &str) -> Value {
        eventually(text, || {
            let log = std::fs::read_to_string(self.folder.path("access.log")).unwrap();
            let line = log.lines().find(|line| line.contains(text))?;
            serde_json::from_str(line).ok()
        })
    }
}

#[test]
fn a_connection_shows_what_it_does() {
    let scene = ConnectionScene::new();
    let mut client = Http::connect(scene.gate.at(SITE));
    let begun = scene.one(SITE, "opening");
    assert_eq!(
        (&begun["protocol"], &begun["site"]),
        (&Value::Null, &Value::Null)
    );
    client.send("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    let mut upstream = scene.origin.http();
    upstream.request();
    let asking = scene.one(SITE, "request");
    assert_eq!(asking["protocol"], "http/1");
    assert_eq!(asking["client"], "127.0.0.1");
    assert_eq!(
        (&asking["site"], &asking["requests"]),
        (&json!(":0"), &json!(1))
    );
    assert_eq!(
        (&asking["generation"], &asking["draining"]),
        (&json!(1), &json!(false))
    );
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    client.answer();
    let waiting = scene.one(SITE, "waiting");
    assert_eq!(
        (&waiting["site"], &waiting["generation"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(waiting["received_bytes"], 0);
    assert_eq!(waiting["sent_bytes"], 2);
    assert_eq!(waiting["id"], begun["id"]);
    client.send(UPGRADE);
    upstream.request();
    upstream.send(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    );
    client.head();
    scene.one(SITE, "tunnel");
}

#[test]
fn streams_and_relays_are_shown_with_their_connection() {
    let scene = ConnectionScene::new();
    let mut relayed = Wire::connect(scene.gate.at(RELAY));
    echoes(&mut relayed, "word");
    let relay = scene.one(RELAY, "relay");
    assert_eq!(
        (&relay["protocol"], &relay["received_bytes"]),
        (&json!("tcp"), &json!(4))
    );
    let client = Client::connect(scene.gate.at(SITE));
    let streams: Vec<_> = ["/a", "/b"]
        .iter()
        .map(|path| client.begin(Client::request(http::Method::GET, path), true))
        .collect();
    let mut upstreams = [scene.origin.http(), scene.origin.http()];
    upstreams
        .iter_mut()
        .for_each(|upstream| drop(upstream.request()));
    let shown = scene.one(SITE, "request");
    assert_eq!(
        (&shown["protocol"], &shown["requests"]),
        (&json!("http/2"), &json!(2))
    );
    assert_eq!(
        (&shown["site"], &shown["generation"]),
        (&json!(":0"), &json!(1))
    );
    assert_eq!(scene.list("?site=%3A0").len(), 1);
    for upstream in &mut upstreams {
        upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    }
    streams
        .into_iter()
        .for_each(|stream| assert_eq!(stream.answer().status, 200));
    scene.one(SITE, "waiting");
    assert_eq!(scene.list("?site=%3A0").len(), 0);
}

#[test]
fn connections_are_filtered_and_bounded() {
    let scene = ConnectionScene::new();
    let mut open: Vec<_> = (0..5)
        .map(|_| Wire::connect(scene.gate.at(RELAY)))
        .collect();
    open.iter_mut().for_each(|wire| echoes(wire, "open"));
    for (query, count) in [
        ("", 5),
        ("?client=127.0.0.1", 5),
        ("?client=127.0.0.0/8&listener=127.0.0.2%3A0", 5),
        ("?client=10.0.0.1", 0),
        ("?listener=127.0.0.1%3A0", 0),
        ("?older_than=3600", 0),
        ("?limit=2", 2),
    ] {
        assert_eq!(scene.list(query).len(), count, "{query}");
    }
    let ages: Vec<_> = scene
        .list("")
        .iter()
        .map(|one| one["age_seconds"].as_f64())
        .collect();
    assert!(ages.is_sorted_by(|one, next| one >= next), "{ages:?}");
    let socket = scene.folder.path("admin.sock");
    for query in [
        "limit=0",
        "limit=x",
        "client=a",
        "older_than=-1",
        "site=none",
        "colour=red",
    ] {
        let path = format!("/v1/connections?{query}");
        let (status, refused) = ask(&socket, "GET", &path, "");
        assert_eq!(
            (status, &refused["error"]["code"]),
            (400, &json!("bad_query")),
            "{query}"
        );
    }
}

#[test]
fn a_closed_connection_ends_and_its_line_says_why() {
    let scene = ConnectionScene::new();
    let mut open: Vec<_> = (0..2)
        .map(|_| Wire::connect(scene.gate.at(RELAY)))
        .collect();
    open.iter_mut().for_each(|wire| echoes(wire, "open"));
    let before = scene.list("");
    let id = &before[0]["id"];
    assert_eq!(
        scene.close(json!({ "ids": [id] })),
        (200, json!({ "closed": 1 }))
    );
    let left = eventually("one is left", || {
        let left = scene.list("");
        (left.len() == 1).then_some(left)
    });
    assert_eq!(left[0]["id"], before[1]["id"]);
    let line = scene.logged("closed by the operator");
    assert_eq!((&line["id"], &line["cause"]), (id, &json!("drain")));
    let mut idle = Http::connect(scene.gate.at(SITE));
    idle.send("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    let mut upstream = scene.origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    idle.answer();
    let body = json!({ "client": "127.0.0.1", "listener": SITE });
    assert_eq!(scene.close(body), (200, json!({ "closed": 1 })));
    idle.wait_closed();
    assert_eq!(
        scene.close(json!({ "listener": RELAY })),
        (200, json!({ "closed": 1 }))
    );
    open.iter_mut().for_each(Wire::wait_closed);
}

#[test]
fn closing_an_http2_connection_ends_its_requests() {
    let scene = ConnectionScene::new();
    let client = Client::connect(scene.gate.at(SITE));
    let stream = client.begin(Client::request(http::Method::GET, "/slow"), true);
    let mut upstream = scene.origin.http();
    upstream.request();
    assert_eq!(
        scene.close(json!({ "listener": SITE })),
        (200, json!({ "closed": 1 }))
    );
    assert!(stream.try_answer().is_err());
    upstream.wait_closed();
    let line = scene.logged("/slow");
    assert_eq!(line["detail"], "closed by the operator");
}

#[test]
fn nothing_is_closed_by_a_body_with_a_mistake() {
    let scene = ConnectionScene::new();
    let mut open = Wire::connect(scene.gate.at(RELAY));
    echoes(&mut open, "open");
    for body in [
        json!({}),
        json!({ "ids": [] }),
        json!({ "ids": ["xyz"] }),
        json!({ "ids": [1] }),
        json!({ "ids": "1" }),
        json!({ "ids": [], "listener": RELAY }),
        json!({ "ids": null, "client": null, "listener": null }),
        json!({ "older_than": 0 }),
        json!({ "listener": RELAY, "older_than": "1h" }),
        json!({ "listener": RELAY, "older_than": -1 }),
        json!({ "listener": RELAY, "older": 3_600 }),
        json!({ "listener": RELAY, "client": ["192.0.2.7"] }),
        json!({ "listener": RELAY, "site": [":0"] }),
        json!({ "listener": [RELAY], "client": "127.0.0.1" }),
        json!({ "listener": RELAY, "id": "0000000000000000" }),
        json!({ "listener": RELAY, "limit": 1 }),
    ] {
        let (status, refused) = scene.close(body.clone());
        assert_eq!(
            (status, &refused["error"]["code"]),
            (422, &json!("unusable")),
            "{body}"
        );
    }
    for (body, expected) in [
        (json!({ "listener": RELAY, "site": "none" }), 404),
        (json!({ "listener": RELAY, "client": "none" }), 400),
    ] {
        assert_eq!(scene.close(body.clone()).0, expected, "{body}");
    }
    for body in [
        json!({ "listener": RELAY, "older_than": 3_600 }),
        json!({ "listener": RELAY, "site": ":0" }),
    ] {
        let none = json!({ "closed": 0 });
        assert_eq!(scene.close(body.clone()), (200, none), "{body}");
    }
    let nowhere = json!({ "ids": ["0000000000000000"] });
    assert_eq!(scene.close(nowhere), (200, json!({ "closed": 0 })));
    echoes(&mut open, "still");
}

#[test]
fn connections_are_closed_by_the_site_of_their_request_and_their_age() {
    let scene = ConnectionScene::new();
    let mut relayed = Wire::connect(scene.gate.at(RELAY));
    echoes(&mut relayed, "open");
    let mut asking = Http::connect(scene.gate.at(SITE));
    asking.send("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    let mut upstream = scene.origin.http();
    upstream.request();
    let one = (200, json!({ "closed": 1 }));
    assert_eq!(scene.close(json!({ "site": ":0", "ids": null })), one);
    asking.wait_closed();
    eventually("only the relay is left", || {
        (scene.list("").len() == 1).then_some(())
    });
    let body = json!({ "listener": RELAY, "older_than": 0.001 });
    eventually("it is old enough", || {
        (scene.close(body.clone()) == one).then_some(())
    });
    relayed.wait_closed();
}

#[test]
fn status_counts_connections_that_earlier_generations_hold() {
    let scene = ConnectionScene::new();
    let held = || {
        let socket = scene.folder.path("admin.sock");
        ask(&socket, "GET", "/v1/status", "").1["held_to_earlier_generations"].clone()
    };
    let mut relayed = Wire::connect(scene.gate.at(RELAY));
    echoes(&mut relayed, "before");
    let mut client = Http::connect(scene.gate.at(SITE));
    client.send("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    let mut upstream = scene.origin.http();
    upstream.request();
    assert_eq!(held(), 0);
    let toml = ConnectionScene::toml(&scene.folder, &scene.origin, &scene.echo);
    reload(
        &scene.gate,
        &format!("{toml}timeouts = {{ tunnel_idle = \"5m\" }}\n"),
    );
    assert_eq!(held(), 2);
    let status = lockgate().run(&["status", "-c", &text(&scene.gate.configuration())]);
    assert!(
        status.stdout.contains("held by earlier generations: 2"),
        "{}",
        status.stdout
    );
    let socket = scene.folder.path("admin.sock");
    let shown = ask(&socket, "GET", "/v1/status", "").1;
    let hash = shown["configuration"]["hash"].as_str().unwrap();
    let configuration = format!(
        "configuration {}, generation 2, hash {}, read ",
        text(&scene.gate.configuration()),
        &hash[..12]
    );
    assert!(
        status.stdout.contains(&configuration),
        "{configuration}: {}",
        status.stdout
    );
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    client.answer();
    eventually("the request is over", || (held() == 1).then_some(()));
    relayed.finish();
    relayed.wait_closed();
    eventually("the relay is over", || (held() == 0).then_some(()));
}

#[test]
fn the_command_lists_and_closes_connections() {
    let scene = ConnectionScene::new();
    let mut open = Wire::connect(scene.gate.at(RELAY));
    echoes(&mut open, "open");
    let file = text(&scene.gate.configuration());
    let run = |words: &[&str]| lockgate().run(&[words, &["-c", &file]].concat());
    for words in [
        &["connections"][..],
        &["connections", "list", "--older-than", "0s"],
    ] {
        let table = run(words);
        for text in ["CLIENT", "STATE", "127.0.0.1", RELAY, "relay", "tcp"] {
            assert!(table.stdout.contains(text), "{words:?}: {}", table.stdout);
        }
    }
    assert_eq!(run(&["connections", "close"]).code, Some(2));
    assert_eq!(run(&["connections", "--limit", "0"]).code, Some(1));
    let old = run(&[
        "connections",
        "close",
        "--listener",
        RELAY,
        "--older-than",
        "1h",
    ]);
    assert_eq!(old.stdout, "connections that were closed: 0");
    let with_id = run(&["connections", "close", "ab", "--site", ":0"]);
    assert_eq!(with_id.code, Some(2));
    let closed = run(&["connections", "close", "--client", "127.0.0.1"]);
    assert_eq!(closed.stdout, "connections that were closed: 1");
    open.wait_closed();
}
