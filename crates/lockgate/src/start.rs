//! The start of the workers, and everything that runs then, once all is bound, read and allowed:
//! see `start_steps`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use lockgate_config::{Config, ProcessLimits};
use lockgate_limits::WorkerIndex;
use lockgate_limits::clients::Clients;
use lockgate_limits::clock::Ticker;
use lockgate_limits::connections::ConnectionLimit;
use lockgate_limits::handshakes::HandshakeLimit;
use lockgate_limits::sockets::SocketLimit;
use lockgate_metrics::Shards;
use lockgate_net::cert_demand::CertDemands;
use lockgate_net::threads;
use lockgate_proxy::access_log::{RecentErrors, Tails};
use lockgate_proxy::admit::client_bans::ClientBans;
use lockgate_proxy::files;
use lockgate_proxy::metrics::WorkerCells;
use lockgate_proxy::request_id::RequestIds;
use lockgate_proxy::request_traces::RequestTraces;
use lockgate_proxy::spans::SpanQueue;
use lockgate_proxy::worker::{ProcessState, PublishedTop, Setup};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, oneshot};

use crate::assemble::Assembly;
use crate::descriptors::{self, Division};
use crate::start_steps::Prepared;
use crate::worker::{
    self, CurrentOrder, SocketId, WorkerMessage, WorkerOrder, WorkerSocket, WorkerTask,
};

/// The worker threads, as the main thread holds them.
pub(crate) struct Workers {
    pub(crate) shared: Arc<ProcessState>,
    /// Their counters without a configuration.
    pub(crate) cells: Shards<WorkerCells>,
    pub(crate) tops: Vec<PublishedTop>,
    pub(crate) started: SystemTime,
    /// The most files that each keeps open for the next request.
    files: usize,
    pipes: usize,
    /// The connections that the configuration wants, and the descriptors that each worker holds for
    /// itself: by these the descriptors are divided.
    divided: (Option<usize>, usize),
    orders: Arc<CurrentOrder>,
    tickers: Vec<Arc<Ticker>>,
    messages: Vec<Sender<WorkerMessage>>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// The result of each worker that has ended.
    pub(crate) ended: UnboundedReceiver<io::Result<usize>>,
    /// The number of workers that have not ended yet.
    pub(crate) left: usize,
}

impl Workers {
    /// Starts the threads; each waits for its first generation.
    ///
    /// # Errors
    /// When the system has no room for another thread.
    pub(crate) fn start(prepared: &Prepared) -> io::Result<Self> {
        let (config, workers) = (&prepared.config, prepared.workers);
        let files = descriptors::file_limit(descriptors::limit(), workers, files::DESCRIPTORS);
        let held = held_by_worker(&prepared.assembly, descriptors::limit(), workers);
        let division = Division::now(config.limits.connections, workers, held);
        let tickers: Vec<_> = (0..workers).map(|_| Ticker::new()).collect();
        let shared = Arc::new(shared(config, division, &tickers));
        let cells = Shards::new(workers, |_| WorkerCells::none());
        let orders = Arc::new(CurrentOrder::default());
        let (end, ended) = unbounded_channel();
        let (mut tops, mut threads, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (ticker, cells)) in tickers.iter().zip(cells.iter()).enumerate() {
            let (top, (send, receive)) = (PublishedTop::default(), channel());
            let setup = Setup {
                shared: Arc::clone(&shared),
                ticker: Arc::clone(ticker),
                cells: Arc::clone(&cells.process),
                top: Arc::clone(&top),
                pipes: division.pipes,
                files,
                index: WorkerIndex::new(number),
            };
            let task = WorkerTask {
                setup,
                orders: Arc::clone(&orders),
                messages: receive,
            };
            let end = end.clone();
            let thread = threads::start(format!("worker-{number}"), move || {
                // The supervisor outlives its workers, or the process is over.
                let _ = end.send(worker::run(task));
            });
            threads.push(thread?);
            tops.push(top);
            messages.push(send);
        }
        Ok(Self {
            shared,
            cells,
            tops,
            started: SystemTime::now(),
            files,
            pipes: division.pipes,
            divided: (config.limits.connections, held),
            orders,
            tickers,
            messages,
            left: threads.len(),
            threads,
            ended,
        })
    }

    /// Sets the limits that all workers share.
    pub(crate) fn set_limits(&mut self, limits: &ProcessLimits, assembly: &Assembly) {
        let held = assembly.held_by_worker(self.files);
        self.shared.handshakes.resize(limits.handshakes);
        if (limits.connections, held) != self.divided {
            self.divided = (limits.connections, held);
            let division = Division::now(limits.connections, self.count(), held);
            self.shared.connections.resize(division.connections);
            self.shared.sockets.resize(division.sockets);
            self.pipes = division.pipes;
        }
    }

    /// The most pipes that each may have open for splicing.
    pub(crate) fn pipes(&self) -> usize {
        self.pipes
    }

    /// The number of threads.
    pub(crate) fn count(&self) -> usize {
        self.threads.len()
    }

    /// Has every worker look at its orders and messages.
    pub(crate) fn nudge(&self) {
        self.tickers.iter().for_each(|ticker| ticker.nudge());
    }

    /// Gives an order to all of them.
    pub(crate) fn order(&self, order: WorkerOrder) {
        self.orders.give(order);
        self.nudge();
    }

    /// Sends each worker a message, and returns the answers to come.
    pub(crate) fn ask<T>(
        &self,
        messages: impl Iterator<Item = impl FnOnce(oneshot::Sender<T>) -> WorkerMessage>,
    ) -> Vec<oneshot::Receiver<T>> {
        let asked = messages.zip(&self.messages).map(|(message, worker)| {
            let (answer, answered) = oneshot::channel();
            // The answer of a worker that has ended never comes.
            let _ = worker.send(message(answer));
            answered
        });
        let answers = asked.collect();
        self.nudge();
        answers
    }

    /// Has each worker register its sockets for the next generation.
    pub(crate) fn prepare(
        &self,
        sockets: Vec<Vec<WorkerSocket>>,
    ) -> Vec<oneshot::Receiver<io::Result<()>>> {
        self.ask(sockets.into_iter().map(|sockets| {
            |answer: oneshot::Sender<io::Result<()>>| WorkerMessage::Prepare(sockets, answer)
        }))
    }

    /// Has each worker close what is held to a generation before this one.
    pub(crate) fn cut_earlier(&self, number: u64) {
        for worker in &self.messages {
            let _ = worker.send(WorkerMessage::CutEarlier(number));
        }
        self.nudge();
    }

    /// Has each worker accept no longer on these sockets: another process has them.
    pub(crate) fn hand_over(&self, sockets: &Arc<[SocketId]>) {
        for worker in &self.messages {
            let _ = worker.send(WorkerMessage::HandOver(Arc::clone(sockets)));
        }
        self.nudge();
    }

    /// Has each worker close idle connections to endpoints that an operator has taken out of their
    /// pools; each answers when it has.
    pub(crate) fn close_administered(&self) -> Vec<oneshot::Receiver<()>> {
        self.ask((0..self.count()).map(|_| WorkerMessage::CloseAdministered))
    }

    /// Has each worker count the connections that are held to earlier generations.
    pub(crate) fn count_earlier(&self) -> Vec<oneshot::Receiver<usize>> {
        self.ask((0..self.count()).map(|_| WorkerMessage::CountEarlier))
    }

    /// Has each worker close the sockets that it has registered last.
    pub(crate) fn discard(&self) {
        for worker in &self.messages {
            let _ = worker.send(WorkerMessage::Discard);
        }
        self.nudge();
    }
}

/// The descriptors that each worker holds for itself, of `nofile` of the process.
pub(crate) fn held_by_worker(assembly: &Assembly, nofile: u64, workers: usize) -> usize {
    let files = descriptors::file_limit(nofile, workers, files::DESCRIPTORS);
    assembly.held_by_worker(files)
}

/// The state that all workers share.
fn shared(config: &Config, division: Division, tickers: &[Arc<Ticker>]) -> ProcessState {
    let woken: Arc<[Arc<Ticker>]> = tickers.into();
    ProcessState {
        connections: ConnectionLimit::new(division.connections, &woken),
        handshakes: HandshakeLimit::new(config.limits.handshakes),
        sockets: Arc::new(SocketLimit::new(division.sockets, &woken)),
        workers: tickers.len(),
        clients: Clients::new(),
        bans: ClientBans::default(),
        challenges: Arc::default(),
        cert_demands: CertDemands::default(),
        tails: Tails::new(tickers.len()),
        traces: RequestTraces::default(),
        spans: Arc::new(SpanQueue::new(tickers.len())),
        errors: RecentErrors::new(tickers.len()),
        request_ids: RequestIds::random(),
        ids: AtomicU64::new(first_id()),
        worked: Notify::new(),
    }
}

/// The number of the first connection: another one after every start.
fn first_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
