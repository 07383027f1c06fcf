//! A request of HTTP/2 as a head of HTTP/1 (RFC 9113 §8.3.1), or the reason why it is none.
//!
//! Does not check that pseudo-header fields come first and once: their collector does.

use super::SectionError;
use super::section::{SectionBudget, add, check};
use crate::fields::{Known, alike};
use crate::h1::{HeadLimits, framing, parse};
use crate::head::{BodyLength, HttpVersion, Method, RequestHead};
use crate::target::{self, Authority, TargetForm};

/// The pseudo-header fields of a request, as decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PseudoFields<'a> {
    /// `:method`; empty if missing.
    pub method: &'a [u8],
    /// `:scheme`, absent in a plain CONNECT.
    pub scheme: Option<&'a [u8]>,
    /// `:authority`: host and port.
    pub authority: Option<&'a [u8]>,
    /// `:path`, with its query; absent in a plain CONNECT.
    pub path: Option<&'a [u8]>,
    /// `:protocol` of an extended CONNECT (RFC 8441).
    pub protocol: Option<&'a [u8]>,
}

/// Builds a head from a request's fields, with nothing in it that HTTP/1 could not express; `head`
/// is valid only on success. Parsing into a used head allocates nothing.
///
/// The target is in origin-form, `*`, or, for CONNECT, in authority-form; Host is `:authority`.
/// Extended CONNECT for WebSocket (RFC 8441 §5) becomes the equivalent GET, without its
/// Sec-WebSocket-Key, which is between us and the endpoint. Lines of Cookie become one, the last of
/// the head (RFC 9113 §8.2.3).
///
/// # Errors
/// When it is malformed or exceeds `limits`.
pub fn request<'a>(
    pseudo: &PseudoFields<'a>,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    limits: &HeadLimits,
    head: &mut RequestHead,
) -> Result<(), SectionError> {
    let mut room = SectionBudget::of(limits);
    pseudo
        .take(&mut room)
        .map_err(|_| SectionError::TargetTooLong)?;
    let asked = pseudo.asked()?;
    head.begin(HttpVersion::Http2, asked.method, asked.target);
    head.secure = pseudo.scheme.map(|scheme| is(b"https", scheme));
    let mut authority = pseudo.authority.map(authority).transpose()?;
    if let Some(value) = pseudo.authority {
        add(&mut head.fields, b"Host", value, Some(Known::Host), limits)?;
    }
    let (mut hosts, mut cookies) = (0, Vec::new());
    for (name, value) in fields {
        room.take(name, value)?;
        let known = check(name, value)?;
        match known {
            Some(Known::Host) => {
                let host = self::authority(value)?;
                hosts += 1;
                let same =
                    authority.is_none_or(|authority| is_same(&authority, &host, pseudo.scheme));
                if hosts > 1 || !same {
                    return Err(SectionError::Authorities);
                }
                // RFC 9113 §8.3.1: Host replaces a missing :authority.
                if authority.replace(host).is_some() {
                    continue;
                }
            }
            // RFC 9113 §8.2.2: TE is the only connection-specific field that is allowed, with this
            // value only.
            Some(Known::Te) if !value.eq_ignore_ascii_case(b"trailers") => {
                return Err(SectionError::ConnectionField);
            }
            // RFC 9110 §9.3.6: CONNECT has no content, and here the data of its stream would be
            // taken for it. Unlike in HTTP/1 that includes 0: RFC 9113 §8.1.1 has a stream with
            // more data end, so that the granted tunnel would break with its first byte. In HTTP/1
            // the field has no effect, and WinINET sends it.
            Some(Known::ContentLength) if asked.is_tunnel() => return Err(SectionError::NoBody),
            None if name == b"cookie" => {
                // An empty crumb would leave a space at an end.
                if !value.is_empty() {
                    cookies.extend_from_slice(if cookies.is_empty() { b"" } else { b"; " });
                    cookies.extend_from_slice(value);
                }
                continue;
            }
            None if asked.websocket && alike(name, b"sec-websocket-key") => continue,
            _ => {}
        }
        add(&mut head.fields, name, value, known, limits)?;
    }
    if authority.is_none() {
        return Err(SectionError::NoAuthority);
    }
    if !cookies.is_empty() {
        add(&mut head.fields, b"cookie", &cookies, None, limits)?;
    }
    if asked.websocket {
        head.fields.append(b"Upgrade", b"websocket");
        head.fields.append(b"Connection", b"Upgrade");
    }
    framing::request(head)?;
    Ok(())
}

/// The length of the body of a request that [`request`] accepted. `ended` is whether its stream
/// ended with its head.
///
/// `Chunked` means until the end of the stream. A CONNECT and a WebSocket's GET have no body: they
/// are `Empty`, whether or not their streams have ended.
///
/// # Errors
/// When a body is announced and the stream has ended.
pub fn length(head: &RequestHead, ended: bool) -> Result<BodyLength, SectionError> {
    // A client's Upgrade is never in the head: this one is ours.
    let tunnel = head.method == Method::Connect || head.fields.first(Known::Upgrade).is_some();
    match (framing::request(head)?, ended) {
        (BodyLength::Empty, false)
            if !tunnel && head.fields.first(Known::ContentLength).is_none() =>
        {
            Ok(BodyLength::Chunked)
        }
        (BodyLength::Known(_), true) => Err(SectionError::NoBody),
        (length, _) => Ok(length),
    }
}

/// The request line in the form of HTTP/1.
struct RequestLine<'a> {
    method: &'a [u8],
    target: &'a [u8],
    /// Whether it is a WebSocket's extended CONNECT.
    websocket: bool,
}

impl RequestLine<'_> {
    /// Whether its stream carries a tunnel and no content.
    fn is_tunnel(&self) -> bool {
        self.websocket || self.method == b"CONNECT"
    }
}

impl<'a> PseudoFields<'a> {
    fn take(&self, room: &mut SectionBudget) -> Result<(), SectionError> {
        room.take(b":method", self.method)?;
        let others = [
            (&b":scheme"[..], self.scheme),
            (b":authority", self.authority),
            (b":path", self.path),
            (b":protocol", self.protocol),
        ];
        others
            .into_iter()
            .try_for_each(|(name, value)| value.map_or(Ok(()), |value| room.take(name, value)))
    }

    fn asked(&self) -> Result<RequestLine<'a>, SectionError> {
        match (self.method, self.protocol) {
            (b"", _) => Err(SectionError::PseudoFields),
            (b"CONNECT", None) => self.connect(),
            (b"CONNECT", Some(protocol)) => self.extended_connect(protocol),
            // RFC 8441 §4: only with CONNECT.
            (_, Some(_)) => Err(SectionError::PseudoFields),
            (method, None) if !parse::is_token(method) => Err(SectionError::Method),
            (method, None) => self.usual(method),
        }
    }

    /// RFC 9113 §8.3.1.
    fn usual(&self, method: &'a [u8]) -> Result<RequestLine<'a>, SectionError> {
        let (Some(scheme), Some(path)) = (self.scheme, self.path) else {
            return Err(SectionError::PseudoFields);
        };
        if !is(b"http", scheme) && !is(b"https", scheme) {
            // RFC 9113 §8.2.1: no value has such characters. Other schemes are only none of ours.
            let is_valid = !scheme
                .iter()
                .any(|byte| matches!(byte, b'\0' | b'\r' | b'\n'));
            return Err(if is_valid {
                SectionError::Scheme
            } else {
                SectionError::FieldValue
            });
        }
        // The characters that `h1::parse` accepts in a target, and the forms without an authority.
        if !path.iter().all(u8::is_ascii_graphic) {
            return Err(SectionError::Path);
        }
        match target::parse(Method::of(method), path) {
            Ok(TargetForm::Origin { .. } | TargetForm::Asterisk) => Ok(RequestLine {
                method,
                target: path,
                websocket: false,
            }),
            _ => Err(SectionError::Path),
        }
    }

    /// RFC 9113 §8.5.
    fn connect(&self) -> Result<RequestLine<'a>, SectionError> {
        let (None, None, Some(target)) = (self.scheme, self.path, self.authority) else {
            return Err(SectionError::PseudoFields);
        };
        match target::parse(Method::Connect, target) {
            Ok(_) => Ok(RequestLine {
                method: self.method,
                target,
                websocket: false,
            }),
            Err(_) => Err(SectionError::Authority),
        }
    }

    /// RFC 8441 §4, §5.
    fn extended_connect(&self, protocol: &[u8]) -> Result<RequestLine<'a>, SectionError> {
        let asked = self.usual(b"GET")?;
        if !parse::is_token(protocol) {
            Err(SectionError::Protocol)
        } else if !is(b"websocket", protocol) {
            Err(SectionError::UnknownProtocol)
        } else {
            Ok(RequestLine {
                websocket: true,
                ..asked
            })
        }
    }
}

fn is(word: &[u8], text: &[u8]) -> bool {
    word.eq_ignore_ascii_case(text)
}

fn authority(text: &[u8]) -> Result<Authority<'_>, SectionError> {
    Authority::parse(text).map_err(|_| SectionError::Authority)
}

/// Whether two authorities are equal after normalisation (RFC 9113 §8.3.1, RFC 3986 §6.2.3).
fn is_same(one: &Authority<'_>, other: &Authority<'_>, scheme: Option<&[u8]>) -> bool {
    let usual = scheme.map(|scheme| if is(b"https", scheme) { 443 } else { 80 });
    one.name() == other.name() && one.port.or(usual) == other.port.or(usual)
}

#[cfg(test)]
mod tests;
