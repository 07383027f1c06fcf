//! Decoded field sections (RFC 9113 §4.3): where their fields go, and what the layer itself looks at.

use super::section::trailers;
use super::{Role, SectionError, request, response};
use crate::fields::{Fields, TextSpan};
use crate::h1::{HeadLimits, framing};
use crate::head::{RequestHead, ResponseHead};

/// Takes the fields of the section that [`receive`](super::Connection::receive) decodes.
pub trait FieldSink {
    /// A section begins: what is there of an earlier one is of no more use.
    fn begin(&mut self);

    /// The next field. The caller has checked nothing but the pseudo-fields of responses and trailers,
    /// which come first, and once.
    fn field(&mut self, name: &[u8], value: &[u8]);

    /// No more fields come: they exceed [`head_list`](super::LocalSettings::head_list).
    fn overflow(&mut self);
}

/// A decoded field section, from which a head or trailers are made. One serves all connections of a
/// thread.
#[derive(Debug, Default)]
pub struct FieldSection {
    text: Vec<u8>,
    /// Names and values.
    lines: Vec<(TextSpan, TextSpan)>,
    is_too_long: bool,
}

/// Text and lines beyond which memory is not kept for the next section.
const KEPT_TEXT: usize = 64 * 1024;
const KEPT_LINES: usize = 1024;

impl FieldSink for FieldSection {
    fn begin(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT_TEXT);
        self.lines.clear();
        self.lines.shrink_to(KEPT_LINES);
        self.is_too_long = false;
    }

    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(name);
        let middle = self.text.len();
        self.text.extend_from_slice(value);
        self.lines.push((
            TextSpan::new(start..middle),
            TextSpan::new(middle..self.text.len()),
        ));
    }

    fn overflow(&mut self) {
        self.is_too_long = true;
    }
}

impl FieldSection {
    /// Makes the head of a request, with all checks of [`request::request`].
    ///
    /// # Errors
    /// When it is malformed or exceeds `limits` or the head list.
    pub fn request(&self, limits: &HeadLimits, head: &mut RequestHead) -> Result<(), SectionError> {
        let mut method = None;
        let mut pseudo = request::PseudoFields::default();
        for (name, value) in self.fields().take_while(|(name, _)| is_pseudo(name)) {
            let before = match name {
                b":method" => method.replace(value),
                b":scheme" => pseudo.scheme.replace(value),
                b":authority" => pseudo.authority.replace(value),
                b":path" => pseudo.path.replace(value),
                b":protocol" => pseudo.protocol.replace(value),
                _ => return Err(SectionError::PseudoFields),
            };
            if before.is_some() {
                return Err(SectionError::PseudoFields);
            }
        }
        pseudo.method = method.unwrap_or_default();
        request::request(&pseudo, self.regular()?, limits, head).map_err(|error| {
            // RFC 9113 §8.3: before all others. No name of a field has a colon, so that it failed.
            let mut behind = self.fields().skip_while(|(name, _)| is_pseudo(name));
            if behind.any(|(name, _)| is_pseudo(name)) {
                SectionError::PseudoFields
            } else {
                error
            }
        })
    }

    /// Makes the head of a response, with all checks of [`response::response`].
    ///
    /// # Errors
    /// When it is malformed or exceeds `limits` or the head list.
    pub fn response(
        &self,
        limits: &HeadLimits,
        head: &mut ResponseHead,
    ) -> Result<(), SectionError> {
        let status = match self.fields().next() {
            Some((b":status", value)) => status(value).ok_or(SectionError::Status)?,
            _ => return Err(SectionError::PseudoFields),
        };
        response::response(status, self.regular()?, limits, head)
    }

    /// Makes trailers, with all checks of [`trailers`].
    ///
    /// # Errors
    /// When they are malformed or exceed `limits` or the head list.
    pub fn trailers(&self, limits: &HeadLimits, fields: &mut Fields) -> Result<(), SectionError> {
        trailers(self.regular()?, limits, fields)
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines
            .iter()
            .map(|(name, value)| (name.of(&self.text), value.of(&self.text)))
    }

    /// The fields behind the pseudo-fields.
    fn regular(&self) -> Result<impl Iterator<Item = (&[u8], &[u8])>, SectionError> {
        if self.is_too_long {
            return Err(SectionError::TooLong);
        }
        Ok(self.fields().skip_while(|(name, _)| is_pseudo(name)))
    }
}

fn is_pseudo(name: &[u8]) -> bool {
    name.first() == Some(&b':')
}

/// A status of three digits (RFC 9110 §15).
fn status(value: &[u8]) -> Option<u16> {
    match value {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
        }
        _ => None,
    }
}

/// What the layer must know of a section.
#[derive(Debug)]
pub(super) struct SectionScan {
    role: Role,
    head_list: u32,
    /// The bytes of the head list that are left.
    left: usize,
    /// Pseudo-fields that were there, as bits.
    pseudo: u8,
    has_regular: bool,
    is_misplaced: bool,
    pub(super) is_too_long: bool,
    /// Whether a field is too long to be passed over.
    pub(super) is_excessive: bool,
    pub(super) status: Option<u16>,
    /// The last valid Content-Length; heads with several are refused as they are made.
    pub(super) content_length: Option<u64>,
}

/// The bits of `:protocol`, and of a pseudo-field that such a message must not have.
const PROTOCOL: u8 = 1 << 4;
const UNKNOWN: u8 = 1 << 7;

impl SectionScan {
    /// For a section that a peer of `role` has sent.
    pub(super) fn new(role: Role, head_list: u32) -> Self {
        Self {
            role,
            head_list,
            left: head_list as usize,
            pseudo: 0,
            has_regular: false,
            is_misplaced: false,
            is_too_long: false,
            is_excessive: false,
            status: None,
            content_length: None,
        }
    }

    /// Looks at the next field; `false`: it is beyond the head list.
    #[inline]
    pub(super) fn see(&mut self, name: &[u8], value: &[u8]) -> bool {
        if is_pseudo(name) {
            self.see_pseudo(name, value);
        } else {
            self.has_regular = true;
            if name == b"content-length" {
                // The parser of heads: the length that is enforced must be the one that is forwarded.
                self.content_length = framing::length_of(value).ok();
            }
        }
        // RFC 9113 §6.5.2.
        match self.left.checked_sub(name.len() + value.len() + 32) {
            Some(left) if !self.is_too_long => {
                self.left = left;
                true
            }
            _ => {
                let longest = self.head_list as usize;
                self.is_excessive |=
                    name.len() > longest || self.is_too_long && value.len() > longest;
                false
            }
        }
    }

    fn see_pseudo(&mut self, name: &[u8], value: &[u8]) {
        let bit = match (self.role, name) {
            (Role::Client, b":method") => 1,
            (Role::Client, b":scheme") => 1 << 1,
            (Role::Client, b":authority") => 1 << 2,
            (Role::Client, b":path") => 1 << 3,
            (Role::Client, b":protocol") => PROTOCOL,
            (Role::Server, b":status") => {
                self.status = status(value);
                1
            }
            _ => UNKNOWN,
        };
        self.is_misplaced |= bit == UNKNOWN || self.pseudo & bit != 0 || self.has_regular;
        self.pseudo |= bit;
    }

    /// The bytes of fields within the head list.
    pub(super) fn size(&self) -> u32 {
        self.head_list - self.left as u32
    }

    /// Whether a pseudo-field is repeated, unknown, or behind another field (RFC 9113 §8.3).
    pub(super) fn is_misplaced(&self) -> bool {
        self.is_misplaced
    }

    pub(super) fn has_pseudo_fields(&self) -> bool {
        self.pseudo != 0
    }

    pub(super) fn has_protocol(&self) -> bool {
        self.pseudo & PROTOCOL != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Method;

    const LIMITS: HeadLimits = HeadLimits {
        head: 1024,
        fields: 8,
    };

    fn section(fields: &[(&str, &str)]) -> FieldSection {
        let mut section = FieldSection::default();
        section.field(b"an earlier", b"section");
        section.overflow();
        section.begin();
        for (name, value) in fields {
            section.field(name.as_bytes(), value.as_bytes());
        }
        section
    }

    #[test]
    fn a_decoded_section_becomes_a_head_or_trailers() {
        let request = section(&[
            (":method", "POST"),
            (":path", "/a"),
            (":scheme", "https"),
            (":authority", "b"),
            ("x", "1"),
        ]);
        let mut head = RequestHead::default();
        request.request(&LIMITS, &mut head).unwrap();
        assert_eq!((head.method, head.target()), (Method::Post, &b"/a"[..]));
        assert_eq!(head.fields.len(), 2, "Host and x");
        let mut response = ResponseHead::default();
        section(&[(":status", "206"), ("x", "1")])
            .response(&LIMITS, &mut response)
            .unwrap();
        assert_eq!((response.status, response.fields.len()), (206, 1));
        let mut trailers = Fields::default();
        section(&[("x", "1")])
            .trailers(&LIMITS, &mut trailers)
            .unwrap();
        assert_eq!(trailers.len(), 1);
    }

    /// RFC 9113 §8.3: pseudo-fields come first and once, and are those of a request.
    #[test]
    fn misplaced_pseudo_fields_make_no_request() {
        let whole = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "a"),
        ];
        let made =
            |fields: &[(&str, &str)]| section(fields).request(&LIMITS, &mut RequestHead::default());
        assert_eq!(made(&whole), Ok(()));
        for twice in whole {
            assert_eq!(
                made(&[&whole[..], &[twice]].concat()),
                Err(SectionError::PseudoFields)
            );
        }
        for place in 0..4 {
            let mut fields = whole.to_vec();
            fields.insert(place, ("x", "1"));
            assert_eq!(made(&fields), Err(SectionError::PseudoFields), "{place}");
        }
        for other in [":status", ":x", ":"] {
            let fields = [&whole[..], &[(other, "1")]].concat();
            assert_eq!(made(&fields), Err(SectionError::PseudoFields), "{other}");
        }
        // What came before in the same buffers is of no meaning.
        let mut section = section(&[("x", "1"), (":path", "/")]);
        section.begin();
        for (name, value) in whole {
            section.field(name.as_bytes(), value.as_bytes());
        }
        let mut head = RequestHead::default();
        assert_eq!(section.request(&LIMITS, &mut head), Ok(()));
    }

    #[test]
    fn a_section_beyond_the_head_list_makes_no_head() {
        let mut request = section(&[(":method", "GET"), (":path", "/"), (":scheme", "http")]);
        request.overflow();
        let mut head = RequestHead::default();
        assert_eq!(
            request.request(&LIMITS, &mut head),
            Err(SectionError::TooLong)
        );
        let response = section(&[(":status", "2x0")]);
        assert_eq!(
            response.response(&LIMITS, &mut ResponseHead::default()),
            Err(SectionError::Status)
        );
    }

    /// RFC 9113 §8.3: first, once, and those of such a message only.
    #[test]
    fn misplaced_pseudo_header_fields_are_seen() {
        for (role, names, misplaced) in [
            (
                Role::Client,
                &[":method", ":path", ":protocol", "x"][..],
                false,
            ),
            (Role::Client, &[":method", ":method"], true),
            (Role::Client, &["x", ":method"], true),
            (Role::Client, &[":status"], true),
            (Role::Client, &[":x"], true),
            (Role::Server, &[":status", "x", "x"], false),
            (Role::Server, &[":status", ":status"], true),
            (Role::Server, &["x", ":status"], true),
            (Role::Server, &[":method"], true),
            (Role::Server, &["x"], false),
        ] {
            let mut scan = SectionScan::new(role, 1000);
            for name in names {
                assert!(scan.see(name.as_bytes(), b"200"));
            }
            assert_eq!(scan.is_misplaced(), misplaced, "{names:?}");
            let any = names.iter().any(|name| name.starts_with(':'));
            assert_eq!(scan.has_pseudo_fields(), any, "{names:?}");
        }
    }
}
