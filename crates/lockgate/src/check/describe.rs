//! The settings of each listener as one JSON value, which both outputs are made of.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use lockgate_config::{
    AuthMethod, Config, DownstreamTls, EndpointChoice, EndpointPool, Export, HostedSite, Probe,
    RelayDestination, RelaySelection, RouteAction, RouteModifiers, SharedSetting, SiteRoute, Tcp,
    TunnelListener, WeightedEndpoint, rates_shown,
};
use lockgate_net::tls::{Acceptor, AcceptorIndex, Acceptors};
use lockgate_proxy::downstream::ListenerService;
use lockgate_proxy::site;
use lockgate_rules::{
    AcceptProxy, Directions, Eject, FixedResponse, HashKey, HostPattern, LimitScope, Pattern,
    ProxyVersion, RateLimit, SentHeader, ShapeRates, TargetRewrite, TargetRule,
};
use serde_json::{Value, json};

use super::units;
use crate::assemble::{self, Assembly, PlannedListener};

/// Every listener, in the order of the assembly.
pub(super) fn listeners(config: &Config, assembly: &Assembly) -> Value {
    let (mut relays, mut tunnels) = (config.tcp.iter(), config.tunnels.iter());
    let listeners =
        assembly
            .listeners
            .iter()
            .filter_map(|planned| match &planned.listener.service {
                ListenerService::Relay(_) | ListenerService::Sni(_) => {
                    Some(tcp(config, relays.next()?, planned))
                }
                ListenerService::Http(sites) if sites.tunnels => {
                    Some(tunnel(tunnels.next()?, planned))
                }
                ListenerService::Http(sites) => Some(served(config, sites, planned)),
            });
    listeners.collect()
}

/// Every program that figures or spans are pushed to.
pub(super) fn exported(export: &Export) -> Vec<Value> {
    let sinks = export.sinks.iter();
    let figures = sinks.map(|sink| json!({ "sink": sink.name, "every": sink.every.as_secs_f64() }));
    let traces = export.traces.iter();
    figures
        .chain(traces.map(|traces| json!({ "sink": traces.name, "spans": true })))
        .collect()
}

/// A listener of a `[tcp]` table.
fn tcp(config: &Config, tcp: &Tcp, planned: &PlannedListener) -> Value {
    let mut described = match planned.listener.sites() {
        None => json!({ "listener": tcp.name, "accept_proxy": tcp.accept_proxy.name() }),
        Some(sites) => served(config, sites, planned),
    };
    let more = match (&tcp.way, &planned.listener.service) {
        (RelaySelection::Hello(written), ListenerService::Sni(by_hello)) => {
            let asked = written.alpn.iter().map(|(name, _)| json!({ "alpn": name }));
            let asked = asked.chain(
                written
                    .sni
                    .iter()
                    .map(|(name, _)| json!({ "name": name.to_string() })),
            );
            let asked = asked.chain(written.default.iter().map(|_| json!({ "name": "*" })));
            let routes = tcp.relays().into_iter().zip(by_hello.routes()).zip(asked);
            let routes = routes.map(|((written, route), asked)| {
                merged(relay(config, written, route.tls.as_ref()), asked)
            });
            json!({ "by_hello": routes.collect::<Vec<_>>() })
        }
        (RelaySelection::Proxy(written), _) => {
            relay(config, written, planned.listener.tls.as_ref())
        }
        (RelaySelection::Hello(_), _) => Value::Null,
    };
    described = merged(described, more);
    let timeouts = json!({
        "handshake": tcp.timeouts.handshake.as_secs_f64(),
        "connect": tcp.timeouts.connect.as_secs_f64(),
        "tunnel_idle": tcp.timeouts.tunnel_idle.as_secs_f64(),
    });
    described["shape"] = json!(tcp.shape.as_ref().map(|one| shape(one, " a connection")));
    described["timeouts"] = merged(described["timeouts"].take(), timeouts);
    described
}

/// All fields of both.
fn merged(one: Value, other: Value) -> Value {
    let fields = |value| {
        if let Value::Object(fields) = value {
            fields
        } else {
            serde_json::Map::new()
        }
    };
    fields(one).into_iter().chain(fields(other)).collect()
}

fn relay(config: &Config, written: &RelayDestination, acceptors: Option<&Acceptors>) -> Value {
    let acceptor = acceptors.into_iter().flat_map(Acceptors::all).next();
    let relayed = json!({
        "tls": acceptor.zip(written.tls.as_ref()).map(|(acceptor, written)| tls(written, acceptor)),
        "proxy_protocol": written.proxy_protocol.map(SentHeader::name),
    });
    merged(
        relayed,
        config
            .pools
            .get(written.pool)
            .map_or(Value::Null, |known| pool(known)),
    )
}

fn tunnel(tunnel: &TunnelListener, planned: &PlannedListener) -> Value {
    let acceptor = planned.listener.tls.iter().flat_map(Acceptors::all).next();
    let targets = |rules: &[TargetRule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "listener": tunnel.name,
        "tls": acceptor.zip(tunnel.tls.as_ref()).map(|(acceptor, written)| tls(written, acceptor)),
        "plain": planned.plain.iter().map(|protocol| protocol.name()).collect::<Vec<_>>(),
        "accept_proxy": tunnel.accept_proxy.name(),
        "tunnels": {
            "clients": tunnel.clients.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "users": tunnel.auth.as_ref().map(|auth| auth.file.display().to_string()),
            "allow": targets(&tunnel.allow),
            "deny": targets(&tunnel.deny),
            "private": tunnel.private,
            "forward": tunnel.forward,
            "limit": tunnel.limit.as_ref().map(limit),
            "max_per_client": tunnel.max_per_client,
            "max_per_user": tunnel.max_per_user,
            "max_lifetime": tunnel.max_lifetime.map(|limit| limit.as_secs_f64()),
            "max_bytes": tunnel.max_bytes,
            "shape": tunnel.shape.as_ref().map(|one| shape(one, " a tunnel")),
            "proxy_protocol": tunnel.proxy_protocol.map(ProxyVersion::name),
            "dns_ttl": tunnel.dns_ttl.as_secs_f64(),
        },
        "timeouts": {
            "handshake": tunnel.timeouts.handshake.as_secs_f64(),
            "connect": tunnel.timeouts.connect.as_secs_f64(),
            "tunnel_idle": tunnel.timeouts.tunnel_idle.as_secs_f64(),
        },
    })
}

/// A listener of sites. Where its sites have different TLS settings, each site has the index of its
/// own.
fn served(config: &Config, sites: &site::ListenerSites, planned: &PlannedListener) -> Value {
    let written = |one: &site::Site| config.sites.get(one.index.get());
    let groups = planned
        .listener
        .tls_of_sites()
        .map(Acceptors::all)
        .unwrap_or_default();
    let tls = AcceptorIndex::enumerate(groups).filter_map(|(place, acceptor)| {
        let of_group = sites.sites.iter().find(|one| one.acceptor_index == place)?;
        Some(tls(written(of_group)?.tls.as_ref()?, acceptor))
    });
    let mut tls: Vec<Value> = tls.collect();
    let first = if tls.is_empty() {
        Value::Null
    } else {
        tls.remove(0)
    };
    // All sites on one address have the same.
    let accept_proxy = sites
        .sites
        .first()
        .and_then(written)
        .map(|site| site.accept_proxy);
    let described = sites
        .sites
        .iter()
        .filter_map(|one| Some(site(config, written(one)?, one, planned)));
    json!({
        "listener": planned.listener.name,
        "tls": first,
        "other_tls": tls,
        "plain": planned.plain.iter().map(|protocol| protocol.name()).collect::<Vec<_>>(),
        "accept_proxy": accept_proxy.map(AcceptProxy::name),
        "sites": described.collect::<Vec<_>>(),
        "timeouts": {
            "handshake": planned.listener.handshake.as_secs_f64(),
            "head": sites.head.as_secs_f64(),
            "idle": sites.idle.as_secs_f64(),
        },
    })
}

fn site(
    config: &Config,
    written: &HostedSite,
    one: &site::Site,
    planned: &PlannedListener,
) -> Value {
    let secure = planned.listener.tls_of_sites().is_some();
    let is_here = |at: &&lockgate_config::SiteListener| {
        at.secure == secure && assemble::address(&at.addr) == planned.address
    };
    // Redirected hosts, without those that another site serves here.
    let redirects = written
        .listen
        .iter()
        .find(is_here)
        .is_some_and(|at| at.redirects);
    let serves = |site: &HostedSite, host: &HostPattern| {
        site.hosts.contains(host) && site.listen.iter().any(|at| is_here(&at) && !at.redirects)
    };
    let hosts = written
        .hosts
        .iter()
        .filter(|host| !redirects || !config.sites.iter().any(|site| serves(site, host)));
    let routes = if redirects {
        let port = config.ports.https;
        let port = if port == 443 {
            String::new()
        } else {
            format!(":{port}")
        };
        let to = format!("https://{{host}}{port}{{path}}");
        vec![json!({
            "method": null, "path": "/*", "action": "redirect", "to": to, "status": 308, "modifiers": [],
        })]
    } else {
        written
            .routes
            .iter()
            .map(|one| route(config, one))
            .collect()
    };
    json!({
        "site": written.name,
        "hosts": hosts.map(ToString::to_string).collect::<Vec<_>>(),
        "tls_rules": secure.then_some(one.acceptor_index.get()),
        "routes": routes,
    })
}

/// The endpoints of a pool, and how they are chosen and checked.
pub(crate) fn pool(pool: &EndpointPool) -> Value {
    json!({
        "pool": pool.name,
        "endpoints": endpoints(pool),
        "members": pool.endpoints.iter().map(member).collect::<Vec<_>>(),
        "endpoint_tls": pool.tls.is_some(),
        "endpoint_protocol": pool.protocol.name(),
        "balance": balance(pool),
        "check": pool.health.as_ref().map(|health| (&health.probe, units::duration(health.every))).map(|(probe, every)| match probe {
            Probe::Tcp { send, expect: None } if send.is_empty() => format!("tcp every {every}"),
            // The text that is sent may hold a password.
            Probe::Tcp { .. } => format!("a TCP dialogue every {every}"),
            Probe::Grpc { service } if service.is_empty() => {
                format!("the gRPC health protocol every {every}")
            }
            Probe::Grpc { service } => {
                format!("the gRPC health protocol for {service} every {every}")
            }
            Probe::Http { path, method, .. } => format!("{method} {path} every {every}"),
        }),
    })
}

fn route(config: &Config, route: &SiteRoute) -> Value {
    let described = json!({
        "method": route.method,
        "path": route.pattern.to_string(),
        "modifiers": modifiers(config, &route.rules, &route.pattern),
    });
    let action = match &route.action {
        RouteAction::Proxy(number) => merged(
            json!({ "action": "proxy" }),
            config
                .pools
                .get(*number)
                .map_or(Value::Null, |known| pool(known)),
        ),
        RouteAction::Files(files) => json!({
            "action": "files",
            "root": files.root.display().to_string(),
            "index": files.index,
            "listing": files.listing,
        }),
        RouteAction::Redirect { to, status } => {
            let to = to.written(&route.pattern);
            json!({ "action": "redirect", "to": to, "status": status })
        }
        RouteAction::Respond(FixedResponse {
            status,
            media_type,
            body,
        }) => {
            let bytes = body.written(&route.pattern).len();
            json!({ "action": "respond", "status": status, "type": media_type, "bytes": bytes })
        }
    };
    merged(described, action)
}

/// The rules of a route that are not the defaults, in short.
pub(crate) fn modifiers(config: &Config, rules: &RouteModifiers, pattern: &Pattern) -> Vec<String> {
    let mut short = Vec::new();
    let mut add = |text: Option<String>| short.extend(text);
    let some = |count: usize, one: &str, more: &str| {
        (count > 0).then(|| format!("{} {more}", units::counted(count, one)))
    };
    add(match &rules.target {
        TargetRewrite::None => None,
        TargetRewrite::StripPrefix => Some("strip_prefix".to_owned()),
        TargetRewrite::Template(to) => Some(format!("rewrite to {}", to.written(pattern))),
    });
    add(rules.auth.as_ref().map(|auth| match auth {
        AuthMethod::Basic(basic) => format!("password from {}", basic.file.display()),
        AuthMethod::Forward(service) => {
            let of = config
                .pools
                .get(service.pool)
                .map(|known| endpoints(known))
                .unwrap_or_default()
                .join(", ");
            let copied = if service.copy.is_empty() {
                String::new()
            } else {
                format!(", which sets {}", service.copy.join(", "))
            };
            format!("authorized by {of} at {}{copied}", service.path)
        }
    }));
    add(rules
        .trace
        .map(|share| format!("traces start here, {share}% recorded")));
    add(rules.limit.as_deref().map(limit));
    add(rules
        .shape
        .as_deref()
        .map(|one| shape(one, " a connection")));
    add(some(rules.allow.len(), "network", "allowed"));
    add(some(rules.deny.len(), "network", "denied"));
    add(rules
        .body_max
        .map(|max| format!("body up to {}", units::size(max))));
    add(some(
        rules.request_headers.rules().len(),
        "field",
        "of requests changed",
    ));
    add(some(
        rules.headers.rules().len(),
        "field",
        "of responses changed",
    ));
    add(some(rules.error_pages.len(), "page", "of errors"));
    add(rules.redirects.as_ref().map(|file| {
        format!(
            "{} of {}",
            units::counted(file.map.len(), "redirect"),
            file.file.display()
        )
    }));
    add(rules.raw_paths.then(|| "raw paths".to_owned()));
    short
}

/// A rate limit, in short.
pub(crate) fn limit(limit: &SharedSetting<RateLimit>) -> String {
    let limit = &limit.value;
    let per = match &limit.per {
        LimitScope::Client => " per client".to_owned(),
        LimitScope::Header(name) => format!(" per {name}"),
        LimitScope::Route => String::new(),
    };
    format!(
        "{} in {}{per}, burst {}",
        limit.count,
        units::duration(limit.every),
        limit.burst
    )
}

/// How endpoints are chosen and ejected, in short, where that is not the default.
fn balance(pool: &EndpointPool) -> Vec<String> {
    let chosen = pool.balance.as_ref().map(|balance| match balance {
        EndpointChoice::P2c => "by p2c".to_owned(),
        EndpointChoice::Least => "by least".to_owned(),
        EndpointChoice::RoundRobin => "by round-robin".to_owned(),
        EndpointChoice::Sticky(cookie) => format!("by the cookie {cookie}"),
        EndpointChoice::Session => {
            "by the TLS session, else by a hash of the client's address".to_owned()
        }
        EndpointChoice::Hash(HashKey::Client) => "by a hash of the client's address".to_owned(),
        EndpointChoice::Hash(HashKey::Sni) => "by a hash of the SNI".to_owned(),
        EndpointChoice::Hash(HashKey::Header(name)) => format!("by a hash of the header {name}"),
        EndpointChoice::Hash(HashKey::Cookie(name)) => format!("by a hash of the cookie {name}"),
    });
    let ejected = match &pool.eject {
        None => Some("never ejected".to_owned()),
        Some(Eject {
            errors: 5,
            time,
            statuses,
        }) if *time == Duration::from_secs(10) && statuses.is_empty() => None,
        Some(Eject {
            errors,
            time,
            statuses,
        }) => {
            let of = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
                (one, last) if one == last => one.to_string(),
                (first, last) => format!("{first}-{last}"),
            };
            let statuses = statuses
                .ranges()
                .iter()
                .map(|range| format!(" or {}", of(range)))
                .collect::<String>();
            let failures = units::counted(usize::from(*errors), "failure");
            Some(format!(
                "ejected for {} after {failures}{statuses}",
                units::duration(*time)
            ))
        }
    };
    let slowly = Some(pool.slow_start).filter(|time| !time.is_zero());
    let slowly = slowly.map(|time| format!("slow start of {}", units::duration(time)));
    [chosen, ejected, slowly].into_iter().flatten().collect()
}

/// The rates that bytes are limited to, in short.
pub(crate) fn shape(shape: &SharedSetting<ShapeRates>, each: &str) -> String {
    let shape = &shape.value;
    let of = |per: &str, rates: Directions| {
        rates_shown(rates)
            .into_iter()
            .map(|rate| format!("{rate}{per}"))
            .collect::<Vec<_>>()
    };
    let each = [
        of(each, shape.per_connection),
        of(" a client", shape.per_client),
        of(" a user", shape.per_user),
        of(" in all", shape.total),
    ];
    each.concat().join(", ")
}

fn member(one: &WeightedEndpoint) -> Value {
    json!({ "addr": one.addr.to_string(), "weight": one.weight, "max": one.max, "backup": one.backup })
}

fn endpoints(pool: &EndpointPool) -> Vec<String> {
    let endpoint = |one: &WeightedEndpoint| {
        if one.backup {
            format!("{} (backup)", one.addr)
        } else {
            one.addr.to_string()
        }
    };
    pool.endpoints.iter().map(endpoint).collect()
}

fn tls(written: &DownstreamTls, acceptor: &Acceptor) -> Value {
    let certificates: Vec<Value> = acceptor
        .store()
        .describe()
        .into_iter()
        .map(|certificate| {
            let left = certificate
                .facts
                .not_after
                .duration_since(SystemTime::now())
                .unwrap_or(Duration::ZERO);
            json!({
                "path": certificate.path.display().to_string(),
                "names": certificate.facts.names,
                "key": certificate.facts.key.to_string(),
                "days_left": left.as_secs() / 86_400,
                "default": certificate.default,
                "stapled": certificate.stapled,
            })
        })
        .collect();
    json!({
        "certificates": certificates,
        "versions": written.versions.iter().map(|version| version.name()).collect::<Vec<_>>(),
        "suites": written.suites.iter().map(|suite| suite.name()).collect::<Vec<_>>(),
        "groups": written.groups.iter().map(|group| group.name()).collect::<Vec<_>>(),
        "alpn": written.alpn,
        "client_certificates": written.client_auth.as_ref().map(|auth| auth.mode.name()),
    })
}
