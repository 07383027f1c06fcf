//! Bytes that a connection has moved, and the times of its directions.

use std::cell::Cell;
use std::time::Instant;

use crate::nanos::Nanos;

/// Bytes moved so far, application data only; read by others while the relay runs.
#[derive(Debug, Default)]
pub struct Meter {
    /// From the client to the origin.
    pub received: Cell<u64>,
    /// From the origin to the client.
    pub sent: Cell<u64>,
    /// The limit of bytes in both directions together, if any: nothing is read beyond it.
    pub most: Cell<Option<u64>>,
    /// Bytes that were sent later than they were read, because a side was slow: progress without a
    /// read.
    pub flushed: Cell<u64>,
    /// Whether a direction waits for its shaper now, and not for a peer.
    pub held: Cell<bool>,
    /// The time that directions have waited for their shapers, together.
    pub held_for: Cell<Nanos>,
    /// The times of the client's bytes.
    pub received_at: DirectionTimes,
    /// The times of the origin's bytes.
    pub sent_at: DirectionTimes,
    /// Whether relaying has begun: before, neither direction has times.
    pub relayed: Cell<bool>,
}

/// The times of one direction.
#[derive(Debug, Default)]
pub struct DirectionTimes {
    /// The time of its first byte.
    pub first: Cell<Option<Instant>>,
    /// The time of its end.
    pub end: Cell<Option<Instant>>,
}

impl Meter {
    /// The bytes left of the limit.
    pub fn left(&self) -> u64 {
        let moved = || self.received.get().saturating_add(self.sent.get());
        self.most
            .get()
            .map_or(u64::MAX, |most| most.saturating_sub(moved()))
    }

    /// Notes first events since the last call: cheap, for any time when there may be one.
    pub fn note(&self, received_ended: bool, sent_ended: bool) {
        self.relayed.set(true);
        self.received_at
            .note(self.received.get() > 0, received_ended);
        self.sent_at.note(self.sent.get() > 0, sent_ended);
    }
}

impl DirectionTimes {
    fn note(&self, moved: bool, ended: bool) {
        for (happened, when) in [(moved, &self.first), (ended, &self.end)] {
            if happened && when.get().is_none() {
                when.set(Some(Instant::now()));
            }
        }
    }
}
