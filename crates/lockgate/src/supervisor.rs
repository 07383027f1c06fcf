//! The main thread: starts everything in order, listens to signals, ticks the workers, and ends everything in order.
//!
//! What needs privileges is bound and read first; they are dropped while there is one thread; then the others start.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lockgate_config::{Code, Config, LogTarget, Loaded, Report, Workers};
use lockgate_metrics::Shards;
use lockgate_net::listen::{self, Address, Bound};
use lockgate_net::socket::Family;
use lockgate_net::tls::{Rotation, TicketRing};
use lockgate_proxy::access_log::{Log, MaskIp};
use lockgate_proxy::clock::{Pulse, TICK};
use lockgate_proxy::limits::{Limit, PerClient};
use lockgate_proxy::metrics::{ListenerCells, WorkerCells};
use lockgate_proxy::worker::{Published, Setup, Shared};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::assemble::{self, Assembly, FIRST_ANSWERS, Planned};
use crate::exposition::Exposition;
use crate::log_writer::{self, LogWriter, Target};
use crate::metrics_server::{self, Endpoints, Phase, Readiness};
use crate::systemd::InheritedAddress;
use crate::watch::Watch;
use crate::worker::{self, Order, Orders, Task};
use crate::{descriptors, operator_log, print, privileges, state, systemd};

/// For connections that were cut to be closed, and for the log to be written.
const LAST_MOMENTS: Duration = Duration::from_secs(3);
/// How often ticket keys are looked at: they live for hours.
const ROTATION_CHECKED_EVERY: Duration = Duration::from_secs(60);
/// A stop that had to cut somebody.
const UNCLEAN: u8 = 3;

/// Runs until a signal ends it.
pub(crate) fn run(loaded: &Loaded) -> ExitCode {
    let config = &loaded.config;
    if let Err(error) = operator_log::init(print::level(config.log.level), print::format(config.log.format)) {
        eprintln!("lockgate: {error:#}");
    }
    print::report(&loaded.warnings);
    let mut report = Report::new();
    let started = start(loaded, &mut report);
    print::report(&report);
    let Some(started) = started else {
        if let Some(good) = config.state.as_deref().and_then(state::last_good) {
            eprintln!("The last configuration that worked: lockgate run -c {}", good.display());
        }
        return ExitCode::FAILURE;
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot start");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(started.supervise());
    // A name server that does not answer must not hold up the end.
    runtime.shutdown_background();
    code
}

/// Everything that runs, as the main thread holds it.
struct Running {
    config: Config,
    assembly: Assembly,
    bound: Vec<Address>,
    metrics: Option<metrics_server::Listener>,
    readiness: Arc<Readiness>,
    exposition: Arc<Exposition>,
    log: Option<LogWriter>,
    orders: Arc<Orders>,
    pulses: Vec<Arc<Pulse>>,
    threads: Vec<JoinHandle<()>>,
    /// What each worker ended with.
    ended: UnboundedReceiver<std::io::Result<usize>>,
}

fn start(loaded: &Loaded, report: &mut Report) -> Option<Running> {
    let config = &loaded.config;
    if let Err(error) = descriptors::raise() {
        tracing::warn!(%error, "the limit on open descriptors stays as it is");
    }
    let workers = match config.workers {
        Workers::Count(count) => count.get(),
        // Follows the CPU quota of a container and the affinity of the process.
        Workers::Auto => thread::available_parallelism().map_or(1, usize::from),
    };
    let assembly = assemble::assemble(config, report)?;
    let bound = bind_all(&assembly.listeners, workers, report)?;
    let metrics = match &config.metrics {
        None => None,
        Some(address) => Some(bind_metrics(&assemble::address(address), report)?),
    };
    become_user(config, report)?;
    let log = open_log(config, report)?;
    if let Some(dir) = &config.state
        && let Err(error) = state::keep_last_good(dir, &loaded.merged_toml())
    {
        report.push(Code::StateUnwritten, format!("{}: {error}", dir.display()), "", "");
    }
    Some(start_workers(config.clone(), assembly, bound, metrics, log, workers))
}

fn bind_all(listeners: &[Planned], workers: usize, report: &mut Report) -> Option<Vec<Bound>> {
    let inherited = match systemd::inherited_sockets() {
        Ok(inherited) => inherited,
        Err(error) => {
            report.push(Code::AddressUnavailable, format!("sockets from systemd: {error}"), "", "");
            return None;
        }
    };
    let mut bound = Vec::new();
    for planned in listeners {
        let activated = inherited.iter().find(|inherited| is_at(&inherited.address, &planned.address));
        let result = match activated {
            Some(inherited) => share(&inherited.socket, &planned.address, workers),
            None => listen::bind(&planned.address, &planned.options, workers),
        };
        match result {
            Ok(sockets) => bound.push(sockets),
            Err(error) => {
                let (code, cure) = binding_failed(&error);
                report.push_at(code, &planned.at, format!("cannot listen on {}: {error}", planned.address), "", cure);
            }
        }
    }
    (bound.len() == listeners.len()).then_some(bound)
}

fn is_at(inherited: &InheritedAddress, planned: &Address) -> bool {
    match (inherited, planned) {
        (InheritedAddress::Tcp(at), Address::Ip(address)) => at == address,
        (InheritedAddress::Tcp(at), Address::All(port)) => at.port() == *port && at.ip().is_unspecified(),
        (InheritedAddress::Unix(at), Address::Unix(path)) => at == path,
        _ => false,
    }
}

/// A socket that was handed to us is one: the workers share it.
fn share(socket: &OwnedFd, address: &Address, workers: usize) -> std::io::Result<Bound> {
    let sockets = (0..workers).map(|_| socket.try_clone()).collect::<Result<_, _>>()?;
    rustix::io::ioctl_fionbio(socket.as_fd(), true)?;
    Ok(Bound { address: address.clone(), sockets })
}

fn binding_failed(error: &std::io::Error) -> (Code, &'static str) {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => (Code::AddressInUse, "`ss -ltnp` says which process listens there"),
        std::io::ErrorKind::PermissionDenied => {
            (Code::AddressForbidden, "ports below 1024 need root or CAP_NET_BIND_SERVICE; `user` drops root afterwards")
        }
        _ => (Code::AddressUnavailable, ""),
    }
}

fn bind_metrics(address: &Address, report: &mut Report) -> Option<metrics_server::Listener> {
    let options = listen::Options { backlog: 128, fast_open: false, keepalive: None, defer_accept: None };
    let bound = listen::bind(address, &options, 1);
    let made = bound.map(|bound| (bound.address, bound.sockets.into_iter().next()));
    match made {
        Ok((Address::Unix(_), Some(socket))) => Some(metrics_server::Listener::Unix(UnixListener::from(socket))),
        Ok((address, Some(socket))) => {
            tracing::info!(address = %address, "metrics");
            Some(metrics_server::Listener::Tcp(TcpListener::from(socket)))
        }
        Ok((_, None)) => None,
        Err(error) => {
            let (code, cure) = binding_failed(&error);
            report.push(code, format!("cannot listen on the metrics address {address}: {error}"), "", cure);
            None
        }
    }
}

/// Gives up privileges for good; nothing that needs them comes after this.
fn become_user(config: &Config, report: &mut Report) -> Option<()> {
    let account = match config.user.as_deref().map(privileges::Account::look_up).transpose() {
        Ok(account) => account,
        Err(error) => {
            report.push(Code::UnknownUser, format!("{error:#}"), "", "");
            return None;
        }
    };
    if let Some(dir) = &config.state
        && let Err(error) = state::prepare(dir, account.as_ref().map(privileges::Account::ids))
    {
        report.push(Code::StateUnwritable, format!("{}: {error}", dir.display()), "", "");
        return None;
    }
    match config.user.as_deref().map(privileges::drop_to).transpose() {
        Ok(_) => Some(()),
        Err(error) => {
            report.push(Code::UnknownUser, format!("{error:#}"), "", "");
            None
        }
    }
}

/// Opens the access log, if there is one; `None` when it cannot be opened.
#[expect(clippy::option_option, reason = "the outer one is that of every step of the start")]
fn open_log(config: &Config, report: &mut Report) -> Option<Option<LogWriter>> {
    let Some(log) = &config.access_log else { return Some(None) };
    let target = match &log.to {
        LogTarget::Stdout => Target::Stdout,
        LogTarget::Stderr => Target::Stderr,
        LogTarget::File(path) => Target::File {
            path: path.clone(),
            rotation: log.rotate.map(|rotate| log_writer::Rotation { size: rotate.size, keep: rotate.keep }),
        },
    };
    match LogWriter::start(target) {
        Ok(writer) => Some(Some(writer)),
        Err(error) => {
            report.push(Code::LogUnwritable, format!("{}: {error}", log.to), "", "the directory must be writable by `user`");
            None
        }
    }
}

fn start_workers(
    config: Config,
    assembly: Assembly,
    bound: Vec<Bound>,
    metrics: Option<metrics_server::Listener>,
    log: Option<LogWriter>,
    workers: usize,
) -> Running {
    let nofile = descriptors::limit();
    let connections = config.limits.connections.unwrap_or_else(|| descriptors::connection_limit(nofile, workers));
    let trusted = config.trusted.clone();
    let shared = Arc::new(Shared {
        connections: Limit::new(connections),
        handshakes: Limit::new(config.limits.handshakes),
        per_client: config.limits.per_client.map(PerClient::new),
        trusted: Box::new(move |ip| trusted.iter().any(|cidr| cidr.contains(ip))),
        ids: AtomicU64::new(first_id()),
    });
    let shards = Arc::new(Shards::new(workers, |_| WorkerCells {
        listeners: assembly.listeners.iter().map(|planned| ListenerCells::new(&planned.alpn)).collect(),
        accept_failures: lockgate_metrics::Counter::new(),
    }));
    let pipes = descriptors::pipe_limit(nofile, connections, workers);
    let orders = Arc::new(Orders::default());
    let (end, ended) = unbounded_channel();
    let (bound, sockets): (Vec<_>, Vec<_>) = bound.into_iter().map(|bound| (bound.address, bound.sockets)).unzip();
    let mut sockets: Vec<_> = sockets.into_iter().map(Vec::into_iter).collect();
    let (mut pulses, mut tops, mut threads) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..workers {
        let (pulse, top, Some(cells)) = (Pulse::new(), Published::default(), shards.shard(number)) else { break };
        let mask = if config.access_log.as_ref().is_some_and(|log| log.mask_ip) { MaskIp::Mask } else { MaskIp::Keep };
        let setup = Setup {
            shared: Arc::clone(&shared),
            pulse: Arc::clone(&pulse),
            cells,
            top: Arc::clone(&top),
            log: log.as_ref().map(|writer| Log::new(writer.sender(), writer.lost(), mask)),
            pipes,
        };
        let own = assembly.listeners.iter().zip(&mut sockets).filter_map(|(planned, sockets)| {
            let family = if matches!(planned.address, Address::Unix(_)) { Family::Unix } else { Family::Tcp };
            Some((sockets.next()?, family, Arc::clone(&planned.listener)))
        });
        let task = Task { setup, sockets: own.collect(), orders: Arc::clone(&orders) };
        let end = end.clone();
        let thread = thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            // The supervisor outlives its workers, or the process is over.
            let _ = end.send(worker::run(task));
        });
        threads.push(thread.expect("the system has room for a thread at the start"));
        pulses.push(pulse);
        tops.push(top);
    }
    let lost = log.as_ref().map(LogWriter::lost);
    let exposition = Arc::new(Exposition::new(&assembly.listeners, shards, shared, tops, lost));
    let readiness = Arc::default();
    Running { config, assembly, bound, metrics, readiness, exposition, log, orders, pulses, threads, ended }
}

/// Where connections begin to be numbered: another place after every start.
fn first_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

impl Running {
    async fn supervise(mut self) -> ExitCode {
        let mut signals = match Signals::new() {
            Ok(signals) => signals,
            Err(error) => {
                tracing::error!(%error, "cannot listen to signals");
                return ExitCode::FAILURE;
            }
        };
        let resolving = std::mem::take(&mut self.assembly.resolver).start();
        resolving.first_answers(FIRST_ANSWERS).await;
        self.serve_metrics();
        tokio::spawn(systemd::keep_watchdog_calm());
        self.announce();
        let mut watch = Watch::new(self.files());
        let mut tick = ticks(TICK);
        let mut rotation = ticks(ROTATION_CHECKED_EVERY);
        loop {
            tokio::select! {
                _ = tick.tick() => self.tick(),
                _ = rotation.tick() => self.rotate(),
                changed = watch.changed() => self.reload(&changed),
                order = signals.next() => match order {
                    Asked::Stop => break,
                    Asked::Reload => {
                        systemd::reloading();
                        tracing::warn!("the configuration is not read again: restart for that; certificates are");
                        self.reload(&[]);
                        systemd::ready(&self.status());
                    }
                    Asked::Reopen => self.reopen(),
                },
                Some(ended) = self.ended.recv() => {
                    let error = ended.err().map(|error| error.to_string()).unwrap_or_default();
                    tracing::error!(%error, "a worker ended that should not");
                    return ExitCode::FAILURE;
                }
            }
        }
        self.stop(signals).await
    }

    fn announce(&self) {
        for (planned, address) in self.assembly.listeners.iter().zip(&self.bound) {
            let what = if planned.listener.tls.is_some() { "tls" } else { "tcp" };
            tracing::info!(listener = %planned.listener.name, %address, what, "listening");
        }
        self.readiness.enter(Phase::Ready);
        tracing::info!(workers = self.pulses.len(), connections = self.exposition.connection_limit(), "ready");
        systemd::ready(&self.status());
    }

    fn status(&self) -> String {
        format!("serving {} listeners", self.bound.len())
    }

    fn serve_metrics(&mut self) {
        let Some(listener) = self.metrics.take() else { return };
        let (metrics, top) = (Arc::clone(&self.exposition), Arc::clone(&self.exposition));
        let endpoints = Endpoints {
            metrics: Box::new(move || metrics.metrics()),
            top: Box::new(move || top.top()),
            readiness: Arc::clone(&self.readiness),
        };
        tokio::spawn(async move {
            if let Err(error) = metrics_server::serve(listener, Arc::new(endpoints)).await {
                tracing::error!(%error, "the metrics address is not served");
            }
        });
    }

    /// Every file that a running listener follows.
    fn files(&self) -> Vec<PathBuf> {
        let certificates = self.assembly.listeners.iter().filter_map(|planned| planned.listener.tls.as_ref());
        let keys = self.assembly.rings.iter().filter_map(|ring| ring.file());
        certificates.flat_map(|acceptor| acceptor.files()).chain(keys.map(PathBuf::from)).collect()
    }

    fn tick(&self) {
        self.pulses.iter().for_each(|pulse| pulse.tick());
    }

    fn nudge(&self) {
        self.pulses.iter().for_each(|pulse| pulse.nudge());
    }

    fn rotate(&self) {
        for ring in &self.assembly.rings {
            match ring.rotate_if_due(Instant::now()) {
                Ok(Rotation::NotDue) => {}
                Ok(Rotation::Rotated) => tracing::info!("session tickets have a new key"),
                Err(error) => tracing::error!(%error, "session tickets keep their key"),
            }
        }
    }

    /// Reads certificates, authorities and ticket keys again; what cannot be read stays as it was.
    fn reload(&self, changed: &[PathBuf]) {
        if !changed.is_empty() {
            tracing::debug!(files = ?changed, "files have changed");
        }
        for planned in &self.assembly.listeners {
            let Some(acceptor) = &planned.listener.tls else { continue };
            let name = &planned.listener.name;
            let report = acceptor.reload();
            for path in &report.changed {
                tracing::info!(listener = %name, path = %path.display(), "certificate replaced");
            }
            for error in &report.failed {
                tracing::error!(listener = %name, %error, "the old certificate stays in use");
            }
            for warning in &report.warnings {
                tracing::warn!(listener = %name, "{warning}");
            }
        }
        self.assembly.rings.iter().for_each(|ring| reload_ring(ring));
    }

    fn reopen(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
        tracing::info!("access log reopened");
    }

    /// Stops as a load balancer wishes it: say so, wait, accept what has come, let everybody finish.
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
            if !self.wait(LAST_MOMENTS, &mut signals).await {
                tracing::error!("some connections did not end even so");
            }
        }
        self.remove_sockets();
        if let Some(log) = self.log.take() {
            self.threads.drain(..).filter(JoinHandle::is_finished).for_each(|thread| drop(thread.join()));
            if log.finish(LAST_MOMENTS) == log_writer::Finished::GivenUp {
                tracing::warn!("the access log could not be written to its end");
            }
        }
        tracing::info!(clean, "stopped");
        if clean { ExitCode::SUCCESS } else { ExitCode::from(UNCLEAN) }
    }

    /// Lets time pass; false when a second signal cuts it short.
    async fn pause(&self, delay: Duration, signals: &mut Signals) -> bool {
        let mut tick = ticks(TICK);
        let mut over = std::pin::pin!(sleep(delay));
        loop {
            tokio::select! {
                () = &mut over => return true,
                _ = tick.tick() => self.tick(),
                asked = signals.next() => match asked {
                    Asked::Stop => return false,
                    Asked::Reload | Asked::Reopen => self.reopen(),
                },
            }
        }
    }

    /// Waits until every worker has ended; false when `deadline` passes first, a second signal comes, or one had to cut.
    async fn wait(&mut self, deadline: Duration, signals: &mut Signals) -> bool {
        let mut tick = ticks(TICK);
        let mut clean = true;
        let all = async {
            let mut left = self.pulses.len();
            while left > 0 {
                tokio::select! {
                    _ = tick.tick() => {
                        self.pulses.iter().for_each(|pulse| pulse.nudge());
                        systemd::extend_timeout(TICK * 20);
                    }
                    ended = self.ended.recv() => {
                        clean &= matches!(ended, Some(Ok(0)));
                        left -= 1;
                    }
                    asked = signals.next() => if asked == Asked::Stop { return false },
                }
            }
            true
        };
        timeout(deadline, all).await.unwrap_or(false) && clean
    }

    /// The files of Unix sockets that we made.
    fn remove_sockets(&self) {
        for address in &self.bound {
            if let Address::Unix(path) = address {
                // After dropping privileges the directory may not be ours; a stale file is replaced at the next start.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn reload_ring(ring: &TicketRing) {
    match ring.reload() {
        Ok(lockgate_net::tls::KeysReloaded::Read(warnings)) => {
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
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

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Stop,
    Reload,
    Reopen,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.quit.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.user1.recv() => Asked::Reopen,
        }
    }
}
