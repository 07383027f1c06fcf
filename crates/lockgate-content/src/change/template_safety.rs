//! Safety of a template's values, as far as its own text shows where they stand.
//!
//! A small tokenizer of the template's tags, after HTML's (WHATWG HTML, 13.2.5). It begins in text,
//! as the insertions of selectors do; the place where a text or a pattern matches is unknown.

use super::attributes::check_value_behind;
use super::rule_error::RuleFault;
use super::{Part, Template};

/// Elements with content that has no tags.
const WITHOUT_TAGS: [&str; 8] = [
    "script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes",
];

/// Checks that no value stands where escaping cannot make it harmless.
pub(super) fn check(template: &Template) -> Result<(), RuleFault> {
    let mut reader = Reader::default();
    for part in &template.0 {
        match part {
            Part::Text(text) => text.iter().for_each(|byte| reader.read(*byte)),
            Part::Value(_) => reader.value()?,
            // The value is unknown; it has a letter at least.
            Part::Raw(_) => reader.raw(),
        }
    }
    Ok(())
}

#[derive(Default)]
struct Reader {
    place: Place,
    /// The current tag or the last one, in lower case, with a slash if it is an end.
    tag: String,
    attribute: String,
    /// The attribute's text so far, without values.
    before: Vec<u8>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Place {
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

impl Reader {
    fn read(&mut self, byte: u8) {
        let low = byte.to_ascii_lowercase();
        let space = byte.is_ascii_whitespace();
        self.place = match self.place {
            Place::Text if byte == b'<' => {
                self.tag.clear();
                Place::Open
            }
            Place::Text => Place::Text,
            Place::Open if byte.is_ascii_alphabetic() => {
                self.tag.push(char::from(low));
                Place::TagName
            }
            Place::Open if byte == b'/' && self.tag.is_empty() => {
                self.tag.push('/');
                Place::Open
            }
            Place::Open if matches!(byte, b'!' | b'?') || byte != b'>' && self.tag == "/" => {
                Place::Declaration(if byte == b'!' && self.tag.is_empty() {
                    0
                } else {
                    BANG
                })
            }
            Place::Open if byte == b'<' => {
                self.tag.clear();
                Place::Open
            }
            Place::Open => Place::Text,
            Place::TagName if !space && !matches!(byte, b'/' | b'>') => {
                self.tag.push(char::from(low));
                Place::TagName
            }
            Place::Quoted(quote) if byte == quote => self.attribute_ends(),
            Place::Quoted(quote) => {
                self.before.push(byte);
                Place::Quoted(quote)
            }
            Place::BeforeValue if matches!(byte, b'"' | b'\'') => {
                self.before.clear();
                Place::Quoted(byte)
            }
            Place::BeforeValue if space => Place::BeforeValue,
            Place::TagName
            | Place::Attribute
            | Place::BehindName
            | Place::BeforeValue
            | Place::Unquoted
                if byte == b'>' =>
            {
                self.attribute.clear();
                let without_tags = WITHOUT_TAGS.contains(&self.tag.as_str());
                if without_tags {
                    Place::Raw(0)
                } else {
                    Place::Text
                }
            }
            Place::BeforeValue => Place::Unquoted,
            Place::Unquoted if !space => Place::Unquoted,
            Place::TagName | Place::Unquoted => self.attribute_ends(),
            Place::Attribute | Place::BehindName if byte == b'=' && !self.attribute.is_empty() => {
                Place::BeforeValue
            }
            Place::Attribute | Place::BehindName if byte == b'/' => self.attribute_ends(),
            Place::Attribute if space && self.attribute.is_empty() => Place::Attribute,
            Place::Attribute | Place::BehindName if space => Place::BehindName,
            Place::BehindName => {
                self.attribute.clear();
                self.attribute.push(char::from(low));
                Place::Attribute
            }
            Place::Attribute => {
                self.attribute.push(char::from(low));
                Place::Attribute
            }
            Place::Declaration(1) if byte == b'-' => Place::Comment(2),
            Place::Declaration(0) if byte == b'-' => Place::Declaration(1),
            Place::Declaration(_) | Place::Comment(2 | BANG) if byte == b'>' => Place::Text,
            Place::Declaration(_) => Place::Declaration(BANG),
            Place::Comment(1 | 2) if byte == b'-' => Place::Comment(2),
            Place::Comment(_) if byte == b'-' => Place::Comment(1),
            Place::Comment(2) if byte == b'!' => Place::Comment(BANG),
            Place::Comment(_) => Place::Comment(0),
            Place::Raw(seen) => self.raw_text(seen, byte),
        };
    }

    fn attribute_ends(&mut self) -> Place {
        self.attribute.clear();
        Place::Attribute
    }

    /// In `<script>` and similar elements, until the end tag.
    fn raw_text(&mut self, seen: usize, byte: u8) -> Place {
        let end = [b"</", self.tag.as_bytes()].concat();
        if end
            .get(seen)
            .is_some_and(|wanted| *wanted == byte.to_ascii_lowercase())
        {
            return Place::Raw(seen + 1);
        }
        if seen == end.len() && (byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>')) {
            self.tag.insert(0, '/');
            return if byte == b'>' {
                Place::Text
            } else {
                Place::Attribute
            };
        }
        Place::Raw(usize::from(byte == b'<'))
    }

    fn value(&mut self) -> Result<(), RuleFault> {
        match self.place {
            Place::Text | Place::Declaration(_) | Place::Comment(_) => Ok(()),
            Place::Quoted(_) => check_value_behind(&self.attribute, &self.before),
            Place::Raw(_) if matches!(self.tag.as_str(), "script" | "style") => {
                Err(RuleFault::Inside(self.tag.clone()))
            }
            // A value may break the end tag; it begins none, since `<` is escaped.
            Place::Raw(_) => Ok(()),
            _ => Err(RuleFault::Unquoted),
        }
    }

    fn raw(&mut self) {
        if !matches!(self.place, Place::Quoted(_)) {
            self.read(b'x');
        }
    }
}
