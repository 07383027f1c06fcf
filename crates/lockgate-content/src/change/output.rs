//! Destinations of changed content: a plan, or the client.

use super::ChangeError;
use super::escape::Escape;

/// A piece of a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
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
pub(super) trait Output {
    fn text(&mut self, text: &[u8]) -> Result<(), ChangeError>;

    fn value(&mut self, number: usize, escape: Escape) -> Result<(), ChangeError>;

    /// Whether the output is full for now.
    fn is_full(&self) -> bool;
}

/// Writes a replacement to `out`. With no `escape`, values that are not raw are left out.
pub(super) fn put<'t>(
    pieces: &[Piece],
    escape: Option<Escape>,
    group: impl Fn(usize) -> &'t [u8],
    out: &mut impl Output,
) -> Result<(), ChangeError> {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.text(text)?,
            Piece::Value { number, raw: true } => out.value(*number, Escape::None)?,
            Piece::Value { number, raw: false } => {
                if let Some(escape) = escape {
                    out.value(*number, escape)?;
                }
            }
            Piece::Group(number) => out.text(group(*number))?,
        }
    }
    Ok(())
}
