//! A body to read on a stream of HTTP/2.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use lockgate_http::fields::Fields;
use lockgate_http::h1::HeadLimits;

use super::heads;
use crate::body::{ReadError, Reset};

/// Unread data frames below this size are joined: the crate holds some 500 bytes for each frame,
/// and ends the connection with all streams when it holds too many short ones.
const SHORT: usize = 1024;

/// The message from the peer on one stream, behind its head.
#[derive(Debug)]
pub(super) struct Incoming {
    stream: RecvStream,
    /// Received data that was not consumed.
    data: Bytes,
    /// Data behind it, the short frames at its end in `short`.
    more: VecDeque<Bytes>,
    short: BytesMut,
    /// Whether the stream has ended, trailers included.
    ended: bool,
    /// Whether further data is no body, but belongs to the protocol after a switch.
    held: bool,
    trailers: Fields,
    limits: HeadLimits,
    taken: u64,
}

impl Incoming {
    /// The body behind a received head, with trailers up to `limits`.
    pub(super) fn new(stream: RecvStream, limits: HeadLimits) -> Self {
        let ended = stream.is_end_stream();
        let (data, more, short, trailers) = Default::default();
        Self {
            stream,
            data,
            more,
            short,
            ended,
            held: false,
            trailers,
            limits,
            taken: 0,
        }
    }

    /// Notes that there is no body: further data belongs to another protocol.
    pub(super) fn hold(&mut self) {
        self.held = !self.ended;
    }

    /// Whether the stream has ended, as far as its frames were handled.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        while self.data.is_empty() && !self.has_ended() {
            if self.next() {
                break;
            }
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    self.data = data;
                    self.ended = self.stream.is_end_stream();
                }
                Some(Err(error)) => return Poll::Ready(Err(Reset::from(&error).into())),
                None => {
                    let trailers = ready!(self.stream.poll_trailers(cx));
                    if let Some(trailers) = trailers.map_err(|error| Reset::from(&error))? {
                        heads::decode_trailers(&trailers, &self.limits, &mut self.trailers)?;
                    }
                    self.ended = true;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes data from the crate behind data that is not consumed yet.
    pub(super) fn gather(&mut self, cx: &mut Context<'_>) {
        // Errors and trailers are reported when the data was consumed.
        while let Poll::Ready(Some(Ok(data))) = self.stream.poll_data(cx) {
            if data.len() < SHORT {
                self.short.extend_from_slice(&data);
                continue;
            }
            if !self.short.is_empty() {
                self.more.push_back(self.short.split().freeze());
            }
            self.more.push_back(data);
        }
    }

    /// Goes on to gathered data, if there is any.
    fn next(&mut self) -> bool {
        self.data = self
            .more
            .pop_front()
            .unwrap_or_else(|| self.short.split().freeze());
        if self.more.is_empty() && self.short.is_empty() {
            self.ended |= !self.data.is_empty() && self.stream.is_end_stream();
        }
        !self.data.is_empty()
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Consumes data, and opens the peer's window again.
    pub(super) fn consume(&mut self, count: usize) {
        self.data.advance(count);
        self.taken += count as u64;
        // It fails for a stream that is gone, where the window does not matter.
        let _ = self.stream.flow_control().release_capacity(count);
    }

    fn has_ended(&self) -> bool {
        self.ended || self.held
    }

    pub(super) fn is_last(&self) -> bool {
        self.has_ended() && self.trailers.is_empty()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.has_ended() && self.data.is_empty()
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.taken
    }

    pub(super) fn trailers(&self) -> Option<&Fields> {
        Some(&self.trailers).filter(|trailers| self.ended && !trailers.is_empty())
    }
}
