//! The trace of a request (W3C Trace Context): valid fields are forwarded as they are, invalid ones
//! not at all; a new trace may begin here.

use std::fmt;

use crate::fields::{Fields, Known};

/// The id of a trace: 32 hexadecimal digits that are not all 0 (Trace Context §3.2.2.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 32]);

/// Whether the party that begins a trace wants it to be recorded (Trace Context §3.2.2.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampled {
    /// Later hops are asked to record it.
    Yes,
    /// Later hops need not record it.
    No,
}

impl TraceId {
    /// The id in a value of `traceparent`; `None` if it is invalid (Trace Context §3.2.2).
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
        valid.then(|| trace.try_into().map(Self).ok()).flatten()
    }

    /// The trace of a request with these fields, if it is unambiguous. A field that Connection
    /// names is not forwarded (RFC 9110 §7.6.1): the next hop would be in another trace.
    pub fn of(fields: &Fields) -> Option<Self> {
        let ends_here = || fields.has_token(Known::Connection, b"traceparent");
        fields
            .only(Known::Traceparent)
            .and_then(Self::parse)
            .filter(|_| !ends_here())
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

    /// Begins a trace with the request and writes it into the request's fields. Both ids are
    /// hexadecimal digits; an id of all 0 becomes 1.
    pub fn begin(
        mut trace: [u8; 32],
        mut parent: [u8; 16],
        sampled: Sampled,
        fields: &mut Fields,
    ) -> Self {
        for id in [&mut trace[..], &mut parent[..]] {
            if let (true, Some(last)) = (id.iter().all(|digit| *digit == b'0'), id.last_mut()) {
                *last = b'1';
            }
        }
        let flags = match sampled {
            Sampled::Yes => b"01",
            Sampled::No => b"00",
        };
        fields.set(
            Known::Traceparent,
            &[&b"00"[..], &trace, &parent, flags].join(&b'-'),
        );
        Self(trace)
    }

    /// The 32 hexadecimal digits of the id.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
        TraceId::parse(value.as_bytes()).map(|id| id.as_str().to_owned())
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
        for (trace, parent) in [([b'0'; 32], [b'0'; 16]), ([b'a'; 32], [b'b'; 16])] {
            for (sampled, flags) in [(Sampled::Yes, "01"), (Sampled::No, "00")] {
                let mut fields = fields(&[]);
                let id = TraceId::begin(trace, parent, sampled, &mut fields);
                let value = fields.only(Known::Traceparent).unwrap().to_vec();
                assert!(value.ends_with(flags.as_bytes()));
                assert_eq!(TraceId::of(&fields), Some(id));
            }
        }
    }
}
