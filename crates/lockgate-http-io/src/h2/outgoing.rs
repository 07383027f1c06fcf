//! A body to write on a stream of HTTP/2.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use lockgate_http::fields::{Field, Fields};

use super::heads;
use crate::body::{Reset, WriteError};

/// The most data that is handed to the connection at once.
const PIECE: usize = 16 * 1024;

/// The message to the peer on one stream, behind its head.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// None before the head was sent, and where the head was the end.
    stream: Option<SendStream<Bytes>>,
    finished: bool,
    moved: u64,
    blocked: bool,
    broken: Option<Reset>,
}

impl Outgoing {
    /// Whether the whole message was taken.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Begins the body behind a head; `ended` where the head was the end.
    pub(super) fn begin(&mut self, stream: Result<SendStream<Bytes>, h2::Error>, ended: bool) {
        match stream {
            Ok(stream) => self.stream = Some(stream),
            Err(error) => self.broken = Some(Reset::from(&error)),
        }
        self.finished = ended;
    }

    /// Reopens an ended message for the bytes of another protocol.
    pub(super) fn reopen(&mut self) {
        self.finished = false;
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        let here = ready!(self.poll_capacity(cx, data.len().min(PIECE)))?;
        let Some(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        let ends = last && here == data.len();
        let sent = stream.send_data(Bytes::copy_from_slice(&data[..here]), ends);
        sent.map_err(|error| Reset::from(&error))?;
        self.moved += here as u64;
        self.finished = ends;
        Poll::Ready(Ok(here))
    }

    /// Completes when some of `wanted` bytes may be sent, and returns how many.
    fn poll_capacity(
        &mut self,
        cx: &mut Context<'_>,
        wanted: usize,
    ) -> Poll<Result<usize, WriteError>> {
        if let Some(broken) = self.broken {
            return Poll::Ready(Err(broken.into()));
        }
        self.blocked = true;
        let Some(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        let mut room = stream.capacity();
        if room < wanted {
            stream.reserve_capacity(wanted);
            room = stream.capacity();
        }
        if room == 0 && wanted > 0 {
            room = match ready!(stream.poll_capacity(cx)) {
                Some(Ok(room)) => room,
                Some(Err(error)) => return Poll::Ready(Err(Reset::from(&error).into())),
                None => return Poll::Ready(Err(Reset::CANCELLED.into())),
            };
        }
        self.blocked = false;
        Poll::Ready(Ok(wanted.min(room)))
    }

    pub(super) fn finish(
        &mut self,
        trailers: Option<&Fields>,
        passes: impl FnMut(&Field<'_>) -> bool,
    ) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let Some(stream) = &mut self.stream else {
            return;
        };
        let map = trailers
            .map(|trailers| heads::encode_trailers(trailers, passes))
            .filter(|map| !map.is_empty());
        let ended = match map {
            Some(map) => stream.send_trailers(map),
            None => stream.send_data(Bytes::new(), true),
        };
        if let Err(error) = ended {
            self.broken = Some(Reset::from(&error));
        }
    }

    /// Taken data belongs to the connection, so nothing is flushed here; reports a known error.
    pub(super) fn poll_flush(&mut self) -> Poll<Result<(), WriteError>> {
        self.blocked = false;
        Poll::Ready(self.broken.map_or(Ok(()), |broken| Err(broken.into())))
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    pub(super) fn bytes_written(&self) -> u64 {
        self.moved
    }

    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.stream {
            Some(stream) => stream.poll_reset(cx).map(|_| ()),
            None => Poll::Pending,
        }
    }

    pub(super) fn reset(&mut self, reason: Reason) {
        if let Some(stream) = &mut self.stream {
            stream.send_reset(reason);
        }
    }
}
