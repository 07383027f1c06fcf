//! Names of header fields that may be changed or copied.

use lockgate_http::h1::parse::is_token;

use crate::codes::Code;
use crate::document::TomlString;
use crate::language::MapKeys;

use super::{InvalidText, TextLanguage};

/// The name of a field of a request that a service may set.
pub(crate) struct RequestField;

impl TextLanguage for RequestField {
    type Value = String;

    const EXPECTED: &str = "the name of a field such as \"remote-user\"";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let name = text.value.to_ascii_lowercase().replace('_', "-");
        let why = match () {
            () if !is_token(name.as_bytes()) => Some("it holds what a name must not"),
            () => untouchable(MapKeys::RequestFields, &name).or_else(|| ours(&name)),
        };
        let Some(why) = why else {
            return Ok(text.value.clone());
        };
        let cure = "name another, such as \"remote-user\"";
        Err(text.invalid(Code::BadField, "is not a field to be copied", why, cure))
    }
}

/// The cure for verbs and signs of other servers in field names.
pub(super) fn foreign_change(name: &str) -> Option<(&'static str, String)> {
    const VERBS: [&str; 7] = [
        "add", "set", "remove", "delete", "append", "replace", "hide",
    ];
    if VERBS.contains(&name) {
        let cure = "write headers = { x-name = \"value\", server = false }; { add = \"value\" } as the value adds one";
        return Some((
            "fields stand by their own names, without a verb",
            cure.to_owned(),
        ));
    }
    let plain = name.trim_start_matches(['-', '+', '>', '?']);
    let cure = match name.chars().next()? {
        _ if plain.is_empty() => return None,
        '-' => format!("write {plain} = false, which removes it"),
        '+' => format!("write {plain} = {{ add = \"value\" }}"),
        _ => return None,
    };
    Some(("no sign stands before the name of a field", cure))
}

/// Why a field is left to the server: framing (RFC 9112 §6) and what belongs to one connection
/// (RFC 9110 §7.6.1).
pub(super) fn untouchable(names: MapKeys, name: &str) -> Option<&'static str> {
    match name {
        "content-length" | "transfer-encoding" => Some("it says where a message ends"),
        "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "upgrade"
        | "http2-settings" => Some("it belongs to one connection, not to the message"),
        "host" if names == MapKeys::AnswerFields => Some("answers have no such field"),
        _ => None,
    }
}

/// Why only the server sets a field of a request that is sent on.
fn ours(name: &str) -> Option<&'static str> {
    match name {
        "host" | "expect" | "max-forwards" | "via" => {
            Some("it says where the request goes and how")
        }
        "forwarded" | "x-request-id" => Some("it is made anew for every request"),
        name if name.starts_with("x-forwarded-") => Some("it is made anew for every request"),
        _ => None,
    }
}
