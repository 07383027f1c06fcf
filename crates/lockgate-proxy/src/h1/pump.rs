//! A body from one connection to another.

use std::task::{Context, Poll, ready};

use lockgate_net::stream::{Stream, StreamError};

use super::{ReadError, Reader, Writer};
use crate::transform::HeaderRules;

/// Pieces of data that move in one turn; then the worker's other connections have theirs.
const TURNS: usize = 16;

/// Whose fault it is that a body does not come to its end.
#[derive(Debug)]
pub enum Fault {
    /// The one that sends it.
    Source(ReadError),
    /// The one that takes it.
    Sink(StreamError),
}

/// Moves a body until all of it has left; `keep` sees all data on its way. What `rules` take out of its message's head
/// they take out of its trailers.
///
/// What is gathered leaves when no more has come.
///
/// # Errors
/// When one of the two breaks.
pub fn poll_pump(
    cx: &mut Context<'_>,
    source: (&mut Reader, &mut Stream),
    sink: (&mut Writer, &mut Stream),
    rules: &HeaderRules,
    mut keep: impl FnMut(&[u8]),
) -> Poll<Result<(), Fault>> {
    let ((reader, from), (writer, to)) = (source, sink);
    for _ in 0..TURNS {
        if writer.has_ended() {
            return writer.poll_flush(cx, to).map_err(Fault::Sink);
        }
        match reader.poll_data(cx, from) {
            Poll::Ready(Ok(())) if reader.has_ended() => {
                writer.finish(reader.trailers(), |field| !rules.takes_out(field.name));
            }
            Poll::Ready(Ok(())) => {
                let Poll::Ready(taken) = writer.poll_data(cx, to, reader.data(), reader.is_last()) else {
                    reader.settle();
                    return Poll::Pending;
                };
                let taken = taken.map_err(Fault::Sink)?;
                keep(&reader.data()[..taken]);
                reader.consume(taken);
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Fault::Source(error))),
            Poll::Pending => {
                ready!(writer.poll_flush(cx, to)).map_err(Fault::Sink)?;
                return Poll::Pending;
            }
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
