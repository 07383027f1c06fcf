//! The start of a thread of the server, without the capability that only the main thread has.

use std::io;
use std::thread::{self, JoinHandle};

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Starts a thread of this name.
///
/// # Errors
/// When the system has no room for another one.
pub fn start<T: Send + 'static>(
    name: impl Into<String>,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let run = || {
        begin();
        run()
    };
    thread::Builder::new().name(name.into()).spawn(run)
}

/// Gives up CAP_NET_BIND_SERVICE, which a thread inherits: only the main thread binds ports below
/// 1024. To be called first in each thread that [`start`] does not start. Root keeps all that it
/// has.
pub fn begin() {
    if geteuid().is_root() {
        return;
    }
    let Ok(mut sets) = capabilities(None) else {
        return;
    };
    let bind = CapabilitySet::NET_BIND_SERVICE;
    if !(sets.permitted | sets.inheritable).contains(bind) {
        return;
    }
    // The ambient set never has what these have not.
    sets.effective.remove(bind);
    sets.permitted.remove(bind);
    sets.inheritable.remove(bind);
    // Where a filter of system calls forbids it, the main thread has said so.
    let _ = set_capabilities(None, sets);
}
