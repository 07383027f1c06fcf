//! The fields of a response to a client, with the length of its body.

use lockgate_http::fields::{Field, Known};
use lockgate_http::forwarding::EndToEndFields;
use lockgate_http::h2::{self as layer, FieldBlock};
use lockgate_http::head::{BodyLength, Method, RequestHead, ResponseHead};
use lockgate_http::hpack::Indexing;

/// Writes the head of an interim response.
pub(super) fn interim(head: &ResponseHead, block: &mut FieldBlock<'_>) {
    block.status(head.status);
    write_fields(head, block, |_| true);
}

/// Writes the head of a response to `request`.
pub(super) fn response(
    request: &RequestHead,
    head: &ResponseHead,
    length: BodyLength,
    block: &mut FieldBlock<'_>,
) {
    block.status(head.status);
    write_fields(head, block, |field| {
        field.known != Some(Known::ContentLength)
    });
    let mut digits = itoa::Buffer::new();
    let length = match length {
        BodyLength::Known(length) => Some(digits.format(length).as_bytes()),
        // RFC 9110 §8.6: to HEAD and in a 304 the length is that of a response to GET; a 204 has
        // none.
        BodyLength::Empty if request.method == Method::Head || head.status == 304 => {
            head.fields.first(Known::ContentLength)
        }
        BodyLength::Empty if head.status != 204 => Some(&b"0"[..]),
        _ => None,
    };
    if let Some(length) = length {
        block.field(b"content-length", length, Indexing::Plain);
    }
}

/// Writes the head of a response behind which a stream is a tunnel (RFC 8441 §5): the switch of an
/// origin is a 200.
pub(super) fn switched(head: &ResponseHead, block: &mut FieldBlock<'_>) {
    block.status(200);
    // It belongs to a key between us and the endpoint.
    write_fields(head, block, |field| {
        !field.name.eq_ignore_ascii_case(b"sec-websocket-accept")
    });
}

/// Writes the fields that pass and are `wanted`.
fn write_fields(
    head: &ResponseHead,
    block: &mut FieldBlock<'_>,
    wanted: impl Fn(&Field<'_>) -> bool,
) {
    let onward = EndToEndFields::of(&head.fields);
    for field in head.fields.iter() {
        if wanted(&field) && onward.passes(&field) && layer::response::passes(&field) {
            block.message_field(&field);
        }
    }
}
