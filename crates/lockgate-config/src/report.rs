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
    /// The kind of the mistake.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The mistake in a few words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The place in the configuration, if there is one.
    pub fn at(&self) -> Option<&SourceSpan> {
        self.at.as_ref()
    }

    /// The cause; may be empty.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The cure, which is a text to write or a step to take; may be empty.
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
/// Values from `${env:…}` or `${file:…}` never appear in the texts of this crate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    diagnostics: Vec<Diagnostic>,
    more_errors: usize,
    more_warnings: usize,
}

/// The number of kept diagnostics; further ones are only counted: a file in another language would
/// give one for each line.
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

    /// Whether any diagnostic stops the start.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// The number of diagnostics of this severity.
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

    /// Adds a mistake at a place in a configuration file.
    ///
    /// `message` is the mistake in a few words, `why` the cause (shown beside the caret) and `cure`
    /// the text to write or the step to take; the last two may be empty.
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

    /// Adds a mistake without a place.
    pub fn push(
        &mut self,
        code: Code,
        message: impl Into<String>,
        why: impl Into<String>,
        cure: impl Into<String>,
    ) {
        self.add(code, None, message.into(), why.into(), cure.into());
    }

    /// Removes the diagnostics with this code at this place, when a later step knows more about it.
    pub(crate) fn withdraw(&mut self, code: Code, at: &SourceSpan) {
        self.diagnostics
            .retain(|found| found.code != code || found.rank() != at.rank());
    }

    /// Adds all diagnostics of another report.
    pub fn append(&mut self, other: Report) {
        self.more_errors += other.more_errors;
        self.more_warnings += other.more_warnings;
        for found in other.diagnostics {
            self.insert(found);
        }
    }

    /// Removes the diagnostics with other codes than those that `keep` accepts.
    pub fn retain(&mut self, keep: impl Fn(Code) -> bool) {
        self.diagnostics.retain(|found| keep(found.code));
    }

    /// The report as text in the form of rustc's messages; the last line has the counts.
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

    /// The report as JSON: `{"errors", "warnings", "diagnostics": [{"code", "severity", "message",
    /// "file", "line", "column", "end_line", "end_column", "why", "cure", "related"}]}`.
    pub fn to_json(&self) -> Value {
        json!({
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "diagnostics": self.diagnostics.iter().map(diagnostic_json).collect::<Vec<_>>(),
        })
    }

    /// Adds a mistake with two places: `at`, and a related place with its label. The texts are
    /// message, why and cure.
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

/// The longest line that is shown, in bytes: drawing a longer one takes long, and would not be
/// read.
const LONGEST_LINE: usize = 2_000;

/// Only the lines of the span: the renderer reads its whole input again for each diagnostic.
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

/// The longest text that is shown, in bytes; a longer one quotes a long part of the configuration.
const LONGEST_TEXT: usize = 1_000;

/// Escapes control characters of the configuration, which could move a terminal's cursor.
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
