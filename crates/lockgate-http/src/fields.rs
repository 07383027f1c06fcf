//! The fields of one head, in the received order and spelling.
//!
//! One buffer holds the text of the whole head; a line is two ranges of it. Names that framing,
//! forwarding, routing or a file server need are recognised once, while parsing, and found without
//! comparing text again.

use std::ops::Range;

/// Each known name: its variant, and its common spelling.
macro_rules! known {
    ($($known:ident $name:literal)*) => {
        /// The names of fields that this crate or its users look up.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Known {
            $(#[doc = concat!("`", $name, "`")] $known,)*
        }

        impl Known {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$known),*];

            /// The common spelling of the name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$known => $name,)*
                }
            }
        }
    };
}

known! {
    AcceptEncoding "Accept-Encoding"
    Connection "Connection"
    ContentLength "Content-Length"
    Date "Date"
    Expect "Expect"
    Forwarded "Forwarded"
    Host "Host"
    IfMatch "If-Match"
    IfModifiedSince "If-Modified-Since"
    IfNoneMatch "If-None-Match"
    IfRange "If-Range"
    IfUnmodifiedSince "If-Unmodified-Since"
    KeepAlive "Keep-Alive"
    LockgateTrace "Lockgate-Trace"
    MaxForwards "Max-Forwards"
    ProxyConnection "Proxy-Connection"
    Range "Range"
    Te "TE"
    Traceparent "Traceparent"
    Tracestate "Tracestate"
    Trailer "Trailer"
    TransferEncoding "Transfer-Encoding"
    Upgrade "Upgrade"
    Via "Via"
    XForwardedFor "X-Forwarded-For"
    XForwardedHost "X-Forwarded-Host"
    XForwardedProto "X-Forwarded-Proto"
    XRequestId "X-Request-Id"
}

impl Known {
    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The known name that `name` is, in any case.
    pub fn of(name: &[u8]) -> Option<Self> {
        // Length and first letter leave one candidate (If-Match and If-Range aside), and for most
        // names of that length none.
        let known = match (name.len(), name.first()? | 0x20) {
            (2, b't') => Self::Te,
            (3, b'v') => Self::Via,
            (4, b'h') => Self::Host,
            (4, b'd') => Self::Date,
            (5, b'r') => Self::Range,
            (6, b'e') => Self::Expect,
            (7, b'u') => Self::Upgrade,
            (7, b't') => Self::Trailer,
            (8, b'i') if name[3] | 0x20 == b'm' => Self::IfMatch,
            (8, b'i') => Self::IfRange,
            (9, b'f') => Self::Forwarded,
            (10, b'c') => Self::Connection,
            (10, b'k') => Self::KeepAlive,
            (10, b't') => Self::Tracestate,
            (11, b't') => Self::Traceparent,
            (12, b'm') => Self::MaxForwards,
            (12, b'x') => Self::XRequestId,
            (13, b'i') => Self::IfNoneMatch,
            (14, b'c') => Self::ContentLength,
            (14, b'l') => Self::LockgateTrace,
            (15, b'a') => Self::AcceptEncoding,
            (15, b'x') => Self::XForwardedFor,
            (16, b'p') => Self::ProxyConnection,
            (16, b'x') => Self::XForwardedHost,
            (17, b'i') => Self::IfModifiedSince,
            (17, b't') => Self::TransferEncoding,
            (17, b'x') => Self::XForwardedProto,
            (19, b'i') => Self::IfUnmodifiedSince,
            _ => return None,
        };
        is_spelled(known.name().as_bytes(), name).then_some(known)
    }
}

/// Whether a token is `known`, which has only letters and hyphens, in any case: setting one bit
/// lowers letters and keeps hyphens, and turns no other byte of a token into one of these.
fn is_spelled(known: &[u8], token: &[u8]) -> bool {
    known.len() == token.len() && known.iter().zip(token).all(|(a, b)| a | 0x20 == b | 0x20)
}

/// Whether applications that get fields as variables could confuse two names (RFC 3875 §4.1.18):
/// they see neither case nor a difference between `-` and `_`.
pub fn alike(name: &[u8], other: &[u8]) -> bool {
    let letter = |byte: &u8| {
        if *byte == b'_' {
            b'-'
        } else {
            byte.to_ascii_lowercase()
        }
    };
    name.len() == other.len() && name.iter().map(letter).eq(other.iter().map(letter))
}

/// A range of a head's text: half the size of a `Range<usize>`, and there are two in every line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TextSpan {
    start: u32,
    end: u32,
}

impl TextSpan {
    /// Limits keep heads far below 4 GB.
    pub(crate) fn new(range: Range<usize>) -> Self {
        Self {
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }
}

#[derive(Debug, Clone, Copy)]
struct FieldLine {
    name: TextSpan,
    value: TextSpan,
    known: Option<Known>,
    /// Whether the line is in the text as it would be written: `name: value` and CR LF.
    plain: bool,
}

impl FieldLine {
    /// The whole line in the text, if it is plain.
    fn whole(&self) -> Option<Range<usize>> {
        self.plain
            .then(|| self.name.start as usize..self.value.end as usize + 2)
    }
}

/// A field line: name and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name as it was written.
    pub name: &'a [u8],
    /// The value without the whitespace around it.
    pub value: &'a [u8],
    /// The known name, if it is one.
    pub known: Option<Known>,
}

/// The fields of a head.
#[derive(Debug, Default)]
pub struct Fields {
    /// The head as it was received, and behind it the added lines.
    text: Vec<u8>,
    lines: Vec<FieldLine>,
    /// A bit for each known name that may be there: most names that are looked up are not.
    present: u32,
}

impl Clone for Fields {
    fn clone(&self) -> Self {
        Self {
            text: self.text.clone(),
            lines: self.lines.clone(),
            present: self.present,
        }
    }

    /// Reuses memory: constant responses are cloned this way.
    fn clone_from(&mut self, from: &Self) {
        self.text.clone_from(&from.text);
        self.lines.clone_from(&from.lines);
        self.present = from.present;
    }
}

impl Fields {
    /// Clears the fields and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.present = 0;
    }

    /// Stores the text of the lines [pushed](Self::push) so far.
    pub(crate) fn hold(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Adds a line of `text`, which must be [held](Self::hold) after the last line.
    pub(crate) fn push(&mut self, text: &[u8], name: Range<usize>, value: Range<usize>) {
        let known = Known::of(&text[name.clone()]);
        let between = text.get(name.end..value.start);
        let behind = text.get(value.end..value.end + 2);
        let plain = between == Some(b": ") && behind == Some(b"\r\n");
        self.add(FieldLine {
            name: TextSpan::new(name),
            value: TextSpan::new(value),
            known,
            plain,
        });
    }

    fn add(&mut self, line: FieldLine) {
        if let Some(known) = line.known {
            self.present |= known.bit();
        }
        self.lines.push(line);
    }

    /// The number of field lines, repeated names included.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The bytes of memory that they have, used or not.
    pub fn memory(&self) -> usize {
        self.text.capacity() + self.lines.capacity() * size_of::<FieldLine>()
    }

    /// All field lines, in the received order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        self.lines.iter().map(|line| Field {
            name: line.name.of(&self.text),
            value: line.value.of(&self.text),
            known: line.known,
        })
    }

    /// Whether any of these names may be there: one look for names that most requests do not have.
    #[inline]
    pub fn may_have(&self, any: &[Known]) -> bool {
        self.present & any.iter().fold(0, |bits, known| bits | known.bit()) != 0
    }

    /// The value of a name with exactly one line: `None` without one, or with several.
    pub fn only(&self, known: Known) -> Option<&[u8]> {
        let mut values = self.values(known);
        values.next().filter(|_| values.next().is_none())
    }

    /// The values of one name, one per line.
    pub fn values(&self, known: Known) -> impl Iterator<Item = &[u8]> {
        let lines = if self.present & known.bit() == 0 {
            &[]
        } else {
            self.lines.as_slice()
        };
        lines
            .iter()
            .filter(move |line| line.known == Some(known))
            .map(|line| line.value.of(&self.text))
    }

    /// The value of a name's first line.
    pub fn first(&self, known: Known) -> Option<&[u8]> {
        self.values(known).next()
    }

    /// The elements of a list, over all lines of the name (RFC 9110 §5.6.1), without empty ones.
    ///
    /// For lists of tokens: a quoted string with a comma in it would be split.
    pub fn tokens(&self, known: Known) -> impl Iterator<Item = &[u8]> {
        self.values(known)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|token| !token.is_empty())
    }

    /// Whether a list has this token, in any case.
    pub fn has_token(&self, known: Known, token: &[u8]) -> bool {
        self.tokens(known)
            .any(|found| found.eq_ignore_ascii_case(token))
    }

    /// The values of any name, in any case.
    pub fn named(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }

    /// Appends the lines that `keep` selects to `out`, as they go over the wire.
    ///
    /// Adjacent lines of the received head are copied together.
    pub fn write(&self, out: &mut Vec<u8>, mut keep: impl FnMut(&Field<'_>) -> bool) {
        let mut run = 0..0;
        for line in &self.lines {
            let field = Field {
                name: line.name.of(&self.text),
                value: line.value.of(&self.text),
                known: line.known,
            };
            if !keep(&field) {
                continue;
            }
            match line.whole() {
                Some(whole) if whole.start == run.end => run.end = whole.end,
                Some(whole) => {
                    out.extend_from_slice(&self.text[std::mem::replace(&mut run, whole)])
                }
                None => {
                    out.extend_from_slice(&self.text[std::mem::take(&mut run)]);
                    crate::h1::encode::field(out, field.name, field.value);
                }
            }
        }
        out.extend_from_slice(&self.text[run]);
    }

    /// Adds a line at the end. The caller has checked name and value: they go over the wire as they
    /// are.
    pub fn append(&mut self, name: &[u8], value: &[u8]) {
        self.place(name, value, Known::of(name));
    }

    /// The same for a name that was looked up.
    pub(crate) fn place(&mut self, name: &[u8], value: &[u8], known: Option<Known>) {
        let start = self.text.len();
        crate::h1::encode::field(&mut self.text, name, value);
        let behind = start + name.len();
        let value = TextSpan::new(behind + 2..self.text.len() - 2);
        self.add(FieldLine {
            name: TextSpan::new(start..behind),
            value,
            known,
            plain: true,
        });
    }

    /// Removes the lines that `keep` does not select.
    pub fn retain(&mut self, mut keep: impl FnMut(Field<'_>) -> bool) {
        let text = &self.text;
        self.lines.retain(|line| {
            keep(Field {
                name: line.name.of(text),
                value: line.value.of(text),
                known: line.known,
            })
        });
    }

    /// Replaces values in place: `change` sees each line, writes a new value and returns whether it
    /// did.
    pub fn revise(&mut self, mut change: impl FnMut(Field<'_>, &mut Vec<u8>) -> bool) {
        let mut value = Vec::new();
        for line in &mut self.lines {
            let field = Field {
                name: line.name.of(&self.text),
                value: line.value.of(&self.text),
                known: line.known,
            };
            if change(field, &mut value) {
                let start = self.text.len();
                self.text.extend_from_slice(&value);
                line.value = TextSpan::new(start..self.text.len());
                line.plain = false;
            }
            value.clear();
        }
    }

    /// Removes every line of one name.
    pub fn remove(&mut self, known: Known) {
        self.lines.retain(|line| line.known != Some(known));
    }

    /// Replaces every line of one name with one line.
    pub fn set(&mut self, known: Known, value: &[u8]) {
        self.remove(known);
        self.append(known.name().as_bytes(), value);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.append(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    fn shown(fields: &Fields) -> Vec<String> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields
            .iter()
            .map(|field| format!("{}: {}", text(field.name), text(field.value)))
            .collect()
    }

    #[test]
    fn every_known_field_name_is_found_in_any_case() {
        for &known in Known::ALL {
            assert_eq!(Known::of(known.name().as_bytes()), Some(known));
            assert_eq!(
                Known::of(known.name().to_uppercase().as_bytes()),
                Some(known)
            );
        }
        for other in [
            "",
            "Hos",
            "Hosts",
            "Cookie",
            "Content_Length",
            "Transfer-Encodinh",
        ] {
            assert_eq!(Known::of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn field_order_and_spelling_are_kept() {
        let mut some = fields(&[("x-b", "1"), ("HOST", "a"), ("X-A", "2"), ("x-B", "3")]);
        assert_eq!(some.first(Known::Host), Some(&b"a"[..]));
        assert_eq!(some.named(b"X-b").collect::<Vec<_>>(), [b"1", b"3"]);
        some.set(Known::Host, b"b");
        some.retain(|field| field.value != b"2");
        assert_eq!(shown(&some), ["x-b: 1", "x-B: 3", "Host: b"]);
    }

    #[test]
    fn absent_fields_are_detected_without_a_search() {
        let mut some = fields(&[
            ("if-range", "a"),
            ("Range", "b"),
            ("RANGE", "c"),
            ("If_Match", "d"),
        ]);
        assert!(some.may_have(&[Known::IfMatch, Known::IfRange]));
        assert!(!some.may_have(&[Known::IfMatch, Known::IfNoneMatch]) && !some.may_have(&[]));
        assert_eq!(some.only(Known::IfRange), Some(&b"a"[..]));
        assert_eq!(
            [Known::Range, Known::IfMatch].map(|known| some.only(known)),
            [None; 2]
        );
        some.set(Known::Range, b"e");
        assert_eq!(some.only(Known::Range), Some(&b"e"[..]));
    }

    #[test]
    fn field_values_are_replaced_in_place() {
        let mut some = fields(&[("a", "1"), ("b", "2"), ("c", "3")]);
        some.revise(|field, value| {
            value.extend_from_slice(field.value);
            value.extend_from_slice(b"0");
            field.name != b"b"
        });
        assert_eq!(shown(&some), ["a: 10", "b: 2", "c: 30"]);
    }

    /// RFC 9110 §5.6.1: a recipient must parse and ignore empty elements.
    #[test]
    fn a_list_field_is_the_same_on_several_lines() {
        let list = |lines: &[(&str, &str)]| {
            let fields = fields(lines);
            fields
                .tokens(Known::Connection)
                .map(|token| String::from_utf8_lossy(token).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            list(&[("Connection", "close, TE"), ("connection", " x")]),
            ["close", "TE", "x"]
        );
        assert_eq!(list(&[("Connection", ",, a ,\t,b,")]), ["a", "b"]);
        assert!(list(&[("Connection", "")]).is_empty());
    }
}
