//! The state of one connection (RFC 9113), without IO: requests become bytes, bytes become answers.
//!
//! Requests have places, from 0 on, which are the caller's; what becomes of them is told by
//! these.

use std::collections::VecDeque;

use fastrand::Rng;
use lockgate_http::hpack::{Decoder, Encoder, TABLE_SIZE};

use super::super::{ExchangeStats, Fault};
use super::frame::{self, Frame, FrameType};
use super::stream::{BodySource, BodyUse, Grpc, Kept, Sending, Stream, Streams};
use crate::expect::Hasher;
use crate::result::Failure;
use crate::target::{Body, Http2Request};

/// The most that a window can be (§6.9.1).
pub(super) const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// What the windows of a connection are before anything was said (§6.9.2).
const USUAL_WINDOW: u32 = 65_535;
/// Streams at once before the server has said how many it takes: some refuse more than this.
const USUAL_STREAMS: usize = 100;
/// A head, as §6.5.2 counts it, and the frames that it comes in.
pub(super) const HEAD_LIST: usize = 64 * 1024;
/// Of bodies, no more is gathered for one write.
const GATHERED: usize = 64 * 1024;
/// A server that makes us say more than this and does not take it is not listened to.
const UNSENT: usize = 256 * 1024;

/// What may come before the server is given more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    /// Of one response.
    pub(crate) stream: u32,
    /// Of all of them together; no less than [`USUAL_WINDOW`].
    pub(crate) connection: u32,
}

impl Windows {
    /// Nobody is to wait for us.
    pub(crate) const LARGE: Self = Self {
        stream: 1 << 30,
        connection: LARGEST_WINDOW,
    };
}

/// What became of a request.
pub(crate) struct Finished {
    pub(crate) place: usize,
    pub(crate) stats: ExchangeStats,
    /// What nobody has looked at, of a response that was to be kept.
    pub(crate) kept: Option<Kept>,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// A whole response came.
    Answered,
    Failed(Fault),
    /// The server has said that it did nothing about it, because the connection ends: it may be
    /// asked again (§6.8). What to say where it is not.
    Unprocessed(Fault),
}

/// What the server has said of itself.
pub(super) struct PeerSettings {
    /// What it takes of a body before it says that it takes more.
    pub(super) window: u32,
    /// Streams at once.
    pub(super) streams: usize,
}

/// A head whose end has not come.
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) bytes: Vec<u8>,
    /// Bytes of its frames so far.
    pub(super) wire: usize,
}

/// The head of a request as it was sent last, and how often the table had changed by then.
#[derive(Clone, Default)]
struct HeaderState {
    block: Vec<u8>,
    changes: Option<u64>,
}

/// One connection.
pub(crate) struct Connection {
    /// To be sent, from `sent` on.
    pub(super) out: Vec<u8>,
    sent: usize,
    /// Whether nobody takes anything any more.
    is_deaf: bool,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    /// Of each target, if it was asked for.
    heads: Vec<HeaderState>,
    pub(super) streams: Streams,
    /// Places of those with a body that can go on.
    pub(super) uploads: VecDeque<usize>,
    /// The number of the next stream.
    pub(super) next: u32,
    pub(super) peer: PeerSettings,
    /// Whether it has said so itself.
    pub(super) has_settings: bool,
    /// What the server takes of all bodies together as yet.
    pub(super) window: i64,
    pub(super) windows: Windows,
    /// Bytes of responses that its window was not given back for.
    pub(super) taken: u32,
    pub(super) block: Option<Block>,
    /// What is still to come of a body's frame.
    pub(super) rest: Option<Frame>,
    /// Why the server ends it, once it has said so (§6.8).
    pub(super) goodbye: Option<u32>,
    /// Frames of responses that have come.
    pub(super) heard: u64,
    finished: VecDeque<Finished>,
}

impl Connection {
    /// For up to so many requests at once.
    pub(crate) fn new(places: usize, windows: Windows) -> Self {
        let mut out = frame::PREFACE.to_vec();
        let settings = [
            (frame::ENABLE_PUSH, 0),
            (frame::INITIAL_WINDOW_SIZE, windows.stream),
            (frame::MAX_HEADER_LIST_SIZE, HEAD_LIST as u32),
        ];
        frame::begin(&mut out, settings.len() * 6, FrameType::Settings, 0, 0);
        for (name, value) in settings {
            out.extend_from_slice(&name.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        frame::number(
            &mut out,
            FrameType::WindowUpdate,
            0,
            windows.connection - USUAL_WINDOW,
        );
        Self {
            out,
            sent: 0,
            is_deaf: false,
            encoder: Encoder::new(),
            decoder: Decoder::new(TABLE_SIZE),
            heads: Vec::new(),
            streams: Streams::new(places),
            uploads: VecDeque::new(),
            next: 1,
            peer: PeerSettings {
                window: USUAL_WINDOW,
                streams: USUAL_STREAMS,
            },
            has_settings: false,
            window: i64::from(USUAL_WINDOW),
            windows,
            taken: 0,
            block: None,
            rest: None,
            goodbye: None,
            heard: 0,
            finished: VecDeque::new(),
        }
    }

    /// Requests under way.
    pub(crate) fn active(&self) -> usize {
        self.streams.active
    }

    /// Whether another request may begin now.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_ending() && self.streams.active < self.peer.streams
    }

    /// Whether no other request ever may.
    pub(crate) fn is_ending(&self) -> bool {
        self.goodbye.is_some() || self.is_deaf || self.next > u32::MAX >> 1
    }

    /// How many streams the server takes at once, where it has said so.
    pub(super) fn allowed(&self) -> Option<usize> {
        Some(self.peer.streams).filter(|streams| self.has_settings && *streams < usize::MAX)
    }

    /// What is to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    pub(super) fn is_full(&self) -> bool {
        self.unsent().len() > UNSENT
    }

    /// So many bytes have left.
    pub(super) fn note_sent(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
    }

    pub(super) fn give_up_sending(&mut self) {
        self.is_deaf = true;
        self.out.clear();
        self.sent = 0;
    }

    /// The status of a response that has begun and not ended, and what nobody has looked at of one
    /// that is kept.
    pub(crate) fn look(&mut self, place: usize) -> Option<(u16, Option<&mut Kept>)> {
        let stream = self.streams.get(place)?;
        Some((stream.stats.response.status?, stream.kept.as_mut()))
    }

    /// The next request whose end has come.
    pub(crate) fn take_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Begins a request of the `target`th target, for a place that has none. It must have been
    /// allowed: [`has_room`](Self::has_room).
    pub(crate) fn begin(
        &mut self,
        place: usize,
        target: usize,
        request: &Http2Request,
        used: BodyUse,
        rng: &mut Rng,
    ) {
        let id = self.next;
        self.next += 2;
        let body = match &request.body {
            body if body.is_empty() => None,
            Body::Fixed(bytes) => Some(BodySource::Shared(bytes.clone())),
            Body::Random(length) => {
                let mut made = vec![0; *length];
                rng.fill(&mut made);
                Some(BodySource::Owned(made))
            }
        };
        let before = self.out.len();
        self.write_head(id, target, request, body.is_none(), rng);
        let mut stats = ExchangeStats {
            connected: true,
            ..ExchangeStats::default()
        };
        stats.sent = (self.out.len() - before) as u64;
        if self.is_deaf {
            self.give_up_sending();
        }
        if body.is_some() {
            self.uploads.push_back(place);
        }
        let stream = Stream {
            id,
            method: request.method,
            stats,
            hasher: (used == BodyUse::Hash).then(Hasher::new),
            kept: (used == BodyUse::Keep).then(Kept::default),
            declared: None,
            grpc: request.is_grpc.then(Grpc::default),
            taken: 0,
            window: i64::from(self.peer.window),
            body: body.map(Sending::new),
            heard: self.heard,
        };
        self.streams.put(place, stream);
    }

    /// HEADERS, and CONTINUATION behind it where that is too long.
    fn write_head(
        &mut self,
        id: u32,
        target: usize,
        request: &Http2Request,
        ends: bool,
        rng: &mut Rng,
    ) {
        let Self {
            out,
            encoder,
            heads,
            ..
        } = self;
        let flags = if ends { frame::END_STREAM } else { 0 };
        let start = out.len() + frame::HEAD;
        frame::begin(out, 0, FrameType::Headers, flags | frame::END_HEADERS, id);
        encoder.begin(out);
        if heads.len() <= target {
            heads.resize(target + 1, HeaderState::default());
        }
        let (head, before) = (&mut heads[target], encoder.changes());
        if head.changes == Some(before) {
            out.extend_from_slice(&head.block);
        } else {
            let from = out.len();
            for (name, value) in &request.fields {
                encoder.encode(name.as_bytes(), value.as_bytes(), out);
            }
            // Where nothing was new, the same bytes say the same the next time.
            if encoder.changes() == before {
                *head = HeaderState {
                    block: out[from..].to_vec(),
                    changes: Some(before),
                };
            }
        }
        for field in &request.varying {
            let value = &field.values[rng.usize(..field.values.len())];
            encoder.encode(field.name.as_bytes(), value.as_bytes(), out);
        }
        let length = out.len() - start;
        if length <= frame::LONGEST {
            frame::set_length(&mut out[start - frame::HEAD..], length);
            return;
        }
        let block = out.split_off(start);
        out.truncate(start - frame::HEAD);
        let pieces = block.len().div_ceil(frame::LONGEST);
        for (at, piece) in block.chunks(frame::LONGEST).enumerate() {
            let (kind, first) = if at == 0 {
                (FrameType::Headers, flags)
            } else {
                (FrameType::Continuation, 0)
            };
            let last = if at + 1 == pieces {
                frame::END_HEADERS
            } else {
                0
            };
            frame::begin(out, piece.len(), kind, first | last, id);
            out.extend_from_slice(piece);
        }
    }

    /// Gathers bodies, as far as they may leave and one write takes them; each in its turn.
    pub(super) fn pump(&mut self) {
        while !self.is_deaf && self.out.len() - self.sent < GATHERED && self.window > 0 {
            let Some(place) = self.uploads.pop_front() else {
                return;
            };
            let Some(stream) = self.streams.get(place) else {
                continue;
            };
            let Some(sending) = &mut stream.body else {
                continue;
            };
            let left = sending.left();
            let allowed = stream.window.min(self.window).max(0) as usize;
            let length = left.len().min(allowed).min(frame::LONGEST);
            if length == 0 {
                // Its window says when it goes on.
                sending.is_queued = false;
                continue;
            }
            let is_last = length == left.len();
            let flags = if is_last { frame::END_STREAM } else { 0 };
            frame::begin(&mut self.out, length, FrameType::Data, flags, stream.id);
            self.out.extend_from_slice(&left[..length]);
            sending.at += length;
            stream.window -= length as i64;
            self.window -= length as i64;
            stream.stats.sent += (frame::HEAD + length) as u64;
            if is_last {
                stream.body = None;
            } else {
                self.uploads.push_back(place);
            }
        }
    }

    /// Gives up on a request, and says so; what it moved until then, if it was under way. `true`
    /// beside it where nothing has come of any response since it began: a connection that may be
    /// dead.
    pub(crate) fn cancel(&mut self, place: usize) -> Option<(ExchangeStats, bool)> {
        let stream = self.streams.take(place)?;
        self.write_number(FrameType::Reset, stream.id, frame::CANCEL);
        Some((stream.stats, stream.heard == self.heard))
    }

    /// The connection has ended, and so have all requests on it.
    pub(crate) fn end(&mut self, fault: &Fault) {
        let places: Vec<_> = self.streams.all().map(|(place, _)| place).collect();
        for place in places {
            let Some(stream) = self.streams.take(place) else {
                continue;
            };
            let (status, length) = (stream.stats.response.status, stream.stats.response.length);
            let fault = match (fault.failure, status, self.goodbye) {
                (Failure::Closed, _, Some(code)) if code != 0 => {
                    let text = format!("the server closed the connection: {}", frame::code(code));
                    Fault::new(Failure::Goaway, text)
                }
                (Failure::Closed, None, _) => Fault {
                    text: format!("{} before a response", fault.text),
                    ..fault.clone()
                },
                (Failure::Closed, Some(_), _) => Fault {
                    text: format!("{} after {length} bytes of the body", fault.text),
                    ..fault.clone()
                },
                _ => fault.clone(),
            };
            self.finish(place, stream, Outcome::Failed(fault));
        }
    }

    pub(super) fn finish(&mut self, place: usize, mut stream: Stream, outcome: Outcome) {
        stream.stats.response.hash = stream.hasher.take().map(Hasher::finish);
        self.finished.push_back(Finished {
            place,
            stats: stream.stats,
            kept: stream.kept,
            outcome,
        });
    }

    pub(super) fn write_number(&mut self, kind: FrameType, stream: u32, number: u32) {
        if !self.is_deaf {
            frame::number(&mut self.out, kind, stream, number);
        }
    }

    /// A frame of the connection itself.
    pub(super) fn write_frame(&mut self, kind: FrameType, flags: u8, payload: &[u8]) {
        if !self.is_deaf {
            frame::begin(&mut self.out, payload.len(), kind, flags, 0);
            self.out.extend_from_slice(payload);
        }
    }
}
