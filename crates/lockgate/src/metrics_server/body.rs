//! The body of a response: whole, or the events of a live page, which go on.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

pub(super) enum MetricsBody {
    Whole(Full<Bytes>),
    Events(mpsc::Receiver<Bytes>),
}

impl MetricsBody {
    pub(super) fn whole(body: Bytes) -> Self {
        Self::Whole(Full::new(body))
    }

    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Self::Events(_))
    }
}

impl Body for MetricsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Events(events) => events
                .poll_recv(cx)
                .map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
