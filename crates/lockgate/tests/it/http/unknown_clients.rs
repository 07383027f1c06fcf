//! Trusted proxies with ports, brackets or quotes in X-Forwarded-For, or no address: then the
//! client is unknown, and is never taken for the proxy.

use lockgate_testkit::{Http, Lockgate, Message, Origin, Wire};

use super::plain_site;
use crate::scene::lockgate;

/// Values without an address of the client.
const UNKNOWN: [&str; 9] = [
    "unknown",
    "_hidden",
    "\"unknown\"",
    "",
    ",",
    "192.0.2.1, ",
    "192.0.2.1, _hidden",
    "[2001:db8::1",
    "192.0.2.1:99999",
];

/// A site that responds with the client's address; 127.0.0.1 is a trusted proxy.
fn site_showing_client(keys: &str) -> String {
    format!(
        "trusted = [\"127.0.0.1/32\"]\n[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"{{client}}\"\n{keys}\n"
    )
}

fn ask(gate: &Lockgate, client: &str) -> Message {
    let mut proxy = Http::connect(gate.address());
    proxy.send(format!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\n\r\n"
    ));
    proxy.answer()
}

#[test]
fn x_forwarded_for_may_have_ports_brackets_and_quotes() {
    let gate = lockgate().start(&site_showing_client(
        "allow = [\"192.0.2.0/24\", \"2001:db8::/32\"]",
    ));
    for (hop, client) in [
        ("192.0.2.1:4711", Some("192.0.2.1")),
        ("\"192.0.2.1\"", Some("192.0.2.1")),
        ("\"192.0.2.1:4711\"", Some("192.0.2.1")),
        ("[2001:db8::1]", Some("2001:db8::1")),
        ("[2001:db8::1]:4711", Some("2001:db8::1")),
        ("\"[2001:db8::1]:4711\"", Some("2001:db8::1")),
        ("192.0.2.1:1, 127.0.0.1:2", Some("192.0.2.1")),
        ("9.9.9.9:1", None),
        ("9.9.9.9:1, 127.0.0.1", None),
        ("[2001:db9::1]:1", None),
        ("\"10.1.1.1\"", None),
    ] {
        let got = ask(&gate, hop);
        match client {
            Some(client) => assert_eq!((got.status(), got.text()), (200, client), "{hop}"),
            None => assert_eq!(got.status(), 403, "{hop}"),
        }
    }
}

#[test]
fn allow_and_deny_refuse_unknown_clients_of_trusted_proxies() {
    for keys in [
        "allow = [\"127.0.0.0/8\"]",
        "allow = [\"0.0.0.0/0\", \"::/0\"]",
        "deny = [\"192.0.2.66\"]",
    ] {
        let gate = lockgate().start(&site_showing_client(keys));
        for hop in UNKNOWN {
            assert_eq!(ask(&gate, hop).status(), 403, "{keys} {hop:?}");
        }
    }
    let gate = lockgate().start(&site_showing_client(""));
    for hop in UNKNOWN {
        let got = ask(&gate, hop);
        assert_eq!((got.status(), got.text()), (200, "unknown"), "{hop:?}");
    }
    // Addresses from the client itself stand before the one that its proxy adds.
    for hop in UNKNOWN {
        assert_eq!(
            ask(&gate, &format!("{hop}, 192.0.2.1")).text(),
            "192.0.2.1",
            "{hop:?}"
        );
    }
}

#[test]
fn unknown_clients_share_one_rate_limit_bucket() {
    let gate = lockgate()
        .workers(2)
        .start(&site_showing_client("limit = \"1/h burst 3\""));
    let statuses = UNKNOWN.map(|hop| ask(&gate, hop).status());
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        3,
        "{statuses:?}"
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 429).count(),
        UNKNOWN.len() - 3
    );
    // Neither the proxy's nor that of another client.
    assert_eq!(ask(&gate, "192.0.2.1").status(), 200);
    let mut proxy = Http::connect(gate.address());
    proxy.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(proxy.answer().text(), "127.0.0.1");
}

#[test]
fn unknown_clients_hash_to_one_endpoint() {
    let origins = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}").into_bytes();
        Origin::tcp().answering(move |_| answer.clone())
    });
    let endpoints: Vec<_> = origins
        .iter()
        .map(|origin| format!("\"{}\"", origin.address()))
        .collect();
    let toml = format!(
        "trusted = [\"127.0.0.1/32\"]\n[pool.app]\nendpoints = [{}]\nbalance = {{ hash = \"client\" }}\n{}",
        endpoints.join(", "),
        plain_site("pool:app")
    );
    let gate = lockgate().start(&toml);
    let first = ask(&gate, UNKNOWN[0]);
    for hop in UNKNOWN {
        assert_eq!(ask(&gate, hop).text(), first.text(), "{hop:?}");
    }
}

#[test]
fn logs_and_metrics_show_unknown_clients() {
    let gate = lockgate().start(&site_showing_client(""));
    assert_eq!(ask(&gate, "_hidden").status(), 200);
    let line = gate.line("the request", |line| line["status"] == 200);
    assert_eq!(
        (&line["client"], &line["peer"]),
        (&"unknown".into(), &"127.0.0.1".into()),
        "{line}"
    );
    assert!(line["client_port"].is_null(), "{line}");
    gate.wait_for_sample("lockgate_requests_unknown_client_total", &[], 1.0);
    let said = gate.says("the client is unknown");
    assert_eq!(
        (&said["proxy"], &said["hop"]),
        (&"127.0.0.1".into(), &"_hidden".into()),
        "{said}"
    );
    // A line a minute is enough.
    for hop in UNKNOWN {
        assert_eq!(ask(&gate, hop).status(), 200);
    }
    gate.wait_for_sample(
        "lockgate_requests_unknown_client_total",
        &[],
        1.0 + UNKNOWN.len() as f64,
    );
    let ended = gate.stop();
    assert_eq!(
        ended.stderr.matches("the client is unknown").count(),
        1,
        "{}",
        ended.stderr
    );

    let toml = "access_log = { format = \"combined\", mask_ip = true }\n".to_owned()
        + &site_showing_client("");
    let gate = lockgate().start(&toml);
    assert_eq!(ask(&gate, "unknown").status(), 200);
    assert_eq!(ask(&gate, "\"192.0.2.77:1\"").status(), 200);
    gate.stdout()
        .find("a line", |line| line.starts_with("- - - [").then_some(()));
    gate.stdout().find("a masked line", |line| {
        line.starts_with("192.0.2.0 - - [").then_some(())
    });
}

/// The proxy's field is forwarded as it came, and the service decides.
#[test]
fn forward_auth_gets_the_unknown_client() {
    let (origin, service) = (Origin::tcp(), Origin::tcp());
    let toml = format!(
        "trusted = [\"127.0.0.1/32\"]\n{}auth = {{ forward = \"{}\" }}\nrequest_headers = {{ \"X-Client\" = \"{{client}}\" }}\n",
        plain_site(origin.address()),
        service.address()
    );
    let gate = lockgate().start(&toml);
    let mut proxy = Http::connect(gate.address());
    proxy.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: unknown\r\n\r\n");
    let mut asked = service.http();
    assert_eq!(
        asked.request().field("x-forwarded-for"),
        Some("unknown, 127.0.0.1")
    );
    asked.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let mut upstream = origin.http();
    let got = upstream.request();
    assert_eq!(got.field("x-forwarded-for"), Some("unknown, 127.0.0.1"));
    assert_eq!(got.field("x-client"), Some("unknown"));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(proxy.answer().status(), 200);
}

/// A PROXY header is about the connection; its other end is the proxy.
#[test]
fn proxy_protocol_to_endpoints_names_the_connection() {
    let origin = Origin::tcp();
    let toml = format!(
        "trusted = [\"127.0.0.1/32\"]\n[pool.app]\nendpoints = [\"{}\"]\nproxy_protocol = \"v1\"\n{}",
        origin.address(),
        plain_site("pool:app")
    );
    let gate = lockgate().start(&toml);
    let mut proxy = Http::over(Wire::connect(gate.address()));
    let port = proxy.stream.local_address().port();
    proxy.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: unknown\r\n\r\n");
    let mut upstream = origin.http();
    let header = upstream.line();
    assert!(
        header.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "),
        "{header}"
    );
    assert!(header.contains(&format!(" {port} ")), "{header}");
}
