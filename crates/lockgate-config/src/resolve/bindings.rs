//! The addresses that are bound: which tables may share one, and which host is served by which
//! site.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use lockgate_rules::{AcceptProxy, HostPattern};

use crate::address::ListenAddr;
use crate::codes::Code;
use crate::keys::top;
use crate::model::{Config, HostedSite, Protocol, SiteListener, Tcp};
use crate::source::SourceSpan;

use super::Resolver;

/// One address that something is served on.
struct Binding<'a> {
    addr: ListenAddr,
    at: SourceSpan,
    user: AddressUser<'a>,
}

/// The table that an address is bound for, or the metrics or the admin socket.
#[derive(Clone, Copy)]
enum AddressUser<'a> {
    Metrics,
    Admin,
    /// `None` for a table with a mistake, which has been reported.
    Tcp(Option<&'a Tcp>),
    Tunnel,
    Site(&'a HostedSite, &'a SiteListener),
}

/// The cure for a site's redirect on an address that another table needs.
const NO_REDIRECT: &str = "write the port into the key of the site, as in \"example.com:443\": then it has no redirect; or give the other table \
     another port, or ports = { http = 8080 } at the top";

impl Resolver<'_> {
    /// The two implied ports are one: TLS and plain HTTP cannot share it.
    pub(super) fn same_port(&mut self) {
        let ports = self.shared.ports;
        let Some(entry) = self.root.entry(&top::PORTS) else {
            return;
        };
        if ports.http == ports.https && ports.http != 0 {
            let message = format!("`http` and `https` are both {}", ports.http);
            let cure = "give them two ports";
            self.report.push_at(
                Code::SameAddress,
                &entry.at,
                message,
                "one speaks TLS, the other does not",
                cure,
            );
        }
    }

    /// Every two tables, or a table and the metrics or the admin socket, that cannot both be bound;
    /// the later one is marked.
    pub(super) fn same_address(&mut self, config: &Config) {
        let mut bound: Vec<Binding<'_>> = Vec::new();
        if let (Some(metrics), Some(at)) = (&config.metrics, self.root.key_at(&top::METRICS)) {
            bound.push(Binding {
                addr: metrics.at.clone(),
                at: at.clone(),
                user: AddressUser::Metrics,
            });
        }
        let admin = config.admin.as_ref().and_then(|admin| admin.at.clone());
        if let (Some(path), Some(at)) = (admin, self.root.key_at(&top::ADMIN)) {
            bound.push(Binding {
                addr: ListenAddr::Unix(path),
                at: at.clone(),
                user: AddressUser::Admin,
            });
        }
        let mut tables: Vec<Binding<'_>> = Vec::new();
        for one in self.root.value(&top::TCP).into_iter().flatten() {
            let tcp = config.tcp.iter().find(|tcp| tcp.at.rank() == one.at.rank());
            tables.push(Binding {
                addr: one.key.clone(),
                at: one.at.clone(),
                user: AddressUser::Tcp(tcp),
            });
        }
        for one in self.root.value(&top::TUNNEL).into_iter().flatten() {
            tables.push(Binding {
                addr: one.key.clone(),
                at: one.at.clone(),
                user: AddressUser::Tunnel,
            });
        }
        for site in &config.sites {
            for listen in &site.listen {
                tables.push(Binding {
                    addr: listen.addr.clone(),
                    at: site.at.clone(),
                    user: AddressUser::Site(site, listen),
                });
            }
        }
        tables.sort_by_key(|binding| binding.at.rank());
        bound.extend(tables);
        // A conflict needs the same port or path, so only those are compared.
        let mut by_port: BTreeMap<String, Vec<&Binding<'_>>> = BTreeMap::new();
        // The site of each host on an address: many sites may share one address.
        let mut hosts: HashMap<(&ListenAddr, bool, &HostPattern), (&SourceSpan, &SourceSpan)> =
            HashMap::with_capacity(bound.len());
        for binding in &bound {
            let rivals = by_port.entry(port_or_path(&binding.addr)).or_default();
            let first = rivals.iter().find(|rival| !self.share(rival, binding));
            if let Some(first) = first {
                self.cannot_share(first, binding);
            }
            // Of those that share an address one stands for all.
            if first.is_some() || !rivals.iter().any(|rival| same_kind(rival, binding)) {
                rivals.push(binding);
            }
            for (host, secure, at) in served_hosts(binding) {
                let (table, first) = match hosts.entry((&binding.addr, secure, host)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(free) => {
                        free.insert((&binding.at, at));
                        continue;
                    }
                };
                if table.rank() != binding.at.rank() && !self.was_reported(Code::SameHost, at) {
                    let message = match host {
                        HostPattern::Any => format!(
                            "every other name is served by two tables on {}",
                            binding.addr
                        ),
                        host => format!("{host} is served by two tables on {}", binding.addr),
                    };
                    let cure = "keep one of them, or give one another port";
                    let texts = (message, "this is the second table with this host", cure);
                    self.report
                        .push_pair(Code::SameHost, at, texts, (first, "here"));
                }
            }
        }
    }

    /// Whether both can be bound, be it by one listener for both.
    fn share(&self, first: &Binding<'_>, second: &Binding<'_>) -> bool {
        if !first.addr.conflicts(&second.addr) {
            return true;
        }
        let same = first.addr == second.addr;
        match (first.user, second.user) {
            (AddressUser::Site(a, one), AddressUser::Site(b, other)) => {
                same && one.secure == other.secure
                    && a.accept_proxy == b.accept_proxy
                    && same_protocols(first, second)
            }
            // Two that speak TLS are told apart by the name that a client asks for. A relay that is
            // a mistake has been reported.
            (AddressUser::Tcp(relay), AddressUser::Site(site, listener))
            | (AddressUser::Site(site, listener), AddressUser::Tcp(relay))
                if listener.secure =>
            {
                relay.is_none_or(|tcp| {
                    same && tcp.by_hello().is_some() && tcp.accept_proxy == site.accept_proxy
                })
            }
            _ => false,
        }
    }

    fn cannot_share(&mut self, first: &Binding<'_>, second: &Binding<'_>) {
        let (first, second) = if first.at.rank() > second.at.rank() {
            (second, first)
        } else {
            (first, second)
        };
        // Sites that share several addresses disagree once.
        if first.same_table(second) || self.is_reported(&second.at) {
            return;
        }
        let addr = &second.addr;
        let message = "two listeners have the same address".to_owned();
        let bound = "it is bound already";
        let (code, message, why, cure, label) = match (first.user, second.user) {
            (AddressUser::Site(_, one), AddressUser::Site(_, other))
                if one.secure != other.secure =>
            {
                let message = format!("TLS and plain HTTP on {addr}");
                let cure = "write tls in both, or tls = false in both, or give one another port";
                let (why, label) = (tls_label(other.secure), tls_label(one.secure));
                (Code::SameAddress, message, why, cure, label)
            }
            (AddressUser::Site(a, _), AddressUser::Site(b, _))
                if a.accept_proxy != b.accept_proxy =>
            {
                let message = format!("two sites on {addr} disagree about `accept_proxy`");
                let cure = "write the same accept_proxy in both, or give one another port";
                let [why, label] = [b, a].map(|site| proxy_header_label(site.accept_proxy));
                (Code::Disagree, message, why, cure, label)
            }
            (AddressUser::Site(a, _), AddressUser::Site(b, _))
                if first.addr == second.addr && !same_protocols(first, second) =>
            {
                let message = format!("two sites on {addr} disagree about `protocols`");
                let cure = "write the same protocols in both, or give one another port";
                let [why, label] = [b, a].map(|site| protocol_label(&site.protocols));
                (Code::Disagree, message, why, cure, label)
            }
            (AddressUser::Tcp(Some(tcp)), AddressUser::Site(site, listener))
            | (AddressUser::Site(site, listener), AddressUser::Tcp(Some(tcp)))
                if listener.secure && tcp.by_hello().is_some() && first.addr == second.addr =>
            {
                let message =
                    format!("a site and names of [tcp] on {addr} disagree about `accept_proxy`");
                let cure = "write the same accept_proxy in both, or give one another port";
                let mut labels = [site.accept_proxy, tcp.accept_proxy].map(proxy_header_label);
                if matches!(second.user, AddressUser::Tcp(_)) {
                    labels.reverse();
                }
                let [why, label] = labels;
                (Code::Disagree, message, why, cure, label)
            }
            (AddressUser::Site(_, listener), _) if listener.redirects => {
                let label = "by the redirect of this site from plain HTTP";
                (Code::SameAddress, message, bound, NO_REDIRECT, label)
            }
            (_, AddressUser::Site(_, listener)) if listener.redirects => {
                let why = "its redirect from plain HTTP needs an address that is bound already";
                (Code::SameAddress, message, why, NO_REDIRECT, "by this one")
            }
            _ => {
                let cure = "give one of them another port, or merge the two tables";
                (Code::SameAddress, message, bound, cure, "by this one")
            }
        };
        self.report
            .push_pair(code, &second.at, (message, why, cure), (&first.at, label));
    }

    fn is_reported(&self, at: &SourceSpan) -> bool {
        self.was_reported(Code::SameAddress, at) || self.was_reported(Code::Disagree, at)
    }
}

impl Binding<'_> {
    fn same_table(&self, other: &Binding<'_>) -> bool {
        self.at.rank() == other.at.rank()
    }
}

/// The hosts that a table serves itself on its address, whether over TLS, and where that was
/// written.
fn served_hosts<'a>(binding: &'a Binding<'a>) -> Vec<(&'a HostPattern, bool, &'a SourceSpan)> {
    match binding.user {
        AddressUser::Site(site, listener) if !listener.redirects => {
            let hosts = site.hosts.iter();
            hosts
                .map(|host| (host, listener.secure, &binding.at))
                .collect()
        }
        AddressUser::Tcp(Some(tcp)) => {
            let Some(by_hello) = tcp.by_hello() else {
                return Vec::new();
            };
            let names = by_hello
                .sni
                .iter()
                .map(|(host, relay)| (host, true, &relay.at));
            let default = by_hello
                .default
                .iter()
                .map(|relay| (&HostPattern::Any, true, &relay.at));
            names.chain(default).collect()
        }
        AddressUser::Metrics
        | AddressUser::Admin
        | AddressUser::Tunnel
        | AddressUser::Tcp(None)
        | AddressUser::Site(..) => Vec::new(),
    }
}

/// Whether the second adds nothing to what the first is compared with.
fn same_kind(first: &Binding<'_>, second: &Binding<'_>) -> bool {
    match (first.user, second.user) {
        (AddressUser::Site(_, one), AddressUser::Site(_, other)) => one == other,
        _ => false,
    }
}

/// Whether connections to both can begin alike. Over TLS each name has its own protocols, and what
/// only redirects takes those of the others.
fn same_protocols(first: &Binding<'_>, second: &Binding<'_>) -> bool {
    let is_plain = |listener: &SiteListener| !listener.secure && !listener.redirects;
    match (first.user, second.user) {
        (AddressUser::Site(a, one), AddressUser::Site(b, other))
            if is_plain(one) && is_plain(other) =>
        {
            a.protocols == b.protocols
        }
        _ => true,
    }
}

fn tls_label(secure: bool) -> &'static str {
    if secure {
        "this one speaks TLS"
    } else {
        "this one is plain"
    }
}

fn protocol_label(protocols: &[Protocol]) -> &'static str {
    match protocols {
        [Protocol::Http1] => "this one speaks HTTP/1.1",
        [Protocol::H2c] => "this one speaks HTTP/2",
        _ => "this one speaks HTTP/1.1 and HTTP/2",
    }
}

fn proxy_header_label(accept: AcceptProxy) -> &'static str {
    match accept {
        AcceptProxy::Never => "this one expects no PROXY header",
        AcceptProxy::Optional => "this one takes a PROXY header",
        AcceptProxy::Require => "this one requires a PROXY header",
    }
}

fn port_or_path(addr: &ListenAddr) -> String {
    match addr {
        ListenAddr::All(port) => port.to_string(),
        ListenAddr::Ip(addr) => addr.port().to_string(),
        ListenAddr::Unix(path) => path.to_string_lossy().into_owned(),
    }
}
