//! `/v1/endpoints/…`: an endpoint is taken out of its pool and back, or its weight is set, while the
//! process serves.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use lockgate_limits::{MemberIndex, clock};
use lockgate_upstream::{AdminMode, Endpoint, Member, Pool};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::super::body::{flag, number, text, unknown};
use super::super::command::SteadyCommand;
use super::super::error::AdminError;
use super::super::kept_changes::{KeptChanges, KeptEndpoint, KeptFile};
use super::super::request::{AdminRequest, AdminResult};
use crate::exposition::Exposition;
use crate::views::mode_name;

/// The largest weight, as in the configuration.
pub(super) const MOST_WEIGHT: u64 = 256;
/// The longest wait for an endpoint, in seconds.
const LONGEST_WAIT: u64 = 86_400;
/// The time between two looks at an endpoint that is waited for.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(50);

/// Lets no request begin at an endpoint; with `wait_seconds` the answer waits until it has none.
pub(super) async fn drain(request: AdminRequest) -> AdminResult {
    let body = request.object(&["pool", "endpoint", "keep", "force", "wait_seconds"])?;
    let Some(wait) = wait_time(&body)? else {
        let drain = async |request| take_out(request, body, AdminMode::Drain).await;
        return request.carry_out(drain).await;
    };
    let turn = request.turn_to_take_out().await?;
    let mut chosen = ChosenEndpoint::of(&request, &body)?;
    chosen.has_no_other_pool()?;
    chosen.take_out(&body, AdminMode::Drain)?;
    drop(turn);
    close_idle(&request).await?;
    chosen.wait_until_unused(&request, wait).await?;
    // A reload may have replaced its pool, or removed it.
    chosen = ChosenEndpoint::of(&request, &body).unwrap_or(chosen);
    chosen.finish(&request).await
}

/// Takes an endpoint out of its pool; its health checks pause.
pub(super) async fn maintenance(request: AdminRequest) -> AdminResult {
    let body = request.object(&["pool", "endpoint", "keep", "force"])?;
    take_out(request, body, AdminMode::Maintenance).await
}

/// Takes an endpoint out of its pool, without a wait for what it has begun.
async fn take_out(request: AdminRequest, body: Map<String, Value>, mode: AdminMode) -> AdminResult {
    let turn = request.turn_to_take_out().await?;
    let chosen = ChosenEndpoint::of(&request, &body)?;
    chosen.take_out(&body, mode)?;
    drop(turn);
    close_idle(&request).await?;
    chosen.finish(&request).await
}

/// Takes an endpoint back into its pool.
pub(super) async fn ready(request: AdminRequest) -> AdminResult {
    let body = request.object(&["pool", "endpoint", "keep"])?;
    let chosen = ChosenEndpoint::of(&request, &body)?;
    chosen.set_mode(AdminMode::Ready);
    chosen.finish(&request).await
}

/// Sets the weight of an endpoint, or without `weight` the configured one again.
pub(super) async fn weight(request: AdminRequest) -> AdminResult {
    let body = request.object(&["pool", "endpoint", "keep", "force", "weight"])?;
    let weight = number(&body, "weight", 0..=MOST_WEIGHT)?;
    let weight = weight.and_then(|weight| u32::try_from(weight).ok());
    let turn = match weight {
        Some(0) => Some(request.turn_to_take_out().await?),
        _ => None,
    };
    let chosen = ChosenEndpoint::of(&request, &body)?;
    if turn.is_some() {
        chosen.may_be_taken_out(&body)?;
    }
    chosen.member().override_weight(weight);
    chosen.pool.reweigh();
    drop(turn);
    let (pool, endpoint) = chosen.names();
    tracing::info!(pool, endpoint, weight, "the weight of the endpoint is set");
    chosen.finish(&request).await
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
    /// The file in which the change is kept, if it is.
    keep_in: Option<KeptFile>,
}

impl ChosenEndpoint {
    fn of(request: &AdminRequest, body: &Map<String, Value>) -> Result<Self, AdminError> {
        let exposition = request.state.exposition();
        let (name, label) = (text(body, "pool")?, text(body, "endpoint")?);
        let pool = named_pool(&exposition, body)?;
        let present = || {
            let members = MemberIndex::enumerate(pool.members());
            members.filter(|(_, member)| !member.endpoint().is_vacant())
        };
        let labels = present().map(|(_, member)| member.endpoint().label.as_str());
        let found = present().find(|(_, member)| member.endpoint().label == label);
        let (index, member) =
            found.ok_or_else(|| unknown(&format!("endpoint of {name}"), label, labels))?;
        let others = pools_that_use(member.endpoint(), exposition.pools());
        let others = others.filter(|other| !Arc::ptr_eq(other, &pool));
        Ok(Self {
            other_pools: others.map(|other| other.settings.name.clone()).collect(),
            keep_in: file_for(request, body, member)?,
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
        Err(self.is_used_by(&self.other_pools))
    }

    fn is_used_by(&self, others: &[String]) -> AdminError {
        let (_, endpoint) = self.names();
        AdminError::new(
            StatusCode::CONFLICT,
            "other_pools",
            format!(
                "{endpoint} is used by {} too, and cannot be waited for",
                others.join(", ")
            ),
            "drain it there first, without `--wait`",
        )
    }

    /// A wait ends where requests may begin at the endpoint again: it was taken back meanwhile, or a
    /// reload has brought a pool that uses it.
    fn is_still_out(&self, request: &AdminRequest) -> Result<(), AdminError> {
        let exposition = request.state.exposition();
        let (name, label) = self.names();
        let users = pools_that_use(self.member().endpoint(), exposition.pools());
        let users = users.map(|pool| pool.settings.name.clone());
        let (own, others): (Vec<_>, Vec<_>) = users.partition(|user| user == name);
        if self.member().is_ready() || !own.is_empty() {
            return Err(AdminError::new(
                StatusCode::CONFLICT,
                "no_longer_drained",
                format!("{label} of {name} is no longer drained"),
                "it was made ready, or a reload has changed its settings: drain it again",
            ));
        }
        if others.is_empty() {
            return Ok(());
        }
        Err(self.is_used_by(&others))
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
    fn take_out(&self, body: &Map<String, Value>, mode: AdminMode) -> Result<(), AdminError> {
        self.may_be_taken_out(body)?;
        self.set_mode(mode);
        Ok(())
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
            self.is_still_out(request)?;
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
    async fn finish(&self, request: &AdminRequest) -> AdminResult {
        let holds = KeptEndpoint::of(&self.pool.settings.name, self.member());
        let kept_earlier = match (&self.keep_in, &request.state.kept) {
            (Some(file), _) => {
                keep(file, |kept| kept.note(holds)).await?;
                None
            }
            (None, Some(file)) => kept_otherwise(file, &holds).await,
            (None, None) => None,
        };
        let member = self.member();
        let endpoint = member.endpoint();
        let (pool, label) = self.names();
        let mut shown = json!({
            "pool": pool,
            "endpoint": label,
            "admin": mode_name(member.mode()),
            "weight": member.weight(),
            "weight_configured": member.configured_weight(),
            "in_flight": endpoint.in_flight(),
            "connections": endpoint.connections(),
            "other_pools": self.other_pools,
            "kept": self.keep_in.is_some(),
            "kept_otherwise": kept_earlier.is_some(),
        });
        if let Some(earlier) = kept_earlier {
            shown["next_start"] = earlier.state();
        }
        Ok(shown)
    }
}

/// The pools in which requests may begin at the endpoint.
pub(super) fn pools_that_use<'p>(
    endpoint: &Endpoint,
    pools: &'p [Arc<Pool>],
) -> impl Iterator<Item = &'p Arc<Pool>> {
    let is_same = move |one: &Endpoint| {
        // A reload that brings it back after another one makes it anew.
        std::ptr::eq(one, endpoint) || !one.is_of_record() && one.label == endpoint.label
    };
    let uses = move |one: &Member| one.is_ready() && is_same(one.endpoint());
    let named = pools.iter().filter(|pool| !pool.settings.name.is_empty());
    named.filter(move |pool| pool.members().iter().any(uses))
}

/// The pool that the body names.
pub(super) fn named_pool(
    exposition: &Exposition,
    body: &Map<String, Value>,
) -> Result<Arc<Pool>, AdminError> {
    let named = exposition.pools().iter();
    let pools: Vec<_> = named
        .filter(|pool| !pool.settings.name.is_empty())
        .collect();
    let name = text(body, "pool")?;
    let names = pools.iter().map(|pool| pool.settings.name.as_str());
    let pool = pools.iter().find(|pool| pool.settings.name == name);
    pool.map(|pool| Arc::clone(pool))
        .ok_or_else(|| unknown("pool", name, names))
}

/// Keeps a change that holds, after all that was to be kept before.
pub(super) async fn keep(
    file: &KeptFile,
    note: impl FnOnce(&mut KeptChanges) + Send + 'static,
) -> Result<(), AdminError> {
    file.change(note).await.map_err(|error| {
        AdminError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "not_kept",
            format!("the change holds, but could not be kept: {error:#}"),
            "the same again keeps it, once that is possible",
        )
    })
}

/// What was kept for the endpoint earlier, if that is other than what holds. A file that cannot be
/// read is not taken up by the next start.
async fn kept_otherwise(file: &KeptFile, holds: &KeptEndpoint) -> Option<KeptEndpoint> {
    file.read().await.ok()?.other_than(holds)
}

/// The file in which the change is kept, if that is asked for.
fn file_for(
    request: &AdminRequest,
    body: &Map<String, Value>,
    member: &Member,
) -> Result<Option<KeptFile>, AdminError> {
    if !flag(body, "keep")? {
        return Ok(None);
    }
    if member.endpoint().is_of_record() {
        let why = "an SRV record may be another one at the next start";
        return Err(cannot_keep(why, "do it without `--keep`"));
    }
    kept_file(request).map(Some)
}

/// The file of kept changes.
pub(super) fn kept_file(request: &AdminRequest) -> Result<KeptFile, AdminError> {
    let why = "the configuration has no `state`";
    let file = request.state.kept.clone();
    file.ok_or_else(|| cannot_keep(why, "write state = \"/var/lib/lockgate\""))
}

fn cannot_keep(why: &str, cure: &str) -> AdminError {
    AdminError::new(StatusCode::CONFLICT, "cannot_keep", why, cure)
}

/// Has the workers close idle connections to endpoints that were taken out, and waits for them.
async fn close_idle(request: &AdminRequest) -> Result<(), AdminError> {
    for closed in request.ask(SteadyCommand::CloseAdministered).await? {
        // A worker that has ended has no connection left.
        let _ = closed.await;
    }
    Ok(())
}
