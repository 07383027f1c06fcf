//! The watch on files that are read again when they change, in every way of replacing a file:
//! certificates, keys, users, the configuration.
//!
//! Reads no file and judges none: it compares stamps. inotify tells when to compare, and a slow
//! poll compares where inotify is silent (network and overlay file systems).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout};

/// The files that are watched, which may change while a [`FileWatcher`] waits.
pub(crate) struct WatchedFiles {
    events: Option<pipe::Receiver>,
    set: Mutex<WatchedSet>,
}

#[derive(Default)]
struct WatchedSet {
    /// The stamps at the last comparison.
    files: BTreeMap<PathBuf, Option<WatchedStamp>>,
    /// The watches of inotify, one for each directory.
    watches: BTreeSet<i32>,
}

/// The wait for changes of files.
pub(crate) struct FileWatcher {
    watched: Arc<WatchedFiles>,
    intervals: PollIntervals,
    /// Whether an event waits for a comparison: kept here so that `changed` may be cancelled.
    pending: bool,
    next_poll: Instant,
}

#[derive(Clone, Copy)]
struct PollIntervals {
    /// The quiet time that ends a burst of events: writers replace a certificate and its key
    /// together.
    settle: Duration,
    /// The longest delay by a directory that never falls quiet.
    longest: Duration,
    /// The interval of comparisons without events.
    poll: Duration,
}

const INTERVALS: PollIntervals = PollIntervals {
    settle: Duration::from_millis(200),
    longest: Duration::from_secs(2),
    poll: Duration::from_secs(10),
};

/// The most symbolic links in one path, as in Linux (path_resolution(7)).
const MOST_LINKS: usize = 40;

impl WatchedFiles {
    /// No files so far.
    ///
    /// Needs a tokio runtime with IO and time. Without inotify (out of watches, for example) a
    /// warning is logged, and only the poll is left.
    pub(crate) fn new() -> Arc<Self> {
        let events = open().inspect_err(|error| {
            tracing::warn!(%error, "inotify is not available: changed files are noticed within 10 seconds");
        });
        Self::with(events.ok())
    }

    fn with(events: Option<pipe::Receiver>) -> Arc<Self> {
        let set = Mutex::default();
        Arc::new(Self { events, set })
    }

    /// Watches `files` from now on, and no others. Files that do not exist yet are reported when
    /// they do; a folder is reported when a name in it is new or gone.
    ///
    /// A file that was watched before keeps its stamp: no change of it is missed. One that joins is
    /// stamped now: it must be read again afterwards, or a change since it was read is missed.
    pub(crate) fn set(&self, files: impl IntoIterator<Item = PathBuf>) {
        let files: BTreeSet<PathBuf> = files.into_iter().collect();
        let mut set = self.lock();
        let known = std::mem::take(&mut set.files);
        let (kept, new): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| known.contains_key(file));
        set.files = known;
        set.files.retain(|file, _| kept.binary_search(file).is_ok());
        // Stamps after watches: a change in between is noticed twice rather than never. The next
        // comparison removes the watches of files that are gone.
        set.watches.extend(self.place_watches(new.iter()));
        let stamped = new.into_iter().map(|file| {
            let stamp = WatchedStamp::of(&file);
            (file, stamp)
        });
        set.files.extend(stamped);
    }

    /// Compares all stamps; returns the files that have others now.
    fn compare(&self) -> Vec<PathBuf> {
        let mut set = self.lock();
        let watches = self.place_watches(set.files.keys());
        if let Some(events) = &self.events {
            for stale in set.watches.difference(&watches) {
                // Fails where the directory is gone: the kernel removed the watch with it.
                let _ = inotify::remove_watch(events, *stale);
            }
        }
        set.watches = watches;
        let mut changed = Vec::new();
        for (file, stamp) in &mut set.files {
            let now = WatchedStamp::of(file);
            if std::mem::replace(stamp, now) != now {
                changed.push(file.clone());
            }
        }
        changed
    }

    /// Watches every directory that decides which file a path means, and no other.
    fn place_watches<'a>(&self, files: impl Iterator<Item = &'a PathBuf>) -> BTreeSet<i32> {
        let Some(events) = &self.events else {
            return BTreeSet::new();
        };
        let directories: BTreeSet<PathBuf> =
            files.flat_map(|file| deciding_directories(file)).collect();
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        // Adding a watched directory again is free, and needed: the path may have become another
        // directory.
        let place = |directory: &PathBuf| match inotify::add_watch(events, directory, flags) {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::debug!(directory = %directory.display(), %error, "the directory is not watched, only polled");
                None
            }
        };
        directories.iter().filter_map(place).collect()
    }

    fn lock(&self) -> MutexGuard<'_, WatchedSet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileWatcher {
    /// Waits for changes of these files.
    pub(crate) fn new(watched: &Arc<WatchedFiles>) -> Self {
        Self::with(watched, INTERVALS)
    }

    fn with(watched: &Arc<WatchedFiles>, intervals: PollIntervals) -> Self {
        Self {
            watched: Arc::clone(watched),
            intervals,
            pending: false,
            next_poll: Instant::now() + intervals.poll,
        }
    }

    /// Waits until some files have changed, and returns them: another file, size, time, mode or
    /// owner, a new file, or a missing one. Events that change nothing are not reported.
    ///
    /// Cancel safe: changes during a wait that was dropped are reported by the next one.
    pub(crate) async fn changed(&mut self) -> Vec<PathBuf> {
        loop {
            self.wait_for_event().await;
            self.pending = false;
            let changed = self.watched.compare();
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    /// Waits for an event or the poll, and then until events pause.
    async fn wait_for_event(&mut self) {
        if !self.pending {
            let poll = self.next_poll.saturating_duration_since(Instant::now());
            match &self.watched.events {
                Some(events) => drop(timeout(poll, drain(events)).await),
                None => sleep(poll).await,
            }
            self.pending = true;
        }
        if let Some(events) = &self.watched.events {
            let quiet =
                async { while timeout(self.intervals.settle, drain(events)).await.is_ok() {} };
            // A directory that never falls quiet is compared anyway.
            drop(timeout(self.intervals.longest, quiet).await);
        }
        self.next_poll = Instant::now() + self.intervals.poll;
    }
}

/// The metadata that tells one state of a file from another, through symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WatchedStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// Changes when an unreadable key becomes readable, and when a write restores the old time.
    status_changed: (i64, i64),
}

impl WatchedStamp {
    fn of(file: &Path) -> Option<Self> {
        let seen = fs::metadata(file).ok()?;
        Some(Self {
            device: seen.dev(),
            inode: seen.ino(),
            size: seen.size(),
            modified: (seen.mtime(), seen.mtime_nsec()),
            status_changed: (seen.ctime(), seen.ctime_nsec()),
        })
    }
}

/// An inotify descriptor in the reactor. A pipe's receiver takes every descriptor that can be read
/// and polled, and needs no `unsafe`, unlike tokio's `AsyncFd` (its safe constructors are
/// deprecated since
/// 1.54).
fn open() -> io::Result<pipe::Receiver> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    pipe::Receiver::from_owned_fd_unchecked(events)
}

/// Waits for events and discards them: the stamps tell which files have changed.
async fn drain(events: &pipe::Receiver) {
    let mut buffer = [0; 4096];
    let mut any = false;
    while !any && events.readable().await.is_ok() {
        while events.try_read(&mut buffer).is_ok_and(|read| read > 0) {
            any = true;
        }
    }
    if !any {
        // A broken inotify must not become a busy loop: only the poll is left then.
        std::future::pending::<()>().await;
    }
}

/// The directories in which a created, removed or replaced entry can make `file` another file: that
/// of the file, and of every symbolic link on the way to it. Kubernetes swaps `..data`, two links
/// away from the file; others link a whole directory. For a missing part, the directory in which it
/// would appear; for a folder, itself too.
fn deciding_directories(file: &Path) -> BTreeSet<PathBuf> {
    let mut deciding = BTreeSet::new();
    let Ok(file) = std::path::absolute(file) else {
        return deciding;
    };
    let mut left: VecDeque<OsString> = parts(&file);
    let mut here = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        if part == ".." {
            here.pop();
            continue;
        }
        let there = here.join(&part);
        match fs::symlink_metadata(&there) {
            Ok(seen) if seen.is_symlink() && links < MOST_LINKS => {
                links += 1;
                deciding.insert(here.clone());
                let Ok(target) = fs::read_link(&there) else {
                    break;
                };
                if target.is_absolute() {
                    here = PathBuf::from("/");
                }
                let mut path = parts(&target);
                path.append(&mut left);
                left = path;
            }
            Ok(_) if !left.is_empty() => here = there,
            Ok(seen) if seen.is_dir() => deciding.extend([here.clone(), there]),
            _ => {
                deciding.insert(here);
                break;
            }
        }
    }
    deciding
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let named = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(named).collect()
}

#[cfg(test)]
mod tests;
