//! Vectored write of up to three parts.

use std::task::{Context, Poll, ready};

use lockgate_net::stream::{BufferPool, Stream, StreamError};

/// A write of up to three parts, and its progress.
pub(super) struct VectoredWrite<'a> {
    parts: [&'a [u8]; 3],
    pub(super) sent: u64,
    /// Whether all bytes have been written and flushed.
    pub(super) finished: bool,
}

impl<'a> VectoredWrite<'a> {
    pub(super) fn new(parts: [&'a [u8]; 3]) -> Self {
        Self {
            parts,
            sent: 0,
            finished: false,
        }
    }

    /// Completes when all bytes have been written and flushed.
    ///
    /// # Errors
    /// The connection is broken. A server that reads no more may have answered nevertheless.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        blocks: &BufferPool,
    ) -> Poll<Result<(), StreamError>> {
        if self.finished {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut parts = [&[][..]; 3];
            let (mut skip, mut count) = (self.sent as usize, 0);
            for part in self.parts {
                let here = skip.min(part.len());
                skip -= here;
                if here < part.len() {
                    parts[count] = &part[here..];
                    count += 1;
                }
            }
            if count == 0 {
                break;
            }
            self.sent += ready!(stream.poll_write(cx, blocks, &parts[..count]))? as u64;
        }
        ready!(stream.poll_flush(cx))?;
        self.finished = true;
        Poll::Ready(Ok(()))
    }
}
