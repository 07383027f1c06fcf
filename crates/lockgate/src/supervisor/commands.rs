//! The commands of the admin socket, and the checks of the configuration's file that they and HUP
//! ask for.

use std::sync::Arc;

use lockgate_proxy::downstream::ListenerService;
use tokio::task::JoinSet;

use crate::admin::{
    self, AdminCommand, AdminState, DrainAnswer, ListenerAddress, ReloadAnswer, Reply,
};
use crate::assemble::PlannedListener;
use crate::log_writer::LogWriter;
use crate::start::RunningServer;
use crate::start_steps::Logs;
use crate::systemd;

/// What a command changes in the supervisor's loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopEnd {
    Continues,
    /// The loop is over: the drain begins, or is cut short.
    Ends,
}

/// The checks of the file: one at a time, and one more after it when another was asked for
/// meanwhile.
#[derive(Default)]
pub(super) struct FileChecks {
    running: JoinSet<()>,
    again: bool,
    /// Those that wait for the running check, and for the one after it.
    waiting: Vec<Reply<ReloadAnswer>>,
    next: Vec<Reply<ReloadAnswer>>,
}

impl FileChecks {
    /// The end of the running check; never without one.
    pub(super) async fn ended(&mut self) {
        if self.running.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl RunningServer {
    /// Reloads what can be read again, and checks the file.
    pub(super) fn reload_and_check(
        &self,
        checks: &mut FileChecks,
        reply: Option<Reply<ReloadAnswer>>,
    ) {
        systemd::reloading();
        tracing::info!("certificates are reloaded");
        self.reload(&[]);
        if !checks.running.is_empty() {
            checks.again = true;
            checks.next.extend(reply);
            return;
        }
        checks.waiting.extend(reply);
        self.check_file(checks);
    }

    /// Reports a check that has ended, and begins the one that was asked for meanwhile.
    pub(super) fn checked(&self, checks: &mut FileChecks) {
        self.answer(checks);
        if std::mem::take(&mut checks.again) {
            checks.waiting = std::mem::take(&mut checks.next);
            self.check_file(checks);
        } else {
            systemd::ready(&self.status());
        }
    }

    /// Checks the configuration file in another thread.
    fn check_file(&self, checks: &mut FileChecks) {
        match self.file.clone() {
            Some(file) => {
                checks.running.spawn_blocking(move || file.check());
            }
            None => {
                self.answer(checks);
                systemd::ready(&self.status());
            }
        }
    }

    fn answer(&self, checks: &mut FileChecks) {
        let last = self.file.as_ref().map(|file| file.last_check());
        let answer = match last.as_deref() {
            Some(last) if last.errors > 0 => ReloadAnswer::Mistakes(last.diagnostics.clone()),
            Some(last) if last.differs => ReloadAnswer::Differs,
            _ => ReloadAnswer::Same,
        };
        for reply in checks.waiting.drain(..) {
            tell(reply, answer.clone());
        }
    }

    /// Carries out a command while the process serves.
    pub(super) fn obey(&self, command: AdminCommand, checks: &mut FileChecks) -> LoopEnd {
        match command {
            AdminCommand::Stop(reply) | AdminCommand::Drain(reply) => {
                tell(reply, DrainAnswer::Begins);
                return LoopEnd::Ends;
            }
            AdminCommand::Reload(reply) => self.reload_and_check(checks, Some(reply)),
            AdminCommand::Reopen(reply) => tell(reply, self.reopen()),
        }
        LoopEnd::Continues
    }

    /// Carries out a command while the process drains.
    pub(super) fn obey_draining(&self, command: AdminCommand) -> LoopEnd {
        match command {
            AdminCommand::Stop(reply) => {
                tell(reply, DrainAnswer::Cut);
                return LoopEnd::Ends;
            }
            AdminCommand::Drain(reply) => tell(reply, DrainAnswer::GoesOn),
            AdminCommand::Reload(reply) => tell(reply, ReloadAnswer::Draining),
            AdminCommand::Reopen(reply) => tell(reply, self.reopen()),
        }
        LoopEnd::Continues
    }

    /// Opens the access logs again; returns their number.
    pub(super) fn reopen(&self) -> usize {
        let logs = self.logs.iter().flat_map(Logs::iter);
        let count = logs.map(LogWriter::reopen).count();
        if count == 0 {
            tracing::info!("there is no access log to reopen");
        }
        count
    }

    /// Serves the admin socket, if there is one.
    pub(super) fn serve_admin(&mut self) {
        let Some((listener, commands)) = self.admin.take() else {
            return;
        };
        let listeners = self.assembly.listeners.iter().zip(&self.bound);
        let listeners = listeners.map(|(planned, address)| ListenerAddress {
            address: address.to_string(),
            kind: kind(planned),
        });
        let state = AdminState::new(
            Arc::clone(&self.exposition),
            Arc::clone(&self.readiness),
            listeners.collect(),
            self.tickers.len(),
            (commands, listener.peers),
        );
        tokio::spawn(async move {
            if let Err(error) = admin::serve(listener.socket, Arc::new(state)).await {
                tracing::error!(%error, "the admin socket is no longer served");
            }
        });
    }
}

/// The kind of a listener, in a word.
pub(super) fn kind(planned: &PlannedListener) -> &'static str {
    match (&planned.listener.service, &planned.listener.tls) {
        (ListenerService::Http(_), Some(_)) => "https",
        (ListenerService::Http(_), None) => "http",
        (ListenerService::Relay(_), Some(_)) | (ListenerService::Sni(_), _) => "tls",
        (ListenerService::Relay(_), None) => "tcp",
    }
}

fn tell<T>(reply: Reply<T>, answer: T) {
    // The client may have gone.
    let _ = reply.send(answer);
}
