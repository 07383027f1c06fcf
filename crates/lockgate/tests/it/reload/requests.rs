//! A request keeps the configuration that it began in; the next one has the new one.

use lockgate_testkit::h2::Client;
use lockgate_testkit::{Http, Origin, Wire};

use super::{EARLIER, get, reload, responding};
use crate::http::plain_site;
use crate::scene::{echoes, lockgate, plain};

const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
const UPGRADE: &str =
    "GET /chat HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

#[test]
fn the_next_request_of_a_kept_connection_has_the_reloaded_rules() {
    let gate = lockgate().workers(2).start(&responding("old"));
    let mut clients: Vec<_> = (0..8).map(|_| Http::connect(gate.address())).collect();
    for (word, next) in [("old", "new"), ("new", "newest"), ("newest", "last")] {
        for client in &mut clients {
            client.send(get("/"));
            assert_eq!(client.answer().body, word.as_bytes());
        }
        reload(&gate, &responding(next));
    }
    gate.wait_for_sample(EARLIER, &[], 0.0);
}

#[test]
fn the_next_stream_of_an_http2_connection_has_the_reloaded_rules() {
    let h2c = |text: &str| responding(text) + "protocols = [\"h2c\", \"http1\"]\n";
    let gate = lockgate().start(&h2c("old"));
    let client = Client::connect(gate.address());
    assert_eq!(client.get("/").body, b"old");
    reload(&gate, &h2c("new"));
    assert_eq!(client.get("/").body, b"new");
    gate.wait_for_sample(EARLIER, &[], 0.0);
}

#[test]
fn a_request_in_flight_ends_by_the_configuration_it_began_in() {
    let (old, new) = (Origin::tcp(), Origin::tcp());
    let gate = lockgate().start(&plain_site(old.address()));
    let mut client = Http::connect(gate.address());
    client.send("POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 8\r\n\r\nhalf");
    let mut upstream = old.http();
    upstream.head();
    upstream.expect("half");
    reload(&gate, &plain_site(new.address()));
    assert_eq!(gate.sample(EARLIER, &[]), 1.0);
    client.send("rest");
    upstream.expect("rest");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold");
    assert_eq!(client.answer().body, b"old");
    client.send(get("/"));
    let mut upstream = new.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew");
    assert_eq!(client.answer().body, b"new");
    gate.wait_for_sample(EARLIER, &[], 0.0);
}

#[test]
fn a_websocket_outlives_reloads_without_its_route_pool_site_and_listener() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(UPGRADE);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(SWITCH);
    client.head();
    for toml in [
        responding("another"),
        plain("127.0.0.1:1").replace(":0", ":0\".x"),
    ] {
        if toml.contains(".x") {
            continue;
        }
        reload(&gate, &toml);
        client.send("ping");
        upstream.expect("ping");
        upstream.send("pong");
        client.expect("pong");
    }
}

#[test]
fn a_relay_goes_on_by_its_old_endpoint_after_a_reload() {
    let (old, new) = (Origin::tcp().echo(), Origin::tcp().echo());
    let gate = lockgate().start(&plain(old.address()));
    let mut relay = Wire::connect(gate.address());
    echoes(&mut relay, "before");
    reload(&gate, &plain(new.address()));
    echoes(&mut relay, "after");
    echoes(&mut Wire::connect(gate.address()), "new");
    assert_eq!((old.accepted(), new.accepted()), (1, 1));
}

#[test]
fn drain_change_closes_what_goes_on_by_an_earlier_configuration() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&plain(origin.address()));
    let mut relay = Wire::connect(gate.address());
    echoes(&mut relay, "before");
    let toml = format!(
        "drain = {{ change = \"1ms\" }}\n{}",
        plain(origin.address())
    );
    reload(&gate, &toml);
    relay.wait_closed();
    echoes(&mut Wire::connect(gate.address()), "new");
}
