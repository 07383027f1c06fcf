//! Endpoints that are SRV records of a service (RFC 2782), as a name server of ours has them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use lockgate_testkit::{Folder, Http, Origin, Serving, eventually};
use serde_json::json;

use crate::admin;
use crate::http::plain_site;
use crate::scene::{echoes, lockgate, plain, text};

/// The zone of a service.
#[derive(Clone, Default)]
struct Zone {
    /// Priority, weight, port.
    records: Vec<(u16, u16, u16)>,
    /// The response code (RFC 1035 §4.1.1).
    code: u8,
    /// Whether datagrams have room for nothing.
    truncated: bool,
}

/// Answers every query by what its zone says, over UDP and TCP.
struct NameServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    threads: Vec<JoinHandle<()>>,
}

impl NameServer {
    fn start(records: &[(u16, u16, u16)]) -> Self {
        let zone = Arc::new(Mutex::new(Zone {
            records: records.to_vec(),
            ..Zone::default()
        }));
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = stream.local_addr().unwrap();
        let datagrams = UdpSocket::bind(address).unwrap();
        let (by_udp, by_tcp) = (Arc::clone(&zone), Arc::clone(&zone));
        let udp = std::thread::spawn(move || {
            let mut asked = [0; 512];
            loop {
                let (length, from) = datagrams.recv_from(&mut asked).unwrap();
                if length == 0 {
                    break;
                }
                let zone = by_udp.lock().unwrap().clone();
                datagrams
                    .send_to(&answer(&asked[..length], &zone, zone.truncated), from)
                    .unwrap();
            }
        });
        let tcp = std::thread::spawn(move || {
            loop {
                let (mut stream, _) = stream.accept().unwrap();
                let mut length = [0; 2];
                if stream.read_exact(&mut length).is_err() {
                    break;
                }
                let mut asked = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut asked).unwrap();
                let answer = answer(&asked, &by_tcp.lock().unwrap(), false);
                stream
                    .write_all(&(answer.len() as u16).to_be_bytes())
                    .unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        Self {
            address,
            zone,
            threads: vec![udp, tcp],
        }
    }

    fn set(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zone.lock().unwrap());
    }

    /// The line of a configuration that names it.
    fn key(&self) -> String {
        format!("dns = {{ servers = [\"{}\"] }}\n", self.address)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .send_to(b"", self.address);
        drop(std::net::TcpStream::connect(self.address));
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}

fn answer(asked: &[u8], zone: &Zone, truncated: bool) -> Vec<u8> {
    let name = b"\x04_app\x04_tcp\x04test\x00\x00\x21\x00\x01";
    assert_eq!(&asked[12..], name);
    let mut answer = asked.to_vec();
    answer[2..4].copy_from_slice(&[if truncated { 0x83 } else { 0x81 }, 0x80 | zone.code]);
    if truncated || zone.code != 0 {
        return answer;
    }
    answer[6..8].copy_from_slice(&(zone.records.len() as u16).to_be_bytes());
    for (priority, weight, port) in &zone.records {
        // Of the name in the question, SRV, IN, for a second; a port of 0 stands for "." (RFC
        // 2782).
        answer.extend_from_slice(&[0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 1]);
        let target: &[u8] = if *port == 0 {
            b"\x00"
        } else {
            b"\x03127\x010\x010\x011\x00"
        };
        answer.extend_from_slice(&(6 + target.len() as u16).to_be_bytes());
        answer.extend_from_slice(&[*priority, *weight, *port].map(u16::to_be_bytes).concat());
        answer.extend_from_slice(target);
    }
    answer
}

/// An origin that answers with its name, and its port.
fn origin_named(name: &'static str) -> (Serving, u16) {
    let origin = Origin::tcp();
    let port = origin.socket_address().port();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}",
        name.len()
    );
    (origin.answering(move |_| answer.clone().into_bytes()), port)
}

/// A pool of the service with these keys, and a site in front of it.
fn pooled(server: &NameServer, keys: &str) -> String {
    format!(
        "{}[pool.app]\nendpoints = [\"srv:_app._tcp.test\"]\n{keys}\n{}",
        server.key(),
        plain_site("pool:app")
    )
}

fn ask(client: &mut Http) -> (u16, String) {
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let answer = client.answer();
    (answer.status(), answer.text().to_owned())
}

#[test]
fn srv_records_are_used_by_priority_and_weight() {
    let ((_one, one), (_two, two), (_spare, spare)) = (
        origin_named("one"),
        origin_named("two"),
        origin_named("spare"),
    );
    let server = NameServer::start(&[(7, 50, spare), (1, 10, one), (1, 30, two)]);
    let gate = lockgate()
        .workers(2)
        .start(&pooled(&server, "balance = \"round-robin\""));
    let mut client = Http::connect(gate.address());
    let answers: Vec<_> = (0..40).map(|_| ask(&mut client).1).collect();
    let count = |name| answers.iter().filter(|answer| *answer == name).count();
    assert_eq!(["one", "two", "spare"].map(count), [10, 30, 0]);
    let line = gate.line("who answered", |line| line["status"] == 200);
    assert!(
        line["endpoint"]
            .as_str()
            .unwrap()
            .starts_with("srv:_app._tcp.test#"),
        "{line}"
    );
}

#[test]
fn srv_records_are_removed_with_their_service_only() {
    let ((_one, one), (_two, two)) = (origin_named("one"), origin_named("two"));
    let server = NameServer::start(&[(1, 1, one)]);
    let folder = Folder::new();
    let socket = folder.path("admin.sock");
    let admin = format!("admin = \"unix:{}\"\n", text(&socket));
    let gate = lockgate().start(&(admin + &pooled(&server, "balance = \"round-robin\"")));
    let mut client = Http::connect(gate.address());
    assert_eq!(ask(&mut client).1, "one");
    let post = |verb: &str, endpoint: &str| {
        let mut body = json!({ "pool": "app", "endpoint": endpoint });
        if verb == "add" && !endpoint.starts_with("srv:") {
            // As much as a record of weight 1.
            body["weight"] = json!(10);
        }
        let body = body.to_string();
        admin::ask(&socket, "POST", &format!("/v1/endpoints/{verb}"), &body)
    };
    let service = "srv:_app._tcp.test";
    let code = |endpoint: &str| post("remove", endpoint).1["error"]["code"].take();
    assert_eq!(code(service), "last_endpoint");
    let (status, added) = post("add", &format!("127.0.0.1:{two}"));
    assert_eq!(status, 200, "{added}");
    let answers: String = (0..40).map(|_| ask(&mut client).1).collect();
    assert!(
        answers.contains("one") && answers.contains("two"),
        "{answers}"
    );
    let record = admin::ask(&socket, "GET", "/v1/pools", "").1["pools"][0]["endpoints"].take();
    let record = record[0]["endpoint"].as_str().unwrap().to_owned();
    assert_eq!(code(&record), "of_record");
    assert_eq!(post("remove", service).0, 200);
    for _ in 0..4 {
        assert_eq!(ask(&mut client).1, "two");
    }
    assert_eq!(post("add", service).0, 200);
    eventually("the records serve again", || {
        (ask(&mut client).1 == "one").then_some(())
    });
}

#[test]
fn srv_endpoints_follow_their_records_without_failures() {
    let ((_one, one), (_two, two)) = (origin_named("one"), origin_named("two"));
    let server = NameServer::start(&[(1, 1, one)]);
    let gate = lockgate()
        .workers(2)
        .start(&pooled(&server, "balance = \"round-robin\""));
    let mut client = Http::connect(gate.address());
    let mut until = |names: &[&str]| {
        eventually("these and no others answer", || {
            let mut answers: Vec<_> = (0..8).map(|_| ask(&mut client)).collect();
            assert!(
                answers.iter().all(|(status, _)| *status == 200),
                "{answers:?}"
            );
            answers.sort();
            answers.dedup();
            (answers
                .into_iter()
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
                == names)
                .then_some(())
        });
    };
    until(&["one"]);
    server.set(|zone| zone.records.push((1, 1, two)));
    until(&["one", "two"]);
    server.set(|zone| zone.records.retain(|record| record.2 == two));
    until(&["two"]);
    // RFC 2782: records of a lower priority are used when none of the best is reachable.
    server.set(|zone| zone.records = vec![(0, 1, 1), (9, 1, one)]);
    until(&["one"]);
    gate.says("127.0.0.1:1 is a new record of the service, at [127.0.0.1:1]");
}

#[test]
fn srv_lookup_failures_keep_records_and_a_root_target_clears() {
    let (_one, one) = origin_named("one");
    let server = NameServer::start(&[(1, 1, one)]);
    let gate = lockgate().start(&pooled(&server, ""));
    let mut client = Http::connect(gate.address());
    for code in [2, 3] {
        server.set(|zone| zone.code = code);
        gate.says("the service has no records now: its old endpoints stay in use");
        assert_eq!(ask(&mut client), (200, "one".to_owned()));
        server.set(|zone| zone.code = 0);
        gate.says("the service has records again");
    }
    server.set(|zone| zone.records = vec![(0, 0, 0)]);
    eventually("nobody is there", || {
        (ask(&mut client).0 == 503).then_some(())
    });
    let line = gate.line("why", |line| line["status"] == 503);
    assert_eq!(line["cause"], "connect_failed", "{line}");
    server.set(|zone| zone.records = vec![(0, 0, one)]);
    let (_two, two) = origin_named("two");
    server.set(|zone| zone.records = vec![(0, 0, two)]);
    eventually("somebody is there again", || {
        (ask(&mut client).0 == 200).then_some(())
    });
}

#[test]
fn an_unanswering_name_server_is_skipped() {
    let (_one, one) = origin_named("one");
    let server = NameServer::start(&[(1, 1, one)]);
    // No server listens at the first address.
    let nobody = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let servers = format!(
        "dns = {{ servers = [\"{nobody}\", \"{}\"] }}\n",
        server.address
    );
    let gate = lockgate().start(&pooled(&server, "").replace(&server.key(), &servers));
    let mut client = Http::connect(gate.address());
    eventually("it is found", || {
        (ask(&mut client) == (200, "one".to_owned())).then_some(())
    });
    let alone = pooled(&server, "").replace(
        &server.key(),
        &format!("dns = {{ servers = [\"{nobody}\"] }}\n"),
    );
    let gate = lockgate().start(&alone);
    assert_eq!(ask(&mut Http::connect(gate.address())).0, 503);
}

#[test]
fn a_truncated_srv_response_is_repeated_over_tcp() {
    let (_one, one) = origin_named("one");
    let server = NameServer::start(&[(1, 1, one)]);
    server.set(|zone| zone.truncated = true);
    let gate = lockgate().start(&pooled(&server, ""));
    let mut client = Http::connect(gate.address());
    eventually("it is found", || {
        (ask(&mut client) == (200, "one".to_owned())).then_some(())
    });
}

#[test]
fn each_srv_record_has_its_own_health_check() {
    let (_good, good) = origin_named("good");
    let bad = Origin::tcp();
    let port = bad.socket_address().port();
    let bad = bad.answering(|request| {
        // A check names its host.
        assert!(request.field("host").unwrap().starts_with("127.0.0.1:"));
        b"HTTP/1.1 500 Broken\r\nContent-Length: 6\r\n\r\nbroken".to_vec()
    });
    let server = NameServer::start(&[(1, 1, good), (1, 1, port)]);
    let keys = "health = { path = \"/\", every = \"10ms\", fall = 1, rise = 1 }";
    let gate = lockgate().workers(2).start(&pooled(&server, keys));
    gate.says("the endpoint is down");
    // Endpoints without a record are not shown.
    assert_eq!(gate.metrics().matches("lockgate_upstream_up{").count(), 2);
    assert_eq!(gate.top()["checks"].as_array().unwrap().len(), 2);
    let before = bad.accepted();
    let mut client = Http::connect(gate.address());
    for _ in 0..20 {
        assert_eq!(ask(&mut client), (200, "good".to_owned()));
    }
    assert!(bad.accepted() >= before, "it is checked on");
}

#[test]
fn relays_may_use_srv_endpoints() {
    let origin = Origin::tcp();
    let port = origin.socket_address().port();
    let _echo = origin.echo();
    let server = NameServer::start(&[(1, 1, port)]);
    let gate = lockgate().start(&(server.key() + &plain("srv:_app._tcp.test")));
    let mut wire = eventually("it is found", || {
        let mut wire = lockgate_testkit::Wire::connect(gate.address());
        // Before it is found the connection is closed.
        let _ = wire.write_all(b"a");
        let mut first = [0; 1];
        matches!(wire.read(&mut first), Ok(1)).then_some(wire)
    });
    echoes(&mut wire, "word");
}

#[test]
fn the_sticky_cookie_of_srv_endpoints_identifies_the_record() {
    let ((_one, one), (_two, two)) = (origin_named("one"), origin_named("two"));
    let keys = "balance = { sticky = \"cookie:lg\" }";
    let servers = [[(1, 1, one), (1, 1, two)], [(1, 1, two), (1, 1, one)]].map(|records| {
        let server = NameServer::start(&records[..1]);
        let gate = lockgate().start(&pooled(&server, keys));
        let mut client = Http::connect(gate.address());
        // The records get their places one after the other, so that each has another one in the
        // other Lockgate.
        eventually("the first is found", || {
            (ask(&mut client).0 == 200).then_some(())
        });
        server.set(|zone| zone.records = records.to_vec());
        gate.says(&format!(
            "127.0.0.1:{} is a new record of the service, at [127.0.0.1:{0}]",
            records[1].2
        ));
        (server, gate)
    });
    let asked = |at: usize, cookie: &str| {
        let mut client = Http::connect(servers[at].1.address());
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a.test\r\nCookie: {cookie}\r\n\r\n"
        ));
        let answer = client.answer();
        let set = answer
            .field("set-cookie")
            .and_then(|set| set.split(';').next())
            .map(str::to_owned);
        (answer.text().to_owned(), set)
    };
    for name in ["one", "two"] {
        let cookie = eventually("both are chosen", || {
            let (answered, set) = asked(0, "");
            set.filter(|_| answered == name)
        });
        for at in [0, 1] {
            assert_eq!(asked(at, &cookie), (name.to_owned(), None), "{at}");
        }
    }
}

#[test]
fn at_least_half_of_the_srv_endpoints_is_never_ejected() {
    let (_good, good) = origin_named("good");
    let bad = Origin::tcp();
    let port = bad.socket_address().port();
    let _bad = bad.answering(|_| b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec());
    let server = NameServer::start(&[(1, 1, good), (1, 1, port)]);
    let gate = lockgate().start(&pooled(
        &server,
        "balance = \"round-robin\"\neject = { errors = 2, for = \"60s\", statuses = [\"503\"] }",
    ));
    let mut client = Http::connect(gate.address());
    eventually("it is ejected", || {
        let answers: Vec<u16> = (0..8).map(|_| ask(&mut client).0).collect();
        (answers == [200; 8]).then_some(())
    });
    let ejected = gate.metrics();
    assert_eq!(
        ejected
            .lines()
            .filter(|line| line.starts_with("lockgate_upstream_ejected{") && line.ends_with(" 1"))
            .count(),
        1
    );
}
