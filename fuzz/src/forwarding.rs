//! What goes on to an origin: written as it was read, by us and by a second parser, and nothing
//! that was for one connection, nor anything about who asks that is not ours.

use std::net::IpAddr;

use lockgate_http::fields::{Field, Fields, Known};
use lockgate_http::forwarded_for as element;
use lockgate_http::forwarding::{self, EndToEndFields, ForwardedClient};
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::h1::{HeadLimits, encode, framing};
use lockgate_http::head::{BodyLength, RequestHead};
use lockgate_http::request_target::RequestTarget;

const LIMITS: HeadLimits = HeadLimits {
    head: 1 << 20,
    fields: 64,
};
/// For what we write, which may be longer.
const WRITTEN: HeadLimits = HeadLimits {
    head: 1 << 22,
    fields: 80,
};

const HOP_BY_HOP: [&[u8]; 7] = [
    b"connection",
    b"content-length",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"transfer-encoding",
    b"upgrade",
];

/// Any bytes as an element of X-Forwarded-For.
pub fn forwarded_for(data: &[u8]) {
    let Some(ip) = element::address(data) else {
        return;
    };
    assert_eq!(ip, ip.to_canonical());
    // An address is one in every spelling that a proxy may choose for it.
    let bare = ip.to_string();
    let (plain, quoted) = match ip {
        IpAddr::V4(_) => (format!("{bare}:1"), format!("\"{bare}:65535\"")),
        IpAddr::V6(_) => (format!("[{bare}]:1"), format!("\"[{bare}]\"")),
    };
    for spelling in [bare, plain, quoted] {
        assert_eq!(
            element::address(spelling.as_bytes()),
            Some(ip),
            "{spelling}"
        );
    }
    // Nothing in it could be read as a list, or as an address followed by something else.
    assert!(
        !data
            .iter()
            .any(|byte| matches!(byte, b',' | b';' | b' ' | b'=' | b'\\'))
    );
}

/// Any bytes as the field lines of a request.
pub fn fields(data: &[u8]) {
    let Some(head) = read(
        &[b"GET / HTTP/1.1\r\n", data, b"\r\n\r\n"].concat(),
        &LIMITS,
    ) else {
        return;
    };
    let onward = EndToEndFields::of(&head.fields);
    let kept: Vec<_> = head
        .fields
        .iter()
        .filter(|field| onward.passes(field))
        .collect();
    let mut out = b"GET / HTTP/1.1\r\n".to_vec();
    head.fields.write(&mut out, |field| onward.passes(field));
    encode::end(&mut out);
    let again = read(&out, &WRITTEN).expect("we write what we accept");
    assert_eq!(again.fields.iter().collect::<Vec<_>>(), kept);
    second_opinion(&out, &again);
    let named = named(&head.fields);
    for field in again.fields.iter() {
        let name = field.name.to_ascii_lowercase();
        assert!(
            !HOP_BY_HOP.contains(&name.as_slice()),
            "{}",
            name.escape_ascii()
        );
        assert!(
            name == b"host" || !named.contains(&name),
            "{}",
            name.escape_ascii()
        );
    }
    detached(&head.fields, &kept);
    for field in head.fields.iter().filter(forwarding::passes_in_trailers) {
        let usual: Vec<u8> = field
            .name
            .iter()
            .map(|byte| {
                if *byte == b'_' {
                    b'-'
                } else {
                    byte.to_ascii_lowercase()
                }
            })
            .collect();
        assert!(Known::of(&usual).is_none(), "{}", usual.escape_ascii());
    }
}

/// Any bytes as a request, and as an origin gets it.
pub fn h1_exchange(data: &[u8]) {
    let Some(head) = read(data, &LIMITS) else {
        return;
    };
    let (Ok(asked), Ok(length)) = (RequestTarget::of(&head), framing::request(&head)) else {
        return;
    };
    if asked.path.is_empty() {
        // CONNECT is not forwarded.
        return;
    }
    let client = ForwardedClient::new("192.0.2.7".to_owned(), false, false);
    let onward = EndToEndFields::of(&head.fields);
    let passes = |field: &Field<'_>| {
        field.known != Some(Known::Host) && onward.passes(field) && !client.replaces(field)
    };
    let mut out = Vec::new();
    encode::request_line(&mut out, head.method_name(), asked.path, asked.query);
    encode::field(&mut out, b"Host", asked.host);
    head.fields.write(&mut out, passes);
    client.write_fields(asked.host, &head.fields, |name, parts| {
        encode::field_of(&mut out, name.as_bytes(), parts);
    });
    match length {
        BodyLength::Known(length) => encode::content_length(&mut out, length),
        BodyLength::Chunked => encode::field(&mut out, b"Transfer-Encoding", b"chunked"),
        BodyLength::Empty | BodyLength::UntilClose => {}
    }
    encode::end(&mut out);
    let again = read(&out, &WRITTEN).expect("what we forward is a request");
    second_opinion(&out, &again);
    assert_eq!(again.method_name(), head.method_name());
    let target = match asked.query {
        Some(query) => [asked.path, b"?", query].concat(),
        None => asked.path.to_vec(),
    };
    assert_eq!(again.target(), target);
    assert_eq!(
        framing::request(&again),
        Ok(length),
        "it is as long for the origin"
    );
    let read_again = RequestTarget::of(&again).expect("it has one host");
    assert_eq!(
        (read_again.host, read_again.path, read_again.query),
        (asked.host, asked.path, asked.query)
    );
    let told = [
        Known::XForwardedFor,
        Known::XForwardedHost,
        Known::XForwardedProto,
        Known::Forwarded,
    ];
    for known in told {
        // A client that has named no host has none in X-Forwarded-Host.
        let ours = usize::from(known != Known::XForwardedHost || !asked.host.is_empty());
        assert_eq!(again.fields.values(known).count(), ours, "only ours");
    }
    assert_eq!(
        again.fields.first(Known::XForwardedFor),
        Some(&b"192.0.2.7"[..])
    );
    // Nothing else was lost, added or changed.
    let ours = |field: &Field<'_>| {
        matches!(
            field.known,
            Some(Known::Host | Known::ContentLength | Known::TransferEncoding)
        ) || told.iter().any(|told| field.known == Some(*told))
    };
    let sent: Vec<_> = head
        .fields
        .iter()
        .filter(|field| passes(field) && !ours(field))
        .collect();
    assert_eq!(
        again
            .fields
            .iter()
            .filter(|field| !ours(field))
            .collect::<Vec<_>>(),
        sent
    );
}

fn read(input: &[u8], limits: &HeadLimits) -> Option<RequestHead> {
    let mut head = RequestHead::default();
    let used = parse::request(input, &mut HeadProgress::default(), limits, &mut head).ok()??;
    assert!(used <= input.len());
    Some(head)
}

fn second_opinion(written: &[u8], head: &RequestHead) {
    let mut lines = [httparse::EMPTY_HEADER; 80];
    let mut other = httparse::Request::new(&mut lines);
    assert_eq!(
        other.parse(written),
        Ok(httparse::Status::Complete(written.len()))
    );
    assert_eq!(other.method.map(str::as_bytes), Some(head.method_name()));
    assert_eq!(other.path.map(str::as_bytes), Some(head.target()));
    let fields: Vec<_> = head
        .fields
        .iter()
        .map(|field| (field.name, field.value))
        .collect();
    let others: Vec<_> = other
        .headers
        .iter()
        .map(|field| (field.name.as_bytes(), field.value))
        .collect();
    assert_eq!(others, fields);
}

/// What Connection names, found in another way than by us.
fn named(fields: &Fields) -> Vec<Vec<u8>> {
    let lists = fields
        .named(b"connection")
        .flat_map(|list| list.split(|byte| *byte == b','));
    let names = lists.map(|name| name.trim_ascii().to_ascii_lowercase());
    names
        .filter(|name| name != b"close" && name != b"keep-alive")
        .collect()
}

/// Then nothing goes on that would not have, and what is added cannot be named any more.
fn detached(fields: &Fields, kept: &[Field<'_>]) {
    let mut detached = fields.clone();
    forwarding::remove_connection_fields(&mut detached);
    let names: Vec<_> = fields
        .tokens(Known::Connection)
        .map(<[u8]>::to_vec)
        .collect();
    let usual: [&[u8]; 5] = [b"close", b"keep-alive", b"te", b"upgrade", b"host"];
    for name in &names {
        detached.append(name, b"ours");
    }
    let onward = EndToEndFields::of(&detached);
    let passes: Vec<_> = detached
        .iter()
        .filter(|field| onward.passes(field))
        .collect();
    assert_eq!(&passes[..kept.len()], kept);
    let added = names.iter().filter(|name| {
        let name = name.to_ascii_lowercase();
        !HOP_BY_HOP.contains(&name.as_slice()) && !usual.contains(&name.as_slice())
    });
    assert!(
        passes[kept.len()..]
            .iter()
            .filter(|field| !usual.contains(&field.name.to_ascii_lowercase().as_slice()))
            .map(|field| field.name)
            .eq(added.map(Vec::as_slice))
    );
}
