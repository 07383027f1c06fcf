//! Tunnels: clients choose their target (CONNECT, RFC 9110 §9.3.6).

mod access_control;
mod exchanges;
mod forward;
mod http2;
mod limits;
mod shape;
mod targets;

use lockgate_testkit::Http;

use lockgate_testkit::{Lockgate, Message, Origin};

/// A listener of tunnels at `127.0.0.1:0` that may lead to this machine; `keys` of its table
/// follow.
fn tunnels(keys: &str) -> String {
    format!("[tunnel.\"127.0.0.1:0\"]\nallow = [\"127.0.0.0/8:*\", \"localhost:*\"]\n{keys}\n")
}

/// The request head of a client.
fn connect(target: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

/// Requests a tunnel; returns the response.
fn ask(gate: &Lockgate, request: impl AsRef<[u8]>) -> Message {
    let mut client = Http::connect(gate.address());
    client.send(request);
    client.answer()
}

/// Both ends of a tunnel.
fn opened(gate: &Lockgate, origin: &Origin) -> (Http, Http) {
    let mut client = Http::connect(gate.address());
    client.send(connect(&origin.address()));
    assert_eq!(client.head(), "HTTP/1.1 200 OK\r\n\r\n");
    (client, Http::over(origin.accept()))
}

/// Each side sends a word and gets the other's.
fn ping_pong(client: &mut Http, origin: &mut Http) {
    client.send("ping");
    origin.expect("ping");
    origin.send("pong");
    client.expect("pong");
}
