//! Session tickets (RFC 5077, RFC 8446 §4.6.1): one key ring for the whole process.
//!
//! They serve TLS 1.2 and 1.3 alike and are the only way to resume: no session is kept in memory. A
//! ticket is valid for [`TicketRing::lifetime`] and only within its scope: a listener with other
//! rules for client certificates, or with other names, cannot open it.
//!
//! A ticket: key name (16) · nonce (12) · AES-256-GCM(issued (8, seconds since 1970) · state) · tag
//! (16), with the scope as associated data. Nonces are random: keep to fewer than 2^32 tickets a
//! key (NIST SP 800-38D §8.3), which a site with 10,000 handshakes a second reaches in 2.5 days.

mod handed;
mod key;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use aws_lc_rs::digest;
use rustls::server::ProducesTickets;

use super::error::Warning;
use super::file_stamp::{FileStamp, stamp};
use super::private_key::readable_by_others;
use key::{KEY_NAME, TicketKey, read_keys};

pub use handed::HandedKeys;
pub use key::TicketError;

/// Whether [`TicketRing::rotate_if_due`] has rotated the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRotation {
    /// The current key is young enough.
    NotDue,
    /// A new key encrypts; the oldest is gone if there were too many.
    Rotated,
}

/// Whether [`TicketRing::reload`] has read keys.
#[derive(Debug, PartialEq, Eq)]
pub enum KeysReloaded {
    /// The keys are random: there is no file.
    NoFile,
    /// The file has not changed.
    Unchanged,
    /// The file was read; its keys make and open tickets from now on.
    Read(Vec<Warning>),
}

/// The ticket keys, shared by all workers and listeners.
pub struct TicketRing {
    source: TicketKeySource,
    lifetime: Duration,
    keys: ArcSwap<TicketKeys>,
}

enum TicketKeySource {
    Rotating { rotate: Duration, keep: usize },
    File(PathBuf),
}

/// The keys for handshakes; never changed, only replaced.
struct TicketKeys {
    /// The first encrypts, all decrypt.
    ring: Vec<Arc<TicketKey>>,
    since: Instant,
    /// The stamp of their file when it was read.
    read: Option<FileStamp>,
}

/// The scope of a ticket: SHA-256 over all settings that must be equal to resume.
pub(super) type TicketScope = [u8; 32];

impl TicketRing {
    /// Random keys: a new one every `rotate`, of which the newest `keep` open tickets. A ticket is
    /// valid for `rotate` × `keep`, at most 7 days (RFC 8446 §4.6.1). A restart forgets the keys.
    ///
    /// # Errors
    /// A zero, or no randomness.
    pub fn rotating(rotate: Duration, keep: usize, now: Instant) -> Result<Arc<Self>, TicketError> {
        if rotate.is_zero() || keep == 0 {
            return Err(TicketError::Zero);
        }
        let keys = TicketKeys {
            ring: vec![Arc::new(TicketKey::random()?)],
            since: now,
            read: None,
        };
        let lifetime = rotate
            .saturating_mul(u32::try_from(keep).unwrap_or(u32::MAX))
            .min(MAX_LIFETIME);
        Ok(Arc::new(Self {
            source: TicketKeySource::Rotating { rotate, keep },
            lifetime,
            keys: ArcSwap::from_pointee(keys),
        }))
    }

    /// Keys from a file, so that tickets outlive a restart and are valid on every machine that has
    /// it.
    ///
    /// One key a line, 48 or 80 bytes in base64 or hexadecimal (`openssl rand -base64 48`); the
    /// first encrypts, all decrypt; empty lines and lines from `#` on are skipped. A file of
    /// exactly 48 or 80 bytes is one raw key, as nginx reads it. The first 16 bytes are the key's
    /// name, which is public; the key proper is derived from the rest. To rotate: put a new line
    /// first, reload everywhere, later drop the last one. A ticket is valid for a day.
    ///
    /// # Errors
    /// The file cannot be read, has no key, or an invalid line.
    pub fn from_file(path: &Path, now: Instant) -> Result<(Arc<Self>, Vec<Warning>), TicketError> {
        // Before reading, so that a change in between is noticed later.
        let read = stamp(path).ok();
        let keys = TicketKeys {
            ring: read_keys(path)?,
            since: now,
            read,
        };
        let warnings = readable_by_others(path).into_iter().collect();
        let source = TicketKeySource::File(path.to_owned());
        let ring = Self {
            source,
            lifetime: FILE_LIFETIME,
            keys: ArcSwap::from_pointee(keys),
        };
        Ok((Arc::new(ring), warnings))
    }

    /// The lifetime of a ticket.
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// The key file, for watching.
    pub fn file(&self) -> Option<&Path> {
        match &self.source {
            TicketKeySource::Rotating { .. } => None,
            TicketKeySource::File(path) => Some(path),
        }
    }

    /// Adds a new random key in front if the current one is old enough. Keys from a file are never
    /// due.
    ///
    /// # Errors
    /// No randomness; the current keys stay.
    pub fn rotate_if_due(&self, now: Instant) -> Result<KeyRotation, TicketError> {
        let TicketKeySource::Rotating { rotate, keep } = self.source else {
            return Ok(KeyRotation::NotDue);
        };
        let before = self.keys.load();
        if now.saturating_duration_since(before.since) < rotate {
            return Ok(KeyRotation::NotDue);
        }
        let mut ring = vec![Arc::new(TicketKey::random()?)];
        ring.extend(before.ring.iter().take(keep - 1).cloned());
        // Of two concurrent callers only one rotates.
        let after = Arc::new(TicketKeys {
            ring,
            since: now,
            read: None,
        });
        let found = self.keys.compare_and_swap(&*before, after);
        Ok(if Arc::ptr_eq(&found, &before) {
            KeyRotation::Rotated
        } else {
            KeyRotation::NotDue
        })
    }

    /// Reloads the key file if it has changed.
    ///
    /// # Errors
    /// Those of [`TicketRing::from_file`]; the current keys stay.
    pub fn reload(&self) -> Result<KeysReloaded, TicketError> {
        let TicketKeySource::File(path) = &self.source else {
            return Ok(KeysReloaded::NoFile);
        };
        let (before, read) = (self.keys.load(), stamp(path).ok());
        if read.is_some() && read == before.read {
            return Ok(KeysReloaded::Unchanged);
        }
        let ring = read_keys(path)?;
        self.keys.store(Arc::new(TicketKeys {
            ring,
            since: before.since,
            read,
        }));
        Ok(KeysReloaded::Read(
            readable_by_others(path).into_iter().collect(),
        ))
    }

    pub(super) fn for_scope(self: &Arc<Self>, scope: TicketScope) -> Arc<dyn ProducesTickets> {
        Arc::new(ScopedTickets {
            ring: self.clone(),
            scope,
        })
    }

    fn seal(&self, state: &[u8], scope: &TicketScope, now: u64) -> Option<Vec<u8>> {
        let keys = self.keys.load();
        let key = keys.ring.first()?;
        let mut ticket = Vec::with_capacity(HEAD + ISSUED + state.len() + TAG);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&[0; NONCE_LEN]);
        ticket.extend_from_slice(&now.to_be_bytes());
        ticket.extend_from_slice(state);
        let (head, body) = ticket.split_at_mut(HEAD);
        let (nonce, tag) = key
            .aead
            .seal_in_place_separate_tag(Aad::from(scope), body)
            .ok()?;
        head[KEY_NAME..].copy_from_slice(nonce.as_ref());
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], scope: &TicketScope, now: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<KEY_NAME>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.keys.load();
        let key = keys.ring.iter().find(|key| key.name == *name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key
            .aead
            .open_in_place(nonce, Aad::from(scope), &mut sealed)
            .ok()?;
        let (issued, state) = plain.split_first_chunk::<ISSUED>()?;
        let age = now.saturating_sub(u64::from_be_bytes(*issued));
        (age <= self.lifetime.as_secs()).then(|| state.to_vec())
    }
}

impl fmt::Debug for TicketRing {
    /// Hides the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketRing")
            .field("file", &self.file())
            .field("lifetime", &self.lifetime)
            .finish()
    }
}

/// The ring within the scope of one listener.
#[derive(Debug)]
struct ScopedTickets {
    ring: Arc<TicketRing>,
    scope: TicketScope,
}

impl ProducesTickets for ScopedTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.ring.lifetime.as_secs()).expect("7 days at most")
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.ring.seal(plain, &self.scope, now_in_seconds())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.ring.open(cipher, &self.scope, now_in_seconds())
    }
}

/// The scope of a listener, from all settings that must be equal wherever its tickets are valid.
///
/// Lengths are hashed too, so that no two lists of parts have the same hash.
pub(super) fn scope<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> TicketScope {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(b"lockgate ticket scope 1");
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finish()
        .as_ref()
        .try_into()
        .expect("SHA-256 has 32 bytes")
}

fn now_in_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

const HEAD: usize = KEY_NAME + NONCE_LEN;
const ISSUED: usize = 8;
const TAG: usize = 16;
const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const FILE_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::key::parse_keys;
    use super::*;
    use crate::tls::error::CertError;

    const HERE: TicketScope = [1; 32];
    const THERE: TicketScope = [2; 32];
    const HOUR: Duration = Duration::from_secs(3600);

    fn ring(keep: usize, now: Instant) -> Arc<TicketRing> {
        TicketRing::rotating(HOUR, keep, now).unwrap()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    fn parse(text: impl AsRef<[u8]>) -> Result<usize, TicketError> {
        parse_keys(text.as_ref(), Path::new("keys")).map(|keys| keys.len())
    }

    #[test]
    fn a_ticket_opens_until_its_key_is_rotated_out() {
        let start = Instant::now();
        let ring = ring(2, start);
        let ticket = ring.seal(b"state", &HERE, 1000).unwrap();
        assert_eq!(
            ring.open(&ticket, &HERE, 1000).as_deref(),
            Some(&b"state"[..])
        );
        assert_eq!(
            ring.rotate_if_due(start + HOUR / 2),
            Ok(KeyRotation::NotDue)
        );
        assert_eq!(ring.rotate_if_due(start + HOUR), Ok(KeyRotation::Rotated));
        assert_eq!(ring.rotate_if_due(start + HOUR), Ok(KeyRotation::NotDue));
        assert_eq!(
            ring.open(&ticket, &HERE, 1000).as_deref(),
            Some(&b"state"[..])
        );
        assert_eq!(
            ring.rotate_if_due(start + 2 * HOUR),
            Ok(KeyRotation::Rotated)
        );
        assert_eq!(ring.open(&ticket, &HERE, 1000), None);
    }

    #[test]
    fn the_newest_ticket_key_encrypts() {
        let start = Instant::now();
        let ring = ring(3, start);
        let before = ring.seal(b"state", &HERE, 0).unwrap();
        ring.rotate_if_due(start + HOUR).unwrap();
        let after = ring.seal(b"state", &HERE, 0).unwrap();
        assert_ne!(before[..KEY_NAME], after[..KEY_NAME]);
    }

    #[test]
    fn a_ticket_of_another_scope_does_not_open() {
        let ring = ring(1, Instant::now());
        let ticket = ring.seal(b"state", &HERE, 0).unwrap();
        assert_eq!(ring.open(&ticket, &THERE, 0), None);
    }

    #[test]
    fn a_tampered_or_truncated_ticket_does_not_open() {
        let ring = ring(1, Instant::now());
        let ticket = ring.seal(b"state", &HERE, 0).unwrap();
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 0x80;
            assert_eq!(ring.open(&changed, &HERE, 0), None, "byte {at}");
            assert_eq!(ring.open(&ticket[..at], &HERE, 0), None, "cut at {at}");
        }
    }

    #[test]
    fn a_ticket_older_than_its_lifetime_does_not_open() {
        let (ring, _) = file_ring(&hex(&[7; 48]));
        let ticket = ring.seal(b"state", &HERE, 1000).unwrap();
        let day = FILE_LIFETIME.as_secs();
        assert!(ring.open(&ticket, &HERE, 1000 + day).is_some());
        assert!(ring.open(&ticket, &HERE, 1001 + day).is_none());
        assert!(
            ring.open(&ticket, &HERE, 0).is_some(),
            "a clock set back is no reason to refuse"
        );
    }

    #[test]
    fn the_ticket_lifetime_is_rotation_times_keys_within_a_week() {
        assert_eq!(ring(3, Instant::now()).lifetime(), 3 * HOUR);
        assert_eq!(ring(1000, Instant::now()).lifetime(), MAX_LIFETIME);
        assert_eq!(ring(usize::MAX, Instant::now()).lifetime(), MAX_LIFETIME);
        assert!(TicketRing::rotating(HOUR, 0, Instant::now()).is_err());
        assert!(TicketRing::rotating(Duration::ZERO, 1, Instant::now()).is_err());
    }

    fn file_ring(text: &str) -> (Arc<TicketRing>, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        (
            TicketRing::from_file(file.path(), Instant::now())
                .unwrap()
                .0,
            file,
        )
    }

    #[test]
    fn a_ticket_key_file_opens_tickets_after_a_restart() {
        let (before, file) = file_ring(&hex(&[7; 80]));
        let ticket = before.seal(b"state", &HERE, 0).unwrap();
        let (after, _) = TicketRing::from_file(file.path(), Instant::now()).unwrap();
        assert_eq!(
            after.open(&ticket, &HERE, 0).as_deref(),
            Some(&b"state"[..])
        );
    }

    #[test]
    fn a_new_first_ticket_key_encrypts_after_a_reload() {
        let (ring, file) = file_ring(&hex(&[7; 48]));
        let ticket = ring.seal(b"state", &HERE, 0).unwrap();
        std::fs::write(
            file.path(),
            format!("# two\n{}\n{}\n", hex(&[8; 48]), hex(&[7; 48])),
        )
        .unwrap();
        assert!(matches!(ring.reload(), Ok(KeysReloaded::Read(_))));
        assert_eq!(ring.seal(b"state", &HERE, 0).unwrap()[..KEY_NAME], [8; 16]);
        assert!(ring.open(&ticket, &HERE, 0).is_some());
    }

    #[test]
    fn a_bad_ticket_key_file_on_reload_keeps_the_keys() {
        let (ring, file) = file_ring(&hex(&[7; 48]));
        let ticket = ring.seal(b"state", &HERE, 0).unwrap();
        for bad in ["", "nonsense"] {
            std::fs::write(file.path(), bad).unwrap();
            assert!(ring.reload().is_err());
        }
        std::fs::remove_file(file.path()).unwrap();
        assert!(matches!(
            ring.reload(),
            Err(TicketError::File(CertError::Missing { .. }))
        ));
        assert!(ring.open(&ticket, &HERE, 0).is_some());
    }

    #[test]
    fn a_world_readable_ticket_key_file_is_warned_about() {
        use std::os::unix::fs::PermissionsExt;
        let (_, file) = file_ring(&hex(&[7; 48]));
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o604)).unwrap();
        let (_, warnings) = TicketRing::from_file(file.path(), Instant::now()).unwrap();
        assert_eq!(
            warnings,
            [Warning::ReadableByOthers {
                path: file.path().to_owned()
            }]
        );
    }

    #[test]
    fn ticket_keys_are_read_in_every_encoding() {
        let base64_48 = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB";
        let base64_80 = format!("{}=", "B".repeat(107));
        let bad_line = |line| {
            Err(TicketError::BadLine {
                path: "keys".into(),
                line,
            })
        };
        assert_eq!(parse([7; 48]), Ok(1), "raw, 48");
        assert_eq!(parse([7; 80]), Ok(1), "raw, 80");
        assert_eq!(parse([7; 49]), bad_line(1), "raw, neither");
        assert_eq!(parse(base64_48), Ok(1));
        assert_eq!(
            parse(format!("\r\n # first\n{base64_48} # a\r\n{base64_80}\r\n")),
            Ok(2)
        );
        assert_eq!(
            parse(format!(
                "{}\n{}",
                hex(&[1; 48]),
                hex(&[2; 80]).to_lowercase()
            )),
            Ok(2)
        );
        assert_eq!(
            parse(format!("{base64_48}\n{}", &base64_48[4..])),
            bad_line(2),
            "45 bytes"
        );
        assert_eq!(parse("é".repeat(48)), bad_line(1), "96 bytes, no digits");
        let twice = format!("{base64_48}\n{}", hex(&[1; 48]));
        assert_eq!(
            parse(twice),
            Err(TicketError::SameName {
                path: "keys".into(),
                line: 2
            })
        );
        assert_eq!(
            parse("\n# nothing\n"),
            Err(TicketError::File(CertError::Empty {
                path: "keys".into()
            }))
        );
    }

    #[test]
    fn base64_and_hexadecimal_ticket_keys_are_equivalent() {
        let base64 = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB";
        let (one, other) = (file_ring(base64).0, file_ring(&hex(&[1; 48])).0);
        let ticket = one.seal(b"state", &HERE, 0).unwrap();
        assert!(other.open(&ticket, &HERE, 0).is_some());
    }

    #[test]
    fn ticket_scopes_of_different_parts_differ() {
        let all: [&[&[u8]]; 4] = [&[], &[b"ab"], &[b"a", b"b"], &[b"ab", b""]];
        let scopes = all.map(|parts| scope(parts.iter().copied()));
        for (index, one) in scopes.iter().enumerate() {
            assert!(!scopes[index + 1..].contains(one), "{index}");
        }
    }

    #[test]
    fn debug_output_hides_ticket_keys() {
        let (ring, _file) = file_ring(&hex(&[7; 48]));
        assert!(!format!("{:?}", ring.for_scope(HERE)).contains("key"));
    }
}
