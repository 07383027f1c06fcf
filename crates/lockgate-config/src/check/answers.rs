//! String values about what clients may do with answers, and whence parts of them come: policies of
//! caching, media types, origins, URLs.

use crate::address::EndpointAddr;
use crate::cache_control;
use crate::codes::Code;
use crate::document::Text;
use crate::host::{Host, SiteKey};
use crate::model::{HttpUrl, MediaRange, Origin};
use crate::pattern::{Pattern, PatternError, is_token};
use crate::place::At;
use crate::units;

use super::{Checker, Value};

impl Checker<'_> {
    pub(super) fn cache_policy(&mut self, text: &Text, at: &At) -> Value {
        let why = match cache_control::policy(&text.value) {
            Ok(value) => return Value::Text(value),
            Err(why) => why,
        };
        let age = cache_meant(&text.value);
        let cure = match age.filter(|_| !text.is_secret()) {
            Some(age) => format!("write {age:?}"),
            None => {
                "write \"no-cache\", \"no-store\", \"1h\", \"1y immutable\" or \"10m private stale-while-revalidate=1d\""
                    .to_owned()
            }
        };
        let message = format!("{:?} does not say how long to keep", text.raw);
        self.invalid(Code::BadText, at, message, why, cure)
    }

    /// A time in whole seconds.
    pub(super) fn age(&mut self, text: &Text, at: &At) -> Value {
        match units::age(&text.value) {
            Ok(age) if age.subsec_nanos() == 0 => Value::Duration(age),
            Ok(_) => {
                let message = format!("{:?} is no whole number of seconds", text.raw);
                self.invalid(
                    Code::OutOfRange,
                    at,
                    message,
                    "",
                    "write \"30d\" or \"1y\"".to_owned(),
                )
            }
            Err(error) => self.unit(
                error,
                text,
                at,
                "a time",
                ("d", "\"1h\", \"30d\" or \"1y\""),
            ),
        }
    }

    pub(super) fn media_range(&mut self, text: &Text, at: &At) -> Value {
        match media_range(&text.value) {
            Some(range) => Value::MediaRange(range),
            None => {
                let message = format!("{:?} is not a media type", text.raw);
                let cure = "write \"text/html\" or \"text/*\"".to_owned();
                self.invalid(
                    Code::BadText,
                    at,
                    message,
                    "it has no form like `type/subtype` or `type/*`",
                    cure,
                )
            }
        }
    }

    pub(super) fn origin(&mut self, text: &Text, at: &At) -> Value {
        let why = match origin(&text.value) {
            Ok(origin) => return Value::Origin(origin),
            Err(why) => why,
        };
        let plain =
            text.value.contains('.') && !text.value.contains(['/', '*']) && !text.is_secret();
        let cure = match &*text.value {
            host if plain => format!("write \"https://{host}\""),
            _ => "write \"https://app.example.com\", \"https://*.example.com\" or \"*\"".to_owned(),
        };
        let message = format!("{:?} is not an origin", text.raw);
        self.invalid(Code::BadText, at, message, why, cure)
    }

    pub(super) fn http_url(&mut self, text: &Text, at: &At) -> Value {
        let why = match http_url(&text.value) {
            Ok(url) => return Value::Url(url),
            Err(why) => why,
        };
        let message = format!("{:?} is not a URL to ask", text.raw);
        let cure = "write \"http://127.0.0.1:9000/motd\"".to_owned();
        self.invalid(Code::BadAddress, at, message, why, cure)
    }

    /// The key of a policy: `"*"`, `"/x"`, `"/x/*"`, `"text/css"` or `"text/*"`.
    pub(super) fn cached_key(&mut self, name: &str, at: &At) -> bool {
        let why = match Pattern::parse(name) {
            Ok(pattern) if pattern.params().next().is_none() => return true,
            _ if name == "*" || media_range(name).is_some() => return true,
            Ok(_) => "it has a parameter",
            Err(PatternError::NoSlash | PatternError::Empty) => {
                "it is neither a path nor a media type"
            }
            Err(error) => error.reason(),
        };
        let message = format!("{name:?} says of no answer how long to keep it");
        let cure = match name.trim_start_matches(['*', '.']) {
            "css" => "answers are told apart by their type: write \"text/css\"",
            "js" | "mjs" => "answers are told apart by their type: write \"text/javascript\"",
            "html" | "htm" => "answers are told apart by their type: write \"text/html\"",
            "png" | "jpg" | "jpeg" | "gif" | "webp" | "svg" | "ico" | "avif" => {
                "answers are told apart by their type: write \"image/*\""
            }
            "woff" | "woff2" | "ttf" | "otf" => {
                "answers are told apart by their type: write \"font/*\""
            }
            _ => "write \"*\", \"/assets/*\", \"text/css\" or \"image/*\"",
        };
        self.report.push_at(Code::BadPath, at, message, why, cure);
        false
    }
}

/// `public, max-age=3600, immutable` and `3600`: as it is written here.
fn cache_meant(text: &str) -> Option<String> {
    let words: Vec<&str> = text
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    let age = words.iter().find_map(|word| {
        word.strip_prefix("max-age=")
            .unwrap_or(word)
            .parse::<u64>()
            .ok()
    })?;
    let kept = words
        .iter()
        .filter(|word| matches!(**word, "private" | "immutable"));
    let kept: String = kept.map(|word| format!(" {word}")).collect();
    Some(format!(
        "{}{kept}",
        units::shortest(age.checked_mul(1_000)?)
    ))
}

/// `type/subtype` or `type/*`.
pub(crate) fn media_range(text: &str) -> Option<MediaRange> {
    let (first, second) = text.split_once('/')?;
    let name = |text: &str| is_token(text) && !text.contains('*');
    let lower = text.to_ascii_lowercase();
    match second {
        "*" if name(first) => Some(MediaRange::Under(first.to_ascii_lowercase())),
        _ if name(first) && name(second) => Some(MediaRange::Exact(lower)),
        _ => None,
    }
}

fn http_url(text: &str) -> Result<HttpUrl, &'static str> {
    if text.starts_with("https://") {
        return Err(
            "values are asked for in plain HTTP only: from this machine or a network that is trusted",
        );
    }
    let rest = text
        .strip_prefix("http://")
        .ok_or("it does not begin with `http://`")?;
    let (host, path) = rest
        .find(['/', '?'])
        .map_or((rest, ""), |at| rest.split_at(at));
    if host.contains('@') {
        return Err("it holds a user or a password");
    }
    if !path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        return Err("it holds what must be percent-encoded, or a `#`");
    }
    let host = host.strip_suffix(":80").unwrap_or(host);
    let brackets = host.ends_with(']') || !host.contains(':');
    let whole = if brackets {
        format!("{host}:80")
    } else {
        host.to_owned()
    };
    let addr = EndpointAddr::parse(&whole).map_err(|_| "its host cannot be read")?;
    if matches!(addr, EndpointAddr::Unix(_) | EndpointAddr::Srv(_)) {
        return Err("its host cannot be read");
    }
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Ok(HttpUrl {
        addr,
        host: host.to_owned(),
        path,
    })
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
        Host::Exact(host) => Ok(Some(Origin::Exact(format!("{scheme}://{host}{port}")))),
        Host::Under(host) => Ok(Some(Origin::Under(
            format!("{scheme}://"),
            format!(".{host}{port}"),
        ))),
        Host::Any => Err("its host is missing"),
    }
}
