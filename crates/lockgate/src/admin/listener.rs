//! The bound admin socket, from the start to its server.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;

use lockgate_net::listen::ListenAddress;

use super::peers::AllowedPeers;

/// The bound socket, and the users that may connect.
pub(crate) struct AdminListener {
    pub(crate) socket: UnixListener,
    pub(crate) address: ListenAddress,
    pub(crate) peers: AllowedPeers,
}

impl AdminListener {
    /// A duplicate of its socket, for a process that takes this one's place; `None` when there is
    /// no descriptor left.
    pub(crate) fn duplicate(&self) -> Option<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned().ok()
    }
}
