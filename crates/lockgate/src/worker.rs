//! One worker thread: a runtime of its own, its listening sockets, and the connections accepted on
//! them.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use lockgate_limits::ListenerIndex;
use lockgate_limits::clock::Ticker;
use lockgate_net::listen::{self, SocketOwner};
use lockgate_net::socket::SocketFamily;
use lockgate_net::traffic_shaping::ShapingQueue;
use lockgate_proxy::downstream::{ListenerSettings, accept};
use lockgate_proxy::worker::{Setup, Worker};
use tokio::sync::oneshot;

/// The order that holds for all workers; it only ever goes up.
#[derive(Debug, Default)]
pub(crate) struct CurrentOrder(AtomicU8);

/// An order of the supervisor to its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum WorkerOrder {
    /// Accept no connection yet: another worker may still need a descriptor for itself.
    Prepare = 0,
    Serve = 1,
    /// Accept the backlog, and end when all connections have ended.
    Stop = 2,
    Cut = 3,
}

impl CurrentOrder {
    /// Gives an order; the workers must be nudged to look at it.
    pub(crate) fn give(&self, order: WorkerOrder) {
        self.0.store(order as u8, Ordering::Release);
    }

    fn read(&self) -> WorkerOrder {
        match self.0.load(Ordering::Acquire) {
            0 => WorkerOrder::Prepare,
            1 => WorkerOrder::Serve,
            2 => WorkerOrder::Stop,
            _ => WorkerOrder::Cut,
        }
    }
}

/// A listening socket of one worker, and the listener that serves its connections.
pub(crate) struct WorkerSocket {
    pub(crate) fd: OwnedFd,
    pub(crate) family: SocketFamily,
    pub(crate) owner: SocketOwner,
    pub(crate) index: ListenerIndex,
    pub(crate) listener: Arc<ListenerSettings>,
}

/// The resources of one worker.
pub(crate) struct WorkerTask {
    pub(crate) setup: Setup,
    /// One socket for each listener, in the order of the configuration.
    pub(crate) sockets: Vec<WorkerSocket>,
    pub(crate) orders: Arc<CurrentOrder>,
    /// Sent once the worker has every descriptor that it needs beside its connections'; dropped
    /// when it cannot have them.
    pub(crate) prepared: oneshot::Sender<()>,
}

/// Runs one worker until it is to stop and has no connection left; returns the number of
/// connections that it had to cut.
///
/// # Errors
/// When the thread's runtime cannot be made or a socket cannot be watched.
pub(crate) fn run(task: WorkerTask) -> io::Result<usize> {
    // Without the time driver: deadlines are cells, swept by the tick (see
    // `lockgate_limits::clock`).
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build_local(Default::default())?;
    let cut = runtime.block_on(serve(task));
    // The log's last lines leave with the runtime's tasks, which hold the worker.
    drop(runtime);
    cut
}

async fn serve(task: WorkerTask) -> io::Result<usize> {
    let ticker: Arc<Ticker> = Arc::clone(&task.setup.ticker);
    let shaping_queue = ShapingQueue::new()?;
    let worker = Worker::new(task.setup, Rc::clone(&shaping_queue));
    // The task ends with the runtime.
    tokio::task::spawn_local(async move { shaping_queue.run().await });
    let mut listening = Vec::new();
    for own in task.sockets {
        listening.push((
            listen::Listener::new(own.fd, own.family, own.owner)?,
            own.index,
            own.listener,
        ));
    }
    // The supervisor waits for this, and is never gone before.
    let _ = task.prepared.send(());
    while task.orders.read() == WorkerOrder::Prepare {
        ticker.next().await;
    }
    let accepting: Vec<_> = listening
        .into_iter()
        .map(|(socket, index, listener)| {
            tokio::task::spawn_local(accept(Rc::clone(&worker), socket, index, listener))
        })
        .collect();
    let mut cut = 0;
    loop {
        ticker.next().await;
        worker.yield_idle();
        if ticker.take_tick() {
            worker.tick();
        }
        match task.orders.read() {
            WorkerOrder::Prepare | WorkerOrder::Serve => continue,
            WorkerOrder::Stop => worker.stop_accepting(),
            WorkerOrder::Cut => {
                worker.stop_accepting();
                // Again with every tick, for those that came after the first.
                cut = cut.max(worker.cut_all());
            }
        }
        if accepting.iter().all(tokio::task::JoinHandle::is_finished) && worker.clock.watched() == 0
        {
            worker.tick();
            return Ok(cut);
        }
    }
}
