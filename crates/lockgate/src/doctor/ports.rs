//! The addresses of the listeners and of the metrics: held by the running Lockgate and reached, free,
//! or held by another process.
//!
//! Connects to listeners of the running Lockgate that answer by themselves, and closes without a
//! byte; never to one that relays, which would dial an endpoint. Binds free addresses for a moment,
//! and never listens.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use lockgate_config::Config;
use lockgate_net::listen::{self, BindCheck, ListenAddress};
use lockgate_rules::AcceptProxy;

use super::finding::{Finding, Group};
use super::running::{BoundAnswer, Running};
use super::sockets::{ListeningProcess, connect_unix, exclude, holders};
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
        /// The bound address.
        bound: String,
        /// The result of a connection to it, if there was one.
        reached: Option<io::Result<()>>,
    },
    /// An address of the configuration that is bound before takes it.
    Excluded(ListenAddress),
    /// The running Lockgate has it for another address or purpose.
    OursOtherwise { pid: u32 },
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
        asked: AskedLockgate,
        /// Whether this command runs as root.
        is_root: bool,
    },
}

/// What is known of the running Lockgate, where a Lockgate has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedLockgate {
    /// It is another one.
    Another,
    /// It answers from a process that is not seen here, and may be the one.
    Unseen,
    /// None has answered.
    Silent,
    /// None can be asked: `admin = false`.
    NoSocket,
}

/// What listens at an address of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenPurpose {
    /// Sites, tunnels or relays, without a PROXY header.
    Listener,
    /// Some that look for a PROXY header: a connection without a byte would be logged.
    ProxyHeader,
    Metrics,
}

/// Looks at every address of a configuration.
pub(super) fn facts(config: &Config, running: &Running) -> Vec<PortFacts> {
    let mut facts: Vec<PortFacts> = Vec::new();
    for (address, purpose) in addresses(config) {
        let mut earlier = facts.iter().map(|known| &known.address);
        let state = if let Some((pid, listener, bound)) = bound(&address, running) {
            let is_http = ["http", "https"].contains(&&*listener.kind);
            let is_quiet = is_http && purpose != ListenPurpose::ProxyHeader;
            PortState::Ours {
                pid,
                reached: is_quiet.then(|| reach(&bound)),
                bound: bound.to_string(),
            }
        } else if let Some(earlier) = earlier.find(|earlier| exclude(earlier, &address)) {
            PortState::Excluded(earlier.clone())
        } else {
            unheld(&address, purpose, running)
        };
        facts.push(PortFacts { address, state });
    }
    facts
}

/// Every address of the configuration, each once.
fn addresses(config: &Config) -> Vec<(ListenAddress, ListenPurpose)> {
    let relays = config.tcp.iter();
    let relays = relays.map(|tcp| (&tcp.listen, purpose(tcp.accept_proxy)));
    let tunnels = config.tunnels.iter();
    let tunnels = tunnels.map(|tunnel| (&tunnel.listen, purpose(tunnel.accept_proxy)));
    let sites = config.sites.iter().flat_map(|site| {
        let listeners = site.listen.iter();
        listeners.map(|listener| (&listener.addr, purpose(site.accept_proxy)))
    });
    let metrics = config.metrics.iter();
    let metrics = metrics.map(|metrics| (&metrics.at, ListenPurpose::Metrics));
    let mut addresses: Vec<(ListenAddress, ListenPurpose)> = Vec::new();
    for (written, purpose) in relays.chain(tunnels).chain(sites).chain(metrics) {
        let address = assemble::address(written);
        match addresses.iter_mut().find(|(known, _)| *known == address) {
            Some((_, known)) if purpose == ListenPurpose::ProxyHeader => *known = purpose,
            Some(_) => {}
            None => addresses.push((address, purpose)),
        }
    }
    addresses
}

fn purpose(accept_proxy: AcceptProxy) -> ListenPurpose {
    match accept_proxy {
        AcceptProxy::Never => ListenPurpose::Listener,
        AcceptProxy::Optional | AcceptProxy::Require => ListenPurpose::ProxyHeader,
    }
}

/// The process of the running Lockgate, its listener for an address, and the bound address. Where
/// the system has chosen the port, the name of the listener tells which one it is.
fn bound<'a>(
    address: &ListenAddress,
    running: &'a Running,
) -> Option<(u32, &'a BoundAnswer, ListenAddress)> {
    let status = &running.answer()?.status;
    let written = address.to_string();
    let mut listeners = status.listeners.iter();
    let found = listeners.find(|one| one.address == written || one.name == written)?;
    Some((status.pid, found, parse(&found.address)?))
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
fn unheld(address: &ListenAddress, purpose: ListenPurpose, running: &Running) -> PortState {
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
    if let Some(pid) = running.process()
        && holders.iter().any(|holder| holder.pid == pid)
    {
        return match purpose {
            // Its metrics address is no listener.
            ListenPurpose::Metrics => PortState::Ours {
                pid,
                bound: address.to_string(),
                reached: Some(reach(address)),
            },
            ListenPurpose::Listener | ListenPurpose::ProxyHeader => {
                PortState::OursOtherwise { pid }
            }
        };
    }
    PortState::Unbindable {
        error,
        holders,
        asked: AskedLockgate::of(running),
        is_root: nix::unistd::geteuid().is_root(),
    }
}

impl AskedLockgate {
    fn of(running: &Running) -> Self {
        match running {
            Running::Answers(_) if running.process().is_some() => Self::Another,
            Running::Answers(_) => Self::Unseen,
            Running::Hung(_) | Running::Silent(_) => Self::Silent,
            Running::NoSocket => Self::NoSocket,
        }
    }
}

/// Connects to an address of this machine, and closes.
fn reach(address: &ListenAddress) -> io::Result<()> {
    let target = match address {
        ListenAddress::Unix(path) => return connect_unix(path).map(drop),
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
        PortState::Ours { pid, bound, reached } => {
            let at = if *bound == what { String::new() } else { format!(" at {bound}") };
            let held = format!("held by the running Lockgate (process {pid}){at}");
            match reached {
                None => group.ok(what, held),
                Some(Ok(())) => group.ok(what, format!("{held}, and reached from here")),
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => group.problem(
                    what,
                    format!("{held}, and its queue is full: the process does not accept"),
                    "look at its log, and at `ps`: a process that is stopped or stuck needs a restart",
                ),
                Some(Err(error)) => group.problem(
                    what,
                    format!("{held}, and not reached from here: {error}"),
                    match port.address {
                        ListenAddress::Unix(_) => "`ls -l` says who may connect to the file",
                        _ => "look for a packet filter: `nft list ruleset`, `iptables -S`",
                    },
                ),
            }
        }
        PortState::Excluded(earlier) => group.problem(
            what,
            format!("not free: {earlier} of this configuration takes it, and a start fails with E0107"),
            "write one of the two, or another port",
        ),
        PortState::OursOtherwise { pid } => group.problem(
            what,
            format!("held by the running Lockgate (process {pid}) for another address or purpose: a reload fails with E0107"),
            "restart instead of a reload, or write another port",
        ),
        PortState::Free { is_missing: false } => group.ok(what, "free, and can be bound"),
        PortState::Free { is_missing: true } => group.note(
            what,
            "free: the running Lockgate does not listen there",
            "`lockgate reload` takes over the file",
        ),
        PortState::Unbindable { error, holders, asked, is_root } => match error.kind() {
            ErrorKind::AddrInUse => in_use(what, holders, *asked, *is_root),
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

fn in_use(
    what: String,
    holders: &[ListeningProcess],
    asked: AskedLockgate,
    is_root: bool,
) -> Finding {
    let group = Group::Ports;
    if let Some(holder) = holders.iter().find(|holder| holder.name == "systemd") {
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
    if let Some(holder) = holders.iter().find(|holder| holder.is_lockgate) {
        return of_lockgate(what, holder.pid, asked);
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

/// An address that a Lockgate holds which is not known to be the running one.
fn of_lockgate(what: String, pid: u32, asked: AskedLockgate) -> Finding {
    let group = Group::Ports;
    match asked {
        AskedLockgate::Another => group.problem(
            what,
            format!("held by another Lockgate (process {pid})"),
            "stop that one, or write another port",
        ),
        AskedLockgate::Unseen => group.note(
            what,
            format!("held by a Lockgate (process {pid}), perhaps by the one that answers"),
            "run doctor where Lockgate runs, in its PID namespace",
        ),
        AskedLockgate::Silent => group.note(
            what,
            format!("held by a Lockgate (process {pid}) that was not asked"),
            "name its admin socket by --admin",
        ),
        AskedLockgate::NoSocket => group.note(
            what,
            format!("held by a Lockgate (process {pid}), which cannot be asked: the file has admin = false"),
            "if it runs another file, stop it, or write another port",
        ),
    }
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
            is_lockgate: name.starts_with("lockgate"),
        };
        PortState::Unbindable {
            error: kind.into(),
            holders: (7..).zip(names).map(holder).collect(),
            asked: AskedLockgate::Silent,
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
                unbindable(AddrInUse, &["lockgate-0.1"], true),
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
            bound: ":443".to_owned(),
            reached,
        };
        let reached = of(ours(Some(Ok(()))), None);
        assert_eq!(reached.level, Level::Ok);
        assert!(reached.found.ends_with("reached from here"));
        let untried = of(ours(None), None);
        assert_eq!(untried.level, Level::Ok);
        assert!(untried.found.ends_with("(process 9)"), "{untried:?}");
        let lost = of(ours(Some(Err(ErrorKind::TimedOut.into()))), None);
        assert_eq!(lost.level, Level::Problem);
        let full = of(ours(Some(Err(ErrorKind::WouldBlock.into()))), None);
        assert_eq!(full.level, Level::Problem);
        assert!(
            full.found
                .ends_with("its queue is full: the process does not accept")
        );
        let free = |is_missing| of(PortState::Free { is_missing }, None).level;
        assert_eq!((free(false), free(true)), (Level::Ok, Level::Note));
    }

    #[test]
    fn a_port_of_another_lockgate_tells_what_is_known_of_it() {
        for (asked, level, found) in [
            (AskedLockgate::Another, Level::Problem, "another Lockgate"),
            (AskedLockgate::Unseen, Level::Note, "the one that answers"),
            (AskedLockgate::Silent, Level::Note, "was not asked"),
            (AskedLockgate::NoSocket, Level::Note, "admin = false"),
        ] {
            let one = of_lockgate(":443".to_owned(), 7, asked);
            assert_eq!(one.level, level, "{one:?}");
            assert!(one.found.contains(found), "{one:?}");
            let names_socket = one.cure.contains("--admin");
            assert_eq!(names_socket, asked == AskedLockgate::Silent, "{one:?}");
        }
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
