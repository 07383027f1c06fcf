//! An encoder of field blocks, for senders that repeat themselves: a field stays in the dynamic
//! table from its first use on.

use super::table::{OVERHEAD, STATIC, STEP};
use super::{TABLE_SIZE, huffman, integer};

/// The use of the dynamic table for one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexing {
    /// Added to the table while there is room: for a value that comes again.
    Keep,
    /// Not added (RFC 7541 §6.2.2): for a value that soon changes and would take the room of others.
    Plain,
    /// Not added, by intermediaries neither (RFC 7541 §6.2.3): for a secret, which could otherwise
    /// be guessed by the size of blocks (§7.1).
    Never,
}

/// Encodes the blocks of one connection, in the order in which they are sent.
///
/// A field is added to the table while there is room, and no entry is ever evicted: after the first
/// requests the table no longer changes, and a block may be sent again as long as
/// [`changes`](Self::changes) stays the same. Entries are found by their names, without a search of
/// the table. Memory: at most 6 KB, and none before the first entry.
#[derive(Debug)]
pub struct HpackEncoder {
    /// The oldest first.
    entries: Vec<KeptField>,
    /// Their names and values.
    text: Vec<u8>,
    /// The number of the newest entry of each group of names, from 1 on; 0 without one.
    newest: Vec<u8>,
    /// The bytes of the entries as RFC 7541 §4.1 counts them, and their limit.
    size: usize,
    most: usize,
    changes: u64,
    /// Table sizes to announce before the next field (RFC 7541 §4.2).
    updates: Vec<usize>,
}

/// An entry: the beginning of its name in the text, and the lengths of the name and the value behind
/// it. A table of 4,096 bytes has at most 128 entries.
#[derive(Debug, Clone, Copy)]
struct KeptField {
    start: u16,
    name: u16,
    value: u16,
    /// The number of the next older entry of the same group, or 0.
    older: u8,
    /// The index of its name in the static table, or 0: equal names need no comparison then.
    fixed: u8,
}

/// What the tables have of a field, as indexes (RFC 7541 §2.3.3).
#[derive(Debug, Clone, Copy, Default)]
struct TableMatch {
    field: Option<usize>,
    name: Option<usize>,
}

/// Groups of names in the dynamic table; a power of two.
const GROUPS: usize = 64;

impl HpackEncoder {
    /// An encoder with the default table size, which holds until the peer sets another.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            text: Vec::new(),
            newest: Vec::new(),
            size: 0,
            most: TABLE_SIZE,
            changes: 0,
            updates: Vec::new(),
        }
    }

    /// The memory that it holds in bytes, for tests of its bounds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<KeptField>();
        let updates = self.updates.capacity() * size_of::<usize>();
        entries + self.text.capacity() + self.newest.capacity() + updates
    }

    /// The number of changes of the table: after a change, earlier blocks are invalid.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Sets the table size that the peer allows (SETTINGS_HEADER_TABLE_SIZE). A size above the
    /// default is not used.
    pub fn resize(&mut self, allowed: usize) {
        let most = allowed.min(TABLE_SIZE);
        if most == self.most {
            return;
        }
        // Emptied, so that it need not be known which entries would stay.
        self.entries.clear();
        self.text.clear();
        self.newest.clear();
        (self.size, self.most) = (0, most);
        self.updates = if most == 0 { vec![0] } else { vec![0, most] };
        self.changes += 1;
    }

    /// Begins a block: announces changed table sizes.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.updates.is_empty() {
            return;
        }
        for size in std::mem::take(&mut self.updates) {
            integer::encode(out, 0x20, 5, size);
        }
    }

    /// Writes a field; its name is in lower case.
    pub fn encode(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let hash = hash(name);
        let mut found = fixed(name, value, hash);
        // Of a field that is not added, only the name can be there.
        if found.field.is_none() && (indexing == Indexing::Keep || found.name.is_none()) {
            let kept = self.find(name, value, hash, found.name);
            found = TableMatch {
                field: kept.field,
                name: found.name.or(kept.name),
            };
        }
        if let Some(index) = found.field.filter(|_| indexing != Indexing::Never) {
            integer::encode(out, 0x80, 7, index);
            return;
        }
        let size = name.len() + value.len() + OVERHEAD;
        let is_kept = indexing == Indexing::Keep && self.size + size <= self.most;
        let (marks, bits) = match indexing {
            _ if is_kept => (0x40, 6),
            Indexing::Keep | Indexing::Plain => (0, 4),
            Indexing::Never => (0x10, 4),
        };
        integer::encode(out, marks, bits, found.name.unwrap_or(0));
        if found.name.is_none() {
            string(name, out);
        }
        string(value, out);
        if is_kept {
            let fixed = found.name.filter(|index| *index <= STATIC.len());
            self.insert(name, value, hash, fixed);
        }
    }

    /// What the dynamic table has of a field; `fixed` is the index of its name in the static one.
    fn find(&self, name: &[u8], value: &[u8], hash: u8, fixed: Option<usize>) -> TableMatch {
        let mut found = TableMatch::default();
        let mut number = self.newest.get(group(hash)).copied().unwrap_or(0);
        while let Some(place) = usize::from(number).checked_sub(1) {
            let entry = self.entries[place];
            let (own_name, rest) =
                self.text[usize::from(entry.start)..].split_at(usize::from(entry.name));
            let is_same = match fixed {
                Some(index) => usize::from(entry.fixed) == index,
                None => own_name == name,
            };
            if is_same {
                // The newest has the lowest index.
                let index = STATIC.len() + self.entries.len() - place;
                found.name = found.name.or(Some(index));
                if &rest[..usize::from(entry.value)] == value {
                    found.field = Some(index);
                    return found;
                }
            }
            number = entry.older;
        }
        found
    }

    /// Adds an entry, for which there is room.
    fn insert(&mut self, name: &[u8], value: &[u8], hash: u8, fixed: Option<usize>) {
        if self.newest.is_empty() {
            self.newest.resize(GROUPS, 0);
        }
        let newest = &mut self.newest[group(hash)];
        // No number here exceeds the size of the table.
        self.entries.push(KeptField {
            start: self.text.len() as u16,
            name: name.len() as u16,
            value: value.len() as u16,
            older: *newest,
            fixed: fixed.unwrap_or(0) as u8,
        });
        *newest = self.entries.len() as u8;
        let length = name.len() + value.len();
        if self.text.capacity() - self.text.len() < length {
            self.text.reserve_exact(length.max(STEP));
        }
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.size += name.len() + value.len() + OVERHEAD;
        self.changes += 1;
    }
}

impl Default for HpackEncoder {
    fn default() -> Self {
        Self::new()
    }
}

/// A number for a name that differs among the names of the static table: the factors were searched
/// for.
const fn hash(name: &[u8]) -> u8 {
    if name.is_empty() {
        return 0;
    }
    let (first, middle, last) = (name[0], name[name.len() / 2], name[name.len() - 1]);
    (name.len() as u8)
        .wrapping_mul(119)
        .wrapping_add(first.wrapping_mul(52))
        .wrapping_add(last.wrapping_mul(48))
        .wrapping_add(middle.wrapping_mul(120))
}

fn group(hash: u8) -> usize {
    usize::from(hash) & (GROUPS - 1)
}

/// The index of the first entry of the static table with a name, by the name's hash; 0 without one.
static FIRST_OF_NAME: [u8; 256] = {
    let mut first = [0; 256];
    // Backwards, so that the first one stays.
    let mut index = STATIC.len();
    while index > 0 {
        first[hash(STATIC[index - 1].0.as_bytes()) as usize] = index as u8;
        index -= 1;
    }
    first
};

/// What the static table has of a field. Entries with the same name are next to each other.
fn fixed(name: &[u8], value: &[u8], hash: u8) -> TableMatch {
    let mut found = TableMatch::default();
    let first = usize::from(FIRST_OF_NAME[usize::from(hash)]);
    let Some(same) = first.checked_sub(1).map(|place| &STATIC[place..]) else {
        return found;
    };
    for (index, field) in (first..).zip(same) {
        if field.0.as_bytes() != name {
            break;
        }
        found.name = Some(first);
        if field.1.as_bytes() == value {
            found.field = Some(index);
            break;
        }
    }
    found
}

/// Writes a string (RFC 7541 §5.2), Huffman-coded if that is shorter.
fn string(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(text);
    // With the number of its length.
    out.reserve(text.len() + 5);
    if coded < text.len() {
        integer::encode(out, 0x80, 7, coded);
        huffman::encode(text, out);
    } else {
        integer::encode(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_static_table_field_is_found_by_its_name() {
        for (place, (name, value)) in STATIC.iter().enumerate() {
            let first = STATIC.iter().position(|(other, _)| other == name);
            let found = fixed(name.as_bytes(), value.as_bytes(), hash(name.as_bytes()));
            assert_eq!(found.field, Some(place + 1), "{name}");
            assert_eq!(found.name, first.map(|first| first + 1), "{name}");
        }
        for other in ["", "x", "content-lengti", ":statu"] {
            let found = fixed(other.as_bytes(), b"", hash(other.as_bytes()));
            assert_eq!((found.field, found.name), (None, None), "{other}");
        }
    }
}
