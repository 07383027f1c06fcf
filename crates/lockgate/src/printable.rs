//! Text for a terminal that others have written: what could steer the terminal, hide or reorder what
//! stands there is shown escaped.

use std::borrow::Cow;

/// The text with such characters as `\u{1b}`, line ends among them. What is printable stays as it is,
/// so that a text may pass here twice.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_unprintable(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // Of no width: the soft hyphen, joiners, marks of direction, tags.
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
            // Line and paragraph separators, embeddings and overrides of direction.
            | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates of direction.
            | '\u{2060}'..='\u{206f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_hides_text_is_escaped() {
        for (text, shown) in [
            ("", ""),
            ("é 日本 \u{1f600} \\u{1b}", "é 日本 \u{1f600} \\u{1b}"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\r\n\tb\u{7f}", "a\\r\\n\\tb\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b\u{202c}", "a\\u{202e}b\\u{202c}"),
            ("\u{202a}\u{2066}\u{2069}", "\\u{202a}\\u{2066}\\u{2069}"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
            (
                "a\u{200b}\u{200d}\u{2060}\u{feff}",
                "a\\u{200b}\\u{200d}\\u{2060}\\u{feff}",
            ),
            ("\u{200e}\u{200f}\u{ad}", "\\u{200e}\\u{200f}\\u{ad}"),
        ] {
            assert_eq!(printable(text), shown);
            assert_eq!(printable(shown), shown);
        }
    }
}
