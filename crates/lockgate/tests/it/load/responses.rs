//! Responses in every form of HTTP/1: all of them are successes.

use lockgate_load::expect::Length;
use lockgate_load::target::RequestBody;
use lockgate_testkit::{Http, Origin};

use super::{PAGE, asks, at, changed, counts, failures, text};

/// Answers each request with these bytes on a persistent connection; returns how many connections
/// five requests needed.
fn opened_for(answer: &'static str, method: &str) -> u64 {
    let server = Origin::tcp().answering(move |_| answer.into());
    let options = changed(asks(&[&at("http", &server)], 5), |options| {
        options.requests.method = Some(method.to_owned());
    });
    let counts = counts(&options);
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![], 5),
        "{answer}: {:?}",
        counts.examples
    );
    assert_eq!(counts.opened + counts.reused, 5);
    assert_eq!(counts.received, 5 * answer.len() as u64, "{answer}");
    counts.opened
}

#[test]
fn load_ends_bodiless_responses_with_their_heads() {
    for (answer, method) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "HEAD"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HEAD",
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", "GET"),
        ("HTTP/1.1 204\r\n\r\n", "DELETE"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "GET"),
    ] {
        assert_eq!(opened_for(answer, method), 1, "{answer}");
    }
    let server = Origin::tcp()
        .answering(|_| b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n".to_vec());
    let mut options = asks(&[&at("http", &server)], 5);
    options.expect.status = vec![304..=304];
    let counts = counts(&options);
    assert_eq!((counts.succeeded(), counts.opened), (5, 1));
}

#[test]
fn load_keeps_connections_by_version_and_connection_field() {
    for (answer, opened) in [
        (PAGE, 1),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n012\r\n7\r\n3456789\r\n0\r\nA: b\r\n\r\n",
            1,
        ),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 10\r\n\r\n0123456789",
            1,
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            1,
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\n0123456789",
            5,
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 10\r\n\r\n0123456789",
            5,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", 5),
    ] {
        assert_eq!(opened_for(answer, "GET"), opened, "{answer}");
    }
}

#[test]
fn load_reads_a_response_in_any_pieces() {
    let answer = "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n012\r\n0\r\nA: b\r\n\r\n";
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        while http.next_request().is_some() {
            http.send_in(1, answer);
        }
    });
    let counts = counts(&asks(&[&at("http", &server)], 5));
    assert_eq!(
        (failures(&counts), counts.succeeded(), counts.opened),
        (vec![], 5, 1)
    );
    assert_eq!(counts.received, 5 * answer.len() as u64);
}

#[test]
fn load_reads_a_response_until_close() {
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"] {
        let server = Origin::tcp().serve(move |wire| {
            let mut http = Http::over(wire.another());
            http.request();
            http.send(format!("{head}0123456789"));
        });
        let counts = counts(&asks(&[&at("http", &server)], 5));
        assert_eq!(
            (failures(&counts), counts.succeeded()),
            (vec![], 5),
            "{:?}",
            counts.examples
        );
        assert_eq!((counts.opened, server.accepted()), (5, 6));
    }
}

/// RFC 9112 §9.5: either side may close a connection at any time. An end that came with a response
/// is known before the next request.
#[test]
fn load_reopens_a_closed_connection() {
    let server = Origin::tcp().serve(|wire| {
        let mut http = Http::over(wire.another());
        http.request();
        // In one segment with the end.
        rustix::net::sockopt::set_tcp_cork(&http.stream, true).unwrap();
        http.send(PAGE);
        http.stream.finish();
        http.wait_closed();
    });
    let counts = counts(&asks(&[&at("http", &server)], 5));
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![], 5),
        "{:?}",
        counts.examples
    );
    assert_eq!((counts.opened, counts.reused), (5, 0));
}

#[test]
fn load_counts_an_early_response_and_reopens() {
    let server = Origin::tcp().serve(|wire| {
        let mut http = Http::over(wire.another());
        http.head();
        http.send(
            "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig",
        );
        // Nothing of the body is read before the half-close.
        http.stream.finish();
        http.wait_closed();
    });
    let mut options = changed(asks(&[&at("http", &server)], 3), |options| {
        options.requests.body = RequestBody::Fixed(vec![b'x'; 8 << 20].into());
    });
    options.expect.status = vec![413..=413];
    let counts = counts(&options);
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![], 3),
        "{:?}",
        counts.examples
    );
    assert_eq!((counts.opened, counts.reused), (3, 0));
}

/// A client that sends all before it reads waits forever: the buffers between both are smaller.
#[test]
fn load_reads_a_large_response_while_sending() {
    const SIZE: usize = 8 << 20;
    let server = Origin::tcp().serve(|wire| {
        let mut http = Http::over(wire.another());
        let mut writer = wire.another();
        http.head();
        writer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
        for _ in 0..SIZE / 1024 {
            let piece = http.exactly(1024);
            writer.send(&piece);
        }
    });
    let mut options = changed(asks(&[&at("http", &server)], 2), |options| {
        options.requests.body = RequestBody::Random(SIZE);
        options.connections.max_requests = Some(1);
    });
    options.expect.length = Length::Exactly(SIZE as u64);
    let counts = counts(&options);
    assert_eq!(
        (failures(&counts), counts.succeeded()),
        (vec![], 2),
        "{:?}",
        counts.examples
    );
    assert!(counts.sent > 2 * SIZE as u64 && counts.received > 2 * SIZE as u64);
}

/// RFC 9110 §9.3.2 and §15.3.5: neither has a body; bytes that come all the same belong to nothing.
#[test]
fn load_counts_a_body_where_none_is_allowed_as_length() {
    for (method, answer) in [
        ("HEAD", PAGE),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n0123456789"),
    ] {
        let server = Origin::tcp().answering(move |_| answer.into());
        let options = changed(asks(&[&at("http", &server)], 3), |options| {
            options.requests.method = Some(method.to_owned());
            options.anyway = true;
            options.requests.body = text("");
        });
        let counts = counts(&options);
        assert_eq!(
            (failures(&counts), counts.succeeded()),
            (vec![("length", 3)], 0)
        );
    }
}
