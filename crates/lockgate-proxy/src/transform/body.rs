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

/// Bytes that a stage takes, and about as many as it gives, before what it gave goes on: a few bytes can stand for
/// gigabytes, and nobody waits for all of them.
const PIECE: usize = 16 * 1024;
/// Steps without a byte that could go on; then the worker's other connections have their turn.
const STEPS: usize = 64;

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
    /// Takes from the front of `input`, which is shortened by that, and appends what is ready to `out`.
    fn step(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Progress, TransformError> {
        Ok(match self {
            Self::Decode(decoder) => decoder.step(input, out, PIECE)?,
            Self::Change(changer) => changer.step(input, out, PIECE)?,
            Self::Encode(encoder) => {
                encoder.write(std::mem::take(input), out);
                Progress::Done
            }
        })
    }

    /// The same when there is no more input.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<Progress, TransformError> {
        match self {
            Self::Decode(decoder) => decoder.end()?,
            Self::Change(changer) => return Ok(changer.finish(out, PIECE)?),
            Self::Encode(encoder) => encoder.finish(out),
        }
        Ok(Progress::Done)
    }
}

/// A stage with what it has made.
struct Place {
    stage: Stage,
    /// What it has made for the next one, from `at` on.
    made: Vec<u8>,
    at: usize,
    /// Whether it has more to give of what it took.
    full: bool,
    /// Whether it has given all that there will be.
    ended: bool,
}

impl Place {
    fn ready(&self) -> &[u8] {
        &self.made[self.at..]
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
        if self.at == self.made.len() {
            self.made.clear();
            self.at = 0;
        }
    }

    /// Whether it can go on, with this to take; `over` if nothing follows it.
    fn has_work(&self, input: &[u8], over: bool) -> bool {
        !self.ended && (self.full || !input.is_empty() || over)
    }

    /// Goes on: how much of `input` was taken.
    fn work(&mut self, input: &[u8]) -> Result<usize, TransformError> {
        let piece = &input[..input.len().min(PIECE)];
        if self.full || !piece.is_empty() {
            let mut left = piece;
            self.full = self.stage.step(&mut left, &mut self.made)? == Progress::Full;
            return Ok(piece.len() - left.len());
        }
        self.ended = self.stage.finish(&mut self.made)? == Progress::Done;
        Ok(0)
    }
}

/// What becomes of a body: stages that take from each other, each a piece at a time, so that memory is theirs and that of a
/// piece between two of them, whatever comes.
pub struct Transformation {
    places: Vec<Place>,
    /// Whether the encoder has something that no flush has brought out.
    holds: bool,
    /// Whether all of the body has come.
    over: bool,
}

impl Transformation {
    /// By these, one after the other; at least one.
    pub fn new(stages: Vec<Stage>) -> Self {
        let place = |stage| Place { stage, made: Vec::new(), at: 0, full: false, ended: false };
        Self { places: stages.into_iter().map(place).collect(), holds: false, over: false }
    }

    /// The body of `source` as it comes out.
    pub fn of<'a, S>(&'a mut self, source: &'a mut S) -> Transformed<'a, S> {
        Transformed { transformation: self, source }
    }

    /// The encoder, for another body.
    pub fn into_encoder(self) -> Option<Encoder> {
        self.places.into_iter().find_map(|place| match place.stage {
            Stage::Encode(encoder) => Some(encoder),
            Stage::Decode(_) | Stage::Change(_) => None,
        })
    }

    /// What has come out.
    fn ready(&self) -> &[u8] {
        self.places.last().map_or(&[], Place::ready)
    }

    /// Whether all has.
    fn has_ended(&self) -> bool {
        self.places.last().is_none_or(|place| place.ended)
    }

    /// Lets the last stage that can do so go on, with this as the input of the first: how much of that was taken. Nothing
    /// where none can.
    fn work(&mut self, input: &[u8]) -> Result<Option<usize>, TransformError> {
        for number in (0..self.places.len()).rev() {
            let (before, rest) = self.places.split_at_mut(number);
            let Some(place) = rest.first_mut() else { break };
            let (input, over) = match before.last() {
                Some(before) => (before.ready(), before.ended),
                None => (input, self.over),
            };
            if !place.has_work(input, over) {
                continue;
            }
            self.holds |= matches!(place.stage, Stage::Encode(_));
            let taken = place.work(input)?;
            return Ok(Some(match before.last_mut() {
                Some(before) => {
                    before.consume(taken);
                    0
                }
                None => taken,
            }));
        }
        Ok(None)
    }

    /// Brings out what the encoder holds back.
    fn flush(&mut self) {
        if let Some(Place { stage: Stage::Encode(encoder), made, .. }) = self.places.last_mut() {
            encoder.flush(made);
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
        for _ in 0..STEPS {
            if !transformation.ready().is_empty() || transformation.has_ended() {
                return Poll::Ready(Ok(()));
            }
            if let Some(taken) = transformation.work(source.data())? {
                source.consume(taken);
                continue;
            }
            match source.poll_data(cx) {
                Poll::Ready(Ok(())) => transformation.over = source.is_over(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // More may come in hours: what has come must not wait for it.
                Poll::Pending if std::mem::take(&mut transformation.holds) => transformation.flush(),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn data(&self) -> &[u8] {
        self.transformation.ready()
    }

    fn consume(&mut self, count: usize) {
        if let Some(place) = self.transformation.places.last_mut() {
            place.consume(count);
        }
    }

    fn is_last(&self) -> bool {
        self.transformation.has_ended() && self.source.trailers().is_none()
    }

    fn is_over(&self) -> bool {
        self.transformation.has_ended() && self.transformation.ready().is_empty()
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

    /// An origin that finds the tag which [`begin`](Self::begin) has made weak says its own in a 304. Who asks must see the
    /// one of what it has (RFC 9110 §15.4.5), or it does not know what is still good (RFC 9111 §4.3.4).
    pub fn recall(&self, asked: &Fields, status: u16, fields: &mut Fields) {
        let strong = fields.named(b"etag").next().filter(|tag| status == 304 && tag.starts_with(b"\""));
        let Some(weak) = strong.map(|tag| [b"W/", tag].concat()) else { return };
        if asked.named(b"if-none-match").any(|tags| memchr::memmem::find(tags, &weak).is_some()) {
            vary(fields, b"Accept-Encoding");
            weaken(fields);
        }
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
    let gone: [&[u8]; 6] =
        [b"accept-ranges", b"content-encoding", b"content-md5", b"digest", b"content-digest", b"repr-digest"];
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
