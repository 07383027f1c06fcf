//! One HTTP/1.1 exchange: a request that was encoded before the run, and a response that is parsed
//! and counted.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use lockgate_http::fields::{Fields, Known};
use lockgate_http::h1::body::{BodyDecoder, BodyPart};
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::h1::{HeadLimits, framing};
use lockgate_http::head::{HttpVersion, Method, ResponseHead};

use super::vectored_write::VectoredWrite;
use super::{ClientBuffers, ExchangeError, ExchangeStats, Transport};
use crate::expect::{Expect, Hasher};
use crate::result::FailureKind;
use crate::target::Http1Request;

/// Part of a response, as it comes.
pub(crate) enum ResponsePart<'a> {
    /// The head of the final response; never that of an interim one (1xx).
    Head(&'a ResponseHead),
    /// Bytes of the body, without its transfer coding.
    Data(&'a [u8]),
}

/// Sends a request and reads its response to the end; hashes the body where the check needs it.
///
/// # Errors
/// There is no whole response.
pub(super) async fn exchange(
    transport: &mut Transport,
    request: &Http1Request,
    expect: &Expect,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<(), ExchangeError> {
    let mut hasher = expect.wants_hash().then(Hasher::new);
    let answered = fetch(transport, request, buffers, stats, |piece| {
        if let (Some(hasher), ResponsePart::Data(data)) = (&mut hasher, piece) {
            hasher.update(data);
        }
        Ok(())
    })
    .await;
    stats.response.hash = hasher.map(Hasher::finish);
    answered
}

/// Sends a request and reads its response to the end, both at once: an origin may answer before it
/// has the whole request. `take` gets the parts of the response as they come.
///
/// # Errors
/// There is no whole response, or `take` refuses it.
pub(crate) async fn fetch(
    transport: &mut Transport,
    request: &Http1Request,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
    take: impl FnMut(ResponsePart<'_>) -> Result<(), ExchangeError>,
) -> Result<(), ExchangeError> {
    buffers.vary(request);
    let ClientBuffers {
        blocks,
        head,
        fields,
        body,
        ..
    } = buffers;
    let mut upload = VectoredWrite::new([&request.head, fields, request.body.or(body)]);
    let mut answer = ResponseReader::new(request.method, take);
    let answered = poll_fn(|cx| {
        // A server that reads no more may have answered. If not, reading reports that it is gone.
        let _ = upload.poll(cx, &mut transport.stream, blocks);
        stats.sent = upload.sent;
        answer.poll(cx, transport, head, stats)
    })
    .await;
    stats.response.length = answer.length;
    answered?;
    stats.reusable = answer.reusable && upload.finished && transport.inbox.is_empty();
    if !transport.inbox.is_empty() {
        let more = transport.inbox.bytes().len();
        return Err(ExchangeError::new(
            FailureKind::Length,
            format!("{more} unexpected bytes after the end of the response"),
        ));
    }
    Ok(())
}

/// Reader of one response, which hands its parts to `take`.
struct ResponseReader<F> {
    method: Method,
    progress: HeadProgress,
    /// Decoder of the final response's body, once its head is there.
    body: Option<BodyDecoder>,
    trailers: Fields,
    length: u64,
    take: F,
    /// Whether the server keeps the connection open.
    reusable: bool,
}

impl<F: FnMut(ResponsePart<'_>) -> Result<(), ExchangeError>> ResponseReader<F> {
    fn new(method: Method, take: F) -> Self {
        Self {
            method,
            progress: HeadProgress::default(),
            body: None,
            trailers: Fields::default(),
            length: 0,
            take,
            reusable: false,
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        head: &mut ResponseHead,
        stats: &mut ExchangeStats,
    ) -> Poll<Result<(), ExchangeError>> {
        loop {
            if self.take(transport, head, stats)? {
                return Poll::Ready(Ok(()));
            }
            if !ready!(transport.poll_read(cx, stats))? {
                return Poll::Ready(self.close(transport.exchanges));
            }
        }
    }

    /// Parses the bytes in the inbox; `true` when the response is whole.
    fn take(
        &mut self,
        transport: &mut Transport,
        head: &mut ResponseHead,
        stats: &mut ExchangeStats,
    ) -> Result<bool, ExchangeError> {
        let garbage = |text: String| ExchangeError::new(FailureKind::Garbage, text);
        while self.body.is_none() {
            if transport.inbox.is_empty() {
                return Ok(false);
            }
            let limits = HeadLimits::default();
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
            self.reusable = keeps(head);
            self.body = Some(BodyDecoder::new(length));
            (self.take)(ResponsePart::Head(head))?;
        }
        let Some(decoder) = &mut self.body else {
            return Ok(false);
        };
        let mut at = 0;
        let ended = loop {
            let coming = &transport.inbox.bytes()[at..];
            let part = decoder.decode(coming, &HeadLimits::default(), &mut self.trailers);
            match part.map_err(|error| garbage(error.to_string()))? {
                BodyPart::Data(range) => {
                    self.length += range.len() as u64;
                    (self.take)(ResponsePart::Data(&coming[range.clone()]))?;
                    at += range.end;
                }
                BodyPart::More(used) => {
                    at += used;
                    break false;
                }
                BodyPart::End(used) => {
                    at += used;
                    break true;
                }
            }
        };
        transport.inbox.consume(at);
        Ok(ended)
    }

    /// Ends the response with the connection, where the end of the connection is the end of the
    /// body. `before` is the number of exchanges that the connection had before.
    fn close(&mut self, before: u64) -> Result<(), ExchangeError> {
        self.reusable = false;
        match &self.body {
            Some(decoder) if decoder.may_close() => Ok(()),
            Some(_) => Err(ExchangeError::new(
                FailureKind::Closed,
                format!("closed after {} bytes of the body", self.length),
            )),
            None if before == 0 => Err(ExchangeError::new(
                FailureKind::Closed,
                "closed before a response",
            )),
            None => Err(ExchangeError::new(
                FailureKind::Closed,
                format!(
                    "closed before a response, on a connection that had carried {before} before"
                ),
            )),
        }
    }
}

/// Whether the connection stays open after this response (RFC 9112 §9.3).
fn keeps(head: &ResponseHead) -> bool {
    let says = |word: &[u8]| {
        head.fields
            .tokens(Known::Connection)
            .any(|token| token.eq_ignore_ascii_case(word))
    };
    !says(b"close") && (head.version == HttpVersion::Http11 || says(b"keep-alive"))
}
