//! What a connection has moved, and when each of its directions began and ended.

use std::cell::Cell;
use std::time::Instant;

/// Bytes moved so far, application data only; read by others while the relay runs.
#[derive(Debug, Default)]
pub struct Meter {
    /// From the client to the origin.
    pub received: Cell<u64>,
    /// From the origin to the client.
    pub sent: Cell<u64>,
    /// What may move, both ways together, if that is limited: nothing is read beyond it.
    pub most: Cell<Option<u64>>,
    /// Handed on later than they were taken, because a side was slow: moved, though no byte is
    /// read meanwhile.
    pub flushed: Cell<u64>,
    /// Whether a direction waits for its shaper now: nobody but we keeps it from moving.
    pub held: Cell<bool>,
    /// For how long directions have waited for theirs, together, in nanoseconds.
    pub held_for: Cell<u64>,
    /// When the client's bytes were relayed.
    pub received_at: Times,
    /// When the origin's were.
    pub sent_at: Times,
    /// Whether it has been relayed: before, neither has times.
    pub relayed: Cell<bool>,
}

/// When one direction was open.
#[derive(Debug, Default)]
pub struct Times {
    /// Its first byte was there.
    pub first: Cell<Option<Instant>>,
    /// Its source had ended.
    pub end: Cell<Option<Instant>>,
}

impl Meter {
    /// How much may still move.
    pub fn left(&self) -> u64 {
        let moved = || self.received.get().saturating_add(self.sent.get());
        self.most
            .get()
            .map_or(u64::MAX, |most| most.saturating_sub(moved()))
    }

    /// Notes what has happened for the first time since it was called last: cheap, whenever
    /// something may have.
    pub fn note(&self, received_ended: bool, sent_ended: bool) {
        self.relayed.set(true);
        self.received_at
            .note(self.received.get() > 0, received_ended);
        self.sent_at.note(self.sent.get() > 0, sent_ended);
    }
}

impl Times {
    fn note(&self, moved: bool, ended: bool) {
        for (happened, when) in [(moved, &self.first), (ended, &self.end)] {
            if happened && when.get().is_none() {
                when.set(Some(Instant::now()));
            }
        }
    }
}
