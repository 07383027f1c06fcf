//! Rates that bytes are held to.

use std::num::NonZeroU64;

use crate::source::SourceSpan;
use crate::units::smallest;

/// The rates of one table; at least one is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Of each connection of a client; in a `[tunnel]` table of each tunnel.
    pub per_connection: Directions,
    /// Of all connections of one client address (IPv6: each /64).
    pub per_client: Directions,
    /// Of each user of a `[tunnel]` table that asks for a password; else none.
    pub per_user: Directions,
    /// The rates of all clients together.
    pub total: Directions,
    /// Where it was written; a route that inherits it has that of its site, and shares its rates.
    pub at: SourceSpan,
}

/// Bytes a second in each direction; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Directions {
    /// The rate of bytes from clients.
    pub received: Option<NonZeroU64>,
    /// The rate of bytes to clients.
    pub sent: Option<NonZeroU64>,
}

impl Directions {
    /// What is limited, as it is written: `10MB/s`, or `in 1MB/s` and `out 10MB/s`.
    pub fn each(self) -> Vec<String> {
        let rate = |rate: NonZeroU64| format!("{}/s", smallest(rate.get()));
        match (self.received, self.sent) {
            (Some(received), Some(sent)) if received == sent => vec![rate(sent)],
            (received, sent) => {
                let ways = [("in", received), ("out", sent)];
                let limited = |(way, limit): (_, Option<_>)| {
                    limit.map(|limit| format!("{way} {}", rate(limit)))
                };
                ways.into_iter().filter_map(limited).collect()
            }
        }
    }

    /// Whether neither direction is limited.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}
