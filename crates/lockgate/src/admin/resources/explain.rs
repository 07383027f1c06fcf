//! `/v1/explain`: what becomes of a request by the configuration that runs.

use std::net::IpAddr;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::super::body::{given, optional_text, text, unusable};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};
use crate::explain::{ExplainRequest, GivenField};

/// Explains the request of the body.
pub(super) async fn explain(request: AdminRequest) -> AdminResult {
    let members = [
        "url",
        "method",
        "fields",
        "from",
        "sni",
        "listener",
        "via",
        "addresses",
    ];
    let body = request.object(&members)?;
    let asked = ExplainRequest {
        url: parsed("url", text(&body, "url")?)?,
        method: optional_text(&body, "method")?.unwrap_or("GET").to_owned(),
        fields: fields(&body)?,
        from: match optional_text(&body, "from")? {
            Some(address) => address
                .parse()
                .map_err(|_| unusable("`from` is no address", "write 192.0.2.1"))?,
            None => ExplainRequest::FROM,
        },
        sni: optional_text(&body, "sni")?.map(str::to_owned),
        listener: optional_text(&body, "listener")?.map(str::to_owned),
        via: match optional_text(&body, "via")? {
            Some(via) => Some(parsed("via", via)?),
            None => None,
        },
        addresses: addresses(&body)?,
    };
    let explained = request.state.exposition().explain(&asked);
    explained.map_err(|why| unusable(why, ""))
}

fn parsed<T: FromStr<Err = String>>(member: &str, written: &str) -> Result<T, AdminError> {
    let parsed = written.parse();
    parsed.map_err(|cure: String| unusable(format!("`{member}` cannot be read"), &cure))
}

fn addresses(body: &Map<String, Value>) -> Result<Vec<IpAddr>, AdminError> {
    let wrong = || {
        unusable(
            "`addresses` is no list of addresses",
            "send [\"192.0.2.1\"]",
        )
    };
    let Some(list) = given(body, "addresses") else {
        return Ok(Vec::new());
    };
    let list = list.as_array().ok_or_else(wrong)?.iter();
    list.map(|one| {
        one.as_str()
            .and_then(|one| one.parse().ok())
            .ok_or_else(wrong)
    })
    .collect()
}

fn fields(body: &Map<String, Value>) -> Result<Vec<GivenField>, AdminError> {
    let wrong = || unusable("`fields` is no list of strings", "send [\"Name: value\"]");
    let Some(list) = given(body, "fields") else {
        return Ok(Vec::new());
    };
    let list = list.as_array().ok_or_else(wrong)?.iter();
    list.map(|field| parsed("fields", field.as_str().ok_or_else(wrong)?))
        .collect()
}
