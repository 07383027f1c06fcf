//! One worker thread: its reactor, its listening sockets, and the connections accepted on
//! them.

mod connections;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::Receiver;
use std::task::Poll;

use lockgate_limits::clock::{Clock, Ticker};
use lockgate_limits::{ListenerId, ListenerIndex};
use lockgate_net::listen::{self, SocketOwner};
use lockgate_net::millis::Millis;
use lockgate_net::reactor::{self, Reactor};
use lockgate_net::socket::SocketFamily;
use lockgate_net::timer::Timer;
use lockgate_net::traffic_shaping::ShapingQueue;
use lockgate_proxy::downstream::{
    AcceptSocket, ActiveListener, ListenerSettings, ListenerSnapshot, accept,
};
use lockgate_proxy::generation::{Generation, GenerationSetup};
use lockgate_proxy::worker::{Setup, Worker};
use tokio::sync::{oneshot, watch};

use connections::KnownListeners;
pub(crate) use connections::{ConnectionFilter, ConnectionList, ConnectionQuery, ConnectionRow};

/// The order that holds for all workers; it only ever goes up.
#[derive(Debug, Default)]
pub(crate) struct CurrentOrder(AtomicU8);

/// An order of the supervisor to its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum WorkerOrder {
    Serve = 0,
    /// Accept the backlog, and end when all connections have ended.
    Stop = 1,
    Cut = 2,
}

impl CurrentOrder {
    /// Gives an order; the workers must be nudged to look at it.
    pub(crate) fn give(&self, order: WorkerOrder) {
        self.0.store(order as u8, Ordering::Release);
    }

    fn read(&self) -> WorkerOrder {
        match self.0.load(Ordering::Acquire) {
            0 => WorkerOrder::Serve,
            1 => WorkerOrder::Stop,
            _ => WorkerOrder::Cut,
        }
    }
}

/// The number of a bound address: each worker has a listening socket for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SocketId(pub(crate) u64);

/// A listening socket of one worker.
pub(crate) struct WorkerSocket {
    pub(crate) id: SocketId,
    pub(crate) fd: OwnedFd,
    pub(crate) family: SocketFamily,
    pub(crate) owner: SocketOwner,
}

/// A listener of a generation, and the socket that it accepts on.
#[derive(Debug, Clone)]
pub(crate) struct WorkerListener {
    pub(crate) id: ListenerId,
    pub(crate) socket: SocketId,
    pub(crate) settings: Arc<ListenerSettings>,
}

/// A message of the supervisor to one worker, which must be nudged to look at it.
pub(crate) enum WorkerMessage {
    /// Register these sockets, and accept no connection on them yet: another worker may still need
    /// a descriptor for itself.
    Prepare(Vec<WorkerSocket>, oneshot::Sender<io::Result<()>>),
    /// Close the sockets that were registered last: their generation will not be.
    Discard,
    /// Tell which connections there are.
    List(Arc<ConnectionQuery>, oneshot::Sender<ConnectionList>),
    /// Count the connections that are held to an earlier generation.
    CountEarlier(oneshot::Sender<usize>),
    /// Close connections; the answer is their number.
    Close(Arc<ConnectionFilter>, oneshot::Sender<usize>),
    /// Close what is held to a generation before this one.
    CutEarlier(u64),
    /// Accept no longer on these sockets: another process has them.
    HandOver(Arc<[SocketId]>),
    /// Close idle connections to endpoints that an operator has taken out of their pools. After the
    /// answer no request that this worker had chosen such an endpoint for begins there.
    CloseAdministered(oneshot::Sender<()>),
    /// Take up this generation.
    Adopt(Box<Adoption>, oneshot::Sender<()>),
}

/// What a worker needs to take up a generation.
pub(crate) struct Adoption {
    pub(crate) setup: GenerationSetup,
    /// The listeners in the order of its counters.
    pub(crate) listeners: Vec<WorkerListener>,
    /// Dropped when the sockets are closed that the generation does not have.
    pub(crate) closing: watch::Receiver<()>,
}

/// The resources of one worker.
pub(crate) struct WorkerTask {
    pub(crate) setup: Setup,
    pub(crate) orders: Arc<CurrentOrder>,
    pub(crate) messages: Receiver<WorkerMessage>,
}

/// Runs one worker until it is to stop and has no connection left; returns the number of
/// connections that it had to cut.
///
/// # Errors
/// When the thread's reactor cannot be made or a socket cannot be watched.
pub(crate) fn run(task: WorkerTask) -> io::Result<usize> {
    let reactor = Reactor::new()?;
    let cut = reactor.block_on(serve(task))?;
    // The log's last lines leave with the reactor's tasks, which hold the worker.
    drop(reactor);
    cut
}

async fn serve(task: WorkerTask) -> io::Result<usize> {
    let ticker: Arc<Ticker> = Arc::clone(&task.setup.ticker);
    let shaping_queue = ShapingQueue::new()?;
    let worker = Worker::new(task.setup, Rc::clone(&shaping_queue));
    // The task ends with the reactor.
    reactor::spawn(async move { drop(shaping_queue.run().await) });
    let mut sockets = ListeningSockets::new(Rc::clone(&worker));
    let mut alarm = TickAlarm::new()?;
    let mut cut = 0;
    loop {
        let is_due = alarm.next(&worker.clock, &ticker).await?;
        task.messages
            .try_iter()
            .for_each(|message| sockets.handle(message));
        worker.yield_idle();
        if ticker.take_tick() || is_due {
            worker.tick();
        }
        match task.orders.read() {
            WorkerOrder::Serve => continue,
            WorkerOrder::Stop => worker.stop_accepting(),
            WorkerOrder::Cut => {
                worker.stop_accepting();
                // Again with every tick, for those that came after the first.
                cut = cut.max(worker.cut_all());
            }
        }
        if !sockets.are_accepting() && worker.clock.watched() == 0 {
            worker.tick();
            return Ok(cut);
        }
    }
}

/// The alarm of a worker's next tick.
struct TickAlarm {
    timer: Timer,
    /// The moment that it is set for.
    set_for: Millis,
}

impl TickAlarm {
    fn new() -> io::Result<Self> {
        let (timer, set_for) = (Timer::new()?, Millis::MAX);
        Ok(Self { timer, set_for })
    }

    /// Completes when `clock` is to tick, with true, or when `ticker` is told something.
    async fn next(&mut self, clock: &Clock, ticker: &Ticker) -> io::Result<bool> {
        if clock.next() != self.set_for {
            self.set_for = clock.next();
            self.timer.set(clock.until(self.set_for))?;
        }
        let mut told = pin!(ticker.next());
        poll_fn(|cx| {
            if let Poll::Ready(gone_off) = self.timer.poll(cx) {
                self.set_for = Millis::MAX;
                return Poll::Ready(gone_off.map(|()| true));
            }
            told.as_mut().poll(cx).map(|()| Ok(false))
        })
        .await
    }
}

/// The listening sockets of one worker.
struct ListeningSockets {
    worker: Rc<Worker>,
    /// Those of the generation that runs.
    running: HashMap<SocketId, Rc<AcceptSocket>>,
    /// Those of the next generation.
    prepared: Vec<(SocketId, listen::Listener)>,
    /// Shared with each accept loop.
    accepting: Rc<()>,
    known: KnownListeners,
}

impl ListeningSockets {
    fn new(worker: Rc<Worker>) -> Self {
        Self {
            worker,
            running: HashMap::new(),
            prepared: Vec::new(),
            accepting: Rc::new(()),
            known: KnownListeners::default(),
        }
    }

    /// Whether a backlog is not empty yet.
    fn are_accepting(&self) -> bool {
        Rc::strong_count(&self.accepting) > 1
    }

    /// Does as a message asks. The supervisor is never gone before the answer.
    fn handle(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Prepare(sockets, answer) => {
                let _ = answer.send(self.prepare(sockets));
            }
            WorkerMessage::Discard => self.prepared.clear(),
            WorkerMessage::List(query, answer) => {
                let _ = answer.send(connections::list(&self.worker, &self.known, &query));
            }
            WorkerMessage::CountEarlier(answer) => {
                let _ = answer.send(connections::count_earlier(&self.worker));
            }
            WorkerMessage::Close(filter, answer) => {
                let _ = answer.send(connections::close(&self.worker, &self.known, &filter));
            }
            WorkerMessage::CutEarlier(number) => self.worker.cut_earlier(number),
            WorkerMessage::HandOver(sockets) => {
                let running = sockets.iter().filter_map(|id| self.running.get(id));
                running.for_each(|socket| socket.hand_over());
            }
            WorkerMessage::CloseAdministered(answer) => {
                self.worker.sockets.close_administered();
                let _ = answer.send(());
            }
            WorkerMessage::Adopt(adoption, answer) => {
                self.adopt(*adoption);
                let _ = answer.send(());
            }
        }
    }

    fn prepare(&mut self, sockets: Vec<WorkerSocket>) -> io::Result<()> {
        for socket in sockets {
            let listener = listen::Listener::new(socket.fd, socket.family, socket.owner)?;
            self.prepared.push((socket.id, listener));
        }
        Ok(())
    }

    /// Changes generation. What begins from here on, begins in the new one.
    fn adopt(&mut self, adoption: Adoption) {
        let Adoption {
            setup,
            listeners,
            closing,
        } = adoption;
        let generation = self.worker.adopt(setup);
        let mut gone = std::mem::take(&mut self.running);
        for (index, listener) in ListenerIndex::enumerate(listeners) {
            let known = gone.remove(&listener.socket);
            if let Some(socket) = self.listen(&generation, index, listener.clone(), known) {
                self.running.insert(listener.socket, socket);
            }
        }
        for socket in gone.into_values() {
            socket.close(closing.clone());
            self.drain(&socket.listener());
        }
    }

    /// Makes the connections of a socket those of a listener; `known` is the socket, if it accepts
    /// already.
    fn listen(
        &mut self,
        generation: &Rc<Generation>,
        index: ListenerIndex,
        listener: WorkerListener,
        known: Option<Rc<AcceptSocket>>,
    ) -> Option<Rc<AcceptSocket>> {
        let cells = Arc::clone(generation.cells.listener(index)?);
        let snapshot = ListenerSnapshot {
            settings: listener.settings,
            generation: Rc::clone(generation),
        };
        if let Some(socket) = known {
            let before = socket.listener();
            if before.id == listener.id {
                before.update(snapshot);
            } else {
                // Its connections cannot be held to the new settings.
                let next = ActiveListener::new(listener.id, cells, snapshot);
                self.known.add(&next);
                socket.hand_to(next);
                self.drain(&before);
            }
            return Some(socket);
        }
        let active = ActiveListener::new(listener.id, cells, snapshot);
        self.known.add(&active);
        let socket = AcceptSocket::new(active);
        // There are several if an earlier process with more workers has handed them over.
        let is_new = |(id, _): &mut (SocketId, _)| *id == listener.socket;
        let mut new = self.prepared.extract_if(.., is_new).peekable();
        new.peek()?;
        for (_, listening) in new {
            let accepting = accept(Rc::clone(&self.worker), listening, Rc::clone(&socket));
            let count = Rc::clone(&self.accepting);
            reactor::spawn(async move {
                accepting.await;
                drop(count);
            });
        }
        Some(socket)
    }

    /// Has the connections of a listener take no further request.
    fn drain(&self, listener: &ActiveListener) {
        listener.drain();
        let id = listener.id;
        self.worker.drain(|watch| watch.listener.get() == Some(id));
    }
}
