//! Whether an endpoint is alive, by the bytes that it sends, and when a PING is needed to know.
//!
//! Servers of gRPC end a connection if the client sends PING too often: three within five minutes
//! between which the server has sent neither HEADERS nor DATA. A stream may be quiet for hours, so
//! silence alone proves nothing: a PING is sent only after frames of a request that nothing has
//! followed.

use lockgate_net::millis::Millis;

/// The time for which an endpoint may be silent after frames of a request.
const QUIET: Millis = Millis::from_secs(10);
/// The time for the acknowledgement of a PING.
const PONG: Millis = Millis::from_secs(20);
/// The most PINGs between two frames of responses.
const PINGS: u32 = 2;

/// An action of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepaliveAction {
    Ping,
    Drop,
}

/// The activity of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectionActivity {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Frames of responses among them.
    pub(super) responses: u64,
    /// Whether the endpoint takes no bytes now.
    pub(super) blocked: bool,
    /// Whether no request is open.
    pub(super) idle: bool,
}

/// The liveness check of one connection.
#[derive(Debug, Default)]
pub(super) struct Keepalive {
    /// Bytes received when frames of a request were last sent.
    said: Option<u64>,
    /// When the wait for a reaction began.
    waits_since: Option<Millis>,
    pinged_at: Option<Millis>,
    /// Whether the acknowledgement was missed once: it may be received and not read yet.
    missed: bool,
    /// Frames of responses, and PINGs since the last one.
    pings: (u64, u32),
    /// Bytes sent and received at the last check.
    moved: (u64, u64),
}

impl Keepalive {
    /// Notes that frames of a request were sent, when `received` bytes had been received.
    pub(super) fn note_request(&mut self, received: u64) {
        self.said = Some(received);
    }

    /// Checks the connection, about once a second.
    pub(super) fn check(
        &mut self,
        now: Millis,
        seen: ConnectionActivity,
    ) -> Option<KeepaliveAction> {
        let (sent, received) = std::mem::replace(&mut self.moved, (seen.sent, seen.received));
        let waits = !seen.idle && self.said == Some(seen.received);
        // A peer that takes bytes that could not leave before may respond behind them.
        if !waits || seen.received != received || (seen.blocked && seen.sent != sent) {
            (self.waits_since, self.pinged_at, self.missed) = (None, None, false);
        }
        if !waits {
            return None;
        }
        let since = *self.waits_since.get_or_insert(now);
        match self.pinged_at {
            None if now - since >= QUIET => {
                if self.pings.0 != seen.responses {
                    self.pings = (seen.responses, 0);
                }
                if self.pings.1 == PINGS {
                    return None;
                }
                self.pings.1 += 1;
                self.pinged_at = Some(now);
                Some(KeepaliveAction::Ping)
            }
            Some(at) if now - at >= PONG => {
                std::mem::replace(&mut self.missed, true).then_some(KeepaliveAction::Drop)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks each second from `from` on, and returns each order with its time.
    fn orders(
        keepalive: &mut Keepalive,
        from: u64,
        seconds: u64,
        seen: ConnectionActivity,
    ) -> Vec<(u64, KeepaliveAction)> {
        let looks = (from..from + seconds)
            .filter_map(|at| Some((at, keepalive.check(Millis::new(at * 1_000), seen)?)));
        looks.collect()
    }

    #[test]
    fn a_silent_endpoint_is_pinged_and_then_dropped() {
        let mut keepalive = Keepalive::default();
        keepalive.note_request(50);
        let seen = ConnectionActivity {
            sent: 100,
            received: 50,
            ..ConnectionActivity::default()
        };
        assert_eq!(
            orders(&mut keepalive, 7, 40, seen)[..2],
            [(17, KeepaliveAction::Ping), (38, KeepaliveAction::Drop)]
        );
    }

    #[test]
    fn an_idle_stream_gets_no_keep_alive_ping() {
        let mut keepalive = Keepalive::default();
        keepalive.note_request(50);
        let seen = ConnectionActivity {
            sent: 100,
            received: 80,
            responses: 2,
            ..ConnectionActivity::default()
        };
        assert_eq!(orders(&mut keepalive, 0, 10_000, seen), []);
        // Of a request that comes then the wait begins anew.
        keepalive.note_request(80);
        assert_eq!(
            orders(&mut keepalive, 10_000, 12, seen),
            [(10_010, KeepaliveAction::Ping)]
        );
    }

    #[test]
    fn at_most_two_pings_go_out_between_response_frames() {
        let mut keepalive = Keepalive::default();
        let mut seen = ConnectionActivity {
            responses: 1,
            ..ConnectionActivity::default()
        };
        let mut pings = Vec::new();
        for round in 0..10 {
            // A client that streams, and an endpoint that acknowledges and sends nothing else.
            keepalive.note_request(seen.received);
            pings.extend(orders(&mut keepalive, round * 20, 20, seen));
            seen.received += 17;
        }
        assert_eq!(
            pings,
            [(10, KeepaliveAction::Ping), (30, KeepaliveAction::Ping)]
        );
        seen.responses = 2;
        keepalive.note_request(seen.received);
        assert_eq!(
            orders(&mut keepalive, 500, 11, seen),
            [(510, KeepaliveAction::Ping)]
        );
    }

    #[test]
    fn a_peer_that_reads_slowly_is_not_dropped() {
        let mut keepalive = Keepalive::default();
        keepalive.note_request(0);
        for second in 0..100 {
            let seen = ConnectionActivity {
                sent: second,
                blocked: true,
                ..ConnectionActivity::default()
            };
            assert_eq!(keepalive.check(Millis::new(second * 1_000), seen), None);
        }
    }

    #[test]
    fn no_ping_without_a_running_request() {
        let mut keepalive = Keepalive::default();
        keepalive.note_request(0);
        assert_eq!(
            orders(
                &mut keepalive,
                0,
                100,
                ConnectionActivity {
                    idle: true,
                    ..ConnectionActivity::default()
                }
            ),
            []
        );
        keepalive.note_request(0);
        assert_eq!(
            orders(&mut keepalive, 100, 12, ConnectionActivity::default()),
            [(110, KeepaliveAction::Ping)]
        );
    }
}
