//! One TLS connection after its handshake: keys, a partial record, and TLS's own messages.
//!
//! Sans-IO: takes received bytes, gives bytes to send. Data goes through the caller's buffers; an
//! idle session owns its keys and no buffer. Key updates (RFC 8446 §4.6.3) are performed here,
//! renegotiation (RFC 5246 §7.4.1.1) is refused here. Does not do handshakes: see `handshake`.

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ExtractedSecrets, ProtocolVersion};

use super::record::{ContentType, RecordError, RecordOpener, RecordSealer};

/// The longest post-handshake message of a peer: a ticket.
const MAX_MESSAGE: usize = 64 * 1024;
/// The most key updates and empty records in a row without data: a peer that sends more only wants
/// our CPU.
const MAX_IDLE_RECORDS: u8 = 32;

const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const INTERNAL_ERROR: u8 = 80;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;

/// RFC 5246 §7.4.1.1: type 0, and no content.
const HELLO_REQUEST: [u8; 4] = [0; 4];
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
/// RFC 8446 §4.6.3: type, a length of one, and whether the peer must update as well.
const KEY_UPDATE_NOT_REQUESTED: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// The reason why a session cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A record that does not authenticate or is malformed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The peer ended with this fatal alert (RFC 8446 §6.2).
    #[error("peer sent alert {0}")]
    Alerted(u8),
    /// The peer violated the protocol; this alert is for it.
    #[error("peer broke the protocol (alert {0})")]
    Misbehaved(u8),
    /// The peer requested renegotiation, which TLS 1.2 allows.
    #[error("peer asked to renegotiate")]
    Renegotiation,
}

impl SessionError {
    /// The alert for the peer, if one is due.
    pub fn alert(self) -> Option<u8> {
        match self {
            Self::Record(error) => Some(error.alert()),
            Self::Alerted(_) => None,
            Self::Misbehaved(alert) => Some(alert),
            Self::Renegotiation => Some(NO_RENEGOTIATION),
        }
    }
}

/// The bytes that one [`TlsSession::open`] has handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenedBytes {
    /// The bytes of records that are done.
    pub consumed: usize,
    /// Bytes of application data at the front of the plaintext buffer.
    pub produced: usize,
}

/// Our role in the connection, with the state that rustls needs for the next keys.
pub(super) enum SessionRole {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

/// Bytes that arrived together with the end of the handshake.
#[derive(Debug, Default)]
pub(super) struct HandshakeRest {
    /// Received bytes that are not opened yet.
    pub(super) partial: Vec<u8>,
    /// Application data that rustls has opened already.
    pub(super) early: Vec<u8>,
    /// Whether the peer has ended its data.
    pub(super) closed: bool,
}

/// A TLS connection after its handshake.
pub struct TlsSession {
    opener: RecordOpener,
    sealer: RecordSealer,
    version: ProtocolVersion,
    keys: SessionRole,
    /// A received part of a record.
    partial: Vec<u8>,
    /// Application data that arrived with the end of the handshake.
    early: Vec<u8>,
    /// An incomplete post-handshake message.
    message: Vec<u8>,
    idle_records: u8,
    closed: bool,
    owes_key_update: bool,
}

impl TlsSession {
    pub(super) fn new(
        keys: SessionRole,
        secrets: ExtractedSecrets,
        rest: HandshakeRest,
    ) -> Box<Self> {
        let version = match &keys {
            SessionRole::Server(kernel) => kernel.protocol_version(),
            SessionRole::Client(kernel) => kernel.protocol_version(),
        };
        Box::new(Self {
            opener: RecordOpener::new(version, secrets.rx),
            sealer: RecordSealer::new(version, secrets.tx),
            version,
            keys,
            partial: rest.partial,
            early: rest.early,
            message: Vec::new(),
            idle_records: 0,
            closed: rest.closed,
            owes_key_update: false,
        })
    }

    /// Frees the expanded keys, 1.2 KB. Each is made again for the next record in its direction.
    pub fn rest(&mut self) {
        self.opener.rest();
        self.sealer.rest();
    }

    /// Whether the peer has ended its data (close_notify); an end without it is a truncation.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes the bytes left over by the last read, or by the handshake: they go in front of the
    /// next ones.
    pub fn take_partial(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial)
    }

    /// The number of left-over bytes; see [`TlsSession::take_partial`].
    pub fn partial_len(&self) -> usize {
        self.partial.len()
    }

    /// Keeps the bytes behind the last whole record.
    pub fn keep_partial(&mut self, rest: &[u8]) {
        debug_assert!(self.partial.is_empty(), "taken before it is kept again");
        self.partial = rest.to_vec();
    }

    /// Whether data is available without a further read: records that came with the handshake's
    /// end.
    pub fn has_waiting(&self) -> bool {
        if self.closed {
            return !self.early.is_empty();
        }
        let whole = match self.opener.frame(&self.partial) {
            Ok(Some(len)) => len <= self.partial.len(),
            Ok(None) => false,
            // `open` reports the error.
            Err(_) => true,
        };
        whole || !self.early.is_empty()
    }

    /// Takes application data that arrived with the end of the handshake.
    pub fn take_early(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.early)
    }

    /// Opens every whole record in `wire` and gathers their application data at the front of
    /// `plain`.
    ///
    /// `plain` must be at least as long as `wire`. Stops after a close_notify.
    ///
    /// # Errors
    /// When the peer violates the protocol or ends with an alert. Data that was gathered before is
    /// lost with the session.
    pub fn open(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<OpenedBytes, SessionError> {
        let mut done = OpenedBytes::default();
        while !self.closed {
            let rest = &wire[done.consumed..];
            let Some(len) = self.opener.frame(rest)? else {
                break;
            };
            let Some(record) = rest.get(..len) else { break };
            let opened = self.opener.open(record, &mut plain[done.produced..])?;
            done.consumed += len;
            match opened.kind {
                // RFC 8446 §5.1: no other record may be between the records of one handshake
                // message, and only data may be empty.
                ContentType::ApplicationData if !self.message.is_empty() => {
                    return Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE));
                }
                ContentType::Alert | ContentType::Handshake if opened.len == 0 => {
                    return Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE));
                }
                ContentType::ApplicationData if opened.len > 0 => {
                    self.idle_records = 0;
                    done.produced += opened.len;
                }
                // An empty record is allowed (RFC 8446 §5.1), but a stream of them is an attack.
                ContentType::ApplicationData => self.count_idle()?,
                ContentType::Alert => self.alerted(&plain[done.produced..][..opened.len])?,
                ContentType::Handshake => self.message(&plain[done.produced..][..opened.len])?,
                ContentType::ChangeCipherSpec => {
                    return Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE));
                }
            }
        }
        Ok(done)
    }

    /// The room that [`TlsSession::seal`] may need for `plaintext` bytes.
    pub const fn sealed_len(plaintext: usize) -> usize {
        RecordSealer::sealed_len(plaintext)
    }

    /// Seals application data into `out` and returns the number of bytes.
    ///
    /// # Errors
    /// When a TLS 1.2 key is used up after 2^24 records (at most 256 GB): that connection must end.
    pub fn seal(&mut self, plaintext: &[u8], out: &mut [u8]) -> Result<usize, SessionError> {
        Ok(self.sealer.seal_data(plaintext, out)?)
    }

    /// Whether TLS has its own records to send before the next data.
    pub fn owes(&self) -> bool {
        self.owes_key_update || (self.sealer.is_worn() && self.version == ProtocolVersion::TLSv1_3)
    }

    /// Appends TLS's own records.
    ///
    /// # Errors
    /// When rustls cannot derive the next key.
    pub fn seal_owed(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        if self.owes() {
            self.owes_key_update = false;
            self.append(ContentType::Handshake, &KEY_UPDATE_NOT_REQUESTED, out)?;
            let next = match &mut self.keys {
                SessionRole::Server(kernel) => kernel.update_tx_secret(),
                SessionRole::Client(kernel) => kernel.update_tx_secret(),
            };
            let next = next.map_err(|_| SessionError::Misbehaved(INTERNAL_ERROR))?;
            self.sealer = RecordSealer::new(self.version, next);
        }
        Ok(())
    }

    /// Appends close_notify (RFC 8446 §6.1).
    pub fn seal_close(&mut self, out: &mut Vec<u8>) {
        self.seal_alert(CLOSE_NOTIFY, out);
    }

    /// Appends an alert: fatal, unless it is one of those that are always warnings (RFC 8446 §6,
    /// RFC 5246 §7.2.2).
    pub fn seal_alert(&mut self, alert: u8, out: &mut Vec<u8>) {
        let level = if matches!(alert, CLOSE_NOTIFY | NO_RENEGOTIATION) {
            1
        } else {
            2
        };
        // An exhausted key cannot even protect an alert: then the connection just ends.
        let _ = self.append(ContentType::Alert, &[level, alert], out);
    }

    fn append(
        &mut self,
        kind: ContentType,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let start = out.len();
        out.resize(start + RecordSealer::sealed_len(content.len()), 0);
        let used = self.sealer.seal(kind, content, &mut out[start..]);
        out.truncate(start + used.unwrap_or(0));
        used?;
        Ok(())
    }

    fn count_idle(&mut self) -> Result<(), SessionError> {
        self.idle_records += 1;
        if self.idle_records > MAX_IDLE_RECORDS {
            return Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE));
        }
        Ok(())
    }

    fn alerted(&mut self, alert: &[u8]) -> Result<(), SessionError> {
        match *alert {
            [_, CLOSE_NOTIFY] => self.closed = true,
            // RFC 8446 §6.1: it announces a close_notify. TLS 1.2 has other warnings as well.
            [_, USER_CANCELED] => self.count_idle()?,
            [1, _] if self.version != ProtocolVersion::TLSv1_3 => self.count_idle()?,
            [_, description] => return Err(SessionError::Alerted(description)),
            _ => return Err(SessionError::Misbehaved(DECODE_ERROR)),
        }
        Ok(())
    }

    /// Handles handshake messages after the handshake, which may be split over records or share
    /// one.
    fn message(&mut self, content: &[u8]) -> Result<(), SessionError> {
        if self.version != ProtocolVersion::TLSv1_3 {
            return match self.keys {
                // RFC 5246 §7.4.1.1: a client may ignore a request to renegotiate.
                SessionRole::Client(_) if content == HELLO_REQUEST => self.count_idle(),
                _ => Err(SessionError::Renegotiation),
            };
        }
        self.count_idle()?;
        self.message.extend_from_slice(content);
        loop {
            let Some(&[kind, a, b, c]) = self.message.first_chunk() else {
                return Ok(());
            };
            let len = 4 + u32::from_be_bytes([0, a, b, c]) as usize;
            if len > MAX_MESSAGE {
                return Err(SessionError::Misbehaved(DECODE_ERROR));
            }
            if self.message.len() < len {
                return Ok(());
            }
            let rest = self.message.split_off(len);
            let whole = std::mem::replace(&mut self.message, rest);
            self.handle(kind, &whole[4..])?;
        }
    }

    fn handle(&mut self, kind: u8, body: &[u8]) -> Result<(), SessionError> {
        match (kind, body, &mut self.keys) {
            // RFC 8446 §5.1: no message may follow in the record after which the key changes.
            (KEY_UPDATE, [0 | 1], keys) if self.message.is_empty() => {
                let next = match keys {
                    SessionRole::Server(kernel) => kernel.update_rx_secret(),
                    SessionRole::Client(kernel) => kernel.update_rx_secret(),
                };
                let next = next.map_err(|_| SessionError::Misbehaved(INTERNAL_ERROR))?;
                self.opener = RecordOpener::new(self.version, next);
                self.owes_key_update |= body == [1];
                Ok(())
            }
            (KEY_UPDATE, [_], _) if self.message.is_empty() => {
                Err(SessionError::Misbehaved(ILLEGAL_PARAMETER))
            }
            (KEY_UPDATE, _, _) if body.len() != 1 => Err(SessionError::Misbehaved(DECODE_ERROR)),
            // A ticket that rustls does not accept only costs a later resumption.
            (NEW_SESSION_TICKET, _, SessionRole::Client(kernel)) => {
                let _ = kernel.handle_new_session_ticket(body);
                Ok(())
            }
            _ => Err(SessionError::Misbehaved(UNEXPECTED_MESSAGE)),
        }
    }
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSession")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
