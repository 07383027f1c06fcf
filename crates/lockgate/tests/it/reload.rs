//! Reloads of the configuration: what changes, what stays, and what goes on by the old one.

mod failures;
mod handshakes;
mod listeners;
mod process;
mod requests;
mod state;

use lockgate_testkit::{Lockgate, Signal};

/// Reloads this configuration, and waits until every worker runs it.
pub(crate) fn reload(gate: &Lockgate, toml: &str) {
    let before = gate.sample(RELOADS, &[SUCCESS]);
    gate.rewrite(toml);
    gate.signal(Signal::HUP);
    gate.wait_for_sample(RELOADS, &[SUCCESS], before + 1.0);
}

const SUCCESS: &str = "result=\"success\"";
const FAILURE: &str = "result=\"failure\"";
/// Counts reloads.
const RELOADS: &str = "lockgate_config_reloads_total";
/// The configurations before the one that runs.
const EARLIER: &str = "lockgate_config_earlier_generations";

/// A site for any host, without TLS, that responds with this text; more keys may follow.
fn responding(text: &str) -> String {
    format!("[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = {{ body = \"{text}\" }}\n")
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: app.test\r\n\r\n")
}
