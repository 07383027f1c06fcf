//! Affinity of TLS sessions that are passed through: they lead back to the endpoint that has made
//! them.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use lockgate_testkit::{Issued, Lockgate, Origin, Serving, Tls, Wire, client_hello};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind};

use crate::scene::{NAME, Site, lockgate, text};
use crate::sni::secure;

/// With this many addresses all four endpoints are used, except once in millions of runs.
const CLIENTS: u8 = 12;

/// Four endpoints that send their names, each with sessions of its own, by their identifiers and
/// without tickets.
fn four_endpoints(issued: &Issued) -> Vec<Serving> {
    ["a", "b", "c", "d"].map(|name| secure(issued, name)).into()
}

fn pool(addresses: &[String], balance: &str) -> String {
    format!("[pool.app]\nendpoints = {addresses:?}\nbalance = {balance}\n")
}

fn addresses(endpoints: &[Serving]) -> Vec<String> {
    endpoints
        .iter()
        .map(|endpoint| endpoint.address().to_string())
        .collect()
}

const STICKY: &str = "{ sticky = \"tls-session\" }";
const ALONE: &str = "[tcp.\"127.0.0.1:0\"]\nproxy = \"pool:app\"\n";

/// A connection from the `n`th address: the endpoint that it came to, and whether its session was
/// resumed.
fn visit(gate: &Lockgate, client: &Arc<ClientConfig>, n: u8) -> (String, bool) {
    endpoint_and_resumption(Tls::connect(client, from(n, gate.address()), NAME).unwrap())
}

fn from(n: u8, to: SocketAddr) -> Wire {
    Wire::connect_from(IpAddr::from([127, 0, 0, n]), to)
}

fn endpoint_and_resumption(mut tls: Tls) -> (String, bool) {
    let name = String::from_utf8(tls.rest()).unwrap();
    let resumed = tls.agreed().handshake_kind() == Some(HandshakeKind::Resumed);
    tls.finish();
    (name, resumed)
}

#[test]
fn tls_1_2_session_affinity_holds_across_addresses_and_workers() {
    let site = Site::new();
    let endpoints = four_endpoints(&site.issued);
    let gate = lockgate()
        .workers(2)
        .start(&(pool(&addresses(&endpoints), STICKY) + ALONE));
    let mut met = HashSet::new();
    for n in 1..=CLIENTS {
        let client = site.client().version(&TLS12).build();
        let (home, resumed) = visit(&gate, &client, n);
        assert!(!resumed);
        for other in 1..=CLIENTS {
            assert_eq!(
                visit(&gate, &client, other),
                (home.clone(), true),
                "from {other}"
            );
        }
        met.insert(home);
    }
    // A client without a session is led by its address, always to the same endpoint.
    assert!(met.len() > 1, "{met:?}");
    let fresh = |n| visit(&gate, &site.client().version(&TLS12).build(), n).0;
    assert_eq!(fresh(1), fresh(1));
}

#[test]
fn without_session_affinity_or_with_tls_1_3_resumption_scatters() {
    let site = Site::new();
    let endpoints = four_endpoints(&site.issued);
    for (balance, version) in [("{ hash = \"client\" }", &TLS12), (STICKY, &TLS13)] {
        let gate = lockgate()
            .workers(2)
            .start(&(pool(&addresses(&endpoints), balance) + ALONE));
        let client = site.client().version(version).build();
        let met: HashSet<String> = (1..=CLIENTS).map(|n| visit(&gate, &client, n).0).collect();
        assert!(met.len() > 1, "{balance} {version:?} {met:?}");
    }
}

#[test]
fn session_affinity_works_with_sni_and_proxy_protocol() {
    let site = Site::new();
    let endpoints = four_endpoints(&site.issued);
    let toml = format!(
        "trusted = [\"127.0.0.0/8\"]\n{}[tcp.\"127.0.0.1:0\"]\naccept_proxy = \"require\"\nsni.\"{NAME}\" = \"pool:app\"\n\
         sni.\"other.test\" = \"127.0.0.1:1\"\n",
        pool(&addresses(&endpoints), STICKY)
    );
    let gate = lockgate().workers(2).start(&toml);
    let visit = |client: &Arc<ClientConfig>, n: u8| {
        let mut wire = Wire::connect(gate.address());
        wire.send(format!(
            "PROXY TCP4 203.0.113.{n} 198.51.100.1 41022 443\r\n"
        ));
        endpoint_and_resumption(Tls::connect(client, wire, NAME).unwrap())
    };
    let client = site.client().version(&TLS12).build();
    let (home, _) = visit(&client, 1);
    for n in 1..=CLIENTS {
        assert_eq!(visit(&client, n), (home.clone(), true), "from {n}");
    }
}

#[test]
fn session_affinity_moves_while_its_endpoint_is_down() {
    let site = Site::new();
    let mut endpoints = four_endpoints(&site.issued);
    let gate = lockgate()
        .workers(2)
        .start(&(pool(&addresses(&endpoints), STICKY) + ALONE));
    let client = site.client().version(&TLS12).build();
    let (home, _) = visit(&gate, &client, 1);
    let at = ["a", "b", "c", "d"]
        .iter()
        .position(|name| *name == home)
        .unwrap();
    drop(endpoints.remove(at));
    let (next, resumed) = visit(&gate, &client, 2);
    assert!(next != home && !resumed);
    for n in 1..=CLIENTS {
        assert_eq!(visit(&gate, &client, n), (next.clone(), true), "from {n}");
    }
}

/// A ServerHello with this session (RFC 5246 §7.4.1.3) and these extensions.
fn server_hello(session: &[u8], extensions: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[length(session)],
        session,
        &[0xC0, 0x2F, 0],
        extensions,
    ]
    .concat();
    let message = [&[2, 0, 0, length(&body)][..], &body].concat();
    [&[22, 3, 3, 0, length(&message)][..], &message].concat()
}

/// The endpoint of each address, out of four which answer the same hello byte by byte.
fn endpoints_by_address(hello: &[u8], answer: &[u8]) -> HashSet<u8> {
    let endpoints: Vec<Serving> = (b'a'..=b'd')
        .map(|name| {
            let (len, said) = (hello.len(), answer.to_vec());
            Origin::tcp().serve(move |wire| {
                wire.exactly(len);
                for byte in &said {
                    wire.send([*byte]);
                    wire.expect("+");
                }
                wire.send([name]);
                wire.wait_closed();
            })
        })
        .collect();
    let gate = lockgate()
        .workers(2)
        .start(&(pool(&addresses(&endpoints), STICKY) + ALONE));
    let visit = |n| {
        let mut client = from(n, gate.address());
        client.send(&hello[..50]);
        client.send(&hello[50..]);
        for byte in answer {
            client.expect([*byte]);
            client.send("+");
        }
        client.exactly(1)[0]
    };
    (1..=CLIENTS).map(visit).collect()
}

#[test]
fn session_affinity_reads_server_hellos_of_tls_1_2_only() {
    let site = Site::new();
    // RFC 8446 §4.1.2: a client that offers 1.3 has an identifier, which a server that chooses 1.2
    // may know.
    let hello = client_hello(&site.client().build(), NAME);
    let session = &hello[44..76];
    assert_eq!(hello[43], 32);
    assert_eq!(
        endpoints_by_address(&hello, &server_hello(session, &[])).len(),
        1
    );
    // RFC 8446 §4.2.1
    assert!(
        endpoints_by_address(&hello, &server_hello(session, &[0, 6, 0, 43, 0, 2, 3, 4])).len() > 1
    );
    assert!(endpoints_by_address(&hello, &server_hello(&[], &[])).len() > 1);
    assert!(endpoints_by_address(&hello, b"\x15\x03\x03\0\x02\x02\x28").len() > 1);
}

#[test]
fn session_affinity_falls_back_to_the_address_without_tls() {
    let greets = |name: &'static str| {
        Origin::tcp().serve(move |wire| {
            wire.send(name);
            let said = wire.rest();
            wire.send(said);
        })
    };
    let endpoints = [greets("a"), greets("b"), greets("c"), greets("d")];
    let quick = "timeouts = { handshake = \"50ms\" }\n";
    let gate = lockgate()
        .workers(2)
        .start(&(pool(&addresses(&endpoints), STICKY) + ALONE + quick));
    let mut met = HashSet::new();
    for n in 1..=CLIENTS {
        let visit = |before: &str| {
            let mut client = from(n, gate.address());
            client.send(before);
            let name = client.exactly(1)[0];
            client.send("and more");
            client.finish();
            assert_eq!(client.rest(), [before, "and more"].concat().as_bytes());
            name
        };
        // Half a hello, plain HTTP, a hello of SSL 2.0, no hello, and nothing.
        let names: HashSet<u8> = ["\x16\x03\x01\x02\x00\x01", "GET / ", "PING\r\n", ""]
            .map(visit)
            .into();
        assert_eq!(names.len(), 1, "from {n}");
        met.extend(names);
        // A client that half-closes before a hello.
        let mut client = from(n, gate.address());
        client.finish();
        assert_eq!(client.rest().len(), 1);
    }
    assert!(met.len() > 1, "{met:?}");
}

#[test]
fn check_shows_session_affinity_and_refuses_it_with_tls_termination() {
    let site = Site::new();
    let check = |toml: &str| {
        let file = text(&site.folder.write("lockgate.toml", toml));
        lockgate().run(&["check", "-v", "-c", &file])
    };
    let pool = pool(&["10.0.0.1:443".into(), "10.0.0.2:443".into()], STICKY);
    let ended = check(&format!("{pool}[tcp.\":1\"]\nproxy = \"pool:app\"\n"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended
            .stdout
            .contains("by the TLS session, else by a hash of the client's address"),
        "{}",
        ended.stdout
    );
    let tls = format!("tls = {{ cert = {:?} }}", site.cert);
    for (uses, why) in [
        (
            format!("[tcp.\":1\"]\nproxy = \"pool:app\"\n{tls}\n"),
            "where Lockgate terminates TLS",
        ),
        (
            format!("[tcp.\":1\"]\nsni.\"a.b\" = {{ proxy = \"pool:app\", {tls} }}\n"),
            "where Lockgate terminates TLS",
        ),
        (
            format!("[site.\"a.b\"]\n{tls}\nproxy = \"pool:app\"\n"),
            "in a [site]",
        ),
    ] {
        let ended = check(&format!("{pool}{uses}"));
        assert_ne!(ended.code, Some(0), "{uses}");
        assert!(
            ended.stderr.contains("E0044") && ended.stderr.contains(why),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("the sessions are Lockgate's"),
            "{}",
            ended.stderr
        );
    }
}
