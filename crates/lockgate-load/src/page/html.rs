//! Start and end tags of an HTML document, as they come: the tokenization of WHATWG HTML §13.2.5 as
//! far as attributes of tags need it.
//!
//! Does no tree construction: what differs within SVG and MathML (CDATA sections, self-closing
//! script) is taken as HTML. Text is skipped, but for that of style elements. Never fails, takes
//! time in proportion to the bytes, and holds one tag of a bounded size, with what is beyond left
//! out.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::characters;

/// What is kept of the name of a tag or attribute: longer ones are none that anybody asks for.
const NAME: usize = 32;
/// What is kept of a value: longer ones are cut.
pub(super) const VALUE: usize = 16 * 1024;
/// Attributes of one tag.
const ATTRIBUTES: usize = 64;

/// A piece of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HtmlToken<'a> {
    /// A start tag.
    Start(&'a Tag),
    /// An end tag, by its name in lower case.
    End(&'a [u8]),
    /// Part of what is within a style element.
    Style(&'a [u8]),
}

/// A tag with its attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tag {
    name: Vec<u8>,
    /// Names and values of attributes one after the other.
    text: Vec<u8>,
    attributes: Vec<(Range<usize>, Range<usize>)>,
    /// Whether what comes belongs to an attribute that is left out.
    beyond: bool,
}

impl Tag {
    /// Its name in lower case.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The value of an attribute, character references replaced; of several the first (§13.2.5.33).
    pub fn attribute(&self, name: &str) -> Option<Vec<u8>> {
        let mut named = self
            .attributes
            .iter()
            .filter(|(known, _)| self.text[known.clone()] == *name.as_bytes());
        named
            .next()
            .map(|(_, value)| characters::decode(&self.text[value.clone()]))
    }

    fn clear(&mut self) {
        self.name.clear();
        self.text.clear();
        self.attributes.clear();
        self.beyond = false;
    }

    fn push_name(&mut self, byte: u8) {
        if self.name.len() < NAME {
            self.name.push(byte.to_ascii_lowercase());
        }
    }

    fn begin_attribute(&mut self) {
        self.beyond = self.attributes.len() == ATTRIBUTES;
        if !self.beyond {
            let here = self.text.len();
            self.attributes.push((here..here, here..here));
        }
    }

    fn push_attribute_name(&mut self, byte: u8) {
        if let Some((name, value)) = self
            .attributes
            .last_mut()
            .filter(|(name, _)| name.len() < NAME)
            && !self.beyond
        {
            self.text.push(byte.to_ascii_lowercase());
            name.end += 1;
            *value = name.end..name.end;
        }
    }

    fn push_value(&mut self, bytes: &[u8]) {
        if let Some((_, value)) = self.attributes.last_mut().filter(|_| !self.beyond) {
            let kept = &bytes[..bytes.len().min(VALUE - value.len())];
            self.text.extend_from_slice(kept);
            value.end += kept.len();
        }
    }
}

/// The states of §13.2.5, by the numbers of their sections; those that make no difference here are
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// 1
    Data,
    /// 5: to the end of the document.
    Plaintext,
    /// 2, 3, 4, 18 to 31: within an element whose end tag alone is markup.
    Raw,
    /// 9, 12, 15, 23, 29
    RawLess,
    /// 10, 13, 16, 24, 30
    RawEndOpen,
    /// 11, 14, 17, 25
    RawEndName,
    /// 18, and its dash
    RawBang,
    RawBangDash,
    /// 26 and 31: a word that begins or ends the part of an escaped script in which `</script>` is
    /// text.
    RawWord,
    /// 6
    TagOpen,
    /// 7
    EndTagOpen,
    /// 8
    TagName,
    /// 32
    BeforeAttributeName,
    /// 33
    AttributeName,
    /// 34
    AfterAttributeName,
    /// 35
    BeforeValue,
    /// 36, 37
    Quoted(u8),
    /// 38
    Unquoted,
    /// 39
    AfterQuoted,
    /// 40
    SelfClosing,
    /// 41; and 53 to 69, for a DOCTYPE ends at the first `>`, too.
    Bogus,
    /// 42, and its dash
    MarkupOpen,
    MarkupDash,
    /// 43
    CommentStart,
    /// 44
    CommentStartDash,
    /// 45 to 49
    Comment,
    /// 50
    CommentEndDash,
    /// 51
    CommentEnd,
    /// 52
    CommentEndBang,
}

/// What is within a script (§13.2.5.4, 20 and 27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptState {
    Plain,
    /// Behind `<!--`.
    Escaped,
    /// Behind `<script` there.
    DoubleEscaped,
}

/// Whether a byte has been dealt with, or is the next state's.
enum Reconsume {
    Consumed,
    Again,
}

/// Takes a document apart, in pieces of any length.
#[derive(Debug)]
pub struct Tokenizer {
    state: State,
    tag: Tag,
    is_end: bool,
    /// The element whose end tag is looked for.
    raw: &'static [u8],
    script: ScriptState,
    /// Dashes right before, within a script.
    dashes: u8,
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Tokenizer {
    /// At the beginning of a document.
    pub fn new() -> Self {
        let script = ScriptState::Plain;
        Self {
            state: State::Data,
            tag: Tag::default(),
            is_end: false,
            raw: b"",
            script,
            dashes: 0,
        }
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, input: &[u8], each: &mut impl FnMut(HtmlToken<'_>)) {
        let mut at = 0;
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            at += match self.state {
                State::Data => self.skip_to(rest, b'<', State::TagOpen),
                State::Plaintext => rest.len(),
                State::Bogus => self.skip_to(rest, b'>', State::Data),
                State::Comment => self.skip_to(rest, b'-', State::CommentEndDash),
                State::Raw => self.raw_text(rest, each),
                State::Quoted(quote) => {
                    let end = position(rest, quote);
                    self.tag.push_value(&rest[..end]);
                    if end < rest.len() {
                        self.state = State::AfterQuoted;
                    }
                    (end + 1).min(rest.len())
                }
                _ => match self.step(rest[0], each) {
                    Reconsume::Consumed => 1,
                    Reconsume::Again => 0,
                },
            };
        }
    }

    /// How far the first `byte` is, with it: behind it begins `next`.
    fn skip_to(&mut self, rest: &[u8], byte: u8, next: State) -> usize {
        let at = position(rest, byte);
        if at < rest.len() {
            self.state = next;
        }
        (at + 1).min(rest.len())
    }

    fn raw_text(&mut self, rest: &[u8], each: &mut impl FnMut(HtmlToken<'_>)) -> usize {
        if self.script != ScriptState::Plain && rest[0] != b'<' {
            // 21, 22, 28 and 29: `-->` ends what `<!--` has begun.
            match rest[0] {
                b'-' => self.dashes = (self.dashes + 1).min(2),
                b'>' if self.dashes == 2 => self.script = ScriptState::Plain,
                _ => self.dashes = 0,
            }
            return 1;
        }
        let end = position(rest, b'<');
        if self.raw == b"style" && end > 0 {
            each(HtmlToken::Style(&rest[..end]));
        }
        if end < rest.len() {
            self.state = State::RawLess;
            self.dashes = 0;
        }
        (end + 1).min(rest.len())
    }

    /// One byte in a state that looks at each; §13.2.5 has the table.
    fn step(&mut self, byte: u8, each: &mut impl FnMut(HtmlToken<'_>)) -> Reconsume {
        use State::*;
        let (next, step) = match (self.state, byte) {
            (TagOpen, b'!') => (MarkupOpen, Reconsume::Consumed),
            (TagOpen, b'/') => (EndTagOpen, Reconsume::Consumed),
            (TagOpen | EndTagOpen, byte) if byte.is_ascii_alphabetic() => {
                self.is_end = self.state == EndTagOpen;
                self.tag.clear();
                (TagName, Reconsume::Again)
            }
            (TagOpen, b'?') => (Bogus, Reconsume::Again),
            (TagOpen, _) => (Data, Reconsume::Again),
            (EndTagOpen, b'>') => (Data, Reconsume::Consumed),
            (EndTagOpen, _) => (Bogus, Reconsume::Again),

            (TagName, byte) if is_space(byte) => (BeforeAttributeName, Reconsume::Consumed),
            (TagName | AfterAttributeName | AfterQuoted, b'/') => {
                (SelfClosing, Reconsume::Consumed)
            }
            (
                TagName | AfterAttributeName | BeforeValue | Unquoted | AfterQuoted | SelfClosing,
                b'>',
            ) => (self.emit(each), Reconsume::Consumed),
            (TagName, byte) => {
                self.tag.push_name(byte);
                (TagName, Reconsume::Consumed)
            }
            (BeforeAttributeName | AfterAttributeName | BeforeValue, byte) if is_space(byte) => {
                (self.state, Reconsume::Consumed)
            }
            (BeforeAttributeName, b'/' | b'>') => (AfterAttributeName, Reconsume::Again),
            (BeforeAttributeName, b'=') => {
                self.tag.begin_attribute();
                self.tag.push_attribute_name(b'=');
                (AttributeName, Reconsume::Consumed)
            }
            (AttributeName, byte) if is_space(byte) || matches!(byte, b'/' | b'>') => {
                (AfterAttributeName, Reconsume::Again)
            }
            (AttributeName | AfterAttributeName, b'=') => (BeforeValue, Reconsume::Consumed),
            (BeforeAttributeName | AfterAttributeName, _) => {
                self.tag.begin_attribute();
                (AttributeName, Reconsume::Again)
            }
            (AttributeName, byte) => {
                self.tag.push_attribute_name(byte);
                (AttributeName, Reconsume::Consumed)
            }
            (BeforeValue, b'"' | b'\'') => (Quoted(byte), Reconsume::Consumed),
            (BeforeValue, _) => (Unquoted, Reconsume::Again),
            (Unquoted | AfterQuoted, byte) if is_space(byte) => {
                (BeforeAttributeName, Reconsume::Consumed)
            }
            (Unquoted, byte) => {
                self.tag.push_value(&[byte]);
                (Unquoted, Reconsume::Consumed)
            }
            (AfterQuoted | SelfClosing, _) => (BeforeAttributeName, Reconsume::Again),

            (MarkupOpen, b'-') => (MarkupDash, Reconsume::Consumed),
            (MarkupDash, b'-') => (CommentStart, Reconsume::Consumed),
            (MarkupOpen | MarkupDash, _) => (Bogus, Reconsume::Again),
            (CommentStart, b'-') => (CommentStartDash, Reconsume::Consumed),
            (CommentStartDash | CommentEndDash | CommentEnd, b'-') => {
                (CommentEnd, Reconsume::Consumed)
            }
            (CommentStart | CommentStartDash | CommentEnd | CommentEndBang, b'>') => {
                (Data, Reconsume::Consumed)
            }
            (CommentEnd, b'!') => (CommentEndBang, Reconsume::Consumed),
            (CommentEndBang, b'-') => (CommentEndDash, Reconsume::Consumed),
            (CommentStart | CommentStartDash | CommentEndDash | CommentEnd | CommentEndBang, _) => {
                (Comment, Reconsume::Again)
            }

            (RawLess, b'/') => (RawEndOpen, Reconsume::Consumed),
            (RawLess, b'!') if self.raw == b"script" && self.script == ScriptState::Plain => {
                (RawBang, Reconsume::Consumed)
            }
            (RawBang, b'-') => (RawBangDash, Reconsume::Consumed),
            (RawBangDash, b'-') => {
                (self.script, self.dashes) = (ScriptState::Escaped, 2);
                (Raw, Reconsume::Consumed)
            }
            (RawLess, byte)
                if self.script == ScriptState::Escaped && byte.is_ascii_alphabetic() =>
            {
                self.is_end = false;
                self.tag.clear();
                (RawWord, Reconsume::Again)
            }
            (RawEndOpen, byte) if byte.is_ascii_alphabetic() => {
                self.is_end = true;
                self.tag.clear();
                (
                    if self.script == ScriptState::DoubleEscaped {
                        RawWord
                    } else {
                        RawEndName
                    },
                    Reconsume::Again,
                )
            }
            (RawEndName | RawWord, byte) if byte.is_ascii_alphabetic() => {
                self.tag.push_name(byte);
                (self.state, Reconsume::Consumed)
            }
            (RawEndName, byte) if ends_name(byte) && self.tag.name == self.raw => {
                (TagName, Reconsume::Again)
            }
            (RawWord, byte) if ends_name(byte) && self.tag.name == b"script" => {
                self.script = if self.is_end {
                    ScriptState::Escaped
                } else {
                    ScriptState::DoubleEscaped
                };
                (Raw, Reconsume::Consumed)
            }
            (RawLess | RawEndOpen | RawEndName | RawWord | RawBang | RawBangDash, _) => {
                (Raw, Reconsume::Again)
            }

            // These look at many bytes at once: see `feed`.
            (Data | Plaintext | Raw | Quoted(_) | Bogus | Comment, _) => {
                (self.state, Reconsume::Consumed)
            }
        };
        self.state = next;
        step
    }

    /// A tag is whole; what comes behind it.
    fn emit(&mut self, each: &mut impl FnMut(HtmlToken<'_>)) -> State {
        (self.raw, self.script) = (b"", ScriptState::Plain);
        if self.is_end {
            each(HtmlToken::End(&self.tag.name));
            return State::Data;
        }
        each(HtmlToken::Start(&self.tag));
        if self.tag.name == b"plaintext" {
            return State::Plaintext;
        }
        match RAW.iter().find(|raw| **raw == self.tag.name) {
            Some(raw) => {
                self.raw = raw;
                State::Raw
            }
            None => State::Data,
        }
    }
}

/// Elements within which there is no markup (§13.2.6.4.7 and 13.2.6.4.4, where scripts are run).
const RAW: [&[u8]; 9] = [
    b"script",
    b"style",
    b"title",
    b"textarea",
    b"xmp",
    b"iframe",
    b"noembed",
    b"noframes",
    b"noscript",
];

fn position(bytes: &[u8], wanted: u8) -> usize {
    bytes
        .iter()
        .position(|byte| *byte == wanted)
        .unwrap_or(bytes.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

fn ends_name(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b'/' | b'>')
}
