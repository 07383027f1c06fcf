//! What of a request's body was sent already, for another attempt.

use lockgate_net::memory::{self, MemoryLevel};

/// Bytes that are kept of the body of an idempotent request.
const IDEMPOTENT: usize = 64 * 1024;
/// Bytes that are kept of another body: as many as may still be in our own buffers. It is sent
/// again only if nothing has left.
const UNSENT: usize = 20 * 1024;
/// Bytes of either while memory is scarce.
const LEAN: usize = 4 * 1024;

/// The beginning of a body.
#[derive(Debug)]
pub(super) struct Replay {
    data: Vec<u8>,
    limit: usize,
    /// Whether nothing of what was taken is missing.
    whole: bool,
    /// The offset of the next byte that this attempt sends.
    at: usize,
}

impl Replay {
    pub(super) fn new(idempotent: bool) -> Self {
        let limit = if idempotent { IDEMPOTENT } else { UNSENT };
        Self {
            data: Vec::new(),
            limit,
            whole: true,
            at: 0,
        }
    }

    /// Sees data that was taken from the client.
    pub(super) fn keep(&mut self, data: &[u8]) {
        let limit = if memory::level() == MemoryLevel::Easy {
            self.limit
        } else {
            LEAN
        };
        self.whole &= self.data.len() + data.len() <= limit;
        if self.whole {
            self.data.extend_from_slice(data);
            self.at = self.data.len();
        } else {
            self.data = Vec::new();
            self.at = 0;
        }
    }

    /// The bytes that are to be sent before new ones.
    pub(super) fn again(&self) -> Option<&[u8]> {
        self.data.get(self.at..).filter(|data| !data.is_empty())
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.at += count;
    }

    /// Whether all that was taken can be sent again.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// There will be no other attempt: this one still sends the rest of the kept bytes, and no more
    /// are kept.
    pub(super) fn settle(&mut self) {
        self.whole = false;
    }

    /// Starts again from the beginning; `false` when that is not possible.
    pub(super) fn rewind(&mut self) -> bool {
        self.at = 0;
        self.whole
    }
}
