//! One request of a client, from its head to its line in the log: locate, admit, authorize,
//! dispatch, respond.
//!
//! An [`IncomingRequest`] is consumed by its response: answering twice, or going on with a request
//! that was answered, does not compile. It is handed on as a few references, in async blocks: async
//! functions would store their arguments twice in each waiting request. What few requests await is
//! boxed, so that the others have no room for it.

mod admission;
mod auth_response;
mod authorize;
mod dispatch;
pub mod explain;
mod locate;
mod outgoing;
mod refusal;
mod respond;
mod traces;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use lockgate_http::fields::Known;
use lockgate_http::forwarding::{self, Recipient};
use lockgate_http::head::{BodyLength, HttpVersion, RequestHead};
use lockgate_http::request_target::{RequestTarget, RequestTargetError};
use lockgate_http::trace::TraceId;
use lockgate_http_io::body::ReadError;
use lockgate_http_io::message::{ClientExchange, OutgoingHead, Persistence};
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::Guard;
use lockgate_limits::memory;
use lockgate_rules::RequestValues;

use super::ListenerSnapshot;
use super::client_context::ClientContext;
use super::connection::ClientConnection;
use super::exchange_record::{ExchangeRecord, ReadRequest};
use super::termination::Termination;
use crate::error_response::HttpFault;
use crate::exchange::SwitchedConnection;
use crate::generation::Generation;
use crate::metrics::SharedCells;
use crate::metrics::http::SiteCells;
use crate::request_id::RequestId;
use crate::route::ListenerSiteIndex;
use crate::site::{Auth, ListenerSites};
use crate::worker::Worker;

use admission::check_length;
use dispatch::{Backend, DispatchRequest};
use locate::{Located, LocatedRoute};
use refusal::Refusal;
use respond::ErrorOrigin;

pub(super) use respond::min_rate;

/// Bytes of a method (RFC 9112 §3: a longer one than any that is implemented is 501); registered
/// ones have up to 17.
const LONGEST_METHOD: usize = 64;

/// The next step of a client's connection.
pub(super) enum NextStep {
    /// The connection may bring another request.
    Request,
    /// The connection is closed at once: the client has gone, or would take a part of a response
    /// for the whole.
    CloseNow(Termination),
    /// The connection is closed once the client has taken our last bytes: until then the rest that
    /// it sends is read.
    Linger(Termination),
    /// The connection becomes a tunnel.
    Tunnel {
        /// The other end.
        switched: Box<SwitchedConnection>,
        /// The counters of its site.
        cells: SharedCells<SiteCells>,
    },
}

/// The context of the requests of one connection.
#[derive(Clone, Copy)]
pub(super) struct ServeContext<'s> {
    pub(super) connection: &'s ClientConnection,
    /// The listener in the configuration that the request has begun in.
    pub(super) snapshot: &'s ListenerSnapshot,
    pub(super) sites: &'s ListenerSites,
    pub(super) client: &'s ClientContext,
    /// The deadlines of this request.
    pub(super) guard: &'s Guard,
}

/// A request without its response.
struct IncomingRequest<'e, 's, D> {
    context: &'e ServeContext<'s>,
    id: &'e RequestId,
    /// The head as it was received.
    head: &'e RequestHead,
    /// The target of the request, if it can be read.
    target: &'e Result<RequestTarget<'e>, RequestTargetError>,
    /// The client's side: the body comes from it, and the response goes to it.
    down: &'e mut D,
    /// The record for the log and the counters.
    record: &'e mut ExchangeRecord<'s>,
    /// Whether another request may follow. Until it is certain where this one ends, none can.
    persistence: Persistence,
}

/// The results of [`IncomingRequest::receive`].
struct Received {
    length: BodyLength,
    recipient: Recipient,
    /// The Max-Forwards that the next hop gets, if it gets one.
    hops: Option<u64>,
}

impl<'s> ServeContext<'s> {
    /// The client's address and the one that it has connected to.
    fn addresses(&self, down: &impl ClientExchange) -> Option<(SocketAddr, SocketAddr)> {
        self.client
            .addresses(|| self.connection.addresses(|| down.local_address()))
    }

    /// Answers one request.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function keeps room for its arguments twice"
    )]
    pub(super) fn respond<D: ClientExchange>(
        self,
        down: &mut D,
        head: &RequestHead,
        began: Instant,
    ) -> impl Future<Output = NextStep> {
        async move {
            let number = self.client.begin();
            let address = self
                .client
                .address_of(self.connection, self.snapshot, &head.fields);
            let id = self.request_id(head);
            let mut record = ExchangeRecord::new(began, address);
            (record.number, record.trace) = (number, TraceId::of(&head.fields));
            if let Some(share) = self.snapshot.generation.rules.spans {
                self.begin_spans(share, head, &mut record);
            }
            let traces = &self.connection.worker.shared.traces;
            if traces.are_open()
                && let Some(token) = head.fields.only(Known::LockgateTrace)
            {
                let claimed = traces.claim(token, self.guard.clock().now());
                record.followed = claimed.map(Box::new);
            }
            let target = RequestTarget::of(head);
            let incoming = IncomingRequest {
                context: &self,
                id: &id,
                head,
                target: &target,
                down,
                record: &mut record,
                persistence: Persistence::Close,
            };
            let next = incoming.handle().await;
            if let Some(site) = record.site {
                self.cells(site).in_flight.dec();
            }
            let request = ReadRequest {
                id: &id,
                head,
                target: target.as_ref().ok(),
            };
            self.connection
                .finish_exchange(&request, self.snapshot, &mut record);
            next
        }
    }

    /// The counters of a site.
    fn cells(&self, site: ListenerSiteIndex) -> &'s SiteCells {
        let index = self.sites.site(site).index;
        self.snapshot.generation.cells.http.site(Some(index))
    }

    fn request_id(&self, head: &RequestHead) -> RequestId {
        let told = self
            .client
            .is_trusted(&self.snapshot.generation)
            .then(|| head.fields.first(Known::XRequestId))
            .flatten();
        let ids = &self.connection.worker.shared.request_ids;
        told.and_then(RequestId::accept)
            .unwrap_or_else(|| ids.id(self.connection.id, self.client.request_count()))
    }
}

/// The recipient of a request by its method and Max-Forwards, and the Max-Forwards that the next hop
/// gets, if it gets one.
fn recipient_of<'s>(head: &RequestHead) -> Result<(Recipient, Option<u64>), Refusal<'s>> {
    if head.method_name().len() > LONGEST_METHOD {
        let why = "the method is too long";
        return Err(Refusal::because(HttpFault::NotImplemented, why));
    }
    forwarding::decrement_max_forwards(head).map_err(|error| Refusal::malformed(&error))
}

/// The name of the host, for templates; `address` is the one that the client connected to.
fn host_name<'a>(
    target: &RequestTarget<'a>,
    address: impl FnOnce() -> Option<IpAddr>,
) -> Cow<'a, str> {
    if let Some(authority) = &target.authority {
        return authority.name();
    }
    match address().map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(ip)) => ip.to_string().into(),
        Some(IpAddr::V6(ip)) => format!("[{ip}]").into(),
        None => "localhost".into(),
    }
}

impl<'s, D> IncomingRequest<'_, 's, D> {
    /// The generation that it has begun in.
    fn generation(&self) -> &'s Generation {
        &self.context.snapshot.generation
    }

    /// The worker that serves the connection.
    fn worker(&self) -> &'s Rc<Worker> {
        &self.context.connection.worker
    }
}

impl<'e, 's, D: ClientExchange> IncomingRequest<'e, 's, D> {
    /// Brings the request to its response: finds its route, admits it, has it authorized, and
    /// dispatches it.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function keeps room for its arguments twice"
    )]
    fn handle(mut self) -> impl Future<Output = NextStep> {
        async move {
            if memory::is_exhausted()
                && let Err(refusal) = boxed(|| self.wait_for_memory()).await
            {
                return boxed(|| self.refuse(refusal)).await;
            }
            let received = match self.receive() {
                Ok(received) => received,
                Err(refusal) => return boxed(|| self.refuse(refusal)).await,
            };
            let LocatedRoute {
                target,
                index: _,
                route,
                pattern,
            } = match self.locate() {
                Ok(Located::Route(route)) => route,
                Ok(Located::Routeless(resource)) => {
                    return boxed(|| self.respond_routeless(resource)).await;
                }
                Err(refusal) => return boxed(|| self.refuse(refusal)).await,
            };
            self.record.route = Some(route);
            if let Err(refusal) = self.admit(route) {
                return boxed(|| self.refuse(refusal)).await;
            }
            if let Some(Auth::Basic(auth)) = &route.admission.auth {
                match boxed(|| self.authenticate(auth)).await {
                    Ok(user) => self.record.user = Some(user),
                    Err(refusal) => return boxed(|| self.refuse(refusal)).await,
                }
            }
            if let Err(refusal) = check_length(route, received.length) {
                return boxed(|| self.refuse(refusal)).await;
            }
            self.down
                .limit_body(route.rules.body_max.unwrap_or(u64::MAX));
            let host = self.host_name(target);
            let values = self.values(target, &host);
            let mut outgoing = OutgoingHead::of(self.head, target.host);
            if let Some(hops) = received.hops {
                forwarding::set_max_forwards(hops, outgoing.change());
            }
            self.begin_trace(route, &mut outgoing);
            let mut is_authorized = false;
            if let Some(Auth::Forward(service)) = &route.admission.auth {
                let denied = boxed(|| self.authorize(service, pattern, target, &mut outgoing));
                if let Err(denial) = denied.await {
                    return boxed(|| self.deny(denial)).await;
                }
                is_authorized = true;
            }
            // As the auth service vouches for it; without one, as it was received.
            let vouched = if is_authorized {
                outgoing.fields()
            } else {
                &self.head.fields
            };
            let preference = self.preference(&route.action, vouched);
            if let Err(refusal) = self.apply_request_rules(route, &values, &mut outgoing) {
                return boxed(|| self.refuse(refusal)).await;
            }
            if let Some((to, status)) = locate::redirect_of(route, &values) {
                return boxed(|| self.respond_redirect(route, &values, to, status)).await;
            }
            let backend = Backend::of(&route.action, received.recipient, self.head.method);
            let Some(backend) = backend else {
                return boxed(|| self.respond_by_action(route, &values)).await;
            };
            let request = DispatchRequest {
                backend,
                preference,
                target,
                outgoing: &outgoing,
                values: &values,
                route,
                pattern,
                length: received.length,
            };
            let failure = match self.dispatch(&request).await {
                Ok(next) => return next,
                Err(failure) => failure,
            };
            boxed(|| self.fail(ErrorOrigin::Application, failure)).await
        }
    }

    /// Waits until there is memory for the request.
    async fn wait_for_memory(&mut self) -> Result<(), Refusal<'s>> {
        let guard = self.context.guard;
        let room = memory::wait_for_memory(guard, |cx| self.down.release_memory(cx)).await;
        room.map_err(|_| {
            self.worker().cells.memory_refused.inc();
            Refusal::because(HttpFault::Exhausted, "memory")
        })
    }

    /// Begins the request's body.
    fn receive(&mut self) -> Result<Received, Refusal<'s>> {
        let ServeContext {
            connection,
            sites,
            client,
            guard,
            ..
        } = *self.context;
        let (worker, head) = (&connection.worker, self.head);
        let length = self.down.begin_request(head).map_err(|error| match error {
            ReadError::Framing(error) => Refusal::of_framing(error),
            error => Refusal::malformed(&error),
        })?;
        let (recipient, hops) = recipient_of(head)?;
        let last = client.request_count() >= sites.max_requests || guard.watch().is_draining();
        // Another client waits for a permit: this one gets its next response on a new connection.
        let gives_way =
            head.version < HttpVersion::Http2 && worker.shared.connections.is_to_give_way();
        let keeps_alive = forwarding::keeps_alive(head.version, &head.fields);
        self.persistence = Persistence::when(keeps_alive && !last && !gives_way);
        Ok(Received {
            length,
            recipient,
            hops,
        })
    }

    /// The name of the host, for templates. A request without one is for a site with any host: then
    /// it is the address that the client connected to.
    fn host_name<'a>(&self, target: &RequestTarget<'a>) -> Cow<'a, str> {
        let address = || self.context.addresses(self.down).map(|(_, to)| to.ip());
        host_name(target, address)
    }

    /// The values of a template's placeholders.
    fn values<'a>(&self, target: &RequestTarget<'a>, host: &'a str) -> RequestValues<'a>
    where
        'e: 'a,
    {
        RequestValues {
            path: target.path,
            query: target.query,
            host,
            secure: self.context.connection.negotiated.is_some(),
            method: self.head.method_name(),
            client: self.record.client,
            id: self.id.as_bytes(),
        }
    }
}
