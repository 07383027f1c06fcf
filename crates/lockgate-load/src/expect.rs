//! Expectations that a response must meet to count as a success.

use std::ops::RangeInclusive;

use aws_lc_rs::digest::{self, SHA256};

use crate::result::FailureKind;

/// Expectations of every response of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// Ranges of statuses that count as successes.
    pub status: Vec<RangeInclusive<u16>>,
    /// Length of the body, after its transfer coding.
    pub length: Length,
    /// Bytes of the body, compared by their hash.
    pub body: BodyCheck,
}

/// Expected length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// The length of the first success.
    First,
    /// This number of bytes, also where the first response has another.
    Exactly(u64),
    /// Any length, also another one in each response.
    Any,
}

/// Expected bytes of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyCheck {
    /// Any bytes: bodies are not hashed.
    Any,
    /// The bytes of the first success.
    First,
    /// Bytes with this hash, from the option.
    Sha256([u8; 32]),
}

impl Default for Expect {
    /// 2xx, and the length of the first success.
    fn default() -> Self {
        Self {
            status: vec![200..=299],
            length: Length::First,
            body: BodyCheck::Any,
        }
    }
}

/// One response, as far as it is judged.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ObservedResponse {
    pub(crate) status: Option<u16>,
    pub(crate) length: u64,
    pub(crate) hash: Option<[u8; 32]>,
}

impl Expect {
    /// Whether bodies must be hashed.
    pub(crate) fn wants_hash(&self) -> bool {
        self.body != BodyCheck::Any
    }

    /// Judges a response; `first` is the first success of its target.
    pub(crate) fn judge(
        &self,
        response: &ObservedResponse,
        first: Option<&ObservedResponse>,
    ) -> Result<(), (FailureKind, String)> {
        if let Some(status) = response.status
            && !self.status.iter().any(|range| range.contains(&status))
        {
            return Err((FailureKind::Status, format!("status {status}")));
        }
        let length = match self.length {
            Length::First => first.map(|first| first.length),
            Length::Exactly(length) => Some(length),
            Length::Any => None,
        };
        if let Some(length) = length.filter(|length| *length != response.length) {
            return Err((
                FailureKind::Length,
                format!("{} bytes instead of {length}", response.length),
            ));
        }
        let hash = match self.body {
            BodyCheck::Any => None,
            BodyCheck::First => first.and_then(|first| first.hash),
            BodyCheck::Sha256(hash) => Some(hash),
        };
        match (hash, response.hash) {
            (Some(wanted), Some(hash)) if hash != wanted => Err((
                FailureKind::Body,
                "the right length, but other bytes".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// Hasher of a body, as it comes.
pub(crate) struct Hasher(digest::Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(digest::Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(self.0.finish().as_ref());
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(status: u16, length: u64) -> ObservedResponse {
        ObservedResponse {
            status: Some(status),
            length,
            hash: None,
        }
    }

    #[test]
    fn a_redirect_of_170_bytes_is_not_the_page() {
        let expect = Expect::default();
        let judge = |status, length| expect.judge(&page(status, length), Some(&page(200, 105_600)));
        assert_eq!(judge(200, 105_600), Ok(()));
        assert_eq!(judge(301, 170).unwrap_err().0, FailureKind::Status);
        assert_eq!(judge(404, 105_600).unwrap_err().0, FailureKind::Status);
        assert_eq!(
            judge(200, 170).unwrap_err(),
            (
                FailureKind::Length,
                "170 bytes instead of 105600".to_owned()
            )
        );
    }

    #[test]
    fn an_expectation_wins_over_the_first_response() {
        let first = page(200, 9);
        let expect = Expect {
            length: Length::Exactly(5),
            ..Expect::default()
        };
        assert_eq!(
            expect.judge(&page(200, 9), Some(&first)).unwrap_err().0,
            FailureKind::Length
        );
        let any = Expect {
            length: Length::Any,
            ..Expect::default()
        };
        assert_eq!(any.judge(&page(200, 1), Some(&first)), Ok(()));
    }

    #[test]
    fn other_bytes_of_the_same_length_are_found_by_their_hash() {
        let hash = |data: &[u8]| {
            let mut hasher = Hasher::new();
            hasher.update(data);
            Some(hasher.finish())
        };
        let response = |data: &[u8]| ObservedResponse {
            status: None,
            length: data.len() as u64,
            hash: hash(data),
        };
        let expect = Expect {
            body: BodyCheck::First,
            ..Expect::default()
        };
        assert!(expect.wants_hash());
        let first = response(b"one");
        assert_eq!(expect.judge(&first, None), Ok(()));
        assert_eq!(expect.judge(&response(b"one"), Some(&first)), Ok(()));
        assert_eq!(
            expect.judge(&response(b"two"), Some(&first)).unwrap_err().0,
            FailureKind::Body
        );
    }
}
