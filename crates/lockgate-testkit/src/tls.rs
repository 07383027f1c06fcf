//! One TLS connection of a scripted peer, from either end, by rustls.
//!
//! Panics when an expectation fails, except in handshakes: tests look at their failures.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, CommonState, Connection, RootCertStore,
    ServerConfig, ServerConnection, SupportedProtocolVersion,
};

use crate::authority::{Authority, Issued};
use crate::wire::{Wire, shown, until_end};

/// TLS settings of a client; sessions are kept for resumption as long as the [`ClientConfig`].
#[derive(Clone, Debug)]
pub struct ClientSettings {
    roots: Vec<CertificateDer<'static>>,
    /// The offered TLS versions.
    pub versions: Vec<&'static SupportedProtocolVersion>,
    /// The protocols offered by ALPN.
    pub alpn: Vec<&'static str>,
    /// The offered key exchange groups; empty means those of rustls.
    pub groups: Vec<&'static dyn SupportedKxGroup>,
    /// Whether it sends SNI.
    pub names_server: bool,
    /// The longest record that it sends, header included.
    pub longest_record: Option<usize>,
    identity: Option<(Vec<CertificateDer<'static>>, Vec<u8>)>,
}

impl ClientSettings {
    /// A client that trusts this authority.
    pub fn trusting(authority: &Authority) -> Self {
        Self {
            roots: vec![authority.der()],
            versions: rustls::ALL_VERSIONS.to_vec(),
            alpn: Vec::new(),
            groups: Vec::new(),
            names_server: true,
            longest_record: None,
            identity: None,
        }
    }

    /// Offers only this version.
    pub fn version(mut self, version: &'static SupportedProtocolVersion) -> Self {
        self.versions = vec![version];
        self
    }

    /// Offers these protocols by ALPN.
    pub fn alpn(mut self, alpn: &[&'static str]) -> Self {
        self.alpn = alpn.to_vec();
        self
    }

    /// Presents this certificate when the server requests one.
    pub fn identity(mut self, issued: &Issued) -> Self {
        self.identity = Some((vec![issued.der()], issued.key.serialize_der()));
        self
    }

    /// Builds the configuration; keep it to resume sessions.
    ///
    /// # Panics
    /// When the settings contradict each other.
    pub fn build(&self) -> Arc<ClientConfig> {
        let mut provider: CryptoProvider = aws_lc_rs::default_provider();
        if !self.groups.is_empty() {
            provider.kx_groups.clone_from(&self.groups);
        }
        let mut roots = RootCertStore::empty();
        for root in &self.roots {
            roots.add(root.clone()).expect("an authority");
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&self.versions)
            .expect("versions that the provider has suites for")
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.clone()).into();
                builder
                    .with_client_auth_cert(chain.clone(), key)
                    .expect("a key of that certificate")
            }
        };
        config.alpn_protocols = self
            .alpn
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        config.enable_sni = self.names_server;
        config.max_fragment_size = self.longest_record;
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(32)));
        Arc::new(config)
    }

    /// Connects and handshakes with `name` at `to`, without any session to resume.
    ///
    /// # Errors
    /// Those of the handshake; see [`Tls::alert`].
    pub fn connect(&self, to: SocketAddr, name: &str) -> io::Result<Tls> {
        Tls::connect(&self.build(), Wire::connect(to), name)
    }
}

/// Settings of an origin that speaks TLS as `issued`; with `clients` it requires a certificate of
/// that authority.
///
/// # Panics
/// When the certificate is invalid.
pub fn server_config(issued: &Issued, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has all versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der()).expect("an authority");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("an authority is there"))
        }
    };
    Arc::new(
        builder
            .with_single_cert(vec![issued.der()], issued.key_der())
            .expect("a key of that certificate"),
    )
}

/// The ClientHello of such a client, as sent.
///
/// # Panics
/// When `name` is no host name.
pub fn client_hello(config: &Arc<ClientConfig>, name: &str) -> Vec<u8> {
    let name = ServerName::try_from(name.to_owned()).expect("a host name");
    let mut connection =
        ClientConnection::new(Arc::clone(config), name).expect("a whole configuration");
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).expect("memory is left");
    hello
}

/// A TLS connection.
#[derive(Debug)]
pub struct Tls {
    /// The state of TLS.
    pub session: Connection,
    /// Its stream; bytes sent here bypass TLS.
    pub wire: Wire,
}

impl Tls {
    /// Handshakes as a client over `wire`.
    ///
    /// # Errors
    /// Those of the handshake; see [`Tls::alert`].
    ///
    /// # Panics
    /// When `name` is no host name.
    pub fn connect(config: &Arc<ClientConfig>, wire: Wire, name: &str) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).expect("a host name");
        let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Self::shake(session.into(), wire)
    }

    /// Handshakes as a server over `wire`.
    ///
    /// # Errors
    /// Those of the handshake.
    pub fn accept(config: &Arc<ServerConfig>, wire: Wire) -> io::Result<Self> {
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Self::shake(session.into(), wire)
    }

    fn shake(mut session: Connection, mut wire: Wire) -> io::Result<Self> {
        while session.is_handshaking() || session.wants_write() {
            if let Err(error) = session.complete_io(&mut wire) {
                // The peer gets an alert, if it is still there.
                while session.wants_write() && session.write_tls(&mut wire).is_ok() {}
                return Err(error);
            }
        }
        Ok(Self { session, wire })
    }

    /// The alert by which the peer ended a handshake or a connection.
    pub fn alert(error: &io::Error) -> Option<AlertDescription> {
        match error.get_ref()?.downcast_ref()? {
            rustls::Error::AlertReceived(alert) => Some(*alert),
            _ => None,
        }
    }

    /// The negotiated parameters.
    pub fn agreed(&self) -> &CommonState {
        &self.session
    }

    /// Sends everything.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        for part in bytes.as_ref().chunks(16 * 1024) {
            self.session
                .writer()
                .write_all(part)
                .expect("rustls' buffer is empty");
            self.flush();
        }
    }

    /// Sends the pending records of TLS.
    ///
    /// # Panics
    /// When the peer does not accept them.
    pub fn flush(&mut self) {
        while self.session.wants_write() {
            self.session
                .write_tls(&mut self.wire)
                .expect("the peer takes what is sent");
        }
    }

    /// Reads as many bytes as `bytes` has, and checks that they are equal.
    ///
    /// # Panics
    /// When they are not.
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let read = self.exactly(bytes.len());
        assert!(
            read == bytes,
            "expected {:?}, got {:?}",
            shown(bytes),
            shown(&read)
        );
    }

    /// Reads exactly `len` bytes.
    ///
    /// # Panics
    /// When they do not arrive.
    pub fn exactly(&mut self, len: usize) -> Vec<u8> {
        let mut read = vec![0; len];
        self.read_exact(&mut read).expect("the peer sends enough");
        read
    }

    /// Reads until the peer ends by a close_notify.
    ///
    /// # Panics
    /// When it ends in another way.
    pub fn rest(&mut self) -> Vec<u8> {
        let (read, end) = self.end();
        end.expect("the peer ends by close_notify");
        read
    }

    /// Reads until the peer ends, and returns the end: `Ok` is a close_notify.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(&mut self) -> (Vec<u8>, io::Result<()>) {
        until_end(self, Vec::new())
    }

    /// Waits until the peer has ended in any way; bytes before it are dropped.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_closed(&mut self) {
        let _ = self.end();
    }

    /// Sends a close_notify and closes the sending half of the connection; reading continues.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn finish(&mut self) {
        self.session.send_close_notify();
        self.flush();
        self.wire.finish();
    }

    /// Sends everything and finishes, while it reads until the peer ends; returns the bytes.
    ///
    /// # Panics
    /// When either fails.
    pub fn exchange(self, out: impl AsRef<[u8]> + Send) -> Vec<u8> {
        let Self { session, mut wire } = self;
        let mut writer = wire.another();
        let session = Mutex::new(session);
        let lock = || session.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let out = out;
                // Sealed under the lock, sent without it: the reader must not wait for a full
                // socket.
                let mut sealed = Vec::new();
                for part in out.as_ref().chunks(16 * 1024) {
                    let mut session = lock();
                    session
                        .writer()
                        .write_all(part)
                        .expect("rustls' buffer is empty");
                    while session.wants_write() {
                        session.write_tls(&mut sealed).expect("memory is left");
                    }
                    drop(session);
                    writer.send(&sealed);
                    sealed.clear();
                }
                let mut session = lock();
                session.send_close_notify();
                while session.wants_write() {
                    session.write_tls(&mut sealed).expect("memory is left");
                }
                drop(session);
                writer.send(&sealed);
                writer.finish();
            });
            let mut read = Vec::new();
            let mut received = vec![0; 64 * 1024];
            loop {
                let len = wire
                    .read(&mut received)
                    .expect("the peer ends in an orderly way");
                let mut left = &received[..len];
                let mut session = lock();
                loop {
                    session
                        .read_tls(&mut left)
                        .expect("rustls' buffer is empty");
                    let state = session.process_new_packets().expect("the peer speaks TLS");
                    let start = read.len();
                    read.resize(start + state.plaintext_bytes_to_read(), 0);
                    session
                        .reader()
                        .read_exact(&mut read[start..])
                        .expect("it is there");
                    if state.peer_has_closed() {
                        return read;
                    }
                    if left.is_empty() {
                        break;
                    }
                }
                assert!(len > 0, "the peer ends without close_notify");
            }
        })
    }
}

impl Read for Tls {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            let received = self.session.read_tls(&mut self.wire);
            self.session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            received?;
            // A peer that has ended takes no more; its bytes before are still read.
            let _ = Write::flush(self);
        }
    }
}

impl Write for Tls {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.session.writer().write(buf)?;
        Write::flush(self)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.wire)?;
        }
        Ok(())
    }
}
