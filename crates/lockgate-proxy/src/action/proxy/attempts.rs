//! The attempts of one request at the endpoints of a pool: the next endpoint, and the verdict on
//! the one before.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use lockgate_http_io::h2::RequestPseudoFields;
use lockgate_http_io::message::{ClientExchange, OutgoingRequest};
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{PendingResponse, ResponseSource, WaitReason};
use lockgate_limits::member_set::MemberSet;
use lockgate_limits::sockets::SocketShare;
use lockgate_upstream::{
    DialError, EndpointFailure, EndpointIndex, Lease, LeaseRequest, PendingLease, ReusePolicy,
    UpstreamPool, WaitBudget,
};

use super::Proxy;
use super::attempt_failure::AttemptFailure;
use super::replay::Replay;
use super::upload::RequestUpload;
use crate::error_response::{HttpFault, grpc};
use crate::exchange::{Exchange, ExchangeFailure, lap};
use crate::metrics::http::LeaseCells;

/// The attempts of one request, and the state that they share.
pub(super) struct Attempts<'a> {
    pub(super) proxy: &'a Proxy,
    upstream: Rc<UpstreamPool>,
    /// The request's pseudo-header fields, where endpoints speak HTTP/2.
    pub(super) pseudo_fields: Option<RequestPseudoFields>,
    /// Whether the request may be sent twice.
    is_idempotent: bool,
    pub(super) upload: RequestUpload<'a>,
    reuse: ReusePolicy,
    /// The members that were tried.
    tried: MemberSet,
    wait_budget: WaitBudget,
    /// The end of the last phase.
    last_phase_end: Instant,
    /// The last attempt, if it has failed.
    failed: Option<Box<FailedAttempt>>,
}

/// An attempt after which the request is sent once more.
struct FailedAttempt {
    failure: ExchangeFailure,
    /// The index of the endpoint that has failed.
    endpoint_index: Option<EndpointIndex>,
    /// Whether the next attempt counts as a retry.
    counts: bool,
}

impl<'a> Attempts<'a> {
    /// # Errors
    /// When the request cannot be sent over HTTP/2 to endpoints that require that.
    pub(super) fn new<D>(
        proxy: &'a Proxy,
        upstream: Rc<UpstreamPool>,
        exchange: &Exchange<'a, D>,
    ) -> Result<Self, ExchangeFailure> {
        let http2 = upstream.pool().settings.http2;
        let pseudo_fields = if http2 {
            Some(pseudo_fields(&exchange.request.outgoing)?)
        } else {
            None
        };
        let is_idempotent = exchange.request.received().method.is_idempotent();
        // Over HTTP/2 endpoints tell which requests they have not looked at, also where bytes were
        // sent.
        let replay = Replay::new(is_idempotent || http2);
        let upload = RequestUpload {
            guard: exchange.guard,
            rules: exchange.request.rules,
            replay,
            may_pause: http2 && grpc::is_call(exchange.request.received()),
        };
        let wait_budget = upstream.pool().wait_budget();
        Ok(Self {
            proxy,
            upstream,
            pseudo_fields,
            is_idempotent,
            upload,
            // A request that must not be sent twice goes to an endpoint that the kernel says is
            // listening.
            reuse: if is_idempotent {
                ReusePolicy::Any
            } else {
                ReusePolicy::Alive
            },
            tried: MemberSet::default(),
            wait_budget,
            last_phase_end: exchange.began,
            failed: None,
        })
    }

    /// A connection to an endpoint for the next attempt, unless the client leaves before there is
    /// one.
    pub(super) async fn lease<D: ClientExchange>(
        &mut self,
        exchange: &mut Exchange<'_, D>,
    ) -> Result<Lease, ExchangeFailure> {
        let leased = match self.reuse(exchange) {
            Ok(lease) => Ok(lease),
            Err(pending) => boxed(|| self.connect(exchange, pending)).await,
        };
        self.note_lease(exchange, leased)
    }

    /// An idle connection, where it need not be the client's own.
    fn reuse<D>(&mut self, exchange: &Exchange<'_, D>) -> Result<Lease, PendingLease> {
        if self.upstream.pool().settings.proxy_protocol.is_some() {
            return Err(PendingLease::default());
        }
        let request = LeaseRequest {
            guard: exchange.guard,
            socket_account: exchange.socket_account,
            wait_budget: &self.wait_budget,
            connect: self.proxy.connect,
            reuse: self.reuse,
            proxy_header: &[],
            preference: exchange.preference,
            metrics: &LeaseCells {
                http: &exchange.request.generation.cells.http,
                site: exchange.cells,
            },
        };
        self.upstream.reuse(&request, &mut self.tried)
    }

    async fn connect<D: ClientExchange>(
        &mut self,
        exchange: &mut Exchange<'_, D>,
        pending: PendingLease,
    ) -> Result<Lease, DialError> {
        let Exchange {
            request,
            guard,
            socket_account,
            down,
            private,
            proxy_header: encode_proxy_header,
            cells,
            preference,
            ..
        } = exchange;
        let (upstream, tried) = (&self.upstream, &mut self.tried);
        let mut proxy_header = Vec::new();
        let mut reuse = self.reuse;
        if let Some(version) = upstream.pool().settings.proxy_protocol {
            let now = guard.clock().now();
            let share = socket_account.map(SocketShare::count);
            if !matches!(reuse, ReusePolicy::New(_))
                && let Some(private) = private.pop()
                && let Some(lease) = private.take(upstream, share, now, *preference, tried)
            {
                return Ok(lease);
            }
            proxy_header = encode_proxy_header(version);
            reuse = ReusePolicy::New(Instant::now());
        }
        let request = LeaseRequest {
            guard,
            socket_account: *socket_account,
            wait_budget: &self.wait_budget,
            connect: self.proxy.connect,
            reuse,
            proxy_header: &proxy_header,
            preference: *preference,
            metrics: &LeaseCells {
                http: &request.generation.cells.http,
                site: cells,
            },
        };
        let mut leased = pin!(upstream.connect(pending, &request, tried));
        poll_fn(|cx| match leased.as_mut().poll(cx) {
            // It neither stays in the queue nor is served for nothing.
            Poll::Pending if down.poll_gone(cx).is_ready() => Poll::Ready(Err(DialError::Left)),
            Poll::Pending => {
                down.release_memory(cx);
                Poll::Pending
            }
            leased => leased,
        })
        .await
    }

    /// Notes the lease of the next attempt.
    fn note_lease<D>(
        &mut self,
        exchange: &mut Exchange<'_, D>,
        leased: Result<Lease, DialError>,
    ) -> Result<Lease, ExchangeFailure> {
        let tried = exchange.outcome.tried.union(self.tried);
        let failed = self.failed.take();
        let lease = match leased {
            Ok(lease) => lease,
            Err(error) => {
                exchange.outcome.tried = tried;
                return Err(match (error, failed) {
                    (error @ (DialError::Cut(_) | DialError::Left), _) | (error, None) => {
                        error.into()
                    }
                    // No other endpoint could be asked: the earlier failure tells more than that.
                    (_, Some(failed)) => failed.failure,
                });
            }
        };
        let cells = &exchange.request.generation.cells.http;
        let outcome = &mut *exchange.outcome;
        if let Some(failed) = failed {
            if let Some(cells) = cells.endpoint(failed.endpoint_index) {
                cells.retries.inc();
            }
            outcome.retries += u32::from(failed.counts);
        }
        outcome.tried = tried.without(lease.member());
        outcome.add_lease(lap(&mut self.last_phase_end), lease.dialled);
        outcome.endpoint_reused = lease.is_reused();
        outcome.endpoint = Some(Arc::clone(lease.endpoint()));
        outcome.endpoint_status = 0;
        let uses_socket = &exchange.guard.watch().uses_socket;
        uses_socket.set(lease.has_own_socket());
        if let Some(cells) = cells.endpoint(lease.endpoint_index()) {
            lease
                .dialled
                .map_or_else(|| cells.reused.inc(), |took| cells.connected(took));
            cells.in_flight.inc();
        }
        Ok(lease)
    }

    /// The state for the tick while the endpoint of `lease` is waited for; whether it may have
    /// another one asked instead.
    pub(super) fn pending_response(&self, lease: &Lease, has_others: bool) -> PendingResponse {
        PendingResponse {
            source: Rc::clone(&self.upstream) as Rc<dyn ResponseSource>,
            member: lease.member(),
            since: self.last_phase_end,
            tried: has_others.then_some(self.tried),
        }
    }

    /// Whether another endpoint may be asked while one is waited for.
    pub(super) fn may_ask_others<D>(&self, exchange: &Exchange<'_, D>) -> bool {
        self.is_idempotent && self.has_retries(exchange)
    }

    /// Notes a response with this status; `waited` is the state of the tick, if the endpoint was
    /// waited for.
    pub(super) fn note_response<D>(
        &mut self,
        exchange: &mut Exchange<'_, D>,
        lease: &Lease,
        status: u16,
        waited: Option<PendingResponse>,
    ) {
        let took = lap(&mut self.last_phase_end);
        exchange.outcome.response_head = Some(took);
        exchange.outcome.endpoint_status = status;
        let now = exchange.guard.clock().now();
        let (pool, endpoint) = (self.upstream.pool(), lease.endpoint());
        // Where it did not wait for the whole request, its haste tells little.
        if let Some(PendingResponse { since, .. }) = waited {
            endpoint.record_response(self.last_phase_end.saturating_duration_since(since), now);
        }
        if self.is_failure(status) {
            let why = format_args!("it responded with status {status}");
            pool.failed(endpoint, EndpointFailure::Unserved, &why, now);
        } else {
            pool.succeeded(endpoint, now);
        }
        if let Some(cells) = exchange
            .request
            .generation
            .cells
            .http
            .endpoint(lease.endpoint_index())
        {
            cells.responded(status, took);
        }
    }

    /// Notes a failed attempt, and prepares the next one.
    ///
    /// # Errors
    /// When there is to be none.
    pub(super) fn note_failure<D>(
        &mut self,
        exchange: &Exchange<'_, D>,
        lease: &Lease,
        failed: AttemptFailure,
    ) -> Result<(), ExchangeFailure> {
        let now = exchange.guard.clock().now();
        // Until the next endpoint takes the body, the client is not waited for.
        exchange.guard.watch().set_wait(WaitReason::Nothing);
        let is_stale = failed.is_stale(lease);
        let is_unprocessed = lease.connection.is_unprocessed();
        // Not for this failure, which is yet to be noted.
        let is_overtaken = lease.is_overtaken(now);
        // A reset is a response, which the client gets as a 502.
        let responded =
            (failed.stream_reset && self.is_failure(502)).then_some(EndpointFailure::Unserved);
        let blamed = failed.blames.or(responded);
        if let Some(failure) = blamed.filter(|_| !is_stale && !is_unprocessed) {
            let detail = &failed.failure.detail;
            self.upstream
                .pool()
                .failed(lease.endpoint(), failure, detail, now);
        }
        let is_harmless = !failed.sent || self.is_idempotent;
        let is_repeatable = failed.worth && is_harmless && self.upload.replay.rewind();
        let may_retry =
            || self.has_retries(exchange) && (is_overtaken || self.upstream.may_retry());
        if !is_repeatable || !(is_stale || may_retry()) {
            return Err(failed.failure);
        }
        if is_stale {
            // The endpoint is not to blame; but where one idle connection was dead, the others
            // probably are.
            self.tried = MemberSet::default();
            self.reuse = ReusePolicy::New(self.last_phase_end);
        } else if is_unprocessed && !self.upstream.has_another(self.tried) {
            // The connection had no room for it, or ends: the endpoint is well.
            self.tried = MemberSet::default();
            if lease.connection.is_lost() {
                self.reuse = ReusePolicy::New(self.last_phase_end);
            }
        }
        self.failed = Some(Box::new(FailedAttempt {
            failure: failed.failure,
            endpoint_index: lease.endpoint_index(),
            counts: !is_stale,
        }));
        Ok(())
    }

    /// Whether a response with this status counts against its endpoint.
    fn is_failure(&self, status: u16) -> bool {
        let eject = self.upstream.pool().settings.eject;
        eject.is_some_and(|eject| eject.statuses.has(status))
    }

    fn has_retries<D>(&self, exchange: &Exchange<'_, D>) -> bool {
        exchange.outcome.retries < self.upstream.pool().settings.retry.times
    }
}

/// The pseudo-header fields of HTTP/2 for a request; a request without them is the client's
/// mistake, and no endpoint is asked.
fn pseudo_fields(request: &OutgoingRequest<'_>) -> Result<RequestPseudoFields, ExchangeFailure> {
    RequestPseudoFields::of(request).map_err(|error| {
        let fault = if error.status() == 414 {
            HttpFault::TargetTooLong
        } else {
            HttpFault::Malformed
        };
        ExchangeFailure::because(
            fault,
            format!("the request cannot be sent over HTTP/2: {error}"),
        )
    })
}
