//! Entity tags (RFC 9110 §8.8.3).

/// One entity tag, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// With its quotes.
    opaque: &'a [u8],
    weak: bool,
}

impl<'a> EntityTag<'a> {
    /// Parses the whole of `value`; `None` if it is no entity tag.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        Self::first(value).and_then(|(tag, rest)| rest.is_empty().then_some(tag))
    }

    /// The tag that `text` begins with, and the rest.
    fn first(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        // RFC 9110 §8.8.3: the W is case-sensitive.
        let strong = text.strip_prefix(b"W/");
        let quoted = strong.unwrap_or(text);
        let end = memchr::memchr(b'"', quoted.strip_prefix(b"\"")?)?;
        let (opaque, rest) = quoted.split_at(end + 2);
        let sound = opaque.iter().all(|byte| !matches!(byte, 0..=b' ' | 0x7f));
        sound.then_some((
            Self {
                opaque,
                weak: strong.is_some(),
            },
            rest,
        ))
    }

    /// Whether the tag is weak: it stands for equivalent representations, not for the same bytes.
    pub fn is_weak(self) -> bool {
        self.weak
    }

    /// Whether both stand for the same bytes: the strong comparison (RFC 9110 §8.8.3.2).
    pub fn is_same(self, other: Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Whether both stand for equivalent representations: the weak comparison (RFC 9110 §8.8.3.2).
    pub fn is_alike(self, other: Self) -> bool {
        self.opaque == other.opaque
    }
}

/// The entity tags of a list (RFC 9110 §5.6.1); empty elements are ignored.
///
/// The list ends at the first malformed tag: since tags may have commas, the beginning of the next
/// one is unknown.
#[derive(Debug, Clone)]
pub struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> EntityTags<'a> {
    /// The tags of one line.
    pub fn of(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Whether the list ended at a malformed tag.
    pub fn is_broken(&self) -> bool {
        !self.rest.is_empty()
    }
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = EntityTag<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let empty = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
        let start = self
            .rest
            .iter()
            .position(|byte| !empty(byte))
            .unwrap_or(self.rest.len());
        self.rest = &self.rest[start..];
        let (tag, behind) = EntityTag::first(self.rest)?;
        let behind = behind.trim_ascii_start();
        if !behind.is_empty() && behind[0] != b',' {
            return None;
        }
        self.rest = behind;
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §8.8.3.2, its table.
    #[test]
    fn etags_have_strong_and_weak_comparison() {
        for (one, other, same, alike) in [
            (r#"W/"1""#, r#"W/"1""#, false, true),
            (r#"W/"1""#, r#"W/"2""#, false, false),
            (r#"W/"1""#, r#""1""#, false, true),
            (r#""1""#, r#""1""#, true, true),
            (r#""1""#, r#""2""#, false, false),
            (r#""a""#, r#""A""#, false, false),
            (r#""""#, r#""""#, true, true),
        ] {
            let tag = |text: &'static str| EntityTag::parse(text.as_bytes()).unwrap();
            let (one, other) = (tag(one), tag(other));
            assert_eq!(
                (one.is_same(other), one.is_alike(other)),
                (same, alike),
                "{one:?} {other:?}"
            );
            assert_eq!(
                (other.is_same(one), other.is_alike(one)),
                (same, alike),
                "{one:?} {other:?}"
            );
        }
    }

    /// RFC 9110 §8.8.3: `etagc = %x21 / %x23-7E / obs-text`.
    #[test]
    fn malformed_etags_are_refused() {
        for text in [
            "", "a", "*", "\"", "\"a", "a\"", "w/\"a\"", "W/a", "W\"a\"", "W/ \"a\"", "\"a\"b",
            "\"a\" ",
        ] {
            assert_eq!(EntityTag::parse(text.as_bytes()), None, "{text}");
        }
        for byte in 0..=255_u8 {
            let text = [b'"', byte, b'"'];
            let sound = matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
            assert_eq!(EntityTag::parse(&text).is_some(), sound, "{byte}");
        }
    }

    #[test]
    fn an_etag_list_breaks_at_a_malformed_element() {
        let of = |text: &str| {
            let mut tags = EntityTags::of(text.as_bytes());
            let read: Vec<_> = tags
                .by_ref()
                .map(|tag| tag.opaque.escape_ascii().to_string())
                .collect();
            (read.join(" ").replace("\\\"", ""), tags.is_broken())
        };
        for (text, tags, broken) in [
            ("", "", false),
            (" ,\t, ", "", false),
            (r#""a""#, "a", false),
            (r#""a", W/"b" ,"c","#, "a b c", false),
            (r#",,"a",,"b""#, "a b", false),
            (r#""a,b","c""#, "a,b c", false),
            (r#""a""b""#, "", true),
            (r#""a" "b""#, "", true),
            (r#""a", b, "c""#, "a", true),
            (r#""a", "b"#, "a", true),
            ("*", "", true),
        ] {
            assert_eq!(of(text), (tags.to_owned(), broken), "{text}");
        }
    }
}
