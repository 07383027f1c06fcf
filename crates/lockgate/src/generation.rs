//! The configuration that runs, as the main thread holds it: its listeners with their sockets, its
//! logs, and its counters.

use std::collections::HashSet;
use std::hash::Hash;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use foldhash::{HashMap, HashMapExt};
use lockgate_certs::CertKeeper;
use lockgate_config::{AccessFormat, AccessLog, Config, LoadedConfig};
use lockgate_ddns::DdnsKeeper;
use lockgate_limits::{ListenerId, ListenerIndex, PerClient};
use lockgate_metrics::Shards;
use lockgate_net::listen::{self, BoundListener, ListenAddress, SocketOwner};
use lockgate_net::socket::SocketFamily;
use lockgate_proxy::access_log::{LineFormat, LineStyle, LogSample, MaskIp};
use lockgate_proxy::downstream::{ListenerService, ListenerSettings};
use lockgate_proxy::generation::{GenerationRules, GenerationSetup, LogSetup};
use lockgate_proxy::metrics::{EarlierIndexes, WorkerCells};
use tokio::sync::{oneshot, watch};

use crate::assemble::{Assembly, PlannedListener, port};
use crate::configuration::Configuration;
use crate::explain::ExplainedConfig;
use crate::exporter::SinkStatuses;
use crate::exposition::{BoundAddress, Exposition, SharedState};
use crate::log_writer::LogWriter;
use crate::prober::EndpointStatuses;
use crate::start::Workers;
use crate::start_steps::Logs;
use crate::worker::{Adoption, SocketId, WorkerListener, WorkerMessage, WorkerSocket};

/// A configuration that the workers run, or are about to.
pub(crate) struct RunningGeneration {
    pub(crate) config: Arc<Config>,
    /// The file that the configuration was read from, if it was one.
    pub(crate) file: Option<Arc<Configuration>>,
    pub(crate) assembly: Arc<Assembly>,
    /// In the order of the assembly.
    pub(crate) listeners: Vec<RunningListener>,
    pub(crate) logs: Logs,
    /// Logs that only requests of earlier generations write to.
    earlier_logs: Vec<Arc<LogWriter>>,
    /// The lines that each log has lost, also of those that are closed.
    lost: Vec<Arc<AtomicU64>>,
    pub(crate) exposition: Arc<Exposition>,
    shards: Arc<Shards<WorkerCells>>,
    rules: Arc<GenerationRules>,
    earlier: Vec<Weak<GenerationRules>>,
    last_socket: u64,
}

/// A listener with its socket.
#[derive(Debug, Clone)]
pub(crate) struct RunningListener {
    pub(crate) id: ListenerId,
    pub(crate) socket: SocketId,
    /// The bound address.
    pub(crate) bound: ListenAddress,
    pub(crate) owner: SocketOwner,
    /// Duplicates of the workers' sockets, for a process that takes this one's place; one where
    /// the workers share it.
    pub(crate) sockets: Arc<Vec<OwnedFd>>,
}

/// The change of the workers to a generation.
pub(crate) struct RunningAdoption {
    /// Each answers when a worker has changed.
    pub(crate) adopted: Vec<oneshot::Receiver<()>>,
    /// Has no receivers once the sockets are closed that the generation does not have.
    pub(crate) closed: watch::Sender<()>,
}

/// The parts of a generation: what was read, opened and bound for it.
pub(crate) struct GenerationParts {
    pub(crate) loaded: Arc<LoadedConfig>,
    pub(crate) file: Option<Arc<Configuration>>,
    pub(crate) assembly: Arc<Assembly>,
    pub(crate) logs: Logs,
    pub(crate) statuses: EndpointStatuses,
    pub(crate) certificates: Arc<CertKeeper>,
    pub(crate) sinks: Arc<SinkStatuses>,
    pub(crate) ddns: Arc<DdnsKeeper>,
}

/// How the listeners of a generation come to their sockets.
pub(crate) struct SocketPlan {
    pub(crate) listeners: Vec<RunningListener>,
    /// The new sockets of each worker.
    pub(crate) sockets: Vec<Vec<WorkerSocket>>,
    last_socket: u64,
}

impl SocketPlan {
    /// Takes the sockets of the generation that runs where a listener has the address of one of its
    /// listeners (`known`), and those that were `bound` for all others. Each worker has one socket
    /// of an address, or several where there are more than workers.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn new(
        running: Option<&RunningGeneration>,
        planned: &[PlannedListener],
        known: &[Option<ListenerIndex>],
        bound: Vec<BoundListener>,
        workers: usize,
    ) -> io::Result<Self> {
        let mut last_socket = running.map_or(0, |running| running.last_socket);
        let mut sockets: Vec<Vec<WorkerSocket>> = (0..workers).map(|_| Vec::new()).collect();
        let mut bound = bound.into_iter();
        let mut listeners = Vec::new();
        for (planned, known) in planned.iter().zip(known) {
            last_socket += 1;
            let kept = running.zip(*known).and_then(|(running, known)| {
                Some((
                    running.listeners.get(known.get())?,
                    running.assembly.listeners.get(known.get())?,
                ))
            });
            if let Some((listener, before)) = kept {
                let mut listener = listener.clone();
                if !serves_connections_of(&planned.listener, &before.listener) {
                    listener.id = listener_id(last_socket);
                }
                listeners.push(listener);
                continue;
            }
            let Some(opened) = bound.next() else { continue };
            let id = SocketId(last_socket);
            let family = match planned.address {
                ListenAddress::Unix(_) => SocketFamily::Unix,
                _ => SocketFamily::Tcp,
            };
            let kept = Arc::new(duplicates(&opened.sockets)?);
            for (number, fd) in opened.sockets.into_iter().enumerate() {
                sockets[number % workers].push(WorkerSocket {
                    id,
                    fd,
                    family,
                    owner: opened.owner,
                });
            }
            listeners.push(RunningListener {
                id: listener_id(last_socket),
                socket: id,
                bound: opened.address,
                owner: opened.owner,
                sockets: kept,
            });
        }
        Ok(Self {
            listeners,
            sockets,
            last_socket,
        })
    }
}

/// A duplicate of each socket; of several descriptors of one socket only one.
fn duplicates(sockets: &[OwnedFd]) -> io::Result<Vec<OwnedFd>> {
    let mut known = HashSet::new();
    let mut duplicates = Vec::new();
    for socket in sockets {
        let found = rustix::fs::fstat(socket)?;
        if known.insert((found.st_dev, found.st_ino)) {
            duplicates.push(socket.try_clone()?);
        }
    }
    Ok(duplicates)
}

fn listener_id(number: u64) -> ListenerId {
    ListenerId::new(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
}

/// Whether connections of a listener can be held to other settings with their next request: they
/// speak HTTP, with TLS or without.
fn serves_connections_of(settings: &ListenerSettings, before: &ListenerSettings) -> bool {
    let kind = |settings: &ListenerSettings| {
        (
            std::mem::discriminant(&settings.service),
            settings.sites().is_some(),
            settings.tls_of_sites().is_some(),
        )
    };
    // Without TLS the protocol is that of the first bytes.
    let speaks = |settings: &ListenerSettings| {
        let sites = settings.sites();
        sites.map_or((false, false), |sites| (sites.http1, sites.h2c))
    };
    let ((http1, h2c), (http1_before, h2c_before)) = (speaks(settings), speaks(before));
    kind(settings) == kind(before) && http1 >= http1_before && h2c >= h2c_before
}

impl RunningGeneration {
    /// The generation of `parts`, the first one or the one after `before`.
    pub(crate) fn new(
        workers: &Workers,
        before: Option<&Self>,
        parts: GenerationParts,
        plan: SocketPlan,
    ) -> Self {
        let GenerationParts {
            loaded,
            file,
            assembly,
            logs,
            statuses,
            certificates,
            sinks,
            ddns,
        } = parts;
        let config = Arc::clone(&loaded.config);
        let number = before.map_or(1, |before| before.rules.number + 1);
        let earlier = EarlierIndexes {
            listeners: earlier_indexes(
                before.iter().flat_map(|before| &before.listeners),
                &plan.listeners,
                |listener| listener.socket,
            ),
            relays: earlier_indexes(
                before.iter().flat_map(|before| &before.assembly.relays),
                &assembly.relays,
                Clone::clone,
            ),
            sites: earlier_indexes(
                before.iter().flat_map(|before| &before.assembly.sites),
                &assembly.sites,
                Clone::clone,
            ),
            endpoints: earlier_indexes(
                before.iter().flat_map(|before| endpoints(&before.assembly)),
                &endpoints(&assembly).collect::<Vec<_>>(),
                Clone::clone,
            ),
        };
        let alpn: Vec<_> = assembly
            .listeners
            .iter()
            .map(|planned| planned.alpn.clone())
            .collect();
        let next = |cells: &WorkerCells| cells.next(&earlier, &alpn);
        let shards = Arc::new(match before {
            Some(before) => before.shards.map(next),
            None => workers.cells.map(next),
        });
        let rules = Arc::new(rules(number, &config, before));
        let mut lost = before.map_or_else(Vec::new, |before| before.lost.clone());
        for one in logs.iter().map(|log| log.lost()) {
            if !lost.iter().any(|known| Arc::ptr_eq(known, &one)) {
                lost.push(one);
            }
        }
        let mut old: Vec<Weak<GenerationRules>> = Vec::new();
        if let Some(before) = before {
            let alive = before.earlier.iter();
            old.extend(alive.filter(|rules| rules.strong_count() > 0).cloned());
            old.push(Arc::downgrade(&before.rules));
        }
        let planned = assembly.listeners.iter().zip(&plan.listeners);
        let bound = planned.map(|(planned, listener)| BoundAddress {
            address: listener.bound.to_string(),
            port: port(&listener.bound),
            kind: kind(planned),
        });
        let bound = bound.collect();
        let exposition = Arc::new(Exposition::new(
            &assembly,
            statuses,
            SharedState {
                shards: Arc::clone(&shards),
                shared: Arc::clone(&workers.shared),
                tops: workers.tops.clone(),
                lost: lost.clone(),
                file: file.clone(),
                started: workers.started,
                earlier: old.clone(),
                generation: number,
                bound,
                certificates,
                sinks,
                ddns,
                explained: ExplainedConfig {
                    loaded,
                    assembly: Arc::clone(&assembly),
                },
            },
        ));
        Self {
            config,
            file,
            assembly,
            listeners: plan.listeners,
            earlier_logs: before.map_or_else(Vec::new, |before| before.logs_without(&logs)),
            lost,
            logs,
            exposition,
            shards,
            rules,
            earlier: old,
            last_socket: plan.last_socket,
        }
    }

    /// Its number; the first has 1.
    pub(crate) fn number(&self) -> u64 {
        self.rules.number
    }

    /// The logs that may still be written to when only `kept` go on.
    fn logs_without(&self, kept: &Logs) -> Vec<Arc<LogWriter>> {
        let has_earlier = self.earlier.iter().any(|rules| rules.strong_count() > 0);
        let earlier = self.earlier_logs.iter().filter(|_| has_earlier);
        let is_gone = |log: &&Arc<LogWriter>| !kept.iter().any(|other| Arc::ptr_eq(other, log));
        let gone = self.logs.iter().chain(earlier).filter(is_gone);
        gone.cloned().collect()
    }

    /// All logs that are open.
    pub(crate) fn open_logs(&self) -> impl Iterator<Item = &Arc<LogWriter>> {
        self.logs.iter().chain(&self.earlier_logs)
    }

    /// Gives the sockets the options of their listeners, which may have changed since they were
    /// bound. Sockets that another program has bound keep theirs.
    pub(crate) fn set_socket_options(&self) {
        let planned = self.assembly.listeners.iter();
        for (planned, running) in planned.zip(&self.listeners) {
            if running.owner != SocketOwner::Us {
                continue;
            }
            for socket in running.sockets.iter() {
                if let Err(error) = listen::set_options(socket, &planned.options) {
                    tracing::warn!(%error, address = %running.bound, "a socket keeps its options");
                }
            }
        }
    }

    /// Closes its duplicates of the sockets, so that those of the workers are the last ones.
    pub(crate) fn release_sockets(&mut self) {
        for listener in &mut self.listeners {
            listener.sockets = Arc::default();
        }
    }

    /// The names and addresses of the listeners.
    pub(crate) fn names(&self) -> Vec<(String, ListenAddress)> {
        let planned = self.assembly.listeners.iter();
        let names = planned.map(|planned| planned.listener.name.clone());
        names
            .zip(self.listeners.iter().map(|one| one.bound.clone()))
            .collect()
    }

    /// Has the workers take it up.
    pub(crate) fn adopt(&self, workers: &Workers) -> RunningAdoption {
        let (closed, closing) = watch::channel(());
        let listeners: Vec<_> = self
            .listeners
            .iter()
            .zip(&self.assembly.listeners)
            .map(|(running, planned)| WorkerListener {
                id: running.id,
                socket: running.socket,
                settings: Arc::clone(&planned.listener),
            })
            .collect();
        let adopt = |number: usize| {
            let adoption = Box::new(Adoption {
                setup: self.setup(number, workers.pipes()),
                listeners: listeners.clone(),
                closing: closing.clone(),
            });
            |answer: oneshot::Sender<()>| WorkerMessage::Adopt(adoption, answer)
        };
        let adopted = workers.ask((0..workers.count()).map(adopt));
        RunningAdoption { adopted, closed }
    }

    fn setup(&self, worker: usize, pipes: usize) -> GenerationSetup {
        let config = &self.config;
        let log = |writer: &Arc<LogWriter>, log: &AccessLog| LogSetup {
            sender: writer.sender(),
            lost: writer.lost(),
            style: style(log),
        };
        let shared = self.logs.shared.as_ref().zip(config.access_log.as_ref());
        let sites = self.logs.sites.iter().zip(&config.site_logs);
        GenerationSetup {
            rules: Arc::clone(&self.rules),
            cells: self
                .shards
                .shard(worker)
                .expect("there is a shard for each worker"),
            pools: self.assembly.upstreams.clone(),
            log: shared.map(|(writer, written)| log(writer, written)),
            site_logs: sites
                .map(|(writer, (written, _))| log(writer, written))
                .collect(),
            pipes,
        }
    }
}

/// The rules that hold on every listener.
fn rules(number: u64, config: &Config, before: Option<&RunningGeneration>) -> GenerationRules {
    let trusted = config.trusted.clone();
    let running = before.and_then(|before| before.rules.per_client.clone());
    let per_client = match (running, config.limits.per_client) {
        (Some(running), Some(size)) => {
            running.resize(size);
            Some(running)
        }
        (_, size) => size.map(PerClient::new),
    };
    GenerationRules {
        number,
        trusted: Box::new(move |ip| trusted.iter().any(|cidr| cidr.contains(ip))),
        per_client,
        mask: mask_of_metrics(config),
        spans: config.export.traces.as_ref().map(|traces| traces.share),
    }
}

/// The names of a generation's endpoints: pool, label, and which of several with this label.
fn endpoints(assembly: &Assembly) -> impl Iterator<Item = (&str, &str, usize)> {
    let count = assembly
        .upstreams
        .iter()
        .map(|pool| pool.members().len())
        .sum();
    let mut seen: HashMap<(&str, &str), usize> = HashMap::with_capacity(count);
    let members = assembly.upstreams.iter().flat_map(|pool| {
        let labels = pool
            .members()
            .iter()
            .map(|member| &*member.endpoint().label);
        labels.map(|label| (&*pool.settings.name, label))
    });
    members.map(move |(pool, label)| {
        let count = seen.entry((pool, label)).or_default();
        *count += 1;
        (pool, label, *count)
    })
}

/// For each of `now` the index of the thing with the same key among `before`.
fn earlier_indexes<'a, T: 'a, K: Eq + Hash>(
    before: impl Iterator<Item = impl std::borrow::Borrow<T>>,
    now: &'a [T],
    key: impl Fn(&T) -> K,
) -> Vec<Option<usize>> {
    let known: HashMap<K, usize> = before
        .enumerate()
        .map(|(index, one)| (key(one.borrow()), index))
        .collect();
    now.iter()
        .map(|one| known.get(&key(one)).copied())
        .collect()
}

/// The kind of a listener, in a word.
pub(crate) fn kind(planned: &PlannedListener) -> &'static str {
    match (&planned.listener.service, &planned.listener.tls) {
        (ListenerService::Http(_), Some(_)) => "https",
        (ListenerService::Http(_), None) => "http",
        (ListenerService::Relay(_), Some(_)) | (ListenerService::Sni(_), _) => "tls",
        (ListenerService::Relay(_), None) => "tcp",
    }
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
