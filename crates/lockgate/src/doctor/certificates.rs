//! The certificates of the listeners and of the state folder: how long they are valid, and the flaws
//! of chains, keys and files.
//!
//! Reads no certificate itself: the assembly has read them, and the examination has judged the
//! chains. Keys that are too weak are mistakes of the configuration.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lockgate_certs::schedule::Validity;
use lockgate_certs::{CertFolder, CertStatus};
use lockgate_config::{Code, Config, Report};
use lockgate_net::tls::{CertFacts, CertSummary, Warning, is_readable_by_all};

use super::finding::{Finding, Group};
use crate::assemble::Assembly;

/// The time before its end from which a certificate of a file is to be replaced.
const SOON: Duration = Duration::from_secs(14 * DAY);
const DAY: u64 = 24 * 60 * 60;
/// Names of a certificate that are printed.
const SHOWN_NAMES: usize = 3;

/// What is known of the certificates.
#[derive(Debug)]
pub(super) struct KnownCerts {
    pub(super) certs: Vec<OneCert>,
    /// Certificates that are ordered, and not there yet: the name, and the last failure.
    pub(super) awaited: Vec<(String, Option<String>)>,
    /// Files of keys that every user can read.
    pub(super) readable_keys: Vec<PathBuf>,
    /// Certificates that have one key.
    pub(super) shared_keys: Vec<Vec<PathBuf>>,
}

/// A certificate.
#[derive(Debug)]
pub(super) struct OneCert {
    pub(super) path: PathBuf,
    /// Its names and its key, for people.
    pub(super) about: String,
    pub(super) validity: Validity,
    pub(super) renewal: CertRenewal,
}

/// How a certificate is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CertRenewal {
    /// By the operator: it is a file.
    Operator,
    /// By an order of the program; with the last failure, if the last try has failed.
    Order {
        name: String,
        /// When it is due, if that is known.
        due: Option<SystemTime>,
        failure: Option<String>,
    },
    /// By our own authority.
    OurAuthority,
}

/// Whether a warning of this code is told among the certificates.
pub(super) fn tells(code: Code) -> bool {
    let codes = [
        Code::CertificateExpired,
        Code::CertificateExpiresSoon,
        Code::CertificateDoubtful,
        Code::CertificateElsewhere,
    ];
    codes.contains(&code)
}

/// Describes the certificates of an assembled configuration.
pub(super) fn facts(config: &Config, assembly: &Assembly, now: SystemTime) -> KnownCerts {
    let orders = orders(config, assembly, now);
    let leaves = config.state.as_deref().map(CertFolder::of_state);
    let leaves: BTreeSet<PathBuf> = match &leaves {
        Some(folder) => {
            let wanted = assembly.wanted_certs.leaves.iter();
            wanted.map(|leaf| folder.leaf_file(&leaf.file())).collect()
        }
        None => BTreeSet::new(),
    };
    let summaries = summaries(assembly);
    let certs = summaries.values().map(|summary| OneCert {
        renewal: match orders.get(&summary.path) {
            Some((name, status)) => CertRenewal::Order {
                name: name.clone(),
                due: status.as_ref().and_then(|status| status.due),
                failure: failure_of(status.as_ref()),
            },
            None if leaves.contains(&summary.path) => CertRenewal::OurAuthority,
            None => CertRenewal::Operator,
        },
        path: summary.path.clone(),
        about: about(summary),
        validity: Validity {
            not_before: summary.facts.not_before,
            not_after: summary.facts.not_after,
        },
    });
    let awaited = orders
        .iter()
        .filter(|(path, _)| !summaries.contains_key(*path))
        .map(|(_, (name, status))| (name.clone(), failure_of(status.as_ref())));
    let mut readable_keys: Vec<_> = summaries
        .values()
        .map(|summary| summary.key_path.clone())
        .filter(|path| is_readable_by_all(path))
        .collect();
    readable_keys.dedup();
    KnownCerts {
        certs: certs.collect(),
        awaited: awaited.collect(),
        readable_keys,
        shared_keys: shared_keys(
            summaries
                .values()
                .map(|summary| (summary.facts.public_key(), summary.path.clone())),
        ),
    }
}

/// The certificates of all listeners, each once.
fn summaries(assembly: &Assembly) -> BTreeMap<PathBuf, CertSummary> {
    let listeners = assembly.listeners.iter();
    let acceptors = listeners.flat_map(|planned| planned.listener.acceptors());
    let all = acceptors.flat_map(|acceptor| acceptor.store().describe());
    all.map(|summary| (summary.path.clone(), summary)).collect()
}

/// The contents of the certificates of all listeners.
pub(super) fn contents(assembly: &Assembly) -> Vec<CertFacts> {
    let summaries = summaries(assembly).into_values();
    summaries.map(|summary| summary.facts).collect()
}

/// The files of the certificates that are ordered, each with its name and what the state folder
/// tells of it.
fn orders(
    config: &Config,
    assembly: &Assembly,
    now: SystemTime,
) -> BTreeMap<PathBuf, (String, Option<CertStatus>)> {
    let Some(folder) = config.state.as_deref().map(CertFolder::of_state) else {
        return BTreeMap::new();
    };
    // A folder that cannot be read is a finding of the disk.
    let stored: HashMap<_, _> = folder.stored(now).unwrap_or_default().into_iter().collect();
    let orders = assembly.wanted_certs.orders.iter();
    orders
        .map(|order| {
            let status = stored.get(&order.id).cloned();
            (folder.cert_file(&order.id), (order.id.name.clone(), status))
        })
        .collect()
}

fn failure_of(status: Option<&CertStatus>) -> Option<String> {
    let status = status.filter(|status| status.failures > 0)?;
    let message = status.failure.as_ref().map(|(_, message)| message.as_str());
    Some(format!(
        "{} tries have failed, the last: {}",
        status.failures,
        message.unwrap_or("for an unknown reason")
    ))
}

fn about(summary: &CertSummary) -> String {
    let facts = &summary.facts;
    let addresses = facts.addresses.iter().map(ToString::to_string);
    let mut names: Vec<_> = facts.names.iter().cloned().chain(addresses).collect();
    let more = names.len().saturating_sub(SHOWN_NAMES);
    names.truncate(SHOWN_NAMES);
    let mut text = names.join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    format!("{text}; {}", facts.key)
}

/// The files with one public key. A file that several paths lead to is one.
fn shared_keys<'a>(certs: impl Iterator<Item = (&'a [u8], PathBuf)>) -> Vec<Vec<PathBuf>> {
    let mut by_key: BTreeMap<&[u8], BTreeMap<PathBuf, PathBuf>> = BTreeMap::new();
    for (key, path) in certs {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        by_key.entry(key).or_default().entry(real).or_insert(path);
    }
    by_key
        .into_values()
        .filter(|paths| paths.len() > 1)
        .map(|paths| paths.into_values().collect())
        .collect()
}

/// The findings; `report` is that of the examination.
pub(super) fn findings(facts: &KnownCerts, report: &Report, now: SystemTime) -> Vec<Finding> {
    let group = Group::Certificates;
    let mut findings: Vec<_> = facts.certs.iter().map(|cert| finding(cert, now)).collect();
    for (name, failure) in &facts.awaited {
        findings.push(match failure {
            Some(failure) => group.problem(
                name,
                format!("no certificate yet; {failure}"),
                "`lockgate cert show NAME` tells more, `lockgate cert obtain NAME` tries again",
            ),
            None => group.note(
                name,
                "no certificate yet",
                "a running Lockgate obtains it; `lockgate cert list` shows how far it is",
            ),
        });
    }
    for path in &facts.readable_keys {
        findings.push(group.warning(
            path.display().to_string(),
            "a private key that every user of the machine can read",
            "chmod o-r the file, and replace the key if a user may have read it",
        ));
    }
    for paths in &facts.shared_keys {
        let list: Vec<_> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        findings.push(group.note(
            "shared key",
            format!("{} have one key", list.join(" and ")),
            "use a key for each: the loss of one is then the loss of one certificate",
        ));
    }
    let told = facts.readable_keys.iter().cloned();
    let told: Vec<_> = told
        .map(|path| Warning::ReadableByOthers { path }.to_string())
        .collect();
    findings.extend(flaws(report, &told));
    findings
}

/// The flaws that the examination has found, but those that are `told`.
fn flaws(report: &Report, told: &[String]) -> Vec<Finding> {
    let doubtful = [Code::CertificateDoubtful, Code::CertificateElsewhere];
    let mut findings: Vec<Finding> = Vec::new();
    for found in report
        .iter()
        .filter(|found| doubtful.contains(&found.code()))
    {
        let message = found.message();
        if told.iter().any(|text| text == message)
            || findings.iter().any(|one| one.found == message)
        {
            continue;
        }
        let at = found.at().map(ToString::to_string);
        let what = at.unwrap_or_else(|| "certificate".to_owned());
        findings.push(Group::Certificates.warning(what, message, found.cure()));
    }
    findings
}

fn finding(cert: &OneCert, now: SystemTime) -> Finding {
    let (group, what) = (Group::Certificates, cert.path.display().to_string());
    let Validity {
        not_before,
        not_after,
    } = cert.validity;
    let days = |time: Duration| {
        let days = time.as_secs() / DAY;
        format!("{days} day{}", if days == 1 { "" } else { "s" })
    };
    if let Ok(since) = now.duration_since(not_after) {
        let found = format!("expired {} ago ({})", days(since), cert.about);
        return group.problem(
            what,
            with_failure(found, &cert.renewal),
            cure(&cert.renewal),
        );
    }
    if let Ok(until) = not_before.duration_since(now)
        && !until.is_zero()
    {
        let found = format!("not valid for another {} ({})", days(until), cert.about);
        return group.problem(
            what,
            found,
            "compare the clock of this machine (`date`), or wait with this certificate",
        );
    }
    let left = not_after.duration_since(now).unwrap_or_default();
    let life = cert.validity.life();
    let found = format!(
        "valid for another {} of {} ({})",
        days(left),
        days(life),
        cert.about
    );
    let is_late = match &cert.renewal {
        // Programs that put files of a short life there renew in time, too.
        CertRenewal::Operator => left < SOON.min(life / 3),
        // It is renewed before a third is left, unless its authority wants another time.
        CertRenewal::Order { due, .. } => left < life / 3 && due.is_none_or(|due| due <= now),
        CertRenewal::OurAuthority => false,
    };
    match is_late {
        true => group.warning(
            what,
            with_failure(found, &cert.renewal),
            cure(&cert.renewal),
        ),
        false => group.ok(what, found),
    }
}

fn with_failure(found: String, renewal: &CertRenewal) -> String {
    match renewal {
        CertRenewal::Order {
            failure: Some(failure),
            ..
        } => format!("{found}; {failure}"),
        _ => found,
    }
}

fn cure(renewal: &CertRenewal) -> String {
    match renewal {
        CertRenewal::Operator => {
            "replace the file by a new certificate: Lockgate takes it up at once".to_owned()
        }
        CertRenewal::Order { name, .. } => {
            format!("`lockgate cert renew {name} --wait` obtains it anew and tells what fails")
        }
        CertRenewal::OurAuthority => "start Lockgate, which issues it anew".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;
    use std::time::UNIX_EPOCH;

    fn day(number: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(number * DAY)
    }

    /// A certificate that is valid from day 100 to day 190.
    fn cert(renewal: CertRenewal) -> OneCert {
        OneCert {
            path: "/etc/tls/a.pem".into(),
            about: "a.test; ECDSA P-256".to_owned(),
            validity: Validity {
                not_before: day(100),
                not_after: day(190),
            },
            renewal,
        }
    }

    fn ordered(failure: Option<&str>) -> CertRenewal {
        CertRenewal::Order {
            name: "a.test".to_owned(),
            due: Some(day(165)),
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn the_time_that_is_left_decides_about_a_certificate() {
        let by_operator = || CertRenewal::Operator;
        for (renewal, at, level) in [
            (by_operator(), 99, Level::Problem),
            (by_operator(), 100, Level::Ok),
            (by_operator(), 175, Level::Ok),
            (by_operator(), 177, Level::Warning),
            (by_operator(), 190, Level::Problem),
            (ordered(None), 159, Level::Ok),
            (ordered(None), 164, Level::Ok),
            (ordered(None), 165, Level::Warning),
            (ordered(None), 191, Level::Problem),
            (ordered(Some("refused")), 170, Level::Warning),
            (CertRenewal::OurAuthority, 189, Level::Ok),
            (CertRenewal::OurAuthority, 190, Level::Problem),
        ] {
            let one = finding(&cert(renewal.clone()), day(at));
            assert_eq!(one.level, level, "{renewal:?} on day {at}: {one:?}");
        }
        let late = finding(&cert(ordered(Some("refused"))), day(180));
        assert!(late.found.ends_with("; refused"), "{late:?}");
        assert!(late.cure.contains("cert renew a.test"), "{late:?}");
    }

    #[test]
    fn an_awaited_certificate_is_a_problem_once_a_try_failed() {
        let facts = |failure: Option<&str>| KnownCerts {
            certs: Vec::new(),
            awaited: vec![("a.test".to_owned(), failure.map(str::to_owned))],
            readable_keys: Vec::new(),
            shared_keys: Vec::new(),
        };
        let level = |failure| findings(&facts(failure), &Report::new(), day(1))[0].level;
        assert_eq!(level(None), Level::Note);
        assert_eq!(level(Some("refused")), Level::Problem);
    }

    #[test]
    fn flaws_of_the_examination_are_told_once() {
        let mut report = Report::new();
        let key: PathBuf = "/etc/tls/a.key".into();
        let readable = Warning::ReadableByOthers { path: key.clone() }.to_string();
        for message in ["the chain is wrong", "the chain is wrong", &readable] {
            report.push(Code::CertificateDoubtful, message, "", "write it anew");
        }
        report.push(Code::CertificateDoubtful, "the chain is short", "", "");
        report.push(Code::CertificateExpired, "expired", "", "");
        let facts = KnownCerts {
            certs: Vec::new(),
            awaited: Vec::new(),
            readable_keys: vec![key],
            shared_keys: Vec::new(),
        };
        let found = findings(&facts, &report, day(1));
        let levels: Vec<_> = found.iter().map(|one| one.level).collect();
        assert_eq!(levels, [Level::Warning; 3], "{found:?}");
        let cures: Vec<_> = found.iter().skip(1).map(|one| &*one.cure).collect();
        assert_eq!(cures, ["write it anew", ""], "a cure is that of its flaw");
    }

    #[test]
    fn two_paths_to_one_file_share_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let [real, link, other] =
            ["a.pem", "link.pem", "b.pem"].map(|name| folder.path().join(name));
        std::fs::write(&real, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let shared = |paths: &[&PathBuf]| {
            let certs = paths.iter().map(|path| (&b"key"[..], PathBuf::from(path)));
            shared_keys(certs)
        };
        assert!(shared(&[&real, &link]).is_empty());
        assert_eq!(
            shared(&[&real, &link, &other]),
            [[real.clone(), other.clone()]]
        );
    }
}
