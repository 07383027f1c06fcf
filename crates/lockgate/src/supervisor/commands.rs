//! The commands of the admin socket.

use std::sync::Arc;

use tokio::sync::oneshot::{Receiver, Sender};

use super::RunningServer;
use super::reload::Reloads;
use super::stopping::LoopEnd;
use super::upgrade::Upgrades;
use crate::admin::{self, AdminCommand, AdminState, DrainAnswer, Reply, SteadyCommand, tell};
use crate::worker::{ConnectionFilter, ConnectionList, ConnectionQuery, WorkerMessage};

impl RunningServer {
    /// Carries out a command while the process serves.
    pub(super) fn obey(
        &self,
        command: AdminCommand,
        reloads: &mut Reloads,
        upgrades: &mut Upgrades,
    ) -> LoopEnd {
        match command {
            AdminCommand::Stop(reply) | AdminCommand::Drain(reply) => {
                tell(reply, DrainAnswer::Begins);
                return LoopEnd::Ends;
            }
            AdminCommand::Reload(request) => {
                self.begin_reload_beside(upgrades, reloads, request);
            }
            AdminCommand::Upgrade(request) => self.begin_upgrade(upgrades, reloads, request),
            AdminCommand::TakeOver(request) => self.begin_takeover(upgrades, reloads, request),
            AdminCommand::Confirm(reply) => tell(reply, self.confirm(reloads)),
            AdminCommand::Steady(command) => self.obey_steady(command),
        }
        LoopEnd::Continues
    }

    /// Carries out a command that is the same while the process serves and while it drains.
    pub(super) fn obey_steady(&self, command: SteadyCommand) {
        match command {
            SteadyCommand::List(query, reply) => self.list(&query, reply),
            SteadyCommand::CountEarlier(reply) => tell(reply, self.workers.count_earlier()),
            SteadyCommand::Close(filter, reply) => self.close(&filter, reply),
            SteadyCommand::Reopen(reply) => tell(reply, self.reopen()),
            SteadyCommand::CloseAdministered(reply) => {
                tell(reply, self.workers.close_administered());
            }
        }
    }

    /// Asks the workers for their connections.
    fn list(&self, query: &Arc<ConnectionQuery>, reply: Reply<Vec<Receiver<ConnectionList>>>) {
        let messages = (0..self.workers.count()).map(|_| {
            let query = Arc::clone(query);
            |answer: Sender<ConnectionList>| WorkerMessage::List(query, answer)
        });
        tell(reply, self.workers.ask(messages));
    }

    /// Has the workers close connections.
    fn close(&self, filter: &Arc<ConnectionFilter>, reply: Reply<Vec<Receiver<usize>>>) {
        let messages = (0..self.workers.count()).map(|_| {
            let filter = Arc::clone(filter);
            |answer: Sender<usize>| WorkerMessage::Close(filter, answer)
        });
        tell(reply, self.workers.ask(messages));
    }

    /// Opens the access logs again; returns their number.
    pub(super) fn reopen(&self) -> usize {
        let logs = self.generation.open_logs();
        let count = logs.map(|log| log.reopen()).count();
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
        listener.set_rights();
        let state = AdminState::new(
            Arc::clone(&self.exposition),
            Arc::clone(&self.readiness),
            self.workers.count(),
            (commands, listener.peers, self.admin_phase.subscribe()),
            self.kept.clone(),
        );
        let serving = tokio::spawn(async move {
            if let Err(error) = admin::serve(listener.socket, Arc::new(state)).await {
                tracing::error!(%error, "the admin socket is no longer served");
            }
        });
        self.admin_task = Some(serving.abort_handle());
    }
}
