//! One read of a relay's source, with TLS or without.

use std::task::{Context, Poll, ready};

use super::read_size::ReadSize;
use super::{CopyBuffers, RelayEnd};
use crate::stream::StreamError;

/// Rates with smaller pieces are not bulk, even if reads are full.
const BULK: usize = 64 * 1024;

/// The result of one read of a source.
pub(super) enum SourceRead {
    /// This many bytes at the front of the plain buffer; `full` if the source gave all that was
    /// asked for, and a rate allowed much.
    Data {
        len: usize,
        full: bool,
    },
    /// No data: TLS's own bytes, or an incomplete record.
    Nothing,
    End(SourceEnd),
}

#[derive(Clone, Copy)]
pub(super) enum SourceEnd {
    Clean,
    /// A TLS source that ended without a close_notify.
    Truncated,
}

/// Reads once, at most `allowed` bytes: under TLS those of its records.
pub(super) fn poll_read(
    cx: &mut Context<'_>,
    RelayEnd { socket, session }: &mut RelayEnd,
    CopyBuffers { wire, plain, .. }: &mut CopyBuffers,
    size: ReadSize,
    allowed: usize,
) -> Poll<Result<SourceRead, StreamError>> {
    let Some(session) = session else {
        let asked = size.plain().min(allowed);
        let len = ready!(socket.poll_recv(cx, &mut plain[..asked]))?;
        return Poll::Ready(Ok(match len {
            0 => SourceRead::End(SourceEnd::Clean),
            len => SourceRead::Data {
                len,
                full: len == asked && asked >= size.plain().min(BULK),
            },
        }));
    };
    let mut filled = session.partial_len();
    if !session.has_waiting() {
        if session.is_closed() {
            // Bytes behind it are dropped.
            session.take_partial();
            return Poll::Ready(Ok(SourceRead::End(SourceEnd::Clean)));
        }
        let end = size.wire().min(filled.saturating_add(allowed));
        let received = ready!(socket.poll_recv(cx, &mut wire[filled..end]))?;
        if received == 0 {
            return Poll::Ready(Ok(SourceRead::End(SourceEnd::Truncated)));
        }
        filled += received;
    }
    let early = session.take_early();
    if !early.is_empty() {
        plain[..early.len()].copy_from_slice(&early);
        return Poll::Ready(Ok(SourceRead::Data {
            len: early.len(),
            full: false,
        }));
    }
    let partial = session.take_partial();
    wire[..partial.len()].copy_from_slice(&partial);
    let done = session.open(&wire[..filled], plain)?;
    if done.consumed < filled {
        session.keep_partial(&wire[done.consumed..filled]);
    }
    Poll::Ready(Ok(match done.produced {
        0 => SourceRead::Nothing,
        len => SourceRead::Data {
            len,
            full: filled == size.wire(),
        },
    }))
}
