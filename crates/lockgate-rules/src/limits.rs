//! What clients are held to: how often requests may come, how quickly bytes must and may move, and
//! what one connection may ask for over HTTP/2.

use std::num::NonZeroU64;
use std::time::Duration;

/// The limit of the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// So many requests, at least 1, …
    pub count: u32,
    /// … in each such time.
    pub every: Duration,
    /// The property by which requests are counted apart.
    pub per: LimitScope,
    /// Requests that may come at once, at least 1.
    pub burst: u32,
    /// The status of a refusal, from 400 to 599.
    pub status: u16,
}

/// The property by which the requests under a limit are counted apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitScope {
    /// The client's address (IPv6: its /64).
    Client,
    /// The value of this field; the client's address where there is none.
    Header(String),
    /// None: all requests of the route together.
    Route,
}

/// Minimum rates of a client, measured only while it is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinRates {
    /// Bytes a second of a request body that is due; `None` is none.
    pub min_in: Option<u64>,
    /// Bytes a second that a client takes of what is held for it; `None` is none.
    pub min_out: Option<u64>,
    /// The time for which it may stay below.
    pub grace: Duration,
}

/// The rates that the bytes of one table are held to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShapeRates {
    /// Of each connection of a client; in a `[tunnel]` table of each tunnel.
    pub per_connection: Directions,
    /// Of all connections of one client address (IPv6: each /64).
    pub per_client: Directions,
    /// Of each user of a `[tunnel]` table that asks for a password; else none.
    pub per_user: Directions,
    /// Of all clients.
    pub total: Directions,
}

impl ShapeRates {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Bytes a second in each direction; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Directions {
    /// From clients.
    pub received: Option<NonZeroU64>,
    /// To clients.
    pub sent: Option<NonZeroU64>,
}

/// What one client connection may ask for over HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    /// Requests at once, from 1 to 10,000 (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams: u32,
    /// Bytes of one request body that may come before its endpoint has taken them, from 64 KiB to
    /// 2 GB (SETTINGS_INITIAL_WINDOW_SIZE). Never more than `connection_window`.
    pub window: u32,
    /// The same for all bodies of the connection together, from 64 KiB to 2 GB.
    pub connection_window: u32,
    /// Requests that are taken back or broken. More end the connection with ENHANCE_YOUR_CALM.
    pub resets: Allowance,
    /// Frames that carry nothing for a request. More end the connection with ENHANCE_YOUR_CALM.
    pub control: Allowance,
}

/// The number of times that something may happen on one connection: a bucket of `burst` that is
/// filled with `count` in each `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// So often, at least 1, …
    pub count: u32,
    /// … in each such time.
    pub every: Duration,
    /// How often at once, at least 1.
    pub burst: u32,
}
