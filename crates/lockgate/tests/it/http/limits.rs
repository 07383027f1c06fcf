//! How much and how often: rate limits, sizes, requests of a connection, and rates of slow clients.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::time::Duration;

use lockgate_testkit::{Http, Lockgate, Message, Origin, Wire, eventually};

use super::plain_site;
use crate::scene::lockgate;

/// A site with local responses and these keys.
fn local_site(keys: &str) -> String {
    format!("[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"ok\"\n{keys}\n")
}

fn ask(client: &mut Http, lines: &str) -> Message {
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
    client.answer()
}

/// How many of `each` requests on each of eight connections at once got 200; all others must be
/// 429.
fn count_served(gate: &Lockgate, each: usize, lines: &(impl Fn(usize) -> String + Sync)) -> usize {
    std::thread::scope(|scope| {
        let connection = |_| {
            scope.spawn(move || {
                let mut client = Http::connect(gate.address());
                let statuses = (0..each).map(|number| {
                    let answer = ask(&mut client, &lines(number));
                    if answer.status() != 200 {
                        assert_eq!(answer.status(), 429);
                        let seconds: u32 = answer.field("retry-after").unwrap().parse().unwrap();
                        assert!((1..=3_600).contains(&seconds), "{seconds}");
                        assert_eq!(answer.field("connection"), None);
                    }
                    usize::from(answer.status() == 200)
                });
                statuses.sum::<usize>()
            })
        };
        let threads: Vec<_> = (0..8).map(connection).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    })
}

#[test]
fn a_rate_limit_per_client_holds_across_workers() {
    let gate = lockgate()
        .workers(2)
        .start(&local_site("limit = \"1/h burst 7\""));
    assert_eq!(count_served(&gate, 10, &|_| String::new()), 7);
    // Another client has its own.
    let mut other = Http::over(Wire::connect_from([127, 0, 0, 77].into(), gate.address()));
    assert_eq!(ask(&mut other, "").status(), 200);
    let line = gate.line("a refusal", |line| line["status"] == 429);
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"limit".into(), &"lockgate".into())
    );
    gate.wait_for_sample(
        "lockgate_requests_total",
        &["site=\":0\"", "code=\"4xx\""],
        73.0,
    );
    gate.wait_for_sample(
        "lockgate_request_errors_total",
        &["site=\":0\"", "cause=\"limit\""],
        73.0,
    );
}

#[test]
fn a_rate_limit_per_header_value_holds_across_workers() {
    let gate = lockgate()
        .workers(2)
        .start(&local_site("limit = \"1/h per header:X-Key burst 3\""));
    assert_eq!(
        count_served(&gate, 20, &|number| format!("x-key: {}\r\n", number % 4)),
        12
    );
    // A request without the field counts by its client; an empty value is a value.
    assert_eq!(count_served(&gate, 2, &|_| String::new()), 3);
    assert_eq!(count_served(&gate, 2, &|_| "X-KEY: \r\n".to_owned()), 3);
}

#[test]
fn a_rate_limit_per_route_is_shared_by_all_clients() {
    let toml = local_site("limit = { rate = \"1/h\", per = \"route\", burst = 5, status = 503 }")
        + "[site.\":0\".path.\"/own/*\"]\nlimit = \"1/h per route\"\n[site.\":0\".path.\"/free\"]\nlimit = false\n\
           [site.\":0\".path.\"/like\"]\nrespond = \"like\"\n";
    let gate = lockgate().workers(2).start(&toml);
    let mut statuses = Vec::new();
    for host in 1..=8_u8 {
        let mut client = Http::over(Wire::connect_from([127, 0, 0, host].into(), gate.address()));
        for path in ["/", "/like", "/own/x", "/free"] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            let answer = client.answer();
            if answer.status() == 503 {
                assert!(answer.field("retry-after").is_some());
            }
            statuses.push((path, answer.status()));
        }
    }
    let count = |path: &str, status: u16| {
        statuses
            .iter()
            .filter(|one| **one == (path, status))
            .count()
    };
    assert_eq!(count("/", 200) + count("/like", 200), 5);
    assert_eq!(count("/", 503) + count("/like", 503), 11);
    assert_eq!(
        (
            count("/own/x", 200),
            count("/own/x", 429),
            count("/free", 200)
        ),
        (1, 7, 8)
    );
}

/// RFC 4291 §2.5.4: within its /64 it chooses its address freely.
#[test]
fn a_rate_limit_counts_an_ipv6_client_by_its_network() {
    let toml = "trusted = [\"127.0.0.1\"]\n".to_owned() + &local_site("limit = \"1/h burst 2\"");
    let gate = lockgate().start(&toml);
    let mut balancer = Http::connect(gate.address());
    for (client, status) in [
        ("2001:db8:1:2::1", 200),
        ("2001:db8:1:2:ffff::1", 200),
        ("2001:db8:1:2:3:4:5:6", 429),
        ("2001:db8:1:3::1", 200),
        ("192.0.2.1", 200),
        ("192.0.2.2", 200),
        ("::ffff:192.0.2.1", 200),
        ("192.0.2.1", 429),
    ] {
        let answer = ask(&mut balancer, &format!("X-Forwarded-For: {client}\r\n"));
        assert_eq!(answer.status(), status, "{client}");
    }
}

/// CWE-770: clients make up the keys.
#[test]
fn a_hundred_thousand_rate_limit_keys_take_bounded_memory() {
    const KEYS: usize = 100_000;
    let toml = "access_log = false\n".to_owned() + &local_site("limit = \"1/h per header:x-key\"");
    let gate = lockgate().workers(2).start(&toml);
    assert_eq!(count_served(&gate, 1, &|_| "x-key: warm\r\n".to_owned()), 1);
    let before = gate.resident();
    std::thread::scope(|scope| {
        for connection in 0..4 {
            let gate = &gate;
            scope.spawn(move || {
                let mut client = Http::connect(gate.address());
                for batch in 0..KEYS / 4 / 100 {
                    let requests: String = (0..100)
                        .map(|n| {
                            format!("GET / HTTP/1.1\r\nHost: a\r\nX-Key: {connection}-{batch}-{n}\r\n\r\n")
                        })
                        .collect();
                    client.send(requests);
                    (0..100).for_each(|_| assert_eq!(client.answer().status(), 200));
                }
            });
        }
    });
    let grown = gate.resident().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes");
    // The latest keys are remembered.
    assert_eq!(
        count_served(&gate, 1, &|_| "x-key: 3-249-99\r\n".to_owned()),
        0
    );
}

#[test]
fn the_last_request_of_a_connection_gets_connection_close() {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let toml = "limits = { requests = 3 }\n".to_owned()
        + &plain_site(origin.address())
        + "[site.\":0\".path.\"/own\"]\nrespond = \"ok\"\n[site.\":0\".path.\"/closed\"]\nrespond = \"ok\"\ndeny = [\"0.0.0.0/0\"]\n";
    let gate = lockgate().workers(2).start(&toml);
    for path in ["/", "/own", "/closed"] {
        let mut client = Http::connect(gate.address());
        // Two more than the limit: they are not answered (RFC 9112 §9.3.2).
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(5));
        for last in [false, false, true] {
            let answer = client.answer();
            assert_eq!(
                answer.field("connection"),
                last.then_some("close"),
                "{path}"
            );
        }
        client.expect_end();
    }
    // A client that closes the connection itself gets no hint.
    let mut client = Http::connect(gate.address());
    assert_eq!(
        ask(&mut client, "Connection: close\r\n").field("connection"),
        Some("close")
    );
    client.expect_end();
}

#[test]
fn connections_beyond_per_client_wait_for_an_earlier_to_end() {
    let toml = "limits = { per_client = 2 }\n".to_owned() + &local_site("");
    let gate = lockgate().workers(2).start(&toml);
    let mut here: Vec<Http> = (0..2).map(|_| Http::connect(gate.address())).collect();
    here.iter_mut()
        .for_each(|client| assert_eq!(ask(client, "").status(), 200));
    let mut waiting = Http::connect(gate.address());
    waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let other: IpAddr = [127, 0, 0, 77].into();
    assert_eq!(
        ask(
            &mut Http::over(Wire::connect_from(other, gate.address())),
            ""
        )
        .status(),
        200
    );
    here.iter_mut()
        .for_each(|client| assert_eq!(ask(client, "").status(), 200));
    drop(here);
    assert_eq!(waiting.answer().status(), 200);
}

#[test]
fn an_oversized_request_head_is_a_431() {
    let toml = "limits = { head = \"2KB\", fields = 10 }\n".to_owned() + &local_site("");
    let gate = lockgate().start(&toml);
    let long = format!("X-Long: {}\r\n", "x".repeat(2_100));
    let many = "X: y\r\n".repeat(10);
    for (lines, status) in [("X: y\r\n".repeat(9), 200), (many, 431), (long, 431)] {
        for step in [usize::MAX, 1] {
            let mut client = Http::connect(gate.address());
            // Where it is refused in the middle, the rest of it may meet a closed connection.
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            for part in request.as_bytes().chunks(step) {
                if client.stream.write_all(part).is_err() {
                    break;
                }
            }
            let answer = client.answer();
            assert_eq!(answer.status(), status, "{lines}");
            if status == 431 {
                assert_eq!(answer.field("connection"), Some("close"));
                client.wait_closed();
                let port = client.stream.local_address().port();
                drop(client);
                let line = gate.line("the refusal", |line| line["client_port"] == port);
                assert_eq!(
                    (&line["status"], &line["cause"]),
                    (&431.into(), &"limit".into())
                );
            }
        }
    }
}

#[test]
fn content_length_beyond_body_max_is_a_413_without_upstream() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&(plain_site(origin.address()) + "body = { max = \"10B\" }\n"));
    for lines in [
        "Content-Length: 11\r\n",
        "Content-Length: 9223372036854775807\r\n",
        "Expect: 100-continue\r\nContent-Length: 11\r\n",
    ] {
        let mut client = Http::connect(gate.address());
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        let answer = client.answer();
        assert_eq!(
            (answer.status(), answer.field("connection")),
            (413, Some("close")),
            "{lines}"
        );
    }
    assert!(!origin.has_one(Duration::ZERO));
    let mut client = Http::connect(gate.address());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
    let mut upstream = origin.http();
    assert_eq!(upstream.request().text(), "0123456789");
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.answer().status(), 204);
}

#[test]
fn a_chunked_body_beyond_body_max_is_a_413() {
    let whole = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\nghijx\r\n0\r\n\r\n";
    for step in [usize::MAX, 1] {
        let origin = Origin::tcp();
        let gate = lockgate().start(&(plain_site(origin.address()) + "body = { max = \"10B\" }\n"));
        let mut client = Http::connect(gate.address());
        client.send_in(step.min(whole.len()), whole);
        let answer = client.answer();
        assert_eq!(
            (answer.status(), answer.field("connection")),
            (413, Some("close"))
        );
        client.expect_end();
        // The received part was forwarded, or nothing was; an end was not.
        if origin.has_one(Duration::ZERO) {
            let (read, _) = origin.accept().end();
            let read = String::from_utf8(read).unwrap();
            assert!(!read.contains("\r\n0\r\n") && !read.contains('x'), "{read}");
        }
        let line = gate.line("the refusal", |line| line["status"] == 413);
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"limit".into(), &"lockgate".into())
        );
        // A body of the maximum length.
        let mut client = Http::connect(gate.address());
        client.send_in(
            step.min(whole.len()),
            whole.replace("5\r\nghijx", "4\r\nghij"),
        );
        let mut upstream = origin.http();
        assert_eq!(upstream.request().text(), "abcdefghij");
        upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.answer().status(), 204);
    }
}

/// Clients that keep us waiting are cut after a second.
const HASTY: &str = "rates = { min_in = \"100KB/s\", min_out = \"100KB/s\", grace = \"1s\" }\n";

/// Lets more time pass than slow clients have: another slow client comes and is cut meanwhile.
fn grace_passes(gate: &Lockgate) {
    let mut slow = Http::connect(gate.address());
    slow.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbut");
    let answer = slow.answer();
    assert_eq!(
        (answer.status(), answer.field("connection")),
        (408, Some("close"))
    );
}

/// A site in front of `origin`, and a backlog for `/slow`: no connection is accepted there, so that
/// the kernel takes a little.
fn with_slow(origin: &Origin) -> (String, Origin) {
    let slow = Origin::tcp();
    let toml = format!(
        "{HASTY}{}[site.\":0\".path.\"/slow\"]\nproxy = \"{}\"\n",
        plain_site(origin.address()),
        slow.address()
    );
    (toml, slow)
}

#[test]
fn an_upload_below_min_in_is_a_408() {
    let origin = Origin::tcp();
    let (toml, _slow) = with_slow(&origin);
    let gate = lockgate().start(&toml);
    grace_passes(&gate);
    let line = gate.line("the slow one", |line| line["status"] == 408);
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"too_slow".into(), &"downstream".into())
    );
    assert_eq!(line["received_bytes"], 3);
}

#[test]
fn a_client_waiting_for_a_pausing_origin_is_not_slow() {
    let origin = Origin::tcp();
    let (toml, _slow) = with_slow(&origin);
    let gate = lockgate().start(&toml);
    // Server-sent events, in the middle of the response.
    let mut events = Http::connect(gate.address());
    events.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut source = origin.http();
    source.head();
    source.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
    events.head();
    assert_eq!(events.chunk().unwrap(), b"data: 1\n\n");
    // A long poll, without a response yet; its body came whole.
    let mut poll = Http::connect(gate.address());
    poll.send("POST /poll HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    let mut answering = origin.http();
    answering.request();
    grace_passes(&gate);
    grace_passes(&gate);
    source.send("data: 2\n\n");
    assert_eq!(events.chunk().unwrap(), b"data: 2\n\n");
    answering.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho");
    assert_eq!(poll.answer().text(), "ho");
    // The connection is kept, and an idle one is not slow either.
    grace_passes(&gate);
    poll.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
    answering.request();
    answering.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(poll.answer().status(), 204);
}

/// RFC 9110 §10.1.1
#[test]
fn waiting_for_100_continue_is_not_slow() {
    let origin = Origin::tcp();
    let (toml, _slow) = with_slow(&origin);
    let gate = lockgate().start(&toml);
    for goes_on in [true, false] {
        let mut client = Http::connect(gate.address());
        client.send(
            "PUT /big HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
        );
        let mut upstream = origin.http();
        upstream.head();
        grace_passes(&gate);
        upstream.send("HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.answer().status(), 100);
        if goes_on {
            client.send("body");
            upstream.expect("body");
            upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
            assert_eq!(client.answer().status(), 204);
        } else {
            assert_eq!(client.answer().status(), 408);
        }
    }
    // An origin that sends nothing at all is the late one.
    let late = plain_site(origin.address());
    let gate = lockgate().start(&format!("timeouts = {{ response = \"300ms\" }}\n{late}"));
    let mut client = Http::connect(gate.address());
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.answer().status(), 504);
}

#[test]
fn a_slow_head_is_a_408_and_idle_ends_silently() {
    let gate = lockgate()
        .start(&("timeouts = { head = \"1s\", idle = \"1s\" }\n".to_owned() + &local_site("")));
    let mut client = Http::connect(gate.address());
    assert_eq!(ask(&mut client, "").status(), 200);
    client.send("GET /half HTTP/1.1\r\nHost:");
    let answer = client.answer();
    assert_eq!(
        (answer.status(), answer.field("connection")),
        (408, Some("close"))
    );
    drop(client);
    let line = gate.line("the late head", |line| line["status"] == 408);
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"too_slow".into(), &"downstream".into())
    );
    assert!(line["duration_seconds"].as_f64().unwrap() > 0.2, "{line}");
    let mut idle = Http::connect(gate.address());
    assert_eq!(ask(&mut idle, "").status(), 200);
    idle.expect_end();
    // RFC 9112 §2.2: old clients send an empty line behind a request; it begins no other.
    let mut idle = Http::connect(gate.address());
    assert_eq!(ask(&mut idle, "").status(), 200);
    idle.send("\r\n");
    idle.expect_end();
    // One of each request: the late one's too, and none of a connection.
    eventually("four lines", || (gate.lines().len() == 4).then_some(()));
}

#[test]
fn an_upload_stalled_by_the_origin_is_not_slow() {
    const LEN: usize = 32 << 20;
    let origin = Origin::tcp();
    let (toml, _slow) = with_slow(&origin);
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {LEN}\r\n\r\n"
    ));
    let mut upstream = origin.http();
    upstream.head();
    let mut writer = client.stream.another();
    let before = gate.resident();
    let upload = std::thread::spawn(move || writer.write_all(&vec![b'x'; LEN]));
    grace_passes(&gate);
    grace_passes(&gate);
    let grown = gate.most_resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes");
    assert_eq!(upstream.exactly(LEN).len(), LEN);
    upload.join().unwrap().unwrap();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.answer().status(), 204);
}

#[test]
fn a_client_reading_below_min_out_is_cut() {
    let origin = Origin::tcp();
    let (toml, _slow) = with_slow(&origin);
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.http();
    upstream.head();
    let mut writer = upstream.stream.another();
    writer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    let before = gate.resident();
    let endless = std::thread::spawn(move || while writer.write_all(&[b'x'; 65_536]).is_ok() {});
    let line = gate.line("who does not read", |line| line["cause"] == "too_slow");
    assert_eq!(
        (&line["status"], &line["side"]),
        (&200.into(), &"downstream".into())
    );
    endless.join().unwrap();
    let grown = gate.most_resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes");
    // It gets no whole response, and the rest in the kernel is given up.
    let (got, end) = client.end();
    assert!(got.len() < 1_000_000_000 && end.is_err());
}

#[test]
fn a_client_not_reading_local_responses_is_cut() {
    let toml = HASTY.to_owned()
        + &local_site(&format!(
            "headers = {{ x-long = \"{}\" }}",
            "x".repeat(8_000)
        ));
    let gate = lockgate().start(&toml);
    let mut client = Wire::connect(gate.address());
    client.limit(Duration::from_millis(20));
    // Pipelined until no more is taken.
    let requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000);
    while client.write_all(requests.as_bytes()).is_ok() {}
    gate.wait_for_sample("lockgate_connections", &["listener="], 0.0);
    let mut read = Vec::new();
    let _ = client.read_to_end(&mut read);
    eventually("service", || {
        (ask(&mut Http::connect(gate.address()), "").status() == 200).then_some(())
    });
}

#[test]
fn a_response_timeout_is_a_504_and_keep_alive_holds() {
    let origin = Origin::tcp();
    let gate = lockgate().start(
        &("timeouts = { response = \"300ms\" }\n".to_owned() + &plain_site(origin.address())),
    );
    let mut client = Http::connect(gate.address());
    for _ in 0..2 {
        let answer = ask(&mut client, "");
        assert_eq!((answer.status(), answer.field("connection")), (504, None));
        assert!(
            answer
                .field("proxy-status")
                .unwrap()
                .contains("error=http_response_timeout")
        );
    }
    let line = gate.line("the late one", |line| line["status"] == 504);
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"too_slow".into(), &"upstream".into())
    );
    assert_eq!(line["endpoint"], origin.address());
}
