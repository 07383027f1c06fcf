//! A thread of its own for what goes on beside the workers, however long it waits.

use std::io;
use std::thread;

use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// A thread with a runtime; dropping this ends it, without waiting for it.
pub(crate) struct Background {
    _end: oneshot::Sender<()>,
}

impl Background {
    /// Starts one of this name, which does the tasks that `begin` spawns.
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
        thread::Builder::new().name(name.into()).spawn(move || {
            let tasks = LocalSet::new();
            begin(&tasks);
            // What is left of the tasks is dropped with the runtime.
            tasks.block_on(&runtime, async {
                let _ = ended.await;
            });
        })?;
        Ok(Self { _end: end })
    }
}
