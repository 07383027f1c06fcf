//! Bodies of messages over either HTTP: one to read, one to write.
//!
//! Everything is polled and may be dropped between two polls: what was received and not used stays
//! where it is.

use std::fmt;
use std::task::{Context, Poll};

use lockgate_content::change::ChangeError;
use lockgate_content::coding::DecodeError;
use lockgate_http::fields::{Field, Fields};
use lockgate_http::h1::HeadError;
use lockgate_http::h1::body::BodyError;
use lockgate_http::h1::framing::FramingError;
use lockgate_http::h2::{SectionError, StreamFault, StreamReset, frames};
use lockgate_net::stream::StreamError;

/// The reset of an HTTP/2 stream, or the loss of its connection (RFC 9113 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// The error code; none where the connection has broken.
    pub code: Option<u32>,
    /// The peer's violation for which we have reset it.
    pub fault: Option<StreamFault>,
    /// Whether the peer has sent it.
    pub by_peer: bool,
    /// Whether the request was certainly not processed (RFC 9113 §8.7).
    pub unprocessed: bool,
}

impl From<StreamReset> for Reset {
    fn from(reset: StreamReset) -> Self {
        Self {
            code: Some(reset.code),
            fault: reset.fault,
            by_peer: reset.fault.is_none(),
            unprocessed: reset.unprocessed,
        }
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = self.code else {
            return f.write_str("the connection has broken");
        };
        let name = frames::error_words(code);
        if let Some(fault) = self.fault {
            write!(f, "{fault}: {name}")
        } else if self.by_peer {
            write!(f, "reset: {name}")
        } else {
            f.write_str(name)
        }
    }
}

impl std::error::Error for Reset {}

/// Why a body cannot be transformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// The body is not in the coding that its head names.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The changed body would be too large.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection has broken.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Its HTTP/2 stream was reset.
    #[error(transparent)]
    Reset(#[from] Reset),
    /// Its head is refused.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The field section that is its head in HTTP/2 is refused.
    #[error(transparent)]
    Section(#[from] SectionError),
    /// The length of its body is ambiguous.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// Its body is refused.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Its body cannot be changed or decoded as it should be.
    #[error(transparent)]
    Transform(#[from] TransformError),
    /// The connection has ended in the middle of it.
    #[error("ended in the middle of a message")]
    Cut,
    /// Its body is longer than it may be.
    #[error("the body is longer than it may be")]
    TooLong,
}

/// Why a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The connection has broken.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Its HTTP/2 stream was reset.
    #[error(transparent)]
    Reset(#[from] Reset),
}

/// A body to read. Data is lent from the buffer that received it.
pub trait BodyReader {
    /// Completes when there is [`data`](Self::data), or none follows.
    ///
    /// # Errors
    /// When it is no body, or does not come to its end, or is longer than it may be.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>>;

    /// Data that was received and not consumed.
    fn data(&self) -> &[u8];

    /// Consumes `count` bytes of the data.
    fn consume(&mut self, count: usize);

    /// Whether neither data nor trailers follow the received data.
    fn is_last(&self) -> bool;

    /// Whether the body has ended and all of its data was consumed.
    fn is_complete(&self) -> bool;

    /// Bytes of the data that were consumed so far.
    fn bytes_read(&self) -> u64;

    /// The end-to-end trailers of a body that has ended, if it had some.
    fn trailers(&self) -> Option<&Fields>;

    /// Gives memory back while the writer of the data waits for its peer.
    fn release_memory(&mut self, cx: &mut Context<'_>);
}

/// A message to write, behind its head.
pub trait BodyWriter {
    /// Takes data of the body and returns how many bytes of it; `last` when none follows.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>>;

    /// Completes when no taken data waits here for room: data that is read meanwhile would only be
    /// buffered. A writer without a buffer of its own always has room.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_sent(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the body, with the trailers that `passes` accepts.
    fn finish(&mut self, trailers: Option<&Fields>, passes: impl FnMut(&Field<'_>) -> bool);

    /// Completes when no taken data waits in this writer: over HTTP/1 it has left then, over HTTP/2 it is
    /// the connection's to send.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>>;

    /// Whether the whole message was taken; it may still have to be flushed.
    fn is_finished(&self) -> bool;

    /// Whether the peer is waited for: it takes nothing now.
    fn is_blocked(&self) -> bool;

    /// Bytes of the body's data that were taken so far.
    fn bytes_written(&self) -> u64;

    /// Completes when the peer is gone, and has not only ended its own message. Where the two look
    /// the same, as on a connection of HTTP/1, it never does.
    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// One end of a connection that has switched protocols (RFC 9110 §7.8): bytes both ways, each way
/// until its end.
pub trait Tunnel: BodyReader + BodyWriter {
    /// Begins the tunnel, behind the heads of both messages.
    ///
    /// # Errors
    /// When the received bytes cannot be a part of it.
    fn begin_tunnel(&mut self) -> Result<(), ReadError>;

    /// Completes when the peer was told of the end, after [`BodyWriter::finish`].
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>>;
}
