//! A body that is compressed as it comes.

use std::task::{Context, Poll};

use lockgate_content::coding::Encoder;
use lockgate_http::coding::{Accepted, vary};
use lockgate_http::fields::{Fields, Known};

use super::Compress;
use super::compress::{made, named};
use crate::body::{ReadError, Source};

/// Bytes that are compressed before they are handed on.
const PIECE: usize = 32 * 1024;

/// What becomes of a body.
pub struct Encoding {
    encoder: Encoder,
    /// What was made and not used, from `at` on.
    out: Vec<u8>,
    at: usize,
    /// Whether something was taken that no flush has brought out.
    holds: bool,
    ended: bool,
}

impl Encoding {
    /// By this encoder, which stands at its beginning.
    pub fn new(encoder: Encoder) -> Self {
        Self { encoder, out: Vec::new(), at: 0, holds: false, ended: false }
    }

    /// The body of `source`, compressed.
    pub fn of<'a, S>(&'a mut self, source: &'a mut S) -> Encoded<'a, S> {
        Encoded { encoding: self, source }
    }

    /// The encoder, for another body.
    pub fn into_encoder(self) -> Encoder {
        self.encoder
    }
}

/// A source over another.
pub struct Encoded<'a, S> {
    encoding: &'a mut Encoding,
    source: &'a mut S,
}

impl<S: Source> Source for Encoded<'_, S> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        let Encoding { encoder, out, at, holds, ended } = &mut *self.encoding;
        if *at == out.len() {
            out.clear();
            *at = 0;
        }
        while out.is_empty() && !*ended {
            match self.source.poll_data(cx) {
                Poll::Ready(Ok(())) if self.source.is_over() => {
                    encoder.finish(out);
                    *ended = true;
                }
                Poll::Ready(Ok(())) => {
                    let data = self.source.data();
                    let taken = data.len().min(PIECE);
                    encoder.write(&data[..taken], out);
                    self.source.consume(taken);
                    *holds = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // More may come in hours: what has come must not wait for it.
                Poll::Pending if std::mem::take(holds) => encoder.flush(out),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.encoding.out[self.encoding.at..]
    }

    fn consume(&mut self, count: usize) {
        self.encoding.at += count;
    }

    fn is_last(&self) -> bool {
        self.encoding.ended && self.source.trailers().is_none()
    }

    fn is_over(&self) -> bool {
        self.encoding.ended && self.encoding.at == self.encoding.out.len()
    }

    fn taken(&self) -> u64 {
        self.source.taken()
    }

    fn trailers(&self) -> Option<&Fields> {
        self.source.trailers()
    }

    fn settle(&mut self, cx: &mut Context<'_>) {
        self.source.settle(cx);
    }
}

impl Compress {
    /// The coding that an origin's answer gets for who asked with these fields, and its level; the answer's fields are made
    /// to say so. Nothing for what has a coding, is a part, or is not to be transformed (RFC 9110 §7.7).
    pub fn begin(
        &self,
        asked: &Fields,
        status: u16,
        fields: &mut Fields,
    ) -> Option<(lockgate_content::coding::Coding, u8)> {
        let value = |name: &[u8]| fields.named(name).next();
        let len = value(b"content-length").and_then(|len| std::str::from_utf8(len).ok()?.parse().ok());
        let whole = !matches!(status, 204 | 206 | 304) && value(b"content-range").is_none();
        let plain = fields.named(b"content-encoding").all(|coding| coding.eq_ignore_ascii_case(b"identity"));
        let takes = value(b"content-type").is_some_and(|content_type| self.takes(content_type, len));
        let fixed = fields
            .named(b"cache-control")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"));
        if !whole || !plain || !takes || fixed {
            return None;
        }
        vary(fields, b"Accept-Encoding");
        let offered = self.codings.iter().map(|(coding, _)| named(*coding));
        let offered: Vec<_> = offered.chain([lockgate_http::coding::Coding::Identity]).collect();
        let coding = made(Accepted::of(asked).best(&offered)?)?;
        fields.remove(Known::ContentLength);
        // Digests are of the bytes as they were.
        let gone: [&[u8]; 5] =
            [b"accept-ranges", b"content-encoding", b"content-md5", b"digest", b"content-digest"];
        fields.retain(|field| !gone.iter().any(|name| field.name.eq_ignore_ascii_case(name)));
        weaken(fields);
        fields.append(b"Content-Encoding", coding.token().as_bytes());
        Some((coding, self.fast_level(coding)))
    }
}

/// A tag of other bytes that mean the same (RFC 9110 §8.8.1).
pub fn weaken(fields: &mut Fields) {
    fields.revise(|field, value| {
        let strong = field.name.eq_ignore_ascii_case(b"etag") && field.value.starts_with(b"\"");
        if strong {
            value.extend_from_slice(b"W/");
            value.extend_from_slice(field.value);
        }
        strong
    });
}
