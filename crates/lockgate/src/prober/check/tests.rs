//! Checks against scripted origins over real sockets.

use std::net::SocketAddr;

use lockgate_net::tls::{CaSource, ClientSettings};
use lockgate_testkit::{Authority, DEADLINE, Folder, Origin, Tls, Wire, server_config};
use lockgate_upstream::endpoint_name::EndpointName;

use super::*;

fn check() -> Check {
    let request = HttpCheck {
        method: "GET".into(),
        path: "/health?deep=1".into(),
        statuses: vec![200..=299, 418..=418],
        body: None,
    };
    Check {
        kind: CheckKind::Http(request),
        port: None,
        tls: None,
        proxy_header: Vec::new(),
        every: DEADLINE,
        timeout: DEADLINE,
        fall: 3,
        rise: 2,
    }
}

fn expecting(body: &[u8]) -> Check {
    let mut check = check();
    if let CheckKind::Http(request) = &mut check.kind {
        request.body = Some(body.to_vec());
    }
    check
}

fn endpoint(address: EndpointAddress, host: &str) -> Endpoint {
    Endpoint::new("as written".into(), host.into(), address, None)
}

fn at(address: SocketAddr) -> Endpoint {
    endpoint(EndpointAddress::Ip(address), &address.ip().to_string())
}

fn run(check: &Check, endpoint: &Endpoint) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(check.run(endpoint))
        .map_err(|error| error.to_string())
}

/// Reads a request's head.
fn request(mut read: impl FnMut(usize) -> Vec<u8>) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(read(1));
    }
    String::from_utf8(head).unwrap()
}

/// What a check makes of an origin that reads the request and then sends `answer` and closes.
fn answered(check: &Check, answer: impl AsRef<[u8]> + Sync) -> Result<(), String> {
    let origin = Origin::tcp();
    let endpoint = at(origin.socket_address());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = origin.accept();
            request(|len| wire.exactly(len));
            // A check that has seen enough does not take the rest.
            let _ = io::Write::write_all(&mut wire, answer.as_ref());
        });
        run(check, &endpoint)
    })
}

#[test]
fn the_request_says_what_it_must_and_who_asks() {
    let origin = Origin::tcp();
    let address = origin.socket_address();
    let name = EndpointName::new("app.internal", 1, || {});
    name.publish(vec![address]);
    for (endpoint, host) in [
        (at(address), format!("127.0.0.1:{}", address.port())),
        (
            endpoint(EndpointAddress::Name(Arc::new(name)), "app.internal"),
            format!("app.internal:{}", address.port()),
        ),
    ] {
        let seen = std::thread::scope(|scope| {
            let seen = scope.spawn(|| {
                let mut wire = origin.accept();
                let seen = request(|len| wire.exactly(len));
                wire.send("HTTP/1.1 204 No Content\r\n\r\n");
                seen
            });
            assert_eq!(run(&check(), &endpoint), Ok(()));
            seen.join().unwrap()
        });
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[0], "GET /health?deep=1 HTTP/1.1");
        assert_eq!(lines[1], format!("Host: {host}"));
        assert!(
            lines[2].starts_with("User-Agent: lockgate/") && lines.contains(&"Connection: close")
        );
    }
}

#[test]
fn the_status_decides_and_interim_answers_do_not() {
    for (answer, found) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Ok(())),
        ("HTTP/1.0 299 \r\n\r\n", Ok(())),
        (
            "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n",
            Ok(()),
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            Ok(()),
        ),
        (
            "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
            Err("status 503"),
        ),
        (
            "HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n",
            Err("status 301"),
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\n",
            Err("no response before the connection ended"),
        ),
        (
            "HTTP/1.1 200 OK\r\n",
            Err("no response before the connection ended"),
        ),
        ("", Err("no response before the connection ended")),
        (
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
            Err("the response is malformed: the first line is malformed"),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            Err("the response is malformed: Content-Length is not a number"),
        ),
    ] {
        assert_eq!(
            answered(&check(), answer),
            found.map_err(str::to_owned),
            "{answer:?}"
        );
    }
    let endless = "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n".repeat(30_000);
    assert_eq!(
        answered(&check(), endless),
        Err("the response is too long".into())
    );
}

#[test]
fn the_body_is_looked_through_as_far_as_it_is_bounded() {
    let lacking = Err("the body of the response lacks the expected text".to_owned());
    let ok = "HTTP/1.1 200 OK\r\n";
    for (answer, found) in [
        (
            format!("{ok}Content-Length: 12\r\n\r\nall is ready"),
            Ok(()),
        ),
        (format!("{ok}\r\nready"), Ok(())),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n3\r\nrea\r\n2\r\ndy\r\n0\r\n\r\n"),
            Ok(()),
        ),
        // What comes later does not matter.
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n5\r\nready\r\nrubbish"),
            Ok(()),
        ),
        (format!("{ok}Content-Length: 5\r\n\r\nreadyready"), Ok(())),
        (
            format!("{ok}Content-Length: 4\r\n\r\nready"),
            lacking.clone(),
        ),
        (format!("{ok}Content-Length: 0\r\n\r\n"), lacking.clone()),
        (format!("{ok}\r\nnot yet"), lacking.clone()),
        (
            format!("{ok}Content-Length: 9\r\n\r\nnot"),
            Err("no response before the connection ended".to_owned()),
        ),
        (format!("{ok}\r\n{}ready", "x".repeat(BODY_MAX)), lacking),
        (format!("{ok}\r\n{}ready", "x".repeat(BODY_MAX - 5)), Ok(())),
        (
            format!(
                "{ok}Transfer-Encoding: chunked\r\n\r\n{}",
                "1;padding-padding\r\nx\r\n".repeat(30_000)
            ),
            Err("the response is malformed: chunk extensions are malformed or too long".to_owned()),
        ),
    ] {
        assert_eq!(
            answered(&expecting(b"ready"), &answer),
            found,
            "{:.120}",
            answer
        );
    }
    assert_eq!(answered(&expecting(b""), format!("{ok}\r\n")), Ok(()));
}

#[test]
fn an_answer_that_does_not_come_is_late() {
    let origin = Origin::tcp();
    let mut check = check();
    check.timeout = Duration::from_millis(20);
    // The backlog takes the connection, and nobody ever answers.
    assert_eq!(
        run(&check, &at(origin.socket_address())),
        Err("no response within 20ms".into())
    );
}

#[test]
fn where_nobody_listens_or_the_name_is_unknown_it_says_so() {
    let gone = Origin::tcp().socket_address();
    let refused = run(&check(), &at(gone)).unwrap_err();
    assert!(
        refused.starts_with("cannot connect: Connection refused"),
        "{refused}"
    );
    let name = Arc::new(EndpointName::new("app.internal", 1, || {}));
    let unknown = run(
        &check(),
        &endpoint(EndpointAddress::Name(Arc::clone(&name)), "app.internal"),
    );
    assert_eq!(unknown, Err("its name does not resolve".into()));
    assert!(name.take_failed(), "the resolver is asked again");
}

#[test]
fn a_check_may_only_connect_and_at_another_port_and_at_a_names_second_address() {
    let origin = Origin::tcp();
    let mut check = check();
    check.kind = CheckKind::Tcp(TcpCheck::default());
    check.port = Some(origin.socket_address().port());
    assert_eq!(run(&check, &at("127.0.0.1:1".parse().unwrap())), Ok(()));
    check.port = None;
    let name = EndpointName::new("app.internal", 1, || {});
    name.publish(vec![
        Origin::tcp().socket_address(),
        origin.socket_address(),
    ]);
    assert_eq!(
        run(
            &check,
            &endpoint(EndpointAddress::Name(Arc::new(name)), "app.internal")
        ),
        Ok(())
    );
    let folder = Folder::new();
    let path = folder.path("app.sock");
    let _unix = Origin::unix(&path);
    assert_eq!(
        run(&check, &endpoint(EndpointAddress::Unix(path), "")),
        Ok(())
    );
}

#[test]
fn a_preface_goes_before_everything_else() {
    let origin = Origin::tcp();
    let mut check = check();
    check.proxy_header = b"PROXY UNKNOWN\r\n".to_vec();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = origin.accept();
            wire.expect("PROXY UNKNOWN\r\nGET /health");
            request(|len| wire.exactly(len));
            wire.send("HTTP/1.1 200 OK\r\n\r\n");
        });
        assert_eq!(run(&check, &at(origin.socket_address())), Ok(()));
    });
}

#[test]
fn under_tls_the_endpoint_proves_who_it_is() {
    let (authority, folder) = (Authority::new("ours"), Folder::new());
    let ca = CaSource::File(folder.write("ca.pem", authority.pem()));
    let settings = ClientSettings {
        name: Some("app.internal".into()),
        ..ClientSettings::new(ca)
    };
    let mut check = expecting(b"ready");
    check.tls = Some(Arc::new(Connector::new(settings).unwrap()));
    check.proxy_header = b"PROXY UNKNOWN\r\n".to_vec();
    let origin = Origin::tcp();
    let serve = |wire: Wire, names: &[&str]| -> io::Result<()> {
        let mut wire = wire;
        wire.expect("PROXY UNKNOWN\r\n");
        let mut tls = Tls::accept(&server_config(&authority.issue(names), None), wire)?;
        request(|len| tls.exactly(len));
        // In two records, of which the second comes alone.
        tls.send("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nall is r");
        tls.flush();
        tls.send("eady");
        tls.flush();
        // The check ends with a close_notify.
        tls.end().1
    };
    for (names, found) in [(&["app.internal"][..], true), (&["other.internal"], false)] {
        std::thread::scope(|scope| {
            let served = scope.spawn(|| serve(origin.accept(), names));
            let result = run(&check, &at(origin.socket_address()));
            assert_eq!(result.is_ok(), found, "{result:?}");
            assert!(result.is_ok() || result.unwrap_err().starts_with("TLS: "));
            assert_eq!(served.join().unwrap().is_ok(), found);
        });
    }
    // The end of the connection without a word of TLS, in the middle of an answer.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = origin.accept();
            wire.expect("PROXY UNKNOWN\r\n");
            let closing = wire.another();
            let issued = authority.issue(&["app.internal"]);
            let mut tls = Tls::accept(&server_config(&issued, None), wire).unwrap();
            request(|len| tls.exactly(len));
            tls.send("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nall is r");
            tls.flush();
            let mut closing = closing;
            closing.finish();
            closing.end()
        });
        let result = run(&check, &at(origin.socket_address()));
        assert_eq!(
            result,
            Err("no response before the connection ended".into())
        );
    });
}

fn script(send: &str, expect: Option<&str>) -> Check {
    let (send, expect) = (
        send.as_bytes().to_vec(),
        expect.map(|expect| expect.as_bytes().to_vec()),
    );
    Check {
        kind: CheckKind::Tcp(TcpCheck { send, expect }),
        ..check()
    }
}

#[test]
fn what_is_said_on_a_connection_must_have_what_is_expected_within_its_first_64_kb() {
    let unexpected = || Err("the received bytes lack the expected text".to_owned());
    let long = |len: usize| "x".repeat(len) + "+PONG\r\n";
    for (said, found) in [
        ("+PONG\r\n".to_owned(), Ok(())),
        (long(SAID_MAX - 5), Ok(())),
        (long(SAID_MAX - 4), unexpected()),
        ("-LOADING\r\n".to_owned(), unexpected()),
        ("+PON".to_owned(), unexpected()),
        (
            String::new(),
            Err("no response before the connection ended".to_owned()),
        ),
    ] {
        // In whatever pieces it comes.
        for piece in [1, 7, 100_000] {
            if said.len() / piece > 1_000 {
                continue;
            }
            let origin = Origin::tcp();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut wire = origin.accept();
                    wire.expect("PING\r\n\0");
                    for piece in said.as_bytes().chunks(piece) {
                        // A check that has seen enough does not take the rest.
                        let _ = io::Write::write_all(&mut wire, piece);
                    }
                });
                let check = script("PING\r\n\0", Some("+PONG"));
                assert_eq!(
                    run(&check, &at(origin.socket_address())),
                    found,
                    "{said:.40} by {piece}"
                );
            });
        }
    }
}

/// With each kind of check: nothing is said, the endpoint speaks first, we do, and a request.
#[test]
fn each_kind_of_check_goes_behind_a_header_over_tls_and_to_another_port() {
    let (authority, folder) = (Authority::new("ours"), Folder::new());
    let ca = CaSource::File(folder.write("ca.pem", authority.pem()));
    let settings = ClientSettings {
        name: Some("app.internal".into()),
        ..ClientSettings::new(ca)
    };
    let connector = Arc::new(Connector::new(settings).unwrap());
    let config = server_config(&authority.issue(&["app.internal"]), None);
    for (asks, asked, said) in [
        (script("", None), "", ""),
        (script("", Some("220 ")), "", "220 ready\r\n"),
        (script("QUIT\r\n", None), "QUIT\r\n", ""),
        (script("PING\r\n", Some("PONG")), "PING\r\n", "+PONG\r\n"),
        (
            check(),
            "GET /health?deep=1 HTTP/1.1\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ),
    ] {
        for way in 0..8 {
            let (tls, elsewhere) = (way & 1 > 0, way & 2 > 0);
            let proxy_header = if way & 4 > 0 { "PROXY UNKNOWN\r\n" } else { "" };
            let origin = Origin::tcp();
            let address = origin.socket_address();
            let mut check = asks.clone();
            check.tls = tls.then(|| Arc::clone(&connector));
            check.proxy_header = proxy_header.as_bytes().to_vec();
            check.port = elsewhere.then(|| address.port());
            let nobody = SocketAddr::new(address.ip(), 1);
            std::thread::scope(|scope| {
                let served = scope.spawn(|| {
                    let mut wire = origin.accept();
                    wire.expect(proxy_header);
                    if tls {
                        let mut wire = Tls::accept(&config, wire).unwrap();
                        wire.expect(asked);
                        wire.send(said);
                        wire.flush();
                        // It takes its leave.
                        wire.end().1.unwrap();
                    } else {
                        wire.expect(asked);
                        wire.send(said);
                        wire.finish();
                        wire.wait_closed();
                    }
                });
                let found = run(&check, &at(if elsewhere { nobody } else { address }));
                assert_eq!(found, Ok(()), "{:?} {said:?} {way}", check.kind);
                served.join().unwrap();
            });
        }
    }
}

#[test]
fn that_we_have_no_descriptor_left_is_not_the_endpoints_fault() {
    for (errno, ours) in [
        (Errno::MFILE, true),
        (Errno::ADDRNOTAVAIL, true),
        (Errno::CONNREFUSED, false),
    ] {
        let error = CheckError::from(ClientError::Unreachable(errno.into()));
        assert_eq!(error.is_ours(), ours, "{errno}");
    }
    assert!(!CheckError::Status(500).is_ours());
}

#[test]
fn the_host_has_a_port_only_where_it_is_not_the_usual_one() {
    let tcp = |address: &str| DialTarget::Tcp(address.parse().unwrap());
    let ip = EndpointAddress::Ip("192.0.2.1:80".parse().unwrap());
    let name = EndpointAddress::Name(Arc::new(EndpointName::new("app.internal", 80, || {})));
    for (address, target, tls, expected) in [
        (&ip, tcp("192.0.2.1:80"), false, "192.0.2.1"),
        (&ip, tcp("192.0.2.1:80"), true, "192.0.2.1:80"),
        (&ip, tcp("[2001:db8::1]:443"), true, "[2001:db8::1]"),
        (&ip, tcp("[2001:db8::1]:8080"), false, "[2001:db8::1]:8080"),
        (&name, tcp("192.0.2.1:8081"), false, "app.internal:8081"),
        (&name, tcp("192.0.2.1:80"), false, "app.internal"),
        (
            &ip,
            DialTarget::Unix("/run/app.sock".into()),
            false,
            "localhost",
        ),
    ] {
        assert_eq!(host(address, &target, tls), expected);
    }
}
