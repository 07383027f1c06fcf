//! The addresses of the listeners and of the metrics: held by the running Lockgate and reached, free,
//! or held by another process.
//!
//! Connects to listeners of the running Lockgate, and closes without a byte. Binds free addresses for
//! a moment, and never listens.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_config::Config;
use lockgate_net::listen::{self, BindCheck, ListenAddress};

use super::finding::{Finding, Group};
use super::running::Running;
use super::sockets::{ListeningProcess, holders};
use crate::assemble;

/// The time for a connection to a listener of this machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// An address, and its state.
#[derive(Debug)]
pub(super) struct PortFacts {
    /// The address as it is written.
    pub(super) address: ListenAddress,
    pub(super) state: PortState,
}

/// The state of an address.
#[derive(Debug)]
pub(super) enum PortState {
    /// The running Lockgate listens there.
    Ours {
        pid: u32,
        /// The bound address, and the result of a connection to it.
        reached: (String, io::Result<()>),
    },
    /// It can be bound.
    Free {
        /// Whether a Lockgate runs, and does not have it.
        is_missing: bool,
    },
    /// It cannot be bound.
    Unbindable {
        error: io::Error,
        /// The processes that listen there, as far as they can be seen.
        holders: Vec<ListeningProcess>,
        /// Whether this command runs as root.
        is_root: bool,
    },
}

/// Looks at every address of a configuration.
pub(super) fn facts(config: &Config, running: &Running) -> Vec<PortFacts> {
    let addresses = addresses(config).into_iter();
    let state = |address: &ListenAddress| match bound(address, running) {
        Some((pid, bound)) => PortState::Ours {
            pid,
            reached: (bound.to_string(), reach(&bound)),
        },
        None => unheld(address, running),
    };
    let facts = addresses.map(|address| PortFacts {
        state: state(&address),
        address,
    });
    facts.collect()
}

/// Every address of the configuration, each once.
fn addresses(config: &Config) -> Vec<ListenAddress> {
    let relays = config.tcp.iter().map(|tcp| &tcp.listen);
    let tunnels = config.tunnels.iter().map(|tunnel| &tunnel.listen);
    let sites = config.sites.iter().flat_map(|site| &site.listen);
    let sites = sites.map(|listener| &listener.addr);
    let metrics = config.metrics.iter().map(|metrics| &metrics.at);
    let mut addresses: Vec<ListenAddress> = Vec::new();
    for written in relays.chain(tunnels).chain(sites).chain(metrics) {
        let address = assemble::address(written);
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// The process and the bound address of the running Lockgate's listener for an address. Where the
/// system has chosen the port, the name of the listener tells which one it is.
fn bound(address: &ListenAddress, running: &Running) -> Option<(u32, ListenAddress)> {
    let status = &running.answer()?.status;
    let written = address.to_string();
    let mut listeners = status.listeners.iter();
    let found = listeners.find(|one| one.address == written || one.name == written)?;
    Some((status.pid, parse(&found.address)?))
}

/// An address as the admin socket shows it.
fn parse(text: &str) -> Option<ListenAddress> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(ListenAddress::Unix(PathBuf::from(path)));
    }
    match text.strip_prefix(':') {
        Some(port) => Some(ListenAddress::All(port.parse().ok()?)),
        None => Some(ListenAddress::Ip(text.parse().ok()?)),
    }
}

/// The state of an address that is no listener of the running Lockgate.
fn unheld(address: &ListenAddress, running: &Running) -> PortState {
    let Err(error) = listen::try_bind(address, BindCheck::Port) else {
        // What the system chooses is always free.
        let is_chosen = matches!(address, ListenAddress::All(0))
            || matches!(address, ListenAddress::Ip(address) if address.port() == 0);
        return PortState::Free {
            is_missing: running.answer().is_some() && !is_chosen,
        };
    };
    let holders = match error.kind() {
        ErrorKind::AddrInUse => holders(address),
        _ => Vec::new(),
    };
    // Its metrics address is no listener.
    if let Some(pid) = running.pid()
        && holders.iter().any(|holder| holder.pid == pid)
    {
        return PortState::Ours {
            pid,
            reached: (address.to_string(), reach(address)),
        };
    }
    PortState::Unbindable {
        error,
        holders,
        is_root: nix::unistd::geteuid().is_root(),
    }
}

/// Connects to an address of this machine, and closes.
fn reach(address: &ListenAddress) -> io::Result<()> {
    let target = match address {
        ListenAddress::Unix(path) => return UnixStream::connect(path).map(drop),
        ListenAddress::All(port) => {
            let by_v4 = connect(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port));
            // A machine without IPv4.
            return by_v4.or_else(|_| connect(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), *port)));
        }
        ListenAddress::Ip(address) => SocketAddr::new(target_of(address.ip()), address.port()),
    };
    connect(target)
}

fn connect(target: SocketAddr) -> io::Result<()> {
    TcpStream::connect_timeout(&target, PATIENCE).map(drop)
}

/// Where a listener is reached that may have all addresses.
fn target_of(listening: IpAddr) -> IpAddr {
    match listening {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// The findings; `user` is the key of the configuration.
pub(super) fn findings(ports: &[PortFacts], user: Option<&str>) -> Vec<Finding> {
    ports.iter().map(|port| finding(port, user)).collect()
}

fn finding(port: &PortFacts, user: Option<&str>) -> Finding {
    let (group, what) = (Group::Ports, port.address.to_string());
    match &port.state {
        PortState::Ours { pid, reached } => {
            let (bound, reached) = reached;
            let at = if *bound == what { String::new() } else { format!(" at {bound}") };
            match reached {
                Ok(()) => group.ok(what, format!("held by the running Lockgate (process {pid}){at}, and reached from here")),
                Err(error) => group.problem(
                    what,
                    format!("held by the running Lockgate (process {pid}){at}, and not reached from here: {error}"),
                    "look for a packet filter: `nft list ruleset`, `iptables -S`",
                ),
            }
        }
        PortState::Free { is_missing: false } => group.ok(what, "free, and can be bound"),
        PortState::Free { is_missing: true } => group.note(
            what,
            "free: the running Lockgate does not listen there",
            "`lockgate reload` takes over the file",
        ),
        PortState::Unbindable { error, holders, is_root } => match error.kind() {
            ErrorKind::AddrInUse => in_use(what, holders, *is_root),
            ErrorKind::PermissionDenied if !is_root && user.is_some() => group.note(
                what,
                "this user may not bind it",
                "run doctor as root, as the service starts",
            ),
            ErrorKind::PermissionDenied => group.problem(
                what,
                "this user may not bind it",
                match port.address {
                    ListenAddress::Unix(_) => "let the user that starts Lockgate write to the folder",
                    _ => "start Lockgate as root with `user`, or give it CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities)",
                },
            ),
            _ => group.problem(what, format!("cannot be bound: {error}"), "`ip address` lists the addresses of this machine"),
        },
    }
}

fn in_use(what: String, holders: &[ListeningProcess], is_root: bool) -> Finding {
    let group = Group::Ports;
    let named = |name: &str| holders.iter().find(|holder| holder.name == name);
    if let Some(holder) = named("systemd") {
        let found = format!(
            "held by systemd (process {}), for a socket unit",
            holder.pid
        );
        return group.note(
            what,
            found,
            "`systemctl list-sockets` tells whether the unit is Lockgate's",
        );
    }
    if let Some(holder) = named("lockgate") {
        let found = format!(
            "held by a Lockgate (process {}) that was not asked",
            holder.pid
        );
        return group.note(what, found, "name its admin socket by --admin");
    }
    if holders.is_empty() {
        let cure = "run doctor as root to see which one it is, or `ss -ltnp`";
        // It may well be the running Lockgate, which this user may not ask.
        return match is_root {
            true => group.problem(what, "held by a process outside of this container", cure),
            false => group.note(what, "held by a process that this user may not see", cure),
        };
    }
    let list: Vec<_> = holders
        .iter()
        .map(|holder| format!("{} (process {})", holder.name, holder.pid))
        .collect();
    group.problem(
        what,
        format!("held by {}", list.join(", ")),
        "stop that program, or write another port",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn of(state: PortState, user: Option<&str>) -> Finding {
        let address = ListenAddress::All(443);
        finding(&PortFacts { address, state }, user)
    }

    fn unbindable(kind: ErrorKind, names: &[&str], is_root: bool) -> PortState {
        let holder = |(pid, name): (u32, &&str)| ListeningProcess {
            pid,
            name: (*name).to_owned(),
        };
        PortState::Unbindable {
            error: kind.into(),
            holders: (7..).zip(names).map(holder).collect(),
            is_root,
        }
    }

    #[test]
    fn a_port_that_cannot_be_bound_says_why() {
        use ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
        for (state, user, level, found) in [
            (
                unbindable(AddrInUse, &["nginx"], true),
                None,
                Level::Problem,
                "held by nginx (process 7)",
            ),
            (
                unbindable(AddrInUse, &["systemd"], true),
                None,
                Level::Note,
                "for a socket unit",
            ),
            (
                unbindable(AddrInUse, &["lockgate"], true),
                None,
                Level::Note,
                "that was not asked",
            ),
            (
                unbindable(AddrInUse, &[], false),
                None,
                Level::Note,
                "may not see",
            ),
            (
                unbindable(AddrInUse, &[], true),
                None,
                Level::Problem,
                "outside of this container",
            ),
            (
                unbindable(PermissionDenied, &[], false),
                None,
                Level::Problem,
                "may not bind",
            ),
            (
                unbindable(PermissionDenied, &[], false),
                Some("www"),
                Level::Note,
                "may not bind",
            ),
            (
                unbindable(AddrNotAvailable, &[], true),
                None,
                Level::Problem,
                "cannot be bound",
            ),
        ] {
            let one = of(state, user);
            assert_eq!(one.level, level, "{one:?}");
            assert!(one.found.contains(found), "{one:?}");
            assert!(!one.cure.is_empty(), "{one:?}");
        }
    }

    #[test]
    fn a_listener_that_is_not_reached_is_a_problem() {
        let ours = |reached| PortState::Ours {
            pid: 9,
            reached: (":443".to_owned(), reached),
        };
        assert_eq!(of(ours(Ok(())), None).level, Level::Ok);
        let lost = of(ours(Err(ErrorKind::TimedOut.into())), None);
        assert_eq!(lost.level, Level::Problem);
        let free = |is_missing| of(PortState::Free { is_missing }, None).level;
        assert_eq!((free(false), free(true)), (Level::Ok, Level::Note));
    }

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for address in [
            ListenAddress::All(443),
            ListenAddress::Ip("127.0.0.1:80".parse().unwrap()),
            ListenAddress::Ip("[::1]:80".parse().unwrap()),
            ListenAddress::Unix("/run/a.sock".into()),
        ] {
            assert_eq!(parse(&address.to_string()), Some(address));
        }
        assert_eq!(parse("a name"), None);
    }
}
