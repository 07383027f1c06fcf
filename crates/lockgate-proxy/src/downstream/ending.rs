//! How a client's connection ended, for its line in the log.

use lockgate_net::relay::{RelayOutcome, RelaySide};
use lockgate_net::stream::StreamError;
use lockgate_net::tls::session::SessionError;

use crate::access_log::{Cause, Side};
use crate::clock::Cut;
use crate::exchange::ExchangeFailure;

/// How a connection ended.
pub(super) struct Ending {
    pub(super) cause: Cause,
    pub(super) side: Side,
    pub(super) detail: Option<String>,
    /// Whether it is said even of a connection whose requests have their own lines.
    pub(super) loud: bool,
}

impl Ending {
    pub(super) fn new(cause: Cause, side: Side) -> Self {
        Self {
            cause,
            side,
            detail: None,
            loud: false,
        }
    }

    pub(super) fn because(cause: Cause, side: Side, detail: impl ToString) -> Self {
        Self {
            cause,
            side,
            detail: Some(detail.to_string()),
            loud: false,
        }
    }

    pub(super) fn loud(self) -> Self {
        Self { loud: true, ..self }
    }

    pub(super) fn of(failure: ExchangeFailure) -> Self {
        Self::because(failure.cause, failure.side, failure.detail)
    }
}

/// What a cut means for the log; `phase` is what it interrupted.
pub(super) fn cut_short(cut: Cut, phase: &str) -> Ending {
    match cut {
        Cut::Deadline | Cut::Slow => Ending::because(Cause::TooSlow, Side::Downstream, phase),
        Cut::EndpointDown => Ending::because(Cause::TooSlow, Side::Upstream, phase),
        Cut::Idle => Ending::new(Cause::Idle, Side::Lockgate),
        Cut::Lifetime => Ending::new(Cause::Lifetime, Side::Lockgate),
        Cut::Spent => Ending::because(Cause::Limit, Side::Lockgate, "bytes"),
        Cut::Drain => Ending::because(Cause::Drain, Side::Lockgate, phase),
        Cut::Memory => Ending::because(Cause::Limit, Side::Lockgate, "memory"),
        Cut::Crowded => Ending::because(Cause::Limit, Side::Lockgate, "idle while others waited"),
    }
}

pub(super) fn ending(end: RelayOutcome) -> Ending {
    match end {
        RelayOutcome::Finished(RelaySide::Downstream) => {
            Ending::new(Cause::ClientClosed, Side::Downstream)
        }
        RelayOutcome::Finished(RelaySide::Upstream) => {
            Ending::new(Cause::UpstreamClosed, Side::Upstream)
        }
        RelayOutcome::Failed(
            RelaySide::Downstream,
            StreamError::Tls(SessionError::Alerted(alert)),
        ) => Ending::because(
            Cause::ClientClosed,
            Side::Downstream,
            format_args!("alert {alert}"),
        ),
        RelayOutcome::Failed(RelaySide::Downstream, error) => {
            Ending::because(Cause::ClientReset, Side::Downstream, error)
        }
        RelayOutcome::Failed(RelaySide::Upstream, error) => {
            Ending::because(Cause::UpstreamReset, Side::Upstream, error)
        }
    }
}
