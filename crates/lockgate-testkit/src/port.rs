//! Ports of origins, each of which is used once by a process.
//!
//! A program may still connect to an origin that has gone: it checks it, or tries it again. Had
//! another test an origin at the same port by then, as the kernel gives them out, it would get that
//! connection.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Below the ports that `lockgate compare` and the kernel choose from: `ip_local_port_range` in
/// ip(7).
const PORTS: Range<u16> = 10_000..20_000;

/// Listens on a port of 127.0.0.1 on which nothing of this process has listened before.
pub(crate) fn listen() -> TcpListener {
    static USED: AtomicUsize = AtomicUsize::new(0);
    // Processes that run side by side begin far from each other.
    let first = std::process::id() as usize * 4_099;
    loop {
        let used = USED.fetch_add(1, Ordering::Relaxed);
        assert!(
            used < PORTS.len(),
            "no port is left that was not used before"
        );
        let port = PORTS.start + ((first + used) % PORTS.len()) as u16;
        // It may be another program's.
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener;
        }
    }
}
