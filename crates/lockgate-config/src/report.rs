//! Mistakes and warnings, collected and then shown together: as text with the line and a caret, or
//! as JSON.
//!
//! Does not print and does not look at the terminal.

use std::fmt;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde_json::{Value, json};

use crate::codes::{Code, Severity};
use crate::source::SourceSpan;

/// Whether `Report::render` writes ANSI colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// Plain text, without escapes.
    Never,
    /// ANSI escapes, for a terminal.
    Always,
}

/// One mistake or warning with its place and cure.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    code: Code,
    message: String,
    at: Option<SourceSpan>,
    why: String,
    cure: String,
    related: Vec<(SourceSpan, String)>,
}

impl Diagnostic {
    /// What kind of mistake it is.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What is wrong, in a few words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where it was written, if it was.
    pub fn at(&self) -> Option<&SourceSpan> {
        self.at.as_ref()
    }

    /// Why it is wrong; may be empty.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// What to write or do instead; may be empty.
    pub fn cure(&self) -> &str {
        &self.cure
    }

    fn rank(&self) -> (usize, usize, usize) {
        self.at
            .as_ref()
            .map_or((usize::MAX, 0, 0), SourceSpan::rank)
    }
}

/// Mistakes and warnings, ordered by file and place.
///
/// Values that came from `${env:…}` or `${file:…}` never appear in what this crate puts in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    diagnostics: Vec<Diagnostic>,
    more_errors: usize,
    more_warnings: usize,
}

/// More are counted, not kept: a file of another kind would give one for each line.
const KEPT: usize = 200;

impl Report {
    /// A report without mistakes or warnings.
    pub fn new() -> Report {
        Report::default()
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Whether anything in it stops the start.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// How many diagnostics of that severity it holds.
    pub fn count(&self, severity: Severity) -> usize {
        let more = match severity {
            Severity::Error => self.more_errors,
            Severity::Warning => self.more_warnings,
        };
        more + self
            .diagnostics
            .iter()
            .filter(|found| found.code.severity() == severity)
            .count()
    }

    /// The diagnostics, ordered by file and place; those without a place last. Past 200 they are
    /// only counted.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter()
    }

    /// Adds a mistake that belongs to a place in a configuration file.
    ///
    /// `message` says what is wrong in a few words, `why` the cause (shown beside the caret) and
    /// `cure` what to write or do instead; the last two may be empty.
    pub fn push_at(
        &mut self,
        code: Code,
        at: &SourceSpan,
        message: impl Into<String>,
        why: impl Into<String>,
        cure: impl Into<String>,
    ) {
        self.add(
            code,
            Some(at.clone()),
            message.into(),
            why.into(),
            cure.into(),
        );
    }

    /// Adds a mistake that belongs to no line.
    pub fn push(
        &mut self,
        code: Code,
        message: impl Into<String>,
        why: impl Into<String>,
        cure: impl Into<String>,
    ) {
        self.add(code, None, message.into(), why.into(), cure.into());
    }

    /// Takes back what was said of a place, where more is known about it now.
    pub(crate) fn withdraw(&mut self, code: Code, at: &SourceSpan) {
        self.diagnostics
            .retain(|found| found.code != code || found.rank() != at.rank());
    }

    /// Takes over all of another report.
    pub fn append(&mut self, other: Report) {
        self.more_errors += other.more_errors;
        self.more_warnings += other.more_warnings;
        for found in other.diagnostics {
            self.insert(found);
        }
    }

    /// Leaves out the diagnostics with codes that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(Code) -> bool) {
        self.diagnostics.retain(|found| keep(found.code));
    }

    /// The text for people, in the manner of rustc, ending in a line that counts.
    pub fn render(&self, color: Color) -> String {
        let renderer = match color {
            Color::Never => Renderer::plain(),
            Color::Always => Renderer::styled(),
        };
        let mut text = String::new();
        for found in &self.diagnostics {
            text.push_str(&renderer.render(&[group(found)]));
            text.push_str("\n\n");
        }
        if !self.is_empty() {
            text.push_str(&self.summary());
            text.push('\n');
        }
        text
    }

    /// The same for programs: `{"errors", "warnings", "diagnostics": [{"code", "severity",
    /// "message", "file", "line", "column", "end_line", "end_column", "why", "cure",
    /// "related"}]}`.
    pub fn to_json(&self) -> Value {
        json!({
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "diagnostics": self.diagnostics.iter().map(diagnostic_json).collect::<Vec<_>>(),
        })
    }

    /// Adds a mistake that lies in two places: `at`, and another with what it has to do with it.
    /// The texts are message, why and cure.
    pub fn push_pair(
        &mut self,
        code: Code,
        at: &SourceSpan,
        texts: (impl Into<String>, impl Into<String>, impl Into<String>),
        (first, label): (&SourceSpan, &str),
    ) {
        let (message, why, cure) = texts;
        self.insert(Diagnostic {
            code,
            message: printable(message.into()),
            at: Some(at.clone()),
            why: printable(why.into()),
            cure: printable(cure.into()),
            related: vec![(first.clone(), printable(label.to_owned()))],
        });
    }

    fn add(
        &mut self,
        code: Code,
        at: Option<SourceSpan>,
        message: String,
        why: String,
        cure: String,
    ) {
        let (message, why, cure) = (printable(message), printable(why), printable(cure));
        self.insert(Diagnostic {
            code,
            message,
            at,
            why,
            cure,
            related: Vec::new(),
        });
    }

    fn insert(&mut self, found: Diagnostic) {
        if self.diagnostics.len() >= KEPT {
            match found.code.severity() {
                Severity::Error => self.more_errors += 1,
                Severity::Warning => self.more_warnings += 1,
            }
            return;
        }
        let index = self
            .diagnostics
            .partition_point(|other| other.rank() <= found.rank());
        self.diagnostics.insert(index, found);
    }

    fn summary(&self) -> String {
        let plural = |count: usize, word: &str| match count {
            1 => format!("1 {word}"),
            count => format!("{count} {word}s"),
        };
        match (self.count(Severity::Error), self.count(Severity::Warning)) {
            (0, warnings) => plural(warnings, "warning"),
            (errors, 0) => plural(errors, "error"),
            (errors, warnings) => format!(
                "{}, {}",
                plural(errors, "error"),
                plural(warnings, "warning")
            ),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Color::Never))
    }
}

impl std::error::Error for Report {}

fn group(found: &Diagnostic) -> Group<'_> {
    let level = match found.code.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(&*found.message).id(found.code.id()));
    match &found.at {
        Some(at) => {
            group = group.element(snippet(at, AnnotationKind::Primary, &found.why));
        }
        None if !found.why.is_empty() => group = group.element(Level::NOTE.message(&*found.why)),
        None => {}
    }
    for (at, label) in &found.related {
        group = group.element(snippet(at, AnnotationKind::Context, label));
    }
    if !found.cure.is_empty() {
        group = group.element(Level::HELP.message(&*found.cure));
    }
    group
}

/// A longer line is not shown: it would not be read, and drawing it takes long.
const LONGEST_LINE: usize = 2_000;

/// Only the lines of the span: the renderer reads all that it is given, for each diagnostic again.
fn snippet<'a>(
    at: &'a SourceSpan,
    kind: AnnotationKind,
    label: &'a str,
) -> annotate_snippets::Element<'a> {
    let text = &at.source.text;
    let start = text[..at.span.start]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    let first_end = text[start..]
        .find('\n')
        .map_or(text.len(), |newline| start + newline);
    if text.is_empty() || first_end - start > LONGEST_LINE {
        let origin = Origin::path(at.file().to_string_lossy());
        return origin.line(at.line()).char_column(at.column()).into();
    }
    // A table or array over many lines is marked on its first.
    let end = at.span.end.min(first_end).max(at.span.start);
    let span = at.span.start - start..end - start;
    let annotation = kind.span(span);
    let annotation = if label.is_empty() {
        annotation
    } else {
        annotation.label(label)
    };
    Snippet::source(&text[start..first_end])
        .path(at.file().to_string_lossy())
        .line_start(at.line())
        .annotation(annotation)
        .into()
}

fn diagnostic_json(found: &Diagnostic) -> Value {
    let mut object = json!({
        "code": found.code.id(),
        "severity": match found.code.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "message": found.message,
        "why": found.why,
        "cure": found.cure,
        "related": found.related.iter().map(|(at, label)| {
            let mut place = place_json(at);
            place["message"] = json!(label);
            place
        }).collect::<Vec<_>>(),
    });
    if let (Some(Value::Object(place)), Some(fields)) =
        (found.at.as_ref().map(place_json), object.as_object_mut())
    {
        fields.extend(place);
    }
    object
}

fn place_json(at: &SourceSpan) -> Value {
    let end = SourceSpan {
        source: at.source.clone(),
        span: at.span.end..at.span.end,
    };
    json!({
        "file": at.file().to_string_lossy(),
        "line": at.line(),
        "column": at.column(),
        "end_line": end.line(),
        "end_column": end.column(),
    })
}

/// Longer texts repeat something endless that was written.
const LONGEST_TEXT: usize = 1_000;

/// What was written may hold escapes that move a terminal's cursor; they are shown instead.
fn printable(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        text = text.chars().take(LONGEST_TEXT / 4).chain(['…']).collect();
    }
    let moves = |c: char| c.is_control() && c != '\n';
    if !text.contains(moves) {
        return text;
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if moves(c) {
            clean.extend(c.escape_default())
        } else {
            clean.push(c)
        }
    }
    clean
}
