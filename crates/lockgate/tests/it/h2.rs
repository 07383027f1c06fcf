//! Sites over HTTP/2.

mod attacks;
mod connections;
mod exchanges;
mod field_sections;
mod floods;
mod grpc;
mod injection;
mod priorities;
mod stalls;
mod termination;

use std::fmt::Display;

pub(crate) use connections::accept;

/// Connections that were ended for violations of the client; labels are the reasons.
const VIOLATIONS: &str = "lockgate_http2_violations_total";

/// A site for any host, at `127.0.0.1:0` without TLS, by HTTP/1 and by HTTP/2 with prior knowledge,
/// in front of `proxy`, which is written as in a configuration; keys of the site may follow.
fn plain_site(proxy: impl Display) -> String {
    format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nprotocols = [\"h2c\", \"http1\"]\nproxy = \"{proxy}\"\n"
    )
}
