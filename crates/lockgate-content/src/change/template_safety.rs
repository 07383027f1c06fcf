//! Safety of a template's values, as far as its own text shows where they stand.
//!
//! A small tokenizer of the template's tags, after HTML's (WHATWG HTML, 13.2.5). It begins in text,
//! as the insertions of selectors do; the place where a text or a pattern matches is unknown.

use super::attributes::check_value_behind;
use super::rule_error::RuleFault;
use super::{ChangeTemplate, TemplatePart};

/// Elements with content that has no tags.
const WITHOUT_TAGS: [&str; 8] = [
    "script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes",
];

/// Checks that no value stands where escaping cannot make it harmless.
pub(super) fn check(template: &ChangeTemplate) -> Result<(), RuleFault> {
    let mut reader = TemplateTokenizer::default();
    for part in &template.0 {
        match part {
            TemplatePart::Text(text) => text.iter().for_each(|byte| reader.read(*byte)),
            TemplatePart::Value(_) => reader.value()?,
            // The value is unknown; it has a letter at least.
            TemplatePart::Raw(_) => reader.raw(),
        }
    }
    Ok(())
}

#[derive(Default)]
struct TemplateTokenizer {
    place: TokenizerState,
    /// The current tag or the last one, in lower case, with a slash if it is an end.
    tag: String,
    attribute: String,
    /// The attribute's text so far, without values.
    before: Vec<u8>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum TokenizerState {
    #[default]
    Text,
    /// Behind `<` or `</`.
    Open,
    TagName,
    /// In a tag where an attribute may begin, or in its name.
    Attribute,
    /// Behind a name and a space, where `=` may follow.
    BehindName,
    /// Behind `=`.
    BeforeValue,
    Unquoted,
    Quoted(u8),
    /// In `<!…>` or `<?…>`, with this many bytes of `--` at its beginning.
    Declaration(u8),
    /// Behind this many dashes, or `--!`.
    Comment(u8),
    /// In an element without tags in its content, with this many bytes of its end tag.
    Raw(usize),
}

/// The count of dashes that stands for `--!`.
const BANG: u8 = 3;

impl TemplateTokenizer {
    fn read(&mut self, byte: u8) {
        let low = byte.to_ascii_lowercase();
        let space = byte.is_ascii_whitespace();
        self.place = match self.place {
            TokenizerState::Text if byte == b'<' => {
                self.tag.clear();
                TokenizerState::Open
            }
            TokenizerState::Text => TokenizerState::Text,
            TokenizerState::Open if byte.is_ascii_alphabetic() => {
                self.tag.push(char::from(low));
                TokenizerState::TagName
            }
            TokenizerState::Open if byte == b'/' && self.tag.is_empty() => {
                self.tag.push('/');
                TokenizerState::Open
            }
            TokenizerState::Open
                if matches!(byte, b'!' | b'?') || byte != b'>' && self.tag == "/" =>
            {
                TokenizerState::Declaration(if byte == b'!' && self.tag.is_empty() {
                    0
                } else {
                    BANG
                })
            }
            TokenizerState::Open if byte == b'<' => {
                self.tag.clear();
                TokenizerState::Open
            }
            TokenizerState::Open => TokenizerState::Text,
            TokenizerState::TagName if !space && !matches!(byte, b'/' | b'>') => {
                self.tag.push(char::from(low));
                TokenizerState::TagName
            }
            TokenizerState::Quoted(quote) if byte == quote => self.attribute_ends(),
            TokenizerState::Quoted(quote) => {
                self.before.push(byte);
                TokenizerState::Quoted(quote)
            }
            TokenizerState::BeforeValue if matches!(byte, b'"' | b'\'') => {
                self.before.clear();
                TokenizerState::Quoted(byte)
            }
            TokenizerState::BeforeValue if space => TokenizerState::BeforeValue,
            TokenizerState::TagName
            | TokenizerState::Attribute
            | TokenizerState::BehindName
            | TokenizerState::BeforeValue
            | TokenizerState::Unquoted
                if byte == b'>' =>
            {
                self.attribute.clear();
                let without_tags = WITHOUT_TAGS.contains(&self.tag.as_str());
                if without_tags {
                    TokenizerState::Raw(0)
                } else {
                    TokenizerState::Text
                }
            }
            TokenizerState::BeforeValue => TokenizerState::Unquoted,
            TokenizerState::Unquoted if !space => TokenizerState::Unquoted,
            TokenizerState::TagName | TokenizerState::Unquoted => self.attribute_ends(),
            TokenizerState::Attribute | TokenizerState::BehindName
                if byte == b'=' && !self.attribute.is_empty() =>
            {
                TokenizerState::BeforeValue
            }
            TokenizerState::Attribute | TokenizerState::BehindName if byte == b'/' => {
                self.attribute_ends()
            }
            TokenizerState::Attribute if space && self.attribute.is_empty() => {
                TokenizerState::Attribute
            }
            TokenizerState::Attribute | TokenizerState::BehindName if space => {
                TokenizerState::BehindName
            }
            TokenizerState::BehindName => {
                self.attribute.clear();
                self.attribute.push(char::from(low));
                TokenizerState::Attribute
            }
            TokenizerState::Attribute => {
                self.attribute.push(char::from(low));
                TokenizerState::Attribute
            }
            TokenizerState::Declaration(1) if byte == b'-' => TokenizerState::Comment(2),
            TokenizerState::Declaration(0) if byte == b'-' => TokenizerState::Declaration(1),
            TokenizerState::Declaration(_) | TokenizerState::Comment(2 | BANG) if byte == b'>' => {
                TokenizerState::Text
            }
            TokenizerState::Declaration(_) => TokenizerState::Declaration(BANG),
            TokenizerState::Comment(1 | 2) if byte == b'-' => TokenizerState::Comment(2),
            TokenizerState::Comment(_) if byte == b'-' => TokenizerState::Comment(1),
            TokenizerState::Comment(2) if byte == b'!' => TokenizerState::Comment(BANG),
            TokenizerState::Comment(_) => TokenizerState::Comment(0),
            TokenizerState::Raw(seen) => self.raw_text(seen, byte),
        };
    }

    fn attribute_ends(&mut self) -> TokenizerState {
        self.attribute.clear();
        TokenizerState::Attribute
    }

    /// In `<script>` and similar elements, until the end tag.
    fn raw_text(&mut self, seen: usize, byte: u8) -> TokenizerState {
        let end = [b"</", self.tag.as_bytes()].concat();
        if end
            .get(seen)
            .is_some_and(|wanted| *wanted == byte.to_ascii_lowercase())
        {
            return TokenizerState::Raw(seen + 1);
        }
        if seen == end.len() && (byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>')) {
            self.tag.insert(0, '/');
            return if byte == b'>' {
                TokenizerState::Text
            } else {
                TokenizerState::Attribute
            };
        }
        TokenizerState::Raw(usize::from(byte == b'<'))
    }

    fn value(&mut self) -> Result<(), RuleFault> {
        match self.place {
            TokenizerState::Text | TokenizerState::Declaration(_) | TokenizerState::Comment(_) => {
                Ok(())
            }
            TokenizerState::Quoted(_) => check_value_behind(&self.attribute, &self.before),
            TokenizerState::Raw(_) if matches!(self.tag.as_str(), "script" | "style") => {
                Err(RuleFault::Inside(self.tag.clone()))
            }
            // A value may break the end tag; it begins none, since `<` is escaped.
            TokenizerState::Raw(_) => Ok(()),
            _ => Err(RuleFault::Unquoted),
        }
    }

    fn raw(&mut self) {
        if !matches!(self.place, TokenizerState::Quoted(_)) {
            self.read(b'x');
        }
    }
}
