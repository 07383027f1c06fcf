//! Why a certificate was not obtained: for the log, the metrics, and the next try.

use std::fmt;
use std::io;
use std::time::SystemTime;

use instant_acme::{Error, Problem};

/// The kind of a failure: a closed list, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The authority's server cannot be reached, or its TLS cannot be verified.
    Unreachable,
    /// The authority wants fewer requests (RFC 8555 §6.6).
    RateLimited,
    /// The authority has an error of its own, or its responses make no sense.
    Authority,
    /// The account does not exist any more, or is refused.
    Account,
    /// The authority could not verify the name.
    Validation,
    /// A CAA record forbids the authority to issue (RFC 8659).
    Caa,
    /// The authority does not issue for this name.
    Rejected,
    /// No challenge can work: no listener stands for port 80 or 443, and there is no `dns`.
    NoChallenge,
    /// The TXT record could not be written, or was not seen.
    Dns,
    /// The issued chain is not for this name and key.
    Chain,
    /// A file could not be read or written.
    Storage,
    /// It took too long.
    Timeout,
}

/// Why a certificate was not obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The message.
    pub message: String,
    /// The time before which the authority wants no other try.
    pub retry_after: Option<SystemTime>,
}

/// There is no response.
#[derive(Debug)]
pub(crate) struct Unreachable(pub(crate) String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

impl FailureKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Unreachable,
        Self::RateLimited,
        Self::Authority,
        Self::Account,
        Self::Validation,
        Self::Caa,
        Self::Rejected,
        Self::NoChallenge,
        Self::Dns,
        Self::Chain,
        Self::Storage,
        Self::Timeout,
    ];

    /// The label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::RateLimited => "rate_limited",
            Self::Authority => "authority",
            Self::Account => "account",
            Self::Validation => "validation",
            Self::Caa => "caa",
            Self::Rejected => "rejected",
            Self::NoChallenge => "no_challenge",
            Self::Dns => "dns",
            Self::Chain => "chain",
            Self::Storage => "storage",
            Self::Timeout => "timeout",
        }
    }

    /// The kind with this label.
    pub fn of_str(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == label)
    }
}

impl Failure {
    /// A failure without a word of the authority about the next try.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: bounded(message.into()),
            retry_after: None,
        }
    }

    /// Whether the account is the reason: another one may be accepted.
    pub(crate) fn is_of_account(&self) -> bool {
        self.kind == FailureKind::Account
    }

    /// The failure that a problem document tells of (RFC 8555 §6.7).
    pub(crate) fn of_problem(problem: &Problem) -> Self {
        let name = problem.r#type.as_deref().unwrap_or_default();
        let name = name.strip_prefix(ERRORS).unwrap_or(name);
        let kind = match name {
            "rateLimited" => FailureKind::RateLimited,
            "accountDoesNotExist" | "externalAccountRequired" | "userActionRequired" => {
                FailureKind::Account
            }
            "caa" => FailureKind::Caa,
            "rejectedIdentifier" | "unsupportedIdentifier" | "invalidProfile" => {
                FailureKind::Rejected
            }
            "connection" | "dns" | "incorrectResponse" | "tls" | "unauthorized" | "compound" => {
                FailureKind::Validation
            }
            _ => FailureKind::Authority,
        };
        let mut message = problem
            .detail
            .clone()
            .unwrap_or_else(|| "no detail".to_owned());
        for part in &problem.subproblems {
            message += &format!("; {part}");
        }
        if !name.is_empty() {
            message += &format!(" ({name})");
        }
        Self::new(kind, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::of_problem(&problem),
            Error::Timeout(_) => {
                Self::new(FailureKind::Timeout, "the order is not done after a minute")
            }
            Error::Other(other) if other.is::<Unreachable>() => {
                Self::new(FailureKind::Unreachable, other.to_string())
            }
            Error::Json(error) => Self::new(
                FailureKind::Authority,
                format!("the response is no JSON of ACME: {error}"),
            ),
            error => Self::new(FailureKind::Authority, error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(FailureKind::Storage, error.to_string())
    }
}

/// Whether an error says that the nonce was used before: the request may be sent again.
pub(crate) fn is_bad_nonce(error: &Error) -> bool {
    is_problem(error, "badNonce")
}

/// Whether an error is this problem (RFC 8555 §6.7).
pub(crate) fn is_problem(error: &Error, name: &str) -> bool {
    let Error::Api(problem) = error else {
        return false;
    };
    let found = problem.r#type.as_deref();
    found.and_then(|found| found.strip_prefix(ERRORS)) == Some(name)
}

const ERRORS: &str = "urn:ietf:params:acme:error:";

/// The longest message, in bytes: an authority writes most of it.
const LONGEST: usize = 600;

fn bounded(mut message: String) -> String {
    message.retain(|char| !char.is_control());
    if message.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(cut.unwrap_or_default());
        message += " …";
    }
    message
}
