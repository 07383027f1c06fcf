//! Scarcity of sockets, connection slots or handshakes: idle ones are evicted, clients have shares,
//! and a request that finds none waits.

mod clients;
mod sockets;

use std::net::{IpAddr, Ipv4Addr};

use lockgate_testkit::{Http, Lockgate, Wire};

/// Sockets towards endpoints; labels are `state="used"` and `state="idle"`.
const SOCKETS: &str = "lockgate_upstream_sockets";
/// Requests and relays that had to wait for one; labels are the reasons.
const WAITED: &str = "lockgate_upstream_sockets_waited_total";

/// A response that keeps its connection.
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n";

/// A relay at this address in front of `proxy`.
fn relay(address: &str, proxy: &str) -> String {
    format!("[tcp.\"{address}:0\"]\nproxy = \"{proxy}\"\n")
}

/// A client at another address than that of most.
fn other_client(gate: &Lockgate, listener: &str, last: u8) -> Http {
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    Http::over(Wire::connect_from(from, gate.at(listener)))
}

/// One request and its response, which is 200; the connection stays.
fn assert_served(client: &mut Http) {
    client.send(GET);
    assert_eq!(client.answer().status(), 200);
}
