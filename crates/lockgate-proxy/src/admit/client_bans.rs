//! Clients that an operator has banned for a while: addresses and networks, in a bounded table.
//!
//! Without a ban a look-up is one load; with bans it is one look-up in a table for each length of
//! prefix that is banned.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use lockgate_net::millis::Millis;
use lockgate_rules::Cidr;

/// The most bans at once.
pub const MOST_BANS: usize = 10_000;

/// The banned clients of the process.
#[derive(Debug, Default)]
pub struct ClientBans {
    /// The end of the last ban; 0 without one.
    last: AtomicU64,
    table: ArcSwap<BanTable>,
}

/// A ban.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    /// When it ends.
    pub until: Millis,
    /// Why, in the words of the operator.
    pub reason: Arc<str>,
}

/// The error of a ban that there is no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyBans;

#[derive(Debug, Clone, Default)]
struct BanTable {
    bans: HashMap<Cidr, Ban>,
    /// The lengths of the banned prefixes, each once.
    prefixes: Vec<u8>,
}

impl ClientBans {
    /// Whether the client is banned. `now` is [`lockgate_limits::clock::Clock::now`], here and
    /// below.
    #[inline]
    pub fn has(&self, client: IpAddr, now: Millis) -> bool {
        self.last.load(Ordering::Relaxed) > now.as_u64() && self.table.load().has(client, now)
    }

    /// Bans a network; an earlier ban of the same network gives way. Only one thread at a time may
    /// change the table.
    ///
    /// # Errors
    /// When there are [`MOST_BANS`] that have not ended.
    pub fn ban(&self, network: Cidr, ban: Ban, now: Millis) -> Result<(), TooManyBans> {
        let mut table = self.alive(now);
        if table.bans.len() >= MOST_BANS && !table.bans.contains_key(&network) {
            return Err(TooManyBans);
        }
        table.bans.insert(network, ban);
        self.replace(table);
        Ok(())
    }

    /// Takes over the bans of an earlier process, before any other.
    pub fn take_over(&self, bans: impl IntoIterator<Item = (Cidr, Ban)>) {
        let bans = bans.into_iter().take(MOST_BANS).collect();
        self.replace(BanTable {
            bans,
            prefixes: Vec::new(),
        });
    }

    /// Ends the ban of a network; returns whether there was one.
    pub fn unban(&self, network: Cidr, now: Millis) -> bool {
        let mut table = self.alive(now);
        let was_banned = table.bans.remove(&network).is_some();
        self.replace(table);
        was_banned
    }

    /// The bans that have not ended, the first to end first.
    pub fn list(&self, now: Millis) -> Vec<(Cidr, Ban)> {
        let mut bans: Vec<_> = self.alive(now).bans.into_iter().collect();
        bans.sort_by_key(|(network, ban)| (ban.until, network.addr(), network.prefix()));
        bans
    }

    /// A copy of the table without those that have ended.
    fn alive(&self, now: Millis) -> BanTable {
        let mut table = BanTable::clone(&self.table.load());
        table.bans.retain(|_, ban| ban.until > now);
        table
    }

    fn replace(&self, mut table: BanTable) {
        let mut prefixes: Vec<_> = table.bans.keys().map(Cidr::prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        table.prefixes = prefixes;
        let last = table.bans.values().map(|ban| ban.until.as_u64()).max();
        self.table.store(Arc::new(table));
        self.last.store(last.unwrap_or(0), Ordering::Relaxed);
    }
}

impl BanTable {
    fn has(&self, client: IpAddr, now: Millis) -> bool {
        let client = client.to_canonical();
        let mut networks = self.prefixes.iter().map(|prefix| Cidr::of(client, *prefix));
        networks.any(|network| self.bans.get(&network).is_some_and(|ban| ban.until > now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    fn until(millis: u64) -> Ban {
        Ban {
            until: Millis::new(millis),
            reason: "".into(),
        }
    }

    #[test]
    fn a_ban_holds_for_its_network_until_it_ends() {
        let bans = ClientBans::default();
        let has = |client: &str, now| bans.has(client.parse().unwrap(), Millis::new(now));
        assert!(!has("192.0.2.1", 0));
        for (banned, end) in [
            ("192.0.2.1", 100),
            ("198.51.100.0/24", 200),
            ("2001:db8::/64", 300),
        ] {
            bans.ban(network(banned), until(end), Millis::ZERO).unwrap();
        }
        for (client, end) in [
            ("192.0.2.1", 100),
            ("::ffff:192.0.2.1", 100),
            ("198.51.100.77", 200),
            ("2001:db8::77", 300),
            ("192.0.2.2", 0),
            ("198.51.101.1", 0),
            ("2001:db8:0:1::", 0),
        ] {
            assert!(!has(client, end), "{client}");
            assert!(end == 0 || has(client, end - 1), "{client}");
        }
        let now = Millis::new(150);
        let listed: Vec<_> = bans.list(now).into_iter().map(|(one, _)| one).collect();
        assert_eq!(
            listed,
            [network("198.51.100.0/24"), network("2001:db8::/64")]
        );
        assert!(bans.unban(network("2001:db8::/64"), now));
        assert!(!bans.unban(network("2001:db8::/64"), now));
        assert!(!has("2001:db8::77", 150) && has("198.51.100.77", 150));
    }

    #[test]
    fn a_full_table_takes_another_ban_once_one_has_ended() {
        let bans = ClientBans::default();
        let address = |number: usize| Cidr::of(IpAddr::from((number as u32).to_be_bytes()), 32);
        let all = 0..MOST_BANS;
        bans.take_over(all.map(|number| (address(number), until(100 + number as u64))));
        let more = |now| bans.ban(address(MOST_BANS), until(1_000_000), Millis::new(now));
        assert_eq!(more(99), Err(TooManyBans));
        // The same network takes no more room.
        let again = bans.ban(address(7), until(1_000_000), Millis::new(99));
        assert_eq!(again, Ok(()));
        assert_eq!(more(100), Ok(()));
    }
}
