//! Connections for requests of files: bytes behind a response, and requests that follow.

use lockgate_testkit::{Wire, bytes};

use super::*;

const LARGE: usize = 5 << 20;

fn start() -> (Www, Served) {
    let www = Www::with(&[
        ("a.txt", "a"),
        ("empty", ""),
        ("folder/index.html", "index"),
        ("404.html", "lost"),
    ]);
    www.write("large.bin", bytes(1, LARGE));
    www.write("medium.bin", bytes(2, 70_000));
    let served = Served::start(&www, "not_found = \"/404.html\"");
    (www, served)
}

#[test]
fn keep_alive_holds_after_every_kind_of_file_response() {
    let (_www, served) = start();
    for way in WAYS {
        let mut client = served.connect(way);
        let etag = client
            .get("/medium.bin", &[])
            .field("etag")
            .unwrap()
            .to_owned();
        for _ in 0..2 {
            for (method, path, fields, status) in [
                ("GET", "/a.txt", &[][..], 200),
                ("HEAD", "/a.txt", &[], 200),
                ("GET", "/empty", &[], 200),
                ("HEAD", "/empty", &[], 200),
                ("GET", "/medium.bin", &[], 200),
                ("HEAD", "/large.bin", &[], 200),
                ("GET", "/large.bin", &[], 200),
                ("GET", "/large.bin", &[("Range", "bytes=5000000-")], 206),
                ("GET", "/medium.bin", &[("Range", "bytes=0-9,70-79")], 206),
                ("GET", "/medium.bin", &[("If-None-Match", &etag)], 304),
                ("HEAD", "/medium.bin", &[("If-None-Match", &etag)], 304),
                ("GET", "/medium.bin", &[("If-Match", "\"x\"")], 412),
                ("GET", "/medium.bin", &[("Range", "bytes=70000-")], 416),
                ("GET", "/folder", &[], 308),
                ("HEAD", "/folder", &[], 308),
                ("GET", "/gone", &[], 404),
                ("HEAD", "/gone", &[], 404),
                ("OPTIONS", "/a.txt", &[], 204),
                ("DELETE", "/a.txt", &[], 405),
            ] {
                let answer = client.ask(method, path, fields);
                assert_eq!(answer.status, status, "{way:?} {method} {path} {fields:?}");
                assert_ne!(
                    answer.field("connection"),
                    Some("close"),
                    "{way:?} {method} {path}"
                );
            }
        }
        assert_eq!(client.get("/a.txt", &[]).text(), "a", "{way:?}");
    }
}

/// RFC 9112 §9.3.2: in the order of the requests, and none is lost.
#[test]
fn pipelined_requests_for_files_are_answered_in_order() {
    let (_www, served) = start();
    let mut client = Http::connect(served.gate.address());
    let paths = [
        "/a.txt",
        "/large.bin",
        "/empty",
        "/medium.bin",
        "/gone",
        "/folder",
        "/large.bin",
        "/a.txt",
    ];
    let requests: String = paths.iter().map(|path| head("GET", path, &[])).collect();
    client.send(requests.repeat(3));
    for _ in 0..3 {
        for path in paths {
            let answer = client.answer();
            let (status, len) = match path {
                "/a.txt" => (200, Some(1)),
                "/empty" => (200, Some(0)),
                "/large.bin" => (200, Some(LARGE)),
                "/medium.bin" => (200, Some(70_000)),
                "/gone" => (404, Some(4)),
                _ => (308, None),
            };
            assert_eq!(answer.status(), status, "{path}");
            assert!(
                len.is_none_or(|len| answer.body.len() == len),
                "{path}: {}",
                answer.body.len()
            );
        }
    }
    // HEAD among them has no body.
    client.send(head("HEAD", "/large.bin", &[]) + &head("GET", "/a.txt", &[]));
    assert!(client.head().contains("Content-Length: 5242880\r\n"));
    assert_eq!(client.answer().text(), "a");
}

/// CWE-444: the body of a request is never parsed as the next one.
#[test]
fn an_unread_request_body_is_never_parsed_as_a_request() {
    let (_www, served) = start();
    let inner = head("GET", "/medium.bin", &[]);
    for framing in [
        format!("Content-Length: {}\r\n\r\n{inner}", inner.len()),
        format!(
            "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{inner}\r\n0\r\n\r\n",
            inner.len()
        ),
    ] {
        for path in ["/a.txt", "/large.bin", "/gone", "/folder"] {
            let mut client = Http::connect(served.gate.address());
            client.send(format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n{framing}"));
            let answer = client.answer();
            assert!(
                matches!(answer.status(), 200 | 404 | 308),
                "{path}: {}",
                answer.head
            );
            if answer.field("connection") == Some("close") {
                assert!(client.rest().is_empty(), "{path}: nothing follows");
            } else {
                assert_eq!(
                    ask_over(&mut client, "GET", "/a.txt", &[]).text(),
                    "a",
                    "{path}: nothing is between"
                );
            }
        }
    }
    // A body that never comes is not waited for.
    let mut client = Http::connect(served.gate.address());
    client.send(format!(
        "GET /a.txt HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 1000000\r\n\r\n"
    ));
    assert_eq!(client.answer().text(), "a");
    let mut client = Http::connect(served.gate.address());
    client.send(format!(
        "GET /a.txt HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert_eq!(
        client.answer().text(),
        "a",
        "RFC 9110 §10.1.1: a final answer instead of 100"
    );
}

#[test]
fn a_client_leaving_mid_download_leaks_no_descriptor() {
    let (_www, served) = start();
    let before = fs::read_dir(format!("/proc/{}/fd", served.gate.pid()))
        .unwrap()
        .count();
    for round in 0..20 {
        let mut wire = Wire::connect_narrow(served.gate.address());
        wire.send(head("GET", "/large.bin", &[]));
        wire.exactly(100_000);
        if round % 2 == 0 {
            wire.reset()
        } else {
            drop(wire)
        }
        let secure = served.connect(Way::Secure);
        let Asking::Secure(mut http) = secure else {
            unreachable!()
        };
        http.send(head("GET", "/large.bin", &[]));
        http.exactly(100_000);
        drop(http);
        let Asking::Http2(client) = served.connect(Way::Http2) else {
            unreachable!()
        };
        let mut request = Client::request(Method::GET, "/large.bin");
        *request.uri_mut() = format!("https://{NAME}/large.bin").parse().unwrap();
        let mut exchange = client.begin(request, true);
        exchange.piece().unwrap();
        if round % 2 == 0 {
            exchange.reset(lockgate_testkit::h2::frame::code::CANCEL);
            drop(exchange);
            assert_eq!(get(&served.gate, "/a.txt", &[]).text(), "a");
        }
    }
    served
        .gate
        .wait_for_sample("lockgate_connections", &["listener="], 0.0);
    // The large file is still known, by one descriptor.
    lockgate_testkit::eventually("descriptors are given back", || {
        let now = fs::read_dir(format!("/proc/{}/fd", served.gate.pid()))
            .unwrap()
            .count();
        (now <= before + 2).then_some(())
    });
    let lines = served.gate.lines();
    let mut ended = lines.iter().filter(|line| line["path"] == "/large.bin");
    assert!(
        ended.all(|line| line["side"] != "lockgate" && line["cause"] != "internal"),
        "{lines:?}"
    );
}

/// HTTP/1.0 and `Connection: close` get the response and then the end.
#[test]
fn connection_close_and_http_1_0_close_after_the_body() {
    let (_www, served) = start();
    for request in [
        "GET /medium.bin HTTP/1.0\r\n\r\n".to_owned(),
        format!("GET /medium.bin HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n"),
    ] {
        let mut client = Http::connect(served.gate.address());
        client.send(request);
        assert!(client.head().contains("Content-Length: 70000\r\n"));
        assert!(client.rest() == bytes(2, 70_000));
    }
}
