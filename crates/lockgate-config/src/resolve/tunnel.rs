//! `[tunnel."ADDR"]` tables.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::check::{Checked, Id, Keyed, Value};
use crate::codes::Code;
use crate::keys;
use crate::model::{Cidr, Host, ListenAddr, TargetName, TargetRule, Tunnel};
use crate::place::At;

use super::auth::basic;
use super::route::limit;
use super::site::alpn;
use super::{Resolver, View};

/// What a rule of `allow` is about that says no port: what may be talked to must be said.
const HTTPS: RangeInclusive<u16> = 443..=443;
/// And what is forwarded without a tunnel.
const HTTP: RangeInclusive<u16> = 80..=80;
/// And one of `deny`.
const EVERY: RangeInclusive<u16> = 1..=u16::MAX;

/// Who may use a proxy that asks for no password, unless more is said: addresses that nobody on the
/// Internet has (RFC 1918, RFC 4193, RFC 3927). Not those that carriers share among their customers
/// (RFC 6598).
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
/// Whoever comes by a Unix socket, and is not named by a PROXY header.
const UNIX: &str = "0.0.0.0/32";

/// Where machines in clouds ask for their metadata, credentials among them, over plain HTTP (AWS,
/// Azure, Google and others; AWS for containers; AWS over IPv6).
const METADATA: [&str; 3] = ["169.254.169.254", "169.254.170.2", "fd00:ec2::254"];
const METADATA_PORT: u16 = 80;

/// A network that has more addresses than one with this prefix is everybody.
const EVERYBODY: u8 = 8;

impl Resolver<'_> {
    /// Every listener that means something; the others have been reported.
    pub(super) fn tunnels(&mut self) -> Vec<Tunnel> {
        let tables = self.tables("tunnel");
        tables.iter().filter_map(|one| self.tunnel(one)).collect()
    }

    fn tunnel(&mut self, one: &Keyed) -> Option<Tunnel> {
        let Id::Address(addr) = &one.id else {
            return None;
        };
        let keys = keys::find(keys::ROOT, "tunnel").and_then(|key| key.kind.table())?;
        let view = View {
            keys,
            layers: vec![&one.table],
        };
        let by_permission = matches!(addr, ListenAddr::Unix(_));
        let secure = matches!(view.written("tls"), Some(Checked { value, .. }) if !matches!(value, Value::Bool(_)));
        let protocols = self.protocols(&view, secure);
        let mut tls = self.tls(&view, &one.at);
        if let Some(tls) = &mut tls {
            tls.alpn = protocols.iter().filter_map(alpn).collect();
        }
        let auth = basic(&view.section("auth"));
        let clients = self.clients(&view, by_permission, auth.is_some());
        if auth.is_none()
            && let Some(written) = view.written("max_per_user")
            && matches!(written.value, Value::Integer(_))
        {
            let why = "there are no users without `auth`";
            let cure = "add auth = { basic = \"/etc/lockgate/htpasswd\" }, or write max_per_client";
            self.report.push_at(
                Code::NoEffect,
                &written.at,
                "`max_per_user` has no effect",
                why,
                cure,
            );
        }
        let shape = self.shape(&view);
        if let (None, Some(shape)) = (&auth, &shape)
            && !shape.per_user.is_empty()
        {
            let why = "there are no users without `auth`";
            let cure = "add auth = { basic = \"/etc/lockgate/htpasswd\" }, or write per_client";
            self.report.push_at(
                Code::NoEffect,
                &shape.at,
                "`per_user` has no effect",
                why,
                cure,
            );
        }
        let forward = view.on("forward");
        let usual = if forward {
            &[HTTPS, HTTP][..]
        } else {
            &[HTTPS]
        };
        let allow = match rules(&view, "allow", usual) {
            allow if allow.is_empty() => {
                vec![TargetRule {
                    named: TargetName::Host(Host::Any),
                    ports: usual.to_vec(),
                }]
            }
            allow => allow,
        };
        let deny = rules(&view, "deny", &[EVERY]);
        if let Some(private) = view.written("private").filter(|_| view.on("private")) {
            self.metadata(&private.at, &allow, &deny);
        }
        Some(Tunnel {
            name: one.name.clone(),
            at: one.at.clone(),
            listen: addr.clone(),
            tls,
            protocols,
            accept_proxy: self.accept_proxy(&view, by_permission),
            clients,
            allow,
            deny,
            private: view.on("private"),
            auth,
            limit: limit(&view),
            max_per_client: view.count("max_per_client"),
            max_per_user: view.count("max_per_user"),
            max_lifetime: view.limit("max_lifetime"),
            max_bytes: match view.value("max_bytes") {
                Value::Size(bytes) => Some(bytes),
                _ => None,
            },
            shape,
            proxy_protocol: view.proxy_version("proxy_protocol"),
            forward,
            dns_ttl: view.section("dns").duration("ttl"),
            timeouts: self.timeouts(&view),
        })
    }

    /// Who may come.
    fn clients(&mut self, view: &View<'_>, by_permission: bool, asked: bool) -> Vec<Cidr> {
        if view.mentions("clients") {
            for item in view.list("clients") {
                if let (Value::Network(network), false) = (&item.value, asked)
                    && network.prefix() < EVERYBODY
                {
                    self.open_proxy(&item.at);
                }
            }
            return view.networks("clients");
        }
        let unix = by_permission.then_some(UNIX);
        let networks = NEIGHBOURS
            .into_iter()
            .chain(unix)
            .filter_map(|network| network.parse().ok());
        if asked {
            Vec::new()
        } else {
            networks.collect()
        }
    }

    /// Warns where tunnels to private addresses are meant in general, and lead to the metadata of a
    /// cloud as well.
    fn metadata(&mut self, at: &At, allow: &[TargetRule], deny: &[TargetRule]) {
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
                let any = |rule: &TargetRule| matches!(&rule.named, TargetName::Host(Host::Any));
                allow.any(|rule| any(rule) || has(rule, ip) && meant(rule))
                    && !deny.any(|rule| any(rule) || has(rule, ip))
            })
            .collect();
        if open.is_empty() {
            return;
        }
        let message = "tunnels may lead to the metadata service of a cloud";
        let why = format!(
            "it gives credentials of this machine to whoever asks at {}",
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

    fn open_proxy(&mut self, at: &At) {
        let message = "everybody may use this proxy";
        let why = "without `auth`, whoever finds it acts in your name";
        let cure = "add auth = { basic = \"/etc/lockgate/htpasswd\" }, or name the networks of your clients";
        self.report.push_at(Code::OpenProxy, at, message, why, cure);
    }
}

fn rules(view: &View<'_>, name: &str, without: &[RangeInclusive<u16>]) -> Vec<TargetRule> {
    let rule = |item: Checked| match item.value {
        Value::TunnelRule(rule) => {
            let ports = rule.ports.unwrap_or_else(|| without.to_vec());
            Some(TargetRule {
                named: rule.named,
                ports,
            })
        }
        _ => None,
    };
    view.list(name).into_iter().filter_map(rule).collect()
}
