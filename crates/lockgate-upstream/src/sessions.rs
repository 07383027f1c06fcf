//! The member of each TLS session, by the session's identifier (RFC 5246 §7.4.1.2), as HAProxy
//! keeps it by `stick store-response payload_lv(43,1)`. A table of fixed size, shared by the
//! workers without a lock.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use lockgate_limits::MemberIndex;
use lockgate_net::client_hello::HelloVersion;
use lockgate_net::millis::Millis;
use lockgate_net::server_hello::{self, SERVER_HELLO_MAX, ServerHello};

/// The most sessions, in half a megabyte.
const SLOTS: usize = 65_536;
/// Entries that a session may use. Where all are taken, it replaces the session that was made or
/// resumed longest ago.
const WAYS: usize = 8;
/// RFC 5246 §F.1.4 suggests that no session is kept for longer than a day.
const LIFETIME: u64 = 24 * 60;

/// The table of sessions. Each is a word: 28 bits of its hash, 12 of its member's index, and in 24
/// the minute in which it was made or resumed, plus one: 0 is an empty entry. Two sessions of one
/// hash would share a member, as good for the second as any.
pub struct Sessions {
    slots: Box<[AtomicU64]>,
    /// A secret key: clients cannot choose which entry an identifier replaces.
    key: RandomState,
}

const MEMBER_BITS: u32 = 12;
const MINUTE_BITS: u32 = 24;

impl Default for Sessions {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            key: RandomState::new(),
        }
    }
}

impl Sessions {
    /// An empty table that can take over the sessions of this one.
    pub fn successor(&self) -> Self {
        Self {
            key: self.key.clone(),
            ..Self::default()
        }
    }

    /// Takes over the sessions of the table that it is the successor of; `place` has the index of
    /// each member, which may have moved or left.
    pub(super) fn succeed(
        &self,
        earlier: &Self,
        place: impl Fn(MemberIndex) -> Option<MemberIndex>,
    ) {
        for (own, theirs) in self.slots.iter().zip(&earlier.slots) {
            let entry = SessionEntry::load(theirs);
            let before = usize::try_from(entry.member).ok().map(MemberIndex::new);
            let member = before
                .filter(|_| entry.minute > 0)
                .and_then(&place)
                .and_then(member_bits);
            if let Some(member) = member {
                let word = SessionEntry { member, ..entry }.word();
                own.store(word, Ordering::Relaxed);
            }
        }
    }

    /// The member that has made a session. `now` is [`lockgate_limits::clock::Clock::now`].
    pub fn find(&self, session: &[u8], now: Millis) -> Option<MemberIndex> {
        if session.is_empty() {
            return None;
        }
        let (ways, tag) = self.ways(session);
        let found = ways
            .iter()
            .map(SessionEntry::load)
            .find(|slot| slot.tag == tag && slot.is_alive(now))?;
        usize::try_from(found.member).ok().map(MemberIndex::new)
    }

    /// Notes that a member has made or resumed a session.
    pub fn learn(&self, session: &[u8], member: MemberIndex, now: Millis) {
        let (Some(member), false) = (member_bits(member), session.is_empty()) else {
            return;
        };
        let (ways, tag) = self.ways(session);
        // Its own entry first, then an empty one or the oldest.
        let age = |way: &&AtomicU64| {
            let slot = SessionEntry::load(way);
            (slot.tag != tag || slot.minute == 0, slot.minute)
        };
        if let Some(way) = ways.iter().min_by_key(age) {
            // Another worker may take it at the same time: one of the two sessions is lost.
            way.store(
                SessionEntry {
                    tag,
                    member,
                    minute: minute(now),
                }
                .word(),
                Ordering::Relaxed,
            );
        }
    }

    fn ways(&self, session: &[u8]) -> (&[AtomicU64], u64) {
        let hash = self.key.hash_one(session);
        let first = (hash as usize % (SLOTS / WAYS)) * WAYS;
        (
            self.slots.get(first..first + WAYS).unwrap_or_default(),
            hash >> (MEMBER_BITS + MINUTE_BITS),
        )
    }
}

/// The first bytes of a server, up to the ServerHello, from which the session's identifier is read.
#[derive(Debug, Default)]
pub struct SessionIdReader(Vec<u8>);

impl SessionIdReader {
    /// The session's identifier after further `bytes`, empty if the session cannot be resumed by
    /// it; `None` while the ServerHello is incomplete.
    ///
    /// An identifier that the client has offered counts too: the endpoint confirms by it that it
    /// has that session. That holds for tickets as well (RFC 5077 §3.4), for which many clients use
    /// the same identifier each time.
    pub fn session(&mut self, bytes: &[u8]) -> Option<Box<[u8]>> {
        let room = SERVER_HELLO_MAX.saturating_sub(self.0.len());
        self.0.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        match server_hello::peek(&self.0) {
            Ok(None) => None,
            // RFC 8446 §4.1.3: in TLS 1.3, and so in a HelloRetryRequest, it is only an echo.
            Ok(Some(ServerHello {
                version: HelloVersion::Tls13,
                ..
            }))
            | Err(_) => Some(Box::default()),
            Ok(Some(hello)) => Some(hello.session_id),
        }
    }
}

/// An entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SessionEntry {
    tag: u64,
    member: u64,
    minute: u64,
}

impl SessionEntry {
    fn load(word: &AtomicU64) -> Self {
        let word = word.load(Ordering::Relaxed);
        let (member, minute) = (word >> MINUTE_BITS, word);
        Self {
            tag: word >> (MEMBER_BITS + MINUTE_BITS),
            member: member & ((1 << MEMBER_BITS) - 1),
            minute: minute & ((1 << MINUTE_BITS) - 1),
        }
    }

    fn word(self) -> u64 {
        (self.tag << MEMBER_BITS | self.member) << MINUTE_BITS | self.minute
    }

    fn is_alive(self, now: Millis) -> bool {
        self.minute > 0 && minute(now).saturating_sub(self.minute) < LIFETIME
    }
}

/// A member's index, if an entry has room for it.
fn member_bits(member: MemberIndex) -> Option<u64> {
    let member = u64::try_from(member.get()).ok();
    member.filter(|member| member >> MEMBER_BITS == 0)
}

/// The minute of a time, plus one; after 31 years it stays at its maximum.
fn minute(now: Millis) -> u64 {
    (now.as_u64() / 60_000 + 1).min((1 << MINUTE_BITS) - 1)
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn id(number: usize) -> Vec<u8> {
        number.to_be_bytes().repeat(4)
    }

    #[test]
    fn a_tls_session_is_remembered_for_a_day() {
        let sessions = Sessions::default();
        assert_eq!(sessions.find(&id(1), Millis::ZERO), None);
        sessions.learn(&id(1), MemberIndex::new(3), Millis::ZERO);
        sessions.learn(&id(2), MemberIndex::new(0), Millis::ZERO);
        for (now, found) in [
            (0, Some(3)),
            (LIFETIME * MINUTE - 1, Some(3)),
            (LIFETIME * MINUTE, None),
        ] {
            assert_eq!(
                sessions.find(&id(1), Millis::new(now)),
                found.map(MemberIndex::new),
                "{now}"
            );
        }
        assert_eq!(
            (
                sessions.find(&id(2), Millis::ZERO),
                sessions.find(&id(3), Millis::ZERO)
            ),
            (Some(MemberIndex::new(0)), None)
        );
        // Resumed by another member: endpoints may share their sessions.
        sessions.learn(&id(1), MemberIndex::new(4), Millis::new(60 * MINUTE));
        assert_eq!(
            sessions.find(&id(1), Millis::new(LIFETIME * MINUTE)),
            Some(MemberIndex::new(4))
        );
        assert_eq!(
            sessions.find(&id(1), Millis::new((60 + LIFETIME) * MINUTE)),
            None
        );
    }

    #[test]
    fn session_ids_of_every_length_are_distinguished() {
        let sessions = Sessions::default();
        (1..=32).for_each(|len| sessions.learn(&vec![7; len], MemberIndex::new(len), Millis::ZERO));
        for len in 1..=32 {
            assert_eq!(
                sessions.find(&vec![7; len], Millis::ZERO),
                Some(MemberIndex::new(len))
            );
        }
        sessions.learn(&[], MemberIndex::new(1), Millis::ZERO);
        assert_eq!(sessions.find(&[], Millis::ZERO), None);
    }

    #[test]
    fn a_member_index_too_large_for_a_slot_is_dropped() {
        let sessions = Sessions::default();
        let last = (1 << MEMBER_BITS) - 1;
        for (member, found) in [(last, Some(last)), (last + 1, None), (usize::MAX, None)] {
            sessions.learn(&id(member), MemberIndex::new(member), Millis::ZERO);
            assert_eq!(
                sessions.find(&id(member), Millis::ZERO),
                found.map(MemberIndex::new)
            );
        }
        assert_eq!(
            SessionEntry::load(&AtomicU64::new(u64::MAX)).word(),
            u64::MAX
        );
        // 31 years.
        let late = (1 << MINUTE_BITS) * MINUTE;
        sessions.learn(&id(1), MemberIndex::new(1), Millis::new(late));
        assert_eq!(
            sessions.find(&id(1), Millis::new(late + 1)),
            Some(MemberIndex::new(1))
        );
    }

    #[test]
    fn the_session_table_keeps_the_newest_in_constant_memory() {
        let sessions = Sessions::default();
        let all = 10 * SLOTS;
        let at = |number: usize| (number * 16 / SLOTS) as u64 * MINUTE;
        for number in 0..all {
            sessions.learn(
                &id(number),
                MemberIndex::new(number % 7),
                Millis::new(at(number)),
            );
        }
        let kept = |of: std::ops::Range<usize>| {
            of.filter(|number| {
                sessions.find(&id(*number), Millis::new(at(all)))
                    == Some(MemberIndex::new(number % 7))
            })
            .count()
        };
        // A set has eight ways: where it gets more of the newest, some are evicted before their
        // time.
        let newest = kept(all - SLOTS / 2..all);
        assert!(newest > SLOTS / 2 * 95 / 100, "{newest}");
        let oldest = kept(0..all - 3 * SLOTS);
        assert!(oldest < 20, "{oldest}");
        // A repeated session takes no slot but its own.
        (0..1_000)
            .for_each(|_| sessions.learn(&id(all), MemberIndex::new(1), Millis::new(at(all))));
        assert!(kept(all - SLOTS / 2..all) + 1 >= newest);
        assert_eq!(sessions.slots.len(), SLOTS);
    }

    #[test]
    fn a_session_id_is_read_from_a_fragmented_server_hello() {
        let hello = |extensions: &[u8]| {
            let body = [
                &[3, 3][..],
                &[7; 32],
                &[4, 1, 2, 3, 4],
                &[0xC0, 0x2F, 0],
                extensions,
            ]
            .concat();
            [
                &[22, 3, 3, 0, body.len() as u8 + 4, 2, 0, 0, body.len() as u8][..],
                &body,
            ]
            .concat()
        };
        let (tls12, tls13) = (hello(&[]), hello(&[0, 6, 0, 43, 0, 2, 3, 4]));
        let answered = |bytes: &[u8], size: usize| {
            let mut reader = SessionIdReader::default();
            bytes
                .chunks(size)
                .find_map(|piece| reader.session(piece))
                .map(Vec::from)
        };
        for size in 1..=tls13.len() {
            assert_eq!(answered(&tls12, size), Some(vec![1, 2, 3, 4]), "{size}");
            assert_eq!(answered(&tls12[..tls12.len() - 1], size), None);
            // RFC 8446 §4.1.3
            assert_eq!(answered(&tls13, size), Some(vec![]), "{size}");
            assert_eq!(answered(b"HTTP/1.1 400 Bad Request", size), Some(vec![]));
        }
        // A hello that never ends is abandoned, and no more of it is held than the limit.
        let (mut reader, endless) = (
            SessionIdReader::default(),
            [22, 3, 3, 0, 1, 2, 22, 3, 3, 0x40, 0, 0, 0x0F, 0xFF],
        );
        assert_eq!(reader.session(&endless), None);
        let pieces = (0..)
            .take_while(|_| reader.session(&[0; 1_000]).is_none())
            .count();
        assert!(pieces < 5 && reader.0.len() <= SERVER_HELLO_MAX, "{pieces}");
    }
}
