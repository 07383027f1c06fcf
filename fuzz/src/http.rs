//! HTTP/1: how bytes arrive does not matter, what is accepted is read alike by a second parser, and
//! what is written is read back.

use lockgate_http::fields::Fields;
use lockgate_http::forwarding::EndToEndFields;
use lockgate_http::h1::body::{BodyDecoder, BodyError, BodyPart};
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::h1::{HeadError, HeadLimits, encode, framing};
use lockgate_http::head::{BodyLength, Method, RequestHead, ResponseHead};
use lockgate_http::target::{self, TargetForm};

const LIMITS: HeadLimits = HeadLimits {
    head: 4096,
    fields: 32,
};

/// Any bytes as a request.
pub fn h1_request(data: &[u8]) {
    let read = |input: &[u8]| {
        let mut head = RequestHead::default();
        parse::request(input, &mut HeadProgress::default(), &LIMITS, &mut head)
            .map(|used| used.map(|used| (used, head)))
    };
    let result = read(data);
    let taken = result
        .as_ref()
        .map(|read| read.as_ref().map(|(used, _)| *used))
        .map_err(|error| *error);
    arrives_in_pieces(data, taken, |input, progress| {
        parse::request(input, progress, &LIMITS, &mut RequestHead::default())
    });
    let Ok(Some((used, head))) = result else {
        return;
    };
    second_opinion_on_request(&data[..used], &head);
    if let Ok(length) = framing::request(&head) {
        body(length, &data[used..]);
    }
    let mut out = Vec::new();
    encode::request_line(&mut out, head.method_name(), head.target(), None);
    head.fields.write(&mut out, |_| true);
    encode::end(&mut out);
    // Ours may be longer: it has a space behind every colon.
    if out.len() <= LIMITS.head {
        let (again, copy) = read(&out)
            .expect("we write what we accept")
            .expect("we write all of it");
        assert_eq!(
            (again, copy.method_name(), copy.target()),
            (out.len(), head.method_name(), head.target())
        );
        assert_eq!(lines(&copy.fields), lines(&head.fields));
    }
    goes_on(&head.fields);
    h1_target(head.target());
}

/// Any bytes as an answer.
pub fn h1_response(data: &[u8]) {
    let mut head = ResponseHead::default();
    let result = parse::response(data, &mut HeadProgress::default(), &LIMITS, &mut head);
    arrives_in_pieces(data, result, |input, progress| {
        parse::response(input, progress, &LIMITS, &mut ResponseHead::default())
    });
    let Ok(Some(used)) = result else { return };
    assert!((100..=999).contains(&head.status));
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut other = httparse::Response::new(&mut fields);
    // It wants a minor version of 0 or 1, and ASCII in the reason.
    if !later_version(&data[5..8]) && head.reason().is_ascii() {
        assert_eq!(
            other.parse(&data[..used]),
            Ok(httparse::Status::Complete(used))
        );
        assert_eq!(other.code, Some(head.status));
        assert_eq!(other_lines(other.headers), lines(&head.fields));
    }
    for method in [Method::Get, Method::Head] {
        if let Ok(length) = framing::response(method, &head) {
            body(length, &data[used..]);
        }
    }
    goes_on(&head.fields);
}

/// Any bytes as a body in chunks.
pub fn h1_chunked(data: &[u8]) {
    body(BodyLength::Chunked, data);
}

/// Any bytes as a request-target, an authority and a path.
pub fn h1_target(data: &[u8]) {
    // What `parse` lets in.
    if !data.iter().all(u8::is_ascii_graphic) {
        return;
    }
    for method in [Method::Get, Method::Options, Method::Connect] {
        let parsed = target::parse(method, data);
        // Only what is refused has something to hide.
        assert!(parsed.is_err() || target::without_userinfo(data) == data);
        let path = match parsed {
            Ok(TargetForm::Origin { path, .. } | TargetForm::Absolute { path, .. }) => path,
            Ok(TargetForm::Authority(authority)) => {
                let name = authority.name();
                let again = target::Authority::parse(name.as_bytes()).expect("a name is a host");
                assert_eq!(again.name(), name);
                continue;
            }
            Ok(TargetForm::Asterisk) | Err(_) => continue,
        };
        assert_eq!(path.first(), Some(&b'/'));
        if let Ok(decoded) = target::decode(path) {
            let segments = decoded.split(|&byte| byte == b'/');
            assert!(
                segments
                    .clone()
                    .all(|segment| segment != b"." && segment != b"..")
            );
            assert_eq!(
                segments.count(),
                path.split(|&byte| byte == b'/').count(),
                "a slash came out of an escape"
            );
            assert!(!decoded.contains(&0) && !decoded.contains(&b'\\'));
        }
    }
}

type Taken = Result<Option<usize>, HeadError>;

/// A whole head is one at its last byte and not before. What is no head is none in pieces either,
/// but of these only the end is looked for: its error may show later, and be another.
fn arrives_in_pieces(
    data: &[u8],
    whole: Taken,
    mut read: impl FnMut(&[u8], &mut HeadProgress) -> Taken,
) {
    let mut progress = HeadProgress::default();
    let end = whole.ok().flatten().unwrap_or(data.len());
    for cut in crate::cuts(end) {
        match read(&data[..cut], &mut progress) {
            Ok(None) => {}
            Err(_) if whole.is_err() => return,
            early => panic!("{early:?} at {cut}, then {whole:?}"),
        }
    }
    let last = read(&data[..end], &mut progress);
    assert!(
        last == whole || whole.is_err() && !matches!(last, Ok(Some(_))),
        "{last:?}, and at once {whole:?}"
    );
}

fn second_opinion_on_request(data: &[u8], head: &RequestHead) {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut other = httparse::Request::new(&mut fields);
    let line = data
        .split(|&byte| byte == b'\n')
        .find(|line| line.len() > 1)
        .unwrap_or_default();
    if line.len() < 4 || later_version(&line[line.len() - 4..line.len() - 1]) {
        return;
    }
    match other.parse(data) {
        Ok(httparse::Status::Complete(used)) => assert_eq!(used, data.len()),
        other => panic!("{other:?}"),
    }
    assert_eq!(other.method.map(str::as_bytes), Some(head.method_name()));
    assert_eq!(other.path.map(str::as_bytes), Some(head.target()));
    assert_eq!(other_lines(other.headers), lines(&head.fields));
}

/// HTTP/1.2 and later are read as 1.1 (RFC 9110 §2.5); httparse refuses them.
fn later_version(version: &[u8]) -> bool {
    !matches!(version, b"1.0" | b"1.1")
}

fn lines(fields: &Fields) -> Vec<(&[u8], &[u8])> {
    fields
        .iter()
        .map(|field| (field.name, field.value))
        .collect()
}

fn other_lines<'a>(fields: &'a [httparse::Header<'_>]) -> Vec<(&'a [u8], &'a [u8])> {
    fields
        .iter()
        .map(|field| (field.name.as_bytes(), field.value))
        .collect()
}

/// Whatever Connection says, Host goes on and framing does not.
fn goes_on(fields: &Fields) {
    let onward = EndToEndFields::of(fields);
    for field in fields.iter() {
        let name = field.name.to_ascii_lowercase();
        match name.as_slice() {
            b"host" => assert!(onward.passes(&field)),
            b"content-length" | b"transfer-encoding" | b"connection" | b"upgrade" => {
                assert!(!onward.passes(&field))
            }
            _ => {}
        }
    }
}

type Body = (Vec<u8>, usize, bool);

/// A body is the same whole and in pieces.
fn body(length: BodyLength, data: &[u8]) {
    let whole = read_body(length, data, data.len().max(1));
    let bytewise = read_body(length, data, 1);
    match (&whole, &bytewise) {
        (Ok(whole), Ok(bytewise)) => assert_eq!(whole, bytewise),
        (Err(_), Err(_)) => {}
        // Of trailers in pieces only the end is looked for.
        (Err(BodyError::Trailer(_)), Ok((_, _, false))) => {}
        other => panic!("{other:?}"),
    }
    if let Ok((content, used, _)) = &whole {
        assert!(content.len() <= *used && *used <= data.len());
    }
}

/// The data, how many bytes were used, and whether the body has ended.
fn read_body(length: BodyLength, data: &[u8], step: usize) -> Result<Body, BodyError> {
    let (mut decoder, mut trailers) = (BodyDecoder::new(length), Fields::default());
    let (mut content, mut used, mut end) = (Vec::new(), 0, 0);
    loop {
        match decoder.decode(&data[used..end], &LIMITS, &mut trailers)? {
            BodyPart::Data(range) => {
                assert!(!range.is_empty());
                content.extend_from_slice(&data[used..end][range.clone()]);
                used += range.end;
            }
            BodyPart::More(more) => {
                used += more;
                if end == data.len() {
                    return Ok((content, used, false));
                }
                end = (end + step).min(data.len());
            }
            BodyPart::End(more) => return Ok((content, used + more, true)),
        }
    }
}
