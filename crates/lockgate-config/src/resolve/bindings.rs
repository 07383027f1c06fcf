//! What addresses are bound: who may share one, and who serves which host there.

use std::collections::BTreeMap;

use lockgate_rules::{AcceptProxy, HostPattern};

use crate::address::ListenAddr;
use crate::codes::Code;
use crate::keys::top;
use crate::model::{Config, Protocol, Site, Tcp};
use crate::place::At;

use super::Resolver;

/// One address that something is served on.
struct Binding<'a> {
    addr: ListenAddr,
    at: At,
    user: User<'a>,
}

#[derive(Clone, Copy)]
enum User<'a> {
    Metrics,
    /// With what it is, if that is no mistake.
    Tcp(Option<&'a Tcp>),
    Tunnel,
    Site {
        site: &'a Site,
        secure: bool,
        redirects: bool,
    },
}

/// What becomes of the redirect of a site where its address is wanted for something else.
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

    /// Every two tables, or a table and the metrics, that cannot both be bound; the later one is
    /// marked.
    pub(super) fn same_address(&mut self, config: &Config) {
        let mut bound: Vec<Binding<'_>> = Vec::new();
        if let (Some(metrics), Some(at)) = (&config.metrics, self.root.key_at(&top::METRICS)) {
            bound.push(Binding {
                addr: metrics.at.clone(),
                at: at.clone(),
                user: User::Metrics,
            });
        }
        let mut tables: Vec<Binding<'_>> = Vec::new();
        for one in self.root.value(&top::TCP).into_iter().flatten() {
            let tcp = config.tcp.iter().find(|tcp| tcp.at.rank() == one.at.rank());
            tables.push(Binding {
                addr: one.key.clone(),
                at: one.at.clone(),
                user: User::Tcp(tcp),
            });
        }
        for one in self.root.value(&top::TUNNEL).into_iter().flatten() {
            tables.push(Binding {
                addr: one.key.clone(),
                at: one.at.clone(),
                user: User::Tunnel,
            });
        }
        for site in &config.sites {
            for listen in &site.listen {
                let user = User::Site {
                    site,
                    secure: listen.secure,
                    redirects: listen.redirects,
                };
                tables.push(Binding {
                    addr: listen.addr.clone(),
                    at: site.at.clone(),
                    user,
                });
            }
        }
        tables.sort_by_key(|binding| binding.at.rank());
        bound.extend(tables);
        // A conflict needs the same port or path, so only those are compared.
        let mut by_port: BTreeMap<String, Vec<&Binding<'_>>> = BTreeMap::new();
        // Who serves a host on an address: sites that share one may be many.
        let mut hosts: BTreeMap<(String, bool, &HostPattern), (At, At)> = BTreeMap::new();
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
            for (host, secure, at) in served(binding) {
                let key = (binding.addr.to_string(), secure, host);
                let Some((table, first)) = hosts.get(&key) else {
                    hosts.insert(key, (binding.at.clone(), at.clone()));
                    continue;
                };
                if table.rank() != binding.at.rank() && !self.warned(Code::SameHost, at) {
                    let message = match host {
                        HostPattern::Any => format!(
                            "every other name is served by two tables on {}",
                            binding.addr
                        ),
                        host => format!("{host} is served by two tables on {}", binding.addr),
                    };
                    let cure = "keep one of them, or give one another port";
                    let texts = (message, "it has been given away", cure);
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
        match (first.user, second.user) {
            (
                User::Site {
                    site: a, secure, ..
                },
                User::Site {
                    site: b,
                    secure: other,
                    ..
                },
            ) => {
                first.addr == second.addr
                    && secure == other
                    && a.accept_proxy == b.accept_proxy
                    && spoken_alike(first, second)
            }
            // What is wrong with it has been reported.
            (User::Tcp(None), User::Site { secure: true, .. })
            | (User::Site { secure: true, .. }, User::Tcp(None)) => true,
            // Who speaks TLS can be told apart by the name that a client asks for.
            (
                User::Tcp(Some(tcp)),
                User::Site {
                    site, secure: true, ..
                },
            )
            | (
                User::Site {
                    site, secure: true, ..
                },
                User::Tcp(Some(tcp)),
            ) => {
                first.addr == second.addr
                    && tcp.by_hello().is_some()
                    && tcp.accept_proxy == site.accept_proxy
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
        if first.same_table(second) || self.told(&second.at) {
            return;
        }
        let addr = &second.addr;
        let (code, message, why, cure, label) = match (first.user, second.user) {
            (User::Site { secure, .. }, User::Site { secure: other, .. }) if secure != other => {
                let message = format!("TLS and plain HTTP on {addr}");
                let cure = "write tls in both, or tls = false in both, or give one another port";
                (Code::SameAddress, message, said(other), cure, said(secure))
            }
            (User::Site { site: a, .. }, User::Site { site: b, .. })
                if a.accept_proxy != b.accept_proxy =>
            {
                let message = format!("two sites on {addr} disagree about `accept_proxy`");
                let cure = "write the same accept_proxy in both, or give one another port";
                (
                    Code::Disagree,
                    message,
                    header(b.accept_proxy),
                    cure,
                    header(a.accept_proxy),
                )
            }
            (User::Site { site: a, .. }, User::Site { site: b, .. })
                if first.addr == second.addr && !spoken_alike(first, second) =>
            {
                let message = format!("two sites on {addr} disagree about `protocols`");
                let cure = "write the same protocols in both, or give one another port";
                (
                    Code::Disagree,
                    message,
                    spoken(&b.protocols),
                    cure,
                    spoken(&a.protocols),
                )
            }
            (
                User::Tcp(Some(tcp)),
                User::Site {
                    site, secure: true, ..
                },
            )
            | (
                User::Site {
                    site, secure: true, ..
                },
                User::Tcp(Some(tcp)),
            ) if tcp.by_hello().is_some() && first.addr == second.addr => {
                let message =
                    format!("a site and names of [tcp] on {addr} disagree about `accept_proxy`");
                let cure = "write the same accept_proxy in both, or give one another port";
                let (mut here, mut there) = (header(site.accept_proxy), header(tcp.accept_proxy));
                if matches!(second.user, User::Tcp(_)) {
                    std::mem::swap(&mut here, &mut there);
                }
                (Code::Disagree, message, here, cure, there)
            }
            (
                User::Site {
                    redirects: true, ..
                },
                _,
            ) => (
                Code::SameAddress,
                "two listeners have the same address".to_owned(),
                "it is bound already",
                NO_REDIRECT,
                "by the redirect of this site from plain HTTP",
            ),
            (
                _,
                User::Site {
                    redirects: true, ..
                },
            ) => (
                Code::SameAddress,
                "two listeners have the same address".to_owned(),
                "its redirect from plain HTTP needs an address that is bound already",
                NO_REDIRECT,
                "by this one",
            ),
            _ => (
                Code::SameAddress,
                "two listeners have the same address".to_owned(),
                "it is bound already",
                "give one of them another port, or merge the two tables",
                "by this one",
            ),
        };
        self.report
            .push_pair(code, &second.at, (message, why, cure), (&first.at, label));
    }

    fn told(&self, at: &At) -> bool {
        self.warned(Code::SameAddress, at) || self.warned(Code::Disagree, at)
    }
}

impl Binding<'_> {
    fn same_table(&self, other: &Binding<'_>) -> bool {
        self.at.rank() == other.at.rank()
    }
}

/// The hosts that a table serves itself on its address, whether over TLS, and where that was
/// written.
fn served<'a>(binding: &'a Binding<'a>) -> Vec<(&'a HostPattern, bool, &'a At)> {
    match binding.user {
        User::Site {
            site,
            secure,
            redirects: false,
        } => site
            .hosts
            .iter()
            .map(|host| (host, secure, &binding.at))
            .collect(),
        User::Tcp(Some(tcp)) => {
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
        User::Metrics | User::Tunnel | User::Tcp(None) | User::Site { .. } => Vec::new(),
    }
}

/// Whether the second adds nothing to what the first is compared with.
fn same_kind(first: &Binding<'_>, second: &Binding<'_>) -> bool {
    match (first.user, second.user) {
        (
            User::Site {
                secure, redirects, ..
            },
            User::Site {
                secure: also_secure,
                redirects: also_redirects,
                ..
            },
        ) => secure == also_secure && redirects == also_redirects && first.addr == second.addr,
        _ => false,
    }
}

/// Whether connections to both can begin alike. Over TLS each name has its own protocols, and what
/// only redirects takes those of the others.
fn spoken_alike(first: &Binding<'_>, second: &Binding<'_>) -> bool {
    match (first.user, second.user) {
        (
            User::Site {
                site: a,
                secure: false,
                redirects: false,
            },
            User::Site {
                site: b,
                secure: false,
                redirects: false,
            },
        ) => a.protocols == b.protocols,
        _ => true,
    }
}

fn said(secure: bool) -> &'static str {
    if secure {
        "this one speaks TLS"
    } else {
        "this one is plain"
    }
}

fn spoken(protocols: &[Protocol]) -> &'static str {
    match protocols {
        [Protocol::Http1] => "this one speaks HTTP/1.1",
        [Protocol::H2c] => "this one speaks HTTP/2",
        _ => "this one speaks HTTP/1.1 and HTTP/2",
    }
}

fn header(accept: AcceptProxy) -> &'static str {
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
