//! File descriptors: the process's limit, and how many connections fit under it.
//!
//! Does not count connections: `limits.connections` is enforced where connections are accepted.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most connections that `limits.connections = "auto"` ever means, whatever the descriptor limit:
/// container runtimes set limits of a thousand million, which is no promise that anyone has the memory.
pub(crate) const MOST_CONNECTIONS: usize = 1 << 20;

/// Listeners, logs, the metrics address and its clients, certificate files while they are read.
const RESERVED: u64 = 64;
/// A worker's epoll, wake-up descriptor and dials in progress.
const RESERVED_PER_WORKER: u64 = 4;
/// A relayed connection is two sockets.
const PER_CONNECTION: u64 = 2;

/// The limit on open descriptors, before and after [`raise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raised {
    /// The soft limit that the process was started with.
    pub(crate) from: u64,
    /// The soft limit in force now.
    pub(crate) to: u64,
}

/// Raises the soft limit on open descriptors to the hard one, for the whole process.
///
/// # Errors
/// What the system says; the old limit ([`limit`]) stays in force.
pub(crate) fn raise() -> io::Result<Raised> {
    let before = getrlimit(Resource::Nofile);
    if before.current != before.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum })?;
    }
    Ok(Raised { from: before.current.unwrap_or(u64::MAX), to: limit() })
}

/// The soft limit on open descriptors; `u64::MAX` when there is none.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What `limits.connections = "auto"` means: how many relayed connections fit under `nofile` open
/// descriptors.
///
/// From `nofile`, 64 and for each worker 4 and what it `holds`, its listeners and files, are kept for everything that is not a connection (at
/// most half of `nofile`, so that a tiny limit still serves somebody); an eighth of the rest is left for the pipes of
/// splice, which a connection can do without; every connection then takes two. Never 0, never above
/// [`MOST_CONNECTIONS`].
pub(crate) fn connection_limit(nofile: u64, workers: usize, holds: usize) -> usize {
    let free = nofile - reserved(workers, holds).min(nofile / 2);
    let connections = (free - free / 8) / PER_CONNECTION;
    usize::try_from(connections).unwrap_or(usize::MAX).clamp(1, MOST_CONNECTIONS)
}

/// How many pipes each worker may have open for splicing: what `nofile` leaves beside `connections`, two
/// descriptors a pipe.
pub(crate) fn pipe_limit(nofile: u64, connections: usize, workers: usize, holds: usize) -> usize {
    let all = u64::try_from(workers).unwrap_or(u64::MAX).max(1);
    let reserved = reserved(workers, holds);
    let connections = u64::try_from(connections).unwrap_or(u64::MAX).saturating_mul(PER_CONNECTION);
    let left = nofile.saturating_sub(reserved).saturating_sub(connections);
    usize::try_from(left / 2 / all).unwrap_or(usize::MAX).min(MOST_PIPES)
}

fn reserved(workers: usize, holds: usize) -> u64 {
    let [workers, holds] = [workers, holds].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
    RESERVED.saturating_add(RESERVED_PER_WORKER.saturating_add(holds).saturating_mul(workers))
}

/// Pipes of one worker: each may hold 256 KB of the kernel's memory, so that all of them hold 256 MB at the
/// most.
const MOST_PIPES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_leaves_room_for_everything_else() {
        for (nofile, workers, listeners, expected) in [
            (0, 1, 1, 1),
            (3, 1, 1, 1),
            (64, 1, 1, 14),
            (256, 1, 4, 80),
            (300, 1, 4, 100),
            (300, 2, 4, 96),
            (1_024, 1, 4, 416),
            (1_024, 8, 20, 336),
            (4_096, 2, 4, 1_757),
            (65_536, 2, 4, 28_637),
            (1_048_576, 8, 4, 458_696),
            (1_048_576, 128, 4, 458_276),
            (1_073_741_816, 4, 1, MOST_CONNECTIONS),
            (u64::MAX, usize::MAX, usize::MAX, MOST_CONNECTIONS),
        ] {
            assert_eq!(
                connection_limit(nofile, workers, listeners),
                expected,
                "{nofile} descriptors, {workers} workers, {listeners} listeners"
            );
        }
    }

    #[test]
    fn the_connections_of_auto_always_fit() {
        for nofile in 150..20_000 {
            let connections = connection_limit(nofile, 1, 4) as u64;
            assert!(connections * PER_CONNECTION + reserved(1, 4) <= nofile, "{nofile}");
        }
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let raised = raise().unwrap();
        assert_eq!(raised.to, hard);
        assert!(raised.from <= raised.to);
        assert_eq!(limit(), hard);
        assert_eq!(raise().unwrap(), Raised { from: hard, to: hard });
    }
}
