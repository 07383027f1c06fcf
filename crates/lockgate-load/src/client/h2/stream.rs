//! Streams of a connection: each with its request and its response so far.

use std::sync::Arc;

use lockgate_http::head::Method;

use crate::client::outcome::{ExchangeError, ExchangeStats};
use crate::expect::{Expect, Hasher};
use crate::result::FailureKind;

/// The stream of one request.
pub(super) struct RequestStream {
    pub(super) id: u32,
    pub(super) method: Method,
    pub(super) stats: ExchangeStats,
    pub(super) hasher: Option<Hasher>,
    pub(super) buffered: Option<BufferedResponse>,
    pub(super) content_length: Option<u64>,
    /// Status of a gRPC call.
    pub(super) grpc: Option<GrpcStatus>,
    /// Bytes received since the last WINDOW_UPDATE of the stream.
    pub(super) unacknowledged: u32,
    /// Send window; negative after the server has lowered the initial window (RFC 9113 §6.9.2).
    pub(super) window: i64,
    pub(super) body: Option<OutgoingBody>,
    /// The connection's `frames_received` when the stream began.
    pub(super) frames_received: u64,
}

/// The gRPC status of a call, if it has come.
#[derive(Clone, Copy, Default)]
pub(super) struct GrpcStatus {
    pub(super) status: Option<u64>,
}

impl GrpcStatus {
    /// The error of the call: another status than 0, or none.
    pub(super) fn error(self) -> Option<ExchangeError> {
        const NAMES: [&str; 17] = [
            "OK",
            "CANCELLED",
            "UNKNOWN",
            "INVALID_ARGUMENT",
            "DEADLINE_EXCEEDED",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "RESOURCE_EXHAUSTED",
            "FAILED_PRECONDITION",
            "ABORTED",
            "OUT_OF_RANGE",
            "UNIMPLEMENTED",
            "INTERNAL",
            "UNAVAILABLE",
            "DATA_LOSS",
            "UNAUTHENTICATED",
        ];
        match self.status {
            Some(0) => None,
            Some(status) => {
                let name = NAMES.get(status as usize).copied().unwrap_or("of no name");
                Some(ExchangeError::new(
                    FailureKind::Grpc,
                    format!("grpc-status {status}: {name}"),
                ))
            }
            None => Some(ExchangeError::new(
                FailureKind::Garbage,
                "the call ended without grpc-status",
            )),
        }
    }
}

/// Use of a response's body, besides its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyUse {
    Count,
    Hash,
    Keep,
}

impl BodyUse {
    /// The use that `expect` needs.
    pub(crate) fn of(expect: &Expect) -> Self {
        if expect.wants_hash() {
            Self::Hash
        } else {
            Self::Count
        }
    }
}

/// A response that the caller parses.
#[derive(Debug, Default)]
pub(crate) struct BufferedResponse {
    pub(crate) coding: Option<Vec<u8>>,
    /// Data that the caller has not parsed yet.
    pub(crate) data: Vec<u8>,
}

/// Body of a request under way.
pub(super) struct OutgoingBody {
    pub(super) bytes: BodySource,
    /// Number of bytes written so far.
    pub(super) at: usize,
    /// Whether the stream is in the queue of uploads.
    pub(super) is_queued: bool,
}

/// Bytes of a request body, shared by all requests or made for one.
pub(super) enum BodySource {
    Shared(Arc<[u8]>),
    Owned(Vec<u8>),
}

impl OutgoingBody {
    pub(super) fn new(bytes: BodySource) -> Self {
        Self {
            bytes,
            at: 0,
            is_queued: true,
        }
    }

    pub(super) fn left(&self) -> &[u8] {
        let all = match &self.bytes {
            BodySource::Shared(bytes) => &bytes[..],
            BodySource::Owned(bytes) => bytes,
        };
        &all[self.at..]
    }
}

/// The streams of a connection, by the caller's slot and by their IDs.
pub(super) struct StreamTable {
    slots: Vec<Option<RequestStream>>,
    /// The slot of an ID by its last bits. A long-lived stream may lose its hint and is searched
    /// for.
    hints: Vec<usize>,
    pub(super) active: usize,
}

impl StreamTable {
    /// A table with so many slots.
    pub(super) fn new(slots: usize) -> Self {
        let hints = vec![0; (slots * 4).next_power_of_two()];
        Self {
            slots: (0..slots).map(|_| None).collect(),
            hints,
            active: 0,
        }
    }

    fn hint(&self, id: u32) -> usize {
        (id as usize / 2) & (self.hints.len() - 1)
    }

    pub(super) fn put(&mut self, slot: usize, stream: RequestStream) {
        let hint = self.hint(stream.id);
        self.hints[hint] = slot;
        let before = self.slots[slot].replace(stream);
        debug_assert!(before.is_none(), "a place has one stream");
        self.active += 1;
    }

    /// The slot of a stream; `None` for one that has ended or was never begun.
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        let is_it = |slot: &usize| {
            self.slots[*slot]
                .as_ref()
                .is_some_and(|stream| stream.id == id)
        };
        let hinted = self.hints[self.hint(id)];
        if is_it(&hinted) {
            return Some(hinted);
        }
        (0..self.slots.len()).find(is_it)
    }

    pub(super) fn get(&mut self, slot: usize) -> Option<&mut RequestStream> {
        self.slots[slot].as_mut()
    }

    pub(super) fn take(&mut self, slot: usize) -> Option<RequestStream> {
        let stream = self.slots[slot].take();
        self.active -= usize::from(stream.is_some());
        stream
    }

    /// All streams with their slots.
    pub(super) fn all(&mut self) -> impl Iterator<Item = (usize, &mut RequestStream)> {
        self.slots
            .iter_mut()
            .enumerate()
            .filter_map(|(slot, stream)| Some((slot, stream.as_mut()?)))
    }
}
