//! Escaping of texts from outside for their place: a terminal, HTML, CSV.
//!
//! Targets, names of programs and texts of failures come from users and from peers.

/// Without anything that a terminal acts on: control characters and overrides of direction are
/// spelled out.
pub fn terminal(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            if acts(c) {
                out.extend(c.escape_unicode())
            } else {
                out.push(c)
            }
            out
        })
}

/// For text and quoted attributes of HTML and SVG.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if acts(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Words of a command line as a shell reads them: words with other characters than those of names,
/// paths and URLs without a query are quoted.
pub fn shell(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,=+@%".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// One field of a line (RFC 4180 §2), quoted where it must be.
pub fn csv(text: &str) -> String {
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Whether a terminal or a browser would do something with it, instead of showing it.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_quoted_for_a_shell() {
        let words = [
            "load",
            "http://a/?b=1&c",
            "--fail-if",
            "p99 > 20ms",
            "it's",
            "",
        ];
        assert_eq!(
            shell(&words.map(str::to_owned)),
            r"load 'http://a/?b=1&c' --fail-if 'p99 > 20ms' 'it'\''s' ''"
        );
    }

    #[test]
    fn no_text_from_outside_moves_the_cursor_or_ends_what_it_stands_in() {
        assert_eq!(
            terminal("a\x1b[2Jb\r\n\u{202e}ü"),
            r"a\u{1b}[2Jb\u{d}\u{a}\u{202e}ü"
        );
        assert_eq!(
            html("<b a=\"1\" b='2'>&\0"),
            "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;\\u{0}"
        );
        assert_eq!(csv("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(csv("plain text"), "plain text");
    }
}
