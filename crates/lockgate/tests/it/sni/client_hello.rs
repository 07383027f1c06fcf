//! ClientHellos in every form, on a port with SNI routing: routed, or closed with the right alert.

use std::io::Write;

use lockgate_testkit::{Lockgate, Origin, Wire, client_hello};

use super::tcp;
use crate::scene::{Site, lockgate};

/// A TLS record of a handshake (RFC 8446 §5.1).
fn record(content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[22, 3, 1, len[0], len[1]], content].concat()
}

/// A ClientHello (RFC 8446 §4.1.2) with these extensions.
fn hello(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let vec16 = |bytes: &[u8]| {
        [
            &u16::try_from(bytes.len()).unwrap().to_be_bytes()[..],
            bytes,
        ]
        .concat()
    };
    let extensions: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, content)| [&kind.to_be_bytes()[..], &vec16(content)].concat())
        .collect();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &[0, 2, 0x13, 0x01],
        &[1, 0],
        &vec16(&extensions),
    ]
    .concat();
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1], &len[1..], &body].concat()
}

/// The server_name extension (RFC 6066 §3).
fn server_name(name: &[u8]) -> (u16, Vec<u8>) {
    let len = u16::try_from(name.len()).unwrap();
    let list = [&[0], &len.to_be_bytes()[..], name].concat();
    (0, [&(len + 3).to_be_bytes()[..], &list].concat())
}

fn started(origin: &Origin, more: &str) -> Lockgate {
    lockgate().start(&format!(
        "{more}{}",
        tcp(&format!("sni.\"app.test\" = \"{}\"", origin.address()))
    ))
}

#[test]
fn a_client_hello_is_forwarded_whole_in_any_pieces() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = started(&origin, "");
    let named = server_name(b"App.Test");
    // RFC 7685: padding, here to a whole record.
    let padded = hello(&[named.clone(), (21, vec![0; 16_200])]);
    let small = hello(&[named]);
    let in_records: Vec<u8> = small.iter().flat_map(|byte| record(&[*byte])).collect();
    for (what, sent) in [
        (
            "of rustls",
            client_hello(&site.client().build(), "app.test"),
        ),
        ("small", record(&small)),
        ("padded to 16 KB", record(&padded)),
        ("one byte a record", in_records),
    ] {
        for piece in [sent.len(), 1] {
            let mut client = Wire::connect(gate.address());
            for part in sent.chunks(piece) {
                client.send(part);
            }
            let mut upstream = origin.accept();
            upstream.expect(&sent);
            upstream.send(what);
            client.expect(what);
        }
    }
}

#[test]
fn a_malformed_client_hello_gets_its_alert() {
    let origin = Origin::tcp();
    let mut gate = started(&origin, "");
    let alert = |description: u8| vec![21, 3, 3, 0, 2, 2, description];
    let long = [b"a.".repeat(126), b"bcd".to_vec()].concat();
    assert_eq!(long.len(), 255);
    let http: &[u8] = b"GET / HTTP/1.1\r\nHost: app.test\r\n\r\n";
    // RFC 8446 §6: illegal_parameter, unrecognized_name, decode_error, unexpected_message.
    for (what, sent, answer, reason) in [
        (
            "an SNI of 255 bytes",
            record(&hello(&[server_name(&long)])),
            alert(47),
            "malformed",
        ),
        (
            "an SNI with NUL",
            record(&hello(&[server_name(b"app.test\0.x")])),
            alert(47),
            "malformed",
        ),
        (
            "an empty SNI",
            record(&hello(&[server_name(b"")])),
            alert(50),
            "malformed",
        ),
        (
            "another name",
            record(&hello(&[server_name(b"x.app.test")])),
            alert(112),
            "unknown_name",
        ),
        ("no SNI", record(&hello(&[])), alert(112), "unknown_name"),
        (
            "an address as SNI",
            record(&hello(&[server_name(b"127.0.0.1")])),
            alert(112),
            "unknown_name",
        ),
        (
            "a ServerHello",
            record(&[2, 0, 0, 4, 0, 0, 0, 0]),
            alert(10),
            "malformed",
        ),
        (
            "SSH",
            b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
            Vec::new(),
            "not_tls",
        ),
        ("zeros", vec![0; 600], Vec::new(), "not_tls"),
    ] {
        let mut client = Wire::connect(gate.address());
        client.write_all(&sent).ok();
        let (said, _) = client.end();
        assert_eq!(said, answer, "{what}");
        drop(client);
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"handshake_failed".into(), &"downstream".into()),
            "{what}: {line}"
        );
        let labels = [&*format!("reason=\"{reason}\"")];
        assert!(
            gate.sample("lockgate_tls_handshake_failures_total", &labels) > 0.0,
            "{what}"
        );
    }
    let mut client = Wire::connect(gate.address());
    client.send(http);
    client.finish();
    assert!(client.rest().starts_with(b"HTTP/1.1 400 "));
    assert!(!origin.has_one(std::time::Duration::ZERO));
}

#[test]
fn an_endless_client_hello_takes_bounded_memory_and_time() {
    let origin = Origin::tcp();
    let mut gate = started(&origin, "timeouts = { handshake = \"1s\" }\n");
    // It announces 16 MB, in records as they are allowed.
    let mut client = Wire::connect(gate.address());
    let endless = [&[1, 0xff, 0xff, 0xff][..], &[0; 16_000]].concat();
    client.write_all(&record(&endless)).ok();
    let (said, _) = client.end();
    assert_eq!(said, [21, 3, 3, 0, 2, 2, 50]);
    drop(client);
    assert_eq!(gate.next_line()["cause"], "handshake_failed");
    let mut client = Wire::connect(gate.address());
    client.send(&record(&hello(&[server_name(b"app.test")]))[..40]);
    client.wait_closed();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"too_slow".into(), &"downstream".into())
    );
    gate.wait_for_sample(
        "lockgate_tls_handshake_failures_total",
        &["reason=\"timeout\""],
        1.0,
    );
    assert!(!origin.has_one(std::time::Duration::ZERO));
}
