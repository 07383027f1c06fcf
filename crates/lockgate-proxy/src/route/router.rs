//! The table of one listener's address: hosts to sites, and paths to routes within them.

use lockgate_rules::{HostPattern, Pattern};

use super::clash::{Clash, Unreachable};
use super::hosts::HostTable;
use super::index::{ListenerSiteIndex, RouteIndex};
use super::paths::{NoRoute, PathTree, RouteEntry};

/// A site as the shell gives it.
#[derive(Debug, Clone)]
pub struct SiteRoutes {
    /// The site's host and its aliases.
    pub hosts: Vec<HostPattern>,
    /// The site's routes, in any order. A site that serves every path has one for `/*`.
    pub routes: Vec<RouteEntry>,
}

/// The route of a request.
#[derive(Debug, Clone, Copy)]
pub struct RouteMatch<'r> {
    /// The route.
    pub route: RouteIndex,
    /// The route's pattern: it finds the prefix, the rest and the parameters in the path when they
    /// are asked for.
    pub pattern: &'r Pattern,
}

/// The sites and routes of one address. Does not change once it is built.
#[derive(Debug)]
pub struct Router {
    hosts: HostTable<ListenerSiteIndex>,
    sites: Vec<PathTree>,
    /// The hosts of each site, as they were given.
    given: Vec<Vec<HostPattern>>,
}

impl Router {
    /// Makes the table; beside it, what no request can reach.
    ///
    /// # Errors
    /// Every pair that a request could mean alike.
    pub fn build(sites: Vec<SiteRoutes>) -> Result<(Self, Vec<Unreachable>), Vec<Clash>> {
        let mut router = Self {
            hosts: HostTable::default(),
            sites: Vec::with_capacity(sites.len()),
            given: Vec::with_capacity(sites.len()),
        };
        let mut unreachable = Vec::new();
        let mut clashes = Vec::new();
        for (site, SiteRoutes { hosts, routes }) in ListenerSiteIndex::enumerate(sites) {
            if hosts.is_empty() {
                unreachable.push(Unreachable::Site { site });
            }
            for pattern in &hosts {
                let taken = router.hosts.insert(pattern, site);
                clashes.extend(taken.map(|(earlier, host)| Clash::Host {
                    sites: (earlier, site),
                    host,
                }));
                if let (false, HostPattern::Exact(host) | HostPattern::Under(host)) =
                    (pattern.is_possible(), pattern)
                {
                    unreachable.push(Unreachable::Host {
                        site,
                        host: host.clone(),
                    });
                }
            }
            let paths = PathTree::build(site, routes, &mut clashes);
            unreachable.extend(paths.unreachable(site));
            router.sites.push(paths);
            router.given.push(hosts);
        }
        if clashes.is_empty() {
            Ok((router, unreachable))
        } else {
            Err(clashes)
        }
    }

    /// The site of a host, as [`Authority::name`](lockgate_http::target::Authority::name) gives it.
    #[inline]
    pub fn site(&self, host: Option<&str>) -> Option<ListenerSiteIndex> {
        self.hosts.find(host)
    }

    /// The route of a method and a path, as [`decode`](lockgate_http::target::decode) gives it,
    /// within a site.
    ///
    /// # Errors
    /// When the site has none for that path, or none for that method.
    #[inline]
    pub fn route(
        &self,
        site: ListenerSiteIndex,
        method: &[u8],
        path: &[u8],
    ) -> Result<RouteMatch<'_>, NoRoute> {
        let paths = self.sites.get(site.get()).ok_or(NoRoute::Path)?;
        paths.find(method, path).map(|rule| RouteMatch {
            route: rule.value,
            pattern: &rule.pattern,
        })
    }

    /// The hosts of each site, as they were given.
    pub(super) fn hosts_of_sites(&self) -> &[Vec<HostPattern>] {
        &self.given
    }

    /// The routes of a site, as they were given.
    pub(super) fn routes_of(&self, site: ListenerSiteIndex) -> &[RouteEntry] {
        self.sites.get(site.get()).map_or(&[], PathTree::entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(value: RouteIndex, text: &str) -> RouteEntry {
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => (Some(method.into()), path),
            None => (None, text),
        };
        RouteEntry {
            method,
            pattern: Pattern::parse(path).unwrap(),
            value,
        }
    }

    fn exact(host: &str) -> HostPattern {
        HostPattern::Exact(host.to_owned())
    }

    fn site(hosts: Vec<HostPattern>, routes: &[&str]) -> SiteRoutes {
        let routes = RouteIndex::enumerate(routes)
            .map(|(value, text)| rule(value, text))
            .collect();
        SiteRoutes { hosts, routes }
    }

    #[test]
    fn an_exact_host_never_falls_back_to_a_wildcard() {
        let under = HostPattern::Under("example.com".into());
        let sites = vec![
            site(
                vec![exact("a.example.com"), exact("alias.test")],
                &["/only"],
            ),
            site(vec![under], &["/*"]),
        ];
        let (router, unreachable) = Router::build(sites).unwrap();
        assert!(unreachable.is_empty());
        let route = |host, path: &str| {
            let site = router.site(Some(host))?;
            Some(
                router
                    .route(site, b"GET", path.as_bytes())
                    .map(|found| (site.get(), found.route.get())),
            )
        };
        assert_eq!(route("a.example.com", "/only"), Some(Ok((0, 0))));
        assert_eq!(route("alias.test", "/only"), Some(Ok((0, 0))));
        assert_eq!(route("a.example.com", "/"), Some(Err(NoRoute::Path)));
        assert_eq!(route("b.example.com", "/"), Some(Ok((1, 0))));
        assert_eq!(route("example.com", "/"), None);
    }

    #[test]
    fn all_route_conflicts_are_reported_at_once() {
        let sites = vec![
            site(
                vec![exact("a.test")],
                &["/a", "/a", "GET /{x}/b", "GET /a/{y}"],
            ),
            site(
                vec![HostPattern::Any, exact("A.test"), HostPattern::Any],
                &["/x/*", "/x/*"],
            ),
        ];
        let clashes = Router::build(sites).unwrap_err();
        let told: Vec<_> = clashes.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "GET /a/b matches both, and neither is more specific",
                "GET /a matches both, and neither is more specific",
                "a request for the host a.test matches both",
                "a request for the host any.example matches both",
                "GET /x/x matches both, and neither is more specific",
            ]
        );
        assert!(matches!(
            clashes[0],
            Clash::Route { site, routes: (one, other), .. }
                if [site.get(), one.get(), other.get()] == [0, 2, 3]
        ));
    }

    #[test]
    fn unreachable_sites_hosts_and_routes_are_reported() {
        let sites = vec![
            site(vec![], &["/*"]),
            site(vec![exact("a:80")], &["CONNECT /*", "/a/b"]),
        ];
        let (_, unreachable) = Router::build(sites).unwrap();
        let site = ListenerSiteIndex::new;
        let route = RouteIndex::new(0);
        assert_eq!(
            unreachable,
            [
                Unreachable::Site { site: site(0) },
                Unreachable::Host {
                    site: site(1),
                    host: "a:80".into()
                },
                Unreachable::Connect {
                    site: site(1),
                    route
                },
            ]
        );
    }
}
