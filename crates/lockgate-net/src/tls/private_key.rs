//! Private keys: their kinds, and the search for a certificate's key.
//!
//! Does not match keys with certificates: see `certs`.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::public_key::PublicKey;

use super::cert_files::CertFiles;
use super::error::{CertError, Warning};
use super::pem::{PemFile, UnusableKey};

/// The kind of a certificate's key, the fastest to sign with first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    /// ECDSA on NIST P-256.
    EcdsaP256,
    /// Ed25519; browsers do not offer it.
    Ed25519,
    /// ECDSA on NIST P-384.
    EcdsaP384,
    /// ECDSA on NIST P-521.
    EcdsaP521,
    /// RSA with its size in bits.
    Rsa(usize),
}

impl KeyKind {
    /// Whether a client with these schemes can verify signatures by such a key.
    pub(super) fn suits(self, offered: &[SignatureScheme]) -> bool {
        use SignatureScheme as S;
        let schemes: &[S] = match self {
            Self::EcdsaP256 => &[S::ECDSA_NISTP256_SHA256],
            Self::EcdsaP384 => &[S::ECDSA_NISTP384_SHA384],
            Self::EcdsaP521 => &[S::ECDSA_NISTP521_SHA512],
            Self::Ed25519 => &[S::ED25519],
            Self::Rsa(_) => &[
                S::RSA_PSS_SHA256,
                S::RSA_PSS_SHA384,
                S::RSA_PSS_SHA512,
                S::RSA_PKCS1_SHA256,
                S::RSA_PKCS1_SHA384,
                S::RSA_PKCS1_SHA512,
            ],
        };
        offered.iter().any(|scheme| schemes.contains(scheme))
    }

    /// Whether both are of one family: two certificates for one name need different families.
    pub(super) fn same_family(self, other: Self) -> bool {
        matches!((self, other), (Self::Rsa(_), Self::Rsa(_))) || self == other
    }

    pub(super) fn of(certificate: &X509Certificate<'_>) -> Result<Self, String> {
        const ED25519: &str = "1.3.101.112";
        let public = certificate.public_key();
        match public.parsed() {
            Ok(PublicKey::RSA(rsa)) => Ok(Self::Rsa(rsa.key_size())),
            Ok(PublicKey::EC(point)) => match point.key_size() {
                256 => Ok(Self::EcdsaP256),
                384 => Ok(Self::EcdsaP384),
                520..=528 => Ok(Self::EcdsaP521),
                bits => Err(format!("ECDSA of {bits} bits")),
            },
            _ if public.algorithm.algorithm.to_id_string() == ED25519 => Ok(Self::Ed25519),
            _ => Err(format!("algorithm {}", public.algorithm.algorithm)),
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EcdsaP256 => f.write_str("ECDSA P-256"),
            Self::EcdsaP384 => f.write_str("ECDSA P-384"),
            Self::EcdsaP521 => f.write_str("ECDSA P-521"),
            Self::Ed25519 => f.write_str("Ed25519"),
            Self::Rsa(bits) => write!(f, "RSA {bits}"),
        }
    }
}

/// A file and the private keys in it.
pub(super) type FoundKeys = (PathBuf, Vec<Arc<dyn SigningKey>>);

/// The keys in the configured file for `cert`.
pub(super) fn named(path: &Path, cert: &Path) -> Result<FoundKeys, CertError> {
    let missing = || CertError::NoKey {
        cert: cert.to_owned(),
        looked: vec![path.to_owned()],
    };
    keys_of(&PemFile::read(path)?, path)?.ok_or_else(missing)
}

/// The file of the private key, and the keys in it.
pub(super) fn find(files: &CertFiles, cert: &PemFile) -> Result<FoundKeys, CertError> {
    if let Some(path) = &files.key {
        return named(path, &files.cert);
    }
    if let Some(found) = keys_of(cert, &files.cert)? {
        return Ok(found);
    }
    let mut looked = vec![files.cert.clone()];
    for path in beside(&files.cert) {
        match PemFile::read(&path) {
            Ok(file) => {
                if let Some(found) = keys_of(&file, &path)? {
                    return Ok(found);
                }
            }
            Err(CertError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        looked.push(path);
    }
    Err(CertError::NoKey {
        cert: files.cert.clone(),
        looked,
    })
}

fn beside(cert: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if cert.file_name().is_some_and(|name| name == "fullchain.pem") {
        paths.push(cert.with_file_name("privkey.pem"));
    }
    let same_stem = cert.with_extension("key");
    if same_stem != cert {
        paths.push(same_stem);
    }
    paths
}

fn keys_of(file: &PemFile, path: &Path) -> Result<Option<FoundKeys>, CertError> {
    let unsupported = |kind: &str| CertError::UnsupportedKey {
        path: path.to_owned(),
        kind: kind.to_owned(),
    };
    let keys: Vec<_> = file
        .keys
        .iter()
        .filter_map(|key| any_supported_type(key).ok())
        .collect();
    match (keys.is_empty(), file.unusable_key, file.keys.first()) {
        (false, ..) => Ok(Some((path.to_owned(), keys))),
        (true, Some(UnusableKey::Encrypted), _) => Err(CertError::EncryptedKey {
            path: path.to_owned(),
        }),
        (true, Some(UnusableKey::Unsupported(kind)), _) => Err(unsupported(kind)),
        (true, None, Some(PrivateKeyDer::Pkcs1(_))) => Err(unsupported("RSA")),
        (true, None, Some(PrivateKeyDer::Sec1(_))) => Err(unsupported("EC")),
        (true, None, Some(_)) => Err(unsupported("")),
        (true, None, None) => Ok(None),
    }
}

/// The SubjectPublicKeyInfo of a private key.
pub(super) fn public_half(key: &Arc<dyn SigningKey>) -> Option<Vec<u8>> {
    key.public_key().map(|public| public.as_ref().to_vec())
}

/// A warning if a file with secrets is readable by all users: by its mode, and by the modes of all
/// folders above it, which users must be able to search.
pub(super) fn readable_by_others(path: &Path) -> Option<Warning> {
    is_readable_by_all(path).then(|| Warning::ReadableByOthers {
        path: path.to_owned(),
    })
}

/// Whether every user of the machine can read a file. One that this user cannot look at is taken for
/// one that others cannot read.
pub fn is_readable_by_all(path: &Path) -> bool {
    let has = |path: &Path, bit| std::fs::metadata(path).is_ok_and(|found| found.mode() & bit != 0);
    let Ok(real) = path.canonicalize() else {
        return false;
    };
    let mut folders = real.ancestors().skip(1);
    has(&real, 0o004) && folders.all(|folder| has(folder, 0o001))
}
