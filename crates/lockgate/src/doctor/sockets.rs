//! Listening sockets of this machine, and the processes that have them, as /proc tells.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lockgate_net::listen::ListenAddress;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListeningProcess {
    pub(super) pid: u32,
    /// The name of its program.
    pub(super) name: String,
    /// Whether the program is a Lockgate, by its name or its file.
    pub(super) is_lockgate: bool,
}

/// Connects to a Unix socket without waiting for room in its queue.
///
/// # Errors
/// Those of connect(2); [`io::ErrorKind::WouldBlock`] is a full queue.
pub(super) fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Whether a listener at one address keeps another from being bound at the other. Two trial sockets
/// do not tell: with SO_REUSEADDR they share a port until one of them listens, as that of a start
/// does before the next address is bound.
pub(super) fn exclude(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::All(port), ListenAddress::All(other)) => port == other && *port != 0,
        (ListenAddress::All(port), ListenAddress::Ip(ip))
        | (ListenAddress::Ip(ip), ListenAddress::All(port)) => *port == ip.port() && *port != 0,
        // A socket of one IPv6 address, or of [::], takes no IPv4.
        (ListenAddress::Ip(one), ListenAddress::Ip(other)) => {
            one.is_ipv4() == other.is_ipv4() && one.port() != 0 && overlaps(*one, *other)
        }
        (ListenAddress::Unix(one), ListenAddress::Unix(other)) => one == other,
        _ => false,
    }
}

/// The processes with a socket that keeps `address` from being bound. Without root only those of
/// this user are found.
pub(super) fn holders(address: &ListenAddress) -> Vec<ListeningProcess> {
    let inodes = match address {
        ListenAddress::Unix(path) => unix_inodes(&read("/proc/net/unix"), path),
        ListenAddress::All(port) => {
            tcp_inodes(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), *port))
        }
        ListenAddress::Ip(address) => tcp_inodes(*address),
    };
    if inodes.is_empty() {
        return Vec::new();
    }
    let links: Vec<_> = inodes
        .iter()
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| has_one(*pid, &links))
        .map(process)
        .collect()
}

fn process(pid: u32) -> ListeningProcess {
    let name = read(&format!("/proc/{pid}/comm")).trim().to_owned();
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let file = program.as_deref().and_then(Path::file_name);
    let is_named = name.starts_with("lockgate")
        || file.is_some_and(|file| file.to_string_lossy().starts_with("lockgate"));
    ListeningProcess {
        pid,
        name,
        is_lockgate: is_named || is_own_program(pid),
    }
}

/// Whether a process runs the file of this one, under any name.
fn is_own_program(pid: u32) -> bool {
    let file = |process: &str| {
        let found = fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((found.dev(), found.ino()))
    };
    let own = file("self");
    own.is_some() && own == file(&pid.to_string())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn has_one(pid: u32, links: &[String]) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.any(|target| links.iter().any(|link| target == Path::new(link)))
}

fn tcp_inodes(address: SocketAddr) -> Vec<u64> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(read);
    let mut inodes: Vec<u64> = Vec::new();
    for table in &tables {
        inodes.extend(
            listening(table).filter_map(|(at, inode)| overlaps(at, address).then_some(inode)),
        );
    }
    inodes
}

/// The listening sockets of a table: their addresses and inodes (proc_pid_net(5)).
fn listening(table: &str) -> impl Iterator<Item = (SocketAddr, u64)> {
    table.lines().skip(1).filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        // 0A is LISTEN.
        (*state == "0A").then_some(())?;
        Some((address_of(local)?, inode.parse().ok()?))
    })
}

/// An address in the kernel's hexadecimal words, each in the order of this machine.
fn address_of(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = host.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    let host: IpAddr = match <[u8; 4]>::try_from(&*bytes) {
        Ok(bytes) => Ipv4Addr::from(bytes).into(),
        Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(&*bytes).ok()?).into(),
    };
    Some(SocketAddr::new(host, port))
}

/// Whether a socket at one address may keep another from being bound at the other.
fn overlaps(one: SocketAddr, other: SocketAddr) -> bool {
    let [first, second] = [one, other].map(|address| address.ip().to_canonical());
    one.port() == other.port()
        && (first == second || first.is_unspecified() || second.is_unspecified())
}

/// The listening Unix sockets at a path, by the text of /proc/net/unix.
fn unix_inodes(table: &str, path: &Path) -> Vec<u64> {
    let lines = table.lines().skip(1);
    let inodes = lines.filter_map(|line| {
        let mut words = line.split_whitespace().skip(3);
        let (flags, _, _, inode) = (words.next()?, words.next()?, words.next()?, words.next()?);
        // __SO_ACCEPTCON: it listens.
        let is_listening = u32::from_str_radix(flags, 16).ok()? & 0x1_0000 != 0;
        let at = words.next()?;
        (is_listening && Path::new(at) == path).then(|| inode.parse().ok())?
    });
    inodes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use lockgate_net::listen::{ListenOptions, bind};

    #[test]
    fn the_process_behind_a_listening_socket_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = std::process::id();
        for asked in [
            ListenAddress::Ip(address),
            ListenAddress::All(address.port()),
        ] {
            let found = holders(&asked);
            assert_eq!(found.len(), 1, "{asked}: {found:?}");
            assert_eq!(found[0].pid, own);
            assert!(!found[0].name.is_empty());
            assert!(found[0].is_lockgate, "it runs the file of this test");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let unix = UnixListener::bind(&path).unwrap();
        assert_eq!(holders(&ListenAddress::Unix(path.clone()))[0].pid, own);
        drop((listener, unix));
        assert_eq!(holders(&ListenAddress::Unix(path)), []);
    }

    #[test]
    fn addresses_exclude_each_other_as_binding_them_does() {
        let options = ListenOptions {
            backlog: 1,
            fast_open: false,
            defer_accept: None,
        };
        for first in [":0", "127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(bound) = bind(&of(first, 0), &options, 1) else {
                continue; // A machine without IPv6.
            };
            let port = match &bound.address {
                ListenAddress::All(port) => *port,
                ListenAddress::Ip(address) => address.port(),
                ListenAddress::Unix(_) => unreachable!(),
            };
            for second in [
                ":0",
                "127.0.0.1:0",
                "127.0.0.2:0",
                "0.0.0.0:0",
                "[::1]:0",
                "[::]:0",
            ] {
                let second = of(second, port);
                let refused = bind(&second, &options, 1).err().map(|error| error.kind());
                if [None, Some(io::ErrorKind::AddrInUse)].contains(&refused) {
                    let excluded = exclude(&bound.address, &second);
                    assert_eq!(excluded, refused.is_some(), "{} {second}", bound.address);
                }
            }
        }
        // What the system chooses is free.
        assert!(!exclude(&of(":0", 0), &of("127.0.0.1:0", 0)));
    }

    /// The address with this port.
    fn of(text: &str, port: u16) -> ListenAddress {
        match text.strip_suffix(":0").unwrap() {
            "" => ListenAddress::All(port),
            host => ListenAddress::Ip(format!("{host}:{port}").parse().unwrap()),
        }
    }

    #[test]
    fn a_full_queue_of_a_unix_socket_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut held = Vec::new();
        let refused = loop {
            match connect_unix(&path) {
                Ok(socket) => held.push(socket),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn only_listening_sockets_that_overlap_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1\n\
            1: 0100007F:1F91 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 42 1\n";
        let found: Vec<_> = listening(table).collect();
        if cfg!(target_endian = "little") {
            assert_eq!(found, [("127.0.0.1:8080".parse().unwrap(), 41)]);
        }
        let overlap =
            |one: &str, other: &str| overlaps(one.parse().unwrap(), other.parse().unwrap());
        assert!(overlap("0.0.0.0:80", "10.0.0.1:80"));
        assert!(overlap("[::]:80", "10.0.0.1:80"));
        assert!(overlap("[::ffff:10.0.0.1]:80", "10.0.0.1:80"));
        assert!(!overlap("10.0.0.2:80", "10.0.0.1:80"));
        assert!(!overlap("0.0.0.0:81", "10.0.0.1:80"));
    }
}
