//! The rates that the bytes of one table are held to: of each connection, of each client, of each
//! user, of all.
//!
//! Buckets of clients and users are in tables that workers share. Does not wait and does not move
//! bytes: see `lockgate_net::traffic_shaping`.

mod shaped_body;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use lockgate_net::nanos::Nanos;
use lockgate_net::traffic_shaping::{self, Shaper, ShapingQueue, SharedRate};
use lockgate_rules::{Directions, ShapeRates};

pub use shaped_body::{ShapedBody, give_back};

const SHARDS: usize = 64;
/// Unused buckets of one shard that are kept until they are full again: a client that returns soon
/// must not get a new one. Beyond this count they are dropped.
const KEPT: usize = 4096;
/// A shard smaller than this is not swept.
const FEW: usize = 64;

/// The rates of one table of the configuration, shared by the workers.
#[derive(Debug)]
pub struct Shape {
    connection: Directions,
    clients: Option<BucketTable<IpAddr>>,
    users: Option<BucketTable<Arc<str>>>,
    total: DirectionBuckets,
}

/// The buckets of one connection, shared by all that it carries.
#[derive(Debug)]
pub struct Shaped(DirectionBuckets);

/// The shapers of both directions of one exchange, relay or tunnel.
#[derive(Debug, Default)]
pub struct Shapers {
    /// The direction from the client, if it is limited.
    pub received: Option<Shaper>,
    /// The direction to the client, if it is limited.
    pub sent: Option<Shaper>,
}

impl Shape {
    /// Rates of each connection, of each client address (IPv6: each /64), of each user, and of all
    /// together.
    pub fn new(rates: &ShapeRates) -> Arc<Self> {
        Arc::new(Self {
            connection: rates.per_connection,
            clients: BucketTable::of_some(rates.per_client),
            users: BucketTable::of_some(rates.per_user),
            total: DirectionBuckets::new(rates.total),
        })
    }

    /// The buckets of a new connection.
    pub fn connection(&self) -> Shaped {
        Shaped(DirectionBuckets::new(self.connection))
    }

    /// The shapers of an exchange, relay or tunnel on `connection`. Without `client` no rate of
    /// clients holds, without `user` none of users.
    pub fn shapers(
        &self,
        connection: &Shaped,
        client: Option<IpAddr>,
        user: Option<&Arc<str>>,
        queue: &Rc<ShapingQueue>,
    ) -> Shapers {
        let now = traffic_shaping::now();
        let client = self.clients.as_ref().zip(client);
        let client =
            client.map(|(clients, client)| clients.of(lockgate_limits::client(client), now));
        let user = self
            .users
            .as_ref()
            .zip(user)
            .map(|(users, user)| users.of(Arc::clone(user), now));
        let chain = [
            Some(&connection.0),
            client.as_ref(),
            user.as_ref(),
            Some(&self.total),
        ];
        let shaper = |bucket: fn(&DirectionBuckets) -> Option<&Arc<SharedRate>>| {
            let buckets: Box<[_]> = chain
                .iter()
                .flatten()
                .filter_map(|pair| bucket(pair))
                .cloned()
                .collect();
            (!buckets.is_empty()).then(|| Shaper::new(buckets, queue))
        };
        Shapers {
            received: shaper(|pair| pair.received.as_ref()),
            sent: shaper(|pair| pair.sent.as_ref()),
        }
    }
}

impl Shapers {
    /// Whether either direction is being waited for.
    pub fn is_waited_for(&self) -> bool {
        self.received
            .iter()
            .chain(&self.sent)
            .any(Shaper::is_waited_for)
    }
}

/// A bucket for each direction that is limited.
#[derive(Debug, Clone)]
struct DirectionBuckets {
    received: Option<Arc<SharedRate>>,
    sent: Option<Arc<SharedRate>>,
}

impl DirectionBuckets {
    fn new(rates: Directions) -> Self {
        Self {
            received: rates.received.map(SharedRate::new),
            sent: rates.sent.map(SharedRate::new),
        }
    }

    fn is_used(&self) -> bool {
        self.each().any(|bucket| Arc::strong_count(bucket) > 1)
    }

    /// Whether both are as full as new ones.
    fn is_full(&self, now: Nanos) -> bool {
        self.each().all(|bucket| bucket.is_full(now))
    }

    fn each(&self) -> impl Iterator<Item = &Arc<SharedRate>> {
        self.received.iter().chain(&self.sent)
    }
}

/// The buckets of each client or user, by key, while they are used or not full again.
struct BucketTable<K> {
    rates: Directions,
    hasher: RandomState,
    shards: Box<[Mutex<BucketShard<K>>]>,
}

struct BucketShard<K> {
    pairs: HashMap<K, DirectionBuckets, RandomState>,
    /// The number of entries at which the shard is swept.
    enough: usize,
}

impl<K: Hash + Eq> BucketTable<K> {
    /// A table for these rates, if any direction is limited.
    fn of_some(rates: Directions) -> Option<Self> {
        (rates != Directions::default()).then(|| Self::new(rates))
    }

    fn new(rates: Directions) -> Self {
        let shard = || {
            Mutex::new(BucketShard {
                pairs: HashMap::default(),
                enough: FEW,
            })
        };
        Self {
            rates,
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }

    fn of(&self, key: K, now: Nanos) -> DirectionBuckets {
        // Locked for one look-up, or for one sweep of a shard that has doubled; never over an
        // await.
        let shard = &self.shards[self.hasher.hash_one(&key) as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if shard.pairs.len() >= shard.enough {
            shard.forget(now);
        }
        shard
            .pairs
            .entry(key)
            .or_insert_with(|| DirectionBuckets::new(self.rates))
            .clone()
    }
}

impl<K> BucketShard<K> {
    fn forget(&mut self, now: Nanos) {
        let mut kept = 0;
        self.pairs.retain(|_, pair| {
            let used = pair.is_used();
            let keep = used || !pair.is_full(now) && kept < KEPT;
            kept += usize::from(keep && !used);
            keep
        });
        self.enough = (self.pairs.len() * 2).max(FEW);
    }
}

impl<K> fmt::Debug for BucketTable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketTable")
            .field("rates", &self.rates)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use lockgate_net::reactor::Reactor;

    fn rate(bytes: u64) -> Directions {
        let rate = NonZeroU64::new(bytes);
        Directions {
            received: rate,
            sent: rate,
        }
    }

    fn carried(shape: &Shape, client: Option<&str>, queue: &Rc<ShapingQueue>) -> Shapers {
        shape.shapers(
            &shape.connection(),
            client.and_then(|ip| ip.parse().ok()),
            None,
            queue,
        )
    }

    fn at_once(shapers: Shapers) -> usize {
        let mut shaper = shapers.sent.expect("it is limited");
        let mut context = Context::from_waker(Waker::noop());
        let mut bytes = 0;
        while let Poll::Ready(some) = shaper.poll(&mut context) {
            shaper.spend(some);
            bytes += some;
        }
        bytes
    }

    fn run(test: impl FnOnce(&Rc<ShapingQueue>)) {
        let test = async { test(&ShapingQueue::new().unwrap()) };
        Reactor::new().unwrap().block_on(test).unwrap();
    }

    #[test]
    fn a_returning_client_keeps_its_bandwidth_account() {
        run(|queue| {
            // A packet in fifteen seconds: no test takes long enough to fill that.
            let shape = Shape::new(&ShapeRates {
                per_client: rate(100),
                ..ShapeRates::default()
            });
            let moved = |ip: &str| at_once(carried(&shape, Some(ip), queue));
            assert_eq!(moved("192.0.2.1"), 1_500);
            assert_eq!((moved("192.0.2.1"), moved("::ffff:192.0.2.1")), (0, 0));
            assert_eq!(moved("192.0.2.2"), 1_500);
            assert_eq!(
                (
                    moved("2001:db8::1"),
                    moved("2001:db8::2"),
                    moved("2001:db8:0:1::1")
                ),
                (1_500, 0, 1_500)
            );
            assert!(
                carried(&shape, None, queue).sent.is_none(),
                "without an address there is no client"
            );
        });
    }

    #[test]
    fn a_total_rate_is_shared_but_no_connection_rate() {
        run(|queue| {
            let shape = Shape::new(&ShapeRates {
                per_connection: rate(100),
                ..ShapeRates::default()
            });
            for _ in 0..2 {
                let connection = shape.connection();
                let moved =
                    [(); 2].map(|()| at_once(shape.shapers(&connection, None, None, queue)));
                assert_eq!(moved, [1_500, 0]);
            }
            let shape = Shape::new(&ShapeRates {
                total: Directions {
                    received: None,
                    ..rate(100)
                },
                ..ShapeRates::default()
            });
            assert!(carried(&shape, None, queue).received.is_none());
            let moved = [(); 2].map(|()| at_once(carried(&shape, None, queue)));
            assert_eq!(moved, [1_500, 0]);
        });
    }

    #[test]
    fn accounts_of_departed_clients_are_forgotten_once_full() {
        let now = traffic_shaping::now();
        let shares = BucketTable::new(rate(1_000_000));
        let used = shares.of(0_u32, now);
        for client in 1..100_000 {
            shares.of(client, now);
        }
        let left = || {
            shares
                .shards
                .iter()
                .map(|shard| shard.lock().unwrap().pairs.len())
                .sum::<usize>()
        };
        assert!(left() <= SHARDS * FEW, "{}", left());
        assert!(Arc::ptr_eq(
            used.sent.as_ref().unwrap(),
            shares.of(0, now).sent.as_ref().unwrap()
        ));
    }

    #[test]
    fn a_flood_of_indebted_clients_is_bounded() {
        run(|queue| {
            let now = traffic_shaping::now();
            let shares = BucketTable::new(rate(1));
            for client in 0..3 * SHARDS * KEPT {
                let sent = shares
                    .of(client, now)
                    .sent
                    .map(|bucket| Shaper::new([bucket], queue));
                at_once(Shapers {
                    received: None,
                    sent,
                });
            }
            let left: usize = shares
                .shards
                .iter()
                .map(|shard| shard.lock().unwrap().pairs.len())
                .sum();
            assert!(left <= SHARDS * 2 * (KEPT + 1), "{left}");
        });
    }
}
