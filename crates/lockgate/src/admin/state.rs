//! What the resources of the admin socket read: the figures of the process, and its listeners.

use std::sync::Arc;

use crate::exposition::Exposition;
use crate::metrics_server::Readiness;

use super::command::CommandSender;
use super::peers::AllowedPeers;
use super::recent::RecentCounts;

/// The sources of all resources.
pub(crate) struct AdminState {
    pub(super) exposition: Arc<Exposition>,
    pub(super) readiness: Arc<Readiness>,
    /// In the order of the exposition's listeners.
    pub(super) listeners: Vec<ListenerAddress>,
    pub(super) workers: usize,
    pub(super) commands: CommandSender,
    pub(super) peers: AllowedPeers,
    pub(super) recent: RecentCounts,
}

/// A bound listener as it is shown.
#[derive(Debug, Clone)]
pub(crate) struct ListenerAddress {
    pub(crate) address: String,
    /// `https`, `http`, `tls` or `tcp`.
    pub(crate) kind: &'static str,
}

impl AdminState {
    /// The state of a server with these `listeners` and `workers`; the
    /// last is the way to the supervisor, and the users that may use the socket.
    pub(crate) fn new(
        exposition: Arc<Exposition>,
        readiness: Arc<Readiness>,
        listeners: Vec<ListenerAddress>,
        workers: usize,
        (commands, peers): (CommandSender, AllowedPeers),
    ) -> Self {
        Self {
            exposition,
            readiness,
            listeners,
            workers,
            commands,
            peers,
            recent: RecentCounts::default(),
        }
    }
}
