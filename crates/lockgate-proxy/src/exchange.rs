//! An exchange with a backend: a request, its response, and the outcome.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_http::head::{RequestHead, ResponseHead};
use lockgate_http_io::body::ReadError;
use lockgate_http_io::message::{ClientExchange, OutgoingRequest, Persistence};
use lockgate_limits::KeyedPermit;
use lockgate_limits::clients::ClientAccount;
use lockgate_limits::clock::{Cut, Guard, WaitReason};
use lockgate_limits::member_set::MemberSet;
use lockgate_rules::{Pattern, ProxyVersion, RequestValues};
use lockgate_upstream::{
    DialError, Endpoint, EndpointPermit, InFlight, Lease, Preference, PrivateConnections,
    UpstreamConnection,
};

use crate::access_log::{Cause, CauseSide, TunnelFields};
use crate::error_response::HttpFault;
use crate::generation::Generation;
use crate::metrics::http::SiteCells;
use crate::request_id::RequestId;
use crate::rules::RouteRules;
use crate::shaping::Shapers;
use crate::worker::Worker;

/// The detail of what was closed over the admin socket.
pub const CLOSED: &str = "closed by the operator";

/// A request with its route.
pub struct RoutedRequest<'a> {
    /// The worker of its connection.
    pub worker: &'a Rc<Worker>,
    /// The generation that it has begun in.
    pub generation: &'a Generation,
    /// The request as an endpoint gets it, with the head as it was received.
    pub outgoing: OutgoingRequest<'a>,
    /// The values of placeholders in templates.
    pub values: &'a RequestValues<'a>,
    /// The route's path pattern.
    pub pattern: &'a Pattern,
    /// The route's rules.
    pub rules: &'a RouteRules,
}

impl<'a> RoutedRequest<'a> {
    /// The head as it was received.
    pub fn received(&self) -> &'a RequestHead {
        self.outgoing.received
    }
}

/// A request that was dispatched to its backend, with all that the response needs.
pub struct Exchange<'a, D> {
    /// The request.
    pub request: RoutedRequest<'a>,
    /// The deadlines.
    pub guard: &'a Guard,
    /// The client's account.
    pub account: Option<&'a Arc<ClientAccount>>,
    /// The account that pays for the socket towards the endpoint, for a stream of HTTP/2. A
    /// connection of HTTP/1 uses one socket at a time, which is free.
    pub socket_account: Option<&'a Arc<ClientAccount>>,
    /// The authenticated user.
    pub user: Option<&'a Arc<str>>,
    /// The client's side: source of the request's body, destination of the response.
    pub down: &'a mut D,
    /// The endpoint that the client prefers.
    pub preference: Preference,
    /// The client's own connections to endpoints, where these get a PROXY header.
    pub private: &'a Rc<PrivateConnections>,
    /// Encodes the PROXY header of such a connection.
    pub proxy_header: &'a dyn Fn(ProxyVersion) -> Vec<u8>,
    /// The shapers of its bodies, if their rates are limited.
    pub shapers: Option<Box<Shapers>>,
    /// The counters of its site.
    pub cells: &'a SiteCells,
    /// When its first byte was received.
    pub began: Instant,
    /// Whether the client's connection may be kept.
    pub persistence: Persistence,
    /// Its outcome so far.
    pub outcome: &'a mut ExchangeOutcome,
}

/// The outcome of an exchange, for the log and the counters.
#[derive(Debug, Default)]
pub struct ExchangeOutcome {
    /// The status of the response; 0 without one.
    pub status: u16,
    /// The endpoint that responded, or failed to.
    pub endpoint: Option<Arc<Endpoint>>,
    /// The status that this endpoint responded with; 0 while it has not. The client's may be one of
    /// ours.
    pub endpoint_status: u16,
    /// Whether the connection to the endpoint was reused.
    pub endpoint_reused: bool,
    /// Attempts beyond the first.
    pub retries: u32,
    /// The members that were tried in vain.
    pub tried: MemberSet,
    /// The status of a gRPC call.
    pub grpc_status: Option<u16>,
    /// The time until an endpoint was chosen and had room.
    pub wait: Option<Duration>,
    /// The time to connect to it, if that was needed. Like `wait`, of all attempts together: a
    /// failed attempt delays the one that succeeds.
    pub connect: Option<Duration>,
    /// The time from there to the end of the final response's head.
    pub response_head: Option<Duration>,
    /// Whether the endpoint responded to the whole request, or had asked for its body (RFC 9110
    /// §10.1.1).
    pub awaited: bool,
    /// Whether the client's connection can take another request.
    pub client_persists: bool,
    /// The endpoint's side of a connection that has switched protocols.
    pub switched: Option<Box<SwitchedConnection>>,
}

/// The endpoint's side of a connection that has switched protocols, and the limits of the tunnel.
#[derive(Debug)]
pub struct SwitchedConnection {
    /// The connection to the endpoint.
    pub up: UpstreamConnection,
    /// The connection's permit at the endpoint, as long as the tunnel lasts.
    pub permit: EndpointPermit,
    /// The tunnel as a request in flight.
    pub in_flight: InFlight,
    /// The limits of the tunnel.
    pub tunnel_limits: TunnelLimits,
    /// Its permits under the limits of its client and its user.
    pub tunnel_permits: TunnelPermits,
    /// The shapers of its request, if rates are limited.
    pub shapers: Option<Box<Shapers>>,
    /// The request that opened it, for the log.
    pub tunnel_request: Option<Box<TunnelRequest>>,
}

/// The request that opened a tunnel, for the tunnel's line in the log.
#[derive(Debug)]
pub struct TunnelRequest {
    /// The request's id.
    pub id: RequestId,
    /// The requested host and port.
    pub host: Box<[u8]>,
    /// The authenticated user.
    pub user: Option<Arc<str>>,
}

impl TunnelRequest {
    /// The fields of the log line.
    pub fn log_fields(&self) -> TunnelFields<'_> {
        TunnelFields {
            id: self.id.as_str(),
            host: &self.host,
            user: self.user.as_deref(),
        }
    }
}

/// The permits of a tunnel under the limits on tunnels.
#[derive(Debug, Default)]
pub struct TunnelPermits {
    /// Its permit under the limit of its client.
    pub client: Option<KeyedPermit<IpAddr>>,
    /// Its permit under the limit of its user.
    pub user: Option<KeyedPermit<Arc<str>>>,
}

/// The limits of a connection that is relayed after HTTP has ended.
#[derive(Debug, Clone, Copy)]
pub struct TunnelLimits {
    /// The longest time without a byte.
    pub idle: Duration,
    /// The silence after which a peer is probed, if at all.
    pub keepalive: Option<Duration>,
    /// The longest lifetime, if that is limited.
    pub lifetime: Option<Duration>,
    /// The most bytes both ways together, if these are limited.
    pub bytes: Option<u64>,
}

impl SwitchedConnection {
    /// The connection of a request that has switched, with only the limit `idle`.
    pub fn of(lease: Lease, idle: Duration) -> Self {
        let (up, permit, in_flight) = lease.into_parts();
        let tunnel_limits = TunnelLimits {
            idle,
            keepalive: None,
            lifetime: None,
            bytes: None,
        };
        Self {
            up,
            permit,
            in_flight,
            tunnel_limits,
            tunnel_permits: TunnelPermits::default(),
            shapers: None,
            tunnel_request: None,
        }
    }
}

impl TunnelLimits {
    /// Sets the limits on the connection of `guard`, from now on.
    pub fn begin(&self, guard: &Guard) {
        guard.limit_idle(self.idle);
        if let Some(lifetime) = self.lifetime {
            guard.limit_lifetime(lifetime);
        }
        if let Some(bytes) = self.bytes {
            guard.limit_bytes(bytes);
        }
    }
}

impl<D: ClientExchange> Exchange<'_, D> {
    /// Sends the response that switches protocols; the bytes that follow go to `switched`.
    ///
    /// # Errors
    /// When the client does not take the response.
    pub async fn switch(
        &mut self,
        response: &ResponseHead,
        switched: SwitchedConnection,
    ) -> Result<(), ExchangeFailure> {
        self.down.switch(self.request.received(), response);
        self.outcome.status = response.status;
        self.guard.watch().set_wait(WaitReason::ForRoom);
        match self
            .guard
            .within(poll_fn(|cx| self.down.poll_flush(cx)))
            .await
        {
            Ok(flushed) => flushed.map_err(|error| ExchangeFailure::client(&error))?,
            Err(cut) => return Err(ExchangeFailure::cut(cut, HttpFault::ResponseTimeout)),
        }
        let shapers = self.shapers.take();
        self.outcome.switched = Some(Box::new(SwitchedConnection {
            shapers,
            ..switched
        }));
        Ok(())
    }
}

impl ExchangeOutcome {
    /// Adds the times of another lease, which took `took`, `dialled` of it to connect.
    pub fn add_lease(&mut self, took: Duration, dialled: Option<Duration>) {
        let wait = took.saturating_sub(dialled.unwrap_or_default());
        self.wait = Some(self.wait.unwrap_or_default() + wait);
        self.connect = dialled.map_or(self.connect, |dialled| {
            Some(self.connect.unwrap_or_default() + dialled)
        });
    }
}

/// Why there is no response of an origin, or not the whole of it.
#[derive(Debug)]
pub struct ExchangeFailure {
    /// The error response, if the client can still be sent one.
    pub fault: Option<HttpFault>,
    /// The cause in the log.
    pub cause: Cause,
    /// The side at fault.
    pub side: CauseSide,
    /// The detail in the log, which the client is not told.
    pub detail: Cow<'static, str>,
}

impl ExchangeFailure {
    /// A failure with an error response.
    pub fn of(fault: HttpFault) -> Self {
        Self::because(fault, Cow::Borrowed(""))
    }

    /// A failure with an error response, and a detail for the log.
    pub fn because(fault: HttpFault, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fault: Some(fault),
            cause: fault.cause(),
            side: fault.side(),
            detail: detail.into(),
        }
    }

    /// A failure without an error response.
    pub fn silent(cause: Cause, side: CauseSide, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fault: None,
            cause,
            side,
            detail: detail.into(),
        }
    }

    /// A broken connection of the client.
    pub fn client(error: &impl fmt::Display) -> Self {
        Self::silent(Cause::ClientReset, CauseSide::Downstream, error.to_string())
    }

    /// A request body that cannot be read to its end.
    pub fn upload(error: &ReadError) -> Self {
        match error {
            ReadError::Stream(error) => Self::client(error),
            ReadError::Reset(error) => Self::client(error),
            ReadError::Cut => Self::silent(
                Cause::ClientClosed,
                CauseSide::Downstream,
                "in the middle of the body",
            ),
            ReadError::TooLong => Self::of(HttpFault::ContentTooLarge),
            ReadError::Head(_)
            | ReadError::Section(_)
            | ReadError::Framing(_)
            | ReadError::Body(_)
            | ReadError::Transform(_) => Self::because(HttpFault::Malformed, error.to_string()),
        }
    }

    /// An exchange that was cut; `fault` is the meaning of a deadline.
    pub fn cut(cut: Cut, fault: HttpFault) -> Self {
        match cut {
            Cut::Deadline => Self::of(fault),
            Cut::Idle => Self::silent(Cause::Idle, CauseSide::Lockgate, ""),
            Cut::Lifetime => Self::silent(Cause::Lifetime, CauseSide::Lockgate, ""),
            Cut::Spent => Self::silent(Cause::Limit, CauseSide::Lockgate, "bytes"),
            Cut::Drain => Self::silent(Cause::Drain, CauseSide::Lockgate, ""),
            Cut::Closed => Self::silent(Cause::Drain, CauseSide::Lockgate, CLOSED),
            Cut::Slow => Self::because(HttpFault::RequestTimeout, "below the minimum rate"),
            Cut::EndpointDown => Self::of(HttpFault::EndpointDown),
            Cut::Memory => Self::silent(Cause::Limit, CauseSide::Lockgate, "memory"),
            Cut::Crowded => Self::silent(
                Cause::Limit,
                CauseSide::Lockgate,
                "stalled while others waited",
            ),
        }
    }
}

impl From<DialError> for ExchangeFailure {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Cut(cut) => Self::cut(cut, HttpFault::ConnectionTimeout),
            DialError::Left => {
                Self::silent(Cause::ClientReset, CauseSide::Downstream, error.to_string())
            }
            error => Self::because(HttpFault::from(&error), error.to_string()),
        }
    }
}

/// The time since a moment, which then restarts at now.
pub fn lap(since: &mut Instant) -> Duration {
    let now = Instant::now();
    now.duration_since(std::mem::replace(since, now))
}
