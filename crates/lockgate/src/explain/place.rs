//! A place in the configuration, as an explanation names it.

use lockgate_config::SourceSpan;

/// A place in the configuration: `file:line`.
pub(super) fn place(at: &SourceSpan) -> String {
    format!("{}:{}", at.file().display(), at.line())
}
