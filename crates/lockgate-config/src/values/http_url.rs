//! URLs of plain HTTP that values come from.

use crate::codes::Code;
use crate::document::TomlString;
use crate::model::{EndpointAddr, HttpUrl};

use super::{InvalidText, TextLanguage};

/// A URL such as `http://127.0.0.1:9000/path`.
pub(crate) struct PlainUrl;

impl TextLanguage for PlainUrl {
    type Value = HttpUrl;

    const EXPECTED: &str = "a URL such as \"http://127.0.0.1:9000/motd\"";
    const PATTERN: &str = "^http://.+";

    fn parse(&self, text: &TomlString) -> Result<HttpUrl, InvalidText> {
        http_url(&text.value).map_err(|why| {
            let cure = "write \"http://127.0.0.1:9000/motd\"";
            text.invalid(Code::BadAddress, "is not a URL to fetch from", why, cure)
        })
    }
}

fn http_url(text: &str) -> Result<HttpUrl, &'static str> {
    if text.starts_with("https://") {
        return Err(
            "values are fetched over plain HTTP only: from this machine or a trusted network",
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
