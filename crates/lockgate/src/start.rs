//! The start, in its order: what needs privileges is bound and read first, they are dropped while there is one thread,
//! names are resolved, and only then do the workers run.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use lockgate_config::{AccessFormat, AccessLog, At, Code, Config, Loaded, LogTarget, Report, Workers};
use lockgate_metrics::{Counter, Shards};
use lockgate_net::listen::{self, Address, Bound, Owner};
use lockgate_net::socket::Family;
use lockgate_proxy::access_log::{Format, Log, MaskIp, Sample, Style};
use lockgate_proxy::clock::Pulse;
use lockgate_proxy::limits::{Limit, PerClient};
use lockgate_proxy::metrics::http::HttpCells;
use lockgate_proxy::metrics::relay::RelayCells;
use lockgate_proxy::metrics::{ListenerCells, WorkerCells};
use lockgate_proxy::request_id::RequestIds;
use lockgate_proxy::worker::{Published, Setup, Shared};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

use crate::assemble::{self, Assembly, Planned};
use crate::exposition::Exposition;
use crate::log_writer::{self, LogWriter, Target};
use crate::supervisor::Running;
use crate::systemd::InheritedAddress;
use crate::worker::{self, Orders, Own, Task};
use crate::{descriptors, metrics_server, privileges, state, systemd};

/// Bound, read and allowed: what is left is to run.
pub(crate) struct Prepared {
    pub(crate) config: Config,
    pub(crate) assembly: Assembly,
    bound: Vec<Bound>,
    metrics: Option<(metrics_server::Listener, Address)>,
    logs: Logs,
    workers: usize,
}

/// Does everything that can fail; what is wrong is added to `report`, and then nothing runs.
pub(crate) fn prepare(loaded: &Loaded, report: &mut Report) -> Option<Prepared> {
    let config = &loaded.config;
    match descriptors::raise() {
        Ok(raised) => tracing::debug!(from = raised.from, to = raised.to, "limit on open descriptors"),
        Err(error) => tracing::warn!(%error, "the limit on open descriptors stays as it is"),
    }
    let workers = match config.workers {
        Workers::Count(count) => count.get(),
        // Follows the CPU quota of a container and the affinity of the process.
        Workers::Auto => thread::available_parallelism().map_or(1, usize::from),
    };
    let mut assembly = assemble::assemble(config, report)?;
    let bound = bind_all(&assembly.listeners, workers, report)?;
    assembly.redirect_to(&bound);
    let metrics = match &config.metrics {
        None => None,
        Some(address) => Some(bind_metrics(&assemble::address(address), loaded, report)?),
    };
    become_user(loaded, report)?;
    if config.user.is_some() {
        doubt_renewal(&assembly, loaded, report);
    }
    let logs = open_logs(loaded, report)?;
    if let Some(dir) = &config.state
        && let Err(error) = state::keep_last_good(dir, &loaded.merged_toml())
    {
        complain(report, loaded, "state", Code::StateUnwritten, &format!("{}: {error}", dir.display()), "");
    }
    Some(Prepared { config: config.clone(), assembly, bound, metrics, logs, workers })
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
                report.push_at(
                    code,
                    &planned.at,
                    format!("cannot listen on {}: {error}", planned.address),
                    "",
                    cure,
                );
            }
        }
    }
    for spare in
        inherited.iter().filter(|one| !listeners.iter().any(|planned| is_at(&one.address, &planned.address)))
    {
        tracing::warn!(address = ?spare.address, "a socket from systemd is that of no listener");
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
fn share(socket: &OwnedFd, address: &Address, workers: usize) -> io::Result<Bound> {
    let sockets = (0..workers).map(|_| socket.try_clone()).collect::<Result<_, _>>()?;
    rustix::io::ioctl_fionbio(socket.as_fd(), true)?;
    if !matches!(address, Address::Unix(_)) {
        rustix::net::sockopt::set_tcp_nodelay(socket, true)?;
    }
    Ok(Bound { address: address.clone(), sockets, owner: Owner::Another })
}

fn binding_failed(error: &io::Error) -> (Code, &'static str) {
    match error.kind() {
        io::ErrorKind::AddrInUse => (Code::AddressInUse, "`ss -ltnp` says which process listens there"),
        io::ErrorKind::PermissionDenied => (
            Code::AddressForbidden,
            "ports below 1024 need root or CAP_NET_BIND_SERVICE; `user` drops root afterwards",
        ),
        _ => (Code::AddressUnavailable, ""),
    }
}

fn bind_metrics(
    address: &Address,
    loaded: &Loaded,
    report: &mut Report,
) -> Option<(metrics_server::Listener, Address)> {
    let options = listen::Options { backlog: 128, fast_open: false, defer_accept: None };
    match listen::bind(address, &options, 1) {
        Ok(Bound { address, sockets, .. }) => {
            let socket = sockets.into_iter().next()?;
            let listener = match &address {
                Address::Unix(_) => metrics_server::Listener::Unix(UnixListener::from(socket)),
                _ => metrics_server::Listener::Tcp(TcpListener::from(socket)),
            };
            Some((listener, address))
        }
        Err(error) => {
            let (code, cure) = binding_failed(&error);
            complain(report, loaded, "metrics", code, &format!("cannot listen on {address}: {error}"), cure);
            None
        }
    }
}

/// Reports what is wrong with a key at the top of the file, at its place if it was written.
fn complain(report: &mut Report, loaded: &Loaded, key: &str, code: Code, message: &str, cure: &str) {
    match loaded.at(key) {
        Some(at) => report.push_at(code, at, message, "", cure),
        None => report.push(code, message, "", cure),
    }
}

/// Gives up privileges for good; nothing that needs them comes after this.
fn become_user(loaded: &Loaded, report: &mut Report) -> Option<()> {
    let config = &loaded.config;
    let account = match config.user.as_deref().map(privileges::Account::look_up).transpose() {
        Ok(account) => account,
        Err(error) => {
            complain(report, loaded, "user", Code::UnknownUser, &format!("{error:#}"), "");
            return None;
        }
    };
    if let Some(dir) = &config.state
        && let Err(error) = state::prepare(dir, account.as_ref().map(privileges::Account::ids))
    {
        complain(report, loaded, "state", Code::StateUnwritable, &format!("{}: {error}", dir.display()), "");
        return None;
    }
    match config.user.as_deref().map(privileges::drop_to).transpose() {
        Ok(_) => Some(()),
        Err(error) => {
            complain(report, loaded, "user", Code::UnknownUser, &format!("{error:#}"), "");
            None
        }
    }
}

/// What only root could read was read just now; a renewed one could not be.
fn doubt_renewal(assembly: &Assembly, loaded: &Loaded, report: &mut Report) {
    let mut files = assembly.files();
    files.sort();
    files.dedup();
    for path in files {
        if let Err(error) = std::fs::File::open(&path) {
            let message = format!("a renewed {} will not be taken up: {error}", path.display());
            let cure = "let the group of `user` read it (chgrp, chmod 640), or restart after every renewal";
            complain(report, loaded, "user", Code::UnreadableLater, &message, cure);
        }
    }
}

/// What writes access logs.
pub(crate) struct Logs {
    shared: Option<LogWriter>,
    /// In the order of `Config::site_logs`.
    sites: Vec<LogWriter>,
}

impl Logs {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LogWriter> {
        self.shared.iter().chain(&self.sites)
    }

    /// All of them, to end each.
    pub(crate) fn into_all(self) -> impl Iterator<Item = LogWriter> {
        self.shared.into_iter().chain(self.sites)
    }
}

/// Opens every access log; `None` when one cannot be opened.
fn open_logs(loaded: &Loaded, report: &mut Report) -> Option<Logs> {
    let config = &loaded.config;
    let shared = config.access_log.as_ref().map(|log| open_log(log, loaded.at("access_log"), report));
    let sites: Vec<_> = config.site_logs.iter().map(|(log, at)| open_log(log, Some(at), report)).collect();
    let shared = match shared {
        Some(opened) => Some(opened?),
        None => None,
    };
    Some(Logs { shared, sites: sites.into_iter().collect::<Option<_>>()? })
}

/// Opens one; `None` when it cannot be opened.
fn open_log(log: &AccessLog, at: Option<&At>, report: &mut Report) -> Option<LogWriter> {
    let target = match &log.to {
        LogTarget::Stdout => Target::Stdout,
        LogTarget::Stderr => Target::Stderr,
        LogTarget::File(path) => Target::File {
            path: path.clone(),
            rotation: log.rotate.map(|rotate| log_writer::Rotation { size: rotate.size, keep: rotate.keep }),
        },
    };
    let complain = |error: io::Error| {
        let (message, cure) = (format!("{}: {error}", log.to), "the directory must be writable by `user`");
        match at {
            Some(at) => report.push_at(Code::LogUnwritable, at, message, "", cure),
            None => report.push(Code::LogUnwritable, message, "", cure),
        }
    };
    LogWriter::start(target).map_err(complain).ok()
}

/// What lines of the access log look like.
fn style(log: &AccessLog) -> Style {
    Style {
        format: match log.format {
            AccessFormat::Json => Format::Json,
            AccessFormat::Combined => Format::Combined,
            AccessFormat::Logfmt => Format::Logfmt,
        },
        mask: if log.mask_ip { MaskIp::Mask } else { MaskIp::Keep },
        sample: Sample::percent(f64::from(log.sample)),
    }
}

/// Starts the workers; connections are accepted once [`Running::begin`] says so.
///
/// # Errors
/// When the system has no room for another thread.
pub(crate) fn start_workers(prepared: Prepared) -> io::Result<Running> {
    let Prepared { config, assembly, bound, metrics, logs, workers } = prepared;
    let nofile = descriptors::limit();
    let fitting = descriptors::connection_limit(nofile, workers, assembly.held_by_worker());
    let connections = config.limits.connections.unwrap_or(fitting);
    if connections > fitting {
        tracing::warn!(
            connections,
            fitting,
            nofile,
            "more connections are allowed than there are descriptors for"
        );
    }
    let trusted = config.trusted.clone();
    let shared = Arc::new(Shared {
        connections: Limit::new(connections),
        handshakes: Limit::new(config.limits.handshakes),
        per_client: config.limits.per_client.map(PerClient::new),
        trusted: Box::new(move |ip| trusted.iter().any(|cidr| cidr.contains(ip))),
        request_ids: RequestIds::random(),
        ids: AtomicU64::new(first_id()),
    });
    let endpoints = assembly.upstreams.iter().map(|pool| pool.members().len()).sum();
    let shards = Arc::new(Shards::new(workers, |_| WorkerCells {
        listeners: assembly.listeners.iter().map(|planned| ListenerCells::new(&planned.alpn)).collect(),
        relays: assembly.relays.iter().map(|_| RelayCells::default()).collect(),
        accept_failures: Counter::new(),
        http: HttpCells::new(assembly.sites.len(), endpoints),
    }));
    let pipes = descriptors::pipe_limit(nofile, connections, workers, assembly.held_by_worker());
    let orders = Arc::new(Orders::default());
    let (end, ended) = unbounded_channel();
    let socket_files = SocketFile::of(&bound, metrics.as_ref().map(|(_, address)| address));
    let addresses = bound.iter().map(|bound| bound.address.clone()).collect();
    let mut sockets: Vec<_> =
        bound.into_iter().map(|bound| (bound.sockets.into_iter(), bound.owner)).collect();
    let (mut pulses, mut tops, mut threads, mut preparing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let end_of = |writer: &LogWriter, log: &AccessLog| Log::new(writer.sender(), writer.lost(), style(log));
    for number in 0..workers {
        let (pulse, top, Some(cells)) = (Pulse::new(), Published::default(), shards.shard(number)) else {
            break;
        };
        let setup = Setup {
            shared: Arc::clone(&shared),
            pulse: Arc::clone(&pulse),
            cells,
            top: Arc::clone(&top),
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
        };
        let own = assembly.listeners.iter().zip(&mut sockets).filter_map(|(planned, (sockets, owner))| {
            let family = if matches!(planned.address, Address::Unix(_)) { Family::Unix } else { Family::Tcp };
            Some(Own { fd: sockets.next()?, family, owner: *owner, listener: Arc::clone(&planned.listener) })
        });
        let (prepared, told) = oneshot::channel();
        let task = Task { setup, sockets: own.collect(), orders: Arc::clone(&orders), prepared };
        let end = end.clone();
        let thread = thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            // The supervisor outlives its workers, or the process is over.
            let _ = end.send(worker::run(task));
        });
        threads.push(thread?);
        pulses.push(pulse);
        tops.push(top);
        preparing.push(told);
    }
    let lost = logs.iter().map(LogWriter::lost).collect();
    let exposition = Arc::new(Exposition::new(&assembly, shards, shared, tops, lost));
    let readiness = Arc::default();
    let (metrics, metrics_at) = metrics.unzip();
    let left = threads.len();
    Ok(Running {
        config,
        assembly,
        bound: addresses,
        socket_files,
        metrics,
        metrics_at,
        readiness,
        exposition,
        logs: Some(logs),
        orders,
        pulses,
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
    fn of(bound: &[Bound], metrics: Option<&Address>) -> Vec<Self> {
        let ours = bound.iter().filter(|bound| bound.owner == Owner::Us).map(|bound| &bound.address);
        let paths = ours.chain(metrics).filter_map(|address| match address {
            Address::Unix(path) => Some(path.clone()),
            _ => None,
        });
        paths.filter_map(|path| Some(Self { identity: Self::identify(&path)?, path })).collect()
    }

    fn identify(path: &Path) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }

    /// Removes the file if it is still ours.
    pub(crate) fn remove(&self) {
        if Self::identify(&self.path) == Some(self.identity) {
            // After dropping privileges the directory may not let us; a stale file is replaced at the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Where connections begin to be numbered: another place after every start.
fn first_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
