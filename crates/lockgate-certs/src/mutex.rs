//! The lock of a mutex without an error: a release aborts on a panic, so that only other builds have
//! a holder after one that panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value of a mutex, also after a holder that panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
