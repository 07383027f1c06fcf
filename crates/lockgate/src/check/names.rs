//! The host names of endpoints and values, looked up once. A name without an address is a warning,
//! as it may have one later.

use std::collections::BTreeMap;
use std::time::Duration;

use lockgate_config::{Code, Config, EndpointAddr, Report, SourceSpan, ValueSource};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The time for all look-ups together: a name server that is down must not hold up a check.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many names are looked up at once.
const AT_ONCE: usize = 64;

/// Adds a warning for each name that has no address.
pub(super) fn warn_unresolved(config: &Config, report: &mut Report) {
    let names = names(config);
    if names.is_empty() {
        return;
    }
    // Without a runtime no name is looked up, which is no mistake of the configuration.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(AT_ONCE)
        .enable_all()
        .build()
    else {
        return;
    };
    let answers = runtime.block_on(look_up(names.keys().cloned()));
    // getaddrinfo cannot be interrupted.
    runtime.shutdown_background();
    for ((host, port), at) in names {
        let why = match answers.get(&(host.clone(), port)) {
            Some(Ok(())) => continue,
            Some(Err(why)) => why.clone(),
            None => format!("no answer within {} s", PATIENCE.as_secs()),
        };
        let cure = "correct the name, or add it to DNS: it is looked up again while Lockgate runs";
        report.push_at(
            Code::Unresolved,
            &at,
            format!("{host} has no address now"),
            why,
            cure,
        );
    }
}

type HostPort = (String, u16);

/// Every name that is looked up while Lockgate runs, and its first place in the configuration.
fn names(config: &Config) -> BTreeMap<HostPort, SourceSpan> {
    let endpoints = config
        .pools
        .iter()
        .flat_map(|pool| &pool.endpoints)
        .map(|one| (&one.addr, &one.at));
    let values = config
        .values
        .iter()
        .filter_map(|value| match &value.source {
            ValueSource::Url(url) => Some((&url.addr, &value.at)),
            ValueSource::File(_) => None,
        });
    let mut names = BTreeMap::new();
    for (addr, at) in endpoints.chain(values) {
        if let EndpointAddr::Name { host, port } = addr {
            names
                .entry((host.clone(), *port))
                .or_insert_with(|| at.clone());
        }
    }
    names
}

/// The results that came in time: `Ok` with an address, else the reason.
async fn look_up(names: impl Iterator<Item = HostPort>) -> BTreeMap<HostPort, Result<(), String>> {
    let mut asked = JoinSet::new();
    for name in names {
        asked.spawn(async move {
            let found = tokio::net::lookup_host((name.0.as_str(), name.1)).await;
            let found = found.map(|mut addresses| addresses.next());
            let answer = match found {
                Ok(Some(_)) => Ok(()),
                Ok(None) => Err("the answer is empty".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            (name, answer)
        });
    }
    let mut answers = BTreeMap::new();
    let all = async {
        while let Some(Ok((name, answer))) = asked.join_next().await {
            answers.insert(name, answer);
        }
    };
    // A name without a result by then has none in `answers`.
    let _ = timeout(PATIENCE, all).await;
    answers
}
