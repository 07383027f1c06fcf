//! TLS as it will run: acceptors for clients, connectors to endpoints, the keys of tickets. Says of each mistake in
//! their files which one it is and what to do.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lockgate_config as config;
use lockgate_config::{At, Code};
use lockgate_net::tls::{
    self, Acceptor, CertError, Connector, ConnectorError, Policy, TicketRing, TlsSetupError, Warning,
};

use super::Mistakes;

/// The ticket keys: listeners with the same settings share theirs.
#[derive(Default)]
pub(super) struct Rings(Vec<(config::Tickets, Arc<TicketRing>)>);

impl Rings {
    /// All of them.
    pub(super) fn all(self) -> Vec<Arc<TicketRing>> {
        self.0.into_iter().map(|(_, ring)| ring).collect()
    }

    /// TLS of a listener that was written at `at`.
    pub(super) fn acceptor(
        &mut self,
        mistakes: &mut Mistakes<'_>,
        at: &At,
        written: &config::Tls,
    ) -> Option<Arc<Acceptor>> {
        let versions: Vec<_> = written.versions.iter().map(|version| version.name()).collect();
        let suites: Vec<_> = written.suites.iter().map(|suite| suite.name()).collect();
        let groups: Vec<_> = written.groups.iter().map(|group| group.name()).collect();
        let policy = Policy::from_names(&versions, &suites, &groups);
        let policy =
            policy.map_err(|error| mistakes.error(Code::TlsUnusable, at, error.to_string(), "")).ok();
        let tickets = self.ring(mistakes, at, &written.tickets);
        let settings = tls::ServerSettings {
            certs: written.certs.iter().map(files).collect(),
            default: written.default.as_ref().map(files),
            policy: policy?,
            alpn: written.alpn.iter().map(|name| name.clone().into_bytes()).collect(),
            client_auth: written.client_auth.as_ref().map(|auth| tls::ClientAuthSettings {
                mode: match auth.mode {
                    config::ClientAuthMode::Require => tls::ClientAuthMode::Require,
                    config::ClientAuthMode::Request => tls::ClientAuthMode::Request,
                },
                ca: auth.ca.clone(),
            }),
            tickets: tickets?,
        };
        match Acceptor::new(settings) {
            Ok((acceptor, warnings)) => {
                warnings.iter().for_each(|warning| doubt(mistakes, at, written, warning));
                Some(Arc::new(acceptor))
            }
            Err(errors) => {
                errors.iter().for_each(|error| refuse(mistakes, at, written, error));
                None
            }
        }
    }

    /// The ticket keys for these settings; the inner `None` is no tickets.
    fn ring(
        &mut self,
        mistakes: &mut Mistakes<'_>,
        at: &At,
        written: &config::Tickets,
    ) -> Option<Option<Arc<TicketRing>>> {
        if let Some((_, ring)) = self.0.iter().find(|(known, _)| known == written) {
            return Some(Some(Arc::clone(ring)));
        }
        let now = Instant::now();
        let made = match written {
            config::Tickets::Off => return Some(None),
            config::Tickets::Rotating { rotate, keep } => {
                TicketRing::rotating(*rotate, usize::from(*keep), now)
            }
            config::Tickets::Keys(path) => TicketRing::from_file(path, now).map(|(ring, warnings)| {
                for warning in warnings {
                    mistakes.warn(Code::CertificateDoubtful, at, warning.to_string(), "", "");
                }
                ring
            }),
        };
        match made {
            Ok(ring) => {
                self.0.push((written.clone(), Arc::clone(&ring)));
                Some(Some(ring))
            }
            Err(error) => {
                let cure =
                    "one key a line: 48 or 80 random bytes in base64, as `openssl rand -base64 48` makes";
                mistakes.error(Code::TicketKeysUnreadable, at, error.to_string(), cure);
                None
            }
        }
    }
}

/// TLS to endpoints.
pub(super) fn connector(
    mistakes: &mut Mistakes<'_>,
    written: &config::UpstreamTls,
) -> Option<Arc<Connector>> {
    let settings = tls::ClientSettings {
        ca: match &written.ca {
            config::CaSource::System => tls::CaSource::System,
            config::CaSource::File(path) => tls::CaSource::File(path.clone()),
        },
        alpn: written.alpn.iter().map(|name| name.clone().into_bytes()).collect(),
        name: written.name.clone(),
    };
    match Connector::new(settings) {
        Ok(connector) => Some(Arc::new(connector)),
        Err(error) => {
            let code = match error {
                ConnectorError::Ca(_) => Code::AuthorityUnreadable,
                _ => Code::TlsUnusable,
            };
            mistakes.error(code, &written.at, error.to_string(), "");
            None
        }
    }
}

fn refuse(mistakes: &mut Mistakes<'_>, listener: &At, written: &config::Tls, error: &TlsSetupError) {
    let (code, at, cure) = match error {
        TlsSetupError::Certificate { files, error } => {
            let at = place_of(written, &files.cert).unwrap_or(listener);
            let (code, cure) = certificate_code(files, error);
            (code, at, cure)
        }
        TlsSetupError::ClientCa { .. } => {
            let at = written.client_auth.as_ref().map_or(listener, |auth| &auth.at);
            let cure = "a PEM file with the certificates of the authorities; never served open";
            (Code::AuthorityUnreadable, at, cure)
        }
        TlsSetupError::NoCertificates => {
            (Code::NoCertificate, listener, "`tls = { cert = \"…\", key = \"…\" }`")
        }
        TlsSetupError::AlpnLength { .. } | TlsSetupError::Refused { .. } => (Code::TlsUnusable, listener, ""),
    };
    mistakes.error(code, at, error.to_string(), cure);
}

fn doubt(mistakes: &mut Mistakes<'_>, listener: &At, written: &config::Tls, warning: &Warning) {
    let (code, cert) = match warning {
        Warning::Expired { cert, .. } | Warning::NotYetValid { cert, .. } => {
            (Code::CertificateExpired, Some(cert))
        }
        Warning::ExpiresSoon { cert, .. } => (Code::CertificateExpiresSoon, Some(cert)),
        Warning::ChainOrder { cert, .. }
        | Warning::NoIntermediate { cert, .. }
        | Warning::Unreachable { cert } => (Code::CertificateDoubtful, Some(cert)),
        _ => (Code::CertificateDoubtful, None),
    };
    let at = cert.and_then(|cert| place_of(written, cert)).unwrap_or(listener);
    mistakes.warn(code, at, warning.to_string(), "", "");
}

fn certificate_code(files: &tls::CertFiles, error: &CertError) -> (Code, &'static str) {
    const CHAIN: &str = "a PEM file: the certificate first, then its intermediates";
    const KEY: &str = "a PEM file with the key: named by `key`, beside the certificate, or in its file";
    const OCSP: &str = "a response in DER, as `openssl ocsp -respout` writes it";
    match error {
        CertError::Missing { path }
        | CertError::Unreadable { path, .. }
        | CertError::Empty { path }
        | CertError::BrokenPem { path, .. }
        | CertError::UnsupportedKey { path, .. } => match path {
            path if path == &files.cert => (Code::CertificateUnreadable, CHAIN),
            path if Some(path) == files.ocsp.as_ref() => (Code::OcspUnreadable, OCSP),
            _ => (Code::KeyUnreadable, KEY),
        },
        CertError::NoCertificate { .. }
        | CertError::BadCertificate { .. }
        | CertError::LeafNotFirst { .. } => (Code::CertificateUnreadable, CHAIN),
        CertError::NoKey { .. } | CertError::EncryptedKey { .. } => (Code::KeyUnreadable, KEY),
        CertError::Mismatch { .. } => (Code::KeyMismatch, "name the key that was made for this certificate"),
        CertError::BadOcsp { .. } => (Code::OcspUnreadable, OCSP),
    }
}

fn place_of<'a>(written: &'a config::Tls, cert: &Path) -> Option<&'a At> {
    written.certs.iter().chain(&written.default).find(|files| files.cert == cert).map(|files| &files.at)
}

fn files(written: &config::CertFiles) -> tls::CertFiles {
    tls::CertFiles { cert: written.cert.clone(), key: written.key.clone(), ocsp: written.ocsp.clone() }
}
