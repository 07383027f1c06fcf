//! Waiting until every server of a zone shows a record.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;

use crate::tests::name_server::{Manner, NameServer, RunningServer, start};
use crate::tests::{provider, run};
use crate::{DnsError, DnsWriter, PublishedRecord};

const NAME: &str = "_acme-challenge.example.com";
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Two servers of a zone, of which the first answers as the resolver, and a writer that asks them.
async fn zone(limit: Duration) -> (RunningServer, RunningServer, DnsWriter) {
    loop {
        let first = start(None).await;
        let port = first.server.address.port();
        // The servers of a zone have one port.
        let at = SocketAddr::new(OTHER, port);
        if tokio::net::UdpSocket::bind(at).await.is_err()
            || tokio::net::TcpListener::bind(at).await.is_err()
        {
            continue;
        }
        let second = start(Some(at)).await;
        let own = first.server.address.ip();
        let servers = [
            ("ns1.example.com", Some(own)),
            ("ns2.example.com", Some(OTHER)),
        ];
        first.server.add_zone("example.com", &servers);
        let mut settings = provider("desec", &[("token", "x")], first.server.address);
        settings.propagation = limit;
        let writer = DnsWriter::new(&settings).unwrap().with_zone_port(port);
        return (first, second, writer);
    }
}

fn record(value: &str) -> PublishedRecord {
    PublishedRecord {
        name: NAME.to_owned(),
        zone: "example.com".to_owned(),
        value: value.to_owned(),
    }
}

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(60);

fn servers(error: DnsError) -> String {
    match error {
        DnsError::NotVisible { servers, .. } => servers,
        other => panic!("{other}"),
    }
}

#[test]
fn propagation_ends_when_the_last_server_shows_the_record() {
    run(LocalSet::new().run_until(async {
        let (first, second, writer) = zone(LONG).await;
        first.server.add_txt(NAME, "other");
        first.server.add_txt(NAME, "value");
        // The second one has it from the third question on.
        let asked = Rc::new(Cell::new(0));
        let count = Rc::clone(&asked);
        *second.server.on_txt.borrow_mut() = Some(Box::new(move |server: &NameServer| {
            count.set(count.get() + 1);
            if count.get() == 3 {
                server.add_txt(NAME, "value");
            }
        }));
        writer.wait_visible(&record("value")).await.unwrap();
        assert_eq!(asked.get(), 3);
    }));
}

#[test]
fn propagation_errors_name_the_servers_that_lack_the_record() {
    run(LocalSet::new().run_until(async {
        let (first, second, writer) = zone(SHORT).await;
        first.server.add_txt(NAME, "value");
        let error = writer.wait_visible(&record("value")).await.unwrap_err();
        assert_eq!(servers(error), "ns2.example.com (it shows no such name)");
        second.server.add_txt(NAME, "another");
        let error = writer.wait_visible(&record("value")).await.unwrap_err();
        assert_eq!(servers(error), "ns2.example.com (it shows no such record)");
        let error = writer.wait_visible(&record("third")).await.unwrap_err();
        assert!(servers(error).contains("ns1.example.com"));
    }));
}

#[test]
fn lame_servers_are_passed_over_where_others_show_the_record() {
    run(LocalSet::new().run_until(async {
        let (first, second, writer) = zone(LONG).await;
        first.server.add_txt(NAME, "value");
        second.server.manner.set(Manner::Refuses);
        writer.wait_visible(&record("value")).await.unwrap();
        assert_eq!(second.server.asked.get(), 2);
        // It answers at the second question: then it counts.
        let asked = Rc::new(Cell::new(0));
        let count = Rc::clone(&asked);
        *second.server.on_txt.borrow_mut() = Some(Box::new(move |server: &NameServer| {
            count.set(count.get() + 1);
            match count.get() {
                2 => server.manner.set(Manner::Answers),
                4 => server.add_txt(NAME, "value"),
                _ => {}
            }
        }));
        writer.wait_visible(&record("value")).await.unwrap();
        assert_eq!(asked.get(), 4);
    }));
}

#[test]
fn propagation_fails_where_no_server_answers() {
    run(LocalSet::new().run_until(async {
        let (first, second, writer) = zone(SHORT).await;
        first
            .server
            .on_txt
            .replace(Some(Box::new(|server: &NameServer| {
                server.manner.set(Manner::Refuses);
            })));
        second.server.manner.set(Manner::Garbage);
        let error = writer.wait_visible(&record("value")).await.unwrap_err();
        let silent = servers(error);
        assert!(silent.starts_with("ns1.example.com ("), "{silent}");
        assert!(silent.to_lowercase().contains("refused"), "{silent}");
        assert!(silent.contains("ns2.example.com ("), "{silent}");
        assert!(silent.contains("what it sends is no answer"), "{silent}");
    }));
}

#[test]
fn a_server_without_an_address_is_passed_over_where_others_show_the_record() {
    run(LocalSet::new().run_until(async {
        let running = start(None).await;
        let own = running.server.address;
        running
            .server
            .add_zone("example.com", &[("a.ns", Some(own.ip())), ("b.ns", None)]);
        let mut settings = provider("desec", &[("token", "x")], own);
        settings.propagation = SHORT;
        let writer = DnsWriter::new(&settings)
            .unwrap()
            .with_zone_port(own.port());
        let error = writer.wait_visible(&record("value")).await.unwrap_err();
        assert_eq!(
            servers(error),
            "a.ns (it shows no such name), b.ns (it has no address)"
        );
        running.server.add_txt(NAME, "value");
        writer.wait_visible(&record("value")).await.unwrap();
    }));
}

#[test]
fn truncated_answers_are_asked_for_by_tcp_and_strays_are_passed_over() {
    run(LocalSet::new().run_until(async {
        let (first, second, writer) = zone(SHORT).await;
        for server in [&first.server, &second.server] {
            server.add_txt(NAME, "value");
        }
        first.server.manner.set(Manner::Truncates);
        second.server.manner.set(Manner::Strays);
        writer.wait_visible(&record("value")).await.unwrap();
    }));
}

#[test]
fn a_value_in_several_strings_is_one_value() {
    run(LocalSet::new().run_until(async {
        let running = start(None).await;
        let own = running.server.address;
        running
            .server
            .add_zone("example.com", &[("a.ns", Some(own.ip()))]);
        let parts = vec!["va".to_owned(), "lue".to_owned()];
        let txt = hickory_proto::rr::rdata::TXT::new(parts);
        running.server.add(NAME, hickory_proto::rr::RData::TXT(txt));
        let mut settings = provider("desec", &[("token", "x")], own);
        settings.propagation = SHORT;
        let writer = DnsWriter::new(&settings)
            .unwrap()
            .with_zone_port(own.port());
        writer.wait_visible(&record("value")).await.unwrap();
    }));
}
