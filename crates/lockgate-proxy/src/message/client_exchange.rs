//! The client's side of an exchange, whatever HTTP the client speaks.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use lockgate_http::head::{BodyLength, RequestHead, ResponseHead};

use crate::body::{ReadError, BodyWriter, BodyReader, WriteError};

/// Whether a client's connection takes another request after a response (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// It does.
    KeepAlive,
    /// The response is its last.
    Close,
}

impl Persistence {
    /// Keep-alive on this condition.
    pub fn when(condition: bool) -> Self {
        if condition {
            Self::KeepAlive
        } else {
            Self::Close
        }
    }

    /// The same, on another condition too.
    pub fn and(self, condition: bool) -> Self {
        Self::when(self.is_kept() && condition)
    }

    /// Whether the connection takes another request.
    pub fn is_kept(self) -> bool {
        self == Self::KeepAlive
    }
}

/// The way back to a client, and that of the request's body from it.
///
/// Dropped before the answer was whole, it breaks the answer off: the client never takes a part for
/// the whole.
pub trait ClientExchange: BodyReader + BodyWriter {
    /// Completes when the client has gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The address that the client has connected to, as the kernel has it.
    fn local_address(&self) -> Option<SocketAddr>;

    /// Begins the body of the request that has this head, and says how long it is.
    ///
    /// # Errors
    /// When that is not certain, or what has come is no such body.
    fn begin_request(&mut self, head: &RequestHead) -> Result<BodyLength, ReadError>;

    /// Refuses the body once more than `most` bytes of data have come.
    fn limit_body(&mut self, most: u64);

    /// Writes an answer before the answer (RFC 9110 §15.2), which leaves by a flush.
    fn interim(&mut self, request: &RequestHead, answer: &ResponseHead);

    /// Begins the answer, which leaves with the first data or by a flush.
    fn respond(
        &mut self,
        request: &RequestHead,
        answer: &ResponseHead,
        length: BodyLength,
        persistence: Persistence,
    );

    /// Completes when data of the answer would be taken now: what can be read later is not read
    /// before.
    ///
    /// # Errors
    /// When the connection has broken.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>>;

    /// Whether [`poll_file`](Self::poll_file) takes any.
    fn supports_sendfile(&self) -> bool;

    /// Takes data of the body from a file, up to `len` bytes from `offset` on, that does not pass
    /// through us, and says how much; `last` when none follows. `None` where it must pass
    /// through us: then it is to be read.
    ///
    /// # Errors
    /// When the connection has broken, or the file cannot be read.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        part: (BorrowedFd<'_>, u64, usize),
        last: bool,
    ) -> Poll<Result<Option<usize>, WriteError>>;

    /// Writes the answer after which both speak something else, and which leaves by a flush.
    fn switch(&mut self, request: &RequestHead, answer: &ResponseHead);

    /// Forgets what was not sent of an answer that is given up.
    fn discard(&mut self);

    /// Completes when all that was taken of an answer has left, or cannot: what breaks it off must
    /// not overtake it.
    fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Makes certain that the client does not take what was sent for the whole, and that nothing is
    /// kept for it.
    fn abort(&mut self);
}
