//! Certificates of authorities: how they are made, and what is read of one that was made before.
//!
//! Touches no file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SerialNumber, date_time_ymd,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::error::AuthorityError;
use super::pem::certificate_pem;
use super::period::{INTERMEDIATE_LIFE, ROOT_LIFE, ValidityPeriod};

/// The longest common name (RFC 5280, appendix A.1: ub-common-name).
pub(super) const LONGEST_COMMON_NAME: usize = 64;

/// The certificate of an authority: the root, or the intermediate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaCert {
    der: Vec<u8>,
    subject: String,
    period: ValidityPeriod,
}

impl CaCert {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// What is wrong with it, in words for its owner.
    pub(super) fn parse(der: Vec<u8>) -> Result<Self, String> {
        let parsed = parse(&der)?;
        if !parsed.is_ca() {
            return Err("it is not the certificate of an authority".to_owned());
        }
        let validity = parsed.validity();
        let (subject, period) = (
            parsed.subject().to_string(),
            ValidityPeriod {
                not_before: time(validity.not_before.timestamp()),
                not_after: time(validity.not_after.timestamp()),
            },
        );
        Ok(Self {
            der,
            subject,
            period,
        })
    }

    /// Its distinguished name, as `CN=Lockgate root 5f0c91d2 of web1`.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// When it is valid.
    pub fn period(&self) -> ValidityPeriod {
        self.period
    }

    /// The certificate in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The certificate in PEM.
    pub fn pem(&self) -> String {
        certificate_pem(&self.der)
    }

    /// The SHA-256 of its DER, as `openssl x509 -fingerprint -sha256` shows it.
    pub fn sha256(&self) -> String {
        let hash = digest(&SHA256, &self.der);
        let bytes = hash.as_ref().iter().map(|byte| format!("{byte:02X}"));
        bytes.collect::<Vec<_>>().join(":")
    }

    /// Whether `issuer` has signed it.
    pub(super) fn is_signed_by(&self, issuer: &Self) -> bool {
        let (Ok(this), Ok(issuer)) = (parse(&self.der), parse(&issuer.der)) else {
            return false;
        };
        this.issuer().as_raw() == issuer.subject().as_raw()
            && this.verify_signature(Some(issuer.public_key())).is_ok()
    }

    /// Whether its public key belongs to this private key.
    pub(super) fn has_key(&self, key: &KeyPair) -> bool {
        let public =
            parse(&self.der).map(|this| this.public_key().subject_public_key.data.to_vec());
        public.is_ok_and(|public| public == key.public_key_raw())
    }

    /// What signs in its name with its private key.
    pub(super) fn issuer(&self, key: KeyPair) -> Result<Issuer<'static, KeyPair>, AuthorityError> {
        Ok(Issuer::from_ca_cert_der(&self.der.as_slice().into(), key)?)
    }
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) => Err("bytes follow the certificate".to_owned()),
        Err(error) => Err(format!("it is no certificate: {error}")),
    }
}

/// A time of ASN.1, which begins with the year 0.
fn time(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds < 0 {
        true => UNIX_EPOCH.checked_sub(distance),
        false => UNIX_EPOCH.checked_add(distance),
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// A new key of an authority. ECDSA over P-256: every client has it, and its signatures are small and
/// quickly verified.
pub(super) fn new_key() -> Result<KeyPair, AuthorityError> {
    Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
}

/// A root certificate for `key` on the machine `host`.
///
/// Its name has a part of the key's identifier: the roots of two machines differ, and one that is made
/// again for the same key has the same name.
pub(super) fn new_root(
    key: &KeyPair,
    host: &str,
    now: SystemTime,
) -> Result<CaCert, AuthorityError> {
    let period = ValidityPeriod::from_now(now, ROOT_LIFE)?;
    let params = ca_params(period, 1)?;
    let mut name = format!("Lockgate root {}", short_id(&params, key));
    if !host.is_empty() {
        name = format!("{name} of {host}");
    }
    name.truncate(LONGEST_COMMON_NAME);
    let params = named(params, &name);
    let der = params.self_signed(key)?.der().to_vec();
    CaCert::parse(der).map_err(AuthorityError::Crypto)
}

/// An intermediate certificate for `key`, signed by the root; it does not outlive it.
pub(super) fn new_intermediate(
    key: &KeyPair,
    root: &CaCert,
    root_issuer: &Issuer<'_, KeyPair>,
    now: SystemTime,
) -> Result<CaCert, AuthorityError> {
    let period = ValidityPeriod::from_now(now, INTERMEDIATE_LIFE)?.within(&root.period());
    let params = ca_params(period, 0)?;
    let name = format!("Lockgate intermediate {}", short_id(&params, key));
    let mut params = named(params, &name);
    params.use_authority_key_identifier_extension = true;
    let der = params.signed_by(key, root_issuer)?.der().to_vec();
    CaCert::parse(der).map_err(AuthorityError::Crypto)
}

/// What both have: each may sign certificates for TLS, and nothing else. A client that trusts the root then
/// does not trust it for mail or programs.
fn ca_params(period: ValidityPeriod, below: u8) -> Result<CertificateParams, AuthorityError> {
    let mut params = params(period)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

/// Parameters with a validity, a serial number of 128 random bits, and no name.
pub(super) fn params(period: ValidityPeriod) -> Result<CertificateParams, AuthorityError> {
    let mut serial = [0; 16];
    let filled = aws_lc_rs::rand::fill(&mut serial);
    filled.map_err(|_| AuthorityError::Crypto("there is no randomness".to_owned()))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let epoch = date_time_ymd(1970, 1, 1);
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = epoch + since(period.not_before);
    params.not_after = epoch + since(period.not_after);
    Ok(params)
}

/// Parameters with a common name.
pub(super) fn named(mut params: CertificateParams, common_name: &str) -> CertificateParams {
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params
}

/// The first 32 bits of the key's identifier.
fn short_id(params: &CertificateParams, key: &KeyPair) -> String {
    let id = params.key_identifier(key);
    id.iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
