//! TLS to endpoints. Their certificates are verified, unless a measurement disables that.
//!
//! Does not drive handshakes: see `handshake`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::cert_files::CertFiles;
use super::certs::Certificate;
use super::error::CertError;
use super::file_stamp::{FileStamp, stamp};
use super::pem;
use super::policy::Policy;

/// The CAs that are trusted to sign an endpoint's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaSource {
    /// The CAs that the system trusts.
    System,
    /// Those in a PEM file and no others.
    File(PathBuf),
    /// No verification: any certificate is accepted, as long as the endpoint has its key. For
    /// measurements; the proxy's configuration does not offer it.
    Anyone,
}

/// The TLS settings of one pool.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The CAs that may sign its certificate.
    pub ca: CaSource,
    /// The offered protocol names, the preferred one first; may be empty.
    pub alpn: Vec<Vec<u8>>,
    /// The name for SNI and verification; `None`: the endpoint's own.
    pub name: Option<String>,
    /// The offered versions, suites and groups.
    pub policy: Policy,
    /// Whether tickets of earlier sessions are used.
    pub resume: bool,
    /// The client certificate, for endpoints that request one.
    pub identity: Option<CertFiles>,
}

impl ClientSettings {
    /// The default settings with this source of CAs.
    pub fn new(ca: CaSource) -> Self {
        Self {
            ca,
            alpn: Vec::new(),
            name: None,
            policy: Policy::intermediate(),
            resume: true,
            identity: None,
        }
    }
}

/// The reason why TLS to endpoints cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectorError {
    /// The CA file could not be loaded.
    #[error("endpoints cannot be verified: {0}")]
    Ca(CertError),
    /// The client certificate could not be loaded.
    #[error("the client certificate cannot be used: {0}")]
    Identity(CertError),
    /// None of the usual files with the system's CAs exists.
    #[error("endpoints cannot be verified: the system has no CAs in {}; install ca-certificates or name a CA file", SYSTEM_BUNDLES.join(", "))]
    NoSystemCas,
    /// A name that is neither a host name nor an IP address, or is empty.
    #[error(
        "no certificate can cover the name {name:?}; set the name of the endpoint's certificate"
    )]
    BadName {
        /// The name as the configuration has it.
        name: String,
    },
    /// A protocol name for ALPN must have 1 to 255 bytes (RFC 7301 §3.1).
    #[error("an ALPN protocol name has {length} bytes; 1 to 255 are allowed")]
    AlpnLength {
        /// The length of the name in bytes.
        length: usize,
    },
    /// The TLS library refused the settings.
    #[error("TLS settings refused: {0}")]
    Refused(String),
}

/// TLS to the endpoints of one pool, shared by the workers, which resume each other's sessions.
#[derive(Debug)]
pub struct Connector {
    running: ArcSwap<ActiveClientConfig>,
    settings: ClientSettings,
    name: Option<ServerName<'static>>,
}

/// The settings of new handshakes, and the CA file's stamp when they were built.
#[derive(Debug)]
struct ActiveClientConfig {
    config: Arc<ClientConfig>,
    read: Option<FileStamp>,
}

impl Connector {
    /// Reads the CAs and checks the settings.
    ///
    /// # Errors
    /// See [`ConnectorError`].
    pub fn new(settings: ClientSettings) -> Result<Self, ConnectorError> {
        if let Some(length) = settings
            .alpn
            .iter()
            .map(Vec::len)
            .find(|length| !(1..=255).contains(length))
        {
            return Err(ConnectorError::AlpnLength { length });
        }
        let name = settings.name.as_deref().map(server_name).transpose()?;
        let running = ArcSwap::from_pointee(ActiveClientConfig::new(&settings)?);
        Ok(Self {
            running,
            settings,
            name,
        })
    }

    /// The settings of the next handshake.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.running.load().config)
    }

    /// The CA file, for watching.
    pub fn file(&self) -> Option<&Path> {
        match &self.settings.ca {
            CaSource::System | CaSource::Anyone => None,
            CaSource::File(path) => Some(path),
        }
    }

    /// Reloads the CA file if it has changed, and returns whether it has; sessions that were
    /// verified by the old one are not resumed. Reads files: not for a worker thread.
    ///
    /// # Errors
    /// Those of [`Connector::new`]; the current settings stay.
    pub fn reload(&self) -> Result<bool, ConnectorError> {
        let Some(path) = self.file() else {
            return Ok(false);
        };
        if stamp(path).ok() == self.running.load().read {
            return Ok(false);
        }
        self.running
            .store(Arc::new(ActiveClientConfig::new(&self.settings)?));
        Ok(true)
    }

    /// The name that an endpoint's certificate must have: the configured one, else that of
    /// `endpoint_host`, which is a host name or an IP address (IPv6 with or without brackets). An
    /// address is not sent as SNI (RFC 6066 §3).
    ///
    /// # Errors
    /// `BadName`, also for the empty host of a Unix socket.
    pub(crate) fn server_name(
        &self,
        endpoint_host: &str,
    ) -> Result<ServerName<'static>, ConnectorError> {
        self.name
            .clone()
            .map_or_else(|| server_name(endpoint_host), Ok)
    }
}

impl ActiveClientConfig {
    fn new(settings: &ClientSettings) -> Result<Self, ConnectorError> {
        let refused = |error: rustls::Error| ConnectorError::Refused(error.to_string());
        let policy = &settings.policy;
        let provider = Arc::new(policy.provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&policy.protocol_versions())
            .map_err(refused)?;
        let (builder, read) = match &settings.ca {
            CaSource::System => (
                builder.with_root_certificates(system_roots(&SYSTEM_BUNDLES)?),
                None,
            ),
            CaSource::File(path) => {
                // Before reading, so that a change in between is noticed later.
                let read = stamp(path).ok();
                (
                    builder.with_root_certificates(file_roots(path).map_err(ConnectorError::Ca)?),
                    read,
                )
            }
            CaSource::Anyone => {
                let anyone = Arc::new(Anyone(provider.signature_verification_algorithms));
                (
                    builder.dangerous().with_custom_certificate_verifier(anyone),
                    None,
                )
            }
        };
        let mut config = match &settings.identity {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let identity = Certificate::load(files).map_err(ConnectorError::Identity)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(
                    identity.for_clients(),
                )))
            }
        };
        config.alpn_protocols = settings.alpn.clone();
        // The record layer is our own: see `record`.
        config.enable_secret_extraction = true;
        config.resumption = match settings.resume {
            true => Resumption::in_memory_sessions(SESSIONS),
            false => Resumption::disabled(),
        };
        Ok(Self {
            config: Arc::new(config),
            read,
        })
    }
}

/// Accepts every certificate if the peer has its key.
#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

fn server_name(written: &str) -> Result<ServerName<'static>, ConnectorError> {
    let bare = written
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(written);
    // A trailing dot is valid in DNS but not in SNI.
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    let name = ServerName::try_from(bare.to_owned());
    name.map_err(|_| ConnectorError::BadName {
        name: written.to_owned(),
    })
    .map(|name| match name {
        ServerName::DnsName(name) => ServerName::DnsName(name.to_lowercase_owned()),
        other => other,
    })
}

fn file_roots(path: &Path) -> Result<RootCertStore, CertError> {
    let mut roots = RootCertStore::empty();
    for (index, der) in pem::read_certificates(path)?.into_iter().enumerate() {
        roots.add(der).map_err(|error| CertError::BadCertificate {
            path: path.to_owned(),
            position: index + 1,
            reason: error.to_string(),
        })?;
    }
    Ok(roots)
}

/// The first existing bundle counts. Certificates that rustls cannot parse are left out: operators
/// cannot repair the system's list, and a missing CA only trusts less.
fn system_roots(bundles: &[&str]) -> Result<RootCertStore, ConnectorError> {
    for path in bundles.iter().map(Path::new) {
        let certificates = match pem::read_certificates(path) {
            Ok(certificates) => certificates,
            Err(CertError::Missing { .. }) => continue,
            Err(error) => return Err(ConnectorError::Ca(error)),
        };
        let mut roots = RootCertStore::empty();
        if roots.add_parsable_certificates(certificates).0 > 0 {
            return Ok(roots);
        }
    }
    Err(ConnectorError::NoSystemCas)
}

/// Debian and Alpine, Fedora and Red Hat, openSUSE, the BSDs.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The number of names with cached sessions; rustls keeps up to 8 tickets for each.
const SESSIONS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::fixtures::{Ca, Folder};

    fn settings(ca: CaSource, name: Option<&str>) -> ClientSettings {
        ClientSettings {
            name: name.map(str::to_owned),
            ..ClientSettings::new(ca)
        }
    }

    #[test]
    fn a_configured_server_name_overrides_the_endpoint_host() {
        let folder = Folder::new();
        let ca = CaSource::File(folder.write("ca.pem", Ca::new("ours").pem()));
        let own = Connector::new(settings(ca.clone(), None)).unwrap();
        let named = Connector::new(settings(ca, Some("App.Internal."))).unwrap();
        let name = |connector: &Connector, host: &str| {
            connector
                .server_name(host)
                .map(|name| name.to_str().into_owned())
        };
        assert_eq!(name(&own, "db.example"), Ok("db.example".into()));
        assert_eq!(name(&own, "10.0.0.1"), Ok("10.0.0.1".into()));
        assert_eq!(name(&own, "[::1]"), Ok("::1".into()));
        assert_eq!(name(&named, "10.0.0.1"), Ok("app.internal".into()));
        assert!(own.server_name("").is_err(), "a Unix socket has no name");
        assert_eq!(name(&named, ""), Ok("app.internal".into()));
    }

    #[test]
    fn a_changed_ca_file_is_reloaded_unless_it_is_bad() {
        let folder = Folder::new();
        let path = folder.write("ca.pem", Ca::new("one").pem());
        let connector = Connector::new(settings(CaSource::File(path), None)).unwrap();
        let before = connector.config();
        assert_eq!(connector.reload(), Ok(false));
        folder.write("ca.pem", "junk");
        assert!(connector.reload().is_err());
        assert!(Arc::ptr_eq(&connector.config(), &before));
        folder.write("ca.pem", Ca::new("two").pem());
        assert_eq!(connector.reload(), Ok(true));
        assert!(!Arc::ptr_eq(&connector.config(), &before));
    }

    #[test]
    fn invalid_server_names_are_refused() {
        let folder = Folder::new();
        let ca = CaSource::File(folder.write("ca.pem", Ca::new("ours").pem()));
        for name in ["", "a b", "*.example", "-", "a..b"] {
            let refused = Connector::new(settings(ca.clone(), Some(name))).unwrap_err();
            assert_eq!(
                refused,
                ConnectorError::BadName {
                    name: name.to_owned()
                }
            );
        }
    }

    #[test]
    fn an_unusable_ca_file_is_an_error() {
        let folder = Folder::new();
        let missing = CaSource::File(folder.path("missing.pem"));
        let refused = Connector::new(settings(missing, None)).unwrap_err();
        assert!(matches!(
            refused,
            ConnectorError::Ca(CertError::Missing { .. })
        ));
        let empty = CaSource::File(folder.write("empty.pem", "\n"));
        let refused = Connector::new(settings(empty, None)).unwrap_err();
        assert!(matches!(
            refused,
            ConnectorError::Ca(CertError::Empty { .. })
        ));
        let mut alpn = settings(CaSource::System, None);
        alpn.alpn = vec![Vec::new()];
        assert_eq!(
            Connector::new(alpn).unwrap_err(),
            ConnectorError::AlpnLength { length: 0 }
        );
    }

    #[test]
    fn the_first_existing_system_ca_bundle_is_used() {
        let folder = Folder::new();
        let bundle = folder.write(
            "bundle.pem",
            [Ca::new("a").pem(), Ca::new("b").pem()].concat(),
        );
        let missing = folder.path("missing.pem");
        let paths = [missing.to_str().unwrap(), bundle.to_str().unwrap()];
        assert_eq!(system_roots(&paths).unwrap().len(), 2);
        assert_eq!(
            system_roots(&paths[..1]).unwrap_err(),
            ConnectorError::NoSystemCas
        );
    }
}
