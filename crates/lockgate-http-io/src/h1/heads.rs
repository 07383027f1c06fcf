//! The heads that we send, with the changes of an intermediary (RFC 9110 §7.6).

use lockgate_http::fields::{Field, Fields, Known};
use lockgate_http::forwarding::{EndToEndFields, ForwardedClient};
use lockgate_http::h1::encode;
use lockgate_http::head::{BodyLength, HttpVersion, Method, RequestHead, ResponseHead};
use lockgate_http::status;

use super::websocket;
use crate::message::{FieldWriter, OutgoingRequest, Persistence};

/// Writes the request as the endpoint gets it.
pub(super) fn request(request: &OutgoingRequest<'_>, out: &mut Vec<u8>) {
    let (path, query) = request.path_and_query();
    encode::request_line(out, request.received.method_name(), path, query);
    encode::field(out, b"Host", request.host());
    request.write_fields(out);
    connection(request, out);
    if request.is_websocket_without_key() {
        let key = websocket::key(request.id);
        encode::field(out, b"Sec-WebSocket-Key", key.as_bytes());
    }
    if let Some(length) = request.content_length() {
        encode::content_length(out, length);
    } else if request.length == BodyLength::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    encode::end(out);
}

impl FieldWriter for Vec<u8> {
    fn copy(&mut self, fields: &Fields, passes: impl FnMut(&Field<'_>) -> bool) {
        fields.write(self, passes);
    }

    fn add(&mut self, name: &'static str, parts: &[&[u8]]) {
        encode::field_of(self, name.as_bytes(), parts);
    }

    fn add_forwarded(&mut self, client: &ForwardedClient, host: &[u8], sent: &Fields) {
        client.write_text(host, sent, self);
    }
}

/// Writes Connection and the fields that it names.
fn connection(request: &OutgoingRequest<'_>, out: &mut Vec<u8>) {
    let names: &[u8] = match (request.upgrade(), request.takes_trailers()) {
        (Some(protocol), trailers) => {
            encode::field(out, b"Upgrade", protocol);
            if trailers { b"Upgrade, TE" } else { b"Upgrade" }
        }
        (None, true) => b"TE",
        (None, false) => return,
    };
    encode::field(out, b"Connection", names);
}

/// The Sec-WebSocket-Accept for the client's key (RFC 6455 §4.2.2), where an endpoint has accepted
/// over HTTP/2, which has none.
pub(crate) fn websocket_accept(request: &OutgoingRequest<'_>) -> String {
    if request.is_websocket_without_key() {
        return websocket::accept(websocket::key(request.id));
    }
    let key = request
        .received
        .fields
        .named(b"sec-websocket-key")
        .next()
        .unwrap_or_default();
    websocket::accept(String::from_utf8_lossy(key).into_owned())
}

/// Whether a response that switches protocols confirms the protocol that the request offered.
pub fn confirms_upgrade(request: &OutgoingRequest<'_>, response: &ResponseHead) -> bool {
    let accepts = || {
        let mut said = response.fields.named(b"sec-websocket-accept");
        said.next()
            .is_some_and(|accept| websocket::is_accepted(request.id, accept))
    };
    let mut to = response.fields.values(Known::Upgrade);
    match (request.upgrade(), to.next(), to.next()) {
        (Some(offered), Some(to), None) => {
            offered.eq_ignore_ascii_case(to) && (!request.is_websocket_without_key() || accepts())
        }
        _ => false,
    }
}

/// Writes the response as the client gets it.
pub(super) fn response(
    request: &RequestHead,
    response: &ResponseHead,
    length: BodyLength,
    persistence: Persistence,
    out: &mut Vec<u8>,
) {
    let old = request.version == HttpVersion::Http10;
    let fields = &response.fields;
    encode::status_line(out, response.status, reason(response));
    end_to_end(fields, out);
    match length {
        BodyLength::Known(length) => encode::content_length(out, length),
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        BodyLength::Empty => without_body(request.method, response, out),
        BodyLength::UntilClose => {}
    }
    match (persistence, old) {
        (Persistence::Close, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (Persistence::KeepAlive, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (Persistence::KeepAlive, false) => {}
    }
    // RFC 9110 §15.5.22: a 426 must have Upgrade. In any other response that is an offer to us
    // alone (§7.8).
    if response.status == 426 {
        upgrade_to(fields, out);
    }
    encode::end(out);
}

/// Writes the protocols that a response names in Upgrade, which hold for the client's connection as
/// well (RFC 9110 §7.8).
fn upgrade_to(fields: &Fields, out: &mut Vec<u8>) {
    for protocol in fields.values(Known::Upgrade) {
        encode::field(out, b"Upgrade", protocol);
    }
    if fields.first(Known::Upgrade).is_some() {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
    }
}

/// RFC 9110 §8.6: to HEAD and in a 304 Content-Length is that of a response to GET; a 204 has none.
fn without_body(method: Method, response: &ResponseHead, out: &mut Vec<u8>) {
    let told = response.fields.first(Known::ContentLength);
    match told {
        Some(length) if method == Method::Head || response.status == 304 => {
            encode::field(out, b"Content-Length", length);
        }
        _ if method == Method::Head || matches!(response.status, 204 | 304) => {}
        _ => encode::content_length(out, 0),
    }
}

pub(super) fn interim(request: &RequestHead, response: &ResponseHead, out: &mut Vec<u8>) {
    // HTTP/1.0 has no interim responses.
    if request.version == HttpVersion::Http10 {
        return;
    }
    encode::status_line(out, response.status, reason(response));
    end_to_end(&response.fields, out);
    encode::end(out);
}

/// Writes the response that ends HTTP on this connection.
pub(super) fn switched(response: &ResponseHead, out: &mut Vec<u8>) {
    encode::status_line(out, response.status, reason(response));
    end_to_end(&response.fields, out);
    upgrade_to(&response.fields, out);
    encode::end(out);
}

/// The reason phrase; a response of HTTP/2 has none, and gets the usual one.
fn reason(response: &ResponseHead) -> &[u8] {
    if response.version == HttpVersion::Http2 {
        status::reason(response.status).as_bytes()
    } else {
        response.reason()
    }
}

fn end_to_end(fields: &Fields, out: &mut Vec<u8>) {
    let onward = EndToEndFields::of(fields);
    fields.write(out, |field| onward.passes(field));
}
