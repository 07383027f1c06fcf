//! The figures of one moment, as the admin socket tells them: those that are shown.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin_client::ask_for;
use crate::admin_client::endpoint_state::{is_up, shown_state};

/// The responses to one round of questions.
#[derive(Debug, Default)]
pub(super) struct TopSample {
    pub(super) status: StatusFigures,
    pub(super) sites: Vec<SiteRow>,
    pub(super) pools: Vec<PoolRow>,
    pub(super) clients: ClientsFigures,
}

/// Of `/v1/status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StatusFigures {
    pub(super) version: String,
    pub(super) pid: u32,
    pub(super) phase: String,
    pub(super) uptime_seconds: u64,
    pub(super) generation: u64,
    pub(super) held_to_earlier_generations: u64,
    pub(super) listeners: Vec<ListenerRow>,
    pub(super) limits: LimitsRow,
}

/// The limits of the process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LimitsRow {
    pub(super) connections: UsageRow,
    pub(super) handshakes: UsageRow,
    pub(super) sockets: UsageRow,
    pub(super) memory: UsageRow,
}

/// How much of a limit is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageRow {
    pub(super) used: u64,
    pub(super) size: Option<u64>,
}

/// A listener.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListenerRow {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) connections: i64,
    pub(super) accepted: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) address: String,
}

/// A site of `/v1/sites`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SiteRow {
    pub(super) site: String,
    pub(super) in_flight: i64,
    pub(super) queued: i64,
    pub(super) requests: u64,
    pub(super) responses: BTreeMap<String, u64>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) sent_bytes: u64,
    pub(super) requests_per_second: Option<f64>,
    pub(super) p50_seconds: Option<f64>,
    pub(super) p99_seconds: Option<f64>,
}

/// A pool of `/v1/pools`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PoolRow {
    pub(super) pool: String,
    pub(super) endpoints: Vec<EndpointRow>,
}

/// An endpoint of a pool.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EndpointRow {
    pub(super) endpoint: String,
    pub(super) state: String,
    pub(super) why: Option<String>,
    pub(super) admin: Option<String>,
    pub(super) weight: u32,
    pub(super) connections: u64,
    pub(super) in_flight: u64,
    pub(super) requests: Option<u64>,
    pub(super) errors: Option<BTreeMap<String, u64>>,
    pub(super) requests_per_second: Option<f64>,
    pub(super) p50_seconds: Option<f64>,
    pub(super) p99_seconds: Option<f64>,
}

/// Of `/v1/clients`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClientsFigures {
    pub(super) clients: Vec<ClientRow>,
    pub(super) total: ClientRow,
}

/// A client, or all of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClientRow {
    pub(super) client: String,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes_per_second: u64,
    pub(super) sent_bytes_per_second: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SitesResponse {
    sites: Vec<SiteRow>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolsResponse {
    pools: Vec<PoolRow>,
}

/// The last figures.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) sample: TopSample,
    /// Failures by their cause: all, and those since the figures before.
    pub(super) errors: Vec<(String, u64, u64)>,
    /// Why there are no newer figures.
    pub(super) trouble: Option<String>,
}

/// Asks a Lockgate for all that it tells, as one object.
///
/// # Errors
/// When there is none, or it is one without these figures.
pub(super) fn ask_for_json(socket: &Path) -> anyhow::Result<Value> {
    let get = |path: &str| ask_for::<Value>(socket, path);
    Ok(json!({
        "status": get("/v1/status")?,
        "sites": get("/v1/sites")?["sites"],
        "pools": get("/v1/pools")?["pools"],
        "clients": get("/v1/clients")?,
    }))
}

impl TopSample {
    /// Asks a Lockgate.
    ///
    /// # Errors
    /// When there is none, or it is one without these figures.
    pub(super) fn ask(socket: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            status: ask_for(socket, "/v1/status")?,
            sites: ask_for::<SitesResponse>(socket, "/v1/sites")?.sites,
            pools: ask_for::<PoolsResponse>(socket, "/v1/pools")?.pools,
            clients: ask_for(socket, "/v1/clients")?,
        })
    }

    /// Responses a second of all sites.
    pub(super) fn request_rate(&self) -> f64 {
        let rates = self
            .sites
            .iter()
            .filter_map(|site| site.requests_per_second);
        rates.sum()
    }

    /// Failures of all sites by their cause, the most frequent first.
    pub(super) fn errors(&self) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (cause, count) in self.sites.iter().flat_map(|site| &site.errors) {
            *sums.entry(cause).or_default() += count;
        }
        let sums = sums.into_iter();
        let mut all: Vec<_> = sums.map(|(cause, sum)| (cause.to_owned(), sum)).collect();
        // Those of one count stay in the order of their names.
        all.sort_by_key(|(_, sum)| Reverse(*sum));
        all
    }
}

impl EndpointRow {
    /// The state, with what an operator has set first.
    pub(super) fn shown_state(&self) -> Cow<'_, str> {
        shown_state((&self.state, self.admin.as_deref()))
    }

    /// Whether it takes requests.
    pub(super) fn is_up(&self) -> bool {
        is_up((&self.state, self.admin.as_deref()))
    }

    /// The failures of all kinds.
    pub(super) fn failures(&self) -> u64 {
        self.errors.iter().flat_map(|errors| errors.values()).sum()
    }
}

impl Figures {
    /// The first figures.
    pub(super) fn first(sample: TopSample) -> Self {
        let errors = sample.errors().into_iter();
        Self {
            errors: errors.map(|(cause, count)| (cause, count, 0)).collect(),
            sample,
            trouble: None,
        }
    }

    /// Takes newer figures; without some the last ones stay.
    pub(super) fn take(&mut self, newer: anyhow::Result<TopSample>) {
        let sample = match newer {
            Ok(sample) => sample,
            Err(error) => {
                self.trouble = Some(format!("{error:#}"));
                return;
            }
        };
        let before = |cause: &str| {
            let known = self.errors.iter().find(|(known, ..)| known == cause);
            known.map_or(0, |(_, count, _)| *count)
        };
        let errors = sample.errors().into_iter();
        let errors = errors.map(|(cause, count)| {
            let new = count.saturating_sub(before(&cause));
            (cause, count, new)
        });
        *self = Self {
            errors: errors.collect(),
            sample,
            trouble: None,
        };
    }
}
