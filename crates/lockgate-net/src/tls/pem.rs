//! PEM files (RFC 7468): certificates and private keys.
//!
//! Does not parse certificates and does not match keys with them.

use std::io::{ErrorKind, Read};
use std::path::Path;

use rustls::pki_types::pem::{Error as PemError, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::CertError;

/// The size limit: no PEM file of certificates comes near this; a wrong path (a disk image, a log)
/// may.
const MAX_FILE: u64 = 64 << 20;

/// The relevant sections of one file.
pub(super) struct PemFile {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) keys: Vec<PrivateKeyDer<'static>>,
    pub(super) unusable_key: Option<UnusableKey>,
    der: bool,
}

/// A private key that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnusableKey {
    Encrypted,
    Unsupported(&'static str),
}

impl PemFile {
    pub(super) fn read(path: &Path) -> Result<Self, CertError> {
        Self::parse(&read_bytes(path)?, path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Self, CertError> {
        if bytes.trim_ascii().is_empty() {
            return Err(CertError::Empty {
                path: path.to_owned(),
            });
        }
        let unusable_key = unusable_key(bytes);
        let der = bytes.starts_with(&[0x30, 0x82]);
        let mut file = Self {
            certificates: Vec::new(),
            keys: Vec::new(),
            unusable_key,
            der,
        };
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes) {
            match section {
                Ok((SectionKind::Certificate, der)) => file.certificates.push(der.into()),
                Ok((kind, der)) => file.keys.extend(PrivateKeyDer::from_pem(kind, der)),
                // The headers of an encrypted key (RFC 1421 §4.6) are no base64.
                Err(PemError::Base64Decode(_)) if unusable_key == Some(UnusableKey::Encrypted) => {}
                Err(error) => {
                    return Err(CertError::BrokenPem {
                        path: path.to_owned(),
                        reason: reason(&error),
                    });
                }
            }
        }
        Ok(file)
    }

    /// The certificates; an error if there are none.
    pub(super) fn require_certificates(
        &self,
        path: &Path,
    ) -> Result<&[CertificateDer<'static>], CertError> {
        match self.certificates.as_slice() {
            [] => Err(CertError::NoCertificate {
                path: path.to_owned(),
                der: self.der,
            }),
            some => Ok(some),
        }
    }
}

/// Reads a whole regular file.
///
/// # Errors
/// `Missing`, `Unreadable`; a pipe or device is unreadable, since reading it could block.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, CertError> {
    let unreadable = |reason: String| CertError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => CertError::Missing {
            path: path.to_owned(),
        },
        _ => unreadable(error.to_string()),
    };
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return Err(unreadable("not a regular file".to_owned()));
    }
    if found.len() > MAX_FILE {
        return Err(unreadable(format!("{} bytes are too many", found.len())));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_FILE)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// Every certificate of a CA file.
///
/// # Errors
/// Those of reading; also when there is none.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertError> {
    PemFile::read(path)?
        .require_certificates(path)
        .map(<[_]>::to_vec)
}

fn unusable_key(bytes: &[u8]) -> Option<UnusableKey> {
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    if has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED") {
        Some(UnusableKey::Encrypted)
    } else if has(b"-----BEGIN DSA PRIVATE KEY-----") {
        Some(UnusableKey::Unsupported("DSA"))
    } else if has(b"-----BEGIN OPENSSH PRIVATE KEY-----") {
        Some(UnusableKey::Unsupported("in OpenSSH's format"))
    } else {
        None
    }
}

fn reason(error: &PemError) -> String {
    match error {
        PemError::MissingSectionEnd { .. } => {
            "a section has no END line; is the file cut short?".to_owned()
        }
        PemError::IllegalSectionStart { line } => {
            format!(
                "a BEGIN line is malformed: {}",
                String::from_utf8_lossy(line)
            )
        }
        // The library's message may quote bytes of a private key.
        PemError::Base64Decode(_) => "a section is not base64".to_owned(),
        other => other.to_string(),
    }
}
