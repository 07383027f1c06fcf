//! Ports of origins, each of which a process uses once.
//!
//! A program may still connect to an origin that is gone, for a check or a retry. If another test
//! had an origin at the same port by then, as the kernel assigns them, it would get that
//! connection.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Below the ports that `lockgate compare` and the kernel choose from: `ip_local_port_range` in
/// ip(7).
const PORTS: Range<u16> = 10_000..20_000;

/// Listens on a port of 127.0.0.1 that this process has never listened on.
pub(crate) fn listen() -> TcpListener {
    static USED: AtomicUsize = AtomicUsize::new(0);
    // Concurrent processes begin far from each other.
    let first = std::process::id() as usize * 4_099;
    loop {
        let used = USED.fetch_add(1, Ordering::Relaxed);
        assert!(
            used < PORTS.len(),
            "no port is left that was not used before"
        );
        let port = PORTS.start + ((first + used) % PORTS.len()) as u16;
        // Another program may have it.
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener;
        }
    }
}
