//! Plain texts: names, lines, bodies, tokens.

use lockgate_http::h1::parse::is_token;
use serde_json::{Value as Json, json};

use crate::codes::Code;
use crate::document::TomlString;

use super::{InvalidText, TextLanguage};

/// Free text of up to 255 bytes without spaces or control characters: a user, a protocol.
pub(crate) struct Identifier;

/// A text without line breaks.
pub(crate) struct SingleLine;

/// The value of a field.
pub(crate) struct FieldValue;

/// A body: any text, over several lines too.
pub(crate) struct Body;

/// A word of letters, digits and marks (RFC 9110 §5.6.2).
pub(crate) struct Token;

/// A request method, in capitals.
pub(crate) struct MethodName;

impl TextLanguage for Identifier {
    type Value = String;

    const EXPECTED: &str = "a name";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let bad = |c: char| c.is_whitespace() || c.is_control();
        let why = match &*text.value {
            "" => "it is empty",
            value if value.len() > 255 => "it is longer than 255 bytes",
            value if value.contains(bad) => "it holds a space or a control character",
            value => return Ok(value.to_owned()),
        };
        Err(text.invalid(Code::BadText, "is not a name", why, ""))
    }
}

impl TextLanguage for SingleLine {
    type Value = String;

    const EXPECTED: &str = "a text";
    const FREE: bool = true;

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        line(text, "is not a text for one line")
    }
}

impl TextLanguage for FieldValue {
    type Value = String;

    const EXPECTED: &str = "a text";
    const FREE: bool = true;

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        line(text, "is not the value of a field")
    }
}

impl TextLanguage for Body {
    type Value = String;

    const EXPECTED: &str = "a text";
    const FREE: bool = true;

    fn schema(&self) -> Json {
        json!({ "type": "string" })
    }

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        Ok(text.value.clone())
    }
}

impl TextLanguage for Token {
    type Value = String;

    const EXPECTED: &str = "a word such as \"utf-8\"";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        if is_token(text.value.as_bytes()) {
            return Ok(text.value.clone());
        }
        let why = "it has letters, digits and `-` only";
        Err(text.invalid(
            Code::BadText,
            "is not a token",
            why,
            "for example \"utf-8\"",
        ))
    }
}

impl TextLanguage for MethodName {
    type Value = String;

    const EXPECTED: &str = "a method";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let value = &*text.value;
        if is_token(value.as_bytes())
            && !value.contains(|c: char| c.is_ascii_lowercase())
            && value != "CONNECT"
        {
            return Ok(value.to_owned());
        }
        let why = "methods are written in capitals";
        let cure = "write \"GET\" or \"HEAD\"";
        Err(text.invalid(Code::BadText, "is not a method", why, cure))
    }
}

/// Text without control characters; it may be sent in a field.
fn line(text: &TomlString, message: &str) -> Result<String, InvalidText> {
    let why = match &*text.value {
        "" => "it is empty",
        value if value.len() > 8_000 => "it is longer than 8,000 bytes",
        value if value.contains(|c: char| c.is_control() && c != '\t') => {
            "it holds a control character"
        }
        value if value.trim() != value => "it begins or ends with a space",
        value => return Ok(value.to_owned()),
    };
    Err(text.invalid(Code::BadField, message, why, ""))
}
