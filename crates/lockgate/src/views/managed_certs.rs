//! Certificates that the program obtains, and how each stands.

use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_certs::{CertId, CertStatus};
use serde::Serialize;

use super::timestamp::timestamp;

const DAY: i64 = 86_400;

/// A certificate that the program obtains.
#[derive(Serialize)]
pub(crate) struct ManagedCertView {
    name: String,
    key: &'static str,
    /// Whether a client has asked for it.
    on_demand: bool,
    /// `valid`, `revoked`, `late`, `expired` or `awaited`.
    state: &'static str,
    file: String,
    names: Vec<String>,
    issuer: Option<String>,
    directory: Option<String>,
    profile: Option<String>,
    challenge: Option<String>,
    not_before: Option<String>,
    not_after: Option<String>,
    days_left: Option<i64>,
    revoked: Option<String>,
    renewal: Option<String>,
    /// The window that the authority wants (RFC 9773).
    window: Option<[String; 2]>,
    /// The page on which it tells why.
    explanation: Option<String>,
    order: Option<OrderView>,
    tried: Option<String>,
    /// Certificates that this process has obtained, and its tries that have failed.
    obtained: u32,
    failed: u32,
    failures: u32,
    failure: Option<FailureView>,
    next_try: Option<String>,
}

#[derive(Serialize)]
struct FailureView {
    kind: Option<&'static str>,
    message: String,
}

#[derive(Serialize)]
struct OrderView {
    url: String,
    begun: String,
}

/// How many certificates stand badly.
#[derive(Serialize)]
pub(super) struct ManagedCountsView {
    managed: usize,
    /// There is none yet.
    awaited: usize,
    /// They were not renewed in time, have expired, or were revoked.
    late: usize,
}

/// How a certificate stands at the time `now`.
pub(crate) fn managed_cert(id: CertId, status: CertStatus, now: SystemTime) -> ManagedCertView {
    let state = state(&status, now);
    let left = status
        .validity
        .map(|validity| (seconds(validity.not_after) - seconds(now)).div_euclid(DAY));
    let validity = status.validity;
    ManagedCertView {
        name: id.name,
        key: id.key.name(),
        on_demand: id.on_demand,
        state,
        file: status.file.display().to_string(),
        names: status.names,
        issuer: status.issuer,
        directory: status.directory,
        profile: status.profile,
        challenge: status.challenge,
        not_before: validity.map(|validity| timestamp(validity.not_before)),
        not_after: validity.map(|validity| timestamp(validity.not_after)),
        days_left: left,
        revoked: status.revoked.map(timestamp),
        renewal: status.due.map(timestamp),
        window: status
            .window
            .map(|window| [timestamp(window.start), timestamp(window.end)]),
        explanation: status.explanation,
        order: status.order.map(|order| OrderView {
            url: order.url,
            begun: timestamp(order.begun),
        }),
        tried: status.tried.map(timestamp),
        obtained: status.obtained,
        failed: status.failed,
        failures: status.failures,
        failure: status.failure.map(|(kind, message)| FailureView {
            kind: kind.map(lockgate_certs::FailureKind::as_str),
            message,
        }),
        next_try: status.next_try.map(timestamp),
    }
}

/// The certificates that stand badly at the time `now`; nothing where none is obtained.
pub(super) fn managed_counts(
    certs: &[(CertId, CertStatus)],
    now: SystemTime,
) -> Option<ManagedCountsView> {
    let in_state = |wanted: &[&str]| {
        let states = certs.iter().map(|(_, status)| state(status, now));
        states.filter(|state| wanted.contains(state)).count()
    };
    let counts = ManagedCountsView {
        managed: certs.len(),
        awaited: in_state(&["awaited"]),
        late: in_state(&["late", "expired", "revoked"]),
    };
    (counts.managed > 0).then_some(counts)
}

/// The names without a certificate that is valid at the time `now`, each once.
pub(crate) fn awaited_certs(certs: &[(CertId, CertStatus)], now: SystemTime) -> Vec<String> {
    let is_awaited = |status: &CertStatus| matches!(state(status, now), "awaited" | "expired");
    let awaited = certs.iter().filter(|(_, status)| is_awaited(status));
    let mut names: Vec<_> = awaited.map(|(id, _)| id.name.clone()).collect();
    // A name may have two, which are neighbours.
    names.dedup();
    names
}

/// The state of a certificate, in one word.
fn state(status: &CertStatus, now: SystemTime) -> &'static str {
    let Some(validity) = status.validity else {
        return "awaited";
    };
    match status.due {
        _ if validity.not_after <= now => "expired",
        // Another is under way.
        _ if status.revoked.is_some() => "revoked",
        Some(due) if due <= now && status.failures > 0 => "late",
        _ => "valid",
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_certs::schedule::Validity;
    use lockgate_rules::CertKeyKind;
    use std::time::Duration;

    fn at(days: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(days * DAY.unsigned_abs())
    }

    fn status(failures: u32) -> CertStatus {
        CertStatus {
            validity: Some(Validity {
                not_before: at(0),
                not_after: at(90),
            }),
            due: Some(at(60)),
            failures,
            ..CertStatus::default()
        }
    }

    #[test]
    fn the_state_of_a_managed_certificate_is_one_word() {
        let awaited = CertStatus::default();
        let revoked = CertStatus {
            revoked: Some(at(9)),
            ..status(0)
        };
        for (status, day, word) in [
            (&awaited, 1, "awaited"),
            (&status(0), 1, "valid"),
            (&status(9), 1, "valid"),
            (&status(0), 61, "valid"),
            (&status(1), 61, "late"),
            (&status(1), 90, "expired"),
            (&revoked, 10, "revoked"),
            (&revoked, 91, "expired"),
        ] {
            assert_eq!(state(status, at(day)), word, "{status:?}, day {day}");
        }
    }

    #[test]
    fn certificates_that_are_awaited_or_late_are_counted_and_named() {
        let id = |name: &str, key| CertId {
            name: name.to_owned(),
            key,
            on_demand: false,
        };
        let certs = [
            (id("a.test", CertKeyKind::EcdsaP256), CertStatus::default()),
            (id("a.test", CertKeyKind::Rsa2048), CertStatus::default()),
            (id("b.test", CertKeyKind::EcdsaP256), status(0)),
            (id("c.test", CertKeyKind::EcdsaP256), status(1)),
        ];
        let counts = managed_counts(&certs, at(61)).unwrap();
        assert_eq!((counts.managed, counts.awaited, counts.late), (4, 2, 1));
        assert_eq!(awaited_certs(&certs, at(61)), ["a.test"]);
        assert_eq!(
            awaited_certs(&certs, at(91)),
            ["a.test", "b.test", "c.test"]
        );
        assert!(managed_counts(&[], at(1)).is_none());
    }
}
