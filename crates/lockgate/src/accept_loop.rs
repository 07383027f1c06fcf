//! The acceptor of an address that the main thread serves: the metrics address, the admin socket.
//!
//! Does not speak HTTP: the caller serves each connection.

mod slots;

use std::future::{Future, poll_fn};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use slots::ConnectionSlots;
pub(crate) use slots::HeadReceived;

/// The pause after a failed accept that waiting may cure (no descriptor left).
const PAUSE: Duration = Duration::from_secs(1);

/// A listener of either kind.
pub(crate) trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Stream>>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        self.poll_accept(cx).map_ok(|(stream, _)| stream)
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.poll_accept(cx).map_ok(|(stream, _)| stream)
    }
}

/// The acceptor of one address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acceptance {
    /// The address, as the operator log names it.
    pub(crate) name: &'static str,
    /// The most connections at once. A further one takes the slot of a silent one.
    pub(crate) at_once: usize,
}

impl Acceptance {
    /// Accepts connections, and runs `serve` for each in a task of its own, until the future is
    /// dropped.
    pub(crate) async fn run<L: Accept, C>(
        self,
        listener: L,
        serve: impl Fn(L::Stream, HeadReceived) -> C,
    ) where
        C: Future<Output = ()> + Send + 'static,
    {
        let mut slots = ConnectionSlots::new(self.at_once);
        let mut failed = false;
        loop {
            match poll_fn(|cx| listener.poll_next(cx)).await {
                Ok(stream) => {
                    failed = false;
                    let slot = slots.take().await;
                    let head_received = HeadReceived::default();
                    let connection = serve(stream, head_received.clone());
                    let task = tokio::spawn(async move {
                        connection.await;
                        drop(slot);
                    });
                    slots.occupy(head_received, task);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if !std::mem::replace(&mut failed, true) {
                        let name = self.name;
                        tracing::warn!(%error, "{name} cannot accept; trying again every second");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}
