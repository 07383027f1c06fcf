//! The validity of session tickets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, HandshakeKind, version};

use super::handshakes::{acceptor, client, client_of, settings, shake_shared};
use crate::tls::fixtures::*;
use crate::tls::*;

const HOUR: Duration = Duration::from_secs(3600);

fn kind(client: &Arc<ClientConfig>, acceptor: &Acceptor) -> HandshakeKind {
    let pair = shake_shared(client, acceptor, "a.example").unwrap();
    match pair.server.handshake_kind().unwrap() {
        HandshakeKind::FullWithHelloRetryRequest => HandshakeKind::Full,
        other => other,
    }
}

fn ring() -> Arc<TicketRing> {
    TicketRing::rotating(HOUR, 2, Instant::now()).unwrap()
}

fn with_tickets(cert: &PathBuf, ring: &Arc<TicketRing>) -> ServerSettings {
    ServerSettings {
        tickets: Some(ring.clone()),
        ..settings(&[cert], None)
    }
}

#[test]
fn sessions_resume_until_their_ticket_key_is_rotated_out() {
    let (folder, ca, start) = (Folder::new(), Ca::new("ca"), Instant::now());
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    for versions in [[&version::TLS12], [&version::TLS13]] {
        let ring = TicketRing::rotating(HOUR, 2, start).unwrap();
        let acceptor = acceptor(with_tickets(&cert, &ring));
        let client = Arc::new(client_of(&ca, default_provider(), &versions));
        assert_eq!(kind(&client, &acceptor), HandshakeKind::Full);
        assert_eq!(kind(&client, &acceptor), HandshakeKind::Resumed);
        ring.rotate_if_due(start + HOUR).unwrap();
        assert_eq!(kind(&client, &acceptor), HandshakeKind::Resumed);
        // Twice: the resumption before this has brought a ticket of the newer key.
        ring.rotate_if_due(start + 2 * HOUR).unwrap();
        ring.rotate_if_due(start + 3 * HOUR).unwrap();
        assert_eq!(kind(&client, &acceptor), HandshakeKind::Full);
    }
}

#[test]
fn without_session_tickets_nothing_resumes() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let acceptor = acceptor(settings(&[&cert], None));
    for versions in [[&version::TLS12], [&version::TLS13]] {
        let client = Arc::new(client_of(&ca, default_provider(), &versions));
        assert_eq!(kind(&client, &acceptor), HandshakeKind::Full);
        assert_eq!(kind(&client, &acceptor), HandshakeKind::Full);
    }
}

#[test]
fn a_ticket_key_file_resumes_sessions_after_a_restart() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let keys = folder.write("tickets", [7; 80]);
    let client = Arc::new(client(&ca));
    let start = || {
        acceptor(with_tickets(
            &cert,
            &TicketRing::from_file(&keys, Instant::now()).unwrap().0,
        ))
    };
    assert_eq!(kind(&client, &start()), HandshakeKind::Full);
    assert_eq!(kind(&client, &start()), HandshakeKind::Resumed);
}

#[test]
fn a_renewed_certificate_keeps_session_tickets_valid() {
    let (folder, ca, ring) = (Folder::new(), Ca::new("ca"), ring());
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let acceptor = acceptor(with_tickets(&cert, &ring));
    let client = Arc::new(client(&ca));
    assert_eq!(kind(&client, &acceptor), HandshakeKind::Full);
    folder.write("a.pem", ca.issue(&["a.example"]).both());
    assert_eq!(acceptor.reload().changed, [cert]);
    assert_eq!(kind(&client, &acceptor), HandshakeKind::Resumed);
}

#[test]
fn session_tickets_resume_only_at_listeners_with_the_same_site() {
    let (folder, ca, ring) = (Folder::new(), Ca::new("ca"), ring());
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let other = folder.write("other.pem", ca.issue(&["other.example"]).both());
    let one = acceptor(with_tickets(&cert, &ring));
    let same = acceptor(with_tickets(&cert, &ring));
    // It would serve a name that it has no certificate for.
    let posing = acceptor(ServerSettings {
        tickets: Some(ring.clone()),
        ..settings(&[], Some(&other))
    });
    let client = Arc::new(client(&ca));
    assert_eq!(kind(&client, &one), HandshakeKind::Full);
    assert_eq!(kind(&client, &same), HandshakeKind::Resumed);
    assert!(shake_shared(&client, &posing, "a.example").is_err());
}

#[test]
fn session_tickets_never_resume_across_client_certificate_rules() {
    let (folder, ca, ring) = (Folder::new(), Ca::new("ca"), ring());
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let (ours, theirs) = (Ca::new("ours"), Ca::new("theirs"));
    let ours_file = folder.write("ours.pem", ours.pem());
    let theirs_file = folder.write("theirs.pem", theirs.pem());
    let both_file = folder.write("both.pem", ours.pem() + &theirs.pem());
    let swapped_file = folder.write("swapped.pem", theirs.pem() + &ours.pem() + &ours.pem());
    let with = |rules: Option<(ClientAuthMode, &PathBuf)>| {
        let client_auth = rules.map(|(mode, ca)| ClientAuthSettings {
            mode,
            ca: ca.clone(),
        });
        acceptor(ServerSettings {
            client_auth,
            ..with_tickets(&cert, &ring)
        })
    };
    let (request, require) = (ClientAuthMode::Request, ClientAuthMode::Require);

    let open = with(None);
    for strict in [
        with(Some((request, &ours_file))),
        with(Some((request, &theirs_file))),
    ] {
        let client = Arc::new(client(&ca));
        assert_eq!(kind(&client, &open), HandshakeKind::Full);
        assert_eq!(kind(&client, &strict), HandshakeKind::Full);
    }
    let from_open = Arc::new(client(&ca));
    assert_eq!(kind(&from_open, &open), HandshakeKind::Full);
    let refused = shake_shared(&from_open, &with(Some((require, &ours_file))), "a.example");
    assert!(
        refused.is_err(),
        "a client without a certificate got in by a ticket"
    );

    let between = [
        (request, &ours_file),
        (request, &theirs_file),
        (request, &both_file),
    ];
    for (index, one) in between.iter().enumerate() {
        for (other_index, other) in between.iter().enumerate() {
            let client = Arc::new(client(&ca));
            assert_eq!(kind(&client, &with(Some(*one))), HandshakeKind::Full);
            let expected = if index == other_index {
                HandshakeKind::Resumed
            } else {
                HandshakeKind::Full
            };
            assert_eq!(
                kind(&client, &with(Some(*other))),
                expected,
                "{one:?} {other:?}"
            );
        }
    }
    let client = Arc::new(client(&ca));
    assert_eq!(
        kind(&client, &with(Some((request, &both_file)))),
        HandshakeKind::Full
    );
    let swapped = with(Some((request, &swapped_file)));
    assert_eq!(
        kind(&client, &swapped),
        HandshakeKind::Resumed,
        "the order in the file means nothing"
    );
}

#[test]
fn a_changed_client_ca_list_invalidates_session_tickets() {
    let (folder, ca, ring) = (Folder::new(), Ca::new("ca"), ring());
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let list = folder.write("clients.pem", Ca::new("ours").pem());
    let client_auth = Some(ClientAuthSettings {
        mode: ClientAuthMode::Request,
        ca: list.clone(),
    });
    let acceptor = acceptor(ServerSettings {
        client_auth,
        ..with_tickets(&cert, &ring)
    });
    let client = Arc::new(client(&ca));
    assert_eq!(kind(&client, &acceptor), HandshakeKind::Full);

    folder.write("clients.pem", "");
    let report = acceptor.reload();
    let error = CertError::Empty { path: list.clone() };
    assert_eq!(
        report.failed,
        [TlsSetupError::ClientCa {
            path: list.clone(),
            error
        }]
    );
    assert_eq!(kind(&client, &acceptor), HandshakeKind::Resumed);

    folder.write("clients.pem", Ca::new("theirs").pem());
    let report = acceptor.reload();
    assert_eq!((report.changed, report.failed), (vec![list], vec![]));
    assert_eq!(kind(&client, &acceptor), HandshakeKind::Full);
    assert_eq!(kind(&client, &acceptor), HandshakeKind::Resumed);
}
