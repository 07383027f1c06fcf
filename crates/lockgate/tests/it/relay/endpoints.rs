//! Endpoints that are absent, replaced, several, full or have the wrong certificate.

use std::os::fd::AsFd;
use std::time::Duration;

use lockgate_testkit::{Authority, Folder, Origin, Tls, Wire, server_config};
use rustix::net::{AddressFamily, SocketType};

use crate::scene::{NAME, Site, deserted, echoes, lockgate, plain, text};

#[test]
fn an_absent_endpoint_is_used_once_it_is_up() {
    let folder = Folder::new();
    let (address, path) = (deserted(), folder.path("app.sock"));
    let toml = format!(
        "{}[tcp.\"127.0.0.2:0\"]\nproxy = \"unix:{}\"\n",
        plain(&address.to_string()),
        text(&path)
    );
    let mut gate = lockgate().start(&toml);
    for listener in ["127.0.0.1:0", "127.0.0.2:0"] {
        let mut client = Wire::connect(gate.at(listener));
        client.wait_closed();
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"connect_failed".into(), &"upstream".into())
        );
        assert!(line["detail"].is_string(), "{line}");
    }
    let origins = [Origin::tcp_at(address).echo(), Origin::unix(&path).echo()];
    for listener in ["127.0.0.1:0", "127.0.0.2:0"] {
        echoes(&mut Wire::connect(gate.at(listener)), "here");
    }
    assert_eq!(origins.map(|origin| origin.accepted()), [1, 1]);
}

#[test]
fn a_replaced_unix_socket_is_followed() {
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
fn a_down_endpoint_is_skipped() {
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
        assert_eq!(
            (&line["endpoint"], &line["cause"]),
            (&up.address().into(), &"client_closed".into())
        );
    }
}

#[test]
fn a_relay_without_any_endpoint_logs_connect_failed() {
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = [\"{}\", \"{}\"]\n",
        deserted(),
        deserted()
    );
    let mut gate = lockgate().start(&toml);
    Wire::connect(gate.address()).wait_closed();
    let line = gate.next_line();
    assert_eq!(line["cause"], "connect_failed");
    assert!(
        line["detail"].as_str().unwrap().contains("refused"),
        "{line}"
    );
}

#[test]
fn least_conn_chooses_the_endpoint_with_fewest_connections() {
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
fn connections_beyond_endpoint_max_wait() {
    let origin = Origin::tcp();
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = [{{ addr = \"{}\", max = 2 }}]\n",
        origin.address()
    );
    let gate = lockgate().workers(2).start(&toml);
    let mut clients: Vec<Wire> = (0..6).map(|_| Wire::connect(gate.address())).collect();
    for client in &mut clients {
        client.send("ping");
        client.finish();
    }
    let mut held = vec![origin.accept(), origin.accept()];
    for _ in 0..4 {
        assert!(
            !origin.has_one(Duration::from_millis(50)),
            "never more than two"
        );
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
fn endpoint_max_holds_across_listeners() {
    let origin = Origin::tcp();
    let address = origin.address();
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = [{{ addr = \"{address}\", max = 1 }}]\n\
         [tcp.\"127.0.0.2:0\"]\nproxy = \"{address}\"\n"
    );
    let gate = lockgate().workers(2).start(&toml);
    let (held, _first) = (Wire::connect(gate.at("127.0.0.1:0")), origin.accept());
    gate.wait_for_sample(
        "lockgate_upstream_connections",
        &[&format!("endpoint=\"{address}\"")],
        1.0,
    );
    let mut second = Wire::connect(gate.at("127.0.0.2:0"));
    second.send("second");
    assert!(!origin.has_one(Duration::from_millis(50)));
    held.reset();
    origin.accept().expect("second");
}

#[test]
fn a_full_endpoint_is_waited_for_when_others_are_down() {
    let origin = Origin::tcp();
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = [\"{}\", {{ addr = \"{}\", max = 1 }}]\n",
        deserted(),
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let (held, _first) = (Wire::connect(gate.address()), origin.accept());
    let mut second = Wire::connect(gate.address());
    second.send("second");
    assert!(!origin.has_one(Duration::from_millis(50)));
    held.reset();
    origin.accept().expect("second");
}

#[test]
fn the_first_endpoint_to_become_free_is_used() {
    for free in [0, 1] {
        let origins = [Origin::tcp(), Origin::tcp()];
        let [one, other] = origins.each_ref().map(Origin::address);
        let toml = format!(
            "[tcp.\"127.0.0.1:0\"]\nproxy = [{{ addr = \"{one}\", max = 1 }}, {{ addr = \"{other}\", max = 1 }}]\n"
        );
        let gate = lockgate().start(&toml);
        let _clients = [Wire::connect(gate.address()), Wire::connect(gate.address())];
        let mut held = origins.each_ref().map(|origin| Some(origin.accept()));
        let mut third = Wire::connect(gate.address());
        third.send("third");
        assert!(
            origins
                .iter()
                .all(|origin| !origin.has_one(Duration::from_millis(50)))
        );
        held[free].take().unwrap().reset();
        origins[free].accept().expect("third");
    }
}

#[test]
fn a_queued_client_that_resets_blocks_no_other() {
    let origin = Origin::tcp();
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\nproxy = [{{ addr = \"{}\", max = 1 }}]\n",
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let (held, _first) = (Wire::connect(gate.address()), origin.accept());
    let mut gone = Wire::connect(gate.address());
    gone.send("gone");
    gate.wait_for_sample("lockgate_connections", &["listener="], 2.0);
    gone.reset();
    let mut third = Wire::connect(gate.address());
    third.send("third");
    third.finish();
    held.reset();
    // The client that has gone may have its turn first, and ends at once.
    let mut said = Vec::new();
    for _ in 0..2 {
        said = origin.accept().end().0;
        if said == b"third" {
            break;
        }
    }
    assert_eq!(said, b"third");
}

#[test]
fn a_connect_timeout_is_connect_failed() {
    // A backlog of zero that is full: the kernel drops further SYNs.
    let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = std::net::TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let _in_the_way = Wire::connect(address);
    let toml = "timeouts = { connect = \"300ms\" }\n".to_owned() + &plain(&address.to_string());
    let mut gate = lockgate().start(&toml);
    Wire::connect(gate.address()).wait_closed();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"connect_failed".into(), &"upstream".into())
    );
    assert!(line["connect_seconds"].as_f64().unwrap() >= 0.29, "{line}");
}

#[test]
fn a_unix_socket_with_a_full_backlog_is_retried() {
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
fn upstream_tls_of_a_relay_is_verified() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let other = site
        .folder
        .write("other.pem", Authority::new("Other").pem());
    let served = server_config(&site.issued, None);
    let origin = Origin::tcp();
    let listener = |host: u8, name: &str, ca: &std::path::Path| {
        let (to, ca) = (origin.address(), text(ca));
        format!(
            "[tcp.\"127.0.0.{host}:0\"]\nproxy = {{ to = \"{to}\", tls = {{ name = \"{name}\", ca = \"{ca}\" }} }}\n"
        )
    };
    let toml =
        listener(1, NAME, &ca) + &listener(2, "other.test", &ca) + &listener(3, NAME, &other);
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
        let refused = Tls::accept(&served, origin.accept())
            .expect_err("the certificate is not what was asked for");
        assert!(Tls::alert(&refused).is_some(), "{refused}");
        client.wait_closed();
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"connect_failed".into(), &"upstream".into())
        );
        assert!(
            line["detail"].as_str().unwrap().contains("certificate"),
            "{line}"
        );
    }
}
