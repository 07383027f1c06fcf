//! Which form and which part of a file an answer has, and what it says of it.

use std::borrow::Cow;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::ready;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lockgate_http::coding::Coding;
use lockgate_http::conditional::{self, Outcome, Validators};
use lockgate_http::fields::Known;
use lockgate_http::head::{BodyLength, Method, ResponseHead};
use lockgate_http::range::{self, Boundary, Multipart, Selection};
use lockgate_net::files::{Root, Wait};

use super::cache::Hit;
use super::delivery::{Broken, Delivery, Part};
use super::file::File;
use super::listing::{self, Listing, Order};
use super::load::Content;
use super::resolve::escaped;
use super::{Files, busy, unreadable};
use crate::access_log::{Cause, Side};
use crate::answer::{Fault, Form};
use crate::clock::Waiting;
use crate::exchange::{Downstream, Exchange, Failure};

impl Files {
    /// Sends a file or parts of it, or says that the client has it.
    pub(super) async fn send<D: Downstream>(
        &self,
        exchange: &mut Exchange<'_, D>,
        hit: &Hit,
    ) -> Result<(), Failure> {
        let file = &hit.file;
        let (method, asked) = (exchange.request.head.method, &exchange.request.head.fields);
        let coding = if file.has_siblings() { file.wanted(asked) } else { Coding::Identity };
        let form = file.form(coding);
        let size = form.len();
        let mut media_type = Cow::Borrowed(&*file.loaded.media_type);
        let mut range = Vec::new();
        let mut parts = Vec::new();
        let mut status = hit.status;
        if status == 200 {
            let validators = Validators { etag: Some(&form.etag), modified: Some(file.modified) };
            status = match conditional::evaluate(method, asked, &validators, now()) {
                Outcome::Proceed => 200,
                Outcome::NotModified => 304,
                Outcome::PreconditionFailed => 412,
            };
            if status == 200 && asked.may_have(&[Known::Range]) && conditional::range_applies(asked, &validators, now())
            {
                match range::select(method, asked, size) {
                    Selection::Whole => {}
                    Selection::Single(part) => {
                        status = 206;
                        range::content_range(&mut range, part, size);
                        parts.push(self.part(exchange, file, coding, part.offset, part.length));
                    }
                    Selection::Several(several) => {
                        status = 206;
                        let multipart = Multipart::new(several, size, Some(&media_type), boundary()?);
                        for part in multipart.parts() {
                            let mut head = Vec::new();
                            multipart.head(*part, &mut head);
                            parts.push(Part::Bytes(head.into()));
                            parts.push(self.part(exchange, file, coding, part.offset, part.length));
                        }
                        let mut end = Vec::new();
                        multipart.end(&mut end);
                        parts.push(Part::Bytes(end.into()));
                        media_type = Cow::Owned(multipart.content_type());
                    }
                    Selection::Unsatisfiable => {
                        status = 416;
                        range::unsatisfied_range(&mut range, size);
                    }
                }
            }
        }
        let mut answer = ResponseHead::of(status);
        let fields = &mut answer.fields;
        if file.has_siblings() {
            fields.append(b"Vary", b"Accept-Encoding");
        }
        if hit.status == 200 && status != 412 {
            fields.append(b"Accept-Ranges", b"bytes");
            fields.append(b"ETag", &form.etag);
            fields.append(b"Last-Modified", &file.last_modified);
        }
        if !range.is_empty() {
            fields.append(b"Content-Range", &range);
        }
        if !matches!(status, 304 | 412 | 416) {
            fields.append(b"Content-Type", &media_type);
            if coding != Coding::Identity {
                fields.append(b"Content-Encoding", coding.name().as_bytes());
            }
            if status != 206 {
                parts.push(self.part(exchange, file, coding, 0, size));
            }
        }
        self.deliver(exchange, answer, Delivery::new(parts)).await
    }

    /// A part of a file: from memory, where it is there or must come there.
    fn part<D: Downstream>(
        &self,
        exchange: &Exchange<'_, D>,
        file: &Rc<File>,
        coding: Coding,
        offset: u64,
        len: u64,
    ) -> Part {
        let form = file.form(coding);
        let bytes = match &form.content {
            Content::Held(bytes) => Some(bytes.clone()),
            Content::Open(_) if exchange.down.takes_files() => None,
            Content::Open(_) => {
                let (bytes, grown) = file.bytes_at_once(coding);
                exchange.request.worker.files.grew(grown);
                bytes
            }
        };
        match bytes {
            Some(bytes) => {
                let [start, end] = [offset, offset + len].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                Part::Bytes(bytes.slice(start.min(bytes.len())..end.min(bytes.len())))
            }
            None => Part::File { file: Rc::clone(file), coding, offset, len },
        }
    }

    /// The same is found elsewhere; the query goes along.
    pub(super) async fn redirect<D: Downstream>(
        &self,
        exchange: &mut Exchange<'_, D>,
        to: &[u8],
    ) -> Result<(), Failure> {
        let values = &exchange.request.values;
        let mut location = exchange.request.rules.target.stripped(exchange.request.pattern, values.path).to_vec();
        location.extend_from_slice(&escaped(to));
        if let Some(query) = values.query {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        let mut answer = ResponseHead::of(308);
        answer.fields.append(b"Location", &location);
        self.deliver(exchange, answer, Delivery::default()).await
    }

    /// Shows what is in a directory.
    pub(super) async fn list<D: Downstream>(
        self: &Arc<Self>,
        exchange: &mut Exchange<'_, D>,
        path: &[u8],
        at: Vec<u8>,
    ) -> Result<(), Failure> {
        let form = Form::of_accept(exchange.request.head.fields.named(b"accept"));
        let order = Order::of(exchange.request.values.query.unwrap_or_default());
        let (files, path) = (Arc::clone(self), path.to_vec());
        // Reading a directory may always have to wait.
        let job = move || {
            let root = Root::open(&files.root, files.symlinks, Wait::Yes)?;
            let (entries, count) = root.list(&at, listing::MOST)?;
            let mut listing = Listing { path: &path, entries, count, order };
            listing.arrange(files.hidden);
            let mut body = Vec::new();
            listing.write(form, &mut body);
            Ok(body)
        };
        let listed = self.threads.submit(job).map_err(|_| busy())?;
        let listed = exchange.guard.within(listed).await;
        let listed = listed.map_err(|cut| Failure::cut(cut, Fault::ResponseTimeout))?;
        let body = listed.map_err(|_| busy())?.map_err(unreadable)?;
        let media_type = if form == Form::Json { "application/json" } else { form.media_type() };
        let mut answer = ResponseHead::of(200);
        answer.fields.append(b"Content-Type", media_type.as_bytes());
        answer.fields.append(b"Vary", b"Accept");
        answer.fields.append(b"Cache-Control", b"no-cache");
        self.deliver(exchange, answer, Delivery::new([Part::Bytes(Bytes::from(body))])).await
    }

    /// Sends an answer whose body is `delivery`; adds what every answer has.
    async fn deliver<D: Downstream>(
        &self,
        exchange: &mut Exchange<'_, D>,
        mut answer: ResponseHead,
        mut delivery: Delivery,
    ) -> Result<(), Failure> {
        let Exchange { request, guard, down, outcome, .. } = exchange;
        let worker = request.worker;
        let fields = &mut answer.fields;
        let mut scratch = worker.blocks.text();
        request.rules.headers.apply(fields, &request.values, &mut scratch);
        worker.blocks.take_back(scratch);
        if fields.first(Known::Date).is_none() {
            fields.append(b"Date", &worker.date());
        }
        let len = delivery.len();
        // RFC 9110 §15.4.5: that of a 304 would be that of the 200.
        if answer.status != 304 {
            fields.append(b"Content-Length", itoa::Buffer::new().format(len).as_bytes());
        }
        if request.head.method == Method::Head {
            delivery = Delivery::default();
        }
        let length = if delivery.len() == 0 { BodyLength::Empty } else { BodyLength::Known(len) };
        // What a client still sends when it has an answer is not waited for.
        let keep = exchange.keep && down.is_over() && !worker.is_stopping();
        guard.settle();
        let watch = guard.watch();
        watch.waits(Waiting::ForRoom);
        down.respond(request.head, &answer, length, keep);
        outcome.status = answer.status;
        let before = watch.meter.sent.get();
        let delivered = guard.within(poll_fn(|cx| {
            let polled = delivery.poll(cx, *down, &self.threads, guard.clock().now());
            watch.meter.sent.set(before + down.moved());
            // While the disk is what is waited for, the client is not to blame.
            watch.waits(if delivery.reads() { Waiting::Otherwise } else { Waiting::ForRoom });
            std::task::Poll::Ready(ready!(polled))
        }));
        let delivered = delivered.await;
        watch.waits(Waiting::Otherwise);
        match delivered {
            Ok(Ok(())) => {
                outcome.reusable = keep;
                Ok(())
            }
            Ok(Err(Broken::Client(error))) => Err(Failure::client(&error)),
            Ok(Err(broken)) => Err(Failure::silent(Cause::Internal, Side::Lockgate, broken.to_string())),
            Err(cut) => Err(Failure { fault: None, ..Failure::cut(cut, Fault::ResponseTimeout) }),
        }
    }
}

/// What parts are told apart by.
fn boundary() -> Result<Boundary, Failure> {
    let mut random = [0; 16];
    let none = |_| Failure::because(Fault::FileUnreadable, "no random numbers");
    aws_lc_rs::rand::fill(&mut random).map_err(none)?;
    Ok(Boundary::of(u128::from_ne_bytes(random)))
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
