//! An encoder of field blocks, for senders that repeat themselves: a field stays in the dynamic
//! table from its first use on.

use super::table::{DynamicTable, STATIC};
use super::{TABLE_SIZE, huffman, integer};

/// Encodes the blocks of one connection, in the order in which they are sent.
///
/// A field is added to the table while there is room, and no entry is ever evicted: after the first
/// requests the table no longer changes, and a block may be sent again as long as
/// [`changes`](Self::changes) stays the same.
#[derive(Debug)]
pub struct HpackEncoder {
    table: DynamicTable,
    changes: u64,
    /// Table sizes to announce before the next field (RFC 7541 §4.2).
    updates: Vec<usize>,
}

impl HpackEncoder {
    /// An encoder with the default table size, which holds until the peer sets another.
    pub fn new() -> Self {
        Self {
            table: DynamicTable::new(TABLE_SIZE),
            changes: 0,
            updates: Vec::new(),
        }
    }

    /// The number of changes of the table: after a change, earlier blocks are invalid.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Sets the table size that the peer allows (SETTINGS_HEADER_TABLE_SIZE). A size above the
    /// default is not used.
    pub fn resize(&mut self, allowed: usize) {
        let most = allowed.min(TABLE_SIZE);
        if most == self.table.most() {
            return;
        }
        // Emptied, so that it need not be known which entries would stay.
        self.table.resize(0);
        self.table.resize(most);
        self.updates = if most == 0 { vec![0] } else { vec![0, most] };
        self.changes += 1;
    }

    /// Begins a block: announces changed table sizes.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        for size in self.updates.drain(..) {
            integer::encode(out, 0x20, 5, size);
        }
    }

    /// Writes a field; its name is in lower case.
    pub fn encode(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let fixed = STATIC
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let kept = (0..self.table.len()).filter_map(|place| self.table.get(place));
        let mut named = None;
        for (index, field) in (1..).zip(fixed.chain(kept)) {
            if field == (name, value) {
                integer::encode(out, 0x80, 7, index);
                return;
            }
            if named.is_none() && field.0 == name {
                named = Some(index);
            }
        }
        let is_kept = self.table.has_room(name, value);
        let (marks, bits) = if is_kept { (0x40, 6) } else { (0, 4) };
        integer::encode(out, marks, bits, named.unwrap_or(0));
        if named.is_none() {
            string(name, out);
        }
        string(value, out);
        if is_kept {
            self.table.insert(name, value);
            self.changes += 1;
        }
    }
}

impl Default for HpackEncoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes a string (RFC 7541 §5.2), Huffman-coded if that is shorter.
fn string(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::encode(out, 0x80, 7, coded);
        huffman::encode(text, out);
    } else {
        integer::encode(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}
