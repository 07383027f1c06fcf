//! `/v1/endpoints/add`, `/v1/endpoints/remove`: a pool gets another endpoint, or loses one, while the
//! process serves. It is a reload of the configuration that runs, with the change on top of it.

use std::sync::Arc;

use hyper::StatusCode;
use lockgate_upstream::{Endpoint, EndpointAddress, Member, Pool};
use serde_json::{Map, Value, json};

use super::super::body::{flag, number, text, unknown, unusable};
use super::super::command::{AdminCommand, ReloadOutcome, ReloadRequest, ReloadSource};
use super::super::error::AdminError;
use super::super::kept_changes::{KeptChanges, KeptFile};
use super::super::request::{AdminRequest, AdminResult};
use super::endpoints::{MOST_WEIGHT, keep, kept_file, named_pool, pools_that_use};
use super::reload::{diagnostics, refused, under_way};
use crate::endpoint_changes::{AddedEndpoint, ChangeablePool, EndpointAddr, EndpointChanges};
use crate::exposition::Exposition;

/// Adds an endpoint to a pool, or takes back that it was removed.
pub(super) async fn add(request: AdminRequest) -> AdminResult {
    let body = request.object(&["pool", "endpoint", "weight", "backup", "keep"])?;
    let _turn = request.pool_turn().await?;
    loop {
        let mut changed = ChangedPool::of(&request, &body)?;
        let addr = changed.add(&body)?;
        if changed.is_as_before() {
            return changed.shown(&request, &addr).await;
        }
        if changed.take_over(&request, "").await? {
            tracing::info!(pool = changed.name(), endpoint = %addr, "the endpoint was added");
            return changed.shown(&request, &addr).await;
        }
    }
}

/// Removes an endpoint from a pool, or takes back that it was added.
pub(super) async fn remove(request: AdminRequest) -> AdminResult {
    let body = request.object(&["pool", "endpoint", "keep", "force"])?;
    let _turn = request.pool_turn().await?;
    let _turn_to_take_out = request.turn_to_take_out().await?;
    let is_forced = flag(&body, "force")?;
    let name = text(&body, "endpoint")?;
    loop {
        let mut changed = ChangedPool::of(&request, &body)?;
        if let Some(addr) = changed.removed_before(name).await {
            return changed.shown(&request, &addr).await;
        }
        let addr = changed.endpoint(name)?;
        if !is_forced && changed.needs(&addr) {
            return Err(AdminError::new(
                StatusCode::CONFLICT,
                "last_endpoint",
                format!(
                    "{addr} is the last endpoint of {} that can be used",
                    changed.name()
                ),
                "with `--force` (\"force\": true) the pool has none afterwards",
            ));
        }
        changed.changes.remove(&changed.pool.settings.name, &addr);
        let cure = "; `lockgate endpoint drain` takes the endpoint out all the same";
        if changed.take_over(&request, cure).await? {
            tracing::info!(pool = changed.name(), endpoint = %addr, "the endpoint was removed");
            return changed.shown(&request, &addr).await;
        }
    }
}

/// The pool that a request names, as it runs before the change.
struct ChangedPool {
    exposition: Arc<Exposition>,
    pool: Arc<Pool>,
    written: ChangeablePool,
    /// What is to be on top of the configuration.
    changes: EndpointChanges,
    /// The file in which the change is kept, if it is.
    keep_in: Option<KeptFile>,
}

impl ChangedPool {
    fn of(request: &AdminRequest, body: &Map<String, Value>) -> Result<Self, AdminError> {
        let exposition = request.state.exposition();
        let pool = named_pool(&exposition, body)?;
        let written = exposition.written(&pool);
        let keep_in = flag(body, "keep")?.then(|| kept_file(request));
        Ok(Self {
            changes: EndpointChanges::clone(exposition.changes()),
            written: written.ok_or_else(AdminError::stopping)?,
            keep_in: keep_in.transpose()?,
            exposition,
            pool,
        })
    }

    fn name(&self) -> &str {
        &self.pool.settings.name
    }

    /// Adds the endpoint of the body. One that is there with these settings can be kept only.
    fn add(&mut self, body: &Map<String, Value>) -> Result<EndpointAddr, AdminError> {
        let addr = self.written.address(text(body, "endpoint")?);
        let addr = addr.map_err(|(message, cure)| {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            AdminError::new(status, "bad_address", message, cure)
        })?;
        let weight = number(body, "weight", 1..=MOST_WEIGHT)?;
        let weight = weight.and_then(|weight| u16::try_from(weight).ok());
        if matches!(addr, EndpointAddr::Srv(_)) && weight.is_some() {
            let message = "each record of the service has a weight of its own";
            return Err(unusable(message, "leave `weight` out"));
        }
        let backup = flag(body, "backup")?;
        let as_configured = weight.is_none() && !backup;
        let weight = weight.unwrap_or(1);
        let pool = self.name().to_owned();
        if let Some(settings) = self.written.settings_of(&addr) {
            let is_so =
                settings == (weight, backup) || as_configured && !self.changes.adds(&pool, &addr);
            if self.keep_in.is_some() && is_so {
                return Ok(addr);
            }
            return Err(AdminError::new(
                StatusCode::CONFLICT,
                "already_there",
                format!("{addr} is in {pool} already"),
                "`lockgate endpoint weight` sets its weight",
            ));
        }
        if as_configured && self.changes.removes(&pool, &addr) {
            self.changes.restore(&pool, &addr);
        } else {
            self.changes.add(AddedEndpoint {
                pool,
                addr: addr.clone(),
                weight,
                backup,
            });
        }
        Ok(addr)
    }

    /// Whether nothing is to change but what the next start takes up.
    fn is_as_before(&self) -> bool {
        self.changes == **self.exposition.changes()
    }

    /// The endpoint with this name, if it was removed before and that is to be kept now.
    async fn removed_before(&self, name: &str) -> Option<EndpointAddr> {
        let file = self.keep_in.as_ref()?;
        let addr = EndpointAddr::of_operator(name).ok()?;
        if self.written.settings_of(&addr).is_some() {
            return None;
        }
        let is_removed = self.changes.removes(self.name(), &addr)
            || kept_in(file, self.name(), &addr).await == Some(true);
        is_removed.then_some(addr)
    }

    /// The endpoint of the pool with this name.
    fn endpoint(&self, name: &str) -> Result<EndpointAddr, AdminError> {
        let all = || self.written.addresses();
        let read = EndpointAddr::of_operator(name).ok();
        let is_it = |addr: &&EndpointAddr| {
            addr.to_string() == name || read.as_ref().is_some_and(|read| addr.is_same(read))
        };
        if let Some(addr) = all().find(is_it) {
            return Ok(addr.clone());
        }
        let mut members = self.pool.members().iter().map(Member::endpoint);
        if members.any(|one| one.is_of_record() && one.label == name) {
            return Err(AdminError::new(
                StatusCode::CONFLICT,
                "of_record",
                format!("{name} is an SRV record, which DNS adds and removes"),
                "`lockgate endpoint drain` takes it out; remove srv:NAME to have none of them",
            ));
        }
        let names: Vec<_> = all().map(ToString::to_string).collect();
        let what = format!("endpoint of {}", self.name());
        Err(unknown(&what, name, names.iter().map(String::as_str)))
    }

    /// Whether the pool has no other endpoint that can be used.
    fn needs(&self, addr: &EndpointAddr) -> bool {
        let is_usable = |one: &&Member| one.takes_any_client() && !one.endpoint().is_vacant();
        let mut usable = self.pool.members().iter().filter(is_usable).peekable();
        let is_any = usable.peek().is_some();
        let has_other = usable.any(|one| !is_of(one.endpoint(), addr));
        let is_all = || self.written.addresses().all(|one| one.is_same(addr));
        (is_any && !has_other) || is_all()
    }

    /// Has the supervisor take over the changed pools; returns whether they are of the generation
    /// that runs. If not, the change is to be made anew. `cure` follows that of mistakes.
    async fn take_over(&self, request: &AdminRequest, cure: &str) -> Result<bool, AdminError> {
        let source = ReloadSource::Running(self.changes.clone(), self.exposition.generation());
        let command = |reply| {
            AdminCommand::Reload(ReloadRequest {
                source,
                dry_run: false,
                confirm: None,
                reply: Some(reply),
            })
        };
        match request.ask(command).await? {
            ReloadOutcome::Done(..) => Ok(true),
            ReloadOutcome::Overtaken => Ok(false),
            ReloadOutcome::UnderWay => Err(under_way()),
            ReloadOutcome::Refused(why) => Err(refused(why)),
            ReloadOutcome::Failed(report) => {
                let error = AdminError::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "mistakes",
                    "the configuration that runs cannot be assembled again: nothing has changed",
                    format!("a file that it names may have mistakes now{cure}"),
                );
                Err(error.with("mistakes", diagnostics(&report)))
            }
        }
    }

    /// Keeps the change, if that is asked for, and shows the endpoint as it is now.
    async fn shown(&self, request: &AdminRequest, addr: &EndpointAddr) -> AdminResult {
        let running = request.state.exposition();
        let name = self.name();
        let mut pools = running.pools().iter();
        let pool = pools.find(|pool| pool.settings.name == name);
        let written = pool.and_then(|pool| running.written(pool));
        let named = written.as_ref().and_then(|written| written.named(addr));
        let addr = named.unwrap_or(addr);
        let now = written
            .as_ref()
            .and_then(|written| written.settings_of(addr));
        let in_pool = now.is_some();
        let kept_otherwise = match (&self.keep_in, &request.state.kept) {
            (Some(file), _) => {
                let (running, name) = (Arc::clone(running.changes()), name.to_owned());
                let addr = addr.clone();
                let note = move |kept: &mut KeptChanges| {
                    kept.note_pool(&running, (&name, &addr), in_pool);
                };
                keep(file, note).await?;
                None
            }
            (None, Some(file)) => kept_in(file, name, addr).await,
            (None, None) => None,
        };
        let kept_otherwise = kept_otherwise.filter(|kept| *kept != in_pool);
        let members = self.pool.members().iter().map(Member::endpoint);
        let own: Vec<_> = members.filter(|one| is_of(one, addr)).collect();
        let users = own
            .iter()
            .flat_map(|one| pools_that_use(one, running.pools()));
        let mut others: Vec<_> = users.map(|pool| &*pool.settings.name).collect();
        others.retain(|other| *other != name);
        others.sort_unstable();
        others.dedup();
        let mut shown = json!({
            "pool": name,
            "endpoint": addr.to_string(),
            "in_pool": in_pool,
            "weight": now.map(|(weight, _)| weight),
            "backup": now.map(|(_, backup)| backup),
            "in_flight": own.iter().map(|one| one.in_flight()).sum::<usize>(),
            "connections": own.iter().map(|one| one.connections()).sum::<usize>(),
            "other_pools": others,
            "generation": running.generation(),
            "kept": self.keep_in.is_some(),
            "kept_otherwise": kept_otherwise.is_some(),
        });
        if let Some(in_pool) = kept_otherwise {
            shown["next_start"] = json!({ "in_pool": in_pool });
        }
        Ok(shown)
    }
}

/// Whether an endpoint that runs is the one of the configuration with this address, in any spelling,
/// or one of its records.
fn is_of(endpoint: &Endpoint, addr: &EndpointAddr) -> bool {
    let own = match endpoint.address() {
        EndpointAddress::Ip(address) => Some(EndpointAddr::Ip(*address)),
        EndpointAddress::Unix(path) => Some(EndpointAddr::Unix(path.clone())),
        EndpointAddress::Name(_) => {
            let label = endpoint.label.as_str();
            let service = label.rsplit_once('#').filter(|_| endpoint.is_of_record());
            EndpointAddr::of_operator(service.map_or(label, |(service, _)| service)).ok()
        }
    };
    own.is_some_and(|own| own.is_same(addr))
}

/// Whether the next start has the endpoint in its pool, where that was kept.
async fn kept_in(file: &KeptFile, pool: &str, addr: &EndpointAddr) -> Option<bool> {
    file.read().await.ok()?.into_pools().is_in_pool(pool, addr)
}
