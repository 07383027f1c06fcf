//! File descriptors: the limit of the process, and its division among clients, endpoints, files and
//! pipes.
//!
//! Does not count open descriptors: see `lockgate_limits`.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most connections that `limits.connections = "auto"` ever means: container runtimes set
/// descriptor limits of a thousand million, which is no promise of memory for them.
pub(crate) const MOST_CONNECTIONS: usize = 1 << 20;

/// Listeners, logs, the metrics address and its clients, certificate files while they are read.
const RESERVED: u64 = 64;
/// A worker's epoll, its alarm for other threads, and two timers.
const RESERVED_PER_WORKER: u64 = 4;
/// The sockets of a relayed connection.
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
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: before.maximum,
                maximum: before.maximum,
            },
        )?;
    }
    Ok(Raised {
        from: before.current.unwrap_or(u64::MAX),
        to: limit(),
    })
}

/// The soft limit on open descriptors; `u64::MAX` when there is none.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The meaning of `limits.connections = "auto"`: the number of relayed connections that fit under
/// `nofile` open descriptors.
///
/// From `nofile`, 64 and for each worker 4 and its listeners and files (`holds`) are kept for
/// everything that is not a connection (at most half of `nofile`, so that a tiny limit still serves
/// a client); an eighth of the rest is left for the pipes of splice, which a connection can do
/// without; every connection then takes two. Never 0, never above [`MOST_CONNECTIONS`].
pub(crate) fn connection_limit(nofile: u64, workers: usize, holds: usize) -> usize {
    let free = nofile - reserved(workers, holds).min(nofile / 2);
    let connections = (free - free / 8) / PER_CONNECTION;
    usize::try_from(connections)
        .unwrap_or(usize::MAX)
        .clamp(1, MOST_CONNECTIONS)
}

/// The division of the process's descriptors, without those kept for everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    pub(crate) connections: usize,
    pub(crate) sockets: usize,
    /// Pipes for splicing, of each worker.
    pub(crate) pipes: usize,
}

impl Division {
    /// Divides the descriptors of the process where the configuration wants `wanted` connections,
    /// and each worker holds `held` for itself; warns where there are too few.
    pub(crate) fn now(wanted: Option<usize>, workers: usize, held: usize) -> Self {
        let nofile = limit();
        let fitting = connection_limit(nofile, workers, held);
        let division = Self::of(nofile, wanted, workers, held);
        let Self {
            connections,
            sockets,
            ..
        } = division;
        if let Some(wanted) = wanted
            && wanted > fitting
        {
            tracing::warn!(
                wanted,
                connections,
                sockets,
                fitting,
                nofile,
                "limits.connections is more than the descriptors suffice for, with a socket towards an endpoint for each"
            );
        }
        division
    }

    /// Divides `nofile` descriptors where `wanted` connections are wanted, or [`connection_limit`].
    /// An eighth is always left for endpoints: without it, connected clients would not be served.
    /// The rest after connections and pipes is for endpoints.
    pub(crate) fn of(nofile: u64, wanted: Option<usize>, workers: usize, holds: usize) -> Self {
        let free = nofile - reserved(workers, holds).min(nofile / 2);
        let most = usize::try_from(free - free / 8)
            .unwrap_or(usize::MAX)
            .max(1);
        let connections = wanted.map_or_else(
            || connection_limit(nofile, workers, holds),
            |wanted| wanted.min(most),
        );
        let taken = connections as u64;
        // A pipe is two descriptors. Pipes leave a socket for each connection, and never less than
        // that eighth.
        let spare = free
            .saturating_sub(taken)
            .saturating_sub(taken.max(free / 8));
        let each = spare / 2 / u64::try_from(workers).unwrap_or(u64::MAX).max(1);
        let pipes = usize::try_from(each).unwrap_or(usize::MAX).min(MOST_PIPES);
        let piped = pipes.saturating_mul(workers).saturating_mul(2) as u64;
        let sockets = free.saturating_sub(taken).saturating_sub(piped);
        Self {
            connections,
            sockets: usize::try_from(sockets).unwrap_or(usize::MAX).max(1),
            pipes,
        }
    }
}

/// The number of files that a worker may keep open for the next request: all workers together an
/// eighth of the descriptors, and each no more than `most`.
pub(crate) fn file_limit(nofile: u64, workers: usize, most: usize) -> usize {
    // The old files are closed only when as many new ones are open.
    let workers = u64::try_from(workers)
        .unwrap_or(u64::MAX)
        .max(1)
        .saturating_mul(2);
    usize::try_from(nofile / 8 / workers)
        .unwrap_or(usize::MAX)
        .clamp(1, most)
}

fn reserved(workers: usize, holds: usize) -> u64 {
    let [workers, holds] = [workers, holds].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
    RESERVED.saturating_add(
        RESERVED_PER_WORKER
            .saturating_add(holds)
            .saturating_mul(workers),
    )
}

/// The most pipes of one worker: each may hold 256 KB of the kernel's memory, together 256 MB.
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
            assert!(
                connections * PER_CONNECTION + reserved(1, 4) <= nofile,
                "{nofile}"
            );
        }
    }

    #[test]
    fn what_is_divided_is_never_more_than_there_is() {
        for nofile in [150, 256, 300, 512, 1_024, 4_096, 20_000, 65_536, 1_048_576] {
            for workers in [1, 2, 8] {
                for wanted in [None, Some(1), Some(100), Some(1_000_000)] {
                    let Division {
                        connections,
                        sockets,
                        pipes,
                    } = Division::of(nofile, wanted, workers, 4);
                    let free = nofile - reserved(workers, 4).min(nofile / 2);
                    let all = (connections + sockets + 2 * pipes * workers) as u64;
                    assert!(
                        all <= free,
                        "{all} of {free}, {nofile} {workers} {wanted:?}"
                    );
                    assert!(
                        sockets as u64 >= free / 8,
                        "{sockets} for endpoints, {nofile} {wanted:?}"
                    );
                    if wanted.is_none() {
                        assert!(sockets >= connections, "each connection may have a socket");
                    }
                }
            }
        }
    }

    #[test]
    fn files_that_are_kept_never_take_more_than_an_eighth() {
        for (nofile, workers, expected) in [
            (64, 1, 4),
            (256, 2, 8),
            (1_024, 2, 32),
            (20_000, 2, 128),
            (16, 8, 1),
        ] {
            assert_eq!(
                file_limit(nofile, workers, 128),
                expected,
                "{nofile} {workers}"
            );
        }
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let raised = raise().unwrap();
        assert_eq!(raised.to, hard);
        assert!(raised.from <= raised.to);
        assert_eq!(limit(), hard);
        assert_eq!(
            raise().unwrap(),
            Raised {
                from: hard,
                to: hard
            }
        );
    }
}
