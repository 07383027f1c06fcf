//! The compiled form of rules. It is immutable, and shared by all documents.

use aho_corasick::AhoCorasick;
use lol_html::Selector;
use regex_automata::meta::Regex;

use super::output::ReplacementPiece;

/// The rules of one configuration, compiled for all documents.
pub(super) struct Compiled {
    /// The replacements of all rules: others refer to them by index.
    pub(super) inserts: Vec<Vec<ReplacementPiece>>,
    pub(super) selects: Vec<Select>,
    pub(super) matcher: Matcher,
    /// One more than the highest index of a value.
    pub(super) numbers: usize,
}

/// A selector and its operation.
pub(super) struct Select {
    pub(super) selector: Selector,
    pub(super) operation: Operation,
}

/// An operation on an element, with the indexes of its replacements.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Before(usize),
    After(usize),
    Prepend(usize),
    Append(usize),
    Inner(usize),
    Replace(usize),
    Set { name: String, insert: usize },
    Unset { name: String, insert: usize },
}

/// The compiled texts and patterns.
pub(super) enum Matcher {
    /// Nothing to search for: everything passes.
    Nothing,
    /// Texts only; of those that begin at the same byte the first one wins.
    Texts {
        automaton: AhoCorasick,
        longest: usize,
        inserts: Vec<usize>,
    },
    /// Patterns, and texts among them as patterns.
    Patterns {
        regex: Box<Regex>,
        /// The longest match, if it is at most `SHORT_MATCH` of `matches`.
        longest: Option<usize>,
        /// By pattern: the replacement, and whether it has groups.
        inserts: Vec<(usize, bool)>,
    },
}
