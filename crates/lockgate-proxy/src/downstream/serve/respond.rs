//! Responses of our own: errors, and those of the configuration. Each consumes its request.

use std::borrow::Cow;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::task::Poll;

use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding;
use lockgate_http::head::{BodyLength, HttpVersion, Method, RequestHead, ResponseHead};
use lockgate_http_io::message::{ClientExchange, Persistence};
use lockgate_limits::clock::{Guard, MinRate, WaitReason};
use lockgate_rules::{Cors, MinRates, RequestValues, Template};

use super::auth_response::AuthResponse;
use super::authorize::Denial;
use super::locate::Routeless;
use super::refusal::Refusal;
use super::{IncomingRequest, NextStep};
use crate::access_log::{Cause, CauseSide};
use crate::downstream::connection::ClientConnection;
use crate::downstream::termination::{Termination, termination_of_cut};
use crate::error_response::{
    Advice, BodyFormat, ErrorPage, ErrorPages, ErrorResponse, HttpFault, grpc,
};
use crate::exchange::ExchangeFailure;
use crate::rules;
use crate::site::{Action, Route};

/// The methods that files have (RFC 9110 §9.1).
const FILES: &str = "GET, HEAD, OPTIONS";
/// The one that opens tunnels.
const TUNNELS: &str = "CONNECT";
/// The methods of a proxy that forwards requests as well; others may be sent too.
const FORWARDED: &str = "CONNECT, GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";

/// The fields of an error that no rule changes: it is not cached as long as the resource, has a
/// type of its own, and its advice belongs to its status.
const ITS_OWN: [&[u8]; 6] = [
    b"Cache-Control",
    b"Content-Type",
    b"WWW-Authenticate",
    b"Proxy-Authenticate",
    b"Allow",
    b"Retry-After",
];

/// The parts of an error response that differ from the usual ones.
#[derive(Debug, Default)]
struct ErrorOverrides<'a> {
    /// The status, where it is not the usual one.
    status: Option<u16>,
    /// The advice to the client.
    advice: Advice<'a>,
    /// The page instead of the built-in one.
    page: Option<&'a ErrorPage>,
    /// The service that has failed.
    of: ErrorOrigin,
}

/// The service that was asked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorOrigin {
    /// The backend of the request.
    #[default]
    Application,
    /// The service that authorizes requests.
    AuthService,
}

impl ErrorOrigin {
    /// The detail of a fault, for the client.
    fn detail(self, fault: HttpFault) -> Cow<'static, str> {
        let detail = fault.detail();
        match (self, detail.strip_prefix("the application ")) {
            (Self::Application, _) => detail.into(),
            (Self::AuthService, Some(what)) => format!("the auth service {what}").into(),
            (Self::AuthService, None) => format!("the auth service: {detail}").into(),
        }
    }
}

/// A response of the configuration.
pub(super) struct LocalResponse<'a> {
    pub(super) status: u16,
    pub(super) location: Option<&'a [u8]>,
    /// For `Allow`; empty for none.
    allow: &'a str,
    media_type: &'a str,
    body: &'a [u8],
}

impl<'a> LocalResponse<'a> {
    /// One that has nothing but its status.
    fn of(status: u16) -> Self {
        Self {
            status,
            location: None,
            allow: "",
            media_type: "",
            body: b"",
        }
    }

    /// A redirect; `location` is memory for its URL.
    fn redirect(
        status: u16,
        to: &Template,
        values: &RequestValues<'_>,
        location: &'a mut Vec<u8>,
    ) -> Self {
        to.render(values, location);
        Self {
            location: Some(location),
            ..Self::of(status)
        }
    }
}

impl<'s, D: ClientExchange> IncomingRequest<'_, 's, D> {
    /// Responds where there is no route.
    pub(super) async fn respond_routeless(self, resource: Routeless<'_>) -> NextStep {
        match resource {
            Routeless::Server => self.respond_alive().await,
            Routeless::Challenge(answer) => self.respond_challenge(&answer).await,
            // Browsers ask without credentials (Fetch §3.2.2).
            Routeless::Preflight(cors) => self.respond_preflight(cors).await,
        }
    }

    /// Refuses a request that nothing was done for.
    pub(super) async fn refuse(mut self, refusal: Refusal<'_>) -> NextStep {
        let Refusal {
            fault,
            detail,
            status,
            advice,
            allow,
        } = refusal;
        let overrides = ErrorOverrides {
            status,
            advice: if allow.is_empty() {
                advice
            } else {
                Advice::Allow(&allow)
            },
            ..ErrorOverrides::default()
        };
        // Behind what could not be read may be what is no HTTP.
        self.persistence = self.persistence.and(fault != HttpFault::Malformed);
        let failure = ExchangeFailure::because(fault, detail);
        self.respond_error(failure, overrides).await
    }

    /// Refuses a request that the auth service has not let in.
    pub(super) async fn deny(self, denial: Denial) -> NextStep {
        match denial {
            Denial::Response(response) => self.respond_with(response).await,
            Denial::Failure(failure) => {
                let detail = format!("the auth service: {}", failure.detail).into();
                let failure = ExchangeFailure { detail, ..failure };
                self.fail(ErrorOrigin::AuthService, failure).await
            }
        }
    }

    /// Responds that no endpoint has, if the client can still get a response.
    pub(super) async fn fail(self, of: ErrorOrigin, failure: ExchangeFailure) -> NextStep {
        let generation = self.generation();
        let upstream = self
            .record
            .upstream
            .filter(|_| failure.fault == Some(HttpFault::NoEndpoint));
        let maintenance = upstream.and_then(|upstream| {
            let (status, page) = generation
                .upstream(upstream)
                .pool()
                .settings
                .maintenance
                .as_ref()?;
            Some(ErrorOverrides {
                status: Some(*status),
                page: Some(page),
                ..ErrorOverrides::default()
            })
        });
        let overrides = ErrorOverrides {
            of,
            ..maintenance.unwrap_or_default()
        };
        self.respond_error(failure, overrides).await
    }

    /// Responds with an error, unless the client can get no response any more.
    async fn respond_error(
        mut self,
        failure: ExchangeFailure,
        overrides: ErrorOverrides<'_>,
    ) -> NextStep {
        let termination = Termination::because(failure.cause, failure.side, failure.detail.clone());
        let fault = failure.fault;
        self.record.failure = Some(failure);
        let Some(fault) = fault else {
            return NextStep::CloseNow(termination);
        };
        let head = self.head;
        let usual = ErrorResponse::of(fault);
        let status = overrides.status.unwrap_or(usual.status);
        let detail = overrides.of.detail(fault);
        let error = ErrorResponse {
            id: self.id.as_str(),
            status,
            advice: overrides.advice,
            detail: &detail,
            ..usual
        };
        let (mut response, body) = if grpc::is_call(head) {
            (error.render_grpc(), Cow::default())
        } else {
            let page = overrides
                .page
                .or_else(|| self.pages().and_then(|pages| pages.get(status)));
            error.render(BodyFormat::of_accept(head.fields.named(b"accept")), page)
        };
        self.apply_response_rules(&mut response.fields);
        self.add_date(&mut response.fields);
        // A script must be able to read what is wrong.
        if let Some(cors) = self.cors() {
            cors.apply(&head.fields, &mut response.fields);
        }
        // Behind a CONNECT may be what is no HTTP.
        let may_follow = head.version >= HttpVersion::Http11 && head.method != Method::Connect;
        self.persistence = self.persistence.and(may_follow);
        self.down.discard();
        self.send(response, &body, termination).await
    }

    /// Applies the route's rules to an error.
    fn apply_response_rules(&self, fields: &mut Fields) {
        let rules = self.record.route.map(|route| &route.rules.headers);
        let Some(rules) = rules.filter(|rules| !rules.is_empty()) else {
            return;
        };
        let Ok(target) = self.target else { return };
        let host = self.host_name(target);
        let values = self.values(target, &host);
        let is_own = |name: &[u8]| ITS_OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
        let own = fields.iter().filter(|field| is_own(field.name));
        let said: Vec<_> = own
            .map(|field| (field.name.to_vec(), field.value.to_vec()))
            .collect();
        rules::apply(rules, fields, &values, &self.worker().blocks);
        fields.retain(|field| !is_own(field.name));
        for (name, value) in said {
            fields.append(&name, &value);
        }
    }

    /// Responds by the route's action, where it has no backend.
    pub(super) async fn respond_by_action(
        self,
        route: &'s Route,
        values: &RequestValues<'_>,
    ) -> NextStep {
        let mut text = Vec::new();
        match local_response(route, self.head.method, values, &mut text) {
            Ok(local) => self.respond_local(route, values, &local).await,
            Err(refusal) => self.refuse(refusal).await,
        }
    }

    /// Sends the client to another address.
    pub(super) async fn respond_redirect(
        self,
        route: &Route,
        values: &RequestValues<'_>,
        to: &Template,
        status: u16,
    ) -> NextStep {
        let mut location = Vec::new();
        let local = LocalResponse::redirect(status, to, values, &mut location);
        self.respond_local(route, values, &local).await
    }

    /// Responds with a response of the configuration.
    async fn respond_local(
        self,
        route: &Route,
        values: &RequestValues<'_>,
        local: &LocalResponse<'_>,
    ) -> NextStep {
        let mut response = ResponseHead::of(local.status);
        let fields = &mut response.fields;
        if let Some(location) = local.location {
            fields.append(b"Location", location);
        }
        if !local.allow.is_empty() {
            fields.append(b"Allow", local.allow.as_bytes());
        }
        if !local.media_type.is_empty() && !local.body.is_empty() {
            fields.append(b"Content-Type", local.media_type.as_bytes());
        }
        let blocks = &self.worker().blocks;
        rules::apply(&route.rules.headers, fields, values, blocks);
        if let Some(cors) = &route.rules.cors {
            cors.apply(&self.head.fields, fields);
        }
        if fields.first(Known::Date).is_none() {
            self.add_date(fields);
        }
        let mut body = local.body;
        if matches!(local.status, 204 | 304) {
            body = b"";
        } else {
            fields.append(
                b"Content-Length",
                itoa::Buffer::new().format(body.len()).as_bytes(),
            );
        }
        self.send(response, body, responded()).await
    }

    /// Hands on the response of the auth service.
    async fn respond_with(self, response: AuthResponse) -> NextStep {
        let AuthResponse { mut head, body, .. } = response;
        // What is added here is ours: no Connection may name it.
        forwarding::remove_connection_fields(&mut head.fields);
        self.apply_response_rules(&mut head.fields);
        if let Some(cors) = self.cors() {
            Cors::clear(&mut head.fields);
            cors.apply(&self.head.fields, &mut head.fields);
        }
        self.send(head, &body, responded()).await
    }

    /// Says whether a page from elsewhere may make another request.
    async fn respond_preflight(self, cors: &Cors) -> NextStep {
        let mut response = cors.preflight(&self.head.fields);
        self.add_date(&mut response.fields);
        self.send(response, b"", responded()).await
    }

    /// Responds to `OPTIONS *`, which is about no resource: a no-op (RFC 9110 §9.3.7). Each path
    /// has its own methods.
    async fn respond_alive(self) -> NextStep {
        let mut response = ResponseHead::of(204);
        self.add_date(&mut response.fields);
        self.send(response, b"", responded()).await
    }

    /// Proves to an authority that the name is ours: the body is the key authorization (RFC 8555
    /// §8.3).
    async fn respond_challenge(self, key_authorization: &str) -> NextStep {
        let mut response = ResponseHead::of(200);
        let body = key_authorization.as_bytes();
        let fields = &mut response.fields;
        fields.append(b"Content-Type", b"application/octet-stream");
        fields.append(
            b"Content-Length",
            itoa::Buffer::new().format(body.len()).as_bytes(),
        );
        self.add_date(&mut response.fields);
        self.send(response, body, responded()).await
    }

    /// Sends a response of our own, however long the client takes for it as long as it keeps to its
    /// rate.
    async fn send(self, response: ResponseHead, body: &[u8], termination: Termination) -> NextStep {
        let guard = self.context.guard;
        // What a client still sends when it has a response is not waited for.
        let is_draining = guard.watch().is_draining();
        let persistence = self
            .persistence
            .and(self.down.is_complete() && !is_draining);
        let (mut response, mut body) = (response, body);
        if grpc::is_call(self.head) {
            if grpc::status(&response.fields).is_none() {
                (response, body) = (grpc::translate(&response), b"");
            }
            self.record.outcome.grpc_status = grpc::status(&response.fields);
        }
        if self.head.method == Method::Head {
            body = b"";
        }
        self.record.outcome.status = response.status;
        self.record.sent = body.len() as u64;
        // What was late so far, the head or an endpoint, is what the response may be about.
        guard.end_phase();
        guard.watch().hold_to(min_rate(self.rates()));
        let whole = WholeResponse {
            head: &response,
            body,
            persistence,
        };
        match whole.send(self.down, guard, self.head).await {
            Ok(()) if persistence.is_kept() => NextStep::Request,
            Ok(()) => NextStep::Linger(termination),
            Err(termination) => NextStep::CloseNow(termination),
        }
    }

    fn add_date(&self, fields: &mut Fields) {
        fields.append(b"Date", &self.worker().date());
    }

    fn cors(&self) -> Option<&'s Cors> {
        self.record.route?.rules.cors.as_deref()
    }

    /// The pages of the request's route; where it has none, of its site.
    fn pages(&self) -> Option<&'s ErrorPages> {
        let site = |site| &*self.context.sites.site(site).pages;
        match self.record.route {
            Some(route) => Some(&route.rules.pages),
            None => self.record.site.map(site),
        }
    }

    /// The rates that the client is held to.
    fn rates(&self) -> MinRates {
        let route = self.record.route;
        route.map_or(self.context.sites.rates, |route| route.rules.rates)
    }
}

/// The response of a route's action that has no backend for this method; `text` is memory for a part
/// of it.
pub(super) fn local_response<'a>(
    route: &'a Route,
    method: Method,
    values: &RequestValues<'_>,
    text: &'a mut Vec<u8>,
) -> Result<LocalResponse<'a>, Refusal<'static>> {
    let is_options = method == Method::Options;
    Ok(match &route.action {
        Action::Proxy(_) if is_options => LocalResponse::of(204),
        Action::Files(_) if is_options => LocalResponse {
            allow: FILES,
            ..LocalResponse::of(204)
        },
        Action::Files(_) => return Err(Refusal::method_not_allowed(FILES)),
        Action::Connect(connect) => {
            let allow = match connect.forward {
                Some(_) => FORWARDED,
                None => TUNNELS,
            };
            return Err(Refusal::method_not_allowed(allow));
        }
        // RFC 9110 §9.3.8 would have us show the request to its sender, and with it what scripts of
        // a page must not see: we do not trace.
        Action::Proxy(_) => {
            let why = "TRACE is not forwarded";
            return Err(Refusal::because(HttpFault::NotImplemented, why));
        }
        Action::Redirect { to, status } => LocalResponse::redirect(*status, to, values, text),
        Action::Secure(port) => {
            secure_target(values, *port, text);
            LocalResponse {
                location: Some(text),
                ..LocalResponse::of(308)
            }
        }
        Action::Respond(fixed) => {
            fixed.body.render(values, text);
            LocalResponse {
                media_type: &fixed.media_type,
                body: text,
                ..LocalResponse::of(fixed.status)
            }
        }
    })
}

/// The termination of a connection after its last response.
fn responded() -> Termination {
    Termination::new(Cause::ClientClosed, CauseSide::Lockgate)
}

/// A response with its whole body.
struct WholeResponse<'a> {
    head: &'a ResponseHead,
    body: &'a [u8],
    persistence: Persistence,
}

impl WholeResponse<'_> {
    /// Sends it, under the phase of `guard`.
    async fn send<D: ClientExchange>(
        self,
        down: &mut D,
        guard: &Guard,
        request: &RequestHead,
    ) -> Result<(), Termination> {
        let Self {
            head,
            body,
            persistence,
        } = self;
        let watch = guard.watch();
        watch.set_wait(WaitReason::ForRoom);
        let length = if body.is_empty() {
            BodyLength::Empty
        } else {
            BodyLength::Known(body.len() as u64)
        };
        down.respond(request, head, length, persistence);
        let before = watch.meter.sent.get();
        let mut sent = 0;
        let delivered = guard.within(poll_fn(|cx| {
            while !down.is_finished() {
                let Poll::Ready(taken) = down.poll_write(cx, &body[sent..], true) else {
                    // Other streams of the connection may be what it waits for.
                    watch.set_wait(if down.is_blocked() {
                        WaitReason::ForRoom
                    } else {
                        WaitReason::Nothing
                    });
                    return Poll::Pending;
                };
                sent += taken?;
                watch.meter.sent.set(before + sent as u64);
            }
            watch.set_wait(WaitReason::ForRoom);
            down.poll_flush(cx)
        }));
        let delivered = delivered.await;
        watch.set_wait(WaitReason::Nothing);
        match delivered {
            Ok(delivered) => {
                delivered.map_err(|error| Termination::of(ExchangeFailure::client(&error)))
            }
            Err(cut) => Err(termination_of_cut(cut, "answer")),
        }
    }
}

impl ClientConnection {
    /// Sends an error for a request that could not be read; returns the length of its body.
    pub(in crate::downstream) async fn send_error<D: ClientExchange>(
        &self,
        down: &mut D,
        guard: &Guard,
        request: &RequestHead,
        error: &ErrorResponse<'_>,
        persistence: Persistence,
    ) -> u64 {
        let (mut head, body) = error.render(BodyFormat::default(), None);
        head.fields.append(b"Date", &self.worker.date());
        let body = if request.method == Method::Head {
            &[][..]
        } else {
            &body
        };
        let whole = WholeResponse {
            head: &head,
            body,
            persistence,
        };
        // Whether it arrives or not, the connection or the stream is over.
        let _ = whole.send(down, guard, request).await;
        body.len() as u64
    }
}

/// The rates as the clock holds a client to them.
pub(in crate::downstream) fn min_rate(rates: MinRates) -> MinRate {
    MinRate {
        min_in: rates.min_in.and_then(NonZeroU64::new),
        min_out: rates.min_out.and_then(NonZeroU64::new),
        grace: rates.grace.into(),
    }
}

/// The same over TLS (RFC 9110 §15.4.9).
fn secure_target(values: &RequestValues<'_>, port: u16, out: &mut Vec<u8>) {
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
