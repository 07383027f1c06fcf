//! Answers of our own: errors, and what the configuration says.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::ready;

use lockgate_http::asked::asked;
use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding;
use lockgate_http::head::{BodyLength, Method, RequestHead, ResponseHead, Version};

use super::connection::{Ending, cut_short};
use super::seen::Seen;
use super::serve::{Next, Serving, host};
use crate::access_log::{Cause, Side};
use crate::answer::{Advice, ErrorAnswer, Fault, Form, Page, Pages, grpc};
use crate::clock::{Guard, Pace, Waiting};
use crate::exchange::Failure;
use crate::message::Downstream;
use crate::rules::Rates;
use crate::site::{Route, Sites};
use crate::transform::{Cors, Values};

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
struct Words<'a> {
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

/// A refusal, and what goes with it.
pub(super) struct Refusal<'a> {
    pub(super) fault: Fault,
    /// For the log.
    pub(super) detail: Cow<'static, str>,
    /// Where it is not the fault's own.
    pub(super) status: Option<u16>,
    pub(super) advice: Advice<'a>,
    /// Methods for [`Advice::Allow`], which are put together only when there is somebody to tell.
    pub(super) allow: String,
}

impl Refusal<'_> {
    pub(super) fn of(fault: Fault) -> Self {
        Self::because(fault, "")
    }

    /// What cannot be read in one way.
    pub(super) fn malformed(error: &dyn std::fmt::Display) -> Self {
        Self::because(Fault::Malformed, error.to_string())
    }

    pub(super) fn because(fault: Fault, detail: impl Into<Cow<'static, str>>) -> Self {
        let (detail, advice) = (detail.into(), Advice::None);
        Self {
            fault,
            detail,
            status: None,
            advice,
            allow: String::new(),
        }
    }
}

/// An answer of the configuration's.
pub(super) struct Own<'a> {
    pub(super) status: u16,
    pub(super) location: Option<&'a [u8]>,
    /// For `Allow`; empty for none.
    pub(super) allow: &'a str,
    pub(super) media_type: &'a str,
    pub(super) body: &'a [u8],
}

impl Own<'_> {
    /// One that has nothing but its status.
    pub(super) fn of(status: u16) -> Self {
        Self {
            status,
            location: None,
            allow: "",
            media_type: "",
            body: b"",
        }
    }
}

impl Serving<'_> {
    /// Refuses a request that nothing was done for.
    pub(super) async fn decline<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        refusal: Refusal<'_>,
        keep: bool,
    ) -> Next {
        let Refusal {
            fault,
            detail,
            status,
            advice,
            allow,
        } = refusal;
        let advice = if allow.is_empty() {
            advice
        } else {
            Advice::Allow(&allow)
        };
        let words = Words {
            status,
            advice,
            ..Words::default()
        };
        self.tell(
            down,
            head,
            seen,
            Failure::because(fault, detail),
            words,
            keep,
        )
        .await
    }

    /// Says that no endpoint has answered, if there is somebody to tell.
    pub(super) async fn fail<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        (of, failure): (Answerer, Failure),
        keep: bool,
    ) -> Next {
        let upstream = seen
            .upstream
            .filter(|_| failure.fault == Some(Fault::NoEndpoint));
        let maintenance = upstream.and_then(|upstream| {
            let pool = self.connection.worker.upstream(upstream).pool();
            let (status, page) = pool.settings.maintenance.as_ref()?;
            Some(Words {
                status: Some(*status),
                page: Some(page),
                ..Words::default()
            })
        });
        let words = Words {
            of,
            ..maintenance.unwrap_or_default()
        };
        self.tell(down, head, seen, failure, words, keep).await
    }

    /// Answers by an error, unless there is nobody to tell; `words` have what is not usual about
    /// it.
    async fn tell<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        failure: Failure,
        words: Words<'_>,
        keep: bool,
    ) -> Next {
        let ending = Ending::because(failure.cause, failure.side, failure.detail.clone());
        let fault = failure.fault;
        seen.failure = Some(failure);
        let Some(fault) = fault else {
            return Next::End(ending);
        };
        let id = seen.id;
        let usual = ErrorAnswer::of(fault);
        let status = words.status.unwrap_or(usual.status);
        let detail = words.of.detail(fault);
        let error = ErrorAnswer {
            id: id.as_str(),
            status,
            advice: words.advice,
            detail: &detail,
            ..usual
        };
        let (mut answer, body) = if grpc::is_call(head) {
            (error.make_grpc(), Cow::default())
        } else {
            let page = words.page.or_else(|| pages(self.sites, seen)?.get(status));
            error.make(Form::of_accept(head.fields.named(b"accept")), page)
        };
        self.rule(down, head, seen, &mut answer.fields);
        answer
            .fields
            .append(b"Date", &self.connection.worker.date());
        // A script must be able to read what is wrong.
        if let Some(cors) = seen.route.and_then(|route| route.rules.cors.as_ref()) {
            cors.apply(&head.fields, &mut answer.fields);
        }
        let keep = keep && head.version >= Version::Http11;
        down.discard();
        self.send(down, head, seen, answer, &body, keep, ending)
            .await
    }

    /// What the route's rules change of an error.
    fn rule<D: Downstream>(
        &self,
        down: &D,
        head: &RequestHead,
        seen: &Seen<'_>,
        fields: &mut Fields,
    ) {
        let Some(rules) = seen
            .route
            .map(|route| &route.rules.headers)
            .filter(|rules| !rules.is_empty())
        else {
            return;
        };
        let Ok(asked) = asked(head) else { return };
        let host = host(&asked, || self.addresses(down));
        let values = self.values(&asked, &host, head, seen.client, &seen.id);
        let is_own = |name: &[u8]| ITS_OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
        let own = fields.iter().filter(|field| is_own(field.name));
        let said: Vec<_> = own
            .map(|field| (field.name.to_vec(), field.value.to_vec()))
            .collect();
        let worker = &self.connection.worker;
        let mut scratch = worker.blocks.text();
        rules.apply(fields, &values, &mut scratch);
        worker.blocks.take_back(scratch);
        fields.retain(|field| !is_own(field.name));
        for (name, value) in said {
            fields.append(&name, &value);
        }
    }

    /// Answers by what the configuration says.
    pub(super) async fn own<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        (route, values): (&Route, &Values<'_>),
        own: &Own<'_>,
        keep: bool,
    ) -> Next {
        let mut answer = ResponseHead::of(own.status);
        let fields = &mut answer.fields;
        if let Some(location) = own.location {
            fields.append(b"Location", location);
        }
        if !own.allow.is_empty() {
            fields.append(b"Allow", own.allow.as_bytes());
        }
        if !own.media_type.is_empty() && !own.body.is_empty() {
            fields.append(b"Content-Type", own.media_type.as_bytes());
        }
        let worker = &self.connection.worker;
        let mut scratch = worker.blocks.text();
        route.rules.headers.apply(fields, values, &mut scratch);
        worker.blocks.take_back(scratch);
        if let Some(cors) = &route.rules.cors {
            cors.apply(&head.fields, fields);
        }
        if fields.first(Known::Date).is_none() {
            fields.append(b"Date", &worker.date());
        }
        let mut body = own.body;
        if matches!(own.status, 204 | 304) {
            body = b"";
        } else {
            fields.append(
                b"Content-Length",
                itoa::Buffer::new().format(body.len()).as_bytes(),
            );
        }
        let ending = Ending::new(Cause::ClientClosed, Side::Lockgate);
        self.send(down, head, seen, answer, body, keep, ending)
            .await
    }

    /// Hands on the answer of whoever was asked in the route's place, which is there whole.
    pub(super) async fn given<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        mut answer: ResponseHead,
        body: &[u8],
        keep: bool,
    ) -> Next {
        // What is added here is ours: no Connection may name it.
        forwarding::detach(&mut answer.fields);
        self.rule(down, head, seen, &mut answer.fields);
        if let Some(cors) = seen.route.and_then(|route| route.rules.cors.as_ref()) {
            Cors::clear(&mut answer.fields);
            cors.apply(&head.fields, &mut answer.fields);
        }
        let ending = Ending::new(Cause::ClientClosed, Side::Lockgate);
        self.send(down, head, seen, answer, body, keep, ending)
            .await
    }

    /// Says whether a page from elsewhere may ask.
    pub(super) async fn preflight<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        cors: &Cors,
        keep: bool,
    ) -> Next {
        let mut answer = cors.preflight(&head.fields);
        answer
            .fields
            .append(b"Date", &self.connection.worker.date());
        let ending = Ending::new(Cause::ClientClosed, Side::Lockgate);
        self.send(down, head, seen, answer, b"", keep, ending).await
    }

    /// Answers `OPTIONS *`, which is about no resource: a no-op (RFC 9110 §9.3.7). Which methods
    /// there are, each path says.
    pub(super) async fn alive<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        keep: bool,
    ) -> Next {
        let mut answer = ResponseHead::of(204);
        answer
            .fields
            .append(b"Date", &self.connection.worker.date());
        let ending = Ending::new(Cause::ClientClosed, Side::Lockgate);
        self.send(down, head, seen, answer, b"", keep, ending).await
    }

    /// Sends an answer of our own, however long the client takes for it as long as it keeps to its
    /// rate.
    #[expect(
        clippy::too_many_arguments,
        reason = "the request, the answer, and what follows it"
    )]
    async fn send<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        answer: ResponseHead,
        body: &[u8],
        keep: bool,
        ending: Ending,
    ) -> Next {
        // What a client still sends when it has an answer is not waited for.
        let keep = keep && down.is_over() && !self.connection.worker.is_stopping();
        let (mut answer, mut body) = (answer, body);
        if grpc::is_call(head) {
            if grpc::status(&answer.fields).is_none() {
                (answer, body) = (grpc::instead_of(&answer), b"");
            }
            seen.outcome.grpc_status = grpc::status(&answer.fields);
        }
        let body = if head.method == Method::Head {
            b""
        } else {
            body
        };
        seen.outcome.status = answer.status;
        seen.sent = body.len() as u64;
        // What was late so far, the head or an endpoint, is what the answer may be about.
        self.guard.settle();
        self.guard.watch().hold_to(pace(rates(self.sites, seen)));
        match deliver(down, self.guard, head, &answer, body, keep).await {
            Ok(()) if keep => Next::Request,
            Ok(()) => Next::Close(ending),
            Err(ending) => Next::End(ending),
        }
    }
}

/// Sends a whole answer.
pub(super) async fn deliver<D: Downstream>(
    down: &mut D,
    guard: &Guard,
    head: &RequestHead,
    answer: &ResponseHead,
    body: &[u8],
    keep: bool,
) -> Result<(), Ending> {
    let watch = guard.watch();
    watch.waits(Waiting::ForRoom);
    let length = if body.is_empty() {
        BodyLength::Empty
    } else {
        BodyLength::Known(body.len() as u64)
    };
    down.respond(head, answer, length, keep);
    let before = watch.meter.sent.get();
    let mut sent = 0;
    let delivered = guard.within(poll_fn(|cx| {
        while !down.is_taken() {
            sent += ready!(down.poll_take(cx, &body[sent..], true))?;
            watch.meter.sent.set(before + sent as u64);
        }
        down.poll_flush(cx)
    }));
    let delivered = delivered.await;
    watch.waits(Waiting::Otherwise);
    match delivered {
        Ok(delivered) => delivered.map_err(|error| Ending::of(Failure::client(&error))),
        Err(cut) => Err(cut_short(cut, "answer")),
    }
}

/// The pages of the request's route; where it has none, of its site.
pub(super) fn pages<'s>(sites: &'s Sites, seen: &Seen<'s>) -> Option<&'s Pages> {
    match (seen.route, seen.site) {
        (Some(route), _) => Some(&route.rules.pages),
        (None, site) => site.map(|site| &*sites.sites[site].pages),
    }
}

/// The rates that the client is held to.
pub(super) fn rates(sites: &Sites, seen: &Seen<'_>) -> Rates {
    seen.route.map_or(sites.rates, |route| route.rules.rates)
}

pub(super) fn pace(rates: Rates) -> Pace {
    Pace {
        min_in: rates.min_in,
        min_out: rates.min_out,
        grace: rates.grace,
    }
}

/// The same over TLS (RFC 9110 §15.4.9).
pub(super) fn secure_target(values: &Values<'_>, port: u16, out: &mut Vec<u8>) {
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
