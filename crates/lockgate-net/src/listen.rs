//! Listening sockets. One address gives every worker a socket of its own (SO_REUSEPORT), so that
//! the kernel spreads connections; a Unix socket is shared.
//!
//! TCP_NODELAY is set on the listening socket: on Linux, accepted sockets inherit it.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};
use socket2::{Domain, SockAddr, SockFilter, SockRef, Type};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::socket::Family;
use crate::syscall::{self, set_defer_accept, set_fast_open, set_least_ttl};

/// The address of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// This port on all addresses, IPv6 and IPv4.
    All(u16),
    /// One address.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(port) => write!(f, ":{port}"),
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The options of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The backlog of connections per worker; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Whether the first packet may carry data (RFC 7413).
    pub fast_open: bool,
    /// Whether the first data wakes the worker, rather than the connection. Only if the client
    /// speaks first: a client that waits for a server's greeting would wait for this long.
    pub defer_accept: Option<Duration>,
}

/// The owner of a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// This process bound it: closing it ends listening.
    Us,
    /// It was passed to us, and its owner keeps it open: it continues to queue connections for the
    /// next process.
    Another,
}

/// The listening sockets of one address.
#[derive(Debug)]
pub struct Bound {
    /// The bound address, with the port that the kernel chose for port 0.
    pub address: Address,
    /// One socket per worker.
    pub sockets: Vec<OwnedFd>,
    /// The owner of the sockets.
    pub owner: Owner,
}

/// Binds `address` for `workers` workers and listens.
///
/// # Errors
/// When the address is in use, not local, or not permitted; a Unix socket file without a listener
/// is replaced.
pub fn bind(address: &Address, options: &Options, workers: usize) -> io::Result<Bound> {
    match address {
        Address::Ip(ip) => bind_tcp(*ip, options, workers, address),
        Address::All(port) => {
            let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), *port);
            match bind_tcp(v6, options, workers, address) {
                // A host without IPv6.
                Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
                    bind_tcp(
                        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port),
                        options,
                        workers,
                        address,
                    )
                }
                bound => bound,
            }
        }
        Address::Unix(path) => bind_unix(path, options, workers, address),
    }
}

/// The extent of a trial without listening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// Whether the address is local; the port may be in use.
    Address,
    /// Whether the port is free, too.
    Port,
}

/// Checks whether [`bind`] would succeed. Never listens and leaves nothing behind.
///
/// # Errors
/// Those of `bind`, as far as `trial` goes.
pub fn try_bind(address: &Address, trial: Trial) -> io::Result<()> {
    match (address, trial) {
        (Address::Unix(path), _) => try_bind_unix(path, trial),
        (Address::All(_), Trial::Address) => Ok(()),
        (Address::All(port), Trial::Port) => {
            let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), *port);
            match try_bind_tcp(v6, address) {
                Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
                    try_bind_tcp(
                        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port),
                        address,
                    )
                }
                tried => tried,
            }
        }
        (Address::Ip(ip), Trial::Address) => try_bind_tcp(SocketAddr::new(ip.ip(), 0), address),
        (Address::Ip(ip), Trial::Port) => try_bind_tcp(*ip, address),
    }
}

/// Like the first socket of [`bind_tcp`]: it conflicts with every listening socket.
fn try_bind_tcp(ip: SocketAddr, address: &Address) -> io::Result<()> {
    let options = Options {
        backlog: 0,
        fast_open: false,
        defer_accept: None,
    };
    tcp_socket(ip, &options, address)?.bind(&ip.into())
}

fn try_bind_unix(path: &Path, trial: Trial) -> io::Result<()> {
    let local = SockAddr::unix(path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) if trial == Trial::Port && !is_stale(path, &local) => {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        _ => {}
    }
    Ok(rustix::fs::access(
        folder,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    )?)
}

fn bind_tcp(
    ip: SocketAddr,
    options: &Options,
    workers: usize,
    address: &Address,
) -> io::Result<Bound> {
    // The first socket is bound without SO_REUSEPORT: otherwise another process that has it would
    // share the port silently.
    let first = tcp_socket(ip, options, address)?;
    first.bind(&ip.into())?;
    first.set_reuse_port(true)?;
    let ip = first.local_addr()?.as_socket().unwrap_or(ip);
    let mut sockets = vec![first];
    for _ in 1..workers {
        let socket = tcp_socket(ip, options, address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&ip.into())?;
        sockets.push(socket);
    }
    for socket in &sockets {
        socket.listen(backlog(options))?;
    }
    let address = match address {
        Address::All(_) => Address::All(ip.port()),
        _ => Address::Ip(ip),
    };
    Ok(Bound {
        address,
        sockets: sockets.into_iter().map(OwnedFd::from).collect(),
        owner: Owner::Us,
    })
}

fn tcp_socket(ip: SocketAddr, options: &Options, address: &Address) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(ip), Type::STREAM.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    if ip.is_ipv6() {
        socket.set_only_v6(!matches!(address, Address::All(_)))?;
    }
    socket.set_tcp_nodelay(true)?;
    if options.fast_open {
        set_fast_open(&socket, backlog(options))?;
    }
    if let Some(wait) = options.defer_accept {
        set_defer_accept(&socket, wait)?;
    }
    Ok(socket)
}

fn bind_unix(
    path: &Path,
    options: &Options,
    workers: usize,
    address: &Address,
) -> io::Result<Bound> {
    let local = SockAddr::unix(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    match socket.bind(&local) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path, &local) => {
            std::fs::remove_file(path)?;
            socket.bind(&local)?;
        }
        bound => bound?,
    }
    socket.listen(backlog(options))?;
    let mut sockets = Vec::new();
    for _ in 1..workers {
        sockets.push(socket.try_clone()?.into());
    }
    sockets.push(socket.into());
    Ok(Bound {
        address: address.clone(),
        sockets,
        owner: Owner::Us,
    })
}

/// Whether a Unix socket file is stale: it has no listener. Any other file at the path is left
/// alone.
fn is_stale(path: &Path, local: &SockAddr) -> bool {
    // Symbolic links are not followed: their target may be another program's.
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        return false;
    }
    let probe = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None);
    probe
        .and_then(|probe| probe.connect(local))
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn backlog(options: &Options) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

/// The peer of an accepted connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Over TCP; an IPv4 client of a socket for both families is IPv4.
    Ip(SocketAddr),
    /// Over a Unix socket: any process that may open the file.
    Unix,
}

impl Peer {
    /// Its address, if it has one.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            Self::Unix => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// A listening socket of one worker.
#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
    family: Family,
    owner: Owner,
    openings: Cell<Openings>,
}

/// The treatment of packets that open connections (SYN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Openings {
    Taken,
    /// They are dropped by a filter.
    Filtered,
    /// They are dropped for their TTL, as are, until it is reset, packets to accepted connections.
    BelowTtl,
}

impl Listener {
    /// Registers a listening socket with the worker's runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch it.
    pub fn new(fd: OwnedFd, family: Family, owner: Owner) -> io::Result<Self> {
        let fd = syscall::watch(fd, Interest::READABLE)?;
        Ok(Self {
            fd,
            family,
            owner,
            openings: Cell::new(Openings::Taken),
        })
    }

    /// The owner of the socket.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The family of its connections.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Completes when a connection may be waiting, without accepting it.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub async fn ready(&self) -> io::Result<Waiting<'_>> {
        Ok(Waiting {
            guard: self.fd.readable().await?,
        })
    }

    /// Refuses new connections, while begun ones can still be accepted: closing a listener resets
    /// those that are not accepted, and a client counts its connection as open before we can.
    ///
    /// Newer kernels let only CAP_NET_ADMIN attach a filter to a TCP socket. Without it, the TTL is
    /// the filter.
    ///
    /// # Errors
    /// When the kernel supports neither.
    pub fn refuse_openings(&self) -> io::Result<()> {
        match self.family {
            Family::Tcp => match SockRef::from(&self.fd).attach_filter(&DROP_OPENINGS) {
                Ok(()) => self.openings.set(Openings::Filtered),
                Err(_) => self.refuse_by_ttl()?,
            },
            // A Unix socket's connection is in the backlog or does not exist.
            Family::Unix => {}
        }
        Ok(())
    }

    /// The kernel checks a SYN against the listener's least TTL, but not the packet that completes
    /// a handshake (`tcp_v4_rcv`, `tcp_v6_rcv`). No packet that was routed has 255, and no common
    /// system sends it; the few that do, from the same link, may still be reset.
    fn refuse_by_ttl(&self) -> io::Result<()> {
        set_least_ttl(&self.fd, u8::MAX)?;
        self.openings.set(Openings::BelowTtl);
        Ok(())
    }

    /// Accepts one connection if one is waiting.
    ///
    /// # Errors
    /// Running out of descriptors or memory (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`): the
    /// connection stays in the backlog. A client that is gone already is no error.
    pub fn accept(&self) -> io::Result<Option<(OwnedFd, Peer)>> {
        loop {
            match rustix::net::acceptfrom_with(
                &self.fd,
                SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            ) {
                Ok((fd, address)) => {
                    if self.openings.get() == Openings::BelowTtl {
                        // The socket inherits the listener's least TTL. The client sends again what
                        // was dropped meanwhile.
                        set_least_ttl(&fd, 0)?;
                    }
                    return Ok(Some((fd, peer(address))));
                }
                Err(Errno::AGAIN) => return Ok(None),
                // accept(2): errors of the new connection; the listener itself still works.
                Err(
                    Errno::INTR
                    | Errno::CONNABORTED
                    | Errno::PROTO
                    | Errno::NETDOWN
                    | Errno::NOPROTOOPT
                    | Errno::HOSTDOWN
                    | Errno::NONET
                    | Errno::HOSTUNREACH
                    | Errno::OPNOTSUPP
                    | Errno::NETUNREACH,
                ) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Drops the packets that open connections and passes all others, as the kernel runs it on packets
/// to a listener (classic BPF, `linux/filter.h`): a dropped SYN is sent again later, to the next
/// listener.
const DROP_OPENINGS: [SockFilter; 5] = {
    const LOAD_BYTE: u16 = 0x30; // BPF_LD | BPF_B | BPF_ABS
    const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
    const SKIP_UNLESS_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    // RFC 9293 §3.1: the byte of the TCP header with the flags SYN (2) and ACK (16).
    [
        SockFilter::new(LOAD_BYTE, 0, 0, 13),
        SockFilter::new(AND, 0, 0, 0x12),
        SockFilter::new(SKIP_UNLESS_EQUAL, 0, 1, 0x02),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
};

/// A listener that probably has a waiting connection.
#[derive(Debug)]
pub struct Waiting<'a> {
    guard: AsyncFdReadyGuard<'a, OwnedFd>,
}

impl Waiting<'_> {
    /// Clears the readiness: there was no connection after all.
    pub fn none(mut self) {
        self.guard.clear_ready();
    }
}

fn peer(address: Option<SocketAddrAny>) -> Peer {
    match address.and_then(|address| SocketAddr::try_from(address).ok()) {
        Some(address) => Peer::Ip(canonical(address)),
        None => Peer::Unix,
    }
}

/// The local address of a TCP connection.
///
/// # Errors
/// When the socket has none.
pub fn local_address(fd: impl AsFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(fd)?;
    SocketAddr::try_from(address)
        .map(canonical)
        .map_err(|_| io::ErrorKind::AddrNotAvailable.into())
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests;
