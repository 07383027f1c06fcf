//! The commands that the supervisor carries out, and their answers.

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// The most commands that wait for the supervisor: there are fewer connections.
const WAITING: usize = 64;

/// The way back to a client that waits for an answer.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// A command to the supervisor.
#[derive(Debug)]
pub(crate) enum AdminCommand {
    /// Drain, and then stop; while it drains already, stop at once, as a second TERM does.
    Stop(Reply<DrainAnswer>),
    /// Drain, and then stop; while it drains already, nothing.
    Drain(Reply<DrainAnswer>),
    /// Read again what can be read while running.
    Reload(Reply<ReloadAnswer>),
    /// Open the access logs again; the answer is their number.
    Reopen(Reply<usize>),
}

/// The answer to a stop or drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainAnswer {
    Begins,
    /// It has begun before.
    GoesOn,
    /// It ends at once: open connections are cut.
    Cut,
}

/// The answer to a reload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReloadAnswer {
    /// The files of certificates and users were read again; the configuration is the same.
    Same,
    /// The configuration differs: a restart would use it.
    Differs,
    /// The configuration has mistakes: the diagnostics of `check --json`.
    Mistakes(Value),
    /// The process drains.
    Draining,
}

/// The server's end of the channel.
pub(crate) type CommandSender = mpsc::Sender<AdminCommand>;
/// The supervisor's end of the channel.
pub(crate) type CommandReceiver = mpsc::Receiver<AdminCommand>;

/// A channel for commands.
pub(crate) fn command_channel() -> (CommandSender, CommandReceiver) {
    mpsc::channel(WAITING)
}
