//! Requests: field sections in, heads out. Each refusal names the section that requires it.

use super::*;
use crate::forwarding::ForwardedClient;
use crate::h1::encode;
use crate::h1::framing::FramingError;
use crate::h1::parse::HeadProgress;
use crate::request_target::RequestTarget;

const LIMITS: HeadLimits = HeadLimits {
    head: 1024,
    fields: 8,
};

const GET: PseudoFields<'_> = PseudoFields {
    method: b"GET",
    scheme: Some(b"https"),
    authority: Some(b"a.example"),
    path: Some(b"/a?b"),
    protocol: None,
};

const CONNECT: PseudoFields<'_> = PseudoFields {
    method: b"CONNECT",
    scheme: None,
    authority: Some(b"a.example:443"),
    path: None,
    protocol: None,
};

const WEBSOCKET: PseudoFields<'_> = PseudoFields {
    method: b"CONNECT",
    protocol: Some(b"websocket"),
    ..GET
};

fn read(pseudo: &PseudoFields<'_>, fields: &[(&[u8], &[u8])]) -> Result<RequestHead, SectionError> {
    let mut head = RequestHead::default();
    request(pseudo, fields.iter().copied(), &LIMITS, &mut head).map(|()| head)
}

/// The head as HTTP/1 for an origin.
fn written(head: &RequestHead) -> String {
    let mut out = Vec::new();
    encode::request_line(&mut out, head.method_name(), head.target(), None);
    head.fields.write(&mut out, |_| true);
    String::from_utf8_lossy(&out).replace("\r\n", "\n")
}

fn of(pseudo: &PseudoFields<'_>, fields: &[(&[u8], &[u8])]) -> Result<String, SectionError> {
    read(pseudo, fields).map(|head| written(&head))
}

fn is(text: &str) -> Result<String, SectionError> {
    Ok(text.to_owned())
}

#[test]
fn the_h2_scheme_is_kept_if_present() {
    for (pseudo, secure) in [
        (GET, Some(true)),
        (
            PseudoFields {
                scheme: Some(b"HTTP"),
                ..GET
            },
            Some(false),
        ),
        (CONNECT, None),
        (WEBSOCKET, Some(true)),
    ] {
        assert_eq!(read(&pseudo, &[]).unwrap().secure, secure, "{pseudo:?}");
    }
    // Nothing is left of the head's first use.
    let mut head = read(&GET, &[]).unwrap();
    let plain = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    parse::request(plain, &mut HeadProgress::default(), &LIMITS, &mut head)
        .unwrap()
        .unwrap();
    assert_eq!(head.secure, None);
}

#[test]
fn an_h2_request_becomes_an_http_1_head() {
    let head = read(
        &GET,
        &[(b"x-b", b"1"), (b"accept", b""), (b"x-a", b"z\tz \xff")],
    )
    .unwrap();
    assert_eq!(
        (head.method, head.method_name(), head.target()),
        (Method::Get, &b"GET"[..], &b"/a?b"[..])
    );
    assert_eq!(head.version, HttpVersion::Http2);
    let mut out = Vec::new();
    encode::request_line(&mut out, head.method_name(), head.target(), None);
    head.fields.write(&mut out, |_| true);
    assert_eq!(
        out,
        b"GET /a?b HTTP/1.1\r\nHost: a.example\r\nx-b: 1\r\naccept: \r\nx-a: z\tz \xff\r\n"
            .as_slice()
    );
    assert_eq!(RequestTarget::of(&head).unwrap().host, b"a.example");
}

#[test]
fn a_request_head_may_be_reused() {
    let mut head = RequestHead::default();
    let before = b"POST /before HTTP/1.0\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
    parse::request(before, &mut HeadProgress::default(), &LIMITS, &mut head)
        .unwrap()
        .unwrap();
    request(&GET, [(&b"x"[..], &b"1"[..])], &LIMITS, &mut head).unwrap();
    assert_eq!(written(&head), "GET /a?b HTTP/1.1\nHost: a.example\nx: 1\n");
    assert_eq!(
        (head.method, head.version),
        (Method::Get, HttpVersion::Http2)
    );
    assert_eq!(head.fields.first(Known::Connection), None);
}

/// RFC 9113 §8.3.1: "All HTTP/2 requests MUST include exactly one valid value for the ":method",
/// ":scheme", and ":path" pseudo-header fields, unless they are CONNECT requests".
#[test]
fn pseudo_header_fields_are_complete() {
    for (pseudo, error) in [
        (
            PseudoFields { method: b"", ..GET },
            SectionError::PseudoFields,
        ),
        (
            PseudoFields {
                scheme: None,
                ..GET
            },
            SectionError::PseudoFields,
        ),
        (
            PseudoFields { path: None, ..GET },
            SectionError::PseudoFields,
        ),
        // RFC 9112 §3.2: HTTP/1.1 requires Host.
        (
            PseudoFields {
                authority: None,
                ..GET
            },
            SectionError::NoAuthority,
        ),
        // RFC 8441 §4: :protocol is for CONNECT.
        (
            PseudoFields {
                protocol: Some(b"websocket"),
                ..GET
            },
            SectionError::PseudoFields,
        ),
        // RFC 9113 §8.5: "The ":scheme" and ":path" pseudo-header fields MUST be omitted."
        (
            PseudoFields {
                scheme: Some(b"https"),
                ..CONNECT
            },
            SectionError::PseudoFields,
        ),
        (
            PseudoFields {
                path: Some(b"/"),
                ..CONNECT
            },
            SectionError::PseudoFields,
        ),
        (
            PseudoFields {
                authority: None,
                ..CONNECT
            },
            SectionError::PseudoFields,
        ),
        // RFC 8441 §4: "the :scheme and :path pseudo-header fields of the target URI [...] MUST
        // also be included".
        (
            PseudoFields {
                scheme: None,
                ..WEBSOCKET
            },
            SectionError::PseudoFields,
        ),
        (
            PseudoFields {
                path: None,
                ..WEBSOCKET
            },
            SectionError::PseudoFields,
        ),
        (
            PseudoFields {
                authority: None,
                ..WEBSOCKET
            },
            SectionError::NoAuthority,
        ),
    ] {
        assert_eq!(of(&pseudo, &[]), Err(error), "{pseudo:?}");
    }
}

/// Bytes that each of them may not contain, so that it cannot mean more than one thing in HTTP/1.
#[test]
fn crlf_in_pseudo_header_fields_is_refused() {
    let tail = b" HTTP/1.1\r\nX: y";
    let with = |text: &[u8]| [text, tail].concat();
    // RFC 9110 §9.1: a token.
    for method in [
        &with(b"GET")[..],
        b"G T",
        b"GET ",
        b" GET",
        b"GET\0",
        b"G\nT",
        b"G\rT",
        b"G:T",
        b"\xc3\xa4",
    ] {
        assert_eq!(
            of(&PseudoFields { method, ..GET }, &[]),
            Err(SectionError::Method),
            "{}",
            method.escape_ascii()
        );
    }
    // RFC 9113 §8.3.1: only http and https are served here; §8.2.1: no value has these characters.
    for (scheme, error) in [
        (&with(b"https")[..], SectionError::FieldValue),
        (b"", SectionError::Scheme),
        (b"ftp", SectionError::Scheme),
        (b"https://a", SectionError::Scheme),
        (b"http ", SectionError::Scheme),
        (b"http\0", SectionError::FieldValue),
        (b"http\n", SectionError::FieldValue),
        (b"http\r", SectionError::FieldValue),
    ] {
        assert_eq!(
            of(
                &PseudoFields {
                    scheme: Some(scheme),
                    ..GET
                },
                &[]
            ),
            Err(error),
            "{}",
            scheme.escape_ascii()
        );
    }
    // RFC 9113 §8.3.1: "This pseudo-header field MUST NOT be empty", and begins with a slash; RFC
    // 9112 §3.2.
    for path in [
        &with(b"/")[..],
        b"",
        b"a",
        b"*",
        b"?a",
        b"/a b",
        b" /",
        b"/ ",
        b"/\t",
        b"/\0",
        b"/\r",
        b"/\n",
        b"/\x7f",
        b"/\xc3\xa4",
        b"/a#b",
        b"/?a#b",
        b"http://a.example/",
        b"a.example:443",
    ] {
        assert_eq!(
            of(
                &PseudoFields {
                    path: Some(path),
                    ..GET
                },
                &[]
            ),
            Err(SectionError::Path),
            "{}",
            path.escape_ascii()
        );
    }
    // RFC 9113 §8.3.1: no userinfo; RFC 3986 §3.2.2.
    for authority in [
        &with(b"a")[..],
        b"",
        b"user@a",
        b"a:b@c",
        b"a b",
        b" a",
        b"a ",
        b"a\t",
        b"a\0",
        b"a\r",
        b"a\n",
        b"a/b",
        b"a?b",
        b"a#b",
        b"a,b",
        b"a:b",
        b"a:65536",
        b"a\\b",
        b"a%2fb",
        b"\xc3\xa4",
        b"[::1",
        b"http://a",
    ] {
        for usual in [GET, WEBSOCKET, CONNECT] {
            let pseudo = PseudoFields {
                authority: Some(authority),
                ..usual
            };
            assert_eq!(
                of(&pseudo, &[]),
                Err(SectionError::Authority),
                "{}",
                authority.escape_ascii()
            );
        }
        let host = [(&b"host"[..], authority)];
        let refused = of(
            &PseudoFields {
                authority: None,
                ..GET
            },
            &host,
        );
        assert!(
            matches!(
                refused,
                Err(SectionError::Authority | SectionError::FieldValue)
            ),
            "{}",
            authority.escape_ascii()
        );
    }
    for protocol in [
        &with(b"websocket")[..],
        b"",
        b"web socket",
        b"websocket\0",
        b"websocket\r",
        b"websocket\n",
    ] {
        let pseudo = PseudoFields {
            protocol: Some(protocol),
            ..WEBSOCKET
        };
        assert_eq!(
            of(&pseudo, &[]),
            Err(SectionError::Protocol),
            "{}",
            protocol.escape_ascii()
        );
    }
}

#[test]
fn method_path_and_scheme_pseudo_headers_become_a_request_line() {
    let of = |pseudo| of(&pseudo, &[]);
    assert_eq!(
        of(PseudoFields {
            method: b"M-SEARCH",
            ..GET
        }),
        is("M-SEARCH /a?b HTTP/1.1\nHost: a.example\n")
    );
    assert_eq!(
        of(PseudoFields {
            path: Some(b"//a?/?"),
            ..GET
        }),
        is("GET //a?/? HTTP/1.1\nHost: a.example\n")
    );
    assert_eq!(
        of(PseudoFields {
            scheme: Some(b"HTTP"),
            ..GET
        }),
        is("GET /a?b HTTP/1.1\nHost: a.example\n")
    );
    // RFC 9113 §8.3.1: the path of an OPTIONS for no path.
    let options = PseudoFields {
        method: b"OPTIONS",
        path: Some(b"*"),
        ..GET
    };
    assert_eq!(of(options), is("OPTIONS * HTTP/1.1\nHost: a.example\n"));
}

/// RFC 9113 §8.3.1: "A server SHOULD treat a request as malformed if it contains a Host header
/// field that identifies an entity that differs from the entity in the ":authority" pseudo-header
/// field. The values of fields need to be normalized to compare them".
#[test]
fn authority_and_host_must_agree() {
    let one = is("GET /a?b HTTP/1.1\nHost: a.example\n");
    let with = |authority: Option<&'static [u8]>, hosts: &[&[u8]]| {
        let fields: Vec<_> = hosts.iter().map(|host| (&b"host"[..], *host)).collect();
        of(&PseudoFields { authority, ..GET }, &fields)
    };
    for same in [
        &b"a.example"[..],
        b"A.Example",
        b"a.example:443",
        b"a.example.",
        b"a.example:",
    ] {
        assert_eq!(with(GET.authority, &[same]), one, "{}", same.escape_ascii());
    }
    for other in [
        &b"b.example"[..],
        b"a.example:80",
        b"a.example:444",
        b"a.exampl",
    ] {
        assert_eq!(
            with(GET.authority, &[other]),
            Err(SectionError::Authorities),
            "{}",
            other.escape_ascii()
        );
    }
    assert_eq!(with(GET.authority, &[b""]), Err(SectionError::Authority));
    assert_eq!(
        with(None, &[b"b.example:81"]),
        is("GET /a?b HTTP/1.1\nhost: b.example:81\n")
    );
    // RFC 9110 §7.2: more than one line, even of the same.
    assert_eq!(
        with(GET.authority, &[b"a.example", b"a.example"]),
        Err(SectionError::Authorities)
    );
    assert_eq!(
        with(None, &[b"a.example", b"a.example"]),
        Err(SectionError::Authorities)
    );
    assert_eq!(
        with(None, &[b"a.example", b"b.example"]),
        Err(SectionError::Authorities)
    );
    // The default port is that of the scheme.
    let plain = PseudoFields {
        scheme: Some(b"http"),
        ..GET
    };
    assert_eq!(of(&plain, &[(b"host", b"a.example:80")]), one);
    assert_eq!(
        of(&plain, &[(b"host", b"a.example:443")]),
        Err(SectionError::Authorities)
    );
}

/// RFC 9113 §8.2.1, and RFC 9110 §5.1, §5.5.
#[test]
fn malformed_h2_request_fields_are_refused() {
    for (name, value, error) in [
        (&b""[..], &b""[..], SectionError::FieldName),
        (b"Accept", b"", SectionError::FieldName),
        (b"accepT", b"", SectionError::FieldName),
        (b"x y", b"", SectionError::FieldName),
        (b" x", b"", SectionError::FieldName),
        (b"x ", b"", SectionError::FieldName),
        (b"x\t", b"", SectionError::FieldName),
        (b"x:", b"", SectionError::FieldName),
        (b"x: y\r\nz", b"", SectionError::FieldName),
        (b"x\0", b"", SectionError::FieldName),
        (b"x\r", b"", SectionError::FieldName),
        (b"x\n", b"", SectionError::FieldName),
        (b"x\x7f", b"", SectionError::FieldName),
        (b"\xc3\xa4", b"", SectionError::FieldName),
        // RFC 9113 §8.3: unknown pseudo-header fields, and that of a response.
        (b":status", b"200", SectionError::FieldName),
        (b":path", b"/", SectionError::FieldName),
        (b":other", b"", SectionError::FieldName),
        (b"x", b"a\r\nb: c", SectionError::FieldValue),
        (b"x", b"a\n", SectionError::FieldValue),
        (b"x", b"\ra", SectionError::FieldValue),
        (b"x", b"a\0b", SectionError::FieldValue),
        (b"x", b"a\x01b", SectionError::FieldValue),
        (b"x", b"a\x1b", SectionError::FieldValue),
        (b"x", b"a\x7f", SectionError::FieldValue),
        (b"x", b" a", SectionError::FieldValue),
        (b"x", b"a ", SectionError::FieldValue),
        (b"x", b"\ta", SectionError::FieldValue),
        (b"x", b"a\t", SectionError::FieldValue),
        (b"x", b" ", SectionError::FieldValue),
        (b"cookie", b"a\r\nb", SectionError::FieldValue),
        (b"host", b"a.example\r\nb: c", SectionError::FieldValue),
    ] {
        assert_eq!(
            of(&GET, &[(name, value)]),
            Err(error),
            "{}: {}",
            name.escape_ascii(),
            value.escape_ascii()
        );
    }
}

/// RFC 9113 §8.2.2.
#[test]
fn connection_specific_fields_in_h2_requests_are_refused() {
    for (name, value) in [
        (&b"connection"[..], &b"close"[..]),
        (b"connection", b""),
        (b"proxy-connection", b"keep-alive"),
        (b"keep-alive", b"timeout=5"),
        (b"transfer-encoding", b"chunked"),
        (b"transfer-encoding", b"identity"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AAMAAABk"),
        (b"te", b"gzip"),
        (b"te", b"trailers, gzip"),
        (b"te", b""),
    ] {
        for pseudo in [GET, WEBSOCKET] {
            let refused = of(&pseudo, &[(name, value)]);
            assert_eq!(
                refused,
                Err(SectionError::ConnectionField),
                "{}",
                name.escape_ascii()
            );
        }
    }
    assert_eq!(
        of(&GET, &[(b"te", b"trailers")]),
        is("GET /a?b HTTP/1.1\nHost: a.example\nte: trailers\n")
    );
}

/// RFC 9113 §8.2.3: "these MUST be concatenated into a single octet string using the two-octet
/// delimiter of 0x3b, 0x20 [...] before being passed into a non-HTTP/2 context".
#[test]
fn cookie_lines_are_joined_into_one() {
    let crumbs = |crumbs: &[&[u8]]| {
        let mut fields: Vec<_> = crumbs
            .iter()
            .map(|crumb| (&b"cookie"[..], *crumb))
            .collect();
        fields.insert(1, (b"x", b"y"));
        of(&GET, &fields)
    };
    let with = |cookie: &str| {
        is(&format!(
            "GET /a?b HTTP/1.1\nHost: a.example\nx: y\n{cookie}"
        ))
    };
    assert_eq!(crumbs(&[b"a=b; c=d"]), with("cookie: a=b; c=d\n"));
    assert_eq!(
        crumbs(&[b"a=b", b"c=d", b"e=f"]),
        with("cookie: a=b; c=d; e=f\n")
    );
    assert_eq!(crumbs(&[b"", b"c=d", b""]), with("cookie: c=d\n"));
    // They count as a single line, but each needs its room.
    assert!(crumbs(&[&b"a"[..]; 9]).is_ok());
    assert_eq!(crumbs(&[&b"a"[..]; 40]), Err(SectionError::TooLong));
}

/// RFC 9113 §8.1.1, RFC 9110 §8.6.
#[test]
fn h2_content_length_is_a_single_number() {
    let with = |values: &[&[u8]]| {
        let fields: Vec<_> = values
            .iter()
            .map(|value| (&b"content-length"[..], *value))
            .collect();
        of(
            &PseudoFields {
                method: b"POST",
                ..GET
            },
            &fields,
        )
        .map(|_| ())
    };
    assert_eq!(with(&[b"10"]), Ok(()));
    for value in [
        &b""[..],
        b"-1",
        b"+1",
        b"1a",
        b"0x1",
        b"9223372036854775808",
        b"1 1",
    ] {
        let refused = with(&[value]);
        assert_eq!(
            refused,
            Err(SectionError::Framing(FramingError::Length)),
            "{}",
            value.escape_ascii()
        );
    }
    let twice = Err(SectionError::Framing(FramingError::Lengths));
    assert_eq!(
        [with(&[b"1", b"1"]), with(&[b"1", b"2"]), with(&[b"1,1"])],
        [twice; 3]
    );
}

/// RFC 9113 §8.1.1: "A request or response is also malformed if the value of a content-length
/// header field does not equal the sum of the DATA frame payload lengths that form the content".
#[test]
fn an_h2_request_body_length_follows_content_length_or_stream() {
    let of = |value: Option<&[u8]>, ended| {
        let field = value.map(|value| (&b"content-length"[..], value));
        length(
            &read(
                &PseudoFields {
                    method: b"POST",
                    ..GET
                },
                field.as_slice(),
            )
            .unwrap(),
            ended,
        )
    };
    for (value, ended, length) in [
        (None, true, Ok(BodyLength::Empty)),
        (None, false, Ok(BodyLength::Chunked)),
        (Some(&b"0"[..]), true, Ok(BodyLength::Empty)),
        (Some(b"0"), false, Ok(BodyLength::Empty)),
        (Some(b"3"), false, Ok(BodyLength::Known(3))),
        (Some(b"3"), true, Err(SectionError::NoBody)),
    ] {
        assert_eq!(of(value, ended), length, "{value:?} {ended}");
    }
}

/// RFC 9113 §8.5.
#[test]
fn h2_connect_needs_an_authority_with_port() {
    let head = read(&CONNECT, &[]).unwrap();
    assert_eq!(
        (head.method, head.target()),
        (Method::Connect, &b"a.example:443"[..])
    );
    assert_eq!(
        written(&head),
        "CONNECT a.example:443 HTTP/1.1\nHost: a.example:443\n"
    );
    assert_eq!(
        of(
            &PseudoFields {
                authority: Some(b"a.example"),
                ..CONNECT
            },
            &[]
        ),
        Err(SectionError::Authority)
    );
    // RFC 9110 §9.3.6: "A CONNECT request message does not have content."
    assert_eq!(
        [false, true].map(|ended| length(&head, ended)),
        [Ok(BodyLength::Empty); 2]
    );
    for length in [&b"3"[..], b"0"] {
        assert_eq!(
            of(&CONNECT, &[(b"content-length", length)]),
            Err(SectionError::NoBody)
        );
    }
}

/// RFC 8441 §5.
#[test]
fn extended_connect_becomes_a_websocket_get() {
    let fields: [(&[u8], &[u8]); 4] = [
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ=="),
        (b"sec_websocket_key", b"dGhlIHNhbXBsZSBub25jZQ=="),
        (b"origin", b"https://a.example"),
    ];
    let head = read(&WEBSOCKET, &fields).unwrap();
    assert_eq!(
        written(&head),
        "GET /a?b HTTP/1.1\nHost: a.example\nsec-websocket-version: 13\norigin: https://a.example\n\
         Upgrade: websocket\nConnection: Upgrade\n"
    );
    assert_eq!(head.method, Method::Get);
    // The bytes that follow are no body.
    assert_eq!(
        [false, true].map(|ended| length(&head, ended)),
        [Ok(BodyLength::Empty); 2]
    );
    assert_eq!(
        of(&WEBSOCKET, &[(b"content-length", b"0")]),
        Err(SectionError::NoBody)
    );
    assert!(
        of(
            &PseudoFields {
                protocol: Some(b"WebSocket"),
                ..WEBSOCKET
            },
            &[]
        )
        .is_ok()
    );
    // RFC 9220 §3.
    let other = of(
        &PseudoFields {
            protocol: Some(b"connect-udp"),
            ..WEBSOCKET
        },
        &[],
    )
    .unwrap_err();
    assert_eq!(
        (other, other.status()),
        (SectionError::UnknownProtocol, 501)
    );
    // Without it, the key is an ordinary field.
    assert!(
        read(&GET, &fields)
            .unwrap()
            .fields
            .named(b"sec-websocket-key")
            .next()
            .is_some()
    );
}

/// RFC 9113 §6.5.2: a field has the size of its name and value, and 32 bytes more.
#[test]
fn h2_head_limits_hold_to_the_byte_and_line() {
    // :method GET, :scheme https, :authority a.example, :path /a?b
    let pseudo = 7 + 3 + 7 + 5 + 10 + 9 + 5 + 4 + 4 * 32;
    let fits = LIMITS.head - pseudo - 32 - 1;
    assert!(of(&GET, &[(b"x", &vec![b'y'; fits])]).is_ok());
    assert_eq!(
        of(&GET, &[(b"x", &vec![b'y'; fits + 1])]),
        Err(SectionError::TooLong)
    );
    let path = vec![b'/'; LIMITS.head - pseudo + 4];
    assert!(
        of(
            &PseudoFields {
                path: Some(&path),
                ..GET
            },
            &[]
        )
        .is_ok()
    );
    let path = [&path[..], b"/"].concat();
    assert_eq!(
        of(
            &PseudoFields {
                path: Some(&path),
                ..GET
            },
            &[]
        ),
        Err(SectionError::TargetTooLong)
    );
    // Host is one of them.
    let lines = |count| of(&GET, &vec![(&b"x"[..], &b"y"[..]); count]);
    assert!(lines(LIMITS.fields - 1).is_ok());
    assert_eq!(lines(LIMITS.fields), Err(SectionError::TooManyFields));
    let mut full = vec![(&b"x"[..], &b"y"[..]); LIMITS.fields - 1];
    full.push((b"cookie", b"a"));
    assert_eq!(of(&GET, &full), Err(SectionError::TooManyFields));
    let errors = [
        SectionError::TooLong,
        SectionError::TooManyFields,
        SectionError::TargetTooLong,
        SectionError::Path,
    ];
    assert_eq!(errors.map(SectionError::status), [431, 431, 414, 400]);
}

/// RFC 3875 §4.1.18: names that an origin that sees fields as variables cannot distinguish.
#[test]
fn untrusted_h2_clients_cannot_respell_x_forwarded_for() {
    let client = ForwardedClient::new("192.0.2.7".to_owned(), true, false);
    let lies: [&[u8]; 12] = [
        b"x-forwarded-for",
        b"x_forwarded_for",
        b"x-forwarded_for",
        b"x_forwarded_proto",
        b"x_forwarded_host",
        b"x_request_id",
        b"forwarded",
        b"transfer_encoding",
        b"content_length",
        b"max_forwards",
        b"proxy_connection",
        b"keep_alive",
    ];
    for lie in lies {
        let head = read(&GET, &[(lie, b"1"), (b"x_other", b"1")]).unwrap();
        let mut out = Vec::new();
        head.fields.write(&mut out, |field| !client.replaces(field));
        let kept = String::from_utf8(out).unwrap();
        assert_eq!(
            kept,
            "Host: a.example\r\nx_other: 1\r\n",
            "{}",
            lie.escape_ascii()
        );
    }
}
