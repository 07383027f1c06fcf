//! The client against scripted servers over real sockets.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lockgate_net::tls::{CaSource, ClientSettings, Connector};
use lockgate_testkit::h2::frame::{code, flag, frame, kind};
use lockgate_testkit::h2::{Origin as H2Origin, Peer, ScriptedResponse};
use lockgate_testkit::{Authority, DEADLINE, Folder, Http, Origin, Tls, Wire, server_config};

use bytes::Bytes;

use super::*;

const LIMITS: ExchangeLimits = ExchangeLimits {
    time: DEADLINE,
    head_bytes: 256 * 1024,
    body_bytes: 1024,
};
const GET: ClientRequest<'static> = ClientRequest {
    method: "GET",
    host: "a.test",
    path: "/",
    fields: &[],
    body: Bytes::new(),
};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

fn to(address: SocketAddr) -> RemoteServer<'static> {
    RemoteServer {
        addresses: vec![DialTarget::Tcp(address)],
        tls: None,
        proxy_header: &[],
    }
}

/// Status, body and trailers of a response.
type Received = (u16, String, Vec<(String, String)>);
type Outcome = Result<Received, String>;

async fn receive(
    connection: &mut HttpConnection,
    request: &ClientRequest<'_>,
) -> Result<Received, ClientError> {
    let mut response = connection.exchange(request).await?;
    let body = response.read(|_, _| false).await?;
    let trailers = response.trailers.iter().map(|(name, value)| {
        let value = value.to_str().unwrap().to_owned();
        (name.to_string(), value)
    });
    Ok((
        response.status,
        String::from_utf8(body).unwrap(),
        trailers.collect(),
    ))
}

async fn http1(
    server: RemoteServer<'_>,
    limits: ExchangeLimits,
    request: &ClientRequest<'_>,
) -> Result<Received, ClientError> {
    let stream = server.connect(limits).await?;
    receive(&mut HttpConnection::http1(stream).await?, request).await
}

async fn http2(address: SocketAddr, limits: ExchangeLimits) -> Result<Received, ClientError> {
    let stream = to(address).connect(limits).await?;
    receive(&mut HttpConnection::http2(stream), &GET).await
}

/// The outcome of `work` beside a server that does `serve` with its first connection.
fn beside<T, S: Send>(
    origin: &Origin,
    serve: impl FnOnce(Wire) -> S + Send,
    work: impl Future<Output = T>,
) -> T {
    thread::scope(|scope| {
        scope.spawn(|| serve(origin.accept()));
        block_on(work)
    })
}

/// The response of a server that reads the request, sends `answer` and closes.
fn answered(answer: &str) -> Outcome {
    let origin = Origin::tcp();
    let serve = |mut wire: Wire| {
        Http::over(wire.another()).request();
        // A client that refuses the beginning does not take the rest.
        let _ = wire.write_all(answer.as_bytes());
    };
    let request = GET;
    let response = http1(to(origin.socket_address()), LIMITS, &request);
    beside(&origin, serve, response).map_err(|error| error.to_string())
}

fn ok(status: u16, body: &str) -> Outcome {
    Ok((status, body.to_owned(), Vec::new()))
}

fn malformed(why: &str) -> Outcome {
    Err(format!("the response is malformed: {why}"))
}

const ENDED: &str = "no response before the connection ended";

#[test]
fn interim_responses_lengths_and_trailers_are_read() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: digest\r\n\r\n\
        3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nDigest: sha\r\n\r\n";
    assert_eq!(
        answered(chunked),
        Ok((200, "abcde".into(), vec![("digest".into(), "sha".into())]))
    );
    let hints = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    for (answer, response) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiho",
            ok(200, "hi"),
        ),
        ("HTTP/1.1 404 No\r\n\r\nto the end", ok(404, "to the end")),
        ("HTTP/1.1 204 No Content\r\n\r\n", ok(204, "")),
        (
            &format!("{hints}HTTP/1.0 200 OK\r\n\r\nlate"),
            ok(200, "late"),
        ),
    ] {
        assert_eq!(answered(answer), response, "{answer}");
    }
}

#[test]
fn a_connection_that_ends_early_is_no_response() {
    for answer in [
        "",
        "HTTP/1.1 2",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        assert_eq!(answered(answer), Err(ENDED.into()), "{answer}");
    }
    let origin = Origin::tcp();
    let reset = beside(
        &origin,
        |mut wire| {
            Http::over(wire.another()).request();
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na");
            wire.reset();
        },
        http1(to(origin.socket_address()), LIMITS, &GET),
    );
    assert!(
        matches!(&reset, Err(ClientError::Broken(error)) if error.to_string().contains("reset")),
        "{reset:?}"
    );
}

/// hyper takes the first five.
#[test]
fn heads_that_the_proxy_refuses_are_malformed() {
    for (head, why) in [
        (
            "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            "a line does not end with CR LF",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            "Content-Length is given more than once",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "both Content-Length and Transfer-Encoding are given",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "Transfer-Encoding is not just \"chunked\"",
        ),
        (
            "HTTP/1.1 100 Continue\r\nA: b\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            "a line does not end with CR LF",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "Content-Length is not a number",
        ),
        ("SSH-2.0-x\r\n\r\n", "the first line is malformed"),
        (
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "a field's name is malformed",
        ),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "a field is folded"),
    ] {
        assert_eq!(answered(head), malformed(why), "{head}");
    }
}

#[test]
fn a_malformed_chunk_is_told_in_words_of_the_codec() {
    for (body, why) in [
        ("x\r\n", "a chunk's size is malformed"),
        ("1\r\nab", "a chunk does not end with CR LF"),
        (
            &format!("1;{}\r\n", "x".repeat(20_000)),
            "chunk extensions are malformed or too long",
        ),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        assert_eq!(answered(&answer), malformed(why), "{answer:.90}");
    }
}

#[test]
fn endless_heads_and_bodies_are_bounded() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let long = "x".repeat(1000);
    for (answer, refusal) in [
        (
            format!("{ok}{}", format!("A: {long}\r\n").repeat(100)),
            "the response is malformed: the head is too long",
        ),
        (
            format!("{ok}{}", "A: b\r\n".repeat(10_000)),
            "the response is malformed: there are too many fields",
        ),
        (
            "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100_000),
            "the response is too long",
        ),
    ] {
        assert_eq!(answered(&answer), Err(refusal.into()), "{answer:.60}");
    }
    let origin = Origin::tcp();
    let response = beside(
        &origin,
        |mut wire| {
            Http::over(wire.another()).request();
            wire.send("HTTP/1.1 200 OK\r\n\r\n");
            while wire.write_all(long.as_bytes()).is_ok() {}
        },
        http1(to(origin.socket_address()), LIMITS, &GET),
    );
    assert_eq!(response.unwrap().1.len(), LIMITS.body_bytes);
    // Over HTTP/2 the window bounds it.
    let origin = H2Origin::plain(|_| ScriptedResponse::ok(vec![b'x'; 1 << 22]));
    let response = block_on(http2(origin.socket_address(), LIMITS));
    assert_eq!(response.unwrap().1.len(), LIMITS.body_bytes);
}

#[test]
fn a_body_that_is_enough_is_read_no_further() {
    let origin = Origin::tcp();
    let body = beside(
        &origin,
        |mut wire| {
            Http::over(wire.another()).request();
            wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nready\r\n");
            wire.wait_closed();
        },
        async {
            let stream = to(origin.socket_address()).connect(LIMITS).await?;
            let mut connection = HttpConnection::http1(stream).await?;
            let mut response = connection.exchange(&GET).await?;
            let body = response.read(|body, new| &body[new..] == b"ready").await;
            drop(response);
            connection.close().await;
            body
        },
    );
    assert_eq!(body.unwrap(), b"ready");
}

#[test]
fn a_response_may_come_before_the_request_is_sent() {
    let request = ClientRequest {
        method: "PUT",
        body: vec![b'x'; 1 << 24].into(),
        ..GET
    };
    let origin = Origin::tcp();
    let response = beside(
        &origin,
        |mut wire| {
            let head = Http::over(wire.another()).head();
            assert!(head.contains("Content-Length: 16777216\r\n"), "{head}");
            wire.send("HTTP/1.1 413 Too Long\r\nContent-Length: 4\r\n\r\nmuch");
            wire.wait_closed();
        },
        http1(to(origin.socket_address()), LIMITS, &request),
    );
    assert_eq!(response.unwrap(), ok(413, "much").unwrap());
}

/// As of a loop around netcat.
#[test]
fn a_response_may_come_before_the_request() {
    for (response, received) in [
        ("HTTP/1.1 200 OK\r\n\r\nhi", ok(200, "hi")),
        ("SSH-2.0-x\r\n", malformed("the first line is malformed")),
    ] {
        let (origin, (sent, is_sent)) = (Origin::tcp(), mpsc::channel());
        let serve = |mut wire: Wire| {
            wire.send(response);
            wire.finish();
            sent.send(()).unwrap();
            wire.wait_closed();
        };
        let early = beside(&origin, serve, async {
            let stream = to(origin.socket_address()).connect(LIMITS).await?;
            is_sent.recv().unwrap();
            receive(&mut HttpConnection::http1(stream).await?, &GET).await
        });
        assert_eq!(early.map_err(|error| error.to_string()), received);
    }
}

#[test]
fn a_silent_server_is_late_at_every_step() {
    let limits = ExchangeLimits {
        time: Duration::from_millis(20),
        ..LIMITS
    };
    let late = |response: Result<Received, ClientError>| {
        let error = response.unwrap_err().to_string();
        assert_eq!(error, "no response within 20ms");
    };
    for begun in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na",
    ] {
        let origin = Origin::tcp();
        let serve = |mut wire: Wire| {
            wire.send(begun);
            wire.wait_closed();
        };
        let request = GET;
        let response = http1(to(origin.socket_address()), limits, &request);
        late(beside(&origin, serve, response));
    }
    // The kernel accepts these connections.
    let silent = Origin::tcp();
    late(block_on(http2(silent.socket_address(), limits)));
    let connector = Connector::new(ClientSettings::new(CaSource::System)).unwrap();
    let server = RemoteServer {
        tls: Some((&connector, "a.test")),
        ..to(silent.socket_address())
    };
    late(block_on(http1(server, limits, &GET)));
    late(block_on(limits.bound(std::future::pending())));
}

#[test]
fn a_server_with_another_name_gets_no_request() {
    let (authority, folder) = (Authority::new("ours"), Folder::new());
    let ca = CaSource::File(folder.write("ca.pem", authority.pem()));
    let connector = Connector::new(ClientSettings::new(ca)).unwrap();
    for (name, is_ours) in [("a.test", true), ("b.test", false)] {
        let origin = Origin::tcp();
        let server = RemoteServer {
            tls: Some((&connector, "a.test")),
            proxy_header: b"PROXY UNKNOWN\r\n",
            ..to(origin.socket_address())
        };
        let serve = |mut wire: Wire| {
            wire.expect("PROXY UNKNOWN\r\n");
            let config = server_config(&authority.issue(&[name]), None);
            let Ok(tls) = Tls::accept(&config, wire) else {
                return assert!(!is_ours);
            };
            let mut http = Http::over(tls);
            assert_eq!(http.request().field("host"), Some("a.test"));
            http.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            // It ends with a close_notify.
            http.expect_end();
        };
        let response = beside(&origin, serve, async {
            let stream = server.connect(LIMITS).await?;
            let mut connection = HttpConnection::http1(stream).await?;
            let response = receive(&mut connection, &GET).await;
            connection.close().await;
            response
        });
        match response {
            Ok(response) => assert_eq!(Ok(response), ok(200, "hi")),
            Err(error) => assert!(!is_ours && matches!(error, ClientError::Tls(_)), "{error}"),
        }
    }
}

#[test]
fn a_connection_may_be_kept_for_further_exchanges() {
    let origin = Origin::tcp().answering(|request| {
        let body = request.first_line().to_owned();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into()
    });
    let address = origin.address().parse().unwrap();
    block_on(async {
        let stream = to(address).connect(LIMITS).await.unwrap();
        assert_eq!(stream.address(), &DialTarget::Tcp(address));
        let mut connection = HttpConnection::http1(stream).await.unwrap();
        for (path, sent) in [("/a?b", "/a?b"), ("/<\"`>", "/%3C%22%60%3E")] {
            let response = receive(&mut connection, &ClientRequest { path, ..GET }).await;
            assert_eq!(response.unwrap().1, format!("GET {sent} HTTP/1.1"));
        }
        // A body that was not read to its end cannot be skipped.
        drop(connection.exchange(&GET).await.unwrap());
    });
    assert_eq!(origin.accepted(), 1);
    let origin =
        H2Origin::plain(|asked| ScriptedResponse::ok(asked.path.clone()).trailer("a", "b"));
    block_on(async {
        let stream = to(origin.socket_address()).connect(LIMITS).await.unwrap();
        let mut connection = HttpConnection::http2(stream);
        for path in ["/a", "/b"] {
            let response = receive(&mut connection, &ClientRequest { path, ..GET }).await;
            let trailers = vec![("a".to_owned(), "b".to_owned())];
            assert_eq!(response.unwrap(), (200, path.to_owned(), trailers));
        }
        connection.close().await;
    });
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn a_kept_connection_that_has_ended_is_no_response() {
    let origin = Origin::tcp();
    let second = beside(
        &origin,
        |mut wire| {
            Http::over(wire.another()).request();
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        },
        async {
            let stream = to(origin.socket_address()).connect(LIMITS).await?;
            let mut connection = HttpConnection::http1(stream).await?;
            receive(&mut connection, &GET).await?;
            receive(&mut connection, &GET).await
        },
    );
    assert!(matches!(second, Err(ClientError::Ended)), "{second:?}");
}

#[test]
fn goaway_and_reset_fail_the_exchange_in_words_of_http2() {
    let answer = |code: u32| frame(kind::GOAWAY, 0, 0, [[0; 4], code.to_be_bytes()].concat());
    let reset = frame(kind::RST_STREAM, 0, 1, code::REFUSED_STREAM.to_be_bytes());
    for (frames, words) in [
        (
            answer(code::ENHANCE_YOUR_CALM),
            "HTTP/2: the server took no request: ENHANCE_YOUR_CALM",
        ),
        (
            answer(code::NO_ERROR),
            "HTTP/2: the server took no request: NO_ERROR",
        ),
        (reset, "HTTP/2: the server took no request: REFUSED_STREAM"),
        (
            frame(kind::DATA, flag::END_STREAM, 1, "x"),
            "HTTP/2: data before the response",
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "HTTP/2: a frame is longer than allowed",
        ),
        (Vec::new(), "no response before the connection ended"),
    ] {
        let origin = Origin::tcp();
        let serve = |mut wire: Wire| {
            let mut peer = Peer::accept(wire.another(), &[]);
            peer.read_until(kind::HEADERS);
            peer.send(&frames);
            if frames.is_empty() {
                wire.finish();
            }
            let _ = peer.end();
        };
        let response = beside(&origin, serve, http2(origin.socket_address(), LIMITS));
        let error = response.unwrap_err().to_string();
        assert!(error.starts_with(words), "{frames:?}: {error}");
    }
}

#[test]
fn an_open_stream_survives_goaway() {
    let origin = Origin::tcp();
    let response = beside(
        &origin,
        |wire| {
            let mut peer = Peer::accept(wire, &[]);
            let stream = peer.read_until(kind::HEADERS).stream;
            peer.goaway(stream, code::NO_ERROR);
            peer.headers(stream, &[(":status", "200")], false);
            peer.data(stream, "late", true);
            let _ = peer.end();
        },
        http2(origin.socket_address(), LIMITS),
    );
    assert_eq!(response.unwrap(), ok(200, "late").unwrap());
}

#[test]
fn close_takes_leave_of_http2_by_goaway() {
    let origin = Origin::tcp();
    let left = beside(
        &origin,
        |wire| {
            let mut peer = Peer::accept(wire, &[]);
            let stream = peer.read_until(kind::HEADERS).stream;
            peer.headers(stream, &[(":status", "204")], true);
            assert_eq!(peer.goodbye().code, code::NO_ERROR);
        },
        async {
            let stream = to(origin.socket_address()).connect(LIMITS).await?;
            let mut connection = HttpConnection::http2(stream);
            let response = receive(&mut connection, &GET).await;
            connection.close().await;
            response
        },
    );
    assert_eq!(left.unwrap().0, 204);
}

#[test]
fn dropping_an_exchange_closes_its_connection() {
    let origin = Origin::tcp();
    let limits = ExchangeLimits {
        time: Duration::from_millis(20),
        ..LIMITS
    };
    beside(&origin, |mut wire| wire.wait_closed(), async {
        let stream = to(origin.socket_address()).connect(LIMITS).await.unwrap();
        let mut connection = HttpConnection::http1(stream).await.unwrap();
        let request = GET;
        let exchange = connection.exchange(&request);
        limits
            .bound(async { exchange.await.map(drop) })
            .await
            .unwrap_err();
    });
    beside(
        &origin,
        |wire| {
            let mut peer = Peer::accept(wire, &[]);
            let stream = peer.read_until(kind::HEADERS).stream;
            peer.headers(stream, &[(":status", "200")], false);
            let _ = peer.end();
        },
        async {
            let stream = to(origin.socket_address()).connect(LIMITS).await.unwrap();
            let mut connection = HttpConnection::http2(stream);
            let mut response = connection.exchange(&GET).await.unwrap();
            let body = response.read(|_, _| false);
            limits.bound(body).await.unwrap_err();
        },
    );
}

#[test]
fn each_address_has_its_share_of_the_time() {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    let gone = Origin::tcp().socket_address();
    let mut server = to(gone);
    let failed = block_on(server.connect(LIMITS)).unwrap_err();
    assert!(
        failed
            .to_string()
            .starts_with("cannot connect: Connection refused")
    );
    server
        .addresses
        .push(DialTarget::Tcp(origin.address().parse().unwrap()));
    assert_eq!(block_on(http1(server, LIMITS, &GET)).unwrap().0, 200);
    let nowhere = RemoteServer {
        addresses: Vec::new(),
        ..to(gone)
    };
    let failed = block_on(nowhere.connect(LIMITS)).unwrap_err();
    assert!(matches!(failed, ClientError::Unresolved), "{failed}");
}

#[test]
fn an_invalid_request_is_not_sent() {
    let origin = Origin::tcp();
    for request in [
        ClientRequest {
            method: "G T",
            ..GET
        },
        ClientRequest {
            host: "a\nb",
            ..GET
        },
        ClientRequest {
            fields: &[("a", "b\r\nc")],
            ..GET
        },
    ] {
        let failed = block_on(http1(to(origin.socket_address()), LIMITS, &request));
        let failed = failed.unwrap_err();
        assert!(matches!(failed, ClientError::InvalidRequest), "{failed}");
    }
}
