//! Paths of files, and places of logs.

use std::path::{Path, PathBuf};

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::model::{AccessFormat, LogTarget};
use crate::newcomers;
use crate::place::At;

use super::TextLanguage;

/// A file or folder; a relative one starts from the folder of the configuration file.
pub(crate) struct FilePath;

/// A path in which `*` and `?` may stand for more.
pub(crate) struct FilePattern;

/// A path with at least one `/`, so that a mistyped `stdout` is not a file.
pub(crate) struct LogFile;

/// A place for a log, perhaps after a format and a colon: `combined:/var/log/x.log`.
pub(crate) struct FormattedLog;

impl TextLanguage for FilePath {
    type Value = PathBuf;

    const EXPECTED: &str = "a path";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<PathBuf> {
        file_path(text, at, checker)
    }
}

impl TextLanguage for FilePattern {
    type Value = PathBuf;

    const EXPECTED: &str = "a path or pattern";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<PathBuf> {
        file_path(text, at, checker)
    }
}

impl TextLanguage for LogFile {
    type Value = PathBuf;

    const EXPECTED: &str = "the path of a file";
    const PATTERN: &str = "[/:]";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<PathBuf> {
        log_file(text, at, checker)
    }
}

impl TextLanguage for FormattedLog {
    type Value = (AccessFormat, LogTarget);

    const EXPECTED: &str = "the path of a file";
    const PATTERN: &str = "[/:]";

    fn parse(
        &self,
        text: &Text,
        at: &At,
        checker: &mut Checker<'_>,
    ) -> Option<(AccessFormat, LogTarget)> {
        let written = text.raw.split_once(':').zip(text.value.split_once(':'));
        let found = written.and_then(|((format, raw), (same, value))| {
            let known = FORMATS.into_iter().find(|(name, _)| *name == format)?;
            (same == format).then_some((known, raw, value))
        });
        let Some(((name, format), raw, value)) = found else {
            let file = log_file(text, at, checker)?;
            return Some((AccessFormat::Json, LogTarget::File(file)));
        };
        let target = match value {
            "stdout" => LogTarget::Stdout,
            "stderr" => LogTarget::Stderr,
            _ => {
                let place = Text {
                    raw: raw.to_owned(),
                    value: value.to_owned(),
                };
                let file = log_file(&place, at, checker)?;
                checker.write_before(at, &format!("{name}:"));
                LogTarget::File(file)
            }
        };
        Some((format, target))
    }
}

const FORMATS: [(&str, AccessFormat); 3] = [
    ("json", AccessFormat::Json),
    ("combined", AccessFormat::Combined),
    ("logfmt", AccessFormat::Logfmt),
];

fn file_path(text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<PathBuf> {
    let why = match &*text.value {
        "" => "it is empty",
        value if value.contains('\0') => "it holds a NUL character",
        value if value.starts_with("~/") => "`~` is not replaced",
        _ => {
            shell_variable(text, at, checker);
            return Some(checker.rooted(&text.raw, Path::new(&text.value), "", at));
        }
    };
    let cure = "write a path; a relative one starts from the folder of this file";
    checker.invalid(
        Code::BadText,
        at,
        format!("{:?} is not a path", text.raw),
        why,
        cure,
    )
}

/// `$CERT` is text here, but hardly the name of a file.
fn shell_variable(text: &Text, at: &At, checker: &mut Checker<'_>) {
    let Some((_, after)) = text.raw.split_once('$').filter(|_| !text.is_secret()) else {
        return;
    };
    let end = after
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(after.len());
    let name = after.get(..end).unwrap_or_default();
    if name.starts_with(|c: char| c.is_ascii_uppercase()) {
        let message = format!("`${name}` is kept as text");
        let cure = format!("write ${{env:{name}}} for a variable of the environment");
        checker.report.push_at(
            Code::LeftAsItIs,
            at,
            message,
            "variables stand in ${env:NAME}",
            cure,
        );
    }
}

fn log_file(text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<PathBuf> {
    let value = &*text.value;
    let before_slash = value.split('/').next().unwrap_or_default();
    if value.contains('/') && !before_slash.contains(':') {
        return file_path(text, at, checker);
    }
    let message = format!("{:?} is not a place for a log", text.raw);
    let words = ["stdout", "stderr"];
    let near = if text.is_secret() {
        None
    } else {
        newcomers::nearest(value, words)
    };
    let cure = match near {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if matches!(value, "off" | "none" | "no") => "write false, without quotes".to_owned(),
        None => {
            "write \"stdout\", \"stderr\" or a path with a `/`, such as \"./access.log\"".to_owned()
        }
    };
    checker.invalid(
        Code::UnknownWord,
        at,
        message,
        "it is neither a known word nor a path",
        cure,
    )
}
