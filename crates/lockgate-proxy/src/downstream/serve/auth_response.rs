//! The response of an auth service, which is kept whole for the request that it is about.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use lockgate_http::fields::{Field, Fields};
use lockgate_http::head::{BodyLength, RequestHead, ResponseHead};
use lockgate_http_io::body::{BodyReader, BodyWriter, ReadError, WriteError};
use lockgate_http_io::message::{ClientExchange, Persistence};

/// Bytes of a body that are kept: services that send people elsewhere to log in need few.
const LONGEST: usize = 64 * 1024;

/// The client's side of the exchange with an auth service: there is no body to be sent, the
/// response is kept, and the client itself is only looked at for whether it has gone.
pub(super) struct AuthDownstream<'c> {
    gone: &'c mut dyn FnMut(&mut Context<'_>) -> Poll<()>,
    response: AuthResponse,
    ended: bool,
}

/// A response of an auth service.
#[derive(Default)]
pub(super) struct AuthResponse {
    pub(super) head: ResponseHead,
    pub(super) body: Vec<u8>,
    /// Whether the body is longer than what is kept, which then is not the whole of it.
    pub(super) is_cut: bool,
}

impl<'c> AuthDownstream<'c> {
    pub(super) fn new(gone: &'c mut dyn FnMut(&mut Context<'_>) -> Poll<()>) -> Self {
        Self {
            gone,
            response: AuthResponse::default(),
            ended: false,
        }
    }

    pub(super) fn into_response(self) -> AuthResponse {
        self.response
    }
}

impl BodyReader for AuthDownstream<'_> {
    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        b""
    }

    fn consume(&mut self, _count: usize) {}

    fn is_last(&self) -> bool {
        true
    }

    fn is_complete(&self) -> bool {
        true
    }

    fn bytes_read(&self) -> u64 {
        0
    }

    fn trailers(&self) -> Option<&Fields> {
        None
    }

    fn release_memory(&mut self, _cx: &mut Context<'_>) {}
}

impl BodyWriter for AuthDownstream<'_> {
    fn poll_write(
        &mut self,
        _cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        self.response.is_cut = data.len() > LONGEST - self.response.body.len();
        if !self.response.is_cut {
            self.response.body.extend_from_slice(data);
        }
        // The rest is not waited for.
        self.ended = last || self.response.is_cut;
        Poll::Ready(Ok(data.len()))
    }

    fn finish(&mut self, _trailers: Option<&Fields>, _passes: impl FnMut(&Field<'_>) -> bool) {
        self.ended = true;
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        Poll::Ready(Ok(()))
    }

    fn is_finished(&self) -> bool {
        self.ended
    }

    fn is_blocked(&self) -> bool {
        false
    }

    /// Nothing was sent to the client.
    fn bytes_written(&self) -> u64 {
        0
    }

    fn poll_broken(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl ClientExchange for AuthDownstream<'_> {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        (self.gone)(cx)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        None
    }

    fn begin_request(&mut self, _head: &RequestHead) -> Result<BodyLength, ReadError> {
        Ok(BodyLength::Empty)
    }

    fn limit_body(&mut self, _most: u64) {}

    /// None of these is about the client's request.
    fn interim(&mut self, _request: &RequestHead, _response: &ResponseHead) {}

    fn respond(
        &mut self,
        _request: &RequestHead,
        response: &ResponseHead,
        length: BodyLength,
        _persistence: Persistence,
    ) {
        self.response.head.clone_from(response);
        self.ended = length == BodyLength::Empty;
    }

    fn poll_room(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        Poll::Ready(Ok(()))
    }

    fn supports_sendfile(&self) -> bool {
        false
    }

    fn poll_send_file(
        &mut self,
        _cx: &mut Context<'_>,
        _part: (BorrowedFd<'_>, u64, usize),
        _last: bool,
    ) -> Poll<Result<Option<usize>, WriteError>> {
        Poll::Ready(Ok(None))
    }

    /// The question does not ask for a switch.
    fn switch(&mut self, _request: &RequestHead, _response: &ResponseHead) {}

    fn discard(&mut self) {}

    fn poll_all_sent(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn abort(&mut self) {}
}
