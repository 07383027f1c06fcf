//! How the names stand, for those that ask from other threads.

use std::time::SystemTime;

use lockgate_dns::WantedAddresses;

/// How a name stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameStatus {
    /// The addresses that it has, as far as is known; at first none.
    pub addresses: WantedAddresses,
    /// Changes of its addresses that were made.
    pub updates: u64,
    /// Steps that have failed.
    pub failures: u64,
    /// Why the last step has failed, while none has succeeded since; or why this machine has no address
    /// for a name that has none yet.
    pub failure: Option<String>,
    /// When its addresses were last found right, or set.
    pub succeeded: Option<SystemTime>,
    /// When the next try is after a failure.
    pub next_try: Option<SystemTime>,
}
