//! The files of a source, and the places in them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Reads the files of a source.
pub trait SourceFiles {
    /// The text of a file.
    ///
    /// # Errors
    /// Why it cannot be read, for a sentence: `no such file`.
    fn read(&self, path: &Path) -> Result<String, String>;

    /// The files that a pattern with `*`, `?` and `[…]` in its last components matches, sorted.
    fn matching(&self, pattern: &Path) -> Vec<PathBuf>;
}

/// A line of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: Rc<Path>,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// Why a source was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A file that the user has named.
    #[error("{} cannot be read: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// Text that is not of the format.
    #[error("{place}: {reason}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong, as a sentence without its full stop: `this quote has no end`.
        reason: String,
    },
}
