//! Signed requests (RFC 8555 §6.2): their parts, and whether the signature is right. ES256 only.
//!
//! Whose key it is, and whether the nonce is fresh, the caller knows.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Value, json};

use super::problem::Problem;

/// Bytes as base64url without padding.
pub(super) fn coded(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// The bytes of base64url without padding.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, Problem> {
    Base64UrlUnpadded::decode_vec(text)
        .map_err(|_| Problem::malformed("not base64url without padding"))
}

/// SHA-256.
pub(super) fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

/// The public key of an account, on P-256.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Jwk {
    x: String,
    y: String,
    /// The point, uncompressed (SEC 1 §2.3.3).
    pub(super) point: Vec<u8>,
}

impl Jwk {
    fn parse(json: &Value) -> Result<Self, Problem> {
        if text(json, "kty")? != "EC" || text(json, "crv")? != "P-256" {
            return Err(Problem::new(400, "badPublicKey", "a key on P-256, please"));
        }
        let (x, y) = (text(json, "x")?.to_owned(), text(json, "y")?.to_owned());
        let mut point = vec![4];
        point.extend(decoded(&x)?);
        point.extend(decoded(&y)?);
        if point.len() != 65 {
            return Err(Problem::new(400, "badPublicKey", "no point on P-256"));
        }
        Ok(Self { x, y, point })
    }

    /// RFC 7638 §3: members in order, no spaces.
    pub(super) fn thumbprint(&self) -> String {
        let members = format!(
            r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#,
            self.x, self.y
        );
        coded(&sha256(members.as_bytes()))
    }

    fn is(&self, json: &Value) -> bool {
        Self::parse(json).is_ok_and(|other| other == *self)
    }
}

/// How a request names its signer.
#[derive(Debug)]
pub(super) enum Signer {
    /// By an account's URL.
    Account(String),
    /// By a key.
    Key(Jwk),
}

/// A request whose signature is not checked yet.
#[derive(Debug)]
pub(super) struct Jws {
    pub(super) signer: Signer,
    pub(super) nonce: Option<String>,
    pub(super) url: String,
    payload: Vec<u8>,
    signed: String,
    signature: Vec<u8>,
}

impl Jws {
    pub(super) fn parse(body: &[u8]) -> Result<Self, Problem> {
        let json: Value = serde_json::from_slice(body)
            .map_err(|error| Problem::malformed(format!("the body: {error}")))?;
        let (header, signed) = header_and_signed(&json)?;
        if text(&header, "alg")? != "ES256" {
            return Err(Problem::new(
                400,
                "badSignatureAlgorithm",
                "ES256, and nothing else",
            ));
        }
        // RFC 8555 §6.2: exactly one of both.
        let signer = match (header.get("kid"), header.get("jwk")) {
            (Some(kid), None) => Signer::Account(kid.as_str().unwrap_or_default().to_owned()),
            (None, Some(jwk)) => Signer::Key(Jwk::parse(jwk)?),
            _ => return Err(Problem::malformed("either kid or jwk")),
        };
        Ok(Self {
            signer,
            nonce: header["nonce"].as_str().map(str::to_owned),
            url: text(&header, "url")?.to_owned(),
            payload: decoded(text(&json, "payload")?)?,
            signed,
            signature: decoded(text(&json, "signature")?)?,
        })
    }

    /// The payload, once it is known that `key` has signed it; `None` is an empty one (RFC 8555
    /// §6.3, "POST-as-GET").
    pub(super) fn verify(&self, key: &Jwk) -> Result<Option<Value>, Problem> {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key.point)
            .verify(self.signed.as_bytes(), &self.signature)
            .map_err(|_| Problem::malformed("the signature is not of this key"))?;
        if self.payload.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&self.payload)
            .map(Some)
            .map_err(|error| Problem::malformed(format!("the payload: {error}")))
    }
}

/// The identifier to which `binding` binds `account` (RFC 8555 §7.3.4), if its MAC is of `secret`.
pub(super) fn verify_binding(
    binding: &Value,
    account: &Jwk,
    url: &str,
    (id, secret): (&str, &[u8]),
) -> Result<(), Problem> {
    let (header, signed) = header_and_signed(binding)?;
    let payload: Value = serde_json::from_slice(&decoded(text(binding, "payload")?)?)
        .map_err(|_| Problem::malformed("the binding's payload is no JSON"))?;
    let mac = decoded(text(binding, "signature")?)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let right = header == json!({ "alg": "HS256", "kid": id, "url": url })
        && account.is(&payload)
        && hmac::verify(&key, signed.as_bytes(), &mac).is_ok();
    match right {
        true => Ok(()),
        false => Err(Problem::unauthorized("the external account is not known")),
    }
}

/// The protected header, and the text that is signed (RFC 7515 §5.1).
fn header_and_signed(json: &Value) -> Result<(Value, String), Problem> {
    let protected = text(json, "protected")?;
    let header = serde_json::from_slice(&decoded(protected)?)
        .map_err(|error| Problem::malformed(format!("the protected header: {error}")))?;
    Ok((header, format!("{protected}.{}", text(json, "payload")?)))
}

fn text<'a>(json: &'a Value, name: &str) -> Result<&'a str, Problem> {
    json[name]
        .as_str()
        .ok_or_else(|| Problem::malformed(format!("{name} is no text")))
}
