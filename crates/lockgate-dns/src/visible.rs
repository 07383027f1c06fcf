//! Waits until every server of a zone shows a TXT record: an authority may ask any of them.
//!
//! Asks the servers themselves, since what resolvers keep may be old.

use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{DnsError, shown};
use crate::exchange::ask;
use crate::zone::{Resolvers, ZoneServer};

/// The time between two rounds of questions: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The time for one server, with all its addresses.
const SERVER_TIME: Duration = Duration::from_secs(20);

/// Waits until the servers of `zone` show a value of `name`, for at most `limit` and the time of the
/// last answers.
///
/// # Errors
/// When they do not in time, with the servers that lack it; or when the servers are not known.
pub(crate) async fn wait_visible(
    resolvers: &Resolvers,
    zone: &Name,
    name: &Name,
    value: &str,
    limit: Duration,
) -> Result<(), DnsError> {
    let end = Instant::now() + limit;
    let mut lacking = resolvers.servers_of(zone).await?;
    let mut pause = FIRST_PAUSE;
    loop {
        let mut reasons = Vec::new();
        let mut still = Vec::new();
        for (server, shown) in ask_all(lacking, name, value).await {
            if let Err(why) = shown {
                reasons.push(format!("{} ({why})", server.name));
                still.push(server);
            }
        }
        lacking = still;
        if lacking.is_empty() {
            return Ok(());
        }
        let next = Instant::now() + pause;
        if next >= end {
            return Err(DnsError::NotVisible {
                name: shown(name),
                servers: reasons.join(", "),
                after: limit,
            });
        }
        sleep_until(next).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Asks all servers at once; returns them in their order, each with what it lacks.
async fn ask_all(
    servers: Vec<ZoneServer>,
    name: &Name,
    value: &str,
) -> Vec<(ZoneServer, Result<(), String>)> {
    let mut asked = JoinSet::new();
    for (at, server) in servers.iter().cloned().enumerate() {
        let (name, value) = (name.clone(), value.to_owned());
        asked.spawn(async move {
            let late = || Err("no answer in time".to_owned());
            let shown = timeout(SERVER_TIME, shows(&server, &name, &value)).await;
            (at, shown.unwrap_or_else(|_| late()))
        });
    }
    let mut results: Vec<_> = servers
        .into_iter()
        .map(|server| (server, Err("it was not asked".to_owned())))
        .collect();
    while let Some(joined) = asked.join_next().await {
        if let Ok((at, shown)) = joined
            && let Some((_, result)) = results.get_mut(at)
        {
            *result = shown;
        }
    }
    results
}

/// Asks a server at its addresses, one after the other until it answers.
async fn shows(server: &ZoneServer, name: &Name, value: &str) -> Result<(), String> {
    let mut why = "it has no address".to_owned();
    for address in &server.addresses {
        let answer = match ask(*address, name, RecordType::TXT, false).await {
            Ok(answer) => answer,
            Err(error) => {
                why = format!("{}: {error}", address.ip());
                continue;
            }
        };
        return match answer.response_code {
            ResponseCode::NoError => {
                let holds = |txt: &TXT| txt.txt_data.concat() == value.as_bytes();
                let is_it = answer.answers.iter().any(|record| {
                    record.name == *name && matches!(&record.data, RData::TXT(txt) if holds(txt))
                });
                match is_it {
                    true => Ok(()),
                    false => Err("it shows no such record".to_owned()),
                }
            }
            ResponseCode::NXDomain => Err("it shows no such name".to_owned()),
            code => Err(code.to_string()),
        };
    }
    Err(why)
}
