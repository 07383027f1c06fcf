//! Acknowledgement of a peer's data: at once, if the peer may hold back the rest of a message until
//! then.
//!
//! A peer that writes a message in pieces with Nagle's algorithm on (RFC 896) sends the first piece
//! and waits for its acknowledgement with the rest. The kernel delays that by 40 ms, in the hope of
//! data to send it with (RFC 1122 §4.2.3.2), unless TCP_QUICKACK says otherwise, which holds until
//! something is sent. Readers of messages know when they wait for the rest of one:
//! [`Socket::await_rest`]. For readers of mere bytes there are [`EndpointStalls`] and
//! [`ReadPauses`], and for relays early acknowledgements.

use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Context;
use std::time::{Duration, Instant};

use crate::nanos::Nanos;
use crate::socket::{ACKS_PER_MESSAGE, Socket};
use crate::traffic_shaping::{QueuedWait, ShapingQueue};

/// A pause of about 40 ms, as long as Linux delays an acknowledgement, is probably caused by that.
const STALL: std::ops::Range<Duration> = Duration::from_millis(36)..Duration::from_millis(60);
/// The number of an endpoint's stalls after which its data is acknowledged at once.
const STALLS: u8 = 8;
/// The number of reads for which a pause of one connection counts: some are the application's own.
const REMEMBERED: u8 = u8::MAX;
/// The number of messages of one connection that are acknowledged early, to see whether their rest
/// comes then.
const EARLY: u8 = 8;
/// The longest time until it comes then: a round trip.
const SOON: Nanos = Nanos::from_millis(250);
/// The sending behaviour of an endpoint on all its connections: whether it pauses as if it waited
/// for acknowledgements. A few pauses are needed, since one may be the application's own.
#[derive(Debug, Default)]
pub struct EndpointStalls {
    count: AtomicU8,
}

impl EndpointStalls {
    fn is_stalling(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= STALLS
    }

    pub(crate) fn note(&self) {
        let seen = self.count.load(Ordering::Relaxed);
        self.count.store(seen.saturating_add(1), Ordering::Relaxed);
    }
}

/// The pauses of one connection's peer.
#[derive(Debug, Default)]
pub struct ReadPauses {
    /// The time of the last read.
    last: Option<Instant>,
    /// The remaining reads that are acknowledged at once.
    left: u8,
}

impl ReadPauses {
    /// Notes a read that emptied the socket, and acknowledges it at once if the peer waits for
    /// that: by `stalls`, if its other connections have some, or by a pause of this one.
    pub fn note(&mut self, socket: &Socket, stalls: Option<&EndpointStalls>) {
        if self.is_known(stalls) {
            socket.acknowledge_now();
        } else {
            self.note_at(Instant::now(), socket.reads_again(), stalls);
        }
    }

    fn is_known(&mut self, stalls: Option<&EndpointStalls>) -> bool {
        if stalls.is_some_and(EndpointStalls::is_stalling) {
            return true;
        }
        let known = self.left > 0;
        self.left = self.left.saturating_sub(1);
        known
    }

    /// A pause before which we sent something is the peer's own, not that of an acknowledgement.
    fn note_at(&mut self, now: Instant, again: bool, stalls: Option<&EndpointStalls>) {
        let last = self.last.replace(now);
        if last.is_some_and(|last| again && STALL.contains(&now.duration_since(last))) {
            match stalls {
                Some(stalls) => stalls.note(),
                None => self.remember(),
            }
        }
    }

    /// Acknowledges the next reads at once.
    fn remember(&mut self) {
        (self.last, self.left) = (None, REMEMBERED);
    }

    /// Forgets the last read: the next pause is ours.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

/// Acknowledges the data of a relay's client earlier than the kernel, to find out whether the
/// client waits for it, without a stall of 40 ms first. It does so for the first messages without a
/// response within a millisecond or two. If more data follows soon, the client has waited for the
/// acknowledgement.
#[derive(Debug)]
pub(crate) struct EarlyAck {
    left: u8,
    due: Option<QueuedWait>,
    acknowledged: Option<Nanos>,
}

impl Default for EarlyAck {
    fn default() -> Self {
        Self {
            left: EARLY,
            due: None,
            acknowledged: None,
        }
    }
}

impl EarlyAck {
    /// Polls while the socket has no data.
    pub(crate) fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Socket,
        queue: &ShapingQueue,
    ) {
        if !socket.owes_acknowledgement() {
            return;
        }
        match self.due {
            Some(wait) if !queue.is_due(wait) => queue.set_waker(wait, cx.waker()),
            Some(_) => {
                socket.acknowledge_now();
                (self.due, self.acknowledged) = (None, Some(queue.now()));
            }
            None if self.left > 0 => {
                self.left -= 1;
                self.due = Some(queue.wait_soon(cx.waker()));
            }
            None => {}
        }
    }

    /// Notes a read, before `pauses` does.
    pub(crate) fn note(&mut self, socket: &Socket, queue: &ShapingQueue, pauses: &mut ReadPauses) {
        // The wait was for the last message, or for the data so far.
        self.due = None;
        let acknowledged = self.acknowledged.take();
        if !socket.reads_again() {
            return;
        }
        let soon = acknowledged.is_some_and(|since| queue.now() < since + SOON);
        // Or the client is known to wait, and its messages still come in pieces: a bulk stream
        // without a response does not count.
        let again = pauses.left > 0 && (1..=ACKS_PER_MESSAGE).contains(&socket.acknowledged());
        if soon || again {
            pauses.remember();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused(
        pauses: &mut ReadPauses,
        milliseconds: &[u64],
        again: bool,
        stalls: Option<&EndpointStalls>,
    ) {
        let mut now = Instant::now();
        pauses.note_at(now, again, stalls);
        for pause in milliseconds {
            now += Duration::from_millis(*pause);
            pauses.note_at(now, again, stalls);
        }
    }

    #[test]
    fn a_stalling_endpoint_is_known_by_pauses_like_delayed_acknowledgements() {
        let is_stalling = |milliseconds: &[u64], again: bool| {
            let stalls = EndpointStalls::default();
            paused(
                &mut ReadPauses::default(),
                milliseconds,
                again,
                Some(&stalls),
            );
            stalls.is_stalling()
        };
        assert!(is_stalling(&[40; 8], true));
        assert!(is_stalling(&[44; 300], true), "the count stays at its end");
        assert!(!is_stalling(&[40; 7], true), "not often enough");
        assert!(
            !is_stalling(&[40; 8], false),
            "something was sent in between"
        );
        assert!(
            !is_stalling(&[10, 100, 30, 61, 1, 200, 35, 80, 5], true),
            "of other lengths"
        );
    }

    #[test]
    fn a_stall_of_one_connection_is_remembered_for_a_while() {
        let mut pauses = ReadPauses::default();
        paused(&mut pauses, &[10, 30], true, None);
        assert!(!pauses.is_known(None));
        paused(&mut pauses, &[40], true, None);
        for _ in 0..REMEMBERED {
            assert!(pauses.is_known(None));
        }
        assert!(!pauses.is_known(None));
    }

    #[test]
    fn our_own_pause_is_no_stall() {
        let (mut pauses, now) = (ReadPauses::default(), Instant::now());
        pauses.note_at(now, true, None);
        pauses.forget();
        pauses.note_at(now + Duration::from_millis(40), true, None);
        assert!(!pauses.is_known(None));
    }
}
