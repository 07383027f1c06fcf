//! The main thread while Lockgate runs: signals, changed certificates, and the orderly end.

mod assembled_config;
mod background;
mod certificates;
mod closing;
mod commands;
mod confirmation;
mod ddns;
mod export;
mod files;
mod reload;
mod stopping;
mod upgrade;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use arc_swap::ArcSwap;
use lockgate_config::{Color, Config, LoadedConfig, Report};
use lockgate_limits::clock::TICK;
use lockgate_net::listen::ListenAddress;
use lockgate_net::threads;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use crate::admin::{
    self, AdminListener, AdminPhase, CommandReceiver, CommandSender, HandedChanges, KeptChanges,
    KeptFile,
};
use crate::configuration::Configuration;
use crate::endpoint_changes::EndpointChanges;
use crate::exporter::{Exporter, SpanExporter};
use crate::exposition::Exposition;
use crate::file_watcher::{FileWatcher, WatchedFiles};
use crate::generation::{self, GenerationParts, RunningGeneration, SocketPlan};
use crate::handover::{HandedSockets, Handover, StartKind, own_program};
use crate::live_page::{LivePage, PagesGuard};
use crate::memory::{self, MemoryLimit, MemoryMonitor};
use crate::metrics_server::{self, AllowedHosts, MetricsListener, MetricsRoutes, Phase, Readiness};
use crate::privileges::ServiceUser;
use crate::signals::{SignalAction, Signals};
use crate::socket_file::SocketFile;
use crate::start::Workers;
use crate::start_steps::{self, Prepared};
use crate::{descriptors, operator_log, print, state, systemd};

use background::RunningBackground;
use certificates::RunningCertificates;
use closing::ClosingListeners;
use ddns::RunningDdns;
use reload::Reloads;
use stopping::LoopEnd;
use upgrade::{Duplicates, HandedSocketIds, Upgrades};

/// How long a thread that has read a configuration waits for more work. The allocator gives back
/// what other threads have freed of its memory, the configuration before, when it ends.
const READER_KEPT: Duration = Duration::from_millis(500);

/// The interval of checks whether ticket keys are due: they live for hours.
const ROTATION_CHECKED_EVERY: Duration = Duration::from_secs(60);
/// The exit code of a stop that had to cut connections.
const UNCLEAN: u8 = 3;

/// Runs until a signal ends it.
///
/// `file` is the file of the configuration, if it has one; `greet` is called once everything is
/// bound and runs.
pub(crate) fn run(
    loaded: LoadedConfig,
    file: Option<Arc<Configuration>>,
    kind: StartKind,
    greet: impl FnOnce(&RunningServer),
) -> ExitCode {
    // The sockets of another Lockgate may be more than the limit of the start.
    let raised = descriptors::raise();
    let (handover, sockets) = match received(kind, &loaded.config) {
        Ok(received) => received.unzip(),
        Err(error) => {
            eprintln!("lockgate: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let program = own_program();
    let config = &loaded.config;
    let state = config.state.clone();
    if let Err(error) = operator_log::init(
        print::level(config.log.level),
        print::format(config.log.format),
    ) {
        eprintln!("lockgate: {error:#}");
    }
    match raised {
        Ok(raised) => tracing::debug!(
            from = raised.from,
            to = raised.to,
            "limit of open descriptors"
        ),
        Err(error) => tracing::warn!(%error, "the limit of open descriptors cannot be raised"),
    }
    if kind == StartKind::Takeover {
        match &handover {
            Some(_) => tracing::info!("takeover: the Lockgate that serves hands over"),
            None => {
                tracing::info!("there is no Lockgate to take over from: this is a plain start");
            }
        }
    }
    print::report(&loaded.warnings);
    let mut report = Report::new();
    let changes = changed_pools(handover.as_ref(), state.as_deref());
    let sockets = sockets.unwrap_or_default();
    let prepared = start_steps::prepare(loaded, sockets, changes, &mut report);
    print::report(&report);
    let Some(prepared) = prepared else {
        if let Some(handover) = handover {
            handover.fail(&report.render(Color::Never));
            return ExitCode::FAILURE;
        }
        if let Some(good) = state.as_deref().and_then(state::last_good) {
            eprintln!(
                "The last configuration that worked: lockgate run --last-good, or -c {}",
                good.display()
            );
        }
        return ExitCode::FAILURE;
    };
    // Privileges are dropped by now, and errors of the start are written already.
    if let Err(error) = operator_log::start_thread() {
        tracing::warn!(%error, "the operator log has no thread: a standard error that is not read stops the process");
    }
    let ran = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(threads::begin)
        .thread_keep_alive(READER_KEPT)
        .build()
        .and_then(|runtime| {
            let start = Start {
                file,
                program,
                handover,
            };
            let code = runtime.block_on(supervise(prepared, start, greet));
            // A name server that does not answer must not hold up the end.
            runtime.shutdown_background();
            code
        });
    let code = ran.unwrap_or_else(|error| {
        tracing::error!(%error, "the server cannot run");
        ExitCode::FAILURE
    });
    operator_log::finish();
    code
}

/// What another Lockgate hands over: one that has started this process, or that is asked.
fn received(kind: StartKind, config: &Config) -> anyhow::Result<Option<(Handover, HandedSockets)>> {
    // An upgraded process has the arguments of the one before.
    let handed = Handover::receive()?;
    if handed.is_some() || kind == StartKind::Plain {
        return Ok(handed);
    }
    let Some(socket) = &config.admin else {
        bail!("--takeover needs the admin socket: remove admin = false");
    };
    // An unknown one is a mistake that the start reports.
    let user = config.user.as_deref().map(ServiceUser::look_up);
    let user = user.and_then(Result::ok).map(|user| user.ids().0);
    Handover::take_over(&admin::paths_to_search(socket.at.as_deref()), user)
}

/// How the process was started.
struct Start {
    file: Option<Arc<Configuration>>,
    program: PathBuf,
    /// The handover from an earlier process.
    handover: Option<Handover>,
}

async fn supervise(
    mut prepared: Prepared,
    start: Start,
    greet: impl FnOnce(&RunningServer),
) -> io::Result<ExitCode> {
    let Start {
        file,
        program,
        handover,
    } = start;
    let taken = std::mem::take(&mut prepared.taken);
    let changes = handover.as_ref().map(handed_changes).transpose()?;
    let mut signals = Signals::new()?;
    let background = RunningBackground::start(&mut prepared.assembly).await?;
    certificates::issue_before_start(&prepared.assembly, prepared.config.state.as_deref());
    // Everything that needs a descriptor takes it before connections can have the last one.
    let watched = WatchedFiles::new();
    watched.set(prepared.assembly.files());
    let watch = FileWatcher::new(&watched);
    if let Some(handover) = &handover {
        for ring in &prepared.assembly.rings {
            let handed = handover.tickets.iter();
            handed.for_each(|keys| ring.take_over(keys, Instant::now()));
        }
    }
    let mut running = RunningServer::start(prepared, file, background, watched).await?;
    running.program = program;
    if let Some(changes) = changes {
        changes.apply(&running.generation.exposition);
    }
    if let Some(handover) = &handover {
        // The other process answers at once.
        handover.ready(taken)?;
    }
    running.announce();
    greet(&running);
    running.serve_metrics();
    running.serve_admin();
    running.keep_exporting();
    let adoption = running.generation.adopt(&running.workers);
    if handover.is_some() {
        running.generation.set_socket_options();
    }
    running.tell_ready(handover, adoption.adopted);
    // With thousands of sites the start has read as much as it keeps.
    lockgate_net::memory::collect();
    // A worker that died is no failed start: the service manager may restart the process.
    let end = running.serve(&mut signals, watch).await;
    running.certificates.end();
    running.ddns.end();
    match end {
        ServeEnd::Stop { is_urgent } => Ok(running.stop(signals, is_urgent).await),
        ServeEnd::HandedOver(sockets) => Ok(running.finish_begun(sockets, signals).await),
        ServeEnd::WorkerEnded => Ok(ExitCode::from(UNCLEAN)),
    }
}

/// The endpoints that operators have added and removed while the old process ran, or what was kept
/// of that for the start. What cannot be read is told later, with all other changes.
fn changed_pools(handover: Option<&Handover>, state: Option<&Path>) -> EndpointChanges {
    let handed = handover.map(|handover| HandedChanges::pools_of_json(&handover.changes));
    let kept = || {
        KeptChanges::at_start(state?)
            .ok()
            .map(KeptChanges::into_pools)
    };
    handed.unwrap_or_else(kept).unwrap_or_default()
}

/// What operators have set while the old process ran.
fn handed_changes(handover: &Handover) -> io::Result<HandedChanges> {
    HandedChanges::of_json(&handover.changes).map_err(|error| {
        let why = format!("the run-time changes of the offer cannot be read: {error:#}");
        handover.fail(&why);
        io::Error::other(why)
    })
}

/// Why a process serves no longer.
enum ServeEnd {
    /// A signal or a command asks for it; a second one has asked already if it is urgent.
    Stop {
        is_urgent: bool,
    },
    /// Another process has these sockets, and serves.
    HandedOver(HandedSocketIds),
    WorkerEnded,
}

/// Everything that runs, as the main thread holds it.
pub(crate) struct RunningServer {
    pub(crate) workers: Workers,
    pub(crate) generation: RunningGeneration,
    /// The exposition of the generation that runs.
    exposition: Arc<ArcSwap<Exposition>>,
    /// The page of the metrics address, once there has been one.
    live_page: Option<Arc<LivePage>>,
    socket_files: Vec<SocketFile>,
    metrics: Option<MetricsListener>,
    pub(crate) metrics_at: Option<ListenAddress>,
    /// The admin socket until it is served, and the way from there to `commands`.
    admin: Option<(AdminListener, CommandSender)>,
    admin_at: Option<ListenAddress>,
    admin_task: Option<AbortHandle>,
    /// How far the admin socket serves.
    admin_phase: watch::Sender<AdminPhase>,
    /// Of the sockets of the metrics address and the admin socket, for an upgrade.
    duplicates: Duplicates,
    /// The file of this program, as it was started.
    program: PathBuf,
    commands: CommandReceiver,
    metrics_routes: Option<Arc<MetricsRoutes>>,
    metrics_task: Option<AbortHandle>,
    readiness: Arc<Readiness>,
    memory: MemoryLimit,
    monitor: MemoryMonitor,
    background: RunningBackground,
    certificates: RunningCertificates,
    exporter: Exporter,
    ddns: RunningDdns,
    span_exporter: SpanExporter,
    /// Files that have changed, told to the loop.
    changed: UnboundedSender<Vec<PathBuf>>,
    watched: Arc<WatchedFiles>,
    closing: ClosingListeners,
    /// When what is held to generations before one is cut.
    cuts: Vec<(Instant, u64)>,
    /// The configuration of the start, some keys of which hold until the end.
    started_with: Arc<Config>,
    /// The configuration that runs, as it was loaded, and the one before it as one text.
    loaded: Arc<LoadedConfig>,
    earlier_text: Option<String>,
    /// The folder for the last good configuration, as at the start.
    state: Option<PathBuf>,
    /// The file of kept changes in it.
    kept: Option<KeptFile>,
    /// The changes of operators that the configuration which runs leaves no place.
    ended: EndpointChanges,
}

impl RunningServer {
    /// Starts the workers, and waits until each has the descriptors that it needs for itself. They
    /// accept once they adopt the generation. Not before all are prepared and the start is
    /// announced: connections may take every descriptor, and a worker or the message to systemd
    /// without one would end the process.
    ///
    /// # Errors
    /// When the system has no room for another thread, or the error of a worker that could not have
    /// its descriptors.
    async fn start(
        prepared: Prepared,
        file: Option<Arc<Configuration>>,
        mut background: RunningBackground,
        watched: Arc<WatchedFiles>,
    ) -> io::Result<Self> {
        let mut workers = Workers::start(&prepared)?;
        let Prepared {
            config,
            mut assembly,
            bound,
            metrics,
            admin,
            logs,
            loaded,
            ..
        } = prepared;
        let others = metrics.iter().map(|(_, address)| address);
        let others = others.chain(admin.iter().map(|admin| &admin.address));
        let socket_files = SocketFile::of(&bound, others);
        let known = vec![None; assembly.listeners.len()];
        let planned = &assembly.listeners;
        let mut plan = SocketPlan::new(None, planned, &known, bound, workers.count())?;
        for prepared in workers.prepare(std::mem::take(&mut plan.sockets)) {
            let Ok(prepared) = prepared.await else {
                let error = workers.ended.recv().await.and_then(Result::err);
                return Err(error.unwrap_or_else(|| io::Error::other("a worker has ended")));
            };
            prepared?;
        }
        // Health checks use the resolved addresses.
        let statuses = background.probe(&mut assembly)?;
        let memory = memory::allowed(config.limits.memory);
        let state = config.state.clone();
        if let Some(folder) = &state {
            match KeptChanges::at_start(folder) {
                Ok(kept) => kept.apply(&assembly.pools),
                Err(error) => tracing::warn!(
                    error = format!("{error:#}"),
                    "the kept run-time changes are not taken up"
                ),
            }
        }
        let certificates = RunningCertificates::default();
        let exporter = Exporter::default();
        let ddns = RunningDdns::default();
        let spans = Arc::clone(&workers.shared.spans);
        let parts = GenerationParts {
            loaded: Arc::clone(&loaded),
            file,
            assembly: Arc::new(assembly),
            logs,
            statuses,
            certificates: Arc::clone(&certificates.keeper),
            sinks: exporter.statuses(),
            ddns: Arc::clone(&ddns.keeper),
        };
        let generation = RunningGeneration::new(&workers, None, parts, plan);
        let started_with = Arc::clone(&generation.config);
        let (metrics, metrics_at) = metrics.unzip();
        let ended = generation.assembly.ended.clone();
        let duplicates = Duplicates {
            metrics: metrics.as_ref().and_then(MetricsListener::duplicate),
            admin: admin.as_ref().and_then(AdminListener::duplicate),
        };
        let (sender, commands) = admin::command_channel();
        let admin_at = admin.as_ref().map(|admin| admin.address.clone());
        Ok(Self {
            workers,
            exposition: Arc::new(ArcSwap::from(Arc::clone(&generation.exposition))),
            live_page: None,
            generation,
            socket_files,
            metrics,
            metrics_at,
            admin: admin.map(|admin| (admin, sender)),
            admin_at,
            admin_task: None,
            admin_phase: watch::Sender::default(),
            duplicates,
            program: PathBuf::new(),
            commands,
            metrics_routes: None,
            metrics_task: None,
            readiness: Arc::default(),
            monitor: MemoryMonitor::begin(&memory),
            memory,
            background,
            certificates,
            span_exporter: SpanExporter::new(spans, exporter.statuses()),
            exporter,
            ddns,
            changed: unbounded_channel().0,
            watched,
            closing: ClosingListeners::default(),
            cuts: Vec::new(),
            started_with,
            loaded,
            earlier_text: None,
            kept: state.clone().map(KeptFile::new),
            state,
            ended,
        })
    }

    /// Serves until a signal asks for a stop, another process takes over, or a worker has died.
    async fn serve(&mut self, signals: &mut Signals, watch: FileWatcher) -> ServeEnd {
        tokio::spawn(systemd::keep_watchdog_calm());
        let (changed, mut changes) = unbounded_channel();
        files::tell_changes(watch, changed.clone());
        self.changed = changed;
        self.keep_certificates();
        self.keep_names();
        // Files may have changed between their reading and the watch.
        self.reread(&[]);
        self.watch_files();
        let workers = Arc::clone(&self.workers.shared);
        let mut looked = Instant::now();
        let mut rotation = ticks(ROTATION_CHECKED_EVERY);
        let mut reloads = Reloads::default();
        if let Some(file) = &self.generation.file
            && !file.running().files.contains(&file.file)
        {
            // It was started with another configuration than that of its file.
            reloads.check(Arc::clone(file));
        }
        let mut upgrades = Upgrades::default();
        self.check_after_start(&mut reloads);
        loop {
            let due = self.next_look(looked, &reloads);
            tokio::select! {
                () = workers.worked.notified() => self.look_at_memory(),
                () = sleep_until(due.unwrap_or(looked).into()), if due.is_some() => {
                    looked = Instant::now();
                    self.look_at_memory();
                    self.cut_earlier();
                    self.check_confirmation(&mut reloads);
                }
                _ = rotation.tick() => self.rotate(),
                Some(mut changed) = changes.recv() => {
                    while let Ok(more) = changes.try_recv() {
                        changed.extend(more);
                    }
                    self.reread(&changed);
                    let changed = self.of_configuration(changed);
                    if !changed.is_empty() {
                        self.files_changed_beside(&mut upgrades, &mut reloads, &changed);
                    }
                }
                Some(step) = reloads.step() => {
                    self.continue_reload_beside(&mut upgrades, &mut reloads, step);
                }
                Some(result) = upgrades.finished() => {
                    if let Some(sockets) = self.end_upgrade(&mut upgrades, &mut reloads, result) {
                        return ServeEnd::HandedOver(sockets);
                    }
                }
                action = signals.next() => match action {
                    SignalAction::Stop => {
                        return self.stop_beside(&mut upgrades, &mut reloads, signals).await;
                    }
                    SignalAction::Reload => self.reload_file_beside(&mut upgrades, &mut reloads),
                    SignalAction::Upgrade => self.upgrade(&mut upgrades, &reloads),
                    SignalAction::Reopen => {
                        self.reopen();
                    }
                },
                Some(command) = self.commands.recv() => {
                    if self.obey(command, &mut reloads, &mut upgrades) == LoopEnd::Ends {
                        return self.stop_beside(&mut upgrades, &mut reloads, signals).await;
                    }
                }
                ended = self.workers.ended.recv() => {
                    let error = ended.and_then(Result::err).map(|error| error.to_string());
                    tracing::error!(error, "a worker has ended");
                    return ServeEnd::WorkerEnded;
                }
            }
        }
    }

    /// When there is something to do that nothing else wakes this thread for, if there is: with the
    /// next tick while memory is scarce or its level is to be logged, and where a time ends.
    fn next_look(&self, looked: Instant, reloads: &Reloads) -> Option<Instant> {
        let tick = looked + TICK;
        let ends = self.cuts.iter().map(|(end, _)| (*end).max(tick));
        let end = reloads.unconfirmed_until().map(|end| end.max(tick));
        let is_due = self.monitor.is_scarce() || self.monitor.is_untold();
        let memory = is_due.then_some(tick);
        ends.chain(end).chain(memory).min()
    }

    /// Measures memory, and has the workers free some where it is scarce: a worker that sleeps would
    /// not look.
    fn look_at_memory(&mut self) {
        self.monitor.look();
        if self.monitor.is_scarce() {
            self.workers.nudge();
        }
    }

    fn announce(&self) {
        let generation = &self.generation;
        let planned = generation.assembly.listeners.iter();
        for (planned, running) in planned.zip(&generation.listeners) {
            let address = &running.bound;
            let what = generation::kind(planned);
            tracing::info!(listener = %planned.listener.name, %address, what, "listening");
        }
        if let Some(address) = &self.metrics_at {
            tracing::info!(%address, "metrics");
        }
        if let Some(address) = &self.admin_at {
            tracing::info!(%address, "admin");
        }
        if let Some(configuration) = generation.file.as_deref() {
            let (file, hash) = (&configuration.file, &configuration.running().hash);
            tracing::info!(file = %file.display(), hash, "configuration");
        }
        self.readiness.enter(Phase::Ready);
        let connections = generation.exposition.connection_limit();
        let limited_by = match generation.config.limits.connections {
            Some(_) => "limits.connections",
            None if connections < descriptors::MOST_CONNECTIONS => "descriptors",
            None => "default",
        };
        let sockets = generation.exposition.socket_limit();
        tracing::info!(
            workers = self.workers.count(),
            connections,
            limited_by,
            sockets,
            memory = self.memory.bytes,
            memory_by = %self.memory.why,
            "ready"
        );
    }

    /// The bound addresses of the listeners.
    pub(crate) fn bound(&self) -> Vec<&ListenAddress> {
        let listeners = self.generation.listeners.iter();
        listeners.map(|listener| &listener.bound).collect()
    }

    fn status(&self) -> String {
        let count = self.generation.listeners.len();
        let plural = if count == 1 { "" } else { "s" };
        let serving = format!("serving {count} listener{plural}");
        match self.generation.file.as_ref().and_then(|file| file.status()) {
            Some(more) => format!("{serving}; {more}"),
            None => serving,
        }
    }

    fn serve_metrics(&mut self) {
        let Some(listener) = self.metrics.take() else {
            return;
        };
        let (metrics, top) = (Arc::clone(&self.exposition), Arc::clone(&self.exposition));
        let certs = Arc::clone(&self.exposition);
        let page = Arc::clone(self.live_page.get_or_insert_with(|| {
            let (exposition, readiness) = (&self.exposition, &self.readiness);
            let page = LivePage::new(
                Arc::clone(exposition),
                Arc::clone(readiness),
                self.workers.count(),
            );
            tokio::spawn(Arc::clone(&page).run());
            page
        }));
        let pages = PagesGuard(Arc::clone(&page));
        let endpoints = MetricsRoutes {
            metrics: Box::new(move || metrics.load().metrics()),
            top: Box::new(move || top.load().top()),
            events: Box::new(move || page.open()),
            readiness: Arc::clone(&self.readiness),
            awaited: Box::new(move || certs.load().awaited_certs()),
            hosts: ArcSwap::from_pointee(AllowedHosts::new(
                self.generation
                    .config
                    .metrics
                    .as_ref()
                    .map_or(&[], |metrics| &metrics.hosts),
            )),
        };
        let endpoints = Arc::new(endpoints);
        self.metrics_routes = Some(Arc::clone(&endpoints));
        let serving = tokio::spawn(async move {
            let _pages = pages;
            if let Err(error) = metrics_server::serve(listener, endpoints).await {
                tracing::error!(%error, "the metrics address is no longer served");
            }
        });
        self.metrics_task = Some(serving.abort_handle());
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
