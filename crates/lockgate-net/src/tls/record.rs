//! The TLS record layer after the handshake: plaintext ↔ records, sans-IO, in the caller's buffers.
//!
//! rustls does the handshake and derives every key; this module only protects and unprotects
//! records with them (RFC 8446 §5, RFC 5246 §6.2, RFC 5288, RFC 7905), straight from one buffer of
//! the worker's into another. rustls' own buffers cost one allocation and two copies a record and 4
//! KB a connection: see `docs/notes/001-record-layer.md` for the figures. Does not know sockets,
//! key updates or the meaning of an alert: see `session`.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use rustls::crypto::cipher::AeadKey;
use rustls::{ConnectionTrafficSecrets, ProtocolVersion};

/// The most plaintext of one record (RFC 8446 §5.1).
pub const MAX_PLAINTEXT: usize = 16_384;
/// The length of a record's header: type, version and length.
pub const HEADER: usize = 5;
/// The largest overhead of one record: header, explicit nonce or inner type, tag.
pub const MAX_OVERHEAD: usize = HEADER + 8 + TAG;

const TAG: usize = 16;
const NONCE: usize = 12;
const EXPLICIT_NONCE: usize = 8;
/// RFC 8446 §5.2 allows 256 bytes of expansion, RFC 5246 §6.2.3 2,048.
const MAX_EXPANSION_13: usize = 256;
const MAX_EXPANSION_12: usize = 2_048;
/// The longest record with its header (RFC 5246 §6.2.3).
pub const MAX_RECORD: usize = HEADER + MAX_PLAINTEXT + MAX_EXPANSION_12;
/// The most records under one AES-GCM key (RFC 8446 §5.5); ChaCha20-Poly1305 has no limit in reach.
const GCM_RECORDS: u64 = 1 << 24;

/// The content types of RFC 8446 §5.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// Meaningless after the handshake: refused.
    ChangeCipherSpec,
    /// A close or an error.
    Alert,
    /// Tickets, key updates; a renegotiation in TLS 1.2.
    Handshake,
    /// Data of the application, such as HTTP.
    ApplicationData,
}

impl ContentType {
    fn parse(byte: u8) -> Option<Self> {
        Some(match byte {
            20 => Self::ChangeCipherSpec,
            21 => Self::Alert,
            22 => Self::Handshake,
            23 => Self::ApplicationData,
            _ => return None,
        })
    }

    fn byte(self) -> u8 {
        match self {
            Self::ChangeCipherSpec => 20,
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::ApplicationData => 23,
        }
    }
}

/// The reason why a record is refused; each is one alert of RFC 8446 §6.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A record that does not authenticate under the key.
    #[error("record does not authenticate")]
    BadMac,
    /// A record, or its plaintext, that is too long.
    #[error("record is too long")]
    Overflow,
    /// A record that is too short, of no known type, or of another protocol.
    #[error("record is malformed")]
    Malformed,
    /// The key has protected as many records as it may.
    #[error("record limit of the key is reached")]
    Exhausted,
}

impl RecordError {
    /// The alert that tells the peer.
    pub fn alert(self) -> u8 {
        match self {
            Self::BadMac => 20,
            Self::Overflow => 22,
            Self::Malformed => 10,
            Self::Exhausted => 80,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordLayout {
    /// The type is inside, the header is the additional data (RFC 8446 §5.2).
    Tls13,
    /// Eight bytes of nonce lead every record (RFC 5288 §3).
    Tls12Gcm,
    /// The nonce is implied (RFC 7905 §2).
    Tls12ChaCha,
}

/// One direction's key, with the number of the next record.
struct RecordKey {
    /// The key as the AEAD needs it, 600 bytes; none while the connection rests.
    expanded: Option<LessSafeKey>,
    algorithm: &'static Algorithm,
    key: AeadKey,
    iv: [u8; NONCE],
    sequence: u64,
    layout: RecordLayout,
}

impl RecordKey {
    fn new(version: ProtocolVersion, (sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Self {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => unreachable!("our policies offer these three AEADs only"),
        };
        let layout = match (version, algorithm == &CHACHA20_POLY1305) {
            (ProtocolVersion::TLSv1_3, _) => RecordLayout::Tls13,
            (_, false) => RecordLayout::Tls12Gcm,
            (_, true) => RecordLayout::Tls12ChaCha,
        };
        let iv = iv
            .as_ref()
            .try_into()
            .expect("every TLS AEAD has a 12-byte nonce");
        Self {
            expanded: None,
            algorithm,
            key,
            iv,
            sequence,
            layout,
        }
    }

    /// The key, expanded if it is not.
    fn aead(&mut self) -> &LessSafeKey {
        self.expanded.get_or_insert_with(|| {
            let unbound = UnboundKey::new(self.algorithm, self.key.as_ref())
                .expect("rustls derives keys of the right length");
            LessSafeKey::new(unbound)
        })
    }

    /// The most records that it may protect.
    fn limit(&self) -> u64 {
        match self.algorithm == &CHACHA20_POLY1305 {
            true => u64::MAX,
            false => GCM_RECORDS,
        }
    }

    /// IV XOR the record's number (RFC 8446 §5.3); for TLS 1.2 AES-GCM rustls derives the explicit
    /// part likewise.
    fn nonce(&self) -> [u8; NONCE] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    /// The additional data of TLS 1.2: number, type, version, length of the plaintext (RFC 5246
    /// §6.2.3.3).
    fn additional_12(&self, kind: u8, plaintext: usize) -> [u8; 13] {
        let mut aad = [0; 13];
        aad[..8].copy_from_slice(&self.sequence.to_be_bytes());
        aad[8] = kind;
        aad[9..11].copy_from_slice(&[3, 3]);
        aad[11..].copy_from_slice(&(plaintext as u16).to_be_bytes());
        aad
    }

    fn advance(&mut self) {
        self.sequence += 1;
    }
}

/// Protects the records that we send.
pub struct RecordSealer(RecordKey);

impl RecordSealer {
    /// `secrets` are the transmit half of the secrets of rustls.
    pub fn new(version: ProtocolVersion, secrets: (u64, ConnectionTrafficSecrets)) -> Self {
        Self(RecordKey::new(version, secrets))
    }

    /// Frees the expanded key until the next record.
    pub fn rest(&mut self) {
        self.0.expanded = None;
    }

    /// Whether the key is nearly used up, so that a key update is due (RFC 8446 §4.6.3).
    pub fn is_worn(&self) -> bool {
        self.0.sequence.saturating_add(64) >= self.0.limit()
    }

    /// The most bytes that `plaintext` bytes need when sealed.
    pub const fn sealed_len(plaintext: usize) -> usize {
        plaintext + (plaintext / MAX_PLAINTEXT + 1) * MAX_OVERHEAD
    }

    /// Seals `plaintext` as application data in records of at most 16 KB; returns the number of
    /// bytes in `out`.
    ///
    /// `out` must have room for [`RecordSealer::sealed_len`].
    ///
    /// # Errors
    /// [`RecordError::Exhausted`] when the key must not protect that many more records.
    pub fn seal_data(&mut self, plaintext: &[u8], out: &mut [u8]) -> Result<usize, RecordError> {
        let mut used = 0;
        for piece in plaintext.chunks(MAX_PLAINTEXT) {
            used += self.seal(ContentType::ApplicationData, piece, &mut out[used..])?;
        }
        Ok(used)
    }

    /// Seals one record of any type.
    ///
    /// # Errors
    /// [`RecordError::Exhausted`] when the key must not protect more records.
    pub fn seal(
        &mut self,
        kind: ContentType,
        plaintext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, RecordError> {
        let key = &mut self.0;
        if key.sequence >= key.limit() {
            return Err(RecordError::Exhausted);
        }
        let nonce = key.nonce();
        let (lead, trail, outer): (&[u8], &[u8], _) = match key.layout {
            RecordLayout::Tls13 => (&[], &[kind.byte()], ContentType::ApplicationData),
            RecordLayout::Tls12Gcm => (&nonce[NONCE - EXPLICIT_NONCE..], &[], kind),
            RecordLayout::Tls12ChaCha => (&[], &[], kind),
        };
        let body = lead.len() + plaintext.len() + trail.len() + TAG;
        let (header, rest) = out.split_at_mut(HEADER);
        header.copy_from_slice(&[outer.byte(), 3, 3, (body >> 8) as u8, body as u8]);
        let (explicit, rest) = rest.split_at_mut(lead.len());
        explicit.copy_from_slice(lead);
        let (ciphertext, rest) = rest.split_at_mut(plaintext.len());
        let end = &mut rest[..trail.len() + TAG];
        let additional_12;
        let aad: &[u8] = match key.layout {
            RecordLayout::Tls13 => header,
            _ => {
                additional_12 = key.additional_12(kind.byte(), plaintext.len());
                &additional_12
            }
        };
        key.aead()
            .seal_out_of_place_scatter(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(aad),
                plaintext,
                ciphertext,
                trail,
                end,
            )
            .expect("buffers have the lengths that the AEAD asks for");
        key.advance();
        Ok(HEADER + body)
    }
}

/// The content of an opened record: its plaintext is at the front of the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedRecord {
    /// The content type of the record.
    pub kind: ContentType,
    /// The number of bytes of plaintext.
    pub len: usize,
}

/// Unprotects the records that we receive.
pub struct RecordOpener(RecordKey);

impl RecordOpener {
    /// `secrets` are the receive half of the secrets of rustls.
    pub fn new(version: ProtocolVersion, secrets: (u64, ConnectionTrafficSecrets)) -> Self {
        Self(RecordKey::new(version, secrets))
    }

    /// Frees the expanded key until the next record.
    pub fn rest(&mut self) {
        self.0.expanded = None;
    }

    /// The length of the record that `wire` begins with, header included; `None` until five bytes
    /// are there.
    ///
    /// # Errors
    /// When the header is not one of a protected record, or its length exceeds the limit.
    pub fn frame(&self, wire: &[u8]) -> Result<Option<usize>, RecordError> {
        let Some(&[kind, major, _, high, low]) = wire.first_chunk() else {
            return Ok(None);
        };
        if major != 3 || ContentType::parse(kind).is_none() {
            return Err(RecordError::Malformed);
        }
        let expansion = match self.0.layout {
            // Under keys, all records of TLS 1.3 look like application data (RFC 8446 §5.2).
            RecordLayout::Tls13 if kind != 23 => return Err(RecordError::Malformed),
            RecordLayout::Tls13 => MAX_EXPANSION_13,
            _ => MAX_EXPANSION_12,
        };
        let body = usize::from(u16::from_be_bytes([high, low]));
        if body > MAX_PLAINTEXT + expansion {
            return Err(RecordError::Overflow);
        }
        Ok(Some(HEADER + body))
    }

    /// Opens one whole record, as framed by [`RecordOpener::frame`], into the front of `plain`.
    ///
    /// `plain` must be as long as the record. After an error its content is invalid.
    ///
    /// # Errors
    /// When it does not authenticate or its content is malformed.
    pub fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<OpenedRecord, RecordError> {
        let key = &mut self.0;
        let (header, body) = record
            .split_at_checked(HEADER)
            .ok_or(RecordError::Malformed)?;
        let mut nonce = key.nonce();
        let sealed = match key.layout {
            RecordLayout::Tls12Gcm => {
                let (explicit, sealed) = body
                    .split_at_checked(EXPLICIT_NONCE)
                    .ok_or(RecordError::Malformed)?;
                nonce[NONCE - EXPLICIT_NONCE..].copy_from_slice(explicit);
                sealed
            }
            _ => body,
        };
        let len = sealed
            .len()
            .checked_sub(TAG)
            .ok_or(RecordError::Malformed)?;
        let (ciphertext, tag) = sealed.split_at(len);
        let additional_12;
        let aad: &[u8] = match key.layout {
            RecordLayout::Tls13 => header,
            _ => {
                additional_12 = key.additional_12(header[0], len);
                &additional_12
            }
        };
        let plain = plain.get_mut(..len).ok_or(RecordError::Overflow)?;
        key.aead()
            .open_separate_gather(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(aad),
                ciphertext,
                tag,
                plain,
            )
            .map_err(|_| RecordError::BadMac)?;
        key.advance();
        match key.layout {
            RecordLayout::Tls13 => unpad(plain),
            _ if len > MAX_PLAINTEXT => Err(RecordError::Overflow),
            _ => Ok(OpenedRecord {
                kind: ContentType::parse(header[0]).ok_or(RecordError::Malformed)?,
                len,
            }),
        }
    }
}

/// The inner plaintext of TLS 1.3 ends with its type and any number of zeros (RFC 8446 §5.4).
fn unpad(plain: &[u8]) -> Result<OpenedRecord, RecordError> {
    let last = plain
        .iter()
        .rposition(|&byte| byte != 0)
        .ok_or(RecordError::Malformed)?;
    if last > MAX_PLAINTEXT {
        return Err(RecordError::Overflow);
    }
    match ContentType::parse(plain[last]) {
        Some(ContentType::ChangeCipherSpec) | None => Err(RecordError::Malformed),
        Some(kind) => Ok(OpenedRecord { kind, len: last }),
    }
}

impl std::fmt::Debug for RecordSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordSealer")
            .field("sequence", &self.0.sequence)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RecordOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordOpener")
            .field("sequence", &self.0.sequence)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
