//! `/v1/traces`: tokens for requests that are followed, and what became of these.

use hyper::StatusCode;
use lockgate_proxy::request_traces::RequestTraces;
use serde_json::{Value, json};

use super::super::body::text;
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};
use super::super::traces::TraceState;

/// A token for one request.
pub(super) async fn begin(request: AdminRequest) -> AdminResult {
    request.object(&[])?;
    let token = request.state.begin_trace().ok_or_else(|| {
        AdminError::new(
            StatusCode::CONFLICT,
            "too_many_traces",
            "too many requests are followed",
            "wait a minute",
        )
    })?;
    Ok(json!({
        "token": token,
        "field": format!("Lockgate-Trace: {token}"),
        "seconds": RequestTraces::VALID_SECONDS,
    }))
}

/// Waits for the request with a token, and says what became of it.
pub(super) async fn wait(request: AdminRequest) -> AdminResult {
    let body = request.object(&["token"])?;
    let token = text(&body, "token")?;
    match request.state.traces.result(token).await {
        Some(TraceState::Done(trace)) => Ok(Value::clone(&trace)),
        Some(TraceState::Expired) => Err(AdminError::new(
            StatusCode::GONE,
            "trace_expired",
            "no request has brought the token in time",
            "ask for another token",
        )),
        Some(TraceState::Waiting) | None => Err(AdminError::new(
            StatusCode::NOT_FOUND,
            "unknown_trace",
            "no request is followed by this token",
            "ask for a token with POST /v1/traces",
        )),
    }
}
