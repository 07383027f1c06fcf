//! Heads of requests and responses as they pass, byte for byte.

use lockgate_testkit::{Http, Origin};

use super::{OK, exchange_bytes, normalized, normalized_text, plain_site, secure_site};
use crate::scene::{NAME, Site, lockgate};

/// The forwarding fields for a client that requested a.test.
const TOLD: &str = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test\r\n\
                    Forwarded: for=127.0.0.1;proto=http;host=\"a.test\"\r\nX-Request-Id: ID\r\nVia: 1.1 lockgate\r\n";

#[test]
fn a_request_is_forwarded_unchanged_except_hop_by_hop_fields() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let cases: &[(&str, &str, &str)] = &[
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        // Order, spelling, repetition and bytes of values are the client's; whitespace around
        // values is not part of them (RFC 9110 §5.5).
        (
            "GET / HTTP/1.1\r\nB: 1\r\na: 2\r\nhOST:a.test\r\nb:   3\t \r\nEmpty:\r\nUtf8: \u{e9}\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test\r\nB: 1\r\na: 2\r\nb: 3\r\nEmpty: \r\nUtf8: \u{e9}\r\n",
            "",
        ),
        // RFC 9112 §3.2.2: an absolute form's own host counts, and Host is made of it.
        (
            "GET http://a.test/x?y HTTP/1.1\r\nHost: other.test\r\n\r\n",
            "GET /x?y HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        (
            "GET http://a.test HTTP/1.1\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        (
            "GET http://a.test?q HTTP/1.1\r\nHost: b\r\n\r\n",
            "GET /?q HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        // The query belongs to the application, and so do escapes and odd bytes of a path.
        (
            "GET /a%20b/%C3%A9;p=1/~?x=%2f%00%zz/../&y=|\"{}^`\\&?&a=b=c HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "GET /a%20b/%C3%A9;p=1/~?x=%2f%00%zz/../&y=|\"{}^`\\&?&a=b=c HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        (
            "GET /? HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "GET /? HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        (
            "GET //a//b HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "GET //a//b HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        // RFC 9110 §7.6.1: hop-by-hop fields end with the connection, and so do fields that
        // Connection names; but not those that routing and framing rest on ("hop-by-hop abuse").
        (
            "POST / HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, X-Drop, Host, Content-Length, x-forwarded-for\r\n\
             Keep-Alive: timeout=5\r\nProxy-Connection: close\r\nx-drop: 1\r\nX-Keep: 1\r\nContent-Length: 2\r\n\r\nhi",
            "POST / HTTP/1.1\r\nHost: a.test\r\nX-Keep: 1\r\n",
            "Content-Length: 2\r\n",
        ),
        // RFC 9110 §10.1.4: only trailers are ours to promise.
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\nTE: gzip, trailers\r\nConnection: TE\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test\r\n",
            "TE: trailers\r\nConnection: TE\r\n",
        ),
        // Only a trusted client may name another client or set the request id.
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-proto: https\r\n\
             X-Forwarded-Host: evil\r\nForwarded: for=1.1.1.1\r\nX-Request-ID: mine\r\nVia: 1.0 before\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test\r\nVia: 1.0 before\r\n",
            "",
        ),
        // RFC 9110 §8.6: a length of nothing is a length.
        (
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a.test\r\n",
            "Content-Length: 0\r\n",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        (
            "PATCH / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: Chunked\r\nTrailer: x\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            "PATCH / HTTP/1.1\r\nHost: a.test\r\nTrailer: x\r\n",
            "Transfer-Encoding: chunked\r\n",
        ),
        // RFC 9110 §7.6.2: each proxy decrements it; for other methods it is ignored.
        (
            "OPTIONS / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 10\r\nX: 1\r\n\r\n",
            "OPTIONS / HTTP/1.1\r\nHost: a.test\r\nX: 1\r\nMax-Forwards: 9\r\n",
            "",
        ),
        (
            "TRACE / HTTP/1.1\r\nHost: a.test\r\nmax-forwards: 1\r\n\r\n",
            "TRACE / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 0\r\n",
            "",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 0\r\n",
            "",
        ),
        // Unknown methods are methods (RFC 9110 §9.1).
        (
            "PROPFIND / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "PROPFIND / HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
        (
            "get / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "get / HTTP/1.1\r\nHost: a.test\r\n",
            "",
        ),
    ];
    for (request, before, after) in cases {
        let (seen, _) = exchange_bytes(&gate, &origin, request, OK);
        assert_eq!(
            seen.head,
            format!("{before}{TOLD}{after}\r\n"),
            "for {request}"
        );
    }
}

#[test]
fn an_http10_request_is_forwarded_as_http11() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let told = TOLD.replace("Via: 1.1", "Via: 1.0");
    let (seen, answer) = exchange_bytes(
        &gate,
        &origin,
        "GET /x HTTP/1.0\r\nHost: a.test\r\n\r\n",
        OK,
    );
    assert_eq!(
        seen.head,
        format!("GET /x HTTP/1.1\r\nHost: a.test\r\n{told}\r\n")
    );
    // RFC 9110 §2.5: we speak our own version, which a client of 1.0 understands.
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nDate: NOW\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    );
    // RFC 9112 §3.2: the origin must get a Host even so, if an empty one.
    let (seen, _) = exchange_bytes(&gate, &origin, "GET /x HTTP/1.0\r\n\r\n", OK);
    assert!(
        seen.head.starts_with("GET /x HTTP/1.1\r\nHost: \r\n"),
        "{}",
        seen.head
    );
    // RFC 9110 §10.1.1: an expectation of HTTP/1.0 is to be ignored; as one of 1.1 the origin would
    // heed it.
    let request =
        "POST /x HTTP/1.0\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi";
    let (seen, answer) = exchange_bytes(
        &gate,
        &origin,
        request,
        &format!("HTTP/1.1 100 Continue\r\n\r\n{OK}"),
    );
    assert_eq!(seen.field("expect"), None);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn x_forwarded_proto_is_https_over_tls() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate().start(&secure_site(&site.cert, origin.address()));
    let mut client = Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap());
    client.send_in(1, format!("GET / HTTP/1.1\r\nHost: {NAME}:8443\r\n\r\n"));
    let mut upstream = origin.http();
    assert_eq!(
        normalized(upstream.request()).head,
        format!(
            "GET / HTTP/1.1\r\nHost: {NAME}:8443\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: https\r\n\
             X-Forwarded-Host: {NAME}:8443\r\nForwarded: for=127.0.0.1;proto=https;host=\"{NAME}:8443\"\r\n\
             X-Request-Id: ID\r\nVia: 1.1 lockgate\r\n\r\n"
        )
    );
    upstream.send(OK);
    assert_eq!(client.answer().text(), "ok");
}

#[test]
fn x_forwarded_for_of_a_trusted_proxy_is_extended() {
    let origin = Origin::tcp();
    let gate = lockgate()
        .start(&("trusted = [\"127.0.0.1\"]\n".to_owned() + &plain_site(origin.address())));
    let request = "GET / HTTP/1.1\r\nHost: inner\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n\
                   X-Forwarded-Host: a.test\r\nX-Request-Id: from-the-edge\r\n\r\n";
    let (seen, _) = exchange_bytes(&gate, &origin, request, OK);
    assert_eq!(
        seen.head,
        "GET / HTTP/1.1\r\nHost: inner\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a.test\r\n\
         X-Forwarded-For: 192.0.2.1, 127.0.0.1\r\nForwarded: for=127.0.0.1;proto=http;host=\"inner\"\r\n\
         X-Request-Id: from-the-edge\r\nVia: 1.1 lockgate\r\n\r\n"
    );
}

#[test]
fn a_response_is_forwarded_unchanged_except_hop_by_hop_fields() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let cases: &[(&str, &str, &str)] = &[
        // RFC 9110 §6.6.1: a Date is added where there is none, and left where there is one.
        (
            "GET 1.1",
            "HTTP/1.1 200 Fine\r\nX: 1\r\nx: 2\r\ncontent-length: 2\r\n\r\nok",
            "HTTP/1.1 200 Fine\r\nX: 1\r\nx: 2\r\nDate: NOW\r\nContent-Length: 2\r\n\r\nok",
        ),
        (
            "GET 1.1",
            "HTTP/1.1 200 \r\ndate: yesterday\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 \r\ndate: yesterday\r\nContent-Length: 0\r\n\r\n",
        ),
        // RFC 9110 §8.6: the length that GET would get; a 204 has none.
        (
            "HEAD 1.1",
            "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nContent-Length: 99\r\n\r\n",
        ),
        (
            "HEAD 1.1",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\n\r\n",
        ),
        (
            "HEAD 1.1",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\n\r\n",
        ),
        (
            "GET 1.1",
            "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nDate: NOW\r\nContent-Length: 5\r\n\r\n",
        ),
        (
            "GET 1.1",
            "HTTP/1.1 304 Not Modified\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nDate: NOW\r\n\r\n",
        ),
        (
            "GET 1.1",
            "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nDate: NOW\r\n\r\n",
        ),
        (
            "GET 1.1",
            "HTTP/1.0 204 No Content\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nDate: NOW\r\n\r\n",
        ),
        // RFC 9112 §7.1: the origin's chunks end here; a client gets our own.
        (
            "GET 1.1",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\no\r\n001\r\nk\r\n0;x\r\nT: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: 1\r\n\r\n",
        ),
        (
            "GET 1.0",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nConnection: close\r\n\r\nok",
        ),
        // RFC 9112 §6.3 item 8.
        (
            "GET 1.1",
            "HTTP/1.1 200 OK\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        (
            "GET 1.1",
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "GET 1.0",
            "HTTP/1.0 200 OK\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nConnection: close\r\n\r\nok",
        ),
        // RFC 9112 §9.3: an HTTP/1.0 connection is kept where the client asks for it and the
        // response has a length.
        (
            "GET 1.0 keep-alive",
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
        ),
        (
            "GET 1.0 keep-alive",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nConnection: close\r\n\r\nok",
        ),
        (
            "GET 1.1 close",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        ),
        // RFC 9110 §7.6.1: the origin's Connection field is not about the client's connection.
        (
            "GET 1.1",
            "HTTP/1.1 200 OK\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\n\
             Content-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nDate: NOW\r\nContent-Length: 2\r\n\r\nok",
        ),
        // RFC 9110 §15.5.22: a 426 keeps its Upgrade.
        (
            "GET 1.1",
            "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket, x/1\r\nUpgrade: y\r\nConnection: upgrade\r\n\
             Content-Length: 2\r\n\r\nok",
            "HTTP/1.1 426 Upgrade Required\r\nDate: NOW\r\nContent-Length: 2\r\nUpgrade: websocket, x/1\r\n\
             Upgrade: y\r\nConnection: Upgrade\r\n\r\nok",
        ),
        // Unknown statuses are statuses (RFC 9110 §15).
        (
            "GET 1.1",
            "HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 799 Odd\r\nDate: NOW\r\nContent-Length: 0\r\n\r\n",
        ),
        // RFC 9112 §4: the reason and its space may be missing.
        (
            "GET 1.1",
            "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 \r\nDate: NOW\r\nContent-Length: 0\r\n\r\n",
        ),
    ];
    for (request, answer, expected) in cases {
        let mut words = request.split(' ');
        let (method, version) = (words.next().unwrap(), words.next().unwrap());
        let connection = words
            .next()
            .map(|value| format!("Connection: {value}\r\n"))
            .unwrap_or_default();
        let request = format!("{method} / HTTP/{version}\r\nHost: a.test\r\n{connection}\r\n");
        let (_, got) = exchange_bytes(&gate, &origin, &request, answer);
        assert_eq!(got, *expected, "{request} answered by {answer}");
    }
}

#[test]
fn interim_responses_are_forwarded_as_they_come() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(
        "POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    );
    let mut upstream = origin.http();
    let head = upstream.head();
    assert!(head.contains("Expect: 100-continue\r\n"), "{head}");
    // RFC 8297: hints, of which there may be several. RFC 9110 §15.2: unknown ones are handed on,
    // too.
    for interim in [
        "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </b>\r\nLink: </c>\r\n\r\n",
        "HTTP/1.1 199 Odd\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        upstream.send_in(1, interim);
        client.expect(interim);
    }
    client.send("body");
    upstream.expect("body");
    upstream.send("HTTP/1.1 102 Processing\r\n\r\n".to_owned() + OK);
    client.expect("HTTP/1.1 102 Processing\r\n\r\n");
    assert_eq!(client.answer().text(), "ok");
    // The connections of both sides are as good as before.
    client.send("GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(upstream.request().first_line(), "GET /next HTTP/1.1");
    upstream.send(OK);
    assert_eq!(client.answer().text(), "ok");
}

/// RFC 9112 §9.3.2: each pipelined request is a request of its own, and never the body of one that
/// has none, nor is a body a request.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::tcp().answering(|request| {
        let path = request.first_line().split(' ').nth(1).unwrap();
        let body = format!("{path} {}", request.text());
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    });
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut requests = String::new();
    for number in 0..30 {
        requests += &match number % 3 {
            0 => format!("GET /{number} HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            1 => format!("GET /{number} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nGET"),
            // RFC 9112 §2.2: an empty line may go before a request.
            _ => format!(
                "\r\nPOST /{number} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n"
            ),
        };
    }
    for step in [1, 7, 61, requests.len()] {
        let mut client = Http::connect(gate.address());
        client.send_in(step, &requests);
        for number in 0..30 {
            let body = if number % 3 == 0 { "" } else { "GET" };
            assert_eq!(
                client.answer().text(),
                format!("/{number} {body}"),
                "in steps of {step}"
            );
        }
        client.send(
            "GET /last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\nGET /behind HTTP/1.1\r\n\r\n",
        );
        assert_eq!(client.answer().text(), "/last ");
        client.expect_end();
    }
    assert_eq!(
        origin.accepted(),
        1,
        "one connection is enough for all of them"
    );
}

#[test]
fn a_half_closed_client_still_gets_its_response() {
    let site = Site::new();
    let origin = Origin::tcp();
    let sites = plain_site(origin.address()) + &secure_site(&site.cert, origin.address());
    let gate = lockgate().start(&sites);
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let mut client = Http::connect(gate.address());
    client.send(&request);
    client.stream.finish();
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(OK);
    assert!(normalized_text(client.rest()).ends_with("ok"));
    let mut client = Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap());
    client.send(&request);
    client.stream.finish();
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(OK);
    assert!(normalized_text(client.rest()).ends_with("ok"));
}
