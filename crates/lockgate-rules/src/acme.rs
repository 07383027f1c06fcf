//! Settings of certificates that come by themselves: by ACME (RFC 8555), or from an authority of
//! our own.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::dns_provider::DnsProvider;

/// The source of a certificate that no file of the operator has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertIssuer {
    /// An authority that speaks ACME.
    Acme(Arc<AcmeSettings>),
    /// The authority in the state folder: `tls = "internal"`.
    Internal,
}

/// What is served for a name until its authority has issued the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertFallback {
    /// Nothing: the handshake is refused.
    None,
    /// A certificate of the authority in the state folder.
    Internal,
}

/// Orders of certificates by ACME.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeSettings {
    /// The authorities, the preferred one first; never empty.
    pub directories: Vec<AcmeDirectory>,
    /// A PEM file of the certificates by which the directory's server is verified; `None` takes
    /// those of the system.
    pub ca: Option<PathBuf>,
    /// The address that the authority may write to.
    pub email: Option<String>,
    /// The account at the authority that new ACME accounts are bound to (RFC 8555 §7.3.4).
    pub eab: Option<ExternalAccount>,
    /// The certificate profile (draft-ietf-acme-profiles); `None` takes the authority's default.
    pub profile: Option<String>,
    /// The kinds of keys, each with a certificate of its own; never empty.
    pub keys: Vec<CertKeyKind>,
    /// The provider that writes the records of challenges by DNS (RFC 8555 §8.4); `None` has no such challenge.
    pub dns: Option<Arc<DnsProvider>>,
}

/// An authority's ACME directory (RFC 8555 §7.1.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeDirectory {
    /// The name by which messages and files call it: a known name, or the URL's host and port.
    pub name: String,
    /// The URL of the directory.
    pub url: String,
}

/// A binding to an existing account at the authority (RFC 8555 §7.3.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExternalAccount {
    /// The key identifier that the authority gave.
    pub key_id: String,
    /// The MAC key that the authority gave, decoded.
    pub mac_key: SecretBytes,
}

/// A secret that `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretBytes(pub Vec<u8>);

/// The kind of a certificate's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CertKeyKind {
    /// ECDSA over P-256 (FIPS 186-5).
    EcdsaP256,
    /// RSA with a modulus of 2048 bits.
    Rsa2048,
}

/// The directories that have a name: the name, and the URL.
pub const KNOWN_DIRECTORIES: [(&str, &str); 6] = [
    (
        "letsencrypt",
        "https://acme-v02.api.letsencrypt.org/directory",
    ),
    (
        "letsencrypt-staging",
        "https://acme-staging-v02.api.letsencrypt.org/directory",
    ),
    ("zerossl", "https://acme.zerossl.com/v2/DV90"),
    ("google", "https://dv.acme-v02.api.pki.goog/directory"),
    (
        "google-staging",
        "https://dv.acme-v02.test-api.pki.goog/directory",
    ),
    ("sslcom", "https://acme.ssl.com/sslcom-dv-ecc"),
];

impl AcmeDirectory {
    /// The directory of a known name.
    pub fn known(name: &str) -> Option<Self> {
        let mut known = KNOWN_DIRECTORIES.iter();
        let (name, url) = known.find(|(known, _)| *known == name)?;
        Some(Self {
            name: (*name).to_owned(),
            url: (*url).to_owned(),
        })
    }
}

impl CertKeyKind {
    /// The name in files and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "p256",
            Self::Rsa2048 => "rsa2048",
        }
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(…)")
    }
}
