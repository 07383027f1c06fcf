//! The frame of every page: its policy, its style, and nothing from elsewhere.

use aws_lc_rs::digest;
use base64ct::{Base64, Encoding};

const STYLE: &str = include_str!("style.css");

/// A whole page: `title` and `body` are HTML. `own_style` adds to the style that all pages share.
///
/// The page's Content Security Policy allows this style, by hash, and nothing else, so that a text
/// from outside could do nothing even if it were not escaped.
pub fn frame(title: &str, own_style: &str, body: &str) -> String {
    let style = format!("{STYLE}{own_style}");
    let hash = Base64::encode_string(digest::digest(&digest::SHA256, style.as_bytes()).as_ref());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}
