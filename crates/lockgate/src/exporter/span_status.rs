//! How sending spans goes, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockgate_proxy::spans::SpanQueue;

/// How sending spans to one sink goes.
#[derive(Debug)]
pub(crate) struct SpanStatus {
    /// The sink's name in logs and labels.
    pub(crate) name: String,
    queue: Arc<SpanQueue>,
    sent: AtomicU64,
    refused: AtomicU64,
    unreachable: AtomicU64,
}

impl SpanStatus {
    pub(super) fn new(name: &str, queue: Arc<SpanQueue>) -> Self {
        Self {
            name: name.to_owned(),
            queue,
            sent: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unreachable: AtomicU64::new(0),
        }
    }

    /// Spans that it has taken.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Spans that were lost, by the reason's label.
    pub(crate) fn lost(&self) -> [(&'static str, u64); 3] {
        [
            ("queue_full", self.queue.lost()),
            ("refused", self.refused.load(Ordering::Relaxed)),
            ("unreachable", self.unreachable.load(Ordering::Relaxed)),
        ]
    }

    pub(super) fn queue(&self) -> &SpanQueue {
        &self.queue
    }

    pub(super) fn add_sent(&self, spans: u64) {
        self.sent.fetch_add(spans, Ordering::Relaxed);
    }

    pub(super) fn add_refused(&self, spans: u64) {
        self.refused.fetch_add(spans, Ordering::Relaxed);
    }

    pub(super) fn add_unreachable(&self, spans: u64) {
        self.unreachable.fetch_add(spans, Ordering::Relaxed);
    }
}
