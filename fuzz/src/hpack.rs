//! HPACK: any bytes cost no more than was allowed, fields come back as they were encoded, and an
//! account of a block agrees with what it decodes to.

use lockgate_http::hpack::{
    BlockAccount, HpackDecoder, HpackEncoder, HpackError, Indexing, SectionSummary, TABLE_SIZE,
};

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

/// The first byte says how large the table is and where the second block begins, the second in what
/// pieces they come; the others are two blocks.
pub fn hpack_account(data: &[u8]) {
    let [first, step, blocks @ ..] = data else {
        return;
    };
    let allowed = u16::from(first & 0x0f) * 64;
    let mut decoder = HpackDecoder::new(allowed.into());
    let (mut account, mut in_pieces) = (
        BlockAccount::new(allowed, 1 << 16),
        BlockAccount::new(allowed, 1 << 16),
    );
    let (one, two) = blocks.split_at(blocks.len() * usize::from(first >> 4) / 16);
    for block in [one, two] {
        let section = account.see(block).and_then(|()| account.end());
        let pieces = block
            .chunks(1 + usize::from(*step))
            .try_for_each(|piece| in_pieces.see(piece));
        assert_eq!(pieces.and_then(|()| in_pieces.end()), section);
        let (mut fields, mut size) = (Vec::new(), 0);
        let decoded = decoder.decode(block, usize::MAX, |name, value| {
            size += name.len() + value.len() + 32;
            fields.push((name.to_vec(), value.to_vec()));
        });
        let section = match (decoded, section) {
            (Ok(()), Ok(section)) => section,
            // A value that does not go into the table is not looked at.
            (Err(HpackError::Huffman), Ok(_)) | (Err(_), Err(_)) => return,
            (decoded, section) => panic!("{decoded:?}, and {section:?} by the account"),
        };
        assert_eq!(section.fields, fields.len());
        assert!(
            (size..=size * 6).contains(&section.size),
            "{size}: {section:?}"
        );
        assert_eq!(marks(section), expected(&fields));
    }
}

/// Pseudo-fields, those of an answer, an interim one, a fragment, pseudo-fields where they must not
/// be, fields of connections.
fn marks(section: SectionSummary) -> [bool; 6] {
    [
        section.has_pseudo_fields(),
        section.is_response(),
        section.is_interim(),
        section.has_fragment(),
        section.has_misplaced_pseudo_fields(),
        section.has_connection_fields(),
    ]
}

/// The same of decoded fields.
fn expected(fields: &[Field]) -> [bool; 6] {
    let is_pseudo = |name: &[u8]| name.first() == Some(&b':');
    let pseudo = || fields.iter().filter(|(name, _)| is_pseudo(name));
    // Those that have no meaning are one to the account, which is all the same: each is malformed.
    let known: [&[u8]; 6] = [
        b":method",
        b":scheme",
        b":authority",
        b":path",
        b":protocol",
        b":status",
    ];
    let alike = |one: &[u8], other: &[u8]| {
        is_pseudo(one)
            && is_pseudo(other)
            && (one == other || !known.contains(&one) && !known.contains(&other))
    };
    let misplaced = fields.iter().enumerate().any(|(at, (name, _))| {
        is_pseudo(name)
            && fields[..at]
                .iter()
                .any(|(before, _)| !is_pseudo(before) || alike(before, name))
    });
    let of_connections: [&[u8]; 5] = [
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"transfer-encoding",
        b"upgrade",
    ];
    let any = |of: &[u8], is: fn(&[u8]) -> bool| {
        fields.iter().any(|(name, value)| name == of && is(value))
    };
    [
        pseudo().count() > 0,
        pseudo().count() > 0 && pseudo().all(|(name, _)| name == b":status"),
        any(b":status", |value| value.first() == Some(&b'1')),
        any(b":path", |value| value.contains(&b'#')),
        misplaced,
        fields
            .iter()
            .any(|(name, _)| of_connections.contains(&&name[..]))
            || any(b"te", |value| !value.eq_ignore_ascii_case(b"trailers")),
    ]
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
