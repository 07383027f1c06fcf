//! The trace of a request (W3C Trace Context): valid fields are forwarded as they are, or with us as
//! the parent of what follows; invalid ones not at all; a new trace may begin here.

use std::fmt;

use crate::fields::{Fields, Known};

/// The id of a trace: 32 hexadecimal digits that are not all 0 (Trace Context §3.2.2.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 32]);

/// The id of a span, one party's part of a trace: 16 hexadecimal digits that are not all 0 (Trace
/// Context §3.2.2.4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpanId([u8; 16]);

/// The flags of a trace (Trace Context §3.2.2.5); those that are not known are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceFlags(u8);

/// A valid `traceparent` (Trace Context §3.2.2): what one party tells the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The span that the next one belongs to.
    pub span: SpanId,
    /// The flags.
    pub flags: TraceFlags,
}

impl TraceFlags {
    /// Later hops need not record the trace.
    pub const NONE: Self = Self(0);
    /// Later hops are asked to record the trace (§3.2.2.5.1).
    pub const SAMPLED: Self = Self(1);
    /// The id of the trace was drawn by lot (§3.2.2.5.2 of level 2), which is handed on.
    const RANDOM: u8 = 2;

    /// Whether later hops are asked to record the trace.
    pub fn is_sampled(self) -> bool {
        self.0 & Self::SAMPLED.0 != 0
    }

    /// The flags as a number from 0 to 255.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl TraceParent {
    /// Reads a value of `traceparent`; `None` if it is invalid (Trace Context §3.2.2).
    ///
    /// Of later versions, the part that they must have in common with ours is read (§3.2.4).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, rest) = value.split_first_chunk::<55>()?;
        let (version, trace, parent, flags) =
            (&known[..2], &known[3..35], &known[36..52], &known[53..]);
        let dashes = [2, 35, 52].iter().all(|&place| known[place] == b'-');
        let ends = rest.is_empty() || version != b"00" && rest.starts_with(b"-");
        let hex = [version, trace, parent, flags]
            .into_iter()
            .flatten()
            .all(|digit| is_digit(*digit));
        let some = |digits: &[u8]| digits.iter().any(|digit| *digit != b'0');
        // §3.2.2.1: "Version ff is invalid."
        let valid = dashes && ends && hex && version != b"ff" && some(trace) && some(parent);
        if !valid {
            return None;
        }
        let [.., low] = flags else { return None };
        Some(Self {
            trace: TraceId(trace.try_into().ok()?),
            span: SpanId(parent.try_into().ok()?),
            flags: TraceFlags(digit(*low) & (TraceFlags::SAMPLED.0 | TraceFlags::RANDOM)),
        })
    }

    /// What a request with these fields was told, if it is unambiguous. A field that Connection
    /// names is not forwarded (RFC 9110 §7.6.1): the next hop would be in another trace.
    pub fn of(fields: &Fields) -> Option<Self> {
        let ends_here = || fields.has_token(Known::Connection, b"traceparent");
        fields
            .only(Known::Traceparent)
            .and_then(Self::parse)
            .filter(|_| !ends_here())
    }

    /// Writes it into the fields of a request for the next party, in version 00, the highest that is
    /// known here (Trace Context §3.2.4).
    pub fn write(&self, fields: &mut Fields) {
        let flags = [b'0', b"0123456789abcdef"[usize::from(self.flags.0 & 15)]];
        fields.set(
            Known::Traceparent,
            &[&b"00"[..], &self.trace.0, &self.span.0, &flags].join(&b'-'),
        );
    }
}

impl TraceId {
    /// The id of these hexadecimal digits, in small letters; all 0 become 1.
    pub fn new(digits: [u8; 32]) -> Self {
        Self(not_zero(digits))
    }

    /// The trace of a request with these fields, as [`TraceParent::of`] reads it.
    pub fn of(fields: &Fields) -> Option<Self> {
        TraceParent::of(fields).map(|told| told.trace)
    }

    /// Whether these fields, which belong to no trace, have any fields of a trace that must be
    /// [removed](Self::remove).
    pub fn is_in_doubt(fields: &Fields) -> bool {
        fields.may_have(&[Known::Traceparent, Known::Tracestate])
    }

    /// Removes the fields of a trace: `tracestate` means nothing without a valid `traceparent`
    /// (Trace Context §3.3).
    pub fn remove(fields: &mut Fields) {
        fields.remove(Known::Traceparent);
        fields.remove(Known::Tracestate);
    }

    /// The 32 hexadecimal digits of the id.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The id in bytes.
    pub fn bytes(&self) -> [u8; 16] {
        bytes(&self.0)
    }
}

impl SpanId {
    /// The id of these hexadecimal digits, in small letters; all 0 become 1.
    pub fn new(digits: [u8; 16]) -> Self {
        Self(not_zero(digits))
    }

    /// The 16 hexadecimal digits of the id.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The id in bytes.
    pub fn bytes(&self) -> [u8; 8] {
        bytes(&self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An id of all 0 is invalid.
fn not_zero<const N: usize>(mut digits: [u8; N]) -> [u8; N] {
    if let (true, Some(last)) = (digits.iter().all(|digit| *digit == b'0'), digits.last_mut()) {
        *last = b'1';
    }
    digits
}

/// The bytes of hexadecimal digits.
fn bytes<const N: usize>(digits: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
    bytes
}

/// The value of a hexadecimal digit in small letters.
fn digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => 0,
    }
}

/// Trace Context §3.2.2: `HEXDIGLC`, lower case.
fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn id(value: &str) -> Option<String> {
        TraceParent::parse(value.as_bytes()).map(|told| told.trace.as_str().to_owned())
    }

    #[test]
    fn a_trace_id_is_read_from_valid_traceparent_only() {
        for (value, valid, why) in [
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                true,
                "§3.2.3",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
                true,
                "§3.2.3",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff",
                true,
                "§3.2.2.5.2: others are passed over",
            ),
            (
                "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                false,
                "§3.2.2.1",
            ),
            (
                "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                false,
                "§3.2.2.1",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
                false,
                "§3.2.2.2: of 00 that is all",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
                false,
                "§3.2.2.2",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
                false,
                "§3.2.2.2",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
                false,
                "§3.2.2.2",
            ),
            (
                "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
                false,
                "§3.2.2.2",
            ),
            (
                "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                false,
                "§3.2.2.3",
            ),
            (
                "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                false,
                "§3.2.2.3: small letters",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e473-000f067aa0ba902b7-01",
                false,
                "§3.2.2.3",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                false,
                "§3.2.2.4",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902bX-01",
                false,
                "§3.2.2.4",
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
                false,
                "§3.2.2.5",
            ),
            (
                "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                true,
                "§3.2.4",
            ),
            (
                "fe-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes",
                true,
                "§3.2.4",
            ),
            (
                "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
                true,
                "§3.2.4",
            ),
            (
                "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.x",
                false,
                "§3.2.4: a dash, or the end",
            ),
            (
                "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-012",
                false,
                "§3.2.4",
            ),
            ("", false, "§3.2.2"),
        ] {
            assert_eq!(
                id(value).as_deref(),
                valid.then_some(TRACE),
                "{value:?}: {why}"
            );
        }
        assert_eq!(id(&"0".repeat(1_000_000)), None);
    }

    #[test]
    fn traceparent_named_by_connection_is_ignored() {
        let good = format!("00-{TRACE}-00f067aa0ba902b7-01");
        for (named, stays) in [
            ("close", true),
            ("tracestate", true),
            ("close, TraceParent", false),
        ] {
            let fields = fields(&[
                ("connection", named),
                ("traceparent", &good),
                ("tracestate", "a=1"),
            ]);
            assert_eq!(TraceId::of(&fields).is_some(), stays, "{named}");
            assert!(TraceId::is_in_doubt(&fields), "{named}");
        }
    }

    #[test]
    fn an_invalid_traceparent_is_removed_with_tracestate() {
        let good = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let settled = |lines: &[(&str, &str)]| {
            let mut fields = fields(lines);
            let id = TraceId::of(&fields);
            if id.is_none() && TraceId::is_in_doubt(&fields) {
                TraceId::remove(&mut fields);
            }
            (
                id.is_some(),
                fields
                    .iter()
                    .map(|field| field.value.to_vec())
                    .collect::<Vec<_>>(),
            )
        };
        let state = ("TraceState", "a=1");
        assert_eq!(
            settled(&[
                ("Traceparent", &good),
                state,
                ("tracestate", "b=2"),
                ("x", "y")
            ]),
            (
                true,
                vec![
                    good.clone().into_bytes(),
                    b"a=1".to_vec(),
                    b"b=2".to_vec(),
                    b"y".to_vec()
                ]
            )
        );
        for lines in [
            &[("traceparent", "x"), state, ("x", "y")][..],
            &[state, ("x", "y")],
            &[
                ("traceparent", &good),
                ("Traceparent", &good),
                state,
                ("x", "y"),
            ],
            &[("x", "y")],
        ] {
            assert_eq!(settled(lines), (false, vec![b"y".to_vec()]), "{lines:?}");
        }
    }

    #[test]
    fn a_new_traceparent_is_valid() {
        for (trace, span) in [([b'0'; 32], [b'0'; 16]), ([b'a'; 32], [b'b'; 16])] {
            for (flags, written) in [(TraceFlags::SAMPLED, "01"), (TraceFlags::NONE, "00")] {
                let mut fields = fields(&[("Traceparent", "x"), ("traceparent", "y")]);
                let told = TraceParent {
                    trace: TraceId::new(trace),
                    span: SpanId::new(span),
                    flags,
                };
                told.write(&mut fields);
                let value = fields.only(Known::Traceparent).unwrap().to_vec();
                assert!(value.ends_with(written.as_bytes()));
                assert_eq!(TraceParent::of(&fields), Some(told));
            }
        }
    }

    #[test]
    fn traceparent_is_handed_on_with_its_known_flags_in_version_00() {
        let span = "00f067aa0ba902b7";
        for (version, flags, sampled, written, why) in [
            ("00", "00", false, "00", "§3.2.2.5.1"),
            ("00", "01", true, "01", "§3.2.2.5.1"),
            ("00", "03", true, "03", "level 2, §3.2.2.5.2"),
            ("00", "02", false, "02", "level 2, §3.2.2.5.2"),
            ("00", "fd", true, "01", "§3.2.2.5.2: others are set to 0"),
            ("cc", "01", true, "01", "§3.2.4: our version"),
        ] {
            let value = format!("{version}-{TRACE}-{span}-{flags}");
            let told = TraceParent::parse(value.as_bytes()).unwrap();
            assert_eq!(told.flags.is_sampled(), sampled, "{why}");
            let mut fields = fields(&[]);
            told.write(&mut fields);
            let expected = format!("00-{TRACE}-{span}-{written}");
            let found = fields.only(Known::Traceparent);
            assert_eq!(found, Some(expected.as_bytes()), "{why}");
        }
    }

    #[test]
    fn ids_have_the_bytes_of_their_digits() {
        let told = TraceParent::parse(format!("00-{TRACE}-00f067aa0ba902b7-01").as_bytes());
        let told = told.unwrap();
        let trace = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128;
        assert_eq!(told.trace.bytes(), trace.to_be_bytes());
        assert_eq!(told.span.bytes(), 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
        assert_eq!(TraceId::new([b'0'; 32]).bytes(), 1_u128.to_be_bytes());
        assert_eq!(SpanId::new([b'0'; 16]).as_str(), "0000000000000001");
    }
}
