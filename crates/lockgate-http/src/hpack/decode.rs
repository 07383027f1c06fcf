//! A decoder of field blocks.

use std::mem;

use super::table::{DynamicTable, LARGEST_TABLE, OVERHEAD, STATIC};
use super::{HpackError, huffman, integer};

/// Decodes the blocks of one connection, in the order of arrival.
#[derive(Debug)]
pub struct HpackDecoder {
    table: DynamicTable,
    /// The limit of the dynamic table: the SETTINGS_HEADER_TABLE_SIZE that was sent.
    allowed: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl HpackDecoder {
    /// With a dynamic table of at most `allowed` bytes, as RFC 7541 §4.1 counts them: the size that
    /// the peer was told, or [`TABLE_SIZE`](super::TABLE_SIZE); 16 KB is the most.
    pub fn new(allowed: usize) -> Self {
        let allowed = allowed.min(LARGEST_TABLE);
        Self {
            table: DynamicTable::new(allowed),
            allowed,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// The memory that it holds in bytes, for tests of its bounds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.table.held() + self.name.capacity() + self.value.capacity()
    }

    /// Exchanges the buffers for decoded strings, which are of use within a call only.
    pub fn swap_buffers(&mut self, buffers: &mut [Vec<u8>; 2]) {
        let [name, value] = buffers;
        mem::swap(&mut self.name, name);
        mem::swap(&mut self.value, value);
    }

    /// Decodes a whole block. `take` gets each name and value unchecked. All fields together may
    /// have `most` bytes, counted as in RFC 9113 §6.5.2: 32 for each field beside its own.
    ///
    /// # Errors
    /// See [`HpackError`]. The decoder cannot be used after one.
    pub fn decode(
        &mut self,
        block: &[u8],
        most: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let Self {
            table,
            allowed,
            name: name_buffer,
            value: value_buffer,
        } = self;
        let mut rest = block;
        let (mut size, mut is_first) = (0, true);
        let mut count = |name: &[u8], value: &[u8]| {
            size += name.len() + value.len() + OVERHEAD;
            if size > most {
                Err(HpackError::TooLarge)
            } else {
                Ok(())
            }
        };
        while let Some(first) = rest.first().copied() {
            // §6.1: indexed.
            if first & 0x80 != 0 {
                let (name, value) = field(table, integer::decode(&mut rest, 7)?)?;
                count(name, value)?;
                take(name, value);
                is_first = false;
                continue;
            }
            // §6.3: the size of the dynamic table, only before the first field (§4.2).
            if first & 0xe0 == 0x20 {
                let wanted = integer::decode(&mut rest, 5)?;
                if wanted > *allowed || !is_first {
                    return Err(HpackError::TableSize);
                }
                table.resize(wanted);
                continue;
            }
            // §6.2: a literal that is added to the table (§6.2.1), is not (§6.2.2) or never must be
            // (§6.2.3).
            let is_kept = first & 0x40 != 0;
            let name = match integer::decode(&mut rest, if is_kept { 6 } else { 4 })? {
                0 => string(&mut rest, &mut *name_buffer)?,
                index => match STATIC.get(index - 1) {
                    Some((name, _)) => name.as_bytes(),
                    None => {
                        // The insertion may evict the name's entry.
                        name_buffer.clear();
                        name_buffer.extend_from_slice(field(table, index)?.0);
                        &*name_buffer
                    }
                },
            };
            let value = string(&mut rest, &mut *value_buffer)?;
            count(name, value)?;
            take(name, value);
            if is_kept {
                table.insert(name, value);
            }
            is_first = false;
        }
        Ok(())
    }
}

/// The field at an index (§2.3.3).
fn field(table: &DynamicTable, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
    let place = index.checked_sub(1).ok_or(HpackError::Index)?;
    match STATIC.get(place) {
        Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
        None => table.get(place - STATIC.len()).ok_or(HpackError::Index),
    }
}

/// A string (§5.2), from the block or decoded into `buffer`.
fn string<'a, 'b: 'a>(
    rest: &mut &'b [u8],
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], HpackError> {
    let is_coded = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer::decode(rest, 7)?;
    let (text, behind) = rest.split_at_checked(length).ok_or(HpackError::Cut)?;
    *rest = behind;
    if !is_coded {
        return Ok(text);
    }
    let length = huffman::decode_to_front(text, buffer)?;
    Ok(&buffer[..length])
}
