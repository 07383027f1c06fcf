//! The thread that obtains certificates, from the first configuration that wants one to the end.

use std::sync::Arc;

use lockgate_certs::{CertFolder, CertKeeper};

use super::RunningServer;
use crate::background::{Background, OwnedTask};

/// The certificates that come by themselves. Dropping this ends their orders; the next process goes
/// on with them.
#[derive(Default)]
pub(super) struct RunningCertificates {
    running: Option<RunningKeeper>,
}

struct RunningKeeper {
    keeper: CertKeeper,
    _task: OwnedTask,
    _thread: Arc<Background>,
}

impl RunningServer {
    /// Obtains the certificates that the configuration wants, and keeps them up to date.
    pub(super) fn keep_certificates(&mut self) {
        let wanted = Arc::clone(&self.generation.assembly.wanted_certs);
        if self.certificates.running.is_none() && !wanted.is_empty() {
            self.certificates.running = self.start_keeper();
        }
        if !wanted.is_empty() {
            // One may have come since this configuration was assembled.
            self.reread(&[]);
        }
        if let Some(running) = &self.certificates.running {
            running.keeper.keep(wanted);
        }
    }

    fn start_keeper(&self) -> Option<RunningKeeper> {
        let folder = CertFolder::of_state(self.state.as_deref()?);
        let challenges = Arc::clone(&self.workers.shared.challenges);
        let changed = self.changed.clone();
        let (keeper, task) = CertKeeper::new(folder, challenges, move |path| {
            // At the end nothing reads certificates any more.
            let _ = changed.send(vec![path.to_owned()]);
        });
        let thread = match Background::continued(None, 1, "certificates") {
            Ok(thread) => thread?,
            Err(error) => {
                tracing::error!(%error, "there is no thread for certificates: none is obtained");
                return None;
            }
        };
        let task = thread.spawn(move || task.run());
        Some(RunningKeeper {
            keeper,
            _task: task,
            _thread: thread,
        })
    }
}
