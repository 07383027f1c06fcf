//! The head of a message.

use crate::fields::{Fields, TextSpan};

/// The version of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpVersion {
    /// HTTP/1.0: no chunks, no required Host, closed by default.
    Http10,
    /// HTTP/1.1, and every later HTTP/1 (RFC 9110 §2.5).
    Http11,
    /// HTTP/2 in the form of HTTP/1: its streams delimit bodies, and it has no fields for the
    /// connection.
    Http2,
}

/// A request's method: those that change how messages are read or whether they may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    /// Any other; the head holds its name.
    Other,
}

impl Method {
    /// Methods are case-sensitive (RFC 9110 §9.1).
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// Whether the method is idempotent (RFC 9110 §9.2.2).
    pub fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace
        )
    }
}

/// A request's head. Parsing into a used one allocates nothing.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// The method, if it is a known one.
    pub method: Method,
    /// The version in which the client sent it.
    pub version: HttpVersion,
    /// Whether its `:scheme` is https; `None` in HTTP/1 and for CONNECT, which have none (RFC 9113
    /// §8.3.1, §8.5).
    pub secure: Option<bool>,
    /// The field lines, Host included.
    pub fields: Fields,
    pub(crate) method_name: TextSpan,
    pub(crate) target: TextSpan,
}

impl RequestHead {
    /// A head without fields, for a request of our own. `method` is a token, `target` a
    /// request-target.
    pub fn of(version: HttpVersion, method: &[u8], target: &[u8]) -> Self {
        let mut head = Self::default();
        head.begin(version, method, target);
        head
    }

    /// The method as it was sent.
    pub fn method_name(&self) -> &[u8] {
        self.method_name.of(self.fields.text())
    }

    /// The request-target as it was sent.
    pub fn target(&self) -> &[u8] {
        self.target.of(self.fields.text())
    }

    /// Clears the head for a new request line and keeps the memory.
    pub(crate) fn begin(&mut self, version: HttpVersion, method: &[u8], target: &[u8]) {
        self.fields.clear();
        self.fields.hold(method);
        self.fields.hold(target);
        self.version = version;
        self.secure = None;
        self.method = Method::of(method);
        self.method_name = TextSpan::new(0..method.len());
        self.target = TextSpan::new(method.len()..method.len() + target.len());
    }
}

impl Default for RequestHead {
    fn default() -> Self {
        Self {
            method: Method::Other,
            version: HttpVersion::Http11,
            secure: None,
            fields: Fields::default(),
            method_name: TextSpan::default(),
            target: TextSpan::default(),
        }
    }
}

/// A response's head. Parsing into a used one allocates nothing.
#[derive(Debug)]
pub struct ResponseHead {
    /// Three digits, 100 to 999.
    pub status: u16,
    /// The version in which the origin sent it.
    pub version: HttpVersion,
    /// The field lines in their order.
    pub fields: Fields,
    pub(crate) reason: TextSpan,
}

impl Clone for ResponseHead {
    fn clone(&self) -> Self {
        Self {
            fields: self.fields.clone(),
            ..*self
        }
    }

    /// Reuses memory, as the fields do.
    fn clone_from(&mut self, from: &Self) {
        self.fields.clone_from(&from.fields);
        (self.status, self.version, self.reason) = (from.status, from.version, from.reason);
    }
}

impl ResponseHead {
    /// A head without fields, with the usual reason phrase.
    pub fn of(status: u16) -> Self {
        let mut fields = Fields::default();
        let reason = crate::status::reason(status).as_bytes();
        fields.hold(reason);
        Self {
            status,
            fields,
            reason: TextSpan::new(0..reason.len()),
            ..Self::default()
        }
    }

    /// The reason phrase as it was sent, maybe empty; clients ignore it (RFC 9112 §4).
    pub fn reason(&self) -> &[u8] {
        self.reason.of(self.fields.text())
    }

    /// Whether another response to the same request follows (RFC 9110 §15.2); after 101 none does.
    pub fn is_interim(&self) -> bool {
        matches!(self.status, 100 | 102..=199)
    }

    /// Clears the head for a new status line and keeps the memory.
    pub(crate) fn begin(&mut self, version: HttpVersion, status: u16) {
        self.fields.clear();
        self.version = version;
        self.status = status;
        self.reason = TextSpan::default();
    }
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self {
            status: 0,
            version: HttpVersion::Http11,
            fields: Fields::default(),
            reason: TextSpan::default(),
        }
    }
}

/// The length of a message's body by its head (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// No body: the message ends with its head.
    Empty,
    /// This many bytes, at least one.
    Known(u64),
    /// Chunks, until the last one and its trailers.
    Chunked,
    /// Until the connection ends; responses only.
    UntilClose,
}
