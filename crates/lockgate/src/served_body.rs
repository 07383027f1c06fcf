//! The body of a response of the metrics address or of the admin socket: whole, or one that goes on.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// A body; the pieces of one that goes on come from `P`.
pub(crate) enum ServedBody<P> {
    Whole(Full<Bytes>),
    GoesOn(P),
}

/// The pieces of a body that goes on.
pub(crate) trait BodyPieces: Unpin {
    /// Waits for the next piece; after the last there is none.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl BodyPieces for mpsc::Receiver<Bytes> {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.poll_recv(cx)
    }
}

impl<P> ServedBody<P> {
    pub(crate) fn whole(body: impl Into<Bytes>) -> Self {
        Self::Whole(Full::new(body.into()))
    }

    pub(crate) fn goes_on(&self) -> bool {
        matches!(self, Self::GoesOn(_))
    }
}

impl<P: BodyPieces> Body for ServedBody<P> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::GoesOn(pieces) => pieces
                .poll_piece(cx)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::GoesOn(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::GoesOn(_) => SizeHint::default(),
        }
    }
}
