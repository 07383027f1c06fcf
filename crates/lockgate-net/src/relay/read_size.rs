//! The size of a direction's reads.

use crate::memory::{self, MemoryLevel};
use crate::tls::record::{MAX_OVERHEAD, MAX_PLAINTEXT};

/// Starts at 64 KB, doubles up to 256 KB while reads are full and the sink accepts all of it, and
/// halves down to 32 KB when the sink does not: large reads save wake-ups and calls in bulk (0.93 ×
/// the CPU of 64 KB reads for a TLS download; `docs/perf.md`), and a slow sink costs little memory.
///
/// Counted in records of 16 KB, so that a read of TLS in bulk rarely ends within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadSize(usize);

impl ReadSize {
    /// The longest read of TLS, with the partial record in front of it.
    pub(super) const MOST_WIRE: usize = Self::MOST * RECORD;

    const FIRST: usize = 4;
    const MOST: usize = 16;
    /// Longer than any partial record in front of the next read (RFC 5246 §6.2.3: 18 KB).
    const LEAST: usize = 2;

    /// The bytes to read from a plain source.
    pub(super) fn plain(self) -> usize {
        self.0 * MAX_PLAINTEXT
    }

    /// The bytes to read from a TLS source, those of a partial record included.
    pub(super) fn wire(self) -> usize {
        self.0 * RECORD
    }

    /// The same, or the least while memory is scarce.
    pub(super) fn as_memory_allows(self) -> Self {
        if memory::level() == MemoryLevel::Easy {
            self
        } else {
            Self(Self::LEAST)
        }
    }

    /// Notes a full read that the sink accepted.
    pub(super) fn grow(&mut self) {
        self.0 = (self.0 * 2).min(Self::MOST);
    }

    /// Notes that the sink did not accept all of a read.
    pub(super) fn shrink(&mut self) {
        self.0 = (self.0 / 2).max(Self::LEAST);
    }
}

impl Default for ReadSize {
    fn default() -> Self {
        Self(Self::FIRST)
    }
}

/// The size of a peer's records in bulk: sixteen kilobytes, and the overhead of TLS 1.2 with
/// AES-GCM, the longest.
const RECORD: usize = MAX_PLAINTEXT + MAX_OVERHEAD;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::record::MAX_RECORD;

    #[test]
    fn the_read_size_grows_and_shrinks_within_its_bounds() {
        let mut size = ReadSize::default();
        let after = |size: &mut ReadSize, change: fn(&mut ReadSize)| {
            change(size);
            size.plain() / 1024
        };
        assert_eq!(
            [(); 3].map(|()| after(&mut size, ReadSize::grow)),
            [128, 256, 256]
        );
        assert_eq!(
            [(); 4].map(|()| after(&mut size, ReadSize::shrink)),
            [128, 64, 32, 32]
        );
        assert!(
            size.wire() > MAX_RECORD,
            "a record that was cut can be completed"
        );
    }
}
