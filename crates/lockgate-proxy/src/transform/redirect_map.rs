//! Redirects by path, of which there may be a hundred thousand.
//!
//! A look-up asks for the whole path, and then for its beginnings of as many segments as some
//! redirect has: what it costs is decided by who wrote the redirects, not by the path.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::template::{Purpose, Template};
use crate::route::Pattern;
use crate::route::pattern::split_behind;

/// Paths and where they lead. Found as routes are: the exact one, else the longest prefix.
#[derive(Debug, Default)]
pub struct RedirectMap {
    /// By the whole path.
    exact: Targets,
    /// By what is before `/*`.
    below: Targets,
    /// How many segments the keys of `below` have, each number once, the highest first.
    depths: Vec<usize>,
}

/// A router's table takes three times the memory: here are no parameters and no methods.
type Targets = HashMap<Box<[u8]>, (Template, u16), RandomState>;

/// One redirect, as configured.
#[derive(Debug, Clone, Copy)]
pub struct Moved<'a> {
    /// The pattern of decoded paths, without parameters: `/a`, `/a/*`.
    pub from: &'a str,
    /// A template for [`Purpose::Redirect`].
    pub to: &'a str,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// Why a redirect cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct RedirectError {
    /// Which one, from 0; the second where two are for the same path.
    pub number: usize,
    why: String,
}

impl RedirectMap {
    /// Makes the map.
    ///
    /// # Errors
    /// The first that cannot be: its pattern or template cannot be read, or another is for the same
    /// path.
    pub fn new<'a>(redirects: impl IntoIterator<Item = Moved<'a>>) -> Result<Self, RedirectError> {
        let mut map = Self::default();
        for (number, Moved { from, to, status }) in redirects.into_iter().enumerate() {
            let wrong = |why: String| RedirectError { number, why };
            let pattern = Pattern::parse(from).map_err(|error| wrong(error.to_string()))?;
            if pattern.params().next().is_some() {
                return Err(wrong("it has a parameter".to_owned()));
            }
            let to = Template::parse(to, Purpose::Redirect, &pattern);
            let to = to.map_err(|error| wrong(error.to_string()))?;
            let (targets, path) = match pattern.prefix_depth() {
                None => (&mut map.exact, from),
                Some(depth) => {
                    if let Err(place) = map.depths.binary_search_by(|known| depth.cmp(known)) {
                        map.depths.insert(place, depth);
                    }
                    (&mut map.below, from.strip_suffix("/*").unwrap_or(from))
                }
            };
            if targets
                .insert(path.as_bytes().into(), (to, status))
                .is_some()
            {
                return Err(wrong("another is for the same path".to_owned()));
            }
        }
        Ok(map)
    }

    /// Where a decoded path leads in which no slashes follow each other, and with which status.
    pub fn find(&self, path: &[u8]) -> Option<(&Template, u16)> {
        let (to, status) = self.exact.get(path).or_else(|| self.longest(path))?;
        Some((to, *status))
    }

    fn longest(&self, path: &[u8]) -> Option<&(Template, u16)> {
        // Of a path with fewer segments all of it is looked for, which is as long as a prefix of it
        // can be.
        self.depths
            .iter()
            .find_map(|&depth| self.below.get(split_behind(path, depth).0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::tests::values;
    use super::*;

    fn map(redirects: &[(&str, &str)]) -> Result<RedirectMap, RedirectError> {
        RedirectMap::new(redirects.iter().map(|(from, to)| Moved {
            from,
            to,
            status: 301,
        }))
    }

    #[test]
    fn an_exact_redirect_beats_the_longest_prefix() {
        let map = map(&[
            ("/a/*", "/all/{*}"),
            ("/a/b/*", "/b/{*}"),
            ("/a/b", "/exact"),
            ("/c d", "/e"),
        ])
        .unwrap();
        for (raw, expected) in [
            ("/a/b", Some("/exact")),
            ("/a/b/", Some("/b/")),
            ("/a/b/c", Some("/b/c")),
            ("/a/x/y", Some("/all/x/y")),
            ("/a", Some("/all/")),
            ("/ab", None),
            ("/", None),
            ("*", None),
        ] {
            let found = map.find(raw.as_bytes()).map(|(to, status)| {
                let mut text = Vec::new();
                to.render(&values(raw, None), &mut text);
                assert_eq!(status, 301);
                String::from_utf8(text).unwrap()
            });
            assert_eq!(found.as_deref(), expected, "{raw}");
        }
        assert!(map.find(b"/c d").is_some());
    }

    #[test]
    fn a_faulty_redirect_is_refused_with_its_number() {
        for (redirects, number) in [
            (&[("/a", "/b"), ("a", "/b")][..], 1),
            (&[("/a", "{*}")], 0),
            (&[("/a", "/b"), ("/a", "/c")], 1),
            (&[("/{a}", "/b")], 0),
        ] {
            assert_eq!(
                map(redirects).map(|_| ()).map_err(|error| error.number),
                Err(number)
            );
        }
    }

    #[test]
    fn a_hundred_thousand_redirects_are_built_and_found() {
        let froms: Vec<String> = (0..100_000).map(|n| format!("/old/{n}/page")).collect();
        let map = RedirectMap::new(froms.iter().map(|from| Moved {
            from,
            to: "/new",
            status: 308,
        }))
        .unwrap();
        assert!(froms.iter().all(|from| map.find(from.as_bytes()).is_some()));
        assert!(map.find(b"/old/100000/page").is_none());
    }

    #[test]
    fn a_long_path_is_searched_no_deeper_than_the_redirects() {
        let map = map(&[
            ("/*", "/all"),
            ("/a/a/*", "/two"),
            ("/a/*", "/one"),
            ("/b/*", "/other"),
        ])
        .unwrap();
        assert_eq!(map.depths, [2, 1, 0]);
        for (path, to) in [
            ("/a".repeat(30_000), "/two"),
            ("/b".repeat(30_000), "/other"),
            ("/c".repeat(9), "/all"),
        ] {
            let mut text = Vec::new();
            map.find(path.as_bytes())
                .unwrap()
                .0
                .render(&values("/", None), &mut text);
            assert_eq!(text, to.as_bytes());
        }
    }
}
