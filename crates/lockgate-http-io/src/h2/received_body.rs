//! The body of the peer's message on one stream: what its task has fetched, and the end.

use lockgate_http::fields::Fields;
use lockgate_http::h2::SectionError;

use super::stream_slot::StreamSlot;

/// The body that the task of a stream reads.
#[derive(Debug, Default)]
pub(super) struct ReceivedBody {
    /// Fetched data; it is used up to `used`.
    data: Vec<u8>,
    used: usize,
    /// Whether the message has ended with the fetched data.
    has_ended: bool,
    /// Whether there is no body: further data would belong to another protocol.
    is_held: bool,
    trailers: Option<Box<Fields>>,
    bytes_read: u64,
}

impl ReceivedBody {
    /// The body behind a head; `has_ended` where the head was the end.
    pub(super) fn new(has_ended: bool) -> Self {
        Self {
            has_ended,
            ..Self::default()
        }
    }

    /// Whether the message has ended with the fetched data.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Leaves further data where it is: it belongs to no body.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Reads on, after a switch of protocols.
    pub(super) fn release(&mut self) {
        self.is_held = false;
    }

    /// Whether nothing is here to be used, and something may follow.
    pub(super) fn needs_data(&self) -> bool {
        self.data().is_empty() && !self.has_no_more()
    }

    /// Fetches what has come behind the data that was used.
    ///
    /// # Errors
    /// Each time, when the trailers are malformed: nothing more of such a message is used, and it never
    /// ends (RFC 9113 §8.1.1).
    pub(super) fn fetch(&mut self, slot: &mut StreamSlot) -> Result<(), SectionError> {
        if let Some(Err(error)) = slot.trailers.as_deref() {
            return Err(*error);
        }
        (self.data, self.used) = (slot.take_data(), 0);
        self.has_ended = slot.has_ended;
        let trailers = slot.trailers.take().and_then(|trailers| trailers.ok());
        self.trailers = trailers.map(Box::new);
        Ok(())
    }

    /// The memory of the fetched data.
    pub(super) fn memory(&self) -> usize {
        self.data.capacity()
    }

    /// Data that was fetched and not used.
    pub(super) fn data(&self) -> &[u8] {
        self.data.get(self.used..).unwrap_or_default()
    }

    /// Uses `count` bytes of the data.
    pub(super) fn consume(&mut self, count: usize) {
        self.used = self.data.len().min(self.used + count);
        self.bytes_read += count as u64;
        if self.used == self.data.len() {
            (self.data, self.used) = (Vec::new(), 0);
        } else if self.used > self.data.len() / 2 {
            // Its windows are given back, so that as much may come again.
            self.data.drain(..self.used);
            self.data.shrink_to_fit();
            self.used = 0;
        }
    }

    /// Bytes of the data that were used so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Whether neither data nor trailers follow the fetched data.
    pub(super) fn is_last(&self) -> bool {
        self.has_no_more() && self.trailers.is_none()
    }

    /// Whether the body has ended, and all of its data was used.
    pub(super) fn is_complete(&self) -> bool {
        self.has_no_more() && self.data().is_empty()
    }

    /// The trailers that are forwarded, once the message has ended with some.
    pub(super) fn trailers(&self) -> Option<&Fields> {
        self.trailers.as_deref()
    }

    /// Whether no further data belongs to the body.
    fn has_no_more(&self) -> bool {
        self.has_ended || self.is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of which these pieces have come, and were used.
    fn body_after(pieces: &[&[u8]]) -> (ReceivedBody, StreamSlot) {
        let (mut body, mut slot) = (ReceivedBody::new(false), StreamSlot::new(false));
        for piece in pieces {
            slot.receive(piece, false);
            assert_eq!(body.fetch(&mut slot), Ok(()));
            body.consume(piece.len());
        }
        (body, slot)
    }

    #[test]
    fn data_is_used_piece_by_piece_until_the_end() {
        let (mut body, mut slot) = body_after(&[b"one", b"three"]);
        assert!(body.needs_data() && !body.is_last() && !body.is_complete());
        slot.receive(b"four", true);
        slot.has_ended = true;
        assert_eq!(body.fetch(&mut slot), Ok(()));
        assert_eq!((body.data(), body.bytes_read()), (&b"four"[..], 8));
        assert!(body.has_ended() && body.is_last() && !body.is_complete());
        body.consume(1);
        assert_eq!((body.data(), body.bytes_read()), (&b"our"[..], 9));
        body.consume(3);
        assert_eq!((body.data(), body.bytes_read()), (&b""[..], 12));
        assert!(body.is_complete() && !body.needs_data());
    }

    /// What was used counts against no window any more, so that as much may come again.
    #[test]
    fn the_memory_of_used_data_is_freed() {
        let (mut body, mut slot) = body_after(&[]);
        let data: Vec<u8> = (0..200).cycle().take(100_000).collect();
        slot.receive(&data, true);
        assert_eq!(body.fetch(&mut slot), Ok(()));
        body.consume(50_000);
        assert!(body.data == data, "half of it is not copied");
        body.consume(1);
        assert!(body.data == data[50_001..] && body.data() == body.data);
        assert!(body.data.capacity() < 50_100, "{}", body.data.capacity());
        body.consume(49_999);
        assert_eq!(body.data.capacity(), 0);
        assert_eq!(body.bytes_read(), 100_000);
    }

    #[test]
    fn trailers_follow_the_last_data() {
        let (mut body, mut slot) = body_after(&[b"data"]);
        let mut fields = Fields::default();
        fields.append(b"grpc-status", b"0");
        slot.receive(b"more", false);
        slot.trailers = Some(Box::new(Ok(fields)));
        slot.has_ended = true;
        assert_eq!(body.fetch(&mut slot), Ok(()));
        assert!(!body.is_last() && !body.is_complete());
        body.consume(4);
        assert!(!body.is_last() && body.is_complete());
        let status = body
            .trailers()
            .and_then(|all| all.named(b"grpc-status").next());
        assert_eq!(status, Some(&b"0"[..]));
    }

    /// RFC 9113 §8.1.1: otherwise the next poll would take the front of the message for the whole.
    #[test]
    fn a_body_with_malformed_trailers_never_ends() {
        let (mut body, mut slot) = body_after(&[b"data"]);
        slot.receive(b"more", false);
        slot.trailers = Some(Box::new(Err(SectionError::ConnectionField)));
        slot.has_ended = true;
        for _ in 0..2 {
            assert_eq!(body.fetch(&mut slot), Err(SectionError::ConnectionField));
            assert!(body.data().is_empty() && body.trailers().is_none());
            assert!(!body.has_ended() && !body.is_last() && !body.is_complete());
        }
    }

    /// RFC 9110 §7.8: bytes behind a handshake belong to the other protocol.
    #[test]
    fn data_that_is_held_is_read_after_the_switch() {
        let (mut body, mut slot) = body_after(&[]);
        body.hold();
        assert!(body.is_last() && body.is_complete() && !body.needs_data());
        body.release();
        assert!(body.needs_data() && !body.is_last() && !body.is_complete());
        slot.receive(b"frame", false);
        assert_eq!(body.fetch(&mut slot), Ok(()));
        assert_eq!(body.data(), b"frame");
    }

    #[test]
    fn a_message_without_a_body_is_complete_at_once() {
        let body = ReceivedBody::new(true);
        assert!(body.has_ended() && body.is_last() && body.is_complete());
        assert!(body.trailers().is_none());
    }
}
