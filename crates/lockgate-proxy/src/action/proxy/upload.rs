//! A request's body on its way to an endpoint.

use std::task::{Context, Poll, ready};

use lockgate_net::shape::Shaper;

use super::replay::Replay;
use crate::body::{Sink, Source, WriteError};
use crate::clock::{Guard, Waiting};
use crate::exchange::Failure;
use crate::pump::{PumpError, poll_pump};
use crate::rules::RouteRules;
use crate::shaping::Held;

/// Why the request's body did not arrive.
pub(super) enum UploadError {
    /// The client is at fault.
    Client(Failure),
    /// The endpoint takes no more.
    Broken(String),
}

/// The rest of the request's body, after what is to be sent again.
pub(super) fn poll(
    cx: &mut Context<'_>,
    guard: &Guard,
    rules: &RouteRules,
    down: &mut impl Source,
    up: &mut impl Sink,
    replay: &mut Replay,
    shaper: Option<&mut Shaper>,
) -> Poll<Result<(), UploadError>> {
    let broken = |error: WriteError| UploadError::Broken(error.to_string());
    while let Some(data) = replay.again() {
        let last = down.is_over() && down.is_last();
        let taken = ready!(up.poll_take(cx, data, last)).map_err(broken)?;
        replay.sent(taken);
    }
    let meter = &guard.watch().meter;
    let before = down.taken();
    let keep = |data: &[u8]| replay.keep(data);
    let (pumped, held) = match shaper {
        None => (poll_pump(cx, down, up, &rules.request_headers, keep), false),
        Some(shaper) => {
            let pumped = poll_pump(
                cx,
                &mut Held::new(down, shaper, meter),
                up,
                &rules.request_headers,
                keep,
            );
            (pumped, shaper.is_waited_for())
        }
    };
    meter
        .received
        .set(meter.received.get() + down.taken() - before);
    match pumped {
        Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
        Poll::Ready(Err(PumpError::Source(error))) => {
            Poll::Ready(Err(UploadError::Client(Failure::upload(&error))))
        }
        Poll::Ready(Err(PumpError::Sink(error))) => Poll::Ready(Err(broken(error))),
        Poll::Pending => {
            // While the endpoint takes nothing, or we take nothing for its rate, the client is not
            // to blame.
            let waiting = if held || up.is_blocked() {
                Waiting::Otherwise
            } else {
                Waiting::ForBody
            };
            guard.watch().waits(waiting);
            Poll::Pending
        }
    }
}
