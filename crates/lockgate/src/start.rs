//! The start of the workers, and everything that runs then, once all is bound, read and allowed:
//! see `start_steps`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::{self, JoinHandle};

use lockgate_config::{AccessFormat, AccessLog, Config};
use lockgate_limits::clients::Clients;
use lockgate_limits::clock::Ticker;
use lockgate_limits::connections::ConnectionLimit;
use lockgate_limits::handshakes::HandshakeLimit;
use lockgate_limits::sockets::SocketLimit;
use lockgate_limits::{ListenerIndex, PerClient, WorkerIndex};
use lockgate_metrics::{Counter, Shards};
use lockgate_net::listen::ListenAddress;
use lockgate_net::socket::SocketFamily;
use lockgate_proxy::access_log::{LineFormat, LineStyle, LogSample, MaskIp, WorkerLog};
use lockgate_proxy::files;
use lockgate_proxy::metrics::http::HttpCells;
use lockgate_proxy::metrics::relay::RelayCells;
use lockgate_proxy::metrics::{ListenerCells, WorkerCells};
use lockgate_proxy::request_id::RequestIds;
use lockgate_proxy::worker::{ProcessState, PublishedTop, Setup};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::admin::{self, AdminListener, CommandReceiver, CommandSender};
use crate::assemble::Assembly;
use crate::configuration::Configuration;
use crate::descriptors::{self, Division};
use crate::exposition::{Exposition, SharedState};
use crate::log_writer::LogWriter;
use crate::memory::{self, MemoryLimit, MemoryMonitor};
use crate::metrics_server::{self, Readiness};
use crate::socket_file::SocketFile;
use crate::start_steps::{Logs, Prepared};
use crate::worker::{self, CurrentOrder, WorkerSocket, WorkerTask};

/// Everything that runs, as the main thread holds it.
pub(crate) struct RunningServer {
    pub(crate) config: Config,
    /// The file that the configuration was read from, if it was one.
    pub(crate) file: Option<Arc<Configuration>>,
    pub(crate) assembly: Assembly,
    pub(crate) bound: Vec<ListenAddress>,
    pub(crate) socket_files: Vec<SocketFile>,
    pub(crate) metrics: Option<metrics_server::MetricsListener>,
    pub(crate) metrics_at: Option<ListenAddress>,
    /// The admin socket until it is served, and the way from there to `commands`.
    pub(crate) admin: Option<(AdminListener, CommandSender)>,
    pub(crate) commands: CommandReceiver,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) exposition: Arc<Exposition>,
    pub(crate) memory: MemoryLimit,
    pub(crate) monitor: MemoryMonitor,
    pub(crate) logs: Option<Logs>,
    pub(crate) orders: Arc<CurrentOrder>,
    pub(crate) tickers: Vec<Arc<Ticker>>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// A message from each worker that has every descriptor that it needs for itself.
    pub(crate) preparing: Vec<oneshot::Receiver<()>>,
    /// The result of each worker that has ended.
    pub(crate) ended: UnboundedReceiver<io::Result<usize>>,
    /// The number of workers that have not ended yet.
    pub(crate) left: usize,
}

/// Starts the workers; connections are accepted once [`RunningServer::begin`] says so.
///
/// # Errors
/// When the system has no room for another thread.
pub(crate) fn start_workers(
    prepared: Prepared,
    file: Option<Arc<Configuration>>,
) -> io::Result<RunningServer> {
    let Prepared {
        config,
        assembly,
        bound,
        metrics,
        admin,
        logs,
        workers,
    } = prepared;
    let nofile = descriptors::limit();
    let files = descriptors::file_limit(nofile, workers, files::DESCRIPTORS);
    let division = divide(nofile, &config, workers, assembly.held_by_worker(files));
    let tickers: Vec<_> = (0..workers).map(|_| Ticker::new()).collect();
    let shared = Arc::new(shared(&config, division, &tickers));
    let shards = Arc::new(counters(&assembly, workers));
    let orders = Arc::new(CurrentOrder::default());
    let (end, ended) = unbounded_channel();
    let others = metrics.iter().map(|(_, address)| address);
    let others = others.chain(admin.iter().map(|admin| &admin.address));
    let socket_files = SocketFile::of(&bound, others);
    let addresses = bound.iter().map(|bound| bound.address.clone()).collect();
    let mut sockets: Vec<_> = bound
        .into_iter()
        .map(|bound| (bound.sockets.into_iter(), bound.owner))
        .collect();
    let mask = mask_of_metrics(&config);
    let (mut tops, mut threads, mut preparing) = (Vec::new(), Vec::new(), Vec::new());
    for (number, ticker) in tickers.iter().enumerate() {
        let (top, Some(cells)) = (PublishedTop::default(), shards.shard(number)) else {
            break;
        };
        let (log, site_logs) = worker_logs(&config, &logs);
        let setup = Setup {
            shared: Arc::clone(&shared),
            ticker: Arc::clone(ticker),
            cells,
            top: Arc::clone(&top),
            mask,
            log,
            site_logs,
            pipes: division.pipes,
            pools: assembly.upstreams.clone(),
            files,
            index: WorkerIndex::new(number),
        };
        let listeners = ListenerIndex::enumerate(&assembly.listeners);
        let own = listeners
            .zip(&mut sockets)
            .filter_map(|((index, planned), (sockets, owner))| {
                let family = if matches!(planned.address, ListenAddress::Unix(_)) {
                    SocketFamily::Unix
                } else {
                    SocketFamily::Tcp
                };
                Some(WorkerSocket {
                    fd: sockets.next()?,
                    family,
                    owner: *owner,
                    index,
                    listener: Arc::clone(&planned.listener),
                })
            });
        let (prepared, is_prepared) = oneshot::channel();
        let task = WorkerTask {
            setup,
            sockets: own.collect(),
            orders: Arc::clone(&orders),
            prepared,
        };
        let end = end.clone();
        let thread = thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                // The supervisor outlives its workers, or the process is over.
                let _ = end.send(worker::run(task));
            });
        threads.push(thread?);
        tops.push(top);
        preparing.push(is_prepared);
    }
    let state = SharedState {
        shards,
        shared,
        tops,
        lost: logs.iter().map(LogWriter::lost).collect(),
        file: file.clone(),
    };
    let exposition = Arc::new(Exposition::new(&assembly, state));
    let (metrics, metrics_at) = metrics.unzip();
    let (sender, commands) = admin::command_channel();
    let left = threads.len();
    let memory = memory::allowed(config.limits.memory);
    let monitor = MemoryMonitor::begin(&memory);
    Ok(RunningServer {
        config,
        file,
        memory,
        monitor,
        assembly,
        bound: addresses,
        socket_files,
        metrics,
        metrics_at,
        admin: admin.map(|admin| (admin, sender)),
        commands,
        readiness: Arc::default(),
        exposition,
        logs: Some(logs),
        orders,
        tickers,
        threads,
        preparing,
        ended,
        left,
    })
}

/// Divides `nofile` descriptors, and warns where the configuration wants more connections than they
/// suffice for; each worker holds `held` of them for itself.
fn divide(nofile: u64, config: &Config, workers: usize, held: usize) -> Division {
    let fitting = descriptors::connection_limit(nofile, workers, held);
    let division = Division::of(nofile, config.limits.connections, workers, held);
    let Division {
        connections,
        sockets,
        ..
    } = division;
    if let Some(wanted) = config.limits.connections
        && wanted > fitting
    {
        tracing::warn!(
            wanted,
            connections,
            sockets,
            fitting,
            nofile,
            "limits.connections is more than the descriptors suffice for, with a socket towards an endpoint for each"
        );
    }
    division
}

/// The state that all workers share.
fn shared(config: &Config, division: Division, tickers: &[Arc<Ticker>]) -> ProcessState {
    let woken: Arc<[Arc<Ticker>]> = tickers.into();
    let trusted = config.trusted.clone();
    ProcessState {
        connections: ConnectionLimit::new(division.connections, &woken),
        handshakes: HandshakeLimit::new(config.limits.handshakes),
        sockets: Arc::new(SocketLimit::new(division.sockets, &woken)),
        workers: tickers.len(),
        per_client: config.limits.per_client.map(PerClient::new),
        clients: Clients::new(),
        trusted: Box::new(move |ip| trusted.iter().any(|cidr| cidr.contains(ip))),
        request_ids: RequestIds::random(),
        ids: AtomicU64::new(first_id()),
    }
}

/// The counters of the workers.
fn counters(assembly: &Assembly, workers: usize) -> Shards<WorkerCells> {
    let endpoints = assembly
        .upstreams
        .iter()
        .map(|pool| pool.members().len())
        .sum();
    Shards::new(workers, |_| WorkerCells {
        listeners: assembly
            .listeners
            .iter()
            .map(|planned| ListenerCells::new(&planned.alpn))
            .collect(),
        relays: assembly
            .relays
            .iter()
            .map(|_| RelayCells::default())
            .collect(),
        accept_failures: Counter::new(),
        abandoned: Counter::new(),
        memory_cut: Counter::new(),
        memory_refused: Counter::new(),
        http: HttpCells::new(assembly.sites.len(), endpoints),
    })
}

/// The access logs as one worker writes to them: that of all sites, and those of single sites.
fn worker_logs(config: &Config, logs: &Logs) -> (Option<WorkerLog>, Vec<WorkerLog>) {
    let log = |writer: &LogWriter, log: &AccessLog| {
        WorkerLog::new(writer.sender(), writer.lost(), style(log))
    };
    let shared = logs.shared.as_ref().zip(config.access_log.as_ref());
    let sites = logs.sites.iter().zip(&config.site_logs);
    (
        shared.map(|(writer, written)| log(writer, written)),
        sites
            .map(|(writer, (written, _))| log(writer, written))
            .collect(),
    )
}

/// Whether `/top` and the metrics mask addresses: they do where one access log must not have them,
/// because its readers may read the metrics as well.
fn mask_of_metrics(config: &Config) -> MaskIp {
    let of_sites = config.site_logs.iter().map(|(log, _)| log);
    let mut logs = config.access_log.iter().chain(of_sites);
    if logs.any(|log| log.mask_ip) {
        MaskIp::Mask
    } else {
        MaskIp::Keep
    }
}

/// The format of an access log's lines.
fn style(log: &AccessLog) -> LineStyle {
    LineStyle {
        format: match log.format {
            AccessFormat::Json => LineFormat::Json,
            AccessFormat::Combined => LineFormat::Combined,
            AccessFormat::Logfmt => LineFormat::Logfmt,
        },
        mask: if log.mask_ip {
            MaskIp::Mask
        } else {
            MaskIp::Keep
        },
        sample: LogSample::percent(f64::from(log.sample)),
    }
}

/// The number of the first connection: another one after every start.
fn first_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
