//! The contents of certificates: names, validity, issuers.
//!
//! Verifies nothing: it reads our own certificates, while rustls verifies a client's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use super::error::{CertError, Warning};
use super::private_key::KeyKind;

/// The contents of a certificate.
#[derive(Clone, Debug)]
pub struct CertFacts {
    /// DNS names in lower case, wildcards as `*.example.com`: the subject alternative names, or the
    /// common name if there are none.
    pub names: Vec<String>,
    /// IP addresses among the subject alternative names. SNI has no addresses (RFC 6066 §3).
    pub addresses: Vec<IpAddr>,
    /// The start of its validity.
    pub not_before: SystemTime,
    /// The end of its validity.
    pub not_after: SystemTime,
    /// The distinguished name of the subject.
    pub subject: String,
    /// The distinguished name of the issuer.
    pub issuer: String,
    /// The kind of its public key.
    pub key: KeyKind,
    pub(super) serial: Vec<u8>,
    pub(super) public_key: Vec<u8>,
}

impl CertFacts {
    pub(super) fn of(leaf: &X509Certificate<'_>, path: &Path) -> Result<Self, CertError> {
        let key = KeyKind::of(leaf).map_err(|kind| CertError::UnsupportedKey {
            path: path.to_owned(),
            kind,
        })?;
        let (names, addresses) = names(leaf);
        Ok(Self {
            names,
            addresses,
            not_before: system_time(leaf.validity().not_before.timestamp()),
            not_after: system_time(leaf.validity().not_after.timestamp()),
            subject: leaf.subject().to_string(),
            issuer: leaf.issuer().to_string(),
            key,
            serial: leaf.raw_serial().to_vec(),
            public_key: leaf.public_key().raw.to_vec(),
        })
    }

    /// Its SubjectPublicKeyInfo in DER: certificates for one key have the same.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }
}

/// Parses every certificate of a file.
pub(super) fn parse_chain<'a>(
    chain: &'a [CertificateDer<'static>],
    path: &Path,
) -> Result<Vec<X509Certificate<'a>>, CertError> {
    let parse = |(index, der): (usize, &'a CertificateDer<'static>)| {
        X509Certificate::from_der(der)
            .map(|(_, parsed)| parsed)
            .map_err(|error| CertError::BadCertificate {
                path: path.to_owned(),
                position: index + 1,
                reason: error.to_string(),
            })
    };
    chain.iter().enumerate().map(parse).collect()
}

/// Whether there are certificates, and each is an authority's (RFC 5280 §4.2.1.9).
pub(super) fn are_authorities(chain: &[CertificateDer<'static>], path: &Path) -> bool {
    parse_chain(chain, path).is_ok_and(|all| !all.is_empty() && all.iter().all(|one| one.is_ca()))
}

/// Faults of a chain that may keep clients from finding a path to a root.
pub(super) fn chain_warnings(chain: &[X509Certificate<'_>], path: &Path) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let follows =
        |pair: &[X509Certificate<'_>]| pair[0].issuer().as_raw() == pair[1].subject().as_raw();
    if let Some(index) = chain.windows(2).position(|pair| !follows(pair)) {
        warnings.push(Warning::ChainOrder {
            cert: path.to_owned(),
            position: index + 1,
        });
    }
    // Certificates of public CAs name the URL of their intermediate (RFC 5280 §4.2.2.1), and roots
    // never sign sites; a private CA mostly does neither, so that its lone certificates are in
    // order.
    if let [only] = chain
        && only.subject().as_raw() != only.issuer().as_raw()
        && only.extensions().iter().any(|ext| {
            matches!(
                ext.parsed_extension(),
                ParsedExtension::AuthorityInfoAccess(_)
            )
        })
    {
        warnings.push(Warning::NoIntermediate {
            cert: path.to_owned(),
            issuer: only.issuer().to_string(),
        });
    }
    warnings
}

fn names(leaf: &X509Certificate<'_>) -> (Vec<String>, Vec<IpAddr>) {
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    if let Ok(Some(alternative)) = leaf.subject_alternative_name() {
        for name in &alternative.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.push(normal(name)),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => {}
            }
        }
    } else {
        // RFC 6125 §6.4.4: the common name counts only where no alternative name is given.
        let common = leaf
            .subject()
            .iter_common_name()
            .filter_map(|name| name.as_str().ok());
        names.extend(common.map(normal));
    }
    names.dedup();
    (names, addresses)
}

fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).into());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).into()))
        .ok()
}

/// A time of ASN.1, in seconds since 1970.
pub(super) fn system_time(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}
