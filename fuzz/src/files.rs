//! What a file server reads of a request: conditions, ranges, codings. Each is checked against what
//! must follow from its parts, and dates against a second parser.

use std::time::{Duration, UNIX_EPOCH};

use lockgate_http::coding::{self, Accepted, ContentCoding};
use lockgate_http::conditional::{self, ConditionOutcome, Validators};
use lockgate_http::date;
use lockgate_http::fields::{Fields, Known};
use lockgate_http::head::Method;
use lockgate_http::range::{self, Boundary, ByteRange, MAX_RANGES, Multipart, Selection};

const CONDITIONS: [Known; 5] = [
    Known::IfMatch,
    Known::IfNoneMatch,
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfRange,
];
const ETAG: &[u8] = b"\"a\"";
const MODIFIED: u64 = 784_111_777;
const NOW: u64 = 1_795_305_600;

/// Any bytes as conditions: a line each, whose first byte says which.
pub fn conditional(data: &[u8]) {
    let mut fields = Fields::default();
    let mut dates = Vec::new();
    for line in data.split(|&byte| byte == b'\n') {
        let Some((kind, value)) = line.split_first() else {
            continue;
        };
        let value = value.trim_ascii();
        fields.append(
            CONDITIONS[usize::from(*kind) % CONDITIONS.len()]
                .name()
                .as_bytes(),
            value,
        );
        dates.push(value);
    }
    dates.into_iter().for_each(read_date);
    let current = Validators {
        etag: Some(ETAG),
        modified: Some(MODIFIED),
    };
    let of = |method| conditional::evaluate(method, &fields, &current, NOW);
    let (get, put) = (of(Method::Get), of(Method::Put));
    assert_eq!(of(Method::Head), get);
    assert_eq!(
        [Method::Options, Method::Trace, Method::Connect].map(of),
        [ConditionOutcome::Proceed; 3]
    );
    assert_ne!(put, ConditionOutcome::NotModified);
    if !fields.may_have(&CONDITIONS[..4]) {
        assert_eq!(
            (get, put),
            (ConditionOutcome::Proceed, ConditionOutcome::Proceed)
        );
    }
    if get == ConditionOutcome::PreconditionFailed {
        assert!(fields.may_have(&[Known::IfMatch, Known::IfUnmodifiedSince]));
        assert_eq!(put, get);
    }
    // RFC 9110 §5.3: lines of a list are one list.
    let mut merged = Fields::default();
    for known in CONDITIONS {
        let list = matches!(known, Known::IfMatch | Known::IfNoneMatch);
        let values: Vec<_> = fields.values(known).collect();
        if list && !values.is_empty() {
            merged.append(known.name().as_bytes(), &values.join(&b", "[..]));
        } else {
            values
                .iter()
                .for_each(|value| merged.append(known.name().as_bytes(), value));
        }
    }
    assert_eq!(
        conditional::evaluate(Method::Get, &merged, &current, NOW),
        get
    );
    // One that comes first is always found.
    for (known, outcome) in [
        (Known::IfMatch, ConditionOutcome::Proceed),
        (Known::IfNoneMatch, ConditionOutcome::NotModified),
    ] {
        let mut found = Fields::default();
        found.append(known.name().as_bytes(), ETAG);
        fields
            .values(known)
            .for_each(|value| found.append(known.name().as_bytes(), value));
        let of = conditional::evaluate(Method::Get, &found, &current, NOW);
        assert_eq!(of, outcome);
    }
    let applies = conditional::range_applies(&fields, &current, NOW);
    let lines = fields.values(Known::IfRange).count();
    assert!(lines == 1 || applies == (lines == 0));
    if applies && lines == 1 {
        let value = fields.first(Known::IfRange).expect("one line");
        assert!(value == ETAG || date::parse(value, NOW) == Some(MODIFIED));
        assert!(value == ETAG || !conditional::range_applies(&fields, &current, MODIFIED));
    }
}

fn read_date(value: &[u8]) {
    let ours = date::parse(value, NOW);
    if let Some(seconds) = ours {
        let written = date::imf_fixdate(seconds);
        assert_eq!(date::parse(&written, NOW), Some(seconds));
    }
    // It passes over any whitespace around a date, and takes another century for years of two
    // digits.
    let same = |value: &&str| value.trim() == *value && !value.contains('-');
    let theirs = std::str::from_utf8(value)
        .ok()
        .filter(same)
        .and_then(|value| httpdate::parse_http_date(value).ok());
    if let Some(theirs) = theirs {
        assert_eq!(
            ours.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)),
            Some(theirs)
        );
    }
}

/// Eight bytes for the size of a representation, and any bytes as a Range of it.
pub fn range(data: &[u8]) {
    let Some((size, value)) = data.split_first_chunk() else {
        return;
    };
    // Small ones as well as large ones.
    let size = u64::from_be_bytes(*size) >> (size[0] & 63);
    let value = value.trim_ascii();
    let selection = select(value, size);
    let parts = match &selection {
        Selection::Whole | Selection::Unsatisfiable => &[][..],
        Selection::Single(part) => std::slice::from_ref(part),
        Selection::Several(parts) => {
            assert!((2..=MAX_RANGES).contains(&parts.len()));
            parts
        }
    };
    let mut left = size;
    for part in parts {
        assert!(
            part.length > 0 && part.offset.checked_add(part.length).expect("no overflow") <= size
        );
        left = left
            .checked_sub(part.length)
            .expect("no more than there is");
        let mut written = Vec::new();
        range::content_range(&mut written, *part, size);
        assert_eq!(read_content_range(&written), (*part, size));
        let asked = format!("bytes={}-{}", part.offset, part.offset + (part.length - 1));
        assert_eq!(select(asked.as_bytes(), size), Selection::Single(*part));
    }
    if let Some(of_parts) = of_specs(value, size) {
        assert_eq!(selection, of_parts);
    }
    if let Selection::Several(parts) = selection {
        multipart(parts, size, value);
    }
}

fn select(value: &[u8], size: u64) -> Selection {
    let mut fields = Fields::default();
    fields.append(b"Range", value);
    range::select(Method::Get, &fields, size)
}

/// What follows from each range alone; `None` if there are none.
fn of_specs(value: &[u8], size: u64) -> Option<Selection> {
    let set = value.strip_prefix(b"bytes=")?;
    let specs: Vec<_> = set
        .split(|&byte| byte == b',')
        .filter(|spec| !spec.trim_ascii().is_empty())
        .collect();
    let mut parts = Vec::new();
    for spec in &specs {
        match select(&[b"bytes=", *spec].concat(), size) {
            Selection::Single(part) => parts.push(part),
            Selection::Unsatisfiable => {}
            Selection::Whole | Selection::Several(_) => return Some(Selection::Whole),
        }
    }
    let sum: u128 = parts.iter().map(|part| u128::from(part.length)).sum();
    Some(match parts.as_slice() {
        _ if specs.is_empty() || specs.len() > MAX_RANGES || sum > size.into() => Selection::Whole,
        [] => Selection::Unsatisfiable,
        [part] => Selection::Single(*part),
        _ => Selection::Several(parts),
    })
}

fn read_content_range(value: &[u8]) -> (ByteRange, u64) {
    let value = std::str::from_utf8(value).expect("digits");
    let (range, size) = value
        .strip_prefix("bytes ")
        .expect("bytes")
        .split_once('/')
        .expect("a size");
    let (first, last) = range.split_once('-').expect("a range");
    let [first, last, size] =
        [first, last, size].map(|digits| digits.parse::<u64>().expect("a number"));
    (
        ByteRange {
            offset: first,
            length: last - first + 1,
        },
        size,
    )
}

/// The length is exact, and who reads the body finds the parts where they are.
fn multipart(parts: Vec<ByteRange>, size: u64, media_type: &[u8]) {
    const LARGEST: u64 = 1 << 16;
    let boundary = Boundary::of(0x0123_4567_89ab_cdef << 32);
    let media_type = (!media_type.iter().any(u8::is_ascii_control)).then_some(media_type);
    let multipart = Multipart::new(parts.clone(), size, media_type, boundary);
    let (mut heads, mut end) = (Vec::new(), Vec::new());
    parts
        .iter()
        .for_each(|part| multipart.head(*part, &mut heads));
    multipart.end(&mut end);
    let bytes: u64 = parts.iter().map(|part| part.length).sum();
    assert_eq!(
        multipart.length(),
        ((heads.len() + end.len()) as u64).saturating_add(bytes)
    );
    if size > LARGEST {
        return;
    }
    let content: Vec<u8> = (0..size).map(|at| b'A' + (at % 26) as u8).collect();
    let of = |part: &ByteRange| &content[part.offset as usize..][..part.length as usize];
    let mut body = Vec::new();
    for part in multipart.parts() {
        multipart.head(*part, &mut body);
        body.extend_from_slice(of(part));
    }
    multipart.end(&mut body);
    assert_eq!(multipart.length(), body.len() as u64);
    let content_type = multipart.content_type();
    let boundary = content_type
        .strip_prefix(b"multipart/byteranges; boundary=")
        .expect("a boundary");
    let mut rest = body.as_slice();
    for part in &parts {
        let head = [b"\r\n--", boundary, b"\r\n"].concat();
        rest = rest
            .strip_prefix(head.as_slice())
            .expect("a boundary before a part");
        let end = rest
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .expect("the end of a head");
        let range = rest[..end]
            .windows(15)
            .rposition(|bytes| bytes == b"Content-Range: ")
            .expect("a range");
        assert_eq!(read_content_range(&rest[range + 15..end]), (*part, size));
        rest = rest[end + 4..].strip_prefix(of(part)).expect("its bytes");
    }
    assert_eq!(rest, [b"\r\n--", boundary, b"--\r\n"].concat());
}

/// Any bytes as lines of Accept-Encoding, and of Vary.
pub fn coding(data: &[u8]) {
    const ALL: [ContentCoding; 4] = [
        ContentCoding::Zstd,
        ContentCoding::Br,
        ContentCoding::Gzip,
        ContentCoding::Identity,
    ];
    let lines: Vec<_> = data
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .collect();
    let of = |lines: &[&[u8]]| {
        let mut fields = Fields::default();
        lines
            .iter()
            .for_each(|line| fields.append(b"Accept-Encoding", line));
        Accepted::of(&fields)
    };
    let accepted = of(&lines);
    // RFC 9110 §5.3: lines of a list are one list.
    assert_eq!(of(&[&lines.join(&b','), b""]), accepted);
    assert_eq!(
        accepted.takes_any(),
        ALL[..3].iter().any(|coding| accepted.takes(*coding))
    );
    for coding in ALL {
        assert_eq!(
            accepted.best(&[coding]),
            accepted.takes(coding).then_some(coding)
        );
        assert_eq!(ContentCoding::of(coding.name().as_bytes()), Some(coding));
        let named = has(data, coding.name()) || has(data, "*");
        assert!(named || accepted.takes(coding) == (coding == ContentCoding::Identity));
        // The first word on a coding holds.
        let refused = [&format!("{};q=0", coding.name()).into_bytes()[..]];
        assert!(!of(&[&refused[..], &lines[..]].concat()).takes(coding));
        let wanted = [coding.name().as_bytes()];
        assert!(of(&[&wanted[..], &lines[..]].concat()).takes(coding));
    }
    // What is chosen of all is chosen of any two that it is one of.
    match accepted.best(&ALL) {
        None => assert!(!ALL.iter().any(|coding| accepted.takes(*coding))),
        Some(best) => {
            for other in ALL {
                let pair: Vec<_> = ALL
                    .into_iter()
                    .filter(|coding| *coding == other || *coding == best)
                    .collect();
                assert_eq!(accepted.best(&pair), Some(best));
            }
        }
    }
    let mut fields = Fields::default();
    lines.iter().for_each(|line| fields.append(b"Vary", line));
    let before = fields.len();
    coding::vary(&mut fields, b"Accept-Encoding");
    let behind = fields.len();
    assert!(
        behind == before + 1
            || behind == before && (has(data, "*") || has(data, "accept-encoding"))
    );
    coding::vary(&mut fields, b"accept-encoding");
    assert_eq!(fields.len(), behind);
}

fn has(data: &[u8], text: &str) -> bool {
    data.to_ascii_lowercase()
        .windows(text.len())
        .any(|bytes| bytes == text.as_bytes())
}
