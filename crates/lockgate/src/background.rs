//! A thread with a runtime for work beside the workers that may wait long.

use std::io;

use lockgate_net::threads;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// A thread with a runtime; dropping this ends it, without waiting for it.
pub(crate) struct Background {
    _end: oneshot::Sender<()>,
}

impl Background {
    /// Starts a thread of this name, which runs the tasks that `begin` spawns.
    ///
    /// # Errors
    /// When there can be no thread or no runtime.
    pub(crate) fn start(
        name: &str,
        begin: impl FnOnce(&LocalSet) + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (end, ended) = oneshot::channel();
        threads::start(name, move || {
            let tasks = LocalSet::new();
            begin(&tasks);
            // Unfinished tasks are dropped with the runtime.
            tasks.block_on(&runtime, async {
                let _ = ended.await;
            });
        })?;
        Ok(Self { _end: end })
    }
}
