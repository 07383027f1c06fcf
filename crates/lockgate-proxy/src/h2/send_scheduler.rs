//! Whose answer goes next on one connection (RFC 9218).
//!
//! What is handed to the h2 crate goes out in the order in which it was handed over, so it is
//! handed over late: no more than fits into one write of the [`FrameIo`](super::Carrier), and when
//! that has left, whoever is wanted most is asked first. Of one urgency those of which a part is of
//! no use go one after the other, the others share (RFC 9218 §10).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use lockgate_http::priority::Priority;

/// What is handed over before the next write.
const ROOM: usize = 64 * 1024;
/// The same where some are wanted more than others: it is what one that comes now finds before it.
const CONTENDED: usize = 16 * 1024;
/// Priorities of requests that have not come yet, or of answers that have not begun.
const UPDATES: usize = 128;

/// An answer's place among those of its connection.
#[derive(Debug, Clone)]
pub(super) struct ScheduledStream {
    scheduler: Rc<SendScheduler>,
    stream: u32,
    priority: Priority,
    /// When it had its last turn.
    last: u64,
    /// Writes that there were before that.
    written: u64,
}

impl ScheduledStream {
    pub(super) fn new(scheduler: &Rc<SendScheduler>, stream: u32, priority: Priority) -> Self {
        Self {
            scheduler: Rc::clone(scheduler),
            stream,
            priority,
            last: 0,
            written: 0,
        }
    }

    /// Completes when something may be handed over, and says how much.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<usize> {
        match self.scheduler.room.get() {
            0 => {
                self.scheduler.wait(self, cx);
                Poll::Pending
            }
            room => Poll::Ready(room),
        }
    }

    /// So much was handed over.
    pub(super) fn sent(&mut self, count: usize) {
        let scheduler = &self.scheduler;
        scheduler.room.set(scheduler.room.get().saturating_sub(count));
        scheduler.taken.set(scheduler.taken.get() + 1);
        self.last = scheduler.taken.get();
        self.written = scheduler.written.get();
    }

    /// Completes when what was handed over has left.
    pub(super) fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.last == 0 || self.scheduler.written.get() > self.written {
            return Poll::Ready(());
        }
        self.scheduler.leaving.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// Lower goes first.
    fn rank(&self) -> Rank {
        let Priority {
            urgency,
            incremental,
        } = self.scheduler.priority(self.stream).unwrap_or(self.priority);
        Rank {
            urgency,
            incremental,
            order: if incremental {
                self.last
            } else {
                self.stream.into()
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    urgency: u8,
    /// One that shares waits until those that do not are done.
    incremental: bool,
    order: u64,
}

#[derive(Debug)]
struct WaitingStream {
    stream: u32,
    rank: Rank,
    waker: Waker,
}

/// The turns of one connection.
#[derive(Debug)]
pub struct SendScheduler {
    room: Cell<usize>,
    taken: Cell<u64>,
    /// Writes that took all that had been handed over.
    written: Cell<u64>,
    leaving: RefCell<Vec<Waker>>,
    waiting: RefCell<Vec<WaitingStream>>,
    updates: RefCell<Vec<(u32, Priority)>>,
    /// Bytes of bodies that clients have sent and that were used.
    used: Cell<u64>,
}

impl SendScheduler {
    /// Nobody waits.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            room: Cell::new(ROOM),
            taken: Cell::new(0),
            written: Cell::new(0),
            leaving: RefCell::default(),
            waiting: RefCell::default(),
            updates: RefCell::default(),
            used: Cell::new(0),
        })
    }

    fn wait(&self, turn: &ScheduledStream, cx: &Context<'_>) {
        let here = WaitingStream {
            stream: turn.stream,
            rank: turn.rank(),
            waker: cx.waker().clone(),
        };
        let mut waiting = self.waiting.borrow_mut();
        match waiting
            .iter_mut()
            .find(|waiting| waiting.stream == turn.stream)
        {
            Some(waiting) => *waiting = here,
            None => waiting.push(here),
        }
    }

    /// What was handed over has left: the next may follow, whoever is wanted most first.
    pub fn refill(&self) {
        self.written.set(self.written.get() + 1);
        for waker in self.leaving.take() {
            waker.wake();
        }
        let mut waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.sort_by_key(|waiting| waiting.rank);
        let ends = waiting.first().zip(waiting.last());
        let contended = ends.is_some_and(|(first, last)| first.rank.urgency != last.rank.urgency);
        self.room.set(if contended { CONTENDED } else { ROOM });
        // Tasks run in the order in which they were woken.
        for WaitingStream { waker, .. } in waiting {
            waker.wake();
        }
    }

    /// The connection is over: who waits for a turn is woken to find that out.
    pub fn end(&self) {
        self.room.set(usize::MAX);
        self.written.set(self.written.get() + 1);
        self.leaving.take().into_iter().for_each(Waker::wake);
        self.waiting
            .take()
            .into_iter()
            .for_each(|waiting| waiting.waker.wake());
    }

    /// Notes what a client has said of priorities (RFC 9218 §7.1).
    pub fn update(&self, updates: Vec<(u32, Priority)>) {
        if updates.is_empty() {
            return;
        }
        let mut known = self.updates.borrow_mut();
        for (stream, priority) in updates {
            if let Some((_, known)) = known.iter_mut().find(|(known, _)| *known == stream) {
                *known = priority;
                continue;
            }
            // The oldest may be of a stream that was over before it came, which nobody forgets.
            if known.len() == UPDATES {
                known.remove(0);
            }
            known.push((stream, priority));
        }
    }

    /// What the client has said of a stream beside its request.
    pub(super) fn priority(&self, stream: u32) -> Option<Priority> {
        let updates = self.updates.borrow();
        updates
            .iter()
            .find(|(known, _)| *known == stream)
            .map(|&(_, priority)| priority)
    }

    /// A stream is over.
    pub(super) fn forget(&self, stream: u32) {
        self.updates
            .borrow_mut()
            .retain(|(known, _)| *known != stream);
        self.waiting
            .borrow_mut()
            .retain(|waiting| waiting.stream != stream);
    }

    /// Bytes of bodies that were used so far.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    pub(super) fn count_used(&self, count: usize) {
        self.used.set(self.used.get() + count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::task::Wake;

    /// Notes its name when it is woken.
    struct Named(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Named {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    /// The order in which streams of these priorities get their turns, after the given turns.
    fn order(streams: &[(u32, u8, bool)], updates: Vec<(u32, Priority)>) -> Vec<u32> {
        let (scheduler, woken) = (SendScheduler::new(), Arc::default());
        scheduler.update(updates);
        let mut places = Vec::new();
        for &(stream, urgency, incremental) in streams {
            let mut turn = ScheduledStream::new(
                &scheduler,
                stream,
                Priority {
                    urgency,
                    incremental,
                },
            );
            turn.sent(ROOM);
            places.push(turn);
        }
        for turn in &places {
            let waker = Arc::new(Named(turn.stream, Arc::clone(&woken))).into();
            assert!(turn.poll(&mut Context::from_waker(&waker)).is_pending());
        }
        scheduler.refill();
        let woken = woken.lock().unwrap();
        woken.clone()
    }

    /// RFC 9218 §4.1, §10
    #[test]
    fn h2_responses_go_by_urgency_then_by_stream_id() {
        assert_eq!(
            order(&[(1, 5, false), (3, 0, false), (5, 3, false)], vec![]),
            [3, 5, 1]
        );
        assert_eq!(
            order(&[(5, 3, false), (1, 3, false), (3, 3, false)], vec![]),
            [1, 3, 5]
        );
    }

    /// RFC 9218 §4.2
    #[test]
    fn incremental_h2_responses_share_the_connection() {
        assert_eq!(
            order(&[(5, 3, true), (1, 3, true), (3, 3, true)], vec![]),
            [5, 1, 3]
        );
        assert_eq!(order(&[(1, 3, true), (3, 3, false)], vec![]), [3, 1]);
    }

    /// RFC 9218 §7.1
    #[test]
    fn a_client_may_change_a_stream_priority() {
        let sooner = Priority {
            urgency: 1,
            incremental: false,
        };
        assert_eq!(
            order(&[(1, 3, false), (3, 5, false)], vec![(3, sooner)]),
            [3, 1]
        );
    }

    /// Otherwise updates that came too late for their streams would be all that is ever kept.
    #[test]
    fn of_many_priority_changes_the_last_are_kept() {
        let scheduler = SendScheduler::new();
        let sooner = Priority {
            urgency: 1,
            incremental: false,
        };
        scheduler.update((0..1_000).map(|at| (2 * at + 1, sooner)).collect());
        assert_eq!(
            (scheduler.priority(1), scheduler.priority(1_999)),
            (None, Some(sooner))
        );
        assert_eq!(scheduler.updates.borrow().len(), UPDATES);
    }

    /// Else its task, and with it the connection's memory, stays for ever.
    #[test]
    fn a_waiting_stream_is_woken_when_the_connection_ends() {
        let (scheduler, woken) = (SendScheduler::new(), Arc::default());
        let mut turn = ScheduledStream::new(&scheduler, 1, Priority::default());
        turn.sent(ROOM);
        let waker = Arc::new(Named(1, Arc::clone(&woken))).into();
        assert!(turn.poll(&mut Context::from_waker(&waker)).is_pending());
        scheduler.end();
        assert_eq!(*woken.lock().unwrap(), [1]);
        assert!(turn.poll(&mut Context::from_waker(&waker)).is_ready());
    }

    #[test]
    fn a_finished_stream_is_not_scheduled() {
        let (scheduler, woken) = (SendScheduler::new(), Arc::default());
        let mut turn = ScheduledStream::new(&scheduler, 1, Priority::default());
        turn.sent(ROOM);
        let waker = Arc::new(Named(1, Arc::clone(&woken))).into();
        assert!(turn.poll(&mut Context::from_waker(&waker)).is_pending());
        scheduler.forget(1);
        scheduler.refill();
        assert!(woken.lock().unwrap().is_empty());
        assert_eq!(
            turn.poll(&mut Context::from_waker(&waker)),
            Poll::Ready(ROOM)
        );
    }
}
