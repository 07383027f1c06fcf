//! What one direction of one connection may move: a piece of each of its buckets at a time.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::line::Place;
use super::{Bucket, Line, Moment, piece};

/// The right of one direction to move bytes, by a chain of buckets of which each has a say. It is
/// asked for when there is something to move, spent as that moves, and given back when it is
/// dropped.
#[derive(Debug)]
pub struct Shaper {
    buckets: Box<[Arc<Bucket>]>,
    line: Rc<Line>,
    state: State,
    waited: Moment,
}

#[derive(Debug)]
enum State {
    /// Nothing was asked for.
    Unasked,
    /// So much is reserved of the buckets up to this one, where it is not earned yet.
    Waiting {
        bytes: u64,
        bucket: usize,
        earned: Moment,
        since: Moment,
        place: Place,
    },
    /// So much is left: something.
    Granted(u64),
}

impl Shaper {
    /// One by all of `buckets`, of which each is shared by more than the one before; who waits for
    /// them does so in `line`, which is its worker's.
    pub fn new(buckets: impl Into<Box<[Arc<Bucket>]>>, line: &Rc<Line>) -> Self {
        Self {
            buckets: buckets.into(),
            line: Rc::clone(line),
            state: State::Unasked,
            waited: 0,
        }
    }

    /// What would be asked for now: less where many wait.
    pub fn piece(&self) -> usize {
        usize::try_from(piece(&self.buckets, self.line.now())).unwrap_or(usize::MAX)
    }

    /// Completes when something may be moved, and says how much at the most: at least 1.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let now = self.line.now();
        let (bytes, mut next, since) = match self.state {
            State::Granted(_) => return Poll::Ready(self.left()),
            State::Waiting {
                bytes,
                bucket,
                earned,
                since,
                place,
            } => {
                if now < earned {
                    self.line.stay(place, cx.waker());
                    return Poll::Pending;
                }
                self.line.leave(place);
                (bytes, bucket + 1, since)
            }
            State::Unasked => (piece(&self.buckets, now), 0, now),
        };
        // One after the other: of what others share nothing is taken as long as one's own is not
        // earned.
        while let Some(bucket) = self.buckets.get(next) {
            let earned = bucket.reserve(bytes, now);
            if earned > now {
                let place = self.line.enter(earned, cx.waker());
                self.state = State::Waiting {
                    bytes,
                    bucket: next,
                    earned,
                    since,
                    place,
                };
                return Poll::Pending;
            }
            next += 1;
        }
        self.waited += now - since;
        self.state = State::Granted(bytes);
        Poll::Ready(self.left())
    }

    /// How much may be moved now without asking.
    pub fn left(&self) -> usize {
        let State::Granted(left) = self.state else {
            return 0;
        };
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Whether it was asked for: it is being waited for, or there is some left.
    pub fn is_asked(&self) -> bool {
        !matches!(self.state, State::Unasked)
    }

    /// Whether it is being waited for: nobody else is to blame then for what does not move.
    pub fn is_waited_for(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Notes that so much was moved. What is more than was granted, such as the rest of a record of
    /// TLS, is owed.
    pub fn spend(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let left = if let State::Granted(left) = self.state {
            left
        } else {
            0
        };
        if bytes > left {
            let now = self.line.now();
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

    /// Gives back what is left of it; what is being waited for is waited for on.
    pub fn give_back(&mut self) {
        if let State::Granted(left) = self.state {
            self.state = State::Unasked;
            give_back(&self.buckets, left);
        }
    }

    /// For how long it was waited for since this was last asked, in nanoseconds.
    pub fn take_waited(&mut self) -> Moment {
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
                place,
                ..
            } => {
                self.line.leave(place);
                give_back(&self.buckets[..=bucket], bytes);
            }
            State::Granted(left) => give_back(&self.buckets, left),
        }
    }
}

fn give_back(buckets: &[Arc<Bucket>], bytes: u64) {
    buckets.iter().for_each(|bucket| bucket.give_back(bytes));
}
