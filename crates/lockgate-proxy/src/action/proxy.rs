//! Hands a request to an endpoint and its answer to the client.
//!
//! Request and answer run side by side: an origin may answer while the client still sends. What
//! fails before anything was answered may be tried again; what was begun is delivered as far as it
//! comes, and never as more than it is.

mod answer;
mod ask;
mod replay;
mod upload;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::answer::Fault;
use crate::clock::PendingResponse;
use crate::exchange::{Dispatch, ExchangeFailure, lap};
use crate::h2::RequestPseudoFields;
use crate::limits::sockets::Share;
use crate::member_set::MemberSet;
use crate::message::{ClientExchange, OutgoingRequest};
use crate::metrics::http::LeaseCells;
use crate::upstream::EndpointFailure::Unserved;
use crate::upstream::{DialError, Lease, LeaseRequest, ReusePolicy, UpstreamPool, WaitBudget};

use replay::Replay;

/// What is done with requests that go to a pool.
#[derive(Debug)]
pub struct Proxy {
    /// Which of the worker's upstreams, if it is one of these.
    pub upstream: usize,
    /// For one attempt to connect.
    pub connect: Duration,
    /// From a request that was sent to the head of its answer, if that is limited.
    pub response: Option<Duration>,
    /// From the head of an answer to its end, where somebody waits for the whole of it.
    pub whole: Option<Duration>,
    /// For a connection that was switched to another protocol, and on which nothing moves.
    pub tunnel_idle: Duration,
}

/// Why a request is sent once more.
struct Before {
    failure: ExchangeFailure,
    /// The place of the endpoint that has failed.
    place: Option<usize>,
    /// Whether it counts as a retry.
    counts: bool,
}

impl Proxy {
    /// Answers the exchange by an endpoint's answer.
    ///
    /// # Errors
    /// When there is none, or not the whole of it; nothing was answered if the outcome has no
    /// status.
    pub fn run<D: ClientExchange>(
        &self,
        exchange: &mut Dispatch<'_, D>,
    ) -> impl Future<Output = Result<(), ExchangeFailure>> {
        let upstream = Rc::clone(exchange.request.worker.upstream(self.upstream));
        self.run_by(upstream, exchange)
    }

    /// The same, whoever `upstream` is.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn run_by<D: ClientExchange>(
        &self,
        upstream: Rc<UpstreamPool>,
        exchange: &mut Dispatch<'_, D>,
    ) -> Result<(), ExchangeFailure> {
        upstream.count_request();
        let target = if upstream.pool().settings.http2 {
            Some(target(&exchange.request.outgoing)?)
        } else {
            None
        };
        // What must not be sent twice is sent where the kernel says that somebody listens.
        let idempotent = exchange.request.received().method.is_idempotent();
        let mut reuse = if idempotent {
            ReusePolicy::Any
        } else {
            ReusePolicy::Alive
        };
        // Over HTTP/2 endpoints say what they have not looked at, also where something was sent.
        let mut replay = Replay::new(idempotent || upstream.pool().settings.http2);
        let mut tried = MemberSet::default();
        let wait_budget = upstream.pool().wait_budget();
        let mut clock = exchange.began;
        let mut before: Option<Before> = None;
        let statuses = upstream.pool().settings.eject.map(|eject| eject.statuses);
        let is_failure = |status| statuses.is_some_and(|statuses| statuses.has(status));
        loop {
            let leased = self
                .lease(exchange, &upstream, &wait_budget, reuse, &mut tried)
                .await;
            let mut lease = match (leased, before.take()) {
                (Ok(lease), None) => lease,
                (Ok(lease), Some(before)) => {
                    if let Some(cells) = exchange.request.worker.cells.http.endpoint(before.place) {
                        cells.retries.inc();
                    }
                    exchange.outcome.retries += u32::from(before.counts);
                    lease
                }
                (Err(error @ (DialError::Cut(_) | DialError::Left)), _) | (Err(error), None) => {
                    exchange.outcome.tried = exchange.outcome.tried.union(tried);
                    return Err(error.into());
                }
                // Nobody else could be asked: what happened says more than that.
                (Err(_), Some(before)) => {
                    exchange.outcome.tried = exchange.outcome.tried.union(tried);
                    return Err(before.failure);
                }
            };
            exchange.outcome.tried = exchange.outcome.tried.union(tried).without(lease.member());
            let took = lap(&mut clock);
            exchange.outcome.add_lease(took, lease.dialled);
            exchange
                .guard
                .watch()
                .uses_socket
                .set(lease.has_own_socket());
            exchange.outcome.reused = lease.requests > 0;
            exchange.outcome.endpoint = Some(Arc::clone(lease.endpoint()));
            let cells = exchange
                .request
                .worker
                .cells
                .http
                .endpoint(lease.endpoint_index());
            if let Some(cells) = cells {
                lease
                    .dialled
                    .map_or_else(|| cells.reused.inc(), |took| cells.connected(took));
                cells.in_flight.inc();
            }
            let mut answer = exchange.request.worker.answers.take();
            let place = lease.endpoint_index();
            let again =
                idempotent && exchange.outcome.retries < upstream.pool().settings.retry.times;
            let asking = PendingResponse {
                upstream: self.upstream,
                member: lease.member(),
                since: clock,
                tried: again.then_some(tried),
            };
            let target = target
                .as_ref()
                .map(|target| target.at(lease.endpoint().authority()));
            let asked = self
                .ask(
                    exchange,
                    &mut lease.link,
                    target,
                    asking,
                    &mut replay,
                    &mut answer,
                )
                .await;
            let waited = exchange.guard.watch().pending.take();
            let unanswered = match asked {
                Ok(()) => {
                    let took = lap(&mut clock);
                    exchange.outcome.first_byte = Some(took);
                    let now = exchange.guard.clock().now();
                    // Where it did not wait for the whole request, its haste says little.
                    if let Some(PendingResponse { since, .. }) = waited {
                        lease
                            .endpoint()
                            .record_response(clock.saturating_duration_since(since), now);
                    }
                    match is_failure(answer.status) {
                        true => {
                            let why = format_args!("it responded with status {}", answer.status);
                            upstream
                                .pool()
                                .failed(lease.endpoint(), Unserved, &why, now);
                        }
                        false => upstream.pool().succeeded(lease.endpoint(), now),
                    }
                    if let Some(cells) = cells {
                        cells.answered(answer.status, took);
                    }
                    let result = self.answer(exchange, lease, &mut replay, &mut answer).await;
                    exchange.request.worker.answers.give(answer);
                    if let Some(cells) = cells {
                        cells.in_flight.dec();
                    }
                    return result;
                }
                Err(unanswered) => unanswered,
            };
            exchange.request.worker.answers.give(answer);
            if let Some(cells) = cells {
                cells.in_flight.dec();
                if let Some(fault) = unanswered.failure.fault {
                    cells.failed(fault);
                }
            }
            let stale = unanswered.is_stale(&lease);
            let overtaken = lease.is_overtaken(exchange.guard.clock().now());
            let refused = lease.link.is_refused();
            // A reset is an answer, of which the client is told 502.
            let answered = (unanswered.reset && is_failure(502)).then_some(Unserved);
            if let Some(failure) = unanswered
                .blames
                .or(answered)
                .filter(|_| !stale && !refused)
            {
                let now = exchange.guard.clock().now();
                upstream
                    .pool()
                    .failed(lease.endpoint(), failure, &unanswered.failure.detail, now);
            }
            let harmless = !unanswered.sent || idempotent;
            let repeatable = unanswered.worth && harmless && replay.rewind();
            if !repeatable || !(stale || self.may_retry(exchange, &upstream, overtaken)) {
                return Err(unanswered.failure);
            }
            if stale {
                // Its own fault it was not; but where one idle connection was dead, the others
                // probably are.
                tried = MemberSet::default();
                reuse = ReusePolicy::New(clock);
            } else if refused && !upstream.has_another(tried) {
                // The connection had no room for it, or ends: the endpoint is well.
                tried = MemberSet::default();
                if lease.link.is_lost() {
                    reuse = ReusePolicy::New(clock);
                }
            }
            before = Some(Before {
                failure: unanswered.failure,
                place,
                counts: !stale,
            });
        }
    }

    /// A connection to an endpoint, unless the client leaves before there is one.
    async fn lease<D: ClientExchange>(
        &self,
        exchange: &mut Dispatch<'_, D>,
        upstream: &Rc<UpstreamPool>,
        wait_budget: &WaitBudget,
        reuse: ReusePolicy,
        tried: &mut MemberSet,
    ) -> Result<Lease, DialError> {
        let Dispatch {
            request,
            guard,
            share_of,
            down,
            private,
            introduction,
            cells,
            preference,
            ..
        } = exchange;
        let mut header = Vec::new();
        let mut reuse = reuse;
        if let Some(version) = upstream.pool().settings.proxy_protocol {
            let now = guard.clock().now();
            if !matches!(reuse, ReusePolicy::New(_))
                && let Some(private) = private.pop()
                && let Some(lease) = private.take(
                    upstream,
                    share_of.map(Share::count),
                    now,
                    *preference,
                    tried,
                )
            {
                return Ok(lease);
            }
            header = introduction(version);
            reuse = ReusePolicy::New(Instant::now());
        }
        let request = LeaseRequest {
            guard: *guard,
            share_of: *share_of,
            wait_budget,
            connect: self.connect,
            reuse,
            header: &header,
            preference: *preference,
            metrics: &LeaseCells {
                http: &request.worker.cells.http,
                site: *cells,
            },
        };
        let mut leased = pin!(upstream.lease(&request, tried));
        poll_fn(|cx| match leased.as_mut().poll(cx) {
            // It neither keeps its place in the queue nor is served for nothing.
            Poll::Pending if down.poll_gone(cx).is_ready() => Poll::Ready(Err(DialError::Left)),
            Poll::Pending => {
                down.release_memory(cx);
                Poll::Pending
            }
            leased => leased,
        })
        .await
    }

    /// Whether the endpoint's failure may be made good by another one.
    fn may_retry<D>(
        &self,
        exchange: &Dispatch<'_, D>,
        upstream: &UpstreamPool,
        overtaken: bool,
    ) -> bool {
        let left = exchange.outcome.retries < upstream.pool().settings.retry.times;
        left && (overtaken || upstream.may_retry())
    }
}

/// What HTTP/2 needs of a request; where there is none, that is the client's fault, and no endpoint
/// is asked.
fn target(request: &OutgoingRequest<'_>) -> Result<RequestPseudoFields, ExchangeFailure> {
    RequestPseudoFields::of(request).map_err(|error| {
        let fault = if error.status() == 414 {
            Fault::TargetTooLong
        } else {
            Fault::Malformed
        };
        ExchangeFailure::because(
            fault,
            format!("the request cannot be sent over HTTP/2: {error}"),
        )
    })
}
