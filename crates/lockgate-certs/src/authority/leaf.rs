//! What is asked of our own authority, and what it issues: certificates for servers and clients.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use lockgate_rules::CertKeyKind;
use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize, SanType,
};

use super::ca_cert::{CaCert, LONGEST_COMMON_NAME, named, params};
use super::error::AuthorityError;
use super::names::certificate_name;
use super::pem::KeyPem;
use super::period::{LEAF_LIFE, LONGEST_LEAF, SHORTEST_LEAF, ValidityPeriod};

/// The most names and addresses of a certificate: the limit of public authorities, which keeps
/// handshakes small.
pub const MOST_NAMES: usize = 100;

/// A certificate that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafRequest {
    /// DNS names, also wildcards such as `*.example.lan`; see [`certificate_name`].
    pub names: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The peer that shows it.
    pub usage: LeafUsage,
    /// The kind of its key.
    pub key: CertKeyKind,
    /// For how long it is valid: from an hour to [`LONGEST_LEAF`].
    pub life: Duration,
}

/// The peer that shows a certificate (RFC 5280 §4.2.1.12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeafUsage {
    /// A server. Needs a name or an address.
    Server,
    /// A client.
    Client {
        /// The name by which servers know it: 1 to 64 characters.
        common_name: String,
    },
}

/// A certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCert {
    /// The certificate, then the intermediate certificate, in PEM; without the root, which a peer must
    /// have already (RFC 8446 §4.4.2).
    pub chain_pem: String,
    /// Its private key.
    pub key_pem: KeyPem,
    /// When it is valid. It never outlives the intermediate certificate, so it may end earlier than was
    /// asked for.
    pub period: ValidityPeriod,
}

impl LeafRequest {
    /// A certificate of a server for one name or address, as it is renewed by itself: ECDSA P-256, for
    /// [`LEAF_LIFE`].
    pub fn for_host(host: &str) -> Self {
        let address = host.parse::<IpAddr>().ok();
        Self {
            names: match address {
                Some(_) => Vec::new(),
                None => vec![host.to_owned()],
            },
            addresses: address.into_iter().collect(),
            usage: LeafUsage::Server,
            key: CertKeyKind::EcdsaP256,
            life: LEAF_LIFE,
        }
    }

    /// The checked parameters of the certificate.
    pub(super) fn params(
        &self,
        intermediate: &CaCert,
        now: SystemTime,
    ) -> Result<(CertificateParams, ValidityPeriod), AuthorityError> {
        if !(SHORTEST_LEAF..=LONGEST_LEAF).contains(&self.life) {
            return Err(AuthorityError::Life);
        }
        let period = ValidityPeriod::from_now(now, self.life)?.within(&intermediate.period());
        let names = self.alternative_names()?;
        let mut params = params(period)?;
        let (usage, common_name) = match &self.usage {
            LeafUsage::Server => {
                let first = names.first().ok_or(AuthorityError::NoNames)?;
                (ExtendedKeyUsagePurpose::ServerAuth, shown(first))
            }
            LeafUsage::Client { common_name } => {
                let is_name = (1..=LONGEST_COMMON_NAME).contains(&common_name.chars().count())
                    && !common_name.chars().any(char::is_control);
                if !is_name {
                    return Err(AuthorityError::CommonName);
                }
                (
                    ExtendedKeyUsagePurpose::ClientAuth,
                    Some(common_name.clone()),
                )
            }
        };
        // Without it, rcgen makes the alternative names critical, as RFC 5280 §4.1.2.6 wants it.
        if let Some(common_name) = common_name {
            params = named(params, &common_name);
        }
        params.subject_alt_names = names;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        Ok((params, period))
    }

    /// Its names and addresses, each once.
    fn alternative_names(&self) -> Result<Vec<SanType>, AuthorityError> {
        let mut found = Vec::new();
        for written in &self.names {
            let name = certificate_name(written).map_err(|fault| AuthorityError::Name {
                name: written.clone(),
                fault,
            })?;
            found.push(SanType::DnsName(name.try_into()?));
        }
        found.extend(self.addresses.iter().copied().map(SanType::IpAddress));
        let mut names: Vec<SanType> = Vec::new();
        for name in found {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        match names.len() {
            count if count > MOST_NAMES => Err(AuthorityError::TooManyNames {
                count,
                most: MOST_NAMES,
            }),
            _ => Ok(names),
        }
    }
}

/// A name as the common name, which people look at and clients do not; nothing for one that is too long
/// for it.
fn shown(name: &SanType) -> Option<String> {
    let text = match name {
        SanType::DnsName(name) => name.to_string(),
        SanType::IpAddress(address) => address.to_string(),
        _ => return None,
    };
    (text.len() <= LONGEST_COMMON_NAME).then_some(text)
}

/// Issues what was asked for, in the name of the intermediate certificate.
pub(super) fn issue(
    request: &LeafRequest,
    intermediate: &CaCert,
    issuer: &Issuer<'_, KeyPair>,
    now: SystemTime,
) -> Result<IssuedCert, AuthorityError> {
    let (params, period) = request.params(intermediate, now)?;
    let key = match request.key {
        CertKeyKind::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
        CertKeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?,
    };
    let leaf = params.signed_by(&key, issuer)?;
    Ok(IssuedCert {
        chain_pem: leaf.pem() + &intermediate.pem(),
        key_pem: KeyPem::new(key.serialize_pem()),
        period,
    })
}
