//! Media ranges: one media type, or all subtypes of a type.

/// A media range, in lower case and without parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaRange {
    /// One media type: `text/css`.
    Exact(String),
    /// All subtypes of a type: `text` for `text/*`.
    Under(String),
}

impl MediaRange {
    /// Whether the value of a Content-Type is in this range; parameters are ignored (RFC 9110
    /// §8.3.1).
    pub fn matches(&self, content_type: &[u8]) -> bool {
        let essence = content_type
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        match self {
            Self::Exact(exact) => essence.eq_ignore_ascii_case(exact.as_bytes()),
            Self::Under(over) => {
                let slash = memchr::memchr(b'/', essence);
                slash.is_some_and(|slash| essence[..slash].eq_ignore_ascii_case(over.as_bytes()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_range_ignores_parameters_and_case() {
        let (css, text) = (
            MediaRange::Exact("text/css".into()),
            MediaRange::Under("text".into()),
        );
        for (content_type, is_css, is_text) in [
            ("text/css", true, true),
            ("Text/CSS ; charset=utf-8", true, true),
            ("text/cssx", false, true),
            ("textual/css", false, false),
            ("text", false, false),
            ("", false, false),
            ("application/json;x=text/css", false, false),
        ] {
            let found = [&css, &text].map(|range| range.matches(content_type.as_bytes()));
            assert_eq!(found, [is_css, is_text], "{content_type}");
        }
    }
}
