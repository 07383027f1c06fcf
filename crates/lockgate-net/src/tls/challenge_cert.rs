//! The certificate of a challenge by TLS-ALPN-01 (RFC 8737), and the settings of its handshake.
//!
//! Does not make it: the order does.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::server::HandshakeSettings;

/// The protocol that a challenge by TLS-ALPN-01 negotiates (RFC 8737 §6.2).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// A certificate for handshakes with the protocol `acme-tls/1`.
#[derive(Clone)]
pub struct ChallengeCert(Arc<ServerConfig>);

impl ChallengeCert {
    /// A certificate in DER, and its key in PKCS#8.
    ///
    /// # Errors
    /// What rustls says of a key that it cannot use.
    pub fn new(cert: Vec<u8>, key: Vec<u8>) -> Result<Self, String> {
        let key = any_supported_type(&PrivatePkcs8KeyDer::from(key).into())
            .map_err(|error| error.to_string())?;
        // Not checked by rustls: its verifier knows no acmeIdentifier, which is critical.
        let certified = CertifiedKey::new(vec![CertificateDer::from(cert)], key);
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![ACME_TLS.to_vec()];
        // The record layer is our own: see `record`.
        config.enable_secret_extraction = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// The settings of a handshake that proves it.
    pub fn handshake(&self) -> HandshakeSettings {
        HandshakeSettings(Arc::clone(&self.0))
    }
}

impl fmt::Debug for ChallengeCert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChallengeCert").finish_non_exhaustive()
    }
}
