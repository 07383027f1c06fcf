//! Sites that are proxied, over HTTP/1.

mod access_control;
mod access_log;
mod bodies;
mod dead_endpoints;
mod draining;
mod exchanges;
mod health_checks;
mod hostile_clients;
mod hostile_origins;
mod idle_lifetime;
mod limits;
mod local_responses;
mod pools;
mod request_rules;
mod retries;
mod reuse;
mod smuggling;
mod strict_heads;
mod traces;
mod truncated_responses;
mod unknown_clients;
mod upgrades;

use std::fmt::Display;

use lockgate_testkit::{Http, Lockgate, Message, Origin};

use crate::scene::{NAME, ended};

/// A site for any host, at `127.0.0.1:0` by plain HTTP, in front of `proxy`, which is written as in
/// a configuration; keys of the site may follow.
pub(crate) fn plain_site(proxy: impl Display) -> String {
    format!("[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"{proxy}\"\n")
}

/// A site for [`NAME`] over TLS, with this certificate, at `127.0.0.2:0`.
pub(crate) fn secure_site(cert: &str, proxy: impl Display) -> String {
    format!(
        "[site.\"{NAME}:0\"]\nlisten = [\"127.0.0.2\"]\ntls = {{ cert = \"{cert}\" }}\nproxy = \"{proxy}\"\n"
    )
}

/// One exchange on connections of its own: the request as it came to the origin, and all bytes that
/// the client got for `answer`, after which the origin closes.
pub(crate) fn exchange_bytes(
    gate: &Lockgate,
    origin: &Origin,
    request: &str,
    answer: &str,
) -> (Message, String) {
    let mut client = Http::connect(gate.address());
    client.send(request);
    client.stream.finish();
    let mut upstream = origin.http();
    let seen = upstream.request();
    upstream.send(answer);
    drop(upstream);
    let got = normalized_text(client.rest());
    // The next request must not meet the connection that is being closed.
    ended(origin);
    (normalized(seen), got)
}

/// The message with everything that varies replaced.
pub(crate) fn normalized(mut message: Message) -> Message {
    message.head = normalized_text(message.head);
    message
}

/// Text of messages with everything that varies replaced.
pub(crate) fn normalized_text(text: impl Into<Vec<u8>>) -> String {
    let text = String::from_utf8(text.into()).unwrap();
    let mut lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
    for line in &mut lines {
        if line.len() == 46 && line.starts_with("X-Request-Id: ") {
            *line = "X-Request-Id: ID".to_owned();
        } else if line.len() == 35 && line.starts_with("Date: ") && line.ends_with(" GMT") {
            *line = "Date: NOW".to_owned();
        }
    }
    lines.join("\r\n")
}

/// A pool with these keys, and a site in front of it.
pub(crate) fn pooled(keys: impl Display) -> String {
    format!("[pool.app]\n{keys}\n") + &plain_site("pool:app")
}

/// A response that keeps its connection.
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Requests `/` on a connection of its own.
pub(crate) fn ask(gate: &Lockgate) -> Message {
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    client.answer()
}

/// A request without a body.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

/// A request with one.
fn with_body(method: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A response 200 with this body.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
