//! Whether a connection of HTTP/2 waits for the rest of a message, by its frames: a peer with
//! Nagle's algorithm may hold the rest back until the first part is acknowledged
//! (`lockgate_net::acknowledge`).

use lockgate_http::h2::frames::{self, Frame};
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
    pub(super) fn observe(&mut self, frame: &Frame<'_>) {
        let ends = match frame.kind {
            frames::HEADERS | frames::DATA => frame.flags & frames::END_STREAM != 0,
            frames::RST_STREAM => true,
            _ => return,
        };
        if ends {
            self.end(frame.stream);
        } else if frame.kind == frames::HEADERS {
            self.begin(frame.stream);
        }
    }

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

    fn seen(frames: &[(u8, u8, u32)]) -> PartialMessage {
        let mut partial_message = PartialMessage::default();
        for &(kind, flags, stream) in frames {
            partial_message.observe(&Frame {
                kind,
                flags,
                stream,
                length: 1,
                payload: b"",
            });
        }
        partial_message
    }

    /// RFC 9113 §8.1.
    #[test]
    fn an_h2_message_is_unfinished_until_end_stream() {
        use frames::{DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE};
        for (frames, partial_message) in [
            (&[(SETTINGS, 0, 0), (WINDOW_UPDATE, 0, 0)][..], false),
            (&[(HEADERS, END_HEADERS | END_STREAM, 1)], false),
            (&[(HEADERS, END_HEADERS, 1)], true),
            (&[(HEADERS, END_HEADERS, 1), (DATA, 0, 1)], true),
            (&[(HEADERS, END_HEADERS, 1), (DATA, END_STREAM, 1)], false),
            (
                &[
                    (HEADERS, END_HEADERS, 1),
                    (DATA, 0, 1),
                    (HEADERS, END_STREAM, 1),
                ],
                false,
            ),
            (&[(HEADERS, END_HEADERS, 1), (RST_STREAM, 0, 1)], false),
            // The end of another one.
            (
                &[
                    (HEADERS, END_HEADERS, 1),
                    (HEADERS, END_STREAM, 3),
                    (DATA, END_STREAM, 5),
                ],
                true,
            ),
            // Of flags that mean something else there.
            (
                &[(HEADERS, END_HEADERS, 1), (SETTINGS, frames::ACK, 0)],
                true,
            ),
        ] {
            assert_eq!(seen(frames).is_awaited(), partial_message, "{frames:?}");
        }
    }

    #[test]
    fn only_the_first_pieces_of_an_unfinished_message_are_acknowledged() {
        let mut partial_message = seen(&[(frames::HEADERS, frames::END_HEADERS, 1)]);
        for _ in 0..ACKS_PER_MESSAGE {
            assert!(partial_message.is_awaited());
            partial_message.acknowledged();
            partial_message.observe(&Frame {
                kind: frames::DATA,
                flags: 0,
                stream: 1,
                length: 1,
                payload: b"",
            });
        }
        assert!(!partial_message.is_awaited());
    }
}
