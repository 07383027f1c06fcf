//! The tables of `top`: their columns, and their rows from the figures.

use serde_json::Value;

use super::sample::{TopSample, items};
use crate::admin_client::endpoint_state::{is_up, shown_state};
use crate::admin_client::units::{bytes, latency, plain};

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

/// One value of a row.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) text: String,
    /// Its place in an order; a text without a number has its own.
    pub(super) number: Option<f64>,
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
    pub(super) fn rows(self, sample: &TopSample) -> Vec<Vec<Cell>> {
        match self {
            Self::Sites => items(&sample.sites["sites"]).map(site).collect(),
            Self::Pools => items(&sample.pools["pools"]).map(pool).collect(),
            Self::Endpoints => {
                let pools = items(&sample.pools["pools"]);
                let of = |pool: &Value| {
                    let endpoints = items(&pool["endpoints"]);
                    endpoints
                        .map(|one| endpoint(&pool["pool"], one))
                        .collect::<Vec<_>>()
                };
                pools.flat_map(of).collect()
            }
            Self::Clients => items(&sample.clients["clients"]).map(client).collect(),
            Self::Listeners => items(&sample.status["listeners"]).map(listener).collect(),
        }
    }
}

impl Cell {
    fn text(text: String) -> Self {
        Self { text, number: None }
    }

    fn plain(value: &Value) -> Self {
        Self {
            text: plain(value),
            number: value.as_f64(),
        }
    }

    fn latency(value: &Value) -> Self {
        Self {
            text: latency(value),
            number: value.as_f64(),
        }
    }

    fn bytes(value: &Value) -> Self {
        Self {
            text: bytes(value),
            number: value.as_f64(),
        }
    }

    fn count(count: u64) -> Self {
        Self {
            text: count.to_string(),
            number: Some(count as f64),
        }
    }

    fn rate(rate: f64) -> Self {
        Self {
            text: format!("{rate:.1}"),
            number: Some(rate),
        }
    }
}

fn sum(counts: &Value) -> u64 {
    let counts = counts.as_object().into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).sum()
}

fn rate(value: &Value) -> Cell {
    Cell::rate(value.as_f64().unwrap_or_default())
}

fn site(site: &Value) -> Vec<Cell> {
    vec![
        Cell::plain(&site["site"]),
        rate(&site["requests_per_second"]),
        Cell::latency(&site["p50_seconds"]),
        Cell::latency(&site["p99_seconds"]),
        Cell::plain(&site["in_flight"]),
        Cell::plain(&site["queued"]),
        Cell::count(site["responses"]["5xx"].as_u64().unwrap_or_default()),
        Cell::count(sum(&site["errors"])),
        Cell::plain(&site["requests"]),
        Cell::bytes(&site["sent_bytes"]),
    ]
}

fn pool(pool: &Value) -> Vec<Cell> {
    let endpoints: Vec<&Value> = items(&pool["endpoints"]).collect();
    let total = |name: &str| {
        let counts = endpoints.iter().filter_map(|one| one[name].as_u64());
        Cell::count(counts.sum())
    };
    let up = endpoints.iter().filter(|one| is_up(one)).count();
    let rates = endpoints
        .iter()
        .filter_map(|one| one["requests_per_second"].as_f64());
    vec![
        Cell::plain(&pool["pool"]),
        Cell::count(up as u64),
        Cell::count(endpoints.len() as u64),
        Cell::rate(rates.sum()),
        total("in_flight"),
        total("connections"),
        Cell::count(endpoints.iter().map(|one| sum(&one["errors"])).sum()),
        total("requests"),
    ]
}

fn endpoint(pool: &Value, endpoint: &Value) -> Vec<Cell> {
    vec![
        Cell::plain(&endpoint["endpoint"]),
        Cell::plain(pool),
        Cell::text(shown_state(endpoint)),
        rate(&endpoint["requests_per_second"]),
        Cell::latency(&endpoint["p50_seconds"]),
        Cell::latency(&endpoint["p99_seconds"]),
        Cell::plain(&endpoint["in_flight"]),
        Cell::plain(&endpoint["connections"]),
        Cell::count(sum(&endpoint["errors"])),
        Cell::plain(&endpoint["weight"]),
        Cell::plain(&endpoint["requests"]),
        Cell::plain(&endpoint["why"]),
    ]
}

fn client(client: &Value) -> Vec<Cell> {
    let [received_rate, sent_rate, received, sent] = [
        "received_bytes_per_second",
        "sent_bytes_per_second",
        "received_bytes",
        "sent_bytes",
    ]
    .map(|name| Cell::bytes(&client[name]));
    vec![
        Cell::plain(&client["client"]),
        received_rate,
        sent_rate,
        received,
        sent,
    ]
}

fn listener(listener: &Value) -> Vec<Cell> {
    vec![
        Cell::plain(&listener["name"]),
        Cell::plain(&listener["kind"]),
        Cell::plain(&listener["connections"]),
        Cell::plain(&listener["accepted"]),
        Cell::bytes(&listener["received_bytes"]),
        Cell::bytes(&listener["sent_bytes"]),
        Cell::plain(&listener["address"]),
    ]
}
