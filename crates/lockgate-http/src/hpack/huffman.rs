//! Huffman coding of strings (RFC 7541 §5.2, Appendix B).
//!
//! The code is canonical: codes of one length follow each other in the order of their symbols, and
//! those of the next length come after them. So the lengths define the code, and the tables are
//! computed from them at compile time.

use super::HpackError;

/// The code length of each byte in bits, and last that of the end of a string.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];
const LONGEST: usize = 30;
/// The number of bits per look-up: mostly two codes of typical heads.
const FAST: u32 = 12;

/// The tables of the code.
struct HuffmanCode {
    /// Symbols in the order of their codes.
    symbols: [u16; 257],
    /// The first code of each length, and the index of its symbol in `symbols`.
    first: [u32; LONGEST + 2],
    place: [u16; LONGEST + 2],
    /// The code of each symbol.
    codes: [u32; 257],
    /// The codes at the beginning of each group of `FAST` bits.
    fast: [FastCodes; 1 << FAST],
}

/// The codes that a group of bits begins with.
#[derive(Clone, Copy)]
struct FastCodes {
    symbols: [u8; 2],
    /// The number of symbols; 0 if the code is longer than the group.
    count: u8,
    /// The bits of all codes, and of the first.
    length: u8,
    first: u8,
}

static CODE: HuffmanCode = HuffmanCode::new();

impl HuffmanCode {
    const fn new() -> Self {
        let mut made = Self {
            symbols: [0; 257],
            first: [0; LONGEST + 2],
            place: [0; LONGEST + 2],
            codes: [0; 257],
            fast: [FastCodes {
                symbols: [0; 2],
                count: 0,
                length: 0,
                first: 0,
            }; 1 << FAST],
        };
        let (mut code, mut place, mut length) = (0, 0, 1);
        while length <= LONGEST {
            made.first[length] = code;
            made.place[length] = place as u16;
            let mut symbol = 0;
            while symbol < LENGTHS.len() {
                if LENGTHS[symbol] as usize == length {
                    made.symbols[place] = symbol as u16;
                    made.codes[symbol] = code;
                    if length <= FAST as usize {
                        let spare = FAST as usize - length;
                        let mut rest = 0;
                        while rest < 1 << spare {
                            let fast = &mut made.fast[(code as usize) << spare | rest];
                            fast.symbols[0] = symbol as u8;
                            fast.count = 1;
                            fast.length = length as u8;
                            fast.first = length as u8;
                            rest += 1;
                        }
                    }
                    code += 1;
                    place += 1;
                }
                symbol += 1;
            }
            code <<= 1;
            length += 1;
        }
        // A second code that fits behind the first is the one that the following bits begin with.
        let mut bits = 0;
        while bits < made.fast.len() {
            let FastCodes { count, first, .. } = made.fast[bits];
            let behind = made.fast[(bits << first) & (made.fast.len() - 1)];
            if count == 1 && behind.count > 0 && first + behind.first <= FAST as u8 {
                made.fast[bits].symbols[1] = behind.symbols[0];
                made.fast[bits].count = 2;
                made.fast[bits].length = first + behind.first;
            }
            bits += 1;
        }
        made.first[LONGEST + 1] = u32::MAX;
        made.place[LONGEST + 1] = place as u16;
        made
    }

    /// The symbol and length of the code that `bits` begins with.
    fn find(&self, bits: u64) -> (usize, u32) {
        match self.fast[(bits >> (64 - FAST)) as usize] {
            FastCodes { count: 0, .. } => self.find_long(bits),
            FastCodes { symbols, first, .. } => (usize::from(symbols[0]), u32::from(first)),
        }
    }

    /// The same for a code longer than the look-up.
    #[cold]
    fn find_long(&self, bits: u64) -> (usize, u32) {
        let mut length = FAST as usize + 1;
        loop {
            let code = (bits >> (64 - length)) as u32;
            let count = u32::from(self.place[length + 1] - self.place[length]);
            // Every sequence of bits begins with a code; the last codes are all ones.
            if code < self.first[length] + count || length == LONGEST {
                let place = usize::from(self.place[length]) + (code - self.first[length]) as usize;
                return (usize::from(self.symbols[place]), length as u32);
            }
            length += 1;
        }
    }
}

/// Decodes a string into `out`, replacing its content: at most 8 bytes for 5.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let length = decode_to_front(coded, out)?;
    out.truncate(length);
    Ok(())
}

/// Decodes a string to the front of `out`, which is not shortened: so it is not cleared each time.
/// Returns its length.
pub(super) fn decode_to_front(coded: &[u8], out: &mut Vec<u8>) -> Result<usize, HpackError> {
    // The shortest code has 5 bits; two symbols are written even if only one is valid.
    let most = coded.len() * 8 / 5 + 2;
    if out.len() < most {
        out.resize(most, 0);
    }
    let (mut rest, mut at) = (coded, 0);
    // Filled from the highest bit on; the rest is zeros.
    let (mut bits, mut have) = (0_u64, 0_u32);
    // Longer input than the longest code needs no check for the end.
    while let Some(next) = rest.first_chunk() {
        bits |= u64::from_be_bytes(*next) >> have;
        let taken = (63 - have) / 8;
        rest = &rest[taken as usize..];
        have += taken * 8;
        // The extra bits of the next byte are read again with it.
        bits &= !(u64::MAX >> have);
        while have >= LONGEST as u32 {
            let fast = CODE.fast[(bits >> (64 - FAST)) as usize];
            let length = if fast.count > 0 {
                out[at..at + 2].copy_from_slice(&fast.symbols);
                at += usize::from(fast.count);
                u32::from(fast.length)
            } else {
                let (symbol, length) = CODE.find_long(bits);
                out[at] = literal(symbol)?;
                at += 1;
                length
            };
            bits <<= length;
            have -= length;
        }
    }
    loop {
        if !rest.is_empty() && have <= 56 {
            // What fits of the last bytes, fewer than 8.
            let (more, behind) = rest.split_at(rest.len().min((64 - have) as usize / 8));
            let word = match coded.last_chunk() {
                Some(last) => u64::from_be_bytes(*last) << (64 - 8 * rest.len()),
                None => first_bytes(rest),
            };
            bits |= word >> have;
            have += 8 * more.len() as u32;
            if have < 64 {
                bits &= !(u64::MAX >> have);
            }
            rest = behind;
        }
        // Padding is shorter than a byte, and a prefix of the end of a string: ones, which no code
        // so short is.
        if have < 8 && bits.leading_ones() >= have {
            return Ok(at);
        }
        // Codes that end within what is there; so they are no padding either.
        let fast = CODE.fast[(bits >> (64 - FAST)) as usize];
        if fast.count > 0 && u32::from(fast.length) <= have {
            out[at..at + 2].copy_from_slice(&fast.symbols);
            at += usize::from(fast.count);
            bits <<= fast.length;
            have -= u32::from(fast.length);
            continue;
        }
        let (symbol, length) = CODE.find(bits);
        if length > have {
            return Err(HpackError::Huffman);
        }
        out[at] = literal(symbol)?;
        at += 1;
        bits <<= length;
        have -= length;
    }
}

/// Up to seven bytes, from the highest bit on.
fn first_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().zip(1..).fold(0, |word, (byte, place)| {
        word | u64::from(*byte) << (64 - 8 * place)
    })
}

/// The decoded length of a string, and whether it has a `#`.
pub(super) fn measure(coded: &[u8]) -> Result<(usize, bool), HpackError> {
    let (mut rest, mut length, mut marks) = (coded, 0, 0);
    // As in `decode`.
    let (mut bits, mut have) = (0_u64, 0_u32);
    loop {
        if let Some(next) = rest.first_chunk() {
            bits |= u64::from_be_bytes(*next) >> have;
            let taken = (63 - have) / 8;
            rest = &rest[taken as usize..];
            have += taken * 8;
            bits &= !(u64::MAX >> have);
        } else {
            while have <= 56
                && let Some((byte, behind)) = rest.split_first()
            {
                bits |= u64::from(*byte) << (56 - have);
                have += 8;
                rest = behind;
            }
        }
        while have >= LONGEST as u32 {
            let sum = SUMS[(bits >> (64 - FAST)) as usize];
            let used = if sum == 0 {
                let (symbol, used) = CODE.find_long(bits);
                literal(symbol)?;
                length += 1;
                used
            } else {
                length += usize::from(sum >> 4 & 3);
                marks |= sum;
                u32::from(sum & 0xf)
            };
            bits <<= used;
            have -= used;
        }
        if !rest.is_empty() {
            continue;
        }
        while have >= 8 || bits.leading_ones() < have {
            let (symbol, used) = CODE.find(bits);
            if used > have {
                return Err(HpackError::Huffman);
            }
            marks |= if literal(symbol)? == b'#' { SHARP } else { 0 };
            length += 1;
            bits <<= used;
            have -= used;
        }
        return Ok((length, marks & SHARP != 0));
    }
}

/// The mark of a string with a `#`.
const SHARP: u8 = 0x40;

/// The sums of each group of bits: the bits of its codes, their number, and whether one is a `#`.
static SUMS: [u8; 1 << FAST] = {
    let mut sums = [0; 1 << FAST];
    let mut bits = 0;
    while bits < sums.len() {
        let FastCodes {
            symbols,
            count,
            length,
            ..
        } = CODE.fast[bits];
        let sharp = symbols[0] == b'#' || (count > 1 && symbols[1] == b'#');
        sums[bits] = match count {
            0 => 0,
            _ => length | count << 4 | if sharp { SHARP } else { 0 },
        };
        bits += 1;
    }
    sums
};

/// The byte of a symbol, unless it is the end of a string (RFC 7541 §5.2).
fn literal(symbol: usize) -> Result<u8, HpackError> {
    u8::try_from(symbol).map_err(|_| HpackError::Huffman)
}

/// The coded length of a string, in bytes.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|byte| usize::from(LENGTHS[usize::from(*byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the code of a string, padded to whole bytes.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut have) = (0_u64, 0_u32);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(*byte)]);
        have += length;
        // No code is longer than 30 bits, so that the next one has room.
        if have >= 32 {
            have -= 32;
            out.extend_from_slice(&((bits >> have) as u32).to_be_bytes());
        }
    }
    while have >= 8 {
        have -= 8;
        out.push((bits >> have) as u8);
    }
    if have > 0 {
        out.push((bits << (8 - have)) as u8 | 0xff >> have);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        let decoded = decode(coded, &mut out).map(|()| out);
        let found = decoded
            .as_ref()
            .map(|text| (text.len(), text.contains(&b'#')))
            .map_err(|error| *error);
        assert_eq!(measure(coded), found);
        decoded
    }

    /// RFC 7541, Appendix B: the first and last of several lengths.
    #[test]
    fn huffman_codes_match_the_rfc() {
        for (symbol, code) in [
            (b'0'.into(), 0x0),
            (b't'.into(), 0x9),
            (b' '.into(), 0x14),
            (b':'.into(), 0x5c),
            (b'&'.into(), 0xf8),
            (b'X'.into(), 0xfc),
            (b'\\'.into(), 0x7fff0),
            (0, 0x1ff8),
            (1, 0x7fffd8),
            (9, 0xffffea),
            (10, 0x3ffffffc),
            (249, 0xffffffe),
            (255, 0x3ffffee),
            (256, 0x3fffffff),
        ] {
            assert_eq!(CODE.codes[symbol], code, "{symbol}");
        }
    }

    #[test]
    fn every_byte_survives_huffman_in_any_company() {
        for first in 0..=255 {
            for second in 0..=255 {
                let text = [b'a', first, second];
                let mut coded = Vec::new();
                encode(&text, &mut coded);
                assert_eq!(coded.len(), encoded_len(&text));
                assert_eq!(decoded(&coded).as_deref(), Ok(&text[..]));
            }
        }
    }

    #[test]
    fn long_strings_survive_huffman() {
        for length in 0..300_usize {
            let often: Vec<u8> = b"etaoin shrdlu/"
                .iter()
                .copied()
                .cycle()
                .take(length)
                .collect();
            let all: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            for text in [often, all] {
                let mut coded = Vec::new();
                encode(&text, &mut coded);
                assert_eq!(decoded(&coded), Ok(text), "{length}");
            }
        }
    }

    #[test]
    fn huffman_padding_is_less_than_a_byte_of_ones() {
        // '0' is five zeros.
        assert_eq!(decoded(&[0b0000_0111]).as_deref(), Ok(&b"0"[..]));
        assert_eq!(decoded(&[]).as_deref(), Ok(&b""[..]));
        for coded in [
            &[0b0000_0110][..],
            &[0b0000_0111, 0xff],
            &[0xff],
            &[0b0000_0000],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xfc],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(decoded(coded), Err(HpackError::Huffman), "{coded:x?}");
        }
    }
}
