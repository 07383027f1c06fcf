//! Files within the root of a site.

use lockgate_rules::{Pattern, PatternError};

use crate::codes::Code;
use crate::document::TomlString;

use super::{InvalidText, TextLanguage};

/// The name of a file, without a folder.
pub(crate) struct FileName;

/// The path of a file within the root of a site.
pub(crate) struct InsidePath;

/// A path to try in `root`: with placeholders, or a folder.
pub(crate) struct TryPath;

impl TextLanguage for FileName {
    type Value = String;

    const EXPECTED: &str = "the name of a file";
    const PATTERN: &str = "^[^/]+$";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let why = match &*text.value {
            "" => "it is empty",
            "." | ".." => "it is a folder",
            value if value.contains('/') => "it is a path",
            value => match sound(value) {
                Ok(()) => return Ok(value.to_owned()),
                Err(why) => why,
            },
        };
        let cure = "for example \"index.html\"";
        Err(text.invalid(Code::BadText, "is not the name of a file", why, cure))
    }
}

impl TextLanguage for InsidePath {
    type Value = String;

    const EXPECTED: &str = "the path of a file in `root`";
    const PATTERN: &str = "^/";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let value = &*text.value;
        let why = match inside(value) {
            _ if !value.starts_with('/') => "it does not begin with `/`",
            _ if value.ends_with('/') => "it is a folder",
            Ok(()) => return Ok(value.to_owned()),
            Err(why) => why,
        };
        let message = "is not the path of a file in `root`";
        Err(text.invalid(Code::BadPath, message, why, "for example \"/404.html\""))
    }
}

impl TextLanguage for TryPath {
    type Value = String;

    const EXPECTED: &str = "a path to look for in `root`";
    const PATTERN: &str = "^[/{]";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let value = &*text.value;
        let why = match inside(value) {
            _ if value.starts_with('=') => {
                "a missing file is answered with 404 or `not_found` anyway"
            }
            _ if value.starts_with('$') => "placeholders stand in braces",
            _ if !value.starts_with(['/', '{']) => {
                "it begins neither with `/` nor with a placeholder"
            }
            Ok(()) => return Ok(value.to_owned()),
            Err(why) => why,
        };
        let cure = match value {
            value if value.starts_with('=') => "remove it",
            _ => "write \"{path}\", \"{path}.html\", \"{path}/\" or \"/app.html\"",
        };
        let message = "is not a path to look for in `root`";
        Err(text.invalid(Code::BadPath, message, why, cure))
    }
}

fn inside(path: &str) -> Result<(), &'static str> {
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err("it has a segment of dots");
    }
    if path.contains("//") {
        return Err("nothing stands between two `/`");
    }
    sound(path)
}

/// Checks a name: it may have all characters except those that no file name has.
pub(super) fn sound(name: &str) -> Result<(), &'static str> {
    match name {
        name if name.contains(char::is_control) => Err("it holds a control character"),
        name if name.len() > 4_000 => Err("it is longer than 4,000 bytes"),
        name if name.trim() != name => Err("it begins or ends with a space"),
        _ => Ok(()),
    }
}

/// The key of a media type: `".ext"`, `"/x"` or `"/x/*"`.
pub(super) fn file_type_key(name: &TomlString) -> Result<(), InvalidText> {
    let why = match name.value.strip_prefix('.') {
        Some("") => "the extension is missing",
        Some(ending) if ending.contains('.') => "an extension begins at the last dot of the name",
        Some(ending) if ending.contains('/') => "an extension holds no `/`",
        Some(ending) => match sound(ending) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        },
        None => match Pattern::parse(&name.value) {
            Ok(pattern) if pattern.params().next().is_none() => return Ok(()),
            Ok(_) => "it has a parameter",
            Err(PatternError::NoSlash) => "it begins neither with `.` nor with `/`",
            Err(error) => error.reason(),
        },
    };
    let cure = "write \".wasm\", \"/feed\" or \"/feed/*\"";
    Err(name.invalid(Code::BadPath, "is not a key of `types`", why, cure))
}
