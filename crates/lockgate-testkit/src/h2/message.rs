//! Messages of HTTP/2 as tests look at them and make them: requests and responses.

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;

/// Name and value; bytes that are not UTF-8 are shown as U+FFFD.
pub(super) type Field = (String, String);

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn fields(map: &HeaderMap) -> Vec<Field> {
    map.iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes())))
        .collect()
}

pub(super) fn map(fields: &[Field]) -> HeaderMap {
    let parse = |(name, value): &Field| {
        let name = http::HeaderName::try_from(name.as_str()).expect("a name");
        (
            name,
            http::HeaderValue::from_bytes(value.as_bytes()).expect("a value"),
        )
    };
    fields.iter().map(parse).collect()
}

fn owned((name, value): (&str, &str)) -> Field {
    (name.to_owned(), value.to_owned())
}

fn find<'a>(fields: &'a [Field], wanted: &str) -> Option<&'a str> {
    let mut all = fields
        .iter()
        .filter(|(name, _)| name == wanted)
        .map(|(_, value)| value.as_str());
    let first = all.next();
    assert!(all.next().is_none(), "{wanted} is there twice: {fields:?}");
    first
}

/// A response as a client got it, as far as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedResponse {
    /// The status; 0 without a head.
    pub status: u16,
    /// The fields, without the status.
    pub fields: Vec<Field>,
    /// Interim responses (1xx): status and fields.
    pub interim: Vec<(u16, Vec<Field>)>,
    /// The body, as far as received.
    pub body: Vec<u8>,
    /// The trailers.
    pub trailers: Vec<Field>,
    /// The code of the RST_STREAM that ended it; `None` for a clean end.
    pub reset: Option<u32>,
}

impl ReceivedResponse {
    /// The value of a field that occurs at most once.
    ///
    /// # Panics
    /// When it occurs twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        find(&self.fields, name)
    }

    /// The value of a trailer that occurs at most once.
    ///
    /// # Panics
    /// When it occurs twice.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.trailers, name)
    }

    /// The body as text.
    ///
    /// # Panics
    /// When it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    /// Adds the next field section.
    ///
    /// # Panics
    /// When the first of a response does not begin with the status.
    pub(super) fn take(&mut self, mut fields: Vec<Field>) {
        if self.status != 0 {
            self.trailers = fields;
            return;
        }
        assert!(
            fields.first().is_some_and(|(name, _)| name == ":status"),
            "no status first: {fields:?}"
        );
        let (_, status) = fields.remove(0);
        let status = status.parse().expect("a status");
        assert!(
            !fields.iter().any(|(name, _)| name.starts_with(':')),
            "more pseudo-fields: {fields:?}"
        );
        if status < 200 {
            self.interim.push((status, fields));
        } else {
            (self.status, self.fields) = (status, fields);
        }
    }
}

/// A request as an origin has received it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The number of its connection, from 0.
    pub connection: usize,
    /// The id of its stream.
    pub stream: u32,
    /// `:method`.
    pub method: String,
    /// `:scheme`; empty where there is none.
    pub scheme: String,
    /// `:authority`; empty where there is none.
    pub authority: String,
    /// `:path`; empty where there is none.
    pub path: String,
    /// `:protocol` of an extended CONNECT.
    pub protocol: Option<String>,
    /// The other fields.
    pub fields: Vec<Field>,
    /// The body.
    pub body: Vec<u8>,
    /// The trailers.
    pub trailers: Vec<Field>,
    /// The code of the RST_STREAM by which the client cancelled it.
    pub reset: Option<u32>,
}

impl ReceivedRequest {
    /// The value of a field that occurs at most once.
    ///
    /// # Panics
    /// When it occurs twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        find(&self.fields, name)
    }

    /// The value of a trailer that occurs at most once.
    ///
    /// # Panics
    /// When it occurs twice.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.trailers, name)
    }

    /// The body as text.
    ///
    /// # Panics
    /// When it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }
}

/// A script for an origin's response to a request.
#[derive(Clone, Debug)]
pub struct ScriptedResponse {
    pub(super) interim: Vec<(u16, Vec<Field>)>,
    pub(super) status: u16,
    pub(super) fields: Vec<Field>,
    pub(super) pieces: Vec<Bytes>,
    pub(super) trailers: Vec<Field>,
    pub(super) end: ResponseEnd,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseEnd {
    /// A clean end.
    Clean,
    /// RST_STREAM behind the last piece.
    Reset(Reason),
    /// By RST_STREAM, without any response.
    Refused(Reason),
    /// No end.
    Never,
}

impl ScriptedResponse {
    /// A response with this status only.
    pub fn new(status: u16) -> Self {
        let (interim, fields, pieces, trailers) = Default::default();
        Self {
            interim,
            status,
            fields,
            pieces,
            trailers,
            end: ResponseEnd::Clean,
        }
    }

    /// 200 with this body and its Content-Length.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self::new(200)
            .field("content-length", &body.len().to_string())
            .piece(body)
    }

    /// RST_STREAM instead of a response; 7 is REFUSED_STREAM.
    pub fn refuse(code: u32) -> Self {
        Self {
            end: ResponseEnd::Refused(code.into()),
            ..Self::new(0)
        }
    }

    /// Adds a field.
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push(owned((name, value)));
        self
    }

    /// With an interim response.
    pub fn interim(mut self, status: u16, fields: &[(&str, &str)]) -> Self {
        self.interim
            .push((status, fields.iter().copied().map(owned).collect()));
        self
    }

    /// Adds a piece of the body.
    pub fn piece(mut self, piece: impl Into<Bytes>) -> Self {
        self.pieces.push(piece.into());
        self
    }

    /// Adds a trailer.
    pub fn trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers.push(owned((name, value)));
        self
    }

    /// RST_STREAM behind the last piece, in place of an end.
    pub fn then_reset(mut self, code: u32) -> Self {
        self.end = ResponseEnd::Reset(code.into());
        self
    }

    /// No end behind the last piece: the stream stays open until the client resets it.
    pub fn then_nothing(mut self) -> Self {
        self.end = ResponseEnd::Never;
        self
    }
}
