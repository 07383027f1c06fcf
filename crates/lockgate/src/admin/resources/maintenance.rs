//! `/v1/sites/maintenance`: requests of a site get an error before its action, while it is in
//! maintenance.

use lockgate_proxy::site::MaintenanceResponse;
use serde_json::{Map, Value, json};

use super::super::body::{flag, given, number, text, unknown};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};

/// The status without another one.
const STATUS: u64 = 503;
/// The seconds of `Retry-After` without others.
const RETRY_AFTER: u64 = 60;

/// The sites that are in maintenance.
pub(super) async fn show(request: AdminRequest) -> AdminResult {
    let exposition = request.state.exposition();
    let sites = exposition.site_maintenance().iter();
    let sites = sites.filter_map(|(site, state)| Some(shown(site, state.response()?)));
    Ok(json!({ "sites": sites.collect::<Vec<_>>() }))
}

/// Begins the maintenance of a site, or ends it with `"on": false`.
pub(super) async fn set(request: AdminRequest) -> AdminResult {
    let body = request.object(&["site", "on", "status", "retry_after_seconds"])?;
    let is_on = given(&body, "on").is_none() || flag(&body, "on")?;
    let response = response(&body)?;
    let name = text(&body, "site")?;
    let exposition = request.state.exposition();
    let sites = exposition.site_maintenance();
    let known = sites.iter().find(|(site, _)| site == name);
    let names = sites.iter().map(|(site, _)| site.as_str());
    let (site, state) = known.ok_or_else(|| unknown("site", name, names))?;
    let before = state.response().is_some();
    state.set(is_on.then_some(response));
    match (before, is_on) {
        (false, true) => {
            tracing::info!(site, status = response.status, "the site is in maintenance")
        }
        (true, false) => tracing::info!(site, "the maintenance of the site is over"),
        _ => {}
    }
    Ok(if is_on {
        shown(site, response)
    } else {
        json!({ "site": site, "status": null, "retry_after_seconds": null })
    })
}

fn response(body: &Map<String, Value>) -> Result<MaintenanceResponse, AdminError> {
    let status = number(body, "status", 400..=599)?.unwrap_or(STATUS);
    let retry_after = number(body, "retry_after_seconds", 0..=u64::from(u32::MAX))?;
    Ok(MaintenanceResponse {
        status: status as u16,
        retry_after: retry_after.unwrap_or(RETRY_AFTER) as u32,
    })
}

fn shown(site: &str, response: MaintenanceResponse) -> Value {
    json!({
        "site": site,
        "status": response.status,
        "retry_after_seconds": response.retry_after,
    })
}
