//! One request and its answer: what is known when it begins, and what came of it.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_http::head::{RequestHead, ResponseHead};
use lockgate_rules::{Pattern, ProxyVersion, RequestValues};

use crate::access_log::{Cause, OpenedBy, Side};
use crate::answer::Fault;
use crate::body::ReadError;
use crate::clients::Account;
use crate::clock::{Cut, Guard, Waiting};
use crate::limits::Share;
use crate::member_set::MemberSet;
use crate::message::{Downstream, OutgoingRequest, Persistence};
use crate::metrics::http::SiteCells;
use crate::request_id::RequestId;
use crate::rules::Rules;
use crate::shaping::Shapers;
use crate::upstream::{DialError, Endpoint, Hold, InFlight, Kept, Lease, Wire, Wish};
use crate::worker::Worker;

/// A request, and what is known of it.
pub struct Request<'a> {
    /// The worker that serves it.
    pub worker: &'a Rc<Worker>,
    /// The request as an endpoint gets it, with the head as it was received.
    pub outgoing: OutgoingRequest<'a>,
    /// What templates fill in.
    pub values: RequestValues<'a>,
    /// What the route matches.
    pub pattern: &'a Pattern,
    /// What the exchange is held to.
    pub rules: &'a Rules,
}

impl<'a> Request<'a> {
    /// The head as it was received.
    pub fn received(&self) -> &'a RequestHead {
        self.outgoing.received
    }
}

/// A request on its way through an action, and the way back.
pub struct Dispatch<'a, D> {
    /// The request.
    pub request: Request<'a>,
    /// The deadlines.
    pub guard: &'a Guard,
    /// What the client holds of what the process has.
    pub account: Option<&'a Arc<Account>>,
    /// The account whose share of sockets towards endpoints this uses: that of a stream. A
    /// connection of HTTP/1 uses one at a time.
    pub share_of: Option<&'a Arc<Account>>,
    /// Where the body comes from and the answer goes.
    pub down: &'a mut D,
    /// To which endpoint the client belongs.
    pub wish: Wish,
    /// The client's own connections to endpoints, where endpoints are told of it.
    pub private: &'a Rc<Kept>,
    /// What goes before everything else on such a connection.
    pub introduction: &'a dyn Fn(ProxyVersion) -> Vec<u8>,
    /// What its bodies may move, if their rates are limited.
    pub shapers: Option<Box<Shapers>>,
    /// Where it is counted.
    pub cells: &'a SiteCells,
    /// When its first byte was there.
    pub began: Instant,
    /// Whether the client's connection may be kept.
    pub persistence: Persistence,
    /// What has come of it so far.
    pub outcome: &'a mut Outcome,
}

/// What came of an exchange.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was answered; 0 when nothing was.
    pub status: u16,
    /// Who answered, or failed to.
    pub endpoint: Option<Arc<Endpoint>>,
    /// Whether the connection to it had been used before.
    pub reused: bool,
    /// Attempts beyond the first.
    pub retries: u32,
    /// The members that were tried in vain.
    pub tried: MemberSet,
    /// Of a call of gRPC, how it has ended.
    pub grpc_status: Option<u16>,
    /// Until an endpoint was chosen and had room.
    pub wait: Option<Duration>,
    /// Connecting to it, if that was needed. Like `wait`, of all attempts together: what an
    /// attempt that failed has taken was waited for the one that did not.
    pub connect: Option<Duration>,
    /// From there to the answer's head.
    pub first_byte: Option<Duration>,
    /// Whether the endpoint answered with the whole request before it, or had asked for the rest
    /// (RFC 9110 §10.1.1).
    pub awaited: bool,
    /// Whether the client's connection can take another request.
    pub reusable: bool,
    /// What the client's connection is joined to, after both have agreed to speak something else.
    pub switched: Option<Box<Switched>>,
}

/// The other end of what is no HTTP from here on.
#[derive(Debug)]
pub struct Switched {
    /// The way there.
    pub up: Wire,
    /// Counts for the endpoint as long as this lasts.
    pub hold: Hold,
    /// So does this.
    pub in_flight: InFlight,
    /// What holds for it.
    pub bounds: Bounds,
    /// What it takes of what its client and its user may have.
    pub shares: Shares,
    /// What it may move, if its rate is limited: what its request might.
    pub shapers: Option<Box<Shapers>>,
    /// The request that opened it, for the log, once that is over.
    pub opener: Option<Box<Opener>>,
}

/// The request by which HTTP has ended, for the line of what came after it.
#[derive(Debug)]
pub struct Opener {
    /// Its id.
    pub id: RequestId,
    /// Host and port that it asked for.
    pub host: Box<[u8]>,
    /// Who asked, if a password said so.
    pub user: Option<Arc<str>>,
}

impl Opener {
    /// As the log has it.
    pub fn told(&self) -> OpenedBy<'_> {
        OpenedBy {
            id: self.id.as_str(),
            host: &self.host,
            user: self.user.as_deref(),
        }
    }
}

/// What a tunnel takes of what may be there at once.
#[derive(Debug, Default)]
pub struct Shares {
    /// Of its client's.
    pub client: Option<Share<IpAddr>>,
    /// Of its user's.
    pub user: Option<Share<Arc<str>>>,
}

/// What holds for a connection that is relayed after HTTP has ended.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// For as long as nothing may move.
    pub idle: Duration,
    /// When to probe a silent peer, if at all.
    pub keepalive: Option<Duration>,
    /// For all of it, if that is limited.
    pub lifetime: Option<Duration>,
    /// Bytes both ways together, if these are.
    pub bytes: Option<u64>,
}

impl Switched {
    /// The connection of a request that has switched, on which nothing moves for no longer than
    /// `idle`.
    pub fn of(lease: Lease, idle: Duration) -> Self {
        let (up, hold, in_flight) = lease.into_parts();
        let bounds = Bounds {
            idle,
            keepalive: None,
            lifetime: None,
            bytes: None,
        };
        Self {
            up,
            hold,
            in_flight,
            bounds,
            shares: Shares::default(),
            shapers: None,
            opener: None,
        }
    }
}

impl Bounds {
    /// Holds what `guard` guards to them from now on.
    pub fn begin(&self, guard: &Guard) {
        guard.idle(self.idle);
        if let Some(lifetime) = self.lifetime {
            guard.live(lifetime);
        }
        if let Some(bytes) = self.bytes {
            guard.spend(bytes);
        }
    }
}

impl<D: Downstream> Dispatch<'_, D> {
    /// Answers that what follows is no HTTP any more, and goes to `switched`.
    ///
    /// # Errors
    /// When the client does not take the answer.
    pub async fn switch(
        &mut self,
        answer: &ResponseHead,
        switched: Switched,
    ) -> Result<(), Failure> {
        self.down.switch(self.request.received(), answer);
        self.outcome.status = answer.status;
        self.guard.watch().waits(Waiting::ForRoom);
        match self
            .guard
            .within(poll_fn(|cx| self.down.poll_flush(cx)))
            .await
        {
            Ok(flushed) => flushed.map_err(|error| Failure::client(&error))?,
            Err(cut) => return Err(Failure::cut(cut, Fault::ResponseTimeout)),
        }
        let shapers = self.shapers.take();
        self.outcome.switched = Some(Box::new(Switched {
            shapers,
            ..switched
        }));
        Ok(())
    }
}

impl Outcome {
    /// Notes another connection, `took` after whatever was before, of which making it was a part.
    pub fn leased(&mut self, took: Duration, dialled: Option<Duration>) {
        let wait = took.saturating_sub(dialled.unwrap_or_default());
        self.wait = Some(self.wait.unwrap_or_default() + wait);
        self.connect = dialled.map_or(self.connect, |dialled| {
            Some(self.connect.unwrap_or_default() + dialled)
        });
    }
}

/// Why there is no answer of an origin, or not the whole of it.
#[derive(Debug)]
pub struct Failure {
    /// What a client is told, if it is still to be told something.
    pub fault: Option<Fault>,
    /// The word in the log.
    pub cause: Cause,
    /// At whose side.
    pub side: Side,
    /// For the log: what a client is not told.
    pub detail: Cow<'static, str>,
}

impl Failure {
    /// One that a client is told of.
    pub fn of(fault: Fault) -> Self {
        Self::because(fault, Cow::Borrowed(""))
    }

    /// The same, with more for the log.
    pub fn because(fault: Fault, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fault: Some(fault),
            cause: fault.cause(),
            side: fault.side(),
            detail: detail.into(),
        }
    }

    /// One after which there is nobody to be told.
    pub fn silent(cause: Cause, side: Side, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fault: None,
            cause,
            side,
            detail: detail.into(),
        }
    }

    /// The client's connection has broken.
    pub fn client(error: &impl fmt::Display) -> Self {
        Self::silent(Cause::ClientReset, Side::Downstream, error.to_string())
    }

    /// The client's body cannot be read to its end.
    pub fn upload(error: &ReadError) -> Self {
        match error {
            ReadError::Stream(error) => Self::client(error),
            ReadError::Reset(error) => Self::client(error),
            ReadError::Cut => Self::silent(
                Cause::ClientClosed,
                Side::Downstream,
                "in the middle of the body",
            ),
            ReadError::TooLong => Self::of(Fault::ContentTooLarge),
            ReadError::Head(_)
            | ReadError::Section(_)
            | ReadError::Framing(_)
            | ReadError::Body(_)
            | ReadError::Transform(_) => Self::because(Fault::Malformed, error.to_string()),
        }
    }

    /// We cut the exchange short; `fault` is what a deadline means.
    pub fn cut(cut: Cut, fault: Fault) -> Self {
        match cut {
            Cut::Deadline => Self::of(fault),
            Cut::Idle => Self::silent(Cause::Idle, Side::Lockgate, ""),
            Cut::Lifetime => Self::silent(Cause::Lifetime, Side::Lockgate, ""),
            Cut::Spent => Self::silent(Cause::Limit, Side::Lockgate, "bytes"),
            Cut::Drain => Self::silent(Cause::Drain, Side::Lockgate, ""),
            Cut::Slow => Self::because(Fault::RequestTimeout, "below the minimum rate"),
            Cut::EndpointDown => Self::of(Fault::EndpointDown),
            Cut::Memory => Self::silent(Cause::Limit, Side::Lockgate, "memory"),
            Cut::Crowded => Self::silent(Cause::Limit, Side::Lockgate, "its place was wanted"),
        }
    }
}

impl From<DialError> for Failure {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Cut(cut) => Self::cut(cut, Fault::ConnectionTimeout),
            DialError::Left => {
                Self::silent(Cause::ClientReset, Side::Downstream, error.to_string())
            }
            error => Self::because(error.fault(), error.to_string()),
        }
    }
}

/// Time since a moment, and the moment itself from now on.
pub fn lap(since: &mut Instant) -> Duration {
    let now = Instant::now();
    now.duration_since(std::mem::replace(since, now))
}
