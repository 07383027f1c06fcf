//! A body on its way from one connection to another.

use std::task::{Context, Poll, ready};
use lockgate_rules::HeaderRules;

use crate::body::{ReadError, Sink, Source, WriteError};

/// Pieces of data that move in one turn; then the worker's other connections have theirs.
const TURNS: usize = 16;

/// Whose fault it is that a body does not come to its end.
#[derive(Debug)]
pub(crate) enum PumpError {
    /// The one that sends it.
    Source(ReadError),
    /// The one that takes it.
    Sink(WriteError),
}

/// Moves a body until all of it has left; `keep` sees all data on its way. What `rules` take out of
/// its message's head they take out of its trailers.
///
/// What is gathered leaves when no more has come.
///
/// # Errors
/// When one of the two breaks.
pub(crate) fn poll_pump(
    cx: &mut Context<'_>,
    source: &mut impl Source,
    sink: &mut impl Sink,
    rules: &HeaderRules,
    mut keep: impl FnMut(&[u8]),
) -> Poll<Result<(), PumpError>> {
    for _ in 0..TURNS {
        if sink.is_taken() {
            return sink.poll_flush(cx).map_err(PumpError::Sink);
        }
        if source.data().is_empty() {
            let Poll::Ready(sent) = sink.poll_sent(cx) else {
                source.settle(cx);
                return Poll::Pending;
            };
            sent.map_err(PumpError::Sink)?;
        }
        match source.poll_data(cx) {
            Poll::Ready(Ok(())) if source.is_over() => {
                sink.finish(source.trailers(), |field| !rules.takes_out(field.name));
            }
            Poll::Ready(Ok(())) => {
                let Poll::Ready(taken) = sink.poll_take(cx, source.data(), source.is_last()) else {
                    source.settle(cx);
                    return Poll::Pending;
                };
                let taken = taken.map_err(PumpError::Sink)?;
                keep(&source.data()[..taken]);
                source.consume(taken);
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(PumpError::Source(error))),
            Poll::Pending => {
                ready!(sink.poll_flush(cx)).map_err(PumpError::Sink)?;
                return Poll::Pending;
            }
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
