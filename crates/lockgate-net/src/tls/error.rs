//! Errors and warnings about TLS files, in the operator's words.
//!
//! Errors keep a listener from starting, or an old certificate in use on reload. Warnings stop
//! nothing. Both carry their paths, so that the caller can point at a line of the configuration.

use std::path::PathBuf;

use super::cert_files::CertFiles;

/// The reason why a file with certificates or keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertError {
    /// No file at the path, or a dangling symbolic link.
    #[error("{}: no such file", .path.display())]
    Missing {
        /// The path that was opened.
        path: PathBuf,
    },
    /// The system does not let us read the file.
    #[error("{}: cannot be read: {reason}", .path.display())]
    Unreadable {
        /// The path that was opened.
        path: PathBuf,
        /// The message of the system.
        reason: String,
    },
    /// The file is empty, or has only white space.
    #[error("{}: the file is empty", .path.display())]
    Empty {
        /// The file without content.
        path: PathBuf,
    },
    /// A PEM section without its end, or with broken base64.
    #[error("{}: broken PEM: {reason}", .path.display())]
    BrokenPem {
        /// The file with the section.
        path: PathBuf,
        /// The fault of the section.
        reason: String,
    },
    /// No `BEGIN CERTIFICATE` section in the file.
    #[error("{}: no certificate in this file{}", .path.display(), hint_of_der(*.der))]
    NoCertificate {
        /// The file without certificates.
        path: PathBuf,
        /// Whether the file looks like a certificate in DER, which is not supported.
        der: bool,
    },
    /// A section that is no X.509 certificate.
    #[error("{}: certificate {position} of the file is malformed: {reason}", .path.display())]
    BadCertificate {
        /// The file of the certificate.
        path: PathBuf,
        /// The number of the section, from 1.
        position: usize,
        /// The message of the X.509 parser.
        reason: String,
    },
    /// No private key for the certificate.
    #[error("{}: no private key: looked in {}", .cert.display(), list(.looked))]
    NoKey {
        /// The file of the certificate.
        cert: PathBuf,
        /// The files that were searched, in order.
        looked: Vec<PathBuf>,
    },
    /// A private key with a password.
    #[error("{}: the private key is encrypted; decrypt it with: openssl pkey -in {}", .path.display(), .path.display())]
    EncryptedKey {
        /// The file of the key.
        path: PathBuf,
    },
    /// A key with a kind or size that is not supported.
    #[error("{}: unsupported key{}; use ECDSA P-256 or P-384, Ed25519, or RSA of 2048 to 8192 bits", .path.display(), in_brackets(.kind))]
    UnsupportedKey {
        /// The file of the key or, if the certificate shows it first, of the certificate.
        path: PathBuf,
        /// The kind, as far as known; may be empty.
        kind: String,
    },
    /// A private key of another certificate.
    #[error("{}: not the key of {}{}", .key.display(), .cert.display(), owned_by(.owner))]
    Mismatch {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The file of the key's own certificate, if known.
        owner: Option<PathBuf>,
    },
    /// The key belongs to a certificate further down in the same file.
    #[error("{}: the key belongs to certificate {position} of the file; the site's own certificate must come first", .path.display())]
    LeafNotFirst {
        /// The file of the certificates.
        path: PathBuf,
        /// The number of the site's own certificate, from 1.
        position: usize,
    },
    /// The file for stapling is no successful OCSP response in DER (RFC 6960 §4.2.1).
    #[error("{}: no OCSP response: {reason}", .path.display())]
    BadOcsp {
        /// The file of the response.
        path: PathBuf,
        /// The fault of the response.
        reason: &'static str,
    },
}

/// The reason why TLS cannot start on a listener. All errors are reported at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsSetupError {
    /// A certificate could not be loaded.
    #[error("{error}")]
    Certificate {
        /// The entry of the settings.
        files: CertFiles,
        /// The first error of its files.
        error: CertError,
    },
    /// The CA file for client certificates could not be loaded: the listener does not start open.
    #[error("client certificates cannot be verified: {error}")]
    ClientCa {
        /// The file of the CA list.
        path: PathBuf,
        /// The error of that file.
        error: CertError,
    },
    /// Neither a certificate nor a default.
    #[error("no certificate is named")]
    NoCertificates,
    /// A protocol name for ALPN must have 1 to 255 bytes (RFC 7301 §3.1).
    #[error("an ALPN protocol name has {length} bytes; 1 to 255 are allowed")]
    AlpnLength {
        /// The length of the name in bytes.
        length: usize,
    },
    /// The TLS library refused the combination of settings.
    #[error("TLS settings refused: {reason}")]
    Refused {
        /// The message of rustls.
        reason: String,
    },
}

/// A condition that the operator should know, though everything works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The certificate is no longer valid; clients will refuse it.
    #[error("{}: expired {days} days ago", .cert.display())]
    Expired {
        /// The file of the certificate.
        cert: PathBuf,
        /// Whole days since it expired.
        days: u64,
    },
    /// The certificate expires within 14 days.
    #[error("{}: expires in {days} days", .cert.display())]
    ExpiresSoon {
        /// The file of the certificate.
        cert: PathBuf,
        /// Whole days until it expires.
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
        /// The number of the certificate before the wrong one, from 1.
        position: usize,
    },
    /// A certificate of a public CA without the intermediate certificate.
    #[error("{}: the intermediate certificate of {issuer} is missing; use the full chain", .cert.display())]
    NoIntermediate {
        /// The file of the certificate.
        cert: PathBuf,
        /// The distinguished name of the issuer.
        issuer: String,
    },
    /// A certificate without DNS names that is not the default: no client will get it.
    #[error("{}: has no DNS name and is not the default, so no client will get it", .cert.display())]
    Unreachable {
        /// The file of the certificate.
        cert: PathBuf,
    },
    /// Two certificates with keys of one kind have the same name; the first one is used.
    #[error("{}: also has a certificate for {name}; {} is used", .unused.display(), .used.display())]
    DuplicateName {
        /// The DNS name of both.
        name: String,
        /// The file of the certificate in use.
        used: PathBuf,
        /// The file of the certificate that is not used for this name.
        unused: PathBuf,
    },
    /// The OCSP response is for other certificates; it is not stapled.
    #[error("{}: is for another certificate than {}, and is not stapled", .ocsp.display(), .cert.display())]
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
    /// A certificate that the program has obtained before cannot be used: it is obtained again.
    #[error("{0}; a new certificate is obtained")]
    ManagedUnusable(CertError),
    /// A file with secrets that every user of the machine can read.
    #[error("{}: holds secret keys and every user can read it; chmod o-r", .path.display())]
    ReadableByOthers {
        /// The file that users can read.
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
