//! Certificates of clients: whether one is wanted, and which CAs may have signed it.
//!
//! Fails closed: without a usable CA file there is no verifier and the listener does not start.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::error::CertError;
use super::pem;

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuthMode {
    /// It may go without; one that it does show must be good.
    Request,
    /// It must show a good one.
    Require,
}

/// The rules of a listener for certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthSettings {
    /// Whether one must be shown.
    pub mode: ClientAuthMode,
    /// PEM file of the CAs that are trusted to sign them. Their names are told to the client.
    pub ca: PathBuf,
}

/// The rules, loaded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientRules {
    mode: ClientAuthMode,
    /// In an order of its own, so that the order in the file does not matter to tickets.
    authorities: Vec<CertificateDer<'static>>,
}

impl ClientRules {
    pub(super) fn load(settings: &ClientAuthSettings) -> Result<Self, CertError> {
        let mut authorities = pem::read_certificates(&settings.ca)?;
        let mut roots = RootCertStore::empty();
        for (index, der) in authorities.iter().enumerate() {
            roots.add(der.clone()).map_err(|error| CertError::BadCertificate {
                path: settings.ca.clone(),
                position: index + 1,
                reason: error.to_string(),
            })?;
        }
        authorities.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
        authorities.dedup();
        Ok(Self { mode: settings.mode, authorities })
    }

    pub(super) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let mut roots = RootCertStore::empty();
        for der in &self.authorities {
            roots.add(der.clone()).map_err(|error| error.to_string())?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let builder = match self.mode {
            ClientAuthMode::Request => builder.allow_unauthenticated(),
            ClientAuthMode::Require => builder,
        };
        builder.build().map_err(|error| error.to_string())
    }

    /// What distinguishes these rules from others, for the scope of tickets.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mode: &[u8] = match self.mode {
            ClientAuthMode::Request => b"request",
            ClientAuthMode::Require => b"require",
        };
        std::iter::once(mode).chain(self.authorities.iter().map(AsRef::as_ref))
    }
}

/// The common name of a certificate in DER, as the log and PROXY protocol v2 tell it.
///
/// `None` if there is none, it is no text, or the certificate cannot be parsed. Of several the last,
/// which is the most specific one.
pub fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    certificate.subject().iter_common_name().last()?.as_str().ok().map(str::to_owned)
}
