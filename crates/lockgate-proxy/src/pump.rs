//! The loop that moves a body from one connection to another.

use lockgate_http_io::body::{BodyReader, BodyWriter, ReadError, WriteError};
use lockgate_rules::HeaderRules;
use std::task::{Context, Poll, ready};

use lockgate_net::relay::Meter;
use lockgate_net::traffic_shaping::Shaper;

use crate::shaping::ShapedBody;

/// Pieces of data that move in one poll; then the worker's other connections are served.
const TURNS: usize = 16;

/// The side that broke before the body ended.
#[derive(Debug)]
pub(crate) enum PumpError {
    /// The sender of the body.
    Source(ReadError),
    /// The receiver of the body.
    Sink(WriteError),
}

/// Moves a body until all of it has left; `keep` sees all data on its way. The fields that `rules`
/// remove from the message's head are removed from its trailers.
///
/// Gathered data is flushed when the source has no more for now.
///
/// # Errors
/// When one of the two sides breaks.
pub(crate) fn poll_pump(
    cx: &mut Context<'_>,
    source: &mut impl BodyReader,
    sink: &mut impl BodyWriter,
    rules: &HeaderRules,
    mut keep: impl FnMut(&[u8]),
) -> Poll<Result<(), PumpError>> {
    for _ in 0..TURNS {
        if sink.is_finished() {
            return sink.poll_flush(cx).map_err(PumpError::Sink);
        }
        if source.data().is_empty() {
            let Poll::Ready(sent) = sink.poll_sent(cx) else {
                source.release_memory(cx);
                return Poll::Pending;
            };
            sent.map_err(PumpError::Sink)?;
        }
        match source.poll_data(cx) {
            Poll::Ready(Ok(())) if source.is_complete() => {
                sink.finish(source.trailers(), |field| !rules.takes_out(field.name));
            }
            Poll::Ready(Ok(())) => {
                let Poll::Ready(taken) = sink.poll_write(cx, source.data(), source.is_last())
                else {
                    source.release_memory(cx);
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

/// A pump for bodies that may be held to a rate.
pub(crate) struct Pump<'a> {
    /// The rules that trailers are held to.
    pub(crate) rules: &'a HeaderRules,
    /// The meter that notes for how long a body was held.
    pub(crate) meter: &'a Meter,
}

impl Pump<'_> {
    /// As [`poll_pump`], as far as `shaper` lets the body go.
    ///
    /// # Errors
    /// As [`poll_pump`].
    pub(crate) fn poll(
        &self,
        cx: &mut Context<'_>,
        source: &mut impl BodyReader,
        sink: &mut impl BodyWriter,
        shaper: Option<&mut Shaper>,
        keep: impl FnMut(&[u8]),
    ) -> Poll<Result<(), PumpError>> {
        match shaper {
            None => poll_pump(cx, source, sink, self.rules, keep),
            Some(shaper) => {
                let mut held = ShapedBody::new(source, shaper, self.meter);
                poll_pump(cx, &mut held, sink, self.rules, keep)
            }
        }
    }
}
