//! Compilation of rules.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use lol_html::Selector;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::attributes::{attribute, check_attribute};
use super::compiled::{Compiled, Matcher, Operation, Select};
use super::matches::{LONGEST_MATCH, SHORT_MATCH};
use super::output::ReplacementPiece;
use super::rule_error::{ChangeRuleError, RuleFault};
use super::{ChangeRule, ChangeTemplate, SelectorEdit, TemplatePart, template_safety};

/// The size limit of the automaton of all patterns, in bytes.
const PATTERNS_SIZE: usize = 4 << 20;
/// Texts with more bytes than this in all get a slower automaton, which takes some bytes for each
/// of theirs and not a thousand.
const TEXTS_FOR_TABLE: usize = 1024;

/// Rules, compiled. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    compiled: Arc<Compiled>,
}

impl Changes {
    /// Compiles rules. Their order matters: see [`change`](super).
    ///
    /// # Errors
    /// The first rule with a fault. [`RuleFault::TooLarge`] concerns all patterns and names the
    /// last one.
    pub fn compile(rules: &[ChangeRule]) -> Result<Self, ChangeRuleError> {
        let mut compiled = Compiled {
            inserts: vec![],
            selects: vec![],
            matcher: Matcher::Nothing,
            numbers: numbers(rules),
        };
        let mut searches = vec![];
        for (number, rule) in rules.iter().enumerate() {
            let wrong = |fault| ChangeRuleError {
                rule: number,
                fault,
            };
            inserted(rule)
                .map_or(Ok(()), template_safety::check)
                .map_err(wrong)?;
            match rule {
                ChangeRule::Text { find, with } => {
                    searches.push(Search::text(number, find, with).map_err(wrong)?)
                }
                ChangeRule::Pattern { pattern, with } => {
                    searches.push(Search::pattern(number, pattern, with).map_err(wrong)?);
                }
                ChangeRule::Select { selector, edit } => {
                    compiled.select(selector, edit).map_err(wrong)?
                }
            }
        }
        compiled.search(&searches)?;
        Ok(Self {
            compiled: Arc::new(compiled),
        })
    }

    /// The number of values: one more than the highest index in any template.
    pub fn values(&self) -> usize {
        self.compiled.numbers
    }

    /// Whether any rule has a selector, which applies to HTML only.
    pub fn has_selectors(&self) -> bool {
        !self.compiled.selects.is_empty()
    }

    pub(super) fn compiled(&self) -> Arc<Compiled> {
        Arc::clone(&self.compiled)
    }
}

/// The template that a rule inserts into the document's text.
fn inserted(rule: &ChangeRule) -> Option<&ChangeTemplate> {
    match rule {
        ChangeRule::Text { with, .. } | ChangeRule::Pattern { with, .. } => Some(with),
        ChangeRule::Select { edit, .. } => match edit {
            SelectorEdit::Before(with)
            | SelectorEdit::After(with)
            | SelectorEdit::Prepend(with) => Some(with),
            SelectorEdit::Append(with)
            | SelectorEdit::Inner(with)
            | SelectorEdit::Replace(with) => Some(with),
            SelectorEdit::Remove | SelectorEdit::Set { .. } | SelectorEdit::Unset(_) => None,
        },
    }
}

fn numbers(rules: &[ChangeRule]) -> usize {
    let template = |rule| match rule {
        &ChangeRule::Select {
            edit: SelectorEdit::Set { ref value, .. },
            ..
        } => Some(value),
        rule => inserted(rule),
    };
    let parts = rules
        .iter()
        .filter_map(template)
        .flat_map(|template| &template.0);
    let number = |part: &TemplatePart| match part {
        TemplatePart::Text(_) => 0,
        TemplatePart::Value(number) | TemplatePart::Raw(number) => number + 1,
    };
    parts.map(number).max().unwrap_or(0)
}

/// A text or a pattern with its replacement.
struct Search<'a> {
    rule: usize,
    what: Needle<'a>,
    with: &'a ChangeTemplate,
}

enum Needle<'a> {
    Text(&'a [u8]),
    Pattern(&'a str),
}

impl<'a> Search<'a> {
    fn text(rule: usize, find: &'a [u8], with: &'a ChangeTemplate) -> Result<Self, RuleFault> {
        match find.len() {
            0 => Err(RuleFault::Empty),
            1..=LONGEST_MATCH => Ok(Self {
                rule,
                what: Needle::Text(find),
                with,
            }),
            _ => Err(RuleFault::TooLong),
        }
    }

    fn pattern(rule: usize, pattern: &'a str, with: &'a ChangeTemplate) -> Result<Self, RuleFault> {
        let hir = syntax::parse_with(pattern, &of_bytes()).map_err(|error| {
            // The fault is the last line, below a drawing of the place.
            let drawn = error.to_string();
            let last = drawn.lines().last().unwrap_or_default();
            RuleFault::Pattern(last.strip_prefix("error: ").unwrap_or(last).to_owned())
        })?;
        if hir.properties().minimum_len() == Some(0) {
            return Err(RuleFault::Empty);
        }
        Ok(Self {
            rule,
            what: Needle::Pattern(pattern),
            with,
        })
    }

    /// The source of a pattern that matches the same.
    fn as_pattern(&self) -> String {
        match self.what {
            Needle::Pattern(pattern) => pattern.to_owned(),
            Needle::Text(text) => {
                let bytes: String = text.iter().map(|byte| format!("\\x{byte:02X}")).collect();
                format!("(?-u:{bytes})")
            }
        }
    }
}

/// Documents need not be UTF-8.
fn of_bytes() -> syntax::Config {
    syntax::Config::new().utf8(false)
}

impl Compiled {
    fn add(&mut self, pieces: Vec<ReplacementPiece>) -> usize {
        self.inserts.push(pieces);
        self.inserts.len() - 1
    }

    fn search(&mut self, searches: &[Search<'_>]) -> Result<(), ChangeRuleError> {
        let Some(last) = searches.last() else {
            return Ok(());
        };
        let texts: Vec<&[u8]> = searches
            .iter()
            .filter_map(|search| match search.what {
                Needle::Text(text) => Some(text),
                Needle::Pattern(_) => None,
            })
            .collect();
        let too_large = ChangeRuleError {
            rule: last.rule,
            fault: RuleFault::TooLarge,
        };
        if texts.len() == searches.len() {
            // A table of all bytes for each byte of the texts is the fastest, as long as it fits
            // the cache.
            let all: usize = texts.iter().map(|text| text.len()).sum();
            let kind = if all > TEXTS_FOR_TABLE {
                AhoCorasickKind::ContiguousNFA
            } else {
                AhoCorasickKind::DFA
            };
            let mut builder = AhoCorasick::builder();
            let automaton = builder
                .match_kind(MatchKind::LeftmostFirst)
                .kind(Some(kind))
                .build(&texts);
            let automaton = automaton.map_err(|_| too_large)?;
            let inserts = searches
                .iter()
                .map(|search| self.add(pieces(search.with)))
                .collect();
            let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
            self.matcher = Matcher::Texts {
                automaton,
                longest,
                inserts,
            };
            return Ok(());
        }
        let patterns: Vec<String> = searches.iter().map(Search::as_pattern).collect();
        let config = Regex::config()
            .utf8_empty(false)
            .nfa_size_limit(Some(PATTERNS_SIZE));
        let regex = Regex::builder()
            .configure(config)
            .syntax(of_bytes())
            .build_many(&patterns);
        let regex = regex.map_err(|_| too_large.clone())?;
        let mut inserts = vec![];
        for (pattern, search) in searches.iter().enumerate() {
            let pieces =
                match search.what {
                    Needle::Text(_) => pieces(search.with),
                    Needle::Pattern(_) => pieces_with_groups(search.with, &regex, pattern)
                        .map_err(|fault| ChangeRuleError {
                            rule: search.rule,
                            fault,
                        })?,
                };
            let groups = pieces
                .iter()
                .any(|piece| matches!(piece, ReplacementPiece::Group(_)));
            inserts.push((self.add(pieces), groups));
        }
        let lengths = patterns.iter().map(|pattern| {
            let hir = syntax::parse_with(pattern, &of_bytes()).ok()?;
            hir.properties()
                .maximum_len()
                .filter(|len| *len <= SHORT_MATCH)
        });
        let longest = lengths
            .collect::<Option<Vec<_>>>()
            .and_then(|lengths| lengths.into_iter().max());
        self.matcher = Matcher::Patterns {
            regex: Box::new(regex),
            longest,
            inserts,
        };
        Ok(())
    }

    fn select(&mut self, selector: &str, edit: &SelectorEdit) -> Result<(), RuleFault> {
        // Documents are read with a byte as a character, so selectors' texts are, too.
        let (bytes, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(selector.as_bytes());
        let selector: Selector =
            bytes
                .parse()
                .map_err(|error: lol_html::errors::SelectorError| {
                    RuleFault::Selector(error.to_string())
                })?;
        let operation = match edit {
            SelectorEdit::Before(with) => Operation::Before(self.add(pieces(with))),
            SelectorEdit::After(with) => Operation::After(self.add(pieces(with))),
            SelectorEdit::Prepend(with) => Operation::Prepend(self.add(pieces(with))),
            SelectorEdit::Append(with) => Operation::Append(self.add(pieces(with))),
            SelectorEdit::Inner(with) => Operation::Inner(self.add(pieces(with))),
            SelectorEdit::Replace(with) => Operation::Replace(self.add(pieces(with))),
            SelectorEdit::Remove => Operation::Replace(self.add(vec![])),
            SelectorEdit::Set { name, value } => {
                let name = attribute(name)?;
                check_attribute(&name, value)?;
                Operation::Set {
                    name,
                    insert: self.add(quoted(value)),
                }
            }
            SelectorEdit::Unset(name) => Operation::Unset {
                name: attribute(name)?,
                insert: self.add(vec![]),
            },
        };
        self.selects.push(Select {
            selector,
            operation,
        });
        Ok(())
    }
}

fn pieces(template: &ChangeTemplate) -> Vec<ReplacementPiece> {
    let piece = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => ReplacementPiece::Text(text.as_slice().into()),
        TemplatePart::Value(number) => ReplacementPiece::Value {
            number: *number,
            raw: false,
        },
        TemplatePart::Raw(number) => ReplacementPiece::Value {
            number: *number,
            raw: true,
        },
    };
    template.0.iter().map(piece).collect()
}

/// The pieces of an attribute value in double quotes.
fn quoted(template: &ChangeTemplate) -> Vec<ReplacementPiece> {
    let quoted = |piece| match piece {
        ReplacementPiece::Text(text) => {
            let text = text
                .split(|byte| *byte == b'"')
                .collect::<Vec<_>>()
                .join(&b"&quot;"[..]);
            ReplacementPiece::Text(text.into())
        }
        other => other,
    };
    pieces(template).into_iter().map(quoted).collect()
}

/// The pieces of a template with the groups `$1`, `${name}` and `$$` in its texts.
fn pieces_with_groups(
    template: &ChangeTemplate,
    regex: &Regex,
    pattern: usize,
) -> Result<Vec<ReplacementPiece>, RuleFault> {
    let mut all = vec![];
    for piece in pieces(template) {
        let ReplacementPiece::Text(text) = piece else {
            all.push(piece);
            continue;
        };
        let mut plain = vec![];
        let mut rest = &text[..];
        while let Some((byte, behind)) = rest.split_first() {
            rest = behind;
            if *byte != b'$' {
                plain.push(*byte);
                continue;
            }
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let name = match rest.first() {
                Some(b'$') => {
                    plain.push(b'$');
                    rest = &rest[1..];
                    continue;
                }
                Some(b'{') => rest
                    .iter()
                    .position(|byte| *byte == b'}')
                    .map(|end| (&rest[1..end], end + 1)),
                _ if digits > 0 => Some((&rest[..digits], digits)),
                _ => None,
            };
            // A dollar before anything else is a dollar.
            let Some((name, len)) = name else {
                plain.push(b'$');
                continue;
            };
            if !plain.is_empty() {
                all.push(ReplacementPiece::Text(std::mem::take(&mut plain).into()));
            }
            all.push(ReplacementPiece::Group(group(
                &String::from_utf8_lossy(name),
                regex,
                pattern,
            )?));
            rest = &rest[len..];
        }
        if !plain.is_empty() {
            all.push(ReplacementPiece::Text(plain.into()));
        }
    }
    Ok(all)
}

fn group(name: &str, regex: &Regex, pattern: usize) -> Result<usize, RuleFault> {
    let (groups, pattern) = (regex.group_info(), regex_automata::PatternID::must(pattern));
    let number = name.parse().ok().or_else(|| groups.to_index(pattern, name));
    number
        .filter(|number| *number < groups.group_len(pattern))
        .ok_or_else(|| RuleFault::Group(name.to_owned()))
}
