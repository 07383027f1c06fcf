//! The keys of `path` tables as they are written: `"/x"`, `"/x/*"`, `"/x/{id}/y"`, a method before
//! them.
//!
//! Does not match paths and does not compare patterns: the router does. The errors hold no text of
//! the input.

/// The paths of a route, as the decoded path of a request is held against them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Every path.
    Any,
    /// Segment by segment.
    Path {
        /// What stands between the slashes. The last literal is empty where the path ends in a
        /// slash; no other one is.
        segments: Vec<Segment>,
        /// Whether `/` and anything may follow: the pattern ends in `/*`.
        tail: bool,
    },
}

/// One segment of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// This text.
    Literal(String),
    /// `{name}`: any one segment.
    Param(String),
}

/// The key of a `path` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathKey {
    pub(crate) method: Option<String>,
    pub(crate) pattern: Pattern,
}

/// What is wrong with the key of a `path` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternError {
    Empty,
    NoSlash,
    BadMethod,
    LowerMethod,
    InnerStar,
    BadParam,
    SameParam,
    Reserved,
    EmptySegment,
    DotSegment,
    Percent,
    Query,
    BadCharacter,
}

impl PatternError {
    /// The mistake in a few words, without the text.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            PatternError::Empty => "it is empty",
            PatternError::NoSlash => "a path begins with `/`",
            PatternError::BadMethod => "what stands before the path is not a method",
            PatternError::LowerMethod => "methods are written in capitals",
            PatternError::InnerStar => "a `*` stands alone after the last `/`, and nowhere else",
            PatternError::BadParam => {
                "a `{name}` stands alone between two `/`, of letters, digits and `_`"
            }
            PatternError::SameParam => "two of its parameters have the same name",
            PatternError::Reserved => {
                "`host`, `path`, `query` and `client` mean something else already"
            }
            PatternError::EmptySegment => "nothing stands between two `/`",
            PatternError::DotSegment => "`.` and `..` are resolved before paths are compared",
            PatternError::Percent => "paths are decoded before they are compared",
            PatternError::Query => "only the path is compared, without what follows `?` or `#`",
            PatternError::BadCharacter => "it holds a space, a control character or a backslash",
        }
    }
}

impl PathKey {
    /// Parses `"/x"`, `"/x/*"`, `"/x/{id}/y"` or one of them after a method and a space.
    pub(crate) fn parse(text: &str) -> Result<PathKey, PatternError> {
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) if !method.starts_with('/') => (Some(method), path.trim_start()),
            _ => (None, text),
        };
        let method = match method {
            Some(method) if !is_token(method) => return Err(PatternError::BadMethod),
            Some(method) if method.contains(|c: char| c.is_ascii_lowercase()) => {
                return Err(PatternError::LowerMethod);
            }
            method => method.map(str::to_owned),
        };
        Ok(PathKey {
            method,
            pattern: Pattern::parse(path)?,
        })
    }
}

impl Pattern {
    /// Parses `"/x"`, `"/x/*"` or `"/x/{id}/y"`.
    pub(crate) fn parse(path: &str) -> Result<Pattern, PatternError> {
        if path.is_empty() {
            return Err(PatternError::Empty);
        }
        let Some(rest) = path.strip_prefix('/') else {
            return Err(PatternError::NoSlash);
        };
        if path.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(PatternError::BadCharacter);
        }
        if path.contains(['?', '#']) {
            return Err(PatternError::Query);
        }
        if path.contains('%') {
            return Err(PatternError::Percent);
        }
        let mut segments: Vec<Segment> = Vec::new();
        let mut parts = rest.split('/').peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            let segment = match part {
                "*" if last => {
                    return Ok(Pattern::Path {
                        segments,
                        tail: true,
                    });
                }
                "" if !last => return Err(PatternError::EmptySegment),
                "." | ".." => return Err(PatternError::DotSegment),
                part if part.contains('*') => return Err(PatternError::InnerStar),
                part if part.contains(['{', '}']) => Segment::Param(param(part)?.to_owned()),
                part => Segment::Literal(part.to_owned()),
            };
            if matches!(segment, Segment::Param(_)) && segments.contains(&segment) {
                return Err(PatternError::SameParam);
            }
            segments.push(segment);
        }
        Ok(Pattern::Path {
            segments,
            tail: false,
        })
    }

    /// Whether `{*}` stands for something.
    pub(crate) fn has_tail(&self) -> bool {
        matches!(self, Pattern::Any | Pattern::Path { tail: true, .. })
    }

    /// The names of its parameters.
    pub(crate) fn params(&self) -> impl Iterator<Item = &str> {
        let segments = match self {
            Pattern::Any => &[],
            Pattern::Path { segments, .. } => segments.as_slice(),
        };
        segments.iter().filter_map(|segment| match segment {
            Segment::Param(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }
}

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
pub(crate) fn is_param(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A token (RFC 9110 §5.6.2): a method, the name of a field.
pub(crate) fn is_token(text: &str) -> bool {
    let mark = |byte| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || mark(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Segment {
        Segment::Literal(text.to_owned())
    }

    #[test]
    fn a_key_is_a_path_with_parameters_a_tail_and_a_method() {
        let path = |segments: Vec<Segment>, tail| Ok(Pattern::Path { segments, tail });
        for (text, expected) in [
            ("/", path(vec![literal("")], false)),
            ("/x", path(vec![literal("x")], false)),
            ("/x/", path(vec![literal("x"), literal("")], false)),
            ("/*", path(vec![], true)),
            ("/x/*", path(vec![literal("x")], true)),
            (
                "/x/{id}/y",
                path(
                    vec![literal("x"), Segment::Param("id".into()), literal("y")],
                    false,
                ),
            ),
            ("/ä", path(vec![literal("ä")], false)),
            ("", Err(PatternError::Empty)),
            ("x", Err(PatternError::NoSlash)),
            ("*", Err(PatternError::NoSlash)),
            ("/x*", Err(PatternError::InnerStar)),
            ("/*/x", Err(PatternError::InnerStar)),
            ("/*.php", Err(PatternError::InnerStar)),
            ("/x{id}", Err(PatternError::BadParam)),
            ("/{}", Err(PatternError::BadParam)),
            ("/{a-b}", Err(PatternError::BadParam)),
            ("/{a}/{a}", Err(PatternError::SameParam)),
            ("/{host}", Err(PatternError::Reserved)),
            ("//x", Err(PatternError::EmptySegment)),
            ("/x/../y", Err(PatternError::DotSegment)),
            ("/a%20b", Err(PatternError::Percent)),
            ("/x?y", Err(PatternError::Query)),
            ("/x y", Err(PatternError::BadCharacter)),
            ("/x\\y", Err(PatternError::BadCharacter)),
        ] {
            assert_eq!(
                PathKey::parse(text).map(|key| key.pattern),
                expected,
                "{text}"
            );
        }
        for (text, method) in [
            ("POST /x", Ok(Some("POST"))),
            ("M-SEARCH  /x", Ok(Some("M-SEARCH"))),
        ] {
            assert_eq!(
                PathKey::parse(text)
                    .as_ref()
                    .map(|key| key.method.as_deref()),
                method.as_ref().copied()
            );
        }
        assert_eq!(PathKey::parse("post /x"), Err(PatternError::LowerMethod));
        assert_eq!(PathKey::parse("~ ^/x"), Err(PatternError::NoSlash));
        assert_eq!(PathKey::parse("GET,POST /x"), Err(PatternError::BadMethod));
    }
}
