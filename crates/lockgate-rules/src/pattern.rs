//! Patterns of decoded paths, for routes and rules: `/a`, `/a/{id}`, `/a/*`.
//!
//! This is their only parser. It does not choose among patterns: the router does. Errors hold no
//! text of the input. Segments are found by counting slashes, so that they are the same in the raw
//! path and in the decoded one: an escaped slash is refused before routing
//! (`lockgate_http::target::decode`).

use std::cmp::Reverse;
use std::fmt;

use lockgate_http::h1::parse::is_token;

/// A pattern of decoded paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
    /// Whether the pattern ends in `/*`.
    below: bool,
}

/// The text between two slashes of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A fixed text; empty after the last slash of `/a/`.
    Literal(Box<str>),
    /// A parameter, with its name: any one segment that is not empty.
    Param(Box<str>),
}

/// The key of a `path` table: a pattern, optionally after a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathKey {
    /// The only method, in capitals; `None` is every method.
    pub method: Option<String>,
    /// The pattern.
    pub pattern: Pattern,
}

/// Why a text is no pattern, or no key of a `path` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternError {
    /// The text is empty.
    Empty,
    /// The pattern begins with no slash.
    NoSlash,
    /// The text before the path is no method.
    BadMethod,
    /// The method is in lower case.
    LowerMethod,
    /// A star is not the whole of the last segment.
    InnerStar,
    /// A brace is not around a whole segment, or a name has characters other than letters, digits
    /// and `_`.
    BadParam,
    /// Two parameters have the same name.
    SameParam,
    /// A parameter has the name of a placeholder.
    Reserved,
    /// Two slashes follow each other; slashes in a row are merged before a request path is matched.
    EmptySegment,
    /// A segment is `.` or `..`; these are resolved or refused before paths are matched.
    DotSegment,
    /// A percent sign; paths are decoded before they are matched.
    Percent,
    /// A query or fragment.
    Query,
    /// White space, a control character or a backslash.
    BadCharacter,
}

impl PatternError {
    /// The mistake in a few words, without the input.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Empty => "it is empty",
            Self::NoSlash => "a path begins with `/`",
            Self::BadMethod => "what stands before the path is not a method",
            Self::LowerMethod => "methods are written in capitals",
            Self::InnerStar => "a `*` stands alone after the last `/`, and nowhere else",
            Self::BadParam => "a `{name}` stands alone between two `/`, of letters, digits and `_`",
            Self::SameParam => "two of its parameters have the same name",
            Self::Reserved => "`host`, `path`, `query` and `client` mean something else already",
            Self::EmptySegment => "nothing stands between two `/`",
            Self::DotSegment => "`.` and `..` are resolved before paths are compared",
            Self::Percent => "paths are decoded before they are compared",
            Self::Query => "only the path is compared, without what follows `?` or `#`",
            Self::BadCharacter => "it holds a space, a control character or a backslash",
        }
    }
}

/// The relation between the paths of two patterns of the same kind and depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// No path matches both.
    None,
    /// One is more specific, or both are the same.
    Nested,
    /// Some paths match both, and neither pattern is more specific.
    Crossing,
}

impl PathKey {
    /// Parses a pattern, optionally after a method and a space: `/x`, `POST /x`.
    ///
    /// # Errors
    /// When the method or the pattern is invalid.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) if !method.starts_with('/') => (Some(method), path.trim_start()),
            _ => (None, text),
        };
        match method {
            Some(method) if !is_token(method.as_bytes()) => return Err(PatternError::BadMethod),
            Some(method) if method.contains(|c: char| c.is_ascii_lowercase()) => {
                return Err(PatternError::LowerMethod);
            }
            _ => {}
        }
        Ok(Self {
            method: method.map(str::to_owned),
            pattern: Pattern::parse(path)?,
        })
    }
}

impl Pattern {
    /// Parses a pattern. It is written as the decoded path: `/é`, not `/%C3%A9`.
    ///
    /// - `/a` matches this path only, not `/a/`.
    /// - `/a/{id}/b`: a parameter matches exactly one segment that is not empty.
    /// - `/a/*` matches every path below `/a/`, and `/a/` and `/a` themselves: a rule for
    ///   `/admin/*` should not leave `/admin` open. A pattern `/a` is more specific.
    ///
    /// # Errors
    /// When the pattern begins with no slash, has a star or brace elsewhere, or can match no
    /// request path.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(PatternError::NoSlash);
        };
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(PatternError::BadCharacter);
        }
        if text.contains(['?', '#']) {
            return Err(PatternError::Query);
        }
        if text.contains('%') {
            return Err(PatternError::Percent);
        }
        let mut segments = Vec::new();
        let mut parts = rest.split('/').peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            let segment = match part {
                "*" if last => {
                    return Ok(Self {
                        segments,
                        below: true,
                    });
                }
                "" if !last => return Err(PatternError::EmptySegment),
                "." | ".." => return Err(PatternError::DotSegment),
                part if part.contains('*') => return Err(PatternError::InnerStar),
                part if part.contains(['{', '}']) => Segment::Param(param(part)?.into()),
                part => Segment::Literal(part.into()),
            };
            if matches!(segment, Segment::Param(_)) && segments.contains(&segment) {
                return Err(PatternError::SameParam);
            }
            segments.push(segment);
        }
        Ok(Self {
            segments,
            below: false,
        })
    }

    /// The pattern `/*`, which matches every path.
    pub fn everything() -> Self {
        Self {
            segments: Vec::new(),
            below: true,
        }
    }

    /// The text before `/*`, or the whole text.
    pub(crate) fn prefix(&self) -> String {
        let mut text = self.to_string();
        if self.below {
            text.truncate(text.len() - "/*".len());
        }
        text
    }

    /// The pattern of one decoded path, or with `below` of all paths below it. No character of
    /// `path` is special; with `below` it ends without a slash.
    pub fn literal(path: &str, below: bool) -> Self {
        // Of "" nothing is left, and of "/" one empty segment.
        let segments = path.split('/').skip(1);
        let segments = segments.map(|text| Segment::Literal(text.into()));
        Self {
            segments: segments.collect(),
            below,
        }
    }

    /// Whether the pattern ends in `/*`.
    pub fn is_prefix(&self) -> bool {
        self.below
    }

    /// The rank of a pattern without parameters: of two that match, the smaller rank is more
    /// specific.
    pub fn specificity(&self) -> (bool, Reverse<usize>) {
        (self.below, Reverse(self.segments.len()))
    }

    /// The names of the parameters, from left to right.
    pub fn params(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Param(name) => Some(&**name),
        })
    }

    /// Splits a matching path, raw or decoded, into the prefix and the rest. The rest is empty or
    /// begins with a slash; for a pattern without `/*` it is empty.
    pub fn split<'p>(&self, path: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        if self.below {
            split_behind(path, self.segments.len())
        } else {
            (path, &[])
        }
    }

    /// Whether a decoded path matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        let mut segments = path
            .strip_prefix(b"/")
            .unwrap_or(path)
            .split(|byte| *byte == b'/');
        let fits = |(wanted, found): (&Segment, &[u8])| match wanted {
            Segment::Literal(text) => text.as_bytes() == found,
            Segment::Param(_) => !found.is_empty(),
        };
        let all = self
            .segments
            .iter()
            .all(|wanted| segments.next().is_some_and(|found| fits((wanted, found))));
        all && (self.below || segments.next().is_none())
    }

    /// The index of the segment that a parameter matches.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let is_it =
            |segment: &Segment| matches!(segment, Segment::Param(found) if **found == *name);
        self.segments.iter().position(is_it)
    }

    /// The number of segments before `/*`; `None` without `/*`.
    pub fn prefix_depth(&self) -> Option<usize> {
        self.below.then_some(self.segments.len())
    }

    /// The segments, without a final `*`.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Compares patterns of the same kind and depth. Between two kinds or depths there is always an
    /// order.
    pub fn overlap(&self, other: &Self) -> Overlap {
        if self.below != other.below || self.segments.len() != other.segments.len() {
            return Overlap::None;
        }
        let (mut narrower, mut wider) = (false, false);
        for pair in self.segments.iter().zip(&other.segments) {
            match pair {
                (Segment::Literal(ours), Segment::Literal(theirs)) if ours != theirs => {
                    return Overlap::None;
                }
                (Segment::Literal(text), Segment::Param(_)) if text.is_empty() => {
                    return Overlap::None;
                }
                (Segment::Param(_), Segment::Literal(text)) if text.is_empty() => {
                    return Overlap::None;
                }
                (Segment::Literal(_), Segment::Param(_)) => narrower = true,
                (Segment::Param(_), Segment::Literal(_)) => wider = true,
                _ => {}
            }
        }
        if narrower && wider {
            Overlap::Crossing
        } else {
            Overlap::Nested
        }
    }

    /// A path that matches both patterns, if they overlap.
    pub fn example(&self, other: &Self) -> String {
        let mut path = String::new();
        for pair in self.segments.iter().zip(&other.segments) {
            path.push('/');
            match pair {
                (Segment::Literal(text), _) | (_, Segment::Literal(text)) => {
                    path.push_str(text);
                }
                _ => path.push('x'),
            }
        }
        if self.below {
            path.push_str("/x");
        }
        path
    }
}

/// The name between the braces of a segment.
fn param(part: &str) -> Result<&str, PatternError> {
    let name = part
        .strip_prefix('{')
        .and_then(|part| part.strip_suffix('}'));
    match name {
        Some("host" | "path" | "query" | "client") => Err(PatternError::Reserved),
        Some(name) if is_param(name) => Ok(name),
        _ => Err(PatternError::BadParam),
    }
}

/// Whether a text can be the name of a parameter.
pub fn is_param(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(word)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Param(name) => write!(f, "/{{{name}}}")?,
            }
        }
        f.write_str(if self.below { "/*" } else { "" })
    }
}

/// Splits a path after its first `count` segments. Several slashes in a row count as one, as they
/// did when the pattern was matched.
pub(crate) fn split_behind(path: &[u8], count: usize) -> (&[u8], &[u8]) {
    let begins = |at: &usize| *at == 0 || path[at - 1] != b'/';
    match memchr::memchr_iter(b'/', path).filter(begins).nth(count) {
        Some(at) => path.split_at(at),
        None => (path, &[]),
    }
}

/// One segment of a path; empty if the path has fewer.
pub(crate) fn nth_segment(path: &[u8], at: usize) -> &[u8] {
    let (_, rest) = split_behind(path, at);
    let rest = rest
        .get(rest.iter().take_while(|byte| **byte == b'/').count()..)
        .unwrap_or_default();
    rest.split(|&byte| byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn a_path_pattern_is_written_as_it_was_read() {
        for text in [
            "/",
            "/*",
            "/a",
            "/a/",
            "/a/{id}/b",
            "/{a}/{b_2}/*",
            "/a/\u{e4}",
            "/a/*",
        ] {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert_eq!(Pattern::everything(), pattern("/*"));
        assert_eq!(Pattern::literal("", true), pattern("/*"));
        assert_eq!(Pattern::literal("/", false), pattern("/"));
        assert_eq!(Pattern::literal("/a/b", true), pattern("/a/b/*"));
    }

    #[test]
    fn a_pattern_has_literals_parameters_and_a_tail() {
        let literal = |text: &str| Segment::Literal(text.into());
        let made = |segments, below| Ok(Pattern { segments, below });
        for (text, expected) in [
            ("/", made(vec![literal("")], false)),
            ("/x", made(vec![literal("x")], false)),
            ("/x/", made(vec![literal("x"), literal("")], false)),
            ("/*", made(vec![], true)),
            ("/x/*", made(vec![literal("x")], true)),
            (
                "/x/{id}/y",
                made(
                    vec![literal("x"), Segment::Param("id".into()), literal("y")],
                    false,
                ),
            ),
            ("/\u{e4}", made(vec![literal("\u{e4}")], false)),
            ("", Err(PatternError::Empty)),
            ("x", Err(PatternError::NoSlash)),
            ("*", Err(PatternError::NoSlash)),
            ("a/*", Err(PatternError::NoSlash)),
            ("/x*", Err(PatternError::InnerStar)),
            ("/*/x", Err(PatternError::InnerStar)),
            ("/*/*", Err(PatternError::InnerStar)),
            ("/*.php", Err(PatternError::InnerStar)),
            ("/x{id}", Err(PatternError::BadParam)),
            ("/{id}.html", Err(PatternError::BadParam)),
            ("/{}", Err(PatternError::BadParam)),
            ("/{a", Err(PatternError::BadParam)),
            ("/a}", Err(PatternError::BadParam)),
            ("/{{a}}", Err(PatternError::BadParam)),
            ("/{a-b}", Err(PatternError::BadParam)),
            ("/{a}/{a}", Err(PatternError::SameParam)),
            ("/{host}", Err(PatternError::Reserved)),
            ("//x", Err(PatternError::EmptySegment)),
            ("/x/../y", Err(PatternError::DotSegment)),
            ("/a%20b", Err(PatternError::Percent)),
            ("/x?y", Err(PatternError::Query)),
            ("/x y", Err(PatternError::BadCharacter)),
            ("/x\0", Err(PatternError::BadCharacter)),
            ("/x\\y", Err(PatternError::BadCharacter)),
        ] {
            assert_eq!(Pattern::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_path_key_may_begin_with_a_method() {
        let method = |text| PathKey::parse(text).map(|key| key.method);
        for (text, expected) in [
            ("/x", Ok(None)),
            ("POST /x", Ok(Some("POST".to_owned()))),
            ("M-SEARCH  /x", Ok(Some("M-SEARCH".to_owned()))),
            ("post /x", Err(PatternError::LowerMethod)),
            ("~ ^/x", Err(PatternError::NoSlash)),
            ("GET,POST /x", Err(PatternError::BadMethod)),
        ] {
            assert_eq!(method(text), expected, "{text}");
        }
    }

    #[test]
    fn the_wildcard_splits_a_path_into_prefix_and_rest() {
        for (text, path, prefix, rest) in [
            ("/*", "/a/b", "", "/a/b"),
            ("/*", "/", "", "/"),
            ("/api/*", "/api/v1/x", "/api", "/v1/x"),
            ("/api/*", "/api/", "/api", "/"),
            ("/api/*", "/api", "/api", ""),
            ("/api/*", "/api//x", "/api", "//x"),
            ("/api/*", "/%61pi/%76", "/%61pi", "/%76"),
            ("/t/{tenant}/*", "/t/%c3%a4/b", "/t/%c3%a4", "/b"),
            ("/a/{b}", "/a/c", "/a/c", ""),
        ] {
            let split = pattern(text).split(path.as_bytes());
            assert_eq!(split, (prefix.as_bytes(), rest.as_bytes()), "{text} {path}");
        }
    }

    #[test]
    fn a_path_parameter_is_one_segment() {
        let pattern = pattern("/a/{b}/c/{d}/*");
        let path = b"/a/b%20b/c/d/e/f";
        assert_eq!(pattern.params().collect::<Vec<_>>(), ["b", "d"]);
        let segment = |path, name| pattern.position(name).map(|at| nth_segment(path, at));
        assert_eq!(segment(&path[..], "b"), Some(&b"b%20b"[..]));
        assert_eq!(segment(path, "d"), Some(&b"d"[..]));
        assert_eq!(segment(path, "e"), None);
        assert_eq!(segment(b"*", "b"), Some(&b""[..]));
    }

    #[test]
    fn path_patterns_overlap_where_neither_is_more_specific() {
        use Overlap::{Crossing, Nested, None};
        for (one, other, overlap) in [
            ("/a/{x}/c", "/a/b/{y}", Crossing),
            ("/{x}/b/*", "/a/{y}/*", Crossing),
            ("/a/{x}", "/a/{y}", Nested),
            ("/a/b", "/a/{y}", Nested),
            ("/a/{x}/c", "/b/c/{y}", None),
            ("/a/{x}", "/a/", None),
            ("/a/{x}/c", "/a/b/{y}/*", None),
            ("/a/{x}", "/a/{x}/{y}", None),
        ] {
            let (one, other) = (pattern(one), pattern(other));
            assert_eq!(one.overlap(&other), overlap, "{one} {other}");
            assert_eq!(other.overlap(&one), overlap, "{other} {one}");
        }
    }
}
