//! The orderly end: the process drains as a load balancer in front of it expects, cuts what has not
//! ended, and writes the last lines of its logs.

use std::process::ExitCode;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lockgate_limits::clock::TICK;
use tokio::time::sleep;

use super::{RunningServer, UNCLEAN, ticks};
use crate::admin::{
    AdminCommand, DrainAnswer, ReloadOutcome, TakeoverOutcome, UpgradeOutcome, tell,
};
use crate::log_writer;
use crate::metrics_server::Phase;
use crate::signals::{SignalAction, Signals};
use crate::socket_file::SocketFile;
use crate::systemd;
use crate::worker::WorkerOrder;

/// The time that a disk which does not hang needs to write a log.
const DISK_TIME: Duration = Duration::from_millis(200);

/// The time for closing connections that were cut, and for writing the log.
pub(super) const LAST_MOMENTS: Duration = Duration::from_secs(3);

/// What a command changes in the supervisor's loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopEnd {
    Continues,
    /// The loop is over: the drain begins, or is cut short.
    Ends,
}

/// Why the wait for the last connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// Every connection has ended.
    Clean,
    /// A worker had to cut, or failed.
    Unclean,
    Deadline,
    Signal,
}

impl RunningServer {
    /// Handles a signal, while the process drains, that does not cut it short.
    pub(super) fn handle_draining(&self, action: SignalAction) {
        match action {
            SignalAction::Stop => {}
            SignalAction::Reload => {
                tracing::warn!(
                    "the process is stopping: certificates are reloaded, but not the configuration"
                );
                self.reread(&[]);
            }
            SignalAction::Reopen => {
                self.reopen();
            }
            SignalAction::Upgrade => {
                tracing::warn!("the process is stopping: there is nothing to upgrade");
            }
        }
    }

    /// Carries out a command while the process drains.
    pub(super) fn obey_draining(&self, command: AdminCommand) -> LoopEnd {
        match command {
            AdminCommand::Stop(reply) => {
                tell(reply, DrainAnswer::Cut);
                return LoopEnd::Ends;
            }
            AdminCommand::Drain(reply) => tell(reply, DrainAnswer::GoesOn),
            AdminCommand::Reload(request) => {
                if let Some(reply) = request.reply {
                    tell(reply, ReloadOutcome::Refused("the process drains"));
                }
            }
            AdminCommand::Upgrade(request) => {
                if let Some(reply) = request.reply {
                    tell(reply, UpgradeOutcome::Refused("the process drains", ""));
                }
            }
            AdminCommand::TakeOver(request) => {
                let cure = "start without --takeover once it has ended";
                let refused = TakeoverOutcome::Refused("the process drains", cure);
                tell(request.reply, refused);
            }
            AdminCommand::Confirm(reply) => tell(reply, false),
            AdminCommand::Steady(command) => self.obey_steady(command),
        }
        LoopEnd::Continues
    }

    /// Stops as a load balancer in front expects: reports not ready, waits, accepts the backlog,
    /// and lets connections finish. An urgent one cuts them.
    pub(super) async fn stop(mut self, mut signals: Signals, is_urgent: bool) -> ExitCode {
        let drain = self.generation.config.drain;
        self.readiness.enter(Phase::Draining);
        systemd::stopping("draining");
        tracing::info!(delay = ?drain.delay, deadline = ?drain.deadline, "draining");
        let mut end = WaitEnd::Signal;
        if !is_urgent && self.pause(drain.delay, &mut signals).await {
            self.release_sockets();
            self.workers.order(WorkerOrder::Stop);
            end = self.wait(Some(drain.deadline), &mut signals).await;
        }
        self.end(end, &mut signals).await
    }

    /// Cuts what has not ended, and writes the last lines of the logs.
    pub(super) async fn end(&mut self, end: WaitEnd, signals: &mut Signals) -> ExitCode {
        let clean = end == WaitEnd::Clean;
        if !clean {
            self.release_sockets();
            self.workers.order(WorkerOrder::Cut);
            let until = Instant::now() + LAST_MOMENTS;
            let left = || until.saturating_duration_since(Instant::now());
            // A further stop ends nothing sooner.
            while self.wait(Some(left()), signals).await == WaitEnd::Signal {}
            if self.workers.left > 0 {
                tracing::error!("some connections did not end although they were cut");
            }
        }
        self.socket_files.iter().for_each(SocketFile::remove);
        self.workers
            .threads
            .drain(..)
            .filter(JoinHandle::is_finished)
            .for_each(|thread| drop(thread.join()));
        // With what the last connections have counted.
        tokio::join!(self.exporter.finish(), self.span_exporter.finish());
        // A log that hangs uses up the time of all logs, except the time of a disk that does not.
        let last = Instant::now() + LAST_MOMENTS;
        for log in self.generation.open_logs() {
            let left = last
                .saturating_duration_since(Instant::now())
                .max(DISK_TIME);
            if log.finish(left) == log_writer::WriterEnd::GivenUp {
                tracing::warn!("the last lines of an access log could not be written");
            }
        }
        tracing::info!(clean, "stopped");
        if clean {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(UNCLEAN)
        }
    }

    /// Waits for `delay`; false when a second signal cuts that short.
    async fn pause(&mut self, delay: Duration, signals: &mut Signals) -> bool {
        let mut tick = ticks(TICK);
        let mut over = std::pin::pin!(sleep(delay));
        loop {
            tokio::select! {
                () = &mut over => return true,
                _ = tick.tick() => {
                    self.look_at_memory();
                    systemd::extend_timeout(TICK * 20);
                }
                action = signals.next() => match action {
                    SignalAction::Stop => return false,
                    action => self.handle_draining(action),
                },
                Some(command) = self.commands.recv() => {
                    if self.obey_draining(command) == LoopEnd::Ends {
                        return false;
                    }
                }
            }
        }
    }

    /// Waits until every worker has ended, `deadline` passes, or another signal comes.
    pub(super) async fn wait(
        &mut self,
        deadline: Option<Duration>,
        signals: &mut Signals,
    ) -> WaitEnd {
        let mut tick = ticks(TICK);
        let mut over = std::pin::pin!(sleep(deadline.unwrap_or(Duration::MAX)));
        let mut clean = true;
        while self.workers.left > 0 {
            tokio::select! {
                () = &mut over => return WaitEnd::Deadline,
                _ = tick.tick() => {
                    self.monitor.look();
                    self.workers.nudge();
                    self.cut_earlier();
                    systemd::extend_timeout(TICK * 20);
                }
                ended = self.workers.ended.recv() => {
                    clean &= matches!(ended, Some(Ok(0)));
                    self.workers.left -= 1;
                }
                action = signals.next() => match action {
                    SignalAction::Stop => return WaitEnd::Signal,
                    action => self.handle_draining(action),
                },
                Some(command) = self.commands.recv() => {
                    if self.obey_draining(command) == LoopEnd::Ends {
                        return WaitEnd::Signal;
                    }
                }
            }
        }
        match clean {
            true => WaitEnd::Clean,
            false => WaitEnd::Unclean,
        }
    }
}
