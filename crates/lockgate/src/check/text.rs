//! The settings of each listener as text.

use std::time::Duration;

use serde_json::Value;

use super::units;
use crate::print::out;

/// The versions, suites and groups that were printed, with their listener: they are long, and
/// mostly the same everywhere.
#[derive(Default)]
struct ShownPolicies<'a>(Vec<([&'a Value; 3], &'a str)>);

impl<'a> ShownPolicies<'a> {
    /// The listener where the policy of `tls` was printed before; `None` where `listener` is the
    /// first.
    fn shown(&mut self, tls: &'a Value, listener: &'a Value) -> Option<&'a str> {
        let policy = [&tls["versions"], &tls["suites"], &tls["groups"]];
        let known = self
            .0
            .iter()
            .find(|(known, _)| *known == policy)
            .map(|(_, listener)| *listener);
        if known.is_none() {
            self.0.push((policy, text(&listener["listener"])));
        }
        known
    }
}

/// Prints the description of every listener.
pub(super) fn print(served: &Value) {
    let mut policies = ShownPolicies::default();
    for listener in served.as_array().into_iter().flatten() {
        out!("{}", text(&listener["listener"]));
        let is_tunnel = listener["tunnels"].is_object();
        let has_sites = !listener["sites"].is_null();
        let by_hello = listener["by_hello"].as_array();
        by_hello
            .into_iter()
            .flatten()
            .for_each(|one| way(one, listener, &mut policies));
        if let (Some(_), true) = (by_hello, has_sites) {
            out!("  for sites:");
        }
        match (listener["tls"].is_object(), by_hello, has_sites) {
            (true, _, _) => tls(&listener["tls"], listener, &mut policies),
            (false, Some(_), _) => {}
            (false, None, false) if !is_tunnel => out!("  no TLS       relayed bytes"),
            (false, None, _) => out!("  no TLS       {}", plain(&listener["plain"])),
        }
        let others = listener["other_tls"].as_array().into_iter().flatten();
        for (rules, other) in (1..).zip(others) {
            out!("  for {}:", hosts_by(listener, rules));
            tls(other, listener, &mut policies);
        }
        match (has_sites, by_hello) {
            (true, _) => sites(listener),
            (false, None) if is_tunnel => tunnels(listener),
            (false, None) => relay(listener),
            (false, Some(ways)) => {
                if !ways.iter().any(|way| way["name"] == "*") {
                    out!("  other names  refused");
                }
                accept_proxy(listener);
                shaped(listener);
                timeouts(listener);
            }
        }
    }
}

/// Prints the programs that figures or spans are pushed to.
pub(super) fn print_exported(exported: &[Value]) {
    for one in exported {
        if one["spans"] == true {
            out!("export       {}, spans", text(&one["sink"]));
            continue;
        }
        let every = Duration::from_secs_f64(one["every"].as_f64().unwrap_or_default());
        let every = units::duration(every);
        out!("export       {}, every {every}", text(&one["sink"]));
    }
}

/// The relay that a protocol or name of a ClientHello leads to.
fn way<'a>(way: &'a Value, listener: &'a Value, policies: &mut ShownPolicies<'a>) {
    let header = way["proxy_protocol"]
        .as_str()
        .map(|version| format!(", PROXY {version}"))
        .unwrap_or_default();
    let to = format!("{}{header}", pool(way));
    let how = if way["tls"].is_object() {
        "TLS terminated, to"
    } else {
        "TLS passed through, to"
    };
    match (way["alpn"].as_str(), text(&way["name"])) {
        (Some(protocol), _) => out!("  protocol     {protocol}: {how} {to}"),
        (None, "*") => out!("  other names  {how} {to}"),
        (None, name) => out!("  name         {name}: {how} {to}"),
    }
    if way["tls"].is_object() {
        tls(&way["tls"], listener, policies);
    }
}

fn hosts_by(listener: &Value, rules: u64) -> String {
    let sites = listener["sites"].as_array().into_iter().flatten();
    let hosts = sites
        .filter(|site| site["tls_rules"] == rules)
        .map(|site| join(&site["hosts"]));
    hosts.collect::<Vec<_>>().join(", ")
}

/// The protocols without TLS.
fn plain(protocols: &Value) -> &'static str {
    let has = |name: &str| {
        protocols
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == name))
    };
    match (has("http1"), has("h2c")) {
        (true, true) => "HTTP/1.1, and HTTP/2 by prior knowledge",
        (false, true) => "HTTP/2 by prior knowledge",
        _ => "HTTP/1.1",
    }
}

fn tls<'a>(tls: &'a Value, listener: &'a Value, policies: &mut ShownPolicies<'a>) {
    let versions = join(&tls["versions"]);
    match policies.shown(tls, listener) {
        Some(other) if other == text(&listener["listener"]) => out!("  TLS          {versions}"),
        Some(other) => out!("  TLS          {versions}, suites and groups as at {other}"),
        None => {
            out!("  TLS          {versions}");
            out!("  suites       {}", join(&tls["suites"]));
            out!("  groups       {}", join(&tls["groups"]));
        }
    }
    out!(
        "  ALPN         {}",
        or(&join(&tls["alpn"]), "none, offers of clients are ignored")
    );
    if let Some(mode) = tls["client_certificates"].as_str() {
        out!("  client certs {mode}");
    }
    for certificate in tls["certificates"].as_array().into_iter().flatten() {
        let default = if certificate["default"] == true {
            ", default"
        } else {
            ""
        };
        let (names, key) = (join(&certificate["names"]), text(&certificate["key"]));
        out!(
            "  certificate  {} ({key}, {} days left{default})",
            or(&names, "no DNS name"),
            certificate["days_left"]
        );
        out!("               {}", text(&certificate["path"]));
    }
}

fn relay(listener: &Value) {
    out!("  to           {}", pool(listener));
    if let Some(version) = listener["proxy_protocol"].as_str() {
        out!("  PROXY        {version} to the endpoints");
    }
    accept_proxy(listener);
    shaped(listener);
    timeouts(listener);
}

fn shaped(listener: &Value) {
    if let Some(shape) = listener["shape"].as_str() {
        out!("  shaped       {shape}");
    }
}

fn timeouts(listener: &Value) {
    let limits = &listener["timeouts"];
    out!(
        "  timeouts     handshake {}, connect {}, idle {}",
        seconds(&limits["handshake"]),
        seconds(&limits["connect"]),
        seconds(&limits["tunnel_idle"])
    );
}

fn tunnels(listener: &Value) {
    let tunnels = &listener["tunnels"];
    out!(
        "  tunnels for  {}",
        or(&join(&tunnels["clients"]), "all clients")
    );
    if let Some(file) = tunnels["users"].as_str() {
        out!("  password     {file}");
    }
    out!("  to           {}", join(&tunnels["allow"]));
    let deny = join(&tunnels["deny"]);
    if !deny.is_empty() {
        out!("  not to       {deny}");
    }
    if let Some(shape) = tunnels["shape"].as_str() {
        out!("  shaped       {shape}");
    }
    out!(
        "  addresses    {}",
        if tunnels["private"] == true {
            "all"
        } else {
            "public, and private networks that are allowed above"
        }
    );
    if tunnels["forward"] == true {
        out!("  forwards     requests for http:");
    }
    let limits = [
        tunnels["limit"].as_str().map(str::to_owned),
        tunnels["max_per_client"]
            .as_u64()
            .map(|most| format!("{most} tunnels per client")),
        tunnels["max_per_user"]
            .as_u64()
            .map(|most| format!("{most} tunnels per user")),
        tunnels["max_lifetime"]
            .as_f64()
            .map(|_| seconds(&tunnels["max_lifetime"])),
        tunnels["max_bytes"].as_u64().map(units::size),
    ];
    let limits: Vec<_> = limits.into_iter().flatten().collect();
    if !limits.is_empty() {
        out!("  at most      {}", limits.join(", "));
    }
    if let Some(version) = tunnels["proxy_protocol"].as_str() {
        out!("  PROXY        {version} to the targets");
    }
    accept_proxy(listener);
    let timeouts = &listener["timeouts"];
    out!(
        "  timeouts     handshake {}, connect {}, idle {}; names for {}",
        seconds(&timeouts["handshake"]),
        seconds(&timeouts["connect"]),
        seconds(&timeouts["tunnel_idle"]),
        seconds(&tunnels["dns_ttl"])
    );
}

fn accept_proxy(listener: &Value) {
    if listener["accept_proxy"] != "never" {
        out!(
            "  PROXY        {} from clients",
            text(&listener["accept_proxy"])
        );
    }
}

fn sites(listener: &Value) {
    accept_proxy(listener);
    let limits = &listener["timeouts"];
    out!(
        "  timeouts     handshake {}, head {}, idle {}",
        seconds(&limits["handshake"]),
        seconds(&limits["head"]),
        seconds(&limits["idle"])
    );
    for site in listener["sites"].as_array().into_iter().flatten() {
        let hosts = join(&site["hosts"]);
        out!(
            "  host         {}",
            if hosts == "*" { "any" } else { &hosts }
        );
        let routes: Vec<_> = site["routes"].as_array().into_iter().flatten().collect();
        let width = routes
            .iter()
            .map(|route| matches(route).chars().count())
            .max()
            .unwrap_or(0);
        for route in routes {
            let modifiers = join(&route["modifiers"]);
            let modifiers = if modifiers.is_empty() {
                modifiers
            } else {
                format!(" · {modifiers}")
            };
            out!(
                "    {:width$}  {}{modifiers}",
                matches(route),
                action(route)
            );
        }
    }
}

/// The method and path of a route, as in the configuration.
fn matches(route: &Value) -> String {
    let path = text(&route["path"]);
    route["method"]
        .as_str()
        .map_or_else(|| path.to_owned(), |method| format!("{method} {path}"))
}

fn action(route: &Value) -> String {
    match text(&route["action"]) {
        "proxy" => format!("to {}", pool(route)),
        "files" => {
            let listing = if route["listing"] == true {
                ", folders listed"
            } else {
                ""
            };
            format!("files of {}{listing}", text(&route["root"]))
        }
        "redirect" => format!(
            "redirected to {} with {}",
            text(&route["to"]),
            route["status"]
        ),
        _ => format!("responds with {}", route["status"]),
    }
}

/// The endpoints of a pool, and how they are chosen and checked where that is not the default.
pub(crate) fn pool(to: &Value) -> String {
    let over = match text(&to["endpoint_protocol"]) {
        "h2" => " over HTTP/2 and TLS",
        "h2c" => " over HTTP/2",
        _ if to["endpoint_tls"] == true => " over TLS",
        _ => "",
    };
    let name = to["pool"]
        .as_str()
        .map(|name| format!(" (pool {name})"))
        .unwrap_or_default();
    let check = to["check"]
        .as_str()
        .map(|check| format!("checked by {check}"));
    let rest = to["balance"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let rest: String = rest
        .map(str::to_owned)
        .chain(check)
        .map(|said| format!(", {said}"))
        .collect();
    let members: Vec<_> = to["members"]
        .as_array()
        .into_iter()
        .flatten()
        .map(member)
        .collect();
    format!("{}{over}{name}{rest}", members.join(", "))
}

/// An endpoint with its own settings.
fn member(member: &Value) -> String {
    let own = [
        member["weight"]
            .as_u64()
            .filter(|weight| *weight != 1)
            .map(|weight| format!("weight {weight}")),
        member["max"].as_u64().map(|max| format!("max {max}")),
        (member["backup"] == true).then(|| "backup".to_owned()),
    ];
    let own: Vec<_> = own.into_iter().flatten().collect();
    let addr = text(&member["addr"]);
    if own.is_empty() {
        addr.to_owned()
    } else {
        format!("{addr} ({})", own.join(", "))
    }
}

/// A number of seconds as a duration.
fn seconds(value: &Value) -> String {
    units::duration(
        Duration::try_from_secs_f64(value.as_f64().unwrap_or_default()).unwrap_or_default(),
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn join(list: &Value) -> String {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_endpoint_is_shown_with_what_is_spoken_to_it() {
        let shown = |protocol: &str, tls: bool| {
            action(&json!({
                "action": "proxy", "members": [{ "addr": "a.b:1", "weight": 1 }], "endpoint_tls": tls, "endpoint_protocol": protocol,
            }))
        };
        assert_eq!(shown("http1", false), "to a.b:1");
        assert_eq!(shown("http1", true), "to a.b:1 over TLS");
        assert_eq!(shown("h2", true), "to a.b:1 over HTTP/2 and TLS");
        assert_eq!(shown("h2c", false), "to a.b:1 over HTTP/2");
    }
}
