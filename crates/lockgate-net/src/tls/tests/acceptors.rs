//! The choice between several acceptors.

use std::sync::Arc;

use super::handshakes::{acceptor, settings};
use crate::tls::fixtures::*;
use crate::tls::*;

#[test]
fn the_most_specific_sni_name_selects_the_tls_rules() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let names = ["a.example", "*.example", "*.b.example", "*.c.b.example"];
    let cert = folder.write("a.pem", ca.issue(&names).both());
    let all = (0..4)
        .map(|_| Arc::new(acceptor(settings(&[&cert], None))))
        .collect();
    let names = [
        (SniPattern::Exact("A.example".into()), AcceptorIndex::new(1)),
        (SniPattern::Under("example".into()), AcceptorIndex::new(2)),
        (SniPattern::Under("b.example".into()), AcceptorIndex::new(3)),
    ];
    let acceptors = Acceptors::new(all, names, AcceptorIndex::new(0));
    for (name, place) in [
        ("a.example", Some(1)),
        ("A.EXAMPLE.", Some(1)),
        ("b.example", Some(2)),
        ("x.example", Some(2)),
        ("x.b.example", Some(3)),
        // At any depth below it, as for hosts of sites; whether a certificate is valid for it is
        // another question.
        ("x.c.b.example", Some(3)),
        ("x.y.b.example", None),
        ("elsewhere.test", None),
        ("", None),
    ] {
        assert_eq!(
            acceptors.choose(Some(name)).map(|(place, _)| place),
            place.map(AcceptorIndex::new),
            "{name}"
        );
    }
    assert!(acceptors.choose(None).is_none());
}

#[test]
fn without_sni_the_default_certificate_is_served() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let cert = folder.write("a.pem", ca.issue(&["a.example"]).both());
    let open = Arc::new(acceptor(settings(&[&cert], Some(&cert))));
    let only = Acceptors::from(Arc::clone(&open));
    let closed = Arc::new(acceptor(settings(&[&cert], None)));
    let two = Acceptors::new(
        vec![closed, open],
        [(SniPattern::Exact("a.example".into()), AcceptorIndex::new(0))],
        AcceptorIndex::new(1),
    );
    for name in [None, Some("elsewhere.test")] {
        assert_eq!(
            only.choose(name).map(|(place, _)| place),
            Some(AcceptorIndex::new(0))
        );
        assert_eq!(
            two.choose(name).map(|(place, _)| place),
            Some(AcceptorIndex::new(1))
        );
    }
    assert_eq!(
        two.choose(Some("a.example")).map(|(place, _)| place),
        Some(AcceptorIndex::new(0))
    );
    assert_eq!(two.all().len(), 2);
}
