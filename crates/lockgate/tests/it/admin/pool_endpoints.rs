//! Endpoints that are added to pools and removed from them while the process serves.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use lockgate_testkit::{Folder, Http, Lockgate, Origin, Serving, Wire, eventually};
use serde_json::{Value, json};

use super::ask;
use crate::http::plain_site;
use crate::reload::reload;
use crate::scene::{lockgate, text};

const GET: &str = "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";

/// A Lockgate with three origins, which respond with their names; the first two are in its pool.
struct PoolScene {
    folder: Folder,
    gate: Lockgate,
    origins: [Serving; 3],
}

impl PoolScene {
    /// `more` are further keys of the pool.
    fn new(more: &str) -> Self {
        let folder = Folder::new();
        let origins = ["a", "b", "c"].map(named_origin);
        let endpoints = origins.each_ref().map(|origin| origin.address().to_owned());
        let gate = lockgate()
            .workers(2)
            .start(&configuration(&folder, &endpoints[..2], more));
        Self {
            folder,
            gate,
            origins,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path("admin.sock")
    }

    fn endpoint(&self, at: usize) -> &str {
        self.origins[at].address()
    }

    fn post(&self, verb: &str, endpoint: &str, more: Value) -> (u16, Value) {
        let mut body = json!({ "pool": "app", "endpoint": endpoint });
        let more = more.as_object().cloned().unwrap_or_default();
        body.as_object_mut().unwrap().extend(more);
        let path = format!("/v1/endpoints/{verb}");
        ask(&self.socket(), "POST", &path, &body.to_string())
    }

    fn change(&self, verb: &str, at: usize, more: Value) -> Value {
        let (status, value) = self.post(verb, self.endpoint(at), more);
        assert_eq!(status, 200, "{value}");
        value
    }

    /// The status and the code of an error.
    fn refused(&self, verb: &str, endpoint: &str, more: Value) -> (u16, String) {
        let (status, value) = self.post(verb, endpoint, more);
        let code = value["error"]["code"].as_str();
        (status, code.unwrap_or_else(|| panic!("{value}")).to_owned())
    }

    fn pool(&self) -> Value {
        ask(&self.socket(), "GET", "/v1/pools", "").1["pools"][0].take()
    }

    /// The endpoints of the pool, and those that were added and removed.
    fn shown(&self) -> [Vec<String>; 3] {
        let pool = self.pool();
        let list = |name: &str, of: fn(&Value) -> &Value| {
            let all = pool[name].as_array().unwrap().iter();
            all.map(|one| of(one).as_str().unwrap().to_owned())
                .collect()
        };
        [
            list("endpoints", |one| &one["endpoint"]),
            list("added", |one| one),
            list("removed", |one| one),
        ]
    }

    fn names(&self, places: &[usize]) -> Vec<String> {
        let names = places.iter().map(|at| self.endpoint(*at).to_owned());
        names.collect()
    }

    /// The bodies of this many requests, each on a connection of its own.
    fn bodies(&self, count: usize) -> String {
        (0..count).map(|_| body(&self.gate)).collect()
    }

    fn configured(&self, places: &[usize], more: &str) -> String {
        configuration(&self.folder, &self.names(places), more)
    }

    fn status(&self) -> Value {
        ask(&self.socket(), "GET", "/v1/status", "").1
    }
}

fn named_origin(name: &'static str) -> Serving {
    Origin::tcp().answering(move |_| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{name}").into_bytes()
    })
}

fn configuration(folder: &Folder, endpoints: &[String], more: &str) -> String {
    format!(
        "admin = \"unix:{}\"\nstate = \"{}\"\n{}[pool.app]\nendpoints = {endpoints:?}\n{more}",
        text(&folder.path("admin.sock")),
        text(&folder.path("state")),
        plain_site("pool:app"),
    )
}

fn body(gate: &Lockgate) -> String {
    let mut client = Http::connect(gate.address());
    client.send("GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status(), 200);
    answer.text().to_owned()
}

const IN_TURN: &str = "balance = \"round-robin\"\n";

#[test]
fn an_added_endpoint_gets_requests_and_a_removed_one_gets_none() {
    let scene = PoolScene::new(IN_TURN);
    let added = scene.change("add", 2, json!({ "weight": 2 }));
    assert_eq!(
        (&added["in_pool"], &added["weight"], &added["generation"]),
        (&json!(true), &json!(2), &json!(2))
    );
    assert_eq!(
        scene.shown(),
        [scene.names(&[0, 1, 2]), scene.names(&[2]), Vec::new()]
    );
    let bodies = scene.bodies(16);
    assert_eq!(bodies.matches('c').count(), 8, "{bodies}");
    let removed = scene.change("remove", 0, json!({}));
    assert_eq!(removed["in_pool"], false);
    assert_eq!(
        scene.shown(),
        [scene.names(&[1, 2]), scene.names(&[2]), scene.names(&[0])]
    );
    let bodies = scene.bodies(9);
    assert!(!bodies.contains('a') && bodies.contains('c'), "{bodies}");
    // Neither counts as a reload of the file, which is the same as before.
    let configuration = &scene.status()["configuration"];
    assert_eq!(configuration["reloads"]["succeeded"], 0);
    assert_eq!(configuration["differs"], false);
    // The opposite of each takes it back.
    scene.change("add", 0, json!({}));
    scene.change("remove", 2, json!({}));
    assert_eq!(
        scene.shown(),
        [scene.names(&[0, 1]), Vec::new(), Vec::new()]
    );
    assert_eq!(scene.bodies(4).replace('b', ""), "aa");
}
