//! Keys of certificates, requests for them (RFC 2986), and the certificates of TLS-ALPN-01.
//!
//! Keeps nothing: see `store`.

use lockgate_net::tls::ChallengeCert;
use lockgate_rules::CertKeyKind;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256,
};

use crate::error::{Failure, FailureKind};

/// Makes a key, in PKCS#8 and PEM. One of RSA takes up to a second.
pub(crate) fn generate(kind: CertKeyKind) -> Result<String, Failure> {
    let algorithm = match kind {
        CertKeyKind::EcdsaP256 => &PKCS_ECDSA_P256_SHA256,
        CertKeyKind::Rsa2048 => &PKCS_RSA_SHA256,
    };
    let key = KeyPair::generate_for(algorithm).map_err(of_rcgen)?;
    Ok(key.serialize_pem())
}

/// A request for the certificate of a name, in DER.
pub(crate) fn request(key_pem: &str, name: &str) -> Result<Vec<u8>, Failure> {
    let key = KeyPair::from_pem(key_pem).map_err(of_rcgen)?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(of_rcgen)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(of_rcgen)?;
    Ok(request.der().to_vec())
}

/// The public half of a key, as a certificate has it (SubjectPublicKeyInfo, in DER).
pub(crate) fn public_key(key_pem: &str) -> Option<Vec<u8>> {
    use rcgen::PublicKeyData as _;
    let key = KeyPair::from_pem(key_pem).ok()?;
    Some(key.subject_public_key_info())
}

/// The certificate by which a name is proved over TLS (RFC 8737 §3): `digest` is that of the key
/// authorization.
pub(crate) fn challenge_cert(name: &str, digest: &[u8]) -> Result<ChallengeCert, Failure> {
    let key = KeyPair::generate().map_err(of_rcgen)?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(of_rcgen)?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let cert = params.self_signed(&key).map_err(of_rcgen)?;
    ChallengeCert::new(cert.der().to_vec(), key.serialize_der())
        .map_err(|error| Failure::new(FailureKind::NoChallenge, error))
}

fn of_rcgen(error: rcgen::Error) -> Failure {
    Failure::new(FailureKind::Rejected, error.to_string())
}
