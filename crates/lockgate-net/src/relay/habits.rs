//! What an endpoint has shown of how it sends, and how that is seen.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::socket::Socket;

/// A pause inside an answer as long as Linux delays an acknowledgement, 40 ms, is probably that.
const STALL: std::ops::Range<Duration> = Duration::from_millis(36)..Duration::from_millis(60);
/// Stalls of an endpoint after which its data is acknowledged at once.
pub(super) const STALLS: u8 = 8;

/// How an endpoint sends, as far as it was seen; shared by all its connections.
///
/// An origin that writes an answer in pieces with Nagle's algorithm on (RFC 896) waits for our acknowledgement of
/// the first piece, which the kernel delays by 40 ms in the hope of data to send it with (RFC 1122 §4.2.3.2). Once
/// that was seen a few times, its data is acknowledged at once; for other origins that would only cost packets.
#[derive(Debug, Default)]
pub struct Habits {
    stalls: AtomicU8,
}

impl Habits {
    pub(super) fn stalls(&self) -> bool {
        self.stalls.load(Ordering::Relaxed) >= STALLS
    }

    pub(super) fn stalled(&self) {
        let seen = self.stalls.load(Ordering::Relaxed);
        self.stalls.store(seen.saturating_add(1), Ordering::Relaxed);
    }
}

/// The last read from one endpoint's connection: when it was, and what the endpoint had been sent by then.
#[derive(Debug, Default)]
pub(super) struct LastRead(Option<(Instant, u64)>);

impl LastRead {
    /// Notes a read that took all there was from an endpoint that has been sent `asked` bytes so far.
    pub(super) fn note(&mut self, socket: &Socket, habits: &Habits, asked: u64) {
        if habits.stalls() {
            socket.acknowledge_now();
            return;
        }
        let now = Instant::now();
        // A pause after which the endpoint had been sent something new is its own, not that of an acknowledgement.
        if let Some((last, asked_then)) = self.0.replace((now, asked))
            && asked_then == asked
            && STALL.contains(&now.duration_since(last))
        {
            habits.stalled();
        }
    }
}
