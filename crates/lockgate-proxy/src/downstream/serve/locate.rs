//! The site and the route of a request: host to site, path and method to route, and no path that
//! could be read as that of another route.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_http::head::{Method, RequestHead};
use lockgate_http::path_interpretations::{interpretations, without_parameters};
use lockgate_http::request_target::RequestTarget;
use lockgate_http::target::{Authority, TargetError, decode};
use lockgate_limits::SiteNumber;
use lockgate_rules::{Cors, Pattern, RequestValues, Template};

use super::refusal::Refusal;
use super::{IncomingRequest, ServeContext};
use crate::error_response::HttpFault;
use crate::route::{ListenerSiteIndex, NoRoute, RouteIndex};
use crate::site::{ListenerSites, Route};

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
    pub(super) index: RouteIndex,
    pub(super) route: &'s Route,
    pub(super) pattern: &'s Pattern,
}

/// The way from a request to its site and route, on a connection of one listener.
#[derive(Clone, Copy)]
pub(super) struct Locator<'s> {
    pub(super) sites: &'s ListenerSites,
    /// Whether the client's connection has TLS.
    pub(super) secure: bool,
}

impl<'s> Locator<'s> {
    /// The site of the request's host.
    pub(super) fn site(
        self,
        method: Method,
        target: &RequestTarget<'_>,
    ) -> Result<ListenerSiteIndex, Refusal<'s>> {
        if method == Method::Connect && !self.sites.tunnels {
            let why = "CONNECT to a site";
            return Err(Refusal::because(HttpFault::NotImplemented, why));
        }
        let name = target.authority.as_ref().map(Authority::name);
        self.sites.router.site(name.as_deref()).ok_or_else(|| {
            let fault = if self.secure {
                HttpFault::Misdirected
            } else {
                HttpFault::NotFound
            };
            Refusal::because(fault, "no site has this host")
        })
    }

    /// The resource of the request within its site. A client that `is_trusted` may have received it
    /// over TLS.
    pub(super) fn resource<'e>(
        self,
        site: ListenerSiteIndex,
        head: &RequestHead,
        target: &'e RequestTarget<'e>,
        is_trusted: impl FnOnce() -> bool,
    ) -> Result<Located<'e, 's>, Refusal<'s>> {
        let sites = self.sites;
        if let Some(response) = sites.site(site).maintenance.response() {
            return Err(Refusal::for_maintenance(response));
        }
        if sites.tunnels {
            let found = sites.router.route(site, head.method_name(), b"/");
            let found = found.map_err(|_| Refusal::because(HttpFault::NotFound, "no route"))?;
            return Ok(Located::Route(LocatedRoute {
                target,
                index: found.route,
                route: sites.route(found.route),
                pattern: found.pattern,
            }));
        }
        // RFC 9110 §7.4: it must have come by TLS, ours or that of a gateway that is trusted.
        if target.secure == Some(true) && !self.secure && !is_trusted() {
            let why = "an https URL over a connection without TLS";
            return Err(Refusal::because(HttpFault::Misdirected, why));
        }
        if target.path == b"*" {
            return Ok(Located::Routeless(Routeless::Server));
        }
        self.route(site, head, target)
    }

    /// The route of the request's path and method within a site.
    fn route<'e>(
        self,
        site: ListenerSiteIndex,
        head: &RequestHead,
        target: &'e RequestTarget<'e>,
    ) -> Result<Located<'e, 's>, Refusal<'s>> {
        let sites = self.sites;
        let (path, ambiguous) = routed_path(target)?;
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
            Some(error) if !route.rules.raw_paths => {
                let why = format!("{error}, and paths = \"strict\" refuses it");
                Err(Refusal::because(HttpFault::Malformed, why))
            }
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
                    index: found.route,
                    route,
                    pattern: found.pattern,
                }),
            }),
        }
    }
}

impl<'e, 's, D> IncomingRequest<'e, 's, D> {
    /// Finds the site and the route of the request.
    pub(super) fn locate(&mut self) -> Result<Located<'e, 's>, Refusal<'s>> {
        // Before every other refusal. The site, if it has one, is for the log.
        let ban = self.check_ban();
        let target = self.target.as_ref();
        let target = target.map_err(|error| Refusal::malformed(error));
        let locator = self.locator();
        let site = target.and_then(|target| Ok((target, self.locate_site(locator, target)?)));
        ban?;
        // For any host: the name that is being proved may have no site for port 80.
        if let Ok(target) = self.target
            && matches!(self.head.method, Method::Get | Method::Head)
            && let Some(answer) = self.worker().shared.challenges.of_path(target.path)
        {
            return Ok(Located::Routeless(Routeless::Challenge(answer)));
        }
        let (target, site) = site?;
        let is_trusted = || self.context.client.is_trusted(self.generation());
        locator.resource(site, self.head, target, is_trusted)
    }

    fn locator(&self) -> Locator<'s> {
        let ServeContext {
            connection, sites, ..
        } = *self.context;
        Locator {
            sites,
            secure: connection.negotiated.is_some(),
        }
    }

    /// The site of the request's host.
    fn locate_site(
        &mut self,
        locator: Locator<'s>,
        target: &RequestTarget<'_>,
    ) -> Result<ListenerSiteIndex, Refusal<'s>> {
        let ServeContext {
            connection,
            snapshot,
            sites,
            ..
        } = *self.context;
        let site = locator.site(self.head.method, target);
        let site = site.inspect_err(|refusal| self.end_if_misdirected(refusal))?;
        self.record.site = Some(site);
        let number = SiteNumber::of(sites.site(site).index.get());
        self.context.guard.watch().site.set(number);
        self.context.cells(site).in_flight.inc();
        if locator.secure && !connection.is_made_by(snapshot, sites.site(site).acceptor_index) {
            let refusal = Refusal::of_other_tls();
            self.end_if_misdirected(&refusal);
            return Err(refusal);
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

    /// Ends the connection after a request for a site that it is not for, where a reload has made
    /// it so: its client finds out by a new one what it may ask for.
    fn end_if_misdirected(&self, refusal: &Refusal<'_>) {
        let ServeContext {
            connection,
            snapshot,
            ..
        } = *self.context;
        if refusal.fault == HttpFault::Misdirected && connection.is_of_earlier(snapshot) {
            connection.worker.drain_one(connection.guard.watch());
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

/// The path that decides about the route, and the error where it has several readings.
pub(super) fn routed_path<'e, 's>(
    target: &RequestTarget<'e>,
) -> Result<(Cow<'e, [u8]>, Option<TargetError>), Refusal<'s>> {
    match decode(target.path) {
        Ok(path) => Ok((merged(path), None)),
        Err(error @ TargetError::Ambiguous) => {
            Ok((merged(Cow::Borrowed(target.path)), Some(error)))
        }
        Err(error) => Err(Refusal::malformed(&error)),
    }
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
