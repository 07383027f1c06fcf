//! Throw-away certificates, keys and files for the tests of this room.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
pub(crate) use rcgen::{
    PKCS_ECDSA_P256_SHA256 as P256, PKCS_ECDSA_P384_SHA384 as P384, PKCS_ED25519 as ED25519,
    PKCS_RSA_SHA256 as RSA,
};
use rustls::pki_types::CertificateDer;

/// A certificate authority of a test.
pub(crate) struct Ca {
    cert: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Issued {
    pub(crate) cert: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        Self::signed(name, |params, key| params.self_signed(key).unwrap())
    }

    /// A CA below this one.
    pub(crate) fn intermediate(&self, name: &str) -> Self {
        Self::signed(name, |params, key| {
            params.signed_by(key, &self.issuer).unwrap()
        })
    }

    fn signed(
        name: &str,
        sign: impl Fn(&CertificateParams, &KeyPair) -> rcgen::Certificate,
    ) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let cert = sign(&params, &key);
        Self {
            cert,
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, &P256, |_| {})
    }

    pub(crate) fn issue_with(
        &self,
        names: &[&str],
        algorithm: &'static rcgen::SignatureAlgorithm,
        change: impl Fn(&mut CertificateParams),
    ) -> Issued {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Issued { cert, key }
    }

    pub(crate) fn pem(&self) -> String {
        self.cert.pem()
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.cert.der().clone()
    }
}

impl Issued {
    pub(crate) fn pem(&self) -> String {
        self.cert.pem()
    }

    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Certificate and key in one file.
    pub(crate) fn both(&self) -> String {
        self.pem() + &self.key_pem()
    }

    /// The key inside PKCS#8 (RFC 5958 §2): SEC 1 for EC keys, PKCS#1 for RSA.
    pub(crate) fn bare_key_pem(&self, label: &str) -> String {
        let der = self.key.serialize_der();
        let (_, info, _) = element(&der);
        let (_, _, rest) = element(info); // version
        let (_, _, rest) = element(rest); // algorithm
        pem(label, element(rest).1)
    }
}

/// A folder that is removed after the test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file atomically: beside it first, then renamed into place.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let (path, beside) = (self.path(name), self.path("written beside"));
        std::fs::write(&beside, content).unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        path
    }
}

/// A section of PEM.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
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

/// A response of a responder that signs with zeros, with the status good for one certificate.
pub(crate) fn ocsp_response(serial: &[u8], next_update: &str) -> Vec<u8> {
    let sequence = |parts: &[Vec<u8>]| der(0x30, &parts.concat());
    let time = |text: &str| der(0x18, text.as_bytes());
    let sha1 = sequence(&[der(0x06, &[0x2b, 0x0e, 0x03, 0x02, 0x1a])]);
    let id = sequence(&[
        sha1.clone(),
        der(0x04, &[1; 20]),
        der(0x04, &[2; 20]),
        der(0x02, serial),
    ]);
    let single = sequence(&[
        id,
        der(0x80, &[]),
        time("20200101000000Z"),
        der(0xa0, &time(next_update)),
    ]);
    let responder = der(0xa2, &der(0x04, &[3; 20]));
    let data = sequence(&[responder, time("20200101000000Z"), sequence(&[single])]);
    let basic = sequence(&[data, sha1, der(0x03, &[0; 33])]);
    let oid = der(0x06, &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1]);
    let bytes = sequence(&[oid, der(0x04, &basic)]);
    sequence(&[der(0x0a, &[0]), der(0xa0, &bytes)])
}

/// One element of DER.
pub(crate) fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = match content.len() {
        short @ ..128 => vec![short as u8],
        long => [&[0x82][..], &(long as u16).to_be_bytes()].concat(),
    };
    [&[tag], &length[..], content].concat()
}

fn element(der: &[u8]) -> (u8, &[u8], &[u8]) {
    let (head, length) = match der[1] {
        short @ ..=0x7f => (2, usize::from(short)),
        0x81 => (3, usize::from(der[2])),
        _ => (4, usize::from(der[2]) << 8 | usize::from(der[3])),
    };
    (der[0], &der[head..head + length], &der[head + length..])
}
