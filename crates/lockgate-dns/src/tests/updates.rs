//! Updates of a zone with TSIG.

use std::rc::Rc;

use tokio::task::LocalSet;

use crate::tests::name_server::{NameServer, RunningServer, signer, start};
use crate::tests::{provider, run};
use crate::{DnsError, DnsWriter};

const NAME: &str = "_acme-challenge.example.com";
const SECRET: &[u8] = b"a secret of the key";
/// The same in base64.
const WRITTEN: &str = "YSBzZWNyZXQgb2YgdGhlIGtleQ==";

async fn zone() -> (RunningServer, Rc<NameServer>) {
    let running = start(None).await;
    let server = Rc::clone(&running.server);
    server.add_zone("example.com", &[]);
    *server.signer.borrow_mut() = Some(signer(SECRET));
    (running, server)
}

fn writer(server: &NameServer, more: &[(&'static str, &str)]) -> DnsWriter {
    let address = server.address.to_string();
    let mut parameters = vec![
        ("server", &*address),
        ("key", "lockgate"),
        ("secret", WRITTEN),
    ];
    for (name, value) in more {
        parameters.retain(|(known, _)| known != name);
        parameters.push((name, value));
    }
    DnsWriter::new(&provider("rfc2136", &parameters, server.address)).unwrap()
}

fn reason(error: DnsError) -> String {
    match error {
        DnsError::Update { zone, why, .. } => {
            assert_eq!(zone, "example.com");
            why
        }
        other => panic!("{other}"),
    }
}

#[test]
fn updates_add_and_remove_one_record_and_leave_the_others() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        server.add_txt(NAME, "before");
        let writer = writer(&server, &[]);
        let record = writer.locate(NAME, "value").await.unwrap();
        for _ in 0..2 {
            writer.publish(&record).await.unwrap();
            assert_eq!(server.txt(NAME), ["before", "value"]);
        }
        for _ in 0..2 {
            writer.remove(&record).await.unwrap();
            assert_eq!(server.txt(NAME), ["before"]);
        }
    }));
}

#[test]
fn a_wrong_tsig_secret_is_told_and_nothing_is_written() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        let writer = writer(&server, &[("secret", "b3RoZXI=")]);
        let record = writer.locate(NAME, "value").await.unwrap();
        let why = reason(writer.publish(&record).await.unwrap_err());
        assert!(
            why.starts_with("the secret or the algorithm is another one there"),
            "{why}"
        );
        assert!(server.txt(NAME).is_empty());
    }));
}

#[test]
fn an_update_that_is_confirmed_without_tsig_has_failed() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        server.unsigned.set(true);
        let writer = writer(&server, &[]);
        let record = writer.locate(NAME, "value").await.unwrap();
        let why = reason(writer.publish(&record).await.unwrap_err());
        assert!(why.starts_with("its answer is not signed"), "{why}");
    }));
}

/// RFC 2136 §3.8: a server may leave all sections of the request out.
#[test]
fn an_update_may_be_confirmed_without_its_zone() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        server.bare.set(true);
        let writer = writer(&server, &[]);
        let record = writer.locate(NAME, "value").await.unwrap();
        writer.publish(&record).await.unwrap();
        assert_eq!(server.txt(NAME), ["value"]);
        assert_eq!(server.updates.get(), 1);
        server.unsigned.set(true);
        let why = reason(writer.publish(&record).await.unwrap_err());
        assert!(why.starts_with("its answer is not signed"), "{why}");
    }));
}

#[test]
fn the_zone_of_updates_may_be_configured() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        let one = writer(&server, &[("zone", "example.com")]);
        let found = one.locate("_acme-challenge.a.b.example.com", "v").await;
        assert_eq!(found.unwrap().zone, "example.com");
        let other = writer(&server, &[("zone", "example.net")]);
        let record = other.locate(NAME, "v").await.unwrap();
        assert!(matches!(
            other.publish(&record).await,
            Err(DnsError::OtherZone { .. })
        ));
    }));
}

#[test]
fn parameters_of_updates_that_cannot_be_read_are_told_without_the_secret() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        let address = server.address.to_string();
        for (parameters, why) in [
            (&[("server", "10.0.0.1")][..], "`key` is missing"),
            (
                &[("server", "ns1:x"), ("key", "k"), ("secret", "aGk=")],
                "`server` is not a host or an address",
            ),
            (
                &[("server", &*address), ("key", "k"), ("secret", "s3cret!")],
                "`secret` is not base64",
            ),
            (
                &[
                    ("server", &*address),
                    ("key", "k"),
                    ("secret", "aGk="),
                    ("algorithm", "hmac-md5"),
                ],
                "`algorithm` hmac-md5 is not known",
            ),
        ] {
            let settings = provider("rfc2136", parameters, server.address);
            let error = DnsWriter::new(&settings).err().unwrap().to_string();
            assert_eq!(error, format!("the settings of `rfc2136`: {why}"));
        }
    }));
}
