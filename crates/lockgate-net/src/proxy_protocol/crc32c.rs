//! CRC32c (Castagnoli) for PP2_TYPE_CRC32C (§2.2.3; RFC 9260 Appendix A, once RFC 4960).
//!
//! Runs at most once a connection over at most 4 KB, so a byte at a time from one table is enough.

const POLYNOMIAL: u32 = 0x82F6_3B78; // reflected
const TABLE: [u32; 256] = table();

/// The checksum of all `parts`, one after another.
pub(super) fn of(parts: &[&[u8]]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let index = crc.to_le_bytes()[0] ^ byte;
        (crc >> 8) ^ TABLE[usize::from(index)]
    };
    !parts.iter().copied().flatten().fold(u32::MAX, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn crc32c_matches_the_check_values_of_rfc_3720() {
        let rising: Vec<u8> = (0..32).collect();
        let table: [(&[u8], u32); 4] = [
            (b"123456789", 0xE306_9283),
            (&[0; 32], 0x8A91_36AA),
            (&[0xFF; 32], 0x62A8_AB43),
            (&rising, 0x46DD_794E),
        ];
        for (bytes, crc) in table {
            assert_eq!(of(&[bytes]), crc);
        }
        assert_eq!(of(&[b"1234", b"", b"56789"]), 0xE306_9283);
    }
}
