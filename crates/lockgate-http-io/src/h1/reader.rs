//! The reader of HTTP/1 messages: a head, then the data of its body.
//!
//! Data is lent from the buffer that received it. Chunks of one read are moved together there, so
//! that they are one piece of data.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll};

use lockgate_http::fields::Fields;
use lockgate_http::forwarding;
use lockgate_http::h1::body::{BodyDecoder, BodyPart};
use lockgate_http::h1::parse::HeadProgress;
use lockgate_http::h1::{HeadError, HeadLimits};
use lockgate_http::head::BodyLength;
use lockgate_net::acknowledge::ReadPauses;
use lockgate_net::stream::{BufferPool, ReadBuffer, Stream};

use crate::body::ReadError;

/// The messages from the peer of one connection.
#[derive(Debug)]
pub struct MessageReader {
    inbox: ReadBuffer,
    progress: HeadProgress,
    decoder: BodyDecoder,
    /// Decoded data of the body that was not consumed; from the front of the inbox on.
    data: Range<usize>,
    /// The offset in the inbox of the bytes that are not decoded yet.
    behind: usize,
    ended: bool,
    /// Those of a body that has ended, where it had some: few have.
    trailers: Option<Box<Fields>>,
    limits: HeadLimits,
    taken: u64,
    /// The most bytes of data that the body may have.
    max_length: u64,
    /// The peer's pauses, where the body is a tunnel.
    tunnel: Option<Box<ReadPauses>>,
}

impl MessageReader {
    /// A reader that has read `received`.
    pub fn new(blocks: &Rc<BufferPool>, received: &[u8]) -> Self {
        let mut inbox = ReadBuffer::new(blocks);
        inbox.extend(received);
        Self {
            inbox,
            progress: HeadProgress::default(),
            decoder: BodyDecoder::new(BodyLength::Empty),
            data: 0..0,
            behind: 0,
            ended: true,
            trailers: None,
            limits: HeadLimits::default(),
            taken: 0,
            max_length: u64::MAX,
            tunnel: None,
        }
    }

    /// Sets the limits of the messages that follow.
    pub fn set_limits(&mut self, limits: HeadLimits) {
        self.limits = limits;
    }

    /// Whether received bytes are unused: behind a message that has ended, those of the next one.
    pub fn holds_bytes(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether the next message has begun: an empty line before it does not count (RFC 9112 §2.2).
    pub fn has_begun(&self) -> bool {
        !matches!(self.inbox.bytes(), [] | [b'\r'] | [b'\r', b'\n'])
    }

    /// Whether the body has ended and all of its data was consumed.
    pub fn has_ended(&self) -> bool {
        self.ended && self.data.is_empty()
    }

    /// Bytes of the body's data that were consumed so far.
    pub fn bytes_read(&self) -> u64 {
        self.taken
    }

    /// The end-to-end trailers of a body that has ended, if it had some.
    pub fn trailers(&self) -> Option<&Fields> {
        self.trailers.as_deref()
    }

    /// Takes the unused bytes, as the first of another protocol.
    pub fn take_received(&mut self) -> Vec<u8> {
        let received = self.inbox.bytes().to_vec();
        self.inbox.consume(received.len());
        received
    }

    /// Reads until `parse` has a complete head; `false` when the connection ended before the head
    /// began.
    ///
    /// # Errors
    /// When the head is refused, or the connection ends within it.
    pub fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        mut parse: impl FnMut(&[u8], &mut HeadProgress, &HeadLimits) -> Result<Option<usize>, HeadError>,
    ) -> Poll<Result<bool, ReadError>> {
        loop {
            if !self.inbox.is_empty()
                && let Some(used) = parse(self.inbox.bytes(), &mut self.progress, &self.limits)?
            {
                self.inbox.consume(used);
                return Poll::Ready(Ok(true));
            }
            match stream.poll_read(cx, &mut self.inbox) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) if !self.has_begun() => return Poll::Ready(Ok(false)),
                Poll::Ready(Ok(false)) => return Poll::Ready(Err(ReadError::Cut)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => {
                    // Behind a part of a head, or behind a handshake or PROXY header.
                    stream.await_rest();
                    self.inbox.release_block();
                    return Poll::Pending;
                }
            }
        }
    }

    /// Begins a body of that length, a part of which may have come with the head.
    ///
    /// # Errors
    /// When the received bytes are no such body.
    pub fn begin_body(&mut self, length: BodyLength) -> Result<(), ReadError> {
        self.decoder = BodyDecoder::new(length);
        self.data = 0..0;
        self.behind = 0;
        self.ended = self.decoder.has_ended();
        self.trailers = None;
        self.taken = 0;
        self.max_length = u64::MAX;
        if self.ended { Ok(()) } else { self.decode() }
    }

    /// Begins a tunnel: bytes without framing.
    ///
    /// # Errors
    /// Never, since such a body takes any bytes.
    pub fn begin_tunnel(&mut self) -> Result<(), ReadError> {
        self.tunnel = Some(Box::default());
        self.begin_body(BodyLength::UntilClose)
    }

    /// Refuses the body once more than `max_length` bytes of data were received.
    pub fn limit_body(&mut self, max_length: u64) {
        self.max_length = max_length;
    }

    /// Completes when there is [`data`](Self::data), or none follows.
    ///
    /// # Errors
    /// When the bytes are no such body, the connection ends within it, or it is too long: then
    /// before the excess is lent, so that the receiver of the body never sees its end.
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<Result<(), ReadError>> {
        while self.data.is_empty() && !self.ended {
            let read = match self.decoder.remaining() {
                Some(left) => stream.poll_read_body(cx, &mut self.inbox, left),
                None => stream.poll_read(cx, &mut self.inbox),
            };
            match read {
                Poll::Ready(Ok(true)) => {
                    if let Some(pauses) = &mut self.tunnel {
                        pauses.note(stream.socket(), None);
                    }
                    self.decode()?;
                }
                Poll::Ready(Ok(false)) if self.decoder.may_close() => self.ended = true,
                Poll::Ready(Ok(false)) => return Poll::Ready(Err(ReadError::Cut)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => {
                    if self.tunnel.is_none() {
                        stream.await_rest();
                    }
                    self.inbox.release_block();
                    return Poll::Pending;
                }
            }
        }
        if self.ended {
            stream.end_full_reads();
        }
        if self.data.len() as u64 > self.max_length.saturating_sub(self.taken) {
            return Poll::Ready(Err(ReadError::TooLong));
        }
        Poll::Ready(Ok(()))
    }

    /// Received data of the body.
    pub fn data(&self) -> &[u8] {
        &self.inbox.bytes()[self.data.clone()]
    }

    /// Whether neither data nor trailers follow the received data.
    pub fn is_last(&self) -> bool {
        self.ended && self.trailers().is_none()
    }

    /// Consumes `count` bytes of the data.
    pub fn consume(&mut self, count: usize) {
        self.data.start = (self.data.start + count).min(self.data.end);
        self.taken += count as u64;
        if self.data.is_empty() {
            self.inbox.consume(self.behind);
            self.data = 0..0;
            self.behind = 0;
        }
    }

    /// Gives memory back while the receiver of the data is waited for.
    pub fn release_memory(&mut self) {
        self.inbox.release_block();
    }

    /// Decodes the received bytes.
    fn decode(&mut self) -> Result<(), ReadError> {
        let mut trailers = Fields::default();
        loop {
            let coming = &self.inbox.bytes()[self.behind..];
            let part = self.decoder.decode(coming, &self.limits, &mut trailers)?;
            match part {
                BodyPart::Data(range) => {
                    let (from, to) = (self.behind + range.start, self.behind + range.end);
                    if self.data.is_empty() {
                        self.data = from..to;
                    } else {
                        self.inbox.bytes_mut().copy_within(from..to, self.data.end);
                        self.data.end += to - from;
                    }
                    self.behind = to;
                }
                BodyPart::More(used) => {
                    self.behind += used;
                    break;
                }
                BodyPart::End(used) => {
                    trailers.retain(|field| forwarding::passes_in_trailers(&field));
                    self.trailers = (!trailers.is_empty()).then(|| Box::new(trailers));
                    self.behind += used;
                    self.ended = true;
                    break;
                }
            }
        }
        if self.data.is_empty() {
            self.inbox.consume(self.behind);
            self.behind = 0;
        }
        Ok(())
    }
}
