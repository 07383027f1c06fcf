//! Escapes that make values harmless in a document.

use std::borrow::Cow;

use super::DocumentKind;

/// The escape of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    None,
    /// Character references, for HTML and XML: text and quoted attributes.
    Markup,
    /// Escapes in strings of JSON and JavaScript, in any quotes.
    Script,
}

impl Escape {
    /// The escape for values in a document of this kind.
    pub(super) fn of(document: DocumentKind) -> Self {
        match document {
            DocumentKind::Html | DocumentKind::Xml => Self::Markup,
            DocumentKind::Script => Self::Script,
            DocumentKind::Other => Self::None,
        }
    }

    pub(super) fn apply(self, value: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::None => Cow::Borrowed(value),
            Self::Markup => markup(value),
            Self::Script => script(value),
        }
    }
}

fn markup(value: &[u8]) -> Cow<'_, [u8]> {
    let reference = |byte: u8| match byte {
        b'&' => Some(&b"&amp;"[..]),
        b'<' => Some(&b"&lt;"[..]),
        b'>' => Some(&b"&gt;"[..]),
        b'"' => Some(&b"&quot;"[..]),
        b'\'' => Some(&b"&#39;"[..]),
        _ => None,
    };
    if !value.iter().any(|byte| reference(*byte).is_some()) {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len() + 16);
    for byte in value {
        match reference(*byte) {
            Some(reference) => out.extend_from_slice(reference),
            None => out.push(*byte),
        }
    }
    Cow::Owned(out)
}

/// Escapes all of these as `\uXXXX`: the only form that JSON and JavaScript share.
fn script(value: &[u8]) -> Cow<'_, [u8]> {
    // Backtick and dollar are special in template literals, the two separators end a line in old
    // JavaScript.
    let plain = |c: char| {
        !c.is_control()
            && !matches!(
                c,
                '"' | '\'' | '\\' | '<' | '>' | '&' | '`' | '$' | '\u{2028}' | '\u{2029}'
            )
    };
    if std::str::from_utf8(value).is_ok_and(|text| text.chars().all(plain)) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 16);
    for c in String::from_utf8_lossy(value).chars() {
        if plain(c) {
            out.push(c);
        } else {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    Cow::Owned(out.into_bytes())
}
