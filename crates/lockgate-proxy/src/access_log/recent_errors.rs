//! The lines of the last errors, for the live page: a few of each worker, whether there is an access
//! log or not.
//!
//! Only an error costs anything, and many errors cost no more than a few do. Queries, users and
//! fields of requests are not kept: they may have secrets, and can make a line long.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockgate_limits::WorkerIndex;
use lockgate_net::millis::Millis;

use super::timestamp::Timestamps;
use super::{
    Cause, CauseSide, ConnectionEntry, ExchangeEntry, LineFormat, LoggedConnection, LoggedRequest,
    MaskIp,
};
use crate::escape;

/// Lines of one worker.
const KEPT: usize = 32;
/// Lines that one worker writes within [`SPAN`].
const MOST: u32 = 8;
const SPAN: Millis = Millis::from_secs(1);
/// The longest line that is kept, in bytes.
const LONGEST: usize = 4 * 1024;
/// Most bytes of a path that are kept.
const PATH: usize = 256;

/// The errors of all workers.
#[derive(Debug)]
pub struct RecentErrors(Box<[Mutex<WorkerErrors>]>);

#[derive(Debug, Default)]
struct WorkerErrors {
    lines: VecDeque<Vec<u8>>,
    stamps: Timestamps,
    began: Millis,
    written: u32,
}

/// The place for an error of one worker.
#[derive(Debug)]
pub struct ErrorSink<'a> {
    errors: &'a Mutex<WorkerErrors>,
    now: Millis,
    mask: MaskIp,
}

/// Whether an end is an error that an operator can do something about: clients that leave and
/// requests that a rule refuses are none.
pub fn is_error_of_ours(cause: Cause, side: CauseSide) -> bool {
    side != CauseSide::Downstream
        && !matches!(
            cause,
            Cause::UpstreamClosed
                | Cause::Idle
                | Cause::Lifetime
                | Cause::RefusedByRule
                | Cause::Drain
        )
}

impl RecentErrors {
    /// No error yet, in a process with so many `workers`.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Mutex::default()).collect())
    }

    /// The place for an error of a worker; addresses are written as `mask` has them.
    pub fn sink(&self, worker: WorkerIndex, now: Millis, mask: MaskIp) -> Option<ErrorSink<'_>> {
        let errors = self.0.get(worker.get())?;
        Some(ErrorSink { errors, now, mask })
    }

    /// The lines, each an object of JSON, in no order.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        let workers = self.0.iter();
        workers
            .flat_map(|errors| locked(errors).lines.iter().cloned().collect::<Vec<_>>())
            .collect()
    }
}

impl ErrorSink<'_> {
    /// Keeps the entry of a connection.
    pub fn write(&self, entry: &ConnectionEntry<'_>) {
        self.keep(|line, stamps| entry.write(line, stamps, LineFormat::Json, self.mask));
    }

    /// Keeps the entry of an exchange.
    pub fn write_exchange(&self, entry: &ExchangeEntry<'_>) {
        self.keep(|line, stamps| {
            let target = path(entry.request.target);
            let request = LoggedRequest {
                method: entry.request.method,
                target: &target,
                ..LoggedRequest::default()
            };
            let downstream = LoggedConnection {
                tls: None,
                ..entry.downstream
            };
            let short = ExchangeEntry {
                request,
                downstream,
                ..*entry
            };
            short.write(line, stamps, LineFormat::Json, self.mask);
        });
    }

    fn keep(&self, write: impl FnOnce(&mut Vec<u8>, &mut Timestamps)) {
        let mut errors = locked(self.errors);
        if self.now - errors.began >= SPAN {
            (errors.began, errors.written) = (self.now, 0);
        }
        if errors.written >= MOST {
            return;
        }
        errors.written += 1;
        let oldest = (errors.lines.len() >= KEPT)
            .then(|| errors.lines.pop_front())
            .flatten();
        let mut line = oldest.unwrap_or_default();
        line.clear();
        write(&mut line, &mut errors.stamps);
        if line.len() <= LONGEST {
            errors.lines.push_back(line);
        }
    }
}

/// The path of a target, with an ellipsis where it is cut.
fn path(target: &[u8]) -> Cow<'_, [u8]> {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let path = end.map_or(target, |end| &target[..end]);
    match escape::cut(path, PATH) {
        (path, false) => path.into(),
        (path, true) => [path, "…".as_bytes()].concat().into(),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::exchange_entry::tests::exchange;
    use super::super::tests::{entry, line};
    use super::*;

    #[test]
    fn a_worker_keeps_its_last_errors_and_few_of_a_second() {
        let errors = RecentErrors::new(2);
        let write = |worker, seconds| {
            let now = Millis::from_secs(seconds);
            let sink = errors.sink(WorkerIndex::new(worker), now, MaskIp::Keep);
            sink.unwrap().write(&entry());
        };
        (0..100).for_each(|_| write(0, 5));
        assert_eq!(errors.lines().len(), MOST as usize);
        (6..100).for_each(|second| write(0, second));
        assert_eq!(errors.lines().len(), KEPT);
        write(1, 5);
        let lines = errors.lines();
        assert_eq!(lines.len(), KEPT + 1);
        assert_eq!(lines[KEPT], line(&entry(), MaskIp::Keep).as_bytes());
        assert!(
            errors
                .sink(WorkerIndex::new(2), Millis::from_secs(1), MaskIp::Keep)
                .is_none()
        );
    }
    #[test]
    fn a_recent_error_has_its_path_without_query_however_long_the_request_was() {
        let kept = |target: &[u8]| {
            let (errors, long) = (RecentErrors::new(1), [b'x'; 9_000]);
            let mut failed = exchange();
            (failed.request.target, failed.request.referer) = (target, Some(&long[..]));
            let sink = errors.sink(WorkerIndex::new(0), Millis::from_secs(1), MaskIp::Keep);
            sink.unwrap().write_exchange(&failed);
            String::from_utf8(errors.lines().remove(0)).unwrap()
        };
        let target = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["target"].as_str().unwrap().to_owned()
        };
        let line = kept(&[b"/sso?token=".as_slice(), &[b's'; 8_000]].concat());
        assert_eq!(target(&line), "/sso");
        for secret in ["token", "sss", "xxx", "alice", "Mozilla"] {
            assert!(!line.contains(secret), "{line}");
        }
        assert_eq!(target(&kept(b"/a#b?c")), "/a");
        let long = kept(&[b"/".as_slice(), &[0xff; 9_000]].concat());
        assert_eq!(target(&long).chars().count(), PATH + 1);
        assert!(target(&long).ends_with('…'));
    }
}
