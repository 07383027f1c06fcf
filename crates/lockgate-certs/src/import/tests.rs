//! Folders as certbot, Caddy and Traefik leave them, made at run time.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64ct::{Base64, Base64UrlUnpadded, Encoding as _};
use lockgate_rules::CertKeyKind;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PublicKeyData as _};
use serde_json::json;

use super::*;
use crate::store::{CertFolder, CertId};

const LETSENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
const DAY: u64 = 86_400;

/// A chain with its key, valid for so many days from now.
struct Made {
    chain: String,
    key: String,
}

fn made(names: &[&str], days: i64) -> Made {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca_cert = ca.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut leaf = CertificateParams::new(names).unwrap();
    let now = time::OffsetDateTime::now_utc();
    (leaf.not_before, leaf.not_after) = (
        now - time::Duration::days(60),
        now + time::Duration::days(days),
    );
    let key = KeyPair::generate().unwrap();
    let cert = leaf.signed_by(&key, &issuer).unwrap();
    Made {
        chain: cert.pem() + &ca_cert.pem(),
        key: key.serialize_pem(),
    }
}

/// An ECDSA key in SEC1 form, as Go writes it, from PKCS#8: the last OCTET STRING has it.
fn sec1(key: &KeyPair) -> String {
    let pkcs8 = key.serialize_der();
    // SEQUENCE { version, algorithm, OCTET STRING { ECPrivateKey } }
    let at = pkcs8
        .windows(3)
        .position(|bytes| bytes == [0x02, 0x01, 0x01])
        .unwrap();
    pem(&pkcs8[at - 2..], "EC PRIVATE KEY")
}

use crate::authority::pem::pem;

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// One lineage of certbot: links from `live` to `archive`.
fn lineage(root: &Path, name: &str, made: &Made, server: &str) {
    let archive = root.join("archive").join(name);
    let live = root.join("live").join(name);
    write(&archive.join("fullchain1.pem"), &made.chain);
    write(&archive.join("privkey1.pem"), &made.key);
    fs::create_dir_all(&live).unwrap();
    for file in ["fullchain", "privkey"] {
        let target = PathBuf::from(format!("../../archive/{name}/{file}1.pem"));
        symlink(target, live.join(format!("{file}.pem"))).unwrap();
    }
    let conf = format!("version = 2.1\n[renewalparams]\naccount = abc\nserver = {server}\n");
    write(&root.join(format!("renewal/{name}.conf")), conf);
}

fn id(name: &str) -> CertId {
    CertId {
        name: name.to_owned(),
        key: CertKeyKind::EcdsaP256,
        on_demand: false,
    }
}

/// Imports all; each result as text.
fn import(found: &FoundCerts, target: &ImportTarget) -> Vec<String> {
    let certs =
        found
            .certs
            .iter()
            .flat_map(|cert| match target.add_cert(cert, SystemTime::now()) {
                Ok(done) => done
                    .iter()
                    .map(|done| format!("{}: {:?}", done.id.name, done.result))
                    .collect(),
                Err(why) => vec![why],
            });
    certs.collect()
}

fn open(state: &Path) -> ImportTarget {
    ImportTarget::open(state, None, false).unwrap().unwrap()
}

#[test]
fn certificates_of_certbot_are_imported_through_its_links_once_for_each_name() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = made(&["a.example.com", "*.example.com"], 60);
    lineage(root.path(), "a.example.com", &made, LETSENCRYPT);
    write(&root.path().join("live/README"), "no certificate");
    assert_eq!(
        ImportSource::of_path(root.path()),
        Some(ImportSource::Certbot)
    );
    let found = ImportSource::Certbot.read(root.path()).unwrap();
    assert_eq!(found.skipped, []);
    let target = open(state.path());
    assert_eq!(
        import(&found, &target),
        ["a.example.com: Written", "*.example.com: Written"]
    );
    assert_eq!(
        import(&found, &target),
        ["a.example.com: Present", "*.example.com: Present"]
    );
    let folder = CertFolder::of_state(state.path());
    let listed = folder.stored(SystemTime::now()).unwrap();
    let names: Vec<_> = listed.iter().map(|(id, _)| &*id.name).collect();
    assert_eq!(names, ["*.example.com", "a.example.com"]);
    for (id, status) in listed {
        assert_eq!(status.directory.as_deref(), Some(LETSENCRYPT));
        // The record of a directory lets ARI and `replaces` work.
        assert!(status.due.is_some() && status.failures == 0);
        let text = fs::read_to_string(folder.cert_file(&id)).unwrap();
        assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(text.trim_end().ends_with("-----END PRIVATE KEY-----"));
    }
}

#[test]
fn only_names_that_the_configuration_wants_are_imported() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let both = made(&["a.example.com", "b.example.com"], 60);
    lineage(root.path(), "a.example.com", &both, LETSENCRYPT);
    let other = made(&["other.example.com"], 60);
    lineage(root.path(), "other.example.com", &other, LETSENCRYPT);
    let found = ImportSource::Certbot.read(root.path()).unwrap();
    let wanted = Some(vec![id("b.example.com"), id("c.example.com")]);
    let target = ImportTarget::open(state.path(), wanted, false);
    assert_eq!(
        import(&found, &target.unwrap().unwrap()),
        [
            "b.example.com: Written",
            "the configuration wants no certificate for other.example.com"
        ]
    );
}

#[test]
fn an_imported_certificate_never_replaces_a_newer_one_unless_forced() {
    let state = tempfile::tempdir().unwrap();
    let found = |days| FoundCerts {
        certs: vec![{
            let made = made(&["a.example.com"], days);
            FoundCert {
                place: "test".to_owned(),
                chain: made.chain.into_bytes(),
                key: SecretText(made.key.into_bytes()),
                directory: None,
            }
        }],
        ..FoundCerts::default()
    };
    let target = open(state.path());
    assert_eq!(import(&found(60), &target), ["a.example.com: Written"]);
    assert_eq!(
        import(&found(30), &target),
        ["a.example.com: OlderThanPresent"]
    );
    assert_eq!(import(&found(80), &target), ["a.example.com: Written"]);
    drop(target);
    let target = ImportTarget::open(state.path(), None, true).unwrap();
    assert_eq!(
        import(&found(30), &target.unwrap()),
        ["a.example.com: Written"]
    );
}

#[test]
fn a_file_that_cannot_be_used_is_reported_and_nothing_of_it_is_written() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = root.path();
    lineage(root, "expired", &made(&["a.example.com"], -1), LETSENCRYPT);
    lineage(root, "staging", &made(&["b.example.com"], 60), STAGING);
    let other = Made {
        key: made(&["x.test"], 60).key,
        ..made(&["c.example.com"], 60)
    };
    lineage(root, "otherkey", &other, LETSENCRYPT);
    let garbage = Made {
        chain: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
        ..made(&["d.example.com"], 60)
    };
    lineage(root, "garbage", &garbage, LETSENCRYPT);
    let path = Made {
        ..made(&["../e"], 60)
    };
    lineage(root, "path", &path, LETSENCRYPT);
    fs::create_dir_all(root.join("live/empty")).unwrap();
    let large = Made {
        chain: "x".repeat(2 << 20),
        ..made(&["f.example.com"], 60)
    };
    lineage(root, "zlarge", &large, LETSENCRYPT);
    let found = ImportSource::Certbot.read(root).unwrap();
    let skipped: Vec<_> = found.skipped.iter().map(|one| &one.why).collect();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!(skipped[0].contains("No such file"), "{skipped:?}");
    assert!(skipped[1].contains("larger than"), "{skipped:?}");
    assert_eq!(
        import(&found, &open(state.path())),
        [
            "it has expired",
            "it is broken",
            "its key is that of another certificate",
            "it has no DNS name",
            &format!("no client trusts it: it is of {STAGING}"),
        ]
    );
    let folder = CertFolder::of_state(state.path());
    assert_eq!(folder.stored(SystemTime::now()).unwrap(), []);
}

#[test]
fn certificates_and_accounts_of_caddy_are_imported() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = root.path();
    let made = made(&["a.example.com"], 60);
    let folder = root.join("certificates/acme-v02.api.letsencrypt.org-directory/a.example.com");
    write(&folder.join("a.example.com.crt"), &made.chain);
    write(&folder.join("a.example.com.key"), &made.key);
    let resource = json!({ "sans": ["a.example.com"], "issuer_data": { "url": "https://x", "ca": LETSENCRYPT } });
    write(&folder.join("a.example.com.json"), resource.to_string());
    write(
        &root.join("certificates/local/b.lan/b.lan.crt"),
        "own authority",
    );
    let user = root.join("acme/acme-v02.api.letsencrypt.org-directory/users/me@example.com");
    let key = KeyPair::generate().unwrap();
    write(&user.join("me.key"), sec1(&key));
    let account = json!({ "status": "valid", "contact": ["mailto:me@example.com"], "location": "https://acme/1" });
    write(&user.join("me.json"), account.to_string());
    assert_eq!(ImportSource::of_path(root), Some(ImportSource::Caddy));
    let found = ImportSource::Caddy.read(root).unwrap();
    assert_eq!(found.skipped.len(), 1, "{:?}", found.skipped);
    let target = open(state.path());
    assert_eq!(import(&found, &target), ["a.example.com: Written"]);
    let [account] = &found.accounts[..] else {
        panic!("{:?}", found.skipped)
    };
    assert!(!format!("{account:?}").contains("PRIVATE"));
    target.add_account(account).unwrap();
    assert!(target.add_account(account).is_err(), "one is there");
    let kept = CertFolder::of_state(state.path()).account(LETSENCRYPT);
    let kept = kept.unwrap().unwrap();
    assert_eq!(kept.url.as_deref(), Some("https://acme/1"));
    assert_eq!(kept.email.as_deref(), Some("me@example.com"));
    let public = crate::keys::public_key(&kept.key).unwrap();
    assert_eq!(public, key.subject_public_key_info());
}

#[test]
fn certificates_of_traefik_are_imported_and_its_rsa_account_is_not() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = made(&["a.example.com", "www.example.com"], 60);
    let rsa = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let encode = |text: &[u8]| Base64::encode_string(text);
    let json = json!({ "le": {
        "Account": {
            "Email": "me@example.com",
            "Registration": { "uri": "https://acme-v02.api.letsencrypt.org/acme/acct/1" },
            "PrivateKey": encode(&rsa.serialize_der()),
            "KeyType": "4096",
        },
        "Certificates": [
            {
                "domain": { "main": "a.example.com", "sans": ["www.example.com"] },
                "certificate": encode(made.chain.as_bytes()),
                "key": encode(made.key.as_bytes()),
                "Store": "default",
            },
            { "domain": { "main": "b.example.com" }, "certificate": "?", "key": "" },
        ],
    }, "broken": 1, "new": { "Account": null, "Certificates": null } });
    let file = root.path().join("acme.json");
    write(&file, json.to_string());
    for path in [root.path(), &file] {
        assert_eq!(ImportSource::of_path(path), Some(ImportSource::Traefik));
        let found = ImportSource::Traefik.read(path).unwrap();
        let whys: Vec<_> = found.skipped.iter().map(|one| &one.why[..10]).collect();
        assert_eq!(whys, ["no resolve", "the accoun", "certificat"]);
        assert_eq!((found.certs.len(), found.accounts.len()), (1, 0));
    }
    let found = ImportSource::Traefik.read(&file).unwrap();
    assert_eq!(
        import(&found, &open(state.path())),
        ["a.example.com: Written", "www.example.com: Written"]
    );
    let listed = CertFolder::of_state(state.path()).stored(SystemTime::now());
    for (_, status) in listed.unwrap() {
        assert_eq!(status.directory.as_deref(), Some(LETSENCRYPT));
    }
}

#[test]
fn an_account_of_certbot_is_imported_where_its_key_is_of_p256() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    fs::create_dir_all(root.join("live")).unwrap();
    let accounts = root.join("accounts/acme-v02.api.letsencrypt.org/directory");
    let key = KeyPair::generate().unwrap();
    let pkcs8 = key.serialize_der();
    let at = pkcs8
        .windows(5)
        .position(|bytes| bytes == [0x02, 0x01, 0x01, 0x04, 0x20])
        .unwrap();
    let point = key.public_key_raw();
    let encode = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
    let jwk = json!({
        "kty": "EC", "crv": "P-256", "d": encode(&pkcs8[at + 5..at + 37]),
        "x": encode(&point[1..33]), "y": encode(&point[33..]),
    });
    write(&accounts.join("one/private_key.json"), jwk.to_string());
    write(
        &accounts.join("one/regr.json"),
        json!({ "body": {}, "uri": "https://acme/1" }).to_string(),
    );
    write(
        &accounts.join("rsa/private_key.json"),
        json!({ "kty": "RSA", "n": "AQ", "e": "AQAB", "d": "AQ" }).to_string(),
    );
    let found = ImportSource::Certbot.read(root).unwrap();
    let [account] = &found.accounts[..] else {
        panic!("{:?}", found.skipped)
    };
    assert_eq!(account.directory, LETSENCRYPT);
    assert_eq!(account.url.as_deref(), Some("https://acme/1"));
    let text = std::str::from_utf8(&account.key.0).unwrap();
    let public = crate::keys::public_key(text).unwrap();
    assert_eq!(public, key.subject_public_key_info());
    let [rsa] = &found.skipped[..] else {
        panic!("{:?}", found.skipped)
    };
    assert!(rsa.why.contains("not ECDSA over P-256"), "{rsa:?}");
}

#[test]
fn nothing_is_imported_while_another_process_obtains_certificates() {
    let state = tempfile::tempdir().unwrap();
    let first = open(state.path());
    assert!(
        ImportTarget::open(state.path(), None, false)
            .unwrap()
            .is_none()
    );
    drop(first);
    assert!(
        ImportTarget::open(state.path(), None, false)
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_folder_of_another_program_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    for source in ImportSource::ALL {
        assert!(source.read(root.path()).is_err(), "{source:?}");
        assert!(source.read(&root.path().join("missing")).is_err());
    }
    assert_eq!(ImportSource::of_path(root.path()), None);
}

#[test]
fn the_validity_of_an_imported_certificate_is_told() {
    let state = tempfile::tempdir().unwrap();
    let made = made(&["a.example.com"], 60);
    let found = FoundCert {
        place: "test".to_owned(),
        chain: made.chain.into_bytes(),
        key: SecretText(made.key.into_bytes()),
        directory: None,
    };
    let now = SystemTime::now();
    let done = open(state.path()).add_cert(&found, now).unwrap();
    let left = done[0].validity.not_after.duration_since(now).unwrap();
    assert!(left > Duration::from_secs(59 * DAY) && left < Duration::from_secs(61 * DAY));
    assert!(done[0].file.ends_with("certs/a.example.com.pem"));
}
