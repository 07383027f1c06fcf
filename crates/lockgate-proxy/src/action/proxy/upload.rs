//! A request's body on its way to an endpoint.

use std::task::{Context, Poll};

use lockgate_http_io::body::{BodyReader, BodyWriter, WriteError};
use lockgate_limits::clock::{Guard, WaitReason};
use lockgate_net::traffic_shaping::Shaper;

use super::replay::Replay;
use crate::exchange::ExchangeFailure;
use crate::pump::{Pump, PumpError};
use crate::rules::RouteRules;

/// Why the request's body did not arrive.
pub(super) enum UploadError {
    /// The client is at fault.
    Client(ExchangeFailure),
    /// The endpoint takes no more.
    Broken(String),
}

/// The upload of a request's body, over all attempts.
pub(super) struct RequestUpload<'a> {
    pub(super) guard: &'a Guard,
    pub(super) rules: &'a RouteRules,
    /// The beginning of the body, for another attempt.
    pub(super) replay: Replay,
    /// Whether the client may be silent in its body: a gRPC call, in which either side may send a message
    /// at any time.
    pub(super) may_pause: bool,
}

impl RequestUpload<'_> {
    /// Sends the rest of the request's body, after the bytes that are to be sent again.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl BodyReader,
        up: &mut impl BodyWriter,
        mut shaper: Option<&mut Shaper>,
    ) -> Poll<Result<(), UploadError>> {
        let Self {
            guard,
            rules,
            replay,
            may_pause,
        } = self;
        let broken = |error: WriteError| UploadError::Broken(error.to_string());
        while let Some(data) = replay.again() {
            let last = down.is_complete() && down.is_last();
            let Poll::Ready(taken) = up.poll_write(cx, data, last) else {
                guard.watch().set_wait(WaitReason::Nothing);
                return Poll::Pending;
            };
            replay.sent(taken.map_err(broken)?);
        }
        let meter = &guard.watch().meter;
        let before = down.bytes_read();
        let pump = Pump {
            rules: &rules.request_headers,
            meter,
        };
        let pumped = pump.poll(cx, down, up, shaper.as_deref_mut(), |data| {
            replay.keep(data);
        });
        let is_held = shaper.is_some_and(|shaper| shaper.is_waited_for());
        meter
            .received
            .set(meter.received.get() + down.bytes_read() - before);
        match pumped {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(PumpError::Source(error))) => {
                Poll::Ready(Err(UploadError::Client(ExchangeFailure::upload(&error))))
            }
            Poll::Ready(Err(PumpError::Sink(error))) => Poll::Ready(Err(broken(error))),
            Poll::Pending => {
                // While the endpoint takes nothing, or we take nothing for its rate, the client is
                // not to blame.
                let waiting = if *may_pause || is_held || up.is_blocked() {
                    WaitReason::Nothing
                } else {
                    WaitReason::ForBody
                };
                guard.watch().set_wait(waiting);
                Poll::Pending
            }
        }
    }
}
