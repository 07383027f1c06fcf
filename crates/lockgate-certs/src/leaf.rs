//! An issued chain: whether it is what was ordered, and what is known of its certificate.
//!
//! Verifies no signature: clients do, and the authority is one of the operator's choice.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;

use crate::schedule::Validity;

/// What is known of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The time in which it is valid.
    pub(crate) validity: Validity,
    /// Its DNS names, in lower case.
    pub(crate) names: Vec<String>,
    /// Its IP addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// The distinguished name of its issuer.
    pub(crate) issuer: String,
    /// Its SubjectPublicKeyInfo, in DER.
    pub(crate) public_key: Vec<u8>,
    /// Its identifier for ARI (RFC 9773 §4.1): the key identifier of its issuer and its serial
    /// number, both in base64url; `None` where it does not name its issuer's key.
    pub(crate) ari: Option<(String, String)>,
    /// Whether the file or the response has no other certificate.
    pub(crate) is_alone: bool,
    /// The certificate, in DER.
    pub(crate) der: Vec<u8>,
}

/// Why a chain is not what was ordered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChainError {
    #[error("the authority has sent no certificate")]
    NoCertificate,
    #[error("the authority has sent a broken certificate")]
    Malformed,
    #[error("the authority has sent a certificate for another key")]
    OtherKey,
    #[error("the authority has sent a certificate for other names: {0}")]
    OtherNames(String),
    #[error("the authority has sent a certificate that has expired")]
    Expired,
    #[error("certificate {0} of the chain is not followed by its issuer's")]
    Order(usize),
}

impl Leaf {
    /// Reads the first certificate of a PEM file.
    pub(crate) fn of_pem(pem: &[u8]) -> Result<Self, ChainError> {
        let mut certificates = CertificateDer::pem_slice_iter(pem);
        let first = certificates.next().ok_or(ChainError::NoCertificate)?;
        let first = first.map_err(|_| ChainError::Malformed)?;
        let (_, parsed) = X509Certificate::from_der(&first).map_err(|_| ChainError::Malformed)?;
        let mut leaf = Self::of(&parsed, &first).ok_or(ChainError::Malformed)?;
        leaf.is_alone = certificates.next().is_none();
        Ok(leaf)
    }

    /// Reads a chain that was issued for a name and a key.
    ///
    /// # Errors
    /// When it is for others, or clients would not accept it.
    pub(crate) fn of_chain(
        pem: &str,
        name: &str,
        public_key: &[u8],
        now: SystemTime,
    ) -> Result<Self, ChainError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let chain = chain.map_err(|_| ChainError::Malformed)?;
        let parsed: Result<Vec<_>, _> = chain
            .iter()
            .map(|der| X509Certificate::from_der(der).map(|(_, parsed)| parsed))
            .collect();
        let parsed = parsed.map_err(|_| ChainError::Malformed)?;
        let (Some(first), Some(der)) = (parsed.first(), chain.first()) else {
            return Err(ChainError::NoCertificate);
        };
        let mut leaf = Self::of(first, der).ok_or(ChainError::Malformed)?;
        leaf.is_alone = parsed.len() == 1;
        if leaf.public_key != public_key {
            return Err(ChainError::OtherKey);
        }
        if !leaf.names.iter().any(|found| found == name) {
            return Err(ChainError::OtherNames(leaf.names.join(", ")));
        }
        if leaf.validity.not_after <= now {
            return Err(ChainError::Expired);
        }
        let follows = |pair: &[X509Certificate<'_>]| match pair {
            [one, next] => one.issuer().as_raw() == next.subject().as_raw(),
            _ => true,
        };
        match parsed.windows(2).position(|pair| !follows(pair)) {
            Some(place) => Err(ChainError::Order(place + 1)),
            None => Ok(leaf),
        }
    }

    fn of(parsed: &X509Certificate<'_>, der: &CertificateDer<'_>) -> Option<Self> {
        let moment = |seconds: i64| {
            let seconds = u64::try_from(seconds).ok()?;
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
        };
        let validity = parsed.validity();
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let dns = names.clone().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        let addresses = names.filter_map(|name| match name {
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        });
        let issuer_key =
            parsed
                .extensions()
                .iter()
                .find_map(|extension| match extension.parsed_extension() {
                    ParsedExtension::AuthorityKeyIdentifier(found) => {
                        found.key_identifier.as_ref().map(|id| id.0)
                    }
                    _ => None,
                });
        Some(Self {
            validity: Validity {
                not_before: moment(validity.not_before.timestamp())?,
                not_after: moment(validity.not_after.timestamp())?,
            },
            names: dns.collect(),
            addresses: addresses.collect(),
            issuer: parsed.issuer().to_string(),
            public_key: parsed.public_key().raw.to_vec(),
            ari: issuer_key.map(|issuer| {
                let encode = Base64UrlUnpadded::encode_string;
                (encode(issuer), encode(parsed.raw_serial()))
            }),
            is_alone: true,
            der: der.to_vec(),
        })
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}
