//! The request of a stream, and its response so far.

use std::sync::Arc;

use crate::client::outcome::{ExchangeError, ExchangeStats};
use crate::expect::{Expect, Hasher};
use crate::result::FailureKind;

/// The stream of one request.
pub(super) struct RequestStream {
    /// The caller's number of the request.
    pub(super) slot: usize,
    pub(super) stats: ExchangeStats,
    pub(super) hasher: Option<Hasher>,
    pub(super) buffered: Option<BufferedResponse>,
    pub(super) content_length: Option<u64>,
    /// Status of a gRPC call.
    pub(super) grpc: Option<GrpcStatus>,
    pub(super) body: Option<OutgoingBody>,
    /// The connection's `events_received` when the stream began.
    pub(super) events_received: u64,
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
