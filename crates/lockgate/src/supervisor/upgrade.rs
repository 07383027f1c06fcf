//! An upgrade: another program takes over the listening sockets, and this process finishes what it
//! has begun. Until the other one serves, nothing changes here.
//!
//! One upgrade runs at a time, and none beside a reload: both would change what is served.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::listen::ListenAddress;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::reload::Reloads;
use super::{LAST_MOMENTS, RunningServer, WaitEnd};
use crate::admin::{ReloadOutcome, ReloadRequest, Reply, UpgradeOutcome, UpgradeRequest, tell};
use crate::assemble;
use crate::handover::{
    HandedOver, Handover, HandoverOffer, NewProcess, OfferedAddress, OfferedListener,
    ProgramKiller, UpgradeFailure,
};
use crate::metrics_server::Phase;
use crate::signals::Signals;
use crate::systemd;
use crate::worker::{SocketId, WorkerOrder};

/// The time within which a new program must serve that a signal has asked for.
const LIMIT: Duration = Duration::from_secs(60);
/// The time that this process stays at least, for the last responses of the admin socket and the
/// metrics address.
const LAST_RESPONSES: Duration = Duration::from_secs(1);

/// The upgrade that is under way.
#[derive(Default)]
pub(super) struct Upgrades {
    handover: JoinSet<HandoverResult>,
    reply: Option<Reply<UpgradeOutcome>>,
    killer: Option<ProgramKiller>,
    /// The sockets of the offered listeners.
    offered: Vec<SocketId>,
    /// Whether the file is to be read again, which waits for the end of the upgrade.
    is_reload_due: bool,
}

pub(super) type HandoverResult = Result<HandedOver, UpgradeFailure>;

/// Duplicates of the sockets that the main thread serves.
#[derive(Default)]
pub(super) struct Duplicates {
    pub(super) metrics: Option<OwnedFd>,
    pub(super) admin: Option<OwnedFd>,
}

/// The sockets that another process has now.
pub(super) struct HandedSocketIds(Arc<[SocketId]>);

impl Upgrades {
    /// The result of the upgrade that is under way.
    pub(super) async fn finished(&mut self) -> Option<HandoverResult> {
        let joined = self.handover.join_next().await?;
        // A panic has been printed.
        Some(joined.unwrap_or_else(|_| {
            Err(UpgradeFailure {
                why: "the handover has failed".to_owned(),
                output: Vec::new(),
            })
        }))
    }

    fn is_under_way(&self) -> bool {
        self.killer.is_some()
    }
}

impl Drop for Upgrades {
    /// A process that stops takes the program with it that was to take its place.
    fn drop(&mut self) {
        if let Some(killer) = self.killer.take() {
            killer.kill();
        }
    }
}

impl RunningServer {
    /// Starts a new program, which is to take over.
    pub(super) fn begin_upgrade(
        &self,
        upgrades: &mut Upgrades,
        reloads: &Reloads,
        request: UpgradeRequest,
    ) {
        let UpgradeRequest {
            program,
            limit,
            reply,
        } = request;
        if let Some((why, cure)) = self.refusal(upgrades, reloads) {
            tracing::warn!(why, cure, "the upgrade was refused");
            return answer(reply, UpgradeOutcome::Refused(why, cure));
        }
        let program = program.unwrap_or_else(|| self.program.clone());
        tracing::info!(program = %program.display(), "upgrade: a new program is started");
        match self.start_program(&program, limit) {
            Ok((new, offer, killer)) => {
                upgrades.reply = reply;
                upgrades.killer = Some(killer);
                let listeners = self.generation.listeners.iter();
                upgrades.offered = listeners.map(|listener| listener.socket).collect();
                upgrades
                    .handover
                    .spawn_blocking(move || new.hand_over(&offer));
            }
            Err(failure) => {
                log_failure(&failure);
                answer(reply, UpgradeOutcome::Failed(failure));
            }
        }
    }

    /// Begins an upgrade to the file of the present program.
    pub(super) fn upgrade(&self, upgrades: &mut Upgrades, reloads: &Reloads) {
        let request = UpgradeRequest {
            program: None,
            limit: LIMIT,
            reply: None,
        };
        self.begin_upgrade(upgrades, reloads, request);
    }

    fn refusal(
        &self,
        upgrades: &Upgrades,
        reloads: &Reloads,
    ) -> Option<(&'static str, &'static str)> {
        if upgrades.is_under_way() {
            return Some(("another upgrade is under way", "wait for its end"));
        }
        if let Some(why) = reloads.unsettled() {
            return Some((why, "wait for its end, or use `lockgate confirm`"));
        }
        if std::process::id() == 1 {
            return Some((
                "this process is PID 1, with which its container ends",
                "start another container, or run Lockgate below an init (docker run --init)",
            ));
        }
        if self.generation.file.is_none() {
            return Some((
                "this command has no configuration file",
                "`lockgate run` can be upgraded",
            ));
        }
        None
    }

    fn start_program(
        &self,
        program: &Path,
        limit: Duration,
    ) -> Result<(NewProcess, HandoverOffer, ProgramKiller), UpgradeFailure> {
        let failed = |error: std::io::Error| UpgradeFailure {
            why: format!("the handover failed: {error}"),
            output: Vec::new(),
        };
        let offer = self.offer().map_err(failed)?;
        let new = NewProcess::start(program, limit)?;
        let killer = new.killer().map_err(failed)?;
        Ok((new, offer, killer))
    }

    /// All sockets of this process, and its ticket keys.
    fn offer(&self) -> std::io::Result<HandoverOffer> {
        let generation = &self.generation;
        let planned = generation.assembly.listeners.iter();
        let listeners = planned.zip(&generation.listeners);
        let listeners = listeners.map(|(planned, running)| OfferedListener {
            name: planned.listener.name.clone(),
            address: planned.address.clone(),
            bound: running.bound.clone(),
            owner: running.owner,
            sockets: Arc::clone(&running.sockets),
        });
        let metrics = generation.config.metrics.as_ref();
        let metrics = metrics.map(|metrics| assemble::address(&metrics.at));
        let rings = generation.assembly.rings.iter();
        Ok(HandoverOffer {
            listeners: listeners.collect(),
            metrics: offered(metrics.as_ref(), &self.metrics_at, &self.duplicates.metrics)?,
            admin: offered(
                self.admin_at.as_ref(),
                &self.admin_at,
                &self.duplicates.admin,
            )?,
            tickets: rings
                .filter_map(|ring| ring.hand_over(Instant::now()))
                .collect(),
            stderr: std::io::stderr().as_fd().try_clone_to_owned()?,
        })
    }

    /// Ends an upgrade; returns the sockets that are handed over if the new process serves.
    pub(super) fn end_upgrade(
        &mut self,
        upgrades: &mut Upgrades,
        reloads: &mut Reloads,
        result: HandoverResult,
    ) -> Option<HandedSocketIds> {
        upgrades.killer = None;
        let reply = upgrades.reply.take();
        let is_reload_due = std::mem::take(&mut upgrades.is_reload_due);
        match result {
            Ok(HandedOver { pid, taken, socket }) => {
                tracing::info!(pid, "upgrade: the new process serves, and this one drains");
                systemd::hand_over(pid);
                drop(socket);
                if is_reload_due && let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
                {
                    // A process that has ended reads nothing.
                    let _ = kill_process(pid, Signal::HUP);
                }
                answer(reply, UpgradeOutcome::Serving(pid));
                let offered = &upgrades.offered;
                let sockets = taken.iter().filter_map(|place| offered.get(*place));
                Some(HandedSocketIds(sockets.copied().collect()))
            }
            Err(failure) => {
                log_failure(&failure);
                answer(reply, UpgradeOutcome::Failed(failure));
                if is_reload_due {
                    self.reload_file(reloads);
                }
                None
            }
        }
    }

    /// Begins a reload, which an upgrade refuses.
    pub(super) fn begin_reload_beside(
        &self,
        upgrades: &Upgrades,
        reloads: &mut Reloads,
        request: ReloadRequest,
    ) {
        if !upgrades.is_under_way() {
            return self.begin_reload(reloads, request);
        }
        if let Some(reply) = request.reply {
            tell(reply, ReloadOutcome::Refused("an upgrade is under way"));
        }
    }

    /// Begins a reload of the file, at the latest when an upgrade has ended.
    pub(super) fn reload_file_beside(&self, upgrades: &mut Upgrades, reloads: &mut Reloads) {
        if upgrades.is_under_way() {
            upgrades.is_reload_due = true;
        } else {
            self.reload_file(reloads);
        }
    }

    /// Takes up changed files of the configuration, at the latest when an upgrade has ended.
    pub(super) fn files_changed_beside(
        &self,
        upgrades: &mut Upgrades,
        reloads: &mut Reloads,
        changed: &[PathBuf],
    ) {
        if upgrades.is_under_way() {
            upgrades.is_reload_due |=
                self.generation.config.reload == lockgate_config::ReloadTrigger::Watch;
        } else {
            self.files_changed(reloads, changed);
        }
    }

    /// Tells the service manager that the process is ready: at once, or once an earlier process has
    /// told which process is the main one.
    pub(super) fn tell_ready(
        &self,
        handover: Option<Handover>,
        adopting: Vec<oneshot::Receiver<()>>,
    ) {
        let status = self.status();
        let Some(handover) = handover else {
            return systemd::ready(&status);
        };
        tokio::spawn(async move {
            for adopted in adopting {
                // A worker that has ended ends the process.
                let _ = adopted.await;
            }
            handover.serving();
            let told = tokio::task::spawn_blocking(move || handover.ended()).await;
            if told.is_ok() {
                systemd::ready(&status);
            }
        });
    }

    /// Serves what it has begun to its end, while another process has the sockets.
    pub(super) async fn finish_begun(
        mut self,
        handed: HandedSocketIds,
        mut signals: Signals,
    ) -> ExitCode {
        let stays = tokio::time::Instant::now() + LAST_RESPONSES;
        self.readiness.enter(Phase::Draining);
        for task in self.metrics_task.take().iter().chain(&self.admin_task) {
            task.abort();
        }
        let HandedSocketIds(sockets) = handed;
        // The files of the others belong to the other process now.
        let listeners = self.generation.listeners.iter();
        let kept = listeners.filter(|one| !sockets.contains(&one.socket));
        let kept: Vec<_> = kept.map(|one| &one.bound).collect();
        self.socket_files
            .retain(|file| kept.iter().any(|address| file.is_of(address)));
        self.release_sockets();
        self.workers.hand_over(&sockets);
        self.workers.order(WorkerOrder::Stop);
        let drain = self.generation.config.drain;
        let mut end = self.wait(drain.change, &mut signals).await;
        if end == WaitEnd::Signal {
            tracing::info!(deadline = ?drain.deadline, "draining");
            end = self.wait(Some(drain.deadline), &mut signals).await;
        }
        let code = self.end(end, &mut signals).await;
        sleep_until(stays.min(tokio::time::Instant::now() + LAST_MOMENTS)).await;
        code
    }

    /// Closes the duplicates of all sockets, so that those that are served are the last ones.
    pub(super) fn release_sockets(&mut self) {
        self.generation.release_sockets();
        self.duplicates = Duplicates::default();
    }
}

/// The socket of an address that this thread serves.
fn offered(
    address: Option<&ListenAddress>,
    bound: &Option<ListenAddress>,
    socket: &Option<OwnedFd>,
) -> std::io::Result<Option<OfferedAddress>> {
    match (address, bound, socket) {
        (Some(address), Some(bound), Some(socket)) => Ok(Some(OfferedAddress {
            address: address.clone(),
            bound: bound.clone(),
            socket: socket.try_clone()?,
        })),
        _ => Ok(None),
    }
}

fn answer(reply: Option<Reply<UpgradeOutcome>>, outcome: UpgradeOutcome) {
    if let Some(reply) = reply {
        tell(reply, outcome);
    }
}

fn log_failure(failure: &UpgradeFailure) {
    let output = failure.output.join("\n");
    tracing::error!(why = %failure, output, "the upgrade has failed: this process goes on");
}
