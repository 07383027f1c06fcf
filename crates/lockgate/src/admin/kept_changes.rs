//! What operators have set for endpoints, as the folder of `state` keeps it for the next start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use lockgate_limits::clock;
use lockgate_upstream::{AdminMode, Member, Pool};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::endpoint_changes::{EndpointAddr, EndpointChanges};
use crate::exposition::Exposition;
use crate::state;
use crate::views::mode_name;

/// The versions of the file's form: that of endpoints in their pools, and the one that has pools with
/// other endpoints too. A program that knows only the first must not write such a file anew, without
/// what it does not know.
const VERSION: u64 = 1;
const VERSION_OF_POOLS: u64 = 2;

/// The file of the kept changes.
#[derive(Debug, Clone)]
pub(crate) struct KeptFile {
    folder: PathBuf,
    /// Held while the file is read, changed and written.
    turn: Arc<Mutex<()>>,
}

impl KeptFile {
    /// That of the folder of `state`.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            turn: Arc::default(),
        }
    }

    /// Reads it, in a thread: the disk may take its time.
    ///
    /// # Errors
    /// When it cannot be read, or has another form.
    pub(super) async fn read(&self) -> anyhow::Result<KeptChanges> {
        let folder = self.folder.clone();
        spawn_blocking(move || KeptChanges::read(&folder)).await?
    }

    /// Changes it, after all changes before. Nothing is written where nothing changes.
    ///
    /// # Errors
    /// When it cannot be read or written; the old file then stays.
    pub(crate) async fn change(
        &self,
        note: impl FnOnce(&mut KeptChanges) + Send + 'static,
    ) -> anyhow::Result<()> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let folder = self.folder.clone();
        let changed = spawn_blocking(move || {
            // Also where the client does not wait for the end.
            let _turn = turn;
            let mut kept = KeptChanges::read(&folder)?;
            let before = kept.to_text();
            note(&mut kept);
            match kept.to_text() == before {
                true => Ok(()),
                false => kept.write(&folder),
            }
        });
        changed.await?
    }
}

/// The kept changes, in the order of their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptChanges {
    endpoints: Vec<KeptEndpoint>,
    /// The endpoints that were added to pools and removed.
    pools: EndpointChanges,
}

/// What was set for one endpoint of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptEndpoint {
    pool: String,
    endpoint: String,
    mode: AdminMode,
    weight: Option<u32>,
}

impl KeptChanges {
    /// Those of a folder at a start; none where none were kept.
    ///
    /// # Errors
    /// When the file cannot be read, or has another form.
    pub(crate) fn at_start(folder: &Path) -> anyhow::Result<Self> {
        Self::of_text(state::changes_at_start(folder)?)
    }

    fn read(folder: &Path) -> anyhow::Result<Self> {
        Self::of_text(state::changes(folder)?)
    }

    fn of_text(text: Option<String>) -> anyhow::Result<Self> {
        let Some(text) = text else {
            return Ok(Self::default());
        };
        Self::of_json(&serde_json::from_str(&text).context("it is no JSON")?)
    }

    /// Those of a text in the form of the file.
    ///
    /// # Errors
    /// When it has another form.
    pub(super) fn of_json(file: &Value) -> anyhow::Result<Self> {
        let is_known = |version| [VERSION, VERSION_OF_POOLS].contains(&version);
        if !file["version"].as_u64().is_some_and(is_known) {
            let version = &file["version"];
            bail!("its version is {version}, not {VERSION} or {VERSION_OF_POOLS}");
        }
        let written = file["endpoints"].as_array().into_iter().flatten();
        let endpoints =
            written.map(|one| KeptEndpoint::of_json(one).context("an entry is unusable"));
        Ok(Self {
            endpoints: endpoints.collect::<anyhow::Result<_>>()?,
            pools: EndpointChanges::read(file).context("an endpoint is unusable")?,
        })
    }

    /// The state of every endpoint that runs, also of those for which nothing was set. Of SRV
    /// records, which may be others in another process, those with a change are told.
    pub(super) fn of_running(exposition: &Exposition) -> Self {
        let named = exposition
            .pools()
            .iter()
            .filter(|pool| !pool.settings.name.is_empty());
        let members = named.flat_map(|pool| pool.members().iter().map(move |one| (pool, one)));
        let mut all = Self {
            pools: EndpointChanges::clone(exposition.changes()),
            ..Self::default()
        };
        for (pool, member) in members {
            let state = KeptEndpoint::of(&pool.settings.name, member);
            if !member.endpoint().is_of_record() {
                all.endpoints.push(state);
            } else if !state.is_as_configured() {
                let (pool, endpoint) = (state.pool, state.endpoint);
                tracing::warn!(
                    pool,
                    endpoint,
                    "a change for an SRV record is not handed over"
                );
            }
        }
        all
    }

    /// Sets in `pools` what was kept; entries for endpoints that do not exist are told.
    pub(crate) fn apply(&self, pools: &[Arc<Pool>]) {
        for kept in &self.endpoints {
            let (pool, endpoint) = (&*kept.pool, &*kept.endpoint);
            let found = pools.iter().find(|known| known.settings.name == pool);
            let members = found.iter().flat_map(|pool| pool.members());
            let named = members.filter(|member| member.endpoint().label == endpoint);
            let (mut known, mut set) = (0, 0);
            for member in named {
                known += 1;
                if (member.mode(), member.weight_override()) != (kept.mode, kept.weight) {
                    member.set_mode(kept.mode, clock::now());
                    member.override_weight(kept.weight);
                    set += 1;
                }
            }
            if known == 0 && !kept.is_as_configured() {
                tracing::warn!(
                    pool,
                    endpoint,
                    "a kept change is for an endpoint that does not exist"
                );
            }
            if set == 0 {
                continue;
            }
            found.iter().for_each(|pool| pool.reweigh());
            let (admin, weight) = (mode_name(kept.mode), kept.weight);
            tracing::info!(pool, endpoint, admin, weight, "a kept change holds");
        }
        let is_named = |pool: &&Arc<Pool>| {
            let mut kept = self.endpoints.iter();
            kept.any(|kept| kept.pool == pool.settings.name && !kept.is_as_configured())
        };
        for pool in pools.iter().filter(is_named) {
            let takes_any = |member: &Member| member.is_ready() && member.weight() > 0;
            if !pool.members().iter().any(takes_any) {
                tracing::warn!(
                    pool = &*pool.settings.name,
                    "by kept changes the pool has no endpoint that can be used"
                );
            }
        }
    }

    /// Notes what holds for an endpoint in place of what was kept for it.
    pub(super) fn note(&mut self, holds: KeptEndpoint) {
        self.endpoints.retain(|kept| !kept.is_for_same(&holds));
        if !holds.is_as_configured() {
            self.endpoints.push(holds);
        }
        let name = |kept: &KeptEndpoint| (kept.pool.clone(), kept.endpoint.clone());
        self.endpoints.sort_by_key(name);
    }

    /// The endpoints that were added to pools and removed.
    pub(crate) fn into_pools(self) -> EndpointChanges {
        self.pools
    }

    /// Notes of an endpoint whether it was added or removed, in place of what was kept of that. What
    /// was set for one that is not in its pool goes with it.
    pub(super) fn note_pool(
        &mut self,
        running: &EndpointChanges,
        (pool, addr): (&str, &EndpointAddr),
        in_pool: bool,
    ) {
        self.pools.note(running, pool, addr);
        if !in_pool {
            let endpoint = addr.to_string();
            self.endpoints
                .retain(|kept| kept.pool != pool || kept.endpoint != endpoint);
        }
    }

    /// Forgets of the endpoints that were added and removed those that have ended, unless they were
    /// made again and are in `running`.
    pub(crate) fn forget(&mut self, ended: &EndpointChanges, running: &EndpointChanges) {
        self.pools.forget(ended, running);
    }

    /// What was kept for the endpoint, if that is other than what holds.
    pub(super) fn other_than(self, holds: &KeptEndpoint) -> Option<KeptEndpoint> {
        let mut kept = self.endpoints.into_iter();
        kept.find(|kept| kept.is_for_same(holds) && kept != holds)
    }

    /// Writes the file of the folder.
    ///
    /// # Errors
    /// What the system says; the old file then stays.
    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        Ok(state::keep_changes(folder, &self.to_text())?)
    }

    /// The text of the file.
    fn to_text(&self) -> String {
        format!("{:#}\n", self.to_json())
    }

    /// The same as a value.
    pub(super) fn to_json(&self) -> Value {
        let endpoints: Vec<_> = self.endpoints.iter().map(KeptEndpoint::to_json).collect();
        let version = match self.pools.is_empty() {
            true => VERSION,
            false => VERSION_OF_POOLS,
        };
        let mut file = json!({ "version": version, "endpoints": endpoints });
        self.pools.write(&mut file);
        file
    }
}

impl KeptEndpoint {
    /// What holds for the member of a pool now.
    pub(super) fn of(pool: &str, member: &Member) -> Self {
        Self {
            pool: pool.to_owned(),
            endpoint: member.endpoint().label.clone(),
            mode: member.mode(),
            weight: member.weight_override(),
        }
    }

    /// Its mode and its weight, as the next start sets them.
    pub(super) fn state(&self) -> Value {
        json!({ "admin": mode_name(self.mode), "weight": self.weight })
    }

    fn is_as_configured(&self) -> bool {
        (self.mode, self.weight) == (AdminMode::Ready, None)
    }

    fn is_for_same(&self, other: &Self) -> bool {
        (&self.pool, &self.endpoint) == (&other.pool, &other.endpoint)
    }

    fn of_json(written: &Value) -> Option<Self> {
        let text = |name: &str| written[name].as_str().map(str::to_owned);
        let mode = match &written["admin"] {
            Value::Null => AdminMode::Ready,
            Value::String(mode) if mode == "drain" => AdminMode::Drain,
            Value::String(mode) if mode == "maintenance" => AdminMode::Maintenance,
            _ => return None,
        };
        let weight = match &written["weight"] {
            Value::Null => None,
            weight => Some(u32::try_from(weight.as_u64()?).ok()?),
        };
        Some(Self {
            pool: text("pool")?,
            endpoint: text("endpoint")?,
            mode,
            weight,
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "pool": self.pool,
            "endpoint": self.endpoint,
            "admin": mode_name(self.mode),
            "weight": self.weight,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_changes_have_one_form_and_unknown_ones_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            state::keep_changes(folder.path(), text).unwrap();
            KeptChanges::read(folder.path())
        };
        assert_eq!(
            KeptChanges::read(folder.path()).unwrap(),
            KeptChanges::default()
        );
        let kept = |mode, weight| KeptChanges {
            endpoints: vec![KeptEndpoint {
                pool: "app".into(),
                endpoint: "10.0.0.1:80".into(),
                mode,
                weight,
            }],
            pools: EndpointChanges::default(),
        };
        for changes in [
            kept(AdminMode::Drain, None),
            kept(AdminMode::Maintenance, Some(0)),
            kept(AdminMode::Ready, Some(256)),
            KeptChanges::default(),
        ] {
            assert_eq!(read(&changes.to_text()).unwrap(), changes);
        }
        for text in [
            "",
            "{}",
            r#"{ "version": 3, "endpoints": [] }"#,
            r#"{ "version": 1, "endpoints": [{ "pool": "app" }] }"#,
            r#"{ "version": 1, "endpoints": [{ "pool": "a", "endpoint": "b", "admin": "off" }] }"#,
            r#"{ "version": 1, "endpoints": [{ "pool": "a", "endpoint": "b", "weight": -1 }] }"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn kept_changes_of_pools_have_a_version_that_earlier_programs_refuse() {
        let mut changes = KeptChanges::default();
        assert_eq!(changes.to_json()["version"], 1);
        let addr = EndpointAddr::of_operator("10.0.0.1:80").unwrap();
        changes.pools.remove("app", &addr);
        assert_eq!(changes.to_json()["version"], 2);
        assert_eq!(KeptChanges::of_json(&changes.to_json()).unwrap(), changes);
    }
}
