//! What is promised for the process, not for a worker: how many connections and handshakes at once.
//!
//! All workers share these. A full limit is waited for, first come first
//! served; connections in the listener's backlog cost nothing. Does not know the purpose of a wait
//! or its deadline.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::sharded_table::ShardedTable;

/// A number of things that may be had at once by the whole process.
#[derive(Debug, Clone)]
pub struct ProcessLimit(Arc<Permits>);

/// The permits of a limit. The free and the taken ones together are as many as `size` and `debt`.
#[derive(Debug)]
struct Permits {
    free: Semaphore,
    size: AtomicUsize,
    /// The taken permits that end when they are dropped, because the limit has become smaller.
    ///
    /// A dropped permit pays at once, for which it reads this count: no one writes that outside of
    /// a resize, and it is beside the semaphore, which is written anyway. A tick that forgets free
    /// permits instead would find none while something waits: a semaphore gives each permit that
    /// comes back to the first wait.
    debt: AtomicUsize,
}

/// The largest size, which nothing reaches. Of resizes that run at once each may add its permits
/// before another one forgets its own: more than `MAX_PERMITS` at a time would be a panic.
const LARGEST: usize = Semaphore::MAX_PERMITS >> 20;

/// The right to one of something limited; dropping it gives it back.
#[derive(Debug)]
pub struct Permit(Arc<Permits>);

impl Permits {
    /// Lessens the debt by up to `permits`; returns by how many.
    fn pay(&self, permits: usize) -> usize {
        if self.debt.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let left = |debt: usize| Some(debt.saturating_sub(permits));
        self.debt
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .map_or(0, |debt| debt.min(permits))
    }

    /// Pays with `permits`, and adds the others to the free ones.
    fn add(&self, permits: usize) {
        self.free.add_permits(permits - self.pay(permits));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.add(1);
    }
}

impl ProcessLimit {
    /// Allows `size` at once.
    pub fn new(size: usize) -> Self {
        let size = size.min(LARGEST);
        Self(Arc::new(Permits {
            free: Semaphore::new(size),
            size: AtomicUsize::new(size),
            debt: AtomicUsize::new(0),
        }))
    }

    /// Allows `size` at once from now on. Where more are in use these stay, and none is given
    /// before enough of them are dropped.
    pub fn resize(&self, size: usize) {
        let size = size.min(LARGEST);
        let permits = &*self.0;
        // The later one of two resizes sees what the other one's thread has done before.
        let before = permits.size.swap(size, Ordering::AcqRel);
        let less = before.saturating_sub(size);
        permits.debt.fetch_add(less, Ordering::Relaxed);
        let free = permits.free.forget_permits(less);
        // Permits that were dropped meanwhile may have paid for some of the free ones.
        permits.add(free + size.saturating_sub(before));
    }

    /// The size of the limit.
    pub fn size(&self) -> usize {
        self.0.size.load(Ordering::Relaxed)
    }

    /// The number in use; more than the size for a while after that was made smaller.
    pub fn used(&self) -> usize {
        let free = self.0.free.available_permits();
        (self.size() + self.debt()).saturating_sub(free)
    }

    /// The number that may be taken now.
    pub fn free(&self) -> usize {
        let free = self.0.free.available_permits();
        free.saturating_sub(self.debt())
    }

    /// The number in use beyond the size.
    pub fn debt(&self) -> usize {
        self.0.debt.load(Ordering::Relaxed)
    }

    /// Takes one now, or not at all; no earlier wait is overtaken.
    pub fn try_take(&self) -> Option<Permit> {
        loop {
            self.0.free.try_acquire().ok()?.forget();
            let permit = Permit(Arc::clone(&self.0));
            if self.debt() == 0 {
                return Some(permit);
            }
            // It was dropped while the limit became smaller, and is free instead of having ended:
            // being dropped again, it pays.
        }
    }

    /// Takes one, in the order of asking.
    pub async fn take(&self) -> Permit {
        if let Some(permit) = self.try_take() {
            return permit;
        }
        let permit = self.0.free.acquire().await;
        permit.expect("a limit is never closed").forget();
        Permit(Arc::clone(&self.0))
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
    size: AtomicUsize,
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
            size: AtomicUsize::new(size),
            clients: ShardedTable::new(),
        })
    }

    /// Allows each client `size` from now on; the connections that it has stay.
    pub fn resize(&self, size: usize) {
        self.size.store(size, Ordering::Relaxed);
        // A client that is not in the table yet gets the new size: it is read under the lock.
        self.clients.each(|client| client.limit.resize(size));
    }

    /// A permit for a connection of `ip`, still to be waited for; `None` when as many wait already
    /// as may be served: what waits costs a descriptor, so one client must not have all of
    /// them.
    pub fn enter(self: &Arc<Self>, ip: IpAddr) -> Option<PerClientPermit> {
        let key = client(ip);
        let mut shard = self.clients.lock(&key);
        let size = self.size.load(Ordering::Relaxed);
        let client = shard.entry(key).or_insert_with(|| {
            Arc::new(ClientConnections {
                limit: ProcessLimit::new(size),
                present: AtomicUsize::new(0),
            })
        });
        if client.present.load(Ordering::Relaxed) >= size.saturating_mul(2) {
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
    size: AtomicUsize,
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
            size: AtomicUsize::new(size),
            counts: ShardedTable::new(),
        })
    }

    /// Allows each `size` from now on; what they have stays.
    pub fn resize(&self, size: usize) {
        self.size.store(size, Ordering::Relaxed);
    }

    /// One more for `key`; `None` when it has as many as it may.
    pub fn take(self: &Arc<Self>, key: &K) -> Option<KeyedPermit<K>> {
        let mut shard = self.counts.lock(key);
        let count = shard.entry(key.clone()).or_default();
        if *count >= self.size.load(Ordering::Relaxed) {
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
mod tests;
