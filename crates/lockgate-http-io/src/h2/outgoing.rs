//! A body to write on a stream of HTTP/2.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use lockgate_http::fields::{Field, Fields};

use super::heads;
use super::send_scheduler::ScheduledStream;
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
    /// Its position in the order of streams, towards clients.
    scheduled: Option<ScheduledStream>,
    broken: Option<Reset>,
}

impl Outgoing {
    /// Whether the whole message was taken.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Sends data in the scheduled order from now on.
    pub(super) fn schedule(&mut self, scheduled: ScheduledStream) {
        self.scheduled = Some(scheduled);
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
        self.poll_piece(cx, data.len(), last, |here| {
            Bytes::copy_from_slice(&data[..here])
        })
    }

    pub(super) fn poll_write_shared(
        &mut self,
        cx: &mut Context<'_>,
        data: &Bytes,
        last: bool,
    ) -> Poll<Result<usize, WriteError>> {
        self.poll_piece(cx, data.len(), last, |here| data.slice(..here))
    }

    /// Completes when data would be taken.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.poll_capacity(cx, PIECE).map_ok(|_| ())
    }

    /// Takes as much of `len` bytes of data as there is room for; `piece` makes the piece.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        len: usize,
        last: bool,
        piece: impl FnOnce(usize) -> Bytes,
    ) -> Poll<Result<usize, WriteError>> {
        let here = ready!(self.poll_capacity(cx, len.min(PIECE)))?;
        let Some(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        let ends = last && here == len;
        let sent = stream.send_data(piece(here), ends);
        sent.map_err(|error| Reset::from(&error))?;
        if let Some(scheduled) = &mut self.scheduled {
            scheduled.sent(here);
        }
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
        // A stream that waits behind others does not wait for the client: whether the client takes
        // anything, the connection knows.
        self.blocked = false;
        let scheduled = match &self.scheduled {
            Some(scheduled) => ready!(scheduled.poll(cx)),
            None => PIECE,
        };
        self.blocked = true;
        let Some(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        let wanted = wanted.min(scheduled);
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

    /// Completes when all taken data has left the connection.
    pub(super) fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.scheduled
            .as_ref()
            .map_or(Poll::Ready(()), |scheduled| scheduled.poll_drained(cx))
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use lockgate_http::priority::Priority;

    use super::super::SendScheduler;
    use super::*;

    /// Otherwise a page over a slow link loses its images: they wait as long as the responses
    /// before them take.
    #[test]
    fn waiting_behind_other_streams_is_not_waiting_for_the_client() {
        let scheduler = SendScheduler::new();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut outgoing = Outgoing::default();
        outgoing.schedule(ScheduledStream::new(&scheduler, 3, Priority::default()));
        assert!(outgoing.poll_write(cx, b"data", true).is_pending());
        assert!(
            outgoing.is_blocked(),
            "it has its turn, and its window is closed"
        );
        ScheduledStream::new(&scheduler, 1, Priority::default()).sent(usize::MAX);
        assert!(outgoing.poll_write(cx, b"data", true).is_pending());
        assert!(!outgoing.is_blocked(), "it has not had its turn");
    }
}
