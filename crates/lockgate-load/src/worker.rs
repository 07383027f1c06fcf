//! Worker thread of the generator: its clients, its share of each stage, and its counts.

mod http2;
mod stage_seconds;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use fastrand::Rng;
use lockgate_net::reactor::{self, Reactor};
use lockgate_net::stream::BufferPool;
use lockgate_net::timer::Timer;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::client::{self, ClientBuffers, ExchangeError, ExchangeStats, Transport};
use crate::load_scheduler::{Interleave, LoadScheduler, Ticket};
use crate::nanos::{Nanoseconds, nanoseconds};
use crate::plan::{LoadStage, RunPlan};
use crate::result::{FailureKind, StageCounts, TargetCounts};
use crate::shared_link::LinkQueue;
use crate::target::LoadTarget;

use http2::Http2Client;
use stage_seconds::StageSeconds;

/// Interval at which deadlines are checked.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// Ticks before a client tries again after a failed connect: without a pause a refusing server
/// would get endless requests.
const PAUSE: usize = 10;

/// Stop signal that ends a run early; shared by all threads.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    /// The status that ended the run; 0 for none.
    status: AtomicU16,
}

impl Stop {
    /// Ends the run: exchanges under way are cut.
    pub fn now(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub fn is_requested(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    fn on(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
        self.now();
    }

    /// The status that ended the run, if one did.
    pub(crate) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status > 0)
    }
}

/// Order to a thread to start a stage.
pub(crate) struct StageStart {
    pub(crate) stage: Arc<LoadStage>,
    pub(crate) begin: Instant,
}

/// Event of a thread, for the main thread.
pub(crate) enum WorkerEvent {
    /// Counts of one second of the stage, with its index; those after the stage's time have the
    /// index behind its last second.
    Second(usize, Box<StageCounts>),
    /// The end of its share of the stage, the thread's time within the stage's time, and the counts
    /// of each target.
    Over {
        busy: ThreadTime,
        targets: Vec<TargetCounts>,
    },
    /// An error that ends the thread.
    Broken(io::Error),
}

/// Setup of a worker thread.
pub(crate) struct WorkerSetup {
    pub(crate) plan: Arc<RunPlan>,
    pub(crate) thread: usize,
    /// Its share of the connections.
    pub(crate) clients: usize,
    pub(crate) stop: Arc<Stop>,
    pub(crate) orders: Receiver<StageStart>,
    pub(crate) events: Sender<WorkerEvent>,
}

/// State that the clients of a thread share.
struct LoadWorker {
    plan: Arc<RunPlan>,
    stop: Arc<Stop>,
    scheduler: LoadScheduler,
    blocks: Rc<BufferPool>,
    counts: RefCell<Box<StageCounts>>,
    /// Counts of each target in the stage; empty where there is one target.
    targets: RefCell<Vec<TargetCounts>>,
    second: Cell<StageSeconds>,
    /// Time of the thread when the stage's time was over.
    time_at_end: Cell<Option<ThreadTime>>,
    /// Wakers of clients that wait for the next tick.
    ticks: RefCell<Vec<Waker>>,
    picker: TargetPicker,
    /// Queue of the slow link, if there is one.
    link_queue: Option<Rc<LinkQueue>>,
    events: Sender<WorkerEvent>,
}

/// Runs the thread until there are no more orders.
pub(crate) fn run(setup: WorkerSetup) {
    let events = setup.events.clone();
    let run = || {
        if !setup.plan.cpus.is_empty() {
            pin_to(&[setup.plan.cpus[setup.thread % setup.plan.cpus.len()]])?;
        }
        Reactor::new()?.block_on(work(setup))?
    };
    if let Err(error) = run() {
        // The receiver is gone only when the run is over.
        let _ = events.send(WorkerEvent::Broken(error));
    }
}

/// Pins this thread, and threads that it starts, to CPUs; an empty list pins to none.
pub(crate) fn pin_to(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let refused = |cpus: &[usize], error: io::Error| {
        let names: Vec<_> = cpus.iter().map(usize::to_string).collect();
        io::Error::new(error.kind(), format!("CPU {}: {error}", names.join(",")))
    };
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(refused(&[*cpu], io::ErrorKind::InvalidInput.into()));
        }
        set.set(*cpu);
    }
    sched_setaffinity(None, &set).map_err(|errno| refused(cpus, errno.into()))
}

async fn work(setup: WorkerSetup) -> io::Result<()> {
    let WorkerSetup {
        plan,
        thread,
        clients,
        stop,
        orders,
        events,
    } = setup;
    let own = Interleave {
        first: thread,
        stride: plan.threads,
    };
    let worker = Rc::new(LoadWorker {
        scheduler: LoadScheduler::new(clients * plan.streams.unwrap_or(1))?,
        blocks: BufferPool::new(),
        counts: RefCell::default(),
        targets: RefCell::default(),
        second: Cell::new(StageSeconds::new(0, Nanoseconds::MAX)),
        time_at_end: Cell::new(None),
        ticks: RefCell::default(),
        picker: TargetPicker::new(&plan),
        link_queue: plan.link.as_ref().map(LinkQueue::new).transpose()?,
        plan,
        stop,
        events,
    });
    if let Some(link_queue) = worker.link_queue.clone() {
        // It ends with the reactor.
        reactor::spawn(async move { drop(link_queue.run().await) });
    }
    for client in 0..clients {
        let worker = Rc::clone(&worker);
        match worker.plan.streams {
            None => reactor::spawn(worker.client(client)),
            Some(streams) => {
                reactor::spawn(Http2Client::new(worker, client * streams, streams).run());
            }
        }
    }
    let timer = Timer::new()?;
    let mut ticketing = pin!(worker.scheduler.run());
    // Between stages nothing is under way, so that the thread may wait for its orders.
    while let Ok(order) = orders.recv() {
        let before = ThreadTime::now()?;
        worker.begin(&order, own);
        let mut over = pin!(worker.scheduler.over());
        timer.set(TICK)?;
        poll_fn(|cx| {
            while timer.poll(cx)?.is_ready() {
                timer.set(TICK)?;
                worker.tick();
            }
            if let Poll::Ready(Err(error)) = ticketing.as_mut().poll(cx) {
                return Poll::Ready(Err(error));
            }
            over.as_mut().poll(cx).map(Ok)
        })
        .await?;
        worker.end(before)?;
    }
    Ok(())
}

/// CPU time of a thread (proc(5), `schedstat`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadTime {
    pub(crate) ran: Duration,
    /// Time ready to run, without a CPU.
    pub(crate) waited: Duration,
}

impl ThreadTime {
    /// Time of this thread so far.
    fn now() -> io::Result<Self> {
        const PATH: &str = "/proc/thread-self/schedstat";
        let text = std::fs::read_to_string(PATH)
            .map_err(|error| io::Error::new(error.kind(), format!("{PATH}: {error}")))?;
        let mut times = text
            .split_ascii_whitespace()
            .map(|word| word.parse().unwrap_or_default());
        let mut next = || Duration::from_nanos(times.next().unwrap_or_default());
        Ok(Self {
            ran: next(),
            waited: next(),
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

impl LoadWorker {
    fn begin(&self, order: &StageStart, own: Interleave) {
        if self.plan.targets.len() > 1 {
            let targets = self.plan.targets.iter().map(|_| TargetCounts::new());
            *self.targets.borrow_mut() = targets.collect();
        }
        let begin = self.scheduler.at(order.begin);
        self.scheduler
            .begin(begin, &order.stage, self.plan.timeout, own);
        let end = self.scheduler.end().unwrap_or(Nanoseconds::MAX);
        self.second.set(StageSeconds::new(begin, end));
    }

    fn end(&self, before: ThreadTime) -> io::Result<()> {
        self.send_counts(self.second.get().index);
        let busy = self.time_at_end.take().map_or_else(ThreadTime::now, Ok)?;
        let _ = self.events.send(WorkerEvent::Over {
            busy: busy.since(before),
            targets: self.targets.take(),
        });
        Ok(())
    }

    fn tick(&self) {
        let stopping = self.stop.is_requested();
        if stopping {
            self.scheduler.stop();
        }
        self.scheduler.expire_deadlines(stopping);
        // The thread's time counts to the end of the stage's time: later it only waits.
        if self.time_at_end.get().is_none()
            && self
                .scheduler
                .end()
                .is_some_and(|end| self.scheduler.now() >= end)
        {
            self.time_at_end.set(ThreadTime::now().ok());
        }
        self.close_seconds(self.scheduler.now());
        for waker in self.ticks.take() {
            waker.wake();
        }
    }

    /// Sends the counts of seconds that have passed.
    fn close_seconds(&self, now: Nanoseconds) {
        let mut second = self.second.get();
        if let Some(ended) = second.advance(now) {
            self.send_counts(ended);
            self.second.set(second);
        }
    }

    fn send_counts(&self, second: usize) {
        let mut counts = self.counts.take();
        counts.failures[FailureKind::Unsent as usize] += self.scheduler.take_unsent();
        counts.cut += self.scheduler.take_cut();
        // The receiver is gone only when the run is over.
        let _ = self.events.send(WorkerEvent::Second(second, counts));
    }

    /// Runs one client without end.
    async fn client(self: Rc<Self>, me: usize) {
        let mut buffers = ClientBuffers::new(Rc::clone(&self.blocks), Rng::new());
        buffers.link_queue.clone_from(&self.link_queue);
        let mut transports: Vec<Option<Transport>> = self.picker.peers().map(|_| None).collect();
        loop {
            let ticket = poll_fn(|cx| self.scheduler.poll_ticket(me, cx)).await;
            let (index, peer) = self.picker.next(&mut buffers.rng);
            let target = &self.plan.targets[index];
            // In a closed loop a ticket is due when it is given.
            let begun = if ticket.scheduled {
                self.scheduler.now()
            } else {
                ticket.due
            };
            let mut attempt = ExchangeAttempt {
                target,
                transport: &mut transports[peer],
                buffers: &mut buffers,
                stats: ExchangeStats::default(),
                sent: begun,
            };
            let made = self.exchange(me, ticket, &mut attempt).await;
            let (stats, sent) = (attempt.stats, attempt.sent);
            let exchange = Exchange {
                ticket,
                target: index,
                begun,
                sent,
            };
            self.record(&exchange, made, &stats);
            if !stats.connected && !ticket.scheduled {
                self.pause(PAUSE).await;
            } else if !stats.connected {
                // A Unix socket refuses without waiting: without the yield the client would never
                // let go of the thread.
                reactor::yield_now().await;
            }
        }
    }

    /// Makes an exchange before its deadline, on the idle connection or on a new one.
    async fn exchange(
        &self,
        me: usize,
        ticket: Ticket,
        attempt: &mut ExchangeAttempt<'_>,
    ) -> Result<(), ExchangeError> {
        let timeout = nanoseconds(self.plan.timeout);
        self.scheduler
            .set_deadline(me, Some(ticket.due.saturating_add(timeout)));
        let made = {
            let mut making = pin!(self.attempt(attempt));
            poll_fn(|cx| match self.scheduler.is_overdue(me) {
                true => Poll::Ready(None),
                false => making.as_mut().poll(cx).map(Some),
            })
            .await
        };
        self.scheduler.set_deadline(me, None);
        let made = made.unwrap_or_else(|| {
            let text = if attempt.transport.is_some() {
                "no complete response in time"
            } else {
                "not connected in time"
            };
            Err(ExchangeError::new(FailureKind::Timeout, text))
        });
        // A whole response that is not as expected leaves its connection usable.
        if !attempt.stats.reusable {
            *attempt.transport = None;
        }
        made
    }

    async fn attempt(&self, attempt: &mut ExchangeAttempt<'_>) -> Result<(), ExchangeError> {
        let ExchangeAttempt {
            target,
            transport,
            buffers,
            stats,
            sent,
        } = attempt;
        if let Some(kept) = transport {
            let usable = client::check_idle(kept, target, buffers, stats).await;
            // A connection that the server has closed meanwhile is no failure of this request.
            // Bytes that it has sent are none either: they belong to the exchange before, which is
            // recorded already.
            if !matches!(usable, Ok(true)) {
                **transport = None;
            }
            if let Err(error) = usable {
                count_failure(&mut self.counts.borrow_mut(), error);
            }
        }
        let transport = match transport {
            Some(transport) => {
                self.counts.borrow_mut().reused += 1;
                transport
            }
            None => {
                let opened = self.open(target, buffers, stats).await?;
                *sent = self.scheduler.now();
                transport.insert(opened)
            }
        };
        stats.connected = true;
        // Bytes so far were those of a handshake or of the time between two exchanges.
        (stats.has_begun, stats.first_byte) = (false, None);
        let judged = client::exchange(transport, target, buffers, stats).await;
        transport.exchanges += 1;
        stats.reusable &= self
            .plan
            .per_connection
            .is_none_or(|most| transport.exchanges < most);
        judged
    }

    async fn open(
        &self,
        target: &LoadTarget,
        buffers: &mut ClientBuffers,
        stats: &mut ExchangeStats,
    ) -> Result<Transport, ExchangeError> {
        let begun = self.scheduler.now();
        let transport = loop {
            match client::open(target, target.peer.address(), buffers, stats).await {
                // The backlog of a Unix socket is full: over TCP the kernel would try again by
                // itself.
                Err(error) if error.retry => self.pause(1).await,
                opened => break opened?,
            }
        };
        let mut counts = self.counts.borrow_mut();
        counts.opened += 1;
        counts.resumed += u64::from(transport.tls.as_ref().is_some_and(|tls| tls.resumed));
        let _ = counts.connect.record(self.scheduler.now() - begun);
        if let Some(time) = transport.tls_time {
            let _ = counts.tls.record(nanoseconds(time));
        }
        Ok(transport)
    }

    /// Waits for a number of ticks.
    async fn pause(&self, ticks: usize) {
        for _ in 0..ticks {
            let mut asked = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut asked, true) {
                    return Poll::Ready(());
                }
                self.ticks.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            })
            .await;
        }
    }

    fn record(&self, exchange: &Exchange, made: Result<(), ExchangeError>, stats: &ExchangeStats) {
        let Exchange {
            ticket,
            target,
            begun,
            sent,
        } = *exchange;
        let now = self.scheduler.now();
        self.close_seconds(now);
        let counts = &mut **self.counts.borrow_mut();
        counts.sent += stats.sent;
        counts.received += stats.received;
        let is_late = self.scheduler.end().is_some_and(|end| now >= end);
        if is_late {
            counts.late_sent += stats.sent;
            counts.late_received += stats.received;
        }
        if ticket.awaited {
            let _ = counts.lateness.record(begun - ticket.due);
        }
        if let Some(status) = stats.response.status {
            *counts.statuses.entry(status).or_default() += 1;
            if self.plan.stop_on.contains(&status) {
                self.stop.on(status);
            }
        }
        match made {
            Ok(()) => {
                let _ = counts.latency.record(now - ticket.due);
                if ticket.scheduled {
                    let _ = counts.service.record(now - begun);
                }
                let answered = stats.first_byte.map_or(now, |at| self.scheduler.at(at));
                let _ = counts.first_byte.record(answered.saturating_sub(sent));
                counts.late += u64::from(is_late);
                if let Some(counts) = self.targets.borrow_mut().get_mut(target) {
                    let _ = counts.latency.record(now - ticket.due);
                    counts.time += Duration::from_nanos(now - ticket.due);
                }
            }
            // The outcome of a cut exchange is unknown.
            Err(error) if error.failure == FailureKind::Timeout && self.stop.is_requested() => {
                counts.cut += 1
            }
            Err(error) => {
                let _ = counts.failed.record(now - ticket.due);
                if let Some(counts) = self.targets.borrow_mut().get_mut(target) {
                    counts.failures[error.failure as usize] += 1;
                    counts.time += Duration::from_nanos(now - ticket.due);
                }
                count_failure(counts, error);
            }
        }
    }
}

/// An exchange that has ended: its ticket, its target, and its times.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    ticket: Ticket,
    /// Index of the target.
    target: usize,
    /// When a client took the ticket.
    begun: Nanoseconds,
    /// When the connection was ready for the request.
    sent: Nanoseconds,
}

/// One exchange of a client, with its connection and buffers.
struct ExchangeAttempt<'a> {
    target: &'a LoadTarget,
    /// The client's connection to the target's peer.
    transport: &'a mut Option<Transport>,
    buffers: &'a mut ClientBuffers,
    stats: ExchangeStats,
    /// When the connection was ready for the request.
    sent: Nanoseconds,
}

/// Counts a failure of any kind.
fn count_failure(counts: &mut StageCounts, error: ExchangeError) {
    let kind = error.failure as usize;
    counts.failures[kind] += 1;
    counts.exhausted += u64::from(error.exhausted);
    counts.examples[kind].get_or_insert(error.text);
}

/// Random choice of the next target by weight.
struct TargetPicker {
    /// Cumulated weight and peer of each target.
    targets: Vec<(u32, usize)>,
    peers: usize,
}

impl TargetPicker {
    fn new(plan: &RunPlan) -> Self {
        let peers = plan.peers();
        let mut sum = 0;
        let targets = plan.targets.iter().map(|target| {
            sum += target.weight;
            (
                sum,
                peers
                    .iter()
                    .position(|peer| Arc::ptr_eq(peer, &target.peer))
                    .unwrap_or(0),
            )
        });
        Self {
            targets: targets.collect(),
            peers: peers.len(),
        }
    }

    fn peers(&self) -> std::ops::Range<usize> {
        0..self.peers
    }

    /// Index of a target, and index of its peer.
    fn next(&self, rng: &mut Rng) -> (usize, usize) {
        let index = match self.targets.last() {
            Some((sum, _)) if self.targets.len() > 1 => {
                let drawn = rng.u32(..*sum);
                self.targets.partition_point(|(upto, _)| *upto <= drawn)
            }
            _ => 0,
        };
        (index, self.targets[index].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker of one client, without targets, on a reactor, which its alarm needs.
    fn with_worker(test: impl FnOnce(&LoadWorker)) {
        let plan = Arc::new(RunPlan {
            command: Vec::new(),
            targets: Vec::new(),
            connections: 1,
            streams: None,
            per_connection: None,
            threads: 1,
            cpus: Vec::new(),
            link: None,
            timeout: Duration::from_secs(1),
            warm_up: None,
            stages: Vec::new(),
            stop_on: Vec::new(),
            anyway: false,
            watch: Vec::new(),
        });
        let test = async {
            let (events, _received) = std::sync::mpsc::channel();
            test(&LoadWorker {
                picker: TargetPicker::new(&plan),
                plan,
                stop: Arc::default(),
                scheduler: LoadScheduler::new(1).unwrap(),
                blocks: BufferPool::new(),
                counts: RefCell::default(),
                targets: RefCell::default(),
                second: Cell::new(StageSeconds::new(0, Nanoseconds::MAX)),
                time_at_end: Cell::new(None),
                ticks: RefCell::default(),
                link_queue: None,
                events,
            });
        };
        Reactor::new().unwrap().block_on(test).unwrap();
    }

    #[test]
    fn a_failed_connect_for_want_of_ports_is_counted_as_this_sides_own() {
        with_worker(|worker| {
            for exhausted in [true, false] {
                let error = ExchangeError {
                    exhausted,
                    ..ExchangeError::new(FailureKind::Connect, "no port left")
                };
                let ticket = Ticket {
                    due: 0,
                    scheduled: true,
                    awaited: false,
                };
                let exchange = Exchange {
                    ticket,
                    target: 0,
                    begun: 0,
                    sent: 0,
                };
                worker.record(&exchange, Err(error), &ExchangeStats::default());
            }
            let counts = worker.counts.borrow();
            let found = (counts.failed(), counts.failed.len(), counts.exhausted);
            assert_eq!(found, (2, 2, 1));
        });
    }
}
