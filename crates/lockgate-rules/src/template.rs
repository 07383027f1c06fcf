//! Texts with placeholders, as redirects, rewritten targets, fields and short responses have them.
//!
//! The one parser of them. Read once when the configuration is; rendering copies, and escapes what
//! would mean more in its place than it did where it came from. A template decides the shape of a
//! URL, a request only fills in parts of it.

use std::io::Write;

use crate::client_address::ClientAddress;
use crate::pattern::{Pattern, Segment, nth_segment, split_behind};

/// The use of a template, which decides what may stand in it and how values are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The path of a file, for a request that asks for another: begins with a slash.
    File,
    /// A request's new target: begins with a slash.
    Target,
    /// The URL of a redirect: a path or an `http(s)://` URL.
    Redirect,
    /// A field's value or a body.
    Text,
}

impl Purpose {
    /// The placeholders that every request fills in, beside `{*}` and the parameters of the route.
    pub fn placeholders(self) -> &'static [&'static str] {
        match self {
            Self::File => &["path"],
            Self::Target => &["path", "query"],
            Self::Redirect => &["host", "path", "query"],
            Self::Text => &["host", "path", "query", "client", "scheme", "method", "id"],
        }
    }
}

/// What a request has to fill in.
#[derive(Debug, Clone, Copy)]
pub struct RequestValues<'a> {
    /// The raw path as received.
    pub path: &'a [u8],
    /// The raw query, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The host that was asked for, as routing sees it: without port. Never empty: of `https://` without a host a browser
    /// takes the path's first segment for one. Where a request names none (HTTP/1.0), the address
    /// that it came to.
    pub host: &'a str,
    /// Whether the client came over TLS.
    pub secure: bool,
    /// The method as sent.
    pub method: &'a [u8],
    /// The client, after rules of trust.
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
    /// No placeholder of this name, or not for this purpose, and no parameter of the route.
    Unknown(String),
    /// `{*}` where the route's path has no star.
    NoRest,
    /// An opening brace in a URL without a closing one.
    Open,
    /// A closing brace in a URL without an opening one.
    Brace,
    /// A target that begins with no slash, or a redirect that begins with neither one slash nor
    /// `http(s)://`.
    Start,
    /// A redirect to a URL without a host: a browser takes the path's first segment for one.
    NoHost,
    /// A part of the path where the host is: a link's author could choose the host.
    InHost(String),
    /// A fragment, which never goes to a server.
    Fragment,
    /// A control character in a URL.
    Control,
}

impl TemplateError {
    /// The mistake in a few words, without the text.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "a placeholder stands for nothing",
            Self::NoRest => "`{*}` stands for nothing: the path has no `*`",
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

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<TemplatePiece>,
    /// Whether the result could come to begin with two slashes, and then would name another host.
    may_lose_host: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePiece {
    Literal(Box<[u8]>),
    Placeholder(Placeholder, UrlPart),
    /// The request's query with its question mark, where the template has none of its own.
    KeptQuery,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Placeholder {
    /// What `/*` stands for behind so and so many segments, without its first slash.
    Rest(usize),
    /// One segment of the path.
    Segment(usize),
    Path,
    Query,
    Host,
    Scheme,
    Client,
    Method,
    Id,
}

/// Where in a URL a value comes to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Host,
    Path,
    Query,
    Fragment,
    Text,
}

impl Template {
    /// Reads a template for a route with this pattern. The parameters of the pattern are placeholders
    /// too, and go over ours of the same name. In a text, braces around anything else are kept, so
    /// that JSON need not be escaped.
    ///
    /// In a URL, what is no visible ASCII character is escaped; the request's query is kept unless
    /// the template has a question mark.
    ///
    /// # Errors
    /// Unknown placeholders, and shapes in which a request could choose more than its part.
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

    /// Reads a template for [`Purpose::Text`], which any text is.
    pub fn text(text: &str, pattern: &Pattern) -> Self {
        Self::parse(text, Purpose::Text, pattern).expect("braces that mean nothing are text")
    }

    /// The text as it was written, for a route with this pattern.
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

    /// Whether what was configured can stand in a field: values that requests fill in always can.
    pub(crate) fn is_field_value(&self) -> bool {
        self.pieces.iter().all(|piece| match piece {
            TemplatePiece::Literal(text) => !text
                .iter()
                .any(|byte| byte.is_ascii_control() && *byte != b'\t'),
            _ => true,
        })
    }

    /// Appends the text with what a request has.
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

/// Leaves one slash of several at the front: a browser takes what follows two for a host, and a
/// backslash for a slash (CWE-601).
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
    /// What stands between the braces.
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
                // Behind a host, a path that does not begin with a slash would become part of it.
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
            // Both have no characters but those that hosts and methods have.
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

/// Characters that stand for themselves, a bit each.
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
    /// What stays as it is of a part of a path. `%` always does: raw paths are escaped already.
    const fn keeps(self) -> Unescaped {
        const PATH: Unescaped = Unescaped::all_visible_but(b"?#");
        // Of form data these would begin another pair, or be a space.
        const QUERY: Unescaped = Unescaped::all_visible_but(b"#&=+;?");
        // Neither HTML nor a quoted string ends by any of these.
        const TEXT: Unescaped = Unescaped::all_visible_but(b"<>\"'`\\");
        match self {
            Self::Host | Self::Path => PATH,
            Self::Query => QUERY,
            Self::Fragment => Unescaped::all_visible_but(b"#"),
            Self::Text => TEXT,
        }
    }

    /// What stays of a query in a query.
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

/// The name between the braces that a text begins with, if it looks like one.
fn placeholder(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (name == "*" || (!name.is_empty() && name.bytes().all(word))).then_some(name)
}

/// The text between the braces that a part of a URL begins with.
fn braced(text: &str) -> Result<&str, TemplateError> {
    let inner = text.strip_prefix('{').ok_or(TemplateError::Brace)?;
    let (name, _) = inner.split_once('}').ok_or(TemplateError::Open)?;
    Ok(name)
}

/// A template while it is read.
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

    /// The beginning of the template decides whether there is a host in it.
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
                // Of a placeholder that is none here, that is the mistake.
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
            // A body may have lines, but a field's value may not: `HeaderRules` looks at that.
            self.text.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(TemplateError::Control);
        }
        // Of "https://" the slashes are none of the path's.
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

    /// The query belongs before it.
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
                // It begins with a slash, so the host ends here.
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
