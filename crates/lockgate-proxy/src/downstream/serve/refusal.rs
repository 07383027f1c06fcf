//! Why a request gets an error instead of what it asks for, before anything was done for it.

use std::borrow::Cow;
use std::fmt::Display;

use lockgate_http::h1::framing::FramingError;

use crate::error_response::{Advice, HttpFault};
use crate::site::MaintenanceResponse;

/// A refusal, and what goes with it.
pub(super) struct Refusal<'a> {
    pub(super) fault: HttpFault,
    /// For the log.
    pub(super) detail: Cow<'static, str>,
    /// The status, where it is not the fault's own.
    pub(super) status: Option<u16>,
    pub(super) advice: Advice<'a>,
    /// Methods for [`Advice::Allow`].
    pub(super) allow: String,
}

impl Refusal<'_> {
    pub(super) fn of(fault: HttpFault) -> Self {
        Self::because(fault, "")
    }

    /// A request that cannot be read in one way.
    pub(super) fn malformed(error: &dyn Display) -> Self {
        Self::because(HttpFault::Malformed, error.to_string())
    }

    /// A body without a length that can be read in one way.
    pub(super) fn of_framing(error: FramingError) -> Self {
        if error.status() == 501 {
            Self::because(HttpFault::NotImplemented, error.to_string())
        } else {
            Self::malformed(&error)
        }
    }

    /// A host with other TLS settings than the connection's.
    pub(super) fn of_other_tls() -> Self {
        let why = "the host has other TLS settings than this connection";
        Self::because(HttpFault::Misdirected, why)
    }

    /// A method that the resource does not have; those that it has are `allow`.
    pub(super) fn method_not_allowed(allow: impl Into<String>) -> Self {
        Self {
            allow: allow.into(),
            ..Self::of(HttpFault::MethodNotAllowed)
        }
    }

    /// A request of a site that is in maintenance.
    pub(super) fn for_maintenance(response: MaintenanceResponse) -> Self {
        Self {
            status: Some(response.status),
            advice: Advice::RetryAfter(response.retry_after),
            ..Self::of(HttpFault::Maintenance)
        }
    }

    pub(super) fn because(fault: HttpFault, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fault,
            detail: detail.into(),
            status: None,
            advice: Advice::None,
            allow: String::new(),
        }
    }
}
