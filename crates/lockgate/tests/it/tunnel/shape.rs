//! Rates of tunnels: of each, of a user, of all, on two workers.

use std::time::Instant;

use lockgate_testkit::h2::Client;
use lockgate_testkit::{Folder, Http, Origin, Serving, bytes};

use super::{connect, opened, tunnels};
use crate::scene::{lockgate, text};
use crate::shape::{held_for, least};

/// The password is "open sesame".
const HASH: &str = "$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m";
/// `alice:open sesame` and `bob:open sesame` (RFC 7617 §2).
const CREDENTIALS: [&str; 2] = [
    "Basic YWxpY2U6b3BlbiBzZXNhbWU=",
    "Basic Ym9iOm9wZW4gc2VzYW1l",
];

/// Sends so many bytes to each client, and ends.
fn sends(len: usize) -> Serving {
    Origin::tcp().serve(move |wire| {
        wire.send(bytes(7, len));
        wire.finish();
        wire.rest();
    })
}

#[test]
fn per_tunnel_rate_holds_each_way_and_half_close_survives() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels(
        "shape = { per_tunnel = { in = \"2MB/s\", out = \"1MB/s\" } }",
    ));
    let (mut client, mut upstream) = opened(&gate, &origin);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(upstream.rest() == bytes(1, 400_000)));
        client.send(bytes(1, 400_000));
        client.stream.finish();
    });
    assert!(begun.elapsed() >= least(400_000, 2_000_000));
    let begun = Instant::now();
    upstream.send(bytes(2, 200_000));
    drop(upstream);
    assert!(client.rest() == bytes(2, 200_000));
    assert!(begun.elapsed() >= least(200_000, 1_000_000));
    gate.wait_for_sample("lockgate_connections", &[], 0.0);
    assert!(held_for(&gate) > 0.0);
}

#[test]
fn per_user_rate_is_shared_by_a_users_tunnels() {
    let folder = Folder::new();
    let file = folder.write("users", format!("alice:{HASH}\nbob:{HASH}\n"));
    let origin = sends(100_000);
    let auth = format!(
        "auth = {{ basic = \"{}\" }}\nshape = {{ per_user = \"1MB/s\" }}",
        text(&file)
    );
    let gate = lockgate().workers(2).start(&tunnels(&auth));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (address, target) = (gate.address(), origin.address().to_owned());
            scope.spawn(move || {
                let mut client = Http::connect(address);
                let credentials = CREDENTIALS[number % 2];
                client.send(format!(
                    "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: {credentials}\r\n\r\n"
                ));
                assert_eq!(client.head(), "HTTP/1.1 200 OK\r\n\r\n");
                assert!(client.rest() == bytes(7, 100_000));
            });
        }
    });
    assert!(begun.elapsed() >= least(400_000, 1_000_000));
}

#[test]
fn tunnels_over_http1_and_http2_share_the_total_rate() {
    let origin = sends(100_000);
    let keys = "protocols = [\"h2c\", \"http1\"]\nshape = { total = { out = \"1MB/s\" } }";
    let gate = lockgate().workers(2).start(&tunnels(keys));
    let begun = Instant::now();
    let shared = Client::connect(gate.address());
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (address, target, shared) = (gate.address(), origin.address().to_owned(), &shared);
            scope.spawn(move || {
                if number % 2 == 0 {
                    let mut client = Http::connect(address);
                    client.send(connect(&target));
                    assert_eq!(client.head(), "HTTP/1.1 200 OK\r\n\r\n");
                    assert!(client.rest() == bytes(7, 100_000));
                    return;
                }
                let mut request = http::Request::new(());
                *request.method_mut() = http::Method::CONNECT;
                *request.uri_mut() = target.parse().unwrap();
                assert!(shared.begin(request, true).answer().body == bytes(7, 100_000));
            });
        }
    });
    assert!(begun.elapsed() >= least(600_000, 1_000_000));
}

#[test]
fn forwarded_requests_are_rate_limited_too() {
    let origin = Origin::tcp().answering(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n";
        [head.as_bytes(), &bytes(3, 200_000)].concat()
    });
    let gate = lockgate().start(&tunnels("forward = true\nshape = \"1MB/s\""));
    let begun = Instant::now();
    let mut client = Http::connect(gate.address());
    let target = origin.address();
    client.send(format!(
        "GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n"
    ));
    assert!(client.answer().body == bytes(3, 200_000));
    assert!(begun.elapsed() >= least(200_000, 1_000_000));
}
