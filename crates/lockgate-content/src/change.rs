//! Changes of a document's body: [`Changes`] are compiled once and run over any number of
//! documents.
//!
//! There are two ways to run them, which give the same bytes:
//! - A [`ChangePlan`] is a whole document with all changes made and placeholders for values. A
//!   request only fills those in: nothing is searched and no text is copied. For files that are
//!   held in memory.
//! - A [`Changer`] changes a document in a stream, however it is cut, in bounded memory. For
//!   proxied responses, and for files that are too long to be held.
//!
//! # Order of replacements
//! Two steps, each in one pass over the document:
//! 1. **Selectors**, in HTML only. Each sees the original document, without the edits of others.
//!    When several select an element, they act one after the other, as written: of two `append` the
//!    second one stands behind the first, of two `prepend` before it; edits after a `remove` or
//!    `replace` of the element do nothing.
//! 2. **Texts and patterns**, together, on the document that the first step leaves. From left to
//!    right: the next match is replaced, and the search continues behind it; of several matches
//!    that begin at the same byte, the first rule's is taken.
//!
//! A replacement is never searched again, be it text of the configuration or a value: no client can
//! choose a value that matches a later rule, and no rule can loop. For texts and patterns it is an
//! edge: nothing matches across it, `^` and `$` match at it.
//!
//! One pass for all rules is cheap and bounded: ten texts cost hardly more than one, and memory is
//! that of one window.
//!
//! # Bounds
//! - A text is always found, and so is a pattern's match of up to [`LONGEST_MATCH`] bytes, unless
//!   matches are many: behind the n-th within some kilobytes, matches of up to 8 KB / n are found
//!   for certain, and always those of 256 bytes. A longer match (`.*`) may end early, or be missed,
//!   at positions that depend on the document alone, never on how it arrives.
//! - A tag that takes more memory than [`LONGEST_TAG`] is an error, and so is output beyond `max`.
//! - Time is that of one pass. A pattern that has to look far to find short matches (`a(.*z)?`)
//!   looks at each byte some hundred times at most.
//!
//! # Escaping of values
//! Values come from requests, so clients choose them. [`TemplatePart::Value`] is escaped for the
//! kind of the [`DocumentKind`]:
//! - HTML and XML: `& < > " '` as character references, so a value can neither be a tag nor end a
//!   quoted attribute.
//! - JSON and JavaScript: as `\uXXXX` all characters that could end a string or a script. A value
//!   must stand in a string there.
//! - Others: unchanged, because browsers run no code in them.
//!
//! Where escaping cannot help, values are left out: inside `<script>` and `<style>` selectors
//! insert only the text around them. An attribute that is code (`onclick`, `style`, `srcdoc`), or a
//! URL with a scheme or host that the value would choose, is refused when the rule is compiled. So
//! are the same places in the tags of a template, its own `<script>` and `<style>`, and a value in
//! a tag without quotes. A text or a pattern does not know where in the page it matches: in an
//! unquoted attribute, in a script or right behind `href="`, escaping is not enough, and rules must
//! avoid such places. [`TemplatePart::Raw`] is a value without escapes: for values that clients do
//! not choose.
//!
//! # Elements that selectors see
//! Tags as they are written: an element without an end tag has no end, so `append` and `after` do
//! nothing for it; an implied `<head>` or `<body>` is not there. Bytes are taken as UTF-8 or any
//! other coding that has ASCII in it, and bytes that no rule touches come out unchanged. Inserted
//! text is UTF-8.

mod attributes;
mod changer;
mod compile;
mod compiled;
mod escape;
mod html;
mod matches;
mod output;
mod plan;
mod rule_error;
mod template_safety;

pub use changer::Changer;
pub use compile::Changes;
pub use html::LONGEST_TAG;
pub use matches::LONGEST_MATCH;
pub use plan::{ChangePlan, FilledPlan};
pub use rule_error::{ChangeRuleError, RuleFault};

/// A text with placeholders for values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeTemplate(pub Vec<TemplatePart>);

/// A part of a [`ChangeTemplate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// A literal text. In a pattern's replacement `$1` and `${name}` stand for a matched group,
    /// `$$` for a dollar.
    Text(Vec<u8>),
    /// The value of this number, escaped for the kind of the document.
    Value(usize),
    /// The value of this number, not escaped.
    Raw(usize),
}

impl From<&str> for ChangeTemplate {
    fn from(text: &str) -> Self {
        Self(vec![TemplatePart::Text(text.into())])
    }
}

/// A replacement in documents, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeRule {
    /// Replaces these bytes everywhere; case-sensitive.
    Text {
        /// At least one byte, at most [`LONGEST_MATCH`].
        find: Vec<u8>,
        /// The text in place of it.
        with: ChangeTemplate,
    },
    /// Replaces the matches of a pattern: the syntax of the `regex` crate, on bytes. `.` does not
    /// match a line feed, `^` and `$` are the document's ends unless `(?m)` is set.
    Pattern {
        /// It matches at least one byte.
        pattern: String,
        /// The replacement of the match.
        with: ChangeTemplate,
    },
    /// Edits every element that a CSS selector selects, in HTML.
    Select {
        /// A selector of `lol_html`: types, classes, ids, attributes, `:not`, `:nth-child`,
        /// `:nth-of-type`, descendants and children.
        selector: String,
        /// The edit of the element.
        edit: SelectorEdit,
    },
}

/// An edit of an element. Templates are HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectorEdit {
    /// Inserts right before the start tag.
    Before(ChangeTemplate),
    /// Inserts right behind the end tag; behind the start tag of a void element like `<img>`.
    After(ChangeTemplate),
    /// Inserts right behind the start tag.
    Prepend(ChangeTemplate),
    /// Inserts right before the end tag.
    Append(ChangeTemplate),
    /// Replaces everything between its tags.
    Inner(ChangeTemplate),
    /// Replaces it, with its tags.
    Replace(ChangeTemplate),
    /// Removes it, with its tags and content.
    Remove,
    /// Sets an attribute, in double quotes.
    Set {
        /// The attribute's name, in any case.
        name: String,
        /// The attribute's value as HTML writes it: with character references.
        value: ChangeTemplate,
    },
    /// Removes the attribute of this name, in any case.
    Unset(String),
}

/// The kind of a document. Decides whether selectors apply and how values are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// HTML, the only kind that selectors apply to.
    Html,
    /// XML, with XHTML and SVG.
    Xml,
    /// JavaScript or JSON: values stand in strings.
    Script,
    /// Anything else: values are not escaped.
    Other,
}

impl DocumentKind {
    /// By a media type, with or without parameters, in any case.
    pub fn of(media_type: &[u8]) -> Self {
        let essence = media_type
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        let essence = essence.trim_ascii().to_ascii_lowercase();
        match &essence[..] {
            b"text/html" => Self::Html,
            // XHTML is parsed as XML, where tags differ from what selectors expect.
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

/// The reason why a document cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The output exceeds its limit.
    #[error("the changed content is longer than allowed")]
    TooLong,
    /// A tag takes more memory than [`LONGEST_TAG`].
    #[error("a tag of the document is too long, or too many are open")]
    TagTooLong,
}

#[cfg(test)]
mod tests;
