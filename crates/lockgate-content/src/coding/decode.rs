//! Decoders of content codings, in bounded steps: a few bytes can stand for gigabytes.
//!
//! Memory of a decoder: the window that the coded form asks for, at most 8 MB with zstd (more is
//! refused, as clients may: RFC 9659 §3), 16 MB with br (RFC 7932 §9.1; the "large window" beyond
//! it is refused), 32 KB with gzip.

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::StepProgress;

/// RFC 9659 §3: 8 MB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// The size of zstd's context with a window of 2 MB.
const ZSTD_BYTES: usize = 2_200_000;
const DEFLATE_WINDOW_LOG: u8 = 15;
/// The room that is made for one step.
const STEP: usize = 32 * 1024;

/// A coding that we can decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coded {
    /// RFC 8878; several frames follow each other.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952; several members follow each other.
    Gzip,
    /// RFC 9110 §8.4.1.2: zlib's format, and bare deflate, which some servers send in its place.
    Deflate,
}

impl Coded {
    /// The coding of this name in Content-Encoding, in any case.
    pub fn of(token: &[u8]) -> Option<Self> {
        // RFC 9110 §8.4.1.3: x-gzip is the same.
        let names = [
            (&b"zstd"[..], Self::Zstd),
            (b"br", Self::Brotli),
            (b"gzip", Self::Gzip),
            (b"x-gzip", Self::Gzip),
            (b"deflate", Self::Deflate),
        ];
        names
            .into_iter()
            .find(|(name, _)| token.eq_ignore_ascii_case(name))
            .map(|(_, coded)| coded)
    }
}

impl From<super::Coding> for Coded {
    fn from(coding: super::Coding) -> Self {
        match coding {
            super::Coding::Zstd => Self::Zstd,
            super::Coding::Brotli => Self::Brotli,
            super::Coding::Gzip => Self::Gzip,
        }
    }
}

/// The reason why content cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The output exceeds its limit.
    #[error("the decoded content is longer than allowed")]
    TooLong,
    /// Not of this coding, damaged, or with a window beyond the limit.
    #[error("the content is invalid for its coding")]
    Invalid,
    /// The content ends before its coding does.
    #[error("the coded content ends too early")]
    Truncated,
}

/// A decoder of one message.
pub struct ContentDecoder {
    engine: DecodeEngine,
    left: u64,
    at: DecodeStage,
}

enum DecodeEngine {
    Zstd(DCtx<'static>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Gzip(Decompress),
    /// Unknown until the second byte; holds the first.
    Unknown(Option<u8>),
    Deflate(Decompress),
}

/// The decoder's position in the coded form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecodeStage {
    Beginning,
    Middle,
    /// Behind a frame or a member: another may follow.
    Between,
    /// Behind the end.
    End,
}

impl ContentDecoder {
    /// A decoder with at most `max` bytes of output.
    pub fn new(coded: Coded, max: u64) -> Self {
        let engine = match coded {
            Coded::Zstd => {
                let mut context = DCtx::create();
                let max = DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
                context
                    .set_parameter(max)
                    .expect("a window that zstd knows");
                DecodeEngine::Zstd(context)
            }
            // Strict: the large window would let a few bytes ask for a gigabyte.
            Coded::Brotli => DecodeEngine::Brotli(Box::new(BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ))),
            Coded::Gzip => DecodeEngine::Gzip(Decompress::new_gzip(DEFLATE_WINDOW_LOG)),
            Coded::Deflate => DecodeEngine::Unknown(None),
        };
        Self {
            engine,
            left: max,
            at: DecodeStage::Beginning,
        }
    }

    /// Bytes from C's allocator, about, which Rust's allocator does not count: with zstd those for
    /// the window that encoders mostly ask for.
    pub fn native_bytes(&self) -> usize {
        match &self.engine {
            DecodeEngine::Zstd(_) => ZSTD_BYTES,
            DecodeEngine::Brotli(_)
            | DecodeEngine::Gzip(_)
            | DecodeEngine::Unknown(_)
            | DecodeEngine::Deflate(_) => 0,
        }
    }

    /// Decodes from the front of `input`, which is shortened by the bytes taken, and appends at
    /// most `room` bytes to `out`. `room` is more than 0.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] once the output would exceed `max` bytes, [`DecodeError::Invalid`].
    /// The decoder cannot be used after either; earlier output is right.
    pub fn step(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<StepProgress, DecodeError> {
        let end = out.len().saturating_add(room);
        loop {
            if out.len() >= end {
                return Ok(StepProgress::Full);
            }
            if self.at == DecodeStage::Between && !input.is_empty() {
                self.another(input);
            }
            if self.at == DecodeStage::End {
                // Bytes behind the end are dropped, as browsers and gzip do.
                *input = &[];
            }
            if matches!(self.at, DecodeStage::Between | DecodeStage::End) {
                return Ok(StepProgress::Done);
            }
            if let DecodeEngine::Unknown(first) = &mut self.engine {
                let Some((byte, rest)) = input.split_first() else {
                    return Ok(StepProgress::Done);
                };
                self.at = DecodeStage::Middle;
                match *first {
                    None => {
                        *first = Some(*byte);
                        *input = rest;
                    }
                    Some(first) => self.engine = DecodeEngine::Deflate(deflate(first, *byte)?),
                }
                continue;
            }
            // One byte over the limit shows that there is more.
            let allowed = usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX);
            let room = STEP.min(end - out.len()).min(allowed);
            let (before, had) = (out.len(), input.len());
            out.resize(before + room, 0);
            let given = self.run(input, &mut out[before..]);
            out.truncate(before + *given.as_ref().unwrap_or(&0));
            let given = given?;
            if given as u64 > self.left {
                out.pop();
                return Err(DecodeError::TooLong);
            }
            self.left -= given as u64;
            if matches!(self.at, DecodeStage::Between | DecodeStage::End) {
                continue;
            }
            let taken = had - input.len();
            if taken > 0 {
                self.at = DecodeStage::Middle;
            }
            if given < room && input.is_empty() {
                return Ok(StepProgress::Done);
            }
            if given == 0 && taken == 0 {
                return Err(DecodeError::Invalid);
            }
        }
    }

    /// One call of the engine; returns the bytes written to `out`. Updates the position at an end.
    fn run(&mut self, input: &mut &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
        let (taken, given) = match &mut self.engine {
            DecodeEngine::Zstd(context) => {
                let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(out));
                let left = context
                    .decompress_stream(&mut to, &mut from)
                    .map_err(|_| DecodeError::Invalid)?;
                if left == 0 {
                    self.at = DecodeStage::Between;
                }
                (from.pos, to.pos())
            }
            DecodeEngine::Brotli(state) => {
                let (mut left, mut taken, mut room, mut given) = (input.len(), 0, out.len(), 0);
                let result = BrotliDecompressStream(
                    &mut left, &mut taken, input, &mut room, &mut given, out, &mut 0, state,
                );
                match result {
                    BrotliResult::ResultFailure => return Err(DecodeError::Invalid),
                    BrotliResult::ResultSuccess => self.at = DecodeStage::End,
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
                }
                (taken, given)
            }
            DecodeEngine::Gzip(state) => {
                let (taken, given, ended) = inflate(state, input, out)?;
                if ended {
                    self.at = DecodeStage::Between;
                }
                (taken, given)
            }
            DecodeEngine::Deflate(state) => {
                let (taken, given, ended) = inflate(state, input, out)?;
                if ended {
                    self.at = DecodeStage::End;
                }
                (taken, given)
            }
            DecodeEngine::Unknown(_) => (0, 0),
        };
        *input = &input[taken..];
        Ok(given)
    }

    /// Handles input behind a frame or a member.
    fn another(&mut self, input: &[u8]) {
        match &mut self.engine {
            // RFC 1952 §2.2: members follow each other. Padding behind the last one is common.
            DecodeEngine::Gzip(_) if input.first() != Some(&0x1f) => self.at = DecodeStage::End,
            DecodeEngine::Gzip(state) => {
                *state = Decompress::new_gzip(DEFLATE_WINDOW_LOG);
                self.at = DecodeStage::Beginning;
            }
            // RFC 8878 §3: frames follow each other, and nothing else does.
            _ => self.at = DecodeStage::Beginning,
        }
    }

    /// Checks that the coded form is complete.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]. No content at all is complete, too: responses without a body
    /// have none.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.at == DecodeStage::Middle {
            Err(DecodeError::Truncated)
        } else {
            Ok(())
        }
    }
}

/// One call of inflate: bytes taken, bytes written, and whether that was the end.
fn inflate(
    state: &mut Decompress,
    input: &[u8],
    out: &mut [u8],
) -> Result<(usize, usize, bool), DecodeError> {
    let (taken, given) = (state.total_in(), state.total_out());
    let status = state
        .decompress(input, out, FlushDecompress::None)
        .map_err(|_| DecodeError::Invalid)?;
    let taken = usize::try_from(state.total_in() - taken).unwrap_or(input.len());
    let given = usize::try_from(state.total_out() - given).unwrap_or(out.len());
    Ok((taken, given, status == Status::StreamEnd))
}

/// The decoder of a message that begins with these two bytes, fed with the first.
fn deflate(first: u8, second: u8) -> Result<Decompress, DecodeError> {
    // RFC 1950 §2.2: method 8, and a multiple of 31.
    let zlib = first & 0x0f == 8 && (u16::from(first) << 8 | u16::from(second)) % 31 == 0;
    let mut state = Decompress::new(zlib);
    // One byte alone has no output: it belongs to the header, or to the beginning of a block.
    inflate(&mut state, &[first], &mut [0; 8])?;
    Ok(state)
}

/// Decodes a whole message.
///
/// # Errors
/// As [`ContentDecoder::step`] and [`ContentDecoder::end`].
pub fn decode_all(coded: Coded, mut input: &[u8], max: u64) -> Result<Vec<u8>, DecodeError> {
    let (mut decoder, mut out) = (ContentDecoder::new(coded, max), Vec::new());
    while decoder.step(&mut input, &mut out, usize::MAX)? == StepProgress::Full {}
    decoder.end()?;
    Ok(out)
}
