//! The Date field as it was coded last: for a second it is the same in all responses of a thread.

use crate::hpack::{HpackEncoder, Indexing};

/// A Date and its field. Since neither is in the dynamic table, the bytes mean the same on each
/// connection.
#[derive(Debug, Default)]
pub(super) struct CodedDate {
    value: Vec<u8>,
    field: Vec<u8>,
}

impl CodedDate {
    /// Writes a Date.
    pub(super) fn write(&mut self, value: &[u8], encoder: &mut HpackEncoder, out: &mut Vec<u8>) {
        if self.value != value || self.field.is_empty() {
            let start = out.len();
            // The name is in the static table.
            encoder.encode(b"date", value, Indexing::Plain, out);
            self.value.clear();
            self.value.extend_from_slice(value);
            self.field.clear();
            self.field.extend_from_slice(&out[start..]);
        } else {
            out.extend_from_slice(&self.field);
        }
    }

    /// Its memory in bytes, for tests of its bounds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.value.capacity() + self.field.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::{HpackDecoder, TABLE_SIZE};

    /// RFC 7541 §6.2.2, with the name of Appendix A: on any connection, whatever its table has.
    #[test]
    fn a_coded_date_means_the_same_on_each_connection() {
        let mut date = CodedDate::default();
        for (value, other) in [
            ("Sun, 29 Nov 2026 00:00:00 GMT", "date"),
            ("Sun, 29 Nov 2026 00:00:00 GMT", "x"),
            ("Sun, 29 Nov 2026 00:00:01 GMT", "y"),
            ("", "z"),
            ("", "z"),
        ] {
            let (mut encoder, mut decoder) = (HpackEncoder::new(), HpackDecoder::new(TABLE_SIZE));
            let mut block = Vec::new();
            encoder.encode(other.as_bytes(), b"kept", Indexing::Keep, &mut block);
            date.write(value.as_bytes(), &mut encoder, &mut block);
            encoder.encode(other.as_bytes(), b"kept", Indexing::Keep, &mut block);
            let mut fields = Vec::new();
            decoder
                .decode(&block, 1 << 16, |name, value| {
                    fields.push((name.to_vec(), value.to_vec()));
                })
                .unwrap();
            let kept = (other.as_bytes().to_vec(), b"kept".to_vec());
            let coded = (b"date".to_vec(), value.as_bytes().to_vec());
            assert_eq!(fields, [kept.clone(), coded, kept]);
        }
    }
}
