//! How far the admin socket serves, while another process is about to take it over and afterwards.

use hyper::StatusCode;

use super::error::AdminError;

/// What clients of the admin socket may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AdminPhase {
    /// Everything.
    #[default]
    Open,
    /// An upgrade is under way: the new process would not know of changes.
    Upgrade,
    /// Another process has the socket. Connections that are open end.
    HandedOver,
}

impl AdminPhase {
    /// Refuses what this phase has no place for; `is_change` is for what an upgrade hands over.
    ///
    /// # Errors
    /// The answer of a request that must not be carried out.
    pub(super) fn admit(self, is_change: bool) -> Result<(), AdminError> {
        match self {
            Self::Open => Ok(()),
            Self::Upgrade if !is_change => Ok(()),
            Self::Upgrade => Err(AdminError::new(
                StatusCode::CONFLICT,
                "upgrade_under_way",
                "an upgrade is under way, and the new process would not know of this change",
                "try again once it has ended",
            )),
            Self::HandedOver => Err(AdminError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "stopping",
                "another process has taken over, and this one is about to end",
                "connect again",
            )),
        }
    }
}
