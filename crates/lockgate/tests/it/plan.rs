//! `plan`: what a changed configuration changes, and what the requests of an access log would meet.

use lockgate_testkit::{Folder, Http, RunResult};
use serde_json::{Value, json};

use crate::scene::{lockgate, text};

const BEFORE: &str = "[site.\"a.test:8080\"]\nrespond = \"a\"\n\
     [site.\"a.test:8080\".path.\"/api/*\"]\nproxy = \"127.0.0.1:9\"\n\
     [site.\"a.test:8080\".path.\"/private/*\"]\nrespond = \"p\"\nallow = [\"10.0.0.0/8\"]\n\
     [site.\"old.test:8081\"]\nrespond = 404\n";
const AFTER: &str = "[site.\"a.test:8080\"]\nrespond = \"a\"\n\
     [site.\"a.test:8080\".path.\"/api/*\"]\nproxy = \"pool:api\"\n\
     [site.\"a.test:8080\".path.\"/api/v2/*\"]\nredirect = \"/v2/{*}\"\n\
     [site.\"a.test:8080\".path.\"/private/*\"]\nrespond = \"p\"\n\
     [site.\"new.test:8082\"]\nrespond = 404\n[pool.api]\nendpoints = [\"127.0.0.1:9\"]\n";

struct Plan {
    folder: Folder,
    arguments: Vec<String>,
}

impl Plan {
    /// The plan of two configurations.
    fn of(before: &str, after: &str) -> Self {
        let folder = Folder::new();
        let [before, after] = [("before.toml", before), ("after.toml", after)]
            .map(|(name, toml)| text(&folder.write(name, toml)));
        let arguments = ["plan", "-c", &after, "--from", &before].map(str::to_owned);
        Self {
            arguments: arguments.into(),
            folder,
        }
    }

    /// The same with the requests of a log.
    fn log(mut self, lines: impl AsRef<[u8]>) -> Self {
        let file = text(&self.folder.write("access.log", lines));
        self.arguments.extend(["--log".to_owned(), file]);
        self
    }

    fn run(&self, more: &[&str]) -> RunResult {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        lockgate().run(&[&arguments, more].concat())
    }

    fn json(&self) -> Value {
        let ended = self.run(&["--json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

/// A line of an access log.
fn request(client: &str, method: &str, host: &str, target: &str) -> Value {
    json!({
        "time": "2026-11-28T12:03:07.114Z", "listener": "a.test:8080", "client": client,
        "method": method, "scheme": "http", "host": host, "target": target, "status": 200,
        "received_bytes": 0,
    })
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn plan_lists_tables_keys_and_listeners_that_change() {
    let ended = Plan::of(BEFORE, AFTER).run(&[]);
    assert_eq!(
        ended.stdout,
        "~ site a.test:8080, path /api/*\n    proxy: \"127.0.0.1:9\" -> \"pool:api\"\n\
         + site a.test:8080, path /api/v2/*\n    redirect = \"/v2/{*}\"\n\
         ~ site a.test:8080, path /private/*\n    - allow = [\"10.0.0.0/8\"]\n\
         + site new.test:8082\n    respond = 404\n- site old.test:8081\n    respond = 404\n\
         + pool api\n    endpoints = [\"127.0.0.1:9\"]\n\
         + listener :8082\n- listener :8081",
        "{}",
        ended.stderr
    );
    assert_eq!(Plan::of(BEFORE, AFTER).run(&["--strict"]).code, Some(2));
    let same = Plan::of(BEFORE, BEFORE).run(&["--strict"]);
    assert_eq!(same.code, Some(0));
    assert!(same.stdout.ends_with("say the same"), "{}", same.stdout);
}

#[test]
fn plan_says_which_requests_of_a_log_would_meet_something_else() {
    let log = lines(&[
        request("10.0.0.1", "GET", "a.test:8080", "/"),
        request("10.0.0.1", "GET", "a.test:8080", "/private/x"),
        request("192.0.2.1", "GET", "a.test:8080", "/private/x"),
        request("192.0.2.1", "GET", "a.test:8080", "/api/v1"),
        request("192.0.2.1", "GET", "a.test:8080", "/api/v2/1"),
        request("192.0.2.1", "POST", "a.test:8080", "/api/v2/2?x"),
    ]);
    let plan = Plan::of(BEFORE, AFTER).log(&log);
    let log = &plan.json()["log"];
    assert_eq!(
        (&log["requests"], &log["different"]),
        (&json!(6), &json!(4))
    );
    let differences = log["differences"].as_array().unwrap().iter();
    let differences: Vec<_> = differences
        .map(|one| {
            let samples = one["samples"].clone();
            (
                one["requests"].clone(),
                one["before"]["text"].clone(),
                one["after"]["text"].clone(),
                samples,
            )
        })
        .collect();
    let at = "a.test:8080";
    assert_eq!(
        differences,
        [
            (
                json!(2),
                json!(format!("{at} /api/* proxied to 127.0.0.1:9")),
                json!(format!("{at} /api/v2/* responded 308")),
                json!([
                    "GET http://a.test:8080/api/v2/1, to /v2/1",
                    "POST http://a.test:8080/api/v2/2?x, to /v2/2?x"
                ]),
            ),
            (
                json!(1),
                json!(format!("{at} /api/* proxied to 127.0.0.1:9")),
                json!(format!("{at} /api/* proxied to api")),
                json!(["GET http://a.test:8080/api/v1"]),
            ),
            (
                json!(1),
                json!(format!("{at} /private/* refused 403")),
                json!(format!("{at} /private/* responded 200")),
                json!(["GET http://a.test:8080/private/x"]),
            ),
        ]
    );
    assert_eq!(plan.run(&["--strict"]).code, Some(2));
    // Another table alone is no difference for these requests.
    let other = format!("{BEFORE}[pool.unused]\nendpoints = [\"127.0.0.1:9\"]\n");
    let plan =
        Plan::of(BEFORE, &other).log(lines(&[request("10.0.0.1", "GET", "a.test:8080", "/")]));
    assert_eq!(plan.run(&["--strict"]).code, Some(0));
}

#[test]
fn plan_compares_where_a_redirect_leads_to() {
    let site = |to: &str| format!("[site.\":8080\"]\nredirect = \"https://{to}{{path}}\"\n");
    let log = lines(&[
        request("10.0.0.1", "GET", "a.test", "/x"),
        request("10.0.0.1", "GET", "a.test", "/y"),
    ]);
    let plan = Plan::of(&site("one.test"), &site("two.test"))
        .log(log)
        .json();
    assert_eq!(
        plan["log"]["differences"][0]["samples"],
        json!([
            "GET http://a.test/x, to https://two.test/x, not to https://one.test/x",
            "GET http://a.test/y, to https://two.test/y, not to https://one.test/y"
        ])
    );
    assert_eq!(plan["log"]["differences"].as_array().unwrap().len(), 1);
}

#[test]
fn lines_of_a_log_that_are_no_requests_are_counted() {
    let mut cut = request("10.0.0.1", "GET", "a.test:8080", "/private/long…");
    cut["user"] = json!("me");
    let log = [
        lines(&[
            request("10.0.0.1", "GET", "a.test:8080", "/"),
            json!({ "listener": ":1", "client": "10.0.0.1", "received_bytes": 3 }),
            cut,
            request("10.0.0.1", "GET", "a.test:8080", "/a b"),
        ]),
        "{\"listener\":\"a.test:8080\",\"meth\n".to_owned(),
        format!("{{\"listener\":\"{}\"}}\n", "x".repeat(300_000)),
        "\n".to_owned(),
        lines(&[request("10.0.0.1", "GET", "a.test:8080", "/")]),
    ]
    .concat();
    let log = &Plan::of(BEFORE, BEFORE).log(log).json()["log"];
    let counts = [
        "requests",
        "different",
        "connections",
        "incomplete",
        "unreadable",
    ];
    assert_eq!(
        counts.map(|name| log[name].as_u64().unwrap()),
        [2, 0, 1, 2, 2]
    );
    assert_eq!(log["first_unreadable"]["line"], 5);
}

#[test]
fn a_log_of_another_kind_is_an_error() {
    for (log, message) in [
        (
            &b"127.0.0.1 - - [28/Nov/2026:12:03:07 +0000] \"GET / HTTP/1.1\" 200 5\n"[..],
            "is no access log",
        ),
        (b"\x1f\x8b\x08\x00\x00", "is compressed: write `zcat "),
        (b"\x28\xb5\x2f\xfd\x00", "is compressed: write `zstdcat "),
        (
            b"{\"level\":\"info\",\"message\":\"x\"}\n",
            "is no access log",
        ),
    ] {
        let ended = Plan::of(BEFORE, AFTER).log(log).run(&[]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
    let plan = Plan::of(BEFORE, AFTER);
    let ended = plan.run(&["--log", &text(&plan.folder.path("none.log"))]);
    assert!(
        ended.stderr.contains("none.log cannot be opened"),
        "{}",
        ended.stderr
    );
}

#[test]
fn plan_compares_with_the_configuration_that_runs_and_its_log() {
    let folder = Folder::new();
    let socket = text(&folder.path("admin.sock"));
    let log = text(&folder.path("access.log"));
    let toml = |rest: &str| {
        format!(
            "admin = \"unix:{socket}\"\naccess_log = {{ to = \"{log}\" }}\n\
             [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"here\"\n\
             [site.\":0\".path.\"/x/*\"]\nrespond = 404\n{rest}"
        )
    };
    let gate = lockgate().start(&toml(""));
    let mut client = Http::connect(gate.address());
    for path in ["/x/1", "/", "/x/2"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client.answer();
    }
    // A drained Lockgate has written its log.
    let file = text(&folder.write("new.toml", toml("headers = { a = \"b\" }\n")));
    let arguments = ["plan", "-c", &file, "--admin", &format!("unix:{socket}")];
    let ended = lockgate().run(&arguments);
    // The keys at the top that all tests have come before.
    assert!(
        ended
            .stdout
            .ends_with("\n~ site :0, path /x/*\n    + headers = { a = \"b\" }"),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    assert_eq!(gate.stop().code, Some(0));
    let before = text(&folder.write("old.toml", toml("")));
    let file = text(&folder.write("new.toml", toml("").replace("/x/*", "/y/*")));
    let ended = lockgate().run(&["plan", "-c", &file, "--from", &before, "--log", &log]);
    assert!(
        ended
            .stdout
            .contains("2 of 3 requests (66.67 %) would meet something else")
            && ended
                .stdout
                .contains(":0 /x/* responded 404\n        -> :0 /* responded 200"),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    // The socket is gone.
    let ended = lockgate().run(&arguments);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
}
