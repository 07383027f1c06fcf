//! Answers between HTTP/1 and HTTP/2: what of one goes on (RFC 9113 §8.2.2), and one of HTTP/2 as a head.

use super::{HeadError, Room, add, check, is_of_connections};
use crate::fields::{Field, Known};
use crate::h1::{Limits, framing};
use crate::head::{BodyLength, Method, ResponseHead, Version};

/// Whether a field of an answer may stand in HTTP/2. What its Connection names besides is
/// [`Onward`](crate::forwarding::Onward)'s to say. Names are to be made small by whoever writes them.
pub fn passes(field: &Field<'_>) -> bool {
    field.known != Some(Known::Te) && !is_of_connections(field.known, field.name)
}

/// Makes a head of an answer's status and fields, as [`request`](super::request::request) does of a request's. What its
/// sender is to blame for is no answer to a client: 502 is.
///
/// # Errors
/// When it is malformed or longer than `limits` say.
pub fn response<'a>(
    status: u16,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    limits: &Limits,
    head: &mut ResponseHead,
) -> Result<(), HeadError> {
    // RFC 9113 §8.6: HTTP/2 has no 101.
    if !matches!(status, 100 | 102..=999) {
        return Err(HeadError::Status);
    }
    let mut room = Room::of(limits);
    room.take(b":status", b"200")?;
    head.begin(Version::Http2, status);
    for (name, value) in fields {
        room.take(name, value)?;
        match check(name, value)? {
            // RFC 9113 §8.2.2: in requests only.
            Some(Known::Te) => return Err(HeadError::ConnectionField),
            known => add(&mut head.fields, name, value, known, limits)?,
        }
    }
    // Of a HEAD, so that nothing but the fields is looked at.
    framing::response(Method::Head, head)?;
    Ok(())
}

/// How long the body of an answer to a request of this method is; `ended` says that its stream had ended with its head.
/// `Chunked` means until the end of the stream. Not for a 2xx to CONNECT: what follows it is no body.
///
/// # Errors
/// When a body is promised and the stream has ended (RFC 9113 §8.1.1). The answer to a HEAD and a 304 promise none,
/// whatever their Content-Length.
pub fn length(method: Method, head: &ResponseHead, ended: bool) -> Result<BodyLength, HeadError> {
    match (framing::response(method, head)?, ended) {
        (BodyLength::UntilClose, true) => Ok(BodyLength::Empty),
        (BodyLength::UntilClose, false) => Ok(BodyLength::Chunked),
        (BodyLength::Known(_), true) => Err(HeadError::NoBody),
        (length, _) => Ok(length),
    }
}
