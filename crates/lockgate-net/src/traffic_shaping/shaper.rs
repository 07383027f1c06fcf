//! The rate limit of one direction of one connection: a piece of each of its buckets at a time.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::shaping_queue::QueuedWait;
use super::{ShapingQueue, SharedRate, piece};
use crate::nanos::Nanos;

/// The tokens of one direction, from a chain of buckets. They are reserved when there is something
/// to move, spent as that moves, and given back on drop.
#[derive(Debug)]
pub struct Shaper {
    buckets: Box<[Arc<SharedRate>]>,
    queue: Rc<ShapingQueue>,
    state: State,
    waited: Nanos,
}

#[derive(Debug)]
enum State {
    /// Nothing is reserved.
    Unasked,
    /// This much is reserved from the buckets up to this one, and not earned yet.
    Waiting {
        bytes: u64,
        bucket: usize,
        earned: Nanos,
        since: Nanos,
        wait: QueuedWait,
    },
    /// This much may be moved, at least 1.
    Granted(u64),
}

impl Shaper {
    /// A shaper with all of `buckets`, each shared by more directions than the one before; it waits
    /// in `queue`, which is its worker's.
    pub fn new(buckets: impl Into<Box<[Arc<SharedRate>]>>, queue: &Rc<ShapingQueue>) -> Self {
        Self {
            buckets: buckets.into(),
            queue: Rc::clone(queue),
            state: State::Unasked,
            waited: Nanos::ZERO,
        }
    }

    /// The size of the next piece: smaller with contention.
    pub fn piece(&self) -> usize {
        usize::try_from(piece(&self.buckets, self.queue.now())).unwrap_or(usize::MAX)
    }

    /// Completes when bytes may be moved, with the most that may: at least 1.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let now = self.queue.now();
        let (bytes, mut next, since) = match self.state {
            State::Granted(_) => return Poll::Ready(self.left()),
            State::Waiting {
                bytes,
                bucket,
                earned,
                since,
                wait,
            } => {
                if now < earned {
                    self.queue.set_waker(wait, cx.waker());
                    return Poll::Pending;
                }
                self.queue.cancel(wait);
                (bytes, bucket + 1, since)
            }
            State::Unasked => (piece(&self.buckets, now), 0, now),
        };
        // One after the other: nothing is taken from a shared bucket before the own one is earned.
        while let Some(bucket) = self.buckets.get(next) {
            let earned = bucket.reserve(bytes, now);
            if earned > now {
                let wait = self.queue.wait_until(earned, cx.waker());
                self.state = State::Waiting {
                    bytes,
                    bucket: next,
                    earned,
                    since,
                    wait,
                };
                return Poll::Pending;
            }
            next += 1;
        }
        self.waited += now - since;
        self.state = State::Granted(bytes);
        Poll::Ready(self.left())
    }

    /// The bytes that may be moved now without waiting.
    pub fn left(&self) -> usize {
        let State::Granted(left) = self.state else {
            return 0;
        };
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Whether tokens are reserved: waited for, or left.
    pub fn is_asked(&self) -> bool {
        !matches!(self.state, State::Unasked)
    }

    /// Whether tokens are waited for: then no peer is to blame for the pause.
    pub fn is_waited_for(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Notes moved bytes. More than was granted, such as the rest of a TLS record, is owed.
    pub fn spend(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let left = if let State::Granted(left) = self.state {
            left
        } else {
            0
        };
        if bytes > left {
            let now = self.queue.now();
            self.buckets.iter().for_each(|bucket| {
                bucket.reserve(bytes - left, now);
            });
        }
        if left > 0 {
            self.state = if left > bytes {
                State::Granted(left - bytes)
            } else {
                State::Unasked
            };
        }
    }

    /// Gives back unused tokens; a wait continues.
    pub fn give_back(&mut self) {
        if let State::Granted(left) = self.state {
            self.state = State::Unasked;
            give_back(&self.buckets, left);
        }
    }

    /// The time waited since the last call.
    pub fn take_waited(&mut self) -> Nanos {
        std::mem::take(&mut self.waited)
    }
}

impl Drop for Shaper {
    fn drop(&mut self) {
        match self.state {
            State::Unasked => {}
            State::Waiting {
                bytes,
                bucket,
                wait,
                ..
            } => {
                self.queue.cancel(wait);
                give_back(&self.buckets[..=bucket], bytes);
            }
            State::Granted(left) => give_back(&self.buckets, left),
        }
    }
}

fn give_back(buckets: &[Arc<SharedRate>], bytes: u64) {
    buckets.iter().for_each(|bucket| bucket.give_back(bytes));
}
