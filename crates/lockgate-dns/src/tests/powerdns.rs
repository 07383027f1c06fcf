//! A provider with a protocol of its own: the API of PowerDNS.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, LocalSet};

use crate::tests::name_server::start;
use crate::tests::{provider, run};
use crate::{DnsError, DnsWriter};

const NAME: &str = "_acme-challenge.example.com";
const TOKEN: &str = "s3cret-token";

/// The records of one name, as the API has them.
type Records = Rc<RefCell<Vec<Json>>>;

/// A server of the API, which takes requests with [`TOKEN`] alone.
async fn serve(records: Records) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::task::spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            answer(stream, &records).await;
        }
    });
    (address, task)
}

async fn answer(mut stream: TcpStream, records: &Records) {
    let mut request = Vec::new();
    let (head, mut body) = loop {
        if stream.read_buf(&mut request).await.unwrap() == 0 {
            return;
        }
        let text = String::from_utf8(request.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            break (head.to_lowercase(), body.as_bytes().to_vec());
        }
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    while body.len() < length {
        assert_ne!(stream.read_buf(&mut body).await.unwrap(), 0);
    }
    let (status, content) = if !head.contains(&format!("x-api-key: {TOKEN}\r\n")) {
        ("401 Unauthorized", "Unauthorized".to_owned())
    } else if head.starts_with("patch /api/v1/servers/localhost/zones/example.com. ") {
        let change: Json = serde_json::from_slice(&body).unwrap();
        let set = &change["rrsets"][0];
        assert_eq!(set["name"], format!("{NAME}."));
        let new = set["records"].as_array().cloned().unwrap_or_default();
        *records.borrow_mut() = new;
        ("204 No Content", String::new())
    } else {
        assert!(
            head.starts_with("get /api/v1/servers/localhost/zones/example.com."),
            "{head}"
        );
        let set = json!({
            "name": format!("{NAME}."), "type": "TXT", "ttl": 60, "records": *records.borrow(),
        });
        ("200 OK", json!({ "rrsets": [set] }).to_string())
    };
    let length = content.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{content}"
    );
    stream.write_all(response.as_bytes()).await.unwrap();
}

fn contents(records: &Records) -> Vec<String> {
    let records = records.borrow();
    let content = |record: &Json| record["content"].as_str().unwrap().to_owned();
    records.iter().map(content).collect()
}

#[test]
fn records_at_powerdns_are_added_and_removed_one_by_one() {
    run(LocalSet::new().run_until(async {
        let dns = start(None).await;
        dns.server.add_zone("example.com", &[]);
        let records = Records::default();
        let (api, task) = serve(Rc::clone(&records)).await;
        let url = format!("http://{api}");
        let parameters = [("url", &*url), ("token", TOKEN)];
        let settings = provider("powerdns", &parameters, dns.server.address);
        let writer = DnsWriter::new(&settings).unwrap();
        let one = writer.locate(NAME, "one").await.unwrap();
        let two = writer.locate(NAME, "two").await.unwrap();
        // At once, as for a name and the wildcard below it.
        let (first, second) = tokio::join!(writer.publish(&one), writer.publish(&two));
        assert_eq!((first, second), (Ok(()), Ok(())));
        assert_eq!(contents(&records), ["\"one\"", "\"two\""]);
        writer.remove(&one).await.unwrap();
        writer.remove(&one).await.unwrap();
        assert_eq!(contents(&records), ["\"two\""]);
        writer.remove(&two).await.unwrap();
        assert!(contents(&records).is_empty());
        task.abort();
    }));
}

#[test]
fn a_refusal_of_a_dns_provider_is_told_without_the_token() {
    run(LocalSet::new().run_until(async {
        let dns = start(None).await;
        dns.server.add_zone("example.com", &[]);
        let (api, task) = serve(Records::default()).await;
        let url = format!("http://{api}");
        let parameters = [("url", &*url), ("token", "0ther")];
        let settings = provider("powerdns", &parameters, dns.server.address);
        let writer = DnsWriter::new(&settings).unwrap();
        let record = writer.locate(NAME, "one").await.unwrap();
        let error = writer.publish(&record).await.unwrap_err();
        assert!(matches!(
            error,
            DnsError::Provider {
                provider: "powerdns",
                ..
            }
        ));
        assert!(!error.to_string().contains("0ther"), "{error}");
        task.abort();
    }));
}
