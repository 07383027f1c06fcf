//! What is put into bodies as they are sent.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::MediaRange;

use super::EndpointAddr;
use crate::source::SourceSpan;

/// What is changed in the bodies of answers.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyRewrite {
    /// In the order in which they were written; never empty.
    pub rules: Vec<BodyRule>,
    /// The media types that are changed; never empty.
    pub types: Vec<MediaRange>,
    /// The longest body that may come out, in bytes.
    pub max: u64,
}

/// One rule of a body rewrite.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyRule {
    /// The change that the rule makes.
    pub change: BodyChange,
    /// Where the text, pattern or selector was written.
    pub at: SourceSpan,
}

/// What a rule does. What is searched for is not empty, and not looked into. What is put in has the
/// placeholders of a fixed answer, `{time}`, `{counter}` and `{value:NAME}` of `Config::values`;
/// other braces are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyChange {
    /// A text is replaced by another.
    Text {
        /// The text that is searched for.
        find: String,
        /// The text that takes its place.
        with: String,
    },
    /// A regular expression is replaced.
    Pattern {
        /// The regular expression as it was written.
        pattern: String,
        /// What takes the place of a match; `$1` and `${name}` are what groups matched.
        with: String,
    },
    /// Something is done with elements of HTML.
    Select {
        /// The CSS selector, as written.
        selector: String,
        /// The edit of each element that matches.
        edit: ElementEdit,
    },
}

/// What is done with an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElementEdit {
    /// Right before its start tag.
    Before(String),
    /// Right behind its end tag.
    After(String),
    /// Right behind its start tag.
    Prepend(String),
    /// Right before its end tag.
    Append(String),
    /// In the place of its content.
    Inner(String),
    /// In the place of all of it.
    Replace(String),
    /// The element is removed with its content.
    Remove,
    /// Attributes by name, in lower case, each once, never none; one without a value goes.
    Set(Vec<(String, Option<String>)>),
}

/// A text that is looked for while running, for `{value:NAME}`.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchedValue {
    /// Its name: letters, digits, `-`, `_` and dots.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// The file or URL that the text comes from.
    pub source: ValueSource,
    /// How often, at least a second.
    pub every: Duration,
    /// What it is until it was had once.
    pub default: String,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueSource {
    /// A file, not opened yet.
    File(PathBuf),
    /// A URL such as `http://HOST:PORT/PATH`.
    Url(HttpUrl),
}

/// A URL of plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// The server to ask; never a Unix socket.
    pub addr: EndpointAddr,
    /// The value of Host (RFC 9110 §7.2): as written, without port 80.
    pub host: String,
    /// Path and query; it begins with `/`.
    pub path: String,
}
