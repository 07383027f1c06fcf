//! The access log while it happens: lines for readers that ask for some of them.
//!
//! Without a reader it costs one load of an atomic for each entry. A worker never waits for a
//! reader: each reader has a buffer in each worker, of which only the two know, and a line that
//! does not fit is lost and counted.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_limits::WorkerIndex;
use lockgate_rules::network::Cidr;

use super::timestamp::Timestamps;
use super::{Cause, ConnectionEntry, ExchangeEntry, LineFormat, LoggedAddress, MaskIp};

/// Bytes of lines in one worker that wait for a reader; the last line may go beyond.
const WAITING: usize = 128 * 1024;

/// The lines that a reader wants: those of entries that are all of this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TailFilter {
    /// Of this site.
    pub site: Option<String>,
    /// Of the listener with this name.
    pub listener: Option<String>,
    /// With a status in one of these; empty for any.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// With this cause.
    pub cause: Option<Cause>,
    /// That took longer.
    pub slower_than: Option<Duration>,
    /// Of a client in this network.
    pub client: Option<Cidr>,
}

impl TailFilter {
    fn takes_exchange(&self, entry: &ExchangeEntry<'_>) -> bool {
        let is_of = |site: &String| entry.site == Some(site.as_str());
        let cause = entry.failure.as_ref().map(|failure| failure.cause);
        (self.statuses.is_empty()
            || self
                .statuses
                .iter()
                .any(|some| some.contains(&entry.status)))
            && self.site.as_ref().is_none_or(is_of)
            && (self.cause.is_none() || self.cause == cause)
            && self.takes_timed(entry.timings.duration)
            && self.takes_from(entry.downstream.listener, entry.downstream.client)
    }

    fn takes_connection(&self, entry: &ConnectionEntry<'_>) -> bool {
        // It has neither.
        self.statuses.is_empty()
            && self.site.is_none()
            && self.cause.is_none_or(|cause| entry.cause == cause)
            && self.takes_timed(entry.duration)
            && self.takes_from(entry.listener, entry.client)
    }

    fn takes_timed(&self, took: Duration) -> bool {
        self.slower_than.is_none_or(|least| took > least)
    }

    fn takes_from(&self, listener: &str, client: LoggedAddress) -> bool {
        let is_in = |network: &Cidr| match client {
            LoggedAddress::Ip(address) => network.contains(address.ip()),
            LoggedAddress::Unix | LoggedAddress::Unknown => false,
        };
        self.listener.as_ref().is_none_or(|name| name == listener)
            && self.client.as_ref().is_none_or(is_in)
    }
}

/// The readers of a process.
#[derive(Debug)]
pub struct Tails {
    count: AtomicUsize,
    open: ArcSwap<Vec<Arc<Tail>>>,
    /// Held while the list changes.
    changes: Mutex<()>,
    workers: usize,
}

/// One reader, as the workers know it.
#[derive(Debug)]
struct Tail {
    filter: TailFilter,
    /// One for each worker.
    buffers: Box<[Mutex<TailBuffer>]>,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct TailBuffer {
    lines: Vec<u8>,
    stamps: Timestamps,
}

/// The readers that are open now, as one worker writes to them.
#[derive(Debug)]
pub struct OpenTails {
    open: Arc<Vec<Arc<Tail>>>,
    worker: WorkerIndex,
    mask: MaskIp,
}

/// A reader; dropping it ends it.
#[derive(Debug)]
pub struct TailReader {
    tails: Arc<Tails>,
    tail: Arc<Tail>,
}

impl Tails {
    /// The most readers at once.
    pub const MOST: usize = 8;

    /// No reader yet, in a process with so many `workers`.
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            count: AtomicUsize::new(0),
            open: ArcSwap::default(),
            changes: Mutex::new(()),
            workers,
        })
    }

    /// A further reader; none where there are [`MOST`](Self::MOST).
    pub fn open(self: &Arc<Self>, filter: TailFilter) -> Option<TailReader> {
        let tail = Arc::new(Tail {
            filter,
            buffers: (0..self.workers).map(|_| Mutex::default()).collect(),
            lost: AtomicU64::new(0),
        });
        let is_open = self.change(|open| {
            let has_room = open.len() < Self::MOST;
            if has_room {
                open.push(Arc::clone(&tail));
            }
            has_room
        });
        is_open.then(|| TailReader {
            tails: Arc::clone(self),
            tail,
        })
    }

    /// The readers for lines of this worker, with addresses as `mask` has them; none without a
    /// reader.
    #[inline]
    pub fn for_worker(
        &self,
        worker: WorkerIndex,
        mask: impl FnOnce() -> MaskIp,
    ) -> Option<OpenTails> {
        // A line that happens while a reader comes is one that it has just missed.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(OpenTails {
            open: self.open.load_full(),
            worker,
            mask: mask(),
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Tail>>) -> T) -> T {
        let _changes = locked(&self.changes);
        let mut open = Vec::clone(&self.open.load());
        let result = change(&mut open);
        self.count.store(open.len(), Ordering::Relaxed);
        self.open.store(Arc::new(open));
        result
    }
}

impl OpenTails {
    /// Gives the entry of a connection to the readers that want it.
    pub fn write(&self, entry: &ConnectionEntry<'_>) {
        for tail in self.open.iter() {
            if tail.filter.takes_connection(entry) {
                tail.add(self.worker, |TailBuffer { lines, stamps }| {
                    entry.write(lines, stamps, LineFormat::Json, self.mask);
                });
            }
        }
    }

    /// Gives the entry of an exchange to the readers that want it.
    pub fn write_exchange(&self, entry: &ExchangeEntry<'_>) {
        for tail in self.open.iter() {
            if tail.filter.takes_exchange(entry) {
                tail.add(self.worker, |TailBuffer { lines, stamps }| {
                    entry.write(lines, stamps, LineFormat::Json, self.mask);
                });
            }
        }
    }
}

impl Tail {
    fn add(&self, worker: WorkerIndex, write: impl FnOnce(&mut TailBuffer)) {
        let Some(buffer) = self.buffers.get(worker.get()) else {
            return;
        };
        // The reader only takes the lines out: that is no wait.
        let mut buffer = locked(buffer);
        if buffer.lines.len() < WAITING {
            write(&mut buffer);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl TailReader {
    /// The lines since the last call, each an object of JSON with its end.
    pub fn take(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for buffer in &self.tail.buffers {
            let lines = std::mem::take(&mut locked(buffer).lines);
            if all.is_empty() {
                all = lines;
            } else {
                all.extend_from_slice(&lines);
            }
        }
        all
    }

    /// The number of lines that were lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.tail.lost.swap(0, Ordering::Relaxed)
    }
}

impl Drop for TailReader {
    fn drop(&mut self) {
        self.tails
            .change(|open| open.retain(|one| !Arc::ptr_eq(one, &self.tail)));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::exchange_entry::tests::exchange;
    use super::super::tests::{entry, line, plain};
    use super::*;

    const WORKER: WorkerIndex = WorkerIndex::new(0);

    fn read(reader: &TailReader) -> String {
        String::from_utf8(reader.take()).unwrap()
    }

    #[test]
    fn workers_see_no_reader_unless_one_is_open() {
        let tails = Tails::new(1);
        let is_open = || tails.for_worker(WORKER, || MaskIp::Keep).is_some();
        assert!(!is_open());
        let open = || tails.open(TailFilter::default());
        let mut readers: Vec<_> = (0..Tails::MOST).map(|_| open().unwrap()).collect();
        assert!(is_open() && open().is_none());
        readers.pop();
        readers.push(open().unwrap());
        assert!(open().is_none());
        readers.clear();
        assert!(!is_open());
    }

    #[test]
    fn a_reader_gets_the_lines_of_each_worker_once() {
        let tails = Tails::new(2);
        let reader = tails.open(TailFilter::default()).unwrap();
        for worker in [0, 1] {
            let open = tails.for_worker(WorkerIndex::new(worker), || MaskIp::Keep);
            open.unwrap().write(&entry());
        }
        let one = line(&entry(), MaskIp::Keep);
        assert_eq!(read(&reader), format!("{one}{one}"));
        assert_eq!(read(&reader), "");
        let open = tails.for_worker(WORKER, || MaskIp::Mask).unwrap();
        open.write(&entry());
        assert_eq!(read(&reader), line(&entry(), MaskIp::Mask));
    }

    #[test]
    fn lines_beyond_the_buffer_are_lost_and_counted() {
        let tails = Tails::new(1);
        let reader = tails.open(TailFilter::default()).unwrap();
        let open = tails.for_worker(WORKER, || MaskIp::Keep).unwrap();
        let count = 4 * WAITING / line(&plain(), MaskIp::Keep).len();
        (0..count).for_each(|_| open.write(&plain()));
        let lines = read(&reader);
        assert!(lines.len() < WAITING + 1_024, "{}", lines.len());
        let kept = lines.lines().count() as u64;
        assert_eq!(reader.take_lost() + kept, count as u64);
        assert_eq!(reader.take_lost(), 0);
        open.write(&plain());
        assert_eq!(read(&reader).lines().count(), 1);
    }

    #[test]
    fn a_filter_takes_entries_that_are_all_that_it_names() {
        let (exchange, connection) = (exchange(), entry());
        let (client, other) = (
            Cidr::parse("203.0.113.0/24").ok(),
            Cidr::parse("10.0.0.0/8").ok(),
        );
        let own = exchange.status;
        let any = TailFilter::default;
        let site = |name: &str| Some(name.to_owned());
        for (filter, takes_exchange, takes_connection) in [
            (any(), true, true),
            (
                TailFilter {
                    site: exchange.site.map(str::to_owned),
                    ..any()
                },
                true,
                false,
            ),
            (
                TailFilter {
                    site: site("another"),
                    ..any()
                },
                false,
                false,
            ),
            (
                TailFilter {
                    statuses: vec![own..=own],
                    ..any()
                },
                true,
                false,
            ),
            (
                TailFilter {
                    statuses: vec![1..=2, own..=599],
                    ..any()
                },
                true,
                false,
            ),
            (
                TailFilter {
                    statuses: vec![100..=own - 1],
                    ..any()
                },
                false,
                false,
            ),
            (TailFilter { client, ..any() }, true, true),
            (
                TailFilter {
                    client: other,
                    ..any()
                },
                false,
                false,
            ),
            (
                TailFilter {
                    listener: site(":8443"),
                    ..any()
                },
                exchange.downstream.listener == ":8443",
                true,
            ),
            (
                TailFilter {
                    listener: site(":1"),
                    ..any()
                },
                false,
                false,
            ),
            (
                TailFilter {
                    cause: Some(Cause::ClientClosed),
                    ..any()
                },
                false,
                true,
            ),
            (
                TailFilter {
                    cause: Some(Cause::Internal),
                    ..any()
                },
                false,
                false,
            ),
            (
                TailFilter {
                    slower_than: Some(Duration::ZERO),
                    ..any()
                },
                true,
                true,
            ),
            (
                TailFilter {
                    slower_than: Some(Duration::from_secs(3_600)),
                    ..any()
                },
                false,
                false,
            ),
        ] {
            assert_eq!(
                filter.takes_exchange(&exchange),
                takes_exchange,
                "{filter:?}"
            );
            assert_eq!(
                filter.takes_connection(&connection),
                takes_connection,
                "{filter:?}"
            );
        }
    }
}
