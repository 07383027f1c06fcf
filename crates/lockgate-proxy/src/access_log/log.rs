//! A worker's end of the log: which records become lines, and whole buffers of whole lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use super::timestamp::Timestamps;
use super::{Cause, ConnectionEntry, ExchangeEntry, LineFormat, MaskIp};

/// Bytes of lines at which a worker hands its buffer over without waiting for the tick.
const HAND_OVER: usize = 32 * 1024;

/// The share of successful connections and exchanges that is logged; failed ones always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSample(u64);

impl LogSample {
    /// Everything.
    pub const ALL: Self = Self(1 << 32);

    /// A percentage, clamped to 0–100.
    pub fn percent(percent: f64) -> Self {
        Self((percent.clamp(0.0, 100.0) / 100.0 * (1_u64 << 32) as f64) as u64)
    }

    /// Whether number `turn` is in the sample.
    ///
    /// Multiples of the golden ratio fall evenly into every part of the circle (Weyl), and with no
    /// period that a page and its pictures could fall into step with.
    fn takes(self, turn: u64) -> bool {
        turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < self.0
    }
}

impl Default for LogSample {
    fn default() -> Self {
        Self::ALL
    }
}

/// The format of the lines, and the share that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineStyle {
    /// The format.
    pub format: LineFormat,
    /// Whether addresses are written in full.
    pub mask: MaskIp,
    /// The share of successful ones that is logged.
    pub sample: LogSample,
}

/// A worker's end of the log: collects lines and hands whole buffers to the thread that writes
/// them.
///
/// Never waits. When the channel is full or closed the lines of the buffer are lost and counted, so
/// what one worker holds is bounded by one buffer. What is left is handed over when it is dropped.
#[derive(Debug)]
pub struct WorkerLog {
    sender: SyncSender<Vec<u8>>,
    lost: Arc<AtomicU64>,
    style: LineStyle,
    stamps: Timestamps,
    buffer: Vec<u8>,
    lines: u64,
    turn: u64,
}

impl WorkerLog {
    /// A log that hands its lines to `sender` and counts in `lost` those that could not be handed
    /// over.
    pub fn new(sender: SyncSender<Vec<u8>>, lost: Arc<AtomicU64>, style: LineStyle) -> Self {
        let stamps = Timestamps::default();
        Self {
            sender,
            lost,
            style,
            stamps,
            buffer: Vec::new(),
            lines: 0,
            turn: 0,
        }
    }

    /// Whether it writes to the writer that counts in `lost`, in this style.
    pub fn is_for(&self, lost: &Arc<AtomicU64>, style: LineStyle) -> bool {
        Arc::ptr_eq(&self.lost, lost) && self.style == style
    }

    /// The mask of its addresses.
    pub fn mask(&self) -> MaskIp {
        self.style.mask
    }

    /// Adds the entry of a connection; hands the buffer over when it has grown to 32 KB.
    pub fn write(&mut self, entry: &ConnectionEntry<'_>) {
        let is_error = !matches!(entry.cause, Cause::ClientClosed | Cause::UpstreamClosed);
        if self.is_wanted(is_error) {
            entry.write(
                &mut self.buffer,
                &mut self.stamps,
                self.style.format,
                self.style.mask,
            );
            self.added();
        }
    }

    /// Adds the entry of an exchange; hands the buffer over when it has grown to 32 KB.
    pub fn write_exchange(&mut self, exchange: &ExchangeEntry<'_>) {
        if self.is_wanted(exchange.is_error()) {
            exchange.write(
                &mut self.buffer,
                &mut self.stamps,
                self.style.format,
                self.style.mask,
            );
            self.added();
        }
    }

    fn is_wanted(&mut self, is_error: bool) -> bool {
        self.turn = self.turn.wrapping_add(1);
        is_error || self.style.sample.takes(self.turn)
    }

    fn added(&mut self) {
        self.lines += 1;
        if self.buffer.len() >= HAND_OVER {
            self.flush();
        }
    }

    /// Hands over what there is; to be called on every tick of the worker, so that no line waits
    /// long.
    pub fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        // The next buffer will likely be as full as this one.
        let next = Vec::with_capacity(self.buffer.len());
        let lines = std::mem::take(&mut self.lines);
        let full = std::mem::replace(&mut self.buffer, next);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.sender.try_send(full)
        {
            self.lost.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

impl Drop for WorkerLog {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::tests::{entry, line, plain};
    use std::sync::mpsc::{Receiver, sync_channel};

    fn log(capacity: usize) -> (WorkerLog, Receiver<Vec<u8>>, Arc<AtomicU64>) {
        let (sender, receiver) = sync_channel(capacity);
        let lost = Arc::new(AtomicU64::new(0));
        (
            WorkerLog::new(sender, Arc::clone(&lost), LineStyle::default()),
            receiver,
            lost,
        )
    }

    #[test]
    fn log_lines_wait_for_the_tick_or_a_full_buffer() {
        let (mut log, receiver, lost) = log(8);
        log.write(&entry());
        assert!(receiver.try_recv().is_err());
        log.flush();
        assert_eq!(
            receiver.try_recv().unwrap(),
            line(&entry(), MaskIp::Keep).into_bytes()
        );
        log.flush();
        assert!(
            receiver.try_recv().is_err(),
            "an empty buffer is not handed over"
        );

        let mut written = 0;
        let buffer = loop {
            log.write(&entry());
            written += 1;
            if let Ok(buffer) = receiver.try_recv() {
                break buffer;
            }
        };
        assert!((HAND_OVER..HAND_OVER + 1_024).contains(&buffer.len()));
        assert_eq!(
            buffer.iter().filter(|byte| **byte == b'\n').count(),
            written
        );
        assert_eq!(lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_log_channel_drops_lines_and_counts_them() {
        let (mut log, receiver, lost) = log(1);
        for lines in [1, 2, 3] {
            (0..lines).for_each(|_| log.write(&plain()));
            log.flush();
        }
        assert_eq!(lost.load(Ordering::Relaxed), 5);
        assert_eq!(
            receiver.try_recv().unwrap(),
            line(&plain(), MaskIp::Keep).into_bytes()
        );
        log.write(&plain());
        log.flush();
        assert!(
            receiver.try_recv().is_ok(),
            "served again as soon as there is room"
        );
        assert_eq!(lost.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_closed_log_writer_drops_lines_and_counts_them() {
        let (mut log, receiver, lost) = log(1);
        drop(receiver);
        log.write(&plain());
        log.flush();
        assert_eq!(lost.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_dropped_log_flushes_its_buffer() {
        let (mut log, receiver, _lost) = log(1);
        log.write(&plain());
        drop(log);
        assert!(receiver.try_recv().is_ok());
    }

    #[test]
    fn log_sampling_keeps_its_percentage_and_every_error() {
        for (percent, expected) in [
            (0.0, 0),
            (-1.0, 0),
            (1.0, 100),
            (12.5, 1_250),
            (50.0, 5_000),
            (100.0, 10_000),
            (1e9, 10_000),
        ] {
            let sample = LogSample::percent(percent);
            let taken = (0..10_000).filter(|&turn| sample.takes(turn)).count();
            assert!(taken.abs_diff(expected) <= 10, "{percent} %: {taken}");
        }
        let (mut log, receiver, _lost) = log(1);
        log.style.sample = LogSample::percent(0.0);
        log.write(&plain());
        log.write(&ConnectionEntry {
            cause: Cause::Idle,
            ..plain()
        });
        log.flush();
        let lines = String::from_utf8(receiver.try_recv().unwrap()).unwrap();
        assert_eq!(lines.lines().count(), 1);
        assert!(lines.contains(r#""cause":"idle""#));
    }
}
