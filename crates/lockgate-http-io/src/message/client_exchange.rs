//! The client's side of an exchange over either HTTP.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use lockgate_http::head::{BodyLength, RequestHead, ResponseHead};

use crate::body::{BodyReader, BodyWriter, ReadError, WriteError};

/// Whether a client's connection takes another request after a response (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// The connection takes another request.
    KeepAlive,
    /// The response is its last.
    Close,
}

impl Persistence {
    /// Keep-alive if `condition` holds.
    pub fn when(condition: bool) -> Self {
        if condition {
            Self::KeepAlive
        } else {
            Self::Close
        }
    }

    /// Keep-alive only if `condition` holds too.
    pub fn and(self, condition: bool) -> Self {
        Self::when(self.is_kept() && condition)
    }

    /// Whether the connection takes another request.
    pub fn is_kept(self) -> bool {
        self == Self::KeepAlive
    }
}

/// The client's side of one exchange: the request's body comes from it, the response goes to it.
///
/// Dropped before the response is complete, it aborts the response: the client never takes a part
/// for the whole.
pub trait ClientExchange: BodyReader + BodyWriter {
    /// Completes when the client has gone: over HTTP/1 with the end of its connection, where
    /// [`poll_broken`](BodyWriter::poll_broken) never completes, over HTTP/2 with the reset of its stream.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The local address of the client's connection, as the kernel has it.
    fn local_address(&self) -> Option<SocketAddr>;

    /// Begins the body of the request with this head, and returns its length.
    ///
    /// # Errors
    /// When the length is ambiguous, or the received bytes are no such body.
    fn begin_request(&mut self, head: &RequestHead) -> Result<BodyLength, ReadError>;

    /// Refuses the body once more than `most` bytes of data were received.
    fn limit_body(&mut self, most: u64);

    /// Writes an interim response (RFC 9110 §15.2), which leaves by a flush, and over HTTP/2 by itself.
    fn interim(&mut self, request: &RequestHead, response: &ResponseHead);

    /// Begins the response. Over HTTP/1 it leaves with the first data or by a flush, over HTTP/2 in the
    /// connection's next turn.
    fn respond(
        &mut self,
        request: &RequestHead,
        response: &ResponseHead,
        length: BodyLength,
        persistence: Persistence,
    );

    /// Completes when data of the response would be taken now: data is read no earlier than needed.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>>;

    /// Whether [`poll_send_file`](Self::poll_send_file) may send a file.
    fn supports_sendfile(&self) -> bool;

    /// Sends data of the body from a file by the kernel, up to `len` bytes from `offset` on, and
    /// returns how many; `last` when none follows. `None` where the kernel cannot: then the caller
    /// reads the file.
    ///
    /// # Errors
    /// When the connection has broken, or the file cannot be read.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        part: (BorrowedFd<'_>, u64, usize),
        last: bool,
    ) -> Poll<Result<Option<usize>, WriteError>>;

    /// Writes the response that ends HTTP on this connection, and which leaves by a flush.
    fn switch(&mut self, request: &RequestHead, response: &ResponseHead);

    /// Drops the unsent part of a response that is given up.
    fn discard(&mut self);

    /// Completes when all taken data of a response has left, or cannot leave: an abort must not
    /// overtake it.
    fn poll_all_sent(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Makes certain that the client does not take the sent part for the whole, and that no unsent
    /// data is kept for it.
    fn abort(&mut self);
}
