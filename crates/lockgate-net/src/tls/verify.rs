//! Client certificates: whether one is required, and the CAs that may sign it.
//!
//! Fails closed: without a usable CA file there is no verifier and the listener does not start.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{OtherError, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::error::CertError;
use super::pem;

/// Whether a client must send a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuthMode {
    /// Optional; if sent, it must be valid.
    Request,
    /// A verified certificate is required.
    Require,
}

/// The rules of a listener for client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthSettings {
    /// Whether a certificate is required.
    pub mode: ClientAuthMode,
    /// The PEM file of the trusted CAs. Their names are sent to the client.
    pub ca: PathBuf,
}

/// The rules for client certificates, with the CAs loaded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientRules {
    mode: ClientAuthMode,
    /// Sorted, so that the order in the file does not matter to tickets.
    authorities: Vec<CertificateDer<'static>>,
}

impl ClientRules {
    pub(super) fn load(settings: &ClientAuthSettings) -> Result<Self, CertError> {
        let mut authorities = pem::read_certificates(&settings.ca)?;
        let mut roots = RootCertStore::empty();
        for (index, der) in authorities.iter().enumerate() {
            roots
                .add(der.clone())
                .map_err(|error| CertError::BadCertificate {
                    path: settings.ca.clone(),
                    position: index + 1,
                    reason: error.to_string(),
                })?;
        }
        authorities.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
        authorities.dedup();
        Ok(Self {
            mode: settings.mode,
            authorities,
        })
    }

    pub(super) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let mut roots = RootCertStore::empty();
        for der in &self.authorities {
            roots.add(der.clone()).map_err(|error| error.to_string())?;
        }
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let builder = match self.mode {
            ClientAuthMode::Request => builder.allow_unauthenticated(),
            ClientAuthMode::Require => builder,
        };
        builder.build().map_err(|error| error.to_string())
    }

    /// The parts of the rules that enter the scope of tickets.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mode: &[u8] = match self.mode {
            ClientAuthMode::Request => b"request",
            ClientAuthMode::Require => b"require",
        };
        std::iter::once(mode).chain(self.authorities.iter().map(AsRef::as_ref))
    }
}

/// The common name of a certificate in DER, for the log and PROXY protocol v2.
///
/// `None` if there is none, it is no text, or the certificate cannot be parsed. Of several the
/// last, which is the most specific one.
pub fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    certificate
        .subject()
        .iter_common_name()
        .last()?
        .as_str()
        .ok()
        .map(str::to_owned)
}

/// Whether a certificate was refused for its version of X.509: all but 3 are. The verifier's own
/// error type cannot be named here.
pub(super) fn is_old_version(error: &OtherError) -> bool {
    error.0.to_string() == "UnsupportedCertVersion"
}

/// Whether a certificate was refused because it is an authority's, not a server's.
pub(super) fn is_authority(error: &OtherError) -> bool {
    error.0.to_string() == "CaUsedAsEndEntity"
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::UnixTime;

    use super::*;
    use crate::tls::handshake::HandshakeError;

    /// One element of DER at the front: its tag, and the bytes behind it.
    fn element(der: &[u8]) -> (&[u8], &[u8]) {
        let (header, length) = match der[1] {
            short @ 0..0x80 => (2, usize::from(short)),
            long => {
                let digits = usize::from(long & 0x7f);
                (
                    2 + digits,
                    der[2..2 + digits]
                        .iter()
                        .fold(0, |length, digit| length << 8 | usize::from(*digit)),
                )
            }
        };
        der.split_at(header + length)
    }

    fn inside(element: &[u8]) -> &[u8] {
        let digits = if element[1] < 0x80 {
            0
        } else {
            usize::from(element[1] & 0x7f)
        };
        &element[2 + digits..]
    }

    fn sequence(content: &[u8]) -> Vec<u8> {
        let length = match content.len() {
            short @ 0..0x80 => vec![short as u8],
            medium @ 0x80..0x100 => vec![0x81, medium as u8],
            long => vec![0x82, (long >> 8) as u8, long as u8],
        };
        [&[0x30], &length[..], content].concat()
    }

    /// The certificate as version 1: without its version and its extensions (RFC 5280 §4.1).
    fn version_1(der: &[u8]) -> Vec<u8> {
        let (signed, behind) = element(inside(element(der).0));
        let mut rest = inside(signed);
        let mut kept = Vec::new();
        while !rest.is_empty() {
            let (one, behind) = element(rest);
            if !matches!(one[0], 0xa0 | 0xa3) {
                kept.extend_from_slice(one);
            }
            rest = behind;
        }
        sequence(&[&sequence(&kept), behind].concat())
    }

    #[test]
    fn an_x509_version_1_certificate_is_refused_by_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let issued = rcgen::CertificateParams::new(["client.test".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, issued.pem()).unwrap();
        let settings = ClientAuthSettings {
            mode: ClientAuthMode::Require,
            ca,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = ClientRules::load(&settings)
            .unwrap()
            .verifier(&provider)
            .unwrap();
        let old = CertificateDer::from(version_1(issued.der()));
        let error = verifier
            .verify_client_cert(&old, &[], UnixTime::now())
            .unwrap_err();
        let error = HandshakeError::from(error);
        assert_eq!(
            error.to_string(),
            "the peer's certificate is X.509 version 1 or 2; version 3 is needed"
        );
        assert!(error.is_certificate() && error.reason() == "bad_certificate");
    }
}
