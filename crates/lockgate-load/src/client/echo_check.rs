//! Check of an echo: whether the bytes that come back are the bytes that were sent.

use crate::expect::{Expect, Length};

/// The echo of one message, as far as it has come.
pub(super) struct EchoCheck<'a> {
    /// The expected bytes, where the expected length is that of the message.
    expected: Option<&'a [u8]>,
    /// The expected length; `None`: until the connection ends.
    pub(super) expected_length: Option<u64>,
    /// Number of bytes that have come back.
    pub(super) length: u64,
    /// Whether a byte differs from the expected one.
    pub(super) mismatch: bool,
}

impl<'a> EchoCheck<'a> {
    /// A check of the length that `expect` has, and of the bytes where that is the length of
    /// `sent`.
    pub(super) fn new(sent: &'a [u8], expect: &Expect) -> Self {
        let expected_length = match expect.length {
            Length::Exactly(length) => Some(length),
            Length::First => Some(sent.len() as u64),
            Length::Any => None,
        };
        let expected = (expected_length == Some(sent.len() as u64)).then_some(sent);
        Self {
            expected,
            expected_length,
            length: 0,
            mismatch: false,
        }
    }

    /// Compares the next bytes with the message.
    pub(super) fn take(&mut self, data: &[u8]) {
        if let Some(sent) = self.expected {
            let from = (self.length as usize).min(sent.len());
            let to = (from + data.len()).min(sent.len());
            self.mismatch |= data.get(..to - from) != Some(&sent[from..to]);
        }
        self.length += data.len() as u64;
    }

    /// Whether the expected length has come.
    pub(super) fn is_whole(&self) -> bool {
        self.expected_length
            .is_some_and(|expected_length| self.length >= expected_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_compared_piece_by_piece() {
        let expect = Expect::default();
        let mut echo = EchoCheck::new(b"abcdef", &expect);
        for piece in [&b"ab"[..], b"", b"cde", b"f"] {
            assert!(!echo.is_whole());
            echo.take(piece);
        }
        assert!(echo.is_whole() && !echo.mismatch);
        let mut other = EchoCheck::new(b"abcdef", &expect);
        other.take(b"abcxef");
        assert!(other.mismatch);
    }

    #[test]
    fn another_length_than_was_sent_is_not_compared() {
        let expect = Expect {
            length: Length::Exactly(3),
            ..Expect::default()
        };
        let mut echo = EchoCheck::new(b"x", &expect);
        echo.take(b"abc");
        assert!(echo.is_whole() && !echo.mismatch);
        let mut any = EchoCheck::new(
            b"x",
            &Expect {
                length: Length::Any,
                ..Expect::default()
            },
        );
        any.take(b"y");
        assert!(!any.is_whole() && !any.mismatch);
    }
}
