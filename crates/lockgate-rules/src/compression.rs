//! Compression of responses.

use lockgate_content::coding::Coding;
use lockgate_http::coding::{self, Accepted, vary};
use lockgate_http::fields::{Fields, Known};

use crate::media_range::MediaRange;

/// The responses that are compressed, and their codings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// The codings, each with its level; `None` is the default level for the occasion. Of codings
    /// that a client likes equally, the first is taken.
    pub codings: Vec<(Coding, Option<u8>)>,
    /// Media types that are compressed.
    pub types: Vec<MediaRange>,
    /// Minimum content length in bytes.
    pub min: u64,
}

impl Compression {
    /// Whether a response of this type and length is compressed; `None` is an unknown length.
    pub fn takes(&self, content_type: &[u8], len: Option<u64>) -> bool {
        len.is_none_or(|len| len >= self.min)
            && self.types.iter().any(|range| range.matches(content_type))
    }

    /// The coding and level for an origin's response to a request with the fields `asked`; changes
    /// the response's fields accordingly. `None` for a response that has a coding, is a part, or
    /// has `no-transform` (RFC 9110 §7.7).
    pub fn begin(&self, asked: &Fields, status: u16, fields: &mut Fields) -> Option<(Coding, u8)> {
        let value = |name: &[u8]| fields.named(name).next();
        let len =
            value(b"content-length").and_then(|len| std::str::from_utf8(len).ok()?.parse().ok());
        let whole = !matches!(status, 204 | 206 | 304) && value(b"content-range").is_none();
        let plain = fields
            .named(b"content-encoding")
            .all(|coding| coding.eq_ignore_ascii_case(b"identity"));
        let takes =
            value(b"content-type").is_some_and(|content_type| self.takes(content_type, len));
        if !whole || !plain || !takes || is_fixed(fields) {
            return None;
        }
        vary(fields, b"Accept-Encoding");
        let offered = self.codings.iter().map(|(coding, _)| named(*coding));
        let offered: Vec<_> = offered.chain([coding::ContentCoding::Identity]).collect();
        let coding = made(Accepted::of(asked).best(&offered)?)?;
        drop_representation_fields(fields);
        weaken(fields);
        fields.append(b"Content-Encoding", coding.token().as_bytes());
        Some((coding, self.fast_level(coding)))
    }

    /// Weakens the entity tag of a 304 if [`begin`](Self::begin) weakened that of the full
    /// response. The origin sends its own tag, but the client must see the tag of its stored
    /// response (RFC 9110 §15.4.5), or it cannot tell which stored response is fresh (RFC 9111
    /// §4.3.4).
    pub fn recall(&self, asked: &Fields, status: u16, fields: &mut Fields) {
        let strong = fields
            .named(b"etag")
            .next()
            .filter(|tag| status == 304 && tag.starts_with(b"\""));
        let Some(weak) = strong.map(|tag| [b"W/", tag].concat()) else {
            return;
        };
        if asked
            .named(b"if-none-match")
            .any(|tags| memchr::memmem::find(tags, &weak).is_some())
        {
            vary(fields, b"Accept-Encoding");
            weaken(fields);
        }
    }

    /// The level for content that is compressed once and sent often.
    pub fn kept_level(&self, coding: Coding) -> u8 {
        self.level(coding).unwrap_or(coding.kept_level())
    }

    /// The level for content that is compressed while it is sent.
    pub fn fast_level(&self, coding: Coding) -> u8 {
        self.level(coding).unwrap_or(coding.fast_level())
    }

    fn level(&self, coding: Coding) -> Option<u8> {
        self.codings.iter().find(|(known, _)| *known == coding)?.1
    }
}

/// The content coding of Accept-Encoding for this setting.
pub fn named(coding: Coding) -> coding::ContentCoding {
    match coding {
        Coding::Zstd => coding::ContentCoding::Zstd,
        Coding::Brotli => coding::ContentCoding::Br,
        Coding::Gzip => coding::ContentCoding::Gzip,
    }
}

/// The setting for a content coding; `None` for identity.
pub fn made(coding: coding::ContentCoding) -> Option<Coding> {
    match coding {
        coding::ContentCoding::Zstd => Some(Coding::Zstd),
        coding::ContentCoding::Br => Some(Coding::Brotli),
        coding::ContentCoding::Gzip => Some(Coding::Gzip),
        coding::ContentCoding::Identity => None,
    }
}

/// Whether `no-transform` forbids intermediaries to change the content (RFC 9111 §5.2.2.6).
pub fn is_fixed(fields: &Fields) -> bool {
    fields
        .named(b"cache-control")
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// Removes fields that describe the bytes of the original content: length, ranges, coding and
/// digests.
pub fn drop_representation_fields(fields: &mut Fields) {
    fields.remove(Known::ContentLength);
    let gone: [&[u8]; 6] = [
        b"accept-ranges",
        b"content-encoding",
        b"content-md5",
        b"digest",
        b"content-digest",
        b"repr-digest",
    ];
    fields.retain(|field| {
        !gone
            .iter()
            .any(|name| field.name.eq_ignore_ascii_case(name))
    });
}

/// Makes a strong entity tag weak (RFC 9110 §8.8.1).
fn weaken(fields: &mut Fields) {
    fields.revise(|field, value| {
        let strong = field.name.eq_ignore_ascii_case(b"etag") && field.value.starts_with(b"\"");
        if strong {
            value.extend_from_slice(b"W/");
            value.extend_from_slice(field.value);
        }
        strong
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_below_the_minimum_length_are_not_compressed() {
        let types = vec![MediaRange::Exact("text/css".into())];
        let compress = Compression {
            codings: vec![],
            types,
            min: 10,
        };
        for (content_type, len, takes) in [
            ("text/css", Some(9), false),
            ("text/css", Some(10), true),
            ("text/css; charset=utf-8", None, true),
            ("text/html", None, false),
        ] {
            assert_eq!(
                compress.takes(content_type.as_bytes(), len),
                takes,
                "{content_type} {len:?}"
            );
        }
    }

    #[test]
    fn a_configured_compression_level_applies_to_streams_and_files() {
        let codings = vec![(Coding::Gzip, Some(9)), (Coding::Zstd, None)];
        let compress = Compression {
            codings,
            types: vec![],
            min: 0,
        };
        assert_eq!(
            (
                compress.fast_level(Coding::Gzip),
                compress.kept_level(Coding::Gzip)
            ),
            (9, 9)
        );
        assert_eq!(compress.fast_level(Coding::Zstd), Coding::Zstd.fast_level());
        assert_eq!(compress.kept_level(Coding::Zstd), Coding::Zstd.kept_level());
    }

    #[test]
    fn accept_encoding_codings_match_the_encoders() {
        for coding in Coding::ALL {
            assert_eq!(named(coding).name(), coding.token());
            assert_eq!(made(named(coding)), Some(coding));
        }
        assert_eq!(made(coding::ContentCoding::Identity), None);
    }

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.append(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    fn value<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
        fields
            .named(name.as_bytes())
            .next()
            .map(|value| std::str::from_utf8(value).unwrap())
    }

    fn compress() -> Compression {
        Compression {
            codings: vec![(Coding::Zstd, None), (Coding::Gzip, Some(9))],
            types: vec![MediaRange::Under("text".into())],
            min: 10,
        }
    }

    #[test]
    fn a_compressed_response_has_content_encoding_vary_and_weak_etag() {
        let asked = fields(&[("Accept-Encoding", "gzip, br")]);
        let mut answer = fields(&[
            ("Content-Type", "text/css"),
            ("Content-Length", "10"),
            ("ETag", "\"a\""),
            ("Digest", "x"),
        ]);
        assert_eq!(
            compress().begin(&asked, 200, &mut answer),
            Some((Coding::Gzip, 9))
        );
        let names = [
            "content-encoding",
            "vary",
            "etag",
            "content-length",
            "digest",
        ];
        let found = names.map(|name| value(&answer, name));
        assert_eq!(
            found,
            [
                Some("gzip"),
                Some("Accept-Encoding"),
                Some("W/\"a\""),
                None,
                None
            ]
        );
        // A compressed response is not compressed again.
        assert_eq!(compress().begin(&asked, 200, &mut answer), None);
    }

    #[test]
    fn an_uncompressed_response_still_has_vary_accept_encoding() {
        let mut answer = fields(&[
            ("Content-Type", "text/css"),
            ("Content-Length", "10"),
            ("ETag", "\"a\""),
        ]);
        assert_eq!(
            compress().begin(&fields(&[("Accept-Encoding", "br")]), 200, &mut answer),
            None
        );
        let found = ["content-length", "etag", "vary"].map(|name| value(&answer, name));
        assert_eq!(found, [Some("10"), Some("\"a\""), Some("Accept-Encoding")]);
    }

    /// RFC 9110 §8.8.3.2: weak and strong tags compare differently.
    #[test]
    fn a_304_weakens_only_an_etag_weakened_by_compression() {
        for (status, asked, sent) in [
            (304, "W/\"a\"", "W/\"a\""),
            (304, "\"b\", W/\"a\"", "W/\"a\""),
            (304, "\"a\"", "\"a\""),
            (304, "W/\"ab\"", "\"a\""),
            (304, "*", "\"a\""),
            (200, "W/\"a\"", "\"a\""),
        ] {
            let mut answer = fields(&[("ETag", "\"a\"")]);
            compress().recall(&fields(&[("If-None-Match", asked)]), status, &mut answer);
            assert_eq!(value(&answer, "etag"), Some(sent), "{status} {asked}");
        }
    }
}
