//! A request as it goes to an endpoint. Only here is decided which fields are forwarded, which are
//! ours, and which target is asked for.

use lockgate_http::fields::{Field, Fields, Known};
use lockgate_http::forwarding::{EndToEndFields, ForwardedClient};
use lockgate_http::head::{BodyLength, HttpVersion, RequestHead};
use lockgate_http::request_target::RequestTarget;

use super::OutgoingHead;

/// A request as it goes to an endpoint over either HTTP.
pub struct OutgoingRequest<'a> {
    /// The head as it was received.
    pub received: &'a RequestHead,
    /// The head as the route's rules have changed it.
    pub head: &'a OutgoingHead<'a>,
    /// The target that the client has asked for.
    pub target: &'a RequestTarget<'a>,
    /// Path and query in its place, where the route rewrites them.
    pub rewritten: Option<Vec<u8>>,
    /// The length of its body.
    pub length: BodyLength,
    /// The client, as endpoints are told of it.
    pub client: &'a ForwardedClient,
    /// The id of the request, X-Request-Id.
    pub id: &'a [u8],
    /// The cookies that the endpoint sees, where ours was removed.
    pub cookies: Option<Vec<u8>>,
}

/// The encoder of a head's fields: the text of HTTP/1, or a block of HTTP/2.
pub trait FieldWriter {
    /// Writes those of `fields` that pass.
    fn copy(&mut self, fields: &Fields, passes: impl FnMut(&Field<'_>) -> bool);

    /// Writes a field of ours; its value is the concatenation of `parts`.
    fn add(&mut self, name: &'static str, parts: &[&[u8]]);

    /// Writes the forwarding fields of a request for `host` with the fields `sent`.
    fn add_forwarded(&mut self, client: &ForwardedClient, host: &[u8], sent: &Fields) {
        client.write_fields(host, sent, |name, parts| self.add(name, parts));
    }
}

impl OutgoingRequest<'_> {
    /// Whether a field of the head is forwarded unchanged. Host, the client's forwarding fields and
    /// the request's id are ours.
    fn hands_on(&self, onward: &EndToEndFields<'_>, field: &Field<'_>) -> bool {
        let ours = match field.known {
            Some(Known::Host) => true,
            Some(Known::XRequestId) => !self.client.is_anonymous(),
            _ => self.client.replaces(field),
        };
        // RFC 9110 §10.1.1: an expectation in HTTP/1.0 is ignored, and ours would be one in
        // HTTP/1.1.
        let unknown =
            self.received.version == HttpVersion::Http10 && field.known == Some(Known::Expect);
        let cookie = self.cookies.is_some() && field.name.eq_ignore_ascii_case(b"cookie");
        // CGI makes HTTP_PROXY of it, which libraries take for their proxy ("httpoxy",
        // CVE-2016-5385). It is in no standard.
        let proxy = field.known.is_none() && field.name.eq_ignore_ascii_case(b"proxy");
        onward.passes(field) && !ours && !unknown && !cookie && !proxy
    }

    /// Host and port that the endpoint is asked for.
    pub fn host(&self) -> &[u8] {
        self.head.host()
    }

    /// The Cookie field in place of the received ones, if there is one.
    fn other_cookies(&self) -> Option<&[u8]> {
        self.cookies.as_deref().filter(|left| !left.is_empty())
    }

    /// The value of Via, by the HTTP version of the received request (RFC 9110 §7.6.3: a gateway
    /// must send it).
    fn via(&self) -> &'static str {
        match self.received.version {
            HttpVersion::Http2 => "2.0 lockgate",
            HttpVersion::Http11 => "1.1 lockgate",
            HttpVersion::Http10 => "1.0 lockgate",
        }
    }

    /// Whether the client takes trailers, of which endpoints are told (RFC 9110 §10.1.4).
    #[inline]
    pub(crate) fn takes_trailers(&self) -> bool {
        let fields = self.head.fields();
        fields.may_have(&[Known::Te]) && fields.has_token(Known::Te, b"trailers")
    }

    /// The one protocol that the client offers to switch to (RFC 9110 §7.8). Not HTTP/2, nor TLS
    /// (RFC 2817): the bytes that follow unread would be requests ("h2c smuggling").
    #[inline]
    pub fn upgrade(&self) -> Option<&[u8]> {
        let is_offered = self.head.fields().may_have(&[Known::Upgrade]);
        is_offered.then(|| self.offered_upgrade())?
    }

    fn offered_upgrade(&self) -> Option<&[u8]> {
        let fields = self.head.fields();
        let offered = fields.first(Known::Upgrade)?;
        let asks = fields.has_token(Known::Connection, b"upgrade");
        let is = |name: &[u8]| {
            offered
                .get(..name.len())
                .is_some_and(|front| front.eq_ignore_ascii_case(name))
        };
        let is_http = is(b"h2") || is(b"http") || is(b"tls");
        // A token with perhaps a version: an origin might read more into anything longer.
        let one = fields.values(Known::Upgrade).count() == 1
            && !offered.is_empty()
            && offered
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-./^_`|~".contains(byte));
        (asks && one && !is_http && self.received.version >= HttpVersion::Http11).then_some(offered)
    }

    /// Whether it is a WebSocket's handshake without a key, as those of HTTP/2 are (RFC 8441 §5).
    pub(crate) fn is_websocket_without_key(&self) -> bool {
        self.received.version == HttpVersion::Http2 && self.upgrade().is_some()
    }

    /// The Content-Length that the endpoint gets, if any. RFC 9110 §8.6: a method that may have a
    /// body has one where the body is empty.
    pub fn content_length(&self) -> Option<u64> {
        let was_told = || self.received.fields.first(Known::ContentLength).is_some();
        match self.length {
            BodyLength::Known(length) => Some(length),
            BodyLength::Empty if was_told() => Some(0),
            BodyLength::Empty | BodyLength::Chunked | BodyLength::UntilClose => None,
        }
    }

    /// Writes the fields that the endpoint gets over either HTTP: forwarded fields, then ours.
    /// Host, framing and fields of the connection are the encoder's.
    pub fn write_fields(&self, writer: &mut impl FieldWriter) {
        let fields = self.head.fields();
        let onward = EndToEndFields::of(fields);
        writer.copy(fields, |field| self.hands_on(&onward, field));
        if let Some(cookies) = self.other_cookies() {
            writer.add("Cookie", &[cookies]);
        }
        writer.add_forwarded(self.client, self.target.host, fields);
        if !self.client.is_anonymous() {
            writer.add("X-Request-Id", &[self.id]);
        }
        writer.add("Via", &[self.via().as_bytes()]);
        if self.takes_trailers() {
            writer.add("TE", &[b"trailers"]);
        }
    }

    /// The path and query that the endpoint is asked for.
    pub fn path_and_query(&self) -> (&[u8], Option<&[u8]>) {
        match &self.rewritten {
            Some(target) => (target, None),
            None => (self.target.path, self.target.query),
        }
    }
}
