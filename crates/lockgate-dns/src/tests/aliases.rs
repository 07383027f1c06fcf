//! Aliases, zones, and name servers that do not answer.

use crate::tests::name_server::{Manner, start};
use crate::tests::{provider, run};
use crate::{DnsError, DnsWriter, PublishedRecord};
use tokio::task::LocalSet;

const DESEC: &[(&str, &str)] = &[("token", "x")];

async fn located(writer: &DnsWriter, name: &str) -> Result<String, DnsError> {
    let found = writer.locate(name, "v").await?;
    Ok(format!("{} in {}", found.name, found.zone))
}

#[test]
fn a_cname_of_the_challenge_leads_to_the_zone_that_holds_the_record() {
    run(LocalSet::new().run_until(async {
        let running = start(None).await;
        let server = &running.server;
        server.add_zone("example.com", &[]);
        server.add_zone("acme.example.net", &[]);
        server.add_alias("_acme-challenge.a.example.com", "One.Acme.example.net");
        server.add_alias("one.acme.example.net", "two.acme.example.net");
        let writer = DnsWriter::new(&provider("desec", DESEC, server.address)).unwrap();
        for (name, place) in [
            (
                "_acme-challenge.example.com",
                "_acme-challenge.example.com in example.com",
            ),
            (
                "_acme-challenge.x.y.example.com",
                "_acme-challenge.x.y.example.com in example.com",
            ),
            (
                "_acme-challenge.a.example.com",
                "two.acme.example.net in acme.example.net",
            ),
        ] {
            assert_eq!(located(&writer, name).await.unwrap(), place);
        }
    }));
}

#[test]
fn a_wildcard_cname_is_no_alias_of_the_challenge() {
    run(LocalSet::new().run_until(async {
        let running = start(None).await;
        let server = &running.server;
        server.add_zone("example.com", &[]);
        server.add_zone("hosting.example.net", &[]);
        server.add_alias("*.example.com", "app.hosting.example.net");
        server.add_alias("_acme-challenge.www.example.com", "a.hosting.example.net");
        server.add_alias("*.www.example.com", "app.hosting.example.net");
        let writer = DnsWriter::new(&provider("desec", DESEC, server.address)).unwrap();
        for (name, place) in [
            (
                "_acme-challenge.example.com",
                "_acme-challenge.example.com in example.com",
            ),
            // One of its own, beside a wildcard with another.
            (
                "_acme-challenge.www.example.com",
                "a.hosting.example.net in hosting.example.net",
            ),
        ] {
            assert_eq!(located(&writer, name).await.unwrap(), place);
        }
    }));
}

#[test]
fn a_cname_loop_of_the_challenge_is_an_error() {
    run(LocalSet::new().run_until(async {
        let running = start(None).await;
        let server = &running.server;
        server.add_alias("_acme-challenge.a.com", "b.com");
        server.add_alias("b.com", "_ACME-challenge.a.com");
        for at in 0..10 {
            server.add_alias(&format!("l{at}.com"), &format!("l{}.com", at + 1));
        }
        server.add_zone("com", &[]);
        let writer = DnsWriter::new(&provider("desec", DESEC, server.address)).unwrap();
        let looped = located(&writer, "_acme-challenge.a.com").await.unwrap_err();
        let text = looped.to_string().to_lowercase();
        assert_eq!(text, "the alias _acme-challenge.a.com leads to itself");
        assert_eq!(
            located(&writer, "l0.com").await,
            Err(DnsError::TooManyAliases(8))
        );
        assert_eq!(located(&writer, "l2.com").await.unwrap(), "l10.com in com");
    }));
}

#[test]
fn a_name_without_a_zone_or_a_name_server_is_an_error() {
    run(LocalSet::new().run_until(async {
        let (first, second) = (start(None).await, start(None).await);
        first.server.manner.set(Manner::Refuses);
        let mut settings = provider("desec", DESEC, first.server.address);
        let alone = DnsWriter::new(&settings).unwrap();
        let error = located(&alone, "_acme-challenge.a.com").await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("_acme-challenge.a.com CNAME"), "{text}");
        assert!(text.to_lowercase().contains("refused"), "{text}");

        // The next one is asked.
        settings.resolvers.push(second.server.address);
        let both = DnsWriter::new(&settings).unwrap();
        let none = Err(DnsError::NoZone("_acme-challenge.a.com".to_owned()));
        assert_eq!(located(&both, "_acme-challenge.a.com").await, none);
        second.server.add_zone("a.com", &[]);
        assert!(located(&both, "_acme-challenge.a.com").await.is_ok());
        let long = "x".repeat(64);
        for bad in ["", ".", "a..b", &long] {
            assert!(
                matches!(both.locate(bad, "v").await, Err(DnsError::BadName(_))),
                "{bad}"
            );
        }
    }));
}

#[test]
fn a_published_record_is_kept_as_json() {
    let record = PublishedRecord {
        name: "_acme-challenge.a.com".to_owned(),
        zone: "a.com".to_owned(),
        value: "v".to_owned(),
    };
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(
        serde_json::from_str::<PublishedRecord>(&text).unwrap(),
        record
    );
}
