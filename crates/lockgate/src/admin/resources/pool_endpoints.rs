//! `/v1/endpoints/add`, `/v1/endpoints/remove`: a pool gets another endpoint, or loses one, while the
//! process serves. It is a reload of the configuration that runs, with the change on top of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::StatusCode;
use lockgate_upstream::{Endpoint, Member, Pool};
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use super::super::body::{flag, number, text, unknown, unusable};
use super::super::command::{AdminCommand, ReloadOutcome, ReloadRequest, ReloadSource};
use super::super::error::AdminError;
use super::super::kept_changes::KeptChanges;
use super::super::request::{AdminRequest, AdminResult};
use super::endpoints::{MOST_WEIGHT, keep, named_pool, pools_that_use, state_folder};
use super::reload::{diagnostics, refused};
use crate::endpoint_changes::{AddedEndpoint, ChangeablePool, EndpointAddr, EndpointChanges};
use crate::exposition::Exposition;

/// Adds an endpoint to a pool, or takes back that it was removed.
pub(super) async fn add(request: AdminRequest) -> AdminResult {
    let body = request.object(&["pool", "endpoint", "weight", "backup", "keep"])?;
    let mut changed = ChangedPool::of(&request, &body)?;
    let addr = changed.written.address(text(&body, "endpoint")?);
    let addr = addr.map_err(|(message, cure)| {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        AdminError::new(status, "bad_address", message, cure)
    })?;
    let name = changed.name().to_owned();
    if changed.written.settings_of(&addr).is_some() {
        return Err(AdminError::new(
            StatusCode::CONFLICT,
            "already_there",
            format!("{addr} is in {name} already"),
            "`lockgate endpoint weight` sets its weight",
        ));
    }
    let weight = number(&body, "weight", 1..=MOST_WEIGHT)?;
    let weight = weight.and_then(|weight| u16::try_from(weight).ok());
    if matches!(addr, EndpointAddr::Srv(_)) && weight.is_some() {
        let message = "each record of the service has a weight of its own";
        return Err(unusable(message, "leave `weight` out"));
    }
    let backup = flag(&body, "backup")?;
    let as_configured = weight.is_none() && !backup;
    if as_configured && changed.changes.removes(&name, &addr) {
        changed.changes.restore(&name, &addr);
    } else {
        changed.changes.add(AddedEndpoint {
            pool: name.clone(),
            addr: addr.clone(),
            weight: weight.unwrap_or(1),
            backup,
        });
    }
    let generation = changed.take_over(&request).await?;
    tracing::info!(pool = name, endpoint = %addr, "the endpoint was added");
    changed.shown(&request, &addr, generation).await
}

/// Removes an endpoint from a pool, or takes back that it was added.
pub(super) async fn remove(request: AdminRequest) -> AdminResult {
    let body = request.object(&["pool", "endpoint", "keep", "force"])?;
    let mut changed = ChangedPool::of(&request, &body)?;
    let addr = changed.endpoint(text(&body, "endpoint")?)?;
    let name = changed.name().to_owned();
    if !flag(&body, "force")? && changed.needs(&addr) {
        return Err(AdminError::new(
            StatusCode::CONFLICT,
            "last_endpoint",
            format!("{addr} is the last endpoint of {name} that can be used"),
            "with `--force` (\"force\": true) the pool has none afterwards",
        ));
    }
    changed.changes.remove(&name, &addr);
    let generation = changed.take_over(&request).await?;
    tracing::info!(pool = name, endpoint = %addr, "the endpoint was removed");
    changed.shown(&request, &addr, generation).await
}

/// The pool that a request names, as it runs before the change.
struct ChangedPool {
    exposition: Arc<Exposition>,
    pool: Arc<Pool>,
    written: ChangeablePool,
    /// What is to be on top of the configuration.
    changes: EndpointChanges,
    /// The folder in which the change is kept, if it is.
    keep_in: Option<PathBuf>,
}

impl ChangedPool {
    fn of(request: &AdminRequest, body: &Map<String, Value>) -> Result<Self, AdminError> {
        let exposition = request.state.exposition();
        let pool = named_pool(&exposition, body)?;
        let written = exposition.written(&pool);
        let keep_in = flag(body, "keep")?.then(|| state_folder(request));
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

    /// The endpoint of the pool with this name.
    fn endpoint(&self, name: &str) -> Result<EndpointAddr, AdminError> {
        let all = || self.written.addresses();
        let read = EndpointAddr::of_operator(name).ok();
        let is_it = |addr: &&EndpointAddr| addr.to_string() == name || Some(*addr) == read.as_ref();
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
        (is_any && !has_other) || self.written.addresses().len() == 1
    }

    /// Has the supervisor take over the changed pools; returns the number of the generation.
    async fn take_over(&self, request: &AdminRequest) -> Result<u64, AdminError> {
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
            ReloadOutcome::Done(generation, _) => Ok(generation),
            ReloadOutcome::Refused(why) => Err(refused(why)),
            ReloadOutcome::Failed(report) => {
                let error = AdminError::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "mistakes",
                    "the configuration that runs cannot be assembled again: nothing has changed",
                    "a file that it names may have mistakes now",
                );
                Err(error.with("mistakes", diagnostics(&report)))
            }
        }
    }

    /// Keeps the change, if that is asked for, and shows the endpoint as it is now.
    async fn shown(
        &self,
        request: &AdminRequest,
        addr: &EndpointAddr,
        generation: u64,
    ) -> AdminResult {
        let running = request.state.exposition();
        let name = self.name();
        let mut pools = running.pools().iter();
        let pool = pools.find(|pool| pool.settings.name == name);
        let written = pool.and_then(|pool| running.written(pool));
        let now = written.and_then(|written| written.settings_of(addr));
        let in_pool = now.is_some();
        let kept_otherwise = match (&self.keep_in, &request.state.folder) {
            (Some(folder), _) => {
                let (running, name) = (Arc::clone(running.changes()), name.to_owned());
                let addr = addr.clone();
                let note = move |kept: &mut KeptChanges| {
                    kept.note_pool(&running, (&name, &addr), in_pool);
                };
                keep(request, folder, note).await?;
                None
            }
            (None, Some(folder)) => kept_in(folder, name, addr).await,
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
            "generation": generation,
            "kept": self.keep_in.is_some(),
            "kept_otherwise": kept_otherwise.is_some(),
        });
        if let Some(in_pool) = kept_otherwise {
            shown["next_start"] = json!({ "in_pool": in_pool });
        }
        Ok(shown)
    }
}

/// Whether an endpoint that runs is the one of the configuration with this address, or one of its
/// records.
fn is_of(endpoint: &Endpoint, addr: &EndpointAddr) -> bool {
    match addr {
        EndpointAddr::Srv(_) => endpoint.label.starts_with(&format!("{addr}#")),
        addr => !endpoint.is_of_record() && endpoint.label == addr.to_string(),
    }
}

/// Whether the next start has the endpoint in its pool, where that was kept.
async fn kept_in(folder: &Path, pool: &str, addr: &EndpointAddr) -> Option<bool> {
    let (folder, pool, addr) = (folder.to_path_buf(), pool.to_owned(), addr.clone());
    let kept = spawn_blocking(move || {
        let kept = KeptChanges::read(&folder).ok()?.into_pools();
        kept.is_in_pool(&pool, &addr)
    });
    kept.await.ok()?
}
