//! Both ends of a connection after a real handshake: our session, and the client's keys in the
//! open.

use std::future::{Future, poll_fn};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use lockgate_net::socket::{Socket, SocketFamily};
use lockgate_net::tls::handshake::accept;
use lockgate_net::tls::record::{RecordOpener, RecordSealer};
use lockgate_net::tls::session::TlsSession;
use lockgate_net::tls::{Acceptor, CertFiles, Policy, ServerSettings};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite as suites, default_provider, kx_group};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedCipherSuite, version};
use tokio::runtime::Runtime;

pub(super) struct Ends {
    pub(super) session: Box<TlsSession>,
    pub(super) sealer: RecordSealer,
    pub(super) opener: RecordOpener,
    kernel: KernelConnection<ClientConnectionData>,
}

impl Ends {
    /// The client's next key for sending. TLS 1.2 has none: what follows goes on under the old one.
    pub(super) fn rekey_sealer(&mut self) {
        if self.version() == ProtocolVersion::TLSv1_3 {
            let next = self.kernel.update_tx_secret().expect("keys can be derived");
            self.sealer = RecordSealer::new(self.version(), next);
        }
    }

    /// The client's next key for receiving.
    pub(super) fn rekey_opener(&mut self) {
        let next = self
            .kernel
            .update_rx_secret()
            .expect("only TLS 1.3 asks for it");
        self.opener = RecordOpener::new(self.version(), next);
    }

    fn version(&self) -> ProtocolVersion {
        self.kernel.protocol_version()
    }
}

const SUITES: [SupportedCipherSuite; 6] = [
    suites::TLS13_AES_128_GCM_SHA256,
    suites::TLS13_AES_256_GCM_SHA384,
    suites::TLS13_CHACHA20_POLY1305_SHA256,
    suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// What all handshakes of this thread share.
struct Site {
    runtime: Runtime,
    acceptor: Acceptor,
    /// One for each suite.
    clients: Vec<Arc<ClientConfig>>,
}

thread_local! {
    static SITE: Site = Site::new();
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let own = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()])
            .expect("a certificate");
        let file = folder.path().join("a.pem");
        std::fs::write(&file, own.cert.pem() + &own.signing_key.serialize_pem()).expect("a file");
        let settings = ServerSettings {
            managed: Vec::new(),
            on_demand: Vec::new(),
            certs: vec![CertFiles::of(&file)],
            default: None,
            policy: Policy::intermediate(),
            alpn: Vec::new(),
            client_auth: None,
            tickets: None,
        };
        let (acceptor, _) = Acceptor::new(settings).expect("a certificate that was just made");
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).expect("the same");
        let clients = SUITES.map(|suite| Arc::new(client_config(suite, roots.clone())));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .expect("a runtime");
        Self {
            runtime,
            acceptor,
            clients: clients.into(),
        }
    }
}

fn client_config(suite: SupportedCipherSuite, roots: RootCertStore) -> ClientConfig {
    let versions = match suite {
        SupportedCipherSuite::Tls13(_) => [&version::TLS13],
        SupportedCipherSuite::Tls12(_) => [&version::TLS12],
    };
    let provider = CryptoProvider {
        cipher_suites: vec![suite],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder
        .with_protocol_versions(&versions)
        .expect("a suite of this version");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.enable_secret_extraction = true;
    config.resumption = rustls::client::Resumption::disabled();
    config
}

/// A new connection under one of the suites.
pub(super) fn shake_hands(terms: u8) -> Ends {
    SITE.with(|site| {
        let config = site.clients[usize::from(terms) % site.clients.len()].clone();
        site.runtime.block_on(async {
            let (near, far) = UnixStream::pair().expect("two sockets");
            let (near, far) = (socket(near), socket(far));
            let mut server = pin!(accept(&near, &site.acceptor, Vec::new()));
            let mut client = pin!(connect(&far, config));
            let (mut made, mut asked) = (None, None);
            poll_fn(|cx| {
                if made.is_none()
                    && let Poll::Ready(established) = server.as_mut().poll(cx)
                {
                    made = Some(established.expect("a client that does as it should"));
                }
                if asked.is_none()
                    && let Poll::Ready(connection) = client.as_mut().poll(cx)
                {
                    asked = Some(connection);
                }
                if made.is_some() && asked.is_some() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            let (established, connection) = made.zip(asked).expect("both have finished");
            assert!(established.unsent.is_empty(), "there are no tickets");
            let (secrets, kernel) = connection
                .dangerous_into_kernel_connection()
                .expect("the handshake is over");
            let version = kernel.protocol_version();
            Ends {
                session: established.session,
                sealer: RecordSealer::new(version, secrets.tx),
                opener: RecordOpener::new(version, secrets.rx),
                kernel,
            }
        })
    })
}

fn socket(stream: UnixStream) -> Socket {
    stream.set_nonblocking(true).expect("a socket");
    Socket::new(stream.into(), SocketFamily::Unix).expect("a runtime")
}

async fn connect(socket: &Socket, config: Arc<ClientConfig>) -> UnbufferedClientConnection {
    let name = ServerName::try_from("a.example").expect("a name");
    let mut connection =
        UnbufferedClientConnection::new(config, name).expect("a config that works");
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    loop {
        let status = connection.process_tls_records(&mut incoming);
        let used = status.discard;
        let (mut wait, mut finished) = (false, false);
        match status.state.expect("a server that does as it should") {
            ConnectionState::EncodeTlsData(mut message) => {
                if let Err(EncodeError::InsufficientSize(needed)) = message.encode(&mut []) {
                    let start = outgoing.len();
                    outgoing.resize(start + needed.required_size, 0);
                    message
                        .encode(&mut outgoing[start..])
                        .expect("it has the room it asked for");
                }
            }
            ConnectionState::TransmitTlsData(sent) => sent.done(),
            ConnectionState::WriteTraffic(_) => finished = true,
            ConnectionState::BlockedHandshake => wait = true,
            other => panic!("{other:?} in a handshake"),
        }
        incoming.drain(..used);
        if wait || finished {
            while !outgoing.is_empty() {
                let sent = poll_fn(|cx| socket.poll_send(cx, &outgoing))
                    .await
                    .expect("the server is there");
                outgoing.drain(..sent);
            }
        }
        if finished {
            return connection;
        }
        if wait {
            let mut bytes = [0; 4096];
            let received = poll_fn(|cx| socket.poll_recv(cx, &mut bytes))
                .await
                .expect("the server is there");
            incoming.extend_from_slice(&bytes[..received]);
        }
    }
}
