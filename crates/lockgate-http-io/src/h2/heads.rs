//! Conversion of heads between HTTP/1 and the h2 crate, which speaks with endpoints.

use std::borrow::Cow;

use bytes::Bytes;
use h2::ext::Protocol;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Response, Uri};
use lockgate_http::fields::{Field, Fields};
use lockgate_http::forwarding;
use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{self as words, SectionError};
use lockgate_http::head::ResponseHead;

use crate::message::{FieldSink, OutgoingRequest};

/// The longest path and query that the http crate takes.
const LONGEST_PATH: usize = u16::MAX as usize - 1;
/// The authority of a request without a host to an endpoint without a name, as behind a Unix
/// socket.
const NO_HOST: &str = "localhost";

/// The pseudo-fields of a request to an endpoint: `:method`, `:path` and `:authority`. Made before
/// an endpoint is chosen, since the client is at fault where HTTP/2 has none.
#[derive(Debug)]
pub struct RequestPseudoFields {
    method: http::Method,
    path: PathAndQuery,
    /// None where the client sent no host.
    authority: Option<Authority>,
}

impl RequestPseudoFields {
    /// The pseudo-fields of a request, as its route rewrites it.
    ///
    /// # Errors
    /// When HTTP/2 has no such method, path or host.
    pub fn of(request: &OutgoingRequest<'_>) -> Result<Self, SectionError> {
        let (head, host) = (request.received, request.host());
        let method =
            http::Method::from_bytes(head.method_name()).map_err(|_| SectionError::Method)?;
        let host = (!host.is_empty()).then(|| Bytes::copy_from_slice(host));
        let authority = host.map(Authority::from_maybe_shared).transpose();
        let authority = authority.map_err(|_| SectionError::Authority)?;
        Ok(Self {
            method,
            path: path(request)?,
            authority,
        })
    }

    /// The same for an endpoint with this host and port, which replace a missing host (RFC 9113
    /// §8.3.1).
    pub fn at(&self, endpoint: Option<(&str, u16)>) -> Self {
        let authority = self
            .authority
            .clone()
            .or_else(|| Some(endpoint_authority(endpoint)));
        Self {
            method: self.method.clone(),
            path: self.path.clone(),
            authority,
        }
    }

    fn into_parts(self, secure: bool) -> (http::Method, Uri) {
        let mut parts = http::uri::Parts::default();
        parts.authority = Some(
            self.authority
                .unwrap_or_else(|| Authority::from_static(NO_HOST)),
        );
        parts.path_and_query = Some(self.path);
        parts.scheme = Some(if secure { Scheme::HTTPS } else { Scheme::HTTP });
        (
            self.method,
            Uri::from_parts(parts).expect("an absolute URI has all three"),
        )
    }
}

/// The configured host and port of an endpoint.
fn endpoint_authority(endpoint: Option<(&str, u16)>) -> Authority {
    let named = endpoint.and_then(|(host, port)| match host.contains(':') {
        true => format!("[{}]:{port}", host.trim_matches(['[', ']']))
            .parse()
            .ok(),
        false => format!("{host}:{port}").parse().ok(),
    });
    named.unwrap_or_else(|| Authority::from_static(NO_HOST))
}

/// Encodes the request as an endpoint gets it; `secure` over TLS, `websocket` as an extended
/// CONNECT (RFC 8441 §5).
pub(super) fn upstream_request(
    request: &OutgoingRequest<'_>,
    target: RequestPseudoFields,
    secure: bool,
    websocket: bool,
) -> http::Request<()> {
    let mut asks = http::Request::new(());
    (*asks.method_mut(), *asks.uri_mut()) = target.into_parts(secure);
    request.write_fields(&mut RequestMap {
        map: asks.headers_mut(),
        websocket,
    });
    if let Some(length) = request.content_length() {
        asks.headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if websocket {
        *asks.method_mut() = http::Method::CONNECT;
        asks.extensions_mut()
            .insert(Protocol::from_static("websocket"));
    }
    asks
}

/// The crate's map as an encoder of a request's fields.
struct RequestMap<'m> {
    map: &'m mut HeaderMap,
    websocket: bool,
}

impl FieldSink for RequestMap<'_> {
    fn copy(&mut self, fields: &Fields, mut passes: impl FnMut(&Field<'_>) -> bool) {
        self.map.reserve(fields.len() + 8);
        for field in fields.iter() {
            // Only HTTP/1 has the key.
            let key = self.websocket && field.name.eq_ignore_ascii_case(b"sec-websocket-key");
            if passes(&field) && words::response::passes(&field) && !key {
                put(self.map, &field);
            }
        }
    }

    fn add(&mut self, name: &'static str, parts: &[&[u8]]) {
        let joined;
        let value = match parts {
            [value] => value,
            parts => {
                joined = parts.concat();
                &joined[..]
            }
        };
        let field = Field {
            name: name.as_bytes(),
            value,
            known: None,
        };
        put(self.map, &field);
    }
}

/// The `:path` of a request (RFC 9113 §8.3.1).
fn path(request: &OutgoingRequest<'_>) -> Result<PathAndQuery, SectionError> {
    let (path, query) = request.path_and_query();
    let whole = match query {
        Some(query) => Cow::Owned([path, query].join(&b'?')),
        None => Cow::Borrowed(path),
    };
    PathAndQuery::try_from(&whole[..]).or_else(|_| {
        let escaped = escaped(&whole);
        let error = if escaped.len() > LONGEST_PATH {
            SectionError::TargetTooLong
        } else {
            SectionError::Path
        };
        PathAndQuery::try_from(escaped).map_err(|_| error)
    })
}

/// A target with bytes outside RFC 3986 §2 percent-encoded, since the crate takes no others.
fn escaped(target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len() + 32);
    for &byte in target {
        if matches!(byte, b'"' | b'<' | b'>' | b'`' | b'#' | 0x80..) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    out
}

/// Decodes an endpoint's response to the head of HTTP/1.
///
/// # Errors
/// When it is malformed, or longer than `limits` allow.
pub(super) fn decode_response<T>(
    response: &Response<T>,
    limits: &HeadLimits,
    head: &mut ResponseHead,
) -> Result<(), SectionError> {
    let fields = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    words::response::response(response.status().as_u16(), fields, limits, head)
}

fn put(map: &mut HeaderMap, field: &Field<'_>) {
    if let (Ok(name), Ok(mut value)) = (
        HeaderName::from_bytes(field.name),
        HeaderValue::from_bytes(field.value),
    ) {
        // RFC 7541 §7.1.3: many clients share the table of a connection to an endpoint. Ids never
        // repeat: in the table each would only evict a useful entry.
        let is_sensitive = name == header::AUTHORIZATION || name == header::COOKIE;
        value.set_sensitive(is_sensitive || name == "x-request-id");
        map.append(name, value);
    }
}

pub(super) fn encode_trailers(
    fields: &Fields,
    mut passes: impl FnMut(&Field<'_>) -> bool,
) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields.iter() {
        if passes(&field) && words::response::passes(&field) {
            put(&mut map, &field);
        }
    }
    map
}

/// Decodes the end-to-end fields of received trailers.
///
/// # Errors
/// When they are malformed, or longer than `limits` allow.
pub(super) fn decode_trailers(
    trailers: &HeaderMap,
    limits: &HeadLimits,
    fields: &mut Fields,
) -> Result<(), SectionError> {
    let lines = trailers
        .iter()
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    words::section::trailers(lines, limits, fields)?;
    fields.retain(|field| forwarding::passes_in_trailers(&field));
    Ok(())
}
