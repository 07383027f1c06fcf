//! Connections of clients: how many there may be at once, and how many are wanted by listeners that
//! find no permit.
//!
//! Does not choose which connections give way: see `preemption`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::clock::Ticker;
use crate::process_limit::{CountGuard, Permit, ProcessLimit};

/// The permits for connections of clients, for the process.
#[derive(Debug)]
pub struct ConnectionLimit {
    permits: ProcessLimit,
    /// Listeners that wait for a permit.
    waiting: AtomicUsize,
    /// The permits for these for which no connection has given way yet.
    wanted: AtomicUsize,
    gave_way: AtomicU64,
    workers: Arc<[Arc<Ticker>]>,
}

impl ConnectionLimit {
    /// Allows `size` at once; `workers` are woken where some are to give way.
    pub fn new(size: usize, workers: &Arc<[Arc<Ticker>]>) -> Self {
        Self {
            permits: ProcessLimit::new(size),
            waiting: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            gave_way: AtomicU64::new(0),
            workers: Arc::clone(workers),
        }
    }

    /// Allows `size` at once from now on. More connections stay; while a listener waits, idle ones
    /// give way for these as well.
    pub fn resize(&self, size: usize) {
        self.permits.resize(size);
    }

    /// The size of the limit.
    pub fn size(&self) -> usize {
        self.permits.size()
    }

    /// The number in use.
    pub fn used(&self) -> usize {
        self.permits.used()
    }

    /// The number of connections that were closed to make room.
    pub fn gave_way(&self) -> u64 {
        self.gave_way.load(Ordering::Relaxed)
    }

    /// Takes a permit now, or not at all; no listener that waits already is overtaken.
    pub fn try_take(&self) -> Option<Permit> {
        self.permits.try_take()
    }

    /// Takes a permit, in the order of asking.
    pub async fn take(&self) -> Permit {
        self.permits.take().await
    }

    /// Counts a listener that waits until what is returned is dropped.
    pub fn wait(&self) -> CountGuard<'_> {
        CountGuard::one(&self.waiting)
    }

    /// The number of connections that must end before each listener that waits has a permit.
    fn needed(&self) -> usize {
        match self.waiting.load(Ordering::Relaxed) {
            0 => 0,
            waiting => waiting + self.permits.debt(),
        }
    }

    /// Wants a permit for each listener that waits, however many connections have given way so far.
    pub fn want(&self) {
        self.wanted.store(self.needed(), Ordering::Relaxed);
    }

    /// The number of permits that are wanted.
    pub fn wanted(&self) -> usize {
        match self.wanted.load(Ordering::Relaxed) {
            0 => 0,
            // A listener that no longer waits may have left its wish behind.
            wanted => wanted.min(self.needed()),
        }
    }

    /// Has `count` connections give way for those that are wanted.
    pub fn give_way(&self, count: usize) {
        let left = |wanted: usize| Some(wanted.saturating_sub(count));
        let _ = self
            .wanted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        self.gave_way.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Whether a connection that has just served is to give way: then it does.
    pub fn is_to_give_way(&self) -> bool {
        if self.wanted() == 0 {
            return false;
        }
        self.give_way(1);
        true
    }

    /// Wakes the workers to look at what is wanted.
    pub fn wake(&self) {
        self.workers.iter().for_each(|worker| worker.ask());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_gives_way_for_each_waiting_listener() {
        let connections = ConnectionLimit::new(1, &Arc::from([]));
        connections.want();
        assert!(!connections.is_to_give_way(), "no listener waits");
        let waiting = (connections.wait(), connections.wait());
        connections.want();
        assert!(connections.is_to_give_way() && connections.is_to_give_way());
        assert!(!connections.is_to_give_way());
        connections.want();
        assert_eq!(connections.wanted(), 2, "none of both has a permit yet");
        drop(waiting);
        assert!(!connections.is_to_give_way() && connections.gave_way() == 2);
    }

    #[test]
    fn connections_beyond_a_smaller_limit_give_way_to_a_listener() {
        let connections = ConnectionLimit::new(3, &Arc::from([]));
        let mut open: Vec<_> = std::iter::from_fn(|| connections.try_take()).collect();
        connections.resize(1);
        assert_eq!((connections.used(), connections.size()), (3, 1));
        connections.want();
        assert!(!connections.is_to_give_way(), "no listener waits");
        let waiting = connections.wait();
        connections.want();
        for _ in 0..3 {
            assert!(connections.is_to_give_way() && connections.try_take().is_none());
            open.pop();
        }
        assert!(!connections.is_to_give_way() && connections.try_take().is_some());
        drop(waiting);
    }
}
