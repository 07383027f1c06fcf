//! Endpoints that are taken out of their pools and back, and weights, while the process serves.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use lockgate_testkit::{Folder, Http, Lockgate, Origin, Serving, eventually};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::ask;
use crate::http::plain_site;
use crate::reload::reload;
use crate::scene::{lockgate, text};

const GET: &str = "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";

/// A Lockgate in front of two origins, which respond with their names.
struct PairScene {
    folder: Folder,
    gate: Lockgate,
    socket: PathBuf,
    origins: [Option<Serving>; 2],
    endpoints: [String; 2],
}

impl PairScene {
    /// `more` are further keys of the pool.
    fn new(more: &str) -> Self {
        let folder = Folder::new();
        let socket = folder.path("admin.sock");
        let origins = ["a", "b"].map(named_origin);
        let endpoints = origins.each_ref().map(|origin| origin.address().to_owned());
        let gate = lockgate()
            .workers(2)
            .start(&configuration(&folder, &endpoints, more));
        Self {
            folder,
            gate,
            socket,
            origins: origins.map(Some),
            endpoints,
        }
    }

    fn post(&self, verb: &str, endpoint: usize, more: Value) -> (u16, Value) {
        let mut body = json!({ "pool": "app", "endpoint": self.endpoints[endpoint] });
        let more = more.as_object().cloned().unwrap_or_default();
        body.as_object_mut().unwrap().extend(more);
        let path = format!("/v1/endpoints/{verb}");
        ask(&self.socket, "POST", &path, &body.to_string())
    }

    fn change(&self, verb: &str, endpoint: usize, more: Value) -> Value {
        let (status, value) = self.post(verb, endpoint, more);
        assert_eq!(status, 200, "{value}");
        value
    }

    /// An endpoint as `/v1/pools` shows it.
    fn shown(&self, endpoint: usize) -> Value {
        ask(&self.socket, "GET", "/v1/pools", "").1["pools"][0]["endpoints"][endpoint].take()
    }

    /// The bodies of this many requests, each on a connection of its own.
    fn bodies(&self, count: usize) -> String {
        (0..count).map(|_| body(&self.gate, "")).collect()
    }

    fn reload(&self, more: &str) {
        self.reload_with(&self.endpoints, more);
    }

    fn reload_with(&self, endpoints: &[String; 2], more: &str) {
        reload(&self.gate, &configuration(&self.folder, endpoints, more));
    }
}

fn named_origin(name: &'static str) -> Serving {
    Origin::tcp().answering(move |_| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{name}").into_bytes()
    })
}

fn configuration(folder: &Folder, endpoints: &[String; 2], more: &str) -> String {
    format!(
        "admin = \"unix:{}\"\nstate = \"{}\"\n{}[pool.app]\nendpoints = {endpoints:?}\n{more}",
        text(&folder.path("admin.sock")),
        text(&folder.path("state")),
        plain_site("pool:app"),
    )
}

/// The body of a response; `fields` are further lines of the request.
fn body(gate: &Lockgate, fields: &str) -> String {
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET / HTTP/1.1\r\nhost: a.test\r\n{fields}connection: close\r\n\r\n"
    ));
    let answer = client.answer();
    assert_eq!(answer.status(), 200);
    answer.text().to_owned()
}

#[test]
fn no_request_fails_while_an_endpoint_is_drained_and_stopped() {
    let mut scene = PairScene::new("balance = \"round-robin\"\n");
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = scene.gate.address();
    let stopped = scene.origins[0].take().unwrap();
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
        let after = |count: usize| {
            let end = served.load(Ordering::SeqCst) + count;
            eventually("more requests", || {
                (served.load(Ordering::SeqCst) >= end).then_some(())
            });
        };
        after(200);
        assert!(stopped.accepted() > 0);
        let drained = scene.change("drain", 0, json!({ "wait_seconds": 60 }));
        assert_eq!(
            (&drained["in_flight"], &drained["connections"]),
            (&json!(0), &json!(0))
        );
        eventually("no connection at the origin", || {
            (stopped.open() == 0).then_some(())
        });
        let accepted = stopped.accepted();
        after(200);
        assert_eq!(stopped.accepted(), accepted);
        drop(stopped);
        after(200);
        is_over.store(true, Ordering::SeqCst);
    });
    let endpoint = format!("endpoint=\"{}\"", scene.endpoints[0]);
    let up = |endpoint: &str| scene.gate.sample("lockgate_upstream_up", &[endpoint]);
    assert_eq!(up(&endpoint), 0.0);
    assert_eq!(scene.shown(0)["admin"], "drain");
    assert_eq!(scene.shown(0)["errors"], json!({}));
}

#[test]
fn a_drain_waits_for_the_request_in_flight() {
    let folder = Folder::new();
    let slow = Origin::tcp();
    let other = named_origin("b");
    let endpoints = [slow.address(), other.address().to_owned()];
    let gate = lockgate().start(&configuration(
        &folder,
        &endpoints,
        "balance = \"round-robin\"\n",
    ));
    let drain = |seconds: u64| {
        let body =
            json!({ "pool": "app", "endpoint": endpoints[0], "wait_seconds": seconds }).to_string();
        ask(
            &folder.path("admin.sock"),
            "POST",
            "/v1/endpoints/drain",
            &body,
        )
    };
    let mut client = Http::connect(gate.address());
    client.send(GET);
    let mut upstream = slow.http();
    upstream.request();
    let (status, late) = drain(0);
    assert_eq!(
        (status, &late["error"]["code"]),
        (504, &json!("not_drained"))
    );
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drain(60));
        upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlast");
        assert_eq!(client.answer().text(), "last");
        waiting.join().unwrap()
    });
    assert_eq!((waited.0, &waited.1["in_flight"]), (200, &json!(0)));
    // The connection is not kept.
    upstream.expect_end();
}

#[test]
fn a_wait_for_a_drain_ends_where_the_endpoint_is_used_again() {
    let scene = PairScene::new("");
    let (slow, other) = (Origin::tcp(), named_origin("b"));
    let endpoints = [slow.address(), other.address().to_owned()];
    scene.reload_with(&endpoints, "");
    let drain = || {
        let body =
            json!({ "pool": "app", "endpoint": endpoints[0], "wait_seconds": 60, "force": true });
        let body = body.to_string();
        ask(&scene.socket, "POST", "/v1/endpoints/drain", &body)
    };
    let ready = || {
        let body = json!({ "pool": "app", "endpoint": endpoints[0] }).to_string();
        let (status, _) = ask(&scene.socket, "POST", "/v1/endpoints/ready", &body);
        assert_eq!(status, 200);
    };
    let is_drained = || {
        eventually("it is drained", || {
            (scene.shown(0)["admin"] == "drain").then_some(())
        });
    };
    // A request that does not end.
    let other_out = json!({ "pool": "app", "endpoint": endpoints[1] }).to_string();
    ask(&scene.socket, "POST", "/v1/endpoints/drain", &other_out);
    let mut client = Http::connect(scene.gate.address());
    client.send(GET);
    let mut upstream = slow.http();
    upstream.request();
    ask(&scene.socket, "POST", "/v1/endpoints/ready", &other_out);
    let changed = configuration(&scene.folder, &endpoints, "").replace(
        &format!("[{:?}", endpoints[0]),
        &format!("[{{ addr = {:?}, weight = 2 }}", endpoints[0]),
    );
    let ends: [(&str, &dyn Fn()); 2] = [
        ("ready", &ready),
        ("a reload", &|| reload(&scene.gate, &changed)),
    ];
    for (what, end) in ends {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(drain);
            is_drained();
            end();
            let (status, answer) = waiting.join().unwrap();
            assert_eq!(
                (status, &answer["error"]["code"]),
                (409, &json!("no_longer_drained")),
                "{what}"
            );
        });
        assert_eq!(scene.shown(0)["admin"], Value::Null, "{what}");
    }
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlast");
    assert_eq!(client.answer().text(), "last");
}

#[test]
fn sticky_clients_leave_a_drained_endpoint_and_may_keep_one_of_weight_0() {
    let scene = PairScene::new("balance = { sticky = \"cookie:lg\" }\n");
    let mut client = Http::connect(scene.gate.address());
    client.send(GET);
    let answer = client.answer();
    let cookie = answer.field("set-cookie").unwrap();
    let cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
    let own = usize::from(answer.text() == "b");
    let names = ["a", "b"];
    assert_eq!(body(&scene.gate, &cookie), names[own]);
    scene.change("weight", own, json!({ "weight": 0 }));
    assert_eq!(body(&scene.gate, &cookie), names[own]);
    assert_eq!(scene.bodies(10), names[1 - own].repeat(10));
    scene.change("weight", own, json!({}));
    scene.change("drain", own, json!({}));
    assert_eq!(body(&scene.gate, &cookie), names[1 - own]);
    scene.change("ready", own, json!({}));
    assert_eq!(body(&scene.gate, &cookie), names[own]);
}

/// An origin that holds each request for `/hold` until it is told to answer; all others it answers by
/// its name.
fn holding_origin(name: &'static str) -> (Serving, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let origin = Origin::tcp().answering(move |request| {
        if request.first_line().starts_with("GET /hold ") {
            released.lock().unwrap().recv().unwrap();
        }
        format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{name}").into_bytes()
    });
    (origin, release)
}

#[test]
fn no_queued_request_fails_where_its_endpoint_is_drained() {
    for (balance, is_sticky) in [("{ sticky = \"cookie:lg\" }", true), ("\"least\"", false)] {
        let folder = Folder::new();
        let (first, release) = holding_origin("a");
        let second = named_origin("b");
        let endpoints = [first.address(), second.address()];
        let gate = lockgate().workers(2).start(&format!(
            "admin = \"unix:{}\"\n{}[pool.app]\nendpoints = [{{ addr = \"{}\", max = 1 }}, \"{}\"]\n\
             balance = {balance}\nqueue = {{ wait = \"60s\" }}\n",
            text(&folder.path("admin.sock")),
            plain_site("pool:app"),
            endpoints[0],
            endpoints[1],
        ));
        let change = |verb: &str, endpoint: usize| {
            let body = json!({ "pool": "app", "endpoint": endpoints[endpoint] }).to_string();
            let path = format!("/v1/endpoints/{verb}");
            let (status, value) = ask(&folder.path("admin.sock"), "POST", &path, &body);
            assert_eq!(status, 200, "{value}");
        };
        change("drain", 1);
        let mut client = Http::connect(gate.address());
        client.send(GET);
        let answer = client.answer();
        let cookie = answer.field("set-cookie").unwrap_or_default();
        let cookie = cookie.split(';').next().unwrap();
        if is_sticky {
            // Only its cookie keeps a request from the other one.
            change("ready", 1);
        }
        let begin = |path: &str| {
            let mut client = Http::connect(gate.address());
            client.send(format!(
                "GET {path} HTTP/1.1\r\nhost: a.test\r\ncookie: {cookie}\r\n\r\n"
            ));
            client
        };
        let mut held = begin("/hold");
        gate.wait_for_sample("lockgate_upstream_requests_in_flight", &[endpoints[0]], 1.0);
        let mut queued = [(); 3].map(|()| begin("/"));
        gate.wait_for_sample("lockgate_requests_queued", &[], 3.0);
        if !is_sticky {
            change("ready", 1);
        }
        change("drain", 0);
        for client in &mut queued {
            let answer = client.answer();
            assert_eq!((answer.status(), answer.text()), (200, "b"), "{balance}");
        }
        release.send(()).unwrap();
        assert_eq!(held.answer().text(), "a");
    }
}

#[test]
fn weights_hold_until_the_configured_one_is_set_again() {
    let scene = PairScene::new("balance = \"round-robin\"\n");
    let set = scene.change("weight", 0, json!({ "weight": 4 }));
    assert_eq!(
        (&set["weight"], &set["weight_configured"]),
        (&json!(4), &json!(1))
    );
    let share = |bodies: &str| bodies.matches('a').count();
    assert_eq!(share(&scene.bodies(20)), 16);
    let shown = scene.shown(0);
    assert_eq!(
        (&shown["weight"], &shown["weight_configured"]),
        (&json!(4), &json!(1))
    );
    scene.change("weight", 0, json!({}));
    assert_eq!(share(&scene.bodies(20)), 10);
    for weight in [json!(257), json!(-1), json!("2"), json!(1.5)] {
        let (status, refused) = scene.post("weight", 0, json!({ "weight": weight }));
        assert_eq!(
            (status, &refused["error"]["code"]),
            (422, &json!("out_of_range"))
        );
        assert_eq!(refused["error"]["cure"], "it is from 0 to 256");
    }
}

#[test]
fn backups_serve_while_all_others_have_weight_0() {
    let folder = Folder::new();
    let origins = ["a", "b"].map(named_origin);
    for balance in ["p2c", "least", "round-robin"] {
        let socket = folder.path(&format!("{balance}.sock"));
        let gate = lockgate().start(&format!(
            "admin = \"unix:{}\"\n{}[pool.app]\nendpoints = [\"{}\", {{ addr = \"{}\", backup = true }}]\nbalance = \"{balance}\"\n",
            text(&socket),
            plain_site("pool:app"),
            origins[0].address(),
            origins[1].address(),
        ));
        assert_eq!(body(&gate, ""), "a");
        let set = json!({ "pool": "app", "endpoint": origins[0].address(), "weight": 0 });
        let (status, _) = ask(&socket, "POST", "/v1/endpoints/weight", &set.to_string());
        assert_eq!(status, 200);
        assert_eq!(body(&gate, ""), "b", "{balance}");
    }
}

#[test]
fn health_checks_pause_in_maintenance() {
    let mut scene = PairScene::new("health = { tcp = true, every = \"100ms\" }\n");
    eventually("the first check", || {
        scene.shown(0)["check"]["ago_seconds"].as_f64()
    });
    scene.change("maintenance", 0, json!({}));
    assert_eq!(scene.bodies(4), "bbbb");
    drop(scene.origins[0].take());
    eventually("no check for many intervals", || {
        let age = scene.shown(0)["check"]["ago_seconds"].as_f64();
        age.filter(|age| *age > 1.0)
    });
    let paused = scene.shown(0);
    assert_eq!(
        (&paused["admin"], &paused["state"]),
        (&json!("maintenance"), &json!("up"))
    );
    scene.change("ready", 0, json!({}));
    eventually("the checks find it down", || {
        (scene.shown(0)["state"] == "down").then_some(())
    });
}

#[test]
fn the_last_endpoint_is_taken_out_by_force_only() {
    let scene = PairScene::new("");
    scene.change("drain", 0, json!({}));
    // Once more is no mistake.
    scene.change("drain", 0, json!({}));
    for (verb, more) in [
        ("drain", json!({})),
        ("maintenance", json!({})),
        ("weight", json!({ "weight": 0 })),
    ] {
        let (status, refused) = scene.post(verb, 1, more);
        assert_eq!(
            (status, &refused["error"]["code"]),
            (409, &json!("last_endpoint")),
            "{verb}"
        );
    }
    assert_eq!(scene.bodies(2), "bb");
    scene.change("drain", 1, json!({ "force": true }));
    let mut client = Http::connect(scene.gate.address());
    client.send(GET);
    assert_eq!(client.answer().status(), 503);
    scene.change("ready", 0, json!({}));
    assert_eq!(scene.bodies(2), "aa");
}

#[test]
fn unknown_names_are_answered_with_the_nearest_ones() {
    let scene = PairScene::new("");
    let post = |body: Value| {
        let body = body.to_string();
        let (status, answer) = ask(&scene.socket, "POST", "/v1/endpoints/drain", &body);
        (status, answer["error"]["cure"].as_str().unwrap().to_owned())
    };
    let (status, cure) = post(json!({ "pool": "ap", "endpoint": scene.endpoints[0] }));
    assert_eq!((status, cure.as_str()), (404, "the nearest names are app"));
    let (status, cure) = post(json!({ "pool": "app", "endpoint": "127.0.0.1:1" }));
    assert_eq!(status, 404);
    assert!(cure.contains(&scene.endpoints[1]), "{cure}");
    assert_eq!(post(json!({ "pool": "app" })).0, 422);
    assert_eq!(post(json!({})).0, 422);
}

#[test]
fn changes_survive_a_reload_that_leaves_the_endpoint_alone() {
    let scene = PairScene::new("");
    scene.change("drain", 0, json!({}));
    scene.change("weight", 1, json!({ "weight": 7 }));
    // The same pool, and then another one of its name with the same endpoints.
    for more in ["", "retry = { times = 3 }\n"] {
        scene.reload(more);
        assert_eq!(scene.shown(0)["admin"], "drain");
        assert_eq!(scene.shown(1)["weight"], 7);
        assert_eq!(scene.bodies(4), "bbbb");
    }
    // Other settings of the endpoints are another word of the operator.
    let [first, second] = &scene.endpoints;
    let changed = format!(
        "admin = \"unix:{}\"\n{}[pool.app]\nendpoints = [{{ addr = \"{first}\", weight = 2 }}, \"{second}\"]\n",
        text(&scene.socket),
        plain_site("pool:app"),
    );
    reload(&scene.gate, &changed);
    let shown = scene.shown(0);
    assert_eq!(
        (&shown["admin"], &shown["weight"]),
        (&Value::Null, &json!(2))
    );
    assert_eq!(scene.shown(1)["weight"], 7);
}

#[test]
fn kept_changes_hold_after_the_next_start() {
    let scene = PairScene::new("");
    let kept = scene.change("drain", 0, json!({ "keep": true }));
    assert_eq!(kept["kept"], true);
    scene.change("weight", 1, json!({ "weight": 9 }));
    let PairScene {
        folder,
        gate,
        socket,
        origins,
        endpoints,
    } = scene;
    gate.stop();
    let file = folder.path("state/admin.json");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(
        written,
        json!({
            "version": 1,
            "endpoints": [{ "pool": "app", "endpoint": endpoints[0], "admin": "drain", "weight": null }],
        })
    );
    let gate = lockgate().start(&configuration(&folder, &endpoints, ""));
    gate.says("a kept change holds");
    let scene = PairScene {
        folder,
        gate,
        socket,
        origins,
        endpoints,
    };
    assert_eq!(scene.shown(0)["admin"], "drain");
    assert_eq!(scene.shown(1)["weight"], 1);
    assert_eq!(scene.bodies(4), "bbbb");
    let ready = scene.change("ready", 0, json!({}));
    assert_eq!(
        (&ready["kept_otherwise"], &ready["next_start"]),
        (&json!(true), &json!({ "admin": "drain", "weight": null }))
    );
    let ready = scene.change("ready", 0, json!({ "keep": true }));
    assert_eq!(
        (
            &ready["kept"],
            &ready["kept_otherwise"],
            &ready["next_start"]
        ),
        (&json!(true), &json!(false), &Value::Null)
    );
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["endpoints"], json!([]));
}

#[test]
fn a_start_warns_of_kept_changes_that_leave_a_pool_without_endpoints() {
    let scene = PairScene::new("");
    for endpoint in [0, 1] {
        scene.change("drain", endpoint, json!({ "keep": true, "force": true }));
    }
    scene.gate.stop();
    let gate = lockgate().start(&configuration(&scene.folder, &scene.endpoints, ""));
    gate.says("by kept changes the pool has no endpoint that can be used");
}

#[test]
fn a_change_that_waits_for_the_disk_holds_up_nothing_else() {
    let scene = PairScene::new("");
    let file = scene.folder.path("state/admin.json");
    // Its reader waits for a writer.
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let drain = json!({ "pool": "app", "endpoint": scene.endpoints[0], "keep": true }).to_string();
    let socket = &scene.socket;
    std::thread::scope(|scope| {
        let kept = scope.spawn(|| ask(socket, "POST", "/v1/endpoints/drain", &drain));
        eventually("it is drained", || {
            (scene.shown(0)["admin"] == "drain").then_some(())
        });
        assert_eq!(ask(&scene.socket, "GET", "/v1/status", "").0, 200);
        let mut writer = std::fs::File::create(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        writer
            .write_all(b"{ \"version\": 1, \"endpoints\": [] }")
            .unwrap();
        drop(writer);
        let (status, kept) = kept.join().unwrap();
        assert_eq!((status, &kept["kept"]), (200, &json!(true)));
    });
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["endpoints"][0]["admin"], "drain");
}

#[test]
fn a_broken_file_of_kept_changes_is_told_and_not_taken_up() {
    let (folder, origin) = (Folder::new(), named_origin("a"));
    std::fs::create_dir(folder.path("state")).unwrap();
    std::fs::write(folder.path("state/admin.json"), "{ half").unwrap();
    let endpoints = [origin.address().to_owned(), "127.0.0.1:9".to_owned()];
    let gate = lockgate().start(&configuration(&folder, &endpoints, ""));
    gate.says("the kept run-time changes are not taken up");
    let change = json!({ "pool": "app", "endpoint": endpoints[1], "keep": true }).to_string();
    let (status, answer) = ask(
        &folder.path("admin.sock"),
        "POST",
        "/v1/endpoints/drain",
        &change,
    );
    // The change holds all the same.
    assert_eq!(
        (status, &answer["error"]["code"]),
        (500, &json!("not_kept"))
    );
    assert_eq!(body(&gate, ""), "a");
}

#[test]
fn the_command_line_changes_endpoints() {
    let scene = PairScene::new("");
    let run = |words: &[&str]| {
        let file = text(&scene.gate.configuration());
        let with_file = words.iter().copied().chain(["-c", &file]);
        lockgate().run(&with_file.collect::<Vec<_>>())
    };
    let [first, second] = scene.endpoints.each_ref().map(|one| format!("app/{one}"));
    for (words, says) in [
        (&["drain", &first, "--wait"][..], "is drained: no request"),
        (&["weight", &first, "3"], "has the weight 3 (configured: 1)"),
        (&["ready", &first, "--keep"], "the next start takes this up"),
        (
            &["weight", &first, "4"],
            "the next start sets it to ready with the weight 3: use --keep",
        ),
        (&["maintenance", &second], "is in maintenance"),
    ] {
        let ended = run(&[&["endpoint"], words].concat());
        assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
        assert!(ended.stdout.contains(says), "{words:?}: {}", ended.stdout);
    }
    let listed = run(&["endpoints"]).stdout;
    for text in ["maintenance", "4 (of 1)"] {
        assert!(listed.contains(text), "{text}: {listed}");
    }
    let refused = run(&["endpoint", "drain", &first]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(run(&["endpoint", "drain", "app"]).code, Some(2));
}
