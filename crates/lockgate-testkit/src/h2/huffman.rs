//! A decoder of the Huffman code of field sections (RFC 7541 appendix B).
//!
//! The code is canonical, so that the lengths define it.

/// Bits of the code of each byte; the last is that of the end of the string, which must not occur.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const END: usize = 256;

/// The decoded bytes.
///
/// # Errors
/// Those of RFC 7541 §5.2: a coded end, padding of eight bits or more, or padding that is not all
/// ones.
pub(super) fn decode(coded: &[u8]) -> Result<Vec<u8>, &'static str> {
    // Codes of each length are consecutive numbers, in the order of their bytes.
    let mut symbols: Vec<usize> = (0..LENGTHS.len()).collect();
    symbols.sort_by_key(|symbol| (LENGTHS[*symbol], *symbol));
    let mut decoded = Vec::new();
    let (mut code, mut length) = (0_u32, 0_u8);
    // The first code of the current length, and the index of its symbol.
    let (mut first, mut place) = (0_u32, 0_usize);
    for bit in coded
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| u32::from(byte >> at & 1)))
    {
        code = code << 1 | bit;
        length += 1;
        first <<= 1;
        let count = symbols[place..]
            .iter()
            .take_while(|symbol| LENGTHS[**symbol] == length)
            .count();
        let offset = code.wrapping_sub(first) as usize;
        if offset < count {
            let symbol = symbols[place + offset];
            if symbol == END {
                return Err("the end of the string is coded");
            }
            decoded.push(symbol as u8);
            (code, length, first, place) = (0, 0, 0, 0);
        } else {
            first += count as u32;
            place += count;
        }
    }
    let padding = (1_u32 << length) - 1;
    if length > 7 || code != padding {
        Err("this is no padding")
    } else {
        Ok(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    /// RFC 7541 C.4.1, C.6.1.
    #[test]
    fn the_huffman_examples_of_the_rfc_are_decoded() {
        let coded = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decode(&coded), Ok(b"www.example.com".to_vec()));
        let coded = [
            0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b,
            0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
        ];
        assert_eq!(
            decode(&coded),
            Ok(b"Mon, 21 Oct 2013 20:13:21 GMT".to_vec())
        );
    }

    #[test]
    fn an_encoded_eos_and_wrong_padding_are_errors() {
        for coded in [&[0xff, 0xff, 0xff, 0xfc][..], &[0xff], &[0x00]] {
            assert!(decode(coded).is_err(), "{coded:?}");
        }
    }
}
