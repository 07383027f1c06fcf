//! The requests of one HTTP/2 connection, on the layer of `lockgate_http::h2` and without IO:
//! requests become bytes, bytes become responses.
//!
//! The caller numbers its requests by slots, from 0 on; finished requests come with their slot.

use std::collections::VecDeque;
use std::time::Instant;

use fastrand::Rng;
use lockgate_http::h2::{Budget, Connection, FieldBlock, Key, LocalSettings, Role, code, frames};
use lockgate_http::hpack::Indexing;

use super::response_fields::ResponseFields;
use super::stream::{
    BodySource, BodyUse, BufferedResponse, GrpcStatus, OutgoingBody, RequestStream,
};
use crate::client::outcome::{ExchangeError, ExchangeStats};
use crate::expect::Hasher;
use crate::result::FailureKind;
use crate::target::{Http2Request, RequestBody};

/// Concurrent streams before the server's first SETTINGS: some servers refuse more.
const DEFAULT_STREAMS: usize = 100;
/// Limit of a header list, as RFC 9113 §6.5.2 counts it.
const MAX_HEADER_LIST: u32 = 64 * 1024;
/// Length of a frame header (RFC 9113 §4.1).
const FRAME_HEADER: usize = 9;

/// Receive windows: bytes that the server may send before it gets a WINDOW_UPDATE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveWindows {
    pub(crate) stream: u32,
    /// Window of the connection; at least 65,535.
    pub(crate) connection: u32,
}

impl ReceiveWindows {
    /// Windows so large that the server never waits.
    pub(crate) const LARGE: Self = Self {
        stream: 1 << 30,
        connection: (1 << 31) - 1,
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

/// Encoded head of a target's request, and the state of the dynamic table that it is valid for.
#[derive(Clone, Default)]
struct CachedHead {
    block: Vec<u8>,
    changes: Option<u64>,
}

/// An HTTP/2 connection of a client.
pub(crate) struct Http2Connection {
    /// A stream is moved several times: as a box.
    pub(super) layer: Connection<Box<RequestStream>>,
    /// The stream of each of the caller's slots.
    keys: Vec<Option<Key>>,
    /// Whether the peer reads no more.
    write_closed: bool,
    /// Encoded head of each target.
    heads: Vec<CachedHead>,
    /// Streams that can send more of their bodies.
    pub(super) uploads: VecDeque<Key>,
    /// The limit of streams before the server's first SETTINGS.
    expected_streams: usize,
    /// Fields of the latest head or trailers.
    pub(super) fields: ResponseFields,
    /// Error code of the server's GOAWAY (§6.8).
    pub(super) goaway: Option<u32>,
    /// Number of events of streams.
    pub(super) events_received: u64,
    /// When the latest bytes were read.
    pub(super) read_at: Option<Instant>,
    pub(super) finished: VecDeque<FinishedRequest>,
}

impl Http2Connection {
    /// A connection with so many slots.
    pub(crate) fn new(slots: usize, windows: ReceiveWindows) -> Self {
        let settings = LocalSettings {
            streams: 0,
            window: windows.stream,
            connection_window: windows.connection,
            head_list: MAX_HEADER_LIST,
            connect_protocol: false,
        };
        Self {
            // The server is what is measured: it may cost what it likes.
            layer: Connection::new(Role::Client, settings, Budget::UNLIMITED),
            keys: vec![None; slots],
            write_closed: false,
            heads: Vec::new(),
            uploads: VecDeque::new(),
            expected_streams: DEFAULT_STREAMS,
            fields: ResponseFields::default(),
            goaway: None,
            events_received: 0,
            read_at: None,
            finished: VecDeque::new(),
        }
    }

    /// Takes `streams` as the server's limit until its SETTINGS come: another connection's had it.
    pub(crate) fn expect_max_streams(&mut self, streams: usize) {
        self.expected_streams = streams;
    }

    /// Number of requests under way.
    pub(crate) fn active(&self) -> usize {
        self.layer.active()
    }

    /// Whether another request can begin now.
    pub(crate) fn has_room(&self) -> bool {
        let most = match self.layer.peer_settings() {
            Some(settings) => settings.streams as usize,
            None => self.expected_streams,
        };
        !self.is_ending() && self.layer.active() < most
    }

    /// Whether no other request can ever begin.
    pub(crate) fn is_ending(&self) -> bool {
        self.write_closed || !self.layer.takes_streams()
    }

    /// The server's limit of concurrent streams, if it has sent one.
    pub(super) fn max_streams(&self) -> Option<usize> {
        let streams = self.layer.peer_settings()?.streams;
        (streams < u32::MAX).then_some(streams as usize)
    }

    /// Bytes to send; none to a peer that reads no more.
    pub(super) fn unsent(&mut self) -> &[u8] {
        if self.write_closed {
            self.layer.note_sent(usize::MAX);
        }
        self.layer.unsent()
    }

    pub(super) fn close_write(&mut self) {
        self.write_closed = true;
    }

    /// Status of a response that has begun and not ended, and the body of a buffered one.
    pub(crate) fn look(&mut self, slot: usize) -> Option<(u16, Option<&mut BufferedResponse>)> {
        let stream = self.layer.get_mut((*self.keys.get(slot)?)?)?;
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
        let body = match &request.body {
            body if body.is_empty() => None,
            RequestBody::Fixed(bytes) => Some(BodySource::Shared(bytes.clone())),
            RequestBody::Random(length) => {
                let mut made = vec![0; *length];
                rng.fill(&mut made);
                Some(BodySource::Owned(made))
            }
        };
        if self.heads.len() <= target {
            self.heads.resize(target + 1, CachedHead::default());
        }
        let has_body = body.is_some();
        let stream = Box::new(RequestStream {
            slot,
            stats: ExchangeStats {
                connected: true,
                ..ExchangeStats::default()
            },
            hasher: (used == BodyUse::Hash).then(Hasher::new),
            buffered: (used == BodyUse::Keep).then(BufferedResponse::default),
            content_length: None,
            grpc: request.is_grpc.then(GrpcStatus::default),
            body: body.map(OutgoingBody::new),
            events_received: self.events_received,
        });
        let before = self.layer.unsent().len();
        let head = &mut self.heads[target];
        let key = self.layer.open(request.method, stream, !has_body, |block| {
            head.write(block, request);
            for field in &request.varying {
                let value = &field.values[rng.usize(..field.values.len())];
                block.field(field.name.as_bytes(), value.as_bytes(), Indexing::Keep);
            }
        });
        debug_assert!(key.is_some(), "there was room");
        let Some(key) = key else { return };
        let sent = self.layer.unsent().len() - before;
        if let Some(stream) = self.layer.get_mut(key) {
            stream.stats.sent = sent as u64;
        }
        self.keys[slot] = Some(key);
        if has_body {
            self.uploads.push_back(key);
        }
    }

    /// Writes DATA frames, as far as windows and one write allow; streams take turns.
    pub(super) fn fill_bodies(&mut self) {
        while !self.write_closed
            && self.layer.data_room() > 0
            && let Some(key) = self.uploads.pop_front()
        {
            let stream = self.layer.get_mut(key);
            let Some(mut body) = stream.and_then(|stream| stream.body.take()) else {
                continue;
            };
            let length = self.layer.data(key, body.left(), true);
            body.at += length;
            // Without a window, an event queues it again.
            body.is_queued = length > 0;
            let Some(stream) = self.layer.get_mut(key) else {
                continue;
            };
            if length > 0 {
                stream.stats.sent += (FRAME_HEADER + length) as u64;
            }
            if body.left().is_empty() {
                continue;
            }
            if body.is_queued {
                self.uploads.push_back(key);
            }
            stream.body = Some(body);
        }
    }

    /// Cancels a request by RST_STREAM and gives its counts, if it was under way. `true` beside
    /// them: no frame of any response has come since it began, so the connection may be dead.
    pub(crate) fn cancel(&mut self, slot: usize) -> Option<(ExchangeStats, bool)> {
        let key = self.keys.get_mut(slot)?.take()?;
        let stream = self.layer.close(key, code::CANCEL)?;
        Some((stream.stats, stream.events_received == self.events_received))
    }

    /// Ends all requests with the connection.
    pub(crate) fn end(&mut self, error: &ExchangeError) {
        let keys: Vec<_> = self.layer.keys().collect();
        for key in keys {
            let Some(stream) = self.close(key, code::CANCEL) else {
                continue;
            };
            let (status, length) = (stream.stats.response.status, stream.stats.response.length);
            let error = match (error.failure, status, self.goaway) {
                (FailureKind::Closed, _, Some(code)) if code != 0 => {
                    let text = format!("the server closed the connection: {}", code_name(code));
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
            self.finish(stream, RequestOutcome::Failed(error));
        }
    }

    /// Closes a stream, and frees the caller's slot.
    pub(super) fn close(&mut self, key: Key, code: u32) -> Option<Box<RequestStream>> {
        let stream = self.layer.close(key, code)?;
        if let Some(slot) = self.keys.get_mut(stream.slot) {
            *slot = None;
        }
        Some(stream)
    }

    pub(super) fn finish(&mut self, mut stream: Box<RequestStream>, outcome: RequestOutcome) {
        stream.stats.response.hash = stream.hasher.take().map(Hasher::finish);
        self.finished.push_back(FinishedRequest {
            slot: stream.slot,
            stats: stream.stats,
            buffered: stream.buffered,
            outcome,
        });
    }
}

impl CachedHead {
    /// Writes the fields of a request that are always the same.
    fn write(&mut self, block: &mut FieldBlock<'_>, request: &Http2Request) {
        let before = block.changes();
        if self.changes == Some(before) {
            block.repeat(&self.block);
            return;
        }
        for (name, value) in &request.fields {
            block.field(name.as_bytes(), value.as_bytes(), Indexing::Keep);
        }
        // Without a change of the table the same bytes are valid for the next request.
        if block.changes() == before {
            *self = Self {
                block: block.written().to_vec(),
                changes: Some(before),
            };
        }
    }
}

/// The name of an error code (§7).
pub(super) fn code_name(code: u32) -> String {
    frames::error_name(code).map_or_else(|| format!("code {code}"), str::to_owned)
}
