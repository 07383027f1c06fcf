//! What comes back, held against what was sent.

use crate::expect::{Expect, Length};

/// Bytes that come back.
pub(super) struct EchoCheck<'a> {
    /// What they must be, where it is known.
    same: Option<&'a [u8]>,
    /// How many must come; `None`: until the end of the connection.
    pub(super) due: Option<u64>,
    /// How many have.
    pub(super) length: u64,
    /// Whether they were others than those that were sent.
    pub(super) differs: bool,
}

impl<'a> EchoCheck<'a> {
    /// As many as `expect` says: where these are as many as were sent, the same.
    pub(super) fn new(sent: &'a [u8], expect: &Expect) -> Self {
        let due = match expect.length {
            Length::Exactly(length) => Some(length),
            Length::First => Some(sent.len() as u64),
            Length::Any => None,
        };
        let same = (due == Some(sent.len() as u64)).then_some(sent);
        Self {
            same,
            due,
            length: 0,
            differs: false,
        }
    }

    /// Looks at what has come.
    pub(super) fn take(&mut self, data: &[u8]) {
        if let Some(sent) = self.same {
            let from = (self.length as usize).min(sent.len());
            let to = (from + data.len()).min(sent.len());
            self.differs |= data.get(..to - from) != Some(&sent[from..to]);
        }
        self.length += data.len() as u64;
    }

    /// Whether as much has come as must.
    pub(super) fn is_whole(&self) -> bool {
        self.due.is_some_and(|due| self.length >= due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_compared_piece_by_piece() {
        let echo = Expect::default();
        let mut returned = EchoCheck::new(b"abcdef", &echo);
        for piece in [&b"ab"[..], b"", b"cde", b"f"] {
            assert!(!returned.is_whole());
            returned.take(piece);
        }
        assert!(returned.is_whole() && !returned.differs);
        let mut other = EchoCheck::new(b"abcdef", &echo);
        other.take(b"abcxef");
        assert!(other.differs);
    }

    #[test]
    fn another_length_than_was_sent_is_not_compared() {
        let expect = Expect {
            length: Length::Exactly(3),
            ..Expect::default()
        };
        let mut returned = EchoCheck::new(b"x", &expect);
        returned.take(b"abc");
        assert!(returned.is_whole() && !returned.differs);
        let mut any = EchoCheck::new(
            b"x",
            &Expect {
                length: Length::Any,
                ..Expect::default()
            },
        );
        any.take(b"y");
        assert!(!any.is_whole() && !any.differs);
    }
}
