//! Hands a request to an endpoint and its answer to the client.
//!
//! Request and answer run side by side: an origin may answer while the client still sends. What fails before anything
//! was answered may be tried again; what was begun is delivered as far as it comes, and never as more than it is.

mod heads;
mod replay;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use lockgate_http::forwarding;
use lockgate_http::h1::framing;
use lockgate_http::h1::parse;
use lockgate_http::head::{BodyLength, ResponseHead, Version};
use lockgate_net::stream::StreamError;

use crate::access_log::{Cause, Side};
use crate::answer::Fault;
use crate::clock::Cut;
use crate::exchange::{Exchange, Failure, lap};
use crate::h1::{self, Link, ReadError, poll_pump};
use crate::upstream::{self, Lease, Wanted};

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
}

impl Unanswered {
    fn end(failure: Failure) -> Self {
        Self { failure, sent: true, worth: false }
    }
}

impl Proxy {
    /// Answers the exchange by an endpoint's answer.
    ///
    /// # Errors
    /// When there is none, or not the whole of it; nothing was answered if the outcome has no status.
    pub async fn run(&self, exchange: &mut Exchange<'_>) -> Result<(), Failure> {
        let upstream = Rc::clone(exchange.worker.upstream(self.upstream));
        let mut replay = Replay::new(exchange.head.method.is_idempotent());
        let mut clock = Instant::now();
        // What must not be sent twice is sent where the kernel says that somebody listens.
        let idempotent = exchange.head.method.is_idempotent();
        let mut wanted = if idempotent { Wanted::Any } else { Wanted::Certain };
        let mut tried = 0;
        loop {
            let mut lease = upstream.lease(exchange.guard, self.connect, wanted, &mut tried).await?;
            exchange.outcome.connect = Some(lap(&mut clock));
            exchange.outcome.reused = lease.requests > 0;
            let mut answer = exchange.worker.answers.take();
            let answered = self.ask(exchange, &mut lease.link, &mut replay, &mut answer).await;
            exchange.outcome.endpoint = Some(Arc::clone(lease.endpoint()));
            let result = match answered {
                Ok(()) => {
                    let took = lap(&mut clock);
                    exchange.outcome.first_byte = Some(took);
                    lease.endpoint().answered(took, exchange.guard.clock().now());
                    self.answer(exchange, lease, &answer).await
                }
                Err(unanswered) => {
                    exchange.worker.answers.give(answer);
                    self.again(exchange, &lease, &mut replay, unanswered)?;
                    if lease.requests > 0 {
                        // Its own fault it was not; but where one idle connection was dead, the others probably are.
                        tried = 0;
                        wanted = Wanted::New;
                    }
                    continue;
                }
            };
            exchange.worker.answers.give(answer);
            return result;
        }
    }

    /// Whether a request that was not answered may be sent again (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
    fn again(
        &self,
        exchange: &mut Exchange<'_>,
        lease: &Lease,
        replay: &mut Replay,
        unanswered: Unanswered,
    ) -> Result<(), Failure> {
        let retry = exchange.worker.upstream(self.upstream).pool().settings.retry;
        let harmless = !unanswered.sent || exchange.head.method.is_idempotent();
        if !unanswered.worth || !harmless || !replay.rewind() {
            return Err(unanswered.failure);
        }
        // A kept connection that the endpoint has closed meanwhile says nothing of the endpoint, so it costs no retry.
        if lease.requests == 0 {
            lease.endpoint().failed(upstream::Failure::Broken, exchange.guard.clock().now());
            if exchange.outcome.retries >= retry.times {
                return Err(unanswered.failure);
            }
            exchange.outcome.retries += 1;
        }
        Ok(())
    }

    /// Sends the request, and reads until there is the head of an answer.
    async fn ask(
        &self,
        exchange: &mut Exchange<'_>,
        up: &mut Link,
        replay: &mut Replay,
        answer: &mut ResponseHead,
    ) -> Result<(), Unanswered> {
        exchange.guard.settle();
        heads::request(exchange, up.writer.head());
        up.writer.begin_body(exchange.length);
        for _ in 0..INTERIM {
            let guard = exchange.guard;
            let mut uploaded = false;
            let down = &mut *exchange.down;
            let asked = guard.within(poll_fn(|cx| {
                if !uploaded {
                    match poll_upload(cx, down, up, replay) {
                        Poll::Ready(Ok(())) => {
                            uploaded = true;
                            if let Some(response) = self.response {
                                guard.phase(response);
                            }
                        }
                        Poll::Ready(Err(h1::Fault::Source(error))) => {
                            return Poll::Ready(Err(Unanswered::end(Failure::upload(&error))));
                        }
                        // It may have said why before it broke.
                        Poll::Ready(Err(h1::Fault::Sink(error))) => {
                            return poll_last_words(cx, up, answer).map_err(|()| broken(&error, up));
                        }
                        Poll::Pending => {}
                    }
                }
                match poll_answer(cx, up, answer) {
                    Poll::Ready(Ok(true)) => Poll::Ready(Ok(())),
                    Poll::Ready(Ok(false)) => Poll::Ready(Err(silent(up))),
                    Poll::Ready(Err(error)) => Poll::Ready(Err(unreadable(error, up))),
                    Poll::Pending if uploaded && down.stream.poll_gone(cx).is_ready() => {
                        let failure = Failure::silent(Cause::ClientReset, Side::Downstream, "while it waited");
                        Poll::Ready(Err(Unanswered::end(failure)))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }));
            match asked.await {
                Ok(Ok(())) => {}
                Ok(Err(unanswered)) => return Err(unanswered),
                Err(cut) => return Err(Unanswered::end(Failure::cut(cut, Fault::ResponseTimeout))),
            }
            if !answer.is_interim() {
                return Ok(());
            }
            Box::pin(interim(exchange, answer)).await.map_err(Unanswered::end)?;
        }
        Err(Unanswered::end(Failure::because(Fault::BadResponse, "too many interim answers")))
    }

    /// Hands the answer on.
    async fn answer(
        &self,
        exchange: &mut Exchange<'_>,
        mut lease: Lease,
        answer: &ResponseHead,
    ) -> Result<(), Failure> {
        let bad = |error: &dyn std::fmt::Display| Failure::because(Fault::BadResponse, error.to_string());
        let length = framing::response(exchange.head.method, answer).map_err(|error| bad(&error))?;
        if answer.status == 101 {
            return Err(Failure::of(Fault::UpgradeFailed));
        }
        let up = &mut *lease.link;
        up.reader.begin_body(length).map_err(|error| bad(&error))?;
        let onward = match length {
            BodyLength::Chunked | BodyLength::UntilClose if exchange.head.version == Version::Http11 => {
                BodyLength::Chunked
            }
            BodyLength::Chunked => BodyLength::UntilClose,
            length => length,
        };
        // What a client still sends when it has its answer is not waited for.
        let keep = exchange.keep && onward != BodyLength::UntilClose && exchange.down.reader.has_ended();
        heads::response(exchange, answer, onward, keep);
        exchange.down.writer.begin_body(onward);
        exchange.outcome.status = answer.status;
        exchange.guard.settle();
        let down = &mut *exchange.down;
        let mut uploading = !up.writer.has_ended();
        let mut none = Replay::new(false);
        let delivered = exchange.guard.within(poll_fn(|cx| {
            if uploading {
                match poll_upload(cx, down, up, &mut none) {
                    Poll::Ready(Err(h1::Fault::Source(error))) => return Poll::Ready(Err(Failure::upload(&error))),
                    // An origin that answers may have heard enough.
                    Poll::Ready(_) => uploading = false,
                    Poll::Pending => {}
                }
            }
            let moved = ready!(poll_pump(
                cx,
                (&mut up.reader, &mut up.stream),
                (&mut down.writer, &mut down.stream),
                |_| {}
            ));
            Poll::Ready(moved.map_err(|fault| match fault {
                h1::Fault::Source(error) => truncated(&error),
                h1::Fault::Sink(error) => Failure::client(&error),
            }))
        }));
        let delivered = delivered.await.unwrap_or_else(|cut| Err(Failure::cut(cut, Fault::ResponseIncomplete)));
        exchange.outcome.sent = exchange.down.writer.moved();
        delivered?;
        exchange.outcome.reusable = keep;
        let up = &lease.link;
        if forwarding::keeps_alive(answer.version, &answer.fields)
            && length != BodyLength::UntilClose
            && up.writer.has_ended()
            && !up.writer.holds_bytes()
            && !up.reader.holds_bytes()
        {
            lease.keep(exchange.guard.clock().now());
        }
        Ok(())
    }
}

/// The rest of the request's body, after what is to be sent again.
fn poll_upload(
    cx: &mut Context<'_>,
    down: &mut Link,
    up: &mut Link,
    replay: &mut Replay,
) -> Poll<Result<(), h1::Fault>> {
    while let Some(data) = replay.again() {
        let last = down.reader.has_ended() && down.reader.is_last();
        let taken = ready!(up.writer.poll_data(cx, &mut up.stream, data, last)).map_err(h1::Fault::Sink)?;
        replay.sent(taken);
    }
    let source = (&mut down.reader, &mut down.stream);
    poll_pump(cx, source, (&mut up.writer, &mut up.stream), |data| replay.keep(data))
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

/// What an endpoint that takes no more has said before, if that is a whole head.
fn poll_last_words(cx: &mut Context<'_>, up: &mut Link, answer: &mut ResponseHead) -> Poll<Result<(), ()>> {
    match poll_answer(cx, up, answer) {
        Poll::Ready(Ok(true)) => Poll::Ready(Ok(())),
        _ => Poll::Ready(Err(())),
    }
}

/// The endpoint broke while it was sent the request.
fn broken(error: &StreamError, up: &Link) -> Unanswered {
    let failure = Failure::because(Fault::ConnectionTerminated, error.to_string());
    Unanswered { failure, sent: up.writer.has_sent(), worth: true }
}

/// The endpoint closed without a word.
fn silent(up: &Link) -> Unanswered {
    let failure = Failure::because(Fault::ConnectionTerminated, "closed before it answered");
    Unanswered { failure, sent: up.writer.has_sent(), worth: true }
}

fn unreadable(error: ReadError, up: &Link) -> Unanswered {
    use lockgate_http::h1::HeadError::{TooLong, TooManyFields};
    match error {
        ReadError::Stream(error) => broken(&error, up),
        ReadError::Head(error @ (TooLong | TooManyFields)) => {
            Unanswered::end(Failure::because(Fault::ResponseHeadTooLarge, error.to_string()))
        }
        error => Unanswered::end(Failure::because(Fault::BadResponse, error.to_string())),
    }
}

/// The answer was begun: all that can be said is that it has not ended.
fn truncated(error: &ReadError) -> Failure {
    match error {
        ReadError::Cut => Failure::because(Fault::ResponseIncomplete, "ended in the middle of its answer"),
        ReadError::Stream(error) => Failure::because(Fault::ConnectionTerminated, error.to_string()),
        error => Failure::because(Fault::BadResponse, error.to_string()),
    }
}

/// Hands on an answer before the answer (RFC 9110 §15.2); HTTP/1.0 has none.
async fn interim(exchange: &mut Exchange<'_>, answer: &ResponseHead) -> Result<(), Failure> {
    if exchange.head.version != Version::Http11 {
        return Ok(());
    }
    heads::interim(answer, exchange.down.writer.head());
    let Link { stream, writer, .. } = &mut *exchange.down;
    let flushed = exchange.guard.within(poll_fn(|cx| writer.poll_flush(cx, stream))).await;
    match flushed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::client(&error)),
        Err(Cut::Deadline) => Err(Failure::silent(Cause::TooSlow, Side::Downstream, "interim answer")),
        Err(cut) => Err(Failure::cut(cut, Fault::ResponseTimeout)),
    }
}
