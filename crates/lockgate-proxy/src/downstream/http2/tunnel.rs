//! A stream that has become a tunnel: a WebSocket over HTTP/2 (RFC 8441) and its endpoint, which speaks it bare.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use h2::Reason;
use lockgate_http::head::BodyLength;

use crate::body::{Sink, Source, poll_pump};
use crate::clock::{Guard, Waiting};
use crate::h2::Stream;
use crate::metrics::http::SiteCells;
use crate::transform::HeaderRules;
use crate::upstream::Lease;

/// Moves bytes both ways until both have ended, or nothing has moved for as long as `idle`.
pub(super) async fn run(stream: &mut Stream, lease: Lease, guard: &Guard, idle: Duration, cells: &SiteCells) {
    // The endpoint counts it for as long as it lasts.
    let Some((link, _hold, _in_flight)) = lease.into_parts() else { return };
    let mut up = *link;
    if up.begin_answer(BodyLength::UntilClose).is_err() {
        return;
    }
    up.writer.begin_body(BodyLength::UntilClose);
    let (none, watch) = (HeaderRules::default(), guard.watch());
    guard.settle();
    guard.idle(idle);
    watch.waits(Waiting::Otherwise);
    cells.upgraded.inc();
    let (mut going, mut finished, mut coming) = (true, false, true);
    let ended = guard
        .within(poll_fn(|cx| {
            let (received, sent) = (stream.taken(), stream.moved());
            if going {
                match poll_pump(cx, stream, &mut up, &none, |_| {}) {
                    Poll::Ready(Ok(())) => going = false,
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                    Poll::Pending => {}
                }
            }
            if !going && !finished {
                // The endpoint hears that the client has ended, and may still speak.
                match up.stream.poll_finish(cx) {
                    Poll::Ready(Ok(())) => finished = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                    Poll::Pending => {}
                }
            }
            if coming {
                match poll_pump(cx, &mut up, stream, &none, |_| {}) {
                    Poll::Ready(Ok(())) => coming = false,
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                    Poll::Pending => {}
                }
            }
            watch.meter.received.set(watch.meter.received.get() + stream.taken() - received);
            watch.meter.sent.set(watch.meter.sent.get() + stream.moved() - sent);
            if !coming && finished { Poll::Ready(true) } else { Poll::Pending }
        }))
        .await;
    cells.upgraded.dec();
    if !matches!(ended, Ok(true)) {
        stream.reset(Reason::CANCEL);
    }
}
