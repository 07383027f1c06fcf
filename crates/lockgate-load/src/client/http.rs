//! One exchange of HTTP/1.1: a request as it was made beforehand, and an answer that is taken apart
//! and counted.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use lockgate_http::fields::{Fields, Known};
use lockgate_http::h1::body::{Decoder, Part};
use lockgate_http::h1::parse::{self, Progress};
use lockgate_http::h1::{Limits, framing};
use lockgate_http::head::{Method, ResponseHead, Version};

use super::upload::Upload;
use super::{ExchangeStats, Fault, Scratch, Transport};
use crate::expect::{Expect, Hasher};
use crate::result::Failure;
use crate::target::Http1Request;

/// A piece of a response.
pub(crate) enum Piece<'a> {
    /// Its head: of the final response, not of those before it (1xx).
    Head(&'a ResponseHead),
    /// Some of its body.
    Data(&'a [u8]),
}

/// Sends a request and reads its response to the end, as far as it is judged.
///
/// # Errors
/// When no whole response came.
pub(super) async fn exchange(
    transport: &mut Transport,
    request: &Http1Request,
    expect: &Expect,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> Result<(), Fault> {
    let mut hasher = expect.wants_hash().then(Hasher::new);
    let answered = fetch(transport, request, scratch, stats, |piece| {
        if let (Some(hasher), Piece::Data(data)) = (&mut hasher, piece) {
            hasher.update(data);
        }
        Ok(())
    })
    .await;
    stats.response.hash = hasher.map(Hasher::finish);
    answered
}

/// Sends a request and reads its answer to the end, both at once: an origin may answer while it is
/// still asked. `take` gets the response as it comes.
///
/// # Errors
/// When no whole response came, or `take` refuses it.
pub(crate) async fn fetch(
    transport: &mut Transport,
    request: &Http1Request,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
    take: impl FnMut(Piece<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    scratch.vary(request);
    let Scratch {
        blocks,
        head,
        fields,
        body,
        ..
    } = scratch;
    let mut upload = Upload::new([&request.head, fields, request.body.or(body)]);
    let mut answer = ResponseReader::new(request.method, take);
    let answered = poll_fn(|cx| {
        // Who takes no more may have answered all the same; else reading finds out that it is gone.
        let _ = upload.poll(cx, &mut transport.stream, blocks);
        stats.sent = upload.sent;
        answer.poll(cx, transport, head, stats)
    })
    .await;
    stats.response.length = answer.length;
    answered?;
    stats.keep = answer.keep && upload.over && transport.inbox.is_empty();
    if !transport.inbox.is_empty() {
        let more = transport.inbox.bytes().len();
        return Err(Fault::new(
            Failure::Length,
            format!("{more} unexpected bytes after the end of the response"),
        ));
    }
    Ok(())
}

/// What has come of a response.
struct ResponseReader<F> {
    method: Method,
    progress: Progress,
    /// Of the final response, once its head is there.
    body: Option<Decoder>,
    trailers: Fields,
    length: u64,
    take: F,
    /// Whether the origin keeps the connection.
    keep: bool,
}

impl<F: FnMut(Piece<'_>) -> Result<(), Fault>> ResponseReader<F> {
    fn new(method: Method, take: F) -> Self {
        Self {
            method,
            progress: Progress::default(),
            body: None,
            trailers: Fields::default(),
            length: 0,
            take,
            keep: false,
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        head: &mut ResponseHead,
        stats: &mut ExchangeStats,
    ) -> Poll<Result<(), Fault>> {
        loop {
            if self.take(transport, head, stats)? {
                return Poll::Ready(Ok(()));
            }
            if !ready!(transport.poll_read(cx, stats))? {
                return Poll::Ready(self.close());
            }
        }
    }

    /// Takes apart what has come; whether the response is whole.
    fn take(
        &mut self,
        transport: &mut Transport,
        head: &mut ResponseHead,
        stats: &mut ExchangeStats,
    ) -> Result<bool, Fault> {
        let garbage = |text: String| Fault::new(Failure::Garbage, text);
        while self.body.is_none() {
            if transport.inbox.is_empty() {
                return Ok(false);
            }
            let limits = Limits::default();
            let parsed =
                parse::response(transport.inbox.bytes(), &mut self.progress, &limits, head);
            let Some(used) = parsed.map_err(|error| garbage(error.to_string()))? else {
                return Ok(false);
            };
            transport.inbox.consume(used);
            if head.is_interim() {
                continue;
            }
            if head.status == 101 {
                return Err(garbage(
                    "status 101 without a request for an upgrade".to_owned(),
                ));
            }
            let length =
                framing::response(self.method, head).map_err(|error| garbage(error.to_string()))?;
            stats.response.status = Some(head.status);
            self.keep = keeps(head);
            self.body = Some(Decoder::new(length));
            (self.take)(Piece::Head(head))?;
        }
        let Some(decoder) = &mut self.body else {
            return Ok(false);
        };
        let mut at = 0;
        let ended = loop {
            let coming = &transport.inbox.bytes()[at..];
            let part = decoder.decode(coming, &Limits::default(), &mut self.trailers);
            match part.map_err(|error| garbage(error.to_string()))? {
                Part::Data(range) => {
                    self.length += range.len() as u64;
                    (self.take)(Piece::Data(&coming[range.clone()]))?;
                    at += range.end;
                }
                Part::More(used) => {
                    at += used;
                    break false;
                }
                Part::End(used) => {
                    at += used;
                    break true;
                }
            }
        };
        transport.inbox.consume(at);
        Ok(ended)
    }

    /// The connection has ended: so has a response that goes on until then.
    fn close(&mut self) -> Result<(), Fault> {
        self.keep = false;
        match &self.body {
            Some(decoder) if decoder.may_close() => Ok(()),
            Some(_) => Err(Fault::new(
                Failure::Closed,
                format!("closed after {} bytes of the body", self.length),
            )),
            None => Err(Fault::new(Failure::Closed, "closed before a response")),
        }
    }
}

/// Whether the connection goes on behind this response (RFC 9112 §9.3).
fn keeps(head: &ResponseHead) -> bool {
    let says = |word: &[u8]| {
        head.fields
            .tokens(Known::Connection)
            .any(|token| token.eq_ignore_ascii_case(word))
    };
    !says(b"close") && (head.version == Version::Http11 || says(b"keep-alive"))
}
