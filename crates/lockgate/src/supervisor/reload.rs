//! A reload: another configuration is read, assembled and opened beside the one that runs, and
//! taken over whole or not at all.
//!
//! 1. In a thread: the file is read, and everything of it assembled. What did not change is shared.
//! 2. Here: addresses that a reload before has left are waited for, new ones are bound, new logs opened. Nothing that runs has changed so far.
//! 3. Each worker registers its new sockets; new names are looked up.
//! 4. All workers change generation, each between two events.
//!
//! One reload runs at a time. Requests to read the file again that come meanwhile are answered by one
//! more; all other requests are refused meanwhile. But while only endpoints of pools change, which may
//! take its time by a name server, one of them waits: a rollback is needed at once.
//!
//! A reload may have to be confirmed: until it is, no other one begins, and without it the
//! configuration before is taken over again. A process that ends meanwhile starts with its file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_config::{Code, Config, ReloadTrigger, Report};
use lockgate_net::listen::ListenAddress;
use tokio::task::JoinSet;

use super::RunningServer;
use super::assembled_config::{self, AssembledConfig, FailedReload, assemble_beside};
use super::background::RunningBackground;
use super::confirmation::Unconfirmed;
use crate::admin::{ReloadOutcome, ReloadRequest, ReloadSource, Reply, tell};
use crate::assemble::Assembly;
use crate::configuration::{self, ConfigText, Configuration};
use crate::endpoint_changes::EndpointChanges;
use crate::fetcher::{self, PreparedValues};
use crate::generation::{GenerationParts, RunningAdoption, RunningGeneration, SocketPlan};
use crate::metrics_server::{AllowedHosts, MetricsListener};
use crate::prober::{EndpointStatuses, PreparedProbes};
use crate::resolver::{self, PreparedNames};
use crate::start_steps::{NextSteps, OpenedNext};
use crate::{memory, operator_log, print, systemd};

/// The reload that is under way, and the requests for the next one.
#[derive(Default)]
pub(super) struct Reloads {
    steps: JoinSet<ReloadStep>,
    is_under_way: bool,
    /// Whether it is only tried.
    dry_run: bool,
    /// The origin of what it takes over.
    origin: ReloadOrigin,
    /// The time within which the next generation must be confirmed, if it must.
    confirm: Option<Duration>,
    unconfirmed: Option<Unconfirmed>,
    /// Where the answer of this one goes.
    replies: Vec<Reply<ReloadOutcome>>,
    /// The same of the next one, if it was asked for.
    next: Option<Vec<Reply<ReloadOutcome>>>,
    /// A request of another kind, which follows a change of pools, and is followed by `next`.
    waiting: Option<ReloadRequest>,
    /// Whether files have changed, or may have, since this one has read them, or the start.
    files_changed: bool,
}

/// The origin of the configuration of a reload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ReloadOrigin {
    File,
    #[default]
    Text,
    /// It runs already: only its pools change.
    Running,
}

/// The result of a step that has taken time.
pub(super) enum ReloadStep {
    /// Whether a changed file is to be taken over.
    Checked(bool),
    Assembled(Result<Box<AssembledConfig>, FailedReload>),
    Prepared(Result<Box<NextGeneration>, FailedReload>),
    /// Every worker runs the new generation.
    Adopted(Box<(Option<ConfigText>, Report)>),
}

/// A configuration for which everything is open.
pub(super) struct NextGeneration {
    assembled: AssembledConfig,
    opened: OpenedNext,
    plan: SocketPlan,
    background: PreparedBackground,
    statuses: EndpointStatuses,
}

/// The background work of a configuration that does not run yet.
struct PreparedBackground {
    names: PreparedNames,
    values: PreparedValues,
    probes: PreparedProbes,
}

impl Reloads {
    /// The result of the next step.
    pub(super) async fn step(&mut self) -> Option<ReloadStep> {
        let step = self.steps.join_next().await?;
        // A step that panics has printed why, and ends the reload.
        Some(step.unwrap_or_else(|_| {
            let (report, text) = (Report::new(), None);
            ReloadStep::Prepared(Err(FailedReload { report, text }))
        }))
    }

    /// Why the configuration that runs may soon be another one.
    pub(super) fn unsettled(&self) -> Option<&'static str> {
        match (self.is_under_way, &self.unconfirmed) {
            (true, _) => Some("a reload is under way"),
            (_, Some(_)) => Some("the configuration that runs is not confirmed yet"),
            _ => None,
        }
    }

    /// When the configuration before is taken over again, if it may be.
    pub(super) fn unconfirmed_until(&self) -> Option<Instant> {
        self.unconfirmed.as_ref().map(Unconfirmed::until)
    }

    /// Finds out whether the file differs from the configuration that runs.
    pub(super) fn check(&mut self, file: Arc<Configuration>) {
        self.steps.spawn_blocking(move || {
            file.check();
            ReloadStep::Checked(false)
        });
    }

    /// Whether a request, which is no plain one, waits for the reload that is under way.
    fn has_wait_for(&self, source: &ReloadSource) -> bool {
        let is_of_pools = matches!(source, ReloadSource::Running(..));
        let is_behind_pools = self.is_under_way && self.origin == ReloadOrigin::Running;
        is_behind_pools && !is_of_pools && self.waiting.is_none() && self.next.is_none()
    }

    fn answer(&mut self, outcome: &ReloadOutcome) {
        for reply in self.replies.drain(..) {
            tell(reply, outcome.clone());
        }
    }
}

impl RunningServer {
    /// Begins a reload, or has one follow that is under way.
    pub(super) fn begin_reload(&self, reloads: &mut Reloads, request: ReloadRequest) {
        let ReloadRequest {
            source,
            dry_run,
            confirm,
            reply,
        } = request;
        let Some(file) = self.generation.file.clone() else {
            return self.reload_without_file(reply, &source);
        };
        let is_plain = matches!(source, ReloadSource::File) && confirm.is_none() && !dry_run;
        if reloads.is_under_way && is_plain {
            reloads.next.get_or_insert_default().extend(reply);
            return;
        }
        if reloads.has_wait_for(&source) {
            reloads.waiting = Some(ReloadRequest {
                source,
                dry_run,
                confirm,
                reply,
            });
            return;
        }
        let is_rollback = matches!(source, ReloadSource::Earlier);
        // What runs need not be confirmed to have another endpoint.
        let is_other = !is_rollback && !matches!(source, ReloadSource::Running(..));
        let refused = match (&reloads.unconfirmed, reloads.is_under_way) {
            (_, true) => Some(("another reload is under way", ReloadOutcome::UnderWay)),
            (Some(_), _) if is_other && !dry_run => {
                let why = "the configuration that runs is not confirmed yet";
                Some((why, ReloadOutcome::Refused(why)))
            }
            _ if is_rollback && self.earlier_text.is_none() => {
                let why = "no configuration has run before this one";
                Some((why, ReloadOutcome::Refused(why)))
            }
            _ if matches!(source, ReloadSource::Running(_, number) if number != self.generation.number()) => {
                Some(("another reload has come before", ReloadOutcome::Overtaken))
            }
            _ => None,
        };
        if let Some((why, outcome)) = refused {
            // One that was overtaken is asked for again.
            if !matches!(outcome, ReloadOutcome::Overtaken) {
                tracing::warn!(why, "the reload was refused");
            }
            let replies = match reloads.is_under_way {
                true => Vec::new(),
                // Those that have waited for a reload before this one.
                false => std::mem::take(&mut reloads.replies),
            };
            for reply in replies.into_iter().chain(reply) {
                tell(reply, outcome.clone());
            }
            if !reloads.is_under_way {
                systemd::ready(&self.status());
            }
            return;
        }
        systemd::reloading();
        reloads.is_under_way = true;
        reloads.confirm = confirm;
        reloads.dry_run = dry_run;
        reloads.origin = match source {
            ReloadSource::File => ReloadOrigin::File,
            ReloadSource::Text(_) | ReloadSource::Earlier => ReloadOrigin::Text,
            ReloadSource::Running(..) => ReloadOrigin::Running,
        };
        reloads.replies.extend(reply);
        let running = Arc::clone(&self.generation.assembly);
        let background = self.background.continuing();
        let mut changes = EndpointChanges::clone(&running.changes);
        let text = match source {
            ReloadSource::File => None,
            ReloadSource::Text(text) => Some(text),
            ReloadSource::Earlier => {
                changes = changes.with_ended(&self.ended);
                self.earlier_text.clone()
            }
            ReloadSource::Running(changes, _) => {
                let loaded = Arc::clone(&self.loaded);
                reloads.steps.spawn_blocking(move || {
                    let report = Report::new();
                    let assembled =
                        assemble_beside((loaded, None, report), (&running, changes), background);
                    ReloadStep::Assembled(assembled.map(Box::new))
                });
                return;
            }
        };
        reloads.steps.spawn_blocking(move || {
            let changed = (&*running, changes);
            let read = assembled_config::read(&file.file, text.as_deref(), changed, background);
            ReloadStep::Assembled(read.map(Box::new))
        });
    }

    /// A command without a file has nothing to read but certificates.
    fn reload_without_file(&self, reply: Option<Reply<ReloadOutcome>>, source: &ReloadSource) {
        let outcome = match source {
            ReloadSource::File => {
                self.reread(&[]);
                self.done(Report::new())
            }
            _ => ReloadOutcome::Refused("this Lockgate runs without a configuration file"),
        };
        if let Some(reply) = reply {
            tell(reply, outcome);
        }
        systemd::ready(&self.status());
    }

    /// Begins a reload of the file.
    pub(super) fn reload_file(&self, reloads: &mut Reloads) {
        let request = ReloadRequest {
            source: ReloadSource::File,
            dry_run: false,
            confirm: None,
            reply: None,
        };
        self.begin_reload(reloads, request);
    }

    /// Confirms the configuration that runs; returns whether that was to be done.
    pub(super) fn confirm(&self, reloads: &mut Reloads) -> bool {
        let is_confirmed = reloads.unconfirmed.take().is_some();
        if is_confirmed {
            tracing::info!("the configuration was confirmed");
            self.keep_last_good();
            tokio::spawn(self.forget_ended());
        }
        is_confirmed
    }

    /// Takes over the configuration before, where the one that runs was not confirmed in time.
    pub(super) fn check_confirmation(&self, reloads: &mut Reloads) {
        if !reloads.is_under_way
            && let Some(unconfirmed) = &mut reloads.unconfirmed
            && unconfirmed.is_late()
        {
            tracing::warn!(
                "the configuration was not confirmed: the one before is taken over again"
            );
            let request = ReloadRequest {
                source: ReloadSource::Earlier,
                dry_run: false,
                confirm: None,
                reply: None,
            };
            self.begin_reload(reloads, request);
        }
    }

    /// Takes over a file that has changed, or finds out whether it differs and has mistakes.
    pub(super) fn files_changed(&self, reloads: &mut Reloads, changed: &[PathBuf]) {
        let Some(file) = self.generation.file.clone() else {
            return;
        };
        let is_watched = self.generation.config.reload == ReloadTrigger::Watch;
        // What a folder of included files holds besides them does not matter.
        let is_file = changed.iter().any(|path| !path.is_dir());
        if is_watched && is_file {
            return self.reload_file(reloads);
        }
        if reloads.is_under_way {
            reloads.files_changed = true;
            return;
        }
        reloads.steps.spawn_blocking(move || {
            let differs = file.check();
            ReloadStep::Checked(is_watched && differs)
        });
    }

    /// Checks the file after the start, which has read it before it was watched.
    pub(super) fn check_after_start(&self, reloads: &mut Reloads) {
        reloads.files_changed = true;
        self.check_changed(reloads);
    }

    /// Whether a text was made of files that were not watched while it was read.
    fn has_joining_files(&self, text: &ConfigText) -> bool {
        let file = self.generation.file.as_ref();
        file.is_some_and(|file| !text.files.is_subset(&file.running().files))
    }

    /// Checks a file that may have changed since it was read, unless it has the text that was read.
    fn check_changed(&self, reloads: &mut Reloads) {
        let changed = std::mem::take(&mut reloads.files_changed);
        if let Some(file) = self.generation.file.clone().filter(|_| changed) {
            let is_watched = self.generation.config.reload == ReloadTrigger::Watch;
            reloads.steps.spawn_blocking(move || {
                let differs = file.check_unread();
                ReloadStep::Checked(is_watched && differs)
            });
        }
    }

    /// Goes on with a reload after one of its steps.
    pub(super) fn continue_reload(&mut self, reloads: &mut Reloads, step: ReloadStep) {
        let failed = match step {
            // What follows a check may have to wait for an upgrade.
            ReloadStep::Checked(_) => return,
            ReloadStep::Assembled(Ok(assembled)) if reloads.dry_run => {
                let outcome = self.rehearse(*assembled);
                return self.end_reload(reloads, &outcome);
            }
            ReloadStep::Assembled(Ok(assembled)) => {
                if let Some(closed) = self.closing.needed_by(&assembled.assembly.listeners) {
                    reloads.steps.spawn(async move {
                        closed.await;
                        ReloadStep::Assembled(Ok(assembled))
                    });
                    return;
                }
                match self.open(*assembled) {
                    Ok(prepare) => {
                        reloads.steps.spawn(prepare);
                        return;
                    }
                    Err(failed) => failed,
                }
            }
            ReloadStep::Prepared(Ok(next)) => {
                let text = next.assembled.text.as_ref();
                reloads.files_changed |= text.is_some_and(|text| self.has_joining_files(text));
                reloads.steps.spawn(self.take_over(*next));
                return;
            }
            ReloadStep::Adopted(adopted) => {
                let (text, report) = *adopted;
                let Some(text) = text else {
                    report.iter().for_each(configuration::log);
                    let outcome = self.done(report);
                    return self.end_reload(reloads, &outcome);
                };
                self.tell_reloaded(reloads, text, &report);
                reloads.unconfirmed = reloads.confirm.take().map(Unconfirmed::from_now);
                if reloads.unconfirmed.is_none() {
                    self.keep_last_good();
                    tokio::spawn(self.forget_ended());
                }
                let outcome = self.done(report);
                self.end_reload(reloads, &outcome);
                return;
            }
            ReloadStep::Assembled(Err(failed)) => failed,
            ReloadStep::Prepared(Err(failed)) => {
                self.workers.discard();
                failed
            }
        };
        if let Some(file) = &self.generation.file
            && !reloads.dry_run
            && reloads.origin != ReloadOrigin::Running
        {
            file.reload_failed(&failed.report, failed.text.as_ref());
            self.watch_files();
        }
        let outcome = ReloadOutcome::Failed(Arc::new(failed.report));
        self.end_reload(reloads, &outcome);
    }

    fn done(&self, report: Report) -> ReloadOutcome {
        ReloadOutcome::Done(self.generation.number(), Arc::new(report))
    }

    fn end_reload(&self, reloads: &mut Reloads, outcome: &ReloadOutcome) {
        reloads.is_under_way = false;
        reloads.answer(outcome);
        self.check_changed(reloads);
        if let Some(request) = reloads.waiting.take() {
            self.begin_reload(reloads, request);
            if reloads.is_under_way {
                return;
            }
        }
        match reloads.next.take() {
            Some(answers) => {
                reloads.replies = answers;
                self.reload_file(reloads);
            }
            None => systemd::ready(&self.status()),
        }
    }

    /// Tries the steps that would follow, and leaves nothing behind.
    fn rehearse(&self, mut assembled: AssembledConfig) -> ReloadOutcome {
        let running = &self.generation;
        let known = assembled.assembly.same_addresses(&running.assembly);
        let steps = NextSteps {
            loaded: &assembled.loaded,
            assembly: &assembled.assembly,
            running,
            known: &known,
            workers: self.workers.count(),
        };
        steps.rehearse(&mut assembled.report);
        let mut report = assembled.report;
        tell_restart(&self.started_with, &assembled.loaded.config, &mut report);
        if report.has_errors() {
            return ReloadOutcome::Failed(Arc::new(report));
        }
        self.done(report)
    }

    /// Opens everything that the next generation has and the running one does not have, and returns
    /// the step that waits until it can be used.
    fn open(
        &self,
        mut assembled: AssembledConfig,
    ) -> Result<impl Future<Output = ReloadStep> + Send + use<>, FailedReload> {
        let running = &self.generation;
        let known = assembled.assembly.same_addresses(&running.assembly);
        let next = NextSteps {
            loaded: &assembled.loaded,
            assembly: &assembled.assembly,
            running,
            known: &known,
            workers: self.workers.count(),
        };
        let Some(mut opened) = next.open(&mut assembled.report) else {
            return Err(assembled.fail());
        };
        let bound = std::mem::take(&mut opened.bound);
        let planned = &assembled.assembly.listeners;
        let plan = SocketPlan::new(Some(running), planned, &known, bound, self.workers.count());
        let mut plan = match plan {
            Ok(plan) => plan,
            Err(error) => return Err(assembled.fail_with(&error)),
        };
        let addresses: Vec<_> = plan.listeners.iter().map(|one| &one.bound).collect();
        assembled.assembly.redirect_to(&addresses);
        let statuses = assembled.assembly.prober.statuses();
        let background = match self.prepare_background(&mut assembled.assembly) {
            Ok(background) => background,
            Err(error) => {
                opened.discard();
                return Err(assembled.fail_with(&error));
            }
        };
        let registered = self.workers.prepare(std::mem::take(&mut plan.sockets));
        let next = NextGeneration {
            assembled,
            opened,
            plan,
            background,
            statuses,
        };
        Ok(async move {
            let PreparedBackground { names, values, .. } = &next.background;
            names.first_answers(resolver::PATIENCE).await;
            values.first_tries(fetcher::PATIENCE).await;
            for registered in registered {
                if let Ok(Err(error)) = registered.await {
                    next.opened.discard();
                    return ReloadStep::Prepared(Err(next.assembled.fail_with(&error)));
                }
            }
            ReloadStep::Prepared(Ok(Box::new(next)))
        })
    }

    fn prepare_background(&self, assembly: &mut Assembly) -> io::Result<PreparedBackground> {
        let RunningBackground {
            resolving,
            fetching,
            probing,
        } = &self.background;
        Ok(PreparedBackground {
            names: resolving.prepare(std::mem::take(&mut assembly.resolver)),
            values: fetching.prepare(std::mem::take(&mut assembly.fetcher))?,
            probes: probing.prepare(std::mem::take(&mut assembly.prober))?,
        })
    }

    /// Makes the next generation the one that runs. Nothing here can fail.
    fn take_over(
        &mut self,
        next: NextGeneration,
    ) -> impl Future<Output = ReloadStep> + Send + use<> {
        let NextGeneration {
            assembled,
            opened,
            plan,
            background,
            statuses,
        } = next;
        let AssembledConfig {
            loaded,
            text,
            mut assembly,
            mut report,
        } = assembled;
        assembly.commit();
        self.background.resolving.commit(background.names);
        self.background.fetching.commit(background.values);
        self.background.probing.commit(background.probes);
        let parts = GenerationParts {
            loaded: Arc::clone(&loaded),
            file: self.generation.file.clone(),
            assembly: Arc::new(assembly),
            logs: opened.logs,
            statuses,
            certificates: Arc::clone(&self.certificates.keeper),
            sinks: self.exporter.statuses(),
        };
        self.set_limits(&loaded.config, &parts.assembly);
        let before = &self.generation;
        let before_assembly = Arc::clone(&before.assembly);
        let before_listeners = before.names();
        let generation = RunningGeneration::new(&self.workers, Some(before), parts, plan);
        let RunningAdoption { adopted, closed } = generation.adopt(&self.workers);
        generation.set_socket_options();
        self.closing
            .add(&before.listeners, &generation.listeners, closed);
        if text.is_some() {
            tell_restart(&self.started_with, &generation.config, &mut report);
        }
        if before.config.log.level != generation.config.log.level {
            operator_log::set_level(print::level(generation.config.log.level));
        }
        self.exposition.store(Arc::clone(&generation.exposition));
        if text.is_some() {
            self.earlier_text = Some(self.loaded.merged_toml());
            self.ended = generation.assembly.ended.clone();
            if let Some(change) = generation.config.drain.change {
                let end = Instant::now() + change;
                self.cuts.push((end, generation.number()));
            }
        }
        self.loaded = loaded;
        self.generation = generation;
        self.socket_files.extend(opened.socket_files);
        self.tell_listeners(&before_listeners);
        // What both generations share was read for the one before.
        self.reread_shared(&[]);
        self.change_metrics(opened.metrics);
        self.remove_socket_files();
        self.watch_files();
        self.keep_certificates();
        self.keep_exporting();
        async move {
            for adopted in adopted {
                // A worker that has ended runs none.
                let _ = adopted.await;
            }
            // Freed here, and not by the last worker that has let go of it, which has clients.
            tokio::task::spawn_blocking(move || {
                drop(before_assembly);
                lockgate_net::memory::collect();
            });
            ReloadStep::Adopted(Box::new((text, report)))
        }
    }

    fn tell_reloaded(&self, reloads: &mut Reloads, text: ConfigText, report: &Report) {
        report.iter().for_each(configuration::log);
        tracing::info!(
            hash = text.hash,
            generation = self.generation.number(),
            "the configuration was reloaded"
        );
        if let Some(file) = self.generation.file.clone() {
            let is_of_file = reloads.origin == ReloadOrigin::File;
            file.reloaded(text, is_of_file);
            if !is_of_file {
                reloads.check(file);
            }
        }
        self.watch_files();
    }
}

impl RunningServer {
    /// Logs the listeners that are new, and those that are gone.
    fn tell_listeners(&self, before: &[(String, ListenAddress)]) {
        let now = self.generation.names();
        for (listener, address) in now.iter().filter(|one| !before.contains(one)) {
            tracing::info!(%listener, %address, "listening");
        }
        for (listener, address) in before.iter().filter(|one| !now.contains(one)) {
            tracing::info!(%listener, %address, "no longer listening");
        }
    }

    /// Has the workers close what has gone on by an earlier configuration for as long as it may.
    pub(super) fn cut_earlier(&mut self) {
        let now = Instant::now();
        let due = self.cuts.iter().filter(|(end, _)| *end <= now);
        if let Some(number) = due.map(|(_, number)| *number).max() {
            self.cuts.retain(|(_, later)| *later > number);
            self.workers.cut_earlier(number);
        }
    }

    /// Removes the files of Unix sockets that no listener has any more.
    fn remove_socket_files(&mut self) {
        let listeners = self.generation.listeners.iter();
        let bound: Vec<_> = listeners
            .map(|listener| &listener.bound)
            .chain(&self.metrics_at)
            .chain(&self.admin_at)
            .collect();
        self.socket_files.retain(|file| {
            let is_bound = bound.iter().any(|address| file.is_of(address));
            if !is_bound {
                file.remove();
            }
            is_bound
        });
    }

    /// Sets the limits of the process. What is in use stays.
    fn set_limits(&mut self, config: &Config, assembly: &Assembly) {
        let limits = &config.limits;
        self.workers.set_limits(limits, assembly);
        let memory = memory::allowed(limits.memory);
        if memory != self.memory {
            self.monitor.set_limit(&memory);
            self.memory = memory;
        }
    }

    /// Serves the metrics at the address and for the hosts of the new configuration.
    fn change_metrics(&mut self, opened: Option<(MetricsListener, ListenAddress)>) {
        let metrics = self.generation.config.metrics.as_ref();
        if metrics.is_none() || opened.is_some() {
            self.metrics_at = None;
            self.duplicates.metrics = None;
            if let Some(serving) = self.metrics_task.take() {
                serving.abort();
            }
        }
        if let Some((listener, address)) = opened {
            tracing::info!(%address, "metrics");
            self.duplicates.metrics = listener.duplicate();
            self.metrics_at = Some(address);
            self.metrics = Some(listener);
            self.serve_metrics();
        } else if let (Some(metrics), Some(routes)) = (metrics, &self.metrics_routes) {
            routes
                .hosts
                .store(Arc::new(AllowedHosts::new(&metrics.hosts)));
        }
    }
}

/// Warns of keys that take effect with the next start only.
fn tell_restart(before: &Config, now: &Config, report: &mut Report) {
    let changed = [
        ("user", before.user != now.user),
        ("workers", before.workers != now.workers),
        ("state", before.state != now.state),
        ("admin", before.admin != now.admin),
        ("log.format", before.log.format != now.log.format),
    ];
    for (key, _) in changed.iter().filter(|(_, changed)| *changed) {
        let message = format!("`{key}` has changed, which takes effect with the next start");
        report.push(
            Code::NeedsRestart,
            message,
            "",
            "`systemctl restart lockgate`",
        );
    }
}
