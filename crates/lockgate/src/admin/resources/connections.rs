//! `/v1/connections`: the connections of clients, and their end by an operator.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use lockgate_limits::SiteNumber;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::super::command::{AdminCommand, Reply};
use super::super::error::AdminError;
use super::super::query::{RequestQuery, bad_query, network};
use super::super::request::{AdminRequest, AdminResult};
use crate::exposition::Exposition;
use crate::worker::{ConnectionFilter, ConnectionList, ConnectionQuery, ConnectionRow};

/// The rows of a response without `limit`.
const SHOWN: usize = 1_000;
/// The most rows of a response.
const MOST: usize = 10_000;

/// The connections, the oldest first.
pub(super) async fn list(request: AdminRequest) -> AdminResult {
    let exposition = request.state.exposition();
    let query = Arc::new(query(&request, &exposition)?);
    let limit = query.limit;
    let lists = ask_workers(&request, |reply| AdminCommand::List(query, reply)).await?;
    let total: usize = lists.iter().map(|list| list.total).sum();
    let mut rows: Vec<_> = lists.into_iter().flat_map(|list| list.rows).collect();
    rows.sort_by_key(|row| Reverse(row.age));
    rows.truncate(limit);
    let shown = rows.iter().map(|row| shown(row, &exposition));
    Ok(json!({ "total": total, "connections": shown.collect::<Vec<_>>() }))
}

/// Closes the connections of the body: `ids`, `client` or `listener`.
pub(super) async fn close(request: AdminRequest) -> AdminResult {
    let filter = Arc::new(chosen(&request.object()?)?);
    let closed = ask_workers(&request, |reply| AdminCommand::Close(filter, reply)).await?;
    Ok(json!({ "closed": closed.iter().sum::<usize>() }))
}

/// The number of connections that are held to earlier generations.
pub(super) async fn held_to_earlier(request: &AdminRequest) -> Result<usize, AdminError> {
    let query = Arc::<ConnectionQuery>::default();
    let lists = ask_workers(request, |reply| AdminCommand::List(query, reply)).await?;
    Ok(lists.iter().map(|list: &ConnectionList| list.earlier).sum())
}

/// The answers of the workers; one that has ended gives none.
async fn ask_workers<T>(
    request: &AdminRequest,
    command: impl FnOnce(Reply<Vec<oneshot::Receiver<T>>>) -> AdminCommand,
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
        let index = exposition.site_names().iter().position(|site| site == name);
        let number = index.and_then(SiteNumber::of);
        let number = number.ok_or_else(|| bad_query(format!("there is no site `{name}`"), ""))?;
        Ok((exposition.generation(), number))
    });
    Ok(ConnectionQuery {
        filter: ConnectionFilter {
            ids: Vec::new(),
            client: query.network("client")?,
            listener: query.last("listener").map(str::to_owned),
            site: site.transpose()?,
            older_than: query.seconds("older_than")?.unwrap_or_default(),
        },
        limit,
    })
}

/// The connections that a body names. Nothing names all of them: that is a drain.
fn chosen(body: &Map<String, Value>) -> Result<ConnectionFilter, AdminError> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let ids = match body.get("ids") {
        None => Vec::new(),
        Some(ids) => ids
            .as_array()
            .and_then(|ids| ids.iter().map(number).collect())
            .ok_or_else(|| unusable("`ids` is no list of the ids that `/v1/connections` shows"))?,
    };
    let client = text("client").map(|text| network("client", text));
    let filter = ConnectionFilter {
        ids,
        client: client.transpose()?,
        listener: text("listener").map(str::to_owned),
        site: None,
        older_than: Duration::ZERO,
    };
    if filter.ids.is_empty() && filter.client.is_none() && filter.listener.is_none() {
        return Err(unusable("the body names no connection"));
    }
    Ok(filter)
}

/// An id as it is shown and logged: sixteen hexadecimal digits.
fn number(id: &Value) -> Option<u64> {
    let id = id.as_str()?;
    let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(id, 16).ok().filter(|_| is_hex)
}

fn unusable(message: &str) -> AdminError {
    AdminError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "unusable",
        message,
        "send { \"ids\": [\"9b1d3a52c07e4f10\"] }, { \"client\": \"192.0.2.7\" } or { \"listener\": \":443\" }",
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
