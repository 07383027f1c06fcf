//! Sockets towards endpoints, in programs that may have few descriptors.

use std::process::Command;
use std::sync::{Arc, Barrier, Condvar, Mutex};

use http::Method;
use lockgate_testkit::h2::{Client, Peer};
use lockgate_testkit::{Http, Lockgate, Origin, Serving, Wire};

use super::{GET, OK, SOCKETS, WAITED, assert_served, other_client, relay};
use crate::scene::{NAME, echoes, lockgate};

/// The program with two workers and so many descriptors.
fn with_descriptors(count: usize, toml: &str) -> Lockgate {
    let limit = format!("--nofile={count}:{count}");
    lockgate()
        .workers(2)
        .through(&["prlimit", &limit])
        .start(toml)
}

/// A site at `address`, by HTTP/1 and HTTP/2 with prior knowledge, in front of `proxy`; keys may
/// follow. At 127.0.0.1 it is for any host, and elsewhere for [`NAME`].
fn site(address: &str, proxy: &str) -> String {
    let host = if address == "127.0.0.1" { "" } else { NAME };
    format!(
        "[site.\"{host}:0\"]\nlisten = [\"{address}\"]\nprotocols = [\"h2c\", \"http1\"]\nproxy = \"{proxy}\"\n"
    )
}

fn quick() -> Serving {
    Origin::tcp().answering(|_| OK.into())
}

/// A gate that holds responses back until it is opened.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn wait(&self) {
        drop(
            self.1
                .wait_while(self.0.lock().unwrap(), |open| !*open)
                .unwrap(),
        );
    }

    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

/// An origin that answers when the gate is opened.
fn hanging() -> (Serving, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let shared = Arc::clone(&gate);
    let origin = Origin::tcp().answering(move |_| {
        shared.wait();
        OK.into()
    });
    (origin, gate)
}

/// An origin that answers all requests at once when so many are there.
fn together(count: usize) -> Serving {
    let barrier = Barrier::new(count);
    Origin::tcp().answering(move |_| {
        barrier.wait();
        OK.into()
    })
}

#[test]
fn idle_upstream_sockets_of_other_pools_are_evicted() {
    const BURST: usize = 60;
    let origins: Vec<_> = (0..5).map(|_| together(BURST)).collect();
    let at = |site: usize| format!("127.0.0.{}", site + 1);
    let sites: String = origins
        .iter()
        .enumerate()
        .map(|(number, origin)| {
            let host = format!(
                "[site.\"s{number}.test:0\"]\nlisten = [\"{}\"]\n",
                at(number)
            );
            host + &format!(
                "protocols = [\"http1\"]\nproxy = \"{}\"\n",
                origin.address()
            )
        })
        .collect();
    for descriptors in [256, 300] {
        let gate = with_descriptors(descriptors, &sites);
        for site in 0..origins.len() {
            let address = gate.at(&format!("{}:0", at(site)));
            let mut clients: Vec<_> = (0..BURST).map(|_| Http::connect(address)).collect();
            let request = format!("GET / HTTP/1.1\r\nHost: s{site}.test\r\n\r\n");
            clients.iter_mut().for_each(|client| client.send(&request));
            for client in &mut clients {
                assert_eq!(client.answer().status(), 200, "site {site}");
            }
        }
        assert!(gate.sample("lockgate_upstream_sockets_evicted_total", &[]) > 0.0);
        let limit = gate.sample("lockgate_upstream_sockets_limit", &[]);
        assert!(gate.sample(SOCKETS, &[]) <= limit, "{limit}");
    }
}

#[test]
fn one_http2_client_leaves_sockets_for_other_clients() {
    let (slow, opens) = hanging();
    let (origin, echo) = (quick(), Origin::tcp().echo());
    let toml = site("127.0.0.1", slow.address())
        + "[pool.others]\nendpoints = [\""
        + origin.address()
        + "\"]\n"
        + &site("127.0.0.2", "pool:others")
        + &relay("127.0.0.3", echo.address());
    for descriptors in [256, 600] {
        let gate = with_descriptors(descriptors, &toml);
        let clients: Vec<_> = (0..5)
            .map(|_| Client::connect(gate.at("127.0.0.1:0")))
            .collect();
        let get = || Client::request(Method::GET, "/hang");
        let each = |client| (0..100).map(move |_| Client::begin(client, get(), true));
        let _streams: Vec<_> = clients.iter().flat_map(each).collect();
        lockgate_testkit::eventually("the client uses its whole share", || {
            (gate.sample(WAITED, &["reason=\"share\""]) > 0.0).then_some(())
        });
        let limit = gate.sample("lockgate_upstream_sockets_limit", &[]);
        for last in [7, 8, 9] {
            assert_served(&mut other_client(&gate, "127.0.0.2:0", last));
            let mut relayed = other_client(&gate, "127.0.0.3:0", last);
            echoes(&mut relayed.stream, "hello");
        }
        assert!(
            gate.sample(SOCKETS, &["state=\"used\""]) < limit,
            "some of {limit} are left"
        );
        assert_eq!(gate.sample(WAITED, &["reason=\"limit\""]), 0.0);
    }
    opens.open();
}

#[test]
fn streams_beyond_the_socket_share_wait_and_are_answered() {
    let origin = quick();
    let toml = "[pool.app]\nqueue = { wait = \"1h\" }\n".to_owned()
        + &format!("endpoints = [\"{}\"]\n", origin.address())
        + &site("127.0.0.1", "pool:app");
    for descriptors in [256, 20_000] {
        let gate = with_descriptors(descriptors, &toml);
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    let client = Client::connect(gate.address());
                    let get = || Client::request(Method::GET, "/");
                    let streams: Vec<_> = (0..100).map(|_| client.begin(get(), true)).collect();
                    for stream in streams {
                        assert_eq!(stream.answer().status, 200);
                    }
                });
            }
        });
        if descriptors == 20_000 {
            assert_eq!(gate.sample(WAITED, &[]), 0.0, "there is plenty");
        }
    }
}

#[test]
fn a_stream_waiting_too_long_for_a_socket_gets_503() {
    let (origin, opens) = hanging();
    let toml = "[pool.app]\nqueue = { wait = \"50ms\" }\n".to_owned()
        + &format!("endpoints = [\"{}\"]\n", origin.address())
        + &site("127.0.0.1", "pool:app");
    let gate = with_descriptors(256, &toml);
    let client = Client::connect(gate.address());
    let get = || Client::request(Method::GET, "/");
    let streams: Vec<_> = (0..128).map(|_| client.begin(get(), true)).collect();
    let line = gate.line("one beyond the share", |line| line["status"] == 503);
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"limit".into(), &"lockgate".into()),
        "{line}"
    );
    opens.open();
    let statuses: Vec<_> = streams
        .into_iter()
        .map(|stream| stream.answer().status)
        .collect();
    assert!(statuses.contains(&200) && statuses.iter().all(|status| [200, 503].contains(status)));
}

#[test]
fn http2_websockets_count_against_the_socket_share() {
    let origin = Origin::tcp().serve(|wire| {
        let mut http = Http::over(wire.another());
        let head = lockgate_testkit::Message {
            head: http.head(),
            ..Default::default()
        };
        if head.field("upgrade").is_none() {
            // One response on each connection: no connection is reused.
            http.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        } else {
            let accept = crate::h2::accept(head.field("sec-websocket-key").unwrap());
            http.send(format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            ));
        }
        http.rest();
    });
    let gate = with_descriptors(256, &site("127.0.0.1", origin.address()));
    let client = Client::connect(gate.address());
    let mut sockets: Vec<_> = (0..128)
        .map(|_| client.connect_protocol("websocket", "/chat"))
        .collect();
    lockgate_testkit::eventually("the client uses its whole share", || {
        (gate.sample(WAITED, &["reason=\"share\""]) > 0.0).then_some(())
    });
    // Others, and the same client on a connection of HTTP/1.
    for last in [1, 8, 9] {
        assert_served(&mut other_client(&gate, "127.0.0.1:0", last));
    }
    // A WebSocket that ends frees its slot for the next.
    assert_eq!(sockets[0].head().unwrap().status, 200);
    sockets.clear();
    gate.wait_for_sample("lockgate_upstream_sockets_waiting", &[], 0.0);
}

#[test]
fn hanging_requests_of_the_largest_client_are_preempted() {
    let (slow, opens) = hanging();
    let quick = quick();
    let toml = "limits = { connections = 150 }\n".to_owned()
        + "[pool.quick]\nqueue = { wait = \"1h\" }\n"
        + &format!("endpoints = [\"{}\"]\n", quick.address())
        + &site("127.0.0.1", slow.address())
        + &site("127.0.0.2", "pool:quick");
    let gate = with_descriptors(256, &toml);
    let limit = gate.sample("lockgate_upstream_sockets_limit", &[]);
    let mut honest = other_client(&gate, "127.0.0.2:0", 9);
    let mut hanging = Vec::new();
    while gate.sample(SOCKETS, &["state=\"used\""]) < limit {
        let mut client = Http::connect(gate.at("127.0.0.1:0"));
        client.send(GET);
        hanging.push(client);
    }
    assert_served(&mut honest);
    assert!(gate.sample("lockgate_upstream_sockets_preempted_total", &[]) > 0.0);
    opens.open();
}

#[test]
fn trusted_peers_may_use_every_socket() {
    let (origin, opens) = hanging();
    let toml = "trusted = [\"127.0.0.1/32\"]\n".to_owned() + &site("127.0.0.1", origin.address());
    let gate = with_descriptors(256, &toml);
    let limit = gate.sample("lockgate_upstream_sockets_limit", &[]);
    let client = Client::connect(gate.address());
    let get = || Client::request(Method::GET, "/");
    let streams: Vec<_> = (0..128).map(|_| client.begin(get(), true)).collect();
    gate.wait_for_sample(SOCKETS, &["state=\"used\""], limit);
    assert_eq!(gate.sample(WAITED, &["reason=\"share\""]), 0.0);
    opens.open();
    drop(streams);
}

#[test]
fn socket_shares_count_the_proxy_protocol_client() {
    let (slow, opens) = hanging();
    let toml = "trusted = [\"127.0.0.1/32\"]\n".to_owned()
        + &format!(
            "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\naccept_proxy = \"require\"\nproxy = \"{}\"\n",
            slow.address()
        );
    let gate = with_descriptors(256, &toml);
    let mut clients: Vec<Wire> = (0..4).map(|_| Wire::connect(gate.address())).collect();
    for (host, client) in clients.iter_mut().enumerate() {
        client.send(format!(
            "PROXY TCP4 192.0.2.{} 192.0.2.99 4711 443\r\n{GET}",
            host % 2
        ));
    }
    // Two clients, and not the balancer as a single one.
    gate.wait_for_sample("lockgate_clients", &[], 2.0);
    opens.open();
    for client in clients {
        assert_eq!(Http::over(client).answer().status(), 200);
    }
}

/// The peer is a balancer that is trusted and would have no share itself.
#[test]
fn a_proxy_protocol_client_has_its_own_socket_share() {
    let gates = Arc::new(Gate::default());
    let opens = Arc::clone(&gates);
    let origin = Origin::tcp().answering(move |request| {
        if request.first_line().contains("/hang") {
            gates.wait();
        }
        OK.into()
    });
    let toml = "trusted = [\"127.0.0.1/32\"]\n[pool.app]\nqueue = { wait = \"1h\" }\n".to_owned()
        + &format!("endpoints = [\"{}\"]\n", origin.address())
        + &site("127.0.0.1", "pool:app")
        + "accept_proxy = \"require\"\n";
    let gate = with_descriptors(256, &toml);
    let client = |last: u8| {
        let mut wire = Wire::connect(gate.address());
        wire.send(format!("PROXY TCP4 192.0.2.{last} 192.0.2.99 4711 443\r\n"));
        let mut peer = Peer::over(wire);
        peer.hello(&[]);
        peer
    };
    let shares = || gate.sample(WAITED, &["reason=\"share\""]);
    let mut greedy = client(1);
    (0..128).for_each(|number| greedy.get(2 * number + 1, "/hang"));
    lockgate_testkit::eventually("the client uses its whole share", || {
        (shares() > 0.0).then_some(())
    });
    // Another client by the same balancer.
    let mut other = client(2);
    other.get(1, "/");
    assert_eq!(other.answer(1).status, 200);
    // The same client by another connection waits behind its own.
    let waited = shares();
    let mut again = client(1);
    again.get(1, "/");
    lockgate_testkit::eventually("it waits", || (shares() > waited).then_some(()));
    opens.open();
    assert_eq!(again.answer(1).status, 200);
}

#[test]
fn descriptor_exhaustion_evicts_idle_upstream_sockets() {
    let (one, other) = (together(20), together(20));
    let toml = site("127.0.0.1", one.address()) + &site("127.0.0.2", other.address());
    let gate = with_descriptors(300, &toml);
    let burst = |listener: &str| {
        let mut clients: Vec<_> = (0..20).map(|_| Http::connect(gate.at(listener))).collect();
        clients.iter_mut().for_each(|client| client.send(GET));
        let statuses: Vec<_> = clients
            .iter_mut()
            .map(|client| client.answer().status())
            .collect();
        assert!(
            statuses.iter().all(|status| *status == 200),
            "{statuses:?} {:#?}",
            gate.lines()
        );
        clients
    };
    let first = burst("127.0.0.1:0");
    gate.wait_for_sample(SOCKETS, &["state=\"idle\""], 20.0);
    // Another process has taken descriptors that the program counts on: there are 25 left for the
    // second burst, 20 of them for clients.
    let open = std::fs::read_dir(format!("/proc/{}/fd", gate.pid()))
        .unwrap()
        .count();
    let limit = format!("--nofile={0}:{0}", open + 25);
    let pid = gate.pid().to_string();
    assert!(
        Command::new("prlimit")
            .args(["--pid", &pid, &limit])
            .status()
            .unwrap()
            .success()
    );
    let second = burst("127.0.0.2:0");
    drop((first, second));
}
