//! The PROXY header, as it is sent to endpoints and read from balancers in front.
//!
//! Sections are those of the specification, `proxy-protocol.txt` of HAProxy.

use std::net::{IpAddr, SocketAddr};

use lockgate_testkit::{Authority, Lockgate, Origin, Tls, Wire, server_config};
use serde_json::Value;

use crate::scene::{NAME, Site, VERSIONS, lockgate, text};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header of version 2 (§2.2): command PROXY, TCP over IPv4, then `tlvs`.
fn version2(source: SocketAddr, destination: SocketAddr, tlvs: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for address in [source, destination] {
        let IpAddr::V4(ip) = address.ip() else {
            panic!("an IPv4 address")
        };
        block.extend_from_slice(&ip.octets());
    }
    for address in [source, destination] {
        block.extend_from_slice(&address.port().to_be_bytes());
    }
    block.extend_from_slice(tlvs);
    let len = u16::try_from(block.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[0x21, 0x11], &len, &block].concat()
}

/// One field of version 2 (§2.2.1).
fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len()).unwrap().to_be_bytes();
    [&[kind], &len[..], value].concat()
}

fn relay_sending_proxy(version: &str, origin: &Origin) -> String {
    format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = \"{}\"\nproxy_protocol = \"{version}\"\n",
        origin.address()
    )
}

#[test]
fn proxy_v1_is_sent_before_the_data() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&relay_sending_proxy("v1", &origin));
    let mut client = Wire::connect(gate.address());
    let (from, to) = (client.local_address(), client.peer_address());
    client.send("data");
    let line = format!(
        "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
        from.port(),
        to.port()
    );
    origin.accept().expect(line + "data");
}

#[test]
fn proxy_v1_is_sent_over_ipv6_and_from_unix_sockets() {
    let site = Site::new();
    let front = site.folder.path("front.sock");
    let origin = Origin::tcp();
    let mut toml = String::new();
    for listener in [
        "[::1]:0".to_owned(),
        format!("unix:{}", text(&front)),
        ":0".to_owned(),
    ] {
        toml += &format!(
            "[tcp.\"{listener}\"]\nproxy = \"{}\"\nproxy_protocol = \"v1\"\n",
            origin.address()
        );
    }
    let gate = lockgate().start(&toml);
    let client = Wire::connect(gate.at("[::1]:0"));
    let (from, to) = (client.local_address(), client.peer_address());
    origin.accept().expect(format!(
        "PROXY TCP6 ::1 ::1 {} {}\r\n",
        from.port(),
        to.port()
    ));
    let _client = Wire::connect_unix(&front);
    origin.accept().expect("PROXY UNKNOWN\r\n");
    // IPv4 that arrives at a socket for both is IPv4.
    let client = Wire::connect(gate.at(":0"));
    let (from, to) = (client.local_address(), client.peer_address());
    origin.accept().expect(format!(
        "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
        from.port(),
        to.port()
    ));
}

#[test]
fn proxy_v2_is_sent_before_data_even_from_silent_clients() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&relay_sending_proxy("v2", &origin));
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    upstream.expect(version2(client.local_address(), client.peer_address(), &[]));
    client.send("data");
    upstream.expect("data");
}

#[test]
fn proxy_v2_carries_the_negotiated_tls_values() {
    let site = Site::new();
    let clients = Authority::new("Clients");
    let ca = text(&site.folder.write("clients.pem", clients.pem()));
    let origin = Origin::tcp();
    let auth = format!(", alpn = [\"h2\"], client_auth = {{ mode = \"request\", ca = \"{ca}\" }}");
    let gate =
        lockgate().start(&(site.tls(&origin.address(), &auth) + "proxy_protocol = \"v2\"\n"));
    let alice = clients.issue(&["alice"]);
    // A certificate need not have a common name: it was verified all the same.
    let nameless = clients.issue_with(&["alice"], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
    });
    for version in VERSIONS {
        let protocol = if version == VERSIONS[0] {
            &rustls::version::TLS12
        } else {
            &rustls::version::TLS13
        };
        let (told, cipher) = match version == VERSIONS[0] {
            true => ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
            false => ("TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        };
        // §2.2.5: 0x01 over TLS, 0x02 and 0x04 a certificate on this connection and in this
        // session; then whether its verification failed or there was none.
        for identity in [None, Some(&alice), Some(&nameless)] {
            let mut settings = site.client().version(protocol).alpn(&["h2"]);
            if let Some(identity) = identity {
                settings = settings.identity(identity);
            }
            let mut client = settings.connect(gate.address(), NAME).unwrap();
            client.send("data");
            let mut upstream = origin.accept();
            let (from, to) = (client.wire.local_address(), client.wire.peer_address());
            let head = upstream.exactly(16);
            let block = upstream.exactly(usize::from(u16::from_be_bytes([head[14], head[15]])));
            upstream.expect("data");
            let (flags, verify, name) = match identity {
                None => (vec![0x01], 1_u32, vec![]),
                Some(one) if std::ptr::eq(one, &nameless) => (vec![0x05, 0x07], 0, vec![]),
                Some(_) => (vec![0x05, 0x07], 0, tlv(0x22, b"alice")),
            };
            let expected: Vec<Vec<u8>> = flags
                .iter()
                .map(|flags| {
                    let ssl = [
                        &[*flags][..],
                        &verify.to_be_bytes(),
                        &tlv(0x21, told.as_bytes()),
                        &name,
                        &tlv(0x23, cipher.as_bytes()),
                    ]
                    .concat();
                    let tlvs = [
                        tlv(0x01, b"h2"),
                        tlv(0x02, NAME.as_bytes()),
                        tlv(0x20, &ssl),
                    ]
                    .concat();
                    version2(from, to, &tlvs)
                })
                .collect();
            let sent = [head, block].concat();
            assert!(expected.contains(&sent), "{told}: {}", sent.escape_ascii());
        }
    }
}

#[test]
fn the_proxy_header_precedes_tls_to_an_endpoint() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let origin = Origin::tcp();
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy_protocol = \"v2\"\n\
         proxy = {{ to = \"{}\", tls = {{ name = \"{NAME}\", ca = \"{ca}\" }} }}\n",
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let mut client = Wire::connect(gate.address());
    client.send("data");
    let mut wire = origin.accept();
    wire.expect(version2(client.local_address(), client.peer_address(), &[]));
    let mut upstream = Tls::accept(&server_config(&site.issued, None), wire).unwrap();
    upstream.expect("data");
}

/// A listener that accepts headers from 127.0.0.1 only, and hands them on.
fn relay_accepting_proxy(expected: &str, origin: &Origin) -> Lockgate {
    let toml = format!(
        "trusted = [\"127.0.0.1/32\"]\ntimeouts = {{ handshake = \"500ms\" }}\n\
         [tcp.\"127.0.0.1:0\"]\naccept_proxy = \"{expected}\"\nproxy = \"{}\"\nproxy_protocol = \"v1\"\n",
        origin.address()
    );
    lockgate().start(&toml)
}

const LINE: &str = "PROXY TCP4 203.0.113.9 198.51.100.1 41022 443\r\n";

#[test]
fn the_proxy_header_sets_the_client_in_log_and_upstream() {
    let origin = Origin::tcp();
    let mut gate = relay_accepting_proxy("require", &origin);
    let binary = version2(
        "203.0.113.9:41022".parse().unwrap(),
        "198.51.100.1:443".parse().unwrap(),
        &tlv(0xe0, b"custom"),
    );
    for header in [LINE.as_bytes(), &binary] {
        let mut client = Wire::connect(gate.address());
        client.send(header);
        client.send("data");
        origin.accept().expect(LINE.to_owned() + "data");
        let port = client.local_address().port();
        drop(client);
        let line = gate.next_line();
        assert_eq!(
            (&line["client"], &line["client_port"]),
            (&"203.0.113.9".into(), &41022.into()),
            "{line}"
        );
        assert_eq!(
            (&line["peer"], &line["peer_port"]),
            (&"127.0.0.1".into(), &port.into()),
            "{line}"
        );
        assert_eq!(line["received_bytes"], 4, "the header is not data: {line}");
    }
    let top = lockgate_testkit::eventually("the client in /top", || {
        let top = gate.top();
        let listed = top["clients"]
            .as_array()?
            .iter()
            .find(|client| client["client"] == "203.0.113.9")?
            .clone();
        (listed["received_bytes"] == 8).then_some(listed)
    });
    assert!(top.is_object());
}

#[test]
fn a_proxy_header_may_arrive_in_any_pieces() {
    let origin = Origin::tcp();
    let gate = relay_accepting_proxy("require", &origin);
    let mut client = Wire::connect(gate.address());
    for byte in LINE.bytes() {
        client.send([byte]);
    }
    origin.accept().expect(LINE);
    let mut client = Wire::connect(gate.address());
    client.send(LINE.to_owned() + "data in the same segment");
    origin
        .accept()
        .expect(LINE.to_owned() + "data in the same segment");
}

#[test]
fn a_proxy_local_header_names_the_balancer_itself() {
    let origin = Origin::tcp();
    let mut gate = relay_accepting_proxy("require", &origin);
    let local = [SIGNATURE, &[0x20, 0x00, 0, 0]].concat();
    for header in [&local[..], b"PROXY UNKNOWN\r\n"] {
        let mut client = Wire::connect(gate.address());
        client.send(header);
        client.send("data");
        let port = client.local_address().port();
        let told = format!(
            "PROXY TCP4 127.0.0.1 127.0.0.1 {port} {}\r\ndata",
            gate.address().port()
        );
        origin.accept().expect(told);
        drop(client);
        assert_eq!(gate.next_line()["client_port"], port);
    }
}

#[test]
fn a_proxy_header_precedes_tls() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let toml = "trusted = [\"127.0.0.1/32\"]\n".to_owned()
        + &site.tls(origin.address(), "")
        + "accept_proxy = \"require\"\n";
    let mut gate = lockgate().start(&toml);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut wire = Wire::connect(gate.address());
        wire.send(LINE);
        let mut client = Tls::connect(&site.client().version(version).build(), wire, NAME).unwrap();
        client.send("data");
        client.expect("data");
        client.finish();
        client.rest();
        assert_eq!(gate.next_line()["client"], "203.0.113.9");
    }
}

/// Sends `bytes` and waits for the end; the log's line about it.
fn refused(gate: &mut Lockgate, bytes: &[u8]) -> Value {
    let mut client = Wire::connect(gate.address());
    client.send(bytes);
    let (read, _) = client.end();
    assert!(read.is_empty(), "nothing is answered");
    gate.next_line()
}

#[test]
fn a_malformed_proxy_header_closes_the_connection() {
    let origin = Origin::tcp();
    let mut gate = relay_accepting_proxy("require", &origin);
    let v2 = |command: u8, family: u8, block: &[u8]| {
        let len = u16::try_from(block.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family], &len, block].concat()
    };
    let mut runs_over = version2(
        "192.0.2.1:1".parse().unwrap(),
        "192.0.2.2:2".parse().unwrap(),
        &tlv(0x02, b"name"),
    );
    let at = runs_over.len() - 5;
    runs_over[at] = 200; // the field claims more than the header has
    for (what, bytes) in [
        ("no header", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (
            "a word that is almost right",
            b"PROXI TCP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec(),
        ),
        ("another family", b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec()),
        (
            "a port that is none",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n".to_vec(),
        ),
        (
            "leading zeros",
            b"PROXY TCP4 192.0.2.001 192.0.2.2 1 2\r\n".to_vec(),
        ),
        (
            "one field short",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n".to_vec(),
        ),
        ("no end", [b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat()),
        (
            "a line feed alone",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n".to_vec(),
        ),
        ("version 3", v2(0x31, 0x11, &[0; 12])),
        ("an unknown command", v2(0x22, 0x11, &[0; 12])),
        ("an unknown family", v2(0x21, 0x41, &[0; 12])),
        ("a datagram", v2(0x21, 0x12, &[0; 12])),
        ("too short for its addresses", v2(0x21, 0x11, &[0; 11])),
        ("a field that runs over", runs_over),
        (
            "65,535 bytes",
            [SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat(),
        ),
    ] {
        let line = refused(&mut gate, &bytes);
        assert_eq!(line["cause"], "refused_by_rule", "{what}: {line}");
        assert!(
            line["detail"].as_str().unwrap().contains("PROXY"),
            "{what}: {line}"
        );
        assert!(line["endpoint"].is_null());
    }
    assert!(
        !origin.has_one(std::time::Duration::ZERO),
        "no endpoint was bothered"
    );
}

#[test]
fn an_unfinished_proxy_header_is_closed_by_the_deadline() {
    let origin = Origin::tcp();
    let mut gate = relay_accepting_proxy("require", &origin);
    let binary = version2(
        "192.0.2.1:1".parse().unwrap(),
        "192.0.2.2:2".parse().unwrap(),
        &[],
    );
    for cut in [&LINE.as_bytes()[..20], &binary[..5], &binary[..20]] {
        let line = refused(&mut gate, cut);
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"too_slow".into(), &"downstream".into()),
            "{line}"
        );
    }
    // Closed by the client instead.
    let mut client = Wire::connect(gate.address());
    client.send(&LINE[..20]);
    client.finish();
    client.expect_end();
    assert_eq!(gate.next_line()["cause"], "client_closed");
}

#[test]
fn a_reset_within_the_proxy_header_harms_no_other_client() {
    let origin = Origin::tcp();
    let gate = relay_accepting_proxy("require", &origin);
    for cut in [1, 20, LINE.len() - 1] {
        let mut client = Wire::connect(gate.address());
        client.send(&LINE[..cut]);
        client.reset();
        gate.wait_for_sample("lockgate_connections", &["listener="], 0.0);
    }
    let mut client = Wire::connect(gate.address());
    client.send(LINE.to_owned() + "data");
    origin.accept().expect(LINE.to_owned() + "data");
}

#[test]
fn accept_proxy_require_refuses_untrusted_peers() {
    let origin = Origin::tcp();
    let mut gate = relay_accepting_proxy("require", &origin);
    let mut stranger = Wire::connect_from([127, 0, 0, 2].into(), gate.address());
    stranger.send(LINE);
    stranger.wait_closed();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"refused_by_rule".into(), &"lockgate".into()),
        "{line}"
    );
    assert_eq!(
        (&line["client"], &line["peer"]),
        (&"127.0.0.2".into(), &"127.0.0.2".into()),
        "nobody believes it"
    );
}

#[test]
fn accept_proxy_optional_reads_headers_of_trusted_peers_only() {
    let origin = Origin::tcp();
    let mut gate = relay_accepting_proxy("optional", &origin);
    // Trusted, with a header and without one.
    let mut client = Wire::connect(gate.address());
    client.send(LINE.to_owned() + "data");
    origin.accept().expect(LINE.to_owned() + "data");
    drop(client);
    assert_eq!(gate.next_line()["client"], "203.0.113.9");
    let mut client = Wire::connect(gate.address());
    client.send("GET / HTTP/1.1\r\n");
    let port = client.local_address().port();
    let own = format!(
        "PROXY TCP4 127.0.0.1 127.0.0.1 {port} {}\r\n",
        gate.address().port()
    );
    origin.accept().expect(own + "GET / HTTP/1.1\r\n");
    drop(client);
    assert_eq!(gate.next_line()["client"], "127.0.0.1");
    // The header of an untrusted peer is not read: it is data.
    let mut stranger = Wire::connect_from([127, 0, 0, 2].into(), gate.address());
    stranger.send(LINE);
    let port = stranger.local_address().port();
    let own = format!(
        "PROXY TCP4 127.0.0.2 127.0.0.1 {port} {}\r\n",
        gate.address().port()
    );
    origin.accept().expect(own + LINE);
    drop(stranger);
    assert_eq!(gate.next_line()["client"], "127.0.0.2");
}

#[test]
fn without_accept_proxy_a_header_is_data() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&crate::scene::plain(&origin.address()));
    let mut client = Wire::connect(gate.address());
    client.send(LINE);
    origin.accept().expect(LINE);
}

/// Every header that is worth passing on, with the bytes that must arrive.
fn headers() -> Vec<Vec<u8>> {
    let (from, to): (SocketAddr, SocketAddr) = (
        "203.0.113.7:4711".parse().unwrap(),
        "198.51.100.1:443".parse().unwrap(),
    );
    // §2.2: an unknown TLV (PP2_TYPE_MIN_CUSTOM) and a NOOP are others' to understand.
    let tlvs = [
        tlv(0xe0, b"custom"),
        tlv(0x04, &[0; 9]),
        tlv(0x02, b"name.test"),
    ]
    .concat();
    vec![
        b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n".to_vec(),
        b"PROXY UNKNOWN and what not\r\n".to_vec(),
        version2(from, to, &[]),
        version2(from, to, &tlvs),
        // LOCAL, with bytes that are ignored.
        [SIGNATURE, &[0x20, 0x00, 0, 3, 1, 2, 3]].concat(),
    ]
}

#[test]
fn a_proxy_header_is_passed_on_byte_for_byte() {
    let site = Site::new();
    let origin = Origin::tcp();
    let common = format!(
        "accept_proxy = \"require\"\nproxy_protocol = \"pass\"\nproxy = \"{}\"\n",
        origin.address()
    );
    let gate = lockgate().start(&format!(
        "trusted = [\"127.0.0.0/8\"]\n[tcp.\"127.0.0.1:0\"]\n{common}[tcp.\"127.0.0.2:0\"]\ntls = \"{}\"\n{common}\
         [tcp.\"127.0.0.3:0\"]\naccept_proxy = \"require\"\nproxy_protocol = \"pass\"\ndefault = \"{}\"\n",
        site.cert,
        origin.address()
    ));
    let hello = lockgate_testkit::client_hello(&site.client().build(), NAME);
    for header in headers() {
        for piece in [header.len(), 1] {
            let mut plain = Wire::connect(gate.at("127.0.0.1:0"));
            let mut passed = Wire::connect(gate.at("127.0.0.3:0"));
            for part in header.chunks(piece) {
                plain.send(part);
                passed.send(part);
            }
            plain.send("data");
            let mut upstream = origin.accept();
            upstream.expect(&header);
            upstream.expect("data");
            passed.send(&hello);
            let mut upstream = origin.accept();
            upstream.expect(&header);
            upstream.expect(&hello);
        }
        let mut wire = Wire::connect(gate.at("127.0.0.2:0"));
        wire.send(&header);
        let mut client = Tls::connect(&site.client().build(), wire, NAME).unwrap();
        client.send("data");
        let mut upstream = origin.accept();
        upstream.expect(&header);
        upstream.expect("data");
    }
}

#[test]
fn proxy_protocol_pass_generates_a_header_where_none_came() {
    let origin = Origin::tcp();
    for trusted in ["127.0.0.0/8", "10.0.0.0/8"] {
        let gate = lockgate().start(&format!(
            "trusted = [\"{trusted}\"]\n[tcp.\"127.0.0.1:0\"]\naccept_proxy = \"optional\"\nproxy_protocol = \"pass\"\n\
             proxy = \"{}\"\n",
            origin.address()
        ));
        // The header of an untrusted peer is data behind our own header.
        let said = if trusted == "127.0.0.0/8" {
            "data"
        } else {
            "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"
        };
        let mut client = Wire::connect(gate.address());
        client.send(said);
        let mut upstream = origin.accept();
        upstream.expect(version2(client.local_address(), client.peer_address(), &[]));
        upstream.expect(said);
    }
}
