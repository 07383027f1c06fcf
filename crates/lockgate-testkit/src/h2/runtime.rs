//! A thread on which tokio runs, so that tests stay without `async`.

use std::future::Future;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The thread; its tasks end when this is dropped.
#[derive(Debug)]
pub(super) struct Runtime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(super) fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("descriptors are left");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            // Dropping the sender stops it as well.
            let _ = runtime.block_on(stopped);
        });
        Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Runs `task` beside everything else.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// Waits for `future` here, while the thread does its work there.
    ///
    /// # Panics
    /// When it is not there within [`crate::DEADLINE`].
    pub(super) fn wait<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        let limited = async { tokio::time::timeout(crate::DEADLINE, future).await };
        self.handle
            .block_on(limited)
            .unwrap_or_else(|_| panic!("{what}: not within {:?}", crate::DEADLINE))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
