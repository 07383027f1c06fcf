//! Sites that are proxied, over HTTP/1.

mod exchanges;
mod hostile_clients;
mod hostile_origins;
mod smuggling;

use std::fmt::Display;

/// A site for any host, at `127.0.0.1:0` by plain HTTP, in front of `proxy`, which is written as in a configuration;
/// keys of the site may follow.
pub(crate) fn plain_site(proxy: impl Display) -> String {
    format!("[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"{proxy}\"\n")
}
