//! A body with several parts (RFC 9110 §14.6), with a length that is known in advance.

use super::{ByteRange, spelled};

/// The delimiter of parts: random digits, which content cannot contain but by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary([u8; 32]);

impl Boundary {
    /// `random` must be unpredictable and new for each response: otherwise content could be crafted
    /// to end a part early.
    pub fn of(random: u128) -> Self {
        let digit = |place: usize| b"0123456789abcdef"[(random >> (124 - 4 * place)) as usize & 15];
        Self(std::array::from_fn(digit))
    }
}

/// A body of type multipart/byteranges: for each part its [`head`](Self::head) and its bytes, then
/// the [`end`](Self::end).
#[derive(Debug, Clone)]
pub struct Multipart<'a> {
    parts: Vec<ByteRange>,
    size: u64,
    media_type: Option<&'a [u8]>,
    boundary: Boundary,
}

impl<'a> Multipart<'a> {
    /// A body of parts [selected](super::select) from a representation of `size` bytes with the
    /// Content-Type `media_type`.
    pub fn new(
        parts: Vec<ByteRange>,
        size: u64,
        media_type: Option<&'a [u8]>,
        boundary: Boundary,
    ) -> Self {
        Self {
            parts,
            size,
            media_type,
            boundary,
        }
    }

    /// The parts, in the order of the request.
    pub fn parts(&self) -> &[ByteRange] {
        &self.parts
    }

    /// The Content-Type of the response.
    pub fn content_type(&self) -> Vec<u8> {
        [&b"multipart/byteranges; boundary="[..], &self.boundary.0].concat()
    }

    /// The length of the whole body; at most the largest 64-bit number, which no file reaches.
    pub fn length(&self) -> u64 {
        let mut length = 0_u64;
        let mut add = |more: u64| length = length.saturating_add(more);
        for part in &self.parts {
            self.spell(*part, |piece| add(piece.len() as u64));
            add(part.length);
        }
        for piece in self.close() {
            add(piece.len() as u64);
        }
        length
    }

    /// Appends the head of a part.
    pub fn head(&self, part: ByteRange, out: &mut Vec<u8>) {
        self.spell(part, |piece| out.extend_from_slice(piece));
    }

    /// Appends the end of the body.
    pub fn end(&self, out: &mut Vec<u8>) {
        for piece in self.close() {
            out.extend_from_slice(piece);
        }
    }

    /// The head of a part in pieces, to be written or counted.
    fn spell(&self, part: ByteRange, mut put: impl FnMut(&[u8])) {
        // RFC 9110 §14.6: CR LF may precede the first boundary, too.
        put(b"\r\n--");
        put(&self.boundary.0);
        if let Some(media_type) = self.media_type {
            put(b"\r\nContent-Type: ");
            put(media_type);
        }
        put(b"\r\nContent-Range: ");
        spelled(part, self.size, &mut Default::default())
            .into_iter()
            .for_each(&mut put);
        put(b"\r\n\r\n");
    }

    fn close(&self) -> [&[u8]; 3] {
        [b"\r\n--", &self.boundary.0, b"--\r\n"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;
    use crate::head::Method;
    use crate::range::{Selection, select};

    fn written(multipart: &Multipart<'_>, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in multipart.parts() {
            multipart.head(*part, &mut out);
            out.extend_from_slice(&content[part.offset as usize..][..part.length as usize]);
        }
        multipart.end(&mut out);
        out
    }

    /// RFC 9110 §14.6.
    #[test]
    fn multipart_byteranges_are_separated_by_the_boundary() {
        let parts = vec![
            ByteRange {
                offset: 1,
                length: 2,
            },
            ByteRange {
                offset: 9,
                length: 1,
            },
        ];
        let multipart = Multipart::new(
            parts.clone(),
            10,
            Some(b"text/plain"),
            Boundary::of(0x1f << 120),
        );
        let boundary = "1f000000000000000000000000000000";
        let content_type = format!("multipart/byteranges; boundary={boundary}");
        assert_eq!(multipart.content_type(), content_type.as_bytes());
        let body = written(&multipart, b"0123456789");
        let expected = format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 1-2/10\r\n\r\n12\
             \r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 9-9/10\r\n\r\n9\
             \r\n--{boundary}--\r\n"
        );
        assert_eq!(
            body.escape_ascii().to_string(),
            expected.as_bytes().escape_ascii().to_string()
        );
        assert_eq!(multipart.length(), body.len() as u64);
        // "if the selected representation would have had a Content-Type"
        let multipart = Multipart::new(parts, 10, None, Boundary::of(u128::MAX));
        let body = written(&multipart, b"0123456789");
        assert!(body.starts_with(
            b"\r\n--ffffffffffffffffffffffffffffffff\r\nContent-Range: bytes 1-2/10\r\n\r\n12"
        ));
        assert_eq!(multipart.length(), body.len() as u64);
    }

    /// xorshift64 (Marsaglia, "Xorshift RNGs", 2003): ranges that repeat exactly.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    #[test]
    fn the_multipart_content_length_is_exact_for_any_ranges() {
        let content: Vec<u8> = (0..120_000_u32).map(|at| (at % 251) as u8).collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut several = 0;
        for _ in 0..5_000 {
            // Sizes with any number of digits.
            let digits = random.below(5) as usize;
            let size = 1 + random.below([9, 99, 1_000, 12_000, 120_000][digits]);
            let specs: Vec<_> = (0..2 + random.below(8))
                .map(|_| {
                    let (first, length) = (
                        random.below(size + size / 4 + 1),
                        random.below(size / 4 + 1),
                    );
                    match random.below(8) {
                        0 => format!("-{length}"),
                        1 => format!("{first}-"),
                        _ => format!("{first}-{}", first + length),
                    }
                })
                .collect();
            let value = format!("bytes={}", specs.join(", "));
            let Selection::Several(parts) =
                select(Method::Get, &fields(&[("Range", &value)]), size)
            else {
                continue;
            };
            several += 1;
            let inside = |part: &ByteRange| part.length > 0 && part.offset + part.length <= size;
            assert!(
                parts.len() > 1 && parts.iter().all(inside),
                "{value} of {size}"
            );
            assert!(
                parts.iter().map(|part| part.length).sum::<u64>() <= size,
                "{value} of {size}"
            );
            let media_type = (random.below(4) > 0).then_some(&b"application/octet-stream"[..]);
            let multipart = Multipart::new(
                parts,
                size,
                media_type,
                Boundary::of(random.below(u64::MAX).into()),
            );
            assert_eq!(
                multipart.length(),
                written(&multipart, &content).len() as u64,
                "{value} of {size}"
            );
        }
        assert!(several > 1_000, "{several}");
    }

    #[test]
    fn a_multipart_content_length_does_not_overflow() {
        let parts = vec![
            ByteRange {
                offset: 0,
                length: u64::MAX
            };
            2
        ];
        assert_eq!(
            Multipart::new(parts, u64::MAX, None, Boundary::of(0)).length(),
            u64::MAX
        );
    }
}
