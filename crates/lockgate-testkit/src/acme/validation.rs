//! Validations: the connections by which the authority sees that a client rules a name.
//!
//! All names are at 127.0.0.1, at the ports that the test gives: nothing is resolved.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::jws::{coded, sha256};
use super::problem::Problem;
use crate::tls::Tls;

/// The longest that a validation waits for a peer, as long as those of real authorities.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes that are read of a response.
const LONGEST_RESPONSE: u64 = 64 * 1024;

/// What says which records there are of type TXT for a name.
pub(super) type Txt = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// Where to connect.
#[derive(Clone)]
pub(super) struct Reach {
    pub(super) http: u16,
    pub(super) tls: u16,
    pub(super) txt: Option<Txt>,
}

/// Kinds of challenges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChallengeKind {
    /// RFC 8555 §8.3.
    Http01,
    /// RFC 8737.
    TlsAlpn01,
    /// RFC 8555 §8.4.
    Dns01,
}

impl ChallengeKind {
    pub(super) const ALL: [Self; 3] = [Self::Http01, Self::TlsAlpn01, Self::Dns01];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        }
    }

    /// Whether the client rules `name`.
    pub(super) fn validate(
        self,
        reach: &Reach,
        name: &str,
        token: &str,
        thumbprint: &str,
    ) -> Result<(), Problem> {
        let expected = format!("{token}.{thumbprint}");
        match self {
            Self::Http01 => http(reach.http, name, token, &expected),
            Self::TlsAlpn01 => tls(reach.tls, name, &expected),
            Self::Dns01 => dns(reach.txt.as_ref(), name, &expected),
        }
    }
}

fn connection(error: impl std::fmt::Display) -> Problem {
    Problem::new(400, "connection", error.to_string())
}

fn connect(port: u16) -> Result<TcpStream, Problem> {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&to, PATIENCE).map_err(connection)?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(connection)?;
    Ok(stream)
}

/// RFC 8555 §8.3. A redirect is not followed: it counts as a wrong answer.
fn http(port: u16, name: &str, token: &str, expected: &str) -> Result<(), Problem> {
    let mut stream = connect(port)?;
    let request = format!(
        "GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: {name}\r\n\
         User-Agent: lockgate-testkit\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).map_err(connection)?;
    let mut response = Vec::new();
    stream
        .take(LONGEST_RESPONSE)
        .read_to_end(&mut response)
        .map_err(connection)?;
    let response = String::from_utf8_lossy(&response);
    let (head, body) = response
        .split_once("\r\n\r\n")
        .ok_or_else(|| connection("no response"))?;
    let status = head.split(' ').nth(1);
    // RFC 8555 §8.3: white space at the end is nothing.
    match status == Some("200") && body.trim_end() == expected {
        true => Ok(()),
        false => Err(Problem::unauthorized(format!(
            "expected {expected}, got {head}\n{body}"
        ))),
    }
}

/// RFC 8737 §3.
fn tls(port: u16, name: &str, expected: &str) -> Result<(), Problem> {
    let wrong = |detail: &str| Problem::unauthorized(detail);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has suites for it")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    if ServerName::try_from(name).is_err() {
        return Err(Problem::malformed("no host name"));
    }
    let stream = connect(port)?;
    let tls = Tls::connect(&Arc::new(config), stream.into(), name)
        .map_err(|error| Problem::new(400, "tls", error.to_string()))?;
    if tls.agreed().alpn_protocol() != Some(b"acme-tls/1") {
        return Err(wrong("acme-tls/1 was not agreed on"));
    }
    let chain = tls.agreed().peer_certificates().unwrap_or_default();
    let certificate = chain.first().ok_or_else(|| wrong("no certificate"))?;
    let (_, certificate) = X509Certificate::from_der(certificate)
        .map_err(|_| wrong("a certificate that cannot be read"))?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| wrong("names that cannot be read"))?
        .ok_or_else(|| wrong("no names"))?;
    match names.value.general_names.as_slice() {
        [GeneralName::DNSName(only)] if only.eq_ignore_ascii_case(name) => {}
        others => return Err(wrong(&format!("not the one name {name}: {others:?}"))),
    }
    // id-pe-acmeIdentifier, with an OCTET STRING of 32 bytes.
    let mut value = vec![4, 32];
    value.extend(sha256(expected.as_bytes()));
    let extension = certificate
        .iter_extensions()
        .find(|extension| extension.oid.to_id_string() == "1.3.6.1.5.5.7.1.31")
        .ok_or_else(|| wrong("no acmeIdentifier"))?;
    match (extension.critical, extension.value == value) {
        (true, true) => Ok(()),
        (false, _) => Err(wrong("acmeIdentifier is not critical")),
        (true, false) => Err(wrong("acmeIdentifier has another digest")),
    }
}

/// RFC 8555 §8.4.
fn dns(txt: Option<&Txt>, name: &str, expected: &str) -> Result<(), Problem> {
    let name = format!("_acme-challenge.{name}");
    let found = txt.map(|txt| txt(&name)).unwrap_or_default();
    let digest = coded(&sha256(expected.as_bytes()));
    if found.is_empty() {
        return Err(Problem::new(400, "dns", format!("no TXT record at {name}")));
    }
    match found.contains(&digest) {
        true => Ok(()),
        false => Err(Problem::unauthorized(format!(
            "expected {digest} at {name}, got {found:?}"
        ))),
    }
}

/// Takes every certificate, whose key must have signed the handshake: what it says is looked at
/// afterwards.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is offered".to_owned()))
    }

    // By the bare key: rustls would refuse a certificate with a critical extension that it does not
    // know, and RFC 8737 §3 wants this one critical.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
