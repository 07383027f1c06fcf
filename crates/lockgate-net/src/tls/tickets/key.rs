//! The keys of session tickets: random ones, and those of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, RandomizedNonceKey};
use aws_lc_rs::hkdf;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use super::super::error::CertError;
use super::super::pem::read_bytes;

/// The length of a key's name in bytes.
pub(super) const KEY_NAME: usize = 16;

/// The reason why there are no ticket keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The key file could not be read.
    #[error("{0}")]
    File(CertError),
    /// A line that is neither 48 nor 80 bytes in base64 or hexadecimal. The line itself is a
    /// secret.
    #[error("{}: line {line} is no ticket key: 48 or 80 bytes in base64 or hexadecimal are expected", .path.display())]
    BadLine {
        /// The file of the keys.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// Two lines with the same first 16 bytes, which are the name of a key.
    #[error("{}: line {line} has the name (the first 16 bytes) of an earlier key", .path.display())]
    SameName {
        /// The file of the keys.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// `rotate` or `keep` is zero.
    #[error("tickets need a rotation period and at least one key")]
    Zero,
    /// The system has no random bytes.
    #[error("no random bytes for a ticket key")]
    NoRandomness,
}

/// A key, and the name by which a ticket refers to it.
pub(super) struct TicketKey {
    pub(super) name: KeyName,
    pub(super) aead: RandomizedNonceKey,
    /// The key proper, for a process that takes this one's place.
    secret: [u8; SECRET],
}

/// The length of the key proper in bytes.
const SECRET: usize = 32;

type KeyName = [u8; KEY_NAME];

impl TicketKey {
    pub(super) fn random() -> Result<Self, TicketError> {
        let (mut name, mut secret) = ([0; KEY_NAME], [0; 32]);
        aws_lc_rs::rand::fill(&mut name).map_err(|_| TicketError::NoRandomness)?;
        aws_lc_rs::rand::fill(&mut secret).map_err(|_| TicketError::NoRandomness)?;
        Ok(Self::new(name, &secret))
    }

    /// The name and the key proper.
    pub(super) fn bytes(&self) -> Vec<u8> {
        [&self.name[..], &self.secret[..]].concat()
    }

    /// The key with these [`TicketKey::bytes`].
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (name, secret) = bytes.split_first_chunk::<KEY_NAME>()?;
        Some(Self::new(*name, secret.try_into().ok()?))
    }

    /// A key from the 48 or 80 bytes that nginx, HAProxy and hitch use: a name and 32 or 64 bytes
    /// of secret.
    fn from_material(material: &[u8]) -> Option<Self> {
        let (name, secret) = material.split_first_chunk::<KEY_NAME>()?;
        if !matches!(secret.len(), 32 | 64) {
            return None;
        }
        let mut derived = [0; 32];
        let extracted =
            hkdf::Salt::new(hkdf::HKDF_SHA256, b"lockgate ticket key 1").extract(secret);
        extracted
            .expand(&[b"AES-256-GCM"], hkdf::HKDF_SHA256)
            .ok()?
            .fill(&mut derived)
            .ok()?;
        Some(Self::new(*name, &derived))
    }

    fn new(name: KeyName, secret: &[u8; SECRET]) -> Self {
        let aead = RandomizedNonceKey::new(&AES_256_GCM, secret).expect("the key has 32 bytes");
        Self {
            name,
            aead,
            secret: *secret,
        }
    }
}

/// Reads the keys of a file; at least one.
pub(super) fn read_keys(path: &Path) -> Result<Vec<Arc<TicketKey>>, TicketError> {
    parse_keys(&read_bytes(path).map_err(TicketError::File)?, path)
}

pub(super) fn parse_keys(bytes: &[u8], path: &Path) -> Result<Vec<Arc<TicketKey>>, TicketError> {
    if let Some(key) = TicketKey::from_material(bytes) {
        return Ok(vec![Arc::new(key)]);
    }
    let mut keys: Vec<Arc<TicketKey>> = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line
            .split(|byte| *byte == b'#')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        if line.is_empty() {
            continue;
        }
        let position = index + 1;
        let key = decode(line).and_then(|material| TicketKey::from_material(&material));
        let key = key.ok_or_else(|| TicketError::BadLine {
            path: path.to_owned(),
            line: position,
        })?;
        if keys.iter().any(|earlier| earlier.name == key.name) {
            return Err(TicketError::SameName {
                path: path.to_owned(),
                line: position,
            });
        }
        keys.push(Arc::new(key));
    }
    match keys.is_empty() {
        true => Err(TicketError::File(CertError::Empty {
            path: path.to_owned(),
        })),
        false => Ok(keys),
    }
}

fn decode(line: &[u8]) -> Option<Vec<u8>> {
    // 96 and 160 digits are 48 and 80 bytes; as base64 they would be 72 and 120, which are no keys.
    if matches!(line.len(), 96 | 160) {
        let text = std::str::from_utf8(line).ok()?;
        let byte = |at| {
            text.get(at..at + 2)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        };
        return (0..line.len()).step_by(2).map(byte).collect();
    }
    // PEM is the only base64 decoder among our dependencies, and its timing does not leak the key.
    let pem = [
        b"-----BEGIN PRIVATE KEY-----\n",
        line,
        b"\n-----END PRIVATE KEY-----\n",
    ]
    .concat();
    PrivatePkcs8KeyDer::from_pem_slice(&pem)
        .ok()
        .map(|key| key.secret_pkcs8_der().to_vec())
}
