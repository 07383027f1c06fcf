//! A request on its way to an endpoint, until there is the head of an answer.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lockgate_http::fields::Known;
use lockgate_http::h1::HeadError;
use lockgate_http::head::{BodyLength, ResponseHead};
use lockgate_net::stream::StreamError;
use lockgate_net::traffic_shaping::Shaper;

use super::Proxy;
use super::replay::Replay;
use super::upload::{self, Upload};
use crate::access_log::{Cause, Side};
use crate::answer::Fault;
use crate::body::{BodyWriter, ReadError};
use crate::box_future::boxed;
use crate::clock::{Cut, Guard, PendingResponse, WaitReason};
use crate::exchange::{Dispatch, ExchangeFailure};
use crate::h2::RequestPseudoFields;
use crate::message::ClientExchange;
use crate::rules::Rules;
use crate::upstream::EndpointFailure::{Reset, Unserved};
use crate::upstream::{self, Lease, UpstreamConnection};

/// Interim answers that one request may get: none has a reason for more.
const INTERIM: u32 = 32;

/// How an attempt failed before anything was answered.
pub(super) struct Unanswered {
    pub(super) failure: ExchangeFailure,
    /// Whether any byte of the request has left.
    pub(super) sent: bool,
    /// Whether another attempt could go better: not if it was the client.
    pub(super) worth: bool,
    /// Whether the endpoint was waited for in vain.
    pub(super) late: bool,
    /// Whether a part of the answer's head has come.
    begun: bool,
    /// Whether the endpoint has reset the stream alone: over HTTP/2 that is an answer to what the
    /// client has sent.
    pub(super) reset: bool,
    /// What it says of the endpoint, if that is to blame.
    pub(super) blames: Option<upstream::EndpointFailure>,
}

/// How a connection, or a stream, has ended before there was an answer.
#[derive(Clone, Copy)]
enum BrokeOff {
    Closed,
    Reset,
    /// The stream alone.
    Refused,
}

impl Unanswered {
    fn end(failure: ExchangeFailure) -> Self {
        // An answer that cannot be read is the endpoint's.
        let blames = (failure.fault == Some(Fault::BadResponse)).then_some(Unserved);
        Self {
            failure,
            sent: true,
            worth: false,
            late: false,
            begun: false,
            reset: false,
            blames,
        }
    }

    /// The endpoint broke off.
    fn broken(
        up: &UpstreamConnection,
        how: BrokeOff,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let begun = up.has_begun_response();
        // RFC 9209 §2.3.8, §2.3.18: it is another error once a part of the answer was received.
        let fault = match (how, begun) {
            (BrokeOff::Closed, false) => Fault::ConnectionClosed,
            (BrokeOff::Reset | BrokeOff::Refused, false) => Fault::ConnectionTerminated,
            (BrokeOff::Closed, true) => Fault::ResponseIncomplete,
            (BrokeOff::Reset | BrokeOff::Refused, true) => Fault::ResponseReset,
        };
        let failure = ExchangeFailure::because(fault, detail);
        let reset = matches!(how, BrokeOff::Refused);
        let blames = (!reset).then_some(Reset);
        Self {
            failure,
            sent: up.has_sent(),
            worth: true,
            late: false,
            begun,
            reset,
            blames,
        }
    }

    /// We do not wait any longer.
    fn cut(up: &UpstreamConnection, cut: Cut, asking: &Asking<'_>) -> Self {
        let fault = if asking.uploaded {
            Fault::ResponseTimeout
        } else {
            Fault::WriteTimeout
        };
        let late = matches!(cut, Cut::Deadline | Cut::EndpointDown);
        // Where the client holds its body back, the endpoint may be waiting for that.
        let blames = (late && (asking.invited || asking.uploaded)).then_some(Unserved);
        Self {
            failure: ExchangeFailure::cut(cut, fault),
            sent: up.has_sent(),
            worth: late,
            late,
            begun: false,
            reset: false,
            blames,
        }
    }

    /// Whether it says nothing of the endpoint: a connection that was kept may be closed at any
    /// time, also when the request is on its way (RFC 9112 §9.5).
    pub(super) fn is_stale(&self, lease: &Lease) -> bool {
        lease.requests > 0 && !self.late && !self.begun && lease.link.is_lost()
    }
}

impl Proxy {
    /// Sends the request, and reads until there is the head of an answer.
    pub(super) async fn ask<D: ClientExchange>(
        &self,
        exchange: &mut Dispatch<'_, D>,
        up: &mut UpstreamConnection,
        target: Option<RequestPseudoFields>,
        asked: PendingResponse,
        replay: &mut Replay,
        answer: &mut ResponseHead,
    ) -> Result<(), Unanswered> {
        let guard = exchange.guard;
        let expects = exchange
            .request
            .outgoing
            .head
            .fields()
            .first(Known::Expect)
            .is_some();
        guard.end_phase();
        if !up.supports(&exchange.request.outgoing) {
            let failure = ExchangeFailure::because(
                Fault::UpgradeFailed,
                "the endpoint does not support WebSocket over HTTP/2",
            );
            return Err(Unanswered::end(failure));
        }
        up.send_request(&exchange.request.outgoing, target);
        exchange.outcome.awaited = false;
        let mut asking = Asking {
            guard,
            rules: exchange.request.rules,
            response: self.response,
            asked,
            uploaded: false,
            at_once: true,
            invited: exchange.request.outgoing.length == BodyLength::Empty || !expects,
            stuck: None,
            broken: None,
        };
        if !asking.invited {
            asking.limit();
        }
        for _ in 0..INTERIM {
            let down = &mut *exchange.down;
            let mut shaper = exchange
                .shapers
                .as_mut()
                .and_then(|shapers| shapers.received.as_mut());
            let asked =
                poll_fn(|cx| asking.poll(cx, down, up, replay, shaper.as_deref_mut(), answer));
            match guard.within(asked).await {
                Ok(Ok(())) => {}
                Ok(Err(unanswered)) => return Err(unanswered),
                Err(cut) => return Err(Unanswered::cut(up, cut, &asking)),
            }
            if !answer.is_interim() {
                // What was not asked for may never be read, and then would be the next request.
                exchange.outcome.awaited |= asking.uploaded && !expects;
                return Ok(());
            }
            exchange.outcome.awaited |= answer.status == 100;
            // While the client takes it, the endpoint is not waited for.
            let asked = guard.watch().pending.take();
            boxed(|| interim(exchange, answer))
                .await
                .map_err(Unanswered::end)?;
            guard.watch().pending.set(asked);
            if answer.status == 100 {
                asking.invite();
            }
        }
        Err(Unanswered::end(ExchangeFailure::because(
            Fault::BadResponse,
            "too many interim responses",
        )))
    }
}

/// A request that is being sent.
struct Asking<'a> {
    guard: &'a Guard,
    rules: &'a Rules,
    /// How long the endpoint has, once it is the one that is waited for.
    response: Option<Duration>,
    /// For the tick, once the endpoint has the whole of it.
    asked: PendingResponse,
    /// Whether it has.
    uploaded: bool,
    /// Whether nothing had to be waited for until then.
    at_once: bool,
    /// Whether the client goes on to send: until it is told to, it waits for the origin, and not
    /// we for the client (RFC 9110 §10.1.1).
    invited: bool,
    /// What the endpoint had taken when it began to take no more.
    stuck: Option<u64>,
    /// Why the rest could not be sent.
    broken: Option<String>,
}

impl Asking<'_> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl ClientExchange,
        up: &mut UpstreamConnection,
        replay: &mut Replay,
        shaper: Option<&mut Shaper>,
        answer: &mut ResponseHead,
    ) -> Poll<Result<(), Unanswered>> {
        if !self.uploaded
            && let Err(failure) = self.upload(cx, down, up, replay, shaper)
        {
            return Poll::Ready(Err(Unanswered::end(failure)));
        }
        let (how, detail) = match up.poll_response(cx, answer) {
            Poll::Ready(Ok(true)) => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(false)) => (BrokeOff::Closed, "closed before the response".to_owned()),
            Poll::Ready(Err(error @ ReadError::Cut)) => (BrokeOff::Closed, error.to_string()),
            Poll::Ready(Err(ReadError::Stream(error))) if is_end(&error) => {
                (BrokeOff::Closed, error.to_string())
            }
            Poll::Ready(Err(ReadError::Stream(error))) => (BrokeOff::Reset, error.to_string()),
            // What we have ended ourselves, its own doing was the reason.
            Poll::Ready(Err(ReadError::Reset(reset))) if up.is_lost() => {
                (BrokeOff::Reset, reset.to_string())
            }
            Poll::Ready(Err(ReadError::Reset(reset))) if reset.by_peer => {
                (BrokeOff::Refused, reset.to_string())
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(unreadable(&error))),
            // While its body is read, that says so itself.
            Poll::Pending
                if down.poll_broken(cx).is_ready()
                    || (self.uploaded || up.is_blocked()) && down.poll_gone(cx).is_ready() =>
            {
                let failure =
                    ExchangeFailure::silent(Cause::ClientReset, Side::Downstream, "while waiting");
                return Poll::Ready(Err(Unanswered::end(failure)));
            }
            Poll::Pending => return Poll::Pending,
        };
        // It may have said why before it broke, and that may be told only with the next event.
        let (how, detail) = match (self.broken.take(), how) {
            (Some(error), BrokeOff::Refused) => (how, error),
            (Some(error), _) => (BrokeOff::Reset, error),
            (None, _) => (how, detail),
        };
        Poll::Ready(Err(Unanswered::broken(up, how, detail)))
    }

    /// Sends what there is of the body.
    fn upload(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl ClientExchange,
        up: &mut UpstreamConnection,
        replay: &mut Replay,
        shaper: Option<&mut Shaper>,
    ) -> Result<(), ExchangeFailure> {
        match upload::poll(cx, self.guard, self.rules, down, up, replay, shaper) {
            Poll::Ready(Err(Upload::Client(failure))) => return Err(failure),
            Poll::Ready(done) => {
                if let Err(Upload::Broken(error)) = done {
                    self.broken = Some(error);
                }
                self.uploaded = true;
                self.guard.watch().set_wait(WaitReason::Otherwise);
                // How long the client has taken to send it is not the endpoint's doing.
                let since = if self.at_once {
                    self.asked.since
                } else {
                    Instant::now()
                };
                let tried = self.asked.tried.filter(|_| replay.is_whole());
                self.guard.watch().pending.set(Some(PendingResponse {
                    since,
                    tried,
                    ..self.asked
                }));
                self.limit();
            }
            Poll::Pending if !self.invited && down.bytes_read() == 0 => {
                self.at_once = false;
                self.guard.watch().set_wait(WaitReason::Otherwise);
            }
            Poll::Pending => {
                self.at_once = false;
                self.invite();
                let stuck = up.is_blocked().then(|| up.bytes_written());
                if stuck != self.stuck {
                    self.stuck = stuck;
                    if stuck.is_some() {
                        self.limit()
                    } else {
                        self.guard.end_phase()
                    }
                }
            }
        }
        Ok(())
    }

    /// From here on the client is waited for.
    fn invite(&mut self) {
        if !std::mem::replace(&mut self.invited, true) && !self.uploaded {
            self.guard.end_phase();
        }
    }

    /// From here on the endpoint is waited for.
    fn limit(&self) {
        if let Some(response) = self.response {
            self.guard.phase(response);
        }
    }
}

/// Whether the peer has ended the connection and not reset it, if not as its TLS or HTTP/2 would
/// have it.
pub(super) fn is_end(error: &StreamError) -> bool {
    match error {
        StreamError::Truncated => true,
        StreamError::Io(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        StreamError::Tls(_) => false,
    }
}

fn unreadable(error: &ReadError) -> Unanswered {
    let fault = match error {
        ReadError::Head(HeadError::TooLong | HeadError::TooManyFields) => {
            Fault::ResponseHeadTooLarge
        }
        _ => Fault::BadResponse,
    };
    Unanswered::end(ExchangeFailure::because(fault, error.to_string()))
}

/// Hands on an answer before the answer (RFC 9110 §15.2).
async fn interim<D: ClientExchange>(
    exchange: &mut Dispatch<'_, D>,
    answer: &ResponseHead,
) -> Result<(), ExchangeFailure> {
    exchange.down.interim(exchange.request.received(), answer);
    match exchange
        .guard
        .within(poll_fn(|cx| exchange.down.poll_flush(cx)))
        .await
    {
        Ok(flushed) => flushed.map_err(|error| ExchangeFailure::client(&error)),
        // A part of it may have left: what we said now would be taken for its rest.
        Err(cut) => Err(ExchangeFailure {
            fault: None,
            ..ExchangeFailure::cut(cut, Fault::ResponseTimeout)
        }),
    }
}
