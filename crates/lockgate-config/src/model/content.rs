//! What is put into bodies as they are sent.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::MediaRange;

use super::EndpointAddr;
use crate::place::At;

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

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyRule {
    /// What it does.
    pub change: BodyChange,
    /// Where the text, pattern or selector was written.
    pub at: At,
}

/// What a rule does. What is searched for is not empty, and not looked into. What is put in has the
/// placeholders of a fixed answer, `{time}`, `{counter}` and `{value:NAME}` of `Config::values`;
/// other braces are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyChange {
    /// A text is replaced.
    Text {
        /// The text.
        find: String,
        /// What takes its place.
        with: String,
    },
    /// A regular expression is replaced.
    Pattern {
        /// The expression, as written.
        pattern: String,
        /// What takes the place of a match; `$1` and `${name}` are what groups matched.
        with: String,
    },
    /// Something is done with elements of HTML.
    Select {
        /// The CSS selector, as written.
        selector: String,
        /// What is done.
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
    /// All of it goes.
    Remove,
    /// Attributes by name, in lower case, each once, never none; one without a value goes.
    Set(Vec<(String, Option<String>)>),
}

/// A text that is looked for while running, for `{value:NAME}`.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchedValue {
    /// Its name: letters, digits, `-`, `_` and dots.
    pub name: String,
    /// Where it was written.
    pub at: At,
    /// Where it comes from.
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
    /// `http://HOST[:PORT]/PATH`.
    Url(HttpUrl),
}

/// A URL of plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// Whom to ask; never a Unix socket.
    pub addr: EndpointAddr,
    /// The value of Host (RFC 9110 §7.2): as written, without port 80.
    pub host: String,
    /// Path and query; it begins with `/`.
    pub path: String,
}
