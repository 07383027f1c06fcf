//! Conditional requests (RFC 9110 §13).
//!
//! Knows a representation only by its validators, and no clock. Allocates nothing; the time is
//! linear in the request.

use crate::date;
use crate::etag::{EntityTag, EntityTags};
use crate::fields::{Fields, Known};
use crate::head::Method;

/// The validators of the representation that a request would get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag as it is sent, with quotes; `None` if there is none. A malformed one counts
    /// as none.
    pub etag: Option<&'a [u8]>,
    /// The time of the last change, in seconds since 1970; `None` if unknown. The Last-Modified
    /// that is sent must not be later than the response's Date (RFC 9110 §8.8.2.1).
    pub modified: Option<u64>,
}

/// The result of a request's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// The request proceeds as without conditions.
    Proceed,
    /// 304, with the validators and the other fields that RFC 9110 §15.4.5 asks for, without a
    /// body.
    NotModified,
    /// 412: the request must not be performed.
    PreconditionFailed,
}

/// Evaluates the conditions of a request in the order of RFC 9110 §13.2.2. `now` is in seconds
/// since 1970.
///
/// Only for requests with a 2xx response if they had no conditions (§13.2.1).
pub fn evaluate(
    method: Method,
    fields: &Fields,
    current: &Validators<'_>,
    now: u64,
) -> ConditionOutcome {
    const CONDITIONS: [Known; 4] = [
        Known::IfMatch,
        Known::IfModifiedSince,
        Known::IfNoneMatch,
        Known::IfUnmodifiedSince,
    ];
    // §13.2.1: methods that neither select nor change a representation have no conditions.
    let no_matter = matches!(method, Method::Connect | Method::Options | Method::Trace);
    if !fields.may_have(&CONDITIONS) || no_matter {
        return ConditionOutcome::Proceed;
    }
    let failed = if fields.first(Known::IfMatch).is_some() {
        !lists(fields, Known::IfMatch, current, EntityTag::is_same)
    } else {
        since(fields, Known::IfUnmodifiedSince, current, now)
            .is_some_and(|since| since.modified > since.date)
    };
    if failed {
        return ConditionOutcome::PreconditionFailed;
    }
    let reads = matches!(method, Method::Get | Method::Head);
    if fields.first(Known::IfNoneMatch).is_some() {
        return match lists(fields, Known::IfNoneMatch, current, EntityTag::is_alike) {
            false => ConditionOutcome::Proceed,
            true if reads => ConditionOutcome::NotModified,
            true => ConditionOutcome::PreconditionFailed,
        };
    }
    // A future date was never our Last-Modified: until it has passed, every change would be missed.
    // Apache ignores it too, as RFC 2616 §14.25 did.
    let unmodified = since(fields, Known::IfModifiedSince, current, now)
        .is_some_and(|since| since.modified <= since.date && since.date <= now);
    if reads && unmodified {
        ConditionOutcome::NotModified
    } else {
        ConditionOutcome::Proceed
    }
}

/// Whether Range applies, by If-Range (RFC 9110 §13.1.5); without If-Range it does.
///
/// A date is compared as a strong validator: it must be our Last-Modified and at least a second old
/// (§8.8.2.2). Otherwise the content could have changed after the client got its part, in the same
/// second.
pub fn range_applies(fields: &Fields, current: &Validators<'_>, now: u64) -> bool {
    if fields.first(Known::IfRange).is_none() {
        return true;
    }
    let Some(value) = fields.only(Known::IfRange) else {
        return false;
    };
    if let Some(tag) = EntityTag::parse(value) {
        return current.tag().is_some_and(|current| current.is_same(tag));
    }
    current
        .modified
        .is_some_and(|modified| modified < now && date::parse(value, now) == Some(modified))
}

impl<'a> Validators<'a> {
    fn tag(&self) -> Option<EntityTag<'a>> {
        self.etag.and_then(EntityTag::parse)
    }
}

/// Whether a list has the current tag, or is `*`: there is any representation.
///
/// Tags behind the first malformed one, on any line, do not count: then a change is refused, and a
/// copy is sent anew.
fn lists<'a>(
    fields: &'a Fields,
    known: Known,
    current: &Validators<'a>,
    matches: fn(EntityTag<'a>, EntityTag<'a>) -> bool,
) -> bool {
    if fields.only(known) == Some(b"*") {
        return true;
    }
    let Some(current) = current.tag() else {
        return false;
    };
    for line in fields.values(known) {
        let mut tags = EntityTags::of(line);
        if tags.any(|tag| matches(current, tag)) {
            return true;
        }
        if tags.is_broken() {
            break;
        }
    }
    false
}

struct Since {
    modified: u64,
    date: u64,
}

/// A condition on the time of the last change. It is ignored if that time is unknown, or the value
/// is not one valid date (RFC 9110 §13.1.3, §13.1.4).
fn since(fields: &Fields, known: Known, current: &Validators<'_>, now: u64) -> Option<Since> {
    let date = date::parse(fields.only(known)?, now)?;
    Some(Since {
        modified: current.modified?,
        date,
    })
}

#[cfg(test)]
mod tests {
    use super::ConditionOutcome::{NotModified, PreconditionFailed, Proceed};
    use super::*;
    use crate::fields::tests::fields;

    const MODIFIED: u64 = 784_111_777;
    const NOW: u64 = 1_795_305_600;
    const CURRENT: Validators<'_> = Validators {
        etag: Some(b"\"a\""),
        modified: Some(MODIFIED),
    };
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const TO_COME: &str = "Fri, 31 Dec 2027 00:00:00 GMT";

    type Case<'a> = (Method, &'a [(&'a str, &'a str)], ConditionOutcome);

    #[track_caller]
    fn check(cases: &[Case<'_>]) {
        for (method, lines, outcome) in cases {
            assert_eq!(
                evaluate(*method, &fields(lines), &CURRENT, NOW),
                *outcome,
                "{method:?} {lines:?}"
            );
        }
    }

    /// RFC 9110 §13.1.1: strong comparison; `*` is true if there is a representation.
    #[test]
    fn if_match_uses_strong_comparison() {
        check(&[
            (Method::Get, &[("If-Match", "\"a\"")], Proceed),
            (Method::Put, &[("If-Match", "\"a\"")], Proceed),
            (Method::Put, &[("If-Match", "\"b\", \"a\"")], Proceed),
            (
                Method::Put,
                &[("If-Match", "\"b\""), ("if-match", "\"a\"")],
                Proceed,
            ),
            (Method::Put, &[("If-Match", "*")], Proceed),
            (Method::Get, &[("If-Match", "\"b\"")], PreconditionFailed),
            (Method::Put, &[("If-Match", "W/\"a\"")], PreconditionFailed),
            (Method::Put, &[("If-Match", "")], PreconditionFailed),
            (Method::Put, &[("If-Match", "a")], PreconditionFailed),
            (Method::Put, &[("If-Match", "a, \"a\"")], PreconditionFailed),
            (
                Method::Put,
                &[("If-Match", "\"b"), ("If-Match", "\"a\"")],
                PreconditionFailed,
            ),
            (Method::Put, &[("If-Match", "*, \"b\"")], PreconditionFailed),
            (
                Method::Put,
                &[("If-Match", "\"b\""), ("If-Match", "*")],
                PreconditionFailed,
            ),
        ]);
    }

    /// RFC 9110 §13.1.2: weak comparison; 304 for GET and HEAD, else 412.
    #[test]
    fn if_none_match_uses_weak_comparison() {
        check(&[
            (Method::Get, &[("If-None-Match", "\"a\"")], NotModified),
            (Method::Head, &[("If-None-Match", "W/\"a\"")], NotModified),
            (
                Method::Get,
                &[("If-None-Match", "\"b\",W/\"a\"")],
                NotModified,
            ),
            (
                Method::Get,
                &[("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")],
                NotModified,
            ),
            (Method::Get, &[("If-None-Match", "*")], NotModified),
            (Method::Put, &[("If-None-Match", "*")], PreconditionFailed),
            (
                Method::Post,
                &[("If-None-Match", "\"a\"")],
                PreconditionFailed,
            ),
            (Method::Get, &[("If-None-Match", "\"b\"")], Proceed),
            (Method::Put, &[("If-None-Match", "\"b\"")], Proceed),
            (Method::Get, &[("If-None-Match", "")], Proceed),
            (Method::Get, &[("If-None-Match", "a")], Proceed),
            (Method::Get, &[("If-None-Match", "\"a")], Proceed),
            (Method::Get, &[("If-None-Match", "x, \"a\"")], Proceed),
        ]);
    }

    /// RFC 9110 §13.1.3: ignored if it is no valid date, has more than one member, the method is
    /// another, or there is If-None-Match.
    #[test]
    fn if_modified_since_needs_a_later_modification() {
        check(&[
            (Method::Get, &[("If-Modified-Since", AT)], NotModified),
            (Method::Head, &[("If-Modified-Since", AFTER)], NotModified),
            (
                Method::Get,
                &[("If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT")],
                NotModified,
            ),
            (
                Method::Get,
                &[("If-Modified-Since", "Sun Nov  6 08:49:37 1994")],
                NotModified,
            ),
            (Method::Get, &[("If-Modified-Since", BEFORE)], Proceed),
            (Method::Get, &[("If-Modified-Since", TO_COME)], Proceed),
            (Method::Get, &[("If-Modified-Since", "")], Proceed),
            (Method::Get, &[("If-Modified-Since", "yesterday")], Proceed),
            (
                Method::Get,
                &[("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 +0100")],
                Proceed,
            ),
            (
                Method::Get,
                &[("If-Modified-Since", AT), ("If-Modified-Since", AT)],
                Proceed,
            ),
            (Method::Post, &[("If-Modified-Since", AT)], Proceed),
            (
                Method::Get,
                &[("If-None-Match", "\"b\""), ("If-Modified-Since", AT)],
                Proceed,
            ),
            (
                Method::Get,
                &[("If-None-Match", "?"), ("If-Modified-Since", AT)],
                Proceed,
            ),
            (
                Method::Get,
                &[("If-None-Match", "\"a\""), ("If-Modified-Since", BEFORE)],
                NotModified,
            ),
        ]);
    }

    /// RFC 9110 §13.1.4: ignored if it is no valid date, or there is If-Match.
    #[test]
    fn if_unmodified_since_needs_no_later_modification() {
        check(&[
            (Method::Get, &[("If-Unmodified-Since", AT)], Proceed),
            (Method::Put, &[("If-Unmodified-Since", AFTER)], Proceed),
            (Method::Put, &[("If-Unmodified-Since", TO_COME)], Proceed),
            (
                Method::Get,
                &[("If-Unmodified-Since", BEFORE)],
                PreconditionFailed,
            ),
            (
                Method::Put,
                &[("If-Unmodified-Since", BEFORE)],
                PreconditionFailed,
            ),
            (Method::Put, &[("If-Unmodified-Since", "never")], Proceed),
            (
                Method::Put,
                &[
                    ("If-Unmodified-Since", BEFORE),
                    ("If-Unmodified-Since", BEFORE),
                ],
                Proceed,
            ),
            (
                Method::Put,
                &[("If-Match", "\"a\""), ("If-Unmodified-Since", BEFORE)],
                Proceed,
            ),
            (
                Method::Put,
                &[("If-Match", "\"b\""), ("If-Unmodified-Since", AT)],
                PreconditionFailed,
            ),
        ]);
    }

    /// RFC 9110 §13.2.2.
    #[test]
    fn preconditions_are_evaluated_in_rfc_order() {
        check(&[
            (Method::Get, &[], Proceed),
            (
                Method::Get,
                &[("If-None-Match", "\"a\""), ("If-Match", "\"b\"")],
                PreconditionFailed,
            ),
            (
                Method::Get,
                &[("If-None-Match", "\"a\""), ("If-Match", "\"a\"")],
                NotModified,
            ),
            (
                Method::Get,
                &[("If-Unmodified-Since", BEFORE), ("If-None-Match", "\"a\"")],
                PreconditionFailed,
            ),
            (
                Method::Get,
                &[("If-Unmodified-Since", AT), ("If-Modified-Since", AT)],
                NotModified,
            ),
        ]);
    }

    /// RFC 9110 §13.2.1.
    #[test]
    fn methods_without_a_representation_ignore_conditions() {
        for method in [Method::Options, Method::Trace, Method::Connect] {
            check(&[
                (method, &[("If-Match", "\"b\"")], Proceed),
                (method, &[("If-None-Match", "*")], Proceed),
                (method, &[("If-Unmodified-Since", BEFORE)], Proceed),
            ]);
        }
    }

    /// RFC 9110 §13.1.3, §13.1.4: ignored if there is no modification date.
    #[test]
    fn without_validators_etags_and_dates_never_match() {
        let none = Validators {
            etag: None,
            modified: None,
        };
        for (lines, outcome) in [
            (("If-Match", "*"), Proceed),
            (("If-Match", "\"a\""), PreconditionFailed),
            (("If-None-Match", "\"a\""), Proceed),
            (("If-None-Match", "*"), NotModified),
            (("If-Modified-Since", AT), Proceed),
            (("If-Unmodified-Since", BEFORE), Proceed),
        ] {
            assert_eq!(
                evaluate(Method::Get, &fields(&[lines]), &none, NOW),
                outcome,
                "{lines:?}"
            );
        }
        assert!(!range_applies(&fields(&[("If-Range", AT)]), &none, NOW));
        assert!(!range_applies(
            &fields(&[("If-Range", "\"a\"")]),
            &none,
            NOW
        ));
        assert!(range_applies(&fields(&[]), &none, NOW));
    }

    /// RFC 9110 §13.1.5.
    #[test]
    fn if_range_needs_a_strong_match() {
        for (lines, applies) in [
            (&[][..], true),
            (&[("If-Range", "\"a\"")], true),
            (&[("If-Range", AT)], true),
            (&[("If-Range", "Sunday, 06-Nov-94 08:49:37 GMT")], true),
            (&[("If-Range", "\"b\"")], false),
            (&[("If-Range", "W/\"a\"")], false),
            (&[("If-Range", "\"a\", \"b\"")], false),
            (&[("If-Range", "*")], false),
            (&[("If-Range", "")], false),
            (&[("If-Range", "a")], false),
            // "exactly matches the Last-Modified": neither before nor after.
            (&[("If-Range", BEFORE)], false),
            (&[("If-Range", AFTER)], false),
            (&[("If-Range", "\"a\""), ("If-Range", "\"a\"")], false),
        ] {
            assert_eq!(
                range_applies(&fields(lines), &CURRENT, NOW),
                applies,
                "{lines:?}"
            );
        }
        let weak = Validators {
            etag: Some(b"W/\"a\""),
            ..CURRENT
        };
        assert!(!range_applies(
            &fields(&[("If-Range", "W/\"a\"")]),
            &weak,
            NOW
        ));
    }

    /// RFC 9110 §8.8.2.2.
    #[test]
    fn a_last_modified_in_this_second_is_no_strong_validator() {
        let lines = fields(&[("If-Range", AT)]);
        let applies = |now| range_applies(&lines, &CURRENT, now);
        assert_eq!(
            [MODIFIED - 1, MODIFIED, MODIFIED + 1].map(applies),
            [false, false, true]
        );
    }

    #[test]
    fn a_megabyte_of_etags_is_read_once() {
        let long = "\"b\",".repeat(1 << 18);
        let broken = "\"b".repeat(1 << 19);
        for (value, outcome) in [
            (format!("{long}\"a\""), NotModified),
            (long, Proceed),
            (broken, Proceed),
        ] {
            let fields = fields(&[("If-None-Match", &value)]);
            assert_eq!(evaluate(Method::Get, &fields, &CURRENT, NOW), outcome);
        }
    }
}
