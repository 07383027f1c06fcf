//! `explain`: what it says about a request, and that the same happens to the request when it is sent.

mod live_requests;

use std::fmt::Write as _;

use lockgate_testkit::{Folder, Http, Lockgate, Message, Origin, RunResult, Serving};
use serde_json::{Value, json};

use crate::admin::ask;
use crate::scene::{Site, lockgate, text};

fn explain(toml: &str, arguments: &[&str]) -> RunResult {
    let folder = Folder::new();
    let file = text(&folder.write("lockgate.toml", toml));
    lockgate().run(&[&["explain", "-c", &file], arguments].concat())
}

fn explained(toml: &str, arguments: &[&str]) -> Value {
    let ended = explain(toml, &[arguments, &["--json"]].concat());
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// A site with routes of every kind, and another one beside it.
const SITES: &str = "[site.\":8080\"]\nproxy = \"10.0.0.1:80\"\n\
     [site.\":8080\".path.\"/api/*\"]\nproxy = \"pool:api\"\nstrip_prefix = true\n\
     request_headers = { x-new = \"{path}\", accept = false }\n\
     [site.\":8080\".path.\"POST /api/{id}\"]\nrespond = 201\n\
     [site.\":8080\".path.\"/old/{id}\"]\nredirect = \"/new/{id}\"\n\
     [site.\":8080\".path.\"/inner/*\"]\nrespond = \"inner\"\nallow = [\"10.0.0.0/8\"]\n\
     [site.\"*.b.test:8080\"]\nrespond = 404\n\
     [pool.api]\nendpoints = [\"10.0.0.2:80\", \"10.0.0.3:80\"]\n";

#[test]
fn explain_shows_site_and_route_with_their_lines_and_why_no_other() {
    let said = explained(SITES, &["http://a.test:8080/api/7"]);
    assert_eq!(said["listener"]["name"], ":8080");
    assert_eq!(said["site"]["name"], ":8080");
    let line = |value: &Value| {
        let at = value["at"].as_str().unwrap();
        at.rsplit(':').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((line(&said["site"]), line(&said["route"])), (1, 3));
    assert_eq!(
        (&said["route"]["path"], &said["route"]["method"]),
        (&json!("/api/*"), &Value::Null)
    );
    let lost: Vec<_> = said["lost_routes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lost| {
            (
                lost["path"].as_str().unwrap(),
                lost["because"].as_str().unwrap(),
                line(lost),
            )
        })
        .collect();
    assert_eq!(
        lost,
        [
            ("/inner/*", "another path", 11),
            ("/old/{id}", "another path", 9),
            ("/api/{id}", "another method", 7),
            ("/*", "less specific", 1),
        ]
    );
    assert_eq!(said["lost_sites"][0]["because"], "another host");
    let said = explained(SITES, &["http://x.b.test:8080/"]);
    assert_eq!(said["site"]["name"], "*.b.test:8080");
    assert_eq!(said["lost_sites"][0]["because"], "* is less specific");
}

#[test]
fn explain_shows_the_head_that_the_endpoint_gets() {
    let said = explained(
        SITES,
        &[
            "http://a.test:8080/api/7?q=1",
            "-H",
            "Accept: text/html",
            "-H",
            "Cookie: a=1",
        ],
    );
    let outcome = &said["outcome"];
    assert_eq!(
        (&outcome["kind"], &outcome["to"]["pool"]),
        (&json!("proxied"), &json!("api"))
    );
    assert_eq!(
        outcome["to"]["endpoints"],
        json!(["10.0.0.2:80", "10.0.0.3:80"])
    );
    let sent = &outcome["sent"];
    assert_eq!(
        (&sent["target"], &sent["host"]),
        (&json!("/7?q=1"), &json!("a.test:8080"))
    );
    assert_eq!(sent["removed"], json!(["Accept: text/html"]));
    let added = sent["added"].as_array().unwrap();
    assert!(added.contains(&json!("x-new: /api/7")), "{added:?}");
    assert!(
        added.contains(&json!("X-Forwarded-For: 192.0.2.1")),
        "{added:?}"
    );
    assert!(!added.contains(&json!("Cookie: a=1")), "{added:?}");
}

#[test]
fn explain_shows_refusals_redirects_and_responses() {
    for (arguments, outcome) in [
        (
            &["http://a.test:8080/old/1"][..],
            json!({ "kind": "responded", "status": 308, "location": "/new/1" }),
        ),
        (
            &["-X", "POST", "http://a.test:8080/api/1"],
            json!({ "kind": "responded", "status": 201, "location": null }),
        ),
        (
            &["http://a.test:8080/inner/"],
            json!({ "kind": "refused", "status": 403, "reason": "the client is not allowed", "allow": null }),
        ),
        (
            &["--from", "10.1.2.3", "http://a.test:8080/inner/"],
            json!({ "kind": "responded", "status": 200, "location": null }),
        ),
        (
            &["http://a.test:8080/%ff/..%2finner"],
            json!({ "kind": "refused", "status": 400 }),
        ),
        (
            &["http://a.test:8080/a%2Fb"],
            json!({ "kind": "refused", "status": 400, "reason": "the path is ambiguous, and paths = \"strict\" refuses it", "allow": null }),
        ),
        (
            &[
                "http://a.test:8080/",
                "-H",
                "Host: a.test",
                "-H",
                "Host: b.test",
            ],
            json!({ "kind": "refused", "status": 400, "reason": "Host is given more than once", "allow": null }),
        ),
    ] {
        let said = explained(SITES, arguments);
        let mut told = said["outcome"].clone();
        if outcome.get("reason").is_none() && told["kind"] == "refused" {
            told = json!({ "kind": told["kind"], "status": told["status"] });
        }
        if outcome["status"] == 403 {
            told["reason"] = outcome["reason"].clone();
        }
        assert_eq!(told, outcome, "{arguments:?}");
    }
}

#[test]
fn explain_trusts_x_forwarded_for_as_the_configuration_does() {
    let toml = format!("trusted = [\"10.0.0.0/8\"]\n{SITES}");
    let fields = ["-H", "X-Forwarded-For: 192.0.2.7, 10.0.0.9"];
    for (from, client) in [
        ("10.0.0.1", json!("192.0.2.7")),
        ("192.0.2.1", json!("192.0.2.1")),
    ] {
        let arguments = [&["--from", from, "http://a.test:8080/"][..], &fields].concat();
        assert_eq!(explained(&toml, &arguments)["client"], client);
    }
    let odd = ["-H", "X-Forwarded-For: nobody"];
    let arguments = [&["--from", "10.0.0.1", "http://a.test:8080/"][..], &odd].concat();
    assert_eq!(explained(&toml, &arguments)["client"], Value::Null);
}

#[test]
fn explain_shows_certificates_or_that_one_is_obtained_yet() {
    let site = Site::new();
    let state = site.folder.path("state");
    std::fs::create_dir(&state).unwrap();
    let toml = format!(
        "state = \"{}\"\n[acme]\ndirectory = \"https://127.0.0.1:9/dir\"\n\
         [site.\"app.example.com\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"ok\"\n\
         [site.\"test.example:8443\"]\nlisten = [\"127.0.0.1\"]\ntls = {{ cert = \"{}\" }}\nrespond = \"ok\"\n",
        text(&state),
        site.cert
    );
    let said = explained(&toml, &["https://app.example.com/"]);
    assert_eq!(
        (
            &said["is_awaited"],
            &said["conditions"],
            &said["outcome"]["status"]
        ),
        (
            &json!(true),
            &json!(["the certificate was obtained"]),
            &json!(200)
        )
    );
    let said = explained(&toml, &["https://other.example/"]);
    assert_eq!(said["outcome"]["kind"], "alert");
    let said = explained(&toml, &["https://test.example:8443/"]);
    assert_eq!(
        (&said["is_awaited"], &said["certificates"][0]["path"]),
        (&json!(false), &json!(site.cert))
    );
    // Port 80 redirects to the site.
    let said = explained(&toml, &["http://app.example.com/a?b"]);
    assert_eq!(said["outcome"]["location"], "https://app.example.com/a?b");
}

#[test]
fn explain_shows_the_relay_of_a_listener() {
    let site = Site::new();
    let toml = site.listener("127.0.0.1:8443", "10.0.0.1:80", "");
    let said = explain(&toml, &["https://127.0.0.1:8443/", "--json"]);
    // A relay with TLS.
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let said: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        (&said["outcome"]["kind"], &said["outcome"]["tls"]),
        (&json!("relayed"), &json!(true))
    );
}

#[test]
fn explain_refuses_what_no_client_could_send_and_ports_without_a_listener() {
    for (arguments, told) in [
        (
            &["http://a.test/"][..],
            "no listener has port 80 without TLS",
        ),
        (
            &["https://a.test:8080/"],
            "no listener has port 8080 with TLS",
        ),
        (
            &["http://a.test:8080/", "--listener", ":81"],
            "no listener without TLS is called :81",
        ),
        (&["http://a.test:8080/ /"], "status 400"),
        (&["http://a.test:8080/", "-H", "a b: c"], "status 400"),
        (&["http://a.test:8080/", "-X", "G T"], "status 400"),
        (&["http://a.test:x/"], "a.test:x"),
    ] {
        let ended = explain(SITES, arguments);
        assert_eq!(ended.code, Some(1), "{arguments:?}");
        assert!(
            ended.stderr.contains(told),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
    for arguments in [
        &["ftp://a.test/"][..],
        &["a.test"],
        &["http:///"],
        &["http://a.test:8080/", "-H", "x"],
    ] {
        assert_eq!(explain(SITES, arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn explain_takes_out_what_endpoints_never_get() {
    let toml = "[site.\":8080\"]\nproxy = \"pool:app\"\n\
         auth = { forward = \"10.0.0.9:80\", copy = [\"x-user\"] }\n\
         [pool.app]\nendpoints = [\"10.0.0.1:80\", \"10.0.0.2:80\"]\nbalance = { sticky = \"cookie:lg\" }\n";
    let fields = [
        "X-User: root",
        "Cookie: lg=1; a=b",
        "traceparent: broken",
        "tracestate: a=b",
        "Connection: upgrade",
        "Upgrade: websocket",
        "X-Request-Id: mine",
    ];
    let fields: Vec<_> = fields.iter().flat_map(|field| ["-H", field]).collect();
    let arguments = [&["http://a.test:8080/"][..], &fields].concat();
    let said = explained(toml, &arguments);
    let sent = &said["outcome"]["sent"];
    let has = |list: &str, field: &str| {
        let list = sent[list].as_array().unwrap();
        list.iter()
            .any(|one| one.as_str().unwrap().starts_with(field))
    };
    for gone in [
        "X-User",
        "traceparent",
        "tracestate",
        "Cookie: lg",
        "X-Request-Id: mine",
    ] {
        assert!(
            !has("fields", gone) && has("removed", gone),
            "{gone}: {sent}"
        );
    }
    assert!(has("fields", "Cookie: a=b"), "{sent}");
    assert!(
        !has("removed", "Upgrade") && !has("removed", "Connection"),
        "{sent}"
    );
    // A trusted client names its request.
    let trusted = format!("trusted = [\"192.0.2.1\"]\n{toml}");
    let said = explained(&trusted, &arguments);
    let fields = said["outcome"]["sent"]["fields"].as_array().unwrap();
    assert!(fields.contains(&json!("X-Request-Id: mine")), "{fields:?}");
}

#[test]
fn explain_knows_the_clients_of_unix_sockets() {
    let toml =
        "[site.\"unix:/tmp/never.sock\"]\nproxy = \"10.0.0.1:80\"\nallow = [\"10.0.0.0/8\"]\n";
    let listener = ["--listener", "unix:/tmp/never.sock", "http://a.test/"];
    let forwarded = ["-H", "X-Forwarded-For: 10.0.0.7"];
    let said = explained(toml, &[&listener[..], &forwarded].concat());
    assert_eq!(
        (&said["client"], &said["outcome"]["kind"]),
        (&json!("10.0.0.7"), &json!("proxied"))
    );
}

#[test]
fn explain_prints_text_for_people() {
    let ended = explain(SITES, &["http://a.test:8080/api/7"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for part in [
        "GET http://a.test:8080/api/7 from 192.0.2.1\n",
        "route        /api/*  (",
        "  not        POST /api/{id}: another method  (",
        "outcome      proxied to 10.0.0.2:80, 10.0.0.3:80 (pool api)\n",
        "+ X-Forwarded-For: 192.0.2.1\n",
    ] {
        assert!(ended.stdout.contains(part), "{part:?} in {}", ended.stdout);
    }
}

#[test]
fn explain_names_the_next_endpoint_and_what_is_compared() {
    let toml = "[site.\":8080\"]\nproxy = \"pool:hashed\"\n\
         [site.\":8080\".path.\"/quick\"]\nproxy = \"pool:quick\"\n\
         [site.\":8080\".path.\"/authorized\"]\nproxy = \"pool:hashed\"\n\
         auth = { forward = \"10.0.0.9:80\", copy = [\"X-User\"] }\n\
         [pool.hashed]\nendpoints = [\"10.0.0.1:80\", \"10.0.0.2:80\"]\n\
         balance = { hash = \"header:x-user\" }\n\
         [pool.quick]\nendpoints = [\"10.0.0.3:80\", { addr = \"10.0.0.4:80\", weight = 3 }]\n";
    let mut seen = std::collections::BTreeSet::new();
    for user in 0..16 {
        let field = format!("X-User: {user}");
        let said = explained(toml, &["http://a.test:8080/", "-H", &field]);
        let choice = &said["outcome"]["choice"];
        let score = |at: usize| choice["members"][at]["score"]["hash"].as_f64().unwrap();
        let least = usize::from(score(1) < score(0));
        assert_eq!(choice["next"], choice["members"][least]["endpoint"]);
        assert_eq!(choice["members"][least]["chance"], 1.0);
        seen.insert(least);
    }
    assert_eq!(seen.len(), 2);
    let said = explained(toml, &["http://a.test:8080/quick"]);
    let choice = &said["outcome"]["choice"];
    assert_eq!(
        (&choice["method"], &choice["next"], &choice["live"]),
        (&json!("p2c"), &Value::Null, &json!(false))
    );
    assert_eq!(choice["one_of"], json!(["10.0.0.3:80", "10.0.0.4:80"]));
    let heavy = &choice["members"][1];
    assert!((heavy["chance"].as_f64().unwrap() - 0.75).abs() < 0.03);
    assert_eq!(
        (&heavy["state"], &heavy["weight"], &heavy["score"]),
        (
            &json!("unknown"),
            &json!(3),
            &json!({ "latency_seconds": 0.0 })
        )
    );
    // The service sets the field that the hash is of.
    let said = explained(toml, &["http://a.test:8080/authorized"]);
    let choice = &said["outcome"]["choice"];
    assert_eq!(
        (&choice["next"], &choice["reason"]),
        (
            &Value::Null,
            &json!("it depends on a field that the auth service sets")
        )
    );
}

#[test]
fn explain_shows_in_flight_requests_of_a_running_pool() {
    let folder = Folder::new();
    let (first, second) = (Origin::tcp(), Origin::tcp());
    let gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\n[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:app\"\n\
         [pool.app]\nendpoints = [\"{}\", \"{}\"]\nbalance = \"least\"\n",
        text(&folder.path("admin.sock")),
        first.address(),
        second.address(),
    ));
    let socket = folder.path("admin.sock");
    let body = json!({ "url": "http://127.0.0.1/", "listener": "127.0.0.1:0" }).to_string();
    let choice = || {
        let (status, said) = ask(&socket, "POST", "/v1/explain", &body);
        assert_eq!(status, 200, "{said}");
        said["outcome"]["choice"].clone()
    };
    let mut client = Http::connect(gate.at("127.0.0.1:0"));
    assert_eq!(choice()["next"], first.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // The request is in flight once its endpoint has it.
    let mut served = first.accept();
    served.expect("GET ");
    let busy = choice();
    assert_eq!(
        (&busy["next"], &busy["members"][0]["in_flight"]),
        (&json!(second.address()), &json!(1))
    );
    assert_eq!(busy["members"][0]["score"], json!({ "in_flight": 1.0 }));
}

/// The value and the line of a limit; without a line it is the default.
fn limit(said: &Value, key: &str) -> (String, Option<usize>) {
    let limits = said["limits"].as_array().unwrap();
    let found = limits.iter().find(|limit| limit["key"] == key);
    let found = found.unwrap_or_else(|| panic!("{key}: {limits:?}"));
    let at = found["at"].as_str();
    let line = at.map(|at| at.rsplit(':').next().unwrap().parse().unwrap());
    (found["value"].as_str().unwrap().to_owned(), line)
}

#[test]
fn explain_shows_limits_and_timeouts_with_the_lines_that_set_them() {
    let toml = "timeouts = { head = \"3s\", connect = \"4s\" }\n\
         rates.min_out = \"2KB/s\"\n\
         [site.\":8080\"]\nproxy = \"pool:app\"\nlimit = \"20/s\"\n\
         [site.\":8080\".timeouts]\nresponse = \"2m\"\n\
         [site.\":8080\".path.\"/up/*\"]\nlimit = false\n\
         body = { max = \"10MB\", min_rate = \"5KB/s\" }\n\
         [pool.app]\nendpoints = [\"10.0.0.1:80\"]\nqueue = { wait = \"9s\" }\nretry = false\n";
    let said = explained(toml, &["http://a.test:8080/"]);
    for (key, value, line) in [
        ("timeouts.idle", "75s", None),
        ("timeouts.head", "3s", Some(1)),
        ("timeouts.connect", "4s", Some(1)),
        ("timeouts.response", "2m", Some(7)),
        ("limits.head", "64KB", None),
        ("limit", "20 in 1s per client, burst 20", Some(5)),
        ("body.max", "off", None),
        ("rates.min_in", "1KB/s", None),
        ("rates.min_out", "2KB/s", Some(2)),
        ("queue.max", "1000", None),
        ("queue.wait", "9s", Some(13)),
        ("retry.times", "0", Some(14)),
    ] {
        assert_eq!(limit(&said, key), (value.to_owned(), line), "{key}");
    }
    let said = explained(toml, &["http://a.test:8080/up/1"]);
    for (key, value, line) in [
        ("body.max", "10MB", Some(10)),
        ("body.min_rate", "5KB/s", Some(10)),
        ("timeouts.response", "2m", Some(7)),
    ] {
        assert_eq!(limit(&said, key), (value.to_owned(), line), "{key}");
    }
    let limits = said["limits"].as_array().unwrap();
    assert!(!limits.iter().any(|limit| limit["key"] == "limit"));
    // What is refused reaches no route.
    let said = explained(toml, &["http://a.test:8080/%ff/..%2f"]);
    assert_eq!(limit(&said, "timeouts.head").0, "3s");
    let limits = said["limits"].as_array().unwrap();
    assert!(!limits.iter().any(|limit| limit["key"] == "body.max"));
}

#[test]
fn explain_calls_limits_as_the_reference_does() {
    let reference = include_str!("../../../../docs/config.md");
    let toml = "limits = { requests = 9, per_client = 8 }\n\
         [site.\":8080\"]\nproxy = \"10.0.0.1:80\"\nlimit = \"20/s\"\nshape = \"1MB/s\"\n\
         [tcp.\":8443\"]\nproxy = \"10.0.0.1:80\"\nmax_lifetime = \"1h\"\nshape = \"1MB/s\"\n\
         [tunnel.\":3128\"]\nallow = [\"*:443\"]\nmax_per_client = 9\nmax_per_user = 9\n\
         auth = { basic = \"/dev/null\" }\nforward = true\n\
         max_lifetime = \"1h\"\nmax_bytes = \"1GB\"\nlimit = \"9/s\"\nshape = \"1MB/s\"\n";
    let authorized = "Proxy-Authorization: Basic YTpi";
    let via = ["--via", "http://127.0.0.1:3128", "-H", authorized];
    let mut keys = std::collections::BTreeSet::new();
    for arguments in [
        &["http://a.test:8080/"][..],
        &["https://a.test:8443/"],
        &[&["tcp://a.test:443"][..], &via].concat(),
    ] {
        let said = explained(toml, arguments);
        for limit in said["limits"].as_array().unwrap() {
            keys.insert(limit["key"].as_str().unwrap().to_owned());
        }
    }
    for key in &keys {
        let heading = [format!("`{key}`\n"), format!(".{key}`\n")];
        let is_there = heading.iter().any(|heading| reference.contains(heading));
        assert!(is_there, "{key}");
    }
    assert!(keys.contains("max_per_user") && keys.len() > 25, "{keys:?}");
}

/// A listener that opens tunnels.
const TUNNEL: &str = "[tunnel.\":3128\"]\nforward = true\n\
     allow = [\"*.example.org:443\", \"10.1.0.0/16:22,80\", \"198.51.100.0/24:443\"]\n\
     deny = [\"bad.example.org\", \"10.1.2.0/24\"]\n";

fn explained_via(arguments: &[&str]) -> Value {
    // Other clients need a password.
    let via = ["--via", "http://127.0.0.1:3128", "--from", "127.0.0.1"];
    explained(TUNNEL, &[arguments, &via].concat())
}

#[test]
fn explain_judges_tunnels_by_name_and_address() {
    for (url, outcome) in [
        (
            "tcp://10.1.9.9:22",
            json!({ "kind": "tunnel", "target": "10.1.9.9:22", "addresses": ["10.1.9.9:22"] }),
        ),
        (
            "tcp://10.1.2.9:22",
            json!({ "kind": "refused", "status": 403, "reason": "`deny` matches it", "allow": null }),
        ),
        (
            "tcp://10.1.9.9:23",
            json!({ "kind": "refused", "status": 403, "reason": "`allow` does not match it", "allow": null }),
        ),
        (
            "https://bad.example.org/",
            json!({ "kind": "refused", "status": 403, "reason": "`deny` matches it", "allow": null }),
        ),
        (
            "https://www.example.org/secret",
            json!({ "kind": "tunnel", "target": "www.example.org:443", "addresses": null }),
        ),
        (
            "tcp://www.example.org:25",
            json!({ "kind": "refused", "status": 403, "reason": "`allow` does not match it", "allow": null }),
        ),
    ] {
        let said = explained_via(&[url]);
        assert_eq!(said["outcome"], outcome, "{url}");
        assert_eq!(said["request"]["method"], "CONNECT", "{url}");
    }
}

#[test]
fn explain_names_the_condition_of_a_tunnel_to_an_unresolved_name() {
    let said = explained_via(&["https://www.example.org/"]);
    assert_eq!(
        said["conditions"],
        json!([
            "an address of www.example.org is not in 10.1.2.0/24 of `deny`, \
             and is public, unless `allow` names its network"
        ])
    );
    let said = explained_via(&["tcp://db.test:22"]);
    assert_eq!(
        said["conditions"],
        json!([
            "an address of db.test is in 10.1.0.0/16 of `allow`, and is not in 10.1.2.0/24 of `deny`, \
             and is public, unless `allow` names its network"
        ])
    );
    // The name is looked up: the loopback is not public.
    let toml = "[tunnel.\":3128\"]\nallow = [\"localhost:9\"]\n";
    let arguments = [
        "--via",
        "http://127.0.0.1:3128",
        "--from",
        "127.0.0.1",
        "--resolve",
        "tcp://localhost:9",
    ];
    let said = explained(toml, &arguments);
    assert_eq!(
        (&said["outcome"]["status"], &said["conditions"]),
        (&json!(403), &json!([]))
    );
    let said = explained(&format!("{toml}private = true\n"), &arguments);
    let addresses = said["outcome"]["addresses"].as_array().unwrap();
    assert!(
        addresses.contains(&json!("127.0.0.1:9")) || addresses.contains(&json!("[::1]:9")),
        "{said}"
    );
}

#[test]
fn explain_shows_the_head_of_a_forwarded_request() {
    let said = explained_via(&[
        "http://10.1.9.9/a?b",
        "-H",
        "Proxy-Connection: keep-alive",
        "-H",
        "Accept: text/html",
    ]);
    let outcome = &said["outcome"];
    assert_eq!(
        (
            &outcome["kind"],
            &outcome["target"],
            &said["request"]["method"]
        ),
        (&json!("forwarded"), &json!("10.1.9.9:80"), &json!("GET"))
    );
    assert_eq!(
        (&outcome["sent"]["target"], &outcome["sent"]["host"]),
        (&json!("/a?b"), &json!("10.1.9.9"))
    );
    let fields = outcome["sent"]["fields"].as_array().unwrap();
    assert!(fields.contains(&json!("Accept: text/html")), "{fields:?}");
    for (arguments, told) in [
        (&["tcp://a.test:1"][..], "name its listener by --via"),
        (&["http://a.test:3128/"], "name it by --via"),
    ] {
        let ended = explain(TUNNEL, arguments);
        assert_eq!(ended.code, Some(1), "{arguments:?}");
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
}

#[test]
fn explain_knows_the_addresses_that_a_running_proxy_has_looked_up() {
    let folder = Folder::new();
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\n[tunnel.\"127.0.0.1:0\"]\nallow = [\"localhost:*\"]\nprivate = true\n",
        text(&folder.path("admin.sock"))
    ));
    let port = origin.address().rsplit_once(':').unwrap().1.to_owned();
    let socket = folder.path("admin.sock");
    let body = json!({
        "url": format!("tcp://localhost:{port}"),
        "via": "http://127.0.0.1/",
        "from": "127.0.0.1",
        "listener": "127.0.0.1:0",
    });
    let said = || {
        let (status, said) = ask(&socket, "POST", "/v1/explain", &body.to_string());
        assert_eq!(status, 200, "{said}");
        said
    };
    assert_eq!(
        (&said()["conditions"], &said()["outcome"]["addresses"]),
        (&json!(["localhost has an address"]), &Value::Null)
    );
    let mut client = Http::connect(gate.at("127.0.0.1:0"));
    client.send(format!(
        "CONNECT localhost:{port} HTTP/1.1\r\nHost: a\r\n\r\n"
    ));
    assert!(client.head().starts_with("HTTP/1.1 200"));
    let said = said();
    let addresses = said["outcome"]["addresses"].as_array().unwrap();
    let known = json!(format!("127.0.0.1:{port}"));
    assert!(addresses.contains(&known), "{said}");
    assert_eq!(said["conditions"], json!([]));
}

#[test]
fn explain_names_the_address_where_a_request_has_no_host() {
    let toml = "[site.\":8080\"]\nlisten = [\"127.0.0.1\"]\nredirect = \"http://{host}/new\"\n";
    let arguments = ["http://127.0.0.1:8080/", "-H", "Host:"];
    let said = explained(toml, &arguments);
    assert_eq!(said["outcome"]["location"], "http://127.0.0.1/new");
}

#[test]
fn explain_says_which_routes_a_preflight_without_cors_loses() {
    let toml = "[site.\":8080\".path.\"POST /a\"]\nproxy = \"10.0.0.1:80\"\n";
    let preflight = [
        "-X",
        "OPTIONS",
        "http://a.test:8080/a",
        "-H",
        "Origin: http://b.test",
        "-H",
        "Access-Control-Request-Method: POST",
    ];
    let said = explained(toml, &preflight);
    assert_eq!(said["outcome"]["status"], 405);
    assert_eq!(
        (
            &said["lost_routes"][0]["path"],
            &said["lost_routes"][0]["because"]
        ),
        (&json!("/a"), &json!("another method"))
    );
    let with_cors = format!("{toml}cors = true\n");
    let said = explained(&with_cors, &preflight);
    assert_eq!(
        (&said["outcome"]["status"], &said["lost_routes"]),
        (&json!(204), &json!([]))
    );
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        // Knuth, The Art of Computer Programming 2, §3.3.4: the multiplier of MMIX.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }

    fn of<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

const KEYS: [&str; 4] = ["a.test:0", "*.a.test:0", "*.test:0", ":0"];
/// No two of them cross.
const PATHS: [&str; 9] = [
    "/",
    "/a",
    "/a/*",
    "/a/{id}",
    "/a/b",
    "/a/{id}/c",
    "GET /m",
    "POST /m",
    "/r/{x}/*",
];
const ACTIONS: [&str; 9] = [
    "proxy = \"ORIGIN\"\n",
    "proxy = \"pool:turns\"\n",
    "proxy = \"pool:hashed\"\n",
    "proxy = \"pool:cookie\"\n",
    "proxy = \"ORIGIN\"\nstrip_prefix = true\n",
    "proxy = \"ORIGIN\"\nrequest_headers = { x-id = \"{path}\", cookie = false }\n",
    "respond = \"local\"\n",
    "respond = 410\n",
    "redirect = \"https://b.test{path}\"\n",
];
const MORE: [&str; 5] = [
    "",
    "deny = [\"127.0.0.1\"]\n",
    "allow = [\"192.0.2.0/24\"]\n",
    "body = { max = \"4B\" }\n",
    "paths = \"as-is\"\n",
];

/// A path pattern as text that is no template.
fn unbraced(pattern: &str) -> String {
    pattern.replace(['{', '}'], "")
}

fn random_sites(random: &mut Random, origins: &[&str]) -> String {
    let mut toml = String::new();
    for (name, balance) in [
        ("turns", "\"round-robin\""),
        ("hashed", "{ hash = \"header:x-user\" }"),
        ("cookie", "{ sticky = \"cookie:lg\" }"),
    ] {
        let _ = write!(
            toml,
            "[pool.{name}]\nendpoints = {origins:?}\nbalance = {balance}\n"
        );
    }
    for key in KEYS {
        if key != ":0" && random.chance(3) {
            continue;
        }
        let action = random.of(&ACTIONS).replace("strip_prefix = true\n", "");
        let _ = write!(
            toml,
            "[site.\"{key}\"]\nlisten = [\"127.0.0.1\"]\ntls = false\nheaders = {{ x-route = \"{key} /*\" }}\n{action}"
        );
        for path in PATHS {
            if random.chance(2) {
                continue;
            }
            let (action, more) = (random.of(&ACTIONS), random.of(&MORE));
            let action = if path.ends_with('*') {
                action.to_owned()
            } else {
                action.replace("strip_prefix = true\n", "")
            };
            let named = unbraced(path);
            let _ = write!(
                toml,
                "[site.\"{key}\".path.\"{path}\"]\nheaders = {{ x-route = \"{key} {named}\" }}\n{action}{more}"
            );
        }
    }
    toml.replace("ORIGIN", origins[0])
}

struct RandomRequest {
    method: &'static str,
    target: String,
    fields: Vec<String>,
}

fn random_request(random: &mut Random, jar: Option<&str>) -> RandomRequest {
    let method = random.of(&[
        "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE", "ODD",
    ]);
    let mut target = String::new();
    for _ in 0..=random.below(3) {
        target.push('/');
        target += random.of(&[
            "", "a", "b", "c", "m", "r", "%61", "..", "a;b", "%2f", "a%20b", "ü",
        ]);
    }
    if random.chance(4) {
        target += "?q=/a";
    }
    let host = random.of(&[
        "a.test",
        "b.a.test",
        "c.b.a.test",
        "b.test",
        "A.TEST.",
        "other.example",
        "127.0.0.1",
        "[::1]",
        "a_b.test:99",
    ]);
    let mut fields = vec![format!("Host: {host}")];
    if random.chance(4) {
        fields.push("Cookie: a=1".to_owned());
    } else if let (false, Some(cookie)) = (random.chance(3), jar) {
        fields.push(format!("Cookie: b=2; {cookie}"));
    }
    if random.chance(2) {
        fields.push(format!("X-User: {}", random.below(9)));
    }
    if random.chance(4) {
        fields.push("Connection: x-gone".to_owned());
        fields.push("X-Gone: 1".to_owned());
    }
    if random.chance(6) {
        fields.push("X-Forwarded-For: 192.0.2.9".to_owned());
    }
    if matches!(method, "POST" | "PUT") {
        fields.push(format!("Content-Length: {}", random.below(8)));
    }
    RandomRequest {
        method,
        target,
        fields,
    }
}

/// A Lockgate with random sites, in front of origins that answer with the head that they got.
struct RandomScene {
    folder: Folder,
    gate: Lockgate,
    origins: Vec<Serving>,
}

impl RandomScene {
    fn new(random: &mut Random) -> Self {
        let folder = Folder::new();
        let origin = |number: usize| {
            Origin::tcp().answering(move |request| {
                let head = request.head.clone();
                format!(
                    "HTTP/1.1 200 OK\r\nx-origin: {number}\r\ncontent-length: {}\r\n\r\n{head}",
                    head.len()
                )
                .into_bytes()
            })
        };
        let origins: Vec<_> = (0..3).map(origin).collect();
        let addresses: Vec<_> = origins.iter().map(Serving::address).collect();
        let sites = random_sites(random, &addresses);
        let trusted = random.of(&["", "trusted = [\"127.0.0.1\"]\n"]);
        let gate = lockgate().start(&format!(
            "admin = \"unix:{}\"\n{trusted}{sites}",
            text(&folder.path("admin.sock"))
        ));
        Self {
            folder,
            gate,
            origins,
        }
    }

    fn explain(&self, request: &RandomRequest) -> (u16, Value) {
        let body = json!({
            "url": format!("http://any.example{}", request.target),
            "method": request.method,
            "fields": request.fields,
            "from": "127.0.0.1",
            "listener": self.listener(),
        });
        ask(
            &self.folder.path("admin.sock"),
            "POST",
            "/v1/explain",
            &body.to_string(),
        )
    }

    fn listener(&self) -> &'static str {
        "127.0.0.1:0"
    }

    fn send(&self, request: &RandomRequest) -> Message {
        let mut client = Http::connect(self.gate.at("127.0.0.1:0"));
        let length = request
            .fields
            .iter()
            .find_map(|field| field.strip_prefix("Content-Length: "));
        let body = "x".repeat(length.map_or(0, |length| length.parse().unwrap()));
        client.send(format!(
            "{} {} HTTP/1.1\r\n{}\r\n\r\n{body}",
            request.method,
            request.target,
            request.fields.join("\r\n"),
        ));
        let head = client.head();
        let mut answer = Message {
            head,
            ..Message::default()
        };
        if request.method != "HEAD" {
            client.body(&mut answer);
        }
        answer
    }
}

/// Asserts that what was explained is what happened.
fn agree(said: &Value, answer: &Message, request: &RandomRequest, origins: &[Serving]) {
    let outcome = &said["outcome"];
    let route = said["route"].as_object().map(|route| {
        let site = said["site"]["name"].as_str().unwrap();
        let path = unbraced(route["path"].as_str().unwrap());
        match route["method"].as_str() {
            Some(method) => format!("{site} {method} {path}"),
            None => format!("{site} {path}"),
        }
    });
    let told = || {
        format!(
            "{} {} {:?}: {said:#} but {}",
            request.method, request.target, request.fields, answer.head
        )
    };
    assert_eq!(route.as_deref(), answer.field("x-route"), "{}", told());
    if outcome["kind"] == "proxied" {
        let origin: usize = answer.field("x-origin").unwrap().parse().unwrap();
        let (origin, choice) = (origins[origin].address(), &outcome["choice"]);
        let members = choice["members"].as_array().unwrap();
        if choice["method"] == "p2c" && members.len() > 1 {
            // The request before may be in flight for a moment yet, and latencies fade.
            let is_it = |member: &Value| member["endpoint"] == origin;
            assert!(members.iter().any(is_it), "{}", told());
        } else {
            assert_eq!(choice["next"], origin, "{}", told());
        }
        if request.method == "HEAD" {
            return;
        }
        let sent = &outcome["sent"];
        let mut lines = answer.text().lines();
        let first = format!(
            "{} {} HTTP/1.1",
            request.method,
            sent["target"].as_str().unwrap()
        );
        assert_eq!(lines.next(), Some(&*first), "{}", told());
        let is_ours = |line: &&str| {
            let name = line
                .split(':')
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            !line.is_empty()
                && !matches!(
                    &*name,
                    "host" | "x-request-id" | "content-length" | "connection"
                )
        };
        let mut got: Vec<_> = lines.filter(is_ours).collect();
        let fields = sent["fields"].as_array().unwrap().iter();
        let mut expected: Vec<_> = fields
            .map(|field| field.as_str().unwrap())
            .filter(is_ours)
            .collect();
        got.sort_unstable();
        expected.sort_unstable();
        assert_eq!(got, expected, "{}", told());
        return;
    }
    assert_eq!(answer.field("x-origin"), None, "{}", told());
    assert_eq!(outcome["status"], answer.status(), "{}", told());
    assert_eq!(
        outcome["location"].as_str(),
        answer.field("location"),
        "{}",
        told()
    );
    if outcome["kind"] == "refused" {
        assert_eq!(
            outcome["allow"].as_str(),
            answer.field("allow"),
            "{}",
            told()
        );
    }
}

/// `LOCKGATE_EXPLAIN_SITES=1000` does it for so many configurations.
#[test]
fn explain_agrees_with_what_happens_to_random_requests() {
    let count = std::env::var("LOCKGATE_EXPLAIN_SITES");
    let count = count.map_or(6, |count| count.parse().unwrap());
    let mut random = Random(24);
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for _ in 0..count {
        let scene = RandomScene::new(&mut random);
        let mut jar = None;
        for _ in 0..100 {
            let request = random_request(&mut random, jar.as_deref());
            // Asking takes no turn: the answer that is sent next has it.
            let explained = scene.explain(&request);
            let answer = scene.send(&request);
            if let Some((cookie, _)) = answer
                .field("set-cookie")
                .and_then(|set| set.split_once(';'))
            {
                jar = Some(cookie.to_owned());
            }
            match explained {
                (200, said) => {
                    let outcome = &said["outcome"];
                    for of in [&outcome["kind"], &outcome["choice"]["method"]] {
                        let of = of.as_str().unwrap_or_default().to_owned();
                        *kinds.entry(of).or_default() += 1;
                    }
                    agree(&said, &answer, &request, &scene.origins);
                }
                (status, said) => {
                    assert_eq!(status, 422, "{said}");
                    assert_eq!(answer.status(), 400, "{said} {}", request.target);
                    *kinds.entry("unreadable".to_owned()).or_default() += 1;
                }
            }
        }
    }
    for kind in [
        "proxied",
        "responded",
        "refused",
        "round-robin",
        "hash",
        "sticky",
    ] {
        assert!(kinds.contains_key(kind), "{kinds:?}");
    }
}
