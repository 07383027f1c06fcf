//! Paths of URLs, and URLs with placeholders.

use lockgate_http::h1::parse::is_token;

use crate::check::Checker;
use crate::codes::Code;
use crate::document::Text;
use crate::newcomers::placeholders;
use crate::place::At;

use super::TextLanguage;

/// The path and query of a URL.
pub(crate) struct UrlPath;

/// A path or URL with placeholders, without spaces or control characters.
pub(crate) struct Template;

impl TextLanguage for UrlPath {
    type Value = String;

    const EXPECTED: &str = "the path of a URL";
    const PATTERN: &str = "^/";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        let value = &*text.value;
        let sendable = value
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if value.starts_with('/') && sendable {
            return Some(value.to_owned());
        }
        let message = format!("{:?} is not the path of a URL", text.raw);
        let why = if sendable {
            "it does not begin with `/`"
        } else {
            "it holds what must be percent-encoded"
        };
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let url = value
            .split_once("://")
            .and_then(|(_, rest)| rest.get(rest.find('/')?..));
        let cure = match (&*words, url) {
            _ if text.is_secret() => "for example \"/health\"".to_owned(),
            ([method, path], _) if is_token(method.as_bytes()) && path.starts_with('/') => {
                format!("write {{ path = {path:?}, method = {method:?} }}")
            }
            (_, Some(path)) => format!("write {path:?}: it is asked of each endpoint"),
            _ => "for example \"/health\"".to_owned(),
        };
        checker.invalid(Code::BadPath, at, message, why, cure)
    }
}

impl TextLanguage for Template {
    type Value = String;

    const EXPECTED: &str = "a path or URL with placeholders";

    fn parse(&self, text: &Text, at: &At, checker: &mut Checker<'_>) -> Option<String> {
        let bad = |c: char| c.is_whitespace() || c.is_control() || !c.is_ascii();
        let why = match &*text.value {
            "" => "it is empty",
            value if value.contains(bad) => "it holds what must be percent-encoded",
            value => return Some(value.to_owned()),
        };
        let message = format!("{:?} is not a place to go", text.raw);
        let foreign = placeholders::foreign(&text.value).and_then(|found| found.ours);
        let status = text.value.split_once(' ').filter(|(status, to)| {
            matches!(*status, "301" | "302" | "303" | "307" | "308") && !to.contains(bad)
        });
        let cure = match (status, foreign) {
            _ if text.is_secret() => "for example \"/new/{*}\"".to_owned(),
            (Some((status, to)), _) => format!("write {{ to = {to:?}, status = {status} }}"),
            (None, Some(ours)) => format!("write {{{ours}}}"),
            (None, None) => "for example \"/new/{*}\"".to_owned(),
        };
        checker.invalid(Code::BadPath, at, message, why, cure)
    }
}
