//! The bound admin socket, from the start to its server.

use std::os::unix::net::UnixListener;

use lockgate_net::listen::ListenAddress;

use super::peers::AllowedPeers;

/// The bound socket, and the users that may connect.
pub(crate) struct AdminListener {
    pub(crate) socket: UnixListener,
    pub(crate) address: ListenAddress,
    pub(crate) peers: AllowedPeers,
}
