//! One path pattern: which decoded paths it means, how specific it is, and where its parts are in a
//! path.
//!
//! Parts are found by counting slashes, so they are the same ones in the raw path as in the decoded
//! one: an escaped slash is refused before routing (`lockgate_http::target::decode`).

use std::fmt;

/// A pattern of paths, as configured: `/a`, `/a/{id}`, `/a/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
    /// Whether it ends in `/*`.
    below: bool,
}

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// This text; empty behind the last slash of `/a/`.
    Literal(Box<[u8]>),
    /// Any one segment that is not empty, by a name.
    Param(Box<str>),
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Paths begin with a slash.
    #[error("a path must begin with a slash")]
    NoSlash,
    /// `*` stands for the rest, so it is the last segment, and nothing else is in that.
    #[error("a star must be alone after the last slash")]
    Star,
    /// A brace that is not around a whole segment, or a name of other characters than letters,
    /// digits and `_`.
    #[error("braces must enclose a whole segment, with a name of letters, digits and _: {{id}}")]
    Brace,
    /// Two parameters of one name.
    #[error("two parameters have the name {0:?}")]
    Twice(String),
}

/// How the paths of two patterns of the same kind and depth lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    /// No path matches both.
    None,
    /// One is more specific, or both are the same.
    Nested,
    /// Some match both, and neither is more specific.
    Crossing,
}

impl Pattern {
    /// Reads a pattern. Its text is that of the decoded path: `/a b`, not `/a%20b`.
    ///
    /// - `/a` is this path and no other; `/a/` is another one.
    /// - `/a/{id}/b`: a parameter is exactly one segment, which is not empty.
    /// - `/a/*` is every path below `/a/`, and `/a/` and `/a` themselves: a rule for `/admin/*`
    ///   that let `/admin` go by would surprise more people than one that takes it. An exact `/a`
    ///   still goes first.
    ///
    /// # Errors
    /// When it begins with no slash, or has a star or a brace elsewhere.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (path, below) = match text.strip_suffix("/*") {
            Some(path) => (path, true),
            None => (text, false),
        };
        if !text.starts_with('/') || (below && !path.is_empty() && !path.starts_with('/')) {
            return Err(PatternError::NoSlash);
        }
        let mut pattern = Self {
            segments: Vec::new(),
            below,
        };
        // Of "/*" nothing is left, and of "/" one empty segment.
        for segment in path.split('/').skip(1) {
            let segment = Segment::parse(segment)?;
            if let Segment::Param(name) = &segment
                && pattern.position(name).is_some()
            {
                return Err(PatternError::Twice(name.to_string()));
            }
            pattern.segments.push(segment);
        }
        Ok(pattern)
    }

    /// The pattern of every path.
    pub fn everything() -> Self {
        Self {
            segments: Vec::new(),
            below: true,
        }
    }

    /// Whether it ends in `/*`, so that there is a rest behind its prefix.
    pub fn is_prefix(&self) -> bool {
        self.below
    }

    /// The names of its parameters, from the left.
    pub fn params(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Param(name) => Some(&**name),
        })
    }

    /// Splits a path that matches, raw or decoded, into the prefix and the rest, which is empty or
    /// begins with a slash. Without `/*` at the end the rest is empty.
    pub fn split<'p>(&self, path: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        if self.below {
            split_behind(path, self.segments.len())
        } else {
            (path, &[])
        }
    }

    /// Whether it matches a decoded path.
    pub fn matches(&self, path: &[u8]) -> bool {
        let mut segments = path
            .strip_prefix(b"/")
            .unwrap_or(path)
            .split(|byte| *byte == b'/');
        let fits = |(wanted, found): (&Segment, &[u8])| match wanted {
            Segment::Literal(text) => **text == *found,
            Segment::Param(_) => !found.is_empty(),
        };
        let all = self
            .segments
            .iter()
            .all(|wanted| segments.next().is_some_and(|found| fits((wanted, found))));
        all && (self.below || segments.next().is_none())
    }

    /// Which segment a parameter is.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let is_it =
            |segment: &Segment| matches!(segment, Segment::Param(found) if **found == *name);
        self.segments.iter().position(is_it)
    }

    /// How many segments it has before `/*`, if it ends in that.
    pub(crate) fn prefix_depth(&self) -> Option<usize> {
        self.below.then_some(self.segments.len())
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Compares patterns of one kind; of two kinds, or of two depths, one always goes first.
    pub(super) fn overlap(&self, other: &Self) -> Overlap {
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

    /// A path that matches both, if they overlap.
    pub(super) fn example(&self, other: &Self) -> String {
        let mut path = String::new();
        for pair in self.segments.iter().zip(&other.segments) {
            path.push('/');
            match pair {
                (Segment::Literal(text), _) | (_, Segment::Literal(text)) => {
                    path.push_str(&String::from_utf8_lossy(text));
                }
                _ => path.push('x'),
            }
        }
        if self.below {
            path.push_str("/x");
        }
        path
    }

    /// Whether a request's path can match: those with dot segments, backslashes or NUL are refused
    /// before routing.
    pub(super) fn is_possible(&self) -> bool {
        self.segments.iter().all(|segment| match segment {
            Segment::Literal(text) => {
                !matches!(&**text, b"." | b"..")
                    && !text.iter().any(|byte| matches!(byte, b'\\' | 0))
            }
            Segment::Param(_) => true,
        })
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, PatternError> {
        if text.contains('*') {
            return Err(PatternError::Star);
        }
        match text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        {
            Some(name) if is_name(name) => Ok(Self::Param(name.into())),
            None if !text.contains(['{', '}']) => Ok(Self::Literal(text.as_bytes().into())),
            _ => Err(PatternError::Brace),
        }
    }
}

/// Whether a text can be the name of a parameter.
fn is_name(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(word)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{}", String::from_utf8_lossy(text))?,
                Segment::Param(name) => write!(f, "/{{{name}}}")?,
            }
        }
        f.write_str(if self.below { "/*" } else { "" })
    }
}

/// Splits a path behind its first `count` segments. Slashes in a row are one, as they were for
/// whoever found the pattern.
pub(crate) fn split_behind(path: &[u8], count: usize) -> (&[u8], &[u8]) {
    let begins = |at: &usize| *at == 0 || path[at - 1] != b'/';
    match memchr::memchr_iter(b'/', path).filter(begins).nth(count) {
        Some(at) => path.split_at(at),
        None => (path, &[]),
    }
}

/// One segment of a path; empty where there are not so many.
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
            "/a//b",
            "/a/{id}/b",
            "/{a}/{b_2}/*",
            "/a b/\u{e4}",
            "/a/*",
        ] {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert_eq!(Pattern::everything(), pattern("/*"));
    }

    #[test]
    fn wildcards_and_parameters_match_whole_segments() {
        use PatternError::*;
        for (text, error) in [
            ("", NoSlash),
            ("a", NoSlash),
            ("*", NoSlash),
            ("a/*", NoSlash),
            ("/a*", Star),
            ("/*.php", Star),
            ("/a/*/b", Star),
            ("/*/*", Star),
            ("/{}", Brace),
            ("/{a", Brace),
            ("/a}", Brace),
            ("/x{a}", Brace),
            ("/{a}.html", Brace),
            ("/{a-b}", Brace),
            ("/{{a}}", Brace),
            ("/{a}/{a}", Twice("a".into())),
        ] {
            assert_eq!(Pattern::parse(text), Err(error), "{text}");
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
