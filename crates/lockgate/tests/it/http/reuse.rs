//! Connections to origins that are reused, and those that must not be.

use lockgate_testkit::{Http, Lockgate, Origin, Tls, server_config};

use super::{OK, get, plain_site};
use crate::scene::{NAME, Site, arrived, ended, lockgate, text};

/// Sends a request on a connection of its own, and answers it; returns the origin's connection.
fn served_connection(gate: &Lockgate, origin: &Origin, request: &str, answer: &str) -> Http {
    let mut client = Http::connect(gate.address());
    client.send(request);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(answer);
    assert_eq!(client.answer().text(), "ok");
    upstream
}

#[test]
fn keep_alive_upstream_connections_are_reused_after_complete_responses() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let answers = [
        OK,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ];
    let mut upstream = None;
    for (number, answer) in answers.iter().enumerate() {
        let request = match number % 2 {
            0 => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
                .to_owned(),
            _ => get("/"),
        };
        let mut client = Http::connect(gate.address());
        client.send(request);
        let upstream = upstream.get_or_insert_with(|| origin.http());
        upstream.request();
        upstream.send_in(1, answer);
        while client.answer().status() < 200 {}
    }
    // RFC 9110 §9.3.2: nothing follows a response to HEAD.
    let mut client = Http::connect(gate.address());
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let upstream = upstream.as_mut().unwrap();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    client.head();
    client.send(get("/"));
    upstream.request();
    upstream.send(OK);
    assert_eq!(client.answer().text(), "ok");
    assert!(
        !origin.has_one(std::time::Duration::ZERO),
        "one connection is enough for all of them"
    );
}

/// RFC 9112 §9.3: the origin announces the close, or does not announce keep-alive. For bytes behind
/// a response see `hostile_origins`.
#[test]
fn connection_close_of_the_origin_prevents_reuse() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    for answer in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ] {
        for method in ["GET", "POST"] {
            let mut first = served_connection(
                &gate,
                &origin,
                &format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"),
                answer,
            );
            first.wait_closed();
        }
    }
    // Each of them needed a connection of its own, and so does the next request.
    served_connection(&gate, &origin, &get("/"), OK);
}

/// Unsolicited bytes of an origin are no client's response ("response queue poisoning").
#[test]
fn unsolicited_bytes_of_the_origin_prevent_reuse() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let served = server_config(&site.issued, None);
    let (plain, secure) = (Origin::tcp(), Origin::tcp());
    let sites = plain_site(plain.address())
        + &format!(
            "[site.\":0\".path.\"/tls\"]\nproxy = {{ to = \"{}\", tls = {{ name = \"{NAME}\", ca = \"{}\" }} }}\n",
            secure.address(),
            text(&ca)
        );
    let gate = lockgate().start(&sites);
    let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for request in [get("/"), format!("POST / HTTP/1.1\r\nHost: {NAME}\r\n\r\n")] {
        let mut first = served_connection(&gate, &plain, &request, OK);
        first.send(evil);
        arrived(&plain);
        let mut client = Http::connect(gate.address());
        client.send(&request);
        let mut upstream = plain.http();
        upstream.request();
        upstream.send(OK);
        assert_eq!(client.answer().text(), "ok");
        first.wait_closed();
        drop(upstream);
        ended(&plain);
    }
    let mut client = Http::connect(gate.address());
    client.send(get("/tls"));
    let mut first = Http::over(Tls::accept(&served, secure.accept()).unwrap());
    first.request();
    first.send(OK);
    assert_eq!(client.answer().text(), "ok");
    first.send(evil);
    arrived(&secure);
    client.send(get("/tls"));
    let mut upstream = Http::over(Tls::accept(&served, secure.accept()).unwrap());
    upstream.request();
    upstream.send(OK);
    assert_eq!(client.answer().text(), "ok");
    // And a clean one is reused.
    client.send(get("/tls"));
    assert!(upstream.request().head.starts_with("GET /tls"));
    upstream.send(OK);
    assert_eq!(client.answer().text(), "ok");
}

/// An origin that has not read all of a body would parse the rest of it as a request.
#[test]
fn an_unfinished_upload_prevents_reuse() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let rest = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        4 + rest.len()
    );
    for refusal in [OK, "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno"] {
        let mut client = Http::connect(gate.address());
        client.send(&head);
        client.send("half");
        let mut upstream = origin.http();
        upstream.head();
        upstream.expect("half");
        upstream.send(refusal);
        client.answer();
        // The bytes behind it are the rest of the body, however they look: here, and there.
        client.send(rest);
        let (got, _) = upstream.end();
        assert_eq!(
            got.escape_ascii().to_string(),
            rest.escape_default().to_string()
        );
        let mut other = Http::connect(gate.address());
        other.send(get("/"));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(OK);
        assert_eq!(other.answer().text(), "ok");
        drop(upstream);
        ended(&origin);
    }
}

/// A client that leaves in the middle of a response takes the connection with it: the rest is still
/// to come there.
#[test]
fn an_unread_response_prevents_reuse() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    let mut upstream = origin.http();
    upstream.request();
    // More than is written until the reset is met: the response is never whole.
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nhalf");
    client.head();
    client.exactly(4);
    client.stream.reset();
    // It is met by the next write.
    lockgate_testkit::eventually("the reset is met", || {
        std::io::Write::write_all(&mut upstream.stream, b"x").err()
    });
    assert_eq!(gate.next_line()["side"], "downstream");
    served_connection(&gate, &origin, &get("/"), OK);
    // While it waits for a response.
    let mut client = Http::connect(gate.address());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let mut upstream = origin.http();
    upstream.request();
    client.stream.reset();
    upstream.wait_closed();
}
