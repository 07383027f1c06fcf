//! The files of the Unix sockets that a start made: removed at the end, unless another process has
//! replaced them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lockgate_net::listen::{BoundListener, ListenAddress, SocketOwner};

/// The file of a Unix socket that this process bound, as it was then: at the end it may be another
/// process's.
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Those of listeners, and of the `others`: the metrics address and the admin socket.
    pub(crate) fn of<'a>(
        bound: &'a [BoundListener],
        others: impl Iterator<Item = &'a ListenAddress>,
    ) -> Vec<Self> {
        let ours = bound
            .iter()
            .filter(|bound| bound.owner == SocketOwner::Us)
            .map(|bound| &bound.address);
        let paths = ours.chain(others).filter_map(|address| match address {
            ListenAddress::Unix(path) => Some(path.clone()),
            _ => None,
        });
        paths
            .filter_map(|path| {
                Some(Self {
                    identity: Self::identify(&path)?,
                    path,
                })
            })
            .collect()
    }

    fn identify(path: &Path) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(path)
            .ok()
            .map(|found| (found.dev(), found.ino()))
    }

    /// Whether it is the file of a socket at this address.
    pub(crate) fn is_of(&self, address: &ListenAddress) -> bool {
        matches!(address, ListenAddress::Unix(path) if *path == self.path)
    }

    /// Removes the file if it is still ours.
    pub(crate) fn remove(&self) {
        if Self::identify(&self.path) == Some(self.identity) {
            // After dropping privileges the directory may not let us; a stale file is replaced at
            // the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
