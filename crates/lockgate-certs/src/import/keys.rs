//! Keys of accounts, as other programs store them: those of ECDSA over P-256 become PKCS#8, others
//! are refused with the reason.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;

use super::SecretText;
use crate::authority::pem::pem;

const NOT_P256: &str = "the account's key is not ECDSA over P-256: a new account is made instead";

/// A private key as JSON (RFC 7517); of RSA only its kind is read.
#[derive(Deserialize)]
pub(super) struct JsonWebKey {
    kty: String,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    d: Option<SecretText>,
}

fn secret<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<SecretText>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.map(|text| SecretText(text.into_bytes())))
}

/// The key of an account in PEM (RFC 5915, PKCS#8), as PKCS#8 in PEM.
pub(super) fn account_key_of_pem(pem: &[u8]) -> Result<String, String> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "the account's key is no PEM")?;
    account_key_of_der(key.secret_der())
}

/// The same of DER.
pub(super) fn account_key_of_der(der: &[u8]) -> Result<String, String> {
    let key = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der);
    written(key)
}

/// The same of a JSON Web Key.
pub(super) fn account_key_of_jwk(key: &JsonWebKey) -> Result<String, String> {
    if key.kty != "EC" || key.crv.as_deref() != Some("P-256") {
        return Err(NOT_P256.to_owned());
    }
    let decoded = |text: Option<&[u8]>| {
        let text = std::str::from_utf8(text?).ok()?;
        Base64UrlUnpadded::decode_vec(text).ok()
    };
    let (x, y) = (key.x.as_deref(), key.y.as_deref());
    let parts = decoded(x.map(str::as_bytes))
        .zip(decoded(y.map(str::as_bytes)))
        .zip(decoded(key.d.as_ref().map(|d| d.0.as_slice())));
    let ((x, y), d) = parts.ok_or("the account's key is broken")?;
    // An uncompressed point (SEC 1 §2.3.3).
    let public = [&[4][..], &x, &y].concat();
    written(EcdsaKeyPair::from_private_key_and_public_key(
        &ECDSA_P256_SHA256_FIXED_SIGNING,
        &d,
        &public,
    ))
}

fn written(key: Result<EcdsaKeyPair, aws_lc_rs::error::KeyRejected>) -> Result<String, String> {
    let key = key.map_err(|_| NOT_P256.to_owned())?;
    let der = key.to_pkcs8v1().map_err(|_| NOT_P256.to_owned())?;
    Ok(pem(der.as_ref(), "PRIVATE KEY"))
}
