//! Stamps of files: whether a file is still the one that was read.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The identity of a file's content, without reading it: it differs after a write and after a swap
/// by rename or symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// Unlike the time of modification, it cannot be set: a file that was rewritten with its old
    /// time differs.
    changed: (i64, i64),
}

/// The stamp of the file at the end of all symbolic links.
///
/// # Errors
/// Those of stat(2).
pub fn stamp(path: &Path) -> std::io::Result<FileStamp> {
    let found = std::fs::metadata(path)?;
    Ok(FileStamp {
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}
