//! What can go wrong at the authority: kinds of faults, and the plan of when they come.
//!
//! Knows no HTTP: `answer` carries a fault out.

use super::problem::Problem;

/// What of an authority a request is for (RFC 8555 §7.1; RFC 9773 §4).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Resource {
    /// The directory.
    Directory,
    /// A fresh nonce.
    NewNonce,
    /// An account is made, or found.
    NewAccount,
    /// An account is read or changed.
    Account,
    /// An order is made.
    NewOrder,
    /// An order is read.
    Order,
    /// An authorization is read or given up.
    Authorization,
    /// A challenge is to be validated, or is read.
    Challenge,
    /// An order gets its request for a certificate.
    Finalize,
    /// A certificate is downloaded.
    Certificate,
    /// A certificate is revoked.
    RevokeCert,
    /// When a certificate should be renewed.
    RenewalInfo,
}

/// What happens to a request instead of its answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection is closed without an answer.
    Close,
    /// No answer until [`crate::AcmeServer::release`]; then the true one.
    Hold,
    /// An error, as RFC 8555 §6.7 writes one.
    Problem(Problem),
    /// The status 200 and bytes that are neither JSON nor PEM.
    Garbage,
    /// The status 200 and a body that does not end before the peer closes.
    Endless,
    /// For [`Resource::Challenge`]: the authorization becomes invalid for this reason, and nothing
    /// connects. For [`Resource::Finalize`]: the order becomes invalid.
    Invalid(Problem),
    /// For [`Resource::Challenge`]: nothing connects until [`crate::AcmeServer::release`]. For
    /// [`Resource::Finalize`]: the order stays `processing` until then.
    Stay,
    /// For [`Resource::Certificate`]: another chain than the order's.
    WrongChain(WrongChain),
}

/// A chain that is not the right one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WrongChain {
    /// A certificate for the right names and another key.
    OtherKey,
    /// A certificate for the right key and the name `wrong.example`.
    OtherName,
    /// A certificate for the right names and key that was valid in the year 2020 only.
    Expired,
    /// The right certificate without the one that issued it.
    Alone,
    /// No certificate.
    Empty,
}

impl Fault {
    /// An error of this status and type, the last part of `urn:ietf:params:acme:error:…`.
    pub fn problem(status: u16, kind: &str) -> Self {
        Self::Problem(Problem::new(status, kind, "the test wants it so"))
    }

    /// 429, to be tried again after so many seconds.
    pub fn rate_limited(seconds: u64) -> Self {
        let mut problem = Problem::new(429, "rateLimited", "too many requests");
        problem.retry_after = Some(seconds);
        Self::Problem(problem)
    }

    /// The nonce is refused (RFC 8555 §6.5).
    pub fn bad_nonce() -> Self {
        Self::problem(400, "badNonce")
    }

    /// The order or the authorization becomes invalid for a reason of this type.
    pub fn invalid(kind: &str) -> Self {
        Self::Invalid(Problem::new(403, kind, "the test wants it so"))
    }

    /// Whether a request for `resource` can end like this.
    pub(super) fn fits(&self, resource: Resource) -> bool {
        match self {
            Self::Invalid(_) | Self::Stay => {
                matches!(resource, Resource::Challenge | Resource::Finalize)
            }
            Self::WrongChain(_) => resource == Resource::Certificate,
            _ => true,
        }
    }
}

/// A fault that is to come.
struct Planned {
    resource: Resource,
    name: Option<String>,
    left: Option<usize>,
    fault: Fault,
}

/// All faults that are to come; the oldest that fits a request is taken.
#[derive(Default)]
pub(super) struct FaultPlan(Vec<Planned>);

impl FaultPlan {
    /// Adds one, for requests about `name` or about any, for the next `times` or for ever.
    pub(super) fn add(
        &mut self,
        resource: Resource,
        name: Option<&str>,
        times: Option<usize>,
        fault: Fault,
    ) {
        assert!(fault.fits(resource), "{resource:?} has no such fault");
        self.0.push(Planned {
            resource,
            name: name.map(str::to_owned),
            left: times,
            fault,
        });
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault of this request, which is one less to come.
    pub(super) fn take(&mut self, resource: Resource, names: &[String]) -> Option<Fault> {
        let at = self.0.iter().position(|planned| {
            planned.resource == resource
                && planned.left != Some(0)
                && planned
                    .name
                    .as_ref()
                    .is_none_or(|name| names.contains(name))
        })?;
        let planned = &mut self.0[at];
        if let Some(left) = &mut planned.left {
            *left -= 1;
        }
        Some(planned.fault.clone())
    }
}
