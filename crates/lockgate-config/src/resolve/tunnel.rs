//! `[tunnel."ADDR"]` tables: listeners, clients and targets.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use lockgate_rules::{Cidr, Directions, HostPattern, TargetName, TargetRule};

use crate::codes::Code;
use crate::keys::tls::TlsShort;
use crate::keys::{ConfigKey, top, tunnel};
use crate::model::{ListenAddr, TunnelListener};
use crate::source::SourceSpan;
use crate::tunnel_rule::TunnelRule;
use crate::values::{Items, Keyed, ShortOrLong};

use super::auth::basic;
use super::certificates::CertNames;
use super::route::limit_of;
use super::site::alpn;
use super::{Resolver, View};

/// The ports of a rule of `allow` that names none: others must be named.
const HTTPS: RangeInclusive<u16> = 443..=443;
/// The ports of requests that are forwarded without a tunnel.
const HTTP: RangeInclusive<u16> = 80..=80;
/// The ports of a rule of `deny` that names none: every one.
const EVERY: RangeInclusive<u16> = 1..=u16::MAX;

/// The clients of a proxy without a password, unless the table names others: addresses that no host
/// on the Internet has (RFC 1918, RFC 4193, RFC 3927). Not those that carriers share among their
/// customers (RFC 6598).
const NEIGHBOURS: [&str; 8] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];
/// The clients of Unix sockets that no PROXY header names.
const UNIX: &str = "0.0.0.0/32";

/// The addresses of cloud metadata services, which give away credentials over plain HTTP (AWS,
/// Azure, Google and others; AWS for containers; AWS over IPv6).
const METADATA: [&str; 3] = ["169.254.169.254", "169.254.170.2", "fd00:ec2::254"];
const METADATA_PORT: u16 = 80;

/// A network that has more addresses than one with this prefix is everybody.
const EVERYBODY: u8 = 8;

impl Resolver<'_> {
    /// Every listener that means something; the others have been reported.
    pub(super) fn tunnels(&mut self) -> Vec<TunnelListener> {
        let tables = self.root.value(&top::TUNNEL).into_iter().flatten();
        tables.map(|one| self.tunnel(one)).collect()
    }

    fn tunnel(&mut self, one: &Keyed<ListenAddr>) -> TunnelListener {
        let addr = &one.key;
        let view = View::of(&one.table);
        let by_permission = matches!(addr, ListenAddr::Unix(_));
        let tls = view.written(&tunnel::TLS);
        let secure = tls.is_some_and(|tls| !matches!(tls.value, ShortOrLong::Short(TlsShort::Off)));
        let protocols = self.protocols(&view.items(&tunnel::PROTOCOLS), secure);
        let mut tls = self.tls(&view, &tunnel::TLS, &one.at, &CertNames::none());
        if let Some(tls) = &mut tls {
            tls.alpn = protocols.iter().filter_map(alpn).collect();
        }
        let auth = basic(&view.section(&tunnel::AUTH));
        let clients = self.clients(&view, by_permission, auth.is_some());
        if auth.is_none()
            && let Some(written) = view.written(&tunnel::MAX_PER_USER)
            && written.value.is_some()
        {
            let why = "there are no users without `auth`";
            let cure = "add auth = { basic = \"/etc/lockgate/htpasswd\" }, or write max_per_client";
            self.no_effect("max_per_user", written.at, why, cure);
        }
        let shape = self.tunnel_shape(&view);
        if let (None, Some(shape)) = (&auth, &shape)
            && shape.value.per_user != Directions::default()
        {
            let why = "there are no users without `auth`";
            let cure = "add auth = { basic = \"/etc/lockgate/htpasswd\" }, or write per_client";
            self.no_effect("per_user", &shape.at, why, cure);
        }
        let forward = view.get(&tunnel::FORWARD);
        let usual = if forward {
            &[HTTPS, HTTP][..]
        } else {
            &[HTTPS]
        };
        let allow = match rules(&view, &tunnel::ALLOW, usual) {
            allow if allow.is_empty() => {
                vec![TargetRule {
                    named: TargetName::Host(HostPattern::Any),
                    ports: usual.to_vec(),
                }]
            }
            allow => allow,
        };
        let deny = rules(&view, &tunnel::DENY, &[EVERY]);
        let private = view.written(&tunnel::PRIVATE);
        if let Some(private) = private.filter(|private| *private.value) {
            self.metadata(private.at, &allow, &deny);
        }
        TunnelListener {
            name: one.name.clone(),
            at: one.at.clone(),
            listen: addr.clone(),
            tls,
            protocols,
            accept_proxy: self.accept_proxy(&view, &tunnel::ACCEPT_PROXY, by_permission),
            clients,
            allow,
            deny,
            private: view.get(&tunnel::PRIVATE),
            auth,
            limit: limit_of(&view),
            max_per_client: view.get(&tunnel::MAX_PER_CLIENT),
            max_per_user: view.get(&tunnel::MAX_PER_USER),
            max_lifetime: view.get(&tunnel::MAX_LIFETIME),
            max_bytes: view.get(&tunnel::MAX_BYTES),
            shape,
            proxy_protocol: view.get(&tunnel::PROXY_PROTOCOL),
            forward,
            dns_ttl: view.section(&tunnel::DNS).get(&tunnel::dns::TTL),
            timeouts: self.timeouts(&view, &tunnel::TIMEOUTS),
        }
    }

    /// The clients that may ask for tunnels.
    fn clients(&mut self, view: &View<'_>, by_permission: bool, asked: bool) -> Vec<Cidr> {
        if view.has(&tunnel::CLIENTS) {
            for (network, at) in view.items(&tunnel::CLIENTS).placed() {
                if !asked && network.prefix() < EVERYBODY {
                    self.open_proxy(at);
                }
            }
            return view.list(&tunnel::CLIENTS);
        }
        let unix = by_permission.then_some(UNIX);
        let networks = NEIGHBOURS
            .into_iter()
            .chain(unix)
            .filter_map(|network| Cidr::parse(network).ok());
        if asked {
            Vec::new()
        } else {
            networks.collect()
        }
    }

    /// Warns if a rule for many private addresses also allows the metadata service of a cloud.
    fn metadata(&mut self, at: &SourceSpan, allow: &[TargetRule], deny: &[TargetRule]) {
        let at_port = |rule: &&TargetRule| {
            rule.ports
                .iter()
                .any(|ports| ports.contains(&METADATA_PORT))
        };
        let has = |rule: &TargetRule, ip: IpAddr| matches!(&rule.named, TargetName::Network(network) if network.contains(ip));
        let open: Vec<&str> = METADATA
            .into_iter()
            .filter(|address| {
                let Ok(ip) = address.parse::<IpAddr>() else {
                    return false;
                };
                let mut allow = allow.iter().filter(at_port);
                let mut deny = deny.iter().filter(at_port);
                // A rule for little more than the address is meant as it is written.
                let meant = |rule: &TargetRule| match &rule.named {
                    TargetName::Network(network) => {
                        network.prefix() < if ip.is_ipv4() { 24 } else { 64 }
                    }
                    TargetName::Host(_) => false,
                };
                let any =
                    |rule: &TargetRule| matches!(&rule.named, TargetName::Host(HostPattern::Any));
                allow.any(|rule| any(rule) || has(rule, ip) && meant(rule))
                    && !deny.any(|rule| any(rule) || has(rule, ip))
            })
            .collect();
        if open.is_empty() {
            return;
        }
        let message = "tunnels may lead to the metadata service of a cloud";
        let why = format!(
            "the service at {} gives this machine's credentials to every client",
            open.join(", ")
        );
        let listed: Vec<String> = open
            .iter()
            .map(|address| format!("\"{address}\""))
            .collect();
        let cure = format!(
            "add deny = [{}], or allow only the networks that are meant",
            listed.join(", ")
        );
        self.report
            .push_at(Code::MetadataReachable, at, message, &why, &cure);
    }

    fn open_proxy(&mut self, at: &SourceSpan) {
        let message = "every client may use this proxy";
        let why = "without `auth`, any client can use it in your name";
        let cure = "add auth = { basic = \"/etc/lockgate/htpasswd\" }, or name the networks of your clients";
        self.report.push_at(Code::OpenProxy, at, message, why, cure);
    }
}

fn rules(
    view: &View<'_>,
    key: &ConfigKey<Items<TunnelRule>>,
    without: &[RangeInclusive<u16>],
) -> Vec<TargetRule> {
    let rule = |rule: TunnelRule| TargetRule {
        named: rule.named,
        ports: rule.ports.unwrap_or_else(|| without.to_vec()),
    };
    view.list(key).into_iter().map(rule).collect()
}
