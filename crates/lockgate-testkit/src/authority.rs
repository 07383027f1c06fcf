//! Throw-away certificate authorities, certificates and their files.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
pub use rcgen::{
    PKCS_ECDSA_P256_SHA256 as P256, PKCS_ECDSA_P384_SHA384 as P384, PKCS_ED25519 as ED25519,
    PKCS_RSA_SHA256 as RSA,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate authority that only tests trust.
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Issued {
    /// The certificate.
    pub certificate: rcgen::Certificate,
    /// Its key.
    pub key: KeyPair,
}

impl Authority {
    /// Creates one.
    ///
    /// # Panics
    /// When there is no randomness.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("there is randomness");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = params.self_signed(&key).expect("the parameters are whole");
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for `names` with an ECDSA key.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, &P256, |_| {})
    }

    /// A certificate for `names` with a key of this `algorithm`; `change` may alter its parameters.
    ///
    /// # Panics
    /// When the parameters are invalid.
    pub fn issue_with(
        &self,
        names: &[&str],
        algorithm: &'static rcgen::SignatureAlgorithm,
        change: impl Fn(&mut CertificateParams),
    ) -> Issued {
        let owned: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(owned).expect("names of hosts");
        if let Some(first) = names.first() {
            params.distinguished_name.push(DnType::CommonName, *first);
        }
        change(&mut params);
        let key = KeyPair::generate_for(algorithm).expect("there is randomness");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("the parameters are whole");
        Issued { certificate, key }
    }

    /// A certificate for `names` that is an authority's, as some tools make it for servers.
    pub fn issue_as_authority(&self, names: &[&str]) -> Issued {
        self.issue_with(names, &P256, |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        })
    }

    /// A certificate for `names` that was valid in the year 2020 only.
    pub fn issue_expired(&self, names: &[&str]) -> Issued {
        self.issue_with(names, &P256, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2020, 12, 31);
        })
    }

    /// Its own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Its own certificate.
    pub fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }
}

impl Issued {
    /// The certificate, in PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// The key, in PEM.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Certificate and key in one file.
    pub fn both(&self) -> String {
        self.pem() + &self.key_pem()
    }

    /// The certificate.
    pub fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// The key.
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }
}

/// A directory that is removed after the test.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Creates one.
    ///
    /// # Panics
    /// When the disk is full.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory can be made"))
    }

    /// The path of the directory.
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file as careful tools do: beside it first, then renamed into place, readable by its
    /// owner only.
    ///
    /// # Panics
    /// When the disk is full.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        let beside = path.with_extension("beside");
        std::fs::write(&beside, content).expect("the disk has room");
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600))
            .expect("the file is ours");
        std::fs::rename(&beside, &path).expect("the file is ours");
        path
    }

    /// Writes a certificate with its key into one file; returns the path as a string.
    ///
    /// # Panics
    /// As [`Folder::write`].
    pub fn certificate(&self, name: &str, issued: &Issued) -> String {
        self.write(name, issued.both()).display().to_string()
    }
}

/// A section of PEM.
pub fn pem(label: &str, der: &[u8]) -> String {
    let lines: Vec<_> = der.chunks(48).map(base64).collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = three
            .iter()
            .fold(0, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        let digit = |at: usize| match at <= three.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]),
            false => '=',
        };
        [0, 1, 2, 3].map(digit)
    };
    bytes.chunks(3).flat_map(group).collect()
}
