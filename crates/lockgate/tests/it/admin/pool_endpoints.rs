//! Endpoints that are added to pools and removed from them while the process serves.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lockgate_testkit::{Authority, Folder, Http, Lockgate, Origin, Serving, Wire, eventually};
use serde_json::{Value, json};

use super::ask;
use crate::http::plain_site;
use crate::reload::reload;
use crate::scene::{lockgate, text};

const GET: &str = "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";

/// A Lockgate with three origins, which respond with their names; the first two are in its pool.
pub(super) struct PoolScene {
    folder: Folder,
    gate: Lockgate,
    origins: [Serving; 3],
}

impl PoolScene {
    /// `more` are further keys of the pool.
    pub(super) fn new(more: &str) -> Self {
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

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path("admin.sock")
    }

    pub(super) fn endpoint(&self, at: usize) -> &str {
        self.origins[at].address()
    }

    pub(super) fn post(&self, verb: &str, endpoint: &str, more: Value) -> (u16, Value) {
        let mut body = json!({ "pool": "app", "endpoint": endpoint });
        let more = more.as_object().cloned().unwrap_or_default();
        body.as_object_mut().unwrap().extend(more);
        let path = format!("/v1/endpoints/{verb}");
        ask(&self.socket(), "POST", &path, &body.to_string())
    }

    pub(super) fn change(&self, verb: &str, at: usize, more: Value) -> Value {
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

    pub(super) fn pool(&self) -> Value {
        ask(&self.socket(), "GET", "/v1/pools", "").1["pools"][0].take()
    }

    /// The endpoints of the pool, and those that were added and removed.
    pub(super) fn shown(&self) -> [Vec<String>; 3] {
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

    pub(super) fn names(&self, places: &[usize]) -> Vec<String> {
        let names = places.iter().map(|at| self.endpoint(*at).to_owned());
        names.collect()
    }

    /// The bodies of this many requests, each on a connection of its own.
    pub(super) fn bodies(&self, count: usize) -> String {
        (0..count).map(|_| body(&self.gate)).collect()
    }

    pub(super) fn configured(&self, places: &[usize], more: &str) -> String {
        configuration(&self.folder, &self.names(places), more)
    }

    pub(super) fn status(&self) -> Value {
        ask(&self.socket(), "GET", "/v1/status", "").1
    }

    pub(super) fn take_over(&self, path: &str, body: &Value) {
        let (status, value) = ask(&self.socket(), "POST", path, &body.to_string());
        assert_eq!(status, 200, "{value}");
    }

    /// The endpoints that the next start adds and removes.
    pub(super) fn kept(&self) -> [Vec<String>; 2] {
        let Ok(written) = std::fs::read_to_string(self.folder.path("state/admin.json")) else {
            return Default::default();
        };
        let written: Value = serde_json::from_str(&written).unwrap();
        ["added", "removed"].map(|name| {
            let all = written[name].as_array().into_iter().flatten();
            all.map(|one| one["endpoint"].as_str().unwrap().to_owned())
                .collect()
        })
    }

    fn keeps_nothing(&self) {
        eventually("nothing is kept", || {
            self.kept().iter().all(Vec::is_empty).then_some(())
        });
    }

    /// Stops the process, and starts another one with these endpoints.
    fn restarted(self, places: &[usize]) -> Self {
        let toml = self.configured(places, "");
        self.gate.stop();
        Self {
            gate: lockgate().start(&toml),
            ..self
        }
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

pub(super) const IN_TURN: &str = "balance = \"round-robin\"\n";

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
    let [first, added] = ['a', 'c'].map(|name| bodies.matches(name).count());
    assert!(added > first && first > 0, "{bodies}");
    let removed = scene.change("remove", 0, json!({}));
    assert_eq!(removed["in_pool"], false);
    assert_eq!(
        scene.shown(),
        [scene.names(&[1, 2]), scene.names(&[2]), scene.names(&[0])]
    );
    let bodies = scene.bodies(9);
    assert!(!bodies.contains('a') && bodies.contains('c'), "{bodies}");
    // Neither counts as a reload of the file, which is the same as before.
    let status = scene.status();
    let counts = ["endpoints_added", "endpoints_removed"].map(|name| &status[name]);
    assert_eq!(counts, [&json!(1), &json!(1)]);
    let configuration = &status["configuration"];
    assert_eq!(configuration["reloads"]["succeeded"], 0);
    assert_eq!(configuration["differs"], false);
    // The opposite of each takes it back.
    scene.change("add", 0, json!({}));
    scene.change("remove", 2, json!({}));
    assert_eq!(
        scene.shown(),
        [scene.names(&[0, 1]), Vec::new(), Vec::new()]
    );
    let bodies = scene.bodies(8);
    assert!(!bodies.contains('c') && bodies.contains('a'), "{bodies}");
}

#[test]
fn no_request_fails_while_endpoints_are_added_and_removed() {
    let scene = PoolScene::new(IN_TURN);
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = scene.gate.address();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Http::connect(address);
                while !is_over.load(Ordering::SeqCst) {
                    client.send(GET);
                    assert_eq!(client.answer().status(), 200);
                    served.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let more = || {
            let end = served.load(Ordering::SeqCst) + 50;
            eventually("more requests", || {
                (served.load(Ordering::SeqCst) >= end).then_some(())
            });
        };
        for _ in 0..5 {
            for (verb, at) in [("add", 2), ("remove", 0), ("add", 0), ("remove", 2)] {
                scene.change(verb, at, json!({}));
                more();
            }
        }
        scene.change("remove", 0, json!({}));
        eventually("no connection at the origin", || {
            (scene.origins[0].open() == 0).then_some(())
        });
        let accepted = scene.origins[0].accepted();
        more();
        assert_eq!(scene.origins[0].accepted(), accepted);
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_request_at_a_removed_endpoint_ends_by_itself() {
    let folder = Folder::new();
    let (slow, other) = (Origin::tcp(), named_origin("b"));
    let endpoints = [slow.address(), other.address().to_owned()];
    let drains = "drain = { change = \"1s\" }\n";
    let toml = drains.to_owned() + &configuration(&folder, &endpoints, IN_TURN);
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send(GET);
    let mut at_origin = slow.http();
    at_origin.request();
    let (status, removed) = ask(
        &folder.path("admin.sock"),
        "POST",
        "/v1/endpoints/remove",
        &json!({ "pool": "app", "endpoint": endpoints[0] }).to_string(),
    );
    assert_eq!(status, 200, "{removed}");
    assert_eq!(
        (&removed["in_flight"], &removed["connections"]),
        (&json!(1), &json!(1))
    );
    for _ in 0..4 {
        assert_eq!(body(&gate), "b");
    }
    // The limit of `drain.change` is for what another configuration has left.
    gate.wait_for_sample("lockgate_config_earlier_generations", &[], 1.0);
    at_origin.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    assert_eq!(client.answer().body, b"ok");
}

#[test]
fn added_and_removed_endpoints_survive_reloads() {
    let scene = PoolScene::new(IN_TURN);
    scene.change("add", 2, json!({}));
    scene.change("remove", 0, json!({}));
    let changed = [scene.names(&[1, 2]), scene.names(&[2]), scene.names(&[0])];
    reload(
        &scene.gate,
        &scene.configured(&[0, 1], &format!("{IN_TURN}retry = {{ times = 1 }}\n")),
    );
    assert_eq!(scene.shown(), changed);
    let text = scene.configured(&[0, 1], IN_TURN);
    let body = json!({ "text": text, "confirm_seconds": 3600 }).to_string();
    let post = |path: &str, body: &str| ask(&scene.socket(), "POST", path, body);
    assert_eq!(post("/v1/reload", &body).0, 200);
    assert_eq!(scene.shown(), changed);
    // It needs no confirmation, and takes none away.
    scene.change("add", 0, json!({}));
    assert_eq!(post("/v1/rollback", "").0, 200);
    assert_eq!(
        scene.shown(),
        [scene.names(&[0, 1, 2]), scene.names(&[2]), Vec::new()]
    );
    assert_eq!(post("/v1/rollback", "").0, 200);
    assert!(scene.bodies(6).contains('c'));
}

#[test]
fn a_change_ends_where_the_file_leaves_it_no_place() {
    let scene = PoolScene::new("");
    scene.change("add", 2, json!({ "weight": 9 }));
    scene.change("remove", 0, json!({}));
    let take_over = |toml: &str| {
        scene.gate.rewrite(toml);
        let (status, value) = ask(&scene.socket(), "POST", "/v1/reload", "");
        assert_eq!(status, 200, "{value}");
        let warnings = value["warnings"].as_array().unwrap().iter();
        let texts = warnings.map(|one| {
            assert_eq!(one["code"], "W0112");
            format!("{}: {}", one["message"], one["why"])
        });
        texts.collect::<Vec<_>>()
    };
    let said = take_over(&scene.configured(&[1, 2], ""));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("the configuration does not name it"),
        "{said:?}"
    );
    assert!(said[1].contains("the configuration names it"), "{said:?}");
    scene.gate.says("which holds no longer");
    assert_eq!(
        scene.shown(),
        [scene.names(&[1, 2]), Vec::new(), Vec::new()]
    );
    assert_eq!(scene.pool()["endpoints"][1]["weight"], 1);
    scene.change("add", 0, json!({}));
    let other = scene.configured(&[1], "").replace("app", "other");
    let said = take_over(&other);
    assert!(said[0].contains("no such pool"), "{said:?}");
    assert_eq!(scene.shown()[1], Vec::<String>::new());
}

#[test]
fn what_was_set_for_other_endpoints_stays_as_a_pool_changes() {
    let scene = PoolScene::new("health = { tcp = true, every = \"100ms\" }\n");
    scene.change("drain", 0, json!({}));
    scene.change("weight", 1, json!({ "weight": 7 }));
    let mut client = Http::connect(scene.gate.address());
    let mut exchange = || {
        client.send(GET);
        assert_eq!(client.answer().text(), "b");
    };
    exchange();
    let figures = |at: usize| {
        let endpoint = &scene.pool()["endpoints"][at];
        ["endpoint", "state", "admin", "weight", "requests"].map(|name| endpoint[name].clone())
    };
    eventually("all were checked", || {
        let pool = scene.pool();
        let mut all = pool["endpoints"].as_array().unwrap().iter();
        all.all(|one| !one["check"].is_null()).then_some(())
    });
    let before = [0, 1].map(figures);
    scene.change("add", 2, json!({ "backup": true }));
    assert_eq!([0, 1].map(figures), before);
    exchange();
    eventually("the added endpoint is checked", || {
        (!scene.pool()["endpoints"][2]["check"].is_null()).then_some(())
    });
    scene.change("remove", 2, json!({}));
    scene.change("remove", 0, json!({}));
    assert_eq!(figures(0)[..4], before[1][..4]);
}

#[test]
fn kept_endpoints_are_added_and_removed_by_the_next_start() {
    let PoolScene {
        folder,
        gate,
        origins,
    } = {
        let scene = PoolScene::new(IN_TURN);
        scene.change("drain", 0, json!({ "keep": true }));
        let kept = scene.change("add", 2, json!({ "weight": 3, "keep": true }));
        assert_eq!(kept["kept"], true);
        scene.change("weight", 2, json!({ "weight": 5, "keep": true }));
        let kept = scene.change("remove", 0, json!({ "keep": true }));
        assert_eq!(
            (&kept["kept"], &kept["next_start"]),
            (&json!(true), &Value::Null)
        );
        let back = scene.change("add", 0, json!({}));
        assert_eq!(back["kept_otherwise"], true);
        assert_eq!(back["next_start"], json!({ "in_pool": false }));
        scene
    };
    gate.stop();
    let written = std::fs::read_to_string(folder.path("state/admin.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    let [first, second, third] = origins.each_ref().map(|origin| origin.address().to_owned());
    assert_eq!(
        written,
        json!({
            "version": 2,
            "endpoints": [{ "pool": "app", "endpoint": third, "admin": null, "weight": 5 }],
            "added": [{ "pool": "app", "endpoint": third, "weight": 3, "backup": false }],
            "removed": [{ "pool": "app", "endpoint": first }],
        })
    );
    let endpoints = [first, second];
    let gate = lockgate().start(&configuration(&folder, &endpoints, IN_TURN));
    let scene = PoolScene {
        folder,
        gate,
        origins,
    };
    assert_eq!(
        scene.shown(),
        [scene.names(&[1, 2]), scene.names(&[2]), scene.names(&[0])]
    );
    assert_eq!(scene.pool()["endpoints"][1]["weight"], 5);
    let bodies = scene.bodies(12);
    assert!(!bodies.contains('a') && bodies.contains('c'), "{bodies}");
    scene.change("add", 0, json!({ "keep": true }));
    scene.change("remove", 2, json!({ "keep": true }));
    scene.gate.stop();
    let gate = lockgate().start(&configuration(&scene.folder, &endpoints, IN_TURN));
    let bodies: String = (0..8).map(|_| body(&gate)).collect();
    assert!(!bodies.contains('c') && bodies.contains('a'), "{bodies}");
}

#[test]
fn a_kept_change_that_has_ended_does_not_come_back() {
    let keep = json!({ "keep": true });
    let scene = PoolScene::new("");
    scene.change("add", 2, keep.clone());
    scene.change("remove", 0, keep.clone());
    scene.take_over(
        "/v1/reload",
        &json!({ "text": scene.configured(&[1, 2], "") }),
    );
    scene.keeps_nothing();
    let scene = scene.restarted(&[0, 1]);
    let untouched = [scene.names(&[0, 1]), Vec::new(), Vec::new()];
    assert_eq!(scene.shown(), untouched);
    // The same where they end with a start.
    scene.change("add", 2, keep.clone());
    scene.change("remove", 0, keep);
    let scene = scene.restarted(&[1, 2]);
    scene.keeps_nothing();
    assert_eq!(scene.restarted(&[0, 1]).shown(), untouched);
}

#[test]
fn a_rollback_brings_back_the_changes_that_its_reload_has_ended() {
    let keep = json!({ "keep": true });
    let scene = PoolScene::new("");
    scene.change("add", 2, keep.clone());
    scene.change("remove", 0, keep);
    let changed = scene.shown();
    let kept = [scene.names(&[2]), scene.names(&[0])];
    let other = scene.configured(&[1, 2], "");
    let trial = json!({ "text": other, "confirm_seconds": 3600 });
    for _ in 0..2 {
        scene.take_over("/v1/reload", &trial);
        assert_eq!(scene.shown()[1..], [Vec::<String>::new(), Vec::new()]);
        scene.take_over("/v1/rollback", &json!({}));
        assert_eq!(scene.shown(), changed);
    }
    // It goes back by itself, too.
    scene.take_over(
        "/v1/reload",
        &json!({ "text": other, "confirm_seconds": 1 }),
    );
    eventually("the changes are back", || {
        (scene.shown() == changed).then_some(())
    });
    assert_eq!(scene.kept(), kept);
    // They are shown before the reload that goes back has ended, and another one is refused until then.
    eventually("another reload", || {
        let (status, _) = ask(&scene.socket(), "POST", "/v1/reload", &trial.to_string());
        (status == 200).then_some(())
    });
    // What is changed meanwhile is the later word.
    scene.change("remove", 2, json!({}));
    assert_eq!(scene.kept(), kept);
    scene.take_over("/v1/rollback", &json!({}));
    assert_eq!(
        scene.shown(),
        [scene.names(&[1]), Vec::new(), scene.names(&[0])]
    );
    scene.take_over("/v1/reload", &trial);
    scene.take_over("/v1/confirm", &json!({}));
    eventually("the ended change is kept no longer", || {
        (scene.kept() == [scene.names(&[2]), Vec::new()]).then_some(())
    });
}

#[test]
fn a_change_that_holds_can_be_kept_afterwards() {
    let keep = || json!({ "keep": true });
    let scene = PoolScene::new("");
    scene.change("add", 2, json!({ "weight": 3 }));
    scene.change("remove", 0, json!({}));
    let generation = scene.status()["generation"].clone();
    let there = (409, "already_there".to_owned());
    for other in [json!({ "keep": true }), json!({ "weight": 3 })] {
        assert_eq!(scene.refused("add", scene.endpoint(2), other), there);
    }
    let added = scene.change("add", 2, json!({ "weight": 3, "keep": true }));
    let removed = scene.change("remove", 0, keep());
    for (shown, in_pool) in [(&added, true), (&removed, false)] {
        assert_eq!(
            (&shown["kept"], &shown["in_pool"], &shown["generation"]),
            (&json!(true), &json!(in_pool), &generation)
        );
    }
    assert_eq!(scene.kept(), [scene.names(&[2]), scene.names(&[0])]);
    // The opposite of each, too.
    scene.change("remove", 2, json!({}));
    scene.change("remove", 2, keep());
    scene.change("add", 0, json!({}));
    scene.change("add", 0, keep());
    assert_eq!(scene.kept(), [Vec::<String>::new(), Vec::new()]);
    let unknown = (404, "unknown_name".to_owned());
    assert_eq!(scene.refused("remove", scene.endpoint(2), keep()), unknown);
}

#[test]
fn changes_at_once_are_made_one_after_the_other() {
    let scene = PoolScene::new("");
    std::thread::scope(|scope| {
        let scene = &scene;
        let added: Vec<_> = (1..=8)
            .map(|port| {
                scope.spawn(move || scene.post("add", &format!("127.0.0.1:{port}"), json!({})))
            })
            .collect();
        for added in added {
            let (status, value) = added.join().unwrap();
            assert_eq!(status, 200, "{value}");
        }
    });
    assert_eq!(scene.shown()[0].len(), 10);
    let scene = PoolScene::new("");
    std::thread::scope(|scope| {
        let removed = scope.spawn(|| scene.post("remove", scene.endpoint(0), json!({})));
        let drained = scope.spawn(|| scene.post("drain", scene.endpoint(1), json!({})));
        let mut statuses = [removed, drained].map(|ended| ended.join().unwrap().0);
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
    });
}

#[test]
fn an_endpoint_is_the_same_by_another_spelling() {
    let scene = PoolScene::new("");
    let port = scene.endpoint(0).rsplit(':').next().unwrap();
    let spelled = format!("[::ffff:127.0.0.1]:{port}");
    let there = (409, "already_there".to_owned());
    assert_eq!(scene.refused("add", &spelled, json!({})), there);
    for (verb, in_pool) in [("remove", false), ("add", true)] {
        let (status, shown) = scene.post(verb, &spelled, json!({}));
        assert_eq!(status, 200, "{shown}");
        assert_eq!(
            (&shown["endpoint"], &shown["in_pool"]),
            (&json!(scene.endpoint(0)), &json!(in_pool))
        );
    }
    assert_eq!(
        scene.shown(),
        [scene.names(&[0, 1]), Vec::new(), Vec::new()]
    );
}

#[test]
fn the_last_endpoint_may_have_two_spellings() {
    let scene = PoolScene::new("");
    let port = scene.endpoint(0).rsplit(':').next().unwrap();
    let spelled = format!("[::ffff:127.0.0.1]:{port}");
    let last = (409, "last_endpoint".to_owned());
    for (endpoints, removed) in [
        ([scene.endpoint(0), &spelled], [scene.endpoint(0), &spelled]),
        (
            ["App.internal:80", "app.internal.:80"],
            ["app.internal:80", "APP.internal.:80"],
        ),
    ] {
        let endpoints = endpoints.map(str::to_owned);
        reload(&scene.gate, &configuration(&scene.folder, &endpoints, ""));
        for endpoint in removed {
            assert_eq!(scene.refused("remove", endpoint, json!({})), last);
        }
        assert_eq!(scene.shown()[0].len(), 2);
    }
}

#[test]
fn what_has_begun_at_a_removed_endpoint_is_counted_in_all_spellings() {
    let folder = Folder::new();
    let slow = Origin::tcp();
    let port = slow.socket_address().port();
    let endpoints = [slow.address(), format!("[::ffff:127.0.0.1]:{port}")];
    let gate = lockgate().start(&configuration(&folder, &endpoints, IN_TURN));
    let mut clients = [0, 1].map(|_| {
        let mut client = Http::connect(gate.address());
        client.send(GET);
        client
    });
    let mut at_origin = clients.each_ref().map(|_| {
        let mut at_origin = slow.http();
        at_origin.request();
        at_origin
    });
    let (status, removed) = ask(
        &folder.path("admin.sock"),
        "POST",
        "/v1/endpoints/remove",
        &json!({ "pool": "app", "endpoint": endpoints[0], "force": true }).to_string(),
    );
    assert_eq!(status, 200, "{removed}");
    assert_eq!(
        (&removed["in_flight"], &removed["connections"]),
        (&json!(2), &json!(2))
    );
    for (client, at_origin) in clients.iter_mut().zip(&mut at_origin) {
        at_origin.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        assert_eq!(client.answer().body, b"ok");
    }
}

#[test]
fn a_change_tells_what_is_wrong_with_files_of_the_configuration() {
    let scene = PoolScene::new("");
    let served = scene.folder.path("www");
    std::fs::create_dir(&served).unwrap();
    let authority = Authority::new("ca").pem();
    let ca = text(&scene.folder.write("ca.pem", authority));
    let more = format!(
        "tls = {{ name = \"a.test\", ca = \"{ca}\" }}\n[site.\":0\".path.\"/files/*\"]\nroot = \"{}\"\n",
        text(&served)
    );
    reload(&scene.gate, &scene.configured(&[0, 1], &more));
    std::fs::remove_dir(&served).unwrap();
    scene.change("add", 2, json!({}));
    scene.gate.says("this folder cannot be served now");
    scene.folder.write("ca.pem", "none");
    let (status, value) = scene.post("remove", scene.endpoint(0), json!({}));
    let error = &value["error"];
    assert_eq!((status, &error["code"]), (422, &json!("mistakes")));
    assert!(
        error["cure"]
            .as_str()
            .unwrap()
            .contains("`lockgate endpoint drain`"),
        "{error}"
    );
    assert_eq!(scene.shown()[1..], [scene.names(&[2]), Vec::new()]);
}

#[test]
fn changes_that_cannot_be_are_refused_with_their_reason() {
    let scene = PoolScene::new("");
    let [first, nowhere] = [scene.endpoint(0), "127.0.0.1:9"];
    let error = |status: u16, code: &str| (status, code.to_owned());
    for (verb, endpoint, more, expected) in [
        ("add", first, json!({}), error(409, "already_there")),
        ("add", "127.0.0.1", json!({}), error(422, "bad_address")),
        ("add", "http://a.test", json!({}), error(422, "bad_address")),
        ("add", "unix:app.sock", json!({}), error(422, "bad_address")),
        (
            "add",
            nowhere,
            json!({ "weight": 0 }),
            error(422, "out_of_range"),
        ),
        (
            "add",
            nowhere,
            json!({ "weight": 257 }),
            error(422, "out_of_range"),
        ),
        (
            "add",
            nowhere,
            json!({ "address": 1 }),
            error(422, "unusable"),
        ),
        (
            "add",
            "srv:_app._tcp.test",
            json!({ "weight": 2 }),
            error(422, "unusable"),
        ),
        (
            "add",
            nowhere,
            json!({ "pool": "ap" }),
            error(404, "unknown_name"),
        ),
        ("remove", nowhere, json!({}), error(404, "unknown_name")),
        (
            "remove",
            first,
            json!({ "pool": "ap" }),
            error(404, "unknown_name"),
        ),
    ] {
        assert_eq!(
            scene.refused(verb, endpoint, more),
            expected,
            "{verb} {endpoint}"
        );
    }
    let (_, value) = scene.post("remove", "127.0.0.1:8", json!({}));
    assert!(value["error"]["cure"].as_str().unwrap().contains(first));
    assert_eq!(scene.status()["generation"], 1);
    // A pool with TLS verifies a name, which these do not have.
    let tls = scene.configured(&[0], "tls = {}\n");
    reload(&scene.gate, &tls);
    for nameless in ["unix:/run/app.sock", "srv:_app._tcp.test"] {
        let (status, value) = scene.post("add", nameless, json!({}));
        assert_eq!(
            (status, &value["error"]["code"]),
            (422, &json!("bad_address"))
        );
        let message = value["error"]["message"].as_str().unwrap();
        assert!(message.contains("there is no name to verify"), "{message}");
    }
    let without_state = lockgate().start(&format!(
        "admin = \"unix:{}\"\n{}[pool.app]\nendpoints = [\"{first}\"]\n",
        text(&scene.folder.path("other.sock")),
        plain_site("pool:app"),
    ));
    let body = json!({ "pool": "app", "endpoint": nowhere, "keep": true }).to_string();
    let socket = scene.folder.path("other.sock");
    let (status, value) = ask(&socket, "POST", "/v1/endpoints/add", &body);
    assert_eq!(
        (status, &value["error"]["code"]),
        (409, &json!("cannot_keep"))
    );
    drop(without_state);
}

#[test]
fn the_last_endpoint_is_removed_by_force_only() {
    let scene = PoolScene::new("");
    scene.change("drain", 0, json!({}));
    let last = (409, "last_endpoint".to_owned());
    assert_eq!(scene.refused("remove", scene.endpoint(1), json!({})), last);
    scene.change("remove", 0, json!({}));
    assert_eq!(scene.refused("remove", scene.endpoint(1), json!({})), last);
    scene.change("remove", 1, json!({ "force": true }));
    assert_eq!(scene.shown()[0], Vec::<String>::new());
    let mut client = Http::connect(scene.gate.address());
    client.send(GET);
    assert_eq!(client.answer().status(), 503);
    reload(
        &scene.gate,
        &scene.configured(&[0, 1], "retry = { times = 1 }\n"),
    );
    assert_eq!(scene.shown()[0], Vec::<String>::new());
    scene.change("add", 2, json!({}));
    client.send(GET);
    assert_eq!(client.answer().text(), "c");
}

#[test]
fn a_broken_file_on_the_disk_does_not_matter() {
    let scene = PoolScene::new("");
    std::fs::write(scene.gate.configuration(), "[pool.app\n").unwrap();
    scene.change("add", 2, json!({}));
    scene.change("remove", 0, json!({}));
    scene.change("remove", 1, json!({}));
    assert_eq!(scene.bodies(3), "ccc");
}

#[test]
fn clients_with_an_affinity_keep_their_endpoint_as_a_pool_changes() {
    let scene = PoolScene::new("balance = { sticky = \"cookie:lg\" }\n");
    let begin = || {
        let mut client = Http::connect(scene.gate.address());
        client.send(GET);
        let answer = client.answer();
        let cookie = answer.field("set-cookie").unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        (answer.text().to_owned(), cookie)
    };
    let goes_on = |cookie: &str| {
        let mut client = Http::connect(scene.gate.address());
        client.send(format!(
            "GET / HTTP/1.1\r\nhost: a.test\r\ncookie: {cookie}\r\n\r\n"
        ));
        client.answer().text().to_owned()
    };
    let of = |name: &str| {
        eventually("a client of the endpoint", || {
            let (body, cookie) = begin();
            (body == name).then_some(cookie)
        })
    };
    let [first, second] = ["a", "b"].map(of);
    scene.change("add", 2, json!({}));
    let third = of("c");
    let all = [&first, &second, &third].map(|cookie| goes_on(cookie));
    assert_eq!(all, ["a", "b", "c"]);
    scene.change("remove", 0, json!({}));
    assert_ne!(goes_on(&first), "a");
    assert_eq!([&second, &third].map(|cookie| goes_on(cookie)), ["b", "c"]);

    let hashed = PoolScene::new("balance = { hash = \"client\" }\n");
    let before = hashed.bodies(3);
    let away = usize::from(before.starts_with('a'));
    // The endpoint that the client does not have.
    hashed.change("remove", away, json!({}));
    assert_eq!(hashed.bodies(3), before);
    hashed.change("add", 2, json!({}));
    let after = hashed.bodies(3);
    assert!(["aaa", "bbb", "ccc"].contains(&&*after), "{after}");
}

#[test]
fn pools_written_inline_and_those_of_relays_change_too() {
    let folder = Folder::new();
    let (first, second) = (Origin::tcp(), Origin::tcp());
    let socket = folder.path("admin.sock");
    let gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\n[tcp.\"127.0.0.1:0\"]\nproxy = \"{}\"\n",
        text(&socket),
        first.address()
    ));
    let post = |verb: &str, endpoint: &str| {
        let body = json!({ "pool": "127.0.0.1:0", "endpoint": endpoint }).to_string();
        let (status, value) = ask(&socket, "POST", &format!("/v1/endpoints/{verb}"), &body);
        assert_eq!(status, 200, "{value}");
        value
    };
    let mut client = Wire::connect(gate.address());
    client.send("ping");
    let mut relayed = first.accept();
    relayed.expect("ping");
    post("add", &second.address());
    let removed = post("remove", &first.address());
    assert_eq!(removed["connections"], 1);
    let mut other = Wire::connect(gate.address());
    other.send("ping");
    second.accept().expect("ping");
    // The relay from before goes on.
    relayed.send("pong");
    client.expect("pong");
}

#[test]
fn the_command_line_adds_and_removes_endpoints() {
    let scene = PoolScene::new("");
    let run = |words: &[&str]| {
        let file = text(&scene.gate.configuration());
        let with_file = words.iter().copied().chain(["-c", &file]);
        lockgate().run(&with_file.collect::<Vec<_>>())
    };
    let (third, path) = (scene.endpoint(2), format!("app/{}", scene.endpoint(0)));
    for (words, says) in [
        (
            &["add", "app", third, "--weight", "3", "--backup", "--keep"][..],
            "is in the pool with the weight 3, as a backup\nthe next start takes this up",
        ),
        (&["remove", &path, "--keep"], "is removed: "),
        (
            &["add", "app", scene.endpoint(0)],
            "the next start removes it: use --keep",
        ),
        (&["remove", &path], "is removed: "),
    ] {
        let ended = run(&[&["endpoint"], words].concat());
        assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
        assert!(ended.stdout.contains(says), "{words:?}: {}", ended.stdout);
    }
    let listed = run(&["endpoints"]).stdout;
    for text in ["up, backup, added", "removed"] {
        assert!(listed.contains(text), "{text}: {listed}");
    }
    let status = run(&["status"]).stdout;
    assert!(
        status.contains("added by operators: 1, removed: 1"),
        "{status}"
    );
    let [second, third] = [1, 2].map(|at| format!("app/{}", scene.endpoint(at)));
    assert_eq!(run(&["endpoint", "remove", &third]).code, Some(0));
    let refused = run(&["endpoint", "remove", &second]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(run(&["endpoint", "add", "app"]).code, Some(2));
}
