//! Why a request does not belong to a site or a route: the same look-up, in a table that has only that
//! one.

use lockgate_rules::HostPattern;

use super::hosts::HostTable;
use super::index::{ListenerSiteIndex, RouteIndex};
use super::paths::{NoRoute, PathTree, RouteEntry};
use super::router::Router;

/// Why a request does not belong to a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteLoss {
    /// It has another host than any of the site.
    Host,
    /// Another site has a more specific host than this one.
    LessSpecific(HostPattern),
}

/// Why a request does not belong to a route of its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteLoss {
    /// It has another path.
    Path,
    /// It has another method.
    Method,
    /// Another route is more specific.
    LessSpecific,
}

impl Router {
    /// The sites that a request for `host` does not belong to; `won` is the one that it does belong
    /// to.
    pub fn lost_sites(
        &self,
        host: Option<&str>,
        won: Option<ListenerSiteIndex>,
    ) -> impl Iterator<Item = (ListenerSiteIndex, SiteLoss)> {
        let lost = ListenerSiteIndex::enumerate(self.hosts_of_sites());
        let lost = lost.filter(move |(site, _)| Some(*site) != won);
        lost.map(move |(site, patterns)| {
            let matching = patterns.iter().find(|pattern| {
                let mut alone = HostTable::default();
                alone.insert(pattern, ());
                alone.find(host).is_some()
            });
            let loss = matching
                .cloned()
                .map_or(SiteLoss::Host, SiteLoss::LessSpecific);
            (site, loss)
        })
    }

    /// The routes of `site` that a request does not belong to; `won` is the one that it does belong
    /// to.
    pub fn lost_routes(
        &self,
        site: ListenerSiteIndex,
        method: &[u8],
        path: &[u8],
        won: Option<RouteIndex>,
    ) -> impl Iterator<Item = (RouteIndex, RouteLoss)> {
        let lost = self.routes_of(site).iter();
        let lost = lost.filter(move |entry| Some(entry.value) != won);
        lost.map(move |entry| (entry.value, loss(site, entry, method, path)))
    }
}

fn loss(site: ListenerSiteIndex, entry: &RouteEntry, method: &[u8], path: &[u8]) -> RouteLoss {
    let alone = PathTree::build(site, vec![entry.clone()], &mut Vec::new());
    match alone.find(method, path) {
        Ok(_) => RouteLoss::LessSpecific,
        Err(NoRoute::Path) => RouteLoss::Path,
        Err(NoRoute::Method { .. }) => RouteLoss::Method,
    }
}

#[cfg(test)]
mod tests {
    use lockgate_rules::Pattern;

    use super::super::router::SiteRoutes;
    use super::*;

    #[test]
    fn a_losing_route_tells_whether_path_method_or_specificity_decides() {
        let routes = ["/*", "/a/*", "/a/{id}", "/b"];
        let mut entries: Vec<_> = RouteIndex::enumerate(routes)
            .map(|(value, path)| RouteEntry {
                method: None,
                pattern: Pattern::parse(path).unwrap(),
                value,
            })
            .collect();
        entries.push(RouteEntry {
            method: Some(b"PUT".to_vec()),
            pattern: Pattern::parse("/a/{id}").unwrap(),
            value: RouteIndex::new(4),
        });
        let sites = vec![SiteRoutes {
            hosts: vec![HostPattern::Any],
            routes: entries,
        }];
        let (router, _) = Router::build(sites).unwrap();
        let site = ListenerSiteIndex::new(0);
        let won = router.route(site, b"GET", b"/a/1").unwrap().route;
        let lost: Vec<_> = router
            .lost_routes(site, b"GET", b"/a/1", Some(won))
            .map(|(route, loss)| (route.get(), loss))
            .collect();
        assert_eq!(
            lost,
            [
                (0, RouteLoss::LessSpecific),
                (1, RouteLoss::LessSpecific),
                (3, RouteLoss::Path),
                (4, RouteLoss::Method),
            ]
        );
    }

    #[test]
    fn a_losing_site_tells_which_of_its_hosts_was_less_specific() {
        let under = HostPattern::Under("example.com".into());
        let site = |hosts| SiteRoutes {
            hosts,
            routes: vec![RouteEntry {
                method: None,
                pattern: Pattern::everything(),
                value: RouteIndex::new(0),
            }],
        };
        let sites = vec![
            site(vec![HostPattern::Exact("a.example.com".into())]),
            site(vec![HostPattern::Exact("b.test".into()), under.clone()]),
            site(vec![HostPattern::Exact("c.test".into())]),
        ];
        let (router, _) = Router::build(sites).unwrap();
        let host = Some("a.example.com");
        let lost = router.lost_sites(host, router.site(host));
        let lost: Vec<_> = lost.map(|(site, loss)| (site.get(), loss)).collect();
        assert_eq!(
            lost,
            [(1, SiteLoss::LessSpecific(under)), (2, SiteLoss::Host)]
        );
    }
}
