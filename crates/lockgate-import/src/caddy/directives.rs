//! Directives other than `reverse_proxy`: files, redirects, responses, rewrites and access.

use super::access;
use super::blocks::CaddyStatement;
use super::fields;
use super::files;
use super::matchers::{self, CaddyPathChange, CaddyScope};
use super::order::CaddyOrder;
use super::outcome::{CLOSED, CaddyAction, CaddyFlow, CaddyOutcome};
use super::proxy;
use super::texts::{self, CaddyTextKind, CaddyTextPlace};
use crate::{ConversionReport, DraftValue, Verdict};

/// Whether a directive answers the request.
pub(super) fn ends(name: &str) -> bool {
    matches!(
        name,
        "reverse_proxy"
            | "file_server"
            | "respond"
            | "redir"
            | "abort"
            | "error"
            | "php_fastcgi"
            | "metrics"
            | "acme_server"
            | "copy_response"
            | "invoke"
    )
}

/// Statements of a site that are no directives of its requests.
const OF_SITE: [&str; 8] = [
    "tls",
    "log",
    "bind",
    "handle_errors",
    "import",
    "encode",
    "log_skip",
    "vars",
];

/// Directives of plugins that refuse nothing and answer no request that another directive would.
const HARMLESS: [&str; 14] = [
    "cache",
    "souin",
    "vulcain",
    "replace",
    "replace_response",
    "umami",
    "transform",
    "minify",
    "trace",
    "realip",
    "geoip",
    "dynamic_dns",
    "mercure",
    "rate_limit",
];

/// Directives of plugins and of Caddy 1 that answer with something that is run.
const RUNNING: [&str; 8] = [
    "php",
    "php_server",
    "fastcgi",
    "cgi",
    "proxy",
    "webdav",
    "git",
    "s3proxy",
];

/// Closes a block in which a statement is not known: it might refuse requests.
pub(super) fn close_if_unknown(
    statements: &[CaddyStatement],
    order: &CaddyOrder,
    mut flow: CaddyFlow,
    report: &mut ConversionReport,
) -> CaddyFlow {
    for statement in statements {
        let name = statement.name();
        if name.starts_with('@')
            || ends(name)
            || OF_SITE.contains(&name)
            || CaddyOrder::default().knows(name)
        {
            continue;
        }
        if RUNNING.contains(&name) || (order.knows(name) && !HARMLESS.contains(&name)) {
            flow.closed = true;
        }
        let (because, instead) = match name {
            "rate_limit" => (
                "this plugin has limits in a form of its own",
                Some("limit = \"20/s per client\""),
            ),
            "mercure" | "vulcain" => (
                "Lockgate has no such hub",
                Some("run it beside Lockgate, and proxy to it"),
            ),
            "cache" | "souin" => ("Lockgate has no cache of responses", None),
            "proxy" | "gzip" | "fastcgi" | "errors" | "expires" | "ext" | "internal" | "browse" => {
                (
                    "this is a directive of Caddy 1",
                    Some("convert the file to Caddy 2 first"),
                )
            }
            "php" | "php_server" => (
                "Lockgate runs no PHP, and serves no folder that has it",
                Some("run PHP behind a server of HTTP, and proxy to it"),
            ),
            _ if name.starts_with("{$") => {
                ("the statements in this variable are not known here", None)
            }
            _ => ("this directive is not one of Caddy itself", None),
        };
        let because = match HARMLESS.contains(&name) {
            true => because.to_owned(),
            false => {
                flow.closed = true;
                format!("{because}, so {CLOSED}")
            }
        };
        statement.set_all(report, &Verdict::not_supported(because, instead));
    }
    for statement in statements.iter().filter(|one| one.name() == "import") {
        flow.closed = true;
        let because = format!("what it stands for is not known, so {CLOSED}");
        report.set(statement.id, Verdict::not_supported(because, None));
    }
    flow
}

/// Whether a refusal is only for names that begin with a dot, which Lockgate does not serve.
pub(super) fn only_hides_dots(
    statement: &CaddyStatement,
    scope: &CaddyScope<'_>,
    unmatched: &CaddyOutcome,
) -> bool {
    let patterns = matchers::patterns(statement, scope);
    matches!(unmatched.action, CaddyAction::Files(_))
        && !patterns.is_empty()
        && patterns
            .iter()
            .all(|(pattern, _)| pattern.contains("/.") && !pattern.contains(".well-known"))
        && matchers::only_paths(statement, scope)
}

/// A directive that does not answer.
pub(super) fn apply(
    statement: &CaddyStatement,
    flow: &mut CaddyFlow,
    place: CaddyTextPlace<'_>,
    report: &mut ConversionReport,
) {
    let (_, words) = matchers::of_directive(statement);
    let verdict = match statement.name() {
        "root" => files::root(words, flow),
        "header" => return fields::header(statement, words, flow, place, report),
        "request_header" => return fields::request_header(statement, words, flow, place, report),
        "basic_auth" | "basicauth" => return access::basic(statement, words, flow, report),
        "forward_auth" => return access::forward(statement, words, flow, place, report),
        "encode" => return encode(statement, flow, report),
        "request_body" => return request_body(statement, flow, report),
        "rewrite" => rewrite(words, flow, place),
        "uri" => uri(words, flow, place),
        "try_files" => return files::try_files(statement, words, flow, report),
        "push" => Verdict::differs("browsers no longer take pushes, and Lockgate sends none"),
        "tracing" => {
            flow.keys.insert("trace", true.into());
            Verdict::differs("Lockgate starts traces and passes them on, and exports none")
        }
        "log_append" | "log_name" => {
            Verdict::not_supported("the access log has a fixed form", None)
        }
        "skip_log" | "log_skip" => {
            let because = "a site has one access log for all its paths";
            let instead = "access_log = false in the site";
            Verdict::not_supported(because, Some(instead))
        }
        "vars" => return vars(statement, words, flow, report),
        "map" => {
            let because = "Lockgate has no variables";
            Verdict::not_supported(because, None)
        }
        "templates" => {
            // Their text is not for clients.
            flow.closed = true;
            let because = format!("Lockgate fills no templates, so {CLOSED}");
            Verdict::not_supported(because, None)
        }
        "method" => Verdict::not_supported("Lockgate does not change methods", None),
        "fs" => {
            flow.root = None;
            Verdict::not_supported("Lockgate serves files of the system alone", None)
        }
        "intercept" => Verdict::not_supported("responses are not replaced by their status", None),
        _ => Verdict::not_supported("this directive has no counterpart", None),
    };
    statement.set_all(report, &verdict);
}

/// A directive that answers.
pub(super) fn end(
    statement: &CaddyStatement,
    flow: &mut CaddyFlow,
    place: CaddyTextPlace<'_>,
    report: &mut ConversionReport,
) -> CaddyAction {
    let (_, words) = matchers::of_directive(statement);
    let (action, verdict) = match statement.name() {
        "reverse_proxy" => {
            if flow.tried.take().is_some() {
                let because = "the path is looked up in files before the application is asked";
                report.set(statement.id, Verdict::not_supported(because, None));
                return CaddyAction::Absent;
            }
            return match proxy::convert(statement, words, flow, place, report) {
                Some(upstream) => CaddyAction::Proxy(upstream),
                None => CaddyAction::Absent,
            };
        }
        "file_server" => return files::file_server(statement, words, flow, report),
        "redir" => redir(words, place),
        "respond" => respond(statement, words, place),
        "abort" => (
            CaddyAction::Respond(403, String::new(), None),
            Verdict::differs("Lockgate responds with 403 instead of closing the connection"),
        ),
        "error" => error(words),
        "php_fastcgi" => (
            CaddyAction::Absent,
            Verdict::not_supported(
                "Lockgate speaks no FastCGI, and a folder with PHP is not served as files",
                Some("run PHP behind a server of HTTP, and proxy to it"),
            ),
        ),
        "metrics" => (
            CaddyAction::Absent,
            Verdict::not_supported(
                "Lockgate has its own address for metrics",
                Some("metrics = \"127.0.0.1:9090\""),
            ),
        ),
        _ => (
            CaddyAction::Absent,
            Verdict::not_supported("this directive has no counterpart", None),
        ),
    };
    statement.set_all(report, &verdict);
    action
}

/// `vars`: constants can be put where their names stand.
fn vars(
    statement: &CaddyStatement,
    words: &[String],
    flow: &mut CaddyFlow,
    report: &mut ConversionReport,
) {
    let mut set = Vec::new();
    if let [name, value] = words {
        set.push((statement, name, value));
    } else {
        report.set(statement.id, Verdict::Converted);
    }
    for line in statement.inner() {
        if let [name, value] = line.words.as_slice() {
            set.push((line, name, value));
        }
    }
    for (line, name, value) in set {
        let verdict = match texts::convert(value, CaddyTextKind::Plain, None) {
            Ok(_) => {
                flow.vars.insert(name.clone(), value.clone());
                Verdict::Converted
            }
            Err(because) => {
                flow.vars.remove(name);
                Verdict::not_supported(because, None)
            }
        };
        report.set(line.id, verdict);
    }
}

/// A statement with the constants of `vars` in it.
pub(super) fn with_vars(statement: &CaddyStatement, flow: &CaddyFlow) -> CaddyStatement {
    let mut filled = statement.clone();
    for word in &mut filled.words {
        if !word.contains("vars.") {
            continue;
        }
        for (name, value) in &flow.vars {
            for begin in ["{vars.", "{http.vars."] {
                *word = word.replace(&format!("{begin}{name}}}"), value);
            }
        }
    }
    if let Some(block) = &mut filled.block {
        for inner in block {
            *inner = with_vars(inner, flow);
        }
    }
    filled
}

fn encode(statement: &CaddyStatement, flow: &mut CaddyFlow, report: &mut ConversionReport) {
    flow.keys.insert("compress", true.into());
    report.set(statement.id, Verdict::Converted);
    for line in statement.inner() {
        let verdict = match line.name() {
            "gzip" | "zstd" | "br" if line.args().is_empty() => Verdict::Converted,
            "gzip" | "zstd" | "br" => {
                Verdict::differs("the level of compression is Lockgate's own")
            }
            "minimum_length" => Verdict::differs("bodies from 1 KB on are compressed"),
            "match" => Verdict::differs("the media types that are compressed are Lockgate's own"),
            _ => Verdict::not_supported("this option is not known", None),
        };
        line.set_all(report, &verdict);
    }
}

fn request_body(statement: &CaddyStatement, flow: &mut CaddyFlow, report: &mut ConversionReport) {
    report.set(statement.id, Verdict::Converted);
    for line in statement.inner() {
        let size = line.arg().and_then(texts::size);
        let verdict = match (line.name(), size) {
            ("max_size", Some(size)) => {
                let value = vec![("max".to_owned(), size.into())];
                flow.keys.insert("body", DraftValue::Inline(value));
                Verdict::Converted
            }
            ("max_size", None) if line.arg().is_some_and(|size| size.starts_with("{$")) => {
                let text =
                    texts::convert(line.arg().unwrap_or_default(), CaddyTextKind::Plain, None);
                match text {
                    Ok(text) => {
                        let value = vec![("max".to_owned(), text.text.into())];
                        flow.keys.insert("body", DraftValue::Inline(value));
                        Verdict::differs("the variable must have a size with a unit, such as 10MB")
                    }
                    Err(because) => Verdict::not_supported(because, None),
                }
            }
            ("read_timeout" | "write_timeout", _) => {
                Verdict::differs("slow clients are found by `rates`, not by the whole time")
            }
            _ => Verdict::not_supported("this limit is not known", None),
        };
        line.set_all(report, &verdict);
    }
}

fn rewrite(words: &[String], flow: &mut CaddyFlow, place: CaddyTextPlace<'_>) -> Verdict {
    let Some(to) = words.first() else {
        return Verdict::not_supported("it names no path", None);
    };
    match texts::convert(to, CaddyTextKind::Rewrite, Some(place)) {
        Ok(text) if text.text.starts_with('/') || text.text.starts_with("{path}") => {
            let (path, verdict) = text.with_verdict();
            flow.change = CaddyPathChange::Rewritten(path);
            verdict
        }
        Ok(_) => {
            flow.closed = true;
            Verdict::not_supported(
                format!("the path does not begin with `/`, so {CLOSED}"),
                None,
            )
        }
        Err(because) => {
            flow.closed = true;
            Verdict::not_supported(format!("{because}, so {CLOSED}"), None)
        }
    }
}

fn uri(words: &[String], flow: &mut CaddyFlow, place: CaddyTextPlace<'_>) -> Verdict {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["strip_prefix", prefix] if prefix.starts_with('/') && !prefix.contains('{') => {
            let prefix = prefix.trim_end_matches('/');
            let stripped = match &flow.change {
                CaddyPathChange::None => prefix.to_owned(),
                CaddyPathChange::Stripped(before) => format!("{before}{prefix}"),
                CaddyPathChange::Rewritten(path) => {
                    if let Some(rest) = path.strip_prefix(prefix) {
                        flow.change = CaddyPathChange::Rewritten(rest.to_owned());
                    }
                    return Verdict::Converted;
                }
            };
            let path = place.requests.place.path();
            match path.strip_prefix(stripped.as_str()) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    flow.change = CaddyPathChange::Stripped(stripped);
                }
                // No path of this place begins with the prefix.
                _ => {}
            }
            Verdict::Converted
        }
        ["path_regexp", "^(.*)$" | "^(.*)" | "(.*)", with] if with.matches("$1").count() == 1 => {
            let path = with.replace("$1", &place.path());
            flow.change = CaddyPathChange::Rewritten(path.replacen("//", "/", 1));
            Verdict::Converted
        }
        ["path_regexp", "^", prefix] if prefix.starts_with('/') => {
            flow.change = CaddyPathChange::Rewritten(format!("{prefix}{}", place.path()));
            Verdict::Converted
        }
        _ => {
            flow.closed = true;
            let because = format!("Lockgate has no such change of a path, so {CLOSED}");
            Verdict::not_supported(because, Some("rewrite = \"/new{path}\", or strip_prefix"))
        }
    }
}

fn redir(words: &[String], place: CaddyTextPlace<'_>) -> (CaddyAction, Verdict) {
    let absent = |because: String| {
        let verdict = Verdict::not_supported(because, None);
        (CaddyAction::Absent, verdict)
    };
    let Some(to) = words.first() else {
        return absent("it has no target".to_owned());
    };
    let status = match words.get(1).map(String::as_str) {
        None | Some("temporary") => 302,
        Some("permanent") => 301,
        Some("html") => return absent("Lockgate redirects by a status, not by a page".to_owned()),
        Some(code) => match code.parse::<i64>() {
            Ok(status @ (301 | 302 | 303 | 307 | 308)) => status,
            _ => return absent("this is no status of a redirect".to_owned()),
        },
    };
    match texts::convert(to, CaddyTextKind::Location, Some(place)) {
        Ok(text) => {
            let (mut to, verdict) = text.with_verdict();
            if !to.contains("://") && !to.starts_with('/') && !to.starts_with('{') {
                return absent("the target is relative to the request's path".to_owned());
            }
            if to.contains(|c: char| c.is_whitespace() || c.is_control() || "\"<>\\^`|".contains(c))
            {
                return absent("the target is no URL".to_owned());
            }
            if to.starts_with("{host}") {
                return absent("the target has no scheme".to_owned());
            }
            // A target without a path is one with the path `/`.
            if let Some((_, rest)) = to.split_once("://")
                && !rest.contains(['/', '?', '{', '$'])
            {
                to.push('/');
            }
            (CaddyAction::Redirect(to, status), verdict)
        }
        Err(because) => absent(because),
    }
}

fn respond(
    statement: &CaddyStatement,
    words: &[String],
    place: CaddyTextPlace<'_>,
) -> (CaddyAction, Verdict) {
    let mut body = String::new();
    let mut status = None;
    let is_status = |word: &str| word.len() == 3 && word.parse::<i64>().is_ok();
    match words {
        [] => {}
        [only] if is_status(only) => status = Some(only.clone()),
        [only] => body.clone_from(only),
        [text, code, ..] => {
            body.clone_from(text);
            status = Some(code.clone());
        }
    }
    for line in statement.inner() {
        if let ("body", Some(text)) = (line.name(), line.arg()) {
            text.clone_into(&mut body);
        }
    }
    let refuse = |because: String| {
        let verdict = Verdict::not_supported(because, None);
        (CaddyAction::Absent, verdict)
    };
    let status = match status.map(|code| code.parse::<i64>()) {
        None => 200,
        Some(Ok(status @ 200..=599)) => status,
        _ => return refuse("this is no status from 200 to 599".to_owned()),
    };
    let trimmed = body.trim();
    let is_json = (trimmed.starts_with('{') && trimmed.ends_with('}'))
        || (trimmed.starts_with('[') && trimmed.ends_with(']'));
    let is_json = is_json && trimmed.contains('"') && !trimmed.contains("{{");
    let kind = is_json.then(|| "application/json".to_owned());
    // The braces of JSON are no placeholders.
    if is_json && !trimmed.contains("{http.") && !trimmed.contains("{$") {
        return (CaddyAction::Respond(status, body, kind), Verdict::Converted);
    }
    match texts::convert(&body, CaddyTextKind::Body, Some(place)) {
        Ok(text) => {
            let (body, verdict) = text.with_verdict();
            (CaddyAction::Respond(status, body, kind), verdict)
        }
        Err(because) if status >= 400 => (
            CaddyAction::Respond(status, String::new(), None),
            Verdict::differs(format!("the body is left out: {because}")),
        ),
        Err(because) => refuse(because),
    }
}

fn error(words: &[String]) -> (CaddyAction, Verdict) {
    let code = words
        .iter()
        .find_map(|word| word.parse::<i64>().ok())
        .unwrap_or(500);
    match code {
        400..=599 => (
            CaddyAction::Respond(code, String::new(), None),
            Verdict::Converted,
        ),
        _ => (
            CaddyAction::Absent,
            Verdict::not_supported("this is no status of an error", None),
        ),
    }
}
