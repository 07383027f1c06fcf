//! Responses of a relay while no endpoint is up: the pool's maintenance response over HTTP, nothing
//! over other protocols.

use lockgate_testkit::{Lockgate, Tls, Wire, client_hello};

use crate::scene::{NAME, Site, deserted, lockgate};

/// 127.0.0.1 in plain, .2 with TLS terminated, .3 with TLS passed through; no endpoint is up.
fn relays_without_endpoint(site: &Site) -> Lockgate {
    let gate = lockgate().workers(2).start(&format!(
        "[pool.app]\nendpoints = [\"{}\"]\nhealth = {{ every = \"10ms\", fall = 1 }}\n\
         maintenance = {{ status = 503, body = \"back soon\\n\" }}\n\
         [tcp.\"127.0.0.1:0\"]\nproxy = \"pool:app\"\n\
         [tcp.\"127.0.0.2:0\"]\ntls = {{ cert = \"{}\", alpn = [\"h2\", \"http/1.1\"] }}\nproxy = \"pool:app\"\n\
         [tcp.\"127.0.0.3:0\"]\ndefault = \"pool:app\"\n",
        deserted(),
        site.cert
    ));
    gate.says("every endpoint of the pool is down");
    gate
}

fn assert_maintenance(answer: &[u8]) {
    let answer = String::from_utf8(answer.to_vec()).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
        "{answer}"
    );
    assert!(
        head.contains("\r\nContent-Length: 10\r\n") && head.contains("\r\nConnection: close"),
        "{answer}"
    );
    assert_eq!(body, "back soon\n");
}

#[test]
fn a_relay_without_endpoints_answers_http_with_503() {
    let site = Site::new();
    let mut gate = relays_without_endpoint(&site);
    let request = "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n";
    for piece in [request.len(), 1] {
        let mut client = Wire::connect(gate.at("127.0.0.1:0"));
        for part in request.as_bytes().chunks(piece) {
            client.send(part);
        }
        client.finish();
        assert_maintenance(&client.rest());
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"connect_failed".into(), &"upstream".into()),
            "{line}"
        );
        assert!(line["detail"].as_str().unwrap().contains("down"), "{line}");
    }
    for alpn in [&[][..], &["http/1.1"]] {
        let mut client = site
            .client()
            .alpn(alpn)
            .connect(gate.at("127.0.0.2:0"), NAME)
            .unwrap();
        client.send(request);
        assert_maintenance(&client.rest());
    }
    // RFC 9110 §9.3.2: the head alone.
    let mut client = Wire::connect(gate.at("127.0.0.1:0"));
    client.send("HEAD / HTTP/1.1\r\nHost: app.test\r\n\r\n");
    client.finish();
    let answer = client.rest();
    assert!(answer.starts_with(b"HTTP/1.1 503 ") && answer.ends_with(b"\r\n\r\n"));
}

#[test]
fn a_relay_without_endpoints_closes_other_protocols_silently() {
    let site = Site::new();
    let mut gate = relays_without_endpoint(&site);
    for (listener, said) in [
        ("127.0.0.1:0", &b"SSH-2.0-OpenSSH_9.2\r\n"[..]),
        ("127.0.0.1:0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("127.0.0.3:0", &client_hello(&site.client().build(), NAME)),
    ] {
        let mut client = Wire::connect(gate.at(listener));
        client.send(said);
        assert_eq!(client.end().0, b"");
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["sent_bytes"]),
            (&"connect_failed".into(), &0.into()),
            "{line}"
        );
    }
    // HTTP/2 was agreed on: HTTP/1.1 would not be understood.
    let asked = site.client().alpn(&["h2"]).build();
    let mut client = Tls::connect(&asked, Wire::connect(gate.at("127.0.0.2:0")), NAME).unwrap();
    assert_eq!(client.end().0, b"");
}
