//! Heads that cost too much, name a host in another spelling, or carry fields that only servers
//! behind us would believe.

use lockgate_testkit::{Http, Origin};

use super::{OK, plain_site};
use crate::scene::lockgate;

#[test]
fn a_connection_field_with_thousands_of_tokens_is_refused() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let tokens = |count: usize| {
        (0..count)
            .map(|at| format!("X{at:05}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let ask = |count: usize| {
        let mut client = Http::connect(gate.address());
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: {}\r\n\r\n",
            tokens(count)
        ));
        client
    };
    for count in [33, 8_000] {
        assert_eq!(ask(count).answer().status(), 400, "{count}");
        let mut client = ask(1);
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(format!(
            "HTTP/1.1 200 OK\r\nConnection: {}\r\nContent-Length: 2\r\n\r\nok",
            tokens(count)
        ));
        let got = client.answer();
        assert_eq!(got.status(), 502, "{count}");
        assert!(got.head.contains("http_protocol_error"), "{}", got.head);
        let line = gate.line("the answer", |line| line["status"] == 502);
        assert!(
            line["detail"]
                .as_str()
                .unwrap()
                .contains("Connection names too many fields"),
            "{line}"
        );
    }
    let mut client = ask(32);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(OK);
    assert_eq!(client.answer().status(), 200);
}

/// RFC 9112 §3.
#[test]
fn a_method_of_more_than_64_bytes_is_501() {
    let origin = Origin::tcp().answering(|_| OK.into());
    let gate = lockgate().start(&plain_site(origin.address()));
    for (length, status) in [(64, 200), (65, 501), (9_000, 501)] {
        let mut client = Http::connect(gate.address());
        client.send(format!(
            "{} / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "M".repeat(length)
        ));
        assert_eq!(client.answer().status(), status, "{length}");
    }
}

/// CVE-2016-5385 and its like ("httpoxy"): CGI makes HTTP_PROXY of it.
#[test]
fn the_proxy_field_is_removed_against_httpoxy() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client
        .send("GET / HTTP/1.1\r\nHost: a.test\r\nPROXY: http://evil.test\r\nProxy:\r\nX-Proxy: kept\r\n\r\n");
    let mut upstream = origin.http();
    let got = upstream.request();
    assert_eq!(
        (got.all("proxy").count(), got.field("x-proxy")),
        (0, Some("kept")),
        "{}",
        got.head
    );
    upstream.send(OK);
    assert_eq!(client.answer().status(), 200);
}

/// RFC 5952: an IPv6 host in another spelling does not evade the rules of its site.
#[test]
fn an_ipv6_host_is_the_same_site_in_every_spelling() {
    let gate = lockgate().start(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"any\"\n\
         [site.\"[2001:DB8:0::1]:0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"strict {host}\"\nalias = [\"[::1]\"]\n",
    );
    for (host, expected) in [
        ("[2001:db8::1]", "strict [2001:db8::1]"),
        ("[2001:DB8:0:0:0:0:0:1]:80", "strict [2001:db8::1]"),
        ("[2001:0db8::0.0.0.1]", "strict [2001:db8::1]"),
        ("[::1]", "strict [::1]"),
        ("[0:0:0:0:0:0:0:1]", "strict [::1]"),
        ("[0::0.0.0.1]:8080", "strict [::1]"),
        ("[::2]", "any"),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.answer().text(), expected, "{host}");
    }
}
