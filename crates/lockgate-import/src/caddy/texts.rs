//! Texts of a Caddyfile with variables and placeholders, as Lockgate writes them.

use super::matchers::{CaddyPathChange, CaddyRequests};
use super::paths::CaddyPlace;
use crate::Verdict;

/// Where a text stands, which says what placeholders it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaddyTextKind {
    /// Variables of the environment only.
    Plain,
    /// The target of a redirect.
    Location,
    /// The path of a rewrite.
    Rewrite,
    /// A body, or the value of a field.
    Body,
}

/// A text as Lockgate writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CaddyText {
    /// The text.
    pub(super) text: String,
    /// What is different, if something is.
    pub(super) differs: Option<String>,
}

impl CaddyText {
    /// The text and the verdict on it.
    pub(super) fn with_verdict(self) -> (String, Verdict) {
        let verdict = self.differs.map_or(Verdict::Converted, Verdict::differs);
        (self.text, verdict)
    }
}

/// What a text is converted for.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaddyTextPlace<'a> {
    /// The requests.
    pub(super) requests: CaddyRequests<'a>,
    /// What became of their path.
    pub(super) change: &'a CaddyPathChange,
}

impl CaddyTextPlace<'_> {
    /// The path that Caddy has at this point, in placeholders of Lockgate.
    pub(super) fn path(&self) -> String {
        match self.change {
            CaddyPathChange::None => "{path}".to_owned(),
            CaddyPathChange::Stripped(prefix) => {
                let path = self.requests.place.path();
                let rest = path.strip_prefix(prefix.as_str()).unwrap_or(&path);
                match self.requests.place {
                    CaddyPlace::Below(_) => format!("{rest}/{{*}}"),
                    _ if rest.is_empty() => "/".to_owned(),
                    _ => rest.to_owned(),
                }
            }
            CaddyPathChange::Rewritten(path) => {
                path.split('?').next().unwrap_or_default().to_owned()
            }
        }
    }
}

/// Converts a text.
///
/// # Errors
/// A placeholder that has no counterpart.
pub(super) fn convert(
    text: &str,
    kind: CaddyTextKind,
    place: Option<CaddyTextPlace<'_>>,
) -> Result<CaddyText, String> {
    let mut out = CaddyText::default();
    // Lockgate keeps the query by itself.
    let mut rest = text;
    let mut query_kept = kind == CaddyTextKind::Body || kind == CaddyTextKind::Plain;
    if matches!(kind, CaddyTextKind::Location | CaddyTextKind::Rewrite) {
        for end in ["?{query}", "{?query}", "?{http.request.uri.query}"] {
            if let Some(shorter) = rest.strip_suffix(end) {
                rest = shorter;
                query_kept = true;
            }
        }
        query_kept |= kind == CaddyTextKind::Rewrite;
    }
    while let Some((before, after)) = rest.split_once('{') {
        out.text.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            out.text.push('{');
            rest = after;
            continue;
        };
        rest = after;
        if let Some(variable) = name.strip_prefix('$') {
            let (name, default) = match variable.split_once(':') {
                Some((name, default)) => (name, Some(default)),
                None => (variable, None),
            };
            if !is_variable(name) {
                return Err(format!("`{{${variable}}}` names no variable"));
            }
            out.text.push_str(&format!("${{env:{name}}}"));
            if let Some(default) = default {
                out.differs = Some(format!(
                    "variables have no default here: set {name}, for which the Caddyfile has `{default}`"
                ));
            }
            continue;
        }
        if let Some(name) = name.strip_prefix("env.") {
            if !is_variable(name) {
                return Err(format!("`{{env.{name}}}` names no variable"));
            }
            out.text.push_str(&format!("${{env:{name}}}"));
            continue;
        }
        if kind == CaddyTextKind::Plain {
            return Err(format!("`{{{name}}}` has no counterpart here"));
        }
        let short = name.strip_prefix("http.request.").unwrap_or(name);
        let whole_path = place.map(|place| place.path());
        let body = kind == CaddyTextKind::Body;
        match short {
            "host" | "hostport" if kind != CaddyTextKind::Rewrite => out.text.push_str("{host}"),
            "uri" if !body && rest.is_empty() => {
                out.text.push_str(whole_path.as_deref().unwrap_or("{path}"));
                query_kept = true;
            }
            "path" | "uri.path" => {
                out.text.push_str(whole_path.as_deref().unwrap_or("{path}"));
            }
            "orig_uri.path" | "orig_path" => out.text.push_str("{path}"),
            "query" | "uri.query" => {
                out.text.push_str("{query}");
                query_kept = true;
            }
            "scheme" if body => out.text.push_str("{scheme}"),
            "scheme" if kind == CaddyTextKind::Location => {
                let secure = place.is_some_and(|place| place.requests.secure);
                out.text.push_str(if secure { "https" } else { "http" });
            }
            "method" if body => out.text.push_str("{method}"),
            "remote_host" | "client_ip" | "remote.host" | "http.vars.client_ip" if body => {
                out.text.push_str("{client}");
            }
            "uuid" if body => out.text.push_str("{id}"),
            _ => return Err(format!("`{{{name}}}` has no counterpart here")),
        }
    }
    out.text.push_str(rest);
    if !query_kept && !out.text.contains('?') {
        out.differs = Some("Lockgate adds the query of the request to the target".to_owned());
    }
    Ok(out)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A duration of Caddy as Lockgate writes it: `1m30s` is `90s`.
pub(super) fn duration(text: &str) -> Option<String> {
    let mut total: u64 = 0;
    let mut number = String::new();
    let mut unit = String::new();
    let mut parts = Vec::new();
    for c in text.chars() {
        if c.is_ascii_digit() || c == '.' {
            if !unit.is_empty() {
                parts.push((std::mem::take(&mut number), std::mem::take(&mut unit)));
            }
            number.push(c);
        } else {
            unit.push(c);
        }
    }
    parts.push((number, unit));
    for (number, unit) in &parts {
        let factor = match unit.as_str() {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        };
        let value: f64 = number.parse().ok()?;
        let milliseconds = (value * factor).round();
        if !(0.0..=1e15).contains(&milliseconds) {
            return None;
        }
        total = total.checked_add(milliseconds as u64)?;
    }
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
    ];
    for (unit, factor) in units {
        if total > 0 && total.is_multiple_of(factor) {
            return Some(format!("{}{unit}", total / factor));
        }
    }
    Some(if total == 0 {
        "0s".to_owned()
    } else {
        format!("{total}ms")
    })
}

/// A size of Caddy as Lockgate writes it.
pub(super) fn size(text: &str) -> Option<String> {
    let at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at)?;
    let number: u64 = number.parse().ok()?;
    let unit = match unit.trim().to_lowercase().as_str() {
        "" | "b" => "B",
        "k" | "kb" => "KB",
        "m" | "mb" => "MB",
        "g" | "gb" => "GB",
        "t" | "tb" => "TB",
        "ki" | "kib" => "KiB",
        "mi" | "mib" => "MiB",
        "gi" | "gib" => "GiB",
        "ti" | "tib" => "TiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}
