//! The main thread while everything runs: signals, the workers' tick, changed certificates, and the
//! end in its order.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lockgate_config::{Config, LoadedConfig, Report};
use lockgate_net::listen::ListenAddress;
use lockgate_net::tls::{Acceptor, KeyRotation, KeysReloaded, TicketRing, TlsSetupError};
use lockgate_proxy::admit::basic_auth::Checker;
use lockgate_proxy::clock::{TICK, Ticker};
use lockgate_proxy::downstream::Service;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::assemble::Assembly;
use crate::configuration::Configuration;
use crate::exposition::Exposition;
use crate::log_writer::{self, LogWriter};
use crate::memory::{Allowed, Measuring};
use crate::metrics_server::{self, Endpoints, Hosts, Phase, Readiness};
use crate::opening::{self, Logs, Prepared};
use crate::signals::{Asked, Signals};
use crate::start::{self, SocketFile};
use crate::watch::Watch;
use crate::worker::{Order, Orders};
use crate::{descriptors, fetcher, operator_log, print, resolver, state, systemd};

/// For a log to be written by a disk that does not hang.
const HONEST_DISK: Duration = Duration::from_millis(200);

/// For connections that were cut to be closed, and for the log to be written.
const LAST_MOMENTS: Duration = Duration::from_secs(3);
/// How often ticket keys are looked at: they live for hours.
const ROTATION_CHECKED_EVERY: Duration = Duration::from_secs(60);
/// A stop that had to cut somebody.
const UNCLEAN: u8 = 3;

/// Runs until a signal ends it.
///
/// `file` is where the configuration was read from, if it was; `greet` is called once everything is
/// bound and runs.
pub(crate) fn run(
    loaded: &LoadedConfig,
    file: Option<Arc<Configuration>>,
    greet: impl FnOnce(&Running),
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
    let prepared = opening::prepare(loaded, &mut report);
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
    // Privileges are dropped by now, and what fails the start is written already.
    if let Err(error) = operator_log::start_thread() {
        tracing::warn!(%error, "the operator log has no thread: a standard error that nobody reads stops everything");
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
        tracing::error!(%error, "cannot run");
        ExitCode::FAILURE
    });
    operator_log::finish();
    code
}

async fn supervise(
    mut prepared: Prepared,
    file: Option<Arc<Configuration>>,
    greet: impl FnOnce(&Running),
) -> io::Result<ExitCode> {
    let mut signals = Signals::new()?;
    // A connection that came before the first answer would find no address.
    let resolving = std::mem::take(&mut prepared.assembly.resolver).start();
    resolving.first_answers(resolver::PATIENCE).await;
    // What pages show is there with the first of them.
    let fetching = std::mem::take(&mut prepared.assembly.fetcher).start()?;
    if let Some(fetching) = &fetching {
        fetching.first_tries(fetcher::PATIENCE).await;
    }
    // What takes a descriptor takes it before the first connection can have the last one.
    let watch = Watch::new(prepared.assembly.files());
    let mut running = start::start_workers(prepared, file)?;
    running.prepared().await?;
    // Checks ask the addresses that names resolve to; its drop ends them.
    let _probing = std::mem::take(&mut running.assembly.prober).start()?;
    running.announce();
    greet(&running);
    running.serve_metrics();
    running.begin();
    // A worker that died is no failed start: whoever watches over us may start us again.
    if running.serve(&mut signals, watch).await {
        Ok(running.stop(signals).await)
    } else {
        Ok(ExitCode::from(UNCLEAN))
    }
}

/// Everything that runs, as the main thread holds it.
pub(crate) struct Running {
    pub(crate) config: Config,
    /// Where that was read from, if it was a file.
    pub(crate) file: Option<Arc<Configuration>>,
    pub(crate) assembly: Assembly,
    pub(crate) bound: Vec<ListenAddress>,
    pub(crate) socket_files: Vec<SocketFile>,
    pub(crate) metrics: Option<metrics_server::Listener>,
    pub(crate) metrics_at: Option<ListenAddress>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) exposition: Arc<Exposition>,
    /// How much memory there may be.
    pub(crate) memory: Allowed,
    /// How much of it is in use and not counted.
    pub(crate) measuring: Measuring,
    pub(crate) logs: Option<Logs>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) tickers: Vec<Arc<Ticker>>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// What each worker tells when it has what it needs for itself.
    pub(crate) preparing: Vec<oneshot::Receiver<()>>,
    /// What each worker ended with.
    pub(crate) ended: UnboundedReceiver<io::Result<usize>>,
    /// Workers that have not ended yet.
    pub(crate) left: usize,
}

impl Running {
    /// Waits until every worker has what it needs for itself.
    ///
    /// # Errors
    /// What a worker ended with that could not have it.
    async fn prepared(&mut self) -> io::Result<()> {
        for told in self.preparing.drain(..) {
            if told.await.is_err() {
                let error = self.ended.recv().await.and_then(Result::err);
                return Err(error.unwrap_or_else(|| io::Error::other("a worker has ended")));
            }
        }
        Ok(())
    }

    /// Has the workers accept. Not before all are prepared and the start is announced: connections
    /// take every descriptor that there is, and a worker or the word to systemd that finds none
    /// left is the end of the process.
    fn begin(&self) {
        self.orders.give(Order::Serve);
        self.tickers.iter().for_each(|ticker| ticker.nudge());
    }

    /// Serves until it is to stop; false when a worker has died.
    async fn serve(&mut self, signals: &mut Signals, watch: Watch) -> bool {
        tokio::spawn(systemd::keep_watchdog_calm());
        let mut changes = changes(watch);
        // What has changed between reading the files and watching them.
        self.reload(&[]);
        let mut tick = ticks(TICK);
        let mut rotation = ticks(ROTATION_CHECKED_EVERY);
        // One look at the file at a time, and one more after it when another HUP has come
        // meanwhile.
        let (mut looks, mut again) = (JoinSet::new(), false);
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    self.measuring.tick();
                    self.tickers.iter().for_each(|ticker| ticker.tick());
                }
                _ = rotation.tick() => self.rotate(),
                Some(changed) = changes.recv() => self.reload(&changed),
                asked = signals.next() => match asked {
                    Asked::Stop => return true,
                    Asked::Reload => {
                        systemd::reloading();
                        tracing::info!("certificates are read again");
                        self.reload(&[]);
                        if !looks.is_empty() {
                            again = true;
                        } else if !self.look(&mut looks) {
                            systemd::ready(&self.status());
                        }
                    }
                    asked => self.heed(asked),
                },
                Some(_) = looks.join_next() => {
                    if !(std::mem::take(&mut again) && self.look(&mut looks)) {
                        systemd::ready(&self.status());
                    }
                }
                ended = self.ended.recv() => {
                    let error = ended.and_then(Result::err).map(|error| error.to_string());
                    tracing::error!(error, "a worker has ended");
                    return false;
                }
            }
        }
    }

    /// Has the configuration's file looked at, off this thread; false where there is none.
    fn look(&self, looks: &mut JoinSet<()>) -> bool {
        let Some(file) = self.file.clone() else {
            return false;
        };
        looks.spawn_blocking(move || file.look());
        true
    }

    /// Does what a signal asks for that ends nothing.
    fn heed(&self, asked: Asked) {
        match asked {
            Asked::Stop => {}
            Asked::Reload => {
                tracing::warn!(
                    "certificates are read again, the configuration is not: restart for that"
                );
                self.reload(&[]);
            }
            Asked::Reopen => {
                let mut logs = self.logs.iter().flat_map(Logs::iter).peekable();
                if logs.peek().is_none() {
                    tracing::info!("there is no access log to open again");
                }
                logs.for_each(LogWriter::reopen);
            }
            Asked::Upgrade => {
                tracing::warn!("the binary is not replaced while it runs: restart for that")
            }
        }
    }

    fn announce(&self) {
        for (planned, address) in self.assembly.listeners.iter().zip(&self.bound) {
            let what = match (&planned.listener.service, &planned.listener.tls) {
                (Service::Http(_), Some(_)) => "https",
                (Service::Http(_), None) => "http",
                (Service::Relay(_), Some(_)) | (Service::ByHello(_), _) => "tls",
                (Service::Relay(_), None) => "tcp",
            };
            tracing::info!(listener = %planned.listener.name, %address, what, "listening");
        }
        if let Some(address) = &self.metrics_at {
            tracing::info!(%address, "metrics");
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
        let endpoints = Endpoints {
            metrics: Box::new(move || metrics.metrics()),
            top: Box::new(move || top.top()),
            readiness: Arc::clone(&self.readiness),
            hosts: Hosts::new(
                self.config
                    .metrics
                    .as_ref()
                    .map_or(&[], |metrics| &metrics.hosts),
            ),
        };
        tokio::spawn(async move {
            if let Err(error) = metrics_server::serve(listener, Arc::new(endpoints)).await {
                tracing::error!(%error, "the metrics address is not served");
            }
        });
    }

    fn rotate(&self) {
        for ring in &self.assembly.rings {
            match ring.rotate_if_due(Instant::now()) {
                Ok(KeyRotation::NotDue) => {}
                Ok(KeyRotation::Rotated) => tracing::info!("session tickets have a new key"),
                Err(error) => tracing::error!(%error, "session tickets keep their key"),
            }
        }
    }

    /// Reads certificates, authorities, ticket keys and users again; what cannot be read stays as
    /// it was.
    fn reload(&self, changed: &[PathBuf]) {
        if !changed.is_empty() {
            tracing::debug!(files = ?changed, "files have changed");
        }
        for (pool, connector) in &self.assembly.connectors {
            match connector.reload() {
                Ok(true) => tracing::info!(pool, "authorities of the endpoints replaced"),
                Err(error) => tracing::error!(pool, %error, "the old authorities stay in use"),
                Ok(false) => {}
            }
        }
        for planned in &self.assembly.listeners {
            for acceptor in planned.listener.acceptors() {
                reload_certificates(&planned.listener.name, acceptor);
            }
        }
        self.assembly
            .rings
            .iter()
            .for_each(|ring| reload_ring(ring));
        for checker in &self.assembly.checkers {
            let is_named = changed.iter().any(|path| path == checker.path());
            if is_named || changed.is_empty() {
                reload_users(checker, is_named);
            }
        }
    }

    /// Stops as a load balancer wishes it: say so, wait, accept what has come, let everybody
    /// finish.
    async fn stop(mut self, mut signals: Signals) -> ExitCode {
        let drain = self.config.drain;
        self.readiness.enter(Phase::Draining);
        systemd::stopping("draining");
        tracing::info!(delay = ?drain.delay, deadline = ?drain.deadline, "draining");
        let mut clean = self.pause(drain.delay, &mut signals).await;
        if clean {
            self.orders.give(Order::Stop);
            clean = self.wait(drain.deadline, &mut signals).await;
        }
        if !clean {
            self.orders.give(Order::Cut);
            self.wait(LAST_MOMENTS, &mut signals).await;
            if self.left > 0 {
                tracing::error!("some connections did not end even so");
            }
        }
        self.socket_files.iter().for_each(SocketFile::remove);
        if let Some(logs) = self.logs.take() {
            self.threads
                .drain(..)
                .filter(JoinHandle::is_finished)
                .for_each(|thread| drop(thread.join()));
            // One that hangs takes the time of all, but for what an honest disk needs.
            let last = Instant::now() + LAST_MOMENTS;
            for log in logs.into_all() {
                let left = last
                    .saturating_duration_since(Instant::now())
                    .max(HONEST_DISK);
                if log.finish(left) == log_writer::Finished::GivenUp {
                    tracing::warn!("an access log could not be written to its end");
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

    /// Lets time pass; false when a second signal cuts it short.
    async fn pause(&mut self, delay: Duration, signals: &mut Signals) -> bool {
        let mut tick = ticks(TICK);
        let mut over = std::pin::pin!(sleep(delay));
        loop {
            tokio::select! {
                () = &mut over => return true,
                _ = tick.tick() => {
                    self.measuring.tick();
                    self.tickers.iter().for_each(|ticker| ticker.tick());
                    systemd::extend_timeout(TICK * 20);
                }
                asked = signals.next() => match asked {
                    Asked::Stop => return false,
                    asked => self.heed(asked),
                },
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
                    self.measuring.tick();
                    self.tickers.iter().for_each(|ticker| ticker.nudge());
                    systemd::extend_timeout(TICK * 20);
                }
                ended = self.ended.recv() => {
                    clean &= matches!(ended, Some(Ok(0)));
                    self.left -= 1;
                }
                asked = signals.next() => match asked {
                    Asked::Stop => return false,
                    asked => self.heed(asked),
                },
            }
        }
        clean
    }
}

/// Watches in a task of its own: it waits until the files fall quiet, which nothing else may
/// interrupt.
fn changes(mut watch: Watch) -> UnboundedReceiver<Vec<PathBuf>> {
    let (tell, changes) = unbounded_channel();
    tokio::spawn(async move { while tell.send(watch.changed().await).is_ok() {} });
    changes
}

fn reload_certificates(listener: &str, acceptor: &Acceptor) {
    let report = acceptor.reload();
    for path in &report.changed {
        tracing::info!(listener, path = %path.display(), "certificate replaced");
    }
    for error in &report.failed {
        match error {
            TlsSetupError::ClientCa { .. } => {
                tracing::error!(listener, %error, "the old authorities of clients stay in use");
            }
            error => tracing::error!(listener, %error, "the old certificate stays in use"),
        }
    }
    for warning in &report.warnings {
        tracing::warn!(listener, "{warning}");
    }
}

fn reload_users(checker: &Checker, changed: bool) {
    match checker.reload() {
        Ok(()) if changed => tracing::info!(path = %checker.path().display(), "users replaced"),
        Ok(()) => {}
        Err(error) => tracing::error!(%error, "the old users stay"),
    }
}

fn reload_ring(ring: &TicketRing) {
    match ring.reload() {
        Ok(KeysReloaded::Read(warnings)) => {
            warnings
                .iter()
                .for_each(|warning| tracing::warn!("{warning}"));
        }
        Ok(_) => {}
        Err(error) => tracing::error!(%error, "the old ticket keys stay in use"),
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
