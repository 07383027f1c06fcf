//! Root, intermediate and the certificates below them.
//!
//! Whether an order may have one, `answer` knows.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::fault::WrongChain;
use super::jws::coded;
use super::problem::Problem;

/// The keys that sign.
pub(super) struct Issuing {
    /// The root, in PEM.
    pub(super) root: String,
    intermediate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A new certificate.
pub(super) struct New {
    pub(super) der: Vec<u8>,
    /// It and its intermediate, in PEM.
    pub(super) chain: String,
    /// What RFC 9773 §4.1 calls it.
    pub(super) id: String,
}

impl Issuing {
    pub(super) fn new() -> Self {
        let (root_params, root_key) = authority("Lockgate test root");
        let root = root_params
            .self_signed(&root_key)
            .expect("the parameters are whole");
        let root_issuer = Issuer::new(root_params, root_key);
        let (params, key) = authority("Lockgate test intermediate");
        let intermediate = params
            .signed_by(&key, &root_issuer)
            .expect("the parameters are whole");
        Self {
            root: root.pem(),
            intermediate: intermediate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for `names` and the key of `request`, valid from `start` to `end`.
    pub(super) fn issue(
        &self,
        names: &[String],
        key: &impl PublicKeyData,
        (start, end): (SystemTime, SystemTime),
    ) -> New {
        let mut params = CertificateParams::new(names).expect("names that were judged before");
        // Short ones only: the text has 64 characters at most (RFC 5280, appendix A).
        if let Some(first) = names.first().filter(|name| name.len() <= 64) {
            params
                .distinguished_name
                .push(DnType::CommonName, first.as_str());
        }
        params.not_before = start.into();
        params.not_after = end.into();
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut serial = [0; 16];
        aws_lc_rs::rand::fill(&mut serial).expect("there is randomness");
        // Positive, and of this length.
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(serial.to_vec().into());
        let certificate = params
            .signed_by(key, &self.issuer)
            .expect("the parameters are whole");
        let der = certificate.der().to_vec();
        New {
            id: identifier(&der),
            chain: certificate.pem() + &self.intermediate,
            der,
        }
    }

    /// What is downloaded instead of the chain of a certificate for `names` and `key`.
    pub(super) fn wrong_chain(
        &self,
        wrong: WrongChain,
        names: &[String],
        key: &impl PublicKeyData,
        validity: (SystemTime, SystemTime),
    ) -> String {
        let year_2020 = (
            UNIX_EPOCH + Duration::from_secs(1_577_836_800),
            UNIX_EPOCH + Duration::from_secs(1_609_459_199),
        );
        match wrong {
            WrongChain::OtherKey => {
                let other = KeyPair::generate().expect("there is randomness");
                self.issue(names, &other, validity).chain
            }
            WrongChain::OtherName => {
                self.issue(&["wrong.example".to_owned()], key, validity)
                    .chain
            }
            WrongChain::Expired => self.issue(names, key, year_2020).chain,
            WrongChain::Alone => {
                let chain = self.issue(names, key, validity).chain;
                chain
                    .strip_suffix(self.intermediate.as_str())
                    .map(str::to_owned)
                    .unwrap_or_default()
            }
            WrongChain::Empty => "\n".to_owned(),
        }
    }
}

fn authority(name: &str) -> (CertificateParams, KeyPair) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (params, KeyPair::generate().expect("there is randomness"))
}

/// A request for a certificate, for exactly `names` (RFC 8555 §7.4).
pub(super) fn request(
    der: Vec<u8>,
    names: &[String],
) -> Result<CertificateSigningRequestParams, Problem> {
    let bad = |detail: String| Problem::new(400, "badCSR", detail);
    let request = CertificateSigningRequestParams::from_der(&der.into())
        .map_err(|error| bad(error.to_string()))?;
    let mut asked = BTreeSet::new();
    for name in &request.params.subject_alt_names {
        match name {
            SanType::DnsName(name) => asked.insert(name.as_str().to_lowercase()),
            other => return Err(bad(format!("a name of another kind: {other:?}"))),
        };
    }
    if let Some(rcgen::DnValue::Utf8String(name)) =
        request.params.distinguished_name.get(&DnType::CommonName)
    {
        asked.insert(name.to_lowercase());
    }
    let ordered: BTreeSet<_> = names.iter().cloned().collect();
    match asked == ordered {
        true => Ok(request),
        false => Err(bad(format!("{asked:?} are not the order's {ordered:?}"))),
    }
}

/// The key identifier of the issuer and the serial number (RFC 9773 §4.1).
fn identifier(der: &[u8]) -> String {
    let (_, certificate) = X509Certificate::from_der(der).expect("we have made it");
    let issuer = certificate
        .iter_extensions()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(issuer) => issuer.key_identifier.as_ref(),
            _ => None,
        })
        .expect("we have put it there");
    let serial = certificate.tbs_certificate.raw_serial();
    format!("{}.{}", coded(issuer.0), coded(serial))
}

/// The point of an ECDSA key of a certificate, for requests that its key signs.
pub(super) fn public_point(der: &[u8]) -> Vec<u8> {
    let (_, certificate) = X509Certificate::from_der(der).expect("we have made it");
    certificate.public_key().subject_public_key.data.to_vec()
}
