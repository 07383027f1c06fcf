//! Bytes through a listener to an endpoint and back, and how connections end.

use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::Duration;

use lockgate_testkit::{Authority, Folder, Lockgate, Origin, Tls, Wire, bytes, server_config};
use rustix::net::{AddressFamily, SocketType};

use crate::scene::{NAME, Site, VERSIONS, deserted, echoes, lockgate, plain, text};

const MEGABYTE: usize = 1 << 20;

/// Listeners: 127.0.0.1 and .2 in plain, .3 and .4 by TLS; the odd ones to `tcp`, the even ones to `unix`.
fn four(site: &Site, tcp: &str, unix: &str) -> Lockgate {
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
fn bytes_go_both_ways_plain_and_under_tls_to_tcp_and_to_a_unix_socket() {
    let site = Site::new();
    let origins = [Origin::tcp(), Origin::unix(&site.folder.path("app.sock"))];
    let gate = four(&site, &origins[0].address(), &origins[1].address());
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
    let gate = four(&site, &origins[0].address(), &origins[1].address());
    let (up, down) = (bytes(1, 5 * MEGABYTE), bytes(2, 5 * MEGABYTE));
    let both = |origin: &Origin, exchange: &(dyn Fn() -> Vec<u8> + Sync)| {
        std::thread::scope(|scope| {
            let client = scope.spawn(exchange);
            let upstream = origin.accept().exchange(&down);
            assert!(upstream == up, "what the origin got is what the client sent");
            assert!(client.join().unwrap() == down, "what the client got is what the origin sent");
        });
    };
    for (listener, origin) in [("127.0.0.1:0", &origins[0]), ("127.0.0.2:0", &origins[1])] {
        both(origin, &|| Wire::connect(gate.at(listener)).exchange(&up));
    }
    for (listener, origin) in [("127.0.0.3:0", &origins[0]), ("127.0.0.4:0", &origins[1])] {
        for version in VERSIONS {
            both(origin, &|| site.connect_by(version, gate.at(listener)).exchange(&up));
        }
    }
}

#[test]
fn plain_tcp_in_bulk_arrives_unchanged_both_ways_at_once() {
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
fn words_between_bulk_keep_their_place() {
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
fn a_client_that_has_finished_sending_still_gets_its_answer() {
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
    assert_eq!((&line["cause"], &line["side"]), (&"client_closed".into(), &"downstream".into()));

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
fn an_origin_that_has_finished_sending_still_gets_the_rest() {
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
    assert_eq!((&line["cause"], &line["side"]), (&"upstream_closed".into(), &"upstream".into()));

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
fn a_banner_reaches_a_client_that_never_writes() {
    let site = Site::new();
    let origin = Origin::tcp();
    // Longer than a test waits: were the connection held back until the client speaks, it would fail.
    let patience = "timeouts = { handshake = \"5m\" }\n";
    let gate = lockgate().start(&(patience.to_owned() + &site.tls(&origin.address(), "") + &plain2(&origin)));
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
fn an_origin_that_never_reads_stops_the_client_and_costs_no_memory() {
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
    assert!(grown < 8 * MEGABYTE, "{grown} bytes more for one connection");
    drop(client);
    let read = upstream.rest();
    assert!(read == offered[..taken], "what was taken arrives");
}

#[test]
fn an_origin_that_never_reads_stops_a_tls_client_too() {
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
        let part = &part[..part.len().min(16 * 1024)];
        while client.session.wants_write() {
            client.session.write_tls(&mut client.wire)?;
        }
        client.session.writer().write(part)
    });
    assert!(taken < offered.len(), "the client is stopped");
    let grown = gate.resident().saturating_sub(before);
    assert!(grown < 8 * MEGABYTE, "{grown} bytes more for one connection");
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

/// How much `write` took until it would wait.
fn write_until_blocked(offered: &[u8], mut write: impl FnMut(&[u8]) -> std::io::Result<usize>) -> usize {
    let mut taken = 0;
    while taken < offered.len() {
        match write(&offered[taken..]) {
            Ok(written) => taken += written,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    taken
}

#[test]
fn a_client_that_never_reads_stops_the_origin() {
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
    assert!(grown < 8 * MEGABYTE, "{grown} bytes more for two connections");
    drop((plain, tls));
}

#[test]
fn a_reset_by_the_client_reaches_the_origin_and_the_log() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain(&origin.address()));
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    echo_once(&mut client, &mut upstream);
    client.reset();
    upstream.expect_reset();
    let line = gate.next_line();
    assert_eq!((&line["cause"], &line["side"]), (&"client_reset".into(), &"downstream".into()));

    // In the middle of an answer that it does not read.
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    client.send("question");
    upstream.expect("question");
    upstream.limit(Duration::from_millis(500));
    let taken = write_until_blocked(&bytes(9, 64 * MEGABYTE), |part| upstream.write(part));
    assert!(taken > 0);
    client.reset();
    upstream.expect_reset();
    assert_eq!(gate.next_line()["cause"], "client_reset");

    // After it has said that it sends no more.
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    client.send("question");
    client.finish();
    assert_eq!(upstream.rest(), b"question");
    client.reset();
    upstream.send("answer");
    upstream.limit(lockgate_testkit::DEADLINE);
    // The first write may still be taken; it is answered by the reset.
    let line = gate.next_line();
    assert_eq!(line["cause"], "client_reset");
}

#[test]
fn a_reset_by_the_origin_reaches_the_client_and_the_log() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&(site.tls(&origin.address(), "") + &plain2(&origin)));
    // Before a byte: perhaps before the connection was seen to be there.
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    origin.accept().reset();
    client.end().1.ok();
    let line = gate.next_line();
    assert_eq!(line["side"], "upstream");
    assert!(["upstream_reset", "connect_failed"].contains(&line["cause"].as_str().unwrap()), "{line}");
    // In the middle.
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    let mut upstream = origin.accept();
    echo_once(&mut client, &mut upstream);
    upstream.send("half an ans");
    client.expect("half an ans");
    upstream.reset();
    client.expect_reset();
    assert_eq!(gate.next_line()["cause"], "upstream_reset");
    // Under TLS there must be no close_notify.
    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        let mut upstream = origin.accept();
        upstream.send("half an ans");
        client.expect("half an ans");
        upstream.reset();
        let (rest, end) = client.end();
        assert!(rest.is_empty());
        end.expect_err("an answer that was cut is no whole one");
        assert_eq!(gate.next_line()["cause"], "upstream_reset");
    }
}

#[test]
fn a_reset_in_the_middle_of_the_handshake_is_a_reset_by_the_client() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&site.tls(&origin.address(), ""));
    let hello = lockgate_testkit::client_hello(&site.client().build(), NAME);
    for len in [1, 5, 100, hello.len() - 1] {
        let mut client = Wire::connect(gate.address());
        client.send(&hello[..len]);
        client.reset();
        assert_eq!(gate.next_line()["cause"], "client_reset", "after {len} bytes");
    }
    // After the whole of it: the server's flight is on its way.
    let mut client = Wire::connect(gate.address());
    client.send(&hello);
    client.exactly(5);
    client.reset();
    let line = gate.next_line();
    assert_eq!((&line["cause"], &line["side"]), (&"handshake_failed".into(), &"downstream".into()));
    assert!(!origin.has_one(Duration::ZERO), "no endpoint is bothered before the handshake is over");
}

#[test]
fn an_endpoint_that_is_absent_at_the_start_is_served_as_soon_as_it_answers() {
    let folder = Folder::new();
    let (address, path) = (deserted(), folder.path("app.sock"));
    let toml =
        format!("{}[tcp.\"127.0.0.2:0\"]\nproxy = \"unix:{}\"\n", plain(&address.to_string()), text(&path));
    let mut gate = lockgate().start(&toml);
    for listener in ["127.0.0.1:0", "127.0.0.2:0"] {
        let mut client = Wire::connect(gate.at(listener));
        client.end().1.ok();
        let line = gate.next_line();
        assert_eq!((&line["cause"], &line["side"]), (&"connect_failed".into(), &"upstream".into()));
        assert!(line["detail"].is_string(), "{line}");
    }
    let origins = [Origin::tcp_at(address).echo(), Origin::unix(&path).echo()];
    for listener in ["127.0.0.1:0", "127.0.0.2:0"] {
        echoes(&mut Wire::connect(gate.at(listener)), "here");
    }
    assert_eq!(origins.map(|origin| origin.accepted()), [1, 1]);
}

#[test]
fn a_unix_socket_that_is_replaced_while_running_is_followed() {
    let folder = Folder::new();
    let path = folder.path("app.sock");
    let old = Origin::unix(&path);
    let gate = lockgate().start(&plain(&old.address()));
    let mut before = Wire::connect(gate.address());
    let mut upstream = old.accept();
    // As a service manager does it: bound beside, renamed into place.
    let beside = folder.path("new.sock");
    let new = Origin::unix(&beside);
    std::fs::rename(&beside, &path).unwrap();
    let mut after = Wire::connect(gate.address());
    after.send("new");
    new.accept().expect("new");
    before.send("old");
    upstream.expect("old");
    // As most programs do it: removed, bound again.
    drop(old);
    std::fs::remove_file(&path).unwrap();
    let newest = Origin::unix(&path);
    let mut last = Wire::connect(gate.address());
    last.send("newest");
    newest.accept().expect("newest");
}

#[test]
fn where_one_endpoint_of_a_list_is_down_the_others_serve() {
    let (down, up) = (deserted(), Origin::tcp().echo());
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = [\"{down}\", \"unix:/nonexistent/app.sock\", \"{}\"]\n",
        up.address()
    );
    let mut gate = lockgate().start(&toml);
    for _ in 0..6 {
        let mut client = Wire::connect(gate.address());
        echoes(&mut client, "hello");
        drop(client);
        let line = gate.next_line();
        assert_eq!((&line["endpoint"], &line["cause"]), (&up.address().into(), &"client_closed".into()));
    }
}

#[test]
fn where_all_endpoints_are_down_the_log_says_so() {
    let toml = format!("[tcp.\"127.0.0.1:0\"]\nproxy = [\"{}\", \"{}\"]\n", deserted(), deserted());
    let mut gate = lockgate().start(&toml);
    Wire::connect(gate.address()).end().1.ok();
    let line = gate.next_line();
    assert_eq!(line["cause"], "connect_failed");
    assert!(line["detail"].as_str().unwrap().contains("refused"), "{line}");
}

#[test]
fn the_endpoint_with_the_fewest_connections_is_next() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = [\"{}\", \"{}\"]\n",
        origins[0].address(),
        origins[1].address()
    );
    let gate = lockgate().workers(2).start(&toml);
    let mut held = Vec::new();
    for _ in 0..4 {
        // One of them each time: every round ends with as many connections at both.
        held.push((Wire::connect(gate.address()), Wire::connect(gate.address())));
        let accepted = origins.each_ref().map(Origin::accept);
        for mut upstream in accepted {
            upstream.send("!");
            std::mem::forget(upstream);
        }
    }
    assert!(origins.iter().all(|origin| !origin.has_one(Duration::ZERO)));
    for (one, other) in &mut held {
        one.expect("!");
        other.expect("!");
    }
}

#[test]
fn past_the_limit_of_an_endpoint_connections_wait_for_a_place() {
    let origin = Origin::tcp();
    let toml = format!("[tcp.\"127.0.0.1:0\"]\nproxy = [{{ addr = \"{}\", max = 2 }}]\n", origin.address());
    let gate = lockgate().workers(2).start(&toml);
    let mut clients: Vec<Wire> = (0..6).map(|_| Wire::connect(gate.address())).collect();
    for client in &mut clients {
        client.send("ping");
        client.finish();
    }
    let mut held = vec![origin.accept(), origin.accept()];
    for _ in 0..4 {
        assert!(!origin.has_one(Duration::from_millis(50)), "never more than two");
        let mut first = held.remove(0);
        first.expect("ping");
        first.send("pong");
        drop(first);
        held.push(origin.accept());
    }
    for mut upstream in held {
        upstream.expect("ping");
        upstream.send("pong");
    }
    for client in &mut clients {
        assert_eq!(client.rest(), b"pong");
    }
}

#[test]
fn a_connection_on_which_nothing_moves_ends_as_idle() {
    let site = Site::new();
    let origin = Origin::tcp();
    let toml = "timeouts = { tunnel_idle = \"300ms\" }\n".to_owned()
        + &site.tls(&origin.address(), "")
        + &plain2(&origin);
    let mut gate = lockgate().start(&toml);
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    let mut upstream = origin.accept();
    echo_once(&mut client, &mut upstream);
    client.end().1.ok();
    let line = gate.next_line();
    assert_eq!((&line["cause"], &line["side"]), (&"idle".into(), &"lockgate".into()));
    assert_eq!(line["received_bytes"], 4);
    let mut client = site.connect(&gate);
    client.send("ping");
    origin.accept().expect("ping");
    client.rest();
    assert_eq!(gate.next_line()["cause"], "idle");
}

#[test]
fn a_connection_that_has_lived_long_enough_ends_however_busy() {
    let origin = Origin::tcp().echo();
    let toml = plain(origin.address()) + "max_lifetime = \"300ms\"\n";
    let mut gate = lockgate().start(&toml);
    let mut client = Wire::connect(gate.address());
    let mut rounds = 0;
    while client.write_all(b"ping").is_ok() && std::io::Read::read_exact(&mut client, &mut [0; 4]).is_ok() {
        rounds += 1;
    }
    assert!(rounds > 0);
    let line = gate.next_line();
    assert_eq!((&line["cause"], &line["side"]), (&"lifetime".into(), &"lockgate".into()));
}

#[test]
fn an_endpoint_that_does_not_answer_in_time_is_a_failed_connect() {
    // A backlog of nothing that is full: the kernel drops what else comes.
    let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = std::net::TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let _in_the_way = Wire::connect(address);
    let toml = "timeouts = { connect = \"300ms\" }\n".to_owned() + &plain(&address.to_string());
    let mut gate = lockgate().start(&toml);
    Wire::connect(gate.address()).end().1.ok();
    let line = gate.next_line();
    assert_eq!((&line["cause"], &line["side"]), (&"connect_failed".into(), &"upstream".into()));
    assert!(line["connect_seconds"].as_f64().unwrap() >= 0.29, "{line}");
}

#[test]
fn a_unix_socket_with_a_full_backlog_is_waited_for() {
    let folder = Folder::new();
    let path = folder.path("app.sock");
    let origin = Origin::unix(&path);
    let gate = lockgate().start(&plain(&origin.address()));
    let mut queued: Vec<std::os::unix::net::UnixStream> = Vec::new();
    // listen(2) again only changes the length of the backlog.
    rustix::net::listen(origin.as_fd(), 0).unwrap();
    queued.push(std::os::unix::net::UnixStream::connect(&path).unwrap());
    let mut client = Wire::connect(gate.address());
    client.send("patience");
    let first = origin.accept();
    let mut second = origin.accept();
    second.expect("patience");
    drop((first, queued));
}

#[test]
fn tls_to_an_endpoint_is_verified() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let other = site.folder.write("other.pem", Authority::new("Other").pem());
    let served = server_config(&site.issued, None);
    let origin = Origin::tcp();
    let listener = |host: u8, name: &str, ca: &std::path::Path| {
        let (to, ca) = (origin.address(), text(ca));
        format!(
            "[tcp.\"127.0.0.{host}:0\"]\nproxy = {{ to = \"{to}\", tls = {{ name = \"{name}\", ca = \"{ca}\" }} }}\n"
        )
    };
    let toml = listener(1, NAME, &ca) + &listener(2, "other.test", &ca) + &listener(3, NAME, &other);
    let mut gate = lockgate().start(&toml);

    let mut client = Wire::connect(gate.at("127.0.0.1:0"));
    client.send("question");
    let mut upstream = Tls::accept(&served, origin.accept()).unwrap();
    upstream.expect("question");
    upstream.send("answer");
    client.expect("answer");
    client.finish();
    assert_eq!(upstream.rest(), b"");
    upstream.send("last words");
    upstream.finish();
    assert_eq!(client.rest(), b"last words");
    assert_eq!(gate.next_line()["cause"], "client_closed");

    for listener in ["127.0.0.2:0", "127.0.0.3:0"] {
        let mut client = Wire::connect(gate.at(listener));
        client.send("secret");
        let refused =
            Tls::accept(&served, origin.accept()).expect_err("the certificate is not what was asked for");
        assert!(Tls::alert(&refused).is_some(), "{refused}");
        client.end().1.ok();
        let line = gate.next_line();
        assert_eq!((&line["cause"], &line["side"]), (&"connect_failed".into(), &"upstream".into()));
        assert!(line["detail"].as_str().unwrap().contains("certificate"), "{line}");
    }
}

#[test]
fn five_megabytes_each_way_under_tls_on_both_sides_arrive_unchanged() {
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
fn an_endpoint_whose_tls_is_cut_off_does_not_become_a_clean_close() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let served = server_config(&site.issued, None);
    let origin = Origin::tcp();
    let to =
        format!("{{ to = \"{}\", tls = {{ name = \"{NAME}\", ca = \"{}\" }} }}", origin.address(), text(&ca));
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = {to}\n[tcp.\"127.0.0.2:0\"]\ntls = \"{}\"\nproxy = {to}\n",
        site.cert
    );
    let mut gate = lockgate().start(&toml);

    let mut client = Wire::connect(gate.at("127.0.0.1:0"));
    let mut upstream = Tls::accept(&served, origin.accept()).unwrap();
    upstream.send("half an ans");
    client.expect("half an ans");
    drop(upstream); // closes TCP without close_notify
    client.expect_reset();
    assert_eq!(gate.next_line()["cause"], "upstream_reset");

    let mut client = site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap();
    let mut upstream = Tls::accept(&served, origin.accept()).unwrap();
    upstream.send("half an ans");
    client.expect("half an ans");
    drop(upstream);
    client.end().1.expect_err("an answer that was cut is no whole one");
    assert_eq!(gate.next_line()["cause"], "upstream_reset");
}

#[test]
fn a_client_that_closes_without_close_notify_may_still_be_answered() {
    let site = Site::new();
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&site.tls(&origin.address(), ""));
    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        let mut upstream = origin.accept();
        client.send("question");
        upstream.expect("question");
        client.wire.finish(); // closes its half of TCP, and says nothing by TLS
        upstream.end().1.ok();
        upstream.write_all(b"answer").ok();
        drop(upstream);
        client.end().1.ok();
        assert_eq!(gate.next_line()["side"], "downstream");
    }
}

#[test]
fn listeners_on_ipv6_on_every_address_and_on_a_unix_socket_serve_alike() {
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
fn an_endpoint_with_a_half_closed_unix_socket_keeps_the_other_half() {
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
