//! Request smuggling: ambiguous requests are refused, and the others reach the origin in one
//! reading.
//!
//! Each refused request brings another one behind it, which must never be served: neither by us nor
//! by the origin.

use std::time::Duration;

use lockgate_testkit::{Http, Lockgate, Origin};

use super::plain_site;
use crate::scene::lockgate;

/// The bytes that an attacker wants to be parsed as a request.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// Sends `request` in pieces of `len` bytes; it must be refused by one response, after which the
/// connection ends.
fn refused(gate: &Lockgate, request: &[u8], len: usize) -> u16 {
    let mut client = Http::connect(gate.address());
    client.send_in(len, request);
    let answer = client.answer();
    assert_eq!(
        answer.field("connection"),
        Some("close"),
        "{}",
        request.escape_ascii()
    );
    assert!(
        answer
            .field("proxy-status")
            .is_some_and(|status| status.contains("error=")),
        "{}",
        answer.head
    );
    let rest = client.rest();
    assert!(
        rest.is_empty(),
        "{} was answered again: {}",
        request.escape_ascii(),
        rest.escape_ascii()
    );
    answer.status()
}

/// Each request is refused by its status, whole and byte by byte, is in the log with a cause, and
/// never reaches an origin.
fn all_refused(requests: impl IntoIterator<Item = (Vec<u8>, u16)>) {
    let origin = Origin::tcp();
    let gate = lockgate().workers(2).start(&plain_site(origin.address()));
    let mut count = 0;
    for (request, status) in requests {
        for len in [usize::MAX, 1] {
            assert_eq!(
                refused(&gate, &request, len),
                status,
                "{}",
                request.escape_ascii()
            );
            count += 1;
        }
    }
    assert!(!origin.has_one(Duration::ZERO), "the origin was asked");
    // Each is in the log with a status and a cause, and nothing else is.
    let lines = gate.stop().stdout;
    let noted = lines.lines().filter(|line| line.contains("\"status\":"));
    assert!(
        noted
            .clone()
            .all(|line| line.contains("\"cause\":\"refused_by_rule\"")),
        "{lines}"
    );
    assert_eq!(noted.count(), count);
}

fn posted(fields: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n0\r\n\r\n{SMUGGLED}").into_bytes()
}

/// RFC 9112 §5.1, §5.2, §6.1, §6.3; "HTTP Desync Attacks" (Kettle 2019), "HTTP/2: The Sequel is
/// Always Worse" (2021), "HTTP/1.1 must die" (2025); CVE-2019-18277 (HAProxy, vertical tab),
/// CVE-2021-40346 (HAProxy), CVE-2022-32213…32215 (Node.js), CVE-2023-25725 (HAProxy, empty name),
/// CVE-2019-16276 (Go, space before the colon), CVE-2020-7238 and CVE-2019-20444 (Netty, space
/// before the name, no colon), CVE-2020-8287 (Node.js, the field twice), CVE-2023-30589
/// (Node.js, CR alone).
#[test]
fn ambiguous_content_length_and_transfer_encoding_are_refused() {
    let cases: &[(&str, u16)] = &[
        // CL.TE and TE.CL.
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", 400),
        ("Transfer-Encoding: x\r\nContent-Length: 5\r\n", 400),
        // CL.CL.
        ("Content-Length: 0\r\nContent-Length: 5\r\n", 400),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", 400),
        ("Content-Length: 5, 5\r\n", 400),
        ("Content-Length: 0,5\r\n", 400),
        // 0.CL: a length that one of both does not see.
        ("Content-Length : 5\r\n", 400),
        ("Content-Length\t: 5\r\n", 400),
        ("Content-Length\0: 5\r\n", 400),
        (" Content-Length: 5\r\n", 400),
        ("\tContent-Length: 5\r\n", 400),
        ("Content Length: 5\r\n", 400),
        ("Content-Length 5\r\n", 400),
        ("Content-Length:\n 5\r\n", 400),
        ("Content-Length:\r\n 5\r\n", 400),
        ("Content-Length: 5\r\n \r\n", 400),
        ("X: y\r\n Content-Length: 5\r\n", 400),
        ("X: y\nContent-Length: 5\r\n", 400),
        ("X: y\rContent-Length: 5\r\n", 400),
        // Not a number, or an overflow.
        ("Content-Length:\r\n", 400),
        ("Content-Length: +5\r\n", 400),
        ("Content-Length: -5\r\n", 400),
        ("Content-Length: 5 5\r\n", 400),
        ("Content-Length: 5_0\r\n", 400),
        ("Content-Length: 0x5\r\n", 400),
        ("Content-Length: 5.0\r\n", 400),
        ("Content-Length: 5e0\r\n", 400),
        ("Content-Length: \"5\"\r\n", 400),
        ("Content-Length: 5;\r\n", 400),
        ("Content-Length: 9223372036854775808\r\n", 400),
        ("Content-Length: 18446744073709551621\r\n", 400),
        ("Content-Length: 99999999999999999999999999999999\r\n", 400),
        ("Content-Length: \u{ff15}\r\n", 400),
        ("Content-Length: \u{b}5\r\n", 400),
        // TE.TE.
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            501,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            501,
        ),
        (
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            501,
        ),
        (
            "Transfer-Encoding: x\r\ntransfer-encoding: chunked\r\n",
            501,
        ),
        ("Transfer-Encoding: identity\r\n", 501),
        ("Transfer-Encoding: identity, chunked\r\n", 501),
        ("Transfer-Encoding: chunked, identity\r\n", 501),
        ("Transfer-Encoding: chunked, chunked\r\n", 501),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Transfer-Encoding: chunked,\r\n", 501),
        ("Transfer-Encoding: ,chunked\r\n", 501),
        ("Transfer-Encoding: xchunked\r\n", 501),
        ("Transfer-Encoding: chunkedx\r\n", 501),
        ("Transfer-Encoding: \"chunked\"\r\n", 501),
        ("Transfer-Encoding: 'chunked'\r\n", 501),
        ("Transfer-Encoding: chunked;q=1\r\n", 501),
        ("Transfer-Encoding: x chunked\r\n", 501),
        ("Transfer-Encoding: chun\u{212a}ed\r\n", 501),
        ("Transfer-Encoding:\r\n", 501),
        ("Transfer-Encoding: \u{b}chunked\r\n", 400),
        ("Transfer-Encoding:\u{c}chunked\r\n", 400),
        ("Transfer-Encoding: chunked\u{b}\r\n", 400),
        ("Transfer-Encoding: chunked\0\r\n", 400),
        ("Transfer-Encoding: chun\r\n ked\r\n", 400),
        ("Transfer-Encoding : chunked\r\n", 400),
        ("Transfer-Encoding\t: chunked\r\n", 400),
        ("Transfer-Encoding\u{b}: chunked\r\n", 400),
        ("Transfer-Encoding\0: chunked\r\n", 400),
        (" Transfer-Encoding: chunked\r\n", 400),
        ("\tTransfer-Encoding: chunked\r\n", 400),
        ("X: y\r\n Transfer-Encoding: chunked\r\n", 400),
        ("X: y\nTransfer-Encoding: chunked\r\n", 400),
        ("X: y\rTransfer-Encoding: chunked\r\n", 400),
        ("X: y\r\rTransfer-Encoding: chunked\r\n", 400),
        ("X: y\0\r\nTransfer-Encoding: chunked\r\n", 400),
        ("\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding:\n chunked\r\n", 400),
        ("Transfer-Encoding:\r\n chunked\r\n", 400),
        ("Transfer-Encoding: chunked\r\n \r\n", 400),
        ("Transfer Encoding: chunked\r\n", 400),
        ("Transfer-Encoding chunked\r\n", 400),
        (": chunked\r\n", 400),
        ("\u{feff}Transfer-Encoding: chunked\r\n", 400),
        ("[Transfer-Encoding]: chunked\r\n", 400),
        ("Transfer-Encoding\": chunked\r\n", 400),
    ];
    all_refused(
        cases
            .iter()
            .map(|(fields, status)| (posted(fields), *status)),
    );
}

/// RFC 9112 §2.2, §3, §6.1; RFC 9110 §2.5.
#[test]
fn ambiguous_lines_and_versions_are_refused() {
    let cases: &[(&str, u16)] = &[
        (
            "POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        ("GET / HTTP/1.1\nHost: a.test\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: a.test\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a.test\r\n\n", 400),
        ("GET / HTTP/1.1\r\r\nHost: a.test\r\n\r\n", 400),
        ("GET / HTTP/1.1\rHost: a.test\r\n\r\n", 400),
        ("GET /\rHTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET /a\0b HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET\t/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        (" GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a.test\r\n folded: 1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n Host: a.test\r\n\r\n", 400),
        ("GET /\u{e4} HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("G\u{e4}T / HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET / HTTP/01.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET / HTTP/1,1\r\nHost: a.test\r\n\r\n", 400),
        ("GET / http/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET / HTTP/1.10\r\nHost: a.test\r\n\r\n", 400),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: a.test\r\n\r\n", 505),
        ("GET / HTTP/0.9\r\nHost: a.test\r\n\r\n", 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("CONNECT b.test:80 HTTP/1.1\r\nHost: b.test:80\r\n\r\n", 501),
    ];
    all_refused(
        cases
            .iter()
            .map(|(request, status)| (format!("{request}{SMUGGLED}").into_bytes(), *status)),
    );
}

/// RFC 9112 §3.2, §3.2.2; RFC 9110 §4.2.4 (userinfo), §7.2; "Host of Troubles" (CCS 2016).
#[test]
fn a_request_with_ambiguous_host_is_refused() {
    let head = |host: &str| format!("GET / HTTP/1.1\r\n{host}\r\n{SMUGGLED}").into_bytes();
    let hosts = [
        "",
        "Host: a.test\r\nHost: a.test\r\n",
        "Host: a.test\r\nhost: b.test\r\n",
        "Host: a.test, b.test\r\n",
        "Host: a.test b.test\r\n",
        "Host: user@a.test\r\n",
        "Host: user:word@a.test\r\n",
        "Host: a.test/\r\n",
        "Host: a.test/../b\r\n",
        "Host: a.test?b\r\n",
        "Host: a.test#b\r\n",
        "Host: http://a.test\r\n",
        "Host: a.test:80:80\r\n",
        "Host: a.test:b\r\n",
        "Host: a.test:+80\r\n",
        "Host: a.test:65536\r\n",
        "Host: a.test:080000\r\n",
        "Host: [::1\r\n",
        "Host: [::1]b\r\n",
        "Host: [::1%25lo]\r\n",
        "Host: a..test\r\n",
        "Host: .a.test\r\n",
        "Host: a%2etest\r\n",
        "Host: a.test\\b\r\n",
        "Host: \"a.test\"\r\n",
        "Host: <a.test>\r\n",
        "Host: b\u{fc}cher.test\r\n",
        "Host : a.test\r\n",
        " Host: a.test\r\n",
        "Host: a.test\0\r\n",
        "X: y\r\n Host: a.test\r\n",
    ];
    let targets = [
        "http://user@a.test/",
        "http:///",
        "http://a.test:x/",
        "http://",
        "ftp://a.test/",
        "a.test",
        "*",
        "?",
        "http:/a.test/",
    ]
    .map(|target| {
        (
            format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n{SMUGGLED}").into_bytes(),
            400,
        )
    });
    // Host must be a good one even where the target has its own.
    let both = ["", "Host: a.test\r\nHost: a.test\r\n", "Host: a@b\r\n"].map(|host| {
        (
            format!("GET http://a.test/ HTTP/1.1\r\n{host}\r\n{SMUGGLED}").into_bytes(),
            400,
        )
    });
    all_refused(
        hosts
            .iter()
            .map(|host| (head(host), 400))
            .chain(targets)
            .chain(both),
    );
}

/// RFC 9112 §7.1; "Funky chunks" (2025: TERM.EXT, EXT.TERM, TERM.SPILL, SPILL.TERM); CVE-2015-3183
/// (httpd), CVE-2024-24795; CVE-2013-2028 (nginx, sizes that overflow), CVE-2025-22871 (Go, bare
/// LF), CVE-2021-22960 and CVE-2025-55315 (Node.js and Kestrel, line ends within extensions).
#[test]
fn malformed_chunked_bodies_are_refused_early_or_late() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "\r\n",
        "-1\r\na\r\n",
        "+1\r\na\r\n",
        " 1\r\na\r\n",
        "0x1\r\na\r\n",
        "1_0\r\n",
        "g\r\n",
        "\u{ff11}\r\na\r\n",
        "1\na\r\n",
        "1\r\na\n",
        "1\r\nab\r\n",
        "1\r\naXX1\r\nb\r\n",
        "2\r\na\r\n",
        "1\ra\r\n",
        "1 1\r\na\r\n",
        "1 x\r\na\r\n",
        "1;x\na\r\n",
        "1;x\ry\r\na\r\n",
        "1;\nx\r\na\r\n",
        "1;x\r\r\na\r\n",
        "1\r;x\r\na\r\n",
        "1;x\0\r\na\r\n",
        ";x\r\n",
        "0\n\n",
        "0\r\n\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX\r\n\r\n",
        "8000000000000000\r\n",
        "ffffffffffffffff\r\n",
        "10000000000000001\r\na\r\n",
        "00000000000000000001\r\na\r\n",
    ] {
        let whole = format!("{head}{body}{SMUGGLED}");
        assert_eq!(
            refused(&gate, whole.as_bytes(), usize::MAX),
            400,
            "{body:?}"
        );
        assert!(!origin.has_one(Duration::ZERO), "{body:?} was asked for");
        // The origin has the head by now: the part of the body that it gets must not look whole.
        let mut client = Http::connect(gate.address());
        client.send(head);
        let mut upstream = origin.http();
        assert!(upstream.head().contains("chunked"));
        client.send(format!("{body}{SMUGGLED}"));
        assert_eq!(client.answer().status(), 400, "{body:?}");
        client.expect_end();
        let (got, _) = upstream.end();
        let got = String::from_utf8(got).unwrap();
        assert!(
            !got.contains("0\r\n\r\n") && !got.contains("smuggled"),
            "{body:?} became {got:?}"
        );
    }
}

/// A request that passes has one reading: ours, written anew (RFC 9112 §6.1, §7.1.1).
#[test]
fn the_origin_gets_our_own_framing() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    let mut upstream = None;
    for (sent, field, value, body) in [
        (
            "content-length:\t007 \r\n\r\nabcdefg",
            "content-length",
            "7",
            "abcdefg",
        ),
        ("CONTENT-LENGTH: 0\r\n\r\n", "content-length", "0", ""),
        (
            "Transfer-Encoding:\tchunked \t\r\n\r\n1\r\na\r\n0\r\n\r\n",
            "transfer-encoding",
            "chunked",
            "a",
        ),
        (
            "transfer-ENCODING: Chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n00004 \t;z\r\ndefg\r\n000\r\n\r\n",
            "transfer-encoding",
            "chunked",
            "abcdefg",
        ),
        // Fields that Connection names are removed, never those that framing or routing rests on
        // ("hop-by-hop abuse").
        (
            "Connection: host, content-length, transfer-encoding\r\nContent-Length: 3\r\n\r\nabc",
            "content-length",
            "3",
            "abc",
        ),
        (
            "Connection: content-length\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "transfer-encoding",
            "chunked",
            "abc",
        ),
        (
            "Connection: close, transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "transfer-encoding",
            "chunked",
            "abc",
        ),
    ] {
        // GET and the like may have bodies, too ("0.CL"; "TE.0", 2024).
        for method in ["POST", "GET", "HEAD", "DELETE", "OPTIONS", "BREW"] {
            let close = sent.contains("close");
            client.send(format!("{method} /x HTTP/1.1\r\nHost: a.test\r\n{sent}"));
            let upstream = upstream.get_or_insert_with(|| origin.http());
            let request = upstream.request();
            assert_eq!(request.first_line(), format!("{method} /x HTTP/1.1"));
            assert_eq!(request.field("host"), Some("a.test"));
            assert_eq!(request.field(field), Some(value), "{sent:?}");
            assert_eq!(request.text(), body);
            upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
            assert_eq!(client.answer().status(), 204);
            if close {
                client.expect_end();
                client = Http::connect(gate.address());
            }
        }
    }
}

/// RFC 9112 §9.3: a connection is kept only where the body that was refused is not left on it. Its
/// bytes would be the next request ("Browser-Powered Desync Attacks", Kettle 2022: CL.0,
/// client-side desync).
#[test]
fn an_unread_body_is_never_the_next_request() {
    let origin = Origin::tcp();
    let toml = plain_site(origin.address())
        + "[site.\":0\".path.\"/up\"]\nbody = { max = \"10B\" }\n[site.\":0\".path.\"/no\"]\ndeny = [\"127.0.0.0/8\"]\n"
        + "[site.\":0\".path.\"/there\"]\nredirect = \"/here\"\n[site.\":0\".path.\"/own\"]\nrespond = \"own\"\n";
    let gate = lockgate().start(&toml);
    let length = SMUGGLED.len();
    for (path, status) in [
        ("/up", 413),
        ("/no", 403),
        ("/there", 308),
        ("/own", 200),
        ("/a/../b", 400),
    ] {
        let chunk = format!("{length:x}");
        for (framing, begin, end) in [
            (format!("Content-Length: {length}"), "", ""),
            (
                "Transfer-Encoding: chunked".to_owned(),
                chunk.as_str(),
                "\r\n0\r\n\r\n",
            ),
        ] {
            if path == "/up" && !begin.is_empty() {
                continue;
            }
            let head = format!("POST {path} HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n");
            let body = if begin.is_empty() {
                SMUGGLED.to_owned()
            } else {
                format!("{begin}\r\n{SMUGGLED}{end}")
            };
            // With its head, or behind the response.
            for together in [true, false] {
                let mut client = Http::connect(gate.address());
                client.send(if together {
                    format!("{head}{body}{SMUGGLED}")
                } else {
                    head.clone()
                });
                assert_eq!(client.answer().status(), status, "{path}");
                if !together {
                    client.send(format!("{body}{SMUGGLED}"));
                }
                client.expect_end();
            }
        }
    }
    assert!(!origin.has_one(Duration::ZERO));
    // Where nothing is left unread, it is kept.
    let mut client = Http::connect(gate.address());
    for (path, status) in [("/no", 403), ("/there", 308), ("/own", 200), ("/no", 403)] {
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(client.answer().status(), status);
    }
}

/// RFC 9110 §10.1.1; "HTTP/1.1 must die" (Kettle 2025: desync by Expect). An origin that answers
/// before it has the body may never read it, so the connection to it is not used again; what the
/// client still sends is no request.
#[test]
fn a_body_after_an_early_response_is_never_a_request() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    for (method, expect) in [
        ("POST", ""),
        ("POST", "Expect: 100-continue\r\n"),
        ("GET", "Expect: 100-continue\r\n"),
        ("HEAD", "Expect: 100-continue\r\n"),
        ("POST", "Expect: 100-Continue\r\nExpect: 100-continue\r\n"),
        ("POST", "Expect: y 100-continue\r\n"),
        ("POST", "Expect: y\r\n"),
    ] {
        for together in [false, true] {
            // An expectation is met once the body has been sent.
            if together && expect.is_empty() {
                continue;
            }
            let head = format!(
                "{method} / HTTP/1.1\r\nHost: a.test\r\n{expect}Content-Length: {}\r\n\r\n",
                SMUGGLED.len()
            );
            let mut client = Http::connect(gate.address());
            client.send(if together {
                format!("{head}{SMUGGLED}")
            } else {
                head
            });
            let mut upstream = origin.http();
            upstream.head();
            upstream.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(client.answer().status(), 417);
            if !together {
                client.send(SMUGGLED);
                // Without an expectation the body is still wanted.
                if !expect.is_empty() {
                    client.expect_end();
                }
            }
            // After any part of the body: nothing follows it.
            let (got, _) = upstream.end();
            assert!(
                SMUGGLED.as_bytes().starts_with(&got),
                "{}",
                got.escape_ascii()
            );
        }
    }
    // After a 100 the body was requested, and the connection is as good as any.
    let mut client = Http::connect(gate.address());
    client.send(
        "POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    );
    let mut upstream = origin.http();
    upstream.head();
    upstream.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.answer().status(), 100);
    client.send("ab");
    upstream.expect("ab");
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.answer().status(), 204);
    client.send("GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(upstream.request().first_line(), "GET /next HTTP/1.1");
}

/// RFC 9112 §9.5; "Browser-Powered Desync Attacks" (Kettle 2022: pause-based desync),
/// CVE-2022-22720 (httpd): a server that gives up on a body gives up on its connection, on both
/// sides. The bytes after the pause are still the body.
#[test]
fn a_body_after_a_pause_is_never_a_request() {
    let origin = Origin::tcp();
    let toml = "rates = { min_in = \"1KB/s\", grace = \"1s\" }\n".to_owned()
        + &plain_site(origin.address());
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    let length = SMUGGLED.len();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n"
    ));
    let mut upstream = origin.http();
    upstream.head();
    let answer = client.answer();
    assert_eq!(
        (answer.status(), answer.field("connection")),
        (408, Some("close"))
    );
    client.send(SMUGGLED);
    client.expect_end();
    assert_eq!(upstream.end().0, b"");
    assert!(!origin.has_one(Duration::ZERO));
}

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 777\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// RFC 9110 §7.8, RFC 6455 §4.4; "What's wrong with WebSocket APIs? Request smuggling" (Egorov
/// 2019): a proxy that does not wait for the 101 forwards, unread, what should have been refused.
#[test]
fn bytes_behind_a_refused_upgrade_are_parsed_as_requests() {
    let origin = Origin::tcp();
    let toml = plain_site(origin.address())
        + "[site.\":0\".path.\"/smuggled\"]\ndeny = [\"127.0.0.0/8\"]\n";
    let gate = lockgate().start(&toml);
    for answer in [
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n",
    ] {
        let mut client = Http::connect(gate.address());
        client.send(format!(
            "{UPGRADE}{SMUGGLED}GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n"
        ));
        let mut upstream = origin.http();
        assert_eq!(upstream.request().first_line(), "GET /ws HTTP/1.1");
        upstream.send(answer);
        client.answer();
        assert_eq!(client.answer().status(), 403);
        let next = upstream.request();
        assert_eq!(
            (next.first_line(), next.field("upgrade")),
            ("GET /next HTTP/1.1", None)
        );
        // The origin's connection does not go on, so that the next round begins with another.
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.answer().status(), 204);
    }
}

/// RFC 9110 §7.8: a 101 needs a request for that protocol, and not before the request is whole.
#[test]
fn a_101_that_was_not_requested_is_an_error() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let websocket =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let h2c = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
    let bare = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    let body = "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n";
    let mut ports = Vec::new();
    for (upgrade, answer, forwarded) in [
        ("", websocket, false),
        ("", bare, false),
        // Not named by Connection: hop-by-hop, and of no meaning.
        ("Upgrade: websocket\r\n", websocket, false),
        ("Connection: Upgrade\r\n", websocket, false),
        ("Connection: Upgrade\r\nUpgrade:\r\n", websocket, false),
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n", h2c, true),
        (
            "Connection: Upgrade\r\nUpgrade: websocket\r\n",
            "HTTP/1.0 101 Switching Protocols\r\n\r\n",
            true,
        ),
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n", bare, true),
        // Bytes that the origin would then get unread are requests (h2c smuggling; RFC 2817
        // likewise).
        (
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
            h2c,
            false,
        ),
        ("Connection: Upgrade\r\nUpgrade: H2C\r\n", h2c, false),
        ("Connection: Upgrade\r\nUpgrade: ,h2c\r\n", h2c, false),
        (
            "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
            h2c,
            false,
        ),
        (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
            h2c,
            false,
        ),
        (
            "Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n",
            "HTTP/1.1 101 X\r\nUpgrade: HTTP/2.0\r\n\r\n",
            false,
        ),
        (
            "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
            "HTTP/1.1 101 X\r\nUpgrade: TLS/1.0\r\n\r\n",
            false,
        ),
        (
            "Connection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/1.1\r\n",
            bare,
            false,
        ),
        // The body has not come: the bytes that follow are still the body.
        (body, websocket, true),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{upgrade}\r\n"));
        let mut upstream = origin.http();
        let head = upstream.head().to_ascii_lowercase();
        for name in ["upgrade", "connection"] {
            assert_eq!(
                head.contains(&format!("\r\n{name}: ")),
                forwarded,
                "{upgrade:?} became {head}"
            );
        }
        assert!(!head.contains("http2-settings"), "{head}");
        upstream.send(answer);
        assert_eq!(client.answer().status(), 502, "{upgrade:?}");
        assert_eq!(upstream.end().0, b"");
        ports.push(client.stream.local_address().port());
    }
    for port in ports {
        let line = gate.line("each switch", |line| line["client_port"] == port);
        assert_eq!(
            (&line["status"], &line["side"]),
            (&502.into(), &"upstream".into()),
            "{line}"
        );
    }
}

/// RFC 9110 §7.6.1 lets a client name fields that end at the next hop; CVE-2022-31813 (httpd:
/// X-Forwarded-For) and CVE-2022-1388 (BIG-IP: a field that was set) resulted from removing ours.
#[test]
fn the_connection_field_cannot_remove_x_forwarded_for() {
    let origin = Origin::tcp();
    let toml = plain_site(origin.address())
        + "request_headers = { \"x-internal\" = \"yes\" }\nheaders = { \"x-policy\" = \"strict\" }\n";
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send(
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Own: 1\r\nX-Internal: no\r\nAuthorization: Basic eA==\r\n\
         Connection: host, x-forwarded-for, X-Forwarded-Host, x-forwarded-proto, forwarded, via, x-request-id, x-internal\r\n\
         Connection: x-own\r\n\r\n",
    );
    let mut upstream = origin.http();
    let request = upstream.request();
    for (name, value) in [
        ("host", "a.test"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "a.test"),
        ("x-forwarded-proto", "http"),
        ("forwarded", "for=127.0.0.1;proto=http;host=\"a.test\""),
        ("x-internal", "yes"),
        ("via", "1.1 lockgate"),
    ] {
        assert_eq!(request.field(name), Some(value), "{}", request.head);
    }
    assert!(request.field("x-request-id").is_some());
    assert_eq!(
        (request.field("x-own"), request.field("connection")),
        (None, None)
    );
    upstream.send("HTTP/1.1 200 OK\r\nConnection: x-policy, x-secret\r\nX-Secret: 1\r\nX-Policy: lax\r\nContent-Length: 0\r\n\r\n");
    let answer = client.answer();
    assert_eq!(
        (answer.field("x-policy"), answer.field("x-secret")),
        (Some("strict"), None),
        "{}",
        answer.head
    );
}

/// RFC 9110 §6.5.1: trailers that would be framing, routing, credentials or the client's address as
/// fields of the head do not pass: an application that merges them would take a client's word for
/// ours ("Trailer merging", 2025).
#[test]
fn trailers_cannot_set_framing_routing_or_credentials() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\nContent-Length: 5\r\n\
         Transfer-Encoding: chunked\r\nHost: b.test\r\nX-Forwarded-For: 1.1.1.1\r\nx_forwarded_for: 1.1.1.1\r\n\
         Forwarded: for=1.1.1.1\r\nConnection: close\r\nAuthorization: Basic eA==\r\nCookie: a=b\r\nX-Request-Id: 1\r\n\
         Upgrade: h2c\r\nExpect: 100-continue\r\nContent-Type: a/b\r\ngrpc-status: 0\r\n\r\n",
    );
    let mut upstream = origin.http();
    assert_eq!(
        upstream.request().trailers,
        "X-Sum: 1\r\ngrpc-status: 0\r\n"
    );
    upstream.send(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nSet-Cookie: a=b\r\nLocation: //evil\r\n\
         Content-Length: 5\r\nX-Sum: 2\r\n\r\n",
    );
    assert_eq!(client.answer().trailers, "X-Sum: 2\r\n");
}

/// Applications that get fields as variables cannot distinguish `-` from `_` (RFC 3875 §4.1.18):
/// such names would bring back fields that are refused or replaced in their usual spelling.
#[test]
fn field_names_with_underscores_cannot_imitate_ours() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer_Encoding: chunked\r\nContent_Length: 5\r\nX_Forwarded_For: 1.1.1.1\r\n\
         x-forwarded_host: b.test\r\nX_Request_Id: 1\r\nX_Own: 1\r\nContent-Length: 2\r\n\r\nab",
    );
    let mut upstream = origin.http();
    let request = upstream.request();
    assert_eq!((request.text(), request.field("x_own")), ("ab", Some("1")));
    for name in [
        "transfer_encoding",
        "content_length",
        "x_forwarded_for",
        "x-forwarded_host",
        "x_request_id",
    ] {
        assert_eq!(request.field(name), None, "{}", request.head);
    }
}

/// RFC 9112 §3.2.2: then Host is ignored, and the origin's Host is made from the target.
#[test]
fn an_absolute_form_target_overrides_host() {
    let origin = Origin::tcp();
    let address = origin.address();
    let toml = format!(
        "[site.\"a.test:0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"{address}\"\n\
         [site.\"b.test:0\"]\nlisten = [\"127.0.0.1\"]\nrespond = {{ status = 403, body = \"no\" }}\n"
    );
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send("GET http://a.test/x HTTP/1.1\r\nHost: b.test\r\nX-Forwarded-Host: b.test\r\n\r\n");
    let mut upstream = origin.http();
    let request = upstream.request();
    assert_eq!(request.first_line(), "GET /x HTTP/1.1");
    assert_eq!(
        (request.field("host"), request.field("x-forwarded-host")),
        (Some("a.test"), Some("a.test"))
    );
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.answer().status(), 204);
    client.send("GET http://b.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.answer().status(), 403);
}
