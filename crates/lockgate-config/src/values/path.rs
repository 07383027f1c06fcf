//! Paths of files, and places of logs.

use std::path::PathBuf;

use crate::codes::Code;
use crate::document::TomlString;
use crate::language::TreeChecker;
use crate::model::{AccessFormat, LogTarget};
use crate::source::SourceSpan;
use crate::spelling::nearest;

use super::{InvalidText, TextLanguage, Words};

/// A file or folder; a relative one starts from the folder of the configuration file.
pub(crate) struct FilePath;

/// A path in which `*` and `?` are wildcards.
pub(crate) struct FilePattern;

/// A path with at least one `/`, so that a mistyped `stdout` is not a file.
pub(crate) struct LogFile;

/// A place for a log, perhaps after a format and a colon: `combined:/var/log/x.log`.
pub(crate) struct FormattedLog;

impl TextLanguage for FilePath {
    type Value = PathBuf;

    const EXPECTED: &str = "a path";

    fn parse(&self, text: &TomlString) -> Result<PathBuf, InvalidText> {
        let why = match &*text.value {
            "" => "it is empty",
            value if value.contains('\0') => "it holds a NUL character",
            value if value.starts_with("~/") => "`~` is not replaced",
            value => return Ok(PathBuf::from(value)),
        };
        let cure = "write a path; a relative one starts from the folder of this file";
        Err(text.invalid(Code::BadText, "is not a path", why, cure))
    }

    fn rooted(
        &self,
        path: PathBuf,
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> PathBuf {
        shell_variable(text, at, checker);
        checker.rooted(&text.raw, &path, "", at)
    }
}

impl TextLanguage for FilePattern {
    type Value = PathBuf;

    const EXPECTED: &str = "a path or pattern";

    fn parse(&self, text: &TomlString) -> Result<PathBuf, InvalidText> {
        FilePath.parse(text)
    }

    fn rooted(
        &self,
        path: PathBuf,
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> PathBuf {
        FilePath.rooted(path, text, at, checker)
    }
}

impl TextLanguage for LogFile {
    type Value = PathBuf;

    const EXPECTED: &str = "the path of a file";
    const PATTERN: &str = "[/:]";

    fn parse(&self, text: &TomlString) -> Result<PathBuf, InvalidText> {
        let value = &*text.value;
        let before_slash = value.split('/').next().unwrap_or_default();
        if value.contains('/') && !before_slash.contains(':') {
            return FilePath.parse(text);
        }
        let (message, why) = (
            "is not a place for a log",
            "it is neither a known word nor a path",
        );
        let near = nearest(value, ["stdout", "stderr"]).filter(|_| !text.is_secret());
        let cure = match near {
            Some(near) => format!("did you mean \"{near}\"?"),
            None if matches!(value, "off" | "none" | "no") => {
                "write false, without quotes".to_owned()
            }
            None => "write \"stdout\", \"stderr\" or a path with a `/`, such as \"./access.log\""
                .to_owned(),
        };
        Err(text.invalid(Code::UnknownWord, message, why, cure))
    }

    fn rooted(
        &self,
        path: PathBuf,
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> PathBuf {
        FilePath.rooted(path, text, at, checker)
    }
}

impl TextLanguage for FormattedLog {
    type Value = (AccessFormat, LogTarget);

    const EXPECTED: &str = "the path of a file";
    const PATTERN: &str = "[/:]";

    fn parse(&self, text: &TomlString) -> Result<(AccessFormat, LogTarget), InvalidText> {
        let Some((_, format, place)) = formatted(text) else {
            return Ok((AccessFormat::Json, LogTarget::File(LogFile.parse(text)?)));
        };
        let target = match &*place.value {
            "stdout" => LogTarget::Stdout,
            "stderr" => LogTarget::Stderr,
            _ => LogTarget::File(LogFile.parse(&place)?),
        };
        Ok((format, target))
    }

    fn rooted(
        &self,
        (format, target): (AccessFormat, LogTarget),
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> (AccessFormat, LogTarget) {
        let target = match (target, formatted(text)) {
            (LogTarget::File(path), Some((name, _, place))) => {
                let path = FilePath.rooted(path, &place, at, checker);
                checker.write_before(at, &format!("{name}:"));
                LogTarget::File(path)
            }
            (LogTarget::File(path), None) => {
                LogTarget::File(FilePath.rooted(path, text, at, checker))
            }
            (target, _) => target,
        };
        (format, target)
    }
}

/// The name of a format, the format, and the place that stands after it.
fn formatted(text: &TomlString) -> Option<(&'static str, AccessFormat, TomlString)> {
    let (raw_name, raw) = text.raw.split_once(':')?;
    let (name, value) = text.value.split_once(':')?;
    let known = LOG_FORMATS.0.iter().find(|(known, _)| *known == name);
    let (name, format) = *known.filter(|_| raw_name == name)?;
    let place = TomlString {
        raw: raw.to_owned(),
        value: value.to_owned(),
    };
    Some((name, format, place))
}

/// The formats of access logs.
pub(crate) const LOG_FORMATS: Words<AccessFormat> = Words(&[
    ("json", AccessFormat::Json),
    ("combined", AccessFormat::Combined),
    ("logfmt", AccessFormat::Logfmt),
]);

/// `$CERT` is text here, but hardly the name of a file.
fn shell_variable(text: &TomlString, at: &SourceSpan, checker: &mut TreeChecker<'_>) {
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
