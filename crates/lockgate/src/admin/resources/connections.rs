//! `/v1/connections`: the connections of clients, and their end by an operator.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use lockgate_limits::SiteNumber;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::super::body::{self, given, optional_text, seconds, unknown};
use super::super::command::{Reply, SteadyCommand};
use super::super::error::AdminError;
use super::super::query::{RequestQuery, bad_query, network};
use super::super::request::{AdminRequest, AdminResult};
use crate::exposition::Exposition;
use crate::worker::{ConnectionFilter, ConnectionQuery, ConnectionRow};

/// The rows of a response without `limit`.
const SHOWN: usize = 1_000;
/// The most rows of a response.
const MOST: usize = 10_000;

/// The connections, the oldest first.
pub(super) async fn list(request: AdminRequest) -> AdminResult {
    let exposition = request.state.exposition();
    let query = Arc::new(query(&request, &exposition)?);
    let limit = query.limit;
    let lists = ask_workers(&request, |reply| SteadyCommand::List(query, reply)).await?;
    let total: usize = lists.iter().map(|list| list.total).sum();
    let mut rows: Vec<_> = lists.into_iter().flat_map(|list| list.rows).collect();
    rows.sort_by_key(|row| Reverse(row.age));
    rows.truncate(limit);
    let shown = rows.iter().map(|row| shown(row, &exposition));
    Ok(json!({ "total": total, "connections": shown.collect::<Vec<_>>() }))
}

/// Closes the connections that are of every kind in the body: `ids`, `client`, `listener`, `site`,
/// `older_than`.
pub(super) async fn close(request: AdminRequest) -> AdminResult {
    let body = request.object(&["ids", "client", "listener", "site", "older_than"])?;
    let filter = Arc::new(chosen(&body, &request.state.exposition())?);
    let closed = ask_workers(&request, |reply| SteadyCommand::Close(filter, reply)).await?;
    Ok(json!({ "closed": closed.iter().sum::<usize>() }))
}

/// The number of connections that are held to earlier generations.
pub(super) async fn held_to_earlier(request: &AdminRequest) -> Result<usize, AdminError> {
    let counts = ask_workers(request, SteadyCommand::CountEarlier).await?;
    Ok(counts.iter().sum())
}

/// The answers of the workers; one that has ended gives none.
async fn ask_workers<T>(
    request: &AdminRequest,
    command: impl FnOnce(Reply<Vec<oneshot::Receiver<T>>>) -> SteadyCommand,
) -> Result<Vec<T>, AdminError> {
    let mut answers = Vec::new();
    for answer in request.ask(command).await? {
        answers.extend(answer.await.ok());
    }
    Ok(answers)
}

fn query(request: &AdminRequest, exposition: &Exposition) -> Result<ConnectionQuery, AdminError> {
    let known = ["client", "listener", "site", "older_than", "limit"];
    let query = RequestQuery::parse(&request.query, &known)?;
    let limit = query.count("limit")?.unwrap_or(SHOWN);
    if !(1..=MOST).contains(&limit) {
        let message = format!("`limit` is no number from 1 to {MOST}");
        return Err(bad_query(message, "filter by client, listener or site"));
    }
    let site = query.last("site").map(|name| {
        site(exposition, name).ok_or_else(|| bad_query(format!("there is no site `{name}`"), ""))
    });
    Ok(ConnectionQuery {
        filter: ConnectionFilter {
            ids: HashSet::new(),
            client: query.network("client")?,
            listener: query.last("listener").map(str::to_owned),
            site: site.transpose()?,
            older_than: query.seconds("older_than")?.unwrap_or_default(),
        },
        limit,
    })
}

/// The connections that a body names. Nothing names all of them: that is a drain.
fn chosen(
    body: &Map<String, Value>,
    exposition: &Exposition,
) -> Result<ConnectionFilter, AdminError> {
    let ids = given(body, "ids").map(|ids| {
        let ids = ids.as_array().filter(|ids| !ids.is_empty());
        let ids = ids.and_then(|ids| ids.iter().map(number).collect());
        ids.ok_or_else(|| unusable("`ids` is no list of the ids that `/v1/connections` shows"))
    });
    let client = optional_text(body, "client")?.map(|text| network("client", text));
    let site = optional_text(body, "site")?.map(|name| {
        let names = exposition.site_names().iter().map(String::as_str);
        site(exposition, name).ok_or_else(|| unknown("site", name, names))
    });
    let filter = ConnectionFilter {
        ids: ids.transpose()?.unwrap_or_default(),
        client: client.transpose()?,
        listener: optional_text(body, "listener")?.map(str::to_owned),
        site: site.transpose()?,
        older_than: seconds(body, "older_than")?.unwrap_or_default(),
    };
    if filter == ConnectionFilter::default() {
        return Err(unusable("the body names no connection"));
    }
    Ok(filter)
}

/// A site of the generation that runs, with the number of that.
fn site(exposition: &Exposition, name: &str) -> Option<(u64, SiteNumber)> {
    let index = exposition.site_names().iter().position(|site| site == name);
    let number = index.and_then(SiteNumber::of)?;
    Some((exposition.generation(), number))
}

/// An id as it is shown and logged: sixteen hexadecimal digits.
fn number(id: &Value) -> Option<u64> {
    let id = id.as_str()?;
    let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(id, 16).ok().filter(|_| is_hex)
}

fn unusable(message: &str) -> AdminError {
    body::unusable(
        message,
        "send { \"ids\": [\"9b1d3a52c07e4f10\"] }, or some of client, listener, site and older_than",
    )
}

fn shown(row: &ConnectionRow, exposition: &Exposition) -> Value {
    // Names of sites are those of the generation that runs.
    let site = row
        .site
        .filter(|(number, _)| *number == exposition.generation());
    let site = site.and_then(|(_, site)| exposition.site_names().get(site.index()));
    json!({
        "id": format!("{:016x}", row.id),
        "listener": row.listener,
        "client": row.client,
        "age_seconds": row.age.as_secs_f64(),
        "state": row.state.as_str(),
        "protocol": row.protocol,
        "requests": row.requests,
        "site": site,
        "received_bytes": row.received,
        "sent_bytes": row.sent,
        "generation": row.generation,
        "draining": row.draining,
    })
}
