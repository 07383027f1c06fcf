//! The representation and the part of a file that a response has, and its fields.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::ready;

use bytes::Bytes;
use lockgate_content::change::{ChangePlan, FilledPlan};
use lockgate_content::coding::{self, Coding, ContentEncoder};
use lockgate_http::coding::ContentCoding;
use lockgate_http::conditional::{self, ConditionOutcome, Validators};
use lockgate_http::fields::Known;
use lockgate_http::head::{BodyLength, HttpVersion, Method, ResponseHead};
use lockgate_http::range::{self, Boundary, Multipart, Selection};
use lockgate_http_io::message::ClientExchange;
use lockgate_limits::clock::WaitReason;
use lockgate_net::memory::{self, MemoryLevel};
use lockgate_rules::compression;

use super::delivery::{Delivery, DeliveryError, DeliveryPart};
use super::listing::ListingOrder;
use super::listing_cache::{self, ListingRequest, ListingView};
use super::{busy, unreadable};
use crate::access_log::{Cause, CauseSide};
use crate::error_response::{BodyFormat, HttpFault};
use crate::exchange::{Exchange, ExchangeFailure, RoutedRequest};
use crate::files::Files;
use crate::files::cache::CachedFile;
use crate::files::file::{ServedFile, now};
use crate::files::representation::{FileContent, encoded_tag};
use crate::files::resolve::{absolute, escaped};
use crate::rules;
use crate::shaping::give_back;

/// The request fields that may change the response.
const CONDITIONS: [Known; 5] = [
    Known::IfMatch,
    Known::IfNoneMatch,
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::Range,
];

/// Bytes that are compressed at once, while others wait: 0.4 ms of zstd, 2 ms of br.
const AT_ONCE: usize = 128 * 1024;
/// Pieces that are sent one by one.
const SEVERAL: usize = 64;

impl Files {
    /// Sends a file or parts of it, or a 304.
    pub(super) async fn send<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        hit: &CachedFile,
    ) -> Result<(), ExchangeFailure> {
        let file = &hit.file;
        if let Some(plan) = &file.loaded.plan {
            return self.send_filled(exchange, hit, plan).await;
        }
        let (method, asked) = (
            exchange.request.received().method,
            &exchange.request.received().fields,
        );
        let coding = self.choose(exchange, file).await?;
        if hit.status == 200 && !asked.may_have(&CONDITIONS) && file.is_kept(coding) {
            return self.send_whole(exchange, hit, coding).await;
        }
        let form = file.form(coding);
        let made;
        let etag = if file.is_kept(coding) {
            &form.etag
        } else {
            made = encoded_tag(&form.etag, coding);
            &made
        };
        let mut said = ResponseMeta {
            status: hit.status,
            coding,
            etag,
            range: Vec::new(),
            media_type: None,
        };
        let mut parts = Vec::new();
        if hit.status == 200 {
            let (validators, now) = (
                Validators {
                    etag: Some(etag),
                    modified: file.modified,
                },
                now(),
            );
            said.status = match conditional::evaluate(method, asked, &validators, now) {
                ConditionOutcome::Proceed => 200,
                ConditionOutcome::NotModified => 304,
                ConditionOutcome::PreconditionFailed => 412,
            };
            let ranges = said.status == 200 && asked.may_have(&[Known::Range]);
            if ranges && conditional::range_applies(asked, &validators, now) {
                self.select(exchange, file, &mut said, &mut parts)?;
            }
        }
        if matches!(said.status, 200 | 404) {
            parts.push(
                match compression::made(coding).filter(|_| !file.is_kept(coding)) {
                    Some(made) => self.encoded(exchange, file, made),
                    None => self.part(exchange, file, coding, 0, form.len()),
                },
            );
        }
        let mut response = said.head(hit);
        self.apply(exchange, &mut response);
        self.deliver(exchange, &mut response, Delivery::new(parts))
            .await
    }

    /// Sends all of a form, in the way of nearly all responses: what is the same in each of them is
    /// made once.
    async fn send_whole<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        hit: &CachedFile,
        coding: ContentCoding,
    ) -> Result<(), ExchangeFailure> {
        let form = hit.file.form(coding);
        let prepared = hit.prepared(coding, || {
            let said = ResponseMeta {
                status: 200,
                coding,
                etag: &form.etag,
                range: Vec::new(),
                media_type: None,
            };
            let mut response = said.head(hit);
            if exchange.request.rules.headers.is_fixed() {
                self.apply(exchange, &mut response);
            }
            response
        });
        let mut response = exchange.request.worker.response_heads.take();
        (*response).clone_from(prepared);
        if !exchange.request.rules.headers.is_fixed() {
            self.apply(exchange, &mut response);
        }
        let part = self.part(exchange, &hit.file, coding, 0, form.len());
        let sent = self
            .deliver(exchange, &mut response, Delivery::new([part]))
            .await;
        exchange.request.worker.response_heads.give(response);
        sent
    }

    /// Sends a file with the values of this request in it: nothing that could be kept, and no
    /// parts.
    async fn send_filled<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        hit: &CachedFile,
        plan: &Arc<ChangePlan>,
    ) -> Result<(), ExchangeFailure> {
        let request = &exchange.request;
        let Some(rewrite) = &request.rules.rewrite else {
            return Err(ExchangeFailure::of(HttpFault::FileUnreadable));
        };
        let values = rewrite.fill(request.values);
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let filled = plan.fill(&values);
        // Values are the client's, and may name thousands of ranges.
        if filled.length() > rewrite.max {
            return Err(ExchangeFailure::because(
                HttpFault::FileUnreadable,
                "the file is too long after values were inserted",
            ));
        }
        let mut response = ResponseHead::of(hit.status);
        let fields = &mut response.fields;
        if let Some(caching) = &hit.caching {
            fields.append(b"Cache-Control", caching.as_bytes());
        }
        fields.append(b"Content-Type", &hit.file.loaded.media_type);
        let compress = request.rules.compress.as_ref();
        let coding = compress.and_then(|compress| {
            fields.append(
                b"Content-Length",
                itoa::Buffer::new().format(filled.length()).as_bytes(),
            );
            compress.begin(&request.received().fields, hit.status, fields)
        });
        fields.remove(Known::ContentLength);
        let parts = match coding {
            None => filled_parts(plan, &filled),
            Some((coding, level)) => {
                let (mut whole, mut encoded) = (Vec::new(), Vec::new());
                filled.copy_to(&mut whole);
                if whole.len() > AT_ONCE {
                    let job = move || coding::encode_all(coding, level, &whole);
                    let made = self.compressors.submit(job).map_err(|_| busy())?;
                    let made = exchange.guard.within(made).await;
                    let made =
                        made.map_err(|cut| ExchangeFailure::cut(cut, HttpFault::ResponseTimeout))?;
                    encoded = made.map_err(|_| busy())?;
                } else {
                    let encoders = &request.worker.encoders;
                    let mut encoder =
                        encoders
                            .borrow_mut()
                            .take(coding, level, Some(whole.len() as u64));
                    encoder.whole(&whole, &mut encoded);
                    encoders.borrow_mut().give_back(encoder);
                }
                vec![DeliveryPart::Bytes(encoded.into())]
            }
        };
        self.apply(exchange, &mut response);
        self.deliver(exchange, &mut response, Delivery::new(parts))
            .await
    }

    /// The coding that is sent: of the forms that there are, and those that may be made, the one
    /// that is wanted most.
    async fn choose<D: ClientExchange>(
        &self,
        exchange: &Exchange<'_, D>,
        file: &ServedFile,
    ) -> Result<ContentCoding, ExchangeFailure> {
        let request = &exchange.request;
        let asked = &request.received().fields;
        if !file.varies() || !asked.may_have(&[Known::AcceptEncoding]) {
            return Ok(ContentCoding::Identity);
        }
        // A part is one of what stays the same.
        let compress = request
            .rules
            .compress
            .as_ref()
            .filter(|_| file.compressible && !asked.may_have(&[Known::Range]));
        // What is there already is sent; encoders are large.
        let compress = compress.filter(|_| memory::level() == MemoryLevel::Easy);
        let coding = file.wanted(asked, compress);
        let Some(compress) = compress.filter(|_| !file.has(coding) && file.is_kept(coding)) else {
            return Ok(coding);
        };
        let made = exchange
            .guard
            .within(file.make(coding, compress, &self.compressors))
            .await;
        match made.map_err(|cut| ExchangeFailure::cut(cut, HttpFault::ResponseTimeout))? {
            Ok((is_smaller, grown)) => {
                request.worker.files.grew(grown);
                Ok(if is_smaller {
                    coding
                } else {
                    ContentCoding::Identity
                })
            }
            // The file was changed, or the threads are busy: it is sent uncompressed.
            Err(_) => Ok(ContentCoding::Identity),
        }
    }

    /// The ranges that are asked for.
    fn select<D: ClientExchange>(
        &self,
        exchange: &Exchange<'_, D>,
        file: &Rc<ServedFile>,
        said: &mut ResponseMeta<'_>,
        parts: &mut Vec<DeliveryPart>,
    ) -> Result<(), ExchangeFailure> {
        let (head, coding) = (exchange.request.received(), said.coding);
        let size = file.form(coding).len();
        match range::select(head.method, &head.fields, size) {
            Selection::Whole => {}
            Selection::Single(part) => {
                said.status = 206;
                range::content_range(&mut said.range, part, size);
                parts.push(self.part(exchange, file, coding, part.offset, part.length));
            }
            Selection::Several(several) => {
                let media_type = Some(&*file.loaded.media_type);
                let multipart = Multipart::new(several, size, media_type, boundary()?);
                for part in multipart.parts() {
                    let mut head = Vec::new();
                    multipart.head(*part, &mut head);
                    parts.push(DeliveryPart::Bytes(head.into()));
                    parts.push(self.part(exchange, file, coding, part.offset, part.length));
                }
                let mut end = Vec::new();
                multipart.end(&mut end);
                parts.push(DeliveryPart::Bytes(end.into()));
                (said.status, said.media_type) = (206, Some(multipart.content_type()));
            }
            Selection::Unsatisfiable => {
                said.status = 416;
                range::unsatisfied_range(&mut said.range, size);
            }
        }
        Ok(())
    }

    /// A file that is too large to keep its compressed form: it is compressed as it is sent.
    fn encoded<D: ClientExchange>(
        &self,
        exchange: &Exchange<'_, D>,
        file: &Rc<ServedFile>,
        made: Coding,
    ) -> DeliveryPart {
        let compress = exchange.request.rules.compress.as_ref();
        let level = compress.map_or(made.fast_level(), |compress| compress.fast_level(made));
        let len = file.loaded.own.len();
        let mut encoder = Box::new(ContentEncoder::new(made, level));
        encoder.begin(Some(len));
        DeliveryPart::Encoded {
            file: Rc::clone(file),
            encoder: Some(encoder),
            offset: 0,
            len,
        }
    }

    /// A part of a file: from memory, where it is in memory or must be copied there.
    fn part<D: ClientExchange>(
        &self,
        exchange: &Exchange<'_, D>,
        file: &Rc<ServedFile>,
        coding: ContentCoding,
        offset: u64,
        len: u64,
    ) -> DeliveryPart {
        let form = file.form(coding);
        let bytes = match &form.content {
            FileContent::Held(bytes) => Some(bytes.clone()),
            FileContent::Open(_) if exchange.down.supports_sendfile() => None,
            FileContent::Open(_) => {
                let (bytes, grown) =
                    file.bytes_at_once(coding, &exchange.request.worker.files.copies);
                exchange.request.worker.files.grew(grown);
                bytes
            }
        };
        match bytes {
            Some(bytes) => {
                let [start, end] =
                    [offset, offset + len].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                DeliveryPart::Bytes(bytes.slice(start.min(bytes.len())..end.min(bytes.len())))
            }
            None => DeliveryPart::File {
                file: Rc::clone(file),
                coding,
                offset,
                len,
            },
        }
    }

    /// The same is found elsewhere; the query goes along.
    pub(super) async fn redirect<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        to: &[u8],
    ) -> Result<(), ExchangeFailure> {
        let values = exchange.request.values;
        let stripped = exchange
            .request
            .rules
            .target
            .stripped(exchange.request.pattern, values.path);
        let mut location = if stripped.is_empty() {
            Vec::new()
        } else {
            absolute(stripped)
        };
        location.extend_from_slice(&escaped(to));
        if let Some(query) = values.query {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        let mut response = ResponseHead::of(308);
        response.fields.append(b"Location", &location);
        self.apply(exchange, &mut response);
        self.deliver(exchange, &mut response, Delivery::default())
            .await
    }

    /// Shows what is in a directory.
    pub(super) async fn list<D: ClientExchange>(
        self: &Arc<Self>,
        exchange: &mut Exchange<'_, D>,
        path: &[u8],
        at: Vec<u8>,
    ) -> Result<(), ExchangeFailure> {
        let form = BodyFormat::of_accept(exchange.request.received().fields.named(b"accept"));
        let order = ListingOrder::of(exchange.request.values.query.unwrap_or_default());
        let wanted = ListingRequest {
            at,
            page: ListingView {
                path: path.to_vec(),
                order,
                form,
            },
        };
        let files = Arc::clone(self);
        // Reading a directory may always have to wait.
        let listed = self
            .lister
            .submit(move || listing_cache::list(&files, &wanted))
            .map_err(|_| busy())?;
        let listed = exchange.guard.within(listed).await;
        let listed = listed.map_err(|cut| ExchangeFailure::cut(cut, HttpFault::ResponseTimeout))?;
        let body = listed.map_err(|_| busy())?.map_err(unreadable)?;
        let media_type = if form == BodyFormat::Json {
            "application/json"
        } else {
            form.media_type()
        };
        let mut response = ResponseHead::of(200);
        response
            .fields
            .append(b"Content-Type", media_type.as_bytes());
        response.fields.append(b"Vary", b"Accept");
        response.fields.append(b"Cache-Control", b"no-cache");
        self.apply(exchange, &mut response);
        self.deliver(
            exchange,
            &mut response,
            Delivery::new([DeliveryPart::Bytes(body)]),
        )
        .await
    }

    /// Applies the route's rules to a response.
    fn apply<D>(&self, exchange: &Exchange<'_, D>, response: &mut ResponseHead) {
        let RoutedRequest {
            worker,
            values,
            rules,
            ..
        } = &exchange.request;
        rules::apply(&rules.headers, &mut response.fields, values, &worker.blocks);
    }

    /// Sends a response with the body `delivery`; adds the fields of its own.
    async fn deliver<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
        response: &mut ResponseHead,
        mut delivery: Delivery,
    ) -> Result<(), ExchangeFailure> {
        let Exchange {
            request,
            guard,
            down,
            outcome,
            shapers,
            ..
        } = exchange;
        let mut shaper = shapers.as_mut().and_then(|shapers| shapers.sent.as_mut());
        let worker = request.worker;
        let fields = &mut response.fields;
        if let Some(cors) = &request.rules.cors {
            cors.apply(&request.received().fields, fields);
        }
        if fields.first(Known::Date).is_none() {
            fields.append(b"Date", &worker.date());
        }
        let len = delivery.len();
        // RFC 9110 §15.4.5: that of a 304 would be that of the 200.
        if let Some(len) = len.filter(|_| response.status != 304) {
            fields.append(
                b"Content-Length",
                itoa::Buffer::new().format(len).as_bytes(),
            );
        }
        if request.received().method == Method::Head {
            delivery = Delivery::default();
        }
        let length = match delivery.len() {
            Some(0) => BodyLength::Empty,
            Some(len) => BodyLength::Known(len),
            None if request.received().version >= HttpVersion::Http11 => BodyLength::Chunked,
            None => BodyLength::UntilClose,
        };
        // What a client still sends when it has a response is not waited for.
        let is_draining = guard.watch().is_draining();
        let persistence = exchange
            .persistence
            .and(length != BodyLength::UntilClose && down.is_complete() && !is_draining);
        guard.end_phase();
        let watch = guard.watch();
        watch.set_wait(WaitReason::ForRoom);
        down.respond(request.received(), response, length, persistence);
        outcome.status = response.status;
        let before = watch.meter.sent.get();
        let delivered = guard.within(poll_fn(|cx| {
            let polled = delivery.poll(cx, *down, self, guard.clock().now(), shaper.as_deref_mut());
            watch.meter.sent.set(before + down.bytes_written());
            let held = shaper.as_deref_mut().is_some_and(|shaper| {
                give_back(shaper, &watch.meter);
                shaper.is_waited_for()
            });
            // While the disk is what is waited for, or the rate, or other streams of the connection, the
            // client is not to blame.
            let is_awaited = !held && !delivery.reads() && down.is_blocked();
            watch.set_wait(if is_awaited {
                WaitReason::ForRoom
            } else {
                WaitReason::Nothing
            });
            std::task::Poll::Ready(ready!(polled))
        }));
        let delivered = delivered.await;
        watch.set_wait(WaitReason::Nothing);
        let failure = match delivered {
            Ok(Ok(())) => {
                outcome.client_persists = persistence.is_kept();
                return Ok(());
            }
            Ok(Err(DeliveryError::Client(error))) => ExchangeFailure::client(&error),
            Ok(Err(broken)) => {
                ExchangeFailure::silent(Cause::Internal, CauseSide::Lockgate, broken.to_string())
            }
            Err(cut) => ExchangeFailure {
                fault: None,
                ..ExchangeFailure::cut(cut, HttpFault::ResponseTimeout)
            },
        };
        // As with responses of origins: only a reset marks the body as incomplete where the close
        // would be its end, and frees the kernel's buffers where the client takes nothing.
        if length == BodyLength::UntilClose || failure.cause == Cause::TooSlow {
            down.abort();
        }
        Err(failure)
    }
}

/// The pieces of a document, without a copy of what is always the same, unless these are many and
/// small.
fn filled_parts(plan: &Arc<ChangePlan>, filled: &FilledPlan<'_>) -> Vec<DeliveryPart> {
    if filled.count() > SEVERAL {
        let mut whole = Vec::new();
        filled.copy_to(&mut whole);
        return vec![DeliveryPart::Bytes(whole.into())];
    }
    let text = Bytes::from_owner(PlanText(Arc::clone(plan)));
    let piece = |number| {
        let piece = filled.piece(number).unwrap_or_default();
        // By turns, a piece of the text and a value.
        let bytes = if number % 2 == 0 {
            text.slice_ref(piece)
        } else {
            Bytes::copy_from_slice(piece)
        };
        DeliveryPart::Bytes(bytes)
    };
    (0..filled.count()).map(piece).collect()
}

/// The text of a plan, shared by the parts of one body.
struct PlanText(Arc<ChangePlan>);

impl AsRef<[u8]> for PlanText {
    fn as_ref(&self) -> &[u8] {
        self.0.text()
    }
}

/// The status and the fields of a response from a file.
struct ResponseMeta<'a> {
    status: u16,
    coding: ContentCoding,
    etag: &'a [u8],
    /// The value of Content-Range; empty for none.
    range: Vec<u8>,
    /// The media type, where it is not the file's.
    media_type: Option<Vec<u8>>,
}

impl ResponseMeta<'_> {
    fn head(&self, hit: &CachedFile) -> ResponseHead {
        let Self {
            status,
            coding,
            etag,
            range,
            media_type,
        } = self;
        let file = &hit.file;
        let mut response = ResponseHead::of(*status);
        let fields = &mut response.fields;
        if hit.by_accept {
            fields.append(b"Vary", b"Accept");
        }
        if file.varies() {
            fields.append(b"Vary", b"Accept-Encoding");
        }
        if hit.status == 200 && *status != 412 {
            // Of what is compressed on its way there are no parts.
            if !etag.starts_with(b"W/") {
                fields.append(b"Accept-Ranges", b"bytes");
            }
            // What was asked for in vain may be there later (RFC 9111 §3).
            if let Some(caching) = hit.caching.as_ref().filter(|_| *status != 416) {
                fields.append(b"Cache-Control", caching.as_bytes());
            }
            fields.append(b"ETag", etag);
            if file.modified.is_some() {
                fields.append(b"Last-Modified", &file.last_modified);
            }
        }
        if !range.is_empty() {
            fields.append(b"Content-Range", range);
        }
        if !matches!(status, 304 | 412 | 416) {
            fields.append(
                b"Content-Type",
                media_type.as_deref().unwrap_or(&file.loaded.media_type),
            );
            if *coding != ContentCoding::Identity {
                fields.append(b"Content-Encoding", coding.name().as_bytes());
            }
        }
        response
    }
}

/// A random boundary of a multipart response.
fn boundary() -> Result<Boundary, ExchangeFailure> {
    let mut random = [0; 16];
    let none = |_| ExchangeFailure::because(HttpFault::FileUnreadable, "no random numbers");
    aws_lc_rs::rand::fill(&mut random).map_err(none)?;
    Ok(Boundary::of(u128::from_ne_bytes(random)))
}
