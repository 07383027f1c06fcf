//! Handshakes in memory, for the tests of later stages, and over sockets, for their own.

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};
use std::task::Poll;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{Ticketer, cipher_suite as suites, default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    SupportedCipherSuite, SupportedProtocolVersion, version,
};

use super::*;
use crate::reactor;
use crate::reactor::testing::{self, run};
use crate::socket::SocketFamily;
use crate::tls::fixtures::*;
use crate::tls::{
    CaSource, CertFiles, ClientAuthMode, ClientAuthSettings, ClientSettings, Policy,
    ServerSettings, TicketRing,
};

/// The negotiated parameters of a handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) version: &'static SupportedProtocolVersion,
    suite: SupportedCipherSuite,
}

/// Every version, AEAD and kind of key.
pub(crate) const TERMS: [Terms; 9] = [
    Terms {
        version: &version::TLS13,
        suite: suites::TLS13_AES_128_GCM_SHA256,
    },
    Terms {
        version: &version::TLS13,
        suite: suites::TLS13_AES_256_GCM_SHA384,
    },
    Terms {
        version: &version::TLS13,
        suite: suites::TLS13_CHACHA20_POLY1305_SHA256,
    },
    Terms {
        version: &version::TLS12,
        suite: suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    },
    Terms {
        version: &version::TLS12,
        suite: suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    },
    Terms {
        version: &version::TLS12,
        suite: suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    },
    Terms {
        version: &version::TLS12,
        suite: suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    },
    Terms {
        version: &version::TLS12,
        suite: suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    },
    Terms {
        version: &version::TLS12,
        suite: suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    },
];

/// One of each version.
pub(crate) const TLS13_TERMS: Terms = TERMS[0];
pub(crate) const TLS12_TERMS: Terms = TERMS[3];

impl Terms {
    pub(crate) fn is_13(self) -> bool {
        self.version.version == ProtocolVersion::TLSv1_3
    }

    fn provider(self) -> Arc<CryptoProvider> {
        Arc::new(CryptoProvider {
            cipher_suites: vec![self.suite],
            ..default_provider()
        })
    }
}

struct Shown {
    ca: CertificateDer<'static>,
    ecdsa: Issued,
    rsa: Issued,
}

/// RSA keys take long to make: once for all tests.
static SHOWN: LazyLock<Shown> = LazyLock::new(|| {
    let ca = Ca::new("ca");
    Shown {
        ca: ca.der(),
        ecdsa: ca.issue(&["a.example"]),
        rsa: ca.issue_with(&["a.example"], &RSA, |_| {}),
    }
});

pub(crate) fn server_config(terms: Terms) -> Arc<ServerConfig> {
    let needs_rsa = format!("{:?}", terms.suite.suite()).contains("_RSA_");
    let shown = if needs_rsa { &SHOWN.rsa } else { &SHOWN.ecdsa };
    let key = PrivateKeyDer::try_from(shown.key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(terms.provider());
    let builder = builder
        .with_protocol_versions(&[terms.version])
        .unwrap()
        .with_no_client_auth();
    let mut config = builder
        .with_single_cert(vec![shown.cert.der().clone()], key)
        .unwrap();
    config.enable_secret_extraction = true;
    config.ticketer = Ticketer::new().unwrap();
    Arc::new(config)
}

pub(crate) fn client_config(terms: Terms) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(SHOWN.ca.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(terms.provider());
    let builder = builder.with_protocol_versions(&[terms.version]).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.enable_secret_extraction = true;
    config.resumption = Resumption::in_memory_sessions(4);
    Arc::new(config)
}

fn name() -> ServerName<'static> {
    ServerName::try_from("a.example").unwrap()
}

/// rustls' buffered connections, of either end, as bytes in and bytes out.
pub(crate) trait Rustls {
    fn take_sent(&mut self) -> Vec<u8>;
    /// Opens the data in `wire`.
    fn receive(&mut self, wire: &[u8]) -> Result<Vec<u8>, Error>;
    /// Seals `data` in records.
    fn protect(&mut self, data: &[u8]) -> Vec<u8>;
    fn close(&mut self) -> Vec<u8>;
}

macro_rules! rustls_end {
    ($connection:ty) => {
        impl Rustls for $connection {
            fn take_sent(&mut self) -> Vec<u8> {
                let mut wire = Vec::new();
                while self.wants_write() {
                    self.write_tls(&mut wire).unwrap();
                }
                wire
            }

            fn receive(&mut self, mut wire: &[u8]) -> Result<Vec<u8>, Error> {
                let mut data = Vec::new();
                while !wire.is_empty() {
                    self.read_tls(&mut wire).unwrap();
                    self.process_new_packets()?;
                    // It ends with "would block" or with the end: neither matters here.
                    let _ = self.reader().read_to_end(&mut data);
                }
                Ok(data)
            }

            fn protect(&mut self, data: &[u8]) -> Vec<u8> {
                self.set_buffer_limit(None);
                self.writer().write_all(data).unwrap();
                self.take_sent()
            }

            fn close(&mut self) -> Vec<u8> {
                self.send_close_notify();
                self.take_sent()
            }
        }
    };
}

rustls_end!(ClientConnection);
rustls_end!(ServerConnection);

/// A client of rustls and our end of its connection.
pub(crate) struct Pair {
    pub(crate) client: ClientConnection,
    pub(crate) session: Box<TlsSession>,
    /// Bytes that the client has not been sent yet: the tickets of TLS 1.3.
    pub(crate) unsent: Vec<u8>,
}

pub(crate) fn pair(terms: Terms) -> Pair {
    let mut client = ClientConnection::new(client_config(terms), name()).unwrap();
    let (keys, secrets, mut unsent) = serve(server_config(terms), |answer| {
        client.receive(answer).unwrap();
        client.take_sent()
    });
    if !terms.is_13() {
        client.receive(&std::mem::take(&mut unsent)).unwrap();
    }
    assert!(!client.is_handshaking());
    Pair {
        client,
        session: TlsSession::new(keys, secrets, HandshakeRest::default()),
        unsent,
    }
}

/// As [`pair`], with the client's tickets delivered.
pub(crate) fn settled_pair(terms: Terms) -> Pair {
    let mut pair = pair(terms);
    pair.client
        .receive(&std::mem::take(&mut pair.unsent))
        .unwrap();
    pair
}

/// Our end as a client, and a server of rustls.
pub(crate) fn client_pair(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (Box<TlsSession>, ServerConnection) {
    let mut server = ServerConnection::new(server.clone()).unwrap();
    let (keys, secrets) = ask(client.clone(), |question| {
        server.receive(question).unwrap();
        // The tickets come with the Finished in TLS 1.2, and are tested elsewhere in TLS 1.3.
        if server.is_handshaking() || server.protocol_version() == Some(ProtocolVersion::TLSv1_2) {
            server.take_sent()
        } else {
            Vec::new()
        }
    });
    assert!(!server.is_handshaking());
    (
        TlsSession::new(keys, secrets, HandshakeRest::default()),
        server,
    )
}

/// One end's keys, and its secrets of both directions.
pub(crate) struct Twin {
    keys: SessionRole,
    pub(crate) secrets: ExtractedSecrets,
}

impl Twin {
    pub(crate) fn session(self) -> Box<TlsSession> {
        TlsSession::new(self.keys, self.secrets, HandshakeRest::default())
    }
}

/// Both ends ours: server and client, with their numbers of records alike.
pub(crate) fn twins(terms: Terms) -> (Twin, Twin) {
    let mut config = ServerConfig::clone(&server_config(terms));
    config.send_tls13_tickets = 0;
    let mut server = UnbufferedServerConnection::new(Arc::new(config)).unwrap();
    let (mut received, mut answer) = (Vec::new(), Vec::new());
    let (keys, secrets) = ask(client_config(terms), |question| {
        received.extend_from_slice(question);
        step_through(
            |rest, outgoing| {
                let status = server.process_tls_records(&mut received);
                let (used, step) = absorb(status, outgoing, rest);
                received.drain(..used);
                step
            },
            &mut answer,
        );
        std::mem::take(&mut answer)
    });
    let client = Twin { keys, secrets };
    let (secrets, kernel) = server.dangerous_into_kernel_connection().unwrap();
    (
        Twin {
            keys: SessionRole::Server(kernel),
            secrets,
        },
        client,
    )
}

/// Steps until rustls wants more or has finished; returns whether it has.
fn step_through(
    mut step: impl FnMut(&mut HandshakeRest, &mut Vec<u8>) -> HandshakeStep,
    outgoing: &mut Vec<u8>,
) -> bool {
    let mut rest = HandshakeRest::default();
    loop {
        match step(&mut rest, outgoing) {
            HandshakeStep::Again => {}
            HandshakeStep::NeedMore => return false,
            HandshakeStep::Finished => return true,
            HandshakeStep::Failed(error) => panic!("{error}"),
        }
    }
}

fn serve(
    config: Arc<ServerConfig>,
    mut exchange: impl FnMut(&[u8]) -> Vec<u8>,
) -> (SessionRole, ExtractedSecrets, Vec<u8>) {
    let mut connection = UnbufferedServerConnection::new(config).unwrap();
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    loop {
        let finished = step_through(
            |rest, outgoing| {
                let (used, step) = absorb(
                    connection.process_tls_records(&mut incoming),
                    outgoing,
                    rest,
                );
                incoming.drain(..used);
                step
            },
            &mut outgoing,
        );
        if finished {
            break;
        }
        incoming.extend(exchange(&std::mem::take(&mut outgoing)));
    }
    let (secrets, kernel) = connection.dangerous_into_kernel_connection().unwrap();
    (SessionRole::Server(kernel), secrets, outgoing)
}

fn ask(
    config: Arc<ClientConfig>,
    mut exchange: impl FnMut(&[u8]) -> Vec<u8>,
) -> (SessionRole, ExtractedSecrets) {
    let mut connection = UnbufferedClientConnection::new(config, name()).unwrap();
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    loop {
        let finished = step_through(
            |rest, outgoing| {
                let (used, step) = absorb(
                    connection.process_tls_records(&mut incoming),
                    outgoing,
                    rest,
                );
                incoming.drain(..used);
                step
            },
            &mut outgoing,
        );
        incoming.extend(exchange(&std::mem::take(&mut outgoing)));
        if finished {
            break;
        }
    }
    let (secrets, kernel) = connection.dangerous_into_kernel_connection().unwrap();
    (SessionRole::Client(kernel), secrets)
}

/// Two ends of a connection over a Unix socket.
pub(crate) fn unix_sockets() -> (Socket, Socket) {
    let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    (
        Socket::new(one.into(), SocketFamily::Unix).unwrap(),
        Socket::new(other.into(), SocketFamily::Unix).unwrap(),
    )
}

/// Two ends of a connection over loopback.
pub(crate) fn tcp_sockets() -> (Socket, Socket) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    (
        Socket::new(one.into(), SocketFamily::Tcp).unwrap(),
        Socket::new(other.into(), SocketFamily::Tcp).unwrap(),
    )
}

pub(crate) async fn send_all(socket: &Socket, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let sent = poll_fn(|cx| socket.poll_send(cx, bytes)).await.unwrap();
        bytes = &bytes[sent..];
    }
}

/// The next bytes, of any length; empty at the end.
pub(crate) async fn receive_some(socket: &Socket) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 65536];
    let received = poll_fn(|cx| socket.poll_recv(cx, &mut bytes)).await?;
    bytes.truncate(received);
    Ok(bytes)
}

pub(crate) async fn receive_all(socket: &Socket) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let more = receive_some(socket).await?;
        if more.is_empty() {
            return Ok(bytes);
        }
        bytes.extend(more);
    }
}

/// Our two ends as in production, from files.
struct Site {
    acceptor: Acceptor,
    connector: Connector,
    ca: Ca,
    _folder: Folder,
}

fn site(change: impl FnOnce(&Folder, &Ca, &mut ServerSettings)) -> Site {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let mut settings = ServerSettings {
        managed: Vec::new(),
        on_demand: Vec::new(),
        certs: vec![CertFiles::of(&cert)],
        default: None,
        policy: Policy::intermediate(),
        alpn: Vec::new(),
        client_auth: None,
        tickets: Some(
            TicketRing::rotating(
                std::time::Duration::from_secs(3600),
                2,
                std::time::Instant::now(),
            )
            .unwrap(),
        ),
    };
    change(&folder, &ca, &mut settings);
    let roots = CaSource::File(folder.write("ca.pem", ca.pem()));
    let connector = Connector::new(ClientSettings::new(roots)).unwrap();
    Site {
        acceptor: Acceptor::new(settings).unwrap().0,
        connector,
        ca,
        _folder: folder,
    }
}

/// A client of rustls over a socket: does the handshake, and sends its first data with its last
/// flight.
async fn rustls_client(
    socket: &Socket,
    config: ClientConfig,
    first: &[u8],
) -> Result<ClientConnection, Error> {
    let mut client = ClientConnection::new(Arc::new(config), name())?;
    client.writer().write_all(first).unwrap();
    while client.is_handshaking() {
        send_all(socket, &client.take_sent()).await;
        let received = receive_some(socket).await.unwrap();
        client.receive(&received)?;
    }
    send_all(socket, &client.take_sent()).await;
    Ok(client)
}

fn trusting(ca: &Ca) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.der()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS12, &version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
}

#[test]
fn our_client_and_server_handshake_and_resume_over_a_socket() {
    run(async {
        let site = Arc::new(site(|_, _, settings| settings.alpn = vec![b"h2".to_vec()]));
        for resumed in [false, true] {
            let (near, far) = unix_sockets();
            let server = testing::spawn({
                let site = site.clone();
                async move {
                    (
                        accept(&near, &site.acceptor, Vec::new()).await.unwrap(),
                        near,
                    )
                }
            });
            let mut client = connect(&far, &site.connector, "a.example", Vec::new())
                .await
                .unwrap();
            send_all(&far, &sealed(&mut client.session, b"ping")).await;
            let (mut server, near) = server.await.unwrap();
            let negotiated = &server.negotiated;
            assert_eq!(
                (negotiated.version, negotiated.resumed),
                ("TLSv1.3", resumed)
            );
            assert_eq!(negotiated.cipher, client.negotiated.cipher);
            assert!(
                negotiated.cipher.starts_with("TLS_")
                    && !negotiated.cipher.starts_with("TLS_ECDHE")
            );
            assert_eq!(read_data(&mut server.session, &near).await, b"ping");
            // The tickets, if they are still here, and data after them.
            send_all(&near, &server.unsent).await;
            send_all(&near, &sealed(&mut server.session, b"pong")).await;
            assert_eq!(read_data(&mut client.session, &far).await, b"pong");
        }
    });
}

fn sealed(session: &mut TlsSession, data: &[u8]) -> Vec<u8> {
    let mut wire = vec![0; TlsSession::sealed_len(data.len())];
    let used = session.seal(data, &mut wire).unwrap();
    wire.truncate(used);
    wire
}

/// The next data, from the handshake's rest or from the socket.
async fn read_data(session: &mut TlsSession, socket: &Socket) -> Vec<u8> {
    loop {
        let early = session.take_early();
        if !early.is_empty() {
            return early;
        }
        let mut wire = session.take_partial();
        let mut plain = vec![0; wire.len()];
        let mut done = session.open(&wire, &mut plain).unwrap();
        if done.produced == 0 {
            wire.drain(..done.consumed);
            wire.extend(receive_some(socket).await.unwrap());
            plain = vec![0; wire.len()];
            done = session.open(&wire, &mut plain).unwrap();
        }
        session.keep_partial(&wire[done.consumed..]);
        if done.produced > 0 {
            return plain[..done.produced].to_vec();
        }
    }
}

#[test]
fn data_read_with_the_last_handshake_flight_is_kept() {
    for versions in [&version::TLS12, &version::TLS13] {
        run(async {
            let site = site(|_, _, _| {});
            let (near, far) = unix_sockets();
            let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                .with_protocol_versions(&[versions])
                .unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(site.ca.der()).unwrap();
            let config = config.with_root_certificates(roots).with_no_client_auth();
            let client = testing::spawn(async move {
                (rustls_client(&far, config, b"GET /").await.unwrap(), far)
            });
            let mut made = accept(&near, &site.acceptor, Vec::new()).await.unwrap();
            assert_eq!(read_data(&mut made.session, &near).await, b"GET /");
            if made.negotiated.version == TLS13 {
                assert!(
                    !made.unsent.is_empty(),
                    "tickets share the packet of the answer"
                );
            } else {
                assert!(made.unsent.is_empty(), "nothing waits in TLS 1.2");
            }
            let answer = [made.unsent, sealed(&mut made.session, b"200")].concat();
            send_all(&near, &answer).await;
            let (mut client, far) = client.await.unwrap();
            assert_eq!(
                client.receive(&receive_some(&far).await.unwrap()).unwrap(),
                b"200"
            );
        });
    }
}

#[test]
fn a_client_hello_read_before_is_used_whole_or_partly() {
    run(async {
        let site = site(|_, _, _| {});
        let (near, far) = unix_sockets();
        let mut client =
            ClientConnection::new(Arc::new(trusting(&site.ca).with_no_client_auth()), name())
                .unwrap();
        let hello = client.take_sent();
        for cut in [1, 5, hello.len() / 2, hello.len()] {
            let mut wire = HandshakeIo::new(&near, hello[..cut].to_vec());
            let mut connection =
                UnbufferedServerConnection::new(site.acceptor.handshake().0).unwrap();
            send_all(&far, &hello[cut..]).await;
            while wire.outgoing.is_empty() {
                let (used, step) = absorb(
                    connection.process_tls_records(&mut wire.incoming),
                    &mut wire.outgoing,
                    &mut wire.rest,
                );
                wire.turn(used, step).await.unwrap();
            }
            assert!(wire.incoming.is_empty(), "the hello is used up");
        }
    });
}

#[test]
fn a_peer_that_speaks_no_tls_gets_an_alert() {
    run(async {
        let site = site(|_, _, _| {});
        for garbage in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[22, 3, 1, 0, 4, 99, 0, 0, 0],
            &[22, 3, 3, 255, 255],
        ] {
            let (near, far) = unix_sockets();
            send_all(&far, garbage).await;
            let refused = accept(&near, &site.acceptor, Vec::new()).await.unwrap_err();
            assert_eq!(refused.reason(), "malformed", "{refused}");
            drop(near);
            let alert = receive_all(&far).await.unwrap();
            assert!(matches!(alert[..], [21, 3, _, 0, 2, 2, _]), "{alert:?}");
        }
    });
}

#[test]
fn a_peer_that_closes_early_has_closed() {
    run(async {
        let site = site(|_, _, _| {});
        let mut client =
            ClientConnection::new(Arc::new(trusting(&site.ca).with_no_client_auth()), name())
                .unwrap();
        let hello = client.take_sent();
        for cut in [0, 1, 100, hello.len()] {
            let (near, far) = unix_sockets();
            send_all(&far, &hello[..cut]).await;
            far.shutdown_write().unwrap();
            let refused = accept(&near, &site.acceptor, Vec::new()).await.unwrap_err();
            assert!(matches!(refused, HandshakeError::Closed), "{refused}");
        }
    });
}

#[test]
fn an_endpoint_with_another_hosts_certificate_is_refused() {
    run(async {
        let site = Arc::new(site(|_, _, settings| {
            settings.default = settings.certs.first().cloned()
        }));
        let (near, far) = unix_sockets();
        let server = testing::spawn({
            let site = site.clone();
            async move { accept(&near, &site.acceptor, Vec::new()).await.unwrap_err() }
        });
        let refused = connect(&far, &site.connector, "b.example", Vec::new())
            .await
            .unwrap_err();
        assert_eq!(refused.reason(), "bad_certificate");
        assert_eq!(server.await.unwrap().reason(), "refused_our_certificate");
    });
}

#[test]
fn a_preface_is_sent_in_plain_before_the_client_hello() {
    run(async {
        let site = Arc::new(site(|_, _, _| {}));
        let (near, far) = unix_sockets();
        let client = testing::spawn({
            let site = site.clone();
            async move {
                (
                    connect(&far, &site.connector, "a.example", b"PROXY".to_vec())
                        .await
                        .unwrap(),
                    far,
                )
            }
        });
        let received = receive_some(&near).await.unwrap();
        assert_eq!(received[..6], *b"PROXY\x16");
        let made = accept(&near, &site.acceptor, received[5..].to_vec())
            .await
            .unwrap();
        let (client, _far) = client.await.unwrap();
        assert_eq!(client.negotiated.version, made.negotiated.version);
        assert_eq!(
            client.negotiated.peer_name.is_some(),
            made.negotiated.peer_name.is_none()
        );
    });
}

#[test]
fn a_close_notify_with_the_last_flight_is_kept() {
    run(async {
        let site = site(|_, _, _| {});
        let (near, far) = unix_sockets();
        let mut client =
            ClientConnection::new(Arc::new(trusting(&site.ca).with_no_client_auth()), name())
                .unwrap();
        let server = testing::spawn(async move {
            let mut made = accept(&near, &site.acceptor, Vec::new()).await.unwrap();
            assert_eq!(read_data(&mut made.session, &near).await, b"bye");
            while !made.session.is_closed() {
                let wire = made.session.take_partial();
                made.session.open(&wire, &mut vec![0; wire.len()]).unwrap();
            }
        });
        while client.is_handshaking() {
            send_all(&far, &client.take_sent()).await;
            if client.is_handshaking() {
                client.receive(&receive_some(&far).await.unwrap()).unwrap();
            }
            if !client.is_handshaking() {
                client.writer().write_all(b"bye").unwrap();
                client.send_close_notify();
            }
        }
        send_all(&far, &client.take_sent()).await;
        server.await.unwrap();
    });
}

/// A ticket contains the client's certificates, of which a client may send 64 KB.
#[test]
fn a_client_with_many_certificates_gets_long_session_tickets() {
    assert!(longest_tickets().len() > 40_000);
}

/// The tickets of a client with 50 KB of certificates.
pub(crate) fn longest_tickets() -> Vec<u8> {
    run(async {
        let clients = Ca::new("clients");
        let site = site(|folder, _, settings| {
            let ca = folder.write("clients.pem", clients.pem());
            settings.client_auth = Some(ClientAuthSettings {
                mode: ClientAuthMode::Require,
                ca,
            });
        });
        let own = clients.issue(&["client"]);
        let mut chain = vec![own.cert.der().clone()];
        let mut room = 50_000;
        while room > 0 {
            let filler = clients.issue_with(&["filler"], &P256, |params| {
                let names = (0..200).map(|n| {
                    rcgen::SanType::DnsName(format!("n{n}.filler.example").try_into().unwrap())
                });
                params.subject_alt_names = names.collect();
            });
            room -= filler.cert.der().len() as i32;
            chain.push(filler.cert.der().clone());
        }
        let key = PrivateKeyDer::try_from(own.key.serialize_der()).unwrap();
        let config = trusting(&site.ca)
            .with_client_auth_cert(chain, key)
            .unwrap();
        let (near, far) = unix_sockets();
        let client =
            testing::spawn(
                async move { (rustls_client(&far, config, b"GET /").await.unwrap(), far) },
            );
        let mut made = accept(&near, &site.acceptor, Vec::new()).await.unwrap();
        assert_eq!(read_data(&mut made.session, &near).await, b"GET /");
        client.await.unwrap();
        made.unsent
    })
}

/// A client with Nagle's algorithm on may send the rest of its flight only when the first piece is
/// acknowledged.
#[test]
fn a_handshake_flight_in_pieces_is_acknowledged_at_once() {
    for versions in [&version::TLS12, &version::TLS13] {
        run(async {
            let site = site(|_, _, _| {});
            let (near, far) = tcp_sockets();
            let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                .with_protocol_versions(&[versions])
                .unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(site.ca.der()).unwrap();
            let config = config.with_root_certificates(roots).with_no_client_auth();
            let mut client = ClientConnection::new(Arc::new(config), name()).unwrap();
            let mut accepting = std::pin::pin!(accept(&near, &site.acceptor, Vec::new()));
            // Until it waits for the client's last flight.
            send_all(&far, &client.take_sent()).await;
            while client.is_handshaking() && !client.wants_write() {
                assert!(
                    poll_fn(|cx| Poll::Ready(accepting.as_mut().poll(cx)))
                        .await
                        .is_pending()
                );
                let mut received = vec![0; 64 * 1024];
                if let Poll::Ready(read) =
                    poll_fn(|cx| Poll::Ready(far.poll_recv(cx, &mut received))).await
                {
                    received.truncate(read.unwrap());
                    client.receive(&received).unwrap();
                }
                reactor::yield_now().await;
            }
            assert!(near.acknowledged() == 0);
            let flight = client.take_sent();
            send_all(&far, &flight[..flight.len() / 2]).await;
            let mut turns = 0;
            while near.acknowledged() == 0 {
                assert!(
                    poll_fn(|cx| Poll::Ready(accepting.as_mut().poll(cx)))
                        .await
                        .is_pending()
                );
                reactor::yield_now().await;
                turns += 1;
                assert!(turns < 100_000, "its first half is not acknowledged");
            }
            send_all(&far, &flight[flight.len() / 2..]).await;
            accepting.await.unwrap();
        });
    }
}
