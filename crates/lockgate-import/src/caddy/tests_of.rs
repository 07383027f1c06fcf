//! The `[[test]]` blocks that pin what was understood.

use super::outcome::{CaddyAction, CaddyOutcome};
use super::paths::CaddyPlace;
use crate::{Draft, DraftTable, DraftValue};

/// The most tests of a draft.
const MOST_TESTS: usize = 50;

/// Names of a table for its tests.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaddyTableNames<'a> {
    /// The key of the site.
    pub(super) key: &'a str,
    /// Whether it is on TLS.
    pub(super) secure: bool,
}

/// The tests of a draft.
#[derive(Debug, Default)]
pub(super) struct CaddyTests {
    tests: Vec<DraftTable>,
}

impl CaddyTests {
    /// Adds the test of a route.
    pub(super) fn add(
        &mut self,
        names: CaddyTableNames<'_>,
        place: &CaddyPlace,
        outcome: &CaddyOutcome,
        keys: &std::collections::BTreeMap<&'static str, DraftValue>,
        route: &str,
        kept: &[(CaddyPlace, CaddyOutcome)],
    ) {
        if self.tests.len() >= MOST_TESTS || outcome.flow.closed {
            return;
        }
        let mut path = place.example();
        // The example must not be in a more specific route.
        let taken = |path: &str| {
            kept.iter().any(|(other, _)| {
                other != place
                    && match other {
                        CaddyPlace::Below(_) => {
                            path == other.path() || path.starts_with(&format!("{}/", other.path()))
                        }
                        _ => path == other.key(),
                    }
            })
        };
        if matches!(place, CaddyPlace::Below(_)) {
            if taken(&path) {
                path = format!(
                    "{}/some-path",
                    place.path().replace('{', "x").replace('}', "")
                );
            }
            if taken(&path)
                || kept
                    .iter()
                    .any(|(other, _)| other != place && other.path().contains('{'))
            {
                return;
            }
        }
        let (host, port) = match names.key.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (names.key, None),
        };
        let host = match host.strip_prefix("*.") {
            Some(domain) => format!("some-host.{domain}"),
            None if host.is_empty() => "localhost".to_owned(),
            None => host.to_owned(),
        };
        let (scheme, usual) = match names.secure {
            true => ("https", "443"),
            false => ("http", "80"),
        };
        let authority = match port {
            Some(port) if port != usual => format!("{host}:{port}"),
            _ => host.clone(),
        };
        let mut test = DraftTable::default();
        let method = route.split_once(' ').map_or("GET", |(method, _)| method);
        test.set("request", format!("{method} {scheme}://{authority}{path}"));
        if let Some(network) = outcome.allow.as_ref().and_then(|allow| allow.first()) {
            let address = network.split('/').next().unwrap_or_default();
            test.set("from", address);
        }
        let mut expect: Vec<(String, DraftValue)> = vec![
            ("site".to_owned(), names.key.into()),
            ("route".to_owned(), route.into()),
        ];
        match &outcome.action {
            CaddyAction::Redirect(to, status) => {
                expect.push(("status".to_owned(), (*status).into()));
                let below = place.path();
                let rest = path.strip_prefix(&below).unwrap_or_default();
                let location = to
                    .replace("{host}", &authority)
                    .replace("{path}", &path)
                    .replace("{*}", rest.trim_start_matches('/'));
                if !location.contains(['{', '?']) && location.contains("://") {
                    expect.push(("location".to_owned(), location.into()));
                }
            }
            CaddyAction::Respond(status, ..) if outcome.flow.auth.is_none() => {
                expect.push(("status".to_owned(), (*status).into()));
            }
            CaddyAction::Nothing => expect.push(("status".to_owned(), 200_i64.into())),
            CaddyAction::Absent => expect.push(("status".to_owned(), 404_i64.into())),
            _ => {}
        }
        if let Some(DraftValue::Text(proxy)) = keys.get("proxy")
            && let Some(pool) = proxy.strip_prefix("pool:")
        {
            expect.push(("pool".to_owned(), pool.into()));
        }
        test.set("expect", DraftValue::Inline(expect));
        self.tests.push(test);
    }

    /// Writes them.
    pub(super) fn write(self, draft: &mut Draft) {
        for test in self.tests {
            draft.top.push("test", test);
        }
    }
}
