//! Paths of URLs, and URLs with placeholders.

use lockgate_http::h1::parse::is_token;

use crate::codes::Code;
use crate::document::TomlString;
use crate::foreign_names::placeholders;

use super::{InvalidText, TextLanguage};

/// The path and query of a URL.
pub(crate) struct UrlPath;

/// A path or URL with placeholders, without spaces or control characters.
pub(crate) struct UrlTemplate;

impl TextLanguage for UrlPath {
    type Value = String;

    const EXPECTED: &str = "the path of a URL";
    const PATTERN: &str = "^/";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let value = &*text.value;
        let sendable = value
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if value.starts_with('/') && sendable {
            return Ok(value.to_owned());
        }
        let why = if sendable {
            "it does not begin with `/`"
        } else {
            "it holds what must be percent-encoded"
        };
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let url = value
            .split_once("://")
            .and_then(|(_, rest)| rest.get(rest.find('/')?..));
        let meant = match (&*words, url) {
            ([method, path], _) if is_token(method.as_bytes()) && path.starts_with('/') => {
                Some(format!("write {{ path = {path:?}, method = {method:?} }}"))
            }
            (_, url) => url.map(|path| format!("write {path:?}: it is asked of each endpoint")),
        };
        let cure = "for example \"/health\"";
        Err(text
            .invalid(Code::BadPath, "is not the path of a URL", why, cure)
            .or_meant(meant))
    }
}

impl TextLanguage for UrlTemplate {
    type Value = String;

    const EXPECTED: &str = "a path or URL with placeholders";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let bad = |c: char| c.is_whitespace() || c.is_control() || !c.is_ascii();
        let why = match &*text.value {
            "" => "it is empty",
            value if value.contains(bad) => "it holds what must be percent-encoded",
            value => return Ok(value.to_owned()),
        };
        let foreign = placeholders::foreign(&text.value).and_then(|found| found.ours);
        let status = text.value.split_once(' ').filter(|(status, to)| {
            matches!(*status, "301" | "302" | "303" | "307" | "308") && !to.contains(bad)
        });
        let meant = match status {
            Some((status, to)) => Some(format!("write {{ to = {to:?}, status = {status} }}")),
            None => foreign.map(|ours| format!("write {{{ours}}}")),
        };
        let cure = "for example \"/new/{*}\"";
        Err(text
            .invalid(Code::BadPath, "is not the target of a redirect", why, cure)
            .or_meant(meant))
    }
}
