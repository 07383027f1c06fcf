//! The main thread while Lockgate runs: signals, the workers' tick, changed certificates, and the
//! orderly end.

mod commands;
mod reload;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lockgate_config::{LoadedConfig, Report};
use lockgate_limits::clock::TICK;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::configuration::Configuration;
use crate::file_watcher::FileWatcher;
use crate::log_writer;
use crate::metrics_server::{self, AllowedHosts, MetricsRoutes, Phase};
use crate::signals::{SignalAction, Signals};
use crate::socket_file::SocketFile;
use crate::start::{self, RunningServer};
use crate::start_steps::{self, Prepared};
use crate::worker::WorkerOrder;
use crate::{descriptors, fetcher, operator_log, print, resolver, state, systemd};

use commands::{FileChecks, LoopEnd};

/// The time that a disk which does not hang needs to write a log.
const DISK_TIME: Duration = Duration::from_millis(200);

/// The time for closing connections that were cut, and for writing the log.
const LAST_MOMENTS: Duration = Duration::from_secs(3);
/// The interval of checks whether ticket keys are due: they live for hours.
const ROTATION_CHECKED_EVERY: Duration = Duration::from_secs(60);
/// The exit code of a stop that had to cut connections.
const UNCLEAN: u8 = 3;

/// Runs until a signal ends it.
///
/// `file` is the file of the configuration, if it has one; `greet` is called once everything is
/// bound and runs.
pub(crate) fn run(
    loaded: &LoadedConfig,
    file: Option<Arc<Configuration>>,
    greet: impl FnOnce(&RunningServer),
) -> ExitCode {
    let config = &loaded.config;
    if let Err(error) = operator_log::init(
        print::level(config.log.level),
        print::format(config.log.format),
    ) {
        eprintln!("lockgate: {error:#}");
    }
    print::report(&loaded.warnings);
    let mut report = Report::new();
    let prepared = start_steps::prepare(loaded, &mut report);
    print::report(&report);
    let Some(prepared) = prepared else {
        if let Some(good) = config.state.as_deref().and_then(state::last_good) {
            eprintln!(
                "The last configuration that worked: lockgate run -c {}",
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
        .build()
        .and_then(|runtime| {
            let code = runtime.block_on(supervise(prepared, file, greet));
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

async fn supervise(
    mut prepared: Prepared,
    file: Option<Arc<Configuration>>,
    greet: impl FnOnce(&RunningServer),
) -> io::Result<ExitCode> {
    let mut signals = Signals::new()?;
    // A connection before the first answer would find no address.
    let resolving = std::mem::take(&mut prepared.assembly.resolver).start();
    resolving.first_answers(resolver::PATIENCE).await;
    // The first page shows fetched values.
    let fetching = std::mem::take(&mut prepared.assembly.fetcher).start()?;
    if let Some(fetching) = &fetching {
        fetching.first_tries(fetcher::PATIENCE).await;
    }
    // Everything that needs a descriptor takes it before connections can have the last one.
    let watch = FileWatcher::new(prepared.assembly.files());
    let mut running = start::start_workers(prepared, file)?;
    running.prepared().await?;
    // Health checks use the resolved addresses; dropping this ends them.
    let _probing = std::mem::take(&mut running.assembly.prober).start()?;
    running.announce();
    greet(&running);
    running.serve_metrics();
    running.serve_admin();
    running.begin();
    // A worker that died is no failed start: the service manager may restart the process.
    if running.serve(&mut signals, watch).await {
        Ok(running.stop(signals).await)
    } else {
        Ok(ExitCode::from(UNCLEAN))
    }
}

impl RunningServer {
    /// Waits until every worker has the descriptors that it needs for itself.
    ///
    /// # Errors
    /// The error of a worker that could not have them.
    async fn prepared(&mut self) -> io::Result<()> {
        for prepared in self.preparing.drain(..) {
            if prepared.await.is_err() {
                let error = self.ended.recv().await.and_then(Result::err);
                return Err(error.unwrap_or_else(|| io::Error::other("a worker has ended")));
            }
        }
        Ok(())
    }

    /// Lets the workers accept. Not before all are prepared and the start is announced: connections
    /// may take every descriptor, and a worker or the message to systemd without one would end the
    /// process.
    fn begin(&self) {
        self.orders.give(WorkerOrder::Serve);
        self.tickers.iter().for_each(|ticker| ticker.nudge());
    }

    /// Serves until a signal asks for a stop; false when a worker has died.
    async fn serve(&mut self, signals: &mut Signals, watch: FileWatcher) -> bool {
        tokio::spawn(systemd::keep_watchdog_calm());
        let mut changes = reload::changes(watch);
        // Files may have changed between their reading and the watch.
        self.reload(&[]);
        let mut tick = ticks(TICK);
        let mut rotation = ticks(ROTATION_CHECKED_EVERY);
        let mut checks = FileChecks::default();
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    self.monitor.tick();
                    self.tickers.iter().for_each(|ticker| ticker.tick());
                }
                _ = rotation.tick() => self.rotate(),
                Some(changed) = changes.recv() => self.reload(&changed),
                action = signals.next() => match action {
                    SignalAction::Stop => return true,
                    SignalAction::Reload => self.reload_and_check(&mut checks, None),
                    action => self.handle(action),
                },
                Some(command) = self.commands.recv() => {
                    if self.obey(command, &mut checks) == LoopEnd::Ends {
                        return true;
                    }
                }
                () = checks.ended() => self.checked(&mut checks),
                ended = self.ended.recv() => {
                    let error = ended.and_then(Result::err).map(|error| error.to_string());
                    tracing::error!(error, "a worker has ended");
                    return false;
                }
            }
        }
    }

    /// Handles a signal that does not stop the process.
    fn handle(&self, action: SignalAction) {
        match action {
            SignalAction::Stop => {}
            SignalAction::Reload => {
                tracing::warn!(
                    "certificates are reloaded, but not the configuration: restart for that"
                );
                self.reload(&[]);
            }
            SignalAction::Reopen => {
                self.reopen();
            }
            SignalAction::Upgrade => {
                tracing::warn!("the binary cannot be replaced while it runs: restart for that")
            }
        }
    }

    fn announce(&self) {
        for (planned, address) in self.assembly.listeners.iter().zip(&self.bound) {
            let what = commands::kind(planned);
            tracing::info!(listener = %planned.listener.name, %address, what, "listening");
        }
        if let Some(address) = &self.metrics_at {
            tracing::info!(%address, "metrics");
        }
        if let Some((listener, _)) = &self.admin {
            tracing::info!(address = %listener.address, "admin");
        }
        if let Some(Configuration { file, hash, .. }) = self.file.as_deref() {
            tracing::info!(file = %file.display(), hash, "configuration");
        }
        self.readiness.enter(Phase::Ready);
        let connections = self.exposition.connection_limit();
        let limited_by = match self.config.limits.connections {
            Some(_) => "limits.connections",
            None if connections < descriptors::MOST_CONNECTIONS => "descriptors",
            None => "default",
        };
        let sockets = self.exposition.socket_limit();
        tracing::info!(
            workers = self.tickers.len(),
            connections,
            limited_by,
            sockets,
            memory = self.memory.bytes,
            memory_by = %self.memory.why,
            "ready"
        );
        systemd::ready(&self.status());
    }

    fn status(&self) -> String {
        let plural = if self.bound.len() == 1 { "" } else { "s" };
        let serving = format!("serving {} listener{plural}", self.bound.len());
        match self.file.as_ref().and_then(|file| file.status()) {
            Some(more) => format!("{serving}; {more}"),
            None => serving,
        }
    }

    fn serve_metrics(&mut self) {
        let Some(listener) = self.metrics.take() else {
            return;
        };
        let (metrics, top) = (Arc::clone(&self.exposition), Arc::clone(&self.exposition));
        let endpoints = MetricsRoutes {
            metrics: Box::new(move || metrics.metrics()),
            top: Box::new(move || top.top()),
            readiness: Arc::clone(&self.readiness),
            hosts: AllowedHosts::new(
                self.config
                    .metrics
                    .as_ref()
                    .map_or(&[], |metrics| &metrics.hosts),
            ),
        };
        tokio::spawn(async move {
            if let Err(error) = metrics_server::serve(listener, Arc::new(endpoints)).await {
                tracing::error!(%error, "the metrics address is no longer served");
            }
        });
    }

    /// Stops as a load balancer in front expects: reports not ready, waits, accepts the backlog,
    /// and lets connections finish.
    async fn stop(mut self, mut signals: Signals) -> ExitCode {
        let drain = self.config.drain;
        self.readiness.enter(Phase::Draining);
        systemd::stopping("draining");
        tracing::info!(delay = ?drain.delay, deadline = ?drain.deadline, "draining");
        let mut clean = self.pause(drain.delay, &mut signals).await;
        if clean {
            self.orders.give(WorkerOrder::Stop);
            clean = self.wait(drain.deadline, &mut signals).await;
        }
        if !clean {
            self.orders.give(WorkerOrder::Cut);
            self.wait(LAST_MOMENTS, &mut signals).await;
            if self.left > 0 {
                tracing::error!("some connections did not end although they were cut");
            }
        }
        self.socket_files.iter().for_each(SocketFile::remove);
        if let Some(logs) = self.logs.take() {
            self.threads
                .drain(..)
                .filter(JoinHandle::is_finished)
                .for_each(|thread| drop(thread.join()));
            // A log that hangs uses up the time of all logs, except the time of a disk that does
            // not.
            let last = Instant::now() + LAST_MOMENTS;
            for log in logs.into_all() {
                let left = last
                    .saturating_duration_since(Instant::now())
                    .max(DISK_TIME);
                if log.finish(left) == log_writer::WriterEnd::GivenUp {
                    tracing::warn!("the last lines of an access log could not be written");
                }
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
                    self.monitor.tick();
                    self.tickers.iter().for_each(|ticker| ticker.tick());
                    systemd::extend_timeout(TICK * 20);
                }
                action = signals.next() => match action {
                    SignalAction::Stop => return false,
                    action => self.handle(action),
                },
                Some(command) = self.commands.recv() => {
                    if self.obey_draining(command) == LoopEnd::Ends {
                        return false;
                    }
                }
            }
        }
    }

    /// Waits until every worker has ended; false when `deadline` passes first, a second signal
    /// comes, or one had to cut.
    async fn wait(&mut self, deadline: Duration, signals: &mut Signals) -> bool {
        let mut tick = ticks(TICK);
        let mut over = std::pin::pin!(sleep(deadline));
        let mut clean = true;
        while self.left > 0 {
            tokio::select! {
                () = &mut over => return false,
                _ = tick.tick() => {
                    self.monitor.tick();
                    self.tickers.iter().for_each(|ticker| ticker.nudge());
                    systemd::extend_timeout(TICK * 20);
                }
                ended = self.ended.recv() => {
                    clean &= matches!(ended, Some(Ok(0)));
                    self.left -= 1;
                }
                action = signals.next() => match action {
                    SignalAction::Stop => return false,
                    action => self.handle(action),
                },
                Some(command) = self.commands.recv() => {
                    if self.obey_draining(command) == LoopEnd::Ends {
                        return false;
                    }
                }
            }
        }
        clean
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
