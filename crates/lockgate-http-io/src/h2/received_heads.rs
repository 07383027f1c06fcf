//! The heads of a response that have come on one stream, until its task fetches them.

use std::collections::VecDeque;

use lockgate_http::fields::Fields;
use lockgate_http::h2::SectionError;
use lockgate_http::head::ResponseHead;

/// The most interim responses that are received on one stream.
const MOST_INTERIM_RECEIVED: u32 = 64;
/// The most bytes of interim responses that are held for one stream, counted as RFC 9113 §6.5.2 does:
/// they are under no flow control, and a client that reads none of them would make us hold all.
const HELD: usize = 64 * 1024;

/// The heads of one response that were not fetched.
#[derive(Debug, Default)]
pub(super) struct ReceivedHeads {
    interim: VecDeque<ResponseHead>,
    /// The interim ones so far.
    seen: u32,
    /// The bytes of those that were not fetched.
    held: usize,
    last: Option<Result<ResponseHead, SectionError>>,
}

/// More interim responses than we hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyInterim;

impl ReceivedHeads {
    /// Adds the head of an interim response (RFC 9110 §15.2).
    ///
    /// # Errors
    /// When there are too many of them, or what was not fetched is too much.
    pub(super) fn add_interim(&mut self, head: ResponseHead) -> Result<(), TooManyInterim> {
        self.seen += 1;
        self.held += size(&head.fields);
        if self.seen > MOST_INTERIM_RECEIVED || self.held > HELD {
            return Err(TooManyInterim);
        }
        self.interim.push_back(head);
        Ok(())
    }

    /// Adds the last head, or the reason why a head is malformed.
    pub(super) fn add_last(&mut self, head: Result<ResponseHead, SectionError>) {
        self.last = Some(head);
    }

    /// Whether the last head is there.
    pub(super) fn has_last(&self) -> bool {
        self.last.is_some()
    }

    /// Fetches the next head.
    pub(super) fn fetch(&mut self) -> Option<Result<ResponseHead, SectionError>> {
        if let Some(head) = self.interim.pop_front() {
            self.held -= size(&head.fields);
            return Some(Ok(head));
        }
        self.last.take()
    }
}

/// The size of fields as RFC 9113 §6.5.2 counts it.
fn size(fields: &Fields) -> usize {
    let sizes = fields
        .iter()
        .map(|field| field.name.len() + field.value.len() + 32);
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, length: usize) -> ResponseHead {
        let mut head = ResponseHead::of(status);
        head.fields.append(b"link", &vec![b'x'; length]);
        head
    }

    #[test]
    fn heads_are_fetched_in_their_order() {
        let mut heads = ReceivedHeads::default();
        for status in [100, 103] {
            heads.add_interim(head(status, 10)).unwrap();
        }
        assert!(!heads.has_last());
        heads.add_last(Ok(head(200, 10)));
        assert!(heads.has_last());
        let fetched: Vec<_> = std::iter::from_fn(|| heads.fetch()).collect();
        let statuses: Vec<_> = fetched
            .into_iter()
            .map(|head| head.map(|head| head.status))
            .collect();
        assert_eq!(statuses, [Ok(100), Ok(103), Ok(200)]);
        assert_eq!((heads.held, heads.has_last()), (0, false));
    }

    #[test]
    fn interim_responses_are_bounded_by_number_and_bytes() {
        let mut heads = ReceivedHeads::default();
        for _ in 0..MOST_INTERIM_RECEIVED {
            heads.add_interim(head(103, 10)).unwrap();
            assert!(heads.fetch().is_some());
        }
        assert_eq!(heads.add_interim(head(103, 10)), Err(TooManyInterim));
        let mut heads = ReceivedHeads::default();
        heads.add_interim(head(103, 60_000)).unwrap();
        assert_eq!(heads.add_interim(head(103, 10_000)), Err(TooManyInterim));
        let mut heads = ReceivedHeads::default();
        for _ in 0..10 {
            heads.add_interim(head(103, 60_000)).unwrap();
            assert!(heads.fetch().is_some(), "fetched ones take no room");
        }
    }
}
