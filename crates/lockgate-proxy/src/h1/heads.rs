//! The heads that we send: what an intermediary changes of those that it got (RFC 9110 §7.6).

use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding::Onward;
use lockgate_http::h1::encode;
use lockgate_http::head::{BodyLength, Method, RequestHead, ResponseHead, Version};
use lockgate_http::status;

use super::websocket;
use crate::exchange::Request;
use crate::transform::TargetRewrite;

/// The request as the endpoint gets it.
pub(super) fn request(request: &Request<'_>, out: &mut Vec<u8>) {
    let Request {
        worker,
        head,
        asked,
        client,
        values,
        rules,
        ..
    } = request;
    let fields = request.outgoing.fields();
    let onward = Onward::of(fields);
    if rules.target == TargetRewrite::None {
        encode::request_line(out, head.method_name(), asked.path, asked.query);
    } else {
        let mut target = worker.blocks.text();
        rules.target.write(request.pattern, values, &mut target);
        encode::request_line(out, head.method_name(), &target, None);
        worker.blocks.take_back(target);
    }
    encode::field(out, b"Host", request.host());
    fields.write(out, |field| request.hands_on(&onward, field));
    if let Some(cookies) = request.other_cookies() {
        encode::field(out, b"Cookie", cookies);
    }
    client.tell(asked.host, fields, out);
    if !client.is_unnamed() {
        encode::field(out, b"X-Request-Id", values.id);
    }
    encode::field(out, b"Via", request.via().as_bytes());
    connection(request, out);
    if is_websocket_without_key(request) {
        encode::field(
            out,
            b"Sec-WebSocket-Key",
            websocket::key(values.id).as_bytes(),
        );
    }
    match request.length {
        BodyLength::Known(length) => encode::content_length(out, length),
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        // RFC 9110 §8.6: a method that may have a body says so where it is empty.
        BodyLength::Empty if head.fields.first(Known::ContentLength).is_some() => {
            encode::content_length(out, 0);
        }
        BodyLength::Empty | BodyLength::UntilClose => {}
    }
    encode::end(out);
}

/// What is asked of the endpoint for the connection to it.
fn connection(request: &Request<'_>, out: &mut Vec<u8>) {
    let trailers = request.takes_trailers();
    if trailers {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    match (request.upgrade(), trailers) {
        (Some(protocol), trailers) => {
            encode::field(out, b"Upgrade", protocol);
            out.extend_from_slice(if trailers {
                b"Connection: Upgrade, TE\r\n"
            } else {
                b"Connection: Upgrade\r\n"
            });
        }
        (None, true) => out.extend_from_slice(b"Connection: TE\r\n"),
        (None, false) => {}
    }
}

/// Whether it is for us to say the key of a WebSocket's handshake.
fn is_websocket_without_key(request: &Request<'_>) -> bool {
    request.head.version == Version::Http2 && request.upgrade().is_some()
}

/// What an endpoint that speaks HTTP/1 would answer to the key of a WebSocket's handshake (RFC 6455
/// §4.2.2), where one accepts it that does not.
pub fn accept(request: &Request<'_>) -> String {
    if is_websocket_without_key(request) {
        return websocket::accept(websocket::key(request.values.id));
    }
    let key = request
        .head
        .fields
        .named(b"sec-websocket-key")
        .next()
        .unwrap_or_default();
    websocket::accept(String::from_utf8_lossy(key).into_owned())
}

/// Whether an endpoint that switches was asked to, and to this.
pub fn agrees(request: &Request<'_>, answer: &ResponseHead) -> bool {
    let accepts = || {
        let mut said = answer.fields.named(b"sec-websocket-accept");
        said.next()
            .is_some_and(|accept| websocket::is_accepted(request.values.id, accept))
    };
    let mut to = answer.fields.values(Known::Upgrade);
    match (request.upgrade(), to.next(), to.next()) {
        (Some(offered), Some(to), None) => {
            offered.eq_ignore_ascii_case(to) && (!is_websocket_without_key(request) || accepts())
        }
        _ => false,
    }
}

/// The answer as the client gets it.
pub(super) fn response(
    request: &RequestHead,
    answer: &ResponseHead,
    length: BodyLength,
    keep: bool,
    out: &mut Vec<u8>,
) {
    let old = request.version == Version::Http10;
    let fields = &answer.fields;
    encode::status_line(out, answer.status, reason(answer));
    end_to_end(fields, out);
    match length {
        BodyLength::Known(length) => encode::content_length(out, length),
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        BodyLength::Empty => without_body(request.method, answer, out),
        BodyLength::UntilClose => {}
    }
    match (keep, old) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, false) => {}
    }
    // RFC 9110 §15.5.22: it must say what to upgrade to. In any other answer that is an offer, and
    // ends here (§7.8).
    if answer.status == 426 {
        upgrade_to(fields, out);
    }
    encode::end(out);
}

/// The protocols that an answer names, each of which is for the client's connection as well (RFC
/// 9110 §7.8).
fn upgrade_to(fields: &Fields, out: &mut Vec<u8>) {
    for protocol in fields.values(Known::Upgrade) {
        encode::field(out, b"Upgrade", protocol);
    }
    if fields.first(Known::Upgrade).is_some() {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
    }
}

/// RFC 9110 §8.6: to HEAD and in a 304 the length is that of what GET would get; a 204 has none.
fn without_body(method: Method, answer: &ResponseHead, out: &mut Vec<u8>) {
    let told = answer.fields.first(Known::ContentLength);
    match told {
        Some(length) if method == Method::Head || answer.status == 304 => {
            encode::field(out, b"Content-Length", length);
        }
        _ if method == Method::Head || matches!(answer.status, 204 | 304) => {}
        _ => encode::content_length(out, 0),
    }
}

/// An answer before the answer.
pub(super) fn interim(request: &RequestHead, answer: &ResponseHead, out: &mut Vec<u8>) {
    // HTTP/1.0 has none.
    if request.version == Version::Http10 {
        return;
    }
    encode::status_line(out, answer.status, reason(answer));
    end_to_end(&answer.fields, out);
    encode::end(out);
}

/// The answer that ends HTTP on this connection.
pub(super) fn switched(answer: &ResponseHead, out: &mut Vec<u8>) {
    encode::status_line(out, answer.status, reason(answer));
    end_to_end(&answer.fields, out);
    upgrade_to(&answer.fields, out);
    encode::end(out);
}

/// The reason phrase; an answer of HTTP/2 has none, and gets the usual one.
fn reason(answer: &ResponseHead) -> &[u8] {
    if answer.version == Version::Http2 {
        status::reason(answer.status).as_bytes()
    } else {
        answer.reason()
    }
}

fn end_to_end(fields: &Fields, out: &mut Vec<u8>) {
    let onward = Onward::of(fields);
    fields.write(out, |field| onward.passes(field));
}
