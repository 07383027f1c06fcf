//! The output of the operator log: straight to standard error at first, and through a thread once
//! other threads must not wait for it.
//!
//! Does not format.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use lockgate_net::threads;

use crate::log_writer::line_sink::{BlockingFile, LineSink};

/// The number of lines that may wait for the thread: some 200 bytes each.
const WAITING: usize = 1024;
/// The interval at which [`StderrOutput::settle`] looks.
const LOOK: Duration = Duration::from_millis(1);

/// The output of a process's lines.
#[derive(Debug)]
pub(super) struct StderrOutput {
    queue: OnceLock<SyncSender<Box<[u8]>>>,
    /// The number of lines that are queued or being written.
    pending: AtomicUsize,
    lost: AtomicU64,
}

thread_local! {
    /// A line of the writing thread's own, about lost lines.
    static ASIDE: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
}

impl StderrOutput {
    pub(super) const fn new() -> Self {
        Self {
            queue: OnceLock::new(),
            pending: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// A writer for the next line, which is written in one piece.
    pub(super) fn line(&'static self) -> LogLineWriter {
        LogLineWriter(self)
    }

    /// The number of lines lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Starts the thread that writes the lines to `target` from now on; only the first call counts.
    pub(super) fn start_thread(&'static self, target: File) -> io::Result<()> {
        let (queue, lines) = sync_channel(WAITING);
        let writing = StderrThread {
            output: self,
            target: LineSink::new(BlockingFile(target), 0),
            reported: 0,
        };
        threads::start("operator-log", move || writing.run(&lines))?;
        let _ = self.queue.set(queue);
        Ok(())
    }

    /// Waits until every line is written; false when some still wait after `patience`.
    pub(super) fn settle(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.pending.load(Ordering::Acquire) > 0 {
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    fn take(&self, line: &[u8]) {
        let Some(queue) = self.queue.get() else {
            // A closed standard error cannot be reported anywhere.
            let _ = io::stderr().write_all(line);
            return;
        };
        self.pending.fetch_add(1, Ordering::AcqRel);
        if queue.try_send(line.into()).is_err() {
            self.pending.fetch_sub(1, Ordering::AcqRel);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The writer of one line.
#[derive(Debug)]
pub(super) struct LogLineWriter(&'static StderrOutput);

impl Write for LogLineWriter {
    /// Takes the line whole. Never an error: the subscriber would print that to standard error
    /// itself, and wait for it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match ASIDE.take() {
            Some(mut aside) => {
                aside.extend_from_slice(line);
                ASIDE.set(Some(aside));
            }
            None => self.0.take(line),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The state of the thread.
struct StderrThread {
    output: &'static StderrOutput,
    target: LineSink<BlockingFile>,
    /// The lost lines that were logged.
    reported: u64,
}

impl StderrThread {
    fn run(mut self, lines: &Receiver<Box<[u8]>>) {
        loop {
            let line = match lines.try_recv() {
                Ok(line) => line,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    self.report_lost();
                    match lines.recv() {
                        Ok(line) => line,
                        Err(_) => return,
                    }
                }
            };
            if let Err(failure) = self.target.write(&line) {
                self.output.lost.fetch_add(failure.lost, Ordering::Relaxed);
            }
            self.output.pending.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Logs the number of lost lines, now that the waiting lines are written; on failure, again
    /// after the next line.
    fn report_lost(&mut self) {
        let lost = self.output.lost();
        if lost == self.reported {
            return;
        }
        ASIDE.set(Some(Vec::new()));
        tracing::warn!(
            lost = lost - self.reported,
            "lines of this log were lost: standard error was too slow"
        );
        let line = ASIDE.take().unwrap_or_default();
        if self.target.write(&line).is_ok() {
            self.reported = lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Colour, OperatorLogFormat, subscriber};
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;
    use std::sync::Once;
    use tracing::level_filters::LevelFilter;

    /// An output of which the test reads the other end.
    fn output() -> (&'static StderrOutput, File, File) {
        // The process has a subscriber, as outside of tests: a thread without any, that is the
        // first to come to a `warn!`, would switch it off for all others.
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            let (subscriber, _) = subscriber(
                LevelFilter::INFO,
                OperatorLogFormat::Text,
                Colour::Never,
                io::sink,
            );
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
        let (read, write) = rustix::pipe::pipe().unwrap();
        let of = |fd: OwnedFd| File::from(fd);
        (
            Box::leak(Box::new(StderrOutput::new())),
            of(read),
            of(write),
        )
    }

    /// Fills the pipe to its last byte.
    fn fill(pipe: &File) -> u64 {
        let flags = rustix::fs::fcntl_getfl(pipe).unwrap();
        rustix::fs::fcntl_setfl(pipe, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        let (mut pipe, mut filled) = (pipe, 0);
        for size in [4096, 1] {
            while let Ok(written) = pipe.write(&vec![b'x'; size]) {
                filled += written as u64;
            }
        }
        filled
    }

    fn say(output: &'static StderrOutput, line: &str) {
        assert_eq!(output.line().write(line.as_bytes()).unwrap(), line.len());
    }

    fn next(read: &mut impl BufRead) -> String {
        let mut line = String::new();
        read.read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn a_full_pipe_blocks_no_thread_that_has_something_to_say() {
        let (output, mut read, write) = output();
        let filled = fill(&write);
        output.start_thread(write).unwrap();
        // One may be in the thread's hands.
        for number in 0..WAITING + 1 + 5 {
            say(output, &format!("line {number}\n"));
        }
        let lost = output.lost();
        assert!((5..=6).contains(&lost), "{lost}");
        assert!(!output.settle(Duration::ZERO), "they still wait");
        io::copy(&mut io::Read::take(&mut read, filled), &mut io::sink()).unwrap();
        let mut read = BufReader::new(read);
        for number in 0..WAITING as u64 + 6 - lost {
            assert_eq!(next(&mut read), format!("line {number}\n"));
        }
        assert!(output.settle(Duration::from_secs(60)));
    }

    #[test]
    fn lost_lines_are_told_once_there_is_room() {
        let (output, read, write) = output();
        let (queue, lines) = sync_channel(WAITING);
        output.queue.set(queue).unwrap();
        for number in 0..WAITING + 3 {
            say(output, &format!("line {number}\n"));
        }
        thread::spawn(move || {
            let (subscriber, _) = subscriber(
                LevelFilter::INFO,
                OperatorLogFormat::Text,
                Colour::Never,
                move || output.line(),
            );
            let writing = StderrThread {
                output,
                target: LineSink::new(BlockingFile(write), 0),
                reported: 0,
            };
            tracing::subscriber::with_default(subscriber, || writing.run(&lines));
        });
        let mut read = BufReader::new(read);
        for number in 0..WAITING {
            assert_eq!(next(&mut read), format!("line {number}\n"));
        }
        let told = next(&mut read);
        assert!(
            told.ends_with("lines of this log were lost: standard error was too slow lost=3\n"),
            "{told}"
        );
        say(output, "then on\n");
        assert_eq!(next(&mut read), "then on\n");
    }

    #[test]
    fn a_closed_pipe_costs_lines_and_no_more() {
        let (output, read, write) = output();
        drop(read);
        output.start_thread(write).unwrap();
        say(output, "one\n");
        say(output, "two\n");
        assert!(output.settle(Duration::from_secs(60)));
        assert_eq!(output.lost(), 2);
    }
}
