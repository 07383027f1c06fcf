//! `${env:NAME}` and `${file:PATH}` in strings.
//!
//! Names and paths may be shown in messages, what they stand for never.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use crate::codes::Code;
use crate::environment::Environment;
use crate::foreign_names::placeholders;
use crate::report::Report;
use crate::source::SourceSpan;

/// Replaces what a string refers to; nothing, after a report, when it cannot be had.
///
/// What was brought in is not read again. Where there are `groups` of a regular expression,
/// `${name}` is one of theirs.
pub(crate) fn substitute(
    raw: &str,
    at: &SourceSpan,
    groups: bool,
    env: &Environment,
    report: &mut Report,
) -> Option<String> {
    if !raw.contains('$') {
        return Some(raw.to_owned());
    }
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut told = BTreeSet::new();
    let mut complete = true;
    while let Some((before, after)) = rest.split_once("${") {
        value.push_str(before);
        let Some((found, tail)) = reference(after) else {
            if after.starts_with("env:") || after.starts_with("file:") {
                no_end(report, at);
                return None;
            }
            if !groups && told.insert("") {
                left_as_it_is(report, after, at);
            }
            value.push_str("${");
            rest = after;
            continue;
        };
        rest = tail;
        match resolve(found, &at.source.dir, env) {
            Ok(found) => value.push_str(&found),
            Err(mistake) => {
                complete = false;
                let (Reference::Env(name) | Reference::File(name)) = found;
                if told.insert(name) {
                    report.push_at(mistake.code, at, mistake.message, mistake.why, mistake.cure);
                }
            }
        }
    }
    value.push_str(rest);
    complete.then_some(value)
}

fn no_end(report: &mut Report, at: &SourceSpan) {
    let message = "a reference without an end";
    let why = "the name or the closing brace is missing";
    report.push_at(
        Code::BadReference,
        at,
        message,
        why,
        "write ${env:NAME} or ${file:/path}",
    );
}

/// Warns about a `${` that is neither `${env:` nor `${file:`; it stays as text.
fn left_as_it_is(report: &mut Report, after: &str, at: &SourceSpan) {
    let end = after
        .bytes()
        .take(LONGEST_REFERENCE)
        .position(|byte| byte == b'}');
    let name = end.and_then(|end| after.get(..end)).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let cure = match name {
        name if name.is_empty() || !name.chars().all(plain) => {
            "only ${env:NAME} and ${file:PATH} are replaced".to_owned()
        }
        name => match placeholders::ours(name).filter(|_| name.chars().any(char::is_lowercase)) {
            Some(ours) => format!(
                "write {{{ours}}} for that of a request, ${{env:{name}}} for a variable of the environment"
            ),
            None => format!("write ${{env:{name}}}"),
        },
    };
    let why = "it is neither ${env:NAME} nor ${file:PATH}";
    report.push_at(Code::LeftAsItIs, at, "`${…}` is kept as text", why, cure);
}

fn resolve(reference: Reference<'_>, dir: &Path, env: &Environment) -> Result<String, Unresolved> {
    match reference {
        Reference::Env(name) => env.var(name).map_err(|why| Unresolved {
            code: Code::NoVariable,
            message: format!("the environment variable {name} cannot be used"),
            why: why.to_owned(),
            cure: "set it where Lockgate is started: Environment= in a systemd unit, or export in a shell",
        }),
        Reference::File(path) => match env.read_file(&dir.join(path)) {
            Ok(text) => {
                let text = text.strip_suffix('\n').unwrap_or(&text);
                Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
            }
            Err(error) => Err(Unresolved {
                code: Code::NoFile,
                message: format!("the file {path} cannot be read"),
                why: error.to_string(),
                cure: match Path::new(path).is_relative() {
                    true => "a relative path starts from the folder of this file",
                    false => "",
                },
            }),
        },
    }
}

struct Unresolved {
    code: Code,
    message: String,
    why: String,
    cure: &'static str,
}

/// The maximum length of a name or path in bytes (PATH_MAX).
const LONGEST_REFERENCE: usize = 4_096;

#[derive(Clone, Copy)]
enum Reference<'a> {
    Env(&'a str),
    File(&'a str),
}

/// The reference after `${` and what follows it.
fn reference(after: &str) -> Option<(Reference<'_>, &str)> {
    let end = after
        .bytes()
        .take(LONGEST_REFERENCE)
        .position(|byte| byte == b'}')?;
    let (inner, tail) = (after.get(..end)?, after.get(end + 1..)?);
    let (kind, name) = inner.split_once(':')?;
    match (kind, name) {
        (_, "") => None,
        ("env", name) if !name.contains(['=', '\0']) => Some((Reference::Env(name), tail)),
        ("file", path) => Some((Reference::File(path), tail)),
        _ => None,
    }
}

/// Makes the path of a `${file:PATH}` absolute in a raw value.
pub(crate) fn absolute<'a>(raw: &'a str, dir: &Path) -> Cow<'a, str> {
    if !raw.contains('$') {
        return raw.into();
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once("${") {
        text.push_str(before);
        text.push_str("${");
        rest = after;
        if let Some((Reference::File(path), tail)) = reference(after) {
            text.push_str(&format!("file:{}}}", dir.join(path).display()));
            rest = tail;
        }
    }
    text.push_str(rest);
    text.into()
}
