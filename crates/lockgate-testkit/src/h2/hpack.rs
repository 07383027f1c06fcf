//! Field sections in bytes (RFC 7541): an encoder that writes exactly the given forms, and a strict
//! decoder.
//!
//! Not the code under test, so that a mistake in one is not hidden by the same mistake in the
//! other.

use std::collections::VecDeque;

use super::huffman;

/// Name and value.
pub type Field = (Vec<u8>, Vec<u8>);

/// RFC 7541 appendix A.
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""),
    ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""),
    ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""),
    ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""),
    ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""), ("retry-after", ""),
    ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""), ("transfer-encoding", ""),
    ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

/// A number with `bits` bits left in its first byte; the other bits of that byte are `first`
/// (§5.1).
pub fn number(first: u8, bits: u8, value: usize) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if value < most {
        return vec![first | value as u8];
    }
    let mut bytes = vec![first | most as u8];
    let mut left = value - most;
    while left >= 128 {
        bytes.push(left as u8 | 128);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

/// A string as it is (§5.2).
pub fn string(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&number(0, 7, text.len()), text].concat()
}

/// A field that is never indexed (§6.2.3), with any name and value.
pub fn never_indexed(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    [vec![0x10], string(name), string(value)].concat()
}

/// A field that is added to the peer's table (§6.2.1); it is then [`indexed`] 62.
pub fn remembered(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    [vec![0x40], string(name), string(value)].concat()
}

/// A field by its index in the tables (§6.1).
pub fn indexed(at: usize) -> Vec<u8> {
    number(0x80, 7, at)
}

/// A new size of the table (§6.3).
pub fn table_size(size: usize) -> Vec<u8> {
    number(0x20, 5, size)
}

/// A field section, all of it [`never_indexed`].
pub fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    fields
        .iter()
        .flat_map(|(name, value)| never_indexed(name, value))
        .collect()
}

/// Decodes field sections, one after the other.
#[derive(Debug)]
pub struct Decoder {
    table: VecDeque<Field>,
    size: usize,
    limit: usize,
    /// The table size that our settings allow the peer at most.
    allowed: usize,
}

impl Decoder {
    /// A decoder with this table size in its settings; without any it is 4,096.
    pub fn new(allowed: usize) -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            limit: allowed,
            allowed,
        }
    }

    /// The fields of a section.
    ///
    /// # Errors
    /// The fault.
    pub fn decode(&mut self, section: &[u8]) -> Result<Vec<Field>, &'static str> {
        let mut fields = Vec::new();
        let mut rest = section;
        while let Some(first) = rest.first() {
            match first.leading_zeros() {
                0 => fields.push(self.at(take_number(&mut rest, 7)?)?),
                1 => {
                    let field = self.literal(&mut rest, 6)?;
                    self.remember(field.clone());
                    fields.push(field);
                }
                2 => {
                    let limit = take_number(&mut rest, 5)?;
                    if limit > self.allowed || !fields.is_empty() {
                        return Err("a table size that is too large, or too late");
                    }
                    self.limit = limit;
                    self.shrink();
                }
                _ => fields.push(self.literal(&mut rest, 4)?),
            }
        }
        Ok(fields)
    }

    fn at(&self, index: usize) -> Result<Field, &'static str> {
        let index = index.checked_sub(1).ok_or("index 0")?;
        match STATIC.get(index) {
            Some((name, value)) => Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec())),
            None => self
                .table
                .get(index - STATIC.len())
                .cloned()
                .ok_or("an index that no table has"),
        }
    }

    fn literal(&self, rest: &mut &[u8], bits: u8) -> Result<Field, &'static str> {
        let name = match take_number(rest, bits)? {
            0 => take_string(rest)?,
            index => self.at(index)?.0,
        };
        Ok((name, take_string(rest)?))
    }

    fn remember(&mut self, field: Field) {
        self.size += cost(&field);
        self.table.push_front(field);
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.size > self.limit {
            let oldest = self.table.pop_back().expect("an empty table has size 0");
            self.size -= cost(&oldest);
        }
    }
}

/// The size of a field in a table and in a limit of field sections (§4.1).
fn cost((name, value): &Field) -> usize {
    name.len() + value.len() + 32
}

fn take_number(rest: &mut &[u8], bits: u8) -> Result<usize, &'static str> {
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(take(rest, 1)?[0]) & most;
    if value < most {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let byte = take(rest, 1)?[0];
        value += usize::from(byte & 127) << shift;
        if byte < 128 {
            return Ok(value);
        }
    }
    Err("a number that does not end")
}

fn take_string(rest: &mut &[u8]) -> Result<Vec<u8>, &'static str> {
    let coded = rest.first().is_some_and(|first| first & 0x80 != 0);
    let len = take_number(rest, 7)?;
    let bytes = take(rest, len)?;
    if coded {
        huffman::decode(bytes)
    } else {
        Ok(bytes.to_vec())
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], &'static str> {
    let (taken, left) = rest
        .split_at_checked(len)
        .ok_or("the section ends too early")?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fields: Vec<Field>) -> Vec<String> {
        let line = |(name, value): Field| {
            format!(
                "{}: {}",
                String::from_utf8(name).unwrap(),
                String::from_utf8(value).unwrap()
            )
        };
        fields.into_iter().map(line).collect()
    }

    /// RFC 7541 C.6.1 to C.6.3: a table of 256 bytes that forgets, Huffman strings, indexed names.
    #[test]
    #[rustfmt::skip]
    fn the_hpack_response_examples_of_the_rfc_are_decoded() {
        let mut decoder = Decoder::new(256);
        let first = [
            0x48, 0x82, 0x64, 0x02, 0x58, 0x85, 0xae, 0xc3, 0x77, 0x1a, 0x4b, 0x61, 0x96, 0xd0, 0x7a, 0xbe, 0x94, 0x10,
            0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff, 0x6e,
            0x91, 0x9d, 0x29, 0xad, 0x17, 0x18, 0x63, 0xc7, 0x8f, 0x0b, 0x97, 0xc8, 0xe9, 0xae, 0x82, 0xae, 0x43, 0xd3,
        ];
        let expected = [
            "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT", "location: https://www.example.com",
        ];
        let decoded = text(decoder.decode(&first).unwrap());
        assert_eq!(decoded[0], ":status: 302");
        assert_eq!(decoded[1..], expected);
        // The new status pushes the old one out.
        let second = [0x48, 0x83, 0x64, 0x0e, 0xff, 0xc1, 0xc0, 0xbf];
        let decoded = text(decoder.decode(&second).unwrap());
        assert_eq!(decoded[0], ":status: 307");
        assert_eq!(decoded[1..], expected);
        assert_eq!(decoder.decode(&indexed(66)), Err("an index that no table has"));
    }

    #[test]
    fn encoded_hpack_fields_are_decoded_again() {
        let long = "x".repeat(100_000);
        let fields = [
            (":method", "GET"),
            ("Odd Name\r\n", "\0"),
            ("x", long.as_str()),
        ];
        let mut decoder = Decoder::new(4096);
        let mut bytes = section(&fields);
        bytes.extend(remembered("a", "b"));
        bytes.extend(indexed(62));
        let decoded = text(decoder.decode(&bytes).unwrap());
        let expected: Vec<_> = fields
            .iter()
            .chain(&[("a", "b"); 2])
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(decoded, expected);
    }
}
