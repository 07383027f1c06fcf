//! HPACK (RFC 7541): the heads of HTTP/2 as bytes, both ways, without IO.
//!
//! [`Decoder`] takes apart what a peer has made: what it may cost is bounded by the length of the
//! block and by the size of the dynamic table, whatever the bytes are. [`Account`] says what they
//! amount to and decodes nothing. [`Encoder`] makes blocks for who says much the same again and
//! again. Neither knows what a field means.

mod account;
mod decode;
mod encode;
mod huffman;
mod integer;
mod table;
#[cfg(test)]
mod tests;

pub use account::{Account, Section};
pub use decode::Decoder;
pub use encode::Encoder;

/// The size of a dynamic table where nobody has said another (RFC 9113 §6.5.2).
pub const TABLE_SIZE: usize = 4096;

/// Why a block cannot be read. The tables of both sides may differ from here on: it ends the
/// connection as COMPRESSION_ERROR (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// It ends within a field.
    #[error("a block of fields ends too early")]
    Cut,
    /// A number is too large (RFC 7541 §5.1).
    #[error("a number in a block of fields is too large")]
    Number,
    /// An index that no table has (§2.3.3).
    #[error("a field has an index that stands for nothing")]
    Index,
    /// Huffman coding has an end of string within, or padding that is none (§5.2).
    #[error("a string is not coded as it should be")]
    Huffman,
    /// The dynamic table is made larger than was allowed, or after the first field (§4.2, §6.3).
    #[error("the size of the dynamic table is changed where or as it may not be")]
    TableSize,
    /// All fields together are larger than was allowed (RFC 9113 §10.5.1).
    #[error("the fields are too large together")]
    TooLarge,
}
