//! How pushing to each program goes, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::span_status::SpanStatus;

/// How pushing to one program goes.
#[derive(Debug)]
pub(crate) struct SinkStatus {
    /// Its name in logs and labels.
    pub(crate) name: String,
    points: AtomicU64,
    lost: [AtomicU64; LossReason::ALL.len()],
    state: AtomicU8,
}

/// Why points were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossReason {
    /// Newer ones needed their room while the program took none.
    QueueFull = 0,
    /// The program refused them.
    Refused = 1,
    /// One is longer than a datagram may be.
    TooLong = 2,
    /// The program could not be reached when its task ended.
    Unreachable = 3,
}

impl LossReason {
    /// Each with its label.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::QueueFull, "queue_full"),
        (Self::Refused, "refused"),
        (Self::TooLong, "too_long"),
        (Self::Unreachable, "unreachable"),
    ];
}

/// Whether a program takes points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SinkState {
    /// Nothing was pushed yet.
    Untried = 0,
    Up = 1,
    Down = 2,
}

impl SinkStatus {
    /// A program that nothing was pushed to.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            points: AtomicU64::new(0),
            lost: Default::default(),
            state: AtomicU8::new(SinkState::Untried as u8),
        }
    }

    /// Points that were handed to it.
    pub(crate) fn points(&self) -> u64 {
        self.points.load(Ordering::Relaxed)
    }

    /// Points that were lost for this reason.
    pub(crate) fn lost(&self, reason: LossReason) -> u64 {
        self.lost
            .get(reason as usize)
            .map_or(0, |lost| lost.load(Ordering::Relaxed))
    }

    /// Whether the last push succeeded.
    pub(crate) fn is_up(&self) -> bool {
        self.state.load(Ordering::Relaxed) == SinkState::Up as u8
    }

    /// Whether the last push failed.
    #[cfg(test)]
    pub(super) fn is_down(&self) -> bool {
        self.state.load(Ordering::Relaxed) == SinkState::Down as u8
    }

    pub(super) fn add_points(&self, points: u64) {
        self.points.fetch_add(points, Ordering::Relaxed);
    }

    pub(super) fn add_lost(&self, reason: LossReason, points: u64) {
        if let Some(lost) = self.lost.get(reason as usize) {
            lost.fetch_add(points, Ordering::Relaxed);
        }
    }

    /// Sets the state; returns the one before.
    pub(super) fn enter(&self, state: SinkState) -> SinkState {
        match self.state.swap(state as u8, Ordering::Relaxed) {
            0 => SinkState::Untried,
            1 => SinkState::Up,
            _ => SinkState::Down,
        }
    }
}

/// The programs of the running configuration.
#[derive(Debug, Default)]
pub(crate) struct SinkStatuses {
    sinks: ArcSwap<Vec<Arc<SinkStatus>>>,
    spans: ArcSwapOption<SpanStatus>,
}

impl SinkStatuses {
    /// All as they are now.
    pub(crate) fn now(&self) -> Arc<Vec<Arc<SinkStatus>>> {
        self.sinks.load_full()
    }

    pub(super) fn set(&self, statuses: Vec<Arc<SinkStatus>>) {
        self.sinks.store(Arc::new(statuses));
    }

    /// The sink of spans, if there is one.
    pub(crate) fn spans(&self) -> Option<Arc<SpanStatus>> {
        self.spans.load_full()
    }

    pub(super) fn set_spans(&self, status: Option<Arc<SpanStatus>>) {
        self.spans.store(status);
    }
}
