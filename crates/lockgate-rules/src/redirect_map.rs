//! Redirects by path, up to a hundred thousand of them.
//!
//! A look-up tries the whole path, then its prefixes of as many segments as any redirect has. Its
//! cost depends on the redirects, not on the length of the path.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::pattern::{Pattern, split_behind};
use crate::template::Template;

/// Redirects by path. The exact path applies, else the longest prefix, as with routes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RedirectMap {
    /// Redirects of one path, by that path.
    exact: RedirectTargets,
    /// Redirects of all paths below a prefix, by that prefix.
    below: RedirectTargets,
    /// The numbers of segments in the keys of `below`, descending and without duplicates.
    depths: Vec<usize>,
}

/// A map of its own: a router's table also has parameters and methods, and takes three times the
/// memory.
type RedirectTargets = HashMap<Box<[u8]>, (Template, u16), RandomState>;

impl RedirectMap {
    /// Adds a redirect; returns whether it is the first for its path. `from` has no parameters, and
    /// `to` is a template for [`Purpose::Redirect`] and for `from`.
    ///
    /// [`Purpose::Redirect`]: crate::Purpose::Redirect
    pub fn insert(&mut self, from: &Pattern, to: Template, status: u16) -> bool {
        let targets = match from.prefix_depth() {
            None => &mut self.exact,
            Some(depth) => {
                if let Err(place) = self.depths.binary_search_by(|known| depth.cmp(known)) {
                    self.depths.insert(place, depth);
                }
                &mut self.below
            }
        };
        let path = from.prefix().into_bytes().into();
        targets.insert(path, (to, status)).is_none()
    }

    /// The number of redirects.
    pub fn len(&self) -> usize {
        self.exact.len() + self.below.len()
    }

    /// Whether there are no redirects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A decoded path for each redirect, sorted: its own, or one below its prefix.
    pub fn samples(&self) -> Vec<Box<[u8]>> {
        let below = self
            .below
            .keys()
            .map(|prefix| [&**prefix, b"/x"].concat().into());
        let mut samples: Vec<_> = self.exact.keys().cloned().chain(below).collect();
        samples.sort_unstable();
        samples
    }

    /// The redirect for a decoded path: its template and status. The caller has merged its
    /// slashes.
    pub fn find(&self, path: &[u8]) -> Option<(&Template, u16)> {
        let (to, status) = self.exact.get(path).or_else(|| self.longest(path))?;
        Some((to, *status))
    }

    fn longest(&self, path: &[u8]) -> Option<&(Template, u16)> {
        // A path with fewer segments is looked up whole: no prefix of it is longer.
        self.depths
            .iter()
            .find_map(|&depth| self.below.get(split_behind(path, depth).0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Purpose;
    use crate::template::tests::values;

    fn add(map: &mut RedirectMap, from: &str, to: &str) -> bool {
        let from = match from.strip_suffix("/*") {
            Some(path) => Pattern::literal(path, true),
            None => Pattern::literal(from, false),
        };
        let to = Template::parse(to, Purpose::Redirect, &from).unwrap();
        map.insert(&from, to, 301)
    }

    fn map(redirects: &[(&str, &str)]) -> RedirectMap {
        let mut map = RedirectMap::default();
        for (from, to) in redirects {
            assert!(add(&mut map, from, to), "{from}");
        }
        map
    }

    #[test]
    fn an_exact_redirect_beats_the_longest_prefix() {
        let map = map(&[
            ("/a/*", "/all/{*}"),
            ("/a/b/*", "/b/{*}"),
            ("/a/b", "/exact"),
            ("/c d", "/e"),
        ]);
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
    fn a_path_is_redirected_once() {
        let mut map = map(&[("/a", "/b"), ("/a/*", "/c")]);
        assert!(!add(&mut map, "/a", "/c"));
        assert!(!add(&mut map, "/a/*", "/d"));
        assert_eq!(map.len(), 2);
    }

    #[test]
    fn a_hundred_thousand_redirects_are_built_and_found() {
        let froms: Vec<String> = (0..100_000).map(|n| format!("/old/{n}/page")).collect();
        let mut map = RedirectMap::default();
        assert!(froms.iter().all(|from| add(&mut map, from, "/new")));
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
        ]);
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
