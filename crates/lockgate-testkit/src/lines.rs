//! Lines of a program's output, collected as they come.
//!
//! Does not interpret them, except where a test asks for JSON.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;

use crate::DEADLINE;

/// The output so far, and whether there can be more.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<(Mutex<Collected>, Condvar)>);

#[derive(Debug, Default)]
struct Collected {
    lines: Vec<String>,
    ended: bool,
    reading: Reading,
}

/// Whether the source is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    #[default]
    On,
    /// Reading ends after the awaited line.
    Stopping,
    Stopped,
}

impl Lines {
    /// Collects the lines of `source` until its end, in a thread of its own.
    pub fn of(source: impl Read + Send + 'static) -> Self {
        let lines = Self::default();
        let writer = lines.clone();
        std::thread::spawn(move || {
            let mut source = BufReader::new(source);
            let mut line = Vec::new();
            while writer.may_read()
                && source
                    .read_until(b'\n', &mut line)
                    .is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8_lossy(&line)
                    .trim_end_matches('\n')
                    .to_owned();
                writer.change(|collected| collected.lines.push(text));
                line.clear();
            }
            writer.change(|collected| collected.ended = true);
        });
        lines
    }

    /// Stops reading, like a collector of logs that hangs. Takes effect with the next line.
    pub fn stop_reading(&self) {
        self.change(|collected| collected.reading = Reading::Stopping);
    }

    /// Whether reading has stopped.
    pub fn has_stopped_reading(&self) -> bool {
        self.lock().reading == Reading::Stopped
    }

    /// Continues reading.
    pub fn read_on(&self) {
        self.change(|collected| collected.reading = Reading::On);
    }

    /// Waits until the source may be read; always true.
    fn may_read(&self) -> bool {
        let mut collected = self.lock();
        while collected.reading != Reading::On {
            collected.reading = Reading::Stopped;
            collected = self
                .0
                .1
                .wait(collected)
                .unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Waits for a line in which `find` finds something; earlier lines are searched, too.
    ///
    /// # Panics
    /// When the source ends or the deadline passes without one; the message names `what` and has
    /// the output.
    pub fn find<T>(&self, what: &str, mut find: impl FnMut(&str) -> Option<T>) -> T {
        let mut seen = 0;
        let found = self.wait(|collected| {
            let found = collected.lines[seen..].iter().find_map(|line| find(line));
            seen = collected.lines.len();
            match found {
                Some(found) => Some(Some(found)),
                None => collected.ended.then_some(None),
            }
        });
        match found.flatten() {
            Some(found) => found,
            None => panic!("{what}: not in\n{}", self.text()),
        }
    }

    /// Like [`Lines::find`], among lines that are JSON; others are skipped.
    ///
    /// # Panics
    /// As [`Lines::find`].
    pub fn find_json(&self, what: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        self.find(what, |line| {
            serde_json::from_str::<Value>(line)
                .ok()
                .filter(|value| is_it(value))
        })
    }

    /// Every JSON line so far.
    pub fn json(&self) -> Vec<Value> {
        self.lock()
            .lines
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The output so far.
    pub fn text(&self) -> String {
        self.lock().lines.join("\n")
    }

    /// Whether the source ended within the deadline.
    pub fn ended(&self) -> bool {
        self.wait(|collected| collected.ended.then_some(()))
            .is_some()
    }

    /// Waits until `look` returns something; `None` when the deadline passes first.
    fn wait<T>(&self, mut look: impl FnMut(&Collected) -> Option<T>) -> Option<T> {
        let end = Instant::now() + DEADLINE;
        let mut collected = self.lock();
        loop {
            if let Some(answer) = look(&collected) {
                return Some(answer);
            }
            let left = end.checked_duration_since(Instant::now())?;
            let waited = self.0.1.wait_timeout(collected, left);
            collected = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Collected)) {
        change(&mut self.lock());
        self.0.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
