//! The addresses that no listener has any more, while their sockets are still open: connections that
//! have begun are accepted for some ticks. A reload that needs such an address waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::assemble::{self, PlannedListener};
use crate::generation::RunningListener;

/// The longest wait for an address. Sockets stay open for longer only where connections wait for a
/// place.
const PATIENCE: Duration = Duration::from_secs(5);

/// The ports of listeners that are gone, each with a channel that has no receivers once their
/// sockets are closed. The files of Unix sockets are removed at once, and so never waited for.
#[derive(Default)]
pub(super) struct ClosingListeners {
    ports: Vec<(u16, Arc<watch::Sender<()>>)>,
}

impl ClosingListeners {
    /// Adds the listeners of `before` with a socket that none of `now` has.
    pub(super) fn add(
        &mut self,
        before: &[RunningListener],
        now: &[RunningListener],
        closed: watch::Sender<()>,
    ) {
        let closed = Arc::new(closed);
        let is_gone = |one: &&RunningListener| now.iter().all(|other| other.socket != one.socket);
        let gone = before.iter().filter(is_gone);
        let ports = gone.filter_map(|listener| assemble::port(&listener.bound));
        self.ports
            .extend(ports.map(|port| (port, Arc::clone(&closed))));
    }

    /// What a configuration with these listeners must wait for, if anything: once, whether the
    /// sockets are closed by then or not.
    pub(super) fn needed_by(
        &mut self,
        listeners: &[PlannedListener],
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.ports.retain(|(_, closed)| !closed.is_closed());
        let needs = |port: u16| {
            let mut ports = listeners.iter().map(|one| &one.address);
            ports.any(|address| assemble::port(address) == Some(port))
        };
        let needed: Vec<_> = self
            .ports
            .extract_if(.., |(port, _)| needs(*port))
            .collect();
        (!needed.is_empty()).then_some(async move {
            let all = async {
                for (_, closed) in &needed {
                    closed.closed().await;
                }
            };
            // Where they are still open, binding fails and tells so.
            let _ = timeout(PATIENCE, all).await;
        })
    }
}
