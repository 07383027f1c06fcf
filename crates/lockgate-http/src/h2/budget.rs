//! Limits of what a peer may cost beside its messages: without a clock, so that the user says when
//! there is more.
//!
//! Each flood was cheap to send and expensive to answer: PING, SETTINGS, PRIORITY and empty DATA
//! (CVE-2019-9512, -9515, -9513, -9518), requests that are reset at once (CVE-2023-44487), or that
//! we are made to reset (CVE-2025-8671).

use super::ConnectionError;

/// Bytes of data that we send for one more WINDOW_UPDATE or PING: peers update both windows, of
/// stream and connection, and some (grpc-go) measure the round trip with every small response.
const BYTES_A_FRAME: u64 = 8;
/// The most of these that are saved up.
const SAVED: u64 = 65_536;
/// Streams that may be refused before the peer has seen SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113
/// §5.1.2): a client that opens a thousand at once is not to blame.
const UNSEEN: u32 = 1_024;

/// How many frames of a kind a peer may send, until it gets [more](super::Connection::refill).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Resets of streams: those that it sends, and those that it makes us send.
    pub resets: u32,
    /// Frames that carry nothing for a message, or hardly anything: PING, SETTINGS, PRIORITY,
    /// PRIORITY_UPDATE, unknown ones, DATA that is empty or mostly padding and CONTINUATION below 1 KB
    /// where they end nothing, RST_STREAM behind a whole response, HEADERS and RST_STREAM of closed
    /// streams, and DATA of streams that we have reset beyond what their windows had left.
    pub control: u32,
    /// WINDOW_UPDATE frames that the data we sent does not account for.
    pub updates: u32,
}

impl Budget {
    /// For a peer that is trusted.
    pub const UNLIMITED: Self = Self {
        resets: u32::MAX,
        control: u32::MAX,
        updates: u32::MAX,
    };
}

/// What is left of a budget.
#[derive(Debug)]
pub(super) struct PeerBudget {
    full: Budget,
    left: Budget,
    /// Bytes of data that account for frames of the peer.
    explained: u64,
    /// Streams that may be refused without being counted.
    unseen: u32,
    /// Bytes of DATA frames that may be on their way to streams that we have reset.
    late: u32,
}

impl PeerBudget {
    pub(super) fn new(full: Budget) -> Self {
        Self {
            full,
            left: full,
            explained: 0,
            unseen: UNSEEN,
            late: 0,
        }
    }

    /// Adds to the budget, up to what it was at the beginning.
    pub(super) fn refill(&mut self, by: Budget) {
        let Self { full, left, .. } = self;
        left.resets = left.resets.saturating_add(by.resets).min(full.resets);
        left.control = left.control.saturating_add(by.control).min(full.control);
        left.updates = left.updates.saturating_add(by.updates).min(full.updates);
    }

    /// Counts data that we send.
    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.explained = (self.explained + bytes as u64).min(SAVED * BYTES_A_FRAME);
    }

    pub(super) fn reset(&mut self) -> Result<(), ConnectionError> {
        take(&mut self.left.resets, ConnectionError::Resets)
    }

    pub(super) fn control(&mut self) -> Result<(), ConnectionError> {
        take(&mut self.left.control, ConnectionError::Control)
    }

    /// Notes that we have reset a stream for which the peer may have sent this much (RFC 9113 §5.1).
    pub(super) fn note_reset(&mut self, window: usize) {
        self.late = self.late.saturating_add(window as u32);
    }

    /// Counts a DATA frame of this size, with its header, of a stream that we have reset.
    pub(super) fn late_data(&mut self, size: usize) -> Result<(), ConnectionError> {
        match self.late.checked_sub(size as u32) {
            Some(left) => {
                self.late = left;
                Ok(())
            }
            None => self.control(),
        }
    }

    pub(super) fn update(&mut self) -> Result<(), ConnectionError> {
        if self.is_explained() {
            return Ok(());
        }
        take(&mut self.left.updates, ConnectionError::Updates)
    }

    pub(super) fn ping(&mut self) -> Result<(), ConnectionError> {
        if self.is_explained() {
            return Ok(());
        }
        self.control()
    }

    /// Counts a stream that is refused; `is_seen` is whether the peer has acknowledged our SETTINGS.
    pub(super) fn refusal(&mut self, is_seen: bool) -> Result<(), ConnectionError> {
        match self.unseen.checked_sub(1).filter(|_| !is_seen) {
            Some(left) => {
                self.unseen = left;
                Ok(())
            }
            None => self.reset(),
        }
    }

    fn is_explained(&mut self) -> bool {
        let left = self.explained.checked_sub(BYTES_A_FRAME);
        self.explained = left.unwrap_or(self.explained);
        left.is_some()
    }
}

fn take(left: &mut u32, error: ConnectionError) -> Result<(), ConnectionError> {
    // A budget without limits is not refilled.
    if *left != u32::MAX {
        *left = left.checked_sub(1).ok_or(error)?;
    }
    Ok(())
}
