//! The strings of literal fields (RFC 7541 §5.2, §6.2), measured without decoding.

use std::borrow::Cow;

use super::super::{HpackError, huffman, integer};

/// A string in a block, coded or not.
#[derive(Clone, Copy)]
pub(super) struct StringLiteral<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) coded: bool,
}

/// The name of a literal.
#[derive(Clone, Copy)]
pub(super) enum LiteralName<'a> {
    /// The name of another field.
    Of(usize),
    Literal(StringLiteral<'a>),
}

impl<'a> LiteralName<'a> {
    /// The name at the front of a literal (§6.2), if complete.
    pub(super) fn take(rest: &mut &'a [u8], is_kept: bool) -> Result<Self, HpackError> {
        match integer::decode(rest, if is_kept { 6 } else { 4 })? {
            0 => StringLiteral::take(rest).map(Self::Literal),
            index => Ok(Self::Of(index)),
        }
    }
}

impl<'a> StringLiteral<'a> {
    /// The string at the front (§5.2), if complete.
    pub(super) fn take(rest: &mut &'a [u8]) -> Result<Self, HpackError> {
        let coded = rest.first().is_some_and(|first| first & 0x80 != 0);
        let length = integer::decode(rest, 7)?;
        let (bytes, behind) = rest.split_at_checked(length).ok_or(HpackError::Cut)?;
        *rest = behind;
        Ok(Self { bytes, coded })
    }

    /// The decoded length, and whether it has a `#`.
    pub(super) fn measure(self) -> Result<(usize, bool), HpackError> {
        if self.coded {
            huffman::measure(self.bytes)
        } else {
            Ok((self.bytes.len(), memchr::memchr(b'#', self.bytes).is_some()))
        }
    }

    /// The longest possible decoded length: the shortest code has 5 bits.
    pub(super) fn most(self) -> usize {
        if self.coded {
            self.bytes.len() * 8 / 5
        } else {
            self.bytes.len()
        }
    }

    pub(super) fn decode(self) -> Result<Cow<'a, [u8]>, HpackError> {
        if !self.coded {
            return Ok(self.bytes.into());
        }
        let mut text = Vec::new();
        huffman::decode(self.bytes, &mut text)?;
        Ok(text.into())
    }

    /// Whether it begins with a 1, which is coded as 00001.
    pub(super) fn begins_with_one(self) -> bool {
        self.bytes.first().is_some_and(|first| {
            if self.coded {
                first >> 3 == 1
            } else {
                *first == b'1'
            }
        })
    }
}
