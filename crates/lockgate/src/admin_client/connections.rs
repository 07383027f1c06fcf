//! `connections`: a table of the connections, or the number of those that were closed.

use std::process::ExitCode;

use serde_json::Value;

use super::query::with_query;
use super::units::{bytes, items, plain, span};
use super::{ask, find, print};
use crate::cli::connections::{ConnectionsOptions, ConnectionsVerb};
use crate::text_table::TextTable;

/// Lists or closes connections; the exit code is 1 where the response is an error.
///
/// # Errors
/// When there is no socket, or no Lockgate there.
pub(crate) fn run(options: &ConnectionsOptions) -> anyhow::Result<ExitCode> {
    let socket = find(&options.socket)?;
    match &options.verb {
        ConnectionsVerb::List(parameters) => {
            let target = with_query("/v1/connections", parameters);
            let response = ask(&socket, "GET", &target, Value::Null)?;
            Ok(print(&response, options.output, table))
        }
        ConnectionsVerb::Close(body) => {
            let response = ask(&socket, "POST", "/v1/connections/close", body.clone())?;
            let closed =
                |value: &Value| format!("connections that were closed: {}", value["closed"]);
            Ok(print(&response, options.output, closed))
        }
    }
}

fn table(value: &Value) -> String {
    let mut table = TextTable::new(&[
        "ID",
        "CLIENT",
        "LISTENER",
        "AGE",
        "STATE",
        "PROTOCOL",
        "REQUESTS",
        "SITE",
        "RECEIVED",
        "SENT",
        "GENERATION",
    ]);
    let (mut rows, mut draining) = (0, 0);
    for one in items(&value["connections"]) {
        rows += 1;
        draining += u32::from(one["draining"] == true);
        table.row([
            plain(&one["id"]),
            plain(&one["client"]),
            plain(&one["listener"]),
            span(one["age_seconds"].as_f64().unwrap_or_default() as u64),
            plain(&one["state"]),
            plain(&one["protocol"]),
            plain(&one["requests"]),
            plain(&one["site"]),
            bytes(&one["received_bytes"]),
            bytes(&one["sent_bytes"]),
            plain(&one["generation"]),
        ]);
    }
    let mut text = table.render();
    let total = value["total"].as_u64().unwrap_or_default();
    if total > rows {
        text.push_str(&format!(
            "\n{rows} of {total} connections: --limit shows more.\n"
        ));
    }
    if draining > 0 {
        text.push_str(&format!("\n{draining} of these take no further request.\n"));
    }
    text
}
