//! The linger before a close: the client gets our last bytes, and some of those that it still sends
//! are read. Closing with its bytes unread would reset the connection, and the reset could overtake
//! ours (RFC 9112 §9.6).
//!
//! How a linger ends makes no difference: whether the client waits for it or not, the connection or
//! the stream is over.

use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};
use std::time::Duration;

use lockgate_http::head::BodyLength;
use lockgate_http_io::body::BodyReader;
use lockgate_http_io::h1::H1Connection;
use lockgate_http_io::h2::{DownstreamStream, SharedLink};
use lockgate_http_io::message::ClientExchange;
use lockgate_limits::clock::{Guard, WaitReason};
use lockgate_net::socket::Socket;
use lockgate_net::stream::{ReadBuffer, Stream};

use super::termination::Termination;
use crate::access_log::Cause;

/// The time for which a client that still sends a request is read from after our response. Many
/// read a response only when they have sent all of their body, however long it is.
pub(super) const LINGER: Duration = Duration::from_secs(30);
/// The same, of one that has fallen silent, or was too slow before.
const SILENCE: Duration = Duration::from_secs(2);
/// The time for a client to take our last bytes where they are no response to a whole request.
pub(super) const SHORT_LINGER: Duration = Duration::from_secs(2);
/// Reads in one turn; then the worker's other connections have theirs.
const READS_PER_TURN: usize = 16;
/// Reads in all where a request was not served.
const READS: usize = 16;
/// Reads in all behind our last frame.
const READS_OF_FRAMES: usize = 64;

impl Termination {
    /// The time for which the client is read from after its last response.
    pub(super) fn linger_time(&self) -> Duration {
        if self.cause == Cause::TooSlow {
            SILENCE
        } else {
            LINGER
        }
    }
}

/// Sends the last bytes, and waits until the client has closed.
pub(super) async fn linger_on_socket(socket: &Socket, last: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < last.len() {
        sent += poll_fn(|cx| socket.poll_send(cx, &last[sent..])).await?;
    }
    socket.shutdown_write()?;
    let mut sink = [0; 1024];
    for _ in 0..READS {
        if poll_fn(|cx| socket.poll_recv(cx, &mut sink)).await? == 0 {
            break;
        }
    }
    Ok(())
}

/// Waits until the client has closed; the last bytes were sent.
pub(super) async fn linger_on_stream(stream: &mut Stream, inbox: &mut ReadBuffer) {
    for _ in 0..READS {
        inbox.consume(inbox.bytes().len());
        if !matches!(poll_fn(|cx| stream.poll_read(cx, inbox)).await, Ok(true)) {
            break;
        }
    }
}

/// Sends what is left of a response, and waits until the client has closed.
pub(super) async fn linger_over_http1(
    guard: &Guard,
    down: &mut H1Connection,
    termination: &Termination,
) {
    guard.begin_phase(termination.linger_time());
    guard.limit_idle(SILENCE);
    guard.watch().set_wait(WaitReason::ForClose);
    let received = &guard.watch().meter.received;
    let H1Connection {
        stream,
        writer,
        reader,
    } = down;
    let mut finished = false;
    let _ = guard
        .within(poll_fn(|cx| {
            if !finished {
                let flushed = ready!(writer.poll_flush(cx, stream));
                if flushed.is_err() || ready!(stream.poll_finish(cx)).is_err() {
                    return Poll::Ready(());
                }
                finished = true;
                let _ = reader.begin_body(BodyLength::UntilClose);
            }
            for _ in 0..READS_PER_TURN {
                match ready!(reader.poll_data(cx, stream)) {
                    Ok(()) if !reader.has_ended() => {
                        let here = reader.data().len();
                        received.set(received.get() + here as u64);
                        reader.consume(here);
                    }
                    _ => return Poll::Ready(()),
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
        .await;
}

/// Waits until the client has closed; the last frames were sent.
pub(super) async fn linger_over_http2(guard: &Guard, link: &SharedLink) {
    guard.begin_phase(SHORT_LINGER);
    guard.watch().set_wait(WaitReason::ForClose);
    let mut reads = 0;
    let _ = guard
        .within(poll_fn(|cx| {
            while reads < READS_OF_FRAMES {
                match link.borrow_mut().poll_discard(cx) {
                    Poll::Ready(true) => reads += 1,
                    Poll::Ready(false) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(())
        }))
        .await;
}

/// Takes the rest of a request's body after its response. A reset that stops the client (RFC 9113
/// §8.1) comes with the response or overtakes it in the client, and many then never read it.
pub(super) async fn linger_on_body(stream: &mut DownstreamStream, guard: &Guard, limit: Duration) {
    guard.begin_phase(limit);
    guard.limit_idle(SILENCE);
    stream.limit_body(u64::MAX);
    let received = &guard.watch().meter.received;
    let _ = guard
        .within(poll_fn(|cx| {
            loop {
                match ready!(stream.poll_data(cx)) {
                    Ok(()) if !stream.is_complete() => {
                        let here = stream.data().len();
                        received.set(received.get() + here as u64);
                        stream.consume(here);
                    }
                    _ => return Poll::Ready(()),
                }
            }
        }))
        .await;
}
