//! Malformed TLS: refused by the right alert, with a cause in the log, and no other client notices.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::{Command, Stdio};
use std::time::Duration;

use lockgate_testkit::{ClientSettings, Lockgate, Origin, Serving, Tls, Wire, bytes, client_hello};
use rustls::{AlertDescription, Connection, ProtocolVersion};
use serde_json::Value;

use crate::scene::{NAME, Site, VERSIONS, lockgate, text};

fn started(site: &Site) -> (Serving, Lockgate) {
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&site.tls(origin.address(), ""));
    (origin, gate)
}

/// A listener with a short handshake timeout.
fn hasty(site: &Site) -> (Serving, Lockgate) {
    let origin = Origin::tcp().echo();
    let toml = "timeouts = { handshake = \"1s\" }\n".to_owned() + &site.tls(origin.address(), "");
    let gate = lockgate().start(&toml);
    (origin, gate)
}

/// Checks that the log has this connection as a failed handshake, and that the next client is
/// served.
fn assert_failed_handshake(gate: &mut Lockgate, site: &Site, what: &str) -> Value {
    let line = gate.next_line();
    assert_eq!(line["cause"], "handshake_failed", "{what}: {line}");
    let mut next = site.connect(gate);
    next.send("ping");
    next.expect("ping");
    next.finish();
    next.rest();
    assert_eq!(gate.next_line()["cause"], "client_closed");
    line
}

/// A TLS record (RFC 8446 §5.1).
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[kind, 3, 3, len[0], len[1]], content].concat()
}

#[test]
fn plain_http_on_a_tls_port_gets_a_readable_400() {
    let site = Site::new();
    let (_origin, mut gate) = started(&site);
    for request in [
        "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n",
        "POST /upload HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello",
    ] {
        let mut client = Wire::connect(gate.address());
        client.send(request);
        client.finish();
        let answer = String::from_utf8(client.rest()).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{answer}"
        );
        assert!(body.contains("https"), "{answer}");
        let line = assert_failed_handshake(&mut gate, &site, request);
        assert!(line["detail"].as_str().unwrap().contains("HTTP"), "{line}");
    }
    gate.wait_for_sample(
        "lockgate_tls_handshake_failures_total",
        &["reason=\"plain_http\""],
        2.0,
    );
}

#[test]
fn garbage_on_a_tls_port_closes_only_its_connection() {
    let site = Site::new();
    let (_origin, mut gate) = started(&site);
    let random = bytes(12, 4096);
    // A hello of SSL 2 (draft-hickman-netscape-ssl-00 §2.5): a length with the highest bit, type 1,
    // version 0.2.
    let ssl2 = [
        0x80, 0x2e, 0x01, 0x00, 0x02, 0x00, 0x15, 0x00, 0x00, 0x00, 0x10, 0x01, 0x00, 0x80,
    ];
    let no_hello = record(22, &[2, 0, 0, 4, 0, 0, 0, 0]);
    let application = record(23, &[0; 64]);
    let too_long = [22, 3, 1, 0xff, 0xff];
    let empty = record(22, &[]);
    for (what, sent) in [
        ("random bytes", &random[..]),
        ("zeros", &[0; 600]),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("a hello of SSL 2", &ssl2),
        ("a ServerHello", &no_hello),
        ("application data", &application),
        ("a record that is too long", &too_long),
        ("an empty record", &empty),
    ] {
        let mut client = Wire::connect(gate.address());
        client.write_all(sent).ok();
        client.wait_closed();
        drop(client); // until then it is waited for, so that no reset overtakes the alert
        assert_failed_handshake(&mut gate, &site, what);
    }
}

#[test]
fn a_truncated_client_hello_is_closed_by_the_client() {
    let site = Site::new();
    let (_origin, mut gate) = started(&site);
    let hello = client_hello(&site.client().build(), NAME);
    for len in [1, 4, 5, 6, 43, hello.len() / 2, hello.len() - 1] {
        let mut client = Wire::connect(gate.address());
        client.send(&hello[..len]);
        client.finish();
        client.wait_closed();
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"client_closed".into(), &"downstream".into()),
            "{len} bytes"
        );
    }
}

#[test]
fn a_stalled_client_hello_is_too_slow() {
    let site = Site::new();
    let (_origin, mut gate) = hasty(&site);
    let hello = client_hello(&site.client().build(), NAME);
    let mut client = Wire::connect(gate.address());
    client.send(&hello[..100]);
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
}

/// Over a Unix socket: over TCP the kernel holds such clients back (TCP_DEFER_ACCEPT).
#[test]
fn a_silent_tls_client_is_counted_and_not_logged() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let path = site.folder.path("tls.sock");
    let listener = site.listener(&format!("unix:{}", text(&path)), origin.address(), "");
    let mut gate = lockgate().start(&format!("timeouts = {{ handshake = \"1s\" }}\n{listener}"));
    Wire::connect_unix(&path).expect_end();
    gate.wait_for_sample("lockgate_connections_empty_total", &[], 1.0);
    gate.wait_for_sample(
        "lockgate_connections_ended_total",
        &["cause=\"too_slow\""],
        1.0,
    );
    gate.wait_for_sample(
        "lockgate_tls_handshake_failures_total",
        &["reason=\"timeout\""],
        0.0,
    );
    let mut spoke = Wire::connect_unix(&path);
    spoke.send("\x16");
    spoke.expect_end();
    let first = gate.next_line();
    assert_eq!(first["cause"], "too_slow", "{first}");
    gate.wait_for_sample("lockgate_connections_empty_total", &[], 1.0);
    gate.wait_for_sample(
        "lockgate_tls_handshake_failures_total",
        &["reason=\"timeout\""],
        1.0,
    );
}

/// The deadline is for the whole of it: a byte now and then does not move it.
#[test]
fn a_trickled_client_hello_is_too_slow() {
    let site = Site::new();
    let (_origin, mut gate) = hasty(&site);
    let hello = client_hello(&site.client().build(), NAME);
    let mut client = Wire::connect(gate.address());
    client.limit(Duration::from_millis(20));
    let mut cut_off = |byte: &u8| {
        let waits = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        client.write_all(&[*byte]).is_err() || !client.read(&mut [0; 64]).is_err_and(waits)
    };
    assert!(
        hello.iter().any(&mut cut_off),
        "all of {} bytes were waited for",
        hello.len()
    );
    assert_eq!(gate.next_line()["cause"], "too_slow");
}

/// Writes every byte by itself.
struct ByteByByte(Wire);

impl Read for ByteByByte {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for ByteByByte {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.write(&buf[..buf.len().min(1)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_handshake_in_one_byte_segments_succeeds() {
    let site = Site::new();
    let (_origin, gate) = started(&site);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = site.client().version(version).build();
        let name = rustls::pki_types::ServerName::try_from(NAME).unwrap();
        let mut session = Connection::from(rustls::ClientConnection::new(config, name).unwrap());
        let mut wire = ByteByByte(Wire::connect(gate.address()));
        while session.is_handshaking() || session.wants_write() {
            session.complete_io(&mut wire).unwrap();
        }
        session.writer().write_all(b"ping").unwrap();
        while session.wants_write() {
            session.write_tls(&mut wire).unwrap();
        }
        let mut tls = Tls {
            session,
            wire: wire.0,
        };
        tls.expect("ping");
    }
}

#[test]
fn a_client_hello_in_many_records_succeeds() {
    let site = Site::new();
    let (_origin, gate) = started(&site);
    let mut client: ClientSettings = site.client();
    client.longest_record = Some(128);
    let mut tls = client.connect(gate.address(), NAME).unwrap();
    tls.send(bytes(13, 10_000));
    tls.expect(bytes(13, 10_000));
}

/// Makes a ClientHello longer by the padding extension (RFC 7685) until its message has `len`
/// bytes.
fn padded(hello: &[u8], len: usize) -> Vec<u8> {
    let message = &hello[5..];
    let mut made = message.to_vec();
    let mut at = 4 + 2 + 32; // header, version, random
    at += 1 + usize::from(made[at]); // session id
    at += 2 + usize::from(u16::from_be_bytes([made[at], made[at + 1]])); // suites
    at += 1 + usize::from(made[at]); // compression
    let zeros = len - message.len() - 4;
    // First of the extensions: pre-shared keys must be the last (RFC 8446 §4.2.11).
    let padding = [
        &21_u16.to_be_bytes()[..],
        &u16::try_from(zeros).unwrap().to_be_bytes(),
        &vec![0; zeros],
    ]
    .concat();
    let extensions = usize::from(u16::from_be_bytes([made[at], made[at + 1]])) + padding.len();
    made[at..at + 2].copy_from_slice(&u16::try_from(extensions).unwrap().to_be_bytes());
    made.splice(at + 2..at + 2, padding);
    let body = u32::try_from(made.len() - 4).unwrap().to_be_bytes();
    made[1..4].copy_from_slice(&body[1..]);
    assert_eq!(made.len(), len);
    made
}

#[test]
fn a_client_hello_of_16_kilobytes_is_answered() {
    let site = Site::new();
    let (_origin, gate) = started(&site);
    let hello = client_hello(&site.client().build(), NAME);
    for len in [4096, 16 * 1024] {
        let mut client = Wire::connect(gate.address());
        client.send(record(22, &padded(&hello, len)));
        // A handshake record with a ServerHello: that the client could go on is not the question
        // here.
        let answer = client.exactly(6);
        assert_eq!((answer[0], answer[5]), (22, 2), "{answer:?}");
    }
}

#[test]
fn an_oversized_or_undecryptable_record_gets_its_alert() {
    let site = Site::new();
    let (_origin, mut gate) = started(&site);
    for version in VERSIONS {
        for (sent, alert) in [
            (record(23, &bytes(14, 100)), AlertDescription::BadRecordMac),
            (
                [&[23, 3, 3, 0xff, 0xff][..], &[0; 100]].concat(),
                AlertDescription::RecordOverflow,
            ),
        ] {
            let mut client = site.connect_by(version, gate.address());
            client.send("ping");
            client.expect("ping");
            client.wire.send(sent);
            let (_, end) = client.end();
            let error = end.unwrap_err();
            assert_eq!(Tls::alert(&error), Some(alert), "{version:?}: {error}");
            let line = gate.next_line();
            assert_eq!(
                (&line["cause"], &line["side"]),
                (&"client_reset".into(), &"downstream".into()),
                "{line}"
            );
            assert!(line["detail"].is_string(), "{line}");
        }
    }
}

#[test]
fn a_damaged_record_never_reaches_the_origin() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&site.tls(&origin.address(), ""));
    let mut client = site.connect(&gate);
    let mut upstream = origin.accept();
    client.send("good");
    upstream.expect("good");
    let mut sealed = Vec::new();
    client.session.writer().write_all(b"evil").unwrap();
    client.session.write_tls(&mut sealed).unwrap();
    *sealed.last_mut().unwrap() ^= 1;
    client.wire.send(sealed);
    let (read, end) = upstream.end();
    assert_eq!(read, b"");
    end.expect_err("the origin must not take what it has for the whole");
    assert_eq!(gate.next_line()["cause"], "client_reset");
}

#[test]
fn key_updates_work_in_the_middle_of_data() {
    let site = Site::new();
    let (_origin, gate) = started(&site);
    let mut client = site.connect(&gate);
    assert_eq!(
        client.agreed().protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
    for round in 0..10 {
        let word = bytes(round, 50_000);
        client.send(&word);
        client.session.refresh_traffic_keys().unwrap();
        client.send("after");
        client.expect(&word);
        client.expect("after");
    }
    // In the middle of bulk both ways.
    let bulk = bytes(15, 2_000_000);
    let mut writer = Tls {
        wire: client.wire.another(),
        session: client.session,
    };
    let sent = std::thread::scope(|scope| {
        let mut reader = client.wire;
        let received = scope.spawn(move || {
            let mut received = Vec::new();
            reader.read_to_end(&mut received).unwrap();
            received
        });
        for part in bulk.chunks(100_000) {
            writer.send(part);
            writer.session.refresh_traffic_keys().unwrap();
        }
        writer.finish();
        received.join().unwrap()
    });
    // The returned bytes are read only now: the keys of both directions have changed twenty times
    // in them.
    let mut left = &sent[..];
    let mut read = Vec::new();
    while !left.is_empty() {
        writer.session.read_tls(&mut left).unwrap();
        let state = writer.session.process_new_packets().unwrap();
        let start = read.len();
        read.resize(start + state.plaintext_bytes_to_read(), 0);
        writer
            .session
            .reader()
            .read_exact(&mut read[start..])
            .unwrap();
    }
    assert!(read == bulk);
}

#[test]
fn renegotiation_is_refused() {
    let site = Site::new();
    let (_origin, mut gate) = started(&site);
    let spawned = Command::new("openssl")
        .args([
            "s_client",
            "-tls1_2",
            "-legacy_renegotiation",
            "-connect",
            &gate.address().to_string(),
            "-servername",
            NAME,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut openssl = match spawned {
        Ok(openssl) => openssl,
        Err(error) => return println!("skipped: openssl does not run here: {error}"),
    };
    // "R" alone on a line makes s_client renegotiate.
    let mut stdin = openssl.stdin.take().unwrap();
    stdin.write_all(b"R\n").unwrap();
    let line = gate.next_line();
    drop(stdin);
    let output = openssl.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"client_reset".into(), &"downstream".into()),
        "{line} {said}"
    );
    assert!(
        line["detail"].as_str().unwrap().contains("renegotiate"),
        "{line} {said}"
    );
    assert!(said.to_lowercase().contains("no renegotiation"), "{said}");
}

#[test]
fn the_origins_fin_becomes_close_notify() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&site.tls(&origin.address(), ""));
    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        let mut upstream = origin.accept();
        upstream.send("all there is");
        drop(upstream);
        assert_eq!(client.rest(), b"all there is");
        client.finish();
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"upstream_closed".into(), &"upstream".into())
        );
    }
}

#[test]
fn a_client_rejecting_our_certificate_is_counted() {
    let site = Site::new();
    let (_origin, mut gate) = started(&site);
    let suspicious = ClientSettings::trusting(&lockgate_testkit::Authority::new("Other"));
    suspicious.connect(gate.address(), NAME).unwrap_err();
    assert_failed_handshake(&mut gate, &site, "an unknown authority");
    gate.wait_for_sample(
        "lockgate_tls_handshake_failures_total",
        &["reason=\"refused_our_certificate\""],
        1.0,
    );
}

#[test]
fn slow_handshakes_block_no_other_client() {
    let site = Site::new();
    let (_origin, gate) = started(&site);
    let hello = client_hello(&site.client().build(), NAME);
    let slow: Vec<_> = (0..100)
        .map(|number| {
            let mut client = Wire::connect(gate.address());
            client.send(&hello[..1 + number * 10]);
            client
        })
        .collect();
    for _ in 0..10 {
        let mut client = site.connect(&gate);
        client.send("ping");
        client.expect("ping");
    }
    drop(slow);
}

#[test]
fn a_client_leaving_after_the_handshake_harms_no_other() {
    let site = Site::new();
    let (_origin, mut gate) = started(&site);
    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        client.finish();
        client.rest();
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["received_bytes"]),
            (&"client_closed".into(), &0.into())
        );
    }
    let stream = std::net::TcpStream::connect(gate.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!((&stream).read(&mut [0; 10]).unwrap_or(0), 0);
}
