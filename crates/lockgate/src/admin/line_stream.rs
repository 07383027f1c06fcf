//! The lines of a response that goes on, as they happen.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Bytes;
use lockgate_proxy::access_log::TailReader;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::phase::AdminPhase;
use crate::served_body::BodyPieces;

/// The time between two looks at the buffers of the workers: these wake no reader.
const LOOKED_EVERY: Duration = Duration::from_millis(100);

/// The lines of a reader, until another process has the socket.
pub(super) struct LineStream {
    reader: TailReader,
    phase: watch::Receiver<AdminPhase>,
    is_over: bool,
    looks: Interval,
}

impl LineStream {
    pub(super) fn new(reader: TailReader, phase: watch::Receiver<AdminPhase>) -> Self {
        let mut looks = interval(LOOKED_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            reader,
            phase,
            is_over: false,
            looks,
        }
    }
}

impl BodyPieces for LineStream {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while !self.is_over {
            ready!(self.looks.poll_tick(cx));
            self.is_over = *self.phase.borrow() == AdminPhase::HandedOver;
            let mut lines = self.reader.take();
            let lost = self.reader.take_lost();
            if lost > 0 {
                lines.extend_from_slice(format!("{{\"lost\":{lost}}}\n").as_bytes());
            }
            if !lines.is_empty() {
                return Poll::Ready(Some(lines.into()));
            }
        }
        Poll::Ready(None)
    }
}
