//! Which server answers for a host, and which servers only lead to HTTPS.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::listen::{NginxListen, NginxNames};
use super::scope::NginxScope;
use super::syntax::NginxDirective;

/// A server with what decides about its requests.
pub(super) struct NginxServer<'a> {
    pub(super) block: &'a NginxDirective,
    pub(super) scope: NginxScope<'a>,
    pub(super) listens: Vec<NginxListen<'a>>,
    pub(super) names: NginxNames<'a>,
}

impl NginxServer<'_> {
    pub(super) fn on(&self, port: u16) -> impl Iterator<Item = &NginxListen<'_>> {
        self.listens
            .iter()
            .filter(move |listen| listen.port == port && listen.unix.is_none())
    }
}

/// Whether a server on port 80 only leads `host` to HTTPS under the same name.
pub(super) fn leads_to_https(server: &NginxServer<'_>, host: &str) -> bool {
    let first = server.names.hosts.first().map_or("", String::as_str);
    let same = |text: &str| {
        let Some(rest) = text.strip_prefix("https://") else {
            return false;
        };
        ["$host", "${host}", "$http_host", "$server_name", host]
            .iter()
            .any(|name| {
                let fits = *name != "$server_name" || first == host;
                fits && rest.strip_prefix(name).is_some_and(|rest| {
                    let rest = rest.strip_prefix(":443").unwrap_or(rest);
                    matches!(
                        rest,
                        "$request_uri"
                            | "$uri"
                            | "$uri$is_args$args"
                            | "$request_uri?"
                            | "/$1"
                            | "$1"
                            | "/$request_uri"
                            | "${request_uri}"
                    )
                })
            })
    };
    let returns = |block: &[NginxDirective]| {
        block.iter().any(|d| {
            d.name == "return"
                && matches!(d.arg(0), "301" | "302" | "307" | "308")
                && same(d.arg(1))
                || d.name == "return" && d.args.len() == 1 && same(d.arg(0))
                || d.name == "rewrite"
                    && same(d.arg(1))
                    && super::answer::matches_all(d.arg(0)).is_some()
        })
    };
    let block = server.block.children();
    let mut locations = block.iter().filter(|d| d.name == "location");
    let by_condition = block.iter().any(|d| {
        let text = d.args.join(" ");
        let text = text.trim_matches(['(', ')', ' ']).replace(['"', '\''], "");
        d.name == "if"
            && (text == format!("$host = {host}")
                || text.starts_with("$scheme")
                || text.starts_with("$https"))
            && returns(d.children())
    });
    if by_condition || returns(block) {
        return true;
    }
    match (locations.next(), locations.next()) {
        (Some(only), None) => only.args == ["/"] && returns(only.children()),
        _ => false,
    }
}

/// Which server answers for a host, by port.
pub(super) struct NginxHosts<'s> {
    pub(super) exact: BTreeMap<(u16, &'s str), usize>,
    pub(super) wild: BTreeMap<(u16, &'s str), usize>,
    /// The server for unknown hosts.
    pub(super) default: BTreeMap<u16, usize>,
}

impl<'s> NginxHosts<'s> {
    pub(super) fn new(all: &'s [NginxServer<'_>]) -> Self {
        let mut this = Self {
            exact: BTreeMap::new(),
            wild: BTreeMap::new(),
            default: BTreeMap::new(),
        };
        let mut explicit = BTreeSet::new();
        for (at, server) in all.iter().enumerate() {
            for listen in server.listens.iter().filter(|l| l.unix.is_none()) {
                for host in &server.names.hosts {
                    let map = match host.strip_prefix('*') {
                        Some(_) => &mut this.wild,
                        None => &mut this.exact,
                    };
                    map.entry((listen.port, host.as_str())).or_insert(at);
                }
                if listen.default && explicit.insert(listen.port) {
                    this.default.insert(listen.port, at);
                }
                this.default.entry(listen.port).or_insert(at);
            }
        }
        this
    }

    pub(super) fn serving(&self, port: u16, host: &str) -> Option<usize> {
        if let Some(at) = self
            .exact
            .get(&(port, host))
            .or_else(|| self.wild.get(&(port, host)))
        {
            return Some(*at);
        }
        let mut rest = host.strip_prefix("*.").unwrap_or(host);
        while let Some((_, domain)) = rest.split_once('.') {
            if let Some(at) = self.wild.get(&(port, format!("*.{domain}").as_str())) {
                return Some(*at);
            }
            rest = domain;
        }
        self.default.get(&port).copied()
    }

    pub(super) fn default_of(&self, port: u16) -> Option<usize> {
        self.default.get(&port).copied()
    }
}

/// For each host on 443: whether plain HTTP leads to it.
pub(super) fn merged_redirects(
    all: &[NginxServer<'_>],
    index: &NginxHosts<'_>,
) -> BTreeSet<(usize, String)> {
    let mut merged = BTreeSet::new();
    for server in all {
        if !server.on(443).any(|listen| listen.tls) {
            continue;
        }
        for host in &server.names.hosts {
            if let Some(at) = index.serving(80, host)
                && let Some(found) = all.get(at)
                && (leads_to_https(found, host) || std::ptr::eq(found.block, server.block))
            {
                merged.insert((at, host.clone()));
            }
        }
    }
    merged
}

/// The servers on 443 that are written without a port: nothing else answers their hosts on 80.
pub(super) fn bare_servers(
    all: &[NginxServer<'_>],
    index: &NginxHosts<'_>,
    merged: &BTreeSet<(usize, String)>,
) -> Vec<bool> {
    // Port 80 on TLS leaves no place for a redirect.
    let free = !all
        .iter()
        .any(|server| server.on(80).any(|listen| listen.tls));
    all.iter()
        .map(|server| {
            free && server
                .names
                .hosts
                .iter()
                .all(|host| match index.serving(80, host) {
                    None => true,
                    Some(at) => merged.contains(&(at, host.clone())),
                })
        })
        .collect()
}

/// A real domain, not a name for any host.
pub(super) fn is_domain(host: &str) -> bool {
    host.contains('.') && host.parse::<IpAddr>().is_err()
}

/// What all servers together decide.
pub(super) struct NginxWorld<'w, 'a> {
    pub(super) all: &'w [NginxServer<'a>],
    pub(super) hosts: &'w NginxHosts<'w>,
    pub(super) bare: &'w [bool],
    pub(super) merged: &'w BTreeSet<(usize, String)>,
    pub(super) catch_needed: bool,
    pub(super) on_80: bool,
}

impl NginxWorld<'_, '_> {
    /// The number of servers with TLS on a port. It is asked for catch-all servers alone.
    pub(super) fn tls_servers(&self, port: u16) -> usize {
        let with_tls = |server: &&NginxServer<'_>| server.on(port).any(|listen| listen.tls);
        self.all.iter().filter(with_tls).take(2).count()
    }
}

/// Whether a server that is the default of a port stands for every host there.
pub(super) fn answers_all(all: &[NginxServer<'_>], at: usize, port: u16) -> bool {
    all.get(at).is_some_and(|server| {
        server.on(port).any(|listen| listen.default)
            || !server.names.hosts.iter().any(|host| is_domain(host))
    })
}

/// Whether the host's site on 443 is written without a port.
pub(super) fn bare_host(world: &NginxWorld<'_, '_>, host: &str) -> bool {
    let found = world
        .hosts
        .exact
        .get(&(443, host))
        .or_else(|| world.hosts.wild.get(&(443, host)));
    let Some(at) = found.copied() else {
        return false;
    };
    let tls = world
        .all
        .get(at)
        .is_some_and(|s| s.on(443).any(|listen| listen.tls));
    let nameless = world.hosts.default_of(443) == Some(at) && answers_all(world.all, at, 443);
    tls && world.bare.get(at).copied().unwrap_or(false) && !nameless
}
