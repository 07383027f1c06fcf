//! The bodies of errors: a page, a problem, a line of text; and those that the configuration puts
//! in their place.

use lockgate_http::status::reason;

use super::{BodyFormat, ErrorResponse};
use crate::escape;

pub use lockgate_upstream::ErrorPage;

/// Bodies by status, read when the program started.
#[derive(Debug, Clone, Default)]
pub struct ErrorPages(Vec<(u16, ErrorPage)>);

impl ErrorPages {
    /// Puts `page` in the place of the one that is built in, or of the one that was given before.
    pub fn set(&mut self, status: u16, page: ErrorPage) {
        match self.0.binary_search_by_key(&status, |entry| entry.0) {
            Ok(index) => self.0[index].1 = page,
            Err(index) => self.0.insert(index, (status, page)),
        }
    }

    /// The body for `status`; `None` where the one that is built in is used.
    pub fn get(&self, status: u16) -> Option<&ErrorPage> {
        let index = self.0.binary_search_by_key(&status, |entry| entry.0).ok()?;
        self.0.get(index).map(|entry| &entry.1)
    }
}

/// Appends the body that is built in.
pub(super) fn write(out: &mut Vec<u8>, form: BodyFormat, response: &ErrorResponse<'_>) {
    match form {
        BodyFormat::Text => text(out, response),
        BodyFormat::Html => html(out, response),
        BodyFormat::Json => json(out, response),
    }
}

/// `502 Bad Gateway`
fn title(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    if !reason(status).is_empty() {
        out.push(b' ');
        out.extend_from_slice(reason(status).as_bytes());
    }
}

fn text(out: &mut Vec<u8>, response: &ErrorResponse<'_>) {
    title(out, response.status);
    for (before, part) in [
        ("\n", response.detail),
        ("\ncause: ", response.cause.as_str()),
        ("\nrequest: ", response.id),
    ] {
        if !part.is_empty() {
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.push(b'\n');
}

/// RFC 9457 §3; `about:blank` means that the status is the whole of the type (§4.2.1).
fn json(out: &mut Vec<u8>, response: &ErrorResponse<'_>) {
    out.extend_from_slice(b"{\"type\":\"about:blank\",\"title\":");
    escape::json(out, reason(response.status).as_bytes());
    out.extend_from_slice(b",\"status\":");
    out.extend_from_slice(itoa::Buffer::new().format(response.status).as_bytes());
    for (name, part) in [
        ("detail", response.detail),
        ("cause", response.cause.as_str()),
        ("request_id", response.id),
    ] {
        if !part.is_empty() {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            escape::json(out, part.as_bytes());
        }
    }
    out.extend_from_slice(b"}\n");
}

/// No script, nothing fetched, readable by day and by night.
const BEFORE_TITLE: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<meta name=\"robots\" content=\"noindex\">
<title>";
const STYLE: &str = "</title>
<style>
:root { --page: #f6f7f9; --ink: #1d2733; --faint: #667085; --gate: #1f7a8c }
@media (prefers-color-scheme: dark) { :root { --page: #12171d; --ink: #e6eaef; --faint: #8b98a9; --gate: #4fb3c6 } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--page); color: var(--ink); \
font: 1rem/1.5 system-ui, sans-serif }
main { max-width: 34rem; padding: 2rem; border-left: .3rem solid var(--gate) }
h1 { margin: 0 0 .5rem; font-size: 1.6rem; font-weight: 600 }
p { margin: 0 }
small { display: block; margin-top: 1.5rem; color: var(--faint); font-family: ui-monospace, monospace; \
overflow-wrap: anywhere }
</style>
</head>
<body>
<main>
<h1>";

fn html(out: &mut Vec<u8>, response: &ErrorResponse<'_>) {
    out.extend_from_slice(BEFORE_TITLE.as_bytes());
    title(out, response.status);
    out.extend_from_slice(STYLE.as_bytes());
    title(out, response.status);
    out.extend_from_slice(b"</h1>\n<p>");
    escape::html(out, response.detail);
    out.extend_from_slice(b"</p>\n<small>");
    out.extend_from_slice(response.cause.as_str().as_bytes());
    if !response.id.is_empty() {
        out.extend_from_slice(b"<br>");
        escape::html(out, response.id);
    }
    out.extend_from_slice(b"</small>\n</main>\n</body>\n</html>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_response::HttpFault;

    fn hostile() -> ErrorResponse<'static> {
        ErrorResponse {
            detail: "<script>\"'&\n",
            id: "<b>",
            ..ErrorResponse::of(HttpFault::NotFound)
        }
    }

    fn body(form: BodyFormat, response: &ErrorResponse<'_>) -> String {
        let mut out = Vec::new();
        write(&mut out, form, response);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_error_page_escapes_its_texts_and_loads_nothing() {
        let page = body(BodyFormat::Html, &hostile());
        assert!(
            page.contains("<p>&lt;script&gt;&quot;&#39;&amp;\n</p>"),
            "{page}"
        );
        assert!(page.contains("<br>&lt;b&gt;</small>"), "{page}");
        assert!(page.contains("<title>404 Not Found</title>"), "{page}");
        for fetched in ["<script", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
        assert!(page.len() < 2_048, "{}", page.len());
    }

    #[test]
    fn problem_json_escapes_its_texts() {
        let problem: serde_json::Value =
            serde_json::from_str(&body(BodyFormat::Json, &hostile())).unwrap();
        // RFC 9457 §3.1
        assert_eq!(problem["type"], "about:blank");
        assert_eq!(problem["title"], "Not Found");
        assert_eq!(problem["status"], 404);
        assert_eq!(problem["detail"], "<script>\"'&\n");
        assert_eq!(problem["cause"], "refused_by_rule");
        assert_eq!(problem["request_id"], "<b>");
    }

    #[test]
    fn a_text_error_has_three_lines() {
        let response = ErrorResponse {
            id: "abc",
            ..ErrorResponse::of(HttpFault::ConnectionRefused)
        };
        assert_eq!(
            body(BodyFormat::Text, &response),
            "502 Bad Gateway\nthe application cannot be reached\ncause: connect_failed\nrequest: abc\n"
        );
        let unknown = ErrorResponse {
            status: 599,
            detail: "",
            ..response
        };
        assert_eq!(
            body(BodyFormat::Text, &unknown),
            "599\ncause: connect_failed\nrequest: abc\n"
        );
    }

    #[test]
    fn the_last_configured_error_page_wins() {
        let page = |text: &str| ErrorPage {
            body: text.into(),
            media_type: "text/plain".to_owned(),
        };
        let mut pages = ErrorPages::default();
        for (status, text) in [(502, "a"), (404, "b"), (502, "c")] {
            pages.set(status, page(text));
        }
        assert_eq!(pages.get(502), Some(&page("c")));
        assert_eq!(pages.get(404), Some(&page("b")));
        assert_eq!(pages.get(503), None);
    }
}
