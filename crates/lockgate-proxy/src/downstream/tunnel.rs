//! What a client and its endpoint have switched to, where one of both has HTTP/2's streams for it:
//! a WebSocket (RFC 8441), or what a client has by CONNECT (RFC 9113 §8.5).
//!
//! Where both have connections of their own they are relayed instead: see `http`.

use std::future::poll_fn;
use std::task::{Context, Poll};

use lockgate_net::relay::Meter;
use lockgate_net::traffic_shaping::Shaper;
use lockgate_rules::HeaderRules;

use crate::body::Tunnel;
use crate::clock::{Cut, Guard, WaitReason};
use crate::exchange::TunnelLimits;
use crate::metrics::http::SiteCells;
use crate::pump::{PumpError, poll_pump};
use crate::shaping::{ShapedBody, Shapers};

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

/// Moves bytes both ways until both have ended, or one is gone, or `tunnel_limits` are reached.
///
/// # Errors
/// When we cut it.
pub(super) async fn run(
    down: &mut impl Tunnel,
    up: &mut impl Tunnel,
    guard: &Guard,
    tunnel_limits: &TunnelLimits,
    cells: &SiteCells,
    mut shapers: Option<Box<Shapers>>,
) -> Result<Ended, Cut> {
    if down.begin_tunnel().is_err() {
        return Ok(Ended::ByClient);
    }
    if up.begin_tunnel().is_err() {
        return Ok(Ended::ByEndpoint);
    }
    let watch = guard.watch();
    guard.end_phase();
    tunnel_limits.begin(guard);
    watch.set_wait(WaitReason::ForTunnel);
    cells.upgraded.inc();
    let meter = &watch.meter;
    let (mut going, mut coming) = (Way::Open, Way::Open);
    let ended = guard
        .within(poll_fn(|cx| {
            let (received, sent) = (down.bytes_read(), down.bytes_written());
            let (mut on_received, mut on_sent) = (None, None);
            if let Some(shapers) = &mut shapers {
                (on_received, on_sent) = (shapers.received.as_mut(), shapers.sent.as_mut());
            }
            let (client, endpoint) = (Ended::ByClient, Ended::ByEndpoint);
            let ended = poll_way(
                cx,
                &mut going,
                (&mut *down, client),
                (&mut *up, endpoint),
                on_received,
                meter,
            );
            if ended.is_ready() {
                return ended;
            }
            let ended = poll_way(
                cx,
                &mut coming,
                (&mut *up, endpoint),
                (&mut *down, client),
                on_sent,
                meter,
            );
            if ended.is_ready() {
                return ended;
            }
            meter
                .received
                .set(meter.received.get() + down.bytes_read() - received);
            meter
                .sent
                .set(meter.sent.get() + down.bytes_written() - sent);
            meter.held.set(
                shapers
                    .as_ref()
                    .is_some_and(|shapers| shapers.is_waited_for()),
            );
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

/// Moves what goes one way, and says how the tunnel ends where one of both breaks.
fn poll_way(
    cx: &mut Context<'_>,
    way: &mut Way,
    (source, by_source): (&mut impl Tunnel, Ended),
    (sink, by_sink): (&mut impl Tunnel, Ended),
    shaper: Option<&mut Shaper>,
    meter: &Meter,
) -> Poll<Ended> {
    // What has moved as much as it may is cut by whoever has said so.
    if *way == Way::Open && meter.left() > 0 {
        let none = HeaderRules::default();
        let pumped = match shaper {
            None => poll_pump(cx, source, sink, &none, |_| {}),
            Some(shaper) => poll_pump(
                cx,
                &mut ShapedBody::new(source, shaper, meter),
                sink,
                &none,
                |_| {},
            ),
        };
        match pumped {
            // RFC 9113 §8.5: nothing but data belongs there.
            Poll::Ready(Ok(())) if source.trailers().is_some() => return Poll::Ready(by_source),
            Poll::Ready(Ok(())) => *way = Way::Finished,
            Poll::Ready(Err(PumpError::Source(_))) => return Poll::Ready(by_source),
            Poll::Ready(Err(PumpError::Sink(_))) => return Poll::Ready(by_sink),
            Poll::Pending => {}
        }
    }
    // Each hears that the other has ended, and may still speak.
    if *way == Way::Finished {
        match sink.poll_end(cx) {
            Poll::Ready(Ok(())) => *way = Way::Told,
            Poll::Ready(Err(_)) => return Poll::Ready(by_sink),
            Poll::Pending => {}
        }
    }
    Poll::Pending
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
