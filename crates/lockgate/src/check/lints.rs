//! Lints: configurations that are valid, and most likely not meant. Only `check` looks for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lockgate_config::{
    AuthMethod, Code, Config, HostedSite, ListenAddr, Probe, RedirectFile, Report, RouteAction,
    SiteRoute,
};
use lockgate_http::h1::HeadLimits;
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::head::RequestHead;
use lockgate_proxy::downstream::ListenerService;
use lockgate_proxy::route::ListenerSiteIndex;
use lockgate_proxy::site::{Action, ListenerSites, Route};
use lockgate_rules::pattern::Segment;
use lockgate_rules::{AcceptProxy, ClientAddress, HostPattern, METRIC_NAMES, Pattern};

use crate::assemble::Assembly;
use crate::explain::{AskedUrl, Decider, ExplainRequest, LoggedRequest};

/// Redirects that a client follows before it gives up: browsers follow 20, curl 50.
const MOST_REDIRECTS: usize = 20;
/// The most redirects of a file that are followed.
const MOST_MAPPED: usize = 10_000;
/// The host of requests to sites of every host.
const SOME_HOST: &str = "lockgate.invalid";

/// Adds a warning for each configuration that is most likely not meant.
pub(super) fn warn(config: &Config, assembly: &Assembly, report: &mut Report) {
    for site in &config.sites {
        passwords_in_clear(config, site, report);
    }
    let mut told = HashSet::new();
    for planned in &assembly.listeners {
        let sites = match &planned.listener.service {
            ListenerService::Http(sites) => Some(&**sites),
            ListenerService::Sni(router) => router.sites().map(|secure| &secure.sites),
            ListenerService::Relay(_) => None,
        };
        let Some(sites) = sites.filter(|sites| !sites.tunnels) else {
            continue;
        };
        for (at, site) in sites.sites.iter().enumerate() {
            if let Some(written) = config.sites.get(site.index.get()) {
                half_guarded(
                    (sites, ListenerSiteIndex::new(at)),
                    written,
                    &mut told,
                    report,
                );
            }
        }
    }
    redirect_loops(config, assembly, report);
    failing_checks(config, report);
    unknown_metrics(config, report);
}

/// A password that clients send unencrypted over a network.
fn passwords_in_clear(config: &Config, site: &HostedSite, report: &mut Report) {
    // A trusted proxy in front may have TLS.
    let is_behind = !config.trusted.is_empty() || site.accept_proxy != AcceptProxy::Never;
    let is_open = |addr: &ListenAddr| match addr {
        ListenAddr::Unix(_) => false,
        ListenAddr::All(_) => true,
        ListenAddr::Ip(address) => !address.ip().is_loopback(),
    };
    let mut plain = site
        .listen
        .iter()
        .filter(|listener| !listener.secure && !listener.redirects && is_open(&listener.addr));
    let Some(listener) = plain.next().filter(|_| !is_behind) else {
        return;
    };
    let mut known: Vec<String> = Vec::new();
    for route in &site.routes {
        if let Some(AuthMethod::Basic(auth)) = &route.rules.auth {
            // Routes that inherit it have it from the same place.
            if known.iter().any(|at| *at == auth.at.to_string()) {
                continue;
            }
            known.push(auth.at.to_string());
            report.push_at(
                Code::PasswordInClear,
                &auth.at,
                "passwords are sent unencrypted",
                format!("{} has no TLS", listener.addr),
                "add tls to the site, listen on a loopback address, or write the proxy in front into `trusted`",
            );
        }
    }
}

/// A path with a guard, of which another spelling has none: many applications take `/admin/` for
/// `/admin`.
fn half_guarded<'a>(
    (sites, at): (&ListenerSites, ListenerSiteIndex),
    site: &'a HostedSite,
    told: &mut HashSet<(&'a str, &'a str)>,
    report: &mut Report,
) {
    let by_name: HashMap<&str, &SiteRoute> = site
        .routes
        .iter()
        .map(|route| (&*route.name, route))
        .collect();
    for guarded in site.routes.iter().filter(|route| is_guarded(route)) {
        // `/admin/*` matches `/admin` and `/admin/` too.
        if guarded.pattern.is_prefix() {
            continue;
        }
        let path = sample(&guarded.pattern);
        let other = match path.strip_suffix('/') {
            Some("") => continue,
            Some(path) => path.to_owned(),
            None => format!("{path}/"),
        };
        let method = guarded.method.as_deref().unwrap_or("GET");
        let Ok(found) = sites.router.route(at, method.as_bytes(), other.as_bytes()) else {
            continue;
        };
        let Route { name, action, .. } = sites.route(found.route);
        // The redirect to HTTPS is no route of the site.
        let taker = by_name
            .get(&**name)
            .filter(|_| !matches!(action, Action::Secure(_)));
        let Some(taker) = taker else { continue };
        let serves = matches!(taker.action, RouteAction::Proxy(_) | RouteAction::Files(_));
        if !serves || is_guarded(taker) || !told.insert((&site.name, &guarded.name)) {
            continue;
        }
        let taker_name = if name.is_empty() { "/*" } else { name };
        let cure = format!(
            "write \"{}/*\" in the header, which matches both",
            guarded.pattern.to_string().trim_end_matches('/')
        );
        report.push_pair(
            Code::HalfGuarded,
            &guarded.at,
            (
                format!("{} is guarded, and {other} is not", guarded.pattern),
                format!("requests for {other} belong to {taker_name}"),
                cure,
            ),
            (&taker.at, "this one has neither allow, deny nor auth"),
        );
    }
}

fn is_guarded(route: &SiteRoute) -> bool {
    let rules = &route.rules;
    rules.auth.is_some() || !rules.allow.is_empty() || !rules.deny.is_empty()
}

/// Redirects that lead back to themselves, also over several sites.
fn redirect_loops(config: &Config, assembly: &Assembly, report: &mut Report) {
    let decider = Decider::new(assembly);
    for site in &config.sites {
        let mut files = Vec::new();
        for route in &site.routes {
            if let Some(file) = &route.rules.redirects
                && !files.contains(&Arc::as_ptr(file))
            {
                files.push(Arc::as_ptr(file));
                mapped_loop(config, &decider, (site, route), file, report);
            }
            if !matches!(route.action, RouteAction::Redirect { .. }) {
                continue;
            }
            let path = encoded(sample(&route.pattern).as_bytes());
            let Some(first) = first_url(config, site, &path) else {
                continue;
            };
            if let Some(last) = endless(&decider, &first, route.method.as_deref()) {
                report.push_at(
                    Code::RedirectLoop,
                    &route.at,
                    "this redirect has no end",
                    format!("{first} leads to {last}, and so on"),
                    "write a target that another site or path answers",
                );
            }
        }
    }
}

/// The first redirect of a file that leads back to itself.
fn mapped_loop(
    config: &Config,
    decider: &Decider<'_>,
    (site, route): (&HostedSite, &SiteRoute),
    file: &RedirectFile,
    report: &mut Report,
) {
    let samples = file.map.samples();
    let urls = samples
        .iter()
        .take(MOST_MAPPED)
        .filter_map(|path| first_url(config, site, &encoded(path)));
    let mut ends =
        urls.filter_map(|first| endless(decider, &first, None).map(|last| (first, last)));
    if let Some((first, last)) = ends.next() {
        report.push_at(
            Code::RedirectLoop,
            &route.at,
            format!("a redirect of {} has no end", file.file.display()),
            format!("{first} leads to {last}, and so on"),
            "write a target that another site or path answers",
        );
    }
}

/// A URL of the site with a path.
fn first_url(config: &Config, site: &HostedSite, path: &str) -> Option<String> {
    let listener = site.listen.iter().find(|listener| !listener.redirects)?;
    let host = match site.hosts.first()? {
        HostPattern::Exact(host) => host.clone(),
        HostPattern::Under(host) => format!("lockgate.{host}"),
        HostPattern::Any => SOME_HOST.to_owned(),
    };
    let port = match &listener.addr {
        ListenAddr::All(port) => *port,
        ListenAddr::Ip(address) => address.port(),
        ListenAddr::Unix(_) => return None,
    };
    let (scheme, usual) = match listener.secure {
        true => ("https", config.ports.https),
        false => ("http", config.ports.http),
    };
    let port = match port {
        0 => return None,
        port if port == usual && matches!(port, 80 | 443) => String::new(),
        port => format!(":{port}"),
    };
    Some(format!("{scheme}://{host}{port}{path}"))
}

/// The last URL of redirects without an end, if they have none.
fn endless(decider: &Decider<'_>, first: &str, method: Option<&str>) -> Option<String> {
    let mut url: AskedUrl = first.parse().ok()?;
    let mut method = method.unwrap_or("GET");
    for _ in 0..MOST_REDIRECTS {
        let (location, status) = location(decider, &url, method)?;
        // RFC 9110 §15.4: as browsers do it.
        method = match (status, method) {
            (303, "GET" | "HEAD") | (301 | 302, "GET") => method,
            (303, _) | (301 | 302, "POST") => "GET",
            (_, method) => method,
        };
        let location = location.split('#').next().unwrap_or_default().to_owned();
        url = match location.strip_prefix('/') {
            Some(_) => AskedUrl {
                target: location,
                ..url
            },
            None => location.parse().ok()?,
        };
    }
    Some(url.to_string())
}

/// Where a request for a URL is redirected to, and with which status.
fn location(decider: &Decider<'_>, url: &AskedUrl, method: &str) -> Option<(String, u16)> {
    let text = format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\n\r\n",
        url.target, url.authority
    );
    let mut head = RequestHead::default();
    let limits = HeadLimits::default();
    parse::request(
        text.as_bytes(),
        &mut HeadProgress::default(),
        &limits,
        &mut head,
    )
    .ok()??;
    let (host, port) = match url.authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port),
        _ => (&*url.authority, if url.is_secure() { "443" } else { "80" }),
    };
    let decision = decider.decide(&LoggedRequest {
        listener: &format!(":{port}"),
        secure: url.is_secure(),
        sni: url.is_secure().then_some(host),
        client: ClientAddress::Ip(ExplainRequest::FROM),
        head: &head,
    });
    Some((decision.location?, decision.status?))
}

/// A path as it is sent (RFC 3986 §3.3).
fn encoded(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for &byte in path {
        match byte {
            0x21..=0x7E if !b"%?#\"<>`{}".contains(&byte) => text.push(char::from(byte)),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// A path that the pattern matches, decoded.
fn sample(pattern: &Pattern) -> String {
    let mut path = String::new();
    for segment in pattern.segments() {
        path.push('/');
        path.push_str(match segment {
            Segment::Literal(text) => text,
            Segment::Param(_) => "x",
        });
    }
    if pattern.is_prefix() {
        path.push_str("/x");
    }
    path
}

/// Checks that no endpoint can pass.
fn failing_checks(config: &Config, report: &mut Report) {
    for pool in &config.pools {
        let Some(health) = &pool.health else { continue };
        let Probe::Http {
            method,
            expect,
            body,
            ..
        } = &health.probe
        else {
            continue;
        };
        // RFC 9110 §9.3.2, §15.2, §15.3.5, §15.4.5.
        let has_no_body = |status: u16| matches!(status, 100..=199 | 204 | 304);
        let all = |is: &dyn Fn(u16) -> bool| expect.iter().all(|range| range.clone().all(is));
        let why = if all(&|status| status < 200) {
            "a final status is never below 200"
        } else if body.is_some() && method == "HEAD" {
            "the response to HEAD has no body, and a text in it is expected"
        } else if body.is_some() && all(&has_no_body) {
            "responses with these statuses have no body, and a text in it is expected"
        } else {
            continue;
        };
        report.push_at(
            Code::CheckNeverPasses,
            &pool.at,
            "no endpoint can pass this pool's check",
            why,
            "correct `health` of the pool: all its endpoints would be down",
        );
    }
}

/// Names of metrics to be pushed, or not to be, that no metric has.
fn unknown_metrics(config: &Config, report: &mut Report) {
    for (beginning, at) in &config.export.beginnings {
        if METRIC_NAMES
            .iter()
            .any(|name| name.starts_with(&**beginning))
        {
            continue;
        }
        // Graphite, statsd and Prometheus have several names for a histogram.
        let histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|part| beginning.strip_suffix(part))
            .filter(|name| METRIC_NAMES.contains(name));
        let cure = match histogram {
            Some(name) => format!("write {name:?}: a histogram is pushed as a whole"),
            None => "docs/observe.md lists the names".to_owned(),
        };
        report.push_at(
            Code::NoSuchMetric,
            at,
            format!("no metric has a name that begins with {beginning:?}"),
            "",
            cure,
        );
    }
}
