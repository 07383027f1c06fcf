//! What a message says of itself before its body.

use crate::fields::{Fields, Span};

/// The version that a message claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0: no chunks, no Host that must be there, closed unless asked otherwise.
    Http10,
    /// HTTP/1.1, and every later HTTP/1 (RFC 9110 §2.5).
    Http11,
    /// HTTP/2, in the words of HTTP/1: its streams say where bodies end, and no field is about the
    /// connection.
    Http2,
}

/// What a request asks for: those methods that change how messages are read or whether they may be
/// repeated.
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
    /// Any other; the head has its name.
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

    /// Whether doing it twice is the same as doing it once (RFC 9110 §9.2.2).
    pub fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace
        )
    }
}

/// A request's head. Parsing into one that was used before takes no new memory.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// What is asked for.
    pub method: Method,
    /// Which HTTP the client speaks.
    pub version: Version,
    /// Whether its `:scheme` is https; `None` in HTTP/1, and of CONNECT, which have none (RFC 9113
    /// §8.3.1, §8.5).
    pub secure: Option<bool>,
    /// Its fields.
    pub fields: Fields,
    pub(crate) method_name: Span,
    pub(crate) target: Span,
}

impl RequestHead {
    /// One without fields, for a request of our own. `method` is a token, `target` a
    /// request-target.
    pub fn of(version: Version, method: &[u8], target: &[u8]) -> Self {
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

    /// Empties it for a request that begins so, and keeps its memory.
    pub(crate) fn begin(&mut self, version: Version, method: &[u8], target: &[u8]) {
        self.fields.clear();
        self.fields.hold(method);
        self.fields.hold(target);
        self.version = version;
        self.secure = None;
        self.method = Method::of(method);
        self.method_name = Span::new(0..method.len());
        self.target = Span::new(method.len()..method.len() + target.len());
    }
}

impl Default for RequestHead {
    fn default() -> Self {
        Self {
            method: Method::Other,
            version: Version::Http11,
            secure: None,
            fields: Fields::default(),
            method_name: Span::default(),
            target: Span::default(),
        }
    }
}

/// An answer's head. Parsing into one that was used before takes no new memory.
#[derive(Debug)]
pub struct ResponseHead {
    /// Three digits, 100 to 999.
    pub status: u16,
    /// Which HTTP the origin speaks.
    pub version: Version,
    /// Its fields.
    pub fields: Fields,
    pub(crate) reason: Span,
}

impl Clone for ResponseHead {
    fn clone(&self) -> Self {
        Self {
            fields: self.fields.clone(),
            ..*self
        }
    }

    /// As that of its fields.
    fn clone_from(&mut self, from: &Self) {
        self.fields.clone_from(&from.fields);
        (self.status, self.version, self.reason) = (from.status, from.version, from.reason);
    }
}

impl ResponseHead {
    /// One without fields, under the usual reason phrase.
    pub fn of(status: u16) -> Self {
        let mut fields = Fields::default();
        let reason = crate::status::reason(status).as_bytes();
        fields.hold(reason);
        Self {
            status,
            fields,
            reason: Span::new(0..reason.len()),
            ..Self::default()
        }
    }

    /// The reason phrase as it was sent, maybe empty; nobody may rest anything on it (RFC 9112 §4).
    pub fn reason(&self) -> &[u8] {
        self.reason.of(self.fields.text())
    }

    /// Whether another answer to the same request follows (RFC 9110 §15.2); after 101 none does.
    pub fn is_interim(&self) -> bool {
        matches!(self.status, 100 | 102..=199)
    }

    /// Empties it for an answer that begins so, and keeps its memory.
    pub(crate) fn begin(&mut self, version: Version, status: u16) {
        self.fields.clear();
        self.version = version;
        self.status = status;
        self.reason = Span::default();
    }
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self {
            status: 0,
            version: Version::Http11,
            fields: Fields::default(),
            reason: Span::default(),
        }
    }
}

/// How long a message's body is, as its head says (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none.
    Empty,
    /// So many bytes, at least one.
    Known(u64),
    /// In chunks, until the last one and its trailers.
    Chunked,
    /// Until the connection ends; answers only.
    UntilClose,
}
