//! Changes to bodies, and the fetched values that they insert.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::MediaRange;

use super::EndpointAddr;
use crate::source::SourceSpan;

/// Changes to the bodies of responses.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyRewrite {
    /// The rules, in their order in the configuration; never empty.
    pub rules: Vec<BodyRule>,
    /// The media types that are changed; never empty.
    pub types: Vec<MediaRange>,
    /// The maximum length of a changed body, in bytes.
    pub max: u64,
}

/// One rule of a body rewrite.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyRule {
    /// The change that the rule makes.
    pub change: BodyChange,
    /// The place of the text, pattern or selector in the configuration file.
    pub at: SourceSpan,
}

/// The change of one rule. The text to find is not empty and has no placeholders. An inserted text
/// has the placeholders of a fixed response, `{time}`, `{counter}` and `{value:NAME}` of
/// `Config::values`; other braces are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyChange {
    /// Replaces a text.
    Text {
        /// The text to find.
        find: String,
        /// The replacement.
        with: String,
    },
    /// Replaces the matches of a regular expression.
    Pattern {
        /// The regular expression.
        pattern: String,
        /// The replacement; `$1` and `${name}` stand for groups of the match.
        with: String,
    },
    /// Edits elements of HTML.
    Select {
        /// The CSS selector.
        selector: String,
        /// The edit of each matching element.
        edit: ElementEdit,
    },
}

/// An edit of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElementEdit {
    /// Inserts before the start tag.
    Before(String),
    /// Inserts after the end tag.
    After(String),
    /// Inserts after the start tag.
    Prepend(String),
    /// Inserts before the end tag.
    Append(String),
    /// Replaces the content.
    Inner(String),
    /// Replaces the element.
    Replace(String),
    /// Removes the element with its content.
    Remove,
    /// Sets attributes, by name in lower case, each once, at least one; `None` removes the
    /// attribute.
    Set(Vec<(String, Option<String>)>),
}

/// A text that is fetched while Lockgate runs, for `{value:NAME}`.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedValue {
    /// The name: letters, digits, `-`, `_` and dots.
    pub name: String,
    /// The key of the table, for mistakes that are found later.
    pub at: SourceSpan,
    /// The file or URL that the text comes from.
    pub source: ValueSource,
    /// The time between two fetches, at least a second.
    pub every: Duration,
    /// The text until the first successful fetch.
    pub default: String,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueSource {
    /// A file, not opened yet.
    File(PathBuf),
    /// A URL, `http://HOST:PORT/PATH`.
    Url(HttpUrl),
}

/// A URL of plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// The server; never a Unix socket.
    pub addr: EndpointAddr,
    /// The value of Host (RFC 9110 §7.2): host and port of the URL, without port 80.
    pub host: String,
    /// Path and query; it begins with `/`.
    pub path: String,
}
