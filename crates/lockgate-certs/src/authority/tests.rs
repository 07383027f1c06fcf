//! An authority of our own, from an empty folder to handshakes with what it issued.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_rules::CertKeyKind;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use tempfile::TempDir;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);
/// The files in the order in which they are made.
const FILES: [&str; 4] = ["root.key", "root.pem", "intermediate.pem", "authority.json"];

/// A folder for an authority, which is not there yet.
struct State(TempDir);

impl State {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("ca")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn open(&self) -> Result<Authority, AuthorityError> {
        self.open_at(SystemTime::now())
    }

    fn open_at(&self, now: SystemTime) -> Result<Authority, AuthorityError> {
        Authority::open_or_create(&self.folder(), now)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }
}

/// A day of 2026 and of the years after it.
fn day(number: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_790_000_000) + DAY * u32::try_from(number).unwrap()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(authority: &Authority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.root().der().to_vec().into()).unwrap();
    Arc::new(roots)
}

fn chain(issued: &IssuedCert) -> Vec<CertificateDer<'static>> {
    let chain = CertificateDer::pem_slice_iter(issued.chain_pem.as_bytes());
    chain.map(Result::unwrap).collect()
}

fn key(issued: &IssuedCert) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(issued.key_pem.as_str().as_bytes()).unwrap()
}

/// Whether a client that trusts the root accepts the certificate for `name` at `time`.
fn accepted(authority: &Authority, issued: &IssuedCert, name: &str, time: SystemTime) -> bool {
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(roots(authority), provider());
    let verifier = verifier.build().unwrap();
    let chain = chain(issued);
    let (leaf, rest) = chain.split_first().unwrap();
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    rustls::client::danger::ServerCertVerifier::verify_server_cert(
        &*verifier,
        leaf,
        rest,
        &ServerName::try_from(name.to_owned()).unwrap(),
        &[],
        UnixTime::since_unix_epoch(since),
    )
    .is_ok()
}

/// Handshakes in memory: a server with a certificate, and a client, perhaps with one too.
fn handshake(
    authority: &Authority,
    name: &str,
    server: &IssuedCert,
    client: Option<&IssuedCert>,
) -> Result<(), rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match client {
        None => builder.with_no_client_auth(),
        Some(_) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots(authority), provider());
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config = builder.with_single_cert(chain(server), key(server))?;
    let mut server = ServerConnection::new(Arc::new(config)).unwrap();
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots(authority));
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(client) => builder.with_client_auth_cert(chain(client), key(client))?,
    };
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        server.read_tls(&mut &*sent).unwrap();
        server.process_new_packets()?;
        sent.clear();
        while server.wants_write() {
            server.write_tls(&mut sent).unwrap();
        }
        let mut left = &*sent;
        while !left.is_empty() {
            client.read_tls(&mut left).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}

fn client_request(common_name: &str) -> LeafRequest {
    LeafRequest {
        names: Vec::new(),
        usage: LeafUsage::Client {
            common_name: common_name.to_owned(),
        },
        ..LeafRequest::for_host("unused")
    }
}

#[test]
fn an_authority_is_made_of_files_for_their_owner_alone() {
    let state = State::new();
    let authority = state.open().unwrap();
    assert_eq!(authority.origin(), AuthorityOrigin::NewRoot);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(state.folder()), 0o700);
    for name in FILES.into_iter().chain(["lock"]) {
        assert_eq!(mode(state.file(name)), 0o600, "{name}");
    }
    let count = fs::read_dir(state.folder()).unwrap().count();
    assert_eq!(count, 5, "no unfinished file stays");
    let overview: serde_json::Value = serde_json::from_str(&state.text("authority.json")).unwrap();
    assert_eq!(overview["version"], 1);
    assert_eq!(overview["root"]["sha256"], authority.root().sha256());
    assert_eq!(
        overview["intermediate"]["subject"],
        authority.intermediate().subject()
    );
    assert!(
        overview["root"]["not_after"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    assert_eq!(state.text("root.pem"), authority.root().pem());
    let shown = format!("{authority:?}");
    assert!(
        shown.contains("Lockgate root") && !shown.contains("PRIVATE"),
        "{shown}"
    );
}

#[test]
fn the_root_signs_an_intermediate_for_tls_and_that_signs_leaves_only() {
    let authority = State::new().open().unwrap();
    for (cert, below, years) in [(authority.root(), 1, 10), (authority.intermediate(), 0, 3)] {
        let (_, parsed) = X509Certificate::from_der(cert.der()).unwrap();
        let basic = parsed.basic_constraints().unwrap().unwrap();
        assert!(basic.critical && basic.value.ca);
        assert_eq!(basic.value.path_len_constraint, Some(below));
        let usage = parsed.key_usage().unwrap().unwrap();
        assert!(usage.critical && usage.value.key_cert_sign());
        assert!(!usage.value.digital_signature());
        let extended = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.server_auth && extended.client_auth);
        assert!(!extended.any && !extended.email_protection && !extended.code_signing);
        let period = cert.period();
        let days = period
            .not_after
            .duration_since(period.not_before)
            .unwrap()
            .as_secs()
            / 86_400;
        assert!((years * 365..years * 366).contains(&days), "{days} days");
        assert!(parsed.raw_serial().len() <= 20 && parsed.raw_serial().len() > 8);
    }
    let (_, root) = X509Certificate::from_der(authority.root().der()).unwrap();
    root.verify_signature(None).unwrap();
    let name = authority.root().subject();
    assert!(
        name.starts_with("CN=Lockgate root ") && name.len() <= 3 + 64,
        "{name}"
    );
    let other = State::new().open().unwrap();
    assert_ne!(name, other.root().subject(), "roots of two machines differ");
    assert_ne!(authority.root().sha256(), other.root().sha256());
    assert_eq!(authority.root().sha256().len(), 32 * 3 - 1);
}

#[test]
fn an_authority_that_is_whole_is_only_read() {
    let state = State::new();
    let first = state.open().unwrap();
    let inodes = || FILES.map(|name| fs::metadata(state.file(name)).unwrap().ino());
    let before = inodes();
    let second = state.open().unwrap();
    assert_eq!(second.origin(), AuthorityOrigin::Found);
    assert_eq!(second.root(), first.root());
    assert_eq!(second.intermediate(), first.intermediate());
    assert_eq!(inodes(), before);
    // Neither the root's key nor the right to write is needed for it.
    fs::remove_file(state.file("root.key")).unwrap();
    let third = state.open().unwrap();
    let issued = third.issue(&LeafRequest::for_host("box.lan"), SystemTime::now());
    assert!(accepted(
        &first,
        &issued.unwrap(),
        "box.lan",
        SystemTime::now()
    ));
}

#[test]
fn a_creation_that_was_killed_goes_on_at_each_step() {
    let whole = State::new();
    let authority = whole.open().unwrap();
    for kept in 0..=FILES.len() {
        let state = State::new();
        fs::create_dir(state.folder()).unwrap();
        for name in &FILES[..kept] {
            fs::copy(whole.file(name), state.file(name)).unwrap();
        }
        if let Some(next) = FILES.get(kept) {
            // It was being written.
            fs::write(state.file(&format!("{next}.new")), "-----BEGIN").unwrap();
        }
        let opened = state.open().unwrap();
        for name in &FILES[..kept] {
            assert_eq!(
                state.text(name),
                whole.text(name),
                "{name} after {kept} files"
            );
        }
        assert_eq!(opened.root() == authority.root(), kept >= 2);
        if kept >= 1 {
            // The same key and name: who trusts one trusts the other.
            assert_eq!(opened.root().subject(), authority.root().subject());
        }
        assert_eq!(opened.intermediate() == authority.intermediate(), kept >= 3);
        let expected = match kept {
            0 | 1 => AuthorityOrigin::NewRoot,
            2 => AuthorityOrigin::NewIntermediate,
            _ => AuthorityOrigin::Found,
        };
        assert_eq!(opened.origin(), expected, "after {kept} files");
        let count = fs::read_dir(state.folder()).unwrap().count();
        // Who writes nothing needs no lock.
        let with_lock = FILES.len() + usize::from(kept < FILES.len());
        assert_eq!(count, with_lock, "after {kept} files");
        let issued = opened.issue(&LeafRequest::for_host("box.lan"), SystemTime::now());
        assert!(accepted(
            &opened,
            &issued.unwrap(),
            "box.lan",
            SystemTime::now()
        ));
    }
}

#[test]
fn processes_that_create_at_once_make_one_authority() {
    let state = State::new();
    let made = std::thread::scope(|scope| {
        // `flock` keeps apart what was opened twice, also within a process.
        let threads = [(); 8].map(|()| scope.spawn(|| state.open().unwrap()));
        threads.map(|thread| thread.join().unwrap())
    });
    for one in &made {
        assert_eq!(one.root(), made[0].root());
        assert_eq!(one.intermediate(), made[0].intermediate());
    }
    let new = made
        .iter()
        .filter(|one| one.origin() == AuthorityOrigin::NewRoot);
    assert_eq!(new.count(), 1);
}

#[test]
fn the_lock_is_of_one_process_until_it_ends() {
    let state = State::new();
    let authority = state.open().unwrap();
    let lock = authority.folder().try_lock().unwrap();
    assert!(lock.is_some());
    assert!(authority.folder().try_lock().unwrap().is_none());
    drop(lock);
    assert!(authority.folder().lock().is_ok());
}

#[test]
fn a_root_that_is_damaged_or_of_a_newer_version_is_never_replaced() {
    let state = State::new();
    let authority = state.open().unwrap();
    let refuse = |expected: &str| {
        let before = FILES.map(|name| fs::read(state.file(name)).ok());
        let error = state.open().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let after = FILES.map(|name| fs::read(state.file(name)).ok());
        assert_eq!(before, after);
    };
    let leaf = authority.issue(&LeafRequest::for_host("a.lan"), SystemTime::now());
    let leaf = leaf.unwrap().chain_pem;
    let bad = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    for (text, expected) in [
        ("", "it has no certificate"),
        ("garbage", "it has no certificate"),
        (bad, "it is no certificate"),
        (&leaf, "not the certificate of an authority"),
    ] {
        fs::write(state.file("root.pem"), text).unwrap();
        refuse(expected);
    }
    fs::write(state.file("root.pem"), authority.root().pem()).unwrap();
    state.open().unwrap();
    fs::write(state.file("authority.json"), "{\"version\": 2}").unwrap();
    refuse("only a newer Lockgate understands");
    fs::write(state.file("authority.json"), "no JSON").unwrap();
    state.open().unwrap();
    assert!(state.text("authority.json").contains("\"version\": 1"));

    // A new intermediate certificate needs the root's key.
    let root_key = state.text("root.key");
    fs::remove_file(state.file("intermediate.pem")).unwrap();
    fs::write(state.file("root.key"), "garbage").unwrap();
    refuse("it has no private key");
    let other = State::new();
    other.open().unwrap();
    fs::write(state.file("root.key"), other.text("root.key")).unwrap();
    refuse("it is not the key of the root certificate");
    fs::remove_file(state.file("root.key")).unwrap();
    refuse("the root's key is not there");
    fs::write(state.file("root.key"), root_key).unwrap();
    assert_eq!(state.open().unwrap().root(), authority.root());
}

#[test]
fn an_intermediate_that_cannot_be_used_is_made_anew() {
    let state = State::new();
    let authority = state.open().unwrap();
    let good = state.text("intermediate.pem");
    let other = State::new();
    other.open().unwrap();
    let others = other.text("intermediate.pem");
    let (others_cert, others_key) = others.split_at(others.find("-----BEGIN PRIVATE").unwrap());
    let (cert, key) = good.split_at(good.find("-----BEGIN PRIVATE").unwrap());
    let root_with_key = authority.root().pem() + &state.text("root.key");
    for text in [
        "",
        "garbage",
        cert,
        key,
        &others,
        &[cert, others_key].concat(),
        &[others_cert, key].concat(),
        &good[..good.len() / 2],
    ] {
        fs::write(state.file("intermediate.pem"), text).unwrap();
        let opened = state.open().unwrap();
        assert_eq!(opened.origin(), AuthorityOrigin::NewIntermediate, "{text}");
        assert_eq!(opened.root(), authority.root());
        let issued = opened.issue(&LeafRequest::for_host("box.lan"), SystemTime::now());
        assert!(accepted(
            &authority,
            &issued.unwrap(),
            "box.lan",
            SystemTime::now()
        ));
    }
    // The root itself may stand in for it.
    fs::write(state.file("intermediate.pem"), root_with_key).unwrap();
    assert_eq!(state.open().unwrap().origin(), AuthorityOrigin::Found);
}

#[test]
fn a_wrong_clock_makes_no_authority_and_an_expired_root_issues_nothing() {
    let state = State::new();
    let error = state.open_at(UNIX_EPOCH).unwrap_err();
    assert!(matches!(error, AuthorityError::Clock { .. }), "{error}");
    assert!(!state.folder().exists());
    let authority = state.open_at(day(0)).unwrap();
    let (ten_years, request) = (3_653, LeafRequest::for_host("box.lan"));
    for (time, expected) in [
        (UNIX_EPOCH, "not valid yet"),
        (day(0) - DAY, "not valid yet"),
        (day(ten_years), "the root certificate has expired"),
    ] {
        let error = state.open_at(time).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(authority.issue(&request, time).is_err());
    }
    // The clock was a year ahead when the intermediate certificate was made.
    fs::remove_file(state.file("intermediate.pem")).unwrap();
    let ahead = state.open_at(day(365)).unwrap();
    assert!(ahead.issue(&request, day(1)).is_err());
    let opened = state.open_at(day(1)).unwrap();
    assert_eq!(opened.origin(), AuthorityOrigin::NewIntermediate);
    assert_eq!(opened.root(), authority.root());
}

#[test]
fn over_ten_years_intermediates_are_renewed_and_outlive_their_leaves() {
    let state = State::new();
    let mut authority = state.open_at(day(0)).unwrap();
    let mut intermediates = 1;
    let (mut request, root_ends) = (LeafRequest::for_host("box.lan"), 3_652);
    for at in (0..root_ends - 1).step_by(29) {
        let now = day(at);
        if authority.renew(now).unwrap() {
            intermediates += 1;
            assert!(!authority.is_renewal_due(now));
            assert_eq!(
                state.open_at(now).unwrap().intermediate(),
                authority.intermediate()
            );
        }
        for life in [LEAF_LIFE, LONGEST_LEAF] {
            request.life = life;
            let issued = authority.issue(&request, now).unwrap();
            let (leaf, above) = (issued.period, authority.intermediate().period());
            assert!(above.contains(leaf.not_before) && above.contains(leaf.not_after));
            assert!(accepted(&authority, &issued, "box.lan", now), "day {at}");
            assert!(
                accepted(&authority, &issued, "box.lan", leaf.not_after),
                "day {at}"
            );
            let after = leaf.not_after + Duration::from_secs(2);
            assert!(!accepted(&authority, &issued, "box.lan", after), "day {at}");
            // Only the end of the root makes it shorter.
            if at + 366 < root_ends {
                assert_eq!(leaf.not_after, now + life, "day {at}");
            }
        }
    }
    assert_eq!(intermediates, 5);
    assert!(
        !authority.renew(day(root_ends - 1)).unwrap(),
        "it would end no later"
    );
    let error = authority.issue(&request, day(root_ends)).unwrap_err();
    assert!(matches!(error, AuthorityError::IntermediateEnds), "{error}");
}

#[test]
fn two_processes_renew_an_intermediate_once_and_without_the_root_key_not() {
    let state = State::new();
    let mut first = state.open_at(day(0)).unwrap();
    let mut second = state.open_at(day(0)).unwrap();
    let old = first
        .issue(&LeafRequest::for_host("box.lan"), day(730))
        .unwrap();
    let later = day(731);
    let root_key = fs::read(state.file("root.key")).unwrap();
    fs::remove_file(state.file("root.key")).unwrap();
    let before = first.intermediate().clone();
    let error = first.renew(later).unwrap_err();
    assert!(
        matches!(error, AuthorityError::RootKeyMissing { .. }),
        "{error}"
    );
    assert_eq!(first.intermediate(), &before);
    first
        .issue(&LeafRequest::for_host("box.lan"), later)
        .unwrap();
    fs::write(state.file("root.key"), root_key).unwrap();
    assert!(first.renew(later).unwrap() && second.renew(later).unwrap());
    assert_ne!(first.intermediate(), &before);
    assert_eq!(first.intermediate(), second.intermediate());
    assert!(!second.renew(later).unwrap());
    assert!(
        accepted(&second, &old, "box.lan", later),
        "the old chain stays good"
    );
}

#[test]
fn a_handshake_accepts_names_wildcards_and_addresses_that_were_issued() {
    let authority = State::new().open().unwrap();
    let now = SystemTime::now();
    for (host, good, bad) in [
        ("localhost", "localhost", "other"),
        ("Box.LAN", "box.lan", "a.box.lan"),
        ("*.example.lan", "a.example.lan", "a.b.example.lan"),
        ("my_app", "my_app", "my-app"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
        ("::1", "::1", "127.0.0.1"),
    ] {
        let issued = authority.issue(&LeafRequest::for_host(host), now).unwrap();
        handshake(&authority, good, &issued, None).unwrap();
        assert!(handshake(&authority, bad, &issued, None).is_err(), "{bad}");
    }
    let request = LeafRequest {
        names: ["b.lan", "a.lan", "B.lan"].map(str::to_owned).to_vec(),
        addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        key: CertKeyKind::Rsa2048,
        ..LeafRequest::for_host("unused")
    };
    let issued = authority.issue(&request, now).unwrap();
    for name in ["a.lan", "b.lan", "192.0.2.1", "2001:db8::1"] {
        handshake(&authority, name, &issued, None).unwrap();
    }
}

#[test]
fn a_client_certificate_is_for_clients_and_a_server_certificate_for_servers() {
    let authority = State::new().open().unwrap();
    let now = SystemTime::now();
    let server = authority
        .issue(&LeafRequest::for_host("a.lan"), now)
        .unwrap();
    let alice = authority
        .issue(&client_request("Alice Example"), now)
        .unwrap();
    handshake(&authority, "a.lan", &server, Some(&alice)).unwrap();
    assert!(handshake(&authority, "a.lan", &server, Some(&server)).is_err());
    let named = LeafRequest {
        names: vec!["a.lan".to_owned()],
        ..client_request("a.lan")
    };
    let named = authority.issue(&named, now).unwrap();
    assert!(handshake(&authority, "a.lan", &named, None).is_err());
    let other = State::new().open().unwrap();
    let mallory = other.issue(&client_request("Alice Example"), now).unwrap();
    assert!(handshake(&authority, "a.lan", &server, Some(&mallory)).is_err());
}

#[test]
fn a_leaf_has_the_extensions_of_rfc_5280() {
    let authority = State::new().open().unwrap();
    let now = SystemTime::now();
    let long = format!("{}.example.lan", "a".repeat(63));
    let (_, intermediate) = X509Certificate::from_der(authority.intermediate().der()).unwrap();
    let key_id = |cert: &X509Certificate<'_>| {
        cert.iter_extensions()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                _ => None,
            })
    };
    let mut serials = Vec::new();
    for (request, subject, names) in [
        (LeafRequest::for_host("a.lan"), "CN=a.lan", 1),
        (LeafRequest::for_host(&long), "", 1),
        (LeafRequest::for_host("192.0.2.1"), "CN=192.0.2.1", 1),
        (client_request("Alice"), "CN=Alice", 0),
    ] {
        let issued = authority.issue(&request, now).unwrap();
        let chain = chain(&issued);
        assert_eq!(chain.len(), 2, "the leaf and the intermediate");
        assert_eq!(chain[1].as_ref(), authority.intermediate().der());
        let (_, leaf) = X509Certificate::from_der(&chain[0]).unwrap();
        assert_eq!(leaf.subject().to_string(), subject);
        assert_eq!(leaf.issuer().as_raw(), intermediate.subject().as_raw());
        let basic = leaf.basic_constraints().unwrap().unwrap();
        assert!(basic.critical && !basic.value.ca);
        let usage = leaf.key_usage().unwrap().unwrap();
        assert!(
            usage.critical && usage.value.flags == 1,
            "digitalSignature alone"
        );
        let extended = leaf.extended_key_usage().unwrap().unwrap().value;
        let is_client = matches!(request.usage, LeafUsage::Client { .. });
        assert_eq!(
            (extended.server_auth, extended.client_auth),
            (!is_client, is_client)
        );
        let alternative = leaf.subject_alternative_name().unwrap();
        let found = alternative
            .as_ref()
            .map_or(0, |names| names.value.general_names.len());
        assert_eq!(found, names);
        if let Some(alternative) = alternative {
            assert_eq!(
                alternative.critical,
                subject.is_empty(),
                "RFC 5280 §4.1.2.6"
            );
        }
        let above =
            leaf.iter_extensions()
                .find_map(|extension| match extension.parsed_extension() {
                    ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.clone(),
                    _ => None,
                });
        assert_eq!(above.map(|id| id.0.to_vec()), key_id(&intermediate));
        assert!(key_id(&leaf).is_some());
        assert!(leaf.raw_serial().len() <= 20 && leaf.raw_serial().len() > 8);
        serials.push(leaf.raw_serial().to_vec());
        let skew = now.duration_since(issued.period.not_before).unwrap();
        assert!((3_599..=3_601).contains(&skew.as_secs()), "{skew:?}");
    }
    serials.sort();
    serials.dedup();
    assert_eq!(serials.len(), 4);
}

#[test]
fn a_request_that_no_certificate_can_meet_says_why() {
    let authority = State::new().open().unwrap();
    let refused = |request: LeafRequest| {
        let issued = authority.issue(&request, SystemTime::now());
        issued.unwrap_err().to_string()
    };
    let host = LeafRequest::for_host;
    assert!(refused(host("münchen.lan")).contains("xn--"));
    assert!(
        refused(host("a\n.lan")).contains("\\n"),
        "a name is shown escaped"
    );
    assert!(refused(host("*.lan")).contains("two parts"));
    assert!(refused(host("")).contains("empty"));
    let nameless = LeafRequest {
        names: Vec::new(),
        ..host("a.lan")
    };
    assert!(refused(nameless).contains("a name or an address"));
    let address = |number: u32| IpAddr::from(number.to_be_bytes());
    let many = LeafRequest {
        addresses: (0..=100).map(address).collect(),
        ..host("127.0.0.1")
    };
    assert!(refused(many).contains("101 names"));
    for life in [
        Duration::ZERO,
        Duration::from_secs(3_599),
        LONGEST_LEAF + DAY,
    ] {
        let request = LeafRequest {
            life,
            ..host("a.lan")
        };
        assert!(refused(request).contains("365 days"));
    }
    for name in ["", "a\u{1b}[2J", &"ä".repeat(65)] {
        assert!(
            refused(client_request(name)).contains("1 to 64 characters"),
            "{name}"
        );
    }
    let name = "ä".repeat(64);
    assert!(
        authority
            .issue(&client_request(&name), SystemTime::now())
            .is_ok()
    );
}

#[test]
fn names_of_a_certificate_are_in_lower_case_and_once() {
    let authority = State::new().open().unwrap();
    let request = LeafRequest {
        names: ["B.lan.", "a.lan", "b.lan"].map(str::to_owned).to_vec(),
        addresses: vec!["::1".parse().unwrap(), "::1".parse().unwrap()],
        ..LeafRequest::for_host("unused")
    };
    let issued = authority.issue(&request, SystemTime::now()).unwrap();
    let chain = chain(&issued);
    let (_, leaf) = X509Certificate::from_der(&chain[0]).unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    let address = std::net::Ipv6Addr::LOCALHOST.octets();
    assert_eq!(
        names.value.general_names,
        [
            GeneralName::DNSName("b.lan"),
            GeneralName::DNSName("a.lan"),
            GeneralName::IPAddress(&address),
        ]
    );
}

#[test]
fn what_root_makes_belongs_to_the_owner_of_the_folder_above() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can give files away");
    }
    let state = State::new();
    chown(state.0.path(), Some(65_534), Some(65_534)).unwrap();
    state.open().unwrap();
    let owner = |path: PathBuf| {
        let found = fs::metadata(path).unwrap();
        (found.uid(), found.gid())
    };
    assert_eq!(owner(state.folder()), (65_534, 65_534));
    for name in FILES.into_iter().chain(["lock"]) {
        assert_eq!(owner(state.file(name)), (65_534, 65_534), "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_or_read_is_named() {
    let state = State::new();
    let below = state.0.path().join("missing/ca");
    let error = Authority::open_or_create(&below, SystemTime::now()).unwrap_err();
    assert!(error.to_string().contains("missing/ca"), "{error}");
    fs::write(state.folder(), "a file").unwrap();
    let error = state.open().unwrap_err();
    assert!(error.to_string().contains("ca/"), "{error}");
    assert!(!error.is_permission_denied());
}
