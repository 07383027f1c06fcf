//! The access log, followed while it happens.

use std::process::{Command, Stdio};

use lockgate_testkit::{Folder, Http, Lockgate, Origin, Serving, Wire, eventually};
use serde_json::{Value, json};

use super::ask;
use crate::http::plain_site;
use crate::scene::{lockgate, plain, text};

/// As many as may follow at once.
const MOST: usize = 8;

/// A site that responds with the status that is asked for, and a relay.
struct TailScene {
    folder: Folder,
    gate: Lockgate,
    _origin: Serving,
    _echo: Serving,
}

/// A reader of the access log.
struct Follower(Http);

impl TailScene {
    fn new(more: &str) -> Self {
        let (folder, echo) = (Folder::new(), Origin::tcp().echo());
        let origin = Origin::tcp().answering(|request| {
            let line = request.first_line().to_owned();
            let status = line.split('/').nth(1).unwrap_or_default();
            let status = status.split(' ').next().unwrap_or_default();
            format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok").into_bytes()
        });
        let relay = plain(echo.address()).replace("127.0.0.1:0", "127.0.0.2:0");
        let toml = format!(
            "admin = \"unix:{}\"\n{more}{}{relay}",
            text(&folder.path("admin.sock")),
            plain_site(origin.address()),
        );
        Self {
            gate: lockgate().workers(2).start(&toml),
            folder,
            _origin: origin,
            _echo: echo,
        }
    }

    /// Follows the lines that a query chooses, from now on.
    fn follow(&self, query: &str) -> Follower {
        let mut client = Http::over(Wire::connect_unix(&self.folder.path("admin.sock")));
        client.send(format!(
            "GET /v1/tail{query} HTTP/1.1\r\nhost: lockgate\r\n\r\n"
        ));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("application/x-ndjson"), "{head}");
        Follower(client)
    }

    fn get(&self, status: u16) {
        let mut client = Http::connect(self.gate.at("127.0.0.1:0"));
        client.send(format!("GET /{status} HTTP/1.1\r\nhost: a.test\r\n\r\n"));
        assert_eq!(client.answer().status(), status);
    }
}

impl Follower {
    /// The next lines.
    fn lines(&mut self) -> Vec<Value> {
        let chunk = self.0.chunk().expect("the stream goes on");
        let lines = chunk
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    fn line(&mut self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }
}

#[test]
fn a_tail_shows_each_exchange_although_the_access_log_is_off() {
    let scene = TailScene::new("access_log = false\n");
    // A tail shows what has ended since it began.
    let mut earlier = scene.follow("");
    scene.get(201);
    assert_eq!(earlier.line()["status"], 201);
    let mut follower = scene.follow("");
    scene.get(202);
    let line = follower.line();
    assert_eq!(
        (&line["status"], &line["target"]),
        (&json!(202), &json!("/202"))
    );
    assert_eq!(
        (&line["site"], &line["client"]),
        (&json!(":0"), &json!("127.0.0.1"))
    );
    drop(Wire::connect(scene.gate.at("127.0.0.2:0")).exchange("word"));
    assert_eq!(follower.line()["listener"], "127.0.0.2:0");
}

#[test]
fn a_tail_shows_what_a_sample_and_a_site_leave_out() {
    let folder = Folder::new();
    let log = text(&folder.path("access.log"));
    let scene = TailScene::new(&format!(
        "access_log = {{ to = \"{log}\", sample = \"1%\", mask_ip = true }}\n"
    ));
    let mut follower = scene.follow("");
    scene.get(200);
    let line = follower.line();
    assert_eq!(
        (&line["client"], &line["client_port"]),
        (&json!("127.0.0.0"), &Value::Null)
    );
    scene.get(500);
    eventually("the failed one is logged", || {
        let written = std::fs::read_to_string(&log).unwrap();
        (written.lines().count() == 1).then_some(())
    });
}

#[test]
fn a_tail_shows_only_what_its_query_chooses() {
    let scene = TailScene::new("");
    let mut followers: Vec<_> = [
        "?status=5xx&status=404",
        "?site=%3A0&client=127.0.0.0/8&listener=127.0.0.1%3A0&status=503",
        "?cause=client_closed",
        "?slower_than=0&status=503",
    ]
    .map(|query| scene.follow(query))
    .into();
    for query in [
        "?site=none",
        "?client=10.0.0.1",
        "?slower_than=3600",
        "?cause=internal",
    ] {
        followers.push(scene.follow(query));
    }
    for status in [200, 404, 503] {
        scene.get(status);
    }
    drop(Wire::connect(scene.gate.at("127.0.0.2:0")).exchange("word"));
    let mut statuses = Vec::new();
    while statuses.len() < 2 {
        statuses.extend(
            followers[0]
                .lines()
                .iter()
                .map(|line| line["status"].clone()),
        );
    }
    statuses.sort_by_key(Value::as_u64);
    assert_eq!(statuses, [404, 503]);
    assert_eq!(followers[1].line()["status"], 503);
    assert_eq!(followers[2].line()["listener"], "127.0.0.2:0");
    assert_eq!(followers[3].line()["status"], 503);
    // Nothing was chosen by the others: the end of the process is the next that they see.
    let TailScene { gate, .. } = scene;
    drop(gate);
    for follower in &mut followers[4..] {
        assert!(follower.0.rest().is_empty());
    }
}

#[test]
fn tails_are_few_and_free_their_place_when_they_leave() {
    let scene = TailScene::new("");
    let socket = scene.folder.path("admin.sock");
    let mut followers: Vec<_> = (0..MOST).map(|_| scene.follow("")).collect();
    let (status, refused) = ask(&socket, "GET", "/v1/tail", "");
    assert_eq!(
        (status, &refused["error"]["code"]),
        (503, &json!("too_many_tails"))
    );
    followers.pop();
    eventually("the place is free", || {
        let mut client = Http::over(Wire::connect_unix(&socket));
        client.send("GET /v1/tail HTTP/1.1\r\nhost: lockgate\r\n\r\n");
        client.head().starts_with("HTTP/1.1 200").then_some(())
    });
    for (method, query, status, code) in [
        ("POST", "", 405, "wrong_method"),
        ("GET", "?status=x", 400, "bad_query"),
        ("GET", "?cause=x", 400, "bad_query"),
        ("GET", "?colour=red", 400, "bad_query"),
    ] {
        let (got, refused) = ask(&socket, method, &format!("/v1/tail{query}"), "");
        assert_eq!(
            (got, &refused["error"]["code"]),
            (status, &json!(code)),
            "{method} {query}"
        );
    }
}

#[test]
fn a_reader_that_stops_to_read_costs_lines_and_no_request() {
    let scene = TailScene::new("access_log = false\n");
    let mut follower = scene.follow("");
    // A long target fills the buffers of the socket and of the workers soon.
    let long = "x".repeat(4_000);
    let mut client = Http::connect(scene.gate.at("127.0.0.1:0"));
    let sent = 600;
    for _ in 0..sent {
        client.send(format!("GET /200/{long} HTTP/1.1\r\nhost: a.test\r\n\r\n"));
        assert_eq!(client.answer().status(), 200);
    }
    let (mut kept, mut lost) = (0, 0);
    while kept + lost < sent {
        for line in follower.lines() {
            match line["lost"].as_u64() {
                Some(more) => lost += more,
                None => kept += 1,
            }
        }
    }
    assert_eq!(kept + lost, sent);
    assert!(lost > 0 && kept > 0, "{kept} kept, {lost} lost");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_command_well() {
    let scene = TailScene::new("");
    let file = text(&scene.gate.configuration());
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockgate"))
        .args(["tail", "-c", &file])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(command.stdout.take());
    // The first line finds no reader.
    let ended = eventually("the end of the command", || {
        scene.get(200);
        command.try_wait().unwrap()
    });
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn the_command_follows_until_the_process_ends() {
    let scene = TailScene::new("");
    let file = text(&scene.gate.configuration());
    let refused = lockgate().run(&["tail", "--cause", "none", "-c", &file]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("there is no cause"),
        "{}",
        refused.stderr
    );
    let command = |more: &[&str]| {
        lockgate().command(&[&["tail", "--status", "5xx", "-c", &file], more].concat())
    };
    let (people, programs) = (command(&[]), command(&["--json"]));
    let shown = eventually("a line of both", || {
        scene.get(503);
        let _programs = programs.stdout().text().lines().next()?;
        people.stdout().text().lines().next().map(str::to_owned)
    });
    for text in ["127.0.0.1 GET http://a.test/503 503", "endpoint=127.0.0.1:"] {
        assert!(shown.contains(text), "{shown}");
    }
    programs
        .stdout()
        .find_json("a line of JSON", |line| line["status"] == 503);
    let TailScene { gate, .. } = scene;
    gate.stop();
    for command in [people, programs] {
        let ended = command.ended();
        assert_eq!(ended.code, Some(1));
        let why = "the server has ended the log";
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
}
