//! Tunnels as they run: each listener is a site for any host with one route, which opens tunnels.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use lockgate_config as config;
use lockgate_http::forwarding::ForwardedClient;
use lockgate_limits::{KeyedLimit, PerClient, PoolIndex};
use lockgate_net::name_cache::NameCache;
use lockgate_net::tls::AcceptorIndex;
use lockgate_proxy::action::forward_proxy::{Connect, Forward};
use lockgate_proxy::action::proxy::Proxy;
use lockgate_proxy::admit::networks::Networks;
use lockgate_proxy::admit::targets::TunnelTargets;
use lockgate_proxy::downstream::{ListenerService, ListenerSettings};
use lockgate_proxy::exchange::TunnelLimits;
use lockgate_proxy::metrics::http::SiteIndex;
use lockgate_proxy::route::{self, RouteIndex, Router, SiteRoutes};
use lockgate_proxy::rules::RouteRules;
use lockgate_proxy::site::{self, Action, Admission, Gatekeeper};
use lockgate_rules::{HeaderOp, HeaderRule, HeaderRules, HostPattern, Pattern, SiteLog};

use super::certificates::ObtainedCerts;
use super::shared_states::SettingUser;
use super::sites::served;
use super::{Assembler, DEFERRED, PlannedListener, address, options, rules};

/// Names that one client may have looked up at once: half of the look-ups that may hang before all
/// wait. A browser that opens with all of its tabs needs fewer.
const LOOK_UPS: usize = 32;

/// The state that tunnels share, and that of each.
pub(super) struct AssembledTunnels<'a> {
    previous: &'a ReusableTunnels,
    made: ReusableTunnels,
}

/// The state of tunnels that the next assembly may take over.
#[derive(Default)]
pub(super) struct ReusableTunnels {
    /// The look-ups of names, which the tunnels of all listeners share.
    lookups: Option<(Arc<NameCache>, Arc<PerClient>)>,
    /// The tunnels of each client, by the listener's name.
    per_client: SizedLimits<IpAddr>,
    /// The tunnels of each user, likewise.
    per_user: SizedLimits<Arc<str>>,
}

/// Limits with their sizes.
type SizedLimits<K> = HashMap<String, (usize, Arc<KeyedLimit<K>>)>;

impl<'a> AssembledTunnels<'a> {
    /// Tunnels with the state of `previous` that their listeners still have.
    pub(super) fn after(previous: &'a ReusableTunnels) -> Self {
        let made = ReusableTunnels {
            lookups: previous.lookups.clone(),
            ..ReusableTunnels::default()
        };
        Self { previous, made }
    }

    pub(super) fn into_reusable(self) -> ReusableTunnels {
        self.made
    }
}

/// The limit of a listener: the running one, which gets its size when the assembly runs, or a new
/// one.
fn keyed_limit<K: Hash + Eq + Clone>(
    previous: &SizedLimits<K>,
    made: &mut SizedLimits<K>,
    listener: &str,
    size: usize,
) -> Arc<KeyedLimit<K>> {
    let running = previous.get(listener);
    let limit = running.map_or_else(|| KeyedLimit::new(size), |(_, limit)| Arc::clone(limit));
    made.insert(listener.to_owned(), (size, Arc::clone(&limit)));
    limit
}

impl ReusableTunnels {
    /// Sets the sizes of limits that were taken over.
    pub(super) fn set_sizes(&self) {
        self.per_client
            .values()
            .for_each(|(size, limit)| limit.resize(*size));
        self.per_user
            .values()
            .for_each(|(size, limit)| limit.resize(*size));
    }
}

impl Assembler<'_> {
    /// A listener of tunnels; `index` is that of its requests among the sites of the process.
    pub(super) fn tunnel(
        &mut self,
        tunnel: &config::TunnelListener,
        index: SiteIndex,
    ) -> Option<PlannedListener> {
        let config = self.config;
        let tls = tunnel.tls.as_ref().map(|tls| {
            self.rings.acceptor(
                &mut self.mistakes,
                &tunnel.at,
                tls,
                ObtainedCerts::default(),
            )
        });
        let auth = match &tunnel.auth {
            Some(auth) => self.sites.guards.basic(&mut self.mistakes, auth).map(Some),
            None => Some(None),
        };
        let tls = match tls {
            None => None,
            Some(tls) => Some(tls?.into()),
        };
        let auth = auth?.map(|auth| {
            site::Auth::Basic(site::BasicAuthCheck {
                to: Gatekeeper::Proxy,
                ..auth
            })
        });
        let user = || SettingUser::tunnel(&tunnel.name);
        let limit = tunnel
            .limit
            .as_ref()
            .map(|limit| self.sites.guards.limit(user(), limit));
        let shape = tunnel.shape.as_ref();
        let shape = shape.map(|shape| self.sites.guards.shape(user(), shape));
        let networks = Networks::new(&tunnel.clients, &[]);
        let route = site::Route {
            name: String::new(),
            action: Action::Connect(Box::new(self.connect(tunnel))),
            admission: Admission {
                networks,
                limit: limit.map(Box::new),
                auth,
            },
            rules: RouteRules {
                shape,
                ..self.forwarded(tunnel)
            },
        };
        let rule = route::RouteEntry {
            method: None,
            pattern: Pattern::everything(),
            value: RouteIndex::new(0),
        };
        let any = SiteRoutes {
            hosts: vec![HostPattern::Any],
            routes: vec![rule],
        };
        let (router, _) = Router::build(vec![any]).ok()?;
        let site = site::Site {
            name: tunnel.name.clone(),
            index,
            log: SiteLog::Shared,
            pages: Arc::default(),
            acceptor_index: AcceptorIndex::new(0),
            maintenance: self.sites.maintenance_of(&tunnel.name),
        };
        let sites = site::ListenerSites {
            tunnels: true,
            http1: tunnel.protocols.contains(&config::Protocol::Http1),
            h2c: tunnel.protocols.contains(&config::Protocol::H2c),
            ..served(config, router, vec![site], vec![route])
        };
        let listener = ListenerSettings {
            name: tunnel.name.clone(),
            tls,
            accept_proxy: tunnel.accept_proxy,
            handshake: tunnel.timeouts.handshake,
            service: ListenerService::Http(Box::new(sites)),
        };
        Some(PlannedListener {
            listener: Arc::new(listener),
            address: address(&tunnel.listen),
            // Clients send first, with TLS and without.
            options: options(&config.socket, Some(DEFERRED)),
            alpn: tunnel
                .tls
                .iter()
                .flat_map(|tls| tls.alpn.iter().cloned())
                .collect(),
            plain: if tunnel.tls.is_none() {
                tunnel.protocols.clone()
            } else {
                Vec::new()
            },
            at: tunnel.at.clone(),
        })
    }

    /// The rules of forwarded requests: fields between a client and its proxy are removed (RFC 9110
    /// §11.7).
    fn forwarded(&self, tunnel: &config::TunnelListener) -> RouteRules {
        let bare = rules::defaults(self.config.rates);
        if !tunnel.forward {
            return bare;
        }
        let without = |names: &[&str]| {
            let remove = |name: &&str| HeaderRule {
                name: name.as_bytes().to_vec(),
                op: HeaderOp::Remove,
            };
            HeaderRules::new(names.iter().map(remove)).expect("each of them may be removed")
        };
        RouteRules {
            request_headers: without(&["proxy-authorization", "proxy-authenticate"]),
            headers: without(&["proxy-authenticate", "proxy-authentication-info"]),
            ..bare
        }
    }

    fn connect(&mut self, tunnel: &config::TunnelListener) -> Connect {
        let AssembledTunnels { previous, made } = &mut self.tunnels;
        let (names, look_ups) = made
            .lookups
            .get_or_insert_with(|| (NameCache::new(), PerClient::new(LOOK_UPS)))
            .clone();
        let per_client = tunnel.max_per_client.map(|size| {
            keyed_limit(
                &previous.per_client,
                &mut made.per_client,
                &tunnel.name,
                size,
            )
        });
        let per_user = tunnel
            .max_per_user
            .map(|size| keyed_limit(&previous.per_user, &mut made.per_user, &tunnel.name, size));
        Connect {
            targets: TunnelTargets::new(&tunnel.allow, &tunnel.deny, tunnel.private),
            names,
            fresh: tunnel.dns_ttl,
            connect: tunnel.timeouts.connect,
            tunnel_limits: TunnelLimits {
                idle: tunnel.timeouts.tunnel_idle,
                keepalive: self.config.socket.keepalive,
                lifetime: tunnel.max_lifetime,
                bytes: tunnel.max_bytes,
            },
            proxy_protocol: tunnel.proxy_protocol,
            look_ups,
            per_client,
            per_user,
            forward: tunnel.forward.then(|| Forward {
                proxy: Proxy {
                    // No pool has this index: each request has a pool of its own.
                    pool: PoolIndex::new(usize::MAX),
                    connect: tunnel.timeouts.connect,
                    response: tunnel.timeouts.response,
                    whole: None,
                    tunnel_idle: tunnel.timeouts.tunnel_idle,
                },
                client: ForwardedClient::anonymous(),
            }),
        }
    }
}
