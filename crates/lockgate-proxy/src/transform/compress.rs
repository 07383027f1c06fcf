//! Which answers are compressed, and how.

use lockgate_content::coding::Coding;
use lockgate_http::coding;

use super::media_range::MediaRange;

/// Which answers are compressed on their way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compress {
    /// What may be made, with its level if it is not what suits the occasion; of what a client
    /// wants alike, the first.
    pub codings: Vec<(Coding, Option<u8>)>,
    /// What is worth it.
    pub types: Vec<MediaRange>,
    /// Bytes below which it is not.
    pub min: u64,
}

impl Compress {
    /// Whether an answer of this type is, if it has so many bytes or an unknown number.
    pub fn takes(&self, content_type: &[u8], len: Option<u64>) -> bool {
        len.is_none_or(|len| len >= self.min)
            && self.types.iter().any(|range| range.matches(content_type))
    }

    /// The level for what is made once and sent often.
    pub fn kept_level(&self, coding: Coding) -> u8 {
        self.level(coding).unwrap_or(coding.kept_level())
    }

    /// The level for what is made as it is sent.
    pub fn fast_level(&self, coding: Coding) -> u8 {
        self.level(coding).unwrap_or(coding.fast_level())
    }

    fn level(&self, coding: Coding) -> Option<u8> {
        self.codings.iter().find(|(known, _)| *known == coding)?.1
    }
}

/// As Accept-Encoding has it.
pub fn named(coding: Coding) -> coding::Coding {
    match coding {
        Coding::Zstd => coding::Coding::Zstd,
        Coding::Brotli => coding::Coding::Br,
        Coding::Gzip => coding::Coding::Gzip,
    }
}

/// What is made for that; nothing for identity.
pub fn made(coding: coding::Coding) -> Option<Coding> {
    match coding {
        coding::Coding::Zstd => Some(Coding::Zstd),
        coding::Coding::Br => Some(Coding::Brotli),
        coding::Coding::Gzip => Some(Coding::Gzip),
        coding::Coding::Identity => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_below_the_minimum_length_are_not_compressed() {
        let types = vec![MediaRange::Exact("text/css".into())];
        let compress = Compress {
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
        let compress = Compress {
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
        assert_eq!(made(coding::Coding::Identity), None);
    }
}
