//! Answers of our own: what the configuration says, and what is said where nothing else can be.

use std::borrow::Cow;

use lockgate_http::fields::{Fields, Known};
use lockgate_http::h1::encode;
use lockgate_http::head::{Method, RequestHead, Version};
use lockgate_http::status::reason;

use super::connection::{Connection, Ending};
use super::http::Words;
use super::seen::Seen;
use super::serve::Next;
use crate::access_log::{Cause, Side};
use crate::answer::{Advice, Fault, Form, Pages};
use crate::clock::{Pace, Waiting};
use crate::exchange::Failure;
use crate::h1::Link;
use crate::site::{Rates, Route, Sites};
use crate::transform::Values;

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
        Self { fault, detail, status: None, advice, allow: String::new() }
    }
}

/// An answer of the configuration's.
pub(super) struct Own<'a> {
    pub(super) status: u16,
    pub(super) location: Option<&'a [u8]>,
    pub(super) media_type: &'a str,
    pub(super) body: &'a [u8],
}

impl Own<'_> {
    /// One that has nothing but its status.
    pub(super) fn of(status: u16) -> Self {
        Self { status, location: None, media_type: "", body: b"" }
    }
}

impl Connection {
    /// Refuses a request that nothing was done for.
    pub(super) async fn decline(
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
        let words = Words { status, advice, ..Words::default() };
        self.tell(down, head, sites, seen, Failure::because(fault, detail), words, keep).await
    }

    /// Says that no endpoint has answered, if there is somebody to tell.
    pub(super) async fn fail(
        &self,
        down: &mut Link,
        head: &RequestHead,
        sites: &Sites,
        seen: &mut Seen<'_>,
        failure: Failure,
        keep: bool,
    ) -> Next {
        let upstream = seen.upstream.filter(|_| failure.fault == Some(Fault::NoEndpoint));
        let maintenance = upstream.and_then(|upstream| {
            let (status, page) = self.worker.upstream(upstream).pool().settings.maintenance.as_ref()?;
            Some(Words { status: Some(*status), page: Some(page), ..Words::default() })
        });
        self.tell(down, head, sites, seen, failure, maintenance.unwrap_or_default(), keep).await
    }

    /// Answers by an error, unless there is nobody to tell; `words` have what is not usual about it.
    #[expect(clippy::too_many_arguments, reason = "all that is known of a failed exchange")]
    async fn tell(
        &self,
        down: &mut Link,
        head: &RequestHead,
        sites: &Sites,
        seen: &mut Seen<'_>,
        failure: Failure,
        words: Words<'_>,
        keep: bool,
    ) -> Next {
        let ending = Ending::because(failure.cause, failure.side, failure.detail.clone());
        let fault = failure.fault;
        seen.failure = Some(failure);
        let Some(fault) = fault else { return Next::End(ending) };
        let id = seen.id;
        let status = words.status.unwrap_or(fault.status());
        let page = words.page.or_else(|| pages(sites, seen)?.get(status));
        let form = Form::of_accept(head.fields.named(b"accept"));
        let keep = self.stays(down, keep) && head.version == Version::Http11;
        seen.sent = self.say(down, fault, head.method, &Words { id: id.as_str(), page, form, ..words }, keep);
        seen.outcome.status = status;
        self.flush(down, rates(sites, seen), keep, ending).await
    }

    /// Whether another request may follow the answer. What a client still sends when it has one is not waited for.
    fn stays(&self, down: &Link, keep: bool) -> bool {
        keep && down.reader.has_ended() && !self.worker.is_stopping()
    }

    /// Answers by what the configuration says.
    #[expect(clippy::too_many_arguments, reason = "all that an answer is made of")]
    pub(super) async fn own(
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
        let keep = self.stays(down, keep);
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
        if fields.first(Known::Date).is_none() {
            encode::field(out, b"Date", &self.worker.date());
        }
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
    pub(super) async fn flush(&self, down: &mut Link, rates: Rates, keep: bool, ending: Ending) -> Next {
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
    Pace { min_in: rates.min_in, min_out: rates.min_out, grace: rates.grace }
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
