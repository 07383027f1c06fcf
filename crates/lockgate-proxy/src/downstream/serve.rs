//! One request: whose it is, whether it may, what answers it, and what is said of it afterwards.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use lockgate_http::asked::{Asked, asked};
use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding::{self, Client, Recipient};
use lockgate_http::h1::framing;
use lockgate_http::head::{BodyLength, Method, RequestHead};
use lockgate_http::readings::{readings, without_parameters};
use lockgate_http::target::{self, TargetError};
use lockgate_net::listen::Peer;
use lockgate_net::proxy_protocol::Version as ProxyVersion;
use lockgate_net::socket::Socket;

use super::connection::{Connection, Ending};
use super::http::text_of;
use super::own::{Own, Refusal, pace, secure_target};
use super::seen::Seen;
use crate::access_log::{Cause, Side};
use crate::action::relay::Introduction;
use crate::admit::rate_limit::{Decision, Key};
use crate::admit::verifier::Outcome as Verdict;
use crate::answer::{Advice, Fault};
use crate::clock::Waiting;
use crate::exchange::Exchange;
use crate::h1::Link;
use crate::request_id::RequestId;
use crate::route::{NoRoute, Pattern};
use crate::site::{Action, Auth, By, Fixed, Limited, Route, Sites};
use crate::transform::Values;
use crate::upstream::{Lease, Private};

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
    /// Where it connected to.
    addresses: Option<(SocketAddr, SocketAddr)>,
    /// Requests so far.
    requests: u64,
    /// Its connection to an endpoint that is told of it.
    private: Option<Private>,
}

impl Asking {
    pub(super) fn of(connection: &Connection, socket: &Socket) -> Self {
        let ip = ip_of(connection.client);
        // Whoever may open the socket's file was let in by its permissions.
        let trusted = connection.client == Peer::Unix || (connection.worker.shared.trusted)(ip);
        let addresses = connection.addresses(socket);
        let client = Client::new(text_of(connection.client), connection.negotiated.is_some(), trusted);
        Self { ip, client, addresses, requests: 0, private: None }
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
        let length = match framing::request(head) {
            Ok(length) => length,
            Err(error) => {
                let fault = if error.status() == 501 { Fault::NotImplemented } else { Fault::Malformed };
                return self
                    .decline(down, head, sites, seen, Refusal::because(fault, error.to_string()), false)
                    .await;
            }
        };
        if let Err(error) = down.reader.begin_body(length) {
            let refusal = Refusal::because(Fault::Malformed, error.to_string());
            return self.decline(down, head, sites, seen, refusal, false).await;
        }
        let recipient = match forwarding::count_hop(head) {
            Ok(recipient) => recipient,
            Err(error) => {
                let refusal = Refusal::because(Fault::Malformed, error.to_string());
                return self.decline(down, head, sites, seen, refusal, false).await;
            }
        };
        let last = asking.requests >= sites.requests || self.worker.is_stopping();
        let keep = !last && forwarding::keeps_alive(head.version, &head.fields);
        let asked_first = match asked(head) {
            Ok(asked) => asked,
            Err(error) => {
                let refusal = Refusal::because(Fault::Malformed, error.to_string());
                return self.decline(down, head, sites, seen, refusal, false).await;
            }
        };
        let found = match self.find(sites, head, &asked_first, asking.client.is_trusted(), seen) {
            Ok(found) => found,
            Err(refusal) => {
                // Behind a CONNECT may be what is no HTTP.
                let keep = keep && !matches!(refusal.fault, Fault::Malformed | Fault::NotImplemented);
                return self.decline(down, head, sites, seen, refusal, keep).await;
            }
        };
        let Found { route, pattern } = found;
        seen.route = Some(route);
        if let Err(refusal) = self.admit(route, head, length, seen).await {
            return self.decline(down, head, sites, seen, refusal, keep).await;
        }
        down.reader.allow(route.rules.body_max.unwrap_or(u64::MAX));
        // What rules change of a request may be what they are made of.
        let asked = if route.rules.request_headers.is_empty() {
            asked_first
        } else {
            let host = host(&asked_first, asking.addresses).into_owned();
            self.transform(route, &host, head, seen);
            match asked(head) {
                Ok(asked) => asked,
                Err(error) => {
                    let refusal = Refusal::because(Fault::Malformed, error.to_string());
                    return self.decline(down, head, sites, seen, refusal, false).await;
                }
            }
        };
        let host = host(&asked, asking.addresses);
        let (id, client) = (seen.id, seen.client);
        let secure = self.negotiated.is_some();
        let values = Values {
            path: asked.path,
            query: asked.query,
            host: &host,
            secure,
            method: head.method_name(),
            client,
            id: id.as_bytes(),
        };
        match &route.action {
            Action::Proxy(_) if recipient == Recipient::Us => match head.method {
                Method::Options => {
                    let own = Own { status: 204, location: None, media_type: "", body: b"" };
                    self.own(down, head, sites, route, &values, &own, keep, seen).await
                }
                // RFC 9110 §9.3.8 would have us show the request to whoever sent it, and with it what scripts of a page
                // must not see: we do not trace.
                _ => {
                    let refusal = Refusal::because(Fault::NotImplemented, "TRACE goes no further");
                    self.decline(down, head, sites, seen, refusal, keep).await
                }
            },
            Action::Proxy(proxy) => {
                self.guard.watch().hold_to(pace(route.rules.rates));
                seen.upstream = Some(proxy.upstream);
                let worker = std::rc::Rc::clone(&self.worker);
                let addresses = asking.addresses;
                let introduction = |version| self.introduce(version, addresses);
                let mut exchange = Exchange {
                    worker: &worker,
                    guard: &self.guard,
                    down,
                    private: &mut asking.private,
                    introduction: &introduction,
                    head,
                    asked,
                    length,
                    client: &asking.client,
                    values,
                    pattern,
                    cells: worker.cells.http.site(seen.site.map(|site| sites.sites[site].place)),
                    rules: &route.rules,
                    began: seen.began,
                    keep,
                    outcome: &mut seen.outcome,
                };
                let result = proxy.run(&mut exchange).await;
                self.guard.watch().waits(Waiting::Otherwise);
                seen.received = down.reader.taken();
                let switched = seen.outcome.switched.take();
                let (answered, reusable) = (seen.outcome.status != 0, seen.outcome.reusable);
                match result {
                    Err(failure) if answered => {
                        seen.sent = down.writer.moved();
                        let ending = Ending::because(failure.cause, failure.side, failure.detail.clone());
                        seen.failure = Some(failure);
                        Next::End(ending)
                    }
                    Err(failure) => self.fail(down, head, sites, seen, failure, keep).await,
                    Ok(()) => {
                        seen.sent = down.writer.moved();
                        match switched {
                            Some(lease) => {
                                let site = seen.site.map(|site| sites.sites[site].place);
                                Next::Tunnel { lease, idle: proxy.tunnel_idle, site }
                            }
                            None if reusable => Next::Request,
                            None => Next::Close(Ending::new(Cause::ClientClosed, Side::Lockgate)),
                        }
                    }
                }
            }
            Action::Redirect { to, status } => {
                let mut target = self.worker.blocks.text();
                to.render(&values, &mut target);
                let own = Own { status: *status, location: Some(&target), media_type: "", body: b"" };
                let next = self.own(down, head, sites, route, &values, &own, keep, seen).await;
                self.worker.blocks.take_back(target);
                next
            }
            Action::Secure(port) => {
                let mut target = self.worker.blocks.text();
                secure_target(&values, *port, &mut target);
                let own = Own { status: 308, location: Some(&target), media_type: "", body: b"" };
                let next = self.own(down, head, sites, route, &values, &own, keep, seen).await;
                self.worker.blocks.take_back(target);
                next
            }
            Action::Respond(Fixed { status, body, media_type }) => {
                let mut text = self.worker.blocks.text();
                body.render(&values, &mut text);
                let own = Own { status: *status, location: None, media_type, body: &text };
                let next = self.own(down, head, sites, route, &values, &own, keep, seen).await;
                self.worker.blocks.take_back(text);
                next
            }
        }
    }

    /// Which site's it is, and what that does with it.
    fn find<'s>(
        &self,
        sites: &'s Sites,
        head: &RequestHead,
        asked: &Asked<'_>,
        trusted: bool,
        seen: &mut Seen<'s>,
    ) -> Result<Found<'s>, Refusal<'static>> {
        let malformed = |error: &dyn std::fmt::Display| Refusal::because(Fault::Malformed, error.to_string());
        if head.method == Method::Connect {
            return Err(Refusal::because(Fault::NotImplemented, "CONNECT to a site"));
        }
        let name = asked.authority.as_ref().map(|authority| authority.name());
        let secure = self.negotiated.is_some();
        let Some(site) = sites.router.site(name.as_deref()) else {
            let fault = if secure { Fault::Misdirected } else { Fault::NotFound };
            return Err(Refusal::because(fault, "no site has this host"));
        };
        seen.site = Some(site);
        self.worker.cells.http.site(Some(sites.sites[site].place)).in_flight.inc();
        if secure && sites.sites[site].tls_rules != self.rules {
            return Err(Refusal::because(Fault::Misdirected, "the host has other rules of TLS"));
        }
        // RFC 9110 §7.4: it must have come by TLS, ours or that of a gateway that is trusted.
        if asked.secure == Some(true) && !secure && !trusted {
            return Err(Refusal::because(Fault::Misdirected, "https without TLS"));
        }
        if asked.path == b"*" {
            return Err(Refusal::because(Fault::NotFound, "the server as a whole"));
        }
        let (path, ambiguous) = match target::decode(asked.path) {
            Ok(path) => (merged(path), None),
            Err(TargetError::Ambiguous) => (merged(Cow::Borrowed(asked.path)), Some(TargetError::Ambiguous)),
            Err(error) => return Err(malformed(&error)),
        };
        let found = sites.router.route(site, head.method_name(), &path).map_err(|none| match none {
            NoRoute::Path => Refusal::because(Fault::NotFound, "no route has this path"),
            NoRoute::Method { allow } => Refusal { allow, ..Refusal::of(Fault::MethodNotAllowed) },
        })?;
        let route = &sites.routes[found.route];
        let leads_here = |reading: &[u8]| {
            let read = sites.router.route(site, head.method_name(), reading);
            read.is_ok_and(|read| read.route == found.route)
        };
        match ambiguous {
            Some(error) if !route.rules.raw_paths => Err(malformed(&error)),
            // Also where such paths are let through, no reading may lead to where other rules hold.
            Some(error) if !readings(asked.path).all(|reading| leads_here(&reading)) => {
                Err(malformed(&error))
            }
            // Some take no notice of what follows a semicolon.
            None if memchr::memchr(b';', &path).is_some()
                && !leads_here(&without_parameters(&path))
                && !found.pattern.to_string().contains(';') =>
            {
                Err(malformed(&TargetError::Ambiguous))
            }
            _ => Ok(Found { route, pattern: found.pattern }),
        }
    }

    /// Whether it may.
    async fn admit<'s>(
        &self,
        route: &'s Route,
        head: &RequestHead,
        length: BodyLength,
        seen: &mut Seen<'_>,
    ) -> Result<(), Refusal<'s>> {
        let rules = &route.rules;
        if !rules.networks.admits(seen.client) {
            return Err(Refusal::of(Fault::Forbidden));
        }
        if let Some(limited) = &rules.limit {
            within(limited, head, seen.client, self.guard.clock().nanos())?;
        }
        if let Some(auth) = &rules.auth {
            seen.user = Some(Box::pin(self.authenticate(auth, head, seen.client)).await?);
        }
        match (rules.body_max, length) {
            (Some(most), BodyLength::Known(length)) if length > most => {
                Err(Refusal::of(Fault::ContentTooLarge))
            }
            _ => Ok(()),
        }
    }

    async fn authenticate<'s>(
        &self,
        auth: &'s Auth,
        head: &RequestHead,
        client: IpAddr,
    ) -> Result<std::sync::Arc<str>, Refusal<'s>> {
        let challenge =
            || Refusal { advice: Advice::Challenge(&auth.realm), ..Refusal::of(Fault::Unauthorized) };
        let mut said = head.fields.named(b"authorization");
        let (Some(credentials), None) = (said.next(), said.next()) else { return Err(challenge()) };
        let now = self.guard.clock().now();
        if let Some(user) = auth.checker.cached(credentials, now) {
            return Ok(user);
        }
        match self.guard.within(auth.checker.check(credentials, client, now)).await {
            Ok(Verdict::Accepted(user)) => Ok(user),
            Ok(Verdict::Refused) => Err(challenge()),
            Ok(Verdict::Busy) | Err(_) => Err(Refusal {
                status: Some(503),
                advice: Advice::RetryAfter(1),
                ..Refusal::because(Fault::QueueFull, "passwords to be checked")
            }),
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

/// A route that was found.
struct Found<'s> {
    route: &'s Route,
    pattern: &'s Pattern,
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
fn host<'a>(asked: &Asked<'a>, addresses: Option<(SocketAddr, SocketAddr)>) -> Cow<'a, str> {
    match (&asked.authority, addresses.map(|(_, to)| to.ip().to_canonical())) {
        (Some(authority), _) => authority.name(),
        (None, Some(IpAddr::V4(ip))) => ip.to_string().into(),
        (None, Some(IpAddr::V6(ip))) => format!("[{ip}]").into(),
        (None, None) => "localhost".into(),
    }
}

/// Slashes in a row are one for whoever decides by paths: origins take them so, and "//admin" must not pass by a rule
/// for "/admin/*".
fn merged(path: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if memchr::memmem::find(&path, b"//").is_none() {
        return path;
    }
    let mut merged = path.into_owned();
    merged.dedup_by(|next, before| *next == b'/' && *before == b'/');
    Cow::Owned(merged)
}

fn within<'s>(limited: &'s Limited, head: &RequestHead, client: IpAddr, now: u64) -> Result<(), Refusal<'s>> {
    let key = match &limited.by {
        By::Client => Key::Client(client),
        By::Route => Key::Route,
        By::Field(name) => head.fields.named(name).next().map_or(Key::Client(client), Key::Value),
    };
    match limited.limit.ask(key, now) {
        Decision::Allowed => Ok(()),
        Decision::Refused { retry_after } => Err(Refusal {
            status: Some(limited.status),
            advice: Advice::RetryAfter(u32::try_from(retry_after).unwrap_or(u32::MAX)),
            ..Refusal::of(Fault::TooManyRequests)
        }),
    }
}
