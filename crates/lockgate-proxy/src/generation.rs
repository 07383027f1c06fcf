//! One configuration as one worker runs it: its pools with their connections, its counters, and its
//! logs.
//!
//! A request holds the generation that it began in. A generation is freed with its last request;
//! what the next one has too, both share.

use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;

use foldhash::HashMap;
use lockgate_limits::{PerClient, PoolIndex};
use lockgate_metrics::{Padded, Shard};
use lockgate_rules::TraceShare;
use lockgate_upstream::{EndpointIndex, Pool, UpstreamBuffers, UpstreamPool, WorkerSockets};

use crate::access_log::{LineStyle, MaskIp, WorkerLog};
use crate::metrics::WorkerCells;

/// The rules of one configuration that hold on every listener, shared by the workers.
pub struct GenerationRules {
    /// The number of the configuration among those that the process has run; the first has 1.
    pub number: u64,
    /// Whether PROXY headers and forwarding fields of this address are trusted.
    pub trusted: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Connections of each client at once, if that is limited.
    pub per_client: Option<Arc<PerClient>>,
    /// The mask of client addresses among the most active clients, and in spans.
    pub mask: MaskIp,
    /// The share of new traces that is recorded; `None` where no spans are exported.
    pub spans: Option<TraceShare>,
}

impl fmt::Debug for GenerationRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenerationRules")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// An access log of a configuration: its writer, and the format of its lines.
#[derive(Debug, Clone)]
pub struct LogSetup {
    /// The channel to the writer.
    pub sender: SyncSender<Vec<u8>>,
    /// The lines that could not be handed over; the same counter is the same writer.
    pub lost: Arc<AtomicU64>,
    /// The format of the lines.
    pub style: LineStyle,
}

/// The parts of a worker's next generation.
#[derive(Debug)]
pub struct GenerationSetup {
    /// The rules that hold on every listener.
    pub rules: Arc<GenerationRules>,
    /// Its counters.
    pub cells: Shard<WorkerCells>,
    /// The pools of the sites.
    pub pools: Vec<Arc<Pool>>,
    /// The access log, unless it is off.
    pub log: Option<LogSetup>,
    /// The access logs of sites.
    pub site_logs: Vec<LogSetup>,
    /// The most pipes that the worker may have open for splicing.
    pub pipes: usize,
}

/// The buffer of a log in one worker, which generations with the same log share.
pub type SharedLog = Rc<RefCell<WorkerLog>>;

/// One configuration as one worker runs it.
#[derive(Debug)]
pub struct Generation {
    /// The rules that hold on every listener.
    pub rules: Arc<GenerationRules>,
    /// Its counters.
    pub cells: Shard<WorkerCells>,
    /// The access log, unless it is off.
    pub log: Option<SharedLog>,
    /// The access logs of sites.
    pub site_logs: Vec<SharedLog>,
    upstreams: Box<[Rc<UpstreamPool>]>,
    /// The most pipes that the worker may have open for splicing.
    pub(crate) pipes: usize,
}

impl Generation {
    /// The generation of a worker that runs no configuration yet.
    pub fn none() -> Self {
        Self {
            rules: Arc::new(GenerationRules {
                number: 0,
                trusted: Box::new(|_| false),
                per_client: None,
                mask: MaskIp::Keep,
                spans: None,
            }),
            cells: Shard::new(Padded::new(WorkerCells::none())),
            log: None,
            site_logs: Vec::new(),
            upstreams: Box::default(),
            pipes: 0,
        }
    }

    /// The generation after this one. It shares connections with it, and buffers of logs.
    pub fn next(
        &self,
        setup: GenerationSetup,
        buffers: &UpstreamBuffers,
        sockets: &Rc<WorkerSockets>,
    ) -> Self {
        let known: HashMap<&str, &UpstreamPool> = self
            .upstreams
            .iter()
            .map(|upstream| (upstream.pool().settings.name.as_str(), &**upstream))
            .collect();
        let mut first = 0;
        let upstream = |pool: Arc<Pool>| {
            let here = EndpointIndex::new(first);
            first += pool.members().len();
            let previous = known.get(pool.settings.name.as_str()).copied();
            UpstreamPool::new(pool, here, previous, buffers, sockets)
        };
        Self {
            upstreams: setup.pools.into_iter().map(upstream).collect(),
            log: setup.log.map(|log| self.log_of(log)),
            site_logs: setup
                .site_logs
                .into_iter()
                .map(|log| self.log_of(log))
                .collect(),
            rules: setup.rules,
            cells: setup.cells,
            pipes: setup.pipes,
        }
    }

    fn log_of(&self, setup: LogSetup) -> SharedLog {
        let known = self
            .logs()
            .find(|log| log.borrow().is_for(&setup.lost, setup.style));
        known.map_or_else(
            || {
                let log = WorkerLog::new(setup.sender, setup.lost, setup.style);
                Rc::new(RefCell::new(log))
            },
            Rc::clone,
        )
    }

    /// All its logs.
    pub fn logs(&self) -> impl Iterator<Item = &SharedLog> {
        self.log.iter().chain(&self.site_logs)
    }

    /// The pool of the sites with this index.
    pub fn upstream(&self, pool: PoolIndex) -> &Rc<UpstreamPool> {
        &self.upstreams[pool.get()]
    }

    /// The pools of the sites.
    pub fn upstreams(&self) -> &[Rc<UpstreamPool>] {
        &self.upstreams
    }

    /// Whether PROXY headers and forwarding fields of this address are trusted.
    pub fn trusts(&self, address: IpAddr) -> bool {
        (self.rules.trusted)(address)
    }
}
