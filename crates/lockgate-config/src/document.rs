//! One TOML text as a tree that knows where each part stands, with `${env:…}` and `${file:…}`
//! filled in.
//!
//! Does not know any key: see `check`. Keeps what was written beside what it means, so that no
//! message ever shows a value that came from outside.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::codes::Code;
use crate::environment::Environment;
use crate::foreign_names::recognise;
use crate::references;
use crate::report::Report;
use crate::sorted_map::SortedMap;
use crate::source::{ConfigFile, SourceSpan};
use crate::syntax;

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct TomlItem {
    pub(crate) node: TomlValue,
    pub(crate) at: SourceSpan,
}

#[derive(Debug, Clone)]
pub(crate) enum TomlValue {
    Text(TomlString),
    /// Digits as `i64`; `None` when they do not fit.
    Integer(Option<i64>),
    Float,
    Bool(bool),
    Datetime,
    List(Vec<TomlItem>),
    Table(Branch),
    /// A value that could not be read and has been reported.
    Broken,
}

/// A string, before and after its references are replaced.
#[derive(Debug, Clone)]
pub(crate) struct TomlString {
    /// As written, `${…}` included: the only form that may be shown.
    pub(crate) raw: String,
    /// The text with each `${…}` replaced.
    pub(crate) value: String,
}

/// A table, inline or with a header.
#[derive(Debug, Clone, Default)]
pub(crate) struct Branch {
    pub(crate) entries: SortedMap<String, TomlEntry>,
    pub(crate) inline: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct TomlEntry {
    pub(crate) key_at: SourceSpan,
    pub(crate) item: TomlItem,
}

/// Syntax errors beyond this many follow from the first ones.
const MAX_SYNTAX: usize = 10;

/// Looking for the first of two equal keys reads the text again: so many bytes are read for that in
/// all.
const PAIR_BUDGET: usize = 1 << 20;

impl TomlString {
    /// A text that has no references.
    pub(crate) fn plain(text: &str) -> TomlString {
        TomlString {
            raw: text.to_owned(),
            value: text.to_owned(),
        }
    }

    /// Whether part of the value came from outside and must not be shown.
    pub(crate) fn is_secret(&self) -> bool {
        self.raw != self.value
    }
}

impl TomlValue {
    /// The kind of TOML value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            TomlValue::Text(_) => "a string",
            TomlValue::Integer(_) => "a number",
            TomlValue::Float => "a number with a fraction",
            TomlValue::Bool(true) => "true",
            TomlValue::Bool(false) => "false",
            TomlValue::Datetime => "a date",
            TomlValue::List(_) => "a list",
            TomlValue::Table(_) => "a table",
            TomlValue::Broken => "nothing",
        }
    }
}

/// Whether the text was TOML from end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integrity {
    Whole,
    /// The table has unreadable lines: an absent key is not reported as missing.
    Damaged,
}

/// Reads the whole text, reporting every syntax error and every duplicate key.
pub(crate) fn parse(
    source: &Arc<ConfigFile>,
    env: &Environment,
    report: &mut Report,
) -> (Branch, Integrity) {
    let text = source.text.as_str();
    let (table, errors) = DeTable::parse_recoverable(text);
    let slip = errors
        .iter()
        .any(|error| error.message() != "duplicate key");
    if slip && report_foreign_file(source, report) {
        return (Branch::default(), Integrity::Damaged);
    }
    let mut broken = match errors.is_empty() {
        true => BrokenLines::default(),
        false => BrokenLines::of(text),
    };
    let (mut pairs, mut syntax_errors) = (0, 0);
    let mut reopened = 0..0;
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let at = SourceSpan::new(source, span.clone());
        if error.message() == "duplicate key" {
            if reopened.contains(&span.start) {
                continue;
            }
            reopened = reopened_table(text, span.start);
            pairs += text.len();
            let first = if pairs <= PAIR_BUDGET {
                first_definition(text, span)
            } else {
                None
            };
            duplicate(
                report,
                &at,
                first.map(|first| SourceSpan::new(source, first)).as_ref(),
            );
            continue;
        }
        if broken.insert(text, at.span.start) && syntax_errors < MAX_SYNTAX {
            syntax_errors += 1;
            syntax(report, &at, error.message());
        }
    }
    let mut reader = TreeBuilder {
        source,
        env,
        report,
        broken: &broken,
    };
    let branch = reader.branch(table.get_ref(), TableStyle::Header);
    (
        branch,
        if broken.lines.is_empty() {
            Integrity::Whole
        } else {
            Integrity::Damaged
        },
    )
}

/// The lines that hold a syntax error: what the parser made of them to go on says nothing about the
/// user.
#[derive(Default)]
struct BrokenLines {
    starts: Vec<usize>,
    lines: BTreeSet<usize>,
}

impl BrokenLines {
    fn of(text: &str) -> BrokenLines {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        BrokenLines {
            starts: newlines.map(|(at, _)| at + 1).collect(),
            lines: BTreeSet::new(),
        }
    }

    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// Keys below a header that could not be read belong to an unknown table: they are broken too.
    fn insert(&mut self, text: &str, offset: usize) -> bool {
        let line = self.line(offset);
        let new = self.lines.insert(line);
        if new && self.is_header(text, line) {
            let below =
                (line + 1..=self.starts.len()).take_while(|line| !self.is_header(text, *line));
            let below: Vec<_> = below.collect();
            self.lines.extend(below);
        }
        new
    }

    fn is_header(&self, text: &str, line: usize) -> bool {
        let start = line
            .checked_sub(1)
            .and_then(|before| self.starts.get(before))
            .copied()
            .unwrap_or(0);
        text.get(start..).is_some_and(|text| text.starts_with('['))
    }

    fn contains(&self, offset: usize) -> bool {
        !self.lines.is_empty() && self.lines.contains(&self.line(offset))
    }
}

/// The lines up to the next header if the key at `offset` is part of a header: in a table that is
/// written twice every key is a duplicate, which is not reported.
fn reopened_table(text: &str, offset: usize) -> Range<usize> {
    let line = text
        .get(..offset)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |newline| newline + 1);
    if !text
        .get(line..)
        .is_some_and(|line| line.trim_start().starts_with('['))
    {
        return 0..0;
    }
    let next = text.get(offset..).and_then(|after| after.find("\n["));
    offset + 1..next.map_or(text.len(), |next| offset + next)
}

/// Reports a key that was written twice.
pub(crate) fn duplicate(report: &mut Report, at: &SourceSpan, first: Option<&SourceSpan>) {
    let message = format!("{} is written twice", quoted(at.text()));
    let why = "a key has one value";
    let cure = "keep one of them, or merge the two";
    match first {
        Some(first) => {
            report.push_pair(
                Code::Duplicate,
                at,
                (message, why, cure),
                (first, "it was first written here"),
            );
        }
        None => report.push_at(Code::Duplicate, at, message, why, cure),
    }
}

fn quoted(key: &str) -> String {
    if key.starts_with(['"', '\'']) {
        key.to_owned()
    } else {
        format!("`{key}`")
    }
}

fn syntax(report: &mut Report, at: &SourceSpan, message: &str) {
    let text = &at.source.text;
    let start = text[..at.span.start]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let slip = syntax::slip(line, at.span.start - start, message);
    let at = match slip.span {
        Some(span) => &SourceSpan::new(&at.source, start + span.start..start + span.end),
        None => at,
    };
    let why = slip
        .why
        .map_or_else(|| message.replace('`', "\""), str::to_owned);
    report.push_at(Code::Syntax, at, "this is not TOML", why, slip.cure);
}

/// One mistake for a whole text in another language.
fn report_foreign_file(source: &Arc<ConfigFile>, report: &mut Report) -> bool {
    let Some(found) = recognise(&source.text) else {
        return false;
    };
    let message = format!("this looks like {}", found.name);
    let cure = format!(
        "in Lockgate this is for example\n{}\nand docs/config.md has all keys",
        found.example
    );
    let at = SourceSpan::new(source, found.span);
    report.push_at(Code::Syntax, &at, message, "Lockgate reads TOML", cure);
    true
}

/// The place where the key that is repeated at `second` was first written.
///
/// The parser reports only the second place. The text is parsed again with that key renamed: the
/// table of the renamed key also has the first one.
fn first_definition(text: &str, second: Range<usize>) -> Option<Range<usize>> {
    const RENAMED: &str = "lockgate-renamed-key";
    let key = text.get(second.clone())?;
    let bare = key.trim_matches(['"', '\'']);
    let renamed = format!(
        "{}{RENAMED}{}",
        text.get(..second.start)?,
        text.get(second.end..)?
    );
    let (table, _) = DeTable::parse_recoverable(&renamed);
    find_in_table(table.get_ref(), RENAMED, bare)
}

fn find_in_table(table: &DeTable<'_>, renamed: &str, wanted: &str) -> Option<Range<usize>> {
    if table.contains_key(renamed) {
        return table
            .iter()
            .find(|(key, _)| key.get_ref() == wanted)
            .map(|(key, _)| key.span());
    }
    table
        .iter()
        .find_map(|(_, value)| inside(value.get_ref(), renamed, wanted))
}

fn inside(value: &DeValue<'_>, renamed: &str, wanted: &str) -> Option<Range<usize>> {
    match value {
        DeValue::Table(table) => find_in_table(table, renamed, wanted),
        DeValue::Array(array) => array
            .iter()
            .find_map(|item| inside(item.get_ref(), renamed, wanted)),
        _ => None,
    }
}

/// The notation of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableStyle {
    Header,
    Inline,
}

struct TreeBuilder<'a> {
    source: &'a Arc<ConfigFile>,
    env: &'a Environment,
    report: &'a mut Report,
    broken: &'a BrokenLines,
}

impl TreeBuilder<'_> {
    fn branch(&mut self, table: &DeTable<'_>, written: TableStyle) -> Branch {
        let whole = table
            .iter()
            .filter(|(key, _)| !self.broken.contains(key.span().start));
        let whole: Vec<_> = whole.collect();
        // What takes the place of a match of a regular expression names its groups.
        let groups = whole.iter().any(|(key, _)| key.get_ref() == "regex");
        let entries = whole.into_iter().map(|(key, value)| {
            let item = self.item(value, groups && key.get_ref() == "with");
            let entry = TomlEntry {
                key_at: SourceSpan::new(self.source, key.span()),
                item,
            };
            (key.get_ref().to_string(), entry)
        });
        Branch {
            entries: entries.collect(),
            inline: written == TableStyle::Inline,
        }
    }

    fn item(&mut self, value: &Spanned<DeValue<'_>>, groups: bool) -> TomlItem {
        let at = SourceSpan::new(self.source, value.span());
        let node = match value.get_ref() {
            _ if self.broken.contains(at.span.start) => TomlValue::Broken,
            DeValue::String(text) => self.text(text, &at, groups),
            DeValue::Integer(digits) => {
                TomlValue::Integer(i64::from_str_radix(digits.as_str(), digits.radix()).ok())
            }
            DeValue::Float(_) => TomlValue::Float,
            DeValue::Boolean(value) => TomlValue::Bool(*value),
            DeValue::Datetime(_) => TomlValue::Datetime,
            DeValue::Array(array) => {
                TomlValue::List(array.iter().map(|item| self.item(item, false)).collect())
            }
            DeValue::Table(table) => {
                let inline = at.text().starts_with('{');
                TomlValue::Table(self.branch(
                    table,
                    if inline {
                        TableStyle::Inline
                    } else {
                        TableStyle::Header
                    },
                ))
            }
        };
        TomlItem { node, at }
    }

    fn text(&mut self, raw: &str, at: &SourceSpan, groups: bool) -> TomlValue {
        match references::substitute(raw, at, groups, self.env, self.report) {
            Some(value) => TomlValue::Text(TomlString {
                raw: raw.to_owned(),
                value,
            }),
            None => TomlValue::Broken,
        }
    }
}
