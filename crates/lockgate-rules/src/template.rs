//! Templates: texts with placeholders, for redirects, rewritten targets, fields and short
//! responses.
//!
//! This is their only parser. A template is parsed once, with the configuration. Rendering copies
//! text, and escapes characters of the request that would have a special meaning in their new
//! place. The template decides the shape of a URL; a request only fills in parts of it.

use std::io::Write;

use crate::client_address::ClientAddress;
use crate::pattern::{Pattern, Segment, nth_segment, split_behind};

/// The use of a template. It decides which placeholders are allowed and how values are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The path of a file to serve instead of the requested one; begins with a slash.
    File,
    /// A new request target; begins with a slash.
    Target,
    /// The URL of a redirect: a path or an `http(s)://` URL.
    Redirect,
    /// The value of a field, or a body.
    Text,
}

impl Purpose {
    /// The placeholders with a value for every request, beside `{*}` and the parameters of the
    /// route.
    pub fn placeholders(self) -> &'static [&'static str] {
        match self {
            Self::File => &["path"],
            Self::Target => &["path", "query"],
            Self::Redirect => &["host", "path", "query"],
            Self::Text => &["host", "path", "query", "client", "scheme", "method", "id"],
        }
    }
}

/// The values of placeholders for one request.
#[derive(Debug, Clone, Copy)]
pub struct RequestValues<'a> {
    /// The raw path as received.
    pub path: &'a [u8],
    /// The raw query, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The requested host, without port; never empty, since in `https:///x` a browser takes `x` for
    /// the host. For a request without a host (HTTP/1.0), the address that it was received on.
    pub host: &'a str,
    /// Whether the client's connection uses TLS.
    pub secure: bool,
    /// The method as received.
    pub method: &'a [u8],
    /// The client, with trusted proxies taken into account.
    pub client: ClientAddress,
    /// The request's id.
    pub id: &'a [u8],
}

impl RequestValues<'_> {
    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// The placeholder does not exist, or not for this purpose, and is no parameter of the route.
    Unknown(String),
    /// The route's path has no star for `{*}`.
    NoRest,
    /// An opening brace in a URL has no closing one.
    Open,
    /// A closing brace in a URL has no opening one.
    Brace,
    /// A target begins with no slash, or a redirect with neither one slash nor `http(s)://`.
    Start,
    /// A redirect has a URL without a host: a browser takes the first segment of the path for the
    /// host.
    NoHost,
    /// A part of the path stands in the host: the author of a link could choose the host.
    InHost(String),
    /// A fragment, which is never sent to a server.
    Fragment,
    /// A control character in a URL.
    Control,
}

impl TemplateError {
    /// The mistake in a few words, without the input.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "a placeholder has no value here",
            Self::NoRest => "`{*}` has no value: the path has no `*`",
            Self::Open => "the closing brace is missing",
            Self::Brace => "a brace in a URL is written %7B or %7D",
            Self::Start => "it begins neither with `/` nor with `https://`",
            Self::NoHost => "its host is missing",
            Self::InHost(_) => {
                "part of the request would be part of the host: write a `/` before it"
            }
            Self::Fragment => "a fragment is not sent to servers",
            Self::Control => "it holds a control character",
        }
    }
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<TemplatePiece>,
    /// Whether rendering could begin with two slashes, which would name another host.
    may_lose_host: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePiece {
    Literal(Box<[u8]>),
    Placeholder(Placeholder, UrlPart),
    /// The request's query with its question mark; used if the template has no query.
    KeptQuery,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Placeholder {
    /// The part of the path that `/*` matched, after this many segments and without its first
    /// slash.
    Rest(usize),
    /// The segment of the path with this index.
    Segment(usize),
    Path,
    Query,
    Host,
    Scheme,
    Client,
    Method,
    Id,
}

/// The part of a URL in which a value is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Host,
    Path,
    Query,
    Fragment,
    Text,
}

impl Template {
    /// Parses a template for a route with this pattern. The pattern's parameters are placeholders
    /// too, and win over built-in ones of the same name. In [`Purpose::Text`], other braces are
    /// kept, so that JSON needs no escapes.
    ///
    /// In a URL, all but visible ASCII is escaped; the request's query is kept unless the template
    /// has a question mark.
    ///
    /// # Errors
    /// For unknown placeholders, and for shapes in which a request could choose more than its part
    /// of the URL.
    pub fn parse(text: &str, purpose: Purpose, pattern: &Pattern) -> Result<Self, TemplateError> {
        let mut parser = TemplateParser::new(text, purpose, pattern);
        parser.start(text)?;
        let mut rest = text;
        while let Some(brace) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(brace);
            parser.literal(before)?;
            match placeholder(from) {
                _ if purpose != Purpose::Text => {
                    let name = braced(from)?;
                    parser.placeholder(name)?;
                    rest = &from[name.len() + 2..];
                }
                Some(name) if parser.value(name).is_ok() => {
                    parser.placeholder(name)?;
                    rest = &from[name.len() + 2..];
                }
                _ => {
                    parser.literal(&from[..1])?;
                    rest = &from[1..];
                }
            }
        }
        parser.literal(rest)?;
        Ok(parser.finish())
    }

    /// Parses a template for [`Purpose::Text`]; any text is valid.
    pub fn text(text: &str, pattern: &Pattern) -> Self {
        Self::parse(text, Purpose::Text, pattern).expect("braces that mean nothing are text")
    }

    /// The template's source text, for a route with this pattern.
    pub fn written(&self, pattern: &Pattern) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Literal(literal) => text.push_str(&String::from_utf8_lossy(literal)),
                TemplatePiece::Placeholder(value, _) => {
                    text.extend(["{", value.name(pattern), "}"])
                }
                TemplatePiece::KeptQuery => {}
            }
        }
        text
    }

    /// The text, if it has no placeholder.
    pub fn fixed(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [] => Some(b""),
            [TemplatePiece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the literal text is valid in a field. Values of requests always are.
    pub(crate) fn is_field_value(&self) -> bool {
        self.pieces.iter().all(|piece| match piece {
            TemplatePiece::Literal(text) => !text
                .iter()
                .any(|byte| byte.is_ascii_control() && *byte != b'\t'),
            _ => true,
        })
    }

    /// Appends the text with the values of a request.
    pub fn render(&self, values: &RequestValues<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Literal(text) => out.extend_from_slice(text),
                TemplatePiece::Placeholder(value, part) => value.render(*part, values, out),
                TemplatePiece::KeptQuery => {
                    if let Some(query) = values.query {
                        out.push(b'?');
                        escape(query, UrlPart::Query.keeps_all(), out);
                    }
                }
            }
        }
        if self.may_lose_host {
            keep_host(out, start);
        }
    }
}

/// Reduces several slashes at the front to one: a browser takes the text after two slashes for a
/// host, and a backslash for a slash (CWE-601).
fn keep_host(out: &mut Vec<u8>, start: usize) {
    let slash = |byte: &&u8| matches!(byte, b'/' | b'\\');
    let surplus = out
        .get(start + 1..)
        .unwrap_or_default()
        .iter()
        .take_while(slash)
        .count();
    if surplus > 0 {
        out.drain(start + 1..start + 1 + surplus);
    }
}

impl Placeholder {
    /// The name between the braces.
    fn name<'p>(&self, pattern: &'p Pattern) -> &'p str {
        match self {
            Self::Rest(_) => "*",
            Self::Segment(at) => match pattern.segments().get(*at) {
                Some(Segment::Param(name)) => name,
                _ => "",
            },
            Self::Path => "path",
            Self::Query => "query",
            Self::Host => "host",
            Self::Scheme => "scheme",
            Self::Client => "client",
            Self::Method => "method",
            Self::Id => "id",
        }
    }

    fn render(&self, part: UrlPart, values: &RequestValues<'_>, out: &mut Vec<u8>) {
        let keep = part.keeps();
        match self {
            Self::Rest(depth) => {
                let (_, rest) = split_behind(values.path, *depth);
                escape(rest.strip_prefix(b"/").unwrap_or(rest), keep, out);
            }
            Self::Segment(at) => escape(nth_segment(values.path, *at), keep, out),
            Self::Path => {
                // After a host, a path that begins with no slash would become part of the host.
                if part != UrlPart::Text && !values.path.starts_with(b"/") {
                    out.push(b'/');
                }
                escape(values.path, keep, out);
            }
            Self::Query => {
                let keep = if part == UrlPart::Query {
                    part.keeps_all()
                } else {
                    keep
                };
                escape(values.query.unwrap_or_default(), keep, out);
            }
            // Hosts and methods have no characters that need an escape.
            Self::Host => out.extend_from_slice(values.host.as_bytes()),
            Self::Scheme => out.extend_from_slice(values.scheme().as_bytes()),
            Self::Client => {
                let _ = write!(out, "{}", values.client);
            }
            Self::Method => escape(values.method, keep, out),
            Self::Id => escape(values.id, keep, out),
        }
    }
}

/// A set of ASCII characters that need no escape, one bit each.
#[derive(Debug, Clone, Copy)]
struct Unescaped(u128);

impl Unescaped {
    const fn all_visible_but(others: &[u8]) -> Self {
        let mut kept = 0;
        let mut byte = b'!';
        while byte <= b'~' {
            kept |= 1 << byte;
            byte += 1;
        }
        let mut at = 0;
        while at < others.len() {
            kept &= !(1 << others[at]);
            at += 1;
        }
        Self(kept)
    }

    fn has(self, byte: u8) -> bool {
        byte < 128 && self.0 >> byte & 1 == 1
    }
}

impl UrlPart {
    /// The characters of a path that are not escaped here. `%` is never escaped: raw paths are
    /// escaped already.
    const fn keeps(self) -> Unescaped {
        const PATH: Unescaped = Unescaped::all_visible_but(b"?#");
        // In form data these would begin another pair, or stand for a space.
        const QUERY: Unescaped = Unescaped::all_visible_but(b"#&=+;?");
        // None of these ends an HTML element or a quoted string.
        const TEXT: Unescaped = Unescaped::all_visible_but(b"<>\"'`\\");
        match self {
            Self::Host | Self::Path => PATH,
            Self::Query => QUERY,
            Self::Fragment => Unescaped::all_visible_but(b"#"),
            Self::Text => TEXT,
        }
    }

    /// The characters of a query that are not escaped in a query.
    const fn keeps_all(self) -> Unescaped {
        Unescaped::all_visible_but(b"#")
    }
}

fn escape(text: &[u8], keep: Unescaped, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = text;
    loop {
        let plain = rest.iter().take_while(|byte| keep.has(**byte)).count();
        let (kept, from) = rest.split_at(plain);
        out.extend_from_slice(kept);
        let [byte, behind @ ..] = from else { return };
        out.extend([
            b'%',
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ]);
        rest = behind;
    }
}

/// The placeholder's name at the beginning of a text, if it has the form of one.
fn placeholder(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (name == "*" || (!name.is_empty() && name.bytes().all(word))).then_some(name)
}

/// The text between the braces at the beginning of a part of a URL.
fn braced(text: &str) -> Result<&str, TemplateError> {
    let inner = text.strip_prefix('{').ok_or(TemplateError::Brace)?;
    let (name, _) = inner.split_once('}').ok_or(TemplateError::Open)?;
    Ok(name)
}

/// A parser of one template.
struct TemplateParser<'p> {
    purpose: Purpose,
    pattern: &'p Pattern,
    part: UrlPart,
    /// Literal text since the last placeholder.
    text: Vec<u8>,
    pieces: Vec<TemplatePiece>,
    own_query: bool,
    may_lose_host: bool,
}

impl<'p> TemplateParser<'p> {
    fn new(text: &str, purpose: Purpose, pattern: &'p Pattern) -> Self {
        Self {
            purpose,
            pattern,
            part: if purpose == Purpose::Text {
                UrlPart::Text
            } else {
                UrlPart::Path
            },
            text: Vec::with_capacity(text.len()),
            pieces: Vec::new(),
            own_query: false,
            may_lose_host: false,
        }
    }

    /// Parses the beginning of the template, which decides whether the URL has a host.
    fn start(&mut self, text: &str) -> Result<(), TemplateError> {
        let path = text.starts_with("{path}") || (text.starts_with('/') && !text.starts_with("//"));
        let scheme = ["http://", "https://"];
        let host = scheme.iter().find_map(|scheme| text.strip_prefix(scheme));
        match (self.purpose, host) {
            (Purpose::Text, _) => {}
            (Purpose::Target | Purpose::File, _) if path => {}
            (Purpose::Redirect, _) if path => self.may_lose_host = true,
            (Purpose::Redirect, Some(host)) => {
                let none = host.is_empty() || host.starts_with(['/', '\\', '?', '#']);
                if none || host.starts_with("{path}") {
                    return Err(TemplateError::NoHost);
                }
                self.part = UrlPart::Host;
            }
            _ => {
                // If the text begins with a placeholder that is not allowed here, report that
                // instead.
                if let Some(name) = placeholder(text) {
                    self.value(name)?;
                }
                return Err(TemplateError::Start);
            }
        }
        Ok(())
    }

    fn literal(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.part == UrlPart::Text {
            // A body may have several lines, a field's value may not; `HeaderRules` checks that.
            self.text.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(TemplateError::Control);
        }
        // The slashes of `https://` do not belong to the path.
        let begins = self.part == UrlPart::Host && self.text.is_empty() && self.pieces.len() < 2;
        let scheme = if begins {
            text.find("://").map_or(0, |at| at + 3)
        } else {
            0
        };
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'/' | b'\\' if self.part == UrlPart::Host && at >= scheme => {
                    self.part = UrlPart::Path
                }
                b'?' if matches!(self.part, UrlPart::Host | UrlPart::Path) => {
                    self.part = UrlPart::Query;
                    self.own_query = true;
                }
                b'#' if self.part != UrlPart::Fragment => self.fragment()?,
                _ => {}
            }
            escape(&[byte], Unescaped::all_visible_but(b""), &mut self.text);
        }
        Ok(())
    }

    /// Adds the request's query before the fragment.
    fn fragment(&mut self) -> Result<(), TemplateError> {
        if matches!(self.purpose, Purpose::Target | Purpose::File) {
            return Err(TemplateError::Fragment);
        }
        self.part = UrlPart::Fragment;
        if !self.own_query {
            self.flush();
            self.pieces.push(TemplatePiece::KeptQuery);
            self.own_query = true;
        }
        Ok(())
    }

    fn placeholder(&mut self, name: &str) -> Result<(), TemplateError> {
        let value = self.value(name)?;
        if self.part == UrlPart::Host {
            match value {
                Placeholder::Host => {}
                // The raw path begins with a slash, so that the host ends here.
                Placeholder::Path => self.part = UrlPart::Path,
                _ => return Err(TemplateError::InHost(name.to_owned())),
            }
        }
        self.flush();
        self.pieces
            .push(TemplatePiece::Placeholder(value, self.part));
        Ok(())
    }

    fn value(&self, name: &str) -> Result<Placeholder, TemplateError> {
        if let Some(at) = self.pattern.position(name) {
            return Ok(Placeholder::Segment(at));
        }
        if name == "*" {
            let depth = self.pattern.prefix_depth();
            return depth.map(Placeholder::Rest).ok_or(TemplateError::NoRest);
        }
        let known = self.purpose.placeholders();
        let value = match name {
            _ if !known.contains(&name) => None,
            "path" => Some(Placeholder::Path),
            "query" => Some(Placeholder::Query),
            "host" => Some(Placeholder::Host),
            "scheme" => Some(Placeholder::Scheme),
            "client" => Some(Placeholder::Client),
            "method" => Some(Placeholder::Method),
            "id" => Some(Placeholder::Id),
            _ => None,
        };
        value.ok_or_else(|| TemplateError::Unknown(name.to_owned()))
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(TemplatePiece::Literal(
                std::mem::take(&mut self.text).into(),
            ));
        }
    }

    fn finish(mut self) -> Template {
        self.flush();
        if self.purpose != Purpose::Text && !self.own_query {
            self.pieces.push(TemplatePiece::KeptQuery);
        }
        Template {
            pieces: self.pieces,
            may_lose_host: self.may_lose_host,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
