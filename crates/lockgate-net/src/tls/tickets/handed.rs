//! Random ticket keys on their way to the process that takes this one's place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::key::TicketKey;
use super::{TicketKeySource, TicketKeys, TicketRing};

/// The keys of a ring that rotates. They are secret: never written to a file.
pub struct HandedKeys {
    /// The time between two keys.
    pub rotate: Duration,
    /// The most keys that open tickets.
    pub keep: usize,
    /// The age of the first key.
    pub age: Duration,
    /// The keys, the newest first.
    pub keys: Vec<Vec<u8>>,
}

impl TicketRing {
    /// Its keys for another process; none where they are those of a file.
    pub fn hand_over(&self, now: Instant) -> Option<HandedKeys> {
        let TicketKeySource::Rotating { rotate, keep } = self.source else {
            return None;
        };
        let keys = self.keys.load();
        Some(HandedKeys {
            rotate,
            keep,
            age: now.saturating_duration_since(keys.since),
            keys: keys.ring.iter().map(|key| key.bytes()).collect(),
        })
    }

    /// Takes the keys over, so that tickets of the other process stay valid; nothing where the
    /// settings of this ring are others, or a key is none.
    pub fn take_over(&self, handed: &HandedKeys, now: Instant) {
        let (rotate, keep) = (handed.rotate, handed.keep);
        let is_of_ring = matches!(self.source, TicketKeySource::Rotating { rotate: own, keep: most }
            if own == rotate && most == keep);
        let keys = handed.keys.iter().take(keep);
        let ring: Option<Vec<_>> = keys
            .map(|bytes| TicketKey::of_bytes(bytes).map(Arc::new))
            .collect();
        if let Some(ring) = ring.filter(|ring| is_of_ring && !ring.is_empty()) {
            self.keys.store(Arc::new(TicketKeys {
                ring,
                since: now.checked_sub(handed.age).unwrap_or(now),
                read: None,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KeyRotation, TicketScope};
    use super::*;

    const HERE: TicketScope = [1; 32];
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn tickets_stay_valid_in_the_process_that_takes_over() {
        let start = Instant::now();
        let before = TicketRing::rotating(HOUR, 2, start).unwrap();
        let first = before.seal(b"first", &HERE, 0).unwrap();
        before.rotate_if_due(start + HOUR).unwrap();
        let second = before.seal(b"second", &HERE, 0).unwrap();
        let now = start + HOUR + HOUR / 2;
        let handed = before.hand_over(now).unwrap();

        let after = TicketRing::rotating(HOUR, 2, now).unwrap();
        after.take_over(&handed, now);
        assert_eq!(after.open(&first, &HERE, 0).as_deref(), Some(&b"first"[..]));
        assert_eq!(
            after.open(&second, &HERE, 0).as_deref(),
            Some(&b"second"[..])
        );
        let theirs = after.seal(b"after", &HERE, 0).unwrap();
        assert!(before.open(&theirs, &HERE, 0).is_some());
        // The age of the key goes on.
        assert_eq!(
            after.rotate_if_due(start + 2 * HOUR),
            Ok(KeyRotation::Rotated)
        );

        let other = TicketRing::rotating(HOUR, 3, now).unwrap();
        other.take_over(&handed, now);
        assert!(other.open(&second, &HERE, 0).is_none());
    }

    #[test]
    fn bytes_that_are_no_key_change_nothing() {
        let now = Instant::now();
        let ring = TicketRing::rotating(HOUR, 2, now).unwrap();
        let ticket = ring.seal(b"state", &HERE, 0).unwrap();
        for keys in [vec![], vec![vec![0; 47]], vec![vec![0; 48], vec![]]] {
            let handed = HandedKeys {
                rotate: HOUR,
                keep: 2,
                age: Duration::ZERO,
                keys,
            };
            ring.take_over(&handed, now);
            assert!(ring.open(&ticket, &HERE, 0).is_some());
        }
    }
}
