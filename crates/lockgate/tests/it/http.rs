//! Sites that are proxied, over HTTP/1.

mod checks;
mod exchanges;
mod pools;
mod retries;

use std::fmt::Display;

/// A site for any host, at `127.0.0.1:0` by plain HTTP, in front of `proxy`, which is written as in a configuration;
/// keys of the site may follow.
pub(crate) fn plain_site(proxy: impl Display) -> String {
    format!("[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"{proxy}\"\n")
}

/// A pool with these keys, and a site in front of it.
fn pooled(keys: impl Display) -> String {
    format!("[pool.app]\n{keys}\n") + &plain_site("pool:app")
}

/// A request without a body.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

/// A request with one.
fn with_body(method: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{method} / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The answer 200 with this body.
fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
