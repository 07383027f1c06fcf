//! `/v1/endpoints/…`: an endpoint is taken out of its pool and back, or its weight is set, while the
//! process serves.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use lockgate_limits::{MemberIndex, clock};
use lockgate_upstream::{AdminMode, Member, Pool};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::super::body::{flag, number, text, unknown};
use super::super::command::AdminCommand;
use super::super::error::AdminError;
use super::super::kept_changes::KeptChanges;
use super::super::request::{AdminRequest, AdminResult};
use super::pools::mode_name;
use crate::state;

/// The largest weight, as in the configuration.
const MOST_WEIGHT: u64 = 256;
/// The longest wait for an endpoint, in seconds.
const LONGEST_WAIT: u64 = 86_400;
/// The time between two looks at an endpoint that is waited for.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(50);

/// Lets no request begin at an endpoint; with `wait_seconds` the answer waits until it has none.
pub(super) async fn drain(request: AdminRequest) -> AdminResult {
    let body = request.object()?;
    let wait = wait_time(&body)?;
    let chosen = ChosenEndpoint::of(&request, &body)?;
    if wait.is_some() {
        chosen.has_no_other_pool()?;
    }
    chosen.take_out(&request, &body, AdminMode::Drain).await?;
    if let Some(wait) = wait {
        chosen.wait_until_unused(&request, wait).await?;
    }
    chosen.finish()
}

/// Takes an endpoint out of its pool; its health checks pause.
pub(super) async fn maintenance(request: AdminRequest) -> AdminResult {
    let body = request.object()?;
    let chosen = ChosenEndpoint::of(&request, &body)?;
    chosen
        .take_out(&request, &body, AdminMode::Maintenance)
        .await?;
    chosen.finish()
}

/// Takes an endpoint back into its pool.
pub(super) async fn ready(request: AdminRequest) -> AdminResult {
    let body = request.object()?;
    let chosen = ChosenEndpoint::of(&request, &body)?;
    chosen.set_mode(AdminMode::Ready);
    chosen.finish()
}

/// Sets the weight of an endpoint, or without `weight` the configured one again.
pub(super) async fn weight(request: AdminRequest) -> AdminResult {
    let body = request.object()?;
    let weight = number(&body, "weight", 0..=MOST_WEIGHT)?;
    let weight = weight.and_then(|weight| u32::try_from(weight).ok());
    let chosen = ChosenEndpoint::of(&request, &body)?;
    if weight == Some(0) {
        chosen.may_be_taken_out(&body)?;
    }
    chosen.member().override_weight(weight);
    chosen.pool.reweigh();
    let (pool, endpoint) = chosen.names();
    tracing::info!(pool, endpoint, weight, "the weight of the endpoint is set");
    chosen.finish()
}

/// The time that the answer may wait, if it waits.
fn wait_time(body: &Map<String, Value>) -> Result<Option<Duration>, AdminError> {
    let seconds = number(body, "wait_seconds", 0..=LONGEST_WAIT)?;
    Ok(seconds.map(Duration::from_secs))
}

/// The endpoint that a request names.
struct ChosenEndpoint {
    pool: Arc<Pool>,
    index: MemberIndex,
    /// The other pools that may give requests to the same endpoint.
    other_pools: Vec<String>,
    /// The folder in which the change is kept, if it is.
    keep_in: Option<PathBuf>,
}

impl ChosenEndpoint {
    fn of(request: &AdminRequest, body: &Map<String, Value>) -> Result<Self, AdminError> {
        let exposition = request.state.exposition();
        let named = exposition.pools().iter();
        let pools: Vec<_> = named
            .filter(|pool| !pool.settings.name.is_empty())
            .collect();
        let (name, label) = (text(body, "pool")?, text(body, "endpoint")?);
        let names = pools.iter().map(|pool| pool.settings.name.as_str());
        let pool = pools.iter().find(|pool| pool.settings.name == name);
        let pool = Arc::clone(pool.ok_or_else(|| unknown("pool", name, names))?);
        let present = || {
            let members = MemberIndex::enumerate(pool.members());
            members.filter(|(_, member)| !member.endpoint().is_vacant())
        };
        let labels = present().map(|(_, member)| member.endpoint().label.as_str());
        let found = present().find(|(_, member)| member.endpoint().label == label);
        let (index, member) =
            found.ok_or_else(|| unknown(&format!("endpoint of {name}"), label, labels))?;
        let is_other = |other: &&&Arc<Pool>| {
            let mut members = other.members().iter();
            let is_same = |one: &Member| Arc::ptr_eq(one.endpoint(), member.endpoint());
            !Arc::ptr_eq(other, &pool) && members.any(|one| is_same(one) && one.is_ready())
        };
        let others = pools.iter().filter(is_other);
        Ok(Self {
            other_pools: others.map(|other| other.settings.name.clone()).collect(),
            keep_in: folder_for(request, body, member)?,
            index,
            pool: Arc::clone(&pool),
        })
    }

    fn member(&self) -> &Member {
        &self.pool.members()[self.index.get()]
    }

    fn names(&self) -> (&str, &str) {
        let endpoint = &self.member().endpoint().label;
        (&self.pool.settings.name, endpoint)
    }

    /// The last endpoint of a pool is taken out by force only.
    fn may_be_taken_out(&self, body: &Map<String, Value>) -> Result<(), AdminError> {
        let is_forced = flag(body, "force")?;
        let usable = MemberIndex::enumerate(self.pool.members());
        let mut usable = usable
            .filter(|(_, member)| member.takes_any_client() && !member.endpoint().is_vacant());
        let is_last =
            usable.next().is_some_and(|(at, _)| at == self.index) && usable.next().is_none();
        if !is_last || is_forced {
            return Ok(());
        }
        let (pool, endpoint) = self.names();
        Err(AdminError::new(
            StatusCode::CONFLICT,
            "last_endpoint",
            format!("{endpoint} is the last endpoint of {pool} that can be used"),
            "with `--force` (\"force\": true) the pool has none afterwards",
        ))
    }

    /// A wait is for all requests of the endpoint, and those of other pools do not end.
    fn has_no_other_pool(&self) -> Result<(), AdminError> {
        if self.other_pools.is_empty() {
            return Ok(());
        }
        let (_, endpoint) = self.names();
        Err(AdminError::new(
            StatusCode::CONFLICT,
            "other_pools",
            format!(
                "{endpoint} is used by {} too, and cannot be waited for",
                self.other_pools.join(", ")
            ),
            "drain it there first, without `--wait`",
        ))
    }

    fn set_mode(&self, mode: AdminMode) {
        let member = self.member();
        let before = member.mode();
        member.set_mode(mode, clock::now());
        if before != mode {
            let (pool, endpoint) = self.names();
            let what = match mode {
                AdminMode::Ready => "is ready: it is in its pool again",
                AdminMode::Drain => "is drained: no request begins there",
                AdminMode::Maintenance => "is in maintenance: no request begins there",
            };
            tracing::info!(pool, endpoint, "the endpoint {what}");
        }
    }

    /// Takes the endpoint out of its pool. Afterwards no worker begins a request there.
    async fn take_out(
        &self,
        request: &AdminRequest,
        body: &Map<String, Value>,
        mode: AdminMode,
    ) -> Result<(), AdminError> {
        self.may_be_taken_out(body)?;
        self.set_mode(mode);
        close_idle(request).await
    }

    /// Waits until the endpoint has no request and no connection.
    async fn wait_until_unused(
        &self,
        request: &AdminRequest,
        wait: Duration,
    ) -> Result<(), AdminError> {
        let endpoint = self.member().endpoint();
        let end = Instant::now() + wait;
        loop {
            let (requests, connections) = (endpoint.in_flight(), endpoint.connections());
            if (requests, connections) == (0, 0) {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(AdminError::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "not_drained",
                    format!(
                        "the time is over, and the endpoint has requests: {requests}, connections: {connections}"
                    ),
                    "it stays drained, and can be waited for again",
                ));
            }
            sleep(LOOKED_AT_EVERY).await;
            // What another process has begun there is not known here.
            request.state.admit(false)?;
            // Shared connections that were made meanwhile become idle too.
            close_idle(request).await?;
        }
    }

    /// Keeps the change, if that is asked for, and shows the endpoint.
    fn finish(&self) -> AdminResult {
        if let Some(folder) = &self.keep_in {
            self.keep(folder).map_err(|error| {
                AdminError::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "not_kept",
                    format!("the change holds, but could not be kept: {error:#}"),
                    "",
                )
            })?;
        }
        let member = self.member();
        let endpoint = member.endpoint();
        let (pool, label) = self.names();
        Ok(json!({
            "pool": pool,
            "endpoint": label,
            "admin": mode_name(member.mode()),
            "weight": member.weight(),
            "weight_configured": member.configured_weight(),
            "in_flight": endpoint.in_flight(),
            "connections": endpoint.connections(),
            "other_pools": self.other_pools,
            "kept": self.keep_in.is_some(),
        }))
    }

    fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        let mut kept = KeptChanges::read(folder)?;
        kept.note(&self.pool.settings.name, self.member());
        Ok(state::keep_changes(folder, &kept.to_text())?)
    }
}

/// The folder in which the change is kept, if that is asked for.
fn folder_for(
    request: &AdminRequest,
    body: &Map<String, Value>,
    member: &Member,
) -> Result<Option<PathBuf>, AdminError> {
    if !flag(body, "keep")? {
        return Ok(None);
    }
    let cannot_keep =
        |why: &str, cure: &str| AdminError::new(StatusCode::CONFLICT, "cannot_keep", why, cure);
    if member.endpoint().is_of_record() {
        let why = "an SRV record may be another one at the next start";
        return Err(cannot_keep(why, "do it without `--keep`"));
    }
    let folder = request.state.folder.clone();
    let why = "the configuration has no `state`";
    let folder = folder.ok_or_else(|| cannot_keep(why, "write state = \"/var/lib/lockgate\""))?;
    Ok(Some(folder))
}

/// Has the workers close idle connections to endpoints that were taken out, and waits for them.
async fn close_idle(request: &AdminRequest) -> Result<(), AdminError> {
    for closed in request.ask(AdminCommand::CloseAdministered).await? {
        // A worker that has ended has no connection left.
        let _ = closed.await;
    }
    Ok(())
}
