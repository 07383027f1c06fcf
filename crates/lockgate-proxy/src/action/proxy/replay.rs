//! What of a request's body was sent already, for another attempt.

use lockgate_net::memory::{self, MemoryLevel};

/// What is kept of the body of a request that may be sent twice.
const IDEMPOTENT: usize = 64 * 1024;
/// Of one that may not, only what may still be in our own buffers: it is sent again only if nothing
/// has left.
const UNSENT: usize = 20 * 1024;
/// Of either while memory is scarce.
const LEAN: usize = 4 * 1024;

/// The beginning of a body.
#[derive(Debug)]
pub(super) struct Replay {
    data: Vec<u8>,
    limit: usize,
    /// Whether nothing of what was taken is missing.
    whole: bool,
    /// What this attempt has sent of it.
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

    /// What is to be sent before anything new.
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

    /// There will be no other attempt: this one still sends what is left to send again, and nothing
    /// more is kept.
    pub(super) fn settle(&mut self) {
        self.whole = false;
    }

    /// Begins anew; `false` when that is not possible.
    pub(super) fn rewind(&mut self) -> bool {
        self.at = 0;
        self.whole
    }
}
