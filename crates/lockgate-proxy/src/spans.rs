//! Spans of requests that are recorded, on their way from the workers to the task that sends them.
//!
//! A worker encodes a span when its request ends, and hands over whole buffers of them. It never
//! waits: of what the task does not fetch in time the oldest is lost, and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockgate_export::otlp::{SpanHead, SpanWriter};
use lockgate_http::trace::{SpanId, TraceFlags, TraceId, TraceParent};
use lockgate_limits::WorkerIndex;
use tokio::sync::Notify;

use crate::request_id::ExchangeSpans;

/// Spans at which a worker hands its buffer over without waiting for the tick.
const HAND_OVER: u64 = 64;
/// Bytes at which it does so.
const HAND_OVER_BYTES: usize = 32 * 1024;
/// Bytes of spans that wait for the task: some seconds of a thousand recorded requests a second.
const WAITING: usize = 4 << 20;
/// Bytes of it that each worker has at least: of more than 30 workers, a few full buffers of each.
const LEAST: usize = 4 * HAND_OVER_BYTES;

/// The spans of a request that is recorded, which has not ended yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSpans {
    /// The trace.
    pub trace: TraceId,
    /// Its flags.
    pub flags: TraceFlags,
    /// The span of the client that asks, if it has told one; else the trace begins here.
    pub parent: Option<SpanId>,
    /// Ours.
    pub own: ExchangeSpans,
}

impl OpenSpans {
    /// The spans of a request that was told of a trace.
    pub fn within(told: &TraceParent, own: ExchangeSpans) -> Self {
        Self {
            trace: told.trace,
            flags: told.flags,
            parent: Some(told.span),
            own,
        }
    }

    /// The spans of a request with which a trace begins.
    pub fn first(trace: TraceId, own: ExchangeSpans) -> Self {
        Self {
            trace,
            flags: TraceFlags::SAMPLED,
            parent: None,
            own,
        }
    }

    /// What an endpoint is told: its span belongs to that of our request to it.
    pub fn told(&self) -> TraceParent {
        TraceParent {
            trace: self.trace,
            span: self.own.client,
            flags: self.flags,
        }
    }
}

/// Encoded spans, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanBatch {
    /// The spans, as [`SpanWriter`] writes them.
    pub bytes: Vec<u8>,
    /// Their number.
    pub spans: u64,
}

impl SpanBatch {
    /// The memory of the spans: a buffer that grew has room to spare.
    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The spans that wait for the task that sends them: a queue of each worker.
#[derive(Debug)]
pub struct SpanQueue {
    of_workers: Box<[Mutex<WaitingSpans>]>,
    /// Bytes that may wait in each.
    room: usize,
    /// The spans in all of them.
    waiting: AtomicU64,
    /// The worker of the spans that are taken next.
    next: AtomicUsize,
    /// Told when there are more.
    more: Notify,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct WaitingSpans {
    batches: VecDeque<SpanBatch>,
    bytes: usize,
}

impl SpanQueue {
    /// An empty queue of so many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            of_workers: (0..workers).map(|_| Mutex::default()).collect(),
            room: (WAITING / workers.max(1)).max(LEAST),
            waiting: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            more: Notify::new(),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds spans of a worker; where there is no room, its oldest are lost.
    pub fn push(&self, worker: WorkerIndex, batch: SpanBatch) {
        let Some(queue) = self.of_workers.get(worker.get()) else {
            return;
        };
        {
            let mut queue = lock(queue);
            self.waiting.fetch_add(batch.spans, Ordering::Relaxed);
            queue.bytes += batch.held_bytes();
            queue.batches.push_back(batch);
            while queue.bytes > self.room {
                let lost = self.pop(&mut queue).map_or(0, |oldest| oldest.spans);
                self.lost.fetch_add(lost, Ordering::Relaxed);
            }
        }
        self.more.notify_one();
    }

    /// Waits until there are at least so many spans. For one task at a time.
    pub async fn wait_for(&self, spans: u64) {
        while self.waiting.load(Ordering::Relaxed) < spans {
            self.more.notified().await;
        }
    }

    /// Takes the oldest batches of each worker in turn, as many as have together no more than so many
    /// spans and bytes; if there is one, at least that.
    pub fn take(&self, spans: u64, bytes: usize) -> Vec<SpanBatch> {
        let (mut taken, mut spans_left, mut bytes_left) = (Vec::new(), spans, bytes);
        let (workers, mut empty) = (self.of_workers.len(), 0);
        while empty < workers {
            let at = self.next.load(Ordering::Relaxed) % workers;
            let Some(queue) = self.of_workers.get(at) else {
                break;
            };
            let mut queue = lock(queue);
            if let Some(oldest) = queue.batches.front() {
                let fits = oldest.spans <= spans_left && oldest.bytes.len() <= bytes_left;
                if !fits && !taken.is_empty() {
                    break;
                }
                spans_left = spans_left.saturating_sub(oldest.spans);
                bytes_left = bytes_left.saturating_sub(oldest.bytes.len());
                taken.extend(self.pop(&mut queue));
                empty = 0;
            } else {
                empty += 1;
            }
            self.next.store(at + 1, Ordering::Relaxed);
        }
        taken
    }

    /// Throws all spans away: there was no task for them.
    pub fn clear(&self) {
        for queue in &self.of_workers {
            let mut queue = lock(queue);
            while self.pop(&mut queue).is_some() {}
        }
    }

    /// The spans that were lost for want of room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn pop(&self, queue: &mut WaitingSpans) -> Option<SpanBatch> {
        let oldest = queue.batches.pop_front()?;
        queue.bytes -= oldest.held_bytes();
        self.waiting.fetch_sub(oldest.spans, Ordering::Relaxed);
        Some(oldest)
    }
}

/// The queue of one worker: that worker and the task take the lock, for moments.
fn lock(queue: &Mutex<WaitingSpans>) -> MutexGuard<'_, WaitingSpans> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The buffer of one worker. What is left is handed over when it is dropped.
#[derive(Debug)]
pub struct WorkerSpans {
    queue: Arc<SpanQueue>,
    worker: WorkerIndex,
    buffer: SpanBatch,
}

impl WorkerSpans {
    /// An empty buffer of a worker for this queue.
    pub fn new(queue: Arc<SpanQueue>, worker: WorkerIndex) -> Self {
        Self {
            queue,
            worker,
            buffer: SpanBatch::default(),
        }
    }

    /// Adds a span, which `write` completes; hands the buffer over when it is full.
    pub fn add(&mut self, head: &SpanHead<'_>, write: impl FnOnce(&mut SpanWriter<'_>)) {
        let mut span = SpanWriter::begin(&mut self.buffer.bytes, head);
        write(&mut span);
        span.end();
        self.buffer.spans += 1;
        if self.buffer.spans >= HAND_OVER || self.buffer.bytes.len() >= HAND_OVER_BYTES {
            self.flush();
        }
    }

    /// Hands over what there is; to be called on every tick of the worker.
    pub fn flush(&mut self) {
        if self.buffer.spans > 0 {
            self.queue
                .push(self.worker, std::mem::take(&mut self.buffer));
        }
    }
}

impl Drop for WorkerSpans {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use lockgate_export::otlp::SpanKind;

    use super::*;

    fn batch(spans: u64, bytes: usize) -> SpanBatch {
        SpanBatch {
            bytes: vec![0; bytes],
            spans,
        }
    }

    fn spans(batches: &[SpanBatch]) -> Vec<u64> {
        batches.iter().map(|batch| batch.spans).collect()
    }

    const FIRST: WorkerIndex = WorkerIndex::new(0);
    const SECOND: WorkerIndex = WorkerIndex::new(1);

    #[test]
    fn the_oldest_spans_of_a_worker_are_lost_and_counted_where_there_is_no_room() {
        let (queue, half) = (SpanQueue::new(2), WAITING / 2);
        queue.push(SECOND, batch(9, half));
        for spans in 1..=3 {
            queue.push(FIRST, batch(spans, half / 2));
        }
        assert_eq!(queue.lost(), 1);
        assert_eq!(spans(&queue.take(100, WAITING)), [2, 9, 3]);
        queue.push(FIRST, batch(7, half + 1));
        assert_eq!(queue.lost(), 8);
        assert!(queue.take(100, WAITING).is_empty());
    }

    #[test]
    fn each_of_many_workers_has_room_for_full_buffers() {
        let queue = SpanQueue::new(1_000);
        for spans in [63, 64] {
            queue.push(FIRST, batch(spans, 2 * HAND_OVER_BYTES));
        }
        assert_eq!(spans(&queue.take(200, WAITING)), [63, 64]);
        assert_eq!(queue.lost(), 0);
    }

    #[test]
    fn spare_memory_of_buffers_counts_as_what_waits() {
        let queue = SpanQueue::new(1);
        let mut bytes = Vec::with_capacity(WAITING + 1);
        bytes.push(0);
        queue.push(FIRST, SpanBatch { bytes, spans: 1 });
        assert_eq!(queue.lost(), 1);
    }

    #[test]
    fn batches_are_taken_up_to_a_number_of_spans_and_of_bytes() {
        let queue = SpanQueue::new(1);
        for (spans, bytes) in [(5, 10), (5, 10), (5, 200), (50, 10)] {
            queue.push(FIRST, batch(spans, bytes));
        }
        assert_eq!(spans(&queue.take(12, 100)), [5, 5]);
        assert_eq!(spans(&queue.take(12, 100)), [5], "one in any case");
        assert_eq!(spans(&queue.take(12, 100)), [50]);
        assert_eq!(spans(&queue.take(12, 100)), [0_u64; 0]);
        queue.push(FIRST, batch(5, 10));
        queue.clear();
        assert!(queue.take(12, 100).is_empty());
    }

    #[test]
    fn no_worker_has_its_spans_wait_for_those_of_another() {
        let queue = SpanQueue::new(2);
        for spans in 1..=3 {
            queue.push(FIRST, batch(spans, 1));
            queue.push(SECOND, batch(10 * spans, 1));
        }
        assert_eq!(spans(&queue.take(1, 100)), [1]);
        assert_eq!(spans(&queue.take(12, 100)), [10, 2]);
        assert_eq!(spans(&queue.take(100, 100)), [20, 3, 30]);
        assert_eq!(queue.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_worker_hands_spans_over_by_the_tick_when_full_and_at_its_end() {
        let queue = Arc::new(SpanQueue::new(1));
        let mut worker = WorkerSpans::new(Arc::clone(&queue), FIRST);
        let head = SpanHead {
            trace: [1; 16],
            id: [2; 8],
            parent: None,
            flags: 1,
            name: "GET",
            kind: SpanKind::Server,
            start: 1,
            end: 2,
        };
        worker.add(&head, |_| {});
        assert!(queue.take(100, WAITING).is_empty());
        worker.flush();
        worker.flush();
        assert_eq!(spans(&queue.take(100, WAITING)), [1]);
        for _ in 0..=HAND_OVER {
            worker.add(&head, |span| span.text("a", "b"));
        }
        assert_eq!(spans(&queue.take(100, WAITING)), [HAND_OVER]);
        drop(worker);
        assert_eq!(spans(&queue.take(100, WAITING)), [1]);
    }
}
