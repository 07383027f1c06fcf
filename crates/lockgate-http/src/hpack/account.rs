//! Accounting of field blocks: their decoded size, their pseudo-fields and the order of these, and
//! connection-specific fields. Decodes nothing.
//!
//! For checking a peer's heads before, or beside, the codec that reads them. Follows the dynamic
//! table by the sizes of its entries, so that a reference to a large field costs as little as one
//! to a small field, and nothing is copied.

mod literal;

use std::collections::VecDeque;

use super::table::{OVERHEAD, STATIC};
use super::{HpackError, integer};
use literal::{LiteralName, StringLiteral};

/// Follows the blocks of one direction of a connection, in the order of arrival.
#[derive(Debug)]
pub struct BlockAccount {
    /// The newest first.
    entries: VecDeque<EntrySize>,
    /// The bytes of the entries as RFC 7541 §4.1 counts them, and their limit.
    size: usize,
    most: usize,
    /// The limit of the table's size.
    allowed: u16,
    section: SectionSummary,
    /// The front of an incomplete field.
    held: Vec<u8>,
    /// The limit of its length.
    longest: usize,
    /// The rest of a value that is skipped, in bytes.
    passing: usize,
}

/// The figures of one field section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionSummary {
    /// The bytes of all fields as RFC 9113 §6.5.2 counts them, 32 for each beside its own. A
    /// Huffman-coded value that is not added to the dynamic table counts as its longest decoding.
    pub size: usize,
    /// The number of fields.
    pub fields: usize,
    marks: u16,
}

/// A field of a table, or a new one.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    name: u16,
    value: u16,
    marks: u16,
}

const METHOD: u16 = 1;
const SCHEME: u16 = 1 << 1;
const AUTHORITY: u16 = 1 << 2;
const PATH: u16 = 1 << 3;
const PROTOCOL: u16 = 1 << 4;
const STATUS: u16 = 1 << 5;
/// An unknown name with a colon.
const UNKNOWN: u16 = 1 << 6;
const PSEUDO: u16 = (1 << 7) - 1;
/// A field without a colon in front.
const REGULAR: u16 = 1 << 7;
/// A connection-specific field (RFC 9113 §8.2.2).
const CONNECTION: u16 = 1 << 8;
/// The connection-specific field that requests may have.
const TE: u16 = 1 << 9;
/// The marks of a name alone.
const NAMES: u16 = PSEUDO | REGULAR | CONNECTION | TE;
/// A `:status` that begins with a 1.
const INTERIM: u16 = 1 << 10;
/// A `:path` with a `#`.
const FRAGMENT: u16 = 1 << 11;
/// A TE that is not `trailers`.
const CODINGS: u16 = 1 << 12;
/// A repeated pseudo-field, or one behind a regular field.
const MISPLACED: u16 = 1 << 13;
/// A value that was too long to be examined.
const LONG: u16 = 1 << 14;

impl SectionSummary {
    /// Whether any name begins with a colon (RFC 9113 §8.3).
    pub fn has_pseudo_fields(self) -> bool {
        self.marks & PSEUDO != 0
    }

    /// Whether the pseudo-fields are those of a response: `:status` and no other (RFC 9113 §8.3.2).
    pub fn is_response(self) -> bool {
        self.marks & PSEUDO == STATUS
    }

    /// Whether `:status` is that of an interim response (RFC 9110 §15.2).
    pub fn is_interim(self) -> bool {
        self.marks & INTERIM != 0
    }

    /// Whether `:path` has a fragment, which no request-target has (RFC 9113 §8.3.1).
    pub fn has_fragment(self) -> bool {
        self.marks & FRAGMENT != 0
    }

    /// Whether a pseudo-field is repeated, or behind another field (RFC 9113 §8.3).
    pub fn has_misplaced_pseudo_fields(self) -> bool {
        self.marks & MISPLACED != 0
    }

    /// Whether there is a connection-specific field: Connection, Keep-Alive, Proxy-Connection,
    /// Transfer-Encoding, Upgrade, or a TE that is not `trailers` (RFC 9113 §8.2.2).
    pub fn has_connection_fields(self) -> bool {
        self.marks & (CONNECTION | CODINGS) != 0
    }

    /// Whether a field was too long to be examined: then the other results are not certain.
    pub fn has_long_fields(self) -> bool {
        self.marks & LONG != 0
    }

    fn add(&mut self, size: usize, marks: u16) {
        self.size = self.size.saturating_add(size);
        self.fields += 1;
        self.marks = with(self.marks, marks);
    }
}

/// The marks of a section with one more field.
fn with(section: u16, field: u16) -> u16 {
    let misplaced = field & PSEUDO != 0 && section & (field & PSEUDO | REGULAR) != 0;
    section | field | if misplaced { MISPLACED } else { 0 }
}

impl BlockAccount {
    /// With a dynamic table of at most `allowed` bytes: the size that the peer was told, or
    /// [`TABLE_SIZE`](super::TABLE_SIZE). An incomplete field with more than `longest` bytes is
    /// skipped; its name must be shorter. At most that many bytes of a field are held. `longest` is
    /// raised to four times the table, so that a skipped field never fits into the table, in
    /// any coding.
    pub fn new(allowed: u16, longest: usize) -> Self {
        let (entries, section, held) = Default::default();
        let longest = longest.max(4 * usize::from(allowed));
        Self {
            entries,
            size: 0,
            most: allowed.into(),
            allowed,
            section,
            held,
            longest,
            passing: 0,
        }
    }

    /// Examines the next bytes of a block, which may end anywhere.
    ///
    /// # Errors
    /// See [`HpackError`]. The account cannot be used after one.
    pub fn see(&mut self, piece: &[u8]) -> Result<(), HpackError> {
        let passed = piece.len().min(self.passing);
        self.passing -= passed;
        let piece = &piece[passed..];
        if self.held.is_empty() {
            let seen = self.take(piece)?;
            self.held.extend_from_slice(&piece[seen..]);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(piece);
            let seen = self.take(&held)?;
            held.drain(..seen);
            // An incomplete field is rare and may be long: its memory is freed.
            self.held = if held.is_empty() { Vec::new() } else { held };
        }
        if self.held.len() > self.longest {
            self.pass_over()
        } else {
            Ok(())
        }
    }

    /// Ends a section, and begins the next.
    ///
    /// # Errors
    /// When it ends within a field.
    pub fn end(&mut self) -> Result<SectionSummary, HpackError> {
        let section = std::mem::take(&mut self.section);
        if self.held.is_empty() && self.passing == 0 {
            Ok(section)
        } else {
            Err(HpackError::Cut)
        }
    }

    /// Examines all complete fields; returns their length in bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, HpackError> {
        let mut rest = bytes;
        loop {
            rest = self.indexed(rest)?;
            let left = rest.len();
            match self.field(&mut rest) {
                Ok(()) => {}
                Err(HpackError::Cut) => return Ok(bytes.len() - left),
                Err(error) => return Err(error),
            }
        }
    }

    /// Examines the fields at the front that are indexes of one byte: most are.
    fn indexed<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], HpackError> {
        let SectionSummary {
            mut size,
            mut fields,
            mut marks,
        } = self.section;
        let mut rest = bytes;
        while let [first @ 0x80..=0xfe, behind @ ..] = rest {
            let entry = self.entry(usize::from(first & 0x7f))?;
            size = size.saturating_add(entry.size());
            fields += 1;
            marks = with(marks, entry.marks);
            rest = behind;
        }
        self.section = SectionSummary {
            size,
            fields,
            marks,
        };
        Ok(rest)
    }

    /// Examines one field; changes nothing if it is incomplete.
    fn field(&mut self, rest: &mut &[u8]) -> Result<(), HpackError> {
        let first = *rest.first().ok_or(HpackError::Cut)?;
        // §6.1: indexed.
        if first & 0x80 != 0 {
            let entry = self.entry(integer::decode(rest, 7)?)?;
            self.section.add(entry.size(), entry.marks);
            return Ok(());
        }
        // §6.3: the size of the dynamic table, only before the first field (§4.2).
        if first & 0xe0 == 0x20 {
            let wanted = integer::decode(rest, 5)?;
            if wanted > usize::from(self.allowed) || self.section.fields > 0 {
                return Err(HpackError::TableSize);
            }
            self.most = wanted;
            self.shrink(wanted);
            return Ok(());
        }
        // §6.2: a literal.
        let is_kept = first & 0x40 != 0;
        let name = LiteralName::take(rest, is_kept)?;
        let value = StringLiteral::take(rest)?;
        let (name, mut marks) = self.named(name)?;
        let length = match marks {
            PATH => {
                let (length, has_fragment) = value.measure()?;
                marks |= if has_fragment { FRAGMENT } else { 0 };
                length
            }
            STATUS => {
                marks |= if value.begins_with_one() { INTERIM } else { 0 };
                value.measure()?.0
            }
            _ if marks & TE != 0 => {
                let value = value.decode()?;
                marks |= if value.eq_ignore_ascii_case(b"trailers") {
                    0
                } else {
                    CODINGS
                };
                value.len()
            }
            _ if is_kept => value.measure()?.0,
            _ => value.most(),
        };
        self.section
            .add(name.saturating_add(length).saturating_add(OVERHEAD), marks);
        if is_kept {
            self.insert(name, length, marks);
        }
        Ok(())
    }

    /// Skips the rest of the held value.
    fn pass_over(&mut self) -> Result<(), HpackError> {
        let held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        // Only a literal is as long.
        let is_kept = held.first().is_some_and(|first| first & 0x40 != 0);
        let name = LiteralName::take(&mut rest, is_kept).map_err(|_| HpackError::TooLarge)?;
        let (name, marks) = self.named(name)?;
        let length = integer::decode(&mut rest, 7)?;
        self.passing = length.saturating_sub(rest.len());
        self.section.add(
            name.saturating_add(length * 8 / 5).saturating_add(OVERHEAD),
            marks | LONG,
        );
        if is_kept {
            // §4.4: an entry larger than the table empties it.
            self.shrink(0);
        }
        Ok(())
    }

    /// The length of a name, and its marks.
    fn named(&self, name: LiteralName<'_>) -> Result<(usize, u16), HpackError> {
        match name {
            LiteralName::Literal(name) => name.as_name(),
            LiteralName::Of(index) => self
                .entry(index)
                .map(|entry| (entry.name.into(), entry.marks & NAMES)),
        }
    }

    /// The entry at an index (§2.3.3).
    #[inline]
    fn entry(&self, index: usize) -> Result<EntrySize, HpackError> {
        let place = index.checked_sub(1).ok_or(HpackError::Index)?;
        match FIXED.get(place) {
            Some(entry) => Ok(*entry),
            None => self
                .entries
                .get(place - FIXED.len())
                .copied()
                .ok_or(HpackError::Index),
        }
    }

    /// Adds an entry at the front (§4.4).
    fn insert(&mut self, name: usize, value: usize, marks: u16) {
        let size = name.saturating_add(value).saturating_add(OVERHEAD);
        let (Some(room), Ok(name), Ok(value)) = (
            self.most.checked_sub(size),
            u16::try_from(name),
            u16::try_from(value),
        ) else {
            return self.shrink(0);
        };
        self.shrink(room);
        self.size += size;
        self.entries.push_front(EntrySize { name, value, marks });
    }

    fn shrink(&mut self, most: usize) {
        while self.size > most {
            let Some(oldest) = self.entries.pop_back() else {
                break;
            };
            self.size -= oldest.size();
        }
    }
}

impl EntrySize {
    fn size(self) -> usize {
        usize::from(self.name) + usize::from(self.value) + OVERHEAD
    }
}

impl StringLiteral<'_> {
    /// The decoded length, and the marks.
    fn as_name(self) -> Result<(usize, u16), HpackError> {
        if self.coded {
            // The code of a colon is 1011100.
            let has_colon = self.bytes.first().is_some_and(|first| first >> 1 == 0x5c);
            let length = self.measure()?.0;
            if !has_colon && !OF_CONNECTIONS.contains(&length) {
                return Ok((length, REGULAR));
            }
        }
        let name = self.decode()?;
        Ok((name.len(), names(&name)))
    }
}

/// The lengths of the names of connection-specific fields.
const OF_CONNECTIONS: [usize; 5] = [2, 7, 10, 16, 17];

/// The marks of a name.
const fn names(name: &[u8]) -> u16 {
    match name {
        b":method" => METHOD,
        b":scheme" => SCHEME,
        b":authority" => AUTHORITY,
        b":path" => PATH,
        b":protocol" => PROTOCOL,
        b":status" => STATUS,
        [b':', ..] => UNKNOWN,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            REGULAR | CONNECTION
        }
        b"te" => REGULAR | TE,
        _ => REGULAR,
    }
}

/// The sizes and marks of the static table.
static FIXED: [EntrySize; STATIC.len()] = {
    let mut fixed = [EntrySize {
        name: 0,
        value: 0,
        marks: 0,
    }; STATIC.len()];
    let mut place = 0;
    while place < fixed.len() {
        let (name, value) = STATIC[place];
        let (name, value, marks) = (
            name.len() as u16,
            value.len() as u16,
            names(name.as_bytes()),
        );
        fixed[place] = EntrySize { name, value, marks };
        place += 1;
    }
    fixed
};

#[cfg(test)]
mod tests;
