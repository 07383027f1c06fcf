//! The thread that keeps names at this machine's address, from the first configuration with such names
//! to the end.

use std::sync::Arc;
use std::time::Duration;

use lockgate_ddns::DdnsKeeper;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::RunningServer;
use crate::background::{Background, OwnedTask};

/// The time in which the other servers of a zone learn of an update, which its primary server tells them.
const SECONDARIES: Duration = Duration::from_secs(5);

/// The names that are kept at this machine's address.
#[derive(Default)]
pub(super) struct RunningDdns {
    /// What is kept, and how it stands.
    pub(super) keeper: Arc<DdnsKeeper>,
    running: Option<(Arc<Background>, OwnedTask)>,
}

impl RunningDdns {
    /// Ends what is under way; the next process goes on with it.
    pub(super) fn end(&mut self) {
        self.running = None;
    }
}

impl RunningServer {
    /// Keeps the names that the configuration has, and no others.
    pub(super) fn keep_names(&mut self) {
        let wanted = self.generation.config.ddns.clone();
        let some = wanted.is_some();
        self.ddns.keeper.keep(wanted);
        if some && self.ddns.running.is_none() {
            self.ddns.running = self.start_ddns();
        }
    }

    fn start_ddns(&self) -> Option<(Arc<Background>, OwnedTask)> {
        let task = self.ddns.keeper.task();
        let certificates = Arc::clone(&self.certificates.keeper);
        match Background::continued(None, 1, "ddns") {
            Ok(thread) => {
                let thread = thread?;
                let task = thread.spawn(move || {
                    task.run(move |name| {
                        // An authority that has not found the name may find it now.
                        let (certificates, name) = (Arc::clone(&certificates), name.to_owned());
                        spawn_local(async move {
                            sleep(SECONDARIES).await;
                            certificates.retry(&name);
                        });
                    })
                });
                Some((thread, task))
            }
            Err(error) => {
                tracing::error!(%error, "there is no thread for dynamic DNS: no name is kept");
                None
            }
        }
    }
}
