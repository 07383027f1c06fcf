//! An endpoint's answer on its way to the client.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::Duration;

use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding;
use lockgate_http::head::{BodyLength, HttpVersion, Method, ResponseHead};
use lockgate_http::target::{self, Authority};
use lockgate_net::memory::{self, Charge, MemoryKind, MemoryLevel};
use lockgate_rules::Cors;

use super::Proxy;
use super::ask::is_end;
use super::replay::Replay;
use super::upload::{self, Upload};
use crate::access_log::{Cause, Side};
use crate::answer::{Fault, grpc};
use crate::body::{BodyReader, BodyWriter, ReadError};
use crate::box_future::boxed;
use crate::clock::WaitReason;
use crate::exchange::{Dispatch, ExchangeFailure, RoutedRequest, SwitchedConnection};
use crate::h1;
use crate::message::ClientExchange;
use crate::pump::{PumpError, poll_pump};
use crate::rules::Rules;
use crate::shaping::ShapedBody;
use crate::transform::body::{Stage, Transformation};
use crate::transform::{Origin, Public};
use crate::upstream::{Lease, Preference, UpstreamConnection};

/// How long what is left of a request's body may stand still, once its answer has been delivered.
const REST: Duration = Duration::from_secs(30);

impl Proxy {
    /// Hands the answer on.
    pub(super) async fn answer<D: ClientExchange>(
        &self,
        exchange: &mut Dispatch<'_, D>,
        mut lease: Lease,
        replay: &mut Replay,
        answer: &mut ResponseHead,
    ) -> Result<(), ExchangeFailure> {
        if answer.status == 101 {
            stick(exchange, &lease, answer);
            return boxed(|| switch(exchange, lease, answer, self.tunnel_idle)).await;
        }
        let length = lease
            .link
            .begin_response(exchange.request.received().method, answer);
        let length = length
            .map_err(|error| ExchangeFailure::because(Fault::BadResponse, error.to_string()))?;
        let stays = forwarding::keeps_alive(answer.version, &answer.fields)
            && length != BodyLength::UntilClose;
        let kept = stays
            && (exchange.outcome.awaited || exchange.request.outgoing.length == BodyLength::Empty);
        // What is done to the body decides what is said of its length.
        let mut transformation = transformed(&exchange.request, answer, length);
        let native = transformation
            .as_ref()
            .map_or(0, Transformation::native_bytes);
        let _native = (native > 0).then(|| Charge::new(MemoryKind::Coding, native));
        let length = if transformation.is_some() {
            BodyLength::Chunked
        } else {
            length
        };
        let onward = match length {
            BodyLength::Chunked | BodyLength::UntilClose
                if exchange.request.received().version >= HttpVersion::Http11 =>
            {
                BodyLength::Chunked
            }
            BodyLength::Chunked => BodyLength::UntilClose,
            length => length,
        };
        let mut uploading = !lease.link.is_finished();
        // RFC 9112 §9.6: an endpoint that closes after its answer has heard enough. One that stays
        // may have answered before it reads the rest, and gets it, unless the client was
        // told to wait and was never asked for it.
        let expects = exchange
            .request
            .outgoing
            .head
            .fields()
            .first(Known::Expect)
            .is_some();
        let wanted = uploading
            && stays
            && (!expects || exchange.outcome.awaited || exchange.down.bytes_read() > 0);
        let persistence = exchange.persistence.and(
            onward != BodyLength::UntilClose
                && (exchange.down.is_complete() || wanted)
                // Since the request came, the end may have begun.
                && !exchange.request.worker.is_stopping(),
        );
        transform(&exchange.request, &lease, answer);
        stick(exchange, &lease, answer);
        exchange
            .down
            .respond(exchange.request.received(), answer, onward, persistence);
        exchange.outcome.status = answer.status;
        exchange.outcome.grpc_status = grpc_status(&lease, &answer.fields);
        let (guard, rules) = (exchange.guard, exchange.request.rules);
        self.whole
            .map_or_else(|| guard.end_phase(), |whole| guard.phase(whole));
        let (down, up) = (&mut *exchange.down, &mut lease.link);
        let (mut received, mut sent) = match &mut exchange.shapers {
            Some(shapers) => (shapers.received.as_mut(), shapers.sent.as_mut()),
            None => (None, None),
        };
        let before = guard.watch().meter.sent.get();
        let mut delivering = true;
        // What of the body has gone since the answer was all there.
        let mut moved = None;
        // An answer has begun: there is no other attempt, but this one may not have sent again all
        // that was taken.
        replay.settle();
        let exchanged = guard.within(poll_fn(|cx| {
            if uploading {
                match upload::poll(cx, guard, rules, down, up, replay, received.as_deref_mut()) {
                    Poll::Ready(Err(Upload::Client(failure))) if delivering => {
                        return Poll::Ready(Err(failure));
                    }
                    // An origin that answers may have heard enough.
                    Poll::Ready(_) => uploading = false,
                    Poll::Pending => {}
                }
            }
            if delivering {
                let meter = &guard.watch().meter;
                let pumped = match (&mut transformation, sent.as_deref_mut()) {
                    (None, None) => poll_pump(cx, up, down, &rules.headers, |_| {}),
                    (None, Some(shaper)) => poll_pump(
                        cx,
                        &mut ShapedBody::new(up, shaper, meter),
                        down,
                        &rules.headers,
                        |_| {},
                    ),
                    (Some(transformation), None) => {
                        poll_pump(cx, &mut transformation.of(up), down, &rules.headers, |_| {})
                    }
                    (Some(transformation), Some(shaper)) => {
                        let mut changed = transformation.of(up);
                        let mut changed = ShapedBody::new(&mut changed, shaper, meter);
                        poll_pump(cx, &mut changed, down, &rules.headers, |_| {})
                    }
                };
                guard.watch().meter.sent.set(before + down.bytes_written());
                if pumped.is_pending() && down.is_blocked() {
                    guard.watch().set_wait(WaitReason::ForRoom);
                } else if !uploading {
                    guard.watch().set_wait(WaitReason::Otherwise);
                }
                // Events may come hours apart: nothing is written that would tell.
                if pumped.is_pending() && down.poll_gone(cx).is_ready() {
                    let failure = ExchangeFailure::silent(
                        Cause::ClientReset,
                        Side::Downstream,
                        "during the response",
                    );
                    return Poll::Ready(Err(failure));
                }
                ready!(pumped).map_err(|fault| match fault {
                    PumpError::Source(error) => truncated(&error),
                    PumpError::Sink(error) => ExchangeFailure::client(&error),
                })?;
                delivering = false;
            }
            // Nobody is owed anything any more: who does not move is not waited for long.
            if uploading
                && wanted
                && up.poll_broken(cx).is_pending()
                && down.poll_gone(cx).is_pending()
            {
                if moved.replace(up.bytes_written()) != Some(up.bytes_written()) {
                    guard.phase(REST);
                }
                return Poll::Pending;
            }
            Poll::Ready(Ok(()))
        }));
        let exchanged = exchanged.await;
        if let Some(encoder) = transformation.and_then(Transformation::into_encoder) {
            exchange
                .request
                .worker
                .encoders
                .borrow_mut()
                .give_back(encoder);
        }
        let delivered = match exchanged {
            Ok(delivered) => delivered,
            Err(cut) if delivering => Err(ExchangeFailure::cut(cut, Fault::ResponseTimeout)),
            // The client has its answer, and takes too long to say the rest.
            Err(_) => Ok(()),
        };
        if let Err(failure) = delivered {
            if failure.side == Side::Upstream {
                // What has come is delivered, and its end is not: the client must not take it for
                // the whole.
                guard.watch().set_wait(WaitReason::ForRoom);
                let _ = guard
                    .within(poll_fn(|cx| exchange.down.poll_drained(cx)))
                    .await;
            }
            // Where the close is the end of the body (RFC 9112 §8) only a reset says that it is
            // not. And the kernel holds megabytes for who takes nothing: with a reset
            // they are gone, after a close they stay until it gives up.
            let slow = failure.cause == Cause::TooSlow && failure.side == Side::Downstream;
            if onward == BodyLength::UntilClose || slow {
                exchange.down.abort();
            }
            return Err(failure);
        }
        if let Some(trailers) = lease.link.trailers() {
            let told = exchange.outcome.grpc_status;
            exchange.outcome.grpc_status = told.or_else(|| grpc_status(&lease, trailers));
        }
        exchange.outcome.reusable = persistence.is_kept() && exchange.down.is_complete();
        if kept {
            if lease.pool().settings.proxy_protocol.is_some() {
                lease.keep_private(exchange.private, guard.clock().now());
            } else {
                lease.keep(guard.clock().now());
            }
        }
        Ok(())
    }
}

/// What changes and compresses an answer's body, if something does: its fields say so already,
/// those of an answer to HEAD too.
fn transformed(
    request: &RoutedRequest<'_>,
    answer: &mut ResponseHead,
    length: BodyLength,
) -> Option<Transformation> {
    let Rules {
        rewrite, compress, ..
    } = request.rules;
    let bodiless = length == BodyLength::Empty;
    let is_head = request.received().method == Method::Head
        && answer.fields.only(Known::ContentLength) != Some(b"0");
    if (rewrite.is_none() && compress.is_none()) || (bodiless && !is_head && answer.status != 304) {
        return None;
    }
    forwarding::remove_connection_fields(&mut answer.fields);
    let mut stages = Vec::new();
    if let Some(rewrite) = rewrite {
        rewrite.begin(
            &request.values,
            answer.status,
            &mut answer.fields,
            &mut stages,
        );
    }
    let asked = &request.received().fields;
    // Encoders are large: while memory is scarce answers go as they are.
    if let Some(compress) = compress
        .as_ref()
        .filter(|_| memory::level() == MemoryLevel::Easy)
    {
        compress.recall(asked, answer.status, &mut answer.fields);
        if let Some((coding, level)) = compress.begin(asked, answer.status, &mut answer.fields)
            && !bodiless
        {
            let encoder = request
                .worker
                .encoders
                .borrow_mut()
                .take(coding, level, None);
            stages.push(Stage::Encode(encoder));
        }
    }
    (!stages.is_empty() && !bodiless).then(|| Transformation::new(stages))
}

/// The changes that the route makes to an answer.
fn transform(request: &RoutedRequest<'_>, lease: &Lease, answer: &mut ResponseHead) {
    let RoutedRequest {
        worker,
        outgoing,
        values,
        pattern,
        rules,
    } = request;
    let client = outgoing.client;
    let prefix = rules.target.stripped(pattern, values.path);
    let moved = matches!(answer.status, 201 | 202 | 300..=308);
    if rules.rewrite_location && (moved || !prefix.is_empty()) {
        let endpoint = lease
            .endpoint()
            .authority()
            .map(|(host, port)| Origin { host, port });
        let named = outgoing
            .head
            .other_host()
            .and_then(|host| Authority::parse(host).ok());
        let mut origins = Vec::from_iter(endpoint);
        if let Some(Authority { host, port }) = named {
            // What a rule calls the endpoint, also with the port that it has. Without a port it is
            // by http, and by https for clients of TLS only: to lead others from there
            // back to http would be a loop.
            let own = endpoint.map(|endpoint| endpoint.port);
            let default = [Some(80), client.is_secure().then_some(443)];
            let ports = port
                .map_or(default, |port| [Some(port), None])
                .into_iter()
                .chain([own])
                .flatten();
            origins.extend(ports.map(|port| Origin { host, port }));
        }
        let public = Public {
            secure: client.is_secure(),
            authority: outgoing.target.host,
            origins: &origins,
            prefix,
        };
        public.restore(&mut answer.fields);
    }
    if rules.cors.is_some() {
        forwarding::remove_connection_fields(&mut answer.fields);
        Cors::clear(&mut answer.fields);
    }
    if !rules.headers.is_empty() {
        forwarding::remove_connection_fields(&mut answer.fields);
        let mut scratch = worker.blocks.text();
        rules
            .headers
            .apply(&mut answer.fields, values, &mut scratch);
        worker.blocks.take_back(scratch);
    }
    if let Some(cache) = &rules.cache {
        let path = target::decode(values.path).unwrap_or(Cow::Borrowed(values.path));
        cache.apply(answer.status, &path, &mut answer.fields);
    }
    if let Some(cors) = &rules.cors {
        cors.apply(&request.received().fields, &mut answer.fields);
    }
    // RFC 9110 §6.6.1: who has a clock sees to it that there is one.
    if answer.fields.first(Known::Date).is_none() {
        answer.fields.append(b"Date", &worker.date());
    }
}

/// Tells the client to which endpoint it belongs from here on, where it does not know that.
fn stick<D>(exchange: &Dispatch<'_, D>, lease: &Lease, answer: &mut ResponseHead) {
    if let Some(sticky) = lease.settings().sticky()
        && exchange.preference != Preference::Member(lease.member())
    {
        forwarding::remove_connection_fields(&mut answer.fields);
        sticky.say(
            lease.member(),
            exchange.request.outgoing.client.is_secure(),
            &mut answer.fields,
        );
    }
}

/// How a call of gRPC has ended: there are none but over HTTP/2.
fn grpc_status(lease: &Lease, fields: &Fields) -> Option<u16> {
    if matches!(lease.link, UpstreamConnection::H2(_)) {
        grpc::status(fields)
    } else {
        None
    }
}

/// The answer was begun: all that can be said is that it has not ended.
fn truncated(error: &ReadError) -> ExchangeFailure {
    let fault = match error {
        ReadError::Cut => Fault::ResponseIncomplete,
        ReadError::Stream(error) if is_end(error) => Fault::ResponseIncomplete,
        ReadError::Stream(_) | ReadError::Reset(_) => Fault::ResponseReset,
        ReadError::Head(_)
        | ReadError::Section(_)
        | ReadError::Framing(_)
        | ReadError::Body(_)
        | ReadError::Transform(_)
        | ReadError::TooLong => Fault::BadResponse,
    };
    ExchangeFailure::because(fault, error.to_string())
}

/// Both have agreed to speak something else from here on (RFC 9110 §7.8).
async fn switch<D: ClientExchange>(
    exchange: &mut Dispatch<'_, D>,
    lease: Lease,
    answer: &ResponseHead,
    idle: Duration,
) -> Result<(), ExchangeFailure> {
    // RFC 9110 §7.8: not before the request is whole. What is left of its body would be taken for
    // the other protocol.
    let whole = exchange.down.is_complete() && lease.link.is_flushed();
    if !whole || !h1::confirms_upgrade(&exchange.request.outgoing, answer) {
        return Err(ExchangeFailure::of(Fault::UpgradeFailed));
    }
    exchange
        .switch(answer, SwitchedConnection::of(lease, idle))
        .await
}
