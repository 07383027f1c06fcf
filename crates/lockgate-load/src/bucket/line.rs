//! One thread's end of the link: connections with something to read take turns, whoever waits
//! longest first.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockgate_net::timer::Timer;

use super::Bucket;

/// Who waits for the link in one thread.
#[derive(Debug)]
pub(crate) struct Line {
    bucket: Arc<Bucket>,
    alarm: Timer,
    waiting: RefCell<VecDeque<(u64, Waker)>>,
    /// Whose turn it is, who has been woken for it.
    turn: Cell<Option<u64>>,
    seats: Cell<u64>,
}

impl Line {
    /// # Errors
    /// When there is no descriptor for its alarm.
    pub(crate) fn new(bucket: &Arc<Bucket>) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            bucket: Arc::clone(bucket),
            alarm: Timer::new()?,
            waiting: RefCell::default(),
            turn: Cell::new(None),
            seats: Cell::new(0),
        }))
    }

    /// The receive buffer that its connections have.
    pub(crate) fn buffer(&self) -> usize {
        self.bucket.rate().buffer()
    }

    /// A place for one connection.
    pub(crate) fn seat(self: &Rc<Self>) -> Seat {
        let id = self.seats.get();
        self.seats.set(id + 1);
        Seat {
            line: Rc::clone(self),
            id,
        }
    }

    /// Hands out turns as the link becomes free, for ever.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub(crate) async fn run(&self) -> io::Result<()> {
        loop {
            poll_fn(|cx| self.alarm.poll(cx)).await?;
            self.next();
        }
    }

    /// Wakes the next one if the link is free, or sees to it that somebody looks when it is.
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

    /// Whether something may be read now; if not, the alarm is set for when it may.
    fn is_free(&self) -> bool {
        let wait = self.bucket.wait(self.bucket.now());
        if wait > 0 {
            // It has a descriptor, and takes any time.
            let _ = self.alarm.set(Duration::from_nanos(wait));
        }
        wait == 0
    }
}

/// The place of one connection.
#[derive(Debug)]
pub(crate) struct Seat {
    line: Rc<Line>,
    id: u64,
}

impl Seat {
    /// Completes with how many bytes may be read, when it is this connection's turn. Only for one
    /// that has something to read; what it has read it must [`pay`](Self::pay) for at once,
    /// also nothing.
    pub(crate) fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let Line {
            bucket,
            waiting,
            turn,
            ..
        } = &*self.line;
        let mut waiting = waiting.borrow_mut();
        let mine = turn.get() == Some(self.id);
        let next = mine || turn.get().is_none() && waiting.is_empty();
        if next && self.line.is_free() {
            turn.set(Some(self.id));
            return Poll::Ready(bucket.rate().piece());
        }
        let waker = cx.waker().clone();
        if mine {
            // Another thread was faster.
            turn.set(None);
            waiting.push_front((self.id, waker));
        } else if let Some(place) = waiting.iter().position(|(id, _)| *id == self.id) {
            waiting[place].1 = waker;
        } else {
            waiting.push_back((self.id, waker));
        }
        Poll::Pending
    }

    /// Pays for so many bytes that were read, and ends the turn.
    pub(crate) fn pay(&self, bytes: u64) {
        let Line { bucket, turn, .. } = &*self.line;
        bucket.pay(bytes, bucket.now());
        if turn.get() == Some(self.id) {
            turn.set(None);
        }
        self.line.next();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.line
            .waiting
            .borrow_mut()
            .retain(|(id, _)| *id != self.id);
        // Nothing was read; whoever waits gets its turn.
        self.pay(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Rc<Line> {
        Line::new(&Arc::new(Bucket::new("1kbit/s".parse().unwrap()))).unwrap()
    }

    fn run(test: impl FnOnce()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(async { test() });
    }

    #[test]
    fn connections_take_turns_and_those_that_leave_have_none() {
        run(|| {
            let line = line();
            let cx = &mut Context::from_waker(Waker::noop());
            let mut seats: Vec<Seat> = (0..4).map(|_| line.seat()).collect();
            assert_eq!(seats[0].poll_turn(cx), Poll::Ready(1500));
            // 12 seconds on this link.
            seats[0].pay(1500);
            for at in [0, 1, 2, 3, 1, 0] {
                assert!(seats[at].poll_turn(cx).is_pending());
            }
            let waiting = || {
                line.waiting
                    .borrow()
                    .iter()
                    .map(|(id, _)| *id)
                    .collect::<Vec<_>>()
            };
            assert_eq!(waiting(), [0, 1, 2, 3]);
            drop(seats.remove(1));
            assert_eq!(waiting(), [0, 2, 3]);
        });
    }

    #[test]
    fn a_turn_goes_on_when_nothing_was_read_or_its_owner_is_gone() {
        run(|| {
            let line = line();
            let cx = &mut Context::from_waker(Waker::noop());
            let (first, second, third) = (line.seat(), line.seat(), line.seat());
            assert!(first.poll_turn(cx).is_ready());
            // It is the first one's turn: others wait although the link is free.
            assert!(second.poll_turn(cx).is_pending());
            assert!(third.poll_turn(cx).is_pending());
            first.pay(0);
            assert_eq!(line.turn.get(), Some(1));
            drop(second);
            assert_eq!(line.turn.get(), Some(2));
            assert!(third.poll_turn(cx).is_ready());
            third.pay(10);
            assert_eq!((line.turn.get(), line.waiting.borrow().len()), (None, 0));
        });
    }
}
