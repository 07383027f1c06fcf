//! Plain texts: names, lines, bodies, tokens.

use serde_json::{Value as Json, json};
use lockgate_http::h1::parse::is_token;

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::place::At;

use super::TextLanguage;

/// Free text of up to 255 bytes without spaces or control characters: a user, a protocol.
pub(crate) struct Name;

/// Text on one line.
pub(crate) struct Line;

/// The value of a field.
pub(crate) struct FieldValue;

/// Any text.
pub(crate) struct Body;

/// A word of letters, digits and marks (RFC 9110 §5.6.2).
pub(crate) struct Token;

/// A method of HTTP.
pub(crate) struct Method;

impl TextLanguage for Name {
    type Value = String;

    const EXPECTED: &str = "a name";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        let bad = |c: char| c.is_whitespace() || c.is_control();
        let why = match &*text.value {
            "" => "it is empty",
            value if value.len() > 255 => "it is longer than 255 bytes",
            value if value.contains(bad) => "it holds a space or a control character",
            value => return Some(value.to_owned()),
        };
        checker.invalid(
            Code::BadText,
            at,
            format!("{:?} is not a name", text.raw),
            why,
            String::new(),
        )
    }
}

impl TextLanguage for Line {
    type Value = String;

    const EXPECTED: &str = "a text";
    const FREE: bool = true;

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        line(text, at, "a text for one line", checker)
    }
}

impl TextLanguage for FieldValue {
    type Value = String;

    const EXPECTED: &str = "a text";
    const FREE: bool = true;

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        line(text, at, "the value of a field", checker)
    }
}

impl TextLanguage for Body {
    type Value = String;

    const EXPECTED: &str = "a text";

    fn schema(&self) -> Json {
        json!({ "type": "string" })
    }
    const FREE: bool = true;

    fn parse(&self, text: &Text, _at: &At, _checker: &mut Checker<'_>) -> Option<String> {
        Some(text.value.clone())
    }
}

impl TextLanguage for Token {
    type Value = String;

    const EXPECTED: &str = "a word such as \"utf-8\"";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        if is_token(text.value.as_bytes()) {
            return Some(text.value.clone());
        }
        let message = format!("{:?} is not a token", text.raw);
        let why = "it has letters, digits and `-` only";
        checker.invalid(Code::BadText, at, message, why, "for example \"utf-8\"")
    }
}

impl TextLanguage for Method {
    type Value = String;

    const EXPECTED: &str = "a method";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        let value = &*text.value;
        if is_token(value.as_bytes())
            && !value.contains(|c: char| c.is_ascii_lowercase())
            && value != "CONNECT"
        {
            return Some(value.to_owned());
        }
        let message = format!("{:?} is not a method", text.raw);
        let why = "methods are written in capitals";
        checker.invalid(Code::BadText, at, message, why, "write \"GET\" or \"HEAD\"")
    }
}

/// Text without control characters; it may be sent in a field.
fn line(text: &Text, at: &At, what: &str, checker: &mut Checker<'_>) -> Option<String> {
    let why = match &*text.value {
        "" => "it is empty",
        value if value.len() > 8_000 => "it is longer than 8,000 bytes",
        value if value.contains(|c: char| c.is_control() && c != '\t') => {
            "it holds a control character"
        }
        value if value.trim() != value => "it begins or ends with a space",
        value => return Some(value.to_owned()),
    };
    checker.invalid(
        Code::BadField,
        at,
        format!("{:?} is not {what}", text.raw),
        why,
        String::new(),
    )
}
