//! The folders of files that a start makes: which one a file is in, and whether this process may
//! write there.

use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

/// Whether this process may make files in `folder`.
pub(crate) fn writable(folder: &Path) -> io::Result<()> {
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// The folder that a file is in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
