//! Certificates that the program obtains, and how each stands.

use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_certs::{CertId, CertStatus};
use serde::Serialize;

use super::timestamp::timestamp;

const DAY: i64 = 86_400;

#[derive(Serialize)]
pub(super) struct ManagedCertView {
    name: String,
    key: &'static str,
    /// `valid`, `late`, `expired` or `awaited`.
    state: &'static str,
    directory: Option<String>,
    challenge: Option<String>,
    not_after: Option<String>,
    days_left: Option<i64>,
    renewal: Option<String>,
    /// The window that the authority wants (RFC 9773).
    window: Option<[String; 2]>,
    tried: Option<String>,
    failures: u32,
    failure: Option<FailureView>,
    next_try: Option<String>,
}

#[derive(Serialize)]
struct FailureView {
    kind: Option<&'static str>,
    message: String,
}

/// How a certificate stands at the time `now`.
pub(super) fn managed_cert(id: CertId, status: CertStatus, now: SystemTime) -> ManagedCertView {
    let state = state(&status, now);
    let left = status
        .validity
        .map(|validity| (seconds(validity.not_after) - seconds(now)).div_euclid(DAY));
    ManagedCertView {
        name: id.name,
        key: id.key.name(),
        state,
        directory: status.directory,
        challenge: status.challenge,
        not_after: status
            .validity
            .map(|validity| timestamp(validity.not_after)),
        days_left: left,
        renewal: status.due.map(timestamp),
        window: status
            .window
            .map(|window| [timestamp(window.start), timestamp(window.end)]),
        tried: status.tried.map(timestamp),
        failures: status.failures,
        failure: status.failure.map(|(kind, message)| FailureView {
            kind: kind.map(lockgate_certs::FailureKind::as_str),
            message,
        }),
        next_try: status.next_try.map(timestamp),
    }
}

/// The state of a certificate, in one word.
fn state(status: &CertStatus, now: SystemTime) -> &'static str {
    let Some(validity) = status.validity else {
        return "awaited";
    };
    match status.due {
        _ if validity.not_after <= now => "expired",
        Some(due) if due <= now && status.failures > 0 => "late",
        _ => "valid",
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
