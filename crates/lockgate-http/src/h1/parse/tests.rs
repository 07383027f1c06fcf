//! Heads: bytes in, fields out. Each refusal names the section that requires it.

use super::*;
use crate::fields::Known;

const LIMITS: HeadLimits = HeadLimits {
    head: 1024,
    fields: 4,
};

fn read(input: &[u8]) -> Result<Option<(usize, RequestHead)>, HeadError> {
    let mut head = RequestHead::default();
    let taken = request(input, &mut HeadProgress::default(), &LIMITS, &mut head)?;
    Ok(taken.map(|taken| (taken, head)))
}

fn answer(input: &[u8]) -> Result<Option<(usize, ResponseHead)>, HeadError> {
    let mut head = ResponseHead::default();
    let taken = response(input, &mut HeadProgress::default(), &LIMITS, &mut head)?;
    Ok(taken.map(|taken| (taken, head)))
}

#[test]
fn a_request_head_is_read_as_written() {
    let input =
        b"GET /a?b=%20 HTTP/1.1\r\nHOST: example.com\r\nX-Y:\t z z\t \r\nEmpty:\r\n\r\nbody";
    let (taken, head) = read(input).unwrap().unwrap();
    assert_eq!(taken, input.len() - 4);
    assert_eq!(
        (head.method, head.method_name(), head.target()),
        (Method::Get, &b"GET"[..], &b"/a?b=%20"[..])
    );
    assert_eq!(head.version, HttpVersion::Http11);
    assert_eq!(head.fields.first(Known::Host), Some(&b"example.com"[..]));
    let lines: Vec<_> = head
        .fields
        .iter()
        .map(|field| (field.name, field.value))
        .collect();
    assert_eq!(lines[1..], [(&b"X-Y"[..], &b"z z"[..]), (b"Empty", b"")]);
}

#[test]
fn a_head_may_arrive_in_any_pieces() {
    let input = b"POST / HTTP/1.0\r\nA: b\r\n\r\n";
    let (mut progress, mut head) = (HeadProgress::default(), RequestHead::default());
    for end in 0..input.len() {
        assert_eq!(
            request(&input[..end], &mut progress, &LIMITS, &mut head),
            Ok(None),
            "{end}"
        );
    }
    assert_eq!(
        request(input, &mut progress, &LIMITS, &mut head),
        Ok(Some(input.len()))
    );
    assert_eq!(
        (head.method, head.version, head.fields.len()),
        (Method::Post, HttpVersion::Http10, 1)
    );
    // The next head on the same connection starts anew.
    let next = b"PUT /next HTTP/1.1\r\n\r\n";
    assert_eq!(
        request(next, &mut progress, &LIMITS, &mut head),
        Ok(Some(next.len()))
    );
    assert_eq!((head.target(), head.fields.len()), (&b"/next"[..], 0));
}

/// Otherwise a line that comes byte by byte would be parsed as often as it has bytes.
#[test]
fn no_byte_of_a_line_is_parsed_twice() {
    let (mut progress, mut head) = (HeadProgress::default(), RequestHead::default());
    let input = b"GET /aaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(request(input, &mut progress, &LIMITS, &mut head), Ok(None));
    assert_eq!(progress.scanned, input.len());
    let input = b"GET / HTTP/1.1\r\nA: bbbbbbbbbbbb\r\n\r";
    assert_eq!(request(input, &mut progress, &LIMITS, &mut head), Ok(None));
    assert_eq!(
        progress.scanned,
        input.len() - 2,
        "the empty line may begin here"
    );
}

/// RFC 9112 §2.2: at least one empty line is skipped. No client is known to send more.
#[test]
fn one_empty_line_may_precede_a_request() {
    assert_eq!(read(b"\r\nGET / HTTP/1.1\r\n\r\n").unwrap().unwrap().0, 20);
    assert_eq!(read(b"\r").unwrap().map(|_| ()), None);
    assert_eq!(read(b"\r\n").unwrap().map(|_| ()), None);
    assert_eq!(
        read(b"\r\n\r\nGET / HTTP/1.1\r\n\r\n").unwrap_err(),
        HeadError::FirstLine
    );
    assert_eq!(
        answer(b"\r\nHTTP/1.1 200 OK\r\n\r\n").unwrap_err(),
        HeadError::FirstLine
    );
}

#[test]
fn methods_are_tokens_and_case_sensitive() {
    assert_eq!(
        read(b"get / HTTP/1.1\r\n\r\n").unwrap().unwrap().1.method,
        Method::Other
    );
    assert_eq!(
        read(b"M-SEARCH / HTTP/1.1\r\n\r\n")
            .unwrap()
            .unwrap()
            .1
            .method_name(),
        b"M-SEARCH"
    );
}

#[test]
fn malformed_request_lines_are_refused() {
    // RFC 9112 §3: method SP request-target SP HTTP-version, one space each.
    for line in [
        "GET /",
        "GET",
        "",
        " GET / HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET\t/ HTTP/1.1",
        "GET / a HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET /\u{e4} HTTP/1.1",
        "GET /\u{7f} HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/11",
        "GET / HTTP/1.",
        "GET / HTTP/1.10",
        "GET / HTTP/a.b",
        "GET / FTP/1.1",
        "GET /\0 HTTP/1.1",
    ] {
        let input = format!("{line}\r\nHost: a\r\n\r\n");
        assert_eq!(
            read(input.as_bytes()).unwrap_err(),
            HeadError::FirstLine,
            "{line:?}"
        );
    }
    // RFC 9110 §15.6.6.
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/3.1"] {
        assert_eq!(
            read(format!("GET / {version}\r\n\r\n").as_bytes()).unwrap_err(),
            HeadError::Version
        );
    }
    // RFC 9110 §2.5: a later minor version is read as the latest known one.
    assert_eq!(
        read(b"GET / HTTP/1.2\r\n\r\n").unwrap().unwrap().1.version,
        HttpVersion::Http11
    );
}

#[test]
fn malformed_field_lines_are_refused() {
    use HeadError::*;
    for (line, error) in [
        ("Host : a", FieldName), // RFC 9112 §5.1
        ("Host\t: a", FieldName),
        (": a", FieldName),
        ("Host", FieldName),
        ("Ho st: a", FieldName),
        ("H\u{e4}: a", FieldName),
        ("A: b\r\n c", Folded), // RFC 9112 §5.2
        ("A: b\r\n\tc", Folded),
        (" A: b", Folded),      // RFC 9112 §2.2: whitespace before the first field
        ("A: b\0", FieldValue), // RFC 9110 §5.5
        ("A: \u{1}", FieldValue),
        ("A: \u{7f}", FieldValue),
        ("A: b\nB: c", LineEnd), // RFC 9112 §2.2
        ("A: b\rB: c", LineEnd),
        ("A: b\r\r\nB: c", LineEnd),
        ("\rA: b", FieldName),
    ] {
        let input = format!("GET / HTTP/1.1\r\n{line}\r\n\r\n");
        assert_eq!(read(input.as_bytes()).unwrap_err(), error, "{line:?}");
    }
}

/// Waiting for the rest of a head that cannot become valid would be in vain.
#[test]
fn a_bare_line_feed_is_refused_at_once() {
    assert_eq!(
        read(b"GET / HTTP/1.1\nHost: a\n\n").unwrap_err(),
        HeadError::LineEnd
    );
    assert_eq!(read(b"\n").unwrap_err(), HeadError::LineEnd);
    let (mut progress, mut head) = (HeadProgress::default(), RequestHead::default());
    assert_eq!(
        request(b"GET / HTTP/1.1\r\nA: b", &mut progress, &LIMITS, &mut head),
        Ok(None)
    );
    let more = request(
        b"GET / HTTP/1.1\r\nA: b\n",
        &mut progress,
        &LIMITS,
        &mut head,
    );
    assert_eq!(more, Err(HeadError::LineEnd));
}

/// RFC 9110 §5.5: bytes above 127 are opaque to a recipient, and are kept.
#[test]
fn field_values_may_contain_obs_text() {
    let (_, head) = read(b"GET / HTTP/1.1\r\nA: \xff\tb\xc3\xa4\r\n\r\n")
        .unwrap()
        .unwrap();
    assert_eq!(
        head.fields.named(b"a").next(),
        Some(&b"\xff\tb\xc3\xa4"[..])
    );
}

#[test]
fn head_limits_hold_to_the_byte_and_line() {
    let with = |value: usize| format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(value));
    let fits = LIMITS.head - with(0).len();
    assert!(read(with(fits).as_bytes()).unwrap().is_some());
    assert_eq!(
        read(with(fits + 1).as_bytes()).unwrap_err(),
        HeadError::TooLong
    );
    // Even before the end is there.
    assert_eq!(
        read(with(fits).as_bytes()[..LIMITS.head - 1].into())
            .unwrap()
            .map(|_| ()),
        None
    );
    // RFC 9112 §3: when the first line exceeds the limit, the target is to blame.
    let line = |target: usize| format!("GET /{} HTTP/1.1\r\n", "a".repeat(target));
    let begun = LIMITS.head - line(0).len();
    assert_eq!(
        read(line(begun).as_bytes()).unwrap_err(),
        HeadError::TooLong
    );
    assert_eq!(
        read(line(begun + 1).as_bytes()).unwrap_err(),
        HeadError::TargetTooLong
    );
    assert_eq!(
        read(&[b'a'; LIMITS.head]).unwrap_err(),
        HeadError::TargetTooLong
    );
    let answered = format!("HTTP/1.1 200 {}\r\n\r\n", "a".repeat(LIMITS.head));
    assert_eq!(answer(answered.as_bytes()).unwrap_err(), HeadError::TooLong);
    let lines = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(read(lines(LIMITS.fields).as_bytes()).unwrap().is_some());
    assert_eq!(
        read(lines(LIMITS.fields + 1).as_bytes()).unwrap_err(),
        HeadError::TooManyFields
    );
    let status = HeadError::status;
    assert_eq!(
        [
            HeadError::TooLong,
            HeadError::TooManyFields,
            HeadError::TargetTooLong
        ]
        .map(status),
        [431, 431, 414]
    );
}

#[test]
fn a_response_head_is_read_as_written() {
    let input = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc";
    let (taken, head) = answer(input).unwrap().unwrap();
    assert_eq!(
        (taken, head.status, head.reason()),
        (input.len() - 3, 404, &b"Not Found"[..])
    );
    assert_eq!(head.fields.first(Known::ContentLength), Some(&b"3"[..]));
    // RFC 9112 §4: a reason phrase may be absent; its space is sometimes omitted then.
    for line in ["HTTP/1.0 200 ", "HTTP/1.0 200"] {
        let (_, head) = answer(format!("{line}\r\n\r\n").as_bytes())
            .unwrap()
            .unwrap();
        assert_eq!(
            (head.version, head.status, head.reason()),
            (HttpVersion::Http10, 200, &b""[..])
        );
    }
    assert_eq!(
        answer(b"HTTP/1.1 200 \xc3\xa4\r\n\r\n")
            .unwrap()
            .unwrap()
            .1
            .reason(),
        b"\xc3\xa4"
    );
}

#[test]
fn malformed_status_lines_are_refused() {
    for line in [
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1 20",
        "HTTP/1.1 2000",
        "HTTP/1.1 20a OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 099 X",
        "HTTP/1.1 200OK",
        "HTTP/1.1 -20 OK",
        "http/1.1 200 OK",
        "ICY 200 OK",
        "HTTP/1.1 200 O\0K",
        "",
    ] {
        let input = format!("{line}\r\n\r\n");
        assert_eq!(
            answer(input.as_bytes()).unwrap_err(),
            HeadError::FirstLine,
            "{line:?}"
        );
    }
    assert_eq!(
        answer(b"HTTP/2.0 200 OK\r\n\r\n").unwrap_err(),
        HeadError::Version
    );
}

#[test]
fn interim_responses_are_1xx_except_101() {
    let interim = |status: u16| {
        let input = format!("HTTP/1.1 {status} X\r\n\r\n");
        answer(input.as_bytes()).unwrap().unwrap().1.is_interim()
    };
    assert_eq!(
        [100, 101, 102, 103, 199, 200].map(interim),
        [true, false, true, true, true, false]
    );
}

#[test]
fn connection_with_more_than_32_elements_is_refused() {
    let tokens = |count: usize| vec!["x"; count].join(",");
    let one = |count| format!("GET / HTTP/1.1\r\nConnection: {}\r\n\r\n", tokens(count));
    let two = |count| {
        format!(
            "GET / HTTP/1.1\r\nConnection: close\r\nA: b\r\nconnection: {}\r\n\r\n",
            tokens(count)
        )
    };
    let empty = |count| {
        format!(
            "GET / HTTP/1.1\r\nConnection: {}\r\n\r\n",
            ",".repeat(count)
        )
    };
    for fits in [one(32), two(31), empty(31)] {
        assert!(read(fits.as_bytes()).unwrap().is_some(), "{fits}");
    }
    for refused in [one(33), two(32), empty(32), one(100)] {
        let error = read(refused.as_bytes()).unwrap_err();
        assert_eq!((error, error.status()), (HeadError::TooManyNominated, 400));
    }
    let answered = format!("HTTP/1.1 200 OK\r\nConnection: {}\r\n\r\n", tokens(33));
    assert_eq!(
        answer(answered.as_bytes()).unwrap_err(),
        HeadError::TooManyNominated
    );
    // In other fields a list may be as long as the head.
    let other = format!("GET / HTTP/1.1\r\nAccept: {}\r\n\r\n", tokens(400));
    assert!(read(other.as_bytes()).unwrap().is_some());
}
