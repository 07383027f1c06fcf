//! One thread of the generator: its clients, its share of each stage, and what came of it.

mod streams;

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
use lockgate_net::stream::Blocks;
use lockgate_net::timer::Timer;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::client::{self, ExchangeStats, Fault, Scratch, Transport};
use crate::load_scheduler::{Interleave, LoadScheduler, Ticket};
use crate::moment::{Moment, nanoseconds};
use crate::plan::{Plan, Stage};
use crate::result::{Failure, StageCounts};
use crate::shared_link::LinkQueue;
use crate::target::Target;

use streams::Http2Client;

/// Interval at which deadlines are checked.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// Ticks until a client tries again after it could not connect: whoever refuses would be asked
/// without end.
const PAUSE: usize = 10;
const SECOND: Moment = 1_000_000_000;

/// Signal that ends a run early; shared by all threads.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    /// The status that ended it, if one did.
    status: AtomicU16,
}

impl Stop {
    /// Ends the run: what is under way is cut.
    pub fn now(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether it was ended.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    fn on(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
        self.now();
    }

    /// The status that ended it.
    pub(crate) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status > 0)
    }
}

/// Order to a thread: the next stage.
pub(crate) struct Order {
    pub(crate) stage: Arc<Stage>,
    pub(crate) begin: Instant,
}

/// Event of a thread, for the main thread.
pub(crate) enum WorkerEvent {
    /// What came of one second of the stage, counted from 0.
    Second(usize, Box<StageCounts>),
    /// Its share of the stage is over; so long the thread was busy in its time.
    Over { busy: ThreadTime },
    /// It could not go on.
    Broken(io::Error),
}

/// Setup of a thread.
pub(crate) struct WorkerSetup {
    pub(crate) plan: Arc<Plan>,
    pub(crate) thread: usize,
    /// Its share of the connections.
    pub(crate) clients: usize,
    pub(crate) stop: Arc<Stop>,
    pub(crate) orders: Receiver<Order>,
    pub(crate) events: Sender<WorkerEvent>,
}

/// State that the clients of a thread share.
struct Worker {
    plan: Arc<Plan>,
    stop: Arc<Stop>,
    scheduler: LoadScheduler,
    blocks: Rc<Blocks>,
    counts: RefCell<Box<StageCounts>>,
    /// The second that is counted now, and when it ends.
    second: Cell<(usize, Moment)>,
    /// How long the thread had been busy when the stage's time was over.
    at_end: Cell<Option<ThreadTime>>,
    /// Clients that wait for the next tick.
    ticks: RefCell<Vec<Waker>>,
    draw: TargetPicker,
    /// Of the slow link, if there is one.
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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build_local(Default::default())?;
        runtime.block_on(work(setup))
    };
    if let Err(error) = run() {
        // Whoever listens has gone only when the run is over.
        let _ = events.send(WorkerEvent::Broken(error));
    }
}

/// Has this thread, and those that it makes, run on these CPUs only; anywhere where there are none.
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
    let worker = Rc::new(Worker {
        scheduler: LoadScheduler::new(clients * plan.streams.unwrap_or(1))?,
        blocks: Blocks::new(),
        counts: RefCell::default(),
        second: Cell::new((0, 0)),
        at_end: Cell::new(None),
        ticks: RefCell::default(),
        draw: TargetPicker::new(&plan),
        link_queue: plan.link.as_ref().map(LinkQueue::new).transpose()?,
        plan,
        stop,
        events,
    });
    if let Some(link_queue) = worker.link_queue.clone() {
        tokio::task::spawn_local(async move { link_queue.run().await });
    }
    for client in 0..clients {
        let worker = Rc::clone(&worker);
        match worker.plan.streams {
            None => drop(tokio::task::spawn_local(worker.client(client))),
            Some(streams) => {
                drop(tokio::task::spawn_local(
                    Http2Client::new(worker, client * streams, streams).run(),
                ));
            }
        }
    }
    let timer = Timer::new()?;
    let mut dealing = pin!(worker.scheduler.run());
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
            if let Poll::Ready(Err(error)) = dealing.as_mut().poll(cx) {
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
    /// On a CPU.
    pub(crate) ran: Duration,
    /// Ready to run, and without one.
    pub(crate) waited: Duration,
}

impl ThreadTime {
    /// This thread so far.
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

impl Worker {
    fn begin(&self, order: &Order, own: Interleave) {
        let begin = self.scheduler.at(order.begin);
        self.second.set((0, begin + SECOND));
        self.scheduler
            .begin(begin, &order.stage, self.plan.timeout, own);
    }

    fn end(&self, before: ThreadTime) -> io::Result<()> {
        let (second, _) = self.second.get();
        self.tell(second);
        let busy = self.at_end.take().map_or_else(ThreadTime::now, Ok)?;
        let _ = self.events.send(WorkerEvent::Over {
            busy: busy.since(before),
        });
        Ok(())
    }

    fn tick(&self) {
        let stopping = self.stop.is_asked();
        if stopping {
            self.scheduler.stop();
        }
        self.scheduler.sweep(stopping);
        // What is still waited for after the stage's time takes the thread little.
        if self.at_end.get().is_none()
            && self
                .scheduler
                .end()
                .is_some_and(|end| self.scheduler.now() >= end)
        {
            self.at_end.set(ThreadTime::now().ok());
        }
        self.roll(self.scheduler.now());
        for waker in self.ticks.take() {
            waker.wake();
        }
    }

    /// Tells of the seconds that have passed.
    fn roll(&self, now: Moment) {
        let (second, end) = self.second.get();
        if now >= end {
            self.tell(second);
            let passed = 1 + (now - end) / SECOND;
            self.second
                .set((second + passed as usize, end + passed * SECOND));
        }
    }

    fn tell(&self, second: usize) {
        let mut counts = self.counts.take();
        counts.failures[Failure::Unsent as usize] += self.scheduler.take_unsent();
        counts.cut += self.scheduler.take_cut();
        // Whoever listens has gone only when the run is over.
        let _ = self.events.send(WorkerEvent::Second(second, counts));
    }

    /// One client, for ever.
    async fn client(self: Rc<Self>, me: usize) {
        let mut scratch = Scratch::new(Rc::clone(&self.blocks), Rng::new());
        scratch.link_queue.clone_from(&self.link_queue);
        let mut transports: Vec<Option<Transport>> = self.draw.peers().map(|_| None).collect();
        loop {
            let ticket = poll_fn(|cx| self.scheduler.poll_ticket(me, cx)).await;
            let (target, peer) = self.draw.next(&mut scratch.rng);
            let target = &self.plan.targets[target];
            // In a closed loop a turn is due when it is given.
            let begun = if ticket.scheduled {
                self.scheduler.now()
            } else {
                ticket.due
            };
            let mut attempt = Attempt {
                target,
                transport: &mut transports[peer],
                scratch: &mut scratch,
                stats: ExchangeStats::default(),
            };
            let made = self.exchange(me, ticket, &mut attempt).await;
            let stats = attempt.stats;
            self.note(ticket, begun, made, &stats);
            if !stats.connected && !ticket.scheduled {
                self.pause(PAUSE).await;
            } else if !stats.connected {
                // Refused without waiting for anything, as a Unix socket does it, it would never
                // let go of the thread.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Makes an exchange before its deadline, on the connection that is there or on a new one.
    async fn exchange(
        &self,
        me: usize,
        ticket: Ticket,
        attempt: &mut Attempt<'_>,
    ) -> Result<(), Fault> {
        let timeout = nanoseconds(self.plan.timeout);
        self.scheduler
            .expect_by(me, Some(ticket.due.saturating_add(timeout)));
        let made = {
            let mut making = pin!(self.attempt(attempt));
            poll_fn(|cx| match self.scheduler.is_overdue(me) {
                true => Poll::Ready(None),
                false => making.as_mut().poll(cx).map(Some),
            })
            .await
        };
        self.scheduler.expect_by(me, None);
        let made = made.unwrap_or_else(|| {
            let text = if attempt.transport.is_some() {
                "no complete response in time"
            } else {
                "not connected in time"
            };
            Err(Fault::new(Failure::Timeout, text))
        });
        // A whole response that is not as expected leaves its connection usable.
        if !attempt.stats.keep {
            *attempt.transport = None;
        }
        made
    }

    async fn attempt(&self, attempt: &mut Attempt<'_>) -> Result<(), Fault> {
        let Attempt {
            target,
            transport,
            scratch,
            stats,
        } = attempt;
        if let Some(kept) = transport {
            let usable = client::check_idle(kept, target, scratch, stats).await;
            // What the origin has closed meanwhile is no failure of this request. What it has sent
            // is none either: it belongs to the exchange before, whose latency is recorded.
            if !matches!(usable, Ok(true)) {
                **transport = None;
            }
            if let Err(fault) = usable {
                fail(&mut self.counts.borrow_mut(), fault);
            }
        }
        let transport = match transport {
            Some(transport) => {
                self.counts.borrow_mut().reused += 1;
                transport
            }
            None => transport.insert(self.open(target, scratch, stats).await?),
        };
        stats.connected = true;
        let judged = client::exchange(transport, target, scratch, stats).await;
        transport.exchanges += 1;
        stats.keep &= self
            .plan
            .per_connection
            .is_none_or(|most| transport.exchanges < most);
        judged
    }

    async fn open(
        &self,
        target: &Target,
        scratch: &mut Scratch,
        stats: &mut ExchangeStats,
    ) -> Result<Transport, Fault> {
        let begun = self.scheduler.now();
        let transport = loop {
            match client::open(target, target.peer.address(), scratch, stats).await {
                // The backlog of a Unix socket is full: over TCP the kernel would try again by
                // itself.
                Err(fault) if fault.again => self.pause(1).await,
                opened => break opened?,
            }
        };
        let mut counts = self.counts.borrow_mut();
        counts.opened += 1;
        counts.resumed += u64::from(transport.tls.as_ref().is_some_and(|tls| tls.resumed));
        let _ = counts.connect.record(self.scheduler.now() - begun);
        Ok(transport)
    }

    /// Waits for so many ticks.
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

    fn note(&self, ticket: Ticket, begun: Moment, made: Result<(), Fault>, stats: &ExchangeStats) {
        let now = self.scheduler.now();
        self.roll(now);
        let counts = &mut **self.counts.borrow_mut();
        counts.sent += stats.sent;
        counts.received += stats.received;
        let is_late = self.scheduler.end().is_some_and(|end| now > end);
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
                counts.late += u64::from(is_late);
            }
            // Neither way of ending is known of what was cut.
            Err(fault) if fault.failure == Failure::Timeout && self.stop.is_asked() => {
                counts.cut += 1
            }
            Err(fault) => {
                let kind = fault.failure as usize;
                counts.failures[kind] += 1;
                let _ = counts.failed.record(now - ticket.due);
                counts.examples[kind].get_or_insert(fault.text);
            }
        }
    }
}

/// One exchange of a client, and what it uses of the client.
struct Attempt<'a> {
    target: &'a Target,
    /// The client's connection to the target's peer.
    transport: &'a mut Option<Transport>,
    scratch: &'a mut Scratch,
    stats: ExchangeStats,
}

/// Counts a failure.
fn fail(counts: &mut StageCounts, fault: Fault) {
    let kind = fault.failure as usize;
    counts.failures[kind] += 1;
    counts.exhausted += u64::from(fault.ours);
    counts.examples[kind].get_or_insert(fault.text);
}

/// Random choice of the next target by weight.
struct TargetPicker {
    /// The weights summed up, and the peer of each target.
    targets: Vec<(u32, usize)>,
    peers: usize,
}

impl TargetPicker {
    fn new(plan: &Plan) -> Self {
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

    /// The place of a target, and that of its peer.
    fn next(&self, rng: &mut Rng) -> (usize, usize) {
        let place = match self.targets.last() {
            Some((sum, _)) if self.targets.len() > 1 => {
                let drawn = rng.u32(..*sum);
                self.targets.partition_point(|(upto, _)| *upto <= drawn)
            }
            _ => 0,
        };
        (place, self.targets[place].1)
    }
}
