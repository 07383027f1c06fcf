//! The heads that we send: what an intermediary changes of those that it got (RFC 9110 §7.6).

use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding::Onward;
use lockgate_http::h1::encode;
use lockgate_http::head::{BodyLength, Method, RequestHead, ResponseHead, Version};

use crate::exchange::Exchange;

/// The request as the endpoint gets it.
pub(super) fn request(exchange: &Exchange<'_>, out: &mut Vec<u8>) {
    let Exchange { head, asked, client, .. } = exchange;
    let onward = Onward::of(&head.fields);
    encode::request_line(out, head.method_name(), asked.path, asked.query);
    encode::field(out, b"Host", asked.host);
    encode::fields(out, &head.fields, |field| {
        field.known != Some(Known::Host) && onward.passes(field) && !client.replaces(field)
    });
    client.tell(&head.fields, out);
    // RFC 9110 §7.6.3: a gateway must.
    out.extend_from_slice(match head.version {
        Version::Http11 => b"Via: 1.1 lockgate\r\n",
        Version::Http10 => b"Via: 1.0 lockgate\r\n",
    });
    connection(head, out);
    match exchange.length {
        BodyLength::Known(length) => encode::content_length(out, length),
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        // RFC 9110 §8.6: a method that has a body says so where it is empty.
        BodyLength::Empty if head.fields.first(Known::ContentLength).is_some() => encode::content_length(out, 0),
        BodyLength::Empty | BodyLength::UntilClose => {}
    }
    encode::end(out);
}

/// What is asked of the endpoint for the connection to it.
fn connection(head: &RequestHead, out: &mut Vec<u8>) {
    let fields = &head.fields;
    // RFC 9110 §10.1.4: trailers are handed on.
    if fields.first(Known::Te).is_some()
        && fields.tokens(Known::Te).any(|token| token.eq_ignore_ascii_case(b"trailers"))
    {
        out.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
    }
}

/// The answer as the client gets it.
pub(super) fn response(exchange: &mut Exchange<'_>, answer: &ResponseHead, length: BodyLength, keep: bool) {
    let old = exchange.head.version == Version::Http10;
    let method = exchange.head.method;
    let now = exchange.worker.date();
    let out = exchange.down.writer.head();
    let fields = &answer.fields;
    encode::status_line(out, answer.status, answer.reason());
    end_to_end(fields, out);
    if fields.first(Known::Date).is_none() {
        encode::field(out, b"Date", &now);
    }
    match length {
        BodyLength::Known(length) => encode::content_length(out, length),
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        BodyLength::Empty => without_body(method, answer, out),
        BodyLength::UntilClose => {}
    }
    match (keep, old) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, false) => {}
    }
    encode::end(out);
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
pub(super) fn interim(answer: &ResponseHead, out: &mut Vec<u8>) {
    encode::status_line(out, answer.status, answer.reason());
    end_to_end(&answer.fields, out);
    encode::end(out);
}

fn end_to_end(fields: &Fields, out: &mut Vec<u8>) {
    let onward = Onward::of(fields);
    encode::fields(out, fields, |field| onward.passes(field));
}

