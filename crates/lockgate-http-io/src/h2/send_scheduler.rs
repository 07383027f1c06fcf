//! The order of responses on one connection, by priority (RFC 9218).
//!
//! The h2 crate sends data in the order in which it gets it, so it gets it late: no more than fits
//! into one write of the [`FrameIo`](super::FrameIo). When that has left, the streams of the
//! highest urgency continue first. Of one urgency, streams that are not incremental go one after
//! the other, the others share (RFC 9218 §10).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use lockgate_http::priority::Priority;

/// The most bytes for the crate before the next write.
const ROOM: usize = 64 * 1024;
/// The same while streams of several urgencies wait: a new urgent stream waits behind these bytes.
const CONTENDED: usize = 16 * 1024;
/// The most kept priorities of requests that were not received yet, or of responses that have not
/// begun.
const UPDATES: usize = 128;

/// A response in the order of its connection.
#[derive(Debug, Clone)]
pub(super) struct ScheduledStream {
    scheduler: Rc<SendScheduler>,
    stream: u32,
    priority: Priority,
    /// The number of its last send.
    last: u64,
    /// Writes of the connection before that.
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

    /// Completes when data may be sent, and returns how many bytes.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<usize> {
        match self.scheduler.room.get() {
            0 => {
                self.scheduler.wait(self, cx);
                Poll::Pending
            }
            room => Poll::Ready(room),
        }
    }

    /// Notes that `count` bytes were given to the crate.
    pub(super) fn sent(&mut self, count: usize) {
        let scheduler = &self.scheduler;
        scheduler
            .room
            .set(scheduler.room.get().saturating_sub(count));
        scheduler.taken.set(scheduler.taken.get() + 1);
        self.last = scheduler.taken.get();
        self.written = scheduler.written.get();
    }

    /// Completes when the data given to the crate has left.
    pub(super) fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.last == 0 || self.scheduler.written.get() > self.written {
            return Poll::Ready(());
        }
        self.scheduler.leaving.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// Its rank; the lowest goes first.
    fn rank(&self) -> Rank {
        let Priority {
            urgency,
            incremental,
        } = self
            .scheduler
            .priority(self.stream)
            .unwrap_or(self.priority);
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
    /// Incremental streams wait until the others have ended.
    incremental: bool,
    order: u64,
}

#[derive(Debug)]
struct WaitingStream {
    stream: u32,
    rank: Rank,
    waker: Waker,
}

/// The order of responses on one connection.
#[derive(Debug)]
pub struct SendScheduler {
    room: Cell<usize>,
    taken: Cell<u64>,
    /// Writes that took all data of the crate.
    written: Cell<u64>,
    leaving: RefCell<Vec<Waker>>,
    waiting: RefCell<Vec<WaitingStream>>,
    updates: RefCell<Vec<(u32, Priority)>>,
    /// Bytes of request bodies that were consumed.
    used: Cell<u64>,
}

impl SendScheduler {
    /// A scheduler without waiting streams.
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

    /// Notes that all data of the crate has left, and wakes the waiting streams by rank.
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
        // Tasks run in the order of their wake-ups.
        for WaitingStream { waker, .. } in waiting {
            waker.wake();
        }
    }

    /// Notes the end of the connection, and wakes all waiting streams to find that out.
    pub fn end(&self) {
        self.room.set(usize::MAX);
        self.written.set(self.written.get() + 1);
        self.leaving.take().into_iter().for_each(Waker::wake);
        self.waiting
            .take()
            .into_iter()
            .for_each(|waiting| waiting.waker.wake());
    }

    /// Notes priorities that a client has sent (RFC 9218 §7.1).
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
            // The oldest may be of a stream that had ended before, for which `forget` never comes.
            if known.len() == UPDATES {
                known.remove(0);
            }
            known.push((stream, priority));
        }
    }

    /// The priority that a client has sent for a stream outside its request.
    pub(super) fn priority(&self, stream: u32) -> Option<Priority> {
        let updates = self.updates.borrow();
        updates
            .iter()
            .find(|(known, _)| *known == stream)
            .map(|&(_, priority)| priority)
    }

    /// Notes the end of a stream.
    pub(super) fn forget(&self, stream: u32) {
        self.updates
            .borrow_mut()
            .retain(|(known, _)| *known != stream);
        self.waiting
            .borrow_mut()
            .retain(|waiting| waiting.stream != stream);
    }

    /// Bytes of request bodies that were consumed so far.
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
        let mut turns = Vec::new();
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
            turns.push(turn);
        }
        for turn in &turns {
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
