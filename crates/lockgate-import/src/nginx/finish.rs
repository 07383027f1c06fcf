//! What a level adds to the route that answers its requests.

use super::access::{add_access, add_closing};
use super::fields::add_fields;
use super::route::{NginxAction, NginxRoute};
use super::scope::NginxScope;
use super::shared::NginxSite;
use crate::{DraftValue, Verdict};

/// The rules that nginx asks after `return` and `rewrite`.
const RULES: &[&str] = &[
    "allow",
    "deny",
    "satisfy",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "auth_request_set",
    "limit_req",
];

/// Whether `return` or a `rewrite` that redirects answers, before access is asked.
fn answers_first(scope: &NginxScope<'_>, route: &NginxRoute) -> bool {
    let returns = !scope.own("return").is_empty() && scope.own("internal").is_empty();
    match route.action {
        NginxAction::Redirect => true,
        NginxAction::Respond => returns && route.get("respond") != Some(&DraftValue::Number(501)),
        _ => false,
    }
}

/// Access, fields and what else modifies a route.
pub(super) fn finish<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    if answers_first(scope, route) {
        add_closing(site, scope, route);
        for name in RULES {
            for rule in scope.own(name) {
                site.verdicts().differs(
                    rule,
                    "it has no effect: nginx answers with `return` or `rewrite` before it asks the rules of access, and so does this route",
                );
            }
            for rule in scope.nearest(name) {
                site.verdicts().rest(rule, &Verdict::Default);
            }
        }
    } else {
        add_access(site, scope, route);
    }
    add_fields(site, scope, route);
    if route.action == NginxAction::Files && route.get("cache").is_none() {
        site.verdicts().note(
            "Browsers revalidate files without `cache` each time (no-cache); nginx leaves it to them: cache = false does that.",
        );
    }
    if matches!(route.get("respond"), Some(DraftValue::Number(501))) {
        route.remove("cache");
    }
}
