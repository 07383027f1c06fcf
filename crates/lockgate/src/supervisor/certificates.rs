//! The thread that obtains certificates, from the first configuration that wants one to the end.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use lockgate_certs::{CertKeeper, issue_leaves};

use super::RunningServer;
use crate::assemble::Assembly;
use crate::background::{Background, OwnedTask};

/// The certificates that come by themselves.
#[derive(Default)]
pub(super) struct RunningCertificates {
    /// What is wanted, and how it stands.
    pub(super) keeper: Arc<CertKeeper>,
    running: Option<(Arc<Background>, OwnedTask)>,
}

impl RunningCertificates {
    /// Ends the orders that are under way; the next process goes on with them.
    pub(super) fn end(&mut self) {
        self.running = None;
    }
}

/// Issues the certificates of our own authority that are missing, before the first client comes, and
/// has the listeners read them. What fails is tried again later.
pub(super) fn issue_before_start(assembly: &Assembly, state: Option<&Path>) {
    let leaves = &assembly.wanted_certs.leaves;
    let Some(state) = state.filter(|_| !leaves.is_empty()) else {
        return;
    };
    match issue_leaves(state, leaves, SystemTime::now()) {
        Ok(issued) => {
            issued.tell();
            if issued.changed.is_empty() {
                return;
            }
        }
        Err(error) => {
            tracing::error!(%error, "no certificate of Lockgate's own authority can be issued");
            return;
        }
    }
    for planned in &assembly.listeners {
        for acceptor in planned.listener.acceptors() {
            for error in acceptor.reload().failed {
                tracing::error!(listener = planned.listener.name, %error, "the certificate is not used");
            }
        }
    }
}

impl RunningServer {
    /// Obtains the certificates that the configuration wants, and keeps them up to date.
    pub(super) fn keep_certificates(&mut self) {
        let wanted = self.generation.assembly.wanted_certs.clone();
        let some = !wanted.is_empty();
        if some {
            // One may have come since this configuration was assembled.
            self.reread(&[]);
        }
        // Before the thread begins: it refuses clients that ask for names that are not wanted.
        self.certificates.keeper.keep(wanted);
        if some && self.certificates.running.is_none() {
            self.certificates.running = self.start_keeper();
        }
    }

    fn start_keeper(&self) -> Option<(Arc<Background>, OwnedTask)> {
        let state = self.state.as_deref()?;
        let challenges = Arc::clone(&self.workers.shared.challenges);
        let demands = self.workers.shared.cert_demands.take()?;
        let changed = self.changed.clone();
        let task = self
            .certificates
            .keeper
            .task(state, challenges, demands, move |path| {
                // At the end nothing reads certificates any more.
                let _ = changed.send(vec![path.to_owned()]);
            });
        match Background::continued(None, 1, "certificates") {
            Ok(thread) => {
                let thread = thread?;
                let task = thread.spawn(move || task.run());
                Some((thread, task))
            }
            Err(error) => {
                tracing::error!(%error, "there is no thread for certificates: none is obtained");
                None
            }
        }
    }
}
