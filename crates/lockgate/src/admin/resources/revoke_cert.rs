//! `/v1/certs/revoke`: the authority revokes the certificates of a name, and others are obtained.

use std::time::Duration;

use hyper::StatusCode;
use lockgate_certs::{RevocationError, RevocationWord, RevokedCert};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::body::{optional_text, text, unusable};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};
use super::renew_cert::unknown_cert;

/// The time within which the authority must have answered: an order that is under way ends before.
const LIMIT: Duration = Duration::from_secs(180);

/// Revokes the certificates of `name`, with `reason` as RFC 5280 names it, and waits for the answer
/// of the authority.
pub(super) async fn revoke(request: AdminRequest) -> AdminResult {
    let body = request.object(&["name", "reason"])?;
    let name = text(&body, "name")?.to_ascii_lowercase();
    let word = match optional_text(&body, "reason")? {
        None => RevocationWord::Unspecified,
        Some(word) => RevocationWord::of_str(word).ok_or_else(|| {
            let words = RevocationWord::ALL.map(RevocationWord::as_str);
            unusable(
                format!("there is no reason {word:?}"),
                &format!("there are {}", words.join(", ")),
            )
        })?,
    };
    let exposition = request.state.exposition();
    let answers = exposition.cert_keeper().revoke(&name, word);
    if answers.is_empty() {
        return Err(unknown_cert(&name));
    }
    let (mut revoked, mut failed) = (Vec::new(), None);
    for answer in answers {
        match timeout(LIMIT, answer).await {
            Ok(Ok(Ok(cert))) => revoked.push(shown(&cert)),
            // One kind of key may be awaited still.
            Ok(Ok(Err(error @ RevocationError::NoCertificate(_)))) => {
                failed = failed.or(Some(of_error(&error)));
            }
            Ok(Ok(Err(error))) => failed = Some(of_error(&error)),
            Ok(Err(_)) | Err(_) => failed = Some(no_answer()),
        }
    }
    let is_done = !revoked.is_empty();
    match failed {
        Some(error) if !is_done || error.status != StatusCode::CONFLICT => {
            Err(error.with("revoked", Value::Array(revoked)))
        }
        _ => Ok(json!({ "name": name, "reason": word.as_str(), "revoked": revoked })),
    }
}

fn shown(cert: &RevokedCert) -> Value {
    json!({
        "key": cert.id.key.name(),
        "directory": cert.directory,
        "file_removed": cert.removed,
    })
}

fn of_error(error: &RevocationError) -> AdminError {
    let (status, code, cure) = match error {
        RevocationError::NoCertificate(_) => (StatusCode::CONFLICT, "no_certificate", ""),
        RevocationError::OtherAuthority { .. } => (
            StatusCode::CONFLICT,
            "other_authority",
            "revoke it with the program that has obtained it, or write its directory into \
             `acme.directory` again",
        ),
        RevocationError::Refused { .. } => (StatusCode::BAD_GATEWAY, "revocation_refused", ""),
    };
    AdminError::new(status, code, error.to_string(), cure)
}

fn no_answer() -> AdminError {
    AdminError::new(
        StatusCode::GATEWAY_TIMEOUT,
        "no_answer",
        "the revocation has not ended in time",
        "`lockgate cert show NAME` tells what is under way; another Lockgate on the same `state` may obtain the \
         certificates",
    )
}
