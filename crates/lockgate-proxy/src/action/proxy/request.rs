//! A request on its way to an endpoint, until there is the head of a response.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Instant;

use lockgate_http::fields::Known;
use lockgate_http::h1::HeadError;
use lockgate_http::h2::SectionError;
use lockgate_http::head::{BodyLength, ResponseHead};
use lockgate_http_io::body::{BodyWriter, ReadError};
use lockgate_http_io::message::ClientExchange;
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{PendingResponse, WaitReason};
use lockgate_net::stream::StreamError;
use lockgate_net::traffic_shaping::Shaper;
use lockgate_upstream::Lease;

use super::attempt_failure::{AttemptFailure, UpstreamEnd};
use super::attempts::Attempts;
use super::upload::UploadError;
use crate::access_log::{Cause, CauseSide};
use crate::error_response::HttpFault;
use crate::exchange::{Exchange, ExchangeFailure};
use crate::worker::Recycler;

/// The most interim responses that are forwarded for one request, over any protocol. Over HTTP/2 no
/// more than 64 are held while the request waits for its client (`received_heads`).
const MOST_INTERIM_FORWARDED: u32 = 32;

/// An attempt of a request at one endpoint.
pub(super) struct RequestAttempt<'r, 'g> {
    attempts: &'r mut Attempts<'g>,
    lease: &'r mut Lease,
    /// Whether another endpoint may be asked while this one is waited for.
    has_others: bool,
    /// Whether the endpoint has the whole of it.
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
    pub(super) fn new<D>(
        attempts: &'r mut Attempts<'g>,
        lease: &'r mut Lease,
        exchange: &Exchange<'_, D>,
    ) -> Self {
        Self {
            has_others: attempts.may_ask_others(exchange),
            attempts,
            lease,
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
    ) -> Result<Box<ResponseHead>, AttemptFailure> {
        self.begin(exchange)?;
        let guard = exchange.guard;
        for _ in 0..MOST_INTERIM_FORWARDED {
            let Exchange {
                request,
                down,
                shapers,
                ..
            } = &mut *exchange;
            let spare = &request.worker.response_heads;
            let polled = guard.poll_within(|cx| {
                let shaper = shapers.as_mut().and_then(|own| own.received.as_mut());
                self.poll(cx, *down, shaper, spare)
            });
            let response = match polled.await {
                Ok(polled) => polled?,
                Err(cut) => {
                    let up = &self.lease.connection;
                    return Err(AttemptFailure::cut(up, cut, self.uploaded, self.invited));
                }
            };
            if !response.is_interim() {
                // What was not asked for may never be read, and then would be the next request.
                exchange.outcome.awaited |= self.uploaded && !expects_invitation(exchange);
                return Ok(response);
            }
            exchange.outcome.awaited |= response.status == 100;
            // While the client takes it, the endpoint is not waited for.
            let asked = guard.watch().pending.take();
            boxed(|| send_interim(exchange, &response))
                .await
                .map_err(AttemptFailure::end)?;
            guard.watch().pending.replace(asked);
            if response.status == 100 {
                self.invite();
            }
        }
        Err(AttemptFailure::end(ExchangeFailure::because(
            HttpFault::BadResponse,
            "too many interim responses",
        )))
    }

    /// Begins the request, which leaves with the first data or by a flush.
    fn begin<D>(&mut self, exchange: &mut Exchange<'_, D>) -> Result<(), AttemptFailure> {
        let outgoing = &exchange.request.outgoing;
        exchange.guard.end_phase();
        if let Some(why) = self.lease.connection.refusal(outgoing) {
            let failure = ExchangeFailure::because(HttpFault::UpgradeFailed, why);
            return Err(AttemptFailure::end(failure));
        }
        let pseudo_fields = self.attempts.pseudo_fields.as_ref();
        self.lease.send_request(outgoing, pseudo_fields);
        exchange.outcome.awaited = false;
        self.invited = outgoing.length == BodyLength::Empty || !expects_invitation(exchange);
        if !self.invited {
            self.limit();
        }
        Ok(())
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl ClientExchange,
        shaper: Option<&mut Shaper>,
        spare: &Recycler<ResponseHead>,
    ) -> Poll<Result<Box<ResponseHead>, AttemptFailure>> {
        if !self.uploaded
            && let Err(failure) = self.upload(cx, down, shaper)
        {
            return Poll::Ready(Err(AttemptFailure::end(failure)));
        }
        let up = &mut self.lease.connection;
        // Only for this poll: while the response is waited for, the next one uses the same.
        let mut response = spare.take();
        let polled = up.poll_response(cx, &mut response);
        if matches!(polled, Poll::Ready(Ok(true))) {
            return Poll::Ready(Ok(response));
        }
        spare.give(response);
        let (how, detail) = match polled {
            Poll::Ready(Ok(_)) => (UpstreamEnd::Closed, "closed before the response".to_owned()),
            Poll::Ready(Err(error @ ReadError::Cut)) => (UpstreamEnd::Closed, error.to_string()),
            Poll::Ready(Err(ReadError::Stream(error))) if is_end(&error) => {
                (UpstreamEnd::Closed, error.to_string())
            }
            Poll::Ready(Err(ReadError::Stream(error))) => (UpstreamEnd::Reset, error.to_string()),
            // A stream that we have ended ourselves, for the endpoint's doing.
            Poll::Ready(Err(ReadError::Reset(reset))) if up.is_lost() => {
                (UpstreamEnd::Reset, reset.to_string())
            }
            Poll::Ready(Err(ReadError::Reset(reset))) if reset.by_peer => {
                (UpstreamEnd::StreamReset, reset.to_string())
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(unreadable(&error))),
            // While its body is read, the body itself tells that the client has gone.
            Poll::Pending
                if down.poll_broken(cx).is_ready()
                    || (self.uploaded || up.is_blocked()) && down.poll_gone(cx).is_ready() =>
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
        Poll::Ready(Err(AttemptFailure::broken(up, how, detail)))
    }

    /// Sends what there is of the body.
    fn upload(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl ClientExchange,
        shaper: Option<&mut Shaper>,
    ) -> Result<(), ExchangeFailure> {
        let up = &mut self.lease.connection;
        let polled = self.attempts.upload.poll(cx, down, up, shaper);
        let guard = self.attempts.upload.guard;
        match polled {
            Poll::Ready(Err(UploadError::Client(failure))) => return Err(failure),
            Poll::Ready(done) => {
                if let Err(UploadError::Broken(error)) = done {
                    self.broken = Some(error);
                }
                self.uploaded = true;
                guard.watch().set_wait(WaitReason::Nothing);
                let asked = self.pending_response();
                guard.watch().pending.replace(Some(asked));
                self.limit();
            }
            Poll::Pending if !self.invited && down.bytes_read() == 0 => {
                self.at_once = false;
                guard.watch().set_wait(WaitReason::Nothing);
            }
            Poll::Pending => {
                self.at_once = false;
                let stuck = up.is_blocked().then(|| up.bytes_written());
                self.invite();
                if stuck != self.stuck {
                    self.stuck = stuck;
                    if stuck.is_some() {
                        self.limit()
                    } else {
                        guard.end_phase()
                    }
                }
            }
        }
        Ok(())
    }

    /// The state for the tick, once the endpoint has the whole request.
    fn pending_response(&self) -> PendingResponse {
        let others = self.has_others && self.attempts.upload.replay.is_whole();
        let asked = self.attempts.pending_response(self.lease, others);
        if self.at_once {
            return asked;
        }
        // How long the client has taken to send it is not the endpoint's doing.
        let since = Instant::now();
        PendingResponse { since, ..asked }
    }

    /// From here on the client is waited for.
    fn invite(&mut self) {
        if !std::mem::replace(&mut self.invited, true) && !self.uploaded {
            self.attempts.upload.guard.end_phase();
        }
    }

    /// From here on the endpoint is waited for, until the response timeout.
    fn limit(&self) {
        if let Some(timeout) = self.attempts.proxy.response {
            self.attempts.upload.guard.begin_phase(timeout);
        }
    }
}

/// Whether the client waits for a 100 before it sends its body.
fn expects_invitation<D>(exchange: &Exchange<'_, D>) -> bool {
    let outgoing = exchange.request.outgoing.head.fields();
    outgoing.first(Known::Expect).is_some()
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
        ReadError::Head(HeadError::TooLong | HeadError::TooManyFields)
        | ReadError::Section(SectionError::TooLong | SectionError::TooManyFields) => {
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
