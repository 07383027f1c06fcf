//! Fields to blocks, for who says much the same in each: what was said once goes into the dynamic
//! table and stays there.

use super::table::{STATIC, Table};
use super::{TABLE_SIZE, huffman, integer};

/// What makes the blocks of one connection, in the order in which they leave.
///
/// A field goes into the table while there is room, and none ever has to go for another: after the
/// first requests nothing changes any more, and a block that was made once may be sent again as
/// long as [`changes`](Self::changes) says the same.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    changes: u64,
    /// Sizes that the peer must be told of before the next field (RFC 7541 §4.2).
    updates: Vec<usize>,
}

impl Encoder {
    /// With a table of the size that holds until the peer has said another.
    pub fn new() -> Self {
        Self {
            table: Table::new(TABLE_SIZE),
            changes: 0,
            updates: Vec::new(),
        }
    }

    /// How often the table has changed: a block from before means something else, or nothing.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The peer allows a table of so many bytes (SETTINGS_HEADER_TABLE_SIZE). One that is larger
    /// than the usual is not used.
    pub fn resize(&mut self, allowed: usize) {
        let most = allowed.min(TABLE_SIZE);
        if most == self.table.most() {
            return;
        }
        // Emptied, so that what is in it need not be known to have stayed.
        self.table.resize(0);
        self.table.resize(most);
        self.updates = if most == 0 { vec![0] } else { vec![0, most] };
        self.changes += 1;
    }

    /// Begins a block.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        for size in self.updates.drain(..) {
            integer::encode(out, 0x20, 5, size);
        }
    }

    /// Writes a field; its name has no capital letters.
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

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

/// A string (RFC 7541 §5.2), coded where that is shorter.
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
