//! The signals that the process handles, and the action that each asks for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The action of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// TERM, INT, QUIT: drain; a second one cuts that short.
    Stop,
    /// HUP: read certificates and keys again.
    Reload,
    /// USR1: reopen the access log.
    Reopen,
    /// USR2: a new program takes over, as in nginx.
    Upgrade,
}

/// The signals that the process listens to.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    /// Listens from now on: the default of these signals is to end the process.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.quit.recv() => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
            _ = self.user1.recv() => SignalAction::Reopen,
            _ = self.user2.recv() => SignalAction::Upgrade,
        }
    }
}
