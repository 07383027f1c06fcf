//! Destinations of changed content: a plan, or the client.

use super::ChangeError;
use super::escape::Escape;

/// A piece of a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplacementPiece {
    Text(Box<[u8]>),
    /// A value, escaped by the document unless it is raw.
    Value {
        number: usize,
        raw: bool,
    },
    /// The text that a group of the pattern has matched.
    Group(usize),
}

/// A destination of changed content, which arrives in order.
pub(super) trait ChangeOutput {
    fn text(&mut self, text: &[u8]) -> Result<(), ChangeError>;

    fn value(&mut self, number: usize, escape: Escape) -> Result<(), ChangeError>;

    /// Whether the output is full for now.
    fn is_full(&self) -> bool;
}

/// Writes a replacement to `out`. With no `escape`, values that are not raw are left out.
pub(super) fn put<'t>(
    pieces: &[ReplacementPiece],
    escape: Option<Escape>,
    group: impl Fn(usize) -> &'t [u8],
    out: &mut impl ChangeOutput,
) -> Result<(), ChangeError> {
    for piece in pieces {
        match piece {
            ReplacementPiece::Text(text) => out.text(text)?,
            ReplacementPiece::Value { number, raw: true } => out.value(*number, Escape::None)?,
            ReplacementPiece::Value { number, raw: false } => {
                if let Some(escape) = escape {
                    out.value(*number, escape)?;
                }
            }
            ReplacementPiece::Group(number) => out.text(group(*number))?,
        }
    }
    Ok(())
}
