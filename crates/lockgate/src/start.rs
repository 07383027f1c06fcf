//! The workers and what they share, once all is bound, read and allowed: see `opening`.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use lockgate_config::{AccessFormat, AccessLog};
use lockgate_metrics::{Counter, Shards};
use lockgate_net::listen::{BoundListener, ListenAddress, SocketOwner};
use lockgate_net::socket::SocketFamily;
use lockgate_proxy::access_log::{Format, Log, MaskIp, Sample, Style};
use lockgate_proxy::clients::Clients;
use lockgate_proxy::clock::Ticker;
use lockgate_proxy::files;
use lockgate_proxy::limits::PerClient;
use lockgate_proxy::limits::connections::Connections;
use lockgate_proxy::limits::handshakes::Handshakes;
use lockgate_proxy::limits::sockets::Sockets;
use lockgate_proxy::metrics::http::HttpCells;
use lockgate_proxy::metrics::relay::RelayCells;
use lockgate_proxy::metrics::{ListenerCells, WorkerCells};
use lockgate_proxy::request_id::RequestIds;
use lockgate_proxy::worker::{ProcessState, Published, Setup};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

use crate::configuration::Configuration;
use crate::descriptors::{self, Division};
use crate::exposition::Exposition;
use crate::log_writer::LogWriter;
use crate::memory;
use crate::opening::Prepared;
use crate::supervisor::Running;
use crate::worker::{self, Orders, Own, Task};

/// What lines of the access log look like.
fn style(log: &AccessLog) -> Style {
    Style {
        format: match log.format {
            AccessFormat::Json => Format::Json,
            AccessFormat::Combined => Format::Combined,
            AccessFormat::Logfmt => Format::Logfmt,
        },
        mask: if log.mask_ip {
            MaskIp::Mask
        } else {
            MaskIp::Keep
        },
        sample: Sample::percent(f64::from(log.sample)),
    }
}

/// Starts the workers; connections are accepted once [`Running::begin`] says so.
///
/// # Errors
/// When the system has no room for another thread.
pub(crate) fn start_workers(
    prepared: Prepared,
    file: Option<Arc<Configuration>>,
) -> io::Result<Running> {
    let Prepared {
        config,
        assembly,
        bound,
        metrics,
        logs,
        workers,
    } = prepared;
    let nofile = descriptors::limit();
    let files = descriptors::file_limit(nofile, workers, files::DESCRIPTORS);
    let holds = assembly.held_by_worker(files);
    let fitting = descriptors::connection_limit(nofile, workers, holds);
    let Division {
        connections,
        sockets,
        pipes,
    } = Division::of(nofile, config.limits.connections, workers, holds);
    if let Some(wanted) = config.limits.connections
        && wanted > fitting
    {
        tracing::warn!(
            wanted,
            connections,
            sockets,
            fitting,
            nofile,
            "more connections are allowed than there are descriptors for, with one towards an endpoint for each"
        );
    }
    let tickers: Vec<_> = (0..workers).map(|_| Ticker::new()).collect();
    let woken: Arc<[Arc<Ticker>]> = tickers.clone().into();
    let trusted = config.trusted.clone();
    let shared = Arc::new(ProcessState {
        connections: Connections::new(connections, &woken),
        handshakes: Handshakes::new(config.limits.handshakes),
        sockets: Arc::new(Sockets::new(sockets, &woken)),
        workers,
        per_client: config.limits.per_client.map(PerClient::new),
        clients: Clients::new(),
        trusted: Box::new(move |ip| trusted.iter().any(|cidr| cidr.contains(ip))),
        request_ids: RequestIds::random(),
        ids: AtomicU64::new(first_id()),
    });
    let endpoints = assembly
        .upstreams
        .iter()
        .map(|pool| pool.members().len())
        .sum();
    let shards = Arc::new(Shards::new(workers, |_| WorkerCells {
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
    }));
    let orders = Arc::new(Orders::default());
    let (end, ended) = unbounded_channel();
    let socket_files = SocketFile::of(&bound, metrics.as_ref().map(|(_, address)| address));
    let addresses = bound.iter().map(|bound| bound.address.clone()).collect();
    let mut sockets: Vec<_> = bound
        .into_iter()
        .map(|bound| (bound.sockets.into_iter(), bound.owner))
        .collect();
    let (mut tops, mut threads, mut preparing) = (Vec::new(), Vec::new(), Vec::new());
    // One log that must not have the addresses is enough: who reads it may read the metrics as
    // well.
    let masks = config
        .access_log
        .iter()
        .chain(config.site_logs.iter().map(|(log, _)| log))
        .any(|log| log.mask_ip);
    let mask = if masks { MaskIp::Mask } else { MaskIp::Keep };
    let end_of =
        |writer: &LogWriter, log: &AccessLog| Log::new(writer.sender(), writer.lost(), style(log));
    for (number, ticker) in tickers.iter().enumerate() {
        let (top, Some(cells)) = (Published::default(), shards.shard(number)) else {
            break;
        };
        let setup = Setup {
            shared: Arc::clone(&shared),
            ticker: Arc::clone(ticker),
            cells,
            top: Arc::clone(&top),
            mask,
            log: logs
                .shared
                .as_ref()
                .zip(config.access_log.as_ref())
                .map(|(writer, log)| end_of(writer, log)),
            site_logs: logs
                .sites
                .iter()
                .zip(&config.site_logs)
                .map(|(writer, (log, _))| end_of(writer, log))
                .collect(),
            pipes,
            pools: assembly.upstreams.clone(),
            files,
            number,
        };
        let own = assembly.listeners.iter().zip(&mut sockets).filter_map(
            |(planned, (sockets, owner))| {
                let family = if matches!(planned.address, ListenAddress::Unix(_)) {
                    SocketFamily::Unix
                } else {
                    SocketFamily::Tcp
                };
                Some(Own {
                    fd: sockets.next()?,
                    family,
                    owner: *owner,
                    listener: Arc::clone(&planned.listener),
                })
            },
        );
        let (prepared, told) = oneshot::channel();
        let task = Task {
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
        preparing.push(told);
    }
    let lost = logs.iter().map(LogWriter::lost).collect();
    let exposition = Arc::new(Exposition::new(
        &assembly,
        file.clone(),
        shards,
        shared,
        tops,
        lost,
    ));
    let readiness = Arc::default();
    let (metrics, metrics_at) = metrics.unzip();
    let left = threads.len();
    let memory = memory::allowed(config.limits.memory);
    let measuring = memory::Measuring::begin(&memory);
    Ok(Running {
        config,
        file,
        memory,
        measuring,
        assembly,
        bound: addresses,
        socket_files,
        metrics,
        metrics_at,
        readiness,
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

/// The file of a Unix socket that we bound, as it was then: at the end it may be somebody else's.
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(bound: &[BoundListener], metrics: Option<&ListenAddress>) -> Vec<Self> {
        let ours = bound
            .iter()
            .filter(|bound| bound.owner == SocketOwner::Us)
            .map(|bound| &bound.address);
        let paths = ours.chain(metrics).filter_map(|address| match address {
            ListenAddress::Unix(path) => Some(path.clone()),
            _ => None,
        });
        paths
            .filter_map(|path| {
                Some(Self {
                    identity: Self::identify(&path)?,
                    path,
                })
            })
            .collect()
    }

    fn identify(path: &Path) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(path)
            .ok()
            .map(|found| (found.dev(), found.ino()))
    }

    /// Removes the file if it is still ours.
    pub(crate) fn remove(&self) {
        if Self::identify(&self.path) == Some(self.identity) {
            // After dropping privileges the directory may not let us; a stale file is replaced at
            // the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Where connections begin to be numbered: another place after every start.
fn first_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
