//! Compilation of rules, and every fault that a rule can have.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use lol_html::Selector;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::matches::{LONGEST_MATCH, Matcher, SHORT_MATCH};
use super::output::Piece;
use super::places;
use super::{Edit, Part, Rule, Template};

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

/// A rule that does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct RuleError {
    /// The index of the rule, from 0.
    pub rule: usize,
    /// The rule's fault.
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

/// The compiled rules.
pub(super) struct Compiled {
    /// Replacements of all rules.
    pub(super) inserts: Vec<Vec<Piece>>,
    pub(super) selects: Vec<Select>,
    pub(super) matcher: Matcher,
    numbers: usize,
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

impl Changes {
    /// Compiles rules. Their order matters: see [`change`](super).
    ///
    /// # Errors
    /// The first rule with a fault. [`RuleFault::TooLarge`] concerns all patterns and names the
    /// last one.
    pub fn compile(rules: &[Rule]) -> Result<Self, RuleError> {
        let mut compiled = Compiled {
            inserts: vec![],
            selects: vec![],
            matcher: Matcher::Nothing,
            numbers: numbers(rules),
        };
        let mut searches = vec![];
        for (number, rule) in rules.iter().enumerate() {
            let wrong = |fault| RuleError {
                rule: number,
                fault,
            };
            inserted(rule)
                .map_or(Ok(()), places::check)
                .map_err(wrong)?;
            match rule {
                Rule::Text { find, with } => {
                    searches.push(Search::text(number, find, with).map_err(wrong)?)
                }
                Rule::Pattern { pattern, with } => {
                    searches.push(Search::pattern(number, pattern, with).map_err(wrong)?);
                }
                Rule::Select { selector, edit } => {
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
fn inserted(rule: &Rule) -> Option<&Template> {
    match rule {
        Rule::Text { with, .. } | Rule::Pattern { with, .. } => Some(with),
        Rule::Select { edit, .. } => match edit {
            Edit::Before(with) | Edit::After(with) | Edit::Prepend(with) => Some(with),
            Edit::Append(with) | Edit::Inner(with) | Edit::Replace(with) => Some(with),
            Edit::Remove | Edit::Set { .. } | Edit::Unset(_) => None,
        },
    }
}

fn numbers(rules: &[Rule]) -> usize {
    let template = |rule| match rule {
        &Rule::Select {
            edit: Edit::Set { ref value, .. },
            ..
        } => Some(value),
        rule => inserted(rule),
    };
    let parts = rules
        .iter()
        .filter_map(template)
        .flat_map(|template| &template.0);
    let number = |part: &Part| match part {
        Part::Text(_) => 0,
        Part::Value(number) | Part::Raw(number) => number + 1,
    };
    parts.map(number).max().unwrap_or(0)
}

/// A text or a pattern with its replacement.
struct Search<'a> {
    rule: usize,
    what: What<'a>,
    with: &'a Template,
}

enum What<'a> {
    Text(&'a [u8]),
    Pattern(&'a str),
}

impl<'a> Search<'a> {
    fn text(rule: usize, find: &'a [u8], with: &'a Template) -> Result<Self, RuleFault> {
        match find.len() {
            0 => Err(RuleFault::Empty),
            1..=LONGEST_MATCH => Ok(Self {
                rule,
                what: What::Text(find),
                with,
            }),
            _ => Err(RuleFault::TooLong),
        }
    }

    fn pattern(rule: usize, pattern: &'a str, with: &'a Template) -> Result<Self, RuleFault> {
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
            what: What::Pattern(pattern),
            with,
        })
    }

    /// The pattern's source.
    fn as_pattern(&self) -> String {
        match self.what {
            What::Pattern(pattern) => pattern.to_owned(),
            What::Text(text) => {
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
    fn add(&mut self, pieces: Vec<Piece>) -> usize {
        self.inserts.push(pieces);
        self.inserts.len() - 1
    }

    fn search(&mut self, searches: &[Search<'_>]) -> Result<(), RuleError> {
        let Some(last) = searches.last() else {
            return Ok(());
        };
        let texts: Vec<&[u8]> = searches
            .iter()
            .filter_map(|search| match search.what {
                What::Text(text) => Some(text),
                What::Pattern(_) => None,
            })
            .collect();
        let too_large = RuleError {
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
            let pieces = match search.what {
                What::Text(_) => pieces(search.with),
                What::Pattern(_) => {
                    pieces_with_groups(search.with, &regex, pattern).map_err(|fault| RuleError {
                        rule: search.rule,
                        fault,
                    })?
                }
            };
            let groups = pieces.iter().any(|piece| matches!(piece, Piece::Group(_)));
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

    fn select(&mut self, selector: &str, edit: &Edit) -> Result<(), RuleFault> {
        // Documents are read with a byte as a character, so selectors' texts are, too.
        let (bytes, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(selector.as_bytes());
        let selector: Selector =
            bytes
                .parse()
                .map_err(|error: lol_html::errors::SelectorError| {
                    RuleFault::Selector(error.to_string())
                })?;
        let operation = match edit {
            Edit::Before(with) => Operation::Before(self.add(pieces(with))),
            Edit::After(with) => Operation::After(self.add(pieces(with))),
            Edit::Prepend(with) => Operation::Prepend(self.add(pieces(with))),
            Edit::Append(with) => Operation::Append(self.add(pieces(with))),
            Edit::Inner(with) => Operation::Inner(self.add(pieces(with))),
            Edit::Replace(with) => Operation::Replace(self.add(pieces(with))),
            Edit::Remove => Operation::Replace(self.add(vec![])),
            Edit::Set { name, value } => {
                let name = attribute(name)?;
                check_attribute(&name, value)?;
                Operation::Set {
                    name,
                    insert: self.add(quoted(value)),
                }
            }
            Edit::Unset(name) => Operation::Unset {
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

fn pieces(template: &Template) -> Vec<Piece> {
    let piece = |part: &Part| match part {
        Part::Text(text) => Piece::Text(text.as_slice().into()),
        Part::Value(number) => Piece::Value {
            number: *number,
            raw: false,
        },
        Part::Raw(number) => Piece::Value {
            number: *number,
            raw: true,
        },
    };
    template.0.iter().map(piece).collect()
}

/// The pieces of an attribute value in double quotes.
fn quoted(template: &Template) -> Vec<Piece> {
    let quoted = |piece| match piece {
        Piece::Text(text) => {
            let text = text
                .split(|byte| *byte == b'"')
                .collect::<Vec<_>>()
                .join(&b"&quot;"[..]);
            Piece::Text(text.into())
        }
        other => other,
    };
    pieces(template).into_iter().map(quoted).collect()
}

/// The pieces of a template with the groups `$1`, `${name}` and `$$` in its texts.
fn pieces_with_groups(
    template: &Template,
    regex: &Regex,
    pattern: usize,
) -> Result<Vec<Piece>, RuleFault> {
    let mut all = vec![];
    for piece in pieces(template) {
        let Piece::Text(text) = piece else {
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
                all.push(Piece::Text(std::mem::take(&mut plain).into()));
            }
            all.push(Piece::Group(group(
                &String::from_utf8_lossy(name),
                regex,
                pattern,
            )?));
            rest = &rest[len..];
        }
        if !plain.is_empty() {
            all.push(Piece::Text(plain.into()));
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

/// A valid name of an attribute, in lower case.
fn attribute(name: &str) -> Result<String, RuleFault> {
    let fits =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.' | b'@');
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(RuleFault::Name(name.to_owned()));
    }
    Ok(name.to_ascii_lowercase())
}

/// Attributes with a URL that browsers follow or run.
const URLS: [&str; 12] = [
    "href",
    "xlink:href",
    "src",
    "srcset",
    "imagesrcset",
    "poster",
    "action",
    "formaction",
    "data",
    "to",
    "from",
    "ping",
];

/// Checks that values may stand in this attribute: escaping keeps them within the quotes, but not
/// harmless to the attribute's reader.
fn check_attribute(name: &str, value: &Template) -> Result<(), RuleFault> {
    let Some(first) = value
        .0
        .iter()
        .position(|part| matches!(part, Part::Value(_)))
    else {
        return Ok(());
    };
    let before = value.0[..first].iter().map(|part| match part {
        Part::Text(text) => &text[..],
        Part::Value(_) | Part::Raw(_) => b"",
    });
    check_value_behind(name, &before.collect::<Vec<_>>().concat())
}

/// The same for the first value, behind this text. It decides for the later ones: any value may be
/// empty.
pub(super) fn check_value_behind(name: &str, before: &[u8]) -> Result<(), RuleFault> {
    if name.starts_with("on") || matches!(name, "style" | "srcdoc" | "values") {
        return Err(RuleFault::Code(name.to_owned()));
    }
    if !URLS.contains(&name) {
        return Ok(());
    }
    match open(before) {
        None => Ok(()),
        Some(Open::Scheme) => Err(RuleFault::Scheme(name.to_owned())),
        Some(Open::Host) => Err(RuleFault::Host(name.to_owned())),
    }
}

/// The part of a URL that is still open.
enum Open {
    Scheme,
    Host,
}

/// The part of a URL that may follow this beginning, as browsers read it (URL Standard, 4.4): they
/// skip tabs and line breaks, take `\` for `/`, and as many slashes as they find for two behind
/// `https:`.
fn open(before: &[u8]) -> Option<Open> {
    let url: Vec<u8> = before
        .iter()
        .filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r'))
        .map(|byte| {
            if *byte == b'\\' {
                b'/'
            } else {
                byte.to_ascii_lowercase()
            }
        })
        .skip_while(|byte| *byte <= b' ')
        .collect();
    let Some(end) = url
        .iter()
        .position(|byte| matches!(byte, b':' | b'/' | b'?' | b'#'))
    else {
        return Some(Open::Scheme);
    };
    let (first, rest) = url.split_at(end);
    let rest = match rest.strip_prefix(b":") {
        Some(_) if matches!(first, b"javascript" | b"vbscript" | b"data") => {
            return Some(Open::Scheme);
        }
        Some(rest) => rest,
        None if !first.is_empty() || rest[0] != b'/' => return None,
        None if rest.len() > 1 && rest[1] != b'/' => return None,
        None => rest,
    };
    let host = &rest[rest.iter().take_while(|byte| **byte == b'/').count()..];
    let ended = host
        .iter()
        .skip(1)
        .any(|byte| matches!(byte, b'/' | b'?' | b'#'));
    (!ended).then_some(Open::Host)
}
