//! The accounts of the clients that are connected: what each of them holds of what the process has,
//! over all workers.
//!
//! One table for the process. Does not limit a client's holdings: each scarce resource does.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::process_limit::{CountGuard, client};
use crate::sharded_table::ShardedTable;

/// The accounts of all clients that are connected. An IPv6 client is its /64.
#[derive(Debug)]
pub struct Clients(ShardedTable<AccountKey, Weak<ClientAccount>>);

type AccountKey = (IpAddr, ClientClass);

/// Whether shares hold for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientClass {
    /// A client that may hold its share of scarce resources.
    Ordinary,
    /// A trusted peer or a peer on a Unix socket: it acts for many clients, and may hold all there
    /// is.
    Exempt,
}

/// The account of one client. It exists as long as one of its connections.
#[derive(Debug)]
#[repr(align(64))] // On a cache line of its own: clients do not slow each other down.
pub struct ClientAccount {
    /// The number of its connections.
    pub connections: HeldCount,
    /// Sockets towards endpoints that its streams use, where each has one.
    pub sockets: HeldCount,
    /// The handshakes that wait for a permit, in turn.
    handshakes: WaitLine,
    /// The requests that wait for the client's share of sockets, in turn.
    shares: WaitLine,
    freed: Notify,
    key: AccountKey,
    table: Weak<Clients>,
}

/// A connection that its client's account counts until this is dropped.
#[derive(Debug)]
pub struct CountedConnection(Arc<ClientAccount>);

/// The number of units of one resource that a client holds.
#[derive(Debug, Default)]
pub struct HeldCount(AtomicUsize);

/// The waits of a client for one thing: one of them is first, and the others are behind it.
#[derive(Debug)]
struct WaitLine {
    first: Semaphore,
    count: AtomicUsize,
}

/// The turn of one of a client's waits; dropping it gives it to the next.
#[derive(Debug)]
pub struct WaitTurn<'a> {
    _first: SemaphorePermit<'a>,
    _wait: CountGuard<'a>,
}

impl Default for WaitLine {
    fn default() -> Self {
        Self {
            first: Semaphore::new(1),
            count: AtomicUsize::new(0),
        }
    }
}

impl WaitLine {
    async fn turn(&self) -> WaitTurn<'_> {
        let wait = CountGuard::one(&self.count);
        WaitTurn {
            _first: self.first.acquire().await.expect("it is never closed"),
            _wait: wait,
        }
    }
}

impl CountedConnection {
    /// Counts one more connection.
    pub fn new(account: Arc<ClientAccount>) -> Self {
        account.connections.add(1);
        Self(account)
    }

    /// The client's account.
    pub fn account(&self) -> &Arc<ClientAccount> {
        &self.0
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.connections.remove(1);
    }
}

impl HeldCount {
    /// The present number.
    pub fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Adds `more`.
    pub fn add(&self, more: usize) {
        self.0.fetch_add(more, Ordering::SeqCst);
    }

    /// Takes away what was added.
    pub fn remove(&self, less: usize) {
        // A request that waits reads this after it has announced its wait: one of both sees the
        // other.
        self.0.fetch_sub(less, Ordering::SeqCst);
    }
}

impl Clients {
    /// A table without clients.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(ShardedTable::new()))
    }

    /// The account of the client at `ip`. A client without an address is at the unspecified one.
    pub fn of(self: &Arc<Self>, ip: IpAddr, standing: ClientClass) -> Arc<ClientAccount> {
        let key = (client(ip), standing);
        let mut shard = self.0.lock(&key);
        if let Some(account) = shard.get(&key).and_then(Weak::upgrade) {
            return account;
        }
        let table = Arc::downgrade(self);
        let account = Arc::new(ClientAccount {
            connections: HeldCount::default(),
            sockets: HeldCount::default(),
            handshakes: WaitLine::default(),
            shares: WaitLine::default(),
            freed: Notify::new(),
            key,
            table,
        });
        shard.insert(key, Arc::downgrade(&account));
        account
    }

    /// The number of connected clients.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl ClientAccount {
    /// The client's address; of an IPv6 client its /64.
    pub fn client(&self) -> IpAddr {
        self.key.0
    }

    /// Whether the client may hold more than its share.
    pub fn is_exempt(&self) -> bool {
        self.key.1 == ClientClass::Exempt
    }

    /// Waits until a handshake of the client may wait for a permit beside those of others. An
    /// exempt client's need not.
    pub(crate) async fn handshake_turn(&self) -> Option<WaitTurn<'_>> {
        if self.is_exempt() {
            None
        } else {
            Some(self.handshakes.turn().await)
        }
    }

    /// Waits until the request is the first of those of the client that wait for its share.
    pub(crate) async fn share_turn(&self) -> WaitTurn<'_> {
        self.shares.turn().await
    }

    /// Whether a request of the client waits for its share.
    pub(crate) fn waits_for_share(&self) -> bool {
        self.shares.count.load(Ordering::SeqCst) > 0
    }

    /// Tells the request that waits that the client holds less now.
    pub(crate) fn freed(&self) {
        if self.waits_for_share() {
            self.freed.notify_one();
        }
    }

    /// Completes when the client holds less.
    pub(crate) fn until_freed(&self) -> Notified<'_> {
        self.freed.notified()
    }
}

impl Drop for ClientAccount {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else {
            return;
        };
        let mut shard = table.0.lock(&self.key);
        // The client may be connected again: that account is another one.
        if shard
            .get(&self.key)
            .is_some_and(|account| account.strong_count() == 0)
        {
            shard.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_of_one_client_share_an_account() {
        let clients = Clients::new();
        let of = |text| clients.of(ip(text), ClientClass::Ordinary);
        let held = [
            of("192.0.2.1"),
            of("::ffff:192.0.2.1"),
            of("2001:db8::1"),
            of("2001:db8::2"),
        ];
        assert!(Arc::ptr_eq(&held[0], &held[1]) && Arc::ptr_eq(&held[2], &held[3]));
        assert_eq!(held[2].client(), ip("2001:db8::"));
        let other = [of("192.0.2.2"), of("2001:db8:0:1::1")];
        assert_eq!(clients.count(), 4);
        drop((held, other));
        assert_eq!(clients.count(), 0);
    }

    #[test]
    fn an_exempt_account_is_never_that_of_an_ordinary_client() {
        let clients = Clients::new();
        let [ordinary, exempt] = [ClientClass::Ordinary, ClientClass::Exempt]
            .map(|standing| clients.of(ip("192.0.2.1"), standing));
        assert!(!Arc::ptr_eq(&ordinary, &exempt) && exempt.is_exempt() && !ordinary.is_exempt());
    }

    #[test]
    fn client_accounts_are_exact_while_threads_come_and_go() {
        let clients = Clients::new();
        let kept = clients.of(ip("192.0.2.1"), ClientClass::Ordinary);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let clients = &clients;
                scope.spawn(move || {
                    for turn in 0..2_000_u32 {
                        let last = (turn + u32::from(thread)) as u8 % 3 + 1;
                        let account = clients.of([192, 0, 2, last].into(), ClientClass::Ordinary);
                        let connection = CountedConnection::new(account);
                        assert!(connection.account().connections.now() >= 1);
                    }
                });
            }
        });
        assert!(Arc::ptr_eq(
            &kept,
            &clients.of(ip("192.0.2.1"), ClientClass::Ordinary)
        ));
        assert_eq!((clients.count(), kept.connections.now()), (1, 0));
    }
}
