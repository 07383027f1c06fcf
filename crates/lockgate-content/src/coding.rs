//! Content codings (RFC 9110 §8.4.1): what they are called, how hard they try, and the way in and
//! out of them.
//!
//! Which of them a client takes is not decided here: that is Accept-Encoding's, in `lockgate-http`.

mod decode;
mod encode;

use std::ops::RangeInclusive;

pub use decode::{Coded, DecodeError, Decoder, decode_all};
pub use encode::{Encoder, Encoders, KEPT, encode_all};

/// A coding that we make.
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
    /// All of them, the one that is cheapest for what it saves first.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Its name in Content-Encoding and Accept-Encoding.
    pub fn token(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// How a file that has been encoded beforehand ends.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }

    /// The levels that there are: the first is the fastest, the last the smallest.
    pub fn levels(self) -> RangeInclusive<u8> {
        match self {
            Self::Zstd => 1..=19,
            Self::Brotli => 0..=11,
            Self::Gzip => 1..=9,
        }
    }

    /// The level for what is encoded as it is sent: 0.5 ms of CPU time for 100 KB of HTML with
    /// zstd, 1.7 with the others (`examples/speed`).
    pub fn fast_level(self) -> u8 {
        match self {
            Self::Zstd => 3,
            Self::Brotli => 4,
            Self::Gzip => 4,
        }
    }

    /// The level for what is encoded once and sent often: 2 to 4 ms for 100 KB. What is above it
    /// takes the worker's time for the last few percent: for files that were encoded
    /// beforehand.
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
