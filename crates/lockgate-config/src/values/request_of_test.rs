//! Requests of tests: a method and a URL.

use lockgate_http::h1::parse::is_token;

use crate::codes::Code;
use crate::document::TomlString;
use crate::model::TestedRequest;

use super::{InvalidText, TextLanguage};

/// `GET https://example.com/path`.
pub(crate) struct RequestOfTest;

impl TextLanguage for RequestOfTest {
    type Value = TestedRequest;

    const EXPECTED: &str = "a method and a URL, such as \"GET https://example.com/api\"";
    const PATTERN: &str = "^([^ ]+ )?[Hh][Tt][Tt][Pp][Ss]?://[^ ]+$";

    fn parse(&self, text: &TomlString) -> Result<TestedRequest, InvalidText> {
        tested_request(&text.value).map_err(|why| {
            let cure = "write \"GET https://example.com/api\"";
            text.invalid(Code::BadText, "is not a request", why, cure)
        })
    }
}

fn tested_request(text: &str) -> Result<TestedRequest, &'static str> {
    let (method, url) = text.split_once(' ').unwrap_or(("GET", text));
    if !is_token(method.as_bytes()) {
        return Err("its method holds what a method must not");
    }
    let (scheme, rest) = url.split_once("://").ok_or("it has no URL with a scheme")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err("the scheme of its URL is neither http nor https");
    }
    if rest.is_empty() || rest.starts_with(['/', '?', '#']) {
        return Err("its URL has no host");
    }
    if !url.chars().all(|c| c.is_ascii_graphic()) {
        return Err("its URL holds what must be percent-encoded");
    }
    Ok(TestedRequest {
        method: method.to_owned(),
        url: url.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_of_a_test_has_a_method_and_a_url() {
        for (text, method, url) in [
            ("GET http://a.test", "GET", "http://a.test"),
            ("https://a.test/x?y", "GET", "https://a.test/x?y"),
            ("PURGE HTTPS://[::1]:8/", "PURGE", "HTTPS://[::1]:8/"),
        ] {
            let request = tested_request(text).unwrap();
            assert_eq!((&*request.method, &*request.url), (method, url), "{text}");
        }
        for text in [
            "",
            "GET",
            "GET /x",
            "GET ftp://a.test/",
            "GET https://",
            "GET https:///x",
            "G(T https://a.test/",
            "GET  https://a.test/",
            "GET https://a.test/a b",
            "GET https://a.test/é",
        ] {
            assert!(tested_request(text).is_err(), "{text}");
        }
    }
}
