//! An upgrade: another program takes over the listening sockets, and this process finishes what it
//! has begun. Until the other one serves, nothing changes here.
//!
//! One upgrade runs at a time, and none beside a reload: both would change what is served.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_limits::clock::TICK;
use lockgate_net::listen::ListenAddress;
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::reload::{ReloadStep, Reloads};
use super::stopping::{LAST_MOMENTS, LoopEnd, WaitEnd};
use super::{RunningServer, ServeEnd, ticks};
use crate::admin::{
    AdminPhase, HandedChanges, ReloadOutcome, ReloadRequest, Reply, TakeoverOutcome,
    TakeoverRequest, UpgradeOutcome, UpgradeRequest, tell,
};
use crate::handover::{
    HandedOver, Handover, HandoverEnd, HandoverOffer, NewProcess, OfferedAddress, OfferedListener,
    ProgramKiller, StartedBy, UpgradeFailure,
};
use crate::metrics_server::Phase;
use crate::signals::{SignalAction, Signals};
use crate::worker::{SocketId, WorkerOrder};
use crate::{assemble, operator_log, print, systemd};

/// The time within which a new program must be ready that a signal has asked for.
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
    /// Whether this process is to stop, and waits for the end of the upgrade.
    is_stopping: bool,
}

pub(super) type HandoverResult = Result<HandedOver, UpgradeFailure>;

/// Duplicates of the sockets that the main thread serves.
#[derive(Default)]
pub(super) struct Duplicates {
    pub(super) metrics: Option<OwnedFd>,
    pub(super) admin: Option<OwnedFd>,
}

/// The sockets that another process has now.
pub(super) struct HandedSocketIds {
    listeners: Arc<[SocketId]>,
    metrics: bool,
    admin: bool,
    /// Whether this process is to stop.
    is_stopping: bool,
    /// The starter of the other process.
    started_by: StartedBy,
}

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
    /// A process that ends takes the program with it that was to take its place, unless that may
    /// serve already.
    fn drop(&mut self) {
        if let Some(killer) = self.killer.take() {
            killer.kill_unless_told();
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
                self.hand_over(upgrades, new, offer, killer);
            }
            Err(failure) => {
                log_failure(StartedBy::Us, &failure, false);
                answer(reply, UpgradeOutcome::Failed(failure));
            }
        }
    }

    /// Begins the handover to a process that asks for it.
    pub(super) fn begin_takeover(
        &self,
        upgrades: &mut Upgrades,
        reloads: &Reloads,
        request: TakeoverRequest,
    ) {
        let TakeoverRequest { pid, reply } = request;
        if let Some((why, cure)) = self.refusal_now(upgrades, reloads) {
            tracing::warn!(why, cure, "the takeover was refused");
            return tell(reply, TakeoverOutcome::Refused(why, cure));
        }
        let number = pid.map(|pid| pid.as_raw_nonzero().get());
        tracing::info!(pid = number, "takeover: another process asks for it");
        let begun = self.offer().and_then(|offer| {
            let (new, end, killer) = NewProcess::that_asks(pid, LIMIT)?;
            Ok((new, offer, killer, end))
        });
        match begun {
            Ok((new, offer, killer, end)) => {
                self.hand_over(upgrades, new, offer, killer);
                tell(reply, TakeoverOutcome::Begins(end));
            }
            Err(error) => {
                let failure = failed(&error);
                log_failure(StartedBy::Others, &failure, false);
                tell(reply, TakeoverOutcome::Failed(failure.why));
            }
        }
    }

    /// Hands over, in a thread that may wait.
    fn hand_over(
        &self,
        upgrades: &mut Upgrades,
        new: NewProcess,
        offer: HandoverOffer,
        killer: ProgramKiller,
    ) {
        // Changes from here on are none of the offer.
        self.admin_phase.send_replace(AdminPhase::Upgrade);
        upgrades.killer = Some(killer);
        let listeners = self.generation.listeners.iter();
        upgrades.offered = listeners.map(|listener| listener.socket).collect();
        upgrades
            .handover
            .spawn_blocking(move || new.hand_over(&offer));
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

    /// Why no other process can take over now, and the cure.
    fn refusal_now(
        &self,
        upgrades: &Upgrades,
        reloads: &Reloads,
    ) -> Option<(&'static str, &'static str)> {
        if upgrades.is_under_way() {
            return Some(("another upgrade is under way", "wait for its end"));
        }
        let why = reloads.unsettled()?;
        Some((why, "wait for its end, or use `lockgate confirm`"))
    }

    /// Why no program can be started now that takes over, and the cure.
    fn refusal(
        &self,
        upgrades: &Upgrades,
        reloads: &Reloads,
    ) -> Option<(&'static str, &'static str)> {
        let refusal = self.refusal_now(upgrades, reloads);
        if refusal.is_some() {
            return refusal;
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
        let offer = self.offer().map_err(|error| failed(&error))?;
        let (new, killer) = NewProcess::start(program, limit)?;
        Ok((new, offer, killer))
    }

    /// All sockets of this process, its ticket keys, and what operators have set.
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
        let level = print::level(generation.config.log.level);
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
            changes: HandedChanges::of(&generation.exposition, level).to_json(),
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
        let killer = upgrades.killer.take();
        let started_by = killer.map_or(StartedBy::Us, |killer| killer.started_by());
        let reply = upgrades.reply.take();
        let is_reload_due = std::mem::take(&mut upgrades.is_reload_due);
        match result {
            Ok(handed) => {
                let HandedOver {
                    pid,
                    taken,
                    socket,
                    doubt,
                } = handed;
                let what = name(started_by);
                match doubt {
                    Some(why) => tracing::warn!(
                        pid,
                        why,
                        "{what}: the new process may not serve, but this one stops, and drains"
                    ),
                    None => {
                        tracing::info!(pid, "{what}: the new process serves, and this one drains");
                    }
                }
                match (started_by, pid) {
                    (StartedBy::Us, Some(pid)) => systemd::hand_over(pid),
                    // The other one is another unit's, or none's: this unit ends with this process.
                    _ => systemd::stopping("another process has taken over, and this one drains"),
                }
                match (started_by, upgrades.is_stopping) {
                    (StartedBy::Us, true) => socket.stop(),
                    // A stop of this process is none of the other one.
                    _ => drop(socket),
                }
                let raw = pid.and_then(|pid| i32::try_from(pid).ok());
                if is_reload_due && let Some(pid) = raw.and_then(Pid::from_raw) {
                    // A process that has ended reads nothing.
                    let _ = kill_process(pid, Signal::HUP);
                }
                if let Some(pid) = pid {
                    answer(reply, UpgradeOutcome::Serving(pid));
                }
                let offered = &upgrades.offered;
                let places = taken.listeners.iter();
                let listeners = places.filter_map(|place| offered.get(*place));
                Some(HandedSocketIds {
                    listeners: listeners.copied().collect(),
                    metrics: taken.metrics,
                    admin: taken.admin,
                    is_stopping: upgrades.is_stopping,
                    started_by,
                })
            }
            Err(failure) => {
                self.admin_phase.send_replace(AdminPhase::Open);
                log_failure(started_by, &failure, upgrades.is_stopping);
                answer(reply, UpgradeOutcome::Failed(failure));
                if is_reload_due {
                    self.reload_file(reloads);
                }
                None
            }
        }
    }

    /// Ends the serving of a process that is to stop. A new program ends with it; but one that was
    /// told to serve may have connections already, and so is told to stop, as this process was. One
    /// of others goes on then.
    pub(super) async fn stop_beside(
        &mut self,
        upgrades: &mut Upgrades,
        reloads: &mut Reloads,
        signals: &mut Signals,
    ) -> ServeEnd {
        let mut is_urgent = false;
        let killer = upgrades.killer.as_ref();
        if killer.is_some_and(ProgramKiller::kill_unless_told) {
            match killer.map(ProgramKiller::started_by) {
                Some(StartedBy::Others) => {
                    tracing::info!("another process was told to serve: the stop waits for it");
                }
                _ => tracing::info!("the new process was told to serve, and is to stop then"),
            }
            upgrades.is_stopping = true;
            upgrades.is_reload_due = false;
            match self.soon_finished(upgrades, signals).await {
                Some(result) => {
                    if let Some(handed) = self.end_upgrade(upgrades, reloads, result) {
                        return ServeEnd::HandedOver(handed);
                    }
                }
                None => is_urgent = true,
            }
        }
        self.admin_phase.send_replace(AdminPhase::Open);
        ServeEnd::Stop { is_urgent }
    }

    /// The result of an upgrade in which the new process was told to serve: that has a limit. `None`
    /// where a second stop comes first.
    async fn soon_finished(
        &mut self,
        upgrades: &mut Upgrades,
        signals: &mut Signals,
    ) -> Option<HandoverResult> {
        let mut tick = ticks(TICK);
        loop {
            tokio::select! {
                result = upgrades.finished() => return result,
                _ = tick.tick() => {
                    self.look_at_memory();
                    systemd::extend_timeout(TICK * 20);
                }
                action = signals.next() => match action {
                    SignalAction::Stop => return None,
                    action => self.handle_draining(action),
                },
                Some(command) = self.commands.recv() => {
                    if self.obey_draining(command) == LoopEnd::Ends {
                        return None;
                    }
                }
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

    /// Goes on with a reload after one of its steps. A file that was found changed is taken over at
    /// the latest when an upgrade has ended.
    pub(super) fn continue_reload_beside(
        &mut self,
        upgrades: &mut Upgrades,
        reloads: &mut Reloads,
        step: ReloadStep,
    ) {
        match step {
            ReloadStep::Checked(true) => self.reload_file_beside(upgrades, reloads),
            step => self.continue_reload(reloads, step),
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
        let (status, forget) = (self.status(), self.forget_ended());
        let Some(handover) = handover else {
            tokio::spawn(forget);
            return systemd::ready(&status);
        };
        let readiness = Arc::clone(&self.readiness);
        let handover = Arc::new(handover);
        let told = Arc::clone(&handover);
        let adopted = tokio::spawn(async move {
            for adopted in adopting {
                // A worker that has ended ends the process.
                let _ = adopted.await;
            }
            told.serving();
        });
        tokio::spawn(async move {
            // A worker that cannot adopt may be why it is given up.
            let Ok(end) = tokio::task::spawn_blocking(move || handover.ended()).await else {
                return;
            };
            if end == HandoverEnd::GivenUp {
                tracing::error!(
                    "the earlier process has given up the handover, and serves: this one ends"
                );
                operator_log::finish();
                // An orderly stop would refuse connections on sockets that the other one has, too.
                std::process::exit(1);
            }
            let _ = adopted.await;
            tracing::info!("the earlier process has handed over, and drains");
            systemd::ready(&status);
            // Until now the earlier process might have gone on with them.
            tokio::spawn(forget);
            // A service manager may have told both to stop, and a second TERM would cut.
            if end == HandoverEnd::Stopped && readiness.phase() != Phase::Draining {
                let _ = kill_process(getpid(), Signal::TERM);
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
        self.admin_phase.send_replace(AdminPhase::HandedOver);
        // The series are the other process's from now on.
        tokio::spawn(self.exporter.finish());
        for task in self.metrics_task.take().iter().chain(&self.admin_task) {
            task.abort();
        }
        // The files of the others belong to the other process now.
        let listeners = self.generation.listeners.iter();
        let kept = listeners.filter(|one| !handed.listeners.contains(&one.socket));
        let kept: Vec<_> = kept
            .map(|one| &one.bound)
            .chain(self.metrics_at.iter().filter(|_| !handed.metrics))
            .chain(self.admin_at.iter().filter(|_| !handed.admin))
            .collect();
        self.socket_files
            .retain(|file| kept.iter().any(|address| file.is_of(address)));
        self.generation.open_logs().for_each(|log| log.follow());
        self.release_sockets();
        self.workers.hand_over(&handed.listeners);
        self.workers.order(WorkerOrder::Stop);
        let drain = self.generation.config.drain;
        let mut end = match handed.is_stopping {
            true => WaitEnd::Signal,
            false => self.wait(drain.change, &mut signals).await,
        };
        // A service manager would start a unit again that has failed, which this one has not: the
        // configuration wants that end.
        let is_success = end == WaitEnd::Deadline && handed.started_by == StartedBy::Others;
        if end == WaitEnd::Signal {
            tracing::info!(deadline = ?drain.deadline, "draining");
            end = self.wait(Some(drain.deadline), &mut signals).await;
        }
        let code = self.end(end, &mut signals).await;
        sleep_until(stays.min(tokio::time::Instant::now() + LAST_MOMENTS)).await;
        match is_success {
            true => ExitCode::SUCCESS,
            false => code,
        }
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

fn failed(error: &std::io::Error) -> UpgradeFailure {
    UpgradeFailure {
        why: format!("the handover failed: {error}"),
        output: Vec::new(),
    }
}

/// The handover to a process of this starter.
fn name(started_by: StartedBy) -> &'static str {
    match started_by {
        StartedBy::Us => "upgrade",
        StartedBy::Others => "takeover",
    }
}

fn log_failure(started_by: StartedBy, failure: &UpgradeFailure, is_stopping: bool) {
    let (what, output) = (name(started_by), failure.output.join("\n"));
    let then = match is_stopping {
        true => "this process stops",
        false => "this process goes on",
    };
    tracing::error!(why = %failure, output, "the {what} has failed: {then}");
}
