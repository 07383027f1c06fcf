//! Hands a request to an endpoint and its answer to the client.
//!
//! Request and answer run side by side: an origin may answer while the client still sends. What fails before anything
//! was answered may be tried again; what was begun is delivered as far as it comes, and never as more than it is.

mod heads;
mod replay;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use lockgate_http::fields::Known;
use lockgate_http::forwarding;
use lockgate_http::h1::{HeadError, framing, parse};
use lockgate_http::head::{BodyLength, ResponseHead, Version};

use crate::access_log::{Cause, Side};
use crate::answer::Fault;
use crate::clock::{Asked, Cut, Guard, Waiting};
use crate::exchange::{Exchange, Failure, lap};
use crate::h1::{self, Link, ReadError, poll_pump};
use crate::site::Rules;
use crate::upstream::{self, DialError, Lease, Tried, Upstream, Wanted};

use replay::Replay;

/// Interim answers that one request may get: none has a reason for more.
const INTERIM: u32 = 32;

/// What is done with requests that go to a pool.
#[derive(Debug)]
pub struct Proxy {
    /// Which of the worker's upstreams.
    pub upstream: usize,
    /// For one attempt to connect.
    pub connect: Duration,
    /// From a request that was sent to the head of its answer, if that is limited.
    pub response: Option<Duration>,
    /// For a connection that was switched to another protocol, and on which nothing moves.
    pub tunnel_idle: Duration,
}

/// How an attempt failed before anything was answered.
struct Unanswered {
    failure: Failure,
    /// Whether any byte of the request has left.
    sent: bool,
    /// Whether another attempt could go better: not if it was the client.
    worth: bool,
    /// Whether the endpoint was waited for in vain.
    late: bool,
}

impl Unanswered {
    fn end(failure: Failure) -> Self {
        Self { failure, sent: true, worth: false, late: false }
    }

    /// The endpoint broke off.
    fn broken(up: &Link, detail: String) -> Self {
        let failure = Failure::because(Fault::ConnectionTerminated, detail);
        Self { failure, sent: up.writer.has_sent(), worth: true, late: false }
    }

    /// We do not wait any longer.
    fn cut(up: &Link, cut: Cut, uploaded: bool) -> Self {
        let fault = if uploaded { Fault::ResponseTimeout } else { Fault::WriteTimeout };
        let late = matches!(cut, Cut::Deadline | Cut::EndpointDown);
        Self { failure: Failure::cut(cut, fault), sent: up.writer.has_sent(), worth: late, late }
    }

    /// Whether it says nothing of the endpoint: a connection that was kept may be closed at any time, also when the
    /// request is on its way (RFC 9112 §9.5).
    fn is_stale(&self, lease: &Lease) -> bool {
        lease.requests > 0 && !self.late
    }
}

/// Why a request is sent once more.
struct Before {
    failure: Failure,
    /// The place of the endpoint that has failed.
    place: usize,
    /// Whether it counts as a retry.
    counts: bool,
}

impl Proxy {
    /// Answers the exchange by an endpoint's answer.
    ///
    /// # Errors
    /// When there is none, or not the whole of it; nothing was answered if the outcome has no status.
    pub async fn run(&self, exchange: &mut Exchange<'_>) -> Result<(), Failure> {
        let upstream = Rc::clone(exchange.worker.upstream(self.upstream));
        upstream.count();
        // What must not be sent twice is sent where the kernel says that somebody listens.
        let idempotent = exchange.head.method.is_idempotent();
        let mut wanted = if idempotent { Wanted::Any } else { Wanted::Certain };
        let mut replay = Replay::new(idempotent);
        let mut tried = 0;
        let mut clock = exchange.began;
        let mut before: Option<Before> = None;
        loop {
            let mut lease = match (self.lease(exchange, &upstream, wanted, &mut tried).await, before.take()) {
                (Ok(lease), None) => lease,
                (Ok(lease), Some(before)) => {
                    if let Some(cells) = exchange.worker.cells.http.endpoint(before.place) {
                        cells.retries.inc();
                    }
                    exchange.outcome.retries += u32::from(before.counts);
                    lease
                }
                (Err(error @ (DialError::Cut(_) | DialError::Left)), _) | (Err(error), None) => {
                    return Err(error.into());
                }
                // Nobody else could be asked: what happened says more than that.
                (Err(_), Some(before)) => return Err(before.failure),
            };
            let took = lap(&mut clock);
            exchange.outcome.leased(took, lease.dialled);
            exchange.outcome.reused = lease.requests > 0;
            exchange.outcome.endpoint = Some(Arc::clone(lease.endpoint()));
            let cells = exchange.worker.cells.http.endpoint(lease.place());
            if let Some(cells) = cells {
                lease.dialled.map_or_else(|| cells.reused.inc(), |took| cells.connected(took));
                cells.in_flight.inc();
            }
            let mut answer = exchange.worker.answers.take();
            let place = lease.place();
            let again = idempotent && exchange.outcome.retries < upstream.pool().settings.retry.times;
            let asking = Asked {
                upstream: self.upstream,
                member: lease.member(),
                since: clock,
                tried: again.then_some(tried),
            };
            let asked = self.ask(exchange, &mut lease.link, asking, &mut replay, &mut answer).await;
            let waited = exchange.guard.watch().asked.take();
            let unanswered = match asked {
                Ok(()) => {
                    let took = lap(&mut clock);
                    exchange.outcome.first_byte = Some(took);
                    match waited {
                        Some(Asked { since, .. }) => {
                            let waited = clock.saturating_duration_since(since);
                            lease.endpoint().answered(waited, exchange.guard.clock().now());
                        }
                        // It did not wait for the whole request, so its haste says little.
                        None => lease.endpoint().succeeded(),
                    }
                    if let Some(cells) = cells {
                        cells.answered(answer.status, took);
                    }
                    let result = self.answer(exchange, lease, &mut answer).await;
                    exchange.worker.answers.give(answer);
                    if let Some(cells) = cells {
                        cells.in_flight.dec();
                    }
                    return result;
                }
                Err(unanswered) => unanswered,
            };
            exchange.worker.answers.give(answer);
            if let Some(cells) = cells {
                cells.in_flight.dec();
                if let Some(fault) = unanswered.failure.fault {
                    cells.failed(fault);
                }
            }
            let stale = unanswered.is_stale(&lease);
            let overtaken = lease.is_overtaken(exchange.guard.clock().now());
            if unanswered.worth && !stale && !unanswered.late {
                lease.endpoint().failed(upstream::Failure::Broken, exchange.guard.clock().now());
            }
            let harmless = !unanswered.sent || idempotent;
            let repeatable = unanswered.worth && harmless && replay.rewind();
            if !repeatable || !(stale || self.may_retry(exchange, &upstream, overtaken)) {
                return Err(unanswered.failure);
            }
            if stale {
                // Its own fault it was not; but where one idle connection was dead, the others probably are.
                tried = 0;
                wanted = Wanted::New;
            }
            before = Some(Before { failure: unanswered.failure, place, counts: !stale });
        }
    }

    /// A connection to an endpoint, unless the client leaves before there is one.
    async fn lease(
        &self,
        exchange: &mut Exchange<'_>,
        upstream: &Rc<Upstream>,
        wanted: Wanted,
        tried: &mut Tried,
    ) -> Result<Lease, DialError> {
        let Exchange { worker, guard, down, private, introduction, cells, .. } = exchange;
        let cells = (&worker.cells.http, *cells);
        let mut header = Vec::new();
        let mut wanted = wanted;
        if let Some(version) = upstream.pool().settings.proxy_protocol {
            let now = guard.clock().now();
            if wanted != Wanted::New
                && let Some(lease) = private.take().and_then(|private| private.take(upstream, now, tried))
            {
                return Ok(lease);
            }
            header = introduction(version);
            wanted = Wanted::New;
        }
        let mut leased = pin!(upstream.lease(guard, self.connect, wanted, &header, tried, cells));
        poll_fn(|cx| match leased.as_mut().poll(cx) {
            // It neither keeps its place in the queue nor is served for nothing.
            Poll::Pending if down.stream.poll_gone(cx).is_ready() => Poll::Ready(Err(DialError::Left)),
            polled => polled,
        })
        .await
    }

    /// Whether the endpoint's failure may be made good by another one.
    fn may_retry(&self, exchange: &Exchange<'_>, upstream: &Upstream, overtaken: bool) -> bool {
        let left = exchange.outcome.retries < upstream.pool().settings.retry.times;
        left && (overtaken || upstream.may_retry())
    }

    /// Sends the request, and reads until there is the head of an answer.
    async fn ask(
        &self,
        exchange: &mut Exchange<'_>,
        up: &mut Link,
        asking: Asked,
        replay: &mut Replay,
        answer: &mut ResponseHead,
    ) -> Result<(), Unanswered> {
        let (guard, rules) = (exchange.guard, exchange.rules);
        let mut at_once = true;
        guard.settle();
        heads::request(exchange, up.writer.head());
        up.writer.begin_body(exchange.length);
        let mut uploaded = false;
        // What the endpoint had taken when it began to take no more.
        let mut stuck = None;
        exchange.outcome.awaited = false;
        let mut broken = None;
        // RFC 9110 §10.1.1: until it is told to go on, the client waits for the origin, and not we for the client.
        let mut invited =
            exchange.length == BodyLength::Empty || exchange.head.fields.first(Known::Expect).is_none();
        if let (false, Some(response)) = (invited, self.response) {
            guard.phase(response);
        }
        for _ in 0..INTERIM {
            let down = &mut *exchange.down;
            let asked = guard.within(poll_fn(|cx| {
                if !uploaded {
                    match poll_upload(cx, guard, rules, down, up, replay) {
                        Poll::Ready(Err(Upload::Client(failure))) => {
                            return Poll::Ready(Err(Unanswered::end(failure)));
                        }
                        Poll::Ready(done) => {
                            // It may have said why before it broke, and that may be told only with the next event.
                            if let Err(Upload::Broken(error)) = done {
                                broken = Some(error);
                            }
                            uploaded = true;
                            guard.watch().waits(Waiting::Otherwise);
                            // How long the client has taken to send it is not the endpoint's doing.
                            let since = if at_once { asking.since } else { Instant::now() };
                            let tried = asking.tried.filter(|_| replay.is_whole());
                            guard.watch().asked.set(Some(Asked { since, tried, ..asking }));
                            if let Some(response) = self.response {
                                guard.phase(response);
                            }
                        }
                        Poll::Pending if !invited && down.reader.taken() == 0 => {
                            at_once = false;
                            guard.watch().waits(Waiting::Otherwise);
                        }
                        Poll::Pending => {
                            at_once = false;
                            if !std::mem::replace(&mut invited, true) {
                                guard.settle();
                            }
                            let now = up.writer.is_blocked().then(|| up.writer.moved());
                            if now != stuck {
                                stuck = now;
                                match (stuck, self.response) {
                                    (Some(_), Some(response)) => guard.phase(response),
                                    _ => guard.settle(),
                                }
                            }
                        }
                    }
                }
                let lost = match poll_answer(cx, up, answer) {
                    Poll::Ready(Ok(true)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Ok(false)) => "closed before it answered".to_owned(),
                    Poll::Ready(Err(ReadError::Stream(error))) => error.to_string(),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(unreadable(&error))),
                    Poll::Pending if uploaded && down.stream.poll_gone(cx).is_ready() => {
                        let failure =
                            Failure::silent(Cause::ClientReset, Side::Downstream, "while it waited");
                        return Poll::Ready(Err(Unanswered::end(failure)));
                    }
                    Poll::Pending => return Poll::Pending,
                };
                Poll::Ready(Err(Unanswered::broken(up, broken.take().unwrap_or(lost))))
            }));
            match asked.await {
                Ok(Ok(())) => {}
                Ok(Err(unanswered)) => return Err(unanswered),
                Err(cut) => return Err(Unanswered::cut(up, cut, uploaded)),
            }
            if !answer.is_interim() {
                // What was not asked for may never be read, and then would be the next request.
                exchange.outcome.awaited |= uploaded && exchange.head.fields.first(Known::Expect).is_none();
                return Ok(());
            }
            exchange.outcome.awaited |= answer.status == 100;
            // While the client takes it, the endpoint is not waited for.
            let asked = guard.watch().asked.take();
            Box::pin(interim(exchange, answer)).await.map_err(Unanswered::end)?;
            guard.watch().asked.set(asked);
            if answer.status == 100 && !std::mem::replace(&mut invited, true) && !uploaded {
                guard.settle();
            }
        }
        Err(Unanswered::end(Failure::because(Fault::BadResponse, "too many interim answers")))
    }

    /// Hands the answer on.
    async fn answer(
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
                match poll_upload(cx, guard, rules, down, up, &mut none) {
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

/// Why the request's body did not arrive.
enum Upload {
    /// It is the client's doing.
    Client(Failure),
    /// The endpoint takes no more.
    Broken(String),
}

/// The rest of the request's body, after what is to be sent again.
fn poll_upload(
    cx: &mut Context<'_>,
    guard: &Guard,
    rules: &Rules,
    down: &mut Link,
    up: &mut Link,
    replay: &mut Replay,
) -> Poll<Result<(), Upload>> {
    let broken = |error: lockgate_net::stream::StreamError| Upload::Broken(error.to_string());
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

fn poll_answer(
    cx: &mut Context<'_>,
    up: &mut Link,
    answer: &mut ResponseHead,
) -> Poll<Result<bool, ReadError>> {
    up.reader.poll_head(cx, &mut up.stream, |input, progress, limits| {
        parse::response(input, progress, limits, answer)
    })
}

fn unreadable(error: &ReadError) -> Unanswered {
    let fault = match error {
        ReadError::Head(HeadError::TooLong | HeadError::TooManyFields) => Fault::ResponseHeadTooLarge,
        _ => Fault::BadResponse,
    };
    Unanswered::end(Failure::because(fault, error.to_string()))
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

/// Hands on an answer before the answer (RFC 9110 §15.2); HTTP/1.0 has none.
async fn interim(exchange: &mut Exchange<'_>, answer: &ResponseHead) -> Result<(), Failure> {
    if exchange.head.version != Version::Http11 {
        return Ok(());
    }
    heads::interim(answer, exchange.down.writer.head());
    let Link { stream, writer, .. } = &mut *exchange.down;
    match exchange.guard.within(poll_fn(|cx| writer.poll_flush(cx, stream))).await {
        Ok(flushed) => flushed.map_err(|error| Failure::client(&error)),
        // A part of it may have left: what we said now would be taken for its rest.
        Err(cut) => Err(Failure { fault: None, ..Failure::cut(cut, Fault::ResponseTimeout) }),
    }
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
