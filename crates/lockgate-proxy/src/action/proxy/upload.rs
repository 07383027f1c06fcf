//! A request's body on its way to an endpoint.

use std::task::{Context, Poll, ready};

use lockgate_net::traffic_shaping::Shaper;

use super::replay::Replay;
use crate::body::{BodyReader, BodyWriter, WriteError};
use crate::clock::{Guard, WaitReason};
use crate::exchange::ExchangeFailure;
use crate::pump::{PumpError, poll_pump};
use crate::rules::Rules;
use crate::shaping::ShapedBody;

/// Why the request's body did not arrive.
pub(super) enum Upload {
    /// It is the client's doing.
    Client(ExchangeFailure),
    /// The endpoint takes no more.
    Broken(String),
}

/// The rest of the request's body, after what is to be sent again.
pub(super) fn poll(
    cx: &mut Context<'_>,
    guard: &Guard,
    rules: &Rules,
    down: &mut impl BodyReader,
    up: &mut impl BodyWriter,
    replay: &mut Replay,
    shaper: Option<&mut Shaper>,
) -> Poll<Result<(), Upload>> {
    let broken = |error: WriteError| Upload::Broken(error.to_string());
    while let Some(data) = replay.again() {
        let last = down.is_complete() && down.is_last();
        let taken = ready!(up.poll_write(cx, data, last)).map_err(broken)?;
        replay.sent(taken);
    }
    let meter = &guard.watch().meter;
    let before = down.bytes_read();
    let keep = |data: &[u8]| replay.keep(data);
    let (pumped, held) = match shaper {
        None => (poll_pump(cx, down, up, &rules.request_headers, keep), false),
        Some(shaper) => {
            let pumped = poll_pump(
                cx,
                &mut ShapedBody::new(down, shaper, meter),
                up,
                &rules.request_headers,
                keep,
            );
            (pumped, shaper.is_waited_for())
        }
    };
    meter
        .received
        .set(meter.received.get() + down.bytes_read() - before);
    match pumped {
        Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
        Poll::Ready(Err(PumpError::Source(error))) => {
            Poll::Ready(Err(Upload::Client(ExchangeFailure::upload(&error))))
        }
        Poll::Ready(Err(PumpError::Sink(error))) => Poll::Ready(Err(broken(error))),
        Poll::Pending => {
            // While the endpoint takes nothing, or we take nothing for its rate, the client is not
            // to blame.
            let waiting = if held || up.is_blocked() {
                WaitReason::Otherwise
            } else {
                WaitReason::ForBody
            };
            guard.watch().set_wait(waiting);
            Poll::Pending
        }
    }
}
