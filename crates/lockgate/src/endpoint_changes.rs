//! Endpoints that operators have added to pools, or removed from them, while the process runs: what
//! is put on top of each configuration (note 029).

use std::fmt;
use std::sync::Arc;

use lockgate_config::{EndpointAddr, EndpointPool, WeightedEndpoint};
use serde_json::{Value, json};

/// All such changes that hold, or are to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EndpointChanges {
    added: Vec<AddedEndpoint>,
    removed: Vec<RemovedEndpoint>,
}

/// An endpoint that the configuration does not name, or names with other settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddedEndpoint {
    pub(crate) pool: String,
    pub(crate) addr: EndpointAddr,
    pub(crate) weight: u16,
    pub(crate) backup: bool,
}

/// An endpoint of the configuration that is in its pool no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RemovedEndpoint {
    pool: String,
    addr: EndpointAddr,
}

/// A change that a configuration leaves no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedChange {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl EndpointChanges {
    /// The endpoints that were added to the pool.
    pub(crate) fn added_to<'c>(&'c self, pool: &'c str) -> impl Iterator<Item = String> + 'c {
        let added = self.added.iter().filter(move |one| one.pool == pool);
        added.map(|one| one.addr.to_string())
    }

    /// The endpoints that were removed from the pool, without those that were added again.
    pub(crate) fn removed_from<'c>(&'c self, pool: &'c str) -> impl Iterator<Item = String> + 'c {
        let removed = self.removed.iter().filter(move |one| one.pool == pool);
        let is_away = |one: &&RemovedEndpoint| !self.adds(pool, &one.addr);
        removed.filter(is_away).map(|one| one.addr.to_string())
    }

    /// Whether an endpoint of the configuration was removed.
    pub(crate) fn removes(&self, pool: &str, addr: &EndpointAddr) -> bool {
        let mut removed = self.removed.iter();
        removed.any(|one| one.pool == pool && one.addr == *addr)
    }

    fn adds(&self, pool: &str, addr: &EndpointAddr) -> bool {
        let mut added = self.added.iter();
        added.any(|one| one.pool == pool && one.addr == *addr)
    }

    /// Adds an endpoint.
    pub(crate) fn add(&mut self, endpoint: AddedEndpoint) {
        self.added.push(endpoint);
    }

    /// Takes back that an endpoint of the configuration was removed.
    pub(crate) fn restore(&mut self, pool: &str, addr: &EndpointAddr) {
        self.removed
            .retain(|one| one.pool != pool || one.addr != *addr);
    }

    /// Removes an endpoint; one that was added is not remembered.
    pub(crate) fn remove(&mut self, pool: &str, addr: &EndpointAddr) {
        let is_other = |one: &AddedEndpoint| one.pool != pool || one.addr != *addr;
        let count = self.added.len();
        self.added.retain(is_other);
        if self.added.len() == count {
            self.removed.push(RemovedEndpoint {
                pool: pool.to_owned(),
                addr: addr.clone(),
            });
        }
    }

    /// Those of one endpoint.
    pub(crate) fn of(&self, pool: &str, addr: &EndpointAddr) -> Self {
        let added = self.added.iter();
        let removed = self.removed.iter();
        Self {
            added: added
                .filter(|one| one.pool == pool && one.addr == *addr)
                .cloned()
                .collect(),
            removed: removed
                .filter(|one| one.pool == pool && one.addr == *addr)
                .cloned()
                .collect(),
        }
    }

    /// Notes for one endpoint what holds in `running`, in the place of what was noted for it.
    pub(crate) fn note(&mut self, running: &Self, pool: &str, addr: &EndpointAddr) {
        self.added
            .retain(|one| one.pool != pool || one.addr != *addr);
        self.restore(pool, addr);
        let Self { added, removed } = running.of(pool, addr);
        self.added.extend(added);
        self.removed.extend(removed);
    }

    /// Whether the endpoint is in its pool by these, where they say anything about it.
    pub(crate) fn is_in_pool(&self, pool: &str, addr: &EndpointAddr) -> Option<bool> {
        match (self.adds(pool, addr), self.removes(pool, addr)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Writes them into `object` as its members `added` and `removed`.
    pub(crate) fn write(&self, object: &mut Value) {
        let added = self.added.iter().map(|one| {
            json!({
                "pool": one.pool,
                "endpoint": one.addr.to_string(),
                "weight": one.weight,
                "backup": one.backup,
            })
        });
        let removed = self.removed.iter();
        let removed =
            removed.map(|one| json!({ "pool": one.pool, "endpoint": one.addr.to_string() }));
        object["added"] = added.collect();
        object["removed"] = removed.collect();
    }

    /// Those that were written into `object`, which may have none; `None` for another form.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let all = |name: &str| object[name].as_array().into_iter().flatten();
        let added = all("added").map(AddedEndpoint::read);
        let removed = all("removed").map(|written| {
            let (pool, addr) = named(written)?;
            Some(RemovedEndpoint { pool, addr })
        });
        Some(Self {
            added: added.collect::<Option<_>>()?,
            removed: removed.collect::<Option<_>>()?,
        })
    }
}

impl AddedEndpoint {
    fn read(written: &Value) -> Option<Self> {
        let (pool, addr) = named(written)?;
        let weight = u16::try_from(written["weight"].as_u64()?).ok();
        Some(Self {
            pool,
            addr,
            weight: weight.filter(|weight| (1..=256).contains(weight))?,
            backup: written["backup"].as_bool()?,
        })
    }
}

fn named(written: &Value) -> Option<(String, EndpointAddr)> {
    let addr = EndpointAddr::of_operator(written["endpoint"].as_str()?).ok()?;
    Some((written["pool"].as_str()?.to_owned(), addr))
}

/// The changes while they are put on top of the pools of a configuration, one by one.
#[derive(Debug, Default)]
pub(crate) struct ChangedPools {
    /// Those of pools that have not come yet.
    left: EndpointChanges,
    hold: EndpointChanges,
    ended: Vec<EndedChange>,
}

impl ChangedPools {
    pub(crate) fn new(changes: EndpointChanges) -> Self {
        Self {
            left: changes,
            ..Self::default()
        }
    }

    /// The pool as it is to run. `max` is the limit that the configuration has for an endpoint.
    pub(crate) fn change(
        &mut self,
        name: &str,
        written: &Arc<EndpointPool>,
        max: impl Fn(&EndpointAddr) -> Option<usize>,
    ) -> Arc<EndpointPool> {
        let added = self.left.added.extract_if(.., |one| one.pool == name);
        let added: Vec<_> = added.collect();
        let removed = self.left.removed.extract_if(.., |one| one.pool == name);
        let removed: Vec<_> = removed.collect();
        if added.is_empty() && removed.is_empty() {
            return Arc::clone(written);
        }
        let mut pool = EndpointPool::clone(written);
        for one in removed {
            let count = pool.endpoints.len();
            pool.endpoints.retain(|endpoint| endpoint.addr != one.addr);
            if pool.endpoints.len() < count {
                self.hold.removed.push(one);
            } else {
                self.end(&one, "the configuration does not name it");
            }
        }
        for one in added {
            let mut named = pool.endpoints.iter();
            if named.any(|endpoint| endpoint.addr == one.addr) {
                self.end(&one, "the configuration names it");
                continue;
            }
            if let Some(mistake) = pool.refuses(&one.addr) {
                self.end(&one, &mistake.message);
                continue;
            }
            pool.endpoints.push(WeightedEndpoint {
                addr: one.addr.clone(),
                weight: one.weight,
                max: max(&one.addr),
                backup: one.backup,
                at: pool.at.clone(),
            });
            self.hold.added.push(one);
        }
        Arc::new(pool)
    }

    /// The changes that hold, and those that do not.
    pub(crate) fn finish(mut self) -> (EndpointChanges, Vec<EndedChange>) {
        let left = std::mem::take(&mut self.left);
        let no_pool = "there is no such pool in use";
        left.added.iter().for_each(|one| self.end(one, no_pool));
        left.removed.iter().for_each(|one| self.end(one, no_pool));
        (self.hold, self.ended)
    }

    fn end(&mut self, change: &impl fmt::Display, why: &str) {
        self.ended.push(EndedChange {
            what: change.to_string(),
            why: why.to_owned(),
        });
    }
}

impl fmt::Display for AddedEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was added to {}", self.addr, self.pool)
    }
}

impl fmt::Display for RemovedEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was removed from {}", self.addr, self.pool)
    }
}
