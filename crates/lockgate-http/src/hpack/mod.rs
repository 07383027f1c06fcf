//! HPACK (RFC 7541): compression of HTTP/2 heads, both ways, without IO.
//!
//! [`HpackDecoder`] decodes a peer's blocks: the cost is bounded by the length of the block and the
//! size of the dynamic table. [`HpackEncoder`]
//! encodes blocks for senders that repeat themselves. None of them interprets a field.

mod decode;
mod encode;
mod huffman;
mod integer;
mod table;
#[cfg(test)]
mod tests;

pub use decode::HpackDecoder;
pub use encode::{HpackEncoder, Indexing};

/// The default size of a dynamic table (RFC 9113 §6.5.2).
pub const TABLE_SIZE: usize = 4096;

/// The reason why a block is invalid. The tables of both sides may differ afterwards: the
/// connection ends with COMPRESSION_ERROR (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// The block ends within a field.
    #[error("a block of fields ends too early")]
    Cut,
    /// A number that is too large (RFC 7541 §5.1).
    #[error("a number in a block of fields is too large")]
    Number,
    /// An index that is in no table (§2.3.3).
    #[error("a field has an invalid index")]
    Index,
    /// A Huffman-coded end of string within a string, or invalid padding (§5.2).
    #[error("a string has an invalid coding")]
    Huffman,
    /// A dynamic table larger than allowed, or a size update after the first field (§4.2, §6.3).
    #[error("a change of the dynamic table's size is not allowed")]
    TableSize,
    /// All fields together exceed the limit (RFC 9113 §10.5.1).
    #[error("the fields together are too large")]
    TooLarge,
}
