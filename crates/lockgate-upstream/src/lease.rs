//! The lease of a connection to an endpoint for one request: an idle one, or a new one.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_http_io::h1::H1Connection;
use lockgate_http_io::h2::RequestPseudoFields;
use lockgate_http_io::message::OutgoingRequest;
use lockgate_limits::MemberIndex;
use lockgate_limits::box_future::boxed;
use lockgate_limits::clients::ClientAccount;
use lockgate_limits::member_set::MemberSet;
use lockgate_limits::sockets::SocketShare;
use lockgate_net::millis::Millis;
use lockgate_net::stream::Stream;

use super::connection_usage::ConnectionUsage;
use super::h2_pool::LeasedStream;
use super::lease_request::{LeaseRequest, QueuedRequest};
use super::upstream_pool::{IdleConnection, UpstreamPool};
use super::{
    DialError, Endpoint, EndpointIndex, EndpointPermit, InFlight, Pool, ReusePolicy, Settings,
    SocketPermit, UpstreamConnection,
};

/// The right to send one request over a connection; dropping it closes the connection, or its
/// stream where others share it.
#[derive(Debug)]
pub struct Lease {
    /// The connection.
    pub connection: UpstreamConnection,
    /// Its use before this request; that of a new one where the request waited for one.
    usage: ConnectionUsage,
    /// The time to make it, if it is new.
    pub dialled: Option<Duration>,
    in_flight: InFlight,
    permit: EndpointPermit,
    /// Whether the endpoint was avoided when it was chosen.
    avoided: bool,
    member: MemberIndex,
    upstream: Rc<UpstreamPool>,
}

impl Lease {
    /// A lease of an idle connection.
    #[inline]
    pub(super) fn reuse(
        idle: IdleConnection,
        mut permit: EndpointPermit,
        (member, upstream): (MemberIndex, Rc<UpstreamPool>),
        now: Millis,
    ) -> Self {
        permit.set_socket(idle.socket_permit);
        let endpoint = permit.endpoint();
        Self {
            connection: UpstreamConnection::H1(idle.connection),
            usage: idle.usage,
            dialled: None,
            avoided: endpoint.is_avoided(now),
            in_flight: permit.begin_request(),
            permit,
            member,
            upstream,
        }
    }

    /// Whether its connection has had earlier requests.
    pub fn is_reused(&self) -> bool {
        self.usage.requests > 0
    }

    /// The endpoint of the connection.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        self.in_flight.endpoint()
    }

    /// Begins a request, for which HTTP/2 needs `pseudo_fields`. Over HTTP/1 it leaves with the first data
    /// or by a flush, over HTTP/2 in the connection's next turn.
    #[inline]
    pub fn send_request(
        &mut self,
        request: &OutgoingRequest<'_>,
        pseudo_fields: Option<&RequestPseudoFields>,
    ) {
        let endpoint = self.in_flight.endpoint();
        let pseudo_fields = pseudo_fields.map(|fields| fields.at(endpoint.authority()));
        self.connection.send_request(request, pseudo_fields);
    }

    /// The pool of the endpoint.
    pub fn pool(&self) -> &Pool {
        self.upstream.pool()
    }

    /// The endpoint as a member of the pool.
    pub fn member(&self) -> MemberIndex {
        self.member
    }

    /// The settings of its pool.
    pub fn settings(&self) -> &Settings {
        &self.pool().settings
    }

    /// The endpoint's index for counters.
    pub fn endpoint_index(&self) -> Option<EndpointIndex> {
        self.upstream.endpoint_index(self.member)
    }

    /// Whether the endpoint was healthy when it was chosen and has failed since. When an endpoint
    /// dies, all its requests fail together: that is one failure, and no failing pool.
    pub fn is_overtaken(&self, now: Millis) -> bool {
        let member = self.pool().member(self.member);
        let down = member.is_some_and(|member| !member.is_up());
        !self.avoided && (down || self.endpoint().is_avoided(now))
    }

    /// Whether no other request shares its connection.
    pub fn has_own_socket(&self) -> bool {
        matches!(self.connection, UpstreamConnection::H1(_))
    }

    /// Keeps the connection for the next request of any client. Only after a complete response; not
    /// while its socket is needed elsewhere.
    pub fn keep(self, now: Millis) {
        if let Some((idle, member, upstream)) = self.into_idle(now)
            && upstream.pool().settings.idle_settings.max > 0
        {
            upstream.keep_idle(member, idle);
        }
    }

    /// The connection for a next request, with its member and pool; none if it must be closed, or
    /// is shared, and so kept by its pool.
    #[inline]
    pub(super) fn into_idle(
        self,
        now: Millis,
    ) -> Option<(IdleConnection, MemberIndex, Rc<UpstreamPool>)> {
        let Self {
            connection: UpstreamConnection::H1(connection),
            mut permit,
            mut usage,
            member,
            upstream,
            ..
        } = self
        else {
            return None;
        };
        usage.begin_request();
        usage.note_idle(now);
        let idle_settings = upstream.pool().settings.idle_settings;
        let may_stay = connection.is_spent()
            && usage.allows_request(idle_settings, now)
            && !upstream.are_sockets_wanted();
        let idle = IdleConnection {
            connection,
            socket_permit: permit.take_socket()?,
            usage,
        };
        may_stay.then_some((idle, member, upstream))
    }

    /// The connection for another protocol, with its permit and the request in flight.
    pub fn into_parts(self) -> (UpstreamConnection, EndpointPermit, InFlight) {
        (self.connection, self.permit, self.in_flight)
    }
}

/// A chosen member with the permit of the request at it.
struct ChosenMember {
    member: MemberIndex,
    permit: EndpointPermit,
    in_flight: InFlight,
}

/// What a lease has that must be waited for: the client's share of sockets, and the member that it
/// is to connect to, with a permit.
#[derive(Debug, Default)]
pub struct PendingLease {
    share: Option<SocketShare>,
    chosen: Option<(MemberIndex, EndpointPermit)>,
}

impl UpstreamPool {
    /// Leases an idle connection to the next endpoint, or to the preferred one, without a wait, so
    /// that most requests have no state for one. Members in `tried` are skipped; that of the
    /// connection is added.
    ///
    /// # Errors
    /// Where there is none: then [`connect`](Self::connect) goes on with what there is.
    pub fn reuse(
        self: &Rc<Self>,
        request: &LeaseRequest<'_>,
        tried: &mut MemberSet,
    ) -> Result<Lease, PendingLease> {
        let Ok(share) = self.sockets.try_share(self.socket_account(request)) else {
            return Err(PendingLease::default());
        };
        let (now, random) = (request.guard.clock().now(), self.random.next());
        let chosen = self.pool.choose(request.preference, *tried, random, now);
        let Some((member, mut permit)) = chosen else {
            let chosen = None;
            return Err(PendingLease { share, chosen });
        };
        let Some(idle) = self.take_idle(member, request.reuse, now) else {
            let chosen = Some((member, permit));
            return Err(PendingLease { share, chosen });
        };
        tried.insert(member);
        permit.set_share(share);
        Ok(Lease::reuse(idle, permit, (member, Rc::clone(self)), now))
    }

    /// Leases a connection where [`reuse`](Self::reuse) has found none: a new one, or an idle one
    /// once there is a permit. Members in `tried` are skipped, and those that are tried now are
    /// added.
    ///
    /// # Errors
    /// When no endpoint can be reached in time.
    pub async fn connect(
        self: &Rc<Self>,
        pending: PendingLease,
        request: &LeaseRequest<'_>,
        tried: &mut MemberSet,
    ) -> Result<Lease, DialError> {
        let PendingLease {
            mut share,
            mut chosen,
        } = pending;
        if let (None, Some(account)) = (&share, self.socket_account(request)) {
            share = match self.sockets.try_share(Some(account)) {
                Ok(share) => share,
                Err(account) => Some(self.wait_for_share(account, request).await?),
            };
        }
        let mut last = None;
        // Bounded, since `MemberSet` forgets members behind the 64th.
        for _ in self.pool.members() {
            let (now, random) = (request.guard.clock().now(), self.random.next());
            let choose = || self.pool.choose(request.preference, *tried, random, now);
            let (member, mut permit) = match chosen.take().or_else(choose) {
                Some(chosen) => chosen,
                None => match self.queue(request, *tried).await {
                    Ok(chosen) => chosen,
                    Err(error @ DialError::Cut(_)) => return Err(error),
                    Err(error) => return Err(last.unwrap_or(error)),
                },
            };
            tried.insert(member);
            if let Some(idle) = self.take_idle(member, request.reuse, now) {
                permit.set_share(share);
                return Ok(Lease::reuse(idle, permit, (member, Rc::clone(self)), now));
            }
            let chosen = ChosenMember {
                in_flight: permit.begin_request(),
                member,
                permit,
            };
            let leased = if self.pool.settings.http2 {
                boxed(|| self.lease_stream(chosen, request)).await
            } else {
                boxed(|| self.dial(chosen, request)).await
            };
            match leased {
                Ok(mut lease) => {
                    lease.permit.set_share(share.take());
                    return Ok(lease);
                }
                // Nothing was sent: another endpoint may be tried.
                Err(error @ DialError::Failed { .. }) => {
                    let index = self.endpoint_index(member);
                    request.metrics.unreachable(index, &error);
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or(DialError::Down))
    }

    /// The account that pays for the socket of a request: those on shared connections use hardly
    /// any sockets.
    fn socket_account<'r>(&self, request: &LeaseRequest<'r>) -> Option<&'r Arc<ClientAccount>> {
        request.socket_account.filter(|_| !self.pool.settings.http2)
    }

    /// Waits for a permit at an untried member.
    async fn queue(
        &self,
        request: &LeaseRequest<'_>,
        tried: MemberSet,
    ) -> Result<(MemberIndex, EndpointPermit), DialError> {
        let _waiting = QueuedRequest::begin(request.metrics);
        let (guard, wait_budget, preference) =
            (request.guard, request.wait_budget, request.preference);
        let choose = |now| {
            let random = self.random.next();
            self.pool.choose(preference, tried, random, now)
        };
        self.pool
            .queue(guard, wait_budget, (preference, tried), choose)
            .await
    }

    /// Waits for the client's share of sockets.
    async fn wait_for_share(
        &self,
        account: &Arc<ClientAccount>,
        request: &LeaseRequest<'_>,
    ) -> Result<SocketShare, DialError> {
        let _waiting = QueuedRequest::begin(request.metrics);
        self.sockets
            .wait_for_share(account, request.guard, request.wait_budget)
            .await
    }

    /// Takes a permit for one more socket.
    async fn socket_permit(&self, request: &LeaseRequest<'_>) -> Result<SocketPermit, DialError> {
        if let Some(socket_permit) = self.sockets.try_take() {
            return Ok(socket_permit);
        }
        let _waiting = QueuedRequest::begin(request.metrics);
        self.sockets.take(request.guard, request.wait_budget).await
    }

    /// Makes a new HTTP/1 connection.
    async fn dial(
        self: &Rc<Self>,
        chosen: ChosenMember,
        request: &LeaseRequest<'_>,
    ) -> Result<Lease, DialError> {
        let LeaseRequest {
            guard,
            wait_budget,
            connect,
            proxy_header,
            ..
        } = *request;
        let mut permit = chosen.permit;
        permit.set_socket(self.socket_permit(request).await?);
        let began = Instant::now();
        let avoided = permit.endpoint().is_avoided(guard.clock().now());
        let dialled = self
            .pool
            .attempt(
                permit,
                &self.sockets,
                (guard, wait_budget),
                connect,
                proxy_header,
            )
            .await?;
        let before_tls = dialled.session.is_some();
        let stream = Stream::new(dialled.socket, dialled.session, Vec::new());
        let mut connection = Box::new(H1Connection::new(stream, &self.buffers.blocks, &[]));
        if !before_tls {
            connection.writer.buffer().extend_from_slice(proxy_header);
        }
        Ok(Lease {
            connection: UpstreamConnection::H1(connection),
            usage: ConnectionUsage::new(guard.clock().now()),
            dialled: Some(began.elapsed()),
            avoided,
            in_flight: chosen.in_flight,
            permit: dialled.permit,
            member: chosen.member,
            upstream: Rc::clone(self),
        })
    }

    /// Leases a stream on a shared connection; where none has room, waits for one more connection.
    async fn lease_stream(
        self: &Rc<Self>,
        chosen: ChosenMember,
        request: &LeaseRequest<'_>,
    ) -> Result<Lease, DialError> {
        let LeaseRequest {
            guard,
            connect,
            mut reuse,
            ..
        } = *request;
        let (began, permit) = (Instant::now(), chosen.permit.without_connection());
        let avoided = permit.endpoint().is_avoided(guard.clock().now());
        let (h2_pool, idle_settings) = (
            &self.connections(chosen.member).h2,
            self.pool.settings.idle_settings,
        );
        let (mut waited, mut dialled) = (false, None);
        loop {
            let now = guard.clock().now();
            if let Some(LeasedStream { stream, usage }) = h2_pool.reserve(reuse, idle_settings, now)
            {
                return Ok(Lease {
                    connection: UpstreamConnection::H2(stream),
                    usage: if waited {
                        ConnectionUsage::new(now)
                    } else {
                        usage
                    },
                    dialled,
                    avoided,
                    in_flight: chosen.in_flight,
                    permit,
                    member: chosen.member,
                    upstream: Rc::clone(self),
                });
            }
            // For the connect, TLS, and SETTINGS; more where other requests take the streams first.
            let queue_wait = self.pool.settings.queue.wait;
            guard.begin_phase(connect.saturating_mul(4).saturating_add(queue_wait));
            let endpoint = Arc::clone(permit.endpoint());
            let made = h2_pool.wait_for_connection(
                &self.pool,
                &endpoint,
                (&self.buffers, &self.sockets),
                guard,
                connect,
            );
            let first = made.await?;
            // A new connection is alive.
            if reuse == ReusePolicy::Alive {
                reuse = ReusePolicy::Any;
            }
            waited = true;
            dialled = dialled.or(first.then(|| began.elapsed()));
        }
    }
}
