//! Limits on clients: rate limits, minimum rates, bandwidth, and limits of an HTTP/2 connection.

use std::num::NonZeroU64;
use std::time::Duration;

/// The rate limit of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests in each `every`, at least 1.
    pub count: u32,
    /// The time in which `count` requests may come.
    pub every: Duration,
    /// The property by which requests are counted.
    pub per: LimitScope,
    /// Requests that may come at once, at least 1.
    pub burst: u32,
    /// The status of a refusal, from 400 to 599.
    pub status: u16,
}

/// The property by which a rate limit counts requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitScope {
    /// The client's address (IPv6: its /64).
    Client,
    /// The value of this field; the client's address if the field is missing.
    Header(String),
    /// No property: all requests of the route share one count.
    Route,
}

/// Minimum rates of a client, measured only while Lockgate waits for that client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinRates {
    /// Bytes per second of a request body; `None` is no minimum.
    pub min_in: Option<u64>,
    /// Bytes per second of a response that the client takes; `None` is no minimum.
    pub min_out: Option<u64>,
    /// The time for which the rate may be lower.
    pub grace: Duration,
}

/// The bandwidth limits of one table of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShapeRates {
    /// The limit of each client connection; in a `[tunnel]` table, of each tunnel.
    pub per_connection: Directions,
    /// The limit of all connections of one client address together (IPv6: of a /64).
    pub per_client: Directions,
    /// The limit of each user, in a `[tunnel]` table with passwords; elsewhere none.
    pub per_user: Directions,
    /// The limit of all clients together.
    pub total: Directions,
}

impl ShapeRates {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Bytes per second in each direction; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Directions {
    /// From clients.
    pub received: Option<NonZeroU64>,
    /// To clients.
    pub sent: Option<NonZeroU64>,
}

/// The limits of one client connection over HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    /// Concurrent requests, from 1 to 10,000 (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams: u32,
    /// Bytes of one request body that the client may send ahead of the endpoint, from 64 KiB to 2
    /// GB (SETTINGS_INITIAL_WINDOW_SIZE). At most `connection_window`.
    pub window: u32,
    /// The same for all request bodies of the connection together, from 64 KiB to 2 GB.
    pub connection_window: u32,
    /// Streams that end with an error or a client's RST_STREAM. More end the connection with
    /// ENHANCE_YOUR_CALM.
    pub resets: Allowance,
    /// Control frames, which carry no data of a request. More end the connection with
    /// ENHANCE_YOUR_CALM.
    pub control: Allowance,
}

/// A token bucket for events on one connection: it holds `burst` tokens and gains `count` in each
/// `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Events in each `every`, at least 1.
    pub count: u32,
    /// The time in which `count` tokens are added.
    pub every: Duration,
    /// Events that may happen at once, at least 1.
    pub burst: u32,
}
