//! The shedding of load where the memory of the process runs out: which requests wait, which
//! buffers are freed, and which connections are cut.
//!
//! How much is in use, `lockgate_net::memory` counts. A connection is charged with what its tasks
//! have allocated and not freed. Code that needs memory asks [`wait_for_memory`] first; a tick in
//! which too much is in use cuts the largest clients.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use lockgate_net::memory::{self, MemoryLevel};
use lockgate_net::millis::Millis;
use lockgate_net::reactor::note_memory;

use crate::clock::{Clock, Cut, Guard, WaitReason, Watch};

/// The time without a byte after which a connection may be cut that does not wait for its
/// client.
const STILL: Millis = Millis::from_secs(2);
/// Bytes that a connection must hold to be worth cutting.
const WORTH: usize = 4 * 1024;

/// A part of what a connection does, which charges that with what it takes.
pub struct ChargedFuture<F> {
    watch: Rc<Watch>,
    part: Pin<Box<F>>,
}

/// Charges the connection of `watch` with what `part` is and takes.
pub fn charged<F: Future>(watch: Rc<Watch>, part: Pin<Box<F>>) -> ChargedFuture<F> {
    watch.charge(size_of::<F>().cast_signed());
    ChargedFuture { watch, part }
}

impl<F: Future> Future for ChargedFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let before = memory::mark();
        let polled = self.part.as_mut().poll(cx);
        self.watch.charge(memory::mark() - before);
        if polled.is_pending() {
            note_memory(&*self.part, usize::MAX);
            note_memory(&*self.watch, Watch::USED_BYTES);
        }
        polled
    }
}

impl<F> Drop for ChargedFuture<F> {
    fn drop(&mut self) {
        self.watch.charge(-size_of::<F>().cast_signed());
    }
}

/// Whether something new must [wait for memory](wait_for_memory).
#[inline]
pub fn is_exhausted() -> bool {
    memory::level() == MemoryLevel::Full
}

/// Waits until there is memory for something new, under the phase of `guard`; `settle` gives back
/// what need not be held meanwhile.
///
/// # Errors
/// When the connection is cut first.
pub async fn wait_for_memory(
    guard: &Guard,
    mut settle: impl FnMut(&mut Context<'_>),
) -> Result<(), Cut> {
    while is_exhausted() {
        poll_fn(|cx| {
            settle(cx);
            Poll::Ready(())
        })
        .await;
        guard.watch().set_wait(WaitReason::ForPermit);
        guard.within(guard.clock().next_tick()).await?;
        guard.watch().set_wait(WaitReason::Nothing);
    }
    Ok(())
}

/// Why a connection may be cut; the first are cut first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CutOrder {
    /// The connection waits for its client, and nothing moves.
    Stalled,
    /// Nothing has moved for a while.
    Still,
    /// The connection waits for its client, which is slow.
    Slow,
    /// The connection has waited for a permit for a while. It holds little, but where only such
    /// connections are left, each would keep the others waiting until all of them are refused.
    Queued,
}

impl CutOrder {
    fn of(watch: &Watch, now: Millis) -> Option<Self> {
        let is_stream_stalled = watch.stalled_at.get() == now;
        let phase = now - watch.since();
        match (watch.waiting(), watch.still_for(now)) {
            (WaitReason::ForPermit, _) => (phase >= STILL).then_some(Self::Queued),
            (waiting, still) if waiting.is_for_client() || is_stream_stalled => {
                Some(if still > Millis::ZERO {
                    Self::Stalled
                } else {
                    Self::Slow
                })
            }
            (_, still) => (still >= STILL).then_some(Self::Still),
        }
    }
}

/// A connection that may be cut.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    index: usize,
    standing: CutOrder,
    client: Option<IpAddr>,
    held: usize,
}

/// Cuts connections that together hold `excess` bytes, as far as there are some: those of clients
/// that hold most, and of a client the largest. `spared` clients are never cut for this. Returns
/// the number of cuts. The bytes of connections that are cut already are freed without it.
pub fn relieve(clock: &Clock, excess: usize, spared: impl Fn(Option<IpAddr>) -> bool) -> usize {
    let now = clock.now();
    let mut watches = Vec::new();
    // A stream's client is waited for: then its connection's is.
    clock.each(|watch| {
        if let (Some(connection), WaitReason::ForRoom) = (watch.stream_of.get(), watch.waiting()) {
            connection.stalled_at.set(now);
        }
    });
    let (mut candidates, mut leaving) = (Vec::new(), 0usize);
    clock.each_shared(|watch| {
        let client = watch.client.get().map(crate::client);
        let held = watch.held.get().unsigned_abs();
        if watch.is_cut() {
            leaving = leaving.saturating_add(held);
        }
        if held < WORTH || watch.is_cut() || spared(watch.client.get()) {
            return;
        }
        let Some(standing) = CutOrder::of(watch, now) else {
            return;
        };
        candidates.push(Candidate {
            index: watches.len(),
            standing,
            client,
            held,
        });
        watches.push(Rc::clone(watch));
    });
    let chosen = choose(candidates, excess.saturating_sub(leaving));
    for &index in &chosen {
        if let Some(watch) = watches.get(index) {
            watch.cut(Cut::Memory);
        }
    }
    chosen.len()
}

/// The indexes of those to be cut. None of a client that holds less than its part, as if there were
/// one more: what it holds would not help, and it may be the one that waits.
fn choose(mut candidates: Vec<Candidate>, excess: usize) -> Vec<usize> {
    let mut clients: HashMap<Option<IpAddr>, usize> = HashMap::new();
    for candidate in &candidates {
        *clients.entry(candidate.client).or_default() += candidate.held;
    }
    let part = clients.values().sum::<usize>() / (clients.len() + 1);
    candidates.retain(|candidate| {
        clients
            .get(&candidate.client)
            .is_some_and(|held| *held > part)
    });
    let largest = |candidate: &Candidate| {
        let client = clients.get(&candidate.client).copied().unwrap_or(0);
        (
            candidate.standing,
            std::cmp::Reverse((client, candidate.held)),
        )
    };
    candidates.sort_by_key(largest);
    let freed = Cell::new(0usize);
    let enough =
        |candidate: &Candidate| freed.replace(freed.get().saturating_add(candidate.held)) < excess;
    candidates
        .iter()
        .take_while(|candidate| enough(candidate))
        .map(|candidate| candidate.index)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Ticker;

    fn candidates(all: &[(CutOrder, u8, usize)]) -> Vec<Candidate> {
        let candidate =
            |(index, &(standing, client, held)): (usize, &(CutOrder, u8, usize))| Candidate {
                index,
                standing,
                client: Some(IpAddr::from([192, 0, 2, client])),
                held,
            };
        all.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn under_memory_pressure_the_largest_client_is_cut_first() {
        use CutOrder::Stalled;
        let all = candidates(&[
            (Stalled, 1, 50),
            (Stalled, 2, 30),
            (Stalled, 2, 10),
            (Stalled, 2, 20),
        ]);
        assert_eq!(choose(all.clone(), 1), [1]);
        assert_eq!(choose(all.clone(), 60), [1, 3, 2]);
        assert_eq!(choose(all.clone(), 61), [1, 3, 2, 0]);
        assert_eq!(choose(all, 1_000).len(), 4);
    }

    #[test]
    fn stalled_clients_are_cut_before_slow_ones() {
        let all = [
            (CutOrder::Slow, 1, 50),
            (CutOrder::Still, 2, 40),
            (CutOrder::Stalled, 3, 40),
        ];
        assert_eq!(choose(candidates(&all), 1_000), [2, 1, 0]);
        assert_eq!(choose(candidates(&all), 0), [0; 0]);
    }

    #[test]
    fn queued_connections_are_cut_last_and_not_at_once() {
        let all = [(CutOrder::Queued, 1, 50), (CutOrder::Slow, 2, 40)];
        assert_eq!(choose(candidates(&all), 1_000), [1, 0]);
        let clock = Clock::new(Ticker::new());
        let guard = clock.watch();
        guard.begin_phase(std::time::Duration::from_secs(60));
        guard.watch().set_wait(WaitReason::ForPermit);
        let standing = |after| CutOrder::of(guard.watch(), guard.watch().since() + after);
        assert_eq!(standing(STILL - Millis::new(1)), None);
        assert_eq!(standing(STILL), Some(CutOrder::Queued));
    }

    #[test]
    fn clients_below_their_share_are_never_cut_for_memory() {
        use CutOrder::{Slow, Stalled};
        let all = candidates(&[(Slow, 1, 50), (Stalled, 2, 10), (Slow, 1, 20)]);
        assert_eq!(choose(all, 1_000), [0, 2]);
        let equal: Vec<_> = (1..=100).map(|client| (Stalled, client, 10)).collect();
        assert_eq!(
            choose(candidates(&equal), 10_000).len(),
            100,
            "the part of each is less than what it holds"
        );
    }

    #[test]
    fn trusted_clients_are_never_cut_for_memory() {
        let clock = Clock::new(Ticker::new());
        let guards = [1, 2].map(|client| {
            let guard = clock.watch();
            guard
                .watch()
                .client
                .set(Some(IpAddr::from([192, 0, 2, client])));
            guard.watch().set_wait(WaitReason::ForRoom);
            guard.watch().held.set(1 << 20);
            guard
        });
        let spared = |ip| ip == Some(IpAddr::from([192, 0, 2, 1]));
        assert_eq!(relieve(&clock, usize::MAX, spared), 1);
        assert_eq!(
            guards.each_ref().map(|guard| guard.watch().is_cut()),
            [false, true]
        );
        assert_eq!(relieve(&clock, usize::MAX, spared), 0, "none is cut twice");
    }

    #[test]
    fn memory_of_a_cut_connection_cuts_no_other() {
        let clock = Clock::new(Ticker::new());
        let guards = [1, 2].map(|_| {
            let guard = clock.watch();
            guard.watch().set_wait(WaitReason::ForRoom);
            guard.watch().held.set(1 << 20);
            guard
        });
        assert_eq!(relieve(&clock, 1 << 20, |_| false), 1);
        assert_eq!(
            relieve(&clock, 1 << 20, |_| false),
            0,
            "it has not ended yet"
        );
        assert_eq!(relieve(&clock, 2 << 20, |_| false), 1);
        drop(guards);
    }

    #[test]
    fn an_http2_connection_is_cut_for_its_stalled_streams() {
        let clock = Clock::new(Ticker::new());
        let (connection, stream) = (clock.watch(), clock.watch());
        connection.watch().held.set(1 << 20);
        assert_eq!(relieve(&clock, 1, |_| false), 0);
        assert!(stream.watch().stream_of.set(connection.shared()).is_ok());
        stream.watch().set_wait(WaitReason::ForRoom);
        assert_eq!(relieve(&clock, 1, |_| false), 1);
        assert!(connection.watch().is_cut() && !stream.watch().is_cut());
    }

    #[test]
    fn a_long_connection_is_charged_no_more_than_a_fresh() {
        let clock = Clock::new(Ticker::new());
        let held_after = |exchanges: usize| {
            let guard = clock.watch();
            let (own, mut pool) = (
                memory::Charge::new(memory::MemoryKind::Coding, 1_000),
                Vec::new(),
            );
            let mut within = true;
            // Each takes something for itself, dials, and leaves the connection to its endpoint
            // with the worker.
            let task = poll_fn(|_| {
                let _ = &own;
                within = !within;
                if within {
                    guard.watch().mark_between_exchanges();
                } else {
                    pool.push(memory::Charge::new(memory::MemoryKind::Kernel, 5_000));
                }
                Poll::<()>::Pending
            });
            let mut task = Box::pin(charged(guard.shared(), Box::pin(task)));
            let cx = &mut Context::from_waker(std::task::Waker::noop());
            (0..2 * exchanges).for_each(|_| assert!(task.as_mut().poll(cx).is_pending()));
            guard.watch().held.get()
        };
        assert_eq!(held_after(10_000), held_after(1));
    }

    #[test]
    fn a_connection_is_charged_for_the_memory_of_its_parts() {
        let clock = Clock::new(Ticker::new());
        let guard = clock.watch();
        let mut kept = None;
        let task = poll_fn(|_| match kept.take() {
            None => {
                kept = Some(memory::Charge::new(memory::MemoryKind::Coding, 1_000));
                Poll::Pending
            }
            Some(charge) => {
                drop(charge);
                Poll::Ready(())
            }
        });
        let size = size_of_val(&task).cast_signed();
        let mut task = Box::pin(charged(guard.shared(), Box::pin(task)));
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        let mut held = || {
            let _ = task.as_mut().poll(cx);
            guard.watch().held.get() - size
        };
        assert_eq!([held(), held()], [1_000, 0]);
        drop(task);
        assert_eq!(guard.watch().held.get(), 0);
    }
}
