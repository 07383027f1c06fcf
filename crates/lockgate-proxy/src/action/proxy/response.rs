//! An endpoint's response on its way to the client.

use std::borrow::Cow;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding;
use lockgate_http::head::{BodyLength, HttpVersion, Method, ResponseHead};
use lockgate_http::target::{self, Authority};
use lockgate_http_io::body::{BodyReader, BodyWriter, ReadError};
use lockgate_http_io::h1;
use lockgate_http_io::message::{ClientExchange, Persistence};
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::WaitReason;
use lockgate_net::memory::{self, Charge, MemoryKind, MemoryLevel};
use lockgate_net::traffic_shaping::Shaper;
use lockgate_rules::Cors;
use lockgate_upstream::{Lease, Preference, UpstreamConnection};

use super::Proxy;
use super::request::is_end;
use super::upload::{RequestUpload, UploadError};
use crate::access_log::{Cause, CauseSide};
use crate::error_response::{HttpFault, grpc};
use crate::exchange::{Exchange, ExchangeFailure, RoutedRequest, SwitchedConnection};
use crate::pump::{Pump, PumpError};
use crate::rules::{self, RouteRules};
use crate::shaping::Shapers;
use crate::transform::body::{BodyStage, Transformation};
use crate::transform::{OriginAuthority, PublicUrl};

/// The idle limit for the rest of a request's body, once its response has been delivered.
const REST: Duration = Duration::from_secs(30);

/// The framing of a response, and the fate of both connections after it.
struct ResponsePlan {
    /// The length of the body as the client gets it.
    length: BodyLength,
    /// The stages that the body passes through.
    transformation: Option<Transformation>,
    /// Whether the request's body has not all been sent.
    is_uploading: bool,
    /// Whether the endpoint gets the rest of it even after the response.
    is_rest_wanted: bool,
    /// Whether the endpoint's connection is kept.
    keeps_endpoint: bool,
    /// Whether the client's connection is kept.
    persistence: Persistence,
}

impl ResponsePlan {
    /// Begins the body of the response, and plans its delivery.
    fn of<D: ClientExchange>(
        exchange: &Exchange<'_, D>,
        lease: &mut Lease,
        response: &mut ResponseHead,
    ) -> Result<Self, ExchangeFailure> {
        let (request, outcome) = (&exchange.request, &exchange.outcome);
        let length = lease
            .connection
            .begin_response(request.received().method, response);
        let length = length
            .map_err(|error| ExchangeFailure::because(HttpFault::BadResponse, error.to_string()))?;
        let stays = forwarding::keeps_alive(response.version, &response.fields)
            && length != BodyLength::UntilClose;
        let was_awaited = outcome.awaited || request.outgoing.length == BodyLength::Empty;
        // A changed body has another length.
        let transformation = transformation_of(request, response, length);
        let length = match (length, &transformation) {
            (BodyLength::Chunked | BodyLength::UntilClose, _) | (_, Some(_)) => {
                if request.received().version >= HttpVersion::Http11 {
                    BodyLength::Chunked
                } else {
                    BodyLength::UntilClose
                }
            }
            (length, None) => length,
        };
        let is_uploading = !lease.connection.is_finished();
        // RFC 9112 §9.6: an endpoint that closes after its response needs no more. One that stays
        // may have responded before it reads the rest, and gets it, unless the client waits for a
        // 100 and was never sent one.
        let outgoing = request.outgoing.head.fields();
        let expects = outgoing.first(Known::Expect).is_some();
        let is_rest_wanted = is_uploading
            && stays
            && (!expects || outcome.awaited || exchange.down.bytes_read() > 0);
        let persistence = exchange.persistence.and(
            length != BodyLength::UntilClose
                && (exchange.down.is_complete() || is_rest_wanted)
                // Since the request came, the end may have begun.
                && !exchange.guard.watch().is_draining(),
        );
        Ok(Self {
            length,
            transformation,
            is_uploading,
            is_rest_wanted,
            keeps_endpoint: stays && was_awaited,
            persistence,
        })
    }
}

/// The bodies of an exchange once the response has begun: the rest of the request's, and the
/// response's.
struct Bodies<'r, 'g> {
    upload: &'r mut RequestUpload<'g>,
    transformation: Option<Transformation>,
    is_uploading: bool,
    is_rest_wanted: bool,
    /// Whether the response's body has not all been sent.
    is_delivering: bool,
    /// The bytes that had been sent on the client's connection before.
    sent_before: u64,
    /// The bytes of the request's body that had been sent when the response was complete.
    uploaded: Option<u64>,
}

impl Bodies<'_, '_> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl ClientExchange,
        up: &mut UpstreamConnection,
        shapers: Option<&mut Shapers>,
    ) -> Poll<Result<(), ExchangeFailure>> {
        let guard = self.upload.guard;
        let (received, sent) = match shapers {
            Some(shapers) => (shapers.received.as_mut(), shapers.sent.as_mut()),
            None => (None, None),
        };
        if self.is_uploading {
            match self.upload.poll(cx, down, up, received) {
                Poll::Ready(Err(UploadError::Client(failure))) if self.is_delivering => {
                    return Poll::Ready(Err(failure));
                }
                // An origin that answers may have heard enough.
                Poll::Ready(_) => self.is_uploading = false,
                Poll::Pending => {}
            }
        }
        if self.is_delivering {
            ready!(self.poll_response(cx, down, up, sent))?;
            self.is_delivering = false;
        }
        // Both sides have what they are owed: a peer that moves nothing is not waited for long.
        if self.is_uploading
            && self.is_rest_wanted
            && up.poll_broken(cx).is_pending()
            && down.poll_gone(cx).is_pending()
        {
            if self.uploaded.replace(up.bytes_written()) != Some(up.bytes_written()) {
                guard.begin_phase(REST);
            }
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Moves the response's body.
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut impl ClientExchange,
        up: &mut UpstreamConnection,
        shaper: Option<&mut Shaper>,
    ) -> Poll<Result<(), ExchangeFailure>> {
        let watch = self.upload.guard.watch();
        let pump = Pump {
            rules: &self.upload.rules.headers,
            meter: &watch.meter,
        };
        let pumped = match &mut self.transformation {
            None => pump.poll(cx, up, down, shaper, |_| {}),
            Some(transformation) => pump.poll(cx, &mut transformation.of(up), down, shaper, |_| {}),
        };
        watch
            .meter
            .sent
            .set(self.sent_before + down.bytes_written());
        if pumped.is_pending() && down.is_blocked() {
            watch.set_wait(WaitReason::ForRoom);
        } else if pumped.is_pending() || !self.is_uploading {
            // Both sides may be silent while the response is on its way, as in a long poll.
            watch.set_wait(WaitReason::Nothing);
        }
        // Events may be hours apart: until then no write would tell.
        if pumped.is_pending() && down.poll_gone(cx).is_ready() {
            let why = "during the response";
            let failure = ExchangeFailure::silent(Cause::ClientReset, CauseSide::Downstream, why);
            return Poll::Ready(Err(failure));
        }
        pumped.map_err(|error| match error {
            PumpError::Source(error) => incomplete(&error),
            PumpError::Sink(error) => ExchangeFailure::client(&error),
        })
    }
}

impl Proxy {
    /// Hands the response on.
    pub(super) async fn send_response<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        mut lease: Lease,
        upload: &mut RequestUpload<'_>,
        response: &mut ResponseHead,
    ) -> Result<(), ExchangeFailure> {
        if response.status == 101 {
            set_sticky_cookie(exchange, &lease, response);
            return boxed(|| switch(exchange, lease, response, self.tunnel_idle)).await;
        }
        let ResponsePlan {
            length,
            transformation,
            is_uploading,
            is_rest_wanted,
            keeps_endpoint,
            persistence,
        } = ResponsePlan::of(exchange, &mut lease, response)?;
        let native = transformation
            .as_ref()
            .map_or(0, Transformation::native_bytes);
        let _native = (native > 0).then(|| Charge::new(MemoryKind::Coding, native));
        apply_response_rules(&exchange.request, &lease, response);
        set_sticky_cookie(exchange, &lease, response);
        exchange
            .down
            .respond(exchange.request.received(), response, length, persistence);
        exchange.outcome.status = response.status;
        exchange.outcome.grpc_status = grpc_status(&lease, &response.fields);
        let guard = exchange.guard;
        self.whole
            .map_or_else(|| guard.end_phase(), |whole| guard.begin_phase(whole));
        // A response has begun: there is no other attempt, but this one may not have sent again all
        // that was taken.
        upload.replay.settle();
        let mut bodies = Bodies {
            upload,
            transformation,
            is_uploading,
            is_rest_wanted,
            is_delivering: true,
            sent_before: guard.watch().meter.sent.get(),
            uploaded: None,
        };
        let (down, shapers) = (&mut *exchange.down, &mut exchange.shapers);
        let exchanged = guard
            .poll_within(|cx| bodies.poll(cx, down, &mut lease.connection, shapers.as_deref_mut()));
        let exchanged = exchanged.await;
        let is_delivering = bodies.is_delivering;
        if let Some(encoder) = bodies.transformation.and_then(Transformation::into_encoder) {
            let encoders = &exchange.request.worker.encoders;
            encoders.borrow_mut().give_back(encoder);
        }
        let delivered = match exchanged {
            Ok(delivered) => delivered,
            Err(cut) if is_delivering => Err(ExchangeFailure::cut(cut, HttpFault::ResponseTimeout)),
            // The client has its response, and takes too long to send the rest.
            Err(_) => Ok(()),
        };
        if let Err(failure) = delivered {
            if failure.side == CauseSide::Upstream {
                // The bytes so far are delivered without their end: the client must not take them
                // for the whole body.
                guard.watch().set_wait(WaitReason::ForRoom);
                let _ = guard
                    .poll_within(|cx| exchange.down.poll_all_sent(cx))
                    .await;
            }
            // Where the close is the end of the body (RFC 9112 §8) only a reset tells that it is
            // incomplete. And the kernel holds megabytes for a client that takes nothing: with a
            // reset they are freed, after a close they stay until it gives up.
            let slow = failure.cause == Cause::TooSlow && failure.side == CauseSide::Downstream;
            if length == BodyLength::UntilClose || slow {
                exchange.down.abort();
            }
            return Err(failure);
        }
        if let Some(trailers) = lease.connection.trailers() {
            let told = exchange.outcome.grpc_status;
            exchange.outcome.grpc_status = told.or_else(|| grpc_status(&lease, trailers));
        }
        exchange.outcome.client_persists = persistence.is_kept() && exchange.down.is_complete();
        if keeps_endpoint {
            if lease.pool().settings.proxy_protocol.is_some() {
                lease.keep_private(exchange.private, guard.clock().now());
            } else {
                lease.keep(guard.clock().now());
            }
        }
        Ok(())
    }
}

/// The stages that rewrite and compress a response's body, if there are any: its fields are changed
/// accordingly, those of a response to HEAD too.
fn transformation_of(
    request: &RoutedRequest<'_>,
    response: &mut ResponseHead,
    length: BodyLength,
) -> Option<Transformation> {
    let RouteRules {
        rewrite, compress, ..
    } = request.rules;
    let bodiless = length == BodyLength::Empty;
    let is_head = request.received().method == Method::Head
        && response.fields.only(Known::ContentLength) != Some(b"0");
    if (rewrite.is_none() && compress.is_none()) || (bodiless && !is_head && response.status != 304)
    {
        return None;
    }
    forwarding::remove_connection_fields(&mut response.fields);
    let mut stages = Vec::new();
    if let Some(rewrite) = rewrite {
        rewrite.begin(
            request.values,
            response.status,
            &mut response.fields,
            &mut stages,
        );
    }
    let asked = &request.received().fields;
    // Encoders are large: while memory is scarce responses go as they are.
    if let Some(compress) = compress
        .as_ref()
        .filter(|_| memory::level() == MemoryLevel::Easy)
    {
        compress.recall(asked, response.status, &mut response.fields);
        if let Some((coding, level)) = compress.begin(asked, response.status, &mut response.fields)
            && !bodiless
        {
            let encoder = request
                .worker
                .encoders
                .borrow_mut()
                .take(coding, level, None);
            stages.push(BodyStage::Encode(encoder));
        }
    }
    (!stages.is_empty() && !bodiless).then(|| Transformation::new(stages))
}

/// The changes that the route makes to a response.
fn apply_response_rules(request: &RoutedRequest<'_>, lease: &Lease, response: &mut ResponseHead) {
    let RoutedRequest {
        worker,
        generation: _,
        outgoing,
        values,
        pattern,
        rules,
    } = request;
    let client = outgoing.client;
    let prefix = rules.target.stripped(pattern, values.path);
    let moved = matches!(response.status, 201 | 202 | 300..=308);
    if rules.rewrite_location && (moved || !prefix.is_empty()) {
        let endpoint = lease
            .endpoint()
            .authority()
            .map(|(host, port)| OriginAuthority { host, port });
        let named = outgoing
            .head
            .other_host()
            .and_then(|host| Authority::parse(host).ok());
        let mut origins = Vec::from_iter(endpoint);
        if let Some(Authority { host, port }) = named {
            // What a rule calls the endpoint, also with the port that it has. Without a port it is
            // by http, and by https for clients of TLS only: to lead others from there back to http
            // would be a loop.
            let own = endpoint.map(|endpoint| endpoint.port);
            let default = [Some(80), client.is_secure().then_some(443)];
            let ports = port
                .map_or(default, |port| [Some(port), None])
                .into_iter()
                .chain([own])
                .flatten();
            origins.extend(ports.map(|port| OriginAuthority { host, port }));
        }
        let public = PublicUrl {
            secure: client.is_secure(),
            authority: outgoing.target.host,
            origins: &origins,
            prefix,
        };
        public.restore(&mut response.fields);
    }
    if rules.cors.is_some() {
        forwarding::remove_connection_fields(&mut response.fields);
        Cors::clear(&mut response.fields);
    }
    if !rules.headers.is_empty() {
        forwarding::remove_connection_fields(&mut response.fields);
        rules::apply(&rules.headers, &mut response.fields, values, &worker.blocks);
    }
    if let Some(cache) = &rules.cache {
        let path = target::decode(values.path).unwrap_or(Cow::Borrowed(values.path));
        cache.apply(response.status, &path, &mut response.fields);
    }
    if let Some(cors) = &rules.cors {
        cors.apply(&request.received().fields, &mut response.fields);
    }
    // RFC 9110 §6.6.1: a recipient with a clock adds a missing Date.
    if response.fields.first(Known::Date).is_none() {
        response.fields.append(b"Date", &worker.date());
    }
}

/// Tells the client to which endpoint it belongs from here on, where it does not know that.
fn set_sticky_cookie<D>(exchange: &Exchange<'_, D>, lease: &Lease, response: &mut ResponseHead) {
    if let Some(sticky) = lease.settings().sticky()
        && exchange.preference != Preference::Member(lease.member())
    {
        forwarding::remove_connection_fields(&mut response.fields);
        sticky.say(
            lease.member(),
            exchange.request.outgoing.client.is_secure(),
            &mut response.fields,
        );
    }
}

/// The status of a gRPC call: only HTTP/2 has such calls.
fn grpc_status(lease: &Lease, fields: &Fields) -> Option<u16> {
    if matches!(lease.connection, UpstreamConnection::H2(_)) {
        grpc::status(fields)
    } else {
        None
    }
}

/// The failure of a response that had begun: it is incomplete.
fn incomplete(error: &ReadError) -> ExchangeFailure {
    let fault = match error {
        ReadError::Cut => HttpFault::ResponseIncomplete,
        ReadError::Stream(error) if is_end(error) => HttpFault::ResponseIncomplete,
        ReadError::Stream(_) | ReadError::Reset(_) => HttpFault::ResponseReset,
        ReadError::Head(_)
        | ReadError::Section(_)
        | ReadError::Framing(_)
        | ReadError::Body(_)
        | ReadError::Transform(_)
        | ReadError::TooLong => HttpFault::BadResponse,
    };
    ExchangeFailure::because(fault, error.to_string())
}

/// Both peers have agreed to switch protocols (RFC 9110 §7.8).
async fn switch<D: ClientExchange>(
    exchange: &mut Exchange<'_, D>,
    lease: Lease,
    response: &ResponseHead,
    idle: Duration,
) -> Result<(), ExchangeFailure> {
    // RFC 9110 §7.8: not before the request is whole. What is left of its body would be taken for
    // the other protocol.
    let whole = exchange.down.is_complete() && lease.connection.is_flushed();
    if !whole || !h1::confirms_upgrade(&exchange.request.outgoing, response) {
        return Err(ExchangeFailure::of(HttpFault::UpgradeFailed));
    }
    exchange
        .switch(response, SwitchedConnection::of(lease, idle))
        .await
}
