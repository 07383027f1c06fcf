//! A forward proxy: opens tunnels (CONNECT, RFC 9110 §9.3.6) and forwards other requests. Both
//! check the rules, look the target up, and dial it.
//!
//! Checks each address of a name, and dials only the allowed ones. Does not move bytes: the owner
//! of the client's connection joins both connections.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockgate_http::forwarding::ForwardedClient;
use lockgate_http::head::{BodyLength, ResponseHead};
use lockgate_http::request_target::RequestTarget;
use lockgate_http_io::h1::H1Connection;
use lockgate_http_io::message::ClientExchange;
use lockgate_limits::clock::Clock;
use lockgate_limits::sockets::SocketShare;
use lockgate_limits::{KeyedLimit, PerClient};
use lockgate_net::dial::{self, interleave, is_exhaustion};
use lockgate_net::name_cache::{Addresses, NameCache, NameError};
use lockgate_net::socket::Socket;
use lockgate_net::stream::Stream;
use lockgate_rules::{ClientAddress, ProxyVersion, Queue};
use lockgate_upstream::{
    Endpoint, EndpointAddress, SocketPermit, UpstreamConnection, UpstreamPool, WaitBudget,
};

use super::proxy::Proxy;
use crate::access_log::{Cause, CauseSide};
use crate::admit::targets::{TargetRefusal, TunnelTargets};
use crate::error_response::HttpFault;
use crate::exchange::{
    Exchange, ExchangeFailure, SwitchedConnection, TunnelLimits, TunnelPermits, lap,
};

/// Addresses of one name that are tried, at the most.
const ATTEMPTS: usize = 8;
/// The default port of `http:` (RFC 9110 §4.2.1).
const HTTP_PORT: u16 = 80;
/// Ticks between two attempts: the 250 ms that RFC 8305 §5 asks for, as well as ticks can tell.
const PAUSE: u32 = 3;

/// The settings of a forward proxy: it opens tunnels, and forwards requests where that is allowed.
#[derive(Debug)]
pub struct Connect {
    /// The allowed targets.
    pub targets: TunnelTargets,
    /// The DNS cache; all listeners share it.
    pub names: Arc<NameCache>,
    /// The age up to which a cached name is used.
    pub fresh: Duration,
    /// For the look-up of a name, and again for connecting to its addresses.
    pub connect: Duration,
    /// The limits of a tunnel.
    pub tunnel_limits: TunnelLimits,
    /// The PROXY header that targets are sent, if any.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Names that one client may have looked up at once: one that asks for what no name server
    /// answers must not take the time of the others. All listeners share it.
    pub look_ups: Arc<PerClient>,
    /// Tunnels that one client may have at once, if that is limited.
    pub per_client: Option<Arc<KeyedLimit<IpAddr>>>,
    /// Tunnels that one user may have at once, if that is limited.
    pub per_user: Option<Arc<KeyedLimit<Arc<str>>>>,
    /// Whether requests for `http:` are forwarded, and how.
    pub forward: Option<Forward>,
}

/// A target that the rules do not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JudgedTarget {
    /// An address, which is allowed.
    Address(SocketAddr),
    /// A name, if one of its addresses is allowed.
    Name,
}

/// The settings for requests that a client asks a proxy to forward (RFC 9112 §3.2.2).
#[derive(Debug)]
pub struct Forward {
    /// The deadlines; it has no pool.
    pub proxy: Proxy,
    /// What targets are told of the client: nothing.
    pub client: ForwardedClient,
}

impl Connect {
    /// Opens the tunnel that the request asks for.
    ///
    /// # Errors
    /// When it is malformed, may not lead there, or cannot; nothing was answered then.
    pub async fn run<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
    ) -> Result<(), ExchangeFailure> {
        let outgoing = &exchange.request.outgoing;
        let (host, port) = tunnel_target(outgoing.target, outgoing.length)?;
        let tunnel_permits = self.tunnel_permits(exchange.request.values.client, exchange.user)?;
        let wait_budget = WaitBudget::new(Queue::default().wait);
        let (socket_permit, share) = self.socket_permit(exchange, &wait_budget).await?;
        let (up, endpoint) = self.reach(exchange, &wait_budget, &host, port).await?;
        let (mut permit, in_flight) = (endpoint.count_connection(), endpoint.begin_request());
        permit.set_socket(socket_permit);
        permit.set_share(share);
        let switched = SwitchedConnection {
            up: UpstreamConnection::H1(up),
            permit,
            in_flight,
            tunnel_limits: self.tunnel_limits,
            tunnel_permits,
            shapers: None,
            tunnel_request: None,
        };
        exchange.switch(&ResponseHead::of(200), switched).await
    }

    /// Forwards a request for a URL, in absolute-form or by the fields of HTTP/2, to the URL's
    /// host, over a connection of its own.
    ///
    /// # Errors
    /// As [`Self::run`], and where there is no response or only a part of it.
    pub async fn forward<D: ClientExchange>(
        &self,
        proxy: &Proxy,
        exchange: &mut Exchange<'_, D>,
    ) -> Result<(), ExchangeFailure> {
        let received = exchange.request.received().secure;
        let (host, port) = forward_target(exchange.request.outgoing.target, received)?;
        // What it may switch to is a tunnel as those of CONNECT are, and held to the same.
        let tunnel_permits = match exchange.request.outgoing.upgrade() {
            Some(_) => self.tunnel_permits(exchange.request.values.client, exchange.user)?,
            None => TunnelPermits::default(),
        };
        let wait_budget = WaitBudget::new(Queue::default().wait);
        let (socket_permit, share) = self.socket_permit(exchange, &wait_budget).await?;
        let (connection, endpoint) = self.reach(exchange, &wait_budget, &host, port).await?;
        let worker = exchange.request.worker;
        let now = exchange.guard.clock().now();
        let buffers = worker.upstream_buffers();
        let upstream =
            UpstreamPool::single_use((connection, socket_permit), endpoint, &buffers, now);
        // The request takes it from here.
        drop(share);
        // What has passed is counted.
        exchange.began = Instant::now();
        proxy.run_by(upstream, exchange).await?;
        if let Some(switched) = &mut exchange.outcome.switched {
            (switched.tunnel_limits, switched.tunnel_permits) =
                (self.tunnel_limits, tunnel_permits);
        }
        Ok(())
    }

    /// A permit for one more socket, and what it takes of the client's share; both are waited for
    /// as requests wait for endpoints.
    async fn socket_permit<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        wait_budget: &WaitBudget,
    ) -> Result<(SocketPermit, Option<SocketShare>), ExchangeFailure> {
        let (sockets, guard) = (&exchange.request.worker.sockets, exchange.guard);
        let share = match sockets.try_share(exchange.socket_account) {
            Ok(share) => share,
            Err(account) => {
                let share = sockets.wait_for_share(account, guard, wait_budget);
                Some(
                    while_wanted(exchange, wait_budget.left(), HttpFault::Exhausted, share)
                        .await??,
                )
            }
        };
        let socket_permit = match sockets.try_take() {
            Some(socket_permit) => socket_permit,
            None => {
                let socket_permit = sockets.take(guard, wait_budget);
                while_wanted(
                    exchange,
                    wait_budget.left(),
                    HttpFault::Exhausted,
                    socket_permit,
                )
                .await??
            }
        };
        Ok((socket_permit, share))
    }

    /// A connection to `host`, on which the PROXY header was sent if there is to be one.
    async fn reach<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        wait_budget: &WaitBudget,
        host: &str,
        port: u16,
    ) -> Result<(Box<H1Connection>, Arc<Endpoint>), ExchangeFailure> {
        let mut clock = exchange.began;
        let addresses = self.addresses(exchange, host, port).await?;
        let began = Instant::now();
        let (socket, address) = self.dial(exchange, wait_budget, host, &addresses).await?;
        exchange
            .outcome
            .add_lease(lap(&mut clock), Some(began.elapsed()));
        let endpoint = Arc::new(Endpoint::new(
            address.to_string(),
            address.ip().to_string(),
            EndpointAddress::Ip(address),
            None,
        ));
        exchange.outcome.endpoint = Some(Arc::clone(&endpoint));
        let stream = Stream::new(socket, None, Vec::new());
        let mut up = Box::new(H1Connection::new(
            stream,
            &exchange.request.worker.blocks,
            &[],
        ));
        if let Some(version) = self.proxy_protocol {
            up.writer
                .buffer()
                .extend_from_slice(&(exchange.proxy_header)(version));
            let H1Connection { stream, writer, .. } = &mut *up;
            match exchange
                .guard
                .within(poll_fn(|cx| writer.poll_flush(cx, stream)))
                .await
            {
                Ok(sent) => {
                    sent.map_err(|error| {
                        ExchangeFailure::because(HttpFault::TargetRefused, error.to_string())
                    })?;
                }
                Err(cut) => return Err(ExchangeFailure::cut(cut, HttpFault::TargetTimeout)),
            }
        }
        Ok((up, endpoint))
    }

    fn tunnel_permits(
        &self,
        client: ClientAddress,
        user: Option<&Arc<str>>,
    ) -> Result<TunnelPermits, ExchangeFailure> {
        let full = |whose| ExchangeFailure::because(HttpFault::TooManyRequests, whose);
        let mut tunnel_permits = TunnelPermits::default();
        if let Some(table) = &self.per_client {
            let permit = table.take(&lockgate_limits::client(client.key_or_unspecified()));
            tunnel_permits.client =
                Some(permit.ok_or_else(|| full("too many tunnels of this client"))?);
        }
        if let Some((table, user)) = self.per_user.as_ref().zip(user) {
            let permit = table.take(user);
            tunnel_permits.user =
                Some(permit.ok_or_else(|| full("too many tunnels of this user"))?);
        }
        Ok(tunnel_permits)
    }

    /// The addresses of the target that a tunnel may lead to.
    async fn addresses<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, ExchangeFailure> {
        match self.judge(host, port)? {
            JudgedTarget::Address(address) => Ok(vec![address]),
            JudgedTarget::Name => {
                let found = self.look_up(exchange, host).await?;
                self.admitted(host, port, &found)
            }
        }
    }

    /// What the rules say of a target: a name, in lower case, is judged again by its addresses.
    ///
    /// # Errors
    /// When it is refused, by the name or as an address.
    pub fn judge(&self, host: &str, port: u16) -> Result<JudgedTarget, ExchangeFailure> {
        if let Some(ip) = literal(host) {
            let address = SocketAddr::new(ip, port);
            self.targets.admit(host, address).map_err(refused)?;
            return Ok(JudgedTarget::Address(address));
        }
        self.targets.may_look_up(host, port).map_err(refused)?;
        Ok(JudgedTarget::Name)
    }

    /// Those addresses of a name that are dialled, in their order.
    ///
    /// # Errors
    /// When all are refused: why the last one is.
    pub fn admitted(
        &self,
        host: &str,
        port: u16,
        found: &[IpAddr],
    ) -> Result<Vec<SocketAddr>, ExchangeFailure> {
        let mut why = None;
        let mut admitted = Vec::new();
        for ip in found {
            let address = SocketAddr::new(*ip, port);
            match self.targets.admit(host, address) {
                Ok(()) => admitted.push(address),
                Err(error) => why = Some(error),
            }
        }
        if let (true, Some(why)) = (admitted.is_empty(), why) {
            return Err(refused(why));
        }
        let mut addresses = interleave(admitted);
        addresses.truncate(ATTEMPTS);
        Ok(addresses)
    }

    async fn look_up<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        host: &str,
    ) -> Result<Addresses, ExchangeFailure> {
        let found = match self.names.known(host, self.fresh) {
            Some(found) => found,
            None => {
                let busy = || {
                    ExchangeFailure::because(
                        HttpFault::TooManyRequests,
                        "too many names are being looked up for this client",
                    )
                };
                let mut permit = self
                    .look_ups
                    .enter(exchange.request.values.client.key_or_unspecified())
                    .ok_or_else(busy)?;
                let asked = async {
                    permit.wait().await;
                    self.names.look_up(host, self.fresh, permit).await
                };
                while_wanted(exchange, self.connect, HttpFault::TargetDnsTimeout, asked).await?
            }
        };
        found.map_err(unresolved)
    }

    async fn dial<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        wait_budget: &WaitBudget,
        host: &str,
        addresses: &[SocketAddr],
    ) -> Result<(Socket, SocketAddr), ExchangeFailure> {
        let (sockets, guard) = (&exchange.request.worker.sockets, exchange.guard);
        let clock = guard.clock();
        let dialled = loop {
            let dialled = dial::race(addresses, || ticks(clock));
            let dialled =
                while_wanted(exchange, self.connect, HttpFault::TargetTimeout, dialled).await;
            if !matches!(&dialled, Ok(Err(error)) if is_exhaustion(error)) {
                break dialled;
            }
            let room = sockets.make_room(guard, wait_budget);
            let room =
                while_wanted(exchange, wait_budget.left(), HttpFault::Exhausted, room).await?;
            if !room.map_err(|cut| ExchangeFailure::cut(cut, HttpFault::Exhausted))? {
                break dialled;
            }
        };
        let unreachable = match &dialled {
            Ok(Ok(_)) => false,
            Ok(Err(error)) => !is_exhaustion(error),
            Err(failure) => failure.fault == Some(HttpFault::TargetTimeout),
        };
        if unreachable {
            // Perhaps it has moved.
            self.names.mark_unreachable(host);
        }
        dialled?.map_err(|error| {
            let fault = match error.kind() {
                _ if is_exhaustion(&error) => HttpFault::Exhausted,
                // Of our own: all ports to that address are taken (connect(2)).
                io::ErrorKind::AddrNotAvailable => HttpFault::Exhausted,
                io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                    HttpFault::TargetRefused
                }
                io::ErrorKind::TimedOut => HttpFault::TargetTimeout,
                _ => HttpFault::TargetUnroutable,
            };
            ExchangeFailure::because(fault, error.to_string())
        })
    }
}

/// The target of a tunnel: a name in lower case or an address, and a port.
///
/// # Errors
/// When there is none, or the request has a body.
pub(crate) fn tunnel_target(
    target: &RequestTarget<'_>,
    length: BodyLength,
) -> Result<(String, u16), ExchangeFailure> {
    let malformed = |why| Err(ExchangeFailure::because(HttpFault::Malformed, why));
    if length != BodyLength::Empty {
        // RFC 9110 §9.3.6: it has no meaning, and some would take it for the first bytes of the
        // tunnel.
        return malformed("CONNECT with a body");
    }
    match target.authority {
        Some(authority) => Ok((
            authority.name().into_owned(),
            port(authority.port.unwrap_or_default())?,
        )),
        None => malformed("CONNECT without a target"),
    }
}

/// The target of a request that is to be forwarded; `received` is the scheme of an HTTP/2 request.
///
/// # Errors
/// When the request is not for an `http:` URL.
pub(crate) fn forward_target(
    target: &RequestTarget<'_>,
    received: Option<bool>,
) -> Result<(String, u16), ExchangeFailure> {
    match (target.secure.or(received), target.authority) {
        (Some(false), Some(authority)) => Ok((
            authority.name().into_owned(),
            port(authority.port.unwrap_or(HTTP_PORT))?,
        )),
        (Some(true), _) => Err(ExchangeFailure::because(
            HttpFault::NotImplemented,
            "an https URL needs a tunnel (CONNECT)",
        )),
        _ => Err(ExchangeFailure::because(
            HttpFault::Malformed,
            "the request-target is not a URL, as a proxy needs it",
        )),
    }
}

/// The failure of a target that the rules refuse.
fn refused(refused: TargetRefusal) -> ExchangeFailure {
    let fault = match refused {
        TargetRefusal::Denied | TargetRefusal::NotAllowed => HttpFault::TargetForbidden,
        TargetRefusal::Private(_) | TargetRefusal::Nobody => HttpFault::TargetPrivate,
    };
    ExchangeFailure::because(fault, refused.to_string())
}

/// A port that a server can listen on.
fn port(port: u16) -> Result<u16, ExchangeFailure> {
    if port == 0 {
        Err(ExchangeFailure::because(HttpFault::Malformed, "port 0"))
    } else {
        Ok(port)
    }
}

/// The error for a target without an address, or for a name that is not looked up because too many
/// others are: the latter is our limit, and tells nothing about the name.
fn unresolved(error: NameError) -> ExchangeFailure {
    match error {
        NameError::Failed(said) => {
            ExchangeFailure::because(HttpFault::TargetUnknown, said.to_string())
        }
        NameError::Busy => ExchangeFailure::because(HttpFault::Exhausted, error.to_string()),
    }
}

/// The address that `host` is, if it is one.
fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')?
            .parse::<Ipv6Addr>()
            .ok()
            .map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// Waits for `future` as long as it may take and the client is there; `late` is what it means when
/// it takes longer.
async fn while_wanted<D: ClientExchange, F: Future>(
    exchange: &mut Exchange<'_, D>,
    limit: Duration,
    late: HttpFault,
    future: F,
) -> Result<F::Output, ExchangeFailure> {
    let Exchange { guard, down, .. } = exchange;
    guard.begin_phase(limit);
    let mut future = pin!(future);
    let waited = guard.within(poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => down.poll_gone(cx).map(|()| None),
    }));
    match waited.await {
        Ok(Some(output)) => Ok(output),
        Ok(None) => Err(ExchangeFailure::silent(
            Cause::ClientReset,
            CauseSide::Downstream,
            "while waiting",
        )),
        Err(cut) => Err(ExchangeFailure::cut(cut, late)),
    }
}

async fn ticks(clock: &Clock) {
    for _ in 0..PAUSE {
        clock.next_tick().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_resolver_is_our_limit_not_the_targets_fault() {
        let busy = unresolved(NameError::Busy);
        assert_eq!(
            (busy.fault, busy.cause, busy.side),
            (
                Some(HttpFault::Exhausted),
                Cause::Limit,
                CauseSide::Lockgate
            )
        );
        assert!(
            format!("{busy:?}").contains("too many names are being looked up"),
            "{busy:?}"
        );
        let unknown = unresolved(NameError::Failed("no such name".into()));
        assert_eq!(
            (unknown.fault, unknown.side),
            (Some(HttpFault::TargetUnknown), CauseSide::Upstream)
        );
    }
}
