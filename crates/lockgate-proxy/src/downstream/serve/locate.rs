//! The site and the route of a request: host to site, path and method to route, and no path that
//! could be read as that of another route.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_http::head::Method;
use lockgate_http::path_interpretations::{interpretations, without_parameters};
use lockgate_http::request_target::RequestTarget;
use lockgate_http::target::{Authority, TargetError, decode};
use lockgate_limits::SiteNumber;
use lockgate_rules::{Cors, Pattern, RequestValues, Template};

use super::refusal::Refusal;
use super::{IncomingRequest, ServeContext};
use crate::error_response::HttpFault;
use crate::route::{ListenerSiteIndex, NoRoute};
use crate::site::Route;

/// The resource that a request is for.
pub(super) enum Located<'e, 's> {
    /// What has no route.
    Routeless(Routeless<'s>),
    /// A route of a site.
    Route(LocatedRoute<'e, 's>),
}

/// A resource without a route.
pub(super) enum Routeless<'s> {
    /// The server as a whole (`OPTIONS *`).
    Server,
    /// The proof of a name for an authority (RFC 8555 §8.3): its key authorization.
    Challenge(Arc<str>),
    /// A CORS preflight, to be answered by these rules.
    Preflight(&'s Cors),
}

/// The route of a request.
pub(super) struct LocatedRoute<'e, 's> {
    pub(super) target: &'e RequestTarget<'e>,
    pub(super) route: &'s Route,
    pub(super) pattern: &'s Pattern,
}

impl<'e, 's, D> IncomingRequest<'e, 's, D> {
    /// Finds the site and the route of the request.
    pub(super) fn locate(&mut self) -> Result<Located<'e, 's>, Refusal<'s>> {
        // Before every other refusal. The site, if it has one, is for the log.
        let ban = self.check_ban();
        let target = self.target.as_ref();
        let target = target.map_err(|error| Refusal::malformed(error));
        let site = target.and_then(|target| Ok((target, self.locate_site(target)?)));
        ban?;
        // For any host: the name that is being proved may have no site for port 80.
        if let Ok(target) = self.target
            && matches!(self.head.method, Method::Get | Method::Head)
            && let Some(answer) = self.worker().shared.challenges.of_path(target.path)
        {
            return Ok(Located::Routeless(Routeless::Challenge(answer)));
        }
        let (target, site) = site?;
        if let Some(response) = self.context.sites.site(site).maintenance.response() {
            return Err(Refusal::for_maintenance(response));
        }
        let ServeContext {
            connection,
            sites,
            client,
            ..
        } = *self.context;
        if sites.tunnels {
            let found = sites.router.route(site, self.head.method_name(), b"/");
            let found = found.map_err(|_| Refusal::because(HttpFault::NotFound, "no route"))?;
            return Ok(Located::Route(LocatedRoute {
                target,
                route: sites.route(found.route),
                pattern: found.pattern,
            }));
        }
        // RFC 9110 §7.4: it must have come by TLS, ours or that of a gateway that is trusted.
        let secure = connection.negotiated.is_some() || client.is_trusted(self.generation());
        if target.secure == Some(true) && !secure {
            let why = "an https URL over a connection without TLS";
            return Err(Refusal::because(HttpFault::Misdirected, why));
        }
        if target.path == b"*" {
            return Ok(Located::Routeless(Routeless::Server));
        }
        self.locate_route(site, target)
    }

    /// The site of the request's host.
    fn locate_site(
        &mut self,
        target: &RequestTarget<'_>,
    ) -> Result<ListenerSiteIndex, Refusal<'s>> {
        let ServeContext {
            connection,
            snapshot,
            sites,
            ..
        } = *self.context;
        if self.head.method == Method::Connect && !sites.tunnels {
            let why = "CONNECT to a site";
            return Err(Refusal::because(HttpFault::NotImplemented, why));
        }
        let secure = connection.negotiated.is_some();
        let name = target.authority.as_ref().map(Authority::name);
        let Some(site) = sites.router.site(name.as_deref()) else {
            let why = "no site has this host";
            return Err(if secure {
                self.misdirected(why)
            } else {
                Refusal::because(HttpFault::NotFound, why)
            });
        };
        self.record.site = Some(site);
        let number = SiteNumber::of(sites.site(site).index.get());
        self.context.guard.watch().site.set(number);
        self.context.cells(site).in_flight.inc();
        if secure && !connection.is_made_by(snapshot, sites.site(site).acceptor_index) {
            let why = "the host has other TLS settings than this connection";
            return Err(self.misdirected(why));
        }
        Ok(site)
    }

    /// Refuses the request of a banned client, and ends a connection that is its own.
    fn check_ban(&self) -> Result<(), Refusal<'s>> {
        let ServeContext {
            connection, client, ..
        } = *self.context;
        let ip = self.record.client.key();
        if !ip.is_some_and(|ip| connection.worker.is_banned(ip)) {
            return Ok(());
        }
        if !client.is_trusted(self.generation()) {
            connection.worker.drain_one(connection.guard.watch());
        }
        Err(Refusal::because(
            HttpFault::Forbidden,
            "the client is banned",
        ))
    }

    /// A request for a site that its connection is not for. Where a reload has made it so, the
    /// connection ends: its client finds out by a new one what it may ask for.
    fn misdirected(&self, why: &'static str) -> Refusal<'s> {
        let ServeContext {
            connection,
            snapshot,
            ..
        } = *self.context;
        if connection.is_of_earlier(snapshot) {
            connection.worker.drain_one(connection.guard.watch());
        }
        Refusal::because(HttpFault::Misdirected, why)
    }

    /// The route of the request's path and method within a site.
    fn locate_route(
        &self,
        site: ListenerSiteIndex,
        target: &'e RequestTarget<'e>,
    ) -> Result<Located<'e, 's>, Refusal<'s>> {
        let (head, sites) = (self.head, self.context.sites);
        let (path, ambiguous) = match decode(target.path) {
            Ok(path) => (merged(path), None),
            Err(error @ TargetError::Ambiguous) => {
                (merged(Cow::Borrowed(target.path)), Some(error))
            }
            Err(error) => return Err(Refusal::malformed(&error)),
        };
        // A preflight is answered by the route of the method that it asks for.
        let wanted = Cors::preflight_method(head).and_then(|method| {
            let found = sites.router.route(site, method, &path).ok()?;
            Some((method, sites.route(found.route).rules.cors.as_ref()?))
        });
        let method = wanted.map_or(head.method_name(), |(method, _)| method);
        let found = sites
            .router
            .route(site, method, &path)
            .map_err(|none| match none {
                NoRoute::Path => Refusal::because(HttpFault::NotFound, "no route has this path"),
                NoRoute::Method { allow } => Refusal::method_not_allowed(allow),
            })?;
        let route = sites.route(found.route);
        let is_same_route = |reading: &[u8]| {
            let read = sites.router.route(site, method, reading);
            read.is_ok_and(|read| read.route == found.route)
        };
        match ambiguous {
            Some(error) if !route.rules.raw_paths => Err(Refusal::malformed(&error)),
            // Also where such paths are let through, no reading may lead to where other rules hold.
            Some(error) if !interpretations(target.path).all(|reading| is_same_route(&reading)) => {
                Err(Refusal::malformed(&error))
            }
            // Some take no notice of what follows a semicolon.
            None if memchr::memchr(b';', &path).is_some()
                && !is_same_route(&without_parameters(&path))
                && !found.pattern.to_string().contains(';') =>
            {
                Err(Refusal::malformed(&TargetError::Ambiguous))
            }
            _ => Ok(match wanted {
                Some((_, cors)) => Located::Routeless(Routeless::Preflight(cors)),
                None => Located::Route(LocatedRoute {
                    target,
                    route,
                    pattern: found.pattern,
                }),
            }),
        }
    }
}

/// The redirect of a request by its route's map, with its status. A path with two readings is not
/// redirected, and none to the URL that was asked for: "/docs/* /docs" must not go round in
/// circles.
pub(super) fn redirect_of<'r>(
    route: &'r Route,
    values: &RequestValues<'_>,
) -> Option<(&'r Template, u16)> {
    let map = route.rules.redirects.as_deref()?;
    let (to, status) = map.find(&merged(decode(values.path).ok()?))?;
    let mut location = Vec::new();
    to.render(values, &mut location);
    // A fragment stays with the client.
    let there = location.split(|&byte| byte == b'#').next()?;
    let same = there
        .strip_prefix(values.path)
        .is_some_and(|rest| match values.query {
            None => rest.is_empty(),
            Some(query) => rest.strip_prefix(b"?") == Some(query),
        });
    (!same).then_some((to, status))
}

/// Merges slashes in a row for decisions by path: origins do so too, and "//admin" must not pass by
/// a rule for "/admin/*".
fn merged(path: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if memchr::memmem::find(&path, b"//").is_none() {
        return path;
    }
    let mut merged = path.into_owned();
    merged.dedup_by(|next, before| *next == b'/' && *before == b'/');
    Cow::Owned(merged)
}
