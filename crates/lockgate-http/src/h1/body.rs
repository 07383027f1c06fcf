//! Bodies: their end, and the data in them (RFC 9112 §6, §7.1).
//!
//! Data is never copied here: it is a range of the input. Chunk extensions are skipped (§7.1.1) and
//! limited as a whole: in small chunks they would be a body that counts as none (CVE-2023-39326).

use std::ops::Range;

use super::parse::{self, HeadProgress};
use super::{HeadError, HeadLimits};
use crate::fields::Fields;
use crate::head::BodyLength;

/// The limit of extensions in all chunks of one body, in bytes: they are not used in practice.
const MAX_EXTENSIONS: usize = 16 * 1024;
/// The most digits of a chunk's size: 2⁶⁰ bytes.
const MAX_DIGITS: u8 = 15;

/// The reason why a body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A chunk size that is no hexadecimal number, or is too large.
    #[error("a chunk's size is malformed")]
    Size,
    /// No CR LF behind a chunk's size or data (RFC 9112 §7.1).
    #[error("a chunk does not end with CR LF")]
    LineEnd,
    /// A chunk extension with control characters, or too many bytes of extensions.
    #[error("chunk extensions are malformed or too long")]
    Extension,
    /// The trailer section is malformed or too long.
    #[error("the trailer section is refused: {0}")]
    Trailer(HeadError),
}

/// The next part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyPart {
    /// Data, in this range of the input; everything up to its end is used.
    Data(Range<usize>),
    /// This many bytes are used, without data among them: more are needed. The rest is passed
    /// again.
    More(usize),
    /// This many bytes are used, and the body has ended; the rest is not part of it.
    End(usize),
}

/// A decoder of one body.
#[derive(Debug, Clone)]
pub struct BodyDecoder {
    state: State,
    extensions: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The remaining bytes of a body of known length.
    Known(u64),
    UntilClose,
    /// In a chunk's size, behind this many digits.
    Size {
        size: u64,
        digits: u8,
    },
    /// In whitespace behind a chunk's size.
    Space {
        size: u64,
    },
    /// In an extension, behind its semicolon.
    Extension {
        size: u64,
    },
    /// Behind the CR that ends a chunk's first line.
    SizeEnd {
        size: u64,
    },
    /// The remaining bytes of a chunk.
    Chunk(u64),
    ChunkEnd,
    /// Behind the CR after it.
    ChunkEndLf,
    Trailers(HeadProgress),
    Ended,
}

impl BodyDecoder {
    /// A decoder of a body of this length.
    pub fn new(length: BodyLength) -> Self {
        let state = match length {
            BodyLength::Empty => State::Ended,
            BodyLength::Known(length) => State::Known(length),
            BodyLength::Chunked => State::Size { size: 0, digits: 0 },
            BodyLength::UntilClose => State::UntilClose,
        };
        Self {
            state,
            extensions: 0,
        }
    }

    /// Whether the body has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended | State::Known(0))
    }

    /// Whether the end of the connection is the end of the body, and not its truncation.
    pub fn may_close(&self) -> bool {
        self.has_ended() || self.state == State::UntilClose
    }

    /// The bytes that are still to come, if the length is known.
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Known(left) => Some(left),
            _ => None,
        }
    }

    /// Decodes the front of `input`; trailers are added to `trailers`.
    ///
    /// # Errors
    /// When the body is invalid; the connection cannot be used afterwards.
    pub fn decode(
        &mut self,
        input: &[u8],
        limits: &HeadLimits,
        trailers: &mut Fields,
    ) -> Result<BodyPart, BodyError> {
        let mut at = 0;
        loop {
            match &mut self.state {
                State::Ended | State::Known(0) => return Ok(BodyPart::End(at)),
                State::Trailers(progress) => {
                    return match parse::trailers(&input[at..], progress, limits, trailers)
                        .map_err(BodyError::Trailer)?
                    {
                        None => Ok(BodyPart::More(at)),
                        Some(used) => {
                            self.state = State::Ended;
                            Ok(BodyPart::End(at + used))
                        }
                    };
                }
                _ if at == input.len() => return Ok(BodyPart::More(at)),
                State::UntilClose => return Ok(BodyPart::Data(at..input.len())),
                State::Known(left) => return Ok(BodyPart::Data(take(left, at, input))),
                State::Chunk(left) => {
                    let data = take(left, at, input);
                    if *left == 0 {
                        self.state = State::ChunkEnd;
                    }
                    return Ok(BodyPart::Data(data));
                }
                _ => {
                    self.step(input[at])?;
                    at += 1;
                }
            }
        }
    }

    /// Decodes one byte between data.
    fn step(&mut self, byte: u8) -> Result<(), BodyError> {
        self.state = match (self.state, byte) {
            (State::Size { size, digits }, byte) if byte.is_ascii_hexdigit() => {
                if digits == MAX_DIGITS {
                    return Err(BodyError::Size);
                }
                let digit = (byte as char).to_digit(16).map_or(0, u64::from);
                State::Size {
                    size: size * 16 + digit,
                    digits: digits + 1,
                }
            }
            (State::Size { digits: 0, .. }, _) => return Err(BodyError::Size),
            (
                State::Size { size, .. } | State::Space { size } | State::Extension { size },
                b'\r',
            ) => State::SizeEnd { size },
            // §7.1.1: whitespace may precede an extension, which begins with a semicolon. Some
            // senders pad sizes with it.
            (State::Size { size, .. } | State::Space { size }, b' ' | b'\t') => {
                self.extend()?;
                State::Space { size }
            }
            (State::Size { size, .. } | State::Space { size }, b';') => {
                self.extend()?;
                State::Extension { size }
            }
            (State::Size { .. } | State::Space { .. } | State::Extension { .. }, b'\n') => {
                return Err(BodyError::LineEnd);
            }
            (State::Size { .. } | State::Space { .. }, _) => return Err(BodyError::Size),
            (State::Extension { size }, byte)
                if byte == b'\t' || (byte >= b' ' && byte != 0x7f) =>
            {
                self.extend()?;
                State::Extension { size }
            }
            (State::Extension { .. }, _) => return Err(BodyError::Extension),
            (State::SizeEnd { size: 0 }, b'\n') => State::Trailers(HeadProgress::default()),
            (State::SizeEnd { size }, b'\n') => State::Chunk(size),
            (State::ChunkEnd, b'\r') => State::ChunkEndLf,
            (State::ChunkEndLf, b'\n') => State::Size { size: 0, digits: 0 },
            _ => return Err(BodyError::LineEnd),
        };
        Ok(())
    }

    fn extend(&mut self) -> Result<(), BodyError> {
        self.extensions += 1;
        if self.extensions > MAX_EXTENSIONS {
            Err(BodyError::Extension)
        } else {
            Ok(())
        }
    }
}

/// As much of the input as remains to be taken.
fn take(left: &mut u64, at: usize, input: &[u8]) -> Range<usize> {
    let here = usize::try_from(*left)
        .unwrap_or(usize::MAX)
        .min(input.len() - at);
    *left -= here as u64;
    at..at + here
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        head: 256,
        fields: 4,
    };

    /// A body's data, its trailers, and the number of bytes behind it, if it has ended.
    type Body = (Vec<u8>, Vec<String>, Option<usize>);

    /// Feeds a body in pieces of `step` bytes.
    fn read(length: BodyLength, input: &[u8], step: usize) -> Result<Body, BodyError> {
        let (mut decoder, mut trailers) = (BodyDecoder::new(length), Fields::default());
        let (mut data, mut used, mut end) = (Vec::new(), 0, 0);
        loop {
            match decoder.decode(&input[used..end], &LIMITS, &mut trailers)? {
                BodyPart::Data(range) => {
                    data.extend_from_slice(&input[used..end][range.clone()]);
                    used += range.end;
                }
                BodyPart::End(more) => {
                    assert!(decoder.has_ended());
                    let lines = trailers.iter().map(|field| {
                        format!(
                            "{}={}",
                            field.name.escape_ascii(),
                            field.value.escape_ascii()
                        )
                    });
                    return Ok((data, lines.collect(), Some(input.len() - used - more)));
                }
                BodyPart::More(more) => {
                    used += more;
                    if end == input.len() {
                        assert!(!decoder.has_ended());
                        return Ok((data, Vec::new(), None));
                    }
                    end = (end + step).min(input.len());
                }
            }
        }
    }

    #[test]
    fn a_body_is_the_same_in_any_pieces() {
        let chunked = b"5\r\nhello\r\n00a ; x=\"y\"\r\n, world!!\n\r\n0\r\nA: 1\r\nB: 2\r\n\r\nGET";
        let expected = (
            b"hello, world!!\n".to_vec(),
            vec!["A=1".to_owned(), "B=2".to_owned()],
            Some(3),
        );
        for step in 1..chunked.len() {
            assert_eq!(
                read(BodyLength::Chunked, chunked, step),
                Ok(expected.clone()),
                "{step}"
            );
            assert_eq!(
                read(BodyLength::Known(4), b"abcdef", step),
                Ok((b"abcd".to_vec(), vec![], Some(2)))
            );
            assert_eq!(
                read(BodyLength::Known(9), b"abcdef", step),
                Ok((b"abcdef".to_vec(), vec![], None))
            );
            assert_eq!(
                read(BodyLength::UntilClose, b"abcdef", step),
                Ok((b"abcdef".to_vec(), vec![], None))
            );
        }
        assert_eq!(
            read(BodyLength::Chunked, b"0\r\n\r\n", 1),
            Ok((vec![], vec![], Some(0)))
        );
        assert_eq!(
            read(BodyLength::Empty, b"GET", 1),
            Ok((vec![], vec![], Some(3)))
        );
    }

    #[test]
    fn malformed_chunked_bodies_are_refused() {
        use BodyError::*;
        // RFC 9112 §7.1.
        for (input, error) in [
            (&b"\r\n"[..], Size),
            (b"g\r\n", Size),
            (b"-1\r\n", Size),
            (b"+1\r\n", Size),
            (b"0x1\r\na\r\n", Size),
            (b" 1\r\na\r\n", Size),
            (b";x\r\n", Size),
            (b"1_\r\n", Size),
            (b"1 1\r\na\r\n", Size),
            (b"1 x\r\na\r\n", Size),
            (b"1 \n", LineEnd),
            (b"1000000000000000\r\n", Size),
            (b"fffffffffffffffff\r\n", Size),
            (b"1\na\r\n", LineEnd),
            (b"1;x\na\r\n", LineEnd),
            (b"1\r\r\n", LineEnd),
            (b"1\ra\r\n", LineEnd),
            (b"1\r\nab\r\n", LineEnd),
            (b"1\r\na\n0\r\n\r\n", LineEnd),
            (b"1\r\na\r0\r\n\r\n", LineEnd),
            (b"1\r\na0\r\n\r\n", LineEnd),
            (b"1;\0\r\n", Extension),
            (b"1;\x7f\r\n", Extension),
            (b"0\r\nA : b\r\n\r\n", Trailer(HeadError::FieldName)),
            (b"0\r\nA: b\n\r\n", Trailer(HeadError::LineEnd)),
            (b"0\r\n folded\r\n\r\n", Trailer(HeadError::Folded)),
            (b"0\r\n\n", Trailer(HeadError::LineEnd)),
        ] {
            for step in [1, input.len()] {
                assert_eq!(
                    read(BodyLength::Chunked, input, step),
                    Err(error),
                    "{}",
                    input.escape_ascii()
                );
            }
        }
    }

    #[test]
    fn chunk_extensions_and_trailers_are_bounded_per_body() {
        let chunk =
            |extension: usize| [b"1;", "x".repeat(extension - 1).as_bytes(), b"\r\na\r\n"].concat();
        let fits = chunk(100).repeat(MAX_EXTENSIONS / 100);
        assert!(read(BodyLength::Chunked, &fits, 4096).is_ok());
        let flood = chunk(100).repeat(MAX_EXTENSIONS / 100 + 1);
        assert_eq!(
            read(BodyLength::Chunked, &flood, 4096),
            Err(BodyError::Extension)
        );
        let trailers =
            |count: usize| [b"0\r\n", "A: b\r\n".repeat(count).as_bytes(), b"\r\n"].concat();
        assert!(read(BodyLength::Chunked, &trailers(4), 1).is_ok());
        let many = BodyError::Trailer(HeadError::TooManyFields);
        assert_eq!(read(BodyLength::Chunked, &trailers(5), 1), Err(many));
        let long = [b"0\r\nA: ".as_slice(), &[b'b'; 300]].concat();
        assert_eq!(
            read(BodyLength::Chunked, &long, 1),
            Err(BodyError::Trailer(HeadError::TooLong))
        );
    }

    /// A section that is parsed from its beginning at each byte would cost the square of its
    /// length.
    #[test]
    fn a_trailer_section_is_parsed_once() {
        let (mut decoder, mut trailers) =
            (BodyDecoder::new(BodyLength::Chunked), Fields::default());
        let input = b"0\r\nA: 1\r\nB: 2\r\nC: 3";
        let more = decoder.decode(input, &LIMITS, &mut trailers);
        assert_eq!(more, Ok(BodyPart::More(3)));
        let State::Trailers(progress) = decoder.state else {
            panic!("{:?}", decoder.state)
        };
        assert_ne!(progress, HeadProgress::default());
        let rest = [&input[3..], b"\r\n\r\nGET"].concat();
        assert_eq!(
            decoder.decode(&rest, &LIMITS, &mut trailers),
            Ok(BodyPart::End(rest.len() - 3))
        );
        assert_eq!(trailers.len(), 3);
    }

    #[test]
    fn only_empty_and_until_close_bodies_may_end_by_close() {
        let may_close = |length| BodyDecoder::new(length).may_close();
        use BodyLength::*;
        assert_eq!(
            [Empty, Known(1), Chunked, UntilClose].map(may_close),
            [true, false, false, true]
        );
    }
}
