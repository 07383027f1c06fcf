//! The thread that obtains certificates, from the first configuration that wants one to the end.

use std::sync::Arc;

use lockgate_certs::{CertFolder, CertKeeper};

use super::RunningServer;
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

impl RunningServer {
    /// Obtains the certificates that the configuration wants, and keeps them up to date.
    pub(super) fn keep_certificates(&mut self) {
        let wanted = Arc::clone(&self.generation.assembly.wanted_certs);
        if !wanted.is_empty() {
            // One may have come since this configuration was assembled.
            self.reread(&[]);
            if self.certificates.running.is_none() {
                self.certificates.running = self.start_keeper();
            }
        }
        self.certificates.keeper.keep(wanted);
    }

    fn start_keeper(&self) -> Option<(Arc<Background>, OwnedTask)> {
        let folder = CertFolder::of_state(self.state.as_deref()?);
        let challenges = Arc::clone(&self.workers.shared.challenges);
        let changed = self.changed.clone();
        let task = self
            .certificates
            .keeper
            .task(folder, challenges, move |path| {
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
