//! Content codings (RFC 9110 §8.4.1) and their negotiation (§12.5.3).
//!
//! Does not encode.

use crate::fields::{Fields, Known};

/// A content coding of a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentCoding {
    /// RFC 9659.
    Zstd,
    /// RFC 7932.
    Br,
    /// RFC 1952.
    Gzip,
    /// No coding: the content as it is.
    Identity,
}

impl ContentCoding {
    /// Its name in Content-Encoding and Accept-Encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Br => "br",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }

    /// The coding with this name, in any case (RFC 9110 §8.4.1); `None` if it is unknown.
    pub fn of(name: &[u8]) -> Option<Self> {
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        // §8.4.1.3: x-gzip is gzip.
        match name.len() {
            2 if is("br") => Some(Self::Br),
            4 if is("gzip") => Some(Self::Gzip),
            4 if is("zstd") => Some(Self::Zstd),
            6 if is("x-gzip") => Some(Self::Gzip),
            8 if is("identity") => Some(Self::Identity),
            _ => None,
        }
    }
}

/// The codings that a client accepts, with their weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Thousandths, in the order of [`ContentCoding`]; `None` for a coding that is not accepted.
    weights: [Option<u16>; 4],
}

impl Accepted {
    /// The codings of a client without the field, or with an empty one. RFC 9110 §12.5.3 would
    /// allow any coding without the field; no server does that, as clients that cannot decode send
    /// none.
    pub const IDENTITY: Self = Self {
        weights: [None, None, None, Some(0)],
    };

    /// The codings in a request's Accept-Encoding, over all its lines, in one pass.
    ///
    /// Of several elements for one coding the first holds. A malformed element is ignored.
    pub fn of(fields: &Fields) -> Self {
        if !fields.may_have(&[Known::AcceptEncoding]) {
            return Self::IDENTITY;
        }
        let mut named = [None; 4];
        let mut others = None;
        for element in fields.tokens(Known::AcceptEncoding) {
            let (name, weight) = match memchr::memchr(b';', element) {
                None => (element, Some(1_000)),
                Some(at) => (
                    element[..at].trim_ascii_end(),
                    weight(element[at + 1..].trim_ascii_start()),
                ),
            };
            let Some(weight) = weight else { continue };
            if name == b"*" {
                others.get_or_insert(weight);
            } else if let Some(coding) = ContentCoding::of(name) {
                named[coding as usize].get_or_insert(weight);
            }
        }
        // §12.5.3: `*` is every coding that is not named. Without either, identity comes last.
        let mut weights = named.map(|weight| weight.or(others).filter(|weight| *weight > 0));
        let identity = ContentCoding::Identity as usize;
        if named[identity].or(others).is_none() {
            weights[identity] = Some(0);
        }
        Self { weights }
    }

    /// Whether the client accepts this coding.
    pub fn takes(&self, coding: ContentCoding) -> bool {
        self.weights[coding as usize].is_some()
    }

    /// Whether the client accepts any coding but identity.
    pub fn takes_any(&self) -> bool {
        self.weights[..ContentCoding::Identity as usize]
            .iter()
            .any(Option::is_some)
    }

    /// The coding of `offered` with the highest weight; of equal ones, the first.
    ///
    /// `None` if none is acceptable. RFC 9110 §12.4.1 and §15.5.7 let a server respond with 406 or
    /// disregard the field: send identity, as nginx and Caddy do. A client that forbids identity
    /// can read it nevertheless, but not a 406.
    pub fn best(&self, offered: &[ContentCoding]) -> Option<ContentCoding> {
        let mut best: Option<(ContentCoding, u16)> = None;
        for coding in offered {
            let Some(weight) = self.weights[*coding as usize] else {
                continue;
            };
            if best.is_none_or(|(_, most)| weight > most) {
                best = Some((*coding, weight));
            }
        }
        best.map(|(coding, _)| coding)
    }
}

/// The thousandths of `q=…` (RFC 9110 §12.4.2); `None` if malformed.
fn weight(parameter: &[u8]) -> Option<u16> {
    let (b'q' | b'Q', value) = parameter.split_first()? else {
        return None;
    };
    let (whole, decimals) = match value.strip_prefix(b"=")? {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0') * 1_000;
    for (digit, worth) in decimals.iter().zip([100, 10, 1]) {
        thousandths += digit
            .is_ascii_digit()
            .then(|| u16::from(digit - b'0') * worth)?;
    }
    (thousandths <= 1_000).then_some(thousandths)
}

/// Adds a request's field to Vary, because it has influenced the response (RFC 9110 §12.5.5),
/// unless it is there.
pub fn vary(fields: &mut Fields, name: &[u8]) {
    let said = fields
        .named(b"vary")
        .flat_map(|value| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|said| said == b"*" || said.eq_ignore_ascii_case(name));
    if !said {
        fields.append(b"Vary", name);
    }
}

#[cfg(test)]
mod tests {
    use super::ContentCoding::{Br, Gzip, Identity, Zstd};
    use super::*;
    use crate::fields::tests::fields;

    const ALL: [ContentCoding; 4] = [Zstd, Br, Gzip, Identity];

    fn of(value: &str) -> Accepted {
        Accepted::of(&fields(&[("Accept-Encoding", value)]))
    }

    /// RFC 9110 §12.5.3.
    #[test]
    fn accept_encoding_with_the_highest_weight_wins() {
        for (value, best) in [
            ("gzip", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("GZip", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, deflate, br", Some(Br)),
            ("deflate", Some(Identity)),
            ("dcb, dcz", Some(Identity)),
            ("gzip;q=1.0, br;q=0.5", Some(Gzip)),
            ("gzip;q=0.001, br;q=0", Some(Gzip)),
            ("br;q=0.8, gzip;q=0.81, zstd;q=0.799", Some(Gzip)),
            ("gzip ; q=0.5\t,\tbr;\tq=0.6", Some(Br)),
            ("gzip;Q=0.5, identity;q=0.4", Some(Gzip)),
            // The examples of §12.5.3.
            ("compress, gzip", Some(Gzip)),
            ("", Some(Identity)),
            ("*", Some(Zstd)),
            ("compress;q=0.5, gzip;q=1.0", Some(Gzip)),
            ("gzip;q=1.0, identity; q=0.5, *;q=0", Some(Gzip)),
            // "not acceptable"
            ("gzip;q=0", Some(Identity)),
            ("gzip;q=0, *", Some(Zstd)),
            ("zstd;q=0, *;q=0.1", Some(Br)),
            ("*;q=0, gzip;q=0.1", Some(Gzip)),
            // "If the representation has no content coding, then it is acceptable by default
            // unless specifically excluded"
            ("identity;q=0, gzip", Some(Gzip)),
            ("identity;q=0", None),
            ("*;q=0", None),
            ("*;q=0, deflate", None),
            ("identity;q=0, gzip;q=0.000, br;q=0.0, zstd;q=0.", None),
            ("*;q=0, identity", Some(Identity)),
            // A named one is like the others.
            ("identity, gzip;q=0.9", Some(Identity)),
            ("identity;q=0.5, gzip;q=0.4", Some(Identity)),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("br;q=0.5, *;q=0.6", Some(Zstd)),
            // The first of several holds.
            ("gzip;q=0, gzip", Some(Identity)),
            ("gzip, x-gzip;q=0", Some(Gzip)),
            ("*;q=0.1, *;q=0", Some(Zstd)),
        ] {
            assert_eq!(of(value).best(&ALL), best, "{value}");
        }
    }

    #[test]
    fn without_accept_encoding_the_response_is_identity() {
        assert_eq!(Accepted::of(&fields(&[])), Accepted::IDENTITY);
        assert_eq!(Accepted::of(&fields(&[("X", "gzip")])), Accepted::IDENTITY);
        for value in ["", ",", " , ,"] {
            assert_eq!(of(value), Accepted::IDENTITY, "{value:?}");
        }
        assert!(!Accepted::IDENTITY.takes_any());
        assert!(of("gzip;q=0.1").takes_any() && of("*").takes_any());
        assert!(!of("identity").takes_any() && !of("gzip;q=0").takes_any());
    }

    #[test]
    fn equal_accept_encoding_weights_fall_back_to_server_order() {
        let accepted = of("gzip, br, zstd");
        assert_eq!(accepted.best(&[Gzip, Br, Identity]), Some(Gzip));
        assert_eq!(accepted.best(&[Br, Gzip, Identity]), Some(Br));
        assert_eq!(accepted.best(&[Identity]), Some(Identity));
        assert_eq!(accepted.best(&[]), None);
        // Where identity is not named, every other coding that is offered is preferred.
        assert_eq!(accepted.best(&[Identity, Gzip]), Some(Gzip));
        assert_eq!(of("*").best(&[Identity, Gzip]), Some(Identity));
        assert_eq!(of("gzip;q=0.5, *;q=0").best(&[Br, Identity]), None);
    }

    /// RFC 9110 §12.4.2: `qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )`.
    #[test]
    fn an_accept_encoding_element_with_a_malformed_weight_is_ignored() {
        for value in [
            "gzip;",
            "gzip;q",
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=1.1",
            "gzip;q=0.1234",
            "gzip;q=-1",
            "gzip;q=.5",
            "gzip;q=00",
            "gzip;q=0,5",
            "gzip;q=0.5;x=y",
            "gzip;x=y",
            "gzip;q =0.5",
            "gzip;q= 0.5",
            "gzip;q=0.5 x",
            "gzip;q=a",
            "gzip;q=0.a",
            "gzip;q=\"1\"",
            "gzip;;q=1",
            "gzip q=1",
            "gzip=1",
            "\"gzip\"",
            "gzi",
            "gzipp",
            "g zip",
        ] {
            assert_eq!(of(value), Accepted::IDENTITY, "{value}");
            assert_eq!(
                of(&format!("{value}, br;q=0.1")).best(&ALL),
                Some(Br),
                "{value}"
            );
        }
        // An element that forbids identity has to be well-formed.
        assert_eq!(of("identity;q=0.0000").best(&ALL), Some(Identity));
        for (text, thousandths) in [
            ("0", 0),
            ("0.", 0),
            ("0.5", 500),
            ("0.05", 50),
            ("0.123", 123),
            ("1", 1_000),
            ("1.000", 1_000),
        ] {
            assert_eq!(
                weight(format!("q={text}").as_bytes()),
                Some(thousandths),
                "{text}"
            );
        }
    }

    #[test]
    fn accept_encoding_may_be_split_over_several_lines() {
        let of = |lines: &[(&str, &str)]| Accepted::of(&fields(lines));
        let lines = [
            ("Accept-Encoding", "gzip;q=0.5"),
            ("x", "y"),
            ("accept-encoding", "br;q=0.7, *;q=0"),
        ];
        assert_eq!(
            of(&lines),
            of(&[("Accept-Encoding", "gzip;q=0.5, br;q=0.7, *;q=0")])
        );
        assert_eq!(of(&lines).best(&ALL), Some(Br));
        assert!(!of(&lines).takes(Zstd) && !of(&lines).takes(Identity) && of(&lines).takes(Gzip));
    }

    #[test]
    fn a_megabyte_of_accept_encoding_is_read_once() {
        for (many, best) in [
            ("gzip;q=0.5,", Gzip),
            (",", Br),
            (";q=", Br),
            ("x,", Br),
            ("*;q=0.1;", Br),
        ] {
            let value = format!("{}, br;q=0.4, *;q=0", many.repeat((1 << 20) / many.len()));
            assert_eq!(of(&value).best(&ALL), Some(best), "{many}");
        }
    }

    /// RFC 9110 §12.5.5.
    #[test]
    fn vary_names_a_field_once() {
        let name = b"Accept-Encoding";
        for (lines, count) in [
            (&[][..], 1),
            (&[("Vary", "Origin")], 2),
            (&[("Vary", "")], 2),
            (&[("Vary", "X-Accept-Encoding")], 2),
            (&[("Vary", "accept-encoding")], 1),
            (&[("Vary", "Origin,Accept-Encoding ")], 1),
            (&[("Vary", "Origin"), ("vary", "Accept-Encoding")], 2),
            (&[("Vary", "*")], 1),
        ] {
            let mut fields = fields(lines);
            vary(&mut fields, name);
            assert_eq!(fields.named(b"vary").count(), count, "{lines:?}");
            vary(&mut fields, name);
            assert_eq!(fields.named(b"vary").count(), count, "{lines:?}");
        }
    }
}
