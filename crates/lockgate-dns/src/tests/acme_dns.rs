//! An account at acme-dns.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, LocalSet};

use crate::tests::name_server::start;
use crate::tests::{provider, run};
use crate::{DnsError, DnsWriter};

/// A server that gives one response; its task ends with the request.
async fn serve(response: &'static str) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::task::spawn_local(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            let length = stream.read_buf(&mut request).await.unwrap();
            assert_ne!(length, 0);
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (address, task)
}

fn writer(url: &str, resolver: SocketAddr) -> Result<DnsWriter, DnsError> {
    let parameters = [
        ("url", url),
        ("user", "u-1"),
        ("password", "s3cret"),
        ("subdomain", "sub-1"),
    ];
    DnsWriter::new(&provider("acme-dns", &parameters, resolver))
}

#[test]
fn acme_dns_gets_the_value_for_its_subdomain() {
    run(LocalSet::new().run_until(async {
        let dns = start(None).await;
        dns.server.add_zone("auth.example.net", &[]);
        dns.server
            .add_alias("_acme-challenge.a.com", "sub-1.auth.example.net");
        let (address, request) =
            serve("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"txt\": \"v1\"}").await;
        let url = format!("http://{address}/base/");
        let writer = writer(&url, dns.server.address).unwrap();
        let record = writer.locate("_acme-challenge.a.com", "v1").await.unwrap();
        assert_eq!(record.name, "sub-1.auth.example.net");
        writer.publish(&record).await.unwrap();
        writer.remove(&record).await.unwrap();
        let request = request.await.unwrap().to_lowercase();
        assert!(
            request.starts_with("post /base/update http/1.1\r\n"),
            "{request}"
        );
        for part in [
            &format!("host: {address}\r\n"),
            "x-api-user: u-1\r\n",
            "x-api-key: s3cret\r\n",
            "\"subdomain\":\"sub-1\"",
            "\"txt\":\"v1\"",
        ] {
            assert!(request.contains(part), "{part}\n{request}");
        }
        // Without the alias the authority would look elsewhere.
        assert_eq!(
            writer.locate("_acme-challenge.b.com", "v1").await,
            Err(DnsError::NoAlias("_acme-challenge.b.com".to_owned()))
        );
    }));
}

#[test]
fn a_refusal_of_acme_dns_is_told_with_its_status() {
    run(LocalSet::new().run_until(async {
        let dns = start(None).await;
        dns.server.add_zone("auth.example.net", &[]);
        dns.server
            .add_alias("_acme-challenge.a.com", "sub-1.auth.example.net");
        let (address, _request) = serve(
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 21\r\n\r\n{\"error\":\"forbidden\"}",
        )
        .await;
        let writer = writer(&format!("http://{address}"), dns.server.address).unwrap();
        let record = writer.locate("_acme-challenge.a.com", "v1").await.unwrap();
        let error = writer.publish(&record).await.unwrap_err().to_string();
        assert!(
            error.contains("status 401: {\"error\":\"forbidden\"}"),
            "{error}"
        );
        assert!(!error.contains("s3cret"), "{error}");
    }));
}

#[test]
fn the_url_of_acme_dns_must_be_one_of_http_or_https() {
    let resolver = (Ipv4Addr::LOCALHOST, 1).into();
    for bad in [
        "auth.example.net",
        "ftp://a",
        "https://",
        "http://a:x",
        "http://u@a",
    ] {
        let error = writer(bad, resolver).err().unwrap().to_string();
        assert!(error.contains("`url` is not a URL"), "{bad}: {error}");
    }
}
