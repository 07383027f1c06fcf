//! State of one HTTP/2 connection (RFC 9113), without IO: requests become bytes, bytes become
//! responses.
//!
//! The caller numbers its requests by slots, from 0 on; finished requests come with their slot.

use std::collections::VecDeque;
use std::time::Instant;

use fastrand::Rng;
use lockgate_http::hpack::{HpackDecoder, HpackEncoder, TABLE_SIZE};

use super::frame::{self, FrameType, Http2Frame};
use super::stream::{
    BodySource, BodyUse, BufferedResponse, GrpcStatus, OutgoingBody, RequestStream, StreamTable,
};
use crate::client::outcome::{ExchangeError, ExchangeStats};
use crate::expect::Hasher;
use crate::result::FailureKind;
use crate::target::{Http2Request, RequestBody};

/// The largest window (§6.9.1).
pub(super) const MAX_WINDOW: u32 = (1 << 31) - 1;
/// The initial window, before any SETTINGS (§6.9.2).
const DEFAULT_WINDOW: u32 = 65_535;
/// Concurrent streams before the server's first SETTINGS: some servers refuse more.
const DEFAULT_STREAMS: usize = 100;
/// Limit of a header list, as §6.5.2 counts it, and of the frames that carry it.
pub(super) const MAX_HEADER_LIST: usize = 64 * 1024;
/// Bytes of bodies that one write takes.
const WRITE_BATCH: usize = 64 * 1024;
/// Limit of unsent bytes: beyond it, the connection reads no more.
const MAX_UNSENT: usize = 256 * 1024;

/// Receive windows: bytes that the server may send before it gets a WINDOW_UPDATE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveWindows {
    pub(crate) stream: u32,
    /// Window of the connection; at least [`DEFAULT_WINDOW`].
    pub(crate) connection: u32,
}

impl ReceiveWindows {
    /// Windows so large that the server never waits.
    pub(crate) const LARGE: Self = Self {
        stream: 1 << 30,
        connection: MAX_WINDOW,
    };
}

/// A finished request with its outcome.
pub(crate) struct FinishedRequest {
    pub(crate) slot: usize,
    pub(crate) stats: ExchangeStats,
    /// The rest of a buffered response.
    pub(crate) buffered: Option<BufferedResponse>,
    pub(crate) outcome: RequestOutcome,
}

pub(crate) enum RequestOutcome {
    Answered,
    Failed(ExchangeError),
    /// The server did not process the request: it may be sent again (§8.7). After a GOAWAY that must
    /// be on another connection. The error is for the case that it is not.
    Unprocessed(ExchangeError),
}

/// Settings that the server has sent, or their defaults.
pub(super) struct PeerSettings {
    /// Initial window of a stream.
    pub(super) window: u32,
    pub(super) streams: usize,
}

/// A header block without its last CONTINUATION.
pub(super) struct HeaderBlock {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) bytes: Vec<u8>,
    /// Bytes of its frames so far, frame headers included.
    pub(super) wire: usize,
}

/// Encoded head of a target's request, and the state of the dynamic table that it is valid for.
#[derive(Clone, Default)]
struct CachedHead {
    block: Vec<u8>,
    changes: Option<u64>,
}

/// An HTTP/2 connection of a client.
pub(crate) struct Http2Connection {
    /// Bytes to send, from `sent` on.
    pub(super) out: Vec<u8>,
    sent: usize,
    /// Whether the peer reads no more.
    write_closed: bool,
    pub(super) encoder: HpackEncoder,
    pub(super) decoder: HpackDecoder,
    /// Encoded head of each target.
    heads: Vec<CachedHead>,
    pub(super) streams: StreamTable,
    /// Slots of the streams that can send more of their bodies.
    pub(super) uploads: VecDeque<usize>,
    /// ID of the next stream.
    pub(super) next: u32,
    pub(super) peer: PeerSettings,
    /// Whether the server's first SETTINGS have come.
    pub(super) has_settings: bool,
    /// Send window of the connection.
    pub(super) window: i64,
    pub(super) windows: ReceiveWindows,
    /// Bytes received since the last WINDOW_UPDATE of the connection.
    pub(super) unacknowledged: u32,
    pub(super) block: Option<HeaderBlock>,
    /// The rest of a DATA frame that has come in part.
    pub(super) rest: Option<Http2Frame>,
    /// Error code of the server's GOAWAY (§6.8).
    pub(super) goaway: Option<u32>,
    /// Number of frames that belong to streams.
    pub(super) frames_received: u64,
    /// When the latest bytes were read.
    pub(super) read_at: Option<Instant>,
    finished: VecDeque<FinishedRequest>,
}

impl Http2Connection {
    /// A connection with so many slots.
    pub(crate) fn new(slots: usize, windows: ReceiveWindows) -> Self {
        let mut out = frame::PREFACE.to_vec();
        let settings = [
            (frame::ENABLE_PUSH, 0),
            (frame::INITIAL_WINDOW_SIZE, windows.stream),
            (frame::MAX_HEADER_LIST_SIZE, MAX_HEADER_LIST as u32),
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
            windows.connection - DEFAULT_WINDOW,
        );
        Self {
            out,
            sent: 0,
            write_closed: false,
            encoder: HpackEncoder::new(),
            decoder: HpackDecoder::new(TABLE_SIZE),
            heads: Vec::new(),
            streams: StreamTable::new(slots),
            uploads: VecDeque::new(),
            next: 1,
            peer: PeerSettings {
                window: DEFAULT_WINDOW,
                streams: DEFAULT_STREAMS,
            },
            has_settings: false,
            window: i64::from(DEFAULT_WINDOW),
            windows,
            unacknowledged: 0,
            block: None,
            rest: None,
            goaway: None,
            frames_received: 0,
            read_at: None,
            finished: VecDeque::new(),
        }
    }

    /// Takes `streams` as the server's limit until its SETTINGS come: another connection's had it.
    pub(crate) fn expect_max_streams(&mut self, streams: usize) {
        if !self.has_settings {
            self.peer.streams = streams;
        }
    }

    /// Number of requests under way.
    pub(crate) fn active(&self) -> usize {
        self.streams.active
    }

    /// Whether another request can begin now.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_ending() && self.streams.active < self.peer.streams
    }

    /// Whether no other request can ever begin.
    pub(crate) fn is_ending(&self) -> bool {
        self.goaway.is_some() || self.write_closed || self.next > u32::MAX >> 1
    }

    /// The server's limit of concurrent streams, if it has sent one.
    pub(super) fn max_streams(&self) -> Option<usize> {
        Some(self.peer.streams).filter(|streams| self.has_settings && *streams < usize::MAX)
    }

    /// Bytes that are not sent yet.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    pub(super) fn is_full(&self) -> bool {
        self.unsent().len() > MAX_UNSENT
    }

    /// Drops bytes that were sent.
    pub(super) fn note_sent(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
    }

    pub(super) fn close_write(&mut self) {
        self.write_closed = true;
        self.out.clear();
        self.sent = 0;
    }

    /// Status of a response that has begun and not ended, and the body of a buffered one.
    pub(crate) fn look(&mut self, slot: usize) -> Option<(u16, Option<&mut BufferedResponse>)> {
        let stream = self.streams.get(slot)?;
        Some((stream.stats.response.status?, stream.buffered.as_mut()))
    }

    /// The next finished request, in the order of their ends.
    pub(crate) fn take_finished(&mut self) -> Option<FinishedRequest> {
        self.finished.pop_front()
    }

    /// Begins the request of the target with the index `target` in a free slot. There must be room:
    /// [`has_room`](Self::has_room).
    pub(crate) fn begin(
        &mut self,
        slot: usize,
        target: usize,
        request: &Http2Request,
        used: BodyUse,
        rng: &mut Rng,
    ) {
        let id = self.next;
        self.next += 2;
        let body = match &request.body {
            body if body.is_empty() => None,
            RequestBody::Fixed(bytes) => Some(BodySource::Shared(bytes.clone())),
            RequestBody::Random(length) => {
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
        if self.write_closed {
            self.close_write();
        }
        if body.is_some() {
            self.uploads.push_back(slot);
        }
        let stream = RequestStream {
            id,
            method: request.method,
            stats,
            hasher: (used == BodyUse::Hash).then(Hasher::new),
            buffered: (used == BodyUse::Keep).then(BufferedResponse::default),
            content_length: None,
            grpc: request.is_grpc.then(GrpcStatus::default),
            unacknowledged: 0,
            window: i64::from(self.peer.window),
            body: body.map(OutgoingBody::new),
            frames_received: self.frames_received,
        };
        self.streams.put(slot, stream);
    }

    /// Writes HEADERS, and CONTINUATION where the block is too long for one frame.
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
            heads.resize(target + 1, CachedHead::default());
        }
        let (head, before) = (&mut heads[target], encoder.changes());
        if head.changes == Some(before) {
            out.extend_from_slice(&head.block);
        } else {
            let from = out.len();
            for (name, value) in &request.fields {
                encoder.encode(name.as_bytes(), value.as_bytes(), out);
            }
            // Without a change of the table the same bytes are valid for the next request.
            if encoder.changes() == before {
                *head = CachedHead {
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
        if length <= frame::MAX_PAYLOAD {
            frame::set_length(&mut out[start - frame::HEAD..], length);
            return;
        }
        let block = out.split_off(start);
        out.truncate(start - frame::HEAD);
        let pieces = block.len().div_ceil(frame::MAX_PAYLOAD);
        for (at, piece) in block.chunks(frame::MAX_PAYLOAD).enumerate() {
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

    /// Writes DATA frames, as far as windows and one write allow; streams take turns.
    pub(super) fn fill_bodies(&mut self) {
        while !self.write_closed && self.out.len() - self.sent < WRITE_BATCH && self.window > 0 {
            let Some(slot) = self.uploads.pop_front() else {
                return;
            };
            let Some(stream) = self.streams.get(slot) else {
                continue;
            };
            let Some(sending) = &mut stream.body else {
                continue;
            };
            let left = sending.left();
            let allowed = stream.window.min(self.window).max(0) as usize;
            let length = left.len().min(allowed).min(frame::MAX_PAYLOAD);
            if length == 0 {
                // A WINDOW_UPDATE queues it again.
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
                self.uploads.push_back(slot);
            }
        }
    }

    /// Cancels a request by RST_STREAM and gives its counts, if it was under way. `true` beside
    /// them: no frame of any response has come since it began, so the connection may be dead.
    pub(crate) fn cancel(&mut self, slot: usize) -> Option<(ExchangeStats, bool)> {
        let stream = self.streams.take(slot)?;
        self.write_number(FrameType::Reset, stream.id, frame::CANCEL);
        Some((stream.stats, stream.frames_received == self.frames_received))
    }

    /// Ends all requests with the connection.
    pub(crate) fn end(&mut self, error: &ExchangeError) {
        let slots: Vec<_> = self.streams.all().map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(stream) = self.streams.take(slot) else {
                continue;
            };
            let (status, length) = (stream.stats.response.status, stream.stats.response.length);
            let error = match (error.failure, status, self.goaway) {
                (FailureKind::Closed, _, Some(code)) if code != 0 => {
                    let text = format!("the server closed the connection: {}", frame::code(code));
                    ExchangeError::new(FailureKind::Goaway, text)
                }
                (FailureKind::Closed, None, _) => ExchangeError {
                    text: format!("{} before a response", error.text),
                    ..error.clone()
                },
                (FailureKind::Closed, Some(_), _) => ExchangeError {
                    text: format!("{} after {length} bytes of the body", error.text),
                    ..error.clone()
                },
                _ => error.clone(),
            };
            self.finish(slot, stream, RequestOutcome::Failed(error));
        }
    }

    pub(super) fn finish(
        &mut self,
        slot: usize,
        mut stream: RequestStream,
        outcome: RequestOutcome,
    ) {
        stream.stats.response.hash = stream.hasher.take().map(Hasher::finish);
        self.finished.push_back(FinishedRequest {
            slot,
            stats: stream.stats,
            buffered: stream.buffered,
            outcome,
        });
    }

    pub(super) fn write_number(&mut self, kind: FrameType, stream: u32, number: u32) {
        if !self.write_closed {
            frame::number(&mut self.out, kind, stream, number);
        }
    }

    /// Writes a frame of stream 0.
    pub(super) fn write_frame(&mut self, kind: FrameType, flags: u8, payload: &[u8]) {
        if !self.write_closed {
            frame::begin(&mut self.out, payload.len(), kind, flags, 0);
            self.out.extend_from_slice(payload);
        }
    }
}
