//! An error of ACME (RFC 8555 §6.7), as a value and as JSON.

use serde_json::{Value, json};

/// Why a request, a validation or an order failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The status of the response.
    pub status: u16,
    /// The last part of the type: `urn:ietf:params:acme:error:…`.
    pub kind: String,
    /// What a person reads.
    pub detail: String,
    /// The seconds of Retry-After.
    pub retry_after: Option<u64>,
    /// The name that it is about: it then has a subproblem for this name (RFC 8555 §6.7.1).
    pub name: Option<String>,
}

impl Problem {
    /// One of this status and type.
    pub fn new(status: u16, kind: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind: kind.to_owned(),
            detail: detail.into(),
            retry_after: None,
            name: None,
        }
    }

    /// A request that is no proper one.
    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(400, "malformed", detail)
    }

    /// A request of somebody who has no right to it.
    pub(super) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(403, "unauthorized", detail)
    }

    pub(super) fn json(&self) -> Value {
        let kind = format!("urn:ietf:params:acme:error:{}", self.kind);
        let mut json = json!({ "type": kind, "detail": self.detail, "status": self.status });
        if let Some(name) = &self.name {
            json["subproblems"] = json!([{
                "type": kind,
                "detail": self.detail,
                "identifier": { "type": "dns", "value": name },
            }]);
        }
        json
    }
}
