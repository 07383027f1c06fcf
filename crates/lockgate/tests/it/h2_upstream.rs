//! Sites with endpoints that speak HTTP/2.

mod cancellation;
mod causes;
mod ejection;
mod failures;
mod health;
mod hostile;
mod idle_lifetime;
mod messages;
mod websockets;

use std::fmt::Display;

use lockgate_testkit::h2::{Client, Origin};
use lockgate_testkit::{Http, Lockgate, Message};

use crate::scene::lockgate;

/// A pool of endpoints that speak HTTP/2 without TLS, with these keys besides, and a site in front
/// of it for both HTTPs.
fn pooled(endpoints: &[&str], keys: impl Display) -> String {
    format!(
        "[pool.app]\nprotocol = \"h2c\"\nendpoints = {endpoints:?}\n{keys}\n\
         [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nprotocols = [\"http1\", \"h2c\"]\nproxy = \"pool:app\"\n"
    )
}

/// The same with one endpoint and no more keys, started.
fn in_front_of(origin: &Origin) -> Lockgate {
    lockgate().start(&pooled(&[&origin.address()], ""))
}

/// A client of HTTP/2 without TLS.
fn client(gate: &Lockgate) -> Client {
    Client::connect(gate.address())
}

/// Sends a request of HTTP/1.1 on a connection of its own.
fn ask(gate: &Lockgate, request: impl AsRef<[u8]>) -> Message {
    let mut http = Http::connect(gate.address());
    http.send(request);
    http.answer()
}

/// A request without a body.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: app.test\r\n\r\n")
}

/// A request with one.
fn post(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
