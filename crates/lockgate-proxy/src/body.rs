//! Bodies of messages, whatever HTTP they come in: as they come and as they go.
//!
//! Everything is polled and may be dropped between two polls: what was received and not used stays
//! where it is.

use std::fmt;
use std::task::{Context, Poll};

use bytes::Bytes;
use lockgate_content::change::ChangeError;
use lockgate_content::coding::DecodeError;
use lockgate_http::fields::{Field, Fields};
use lockgate_http::h1::HeadError;
use lockgate_http::h1::body::BodyError;
use lockgate_http::h1::framing::FramingError;
use lockgate_http::h2::{HeadError as SectionError, frames};
use lockgate_net::stream::StreamError;

/// Why a stream of HTTP/2 ended before its time, or the connection that it was on (RFC 9113 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// The error code; none where the connection has broken.
    pub code: Option<u32>,
    /// Whether the peer says so.
    pub by_peer: bool,
    /// Whether it is certain that nothing was done for the request (RFC 9113 §8.7).
    pub unprocessed: bool,
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = self.code else {
            return f.write_str("the connection has broken");
        };
        let name = frames::error_name(code).unwrap_or("an unknown error");
        if self.by_peer {
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
    /// What came is not in the coding that was said.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// What comes out is too much.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection has broken.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Its stream has.
    #[error(transparent)]
    Reset(#[from] Reset),
    /// Its head is refused.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The field section that is its head in HTTP/2 is refused.
    #[error(transparent)]
    Section(#[from] SectionError),
    /// How long its body is, is not certain.
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
    /// Its stream has.
    #[error(transparent)]
    Reset(#[from] Reset),
}

/// A body that comes. Data is lent from where it was received.
pub trait BodyReader {
    /// Completes when there is [`data`](Self::data), or none follows.
    ///
    /// # Errors
    /// When it is no body, or does not come to its end, or is longer than it may be.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>>;

    /// Data that has come and was not used.
    fn data(&self) -> &[u8];

    /// Lets go of so much of it.
    fn consume(&mut self, count: usize);

    /// Whether neither data nor trailers follow what has come.
    fn is_last(&self) -> bool;

    /// Whether the body has come to its end and all of its data was used.
    fn is_complete(&self) -> bool;

    /// How much of the data was used so far.
    fn bytes_read(&self) -> u64;

    /// What goes on of the trailers of a body that has ended, if it had some.
    fn trailers(&self) -> Option<&Fields>;

    /// Gives memory back while whoever takes the data is waited for.
    fn release_memory(&mut self, cx: &mut Context<'_>);
}

/// A message that goes, behind its head.
pub trait BodyWriter {
    /// Takes data of the body and says how much of it; `last` when none follows.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>>;

    /// The same of data that is shared, which some need not copy.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_write_shared(
        &mut self,
        cx: &mut Context<'_>,
        data: &Bytes,
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        self.poll_write(cx, data, last)
    }

    /// Completes when nothing that was taken waits here for room: what would be read meanwhile
    /// would only be held. One that keeps nothing itself always has room.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_sent(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the body, with those of the trailers that `passes` says yes to.
    fn finish(&mut self, trailers: Option<&Fields>, passes: impl FnMut(&Field<'_>) -> bool);

    /// Completes when everything that was taken has left.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>>;

    /// Whether the whole message was taken; it may still have to be flushed.
    fn is_finished(&self) -> bool;

    /// Whether the other side is waited for: it takes nothing now.
    fn is_blocked(&self) -> bool;

    /// How much of the body's data was taken so far.
    fn bytes_written(&self) -> u64;

    /// Completes when the other side is gone, and has not only said all that it had to say. Where
    /// these look the same, as on a connection of HTTP/1, it does not.
    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// One end of what both sides have switched to (RFC 9110 §7.8): bytes both ways, each way until its
/// end.
pub trait Tunnel: BodyReader + BodyWriter {
    /// Begins it, behind the heads of both messages.
    ///
    /// # Errors
    /// When what has come cannot be a part of it.
    fn begin_tunnel(&mut self) -> Result<(), ReadError>;

    /// Completes when the peer was told that nothing more comes, after [`BodyWriter::finish`].
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>>;
}
