//! The paths of one certificate, as the settings have them. Reads none of them: see `certs`.

use std::path::PathBuf;

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertFiles {
    /// PEM: the site's own certificate first, then its chain; the key may be in here too.
    pub cert: PathBuf,
    /// PEM file of the private key. `None`: in the certificate's file, else beside it
    /// (`x.crt` → `x.key`, `fullchain.pem` → `privkey.pem`).
    pub key: Option<PathBuf>,
    /// DER file of an OCSP response to staple.
    pub ocsp: Option<PathBuf>,
}

impl CertFiles {
    /// A certificate with a key by the rules of [`CertFiles::key`], and nothing stapled.
    pub fn of(cert: impl Into<PathBuf>) -> Self {
        Self {
            cert: cert.into(),
            key: None,
            ocsp: None,
        }
    }
}

/// A certificate that the program itself obtains and renews. Its file may be missing: then its
/// names have no certificate yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManagedCert {
    /// The files of the certificate.
    pub files: CertFiles,
    /// The DNS names that it is for, in lower case; a wildcard as `*.example.com`.
    pub names: Vec<String>,
    /// Whether it is used only for names without any other certificate.
    pub fallback: bool,
    /// Whether it was obtained when a client asked for it: its names are not those of the settings.
    pub on_demand: bool,
    /// Whether it is for clients without SNI or with an unknown name, too, unless a file is.
    pub default: bool,
}
