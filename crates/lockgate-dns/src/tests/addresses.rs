//! Addresses of names: read from the servers of the zone, and set.

use std::rc::Rc;

use tokio::task::LocalSet;

use crate::tests::name_server::{Manner, NameServer, RunningServer, signer, start};
use crate::tests::{provider, run};
use crate::{AddressWriter, DnsError, WantedAddresses};

const NAME: &str = "home.example.com";
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

fn writer(server: &NameServer) -> AddressWriter {
    let address = server.address.to_string();
    let parameters = [
        ("server", &*address),
        ("key", "lockgate"),
        ("secret", WRITTEN),
    ];
    AddressWriter::new(&provider("rfc2136", &parameters, server.address)).unwrap()
}

fn wanted(texts: &[&str]) -> WantedAddresses {
    let find = |text: &&str| text.parse().ok();
    WantedAddresses {
        ipv4: texts.iter().find_map(find),
        ipv6: texts.iter().find_map(|text| text.parse().ok()),
    }
}

#[test]
fn both_addresses_of_a_name_are_set_by_one_update() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        server.add_address(NAME, "192.0.2.1");
        server.add_address(NAME, "192.0.2.2");
        server.add_txt(NAME, "stays");
        server.add_address("other.example.com", "192.0.2.9");
        let writer = writer(&server);
        let both = wanted(&["198.51.100.7", "2001:db8::7"]);
        let reading = writer.read_addresses(NAME, both).await.unwrap();
        assert_eq!(reading.zone, "example.com");
        assert_eq!(reading.lacking, Some(both));
        writer
            .set_addresses(&reading.zone, NAME, both, both)
            .await
            .unwrap();
        assert_eq!(server.addresses(NAME), ["198.51.100.7", "2001:db8::7"]);
        assert_eq!(server.txt(NAME), ["stays"]);
        assert_eq!(server.addresses("other.example.com"), ["192.0.2.9"]);
        assert_eq!(server.updates.get(), 1);
        let reading = writer.read_addresses(NAME, both).await.unwrap();
        assert_eq!(reading.lacking, Some(WantedAddresses::default()));

        // The other family is left as it is.
        let one = wanted(&["198.51.100.8"]);
        let reading = writer.read_addresses(NAME, one).await.unwrap();
        assert_eq!(reading.lacking, Some(one));
        writer
            .set_addresses(&reading.zone, NAME, one, one)
            .await
            .unwrap();
        assert_eq!(server.addresses(NAME), ["2001:db8::7", "198.51.100.8"]);
    }));
}

#[test]
fn addresses_of_a_wildcard_name_are_set_as_those_of_others() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        let writer = writer(&server);
        let one = wanted(&["198.51.100.7"]);
        let name = "*.home.example.com";
        writer
            .set_addresses("example.com", name, one, one)
            .await
            .unwrap();
        assert_eq!(server.addresses(name), ["198.51.100.7"]);
        let reading = writer.read_addresses(name, one).await.unwrap();
        assert!(reading.lacking.unwrap().is_empty());
    }));
}

#[test]
fn a_name_that_is_an_alias_is_an_error_and_not_changed() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        server.add_alias("www.example.com", "home.example.com");
        server.add_alias("*.apps.example.com", "home.example.com");
        let writer = writer(&server);
        let one = wanted(&["198.51.100.7"]);
        for name in ["www.example.com", "*.apps.example.com"] {
            let error = writer.read_addresses(name, one).await.unwrap_err();
            assert_eq!(
                error,
                DnsError::Alias {
                    name: name.to_owned(),
                    target: "home.example.com".to_owned(),
                }
            );
            // Also where the alias comes after the look (RFC 2136 §2.4.3).
            let error = writer.set_addresses("example.com", name, one, one).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains("the name is an alias (CNAME)"), "{error}");
            assert!(server.addresses(name).is_empty());
        }
        // That of a wildcard ends with a record of the name's own (RFC 4592).
        let name = "photos.apps.example.com";
        let reading = writer.read_addresses(name, one).await.unwrap();
        assert_eq!(reading.lacking, Some(one));
    }));
}

#[test]
fn servers_that_hold_no_zone_tell_nothing_of_a_name() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        server.add_address(NAME, "198.51.100.7");
        let one = wanted(&["198.51.100.7"]);
        let writer = writer(&server);
        server.manner.set(Manner::Caches);
        let reading = writer.read_addresses(NAME, one).await.unwrap();
        assert_eq!(reading.lacking, None);
        server.manner.set(Manner::Answers);
        let reading = writer.read_addresses(NAME, one).await.unwrap();
        assert!(reading.lacking.unwrap().is_empty());
    }));
}

#[test]
fn a_family_that_no_server_tells_of_is_not_lacking() {
    run(LocalSet::new().run_until(async {
        let (_running, server) = zone().await;
        server.add_address(NAME, "198.51.100.7");
        server.manner.set(Manner::RefusesIpv6);
        let writer = writer(&server);
        let both = wanted(&["198.51.100.7", "2001:db8::7"]);
        let reading = writer.read_addresses(NAME, both).await.unwrap();
        assert_eq!(reading.lacking, None);
        let one = wanted(&["198.51.100.7"]);
        let reading = writer.read_addresses(NAME, one).await.unwrap();
        assert_eq!(reading.lacking, Some(WantedAddresses::default()));
    }));
}

#[test]
fn one_server_of_the_zone_that_shows_the_address_is_enough() {
    run(LocalSet::new().run_until(async {
        let (first, second) = (start(None).await, "127.0.0.2:0".parse().unwrap());
        let (first_ip, port) = (first.server.address.ip(), first.server.address.port());
        let mut second: std::net::SocketAddr = second;
        second.set_port(port);
        let later = start(Some(second)).await;
        let servers = [
            ("ns1.example.com", Some(first_ip)),
            ("ns2.example.com", Some(second.ip())),
        ];
        first.server.add_zone("example.com", &servers);
        first.server.add_address(NAME, "192.0.2.1");
        later.server.add_address(NAME, "198.51.100.7");
        let settings = provider("exec", &[], first.server.address);
        let settings = lockgate_rules::DnsProvider {
            command: vec!["/bin/true".to_owned()],
            ..settings
        };
        let writer = AddressWriter::new(&settings).unwrap().with_zone_port(port);
        let both = wanted(&["198.51.100.7", "2001:db8::7"]);
        let reading = writer.read_addresses(NAME, both).await.unwrap();
        assert_eq!(reading.lacking, Some(wanted(&["2001:db8::7"])));
    }));
}

#[test]
fn a_command_gets_all_addresses_of_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let script = format!("echo \"$*\" >> '{}'", out.display());
    let settings = lockgate_rules::DnsProvider {
        command: ["/bin/sh", "-c", &script, "dns-record"]
            .map(str::to_owned)
            .to_vec(),
        ..provider("exec", &[], "127.0.0.1:1".parse().unwrap())
    };
    let writer = AddressWriter::new(&settings).unwrap();
    let both = wanted(&["198.51.100.7", "2001:db8::7"]);
    run(writer.set_addresses("example.com", NAME, both, wanted(&["2001:db8::7"]))).unwrap();
    assert_eq!(
        std::fs::read_to_string(out).unwrap(),
        "address home.example.com 198.51.100.7 2001:db8::7\n"
    );
}

#[test]
fn providers_of_txt_records_alone_set_no_addresses() {
    let server = "127.0.0.1:1".parse().unwrap();
    for name in ["acme-dns", "freemyip"] {
        let settings = provider(name, &[("token", "x")], server);
        let error = AddressWriter::new(&settings).err().unwrap();
        assert_eq!(error, DnsError::NoAddresses(name));
    }
}
