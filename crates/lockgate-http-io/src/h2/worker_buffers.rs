//! What all HTTP/2 connections of one worker share, since each needs it for a turn only: buffers for
//! frames, the decoded fields of the section that came last, and memory for the heads of responses.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use lockgate_http::h2::{FieldSection, FieldSink, TurnBuffers};
use lockgate_http::head::{Method, ResponseHead};
use lockgate_net::memory::{self, MemoryLevel};

use super::stream_slot::StreamSlot;

/// The most sets of buffers that are kept: as many connections as are between their turns at once,
/// each with unsent frames of its streams.
const KEPT: usize = 64;
/// The most heads of which the memory is kept: as many responses as come between two turns of their
/// streams' tasks.
const KEPT_HEADS: usize = 64;
/// The most memory of one of them: few heads need more, and an endpoint that sends large ones must not
/// make us keep it.
const KEPT_HEAD: usize = 8 * 1024;
/// The least memory of what is left of a set that is kept.
const WORTH_KEEPING: usize = 4 * 1024;

/// The buffers of one worker.
#[derive(Debug, Default)]
pub struct WorkerBuffers {
    sets: RefCell<Vec<TurnBuffers<StreamSlot>>>,
    /// The fewest sets that were here since the last eviction: these were not needed.
    unused: Cell<usize>,
    section: RefCell<ReceivedSection>,
    heads: RefCell<Vec<ResponseHead>>,
    /// The same of heads.
    unused_heads: Cell<usize>,
}

impl WorkerBuffers {
    /// No buffers: they are made on demand.
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Lends a set for a turn. Its memory belongs to the borrower meanwhile.
    pub(super) fn take(&self) -> TurnBuffers<StreamSlot> {
        // The last used one is in the cache.
        let mut sets = self.sets.borrow_mut();
        let set = sets.pop().unwrap_or_default();
        self.unused.set(self.unused.get().min(sets.len()));
        memory::lend(set.memory().cast_signed());
        set
    }

    /// Takes back what a connection has not taken of a set: it has buffers of its own.
    pub(super) fn give_rest(&self, rest: TurnBuffers<StreamSlot>) {
        if rest.memory() >= WORTH_KEEPING {
            self.give(rest);
        }
    }

    /// Takes back a set.
    pub(super) fn give(&self, set: TurnBuffers<StreamSlot>) {
        let bytes = set.memory();
        let mut sets = self.sets.borrow_mut();
        let kept = if memory::level() == MemoryLevel::Easy {
            KEPT
        } else {
            1
        };
        if sets.len() < kept {
            memory::lend(-bytes.cast_signed());
            sets.push(set);
        }
    }

    /// Keeps only the sets and heads that were used since the last call.
    pub fn evict_unused(&self) {
        let mut sets = self.sets.borrow_mut();
        // Those at the front were used longest ago.
        let unused = self.unused.get().min(sets.len());
        sets.drain(..unused);
        self.unused.set(sets.len());
        let mut heads = self.heads.borrow_mut();
        let unused = self.unused_heads.get().min(heads.len());
        heads.drain(..unused);
        self.unused_heads.set(heads.len());
    }

    /// The number of sets that are not lent.
    #[cfg(test)]
    pub(super) fn spare(&self) -> usize {
        self.sets.borrow().len()
    }

    /// A head with memory for its fields; an earlier one may be in it.
    pub(super) fn take_head(&self) -> ResponseHead {
        let mut heads = self.heads.borrow_mut();
        let head = heads.pop().unwrap_or_default();
        self.unused_heads
            .set(self.unused_heads.get().min(heads.len()));
        head
    }

    /// Takes back a head.
    pub(super) fn give_head(&self, head: ResponseHead) {
        let mut heads = self.heads.borrow_mut();
        let is_small = head.fields.memory() <= KEPT_HEAD;
        if is_small && heads.len() < KEPT_HEADS && memory::level() == MemoryLevel::Easy {
            heads.push(head);
        }
    }

    /// Frees all memory that is not lent.
    pub fn shrink(&self) {
        self.sets.take();
        self.heads.take();
    }

    /// The section that was decoded last.
    pub(super) fn section(&self) -> RefMut<'_, ReceivedSection> {
        self.section.borrow_mut()
    }
}

/// A decoded field section, and the method in it, which is known even if no head can be made of it.
#[derive(Debug)]
pub(super) struct ReceivedSection {
    pub(super) fields: FieldSection,
    pub(super) method: Method,
    /// Whether there are more fields than are decoded for a head.
    pub(super) is_cut: bool,
}

impl Default for ReceivedSection {
    fn default() -> Self {
        Self {
            fields: FieldSection::default(),
            method: Method::Other,
            is_cut: false,
        }
    }
}

impl FieldSink for ReceivedSection {
    fn begin(&mut self) {
        (self.method, self.is_cut) = (Method::Other, false);
        self.fields.begin();
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if name == b":method" {
            self.method = Method::of(value);
        }
        self.fields.field(name, value);
    }

    fn overflow(&mut self) {
        self.is_cut = true;
        self.fields.overflow();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_heads_are_not_kept() {
        let buffers = WorkerBuffers::new();
        let kept = || buffers.heads.borrow().len();
        let mut head = ResponseHead::of(200);
        head.fields.append(b"link", &[b'x'; 64 * 1024]);
        buffers.give_head(head);
        assert_eq!(kept(), 0);
        buffers.give_head(ResponseHead::of(200));
        assert_eq!(kept(), 1);
    }

    /// Otherwise a worker keeps for ever what its busiest moment needed.
    #[test]
    fn buffers_that_no_connection_needs_are_freed() {
        let buffers = WorkerBuffers::new();
        let busy: Vec<_> = (0..10).map(|_| buffers.take()).collect();
        busy.into_iter().for_each(|set| buffers.give(set));
        assert_eq!(buffers.spare(), 10);
        buffers.evict_unused();
        for _ in 0..3 {
            let one = buffers.take();
            buffers.give(one);
        }
        buffers.evict_unused();
        assert_eq!(buffers.spare(), 1);
        buffers.evict_unused();
        assert_eq!(buffers.spare(), 0);
        let heads: Vec<_> = (0..10).map(|_| buffers.take_head()).collect();
        heads.into_iter().for_each(|head| buffers.give_head(head));
        buffers.evict_unused();
        let one = buffers.take_head();
        buffers.give_head(one);
        buffers.evict_unused();
        assert_eq!(buffers.heads.borrow().len(), 1);
    }
}
