//! Endpoints that operators have added to pools, or removed from them, while the process runs: what
//! is put on top of each configuration (note 029).

use std::fmt;
use std::sync::Arc;

use lockgate_config::{EndpointMistake, EndpointPool, WeightedEndpoint};
use serde_json::{Value, json};

/// An address, as the configuration and operators name an endpoint.
pub(crate) use lockgate_config::EndpointAddr;

/// The endpoints of a pool that runs, as they were written, and what may be added to them.
#[derive(Debug, Clone)]
pub(crate) struct ChangeablePool(Arc<EndpointPool>);

impl ChangeablePool {
    pub(crate) fn new(pool: &Arc<EndpointPool>) -> Self {
        Self(Arc::clone(pool))
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = &EndpointAddr> {
        self.0.endpoints.iter().map(|one| &one.addr)
    }

    /// The weight of an endpoint, and whether it is a backup; `None` where it is not in the pool.
    pub(crate) fn settings_of(&self, addr: &EndpointAddr) -> Option<(u16, bool)> {
        let mut endpoints = self.0.endpoints.iter();
        let found = endpoints.find(|one| one.addr.is_same(addr))?;
        Some((found.weight, found.backup))
    }

    /// The address of this text, where it can be in the pool; as it is written there, if it is.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub(crate) fn address(&self, text: &str) -> Result<EndpointAddr, (String, String)> {
        let texts = |EndpointMistake { message, cure }| (message, cure);
        let addr = EndpointAddr::of_operator(text).map_err(texts)?;
        if let Some(mistake) = self.0.refuses(&addr) {
            return Err(texts(mistake));
        }
        Ok(self.named(&addr).cloned().unwrap_or(addr))
    }

    /// The address as it is written in the pool, if it is there.
    pub(crate) fn named(&self, addr: &EndpointAddr) -> Option<&EndpointAddr> {
        self.addresses().find(|known| known.is_same(addr))
    }
}

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
    /// The numbers of added endpoints and of removed ones.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.added.len(), self.removed.len())
    }

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
        self.removed.iter().any(|one| one.is_for(pool, addr))
    }

    /// Whether an endpoint was added.
    pub(crate) fn adds(&self, pool: &str, addr: &EndpointAddr) -> bool {
        self.added.iter().any(|one| one.is_for(pool, addr))
    }

    /// Adds an endpoint.
    pub(crate) fn add(&mut self, endpoint: AddedEndpoint) {
        self.added.push(endpoint);
    }

    /// Takes back that an endpoint of the configuration was removed.
    pub(crate) fn restore(&mut self, pool: &str, addr: &EndpointAddr) {
        self.removed.retain(|one| !one.is_for(pool, addr));
    }

    /// Removes an endpoint; one that was added is not remembered.
    pub(crate) fn remove(&mut self, pool: &str, addr: &EndpointAddr) {
        let count = self.added.len();
        self.added.retain(|one| !one.is_for(pool, addr));
        if self.added.len() == count {
            self.removed.push(RemovedEndpoint {
                pool: pool.to_owned(),
                addr: addr.clone(),
            });
        }
    }

    /// Those of one endpoint.
    pub(crate) fn of(&self, pool: &str, addr: &EndpointAddr) -> Self {
        let added = self.added.iter().filter(|one| one.is_for(pool, addr));
        let removed = self.removed.iter().filter(|one| one.is_for(pool, addr));
        Self {
            added: added.cloned().collect(),
            removed: removed.cloned().collect(),
        }
    }

    /// Notes for one endpoint what holds in `running`, in the place of what was noted for it.
    pub(crate) fn note(&mut self, running: &Self, pool: &str, addr: &EndpointAddr) {
        self.added.retain(|one| !one.is_for(pool, addr));
        self.restore(pool, addr);
        let Self { added, removed } = running.of(pool, addr);
        self.added.extend(added);
        self.removed.extend(removed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// These, and those of `ended` that had a place until the reload that is undone. What was
    /// changed since then is the later word.
    pub(crate) fn with_ended(&self, ended: &Self) -> Self {
        let (mut all, added, removed) = (self.clone(), ended.added.iter(), ended.removed.iter());
        let is_left = |one: &&AddedEndpoint| self.is_in_pool(&one.pool, &one.addr).is_none();
        all.added.extend(added.filter(is_left).cloned());
        let is_left = |one: &&RemovedEndpoint| !self.removes(&one.pool, &one.addr);
        all.removed.extend(removed.filter(is_left).cloned());
        all
    }

    /// Forgets those that have ended, unless they were made again and are in `running`.
    pub(crate) fn forget(&mut self, ended: &Self, running: &Self) {
        self.added.retain(|one| {
            let (pool, addr) = (&one.pool, &one.addr);
            !ended.adds(pool, addr) || running.adds(pool, addr)
        });
        self.removed.retain(|one| {
            let (pool, addr) = (&one.pool, &one.addr);
            !ended.removes(pool, addr) || running.removes(pool, addr)
        });
    }

    /// Whether the endpoint is in its pool by these, where they say anything about it.
    pub(crate) fn is_in_pool(&self, pool: &str, addr: &EndpointAddr) -> Option<bool> {
        match (self.adds(pool, addr), self.removes(pool, addr)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Writes them into `object` as its members `added` and `removed`, where there are any.
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
        if !self.added.is_empty() {
            object["added"] = added.collect();
        }
        if !self.removed.is_empty() {
            object["removed"] = removed.collect();
        }
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
    fn is_for(&self, pool: &str, addr: &EndpointAddr) -> bool {
        self.pool == pool && self.addr.is_same(addr)
    }

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

impl RemovedEndpoint {
    fn is_for(&self, pool: &str, addr: &EndpointAddr) -> bool {
        self.pool == pool && self.addr.is_same(addr)
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
    ended: EndpointChanges,
    /// What is said of those that have ended.
    said: Vec<EndedChange>,
}

/// The changes after they were put on top of all pools.
#[derive(Debug)]
pub(crate) struct PlacedChanges {
    pub(crate) hold: EndpointChanges,
    /// Those that the configuration leaves no place.
    pub(crate) ended: EndpointChanges,
    /// What is said of each of these.
    pub(crate) said: Vec<EndedChange>,
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
            pool.endpoints
                .retain(|endpoint| !endpoint.addr.is_same(&one.addr));
            if pool.endpoints.len() < count {
                self.hold.removed.push(one);
            } else {
                self.say(&one, "the configuration does not name it");
                self.ended.removed.push(one);
            }
        }
        for one in added {
            let mut named = pool.endpoints.iter();
            let ends = match named.any(|endpoint| endpoint.addr.is_same(&one.addr)) {
                true => Some("the configuration names it".to_owned()),
                false => pool.refuses(&one.addr).map(|mistake| mistake.message),
            };
            if let Some(why) = ends {
                self.say(&one, &why);
                self.ended.added.push(one);
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

    /// What has become of the changes.
    pub(crate) fn finish(mut self) -> PlacedChanges {
        let EndpointChanges { added, removed } = std::mem::take(&mut self.left);
        let no_pool = "there is no such pool in use";
        added.iter().for_each(|one| self.say(one, no_pool));
        removed.iter().for_each(|one| self.say(one, no_pool));
        self.ended.added.extend(added);
        self.ended.removed.extend(removed);
        PlacedChanges {
            hold: self.hold,
            ended: self.ended,
            said: self.said,
        }
    }

    fn say(&mut self, change: &impl fmt::Display, why: &str) {
        self.said.push(EndedChange {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> EndpointAddr {
        EndpointAddr::of_operator(text).unwrap()
    }

    fn added(pool: &str, text: &str) -> AddedEndpoint {
        AddedEndpoint {
            pool: pool.to_owned(),
            addr: addr(text),
            weight: 2,
            backup: true,
        }
    }

    #[test]
    fn changes_are_read_as_they_were_written_and_other_forms_are_errors() {
        let mut changes = EndpointChanges::default();
        let written = |changes: &EndpointChanges| {
            let mut object = json!({});
            changes.write(&mut object);
            object
        };
        assert_eq!(written(&changes), json!({}));
        changes.add(added("app", "10.0.0.1:80"));
        changes.remove("other", &addr("unix:/run/a.sock"));
        let object = written(&changes);
        assert_eq!(EndpointChanges::read(&object), Some(changes));
        for wrong in [
            json!({ "added": [{ "pool": "app", "endpoint": "10.0.0.1:80", "weight": 2 }] }),
            json!({ "added": [{ "pool": "app", "endpoint": "x", "weight": 2, "backup": true }] }),
            json!({ "added": [{ "pool": "a", "endpoint": "b:1", "weight": 0, "backup": true }] }),
            json!({ "removed": [{ "endpoint": "10.0.0.1:80" }] }),
            json!({ "removed": ["10.0.0.1:80"] }),
        ] {
            assert_eq!(EndpointChanges::read(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_opposite_of_a_change_takes_it_back() {
        let (one, pool) = (addr("10.0.0.1:80"), "app");
        let mut changes = EndpointChanges::default();
        changes.add(added(pool, "10.0.0.1:80"));
        changes.remove(pool, &one);
        assert_eq!(changes, EndpointChanges::default());
        changes.remove(pool, &one);
        assert_eq!(changes.is_in_pool(pool, &one), Some(false));
        changes.restore("other", &one);
        assert!(changes.removes(pool, &one));
        // With other settings it is another endpoint: the configured one stays away.
        changes.add(added(pool, "10.0.0.1:80"));
        assert_eq!(changes.is_in_pool(pool, &one), Some(true));
        assert_eq!(changes.removed_from(pool).count(), 0);
        changes.remove(pool, &one);
        assert_eq!(changes.removed_from(pool).count(), 1);
        changes.restore(pool, &one);
        assert_eq!(changes, EndpointChanges::default());
    }

    #[test]
    fn what_holds_takes_the_place_of_what_was_noted() {
        let (mut kept, mut running) = (EndpointChanges::default(), EndpointChanges::default());
        kept.add(added("app", "10.0.0.1:80"));
        kept.add(added("app", "10.0.0.2:80"));
        running.remove("app", &addr("10.0.0.1:80"));
        running.add(added("app", "10.0.0.3:80"));
        kept.note(&running, "app", &addr("10.0.0.1:80"));
        assert_eq!(kept.added, [added("app", "10.0.0.2:80")]);
        assert!(kept.removes("app", &addr("10.0.0.1:80")));
    }

    #[test]
    fn an_endpoint_is_known_by_its_other_spellings() {
        let mut changes = EndpointChanges::default();
        changes.add(added("app", "App.internal:80"));
        assert!(changes.adds("app", &addr("app.internal.:80")));
        changes.remove("app", &addr("app.INTERNAL:80"));
        assert!(changes.is_empty());
        changes.remove("app", &addr("[::ffff:10.0.0.1]:80"));
        assert!(changes.removes("app", &addr("10.0.0.1:80")));
    }

    #[test]
    fn ended_changes_come_back_unless_later_ones_say_otherwise() {
        let (mut running, mut ended) = (EndpointChanges::default(), EndpointChanges::default());
        ended.add(added("app", "10.0.0.1:80"));
        ended.add(added("app", "10.0.0.2:80"));
        ended.remove("app", &addr("10.0.0.3:80"));
        running.remove("app", &addr("10.0.0.2:80"));
        let all = running.with_ended(&ended);
        assert_eq!(all.added, [added("app", "10.0.0.1:80")]);
        for removed in ["10.0.0.2:80", "10.0.0.3:80"] {
            assert!(all.removes("app", &addr(removed)), "{removed}");
        }
    }

    #[test]
    fn ended_changes_are_forgotten_unless_they_were_made_again() {
        let (mut kept, mut ended) = (EndpointChanges::default(), EndpointChanges::default());
        let mut running = EndpointChanges::default();
        for of in [&mut kept, &mut ended] {
            of.add(added("app", "10.0.0.1:80"));
            of.add(added("app", "10.0.0.2:80"));
            of.remove("app", &addr("10.0.0.3:80"));
        }
        kept.add(added("other", "10.0.0.1:80"));
        running.add(added("app", "10.0.0.2:80"));
        kept.forget(&ended, &running);
        assert_eq!(
            kept.added,
            [added("app", "10.0.0.2:80"), added("other", "10.0.0.1:80")]
        );
        assert_eq!(kept.removed, []);
    }
}
