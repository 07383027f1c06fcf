//! Heads of HTTP/1 as the h2 crate has them, and back.

use h2::ext::Protocol;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use lockgate_http::fields::{Field, Fields, Known};
use lockgate_http::forwarding::{self, Onward};
use lockgate_http::h1::Limits;
use lockgate_http::h2::request::Pseudo;
use lockgate_http::h2::{self as words, HeadError};
use lockgate_http::head::{BodyLength, Method, RequestHead, ResponseHead};

/// Puts a request into the words of HTTP/1.
///
/// # Errors
/// When it is malformed, or longer than `limits` say.
pub(super) fn request(
    parts: &http::request::Parts,
    limits: &Limits,
    head: &mut RequestHead,
) -> Result<(), HeadError> {
    let scheme = parts.uri.scheme_str().map(str::as_bytes);
    let path = parts.uri.path_and_query().map(|path| path.as_str().as_bytes());
    let connects = parts.method == http::Method::CONNECT;
    let protocol = parts.extensions.get::<Protocol>();
    let plain = connects && protocol.is_none();
    let pseudo = Pseudo {
        method: parts.method.as_str().as_bytes(),
        // The crate has seen to it that there is one, and has no place for it beside a path without an authority.
        scheme: if plain { scheme } else { scheme.or(Some(b"https")) },
        authority: parts.uri.authority().map(|authority| authority.as_str().as_bytes()),
        path: if plain { None } else { path },
        protocol: protocol.map(|protocol| protocol.as_str().as_bytes()),
    };
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    words::request::request(&pseudo, fields, limits, head)
}

/// Names that most heads have: known ones need neither be looked up nor kept.
fn name(field: &Field<'_>) -> Option<HeaderName> {
    HeaderName::from_bytes(field.name).ok()
}

fn put(map: &mut HeaderMap, field: &Field<'_>) {
    if let (Some(name), Ok(value)) = (name(field), HeaderValue::from_bytes(field.value)) {
        map.append(name, value);
    }
}

/// An answer's head, with its body's length.
pub(super) fn response(request: &RequestHead, answer: &ResponseHead, length: BodyLength) -> Response<()> {
    let mut response = interim(answer);
    let told = answer.fields.first(Known::ContentLength);
    let length = match length {
        BodyLength::Known(length) => Some(HeaderValue::from(length)),
        // RFC 9110 §8.6: to HEAD and in a 304 the length is that of what GET would get; a 204 has none.
        BodyLength::Empty if request.method == Method::Head || answer.status == 304 => {
            told.and_then(|told| HeaderValue::from_bytes(told).ok())
        }
        BodyLength::Empty if answer.status != 204 => Some(HeaderValue::from(0)),
        _ => None,
    };
    if let Some(length) = length {
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
    }
    response
}

/// The head of an answer before the answer, or of one of which nothing is said of the length.
pub(super) fn interim(answer: &ResponseHead) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let onward = Onward::of(&answer.fields);
    let map = response.headers_mut();
    map.reserve(answer.fields.len() + 1);
    for field in answer.fields.iter() {
        if onward.passes(&field) && words::response::passes(&field) {
            put(map, &field);
        }
    }
    response
}

/// Trailers as they go.
pub(super) fn trailers(fields: &Fields, mut passes: impl FnMut(&Field<'_>) -> bool) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields.iter() {
        if passes(&field) && words::response::passes(&field) {
            put(&mut map, &field);
        }
    }
    map
}

/// What goes on of trailers that have come.
///
/// # Errors
/// When they are malformed, or longer than `limits` say.
pub(super) fn received(trailers: &HeaderMap, limits: &Limits, fields: &mut Fields) -> Result<(), HeadError> {
    let lines = trailers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    words::section::trailers(lines, limits, fields)?;
    fields.retain(|field| forwarding::passes_behind(&field));
    Ok(())
}
