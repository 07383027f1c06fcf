//! The body of a response that goes on: lines as they happen.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use lockgate_proxy::access_log::TailReader;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::phase::AdminPhase;

/// The time between two looks at the buffers of the workers: these wake no reader.
const LOOKED_EVERY: Duration = Duration::from_millis(100);

/// The lines of a reader, until another process has the socket.
pub(super) struct LineStream {
    reader: TailReader,
    phase: watch::Receiver<AdminPhase>,
    is_over: bool,
    looks: Interval,
}

/// The body of a response.
pub(super) enum AdminBody {
    Whole(Full<Bytes>),
    Lines(LineStream),
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

    fn poll_lines(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
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

impl Body for AdminBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Lines(lines) => lines
                .poll_lines(cx)
                .map(|lines| lines.map(|lines| Ok(Frame::data(lines)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Lines(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Lines(_) => SizeHint::default(),
        }
    }
}
