//! Errors of a rule, in the words of the configuration's author.

use super::matches::LONGEST_MATCH;

/// A rule that does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct ChangeRuleError {
    /// The index of the rule, from 0.
    pub rule: usize,
    /// The fault, in words that say how to write it instead.
    pub fault: RuleFault,
}

/// A fault of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// An empty text, or a pattern that matches the empty string: it would match everywhere.
    #[error("it matches the empty text, which is everywhere")]
    Empty,
    /// A text longer than [`LONGEST_MATCH`].
    #[error("the text to find is longer than {LONGEST_MATCH} bytes")]
    TooLong,
    /// An invalid pattern, with the parser's message.
    #[error("{0}")]
    Pattern(String),
    /// The patterns together need too much memory: counted repetitions multiply.
    #[error("the patterns take too much memory: repeat less, or use (?-u)")]
    TooLarge,
    /// A replacement with a group that its pattern does not have.
    #[error("the pattern has no group {0}; a dollar sign is written $$")]
    Group(String),
    /// An invalid selector, with the parser's message.
    #[error("{0}")]
    Selector(String),
    /// An invalid name of an attribute.
    #[error("{0:?} is no name of an attribute")]
    Name(String),
    /// A value in an attribute that is code: no escaping makes it harmless.
    #[error("a value in the attribute {0} would be code that clients choose")]
    Code(String),
    /// A value at the beginning of a URL could make it `javascript:`.
    #[error(
        "a value at the beginning of {0} could choose the URL's scheme: write / or https://… before it"
    )]
    Scheme(String),
    /// A value where a URL's host is still open: one that begins with `/` or `@` would choose it.
    #[error(
        "a value in {0} could choose another host: end the host with /, or write more than / before it"
    )]
    Host(String),
    /// A value in an element that is code.
    #[error(
        "a value inside <{0}> would be code that clients choose: put it into an attribute, as data-value='…'"
    )]
    Inside(String),
    /// A value in a tag outside of quotes.
    #[error("a value in a tag must be between quotes, as content='…'")]
    Unquoted,
}
