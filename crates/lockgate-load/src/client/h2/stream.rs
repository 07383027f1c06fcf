//! What is known of one request and its response, and which stream of a connection it is.

use std::sync::Arc;

use lockgate_http::head::Method;

use super::super::{ExchangeStats, Fault};
use crate::expect::{Expect, Hasher};
use crate::result::Failure;

/// A request that was sent, or is being sent.
pub(super) struct Stream {
    /// Its number on the connection.
    pub(super) id: u32,
    pub(super) method: Method,
    pub(super) stats: ExchangeStats,
    pub(super) hasher: Option<Hasher>,
    pub(super) kept: Option<Kept>,
    /// What the response said about its length.
    pub(super) declared: Option<u64>,
    /// Of a call of gRPC, which must have one, the status that came.
    pub(super) grpc: Option<Grpc>,
    /// Bytes of the response that its window was not given back for.
    pub(super) taken: u32,
    /// What the server takes of the body as yet; less than nothing after it has changed its mind
    /// (RFC 9113 §6.9.2).
    pub(super) window: i64,
    pub(super) body: Option<Sending>,
    /// How much had come on the connection when it began.
    pub(super) heard: u64,
}

/// What has come of a call's own status.
#[derive(Clone, Copy, Default)]
pub(super) struct Grpc {
    pub(super) status: Option<u64>,
}

impl Grpc {
    /// What is wrong, if something is.
    pub(super) fn fault(self) -> Option<Fault> {
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
                Some(Fault::new(
                    Failure::Grpc,
                    format!("grpc-status {status}: {name}"),
                ))
            }
            None => Some(Fault::new(
                Failure::Garbage,
                "the call ended without grpc-status",
            )),
        }
    }
}

/// What a response is for, beside being counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyUse {
    Count,
    Hash,
    Keep,
}

impl BodyUse {
    /// For what must come back.
    pub(crate) fn of(expect: &Expect) -> Self {
        if expect.wants_hash() {
            Self::Hash
        } else {
            Self::Count
        }
    }
}

/// A response that somebody looks into.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// What its head says that its data is coded in, if anything.
    pub(crate) coding: Option<Vec<u8>>,
    /// Data that nobody has looked at yet.
    pub(crate) data: Vec<u8>,
}

/// A body that is being sent.
pub(super) struct Sending {
    pub(super) bytes: BodySource,
    /// How much of it has left.
    pub(super) at: usize,
    /// Whether it stands in the queue of those that can go on.
    pub(super) is_queued: bool,
}

/// Where a body is.
pub(super) enum BodySource {
    Shared(Arc<[u8]>),
    Owned(Vec<u8>),
}

impl Sending {
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

/// The streams of a connection, by the places that their requests have with who asks, and found by
/// their numbers.
pub(super) struct Streams {
    places: Vec<Option<Stream>>,
    /// Where the stream of a number is, mostly: by its last bits. Those that live long are looked
    /// for.
    hints: Vec<usize>,
    pub(super) active: usize,
}

impl Streams {
    /// With so many places.
    pub(super) fn new(places: usize) -> Self {
        let hints = vec![0; (places * 4).next_power_of_two()];
        Self {
            places: (0..places).map(|_| None).collect(),
            hints,
            active: 0,
        }
    }

    fn hint(&self, id: u32) -> usize {
        (id as usize / 2) & (self.hints.len() - 1)
    }

    pub(super) fn put(&mut self, place: usize, stream: Stream) {
        let hint = self.hint(stream.id);
        self.hints[hint] = place;
        let before = self.places[place].replace(stream);
        debug_assert!(before.is_none(), "a place has one stream");
        self.active += 1;
    }

    /// Where the stream of a number is; none where it has ended or was never begun.
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        let is_it = |place: &usize| {
            self.places[*place]
                .as_ref()
                .is_some_and(|stream| stream.id == id)
        };
        let hinted = self.hints[self.hint(id)];
        if is_it(&hinted) {
            return Some(hinted);
        }
        (0..self.places.len()).find(is_it)
    }

    pub(super) fn get(&mut self, place: usize) -> Option<&mut Stream> {
        self.places[place].as_mut()
    }

    pub(super) fn take(&mut self, place: usize) -> Option<Stream> {
        let taken = self.places[place].take();
        self.active -= usize::from(taken.is_some());
        taken
    }

    /// Those that there are, with their places.
    pub(super) fn all(&mut self) -> impl Iterator<Item = (usize, &mut Stream)> {
        self.places
            .iter_mut()
            .enumerate()
            .filter_map(|(place, stream)| Some((place, stream.as_mut()?)))
    }
}
