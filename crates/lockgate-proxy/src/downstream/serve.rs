//! One request: whose it is, whether it may, what answers it, and what is said of it afterwards.

mod admit;
mod find;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lockgate_http::asked::{Asked, asked};
use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding::{self, Client, Recipient};
use lockgate_http::h1::framing;
use lockgate_http::head::{Method, RequestHead};
use lockgate_net::listen::Peer;
use lockgate_net::proxy_protocol::Version as ProxyVersion;
use lockgate_net::socket::Socket;

use super::connection::{Connection, Ending};
use super::http::text_of;
use super::own::{Own, Refusal, pace, secure_target};
use super::seen::Seen;
use crate::access_log::{Cause, Side};
use crate::action::relay::Introduction;
use crate::answer::Fault;
use crate::clock::Waiting;
use crate::exchange::{Exchange, Failure};
use crate::h1::Link;
use crate::request_id::RequestId;
use crate::site::{Action, Fixed, Route, Sites};
use crate::transform::Values;
use crate::upstream::{Lease, Private};

use find::Found;

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
        /// The endpoint's connection.
        lease: Lease,
        /// For as long as nothing moves.
        idle: Duration,
        /// Whose it is.
        site: Option<usize>,
    },
}

/// What the exchanges of one connection have in common.
#[derive(Debug)]
pub(super) struct Asking {
    /// The other end, or whom a PROXY header named.
    ip: IpAddr,
    client: Client,
    /// Whence and where to it connected, once that was asked for: a system call that few connections need.
    addresses: OnceCell<Option<(SocketAddr, SocketAddr)>>,
    /// Requests so far.
    requests: u64,
    /// Its connection to an endpoint that is told of it.
    private: Option<Private>,
}

impl Asking {
    pub(super) fn of(connection: &Connection) -> Self {
        let ip = ip_of(connection.client);
        // Whoever may open the socket's file was let in by its permissions.
        let trusted = connection.client == Peer::Unix || (connection.worker.shared.trusted)(ip);
        let client = Client::new(text_of(connection.client), connection.negotiated.is_some(), trusted);
        Self { ip, client, addresses: OnceCell::new(), requests: 0, private: None }
    }

    fn addresses(&self, connection: &Connection, socket: &Socket) -> Option<(SocketAddr, SocketAddr)> {
        *self.addresses.get_or_init(|| connection.addresses(socket))
    }
}

impl Connection {
    /// Answers one request.
    pub(super) async fn respond(
        &mut self,
        down: &mut Link,
        sites: &Sites,
        head: &mut RequestHead,
        asking: &mut Asking,
        began: Instant,
    ) -> Next {
        asking.requests += 1;
        let id = self.request_id(head, asking);
        let mut seen = Seen::new(id, began, client(&head.fields, asking, self));
        let next = self.answer(down, sites, head, asking, &mut seen).await;
        if let Some(site) = seen.site {
            self.worker.cells.http.site(Some(sites.sites[site].place)).in_flight.dec();
        }
        self.note(head, sites, &seen);
        next
    }

    fn request_id(&self, head: &RequestHead, asking: &Asking) -> RequestId {
        let told = asking.client.is_trusted().then(|| head.fields.first(Known::XRequestId)).flatten();
        told.and_then(RequestId::accept)
            .unwrap_or_else(|| self.worker.shared.request_ids.id(self.id, asking.requests))
    }

    async fn answer<'s>(
        &mut self,
        down: &mut Link,
        sites: &'s Sites,
        head: &mut RequestHead,
        asking: &mut Asking,
        seen: &mut Seen<'s>,
    ) -> Next {
        // Until it is certain where this request ends, none can follow it.
        let mut keep = false;
        match self.attend(down, sites, head, asking, seen, &mut keep).await {
            Ok(next) => next,
            Err(refusal) => {
                // Behind what could not be read, or a CONNECT, may be what is no HTTP.
                let keep = keep && refusal.fault != Fault::Malformed && head.method != Method::Connect;
                self.decline(down, head, sites, seen, refusal, keep).await
            }
        }
    }

    /// Answers by what the request's route says; `keep` is whether another may follow it.
    async fn attend<'s>(
        &mut self,
        down: &mut Link,
        sites: &'s Sites,
        head: &mut RequestHead,
        asking: &mut Asking,
        seen: &mut Seen<'s>,
        keep: &mut bool,
    ) -> Result<Next, Refusal<'s>> {
        let length = framing::request(head).map_err(|error| {
            let fault = if error.status() == 501 { Fault::NotImplemented } else { Fault::Malformed };
            Refusal::because(fault, error.to_string())
        })?;
        down.reader.begin_body(length).map_err(|error| Refusal::malformed(&error))?;
        let recipient = forwarding::count_hop(head).map_err(|error| Refusal::malformed(&error))?;
        let last = asking.requests >= sites.requests || self.worker.is_stopping();
        *keep = !last && forwarding::keeps_alive(head.version, &head.fields);
        let first = asked(head).map_err(|error| Refusal::malformed(&error))?;
        let Found { route, pattern } = self.find(sites, head, &first, asking.client.is_trusted(), seen)?;
        seen.route = Some(route);
        self.admit(route, head, length, seen).await?;
        down.reader.allow(route.rules.body_max.unwrap_or(u64::MAX));
        // What rules change of a request may be what they are made of.
        let asked = if route.rules.request_headers.is_empty() {
            first
        } else {
            let host = host(&first, || asking.addresses(self, down.stream.socket())).into_owned();
            self.transform(route, &host, head, seen);
            asked(head).map_err(|error| Refusal::malformed(&error))?
        };
        let host = host(&asked, || asking.addresses(self, down.stream.socket()));
        let (id, client) = (seen.id, seen.client);
        let values = Values {
            path: asked.path,
            query: asked.query,
            host: &host,
            secure: self.negotiated.is_some(),
            method: head.method_name(),
            client,
            id: id.as_bytes(),
        };
        if let (Action::Proxy(proxy), Recipient::Next) = (&route.action, recipient) {
            let worker = Rc::clone(&self.worker);
            let told = worker.upstream(proxy.upstream).pool().settings.proxy_protocol.is_some();
            let addresses = told.then(|| asking.addresses(self, down.stream.socket())).flatten();
            self.guard.watch().hold_to(pace(route.rules.rates));
            seen.upstream = Some(proxy.upstream);
            let result = proxy
                .run(&mut Exchange {
                    worker: &worker,
                    guard: &self.guard,
                    down,
                    private: &mut asking.private,
                    introduction: &|version| self.introduce(version, addresses),
                    head,
                    asked,
                    length,
                    client: &asking.client,
                    values,
                    pattern,
                    cells: worker.cells.http.site(seen.site.map(|site| sites.sites[site].place)),
                    rules: &route.rules,
                    began: seen.began,
                    keep: *keep,
                    outcome: &mut seen.outcome,
                })
                .await;
            return Ok(self.proxied(down, sites, head, seen, proxy.tunnel_idle, result, *keep).await);
        }
        let mut text = self.worker.blocks.text();
        let own = match &route.action {
            Action::Proxy(_) if head.method == Method::Options => Own::of(204),
            // RFC 9110 §9.3.8 would have us show the request to whoever sent it, and with it what scripts of a page must
            // not see: we do not trace.
            Action::Proxy(_) => {
                return Err(Refusal::because(Fault::NotImplemented, "TRACE goes no further"));
            }
            Action::Redirect { to, status } => {
                to.render(&values, &mut text);
                Own { location: Some(&text), ..Own::of(*status) }
            }
            Action::Secure(port) => {
                secure_target(&values, *port, &mut text);
                Own { location: Some(&text), ..Own::of(308) }
            }
            Action::Respond(Fixed { status, body, media_type }) => {
                body.render(&values, &mut text);
                Own { media_type, body: &text, ..Own::of(*status) }
            }
        };
        let next = self.own(down, head, sites, route, &values, &own, *keep, seen).await;
        self.worker.blocks.take_back(text);
        Ok(next)
    }

    /// What follows a request that went to an endpoint.
    #[expect(clippy::too_many_arguments, reason = "all that came of an exchange")]
    async fn proxied(
        &self,
        down: &mut Link,
        sites: &Sites,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        tunnel_idle: Duration,
        result: Result<(), Failure>,
        keep: bool,
    ) -> Next {
        self.guard.watch().waits(Waiting::Otherwise);
        seen.received = down.reader.taken();
        let answered = seen.outcome.status != 0;
        match result {
            Err(failure) if !answered => return self.fail(down, head, sites, seen, failure, keep).await,
            Err(failure) => {
                seen.sent = down.writer.moved();
                let ending = Ending::because(failure.cause, failure.side, failure.detail.clone());
                seen.failure = Some(failure);
                return Next::End(ending);
            }
            Ok(()) => seen.sent = down.writer.moved(),
        }
        match seen.outcome.switched.take() {
            Some(lease) => {
                let site = seen.site.map(|site| sites.sites[site].place);
                Next::Tunnel { lease, idle: tunnel_idle, site }
            }
            None if seen.outcome.reusable => Next::Request,
            None => Next::Close(Ending::new(Cause::ClientClosed, Side::Lockgate)),
        }
    }

    /// What rules change of a request.
    fn transform(&self, route: &Route, host: &str, head: &mut RequestHead, seen: &Seen<'_>) {
        let Ok(asked) = asked(head) else { return };
        let (path, query) = (asked.path.to_vec(), asked.query.map(<[u8]>::to_vec));
        let method = head.method_name().to_vec();
        let values = Values {
            path: &path,
            query: query.as_deref(),
            host,
            secure: self.negotiated.is_some(),
            method: &method,
            client: seen.client,
            id: seen.id.as_bytes(),
        };
        forwarding::detach(&mut head.fields);
        let mut scratch = self.worker.blocks.text();
        route.rules.request_headers.apply(&mut head.fields, &values, &mut scratch);
        self.worker.blocks.take_back(scratch);
    }

    fn introduce(&self, version: ProxyVersion, addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
        let introduction = Introduction {
            version,
            addresses,
            server_name: self.server_name.as_deref(),
            negotiated: self.negotiated.as_deref(),
        };
        let mut header = Vec::new();
        introduction.encode(&mut header);
        header
    }
}

/// The true client: where who asks is trusted, the last that is not in what it says of earlier hops.
fn client(fields: &Fields, asking: &Asking, connection: &Connection) -> IpAddr {
    let mut client = asking.ip;
    if !asking.client.is_trusted() {
        return client;
    }
    let told: Vec<&[u8]> = fields.tokens(Known::XForwardedFor).collect();
    for hop in told.into_iter().rev() {
        let Some(ip) = std::str::from_utf8(hop).ok().and_then(|hop| hop.parse::<IpAddr>().ok()) else {
            break;
        };
        client = ip.to_canonical();
        if !(connection.worker.shared.trusted)(client) {
            break;
        }
    }
    client
}

/// The address of a peer; of one that has none, that of nobody.
pub(super) fn ip_of(peer: Peer) -> IpAddr {
    match peer {
        Peer::Ip(address) => address.ip().to_canonical(),
        Peer::Unix => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// The name for templates. A request without one has come to a site for any host: then it is the address that it came
/// to.
fn host<'a>(asked: &Asked<'a>, addresses: impl FnOnce() -> Option<(SocketAddr, SocketAddr)>) -> Cow<'a, str> {
    if let Some(authority) = &asked.authority {
        return authority.name();
    }
    match addresses().map(|(_, to)| to.ip().to_canonical()) {
        Some(IpAddr::V4(ip)) => ip.to_string().into(),
        Some(IpAddr::V6(ip)) => format!("[{ip}]").into(),
        None => "localhost".into(),
    }
}
