//! Whose a request is: host to site, path and method to route, and no path that could be read as
//! another's.

use std::borrow::Cow;

use lockgate_http::asked::Asked;
use lockgate_http::head::{Method, RequestHead};
use lockgate_http::readings::{readings, without_parameters};
use lockgate_http::target::{self, TargetError};

use crate::answer::Fault;
use crate::downstream::own::Refusal;
use crate::downstream::seen::Seen;
use crate::downstream::serve::Serving;
use crate::route::{NoRoute, Pattern};
use crate::site::Route;
use crate::transform::{Cors, Template, Values};

/// A route that was found.
pub(super) struct Found<'s> {
    pub(super) route: &'s Route,
    pub(super) pattern: &'s Pattern,
    /// What answers a request that only asks whether another may be made.
    pub(super) preflight: Option<&'s Cors>,
}

impl<'s> Serving<'s> {
    /// Which site's it is, and what that does with it; none of its routes where it is about the
    /// server as a whole.
    pub(super) fn find(
        &self,
        head: &RequestHead,
        (asked, name): (&Asked<'_>, Option<&str>),
        seen: &mut Seen<'s>,
    ) -> Result<Option<Found<'s>>, Refusal<'static>> {
        let Serving {
            connection, sites, ..
        } = self;
        let trusted = self.asking.client.is_trusted();
        if head.method == Method::Connect && !sites.tunnels {
            return Err(Refusal::because(Fault::NotImplemented, "CONNECT to a site"));
        }
        let secure = connection.negotiated.is_some();
        let Some(site) = sites.router.site(name) else {
            let fault = if secure {
                Fault::Misdirected
            } else {
                Fault::NotFound
            };
            return Err(Refusal::because(fault, "no site has this host"));
        };
        seen.site = Some(site);
        connection
            .worker
            .cells
            .http
            .site(Some(sites.sites[site].place))
            .in_flight
            .inc();
        if secure && sites.sites[site].tls_rules != connection.rules {
            return Err(Refusal::because(
                Fault::Misdirected,
                "the host has other rules of TLS",
            ));
        }
        if sites.tunnels {
            let nowhere = |_| Refusal::because(Fault::NotFound, "no route");
            let found = sites
                .router
                .route(site, head.method_name(), b"/")
                .map_err(nowhere)?;
            let route = &sites.routes[found.route];
            return Ok(Some(Found {
                route,
                pattern: found.pattern,
                preflight: None,
            }));
        }
        // RFC 9110 §7.4: it must have come by TLS, ours or that of a gateway that is trusted.
        if asked.secure == Some(true) && !secure && !trusted {
            return Err(Refusal::because(Fault::Misdirected, "https without TLS"));
        }
        if asked.path == b"*" {
            return Ok(None);
        }
        let (path, ambiguous) = match target::decode(asked.path) {
            Ok(path) => (merged(path), None),
            Err(TargetError::Ambiguous) => (
                merged(Cow::Borrowed(asked.path)),
                Some(TargetError::Ambiguous),
            ),
            Err(error) => return Err(Refusal::malformed(&error)),
        };
        // Whether a request may be made is said by its own route, be it that of another method.
        let wanted = Cors::wanted(head).and_then(|method| {
            let found = sites.router.route(site, method, &path).ok()?;
            Some((method, sites.routes[found.route].rules.cors.as_ref()?))
        });
        let preflight = wanted.map(|(_, cors)| cors);
        let method = wanted.map_or(head.method_name(), |(method, _)| method);
        let found = sites
            .router
            .route(site, method, &path)
            .map_err(|none| match none {
                NoRoute::Path => Refusal::because(Fault::NotFound, "no route has this path"),
                NoRoute::Method { allow } => Refusal {
                    allow,
                    ..Refusal::of(Fault::MethodNotAllowed)
                },
            })?;
        let route = &sites.routes[found.route];
        let leads_here = |reading: &[u8]| {
            let read = sites.router.route(site, method, reading);
            read.is_ok_and(|read| read.route == found.route)
        };
        match ambiguous {
            Some(error) if !route.rules.raw_paths => Err(Refusal::malformed(&error)),
            // Also where such paths are let through, no reading may lead to where other rules hold.
            Some(error) if !readings(asked.path).all(|reading| leads_here(&reading)) => {
                Err(Refusal::malformed(&error))
            }
            // Some take no notice of what follows a semicolon.
            None if memchr::memchr(b';', &path).is_some()
                && !leads_here(&without_parameters(&path))
                && !found.pattern.to_string().contains(';') =>
            {
                Err(Refusal::malformed(&TargetError::Ambiguous))
            }
            _ => Ok(Some(Found {
                route,
                pattern: found.pattern,
                preflight,
            })),
        }
    }
}

/// Where a request of a route with a map is led, and with which status. A path that has two
/// readings leads nowhere, and nothing to where it was asked for: "/docs/* /docs" must not go round
/// in circles.
pub(super) fn moved<'r>(route: &'r Route, values: &Values<'_>) -> Option<(&'r Template, u16)> {
    let map = route.rules.redirects.as_deref()?;
    let (to, status) = map.find(&merged(target::decode(values.path).ok()?))?;
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

/// Slashes in a row are one for whoever decides by paths: origins take them so, and "//admin" must
/// not pass by a rule for "/admin/*".
fn merged(path: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if memchr::memmem::find(&path, b"//").is_none() {
        return path;
    }
    let mut merged = path.into_owned();
    merged.dedup_by(|next, before| *next == b'/' && *before == b'/');
    Cow::Owned(merged)
}
