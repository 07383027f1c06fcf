//! What a client and its endpoint have switched to, where one of both has HTTP/2's streams for it:
//! a WebSocket (RFC 8441), or what a client has by CONNECT (RFC 9113 §8.5).
//!
//! Where both have connections of their own they are relayed instead: see `http1`.

use std::future::poll_fn;
use std::task::{Context, Poll};

use lockgate_http_io::body::Tunnel;
use lockgate_limits::clock::{Cut, Guard, WaitReason};
use lockgate_net::relay::Meter;
use lockgate_net::traffic_shaping::Shaper;
use lockgate_rules::HeaderRules;

use crate::exchange::TunnelLimits;
use crate::metrics::http::SiteCells;
use crate::pump::{Pump, PumpError};
use crate::shaping::Shapers;

/// The end of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TunnelEnd {
    /// Both sides have ended.
    Whole,
    /// The client's has broken, or what it sent.
    ByClient,
    /// The endpoint's has.
    ByEndpoint,
}

/// A tunnel that is about to begin.
pub(super) struct TunnelRun<'a> {
    pub(super) guard: &'a Guard,
    pub(super) tunnel_limits: &'a TunnelLimits,
    pub(super) cells: &'a SiteCells,
    pub(super) shapers: Option<Box<Shapers>>,
}

impl TunnelRun<'_> {
    /// Moves bytes both ways until both have ended, or one is gone, or the limits are reached.
    ///
    /// # Errors
    /// When we cut it.
    pub(super) async fn run(
        &mut self,
        down: &mut impl Tunnel,
        up: &mut impl Tunnel,
    ) -> Result<TunnelEnd, Cut> {
        if down.begin_tunnel().is_err() {
            return Ok(TunnelEnd::ByClient);
        }
        if up.begin_tunnel().is_err() {
            return Ok(TunnelEnd::ByEndpoint);
        }
        let Self {
            guard,
            tunnel_limits,
            cells,
            shapers,
        } = self;
        let watch = guard.watch();
        guard.end_phase();
        tunnel_limits.begin(guard);
        watch.set_wait(WaitReason::ForTunnel);
        cells.upgraded.inc();
        let (client, endpoint) = (TunnelEnd::ByClient, TunnelEnd::ByEndpoint);
        let mut going = Direction::new(client, endpoint, &watch.meter);
        let mut coming = Direction::new(endpoint, client, &watch.meter);
        let meter = &watch.meter;
        let ended = guard
            .within(poll_fn(|cx| {
                let (received, sent) = (down.bytes_read(), down.bytes_written());
                let (on_received, on_sent) = match shapers {
                    Some(shapers) => (shapers.received.as_mut(), shapers.sent.as_mut()),
                    None => (None, None),
                };
                let mut ended = going.poll(cx, down, up, on_received);
                if ended.is_pending() {
                    ended = coming.poll(cx, up, down, on_sent);
                }
                meter
                    .received
                    .set(meter.received.get() + down.bytes_read() - received);
                meter
                    .sent
                    .set(meter.sent.get() + down.bytes_written() - sent);
                if ended.is_ready() {
                    return ended;
                }
                let is_held = shapers.as_deref().is_some_and(Shapers::is_waited_for);
                meter.held.set(is_held);
                meter.note(going.has_ended(), coming.has_ended());
                if going.state == DirectionState::Told && coming.state == DirectionState::Told {
                    Poll::Ready(TunnelEnd::Whole)
                } else if down.poll_broken(cx).is_ready() {
                    Poll::Ready(TunnelEnd::ByClient)
                } else if coming.has_ended() && up.poll_broken(cx).is_ready() {
                    // Before, what it has sent is handed on.
                    Poll::Ready(TunnelEnd::ByEndpoint)
                } else {
                    Poll::Pending
                }
            }))
            .await;
        cells.upgraded.dec();
        ended
    }
}

/// One direction of a tunnel.
struct Direction<'a> {
    state: DirectionState,
    /// The tunnel's end if the source breaks.
    by_source: TunnelEnd,
    /// The tunnel's end if the sink breaks.
    by_sink: TunnelEnd,
    meter: &'a Meter,
}

/// The progress of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectionState {
    Open,
    /// All of it has left.
    Finished,
    /// All of it has left, and the receiver knows.
    Told,
}

impl<'a> Direction<'a> {
    fn new(by_source: TunnelEnd, by_sink: TunnelEnd, meter: &'a Meter) -> Self {
        Self {
            state: DirectionState::Open,
            by_source,
            by_sink,
            meter,
        }
    }

    fn has_ended(&self) -> bool {
        self.state != DirectionState::Open
    }

    /// Moves bytes from `source` to `sink`; completes with the tunnel's end when one of both
    /// breaks.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl Tunnel,
        sink: &mut impl Tunnel,
        shaper: Option<&mut Shaper>,
    ) -> Poll<TunnelEnd> {
        // A tunnel that has moved as many bytes as it may is cut by its limit.
        if self.state == DirectionState::Open && self.meter.left() > 0 {
            let pump = Pump {
                rules: &HeaderRules::default(),
                meter: self.meter,
            };
            match pump.poll(cx, source, sink, shaper, |_| {}) {
                // RFC 9113 §8.5: nothing but data belongs there.
                Poll::Ready(Ok(())) if source.trailers().is_some() => {
                    return Poll::Ready(self.by_source);
                }
                Poll::Ready(Ok(())) => self.state = DirectionState::Finished,
                Poll::Ready(Err(PumpError::Source(_))) => return Poll::Ready(self.by_source),
                Poll::Ready(Err(PumpError::Sink(_))) => return Poll::Ready(self.by_sink),
                Poll::Pending => {}
            }
        }
        // Each side is told that the other has ended, and may still send.
        if self.state == DirectionState::Finished {
            match sink.poll_end(cx) {
                Poll::Ready(Ok(())) => self.state = DirectionState::Told,
                Poll::Ready(Err(_)) => return Poll::Ready(self.by_sink),
                Poll::Pending => {}
            }
        }
        Poll::Pending
    }
}
