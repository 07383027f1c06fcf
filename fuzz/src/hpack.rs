//! HPACK: any bytes cost no more than was allowed, and fields come back as they were encoded.

use lockgate_http::hpack::{HpackDecoder, HpackEncoder, HpackError, Indexing, TABLE_SIZE};

/// All fields of a block together, as RFC 9113 §6.5.2 counts them.
const MOST: usize = 16 * 1024;

type Field = (Vec<u8>, Vec<u8>);

/// The first byte says how large the table is and where the second block begins; the others are two
/// blocks.
pub fn hpack(data: &[u8]) {
    let Some((first, blocks)) = data.split_first() else {
        return;
    };
    let mut decoder = HpackDecoder::new(usize::from(first & 0x0f) * 64);
    let (one, two) = blocks.split_at(blocks.len() * usize::from(first >> 4) / 16);
    let (mut encoder, mut own) = (HpackEncoder::new(), HpackDecoder::new(TABLE_SIZE));
    for (block, allowed) in [(one, TABLE_SIZE), (two, usize::from(*first) * 16)] {
        let Ok(fields) = decode(&mut decoder, block) else {
            return;
        };
        returned(&mut encoder, &mut own, &fields);
        // Said twice, nothing changes any more.
        let changes = encoder.changes();
        returned(&mut encoder, &mut own, &fields);
        assert_eq!(encoder.changes(), changes);
        encoder.resize(allowed);
    }
}

fn decode(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Vec<Field>, HpackError> {
    let (mut fields, mut size) = (Vec::new(), 0);
    decoder.decode(block, MOST, |name, value| {
        size += name.len() + value.len() + 32;
        assert!(size <= MOST);
        fields.push((name.to_vec(), value.to_vec()));
    })?;
    Ok(fields)
}

fn returned(encoder: &mut HpackEncoder, decoder: &mut HpackDecoder, fields: &[Field]) {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    for (name, value) in fields {
        // The same each time for one field.
        let indexing = match name.len() + value.len() {
            length if length % 5 == 3 => Indexing::Plain,
            length if length % 5 == 4 => Indexing::Never,
            _ => Indexing::Keep,
        };
        encoder.encode(name, value, indexing, &mut block);
    }
    assert_eq!(decode(decoder, &block).as_deref(), Ok(fields));
}
