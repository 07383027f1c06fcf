//! The limits of the process: how much of each is used, and which is reached first.
//!
//! A running Lockgate tells its usage and the peaks of the last hour. Without one, the limits are
//! those that a start would compute.

use super::finding::{Finding, Group, Level};
use super::machine::MachineFacts;
use super::needs::Needs;
use super::running::{RunningAnswer, UsedAnswer};
use crate::admin_client::units::{bytes_of, span};
use crate::descriptors::MOST_CONNECTIONS;

const GROUP: Group = Group::Limits;
/// Percentages of a limit from which its peak is a note, and a warning.
const HIGH: u64 = 70;
const NEAR: u64 = 90;

/// A limit, and what a running process uses of it.
#[derive(Debug)]
pub(super) struct LimitUse {
    name: &'static str,
    used: u64,
    /// The most that was seen in use, where that is kept.
    peak: Option<u64>,
    size: u64,
    /// Those that wait for a place now.
    waiting: u64,
    /// What raises it.
    cure: &'static str,
    /// Whether it counts bytes.
    is_bytes: bool,
    /// Whether it can be compared with the peaks of the others.
    is_ranked: bool,
}

impl LimitUse {
    fn of(name: &'static str, answer: &UsedAnswer, cure: &'static str) -> Option<Self> {
        Some(Self {
            name,
            used: answer.used.saturating_sub(answer.idle),
            peak: answer.peak,
            size: answer.size.filter(|size| *size > 0)?,
            waiting: answer.waiting,
            cure,
            is_bytes: false,
            is_ranked: true,
        })
    }

    /// The most that is known to have been in use.
    fn most(&self) -> u64 {
        self.used.max(self.peak.unwrap_or(0))
    }

    /// The most in use as a share of the limit.
    fn share(&self) -> f64 {
        self.most() as f64 / self.size as f64
    }

    /// The same in percent, rounded down.
    fn percent(&self) -> u64 {
        (self.share() * 100.0) as u64
    }

    fn shown(&self, count: u64) -> String {
        match self.is_bytes {
            true => bytes_of(count),
            false => count.to_string(),
        }
    }

    fn finding(&self) -> Finding {
        let percent = self.percent();
        let waiting = match self.waiting {
            0 => String::new(),
            waiting => format!(", {waiting} waiting"),
        };
        let peak = match self.peak {
            Some(_) => format!(", {} at the peak", self.shown(self.most())),
            None => String::new(),
        };
        let found = format!(
            "{} of {} in use{waiting}{peak} ({percent} %)",
            self.shown(self.used),
            self.shown(self.size),
        );
        let level = match percent {
            _ if self.waiting > 0 => Level::Warning,
            NEAR.. => Level::Warning,
            HIGH.. => Level::Note,
            _ => Level::Ok,
        };
        let cure = if level == Level::Ok { "" } else { self.cure };
        GROUP.finding(level, self.name, found, cure)
    }
}

/// The findings, by a running Lockgate if there is one.
pub(super) fn findings(
    needs: &Needs,
    running: Option<&RunningAnswer>,
    machine: &MachineFacts,
) -> Vec<Finding> {
    match running {
        Some(answer) => of_running(answer, machine),
        None => of_start(needs),
    }
}

/// The limits as a start logs them.
fn of_start(needs: &Needs) -> Vec<Finding> {
    let division = &needs.division;
    let connections = division.connections;
    let by = match needs.wanted {
        Some(wanted) if wanted <= connections => "limits.connections",
        None if connections >= MOST_CONNECTIONS => "the default",
        _ => "the open descriptors",
    };
    let mut findings = vec![
        GROUP.ok("connections", format!("{connections}, by {by}")),
        GROUP.ok(
            "sockets towards endpoints",
            format!("{}, by the open descriptors", division.sockets),
        ),
        GROUP.ok("handshakes at once", format!("{}", needs.handshakes)),
    ];
    if let (Some(bytes), true) = (needs.memory.bytes, connections > 0) {
        let each = bytes / connections as u64;
        let found = format!(
            "{}: {} for each of {connections} connections",
            bytes_of(bytes),
            bytes_of(each)
        );
        findings.push(match each < LEAST_PER_CONNECTION {
            true => GROUP.note(
                "memory",
                format!("{found}, so that memory is reached before the connections"),
                "raise limits.memory, or lower limits.connections",
            ),
            false => GROUP.ok("memory", found),
        });
    }
    findings.push(GROUP.note(
        "usage",
        "not known without an answer of a running Lockgate",
        "run doctor again while Lockgate has worked for an hour",
    ));
    findings
}

/// The memory of an idle connection of HTTP/2, measured (`docs/perf.md`), rounded up.
const LEAST_PER_CONNECTION: u64 = 32 << 10;

fn of_running(answer: &RunningAnswer, machine: &MachineFacts) -> Vec<Finding> {
    let mut limits = uses(answer, machine);
    limits.sort_by(|one, other| {
        let by_share = other.share().total_cmp(&one.share());
        other.is_ranked.cmp(&one.is_ranked).then(by_share)
    });
    let within = span(answer.status.limits.peak_seconds);
    let mut findings = Vec::new();
    if let Some(first) = limits.first().filter(|first| first.is_ranked) {
        findings.push(reached_first(first, &within));
    }
    findings.extend(limits.iter().map(LimitUse::finding));
    for limit in &answer.rate_limits.limits {
        let name = format!("rate limit of {}", limit.names.join(", "));
        let found = format!(
            "{} clients at the limit now, {} requests refused since the start",
            limit.limited, limit.refused
        );
        findings.push(match limit.limited {
            0 => GROUP.ok(name, found),
            _ => GROUP.note(
                name,
                found,
                "`lockgate top` shows these clients; raise `limit` if they are welcome",
            ),
        });
    }
    findings
}

/// The limit that is reached first if all load grows alike.
fn reached_first(limit: &LimitUse, within: &str) -> Finding {
    let when = match limit.peak {
        Some(_) => format!("at the peak of the last {within}"),
        None => "now".to_owned(),
    };
    let found = match limit.percent() {
        // A factor of so small a load tells nothing: some of it does not grow with clients.
        0 => format!("nothing is near: less than 1 % of each limit {when}"),
        percent => format!(
            "{}: {percent} % {when}; the limit carries {:.1} times that load",
            limit.name,
            1.0 / limit.share()
        ),
    };
    GROUP.ok("reached first", found)
}

/// Every limit that the running Lockgate has.
fn uses(answer: &RunningAnswer, machine: &MachineFacts) -> Vec<LimitUse> {
    let limits = &answer.status.limits;
    let memory = LimitUse::of(
        "memory",
        &limits.memory,
        "raise limits.memory, or give the machine more",
    );
    let open = machine.open_descriptors.filter(|_| machine.are_of_running);
    let descriptors = open.map(|open| UsedAnswer {
        used: open as u64,
        size: Some(machine.descriptors),
        ..UsedAnswer::default()
    });
    let descriptors = descriptors.and_then(|used| {
        LimitUse::of(
            "open descriptors",
            &used,
            "raise the hard limit (systemd: LimitNOFILE=)",
        )
    });
    // They have no peak, and many of them are open without any client.
    let descriptors = descriptors.map(|descriptors| LimitUse {
        is_ranked: false,
        ..descriptors
    });
    [
        LimitUse::of(
            "connections",
            &limits.connections,
            "raise limits.connections, or the limit of open descriptors that it follows from",
        ),
        LimitUse::of(
            "sockets towards endpoints",
            &limits.sockets,
            "raise the limit of open descriptors, or look for slow endpoints with `lockgate endpoints`",
        ),
        LimitUse::of(
            "handshakes at once",
            &limits.handshakes,
            "use keys of ECDSA P-256, which sign faster than RSA, or give Lockgate more CPUs",
        ),
        memory.map(|memory| LimitUse {
            is_bytes: true,
            ..memory
        }),
        descriptors,
        LimitUse::of(
            "buckets of rate limits",
            &answer.rate_limits.buckets,
            "the oldest buckets give way: shorten the periods of `limit`",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn answer(limits: Value) -> RunningAnswer {
        let mut answer = RunningAnswer::default();
        answer.status.limits = serde_json::from_value(limits).unwrap();
        answer
    }

    fn machine() -> MachineFacts {
        MachineFacts::read(None)
    }

    #[test]
    fn the_limit_with_the_greatest_share_is_reached_first() {
        let running = answer(json!({
            "connections": { "used": 10, "size": 1000, "peak": 250 },
            "sockets": { "used": 90, "size": 100, "idle": 80, "peak": 20 },
            "handshakes": { "used": 0, "size": 1024, "peak": 0 },
            "memory": { "used": 1_000_000, "size": null, "peak": 1_000_000 },
            "peak_seconds": 3600,
        }));
        let found = findings_of(&running);
        assert_eq!(
            found[0].found,
            "connections: 25 % at the peak of the last 1h; the limit carries 4.0 times that load"
        );
        let names: Vec<_> = found.iter().skip(1).map(|one| &*one.what).collect();
        assert_eq!(
            names,
            [
                "connections",
                "sockets towards endpoints",
                "handshakes at once"
            ],
            "memory has no limit"
        );
        assert!(found.iter().all(|one| one.level == Level::Ok), "{found:?}");
    }

    #[test]
    fn open_descriptors_are_never_reached_first() {
        let machine = MachineFacts {
            descriptors: 100,
            open_descriptors: Some(60),
            are_of_running: true,
            ..machine()
        };
        for (peak, first) in [
            (
                2,
                "nothing is near: less than 1 % of each limit at the peak of the last 1h",
            ),
            (
                20,
                "connections: 2 % at the peak of the last 1h; the limit carries 50.0 times that load",
            ),
        ] {
            let found = of_running(
                &answer(json!({
                    "connections": { "used": 1, "size": 1000, "peak": peak },
                    "peak_seconds": 3600,
                })),
                &machine,
            );
            assert_eq!(found[0].found, first);
            let last = found.last().unwrap();
            assert_eq!(last.what, "open descriptors");
            assert_eq!(last.found, "60 of 100 in use (60 %)");
        }
    }

    #[test]
    fn a_limit_that_is_near_or_has_a_queue_is_a_warning() {
        for (connections, level) in [
            (json!({ "used": 1, "size": 100, "peak": 69 }), Level::Ok),
            (json!({ "used": 1, "size": 100, "peak": 70 }), Level::Note),
            (
                json!({ "used": 95, "size": 100, "peak": 0 }),
                Level::Warning,
            ),
            (
                json!({ "used": 1, "size": 100, "waiting": 2 }),
                Level::Warning,
            ),
        ] {
            let found = findings_of(&answer(json!({ "connections": connections })));
            assert_eq!(found[1].level, level, "{found:?}");
            assert_eq!(found[1].cure.is_empty(), level == Level::Ok);
        }
    }

    #[test]
    fn a_rate_limit_with_limited_clients_is_a_note() {
        let mut running = RunningAnswer::default();
        running.rate_limits = serde_json::from_value(json!({
            "limits": [{ "names": ["app"], "limited": 3, "refused": 7 }],
            "buckets": { "used": 5, "size": 10 },
        }))
        .unwrap();
        let found = findings_of(&running);
        let last = found.last().unwrap();
        assert_eq!(last.level, Level::Note);
        assert_eq!(last.what, "rate limit of app");
        assert!(
            found[0]
                .found
                .starts_with("buckets of rate limits: 50 % now")
        );
    }

    fn findings_of(running: &RunningAnswer) -> Vec<Finding> {
        of_running(running, &machine())
    }
}
