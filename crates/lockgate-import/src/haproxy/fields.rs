//! Header fields, redirects and fixed responses.

use super::acls::worse;
use super::conditions::HaproxyPart;
use super::words::has_variable;
use crate::field_names::is_of_connection;
use crate::{DraftValue, Verdict};

/// How many fields a route may change.
const MOST_FIELDS: usize = 500;

/// Changes a field of requests or responses.
pub(super) fn field_change(
    words: &[String],
    request: bool,
    part: &HaproxyPart<'_>,
    fields: &mut Vec<(String, DraftValue)>,
) -> Verdict {
    let unknown = || Verdict::not_supported("this rule has no counterpart", None);
    let (action, name, value) = match words {
        [action, text] if action == "reqadd" || action == "rspadd" => match text.split_once(':') {
            Some((name, value)) => ("add-header", name.to_owned(), value.trim().to_owned()),
            None => return unknown(),
        },
        [action, text]
            if action.starts_with("reqi")
                || action.starts_with("rspi")
                || action == "reqdel"
                || action == "rspdel" =>
        {
            let name = text
                .trim_start_matches('^')
                .trim_end_matches(".*")
                .trim_end_matches(':');
            if name.is_empty() || !is_field(name) || !text.starts_with('^') {
                return unknown();
            }
            ("del-header", name.to_owned(), String::new())
        }
        [action, name] if action == "del-header" => ("del-header", name.clone(), String::new()),
        [action, name, value] if action == "set-header" || action == "add-header" => {
            (action.as_str(), name.clone(), value.clone())
        }
        [action, ..] if action == "replace-header" || action == "replace-value" => {
            return Verdict::not_supported(
                "regular expressions over fields have no counterpart",
                None,
            );
        }
        _ => return unknown(),
    };
    let name = name.to_ascii_lowercase();
    if fields.len() >= MOST_FIELDS {
        return Verdict::not_supported("a route has too many fields", None);
    }
    if !is_field(&name) {
        return Verdict::not_supported("this is not the name of a field", None);
    }
    if is_of_connection(&name) || name == "expect" {
        return Verdict::not_supported(
            "the field belongs to one connection or to the framing, which Lockgate manages",
            None,
        );
    }
    if name == "host" && !(request && action == "set-header") {
        return Verdict::not_supported("a request has one Host, and a response has none", None);
    }
    if action == "del-header" {
        if request && own(&name) {
            return Verdict::Default;
        }
        set(fields, &name, false.into());
        return Verdict::Converted;
    }
    if !request && name == "alt-svc" && value.contains("h3") {
        return Verdict::not_supported(
            "this version does not serve HTTP/3; clients use HTTP/2",
            None,
        );
    }
    if request && is_own_value(&name, &value, part) {
        return Verdict::Default;
    }
    let Some(value) = placeholders(&value, part, request) else {
        return Verdict::not_supported(
            "a value has constants, {client}, {host}, {path}, {query}, {scheme}, {method} and {id} only",
            None,
        );
    };
    if action == "add-header" && !(request && own(&name)) {
        let one = DraftValue::Inline(vec![("add".to_owned(), value.as_str().into())]);
        let known = fields
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, v)| v.clone());
        match known {
            None => fields.push((name, one)),
            Some(DraftValue::Text(first)) => set(fields, &name, vec![first, value].into()),
            Some(_) => return Verdict::not_supported("a field is added once", None),
        }
        return Verdict::Converted;
    }
    set(fields, &name, value.into());
    Verdict::Converted
}

fn set(fields: &mut Vec<(String, DraftValue)>, name: &str, value: DraftValue) {
    match fields.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => fields.push((name.to_owned(), value)),
    }
}

fn is_field(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

/// Fields of requests that Lockgate makes anew.
fn own(name: &str) -> bool {
    matches!(
        name,
        "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" | "forwarded" | "proxy"
    )
}

/// Whether a field gets the value that Lockgate gives it.
fn is_own_value(name: &str, value: &str, part: &HaproxyPart<'_>) -> bool {
    let value = value.to_ascii_lowercase();
    match name {
        "x-forwarded-for" => matches!(value.as_str(), "%[src]" | "%ci"),
        "x-forwarded-proto" => value == if part.tls { "https" } else { "http" },
        "x-forwarded-host" => matches!(value.as_str(), "%[req.hdr(host)]" | "%[hdr(host)]"),
        "x-request-id" => matches!(
            value.as_str(),
            "%[uuid()]" | "%[uuid]" | "%[unique-id]" | "%id"
        ),
        _ => false,
    }
}

/// A format of HAProxy with the placeholders of Lockgate; `None` if there is something else in it.
fn placeholders(format: &str, part: &HaproxyPart<'_>, request: bool) -> Option<String> {
    // Braces of the source would be read as placeholders.
    if format.contains(['{', '}']) && !format.contains("${env:") || format.bytes().any(|b| b < 0x20)
    {
        return None;
    }
    let mut out = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(more) = after.strip_prefix('%') {
            out.push('%');
            rest = more;
        } else if let Some(more) = after
            .strip_prefix("ci")
            .filter(|more| !more.starts_with(|c: char| c.is_ascii_alphanumeric()))
        {
            out.push_str("{client}");
            rest = more;
        } else if let Some((sample, more)) = after
            .strip_prefix('[')
            .and_then(|after| after.split_once(']'))
        {
            match sample.to_ascii_lowercase().as_str() {
                "src" => out.push_str("{client}"),
                "req.hdr(host)" | "hdr(host)" if request => out.push_str("{host}"),
                "method" if request => out.push_str("{method}"),
                "path" if request => out.push_str("{path}"),
                "dst_port" => out.push_str(&part.port.to_string()),
                _ => return None,
            }
            rest = more;
        } else if after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '{') {
            return None;
        } else {
            out.push('%');
            rest = after;
        }
    }
    out.push_str(rest);
    // A sample with an argument that holds `]` has left a part of itself.
    (!out.contains("%[") && !format.contains("${env:") || !has_variable(&out.replace("${env:", "")))
        .then_some(out)
}

/// The target of a redirect, its status, and the verdict of its rule.
pub(super) fn location(
    words: &[String],
    part: &HaproxyPart<'_>,
) -> Result<(String, u16, Verdict), String> {
    let mut kind = "";
    let mut target = "";
    let mut status = 302;
    let mut verdict = Verdict::Converted;
    let mut drop_query = false;
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "scheme" | "location" | "prefix" => {
                kind = word.as_str();
                target = words.next().map_or("", String::as_str);
            }
            "code" => {
                status = words
                    .next()
                    .and_then(|code| code.parse().ok())
                    .filter(|code| matches!(code, 301 | 302 | 303 | 307 | 308))
                    .ok_or("the status of a redirect is 301, 302, 303, 307 or 308")?;
            }
            "drop-query" => drop_query = true,
            "append-slash" | "ignore-empty" | "keep-query" => {
                verdict = worse(
                    verdict,
                    Verdict::differs(format!("`{word}` has no counterpart")),
                );
            }
            "set-cookie" | "clear-cookie" => {
                words.next();
                verdict = worse(verdict, Verdict::differs("a redirect sets no cookie"));
            }
            other => {
                return Err(format!(
                    "`{}` of a redirect is not known",
                    other.chars().take(40).collect::<String>()
                ));
            }
        }
    }
    let unknown = "the target has something else than constants, the host, the path and the query";
    let to = match kind {
        "scheme" if matches!(target, "http" | "https") => {
            if !matches!(part.port, 80 | 443) {
                verdict = worse(
                    verdict,
                    Verdict::differs(
                        "the target has the host without the port that the client has used",
                    ),
                );
            }
            format!("{target}://{{host}}{{path}}")
        }
        "prefix" => {
            let base = format_of_url(target).ok_or(unknown)?;
            if base.contains('?') {
                return Err(unknown.to_owned());
            }
            format!("{}{{path}}", base.trim_end_matches('/'))
        }
        "location" => {
            let mut target = target;
            let mut query = false;
            for ending in ["%[capture.req.uri]", "%[url]", "%[pathq]"] {
                if let Some(base) = target.strip_suffix(ending) {
                    let base = format_of_url(base).ok_or(unknown)?;
                    return Ok((format!("{base}{{path}}"), status, verdict));
                }
            }
            if let Some(base) = target.strip_suffix("?%[query]") {
                target = base;
                query = true;
            }
            let to = format_of_url(target).ok_or(unknown)?;
            // Lockgate adds the query of a request where the target has none.
            if !query && !to.contains('?') {
                verdict = worse(
                    verdict,
                    Verdict::differs("the query of the request is kept"),
                );
            }
            to
        }
        _ => return Err("the kind of redirect is not known".to_owned()),
    };
    if drop_query {
        verdict = worse(
            verdict,
            Verdict::differs("the query of the request is kept"),
        );
    }
    let good = to.starts_with('/') || to.starts_with("http://") || to.starts_with("https://");
    if !good {
        return Err("the target of a redirect is a path or a URL".to_owned());
    }
    Ok((to, status, verdict))
}

/// A target with the placeholders of Lockgate.
fn format_of_url(format: &str) -> Option<String> {
    if format.contains(['{', '}', '#']) || format.bytes().any(|b| b <= 0x20) {
        return None;
    }
    let mut out = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once("%[") {
        out.push_str(before);
        let (sample, more) = after.split_once(']')?;
        match sample.to_ascii_lowercase().as_str() {
            "req.hdr(host)" | "hdr(host)" | "req.hdr(host),host_only" | "hdr(host),host_only" => {
                out.push_str("{host}")
            }
            "path" => out.push_str("{path}"),
            _ => return None,
        }
        rest = more;
    }
    out.push_str(rest);
    (!has_variable(&out)).then_some(out)
}

/// The value of `respond` for `http-request return`, its status, and the verdict.
pub(super) fn respond(words: &[String]) -> (DraftValue, u16, Verdict) {
    let mut status = 200_u16;
    let mut kind = None;
    let mut body = None;
    let mut verdict = Verdict::Converted;
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().map_or("", String::as_str);
        match word.as_str() {
            "status" => match value().parse() {
                Ok(known) if (200..600).contains(&known) => status = known,
                _ => {
                    status = 503;
                    verdict = worse(
                        verdict,
                        Verdict::not_supported(
                            "the status is not one of 200 to 599, so that the route answers with 503",
                            None,
                        ),
                    );
                }
            },
            "content-type" => kind = Some(value().trim_matches('"').to_owned()),
            "string" | "lf-string" => {
                let text = value();
                if text.contains(['{', '}'])
                    || (word == "lf-string" && text.contains('%'))
                    || has_variable(text)
                {
                    status = 503;
                    verdict = worse(
                        verdict,
                        Verdict::not_supported(
                            "the body is more than a constant text, so that the route answers with 503",
                            None,
                        ),
                    );
                } else {
                    body = Some(text.to_owned());
                }
            }
            "hdr" => {
                value();
                words.next();
                verdict = worse(
                    verdict,
                    Verdict::differs("the answer has no fields of its own"),
                );
            }
            "default-errorfiles" => {}
            _ => {
                value();
                status = 503;
                verdict = worse(
                    verdict,
                    Verdict::not_supported(
                        "the body is not a constant text, so that the route answers with 503",
                        Some("serve the file by root"),
                    ),
                );
            }
        }
    }
    if matches!(verdict, Verdict::NotSupported { .. }) {
        return (503_i64.into(), 503, verdict);
    }
    let value = match (body, kind) {
        (None, _) => i64::from(status).into(),
        (Some(body), kind) => {
            let mut keys = Vec::new();
            if status != 200 {
                keys.push(("status".to_owned(), i64::from(status).into()));
            }
            keys.push(("body".to_owned(), body.as_str().into()));
            match kind.filter(|kind| kind != "text/plain; charset=utf-8") {
                Some(kind) => keys.push(("type".to_owned(), kind.into())),
                None if keys.len() == 1 => return (body.into(), status, verdict),
                None => {}
            }
            DraftValue::Inline(keys)
        }
    };
    (value, status, verdict)
}
