//! From a request's host to the site that serves it.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use lockgate_http::target::Authority;
use lockgate_rules::HostPattern;

/// What hosts lead to, by their patterns: mostly the sites of one address.
#[derive(Debug)]
pub(crate) struct HostTable<T> {
    exact: HashMap<Box<str>, T, RandomState>,
    under: HashMap<Box<str>, T, RandomState>,
    /// The length of the longest name in `under`: no longer suffix need be looked for.
    longest: usize,
    any: Option<T>,
}

impl<T> Default for HostTable<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::default(),
            under: HashMap::default(),
            longest: 0,
            any: None,
        }
    }
}

impl<T: Copy> HostTable<T> {
    /// Adds a host of a site; returns the site that had it, also the same one, and a host that both
    /// match.
    pub(crate) fn insert(&mut self, pattern: &HostPattern, site: T) -> Option<(T, String)> {
        let (earlier, host) = match pattern {
            HostPattern::Any => (self.any.replace(site), "any.example".to_owned()),
            HostPattern::Exact(host) => {
                let host = normal(host);
                (self.exact.insert(host.as_str().into(), site), host)
            }
            HostPattern::Under(host) => {
                let host = normal(host);
                self.longest = self.longest.max(host.len());
                (
                    self.under.insert(host.as_str().into(), site),
                    format!("www.{host}"),
                )
            }
        };
        earlier.map(|earlier| (earlier, host))
    }

    /// The site of a host as [`Authority::name`] gives it.
    #[inline]
    pub(crate) fn find(&self, host: Option<&str>) -> Option<T> {
        let Some(host) = host else { return self.any };
        // Empty maps are not hashed for: an address with one site for any host pays nothing.
        if let Some(&site) = self.exact.get(host) {
            return Some(site);
        }
        if self.longest > 0
            && let Some(site) = self.above(host)
        {
            return Some(site);
        }
        self.any
    }

    /// The longest wildcard above a host.
    fn above(&self, host: &str) -> Option<T> {
        let dots = memchr::memchr_iter(b'.', host.as_bytes());
        let suffixes = dots.filter_map(|dot| host.get(dot + 1..));
        suffixes
            .filter(|suffix| suffix.len() <= self.longest)
            .find_map(|suffix| self.under.get(suffix).copied())
    }
}

/// The host as [`Authority::name`] gives it, also one that no request can name.
fn normal(host: &str) -> String {
    Authority { host, port: None }.name().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(patterns: &[&str]) -> Result<HostTable<usize>, (usize, String)> {
        let mut hosts = HostTable::default();
        for (site, text) in patterns.iter().enumerate() {
            if let Some(taken) = hosts.insert(&pattern(text), site) {
                return Err(taken);
            }
        }
        Ok(hosts)
    }

    fn pattern(text: &str) -> HostPattern {
        match text.strip_prefix("*.") {
            Some(host) => HostPattern::Under(host.to_owned()),
            None if text == "*" => HostPattern::Any,
            None => HostPattern::Exact(text.to_owned()),
        }
    }

    #[test]
    fn exact_host_beats_longest_wildcard_and_wildcard_beats_any() {
        let all = [
            "*",
            "example.com",
            "*.example.com",
            "*.a.example.com",
            "www.example.com",
            "[::1]",
            "X.Test.",
            "[2001:DB8:0::00A]",
        ];
        let hosts = hosts(&all).unwrap();
        for (host, site) in [
            ("example.com", "example.com"),
            ("www.example.com", "www.example.com"),
            ("b.example.com", "*.example.com"),
            ("b.www.example.com", "*.example.com"),
            ("a.example.com", "*.example.com"),
            ("b.a.example.com", "*.a.example.com"),
            ("c.b.a.example.com", "*.a.example.com"),
            ("notexample.com", "*"),
            ("com", "*"),
            ("[::1]", "[::1]"),
            ("[2001:db8::a]", "[2001:DB8:0::00A]"),
            ("x.test", "X.Test."),
            ("", "*"),
        ] {
            assert_eq!(
                hosts.find(Some(host)).map(|site| all[site]),
                Some(site),
                "{host}"
            );
        }
        assert_eq!(hosts.find(None), Some(0));
    }

    #[test]
    fn without_a_catch_all_site_an_unknown_host_has_none() {
        let hosts = hosts(&["example.com", "*.example.com"]).unwrap();
        assert_eq!(hosts.find(Some("example.org")), None);
        assert_eq!(hosts.find(Some(".example.org")), None);
        assert_eq!(hosts.find(None), None);
    }

    #[test]
    fn one_host_belongs_to_one_site() {
        for (patterns, host) in [
            (["a.example", "A.Example."], "a.example"),
            (["*.a.example", "*.A.example"], "www.a.example"),
            (["*", "*"], "any.example"),
            (["[::1]", "[0:0:0:0:0:0:0:1]"], "[::1]"),
        ] {
            let clash = hosts(&patterns).unwrap_err();
            assert_eq!(clash, (0, host.to_owned()));
        }
    }
}
