//! Content codings (RFC 9110 §8.4.1): names, levels, encoders and decoders.
//!
//! Does not choose a coding for a client: Accept-Encoding is read in `lockgate-http`.

mod decode;
mod encode;

use std::ops::RangeInclusive;

pub use decode::{Coded, ContentDecoder, DecodeError, decode_all};
pub use encode::{ContentEncoder, Encoders, KEPT, encode_all};

/// A coding that we can produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    /// `zstd` (RFC 8878), with windows of at most 1 MB: clients need only take 8 MB (RFC 9659 §3).
    Zstd,
    /// `br` (RFC 7932).
    Brotli,
    /// `gzip` (RFC 1952), without name and time.
    Gzip,
}

impl Coding {
    /// All codings; the first saves the most bytes for its cost.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// The name in Content-Encoding and Accept-Encoding.
    pub fn token(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The file extension of files that are encoded beforehand.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }

    /// The valid levels: the first is the fastest, the last the smallest.
    pub fn levels(self) -> RangeInclusive<u8> {
        match self {
            Self::Zstd => 1..=19,
            Self::Brotli => 0..=11,
            Self::Gzip => 1..=9,
        }
    }

    /// The level for content that is encoded while it is sent: 0.5 ms of CPU time for 100 KB of
    /// HTML with zstd, 1.7 with the others (`examples/speed`).
    pub fn fast_level(self) -> u8 {
        match self {
            Self::Zstd => 3,
            Self::Brotli => 4,
            Self::Gzip => 4,
        }
    }

    /// The level for content that is encoded once and sent often: 2 to 4 ms for 100 KB. Higher
    /// levels cost the worker too much time for the last few percent; they are for files that are
    /// encoded beforehand.
    pub fn kept_level(self) -> u8 {
        match self {
            Self::Zstd => 6,
            Self::Brotli => 5,
            Self::Gzip => 6,
        }
    }
}

#[cfg(test)]
mod tests;
