//! The folder of certificates on a real file system.

use super::*;
use std::os::unix::fs::PermissionsExt as _;

fn id(name: &str) -> CertId {
    CertId {
        name: name.to_owned(),
        key: CertKeyKind::EcdsaP256,
        on_demand: false,
    }
}

#[test]
fn a_folder_of_certificates_is_private_and_made_once() {
    let state = tempfile::tempdir().unwrap();
    let folder = CertFolder::of_state(state.path());
    folder.prepare().unwrap();
    folder.prepare().unwrap();
    let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn names_of_any_length_have_a_file() {
    let state = tempfile::tempdir().unwrap();
    let folder = CertFolder::of_state(state.path());
    folder.prepare().unwrap();
    let long = format!("{}.example.com", vec!["a".repeat(60); 4].join("."));
    let other = format!("{}.example.org", vec!["a".repeat(60); 4].join("."));
    for name in [&*long, &*other, "example.com", "*.example.com"] {
        folder.keep_cert(&id(name), name).unwrap();
        folder.keep_pending_key(&id(name), name).unwrap();
    }
    for name in [&*long, &*other, "example.com", "*.example.com"] {
        let kept = folder.cert(&id(name)).unwrap().unwrap();
        assert_eq!(kept, name.as_bytes());
    }
    assert!(folder.path().join("_wildcard.example.com.pem").is_file());
    let rsa = CertId {
        key: CertKeyKind::Rsa2048,
        ..id("example.com")
    };
    assert_eq!(folder.cert(&rsa).unwrap(), None);
    folder.remove_pending_key(&id(&long)).unwrap();
    assert_eq!(folder.pending_key(&id(&long)).unwrap(), None);
}

#[test]
fn certificates_on_demand_are_listed_with_their_key() {
    let state = tempfile::tempdir().unwrap();
    let folder = CertFolder::of_state(state.path());
    folder.prepare().unwrap();
    let ids = [CertKeyKind::EcdsaP256, CertKeyKind::Rsa2048].map(|key| CertId {
        key,
        on_demand: true,
        ..id("a.example.com")
    });
    for id in &ids {
        folder.keep_cert(id, "a certificate").unwrap();
        folder.keep_record(id, &CertRecord::default()).unwrap();
    }
    let mut listed = folder.on_demand_certs();
    listed.sort();
    assert_eq!(listed, ids);
}

#[test]
fn a_record_is_json_that_survives_and_a_broken_one_is_empty() {
    let state = tempfile::tempdir().unwrap();
    let folder = CertFolder::of_state(state.path());
    folder.prepare().unwrap();
    let moment = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
    let record = CertRecord {
        version: VERSION,
        order: Some(OrderRecord {
            directory: "https://a.example/dir".to_owned(),
            url: "https://a.example/order/1".to_owned(),
            profile: None,
            begun: moment,
        }),
        failures: Some(FailureRecord {
            count: 2,
            last: moment,
            kind: "caa".to_owned(),
            message: "no".to_owned(),
            pauses: Vec::new(),
        }),
        ..CertRecord::default()
    };
    let id = id("example.com");
    assert_eq!(folder.record(&id).unwrap(), CertRecord::default());
    folder.keep_record(&id, &record).unwrap();
    assert_eq!(folder.record(&id).unwrap(), record);
    let file = folder.path().join("example.com.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("\"begun\": \"2027-01-15T08:00:00Z\""),
        "{text}"
    );
    for broken in ["", "{", "[]", "{\"version\": 99}"] {
        fs::write(&file, broken).unwrap();
        assert_eq!(folder.record(&id).unwrap(), CertRecord::default());
    }
}

#[test]
fn one_process_at_a_time_has_the_lock_of_a_folder() {
    let state = tempfile::tempdir().unwrap();
    let folder = CertFolder::of_state(state.path());
    folder.prepare().unwrap();
    let held = folder.lock().unwrap();
    assert!(held.is_some());
    assert!(folder.lock().unwrap().is_none());
    drop(held);
    assert!(folder.lock().unwrap().is_some());
}
