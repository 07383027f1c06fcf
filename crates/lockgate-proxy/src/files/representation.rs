//! A file as it is read: its bytes or its descriptor, what it is called by, and its precompressed
//! siblings.
//!
//! Runs on a worker where nothing has to be waited for, and on a thread where something has.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lockgate_http::coding::ContentCoding;
use lockgate_net::files::{self, DiskWait, Errno, FileVersion, Root};
use lockgate_net::memory::{self, MemoryLevel};

/// Files up to this size are held in memory, and leave with their heads in one write. Of larger
/// ones the descriptor is held: from there on sendfile(2) is cheaper (see `docs/perf.md`).
pub(crate) const HELD: u64 = 64 * 1024;
/// Attempts of a worker to read a file that is being written, before it leaves that to a thread …
const ATTEMPTS: usize = 3;
/// … and how often that does.
const PATIENCE: usize = 10;
/// The pause of a thread between two attempts.
const PAUSE: Duration = Duration::from_millis(2);
/// A sibling that is older than its file by more seconds is that of another version.
const STALE: i64 = 10;

/// One form of a file's content: its own, or compressed.
#[derive(Debug)]
pub(crate) struct Representation {
    pub(crate) stamp: FileVersion,
    pub(crate) content: FileContent,
    /// With its quotes.
    pub(crate) etag: Vec<u8>,
    /// Whether it was changed so recently that another change might not be noticed.
    pub(crate) fresh: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum FileContent {
    Held(Bytes),
    Open(Arc<OwnedFd>),
}

impl Representation {
    /// Reads or opens what is at `at`.
    pub(crate) fn load(root: &Root, at: &[u8], wait: DiskWait) -> Result<Self, Errno> {
        let mut attempts = 0;
        loop {
            let (file, stamp) = root.file(at)?;
            let fresh = is_fresh(&stamp);
            let etag = etag(&stamp);
            if stamp.size > HELD {
                return Ok(Self {
                    stamp,
                    content: FileContent::Open(Arc::new(file)),
                    etag,
                    fresh,
                });
            }
            let bytes = read(&file, stamp.size, wait)?;
            // Overwritten meanwhile, it may be half the one and half the other.
            if bytes.len() as u64 == stamp.size && files::stamp(&file)? == stamp {
                return Ok(Self {
                    stamp,
                    content: FileContent::Held(bytes),
                    etag,
                    fresh,
                });
            }
            attempts += 1;
            match wait {
                DiskWait::No if attempts == ATTEMPTS => return Err(Errno::AGAIN),
                DiskWait::Yes if attempts == PATIENCE => return Err(Errno::BUSY),
                DiskWait::Yes => thread::sleep(PAUSE),
                DiskWait::No => {}
            }
        }
    }

    /// The sibling of a file that has this stamp, if there is one that was made of it.
    pub(crate) fn sibling(
        root: &Root,
        at: &[u8],
        of: &FileVersion,
        wait: DiskWait,
    ) -> Result<Option<Self>, Errno> {
        match Self::load(root, at, wait) {
            Ok(form) if !is_stale(&form.stamp, of) => Ok(Some(form)),
            Err(error) if files::would_wait(error) => Err(error),
            _ => Ok(None),
        }
    }

    /// This form, as it was compressed.
    pub(crate) fn encoded(&self, coding: ContentCoding, bytes: Bytes) -> Self {
        Self {
            stamp: self.stamp,
            content: FileContent::Held(bytes),
            etag: encoded_tag(&self.etag, coding),
            fresh: self.fresh,
        }
    }

    /// This form as rules have changed it, which have this name.
    pub(crate) fn changed(&self, bytes: Bytes, rules: &str) -> Self {
        let opaque = self.etag.strip_suffix(b"\"").unwrap_or(&self.etag);
        let etag = [opaque, b"-", rules.as_bytes(), b"\""].concat();
        Self {
            stamp: self.stamp,
            content: FileContent::Held(bytes),
            etag,
            fresh: self.fresh,
        }
    }

    /// Whether nothing at all was done to the file behind the descriptor.
    pub(crate) fn is_untouched(&self) -> bool {
        match &self.content {
            FileContent::Held(_) => true,
            FileContent::Open(file) => files::stamp(file) == Ok(self.stamp),
        }
    }

    /// Whether the bytes of the file behind the descriptor are still what they were: it may have
    /// lost its name.
    pub(crate) fn is_unchanged(&self) -> bool {
        match &self.content {
            FileContent::Held(_) => true,
            FileContent::Open(file) => {
                files::stamp(file).is_ok_and(|now| now.has_bytes_of(&self.stamp))
            }
        }
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> u64 {
        match &self.content {
            FileContent::Held(bytes) => bytes.len() as u64,
            FileContent::Open(_) => self.stamp.size,
        }
    }
}

/// Whether a sibling is older than the file that it should be a form of.
pub(crate) fn is_stale(sibling: &FileVersion, of: &FileVersion) -> bool {
    sibling.modified.saturating_add(STALE) < of.modified
}

/// Reads `len` bytes from the front of a file, or what there is of them.
pub(crate) fn read(file: &OwnedFd, len: u64, wait: DiskWait) -> Result<Bytes, Errno> {
    read_all(file, len, wait).map(Bytes::from)
}

fn read_all(file: &OwnedFd, len: u64, wait: DiskWait) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| Errno::FBIG)?];
    let read = files::read_at(file, &mut bytes, 0, wait)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The bytes of copies in use: those of the cache, and those of responses that clients take as
/// slowly as they may.
#[derive(Debug, Clone, Default)]
pub(crate) struct CopyBudget(Arc<AtomicU64>);

/// Bytes of copies that one worker may have in use.
const COPIES: u64 = 64 << 20;

/// A copy, while it is in use.
struct BudgetedCopy {
    bytes: Vec<u8>,
    copies: CopyBudget,
}

impl CopyBudget {
    /// All of a file, if it is there without waiting and there is room for a copy.
    pub(crate) fn read(&self, file: &OwnedFd, len: u64) -> Option<Bytes> {
        if memory::level() > MemoryLevel::Easy {
            return None;
        }
        if self.0.fetch_add(len, Ordering::Relaxed) + len > COPIES {
            self.0.fetch_sub(len, Ordering::Relaxed);
            return None;
        }
        let mut copied = BudgetedCopy {
            bytes: Vec::new(),
            copies: self.clone(),
        };
        match read_all(file, len, DiskWait::No) {
            Ok(bytes) if bytes.len() as u64 == len => copied.bytes = bytes,
            _ => {
                self.0.fetch_sub(len, Ordering::Relaxed);
                return None;
            }
        }
        Some(Bytes::from_owner(copied))
    }
}

impl AsRef<[u8]> for BudgetedCopy {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for BudgetedCopy {
    fn drop(&mut self) {
        self.copies
            .0
            .fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// The entity tag, from inode, size and the time of the last change of any kind: a file that is
/// rolled back, by any tool, has another inode or time, and so another tag than the file it
/// replaces. The time of its bytes alone is set back by `cp -p` and archives.
fn etag(stamp: &FileVersion) -> Vec<u8> {
    let mut etag = Vec::with_capacity(48);
    let FileVersion {
        inode,
        size,
        changed,
        changed_nanos,
        ..
    } = stamp;
    // Into a vector it always goes.
    let _ = write!(etag, "\"{inode:x}-{size:x}-{changed:x}.{changed_nanos:x}\"");
    etag
}

/// The tag of what was made of a form with this tag. A weak one: another version of the encoder
/// makes other bytes of the same file (RFC 9110 §8.8.1).
pub(crate) fn encoded_tag(etag: &[u8], coding: ContentCoding) -> Vec<u8> {
    let opaque = etag.strip_suffix(b"\"").unwrap_or(etag);
    [b"W/", opaque, b"-", coding.name().as_bytes(), b"\""].concat()
}

/// Kernels before 6.13 give changes within some milliseconds the same time.
fn is_fresh(stamp: &FileVersion) -> bool {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    stamp.modified.max(stamp.changed).saturating_add(2)
        > i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
