//! The commands that the supervisor carries out, and their answers.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockgate_config::Report;
use rustix::process::Pid;
use tokio::sync::{mpsc, oneshot};

use crate::endpoint_changes::EndpointChanges;
use crate::handover::UpgradeFailure;
use crate::worker::{ConnectionFilter, ConnectionList, ConnectionQuery};

/// The most commands that wait for the supervisor: there are fewer connections.
const WAITING: usize = 64;

/// The way back to a client that waits for an answer.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// Answers a client that waits, unless it has left.
pub(crate) fn tell<T>(reply: Reply<T>, answer: T) {
    let _ = reply.send(answer);
}

/// A command to the supervisor.
#[derive(Debug)]
pub(crate) enum AdminCommand {
    /// Drain, and then stop; while it drains already, stop at once, as a second TERM does.
    Stop(Reply<DrainAnswer>),
    /// Drain, and then stop; while it drains already, nothing.
    Drain(Reply<DrainAnswer>),
    /// Take over a configuration.
    Reload(ReloadRequest),
    /// Start a new program that takes over.
    Upgrade(UpgradeRequest),
    /// Hand over to a process that asks for it.
    TakeOver(TakeoverRequest),
    /// Confirm the configuration that runs; the answer is whether that was to be done.
    Confirm(Reply<bool>),
    /// The same whether the process serves or drains.
    Steady(SteadyCommand),
}

/// A command that is carried out in the same way while the process serves and while it drains.
#[derive(Debug)]
pub(crate) enum SteadyCommand {
    /// List connections; the answer is what each worker will answer.
    List(
        Arc<ConnectionQuery>,
        Reply<Vec<oneshot::Receiver<ConnectionList>>>,
    ),
    /// Count the connections that are held to earlier generations; the workers will answer.
    CountEarlier(Reply<Vec<oneshot::Receiver<usize>>>),
    /// Close connections; the workers will answer with their numbers.
    Close(Arc<ConnectionFilter>, Reply<Vec<oneshot::Receiver<usize>>>),
    /// Open the access logs again; the answer is their number.
    Reopen(Reply<usize>),
    /// Have the workers close idle connections to endpoints that were taken out of their pools; the
    /// answer is those of the workers.
    CloseAdministered(Reply<Vec<oneshot::Receiver<()>>>),
}

impl From<SteadyCommand> for AdminCommand {
    fn from(command: SteadyCommand) -> Self {
        Self::Steady(command)
    }
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

/// The configuration that a reload takes over.
#[derive(Debug)]
pub(crate) enum ReloadSource {
    /// The file.
    File,
    /// This text.
    Text(String),
    /// The one that ran before the present one.
    Earlier,
    /// The one that runs, with these changes of its pools, which were made for the generation with
    /// this number.
    Running(EndpointChanges, u64),
}

/// A request for a reload.
#[derive(Debug)]
pub(crate) struct ReloadRequest {
    pub(crate) source: ReloadSource,
    /// Whether it is only tried: nothing changes.
    pub(crate) dry_run: bool,
    /// The time within which it must be confirmed, if it must.
    pub(crate) confirm: Option<Duration>,
    /// Where the answer goes, if it is waited for.
    pub(crate) reply: Option<Reply<ReloadOutcome>>,
}

/// The result of a reload.
#[derive(Debug, Clone)]
pub(crate) enum ReloadOutcome {
    /// The configuration runs, in the generation with this number, or would run after that one; it
    /// may have warnings.
    Done(u64, Arc<Report>),
    /// It does not, and nothing has changed.
    Failed(Arc<Report>),
    /// It was not looked at, and may be asked for again.
    Refused(&'static str),
    /// It was not looked at, since another one is under way.
    UnderWay,
    /// It was made for a generation that runs no longer: to be made for the present one.
    Overtaken,
}

/// A request for an upgrade.
#[derive(Debug)]
pub(crate) struct UpgradeRequest {
    /// The new program; `None` is the file of the present one.
    pub(crate) program: Option<PathBuf>,
    /// The time within which it must be ready.
    pub(crate) limit: Duration,
    /// Where the answer goes, if it is waited for.
    pub(crate) reply: Option<Reply<UpgradeOutcome>>,
}

/// The result of an upgrade.
#[derive(Debug, Clone)]
pub(crate) enum UpgradeOutcome {
    /// The process with this number serves, and this one drains.
    Serving(u32),
    /// The new program does not serve, and nothing has changed.
    Failed(UpgradeFailure),
    /// It was not started; with the cure.
    Refused(&'static str, &'static str),
}

/// A request for a takeover.
#[derive(Debug)]
pub(crate) struct TakeoverRequest {
    /// The process that asks, if it can be seen from here.
    pub(crate) pid: Option<Pid>,
    pub(crate) reply: Reply<TakeoverOutcome>,
}

/// The begin of a takeover.
#[derive(Debug)]
pub(crate) enum TakeoverOutcome {
    /// The end of a socket pair for the process that asks: it gets the offer over that.
    Begins(OwnedFd),
    /// It has not begun; with the cure.
    Refused(&'static str, &'static str),
    /// The system has no descriptor left, or the like.
    Failed(String),
}

/// The server's end of the channel.
pub(crate) type CommandSender = mpsc::Sender<AdminCommand>;
/// The supervisor's end of the channel.
pub(crate) type CommandReceiver = mpsc::Receiver<AdminCommand>;

/// A channel for commands.
pub(crate) fn command_channel() -> (CommandSender, CommandReceiver) {
    mpsc::channel(WAITING)
}
