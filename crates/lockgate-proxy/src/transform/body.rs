//! A body that is changed as it comes: decoded, changed, compressed.

use std::task::{Context, Poll};

use lockgate_content::Progress;
use lockgate_content::change::{ChangeError, Changer};
use lockgate_content::coding::{DecodeError, Decoder, Encoder};
use lockgate_http::coding::{Accepted, vary};
use lockgate_http::fields::{Fields, Known};

use super::Compress;
use super::compress::{made, named};
use crate::body::{ReadError, Source};

/// Bytes that are taken at once. What they may grow to is bounded by the decoder and the changer.
const PIECE: usize = 16 * 1024;

/// One thing that is done to a body.
pub enum Stage {
    /// Its coding is undone.
    Decode(Decoder),
    /// It is changed.
    Change(Changer),
    /// It gets a coding.
    Encode(Encoder),
}

/// Why a body cannot be transformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// What came is not in the coding that was said.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// What comes out is too much.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl Stage {
    fn write(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        match self {
            Self::Decode(decoder) => while decoder.step(&mut input, out, PIECE)? == Progress::Full {},
            Self::Change(changer) => while changer.step(&mut input, out, PIECE)? == Progress::Full {},
            Self::Encode(encoder) => encoder.write(input, out),
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        match self {
            Self::Decode(decoder) => decoder.end()?,
            Self::Change(changer) => while changer.finish(out, PIECE)? == Progress::Full {},
            Self::Encode(encoder) => encoder.finish(out),
        }
        Ok(())
    }
}

/// What becomes of a body.
pub struct Transformation {
    stages: Vec<Stage>,
    /// What was made and not used, from `at` on.
    out: Vec<u8>,
    at: usize,
    /// What one stage has made for the next.
    between: Vec<u8>,
    /// Whether the encoder has something that no flush has brought out.
    holds: bool,
    ended: bool,
}

impl Transformation {
    /// By these, one after the other.
    pub fn new(stages: Vec<Stage>) -> Self {
        Self { stages, out: Vec::new(), at: 0, between: Vec::new(), holds: false, ended: false }
    }

    /// The body of `source` as it comes out.
    pub fn of<'a, S>(&'a mut self, source: &'a mut S) -> Transformed<'a, S> {
        Transformed { transformation: self, source }
    }

    /// The encoder, for another body.
    pub fn into_encoder(self) -> Option<Encoder> {
        self.stages.into_iter().find_map(|stage| match stage {
            Stage::Encode(encoder) => Some(encoder),
            Stage::Decode(_) | Stage::Change(_) => None,
        })
    }

    /// Takes what has come of the body; `last` if that is all.
    fn take(&mut self, input: &[u8], last: bool) -> Result<(), TransformError> {
        let Self { stages, out, between, .. } = self;
        let mut before: Option<Vec<u8>> = None;
        let count = stages.len();
        for (number, stage) in stages.iter_mut().enumerate() {
            let mut made = if number + 1 == count { std::mem::take(out) } else { std::mem::take(between) };
            stage.write(before.as_deref().unwrap_or(input), &mut made)?;
            if last {
                stage.finish(&mut made)?;
            }
            if number + 1 == count {
                *out = made;
            } else if let Some(mut spent) = before.replace(made) {
                spent.clear();
                *between = spent;
            }
        }
        if let Some(mut spent) = before {
            spent.clear();
            *between = spent;
        }
        self.holds = !last;
        Ok(())
    }

    fn flush(&mut self) {
        if let Some(Stage::Encode(encoder)) = self.stages.last_mut() {
            encoder.flush(&mut self.out);
        }
    }
}

/// A source over another.
pub struct Transformed<'a, S> {
    transformation: &'a mut Transformation,
    source: &'a mut S,
}

impl<S: Source> Source for Transformed<'_, S> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        let Self { transformation, source } = self;
        if transformation.at == transformation.out.len() {
            transformation.out.clear();
            transformation.at = 0;
        }
        while transformation.out.is_empty() && !transformation.ended {
            match source.poll_data(cx) {
                Poll::Ready(Ok(())) if source.is_over() => {
                    transformation.take(b"", true)?;
                    transformation.ended = true;
                }
                Poll::Ready(Ok(())) => {
                    let data = source.data();
                    let taken = data.len().min(PIECE);
                    transformation.take(&data[..taken], false)?;
                    source.consume(taken);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // More may come in hours: what has come must not wait for it.
                Poll::Pending if std::mem::take(&mut transformation.holds) => transformation.flush(),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.transformation.out[self.transformation.at..]
    }

    fn consume(&mut self, count: usize) {
        self.transformation.at += count;
    }

    fn is_last(&self) -> bool {
        self.transformation.ended && self.source.trailers().is_none()
    }

    fn is_over(&self) -> bool {
        self.transformation.ended && self.transformation.at == self.transformation.out.len()
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
        if !whole || !plain || !takes || is_fixed(fields) {
            return None;
        }
        vary(fields, b"Accept-Encoding");
        let offered = self.codings.iter().map(|(coding, _)| named(*coding));
        let offered: Vec<_> = offered.chain([lockgate_http::coding::Coding::Identity]).collect();
        let coding = made(Accepted::of(asked).best(&offered)?)?;
        became_another(fields);
        weaken(fields);
        fields.append(b"Content-Encoding", coding.token().as_bytes());
        Some((coding, self.fast_level(coding)))
    }
}

/// Whether nobody on the way may change it (RFC 9111 §5.2.2.6).
pub fn is_fixed(fields: &Fields) -> bool {
    fields
        .named(b"cache-control")
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// Takes out what was said of the bytes that are no longer these: their number, their parts, their coding, their digests.
pub fn became_another(fields: &mut Fields) {
    fields.remove(Known::ContentLength);
    let gone: [&[u8]; 5] =
        [b"accept-ranges", b"content-encoding", b"content-md5", b"digest", b"content-digest"];
    fields.retain(|field| !gone.iter().any(|name| field.name.eq_ignore_ascii_case(name)));
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
