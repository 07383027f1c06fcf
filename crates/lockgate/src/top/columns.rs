//! The tables of `top`: their columns, and their rows from the figures.

use std::borrow::Cow;

use super::sample::{ClientRow, EndpointRow, ListenerRow, PoolRow, SiteRow, TopSample};
use crate::admin_client::units::{bytes_of, latency_of};
use crate::printable::printable;

/// A table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Sites,
    Pools,
    Endpoints,
    Clients,
    Listeners,
}

/// The column of [`Tab::Endpoints`] with what is known of their health.
pub(super) const STATE: &str = "STATE";

/// A row of a table, where the figures have it.
#[derive(Debug, Clone, Copy)]
pub(super) enum TableRow<'s> {
    Site(&'s SiteRow),
    Pool(&'s PoolRow),
    Endpoint(&'s PoolRow, &'s EndpointRow),
    Client(&'s ClientRow),
    Listener(&'s ListenerRow),
}

/// One value of a row.
#[derive(Debug, Clone)]
pub(super) enum CellValue<'s> {
    Text(Cow<'s, str>),
    Count(Option<u64>),
    Gauge(i64),
    Rate(f64),
    Seconds(Option<f64>),
    Bytes(u64),
}

impl Tab {
    /// All tables, in the order of their keys.
    pub(super) const ALL: [Self; 5] = [
        Self::Sites,
        Self::Pools,
        Self::Endpoints,
        Self::Clients,
        Self::Listeners,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Sites => "sites",
            Self::Pools => "pools",
            Self::Endpoints => "endpoints",
            Self::Clients => "clients",
            Self::Listeners => "listeners",
        }
    }

    /// The names of the columns: the first ones matter most, the last ones give way.
    pub(super) fn head(self) -> &'static [&'static str] {
        match self {
            Self::Sites => &[
                "SITE",
                "REQ/S",
                "P50",
                "P99",
                "IN FLIGHT",
                "QUEUED",
                "5XX",
                "ERRORS",
                "REQUESTS",
                "SENT",
            ],
            Self::Pools => &[
                "POOL",
                "UP",
                "ALL",
                "REQ/S",
                "IN FLIGHT",
                "CONNS",
                "ERRORS",
                "REQUESTS",
            ],
            Self::Endpoints => &[
                "ENDPOINT",
                "POOL",
                STATE,
                "REQ/S",
                "P50",
                "P99",
                "IN FLIGHT",
                "CONNS",
                "ERRORS",
                "WEIGHT",
                "REQUESTS",
                "WHY",
            ],
            Self::Clients => &["CLIENT", "RECEIVED/S", "SENT/S", "RECEIVED", "SENT"],
            Self::Listeners => &[
                "LISTENER", "KIND", "OPEN", "ACCEPTED", "RECEIVED", "SENT", "ADDRESS",
            ],
        }
    }

    /// The column that orders it at first.
    pub(super) fn first_order(self) -> usize {
        match self {
            Self::Sites | Self::Clients => 1,
            Self::Pools | Self::Endpoints => 3,
            Self::Listeners => 2,
        }
    }

    /// Its rows, in no order.
    pub(super) fn rows(self, sample: &TopSample) -> Vec<TableRow<'_>> {
        match self {
            Self::Sites => sample.sites.iter().map(TableRow::Site).collect(),
            Self::Pools => sample.pools.iter().map(TableRow::Pool).collect(),
            Self::Endpoints => {
                let of = |pool| TableRow::endpoints(pool);
                sample.pools.iter().flat_map(of).collect()
            }
            Self::Clients => {
                let clients = sample.clients.clients.iter();
                clients.map(TableRow::Client).collect()
            }
            Self::Listeners => {
                let listeners = sample.status.listeners.iter();
                listeners.map(TableRow::Listener).collect()
            }
        }
    }
}

impl<'s> TableRow<'s> {
    fn endpoints(pool: &'s PoolRow) -> impl Iterator<Item = Self> {
        let endpoints = pool.endpoints.iter();
        endpoints.map(move |one| Self::Endpoint(pool, one))
    }

    /// The value in a column, by its place in [`Tab::head`].
    pub(super) fn value(self, column: usize) -> CellValue<'s> {
        match self {
            Self::Site(site) => of_site(site, column),
            Self::Pool(pool) => of_pool(pool, column),
            Self::Endpoint(pool, endpoint) => of_endpoint(pool, endpoint, column),
            Self::Client(client) => of_client(client, column),
            Self::Listener(listener) => of_listener(listener, column),
        }
    }

    /// The pool and the endpoint, if it is the row of one.
    pub(super) fn endpoint_name(self) -> Option<(&'s str, &'s str)> {
        match self {
            Self::Endpoint(pool, endpoint) => Some((&pool.pool, &endpoint.endpoint)),
            _ => None,
        }
    }
}

impl CellValue<'_> {
    /// Its place in an order; a text has its own, and so has what is not known.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Text(_) => None,
            Self::Count(count) => count.map(|count| count as f64),
            Self::Gauge(gauge) => Some(*gauge as f64),
            Self::Rate(rate) => Some(*rate),
            Self::Seconds(seconds) => *seconds,
            Self::Bytes(bytes) => Some(*bytes as f64),
        }
    }

    /// The text that is shown; what is not known is empty.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => printable(text).into_owned(),
            Self::Count(count) => count.map(|count| count.to_string()).unwrap_or_default(),
            Self::Gauge(gauge) => gauge.to_string(),
            Self::Rate(rate) => format!("{rate:.1}"),
            Self::Seconds(seconds) => seconds.map(latency_of).unwrap_or_default(),
            Self::Bytes(bytes) => bytes_of(*bytes),
        }
    }
}

fn text(text: &str) -> CellValue<'_> {
    CellValue::Text(Cow::Borrowed(text))
}

fn count(count: u64) -> CellValue<'static> {
    CellValue::Count(Some(count))
}

fn rate(rate: Option<f64>) -> CellValue<'static> {
    CellValue::Rate(rate.unwrap_or_default())
}

fn of_site(site: &SiteRow, column: usize) -> CellValue<'_> {
    match column {
        0 => text(&site.site),
        1 => rate(site.requests_per_second),
        2 => CellValue::Seconds(site.p50_seconds),
        3 => CellValue::Seconds(site.p99_seconds),
        4 => CellValue::Gauge(site.in_flight),
        5 => CellValue::Gauge(site.queued),
        6 => count(site.responses.get("5xx").copied().unwrap_or_default()),
        7 => count(site.errors.values().sum()),
        8 => count(site.requests),
        _ => CellValue::Bytes(site.sent_bytes),
    }
}

fn of_pool(pool: &PoolRow, column: usize) -> CellValue<'_> {
    let endpoints = pool.endpoints.iter();
    match column {
        0 => text(&pool.pool),
        1 => count(endpoints.filter(|one| one.is_up()).count() as u64),
        2 => count(endpoints.len() as u64),
        3 => CellValue::Rate(endpoints.filter_map(|one| one.requests_per_second).sum()),
        4 => count(endpoints.map(|one| one.in_flight).sum()),
        5 => count(endpoints.map(|one| one.connections).sum()),
        6 => count(endpoints.map(EndpointRow::failures).sum()),
        _ => count(endpoints.filter_map(|one| one.requests).sum()),
    }
}

fn of_endpoint<'s>(pool: &'s PoolRow, endpoint: &'s EndpointRow, column: usize) -> CellValue<'s> {
    match column {
        0 => text(&endpoint.endpoint),
        1 => text(&pool.pool),
        2 => CellValue::Text(endpoint.shown_state()),
        3 => rate(endpoint.requests_per_second),
        4 => CellValue::Seconds(endpoint.p50_seconds),
        5 => CellValue::Seconds(endpoint.p99_seconds),
        6 => count(endpoint.in_flight),
        7 => count(endpoint.connections),
        8 => count(endpoint.failures()),
        9 => count(u64::from(endpoint.weight)),
        10 => CellValue::Count(endpoint.requests),
        _ => text(endpoint.why.as_deref().unwrap_or_default()),
    }
}

fn of_client(client: &ClientRow, column: usize) -> CellValue<'_> {
    match column {
        0 => text(&client.client),
        1 => CellValue::Bytes(client.received_bytes_per_second),
        2 => CellValue::Bytes(client.sent_bytes_per_second),
        3 => CellValue::Bytes(client.received_bytes),
        _ => CellValue::Bytes(client.sent_bytes),
    }
}

fn of_listener(listener: &ListenerRow, column: usize) -> CellValue<'_> {
    match column {
        0 => text(&listener.name),
        1 => text(&listener.kind),
        2 => CellValue::Gauge(listener.connections),
        3 => count(listener.accepted),
        4 => CellValue::Bytes(listener.received_bytes),
        5 => CellValue::Bytes(listener.sent_bytes),
        _ => text(&listener.address),
    }
}
