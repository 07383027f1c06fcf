//! The streams of a connection: slots, found by the keys that users hold and by the IDs in frames.

use std::collections::VecDeque;

use super::windows::{ReceiveWindow, SendWindow};
use crate::head::Method;

/// A stream of one connection. A slot that has another stream by now is not found by an old key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    slot: u32,
    id: u32,
}

impl Key {
    /// The stream's ID in frames.
    pub fn stream(self) -> u32 {
        self.id
    }
}

/// One direction of a stream (RFC 9113 §5.1), as far as its messages matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageState {
    /// The head is to come.
    Head,
    /// Data or trailers may come.
    Body,
    /// Nothing more comes: END_STREAM or RST_STREAM has been there.
    Ended,
}

/// A stream that is open, or ended and not closed by the user yet.
#[derive(Debug)]
pub(super) struct Stream<S> {
    pub(super) id: u32,
    /// Messages of the peer, and ours.
    pub(super) received: MessageState,
    pub(super) sent: MessageState,
    /// Whether one side has reset it.
    pub(super) is_reset: bool,
    /// Whether the user had more data than the window took.
    pub(super) wants_window: bool,
    /// The method of our request; at a server of no meaning.
    pub(super) method: Method,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// Received bytes that the user has not used.
    pub(super) unused: u32,
    /// Those of them for which the connection's window was given back.
    pub(super) kept: u32,
    /// The size of the received head and trailers (RFC 9113 §6.5.2).
    pub(super) head: u32,
    /// Bytes that Content-Length leaves to come, where there is one.
    pub(super) due: Option<u64>,
    /// The user's part; none before the user has given one.
    pub(super) user: Option<S>,
}

impl<S> Stream<S> {
    pub(super) fn is_over(&self) -> bool {
        self.received == MessageState::Ended && self.sent == MessageState::Ended
    }

    /// The bytes of data that the peer may send now, if its message has told its length.
    pub(super) fn awaited_data(&self) -> usize {
        match self.due {
            Some(due) if self.received == MessageState::Body && !self.is_reset => {
                let due = usize::try_from(due).unwrap_or(usize::MAX);
                due.min(self.receive_window.left())
            }
            _ => 0,
        }
    }
}

/// The slots, and an index of them by IDs: a table with open addressing, at most half full.
///
/// IDs of one side are consecutive, so that each has a place of its own for the most part.
#[derive(Debug)]
pub(super) struct Streams<S> {
    slots: Vec<Option<Stream<S>>>,
    free: Vec<u32>,
    /// Slots, from 1 on; 0 is empty. The length is a power of two, or 0.
    index: Vec<u32>,
}

impl<S> Streams<S> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: Vec::new(),
        }
    }

    /// Whether it has no memory.
    pub(super) fn is_unallocated(&self) -> bool {
        self.slots.capacity() == 0
    }

    /// The memory of the slots in bytes.
    pub(super) fn held(&self) -> usize {
        let numbers = self.free.capacity() + self.index.capacity();
        self.slots.capacity() * size_of::<Option<Stream<S>>>() + numbers * size_of::<u32>()
    }

    /// The number of streams.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The number of those that are not over.
    pub(super) fn open(&self) -> usize {
        self.iter().filter(|(_, stream)| !stream.is_over()).count()
    }

    pub(super) fn get(&self, key: Key) -> Option<&Stream<S>> {
        let stream = self.slots.get(key.slot as usize)?.as_ref()?;
        Some(stream).filter(|stream| stream.id == key.id)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Stream<S>> {
        let stream = self.slots.get_mut(key.slot as usize)?.as_mut()?;
        Some(stream).filter(|stream| stream.id == key.id)
    }

    /// The key of an ID; `None` for a stream that is closed or was never open.
    pub(super) fn find(&self, id: u32) -> Option<Key> {
        let at = self.place(id)?;
        let slot = self.index[at] - 1;
        Some(Key { slot, id })
    }

    /// Adds a stream with a new ID.
    pub(super) fn insert(&mut self, stream: Stream<S>) -> Key {
        let id = stream.id;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(stream);
                slot
            }
            None => {
                self.slots.push(Some(stream));
                self.slots.len() as u32 - 1
            }
        };
        if self.len() * 2 > self.index.len() {
            self.grow();
        } else {
            self.enter(slot, id);
        }
        Key { slot, id }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Stream<S>> {
        self.get(key)?;
        self.leave(key);
        self.free.push(key.slot);
        self.slots[key.slot as usize].take()
    }

    /// All streams, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Stream<S>)> {
        (0..).zip(&self.slots).filter_map(|(slot, stream)| {
            let stream = stream.as_ref()?;
            let id = stream.id;
            Some((Key { slot, id }, stream))
        })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Stream<S>)> {
        (0..).zip(&mut self.slots).filter_map(|(slot, stream)| {
            let stream = stream.as_mut()?;
            let id = stream.id;
            Some((Key { slot, id }, stream))
        })
    }

    fn mask(&self) -> usize {
        self.index.len().wrapping_sub(1)
    }

    /// The first place of the index for an ID.
    fn home(&self, id: u32) -> usize {
        (id as usize >> 1) & self.mask()
    }

    /// The place of an ID in the index.
    fn place(&self, id: u32) -> Option<usize> {
        if self.index.is_empty() {
            return None;
        }
        let mut at = self.home(id);
        loop {
            let slot = self.index[at].checked_sub(1)?;
            if self.id(slot) == id {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// The ID of a slot of the index.
    fn id(&self, slot: u32) -> u32 {
        self.slots[slot as usize]
            .as_ref()
            .map_or(0, |stream| stream.id)
    }

    fn enter(&mut self, slot: u32, id: u32) {
        let mut at = self.home(id);
        while self.index[at] != 0 {
            at = (at + 1) & self.mask();
        }
        self.index[at] = slot + 1;
    }

    /// Takes a stream out of the index, and moves those behind it to where a search finds them.
    fn leave(&mut self, key: Key) {
        let mask = self.mask();
        let mut hole = self.home(key.id);
        while self.index[hole] != key.slot + 1 {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(slot) = self.index[at].checked_sub(1) else {
                break;
            };
            let home = self.home(self.id(slot));
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = slot + 1;
                hole = at;
            }
        }
        self.index[hole] = 0;
    }

    fn grow(&mut self) {
        let length = (self.len() * 4).next_power_of_two();
        self.index.clear();
        self.index.resize(length, 0);
        for slot in 0..self.slots.len() as u32 {
            let id = self.slots[slot as usize].as_ref().map(|stream| stream.id);
            if let Some(id) = id {
                self.enter(slot, id);
            }
        }
    }
}

/// IDs of one side's streams, as ranges: the latest ones.
#[derive(Debug)]
pub(super) struct IdRanges {
    /// The first and last ID of each range; the latest range last.
    ranges: VecDeque<(u32, u32)>,
    most: usize,
}

impl IdRanges {
    /// Remembers so many ranges.
    pub(super) fn new(most: usize) -> Self {
        Self {
            ranges: VecDeque::new(),
            most,
        }
    }

    /// Its memory in bytes, for tests of its bounds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.ranges.capacity() * size_of::<(u32, u32)>()
    }

    /// Adds the IDs from `first` to `last`; both are odd, or both even.
    pub(super) fn insert(&mut self, first: u32, last: u32) {
        // Streams that are refused follow one another.
        if let Some((_, end)) = self.ranges.back_mut()
            && first == end.saturating_add(2)
        {
            *end = last;
            return;
        }
        if self.contains(first) && self.contains(last) {
            return;
        }
        if self.ranges.len() == self.most {
            self.ranges.pop_front();
        }
        self.ranges.push_back((first, last));
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.ranges
            .iter()
            .rev()
            .any(|(first, last)| (*first..=*last).contains(&id) && id % 2 == first % 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u32) -> Stream<u32> {
        Stream {
            id,
            received: MessageState::Body,
            sent: MessageState::Head,
            is_reset: false,
            wants_window: false,
            method: Method::Other,
            send_window: SendWindow::new(1),
            receive_window: ReceiveWindow::new(1),
            unused: 0,
            kept: 0,
            head: 0,
            due: None,
            user: Some(id),
        }
    }

    #[test]
    fn an_old_key_does_not_find_the_next_stream_of_its_slot() {
        let mut streams = Streams::new();
        let first = streams.insert(stream(1));
        assert_eq!(
            streams.remove(first).map(|stream| stream.user),
            Some(Some(1))
        );
        let second = streams.insert(stream(3));
        assert_eq!((first.slot, first.stream()), (second.slot, 1));
        assert!(streams.get(first).is_none() && streams.remove(first).is_none());
        assert_eq!(
            streams.get_mut(second).and_then(|stream| stream.user),
            Some(3)
        );
        assert_eq!((streams.len(), streams.find(1)), (1, None));
    }

    #[test]
    fn streams_are_found_by_id_whatever_came_and_went() {
        let (mut streams, mut open) = (Streams::new(), Vec::new());
        let (mut next, mut state) = (1, 1_u32);
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if open.len() < 50 && state >> 30 > 0 || open.is_empty() {
                let key = streams.insert(stream(next));
                open.push(key);
                // IDs with gaps, which collide in the index.
                next += 2 * (1 + (state >> 8) % 40);
            } else {
                let key = open.swap_remove((state >> 8) as usize % open.len());
                assert_eq!(streams.remove(key).map(|stream| stream.id), Some(key.id));
                assert_eq!(streams.find(key.id), None);
            }
            assert_eq!(streams.len(), open.len());
            for key in &open {
                assert_eq!(streams.find(key.id), Some(*key));
            }
        }
        assert_eq!(streams.iter().count(), open.len());
        assert!(streams.slots.len() <= 50 && streams.index.len() <= 256);
    }

    #[test]
    fn reset_streams_are_remembered_in_bounded_memory() {
        let mut reset = IdRanges::new(100);
        // A thousand refused ones are one range.
        for id in (1..2_001).step_by(2) {
            reset.insert(id, id);
        }
        assert_eq!(reset.ranges.len(), 1);
        assert!(reset.contains(1) && reset.contains(1_999));
        assert!(!reset.contains(2) && !reset.contains(2_001));
        for id in (3_001..10_000).step_by(10) {
            reset.insert(id, id);
            reset.insert(id, id);
        }
        assert_eq!(reset.ranges.len(), 100);
        assert!(reset.contains(9_991) && !reset.contains(1));
    }
}
