//! Bytes through a listener to an endpoint and back.

mod access_log;
mod endpoints;
mod half_close;
mod maintenance;
mod termination;

use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::time::Duration;

use lockgate_testkit::{Folder, Lockgate, Origin, Tls, Wire, bytes, server_config};

use crate::scene::{NAME, Site, VERSIONS, echoes, lockgate, plain, text};

const MEGABYTE: usize = 1 << 20;

/// Listeners: 127.0.0.1 and .2 in plain, .3 and .4 by TLS; the odd ones to `tcp`, the even ones to
/// `unix`.
fn four_listeners(site: &Site, tcp: &str, unix: &str) -> Lockgate {
    let mut toml = String::new();
    for (host, proxy) in [(1, tcp), (2, unix)] {
        toml += &format!("[tcp.\"127.0.0.{host}:0\"]\nproxy = \"{proxy}\"\n");
    }
    for (host, proxy) in [(3, tcp), (4, unix)] {
        toml += &site.listener(&format!("127.0.0.{host}:0"), proxy, "");
    }
    lockgate().start(&toml)
}

#[test]
fn relays_connect_plain_or_tls_to_tcp_or_unix() {
    let site = Site::new();
    let origins = [Origin::tcp(), Origin::unix(&site.folder.path("app.sock"))];
    let gate = four_listeners(&site, &origins[0].address(), &origins[1].address());
    for (listener, origin) in [("127.0.0.1:0", &origins[0]), ("127.0.0.2:0", &origins[1])] {
        let mut client = Wire::connect(gate.at(listener));
        client.send("ping");
        let mut upstream = origin.accept();
        upstream.expect("ping");
        upstream.send("pong");
        client.expect("pong");
    }
    for (listener, origin) in [("127.0.0.3:0", &origins[0]), ("127.0.0.4:0", &origins[1])] {
        for version in VERSIONS {
            let mut client = site.connect_by(version, gate.at(listener));
            assert_eq!(client.agreed().protocol_version(), Some(version));
            client.send("ping");
            let mut upstream = origin.accept();
            upstream.expect("ping");
            upstream.send("pong");
            client.expect("pong");
        }
    }
}

#[test]
fn five_megabytes_each_way_at_once_arrive_unchanged() {
    let site = Site::new();
    let origins = [Origin::tcp(), Origin::unix(&site.folder.path("app.sock"))];
    let gate = four_listeners(&site, &origins[0].address(), &origins[1].address());
    let (up, down) = (bytes(1, 5 * MEGABYTE), bytes(2, 5 * MEGABYTE));
    let both = |origin: &Origin, exchange: &(dyn Fn() -> Vec<u8> + Sync)| {
        std::thread::scope(|scope| {
            let client = scope.spawn(exchange);
            let upstream = origin.accept().exchange(&down);
            assert!(
                upstream == up,
                "what the origin got is what the client sent"
            );
            assert!(
                client.join().unwrap() == down,
                "what the client got is what the origin sent"
            );
        });
    };
    for (listener, origin) in [("127.0.0.1:0", &origins[0]), ("127.0.0.2:0", &origins[1])] {
        both(origin, &|| Wire::connect(gate.at(listener)).exchange(&up));
    }
    for (listener, origin) in [("127.0.0.3:0", &origins[0]), ("127.0.0.4:0", &origins[1])] {
        for version in VERSIONS {
            both(origin, &|| {
                site.connect_by(version, gate.at(listener)).exchange(&up)
            });
        }
    }
}

#[test]
fn spliced_bulk_arrives_unchanged_both_ways() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain(&origin.address()));
    let (up, down) = (bytes(3, 64 * MEGABYTE), bytes(4, 64 * MEGABYTE));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| Wire::connect(gate.address()).exchange(&up));
        assert!(origin.accept().exchange(&down) == up);
        assert!(client.join().unwrap() == down);
    });
}

#[test]
fn small_messages_between_bulk_keep_their_order() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain(&origin.address()));
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    let bulk = bytes(5, 4 * MEGABYTE);
    for round in 0..4 {
        let word = format!("round {round}");
        std::thread::scope(|scope| {
            let mut writer = client.another();
            let (bulk, sent) = (&bulk, &word);
            scope.spawn(move || {
                writer.send(sent);
                writer.send(bulk);
                writer.send(sent);
            });
            upstream.expect(&word);
            upstream.expect(bulk);
            upstream.expect(&word);
        });
        upstream.send(&word);
        client.expect(&word);
    }
}

#[test]
fn a_half_closed_client_still_gets_its_response() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&(site.tls(&origin.address(), "") + &plain2(&origin)));
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    client.send("question");
    client.finish();
    let mut upstream = origin.accept();
    assert_eq!(upstream.rest(), b"question");
    upstream.send("answer");
    drop(upstream);
    assert_eq!(client.rest(), b"answer");
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"client_closed".into(), &"downstream".into())
    );

    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        client.send("question");
        client.finish();
        let mut upstream = origin.accept();
        assert_eq!(upstream.rest(), b"question");
        upstream.send("answer");
        drop(upstream);
        assert_eq!(client.rest(), b"answer");
        assert_eq!(gate.next_line()["cause"], "client_closed");
    }
}

#[test]
fn a_half_closed_origin_still_gets_the_rest() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&(site.tls(&origin.address(), "") + &plain2(&origin)));
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    let mut upstream = origin.accept();
    upstream.send("greeting");
    upstream.finish();
    assert_eq!(client.rest(), b"greeting");
    client.send("rest");
    drop(client);
    assert_eq!(upstream.rest(), b"rest");
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"upstream_closed".into(), &"upstream".into())
    );

    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        let mut upstream = origin.accept();
        upstream.send("greeting");
        upstream.finish();
        assert_eq!(client.rest(), b"greeting");
        client.send("rest");
        client.finish();
        assert_eq!(upstream.rest(), b"rest");
        assert_eq!(gate.next_line()["cause"], "upstream_closed");
    }
}

fn plain2(origin: &Origin) -> String {
    format!("[tcp.\"127.0.0.2:0\"]\nproxy = \"{}\"\n", origin.address())
}

#[test]
fn a_server_first_banner_reaches_a_silent_client() {
    let site = Site::new();
    let origin = Origin::tcp();
    // Longer than a test waits: were the connection held back until the client speaks, it would
    // fail.
    let patience = "timeouts = { handshake = \"5m\" }\n";
    let gate = lockgate()
        .start(&(patience.to_owned() + &site.tls(&origin.address(), "") + &plain2(&origin)));
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    origin.accept().send("220 ready\r\n");
    client.expect("220 ready\r\n");
    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        origin.accept().send("220 ready\r\n");
        client.expect("220 ready\r\n");
    }
}

#[test]
fn an_origin_that_never_reads_backpressures_the_client() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain(&origin.address()));
    let mut client = Wire::connect(gate.address());
    echo_once(&mut client, &mut origin.accept());
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    let before = gate.resident();
    client.limit(Duration::from_millis(500));
    let offered = bytes(6, 64 * MEGABYTE);
    let taken = write_until_blocked(&offered, |part| client.write(part));
    assert!(taken < offered.len(), "the client is stopped");
    let grown = gate.resident().saturating_sub(before);
    assert!(
        grown < 8 * MEGABYTE,
        "{grown} bytes more for one connection"
    );
    // Before the client closes: the kernel may reset an orphaned socket when memory is short.
    assert!(
        upstream.exactly(taken) == offered[..taken],
        "what was taken arrives"
    );
    drop(client);
    upstream.expect_end();
}

#[test]
fn an_origin_that_never_reads_backpressures_a_tls_client() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate().start(&site.tls(&origin.address(), ""));
    let mut client = site.connect(&gate);
    let mut upstream = origin.accept();
    client.send("ping");
    upstream.expect("ping");
    let before = gate.resident();
    client.wire.limit(Duration::from_millis(500));
    let offered = bytes(7, 64 * MEGABYTE);
    let taken = write_until_blocked(&offered, |part| {
        while client.session.wants_write() {
            client.session.write_tls(&mut client.wire)?;
        }
        client.session.writer().write(part)
    });
    assert!(taken < offered.len(), "the client is stopped");
    let grown = gate.resident().saturating_sub(before);
    assert!(
        grown < 8 * MEGABYTE,
        "{grown} bytes more for one connection"
    );
    let mut read = vec![0; taken];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.wire.limit(lockgate_testkit::DEADLINE);
            client.flush();
        });
        std::io::Read::read_exact(&mut upstream, &mut read).unwrap();
    });
    assert!(read == offered[..taken], "what was taken arrives");
}

fn echo_once(client: &mut Wire, upstream: &mut Wire) {
    client.send("ping");
    upstream.expect("ping");
}

/// How many bytes `write`, which has a time limit, took until it would wait. A partial write has
/// waited already.
fn write_until_blocked(
    offered: &[u8],
    mut write: impl FnMut(&[u8]) -> std::io::Result<usize>,
) -> usize {
    let mut taken = 0;
    for part in offered.chunks(16 * 1024) {
        match write(part) {
            Ok(written) => {
                taken += written;
                if written < part.len() {
                    break;
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    taken
}

#[test]
fn a_client_that_never_reads_backpressures_the_origin() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate().start(&(site.tls(&origin.address(), "") + &plain2(&origin)));
    let offered = bytes(8, 64 * MEGABYTE);
    let plain = Wire::connect(gate.at("127.0.0.2:0"));
    let mut upstream = origin.accept();
    upstream.limit(Duration::from_millis(500));
    let before = gate.resident();
    let taken = write_until_blocked(&offered, |part| upstream.write(part));
    assert!(taken < offered.len(), "the origin is stopped");
    let tls = site.connect(&gate);
    let mut upstream = origin.accept();
    upstream.limit(Duration::from_millis(500));
    let taken = write_until_blocked(&offered, |part| upstream.write(part));
    assert!(taken < offered.len(), "the origin is stopped");
    let grown = gate.resident().saturating_sub(before);
    assert!(
        grown < 8 * MEGABYTE,
        "{grown} bytes more for two connections"
    );
    drop((plain, tls));
}

#[test]
fn five_megabytes_each_way_over_tls_arrive_unchanged() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let served = server_config(&site.issued, None);
    let origin = Origin::tcp();
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = \"{}\"\nproxy = {{ to = \"{}\", tls = {{ name = \"{NAME}\", ca = \"{}\" }} }}\n",
        site.cert,
        origin.address(),
        text(&ca),
    );
    let gate = lockgate().start(&toml);
    let (up, down) = (bytes(10, 5 * MEGABYTE), bytes(11, 5 * MEGABYTE));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| site.connect(&gate).exchange(&up));
        let upstream = Tls::accept(&served, origin.accept()).unwrap();
        assert!(upstream.exchange(&down) == up);
        assert!(client.join().unwrap() == down);
    });
}

#[test]
fn listeners_may_be_ipv6_wildcard_or_unix_socket() {
    let folder = Folder::new();
    let socket = folder.path("front.sock");
    let origin = Origin::tcp().echo();
    let mut toml = String::new();
    for listener in [":0", "[::1]:0", &format!("unix:{}", text(&socket))] {
        toml += &format!("[tcp.\"{listener}\"]\nproxy = \"{}\"\n", origin.address());
    }
    let mut gate = lockgate().workers(2).start(&toml);
    echoes(&mut Wire::connect(gate.at(":0")), "IPv4");
    assert_eq!(gate.next_line()["client"], "127.0.0.1");
    echoes(&mut Wire::connect(gate.at("[::1]:0")), "IPv6");
    assert_eq!(gate.next_line()["client"], "::1");
    echoes(&mut Wire::connect_unix(&socket), "Unix");
    assert_eq!(gate.next_line()["client"], "unix");
    gate.stop();
    assert!(!socket.exists(), "its file is removed");
}

#[test]
fn a_half_closed_unix_socket_keeps_the_other_direction() {
    let folder = Folder::new();
    let path = folder.path("app.sock");
    let origin = Origin::unix(&path);
    let gate = lockgate().start(&plain(&origin.address()));
    let mut client = std::net::TcpStream::connect(gate.address()).unwrap();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut upstream = origin.accept();
    assert_eq!(upstream.rest(), b"question");
    upstream.send("answer");
    drop(upstream);
    assert_eq!(Wire::from(client).rest(), b"answer");
}
