//! Changes that an intermediary must make to a message (RFC 9110 §7.6), and the fields about its
//! client (RFC 7239).

use crate::fields::{Field, Fields, Known, alike};
use crate::h1::encode;
use crate::head::{HttpVersion, Method, RequestHead};

/// The fields of a message that are forwarded: all but those for this connection only (RFC 9110
/// §7.6.1).
///
/// A field that Connection names is not forwarded, except those that framing and routing need: a
/// client that could remove them would decide how the next server reads its message ("hop-by-hop
/// abuse").
#[derive(Debug)]
pub struct EndToEndFields<'a> {
    /// Names in Connection that are not hop-by-hop anyway.
    named: Vec<&'a [u8]>,
}

impl<'a> EndToEndFields<'a> {
    /// For the message with these fields.
    pub fn of(fields: &'a Fields) -> Self {
        let usual = |token: &&[u8]| {
            [&b"close"[..], b"keep-alive"]
                .iter()
                .any(|usual| usual.eq_ignore_ascii_case(token))
        };
        Self {
            named: fields
                .tokens(Known::Connection)
                .filter(|token| !usual(token))
                .collect(),
        }
    }

    /// Whether a field is forwarded. Framing is not: the encoder writes its own Content-Length and
    /// Transfer-Encoding.
    pub fn passes(&self, field: &Field<'_>) -> bool {
        match field.known {
            Some(known) if is_hop_by_hop(known) => false,
            Some(Known::Host) => true,
            _ => !self
                .named
                .iter()
                .any(|name| name.eq_ignore_ascii_case(field.name)),
        }
    }
}

/// Removes Connection and the fields that it names: fields that we add afterwards cannot be removed
/// by a peer (CVE-2022-1388, CVE-2022-31813).
pub fn remove_connection_fields(fields: &mut Fields) {
    let ours = |token: &[u8]| {
        [&b"close"[..], b"keep-alive", b"te", b"upgrade"]
            .iter()
            .any(|ours| ours.eq_ignore_ascii_case(token))
    };
    if fields.tokens(Known::Connection).all(ours) {
        return;
    }
    let kept: Vec<&[u8]> = fields
        .tokens(Known::Connection)
        .filter(|token| ours(token))
        .collect();
    let (kept, named) = (kept.join(&b", "[..]), fields.clone());
    let onward = EndToEndFields::of(&named);
    fields.retain(|field| field.known.is_some_and(is_hop_by_hop) || onward.passes(&field));
    fields.set(Known::Connection, &kept);
}

/// Whether a trailer is forwarded. Fields of framing, routing, credentials or the client are not
/// (RFC 9110 §6.5.1): a recipient that merges trailers into the head would take a peer's value for
/// ours.
pub fn passes_in_trailers(field: &Field<'_>) -> bool {
    const NEVER: [&[u8]; 34] = [
        b"accept-encoding",
        b"age",
        b"authentication-info",
        b"authorization",
        b"cache-control",
        b"content-encoding",
        b"content-language",
        b"content-location",
        b"content-range",
        b"content-type",
        b"cookie",
        b"expires",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"location",
        b"pragma",
        b"proxy",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-status",
        b"range",
        b"refresh",
        b"retry-after",
        b"set-cookie",
        b"strict-transport-security",
        b"vary",
        b"warning",
        b"www-authenticate",
        b"x-accel-redirect",
        b"x-real-ip",
    ];
    field.known.is_none()
        && !is_like_ours(field.name)
        && !NEVER.iter().any(|never| alike(never, field.name))
}

/// The recipient of a request, by its Max-Forwards (RFC 9110 §7.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// The next hop: there is no such number, or it is above zero.
    Next,
    /// This proxy: the request must not be forwarded.
    Us,
}

/// The recipient of a request, and the Max-Forwards for the next hop, if it gets one: one less, for
/// OPTIONS and TRACE. For other methods the field is forwarded unchanged.
///
/// A number that exceeds 64 bits becomes the largest one: our supported maximum in the sense of RFC
/// 9110 §7.6.2.
///
/// # Errors
/// When it is no number, or there are several.
pub fn decrement_max_forwards(
    head: &RequestHead,
) -> Result<(Recipient, Option<u64>), MaxForwardsError> {
    if !matches!(head.method, Method::Options | Method::Trace) {
        return Ok((Recipient::Next, None));
    }
    Ok(match max_forwards(&head.fields)? {
        None => (Recipient::Next, None),
        Some(0) => (Recipient::Us, None),
        Some(left) => (Recipient::Next, Some(left - 1)),
    })
}

/// Writes the Max-Forwards for the next hop.
pub fn set_max_forwards(left: u64, fields: &mut Fields) {
    fields.set(
        Known::MaxForwards,
        itoa::Buffer::new().format(left).as_bytes(),
    );
}

fn max_forwards(fields: &Fields) -> Result<Option<u64>, MaxForwardsError> {
    let mut values = fields.values(Known::MaxForwards);
    let digits = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some([]), _) | (_, Some(_)) => return Err(MaxForwardsError),
        (Some(digits), None) => digits,
    };
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    });
    number.map(Some).ok_or(MaxForwardsError)
}

/// Max-Forwards is not one number (RFC 9110 §7.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Max-Forwards is not a number")]
pub struct MaxForwardsError;

/// Whether a field is hop-by-hop, even if Connection does not name it.
fn is_hop_by_hop(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::ContentLength
            | Known::KeepAlive
            | Known::LockgateTrace
            | Known::ProxyConnection
            | Known::Te
            | Known::TransferEncoding
            | Known::Upgrade
    )
}

/// Whether the sender of this message wants to keep the connection (RFC 9112 §9.3).
pub fn keeps_alive(version: HttpVersion, fields: &Fields) -> bool {
    let has = |token: &[u8]| fields.has_token(Known::Connection, token);
    !has(b"close") && (version >= HttpVersion::Http11 || has(b"keep-alive"))
}

/// The client in the forwarding fields for the origin: built once per connection, written into each
/// of its requests.
#[derive(Debug)]
pub struct ForwardedClient {
    address: String,
    secure: bool,
    trusted: bool,
    /// Whether no forwarding fields are written.
    anonymous: bool,
    /// The client's element of `Forwarded`, without the host (RFC 7239 §4).
    element: String,
    /// The text of all the fields over HTTP/1; `None` where it depends on the request.
    text: Option<TextWithHost>,
}

/// Text in which a host stands twice.
#[derive(Debug)]
struct TextWithHost {
    /// The text with a byte in the place of each.
    text: Box<[u8]>,
    /// These places.
    hosts: [usize; 2],
}

impl ForwardedClient {
    /// `address` is that of the connection's other end, or of the client in a PROXY header,
    /// `unknown` without one; `secure` is whether it came over TLS. The fields of earlier hops from
    /// a `trusted` client are kept, and ours are appended.
    pub fn new(address: String, secure: bool, trusted: bool) -> Self {
        let element = element(&address, proto(secure));
        let mut client = Self {
            address,
            secure,
            trusted,
            anonymous: false,
            element,
            text: None,
        };
        client.text = (!trusted).then(|| client.text_for_any_host());
        client
    }

    fn text_for_any_host(&self) -> TextWithHost {
        let mut text = Vec::new();
        // No host has a NUL.
        self.write_text(b"\0", &Fields::default(), &mut text);
        let mut hosts = memchr::memchr_iter(0, &text);
        let hosts = std::array::from_fn(|_| hosts.next().unwrap_or(text.len()));
        TextWithHost {
            hosts,
            text: text.into(),
        }
    }

    /// A client without forwarding fields: it asked for a forward proxy, and its own such fields
    /// are forwarded unchanged.
    pub fn anonymous() -> Self {
        Self {
            anonymous: true,
            text: None,
            ..Self::new(String::new(), false, false)
        }
    }

    /// The same client, trusted or not.
    #[must_use]
    pub fn with_trust(&self, trusted: bool) -> Self {
        Self::new(self.address.clone(), self.secure, trusted)
    }

    /// Whether no forwarding fields are written.
    pub fn is_anonymous(&self) -> bool {
        self.anonymous
    }

    /// Whether the client uses TLS.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether the client's own forwarding fields are trusted.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Whether a field must not be forwarded beside those of [`write_fields`](Self::write_fields):
    /// any client could have sent it.
    pub fn replaces(&self, field: &Field<'_>) -> bool {
        match field.known {
            _ if self.anonymous => false,
            Some(Known::XForwardedFor | Known::Forwarded) => true,
            // The first hop knows the user's request best.
            Some(Known::XForwardedProto | Known::XForwardedHost) => !self.trusted,
            Some(_) => false,
            // Names that applications which get fields as variables confuse with ours (RFC 3875
            // §4.1.18).
            None => is_like_ours(field.name),
        }
    }

    /// Writes the fields of [`write_fields`](Self::write_fields) as HTTP/1 has them. The text of
    /// most connections is ready but for the host: four fields cost a request 200 instructions
    /// fewer than one by one.
    pub fn write_text(&self, host: &[u8], sent: &Fields, out: &mut Vec<u8>) {
        match &self.text {
            Some(TextWithHost { text, hosts }) if !host.is_empty() => {
                let [first, second] = *hosts;
                let (before, between) = (&text[..first], &text[first + 1..second]);
                for part in [before, host, between, host, &text[second + 1..]] {
                    out.extend_from_slice(part);
                }
            }
            _ => self.write_fields(host, sent, |name, parts| {
                encode::field_of(out, name.as_bytes(), parts);
            }),
        }
    }

    /// Passes `X-Forwarded-For`, `-Proto` and `-Host`, and `Forwarded` (RFC 7239 §4) to `add`, each
    /// with the parts of its value. `sent` are the request's fields; `host` is its host as it was
    /// written, with its port.
    pub fn write_fields(
        &self,
        host: &[u8],
        sent: &Fields,
        mut add: impl FnMut(&'static str, &[&[u8]]),
    ) {
        if self.anonymous {
            return;
        }
        let (address, proto) = (self.address.as_bytes(), proto(self.secure).as_bytes());
        let element = [self.element.as_bytes(), b";host=\"", host, b"\""];
        let element = if host.is_empty() {
            &element[..1]
        } else {
            &element[..]
        };
        let is_ours = |known| !self.trusted || sent.first(known).is_none();
        let behind_earlier =
            |known, ours: &[&[u8]], add: &mut dyn FnMut(&'static str, &[&[u8]])| {
                let earlier = sent.values(known).filter(|value| !value.is_empty());
                let mut parts: Vec<&[u8]> = earlier.flat_map(|value| [value, b", "]).collect();
                parts.extend(ours);
                add(known.name(), &parts);
            };
        if self.trusted {
            behind_earlier(Known::XForwardedFor, &[address], &mut add);
        } else {
            add(Known::XForwardedFor.name(), &[address]);
        }
        if is_ours(Known::XForwardedProto) {
            add(Known::XForwardedProto.name(), &[proto]);
        }
        if is_ours(Known::XForwardedHost) && !host.is_empty() {
            add(Known::XForwardedHost.name(), &[host]);
        }
        if self.trusted {
            behind_earlier(Known::Forwarded, element, &mut add);
        } else {
            add(Known::Forwarded.name(), element);
        }
    }
}

fn proto(secure: bool) -> &'static str {
    if secure { "https" } else { "http" }
}

/// RFC 7239 §4 and §6: an IPv6 address is in brackets, and anything with brackets is in quotes.
fn element(address: &str, proto: &str) -> String {
    if address.contains(':') {
        format!("for=\"[{address}]\";proto={proto}")
    } else {
        format!("for={address};proto={proto}")
    }
}

/// Whether a name equals, underscores aside, one that we refuse, replace or write.
fn is_like_ours(name: &[u8]) -> bool {
    let mut usual = [0; 17];
    let Some(usual) = usual.get_mut(..name.len()) else {
        return false;
    };
    if memchr::memchr(b'_', name).is_none() {
        return false;
    }
    for (usual, byte) in usual.iter_mut().zip(name) {
        *usual = if *byte == b'_' { b'-' } else { *byte };
    }
    Known::of(usual).is_some_and(|known| !is_for_recipient(known))
}

/// Whether a field is known only because the final recipient looks it up: for forwarding it is like
/// any other.
fn is_for_recipient(known: Known) -> bool {
    matches!(
        known,
        Known::AcceptEncoding
            | Known::IfMatch
            | Known::IfModifiedSince
            | Known::IfNoneMatch
            | Known::IfRange
            | Known::IfUnmodifiedSince
            | Known::Range
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    fn shown(fields: &Fields, keep: impl Fn(&Field<'_>) -> bool) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let line = |field: Field<'_>| format!("{}: {}", text(field.name), text(field.value));
        fields.iter().filter(keep).map(line).collect()
    }

    #[test]
    fn hop_by_hop_fields_are_not_forwarded() {
        let sent = fields(&[
            ("Host", "a.example"),
            ("Connection", "close, X-Secret"),
            ("connection", "Keep-Alive, host, content-length"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("TE", "trailers"),
            ("Upgrade", "h2c"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "3"),
            ("x-secret", "1"),
            ("X-Other", "2"),
        ]);
        let onward = EndToEndFields::of(&sent);
        assert_eq!(
            shown(&sent, |field| onward.passes(field)),
            ["Host: a.example", "X-Other: 2"]
        );
    }

    #[test]
    fn fields_added_after_detaching_survive_the_connection_field() {
        let mut sent = fields(&[
            ("Host", "a.example"),
            ("Connection", "X-Secret, Upgrade, host"),
            ("connection", "content-length, x-added"),
            ("X-Secret", "1"),
            ("Upgrade", "websocket"),
            ("Content-Length", "3"),
            ("X-Other", "2"),
        ]);
        remove_connection_fields(&mut sent);
        sent.append(b"X-Added", b"3");
        assert_eq!(
            shown(&sent, |_| true),
            [
                "Host: a.example",
                "Upgrade: websocket",
                "Content-Length: 3",
                "X-Other: 2",
                "Connection: Upgrade",
                "X-Added: 3"
            ]
        );
        let onward = EndToEndFields::of(&sent);
        assert_eq!(
            shown(&sent, |field| onward.passes(field)),
            ["Host: a.example", "X-Other: 2", "X-Added: 3"]
        );
    }

    /// RFC 9110 §7.6.2.
    #[test]
    fn max_forwards_is_decremented_for_trace_and_options() {
        let counted = |method, values: &[&str]| {
            let lines: Vec<_> = values
                .iter()
                .map(|value| ("max-forwards", *value))
                .collect();
            decrement_max_forwards(&RequestHead {
                method,
                fields: fields(&lines),
                ..RequestHead::default()
            })
        };
        for method in [Method::Options, Method::Trace] {
            assert_eq!(counted(method, &[]), Ok((Recipient::Next, None)));
            assert_eq!(counted(method, &["0"]), Ok((Recipient::Us, None)));
            assert_eq!(counted(method, &["1"]), Ok((Recipient::Next, Some(0))));
            assert_eq!(counted(method, &["010"]), Ok((Recipient::Next, Some(9))));
            assert_eq!(
                counted(method, &["99999999999999999999"]),
                Ok((Recipient::Next, Some(u64::MAX - 1)))
            );
            for malformed in [&[""][..], &["-1"], &["1.0"], &["1, 2"], &["1", "1"], &["x"]] {
                assert_eq!(
                    counted(method, malformed),
                    Err(MaxForwardsError),
                    "{malformed:?}"
                );
            }
        }
        assert_eq!(counted(Method::Get, &["0"]), Ok((Recipient::Next, None)));
        assert_eq!(
            counted(Method::Other, &["x", "y"]),
            Ok((Recipient::Next, None))
        );
        let mut some = fields(&[("max-forwards", "7"), ("x", "y")]);
        set_max_forwards(6, &mut some);
        assert_eq!(shown(&some, |_| true), ["x: y", "Max-Forwards: 6"]);
    }

    #[test]
    fn trailers_that_a_head_needs_are_dropped() {
        let sent = fields(&[
            ("X-Sum", "1"),
            ("grpc-status", "0"),
            ("Content-Length", "5"),
            ("content_length", "5"),
            ("Host", "b"),
            ("SET-COOKIE", "a=b"),
            ("Authorization", "x"),
            ("X-Forwarded-For", "1.1.1.1"),
            ("Max-Forwards", "1"),
            ("x_real_ip", "1.1.1.1"),
            ("Range", "bytes=0-1"),
            ("if_match", "*"),
            ("Accept_Encoding", "gzip"),
        ]);
        assert_eq!(
            shown(&sent, passes_in_trailers),
            ["X-Sum: 1", "grpc-status: 0"]
        );
    }

    /// RFC 9112 §9.3.
    #[test]
    fn keep_alive_depends_on_version_and_connection_field() {
        let keeps = |version, value: &str| keeps_alive(version, &fields(&[("Connection", value)]));
        let (old, new) = (HttpVersion::Http10, HttpVersion::Http11);
        assert_eq!(
            ["", "close", "Close, x", "keep-alive"].map(|value| keeps(new, value)),
            [true, false, false, true]
        );
        assert_eq!(
            ["", "close", "Keep-Alive", "close, keep-alive"].map(|value| keeps(old, value)),
            [false, false, true, false]
        );
        // RFC 9113 §9.1: by GOAWAY and not by a field.
        assert!(keeps(HttpVersion::Http2, ""));
    }

    fn told(client: &ForwardedClient, host: &str, sent: &[(&str, &str)]) -> Vec<String> {
        let sent = fields(sent);
        let (mut out, mut single) = (Vec::new(), Vec::new());
        client.write_text(host.as_bytes(), &sent, &mut out);
        client.write_fields(host.as_bytes(), &sent, |name, parts| {
            encode::field_of(&mut single, name.as_bytes(), parts);
        });
        assert_eq!(out, single, "the text is that of the fields one by one");
        let mut kept = Vec::new();
        sent.write(&mut kept, |field| !client.replaces(field));
        kept.append(&mut out);
        String::from_utf8(kept)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn untrusted_clients_cannot_set_x_forwarded_for() {
        let lies = [
            ("X-Forwarded-For", "1.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("X-Forwarded-Host", "evil"),
            ("Forwarded", "for=1.1.1.1"),
            ("X_Forwarded_For", "1.1.1.1"),
            ("x-forwarded_proto", "https"),
            ("Transfer_Encoding", "chunked"),
            ("content_length", "5"),
            ("X_Request_Id", "1"),
            ("X_Other", "1"),
            ("If_Match", "*"),
        ];
        let client = ForwardedClient::new("192.0.2.7".to_owned(), false, false);
        assert_eq!(
            told(&client, "a.example:80", &lies),
            [
                "X_Other: 1",
                // It does not name the client.
                "If_Match: *",
                "X-Forwarded-For: 192.0.2.7",
                "X-Forwarded-Proto: http",
                "X-Forwarded-Host: a.example:80",
                "Forwarded: for=192.0.2.7;proto=http;host=\"a.example:80\"",
            ]
        );
    }

    #[test]
    fn without_host_there_is_no_x_forwarded_host() {
        for trusted in [false, true] {
            let client = ForwardedClient::new("192.0.2.7".to_owned(), false, trusted);
            assert_eq!(
                told(&client, "", &[]),
                [
                    "X-Forwarded-For: 192.0.2.7",
                    "X-Forwarded-Proto: http",
                    "Forwarded: for=192.0.2.7;proto=http"
                ]
            );
        }
    }

    #[test]
    fn trusted_proxies_keep_x_forwarded_for_and_ours_is_appended() {
        let said = [
            ("X-Forwarded-For", "203.0.113.9"),
            ("X-Forwarded-For", "10.0.0.1"),
            ("X-Forwarded-Proto", "https"),
            ("Forwarded", "for=203.0.113.9"),
        ];
        let client = ForwardedClient::new("2001:db8::7".to_owned(), false, true);
        assert_eq!(
            told(&client, "a.example", &said),
            [
                "X-Forwarded-Proto: https",
                "X-Forwarded-For: 203.0.113.9, 10.0.0.1, 2001:db8::7",
                "X-Forwarded-Host: a.example",
                "Forwarded: for=203.0.113.9, for=\"[2001:db8::7]\";proto=http;host=\"a.example\"",
            ]
        );
    }
}
