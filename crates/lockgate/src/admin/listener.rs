//! The bound admin socket, from the start to its server.

use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use lockgate_net::listen::ListenAddress;

use super::peers::AllowedPeers;

/// The bound socket, and the users that may connect.
pub(crate) struct AdminListener {
    pub(crate) socket: UnixListener,
    pub(crate) address: ListenAddress,
    pub(crate) peers: AllowedPeers,
    /// The rights that the file of a handed socket is to have: until this process serves, it is
    /// that of another one.
    pub(crate) rights: Option<SocketFileRights>,
}

/// The user, the group and the mode of the socket's file; `None` is that of the process.
pub(crate) struct SocketFileRights {
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) mode: u32,
}

impl AdminListener {
    /// A duplicate of its socket, for a process that takes this one's place; `None` when there is
    /// no descriptor left.
    pub(crate) fn duplicate(&self) -> Option<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned().ok()
    }

    /// Sets the rights of a handed socket's file; those of a bound one are set.
    pub(crate) fn set_rights(&self) {
        if let (Some(rights), ListenAddress::Unix(path)) = (&self.rights, &self.address)
            && let Err(error) = rights.set(path)
        {
            let address = &self.address;
            tracing::warn!(%address, %error, "the admin socket keeps its user, group and mode");
        }
    }
}

impl SocketFileRights {
    /// Sets them.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn set(&self, path: &Path) -> io::Result<()> {
        set_permissions(path, Permissions::from_mode(self.mode))?;
        self.give(path)
    }

    /// Gives a file to the user and the group. Without either there is nothing to do: a hardened
    /// unit allows no chown.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn give(&self, path: &Path) -> io::Result<()> {
        match (self.user, self.group) {
            (None, None) => Ok(()),
            (user, group) => chown(path, user, group),
        }
    }
}
