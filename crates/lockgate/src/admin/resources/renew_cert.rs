//! `/v1/certs/renew`: the certificates of a name are obtained anew.

use hyper::StatusCode;
use serde_json::json;

use super::super::body::text;
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};

/// Begins a renewal before it is due. `/v1/certs` shows its result.
pub(super) async fn renew(request: AdminRequest) -> AdminResult {
    let body = request.object(&["name"])?;
    let name = text(&body, "name")?.to_ascii_lowercase();
    let begun = request.state.exposition().cert_keeper().renew(&name);
    if begun == 0 {
        return Err(unknown_cert(&name));
    }
    tracing::info!(name, "the certificate is to be renewed now");
    Ok(json!({ "name": name, "renewals": begun }))
}

/// The error for a name for which no certificate is obtained.
pub(super) fn unknown_cert(name: &str) -> AdminError {
    AdminError::new(
        StatusCode::NOT_FOUND,
        "unknown_name",
        format!("Lockgate obtains no certificate for {name:?}"),
        "`lockgate cert list` shows the names: those of sites on TLS that no file covers, where the \
         configuration has `[acme]`",
    )
}
