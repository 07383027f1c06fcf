//! A body that is changed as it comes: decoded, changed, compressed.

use std::task::{Context, Poll};

use lockgate_content::StepProgress;
use lockgate_content::change::Changer;
use lockgate_content::coding::{ContentDecoder, ContentEncoder};
use lockgate_http::fields::Fields;
use lockgate_http_io::body::{BodyReader, ReadError, TransformError};

/// Bytes that a stage takes, and about as many as it gives, before they go on: a few bytes can
/// stand for gigabytes, and a body is never decoded as a whole.
const PIECE: usize = 16 * 1024;
/// Steps without a byte that could go on; then the worker's other connections have their turn.
const STEPS: usize = 64;

/// One thing that is done to a body.
pub enum BodyStage {
    /// A coding is undone.
    Decode(ContentDecoder),
    /// The body is rewritten.
    Change(Changer),
    /// A coding is applied.
    Encode(ContentEncoder),
}

impl BodyStage {
    /// Takes from the front of `input`, which is shortened by that, and appends what is ready to
    /// `out`.
    fn step(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<StepProgress, TransformError> {
        Ok(match self {
            Self::Decode(decoder) => decoder.step(input, out, PIECE)?,
            Self::Change(changer) => changer.step(input, out, PIECE)?,
            Self::Encode(encoder) => {
                encoder.write(std::mem::take(input), out);
                StepProgress::Done
            }
        })
    }

    /// The same when there is no more input.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<StepProgress, TransformError> {
        match self {
            Self::Decode(decoder) => decoder.end()?,
            Self::Change(changer) => return Ok(changer.finish(out, PIECE)?),
            Self::Encode(encoder) => encoder.finish(out),
        }
        Ok(StepProgress::Done)
    }
}

/// A stage with what it has made.
struct StageBuffer {
    stage: BodyStage,
    /// The output for the next stage, from `at` on.
    made: Vec<u8>,
    at: usize,
    /// Whether it has more to give of what it took.
    full: bool,
    /// Whether it has given all that there will be.
    ended: bool,
}

impl StageBuffer {
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
            self.full = self.stage.step(&mut left, &mut self.made)? == StepProgress::Full;
            return Ok(piece.len() - left.len());
        }
        self.ended = self.stage.finish(&mut self.made)? == StepProgress::Done;
        Ok(0)
    }
}

/// The transformation of a body: stages that take from each other, each a piece at a time, so that
/// memory is theirs and that of a piece between two of them, for a body of any length.
pub struct Transformation {
    buffers: Vec<StageBuffer>,
    /// Whether the encoder has something that no flush has brought out.
    holds: bool,
    /// Whether all of the body has come.
    over: bool,
}

impl Transformation {
    /// By these, one after the other; at least one.
    pub fn new(stages: Vec<BodyStage>) -> Self {
        let buffer = |stage| StageBuffer {
            stage,
            made: Vec::new(),
            at: 0,
            full: false,
            ended: false,
        };
        Self {
            buffers: stages.into_iter().map(buffer).collect(),
            holds: false,
            over: false,
        }
    }

    /// The body of `source` as it comes out.
    pub fn of<'a, S>(&'a mut self, source: &'a mut S) -> Transformed<'a, S> {
        Transformed {
            transformation: self,
            source,
        }
    }

    /// Bytes that its stages take from C's allocator, about, which none of Rust sees.
    pub fn native_bytes(&self) -> usize {
        let bytes = |buffer: &StageBuffer| match &buffer.stage {
            BodyStage::Decode(decoder) => decoder.native_bytes(),
            BodyStage::Encode(encoder) => encoder.native_bytes(),
            BodyStage::Change(_) => 0,
        };
        self.buffers.iter().map(bytes).sum()
    }

    /// The encoder, for another body.
    pub fn into_encoder(self) -> Option<ContentEncoder> {
        self.buffers
            .into_iter()
            .find_map(|buffer| match buffer.stage {
                BodyStage::Encode(encoder) => Some(encoder),
                BodyStage::Decode(_) | BodyStage::Change(_) => None,
            })
    }

    /// The output of the last stage.
    fn ready(&self) -> &[u8] {
        self.buffers.last().map_or(&[], StageBuffer::ready)
    }

    /// Whether all has.
    fn has_ended(&self) -> bool {
        self.buffers.last().is_none_or(|buffer| buffer.ended)
    }

    /// Lets the last stage that can do so go on, with this as the input of the first: how much of
    /// that was taken. Nothing where none can.
    fn work(&mut self, input: &[u8]) -> Result<Option<usize>, TransformError> {
        for number in (0..self.buffers.len()).rev() {
            let (before, rest) = self.buffers.split_at_mut(number);
            let Some(buffer) = rest.first_mut() else {
                break;
            };
            let (input, over) = match before.last() {
                Some(before) => (before.ready(), before.ended),
                None => (input, self.over),
            };
            if !buffer.has_work(input, over) {
                continue;
            }
            self.holds |= matches!(buffer.stage, BodyStage::Encode(_));
            let taken = buffer.work(input)?;
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
        if let Some(StageBuffer {
            stage: BodyStage::Encode(encoder),
            made,
            ..
        }) = self.buffers.last_mut()
        {
            encoder.flush(made);
        }
    }
}

/// A source over another.
pub struct Transformed<'a, S> {
    transformation: &'a mut Transformation,
    source: &'a mut S,
}

impl<S: BodyReader> BodyReader for Transformed<'_, S> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        let Self {
            transformation,
            source,
        } = self;
        for _ in 0..STEPS {
            if !transformation.ready().is_empty() || transformation.has_ended() {
                return Poll::Ready(Ok(()));
            }
            if let Some(taken) = transformation.work(source.data())? {
                if taken > 0 {
                    source.consume(taken);
                }
                continue;
            }
            match source.poll_data(cx) {
                Poll::Ready(Ok(())) => transformation.over = source.is_complete(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // More may come in hours: the bytes so far must not wait for it.
                Poll::Pending if std::mem::take(&mut transformation.holds) => {
                    transformation.flush()
                }
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
        if let Some(buffer) = self.transformation.buffers.last_mut() {
            buffer.consume(count);
        }
    }

    fn is_last(&self) -> bool {
        self.transformation.has_ended() && self.source.trailers().is_none()
    }

    fn is_complete(&self) -> bool {
        self.transformation.has_ended() && self.transformation.ready().is_empty()
    }

    fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    fn trailers(&self) -> Option<&Fields> {
        self.source.trailers()
    }

    fn release_memory(&mut self, cx: &mut Context<'_>) {
        self.source.release_memory(cx);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use lockgate_content::change::{ChangeError, ChangeRule, Changes, DocumentKind};
    use lockgate_content::coding::{Coded, Coding, DecodeError, decode_all, encode_all};

    use super::*;

    /// A body that comes in pieces; an empty one is a pause, until it is taken away.
    struct Pieces {
        left: VecDeque<Vec<u8>>,
        at: usize,
    }

    impl Pieces {
        fn new<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
            Self {
                left: pieces.into_iter().map(<[u8]>::to_vec).collect(),
                at: 0,
            }
        }
    }

    impl BodyReader for Pieces {
        fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
            if self.left.front().is_some_and(Vec::is_empty) {
                Poll::Pending
            } else {
                Poll::Ready(Ok(()))
            }
        }

        fn data(&self) -> &[u8] {
            self.left.front().map_or(&[], |piece| &piece[self.at..])
        }

        fn consume(&mut self, count: usize) {
            self.at += count;
            if self
                .left
                .front()
                .is_some_and(|piece| piece.len() == self.at)
            {
                self.left.pop_front();
                self.at = 0;
            }
        }

        fn is_last(&self) -> bool {
            false
        }

        fn is_complete(&self) -> bool {
            self.left.is_empty()
        }

        fn bytes_read(&self) -> u64 {
            0
        }

        fn trailers(&self) -> Option<&Fields> {
            None
        }

        fn release_memory(&mut self, _: &mut Context<'_>) {}
    }

    fn changer() -> BodyStage {
        let rule = ChangeRule::Text {
            find: b"@".to_vec(),
            with: "[at]".into(),
        };
        let changes = Changes::compile(&[rule]).unwrap();
        BodyStage::Change(Changer::new(&changes, DocumentKind::Other, &[], u64::MAX))
    }

    /// The output up to each pause and to the end, and the most that was ready at once.
    fn run(stages: Vec<BodyStage>, mut source: Pieces) -> Result<(Vec<Vec<u8>>, usize), ReadError> {
        let mut transformation = Transformation::new(stages);
        let (mut out, mut most) = (vec![Vec::new()], 0);
        loop {
            let mut body = transformation.of(&mut source);
            match body.poll_data(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) if body.is_complete() => return Ok((out, most)),
                Poll::Ready(Ok(())) => {
                    let count = body.data().len();
                    most = most.max(count);
                    out.last_mut().unwrap().extend_from_slice(body.data());
                    body.consume(count);
                }
                Poll::Pending if source.data().is_empty() => {
                    source.left.pop_front();
                    out.push(Vec::new());
                }
                // A turn that is given up.
                Poll::Pending => {}
            }
        }
    }

    #[test]
    fn body_transform_stages_agree_for_any_chunks() {
        let content = "a@b ".repeat(20_000);
        let coded = encode_all(Coding::Zstd, 3, content.as_bytes());
        for size in [1, 100, 1 << 20] {
            let stages = vec![
                BodyStage::Decode(ContentDecoder::new(Coded::Zstd, u64::MAX)),
                changer(),
                BodyStage::Encode(ContentEncoder::new(Coding::Gzip, 4)),
            ];
            let (out, _) = run(stages, Pieces::new(coded.chunks(size))).unwrap();
            let out = decode_all(Coded::Gzip, &out.concat(), u64::MAX).unwrap();
            assert!(out == content.replace('@', "[at]").as_bytes(), "{size}");
        }
    }

    #[test]
    fn a_pause_in_the_body_flushes_the_encoder() {
        for coding in Coding::ALL {
            let pieces = [&b"one"[..], b"", b"two", b"", b"three"];
            let stages = vec![changer(), BodyStage::Encode(ContentEncoder::new(coding, 4))];
            let (out, _) = run(stages, Pieces::new(pieces)).unwrap();
            let mut decoder = ContentDecoder::new(coding.into(), 100);
            let read = out.iter().map(|bytes| {
                let mut read = Vec::new();
                while decoder.step(&mut &bytes[..], &mut read, 100).unwrap() == StepProgress::Full {
                }
                String::from_utf8(read).unwrap()
            });
            let read: Vec<_> = read.filter(|read| !read.is_empty()).collect();
            assert_eq!(read, ["one", "two", "three"], "{coding:?}");
        }
    }

    /// A few bytes that unfold to many are not decoded at once.
    #[test]
    fn no_transform_stage_runs_far_ahead_of_the_next() {
        let zeros = vec![0; 20 << 20];
        for coding in Coding::ALL {
            let coded = encode_all(coding, 3, &zeros);
            let stages = vec![
                BodyStage::Decode(ContentDecoder::new(coding.into(), u64::MAX)),
                changer(),
            ];
            let (out, most) = run(stages, Pieces::new([&coded[..]])).unwrap();
            assert_eq!(out.iter().map(Vec::len).sum::<usize>(), zeros.len());
            assert!(most <= 4 * PIECE, "{coding:?}: {most}");
        }
    }

    #[test]
    fn a_transform_without_output_yields_to_other_tasks() {
        let coded = encode_all(Coding::Zstd, 3, &vec![0; 20 << 20]);
        let mut source = Pieces::new([&coded[..]]);
        let rule = ChangeRule::Text {
            find: vec![0],
            with: "".into(),
        };
        let changer = Changer::new(
            &Changes::compile(&[rule]).unwrap(),
            DocumentKind::Other,
            &[],
            u64::MAX,
        );
        let stages = vec![
            BodyStage::Decode(ContentDecoder::new(Coded::Zstd, u64::MAX)),
            BodyStage::Change(changer),
        ];
        let mut transformation = Transformation::new(stages);
        let mut body = transformation.of(&mut source);
        assert!(
            body.poll_data(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }

    #[test]
    fn a_transform_error_is_not_the_end_of_the_body() {
        let coded = encode_all(Coding::Gzip, 3, b"content");
        for (max, pieces, error) in [
            (3, &coded[..], DecodeError::TooLong),
            (9, &coded[..9], DecodeError::Truncated),
            (9, b"content", DecodeError::Invalid),
        ] {
            let stages = vec![BodyStage::Decode(ContentDecoder::new(Coded::Gzip, max))];
            match run(stages, Pieces::new([pieces])) {
                Err(ReadError::Transform(TransformError::Decode(found))) => {
                    assert_eq!(found, error)
                }
                other => panic!("{error:?}: {other:?}"),
            }
        }
        let rule = ChangeRule::Text {
            find: b"@".to_vec(),
            with: "[at]".into(),
        };
        let changes = Changes::compile(&[rule]).unwrap();
        let stages = vec![BodyStage::Change(Changer::new(
            &changes,
            DocumentKind::Other,
            &[],
            3,
        ))];
        let found = run(stages, Pieces::new([&b"@"[..]]));
        let too_long = TransformError::Change(ChangeError::TooLong);
        assert!(matches!(found, Err(ReadError::Transform(found)) if found == too_long));
    }

    #[test]
    fn an_empty_body_is_still_decodable_after_compression() {
        let stages = vec![
            changer(),
            BodyStage::Encode(ContentEncoder::new(Coding::Zstd, 3)),
        ];
        let (out, _) = run(stages, Pieces::new([])).unwrap();
        assert_eq!(decode_all(Coded::Zstd, &out.concat(), 0).unwrap(), b"");
    }
}
