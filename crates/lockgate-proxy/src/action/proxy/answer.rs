//! An endpoint's answer on its way to the client.

use std::future::poll_fn;
use std::task::{Poll, ready};

use lockgate_http::forwarding;
use lockgate_http::h1::framing;
use lockgate_http::head::{BodyLength, ResponseHead, Version};

use super::replay::Replay;
use super::upload::{self, Upload};
use super::{Proxy, heads};
use crate::access_log::{Cause, Side};
use crate::answer::Fault;
use crate::clock::Waiting;
use crate::exchange::{Exchange, Failure};
use crate::h1::{self, Link, ReadError, poll_pump};
use crate::upstream::Lease;

impl Proxy {
    /// Hands the answer on.
    pub(super) async fn answer(
        &self,
        exchange: &mut Exchange<'_>,
        mut lease: Lease,
        answer: &mut ResponseHead,
    ) -> Result<(), Failure> {
        if answer.status == 101 {
            return Box::pin(switch(exchange, lease, answer)).await;
        }
        let bad = |error: String| Failure::because(Fault::BadResponse, error);
        let length =
            framing::response(exchange.head.method, answer).map_err(|error| bad(error.to_string()))?;
        let kept = forwarding::keeps_alive(answer.version, &answer.fields)
            && length != BodyLength::UntilClose
            && (exchange.outcome.awaited || exchange.length == BodyLength::Empty);
        let up = &mut *lease.link;
        up.reader.begin_body(length).map_err(|error| bad(error.to_string()))?;
        let onward = match length {
            BodyLength::Chunked | BodyLength::UntilClose if exchange.head.version == Version::Http11 => {
                BodyLength::Chunked
            }
            BodyLength::Chunked => BodyLength::UntilClose,
            length => length,
        };
        // What a client still sends when it has its answer is not waited for.
        let keep = exchange.keep
            && onward != BodyLength::UntilClose
            && exchange.down.reader.has_ended()
            // Since the request came, the end may have begun.
            && !exchange.worker.is_stopping();
        heads::transform(exchange, &lease, answer);
        heads::response(exchange, answer, onward, keep);
        exchange.down.writer.begin_body(onward);
        exchange.outcome.status = answer.status;
        let (guard, rules) = (exchange.guard, exchange.rules);
        guard.settle();
        let (down, up) = (&mut *exchange.down, &mut *lease.link);
        let before = guard.watch().meter.sent.get();
        let mut uploading = !up.writer.has_ended();
        // An answer has begun: nothing is sent again.
        let mut none = Replay::new(false);
        let delivered = guard.within(poll_fn(|cx| {
            if uploading {
                match upload::poll(cx, guard, rules, down, up, &mut none) {
                    Poll::Ready(Err(Upload::Client(failure))) => return Poll::Ready(Err(failure)),
                    // An origin that answers may have heard enough.
                    Poll::Ready(_) => uploading = false,
                    Poll::Pending => {}
                }
            }
            let (source, sink) = ((&mut up.reader, &mut up.stream), (&mut down.writer, &mut down.stream));
            let pumped = poll_pump(cx, source, sink, &rules.headers, |_| {});
            guard.watch().meter.sent.set(before + down.writer.moved());
            if pumped.is_pending() && down.writer.is_blocked() {
                guard.watch().waits(Waiting::ForRoom);
            } else if !uploading {
                guard.watch().waits(Waiting::Otherwise);
            }
            // Events may come hours apart: nothing is written that would tell.
            if pumped.is_pending() && down.stream.poll_gone(cx).is_ready() {
                let failure = Failure::silent(Cause::ClientReset, Side::Downstream, "within the answer");
                return Poll::Ready(Err(failure));
            }
            Poll::Ready(ready!(pumped).map_err(|fault| match fault {
                h1::Fault::Source(error) => truncated(&error),
                h1::Fault::Sink(error) => Failure::client(&error),
            }))
        }));
        let delivered =
            delivered.await.unwrap_or_else(|cut| Err(Failure::cut(cut, Fault::ResponseIncomplete)));
        if let Err(failure) = delivered {
            if failure.side == Side::Upstream {
                // What has come is delivered, and its end is not: the client must not take it for the whole.
                guard.watch().waits(Waiting::ForRoom);
                let Link { stream, writer, .. } = &mut *exchange.down;
                let _ = guard.within(poll_fn(|cx| writer.poll_flush(cx, stream))).await;
            }
            if onward == BodyLength::UntilClose {
                // The close is the end of the body here (RFC 9112 §8): only a reset says that it is not.
                exchange.down.stream.socket().reset_on_close();
            }
            if failure.cause == Cause::TooSlow && failure.side == Side::Downstream {
                // The kernel holds megabytes for who takes nothing: with a reset they are gone, after a close they stay
                // until it gives up.
                exchange.down.stream.socket().reset_on_close();
            }
            return Err(failure);
        }
        exchange.outcome.reusable = keep;
        let up = &lease.link;
        if kept && up.writer.has_ended() && !up.writer.holds_bytes() && !up.reader.holds_bytes() {
            if exchange.worker.upstream(self.upstream).pool().settings.proxy_protocol.is_some() {
                *exchange.private = lease.keep_private(guard.clock().now());
            } else {
                lease.keep(guard.clock().now());
            }
        }
        Ok(())
    }
}

/// The answer was begun: all that can be said is that it has not ended.
fn truncated(error: &ReadError) -> Failure {
    let fault = match error {
        ReadError::Cut => Fault::ResponseIncomplete,
        ReadError::Stream(_) => Fault::ConnectionTerminated,
        ReadError::Head(_) | ReadError::Body(_) | ReadError::TooLong => Fault::BadResponse,
    };
    Failure::because(fault, error.to_string())
}

/// Both have agreed to speak something else from here on (RFC 9110 §7.8).
async fn switch(exchange: &mut Exchange<'_>, lease: Lease, answer: &ResponseHead) -> Result<(), Failure> {
    // RFC 9110 §7.8: not before the request is whole. What is left of its body would be taken for the other protocol.
    let up = &lease.link.writer;
    let whole = exchange.down.reader.has_ended() && up.has_ended() && !up.holds_bytes();
    if !whole || !heads::agrees(exchange.head, answer) {
        return Err(Failure::of(Fault::UpgradeFailed));
    }
    heads::switched(exchange, answer);
    exchange.outcome.status = answer.status;
    exchange.guard.watch().waits(Waiting::ForRoom);
    let Link { stream, writer, .. } = &mut *exchange.down;
    match exchange.guard.within(poll_fn(|cx| writer.poll_flush(cx, stream))).await {
        Ok(flushed) => flushed.map_err(|error| Failure::client(&error))?,
        Err(cut) => return Err(Failure::cut(cut, Fault::ResponseTimeout)),
    }
    exchange.outcome.switched = Some(lease);
    Ok(())
}
