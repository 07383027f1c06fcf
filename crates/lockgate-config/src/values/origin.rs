//! Origins of web pages, for CORS.

use lockgate_rules::{HostPattern, Origin};

use crate::codes::Code;
use crate::document::TomlString;
use crate::host::SiteKey;

use super::{InvalidText, TextLanguage};

/// `https://example.com`; nothing is every one, `*`.
pub(crate) struct WebOrigin;

impl TextLanguage for WebOrigin {
    type Value = Option<Origin>;

    const EXPECTED: &str = "an origin such as \"https://app.example.com\"";
    const PATTERN: &str = "^(.+://.+|[*])$";

    fn parse(&self, text: &TomlString) -> Result<Option<Origin>, InvalidText> {
        let value = &*text.value;
        origin(value).map_err(|why| {
            let host = value.contains('.') && !value.contains(['/', '*']);
            let meant = host.then(|| format!("write \"https://{value}\""));
            let cure = "write \"https://app.example.com\", \"https://*.example.com\" or \"*\"";
            text.invalid(Code::BadText, "is not an origin", why, cure)
                .or_meant(meant)
        })
    }
}

/// `SCHEME://HOST[:PORT]`, as browsers serialise it (RFC 6454 §6.2); `None` is `*`.
fn origin(text: &str) -> Result<Option<Origin>, &'static str> {
    if text == "*" {
        return Ok(None);
    }
    if text.eq_ignore_ascii_case("null") {
        return Err("every sandboxed page and local file has this origin");
    }
    let (scheme, rest) = text.split_once("://").ok_or("the scheme is missing")?;
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(sound) {
        return Err("what stands before `://` is no scheme");
    }
    if rest.contains(['/', '?', '#', '@']) {
        return Err("an origin has no path: it ends after host and port");
    }
    let scheme = scheme.to_ascii_lowercase();
    let (host, port) = match SiteKey::parse(rest) {
        Ok(SiteKey::Implied(host)) => (host, None),
        Ok(SiteKey::Port(host, port)) => (host, Some(port)),
        _ => return Err("its host cannot be read"),
    };
    let usual = match &*scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let port = port
        .filter(|port| Some(*port) != usual)
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    match host {
        HostPattern::Exact(host) => Ok(Some(Origin::Exact(format!("{scheme}://{host}{port}")))),
        HostPattern::Under(host) => Ok(Some(Origin::Under(
            format!("{scheme}://"),
            format!(".{host}{port}"),
        ))),
        HostPattern::Any => Err("its host is missing"),
    }
}
