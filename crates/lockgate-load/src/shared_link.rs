//! Slow link: a token bucket on the bytes that clients read, one for all connections and threads of
//! a run, like an access line.
//!
//! Clients read from sockets only as fast as the link would deliver, in pieces of a packet or a
//! millisecond, and sockets have small receive buffers, so that the sender is held up. Limits of
//! the model: up to [`buffer`](LinkRate::buffer) bytes of each connection are in the kernel already
//! when their turn comes, which a real link would have in a queue at its far end; and there is no
//! latency, so that only queued bytes are delayed. The bucket counts bytes of the TCP stream, TLS
//! included, without packet headers. TLS handshakes are paid for when they are over, the first
//! response of each target before the run is free, and the clients' own bytes are not slowed down.

mod queue;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use queue::{LinkQueue, LinkSlot};

use lockgate_net::nanos::Nanos;
use lockgate_net::token_bucket::SharedTokenBucket;

/// Minimum of one read: a packet.
const PACKET: u64 = 1500;
/// Time's worth of one read, where that is more than a packet: alarms have a cost.
const PIECE: Nanos = Nanos::from_millis(1);
/// Depth of the bucket, in time: the limit that late alarms may catch up.
const DEPTH: Nanos = Nanos::from_millis(2);
/// From this share of the time on a busy link is the bottleneck.
const LIMITING: f64 = 0.5;
const SECOND: Nanos = Nanos::from_secs(1);

/// Rate of a link in bits a second: from 1 kbit/s to 100 Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate(u64);

/// Error of a text that is no rate of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkRateError {
    /// The text has no number, or an unknown unit.
    #[error(
        "`{0}` is no rate of a link: write a number and its unit, 1024kbit/s, 10Mbit/s or 128kB/s \
         (k, M and G are thousands)"
    )]
    Word(String),
    /// The rate is beyond the limits.
    #[error("a link of {0} is out of range: its rate must be from 1kbit/s to 100Gbit/s")]
    Range(String),
}

/// Units in bits a second.
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
    /// Time that bytes take on the link, rounded up to nanoseconds.
    fn time_of(self, bytes: u64) -> Nanos {
        let bits = u128::from(bytes) * 8 * u128::from(SECOND.as_u64());
        Nanos::new(u64::try_from(bits.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// Limit of one read, in bytes.
    fn piece(self) -> usize {
        let worth =
            u128::from(self.0) * u128::from(PIECE.as_u64()) / 8 / u128::from(SECOND.as_u64());
        usize::try_from(worth)
            .unwrap_or(usize::MAX)
            .clamp(PACKET as usize, 64 * 1024)
    }

    /// Receive buffer of connections, in bytes: 16 KB, and above 20 Mbit/s a tenth of a second's
    /// worth. Sizes between stall on loopback: a window smaller than some segments, of 64 KB there,
    /// opens in leaps.
    pub fn buffer(self) -> usize {
        let tenth = usize::try_from(self.0 / 80).unwrap_or(usize::MAX);
        if tenth < 250_000 {
            16 * 1024
        } else {
            tenth.min(4 << 20)
        }
    }
}

/// The link of one run, and its bucket.
///
/// A read is paid for when its length is known, so that the link is at most one piece ahead for
/// each thread, and never faster in the long run.
#[derive(Debug)]
pub struct SharedLink {
    rate: LinkRate,
    zero: Instant,
    bucket: SharedTokenBucket,
    passed: AtomicU64,
}

impl SharedLink {
    /// A link that is idle.
    pub fn new(rate: LinkRate) -> Self {
        Self {
            rate,
            zero: Instant::now(),
            bucket: SharedTokenBucket::new(DEPTH),
            passed: AtomicU64::new(0),
        }
    }

    pub(crate) fn rate(&self) -> LinkRate {
        self.rate
    }

    /// Time that all reads so far take on the link.
    pub(crate) fn busy(&self) -> Nanos {
        self.rate.time_of(self.passed.load(Ordering::Relaxed))
    }

    /// The note about a link that was `busy` for most of `elapsed`.
    pub(crate) fn note(&self, busy: Nanos, elapsed: Duration) -> Option<String> {
        // The first piece is there at once, and the last payment is not waited for.
        let share = (busy.as_u64() as f64 / elapsed.as_nanos().max(1) as f64).min(1.0);
        (share > LIMITING).then(|| {
            format!(
                "the link of {} was busy {:.0} % of the time: it was the limit",
                self.rate,
                share * 100.0
            )
        })
    }

    fn now(&self) -> Nanos {
        self.zero.elapsed().into()
    }

    /// Time until a client may read; 0 is now.
    fn wait(&self, now: Nanos) -> Nanos {
        self.bucket.debt(now)
    }

    /// Takes tokens for bytes that were read.
    fn pay(&self, bytes: u64, now: Nanos) {
        if bytes == 0 {
            return;
        }
        self.passed.fetch_add(bytes, Ordering::Relaxed);
        self.bucket.reserve(self.rate.time_of(bytes), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Nanos = Nanos::from_secs(1);
    const MS: Nanos = Nanos::from_millis(1);

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

    /// 128 bytes take a millisecond.
    #[test]
    fn bytes_that_were_read_are_delivered_before_more_are() {
        let link = SharedLink::new(rate("1024kbit/s"));
        let begin = 1000 * MS;
        assert_eq!(link.wait(begin), Nanos::ZERO);
        link.pay(128 * 10, begin);
        // An idle link has saved the depth of the bucket, however long it was idle.
        assert_eq!(link.wait(begin), 8 * MS);
        assert_eq!(link.wait(begin + 7 * MS), MS);
        assert_eq!(link.wait(begin + 8 * MS), Nanos::ZERO);
        // An alarm that was late is made up for,
        link.pay(128 * 10, begin + 9 * MS);
        assert_eq!(link.wait(begin + 9 * MS), 9 * MS);
        // and one that was very late only as far as the bucket is deep.
        link.pay(128 * 10, begin + 100 * MS);
        assert_eq!(link.wait(begin + 100 * MS), 8 * MS);
        assert_eq!(link.busy(), 30 * MS);
        link.pay(0, begin + 200 * MS);
        assert_eq!(
            (link.wait(begin + 200 * MS), link.busy()),
            (Nanos::ZERO, 30 * MS)
        );
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
        let (mut now, mut bytes, mut piece) = (BEGIN, 0, 1);
        while bytes < 1_280_000 {
            now += link.wait(now) + Nanos::new(10_000);
            link.pay(piece, now);
            bytes += piece;
            piece = 1 + piece * 7 % 1500;
        }
        let least = 10_000 * MS - DEPTH - link.rate().time_of(1500);
        assert!(
            (least..least + 100 * MS).contains(&(now - BEGIN)),
            "{now:?}"
        );
    }
}
