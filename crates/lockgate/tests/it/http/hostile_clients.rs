//! Clients that try to evade rules, flood, stall, or inject bytes into a request.

use std::io::Write;
use std::time::Duration;

use lockgate_testkit::{Http, Lockgate, Origin};

use super::{OK, exchange_bytes, get, plain_site};
use crate::scene::lockgate;

/// An origin that answers with the request's first line.
fn first_line_origin() -> lockgate_testkit::Serving {
    Origin::tcp().answering(|request| {
        let line = request.first_line();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}",
            line.len()
        )
        .into_bytes()
    })
}

fn status(gate: &Lockgate, target: &str) -> u16 {
    let mut client = Http::connect(gate.address());
    client.send(get(target));
    client.answer().status()
}

/// CWE-22, CWE-180, CWE-288; CVE-2021-41773 (httpd), CVE-2020-5902 (BIG-IP, `..;`), CVE-2000-0884
/// and CVE-2008-2938 (overlong UTF-8); "Breaking Parser Logic" (Tsai 2018). Every path that an
/// origin could read as one below `/admin/` is guarded or refused.
#[test]
fn no_spelling_of_a_path_evades_its_rule() {
    let origin = first_line_origin();
    let toml = plain_site(origin.address())
        + "[site.\":0\".path.\"/admin/*\"]\ndeny = [\"127.0.0.0/8\"]\n[site.\":0\".path.\"/raw/*\"]\npaths = \"as-is\"\n";
    let gate = lockgate().start(&toml);
    for target in [
        "/admin",
        "/admin/",
        "/admin/x",
        "/admin?x",
        "//admin/x",
        "///admin///x",
        "/admin//x",
        "/%61dmin/x",
        "/%61%64%6D%69%6e/x",
        "//%61dmin",
        "http://a.test/admin/x",
        "HTTP://A.TEST//admin/x",
    ] {
        assert_eq!(status(&gate, target), 403, "{target}");
    }
    for target in [
        "/./admin/x",
        "/x/../admin",
        "/x/../../admin/x",
        "/x/%2e%2e/admin",
        "/x/.%2E/admin",
        "/%2e/admin/x",
        "/admin%2fx",
        "/x%2f..%2fadmin",
        "/admin%5cx",
        "/admin\\x",
        "/x/..\\admin",
        "/\\admin/x",
        "/x/%5c../admin",
        "/admin%00/x",
        "/x%00/../admin",
        "/x/..;/admin",
        "/x/..;a=b/admin",
        "/x/.;/../admin",
        "/;/admin/x",
        "/admin;a/x",
        "/admin;a=b",
        ";/admin/x",
        "/x/%c0%ae%c0%ae/admin",
        "/x/..%c0%af/admin",
        "/x%c0%afadmin",
        "/%e0%80%afadmin",
        "/%f0%80%80%afadmin",
        "/%",
        "/%6",
        "/%6g",
        "/%u0061dmin",
        "/x#/../admin",
        // As they are only where that does not lead elsewhere.
        "/raw/../admin",
        "/raw/%2e%2e/admin",
        "/raw/..%2fadmin/x",
        "/raw%2f../admin/x",
        "/raw/..\\admin",
        "/raw/..;/admin",
        "/admin/..%2fraw/x",
        "/%61dmin/%2e/x",
        "/raw/../%61dmin",
        "/raw//..//..//admin",
        "/admin/../raw/x",
        "/raw/../x",
    ] {
        let status = status(&gate, target);
        assert!(
            status == 400 || status == 403,
            "{target} is answered {status}"
        );
    }
    for target in [
        "/",
        "/x/admin",
        "/administrator",
        "/x;a=b/c",
        "/a;b",
        "/x?/../admin",
        "/.well-known/x",
        "/x/..y",
        "/...",
        "/%c3%a4",
        "/caf%E9",
        "/x%3fadmin",
        "/x%25%32%65",
        "/raw/a%2fb",
        "/raw/a/../b",
        "/raw/%2e/b",
        "/raw/a\\b",
    ] {
        let mut client = Http::connect(gate.address());
        client.send(get(target));
        assert_eq!(client.answer().text(), format!("GET {target} HTTP/1.1"));
    }
}

/// RFC 9110 §17.5, CWE-113, CWE-117, CWE-79, CWE-601: nothing of a request begins a line, a tag or
/// a host of its own.
#[test]
fn crlf_in_a_request_injects_nothing() {
    let origin = Origin::tcp();
    let toml = plain_site(origin.address())
        + "[site.\":0\".path.\"/to/*\"]\nredirect = \"/{*}\"\n\
           [site.\":0\".path.\"/own/*\"]\nrespond = { body = \"<p>{path} {query} {method}</p>\", type = \"text/html\" }\n\
           headers = { \"x-path\" = \"{path}\" }\n\
           [site.\":0\".path.\"/no/*\"]\ndeny = [\"127.0.0.0/8\"]\n";
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    for target in ["/to//evil.test", "/to///evil.test/%2e", "//to//evil.test"] {
        client.send(get(target));
        let answer = client.answer();
        if answer.status() != 400 {
            let location = answer.field("location").unwrap();
            assert!(
                location.starts_with('/') && !location.starts_with("//"),
                "{target} leads to {location}"
            );
        } else {
            client = Http::connect(gate.address());
        }
    }
    client.send(get("/to/%0d%0aSet-Cookie:%20a=b?%0d%0aX:%20y"));
    let answer = client.answer();
    assert_eq!(
        answer.field("location"),
        Some("/%0d%0aSet-Cookie:%20a=b?%0d%0aX:%20y")
    );
    assert_eq!(answer.field("set-cookie"), None);
    client.send(get(
        "/own/<script>alert(1)</script>%0d%0aX-Evil:1?\"onload='x'",
    ));
    let answer = client.answer();
    assert!(
        !answer.text().contains("<script>") && !answer.text().contains("'x'"),
        "{}",
        answer.text()
    );
    assert_eq!(answer.field("x-evil"), None, "{}", answer.head);
    // Nothing of it is on our pages.
    for accept in ["text/html", "application/json", "*/*"] {
        client.send(format!(
            "<b>X HTTP/1.1\r\nHost: a.test\r\nAccept: {accept}\r\n\r\n"
        ));
        let answer = client.answer();
        assert_eq!(answer.status(), 400);
        assert!(!answer.text().contains("<b>"));
        client = Http::connect(gate.address());
        client.send(format!(
            "GET /no/<b>%0a HTTP/1.1\r\nHost: a.test\r\nAccept: {accept}\r\nX-Request-Id: <b>\r\nReferer: <b>\r\n\r\n"
        ));
        let answer = client.answer();
        assert_eq!(answer.status(), 403);
        assert!(!answer.text().contains("<b>") && !answer.head.contains("<b>"));
    }
    // In the log each is one line of JSON.
    let odd = "GET /no/\"}{\\u0000 HTTP/1.1\r\nHost: a.test\r\nUser-Agent: \\\"\t\u{1b}";
    client.send(odd);
    client.send("\r\n\r\n");
    assert_eq!(client.answer().status(), 400);
    client = Http::connect(gate.address());
    client.send(
        "GET /no/\"}{x HTTP/1.1\r\nHost: a.test\r\nUser-Agent: \\\"\t\u{85}\u{2028}\r\nReferer: \"\\\r\n\r\n",
    );
    assert_eq!(client.answer().status(), 403);
    let line = gate.line("odd texts", |line| line["target"] == "/no/\"}{x");
    assert_eq!(line["referer"], "\"\\");
    let ended = gate.stop();
    for line in ended.stdout.lines() {
        assert!(
            line.starts_with('{') && line.ends_with('}') && !line.contains('\u{1b}'),
            "{line:?}"
        );
    }
}

/// CVE-2023-25690 (httpd): a part of the path that a rule puts into the target or a field of the
/// origin's request stays encoded. Decoded, it would begin a request of its own.
#[test]
fn rewritten_paths_and_fields_cannot_inject_crlf() {
    let origin = Origin::tcp();
    let toml = plain_site(origin.address())
        + "request_headers = { x-path = \"{path}\", x-query = \"{query}\" }\n\
           [site.\":0\".path.\"/v/{id}\"]\nrewrite = \"/x/{id}?from=v\"\n\
           [site.\":0\".path.\"/api/*\"]\nstrip_prefix = true\n";
    let gate = lockgate().start(&toml);
    let odd = "a%20HTTP%0d%0aHost:%20b%0d%0a%0d%0aGET";
    for (path, expected) in [
        (format!("/v/{odd}"), format!("/x/{odd}?from=v")),
        (format!("/api/{odd}"), format!("/{odd}?{odd}")),
    ] {
        let (seen, _) = exchange_bytes(&gate, &origin, &get(&format!("{path}?{odd}")), OK);
        assert_eq!(seen.first_line(), format!("GET {expected} HTTP/1.1"));
        assert_eq!(
            (seen.field("x-path"), seen.field("x-query")),
            (Some(path.as_str()), Some(odd))
        );
        assert_eq!(seen.field("host"), Some("a.test"));
    }
}

/// RFC 6585 §5, RFC 9112 §7.1.1: each flood ends with a response and a cause, and the next client
/// is served.
#[test]
fn request_floods_are_refused_with_a_cause() {
    let origin = first_line_origin();
    let gate = lockgate().workers(2).start(&plain_site(origin.address()));
    let post = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (request, status, cause) in [
        (
            format!(
                "GET / HTTP/1.1\r\nHost: a.test\r\nX: {}\r\n\r\n",
                "y".repeat(64 * 1024)
            ),
            431,
            "limit",
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n",
                "X: y\r\n".repeat(128)
            ),
            431,
            "limit",
        ),
        (
            format!(
                "GET /{} HTTP/1.1\r\nHost: a.test\r\n\r\n",
                "y".repeat(100_000)
            ),
            414,
            "limit",
        ),
        ("y".repeat(100_000), 414, "limit"),
        // A malformed first line is refused before its end is there.
        ("X: y\r\n".repeat(20_000), 400, "refused_by_rule"),
        (
            format!(
                "{post}{}",
                "1;xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\na\r\n".repeat(1_000)
            ),
            400,
            "refused_by_rule",
        ),
        (
            format!("{post}1;{}", "x".repeat(100_000)),
            400,
            "refused_by_rule",
        ),
        (
            format!("{post}1{}", " ".repeat(100_000)),
            400,
            "refused_by_rule",
        ),
        (
            format!("{post}0\r\n{}\r\n", "X: y\r\n".repeat(129)),
            400,
            "refused_by_rule",
        ),
        (
            format!("{post}0\r\nX: {}", "y".repeat(100_000)),
            400,
            "refused_by_rule",
        ),
        (
            format!("{post}{}", "0".repeat(100_000)),
            400,
            "refused_by_rule",
        ),
    ] {
        let mut client = Http::connect(gate.address());
        let _ = client.stream.write_all(request.as_bytes());
        let answer = client.answer();
        let front = &request[..40.min(request.len())];
        assert_eq!(answer.status(), status, "{front:?}");
        client.expect_end();
        let port = client.stream.local_address().port();
        drop(client);
        let line = gate.line(front, |line| line["client_port"] == port);
        assert_eq!(
            (&line["cause"], &line["status"]),
            (&cause.into(), &status.into()),
            "{front:?}"
        );
    }
    // Requests just within the limits pass; many small chunks and requests are nothing to refuse.
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n",
        "X: y\r\n".repeat(127)
    ));
    assert_eq!(client.answer().status(), 200);
    client.send(format!(
        "{post}{}0\r\n{}\r\n",
        "1\r\na\r\n".repeat(50_000),
        "X: y\r\n".repeat(128)
    ));
    assert_eq!(client.answer().status(), 200);
    for _ in 0..10 {
        client.send(get("/").repeat(100));
        for _ in 0..100 {
            assert_eq!(client.answer().status(), 200);
        }
    }
}

/// RFC 9110 §15.5.9; "Slowloris" (2009), R-U-Dead-Yet, slow read (Shekyan 2012): each ends, and
/// others are served meanwhile.
#[test]
fn slowloris_clients_are_cut_while_others_are_served() {
    let big = "x".repeat(16 * 1024 * 1024);
    let origin = Origin::tcp().answering(move |request| match request.first_line() {
        "GET /big HTTP/1.1" => format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{big}",
            big.len()
        )
        .into_bytes(),
        _ => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
    });
    let toml = "timeouts = { head = \"500ms\" }\nrates = { min_in = \"1KB/s\", min_out = \"1KB/s\", grace = \"1s\" }\n".to_owned()
        + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let begin = |bytes: &str| {
        let mut client = Http::connect(gate.address());
        client.send(bytes);
        client
    };
    let mut head = begin("GET / HTTP/1.1\r\nHost: a.te");
    let mut old = begin("GET /");
    let mut length = begin("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\nab");
    let mut chunks =
        begin("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    let mut reading = begin(&get("/big"));
    assert_eq!(status(&gate, "/meanwhile"), 204);
    // The head and the bodies come on, byte by byte, and are too slow all the same.
    let (mut writer, mut body) = (head.stream.another(), length.stream.another());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while body.is_quiet(Duration::from_millis(20)) {
                // One of both may have been closed by now.
                let _ = (writer.write_all(b"x"), body.write_all(b"x"));
            }
        });
        for client in [&mut head, &mut old, &mut length, &mut chunks] {
            let answer = client.answer();
            assert_eq!(
                (answer.status(), answer.field("connection")),
                (408, Some("close"))
            );
            assert_eq!(status(&gate, "/meanwhile"), 204);
        }
    });
    let port = reading.stream.local_address().port();
    let line = gate.line("the slow reader", |line| {
        line["client_port"] == port && line["target"] == "/big"
    });
    assert_eq!(line["cause"], "too_slow", "{line}");
    // It was cut, not ended: the body is shorter than its length.
    let (got, _) = reading.end();
    assert!(got.len() < 16 * 1024 * 1024);
    for client in [&head, &old, &length, &chunks] {
        let port = client.stream.local_address().port();
        let line = gate.line("a slow one", |line| {
            line["client_port"] == port && line["status"] == 408
        });
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"too_slow".into(), &"downstream".into()),
            "{line}"
        );
    }
}

/// CVE-2007-6750 (httpd, "Slowloris"): a started head costs its bytes, and not a buffer.
#[test]
fn connections_stalled_within_a_head_take_little_memory() {
    const COUNT: usize = 2_000;
    let origin = first_line_origin();
    let gate = lockgate().workers(2).start(&plain_site(origin.address()));
    assert_eq!(status(&gate, "/"), 200);
    // Its private memory alone: its share of shared pages, the program's text, grows when another
    // process ends.
    let memory = |gate: &Lockgate| {
        let rollup = gate.proc("smaps_rollup");
        let line = rollup
            .lines()
            .find_map(|line| line.strip_prefix("Anonymous:"))
            .expect("Linux says so");
        line.trim()
            .trim_end_matches(" kB")
            .parse::<usize>()
            .unwrap()
            * 1024
    };
    let before = memory(&gate);
    let stalled: Vec<Http> = (0..COUNT)
        .map(|_| {
            let mut client = Http::connect(gate.address());
            client.send(format!(
                "GET / HTTP/1.1\r\nHost: a.test\r\nX: {}",
                "y".repeat(500)
            ));
            client
        })
        .collect();
    gate.wait_for_sample("lockgate_connections", &["listener="], COUNT as f64);
    // A client that comes now is served after all of them were read.
    assert_eq!(status(&gate, "/"), 200);
    let each = memory(&gate).saturating_sub(before) / COUNT;
    assert!(each < 9 * 1024, "{each} bytes a connection");
    drop(stalled);
    gate.wait_for_sample("lockgate_connections", &["listener="], 0.0);
    assert_eq!(status(&gate, "/"), 200);
}

/// A client that breaks off at any byte leaves nothing behind that another could notice.
#[test]
fn a_reset_at_any_byte_harms_no_other_client() {
    let origin = first_line_origin();
    let gate = lockgate().workers(2).start(&plain_site(origin.address()));
    let request = "POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n";
    for end in 0..=request.len() {
        for reset in [true, false] {
            let mut client = Http::connect(gate.address());
            client.send(&request[..end]);
            if reset {
                client.stream.reset();
            }
        }
    }
    assert_eq!(status(&gate, "/"), 200);
    gate.wait_for_sample("lockgate_connections", &["listener="], 0.0);
    assert_eq!(gate.stop().code, Some(0));
}

/// RFC 9112 §9.6: closing over bytes that still come would reset the connection, and the reset
/// could overtake the answer.
#[test]
fn lingering_close_follows_a_refused_request_with_connection_close() {
    let origin = first_line_origin();
    let gate = lockgate().start(&plain_site(origin.address()));
    let lengths = "Content-Length: 1\r\nContent-Length: 2\r\n";
    for request in [
        format!("POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{lengths}\r\n"),
        "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\nConnection: close\r\n\r\n".to_owned(),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(&request);
        assert!(matches!(client.answer().status(), 400 | 501), "{request:?}");
        client.expect_end();
        // A closed socket would answer the first of these by a reset, which the second would meet.
        for _ in 0..2 {
            client.stream.write_all(b"x").expect("somebody listens");
        }
    }
}
