//! One thread's queue at the link: readable connections take turns, the longest-waiting first.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockgate_net::nanos::Nanos;
use lockgate_net::timer::Timer;

use super::SharedLink;

/// Connections of one thread that wait for the link.
#[derive(Debug)]
pub(crate) struct LinkQueue {
    link: Arc<SharedLink>,
    alarm: Timer,
    waiting: RefCell<VecDeque<(u64, Waker)>>,
    /// The slot that has its turn, and has been woken for it.
    turn: Cell<Option<u64>>,
    slots: Cell<u64>,
}

impl LinkQueue {
    /// # Errors
    /// There is no descriptor for the alarm.
    pub(crate) fn new(link: &Arc<SharedLink>) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            link: Arc::clone(link),
            alarm: Timer::new()?,
            waiting: RefCell::default(),
            turn: Cell::new(None),
            slots: Cell::new(0),
        }))
    }

    /// The receive buffer of its connections.
    pub(crate) fn buffer(&self) -> usize {
        self.link.rate().buffer()
    }

    /// A slot for one connection.
    pub(crate) fn slot(self: &Rc<Self>) -> LinkSlot {
        let id = self.slots.get();
        self.slots.set(id + 1);
        LinkSlot {
            queue: Rc::clone(self),
            id,
        }
    }

    /// Hands out turns as the link becomes free, for ever.
    ///
    /// # Errors
    /// tokio's runtime is shutting down; a reactor has no such error.
    pub(crate) async fn run(&self) -> io::Result<()> {
        loop {
            poll_fn(|cx| self.alarm.poll(cx)).await?;
            self.next();
        }
    }

    /// Wakes the next connection if the link is free; if not, sets the alarm.
    fn next(&self) {
        if self.turn.get().is_some() || self.waiting.borrow().is_empty() {
            return;
        }
        if !self.is_free() {
            return;
        }
        if let Some((id, waker)) = self.waiting.borrow_mut().pop_front() {
            self.turn.set(Some(id));
            waker.wake();
        }
    }

    /// Whether a client may read now; if not, the alarm is set for the time when it may.
    fn is_free(&self) -> bool {
        let wait = self.link.wait(self.link.now());
        if wait > Nanos::ZERO {
            // The alarm has its descriptor, and takes any time.
            let _ = self.alarm.set(Duration::from(wait));
        }
        wait == Nanos::ZERO
    }
}

/// The slot of one connection at the link.
#[derive(Debug)]
pub(crate) struct LinkSlot {
    queue: Rc<LinkQueue>,
    id: u64,
}

impl LinkSlot {
    /// Completes with the bytes that may be read, when it is this connection's turn. Only for a
    /// readable connection; it must [`pay`](Self::pay) at once for the bytes that it has read, also
    /// for none.
    pub(crate) fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let LinkQueue {
            link,
            waiting,
            turn,
            ..
        } = &*self.queue;
        let mut waiting = waiting.borrow_mut();
        let mine = turn.get() == Some(self.id);
        let next = mine || turn.get().is_none() && waiting.is_empty();
        if next && self.queue.is_free() {
            turn.set(Some(self.id));
            return Poll::Ready(link.rate().piece());
        }
        let waker = cx.waker().clone();
        if mine {
            // Another thread was faster.
            turn.set(None);
            waiting.push_front((self.id, waker));
        } else if let Some(index) = waiting.iter().position(|(id, _)| *id == self.id) {
            waiting[index].1 = waker;
        } else {
            waiting.push_back((self.id, waker));
        }
        Poll::Pending
    }

    /// Pays for bytes that were read, and ends the turn.
    pub(crate) fn pay(&self, bytes: u64) {
        let LinkQueue { link, turn, .. } = &*self.queue;
        link.pay(bytes, link.now());
        if turn.get() == Some(self.id) {
            turn.set(None);
        }
        self.queue.next();
    }
}

impl Drop for LinkSlot {
    fn drop(&mut self) {
        self.queue
            .waiting
            .borrow_mut()
            .retain(|(id, _)| *id != self.id);
        // Without a read the next connection gets its turn.
        self.pay(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_net::reactor::Reactor;

    fn queue() -> Rc<LinkQueue> {
        LinkQueue::new(&Arc::new(SharedLink::new("1kbit/s".parse().unwrap()))).unwrap()
    }

    fn run(test: impl FnOnce()) {
        let test = async { test() };
        Reactor::new().unwrap().block_on(test).unwrap();
    }

    #[test]
    fn connections_take_turns_and_those_that_leave_have_none() {
        run(|| {
            let queue = queue();
            let cx = &mut Context::from_waker(Waker::noop());
            let mut slots: Vec<LinkSlot> = (0..4).map(|_| queue.slot()).collect();
            assert_eq!(slots[0].poll_turn(cx), Poll::Ready(1500));
            // 12 seconds on this link.
            slots[0].pay(1500);
            for at in [0, 1, 2, 3, 1, 0] {
                assert!(slots[at].poll_turn(cx).is_pending());
            }
            let waiting = || {
                queue
                    .waiting
                    .borrow()
                    .iter()
                    .map(|(id, _)| *id)
                    .collect::<Vec<_>>()
            };
            assert_eq!(waiting(), [0, 1, 2, 3]);
            drop(slots.remove(1));
            assert_eq!(waiting(), [0, 2, 3]);
        });
    }

    #[test]
    fn a_turn_goes_on_when_nothing_was_read_or_its_owner_is_gone() {
        run(|| {
            let queue = queue();
            let cx = &mut Context::from_waker(Waker::noop());
            let (first, second, third) = (queue.slot(), queue.slot(), queue.slot());
            assert!(first.poll_turn(cx).is_ready());
            // It is the first one's turn: others wait although the link is free.
            assert!(second.poll_turn(cx).is_pending());
            assert!(third.poll_turn(cx).is_pending());
            first.pay(0);
            assert_eq!(queue.turn.get(), Some(1));
            drop(second);
            assert_eq!(queue.turn.get(), Some(2));
            assert!(third.poll_turn(cx).is_ready());
            third.pay(10);
            assert_eq!((queue.turn.get(), queue.waiting.borrow().len()), (None, 0));
        });
    }
}
