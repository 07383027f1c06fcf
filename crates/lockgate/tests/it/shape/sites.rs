//! Bandwidth rates of sites: bodies both ways over HTTP/1 and HTTP/2, files, and WebSockets.

use std::time::Instant;

use lockgate_testkit::h2::{Client, Origin as H2Origin};
use lockgate_testkit::{Http, Origin, bytes};

use super::{held_for, least};
use crate::files::{Served, WAYS, Www};
use crate::http::plain_site;
use crate::scene::lockgate;

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A body as one chunk, and the end.
fn chunk(body: &[u8]) -> Vec<u8> {
    [
        format!("{:x}\r\n", body.len()).as_bytes(),
        body,
        b"\r\n0\r\n\r\n",
    ]
    .concat()
}

#[test]
fn files_and_ranges_arrive_whole_at_the_connection_rate() {
    let www = Www::new();
    // Held in memory, and sent from the disk.
    www.write("small.bin", bytes(1, 60_000));
    www.write("large.bin", bytes(2, 2_000_000));
    let served = Served::start(&www, "shape = { per_connection = { out = \"4MB/s\" } }");
    for way in WAYS {
        let begun = Instant::now();
        let mut client = served.connect(way);
        assert!(
            client.get("/small.bin", &[]).body == bytes(1, 60_000),
            "{way:?}"
        );
        let part = client.get("/large.bin", &[("Range", "bytes=100-1999999")]);
        assert!(
            part.status == 206 && part.body == bytes(2, 2_000_000)[100..],
            "{way:?}"
        );
        assert!(begun.elapsed() >= least(2_059_900, 4_000_000), "{way:?}");
    }
    assert!(
        served
            .gate
            .sample("lockgate_connection_shaped_seconds_total", &[])
            > 0.0
    );
}

#[test]
fn proxied_responses_of_every_framing_arrive_at_the_rate() {
    let body = bytes(3, 400_000);
    let origin = Origin::tcp();
    let gate = lockgate().start(
        &(plain_site(origin.address()) + "shape = { per_connection = { out = \"2MB/s\" } }\n"),
    );
    let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    for answer in [
        [length.as_bytes(), &body].concat(),
        [CHUNKED, &chunk(&body)].concat(),
        [b"HTTP/1.1 200 OK\r\n\r\n", &body[..]].concat(),
    ] {
        let begun = Instant::now();
        let mut client = Http::connect(gate.address());
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let mut upstream = origin.http();
        upstream.request();
        std::thread::scope(|scope| {
            scope.spawn(move || upstream.send(answer));
            assert!(client.answer().body == body);
        });
        assert!(begun.elapsed() >= least(400_000, 2_000_000));
    }
}

#[test]
fn compressed_responses_are_rate_limited_by_coded_bytes() {
    let origin = Origin::tcp();
    let keys = "shape = \"1MB/s\"\ncompress = { types = [\"text/*\"], codings = [\"gzip\"] }\n";
    let gate = lockgate().start(&(plain_site(origin.address()) + keys));
    // Nothing that could be made smaller.
    let body = bytes(4, 300_000);
    let begun = Instant::now();
    let mut client = Http::connect(gate.address());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n");
    let mut upstream = origin.http();
    upstream.request();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    upstream.send([head.as_bytes(), &body].concat());
    let answer = client.answer();
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    assert!(begun.elapsed() >= least(answer.body.len() as u64, 1_000_000));
}

#[test]
fn request_bodies_arrive_whole_at_the_total_rate() {
    let origin = Origin::tcp().answering(|request| {
        let body = request.body.len().to_string();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    });
    let site = "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nprotocols = [\"h2c\", \"http1\"]\n";
    let keys = format!(
        "proxy = \"{}\"\nshape = {{ total = {{ in = \"1MB/s\" }} }}\n",
        origin.address()
    );
    let gate = lockgate().workers(2).start(&(site.to_owned() + &keys));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let address = gate.address();
            scope.spawn(move || {
                let body = bytes(number, 100_000);
                if number % 2 == 0 {
                    assert_eq!(Client::connect(address).post("/", body).text(), "100000");
                } else {
                    let mut client = Http::connect(address);
                    client.send(
                        "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n",
                    );
                    client.send(chunk(&body));
                    assert_eq!(client.answer().text(), "100000");
                }
            });
        }
    });
    assert!(begun.elapsed() >= least(600_000, 1_000_000));
}

#[test]
fn http2_streams_share_the_connection_rate() {
    let www = Www::new();
    www.write("a.bin", bytes(5, 150_000));
    let keys = format!(
        "root = \"{}\"\nprotocols = [\"h2c\", \"http1\"]\n",
        www.root.display()
    );
    for shape in ["per_connection", "per_client"] {
        let toml = format!(
            "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\n{keys}shape = {{ {shape} = \"1MB/s\" }}\n"
        );
        let gate = lockgate().workers(2).start(&toml);
        let begun = Instant::now();
        let client = Client::connect(gate.address());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert!(client.get("/a.bin").body == bytes(5, 150_000)));
            }
            if shape == "per_client" {
                let mut another = Http::connect(gate.address());
                another.send("GET /a.bin HTTP/1.1\r\nHost: a.test\r\n\r\n");
                assert!(another.answer().body == bytes(5, 150_000));
            }
        });
        let moved = if shape == "per_client" {
            600_000
        } else {
            450_000
        };
        assert!(begun.elapsed() >= least(moved, 1_000_000), "{shape}");
    }
}

/// Rates below the minimum: all that is late is late by us.
#[test]
fn a_rate_limited_client_is_not_slow() {
    let www = Www::new();
    www.write("a.bin", bytes(6, 4_500));
    let origin = Origin::tcp().answering(|request| {
        let body = if request.body.is_empty() {
            bytes(6, 4_500)
        } else {
            request.body.clone()
        };
        [
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
            &body,
        ]
        .concat()
    });
    let toml = format!(
        "rates = {{ min_in = \"1MB/s\", min_out = \"1MB/s\", grace = \"1s\" }}\n[site.\":0\"]\nlisten = [\"127.0.0.1\"]\n\
         root = \"{}\"\nshape = \"1500B/s\"\n\
         [site.\":0\".path.\"/down\"]\nproxy = \"{}\"\nshape = {{ per_connection = {{ out = \"1500B/s\" }} }}\n\
         [site.\":0\".path.\"/up\"]\nproxy = \"{}\"\nshape = {{ per_connection = {{ in = \"1500B/s\" }} }}\n",
        www.root.display(),
        origin.address(),
        origin.address(),
    );
    let gate = lockgate().start(&toml);
    std::thread::scope(|scope| {
        for path in ["/a.bin", "/down", "/up"] {
            let address = gate.address();
            scope.spawn(move || {
                let mut client = Http::connect(address);
                let (method, body) = if path == "/up" {
                    ("POST", bytes(6, 4_500))
                } else {
                    ("GET", Vec::new())
                };
                let head = format!(
                    "{method} {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                client.send([head.as_bytes(), &body].concat());
                assert!(client.answer().body == bytes(6, 4_500), "{path}");
            });
        }
    });
}

/// Between two connections of HTTP/1 it is a relay, elsewhere streams.
#[test]
fn a_websocket_is_rate_limited_and_not_idle() {
    const SWITCH: &str = "GET /chat HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let keys =
        "shape = { per_connection = { out = \"750B/s\" } }\ntimeouts = { tunnel_idle = \"1s\" }\n";
    let origin = Origin::tcp();
    let gate = lockgate().start(&(plain_site(origin.address()) + keys));
    let mut client = Http::connect(gate.address());
    client.send(SWITCH);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    );
    client.head();
    upstream.send(bytes(7, 3_000));
    client.expect(bytes(7, 3_000));
    drop((client, upstream));
    gate.wait_for_sample("lockgate_connections", &[], 0.0);
    assert!(held_for(&gate) > 0.0);

    let origin = H2Origin::echo();
    let pool = format!(
        "[pool.app]\nendpoints = [\"{}\"]\nprotocol = \"h2c\"\n",
        origin.address()
    );
    let gate = lockgate().start(&(pool + &plain_site("pool:app") + keys));
    let mut client = Http::connect(gate.address());
    client.send(SWITCH);
    client.head();
    client.send(bytes(8, 3_000));
    client.expect(bytes(8, 3_000));
}
