//! `[tcp]` tables as listeners: one relay for all connections, or one for each name, with the sites
//! of the same address.

use std::sync::Arc;

use lockgate_config as config;
use lockgate_limits::RelayIndex;
use lockgate_net::tls::Acceptors;
use lockgate_proxy::downstream::{
    HelloMatch, ListenerService, ListenerSettings, RelayRoute, RelaySettings, SecureSites,
    SniRouter,
};
use lockgate_proxy::metrics::relay::RelayName;
use lockgate_proxy::shaping::Shape;
use lockgate_rules::{AcceptProxy, HostPattern};

use super::shared_states::SettingUser;
use super::sites;
use super::tls::Neighbours;
use super::{Assembler, DEFERRED, PlannedListener, address, options};

impl Assembler<'_> {
    /// The listener of a table.
    pub(super) fn listener(&mut self, tcp: &config::Tcp) -> Option<PlannedListener> {
        let user = SettingUser::relay(&tcp.name);
        let shape = tcp.shape.as_ref();
        let shape = shape.map(|shape| self.sites.guards.shape(user, shape));
        let (tls, service) = match &tcp.way {
            config::RelaySelection::Proxy(relay) => {
                let way = self.way(tcp, relay, (&tcp.name, None), shape.as_ref())?;
                (way.tls, ListenerService::Relay(way.relaying))
            }
            config::RelaySelection::Hello(by_hello) => (
                None,
                ListenerService::Sni(Box::new(self.by_hello(tcp, by_hello, shape.as_ref())?)),
            ),
        };
        let accept_proxy = tcp.accept_proxy;
        // Only where clients send first: elsewhere a server's greeting would be held up.
        let client_first = match &service {
            ListenerService::Relay(_) => tls.is_some() || accept_proxy == AcceptProxy::Require,
            ListenerService::Http(_) | ListenerService::Sni(_) => true,
        };
        let defer = client_first.then_some(DEFERRED);
        let mut alpn: Vec<String> = tcp
            .relays()
            .iter()
            .filter_map(|relay| relay.tls.as_ref())
            .flat_map(|tls| tls.alpn.clone())
            .collect();
        alpn.extend(sites::offered_alpn(&sites::tls_sites_at(self.config, tcp)));
        alpn.sort_unstable();
        alpn.dedup();
        let (name, handshake) = (tcp.name.clone(), tcp.timeouts.handshake);
        Some(PlannedListener {
            listener: Arc::new(ListenerSettings {
                name,
                tls,
                accept_proxy,
                handshake,
                service,
            }),
            address: address(&tcp.listen),
            options: options(&self.config.socket, defer),
            alpn,
            plain: Vec::new(),
            at: tcp.at.clone(),
        })
    }

    /// One relay; `user` is the name of a pool that has none of its own, `host` the server name that
    /// leads to it.
    fn way(
        &mut self,
        tcp: &config::Tcp,
        relay: &config::RelayDestination,
        (user, host): (&str, Option<&HostPattern>),
        shape: Option<&Arc<Shape>>,
    ) -> Option<RelayRoute> {
        let tls = relay.tls.as_ref().map(|tls| {
            let (mistakes, wanted) = (&mut self.mistakes, &mut self.wanted);
            self.rings
                .relay_acceptor(mistakes, &relay.at, tls, host, wanted)
        });
        let pool = self
            .pools
            .pool(&mut self.mistakes, self.config, relay.pool, user);
        let tls = match tls {
            None => None,
            Some(made) => Some(Acceptors::from(made?)),
        };
        let pool = pool?;
        let name = RelayName {
            listener: tcp.name.clone(),
            pool: pool.settings.name.clone(),
        };
        let index = self.relay_index(name);
        let relaying = RelaySettings {
            index,
            pool,
            proxy_protocol: relay.proxy_protocol,
            connect: tcp.timeouts.connect,
            idle: tcp.timeouts.tunnel_idle,
            keepalive: self.config.socket.keepalive,
            max_lifetime: tcp.max_lifetime,
            shape: shape.cloned(),
        };
        Some(RelayRoute { tls, relaying })
    }

    /// The index of the counters of a relay.
    fn relay_index(&mut self, name: RelayName) -> RelayIndex {
        let next = RelayIndex::new(self.relays.len());
        *self.relay_indexes.entry(name).or_insert_with_key(|name| {
            self.relays.push(name.clone());
            next
        })
    }

    fn by_hello(
        &mut self,
        tcp: &config::Tcp,
        written: &config::RelaysByHello,
        shape: Option<&Arc<Shape>>,
    ) -> Option<SniRouter> {
        let config::RelaysByHello { alpn, sni, default } = written;
        let alpn = alpn.iter().map(|(name, relay)| {
            (
                format!("{} {name}", tcp.name),
                HelloMatch::Protocol(name.clone().into_bytes()),
                relay,
            )
        });
        let sni = sni.iter().map(|(host, relay)| {
            (
                format!("{} {host}", tcp.name),
                HelloMatch::Name(host.clone()),
                relay,
            )
        });
        let default = default
            .iter()
            .map(|relay| (tcp.name.clone(), HelloMatch::Name(HostPattern::Any), relay));
        // Not lazily: the mistakes of all are reported at once.
        let ways: Vec<Option<_>> = alpn
            .chain(sni)
            .chain(default)
            .map(|(user, asked, relay)| {
                let host = match &asked {
                    HelloMatch::Name(host) => Some(host),
                    HelloMatch::Protocol(_) => None,
                };
                let way = self.way(tcp, relay, (&user, host), shape)?;
                Some((vec![asked], way))
            })
            .collect();
        let sites = self.sites_beside(tcp, written.default.is_none());
        Some(SniRouter::new(
            ways.into_iter().collect::<Option<_>>()?,
            sites?,
        ))
    }

    /// The sites on the address of a table, beside the names that it relays; with `others` they get
    /// every name that the table does not have.
    fn sites_beside(
        &mut self,
        tcp: &config::Tcp,
        others: bool,
    ) -> Option<Option<(Vec<HostPattern>, SecureSites)>> {
        let config = self.config;
        let sites = sites::tls_sites_at(config, tcp);
        if sites.is_empty() {
            return Some(None);
        }
        let hosts = sites.iter().flat_map(|one| &one.site.hosts).cloned();
        let hosts = hosts.chain(others.then_some(HostPattern::Any)).collect();
        Some(Some((
            hosts,
            self.secure_sites(&sites, Neighbours::Relays)?,
        )))
    }
}
