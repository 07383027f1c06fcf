//! A request on its way to an endpoint, until there is the head of an answer.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lockgate_http::fields::Known;
use lockgate_http::h1::HeadError;
use lockgate_http::head::{BodyLength, ResponseHead};
use lockgate_net::shape::Shaper;
use lockgate_net::stream::StreamError;

use super::Proxy;
use super::replay::Replay;
use super::upload::{self, UploadError};
use crate::access_log::{Cause, CauseSide};
use crate::body::{ReadError, Sink};
use crate::boxed::boxed;
use crate::clock::{Asked, Cut, Guard, Waiting};
use crate::error_response::HttpFault;
use crate::exchange::{Dispatch, Failure};
use crate::h2::Target;
use crate::message::Downstream;
use crate::rules::RouteRules;
use crate::upstream::Failure::{Broken, Unserved};
use crate::upstream::{self, Lease, Wire};

/// Interim answers that one request may get: none has a reason for more.
const INTERIM: u32 = 32;

/// The failure of an attempt before the response began.
pub(super) struct AttemptFailure {
    pub(super) failure: Failure,
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
    /// The verdict on the endpoint, if that is to blame.
    pub(super) blames: Option<upstream::Failure>,
}

/// The way in which a connection or a stream ended before the response.
#[derive(Clone, Copy)]
enum UpstreamEnd {
    Closed,
    Reset,
    /// The stream alone.
    Refused,
}

impl AttemptFailure {
    fn end(failure: Failure) -> Self {
        // An answer that cannot be read is the endpoint's.
        let blames = (failure.fault == Some(HttpFault::BadResponse)).then_some(Unserved);
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
    fn broken(up: &Wire, how: UpstreamEnd, detail: impl Into<Cow<'static, str>>) -> Self {
        let begun = up.has_begun_answer();
        // RFC 9209 §2.3.8, §2.3.18: it is another error once a part of the answer was received.
        let fault = match (how, begun) {
            (UpstreamEnd::Closed, false) => HttpFault::ConnectionClosed,
            (UpstreamEnd::Reset | UpstreamEnd::Refused, false) => HttpFault::ConnectionTerminated,
            (UpstreamEnd::Closed, true) => HttpFault::ResponseIncomplete,
            (UpstreamEnd::Reset | UpstreamEnd::Refused, true) => HttpFault::ResponseReset,
        };
        let failure = Failure::because(fault, detail);
        let reset = matches!(how, UpstreamEnd::Refused);
        let blames = (!reset).then_some(Broken);
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
    fn cut(up: &Wire, cut: Cut, asking: &PendingRequest<'_>) -> Self {
        let fault = if asking.uploaded {
            HttpFault::ResponseTimeout
        } else {
            HttpFault::WriteTimeout
        };
        let late = matches!(cut, Cut::Deadline | Cut::EndpointDown);
        // Where the client holds its body back, the endpoint may be waiting for that.
        let blames = (late && (asking.invited || asking.uploaded)).then_some(Unserved);
        Self {
            failure: Failure::cut(cut, fault),
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
    pub(super) async fn ask<D: Downstream>(
        &self,
        exchange: &mut Dispatch<'_, D>,
        up: &mut Wire,
        target: Option<Target>,
        asked: Asked,
        replay: &mut Replay,
        answer: &mut ResponseHead,
    ) -> Result<(), AttemptFailure> {
        let guard = exchange.guard;
        let expects = exchange
            .request
            .outgoing
            .head
            .fields()
            .first(Known::Expect)
            .is_some();
        guard.settle();
        if !up.takes(&exchange.request.outgoing) {
            let failure = Failure::because(
                HttpFault::UpgradeFailed,
                "the endpoint takes no WebSocket over HTTP/2",
            );
            return Err(AttemptFailure::end(failure));
        }
        up.ask(&exchange.request.outgoing, target);
        exchange.outcome.awaited = false;
        let mut asking = PendingRequest {
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
                Err(cut) => return Err(AttemptFailure::cut(up, cut, &asking)),
            }
            if !answer.is_interim() {
                // What was not asked for may never be read, and then would be the next request.
                exchange.outcome.awaited |= asking.uploaded && !expects;
                return Ok(());
            }
            exchange.outcome.awaited |= answer.status == 100;
            // While the client takes it, the endpoint is not waited for.
            let asked = guard.watch().asked.take();
            boxed(|| interim(exchange, answer))
                .await
                .map_err(AttemptFailure::end)?;
            guard.watch().asked.set(asked);
            if answer.status == 100 {
                asking.invite();
            }
        }
        Err(AttemptFailure::end(Failure::because(
            HttpFault::BadResponse,
            "too many interim answers",
        )))
    }
}

/// A request that is being sent.
struct PendingRequest<'a> {
    guard: &'a Guard,
    rules: &'a RouteRules,
    /// The response timeout, from the moment on which only the endpoint is waited for.
    response: Option<Duration>,
    /// For the tick, once the endpoint has the whole of it.
    asked: Asked,
    /// Whether it has.
    uploaded: bool,
    /// Whether nothing had to be waited for until then.
    at_once: bool,
    /// Whether the client goes on to send: until it is told to, it waits for the origin, and not
    /// we for the client (RFC 9110 §10.1.1).
    invited: bool,
    /// The bytes that the endpoint had taken when it stopped taking more.
    stuck: Option<u64>,
    /// Why the rest could not be sent.
    broken: Option<String>,
}

impl PendingRequest<'_> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl Downstream,
        up: &mut Wire,
        replay: &mut Replay,
        shaper: Option<&mut Shaper>,
        answer: &mut ResponseHead,
    ) -> Poll<Result<(), AttemptFailure>> {
        if !self.uploaded
            && let Err(failure) = self.upload(cx, down, up, replay, shaper)
        {
            return Poll::Ready(Err(AttemptFailure::end(failure)));
        }
        let (how, detail) = match up.poll_answer(cx, answer) {
            Poll::Ready(Ok(true)) => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(false)) => (UpstreamEnd::Closed, "closed before it answered".to_owned()),
            Poll::Ready(Err(error @ ReadError::Cut)) => (UpstreamEnd::Closed, error.to_string()),
            Poll::Ready(Err(ReadError::Stream(error))) if is_end(&error) => {
                (UpstreamEnd::Closed, error.to_string())
            }
            Poll::Ready(Err(ReadError::Stream(error))) => (UpstreamEnd::Reset, error.to_string()),
            // What we have ended ourselves, its own doing was the reason.
            Poll::Ready(Err(ReadError::Reset(reset))) if up.is_lost() => {
                (UpstreamEnd::Reset, reset.to_string())
            }
            Poll::Ready(Err(ReadError::Reset(reset))) if reset.by_peer => {
                (UpstreamEnd::Refused, reset.to_string())
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(unreadable(&error))),
            // While its body is read, that says so itself.
            Poll::Pending
                if down.poll_broken(cx).is_ready()
                    || (self.uploaded || up.is_blocked()) && down.poll_gone(cx).is_ready() =>
            {
                let failure =
                    Failure::silent(Cause::ClientReset, CauseSide::Downstream, "while it waited");
                return Poll::Ready(Err(AttemptFailure::end(failure)));
            }
            Poll::Pending => return Poll::Pending,
        };
        // It may have said why before it broke, and that may be told only with the next event.
        let (how, detail) = match (self.broken.take(), how) {
            (Some(error), UpstreamEnd::Refused) => (how, error),
            (Some(error), _) => (UpstreamEnd::Reset, error),
            (None, _) => (how, detail),
        };
        Poll::Ready(Err(AttemptFailure::broken(up, how, detail)))
    }

    /// Sends what there is of the body.
    fn upload(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl Downstream,
        up: &mut Wire,
        replay: &mut Replay,
        shaper: Option<&mut Shaper>,
    ) -> Result<(), Failure> {
        match upload::poll(cx, self.guard, self.rules, down, up, replay, shaper) {
            Poll::Ready(Err(UploadError::Client(failure))) => return Err(failure),
            Poll::Ready(done) => {
                if let Err(UploadError::Broken(error)) = done {
                    self.broken = Some(error);
                }
                self.uploaded = true;
                self.guard.watch().waits(Waiting::Otherwise);
                // How long the client has taken to send it is not the endpoint's doing.
                let since = if self.at_once {
                    self.asked.since
                } else {
                    Instant::now()
                };
                let tried = self.asked.tried.filter(|_| replay.is_whole());
                self.guard.watch().asked.set(Some(Asked {
                    since,
                    tried,
                    ..self.asked
                }));
                self.limit();
            }
            Poll::Pending if !self.invited && down.taken() == 0 => {
                self.at_once = false;
                self.guard.watch().waits(Waiting::Otherwise);
            }
            Poll::Pending => {
                self.at_once = false;
                self.invite();
                let stuck = up.is_blocked().then(|| up.moved());
                if stuck != self.stuck {
                    self.stuck = stuck;
                    if stuck.is_some() {
                        self.limit()
                    } else {
                        self.guard.settle()
                    }
                }
            }
        }
        Ok(())
    }

    /// From here on the client is waited for.
    fn invite(&mut self) {
        if !std::mem::replace(&mut self.invited, true) && !self.uploaded {
            self.guard.settle();
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

fn unreadable(error: &ReadError) -> AttemptFailure {
    let fault = match error {
        ReadError::Head(HeadError::TooLong | HeadError::TooManyFields) => {
            HttpFault::ResponseHeadTooLarge
        }
        _ => HttpFault::BadResponse,
    };
    AttemptFailure::end(Failure::because(fault, error.to_string()))
}

/// Hands on an answer before the answer (RFC 9110 §15.2).
async fn interim<D: Downstream>(
    exchange: &mut Dispatch<'_, D>,
    answer: &ResponseHead,
) -> Result<(), Failure> {
    exchange.down.interim(exchange.request.received(), answer);
    match exchange
        .guard
        .within(poll_fn(|cx| exchange.down.poll_flush(cx)))
        .await
    {
        Ok(flushed) => flushed.map_err(|error| Failure::client(&error)),
        // A part of it may have left: what we said now would be taken for its rest.
        Err(cut) => Err(Failure {
            fault: None,
            ..Failure::cut(cut, HttpFault::ResponseTimeout)
        }),
    }
}
