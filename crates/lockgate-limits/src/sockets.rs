//! Sockets towards endpoints: how many the process may have, and how many of them a client may use
//! while they are scarce.
//!
//! Idle ones count as well, and give way: which, a worker chooses
//! (`lockgate_upstream::worker_sockets`).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use crate::clients::ClientAccount;
use crate::clock::{Clock, Ticker};
use crate::index::WorkerIndex;
use crate::process_limit::{CountGuard, Permit, ProcessLimit};

/// Sockets that the streams of a client may use, or wait for, however many others have: so many
/// connections a browser makes over HTTP/1.1.
const FEW: usize = 6;

/// The permits for sockets towards endpoints, for the process.
#[derive(Debug)]
pub struct SocketLimit {
    permits: ProcessLimit,
    /// Sockets that no request uses now; one cell for each worker.
    idle: Box<[IdleCount]>,
    /// For a permit.
    waiting: AtomicUsize,
    /// The waits for a permit for which no idle socket was chosen to give way.
    asked: AtomicUsize,
    /// For a client's share.
    sharing: AtomicUsize,
    waited: AtomicU64,
    gave_way: AtomicU64,
    preempted: AtomicU64,
    shares: AtomicU64,
    workers: Arc<[Arc<Ticker>]>,
}

/// On a cache line of its own: its worker writes it with every request.
#[derive(Debug, Default)]
#[repr(align(64))]
struct IdleCount(AtomicUsize);

/// One socket that a stream of a client uses; dropping it ends that.
#[derive(Debug)]
pub struct SocketShare(Arc<ClientAccount>);

impl SocketShare {
    /// Counts one more for the client, even past its share.
    pub fn count(account: &Arc<ClientAccount>) -> Self {
        account.sockets.add(1);
        Self(Arc::clone(account))
    }
}

impl Drop for SocketShare {
    fn drop(&mut self) {
        self.0.sockets.remove(1);
        self.0.freed();
    }
}

impl SocketLimit {
    /// Allows `size` at once; `workers` are woken where idle ones are to give way.
    pub fn new(size: usize, workers: &Arc<[Arc<Ticker>]>) -> Self {
        Self {
            permits: ProcessLimit::new(size),
            idle: workers.iter().map(|_| IdleCount::default()).collect(),
            waiting: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            sharing: AtomicUsize::new(0),
            waited: AtomicU64::new(0),
            gave_way: AtomicU64::new(0),
            preempted: AtomicU64::new(0),
            shares: AtomicU64::new(0),
            workers: Arc::clone(workers),
        }
    }

    /// Allows `size` at once from now on. More sockets stay open, except idle ones.
    pub fn resize(&self, size: usize) {
        self.permits.resize(size);
        if self.permits.debt() > 0 {
            self.wake();
        }
    }

    /// The size of the limit.
    pub fn size(&self) -> usize {
        self.permits.size()
    }

    /// The number of open sockets, idle ones among them.
    pub fn open(&self) -> usize {
        self.permits.used()
    }

    /// The number of idle sockets.
    pub fn idle(&self) -> usize {
        self.idle
            .iter()
            .map(|idle| idle.0.load(Ordering::Relaxed))
            .sum()
    }

    /// The number of requests and relays that wait for a socket: for a permit, or for their
    /// client's share.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst) + self.sharing.load(Ordering::Relaxed)
    }

    /// The number of permits that are wanted, by waits and for a smaller limit: no socket is kept
    /// idle meanwhile. A client at its share is not served sooner by idle ones.
    pub fn wanted(&self) -> usize {
        self.waiting.load(Ordering::SeqCst) + self.permits.debt()
    }

    /// Counts one that waits until what is returned is dropped.
    pub fn wait(&self) -> CountGuard<'_> {
        CountGuard::one(&self.waiting)
    }

    /// The numbers of waits so far: for a permit, and for a share.
    pub fn waited(&self) -> [u64; 2] {
        [&self.waited, &self.shares].map(|count| count.load(Ordering::Relaxed))
    }

    /// The number of idle sockets that were closed to make room.
    pub fn gave_way(&self) -> u64 {
        self.gave_way.load(Ordering::Relaxed)
    }

    /// Counts `count` idle ones that were closed for others.
    pub fn give_way(&self, count: usize) {
        self.gave_way.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The number of sockets that were taken from stalled exchanges.
    pub fn preempted(&self) -> u64 {
        self.preempted.load(Ordering::Relaxed)
    }

    /// Counts `count` exchanges that were ended for others.
    pub fn preempt(&self, count: usize) {
        self.preempted.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Notes how many of a worker's sockets are idle.
    pub fn rest(&self, worker: WorkerIndex, idle: usize) {
        if let Some(cell) = self.idle.get(worker.get()) {
            cell.0.store(idle, Ordering::Relaxed);
        }
    }

    /// Wants an idle one to give way for one more that waits.
    pub fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of waits to which a socket is to give way.
    pub fn asked(&self) -> usize {
        self.still_asked(self.asked.load(Ordering::SeqCst))
    }

    /// Some that have asked may have got a permit otherwise.
    fn still_asked(&self, asked: usize) -> usize {
        asked.min(self.waiting.load(Ordering::SeqCst))
    }

    /// Chooses a socket to give way to a wait: its worker closes it. So no more are closed than are
    /// wanted, for any number of workers that look.
    pub fn choose(&self) -> bool {
        let left = |asked: usize| self.still_asked(asked).checked_sub(1);
        self.asked
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
            .is_ok()
    }

    /// Whether idle sockets are to give way.
    pub fn asks_idle(&self) -> bool {
        self.permits.debt() > 0 || self.asked() > 0
    }

    /// Chooses an idle socket to give way: to a smaller limit, or to a wait. What is in use gives
    /// way to waits only.
    pub fn choose_idle(&self) -> bool {
        // The closed one pays, so that this ends with the debt.
        self.permits.debt() > 0 || self.choose()
    }

    /// Wakes the workers to close idle ones.
    pub fn wake(&self) {
        self.workers.iter().for_each(|worker| worker.ask());
    }

    /// A permit now, or none; what waits already is not overtaken.
    pub fn try_take(&self) -> Option<Permit> {
        self.permits.try_take()
    }

    /// Waits for a permit, in the order of asking. Before it waits, and with every tick, `relieve`
    /// is called: to close an idle one.
    pub async fn take(&self, clock: &Clock, mut relieve: impl FnMut()) -> Permit {
        let _waiting = CountGuard::one(&self.waiting);
        self.waited.fetch_add(1, Ordering::Relaxed);
        self.ask();
        let mut permit = pin!(self.permits.take());
        let mut tick = pin!(clock.next_tick());
        let mut asked = false;
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(permit) = permit.as_mut().poll(cx) {
                    return Poll::Ready(permit);
                }
                if !std::mem::replace(&mut asked, true) {
                    relieve();
                } else if tick.as_mut().poll(cx).is_ready() {
                    tick.set(clock.next_tick());
                    // Others may have got the permits that were left for it.
                    self.asked.fetch_max(1, Ordering::SeqCst);
                    asked = false;
                } else {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Whether a stream of a client may use one more. The client's share is as much as is left for
    /// others: what is free, and what is idle. One client alone gets half of all, each of `n`
    /// that want more gets one of `n + 1` parts, and as much remains for the next
    /// one (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998). While there is plenty, no
    /// stream waits for that. A few are in the share of every client, also when all permits are
    /// taken: it then waits for a permit, as clients of HTTP/1 do.
    fn may_use(&self, account: &ClientAccount) -> bool {
        let used = account.sockets.now();
        let free = self.permits.free();
        used < FEW.min(self.permits.size() / 16) || used < free || used < free + self.idle()
    }

    /// One more socket for a stream of a client, where the share allows that now and no other
    /// stream of the client waits for it.
    pub fn try_share(&self, account: &Arc<ClientAccount>) -> Option<SocketShare> {
        (!account.waits_for_share() && self.may_use(account)).then(|| SocketShare::count(account))
    }

    /// Waits until a client's share allows it one more, in the order in which the client asked.
    pub async fn share(&self, account: &Arc<ClientAccount>, clock: &Clock) -> SocketShare {
        let _waiting = CountGuard::one(&self.sharing);
        self.shares.fetch_add(1, Ordering::Relaxed);
        let turn = account.share_turn().await;
        while !self.may_use(account) {
            let mut freed = pin!(account.until_freed());
            freed.as_mut().enable();
            // What was freed before that is seen now.
            if self.may_use(account) {
                break;
            }
            // What other clients free is seen with the tick.
            let mut tick = pin!(clock.next_tick());
            poll_fn(|cx| match freed.as_mut().poll(cx) {
                Poll::Pending => tick.as_mut().poll(cx),
                ready => ready,
            })
            .await;
        }
        let share = SocketShare::count(account);
        drop(turn);
        share
    }
}
