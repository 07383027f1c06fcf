//! Access to a route: allow and deny, passwords, services that are asked, and rate limits.

use std::collections::BTreeSet;

use super::known::{CLOSING, is_known};
use super::proxy::proxy_target;
use super::route::{NginxRoute, inline, place_of};
use super::scope::{NginxPart, NginxScope, parts_of};
use super::shared::NginxSite;
use super::syntax::NginxDirective;
use super::values::NginxNetwork;
use crate::draft::EVERY_CLIENT;
use crate::{DraftValue, Verdict};

/// The most pairs of an allowed and a denied network that are compared.
const MOST_PAIRS: usize = 4_000_000;

/// Closes a route for the rules in a scope that have no counterpart.
pub(super) fn add_closing<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    route: &mut NginxRoute,
) {
    let verdicts = site.verdicts();
    for name in CLOSING {
        for directive in scope.nearest(name) {
            if matches!(directive.arg(0), "off") {
                verdicts.default(directive);
                continue;
            }
            let because = "Lockgate has no such rule: the route refuses all clients until another rule protects it";
            verdicts.rest(directive, &Verdict::not_supported(because, None));
            route
                .closed
                .push(format!("{}: {}", place_of(directive), directive.name));
        }
    }
    for level in &scope.levels {
        let mut names: Vec<&str> = level.keys().copied().collect();
        names.retain(|name| !is_known(name));
        names.sort_unstable();
        for directive in names.iter().filter_map(|name| level.get(name)?.first()) {
            verdicts.refuse(
                directive,
                "this statement is not known and may restrict the clients: the routes that it is about refuse all clients",
                None,
            );
            route
                .closed
                .push(format!("{}: {}", place_of(directive), directive.name));
        }
    }
}

/// Adds the rules of access that hold in a scope.
pub(super) fn add_access<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    route: &mut NginxRoute,
) {
    let verdicts = site.verdicts();
    add_closing(site, scope, route);
    networks(site, scope, route);
    password(site, scope, route);
    service(site, scope, route);
    if let Some(satisfy) = scope.last("satisfy") {
        let both = (route.get("allow").is_some() || route.get("deny").is_some())
            && route.get("auth").is_some();
        if satisfy.arg(0) == "any" && both {
            verdicts.differs(
                satisfy,
                "a client must pass both the networks and the password, not one of them",
            );
        } else {
            verdicts.default(satisfy);
        }
    }
    limit(site, scope, route);
}

/// `deny = ["0.0.0.0/0", "::/0"]`
pub(super) fn everyone() -> DraftValue {
    EVERY_CLIENT.to_vec().into()
}

/// `allow` and `deny`: the first that matches decides in nginx; here `deny` wins over `allow`.
fn networks<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    // Both are inherited together: a level with one of them hides all of those above it.
    let Some(level) = scope
        .levels
        .iter()
        .rev()
        .find(|level| level.contains_key("allow") || level.contains_key("deny"))
    else {
        return;
    };
    // Without it, the client of these rules would be the proxy in front.
    let real = scope.nearest("set_real_ip_from");
    let at_http = scope
        .levels
        .first()
        .is_some_and(|level| level.contains_key("set_real_ip_from"));
    let own = scope
        .levels
        .iter()
        .skip(1)
        .any(|level| level.contains_key("set_real_ip_from"));
    if let Some(first) = real.first()
        && (own || at_http && !site.shared.real_ip)
    {
        route
            .closed
            .push(format!("{}: set_real_ip_from", place_of(first)));
        verdicts.refuse(
            first,
            "the client's address is not known by it here: routes with `allow` or `deny` refuse all clients",
            Some("write trusted = [\"10.0.0.0/8\"] at the top"),
        );
    }
    let mut rules: Vec<(bool, &NginxDirective)> = Vec::new();
    for (allows, name) in [(true, "allow"), (false, "deny")] {
        for directive in level.get(name).into_iter().flatten() {
            rules.push((allows, directive));
        }
    }
    rules.sort_by_key(|(_, directive)| directive.id);
    let allows = rules.iter().filter(|(allows, _)| *allows).count();
    if allows.saturating_mul(rules.len() - allows) > MOST_PAIRS {
        for (_, directive) in &rules {
            verdicts.refuse(
                directive,
                "too many networks are allowed and denied at once to tell which wins",
                None,
            );
        }
        route.closed.push("allow and deny".to_owned());
        return;
    }
    let mut allow: Vec<(NginxNetwork, &NginxDirective)> = Vec::new();
    let mut deny: Vec<(NginxNetwork, &NginxDirective)> = Vec::new();
    let mut last = None;
    for (allows, directive) in &rules {
        if last.is_some() {
            verdicts.default(directive); // a rule for all clients stands before it
            continue;
        }
        match directive.arg(0) {
            "all" => {
                last = Some(*allows);
                verdicts.converted(directive);
            }
            "unix:" => {
                verdicts.differs(directive, "clients on Unix sockets have no address here");
            }
            text => match NginxNetwork::parse(text) {
                None if *allows => verdicts.refuse(
                    directive,
                    "this is no network: those clients are not let in",
                    Some("write the network in `allow`"),
                ),
                None => {
                    verdicts.refuse(
                        directive,
                        "this is no network: the route refuses all clients until it is written in `deny`",
                        None,
                    );
                    route.closed.push(format!("{}: deny", place_of(directive)));
                }
                Some(network) if *allows => {
                    verdicts.converted(directive);
                    allow.push((network, directive));
                }
                Some(network) => {
                    if allow.iter().any(|(known, _)| known.overlaps(network)) {
                        verdicts.differs(
                            directive,
                            "it also refuses the clients that an `allow` before it lets in: here `deny` wins",
                        );
                    } else {
                        verdicts.converted(directive);
                    }
                    deny.push((network, directive));
                }
            },
        }
    }
    let texts = |list: &[(NginxNetwork, &NginxDirective)]| -> DraftValue {
        let mut seen = BTreeSet::new();
        let texts = list.iter().map(|(network, _)| network.text());
        texts
            .filter(|text| seen.insert(text.clone()))
            .collect::<Vec<_>>()
            .into()
    };
    if last == Some(false) {
        if allow.is_empty() {
            route.set("deny", everyone());
            return;
        }
        route.set("allow", texts(&allow));
        // The rest is refused anyway.
        deny.retain(|(network, _)| allow.iter().any(|(known, _)| known.overlaps(*network)));
    }
    if !deny.is_empty() {
        route.set("deny", texts(&deny));
    }
}

fn password<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    let Some(basic) = scope.last("auth_basic") else {
        return;
    };
    if basic.arg(0) == "off" {
        verdicts.converted(basic);
        return;
    }
    let file = scope.last("auth_basic_user_file");
    match file {
        Some(file) if !file.arg(0).is_empty() && !file.arg(0).contains('$') => {
            let mut auth = vec![("basic", DraftValue::from(file.arg(0)))];
            let realm = scope.fold(basic.arg(0), verdicts);
            if realm.contains('$') {
                verdicts.differs(basic, "the realm is \"restricted\"");
            } else {
                verdicts.converted(basic);
                if realm != "restricted" {
                    auth.push(("realm", realm.into()));
                }
            }
            route.set("auth", inline(auth));
            let anew = "`htpasswd -B` or `openssl passwd -6` makes new ones";
            match site.shared.users.weak(file.arg(0)) {
                Some(names) if names.is_empty() => verdicts.converted(file),
                Some(names) => {
                    let names = names.join(", ");
                    verdicts.differs(
                        file,
                        format!("Lockgate takes bcrypt, SHA-crypt and argon2id, and refuses the hashes of {names}: {anew}"),
                    );
                    route.comment_key("auth", &format!("needs new hashes for: {names}"));
                }
                None => {
                    verdicts.converted(file);
                    route.comment_key(
                        "auth",
                        &format!("hashes of MD5, SHA-1 and DES are refused: {anew}"),
                    );
                }
            }
        }
        _ => {
            let because = "the file of users is not known: the route refuses all clients until `auth` names it";
            verdicts.refuse(basic, because, None);
            if let Some(file) = file {
                verdicts.refuse(file, because, None);
            }
            route
                .closed
                .push(format!("{}: auth_basic", place_of(basic)));
        }
    }
}

fn service<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    let Some(request) = scope.last("auth_request") else {
        return;
    };
    if request.arg(0) == "off" {
        verdicts.converted(request);
        return;
    }
    let path = request.arg(0);
    let found = site.location_of(path).and_then(|(inner, _)| {
        let pass = inner.own("proxy_pass").last().copied()?;
        let target = proxy_target(site, inner, pass)?;
        Some((pass, target))
    });
    let both = route.get("auth").is_some();
    let Some((pass, target)) = found.filter(|(_, target)| !target.tls && !both) else {
        verdicts.refuse(
            request,
            "the service that it asks is not known here: the route refuses all clients until `auth.forward` names it",
            Some("write auth = { forward = \"127.0.0.1:4181\", path = \"/verify\" }"),
        );
        route
            .closed
            .push(format!("{}: auth_request", place_of(request)));
        return;
    };
    verdicts.converted(pass);
    verdicts.differs(
        request,
        "an answer other than 2xx goes to the client as it is, and the service gets the request's address as X-Forwarded-Uri",
    );
    let mut auth = vec![("forward", target.endpoint)];
    let asked = target.uri.unwrap_or_else(|| path.to_owned());
    if asked != "/" {
        auth.push(("path", asked.into()));
    }
    let mut copy: Vec<String> = Vec::new();
    for set in scope.nearest("auth_request_set") {
        let variable = set.arg(0).trim_start_matches('$');
        let field = set.arg(1).strip_prefix("$upstream_http_");
        let sent = scope
            .nearest("proxy_set_header")
            .iter()
            .find(|header| parts_of(header.arg(1)) == [NginxPart::Variable(variable)]);
        match (field, sent) {
            (Some(field), Some(header))
                if header.arg(0).to_ascii_lowercase().replace('-', "_") == field =>
            {
                verdicts.converted(set);
                copy.push(header.arg(0).to_ascii_lowercase());
            }
            (Some(_), Some(_)) => verdicts.refuse(
                set,
                "a field of the answer keeps its name",
                Some("write its name in `auth.copy`"),
            ),
            _ => verdicts.refuse(set, "nothing here uses this variable", None),
        }
    }
    if !copy.is_empty() {
        auth.push(("copy", copy.into()));
    }
    route.set("auth", inline(auth));
}

/// `limit_req`: one rate for a route.
fn limit<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    for (index, directive) in scope.nearest("limit_req").iter().enumerate() {
        let value = |name: &str| {
            directive
                .args
                .iter()
                .find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
        };
        if index > 0 {
            verdicts.refuse(directive, "a route has one limit", None);
            continue;
        }
        let Some((zone, uses)) = value("zone").and_then(|zone| site.shared.zones.get(zone)) else {
            verdicts.refuse(directive, "its zone is not known here", None);
            continue;
        };
        uses.set(uses.get() + 1);
        let rate = zone
            .args
            .iter()
            .find_map(|arg| arg.strip_prefix("rate="))
            .and_then(|rate| {
                let (number, unit) = rate.split_once("r/")?;
                let number: u32 = number.parse().ok().filter(|n| *n > 0)?;
                matches!(unit, "s" | "m").then(|| format!("{number}/{unit}"))
            });
        let per = match zone.arg(0) {
            "$binary_remote_addr" | "$remote_addr" => Some("client".to_owned()),
            "$server_name" | "$host" => Some("route".to_owned()),
            key => key
                .strip_prefix("$http_")
                .map(|name| format!("header:{}", name.replace('_', "-"))),
        };
        let (Some(rate), Some(per)) = (rate, per) else {
            verdicts.refuse(zone, "requests are counted by client, field or route", None);
            verdicts.refuse(directive, "its zone has no counterpart", None);
            continue;
        };
        let burst = value("burst").and_then(|b| b.parse().ok()).unwrap_or(0_i64) + 1;
        let mut keys = vec![("rate", DraftValue::from(rate))];
        if per != "client" {
            keys.push(("per", per.clone().into()));
        }
        keys.push(("burst", burst.min(1_000_000).into()));
        match scope.last("limit_req_status") {
            Some(status) => {
                verdicts.converted(status);
                if let Ok(number) = status.arg(0).parse::<i64>()
                    && number != 429
                {
                    keys.push(("status", number.into()));
                }
            }
            None => keys.push(("status", 503_i64.into())),
        }
        route.set("limit", inline(keys));
        let delays = !directive.args.iter().any(|arg| arg == "nodelay") && burst > 1;
        if uses.get() > 1 && per == "client" {
            verdicts.differs(
                zone,
                "routes that share the zone count their requests apart, unless they inherit the limit of their site",
            );
        } else if per == "route" {
            verdicts.differs(zone, "all requests of the route count together");
        } else {
            verdicts.converted(zone);
        }
        if delays {
            verdicts.differs(
                directive,
                "requests within the burst are served at once, not delayed",
            );
        } else {
            verdicts.converted(directive);
        }
    }
}
