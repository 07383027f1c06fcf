//! Places: a source text and a span in it.
//!
//! They are shown by `report`.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One file of the configuration, kept so that later mistakes can still show the line.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    /// The path for messages, as the user would write it.
    pub(crate) name: PathBuf,
    /// The folder that relative paths in this file start from.
    pub(crate) dir: PathBuf,
    /// The position in the order of reading; the main file is 0.
    pub(crate) order: usize,
    pub(crate) text: String,
}

/// The place of a value.
///
/// Displays as `file:line:column`, both counted from 1, the column in characters. All places are
/// equal, so that two configurations never differ by them.
#[derive(Clone)]
pub struct SourceSpan {
    pub(crate) source: Arc<ConfigFile>,
    pub(crate) span: Range<usize>,
}

impl SourceSpan {
    pub(crate) fn new(source: &Arc<ConfigFile>, span: Range<usize>) -> SourceSpan {
        let len = source.text.len();
        let start = floor_boundary(&source.text, span.start.min(len));
        let end = ceil_boundary(&source.text, span.end.clamp(start, len));
        SourceSpan {
            source: Arc::clone(source),
            span: start..end,
        }
    }

    /// The file, as it was named on the command line or found through `include`.
    pub fn file(&self) -> &Path {
        &self.source.name
    }

    /// The number of the line, from 1.
    pub fn line(&self) -> usize {
        self.before().matches('\n').count() + 1
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> usize {
        let before = self.before();
        let line = before.rsplit('\n').next().unwrap_or(before);
        line.chars().count() + 1
    }

    /// The source text within the span.
    pub(crate) fn text(&self) -> &str {
        self.source.text.get(self.span.clone()).unwrap_or_default()
    }

    /// The file by its order of reading, and the offset in it.
    pub fn start(&self) -> (usize, usize) {
        (self.source.order, self.span.start)
    }

    /// Files in the order of reading, then from top to bottom.
    pub(crate) fn rank(&self) -> (usize, usize, usize) {
        (self.source.order, self.span.start, self.span.end)
    }

    fn before(&self) -> &str {
        self.source.text.get(..self.span.start).unwrap_or_default()
    }
}

impl fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}",
            self.file().display(),
            self.line(),
            self.column()
        )
    }
}

impl fmt::Debug for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceSpan({self})")
    }
}

impl PartialEq for SourceSpan {
    fn eq(&self, _: &SourceSpan) -> bool {
        true
    }
}

impl Eq for SourceSpan {}

fn floor_boundary(text: &str, mut index: usize) -> usize {
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

fn ceil_boundary(text: &str, mut index: usize) -> usize {
    while !text.is_char_boundary(index) {
        index += 1;
    }
    index
}
