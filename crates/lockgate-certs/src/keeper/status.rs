//! How a certificate stands, from what its files say. Reads none of them.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::error::FailureKind;
use crate::leaf::Leaf;
use crate::schedule::{self, Next, RenewalWindow, Standing, Validity, spread_of};
use crate::store::{CertFolder, CertId, CertRecord};

/// How a certificate stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CertStatus {
    /// The PEM file, which need not exist.
    pub file: PathBuf,
    /// The time in which it is valid; `None` where there is none.
    pub validity: Option<Validity>,
    /// Its DNS names, in lower case.
    pub names: Vec<String>,
    /// The name of its issuer, as RFC 4514 writes it.
    pub issuer: Option<String>,
    /// The URL of the directory that has issued it.
    pub directory: Option<String>,
    /// The profile that it was ordered with, if one was named.
    pub profile: Option<String>,
    /// The challenge by which its name was proved last.
    pub challenge: Option<String>,
    /// When it was revoked, while no other has taken its place.
    pub revoked: Option<SystemTime>,
    /// The order that is under way.
    pub order: Option<OrderUnderWay>,
    /// The window in which the authority wants it to be renewed.
    pub window: Option<RenewalWindow>,
    /// The page on which the authority tells why.
    pub explanation: Option<String>,
    /// When it is to be renewed.
    pub due: Option<SystemTime>,
    /// When the last try began, if this process has made one.
    pub tried: Option<SystemTime>,
    /// The certificates that this process has obtained.
    pub obtained: u32,
    /// The tries of this process that have failed.
    pub failed: u32,
    /// Failures since the last success.
    pub failures: u32,
    /// The last of them: its kind, and its message.
    pub failure: Option<(Option<FailureKind>, String)>,
    /// When the next try is, after a failure.
    pub next_try: Option<SystemTime>,
}

/// An order that has begun, and is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderUnderWay {
    /// Its URL.
    pub url: String,
    /// When it began.
    pub begun: SystemTime,
}

/// What the schedule is to know of a certificate; `outdated` is whether other settings apply, or a
/// renewal was asked for.
pub(crate) fn standing(
    id: &CertId,
    leaf: Option<&Leaf>,
    record: &CertRecord,
    outdated: bool,
) -> Standing {
    // Also where the operator has put another file in its place.
    let leaf = leaf.filter(|leaf| leaf.names.contains(&id.name));
    let renewal = record.renewal.as_ref();
    let window = renewal.and_then(|renewal| {
        Some(RenewalWindow {
            start: renewal.start?.into(),
            end: renewal.end?.into(),
        })
    });
    let failures = record.failures.as_ref();
    Standing {
        validity: leaf.map(|leaf| leaf.validity),
        obtained: record.obtained.map(SystemTime::from),
        outdated,
        window,
        window_check: leaf
            .and_then(|leaf| leaf.ari.as_ref())
            .map(|_| renewal.map_or(SystemTime::UNIX_EPOCH, |renewal| renewal.next_check.into())),
        failures: failures.map_or(0, |failures| failures.count),
        failed: failures.map(|failures| failures.last.into()),
        refuted: failures.is_some_and(|failures| failures.kind == FailureKind::Validation.as_str()),
        retry_after: failures.and_then(|failures| {
            let pauses = failures.pauses.iter();
            pauses.map(|pause| pause.until.into()).min()
        }),
        spread: spread_of(&id.name),
    }
}

impl CertStatus {
    /// How the certificate of these files stands at the time `now`.
    pub(crate) fn of(
        folder: &CertFolder,
        (id, leaf, record): (&CertId, Option<&Leaf>, &CertRecord),
        standing: &Standing,
        now: SystemTime,
    ) -> Self {
        let next_try = match schedule::next(standing, now) {
            Next::Wait(time) if standing.failures > 0 => now.checked_add(time),
            _ => None,
        };
        Self {
            file: folder.cert_file(id),
            validity: standing.validity,
            names: leaf.map_or_else(Vec::new, |leaf| leaf.names.clone()),
            issuer: leaf.map(|leaf| leaf.issuer.clone()),
            directory: record.directory.clone(),
            profile: record.profile.clone(),
            challenge: record.challenge.clone(),
            revoked: record.revoked.map(SystemTime::from),
            order: record.order.as_ref().map(|order| OrderUnderWay {
                url: order.url.clone(),
                begun: order.begun.into(),
            }),
            window: standing.window,
            explanation: record
                .renewal
                .as_ref()
                .and_then(|renewal| renewal.explanation.clone()),
            due: standing.due(),
            tried: None,
            obtained: 0,
            failed: 0,
            failures: standing.failures,
            failure: record.failures.as_ref().map(|failures| {
                let kind = FailureKind::of_str(&failures.kind);
                (kind, failures.message.clone())
            }),
            next_try,
        }
    }
}
