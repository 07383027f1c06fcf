//! What operators have set while the process ran, as an upgrade hands it over: endpoints, sites in
//! maintenance, bans, and the level of the operator log.

use std::time::Duration;

use anyhow::Context as _;
use lockgate_limits::clock;
use lockgate_net::millis::Millis;
use lockgate_proxy::admit::client_bans::Ban;
use lockgate_proxy::site::MaintenanceResponse;
use lockgate_rules::network::Cidr;
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

use super::kept_changes::KeptChanges;
use super::resources::{level_name, level_named};
use crate::endpoint_changes::EndpointChanges;
use crate::exposition::Exposition;
use crate::operator_log;

/// The run-time changes of a process.
#[derive(Debug, PartialEq)]
pub(crate) struct HandedChanges {
    /// Of every endpoint, since what the folder of `state` keeps may hold no longer.
    endpoints: KeptChanges,
    maintenance: Vec<(String, MaintenanceResponse)>,
    bans: Vec<(Cidr, Ban)>,
    /// The level of the operator log, if it is not that of the configuration.
    level: Option<LevelFilter>,
}

impl HandedChanges {
    /// Those of the process with these figures; `configured` is the level of the configuration.
    pub(crate) fn of(exposition: &Exposition, configured: LevelFilter) -> Self {
        let sites = exposition.site_maintenance().iter();
        let sites = sites.filter_map(|(site, state)| Some((site.clone(), state.response()?)));
        let level = LevelFilter::current();
        Self {
            endpoints: KeptChanges::of_running(exposition),
            maintenance: sites.collect(),
            bans: exposition.bans().list(clock::now()),
            level: (level != configured).then_some(level),
        }
    }

    /// Sets them in the process with these figures. What has no place there is told.
    pub(crate) fn apply(self, exposition: &Exposition) {
        self.endpoints.apply(exposition.pools());
        for (site, response) in self.maintenance {
            let mut known = exposition.site_maintenance().iter();
            match known.find(|(name, _)| *name == site) {
                Some((_, state)) => state.set(Some(response)),
                None => tracing::warn!(site, "a site was in maintenance that does not exist now"),
            }
        }
        exposition.bans().take_over(self.bans);
        if let Some(level) = self.level {
            operator_log::set_level(level);
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let now = clock::now();
        let maintenance = self.maintenance.iter().map(|(site, response)| {
            json!({
                "site": site,
                "status": response.status,
                "retry_after_seconds": response.retry_after,
            })
        });
        let bans = self.bans.iter().map(|(network, ban)| {
            json!({
                "client": network.to_string(),
                "left_ms": (ban.until - now).as_u64(),
                "reason": &*ban.reason,
            })
        });
        json!({
            "kept": self.endpoints.to_json(),
            "maintenance": maintenance.collect::<Vec<_>>(),
            "bans": bans.collect::<Vec<_>>(),
            "level": self.level.and_then(level_name),
        })
    }

    /// The endpoints that were added to pools and removed, of an offer; `None` for another form.
    pub(crate) fn pools_of_json(offered: &Value) -> Option<EndpointChanges> {
        EndpointChanges::read(&offered["kept"])
    }

    /// The changes of an offer.
    ///
    /// # Errors
    /// When it has another form.
    pub(crate) fn of_json(offered: &Value) -> anyhow::Result<Self> {
        let now = clock::now();
        let all = |name: &str| offered[name].as_array().into_iter().flatten();
        let maintenance = all("maintenance").map(site_of_json);
        let bans = all("bans").map(|one| ban_of_json(one, now));
        let level = match &offered["level"] {
            Value::Null => None,
            level => {
                let level = level.as_str().and_then(level_named);
                Some(level.context("the level is unknown")?)
            }
        };
        Ok(Self {
            endpoints: KeptChanges::of_json(&offered["kept"])?,
            maintenance: maintenance
                .collect::<Option<_>>()
                .context("a site in maintenance is unusable")?,
            bans: bans.collect::<Option<_>>().context("a ban is unusable")?,
            level,
        })
    }
}

fn site_of_json(written: &Value) -> Option<(String, MaintenanceResponse)> {
    let response = MaintenanceResponse {
        status: u16::try_from(written["status"].as_u64()?).ok()?,
        retry_after: u32::try_from(written["retry_after_seconds"].as_u64()?).ok()?,
    };
    Some((written["site"].as_str()?.to_owned(), response))
}

fn ban_of_json(written: &Value, now: Millis) -> Option<(Cidr, Ban)> {
    let left = Duration::from_millis(written["left_ms"].as_u64()?);
    let ban = Ban {
        until: now + Millis::from(left),
        reason: written["reason"].as_str()?.into(),
    };
    Some((Cidr::parse(written["client"].as_str()?).ok()?, ban))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handed_changes_are_read_as_they_were_written() {
        let ban = |left: u64, reason: &str| Ban {
            until: clock::now() + Millis::new(left),
            reason: reason.into(),
        };
        let response = MaintenanceResponse {
            status: 503,
            retry_after: u32::MAX,
        };
        let changes = HandedChanges {
            endpoints: KeptChanges::default(),
            maintenance: vec![("a.test".to_owned(), response)],
            bans: vec![
                (Cidr::parse("192.0.2.1").unwrap(), ban(90_000, "scans")),
                (Cidr::parse("2001:db8::/64").unwrap(), ban(9_000_000, "")),
            ],
            level: Some(LevelFilter::DEBUG),
        };
        let read = HandedChanges::of_json(&changes.to_json()).unwrap();
        assert_eq!(read.maintenance, changes.maintenance);
        assert_eq!(read.level, changes.level);
        assert_eq!(read.bans.len(), 2);
        for ((network, ban), (as_made, made)) in read.bans.iter().zip(&changes.bans) {
            assert_eq!((network, &ban.reason), (as_made, &made.reason));
            assert!(ban.until <= made.until + Millis::new(60_000));
        }
    }

    #[test]
    fn handed_changes_of_another_form_are_errors() {
        let kept = r#""kept": { "version": 1, "endpoints": [] }"#;
        for text in [
            "{}".to_owned(),
            format!(r#"{{ {kept}, "level": "loud" }}"#),
            format!(r#"{{ {kept}, "bans": [{{ "client": "x", "left_ms": 1, "reason": "" }}] }}"#),
            format!(r#"{{ {kept}, "maintenance": [{{ "site": "a.test" }}] }}"#),
        ] {
            let offered = serde_json::from_str(&text).unwrap();
            assert!(HandedChanges::of_json(&offered).is_err(), "{text}");
        }
    }
}
