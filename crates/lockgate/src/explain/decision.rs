//! What one configuration does with a request of a log, in short: by the functions that serve.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use lockgate_config::EndpointPool;
use lockgate_http::head::RequestHead;
use lockgate_net::listen::ListenAddress;
use lockgate_net::millis::Millis;
use lockgate_proxy::downstream::explain::{AskedRequest, Explanation, ExplanationDepth, Outcome};
use lockgate_rules::ClientAddress;

use super::question::{ReachedService, may_speak};
use crate::assemble::{Assembly, PlannedListener, port};

/// A request as it came to a listener.
pub(crate) struct LoggedRequest<'a> {
    /// The name of the listener.
    pub(crate) listener: &'a str,
    pub(crate) secure: bool,
    pub(crate) sni: Option<&'a str>,
    /// The client, after the rules for proxies in front.
    pub(crate) client: ClientAddress,
    pub(crate) head: &'a RequestHead,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RequestDecision<'a> {
    pub(crate) site: Option<&'a str>,
    /// As it is written; `/*` is the site itself.
    pub(crate) route: Option<&'a str>,
    pub(crate) outcome: &'static str,
    /// The status of a response of Lockgate.
    pub(crate) status: Option<u16>,
    pub(crate) location: Option<String>,
    /// The name of a pool, its endpoints, or the table of a relay that names them.
    pub(crate) pool: Option<&'a str>,
}

impl RequestDecision<'_> {
    fn alone(outcome: &'static str) -> Self {
        RequestDecision {
            site: None,
            route: None,
            outcome,
            status: None,
            location: None,
            pool: None,
        }
    }
}

impl fmt::Display for RequestDecision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [self.site, self.route].into_iter().flatten() {
            write!(f, "{part} ")?;
        }
        f.write_str(self.outcome)?;
        if let Some(status) = self.status {
            write!(f, " {status}")?;
        }
        if let Some(pool) = self.pool {
            write!(f, " to {pool}")?;
        }
        Ok(())
    }
}

/// Decides about requests by one configuration.
pub(crate) struct Decider<'a> {
    assembly: &'a Assembly,
    listeners: HashMap<&'a str, &'a PlannedListener>,
    /// The pool of each upstream, as it is shown.
    upstreams: Vec<Cow<'a, str>>,
}

impl<'a> Decider<'a> {
    pub(crate) fn new(assembly: &'a Assembly) -> Self {
        let listeners = assembly.listeners.iter();
        let pools = assembly.pools.iter().zip(&assembly.written);
        let pools: HashMap<&str, &EndpointPool> = pools
            .map(|(pool, written)| (&*pool.settings.name, &**written))
            .collect();
        let upstreams = assembly.upstreams.iter();
        Self {
            assembly,
            listeners: listeners
                .map(|planned| (&*planned.listener.name, planned))
                .collect(),
            upstreams: upstreams
                .map(|upstream| match pools.get(&*upstream.settings.name) {
                    Some(pool) => shown(pool),
                    None => Cow::Borrowed(&*upstream.settings.name),
                })
                .collect(),
        }
    }

    /// What becomes of a request.
    pub(crate) fn decide(&'a self, request: &LoggedRequest<'_>) -> RequestDecision<'a> {
        let listeners = self.listeners(request);
        let mut decisions = listeners
            .iter()
            .map(|planned| self.decide_on(planned, request));
        let Some(first) = decisions.next() else {
            return RequestDecision::alone("no listener");
        };
        if decisions.all(|other| other == first) {
            first
        } else {
            RequestDecision::alone("several listeners")
        }
    }

    /// What becomes of a request to this listener.
    fn decide_on(
        &'a self,
        planned: &'a PlannedListener,
        request: &LoggedRequest<'_>,
    ) -> RequestDecision<'a> {
        let (sites, tls) = match ReachedService::of(planned, request.sni) {
            ReachedService::Sites(sites, tls) => (sites, tls),
            ReachedService::Relay(relay, _) => {
                return RequestDecision {
                    pool: Some(&relay.pool.settings.name),
                    ..RequestDecision::alone("relayed")
                };
            }
            ReachedService::Unrecognized => return RequestDecision::alone("alert"),
        };
        let mut acceptor = None;
        if let Some(tls) = tls {
            let chosen = tls.choose(request.sni).map(|(index, _)| index);
            let Some(index) = chosen.or_else(|| tls.awaiting(request.sni)) else {
                return RequestDecision::alone("alert");
            };
            acceptor = Some(index);
        }
        let explained = Explanation::of(
            sites,
            &AskedRequest {
                head: request.head,
                id: None,
                peer: request.client,
                local: None,
                // The log has the client that was believed.
                trusts: &|_| false,
                pool: &|_| None,
                acceptor,
                server_name: request.sni,
                addresses: &|_, _| None,
                now: Millis::ZERO,
                depth: ExplanationDepth::Outcome,
            },
        );
        let (outcome, status, location, pool) = match explained.outcome {
            Outcome::Refused { status, .. } => ("refused", Some(status), None, None),
            Outcome::Local { status, location } => {
                let location = location.map(|location| String::from_utf8_lossy(&location).into());
                ("responded", Some(status), location, None)
            }
            Outcome::Folder(files) => ("files", None, None, files.root.to_str()),
            Outcome::Endpoint(proxied) => {
                let pool = self.upstreams.get(proxied.proxy.pool.get());
                let pool = pool.map(|pool| &**pool);
                ("proxied", None, None, pool)
            }
            Outcome::Tunnel(_) => ("tunnel", None, None, None),
            Outcome::Forward(..) => ("forwarded", None, None, None),
        };
        let route = explained.route.map(|route| &*sites.route(route).name);
        RequestDecision {
            site: explained.site.map(|site| &*sites.site(site).name),
            route: route.map(|name| if name.is_empty() { "/*" } else { name }),
            outcome,
            status,
            location,
            pool,
        }
    }

    /// The listeners that a request may come to: the one with its name, else those with its port,
    /// and of these the ones of the client's address family.
    fn listeners(&self, request: &LoggedRequest<'_>) -> Vec<&'a PlannedListener> {
        let speaks = |planned: &&PlannedListener| may_speak(planned, request.secure);
        let named = self.listeners.get(request.listener);
        if let Some(known) = named.filter(|one| speaks(one)) {
            return vec![known];
        }
        let port_of_name = request.listener.rsplit_once(':');
        let Some(wanted) = port_of_name.and_then(|(_, port)| port.parse::<u16>().ok()) else {
            return Vec::new();
        };
        let mut fitting: Vec<_> = self
            .assembly
            .listeners
            .iter()
            .filter(|planned| port(&planned.address) == Some(wanted) && speaks(planned))
            .collect();
        let is_near = |planned: &&PlannedListener| match (&planned.address, request.client) {
            (ListenAddress::Ip(address), ClientAddress::Ip(client)) => {
                address.is_ipv4() == client.is_ipv4()
            }
            _ => true,
        };
        if fitting.iter().any(is_near) {
            fitting.retain(is_near);
        }
        fitting
    }
}

/// A pool by its name, or by its endpoints where it has none.
fn shown(pool: &EndpointPool) -> Cow<'_, str> {
    match &pool.name {
        Some(name) => Cow::Borrowed(name),
        None => {
            let endpoints = pool.endpoints.iter();
            let all: Vec<_> = endpoints.map(|one| one.addr.to_string()).collect();
            Cow::Owned(all.join(", "))
        }
    }
}
