//! What all HTTP/2 connections of one worker share, since each needs it for a turn only: buffers for
//! frames, the decoded fields of the section that came last, and memory for the heads of responses.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use lockgate_http::h2::{FieldSection, FieldSink, TurnBuffers};
use lockgate_http::head::{Method, ResponseHead};
use lockgate_net::memory;
use lockgate_net::spare_pool::SparePool;

use super::stream_slot::StreamSlot;

/// The most memory of a head that is kept: few heads need more, and an endpoint that sends large ones
/// must not make us keep it.
const KEPT_HEAD: usize = 8 * 1024;
/// The least memory of what is left of a set that is kept.
const WORTH_KEEPING: usize = 4 * 1024;

/// The buffers of one worker.
#[derive(Debug, Default)]
pub struct WorkerBuffers {
    /// As many as connections are between their turns at once, each with unsent frames of its streams.
    sets: SparePool<TurnBuffers<StreamSlot>>,
    section: RefCell<ReceivedSection>,
    /// As many as responses come between two turns of their streams' tasks.
    heads: SparePool<ResponseHead>,
}

impl WorkerBuffers {
    /// No buffers: they are made on demand.
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Lends a set for a turn. Its memory belongs to the borrower meanwhile.
    pub(super) fn take(&self) -> TurnBuffers<StreamSlot> {
        let set = self.sets.take().unwrap_or_default();
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
        if self.sets.give(set, 1) {
            memory::lend(-bytes.cast_signed());
        }
    }

    /// Keeps only the sets and heads that were used since the last call.
    pub fn evict_unused(&self) {
        self.sets.evict_unused(0);
        self.heads.evict_unused(0);
    }

    /// The number of sets that are not lent.
    #[cfg(test)]
    pub(super) fn spare(&self) -> usize {
        self.sets.count()
    }

    /// A head with memory for its fields; an earlier one may be in it.
    pub(super) fn take_head(&self) -> ResponseHead {
        self.heads.take().unwrap_or_default()
    }

    /// Takes back a head.
    pub(super) fn give_head(&self, head: ResponseHead) {
        if head.fields.memory() <= KEPT_HEAD {
            self.heads.give(head, 0);
        }
    }

    /// Frees all memory that is not lent.
    pub fn shrink(&self) {
        self.sets.shrink(0);
        self.heads.shrink(0);
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
        let kept = || buffers.heads.count();
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
        assert_eq!(buffers.heads.count(), 1);
    }
}
