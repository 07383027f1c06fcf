//! Servers that tell addresses, on real sockets.

use std::net::Ipv4Addr;

use lockgate_rules::SourceUrl;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::family::AddressFamily;
use crate::url::AnsweringServer;

/// Runs a test on a runtime as that of the thread of dynamic DNS.
fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

/// What is learnt from a server that gives this response to one request.
async fn learnt(response: &str, family: AddressFamily, private: bool) -> Result<String, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url: SourceUrl = format!("http://127.0.0.1:{port}/ip?token=s3cret")
        .parse()
        .unwrap();
    let server = AnsweringServer::new(url).unwrap();
    let serving = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        assert!(request.starts_with(b"GET /ip?token=s3cret HTTP/1.1\r\n"));
        stream.write_all(response.as_bytes()).await.unwrap();
        drop(stream);
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = server.ask(family, private) => answer,
        () = serving => unreachable!("it never ends"),
    };
    let place = format!("http://127.0.0.1:{port}/ip");
    match answer {
        Ok(address) => Ok(address.to_string()),
        Err(why) => {
            assert!(!why.contains("s3cret"), "{why}");
            Err(why.replace(&place, "URL"))
        }
    }
}

fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[test]
fn the_address_that_a_server_tells_is_learnt() {
    run(async {
        let v4 = AddressFamily::Ipv4;
        for (body, private, expected) in [
            ("8.8.4.4\n", false, Ok("8.8.4.4")),
            (r#"{"ip":"8.8.4.4"}"#, false, Ok("8.8.4.4")),
            ("10.0.0.1", true, Ok("10.0.0.1")),
            (
                "10.0.0.1",
                false,
                Err("URL: 10.0.0.1 is a private address (RFC 1918)"),
            ),
            (
                "203.0.113.7",
                true,
                Err("URL: 203.0.113.7 is an address for documentation (RFC 5737)"),
            ),
            (
                "no idea",
                false,
                Err("URL: its answer holds no IPv4 address"),
            ),
        ] {
            let found = learnt(&ok(body), v4, private).await;
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found, expected, "{body}");
        }
    });
}

#[test]
fn answers_that_are_none_of_an_address_server_are_told() {
    run(async {
        let v4 = AddressFamily::Ipv4;
        let moved = "HTTP/1.1 301 Moved\r\nlocation: https://x/\r\ncontent-length: 0\r\n\r\n";
        let why = learnt(moved, v4, false).await.unwrap_err();
        assert_eq!(why, "URL: status 301; write the URL that it leads to");
        let failed = "HTTP/1.1 503 Busy\r\ncontent-length: 7\r\n\r\n8.8.4.4";
        let why = learnt(failed, v4, false).await.unwrap_err();
        assert_eq!(why, "URL: status 503");
        // A page without an end is not waited for: its first bytes have no address.
        let long = format!("HTTP/1.1 200 OK\r\n\r\n{}8.8.4.4", "x ".repeat(5000));
        let why = learnt(&long, v4, false).await.unwrap_err();
        assert_eq!(why, "URL: its answer holds no IPv4 address");
    });
}

#[test]
fn a_server_is_asked_over_the_family_of_the_address() {
    run(async {
        let url: SourceUrl = "http://127.0.0.1:9/".parse().unwrap();
        let server = AnsweringServer::new(url).unwrap();
        let why = server.ask(AddressFamily::Ipv6, true).await.unwrap_err();
        assert_eq!(why, "http://127.0.0.1:9/: 127.0.0.1 has no IPv6 address");
    });
}
