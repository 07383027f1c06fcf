//! What gRPC makes of a response of HTTP/2: its status in a field, and errors of ours as responses
//! that have nothing but a head ("Trailers-Only", gRPC over HTTP2).

use lockgate_http::fields::Fields;
use lockgate_http::head::{HttpVersion, RequestHead, ResponseHead};
use lockgate_http::status::reason;

/// The statuses that there are, and as many counters and one for what is none of them.
pub const STATUSES: usize = 18;
/// Bytes of a message.
const LONGEST: usize = 256;

/// Whether a request is a call of gRPC: such a client looks for a gRPC status and shows that
/// instead of ours. Over HTTP/1 there are none; gRPC-Web has its own form.
pub fn is_call(head: &RequestHead) -> bool {
    head.version == HttpVersion::Http2
        && head
            .fields
            .named(b"content-type")
            .next()
            .is_some_and(is_media_type)
}

/// `application/grpc`, perhaps with what is inside (`+proto`) or parameters.
fn is_media_type(value: &[u8]) -> bool {
    const NAME: &[u8] = b"application/grpc";
    let Some((name, rest)) = value.split_at_checked(NAME.len()) else {
        return false;
    };
    name.eq_ignore_ascii_case(NAME) && matches!(rest, [] | [b'+' | b';' | b' ', ..])
}

/// The status that a head or a trailer section has, if it has one.
pub fn status(fields: &Fields) -> Option<u16> {
    let value = fields.named(b"grpc-status").next()?;
    match value {
        [_] | [_, _] | [_, _, _] => {}
        _ => return None,
    }
    value.iter().try_fold(0, |status, byte| {
        byte.is_ascii_digit()
            .then(|| status * 10 + u16::from(byte - b'0'))
    })
}

/// The response that ends a call with this status.
pub(super) fn response(status: u16, message: &str) -> ResponseHead {
    // The HTTP status tells only that the message came through.
    let mut head = ResponseHead::of(200);
    head.fields.append(b"Content-Type", b"application/grpc");
    head.fields.append(
        b"Grpc-Status",
        itoa::Buffer::new().format(status).as_bytes(),
    );
    if !message.is_empty() {
        head.fields.append(b"Grpc-Message", &escaped(message));
    }
    head
}

/// The gRPC response in place of one that is not gRPC: a redirect, a configured response, the
/// denial of an auth service. Its status is the one that clients derive themselves ("HTTP to gRPC
/// Status Code Mapping"), with a message that they can read; its fields that do not describe the
/// content are kept.
pub fn translate(said: &ResponseHead) -> ResponseHead {
    let message = format!("{} {}", said.status, reason(said.status));
    let mut head = response(status_of(said.status), message.trim_end());
    for field in said.fields.iter() {
        let content = field
            .name
            .get(..8)
            .is_some_and(|front| front.eq_ignore_ascii_case(b"content-"));
        if !content {
            head.fields.append(field.name, field.value);
        }
    }
    head
}

const fn status_of(status: u16) -> u16 {
    match status {
        400 => 13,                   // INTERNAL
        401 => 16,                   // UNAUTHENTICATED
        403 => 7,                    // PERMISSION_DENIED
        404 => 12,                   // UNIMPLEMENTED
        429 | 502 | 503 | 504 => 14, // UNAVAILABLE
        _ => 2,                      // UNKNOWN
    }
}

/// Percent-encoded: all but printable ASCII, and the percent sign.
fn escaped(message: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    for byte in message.bytes().take(LONGEST) {
        match byte {
            b'%' | 0..b' ' | 0x7f.. => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            byte => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// grpc/doc/http-grpc-status-mapping.md.
    #[test]
    fn http_status_codes_map_to_grpc_status() {
        for (http, grpc, message) in [
            (400, 13, "400 Bad Request"),
            (401, 16, "401 Unauthorized"),
            (403, 7, "403 Forbidden"),
            (404, 12, "404 Not Found"),
            (429, 14, "429 Too Many Requests"),
            (503, 14, "503 Service Unavailable"),
            (308, 2, "308 Permanent Redirect"),
            (200, 2, "200 OK"),
            (599, 2, "599"),
        ] {
            let mut said = ResponseHead::of(http);
            for (name, value) in [
                ("Content-Type", "text/html"),
                ("content-length", "3"),
                ("WWW-Authenticate", "Basic"),
                ("X", "y"),
            ] {
                said.fields.append(name.as_bytes(), value.as_bytes());
            }
            let head = translate(&said);
            assert_eq!(
                (head.status, status(&head.fields)),
                (200, Some(grpc)),
                "{http}"
            );
            let field = |name: &str| head.fields.named(name.as_bytes()).collect::<Vec<_>>();
            assert_eq!(field("grpc-message"), [message.as_bytes()]);
            assert_eq!(field("content-type"), [b"application/grpc"]);
            assert_eq!(
                (
                    field("content-length").len(),
                    field("www-authenticate").len(),
                    field("x").len()
                ),
                (0, 1, 1)
            );
        }
    }

    #[test]
    fn grpc_calls_are_recognised_by_content_type_over_http2() {
        let is = |version, value: Option<&str>| {
            let mut head = RequestHead::default();
            head.version = version;
            if let Some(value) = value {
                head.fields.append(b"content-type", value.as_bytes());
            }
            is_call(&head)
        };
        for (value, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("Application/GRPC+json; charset=utf-8", true),
            ("application/grpc;x", true),
            ("application/grpc-web+proto", false),
            ("application/grpcx", false),
            ("application/grp", false),
            ("application/json", false),
            ("", false),
        ] {
            assert_eq!(is(HttpVersion::Http2, Some(value)), expected, "{value}");
            assert!(!is(HttpVersion::Http11, Some(value)), "{value}");
        }
        assert!(!is(HttpVersion::Http2, None));
    }

    #[test]
    fn grpc_status_is_a_short_number() {
        let of = |value: &str| {
            let mut fields = Fields::default();
            fields.append(b"grpc-status", value.as_bytes());
            status(&fields)
        };
        for (value, expected) in [
            ("0", Some(0)),
            ("14", Some(14)),
            ("999", Some(999)),
            ("", None),
            ("1000", None),
            ("-1", None),
            ("a", None),
        ] {
            assert_eq!(of(value), expected, "{value}");
        }
        assert_eq!(status(&Fields::default()), None);
    }

    #[test]
    fn grpc_messages_are_percent_encoded() {
        assert_eq!(
            escaped("100% of \"a\"\r\n\u{e9}~"),
            b"100%25 of \"a\"%0D%0A%C3%A9~"
        );
        assert_eq!(escaped(&"%".repeat(10_000)).len(), 3 * LONGEST);
    }
}
