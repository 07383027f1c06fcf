//! What a level adds to the route that answers its requests.

use super::access::add_access;
use super::fields::add_fields;
use super::route::NginxRoute;
use super::scope::NginxScope;
use super::shared::NginxSite;
use crate::DraftValue;

/// Access, fields and what else modifies a route.
pub(super) fn finish<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    add_access(site, scope, route);
    add_fields(site, scope, route);
    if matches!(route.get("respond"), Some(DraftValue::Number(501))) {
        route.remove("cache");
    }
}
