//! Rate limits that hold for the process: one bounded table of token buckets for all limits,
//! clients and workers. A bucket that is full again is as good as one that was never there, so it
//! is forgotten first.
//!
//! **At the cap** (many more clients, or made-up header values, than there is room for) a shard
//! gives up an eighth of its buckets: those that are full again; if that is not enough, the least
//! used ones *of the limit that has the most*. So a flood under one limit makes the buckets of
//! another one go only where that has more of them than the flood; and under its own limit it drops
//! its own once-used buckets before one that is exhausted. A client that wants its exhausted bucket
//! forgotten must exhaust as many others as there is room for, which gives it fewer requests than
//! those buckets had. No request is ever refused because the table is full.
//!
//! Knows no clock: the caller passes the time.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lockgate_net::nanos::Nanos;
use lockgate_net::token_bucket::{TokenBucket, TokenRate};

/// The default number of buckets of the process: some 7 MB when all are in use.
pub const BUCKETS: usize = 131_072;
const SHARDS: usize = 64;
const SECOND: Nanos = Nanos::from_secs(1);
/// A shard at its cap gives up this part of its buckets at once, so that a flood pays for looking
/// through all of them only now and then.
const GIVEN_UP: usize = 8;

/// The key that a request is counted by, under one limit.
#[derive(Debug, Clone, Copy)]
pub enum LimitKey<'a> {
    /// The client; an IPv6 client is its /64, within which it can choose its address freely.
    Client(IpAddr),
    /// The value of the header that the limit is about. Where it is absent, the client is the key.
    Value(&'a [u8]),
    /// All requests of the route together.
    Route,
}

/// The verdict on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It was counted, and may go on.
    Allowed,
    /// It was not counted.
    Refused {
        /// Whole seconds until one would be allowed, at least 1: the value of `Retry-After`.
        retry_after: u64,
    },
}

/// The buckets of all limits. There is one for the process.
#[derive(Debug)]
pub struct Buckets {
    /// SipHash with keys of this process, so that clients cannot find two values that share a
    /// bucket.
    names: RandomState,
    limits: AtomicU32,
    /// Buckets that one shard may have.
    room: usize,
    shards: Box<[Mutex<LimitShard>]>,
}

type LimitShard = HashMap<u64, LimitBucket, BuildHasherDefault<AlreadyHashed>>;

#[derive(Debug, Clone, Copy)]
struct LimitBucket {
    tokens: TokenBucket,
    limit: u32,
}

/// One limit of the configuration, over the table that it shares with the others.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    id: u32,
    rate: TokenRate,
    /// Requests that were refused.
    refused: Arc<AtomicU64>,
    buckets: Arc<Buckets>,
}

/// The use of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitFigures {
    /// Its buckets that are remembered.
    pub buckets: usize,
    /// Those of them that would refuse the next request.
    pub limited: usize,
    /// Requests that were refused so far.
    pub refused: u64,
}

impl Buckets {
    /// A table for at most `size` buckets (rounded up to a multiple of the shards); grows as they
    /// are needed.
    pub fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            names: RandomState::new(),
            limits: AtomicU32::new(0),
            room: size.div_ceil(SHARDS).max(GIVEN_UP),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        })
    }

    /// A limit of its own: its buckets are no other limit's, also where keys are the same.
    pub fn limit(self: &Arc<Self>, rate: TokenRate) -> RateLimiter {
        RateLimiter {
            id: self.limits.fetch_add(1, Ordering::Relaxed),
            rate,
            refused: Arc::default(),
            buckets: Arc::clone(self),
        }
    }

    /// Buckets that are remembered.
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len())
            .sum()
    }

    /// Buckets that it has room for.
    pub fn size(&self) -> usize {
        self.room * SHARDS
    }

    /// The use of each of these limits of this table, in their order.
    pub fn figures(&self, limits: &[&RateLimiter], now: Nanos) -> Vec<LimitFigures> {
        let places: HashMap<u32, usize> = limits
            .iter()
            .enumerate()
            .map(|(at, limit)| (limit.id, at))
            .collect();
        let refused = |limit: &&RateLimiter| LimitFigures {
            refused: limit.refused.load(Ordering::Relaxed),
            ..LimitFigures::default()
        };
        let mut figures: Vec<_> = limits.iter().map(refused).collect();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for bucket in shard.values() {
                let Some(at) = places.get(&bucket.limit) else {
                    continue;
                };
                let mut tokens = bucket.tokens;
                figures[*at].buckets += 1;
                figures[*at].limited += usize::from(tokens.take(limits[*at].rate, now).is_err());
            }
        }
        figures
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl RateLimiter {
    /// Whether both count in the same buckets.
    pub fn shares_buckets(&self, other: &Self) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.buckets, &other.buckets)
    }

    /// Counts a request of `key` at `now` if it is admitted.
    ///
    /// Every worker must mean the same by `now`; that one is a little behind another does no harm.
    pub fn ask(&self, key: LimitKey<'_>, now: Nanos) -> Decision {
        let name = self.name(key);
        // The map takes its place from the upper and lower bits, so the shard is chosen by those in
        // the middle.
        let shard = &self.buckets.shards[(name >> 32) as usize % SHARDS];
        // Held for one look-up, or for one look through a shard that is full; never over a wait.
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= self.buckets.room && !shard.contains_key(&name) {
            make_room(&mut shard, self.buckets.room, now);
        }
        let bucket = shard.entry(name).or_insert_with(|| LimitBucket {
            tokens: TokenBucket::default(),
            limit: self.id,
        });
        match bucket.tokens.take(self.rate, now) {
            Ok(()) => Decision::Allowed,
            Err(missing) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Decision::Refused {
                    retry_after: missing.as_u64().div_ceil(SECOND.as_u64()),
                }
            }
        }
    }

    /// The table of its buckets.
    pub fn table(&self) -> &Arc<Buckets> {
        &self.buckets
    }

    /// Forgets all of its buckets; returns how many there were.
    pub fn clear(&self) -> usize {
        let shards = self.buckets.shards.iter().map(|shard| {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let before = shard.len();
            shard.retain(|_, bucket| bucket.limit != self.id);
            before - shard.len()
        });
        shards.sum()
    }

    /// Forgets the bucket of a client; returns whether there was one.
    pub fn forget(&self, client: IpAddr) -> bool {
        let name = self.name(LimitKey::Client(client));
        let shard = &self.buckets.shards[(name >> 32) as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.remove(&name).is_some()
    }

    /// 64 bits that stand for limit and key: among 131,072 of them two are alike once in two
    /// thousand million tables.
    fn name(&self, key: LimitKey<'_>) -> u64 {
        let mut hasher = self.buckets.names.build_hasher();
        hasher.write_u32(self.id);
        match key {
            LimitKey::Client(ip) => {
                hasher.write_u8(0);
                match lockgate_limits::client(ip) {
                    IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
                    IpAddr::V6(ip) => hasher.write_u128(ip.to_bits()),
                }
            }
            LimitKey::Value(value) => {
                hasher.write_u8(1);
                hasher.write(value);
            }
            LimitKey::Route => hasher.write_u8(2),
        }
        hasher.finish()
    }
}

/// Gives up an eighth of a full shard, as said above.
fn make_room(shard: &mut LimitShard, room: usize, now: Nanos) {
    let enough = room - room / GIVEN_UP;
    shard.retain(|_, bucket| bucket.tokens.full_at() > now);
    while shard.len() > enough {
        let mut sizes: HashMap<u32, usize> = HashMap::new();
        for bucket in shard.values() {
            *sizes.entry(bucket.limit).or_default() += 1;
        }
        let Some((&limit, _)) = sizes
            .iter()
            .max_by_key(|(limit, size)| (**size, Reverse(**limit)))
        else {
            return;
        };
        let of_limit = shard.iter().filter(|(_, bucket)| bucket.limit == limit);
        let mut least_used: Vec<_> = of_limit
            .map(|(name, bucket)| (bucket.tokens.full_at(), *name))
            .collect();
        // Under one limit, the one that is full again soonest is the least used, and of equally
        // used ones the oldest.
        least_used.sort_unstable();
        // At most half of it; then the limit that has the most by now.
        let excess = (shard.len() - enough).min(least_used.len().div_ceil(2));
        for (_, name) in least_used.into_iter().take(excess) {
            shard.remove(&name);
        }
    }
}

/// What is hashed here are names, which are hashes.
#[derive(Debug, Default, Clone, Copy)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const MS: Nanos = Nanos::from_millis(1);
    const NOW: Nanos = Nanos::new(7);
    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn rate(count: u32, seconds: u64, burst: u32) -> TokenRate {
        let some = |number| NonZeroU32::new(number).unwrap();
        TokenRate::new(some(count), Duration::from_secs(seconds), some(burst))
    }

    fn allowed(limit: &RateLimiter, key: LimitKey<'_>, now: Nanos, times: usize) -> usize {
        (0..times)
            .filter(|_| limit.ask(key, now) == Decision::Allowed)
            .count()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_limit_holds() {
        let limit = Buckets::new(BUCKETS).limit(rate(20, 1, 40));
        let client = LimitKey::Client(IP);
        assert_eq!(allowed(&limit, client, Nanos::ZERO, 100), 40);
        assert_eq!(
            limit.ask(client, 49 * MS),
            Decision::Refused { retry_after: 1 }
        );
        assert_eq!(allowed(&limit, client, 50 * MS, 100), 1);
        // Half a second earns ten; refused requests have cost nothing.
        assert_eq!(allowed(&limit, client, 550 * MS, 100), 10);
        assert_eq!(allowed(&limit, client, 3600 * SECOND, 100), 40);
    }

    #[test]
    fn figures_count_the_buckets_of_each_limit_until_they_are_forgotten() {
        let buckets = Buckets::new(1_000);
        let one = NonZeroU32::new(1).unwrap();
        let limits =
            [0, 1].map(|_| buckets.limit(TokenRate::new(one, Duration::from_secs(1), one)));
        let client = |last: u8| IpAddr::from([192, 0, 2, last]);
        for last in [1, 1, 2] {
            limits[0].ask(LimitKey::Client(client(last)), NOW);
        }
        limits[1].ask(LimitKey::Route, NOW);
        let figures = |now: Nanos| {
            let [first, second] = &limits;
            let figures = buckets.figures(&[first, second], now);
            figures
                .iter()
                .map(|one| (one.buckets, one.limited, one.refused))
                .collect::<Vec<_>>()
        };
        assert_eq!(figures(NOW), [(2, 2, 1), (1, 1, 0)]);
        assert_eq!(figures(NOW + SECOND), [(2, 0, 1), (1, 0, 0)]);
        assert!(limits[0].forget(client(1)) && !limits[0].forget(client(1)));
        assert_eq!(
            limits[0].ask(LimitKey::Client(client(1)), NOW),
            Decision::Allowed
        );
        assert_eq!((limits[0].clear(), limits[0].clear()), (2, 0));
        assert_eq!(figures(NOW), [(0, 0, 1), (1, 1, 0)]);
    }

    #[test]
    fn retry_after_is_the_time_until_the_next_allowed_request() {
        for (count, seconds, burst, expected) in [
            (1, 1, 1, 1),
            (1, 60, 1, 60),
            (10, 3600, 10, 360),
            (1000, 1, 1, 1),
        ] {
            let limit = Buckets::new(BUCKETS).limit(rate(count, seconds, burst));
            assert_eq!(allowed(&limit, LimitKey::Route, NOW, 100), burst as usize);
            assert_eq!(
                limit.ask(LimitKey::Route, NOW),
                Decision::Refused {
                    retry_after: expected
                }
            );
            assert_eq!(
                limit.ask(LimitKey::Route, NOW + expected * SECOND),
                Decision::Allowed
            );
        }
    }

    #[test]
    fn two_workers_together_allow_exactly_the_burst() {
        let limit = Buckets::new(BUCKETS).limit(rate(1, 3600, 1000));
        let worker = || allowed(&limit, LimitKey::Client(IP), NOW, 5000);
        let both = thread::scope(|scope| {
            let workers = [scope.spawn(worker), scope.spawn(worker)];
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum::<usize>()
        });
        assert_eq!(both, 1000);
    }

    #[test]
    fn a_worker_with_a_slow_clock_gains_no_tokens() {
        let limit = Buckets::new(BUCKETS).limit(rate(1, 1, 2));
        assert_eq!(allowed(&limit, LimitKey::Route, 10 * SECOND, 5), 2);
        assert_eq!(
            limit.ask(LimitKey::Route, 9 * SECOND),
            Decision::Refused { retry_after: 1 }
        );
        assert_eq!(
            limit.ask(LimitKey::Route, Nanos::ZERO),
            Decision::Refused { retry_after: 1 }
        );
        assert_eq!(allowed(&limit, LimitKey::Route, 11 * SECOND, 5), 1);
    }

    #[test]
    fn rate_limits_with_equal_keys_are_separate() {
        let buckets = Buckets::new(BUCKETS);
        let (one, other) = (buckets.limit(rate(1, 60, 3)), buckets.limit(rate(1, 60, 5)));
        for key in [LimitKey::Client(IP), LimitKey::Value(b"x"), LimitKey::Route] {
            assert_eq!(allowed(&one, key, NOW, 10), 3);
            assert_eq!(allowed(&other, key, NOW, 10), 5);
        }
    }

    #[test]
    fn a_header_key_and_a_client_key_are_separate_buckets() {
        let limit = Buckets::new(BUCKETS).limit(rate(1, 60, 1));
        for key in [
            LimitKey::Client(IP),
            LimitKey::Value(&[1, 2, 0, 192]),
            LimitKey::Value(&[192, 0, 2, 1]),
            LimitKey::Value(b""),
            LimitKey::Route,
        ] {
            assert_eq!(allowed(&limit, key, NOW, 2), 1, "{key:?}");
        }
    }

    #[test]
    fn the_rate_limit_key_of_ipv6_is_its_64_prefix() {
        let limit = Buckets::new(BUCKETS).limit(rate(1, 60, 1));
        let ask =
            |ip: &str| limit.ask(LimitKey::Client(ip.parse().unwrap()), NOW) == Decision::Allowed;
        assert!(ask("2001:db8::1") && !ask("2001:db8::ffff:1:2:3") && ask("2001:db8:0:1::1"));
        assert!(ask("192.0.2.9") && !ask("::ffff:192.0.2.9"));
    }

    #[test]
    fn a_flood_of_keys_stays_within_the_bucket_limit() {
        let buckets = Buckets::new(BUCKETS);
        let limit = buckets.limit(rate(1, 3600, 5));
        for number in 0..300_000u32 {
            assert_eq!(
                limit.ask(
                    LimitKey::Value(&number.to_be_bytes()),
                    Nanos::new(number.into())
                ),
                Decision::Allowed
            );
        }
        assert!(
            (BUCKETS / 2..=BUCKETS).contains(&buckets.len()),
            "{}",
            buckets.len()
        );
    }

    #[test]
    fn full_buckets_are_evicted_first() {
        let buckets = Buckets::new(1024);
        let limit = buckets.limit(rate(1, 1, 2));
        let exhausted = LimitKey::Client(IP);
        for number in 0..1000u32 {
            limit.ask(LimitKey::Value(&number.to_be_bytes()), NOW);
        }
        assert_eq!(allowed(&limit, exhausted, SECOND, 3), 2);
        for number in 1000..1200u32 {
            limit.ask(LimitKey::Value(&number.to_be_bytes()), SECOND);
        }
        assert_eq!(allowed(&limit, exhausted, SECOND, 3), 0);
    }

    #[test]
    fn a_flood_of_keys_does_not_refill_an_exhausted_bucket() {
        let buckets = Buckets::new(1024);
        let limit = buckets.limit(rate(10, 3600, 3));
        assert_eq!(allowed(&limit, LimitKey::Client(IP), Nanos::ZERO, 10), 3);
        for number in 0..100_000u32 {
            limit.ask(
                LimitKey::Value(&number.to_be_bytes()),
                Nanos::new(number.into()),
            );
        }
        assert_eq!(
            allowed(&limit, LimitKey::Client(IP), Nanos::new(100_000), 10),
            0
        );
        assert!(buckets.len() <= 1024);
    }

    #[test]
    fn a_flood_under_one_rate_limit_spares_buckets_of_another() {
        // Of a hundred clients no shard may have more than half of its room, wherever their names
        // fall.
        let buckets = Buckets::new(64 * 256);
        let (fast, slow) = (
            buckets.limit(rate(20, 1, 2)),
            buckets.limit(rate(1, 3600, 1)),
        );
        // The buckets of the fast limit would all be full again long before any of the slow one.
        let clients: Vec<_> = (0..100u8)
            .map(|last| IpAddr::from([198, 51, 100, last]))
            .collect();
        for &client in &clients {
            assert_eq!(allowed(&fast, LimitKey::Client(client), Nanos::ZERO, 5), 2);
        }
        for number in 0..100_000u32 {
            slow.ask(LimitKey::Value(&number.to_be_bytes()), Nanos::new(1));
        }
        assert!(clients.iter().all(|&client| allowed(
            &fast,
            LimitKey::Client(client),
            Nanos::new(2),
            5
        ) == 0));
    }

    #[test]
    fn extreme_rates_and_times_do_not_overflow() {
        let most = NonZeroU32::MAX;
        let fast = Buckets::new(BUCKETS).limit(TokenRate::new(most, Duration::from_nanos(1), most));
        assert_eq!(fast.ask(LimitKey::Route, Nanos::MAX), Decision::Allowed);
        let slow =
            Buckets::new(BUCKETS).limit(TokenRate::new(NonZeroU32::MIN, Duration::MAX, most));
        assert_eq!(slow.ask(LimitKey::Route, Nanos::MAX), Decision::Allowed);
        assert_eq!(slow.ask(LimitKey::Route, Nanos::ZERO), Decision::Allowed);
    }
}
