//! The static and the dynamic table of fields (RFC 7541 §2.3).

use std::collections::VecDeque;

/// The largest table: twice its bytes are a number of 16 bits.
pub(super) const LARGEST_TABLE: usize = 16 * 1024;
/// The bytes that an entry counts beside its own (RFC 7541 §4.1).
pub(super) const OVERHEAD: usize = 32;

/// The text that a buffer grows by at least: an idle connection is to hold no more than it needs.
pub(super) const STEP: usize = 256;

/// Names and values of the dynamic table, in one buffer of at most twice its size and
/// [`STEP`].
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// The newest first.
    entries: VecDeque<TableEntry>,
    text: Vec<u8>,
    size: usize,
    most: usize,
}

/// The beginning of a name in the text, and the lengths of the name and the value behind it.
#[derive(Debug, Clone, Copy)]
struct TableEntry {
    start: u16,
    name: u16,
    value: u16,
}

impl TableEntry {
    fn size(self) -> usize {
        usize::from(self.name) + usize::from(self.value) + OVERHEAD
    }
}

impl DynamicTable {
    /// Of at most `most` bytes, which are no more than [`LARGEST_TABLE`].
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            text: Vec::new(),
            size: 0,
            most,
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }

    /// An entry; 0 is the newest.
    pub(super) fn get(&self, place: usize) -> Option<(&[u8], &[u8])> {
        let TableEntry { start, name, value } = *self.entries.get(place)?;
        let (name, rest) = self.text[usize::from(start)..].split_at(usize::from(name));
        Some((name, &rest[..usize::from(value)]))
    }

    /// Adds a field at the front; evicts the oldest as needed. A field larger than the table
    /// empties it (§4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + OVERHEAD;
        if size > self.most {
            self.shrink(0);
            return;
        }
        self.shrink(self.most - size);
        // Evicted text is removed when it is half of the buffer.
        let gone = self
            .entries
            .back()
            .map_or(self.text.len(), |oldest| usize::from(oldest.start));
        if gone > self.size.max(STEP) {
            self.text.drain(..gone);
            for entry in &mut self.entries {
                entry.start -= gone as u16;
            }
        }
        let length = name.len() + value.len();
        if self.text.capacity() - self.text.len() < length {
            self.text.reserve_exact(length.max(STEP));
        }
        // No number here exceeds twice the size of the table.
        let entry = TableEntry {
            start: self.text.len() as u16,
            name: name.len() as u16,
            value: value.len() as u16,
        };
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.size += size;
        self.entries.push_front(entry);
    }

    /// Changes the limit of the table's size (§4.3).
    pub(super) fn resize(&mut self, most: usize) {
        self.most = most;
        self.shrink(most);
    }

    fn shrink(&mut self, most: usize) {
        while self.size > most {
            let Some(oldest) = self.entries.pop_back() else {
                break;
            };
            self.size -= oldest.size();
        }
        if self.entries.is_empty() {
            self.text.clear();
        }
    }

    /// Its memory in bytes, for tests of its bounds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<TableEntry>()
    }
}

/// RFC 7541, Appendix A; the first has index 1.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicted_dynamic_table_entries_free_memory_for_reuse() {
        let mut table = DynamicTable::new(200);
        for round in 0..1000_u32 {
            let value = format!("{round:010}");
            table.insert(b"name-name", value.as_bytes());
            assert!(
                table.size <= 200 && table.text.len() <= 200 + STEP,
                "{round}: {}",
                table.text.len()
            );
            assert_eq!(table.len(), 3.min(round as usize + 1));
            for place in 0..table.len() {
                let expected = format!("{:010}", round - place as u32);
                assert_eq!(
                    table.get(place),
                    Some((&b"name-name"[..], expected.as_bytes()))
                );
            }
            assert_eq!(table.get(table.len()), None);
        }
    }

    #[test]
    fn an_entry_larger_than_the_dynamic_table_empties_it() {
        let mut table = DynamicTable::new(100);
        table.insert(b"a", b"b");
        table.insert(b"a", &[b'x'; 100]);
        assert_eq!((table.len(), table.size, table.text.len()), (0, 0, 0));
        table.insert(b"a", &[b'x'; 67]);
        assert_eq!((table.len(), table.size), (1, 100));
        table.resize(99);
        assert_eq!((table.len(), table.size), (0, 0));
    }
}
