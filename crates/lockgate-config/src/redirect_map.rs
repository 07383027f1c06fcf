//! Files of redirects: `FROM TO [STATUS]` on each line.
//!
//! Does not read files and does not match paths. The mistakes hold no text of the input.

use std::collections::hash_map::{self, HashMap};
use std::ops::Range;

use lockgate_rules::{Pattern, PatternError, Purpose, RedirectMap, Template, TemplateError};

use crate::foreign_names::placeholders;

/// One redirect of a file of redirects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectLine {
    /// The line, from 1.
    pub line: usize,
    /// The place of its path in the text, in bytes.
    pub span: Range<usize>,
    /// The decoded path of requests, or all that is below it.
    pub from: Pattern,
    /// The target. It begins with `/`, `http://` or `https://`.
    pub to: Template,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A mistake in a file of redirects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapMistake {
    /// The line, from 1.
    pub line: usize,
    /// The place in the text, in bytes.
    pub span: Range<usize>,
    /// The kind of the mistake.
    pub problem: MapProblem,
}

/// Kinds of mistakes in a file of redirects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapProblem {
    /// A path without a target.
    NoTarget,
    /// The path cannot be read; why.
    From(&'static str),
    /// The target cannot be read; why.
    To(&'static str),
    /// The status is none of a redirect.
    Status,
    /// More than path, target and status.
    More,
    /// The line is longer than 8,000 bytes.
    TooLong,
    /// The path stands on another line already, at this place.
    Twice(Range<usize>),
}

/// A path and a target of this length fit into any request and answer.
const LONGEST_LINE: usize = 8_000;

const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// Parses a file of redirects.
///
/// # Errors
/// All mistakes, by line.
pub fn parse_redirects(text: &str) -> Result<RedirectMap, Vec<MapMistake>> {
    let mut map = RedirectMap::default();
    let is_valid = redirect_lines(text)
        .all(|line| line.is_ok_and(|line| map.insert(&line.from, line.to, line.status)));
    // Only a file with mistakes needs the places of its lines.
    if is_valid {
        Ok(map)
    } else {
        Err(mistakes(text))
    }
}

/// The redirects of a file, or the mistake of each line. A line has a path, a target and optionally
/// a status (308 by default), separated by spaces or tabs. A path that ends in `/*` matches all
/// paths below it, and `{*}` in its target is the matched rest. `#` at the beginning of a word
/// begins a comment. Other special characters of a path are percent-encoded. The same path may come
/// twice.
pub fn redirect_lines(text: &str) -> impl Iterator<Item = Result<RedirectLine, MapMistake>> {
    let mut start = 0;
    text.split('\n')
        .enumerate()
        .filter_map(move |(index, line)| {
            let place = start;
            start += line.len() + 1;
            // A byte order mark is no part of the first path.
            let (place, text) = match line.strip_prefix('\u{feff}') {
                Some(rest) if index == 0 => (place + '\u{feff}'.len_utf8(), rest),
                _ => (place, line),
            };
            let line = index + 1;
            let placed = |span: Range<usize>| span.start + place..span.end + place;
            Some(match entry(text).transpose()? {
                Ok((span, from, to, status)) => Ok(RedirectLine {
                    line,
                    span: placed(span),
                    from,
                    to,
                    status,
                }),
                Err((span, problem)) => Err(MapMistake {
                    line,
                    span: placed(span),
                    problem,
                }),
            })
        })
}

fn mistakes(text: &str) -> Vec<MapMistake> {
    let mut known: HashMap<String, Range<usize>> = HashMap::new();
    redirect_lines(text)
        .filter_map(|line| match line {
            Err(mistake) => Some(mistake),
            Ok(RedirectLine {
                line, span, from, ..
            }) => match known.entry(from.to_string()) {
                hash_map::Entry::Vacant(new) => {
                    new.insert(span);
                    None
                }
                hash_map::Entry::Occupied(first) => Some(MapMistake {
                    line,
                    span,
                    problem: MapProblem::Twice(first.get().clone()),
                }),
            },
        })
        .collect()
}

/// A mistake and where in its line it stands.
type Placed = (Range<usize>, MapProblem);

/// The path of a line with its place, the target and the status.
type Entry = (Range<usize>, Pattern, Template, u16);

fn entry(line: &str) -> Result<Option<Entry>, Placed> {
    let mut words = words(line).take_while(|(_, word)| !word.starts_with('#'));
    let Some((from_at, from)) = words.next() else {
        return Ok(None);
    };
    if line.len() > LONGEST_LINE {
        return Err((from_at, MapProblem::TooLong));
    }
    let Some((to_at, to)) = words.next() else {
        return Err((from_at, MapProblem::NoTarget));
    };
    let pattern = path(from).map_err(|why| (from_at.clone(), MapProblem::From(why)))?;
    let target = target(to, &pattern).map_err(|why| (to_at.clone(), MapProblem::To(why)))?;
    if to == from && !pattern.is_prefix() {
        return Err((to_at, MapProblem::To("it leads to itself")));
    }
    let status = match words.next() {
        None => 308,
        Some((at, text)) => {
            let status = text.parse().ok().filter(|status| STATUSES.contains(status));
            status
                .filter(|_| text.len() == 3)
                .ok_or((at, MapProblem::Status))?
        }
    };
    if let Some((at, _)) = words.next() {
        return Err((at, MapProblem::More));
    }
    Ok(Some((from_at, pattern, target, status)))
}

/// Words and where they stand. A line may end with a carriage return.
fn words(line: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r');
    let mut at = 0;
    line.split(blank).filter_map(move |word| {
        let start = at;
        at += word.len() + 1;
        (!word.is_empty()).then_some((start..start + word.len(), word))
    })
}

/// The decoded path; with `/*` all paths below it.
fn path(text: &str) -> Result<Pattern, &'static str> {
    // The form is that of a path table; only what is encoded is not for it.
    let plain = text.replace('%', "_");
    match Pattern::parse(&plain) {
        Ok(pattern) if pattern.params().next().is_none() => {}
        Ok(_) => return Err("it has a parameter: only the target has placeholders"),
        Err(PatternError::InnerStar) => {
            return Err("a `*` stands alone after the last `/`, and nowhere else");
        }
        Err(error) => return Err(error.reason()),
    }
    let (text, below) = match text.strip_suffix("/*") {
        Some(before) => (before, true),
        None => (text, false),
    };
    let decoded = decoded(text).ok_or("after a `%` stand two hexadecimal digits")?;
    let path = String::from_utf8(decoded).map_err(|_| "it is not UTF-8 when it is decoded")?;
    let before = text.matches('/').count();
    // A path table would take the last three for more than themselves.
    if path.contains(['\0', '\\', '{', '}', '*']) || path.matches('/').count() != before {
        return Err("it holds an encoded `/`, `\\`, `{`, `}`, `*` or NUL");
    }
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(PatternError::DotSegment.reason());
    }
    Ok(Pattern::literal(&path, below))
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || (rest.next()? as char).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(bytes)
}

/// The target, if it is valid and its placeholders have values.
fn target(text: &str, from: &Pattern) -> Result<Template, &'static str> {
    let begins = ["/", "http://", "https://"];
    if !begins.iter().any(|start| text.starts_with(start)) {
        return Err(TemplateError::Start.reason());
    }
    if text.starts_with("//") {
        return Err("it names a host without its scheme");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("it holds what must be percent-encoded");
    }
    if placeholders::foreign(text).is_some() {
        return Err("it has a placeholder of another server");
    }
    Template::parse(text, Purpose::Redirect, from).map_err(|error| error.reason())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A redirect as a path, a target and a status.
    fn shown(redirect: &RedirectLine) -> (String, String, u16) {
        let RedirectLine {
            from, to, status, ..
        } = redirect;
        (from.to_string(), to.written(from), *status)
    }

    #[test]
    fn a_line_is_a_path_a_target_and_perhaps_a_status() {
        let text = "\u{feff}/a /b\r\n\n  # all that follows moved\n/old/*\thttps://new.example/{*}?{query} 301 # since May\n\
                    /caf%c3%A9%20x /#top 302\n/* /{path}\n/x/ /x";
        let expected = [
            ("/a", "/b", 308),
            ("/old/*", "https://new.example/{*}?{query}", 301),
            ("/caf\u{e9} x", "/#top", 302),
            ("/*", "/{path}", 308),
            ("/x/", "/x", 308),
        ];
        let found: Vec<_> = redirect_lines(text)
            .map(|line| shown(&line.unwrap()))
            .collect();
        let expected = expected.map(|(from, to, status)| (from.to_owned(), to.to_owned(), status));
        assert_eq!(found, expected);
        assert_eq!(parse_redirects(text).map(|map| map.len()), Ok(5));
        assert_eq!(parse_redirects("").map(|map| map.len()), Ok(0));
    }

    #[test]
    fn every_mistake_is_told_with_its_line_and_its_place() {
        let from = |why| Some(MapProblem::From(why));
        for (line, marked, problem) in [
            ("/a", "/a", Some(MapProblem::NoTarget)),
            ("/a # /b", "/a", Some(MapProblem::NoTarget)),
            ("/a /b 200", "200", Some(MapProblem::Status)),
            ("/a /b +301", "+301", Some(MapProblem::Status)),
            ("/a /b 301 x", "x", Some(MapProblem::More)),
            ("a /b", "a", from("a path begins with `/`")),
            ("/a*b /b", "/a*b", None),
            ("/{id} /b", "/{id}", None),
            ("/a?b /b", "/a?b", None),
            ("/a/../b /b", "/a/../b", None),
            ("/a/%2e%2E/b /b", "/a/%2e%2E/b", None),
            (
                "/a%2fb /b",
                "/a%2fb",
                from("it holds an encoded `/`, `\\`, `{`, `}`, `*` or NUL"),
            ),
            ("/a/%2a /b", "/a/%2a", None),
            ("/a%00 /b", "/a%00", None),
            (
                "/a%f /b",
                "/a%f",
                from("after a `%` stand two hexadecimal digits"),
            ),
            (
                "/a%ff /b",
                "/a%ff",
                from("it is not UTF-8 when it is decoded"),
            ),
            ("/a b", "b", None),
            ("/a //b", "//b", None),
            ("/a https://", "https://", None),
            ("/a javascript:x", "javascript:x", None),
            ("/a /é", "/é", None),
            ("/a /{*}", "/{*}", None),
            ("/a/* /{id}", "/{id}", None),
            ("/a/* /{*", "/{*", None),
            ("/a /b}", "/b}", None),
            ("/a/* https://{*}/", "https://{*}/", None),
            ("/a/* https://a.b{*}", "https://a.b{*}", None),
            ("/a /a", "/a", Some(MapProblem::To("it leads to itself"))),
            (
                "/a/* /b/$1",
                "/b/$1",
                Some(MapProblem::To("it has a placeholder of another server")),
            ),
            (
                "/a https://a.b$request_uri",
                "https://a.b$request_uri",
                None,
            ),
        ] {
            let text = format!("/first /b\n{line}\n");
            let mistakes = parse_redirects(&text).unwrap_err();
            let [
                MapMistake {
                    line: 2,
                    span,
                    problem: found,
                },
            ] = &mistakes[..]
            else {
                panic!("{line}: {mistakes:?}")
            };
            assert_eq!(&text[span.clone()], marked, "{line}");
            assert!(
                problem.is_none_or(|problem| problem == *found),
                "{line}: {found:?}"
            );
        }
    }

    #[test]
    fn a_path_is_told_once() {
        let mistakes = parse_redirects("/a /b\n/a/* /b\n/%61 /c\n/a/ /d\n/a /b 301\n").unwrap_err();
        let lines: Vec<_> = mistakes
            .iter()
            .map(|one| (one.line, one.problem.clone()))
            .collect();
        assert_eq!(
            lines,
            [(3, MapProblem::Twice(0..2)), (5, MapProblem::Twice(0..2))]
        );
    }

    #[test]
    fn a_hundred_thousand_lines_are_read_or_refused() {
        let text: String = (0..100_000)
            .map(|n| format!("/old/{n} /new/{n}\n"))
            .collect();
        assert_eq!(
            parse_redirects(&text).map(|entries| entries.len()),
            Ok(100_000)
        );
        assert_eq!(
            parse_redirects(&text.replace("/old", "old")).map_err(|all| all.len()),
            Err(100_000)
        );
        let long = format!("/a /{}", "b".repeat(10_000));
        assert_eq!(
            parse_redirects(&long).unwrap_err()[0].problem,
            MapProblem::TooLong
        );
    }
}
