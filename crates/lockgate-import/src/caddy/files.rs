//! Files: `root`, `file_server` and `try_files`.

use super::blocks::CaddyStatement;
use super::outcome::{CLOSED, CaddyAction, CaddyFlow};
use super::texts::{self, CaddyText, CaddyTextKind};
use crate::{ConversionReport, Verdict};

fn plain(text: &str) -> Result<CaddyText, String> {
    texts::convert(text, CaddyTextKind::Plain, None)
}

/// `root`: the folder of files.
pub(super) fn root(words: &[String], flow: &mut CaddyFlow) -> Verdict {
    match words.first().map(|path| plain(path)) {
        Some(Ok(text)) => {
            let (root, verdict) = text.with_verdict();
            let root = match root.len() > 1 {
                true => root.trim_end_matches('/').to_owned(),
                false => root,
            };
            flow.root = Some(root);
            verdict
        }
        Some(Err(because)) => {
            flow.root = None;
            flow.closed = true;
            Verdict::not_supported(format!("{because}, so {CLOSED}"), None)
        }
        None => Verdict::not_supported("it names no folder", None),
    }
}

/// `try_files`: paths that are looked up in the root.
pub(super) fn try_files(
    statement: &CaddyStatement,
    words: &[String],
    flow: &mut CaddyFlow,
    report: &mut ConversionReport,
) {
    for line in statement.inner() {
        let verdict = match line.arg() {
            Some("first_exist") => Verdict::Default,
            _ => Verdict::not_supported("Lockgate takes the first file that exists", None),
        };
        line.set_all(report, &verdict);
    }
    let mut tried = Vec::new();
    let mut because = None;
    for word in words {
        let short = word.replace("http.request.uri.path", "path");
        let rest = short.strip_prefix("{path}").unwrap_or(&short);
        match rest {
            "=404" => {}
            _ if rest.starts_with('=') => because = Some("a status other than 404"),
            _ if rest.contains(".php") => because = Some("a file that has to be run"),
            _ if rest.contains(['{', '?']) => because = Some("a placeholder"),
            _ if rest.contains(['*', '[', '\\', '%', '#']) || rest.contains("..") => {
                because = Some("a path with signs of patterns");
            }
            _ if short.starts_with("{path}") => tried.push(short),
            _ if rest.starts_with('/') => tried.push(short),
            _ => tried.push(format!("/{rest}")),
        }
    }
    match because {
        None => {
            let verdict = match tried.iter().any(|one| one == "/") {
                true => Verdict::differs(
                    "/ is the index of the root, as in Caddy 2.6; newer versions respond with 404",
                ),
                false => Verdict::Converted,
            };
            let only_path = tried.iter().all(|one| one == "{path}" || one == "{path}/");
            if !only_path {
                flow.tried = Some(tried);
            }
            report.set(statement.id, verdict);
        }
        Some(what) => {
            flow.closed = true;
            let because = format!("it tries {what}, which Lockgate cannot, so {CLOSED}");
            report.set(statement.id, Verdict::not_supported(because, None));
        }
    }
}

/// `file_server`: the files of the root.
pub(super) fn file_server(
    statement: &CaddyStatement,
    words: &[String],
    flow: &mut CaddyFlow,
    report: &mut ConversionReport,
) -> CaddyAction {
    report.set(statement.id, Verdict::Converted);
    let mut secret = false;
    if words.first().is_some_and(|word| word == "browse") {
        flow.keys.insert("listing", true.into());
    }
    for line in statement.inner() {
        let verdict = match line.name() {
            "root" => root(line.args(), flow),
            "browse" => {
                flow.keys.insert("listing", true.into());
                match line.args().is_empty() && line.inner().is_empty() {
                    true => Verdict::Converted,
                    false => Verdict::differs("the page of a listing is Lockgate's own"),
                }
            }
            "index" => {
                let index = line.args().to_vec();
                if index.iter().any(|name| name.contains(['/', '{'])) {
                    Verdict::not_supported("an index is the name of a file", None)
                } else {
                    flow.keys.insert("index", index.into());
                    Verdict::Converted
                }
            }
            "hide" => {
                let dots = line
                    .args()
                    .iter()
                    .all(|name| name.starts_with('.') || name.starts_with("*/."));
                match dots {
                    true => Verdict::Default,
                    false => {
                        secret = true;
                        let because = format!(
                            "Lockgate hides names that begin with a dot and no other ones, so {CLOSED}"
                        );
                        Verdict::not_supported(because, Some("move these files out of the root"))
                    }
                }
            }
            "precompressed" => match line
                .args()
                .iter()
                .any(|one| one == "zstd" || one == "br" || one == "gzip")
                || line.args().is_empty()
            {
                true => Verdict::Default,
                false => Verdict::not_supported("this coding is not known", None),
            },
            "disable_canonical_uris" => {
                Verdict::differs("Lockgate redirects a folder to its path with `/`")
            }
            "pass_thru" => {
                secret = true;
                let because = "what does not exist goes to another directive";
                Verdict::not_supported(format!("{because}, so {CLOSED}"), None)
            }
            "status" | "fs" | "etag_file_extensions" => {
                Verdict::not_supported("Lockgate serves files as they are", None)
            }
            _ => Verdict::not_supported("this option is not known", None),
        };
        line.set_all(report, &verdict);
    }
    flow.closed |= secret;
    match &flow.root {
        Some(root) => CaddyAction::Files(root.clone()),
        None => {
            let because = "no folder is named: Caddy takes the one in which it was started";
            report.set(statement.id, Verdict::differs(because));
            CaddyAction::Files(".".to_owned())
        }
    }
}
