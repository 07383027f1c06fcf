//! What is promised for the process, not for a worker: how many connections and handshakes at once.
//!
//! All workers share these. A full limit is waited for, first come first
//! served; connections in the listener's backlog cost nothing. Does not know the purpose of a wait
//! or its deadline.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sharded_table::ShardedTable;

/// The right to one of something limited; dropping it gives it back.
pub type Permit = OwnedSemaphorePermit;

/// A number of things that may be had at once by the whole process.
#[derive(Debug, Clone)]
pub struct ProcessLimit {
    free: Arc<Semaphore>,
    size: usize,
}

impl ProcessLimit {
    /// Allows `size` at once.
    pub fn new(size: usize) -> Self {
        let size = size.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(size)),
            size,
        }
    }

    /// The size of the limit.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The number in use.
    pub fn used(&self) -> usize {
        self.size - self.free.available_permits()
    }

    /// Takes one now, or not at all; no earlier wait is overtaken.
    pub fn try_take(&self) -> Option<Permit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// Takes one, in the order of asking.
    pub async fn take(&self) -> Permit {
        Arc::clone(&self.free)
            .acquire_owned()
            .await
            .expect("a limit is never closed")
    }
}

/// One more of a count, until it is dropped.
#[derive(Debug)]
pub struct CountGuard<'a>(&'a AtomicUsize);

impl<'a> CountGuard<'a> {
    pub(crate) fn one(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Connections of each client at once. An IPv6 client is its /64: within that it can choose its
/// address freely.
#[derive(Debug)]
pub struct PerClient {
    size: usize,
    clients: ShardedTable<IpAddr, Arc<ClientConnections>>,
}

/// One client's connections.
#[derive(Debug)]
struct ClientConnections {
    limit: ProcessLimit,
    /// The connections that hold a permit or wait for one.
    present: AtomicUsize,
}

/// A permit for one of a client's connections, once it was waited for.
#[derive(Debug)]
pub struct PerClientPermit {
    client: Arc<ClientConnections>,
    key: IpAddr,
    table: Arc<PerClient>,
    permit: Option<Permit>,
}

impl PerClient {
    /// Allows each client `size` connections at once.
    pub fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            size,
            clients: ShardedTable::new(),
        })
    }

    /// A permit for a connection of `ip`, still to be waited for; `None` when as many wait already
    /// as may be served: what waits costs a descriptor, so one client must not have all of
    /// them.
    pub fn enter(self: &Arc<Self>, ip: IpAddr) -> Option<PerClientPermit> {
        let key = client(ip);
        let mut shard = self.clients.lock(&key);
        let client = shard.entry(key).or_insert_with(|| {
            Arc::new(ClientConnections {
                limit: ProcessLimit::new(self.size),
                present: AtomicUsize::new(0),
            })
        });
        if client.present.load(Ordering::Relaxed) >= self.size.saturating_mul(2) {
            return None;
        }
        client.present.fetch_add(1, Ordering::Relaxed);
        Some(PerClientPermit {
            client: Arc::clone(client),
            key,
            table: Arc::clone(self),
            permit: None,
        })
    }
}

impl PerClientPermit {
    /// Waits until the client's earlier connections leave room.
    pub async fn wait(&mut self) {
        self.permit = Some(self.client.limit.take().await);
    }
}

impl Drop for PerClientPermit {
    fn drop(&mut self) {
        self.permit = None;
        let mut shard = self.table.clients.lock(&self.key);
        if self.client.present.fetch_sub(1, Ordering::Relaxed) == 1 {
            shard.remove(&self.key);
        }
    }
}

/// A limit for each key, such as a client or a user: its number of tunnels. Without waiting.
#[derive(Debug)]
pub struct KeyedLimit<K> {
    size: usize,
    counts: ShardedTable<K, usize>,
}

/// The right to one unit of a key's limit; dropping it gives it back.
#[derive(Debug)]
pub struct KeyedPermit<K: Hash + Eq> {
    key: K,
    table: Arc<KeyedLimit<K>>,
}

impl<K: Hash + Eq + Clone> KeyedLimit<K> {
    /// Allows each `size`.
    pub fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            size,
            counts: ShardedTable::new(),
        })
    }

    /// One more for `key`; `None` when it has as many as it may.
    pub fn take(self: &Arc<Self>, key: &K) -> Option<KeyedPermit<K>> {
        let mut shard = self.counts.lock(key);
        let count = shard.entry(key.clone()).or_default();
        if *count >= self.size {
            return None;
        }
        *count += 1;
        Some(KeyedPermit {
            key: key.clone(),
            table: Arc::clone(self),
        })
    }
}

impl<K: Hash + Eq> Drop for KeyedPermit<K> {
    fn drop(&mut self) {
        let mut shard = self.table.counts.lock(&self.key);
        match shard.get_mut(&self.key) {
            Some(count @ 2..) => *count -= 1,
            // A key without permits is forgotten.
            _ => drop(shard.remove(&self.key)),
        }
    }
}

/// The address that stands for a client in all tables: an IPv6 client is its /64.
pub fn client(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_used_until_its_permit_is_dropped() {
        let limit = ProcessLimit::new(1);
        let taken = limit.try_take();
        assert!(taken.is_some());
        assert_eq!(limit.used(), 1);
        assert!(limit.try_take().is_none());
        drop(taken);
        assert!(limit.try_take().is_some());
    }

    #[test]
    fn a_client_is_refused_with_as_many_waiting_as_served() {
        let table = PerClient::new(1);
        let ip = IpAddr::from([192, 0, 2, 1]);
        let (served, waiting) = (table.enter(ip), table.enter(ip));
        assert!(served.is_some() && waiting.is_some());
        assert!(table.enter(ip).is_none());
        assert!(table.enter(IpAddr::from([192, 0, 2, 2])).is_some());
        drop(waiting);
        assert!(table.enter(ip).is_some());
    }

    #[test]
    fn the_connection_limit_of_ipv6_counts_its_64_prefix() {
        let table = PerClient::new(1);
        let held = [
            table.enter("2001:db8::1".parse().unwrap()),
            table.enter("2001:db8::2".parse().unwrap()),
        ];
        assert!(held.iter().all(Option::is_some));
        assert!(table.enter("2001:db8::3".parse().unwrap()).is_none());
        assert!(table.enter("2001:db8:0:1::1".parse().unwrap()).is_some());
    }

    #[test]
    fn concurrent_permits_are_limited_per_key_and_forgotten_when_empty() {
        let table = KeyedLimit::new(2);
        let (one, other) = (Arc::<str>::from("one"), Arc::<str>::from("other"));
        let permits = [table.take(&one), table.take(&one)];
        assert!(permits.iter().all(Option::is_some));
        assert!(table.take(&one).is_none());
        assert!(table.take(&other).is_some());
        drop(permits);
        assert!(table.take(&one).is_some());
        assert_eq!(table.counts.len(), 0);
    }

    #[test]
    fn a_client_without_connections_is_forgotten() {
        let table = PerClient::new(1);
        drop(table.enter("192.0.2.1".parse().unwrap()));
        assert_eq!(table.clients.len(), 0);
    }
}
