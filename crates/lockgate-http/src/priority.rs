//! Priorities of responses (RFC 9218): the request's field, the origin's override, the frame that
//! updates it.

use std::borrow::Cow;

use crate::fields::Fields;

mod dictionary;

use dictionary::MemberValue;

/// The priority of a response. A lower urgency is sooner; the default is that of RFC 9218 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 to 7; 7 is for background work (RFC 9218 §4.1).
    pub urgency: u8,
    /// Whether the client can process a part of the response, so that it may share bandwidth with
    /// others (RFC 9218 §4.2).
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// Parses a value of Priority; missing members get the default (RFC 9218 §4).
    ///
    /// `None` if it is no dictionary: then the whole value is ignored (RFC 9651 §4.2). An unknown
    /// member, or one with a wrong type or range, is ignored.
    pub fn parse(value: &[u8]) -> Option<Self> {
        Members::parse(value).map(|members| members.over(Self::default()))
    }

    /// The priority of a request, if it has one (RFC 9218 §5).
    pub fn of(fields: &Fields) -> Option<Self> {
        Members::of(fields).map(|members| members.over(Self::default()))
    }

    /// The priority after the response: the members that the origin sends override the client's
    /// (RFC 9218 §8).
    #[must_use]
    pub fn revised(self, answer: &Fields) -> Self {
        Members::of(answer).map_or(self, |members| members.over(self))
    }
}

/// Parses the payload of a PRIORITY_UPDATE (RFC 9218 §7.1): a stream and its new priority.
///
/// `None` if it is too short, names no stream, or the value is no dictionary.
pub fn priority_update(payload: &[u8]) -> Option<(u32, Priority)> {
    let (stream, value) = payload.split_first_chunk()?;
    let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
    if stream == 0 {
        None
    } else {
        Some((stream, Priority::parse(value)?))
    }
}

/// The valid members of a value.
#[derive(Default)]
struct Members {
    urgency: Option<u8>,
    incremental: Option<bool>,
}

impl Members {
    fn parse(value: &[u8]) -> Option<Self> {
        let mut members = Self::default();
        // RFC 9651 §4.2.2: of members with the same key the last one holds, here even an invalid
        // one.
        dictionary::parse(value, |key, item| match (key, item) {
            (b"u", MemberValue::Integer(urgency)) => {
                members.urgency = u8::try_from(urgency).ok().filter(|urgency| *urgency <= 7);
            }
            (b"i", MemberValue::Boolean(incremental)) => members.incremental = Some(incremental),
            (b"u", _) => members.urgency = None,
            (b"i", _) => members.incremental = None,
            _ => {}
        })?;
        Some(members)
    }

    fn of(fields: &Fields) -> Option<Self> {
        let mut lines = fields.named(b"priority");
        let mut value = Cow::Borrowed(lines.next()?);
        // RFC 9651 §4.2: several lines are one dictionary.
        for line in lines {
            let value = value.to_mut();
            value.extend_from_slice(b", ");
            value.extend_from_slice(line);
        }
        Self::parse(&value)
    }

    fn over(self, below: Priority) -> Priority {
        Priority {
            urgency: self.urgency.unwrap_or(below.urgency),
            incremental: self.incremental.unwrap_or(below.incremental),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    fn is(urgency: u8, incremental: bool) -> Option<Priority> {
        Some(Priority {
            urgency,
            incremental,
        })
    }

    /// RFC 9218 §4.
    #[test]
    fn a_priority_is_an_urgency_and_incremental() {
        for (value, priority) in [
            ("", is(3, false)),
            ("u=0", is(0, false)),
            ("u=7", is(7, false)),
            ("i", is(3, true)),
            ("u=5, i", is(5, true)),
            ("u=5,i=?1", is(5, true)),
            ("i=?0,\tu=1", is(1, false)),
            ("  u=2  ", is(2, false)),
            // RFC 9218 §4: "unknown priority parameters, priority parameters with out-of-range
            // values, or values of unexpected types MUST be ignored".
            ("u=8", is(3, false)),
            ("u=-1", is(3, false)),
            ("u=256", is(3, false)),
            ("u=999999999999999", is(3, false)),
            ("u=1.0", is(3, false)),
            ("u", is(3, false)),
            ("u=\"1\"", is(3, false)),
            ("u=a", is(3, false)),
            ("u=(1)", is(3, false)),
            ("u=?1, i=1", is(3, false)),
            ("u=1, i=1", is(1, false)),
            ("a=1, u=2, b, c=\"d\", i, e=(1 2)", is(2, true)),
            ("u=2;u=5;i, i;q=0.5", is(2, true)),
            // RFC 9651 §4.2.2: the last of the same key.
            ("u=1, u=2", is(2, false)),
            ("i, i=?0", is(3, false)),
            ("u=1, u=9", is(3, false)),
            ("u=1, u=a", is(3, false)),
            ("u=a, u=1", is(1, false)),
            ("i, i=1", is(3, false)),
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), priority, "{value:?}");
        }
    }

    /// RFC 9651 §4.2: then the whole value is ignored.
    #[test]
    fn a_malformed_priority_dictionary_is_ignored() {
        for value in [
            "u=1,",
            ",u=1",
            "u=1 i",
            "u=",
            "U=1",
            "u=1, i=?2",
            "u=1;",
            "u = 1",
            "u=1, a=(",
            "\u{e4}",
            "u=1\0",
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), None, "{value:?}");
        }
    }

    #[test]
    fn several_priority_lines_are_one_dictionary() {
        let of = |lines: &[(&str, &str)]| Priority::of(&fields(lines));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("x-priority", "u=1")]), None);
        assert_eq!(
            of(&[("Priority", "u=1"), ("x", "y"), ("priority", "i, u=2")]),
            is(2, true)
        );
        assert_eq!(of(&[("priority", "u=1"), ("priority", "=")]), None);
    }

    /// RFC 9218 §8: parameters that the response lacks are those of the request.
    #[test]
    fn a_response_priority_overrides_only_the_parameters_it_has() {
        let asked = Priority {
            urgency: 5,
            incremental: true,
        };
        let revised = |value| asked.revised(&fields(&[("priority", value)]));
        assert_eq!(asked.revised(&fields(&[])), asked);
        assert_eq!(Some(revised("u=1")), is(1, true));
        assert_eq!(Some(revised("i=?0")), is(5, false));
        assert_eq!(Some(revised("u=1, i=?0")), is(1, false));
        assert_eq!(["", "u=8", "u=a, i=1", "u=1,"].map(revised), [asked; 4]);
    }

    /// RFC 9218 §7.1.
    #[test]
    fn a_priority_update_names_a_stream() {
        let update = |stream: u32, value: &str| {
            let payload = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
            priority_update(&payload)
        };
        assert_eq!(
            update(5, "u=1, i"),
            is(1, true).map(|priority| (5, priority))
        );
        // An omitted parameter is the default again (§7).
        assert_eq!(
            update(0x8000_0005, ""),
            is(3, false).map(|priority| (5, priority))
        );
        assert_eq!(update(0, "u=1"), None);
        assert_eq!(update(5, "u=1,"), None);
        assert_eq!([&b""[..], b"\0\0\0"].map(priority_update), [None; 2]);
    }
}
