//! String values about files that are served: names, paths within a folder, media types.

use crate::codes::Code;
use crate::document::Text;
use crate::pattern::{Pattern, PatternError, is_token};
use crate::place::At;

use super::{Checker, Value};

impl Checker<'_> {
    /// The name of a file in some folder.
    pub(super) fn file_name(&mut self, text: &Text, at: &At) -> Value {
        let why = match &*text.value {
            "" => "it is empty",
            "." | ".." => "it is a folder",
            value if value.contains('/') => "it is a path",
            value => match sound(value) {
                Ok(()) => return Value::Text(value.to_owned()),
                Err(why) => why,
            },
        };
        let message = format!("{:?} is not the name of a file", text.raw);
        self.invalid(
            Code::BadText,
            at,
            message,
            why,
            "for example \"index.html\"".to_owned(),
        )
    }

    /// A path from the root of a folder on.
    pub(super) fn inside_path(&mut self, text: &Text, at: &At) -> Value {
        let value = &*text.value;
        let why = match inside(value) {
            _ if !value.starts_with('/') => "it does not begin with `/`",
            _ if value.ends_with('/') => "it is a folder",
            Ok(()) => return Value::Text(value.to_owned()),
            Err(why) => why,
        };
        let message = format!("{:?} is not the path of a file in `root`", text.raw);
        self.invalid(
            Code::BadPath,
            at,
            message,
            why,
            "for example \"/404.html\"".to_owned(),
        )
    }

    /// The same, where placeholders may stand for parts of it.
    pub(super) fn try_path(&mut self, text: &Text, at: &At) -> Value {
        let value = &*text.value;
        let why = match inside(value) {
            _ if value.starts_with('=') => "what is not there is answered with 404 or `not_found`",
            _ if value.starts_with('$') => "placeholders stand in braces",
            _ if !value.starts_with(['/', '{']) => {
                "it begins neither with `/` nor with a placeholder"
            }
            Ok(()) => return Value::Text(value.to_owned()),
            Err(why) => why,
        };
        let cure = match value {
            value if value.starts_with('=') => "remove it",
            _ => "write \"{path}\", \"{path}.html\", \"{path}/\" or \"/app.html\"",
        };
        let message = format!("{:?} is not a path to look for in `root`", text.raw);
        self.invalid(Code::BadPath, at, message, why, cure.to_owned())
    }

    /// `type/subtype`, perhaps with parameters (RFC 9110 §8.3.1).
    pub(super) fn media_type(&mut self, text: &Text, at: &At) -> Value {
        let value = &*text.value;
        let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
        let whole = essence
            .trim_end()
            .split_once('/')
            .is_some_and(|(a, b)| is_token(a) && is_token(b));
        let clean = value.trim() == value
            && !parameters.contains(|c: char| c.is_control() || !c.is_ascii());
        if whole && clean && value.len() <= 255 {
            return Value::Text(value.to_owned());
        }
        let message = format!("{:?} is not a media type", text.raw);
        let cure = "for example \"text/html\" or \"text/csv; charset=utf-8\"".to_owned();
        self.invalid(
            Code::BadText,
            at,
            message,
            "it has no form like `type/subtype`",
            cure,
        )
    }

    /// A token (RFC 9110 §5.6.2).
    pub(super) fn token(&mut self, text: &Text, at: &At) -> Value {
        if is_token(&text.value) {
            return Value::Text(text.value.clone());
        }
        let message = format!("{:?} is not a token", text.raw);
        let why = "it has letters, digits and `-` only";
        self.invalid(
            Code::BadText,
            at,
            message,
            why,
            "for example \"utf-8\"".to_owned(),
        )
    }

    /// The key of a media type: `".ext"`, `"/x"` or `"/x/*"`.
    pub(super) fn file_type_key(&mut self, name: &str, at: &At) -> bool {
        let cure = "write \".wasm\", \"/feed\" or \"/feed/*\"";
        let why = match name.strip_prefix('.') {
            Some("") => "the ending is missing",
            Some(ending) if ending.contains('.') => "an ending begins at the last dot of the name",
            Some(ending) if ending.contains('/') => "an ending holds no `/`",
            Some(ending) => match sound(ending) {
                Ok(()) => return true,
                Err(why) => why,
            },
            None => match Pattern::parse(name) {
                Ok(pattern) if pattern.params().next().is_none() => return true,
                Ok(_) => "it has a parameter",
                Err(PatternError::NoSlash) => "it is neither an ending nor a path",
                Err(error) => error.reason(),
            },
        };
        let message = format!("{name:?} says of no file what it is");
        self.report.push_at(Code::BadPath, at, message, why, cure);
        false
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

/// Names may hold all but what no file has, or what is surely a slip.
fn sound(name: &str) -> Result<(), &'static str> {
    match name {
        name if name.contains(char::is_control) => Err("it holds a control character"),
        name if name.len() > 4_000 => Err("it is longer than 4,000 bytes"),
        name if name.trim() != name => Err("it begins or ends with a space"),
        _ => Ok(()),
    }
}
