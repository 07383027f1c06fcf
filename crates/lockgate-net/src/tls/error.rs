//! What may be wrong with TLS files, in the operator's words.
//!
//! Errors keep a listener from starting, or an old certificate in use on reload. Warnings stop
//! nothing. Both carry the paths they are about, so that the caller can point at a line of the
//! configuration.

use std::path::PathBuf;

use super::certs::CertFiles;

/// Why a file with certificates or keys could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertError {
    /// Nothing is at the path, or only a symbolic link to nothing.
    #[error("{}: no such file", .path.display())]
    Missing {
        /// The path that was tried.
        path: PathBuf,
    },
    /// Something is at the path but the system does not let us read it.
    #[error("{}: cannot be read: {reason}", .path.display())]
    Unreadable {
        /// The path that was tried.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The file has no bytes, or white space only.
    #[error("{}: the file is empty", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file starts a PEM section and does not end it properly, or its base64 is broken.
    #[error("{}: broken PEM: {reason}", .path.display())]
    BrokenPem {
        /// The file.
        path: PathBuf,
        /// What is broken.
        reason: String,
    },
    /// No `BEGIN CERTIFICATE` section in the file.
    #[error("{}: no certificate in this file{}", .path.display(), hint_of_der(*.der))]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// The file looks like a certificate in DER, which is not read.
        der: bool,
    },
    /// A section that is no X.509 certificate.
    #[error("{}: certificate {position} of the file is malformed: {reason}", .path.display())]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// Which one, counted from 1.
        position: usize,
        /// What the parser said.
        reason: String,
    },
    /// The certificate is there but its private key was found nowhere.
    #[error("{}: no private key: looked in {}", .cert.display(), list(.looked))]
    NoKey {
        /// The file of the certificate.
        cert: PathBuf,
        /// Where a key was looked for, in order.
        looked: Vec<PathBuf>,
    },
    /// The private key is protected by a password.
    #[error("{}: the private key is encrypted; decrypt it with: openssl pkey -in {}", .path.display(), .path.display())]
    EncryptedKey {
        /// The file of the key.
        path: PathBuf,
    },
    /// A key of a kind or size that cannot sign here.
    #[error("{}: unsupported key{}; use ECDSA P-256 or P-384, Ed25519, or RSA of 2048 to 8192 bits", .path.display(), in_brackets(.kind))]
    UnsupportedKey {
        /// The file of the key or, where the certificate tells first, of the certificate.
        path: PathBuf,
        /// What it is, as far as known; may be empty.
        kind: String,
    },
    /// The private key belongs to another certificate than the one it is named for.
    #[error("{}: not the key of {}{}", .key.display(), .cert.display(), owned_by(.owner))]
    Mismatch {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate that the key does belong to, if it is among those known.
        owner: Option<PathBuf>,
    },
    /// The key belongs to a certificate further down in the same file.
    #[error("{}: the key belongs to certificate {position} of the file; the site's own certificate must come first", .path.display())]
    LeafNotFirst {
        /// The file of the certificates.
        path: PathBuf,
        /// Where the site's own certificate is, counted from 1.
        position: usize,
    },
    /// The file for stapling is no successful OCSP response in DER (RFC 6960 §4.2.1).
    #[error("{}: no OCSP response: {reason}", .path.display())]
    BadOcsp {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
}

/// Why TLS cannot start on a listener. All that is found is reported at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsSetupError {
    /// A certificate could not be loaded.
    #[error("{error}")]
    Certificate {
        /// The entry of the settings that it was named by.
        files: CertFiles,
        /// What is wrong.
        error: CertError,
    },
    /// The CA file for client certificates could not be loaded: the listener does not start open.
    #[error("client certificates cannot be verified: {error}")]
    ClientCa {
        /// The CA file.
        path: PathBuf,
        /// What is wrong.
        error: CertError,
    },
    /// Neither a certificate nor a default is named.
    #[error("no certificate is named")]
    NoCertificates,
    /// A protocol name for ALPN must have 1 to 255 bytes (RFC 7301 §3.1).
    #[error("an ALPN protocol name has {length} bytes; 1 to 255 are allowed")]
    AlpnLength {
        /// Its length in bytes.
        length: usize,
    },
    /// The TLS library refused the combination of settings.
    #[error("TLS settings refused: {reason}")]
    Refused {
        /// In the library's words.
        reason: String,
    },
}

/// Something the operator should know of, though everything works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The certificate is no longer valid; clients will refuse it.
    #[error("{}: expired {days} days ago", .cert.display())]
    Expired {
        /// The file of the certificate.
        cert: PathBuf,
        /// Whole days since then.
        days: u64,
    },
    /// The certificate expires within 14 days.
    #[error("{}: expires in {days} days", .cert.display())]
    ExpiresSoon {
        /// The file of the certificate.
        cert: PathBuf,
        /// Whole days left.
        days: u64,
    },
    /// The certificate is not valid yet; the clock of this machine may be wrong.
    #[error("{}: not valid for another {days} days", .cert.display())]
    NotYetValid {
        /// The file of the certificate.
        cert: PathBuf,
        /// Whole days until it is.
        days: u64,
    },
    /// A certificate of the chain is not followed by that of its issuer.
    #[error("{}: certificate {position} is not followed by its issuer's; some clients will not find the chain", .cert.display())]
    ChainOrder {
        /// The file of the certificate.
        cert: PathBuf,
        /// Which one is followed by a wrong one, counted from 1.
        position: usize,
    },
    /// A certificate of a public CA comes without the intermediate certificate.
    #[error("{}: the intermediate certificate of {issuer} is missing; use the full chain", .cert.display())]
    NoIntermediate {
        /// The file of the certificate.
        cert: PathBuf,
        /// The issuer's name.
        issuer: String,
    },
    /// No DNS name is in the certificate and it is not the default: nobody will be shown it.
    #[error("{}: has no DNS name and is not the default, so no client will get it", .cert.display())]
    Unreachable {
        /// The file of the certificate.
        cert: PathBuf,
    },
    /// Two certificates with keys of one kind have the same name; the first one named is used.
    #[error("{}: also has a certificate for {name}; {} is used", .unused.display(), .used.display())]
    DuplicateName {
        /// The name in question.
        name: String,
        /// The file whose certificate is shown.
        used: PathBuf,
        /// The file whose certificate is not shown for this name.
        unused: PathBuf,
    },
    /// The OCSP response speaks of other certificates; it is not stapled.
    #[error("{}: is about another certificate than {} and is not stapled", .ocsp.display(), .cert.display())]
    OcspOfAnother {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the OCSP response.
        ocsp: PathBuf,
    },
    /// The OCSP response is past its `nextUpdate`; it is not stapled.
    #[error("{}: is out of date and is not stapled", .ocsp.display())]
    OcspOutOfDate {
        /// The file of the OCSP response.
        ocsp: PathBuf,
    },
    /// A file with secrets can be read by every user of the machine.
    #[error("{}: holds secret keys and every user can read it; chmod o-r", .path.display())]
    ReadableByOthers {
        /// The file.
        path: PathBuf,
    },
}

fn hint_of_der(der: bool) -> &'static str {
    match der {
        true => "; it is in DER, convert it with: openssl x509 -inform der",
        false => "",
    }
}

fn owned_by(owner: &Option<PathBuf>) -> String {
    match owner {
        Some(path) => format!("; this is the key of {}", path.display()),
        None => String::new(),
    }
}

fn in_brackets(kind: &str) -> String {
    match kind {
        "" => String::new(),
        kind => format!(" ({kind})"),
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}
