//! A self-signed certificate for `demo` and `proxy --tls self`.
//!
//! Writes no file, and is never used for a listener of a configuration: there a missing certificate
//! is an error.

use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};

const LIFETIME: Duration = Duration::from_secs(30 * 86_400);
/// The margin before now, for clients with a clock that is behind.
const SLACK: Duration = Duration::from_secs(3_600);

/// A certificate and its key, both as PEM.
pub(crate) struct SelfSigned {
    /// The certificate; clients that are given it as their trust anchor (`curl --cacert`) accept
    /// it.
    pub(crate) cert: String,
    /// The private key, PKCS #8.
    pub(crate) key: String,
}

/// Makes a certificate (ECDSA P-256, 30 days) for `names`: host names and IP addresses.
///
/// # Errors
/// A name that is not ASCII (certificates carry the `xn--` form), or a failing random source.
pub(crate) fn make(names: &[String]) -> Result<SelfSigned, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "Lockgate self-signed");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(SLACK);
    params.not_after = epoch + (now + LIFETIME);
    let cert = params.self_signed(&key)?;
    Ok(SelfSigned {
        cert: cert.pem(),
        key: key.serialize_pem(),
    })
}

/// The names that a client on this machine or its network may use: localhost, both loopback
/// addresses, and the host's name where it can be one in a certificate.
pub(crate) fn local_names() -> Vec<String> {
    let mut names = ["localhost", "127.0.0.1", "::1"]
        .map(str::to_owned)
        .to_vec();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    names.extend(as_certificate_name(&host).filter(|host| host != "localhost"));
    names
}

fn as_certificate_name(host: &str) -> Option<String> {
    let host = host.trim().to_ascii_lowercase();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    // 64 is the longest name that Linux lets a host have; a wildcard or an empty label it must not
    // become.
    let fits = (1..=64).contains(&host.len()) && host.bytes().all(allowed);
    (fits && host.split('.').all(|label| !label.is_empty())).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
    use std::sync::Arc;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn accepted(made: &SelfSigned, name: &str, at: Duration) -> bool {
        let cert = CertificateDer::from_pem_slice(made.cert.as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(cert.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(
            UnixTime::now()
                .as_secs()
                .checked_add(at.as_secs())
                .map(Duration::from_secs)
                .unwrap(),
        );
        rustls::client::danger::ServerCertVerifier::verify_server_cert(
            &*verifier,
            &cert,
            &[],
            &name,
            &[],
            now,
        )
        .is_ok()
    }

    #[test]
    fn a_client_that_trusts_it_accepts_its_names_for_30_days() {
        let made = make(&names(&["localhost", "127.0.0.1", "::1"])).unwrap();
        for name in ["localhost", "127.0.0.1", "::1"] {
            assert!(accepted(&made, name, Duration::ZERO), "{name}");
        }
        assert!(!accepted(&made, "example.com", Duration::ZERO));
        assert!(accepted(&made, "localhost", LIFETIME - SLACK));
        assert!(!accepted(&made, "localhost", LIFETIME + SLACK));
    }

    #[test]
    fn certificate_and_key_belong_together() {
        let made = make(&local_names()).unwrap();
        let cert = CertificateDer::from_pem_slice(made.cert.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert], key);
        assert!(config.is_ok(), "{:?}", config.err());
    }

    #[test]
    fn only_hosts_that_can_stand_in_a_certificate_are_named() {
        for (host, expected) in [
            ("web1\n", Some("web1")),
            ("Web1.Example.COM", Some("web1.example.com")),
            ("", None),
            ("(none)", None),
            ("a..b", None),
            ("*.example.com", None),
            ("münchen", None),
        ] {
            assert_eq!(as_certificate_name(host).as_deref(), expected, "{host:?}");
        }
    }

    #[test]
    fn a_name_that_is_not_ascii_is_an_error() {
        assert!(make(&names(&["münchen.example"])).is_err());
    }
}
