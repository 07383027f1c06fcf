//! HTTP/2: what is made of a field section is one message to whoever reads it in HTTP/1, us and a
//! second parser, and says nothing that was not sent.

use lockgate_http::fields::{Field, Fields, Known};
use lockgate_http::h1::body::{BodyDecoder, BodyPart};
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::h1::{HeadLimits, encode, framing};
use lockgate_http::h2::request::{self, PseudoFields};
use lockgate_http::h2::{response, section};
use lockgate_http::head::{BodyLength, HttpVersion, Method, RequestHead, ResponseHead};
use lockgate_http::request_target::RequestTarget;

const LIMITS: HeadLimits = HeadLimits {
    head: 4096,
    fields: 32,
};
/// For what we write, which may have a few fields more.
const WRITTEN: HeadLimits = HeadLimits {
    head: 8192,
    fields: 40,
};

type Lines<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Any pseudo-header fields and fields: parts between bytes 0x1e, of which the first five are those
/// of a request, and a lone 0x00 one that is not there.
pub fn h2_head(data: &[u8]) {
    let mut parts = data.split(|&byte| byte == 0x1e);
    let mut next = || parts.next().unwrap_or_default();
    let [method, scheme, authority, path, protocol] = [(); 5].map(|()| next());
    let given = |part| if part == b"\0" { None } else { Some(part) };
    let pseudo = PseudoFields {
        method,
        scheme: given(scheme),
        authority: given(authority),
        path: given(path),
        protocol: given(protocol),
    };
    let rest: Vec<_> = parts.collect();
    let fields: Lines<'_> = rest
        .chunks(2)
        .map(|pair| (pair[0], *pair.get(1).unwrap_or(&&b""[..])))
        .collect();
    one_request(&pseudo, &fields);
    one_response(&fields);
    one_trailer_section(&fields);
}

fn one_request(pseudo: &PseudoFields<'_>, fields: &Lines<'_>) {
    let mut head = used();
    let read = request::request(pseudo, fields.iter().copied(), &LIMITS, &mut head);
    if read.is_err() {
        return;
    }
    let (host, target) = (
        RequestTarget::of(&head).expect("it is certain whom it is for"),
        head.target(),
    );
    assert_eq!(head.version, HttpVersion::Http2);
    assert!(host.secure.is_none() && host.authority.is_some());
    let mut out = Vec::new();
    encode::request_line(&mut out, head.method_name(), target, None);
    head.fields.write(&mut out, |_| true);
    encode::end(&mut out);
    let mut again = RequestHead::default();
    let taken = parse::request(&out, &mut HeadProgress::default(), &WRITTEN, &mut again);
    assert_eq!(taken, Ok(Some(out.len())), "{}", out.escape_ascii());
    assert_eq!(
        (again.method, again.method_name(), again.target()),
        (head.method, head.method_name(), target)
    );
    assert_eq!(lines(&again.fields), lines(&head.fields));
    let asked_again = RequestTarget::of(&again).expect("it is certain in HTTP/1, too");
    assert_eq!(asked_again, host);
    second_opinion(&out, &head);
    nothing_else_is_said(pseudo, fields, &head);
    // As long for an origin that goes by the fields as for us.
    let length = |ended| request::length(&head, ended);
    let stated = framing::request(&again).expect("a length that we took");
    match length(false) {
        Ok(BodyLength::Chunked) => {
            assert_eq!(
                (stated, length(true)),
                (BodyLength::Empty, Ok(BodyLength::Empty))
            )
        }
        Ok(BodyLength::Known(_)) => assert!(length(true).is_err() && length(false) == Ok(stated)),
        Ok(BodyLength::Empty) => {
            assert_eq!(
                (stated, length(true)),
                (BodyLength::Empty, Ok(BodyLength::Empty))
            )
        }
        other => panic!("{other:?}"),
    }
}

/// Every line of the head was sent, in the order in which it was, but for those that are made of
/// pseudo-header fields.
fn nothing_else_is_said(pseudo: &PseudoFields<'_>, fields: &Lines<'_>, head: &RequestHead) {
    let websocket = pseudo.protocol.is_some();
    let mut said = lines(&head.fields);
    if websocket {
        let ours: Lines<'_> = vec![(b"Upgrade", b"websocket"), (b"Connection", b"Upgrade")];
        assert_eq!(said.split_off(said.len() - 2), ours);
        assert_eq!(
            (head.method_name(), Some(head.target())),
            (&b"GET"[..], pseudo.path)
        );
    } else {
        assert_eq!(head.method_name(), pseudo.method);
        assert_eq!(
            Some(head.target()),
            if pseudo.method == b"CONNECT" {
                pseudo.authority
            } else {
                pseudo.path
            }
        );
    }
    if let Some(authority) = pseudo.authority {
        assert_eq!(said.remove(0), (&b"Host"[..], authority));
    }
    let crumbs: Vec<_> = fields
        .iter()
        .filter(|field| field.0 == b"cookie" && !field.1.is_empty())
        .collect();
    if !crumbs.is_empty() {
        let cookie = crumbs
            .iter()
            .map(|crumb| crumb.1)
            .collect::<Vec<_>>()
            .join(&b"; "[..]);
        assert_eq!(said.pop(), Some((&b"cookie"[..], &cookie[..])));
    }
    let kept = |name: &[u8]| match name {
        b"cookie" => false,
        b"host" => pseudo.authority.is_none(),
        // An alias of that key goes with it.
        name => {
            !(websocket
                && name
                    .iter()
                    .map(|byte| if *byte == b'_' { b'-' } else { *byte })
                    .eq(*b"sec-websocket-key"))
        }
    };
    let sent: Lines<'_> = fields
        .iter()
        .copied()
        .filter(|field| kept(field.0))
        .collect();
    assert_eq!(said, sent);
    for known in [
        Known::TransferEncoding,
        Known::KeepAlive,
        Known::ProxyConnection,
    ] {
        assert_eq!(head.fields.first(known), None);
    }
    assert_eq!(head.fields.values(Known::Host).count(), 1);
}

fn one_response(fields: &Lines<'_>) {
    let mut head = ResponseHead::default();
    let before = b"HTTP/1.0 404 Not Found\r\nConnection: close\r\nContent-Length: 3\r\n\r\n";
    parse::response(before, &mut HeadProgress::default(), &LIMITS, &mut head)
        .expect("valid")
        .expect("whole");
    if response::response(200, fields.iter().copied(), &LIMITS, &mut head).is_err() {
        return;
    }
    assert_eq!(
        (head.version, head.status, lines(&head.fields)),
        (HttpVersion::Http2, 200, fields.clone())
    );
    assert!(head.fields.iter().all(|field| response::passes(&field)));
    let mut out = Vec::new();
    encode::status_line(&mut out, head.status, head.reason());
    head.fields.write(&mut out, |_| true);
    encode::end(&mut out);
    let mut again = ResponseHead::default();
    let taken = parse::response(&out, &mut HeadProgress::default(), &WRITTEN, &mut again);
    assert_eq!(taken, Ok(Some(out.len())), "{}", out.escape_ascii());
    assert_eq!((again.status, lines(&again.fields)), (200, fields.clone()));
    let mut others = [httparse::EMPTY_HEADER; 40];
    let mut other = httparse::Response::new(&mut others);
    assert_eq!(other.parse(&out), Ok(httparse::Status::Complete(out.len())));
    assert_eq!(other_lines(other.headers), *fields);
    // Both ways: what HTTP/1 said of it may be said in HTTP/2 again.
    let mut back = ResponseHead::default();
    let passing = again
        .fields
        .iter()
        .filter(response::passes)
        .map(|field| (field.name, field.value));
    response::response(again.status, passing, &LIMITS, &mut back).expect("it passes");
    let ours = response::length(Method::Get, &head, false).expect("a length that we took");
    let stated = framing::response(Method::Get, &again).expect("a length that we took");
    assert!(ours == stated || (ours, stated) == (BodyLength::Chunked, BodyLength::UntilClose));
}

/// Behind a body in chunks, trailers end where they end.
fn one_trailer_section(fields: &Lines<'_>) {
    let mut trailers = Fields::default();
    if section::trailers(fields.iter().copied(), &LIMITS, &mut trailers).is_err() {
        return;
    }
    let mut out = b"0\r\n".to_vec();
    trailers.write(&mut out, |_| true);
    encode::end(&mut out);
    let (mut decoder, mut again) = (BodyDecoder::new(BodyLength::Chunked), Fields::default());
    assert_eq!(
        decoder.decode(&out, &WRITTEN, &mut again),
        Ok(BodyPart::End(out.len()))
    );
    assert_eq!(lines(&again), *fields);
}

/// A head that had another request before.
fn used() -> RequestHead {
    let mut head = RequestHead::default();
    let before =
        b"POST /before HTTP/1.0\r\nHost: before\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    parse::request(before, &mut HeadProgress::default(), &LIMITS, &mut head)
        .expect("valid")
        .expect("whole");
    head
}

fn second_opinion(written: &[u8], head: &RequestHead) {
    let mut others = [httparse::EMPTY_HEADER; 40];
    let mut other = httparse::Request::new(&mut others);
    assert_eq!(
        other.parse(written),
        Ok(httparse::Status::Complete(written.len()))
    );
    assert_eq!(other.method.map(str::as_bytes), Some(head.method_name()));
    assert_eq!(other.path.map(str::as_bytes), Some(head.target()));
    assert_eq!(other_lines(other.headers), lines(&head.fields));
}

fn lines(fields: &Fields) -> Lines<'_> {
    fields
        .iter()
        .map(|Field { name, value, .. }| (name, value))
        .collect()
}

fn other_lines<'a>(fields: &'a [httparse::Header<'_>]) -> Lines<'a> {
    fields
        .iter()
        .map(|field| (field.name.as_bytes(), field.value))
        .collect()
}
