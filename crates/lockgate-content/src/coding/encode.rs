//! Encoders of content, piece by piece or whole.
//!
//! A [`ContentEncoder`] encodes one message after the other; [`Encoders`] keeps idle ones. The
//! same calls give the same bytes with a used encoder as with a new one.
//!
//! # Memory of an encoder
//! Bounded by the level: windows reach back 1 MB with zstd, 256 KB with br and 32 KB with gzip,
//! however long the message is. In KB, for a message of unknown length (`cargo run --release
//! --example speed memory`); zstd takes less for a shorter one:
//!
//! | | fastest | [fast](Coding::fast_level) | [kept](Coding::kept_level) | smallest |
//! |---|---|---|---|---|
//! | zstd | 1,430 | 2,150 | 3,960 | 18,300 |
//! | br | 210 | 2,170 | 2,700 | 6,800 |
//! | gzip | 350 | 390 | 380 | 380 |

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderStateStruct};
use flate2::{Compress, Compression, FlushCompress, Status};
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::Coding;

/// The reach of zstd's matches as a power of two: 1 MB.
const ZSTD_WINDOW_LOG: u32 = 20;
/// Brotli's window as a power of two: 256 KB, at any length. With 1 MB an encoder takes three times
/// the memory and holds back four times as much between two flushes. With 64 KB or less, levels 5
/// to 8 take tables of 25 MB, and two milliseconds to clear them for a body of 1 KB.
const BROTLI_WINDOW_LOG: i32 = 18;
/// deflate has one window: 32 KB.
const GZIP_WINDOW_LOG: u8 = 15;
/// The room that is made for output before each step.
const STEP: usize = 16 * 1024;
/// The least room for a step; also more than deflate needs for the end of a flush.
const LEAST_ROOM: usize = 1024;
/// The reason why none of zstd's calls can fail: it allocates before its first byte and aborts like
/// us without memory, its settings are within their bounds, and its buffers are ours.
const ZSTD_CALLED_RIGHT: &str = "zstd fails when called wrongly only";

/// Encodes one message after the other with the same coding and level.
///
/// A message is any number of [`write`](Self::write) and [`flush`](Self::flush), then
/// [`finish`](Self::finish); or one [`whole`](Self::whole). [`begin`](Self::begin) drops an
/// unfinished message.
pub struct ContentEncoder {
    coding: Coding,
    level: u8,
    engine: EncodeEngine,
}

enum EncodeEngine {
    Zstd(CCtx<'static>),
    /// For one message only: created by its first bytes.
    Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>),
    Gzip(Compress),
}

impl ContentEncoder {
    /// An encoder at the beginning of a message of unknown length. A level beyond
    /// [`Coding::levels`] becomes the nearest valid one.
    pub fn new(coding: Coding, level: u8) -> Self {
        let level = level.clamp(*coding.levels().start(), *coding.levels().end());
        let engine = match coding {
            Coding::Zstd => EncodeEngine::Zstd(zstd_context(level)),
            Coding::Brotli => EncodeEngine::Brotli(brotli_state(level, None)),
            Coding::Gzip => EncodeEngine::Gzip(Compress::new_gzip(
                Compression::new(level.into()),
                GZIP_WINDOW_LOG,
            )),
        };
        Self {
            coding,
            level,
            engine,
        }
    }

    /// The coding that it was made for.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The level, within [`Coding::levels`].
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Bytes from C's allocator, about, which Rust's allocator does not count: see the
    /// documentation of the module.
    pub fn native_bytes(&self) -> usize {
        match &self.engine {
            EncodeEngine::Zstd(_) => zstd_bytes(self.level),
            EncodeEngine::Brotli(_) | EncodeEngine::Gzip(_) => 0,
        }
    }

    /// Begins a message of about `length` bytes, if that is known: a short one needs less memory
    /// and time. The length is a hint; the message may be longer or shorter.
    pub fn begin(&mut self, length: Option<u64>) {
        match &mut self.engine {
            EncodeEngine::Zstd(context) => {
                context
                    .reset(ResetDirective::SessionOnly)
                    .expect("a session can end at any time");
                set_zstd(context, CParameter::SrcSizeHint(expected(length)));
            }
            EncodeEngine::Brotli(state) => *state = brotli_state(self.level, length),
            EncodeEngine::Gzip(state) => state.reset(),
        }
    }

    /// Takes `input` and appends to `out` the output that is ready, which may be none.
    pub fn write(&mut self, input: &[u8], out: &mut Vec<u8>) {
        match &mut self.engine {
            EncodeEngine::Zstd(context) => {
                let mut input = InBuffer::around(input);
                while input.pos < input.src.len() {
                    zstd_step(out, |out| context.compress_stream(out, &mut input));
                }
            }
            EncodeEngine::Brotli(state) => brotli_run(
                state,
                BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
                input,
                out,
            ),
            EncodeEngine::Gzip(state) => {
                let before = state.total_in();
                loop {
                    let taken = usize::try_from(state.total_in() - before).unwrap_or(input.len());
                    let Some(rest) = input.get(taken..).filter(|rest| !rest.is_empty()) else {
                        break;
                    };
                    gzip_step(state, rest, FlushCompress::None, out);
                }
            }
        }
    }

    /// Appends all pending output, so that the reader has everything so far: for responses that
    /// come in pieces, such as server-sent events. Costs a few bytes each time, and compression.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        match &mut self.engine {
            EncodeEngine::Zstd(context) => {
                while zstd_step(out, |out| context.flush_stream(out)) > 0 {}
            }
            EncodeEngine::Brotli(state) => brotli_run(
                state,
                BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
                &[],
                out,
            ),
            // The flush is done when it leaves room: with none left there may be more.
            EncodeEngine::Gzip(state) => loop {
                gzip_step(state, &[], FlushCompress::Sync, out);
                if out.len() < out.capacity() {
                    break;
                }
            },
        }
    }

    /// Appends the end of the message. The encoder is then at the beginning of another one of
    /// unknown length.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        match &mut self.engine {
            EncodeEngine::Zstd(context) => {
                while zstd_step(out, |out| context.end_stream(out)) > 0 {}
            }
            EncodeEngine::Brotli(state) => brotli_run(
                state,
                BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
                &[],
                out,
            ),
            EncodeEngine::Gzip(state) => {
                while gzip_step(state, &[], FlushCompress::Finish, out) != Status::StreamEnd {}
            }
        }
        self.begin(None);
    }

    /// Appends `input` as a whole message: smaller and faster than in pieces, since its length is
    /// known.
    pub fn whole(&mut self, input: &[u8], out: &mut Vec<u8>) {
        self.begin(Some(input.len() as u64));
        if let EncodeEngine::Zstd(context) = &mut self.engine {
            // zstd chooses its tables by the size, and writes it into the frame's header.
            context
                .set_pledged_src_size(Some(input.len() as u64))
                .expect("right after a reset");
        }
        self.write(input, out);
        self.finish(out);
    }
}

/// The memory of zstd's context at a level: from the table; between two of its levels the greater.
fn zstd_bytes(level: u8) -> usize {
    let kilobytes = match level {
        0..=1 => 1_430,
        2..=3 => 2_150,
        4..=7 => 3_960,
        _ => 18_300,
    };
    kilobytes * 1_000
}

/// Idle encoders of one worker: a new one costs more than a short message does.
///
/// Keeps at most [`KEPT`] of each coding, and none of brotli: they cannot be used again.
#[derive(Default)]
pub struct Encoders {
    idle: Vec<ContentEncoder>,
}

/// The most idle encoders of a coding in [`Encoders`].
pub const KEPT: usize = 4;

impl Encoders {
    /// A set without encoders: they are made on demand.
    pub fn new() -> Self {
        Self::default()
    }

    /// An encoder at the beginning of a message of about `length` bytes.
    pub fn take(&mut self, coding: Coding, level: u8, length: Option<u64>) -> ContentEncoder {
        let level = level.clamp(*coding.levels().start(), *coding.levels().end());
        let same = |encoder: &ContentEncoder| encoder.coding == coding && encoder.level == level;
        let mut encoder = match self.idle.iter().rposition(same) {
            Some(at) => self.idle.swap_remove(at),
            None => ContentEncoder::new(coding, level),
        };
        encoder.begin(length);
        encoder
    }

    /// The number of idle encoders.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Takes an encoder back, whether or not its message was finished.
    pub fn give_back(&mut self, encoder: ContentEncoder) {
        let kept = self
            .idle
            .iter()
            .filter(|idle| idle.coding == encoder.coding)
            .count();
        if encoder.coding != Coding::Brotli && kept < KEPT {
            self.idle.push(encoder);
        }
    }
}

/// Encodes `input` as one message, for content that is kept. The result has no spare capacity.
pub fn encode_all(coding: Coding, level: u8, input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ContentEncoder::new(coding, level).whole(input, &mut out);
    out.shrink_to_fit();
    out
}

/// The size that zstd makes its tables for: without it, they would take 84 MB at level 19.
fn expected(length: Option<u64>) -> u32 {
    let window = 1 << ZSTD_WINDOW_LOG;
    length.map_or(window, |length| {
        u32::try_from(length).unwrap_or(window).clamp(1, window)
    })
}

fn zstd_context(level: u8) -> CCtx<'static> {
    let mut context = CCtx::create();
    set_zstd(&mut context, CParameter::CompressionLevel(level.into()));
    set_zstd(&mut context, CParameter::WindowLog(ZSTD_WINDOW_LOG));
    set_zstd(&mut context, CParameter::SrcSizeHint(expected(None)));
    context
}

fn set_zstd(context: &mut CCtx<'static>, parameter: CParameter) {
    context.set_parameter(parameter).expect(ZSTD_CALLED_RIGHT);
}

/// One call with room for output; returns how much it holds back.
fn zstd_step(
    out: &mut Vec<u8>,
    call: impl FnOnce(&mut OutBuffer<'_, Vec<u8>>) -> Result<usize, zstd::zstd_safe::ErrorCode>,
) -> usize {
    make_room(out);
    let at = out.len();
    call(&mut OutBuffer::around_pos(out, at)).expect(ZSTD_CALLED_RIGHT)
}

fn brotli_state(level: u8, length: Option<u64>) -> Box<BrotliEncoderStateStruct<StandardAlloc>> {
    let mut state = Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()));
    state.params.quality = level.into();
    state.params.lgwin = BROTLI_WINDOW_LOG;
    state.params.size_hint = length.map_or(0, |length| {
        usize::try_from(length).unwrap_or(usize::MAX).min(1 << 30)
    });
    state
}

/// Gives `input`, or flushes or ends the message, and takes all output.
fn brotli_run(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    operation: BrotliEncoderOperation,
    input: &[u8],
    out: &mut Vec<u8>,
) {
    let (mut left, mut taken) = (input.len(), 0);
    loop {
        // With no room for output brotli keeps all of it in its own storage, from where it is
        // copied once.
        let (mut room, mut given, mut total) = (0, 0, None);
        let done = state.compress_stream(
            operation,
            &mut left,
            input,
            &mut taken,
            &mut room,
            &mut [],
            &mut given,
            &mut total,
            &mut |_, _, _, _| (),
        );
        assert!(done, "brotli fails when called wrongly only");
        loop {
            let mut len = 0;
            let ready = state.take_output(&mut len);
            if len == 0 {
                break;
            }
            out.extend_from_slice(&ready[..len]);
        }
        let ended =
            operation != BrotliEncoderOperation::BROTLI_OPERATION_FINISH || state.is_finished();
        if left == 0 && ended {
            break;
        }
    }
}

fn gzip_step(
    state: &mut Compress,
    input: &[u8],
    flush: FlushCompress,
    out: &mut Vec<u8>,
) -> Status {
    make_room(out);
    state
        .compress_vec(input, out, flush)
        .expect("deflate fails when called wrongly only")
}

fn make_room(out: &mut Vec<u8>) {
    if out.capacity() - out.len() < LEAST_ROOM {
        out.reserve(STEP);
    }
}
