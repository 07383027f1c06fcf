//! Redirects by path, of which there may be a hundred thousand.

use crate::route::{Pattern, Router, Rule, SiteRoutes};

use super::template::{Purpose, Template};

/// Paths and where they lead. Found as routes are: the exact one, else the longest prefix.
#[derive(Debug)]
pub struct RedirectMap {
    router: Router,
    targets: Vec<(Template, u16)>,
}

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
    /// Which one, from 0; the last where two are for the same path.
    pub number: usize,
    why: String,
}

impl RedirectMap {
    /// Makes the map.
    ///
    /// # Errors
    /// The first that cannot be: its pattern or template cannot be read, or another is for the same path.
    pub fn new<'a>(redirects: impl IntoIterator<Item = Moved<'a>>) -> Result<Self, RedirectError> {
        let mut routes = Vec::new();
        let mut targets = Vec::new();
        for (value, Moved { from, to, status }) in redirects.into_iter().enumerate() {
            let wrong = |why: String| RedirectError { number: value, why };
            let pattern = Pattern::parse(from).map_err(|error| wrong(error.to_string()))?;
            let to = Template::parse(to, Purpose::Redirect, &pattern);
            targets.push((to.map_err(|error| wrong(error.to_string()))?, status));
            routes.push(Rule { method: None, pattern, value });
        }
        let number = targets.len().saturating_sub(1);
        let made = Router::build(vec![SiteRoutes { hosts: Vec::new(), routes }]);
        let clash = |why: String| RedirectError { number, why };
        let (router, _) =
            made.map_err(|clashes| clash(clashes.first().map(ToString::to_string).unwrap_or_default()))?;
        Ok(Self { router, targets })
    }

    /// Where a decoded path leads, and with which status.
    pub fn find(&self, path: &[u8]) -> Option<(&Template, u16)> {
        let found = self.router.route(0, b"GET", path).ok()?;
        self.targets.get(found.route).map(|(to, status)| (to, *status))
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::tests::values;
    use super::*;

    fn map(redirects: &[(&str, &str)]) -> Result<RedirectMap, RedirectError> {
        RedirectMap::new(redirects.iter().map(|(from, to)| Moved { from, to, status: 301 }))
    }

    #[test]
    fn the_exact_path_goes_before_the_longest_prefix() {
        let map =
            map(&[("/a/*", "/all/{*}"), ("/a/b/*", "/b/{*}"), ("/a/b", "/exact"), ("/c d", "/e")]).unwrap();
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
    fn what_cannot_be_is_named() {
        for (redirects, number) in
            [(&[("/a", "/b"), ("a", "/b")][..], 1), (&[("/a", "{*}")], 0), (&[("/a", "/b"), ("/a", "/c")], 1)]
        {
            assert_eq!(map(redirects).map(|_| ()).map_err(|error| error.number), Err(number));
        }
    }

    #[test]
    fn a_hundred_thousand_are_made_and_found() {
        let froms: Vec<String> = (0..100_000).map(|n| format!("/old/{n}/page")).collect();
        let map = RedirectMap::new(froms.iter().map(|from| Moved { from, to: "/new", status: 308 })).unwrap();
        assert!(froms.iter().all(|from| map.find(from.as_bytes()).is_some()));
        assert!(map.find(b"/old/100000/page").is_none());
    }
}
