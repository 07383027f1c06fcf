//! A slow link: a token bucket on what clients read, one for all connections and threads of a run,
//! as an access line is.
//!
//! Bytes are taken from sockets only as the link would have delivered them, in pieces of a packet
//! or a millisecond, and sockets have small receive buffers, so that whoever sends is held up. What
//! remains: up to [`buffer`](LinkRate::buffer) bytes of each connection are in the kernel already
//! when their turn comes, which a real link would have in a queue at its far end; and nothing is
//! delayed that is not queued, since there is no latency. Bytes are those of TCP's stream, TLS
//! included, without headers of packets. Handshakes of TLS are paid for when they are over, the
//! first response of each target before the run is free, and what clients send is not slowed down.

mod queue;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use queue::{LinkQueue, LinkSlot};

use crate::moment::{Moment, nanoseconds};

/// What one read takes at the least: a packet.
const PACKET: u64 = 1500;
/// What one read takes where that is more: so much time's worth, since alarms are not for free.
const PIECE: Moment = 1_000_000;
/// The depth of the bucket, in time: what late alarms may make up for, and no more than that.
const DEPTH: Moment = 2_000_000;
/// From this share of the time on a busy link is what the figures show.
const LIMITING: f64 = 0.5;
const SECOND: u64 = 1_000_000_000;

/// How fast a link is, in bits a second: from 1 kbit/s to 100 Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate(u64);

/// Why a text is no rate of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkRateError {
    /// No number, or no unit that is known.
    #[error(
        "`{0}` is no rate of a link: write a number and its unit, 1024kbit/s, 10Mbit/s or 128kB/s \
         (k, M and G are thousands)"
    )]
    Word(String),
    /// A link that nobody has.
    #[error("a link of {0} is out of range: its rate must be from 1kbit/s to 100Gbit/s")]
    Range(String),
}

/// What units are worth in bits a second.
const UNITS: [(&str, f64); 9] = [
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("B/s", 8.0),
    ("kB/s", 8e3),
    ("KB/s", 8e3),
    ("MB/s", 8e6),
    ("GB/s", 8e9),
];

impl FromStr for LinkRate {
    type Err = LinkRateError;

    fn from_str(text: &str) -> Result<Self, LinkRateError> {
        let wrong = || LinkRateError::Word(text.to_owned());
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, unit) = text.split_at(end);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let (_, scale) = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim_start())
            .ok_or_else(wrong)?;
        let bits = number * scale;
        if (1e3..=1e11).contains(&bits) {
            Ok(Self(bits as u64))
        } else {
            Err(LinkRateError::Range(text.to_owned()))
        }
    }
}

/// In bits, as links are sold: `1024 kbit/s`, `10 Mbit/s`.
impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = match self.0 {
            bits if bits.is_multiple_of(1_000_000_000) => ("Gbit/s", 1_000_000_000),
            bits if bits.is_multiple_of(1_000_000) => ("Mbit/s", 1_000_000),
            bits if bits.is_multiple_of(1_000) => ("kbit/s", 1_000),
            _ => ("bit/s", 1),
        };
        write!(f, "{} {unit}", self.0 / scale)
    }
}

impl LinkRate {
    /// What so many bytes take, to the next nanosecond.
    fn time_of(self, bytes: u64) -> Moment {
        let bits = u128::from(bytes) * 8 * u128::from(SECOND);
        u64::try_from(bits.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX)
    }

    /// What one read may take.
    fn piece(self) -> usize {
        let worth = u128::from(self.0) * u128::from(PIECE) / 8 / u128::from(SECOND);
        usize::try_from(worth)
            .unwrap_or(usize::MAX)
            .clamp(PACKET as usize, 64 * 1024)
    }

    /// The receive buffer that connections ask the kernel for, in bytes: 16 KB, and above 20 Mbit/s
    /// a tenth of a second's worth. What lies between stalls on loopback: a window smaller than
    /// some segments, of 64 KB there, opens in leaps.
    pub fn buffer(self) -> usize {
        let tenth = usize::try_from(self.0 / 80).unwrap_or(usize::MAX);
        if tenth < 250_000 {
            16 * 1024
        } else {
            tenth.min(4 << 20)
        }
    }
}

/// The bucket: when the link has delivered everything that was taken from it.
///
/// A read is paid for when its length is known, so that the link is at most one piece ahead for
/// each thread, and never faster in the long run.
#[derive(Debug)]
pub struct SharedLink {
    rate: LinkRate,
    zero: Instant,
    /// The moment from which on it has tokens again.
    free: AtomicU64,
    passed: AtomicU64,
}

impl SharedLink {
    /// A link that is free.
    pub fn new(rate: LinkRate) -> Self {
        Self {
            rate,
            zero: Instant::now(),
            free: AtomicU64::new(0),
            passed: AtomicU64::new(0),
        }
    }

    pub(crate) fn rate(&self) -> LinkRate {
        self.rate
    }

    /// What all reads so far take on it.
    pub(crate) fn busy(&self) -> Moment {
        self.rate.time_of(self.passed.load(Ordering::Relaxed))
    }

    /// What to say of it when it was `busy` for most of `elapsed`; nothing otherwise.
    pub(crate) fn note(&self, busy: Moment, elapsed: Duration) -> Option<String> {
        // The first piece is there at once, and what is paid last is not waited for.
        let share = (busy as f64 / elapsed.as_nanos().max(1) as f64).min(1.0);
        (share > LIMITING).then(|| {
            format!(
                "the link of {} was busy {:.0} % of the time: it was the limit",
                self.rate,
                share * 100.0
            )
        })
    }

    fn now(&self) -> Moment {
        nanoseconds(self.zero.elapsed())
    }

    /// How long until something may be read; 0 is now.
    fn wait(&self, now: Moment) -> Moment {
        self.free.load(Ordering::Relaxed).saturating_sub(now)
    }

    /// Takes tokens for so many bytes that were read.
    fn pay(&self, bytes: u64, now: Moment) {
        if bytes == 0 {
            return;
        }
        self.passed.fetch_add(bytes, Ordering::Relaxed);
        let cost = self.rate.time_of(bytes);
        let next = |free: Moment| Some(free.max(now.saturating_sub(DEPTH)).saturating_add(cost));
        // It always has a next value.
        let _ = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Moment = 1_000_000;

    fn rate(text: &str) -> LinkRate {
        text.parse().unwrap()
    }

    #[test]
    fn rates_are_read_with_decimal_units() {
        for (text, bits, shown) in [
            ("1024kbit/s", 1_024_000, "1024 kbit/s"),
            ("128kB/s", 1_024_000, "1024 kbit/s"),
            ("128 KB/s", 1_024_000, "1024 kbit/s"),
            ("1.5Mbit/s", 1_500_000, "1500 kbit/s"),
            ("10Mbit/s", 10_000_000, "10 Mbit/s"),
            ("1GB/s", 8_000_000_000, "8 Gbit/s"),
            ("33601bit/s", 33_601, "33601 bit/s"),
        ] {
            assert_eq!(rate(text).0, bits, "{text}");
            assert_eq!(rate(text).to_string(), shown);
        }
        for text in [
            "",
            "1024",
            "kbit/s",
            "1024kbit",
            "1024Kbit/s",
            "1..5Mbit/s",
            "1024kbps",
            "-1kbit/s",
            "1KiB/s",
        ] {
            let error = text.parse::<LinkRate>().unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("write a number and its unit, 1024kbit/s"),
                "{text}: {error}"
            );
        }
        for text in ["0kbit/s", "999bit/s", "101Gbit/s"] {
            assert_eq!(
                text.parse::<LinkRate>(),
                Err(LinkRateError::Range(text.to_owned()))
            );
        }
    }

    #[test]
    fn a_read_takes_a_packet_or_a_millisecond() {
        assert_eq!(rate("1024kbit/s").piece(), 1500);
        assert_eq!(rate("100Mbit/s").piece(), 12_500);
        assert_eq!(rate("100Gbit/s").piece(), 65_536);
        assert_eq!(rate("1024kbit/s").buffer(), 16_384);
        assert_eq!(rate("100Mbit/s").buffer(), 1_250_000);
    }

    /// 128 bytes are a millisecond of it.
    #[test]
    fn what_was_read_must_be_delivered_before_more_is() {
        let link = SharedLink::new(rate("1024kbit/s"));
        let begin = 1000 * MS;
        assert_eq!(link.wait(begin), 0);
        link.pay(128 * 10, begin);
        // An idle link has saved the depth of the bucket, however long it was idle.
        assert_eq!(link.wait(begin), 8 * MS);
        assert_eq!(link.wait(begin + 7 * MS), MS);
        assert_eq!(link.wait(begin + 8 * MS), 0);
        // An alarm that was late is made up for,
        link.pay(128 * 10, begin + 9 * MS);
        assert_eq!(link.wait(begin + 9 * MS), 9 * MS);
        // and one that was very late only as far as the bucket is deep.
        link.pay(128 * 10, begin + 100 * MS);
        assert_eq!(link.wait(begin + 100 * MS), 8 * MS);
        assert_eq!(link.busy(), 30 * MS);
        link.pay(0, begin + 200 * MS);
        assert_eq!((link.wait(begin + 200 * MS), link.busy()), (0, 30 * MS));
    }

    #[test]
    fn a_link_that_was_busy_most_of_the_time_is_told_of() {
        let link = SharedLink::new(rate("1024kbit/s"));
        let second = Duration::from_secs(1);
        assert_eq!(link.note(500 * MS, second), None);
        let note = link.note(970 * MS, second).unwrap();
        assert_eq!(
            note,
            "the link of 1024 kbit/s was busy 97 % of the time: it was the limit"
        );
        assert!(link.note(1010 * MS, second).unwrap().contains("100 %"));
    }

    #[test]
    fn two_threads_that_read_at_once_pay_both() {
        let link = SharedLink::new(rate("1024kbit/s"));
        link.pay(1280, 100 * MS);
        link.pay(1280, 100 * MS);
        assert_eq!(link.wait(100 * MS), 18 * MS);
    }

    #[test]
    fn the_rate_holds_in_the_long_run_whatever_the_pieces() {
        let link = SharedLink::new(rate("1024kbit/s"));
        let (mut now, mut bytes, mut piece) = (0, 0, 1);
        while bytes < 1_280_000 {
            now += link.wait(now) + 10_000;
            link.pay(piece, now);
            bytes += piece;
            piece = 1 + piece * 7 % 1500;
        }
        let least = 10_000 * MS - DEPTH - link.rate().time_of(1500);
        assert!((least..least + 100 * MS).contains(&now), "{now}");
    }
}
