//! Certificate and key files: errors, warnings and names.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CustomExtension, DnType, SanType, date_time_ymd};

use crate::tls::certs::Certificate;
use crate::tls::fixtures::*;
use crate::tls::*;

fn load(cert: &Path) -> Result<Certificate, CertError> {
    Certificate::load(&CertFiles::of(cert))
}

fn load_with_key(cert: &Path, key: &Path) -> Result<Certificate, CertError> {
    Certificate::load(&CertFiles {
        key: Some(key.to_owned()),
        ..CertFiles::of(cert)
    })
}

fn noon(year: i32, month: u8, day: u8) -> SystemTime {
    let midnight = date_time_ymd(year, month, day).unix_timestamp();
    UNIX_EPOCH + Duration::from_secs(midnight as u64 + 12 * 3600)
}

#[test]
fn the_private_key_is_found_inside_beside_or_by_name() {
    let (folder, issued) = (Folder::new(), Ca::new("ca").issue(&["a.example"]));
    let (cert, key) = (issued.pem(), issued.key_pem());
    let inside = folder.write("inside.pem", issued.both());
    let first = folder.write("key-first.pem", key.clone() + &cert);
    for path in [inside, first] {
        assert_eq!(load(&path).unwrap().paths().last().unwrap(), path);
    }

    folder.write("x.key", &key);
    for name in ["x.pem", "x.crt", "x"] {
        let path = folder.write(name, &cert);
        assert_eq!(
            load(&path).unwrap().paths().last().unwrap(),
            folder.path("x.key"),
            "{name}"
        );
    }
    let path = folder.write("fullchain.pem", &cert);
    folder.write("privkey.pem", &key);
    assert_eq!(
        load(&path).unwrap().paths().last().unwrap(),
        folder.path("privkey.pem")
    );

    let named = folder.write("elsewhere", &key);
    assert_eq!(
        load_with_key(&path, &named)
            .unwrap()
            .paths()
            .last()
            .unwrap(),
        named
    );
}

#[test]
fn every_private_key_type_is_read_in_every_encoding() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    for (algorithm, label, kind) in [
        (&P256, Some("EC PRIVATE KEY"), KeyKind::EcdsaP256),
        (&P384, Some("EC PRIVATE KEY"), KeyKind::EcdsaP384),
        (&RSA, Some("RSA PRIVATE KEY"), KeyKind::Rsa(2048)),
        (&ED25519, None, KeyKind::Ed25519),
    ] {
        let issued = ca.issue_with(&["a.example"], algorithm, |_| {});
        let loaded = load(&folder.write("pkcs8.pem", issued.both())).unwrap();
        assert_eq!(loaded.facts.key, kind);
        if let Some(label) = label {
            // As `openssl ecparam -genkey` writes it: the parameters come first.
            let parameters = pem(
                "EC PARAMETERS",
                &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
            );
            let both = parameters + &issued.bare_key_pem(label) + &issued.pem();
            assert_eq!(
                load(&folder.write("bare.pem", both)).unwrap().facts.key,
                kind
            );
        }
    }
}

#[test]
fn every_unusable_certificate_file_has_its_own_error() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let issued = ca.issue(&["a.example"]);
    let (cert, key) = (
        folder.write("a.pem", issued.pem()),
        folder.write("a.key", issued.key_pem()),
    );
    let path = folder.path("missing");
    assert_eq!(
        load(&path).unwrap_err(),
        CertError::Missing { path: path.clone() }
    );
    assert_eq!(
        load_with_key(&cert, &path).unwrap_err(),
        CertError::Missing { path }
    );

    let path = folder.path("");
    assert!(
        matches!(load(&path).unwrap_err(), CertError::Unreadable { .. }),
        "a directory"
    );
    let path = folder.write("empty", " \n");
    assert_eq!(
        load(&path).unwrap_err(),
        CertError::Empty { path: path.clone() }
    );
    assert_eq!(
        load_with_key(&cert, &path).unwrap_err(),
        CertError::Empty { path }
    );
    let path = folder.write("text", "hello");
    assert_eq!(
        load(&path).unwrap_err(),
        CertError::NoCertificate { path, der: false }
    );
    let path = folder.write("der", issued.cert.der());
    assert_eq!(
        load(&path).unwrap_err(),
        CertError::NoCertificate { path, der: true }
    );
    assert_eq!(
        load(&key).unwrap_err(),
        CertError::NoCertificate {
            path: key.clone(),
            der: false
        }
    );

    let path = folder.write("cut", &issued.pem()[..200]);
    assert!(load(&path).unwrap_err().to_string().contains("cut short"));
    let path = folder.write("junk", pem("CERTIFICATE", b"junk"));
    assert!(matches!(
        load(&path).unwrap_err(),
        CertError::BadCertificate { position: 1, .. }
    ));

    let path = folder.write("lone.pem", issued.pem());
    let looked = vec![path.clone(), folder.path("lone.key")];
    assert_eq!(
        load(&path).unwrap_err(),
        CertError::NoKey {
            cert: path.clone(),
            looked
        }
    );
    assert_eq!(
        load_with_key(&cert, &path).unwrap_err(),
        CertError::NoKey {
            cert: cert.clone(),
            looked: vec![path]
        },
        "no key in the file that is named for it"
    );

    let other = folder.write("other.key", ca.issue(&["b.example"]).key_pem());
    let expected = CertError::Mismatch {
        cert: cert.clone(),
        key: other.clone(),
        owner: None,
    };
    assert_eq!(load_with_key(&cert, &other).unwrap_err(), expected);
}

#[test]
fn a_certificate_file_without_permission_is_unreadable() {
    let (folder, issued) = (Folder::new(), Ca::new("ca").issue(&["a.example"]));
    let cert = folder.write("a.pem", issued.pem());
    let key = folder.write("a.key", issued.key_pem());
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&key).is_ok() {
        return; // root reads everything
    }
    assert!(matches!(load(&cert).unwrap_err(), CertError::Unreadable { path, .. } if path == key));
}

#[test]
fn an_encrypted_private_key_is_reported_in_both_forms() {
    let (folder, issued) = (Folder::new(), Ca::new("ca").issue(&["a.example"]));
    let cert = folder.write("a.pem", issued.pem());
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    for text in [pem("ENCRYPTED PRIVATE KEY", &[0x30, 0]), old.to_owned()] {
        let path = folder.write("a.key", &text);
        assert_eq!(load(&cert).unwrap_err(), CertError::EncryptedKey { path });
        let path = folder.write("both.pem", text + &issued.pem());
        assert_eq!(load(&path).unwrap_err(), CertError::EncryptedKey { path });
    }
}

#[test]
fn an_unsupported_private_key_type_is_reported() {
    let (folder, issued) = (Folder::new(), Ca::new("ca").issue(&["a.example"]));
    let cert = folder.write("a.pem", issued.pem());
    for (label, kind) in [
        ("DSA PRIVATE KEY", "DSA"),
        ("EC PRIVATE KEY", "EC"),
        ("PRIVATE KEY", ""),
    ] {
        let path = folder.write("a.key", pem(label, &[0x30, 0]));
        assert_eq!(
            load(&cert).unwrap_err(),
            CertError::UnsupportedKey {
                path,
                kind: kind.to_owned()
            }
        );
    }
}

#[test]
fn a_ca_before_the_leaf_certificate_is_reported() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let issued = ca.issue(&["a.example"]);
    let path = folder.write("a.pem", ca.pem() + &issued.both());
    assert_eq!(
        load(&path).unwrap_err(),
        CertError::LeafNotFirst { path, position: 2 }
    );
}

#[test]
fn names_are_subject_alternative_names_or_the_common_name() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let common = |params: &mut rcgen::CertificateParams| {
        params
            .distinguished_name
            .push(DnType::CommonName, "Common.Example");
    };
    let issued = ca.issue_with(
        &["A.Example", "*.b.example", "192.0.2.1", "2001:db8::1"],
        &P256,
        common,
    );
    let loaded = load(&folder.write("a.pem", issued.both())).unwrap();
    assert_eq!(loaded.facts.names, ["a.example", "*.b.example"]);
    assert_eq!(
        loaded
            .facts
            .addresses
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["192.0.2.1", "2001:db8::1"]
    );
    assert!(loaded.facts.subject.contains("Common.Example") && loaded.facts.issuer.contains("ca"));

    let loaded = load(&folder.write("b.pem", ca.issue_with(&[], &P256, common).both())).unwrap();
    assert_eq!(loaded.facts.names, ["common.example"]);

    let only_mail = |params: &mut rcgen::CertificateParams| {
        common(params);
        params.subject_alt_names = vec![SanType::Rfc822Name("a@a.example".try_into().unwrap())];
    };
    let loaded = load(&folder.write("c.pem", ca.issue_with(&[], &P256, only_mail).both())).unwrap();
    assert!(loaded.facts.names.is_empty());
}

#[test]
fn expiring_certificates_are_warned_about() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let issued = ca.issue_with(&["a.example"], &P256, |params| {
        params.not_before = date_time_ymd(2030, 1, 1);
        params.not_after = date_time_ymd(2030, 3, 1);
    });
    let cert = folder.write("a.pem", issued.both());
    let loaded = load(&cert).unwrap();
    let at = |month, day| loaded.warnings(noon(2030, month, day));
    assert_eq!(
        loaded.warnings(noon(2029, 12, 30)),
        [Warning::NotYetValid {
            cert: cert.clone(),
            days: 1
        }]
    );
    assert_eq!(at(1, 1), []);
    assert_eq!(at(2, 14), []);
    assert_eq!(
        at(2, 15),
        [Warning::ExpiresSoon {
            cert: cert.clone(),
            days: 13
        }]
    );
    assert_eq!(
        at(2, 28),
        [Warning::ExpiresSoon {
            cert: cert.clone(),
            days: 0
        }]
    );
    assert_eq!(at(3, 4), [Warning::Expired { cert, days: 3 }]);
}

#[test]
fn a_misordered_or_incomplete_certificate_chain_is_warned_about() {
    let (folder, root) = (Folder::new(), Ca::new("root"));
    let middle = root.intermediate("middle");
    let issued = middle.issue(&["a.example"]);
    let warnings = |text: String| {
        load(&folder.write("a.pem", text))
            .unwrap()
            .warnings(noon(2030, 1, 1))
    };
    assert_eq!(warnings(issued.both() + &middle.pem() + &root.pem()), []);
    let cert = folder.path("a.pem");
    assert_eq!(
        warnings(issued.both() + &root.pem()),
        [Warning::ChainOrder {
            cert: cert.clone(),
            position: 1
        }]
    );
    assert_eq!(
        warnings(issued.both() + &middle.pem() + &middle.pem()),
        [Warning::ChainOrder {
            cert: cert.clone(),
            position: 2
        }]
    );
    assert_eq!(
        warnings(issued.both()),
        [],
        "a private CA may do without intermediates"
    );

    let public = middle.issue_with(&["a.example"], &P256, |params| {
        // RFC 5280 §4.2.2.1: id-ad-caIssuers, uniformResourceIdentifier
        let method = der(0x06, &[0x2b, 6, 1, 5, 5, 7, 0x30, 2]);
        let access = der(
            0x30,
            &[method, der(0x86, b"http://ca.example/m.crt")].concat(),
        );
        let oid = [1, 3, 6, 1, 5, 5, 7, 1, 1];
        params.custom_extensions =
            vec![CustomExtension::from_oid_content(&oid, der(0x30, &access))];
    });
    let warned = warnings(public.both());
    assert!(
        matches!(&warned[..], [Warning::NoIntermediate { issuer, .. }] if issuer.contains("middle"))
    );
    assert_eq!(warnings(public.both() + &middle.pem()), []);
}

#[test]
fn a_world_readable_private_key_is_warned_about() {
    let (folder, issued) = (Folder::new(), Ca::new("ca").issue(&["a.example"]));
    let path = folder.write("a.pem", issued.both());
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&path, 0o644);
    let warnings = || load(&path).unwrap().warnings(noon(2030, 1, 1));
    set(path.parent().unwrap(), 0o700);
    assert_eq!(warnings(), [], "no other user can search the folder");
    set(path.parent().unwrap(), 0o711);
    let path = path.clone();
    assert_eq!(warnings(), [Warning::ReadableByOthers { path }]);
}

fn with_ocsp(folder: &Folder, issued: &Issued, response: &[u8]) -> Result<Certificate, CertError> {
    let cert = folder.write("a.pem", issued.both());
    Certificate::load(&CertFiles {
        ocsp: Some(folder.write("a.ocsp", response)),
        ..CertFiles::of(cert)
    })
}

#[test]
fn a_fresh_ocsp_response_for_this_certificate_is_stapled() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let issued = ca.issue_with(&["a.example"], &P256, |params| {
        params.serial_number = Some(7.into())
    });
    let (now, ocsp) = (noon(2030, 1, 1), folder.path("a.ocsp"));

    let fresh = with_ocsp(&folder, &issued, &ocsp_response(&[7], "20300102000000Z")).unwrap();
    assert!(fresh.is_stapled(now));
    assert_eq!(fresh.warnings(now), []);
    assert!(!fresh.is_stapled(noon(2030, 1, 2)));
    assert_eq!(
        fresh.warnings(noon(2030, 1, 2)),
        [Warning::OcspOutOfDate { ocsp: ocsp.clone() }]
    );

    let other = with_ocsp(&folder, &issued, &ocsp_response(&[8], "20300102000000Z")).unwrap();
    assert!(!other.is_stapled(now));
    let cert = folder.path("a.pem");
    assert_eq!(
        other.warnings(now),
        [Warning::OcspOfAnother {
            cert,
            ocsp: ocsp.clone()
        }]
    );

    let bad = with_ocsp(&folder, &issued, b"junk").unwrap_err();
    assert_eq!(
        bad,
        CertError::BadOcsp {
            path: ocsp,
            reason: "it is not DER"
        }
    );
}

#[test]
fn a_file_stamp_differs_after_write_rename_or_symlink_swap() {
    let folder = Folder::new();
    let (one, other) = (folder.write("one", "1"), folder.write("other", "1"));
    let link = folder.path("link");
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let before = stamp(&link).unwrap();
    assert_eq!(before, stamp(&one).unwrap());

    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    assert_ne!(stamp(&link).unwrap(), before);
    std::fs::write(&one, "12").unwrap();
    assert_ne!(stamp(&one).unwrap(), before);
    folder.write("one", "1");
    assert_ne!(stamp(&one).unwrap(), before);
    assert!(stamp(&folder.path("missing")).is_err());
}

fn refused(certs: &[&Path], default: Option<&Path>) -> Vec<TlsSetupError> {
    let settings = ServerSettings {
        managed: Vec::new(),
        on_demand: Vec::new(),
        certs: certs.iter().map(|path| CertFiles::of(*path)).collect(),
        default: default.map(CertFiles::of),
        policy: Policy::intermediate(),
        alpn: Vec::new(),
        client_auth: None,
        tickets: None,
    };
    Acceptor::new(settings)
        .map(|(_, warnings)| warnings)
        .unwrap_err()
}

fn errors(found: Vec<TlsSetupError>) -> Vec<CertError> {
    let error = |found| match found {
        TlsSetupError::Certificate { error, .. } => error,
        other => panic!("{other}"),
    };
    found.into_iter().map(error).collect()
}

#[test]
fn swapped_private_keys_name_the_certificate_they_belong_to() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let (a, b) = (ca.issue(&["a.example"]), ca.issue(&["b.example"]));
    let (a_cert, b_cert) = (
        folder.write("a.pem", a.pem()),
        folder.write("b.pem", b.pem()),
    );
    let (a_key, b_key) = (
        folder.write("a.key", b.key_pem()),
        folder.write("b.key", a.key_pem()),
    );
    let found = errors(refused(&[&a_cert, &b_cert], None));
    let mismatch = |cert: &PathBuf, key: &PathBuf, owner: &PathBuf| CertError::Mismatch {
        cert: cert.clone(),
        key: key.clone(),
        owner: Some(owner.clone()),
    };
    assert_eq!(
        found,
        [
            mismatch(&a_cert, &a_key, &b_cert),
            mismatch(&b_cert, &b_key, &a_cert)
        ]
    );
    let said = found[0].to_string();
    assert!(
        said.ends_with(&format!("this is the key of {}", b_cert.display())),
        "{said}"
    );
}

#[test]
fn all_certificate_errors_are_reported_at_once() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let good = folder.write("good.pem", ca.issue(&["a.example"]).both());
    let (missing, empty) = (folder.path("missing.pem"), folder.write("empty.pem", ""));
    let settings = ServerSettings {
        managed: Vec::new(),
        on_demand: Vec::new(),
        certs: vec![CertFiles::of(&missing), CertFiles::of(&good)],
        default: Some(CertFiles::of(&empty)),
        policy: Policy::intermediate(),
        alpn: vec![b"h2".to_vec(), Vec::new(), vec![b'x'; 256]],
        client_auth: Some(ClientAuthSettings {
            mode: ClientAuthMode::Require,
            ca: empty.clone(),
        }),
        tickets: None,
    };
    let found = Acceptor::new(settings).unwrap_err();
    let empty_file = CertError::Empty {
        path: empty.clone(),
    };
    assert_eq!(
        found,
        [
            TlsSetupError::AlpnLength { length: 0 },
            TlsSetupError::AlpnLength { length: 256 },
            TlsSetupError::Certificate {
                files: CertFiles::of(&missing),
                error: CertError::Missing { path: missing }
            },
            TlsSetupError::Certificate {
                files: CertFiles::of(&empty),
                error: empty_file.clone()
            },
            TlsSetupError::ClientCa {
                path: empty,
                error: empty_file
            },
        ]
    );
    assert_eq!(refused(&[], None), [TlsSetupError::NoCertificates]);
}

#[test]
fn an_unusable_client_ca_file_fails_the_listener() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let bad = [
        folder.path("missing.pem"),
        folder.write("empty.pem", ""),
        folder.write("key-only.pem", ca.issue(&["b.example"]).key_pem()),
        folder.write("junk.pem", ca.pem() + &pem("CERTIFICATE", b"junk")),
    ];
    for mode in [ClientAuthMode::Request, ClientAuthMode::Require] {
        for path in &bad {
            let settings = ServerSettings {
                managed: Vec::new(),
                on_demand: Vec::new(),
                certs: vec![CertFiles::of(&cert)],
                default: None,
                policy: Policy::intermediate(),
                alpn: Vec::new(),
                client_auth: Some(ClientAuthSettings {
                    mode,
                    ca: path.clone(),
                }),
                tickets: None,
            };
            let found = Acceptor::new(settings).unwrap_err();
            assert!(
                matches!(&found[..], [TlsSetupError::ClientCa { path: named, .. }] if named == path)
            );
        }
    }
}

#[test]
fn the_common_name_of_a_client_certificate_is_read() {
    let ca = Ca::new("ca");
    let named = ca.issue_with(&[], &P256, |params| {
        params.distinguished_name.push(DnType::CommonName, "Zoë");
    });
    assert_eq!(common_name(named.cert.der()).as_deref(), Some("Zoë"));
    let unnamed = ca.issue_with(&["a.example"], &P256, |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
    });
    assert_eq!(common_name(unnamed.cert.der()), None);
    assert_eq!(common_name(b"junk"), None);
}
