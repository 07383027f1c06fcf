//! How a client's connection ended, for its line in the log.

use lockgate_limits::clock::Cut;
use lockgate_net::relay::{RelayOutcome, RelaySide};
use lockgate_net::stream::StreamError;
use lockgate_net::tls::session::SessionError;

use crate::access_log::{Cause, CauseSide};
use crate::exchange::{CLOSED, ExchangeFailure};

/// The end of a connection: its cause, the side, and the detail.
pub(super) struct Termination {
    pub(super) cause: Cause,
    pub(super) side: CauseSide,
    pub(super) detail: Option<String>,
    /// Whether it is logged even if the connection's requests have their own lines.
    pub(super) is_always_logged: bool,
}

impl Termination {
    pub(super) fn new(cause: Cause, side: CauseSide) -> Self {
        Self {
            cause,
            side,
            detail: None,
            is_always_logged: false,
        }
    }

    pub(super) fn because(cause: Cause, side: CauseSide, detail: impl ToString) -> Self {
        Self {
            cause,
            side,
            detail: Some(detail.to_string()),
            is_always_logged: false,
        }
    }

    /// The client has closed its connection.
    pub(super) fn client_closed() -> Self {
        Self::new(Cause::ClientClosed, CauseSide::Downstream)
    }

    /// The client's connection has broken.
    pub(super) fn client_reset(detail: impl ToString) -> Self {
        Self::because(Cause::ClientReset, CauseSide::Downstream, detail)
    }

    pub(super) fn handshake_failed(error: impl ToString) -> Self {
        Self::because(Cause::HandshakeFailed, CauseSide::Downstream, error)
    }

    pub(super) fn connect_failed(error: impl ToString) -> Self {
        Self::because(Cause::ConnectFailed, CauseSide::Upstream, error)
    }

    /// Nothing has moved for as long as is allowed.
    pub(super) fn idle() -> Self {
        Self::new(Cause::Idle, CauseSide::Lockgate)
    }

    /// A limit of ours was reached.
    pub(super) fn limit(detail: impl ToString) -> Self {
        Self::because(Cause::Limit, CauseSide::Lockgate, detail)
    }

    pub(super) fn internal(error: impl ToString) -> Self {
        Self::because(Cause::Internal, CauseSide::Lockgate, error)
    }

    pub(super) fn always_logged(self) -> Self {
        Self {
            is_always_logged: true,
            ..self
        }
    }

    pub(super) fn of(failure: ExchangeFailure) -> Self {
        Self::because(failure.cause, failure.side, failure.detail)
    }
}

/// The termination by a cut; `phase` is the interrupted one.
pub(super) fn termination_of_cut(cut: Cut, phase: &str) -> Termination {
    match cut {
        Cut::Deadline | Cut::Slow => {
            Termination::because(Cause::TooSlow, CauseSide::Downstream, phase)
        }
        Cut::EndpointDown => Termination::because(Cause::TooSlow, CauseSide::Upstream, phase),
        Cut::Idle => Termination::idle(),
        Cut::Lifetime => Termination::new(Cause::Lifetime, CauseSide::Lockgate),
        Cut::Spent => Termination::limit("bytes"),
        Cut::Drain => Termination::because(Cause::Drain, CauseSide::Lockgate, phase),
        Cut::Closed => {
            Termination::because(Cause::Drain, CauseSide::Lockgate, CLOSED).always_logged()
        }
        Cut::Memory => Termination::limit("memory"),
        Cut::Crowded => Termination::limit("idle while others waited"),
    }
}

pub(super) fn termination_of_relay(end: RelayOutcome) -> Termination {
    match end {
        RelayOutcome::Finished(RelaySide::Downstream) => Termination::client_closed(),
        RelayOutcome::Finished(RelaySide::Upstream) => {
            Termination::new(Cause::UpstreamClosed, CauseSide::Upstream)
        }
        RelayOutcome::Failed(
            RelaySide::Downstream,
            StreamError::Tls(SessionError::Alerted(alert)),
        ) => Termination::because(
            Cause::ClientClosed,
            CauseSide::Downstream,
            format_args!("alert {alert}"),
        ),
        RelayOutcome::Failed(RelaySide::Downstream, error) => Termination::client_reset(error),
        RelayOutcome::Failed(RelaySide::Upstream, error) => {
            Termination::because(Cause::UpstreamReset, CauseSide::Upstream, error)
        }
    }
}
