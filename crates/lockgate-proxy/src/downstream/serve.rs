//! One request: whose it is, whether it may, what answers it, and what is said of it afterwards.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use lockgate_http::asked::{Asked, asked};
use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding::{self, Client as Told};
use lockgate_http::h1::{encode, framing};
use lockgate_http::head::{BodyLength, Method, RequestHead, Version};
use lockgate_http::readings::{readings, without_parameters};
use lockgate_http::status::reason;
use lockgate_http::target::{self, TargetError};
use lockgate_net::listen::Peer;
use lockgate_net::proxy_protocol::Version as ProxyVersion;
use lockgate_net::socket::Socket;

use super::connection::{Connection, Ending, address};
use super::http::{Words, text_of};
use crate::access_log::{self, CLIENT_LEFT, Cause, Side};
use crate::action::relay::Introduction;
use crate::admit::rate_limit::{Decision, Key};
use crate::admit::verifier::Outcome as Verdict;
use crate::answer::{Advice, Fault, Form, Pages};
use crate::clock::{Pace, Waiting};
use crate::exchange::{Exchange, Failure, Outcome};
use crate::h1::Link;
use crate::request_id::RequestId;
use crate::route::{NoRoute, Pattern};
use crate::site::{Action, Auth, By, Fixed, Limited, Rates, Route, Sites};
use crate::transform::Values;
use crate::upstream::{Lease, Private};
use crate::worker::unix_millis;

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
    text: String,
    /// Whether it may speak for others.
    trusted: bool,
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
        let text = text_of(connection.client);
        Self { ip, text, trusted, addresses, requests: 0, private: None }
    }
}

/// What is known of a request by the time it is over.
struct Seen<'a> {
    id: RequestId,
    began: Instant,
    client: IpAddr,
    site: Option<usize>,
    route: Option<&'a Route>,
    /// Which of the worker's upstreams it was handed to.
    upstream: Option<usize>,
    user: Option<std::sync::Arc<str>>,
    received: u64,
    sent: u64,
    outcome: Outcome,
    failure: Option<Failure>,
}

impl Seen<'_> {
    fn new(id: RequestId, began: Instant, client: IpAddr) -> Self {
        Self {
            id,
            began,
            client,
            site: None,
            route: None,
            upstream: None,
            user: None,
            received: 0,
            sent: 0,
            outcome: Outcome::default(),
            failure: None,
        }
    }
}

/// A refusal, and what goes with it.
struct Refusal<'a> {
    fault: Fault,
    detail: Cow<'static, str>,
    status: Option<u16>,
    advice: Advice<'a>,
    allow: String,
}

impl Refusal<'_> {
    fn of(fault: Fault) -> Self {
        Self::because(fault, "")
    }

    fn because(fault: Fault, detail: impl Into<Cow<'static, str>>) -> Self {
        let (detail, advice) = (detail.into(), Advice::None);
        Self { fault, detail, status: None, advice, allow: String::new() }
    }
}

impl Connection {
    /// Answers one request.
    pub(super) async fn respond<'s>(
        &mut self,
        down: &mut Link,
        sites: &'s Sites,
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

    /// Notes a request whose head could not be read, and which was answered by `sent` bytes.
    pub(super) fn unread(
        &mut self,
        id: RequestId,
        began: Instant,
        sent: u64,
        failure: Failure,
        sites: &Sites,
    ) {
        let mut seen = Seen::new(id, began, ip_of(self.client));
        seen.sent = sent;
        seen.outcome.status = failure.fault.map_or(CLIENT_LEFT, Fault::status);
        seen.failure = Some(failure);
        self.note(&RequestHead::default(), sites, &seen);
    }

    fn request_id(&self, head: &RequestHead, asking: &Asking) -> RequestId {
        let told = asking.trusted.then(|| head.fields.first(Known::XRequestId)).flatten();
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
        let last = asking.requests >= sites.requests || self.worker.is_stopping();
        let keep = !last && forwarding::keeps_alive(head.version, &head.fields);
        let asked_first = match asked(head) {
            Ok(asked) => asked,
            Err(error) => {
                let refusal = Refusal::because(Fault::Malformed, error.to_string());
                return self.decline(down, head, sites, seen, refusal, false).await;
            }
        };
        let found = match self.find(sites, head, &asked_first, seen) {
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
            let host = host(&asked_first, sites, seen.site).into_owned();
            self.transform(route, &host, head, seen);
            match asked(head) {
                Ok(asked) => asked,
                Err(error) => {
                    let refusal = Refusal::because(Fault::Malformed, error.to_string());
                    return self.decline(down, head, sites, seen, refusal, false).await;
                }
            }
        };
        let host = host(&asked, sites, seen.site);
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
                    client: Told { address: &asking.text, secure, host: asked.host, trusted: asking.trusted },
                    values,
                    pattern,
                    cells: worker.cells.http.site(seen.site.map(|site| sites.sites[site].place)),
                    rules: &route.rules,
                    began: seen.began,
                    keep,
                    outcome: Outcome::default(),
                };
                let result = proxy.run(&mut exchange).await;
                let mut outcome = exchange.outcome;
                self.guard.watch().waits(Waiting::Otherwise);
                seen.received = down.reader.taken();
                let switched = outcome.switched.take();
                let (answered, reusable) = (outcome.status != 0, outcome.reusable);
                seen.outcome = outcome;
                match result {
                    Err(failure) if answered => {
                        seen.sent = down.writer.moved();
                        let ending = Ending::because(failure.cause, failure.side, failure.detail.clone());
                        seen.failure = Some(failure);
                        Next::End(ending)
                    }
                    Err(failure) => self.fail(down, head, sites, seen, failure, keep, proxy.upstream).await,
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

    /// Refuses a request that nothing was done for.
    async fn decline(
        &self,
        down: &mut Link,
        head: &RequestHead,
        sites: &Sites,
        seen: &mut Seen<'_>,
        refusal: Refusal<'_>,
        keep: bool,
    ) -> Next {
        let Refusal { fault, detail, status, advice, allow } = refusal;
        let advice = if allow.is_empty() { advice } else { Advice::Allow(&allow) };
        let id = seen.id;
        let page = pages(sites, seen).and_then(|pages| pages.get(status.unwrap_or(fault.status())));
        let form = Form::of_accept(head.fields.named(b"accept"));
        let words = Words { id: id.as_str(), status, advice, page, form };
        let keep = keep && down.reader.has_ended() && head.version == Version::Http11;
        seen.sent = self.say(down, fault, head.method, &words, keep);
        seen.outcome.status = status.unwrap_or(fault.status());
        let ending = Ending::because(fault.cause(), fault.side(), detail.clone());
        seen.failure = Some(Failure::because(fault, detail));
        self.flush(down, rates(sites, seen), keep, ending).await
    }

    /// Says that no endpoint has answered, if there is somebody to tell.
    async fn fail(
        &self,
        down: &mut Link,
        head: &RequestHead,
        sites: &Sites,
        seen: &mut Seen<'_>,
        failure: Failure,
        keep: bool,
        upstream: usize,
    ) -> Next {
        let ending = Ending::because(failure.cause, failure.side, failure.detail.clone());
        let Some(fault) = failure.fault else {
            seen.failure = Some(failure);
            return Next::End(ending);
        };
        let maintenance = match fault {
            Fault::NoEndpoint => self.worker.upstream(upstream).pool().settings.maintenance.as_ref(),
            _ => None,
        };
        let status = maintenance.map(|(status, _)| *status);
        let page = match maintenance {
            Some((_, page)) => Some(page),
            None => seen.route.and_then(|route| route.rules.pages.get(fault.status())),
        };
        let id = seen.id;
        let form = Form::of_accept(head.fields.named(b"accept"));
        let words = Words { id: id.as_str(), status, advice: Advice::None, page, form };
        let keep = keep && down.reader.has_ended() && head.version == Version::Http11;
        seen.sent = self.say(down, fault, head.method, &words, keep);
        seen.outcome.status = status.unwrap_or(fault.status());
        seen.failure = Some(failure);
        self.flush(down, rates(sites, seen), keep, ending).await
    }

    /// Answers by what the configuration says.
    #[expect(clippy::too_many_arguments, reason = "all that an answer is made of")]
    async fn own(
        &self,
        down: &mut Link,
        head: &RequestHead,
        sites: &Sites,
        route: &Route,
        values: &Values<'_>,
        own: &Own<'_>,
        keep: bool,
        seen: &mut Seen<'_>,
    ) -> Next {
        let keep = keep && down.reader.has_ended();
        let date = self.worker.date();
        let mut fields = Fields::default();
        if let Some(location) = own.location {
            fields.append(b"Location", location);
        }
        if !own.media_type.is_empty() && !own.body.is_empty() {
            fields.append(b"Content-Type", own.media_type.as_bytes());
        }
        let mut scratch = self.worker.blocks.text();
        route.rules.headers.apply(&mut fields, values, &mut scratch);
        self.worker.blocks.take_back(scratch);
        let out = down.writer.head();
        encode::status_line(out, own.status, reason(own.status).as_bytes());
        encode::field(out, b"Date", &date);
        fields.write(out, |_| true);
        if !matches!(own.status, 204 | 304) {
            encode::content_length(out, own.body.len() as u64);
        }
        if !keep {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if head.version == Version::Http10 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        encode::end(out);
        if head.method != Method::Head && !matches!(own.status, 204 | 304) {
            out.extend_from_slice(own.body);
            seen.sent = own.body.len() as u64;
        }
        seen.outcome.status = own.status;
        let ending = Ending::new(Cause::ClientClosed, Side::Lockgate);
        self.flush(down, rates(sites, seen), keep, ending).await
    }

    /// Sends an answer of our own, however long the client takes for it as long as it keeps to its rate.
    async fn flush(&self, down: &mut Link, rates: Rates, keep: bool, ending: Ending) -> Next {
        // What was late so far, the head or an endpoint, is what the answer may be about.
        self.guard.settle();
        let watch = self.guard.watch();
        watch.hold_to(pace(rates));
        watch.waits(Waiting::ForRoom);
        let Link { stream, writer, .. } = down;
        let sent = watch.meter.sent.get() + writer.pending() as u64;
        let flushed = self.guard.within(std::future::poll_fn(|cx| {
            let flushed = writer.poll_flush(cx, stream);
            watch.meter.sent.set(sent - writer.pending() as u64);
            flushed
        }));
        let flushed = flushed.await;
        watch.waits(Waiting::Otherwise);
        match flushed {
            Ok(Ok(())) if keep => Next::Request,
            Ok(Ok(())) => Next::Close(ending),
            Ok(Err(error)) => {
                let failure = Failure::client(&error);
                Next::End(Ending::because(failure.cause, failure.side, failure.detail))
            }
            Err(cut) => Next::End(super::connection::cut_short(cut, "answer")),
        }
    }

    /// Counts an exchange that is over, and writes its line.
    fn note(&mut self, head: &RequestHead, sites: &Sites, seen: &Seen<'_>) {
        self.exchanges += 1;
        let took = seen.began.elapsed();
        let began_at = unix_millis().saturating_sub(took.as_millis() as u64);
        let site = seen.site.map(|site| &sites.sites[site]);
        let cells = self.worker.cells.http.site(site.map(|site| site.place));
        let status = if seen.outcome.status == 0 { CLIENT_LEFT } else { seen.outcome.status };
        if site.is_some() {
            cells.in_flight.dec();
        }
        cells.finished(head.method, status, took);
        cells.received.add(seen.received);
        cells.sent.add(seen.sent);
        if let Some(failure) = &seen.failure {
            cells.failed(failure.cause);
        }
        if status == 101 {
            cells.upgrades.inc();
        }
        let page = (status < 400).then(|| head.target());
        let referer = head.fields.named(b"referer").next();
        self.worker.popular.borrow_mut().record(
            began_at,
            site.map_or("other", |site| site.name.as_str()),
            page,
            referer,
        );
        let Some(log) = &mut *self.worker.log.borrow_mut() else { return };
        let outcome = &seen.outcome;
        let negotiated = self.negotiated.as_deref();
        let asked = asked(head).ok();
        let client = if ip_of(self.client) == seen.client {
            address(self.client)
        } else {
            // Whoever speaks for a client does not say which port it had.
            access_log::Address::Ip(SocketAddr::new(seen.client, 0))
        };
        log.write_exchange(&access_log::Exchange {
            id: seen.id.as_str(),
            began: began_at,
            downstream: access_log::Downstream {
                connection: self.id,
                listener: &self.listener.name,
                client,
                peer: address(self.peer),
                tls: negotiated.map(|agreed| access_log::Tls {
                    version: agreed.version,
                    cipher: agreed.cipher,
                    alpn: agreed.alpn.as_deref(),
                    sni: self.server_name.as_deref(),
                    resumed: agreed.resumed,
                    client_cn: agreed.peer_name.as_deref(),
                }),
            },
            request: access_log::Request {
                method: head.method_name(),
                scheme: if negotiated.is_some() { "https" } else { "http" },
                host: asked.map_or(b"", |asked| asked.host),
                target: head.target(),
                protocol: if head.version == Version::Http11 { "HTTP/1.1" } else { "HTTP/1.0" },
                user: seen.user.as_deref().map(str::as_bytes),
                referer,
                user_agent: head.fields.named(b"user-agent").next(),
            },
            status,
            received: seen.received,
            sent: seen.sent,
            timings: access_log::Timings {
                duration: took,
                wait: outcome.wait,
                connect: outcome.connect,
                first_byte: outcome.first_byte,
                body: outcome.first_byte.map(|first| {
                    let before =
                        first + outcome.wait.unwrap_or_default() + outcome.connect.unwrap_or_default();
                    took.saturating_sub(before)
                }),
            },
            site: site.map(|site| site.name.as_str()),
            route: seen.route.map(|route| route.name.as_str()).filter(|name| !name.is_empty()),
            upstream: seen.upstream.map(|upstream| access_log::Upstream {
                pool: &self.worker.upstream(upstream).pool().settings.name,
                endpoint: outcome.endpoint.as_deref().map(|endpoint| endpoint.label.as_str()),
                reused: outcome.reused,
                retries: outcome.retries,
            }),
            failure: seen.failure.as_ref().map(|failure| access_log::Failure {
                cause: failure.cause,
                side: failure.side,
                detail: Some(failure.detail.as_ref()).filter(|detail| !detail.is_empty()),
            }),
        });
    }
}

/// A route that was found.
struct Found<'s> {
    route: &'s Route,
    pattern: &'s Pattern,
}

/// An answer of the configuration's.
struct Own<'a> {
    status: u16,
    location: Option<&'a [u8]>,
    media_type: &'a str,
    body: &'a [u8],
}

/// The true client: where who asks is trusted, the last that is not in what it says of earlier hops.
fn client(fields: &Fields, asking: &Asking, connection: &Connection) -> IpAddr {
    let mut client = asking.ip;
    if !asking.trusted {
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
fn ip_of(peer: Peer) -> IpAddr {
    match peer {
        Peer::Ip(address) => address.ip().to_canonical(),
        Peer::Unix => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// The pages of the request's route; where it has none, of its site.
fn pages<'s>(sites: &'s Sites, seen: &Seen<'s>) -> Option<&'s Pages> {
    match (seen.route, seen.site) {
        (Some(route), _) => Some(&route.rules.pages),
        (None, site) => site.map(|site| &*sites.sites[site].pages),
    }
}

/// The rates that the client is held to.
fn rates(sites: &Sites, seen: &Seen<'_>) -> Rates {
    seen.route.map_or(sites.rates, |route| route.rules.rates)
}

fn pace(rates: Rates) -> Pace {
    Pace { min_in: rates.min_in, min_out: rates.min_out, grace: rates.grace }
}

/// The name for templates; of a request without one, the site's own.
fn host<'a>(asked: &Asked<'a>, sites: &'a Sites, site: Option<usize>) -> Cow<'a, str> {
    match (&asked.authority, site) {
        (Some(authority), _) => authority.name(),
        (None, Some(site)) => Cow::Borrowed(&sites.sites[site].name),
        (None, None) => Cow::Borrowed(""),
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

/// The same over TLS (RFC 9110 §15.4.9).
fn secure_target(values: &Values<'_>, port: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"https://");
    out.extend_from_slice(values.host.as_bytes());
    if port != 443 {
        out.push(b':');
        out.extend_from_slice(itoa::Buffer::new().format(port).as_bytes());
    }
    out.extend_from_slice(values.path);
    if let Some(query) = values.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
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
