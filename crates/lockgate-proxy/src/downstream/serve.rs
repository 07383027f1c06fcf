//! One request: whose it is, whether it may, what answers it, and what is said of it afterwards.

mod admit;
mod elsewhere;
mod find;
mod forward_auth;
mod verdict;

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use lockgate_http::asked::{Asked, AskedError, asked};
use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarded_for;
use lockgate_http::forwarding::{self, Client};
use lockgate_http::head::{Method, RequestHead, Version};
use lockgate_http::trace::{Sampled, TraceId};
use lockgate_net::listen::Peer;
use lockgate_net::proxy_protocol::Version as ProxyVersion;

use super::connection::{Connection, Ending};
use super::own::{Own, Refusal, secure_target};
use super::seen::Seen;
use crate::action::relay::Introduction;
use crate::answer::Fault;
use crate::body::ReadError;
use crate::boxed::boxed;
use crate::client_address::ClientAddress;
use crate::clock::Guard;
use crate::exchange::{Request, Switched};
use crate::memory;
use crate::message::{Downstream, OutgoingHead, OutgoingRequest};
use crate::metrics::http::SiteCells;
use crate::request_id::RequestId;
use crate::shaping::{Shape, Shaped};
use crate::site::{Action, Auth, Fixed, Route, Sites};
use crate::transform::Values;
use crate::upstream::{Asker, Kept, Wish};

use elsewhere::Elsewhere;
use find::Found;

/// The methods that files have (RFC 9110 §9.1).
const FILES: &str = "GET, HEAD, OPTIONS";
/// The one that opens tunnels.
const TUNNELS: &str = "CONNECT";
/// Those of a proxy that forwards requests as well; any other may be asked for too.
const FORWARDED: &str = "CONNECT, GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";

/// Bytes of a method (RFC 9112 §3: a longer one than any that is implemented is 501); registered
/// ones have up to 17.
const LONGEST_METHOD: usize = 64;
/// Milliseconds between two lines about clients that are not known.
const TOLD_EVERY: u64 = 60_000;
/// Bytes that such a line shows of what was sent.
const LONGEST_HOP: usize = 64;

/// What a client's connection does next.
pub(super) enum Next {
    /// It may bring another request.
    Request,
    /// It is over.
    End(Ending),
    /// It is over once what we said has arrived.
    Close(Ending),
    /// It speaks something else from here on.
    Tunnel {
        /// The other end.
        switched: Box<Switched>,
        /// Whose it is.
        site: Option<usize>,
    },
}

/// What the exchanges of one client's connection have in common.
#[derive(Debug)]
pub(super) struct Asking {
    /// The other end, or whom a PROXY header named.
    address: ClientAddress,
    client: Client,
    /// Whence and where to it connected, once that was asked for: a system call that few
    /// connections need.
    addresses: OnceCell<Option<(SocketAddr, SocketAddr)>>,
    /// Requests so far.
    requests: Cell<u64>,
    /// Its connections to endpoints that are told of it.
    private: Rc<Kept>,
    /// By the rates that it was held to so far: what it has left of them.
    shaped: RefCell<Vec<(Arc<Shape>, Shaped)>>,
}

/// A request's place: its connection, and what it is served by.
#[derive(Clone, Copy)]
pub(super) struct Serving<'s> {
    pub(super) connection: &'s Connection,
    pub(super) sites: &'s Sites,
    pub(super) asking: &'s Asking,
    /// The deadlines of this request.
    pub(super) guard: &'s Guard,
}

impl Asking {
    pub(super) fn of(connection: &Connection) -> Self {
        let address = address_of(connection.client);
        let trusted = match address {
            ClientAddress::Ip(ip) => (connection.worker.shared.trusted)(ip),
            // Whoever may open the socket's file was let in by its permissions.
            ClientAddress::Unix => true,
            ClientAddress::Unknown => false,
        };
        let client = Client::new(
            text_of(connection.client),
            connection.negotiated.is_some(),
            trusted,
        );
        Self {
            address,
            client,
            addresses: OnceCell::new(),
            requests: Cell::new(0),
            private: Rc::default(),
            shaped: RefCell::default(),
        }
    }
}

impl Asking {
    /// Requests so far.
    pub(super) fn count(&self) -> u64 {
        self.requests.get()
    }

    /// Counts one more, and says which it is.
    pub(super) fn begin(&self) -> u64 {
        self.requests.set(self.requests.get() + 1);
        self.requests.get()
    }
}

impl<'s> Serving<'s> {
    /// Whence and where to the client connected.
    pub(super) fn addresses(&self, down: &impl Downstream) -> Option<(SocketAddr, SocketAddr)> {
        *self
            .asking
            .addresses
            .get_or_init(|| self.connection.addresses(|| down.local_address()))
    }

    /// Answers one request.
    pub(super) async fn respond<D: Downstream>(
        self,
        down: &mut D,
        head: &RequestHead,
        began: Instant,
    ) -> Next {
        let number = self.asking.begin();
        let id = self.request_id(head);
        let target = asked(head);
        let mut seen = Seen::new(id, began, self.client(&head.fields));
        (seen.number, seen.trace) = (number, TraceId::of(&head.fields));
        let next = self.answer(down, (head, &target), &mut seen).await;
        if let Some(site) = seen.site {
            self.cells(site).in_flight.dec();
        }
        self.connection
            .note((head, target.as_ref().ok()), self.sites, &seen);
        next
    }

    /// What a site counts.
    fn cells(&self, site: usize) -> &'s SiteCells {
        self.connection
            .worker
            .cells
            .http
            .site(Some(self.sites.sites[site].place))
    }

    fn request_id(&self, head: &RequestHead) -> RequestId {
        let told = self
            .asking
            .client
            .is_trusted()
            .then(|| head.fields.first(Known::XRequestId))
            .flatten();
        let ids = &self.connection.worker.shared.request_ids;
        told.and_then(RequestId::accept)
            .unwrap_or_else(|| ids.id(self.connection.id, self.asking.requests.get()))
    }

    async fn answer<D: Downstream>(
        &self,
        down: &mut D,
        (head, target): (&RequestHead, &Result<Asked<'_>, AskedError>),
        seen: &mut Seen<'s>,
    ) -> Next {
        // Until it is certain where this request ends, none can follow it.
        let mut keep = false;
        match self.attend(down, (head, target), seen, &mut keep).await {
            Ok(next) => next,
            Err(refusal) => {
                // Behind what could not be read, or a CONNECT, may be what is no HTTP.
                let keep =
                    keep && refusal.fault != Fault::Malformed && head.method != Method::Connect;
                self.decline(down, head, seen, refusal, keep).await
            }
        }
    }

    /// Answers by what the request's route says; `keep` is whether another may follow it.
    async fn attend<D: Downstream>(
        &self,
        down: &mut D,
        (head, target): (&RequestHead, &Result<Asked<'_>, AskedError>),
        seen: &mut Seen<'s>,
        keep: &mut bool,
    ) -> Result<Next, Refusal<'s>> {
        let Self {
            connection,
            sites,
            asking,
            guard,
        } = *self;
        let worker = &connection.worker;
        memory::room(guard, |cx| down.settle(cx))
            .await
            .map_err(|_| {
                worker.cells.memory_refused.inc();
                Refusal::because(Fault::Exhausted, "memory")
            })?;
        let length = down.begin_request(head).map_err(|error| match error {
            ReadError::Framing(error) if error.status() == 501 => {
                Refusal::because(Fault::NotImplemented, error.to_string())
            }
            error => Refusal::malformed(&error),
        })?;
        if head.method_name().len() > LONGEST_METHOD {
            return Err(Refusal::because(
                Fault::NotImplemented,
                "the method is too long",
            ));
        }
        let (recipient, hops) =
            forwarding::count_hop(head).map_err(|error| Refusal::malformed(&error))?;
        let last = asking.requests.get() >= sites.requests || worker.is_stopping();
        *keep = !last && forwarding::keeps_alive(head.version, &head.fields);
        if *keep && head.version < Version::Http2 && worker.shared.connections.is_to_give_way() {
            // Another client waits for a place: this one is told that it gets its next answer on a
            // new connection.
            *keep = false;
        }
        let asked = *target.as_ref().map_err(|error| Refusal::malformed(error))?;
        let host = host(&asked, || self.addresses(down));
        let name = asked.authority.is_some().then_some(&*host);
        let Some(Found {
            route,
            pattern,
            preflight,
        }) = self.find(head, (&asked, name), seen)?
        else {
            return Ok(self.alive(down, head, seen, *keep).await);
        };
        seen.route = Some(route);
        // Browsers ask without credentials (Fetch §3.2.2).
        if let Some(cors) = preflight {
            return Ok(self.preflight(down, head, seen, cors, *keep).await);
        }
        self.admit(route, head, length, seen).await?;
        down.allow(route.rules.body_max.unwrap_or(u64::MAX));
        let id = seen.id;
        let values = self.values(&asked, &host, head, seen.client, &id);
        let mut outgoing = OutgoingHead::of(head, asked.host);
        if let Some(hops) = hops {
            forwarding::set_hops(hops, outgoing.change());
        }
        if seen.trace.is_none() {
            if TraceId::is_in_doubt(&head.fields) {
                TraceId::remove(outgoing.change());
            }
            seen.trace = route
                .rules
                .trace
                .map(|share| self.trace(share, &mut outgoing, seen.number));
        }
        if let Some(Auth::Forward(service)) = &route.admission.auth {
            let asking = boxed(|| {
                self.ask_whether(
                    (service, pattern),
                    down,
                    (head, &asked),
                    &mut outgoing,
                    seen,
                    *keep,
                )
            });
            if let Some(next) = asking.await? {
                return Ok(next);
            }
        }
        // As the auth service vouches for it; without one, as it was received.
        let vouched = matches!(route.admission.auth, Some(Auth::Forward(_)));
        let wish = self.wish(
            &route.action,
            seen.client,
            if vouched {
                outgoing.fields()
            } else {
                &head.fields
            },
        );
        self.transform(route, &values, &mut outgoing)?;
        if let Some((to, status)) = find::moved(route, &values) {
            let mut text = worker.blocks.text();
            to.render(&values, &mut text);
            let own = Own {
                location: Some(&text),
                ..Own::of(status)
            };
            let next = self
                .own(down, head, seen, (route, &values), &own, *keep)
                .await;
            worker.blocks.take_back(text);
            return Ok(next);
        }
        if let Some(source) = Elsewhere::of(&route.action, recipient, head.method) {
            let rules = &route.rules;
            let request = Request {
                worker,
                outgoing: OutgoingRequest {
                    received: head,
                    head: &outgoing,
                    target: asked,
                    rewritten: source
                        .rewrites()
                        .then(|| rules.target.rewritten(pattern, &values))
                        .flatten(),
                    length,
                    client: &asking.client,
                    id: values.id,
                    cookies: None,
                },
                values,
                pattern,
                rules,
            };
            return Ok(self
                .ask_elsewhere((source, wish), route, request, down, seen, *keep)
                .await);
        }
        let mut text = worker.blocks.text();
        let own = match &route.action {
            Action::Proxy(_) if head.method == Method::Options => Own::of(204),
            Action::Files(_) if head.method == Method::Options => Own {
                allow: FILES,
                ..Own::of(204)
            },
            Action::Files(_) => {
                return Err(Refusal {
                    allow: FILES.to_owned(),
                    ..Refusal::of(Fault::MethodNotAllowed)
                });
            }
            Action::Connect(connect) => {
                let allow = if connect.forward.is_some() {
                    FORWARDED
                } else {
                    TUNNELS
                }
                .to_owned();
                return Err(Refusal {
                    allow,
                    ..Refusal::of(Fault::MethodNotAllowed)
                });
            }
            // RFC 9110 §9.3.8 would have us show the request to whoever sent it, and with it what
            // scripts of a page must not see: we do not trace.
            Action::Proxy(_) => {
                return Err(Refusal::because(
                    Fault::NotImplemented,
                    "TRACE goes no further",
                ));
            }
            Action::Redirect { to, status } => {
                to.render(&values, &mut text);
                Own {
                    location: Some(&text),
                    ..Own::of(*status)
                }
            }
            Action::Secure(port) => {
                secure_target(&values, *port, &mut text);
                Own {
                    location: Some(&text),
                    ..Own::of(308)
                }
            }
            Action::Respond(Fixed {
                status,
                body,
                media_type,
            }) => {
                body.render(&values, &mut text);
                Own {
                    media_type,
                    body: &text,
                    ..Own::of(*status)
                }
            }
        };
        let next = self
            .own(down, head, seen, (route, &values), &own, *keep)
            .await;
        worker.blocks.take_back(text);
        Ok(next)
    }

    /// What templates may name.
    pub(super) fn values<'a>(
        &self,
        asked: &Asked<'a>,
        host: &'a str,
        head: &'a RequestHead,
        client: ClientAddress,
        id: &'a RequestId,
    ) -> Values<'a> {
        Values {
            path: asked.path,
            query: asked.query,
            host,
            secure: self.connection.negotiated.is_some(),
            method: head.method_name(),
            client,
            id: id.as_bytes(),
        }
    }

    /// Begins a trace with a request, of which `share` in a hundred are to be recorded.
    fn trace(&self, share: u8, outgoing: &mut OutgoingHead<'_>, number: u64) -> TraceId {
        let ids = &self.connection.worker.shared.request_ids;
        let (trace, parent) = (
            ids.trace(self.connection.id, number),
            ids.span(self.connection.id, number),
        );
        // Whoever has the id comes to the same.
        let digits = str::from_utf8(&trace)
            .ok()
            .and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let is_among = digits.is_some_and(|number| number % 100 < u128::from(share));
        let sampled = if is_among { Sampled::Yes } else { Sampled::No };
        TraceId::begin(trace, parent, sampled, outgoing.change())
    }

    /// The endpoint that a request with these fields belongs to, if its pool's balancing ties it to
    /// one.
    fn wish(&self, action: &Action, client: ClientAddress, fields: &Fields) -> Wish {
        let Action::Proxy(proxy) = action else {
            return Wish::Any;
        };
        let pool = self.connection.worker.upstream(proxy.upstream).pool();
        pool.wish(&self.asker(client, fields), self.guard.clock().now())
    }

    /// What is known of the client that sent a request, for the choice of an endpoint.
    fn asker<'f>(&'f self, client: ClientAddress, fields: &'f Fields) -> Asker<'f> {
        Asker {
            client: client.key(),
            server_name: self.connection.server_name.as_deref(),
            session: None,
            fields: Some(fields),
        }
    }

    /// Makes of a request what its endpoint gets, as the route's rules say.
    fn transform(
        &self,
        route: &Route,
        values: &Values<'_>,
        outgoing: &mut OutgoingHead<'_>,
    ) -> Result<(), Refusal<'s>> {
        match route.action {
            Action::Proxy(_) => {}
            Action::Connect(_) if values.method != b"CONNECT" => {}
            // No other sends the request to anywhere.
            _ => return Ok(()),
        }
        let rules = &route.rules.request_headers;
        if !rules.is_empty() {
            let blocks = &self.connection.worker.blocks;
            let mut scratch = blocks.text();
            rules.apply(outgoing.change(), values, &mut scratch);
            blocks.take_back(scratch);
            outgoing
                .check_host()
                .map_err(|error| Refusal::malformed(&error))?;
        }
        if let (Some(rewrite), Action::Proxy(_)) = (&route.rules.rewrite, &route.action) {
            rewrite.ask(values.path, outgoing.change());
        }
        Ok(())
    }

    fn introduce(
        &self,
        version: ProxyVersion,
        addresses: Option<(SocketAddr, SocketAddr)>,
    ) -> Vec<u8> {
        let introduction = Introduction {
            version,
            addresses,
            server_name: self.connection.server_name.as_deref(),
            negotiated: self.connection.negotiated.as_deref(),
        };
        let mut header = Vec::new();
        introduction.encode(&mut header);
        header
    }

    /// The true client: where who asks is trusted, the last that is not in what it says of earlier
    /// hops.
    fn client(&self, fields: &Fields) -> ClientAddress {
        let mut client = self.asking.address;
        // Who asks for a tunnel says what he likes: no proxy between adds to what is meant for
        // targets.
        if !self.asking.client.is_trusted() || self.sites.tunnels {
            return client;
        }
        // An empty element counts: a proxy has added nothing to what its client had sent.
        let lines: Vec<&[u8]> = fields.values(Known::XForwardedFor).collect();
        let hops = lines
            .into_iter()
            .rev()
            .flat_map(|line| line.rsplit(|&byte| byte == b','));
        for hop in hops.map(<[u8]>::trim_ascii) {
            let Some(ip) = forwarded_for::address(hop) else {
                self.connection.unknown_client(hop);
                return ClientAddress::Unknown;
            };
            client = ClientAddress::Ip(ip);
            if !(self.connection.worker.shared.trusted)(ip) {
                break;
            }
        }
        client
    }
}

impl Connection {
    /// Counts a request whose client is not known, and now and then says which proxy has sent it.
    fn unknown_client(&self, hop: &[u8]) {
        self.worker.cells.http.unknown_clients.inc();
        let now = self.worker.clock.now();
        if self
            .worker
            .unknown_client_told
            .get()
            .is_none_or(|last| now >= last + TOLD_EVERY)
        {
            self.worker.unknown_client_told.set(Some(now));
            let hop = hop.get(..LONGEST_HOP).unwrap_or(hop).escape_ascii();
            tracing::warn!(
                proxy = %text_of(self.client), hop = %hop,
                "X-Forwarded-For of a trusted proxy names no address: the client is unknown, and `allow` and `deny` refuse it"
            );
        }
    }
}

/// The address of a peer.
pub(super) fn address_of(peer: Peer) -> ClientAddress {
    match peer {
        Peer::Ip(address) => ClientAddress::Ip(address.ip().to_canonical()),
        Peer::Unix => ClientAddress::Unix,
    }
}

/// The address of a peer as text for endpoints.
fn text_of(peer: Peer) -> String {
    match peer {
        Peer::Ip(address) => address.ip().to_canonical().to_string(),
        Peer::Unix => "unknown".to_owned(),
    }
}

/// The name for templates. A request without one has come to a site for any host: then it is the
/// address that it came to.
pub(super) fn host<'a>(
    asked: &Asked<'a>,
    addresses: impl FnOnce() -> Option<(SocketAddr, SocketAddr)>,
) -> Cow<'a, str> {
    if let Some(authority) = &asked.authority {
        return authority.name();
    }
    match addresses().map(|(_, to)| to.ip().to_canonical()) {
        Some(IpAddr::V4(ip)) => ip.to_string().into(),
        Some(IpAddr::V6(ip)) => format!("[{ip}]").into(),
        None => "localhost".into(),
    }
}
