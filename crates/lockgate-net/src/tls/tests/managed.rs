//! Certificates that the program obtains: missing first, then there, renewed, and taken away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::HandshakeKind;

use super::handshakes::{acceptor, client, settings, shake, shake_shared};
use crate::tls::fixtures::*;
use crate::tls::*;

fn managed(folder: &Folder, file: &str, name: &str, fallback: bool) -> ManagedCert {
    ManagedCert {
        files: CertFiles::of(folder.path(file)),
        names: vec![name.to_owned()],
        fallback,
        on_demand: false,
        default: false,
    }
}

#[test]
fn a_missing_managed_certificate_is_served_once_it_is_obtained() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let other = folder.write("other.pem", ca.issue(&["other.example"]).both());
    let acceptor = acceptor(ServerSettings {
        managed: vec![
            managed(&folder, "a.pem", "a.example", false),
            managed(&folder, "w.pem", "*.w.example", false),
        ],
        ..settings(&[&other], None)
    });
    assert!(acceptor.serves(Some("other.example")) && !acceptor.awaits(Some("other.example")));
    for name in ["a.example", "A.Example", "b.w.example"] {
        assert!(
            !acceptor.serves(Some(name)) && acceptor.awaits(Some(name)),
            "{name}"
        );
    }
    assert!(!acceptor.awaits(Some("w.example")) && !acceptor.awaits(None));
    assert_eq!(acceptor.files().len(), 3);
    assert!(acceptor.reload().failed.is_empty());

    let path = folder.write("a.pem", ca.issue(&["a.example"]).both());
    assert_eq!(acceptor.reload().changed, [path]);
    shake(client(&ca), &acceptor, "a.example").unwrap();
    assert!(!acceptor.awaits(Some("a.example")));
    assert!(acceptor.awaits(Some("b.w.example")));

    std::fs::remove_file(folder.path("a.pem")).unwrap();
    let report = acceptor.reload();
    assert!(report.failed.is_empty() && report.changed.len() == 1);
    assert!(!acceptor.serves(Some("a.example")));
}

#[test]
fn a_broken_managed_certificate_is_awaited_or_kept_out() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    folder.write("a.pem", "-----BEGIN CERTIFICATE-----\nno\n");
    let (acceptor, warnings) = Acceptor::new(ServerSettings {
        managed: vec![managed(&folder, "a.pem", "a.example", false)],
        ..settings(&[], None)
    })
    .unwrap();
    assert!(matches!(warnings[..], [Warning::ManagedUnusable(_)]));
    assert!(acceptor.awaits(Some("a.example")));
    folder.write("a.pem", ca.issue(&["a.example"]).both());
    acceptor.reload();
    assert!(acceptor.serves(Some("a.example")));
    // The certificate that is served stays.
    folder.write("a.pem", "nothing of use");
    assert!(!acceptor.reload().failed.is_empty());
    shake(client(&ca), &acceptor, "a.example").unwrap();
}

#[test]
fn a_fallback_certificate_is_served_only_until_the_other_is_there() {
    let (folder, ca, own) = (Folder::new(), Ca::new("ca"), Ca::new("own"));
    folder.write("fallback.pem", own.issue(&["a.example"]).both());
    let acceptor = acceptor(ServerSettings {
        managed: vec![
            managed(&folder, "fallback.pem", "a.example", true),
            managed(&folder, "a.pem", "a.example", false),
        ],
        ..settings(&[], None)
    });
    shake(client(&own), &acceptor, "a.example").unwrap();
    folder.write("a.pem", ca.issue_with(&["a.example"], &RSA, |_| {}).both());
    acceptor.reload();
    shake(client(&ca), &acceptor, "a.example").unwrap();
}

#[test]
fn session_tickets_stay_valid_when_a_managed_certificate_arrives() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let ring = TicketRing::rotating(Duration::from_secs(3600), 2, Instant::now()).unwrap();
    folder.write("a.pem", ca.issue(&["a.example"]).both());
    let acceptor = acceptor(ServerSettings {
        managed: vec![
            managed(&folder, "a.pem", "a.example", false),
            managed(&folder, "b.pem", "b.example", false),
        ],
        tickets: Some(ring),
        ..settings(&[], None)
    });
    let client = Arc::new(client(&ca));
    let kind = |name: &str| {
        let mut pair = shake_shared(&client, &acceptor, name).unwrap();
        // The tickets of TLS 1.3 come behind the handshake.
        pair.client.process_new_packets().unwrap();
        pair.server.handshake_kind()
    };
    assert_eq!(kind("a.example"), Some(HandshakeKind::Full));
    folder.write("b.pem", ca.issue(&["b.example"]).both());
    acceptor.reload();
    assert_eq!(kind("a.example"), Some(HandshakeKind::Resumed));
    assert_eq!(kind("b.example"), Some(HandshakeKind::Full));
}

#[test]
fn a_managed_default_certificate_is_for_clients_without_sni() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let acceptor = acceptor(ServerSettings {
        managed: vec![ManagedCert {
            default: true,
            ..managed(&folder, "a.pem", "localhost", false)
        }],
        ..settings(&[], None)
    });
    assert!(!acceptor.serves(None));
    folder.write("a.pem", ca.issue(&["localhost"]).both());
    acceptor.reload();
    assert!(acceptor.serves(None) && acceptor.serves(Some("unknown.example")));
}
