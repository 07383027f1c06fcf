//! The watch on files that are read again when they change, in every way of replacing a file:
//! certificates, keys, users.
//!
//! Reads no file and judges none: it compares stamps. inotify tells when to compare, and a slow
//! poll compares where inotify is silent (network and overlay file systems).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout};

/// A set of files with their stamps at the last comparison.
///
/// Make it *before* the files are read for the first time: changes in between are then reported.
pub(crate) struct FileWatcher {
    files: BTreeMap<PathBuf, Option<WatchedStamp>>,
    events: Option<pipe::Receiver>,
    watched: BTreeSet<i32>,
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

impl FileWatcher {
    /// Watches `files` from now on. Files that do not exist yet are reported when they do.
    ///
    /// Needs a tokio runtime with IO and time. Without inotify (out of watches, for example) a
    /// warning is logged, and only the poll is left.
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let events = open().inspect_err(|error| {
            tracing::warn!(%error, "inotify is not available: changed files are noticed within 10 seconds");
        });
        Self::with(files, events.ok(), INTERVALS)
    }

    fn with(
        files: impl IntoIterator<Item = PathBuf>,
        events: Option<pipe::Receiver>,
        intervals: PollIntervals,
    ) -> Self {
        let mut watch = Self {
            files: files.into_iter().map(|file| (file, None)).collect(),
            events,
            watched: BTreeSet::new(),
            intervals,
            pending: false,
            next_poll: Instant::now() + intervals.poll,
        };
        // Stamps after watches: a change in between is noticed twice rather than never.
        watch.place_watches();
        watch.update_stamps();
        watch
    }

    /// Waits until some files have changed, and returns them: another file, size, time, mode or
    /// owner, a new file, or a missing one. Events that change nothing are not reported.
    ///
    /// Cancel safe: changes during a wait that was dropped are reported by the next one.
    pub(crate) async fn changed(&mut self) -> Vec<PathBuf> {
        loop {
            self.wait_for_event().await;
            self.place_watches();
            self.pending = false;
            let changed = self.update_stamps();
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    /// Waits for an event or the poll, and then until events pause.
    async fn wait_for_event(&mut self) {
        if !self.pending {
            let poll = self.next_poll.saturating_duration_since(Instant::now());
            match &self.events {
                Some(events) => drop(timeout(poll, drain(events)).await),
                None => sleep(poll).await,
            }
            self.pending = true;
        }
        if let Some(events) = &self.events {
            let quiet =
                async { while timeout(self.intervals.settle, drain(events)).await.is_ok() {} };
            // A directory that never falls quiet is compared anyway.
            drop(timeout(self.intervals.longest, quiet).await);
        }
        self.next_poll = Instant::now() + self.intervals.poll;
    }

    /// Watches every directory that decides which file a path means, and no other.
    fn place_watches(&mut self) {
        let Some(events) = &self.events else { return };
        let directories: BTreeSet<PathBuf> = self
            .files
            .keys()
            .flat_map(|file| deciding_directories(file))
            .collect();
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
        let watched: BTreeSet<i32> = directories.iter().filter_map(place).collect();
        for stale in self.watched.difference(&watched) {
            // Fails where the directory is gone: the kernel removed the watch with it.
            let _ = inotify::remove_watch(events, *stale);
        }
        self.watched = watched;
    }

    fn update_stamps(&mut self) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        for (file, stamp) in &mut self.files {
            let now = WatchedStamp::of(file);
            if std::mem::replace(stamp, now) != now {
                changed.push(file.clone());
            }
        }
        changed
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
/// would appear.
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
