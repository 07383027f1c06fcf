//! Listening sockets of this machine, and the processes that have them, as /proc tells.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use lockgate_net::listen::ListenAddress;

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListeningProcess {
    pub(super) pid: u32,
    /// The name of its program.
    pub(super) name: String,
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
        .map(|pid: u32| ListeningProcess {
            pid,
            name: read(&format!("/proc/{pid}/comm")).trim().to_owned(),
        })
        .collect()
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
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let unix = UnixListener::bind(&path).unwrap();
        assert_eq!(holders(&ListenAddress::Unix(path.clone()))[0].pid, own);
        drop((listener, unix));
        assert_eq!(holders(&ListenAddress::Unix(path)), []);
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
