//! A forward proxy without a tunnel: requests for `http:` URLs, in absolute-form (RFC 9112 §3.2.2).

use lockgate_testkit::h2::Client;
use lockgate_testkit::{Http, Message, Origin};

use super::{connect, ping_pong, tunnels};
use crate::scene::{deserted, lockgate};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn forwarding(keys: &str) -> String {
    tunnels(&format!("forward = true\n{keys}"))
}

/// The head of a request as its target has got it.
fn received_request(origin: &Origin) -> (Http, Message) {
    let mut upstream = origin.http();
    let request = upstream.request();
    (upstream, request)
}

#[test]
fn a_forwarded_request_loses_its_hop_by_hop_fields() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&forwarding(""));
    let mut client = Http::connect(gate.address());
    let port = origin.socket_address().port();
    client.send(format!(
        "GET http://LocalHost:{port}/a//b/%2e%2e/c?d=%41&e HTTP/1.1\r\nHost: other.test\r\n\
         Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nAuthorization: Basic aW5uZXI=\r\n\
         X-Forwarded-For: 192.0.2.1\r\nX-Request-Id: theirs\r\nConnection: X-Hop\r\nX-Hop: 1\r\nAccept: */*\r\n\r\n"
    ));
    let (mut upstream, request) = received_request(&origin);
    assert_eq!(request.first_line(), "GET /a//b/%2e%2e/c?d=%41&e HTTP/1.1");
    for (field, value) in [
        ("host", Some(format!("LocalHost:{port}"))),
        ("authorization", Some("Basic aW5uZXI=".to_owned())),
        // Forwarding fields of the client pass unchanged.
        ("x-forwarded-for", Some("192.0.2.1".to_owned())),
        ("x-request-id", Some("theirs".to_owned())),
        ("via", Some("1.1 lockgate".to_owned())),
        ("accept", Some("*/*".to_owned())),
        ("proxy-authorization", None),
        ("proxy-connection", None),
        ("connection", None),
        ("x-hop", None),
        ("forwarded", None),
        ("x-forwarded-host", None),
    ] {
        assert_eq!(
            request.field(field),
            value.as_deref(),
            "{field} in {request:?}"
        );
    }
    upstream.send(
        "HTTP/1.1 200 OK\r\nProxy-Authenticate: Basic realm=\"evil\"\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nok",
    );
    let answer = client.answer();
    assert_eq!(
        (answer.status(), answer.text(), answer.field("x-own")),
        (200, "ok", Some("1"))
    );
    assert_eq!(answer.field("proxy-authenticate"), None);
    let line = gate.line("the request", |line| line["method"] == "GET");
    assert_eq!(
        (&line["endpoint"], &line["status"]),
        (&origin.address().into(), &200.into()),
        "{line}"
    );
}

#[test]
fn every_request_of_a_forward_proxy_connection_is_checked() {
    let (one, other) = (Origin::tcp(), Origin::tcp());
    let gate = lockgate().start(&forwarding("deny = [\"127.0.0.9\"]"));
    let mut client = Http::connect(gate.address());
    for origin in [&one, &other, &one] {
        client.send(format!(
            "POST http://{}/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody",
            origin.address()
        ));
        let (mut upstream, request) = received_request(origin);
        assert_eq!(
            (request.text(), request.field("x-request-id")),
            ("body", None)
        );
        upstream.send(OK);
        assert_eq!(client.answer().text(), "ok");
        // It is for one request.
        upstream.expect_end();
    }
    for (url, status) in [
        ("http://127.0.0.9/".to_owned(), 403),
        ("http://10.0.0.1/".to_owned(), 403),
        (format!("http://{}/", deserted()), 502),
        ("https://127.0.0.1/".to_owned(), 501),
        ("/".to_owned(), 400),
        ("http://user@127.0.0.1/".to_owned(), 400),
        ("ftp://127.0.0.1/".to_owned(), 400),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(format!("GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        assert_eq!(client.answer().status(), status, "{url}");
    }
    // And then a tunnel.
    client.send(connect(&one.address()));
    client.head();
    ping_pong(&mut client, &mut Http::over(one.accept()));
}

#[test]
fn forward_proxy_uses_port_80_which_needs_no_allow() {
    let gate = lockgate().start("[tunnel.\"127.0.0.1:0\"]\nforward = true\n");
    let mut client = Http::connect(gate.address());
    for (url, error) in [
        ("http://127.0.0.1/", "destination_ip_prohibited"),
        ("http://127.0.0.1:80/", "destination_ip_prohibited"),
        ("http://127.0.0.1:8080/", "http_request_denied"),
    ] {
        client.send(format!("GET {url} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(answer.status(), 403, "{url}");
        assert!(
            answer.field("proxy-status").unwrap().contains(error),
            "{url}"
        );
    }
    client.send("TRACE http://127.0.0.1/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status(), 405);
    assert!(answer.field("allow").unwrap().starts_with("CONNECT, GET"));
}

#[test]
fn curl_uses_the_forward_proxy_without_a_tunnel() {
    let origin = Origin::tcp().answering(|request| {
        let said = request.first_line().to_owned();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}",
            said.len()
        )
        .into_bytes()
    });
    let gate = lockgate().start(&forwarding(""));
    let curl = std::process::Command::new("curl")
        .args([
            "-sS",
            "--max-time",
            "20",
            "--proxy",
            &format!("http://{}", gate.address()),
        ])
        .arg(format!("http://{}/page?q", origin.address()))
        .output()
        .expect("curl is there");
    let said = String::from_utf8_lossy(&curl.stdout);
    assert_eq!(
        said,
        "GET /page?q HTTP/1.1",
        "{}",
        String::from_utf8_lossy(&curl.stderr)
    );
}

#[test]
fn over_http2_forward_proxy_requests_have_a_scheme() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&forwarding("protocols = [\"h2c\"]"));
    let client = Client::connect(gate.address());
    let request = |url: String| http::Request::post(url).body(()).unwrap();
    let mut exchange = client.begin(request(format!("http://{}/a?b", origin.address())), false);
    exchange.send("body", true);
    let (mut upstream, got) = received_request(&origin);
    assert_eq!(
        (got.first_line(), got.text()),
        ("POST /a?b HTTP/1.1", "body")
    );
    assert_eq!(
        (got.field("host"), got.field("via")),
        (Some(&*origin.address()), Some("2.0 lockgate"))
    );
    upstream.send(OK);
    let answer = exchange.answer();
    assert_eq!((answer.status, answer.text()), (200, "ok"));
    assert_eq!(
        client
            .begin(request(format!("https://{}/", origin.address())), true)
            .answer()
            .status,
        501
    );
    assert_eq!(
        client
            .begin(request("http://127.0.0.1:0/".to_owned()), true)
            .answer()
            .status,
        400
    );
    for (status, scheme) in [(200, "http"), (501, "https")] {
        let line = gate.line("what was asked for", |line| line["status"] == status);
        assert_eq!(line["scheme"], scheme, "{line}");
    }
}

#[test]
fn a_truncated_forwarded_response_stays_truncated() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&forwarding(""));
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET http://{}/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        origin.address()
    ));
    let (mut upstream, _) = received_request(&origin);
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    drop(upstream);
    client.head();
    let (body, _) = client.end();
    assert_eq!(body, b"half");
    let line = gate.line("why", |line| line["method"] == "GET");
    assert_eq!(line["side"], "upstream", "{line}");
    // A target that sends nothing is a failure of its own, and not retried.
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET http://{}/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        origin.address()
    ));
    drop(received_request(&origin));
    assert_eq!(client.answer().status(), 502);
    assert!(!origin.has_one(std::time::Duration::ZERO));
}

#[test]
fn a_forwarded_response_has_the_global_timeout() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&format!(
        "timeouts = {{ response = \"100ms\" }}\n{}",
        forwarding("")
    ));
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET http://{}/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        origin.address()
    ));
    let (_upstream, _) = received_request(&origin);
    let answer = client.answer();
    assert_eq!(answer.status(), 504);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("http_response_timeout")
    );
}

#[test]
fn a_forwarded_upgrade_counts_as_a_tunnel() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&forwarding("max_per_client = 1\nmax_bytes = \"1KB\""));
    let ask = format!(
        "GET http://{}/ HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        origin.address()
    );
    let mut first = Http::connect(gate.address());
    first.send(&ask);
    let (mut upstream, _) = received_request(&origin);
    upstream.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert!(first.head().starts_with("HTTP/1.1 101 "));
    ping_pong(&mut first, &mut upstream);
    let mut second = Http::connect(gate.address());
    second.send(&ask);
    assert_eq!(second.answer().status(), 429);
    first.send([b'x'; 2_000]);
    first.wait_closed();
    let line = gate.line("the tunnel", |line| {
        line["cause"] == "limit" && line["method"].is_null()
    });
    assert_eq!(line["side"], "lockgate", "{line}");
}
