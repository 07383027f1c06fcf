//! TLS handshakes over a socket, as the server and as the client.
//!
//! Drives rustls' unbuffered connections, which read from and write to buffers of ours, and turns
//! the result into a [`TlsSession`]. Has no deadline: that is the caller's.

mod error;

use std::future::poll_fn;
use std::io;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CipherSuite, CommonState, Error, ExtractedSecrets, HandshakeKind, ProtocolVersion};

use super::client::Connector;
use super::server::{Acceptor, HandshakeSettings};
use super::session::{HandshakeRest, SessionRole, TlsSession};
use super::verify;
use crate::socket::Socket;

pub use error::HandshakeError;

/// The size of one read: a client's flight, certificate included, is seldom longer.
const READ: usize = 4096;
/// The most unused input: the longest handshake message of rustls is 64 KB.
const MAX_UNUSED: usize = 128 * 1024;

const TLS13: &str = "TLSv1.3";

/// The result of the negotiation, for logs and for the PROXY header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// The version: `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite by its IANA name.
    pub cipher: &'static str,
    /// The protocol chosen by ALPN (RFC 7301), if any.
    pub alpn: Option<Box<[u8]>>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The common name of the peer's certificate, if it sent one that was verified.
    pub peer_name: Option<Box<str>>,
    /// Whether the peer has sent a certificate, and so a verified one.
    pub peer_verified: bool,
}

/// The result of a handshake: a connection over TLS.
#[derive(Debug)]
pub struct Established {
    /// The session that continues the connection.
    pub session: Box<TlsSession>,
    /// The result of the negotiation.
    pub negotiated: Negotiated,
    /// Bytes to send before any data: the session tickets of TLS 1.3, which may wait for the first
    /// response.
    pub unsent: Vec<u8>,
    /// The bytes received from the socket, those behind the handshake included.
    pub received: u64,
}

/// Accepts TLS on `socket`, of which `received` was read already: at least a whole ClientHello.
///
/// # Errors
/// When the handshake fails; the peer has got an alert if there was one to send.
pub async fn accept(
    socket: &Socket,
    acceptor: &Acceptor,
    received: Vec<u8>,
) -> Result<Established, HandshakeError> {
    accept_in_turn(socket, acceptor.handshake(), received, async || ()).await
}

/// The same. `permit` is awaited before a flight is computed; its output is dropped while the
/// handshake waits for the client.
///
/// # Errors
/// As [`accept`].
pub async fn accept_in_turn<P>(
    socket: &Socket,
    settings: HandshakeSettings,
    received: Vec<u8>,
    permit: impl AsyncFn() -> P,
) -> Result<Established, HandshakeError> {
    let mut connection = UnbufferedServerConnection::new(settings.0)?;
    let mut wire = HandshakeIo::new(socket, received);
    let mut held = Some(permit().await);
    loop {
        // After a failure rustls returns its pending output, the alert at its end, and must not
        // read on.
        if wire.failed.is_some() && !connection.wants_write() {
            return Err(wire.give_up().await);
        }
        let status = connection.process_tls_records(&mut wire.incoming);
        let (used, step) = absorb(status, &mut wire.outgoing, &mut wire.rest);
        let waits = matches!(step, HandshakeStep::NeedMore);
        if waits {
            held = None;
        }
        if let HandshakeTurn::Finished = wire.turn(used, step).await? {
            break;
        }
        if waits {
            held = Some(permit().await);
        }
    }
    drop(held);
    let negotiated = negotiated(&connection)?;
    // In TLS 1.3 the unsent bytes are tickets: they share the packet of the first response.
    if negotiated.version != TLS13 {
        wire.flush().await?;
    }
    let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
    Ok(wire.establish(SessionRole::Server(kernel), secrets, negotiated))
}

/// Starts TLS on a connected `socket` to an endpoint that was dialled by the name or address
/// `host`; `proxy_header` goes before it in plain.
///
/// # Errors
/// When the handshake fails, or the endpoint does not prove that it is `host`.
pub async fn connect(
    socket: &Socket,
    connector: &Connector,
    host: &str,
    proxy_header: Vec<u8>,
) -> Result<Established, HandshakeError> {
    let name = connector.server_name(host)?;
    let mut connection = UnbufferedClientConnection::new(connector.config(), name)?;
    let mut wire = HandshakeIo::new(socket, Vec::new());
    wire.outgoing = proxy_header;
    loop {
        // After a failure rustls returns its pending output, the alert at its end, and must not
        // read on.
        if wire.failed.is_some() && !connection.wants_write() {
            return Err(wire.give_up().await);
        }
        let status = connection.process_tls_records(&mut wire.incoming);
        let (used, step) = absorb(status, &mut wire.outgoing, &mut wire.rest);
        if let HandshakeTurn::Finished = wire.turn(used, step).await? {
            break;
        }
    }
    wire.flush().await?;
    let negotiated = negotiated(&connection)?;
    let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
    Ok(wire.establish(SessionRole::Client(kernel), secrets, negotiated))
}

/// The next action after one step of rustls.
enum HandshakeTurn {
    Again,
    Finished,
}

/// The result of one step of rustls.
enum HandshakeStep {
    Again,
    NeedMore,
    Finished,
    Failed(Error),
}

/// Handles one step of rustls; returns the number of used bytes and the next step.
fn absorb<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
    rest: &mut HandshakeRest,
) -> (usize, HandshakeStep) {
    let step = match status.state {
        Err(error) => HandshakeStep::Failed(error),
        Ok(ConnectionState::EncodeTlsData(mut message)) => {
            let start = outgoing.len();
            // Without room, rustls returns the size that it needs.
            if let Err(EncodeError::InsufficientSize(needed)) = message.encode(&mut []) {
                outgoing.resize(start + needed.required_size, 0);
                let encoded = message.encode(&mut outgoing[start..]);
                outgoing.truncate(start + encoded.unwrap_or(0));
            }
            HandshakeStep::Again
        }
        // It is sent before we wait, in one write with the bytes that follow.
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            sent.done();
            HandshakeStep::Again
        }
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            while let Some(Ok(record)) = traffic.next_record() {
                rest.early.extend_from_slice(record.payload);
            }
            HandshakeStep::Again
        }
        Ok(ConnectionState::PeerClosed) => {
            rest.closed = true;
            HandshakeStep::Again
        }
        Ok(ConnectionState::WriteTraffic(_)) => HandshakeStep::Finished,
        // Early data is not offered, and a handshake that ends by close_notify from both sides is
        // no handshake.
        Ok(ConnectionState::BlockedHandshake) => HandshakeStep::NeedMore,
        Ok(_) => HandshakeStep::Failed(Error::HandshakeNotComplete),
    };
    (status.discard, step)
}

/// Both directions of a connection during the handshake.
struct HandshakeIo<'a> {
    socket: &'a Socket,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    rest: HandshakeRest,
    failed: Option<Error>,
    received: u64,
}

impl<'a> HandshakeIo<'a> {
    fn new(socket: &'a Socket, incoming: Vec<u8>) -> Self {
        Self {
            socket,
            incoming,
            outgoing: Vec::new(),
            rest: HandshakeRest::default(),
            failed: None,
            received: 0,
        }
    }

    async fn turn(
        &mut self,
        used: usize,
        step: HandshakeStep,
    ) -> Result<HandshakeTurn, HandshakeError> {
        self.incoming.drain(..used);
        match step {
            HandshakeStep::Again => {}
            HandshakeStep::Finished => return Ok(HandshakeTurn::Finished),
            HandshakeStep::Failed(error) => self.failed = Some(error),
            HandshakeStep::NeedMore if self.rest.closed => return Err(HandshakeError::Closed),
            HandshakeStep::NeedMore => {
                self.flush().await?;
                self.receive().await?;
            }
        }
        Ok(HandshakeTurn::Again)
    }

    /// Sends the alert and returns the error.
    async fn give_up(&mut self) -> HandshakeError {
        // The peer may be gone already: the error is the handshake's.
        let _ = self.flush().await;
        self.failed
            .take()
            .map_or(HandshakeError::Closed, HandshakeError::from)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.outgoing.len() {
            sent += poll_fn(|cx| self.socket.poll_send(cx, &self.outgoing[sent..])).await?;
        }
        self.outgoing.clear();
        Ok(())
    }

    async fn receive(&mut self) -> Result<(), HandshakeError> {
        let start = self.incoming.len();
        if start > MAX_UNUSED {
            return Err(HandshakeError::TooLong);
        }
        self.incoming.resize(start + READ, 0);
        let received = poll_fn(|cx| {
            let received = self.socket.poll_recv(cx, &mut self.incoming[start..]);
            if received.is_pending() {
                // The flight is incomplete.
                self.socket.await_rest();
            }
            received
        });
        let received = received.await;
        self.incoming
            .truncate(start + received.as_ref().map_or(0, |&n| n));
        self.received += (self.incoming.len() - start) as u64;
        if received? == 0 {
            Err(HandshakeError::Closed)
        } else {
            Ok(())
        }
    }

    fn establish(
        mut self,
        keys: SessionRole,
        secrets: ExtractedSecrets,
        negotiated: Negotiated,
    ) -> Established {
        // Mostly nothing is left, and a client that is silent from here on keeps it.
        self.incoming.shrink_to_fit();
        self.rest.partial = self.incoming;
        let session = TlsSession::new(keys, secrets, self.rest);
        Established {
            session,
            negotiated,
            unsent: self.outgoing,
            received: self.received,
        }
    }
}

fn negotiated(connection: &CommonState) -> Result<Negotiated, HandshakeError> {
    let version = connection
        .protocol_version()
        .ok_or(Error::HandshakeNotComplete)?;
    let suite = connection
        .negotiated_cipher_suite()
        .ok_or(Error::HandshakeNotComplete)?;
    let peer_name = connection
        .peer_certificates()
        .and_then(|chain| chain.first())
        .and_then(|certificate| verify::common_name(certificate.as_ref()));
    Ok(Negotiated {
        version: if version == ProtocolVersion::TLSv1_3 {
            TLS13
        } else {
            "TLSv1.2"
        },
        cipher: cipher_name(suite.suite()),
        alpn: connection.alpn_protocol().map(Box::from),
        resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        peer_name: peer_name.map(String::into_boxed_str),
        peer_verified: connection
            .peer_certificates()
            .is_some_and(|chain| !chain.is_empty()),
    })
}

/// The IANA name: for the suites of TLS 1.3 that of rustls differs.
fn cipher_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        other => other.as_str().unwrap_or("unknown"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
