//! A request on its way to an endpoint, until there is the head of a response.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lockgate_http::fields::Known;
use lockgate_http::h1::HeadError;
use lockgate_http::head::{BodyLength, ResponseHead};
use lockgate_http_io::body::{BodyWriter, ReadError};
use lockgate_http_io::h2::RequestPseudoFields;
use lockgate_http_io::message::ClientExchange;
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{Cut, PendingResponse, WaitReason};
use lockgate_net::stream::StreamError;
use lockgate_net::traffic_shaping::Shaper;
use lockgate_upstream::{EndpointFailure, Lease, UpstreamConnection};

use super::upload::{RequestUpload, UploadError};
use crate::access_log::{Cause, CauseSide};
use crate::error_response::HttpFault;
use crate::exchange::{Exchange, ExchangeFailure};

/// Interim responses that one request may get at the most.
const INTERIM: u32 = 32;

/// The failure of an attempt before the response began.
pub(super) struct AttemptFailure {
    pub(super) failure: ExchangeFailure,
    /// Whether any byte of the request has left.
    pub(super) sent: bool,
    /// Whether another attempt could go better: not if it was the client.
    pub(super) worth: bool,
    /// Whether the endpoint was waited for in vain.
    pub(super) late: bool,
    /// Whether a part of the response's head has come.
    begun: bool,
    /// Whether the endpoint has reset the stream alone: over HTTP/2 that is a response to what the
    /// client has sent.
    pub(super) stream_reset: bool,
    /// The verdict on the endpoint, if that is to blame.
    pub(super) blames: Option<EndpointFailure>,
}

/// The way in which a connection or a stream ended before the response.
#[derive(Clone, Copy)]
enum UpstreamEnd {
    /// The endpoint has closed the connection in an orderly way.
    Closed,
    /// The connection has broken.
    Reset,
    /// The endpoint has reset the stream, and the connection goes on.
    StreamReset,
}

impl AttemptFailure {
    fn end(failure: ExchangeFailure) -> Self {
        // A response that cannot be read is the endpoint's.
        let blames =
            (failure.fault == Some(HttpFault::BadResponse)).then_some(EndpointFailure::Unserved);
        Self {
            failure,
            sent: true,
            worth: false,
            late: false,
            begun: false,
            stream_reset: false,
            blames,
        }
    }

    /// The endpoint broke off.
    fn broken(
        up: &UpstreamConnection,
        how: UpstreamEnd,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let begun = up.has_begun_response();
        // RFC 9209 §2.3.8, §2.3.18: it is another error once a part of the response was received.
        let fault = match (how, begun) {
            (UpstreamEnd::Closed, false) => HttpFault::ConnectionClosed,
            (UpstreamEnd::Reset | UpstreamEnd::StreamReset, false) => {
                HttpFault::ConnectionTerminated
            }
            (UpstreamEnd::Closed, true) => HttpFault::ResponseIncomplete,
            (UpstreamEnd::Reset | UpstreamEnd::StreamReset, true) => HttpFault::ResponseReset,
        };
        let failure = ExchangeFailure::because(fault, detail);
        let stream_reset = matches!(how, UpstreamEnd::StreamReset);
        let blames = (!stream_reset).then_some(EndpointFailure::Reset);
        Self {
            failure,
            sent: up.has_sent(),
            worth: true,
            late: false,
            begun,
            stream_reset,
            blames,
        }
    }

    /// We do not wait any longer.
    fn cut(attempt: &RequestAttempt<'_, '_>, cut: Cut) -> Self {
        let fault = if attempt.uploaded {
            HttpFault::ResponseTimeout
        } else {
            HttpFault::WriteTimeout
        };
        let late = matches!(cut, Cut::Deadline | Cut::EndpointDown);
        // Where the client holds its body back, the endpoint may be waiting for that.
        let blames =
            (late && (attempt.invited || attempt.uploaded)).then_some(EndpointFailure::Unserved);
        Self {
            failure: ExchangeFailure::cut(cut, fault),
            sent: attempt.up.has_sent(),
            worth: late,
            late,
            begun: false,
            stream_reset: false,
            blames,
        }
    }

    /// Whether the failure tells nothing about the endpoint: a connection that was kept may be
    /// closed at any time, also when the request is on its way (RFC 9112 §9.5).
    pub(super) fn is_stale(&self, lease: &Lease) -> bool {
        lease.is_reused() && !self.late && !self.begun && lease.connection.is_lost()
    }
}

/// An attempt of a request at one endpoint.
pub(super) struct RequestAttempt<'r, 'g> {
    up: &'r mut UpstreamConnection,
    upload: &'r mut RequestUpload<'g>,
    response: &'r mut ResponseHead,
    /// The response timeout, from the moment on which only the endpoint is waited for.
    timeout: Option<Duration>,
    /// For the tick, once the endpoint has the whole of it.
    asked: PendingResponse,
    /// Whether it has.
    uploaded: bool,
    /// Whether nothing had to be waited for until then.
    at_once: bool,
    /// Whether the client sends its body without waiting for a 100: until it gets that, the client
    /// waits for the origin, and not we for the client (RFC 9110 §10.1.1).
    invited: bool,
    /// The bytes that the endpoint had taken when it stopped taking more.
    stuck: Option<u64>,
    /// Why the rest could not be sent.
    broken: Option<String>,
}

impl<'r, 'g> RequestAttempt<'r, 'g> {
    pub(super) fn new(
        up: &'r mut UpstreamConnection,
        upload: &'r mut RequestUpload<'g>,
        response: &'r mut ResponseHead,
        timeout: Option<Duration>,
        asked: PendingResponse,
    ) -> Self {
        Self {
            up,
            upload,
            response,
            timeout,
            asked,
            uploaded: false,
            at_once: true,
            invited: true,
            stuck: None,
            broken: None,
        }
    }

    /// Sends the request, and reads until there is the head of a response.
    pub(super) async fn send<D: ClientExchange>(
        &mut self,
        exchange: &mut Exchange<'_, D>,
        pseudo_fields: Option<RequestPseudoFields>,
    ) -> Result<(), AttemptFailure> {
        let (guard, outgoing) = (exchange.guard, &exchange.request.outgoing);
        let expects = outgoing.head.fields().first(Known::Expect).is_some();
        guard.end_phase();
        if !self.up.supports(outgoing) {
            let why = "the endpoint does not support WebSocket over HTTP/2";
            let failure = ExchangeFailure::because(HttpFault::UpgradeFailed, why);
            return Err(AttemptFailure::end(failure));
        }
        self.up.send_request(outgoing, pseudo_fields);
        exchange.outcome.awaited = false;
        self.invited = outgoing.length == BodyLength::Empty || !expects;
        if !self.invited {
            self.limit();
        }
        for _ in 0..INTERIM {
            let down = &mut *exchange.down;
            let mut shaper = exchange
                .shapers
                .as_mut()
                .and_then(|shapers| shapers.received.as_mut());
            let polled = poll_fn(|cx| self.poll(cx, down, shaper.as_deref_mut()));
            match guard.within(polled).await {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => return Err(failure),
                Err(cut) => return Err(AttemptFailure::cut(self, cut)),
            }
            if !self.response.is_interim() {
                // What was not asked for may never be read, and then would be the next request.
                exchange.outcome.awaited |= self.uploaded && !expects;
                return Ok(());
            }
            exchange.outcome.awaited |= self.response.status == 100;
            // While the client takes it, the endpoint is not waited for.
            let asked = guard.watch().pending.take();
            boxed(|| send_interim(exchange, self.response))
                .await
                .map_err(AttemptFailure::end)?;
            guard.watch().pending.replace(asked);
            if self.response.status == 100 {
                self.invite();
            }
        }
        Err(AttemptFailure::end(ExchangeFailure::because(
            HttpFault::BadResponse,
            "too many interim responses",
        )))
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl ClientExchange,
        shaper: Option<&mut Shaper>,
    ) -> Poll<Result<(), AttemptFailure>> {
        if !self.uploaded
            && let Err(failure) = self.upload(cx, down, shaper)
        {
            return Poll::Ready(Err(AttemptFailure::end(failure)));
        }
        let (how, detail) = match self.up.poll_response(cx, self.response) {
            Poll::Ready(Ok(true)) => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(false)) => {
                (UpstreamEnd::Closed, "closed before the response".to_owned())
            }
            Poll::Ready(Err(error @ ReadError::Cut)) => (UpstreamEnd::Closed, error.to_string()),
            Poll::Ready(Err(ReadError::Stream(error))) if is_end(&error) => {
                (UpstreamEnd::Closed, error.to_string())
            }
            Poll::Ready(Err(ReadError::Stream(error))) => (UpstreamEnd::Reset, error.to_string()),
            // A stream that we have ended ourselves, for the endpoint's doing.
            Poll::Ready(Err(ReadError::Reset(reset))) if self.up.is_lost() => {
                (UpstreamEnd::Reset, reset.to_string())
            }
            Poll::Ready(Err(ReadError::Reset(reset))) if reset.by_peer => {
                (UpstreamEnd::StreamReset, reset.to_string())
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(unreadable(&error))),
            // While its body is read, the body itself tells that the client has gone.
            Poll::Pending
                if down.poll_broken(cx).is_ready()
                    || (self.uploaded || self.up.is_blocked()) && down.poll_gone(cx).is_ready() =>
            {
                let why = "while waiting";
                let failure =
                    ExchangeFailure::silent(Cause::ClientReset, CauseSide::Downstream, why);
                return Poll::Ready(Err(AttemptFailure::end(failure)));
            }
            Poll::Pending => return Poll::Pending,
        };
        // The endpoint may have sent the reason before the connection broke; then it is read with
        // the next event.
        let (how, detail) = match (self.broken.take(), how) {
            (Some(error), UpstreamEnd::StreamReset) => (how, error),
            (Some(error), _) => (UpstreamEnd::Reset, error),
            (None, _) => (how, detail),
        };
        Poll::Ready(Err(AttemptFailure::broken(self.up, how, detail)))
    }

    /// Sends what there is of the body.
    fn upload(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl ClientExchange,
        shaper: Option<&mut Shaper>,
    ) -> Result<(), ExchangeFailure> {
        let polled = self.upload.poll(cx, down, self.up, shaper);
        let watch = self.upload.guard.watch();
        match polled {
            Poll::Ready(Err(UploadError::Client(failure))) => return Err(failure),
            Poll::Ready(done) => {
                if let Err(UploadError::Broken(error)) = done {
                    self.broken = Some(error);
                }
                self.uploaded = true;
                watch.set_wait(WaitReason::Nothing);
                // How long the client has taken to send it is not the endpoint's doing.
                let since = if self.at_once {
                    self.asked.since
                } else {
                    Instant::now()
                };
                let tried = self.asked.tried.filter(|_| self.upload.replay.is_whole());
                watch.pending.replace(Some(PendingResponse {
                    since,
                    tried,
                    ..self.asked.clone()
                }));
                self.limit();
            }
            Poll::Pending if !self.invited && down.bytes_read() == 0 => {
                self.at_once = false;
                watch.set_wait(WaitReason::Nothing);
            }
            Poll::Pending => {
                self.at_once = false;
                self.invite();
                let stuck = self.up.is_blocked().then(|| self.up.bytes_written());
                if stuck != self.stuck {
                    self.stuck = stuck;
                    if stuck.is_some() {
                        self.limit()
                    } else {
                        self.upload.guard.end_phase()
                    }
                }
            }
        }
        Ok(())
    }

    /// From here on the client is waited for.
    fn invite(&mut self) {
        if !std::mem::replace(&mut self.invited, true) && !self.uploaded {
            self.upload.guard.end_phase();
        }
    }

    /// From here on the endpoint is waited for.
    fn limit(&self) {
        if let Some(timeout) = self.timeout {
            self.upload.guard.begin_phase(timeout);
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
    AttemptFailure::end(ExchangeFailure::because(fault, error.to_string()))
}

/// Hands on an interim response (RFC 9110 §15.2).
async fn send_interim<D: ClientExchange>(
    exchange: &mut Exchange<'_, D>,
    response: &ResponseHead,
) -> Result<(), ExchangeFailure> {
    exchange.down.interim(exchange.request.received(), response);
    match exchange
        .guard
        .within(poll_fn(|cx| exchange.down.poll_flush(cx)))
        .await
    {
        Ok(flushed) => flushed.map_err(|error| ExchangeFailure::client(&error)),
        // A part of it may have left: an error now would be taken for its rest.
        Err(cut) => Err(ExchangeFailure {
            fault: None,
            ..ExchangeFailure::cut(cut, HttpFault::ResponseTimeout)
        }),
    }
}
