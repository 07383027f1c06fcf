//! The thread that writes an access log. It owns the file, and no worker waits for it.
//!
//! Does not format: whole lines come in whole buffers over a bounded channel. A destination that is
//! slow or fails costs lines, which are counted, and never a worker's time.

pub(crate) mod line_sink;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lockgate_net::threads;
use rustix::fs::{Access, OFlags, access};

use crate::folders::{parent, writable};
use line_sink::{BlockingFile, LineSink};

/// The number of buffers that may wait for the thread: some 32 KB each, so that a hung disk costs 2
/// MB at the most.
const WAITING: usize = 64;

/// The least time between two warnings, and between two attempts to rotate.
const PAUSE: Duration = Duration::from_secs(10);
/// The least time between two looks at the path of a file that another process rotates.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// The destination of an access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogDestination {
    Stdout,
    Stderr,
    /// A file with mode 0640, appended to. A FIFO must have a reader when it is opened.
    File {
        /// The path; rotated files have `.1`, `.2` … appended.
        path: PathBuf,
        /// The rotation, if any; only a regular file can be rotated.
        rotation: Option<LogRotation>,
    },
}

impl LogDestination {
    /// Whether both write to one file; they may rotate it otherwise.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { path, .. }, Self::File { path: other, .. }) => path == other,
            _ => self == other,
        }
    }
}

/// Rotation by size and count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogRotation {
    /// The most bytes of a file; only a single buffer that is larger makes a larger file.
    pub(crate) size: u64,
    /// The number of rotated files kept beside the current one; with 0 the old lines are deleted.
    pub(crate) keep: u32,
}

/// The result of [`LogWriter::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterEnd {
    /// Every line was written or counted as lost.
    Drained,
    /// The destination was too slow; lines that still waited are lost with the process.
    GivenUp,
}

/// The handle of an access log's thread.
///
/// Ends by [`finish`](Self::finish); without it, when this and every sender is dropped.
#[derive(Debug)]
pub(crate) struct LogWriter {
    target: LogDestination,
    sender: SyncSender<Vec<u8>>,
    orders: Arc<WriterOrders>,
    /// The thread, and the channel that closes with it.
    thread: Mutex<Option<(Receiver<()>, JoinHandle<()>)>>,
}

/// The state that the supervisor and the workers share with the thread.
#[derive(Debug, Default)]
struct WriterOrders {
    lost: Arc<AtomicU64>,
    reopen: AtomicBool,
    follow: AtomicBool,
    finish: AtomicBool,
}

impl LogWriter {
    /// Opens the destination and starts the thread.
    pub(crate) fn start(target: LogDestination) -> io::Result<Self> {
        let file = OpenLog::open(target.clone())?;
        let (sender, buffers) = sync_channel(WAITING);
        let (end, ended) = sync_channel(1);
        let orders = Arc::new(WriterOrders::default());
        let writing = WriterThread {
            file,
            orders: Arc::clone(&orders),
            warnings: LossWarnings::default(),
        };
        let thread = threads::start("access-log", move || {
            writing.run(&buffers);
            drop(end); // `finish` sees the end of the thread as the end of this channel
        })?;
        Ok(Self {
            target,
            sender,
            orders,
            thread: Mutex::new(Some((ended, thread))),
        })
    }

    /// The destination.
    pub(crate) fn target(&self) -> &LogDestination {
        &self.target
    }

    /// A worker's end of the channel: it takes buffers of whole lines, each ending in a line feed,
    /// by `try_send`.
    pub(crate) fn sender(&self) -> SyncSender<Vec<u8>> {
        self.sender.clone()
    }

    /// The number of lines lost since the start; workers add lines for which the channel was full.
    pub(crate) fn lost(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.orders.lost)
    }

    /// Opens the file again, after another program renamed it (USR1). Returns at once; when the
    /// file cannot be opened, that is logged and the old one kept. No effect on standard output and
    /// standard error.
    pub(crate) fn reopen(&self) {
        self.order(&self.orders.reopen);
    }

    /// Rotates no longer: another process writes to the same file. Where that has another file now,
    /// by its own rotation or by USR1, this one opens it too.
    pub(crate) fn follow(&self) {
        self.order(&self.orders.follow);
    }

    /// Writes the waiting lines and ends the thread, but waits no longer than `deadline`: a hung
    /// disk must not hold up the exit. Lines that are sent after this are lost.
    pub(crate) fn finish(&self, deadline: Duration) -> WriterEnd {
        self.order(&self.orders.finish);
        let Some((ended, thread)) = self.thread.lock().ok().and_then(|mut one| one.take()) else {
            return WriterEnd::Drained;
        };
        match ended.recv_timeout(deadline) {
            Err(RecvTimeoutError::Timeout) => WriterEnd::GivenUp,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                // Only a panic of the thread is an error here, and its hook has printed it.
                let _ = thread.join();
                WriterEnd::Drained
            }
        }
    }

    /// Sets a flag and wakes the thread with an empty buffer. A full channel needs none: the thread
    /// reads the flags before every buffer.
    fn order(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        let _ = self.sender.try_send(Vec::new());
    }
}

/// The state of the thread.
struct WriterThread {
    file: OpenLog,
    orders: Arc<WriterOrders>,
    warnings: LossWarnings,
}

impl WriterThread {
    fn run(mut self, buffers: &Receiver<Vec<u8>>) {
        while !self.orders.finish.load(Ordering::Acquire) {
            match buffers.recv() {
                Ok(lines) => self.take(&lines),
                Err(_) => return,
            }
        }
        buffers.try_iter().for_each(|lines| self.take(&lines));
    }

    fn take(&mut self, lines: &[u8]) {
        if self.orders.reopen.swap(false, Ordering::AcqRel) {
            self.file.reopen();
        }
        if lines.is_empty() {
            return;
        }
        let now = Instant::now();
        let rotated = match self.orders.follow.load(Ordering::Acquire) {
            true => self.file.follow(now),
            false => self.file.rotate_before(lines.len(), now),
        };
        let written = self.file.lines.write(lines);
        if let Err(failure) = &written {
            self.orders.lost.fetch_add(failure.lost, Ordering::Relaxed);
        }
        let error = written.err().map(|failure| failure.error).or(rotated.err());
        self.warnings
            .report(now, self.orders.lost.load(Ordering::Relaxed), error);
    }
}

/// The warnings about lost lines in the operator log: one per [`PAUSE`] at the most.
#[derive(Debug, Default)]
struct LossWarnings {
    last: Option<Instant>,
    /// The lost lines that were logged.
    reported: u64,
    /// The last error that was not logged yet.
    error: Option<io::Error>,
}

impl LossWarnings {
    fn report(&mut self, now: Instant, lost: u64, error: Option<io::Error>) {
        match self.due(now, lost, error) {
            Some((lost, Some(error))) => {
                tracing::warn!(lost, %error, "the access log cannot be written");
            }
            Some((lost, None)) => {
                tracing::warn!(
                    lost,
                    "lines of the access log were lost: its destination was too slow"
                )
            }
            None => {}
        }
    }

    /// The lines lost since the last warning and the last error, when a warning is due.
    fn due(
        &mut self,
        now: Instant,
        lost: u64,
        error: Option<io::Error>,
    ) -> Option<(u64, Option<io::Error>)> {
        self.error = error.or(self.error.take());
        let lines = lost.saturating_sub(self.reported);
        let waited = self
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= PAUSE);
        if !waited || (lines == 0 && self.error.is_none()) {
            return None;
        }
        self.last = Some(now);
        self.reported = lost;
        Some((lines, self.error.take()))
    }
}

struct OpenLog {
    target: LogDestination,
    lines: LineSink<BlockingFile>,
    /// The time of a failed rotation, so that it is not tried at every buffer.
    rotation_failed: Option<Instant>,
    /// The time of the last look at the path.
    looked: Option<Instant>,
}

impl OpenLog {
    fn open(target: LogDestination) -> io::Result<Self> {
        let (file, size) = open(&target)?;
        Ok(Self {
            target,
            lines: LineSink::new(BlockingFile(file), size),
            rotation_failed: None,
            looked: None,
        })
    }

    fn reopen(&mut self) {
        let opened = self.open_again();
        let LogDestination::File { path, .. } = &self.target else {
            return;
        };
        let path = path.display();
        match opened {
            Ok(()) => tracing::info!(%path, "access log reopened"),
            Err(error) => {
                tracing::warn!(%path, %error, "access log not reopened: the old file stays in use")
            }
        }
    }

    fn open_again(&mut self) -> io::Result<()> {
        let (file, size) = open(&self.target)?;
        self.lines = LineSink::new(BlockingFile(file), size);
        Ok(())
    }

    /// Opens the file anew where another one has its path. Looks at the path seldom.
    fn follow(&mut self, now: Instant) -> io::Result<()> {
        let is_due = |looked| now.saturating_duration_since(looked) >= LOOKED_AT_EVERY;
        if !self.looked.is_none_or(is_due) {
            return Ok(());
        }
        self.looked = Some(now);
        match self.has_other_file()? {
            true => self.open_again(),
            false => Ok(()),
        }
    }

    /// Whether another file is at the path. Without any file there the open one stays in use.
    fn has_other_file(&self) -> io::Result<bool> {
        let LogDestination::File { path, .. } = &self.target else {
            return Ok(false);
        };
        let own = self.lines.out.0.metadata()?;
        match fs::metadata(path) {
            Ok(found) => Ok((found.dev(), found.ino()) != (own.dev(), own.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Rotates when `coming` bytes would make the file too large. On failure the old file stays in
    /// use, and the next attempt comes after a [`PAUSE`].
    ///
    /// Beside an upgrade another process writes to the file, and may have rotated it.
    fn rotate_before(&mut self, coming: usize, now: Instant) -> io::Result<()> {
        let LogDestination::File {
            path,
            rotation: Some(rotation),
        } = &self.target
        else {
            return Ok(());
        };
        let size = match self.lines.out.0.metadata() {
            Ok(found) => found.len(),
            Err(_) => self.lines.size,
        };
        let fits = size.saturating_add(coming as u64) <= rotation.size;
        let paused = self
            .rotation_failed
            .is_some_and(|failed| now.saturating_duration_since(failed) < PAUSE);
        if fits || size == 0 || paused {
            return Ok(());
        }
        let shifted = match self.has_other_file() {
            Ok(true) => Ok(()),
            Ok(false) => shift(path, rotation.keep),
            Err(error) => Err(error),
        };
        let rotated = shifted.and_then(|()| self.open_again());
        self.rotation_failed = rotated.is_err().then_some(now);
        rotated
    }
}

/// The opened destination and its size in bytes.
fn open(target: &LogDestination) -> io::Result<(File, u64)> {
    // Standard streams by descriptor, not by `io::stdout()`: that would cut buffers into lines.
    let (path, rotation) = match target {
        LogDestination::Stdout => {
            return Ok((io::stdout().as_fd().try_clone_to_owned()?.into(), 0));
        }
        LogDestination::Stderr => {
            return Ok((io::stderr().as_fd().try_clone_to_owned()?.into(), 0));
        }
        LogDestination::File { path, rotation } => (path, rotation),
    };
    let file = appending().create(true).mode(0o640).open(path)?;
    let size = size(&file, rotation.is_some())?;
    Ok((file, size))
}

/// Tries whether the destination can be opened; makes nothing.
///
/// # Errors
/// The error that opening it would give.
pub(crate) fn try_open(target: &LogDestination) -> io::Result<()> {
    let LogDestination::File { path, rotation } = target else {
        return Ok(());
    };
    // Opening and closing a FIFO would end its reader.
    if fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo()) && rotation.is_none() {
        return Ok(access(path, Access::WRITE_OK)?);
    }
    match appending().open(path) {
        Ok(file) => size(&file, rotation.is_some()).map(drop),
        Err(error) if error.kind() == ErrorKind::NotFound => writable(parent(path)),
        Err(error) => Err(error),
    }
}

fn appending() -> OpenOptions {
    let mut options = OpenOptions::new();
    // NONBLOCK: opening a FIFO without a reader is an error then, not a hang.
    options
        .append(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

fn size(file: &File, rotated: bool) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if rotated && !metadata.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "only a regular file can be rotated",
        ));
    }
    Ok(metadata.len())
}

/// Renames `path` to `.1`, `.1` to `.2` and so on; the one above `keep` is overwritten.
fn shift(path: &Path, keep: u32) -> io::Result<()> {
    // After an attempt that could rename but not open there is nothing to rename.
    if !path.try_exists()? {
        return Ok(());
    }
    if keep == 0 {
        return fs::remove_file(path);
    }
    // Only up to the first gap: the file before the gap takes its number, and later files stay.
    let gap = (1..keep)
        .find(|number| !numbered(path, *number).exists())
        .unwrap_or(keep);
    for number in (1..gap).rev() {
        fs::rename(numbered(path, number), numbered(path, number + 1))?;
    }
    fs::rename(path, numbered(path, 1))
}

/// The path of a rotated file; the one that was written last has the number 1.
pub(crate) fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests;
