//! Passwords that were right a while ago, so that a client that sends one with each request costs a
//! microsecond.
//!
//! The cache holds no password but an HMAC over user, password and stored hash, under a key of this
//! process that is never written anywhere: a reader of the table can test no guess with it. A
//! changed file changes the stored hash, and so invalidates the entry. Knows no clock.

use std::collections::HashMap;
use std::hash::BuildHasher;

use arc_swap::ArcSwap;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::{constant_time, hmac};
use foldhash::fast::RandomState;
use lockgate_net::millis::Millis;

use super::password_hash::PasswordHash;

/// Right passwords that are remembered. Written by the threads that check, 1 ms of copying at this
/// size beside the 10 ms and more that a check takes.
const SIZE: usize = 16_384;
/// The time for which an entry is valid: the password of an active user is checked six times in
/// an hour.
const KEPT: Millis = Millis::from_secs(600);

/// Stands for one user with one password, checked against one stored hash.
pub(super) type Seal = [u8; 32];

/// The table. Workers read it without a lock; a writer replaces it.
pub(super) struct CredentialCache {
    secret: hmac::Key,
    names: RandomState,
    table: ArcSwap<SealTable>,
}

/// By the first eight bytes of the seal. A look-up need not take constant time: no one else can
/// compute the seals.
type SealTable = HashMap<u64, SealEntry, RandomState>;

#[derive(Clone, Copy)]
struct SealEntry {
    seal: Seal,
    until: Millis,
}

impl CredentialCache {
    pub(super) fn new() -> Self {
        let secret = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .expect("the kernel's random numbers never fail once it has started");
        Self {
            secret,
            names: RandomState::default(),
            table: ArcSwap::default(),
        }
    }

    pub(super) fn seal(&self, user: &str, password: &str, hash: &PasswordHash) -> Seal {
        let mut context = hmac::Context::with_key(&self.secret);
        // Lengths go first, so that no two triples are the same bytes.
        for part in [user.as_bytes(), password.as_bytes(), hash.as_bytes()] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut seal = Seal::default();
        seal.copy_from_slice(context.sign().as_ref());
        seal
    }

    /// A number for an unknown name: always the same one in this process, another one in the next.
    pub(super) fn number(&self, user: &str) -> u64 {
        self.names.hash_one(user)
    }

    /// Whether what `seal` stands for was right not long before `now`.
    pub(super) fn has(&self, seal: &Seal, now: Millis) -> bool {
        let table = self.table.load();
        let entry = table.get(&short(seal));
        entry.is_some_and(|entry| {
            now < entry.until && constant_time::verify_slices_are_equal(&entry.seal, seal).is_ok()
        })
    }

    /// Records that the credentials of `seal` were right at `now`.
    pub(super) fn insert(&self, seal: Seal, now: Millis) {
        self.table.rcu(|table| {
            let mut table = SealTable::clone(table);
            if table.len() >= SIZE {
                make_room(&mut table, now);
            }
            table.insert(
                short(&seal),
                SealEntry {
                    seal,
                    until: now + KEPT,
                },
            );
            table
        });
    }
}

/// Forgets what is over, and the oldest eighth if that is not enough.
fn make_room(table: &mut SealTable, now: Millis) {
    table.retain(|_, entry| now < entry.until);
    if table.len() < SIZE {
        return;
    }
    let mut ends: Vec<_> = table
        .iter()
        .map(|(&key, entry)| (entry.until, key))
        .collect();
    ends.sort_unstable();
    for (_, key) in ends.iter().take(SIZE / 8) {
        table.remove(key);
    }
}

fn short(seal: &[u8]) -> u64 {
    seal.first_chunk()
        .map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(last: char) -> PasswordHash {
        let text = "$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1";
        PasswordHash::parse(&format!("{text}{last}")).unwrap()
    }

    #[test]
    fn a_credential_digest_differs_when_any_part_differs() {
        let remembered = CredentialCache::new();
        let seal = remembered.seal("user", "password", &hash('m'));
        assert_eq!(remembered.seal("user", "password", &hash('m')), seal);
        let others = [
            remembered.seal("use", "rpassword", &hash('m')),
            remembered.seal("user", "passwor", &hash('m')),
            remembered.seal("user", "password", &hash('e')),
            CredentialCache::new().seal("user", "password", &hash('m')),
        ];
        assert!(!others.contains(&seal));
    }

    #[test]
    fn a_cached_credential_is_valid_for_ten_minutes() {
        let remembered = CredentialCache::new();
        let (right, wrong) = ([1; 32], [2; 32]);
        remembered.insert(right, Millis::new(5));
        assert!(
            remembered.has(&right, Millis::new(5))
                && remembered.has(&right, Millis::new(600_004))
                && !remembered.has(&right, Millis::new(600_005))
        );
        assert!(!remembered.has(&wrong, Millis::new(5)));
        // The same slot of the table is not the same seal.
        let mut near = right;
        near[31] = 7;
        assert!(!remembered.has(&near, Millis::new(5)));
    }

    #[test]
    fn a_full_credential_cache_evicts_the_oldest() {
        let remembered = CredentialCache::new();
        let seal = |number: u64| {
            let mut seal = [0; 32];
            seal[..8].copy_from_slice(&number.to_le_bytes());
            seal
        };
        let mut full = SealTable::default();
        for number in 0..SIZE as u64 {
            full.insert(
                number,
                SealEntry {
                    seal: seal(number),
                    until: Millis::new(1000 + number),
                },
            );
        }
        remembered.table.store(full.into());
        remembered.insert(seal(u64::MAX), Millis::new(1));
        assert_eq!(remembered.table.load().len(), SIZE - SIZE / 8 + 1);
        assert!(
            remembered.has(&seal(u64::MAX), Millis::new(1))
                && remembered.has(&seal(SIZE as u64 - 1), Millis::new(1))
        );
        assert!(!remembered.has(&seal(0), Millis::new(1)));
    }
}
