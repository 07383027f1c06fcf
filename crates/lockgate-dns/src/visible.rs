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
/// How often a server that gives no answer is asked.
const SILENT_ROUNDS: u32 = 2;

/// What a server says of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Shown,
    /// It answers, and has no such record.
    Lacking(&'static str),
    /// It gives no answer from the zone.
    Silent(String),
}

/// Waits until the servers of `zone` show a value of `name`, for at most `limit` and the time of the
/// last answers.
///
/// A server that gives no answer from the zone is asked again, and then passed over where all others
/// show the record: resolvers pass it over too, and one dead server must not cost the certificate.
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
    let mut left = resolvers.servers_of(zone).await?;
    let (mut pause, mut is_shown, mut rounds) = (FIRST_PAUSE, false, 0);
    loop {
        let (mut still, mut reasons, mut lacking) = (Vec::new(), Vec::new(), 0);
        for (server, seen) in ask_all(left, name, value).await {
            let why = match &seen {
                Seen::Shown => {
                    is_shown = true;
                    continue;
                }
                Seen::Lacking(why) => {
                    lacking += 1;
                    *why
                }
                Seen::Silent(why) => why,
            };
            reasons.push(format!("{} ({why})", server.name));
            still.push(server);
        }
        left = still;
        if left.is_empty() {
            return Ok(());
        }
        rounds += 1;
        let next = Instant::now() + pause;
        let servers = || reasons.join(", ");
        if lacking == 0 && is_shown && (rounds >= SILENT_ROUNDS || next >= end) {
            let (name, servers) = (shown(name), servers());
            tracing::warn!(name, servers, "servers of the zone do not answer");
            return Ok(());
        }
        if next >= end {
            return Err(DnsError::NotVisible {
                name: shown(name),
                servers: servers(),
                after: limit,
            });
        }
        sleep_until(next).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Asks all servers at once; returns them in their order, each with what it says.
async fn ask_all(servers: Vec<ZoneServer>, name: &Name, value: &str) -> Vec<(ZoneServer, Seen)> {
    let mut asked = JoinSet::new();
    for (at, server) in servers.iter().cloned().enumerate() {
        let (name, value) = (name.clone(), value.to_owned());
        asked.spawn(async move {
            let seen = timeout(SERVER_TIME, look(&server, &name, &value)).await;
            let late = |_| Seen::Silent("no answer in time".to_owned());
            (at, seen.unwrap_or_else(late))
        });
    }
    let mut results: Vec<_> = servers
        .into_iter()
        .map(|server| (server, Seen::Silent("it was not asked".to_owned())))
        .collect();
    while let Some(joined) = asked.join_next().await {
        if let Ok((at, seen)) = joined
            && let Some((_, result)) = results.get_mut(at)
        {
            *result = seen;
        }
    }
    results
}

/// Asks a server at its addresses, one after the other until it answers.
async fn look(server: &ZoneServer, name: &Name, value: &str) -> Seen {
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
                    true => Seen::Shown,
                    false => Seen::Lacking("it shows no such record"),
                }
            }
            ResponseCode::NXDomain => Seen::Lacking("it shows no such name"),
            code => Seen::Silent(code.to_string()),
        };
    }
    Seen::Silent(why)
}
