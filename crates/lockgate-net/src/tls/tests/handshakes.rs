//! Handshakes: the certificate and the parameters that a client gets, and refusals.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error, NamedGroup,
    ProtocolVersion, RootCertStore, ServerConnection, SignatureScheme, SupportedProtocolVersion,
    version,
};
use x509_parser::extensions::GeneralName;

use crate::tls::fixtures::*;
use crate::tls::*;

/// Both ends after a handshake.
pub(super) struct Pair {
    pub(super) client: ClientConnection,
    pub(super) server: ServerConnection,
}

impl Pair {
    /// The first DNS name of the certificate shown.
    fn shown(&self) -> String {
        let der = &self.client.peer_certificates().unwrap()[0];
        let (_, parsed) = x509_parser::parse_x509_certificate(der).unwrap();
        let names = parsed.subject_alternative_name().unwrap().unwrap();
        match names.value.general_names[0] {
            GeneralName::DNSName(name) => name.to_owned(),
            ref other => panic!("{other}"),
        }
    }
}

/// Carries bytes both ways until neither end has more to send.
pub(super) fn shake(client: ClientConfig, acceptor: &Acceptor, sni: &str) -> Result<Pair, Error> {
    shake_shared(&Arc::new(client), acceptor, sni)
}

pub(super) fn shake_shared(
    client: &Arc<ClientConfig>,
    acceptor: &Acceptor,
    sni: &str,
) -> Result<Pair, Error> {
    let name = ServerName::try_from(sni.to_owned()).unwrap();
    let mut pair = Pair {
        client: ClientConnection::new(client.clone(), name)?,
        server: ServerConnection::new(acceptor.handshake().0)?,
    };
    while pair.client.wants_write() || pair.server.wants_write() {
        let mut bytes = Vec::new();
        while pair.client.wants_write() {
            pair.client.write_tls(&mut bytes).unwrap();
        }
        feed(&bytes, |bytes| pair.server.read_tls(bytes))?;
        let judged = pair.server.process_new_packets();
        let mut bytes = Vec::new();
        while pair.server.wants_write() {
            pair.server.write_tls(&mut bytes).unwrap();
        }
        feed(&bytes, |bytes| pair.client.read_tls(bytes))?;
        pair.client.process_new_packets()?;
        judged?;
    }
    assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
    Ok(pair)
}

fn feed(
    mut bytes: &[u8],
    mut read: impl FnMut(&mut &[u8]) -> std::io::Result<usize>,
) -> Result<(), Error> {
    while !bytes.is_empty() {
        read(&mut bytes).unwrap();
    }
    Ok(())
}

pub(super) fn client(ca: &Ca) -> ClientConfig {
    client_of(ca, default_provider(), &[&version::TLS12, &version::TLS13])
}

pub(super) fn client_of(
    ca: &Ca,
    provider: CryptoProvider,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(versions).unwrap();
    builder
        .with_root_certificates(roots(ca))
        .with_no_client_auth()
}

fn client_with_certificate(
    ca: &Ca,
    own: &Issued,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let key = PrivateKeyDer::try_from(own.key.serialize_der()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots(ca));
    builder
        .with_client_auth_cert(vec![own.cert.der().clone()], key)
        .unwrap()
}

fn roots(ca: &Ca) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(ca.der()).unwrap();
    roots
}

pub(super) fn settings(certs: &[&PathBuf], default: Option<&PathBuf>) -> ServerSettings {
    ServerSettings {
        managed: Vec::new(),
        on_demand: Vec::new(),
        certs: certs.iter().map(CertFiles::of).collect(),
        default: default.map(CertFiles::of),
        policy: Policy::intermediate(),
        alpn: Vec::new(),
        client_auth: None,
        tickets: None,
    }
}

pub(super) fn acceptor(settings: ServerSettings) -> Acceptor {
    Acceptor::new(settings).unwrap().0
}

const BOTH: [&[&SupportedProtocolVersion]; 2] = [&[&version::TLS12], &[&version::TLS13]];

#[test]
fn exact_sni_beats_wildcard_and_wildcard_beats_default() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let wild = folder.write("wild.pem", ca.issue(&["*.example.com"]).both());
    let exact = folder.write(
        "exact.pem",
        ca.issue(&["www.example.com", "example.com"]).both(),
    );
    let default = folder.write(
        "default.pem",
        ca.issue(&["default.example", "WWW.Other.Example"]).both(),
    );
    let acceptor = acceptor(settings(&[&wild, &exact], Some(&default)));
    for (sni, shown) in [
        ("www.example.com", "www.example.com"),
        ("example.com", "www.example.com"),
        ("api.example.com", "*.example.com"),
        ("API.EXAMPLE.COM", "*.example.com"),
        ("www.other.example", "default.example"),
    ] {
        assert_eq!(
            shake(client(&ca), &acceptor, sni).unwrap().shown(),
            shown,
            "{sni}"
        );
    }
    for sni in ["a.b.example.com", "nobody.example", "192.0.2.1"] {
        let refused = shake(client(&ca), &acceptor, sni).map(drop).unwrap_err();
        assert!(
            matches!(refused, Error::InvalidCertificate(_)),
            "{sni} gets the default: {refused}"
        );
    }
    assert!(acceptor.serves(None) && acceptor.serves(Some("nobody.example")));
}

#[test]
fn without_a_default_certificate_an_unknown_sni_is_refused() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example", "*.b.example"]).both());
    let acceptor = acceptor(settings(&[&cert], None));
    for known in ["a.example", "A.Example", "a.example.", "x.b.example"] {
        assert!(acceptor.serves(Some(known)), "{known}");
    }
    let long = "x".repeat(300);
    for unknown in [
        "b.example",
        ".b.example",
        "x.y.b.example",
        "*.a.example",
        "",
        ".",
        &long,
    ] {
        assert!(!acceptor.serves(Some(unknown)), "{unknown}");
    }
    assert!(!acceptor.serves(None));
    for sni in ["c.example", "192.0.2.1"] {
        let refused = shake(client(&ca), &acceptor, sni).map(drop).unwrap_err();
        assert_eq!(
            refused,
            Error::AlertReceived(AlertDescription::AccessDenied)
        );
    }
}

/// A client that can only verify signatures of one family.
fn verifying(keep: fn(SignatureScheme) -> bool) -> CryptoProvider {
    let mut provider = default_provider();
    let all = provider.signature_verification_algorithms;
    let mapping: Vec<_> = all
        .mapping
        .iter()
        .copied()
        .filter(|(scheme, _)| keep(*scheme))
        .collect();
    provider.signature_verification_algorithms = WebPkiSupportedAlgorithms {
        all: all.all,
        mapping: Box::leak(mapping.into()),
    };
    provider
}

fn is_rsa(scheme: SignatureScheme) -> bool {
    format!("{scheme:?}").starts_with("RSA")
}

#[test]
fn ecdsa_certificate_is_preferred_and_rsa_is_the_fallback() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let rsa = folder.write(
        "rsa.pem",
        ca.issue_with(&["a.example"], &RSA, |_| {}).both(),
    );
    let ecdsa = folder.write("ecdsa.pem", ca.issue(&["a.example"]).both());
    let (acceptor, warnings) = Acceptor::new(settings(&[&rsa, &ecdsa], None)).unwrap();
    assert_eq!(warnings, [], "one of each kind is no duplicate");
    for versions in BOTH {
        let scheme = |provider| {
            let pair = shake_unverified(client_of(&ca, provider, versions), &acceptor);
            pair.client.peer_certificates().unwrap()[0].len()
        };
        let (modern, old) = (scheme(default_provider()), scheme(verifying(is_rsa)));
        assert!(
            modern < old,
            "an RSA certificate is the longer one: {modern} {old}"
        );
    }
}

/// The CA signs by ECDSA, which a client with RSA only cannot verify: it does not verify.
fn shake_unverified(mut client: ClientConfig, acceptor: &Acceptor) -> Pair {
    let provider = client.crypto_provider().clone();
    client
        .dangerous()
        .set_certificate_verifier(Arc::new(Recorder {
            provider,
            inner: None,
            ocsp: Mutex::default(),
        }));
    shake(client, acceptor, "a.example").unwrap()
}

#[test]
fn an_unverifiable_exact_certificate_yields_to_a_wildcard() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let exact = folder.write("exact.pem", ca.issue(&["a.example"]).both());
    let wild = folder.write(
        "wild.pem",
        ca.issue_with(&["*.example"], &RSA, |_| {}).both(),
    );
    let acceptor = acceptor(settings(&[&exact, &wild], None));
    let old = client_of(&ca, verifying(is_rsa), &[&version::TLS13]);
    assert_eq!(shake_unverified(old, &acceptor).shown(), "*.example");
    assert_eq!(
        shake(client(&ca), &acceptor, "a.example").unwrap().shown(),
        "a.example"
    );
}

#[test]
fn the_first_certificate_for_a_name_wins_with_a_warning() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let first = folder.write("1.pem", ca.issue(&["first.example", "a.example"]).both());
    let second = folder.write("2.pem", ca.issue(&["second.example", "a.example"]).both());
    let (acceptor, warnings) = Acceptor::new(settings(&[&first, &second, &first], None)).unwrap();
    let expected = Warning::DuplicateName {
        name: "a.example".into(),
        used: first,
        unused: second,
    };
    assert_eq!(warnings, [expected]);
    assert_eq!(
        shake(client(&ca), &acceptor, "a.example").unwrap().shown(),
        "first.example"
    );
}

#[test]
fn a_certificate_without_names_is_warned_about_unless_default() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let named = folder.write("named.pem", ca.issue(&["a.example"]).both());
    let numbered = folder.write("numbered.pem", ca.issue(&["192.0.2.1"]).both());
    let (_, warnings) = Acceptor::new(settings(&[&named, &numbered], None)).unwrap();
    assert_eq!(
        warnings,
        [Warning::Unreachable {
            cert: numbered.clone()
        }]
    );
    let (acceptor, warnings) = Acceptor::new(settings(&[&named], Some(&numbered))).unwrap();
    assert_eq!(warnings, []);
    assert!(shake(client(&ca), &acceptor, "192.0.2.1").is_ok());
}

#[test]
fn tls_1_2_and_1_3_both_negotiate_aes_128() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let acceptor = acceptor(settings(&[&cert], None));
    for (versions, version, suite) in [
        (
            BOTH[0],
            ProtocolVersion::TLSv1_2,
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
        (
            BOTH[1],
            ProtocolVersion::TLSv1_3,
            "TLS13_AES_128_GCM_SHA256",
        ),
    ] {
        let pair = shake(
            client_of(&ca, default_provider(), versions),
            &acceptor,
            "a.example",
        )
        .unwrap();
        assert_eq!(pair.server.protocol_version(), Some(version));
        assert_eq!(
            format!(
                "{:?}",
                pair.server.negotiated_cipher_suite().unwrap().suite()
            ),
            suite
        );
        // The handshake module needs this: secrets for an own record layer.
        assert!(pair.server.dangerous_extract_secrets().is_ok());
    }
}

#[test]
fn the_post_quantum_group_is_negotiated_with_clients_supporting_it() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let acceptor = acceptor(settings(&[&cert], None));
    let group = |provider| {
        let pair = shake(client_of(&ca, provider, BOTH[1]), &acceptor, "a.example").unwrap();
        pair.server.negotiated_key_exchange_group().unwrap().name()
    };
    assert_eq!(group(default_provider()), NamedGroup::X25519MLKEM768);
    let mut classic = default_provider();
    classic
        .kx_groups
        .retain(|group| group.name() == NamedGroup::secp384r1);
    assert_eq!(group(classic), NamedGroup::secp384r1);
}

#[test]
fn a_tls_policy_is_enforced() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let with = |policy| {
        acceptor(ServerSettings {
            policy,
            ..settings(&[&cert], None)
        })
    };

    let modern = with(Policy::modern());
    let old = client_of(&ca, default_provider(), BOTH[0]);
    let refused = shake(old, &modern, "a.example").map(drop).unwrap_err();
    assert_eq!(
        refused,
        Error::AlertReceived(AlertDescription::ProtocolVersion)
    );

    let names = ["TLS13_CHACHA20_POLY1305_SHA256", "TLS13_AES_128_GCM_SHA256"];
    let chosen = with(Policy::from_names(&["1.3"], &names, &["secp256r1"]).unwrap());
    let pair = shake(client(&ca), &chosen, "a.example").unwrap();
    assert_eq!(
        format!(
            "{:?}",
            pair.server.negotiated_cipher_suite().unwrap().suite()
        ),
        names[0]
    );
    assert_eq!(
        pair.server.negotiated_key_exchange_group().unwrap().name(),
        NamedGroup::secp256r1
    );
}

#[test]
fn server_order_decides_alpn_and_unknown_protocols_are_refused() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let offering = |protocols: &[&[u8]], acceptor: &Acceptor| {
        let mut client = client(&ca);
        client.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let pair = shake(client, acceptor, "a.example")?;
        Ok(pair.server.alpn_protocol().map(<[u8]>::to_vec))
    };
    let alpn = vec![b"postgresql".to_vec(), b"imap".to_vec()];
    let some = acceptor(ServerSettings {
        alpn,
        ..settings(&[&cert], None)
    });
    assert_eq!(
        offering(&[b"imap", b"postgresql"], &some),
        Ok(Some(b"postgresql".to_vec()))
    );
    assert_eq!(offering(&[], &some), Ok(None));
    let refused = Err(Error::AlertReceived(
        AlertDescription::NoApplicationProtocol,
    ));
    assert_eq!(offering(&[b"h2"], &some), refused);
    let none = acceptor(settings(&[&cert], None));
    assert_eq!(offering(&[b"h2"], &none), Ok(None));
}

#[test]
fn a_client_certificate_is_required_or_only_requested() {
    let (folder, ca, clients) = (Folder::new(), Ca::new("ca"), Ca::new("clients"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let list = folder.write("clients.pem", clients.pem());
    let with = |mode| {
        let client_auth = Some(ClientAuthSettings {
            mode,
            ca: list.clone(),
        });
        acceptor(ServerSettings {
            client_auth,
            ..settings(&[&cert], None)
        })
    };
    let (require, request) = (with(ClientAuthMode::Require), with(ClientAuthMode::Request));
    let (good, bad) = (
        clients.issue(&["client"]),
        Ca::new("others").issue(&["client"]),
    );
    for versions in BOTH {
        let certified = |own, acceptor| {
            shake(
                client_with_certificate(&ca, own, versions),
                acceptor,
                "a.example",
            )
        };
        let bare = |acceptor| {
            shake(
                client_of(&ca, default_provider(), versions),
                acceptor,
                "a.example",
            )
        };
        for acceptor in [&require, &request] {
            let pair = certified(&good, acceptor).unwrap();
            assert_eq!(
                pair.server.peer_certificates().unwrap()[0],
                *good.cert.der()
            );
            assert!(
                certified(&bad, acceptor).is_err(),
                "one that is shown must be good"
            );
        }
        assert!(bare(&require).is_err());
        let pair = bare(&request).unwrap();
        assert!(pair.server.peer_certificates().is_none());
    }
}

/// Verifies like any client, or not at all, and keeps the OCSP response.
#[derive(Debug)]
struct Recorder {
    provider: Arc<CryptoProvider>,
    inner: Option<Arc<WebPkiServerVerifier>>,
    ocsp: Mutex<Vec<u8>>,
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.ocsp.lock().unwrap() = ocsp_response.to_vec();
        match &self.inner {
            Some(inner) => {
                inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[test]
fn the_client_sees_the_stapled_ocsp_response() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let issued = ca.issue_with(&["a.example"], &P256, |params| {
        params.serial_number = Some(7.into())
    });
    let response = ocsp_response(&[7], "29990101000000Z");
    let stale = ocsp_response(&[7], "20210101000000Z");
    for (response, seen) in [(&response, &response[..]), (&stale, &[])] {
        let cert = folder.write("a.pem", issued.both());
        let files = CertFiles {
            ocsp: Some(folder.write("a.ocsp", response)),
            ..CertFiles::of(cert)
        };
        let acceptor = acceptor(ServerSettings {
            certs: vec![files],
            ..settings(&[], None)
        });
        for versions in BOTH {
            let provider = Arc::new(default_provider());
            let inner =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots(&ca)), provider.clone());
            let inner = Some(inner.build().unwrap());
            let recorder = Arc::new(Recorder {
                provider,
                inner,
                ocsp: Mutex::default(),
            });
            let mut client = client_of(&ca, default_provider(), versions);
            client
                .dangerous()
                .set_certificate_verifier(recorder.clone());
            shake(client, &acceptor, "a.example").unwrap();
            assert_eq!(*recorder.ocsp.lock().unwrap(), seen);
        }
    }
}

#[test]
fn an_endpoint_certificate_is_verified_by_ca_and_name() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["app.internal", "127.0.0.1"]).both());
    let acceptor = acceptor(settings(&[&cert], Some(&cert)));
    let dial = |ca: &Ca, name: Option<&str>, host: &str| {
        let path = folder.write("ca.pem", ca.pem());
        let settings = ClientSettings {
            name: name.map(str::to_owned),
            ..ClientSettings::new(CaSource::File(path))
        };
        let connector = Connector::new(settings).unwrap();
        let name = connector.server_name(host).unwrap().to_str().into_owned();
        let pair = shake_shared(&connector.config(), &acceptor, &name)?;
        Ok::<_, Error>(pair.server.server_name().map(str::to_owned))
    };
    assert_eq!(
        dial(&ca, None, "app.internal"),
        Ok(Some("app.internal".into()))
    );
    assert_eq!(
        dial(&ca, Some("app.internal"), "10.9.9.9"),
        Ok(Some("app.internal".into()))
    );
    assert_eq!(
        dial(&ca, None, "127.0.0.1"),
        Ok(None),
        "an address is no SNI"
    );
    assert!(matches!(
        dial(&ca, None, "other.internal"),
        Err(Error::InvalidCertificate(_))
    ));
    assert!(matches!(
        dial(&Ca::new("other"), None, "app.internal"),
        Err(Error::InvalidCertificate(_))
    ));
}

#[test]
fn a_certificate_reload_takes_effect_in_running_listeners() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let a = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let b = folder.write("b.pem", ca.issue(&["b.example"]).both());
    let acceptor = acceptor(settings(&[&a, &b], None));
    let shown = |sni| {
        shake(client(&ca), &acceptor, sni)
            .unwrap()
            .client
            .peer_certificates()
            .unwrap()[0]
            .clone()
    };
    let (a_before, b_before) = (shown("a.example"), shown("b.example"));
    let report = acceptor.reload();
    assert!(report.changed.is_empty() && report.failed.is_empty());

    folder.write("a.pem", ca.issue(&["a.example", "new.example"]).both());
    let report = acceptor.reload();
    assert_eq!(report.changed, [a]);
    assert!(report.failed.is_empty());
    assert_ne!(shown("a.example"), a_before);
    assert_eq!(shown("new.example"), shown("a.example"));
    assert_eq!(shown("b.example"), b_before);
}

#[test]
fn a_bad_certificate_file_keeps_the_old_certificate() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let first = ca.issue(&["a.example"]);
    let (cert, key) = (
        folder.write("a.pem", first.pem()),
        folder.write("a.key", first.key_pem()),
    );
    let acceptor = acceptor(settings(&[&cert], None));
    let shown = || {
        shake(client(&ca), &acceptor, "a.example")
            .unwrap()
            .client
            .peer_certificates()
            .unwrap()[0]
            .clone()
    };
    let before = shown();

    let renewed = ca.issue(&["a.example"]);
    // The certificate comes first, its key later: in between the two do not match.
    folder.write("a.pem", renewed.pem());
    let mismatch = CertError::Mismatch {
        cert: cert.clone(),
        key: key.clone(),
        owner: None,
    };
    for bad in ["", "junk", &renewed.pem()[..100]] {
        folder.write("a.pem", bad);
        let report = acceptor.reload();
        assert!(report.changed.is_empty());
        assert!(
            matches!(&report.failed[..], [TlsSetupError::Certificate { .. }]),
            "{bad:?}"
        );
        assert_eq!(shown(), before);
    }
    folder.write("a.pem", renewed.pem());
    let report = acceptor.reload();
    assert_eq!(
        report.failed,
        [TlsSetupError::Certificate {
            files: CertFiles::of(&cert),
            error: mismatch
        }]
    );
    assert_eq!(shown(), before);
    std::fs::remove_file(&key).unwrap();
    assert_eq!(acceptor.reload().failed.len(), 1);
    assert_eq!(shown(), before);

    folder.write("a.key", renewed.key_pem());
    let report = acceptor.reload();
    assert_eq!((report.changed, report.failed), (vec![cert], vec![]));
    assert_eq!(shown(), *renewed.cert.der());
}

#[test]
fn the_certificates_are_described_and_their_files_listed() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let issued = ca.issue(&["a.example"]);
    let (cert, key) = (
        folder.write("a.pem", issued.pem()),
        folder.write("a.key", issued.key_pem()),
    );
    let default = folder.write(
        "default.pem",
        ca.issue_with(&["*.b.example"], &P384, |_| {}).both(),
    );
    let list = folder.write("clients.pem", ca.pem());
    let client_auth = Some(ClientAuthSettings {
        mode: ClientAuthMode::Request,
        ca: list.clone(),
    });
    let acceptor = acceptor(ServerSettings {
        client_auth,
        ..settings(&[&cert], Some(&default))
    });
    let described: Vec<_> = acceptor
        .store()
        .describe()
        .into_iter()
        .map(|one| (one.path, one.facts.names, one.facts.key, one.default))
        .collect();
    assert_eq!(
        described,
        [
            (
                cert.clone(),
                vec!["a.example".to_owned()],
                KeyKind::EcdsaP256,
                false
            ),
            (
                default.clone(),
                vec!["*.b.example".to_owned()],
                KeyKind::EcdsaP384,
                true
            ),
        ]
    );
    assert_eq!(acceptor.files(), [key, cert, default, list]);
}
