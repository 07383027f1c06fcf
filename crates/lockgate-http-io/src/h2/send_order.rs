//! The order of bodies that are sent on one connection, by priority (RFC 9218): that of responses is
//! the client's, that of uploads to an endpoint is one for all.
//!
//! What is written into the connection's buffer cannot be reordered, so no more than one write's worth
//! is taken at a time. When that has left, the streams of the highest urgency continue first. Of one
//! urgency, streams that are not incremental go one after the other, the others share (RFC 9218 §10).

use lockgate_http::h2::Key;
use lockgate_http::priority::Priority;

/// The most bytes of data before the next write.
const ROOM: usize = 64 * 1024;
/// The same while streams of several urgencies wait: a new urgent stream waits behind these bytes.
const CONTENDED: usize = 16 * 1024;
/// The most streams that have a turn at once. One stream may use up the room, and the others would be
/// woken in vain.
const AT_ONCE: usize = 4;
/// The most kept priorities of requests that were not received yet, or of responses that have not
/// begun.
const UPDATES: usize = 128;

/// The position of a stream among those that wait; the lowest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    urgency: u8,
    /// Incremental streams wait until the others have ended.
    incremental: bool,
    order: u64,
}

/// A stream that has data to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitingStream {
    pub(super) key: Key,
    /// Whether the peer's window of the connection is what it waits for.
    pub(super) for_window: bool,
}

/// The order of bodies that are sent on one connection.
#[derive(Debug)]
pub(super) struct SendOrder {
    room: usize,
    /// Sends of all streams so far.
    sends: u64,
    /// Writes that took all data that there was.
    writes: u64,
    /// The streams that wait, each at most once.
    waiting: Vec<WaitingStream>,
    /// The streams that wait for their last data to leave.
    leaving: Vec<Key>,
    updates: Vec<(u32, Priority)>,
}

impl SendOrder {
    pub(super) fn new() -> Self {
        Self {
            room: ROOM,
            sends: 0,
            writes: 0,
            waiting: Vec::new(),
            leaving: Vec::new(),
            updates: Vec::new(),
        }
    }

    /// The bytes of data that may still be taken before the next write.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Writes so far that took all data.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Notes that `count` bytes were taken; the number of this send.
    pub(super) fn send(&mut self, count: usize) -> u64 {
        self.room = self.room.saturating_sub(count);
        self.sends += 1;
        self.sends
    }

    /// Adds a stream to those that wait.
    pub(super) fn wait(&mut self, stream: WaitingStream) {
        self.waiting.push(stream);
    }

    /// Changes what a stream waits for that is listed already.
    pub(super) fn wait_again(&mut self, stream: WaitingStream) {
        match self
            .waiting
            .iter_mut()
            .find(|waiting| waiting.key == stream.key)
        {
            Some(waiting) => *waiting = stream,
            None => self.waiting.push(stream),
        }
    }

    /// Adds a stream to those that wait for their data to leave.
    pub(super) fn leave(&mut self, key: Key) {
        self.leaving.push(key);
    }

    /// Notes that all data has left: the streams that waited for that.
    pub(super) fn note_write(&mut self) -> Vec<Key> {
        self.writes += 1;
        self.room = ROOM;
        std::mem::take(&mut self.leaving)
    }

    /// Begins the next turn: the streams that go on, the first of them first, and not more than can
    /// make use of it. Those without a rank are closed; those that wait for the connection's window stay
    /// unless it `is_open`.
    pub(super) fn next_turn(
        &mut self,
        is_open: bool,
        mut rank: impl FnMut(Key) -> Option<(Priority, u64)>,
    ) -> Vec<(Rank, WaitingStream)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let mut next = Vec::with_capacity(self.waiting.len());
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|stream| {
            if stream.for_window && !is_open {
                return true;
            }
            if let Some((own, last_send)) = rank(stream.key) {
                next.push((self.rank(stream.key.stream(), own, last_send), *stream));
            }
            false
        });
        next.sort_by_key(|(rank, _)| *rank);
        let ends = next.first().zip(next.last());
        if ends.is_some_and(|((first, _), (last, _))| first.urgency != last.urgency) {
            self.room = CONTENDED;
        }
        let later = next.drain(AT_ONCE.min(next.len())..);
        waiting.extend(later.map(|(_, stream)| stream));
        self.waiting = waiting;
        next
    }

    /// Whether streams wait that another turn would have go on.
    pub(super) fn has_more(&self, is_open: bool) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|stream| is_open || !stream.for_window)
    }

    fn rank(&self, stream: u32, own: Priority, last_send: u64) -> Rank {
        let Priority {
            urgency,
            incremental,
        } = self.update_of(stream).unwrap_or(own);
        Rank {
            urgency,
            incremental,
            order: if incremental {
                last_send
            } else {
                stream.into()
            },
        }
    }

    /// Notes a priority that a client has sent (RFC 9218 §7.1).
    pub(super) fn update(&mut self, stream: u32, priority: Priority) {
        if let Some((_, known)) = self.updates.iter_mut().find(|(known, _)| *known == stream) {
            *known = priority;
            return;
        }
        // The oldest may be of a stream that had ended before, for which `forget` never comes.
        if self.updates.len() == UPDATES {
            self.updates.remove(0);
        }
        self.updates.push((stream, priority));
    }

    /// The priority that a client has sent for a stream outside its request.
    fn update_of(&self, stream: u32) -> Option<Priority> {
        let updates = self.updates.iter();
        let mut updates = updates.filter(|(known, _)| *known == stream);
        updates.next().map(|&(_, priority)| priority)
    }

    /// Notes the end of a stream; `is_listed` if it waits.
    pub(super) fn forget(&mut self, key: Key, is_listed: bool) {
        self.updates.retain(|(known, _)| *known != key.stream());
        if is_listed {
            self.waiting.retain(|waiting| waiting.key != key);
        }
    }

    /// Gives back memory that an idle connection needs not.
    pub(super) fn shrink(&mut self) {
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use lockgate_http::h2::{Budget, Connection, LocalSettings, Role};
    use lockgate_http::head::Method;

    use super::*;

    /// Keys of streams 1, 3, 5…
    fn keys(count: u32) -> Vec<Key> {
        let settings = LocalSettings {
            streams: 0,
            window: 65_535,
            connection_window: 65_535,
            head_list: 1_024,
            connect_protocol: false,
        };
        let mut connection = Connection::new(Role::Client, settings, Budget::UNLIMITED);
        (0..count)
            .filter_map(|_| connection.open(Method::Get, (), true, |_| {}))
            .collect()
    }

    fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority {
            urgency,
            incremental,
        }
    }

    /// The order in which streams get their turns that have sent in this order and have these
    /// priorities, after the given updates.
    fn order(streams: &[(u32, u8, bool)], updates: &[(u32, Priority)]) -> Vec<u32> {
        let mut order = SendOrder::new();
        for (stream, priority) in updates {
            order.update(*stream, *priority);
        }
        let keys = keys(8);
        let key_of = |stream: u32| *keys.iter().find(|key| key.stream() == stream).unwrap();
        let mut known = Vec::new();
        for &(stream, urgency, incremental) in streams {
            let last_send = order.send(ROOM);
            let key = key_of(stream);
            known.push((key, (priority(urgency, incremental), last_send)));
            order.wait(WaitingStream {
                key,
                for_window: false,
            });
        }
        assert_eq!(order.room(), 0);
        order.note_write();
        let rank = |key| {
            known
                .iter()
                .find(|(known, _)| *known == key)
                .map(|(_, at)| *at)
        };
        let next = order.next_turn(true, rank);
        assert!(!order.has_more(true));
        assert!(order.next_turn(true, rank).is_empty(), "each has one turn");
        let next = next.iter();
        next.map(|(_, stream)| stream.key.stream()).collect()
    }

    /// RFC 9218 §4.1, §10
    #[test]
    fn h2_responses_go_by_urgency_then_by_stream_id() {
        assert_eq!(
            order(&[(1, 5, false), (3, 0, false), (5, 3, false)], &[]),
            [3, 5, 1]
        );
        assert_eq!(
            order(&[(5, 3, false), (1, 3, false), (3, 3, false)], &[]),
            [1, 3, 5]
        );
    }

    /// RFC 9218 §4.2
    #[test]
    fn incremental_h2_responses_share_the_connection() {
        assert_eq!(
            order(&[(5, 3, true), (1, 3, true), (3, 3, true)], &[]),
            [5, 1, 3]
        );
        assert_eq!(order(&[(1, 3, true), (3, 3, false)], &[]), [3, 1]);
    }

    /// RFC 9218 §7.1
    #[test]
    fn a_client_may_change_a_stream_priority() {
        assert_eq!(
            order(&[(1, 3, false), (3, 5, false)], &[(3, priority(1, false))]),
            [3, 1]
        );
    }

    /// A new urgent stream is not to wait behind a whole write.
    #[test]
    fn streams_of_several_urgencies_write_less_at_a_time() {
        for (urgency, room) in [(3, ROOM), (5, CONTENDED)] {
            let (mut order, keys) = (SendOrder::new(), keys(2));
            for key in &keys {
                order.wait(WaitingStream {
                    key: *key,
                    for_window: false,
                });
            }
            order.note_write();
            let first = keys[0];
            order.next_turn(true, |key| {
                Some((priority(if key == first { 3 } else { urgency }, true), 0))
            });
            assert_eq!(order.room(), room, "{urgency}");
            order.note_write();
            assert_eq!(order.room(), ROOM);
        }
    }

    /// Otherwise each frame of the peer would wake all streams of a connection that may send
    /// nothing.
    #[test]
    fn streams_that_wait_for_the_window_of_the_connection_stay_until_it_opens() {
        let (mut order, keys) = (SendOrder::new(), keys(1));
        let stream = WaitingStream {
            key: keys[0],
            for_window: false,
        };
        order.wait(stream);
        order.wait_again(WaitingStream {
            for_window: true,
            ..stream
        });
        let rank = |_| Some((Priority::default(), 0));
        assert!(order.next_turn(false, rank).is_empty());
        assert_eq!(order.next_turn(true, rank).len(), 1);
        assert!(order.next_turn(true, rank).is_empty());
    }

    /// Otherwise each write would wake a hundred streams for the turn of one.
    #[test]
    fn few_of_many_waiting_streams_are_woken_at_once() {
        let (mut order, keys) = (SendOrder::new(), keys(10));
        for key in &keys {
            order.wait(WaitingStream {
                key: *key,
                for_window: false,
            });
        }
        let rank = |_| Some((Priority::default(), 0));
        let mut woken = Vec::new();
        for count in [4, 4, 2, 0] {
            let next = order.next_turn(true, rank);
            assert_eq!(next.len(), count);
            woken.extend(next.into_iter().map(|(_, stream)| stream.key));
            assert_eq!(order.has_more(false), woken.len() < keys.len());
        }
        assert_eq!(woken, keys);
    }

    /// Otherwise updates that came too late for their streams would be all that is ever kept.
    #[test]
    fn of_many_priority_changes_the_last_are_kept() {
        let (mut order, sooner) = (SendOrder::new(), priority(1, false));
        for at in 0..1_000 {
            order.update(2 * at + 1, sooner);
        }
        assert_eq!(
            (order.update_of(1), order.update_of(1_999)),
            (None, Some(sooner))
        );
        assert_eq!(order.updates.len(), UPDATES);
    }

    #[test]
    fn a_finished_stream_is_not_scheduled() {
        let (mut order, keys) = (SendOrder::new(), keys(2));
        for key in &keys {
            order.wait(WaitingStream {
                key: *key,
                for_window: false,
            });
        }
        order.forget(keys[0], true);
        // One without a rank is closed.
        assert!(order.next_turn(true, |_| None).is_empty());
        assert!(order.waiting.is_empty());
    }
}
