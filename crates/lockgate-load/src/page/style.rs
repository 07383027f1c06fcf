//! What a style sheet names: `@import`, and `url()` in declarations (CSS Syntax Level 3 §4, CSS
//! Values Level 4 §4.5).
//!
//! Matches no selectors, so that everything that is named counts as used; of the sources of a font
//! the first does. Of escapes only the backslash is taken away.

/// Longer ones are cut, and so resolve to nothing.
const URL: usize = 16 * 1024;
const WORD: usize = 32;

/// The use of a URL in a style sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlUse {
    Import,
    Font,
    Image,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Normal,
    Slash,
    Comment,
    CommentStar,
    /// Behind `url(`, up to its first character.
    UrlStart,
    UrlBare,
    /// Behind a quoted one, up to its parenthesis.
    UrlEnd,
    Quoted(u8),
}

/// Looks through a style sheet, in pieces of any length.
#[derive(Debug)]
pub(super) struct StyleScanner {
    state: State,
    /// Where a quoted text leads back to.
    in_url: bool,
    escaped: bool,
    /// The identifier that has just been read.
    word: Vec<u8>,
    /// The first one of a declaration, or the name of an at-rule with its `@`.
    property: Vec<u8>,
    /// Whether this declaration has named something.
    named: bool,
    url: Vec<u8>,
}

impl StyleScanner {
    pub(super) fn new() -> Self {
        Self {
            state: State::Normal,
            in_url: false,
            escaped: false,
            word: Vec::new(),
            property: Vec::new(),
            named: false,
            url: Vec::new(),
        }
    }

    /// Takes the next bytes.
    pub(super) fn feed(&mut self, input: &[u8], each: &mut impl FnMut(UrlUse, &[u8])) {
        for byte in input {
            self.step(*byte, each);
        }
    }

    fn step(&mut self, byte: u8, each: &mut impl FnMut(UrlUse, &[u8])) {
        self.state = match (self.state, byte) {
            (State::Comment | State::CommentStar, b'*') => State::CommentStar,
            (State::CommentStar, b'/') => State::Normal,
            (State::Comment | State::CommentStar, _) => State::Comment,
            (State::Slash, b'*') => State::Comment,
            (State::Quoted(_) | State::UrlBare, byte) if self.escaped => {
                self.escaped = false;
                self.push(byte);
                self.state
            }
            (State::Quoted(_) | State::UrlBare, b'\\') => {
                self.escaped = true;
                self.state
            }
            (State::Quoted(quote), byte) if byte == quote || byte == b'\n' => {
                if !self.in_url {
                    if self.property == b"@import" {
                        self.name(each);
                    }
                    State::Normal
                } else {
                    State::UrlEnd
                }
            }
            (State::UrlStart, byte) if byte.is_ascii_whitespace() => State::UrlStart,
            (State::UrlStart | State::Normal | State::Slash, b'"' | b'\'') => {
                self.in_url = self.state == State::UrlStart;
                self.url.clear();
                State::Quoted(byte)
            }
            (State::UrlStart | State::UrlBare | State::UrlEnd, b')') => {
                self.name(each);
                State::Normal
            }
            (State::UrlEnd, _) => State::UrlEnd,
            (State::Quoted(_), byte) => {
                self.push(byte);
                self.state
            }
            (State::UrlStart | State::UrlBare, byte) => {
                self.push(byte);
                State::UrlBare
            }
            (State::Normal | State::Slash, byte) => self.normal(byte),
        };
    }

    fn normal(&mut self, byte: u8) -> State {
        let is_word =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'@') || byte >= 0x80;
        if is_word {
            if self.word.len() < WORD {
                self.word.push(byte.to_ascii_lowercase());
            }
            return State::Normal;
        }
        let word = std::mem::take(&mut self.word);
        if self.property.is_empty() {
            self.property.clone_from(&word);
        }
        match byte {
            b';' | b'{' | b'}' => {
                self.property.clear();
                self.named = false;
            }
            b'(' if word == b"url" => {
                self.url.clear();
                return State::UrlStart;
            }
            b'/' => return State::Slash,
            _ => {}
        }
        State::Normal
    }

    fn push(&mut self, byte: u8) {
        if self.url.len() < URL {
            self.url.push(byte);
        }
    }

    /// A URL is whole.
    fn name(&mut self, each: &mut impl FnMut(UrlUse, &[u8])) {
        let used_for = match &*self.property {
            b"@import" => UrlUse::Import,
            b"src" => UrlUse::Font,
            // `@namespace` and the like name nothing that is fetched.
            [b'@', ..] => return,
            _ => UrlUse::Image,
        };
        if !(self.named && used_for != UrlUse::Image) {
            // Spaces before the parenthesis are none of it, and around a URL they have no meaning.
            each(used_for, self.url.trim_ascii_end());
        }
        self.named = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(sheet: &str) -> Vec<(UrlUse, String)> {
        let mut found = Vec::new();
        let mut style = StyleScanner::new();
        style.feed(sheet.as_bytes(), &mut |used_for, url| {
            found.push((used_for, String::from_utf8_lossy(url).into_owned()));
        });
        found
    }

    #[test]
    fn imports_fonts_and_images_are_told_apart() {
        for (sheet, expected) in [
            (
                "@import 'a.css';@import url(b.css) print;",
                vec![(UrlUse::Import, "a.css"), (UrlUse::Import, "b.css")],
            ),
            (
                "@IMPORT URL( \"c.css\" ) ;",
                vec![(UrlUse::Import, "c.css")],
            ),
            (
                "@font-face{font-family:x;src:url(a.woff2) format('woff2'),url(a.ttf)}",
                vec![(UrlUse::Font, "a.woff2")],
            ),
            (
                "p{background:url(a.png),url('b.png')}q{cursor:url( c.cur ),auto}",
                vec![
                    (UrlUse::Image, "a.png"),
                    (UrlUse::Image, "b.png"),
                    (UrlUse::Image, "c.cur"),
                ],
            ),
            (
                "@media print{p{content:url(a)}}",
                vec![(UrlUse::Image, "a")],
            ),
            (
                "@namespace url(http://www.w3.org/1999/xhtml);@charset 'x';",
                vec![],
            ),
            (
                "/* url(a) */p{a:/**/url(b)/*url(c)*/}",
                vec![(UrlUse::Image, "b")],
            ),
            (
                "p{content:'url(a) /* ';b:url(c)}",
                vec![(UrlUse::Image, "c")],
            ),
            (
                "p{a:url(\"a)\\\"b\");b:url(c\\)d)}",
                vec![(UrlUse::Image, "a)\"b"), (UrlUse::Image, "c)d")],
            ),
            ("p{a:'\nb:url(c)}", vec![(UrlUse::Image, "c")]),
            ("p{a:myurl(b);c:1/2 url(d)}", vec![(UrlUse::Image, "d")]),
            ("p{a:url(b", vec![]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(used, url)| (*used, (*url).to_owned()))
                .collect();
            assert_eq!(named(sheet), expected, "{sheet}");
        }
    }
}
