//! The side that ends first still gets the other's bytes to their end: every kind of client,
//! endpoint and header, either side first.

use lockgate_testkit::{Authority, Issued, Lockgate, Origin, Tls, Wire, server_config};

use crate::scene::{NAME, Site, lockgate, text};

/// Either end of a connection, over any transport.
enum Peer {
    Plain(Wire),
    Tls(Box<Tls>),
}

impl Peer {
    fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(wire) => wire.send(bytes),
            Self::Tls(tls) => tls.send(bytes),
        }
    }

    fn finish(&mut self) {
        match self {
            Self::Plain(wire) => wire.finish(),
            Self::Tls(tls) => tls.finish(),
        }
    }

    fn expect(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(wire) => wire.expect(bytes),
            Self::Tls(tls) => tls.expect(bytes),
        }
    }

    fn rest(&mut self) -> Vec<u8> {
        match self {
            Self::Plain(wire) => wire.rest(),
            Self::Tls(tls) => tls.rest(),
        }
    }
}

/// The client's header where headers are passed on; one version is enough, `proxy_protocol` has the
/// others.
const PASSED: &[u8] = b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n";

/// The keys of a table under which it is.
const PASS: &str = "accept_proxy = \"require\"\nproxy_protocol = \"pass\"\n";

/// Which sides of a relay speak TLS.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Nobody,
    /// TLS terminated.
    Client,
    /// TLS originated.
    Endpoint,
    Both,
    /// From one to the other, undecrypted.
    Through,
}

struct Scene {
    site: Site,
    /// The endpoint's.
    authority: Authority,
    issued: Issued,
    origin: Origin,
}

impl Scene {
    fn new() -> Self {
        let authority = Authority::new("Endpoints");
        let issued = authority.issue(&[NAME]);
        Self {
            site: Site::new(),
            authority,
            issued,
            origin: Origin::tcp(),
        }
    }

    fn start(&self, way: Way, header: &str) -> Lockgate {
        let to = self.origin.address();
        let ca = text(
            &self
                .site
                .folder
                .write("endpoints.pem", self.authority.pem()),
        );
        let sealed =
            format!("proxy = {{ to = \"{to}\", tls = {{ name = \"{NAME}\", ca = \"{ca}\" }} }}");
        let off = format!("tls = \"{}\"", self.site.cert);
        let lines = match way {
            Way::Nobody => format!("proxy = \"{to}\""),
            Way::Client => format!("{off}\nproxy = \"{to}\""),
            Way::Endpoint => sealed,
            Way::Both => format!("{off}\n{sealed}"),
            Way::Through => format!("sni.\"{NAME}\" = \"{to}\""),
        };
        lockgate().start(&format!(
            "trusted = [\"127.0.0.0/8\"]\n[tcp.\"127.0.0.1:0\"]\n{header}{lines}\n"
        ))
    }

    /// A client and its endpoint, joined.
    fn join(&self, gate: &Lockgate, way: Way, header: &str) -> (Peer, Peer) {
        let endpoint = || {
            let mut wire = self.origin.accept();
            match header {
                "" => {}
                PASS => wire.expect(PASSED),
                header if header.contains("v1") => while wire.exactly(1) != b"\n" {},
                _ => {
                    let head = wire.exactly(16);
                    wire.exactly(usize::from(u16::from_be_bytes([head[14], head[15]])));
                }
            }
            if matches!(way, Way::Nobody | Way::Client) {
                return Peer::Plain(wire);
            }
            Peer::Tls(Box::new(
                Tls::accept(&server_config(&self.issued, None), wire).unwrap(),
            ))
        };
        let authority = if way == Way::Through {
            &self.authority
        } else {
            &self.site.authority
        };
        let client = || {
            let mut wire = Wire::connect(gate.address());
            if header == PASS {
                wire.send(PASSED);
            }
            match way {
                Way::Nobody | Way::Endpoint => Peer::Plain(wire),
                Way::Client | Way::Both | Way::Through => {
                    let config = lockgate_testkit::ClientSettings::trusting(authority).build();
                    Peer::Tls(Box::new(Tls::connect(&config, wire, NAME).unwrap()))
                }
            }
        };
        // Both at once: a client that is passed through handshakes with the endpoint.
        std::thread::scope(|scope| {
            let endpoint = scope.spawn(endpoint);
            let client = client();
            (client, endpoint.join().unwrap())
        })
    }
}

#[test]
fn half_close_is_passed_on_over_every_transport() {
    let scene = Scene::new();
    let bulk = lockgate_testkit::bytes(7, 300_000);
    for way in [
        Way::Nobody,
        Way::Client,
        Way::Endpoint,
        Way::Both,
        Way::Through,
    ] {
        for header in [
            "",
            "proxy_protocol = \"v1\"\n",
            "proxy_protocol = \"v2\"\n",
            PASS,
        ] {
            let gate = scene.start(way, header);
            for client_first in [true, false] {
                let (mut client, mut endpoint) = scene.join(&gate, way, header);
                // Each has heard the other before one ends.
                client.send(b"hello");
                endpoint.expect(b"hello");
                endpoint.send(b"well met");
                client.expect(b"well met");
                let (first, second) = if client_first {
                    (&mut client, &mut endpoint)
                } else {
                    (&mut endpoint, &mut client)
                };
                first.send(b"my last word");
                first.finish();
                assert_eq!(
                    second.rest(),
                    b"my last word",
                    "{way:?} {header} {client_first}"
                );
                // More than any buffer on the way holds, to a side that has half-closed long ago.
                std::thread::scope(|scope| {
                    let heard = scope.spawn(|| first.rest());
                    second.send(&bulk);
                    second.finish();
                    assert!(
                        heard.join().unwrap() == bulk,
                        "{way:?} {header} {client_first}"
                    );
                });
            }
        }
    }
}
