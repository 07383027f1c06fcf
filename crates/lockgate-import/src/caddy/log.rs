//! `log`: access logs of sites, and the operator's log.

use super::blocks::CaddyStatement;
use super::texts;
use crate::{ConversionReport, DraftTable, DraftValue, Verdict};

/// The log of a site, as a value of `access_log`; none for the default.
pub(super) fn of_site(
    statement: &CaddyStatement,
    report: &mut ConversionReport,
) -> Option<DraftValue> {
    let mut to = None;
    let mut format = None;
    let mut rotate = None;
    let verdict = match statement.arg() {
        None => Verdict::Default,
        Some(_) => Verdict::differs("a site has one access log"),
    };
    report.set(statement.id, verdict);
    for line in statement.inner() {
        match (line.name(), line.arg()) {
            ("output", Some("stdout")) => report.set(line.id, Verdict::Default),
            ("output", Some("stderr")) => {
                to = Some("stderr".to_owned());
                report.set(line.id, Verdict::Converted);
            }
            ("output", Some("discard")) => {
                line.set_all(report, &Verdict::Converted);
                return Some(false.into());
            }
            ("output", Some("file")) => {
                let file = line.args().get(1).filter(|file| !file.contains('{'));
                match file {
                    Some(file) => {
                        let file = match file.contains('/') {
                            true => file.clone(),
                            false => format!("./{file}"),
                        };
                        to = Some(file);
                        rotate = Some(rolled(line, report));
                    }
                    None => {
                        let because = "the name of the file has a placeholder";
                        line.set_all(report, &Verdict::not_supported(because, None));
                    }
                }
            }
            ("format", kind) => {
                let verdict = match kind {
                    Some("json") if line.inner().is_empty() => Verdict::Default,
                    Some("console") => {
                        format = Some("logfmt");
                        Verdict::differs("Lockgate writes json, combined or logfmt")
                    }
                    _ => Verdict::not_supported(
                        "the fields of a line are fixed, and Lockgate logs no credentials",
                        None,
                    ),
                };
                line.set_all(report, &verdict);
            }
            ("level", Some(level)) => {
                let verdict = match level.to_lowercase().as_str() {
                    "info" | "debug" => Verdict::Default,
                    _ => Verdict::differs("Lockgate logs every request of the site"),
                };
                report.set(line.id, verdict);
            }
            ("sampling" | "hostnames" | "no_hostname", _) => {
                let because = "Lockgate has `access_log.sample`, a share of successful requests";
                line.set_all(report, &Verdict::not_supported(because, None));
            }
            _ => {
                let because = "Lockgate writes logs to files, stdout and stderr";
                line.set_all(report, &Verdict::not_supported(because, None));
            }
        }
    }
    let mut keys = Vec::new();
    if let Some(to) = to {
        keys.push(("to".to_owned(), DraftValue::from(to)));
    }
    if let Some(format) = format {
        keys.push(("format".to_owned(), format.into()));
    }
    if let Some(Some(rotate)) = rotate {
        keys.push(("rotate".to_owned(), DraftValue::Inline(rotate)));
    }
    match keys.as_slice() {
        [] => None,
        [(name, value)] if name == "to" => Some(value.clone()),
        _ => Some(DraftValue::Inline(keys)),
    }
}

/// When the file of an output is closed and a new one begun. Caddy does so by default.
fn rolled(
    line: &CaddyStatement,
    report: &mut ConversionReport,
) -> Option<Vec<(String, DraftValue)>> {
    report.set(line.id, Verdict::Converted);
    let mut rotate = Some(Vec::new());
    for option in line.inner() {
        let arg = option.arg();
        let verdict = match option.name() {
            "roll_disabled" => {
                rotate = None;
                Verdict::Converted
            }
            "roll_size" => match arg.and_then(texts::size) {
                Some(size) => {
                    if let Some(rotate) = &mut rotate {
                        rotate.push(("size".to_owned(), size.into()));
                    }
                    Verdict::Converted
                }
                None => Verdict::not_supported("this is no size", None),
            },
            "roll_keep" => match arg.and_then(|keep| keep.parse::<i64>().ok()) {
                Some(keep) if (0..=10_000).contains(&keep) => {
                    if let Some(rotate) = &mut rotate {
                        rotate.push(("keep".to_owned(), keep.into()));
                    }
                    Verdict::Converted
                }
                _ => Verdict::not_supported("this is no number up to 10,000", None),
            },
            "roll_keep_for" => {
                Verdict::differs("old files are kept by their number, not by their age")
            }
            "roll_uncompressed" => Verdict::Default,
            "roll_local_time" => Verdict::Default,
            _ => Verdict::not_supported("this is not known of files", None),
        };
        report.set(option.id, verdict);
    }
    rotate
}

/// The global `log`: the operator's log.
pub(super) fn global(
    statement: &CaddyStatement,
    top: &mut DraftTable,
    report: &mut ConversionReport,
) {
    let verdict = match statement.arg() {
        None | Some("default") => Verdict::Converted,
        Some(_) => Verdict::differs("Lockgate has one log of its own, and the access logs"),
    };
    report.set(statement.id, verdict);
    let mut keys = Vec::new();
    for line in statement.inner() {
        let arg = line.arg().unwrap_or_default().to_lowercase();
        let verdict = match (line.name(), arg.as_str()) {
            ("output", "stderr") => Verdict::Default,
            ("output", _) => Verdict::differs("Lockgate's own log is on stderr"),
            ("format", "json") if line.inner().is_empty() => {
                keys.push(("format".to_owned(), DraftValue::from("json")));
                Verdict::Converted
            }
            ("format", "console") => Verdict::Default,
            ("level", "info") => Verdict::Default,
            ("level", level @ ("debug" | "warn" | "error")) => {
                keys.push(("level".to_owned(), level.into()));
                Verdict::Converted
            }
            ("include" | "exclude" | "sampling", _) => {
                Verdict::differs("Lockgate's own log is written as a whole")
            }
            _ => Verdict::not_supported("this is not known of logs", None),
        };
        line.set_all(report, &verdict);
    }
    match keys.as_slice() {
        [] => {}
        [(name, value)] if name == "level" => top.set("log", value.clone()),
        _ => top.set("log", DraftValue::Inline(keys)),
    }
}
