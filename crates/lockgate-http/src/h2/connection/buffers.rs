//! Buffers that a connection needs only within a turn, so that an idle one holds none.

use std::collections::VecDeque;
use std::mem;

use super::super::Event;
use super::super::coded_date::CodedDate;
use super::super::streams::Streams;
use super::Connection;

/// Buffers for the turn of one connection: for bytes to send, events, decoded strings, slots, and the
/// Date as it was coded last. One set serves all connections of a thread, and grows to what the
/// busiest of them needs.
#[derive(Debug)]
pub struct TurnBuffers<S> {
    out: Vec<u8>,
    events: VecDeque<Event>,
    strings: [Vec<u8>; 2],
    streams: Streams<S>,
    date: Option<Box<CodedDate>>,
}

impl<S> Default for TurnBuffers<S> {
    fn default() -> Self {
        Self {
            out: Vec::new(),
            events: VecDeque::new(),
            strings: Default::default(),
            streams: Streams::new(),
            date: None,
        }
    }
}

/// Less than this part of a buffer with unsent bytes is moved, so that the buffer can be given back.
const MOVED_PART: usize = 2;
/// Buffers above this size are not kept for the next turn.
const LARGEST_KEPT: usize = 256 * 1024;

impl<S> TurnBuffers<S> {
    /// The bytes of memory that they take, but for what is always small.
    pub fn memory(&self) -> usize {
        let strings = self.strings.iter().map(Vec::capacity);
        self.out.capacity() + strings.sum::<usize>() + self.streams.held()
    }
}

impl<S> Connection<S> {
    /// Takes the buffers for a turn: before bytes are received, or anything is said. A connection that
    /// has none allocates its own, and [gives them back](Self::give_back) as well.
    pub fn lend(&mut self, buffers: &mut TurnBuffers<S>) {
        let unsent = self.unsent().len();
        if unsent < buffers.out.capacity() / MOVED_PART {
            // A few bytes are copied, so that what is written behind them has room.
            buffers.out.clear();
            buffers.out.extend_from_slice(&self.out[self.sent..]);
            mem::swap(&mut self.out, &mut buffers.out);
            self.sent = 0;
        }
        if self.events.is_empty() {
            mem::swap(&mut self.events, &mut buffers.events);
        }
        if self.streams.len() == 0 {
            mem::swap(&mut self.streams, &mut buffers.streams);
        }
        self.decoder.swap_buffers(&mut buffers.strings);
        mem::swap(&mut self.date, &mut buffers.date);
    }

    /// Gives the buffers back at the end of a turn. What is still to be sent stays, and so do events
    /// that were not taken, and the slots while one is in use.
    pub fn give_back(&mut self, buffers: &mut TurnBuffers<S>) {
        let unsent = self.unsent();
        if unsent.len() < self.out.capacity() / MOVED_PART {
            let rest = unsent.to_vec();
            let out = mem::replace(&mut self.out, rest);
            self.sent = 0;
            keep(&mut buffers.out, out);
        }
        if self.events.is_empty() {
            let events = mem::take(&mut self.events);
            if events.capacity() >= buffers.events.capacity() {
                buffers.events = events;
            }
        }
        if self.streams.len() == 0 {
            let streams = mem::replace(&mut self.streams, Streams::new());
            if buffers.streams.is_unallocated() {
                buffers.streams = streams;
            }
        }
        if self.date.is_some() {
            buffers.date = self.date.take();
        }
        let mut strings = Default::default();
        self.decoder.swap_buffers(&mut strings);
        for (kept, string) in buffers.strings.iter_mut().zip(strings) {
            keep(kept, string);
        }
    }
}

/// Keeps the larger one of two buffers, empty.
fn keep(kept: &mut Vec<u8>, mut other: Vec<u8>) {
    if (kept.capacity() + 1..=LARGEST_KEPT).contains(&other.capacity()) {
        other.clear();
        *kept = other;
    }
}
