//! A request's body on its way to an endpoint.

use std::task::{Context, Poll, ready};

use lockgate_net::stream::StreamError;

use super::replay::Replay;
use crate::clock::{Guard, Waiting};
use crate::exchange::Failure;
use crate::h1::{self, Link, poll_pump};
use crate::site::Rules;

/// Why the request's body did not arrive.
pub(super) enum Upload {
    /// It is the client's doing.
    Client(Failure),
    /// The endpoint takes no more.
    Broken(String),
}

/// The rest of the request's body, after what is to be sent again.
pub(super) fn poll(
    cx: &mut Context<'_>,
    guard: &Guard,
    rules: &Rules,
    down: &mut Link,
    up: &mut Link,
    replay: &mut Replay,
) -> Poll<Result<(), Upload>> {
    let broken = |error: StreamError| Upload::Broken(error.to_string());
    while let Some(data) = replay.again() {
        let last = down.reader.has_ended() && down.reader.is_last();
        let taken = ready!(up.writer.poll_data(cx, &mut up.stream, data, last)).map_err(broken)?;
        replay.sent(taken);
    }
    let meter = &guard.watch().meter;
    let before = down.reader.taken();
    let (source, sink) = ((&mut down.reader, &mut down.stream), (&mut up.writer, &mut up.stream));
    let pumped = poll_pump(cx, source, sink, &rules.request_headers, |data| replay.keep(data));
    meter.received.set(meter.received.get() + down.reader.taken() - before);
    match pumped {
        Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
        Poll::Ready(Err(h1::Fault::Source(error))) => {
            Poll::Ready(Err(Upload::Client(Failure::upload(&error))))
        }
        Poll::Ready(Err(h1::Fault::Sink(error))) => Poll::Ready(Err(broken(error))),
        Poll::Pending => {
            // While the endpoint takes nothing, the client is not to blame.
            let waiting = if up.writer.is_blocked() { Waiting::Otherwise } else { Waiting::ForBody };
            guard.watch().waits(waiting);
            Poll::Pending
        }
    }
}
