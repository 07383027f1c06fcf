//! Whether a connection of HTTP/2 waits for the rest of a message, by its events: a peer with
//! Nagle's algorithm may hold the rest back until the first part is acknowledged
//! (`lockgate_net::acknowledge`).

use lockgate_net::socket::ACKS_PER_MESSAGE;

/// The stream of the last received head, unless that ended the message.
///
/// One is enough: an acknowledgement covers all received bytes of the connection. Only its first
/// pieces are waited for, since a stream that carries messages of its own (gRPC, a WebSocket) never
/// ends and mostly waits for nothing.
#[derive(Debug, Default)]
pub(super) struct PartialMessage(Option<Message>);

#[derive(Debug)]
struct Message {
    stream: u32,
    /// Pieces of it that were acknowledged at once.
    told: u8,
}

impl PartialMessage {
    /// Notes a received head that did not end its message.
    pub(super) fn begin(&mut self, stream: u32) {
        self.0 = Some(Message { stream, told: 0 });
    }

    /// Notes the end of the message on a stream.
    pub(super) fn end(&mut self, stream: u32) {
        if self
            .0
            .as_ref()
            .is_some_and(|message| message.stream == stream)
        {
            self.0 = None;
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|message| message.told < ACKS_PER_MESSAGE)
    }

    /// Notes that its received part was acknowledged at once.
    pub(super) fn acknowledged(&mut self) {
        if let Some(message) = &mut self.0 {
            message.told = message.told.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §8.1.
    #[test]
    fn an_h2_message_is_unfinished_until_its_end() {
        let mut partial_message = PartialMessage::default();
        assert!(!partial_message.is_awaited());
        partial_message.begin(1);
        assert!(partial_message.is_awaited());
        // The end of another one.
        partial_message.end(3);
        assert!(partial_message.is_awaited());
        partial_message.end(1);
        assert!(!partial_message.is_awaited());
    }

    #[test]
    fn only_the_first_pieces_of_an_unfinished_message_are_acknowledged() {
        let mut partial_message = PartialMessage::default();
        partial_message.begin(1);
        for _ in 0..ACKS_PER_MESSAGE {
            assert!(partial_message.is_awaited());
            partial_message.acknowledged();
        }
        assert!(!partial_message.is_awaited());
    }
}
