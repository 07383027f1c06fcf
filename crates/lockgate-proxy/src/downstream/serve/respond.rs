//! Responses of our own: errors, and what the configuration says. Each consumes its exchange.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::ready;

use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding;
use lockgate_http::head::{BodyLength, HttpVersion, Method, RequestHead, ResponseHead};
use lockgate_rules::{Cors, MinRates, Template, RequestValues};

use super::auth_response::AuthResponse;
use super::authorize::Denial;
use super::refusal::Refusal;
use super::{Exchange, NextStep};
use crate::access_log::{Cause, Side};
use crate::answer::{Advice, ErrorAnswer, Fault, Form, Page, Pages, grpc};
use crate::clock::{Guard, MinRate, WaitReason, millis};
use crate::downstream::ending::{Ending, cut_short};
use crate::exchange::ExchangeFailure;
use crate::message::{ClientExchange, Persistence};
use crate::site::{Action, Route};

/// The methods that files have (RFC 9110 §9.1).
const FILES: &str = "GET, HEAD, OPTIONS";
/// The one that opens tunnels.
const TUNNELS: &str = "CONNECT";
/// Those of a proxy that forwards requests as well; any other may be asked for too.
const FORWARDED: &str = "CONNECT, GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";

/// What an error says of itself whatever the rules are: it is not kept as long as what was asked
/// for, has a type of its own, and what a client is to do belongs to its status.
const ITS_OWN: [&[u8]; 6] = [
    b"Cache-Control",
    b"Content-Type",
    b"WWW-Authenticate",
    b"Proxy-Authenticate",
    b"Allow",
    b"Retry-After",
];

/// What goes beside an answer that we give ourselves.
#[derive(Debug, Default)]
struct ErrorOverrides<'a> {
    /// The status, where it is not the usual one.
    status: Option<u16>,
    /// What the client is asked to do.
    advice: Advice<'a>,
    /// What is shown instead of our own page.
    page: Option<&'a Page>,
    /// Who has failed, where it is somebody else's failure.
    of: Answerer,
}

/// Who was asked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answerer {
    /// What answers the request.
    #[default]
    Application,
    /// The service that says whether the request may.
    AuthService,
}

impl Answerer {
    /// What the client is told of a fault.
    fn detail(self, fault: Fault) -> Cow<'static, str> {
        let detail = fault.detail();
        match (self, detail.strip_prefix("the application ")) {
            (Self::Application, _) => detail.into(),
            (Self::AuthService, Some(what)) => format!("the auth service {what}").into(),
            (Self::AuthService, None) => format!("the auth service: {detail}").into(),
        }
    }
}

/// A response that the configuration says.
struct LocalResponse<'a> {
    status: u16,
    location: Option<&'a [u8]>,
    /// For `Allow`; empty for none.
    allow: &'a str,
    media_type: &'a str,
    body: &'a [u8],
}

impl LocalResponse<'_> {
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
}

impl<'s, D: ClientExchange> Exchange<'_, 's, D> {
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
        self.persistence = self.persistence.and(fault != Fault::Malformed);
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
                self.fail((Answerer::AuthService, failure)).await
            }
        }
    }

    /// Says that no endpoint has answered, if the client can still be told.
    pub(super) async fn fail(self, (of, failure): (Answerer, ExchangeFailure)) -> NextStep {
        let worker = &self.serving.connection.worker;
        let upstream = self
            .record
            .upstream
            .filter(|_| failure.fault == Some(Fault::NoEndpoint));
        let maintenance = upstream.and_then(|upstream| {
            let (status, page) = worker
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

    /// Answers by an error, unless the client can be told nothing any more.
    async fn respond_error(
        mut self,
        failure: ExchangeFailure,
        overrides: ErrorOverrides<'_>,
    ) -> NextStep {
        let ending = Ending::because(failure.cause, failure.side, failure.detail.clone());
        let fault = failure.fault;
        self.record.failure = Some(failure);
        let Some(fault) = fault else {
            return NextStep::End(ending);
        };
        let (id, head) = (self.record.id, self.head);
        let usual = ErrorAnswer::of(fault);
        let status = overrides.status.unwrap_or(usual.status);
        let detail = overrides.of.detail(fault);
        let error = ErrorAnswer {
            id: id.as_str(),
            status,
            advice: overrides.advice,
            detail: &detail,
            ..usual
        };
        let (mut response, body) = if grpc::is_call(head) {
            (error.make_grpc(), Cow::default())
        } else {
            let page = overrides
                .page
                .or_else(|| self.pages().and_then(|pages| pages.get(status)));
            error.make(Form::of_accept(head.fields.named(b"accept")), page)
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
        self.send(response, &body, ending).await
    }

    /// What the route's rules change of an error.
    fn apply_response_rules(&self, fields: &mut Fields) {
        let rules = self.record.route.map(|route| &route.rules.headers);
        let Some(rules) = rules.filter(|rules| !rules.is_empty()) else {
            return;
        };
        let Ok(target) = self.target else { return };
        let (host, id) = (self.host(target), self.record.id);
        let values = self.values(target, &host, &id);
        let is_own = |name: &[u8]| ITS_OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
        let own = fields.iter().filter(|field| is_own(field.name));
        let said: Vec<_> = own
            .map(|field| (field.name.to_vec(), field.value.to_vec()))
            .collect();
        let blocks = &self.serving.connection.worker.blocks;
        let mut scratch = blocks.text();
        rules.apply(fields, &values, &mut scratch);
        blocks.take_back(scratch);
        fields.retain(|field| !is_own(field.name));
        for (name, value) in said {
            fields.append(&name, &value);
        }
    }

    /// Answers by what the route's action says, where no backend does.
    pub(super) async fn respond_by_action(self, route: &'s Route, values: &RequestValues<'_>) -> NextStep {
        let is_options = self.head.method == Method::Options;
        let mut text = Vec::new();
        let local = match &route.action {
            Action::Proxy(_) if is_options => LocalResponse::of(204),
            Action::Files(_) if is_options => LocalResponse {
                allow: FILES,
                ..LocalResponse::of(204)
            },
            Action::Files(_) => return self.refuse(Refusal::method_not_allowed(FILES)).await,
            Action::Connect(connect) => {
                let allow = match connect.forward {
                    Some(_) => FORWARDED,
                    None => TUNNELS,
                };
                return self.refuse(Refusal::method_not_allowed(allow)).await;
            }
            // RFC 9110 §9.3.8 would have us show the request to its sender, and with it what
            // scripts of a page must not see: we do not trace.
            Action::Proxy(_) => {
                let refusal = Refusal::because(Fault::NotImplemented, "TRACE is not forwarded");
                return self.refuse(refusal).await;
            }
            Action::Redirect { to, status } => {
                return self.respond_redirect(route, values, to, *status).await;
            }
            Action::Secure(port) => {
                secure_target(values, *port, &mut text);
                LocalResponse {
                    location: Some(&text),
                    ..LocalResponse::of(308)
                }
            }
            Action::Respond(fixed) => {
                fixed.body.render(values, &mut text);
                LocalResponse {
                    media_type: &fixed.media_type,
                    body: &text,
                    ..LocalResponse::of(fixed.status)
                }
            }
        };
        self.respond_local(route, values, &local).await
    }

    /// Sends the client to another place.
    pub(super) async fn respond_redirect(
        self,
        route: &Route,
        values: &RequestValues<'_>,
        to: &Template,
        status: u16,
    ) -> NextStep {
        let mut location = Vec::new();
        to.render(values, &mut location);
        let local = LocalResponse {
            location: Some(&location),
            ..LocalResponse::of(status)
        };
        self.respond_local(route, values, &local).await
    }

    /// Answers by what the configuration says.
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
        let blocks = &self.serving.connection.worker.blocks;
        let mut scratch = blocks.text();
        route.rules.headers.apply(fields, values, &mut scratch);
        blocks.take_back(scratch);
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
        self.send(response, body, answered()).await
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
        self.send(head, &body, answered()).await
    }

    /// Says whether a page from elsewhere may make another request.
    pub(super) async fn respond_preflight(self, cors: &Cors) -> NextStep {
        let mut response = cors.preflight(&self.head.fields);
        self.add_date(&mut response.fields);
        self.send(response, b"", answered()).await
    }

    /// Answers `OPTIONS *`, which is about no resource: a no-op (RFC 9110 §9.3.7). Which methods
    /// there are, each path says.
    pub(super) async fn respond_alive(self) -> NextStep {
        let mut response = ResponseHead::of(204);
        self.add_date(&mut response.fields);
        self.send(response, b"", answered()).await
    }

    /// Sends a response of our own, however long the client takes for it as long as it keeps to its
    /// rate.
    async fn send(self, response: ResponseHead, body: &[u8], ending: Ending) -> NextStep {
        let guard = self.serving.guard;
        // What a client still sends when it has a response is not waited for.
        let is_stopping = self.serving.connection.worker.is_stopping();
        let persistence = self
            .persistence
            .and(self.down.is_complete() && !is_stopping);
        let (mut response, mut body) = (response, body);
        if grpc::is_call(self.head) {
            if grpc::status(&response.fields).is_none() {
                (response, body) = (grpc::instead_of(&response), b"");
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
        match deliver(self.down, guard, self.head, &response, body, persistence).await {
            Ok(()) if persistence.is_kept() => NextStep::Request,
            Ok(()) => NextStep::Close(ending),
            Err(ending) => NextStep::End(ending),
        }
    }

    fn add_date(&self, fields: &mut Fields) {
        fields.append(b"Date", &self.serving.connection.worker.date());
    }

    fn cors(&self) -> Option<&'s Cors> {
        self.record.route?.rules.cors.as_ref()
    }

    /// The pages of the request's route; where it has none, of its site.
    fn pages(&self) -> Option<&'s Pages> {
        let site = |site: usize| &*self.serving.sites.sites[site].pages;
        match self.record.route {
            Some(route) => Some(&route.rules.pages),
            None => self.record.site.map(site),
        }
    }

    /// The rates that the client is held to.
    fn rates(&self) -> MinRates {
        let route = self.record.route;
        route.map_or(self.serving.sites.rates, |route| route.rules.rates)
    }
}

/// How a connection ends whose last request was answered.
fn answered() -> Ending {
    Ending::new(Cause::ClientClosed, Side::Lockgate)
}

/// Sends a whole response.
pub(in crate::downstream) async fn deliver<D: ClientExchange>(
    down: &mut D,
    guard: &Guard,
    head: &RequestHead,
    response: &ResponseHead,
    body: &[u8],
    persistence: Persistence,
) -> Result<(), Ending> {
    let watch = guard.watch();
    watch.set_wait(WaitReason::ForRoom);
    let length = if body.is_empty() {
        BodyLength::Empty
    } else {
        BodyLength::Known(body.len() as u64)
    };
    down.respond(head, response, length, persistence);
    let before = watch.meter.sent.get();
    let mut sent = 0;
    let delivered = guard.within(poll_fn(|cx| {
        while !down.is_finished() {
            sent += ready!(down.poll_write(cx, &body[sent..], true))?;
            watch.meter.sent.set(before + sent as u64);
        }
        down.poll_flush(cx)
    }));
    let delivered = delivered.await;
    watch.set_wait(WaitReason::Otherwise);
    match delivered {
        Ok(delivered) => delivered.map_err(|error| Ending::of(ExchangeFailure::client(&error))),
        Err(cut) => Err(cut_short(cut, "answer")),
    }
}

/// The rates as the clock holds a client to them.
pub(in crate::downstream) fn min_rate(rates: MinRates) -> MinRate {
    MinRate {
        min_in: rates.min_in,
        min_out: rates.min_out,
        grace: millis(rates.grace),
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
