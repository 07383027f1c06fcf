//! Files below a root: found and opened by descriptors, never by checked strings, and read without
//! waiting for a disk if the caller must not wait.
//!
//! Does not know URLs, and keeps nothing: the caller chooses the path and holds the descriptor.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::ReadWriteFlags;

pub use rustix::io::Errno;

/// Whether a call may wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskWait {
    /// No: data that is not in memory is EAGAIN ([`would_wait`]).
    No,
    /// Yes: the caller's thread may block.
    Yes,
}

/// The targets that symbolic links may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// Only below the root, by relative targets (`RESOLVE_BENEATH`, openat2(2)).
    Inside,
    /// Anywhere, also outside of the root.
    Follow,
}

/// The type of a file system entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory, which can be listed.
    Directory,
    /// A device, a socket or a FIFO: never read.
    Other,
}

/// The version of a file: equal stamps mean equal bytes, as far as the file system notes changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    /// The number of the inode on its device.
    pub inode: u64,
    /// The size of the content in bytes.
    pub size: u64,
    /// The time of the last change of the bytes: seconds since 1970 …
    pub modified: i64,
    /// … and nanoseconds.
    pub modified_nanos: u32,
    /// The time of the last change of anything, name and mode included, which cannot be set:
    /// seconds since 1970 …
    pub changed: i64,
    /// … and nanoseconds.
    pub changed_nanos: u32,
}

impl FileVersion {
    fn of(stat: &Stat) -> Self {
        // The kernel's fields have other types on other architectures.
        #[allow(
            clippy::unnecessary_cast,
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation
        )]
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: stat.st_mtime as i64,
            modified_nanos: stat.st_mtime_nsec as u32,
            changed: stat.st_ctime as i64,
            changed_nanos: stat.st_ctime_nsec as u32,
        }
    }

    /// Whether the bytes of the same open file are unchanged. Its name or owner may have changed
    /// since: that alone changes the time of change, but not the bytes.
    pub fn has_bytes_of(&self, before: &Self) -> bool {
        let of = |stamp: &Self| (stamp.size, stamp.modified, stamp.modified_nanos);
        of(self) == of(before)
    }
}

/// A directory below which files are found.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    resolve: ResolveFlags,
    wait: DiskWait,
}

impl Root {
    /// Opens the directory, for calls that may wait or not.
    ///
    /// # Errors
    /// Those of openat2(2); EAGAIN if it would wait.
    pub fn open(path: &Path, symlinks: Symlinks, wait: DiskWait) -> Result<Self, Errno> {
        let cached = if wait == DiskWait::No {
            ResolveFlags::CACHED
        } else {
            ResolveFlags::empty()
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            retry(|| rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), cached));
        let directory = directory.map_err(|error| unsure(error, wait))?;
        let inside = match symlinks {
            Symlinks::Inside => ResolveFlags::BENEATH,
            Symlinks::Follow => ResolveFlags::NO_MAGICLINKS,
        };
        Ok(Self {
            directory,
            resolve: inside | cached,
            wait,
        })
    }

    fn at(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() {
            b".".as_slice()
        } else {
            path
        };
        retry(|| {
            let flags = flags | OFlags::CLOEXEC;
            rustix::fs::openat2(
                &self.directory,
                OsStr::from_bytes(path),
                flags,
                Mode::empty(),
                self.resolve,
            )
        })
        .map_err(|error| unsure(error, self.wait))
    }

    /// The kind and the stamp of `path`, which is relative.
    ///
    /// # Errors
    /// Those of openat2(2): EXDEV for a path outside the root.
    pub fn look(&self, path: &[u8]) -> Result<(FileKind, FileVersion), Errno> {
        let stat = rustix::fs::fstat(self.at(path, OFlags::PATH)?)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            _ => FileKind::Other,
        };
        Ok((kind, FileVersion::of(&stat)))
    }

    /// Opens the file at `path` for reading. Other kinds are not opened, since that alone has
    /// effects on devices and FIFOs.
    ///
    /// # Errors
    /// Those of openat2(2); EISDIR for a directory, EINVAL for other kinds.
    pub fn file(&self, path: &[u8]) -> Result<(OwnedFd, FileVersion), Errno> {
        match self.look(path)?.0 {
            FileKind::File => {}
            FileKind::Directory => return Err(Errno::ISDIR),
            FileKind::Other => return Err(Errno::INVAL),
        }
        // The kind may have changed in the meantime.
        let file = self.at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((file, FileVersion::of(&stat))),
            _ => Err(Errno::INVAL),
        }
    }

    /// The files and directories in the directory at `path` with `wanted` names, in no order: at
    /// most `most`, and the number of further names. Entries that cannot be examined, or lead
    /// outside, are left out.
    ///
    /// # Errors
    /// Those of openat2(2) and getdents(2); EAGAIN if it must not wait, as reading a directory
    /// always may.
    pub fn list(
        &self,
        path: &[u8],
        most: usize,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<(Vec<DirectoryEntry>, usize), Errno> {
        if self.wait == DiskWait::No {
            return Err(Errno::AGAIN);
        }
        let directory = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let (mut entries, mut more) = (Vec::new(), 0);
        let mut whole = path.to_vec();
        if !whole.is_empty() && !whole.ends_with(b"/") {
            whole.push(b'/');
        }
        let prefix = whole.len();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || !wanted(name) {
                continue;
            }
            if entries.len() == most {
                more += 1;
                continue;
            }
            whole.truncate(prefix);
            whole.extend_from_slice(name);
            if let Ok((kind @ (FileKind::File | FileKind::Directory), stamp)) = self.look(&whole) {
                entries.push(DirectoryEntry {
                    name: name.into(),
                    kind,
                    size: stamp.size,
                    modified: stamp.modified,
                });
            }
        }
        Ok((entries, more))
    }
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name in the file system.
    pub name: Box<[u8]>,
    /// The kind of its target.
    pub kind: FileKind,
    /// The size in bytes, of a file.
    pub size: u64,
    /// The time of the last change: seconds since 1970.
    pub modified: i64,
}

/// The current stamp of an open file.
///
/// # Errors
/// Those of fstat(2).
pub fn stamp(file: impl AsFd) -> Result<FileVersion, Errno> {
    Ok(FileVersion::of(&rustix::fs::fstat(file)?))
}

/// Reads from `offset` on into `buffer`, until it is full or the file ends; returns the number of
/// bytes.
///
/// # Errors
/// Those of preadv2(2); EAGAIN if it would wait for some of it.
pub fn read_at(
    file: impl AsFd,
    buffer: &mut [u8],
    offset: u64,
    wait: DiskWait,
) -> Result<usize, Errno> {
    let flags = if wait == DiskWait::No {
        ReadWriteFlags::NOWAIT
    } else {
        ReadWriteFlags::empty()
    };
    let mut filled = 0;
    while filled < buffer.len() {
        let mut into = [io::IoSliceMut::new(&mut buffer[filled..])];
        match rustix::io::preadv2(&file, &mut into, offset + filled as u64, flags) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            // A file system without RWF_NOWAIT is read by a thread that may wait.
            Err(Errno::OPNOTSUPP) if wait == DiskWait::No => return Err(Errno::AGAIN),
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Whether an error means that the call would have waited.
pub fn would_wait(error: Errno) -> bool {
    error == Errno::AGAIN
}

/// Kernels before 5.12 cannot avoid waiting, and return EINVAL as for an invalid path: a call that
/// may wait finds out.
fn unsure(error: Errno, wait: DiskWait) -> Errno {
    if error == Errno::INVAL && wait == DiskWait::No {
        Errno::AGAIN
    } else {
        error
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests;
