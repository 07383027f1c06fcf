//! Records of requests: error pages, the access log, metrics and the accounts of `/top`.

use std::fmt::Write as _;

use lockgate_testkit::{Folder, Http, Lockgate, Message, Origin, Serving, Wire, eventually};
use serde_json::Value;

use super::plain_site;
use crate::scene::{NAME, Site, deserted, lockgate, text};

/// An origin that answers `hello`, and to `POST` its body.
fn hello_origin() -> Serving {
    Origin::tcp().answering(|request| {
        let body = if request.first_line().starts_with("POST") {
            &request.body[..]
        } else {
            b"hello"
        };
        let mut answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        if !request.first_line().starts_with("HEAD") {
            answer.extend_from_slice(body);
        }
        answer
    })
}

fn ask(client: &mut Http, line: &str, lines: &str) -> Message {
    client.send(format!("{line} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
    client.answer()
}

fn seconds(line: &Value, field: &str) -> f64 {
    line[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} in {line}"))
}

/// The parts of its duration add up.
fn adds_up(line: &Value) {
    let parts = [
        "wait_seconds",
        "connect_seconds",
        "first_byte_seconds",
        "body_seconds",
    ];
    let sum: f64 = parts.iter().filter_map(|part| line[part].as_f64()).sum();
    let whole = seconds(line, "duration_seconds");
    assert!(
        parts
            .iter()
            .all(|part| line[part].as_f64().unwrap_or(0.0) >= 0.0),
        "{line}"
    );
    // Each is cut to a microsecond.
    assert!(
        (whole - sum).abs() < 0.000_01,
        "{whole} is not {sum}: {line}"
    );
}

#[test]
fn an_exchange_is_one_access_log_line() {
    let origin = hello_origin();
    let toml = format!(
        "[pool.app]\nendpoints = [\"{0}\"]\n{1}[site.\":0\".path.\"POST /api/{{id}}\"]\nproxy = \"{0}\"\n",
        origin.address(),
        plain_site("pool:app"),
    );
    let mut gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    let port = client.stream.local_address().port();
    ask(
        &mut client,
        "GET /a?b=%20c",
        "Referer: https://x.test/\r\nUser-Agent: tester/1\r\nCookie: secret\r\n",
    );
    ask(&mut client, "POST /api/7", "Content-Length: 4\r\n\r\nfour");
    client.send("POST /other HTTP/1.1\r\nHost: A.test:80\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(client.answer().text(), "abcde");
    client.send("HEAD / HTTP/1.0\r\n\r\n");
    client.head();
    client.expect_end();
    let lines: Vec<Value> = (0..4).map(|_| gate.next_line()).collect();
    for line in &lines {
        for (field, expected) in [
            ("listener", Value::from("127.0.0.1:0")),
            ("client", "127.0.0.1".into()),
            ("client_port", port.into()),
            ("peer", "127.0.0.1".into()),
            ("peer_port", port.into()),
            ("scheme", "http".into()),
            ("status", 200.into()),
            ("site", ":0".into()),
            ("endpoint", origin.address().into()),
        ] {
            assert_eq!(line[field], expected, "{field}: {line}");
        }
        assert_eq!(line["connection"], lines[0]["connection"]);
        for absent in [
            "user",
            "cause",
            "side",
            "detail",
            "retries",
            "tls_version",
            "sni",
            "cookie",
        ] {
            assert!(line.get(absent).is_none(), "{absent}: {line}");
        }
        adds_up(line);
    }
    let fields = [
        "method",
        "target",
        "host",
        "protocol",
        "received_bytes",
        "sent_bytes",
        "pool",
        "reused",
        "route",
    ];
    let told: Vec<Vec<Value>> = lines
        .iter()
        .map(|line| fields.iter().map(|field| line[field].clone()).collect())
        .collect();
    let expected = serde_json::json!([
        [
            "GET",
            "/a?b=%20c",
            "a.test",
            "HTTP/1.1",
            0,
            5,
            "app",
            false,
            null
        ],
        [
            "POST",
            "/api/7",
            "a.test",
            "HTTP/1.1",
            4,
            4,
            ":0 POST /api/{id}",
            false,
            "POST /api/{id}"
        ],
        [
            "POST",
            "/other",
            "A.test:80",
            "HTTP/1.1",
            5,
            5,
            "app",
            true,
            null
        ],
        ["HEAD", "/", null, "HTTP/1.0", 0, 0, "app", true, null],
    ]);
    assert_eq!(serde_json::to_value(told).unwrap(), expected);
    assert_eq!(
        (&lines[0]["referer"], &lines[0]["user_agent"]),
        (&"https://x.test/".into(), &"tester/1".into())
    );
    let connects: Vec<bool> = lines
        .iter()
        .map(|line| line.get("connect_seconds").is_some())
        .collect();
    assert_eq!(connects, [true, true, false, false]);
    let mut ids: Vec<_> = lines.iter().map(|line| line["id"].to_string()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert!(!gate.stdout().text().contains("secret"));
    // The connection itself has no line: it is in those of its requests.
    drop(client);
    gate.wait_for_sample("lockgate_connections", &["listener="], 0.0);
    assert_eq!(gate.lines().len(), 4);
}

#[test]
fn a_tls_exchange_logs_version_cipher_sni_and_alpn() {
    let (site, origin) = (Site::new(), hello_origin());
    let toml = plain_site(origin.address()) + &format!("tls = \"{}\"\n", site.cert);
    let mut gate = lockgate().start(&toml);
    let tls = site
        .client()
        .alpn(&["http/1.1"])
        .connect(gate.address(), NAME)
        .unwrap();
    let mut client = Http::over(tls);
    client.send(format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
    assert_eq!(client.answer().text(), "hello");
    let line = gate.next_line();
    for (field, expected) in [
        ("scheme", "https"),
        ("host", NAME),
        ("sni", NAME),
        ("alpn", "http/1.1"),
        ("tls_version", "TLSv1.3"),
        ("cipher", "TLS_AES_128_GCM_SHA256"),
    ] {
        assert_eq!(line[field], expected, "{field}: {line}");
    }
    assert_eq!(
        (&line["resumed"], &line["status"]),
        (&false.into(), &200.into())
    );
    adds_up(&line);
}

#[test]
fn a_retried_exchange_logs_retries_and_consistent_durations() {
    let (dead, origin) = (deserted(), Origin::tcp());
    let breaks = Origin::tcp().serve(|wire| {
        Http::over(wire.another()).head();
    });
    let toml = format!(
        "[pool.app]\nendpoints = [\"{dead}\", \"{}\", \"{}\"]\nbalance = \"round-robin\"\nretry = {{ times = 2 }}\n{}",
        breaks.address(),
        origin.address(),
        plain_site("pool:app"),
    );
    let gate = lockgate().start(&toml);
    let served = origin.answering(|_| b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    for _ in 0..3 {
        assert_eq!(
            ask(&mut Http::connect(gate.address()), "GET /", "").status(),
            204
        );
    }
    let line = gate.line("one that was tried again", |line| {
        line["retries"].as_u64().is_some()
    });
    assert_eq!(
        (&line["endpoint"], &line["pool"]),
        (&served.address().into(), &"app".into())
    );
    gate.lines().iter().for_each(adds_up);
}

/// The id on an error page, in any form.
fn id_in(answer: &Message) -> String {
    let body = answer.text();
    let digits = |text: &str| {
        text.chars()
            .take_while(char::is_ascii_hexdigit)
            .collect::<String>()
    };
    let places = ["request: ", "\"request_id\":\"", "<br>"];
    let place = places
        .iter()
        .find_map(|place| body.split_once(place))
        .unwrap_or_else(|| panic!("{body}"));
    digits(place.1)
}

#[test]
fn error_responses_carry_cause_and_request_id() {
    let origin = Origin::tcp().answering(|request| match request.first_line() {
        line if line.contains("/bad") => b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_vec(),
        _ => b"nonsense\r\n\r\n".to_vec(),
    });
    let toml = format!(
        "limits = {{ head = \"2KB\" }}\n[site.\"a.test:0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"{0}\"\n\
         [site.\"a.test:0\".path.\"/dead\"]\nproxy = \"{1}\"\n\
         [site.\"a.test:0\".path.\"/deny\"]\nrespond = 200\ndeny = [\"0.0.0.0/0\"]\n\
         [site.\"a.test:0\".path.\"/often\"]\nrespond = 200\nlimit = \"1/h per route\"\n\
         [site.\"a.test:0\".path.\"/small\"]\nproxy = \"{0}\"\nbody = {{ max = \"1B\" }}\n\
         [site.\"b.test:0\".path.\"POST /only\"]\nrespond = 200\n",
        origin.address(),
        deserted(),
    )
    .replace(
        "[site.\"b.test:0\".path",
        "[site.\"b.test:0\"]\nlisten = [\"127.0.0.1\"]\n[site.\"b.test:0\".path",
    );
    let gate = lockgate().start(&toml);
    assert_eq!(
        ask(&mut Http::connect(gate.address()), "GET /often", "").status(),
        200
    );
    let mut answers = Vec::new();
    for (line, lines, status, cause, error) in [
        ("GET /dead", "", 502, "connect_failed", "connection_refused"),
        (
            "GET /bad",
            "",
            502,
            "refused_by_rule",
            "http_protocol_error",
        ),
        (
            "GET /worse",
            "",
            502,
            "refused_by_rule",
            "http_protocol_error",
        ),
        (
            "GET /deny",
            "",
            403,
            "refused_by_rule",
            "http_request_denied",
        ),
        ("GET /often", "", 429, "limit", "http_request_error"),
        ("GET /%2f", "", 400, "refused_by_rule", "http_request_error"),
        (
            "POST /small",
            "Content-Length: 2\r\n",
            413,
            "limit",
            "http_request_error",
        ),
        (
            "POST /",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            400,
            "refused_by_rule",
            "http_request_error",
        ),
        (
            "GET /",
            "No colon\r\n",
            400,
            "refused_by_rule",
            "http_request_error",
        ),
        (
            "GET / HTTP/1.1\r\nHost: c.test\r\nX:",
            "",
            400,
            "refused_by_rule",
            "http_request_error",
        ),
    ] {
        for accept in ["", "Accept: text/html\r\n", "Accept: application/json\r\n"] {
            let answer = ask(
                &mut Http::connect(gate.address()),
                line,
                &format!("{accept}{lines}"),
            );
            assert_eq!(answer.status(), status, "{line}");
            assert!(answer.text().contains(cause), "{}", answer.text());
            let told = answer.field("proxy-status").unwrap();
            assert!(
                told.starts_with("lockgate; ") && told.contains(&format!("error={error}")),
                "{told}"
            );
            answers.push((answer, line, accept, cause));
        }
    }
    for (answer, line, accept, cause) in answers {
        let id = id_in(&answer);
        let logged = gate.line(&format!("{line} with {id}"), |logged| {
            logged["id"] == id.as_str()
        });
        assert_eq!(
            (&logged["status"], &logged["cause"]),
            (&answer.status().into(), &cause.into()),
            "{logged}"
        );
        assert_eq!(logged["sent_bytes"], answer.body.len(), "{logged}");
        // Where the head could not be read, the client's preference is unknown.
        if logged.get("method").is_some() {
            let media = answer.field("content-type").unwrap();
            let expected = match accept {
                "" => "text/plain",
                "Accept: text/html\r\n" => "text/html",
                _ => "application/problem+json",
            };
            assert!(media.starts_with(expected), "{media} for {accept}");
        }
    }
    for (host, line, status) in [
        ("c.test", "GET /", 404),
        ("b.test", "GET /x", 404),
        ("b.test", "GET /only", 405),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(answer.status(), status, "{host} {line}");
        assert_eq!(answer.field("allow"), (status == 405).then_some("POST"));
        let id = id_in(&answer);
        let logged = gate.line("it", |logged| logged["id"] == id.as_str());
        assert_eq!(logged["status"], status);
    }
    // Error pages do not name the endpoint; the log does.
    let logged = gate.line("the dead one", |logged| logged["target"] == "/dead");
    assert!(
        logged["pool"].is_string() && logged["detail"].is_string(),
        "{logged}"
    );
}

#[test]
fn configured_error_pages_replace_local_ones() {
    let folder = Folder::new();
    let page = |name: &str, body: &str| text(&folder.write(name, body));
    let (gone, teapot) = (
        page("gone.html", "<h1>own</h1>"),
        page("down.json", "{\"down\":true}"),
    );
    let toml = format!(
        "[site.\"a.test:0\"]\nlisten = [\"127.0.0.1\"]\nerror_pages = {{ 404 = \"{gone}\", 502 = \"{teapot}\" }}\n\
         [site.\"a.test:0\".path.\"/dead\"]\nproxy = \"{0}\"\n\
         [site.\"a.test:0\".path.\"/plain\"]\nproxy = \"{0}\"\nerror_pages = {{ 502 = false }}\n",
        deserted(),
    );
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    let answer = ask(&mut client, "GET /nowhere", "Accept: application/json\r\n");
    assert_eq!((answer.status(), answer.text()), (404, "<h1>own</h1>"));
    assert_eq!(
        answer.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    let answer = ask(&mut client, "GET /dead", "");
    assert_eq!((answer.status(), answer.text()), (502, "{\"down\":true}"));
    assert_eq!(answer.field("content-type"), Some("application/json"));
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("connection_refused")
    );
    assert!(
        ask(&mut client, "GET /plain", "")
            .text()
            .contains("cause: connect_failed")
    );
    client.send("HEAD /dead HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let head = client.head();
    assert!(head.contains("\r\nContent-Length: 13\r\n"), "{head}");
    // Nothing came behind it: the next response is where it should be.
    assert_eq!(ask(&mut client, "GET /nowhere", "").status(), 404);
}

#[test]
fn x_request_id_is_taken_from_trusted_clients_only() {
    let origin = Origin::tcp().answering(|request| {
        let id = request.field("x-request-id").unwrap_or("none").to_owned();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{id}",
            id.len()
        )
        .into_bytes()
    });
    let toml = "trusted = [\"127.0.0.1\"]\n".to_owned() + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let mut trusted = Http::connect(gate.address());
    let mut stranger = Http::over(Wire::connect_from([127, 0, 0, 2].into(), gate.address()));
    let mut ids = Vec::new();
    for (sent, taken) in [
        ("X-Request-Id: abc-123.X_~+:\r\n", true),
        ("X-REQUEST-ID: 1\r\n", true),
        ("X-Request-Id: a b\r\n", false),
        ("X-Request-Id: \r\n", false),
        ("X-Request-Id: <script>\r\n", false),
        ("X-Request-Id: ä\r\n", false),
        ("", false),
    ] {
        let long = format!("X-Request-Id: {}\r\n", "a".repeat(1_000));
        for (is_trusted, lines, taken) in [
            (true, sent, taken),
            (false, sent, false),
            (true, &long, false),
        ] {
            let client = if is_trusted {
                &mut trusted
            } else {
                &mut stranger
            };
            let id = ask(client, "GET /", lines).text().to_owned();
            let told = lines.split_once(": ").map_or("", |line| line.1.trim());
            assert_eq!(id == told && !id.is_empty(), taken, "{lines}: {id}");
            ids.push(id);
        }
    }
    for id in ids {
        gate.line("the same id", |line| line["id"] == id.as_str());
    }
}

#[test]
fn the_access_log_format_sampling_and_masking_are_configurable() {
    let origin = hello_origin();
    let start = |log: &str| {
        let toml = format!("access_log = {{ {log} }}\n{}", plain_site(origin.address()));
        lockgate().start(&(toml + "[site.\":0\".path.\"/closed\"]\ndeny = [\"0.0.0.0/0\"]\n"))
    };
    let agent = "Referer: https://x.test/\"\r\nUser-Agent: a \"b\" \\c\r\n";
    for (log, beginning, end) in [
        (
            "format = \"combined\", mask_ip = true",
            "127.0.0.0 - - [",
            "] \"GET /x?y HTTP/1.1\" 200 5 \"https://x.test/\\x22\" \"a \\x22b\\x22 \\x5Cc\"",
        ),
        (
            "format = \"logfmt\"",
            "time=",
            " user_agent=\"a \\\"b\\\" \\\\c\"",
        ),
    ] {
        let gate = start(log);
        ask(&mut Http::connect(gate.address()), "GET /x?y", agent);
        let line = gate.stdout().find("a line", |line| Some(line.to_owned()));
        assert!(line.starts_with(beginning) && line.ends_with(end), "{line}");
        assert!(
            !log.contains("logfmt") || line.contains(" client=127.0.0.1 client_port="),
            "{line}"
        );
    }
    let gate = start("sample = \"1%\", mask_ip = true");
    let mut client = Http::connect(gate.address());
    (0..200).for_each(|_| assert_eq!(ask(&mut client, "GET /", "").status(), 200));
    // Errors are logged at any sampling rate.
    assert_eq!(ask(&mut client, "GET /closed", "").status(), 403);
    let line = gate.line("the error", |line| line["status"] == 403);
    assert_eq!(
        (&line["status"], &line["client"], &line["peer"]),
        (&403.into(), &"127.0.0.0".into(), &"127.0.0.0".into())
    );
    assert!(line.get("client_port").is_none());
    gate.wait_for_sample("lockgate_requests_total", &["code=\"2xx\""], 200.0);
    assert!(gate.lines().len() < 100, "{} lines", gate.lines().len());
}

#[test]
fn a_client_that_leaves_early_is_logged_as_499() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send("GET /left HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.http();
    upstream.request();
    client.stream.reset();
    upstream.wait_closed();
    let line = gate.line("who left", |line| line["target"] == "/left");
    assert_eq!(
        (&line["status"], &line["side"]),
        (&499.into(), &"downstream".into())
    );
    // In the middle of an upload.
    let mut client = Http::connect(gate.address());
    client.send("PUT /half HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    let mut upstream = origin.http();
    upstream.head();
    upstream.expect("half");
    client.stream.finish();
    upstream.expect_end();
    let line = gate.line("who left", |line| line["target"] == "/half");
    assert_eq!(
        (&line["status"], &line["received_bytes"]),
        (&499.into(), &4.into())
    );
    // While the response pauses.
    let mut client = Http::connect(gate.address());
    client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n");
    client.head();
    assert_eq!(client.chunk().unwrap(), b"data: 1\n\n");
    client.stream.reset();
    upstream.wait_closed();
    let line = gate.line("who left", |line| line["target"] == "/events");
    assert_eq!(
        (&line["status"], &line["cause"], &line["sent_bytes"]),
        (&200.into(), &"client_reset".into(), &9.into())
    );
    gate.wait_for_sample("lockgate_requests_in_flight", &[], 0.0);
}

#[test]
fn an_upgraded_connection_has_two_access_log_lines() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut upstream = origin.http();
    upstream.request();
    upstream
        .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly");
    assert!(client.head().starts_with("HTTP/1.1 101 "));
    client.expect("early");
    let line = gate.line("the request", |line| line["target"] == "/ws");
    assert_eq!(
        (&line["status"], &line["site"]),
        (&101.into(), &":0".into())
    );
    gate.wait_for_sample("lockgate_upgraded_connections", &["site=\":0\""], 1.0);
    client.send("from the client");
    upstream.expect("from the client");
    drop(client);
    upstream.rest();
    drop(upstream);
    let own = gate.line("the connection", |own| own["id"] == line["connection"]);
    assert_eq!(
        (&own["received_bytes"], &own["sent_bytes"]),
        (&15.into(), &5.into()),
        "{own}"
    );
    gate.wait_for_sample("lockgate_upgraded_connections", &[], 0.0);
    gate.wait_for_sample("lockgate_upgrades_total", &["site=\":0\""], 1.0);
}

#[test]
fn site_and_endpoint_counters_are_exact() {
    let origin = hello_origin();
    let toml = format!(
        "[pool.app]\nendpoints = [\"{}\"]\n[site.\"a.test:0\"]\nalias = [\"*.a.test\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:app\"\n\
         [site.\"b.test:0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"12345678\"\n",
        origin.address()
    );
    let gate = lockgate().workers(2).start(&toml);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Http::connect(gate.address());
                for host in ["a.test", "x.a.test", "b.test", "c.test"] {
                    for _ in 0..5 {
                        client.send(format!(
                            "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nabc"
                        ));
                        let answer = client.answer();
                        if answer.field("connection").is_some() {
                            client.wait_closed();
                            client = Http::connect(gate.address());
                        }
                    }
                }
            });
        }
    });
    let endpoint = format!("endpoint=\"{}\"", origin.address());
    for (name, labels, value) in [
        (
            "lockgate_requests_total",
            &["site=\"a.test:0\"", "code=\"2xx\"", "method=\"POST\""][..],
            40.0,
        ),
        (
            "lockgate_requests_total",
            &["site=\"b.test:0\"", "code=\"2xx\""],
            20.0,
        ),
        (
            "lockgate_requests_total",
            &["site=\"other\"", "code=\"4xx\""],
            20.0,
        ),
        ("lockgate_requests_total", &[], 80.0),
        (
            "lockgate_request_bytes_total",
            &["site=\"a.test:0\"", "direction=\"received\""],
            120.0,
        ),
        (
            "lockgate_request_bytes_total",
            &["site=\"a.test:0\"", "direction=\"sent\""],
            120.0,
        ),
        (
            "lockgate_request_bytes_total",
            &["site=\"b.test:0\"", "direction=\"sent\""],
            160.0,
        ),
        (
            "lockgate_request_errors_total",
            &["site=\"other\"", "cause=\"refused_by_rule\""],
            20.0,
        ),
        ("lockgate_request_errors_total", &[], 20.0),
        (
            "lockgate_request_duration_seconds_count",
            &["site=\"a.test:0\""],
            40.0,
        ),
        ("lockgate_requests_in_flight", &[], 0.0),
        ("lockgate_upgrades_total", &[], 0.0),
    ] {
        gate.wait_for_sample(name, labels, value);
    }
    let metrics = gate.metrics();
    assert!(
        metrics
            .lines()
            .any(|line| line.contains(&endpoint) && line.ends_with(" 40")),
        "{metrics}"
    );
}

/// Name and number of each entry of a list of `/top`.
fn listed(gate: &Lockgate, list: &str, name: &str) -> Vec<(String, u64)> {
    let top = gate.top();
    let entries = top[list].as_array().cloned().unwrap_or_default();
    let entry = |entry: &Value| {
        (
            entry[name].as_str().unwrap_or_default().to_owned(),
            entry["requests"].as_u64().unwrap_or(0),
        )
    };
    entries.iter().map(entry).collect()
}

#[test]
fn top_hosts_pages_and_referers_are_sorted() {
    let toml = "[site.\"a.test:0\"]\nlisten = [\"127.0.0.1\"]\nrespond = 200\n\
                [site.\"b.test:0\"]\nlisten = [\"127.0.0.1\"]\nrespond = 404\n";
    let gate = lockgate().workers(2).start(toml);
    for (host, path, times) in [
        ("a.test", "/x?token=1", 6),
        ("a.test", "http://a.test/y?z", 3),
        ("b.test", "/z", 2),
        ("evil.test", "/w", 1),
    ] {
        for number in 0..times {
            let mut client = Http::connect(gate.address());
            let from = if number % 3 == 0 {
                "https://news.test/1"
            } else {
                "https://other.test/?q"
            };
            client.send(format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nReferer: {from}\r\n\r\n"
            ));
            client.answer();
        }
    }
    let owned = |list: &[(&str, u64)]| {
        list.iter()
            .map(|(name, n)| ((*name).to_owned(), *n))
            .collect::<Vec<_>>()
    };
    let hosts = owned(&[("a.test:0", 9), ("b.test:0", 2), ("other", 1)]);
    eventually("all of them", || {
        (listed(&gate, "hosts", "host") == hosts).then_some(())
    });
    // Only the path counts as a page, without its query.
    assert_eq!(
        listed(&gate, "pages", "page"),
        owned(&[("a.test:0/x", 6), ("a.test:0/y", 3)])
    );
    assert_eq!(
        listed(&gate, "referers", "referer"),
        owned(&[("other.test", 6), ("news.test", 3)])
    );
}

/// RFC 9110 §4.2.3 and RFC 3986 §3.2.2 (case), RFC 1034 §3.1 (the root's dot), RFC 9110 §4.2.4
/// (userinfo), §7.2.
#[test]
fn a_hundred_and_fifty_hosts_match_in_every_spelling() {
    let mut toml = String::new();
    for number in 0..150 {
        let _ = write!(
            toml,
            "[site.\"s{number}.test:0\"]\nalias = [\"www.s{number}.test\", \"*.w{number}.test\", \"xn--bcher{number}-kva.test\"]\n\
             listen = [\"127.0.0.1\"]\nrespond = \"{number}\"\n"
        );
    }
    toml.push_str("[site.\"xn--bcher-kva.test:0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"idn\"\n");
    let gate = lockgate().workers(2).start(&toml);
    let mut client = Http::connect(gate.address());
    let mut serves = |host: &str, expected: &str| {
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = client.answer();
        let told = if answer.status() == 200 {
            answer.text().to_owned()
        } else {
            answer.status().to_string()
        };
        assert_eq!(told, expected, "{host}");
        if answer.field("connection").is_some() {
            client = Http::connect(gate.address());
        }
    };
    for number in 0..150 {
        let expected = number.to_string();
        for host in [
            format!("s{number}.test"),
            format!("S{number}.TEST"),
            format!("s{number}.test."),
            format!("s{number}.Test:80"),
            format!("s{number}.test.:65535"),
            format!("www.s{number}.test"),
            format!("a.w{number}.test"),
            format!("A.B.w{number}.test."),
            format!("XN--bcher{number}-kva.test"),
        ] {
            serves(&host, &expected);
        }
        serves(&format!("w{number}.test"), "404");
        serves(&format!("x.s{number}.test"), "404");
    }
    // RFC 5890 §2.3.2.1: the only form in which a name beyond ASCII comes.
    serves("XN--Bcher-KVA.test", "idn");
    serves("b\u{fc}cher.test", "400");
    for (host, expected) in [
        ("s150.test", "404"),
        ("s1.test.evil", "404"),
        ("evil-s1.test", "404"),
        ("s1.test..", "400"),
        ("s1.test:", "1"),
        ("s1.test:x", "400"),
        ("s1.test:99999", "400"),
        ("user@s1.test", "400"),
        ("s1.test, s2.test", "400"),
        ("s1.test/", "400"),
        ("127.0.0.1", "404"),
        ("[::1]", "404"),
        ("[::1", "400"),
    ] {
        serves(host, expected);
    }
}

#[test]
fn a_site_may_have_its_own_access_log() {
    let folder = Folder::new();
    let file = folder.path("own.log");
    let site = |port: &str, more: &str| {
        format!("[site.\"{port}\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"x\"\n{more}\n")
    };
    let own = format!("access_log = \"combined:{}\"", file.display());
    let toml = [
        site("shared.test:0", ""),
        site("own.test:0", &own),
        site("off.test:0", "access_log = false"),
    ];
    let gate = lockgate().workers(2).start(&toml.concat());
    let mut client = Http::connect(gate.address());
    for host in [
        "own.test",
        "off.test",
        "own.test",
        "nobody.test",
        "shared.test",
    ] {
        client.send(format!("GET /{host} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.answer();
    }
    let first = gate.line("the first line", |line| line["id"].is_string());
    assert_eq!(
        (&first["target"], &first["status"]),
        (&"/nobody.test".into(), &404.into())
    );
    gate.line("the last line", |line| line["target"] == "/shared.test");
    let written = eventually("its lines", || {
        let text = std::fs::read_to_string(&file).ok()?;
        (text.lines().count() == 2).then_some(text)
    });
    assert!(
        written
            .lines()
            .all(|line| line.contains("\"GET /own.test HTTP/1.1\" 200 1 ")),
        "{written}"
    );
    // After a rename it is opened anew, as the one of all is.
    std::fs::rename(&file, folder.path("own.log.1")).unwrap();
    gate.signal(lockgate_testkit::Signal::USR1);
    eventually("the new file", || file.exists().then_some(()));
    assert_eq!(gate.stop().code, Some(0));
}
