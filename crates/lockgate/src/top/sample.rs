//! The figures of one moment, as the admin socket tells them.

use std::path::Path;

use anyhow::bail;
use serde_json::{Value, json};

use crate::admin_client::ask;
use crate::admin_client::units::plain;

/// The responses to one round of questions.
#[derive(Debug, Default)]
pub(super) struct TopSample {
    pub(super) status: Value,
    pub(super) sites: Value,
    pub(super) pools: Value,
    pub(super) clients: Value,
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

impl TopSample {
    /// Asks a Lockgate.
    ///
    /// # Errors
    /// When there is none, or it is one without these figures.
    pub(super) fn ask(socket: &Path) -> anyhow::Result<Self> {
        let get = |path: &str| {
            let response = ask(socket, "GET", path, Value::Null)?;
            if response.status >= 400 {
                bail!("{path}: {}", plain(&response.value["error"]["message"]));
            }
            Ok(response.value)
        };
        Ok(Self {
            status: get("/v1/status")?,
            sites: get("/v1/sites")?,
            pools: get("/v1/pools")?,
            clients: get("/v1/clients")?,
        })
    }

    /// All of it as one object.
    pub(super) fn into_json(self) -> Value {
        json!({
            "status": self.status,
            "sites": self.sites["sites"],
            "pools": self.pools["pools"],
            "clients": self.clients,
        })
    }

    /// Responses a second of all sites.
    pub(super) fn request_rate(&self) -> f64 {
        let rates = items(&self.sites["sites"]);
        rates
            .filter_map(|site| site["requests_per_second"].as_f64())
            .sum()
    }

    /// Failures of all sites by their cause, the most frequent first.
    pub(super) fn errors(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = Vec::new();
        for site in items(&self.sites["sites"]) {
            for (cause, count) in site["errors"].as_object().into_iter().flatten() {
                let count = count.as_u64().unwrap_or_default();
                match all.iter_mut().find(|(known, _)| known == cause) {
                    Some((_, sum)) => *sum += count,
                    None => all.push((cause.clone(), count)),
                }
            }
        }
        all.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        all
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

/// The elements of a list.
pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
