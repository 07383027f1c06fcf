//! The watched connections of one worker: those under way, which every tick checks, and those at
//! rest, which cost nothing until the first of their limits may be due.

use std::rc::Rc;

use lockgate_net::millis::Millis;

use super::{Watch, place};

/// Connections that one tick looks at; of more, at a tenth.
pub(super) const LOOKED_AT: usize = 1024;

/// All watches, each at the place that it knows.
#[derive(Debug)]
pub(super) struct WatchList {
    /// Those under way, and after them those at rest.
    all: Vec<Rc<Watch>>,
    under_way: usize,
    /// The next of those under way to be checked.
    next: usize,
    /// No limit of those at rest is due earlier; while they are searched, of those that the search
    /// has passed.
    due: Millis,
    /// While those at rest are searched, from the last to the first: the place after the next.
    searched_to: Option<usize>,
}

impl Default for WatchList {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            under_way: 0,
            next: 0,
            due: Millis::MAX,
            searched_to: None,
        }
    }
}

impl WatchList {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many one tick looks at.
    fn part(&self) -> usize {
        let all = self.all.len();
        if all <= LOOKED_AT { all } else { all / 10 + 1 }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Rc<Watch>> {
        self.all.iter()
    }

    /// When the next tick has something to do here; [`Millis::ZERO`] is at once, the maximum never.
    pub(super) fn due(&self) -> Millis {
        if self.under_way > 0 || self.searched_to.is_some() {
            Millis::ZERO
        } else {
            self.due
        }
    }

    /// Adds a connection that is under way.
    pub(super) fn push(&mut self, watch: Rc<Watch>) {
        let last = self.all.len();
        watch.index.set(place(last));
        self.all.push(watch);
        self.swap(last, self.under_way);
        self.under_way += 1;
        // The search may have passed this place already.
        self.note_due(last);
    }

    pub(super) fn remove(&mut self, index: usize) {
        let mut free = index;
        if index < self.under_way {
            self.under_way -= 1;
            free = self.under_way;
            self.swap(index, free);
        }
        self.swap(free, self.all.len() - 1);
        self.all.pop();
        // The search may have passed this place already.
        self.note_due(free);
    }

    /// Counts a connection that was at rest among those under way.
    pub(super) fn rouse(&mut self, index: usize) {
        self.swap(index, self.under_way);
        self.under_way += 1;
        // The search may have passed this place already.
        self.note_due(index);
    }

    /// Notes that a connection under way is at rest.
    fn settle(&mut self, index: usize) {
        self.under_way -= 1;
        self.swap(index, self.under_way);
        self.note_due(self.under_way);
    }

    /// Notes when a limit is due of the connection that has come to this place, if it is at rest.
    pub(super) fn note_due(&mut self, index: usize) {
        if index >= self.under_way
            && let Some(watch) = self.all.get(index)
        {
            self.due = self.due.min(watch.due());
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.all.swap(one, other);
        for index in [one, other] {
            if let Some(watch) = self.all.get(index) {
                watch.index.set(place(index));
            }
        }
    }

    /// Checks those at rest, or a part of many, once the first limit may be due.
    pub(super) fn search(&mut self, now: Millis) {
        if self.searched_to.is_none() && now >= self.due {
            (self.searched_to, self.due) = (Some(self.all.len()), Millis::MAX);
        }
        let Some(end) = self.searched_to else { return };
        // Some may have gone since.
        let end = end.min(self.all.len());
        let from = end.saturating_sub(self.part()).max(self.under_way);
        for watch in self.all.get(from..end).into_iter().flatten() {
            if watch.due() <= now {
                watch.check(now);
            }
            self.due = self.due.min(watch.due());
        }
        self.searched_to = Some(from).filter(|from| *from > self.under_way);
    }

    /// Hands those under way, or a part of many, to `check`, which returns whether one is at rest.
    pub(super) fn check(&mut self, mut check: impl FnMut(&Watch) -> bool) {
        let part = self.part();
        if part >= self.under_way {
            self.next = 0;
        }
        for _ in 0..part {
            // Not from the start again: none is to be checked twice in one tick.
            let Some(watch) = self
                .all
                .get(self.next)
                .filter(|_| self.next < self.under_way)
            else {
                break;
            };
            let is_at_rest = check(watch);
            watch.is_at_rest.set(is_at_rest);
            if is_at_rest {
                self.settle(self.next);
            } else {
                self.next += 1;
            }
        }
        // A round ends here: connections that come before the next tick do not prolong it, or the
        // first ones would not be checked while there is always a new one.
        if self.next >= self.under_way {
            self.next = 0;
        }
    }
}
