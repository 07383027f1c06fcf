//! `/v1/certs/try`: orders at the authority's directory for trials, whose certificates are thrown
//! away.

use std::time::Duration;

use hyper::StatusCode;
use lockgate_certs::{CertTrial, ChallengeKind, FailureKind, TrialFailure};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::body::{given, unusable};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};
use super::renew_cert::unknown_cert;

/// The most names of one trial.
const MOST: usize = 20;
/// The time within which all of them must have ended.
const LIMIT: Duration = Duration::from_secs(300);

/// Tries to obtain certificates of the `names`, and waits for the results.
pub(super) async fn try_out(request: AdminRequest) -> AdminResult {
    let body = request.object(&["names"])?;
    let names = given(&body, "names").and_then(Value::as_array);
    let names = names.map(|names| names.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    let names: Vec<String> = match names.flatten() {
        Some(names) if (1..=MOST).contains(&names.len()) => {
            names.iter().map(|name| name.to_ascii_lowercase()).collect()
        }
        _ => {
            let message = format!("`names` is no list of 1 to {MOST} names");
            return Err(unusable(message, "send { \"names\": [\"a.example.com\"] }"));
        }
    };
    let exposition = request.state.exposition();
    let managed = exposition.managed_certs();
    let is_managed = |name: &String| managed.iter().any(|(id, _)| id.name == *name);
    if let Some(unknown) = names.iter().find(|name| !is_managed(name)) {
        return Err(unknown_cert(unknown));
    }
    let trial = exposition.cert_keeper().try_out(names);
    let trial = trial.ok_or_else(|| {
        AdminError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no_trial",
            "no trial can begin now: too many are under way, or no certificate is obtained",
            "try again in a minute",
        )
    })?;
    match timeout(LIMIT, trial).await {
        Ok(Ok(results)) => {
            let results: Vec<_> = results.iter().map(shown).collect();
            Ok(json!({ "results": results }))
        }
        Ok(Err(_)) | Err(_) => Err(AdminError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "no_answer",
            "the trial has not ended in time",
            "another Lockgate on the same `state` may obtain the certificates",
        )),
    }
}

fn shown(trial: &CertTrial) -> Value {
    let failures = trial.failures.iter().map(|failed| {
        let TrialFailure { challenge, failure } = failed;
        json!({
            "challenge": challenge.map(ChallengeKind::as_str),
            "kind": failure.kind.as_str(),
            "message": failure.message,
            "cure": cure(failure.kind, *challenge),
        })
    });
    json!({
        "name": trial.id.name,
        "key": trial.id.key.name(),
        "directory": trial.directory.url,
        "directory_name": trial.directory.name,
        "directory_configured": trial.is_configured,
        "obtained": trial.obtained,
        "challenge": trial.challenge,
        "seconds": (trial.took.as_secs_f64() * 1000.0).round() / 1000.0,
        "failures": failures.collect::<Vec<_>>(),
    })
}

/// What to look at.
fn cure(kind: FailureKind, challenge: Option<ChallengeKind>) -> &'static str {
    match (kind, challenge) {
        (FailureKind::Unreachable, _) => {
            "this machine must reach the authority over HTTPS: look at name servers, firewalls and `acme.ca`"
        }
        (FailureKind::RateLimited, _) => "wait: the authority tells until when",
        (FailureKind::Authority, _) => "the authority has trouble: try again later",
        (FailureKind::Account, _) => "look at `acme.eab` and `acme.email`",
        (FailureKind::Validation, Some(ChallengeKind::Http01)) => {
            "the name's A and AAAA records must lead to this machine, and port 80 must be open from outside"
        }
        (FailureKind::Validation, Some(ChallengeKind::TlsAlpn01)) => {
            "the name's A and AAAA records must lead to this machine, and port 443 must be open from outside without \
             another TLS server in front"
        }
        (FailureKind::Validation, _) => {
            "the authority must see the TXT record of _acme-challenge at the name servers of the zone"
        }
        (FailureKind::Caa, _) => {
            "a CAA record of the name, or of a parent, must allow the authority"
        }
        (FailureKind::Rejected, _) => "the authority does not issue for this name or `profile`",
        (FailureKind::NoChallenge, _) => {
            "a listener must stand for port 80 or 443 (`ports`, `[site.\":80\"]`), or `dns` be set"
        }
        (FailureKind::Dns, _) => "look at the settings of `dns`",
        (FailureKind::Chain, _) => "the authority has issued something else: tell its operator",
        (FailureKind::Storage, _) => "the folder of `state` must be writable and have space",
        (FailureKind::Timeout, _) => "the authority is slow: try again later",
    }
}
