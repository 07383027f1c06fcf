//! Spans (`trace/v1/trace.proto`): written one after the other by the workers, and put into an
//! `ExportTraceServiceRequest` as they are.

use super::protobuf::{
    begin_message, end_message, put_bytes, put_fixed32, put_fixed64, put_integer, put_message,
};
use super::resource::{OtlpResource, put_flag_attribute, put_number_attribute, put_text_attribute};

/// The longest text of an attribute, in bytes; clients decide about some.
const TEXT: usize = 1_024;

/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;

/// The fields of attributes: Span.attributes.
const ATTRIBUTES: u64 = 9;

/// The side of an exchange that a span is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// It serves the request.
    Server,
    /// It sends the request.
    Client,
}

/// The span that another one belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanParent {
    /// Its id.
    pub id: [u8; 8],
    /// Whether another process has it.
    pub is_remote: bool,
}

/// What each span has. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanHead<'a> {
    /// The trace.
    pub trace: [u8; 16],
    /// Its id.
    pub id: [u8; 8],
    /// The span that it belongs to; a trace begins with one that belongs to none.
    pub parent: Option<SpanParent>,
    /// The flags of the trace (W3C Trace Context §3.2.2.5).
    pub flags: u8,
    /// Its name: the same for all that do the same.
    pub name: &'a str,
    /// Its side.
    pub kind: SpanKind,
    /// Its beginning.
    pub start: u64,
    /// Its end.
    pub end: u64,
}

/// Writes one span. It is whole once it [ends](Self::end).
#[must_use]
pub struct SpanWriter<'a> {
    out: &'a mut Vec<u8>,
    begun: usize,
}

impl<'a> SpanWriter<'a> {
    /// Begins a span at the end of `out`, where more of them may follow.
    pub fn begin(out: &'a mut Vec<u8>, head: &SpanHead<'_>) -> Self {
        // ScopeSpans.spans: 2.
        let begun = begin_message(out, 2);
        // Span.trace_id: 1, .span_id: 2, .parent_span_id: 4, .name: 5, .kind: 6,
        // .start_time_unix_nano: 7, .end_time_unix_nano: 8, .flags: 16.
        put_bytes(out, 1, &head.trace);
        put_bytes(out, 2, &head.id);
        if let Some(parent) = &head.parent {
            put_bytes(out, 4, &parent.id);
        }
        put_bytes(out, 5, cut(head.name).as_bytes());
        // SPAN_KIND_SERVER, SPAN_KIND_CLIENT.
        put_integer(out, 6, if head.kind == SpanKind::Server { 2 } else { 3 });
        put_fixed64(out, 7, head.start);
        put_fixed64(out, 8, head.end.max(head.start));
        // SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK, SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK.
        let is_remote = head.parent.is_some_and(|parent| parent.is_remote);
        let flags = u32::from(head.flags) | 0x100 | u32::from(is_remote) << 9;
        put_fixed32(out, 16, flags);
        Self { out, begun }
    }

    /// An attribute; its text is cut at 1,024 bytes, and an empty one is left out.
    pub fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            put_text_attribute(self.out, ATTRIBUTES, key, cut(text));
        }
    }

    /// The same with bytes that may be no text: a string must be UTF-8.
    pub fn bytes(&mut self, key: &str, bytes: &[u8]) {
        let bytes = bytes.get(..TEXT).unwrap_or(bytes);
        self.text(key, &String::from_utf8_lossy(bytes));
    }

    /// An attribute that is a number.
    pub fn number(&mut self, key: &str, number: u32) {
        put_number_attribute(self.out, ATTRIBUTES, key, number);
    }

    /// An attribute that is true or false.
    pub fn flag(&mut self, key: &str, flag: bool) {
        put_flag_attribute(self.out, ATTRIBUTES, key, flag);
    }

    /// Something that happened within the span, at a time in nanoseconds since 1970.
    pub fn event(&mut self, name: &str, time: u64) {
        // Span.events: 11. Event.time_unix_nano: 1, .name: 2.
        put_message(self.out, 11, |out| {
            put_fixed64(out, 1, time);
            put_bytes(out, 2, name.as_bytes());
        });
    }

    /// Has the span be one that failed; `message` may be empty.
    pub fn fail(&mut self, message: &str) {
        // Span.status: 15. Status.message: 2, .code: 3.
        put_message(self.out, 15, |out| {
            if !message.is_empty() {
                put_bytes(out, 2, cut(message).as_bytes());
            }
            put_integer(out, 3, ERROR);
        });
    }

    /// Ends the span.
    pub fn end(self) {
        end_message(self.out, self.begun);
    }
}

/// The body of a POST to `/v1/traces` with spans that were written before.
pub fn trace_request<'a>(
    resource: &OtlpResource,
    spans: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut out = Vec::new();
    resource.put_request(&mut out, spans);
    out
}

/// A text that is no longer than that of an attribute.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(TEXT);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use lockgate_testkit::protobuf::ProtoMessage;

    use super::*;

    const HEAD: SpanHead<'static> = SpanHead {
        trace: [1; 16],
        id: [2; 8],
        parent: Some(SpanParent {
            id: [3; 8],
            is_remote: true,
        }),
        flags: 1,
        name: "GET /api/*",
        kind: SpanKind::Server,
        start: 1_764_352_800_250_000_000,
        end: 1_764_352_800_300_000_000,
    };

    fn resource() -> OtlpResource {
        OtlpResource {
            service: "edge".to_owned(),
            instance: String::new(),
            version: "1.2.3".to_owned(),
            host: String::new(),
        }
    }

    fn span(head: &SpanHead<'_>, write: impl FnOnce(&mut SpanWriter<'_>)) -> ProtoMessage {
        let mut out = Vec::new();
        let mut span = SpanWriter::begin(&mut out, head);
        write(&mut span);
        span.end();
        ProtoMessage::parse(&out).message(2)
    }

    /// Span: trace_id 1, span_id 2, parent_span_id 4, name 5, kind 6, start 7, end 8, flags 16.
    #[test]
    fn a_span_has_its_ids_times_kind_and_flags() {
        let found = span(&HEAD, |_| {});
        assert_eq!(found.bytes(1), [1; 16]);
        assert_eq!(found.bytes(2), [2; 8]);
        assert_eq!(found.bytes(4), [3; 8]);
        assert_eq!(found.text(5), "GET /api/*");
        let numbers = [6, 7, 8, 16].map(|field| found.number(field));
        let expected = [2, HEAD.start, HEAD.end, 0x301];
        assert_eq!(numbers, expected.map(Some));
        for (head, kind, flags) in [
            (
                SpanHead {
                    parent: None,
                    ..HEAD
                },
                2,
                0x101,
            ),
            (
                SpanHead {
                    kind: SpanKind::Client,
                    flags: 3,
                    parent: Some(SpanParent {
                        id: [2; 8],
                        is_remote: false,
                    }),
                    ..HEAD
                },
                3,
                0x103,
            ),
        ] {
            let found = span(&head, |_| {});
            let numbers = [6, 16].map(|field| found.number(field));
            assert_eq!(numbers, [Some(kind), Some(flags)]);
            assert_eq!(found.has(4), head.parent.is_some());
        }
    }

    /// Span.attributes 9 (KeyValue: key 1, value 2; AnyValue: string 1, bool 2, int 3), events 11
    /// (time 1, name 2), status 15 (message 2, code 3).
    #[test]
    fn attributes_events_and_status_are_fields_of_the_span() {
        let found = span(&HEAD, |span| {
            span.text("url.path", "/a");
            span.text("none", "");
            span.bytes("http.route", b"\xff*");
            span.number("http.response.status_code", 502);
            span.flag("lockgate.reused", true);
            span.event("first_byte", HEAD.start + 5);
            span.fail("refused");
        });
        let attributes: Vec<_> = found.messages(9).collect();
        let keys: Vec<_> = attributes.iter().map(|pair| pair.text(1)).collect();
        assert_eq!(
            keys,
            [
                "url.path",
                "http.route",
                "http.response.status_code",
                "lockgate.reused"
            ]
        );
        assert_eq!(attributes[0].message(2).text(1), "/a");
        assert_eq!(attributes[1].message(2).text(1), "\u{fffd}*");
        assert_eq!(attributes[2].message(2).number(3), Some(502));
        assert_eq!(attributes[3].message(2).number(2), Some(1));
        let event = found.message(11);
        assert_eq!(event.number(1), Some(HEAD.start + 5));
        assert_eq!(event.text(2), "first_byte");
        let status = found.message(15);
        assert_eq!((status.text(2), status.number(3)), ("refused", Some(2)));
    }

    #[test]
    fn texts_of_a_span_are_cut_between_characters() {
        let long = "ü".repeat(TEXT);
        let found = span(&HEAD, |span| {
            span.text("a", &format!("x{long}"));
            span.bytes("b", &vec![b'y'; 3 * TEXT]);
            span.fail(&long);
        });
        let lengths: Vec<_> = found
            .messages(9)
            .map(|pair| pair.message(2).text(1).len())
            .collect();
        assert_eq!(lengths, [TEXT - 1, TEXT]);
        assert_eq!(found.message(15).text(2).len(), TEXT);
    }

    /// trace_service.proto: resource_spans 1; ResourceSpans: resource 1, scope_spans 2; ScopeSpans:
    /// scope 1, spans 2.
    #[test]
    fn a_request_has_the_spans_of_all_buffers() {
        let mut buffers = [Vec::new(), Vec::new()];
        for (id, buffer) in [(1, 0), (2, 0), (3, 1)] {
            let head = SpanHead {
                id: [id; 8],
                ..HEAD
            };
            SpanWriter::begin(&mut buffers[buffer], &head).end();
        }
        let request = trace_request(&resource(), buffers.iter().map(Vec::as_slice));
        let of_resource = ProtoMessage::parse(&request).message(1);
        let attributes: Vec<_> = of_resource.message(1).messages(1).collect();
        let pairs: Vec<_> = attributes.iter().map(|pair| pair.text(1)).collect();
        assert_eq!(pairs, ["service.name", "service.version"]);
        let scope = of_resource.message(2);
        assert_eq!(scope.message(1).text(1), "lockgate");
        let ids: Vec<_> = scope.messages(2).map(|span| span.bytes(2)[0]).collect();
        assert_eq!(ids, [1, 2, 3]);
        // One that ends before it begins, by a clock that was put back, takes no time.
        let head = SpanHead { end: 0, ..HEAD };
        assert_eq!(span(&head, |_| {}).number(8), Some(HEAD.start));
    }
}
