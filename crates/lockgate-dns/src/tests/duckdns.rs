//! The call of DuckDNS that sets addresses.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use crate::duckdns::DuckDns;
use crate::tests::{provider, run};
use crate::web::WebServer;
use crate::{AddressWriter, WantedAddresses};

const TOKEN: &str = "a7c4d0ad-114e-40ef-ba1d-d217904a50f2";

/// What a server gets for a change, and what becomes of its answer.
async fn set(name: &str, addresses: WantedAddresses, answer: &str) -> (String, Option<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = provider("duckdns", &[("token", TOKEN)], ([127, 0, 0, 1], 1).into());
    let account = DuckDns::at(WebServer::new("127.0.0.1", port, false), &settings);
    let writer = AddressWriter::new(&settings)
        .unwrap()
        .with_duckdns(account.unwrap());
    let length = answer.len();
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}");
    let serving = tokio::task::spawn_local(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    let done = writer
        .set_addresses("duckdns.org", name, addresses, addresses)
        .await;
    let error = done.err().map(|error| error.to_string());
    if serving.is_finished() || error.as_ref().is_none_or(|error| error.contains("refuses")) {
        let request = serving.await.unwrap();
        return (request.lines().next().unwrap().to_owned(), error);
    }
    serving.abort();
    (String::new(), error)
}

#[test]
fn duckdns_gets_the_subdomain_and_the_addresses() {
    run(LocalSet::new().run_until(async {
        let both = WantedAddresses {
            ipv4: Some(Ipv4Addr::new(198, 51, 100, 7)),
            ipv6: Some("2001:db8::7".parse().unwrap()),
        };
        let (request, error) = set("home.duckdns.org", both, "OK").await;
        assert_eq!(
            request,
            format!(
                "GET /update?domains=home&token={TOKEN}&ip=198.51.100.7&ipv6=2001:db8::7 HTTP/1.1"
            )
        );
        assert_eq!(error, None);
        let one = WantedAddresses { ipv4: None, ..both };
        let (request, _) = set("home.duckdns.org", one, "OK").await;
        assert!(
            request.ends_with(&format!("token={TOKEN}&ipv6=2001:db8::7 HTTP/1.1")),
            "{request}"
        );
    }));
}

#[test]
fn what_duckdns_refuses_is_told_without_the_token() {
    run(LocalSet::new().run_until(async {
        let one = WantedAddresses {
            ipv4: Some(Ipv4Addr::new(198, 51, 100, 7)),
            ipv6: None,
        };
        let (_, error) = set("home.duckdns.org", one, "KO").await;
        let error = error.unwrap();
        assert!(error.contains("it refuses"), "{error}");
        assert!(!error.contains(TOKEN), "{error}");
        for name in ["a.home.duckdns.org", "*.duckdns.org", "home.example.com"] {
            let (request, error) = set(name, one, "OK").await;
            assert!(error.unwrap().contains("is no name like"), "{name}");
            assert_eq!(request, "");
        }
    }));
}
