//! Transports to a target: Unix sockets, a CONNECT proxy, the PROXY protocol, TLS.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lockgate_load::options::{HostAddresses, LoadOptions};
use lockgate_load::result::FailureKind;
use lockgate_net::proxy_protocol::HeaderVersion;
use lockgate_net::tls::{CaSource, CertFiles};
use lockgate_testkit::{Authority, Folder, Http, Origin, Serving, Tls, Wire, server_config};

use super::{PAGE, asks, at, changed, counts, example, failures, refused, run};

#[test]
fn load_over_a_unix_socket_keeps_the_url_host() {
    let folder = Folder::new();
    let path = folder.path("socket");
    let hosts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&hosts);
    let server = Origin::unix(&path).answering(move |request| {
        seen.lock()
            .unwrap()
            .push(request.field("host").unwrap().to_owned());
        PAGE.into()
    });
    let options = changed(asks(&["http://app.test:81/x"], 50), |options| {
        options.connections.unix = Some(path);
        options.connections.number = 4;
        options.connections.max_requests = Some(2);
    });
    let counts = counts(&options);
    assert_eq!(
        (counts.succeeded(), failures(&counts)),
        (50, vec![]),
        "{:?}",
        counts.examples
    );
    assert_eq!(counts.opened + 1, server.accepted() as u64);
    let hosts = hosts.lock().unwrap();
    assert!(hosts.len() == 51 && hosts.iter().all(|host| host == "app.test:81"));
}

#[test]
fn resolve_sets_the_address_of_a_host() {
    let server = Origin::tcp().answering(|request| {
        assert!(request.field("host").unwrap().starts_with("APP.test:"));
        PAGE.into()
    });
    let address: SocketAddr = server.address().parse().unwrap();
    let port = address.port();
    let known = |port: u16| HostAddresses {
        host: "app.test".to_owned(),
        port,
        addresses: vec![address.ip()],
    };
    let url = format!("http://APP.test:{port}/");
    let mut options = asks(&[&url], 3);
    options.connections.resolve = vec![known(port)];
    assert_eq!(counts(&options).succeeded(), 3);
    options.connections.resolve.push(known(1));
    let told = refused(&options);
    assert!(
        told.contains("--resolve app.test:1: no connection"),
        "{told}"
    );
}

/// They take turns, and each connection has a port of its own.
#[test]
fn bind_sets_the_source_addresses_of_connections() {
    let clients = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&clients);
    let server = Origin::tcp().serve(move |wire| {
        seen.lock()
            .unwrap()
            .push(wire.peer_address().ip().to_string());
        let mut http = Http::over(wire.another());
        while http.next_request().is_some() {
            http.send(PAGE);
        }
    });
    let mut options = asks(&[&at("http", &server)], 8);
    options.connections.bind = ["127.0.0.2", "::1", "127.0.0.3"]
        .map(|address| address.parse().unwrap())
        .to_vec();
    options.connections.max_requests = Some(1);
    let counts = counts(&options);
    assert_eq!((counts.succeeded(), failures(&counts)), (8, vec![]));
    let clients = clients.lock().unwrap();
    let from = |address: &str| clients.iter().filter(|client| *client == address).count();
    assert_eq!(
        (clients.len(), from("127.0.0.2"), from("127.0.0.3")),
        (9, 5, 4)
    );
}

#[test]
fn a_source_address_that_no_connection_can_have_is_refused() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    for (address, says) in [
        ("192.0.2.1", "--bind 192.0.2.1: "),
        ("::1", "--bind has no address of the family of 127.0.0.1"),
    ] {
        let mut options = asks(&[&at("http", &server)], 1);
        options.connections.bind = vec![address.parse().unwrap()];
        let told = refused(&options);
        assert!(told.contains(says), "{told}");
    }
    assert_eq!(server.accepted(), 0);
}

/// A proxy that answers CONNECT with these bytes, and is the server itself where it agrees; the
/// heads that it got.
fn proxy(answer: &'static str) -> (Serving, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        seen.lock().unwrap().push(http.head());
        http.send(answer);
        if !answer.contains(" 2") {
            return;
        }
        while http.next_request().is_some() {
            http.send(PAGE);
        }
    });
    (server, heads)
}

fn through(proxy: &Serving) -> LoadOptions {
    changed(asks(&["http://app.test:81/x"], 4), |options| {
        options.connections.proxy = Some(at("http", proxy));
        options.connections.max_requests = Some(2);
    })
}

#[test]
fn load_through_a_proxy_sends_connect() {
    for answer in [
        "HTTP/1.1 200 Connection established\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLink: y\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ] {
        let (server, heads) = proxy(answer);
        let counts = counts(&through(&server));
        assert_eq!(
            (counts.succeeded(), counts.opened),
            (4, 2),
            "{answer}: {:?}",
            counts.examples
        );
        let heads = heads.lock().unwrap();
        assert_eq!(heads.len(), 3);
        assert!(
            heads
                .iter()
                .all(|head| head == "CONNECT app.test:81 HTTP/1.1\r\nHost: app.test:81\r\n\r\n"),
            "{heads:?}"
        );
    }
}

#[test]
fn load_authenticates_to_a_proxy_and_counts_its_refusals() {
    let (server, heads) = proxy("HTTP/1.1 200 OK\r\n\r\n");
    let options = changed(through(&server), |options| {
        options.connections.proxy_user = Some("Aladdin:open sesame".into());
    });
    assert_eq!(counts(&options).succeeded(), 4);
    // RFC 7617 §2.
    let field = "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
    assert!(
        heads
            .lock()
            .unwrap()
            .iter()
            .all(|head| head.contains(field))
    );
    for (answer, says) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
            "it responded with status 407",
        ),
        (
            "HTTP/1.1 502 Bad Gateway\r\n\r\n",
            "it responded with status 502",
        ),
        ("SSH-1.99\r\n\r\n", ""),
        ("", "it closed the connection"),
        ("HTTP/1.1 200 OK\r\n\r\nmore", "after its response"),
    ] {
        let (server, _) = proxy(answer);
        let mut options = through(&server);
        let told = refused(&options);
        assert!(
            told.contains(&at("http", &server)) && told.contains(says),
            "{told}"
        );
        options.anyway = true;
        let counts = counts(&options);
        assert_eq!(
            (failures(&counts), counts.opened),
            (vec![("proxy", 4)], 0),
            "{answer}"
        );
        assert!(example(&counts, FailureKind::Proxy).contains(says));
    }
}

/// The first bytes of a connection.
fn preface(wire: &mut Wire, version: HeaderVersion) -> String {
    match version {
        HeaderVersion::V1 => {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.extend(wire.exactly(1));
            }
            String::from_utf8(line).unwrap()
        }
        HeaderVersion::V2 => {
            let head = wire.exactly(16);
            assert_eq!(&head[..13], b"\r\n\r\n\0\r\nQUIT\n\x21");
            let rest = wire.exactly(usize::from(u16::from_be_bytes([head[14], head[15]])));
            let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
            assert_eq!(
                (head[13], &rest[..8]),
                (0x11, &[127, 0, 0, 1, 127, 0, 0, 1][..])
            );
            format!(
                "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
                port(8),
                port(10)
            )
        }
    }
}

#[test]
fn a_proxy_protocol_header_begins_each_load_connection() {
    let authority = Authority::new("Test Authority");
    for version in [HeaderVersion::V1, HeaderVersion::V2] {
        for secure in [false, true] {
            let served = server_config(&authority.issue(&["127.0.0.1"]), None);
            let server = Origin::tcp().serve(move |wire| {
                let (from, to) = (wire.peer_address(), wire.local_address());
                let expected = format!(
                    "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
                    from.port(),
                    to.port()
                );
                assert_eq!(preface(wire, version), expected);
                if secure {
                    let mut http = Http::over(Tls::accept(&served, wire.another()).unwrap());
                    while http.next_request().is_some() {
                        http.send(PAGE);
                    }
                } else {
                    let mut http = Http::over(wire.another());
                    while http.next_request().is_some() {
                        http.send(PAGE);
                    }
                }
            });
            let url = at(if secure { "https" } else { "http" }, &server);
            let options = changed(asks(&[&url], 4), |options| {
                options.connections.proxy_protocol = Some(version);
                options.connections.max_requests = Some(2);
            });
            let counts = counts(&options);
            assert_eq!(
                (counts.succeeded(), counts.opened),
                (4, 2),
                "{:?}",
                counts.examples
            );
        }
    }
}

/// The SNI name of each connection, and whether its session was resumed.
type Agreed = Arc<Mutex<Vec<(String, bool)>>>;

/// A TLS server; of each connection the SNI name, and whether its session was resumed.
fn secure(issued: &lockgate_testkit::Issued, clients: Option<&Authority>) -> (Serving, Agreed) {
    let agreed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&agreed);
    let served = server_config(issued, clients);
    let server = Origin::tcp().serve(move |wire| {
        let Ok(stream) = Tls::accept(&served, wire.another()) else {
            return;
        };
        let rustls::Connection::Server(server) = &stream.session else {
            return;
        };
        let name = server.server_name().unwrap_or_default().to_owned();
        let resumed = server.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        assert_eq!(server.alpn_protocol(), None, "the server names none");
        seen.lock().unwrap().push((name, resumed));
        let mut http = Http::over(stream);
        while http.next_request().is_some() {
            http.send(PAGE);
        }
    });
    (server, agreed)
}

#[test]
fn load_resumes_tls_sessions_unless_disabled() {
    let authority = Authority::new("Test Authority");
    for version in ["1.2", "1.3"] {
        for resume in [true, false] {
            let (server, agreed) = secure(&authority.issue(&["127.0.0.1"]), None);
            let mut options = changed(asks(&[&at("https", &server)], 10), |options| {
                options.connections.max_requests = Some(1);
            });
            options.tls.resume = resume;
            options.tls.versions = vec![version.to_owned()];
            let counts = counts(&options);
            assert_eq!(
                (counts.succeeded(), counts.opened),
                (10, 10),
                "{:?}",
                counts.examples
            );
            let resumed = agreed
                .lock()
                .unwrap()
                .iter()
                .skip(1)
                .filter(|(_, resumed)| *resumed)
                .count();
            assert_eq!(
                (counts.resumed, resumed),
                if resume { (10, 10) } else { (0, 0) },
                "{version}"
            );
        }
    }
}

#[test]
fn tls_name_sets_sni_and_the_verified_name() {
    let folder = Folder::new();
    let authority = Authority::new("Test Authority");
    let (server, agreed) = secure(&authority.issue(&["app.test"]), None);
    let mut options = asks(&[&at("https", &server)], 2);
    options.tls.ca = CaSource::File(folder.write("ca.pem", authority.pem()));
    options.tls.name = Some("app.test".to_owned());
    assert_eq!(counts(&options).succeeded(), 2);
    assert!(
        agreed
            .lock()
            .unwrap()
            .iter()
            .all(|(name, _)| name == "app.test")
    );
    options.tls.name = Some("other.test".to_owned());
    refused(&options);
}

#[test]
fn load_presents_a_client_certificate() {
    let folder = Folder::new();
    let (authority, clients) = (Authority::new("Test Authority"), Authority::new("Clients"));
    let (server, _) = secure(&authority.issue(&["127.0.0.1"]), Some(&clients));
    let mut options = asks(&[&at("https", &server)], 3);
    refused(&options);
    let cert = folder.write("client.pem", clients.issue(&["client"]).both());
    options.tls.identity = Some(CertFiles {
        cert,
        key: None,
        ocsp: None,
    });
    assert_eq!(counts(&options).succeeded(), 3);
    let cert = folder.write("stranger.pem", authority.issue(&["client"]).both());
    options.tls.identity = Some(CertFiles {
        cert,
        key: None,
        ocsp: None,
    });
    refused(&options);
}

/// TLS goes through the tunnel, to the target's name and not to the proxy's.
#[test]
fn load_speaks_tls_through_a_connect_tunnel() {
    let authority = Authority::new("Test Authority");
    let served = server_config(&authority.issue(&["app.test"]), None);
    let server = Origin::tcp().serve(move |wire| {
        let mut proxy = Http::over(wire.another());
        assert!(
            proxy
                .head()
                .starts_with("CONNECT app.test:443 HTTP/1.1\r\n")
        );
        proxy.send("HTTP/1.1 200 OK\r\n\r\n");
        let mut http = Http::over(Tls::accept(&served, wire.another()).unwrap());
        while let Some(request) = http.next_request() {
            assert_eq!(request.field("host"), Some("app.test"));
            http.send(PAGE);
        }
    });
    let folder = Folder::new();
    let mut options = changed(asks(&["https://app.test/"], 3), |options| {
        options.connections.proxy = Some(at("http", &server));
    });
    options.tls.ca = CaSource::File(folder.write("ca.pem", authority.pem()));
    let report = run(&options);
    assert_eq!(
        report.stages[0].counts.succeeded(),
        3,
        "{:?}",
        report.stages[0].counts.examples
    );
}

#[test]
fn load_connects_to_an_ipv6_address_with_tls() {
    let folder = Folder::new();
    let authority = Authority::new("Test Authority");
    let served = server_config(&authority.issue(&["::1"]), None);
    let server = Origin::tcp_at("[::1]:0".parse().unwrap()).serve(move |wire| {
        let mut http = Http::over(Tls::accept(&served, wire.another()).unwrap());
        while let Some(request) = http.next_request() {
            assert!(request.field("host").unwrap().starts_with("[::1]:"));
            http.send(PAGE);
        }
    });
    let mut options = asks(&[&at("https", &server)], 3);
    options.tls.ca = CaSource::File(folder.write("ca.pem", authority.pem()));
    assert_eq!(counts(&options).succeeded(), 3);
}
