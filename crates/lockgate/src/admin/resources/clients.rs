//! `/v1/clients/…`: clients are banned for a while.

use std::net::IpAddr;
use std::time::Duration;

use hyper::StatusCode;
use lockgate_limits::clock;
use lockgate_net::millis::Millis;
use lockgate_proxy::admit::client_bans::{Ban, MOST_BANS, TooManyBans};
use lockgate_rules::network::{Cidr, CidrError};
use serde_json::{Map, Value, json};

use super::super::body::{number, optional_text, text, unusable};
use super::super::error::AdminError;
use super::super::request::{AdminRequest, AdminResult};

/// The longest ban, in seconds: a year.
const LONGEST: u64 = 366 * 86_400;
/// The longest reason, in bytes.
const LONGEST_REASON: usize = 256;

/// The bans that hold now.
pub(super) async fn bans(request: AdminRequest) -> AdminResult {
    let now = clock::now();
    let exposition = request.state.exposition();
    let bans = exposition.bans().list(now).into_iter();
    let shown = bans.map(|(network, ban)| shown(network, &ban, now));
    Ok(json!({ "bans": shown.collect::<Vec<_>>() }))
}

/// Bans a client for some time.
pub(super) async fn ban(request: AdminRequest) -> AdminResult {
    let body = request.object(&["client", "for_seconds", "reason"])?;
    let network = network(&body)?;
    let seconds = number(&body, "for_seconds", 1..=LONGEST)?
        .ok_or_else(|| unusable("`for_seconds` is missing", "send { \"for_seconds\": 600 }"))?;
    let reason = optional_text(&body, "reason")?.unwrap_or_default();
    if reason.len() > LONGEST_REASON {
        let message = format!("the reason is longer than {LONGEST_REASON} bytes");
        return Err(unusable(message, ""));
    }
    // It is shown on terminals, and stands in the operator log.
    if reason.chars().any(char::is_control) {
        return Err(unusable("the reason has control characters", "send words"));
    }
    let now = clock::now();
    let ban = Ban {
        until: now + Millis::from(Duration::from_secs(seconds)),
        reason: reason.into(),
    };
    let exposition = request.state.exposition();
    let banned = exposition.bans().ban(network, ban.clone(), now);
    banned.map_err(|TooManyBans| {
        AdminError::new(
            StatusCode::CONFLICT,
            "too_many_bans",
            format!("there are {MOST_BANS} bans"),
            "ban a network, or end some of them",
        )
    })?;
    tracing::info!(client = %network, seconds, reason, "the client is banned");
    Ok(shown(network, &ban, now))
}

/// Ends a ban.
pub(super) async fn unban(request: AdminRequest) -> AdminResult {
    let body = request.object(&["client"])?;
    let network = network(&body)?;
    let exposition = request.state.exposition();
    if !exposition.bans().unban(network, clock::now()) {
        return Err(AdminError::new(
            StatusCode::NOT_FOUND,
            "unknown_name",
            format!("{network} is not banned"),
            "`lockgate client list` shows the bans; a network is unbanned as it was banned",
        ));
    }
    tracing::info!(client = %network, "the client is no longer banned");
    Ok(json!({ "client": network.to_string(), "unbanned": true }))
}

/// The network of the body. A single IPv6 address stands for its /64, within which a client can
/// choose its address freely.
pub(super) fn network(body: &Map<String, Value>) -> Result<Cidr, AdminError> {
    let written = text(body, "client")?;
    let single: Option<IpAddr> = written.parse().ok();
    if let Some(ip) = single.map(|ip| ip.to_canonical()) {
        return Ok(Cidr::of(ip, if ip.is_ipv4() { 32 } else { 64 }));
    }
    Cidr::parse(written).map_err(|error| match error {
        CidrError::HostBits { network } => unusable(
            format!("`{written}` has bits beyond its prefix"),
            &format!("the network is {network}"),
        ),
        _ => unusable(
            format!("`{written}` is no address and no network"),
            "write 192.0.2.1, 192.0.2.0/24 or 2001:db8::/64",
        ),
    })
}

fn shown(network: Cidr, ban: &Ban, now: Millis) -> Value {
    json!({
        "client": network.to_string(),
        "seconds_left": Duration::from(ban.until - now).as_secs_f64().ceil() as u64,
        "reason": *ban.reason,
    })
}
