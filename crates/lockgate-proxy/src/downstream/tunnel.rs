//! What a client and its endpoint have switched to, where one of both has HTTP/2's streams for it: a WebSocket (RFC 8441),
//! or what a client has by CONNECT (RFC 9113 §8.5).
//!
//! Where both have connections of their own they are relayed instead: see `http`.

use std::future::poll_fn;
use std::task::Poll;

use crate::body::{Fault, Tunnel, poll_pump};
use crate::clock::{Cut, Guard, Waiting};
use crate::exchange::Bounds;
use crate::metrics::http::SiteCells;
use crate::shaping::{Held, Shapers};
use crate::transform::HeaderRules;

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both sides have said that they were done.
    Whole,
    /// The client's has broken, or what it sent.
    ByClient,
    /// The endpoint's has.
    ByEndpoint,
}

/// Moves bytes both ways until both have ended, or one is gone, or `bounds` are reached.
///
/// # Errors
/// When we cut it.
pub(super) async fn run(
    down: &mut impl Tunnel,
    up: &mut impl Tunnel,
    guard: &Guard,
    bounds: &Bounds,
    cells: &SiteCells,
    mut shapers: Option<Box<Shapers>>,
) -> Result<Ended, Cut> {
    if down.begin_tunnel().is_err() {
        return Ok(Ended::ByClient);
    }
    if up.begin_tunnel().is_err() {
        return Ok(Ended::ByEndpoint);
    }
    let (none, watch) = (HeaderRules::default(), guard.watch());
    guard.settle();
    bounds.begin(guard);
    watch.waits(Waiting::Otherwise);
    cells.upgraded.inc();
    let meter = &watch.meter;
    let (mut going, mut coming) = (Way::Open, Way::Open);
    let ended = guard
        .within(poll_fn(|cx| {
            let (received, sent) = (down.taken(), down.moved());
            if going == Way::Open {
                let pumped = match shapers.as_mut().and_then(|shapers| shapers.received.as_mut()) {
                    None => poll_pump(cx, down, up, &none, |_| {}),
                    Some(shaper) => poll_pump(cx, &mut Held::new(down, shaper, meter), up, &none, |_| {}),
                };
                match pumped {
                    // RFC 9113 §8.5: nothing but data belongs there.
                    Poll::Ready(Ok(())) if down.trailers().is_some() => return Poll::Ready(Ended::ByClient),
                    Poll::Ready(Ok(())) => going = Way::Finished,
                    Poll::Ready(Err(Fault::Source(_))) => return Poll::Ready(Ended::ByClient),
                    Poll::Ready(Err(Fault::Sink(_))) => return Poll::Ready(Ended::ByEndpoint),
                    Poll::Pending => {}
                }
            }
            // Each hears that the other has ended, and may still speak.
            if going == Way::Finished {
                match up.poll_end(cx) {
                    Poll::Ready(Ok(())) => going = Way::Told,
                    Poll::Ready(Err(_)) => return Poll::Ready(Ended::ByEndpoint),
                    Poll::Pending => {}
                }
            }
            if coming == Way::Open {
                let pumped = match shapers.as_mut().and_then(|shapers| shapers.sent.as_mut()) {
                    None => poll_pump(cx, up, down, &none, |_| {}),
                    Some(shaper) => poll_pump(cx, &mut Held::new(up, shaper, meter), down, &none, |_| {}),
                };
                match pumped {
                    Poll::Ready(Ok(())) if up.trailers().is_some() => return Poll::Ready(Ended::ByEndpoint),
                    Poll::Ready(Ok(())) => coming = Way::Finished,
                    Poll::Ready(Err(Fault::Source(_))) => return Poll::Ready(Ended::ByEndpoint),
                    Poll::Ready(Err(Fault::Sink(_))) => return Poll::Ready(Ended::ByClient),
                    Poll::Pending => {}
                }
            }
            if coming == Way::Finished {
                match down.poll_end(cx) {
                    Poll::Ready(Ok(())) => coming = Way::Told,
                    Poll::Ready(Err(_)) => return Poll::Ready(Ended::ByClient),
                    Poll::Pending => {}
                }
            }
            meter.received.set(meter.received.get() + down.taken() - received);
            meter.sent.set(meter.sent.get() + down.moved() - sent);
            meter.held.set(shapers.as_ref().is_some_and(|shapers| shapers.is_waited_for()));
            meter.note(going != Way::Open, coming != Way::Open);
            if going == Way::Told && coming == Way::Told {
                Poll::Ready(Ended::Whole)
            } else if down.poll_broken(cx).is_ready() {
                Poll::Ready(Ended::ByClient)
            } else if coming != Way::Open && up.poll_broken(cx).is_ready() {
                // Before, what it has sent is handed on.
                Poll::Ready(Ended::ByEndpoint)
            } else {
                Poll::Pending
            }
        }))
        .await;
    cells.upgraded.dec();
    ended
}

/// How far one direction has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// All of it has left.
    Finished,
    /// And whoever takes it knows.
    Told,
}
