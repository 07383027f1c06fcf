//! The static configuration: the operator log and the access log.

use super::node::TraefikNode;
use super::values::unreadable;
use crate::{ConversionReport, DraftTable, DraftValue, Verdict};

/// Reads the operator log.
pub(super) fn log(node: &TraefikNode, top: &mut DraftTable, report: &mut ConversionReport) {
    node.set_own(report, Verdict::Default);
    let (mut level, mut format) = (None, None);
    for (key, node) in node.fields() {
        let text = node.text().unwrap_or("").to_ascii_lowercase();
        let verdict = match (key.to_ascii_lowercase().as_str(), text.as_str()) {
            ("level", "debug" | "warn" | "error") => {
                level = Some(text);
                Verdict::Converted
            }
            ("level", "warning") => {
                level = Some("warn".to_owned());
                Verdict::Converted
            }
            ("level", "info") => Verdict::Default,
            ("level", "fatal" | "panic") => {
                level = Some("error".to_owned());
                Verdict::differs("the least that Lockgate logs are errors")
            }
            ("level", "trace") => {
                level = Some("debug".to_owned());
                Verdict::differs("the most that Lockgate logs is the level debug")
            }
            ("format", "json") => {
                format = Some("json");
                Verdict::Converted
            }
            ("format", "common" | "text") | ("nocolor", _) => Verdict::Default,
            ("filepath", "/proc/self/fd/1" | "/dev/stdout" | "/dev/stderr" | "")
                if node.text().is_some() =>
            {
                Verdict::Default
            }
            ("filepath", _) => Verdict::differs(
                "the operator log goes to stderr, which journald or the container's log keeps",
            ),
            ("maxsize" | "maxage" | "maxbackups" | "compress", _) => {
                Verdict::not_supported("the operator log is no file that could be rotated", None)
            }
            _ => unreadable(),
        };
        node.set(report, verdict);
    }
    match (level, format) {
        (Some(level), None) => top.set("log", level),
        (level, Some(format)) => {
            let mut keys: Vec<(String, DraftValue)> = Vec::new();
            keys.extend(level.map(|level| ("level".to_owned(), level.into())));
            keys.push(("format".to_owned(), format.into()));
            top.set("log", DraftValue::Inline(keys));
        }
        (None, None) => {}
    }
}

/// Reads the access log.
pub(super) fn access_log(node: &TraefikNode, top: &mut DraftTable, report: &mut ConversionReport) {
    node.set_own(report, Verdict::Converted);
    let (mut to, mut json) = (None, false);
    for (key, node) in node.fields() {
        match key.to_ascii_lowercase().as_str() {
            "filepath" => match node.text().filter(|text| !text.is_empty()) {
                Some("/dev/stdout" | "/proc/self/fd/1") => node.set(report, Verdict::Default),
                Some(path) => {
                    to = Some(match path.contains('/') {
                        true => path.to_owned(),
                        false => format!("./{path}"),
                    });
                    node.set(report, Verdict::Converted);
                }
                None => node.set(report, unreadable()),
            },
            "format" => match node.text() {
                Some("json") => {
                    json = true;
                    node.set(report, Verdict::Default);
                }
                Some("common" | "genericCLF") => node.set(report, Verdict::Converted),
                _ => node.set(report, unreadable()),
            },
            "bufferingsize" => node.set(report, Verdict::Default),
            "addinternals" => node.set(report, Verdict::Default),
            "fields" => fields(node, report),
            "filters" => node.mark(
                report,
                &Verdict::not_supported(
                    "Lockgate logs every request, or a share of the successful ones",
                    Some("access_log = { sample = \"10%\" } keeps all failures"),
                ),
            ),
            _ => {}
        }
    }
    match (to, json) {
        (None, true) => {}
        (Some(to), true) => top.set("access_log", to),
        (None, false) => top.set(
            "access_log",
            DraftValue::Inline(vec![("format".to_owned(), "combined".into())]),
        ),
        (Some(to), false) => top.set("access_log", format!("combined:{to}")),
    }
}

/// Fields of the access log: Lockgate has a fixed set without secrets.
fn fields(node: &TraefikNode, report: &mut ConversionReport) {
    let keep = |node: &TraefikNode| {
        node.text()
            .is_some_and(|text| text.eq_ignore_ascii_case("keep"))
    };
    for (key, inner) in node.fields() {
        match key.to_ascii_lowercase().as_str() {
            "defaultmode" if keep(inner) => inner.set(report, Verdict::Default),
            "headers" => {
                for (key, mode) in inner.fields() {
                    if key.eq_ignore_ascii_case("defaultmode") && !keep(mode) {
                        mode.set(report, Verdict::Default);
                    }
                    for (name, mode) in mode.fields() {
                        let name = name.to_ascii_lowercase();
                        let secret =
                            matches!(name.as_str(), "authorization" | "cookie" | "set-cookie");
                        if secret && !keep(mode) {
                            mode.set(report, Verdict::Default);
                        }
                        if keep(mode) && matches!(name.as_str(), "user-agent" | "referer") {
                            mode.set(report, Verdict::Default);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    node.mark_rest(
        report,
        &Verdict::not_supported("the fields of the access log are fixed", None),
    );
}
