//! Changes of a document's body: [`Changes`] are compiled once, and run over any number of
//! documents.
//!
//! There are two ways to run them, which give the same bytes:
//! - A [`Plan`] is what they make of a whole document, with places left open for values. Each
//!   request only fills those in: nothing is searched and no text is copied. For files that are
//!   held in memory.
//! - A [`Changer`] changes a document as it streams by, however it is cut, in bounded memory. For
//!   proxied answers, and for files that are too long to be held.
//!
//! # What is replaced, and in which order
//! Two steps, each in one pass over the document:
//! 1. **Selectors**, in HTML only. Each sees the document as it came, not what others have made of
//!    it. On an element that several select, they act one after the other, as written: of two
//!    `append` the second one stands behind the first, of two `prepend` before it; what follows a
//!    `remove` or `replace` of the element does nothing.
//! 2. **Texts and patterns**, together, on what the first step has left of the document. From left
//!    to right: where the next match of any begins, it is replaced, and what follows is searched
//!    on; where several begin at the same byte, the one that was written first is taken.
//!
//! What any rule has put in is never matched again, be it text of the configuration or a value: no
//! client can choose a value that a later rule takes for the document's, and no rule can run in
//! circles. For texts and patterns it is an edge: nothing matches across it, `^` and `$` match at
//! it.
//!
//! One pass rather than one for each rule, because that is what makes it cheap and what bounds it:
//! ten texts cost hardly more than one, and memory is that of one window.
//!
//! # Bounds
//! - A text is found wherever it stands, and so is a pattern's match of up to [`LONGEST_MATCH`]
//!   bytes, unless matches are many: behind the n-th within some kilobytes, matches of up to 8 KB /
//!   n are found for certain, and always those of 256 bytes. Where a longer one can be written
//!   (`.*`), it may end early, or be missed, at places that depend on the document alone, never on
//!   how it arrives.
//! - A tag that takes more memory than [`LONGEST_TAG`] is an error, and so is output beyond `max`.
//! - Time is that of one pass. A pattern that has to look far to find short matches (`a(.*z)?`)
//!   looks at each byte some hundred times at most.
//!
//! # Values and where they come to stand
//! Values come from requests, so clients choose them. [`Part::Value`] is escaped by the kind of the
//! [`Document`]:
//! - HTML and XML: `& < > " '` as character references, so it can be neither a tag nor end a quoted
//!   attribute.
//! - JSON and JavaScript: as `\uXXXX` what could end a string or a script. A value must stand in a
//!   string there.
//! - Others: as it is, because there is nothing that a browser would take for code.
//!
//! Where escaping cannot help, values do not go: inside `<script>` and `<style>` selectors put in
//! only the text around them, and an attribute that is code (`onclick`, `style`, `srcdoc`), or a
//! URL whose scheme or host the value would choose, is refused when the rule is compiled. So are
//! the same places in the tags of a template, its own `<script>` and `<style>`, and a value in a
//! tag without quotes. A text or a pattern does not know where in the page it matches: in an
//! unquoted attribute, in a script or right behind `href="`, escaping is not enough, and such a
//! place must not be chosen. [`Part::Raw`] is a value as it is: for those that clients do not
//! choose.
//!
//! # What selectors see
//! Tags as they are written: an element of which the end tag is left out has no end, so `append`
//! and `after` do nothing for it; `<head>` and `<body>` that are not written are not there. Bytes
//! are taken as UTF-8 or any other coding that has ASCII in it, and those that no rule touches come
//! out as they went in. Text that is put in is UTF-8.

mod changer;
mod compile;
mod escape;
mod html;
mod matches;
mod output;
mod places;
mod plan;

pub use changer::Changer;
pub use compile::{Changes, RuleError, RuleFault};
pub use html::LONGEST_TAG;
pub use matches::LONGEST_MATCH;
pub use plan::{Filled, Plan};

/// A text with places for values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template(pub Vec<Part>);

/// A part of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is. In a pattern's replacement `$1` and `${name}` are what a group has matched, `$$`
    /// is a dollar.
    Text(Vec<u8>),
    /// The value of this number, escaped by where it stands.
    Value(usize),
    /// The value of this number as it is.
    Raw(usize),
}

impl From<&str> for Template {
    fn from(text: &str) -> Self {
        Self(vec![Part::Text(text.into())])
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Wherever these bytes stand; upper and lower case differ.
    Text {
        /// At least one byte, at most [`LONGEST_MATCH`].
        find: Vec<u8>,
        /// What takes their place.
        with: Template,
    },
    /// Wherever this pattern matches: the syntax of the `regex` crate, on bytes. `.` does not match
    /// a line feed, `^` and `$` are the document's ends unless `(?m)` is said.
    Pattern {
        /// It matches at least one byte.
        pattern: String,
        /// What takes the match's place.
        with: Template,
    },
    /// In HTML, every element that this CSS selector selects.
    Select {
        /// What `lol_html` knows: types, classes, ids, attributes, `:not`, `:nth-child`,
        /// `:nth-of-type`, descendants and children.
        selector: String,
        /// What is done with it.
        edit: Edit,
    },
}

/// What is done with an element. Templates are HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Right before its start tag.
    Before(Template),
    /// Right behind its end tag; its start tag if it can have no content, like `<img>`.
    After(Template),
    /// Right behind its start tag.
    Prepend(Template),
    /// Right before its end tag.
    Append(Template),
    /// In the place of its content.
    Inner(Template),
    /// In the place of all of it.
    Replace(Template),
    /// All of it goes.
    Remove,
    /// An attribute's value, which is put into double quotes.
    Set {
        /// The attribute, in any case.
        name: String,
        /// Its value, as HTML writes it: with character references.
        value: Template,
    },
    /// An attribute goes.
    Unset(String),
}

/// What a document is, which decides whether selectors apply and how values are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// HTML: selectors apply.
    Html,
    /// XML, SVG too.
    Xml,
    /// JavaScript or JSON.
    Script,
    /// Anything else.
    Other,
}

impl Document {
    /// By a media type, with or without parameters, in any case.
    pub fn of(media_type: &[u8]) -> Self {
        let essence = media_type
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        let essence = essence.trim_ascii().to_ascii_lowercase();
        match &essence[..] {
            b"text/html" => Self::Html,
            // XHTML is parsed as XML, where tags mean other things than selectors here would think.
            b"text/xml" | b"application/xml" => Self::Xml,
            b"text/javascript"
            | b"application/javascript"
            | b"application/x-javascript"
            | b"application/json" => Self::Script,
            other if other.ends_with(b"+xml") => Self::Xml,
            other if other.ends_with(b"+json") => Self::Script,
            _ => Self::Other,
        }
    }
}

/// Why a document cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// More comes out than was allowed.
    #[error("the changed content is longer than allowed")]
    TooLong,
    /// Its tags take more memory than [`LONGEST_TAG`].
    #[error("a tag of the document is too long, or too many are open")]
    TagTooLong,
}

#[cfg(test)]
mod tests;
