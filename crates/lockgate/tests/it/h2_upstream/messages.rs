//! Requests and responses that succeed: their translation, and shared connections.

use std::thread;

use ::http::Method;
use lockgate_testkit::h2::{Client, Origin, ScriptedResponse};
use lockgate_testkit::{Http, Wire, bytes};

use super::{ask, client, get, in_front_of, pooled, post};
use crate::scene::{NAME, Site, lockgate, text};

#[test]
fn http1_and_http2_requests_reach_http2_endpoints_with_bodies() {
    let origin = Origin::plain(|asked| {
        ScriptedResponse::ok(asked.body.clone()).field("x-saw", &asked.method)
    });
    let gate = in_front_of(&origin);
    let body = bytes(1, 300_000);
    let answer = ask(&gate, post(&body));
    assert_eq!(
        (answer.status(), answer.field("x-saw"), &answer.body),
        (200, Some("POST"), &body)
    );
    let client = client(&gate);
    let answer = client.post("/", body.clone());
    assert_eq!(
        (answer.status, answer.field("x-saw"), &answer.body),
        (200, Some("POST"), &body)
    );
    assert_eq!(client.get("/").field("content-length"), Some("0"));
    assert_eq!(ask(&gate, get("/")).field("x-saw"), Some("GET"));
    assert_eq!(origin.accepted(), 1, "all share one connection");
}

#[test]
fn request_heads_are_translated_to_http2() {
    let origin = Origin::plain(|_| ScriptedResponse::ok("ok"));
    let gate = in_front_of(&origin);
    ask(
        &gate,
        "GET /a%20b?<c>=\"d\" HTTP/1.1\r\nHost: App.test:81\r\nTE: trailers, x\r\nX-Mixed: 1\r\nCookie: a=b\r\n\
         Connection: x-gone, te\r\nX-Gone: 1\r\nKeep-Alive: 5\r\nX-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\n\
         \r\n",
    );
    let asked = origin.next();
    assert_eq!(
        (asked.method.as_str(), asked.scheme.as_str()),
        ("GET", "http")
    );
    assert_eq!(
        (asked.authority.as_str(), asked.path.as_str()),
        ("App.test:81", "/a%20b?%3Cc%3E=%22d%22")
    );
    assert_eq!(
        (
            asked.field("te"),
            asked.field("x-mixed"),
            asked.field("cookie")
        ),
        (Some("trailers"), Some("1"), Some("a=b"))
    );
    assert_eq!(
        (asked.field("via"), asked.field("x-forwarded-for")),
        (Some("1.1 lockgate"), Some("127.0.0.1"))
    );
    assert_eq!(asked.field("x-forwarded-host"), Some("App.test:81"));
    assert!(asked.field("x-request-id").is_some_and(|id| id.len() == 32));
    for name in [
        "host",
        "connection",
        "x-gone",
        "keep-alive",
        "x_forwarded_for",
        "content-length",
    ] {
        assert_eq!(asked.field(name), None, "{name}");
    }
    client(&gate).get("/two");
    assert_eq!(origin.next().field("via"), Some("2.0 lockgate"));
}

/// RFC 9113 §8.3.1 has the host in `:authority`.
#[test]
fn a_host_rule_sets_authority_but_not_x_forwarded_host() {
    let origin = Origin::plain(|_| ScriptedResponse::ok("ok"));
    let rule = "request_headers = { host = \"app.internal\" }\n";
    let gate = lockgate().start(&(pooled(&[&origin.address()], "") + rule));
    ask(&gate, get("/"));
    client(&gate).get("/");
    for _ in 0..2 {
        let asked = origin.next();
        assert_eq!(
            (asked.authority.as_str(), asked.field("host")),
            ("app.internal", None)
        );
        assert_eq!(asked.field("x-forwarded-host"), Some("app.test"));
    }
}

#[test]
fn tls_endpoints_negotiate_h2_by_alpn() {
    let site = Site::new();
    let origin = Origin::tls(&site.issued, |_| ScriptedResponse::ok("ok"));
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let port = origin.socket_address().port();
    let gate = lockgate().start(&format!(
        "[pool.app]\nprotocol = \"h2\"\nendpoints = [\"127.0.0.1:{port}\"]\n\
         tls = {{ ca = \"{ca}\", name = \"{NAME}\" }}\n\
         [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:app\"\n"
    ));
    assert_eq!(ask(&gate, get("/")).text(), "ok");
    assert_eq!(origin.next().scheme, "https");
}

#[test]
fn a_thousand_requests_share_few_http2_connections() {
    let origin = Origin::plain(|asked| ScriptedResponse::ok(asked.path.clone()));
    let gate = in_front_of(&origin);
    let clients: Vec<_> = (0..10).map(|_| client(&gate)).collect();
    for round in 0..4 {
        let mut running = Vec::new();
        for (at, client) in clients.iter().enumerate() {
            for number in 0..25 {
                let path = format!("/{round}/{at}/{number}");
                running.push((
                    client.begin(Client::request(Method::GET, &path), true),
                    path,
                ));
            }
        }
        for (exchange, path) in running {
            assert_eq!(exchange.answer().text(), path);
        }
    }
    assert!(origin.accepted() <= 4, "{} connections", origin.accepted());
}

#[test]
fn max_concurrent_streams_of_an_endpoint_is_respected() {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(3);
    // Each waits until six are there.
    let origin = Origin::plain_with(&builder, |_| {
        ScriptedResponse::new(200).piece("begun").then_nothing()
    });
    let gate = in_front_of(&origin);
    let client = client(&gate);
    let mut running: Vec<_> = (0..6)
        .map(|_| client.begin(Client::request(Method::GET, "/"), true))
        .collect();
    for exchange in &mut running {
        assert_eq!(exchange.piece().unwrap().as_deref(), Some(&b"begun"[..]));
    }
    assert_eq!(origin.accepted(), 2);
    assert_eq!(gate.sample("lockgate_upstream_connections", &[]), 2.0);
    assert_eq!(
        gate.sample("lockgate_upstream_requests_in_flight", &[]),
        6.0
    );
}

#[test]
fn trailers_pass_both_ways_to_http2_endpoints() {
    let origin = Origin::echo();
    let gate = in_front_of(&origin);
    let client = client(&gate);
    let mut exchange = client.begin(Client::request(Method::POST, "/"), false);
    exchange.send("data", false);
    exchange.trailers(&[("x-sum", "1")]);
    let answer = exchange.answer();
    assert_eq!(
        (answer.text(), answer.trailer("x-sum")),
        ("data", Some("1"))
    );
    assert_eq!(origin.next().trailer("x-sum"), Some("1"));
    let chunked = "POST / HTTP/1.1\r\nHost: app.test\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
                   4\r\ndata\r\n0\r\nX-Sum: 2\r\n\r\n";
    let mut http = Http::connect(gate.address());
    http.send(chunked);
    assert!(http.head().contains("Transfer-Encoding: chunked\r\n"));
    http.expect("4\r\ndata\r\n0\r\nx-sum: 2\r\n\r\n");
    assert_eq!(origin.next().trailer("x-sum"), Some("2"));
}

/// gRPC: the status is in the head, or in the trailers.
#[test]
fn grpc_status_survives_in_head_or_trailers() {
    let origin = Origin::plain(|asked| {
        let head = ScriptedResponse::new(200).field("content-type", "application/grpc");
        match asked.path.as_str() {
            "/a.B/Fails" => head.field("grpc-status", "5").field("grpc-message", "none"),
            _ => head
                .piece(vec![0; 5])
                .trailer("grpc-status", "0")
                .trailer("grpc-message", ""),
        }
    });
    let gate = in_front_of(&origin);
    let client = client(&gate);
    let call = |path| {
        let mut request = Client::request(Method::POST, path);
        request
            .headers_mut()
            .insert("te", "trailers".parse().unwrap());
        request
            .headers_mut()
            .insert("grpc-timeout", "100m".parse().unwrap());
        let mut exchange = client.begin(request, false);
        exchange.send(vec![0; 5], true);
        exchange.answer()
    };
    let answer = call("/a.B/Works");
    assert_eq!(
        (
            answer.body.len(),
            answer.trailer("grpc-status"),
            answer.trailer("grpc-message")
        ),
        (5, Some("0"), Some(""))
    );
    let asked = origin.next();
    assert_eq!(
        (asked.field("te"), asked.field("grpc-timeout")),
        (Some("trailers"), Some("100m"))
    );
    let answer = call("/a.B/Fails");
    assert_eq!(
        (answer.field("grpc-status"), answer.field("grpc-message")),
        (Some("5"), Some("none"))
    );
    assert!(answer.body.is_empty() && answer.trailers.is_empty());
}

#[test]
fn an_http2_stream_is_bidirectional() {
    let origin = Origin::echo();
    let gate = in_front_of(&origin);
    let client = client(&gate);
    let mut exchange = client.begin(Client::request(Method::POST, "/"), false);
    assert_eq!(exchange.head().unwrap().status, 200);
    for word in ["one", "two", "three"] {
        exchange.send(word, false);
        assert_eq!(exchange.piece().unwrap().as_deref(), Some(word.as_bytes()));
    }
    exchange.send("end", true);
    assert_eq!(exchange.answer().text(), "onetwothreeend");
}

/// A watch or a chat may be silent for hours: while its response is on its way, and a gRPC call also
/// before that.
#[test]
fn quiet_bidirectional_streams_and_grpc_calls_are_not_too_slow() {
    let (echo, whole) = (
        Origin::echo(),
        Origin::plain(|asked| ScriptedResponse::ok(asked.body.clone())),
    );
    let gate = lockgate().start(&format!(
        "rates = {{ min_in = \"1KB/s\", grace = \"2s\" }}\n\
         [pool.whole]\nprotocol = \"h2c\"\nendpoints = [{:?}]\n{}\
         [site.\":0\".path.\"/whole\"]\nproxy = \"pool:whole\"\n",
        whole.address(),
        pooled(&[&echo.address()], "")
    ));
    let client = client(&gate);
    let mut echoed = client.begin(Client::request(Method::POST, "/"), false);
    assert_eq!(echoed.head().unwrap().status, 200);
    let mut call = Client::request(Method::POST, "/whole");
    let kind = "application/grpc+proto".parse().unwrap();
    call.headers_mut().insert("content-type", kind);
    let mut called = client.begin(call, false);
    echoed.send("one", false);
    called.send("one", false);
    // Meanwhile an upload that waits for nothing is cut twice.
    for _ in 0..2 {
        let mut slow = client.begin(Client::request(Method::POST, "/whole"), false);
        slow.send("one", false);
        assert_eq!(slow.answer().status, 408);
    }
    echoed.send("two", true);
    called.send("two", true);
    assert_eq!(echoed.answer().text(), "onetwo");
    assert_eq!(called.answer().text(), "onetwo");
}

#[test]
fn early_hints_and_100_continue_are_forwarded() {
    let origin =
        Origin::plain(|_| ScriptedResponse::ok("ok").interim(103, &[("link", "</a.css>")]));
    let gate = in_front_of(&origin);
    let answer = client(&gate).get("/");
    assert_eq!(
        (answer.interim.len(), answer.interim[0].0, answer.text()),
        (1, 103, "ok")
    );
    let mut http = Http::connect(gate.address());
    http.send(
        "POST / HTTP/1.1\r\nHost: app.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    );
    assert!(http.head().starts_with("HTTP/1.1 100 "));
    http.send("hi");
    assert!(http.head().starts_with("HTTP/1.1 103 "));
    assert_eq!(http.answer().text(), "ok");
}

#[test]
fn bodiless_heads_stay_bodiless_over_http2() {
    let origin = Origin::plain(|asked| match asked.path.as_str() {
        "/none" => ScriptedResponse::new(204),
        "/same" => ScriptedResponse::new(304)
            .field("content-length", "5")
            .field("etag", "\"a\""),
        _ => ScriptedResponse::new(200).field("content-length", "5"),
    });
    let gate = in_front_of(&origin);
    let mut http = Http::connect(gate.address());
    http.send("HEAD / HTTP/1.1\r\nHost: app.test\r\n\r\n");
    assert!(http.head().contains("Content-Length: 5\r\n"));
    http.send(get("/none"));
    assert!(!http.head().contains("Content-Length"));
    http.send(get("/same"));
    assert!(http.head().contains("Content-Length: 5\r\n"));
}

#[test]
fn twenty_megabytes_pass_each_way_over_http2() {
    let origin = Origin::plain(|asked| ScriptedResponse::ok(asked.body.clone()));
    let gate = in_front_of(&origin);
    let body = bytes(7, 20_000_000);
    assert!(ask(&gate, post(&body)).body == body);
    assert!(client(&gate).post("/", body.clone()).body == body);
}

/// Windows of both sides are full again and again, and each side is read from meanwhile.
#[test]
fn a_response_is_forwarded_while_its_request_continues() {
    let origin = Origin::echo();
    let gate = in_front_of(&origin);
    let body = bytes(3, 5_000_000);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut http = Http::over(Wire::connect(gate.address()));
    let mut sending = http.stream.another();
    let sent = body.clone();
    let sender = thread::spawn(move || sending.send([head.into_bytes(), sent].concat()));
    assert!(http.answer().body == body);
    sender.join().unwrap();
}

/// A client that reads nothing stops its own response only.
#[test]
fn a_slow_client_does_not_block_other_shared_streams() {
    let origin = Origin::plain(|asked| match asked.path.as_str() {
        "/big" => ScriptedResponse::ok(vec![7; 200_000_000]),
        _ => ScriptedResponse::ok("small"),
    });
    let gate = in_front_of(&origin);
    let before = gate.resident();
    let mut slow: Vec<_> = (0..10).map(|_| Http::connect(gate.address())).collect();
    for http in &mut slow {
        http.send(get("/big"));
        assert!(http.head().starts_with("HTTP/1.1 200 "));
    }
    for _ in 0..20 {
        assert_eq!(ask(&gate, get("/")).text(), "small");
    }
    assert_eq!(origin.accepted(), 1);
    let grown = gate.most_resident().saturating_sub(before);
    assert!(grown < 60_000_000, "{grown}");
    drop(slow);
}
