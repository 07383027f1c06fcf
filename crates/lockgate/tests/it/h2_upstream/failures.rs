//! Requests that fail: which are retried, what the client gets, and that nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::http::Method;
use lockgate_testkit::h2::frame::{self, code, flag, kind, setting};
use lockgate_testkit::h2::{Client, Frame, Origin, Peer, ScriptedResponse, hpack};
use lockgate_testkit::{
    Http, Lockgate, Message, Origin as Scripted, Tls, Wire, bytes, eventually, server_config,
};

use super::{ask, client, get, in_front_of, pooled, post};
use crate::scene::{NAME, Site, deserted, ended, lockgate, text};

/// Refuses as many requests as `count` says, by this code, then answers.
fn refusing_origin(count: usize, code: u32) -> (Origin, Arc<AtomicUsize>) {
    let (left, seen) = (AtomicUsize::new(count), Arc::new(AtomicUsize::new(0)));
    let asked = Arc::clone(&seen);
    let origin = Origin::plain(move |_| {
        asked.fetch_add(1, Ordering::SeqCst);
        let refuses = left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            })
            .is_ok();
        if refuses {
            ScriptedResponse::refuse(code)
        } else {
            ScriptedResponse::ok("ok")
        }
    });
    (origin, seen)
}

/// The next connection to a scripted origin, which allows so many streams.
pub(super) fn accept(origin: &Scripted, streams: u32) -> Peer {
    Peer::accept(
        origin.accept(),
        &[(setting::MAX_CONCURRENT_STREAMS, streams)],
    )
}

/// The next request, as far as its head: its stream.
pub(super) fn request(peer: &mut Peer) -> u32 {
    let headers = peer.read_until(kind::HEADERS);
    peer.fields(&headers);
    headers.stream
}

/// Answers 200 without a body.
pub(super) fn answer(peer: &mut Peer, stream: u32) {
    peer.headers(stream, &[(":status", "200")], true);
}

fn expect_502(answer: &Message, error: &str) {
    assert_eq!(answer.status(), 502, "{}", answer.head);
    let status = answer.field("proxy-status").unwrap();
    assert!(status.contains(&format!("error={error}")), "{status}");
}

#[test]
fn a_refused_stream_is_retried_for_any_method() {
    let (origin, seen) = refusing_origin(1, code::REFUSED_STREAM);
    let gate = in_front_of(&origin);
    assert_eq!(ask(&gate, post(b"once")).text(), "ok");
    assert_eq!(
        (seen.load(Ordering::SeqCst), origin.accepted()),
        (2, 1),
        "on the same connection"
    );
    // A second refusal is the response.
    let (origin, seen) = refusing_origin(2, code::REFUSED_STREAM);
    let gate = in_front_of(&origin);
    expect_502(&ask(&gate, post(b"twice")), "connection_terminated");
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[test]
fn a_refused_stream_is_retried_on_another_endpoint() {
    let (refuses, _) = refusing_origin(usize::MAX, code::REFUSED_STREAM);
    let answers = Origin::plain(|_| ScriptedResponse::ok("other"));
    let gate = lockgate().start(&pooled(
        &[&refuses.address(), &answers.address()],
        "balance = \"round-robin\"\nretry = { budget = \"100%\" }",
    ));
    for _ in 0..10 {
        assert_eq!(ask(&gate, post(b"x")).text(), "other");
    }
    assert!(refuses.accepted() > 0);
}

#[test]
fn a_reset_request_that_may_have_run_is_not_retried() {
    let (origin, seen) = refusing_origin(1, code::INTERNAL_ERROR);
    let gate = in_front_of(&origin);
    expect_502(&ask(&gate, post(b"once")), "connection_terminated");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    let log = gate.line("the request", |line| line["status"] == 502);
    assert!(log.to_string().contains("INTERNAL_ERROR"), "{log}");
}

#[test]
fn requests_above_the_last_stream_of_goaway_are_retried() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let client = client(&gate);
    let mut first = client.begin(Client::request(Method::POST, "/1"), true);
    let mut one = accept(&origin, 100);
    let kept = request(&mut one);
    let second = client.begin(Client::request(Method::POST, "/2"), true);
    request(&mut one);
    one.goaway(kept, code::NO_ERROR);
    // The second one comes again, on a new connection; the first is finished on the old one.
    let mut two = accept(&origin, 100);
    let stream = request(&mut two);
    answer(&mut two, stream);
    assert_eq!(second.answer().status, 200);
    answer(&mut one, kept);
    assert_eq!(first.head().unwrap().status, 200);
    assert_eq!(first.answer().reset, None);
    let (_, end) = one.end();
    end.unwrap();
}

/// The second endpoint reads little, and answers before it has got again as much as the first one
/// had.
#[test]
fn a_retried_request_body_is_complete_despite_an_early_response() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let body = bytes(5, 50_000);
    let mut http = Http::connect(gate.address());
    http.send(format!(
        "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    http.send(&body[..40_000]);
    let mut one = accept(&origin, 100);
    request(&mut one);
    let mut got = 0;
    while got < 40_000 {
        got += one.read_until(kind::DATA).payload.len();
    }
    one.goaway(0, code::NO_ERROR);
    let little = [
        (setting::MAX_CONCURRENT_STREAMS, 100),
        (setting::INITIAL_WINDOW_SIZE, 1_000),
    ];
    let mut two = Peer::accept(origin.accept(), &little);
    let stream = request(&mut two);
    let mut got = two.read_until(kind::DATA).payload;
    two.headers(stream, &[(":status", "200")], false);
    assert!(http.head().starts_with("HTTP/1.1 200 "));
    http.send(&body[40_000..]);
    two.window_update(stream, 100_000);
    loop {
        let data = two.read_until(kind::DATA);
        got.extend_from_slice(&data.payload);
        if data.ends_stream() {
            break;
        }
    }
    assert!(got == body, "{} bytes of {}", got.len(), body.len());
}

/// An idle connection may be closed at any time.
#[test]
fn a_stale_shared_http2_connection_fails_no_request() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    for abrupt in [false, true, false] {
        let mut http = Http::connect(gate.address());
        http.send(get("/"));
        let mut one = accept(&origin, 100);
        let stream = request(&mut one);
        answer(&mut one, stream);
        assert_eq!(http.answer().status(), 200);
        if abrupt {
            http.send(get("/"));
            request(&mut one);
            one.stream.reset();
        } else {
            drop(one);
            ended(&origin);
            http.send(post(b"again"));
        }
        let mut two = accept(&origin, 100);
        let stream = request(&mut two);
        answer(&mut two, stream);
        assert_eq!(http.answer().status(), 200);
        two.goaway(stream, code::NO_ERROR);
        two.end().1.unwrap();
    }
}

#[test]
fn many_first_requests_share_one_connection_attempt() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let mut clients: Vec<_> = (0..20).map(|_| Http::connect(gate.address())).collect();
    for http in &mut clients {
        http.send(get("/"));
    }
    let mut peer = accept(&origin, 100);
    for _ in 0..20 {
        let stream = request(&mut peer);
        answer(&mut peer, stream);
    }
    for http in &mut clients {
        assert_eq!(http.answer().status(), 200);
    }
    assert!(!origin.has_one(std::time::Duration::ZERO));
}

#[test]
fn an_unreachable_http2_endpoint_is_a_502_for_all_waiting() {
    let gate = lockgate().start(&pooled(&[&deserted().to_string()], ""));
    let mut clients: Vec<_> = (0..5).map(|_| Http::connect(gate.address())).collect();
    for http in &mut clients {
        http.send(post(b"x"));
    }
    for http in &mut clients {
        expect_502(&http.answer(), "connection_refused");
    }
}

#[test]
fn an_endpoint_that_speaks_no_http2_is_a_502() {
    let origin = Scripted::tcp()
        .answering(|_| b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec());
    let gate = lockgate().start(&pooled(&[origin.address()], ""));
    assert_eq!(ask(&gate, get("/")).status(), 502);
    let log = gate.line("the request", |line| line["status"] == 502);
    assert!(log.to_string().contains("HTTP/2 failed"), "{log}");
}

/// It would take our bytes for its own protocol, and send nothing for a while.
#[test]
fn an_endpoint_without_h2_in_alpn_is_a_502() {
    let site = Site::new();
    let origin = Scripted::tcp();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let gate = lockgate().start(&format!(
        "[pool.app]\nprotocol = \"h2\"\nendpoints = [\"{}\"]\ntls = {{ ca = \"{ca}\", name = \"{NAME}\" }}\n\
         [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:app\"\n",
        origin.address()
    ));
    let mut http = Http::connect(gate.address());
    http.send(get("/"));
    let _silent = Tls::accept(&server_config(&site.issued, None), origin.accept()).unwrap();
    assert_eq!(http.answer().status(), 502);
    let log = gate.line("the request", |line| line["status"] == 502);
    assert!(log.to_string().contains("ALPN"), "{log}");
}

#[test]
fn a_truncated_http2_response_is_never_complete() {
    let origin = Origin::plain(|_| {
        ScriptedResponse::new(200)
            .piece("half")
            .then_reset(code::INTERNAL_ERROR)
    });
    let gate = in_front_of(&origin);
    let mut http = Http::connect(gate.address());
    http.send(get("/"));
    let (bytes, _) = http.end();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        text.contains("half") && !text.ends_with("0\r\n\r\n"),
        "{text}"
    );
    let answer = client(&gate)
        .begin(Client::request(Method::GET, "/"), true)
        .answer();
    // A reset may overtake the data before it (RFC 9113 §6.4).
    assert_eq!(answer.reset, Some(code::INTERNAL_ERROR));
    assert!("half".starts_with(answer.text()));
}

#[test]
fn a_dying_http2_endpoint_resets_its_running_responses() {
    let origin = Origin::plain(|_| ScriptedResponse::new(200).piece("half").then_nothing());
    let gate = in_front_of(&origin);
    let client = client(&gate);
    let mut exchange = client.begin(Client::request(Method::GET, "/"), true);
    assert_eq!(exchange.piece().unwrap().as_deref(), Some(&b"half"[..]));
    origin.drop_all();
    assert_eq!(exchange.answer().reset, Some(code::INTERNAL_ERROR));
    // The others find a new connection.
    origin.serve();
    eventually("it serves again", || {
        let mut exchange = client.begin(Client::request(Method::GET, "/"), true);
        (exchange.head().unwrap().status == 200).then_some(())
    });
}

/// Nothing is left of it, neither at the endpoint nor of the connection's window.
#[test]
fn a_client_that_leaves_sends_rst_stream_upstream() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let mut peer = None;
    for by_h2 in [true, false] {
        if by_h2 {
            let client = client(&gate);
            let mut exchange = client.begin(Client::request(Method::GET, "/"), true);
            let peer = peer.get_or_insert_with(|| accept(&origin, 100));
            let stream = request(peer);
            exchange.reset(code::CANCEL);
            let reset = peer.read_until(kind::RST_STREAM);
            assert_eq!((reset.stream, reset.number(0)), (stream, code::CANCEL));
        } else {
            let mut http = Http::connect(gate.address());
            http.send(get("/"));
            let peer = peer.as_mut().unwrap();
            let stream = request(peer);
            http.stream.reset();
            let reset = peer.read_until(kind::RST_STREAM);
            assert_eq!((reset.stream, reset.number(0)), (stream, code::CANCEL));
        }
    }
}

#[test]
fn unread_response_data_returns_its_flow_control_window() {
    let origin = Origin::plain(|_| {
        ScriptedResponse::new(200)
            .piece(vec![1; 900_000])
            .then_nothing()
    });
    let gate = in_front_of(&origin);
    // More than the connection's window in all.
    for _ in 0..150 {
        let mut http = Http::connect(gate.address());
        http.send(get("/"));
        assert!(http.head().starts_with("HTTP/1.1 200 "));
        http.stream.reset();
    }
    let mut http = Http::connect(gate.address());
    http.send(get("/"));
    http.head();
    let mut got = 0;
    while got < 900_000 {
        got += http.chunk().expect("it comes whole").len();
    }
    assert_eq!(origin.accepted(), 1);
}

/// A silent endpoint gets a PING long before the response timeout.
#[test]
fn a_missing_ping_ack_fails_requests_of_the_connection() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let mut http = Http::connect(gate.address());
    http.send(get("/"));
    let mut silent = accept(&origin, 100);
    let stream = request(&mut silent);
    answer(&mut silent, stream);
    assert_eq!(http.answer().status(), 200);
    // By now its settings are there and ours acknowledged: behind this request either would be a
    // sign of life.
    http.send(get("/"));
    request(&mut silent);
    silent.acknowledges = false;
    let ping = silent.read_until(kind::PING);
    assert_eq!(ping.flags & flag::ACK, 0);
    let _ = silent.end();
    http.expect("HTTP/1.1 502 ");
    let log = gate.line("the request", |line| line["status"] == 502);
    assert!(log.to_string().contains("PING"), "{log}");
}

#[test]
fn idle_requests_limits_the_requests_of_an_http2_connection() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], "idle = { requests = 2 }"));
    let mut http = Http::connect(gate.address());
    for _ in 0..2 {
        let mut peer = None;
        for _ in 0..2 {
            http.send(get("/"));
            let peer: &mut Peer = peer.get_or_insert_with(|| accept(&origin, 100));
            let stream = request(peer);
            answer(peer, stream);
            assert_eq!(http.answer().status(), 200);
        }
        let goodbye = peer.unwrap().goodbye();
        assert_eq!(goodbye.code, code::NO_ERROR);
    }
}

#[test]
fn idle_http2_connections_close_after_their_timeout() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], "idle = { for = \"1s\" }"));
    let mut http = Http::connect(gate.address());
    http.send(get("/"));
    let mut peer = accept(&origin, 100);
    let stream = request(&mut peer);
    answer(&mut peer, stream);
    assert_eq!(http.answer().status(), 200);
    assert_eq!(peer.goodbye().code, code::NO_ERROR);
}

#[test]
fn max_limits_concurrent_requests_to_an_http2_endpoint() {
    let origin = Scripted::tcp();
    let endpoint = format!(
        "endpoints = [{{ addr = \"{}\", max = 1 }}]",
        origin.address()
    );
    let gate = lockgate()
        .start(&pooled(&["127.0.0.1:1"], "").replace("endpoints = [\"127.0.0.1:1\"]", &endpoint));
    let (mut one, mut two) = (Http::connect(gate.address()), Http::connect(gate.address()));
    one.send(get("/"));
    let mut peer = accept(&origin, 100);
    let first = request(&mut peer);
    two.send(get("/"));
    eventually("the second one waits", || {
        (gate.sample("lockgate_requests_queued", &[]) == 1.0).then_some(())
    });
    assert!(
        peer.settle()
            .iter()
            .all(|frame: &Frame| frame.kind != kind::HEADERS)
    );
    answer(&mut peer, first);
    assert_eq!(one.answer().status(), 200);
    let second = request(&mut peer);
    answer(&mut peer, second);
    assert_eq!(two.answer().status(), 200);
}

fn malformed(gate: &Lockgate, origin: &Scripted, fields: &[(&str, &str)]) -> Message {
    let mut http = Http::connect(gate.address());
    http.send(get("/"));
    let mut peer = accept(origin, 100);
    let stream = request(&mut peer);
    peer.headers(stream, fields, true);
    let answer = http.answer();
    peer.goaway(stream, code::NO_ERROR);
    peer.end().1.unwrap();
    answer
}

#[test]
fn a_malformed_http2_response_head_is_a_502() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], "retry = false"));
    for fields in [
        &[(":status", "200"), ("connection", "close")][..],
        &[(":status", "200"), ("x", "a\r\nb: c")],
        &[(":status", "200"), ("content-length", "5")],
        &[(":status", "101")],
        &[("x", "y")],
    ] {
        let answer = malformed(&gate, &origin, fields);
        assert_eq!(answer.status(), 502, "{fields:?}: {}", answer.head);
    }
}

/// An origin has not read the request to its end, and does not need it (RFC 9113 §8.1).
#[test]
fn an_early_http2_response_is_forwarded() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let mut http = Http::connect(gate.address());
    http.send(format!(
        "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: {}\r\n\r\n",
        10_000_000
    ));
    http.send(vec![b'x'; 100_000]);
    let mut peer = accept(&origin, 100);
    let stream = request(&mut peer);
    peer.headers(
        stream,
        &[(":status", "413"), ("content-length", "4")],
        false,
    );
    peer.data(stream, "much", true);
    peer.reset(stream, code::NO_ERROR);
    assert_eq!(
        (http.head().lines().next(), http.exactly(4)),
        (Some("HTTP/1.1 413 Content Too Large"), b"much".to_vec())
    );
}

#[test]
fn a_response_shorter_than_content_length_is_never_complete() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let mut http = Http::connect(gate.address());
    http.send(get("/"));
    let mut peer = accept(&origin, 100);
    let stream = request(&mut peer);
    peer.headers(
        stream,
        &[(":status", "200"), ("content-length", "10")],
        false,
    );
    peer.data(stream, "four", true);
    let (bytes, _) = http.end();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        text.contains("Content-Length: 10\r\n") && body.len() <= 4,
        "{text}"
    );
    let log = gate.line("the request", |line| line["status"] == 200);
    assert_eq!(log["side"], "upstream", "{log}");
}

#[test]
fn an_http2_endpoint_with_a_wrong_certificate_gets_no_request() {
    let site = Site::new();
    let origin = Origin::tls(&site.issued, |_| ScriptedResponse::ok("ok"));
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let gate = lockgate().start(&format!(
        "[pool.app]\nprotocol = \"h2\"\nendpoints = [\"{}\"]\ntls = {{ ca = \"{ca}\", name = \"other.test\" }}\n\
         [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:app\"\n",
        origin.address()
    ));
    expect_502(&ask(&gate, get("/")), "tls_certificate_error");
}

/// The 4,097th would end the connection with all of its requests: from the 64th on it gets no more.
#[test]
fn empty_data_frames_of_an_endpoint_retire_its_connection() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], "retry = false"));
    let mut http = Http::connect(gate.address());
    for _ in 0..3 {
        http.send(get("/"));
        let mut peer = accept(&origin, 100);
        for left in (0..64).rev() {
            let stream = request(&mut peer);
            peer.headers(stream, &[(":status", "200")], false);
            peer.data(stream, "", false);
            peer.data(stream, "ok", true);
            assert_eq!(http.answer().text(), "ok");
            if left > 0 {
                http.send(get("/"));
            }
        }
        assert_eq!(peer.goodbye().code, code::NO_ERROR);
    }
}

/// Of messages of few bytes a window holds tens of thousands.
#[test]
fn unread_small_data_frames_stay_within_memory() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let mut client = Peer::over(Wire::connect(gate.address()));
    client.hello(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
    let before = gate.resident();
    let mut peer = None;
    for number in 0..6 {
        client.get(2 * number + 1, "/");
        let peer = peer.get_or_insert_with(|| accept(&origin, 100));
        let stream = request(peer);
        peer.headers(stream, &[(":status", "200")], false);
        let message = frame::frame(kind::DATA, 0, stream, [1; 20]);
        for _ in 0..10 {
            peer.send(message.repeat(5_000));
        }
    }
    let peer = peer.as_mut().unwrap();
    peer.settle();
    client.get(99, "/");
    let stream = request(peer);
    answer(peer, stream);
    client.window_update(1, 1_000_000);
    assert_eq!(client.answer(99).reset, None);
    let grown = gate.most_resident().saturating_sub(before);
    assert!(grown < 60_000_000, "{grown}");
}

/// A client that makes an endpoint send too much does not take away the responses of others.
#[test]
fn a_connection_broken_by_a_response_head_retries_other_requests() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], ""));
    let (mut one, mut two) = (Http::connect(gate.address()), Http::connect(gate.address()));
    one.send(get("/"));
    let mut peer = accept(&origin, 100);
    let stream = request(&mut peer);
    answer(&mut peer, stream);
    assert_eq!(one.answer().status(), 200);
    one.send(get("/"));
    request(&mut peer);
    two.send(post(b"x"));
    let stream = request(&mut peer);
    let cookie = "x".repeat(600_000);
    let section = hpack::section(&[(":status", "200"), ("set-cookie", &cookie)]);
    let pieces: Vec<_> = section.chunks(16_384).collect();
    peer.frame(kind::HEADERS, 0, stream, pieces[0]);
    for piece in &pieces[1..] {
        if peer
            .try_send(frame::frame(kind::CONTINUATION, 0, stream, piece))
            .is_err()
        {
            break;
        }
    }
    let mut again = accept(&origin, 100);
    let stream = request(&mut again);
    answer(&mut again, stream);
    assert_eq!(one.answer().status(), 200);
    expect_502(&two.answer(), "connection_terminated");
}

/// An oversized head is refused by itself.
#[test]
fn a_long_response_head_fails_only_its_own_request() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&pooled(&[&origin.address()], "retry = false"));
    let (mut one, mut two) = (Http::connect(gate.address()), Http::connect(gate.address()));
    one.send(get("/"));
    let mut peer = accept(&origin, 100);
    let kept = request(&mut peer);
    two.send(get("/"));
    let stream = request(&mut peer);
    let section = hpack::section(&[(":status", "200"), ("set-cookie", &"x".repeat(200_000))]);
    let pieces: Vec<_> = section.chunks(16_384).collect();
    peer.frame(kind::HEADERS, 0, stream, pieces[0]);
    for (at, piece) in pieces.iter().enumerate().skip(1) {
        let flags = if at + 1 == pieces.len() {
            flag::END_HEADERS
        } else {
            0
        };
        peer.frame(kind::CONTINUATION, flags, stream, piece);
    }
    assert_eq!(two.answer().status(), 502);
    answer(&mut peer, kept);
    assert_eq!(one.answer().status(), 200);
}
