//! The phases of a connection, each of which has its time.

use std::time::Duration;

use lockgate_net::millis::Millis;

use super::{Cut, Guard};

impl Guard {
    /// Starts a phase that may take `limit`. Phases follow each other: a new one replaces the last,
    /// also one that has run out.
    pub fn begin_phase(&self, limit: Duration) {
        self.touch();
        self.end_phase();
        self.watch.since.set(self.clock.now());
        self.watch.deadline.set(self.after(limit));
    }

    /// Gives the present phase `more` time from now on, also where it has run out.
    pub fn extend_phase(&self, more: Duration) {
        self.touch();
        self.end_phase();
        self.watch.deadline.set(self.after(more));
    }

    /// Ends the phase: only the idle limit and the lifetime hold from here on. This undoes the cut
    /// of a phase too, so that a slow client can be sent its error.
    pub fn end_phase(&self) {
        self.watch.deadline.set(Millis::MAX);
        if self.watch.cut.get().is_some_and(Cut::is_of_phase) {
            self.watch.cut.set(None);
        }
    }
}
