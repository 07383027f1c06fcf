//! A request, and the configuration that it is asked about: the way from its URL to a listener, and
//! the answer as JSON.

use std::net::IpAddr;
use std::sync::Arc;

use lockgate_config::{Config, HostedSite, LoadedConfig, SiteRoute};
use lockgate_http::h1::HeadLimits;
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::head::RequestHead;
use lockgate_http::target::Authority;
use lockgate_limits::PoolIndex;
use lockgate_net::listen::ListenAddress;
use lockgate_net::tls::{AcceptorIndex, Acceptors, CertSummary};
use lockgate_proxy::action::forward_proxy::Connect;
use lockgate_proxy::admit::targets::AskedOfAddresses;
use lockgate_proxy::downstream::explain::{
    AskedRequest, Condition, Explanation, ExplanationDepth, Outcome, ProxiedRequest, SentHead,
};
use lockgate_proxy::downstream::{HelloRoute, ListenerService, RelaySettings};
use lockgate_proxy::route::{ListenerSiteIndex, RouteIndex, RouteLoss, SiteLoss};
use lockgate_proxy::site::{Action, ListenerSites, Route};
use lockgate_rules::{AcceptProxy, ClientAddress};
use lockgate_upstream::{AffinityInput, Pool};
use serde_json::{Value, json};

use crate::assemble::{Assembly, PlannedListener, port};
use crate::check::describe;

use super::choice::PoolState;
use super::limits::HeldLimits;
use super::place::place;
use super::request::{ExplainRequest, GivenField, UrlScheme};

/// The protocols that clients offer by ALPN.
const OFFERED: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The fields that the encoder of a request writes anew.
const FRAMING: [&str; 4] = [
    "Connection",
    "Content-Length",
    "Transfer-Encoding",
    "Upgrade",
];

/// The configuration that runs, for questions about it.
pub(crate) struct ExplainedConfig {
    pub(crate) loaded: Arc<LoadedConfig>,
    pub(crate) assembly: Arc<Assembly>,
}

impl ExplainedConfig {
    /// What becomes of a request; `ports` are those of the bound listeners in their order.
    ///
    /// # Errors
    /// As [`Question::answer`].
    pub(crate) fn answer(
        &self,
        ports: &[Option<u16>],
        request: &ExplainRequest,
    ) -> Result<Value, String> {
        let question = Question {
            loaded: &self.loaded,
            assembly: &self.assembly,
            ports: Some(ports),
            request,
            depth: ExplanationDepth::Losses,
        };
        question.answer()
    }
}

/// A connection with a request.
pub(super) struct ExplainedConnection<'c> {
    /// Its other end.
    pub(super) peer: ClientAddress,
    /// The address that the client connected to, if that is known.
    pub(super) local: Option<IpAddr>,
    /// The acceptor of its TLS, if it has TLS.
    pub(super) acceptor: Option<AcceptorIndex>,
    /// The server name in it.
    pub(super) server_name: Option<&'c str>,
    /// The id of the request, if that is known.
    pub(super) id: Option<&'c str>,
}

/// A request, and what it is asked about.
pub(crate) struct Question<'a> {
    pub(crate) loaded: &'a LoadedConfig,
    pub(crate) assembly: &'a Assembly,
    /// The ports of the bound listeners in their order, where the configuration runs.
    pub(crate) ports: Option<&'a [Option<u16>]>,
    pub(crate) request: &'a ExplainRequest,
    pub(crate) depth: ExplanationDepth,
}

impl<'a> Question<'a> {
    /// What becomes of the request.
    ///
    /// # Errors
    /// When no listener has its URL, or it could not be sent.
    pub(crate) fn answer(&self) -> Result<Value, String> {
        if self.request.url.scheme == UrlScheme::Tcp && self.request.via.is_none() {
            return Err("a tunnel leads to tcp: name its listener by --via".to_owned());
        }
        let url = self.request.reached_url();
        let authority = Authority::parse(url.authority.as_bytes())
            .map_err(|error| format!("{}: {error}", url.authority))?;
        let planned = self.listener(&authority)?;
        let mut answer = json!({
            "request": {
                "method": self.request.request_line().0,
                "url": self.request.url.to_string(),
                "from": self.request.from,
                "via": self.request.via.as_ref().map(ToString::to_string),
            },
            "listener": { "name": planned.listener.name, "at": place(&planned.at) },
        });
        let name = self.request.sni.as_deref().unwrap_or(authority.host);
        let name = Authority {
            host: name,
            port: None,
        };
        let name = name.name();
        // RFC 6066 §3: an address is no server name.
        let is_name = name.parse::<IpAddr>().is_err() && !name.starts_with('[');
        let sni = Some(&*name).filter(|name| is_name && !name.is_empty());
        let (sites, tls) = match ReachedService::of(planned, sni) {
            ReachedService::Sites(sites, _) if sites.tunnels && self.request.via.is_none() => {
                let name = &planned.listener.name;
                return Err(format!(
                    "{name} opens tunnels: name it by --via, and the target as the URL"
                ));
            }
            ReachedService::Sites(sites, tls) => (sites, tls),
            ReachedService::Relay(relay, terminates) => {
                let client = self.peer(planned);
                answer["outcome"] = self.relay((relay, terminates), client, sni);
                answer["limits"] = self.relay_limits(planned, relay);
                return Ok(answer);
            }
            ReachedService::Unrecognized => {
                answer["outcome"] = unrecognized(sni);
                return Ok(answer);
            }
        };
        let mut acceptor = None;
        if let Some(tls) = tls {
            let Some((index, certificates)) = choose(tls, sni) else {
                answer["outcome"] = unrecognized(sni);
                return Ok(answer);
            };
            acceptor = Some(index);
            answer["sni"] = json!(sni);
            answer["is_awaited"] = json!(certificates.is_empty());
            answer["certificates"] = certificates.iter().map(certificate).collect();
        }
        let head = self.head(&sites.limits)?;
        let connection = ExplainedConnection {
            peer: self.peer(planned),
            local: self.local(planned),
            acceptor,
            server_name: sni,
            id: None,
        };
        self.explain((planned, sites), &connection, &head, &mut answer);
        Ok(answer)
    }

    /// The other end of the connection: a client of a Unix socket has no address, unless a header
    /// names one.
    fn peer(&self, planned: &PlannedListener) -> ClientAddress {
        let is_unix = matches!(planned.address, ListenAddress::Unix(_))
            && planned.listener.accept_proxy == AcceptProxy::Never;
        Some(self.request.from).filter(|_| !is_unix).into()
    }

    /// The address that the client connects to: the one of the URL, or that of the listener.
    fn local(&self, planned: &PlannedListener) -> Option<IpAddr> {
        let authority = &self.request.reached_url().authority;
        let host = Authority::parse(authority.as_bytes()).map(|authority| authority.host);
        let written = host.ok()?.trim_matches(['[', ']']).parse().ok();
        written.or(match &planned.address {
            ListenAddress::Ip(address) => Some(address.ip()).filter(|ip| !ip.is_unspecified()),
            ListenAddress::All(_) | ListenAddress::Unix(_) => None,
        })
    }

    fn config(&self) -> &'a Config {
        &self.loaded.config
    }

    /// What is known of the members of its pools.
    fn pool_state(&self) -> PoolState {
        match self.ports {
            Some(_) => PoolState::Running,
            None => PoolState::Assumed,
        }
    }

    /// The listener that the URL leads to.
    fn listener(&self, authority: &Authority<'_>) -> Result<&'a PlannedListener, String> {
        let url = self.request.reached_url();
        let is_secure = url.is_secure();
        let wanted = authority.port.unwrap_or(url.default_port());
        let all = &self.assembly.listeners;
        let port_of = |(at, planned): (usize, &PlannedListener)| {
            let bound = self.ports.and_then(|ports| ports.get(at).copied());
            bound.unwrap_or_else(|| port(&planned.address))
        };
        let is_wanted = |(at, planned): &(usize, &PlannedListener)| match &self.request.listener {
            Some(name) => planned.listener.name == *name && may_speak(planned, is_secure),
            None => port_of((*at, planned)) == Some(wanted) && may_speak(planned, is_secure),
        };
        let fitting = all.iter().enumerate().filter(is_wanted);
        let mut fitting: Vec<_> = fitting.map(|(_, planned)| planned).collect();
        // Of several addresses with one port the one that the URL names.
        if fitting.len() > 1 {
            let ip = authority.host.trim_matches(['[', ']']).parse().ok();
            let is_here = |planned: &&PlannedListener| matches!(&planned.address, ListenAddress::Ip(address) if Some(address.ip()) == ip);
            if fitting.iter().any(is_here) {
                fitting.retain(is_here);
            }
        }
        let names = |listeners: &mut dyn Iterator<Item = &PlannedListener>| {
            let names = listeners.map(|planned| planned.listener.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        match *fitting {
            [one] => Ok(one),
            [] => Err(match &self.request.listener {
                Some(name) => format!(
                    "no listener {} TLS is called {name}: there are {}",
                    if is_secure { "with" } else { "without" },
                    names(&mut all.iter())
                ),
                None => format!(
                    "no listener has port {wanted} {} TLS: there are {}",
                    if is_secure { "with" } else { "without" },
                    names(&mut all.iter())
                ),
            }),
            _ => Err(format!(
                "several listeners fit: choose one by --listener, of {}",
                names(&mut fitting.into_iter())
            )),
        }
    }

    /// The request as a connection brings it.
    fn head(&self, limits: &HeadLimits) -> Result<RequestHead, String> {
        let request = self.request;
        let (method, target) = request.request_line();
        let fields = request.fields.iter();
        let parts = fields.flat_map(|field| [&*field.name, &*field.value]);
        if parts
            .chain([method, &*target])
            .any(|part| part.contains(['\r', '\n']))
        {
            return Err("the request has a line end in it".to_owned());
        }
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        let names_host = |field: &GivenField| field.name.eq_ignore_ascii_case("host");
        if !request.fields.iter().any(names_host) {
            let host = match method {
                "CONNECT" if request.via.is_some() => &target,
                _ => &request.url.authority,
            };
            text += &format!("Host: {host}\r\n");
        }
        for field in &request.fields {
            text += &format!("{}: {}\r\n", field.name, field.value);
        }
        text += "\r\n";
        let mut head = RequestHead::default();
        let parsed = parse::request(
            text.as_bytes(),
            &mut HeadProgress::default(),
            limits,
            &mut head,
        );
        match parsed {
            Ok(Some(length)) if length == text.len() => Ok(head),
            Ok(_) => Err("the request has a line end in it".to_owned()),
            Err(error) => Err(format!("status {}: {error}", error.status())),
        }
    }

    /// What becomes of a request with this head.
    pub(super) fn explain(
        &self,
        (planned, sites): (&PlannedListener, &'a ListenerSites),
        connection: &ExplainedConnection<'_>,
        head: &RequestHead,
        answer: &mut Value,
    ) {
        let trusted = &self.config().trusted;
        let explained = Explanation::of(
            sites,
            &AskedRequest {
                head,
                id: connection.id,
                peer: connection.peer,
                local: connection.local,
                trusts: &|ip| trusted.iter().any(|network| network.contains(ip)),
                pool: &|pool| self.upstream(pool),
                acceptor: connection.acceptor,
                server_name: connection.server_name,
                addresses: &|connect, name| self.addresses(connect, name),
                now: self.pool_state().now(),
                depth: self.depth,
            },
        );
        answer["client"] = match explained.client {
            ClientAddress::Ip(ip) => json!(ip),
            ClientAddress::Unix | ClientAddress::Unknown => Value::Null,
        };
        let explained_site = explained.site.filter(|_| !sites.tunnels);
        answer["site"] = json!(explained_site.map(|site| self.site(sites, site)));
        let lost = explained.lost_sites.iter();
        answer["lost_sites"] = lost
            .map(|(site, loss)| {
                let mut lost = self.site(sites, *site);
                lost["because"] = json!(site_loss(loss));
                lost["matches"] = json!(!matches!(loss, SiteLoss::Host));
                lost
            })
            .collect();
        if let Some(site) = explained_site {
            answer["route"] = json!(explained.route.map(|route| self.route(sites, site, route)));
            let lost = explained.lost_routes.iter();
            answer["lost_routes"] = lost
                .map(|(route, loss)| {
                    let mut lost = self.route(sites, site, *route);
                    lost["modifiers"].take();
                    lost["because"] = json!(route_loss(loss));
                    lost
                })
                .collect();
        }
        let awaited = answer["is_awaited"] == true;
        let awaited = awaited.then(|| "the certificate was obtained".to_owned());
        let conditions = explained.conditions.iter().map(|one| self.condition(one));
        answer["conditions"] = awaited.into_iter().chain(conditions).collect();
        answer["outcome"] = self.outcome(&explained, head);
        if self.depth == ExplanationDepth::Losses {
            answer["limits"] = self.limits(planned, sites, &explained);
        }
    }

    /// The limits and deadlines that the request is held to.
    fn limits(
        &self,
        planned: &PlannedListener,
        sites: &'a ListenerSites,
        explained: &Explanation<'a>,
    ) -> Value {
        let mut held = HeldLimits::new(self.loaded);
        held.add_connection(&planned.listener);
        held.add_head(sites);
        let is_refused = matches!(explained.outcome, Outcome::Refused { .. });
        let route = explained.route.filter(|_| !is_refused);
        if sites.tunnels {
            let mut tunnels = self.config().tunnels.iter();
            if let Some(tunnel) = tunnels.find(|tunnel| tunnel.name == planned.listener.name)
                && let Some(route) = route.map(|route| sites.route(route))
            {
                held.nearer(&["tunnel", &tunnel.name]);
                let limit = tunnel.limit.as_ref().map(describe::limit);
                let shape = tunnel.shape.as_ref();
                let shape = shape.map(|shape| describe::shape(shape, " a tunnel"));
                held.add_rates(limit, shape);
                if let Action::Connect(connect) = &route.action {
                    held.add_tunnel(connect, tunnel);
                    let forward = connect.forward.as_ref();
                    let forward =
                        forward.filter(|_| matches!(explained.outcome, Outcome::Forward(..)));
                    if let Some(forward) = forward {
                        held.add_bodies(route);
                        held.add_response(&forward.proxy);
                    }
                }
            }
            return held.into_json();
        }
        if let Some((site, index)) = explained.site.zip(route)
            && let Some(site) = self.written_site(sites, site)
        {
            let route = sites.route(index);
            held.nearer(&["site", &site.name]);
            if !route.name.is_empty() {
                held.nearer(&["site", &site.name, "path", &route.name]);
            }
            let rules = written_route(site, route).map(|written| &written.rules);
            let limit = rules.and_then(|rules| rules.limit.as_deref());
            let shape = rules.and_then(|rules| rules.shape.as_deref());
            let shape = shape.map(|shape| describe::shape(shape, " a connection"));
            held.add_rates(limit.map(describe::limit), shape);
            held.add_bodies(route);
            if let Outcome::Endpoint(ProxiedRequest { proxy, .. }) = &explained.outcome {
                held.add_exchange(proxy, self.upstream(proxy.pool));
            }
        }
        held.into_json()
    }

    fn relay_limits(&self, planned: &'a PlannedListener, relay: &'a RelaySettings) -> Value {
        let mut held = HeldLimits::new(self.loaded);
        let name = &planned.listener.name;
        held.nearer(&["tcp", name]);
        held.add_connection(&planned.listener);
        let mut tables = self.config().tcp.iter();
        let written = tables.find(|table| table.name == *name);
        let shape = written.and_then(|table| table.shape.as_ref());
        held.add_relay(
            relay,
            shape.map(|shape| describe::shape(shape, " a connection")),
        );
        held.into_json()
    }

    fn written_site(
        &self,
        sites: &ListenerSites,
        site: ListenerSiteIndex,
    ) -> Option<&'a HostedSite> {
        self.config().sites.get(sites.site(site).index.get())
    }

    fn site(&self, sites: &ListenerSites, site: ListenerSiteIndex) -> Value {
        let at = self
            .written_site(sites, site)
            .map(|written| place(&written.at));
        json!({ "name": sites.site(site).name, "at": at })
    }

    fn route(&self, sites: &ListenerSites, site: ListenerSiteIndex, index: RouteIndex) -> Value {
        let route = sites.route(index);
        let written = self.written_site(sites, site);
        // The redirect to HTTPS is no route that was written.
        let written = written.filter(|_| !matches!(route.action, Action::Secure(_)));
        match written.and_then(|site| written_route(site, route)) {
            Some(written) => json!({
                "method": written.method,
                "path": written.pattern.to_string(),
                "at": place(&written.at),
                "modifiers": describe::modifiers(self.config(), &written.rules, &written.pattern),
            }),
            None => json!({ "method": null, "path": "/*", "at": null, "modifiers": [] }),
        }
    }

    fn condition(&self, condition: &Condition<'_>) -> String {
        match condition {
            Condition::Rate => "the rate limit is not used up".to_owned(),
            Condition::Password(auth) => {
                format!("the password is one of {}", auth.checker.path().display())
            }
            Condition::Addresses(name, rules) => addresses_condition(name, rules),
            Condition::Authorized(service) => format!(
                "the auth service (pool {}) lets it in at {}",
                self.pool_name(service.proxy.pool),
                service.target
            ),
        }
    }

    /// The addresses of a name: those that were asked about, else those that the process knows.
    fn addresses(&self, connect: &Connect, name: &str) -> Option<Vec<IpAddr>> {
        if !self.request.addresses.is_empty() {
            return Some(self.request.addresses.clone());
        }
        let known = connect.names.known(name, connect.fresh)?;
        known.ok().map(|known| known.to_vec())
    }

    fn upstream(&self, pool: PoolIndex) -> Option<&'a Pool> {
        self.assembly.upstreams.get(pool.get()).map(|pool| &**pool)
    }

    fn pool_name(&self, pool: PoolIndex) -> &str {
        self.upstream(pool).map_or("", |pool| &pool.settings.name)
    }

    /// A pool as it was written.
    fn pool(&self, name: &str) -> Value {
        let pools = self.assembly.pools.iter().zip(&self.assembly.written);
        let mut named = pools.filter(|(pool, _)| pool.settings.name == name);
        named
            .next()
            .map_or(Value::Null, |(_, written)| describe::pool(written))
    }

    fn outcome(&self, explained: &Explanation<'_>, head: &RequestHead) -> Value {
        match &explained.outcome {
            Outcome::Refused {
                status,
                reason,
                allow,
            } => json!({
                "kind": "refused",
                "status": status,
                "reason": reason,
                "allow": Some(allow).filter(|allow| !allow.is_empty()),
            }),
            Outcome::Local { status, location } => json!({
                "kind": "responded",
                "status": status,
                "location": location.as_ref().map(|location| shown(location)),
            }),
            Outcome::Folder(files) => json!({ "kind": "files", "root": files.root }),
            Outcome::Endpoint(ProxiedRequest {
                proxy,
                preference,
                sent,
            }) => json!({
                "kind": "proxied",
                "to": self.pool(self.pool_name(proxy.pool)),
                "sent": sent_head(head, sent),
                "choice": self.upstream(proxy.pool).map(|pool| {
                    self.pool_state().of_request(pool, *preference)
                }),
            }),
            Outcome::Tunnel(reached) => json!({
                "kind": "tunnel",
                "target": format!("{}:{}", reached.host, reached.port),
                "addresses": reached.addresses,
            }),
            Outcome::Forward(reached, sent) => json!({
                "kind": "forwarded",
                "target": format!("{}:{}", reached.host, reached.port),
                "addresses": reached.addresses,
                "sent": sent_head(head, sent),
            }),
        }
    }

    fn relay(
        &self,
        (relay, terminates): (&RelaySettings, bool),
        client: ClientAddress,
        sni: Option<&str>,
    ) -> Value {
        let state = self.pool_state();
        // As `connection::relay` has it. What session a client resumes is not known.
        let affinity_input = AffinityInput {
            client: client.key(),
            server_name: sni,
            session: None,
            fields: None,
        };
        let preference = relay.pool.preference(&affinity_input, state.now());
        json!({
            "kind": "relayed",
            "tls": terminates,
            "to": self.pool(&relay.pool.settings.name),
            "choice": state.of_relay(&relay.pool, preference),
        })
    }
}

/// What a connection to a listener reaches.
pub(super) enum ReachedService<'a> {
    /// Sites, or tunnels, with their TLS.
    Sites(&'a ListenerSites, Option<&'a Acceptors>),
    /// A relay, and whether it decrypts.
    Relay(&'a RelaySettings, bool),
    /// Nothing: the handshake of TLS ends with an alert.
    Unrecognized,
}

impl<'a> ReachedService<'a> {
    /// The service of a connection with this server name.
    pub(super) fn of(planned: &'a PlannedListener, sni: Option<&str>) -> Self {
        let tls = planned.listener.tls.as_ref();
        match &planned.listener.service {
            ListenerService::Http(sites) => Self::Sites(sites, tls),
            ListenerService::Relay(relay) => Self::Relay(relay, tls.is_some()),
            ListenerService::Sni(router) => match router.find(sni, OFFERED.into_iter()) {
                Some(HelloRoute::Relay(route)) => Self::Relay(&route.relaying, route.tls.is_some()),
                Some(HelloRoute::Sites(secure)) => Self::Sites(&secure.sites, Some(&secure.tls)),
                None => Self::Unrecognized,
            },
        }
    }
}

/// The acceptor of a connection, and the certificates of which its client gets one: none where it is
/// obtained yet.
fn choose(tls: &Acceptors, sni: Option<&str>) -> Option<(AcceptorIndex, Vec<CertSummary>)> {
    match tls.choose(sni) {
        Some((index, acceptor)) => Some((index, acceptor.store().describe_for(sni))),
        None => Some((tls.awaiting(sni)?, Vec::new())),
    }
}

/// Whether clients of a listener may speak TLS, or may speak without.
pub(super) fn may_speak(planned: &PlannedListener, secure: bool) -> bool {
    match &planned.listener.service {
        // TLS may be passed through.
        ListenerService::Relay(_) => secure || planned.listener.tls.is_none(),
        ListenerService::Http(_) => planned.listener.tls.is_some() == secure,
        ListenerService::Sni(_) => secure,
    }
}

fn written_route<'a>(site: &'a HostedSite, route: &Route) -> Option<&'a SiteRoute> {
    site.routes
        .iter()
        .find(|written| written.name == route.name)
}

/// What an address of a name must be, where the name was not looked up.
fn addresses_condition(name: &str, rules: &AskedOfAddresses) -> String {
    let mut asked = Vec::new();
    if !rules.is_allowed_by_name {
        asked.push(format!("is in {} of `allow`", rules.allow.join(", ")));
    }
    if !rules.deny.is_empty() {
        asked.push(format!("is not in {} of `deny`", rules.deny.join(", ")));
    }
    if !rules.private {
        asked.push("is public, unless `allow` names its network".to_owned());
    }
    match &*asked {
        [] => format!("{name} has an address"),
        asked => format!("an address of {name} {}", asked.join(", and ")),
    }
}

fn site_loss(loss: &SiteLoss) -> String {
    match loss {
        SiteLoss::Host => "another host".to_owned(),
        SiteLoss::LessSpecific(host) => format!("{host} is less specific"),
    }
}

fn route_loss(loss: &RouteLoss) -> &'static str {
    match loss {
        RouteLoss::Path => "another path",
        RouteLoss::Method => "another method",
        RouteLoss::LessSpecific => "less specific",
    }
}

/// RFC 6066 §3.
fn unrecognized(sni: Option<&str>) -> Value {
    json!({
        "kind": "alert",
        "reason": match sni {
            Some(name) => format!("no certificate for {name}: the handshake ends with unrecognized_name"),
            None => "no certificate for clients without a server name: the handshake ends with \
                     unrecognized_name".to_owned(),
        },
    })
}

fn certificate(summary: &CertSummary) -> Value {
    json!({
        "path": summary.path,
        "names": summary.facts.names,
        "default": summary.default,
    })
}

/// What a request is when it has arrived at an endpoint: its fields, those that are new, and those
/// that are not there any more.
fn sent_head(received: &RequestHead, sent: &SentHead) -> Value {
    let field = |name: &[u8], value: &[u8]| format!("{}: {}", shown(name), shown(value));
    let before: Vec<_> = received
        .fields
        .iter()
        .filter(|one| !one.name.eq_ignore_ascii_case(b"host"))
        .map(|one| field(one.name, one.value))
        .collect();
    let now: Vec<_> = sent
        .fields
        .iter()
        .map(|(name, value)| field(name, value))
        .collect();
    let added: Vec<_> = now.iter().filter(|one| !before.contains(one)).collect();
    // Framing and the connection are the encoder's.
    let is_framing = |one: &&&String| {
        let name = one.split(':').next().unwrap_or_default();
        FRAMING
            .iter()
            .any(|framing| framing.eq_ignore_ascii_case(name))
    };
    let removed = before.iter().filter(|one| !now.contains(one));
    let removed: Vec<_> = removed.filter(|one| !is_framing(&one)).collect();
    json!({
        "method": shown(received.method_name()),
        "target": shown(&sent.target),
        "host": shown(&sent.host),
        "fields": now,
        "added": added,
        "removed": removed,
    })
}

/// Bytes of a request as text.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
